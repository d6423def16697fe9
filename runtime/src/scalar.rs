//! Numbers given as operands of a tensor operation.

use crate::{Category, DType};
use half::{bf16, f16};

/// A number of any Rust type, kept without loss: integers in 64 bits, floats in binary64.
///
/// As an operand it takes part in promotion by its category alone, as Python's numbers do in PyTorch.
#[derive(Clone, Copy, Debug)]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
}

impl Scalar {
    /// The promotion category.
    pub fn category(self) -> Category {
        match self {
            Scalar::Bool(_) => Category::Bool,
            Scalar::Int(_) => Category::Int,
            Scalar::Float(_) => Category::Float,
        }
    }

    /// The dtype a tensor made of this number alone gets: `Bool`, `I64` or `F32`.
    pub fn default_dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(_) => DType::I64,
            Scalar::Float(_) => DType::F32,
        }
    }

    /// The value as binary64 (integers round to nearest).
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => b as u8 as f64,
            Scalar::Int(i) => i as f64,
            Scalar::Float(f) => f,
        }
    }

    /// The value as a 64-bit integer (floats truncate and saturate, NaN is 0).
    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Bool(b) => b as i64,
            Scalar::Int(i) => i,
            Scalar::Float(f) => f as i64,
        }
    }

    /// Whether the value is not zero (NaN is true).
    pub fn to_bool(self) -> bool {
        match self {
            Scalar::Bool(b) => b,
            Scalar::Int(i) => i != 0,
            Scalar::Float(f) => f != 0.0,
        }
    }

    /// The value rounded to `dtype`.
    pub fn cast(self, dtype: DType) -> Scalar {
        match dtype {
            DType::Bool => Scalar::Bool(self.to_bool()),
            DType::U8 => Scalar::Int(match self {
                Scalar::Float(f) => f as u8 as i64,
                other => other.to_i64() as u8 as i64,
            }),
            DType::I8 => Scalar::Int(match self {
                Scalar::Float(f) => f as i8 as i64,
                other => other.to_i64() as i8 as i64,
            }),
            DType::I16 => Scalar::Int(match self {
                Scalar::Float(f) => f as i16 as i64,
                other => other.to_i64() as i16 as i64,
            }),
            DType::I32 => Scalar::Int(match self {
                Scalar::Float(f) => f as i32 as i64,
                other => other.to_i64() as i32 as i64,
            }),
            DType::I64 => Scalar::Int(self.to_i64()),
            DType::F16 => Scalar::Float(f16::from_f64(self.to_f64()).to_f64()),
            DType::BF16 => Scalar::Float(bf16::from_f64(self.to_f64()).to_f64()),
            DType::F32 => Scalar::Float(match self {
                Scalar::Int(i) => i as f32 as f64,
                other => other.to_f64() as f32 as f64,
            }),
            DType::F64 => Scalar::Float(self.to_f64()),
        }
    }

    /// The bits of the value in the compute type of `dtype` (binary32 for the half types), in the low bytes:
    /// the form in which kernels receive it.
    pub fn to_bits(self, dtype: DType) -> u64 {
        match self.cast(dtype) {
            Scalar::Bool(b) => b as u64,
            Scalar::Int(i) => i as u64,
            Scalar::Float(f) if dtype == DType::F64 => f.to_bits(),
            Scalar::Float(f) => (f as f32).to_bits() as u64,
        }
    }
}

macro_rules! scalar_from {
    ($($t:ty => $variant:ident via $via:ty),* $(,)?) => {$(
        impl From<$t> for Scalar {
            fn from(value: $t) -> Scalar {
                Scalar::$variant(<$via>::from(value) as _)
            }
        }
    )*};
}

scalar_from! {
    bool => Bool via bool, i8 => Int via i64, i16 => Int via i64, i32 => Int via i64, i64 => Int via i64,
    u8 => Int via i64, u16 => Int via i64, u32 => Int via i64, f32 => Float via f64, f64 => Float via f64,
    f16 => Float via f64, bf16 => Float via f64,
}

impl From<usize> for Scalar {
    fn from(value: usize) -> Scalar {
        Scalar::Int(value as i64)
    }
}

impl From<isize> for Scalar {
    fn from(value: isize) -> Scalar {
        Scalar::Int(value as i64)
    }
}

impl From<u64> for Scalar {
    fn from(value: u64) -> Scalar {
        Scalar::Int(value as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_keep_64_bits() {
        assert_eq!(Scalar::from(i64::MAX).to_i64(), i64::MAX);
        assert_eq!(Scalar::from(u64::MAX).to_i64(), -1);
    }

    #[test]
    fn bits_are_those_of_the_compute_type() {
        assert_eq!(
            Scalar::from(1.5).to_bits(DType::F16),
            1.5f32.to_bits() as u64
        );
        assert_eq!(Scalar::from(0.1).to_bits(DType::F64), 0.1f64.to_bits());
        assert_eq!(Scalar::from(-1).to_bits(DType::I32), u64::MAX);
        assert_eq!(Scalar::from(300).to_bits(DType::U8), 44);
    }
}
