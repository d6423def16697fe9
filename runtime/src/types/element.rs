//! Rust types that are elements of tensors.

use crate::DType;
use half::{bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that can be the element of a tensor at the host border.
pub trait Element:
    Copy + Send + Sync + std::fmt::Debug + PartialEq + 'static + sealed::Sealed
{
    /// The dtype of a tensor of this type.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($t:ty => $d:ident),* $(,)?) => {$(
        impl sealed::Sealed for $t {}
        impl Element for $t {
            const DTYPE: DType = DType::$d;
        }
    )*};
}

elements! {
    bool => Bool, u8 => U8, i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    f16 => F16, bf16 => BF16, f32 => F32, f64 => F64,
}
