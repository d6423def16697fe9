//! Resampling of spatial dimensions.

use crate::Tensor;
use crate::args::Sizes;
use ferrotrace_kernels::op::Interpolate;
use ferrotrace_kernels::{BinaryOp, Op};
use ferrotrace_runtime::{DType, Error, Result, Shape};

/// How [`interpolate`](Tensor::interpolate) finds values between elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interpolation {
    /// The element at the scaled position, rounded down; of 1 to 3 dimensions and any dtype.
    Nearest,
    /// The element whose centre is nearest to the scaled centre; of 1 to 3 dimensions and any dtype.
    NearestExact,
    /// Linear in the one dimension.
    Linear,
    /// Linear in both of two.
    Bilinear,
    /// Linear in all of three.
    Trilinear,
    /// Cubic convolution in both of two, with a = −0.75.
    Bicubic,
}

impl Interpolation {
    /// Whether it is of so many dimensions.
    fn takes(self, n: usize) -> bool {
        match self {
            Interpolation::Nearest | Interpolation::NearestExact => (1..=3).contains(&n),
            Interpolation::Linear => n == 1,
            Interpolation::Bilinear | Interpolation::Bicubic => n == 2,
            Interpolation::Trilinear => n == 3,
        }
    }
}

/// Where result `i` of `m` reads among `n`: ⌊i·n/m⌋, or ⌊(i + ½)·n/m⌋.
fn nearest(n: usize, m: usize, exact: bool) -> Vec<i64> {
    let (n, m) = (n as u128, m as u128);
    let half = u128::from(exact);
    let at = |i: u128| ((2 * i + half) * n / (2 * m)).min(n - 1) as i64;
    (0..m).map(at).collect()
}

/// The two elements of `n` that result `i` of `m` lies between, and how far behind the first.
fn linear(n: usize, m: usize, align_corners: bool) -> (Vec<i64>, Vec<i64>, Vec<f64>) {
    let last = n - 1;
    let place = |i: usize| match align_corners {
        true if m > 1 => i as f64 * (last as f64 / (m - 1) as f64),
        true => 0.0,
        false => ((i as f64 + 0.5) * (n as f64 / m as f64) - 0.5).max(0.0),
    };
    let low = |at: f64| (at as usize).min(last);
    let places = || (0..m).map(place);
    (
        places().map(|at| low(at) as i64).collect(),
        places().map(|at| (low(at) + 1).min(last) as i64).collect(),
        places().map(|at| (at - low(at) as f64).min(1.0)).collect(),
    )
}

impl Tensor {
    /// The last dimensions, as many as `size` has, resampled to it. Where `align_corners`, the corner elements stay
    /// corners; else elements are squares whose edges do. It has no meaning for `Nearest` and `NearestExact`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// # use ferrotrace_tracer::Interpolation;
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [1, 1, 2, 2], &Device::cpu());
    /// let y = x.interpolate([2, 3], Interpolation::Bilinear, true);
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 1.5, 2.0, 3.0, 3.5, 4.0]);
    /// let line = x.reshape([1, 1, 4]).interpolate([2], Interpolation::NearestExact, false);
    /// assert_eq!(line.to_vec::<f64>()?, [2.0, 4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn interpolate(
        &self,
        size: impl Into<Sizes>,
        kind: Interpolation,
        align_corners: bool,
    ) -> Tensor {
        let size = size.into();
        let resampled = size
            .of(size.count(), "sizes")
            .and_then(|size| self.resampled(&size, kind, align_corners));
        match resampled {
            Ok(y) => y.called("interpolate", &[self]),
            Err(error) => Tensor::failed("interpolate", error, &[self]),
        }
    }

    #[track_caller]
    fn resampled(&self, size: &[usize], kind: Interpolation, align: bool) -> Result<Tensor> {
        self.check()?;
        let (n, dtype) = (size.len(), self.dtype());
        if !kind.takes(n) {
            let why = format!("{kind:?} resampling of {n} dimensions");
            return Err(Error::argument(why));
        }
        let order = match kind {
            Interpolation::Nearest => 0,
            Interpolation::Bilinear => 1,
            _ => 2,
        };
        let own = [
            Interpolation::Nearest,
            Interpolation::Bilinear,
            Interpolation::Bicubic,
        ];
        if let (&[height, width], true) = (size, own.contains(&kind)) {
            return Ok(self.apply(Op::Interpolate(Interpolate {
                size: [height, width],
                order,
                align_corners: align && order > 0,
            })));
        }
        let rank = self.rank();
        if rank != n + 1 && rank != n + 2 {
            let (a, b) = (n + 2, n + 1);
            let why = format!("an input of rank {a} or {b}, not {}", self.sizes());
            return Err(Error::shape(why));
        }
        let from = &self.shape()[rank - n..];
        if size.contains(&0) || from.contains(&0) {
            return Err(Error::argument(format!("from {from:?} to {size:?}")));
        }
        let device = self.device();
        let positions = |list: Vec<i64>| {
            let len = list.len();
            Tensor::from_vec(list, len, &device)
        };
        let exact = kind == Interpolation::NearestExact;
        if exact || kind == Interpolation::Nearest {
            let mut y = self.clone();
            for d in 0..n {
                let at = positions(nearest(from[d], size[d], exact));
                y = y.index_select(rank - n + d, &at);
            }
            return Ok(y);
        }
        if !dtype.is_float() {
            return Err(Error::untaken("resampling", dtype, DType::F32));
        }
        let mut y = self.to_dtype(dtype.compute());
        for d in 0..n {
            let dim = rank - n + d;
            let (low, high, behind) = linear(from[d], size[d], align);
            let mut line = Shape::from(behind.len());
            line.dims_mut().resize(n - d, 1);
            let behind = Tensor::from_vec(behind, line, &device);
            let before = behind.neg().binary(BinaryOp::Add, 1).to_dtype(y.dtype());
            let behind = behind.to_dtype(y.dtype());
            let low = y.index_select(dim, &positions(low));
            let high = y.index_select(dim, &positions(high));
            let low = low.binary(BinaryOp::Mul, &before);
            y = low.binary(BinaryOp::Add, &high.binary(BinaryOp::Mul, &behind));
        }
        Ok(y.to_dtype(dtype))
    }
}
