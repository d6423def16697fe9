//! Transforms along a dimension: the kernels of the CPU, and elsewhere products with matrices of transforms.

use super::tables::Direction;
use super::transform::{Wanted, has_real_ends, transform};
use crate::Tensor;
use ferrotrace_kernels::Op;
use ferrotrace_kernels::op::{ComplexFourier, Fourier, HalfToReal, RealToHalf, check_size};
use ferrotrace_runtime::{DType, Error, Result, Shape};

/// Whether there are kernels of transforms where a tensor lies.
fn has_kernels(x: &Tensor) -> bool {
    x.device().is_cpu()
}

#[track_caller]
fn applied(x: &Tensor, op: impl Into<Fourier>) -> Tensor {
    x.apply(Op::Fourier(op.into()))
}

/// The size of a dimension that is transformed, for which some eight times the memory of all numbers is needed.
fn length(x: &Tensor, dim: usize) -> Result<usize> {
    check_size(&Shape::from([&[8][..], x.shape()].concat()), x.dtype())?;
    match x.shape()[dim] {
        0 => Err(Error::shape(format!("dimension {dim} has no elements"))),
        n => Ok(n),
    }
}

/// The transforms of pairs along a dimension; inverse ones are divided by its size.
#[track_caller]
pub(super) fn complex(x: &Tensor, dim: usize, direction: Direction) -> Result<Tensor> {
    let count = length(x, dim)?;
    if !has_kernels(x) {
        return products(x, dim, direction, Wanted { parts: 2, count });
    }
    let inverse = direction == Direction::Inverse;
    Ok(applied(
        x,
        ComplexFourier {
            dim,
            inverse,
            divided: inverse,
        },
    ))
}

/// The transforms of real numbers along a dimension of n: n / 2 + 1 pairs.
#[track_caller]
pub(super) fn to_half(x: &Tensor, dim: usize) -> Result<Tensor> {
    let n = length(x, dim)?;
    if has_kernels(x) {
        return Ok(applied(&x.movedim(dim, -1), RealToHalf {}).movedim(-2, dim));
    }
    let half = Wanted {
        parts: 2,
        count: n / 2 + 1,
    };
    let x = products(&x.unsqueeze(-1), dim, Direction::Forward, half)?;
    Ok(match has_real_ends(n) {
        true => x,
        false => x.masked_fill(&imaginary_ends(&x, dim, n), 0.0),
    })
}

/// The inverse transforms to `n` real numbers along a dimension of n / 2 + 1 pairs.
#[track_caller]
pub(super) fn to_real(half: &Tensor, dim: usize, n: usize) -> Result<Tensor> {
    if has_kernels(half) {
        return Ok(applied(&half.movedim(dim, -2), HalfToReal { n }).movedim(-1, dim));
    }
    // The other frequencies are conjugates.
    let needs = n / 2 + 1;
    let back = half.narrow(dim, 1, n - needs).flip(dim).complex_conj();
    let whole = Tensor::cat(&[half, &back], dim);
    let real = Wanted { parts: 1, count: n };
    let x = products(&whole, dim, Direction::Inverse, real)?;
    Ok(x.squeeze(-1))
}

/// The transform, by products, along a dimension of numbers whose parts are the last dimension, the real ones alone or both; with its
/// factor.
#[track_caller]
fn products(x: &Tensor, dim: usize, direction: Direction, wanted: Wanted) -> Result<Tensor> {
    let (sizes, n) = (x.shape().clone(), x.shape()[dim]);
    // The transform takes [batch, parts, n, columns]. A convolution is at most four times as long, and has both parts.
    let part = x.rank() - 1;
    let mut order: Vec<usize> = (0..part).collect();
    order.insert(dim, part);
    let [batch, columns] =
        [&sizes[..dim], &sizes[dim + 1..part]].map(|sizes| Shape::from(sizes).numel());
    for sizes in [
        &[8, batch, n, columns][..],
        &[8, batch, n],
        &[8, n, columns],
    ] {
        check_size(&Shape::from(sizes), x.dtype())?;
    }
    let x = x.permute(order).reshape([batch, sizes[part], n, columns]);
    let y = match direction {
        Direction::Forward => transform(&x, direction, wanted),
        Direction::Inverse => transform(&x, direction, wanted) * (1.0 / n as f64),
    };
    let count = [wanted.parts, wanted.count];
    let y = y.reshape([&sizes[..dim], &count, &sizes[dim + 1..part]].concat());
    Ok(y.movedim(dim, -1))
}

/// Where frequencies of `n` real numbers have no imaginary part, in pairs whose frequencies are the dimension `dim`.
#[track_caller]
fn imaginary_ends(x: &Tensor, dim: usize, n: usize) -> Tensor {
    let sized = |at: usize| {
        let mut sizes = vec![1; x.rank()];
        sizes[at] = x.shape()[at];
        Tensor::arange(0, sizes[at], 1, DType::I64, &x.device()).reshape(sizes)
    };
    // Of an odd length there is no frequency n/2: no place is twice.
    let ends = (sized(dim) * 2.0).remainder(n as f64).eq(0);
    ends.logical_and(&sized(x.rank() - 1).eq(1))
}
