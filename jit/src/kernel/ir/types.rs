//! Types of the kernel IR.

use ferrotrace_kernels::support::mask_dtype;
use ferrotrace_runtime::DType;

/// What a variable holds or an expression gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Nothing: what a store gives.
    Void,
    /// A value.
    Value(ValueType),
    /// A place in memory.
    Pointer(PointerType),
}

/// A value that a register holds, or an element of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// A position or a size: 64 bits; on a device 32 where a proof says that they suffice.
    Index,
    /// What divides numbers that are not negative.
    Divisor,
    /// 32 bits without a sign.
    Word,
    /// 64 bits without a sign.
    LongWord,
    /// 16 bytes of words, which one access of a device reads or writes.
    Words,
    /// A byte of memory whose type is not known.
    Byte,
    /// An element as it lies in memory: a half value as its 16 bits, a truth value as a byte.
    Memory(DType),
    /// One computed value: a half value as binary32, a truth value as an integer.
    Scalar(DType),
    /// So many computed values; a truth value is all bits of 32, or none.
    Vector(DType, u16),
}

/// A place in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PointerType {
    /// What lies there.
    pub to: ValueType,
    /// Which memory it is.
    pub space: Space,
    /// Whether it may be written.
    pub access: Access,
    /// Whether a vector may begin at any element, not at multiples of its size alone.
    pub unaligned: bool,
    /// How many indices more lead to an element, where arrays lie there.
    pub nested: u8,
}

/// Memory that a pointer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Memory of tensors, which all threads see.
    Global,
    /// Memory of a block, which its threads share.
    Shared,
    /// Memory of one thread.
    Private,
}

/// What may be done through a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and writing.
    Write,
}

impl Type {
    /// Positions and sizes.
    pub const INDEX: Type = Type::Value(ValueType::Index);
    /// A 32-bit integer.
    pub const INT: Type = Type::Value(ValueType::Scalar(DType::I32));
    /// A 64-bit integer, of which vectors are made.
    pub const LONG: Type = Type::Value(ValueType::Scalar(DType::I64));

    /// A vector of computed values.
    pub fn vector(dtype: DType, lanes: usize) -> Type {
        Type::Value(ValueType::vector(dtype, lanes))
    }

    /// One computed value.
    pub fn scalar(dtype: DType) -> Type {
        Type::Value(ValueType::Scalar(dtype))
    }

    /// A place in global memory of elements that are read.
    pub fn read(to: ValueType) -> Type {
        Type::Pointer(PointerType::global(to, Access::Read))
    }

    /// A place in global memory of elements that are read and written.
    pub fn write(to: ValueType) -> Type {
        Type::Pointer(PointerType::global(to, Access::Write))
    }

    /// Whether it is an integer without lanes.
    pub fn is_integer(&self) -> bool {
        match self {
            Type::Value(ValueType::Scalar(dtype) | ValueType::Memory(dtype)) => !dtype.is_float(),
            Type::Value(value) => !matches!(
                value,
                ValueType::Vector(..) | ValueType::Divisor | ValueType::Words
            ),
            _ => false,
        }
    }

    /// Whether it is a number without lanes.
    pub fn is_scalar(&self) -> bool {
        matches!(self, Type::Value(value) if !matches!(value, ValueType::Vector(..) | ValueType::Divisor | ValueType::Words))
    }

    /// The lanes of a vector.
    pub fn lanes(&self) -> Option<usize> {
        match self {
            Type::Value(ValueType::Vector(_, lanes)) => Some(*lanes as usize),
            _ => None,
        }
    }
}

impl ValueType {
    /// A vector of computed values.
    pub fn vector(dtype: DType, lanes: usize) -> ValueType {
        // Lanes are those of one vector register: at most 64.
        ValueType::Vector(dtype, lanes as u16)
    }

    /// How values of a computed dtype are represented in vectors of so many lanes: a half value is computed in binary32, a truth
    /// value is an integer of 32 bits, or a byte among many.
    pub fn representation(dtype: DType, lanes: u16) -> DType {
        match dtype.compute() {
            DType::Bool => mask_dtype(lanes.into()),
            other => other,
        }
    }
}

impl PointerType {
    /// A place in global memory.
    pub fn global(to: ValueType, access: Access) -> PointerType {
        PointerType {
            to,
            space: Space::Global,
            access,
            unaligned: false,
            nested: 0,
        }
    }

    /// An array of a thread or of a block, with so many dimensions.
    pub fn array(to: ValueType, space: Space, dimensions: usize) -> PointerType {
        PointerType {
            space,
            // An array has at most three.
            nested: dimensions.saturating_sub(1) as u8,
            ..PointerType::global(to, Access::Write)
        }
    }
}

impl From<ValueType> for Type {
    fn from(value: ValueType) -> Type {
        Type::Value(value)
    }
}
