//! Conversions of dense runs of elements.

use super::isa::{Loop, dispatch};
use crate::support::cast::Cast;
use ferrotrace_runtime::DType;
use half::{bf16, f16};

struct Convert<A, B> {
    n: usize,
    from: *const A,
    to: *mut B,
}

impl<A: Cast<B>, B> Loop for Convert<A, B> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for i in 0..self.n {
            // SAFETY: the caller of `convert` gives `n` elements behind both pointers.
            unsafe { self.to.add(i).write((*self.from.add(i)).cast()) };
        }
    }
}

fn run<A: Cast<B>, B>(n: usize, from: *const u8, to: *mut u8) {
    dispatch(Convert { n, from: from.cast::<A>(), to: to.cast::<B>() });
}

fn to<A>(dtype: DType, n: usize, from: *const u8, dst: *mut u8)
where
    A: Cast<bool> + Cast<u8> + Cast<i8> + Cast<i16> + Cast<i32> + Cast<i64>,
    A: Cast<f16> + Cast<bf16> + Cast<f32> + Cast<f64>,
{
    match dtype {
        DType::Bool => run::<A, bool>(n, from, dst),
        DType::U8 => run::<A, u8>(n, from, dst),
        DType::I8 => run::<A, i8>(n, from, dst),
        DType::I16 => run::<A, i16>(n, from, dst),
        DType::I32 => run::<A, i32>(n, from, dst),
        DType::I64 => run::<A, i64>(n, from, dst),
        DType::F16 => run::<A, f16>(n, from, dst),
        DType::BF16 => run::<A, bf16>(n, from, dst),
        DType::F32 => run::<A, f32>(n, from, dst),
        DType::F64 => run::<A, f64>(n, from, dst),
    }
}

/// Converts `n` elements of type `from` at `src` to type `into` at `dst`, by the rules of `Op::Cast`.
///
/// # Safety
/// `src` and `dst` are aligned for their types and have `n` elements behind them; those at `src` are initialised; the
/// two do not overlap.
pub unsafe fn convert(from: DType, into: DType, n: usize, src: *const u8, dst: *mut u8) {
    if from == into {
        // SAFETY: as the caller promises.
        return unsafe { dst.copy_from_nonoverlapping(src, n * from.size()) };
    }
    match from {
        // Truth values are bytes 0 and 1.
        DType::Bool | DType::U8 => to::<u8>(into, n, src, dst),
        DType::I8 => to::<i8>(into, n, src, dst),
        DType::I16 => to::<i16>(into, n, src, dst),
        DType::I32 => to::<i32>(into, n, src, dst),
        DType::I64 => to::<i64>(into, n, src, dst),
        DType::F16 => to::<f16>(into, n, src, dst),
        DType::BF16 => to::<bf16>(into, n, src, dst),
        DType::F32 => to::<f32>(into, n, src, dst),
        DType::F64 => to::<f64>(into, n, src, dst),
    }
}
