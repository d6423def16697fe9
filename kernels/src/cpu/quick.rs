//! Small dense operands: the shortest way from buffers to a result. The loops are those of the general drivers, so are
//! the bits.

use super::cast::convert;
use super::operand::Scratch;
use super::par::GRAIN;
use super::pointwise::Kernel;
use super::reduce::rows_of;
use super::strided::{Window, gather};
use crate::{Array, BinaryOp, ReduceKind, UnaryOp};
use ferrotrace_runtime::{Buffer, DType, Device, Result, Scalar, Shape};

/// Elements of an operand at most: beyond, threads may share the work.
pub const LIMIT: usize = GRAIN - 1;

/// An operand.
#[derive(Debug)]
pub enum Operand<'a> {
    /// Row-major elements without gaps.
    Run {
        /// The memory.
        buffer: Buffer,
        /// The first element, in elements.
        offset: usize,
        /// The shape.
        shape: &'a Shape,
        /// The element type.
        dtype: DType,
    },
    /// A number.
    Number(Scalar),
}

impl Operand<'_> {
    /// The first element of a run of `dtype` and `shape` on the CPU.
    fn like(&self, of: &Shape, as_dtype: DType) -> Option<*const u8> {
        match self {
            Operand::Run {
                buffer,
                offset,
                shape,
                dtype,
            } if *dtype == as_dtype && *shape == of && buffer.device().is_cpu() => {
                let (first, size) = (offset.checked_mul(dtype.size())?, dtype.size());
                let holds = first.checked_add(of.numel().checked_mul(size)?)? <= buffer.bytes();
                holds.then(|| buffer.as_ptr().wrapping_add(first))
            }
            _ => None,
        }
    }

    /// The element type of a run.
    fn dtype(&self) -> Option<DType> {
        match self {
            Operand::Run { dtype, .. } => Some(*dtype),
            Operand::Number(_) => None,
        }
    }
}

/// `a` where `mask` is true, else `b`; `None` where they are not all runs of `shape`, the latter of `dtype`, and beyond
/// [`LIMIT`] elements.
#[inline]
pub fn select(
    [mask, a, b]: [&Operand<'_>; 3],
    shape: &Shape,
    dtype: DType,
) -> Option<Result<Array>> {
    let runs = [
        mask.like(shape, DType::Bool)?,
        a.like(shape, dtype)?,
        b.like(shape, dtype)?,
    ];
    // SAFETY: the operands are runs of the result's shape, a mask and two of the result's type.
    filled(shape, dtype, |n, to| unsafe {
        super::binary::select(dtype.size())(n, runs, to)
    })
}

/// The elements as `dtype`; `None` where the operand is no run of `shape`, and beyond [`LIMIT`] elements.
#[inline]
pub fn cast(x: &Operand<'_>, shape: &Shape, dtype: DType) -> Option<Result<Array>> {
    let from = x.dtype()?;
    let x = x.like(shape, from)?;
    // SAFETY: the operand is a run of the result's shape.
    filled(shape, dtype, |n, to| unsafe {
        convert(from, dtype, n, x, to)
    })
}

/// A function of each element of a run of the type that it computes in; `None` of others.
#[inline]
pub fn unary(op: UnaryOp, x: &Operand<'_>, shape: &Shape, dtype: DType) -> Option<Result<Array>> {
    let from = native(x.dtype()?)?;
    let computes = op.compute_dtype(from) == Some(from) && op.result_dtype(from) == dtype;
    let kernel = super::unary::kernel(op, from).filter(|_| computes)?;
    pointwise(kernel, [x, x], from, shape, dtype)
}

/// A function of the elements of two runs, or of a run and a number that does not promote it, of the type that it computes
/// in; `None` of others.
#[inline]
pub fn binary(
    op: BinaryOp,
    [a, b]: [&Operand<'_>; 2],
    shape: &Shape,
    dtype: DType,
) -> Option<Result<Array>> {
    let from = native(a.dtype().or(b.dtype())?)?;
    let lesser = |x: &Operand<'_>| match x {
        Operand::Run { .. } => true,
        Operand::Number(n) => n.default_dtype().category() <= from.category(),
    };
    let computes = op.compute_dtype(from) == Some(from) && op.result_dtype(from) == dtype;
    let kernel = super::binary::kernel(op, from).filter(|_| computes && lesser(a) && lesser(b))?;
    pointwise(kernel, [a, b], from, shape, dtype)
}

/// A reduction over the last dimensions, those of `mask`, of a run; `None` over others, and of more than [`LIMIT`] elements.
#[inline]
pub fn reduce(
    kind: ReduceKind,
    mask: u64,
    x: &Operand<'_>,
    shape: &Shape,
    dtype: DType,
) -> Option<Result<Array>> {
    let Operand::Run { shape: of, .. } = x else {
        return None;
    };
    let from = native(x.dtype()?)?;
    let (all, n) = (of.numel(), shape.numel());
    let lead = mask.trailing_zeros() as usize;
    let trailing = mask != 0 && mask.count_ones() as usize + lead == of.rank();
    if !trailing || all == 0 || all > LIMIT {
        return None;
    }
    let run = x.like(of, from)?;
    // SAFETY: the operand is a dense run of so many rows.
    unsafe { rows_of(kind, run, from, n, all / n, shape, dtype) }
}

/// The type that elements of `dtype` are computed in, if it is that: half types are computed in another.
fn native(dtype: DType) -> Option<DType> {
    (!dtype.is_half()).then_some(dtype)
}

/// Elements of a piece: a number is repeated so many times.
const PIECE: usize = 256;

fn pointwise(
    kernel: Kernel,
    operands: [&Operand<'_>; 2],
    from: DType,
    shape: &Shape,
    dtype: DType,
) -> Option<Result<Array>> {
    let n = shape.numel();
    let mut scratch = Scratch::<PIECE>::new();
    let mut runs = [std::ptr::null(); 3];
    let mut repeated = None;
    for (k, operand) in operands.into_iter().enumerate() {
        runs[k] = match operand {
            Operand::Run { .. } => operand.like(shape, from)?,
            Operand::Number(number) => {
                let bits = number.to_bits(from);
                let window = Window {
                    rows: 1,
                    cols: n.min(PIECE),
                    row: 0,
                    col: 0,
                };
                let (size, number) = (from.size(), (&raw const bits).cast());
                // SAFETY: the number's bits lie where a value of its type is read; the scratch holds a piece.
                unsafe { gather(size, window, number, scratch.ptr(), n.min(PIECE)) };
                repeated = Some(k);
                scratch.ptr().cast_const()
            }
        };
    }
    filled(shape, dtype, |n, to| {
        let step = if repeated.is_some() { PIECE } else { n };
        for first in (0..n).step_by(step) {
            let mut piece = runs.map(|run: *const u8| run.wrapping_add(first * from.size()));
            if let Some(number) = repeated {
                piece[number] = runs[number];
            }
            let to = to.wrapping_add(first * dtype.size());
            // SAFETY: each operand is a run of `n` elements of its compute type, or a piece of a number.
            unsafe { kernel(step.min(n - first), piece, to) };
        }
    })
}

/// A new dense array whose elements, at least one and at most [`LIMIT`], `fill` writes, given their number.
#[inline(always)]
fn filled(shape: &Shape, dtype: DType, fill: impl FnOnce(usize, *mut u8)) -> Option<Result<Array>> {
    let n = shape.numel();
    if n == 0 || n > LIMIT {
        return None;
    }
    let out = Array::empty(const { &Device::cpu() }, shape.clone(), dtype);
    if let Ok(out) = &out {
        fill(n, out.buffer.as_mut_ptr());
    }
    Some(out)
}
