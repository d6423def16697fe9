//! Conversions of dense runs of elements.

use crate::cpu::isa::{Loop, dispatch};
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
    dispatch(Convert {
        n,
        from: from.cast::<A>(),
        to: to.cast::<B>(),
    });
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

/// A float as an integer: what `as` gives, in a form that is vectorised.
trait Saturate<I> {
    fn saturate(self) -> I;
}

macro_rules! saturate {
    ($($f:ty => $($i:ty),*);*) => {$($(
        impl Saturate<$i> for $f {
            #[inline(always)]
            fn saturate(self) -> $i {
                // Both bounds are powers of two or zero, so exact in the float type; NaN is in no range.
                const LOW: $f = <$i>::MIN as $f;
                const END: $f = (<$i>::MAX / 2 + 1) as $f * 2.0;
                let inside = if (LOW..END).contains(&self) { self } else { 0.0 };
                // SAFETY: the value is in the integer's range.
                let value: $i = unsafe { inside.to_int_unchecked() };
                let value = if self < LOW { <$i>::MIN } else { value };
                if self >= END { <$i>::MAX } else { value }
            }
        }
    )*)*};
}

saturate!(f32 => u8, i8, i16, i32, i64; f64 => u8, i8, i16, i32, i64);

struct Truncate<A, F, I> {
    n: usize,
    from: *const A,
    to: *mut I,
    through: std::marker::PhantomData<F>,
}

impl<A: Cast<F>, F: Saturate<I>, I> Loop for Truncate<A, F, I> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for i in 0..self.n {
            // SAFETY: the caller of `convert` gives `n` elements behind both pointers.
            unsafe { self.to.add(i).write((*self.from.add(i)).cast().saturate()) };
        }
    }
}

/// Converts floats to integers, through `F`; false for other types.
fn truncate<A, F>(dtype: DType, n: usize, from: *const u8, dst: *mut u8) -> bool
where
    A: Cast<F>,
    F: Saturate<u8> + Saturate<i8> + Saturate<i16> + Saturate<i32> + Saturate<i64>,
{
    fn run<A: Cast<F>, F: Saturate<I>, I>(n: usize, from: *const u8, to: *mut u8) -> bool {
        let through = std::marker::PhantomData::<F>;
        dispatch(Truncate {
            n,
            from: from.cast::<A>(),
            to: to.cast::<I>(),
            through,
        });
        true
    }
    match dtype {
        DType::U8 => run::<A, F, u8>(n, from, dst),
        DType::I8 => run::<A, F, i8>(n, from, dst),
        DType::I16 => run::<A, F, i16>(n, from, dst),
        DType::I32 => run::<A, F, i32>(n, from, dst),
        DType::I64 => run::<A, F, i64>(n, from, dst),
        _ => false,
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
    let truncated = match from {
        DType::F16 => truncate::<f16, f32>(into, n, src, dst),
        DType::BF16 => truncate::<bf16, f32>(into, n, src, dst),
        DType::F32 => truncate::<f32, f32>(into, n, src, dst),
        DType::F64 => truncate::<f64, f64>(into, n, src, dst),
        _ => false,
    };
    if truncated {
        return;
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
