//! Pooling to a size that is asked for. Element i of a dimension of m is over those from ⌊i·n/m⌋ to before ⌈(i + 1)·n/m⌉
//! of the n there were; dimensions go one after another, since windows are products.

use super::windows::{first_of, positions, reduce, taken_at};
use crate::Tensor;
use crate::args::Window;
use ferrotrace_kernels::{BinaryOp, ReduceKind};
use ferrotrace_runtime::{DType, Error, Result, Shape};

/// The windows of one dimension: positions in it, `[m, longest]`, those of shorter windows repeating the last, and
/// lengths.
struct Runs {
    at: Vec<i64>,
    lengths: Vec<usize>,
    longest: usize,
}

impl Runs {
    fn new(n: usize, m: usize) -> Runs {
        let bounds = |i: usize| {
            let (i, n, m) = (i as u128, n as u128, m as u128);
            ((i * n / m) as usize, ((i + 1) * n).div_ceil(m) as usize)
        };
        let lengths: Vec<usize> = (0..m).map(bounds).map(|(a, b)| b - a).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let row = |i| {
            let (start, end) = bounds(i);
            (0..longest).map(move |k| (start + k).min(end - 1) as i64)
        };
        Runs {
            at: (0..m).flat_map(row).collect(),
            lengths,
            longest,
        }
    }
}

/// Dimension `dim` as windows: `m` of them, and a new dimension behind for their elements.
#[track_caller]
fn split(x: &Tensor, dim: usize, m: usize, runs: &Runs) -> Tensor {
    let mut sizes = x.shape().clone();
    let n = sizes[dim];
    sizes.dims_mut()[dim] = m;
    sizes.dims_mut().insert(dim + 1, runs.longest);
    if n == m * runs.longest {
        return x.reshape(sizes);
    }
    let at = Tensor::from_slice(&runs.at, runs.at.len(), &x.device());
    x.index_select(dim, &at).reshape(sizes)
}

/// The sizes of the last dimensions before and after.
fn plan(name: &str, x: &Tensor, size: &[usize], floats: bool) -> Result<Vec<(usize, usize)>> {
    x.check()?;
    let (rank, n, dtype) = (x.rank(), size.len(), x.dtype());
    if rank != n + 1 && rank != n + 2 {
        let why = format!("an input of rank {} or {}, not {}", n + 2, n + 1, x.sizes());
        return Err(Error::shape(why));
    }
    if dtype == DType::Bool || (floats && !dtype.is_float()) {
        return Err(Error::untaken(name, dtype, DType::F32));
    }
    let from = &x.shape()[rank - n..];
    if from.contains(&0) && !size.contains(&0) {
        let why = format!("an input without elements, {}", x.sizes());
        return Err(Error::shape(why));
    }
    Ok(from.iter().copied().zip(size.iter().copied()).collect())
}

/// A result without elements.
#[track_caller]
fn nothing(x: &Tensor, size: &[usize], dtype: DType) -> Tensor {
    let lead = &x.shape()[..x.rank() - size.len()];
    let shape: Shape = lead.iter().chain(size).copied().collect();
    Tensor::zeros(shape, dtype, &x.device())
}

#[track_caller]
fn mean(name: &'static str, x: &Tensor, size: &[usize]) -> Result<Tensor> {
    let axes = plan(name, x, size, true)?;
    let dtype = x.dtype();
    if size.contains(&0) {
        return Ok(nothing(x, size, dtype));
    }
    let lead = x.rank() - size.len();
    let mut y = x.to_dtype(dtype.compute());
    if axes.iter().all(|&(n, m)| n % m == 0) {
        let mut sizes = Shape::new(&x.shape()[..lead]);
        let mut mask = 0;
        for (n, m) in axes {
            sizes.dims_mut().extend([m, n / m]);
            mask |= 1 << (sizes.rank() - 1);
        }
        y = reduce(&y.reshape(sizes), ReduceKind::Mean, mask, false);
        return Ok(y.to_dtype(dtype));
    }
    for (d, (n, m)) in axes.into_iter().enumerate() {
        let (dim, runs) = (lead + d, Runs::new(n, m));
        let behind = 1 << (dim + 1);
        let windows = split(&y, dim, m, &runs);
        if n % m == 0 {
            y = reduce(&windows, ReduceKind::Mean, behind, false);
            continue;
        }
        let column = |sizes: [usize; 2], rank: usize| {
            let mut shape = Shape::from(sizes);
            shape.dims_mut().resize(2 + rank, 1);
            shape
        };
        let rest = size.len() - d - 1;
        let inside = runs.lengths.iter();
        let inside = inside.flat_map(|&len| (0..runs.longest).map(move |k| k < len));
        let inside = Tensor::from_vec(
            inside.collect::<Vec<bool>>(),
            column([m, runs.longest], rest),
            &x.device(),
        );
        let lengths: Vec<f64> = runs.lengths.iter().map(|&len| len as f64).collect();
        let mut line = Shape::from(m);
        line.dims_mut().resize(1 + rest, 1);
        let lengths = Tensor::from_vec(lengths, line, &x.device()).to_dtype(y.dtype());
        let sum = reduce(
            &inside.where_cond(&windows, 0),
            ReduceKind::Sum,
            behind,
            false,
        );
        y = sum.binary(BinaryOp::Div, &lengths);
    }
    Ok(y.to_dtype(dtype))
}

/// The greatest of each window, and where it stands.
#[track_caller]
fn most(name: &'static str, x: &Tensor, size: &[usize]) -> Result<(Tensor, Tensor)> {
    let axes = plan(name, x, size, false)?;
    if size.contains(&0) {
        let at = nothing(x, size, DType::I64);
        return Ok((nothing(x, size, x.dtype()), at));
    }
    let lead = x.rank() - size.len();
    let plane: Vec<usize> = axes.iter().map(|&(n, _)| n).collect();
    let mut y = x.clone();
    let mut at = positions(&plane, x).expand(x.shape());
    // From the last dimension on: among equals of several lines, the first line's position is the least.
    for (d, (n, m)) in axes.into_iter().enumerate().rev() {
        let (dim, runs) = (lead + d, Runs::new(n, m));
        let behind = 1 << (dim + 1);
        let (values, places) = (split(&y, dim, m, &runs), split(&at, dim, m, &runs));
        let most = reduce(&values, ReduceKind::Max, behind, true);
        at = first_of(&values, &most, &places, behind);
        y = reduce(&values, ReduceKind::Max, behind, false);
    }
    if x.has_grad() {
        y = taken_at(x, &at, size.len());
    }
    Ok((y, at))
}

macro_rules! adaptive_means {
    ($($n:literal $name:ident $text:literal;)*) => {
        impl Tensor {$(
            #[doc = concat!("The last ", stringify!($n), " dimensions brought to `size`: each result is the mean of elements ")]
            #[doc = "⌊i·n/n'⌋ to ⌈(i + 1)·n/n'⌉ of each dimension. Takes floats."]
            #[track_caller]
            pub fn $name(&self, size: impl Into<Window<$n>>) -> Tensor {
                match mean($text, self, &size.into().sizes()) {
                    Ok(mean) => mean.called($text, &[self]),
                    Err(error) => Tensor::failed($text, error, &[self]),
                }
            }
        )*}
    };
}

adaptive_means! {
    1 adaptive_avg_pool1d "adaptive_avg_pool1d";
    3 adaptive_avg_pool3d "adaptive_avg_pool3d";
}

macro_rules! adaptive_extremes {
    ($($n:literal $name:ident $text:literal $twin:ident $twin_text:literal;)*) => {
        impl Tensor {$(
            #[doc = concat!("The last ", stringify!($n), " dimensions brought to `size`: each result is the greatest of elements ")]
            #[doc = "⌊i·n/n'⌋ to ⌈(i + 1)·n/n'⌉ of each dimension, NaN if any is. Takes numbers of every dtype."]
            #[track_caller]
            pub fn $name(&self, size: impl Into<Window<$n>>) -> Tensor {
                match most($text, self, &size.into().sizes()) {
                    Ok((most, _)) => most.called($text, &[self]),
                    Err(error) => Tensor::failed($text, error, &[self]),
                }
            }

            #[doc = concat!("[`", $text, "`](Tensor::", $text, "), and the row-major position (`I64`) of each result in the ")]
            #[doc = concat!("last ", stringify!($n), " dimensions of the input: the first one among equals.")]
            #[track_caller]
            pub fn $twin(&self, size: impl Into<Window<$n>>) -> (Tensor, Tensor) {
                match most($twin_text, self, &size.into().sizes()) {
                    Ok((most, at)) => (most.called($twin_text, &[self]), at.called($twin_text, &[self])),
                    Err(error) => {
                        let failed = Tensor::failed($twin_text, error, &[self]);
                        (failed.clone(), failed)
                    }
                }
            }
        )*}
    };
}

adaptive_extremes! {
    1 adaptive_max_pool1d "adaptive_max_pool1d" adaptive_max_pool1d_with_indices "adaptive_max_pool1d_with_indices";
    2 adaptive_max_pool2d "adaptive_max_pool2d" adaptive_max_pool2d_with_indices "adaptive_max_pool2d_with_indices";
    3 adaptive_max_pool3d "adaptive_max_pool3d" adaptive_max_pool3d_with_indices "adaptive_max_pool3d_with_indices";
}
