//! Types in C.

use crate::kernel::ir::ValueType;
use crate::print::Printer;
use ferrotrace_kernels::support;
use ferrotrace_runtime::DType;

impl Printer<'_> {
    pub(in crate::print) fn c_value_type(&mut self, ty: ValueType) {
        let text = match ty {
            // C divides by a number of 64 bits as it is.
            ValueType::Index | ValueType::Divisor => "long long",
            ValueType::Words | ValueType::Word => "unsigned",
            ValueType::LongWord => "unsigned long",
            ValueType::Byte => "char",
            ValueType::Memory(dtype) => memory_type(dtype),
            ValueType::Scalar(dtype) => lane_type(dtype),
            ValueType::Vector(dtype, lanes) => {
                self.out.push_str(support::c_type(dtype, lanes.into()));
                self.out.push('x');
                return self.number(lanes.into());
            }
        };
        self.out.push_str(text);
    }
}

/// The type of an element in memory.
pub(crate) fn memory_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool | DType::U8 => "unsigned char",
        DType::I8 => "signed char",
        DType::I16 => "short",
        DType::F16 | DType::BF16 => "unsigned short",
        DType::I32 => "int",
        DType::I64 => "long",
        DType::F32 => "float",
        DType::F64 => "double",
    }
}

/// The type of one lane of a value.
pub(crate) fn lane_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "int",
        other => memory_type(other.compute()),
    }
}
