//! One element in its compute type, and the operators on it.

use ferrotrace_kernels::support::cast::{Cast, cast, round_bf16, round_f16};
use ferrotrace_kernels::support::integer::Integer;
use ferrotrace_kernels::support::math;
use ferrotrace_kernels::{BinaryOp, UnaryOp};
use ferrotrace_runtime::{Buffer, DType, Device, Error, Result, Scalar};
use half::{bf16, f16};

/// A value of a compute type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Datum {
    Bool(bool),
    U8(u8),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    F32(f32),
    F64(f64),
}

use Datum::*;

macro_rules! each {
    ($value:expr, $x:ident => $e:expr) => {
        match $value {
            Bool($x) => $e,
            U8($x) => $e,
            I8($x) => $e,
            I16($x) => $e,
            I32($x) => $e,
            I64($x) => $e,
            F32($x) => $e,
            F64($x) => $e,
        }
    };
}

impl Datum {
    /// The element at a position of a buffer of this dtype; `None` outside.
    pub fn read(buffer: &Buffer, dtype: DType, at: i64) -> Option<Datum> {
        let at = usize::try_from(at).ok()?;
        Some(match dtype {
            DType::Bool => Bool(*buffer.as_slice::<u8>().get(at)? != 0),
            DType::U8 => U8(*buffer.as_slice().get(at)?),
            DType::I8 => I8(*buffer.as_slice().get(at)?),
            DType::I16 => I16(*buffer.as_slice().get(at)?),
            DType::I32 => I32(*buffer.as_slice().get(at)?),
            DType::I64 => I64(*buffer.as_slice().get(at)?),
            DType::F16 => F32(cast(*buffer.as_slice::<f16>().get(at)?)),
            DType::BF16 => F32(cast(*buffer.as_slice::<bf16>().get(at)?)),
            DType::F32 => F32(*buffer.as_slice().get(at)?),
            DType::F64 => F64(*buffer.as_slice().get(at)?),
        })
    }

    /// A buffer of these elements, rounded to `dtype`.
    ///
    /// # Errors
    /// Out of memory.
    pub fn write(elements: &[Datum], dtype: DType, device: &Device) -> Result<Buffer> {
        macro_rules! all {
            ($t:ty) => {
                Buffer::from_vec::<$t>(device, elements.iter().map(|e| each!(*e, x => cast(x))).collect())
            };
        }
        match dtype {
            DType::Bool => all!(bool),
            DType::U8 => all!(u8),
            DType::I8 => all!(i8),
            DType::I16 => all!(i16),
            DType::I32 => all!(i32),
            DType::I64 => all!(i64),
            DType::F16 => all!(f16),
            DType::BF16 => all!(bf16),
            DType::F32 => all!(f32),
            DType::F64 => all!(f64),
        }
    }

    /// A number rounded to a compute type.
    pub fn of(number: Scalar, dtype: DType) -> Datum {
        match number.cast(dtype) {
            Scalar::Bool(b) => Bool(b),
            Scalar::Int(i) => I64(i).cast(dtype),
            Scalar::Float(f) => F64(f).cast(dtype),
        }
    }

    /// The value's type.
    pub fn dtype(self) -> DType {
        match self {
            Bool(_) => DType::Bool,
            U8(_) => DType::U8,
            I8(_) => DType::I8,
            I16(_) => DType::I16,
            I32(_) => DType::I32,
            I64(_) => DType::I64,
            F32(_) => DType::F32,
            F64(_) => DType::F64,
        }
    }

    /// The value of an index; 0 of anything else.
    pub fn to_i64(self) -> i64 {
        if let I64(i) = self { i } else { 0 }
    }

    /// Whether the value is NaN.
    pub fn is_nan(self) -> bool {
        match self {
            F32(x) => x.is_nan(),
            F64(x) => x.is_nan(),
            _ => false,
        }
    }

    /// Conversion to a compute type.
    pub fn cast(self, to: DType) -> Datum {
        each!(self, x => match to {
            DType::Bool => Bool(cast(x)),
            DType::U8 => U8(cast(x)),
            DType::I8 => I8(cast(x)),
            DType::I16 => I16(cast(x)),
            DType::I32 => I32(cast(x)),
            DType::I64 => I64(cast(x)),
            DType::F64 => F64(cast(x)),
            _ => F32(cast(x)),
        })
    }

    /// Rounding to a half type, kept in binary32.
    ///
    /// # Errors
    /// The value is no binary32, or the type no half type.
    pub fn round(self, half: DType) -> Result<Datum> {
        match (self, half) {
            (F32(x), DType::F16) => Ok(F32(round_f16(x))),
            (F32(x), DType::BF16) => Ok(F32(round_bf16(x))),
            _ => Err(Error::internal(format!("{self:?} is rounded to {half}"))),
        }
    }

    /// An operator on one value.
    ///
    /// # Errors
    /// The operator does not take the type.
    pub fn unary(op: UnaryOp, a: Datum) -> Result<Datum> {
        let value = match a {
            Bool(x) => match op {
                UnaryOp::Abs | UnaryOp::Sign => Some(a),
                UnaryOp::LogicalNot | UnaryOp::BitwiseNot => Some(Bool(!x)),
                UnaryOp::IsNan | UnaryOp::IsInf => Some(Bool(false)),
                UnaryOp::IsFinite => Some(Bool(true)),
                _ => None,
            },
            U8(x) => integer(op, x, U8),
            I8(x) => integer(op, x, I8),
            I16(x) => integer(op, x, I16),
            I32(x) => integer(op, x, I32),
            I64(x) => integer(op, x, I64),
            F32(x) => float_f32(op, x),
            F64(x) => float_f64(op, x),
        };
        value.ok_or_else(|| Error::internal(format!("{} of {a:?}", op.name())))
    }

    /// An operator on two values of one type.
    ///
    /// # Errors
    /// The types differ, or the operator does not take them.
    pub fn binary(op: BinaryOp, a: Datum, b: Datum) -> Result<Datum> {
        use BinaryOp as B;
        let value = match (a, b) {
            (Bool(x), Bool(y)) => match op {
                B::Add | B::Maximum | B::BitwiseOr | B::LogicalOr => Some(Bool(x | y)),
                B::Mul | B::Minimum | B::BitwiseAnd | B::LogicalAnd => Some(Bool(x & y)),
                B::BitwiseXor | B::LogicalXor => Some(Bool(x ^ y)),
                _ => compare(op, x, y),
            },
            (U8(x), U8(y)) => compare(op, x, y).or_else(|| arithmetic_u8(op, x, y)),
            (I8(x), I8(y)) => compare(op, x, y).or_else(|| arithmetic_i8(op, x, y)),
            (I16(x), I16(y)) => compare(op, x, y).or_else(|| arithmetic_i16(op, x, y)),
            (I32(x), I32(y)) => compare(op, x, y).or_else(|| arithmetic_i32(op, x, y)),
            (I64(x), I64(y)) => compare(op, x, y).or_else(|| arithmetic_i64(op, x, y)),
            (F32(x), F32(y)) => compare(op, x, y).or_else(|| arithmetic_f32(op, x, y)),
            (F64(x), F64(y)) => compare(op, x, y).or_else(|| arithmetic_f64(op, x, y)),
            _ => None,
        };
        value.ok_or_else(|| Error::internal(format!("{} of {a:?} and {b:?}", op.name())))
    }
}

fn compare<T: PartialOrd>(op: BinaryOp, x: T, y: T) -> Option<Datum> {
    Some(Bool(match op {
        BinaryOp::Eq => x == y,
        BinaryOp::Ne => x != y,
        BinaryOp::Lt => x < y,
        BinaryOp::Le => x <= y,
        BinaryOp::Gt => x > y,
        BinaryOp::Ge => x >= y,
        _ => return None,
    }))
}

fn integer<T: Integer + Cast<bool> + std::ops::Not<Output = T>>(
    op: UnaryOp,
    x: T,
    of: impl Fn(T) -> Datum,
) -> Option<Datum> {
    use UnaryOp::*;
    Some(match op {
        Abs => of(x.abs()),
        Neg => of(x.neg()),
        Sign => of(x.sign()),
        Square => of(x.square()),
        Relu => of(x.relu()),
        Floor | Ceil | Round | Trunc => of(x),
        LogicalNot => Bool(!cast::<T, bool>(x)),
        BitwiseNot => of(!x),
        IsNan | IsInf => Bool(false),
        IsFinite => Bool(true),
        _ => return None,
    })
}

macro_rules! float {
    ($unary:ident, $binary:ident, $t:ident, $of:ident) => {
        fn $unary(op: UnaryOp, x: $t) -> Option<Datum> {
            use UnaryOp::*;
            Some($of(match op {
                Abs => math::abs(x),
                Neg => -x,
                Sign => math::sign(x),
                Exp => math::exp(x),
                Exp2 => math::exp2(x),
                Expm1 => math::expm1(x),
                Log => math::log(x),
                Log2 => math::log2(x),
                Log10 => math::log10(x),
                Log1p => math::log1p(x),
                Sqrt => math::sqrt(x),
                Rsqrt => math::rsqrt(x),
                Recip => math::recip(x),
                Square => math::square(x),
                Sin => math::sin(x),
                Cos => math::cos(x),
                Tan => math::tan(x),
                Asin => math::asin(x),
                Acos => math::acos(x),
                Atan => math::atan(x),
                Sinh => math::sinh(x),
                Cosh => math::cosh(x),
                Tanh => math::tanh(x),
                Asinh => math::asinh(x),
                Acosh => math::acosh(x),
                Atanh => math::atanh(x),
                Erf => math::erf(x),
                Erfc => math::erfc(x),
                Floor => math::floor(x),
                Ceil => math::ceil(x),
                Round => math::round(x),
                Trunc => math::trunc(x),
                Sigmoid => math::sigmoid(x),
                Relu => math::relu(x),
                LogicalNot => return Some(Bool(x == 0.0)),
                IsNan => return Some(Bool(x.is_nan())),
                IsInf => return Some(Bool(x.is_infinite())),
                IsFinite => return Some(Bool(x.is_finite())),
                BitwiseNot => return None,
            }))
        }

        fn $binary(op: BinaryOp, x: $t, y: $t) -> Option<Datum> {
            use BinaryOp::*;
            Some($of(match op {
                Add => x + y,
                Sub => x - y,
                Mul => x * y,
                Div => x / y,
                FloorDiv => math::floor_divide(x, y),
                Mod => math::remainder(x, y),
                Fmod => math::fmod(x, y),
                Pow => math::pow(x, y),
                Maximum => math::maximum(x, y),
                Minimum => math::minimum(x, y),
                Atan2 => math::atan2(x, y),
                _ => return None,
            }))
        }
    };
}

macro_rules! arithmetic {
    ($binary:ident, $t:ident, $of:ident) => {
        fn $binary(op: BinaryOp, x: $t, y: $t) -> Option<Datum> {
            use BinaryOp::*;
            Some($of(match op {
                Add => x.wrapping_add(y),
                Sub => x.wrapping_sub(y),
                Mul => x.wrapping_mul(y),
                FloorDiv => Integer::floor_divide(x, y),
                Mod => Integer::remainder(x, y),
                Fmod => Integer::fmod(x, y),
                Pow => Integer::pow(x, y),
                Maximum => x.max(y),
                Minimum => x.min(y),
                BitwiseAnd => x & y,
                BitwiseOr => x | y,
                BitwiseXor => x ^ y,
                Shl => Integer::shl(x, y),
                Shr => Integer::shr(x, y),
                Gcd => Integer::gcd(x, y),
                _ => return None,
            }))
        }
    };
}

float!(float_f32, arithmetic_f32, f32, F32);
float!(float_f64, arithmetic_f64, f64, F64);
arithmetic!(arithmetic_u8, u8, U8);
arithmetic!(arithmetic_i8, i8, I8);
arithmetic!(arithmetic_i16, i16, I16);
arithmetic!(arithmetic_i32, i32, I32);
arithmetic!(arithmetic_i64, i64, I64);
