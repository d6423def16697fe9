//! Types in CUDA C++.

use crate::kernel::ir::ValueType;
use ferrotrace_kernels::support::scalar_type;
use ferrotrace_runtime::DType;

/// The type of a value. Threads compute one element: there are no vectors.
pub(crate) fn value_type(ty: ValueType) -> &'static str {
    match ty {
        ValueType::Index => "ft_int",
        ValueType::Divisor => "ft_divisor",
        ValueType::Word => "unsigned",
        ValueType::LongWord => "unsigned long long",
        ValueType::Words => "uint4",
        ValueType::Byte => "char",
        ValueType::Memory(dtype) => memory_type(dtype),
        ValueType::Scalar(dtype) | ValueType::Vector(dtype, _) => scalar_type(dtype),
    }
}

/// The type of an element in memory.
pub(crate) fn memory_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "unsigned char",
        DType::F16 | DType::BF16 => "unsigned short",
        other => scalar_type(other),
    }
}
