//! Pooling with every option: windows as views of the padded input, reduced over their elements.

use super::super::{attempt, attempt_both};
use crate::Tensor;
use crate::args::Pool;
use ferrotrace_kernels::op::Reduce;
use ferrotrace_kernels::{BinaryOp, Op, PoolKind, PoolSpec, ReduceKind};
use ferrotrace_runtime::{DType, Error, Result, Scalar, Shape};
use smallvec::SmallVec;

/// Windows along one dimension.
#[derive(Clone, Copy)]
struct Axis {
    input: usize,
    output: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
}

impl Axis {
    /// # Errors
    /// A size of 0, padding of more than half the window, or no window fits.
    fn new(input: usize, sizes: [usize; 4], ceil_mode: bool) -> Result<Axis> {
        let [kernel, stride, padding, dilation] = sizes;
        if kernel == 0 || stride == 0 || dilation == 0 {
            return Err(Error::argument(
                "kernel, stride and dilation must be at least 1",
            ));
        }
        let span = (kernel - 1).checked_mul(dilation).map(|n| n + 1);
        let padded = padding.checked_mul(2).and_then(|n| n.checked_add(input));
        let (Some(span), Some(padded)) = (span, padded) else {
            return Err(Error::argument("a window beyond any memory"));
        };
        if padding > span / 2 {
            return Err(Error::argument(format!(
                "a padding of {padding} is more than half the window of {span}"
            )));
        }
        // Windows that reach past the padded input by less than a stride count under `ceil_mode`.
        let reach = if ceil_mode { stride - 1 } else { 0 };
        let Some(room) = padded.checked_add(reach).and_then(|n| n.checked_sub(span)) else {
            return Err(Error::shape(format!(
                "a window of {span} is larger than the padded input of {padded}"
            )));
        };
        let mut output = room / stride + 1;
        // The last window begins within the input or the padding before it.
        if ceil_mode && output > 1 && (output - 1) * stride >= input + padding {
            output -= 1;
        }
        Ok(Axis {
            input,
            output,
            kernel,
            stride,
            padding,
            dilation,
        })
    }

    /// The distance from a window's first place to just past its last.
    fn span(&self) -> usize {
        (self.kernel - 1) * self.dilation + 1
    }

    /// What is added before and after the input, or taken off behind the last window.
    fn edges(&self) -> (isize, isize) {
        let end = (self.output - 1) * self.stride + self.span();
        let after = end as isize - (self.input + self.padding) as isize;
        (self.padding as isize, after)
    }

    /// How many places each window's mean is over: those of the input, or of the padded input.
    fn counts(&self, padded: bool) -> Vec<f64> {
        let (first, last) = if padded {
            (0, self.input + 2 * self.padding)
        } else {
            (self.padding, self.padding + self.input)
        };
        let count = |i: usize| {
            let start = i * self.stride;
            let end = (start + self.kernel).min(last);
            end.saturating_sub(start.max(first)).max(1) as f64
        };
        (0..self.output).map(count).collect()
    }
}

/// The last dimensions' windows.
fn axes(x: &Tensor, pool: &Pool, n: usize) -> Result<SmallVec<[Axis; 3]>> {
    x.check()?;
    let rank = x.rank();
    if rank != n + 1 && rank != n + 2 {
        let why = format!("an input of rank {} or {}, not {}", n + 2, n + 1, x.sizes());
        return Err(Error::shape(why));
    }
    let kernel = pool.kernel.of(n, "a kernel of")?;
    let stride = pool.stride.as_ref().unwrap_or(&pool.kernel);
    let stride = stride.of(n, "a stride of")?;
    let padding = pool.padding.of(n, "a padding of")?;
    let dilation = pool.dilation.of(n, "a dilation of")?;
    let axis = |d: usize| {
        let sizes = [kernel[d], stride[d], padding[d], dilation[d]];
        Axis::new(x.shape()[rank - n + d], sizes, pool.ceil_mode)
    };
    (0..n).map(axis).collect()
}

/// The windows of `x`, `fill` around it: `[.., outputs.., kernels..]`.
#[track_caller]
fn windows(x: &Tensor, axes: &[Axis], fill: Scalar) -> Tensor {
    let lead = x.rank() - axes.len();
    let mut pads = vec![(0, 0); lead];
    pads.extend(axes.iter().map(Axis::edges));
    let mut view = match pads.iter().all(|&pad| pad == (0, 0)) {
        true => x.clone(),
        false => x.pad(&pads, fill),
    };
    for (d, axis) in axes.iter().enumerate() {
        view = view.unfold(lead + d, axis.span(), axis.stride);
        if axis.dilation > 1 {
            view = view.slice(-1, 0, isize::MAX, axis.dilation);
        }
    }
    view
}

/// The least number of a dtype.
pub(super) fn least(dtype: DType) -> Scalar {
    match dtype.int_range() {
        Some((low, _)) => Scalar::Int(low),
        None => Scalar::Float(f64::NEG_INFINITY),
    }
}

#[track_caller]
pub(super) fn reduce(x: &Tensor, kind: ReduceKind, mask: u64, keepdim: bool) -> Tensor {
    x.apply(Op::Reduce(Reduce {
        kind,
        mask,
        keepdim,
    }))
}

/// The least position among those whose value is the greatest (or NaN, if any is), over the dimensions of `mask`;
/// positions where there is nothing are the greatest number.
#[track_caller]
pub(super) fn first_of(values: &Tensor, most: &Tensor, positions: &Tensor, mask: u64) -> Tensor {
    let mut hit = values.eq(most);
    if values.dtype().is_float() {
        hit = hit.logical_or(&values.isnan());
    }
    let positions = hit.where_cond(positions, i64::MAX);
    reduce(&positions, ReduceKind::Min, mask, false)
}

/// The elements of `x` at row-major positions of its last `n` dimensions: the gradient of each goes to its position alone.
#[track_caller]
pub(super) fn taken_at(x: &Tensor, at: &Tensor, n: usize) -> Tensor {
    let lead = x.rank() - n;
    let line = |of: &Tensor| {
        let mut shape = Shape::new(&of.shape()[..lead]);
        shape.dims_mut().push(of.shape()[lead..].iter().product());
        of.reshape(shape)
    };
    line(x).gather(lead, &line(at)).reshape(at.shape())
}

/// The row-major positions of a plane of these sizes.
#[track_caller]
pub(super) fn positions(sizes: &[usize], like: &Tensor) -> Tensor {
    let n = Shape::new(sizes).numel() as i64;
    Tensor::arange(0, n, 1, DType::I64, &like.device()).reshape(sizes)
}

fn taken(name: &str, dtype: DType, mean: bool) -> Result<()> {
    match dtype {
        DType::Bool => Err(Error::untaken(name, dtype, DType::U8)),
        dtype if mean && !dtype.is_float() => Err(Error::untaken(name, dtype, DType::F32)),
        _ => Ok(()),
    }
}

impl Tensor {
    /// The operator that has its own kernels, if the options are its own.
    #[track_caller]
    fn plainly_pooled(&self, kind: PoolKind, pool: &Pool, n: usize) -> Result<Option<Tensor>> {
        let dilation = pool.dilation.of(n, "a dilation of")?;
        let padded = pool.padding.of(n, "a padding of")?.iter().any(|&p| p > 0);
        let uncounted = kind == PoolKind::Avg && !pool.count_include_pad && padded;
        if pool.ceil_mode || uncounted || dilation.iter().any(|&d| d != 1) {
            return Ok(None);
        }
        let stride = pool.stride.as_ref().unwrap_or(&pool.kernel);
        let spec = PoolSpec {
            kind,
            kernel: pool.kernel.of(n, "a kernel of")?,
            stride: stride.of(n, "a stride of")?,
            padding: pool.padding.of(n, "a padding of")?,
        };
        Ok(Some(self.apply(Op::Pool(Box::new(spec)))))
    }

    /// The greatest of each window of the last `n` dimensions.
    #[track_caller]
    fn window_max(&self, name: &'static str, pool: &Pool, n: usize) -> Result<Tensor> {
        if let Some(pooled) = self.plainly_pooled(PoolKind::Max, pool, n)? {
            return Ok(pooled);
        }
        if self.has_grad() {
            return Ok(self.window_argmax(name, pool, n)?.0);
        }
        let axes = axes(self, pool, n)?;
        taken(name, self.dtype(), false)?;
        let windows = windows(self, &axes, least(self.dtype()));
        let mask = last(&windows, n);
        Ok(reduce(&windows, ReduceKind::Max, mask, false))
    }

    /// Maxima of windows, and their positions in the input's last `n` dimensions.
    #[track_caller]
    fn window_argmax(&self, name: &str, pool: &Pool, n: usize) -> Result<(Tensor, Tensor)> {
        let axes = axes(self, pool, n)?;
        taken(name, self.dtype(), false)?;
        let values = windows(self, &axes, least(self.dtype()));
        let mask = last(&values, n);
        let most = reduce(&values, ReduceKind::Max, mask, true);
        let plane: Vec<usize> = axes.iter().map(|a| a.input).collect();
        let places = windows(&positions(&plane, self), &axes, Scalar::Int(i64::MAX));
        let at = first_of(&values, &most, &places, mask);
        let pooled = match self.has_grad() {
            true => taken_at(self, &at, n),
            false => reduce(&values, ReduceKind::Max, mask, false),
        };
        Ok((pooled, at))
    }

    /// The mean of each window of the last `n` dimensions.
    #[track_caller]
    fn window_mean(&self, name: &'static str, pool: &Pool, n: usize) -> Result<Tensor> {
        if let Some(pooled) = self.plainly_pooled(PoolKind::Avg, pool, n)? {
            return Ok(pooled);
        }
        let axes = axes(self, pool, n)?;
        let dtype = self.dtype();
        taken(name, dtype, true)?;
        if axes.iter().any(|axis| axis.dilation != 1) {
            return Err(Error::argument("means are of windows of dilation 1"));
        }
        let wide = self.to_dtype(dtype.compute());
        let windows = windows(&wide, &axes, Scalar::Int(0));
        let mut mean = reduce(&windows, ReduceKind::Sum, last(&windows, n), false);
        for (d, axis) in axes.iter().enumerate() {
            let mut line = vec![1; n];
            line[d] = axis.output;
            let counts = axis.counts(pool.count_include_pad);
            let counts = Tensor::from_vec(counts, line, &self.device());
            mean = mean.binary(BinaryOp::Div, &counts.to_dtype(wide.dtype()));
        }
        Ok(mean.to_dtype(dtype))
    }
}

/// The last `n` dimensions as a set.
fn last(x: &Tensor, n: usize) -> u64 {
    let rank = x.rank().max(n);
    (rank - n..rank).fold(0, |mask, d| mask | 1 << d)
}

macro_rules! window_methods {
    ($($n:literal $max:ident $max_text:literal $index:ident $index_text:literal $avg:ident $avg_text:literal;)*) => {
        impl Tensor {$(
            #[doc = concat!("[`", $max_text, "`](Tensor::", $max_text, ") with options: see [`Pool`]. Takes numbers of every dtype.")]
            #[track_caller]
            pub fn $max(&self, pool: impl Into<Pool>) -> Tensor {
                attempt!($max_text, self.window_max($max_text, &pool.into(), $n), self).called($max_text, &[self])
            }

            #[doc = concat!("[`", $max_text, "`](Tensor::", $max_text, ") with options, and the row-major position (`I64`) of each ")]
            #[doc = concat!("result in the last ", stringify!($n), " dimensions of the input: the first one among equals.")]
            #[track_caller]
            pub fn $index(&self, pool: impl Into<Pool>) -> (Tensor, Tensor) {
                let found = self.window_argmax($index_text, &pool.into(), $n);
                let (most, at) = attempt_both!($index_text, found, self);
                (most.called($index_text, &[self]), at.called($index_text, &[self]))
            }

            #[doc = concat!("[`", $avg_text, "`](Tensor::", $avg_text, ") with options: see [`Pool`]. Takes floats.")]
            #[track_caller]
            pub fn $avg(&self, pool: impl Into<Pool>) -> Tensor {
                attempt!($avg_text, self.window_mean($avg_text, &pool.into(), $n), self).called($avg_text, &[self])
            }
        )*}
    };
}

window_methods! {
    1 max_pool1d_with "max_pool1d" max_pool1d_with_indices "max_pool1d_with_indices" avg_pool1d_with "avg_pool1d";
    2 max_pool2d_with "max_pool2d" max_pool2d_with_indices "max_pool2d_with_indices" avg_pool2d_with "avg_pool2d";
    3 max_pool3d_with "max_pool3d" max_pool3d_with_indices "max_pool3d_with_indices" avg_pool3d_with "avg_pool3d";
}
