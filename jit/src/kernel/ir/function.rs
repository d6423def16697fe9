//! Functions that an expression may call.

use super::stmt::Meeting;
use super::types::{Type, ValueType};
use ferrotrace_kernels::{BinaryOp, UnaryOp};
use ferrotrace_runtime::DType;

/// A function. One that works on vectors says of what dtype and how many lanes; without lanes it works on one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// An operator of one value.
    Unary(UnaryOp, DType, u16),
    /// An operator of two values of one dtype.
    Binary(BinaryOp, DType, u16),
    /// A support function by its stem: `load` of `ft_load_f32x16`.
    Support(&'static str, DType, u16),
    /// The conversion of values of the first dtype to the second.
    Cast(DType, DType, u16),
    /// A matrix of vectors transposed on its way from one place to another: (from, distance, to, distance). Elements have so
    /// many bytes.
    Transpose(u16, u16),
    /// A matrix of vectors transposed at the edge of a tile: (from, distance, to, distance, elements, vectors). It reads so many
    /// elements of each of so many vectors, and writes whole vectors. Elements have so many bytes.
    TransposeEdge(u16, u16),
    /// Whether any lane of a mask is set.
    Any(u16),
    /// What makes stores past the cache visible.
    Fence(u16),
    /// Conversion lane by lane, between dtypes that are computed.
    Convert(DType, u16),
    /// The lesser of two integers.
    Least,
    /// The greater of two integers.
    Greatest,
    /// Division that rounds down.
    FloorDiv,
    /// What it leaves.
    FloorMod,
    /// An index, wrapped once and checked: (index, size, site).
    Check,
    /// Whether a number is neither zero, subnormal, infinite nor NaN.
    IsNormal,
    /// Asks for the memory at an address, for a cache of level 1 (3) or 2 (2).
    Prefetch(u8),
    /// Loads the elements of a chunk by as few accesses as their place allows: (to, place, how many count, and, where the
    /// chunk may begin before its row, the first that counts).
    LoadChunk(Cached),
    /// Stores them: (place, elements, how many count, and the first that counts).
    StoreChunk(Cached),
    /// An element of a chunk of bf16 that was loaded, two by two: (elements, position).
    ElementOf,
    /// Two numbers rounded to a half type, as one word, the first in its lower half.
    Pack(DType),
    /// A row's division, by the reciprocal of its divisor.
    Divide,
    /// An index, wrapped once and kept in range, of those that were checked before: (index, size, site).
    Within,
    /// What another lane of the warp gives for a value of this dtype: (value, distance or lane).
    Shuffle(Shuffle, DType),
    /// The greater of two numbers of binary32, or NaN where one is.
    Maximum,
    /// The lesser, or NaN.
    Minimum,
    /// Adds a number to a sum, and what that rounds away to another: (sum, rest, number).
    TwoSum,
    /// A sum and what its additions rounded away, unless that is NaN: (sum, rest).
    BothParts,
    /// 16 bytes of words that are zero.
    NoWords,
    /// Adds to memory in one step, and gives what was there: (place, number).
    AtomicAdd,
    /// What an operation gives of two values: (operation, left, right).
    Apply(DType),
    /// Folds the elements that a thread holds of each chunk, and a warp's threads of each: (elements, folds, operation).
    Prefix,
    /// Joins what lies before a tile's elements to them, the carry first, to which the second operation adds: (elements,
    /// folds, carry, the folds of a block's warps, identity, operation, operation on the carry). A block has so many warps.
    Behind(u32),
    /// Leaves the fold of a tile for the blocks that wait for it: (place, fold).
    Post,
    /// Waits for the folds of a row before a tile and joins them, with so many bytes between two: (place of the first, tile,
    /// tiles of a row, the tile's own fold, identity, operation).
    Before(u32, DType),
    /// The floating-point number with these bits.
    OfBits(DType),
    /// A function of the kernel's own, that is not inlined; and what it gives.
    Own(u32, ValueType),
}

/// Which lane gives its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shuffle {
    /// The one whose number differs in these bits.
    Xor,
    /// The one so many lanes on.
    Down,
    /// The one with this number.
    From,
}

/// Whether memory stays in the cache behind an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cached {
    /// It does.
    Stays,
    /// It is needed once.
    Leaves,
}

impl Function {
    /// What a call gives.
    pub fn result(&self) -> Type {
        match *self {
            Function::Unary(op, dtype, lanes) => {
                Type::from(lane(op.result_dtype(dtype.compute()), lanes))
            }
            Function::Binary(op, dtype, lanes) => {
                Type::from(lane(op.result_dtype(dtype.compute()), lanes))
            }
            Function::Support(stem, dtype, lanes) => support_result(stem, dtype, lanes),
            Function::Cast(_, dtype, lanes) | Function::Convert(dtype, lanes) => {
                Type::from(lane(dtype, lanes))
            }
            Function::Transpose(..)
            | Function::TransposeEdge(..)
            | Function::Fence(_)
            | Function::Prefetch(_)
            | Function::LoadChunk(_)
            | Function::StoreChunk(_)
            | Function::TwoSum
            | Function::Prefix
            | Function::Behind(_)
            | Function::Post => Type::Void,
            Function::Shuffle(_, dtype) | Function::Apply(dtype) | Function::Before(_, dtype) => {
                Type::scalar(dtype)
            }
            Function::Maximum | Function::Minimum | Function::BothParts => Type::scalar(DType::F32),
            Function::AtomicAdd => Type::Value(ValueType::Word),
            Function::NoWords => Type::Value(ValueType::Words),
            Function::ElementOf => Type::scalar(DType::F32),
            Function::Pack(_) => Type::Value(ValueType::Word),
            Function::OfBits(dtype) => Type::scalar(dtype),
            // Of both floating-point types.
            Function::Divide => Type::scalar(DType::F64),
            Function::Any(_) | Function::IsNormal => Type::INT,
            Function::Check | Function::Within => Type::LONG,
            Function::Least | Function::Greatest | Function::FloorDiv | Function::FloorMod => {
                Type::INDEX
            }
            Function::Own(_, result) => Type::from(result),
        }
    }

    /// How many arguments it takes, if that follows from its name.
    pub fn arity(&self) -> Option<usize> {
        match self {
            Function::Unary(..)
            | Function::Cast(..)
            | Function::Convert(..)
            | Function::Any(_)
            | Function::IsNormal
            | Function::Prefetch(_)
            | Function::OfBits(_) => Some(1),
            Function::Binary(..)
            | Function::Least
            | Function::Greatest
            | Function::FloorDiv
            | Function::FloorMod
            | Function::ElementOf
            | Function::Pack(_)
            | Function::Divide
            | Function::Shuffle(..)
            | Function::Maximum
            | Function::Minimum
            | Function::BothParts
            | Function::AtomicAdd
            | Function::Post => Some(2),
            Function::Check
            | Function::Within
            | Function::TwoSum
            | Function::Apply(_)
            | Function::Prefix => Some(3),
            Function::Before(..) => Some(6),
            Function::Behind(_) => Some(7),
            Function::Transpose(..) => Some(4),
            Function::TransposeEdge(..) => Some(6),
            Function::Fence(_) | Function::NoWords => Some(0),
            Function::Support(..)
            | Function::Own(..)
            | Function::LoadChunk(_)
            | Function::StoreChunk(_) => None,
        }
    }
}

impl Function {
    /// The positions of the arguments that are operations.
    pub fn operations(&self) -> &'static [usize] {
        match self {
            Function::Apply(_) => &[0],
            Function::Prefix => &[2],
            Function::Behind(_) => &[5, 6],
            Function::Before(..) => &[5],
            _ => &[],
        }
    }

    /// The positions of the arguments that it changes: variables, or arrays.
    pub fn changes(&self) -> &'static [usize] {
        match self {
            Function::LoadChunk(_) => &[0],
            Function::TwoSum | Function::Prefix => &[0, 1],
            Function::Behind(_) => &[0, 2],
            _ => &[],
        }
    }

    /// The threads that call it together, if it is not each for itself.
    pub fn meeting(&self) -> Option<Meeting> {
        match self {
            Function::Shuffle(..)
            | Function::Prefix
            | Function::Behind(_)
            | Function::Before(..) => Some(Meeting::Warp),
            _ => None,
        }
    }
}

fn lane(dtype: DType, lanes: u16) -> ValueType {
    match lanes {
        0 => ValueType::Scalar(dtype),
        _ => ValueType::Vector(dtype, lanes),
    }
}

/// What a support function gives: of most, a vector of its dtype.
fn support_result(stem: &str, dtype: DType, lanes: u16) -> Type {
    match stem {
        "store" | "storen" | "stream" | "two_sum" | "carry" => Type::Void,
        _ if ["four_", "rows", "interleave"]
            .iter()
            .any(|of| stem.starts_with(of)) =>
        {
            Type::Void
        }
        "hsum" | "hprod" | "hany" | "hall" | "hmax" | "hmin" | "hmax_of" | "hmin_of" => {
            Type::scalar(dtype)
        }
        "nans" | "outside" => Type::Value(ValueType::Word),
        "above" | "below" => Type::from(lane(DType::I64, lanes)),
        "to" if lanes == 0 => Type::Value(ValueType::Memory(dtype)),
        _ => Type::from(lane(dtype, lanes)),
    }
}
