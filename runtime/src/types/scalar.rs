//! Numbers given as operands of a tensor operation.

use crate::{Category, DType};
use half::{bf16, f16};
use std::fmt;

/// A number of any Rust type, kept without loss: integers in 64 bits, floats in binary64.
///
/// As an operand it takes part in promotion by its category alone, as Python's numbers do in PyTorch.
///
/// # Numbers that a dtype does not have
/// Where a number becomes an element by itself (`full`, `full_like`, `scalar`, `masked_fill`, `where_cond`, the value of
/// `pad`, the ends of `linspace`, the range of `randint`), bounds results (`clamp`, `clamp_min`, `clamp_max`) or is an
/// exponent, it has to [fit](Self::fits) the dtype: otherwise the result carries an error. `scalar` and
/// `where_cond` round any number to a half-precision type, to infinities beyond its range. Bounds need not fit on the
/// side on which they change nothing. Arithmetic takes a number modulo the range of an integer type, and rounds it to a
/// floating-point type; comparisons take it as it is.
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

    /// Whether the number can become an element of `dtype`, by PyTorch's rule: a truth value is true of any number but 0;
    /// an integer type takes what lies in its range (a fraction loses its digits, NaN and infinities do not fit; `U8`
    /// takes −255 to −1 as well, modulo 256); a floating-point type takes NaN, infinities, and what is no greater than its
    /// greatest number.
    ///
    /// ```
    /// use ferrotrace_runtime::{DType, Scalar};
    /// assert!(Scalar::from(3.7).fits(DType::U8) && !Scalar::from(300).fits(DType::U8));
    /// assert!(Scalar::from(f64::INFINITY).fits(DType::F16) && !Scalar::from(1e6).fits(DType::F16));
    /// ```
    pub fn fits(self, dtype: DType) -> bool {
        if let Some((low, high)) = dtype.int_range() {
            return match self {
                Scalar::Bool(_) => true,
                Scalar::Int(i) => i <= high && (i >= low || (dtype == DType::U8 && i >= -high)),
                // The greatest i64 rounds to 2⁶³ in binary64, which is no i64 any more: the range ends before it.
                Scalar::Float(f) if dtype == DType::I64 => (low as f64..-(low as f64)).contains(&f),
                Scalar::Float(f) => (low as f64..=high as f64).contains(&f),
            };
        }
        let greatest = match dtype {
            DType::F16 => f16::MAX.to_f64(),
            DType::BF16 => bf16::MAX.to_f64(),
            DType::F32 => f32::MAX as f64,
            _ => return true,
        };
        let value = self.to_f64();
        !value.is_finite() || value.abs() <= greatest
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

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(b) => b.fmt(f),
            Scalar::Int(i) => i.fmt(f),
            Scalar::Float(x) => write!(f, "{x:?}"),
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
    u8 => Int via i64, u16 => Int via i64, u32 => Int via i64, f64 => Float via f64,
    f16 => Float via f64, bf16 => Float via f64,
}

impl From<f32> for Scalar {
    #[inline]
    fn from(value: f32) -> Scalar {
        if value.is_subnormal() {
            // A subnormal number is converted by its bits: a conversion may flush it to zero, as the thread's
            // environment says.
            let bits = value.to_bits();
            let size = (bits & 0x7f_ffff) as f64 * f64::from_bits((1023 - 149) << 52);
            return Scalar::Float(if bits >> 31 == 0 { size } else { -size });
        }
        Scalar::Float(value as f64)
    }
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
    fn subnormal_numbers_keep_their_value() {
        for bits in [1u32, 2, 0x7f_ffff, 0x40_0001, 0x8000_0001, 0x807f_ffff] {
            let value = f32::from_bits(bits);
            assert_eq!(Scalar::from(value).to_f64(), f64::from(value));
        }
    }

    #[test]
    fn what_fits() {
        let (int, float) = (|i: i64| Scalar::Int(i), |f: f64| Scalar::Float(f));
        for (number, dtype, fits) in [
            (int(255), DType::U8, true),
            (int(256), DType::U8, false),
            (int(-255), DType::U8, true),
            (int(-256), DType::U8, false),
            (float(-0.5), DType::U8, false),
            (float(-0.5), DType::I8, true),
            (float(255.5), DType::U8, false),
            (int(-129), DType::I8, false),
            (int(1 << 40), DType::I32, false),
            (float(-9223372036854775808.0), DType::I64, true),
            (float(9223372036854775808.0), DType::I64, false),
            (float(f64::NAN), DType::I64, false),
            (float(f64::NAN), DType::F16, true),
            (float(f64::NEG_INFINITY), DType::BF16, true),
            (int(65504), DType::F16, true),
            (int(65505), DType::F16, false),
            (float(3.5e38), DType::F32, false),
            (float(3.5e38), DType::F64, true),
            (float(f64::NAN), DType::Bool, true),
            (Scalar::Bool(true), DType::U8, true),
        ] {
            assert_eq!(number.fits(dtype), fits, "{number} as {dtype}");
        }
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
