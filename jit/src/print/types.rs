//! Types: pointers as C has them, values as the language has them.

use super::{Language, Printer};
use crate::kernel::ir::{Access, Type, ValueType};

impl Printer<'_> {
    pub(super) fn ty(&mut self, ty: Type) {
        let pointer = match ty {
            Type::Void => return self.out.push_str("void"),
            Type::Value(value) => return self.value_type(value),
            Type::Pointer(pointer) => pointer,
        };
        if pointer.access == Access::Read {
            self.out.push_str("const ");
        }
        self.value_type(pointer.to);
        self.out
            .push_str(if pointer.unaligned { "u *" } else { " *" });
    }

    pub(super) fn value_type(&mut self, ty: ValueType) {
        match self.language {
            Language::C => self.c_value_type(ty),
            Language::Cuda => self.out.push_str(super::cuda::value_type(ty)),
        }
    }
}
