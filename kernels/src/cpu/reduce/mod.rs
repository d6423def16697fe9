//! Reductions over dimensions.
//!
//! The work is cut by sizes alone, never by the number of threads: a result is the join, in order, of chunks, so its
//! bits are the same on any number of threads. Where the reduced dimension is the one along which memory runs, rows are
//! folded in 64 lanes; else rows of memory are joined into a vector of columns.

mod arg;
mod columns;
mod fold;
mod plan;
mod rows;

use super::cast::convert;
use super::isa::{Loop, dispatch};
use super::operand::Input;
use super::par::{Shared, ranges};
use crate::{Array, ReduceKind};
use arg::Arg;
use ferrotrace_runtime::{Buffer, DType, Device, Error, Result, Scalar, Shape};
use fold::{Fold, Max, Min, Prod, Sum};
use plan::Plan;

/// Reduces the dimensions of `mask`. `shape` and `dtype` are the result's, as inference gave them.
///
/// # Errors
/// Out of memory.
pub fn reduce(
    kind: ReduceKind,
    mask: u64,
    x: &Array,
    shape: &Shape,
    dtype: DType,
) -> Result<Array> {
    let device = x.buffer.device();
    if shape.numel() == 0 {
        return Array::empty(device, shape.clone(), dtype);
    }
    if x.numel() == 0 {
        let identity = match kind {
            ReduceKind::Sum | ReduceKind::Any => Scalar::Int(0),
            ReduceKind::Prod | ReduceKind::All => Scalar::Int(1),
            ReduceKind::Mean => Scalar::Float(f64::NAN),
            _ => return Err(Error::internal("an extreme of no elements")),
        };
        return super::create::full(device, shape, identity, dtype);
    }
    let compute = compute_dtype(kind, x.dtype);
    let input = Input::array(x, x.shape(), compute);
    let out = Array::empty(device, shape.clone(), dtype)?;
    let positional = matches!(kind, ReduceKind::ArgMax | ReduceKind::ArgMin);
    // Values are made where they stay, if they have the result's type.
    let through = !positional && compute != dtype;
    let made = if through {
        Buffer::allocate(device, shape.numel() * compute.size())?
    } else {
        out.buffer.clone()
    };
    let job = Job {
        plan: Plan::new(x, mask, positional),
        input,
        to: Shared::new(made.as_mut_ptr()),
    };
    with_fold!(kind, compute, F => job.run::<F>());
    let n = shape.numel();
    if kind == ReduceKind::Mean {
        let count = x.numel() / n;
        match compute {
            DType::F32 => divide(made.as_mut_ptr().cast::<f32>(), n, count as f32),
            _ => divide(made.as_mut_ptr().cast::<f64>(), n, count as f64),
        }
    }
    if through {
        // SAFETY: both buffers are new and hold a value for each element of the result.
        unsafe { convert(compute, dtype, n, made.as_ptr(), out.buffer.as_mut_ptr()) };
    }
    Ok(out)
}

/// Expands its body with `$T` standing for the compute type of a dtype but `Bool`.
macro_rules! each {
    ($dtype:expr, $T:ident => $body:expr) => {{
        macro_rules! with {
            ($t:ty) => {{
                type $T = $t;
                $body
            }};
        }
        match $dtype {
            DType::I32 => with!(i32),
            DType::I64 => with!(i64),
            DType::F64 => with!(f64),
            _ => with!(f32),
        }
    }};
}
use each;

/// Expands its body with `$F` standing for the fold of a kind of reduction in a compute type.
macro_rules! with_fold {
    ($kind:expr, $compute:expr, $F:ident => $body:expr) => {{
        macro_rules! named {
            ($t:ty) => {{
                type $F = $t;
                $body
            }};
        }
        match $kind {
            ReduceKind::Sum | ReduceKind::Mean => match $compute {
                DType::F32 => named!(Sum<f32>),
                DType::F64 => named!(Sum<f64>),
                _ => named!(Sum<i64>),
            },
            ReduceKind::Prod => match $compute {
                DType::F32 => named!(Prod<f32>),
                DType::F64 => named!(Prod<f64>),
                _ => named!(Prod<i64>),
            },
            ReduceKind::Any => named!(Max<u8>),
            ReduceKind::All => named!(Min<u8>),
            ReduceKind::Max if $compute == DType::Bool => named!(Max<u8>),
            ReduceKind::Min if $compute == DType::Bool => named!(Min<u8>),
            ReduceKind::Max => each!($compute, T => named!(Max<T>)),
            ReduceKind::Min => each!($compute, T => named!(Min<T>)),
            ReduceKind::ArgMax => each!($compute, T => named!(Arg<Max<T>>)),
            ReduceKind::ArgMin => each!($compute, T => named!(Arg<Min<T>>)),
        }
    }};
}
use with_fold;

/// Reduces each of `results` dense rows of `n` elements of type `from`, as [`reduce`] would by rows and on one thread.
/// `None` where it would go another way.
///
/// # Safety
/// `results · n` elements, at most a chunk and at least one, may be read at `x`.
pub(super) unsafe fn rows_of(
    kind: ReduceKind,
    x: *const u8,
    from: DType,
    results: usize,
    n: usize,
    shape: &Shape,
    dtype: DType,
) -> Option<Result<Array>> {
    let positional = matches!(kind, ReduceKind::ArgMax | ReduceKind::ArgMin);
    if (results > 1 && n < 32)
        || from != compute_dtype(kind, from)
        || !(positional || from == dtype)
    {
        return None;
    }
    let out = match Array::empty(const { &Device::cpu() }, shape.clone(), dtype) {
        Ok(out) => out,
        Err(error) => return Some(Err(error)),
    };
    let to = out.buffer.as_mut_ptr();
    with_fold!(kind, from, F => {
        // SAFETY: the rows are what the caller gives, the results a new buffer.
        unsafe { <F as Fold>::each(results, n, x.cast(), n as isize, to.cast()) }
    });
    if kind == ReduceKind::Mean {
        match from {
            DType::F32 => divide(to.cast::<f32>(), results, n as f32),
            _ => divide(to.cast::<f64>(), results, n as f64),
        }
    }
    Some(Ok(out))
}

/// The type that elements of type `dtype` are folded in.
fn compute_dtype(kind: ReduceKind, dtype: DType) -> DType {
    match kind {
        ReduceKind::Sum | ReduceKind::Prod | ReduceKind::Mean if !dtype.is_float() => DType::I64,
        ReduceKind::Any | ReduceKind::All => DType::Bool,
        ReduceKind::Max | ReduceKind::Min if dtype == DType::Bool => DType::Bool,
        // Narrow integers as wider ones: a loop for each would not be worth its code.
        _ if dtype.size() < 4 && !dtype.is_float() => DType::I32,
        _ => dtype.compute(),
    }
}

/// A reduction: what is read in which order, and where results go.
struct Job<'a> {
    plan: Plan,
    input: Input<'a>,
    to: Shared,
}

// SAFETY: the input is read only; each result is written by one thread.
unsafe impl Sync for Job<'_> {}

impl Job<'_> {
    fn run<F: Fold>(&self) {
        if self.plan.along_rows() {
            self.rows::<F>()
        } else {
            self.columns::<F>()
        }
    }

    /// Writes a result at its offset, in elements.
    ///
    /// # Safety
    /// The offset is one of the plan's, and no other thread writes there.
    unsafe fn put<F: Fold>(&self, at: isize, state: F::State) {
        // SAFETY: as the caller promises.
        unsafe {
            self.to
                .get()
                .cast::<F::Out>()
                .offset(at)
                .write(F::value(state))
        };
    }
}

fn divide<T: Copy + std::ops::Div<Output = T> + Sync>(values: *mut T, n: usize, by: T) {
    struct Divide<T>(*mut T, usize, T);
    impl<T: Copy + std::ops::Div<Output = T>> Loop for Divide<T> {
        type Output = ();
        #[inline(always)]
        fn run(self) {
            for i in 0..self.1 {
                // SAFETY: the caller gives `n` values that it owns.
                unsafe { self.0.add(i).write(*self.0.add(i) / self.2) };
            }
        }
    }
    const PIECE: usize = 1 << 14;
    let shared = Shared::new(values.cast());
    ranges(n.div_ceil(PIECE), n, &|range| {
        let (begin, end) = (range.start * PIECE, (range.end * PIECE).min(n));
        dispatch(Divide(
            shared.get().cast::<T>().wrapping_add(begin),
            end - begin,
            by,
        ));
    });
}

#[cfg(test)]
mod tests;
