//! A kernel's functions in C.

use crate::kernel::ir::{
    Access, Arguments, Block, Expr, Function, Kernel, Name, PointerType, Role, Type, ValueType,
};
use crate::print::{Language, Printer};
use ferrotrace_kernels::support::Need;
use ferrotrace_runtime::FAULT_SLOTS;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;

/// The text of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    /// Its functions, each of which gives the kernel's name as `FT_SYMBOL`.
    pub text: String,
    /// The support functions that they call.
    pub needs: BTreeSet<Need>,
}

/// Writes a kernel.
pub fn print(kernel: &Kernel) -> Printed {
    let mut printer = Printer::new(Language::C);
    let mut functions = String::new();
    for function in &kernel.functions {
        match &function.role {
            Role::Own(number, arguments, result) => printer.own(*number, arguments, *result),
            Role::Work => {
                printer.out.push_str(
                    "void FT_SYMBOL(const ft_args *a, long long begin, long long end, char *local) {\n",
                );
                printer.head(kernel, &function.block);
            }
            Role::Finish => {
                printer
                    .out
                    .push_str("void FT_SYMBOL_finish(const ft_args *a, char *local) {\n");
                printer.head(kernel, &function.block);
            }
        }
        printer.indent = 2;
        printer.block(&function.block);
        printer.out.push_str("}\n");
        functions.push_str(&printer.out);
        printer.out.clear();
    }
    let report = if printer.reports { REPORT } else { "" };
    Printed {
        text: [INTEGERS, report, &functions].concat(),
        needs: std::mem::take(printer.needs.set()),
    }
}

impl Printer<'_> {
    /// The head of a function of the kernel's own, which the compiler does not inline.
    fn own(&mut self, number: u32, arguments: &[ValueType], result: ValueType) {
        self.out.push_str("static __attribute__((noinline)) ");
        self.value_type(result);
        self.out.push_str(" FT_SYMBOL_f");
        self.number(number.into());
        self.out.push('(');
        for (i, ty) in (0u32..).zip(arguments) {
            self.out.push_str(if i == 0 { "" } else { ", " });
            self.value_type(*ty);
            self.out.push(' ');
            self.name(Name::Argument(i));
        }
        self.out.push_str(") {\n");
    }

    /// Constants at the start of a function: the arguments that it names.
    fn head(&mut self, kernel: &Kernel, block: &Block) {
        let mut named = FxHashSet::default();
        block.visit_names(&mut |name| _ = named.insert(name));
        let Arguments {
            params,
            pointers,
            numbers,
        } = &kernel.arguments;
        for i in (0..*params).filter(|i| named.contains(&Name::Param(*i))) {
            self.out.push_str("  const long long ");
            self.name(Name::Param(i));
            self.out.push_str(" = a->param[");
            self.number(i.into());
            self.out.push_str("];\n");
        }
        for (i, pointer) in (0u32..).zip(pointers) {
            if !named.contains(&Name::Pointer(i)) {
                continue;
            }
            self.out.push_str("  ");
            self.ty(Type::Pointer(*pointer));
            self.name(Name::Pointer(i));
            self.out.push_str(" = (");
            self.ty(Type::Pointer(*pointer));
            self.out.push_str(")a->ptr[");
            self.number(i.into());
            self.out.push_str("];\n");
        }
        for (i, number) in (0u32..).zip(numbers) {
            if !named.contains(&Name::Number(i)) {
                continue;
            }
            let dtype = number.compute();
            let ty = Type::Value(ValueType::Vector(dtype, kernel.lanes));
            let from = PointerType::global(ValueType::Scalar(dtype), Access::Read);
            let set = Function::Support("set", dtype, kernel.lanes);
            self.out.push_str("  const ");
            self.ty(ty);
            self.out.push(' ');
            self.name(Name::Number(i));
            self.out.push_str(" = ");
            let place = Expr::text(format!("&a->scalar[{i}]"));
            let number = place.cast(Type::Pointer(from)).dereference();
            self.expr(&Expr::call(set, [number]));
            self.out.push_str(";\n");
        }
    }
}

/// Integer functions of every kernel.
pub(super) const INTEGERS: &str = "\
#ifndef FT_INTEGERS
#define FT_INTEGERS
FT_INLINE long long ft_min(long long a, long long b) { return a < b ? a : b; }
FT_INLINE long long ft_max(long long a, long long b) { return a > b ? a : b; }
FT_INLINE long long ft_floor_div(long long a, long long b) { return a / b - (a % b < 0); }
FT_INLINE long long ft_floor_mod(long long a, long long b) { long long r = a % b; return r < 0 ? r + b : r; }
#endif
";

const _: () = assert!(
    FAULT_SLOTS == 32,
    "kernels find their slots by the last five bits"
);
/// The check of an index: wraps it once, reports it in its site's slot if it is out of range, and gives one that is in
/// range. Which of several is reported is left open, so that loads and stores do: compilers for AArch64 make exchanges
/// calls of a library that kernels are not linked with.
const REPORT: &str = "\
#ifndef FT_REPORT
#define FT_REPORT
static long ft_index(const ft_args *a, long i, long long size, long long site) {
  long at = i < 0 ? i + size : i;
  if (at >= 0 && at < size) return at;
  long long *slot = a->fault + 2 * (site & 31);
  if (!__atomic_load_n(&slot[0], __ATOMIC_RELAXED)) {
    __atomic_store_n(&slot[1], (long long)i, __ATOMIC_RELAXED);
    __atomic_store_n(&slot[0], site, __ATOMIC_RELEASE);
  }
  return 0;
}
#endif
";
