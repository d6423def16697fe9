//! The pointwise kernels of two operands, and the choice between two.

use crate::BinaryOp::{self, *};
use crate::cpu::isa::{Loop, dispatch};
use crate::cpu::pointwise::Kernel;
use crate::support::integer::Integer;
use crate::support::math;
use ferrotrace_runtime::DType;

/// A kernel that computes `$e` from each `$x` and `$y`.
macro_rules! kernel {
    ($A:ty => $B:ty, |$x:ident, $y:ident| $e:expr) => {{
        struct Each {
            n: usize,
            x: *const $A,
            y: *const $A,
            z: *mut $B,
        }
        impl Loop for Each {
            type Output = ();
            #[inline(always)]
            fn run(self) {
                for i in 0..self.n {
                    // SAFETY: who calls the kernel gives `n` elements of each array.
                    unsafe {
                        let ($x, $y) = (*self.x.add(i), *self.y.add(i));
                        self.z.add(i).write($e);
                    }
                }
            }
        }
        unsafe fn run(n: usize, operands: [*const u8; 3], result: *mut u8) {
            dispatch(Each { n, x: operands[0].cast(), y: operands[1].cast(), z: result.cast() });
        }
        Some(run as Kernel)
    }};
}

macro_rules! float {
    ($op:ident, $T:ident) => {
        match $op {
            Add => kernel!($T => $T, |x, y| x + y),
            Sub => kernel!($T => $T, |x, y| x - y),
            Mul => kernel!($T => $T, |x, y| x * y),
            Div => kernel!($T => $T, |x, y| x / y),
            FloorDiv => kernel!($T => $T, |x, y| math::floor_divide(x, y)),
            Mod => kernel!($T => $T, |x, y| math::remainder(x, y)),
            Fmod => kernel!($T => $T, |x, y| math::fmod(x, y)),
            Pow => kernel!($T => $T, |x, y| math::pow(x, y)),
            Maximum => kernel!($T => $T, |x, y| math::maximum(x, y)),
            Minimum => kernel!($T => $T, |x, y| math::minimum(x, y)),
            Atan2 => kernel!($T => $T, |x, y| math::atan2(x, y)),
            Eq => kernel!($T => bool, |x, y| x == y),
            Ne => kernel!($T => bool, |x, y| x != y),
            Lt => kernel!($T => bool, |x, y| x < y),
            Le => kernel!($T => bool, |x, y| x <= y),
            Gt => kernel!($T => bool, |x, y| x > y),
            Ge => kernel!($T => bool, |x, y| x >= y),
            LogicalAnd | LogicalOr | LogicalXor | BitwiseAnd | BitwiseOr | BitwiseXor | Shl | Shr | Gcd => None,
        }
    };
}

macro_rules! integer {
    ($op:ident, $T:ident) => {
        match $op {
            Add => kernel!($T => $T, |x, y| x.wrapping_add(y)),
            Sub => kernel!($T => $T, |x, y| x.wrapping_sub(y)),
            Mul => kernel!($T => $T, |x, y| x.wrapping_mul(y)),
            FloorDiv => kernel!($T => $T, |x, y| Integer::floor_divide(x, y)),
            Mod => kernel!($T => $T, |x, y| Integer::remainder(x, y)),
            Fmod => kernel!($T => $T, |x, y| Integer::fmod(x, y)),
            Pow => kernel!($T => $T, |x, y| Integer::pow(x, y)),
            Maximum => kernel!($T => $T, |x, y| if x > y { x } else { y }),
            Minimum => kernel!($T => $T, |x, y| if x < y { x } else { y }),
            Eq => kernel!($T => bool, |x, y| x == y),
            Ne => kernel!($T => bool, |x, y| x != y),
            Lt => kernel!($T => bool, |x, y| x < y),
            Le => kernel!($T => bool, |x, y| x <= y),
            Gt => kernel!($T => bool, |x, y| x > y),
            Ge => kernel!($T => bool, |x, y| x >= y),
            BitwiseAnd => kernel!($T => $T, |x, y| x & y),
            BitwiseOr => kernel!($T => $T, |x, y| x | y),
            BitwiseXor => kernel!($T => $T, |x, y| x ^ y),
            Shl => kernel!($T => $T, |x, y| Integer::shl(x, y)),
            Shr => kernel!($T => $T, |x, y| Integer::shr(x, y)),
            Gcd => kernel!($T => $T, |x, y| Integer::gcd(x, y)),
            Div | Atan2 | LogicalAnd | LogicalOr | LogicalXor => None,
        }
    };
}

/// The kernel of an operator on elements of a compute type (no half type); `None` where the operator does not take it.
pub fn kernel(op: BinaryOp, dtype: DType) -> Option<Kernel> {
    match dtype {
        // Truth values are bytes 0 and 1.
        DType::Bool => match op {
            Add | Maximum | BitwiseOr | LogicalOr => kernel!(u8 => u8, |x, y| x | y),
            Mul | Minimum | BitwiseAnd | LogicalAnd => kernel!(u8 => u8, |x, y| x & y),
            Ne | BitwiseXor | LogicalXor => kernel!(u8 => u8, |x, y| x ^ y),
            Eq => kernel!(u8 => u8, |x, y| x ^ y ^ 1),
            Lt => kernel!(u8 => u8, |x, y| (x ^ 1) & y),
            Le => kernel!(u8 => u8, |x, y| (x ^ 1) | y),
            Gt => kernel!(u8 => u8, |x, y| x & (y ^ 1)),
            Ge => kernel!(u8 => u8, |x, y| x | (y ^ 1)),
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

/// The kernel of `where`: operands mask (bytes 0 and 1), a, b of `size` bytes an element.
pub fn select(size: usize) -> Kernel {
    match size {
        1 => choose::<u8>,
        2 => choose::<u16>,
        4 => choose::<u32>,
        _ => choose::<u64>,
    }
}

/// Elements as patterns of bits.
trait Bits: Copy {
    /// `a` where the mask is true, else `b`, without a branch.
    fn pick(mask: u8, a: Self, b: Self) -> Self;
}

macro_rules! bits {
    ($($t:ty),*) => {$(
        impl Bits for $t {
            #[inline(always)]
            fn pick(mask: u8, a: $t, b: $t) -> $t {
                let ones = (0 as $t).wrapping_sub(<$t>::from(mask));
                (a & ones) | (b & !ones)
            }
        }
    )*};
}
bits!(u8, u16, u32, u64);

struct Choose<T> {
    n: usize,
    mask: *const u8,
    a: *const T,
    b: *const T,
    result: *mut T,
}

impl<T: Bits> Loop for Choose<T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for i in 0..self.n {
            // SAFETY: who calls the kernel gives `n` elements of each array.
            unsafe {
                let (a, b) = (*self.a.add(i), *self.b.add(i));
                self.result.add(i).write(T::pick(*self.mask.add(i), a, b));
            }
        }
    }
}

unsafe fn choose<T: Bits>(n: usize, operands: [*const u8; 3], result: *mut u8) {
    let [mask, a, b] = operands;
    dispatch(Choose::<T> {
        n,
        mask,
        a: a.cast(),
        b: b.cast(),
        result: result.cast(),
    });
}
