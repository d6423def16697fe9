//! The pointwise kernels of one operand.

use crate::UnaryOp::{self, *};
use crate::cpu::isa::{Loop, dispatch};
use crate::cpu::pointwise::Kernel;
use crate::support::integer::Integer;
use crate::support::math;
use ferrotrace_runtime::DType;
use std::mem::MaybeUninit;

/// A kernel that computes `$e` from each `$x`.
macro_rules! kernel {
    ($A:ty => $B:ty, |$x:ident| $e:expr) => {{
        struct Each {
            n: usize,
            x: *const $A,
            y: *mut $B,
        }
        impl Loop for Each {
            type Output = ();
            #[inline(always)]
            fn run(self) {
                for i in 0..self.n {
                    // SAFETY: who calls the kernel gives `n` elements of each array.
                    unsafe {
                        let $x = *self.x.add(i);
                        self.y.add(i).write($e);
                    }
                }
            }
        }
        unsafe fn run(n: usize, operands: [*const u8; 3], result: *mut u8) {
            dispatch(Each { n, x: operands[0].cast(), y: result.cast() });
        }
        Some(run as Kernel)
    }};
}

/// A kernel of a function of angles: `$near` in pieces whose angles are all small, which is faster and gives the same.
macro_rules! angle {
    ($T:ty, $near:ident, $far:ident) => {{
        struct Each {
            x: *const $T,
            y: *mut $T,
            n: usize,
        }
        impl Loop for Each {
            type Output = ();
            #[inline(always)]
            fn run(self) {
                const PIECE: usize = 512;
                // SAFETY: who calls the kernel gives `n` elements of each array, which do not overlap.
                let (x, y) = unsafe {
                    (
                        std::slice::from_raw_parts(self.x, self.n),
                        std::slice::from_raw_parts_mut(self.y.cast::<MaybeUninit<$T>>(), self.n),
                    )
                };
                for (x, y) in x.chunks(PIECE).zip(y.chunks_mut(PIECE)) {
                    let limit = <$T as math::Angle>::NEAR as $T;
                    let near = x.iter().fold(true, |near, x| near & (x.abs() <= limit));
                    if near {
                        for (x, y) in x.iter().zip(y) {
                            y.write(math::$near(*x));
                        }
                    } else {
                        for (x, y) in x.iter().zip(y) {
                            y.write(math::$far(*x));
                        }
                    }
                }
            }
        }
        unsafe fn run(n: usize, operands: [*const u8; 3], result: *mut u8) {
            dispatch(Each { n, x: operands[0].cast(), y: result.cast() });
        }
        Some(run as Kernel)
    }};
}

macro_rules! float {
    ($op:ident, $T:ident) => {
        match $op {
            Abs => kernel!($T => $T, |x| math::abs(x)),
            Neg => kernel!($T => $T, |x| -x),
            Sign => kernel!($T => $T, |x| math::sign(x)),
            Exp => kernel!($T => $T, |x| math::exp(x)),
            Exp2 => kernel!($T => $T, |x| math::exp2(x)),
            Expm1 => kernel!($T => $T, |x| math::expm1(x)),
            Log => kernel!($T => $T, |x| math::log(x)),
            Log2 => kernel!($T => $T, |x| math::log2(x)),
            Log10 => kernel!($T => $T, |x| math::log10(x)),
            Log1p => kernel!($T => $T, |x| math::log1p(x)),
            Sqrt => kernel!($T => $T, |x| math::sqrt(x)),
            Rsqrt => kernel!($T => $T, |x| math::rsqrt(x)),
            Recip => kernel!($T => $T, |x| math::recip(x)),
            Square => kernel!($T => $T, |x| math::square(x)),
            Sin => angle!($T, sin_near, sin),
            Cos => angle!($T, cos_near, cos),
            Tan => angle!($T, tan_near, tan),
            Asin => kernel!($T => $T, |x| math::asin(x)),
            Acos => kernel!($T => $T, |x| math::acos(x)),
            Atan => kernel!($T => $T, |x| math::atan(x)),
            Sinh => kernel!($T => $T, |x| math::sinh(x)),
            Cosh => kernel!($T => $T, |x| math::cosh(x)),
            Tanh => kernel!($T => $T, |x| math::tanh(x)),
            Asinh => kernel!($T => $T, |x| math::asinh(x)),
            Acosh => kernel!($T => $T, |x| math::acosh(x)),
            Atanh => kernel!($T => $T, |x| math::atanh(x)),
            Erf => kernel!($T => $T, |x| math::erf(x)),
            Erfc => kernel!($T => $T, |x| math::erfc(x)),
            Floor => kernel!($T => $T, |x| math::floor(x)),
            Ceil => kernel!($T => $T, |x| math::ceil(x)),
            Round => kernel!($T => $T, |x| math::round(x)),
            Trunc => kernel!($T => $T, |x| math::trunc(x)),
            Sigmoid => kernel!($T => $T, |x| math::sigmoid(x)),
            Relu => kernel!($T => $T, |x| math::relu(x)),
            LogicalNot => kernel!($T => bool, |x| x == 0.0),
            IsNan => kernel!($T => bool, |x| x != x),
            IsInf => kernel!($T => bool, |x| x.abs() == $T::INFINITY),
            IsFinite => kernel!($T => bool, |x| x.abs() < $T::INFINITY),
            BitwiseNot => None,
        }
    };
}

macro_rules! integer {
    ($op:ident, $T:ident) => {
        match $op {
            Abs => kernel!($T => $T, |x| Integer::abs(x)),
            Neg => kernel!($T => $T, |x| Integer::neg(x)),
            Sign => kernel!($T => $T, |x| Integer::sign(x)),
            Square => kernel!($T => $T, |x| Integer::square(x)),
            Relu => kernel!($T => $T, |x| Integer::relu(x)),
            Floor | Ceil | Round | Trunc => kernel!($T => $T, |x| x),
            LogicalNot => kernel!($T => bool, |x| x == 0),
            BitwiseNot => kernel!($T => $T, |x| !x),
            IsNan | IsInf => kernel!($T => bool, |_x| false),
            IsFinite => kernel!($T => bool, |_x| true),
            _ => None,
        }
    };
}

/// The kernel of an operator on elements of a compute type (no half type); `None` where the operator does not take it.
pub fn kernel(op: UnaryOp, dtype: DType) -> Option<Kernel> {
    match dtype {
        // Truth values are bytes 0 and 1.
        DType::Bool => match op {
            Abs | Sign => kernel!(u8 => u8, |x| x),
            LogicalNot | BitwiseNot => kernel!(u8 => u8, |x| x ^ 1),
            IsNan | IsInf => kernel!(u8 => u8, |_x| 0),
            IsFinite => kernel!(u8 => u8, |_x| 1),
            _ => None,
        },
        DType::U8 => integer!(op, u8),
        DType::I8 => integer!(op, i8),
        DType::I16 => integer!(op, i16),
        DType::I32 => integer!(op, i32),
        DType::I64 => integer!(op, i64),
        DType::F32 => float!(op, f32),
        DType::F64 => float!(op, f64),
        DType::F16 | DType::BF16 => None,
    }
}
