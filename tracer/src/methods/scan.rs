//! Scans and differences along a dimension, sorting, and the greatest few.

mod integral;
mod percentile;
mod phase;
mod quantile;

use super::{attempt, attempt_both};
use crate::args::Dim;
use crate::{Input, Tensor};
use ferrotrace_kernels::op::{ArgSort, ArgTopK, Gather, Scan};
use ferrotrace_kernels::{BinaryOp, Op, ScanKind};
use ferrotrace_runtime::{DType, Error, Result};

macro_rules! scans {
    ($($(#[doc = $doc:literal])* $name:ident $text:literal => $kind:ident, $x:tt => $y:tt;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            ///
            /// ```
            /// # use ferrotrace_tracer::prelude::*;
            #[doc = concat!("let x = Tensor::from_slice(&", stringify!($x), ", 3, &Device::cpu());")]
            #[doc = concat!("let y = Tensor::from_slice(&", stringify!($y), ", 3, &Device::cpu());")]
            #[doc = concat!("assert!(x.", stringify!($name), "(0).allclose(&y, 1e-6, 1e-6)?);")]
            /// # Ok::<(), Error>(())
            /// ```
            #[track_caller]
            pub fn $name(&self, dim: impl Into<Dim>) -> Tensor {
                let dim = attempt!($text, dim.into().wrap_along(self.rank()), self);
                self.apply(Op::Scan(Scan { kind: ScanKind::$kind, dim }))
            }
        )*}
    };
}

scans! {
    /// Running sums along a dimension; integers and bools give `I64`.
    cumsum "cumsum" => Sum, [1.0, 2.0, 4.0] => [1.0, 3.0, 7.0];
    /// Running products along a dimension; integers and bools give `I64`.
    cumprod "cumprod" => Prod, [1.0, 2.0, 4.0] => [1.0, 2.0, 8.0];
    /// Running log Σ eˣ along a dimension, without overflow, of floats.
    logcumsumexp "logcumsumexp" => LogSumExp, [0.0, 0.0, 0.0] => [0.0, 0.6931472, 1.0986123];
}

macro_rules! running_extremes {
    ($($(#[doc = $doc:literal])* $name:ident $text:literal => $value:ident, $index:ident, $x:tt => $y:tt;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            ///
            /// ```
            /// # use ferrotrace_tracer::prelude::*;
            #[doc = concat!("let x = Tensor::from_slice(&", stringify!($x), ", 3, &Device::cpu());")]
            #[doc = concat!("let (values, indices) = x.", stringify!($name), "(0);")]
            #[doc = concat!("assert_eq!(values.to_vec::<f64>()?, ", stringify!($y), ");")]
            /// assert_eq!(indices.to_vec::<i64>()?, [0, 0, 2]);
            /// # Ok::<(), Error>(())
            /// ```
            #[track_caller]
            pub fn $name(&self, dim: impl Into<Dim>) -> (Tensor, Tensor) {
                let dim = attempt_both!($text, dim.into().wrap_along(self.rank()), self);
                let scan = |kind| Op::Scan(Scan { kind, dim });
                let values = self.apply_as($text, scan(ScanKind::$value));
                (values, self.apply_as($text, scan(ScanKind::$index)))
            }
        )*}
    };
}

running_extremes! {
    /// Running maxima along a dimension and their positions (`I64`, the last of equals); NaN stays once met.
    cummax "cummax" => Max, ArgMax, [2.0, 1.0, 3.0] => [2.0, 2.0, 3.0];
    /// Running minima along a dimension and their positions (`I64`, the last of equals); NaN stays once met.
    cummin "cummin" => Min, ArgMin, [2.0, 3.0, 1.0] => [2.0, 2.0, 1.0];
}

impl Tensor {
    /// Differences of neighbours along a dimension, taken `n` times: each time there is one element less, as long as there
    /// are any. Of the same dtype; of bools, whether neighbours differ. A 0-d tensor is an error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 4, 9, 16], 4, &Device::cpu());
    /// assert_eq!(x.diff(1, 0).to_vec::<i32>()?, [3, 5, 7]);
    /// assert_eq!(x.diff(2, 0).to_vec::<i32>()?, [2, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn diff(&self, n: usize, dim: impl Into<Dim>) -> Tensor {
        let differences = self.differences(n, dim.into());
        attempt!("diff", differences, self).called("diff", &[self])
    }

    #[track_caller]
    fn differences(&self, n: usize, dim: Dim) -> Result<Tensor> {
        self.check()?;
        if self.rank() == 0 {
            return Err(Error::shape("a number has no neighbours"));
        }
        let dim = dim.wrap(self.rank())?;
        let op = match self.dtype() {
            DType::Bool => BinaryOp::LogicalXor,
            _ => BinaryOp::Sub,
        };
        let size = self.shape()[dim];
        let mut x = self.clone();
        for left in (0..size).rev().take(n) {
            x = x.narrow(dim, 1, left).binary(op, &x.narrow(dim, 0, left));
        }
        Ok(x)
    }

    /// A dimension in order, and the positions (`I64`) its elements came from; equals keep their order, NaN is the
    /// greatest.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[2.0, 1.0, 2.0], 3, &Device::cpu());
    /// let (values, indices) = x.sort(0, true);
    /// assert_eq!(values.to_vec::<f64>()?, [2.0, 2.0, 1.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [0, 2, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn sort(&self, dim: impl Into<Dim>, descending: bool) -> (Tensor, Tensor) {
        let dim = attempt_both!("sort", dim.into().wrap_along(self.rank()), self);
        let indices = self.apply_as("sort", Op::ArgSort(ArgSort { dim, descending }));
        (self.taken(dim, &indices), indices)
    }

    /// Dimension 0 in ascending order: the values that [`sort`](Tensor::sort) gives.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[2, 9, 1, 3], [2, 2], &Device::cpu());
    /// assert_eq!(x.msort().to_vec::<i32>()?, [1, 3, 2, 9]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn msort(&self) -> Tensor {
        self.sort(0, false).0.called("msort", &[self])
    }

    /// The positions (`I64`) that put a dimension in order, as [`sort`](Tensor::sort).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[2.0, 1.0, 2.0], 3, &Device::cpu());
    /// assert_eq!(x.argsort(0, false).to_vec::<i64>()?, [1, 0, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn argsort(&self, dim: impl Into<Dim>, descending: bool) -> Tensor {
        let dim = attempt!("argsort", dim.into().wrap_along(self.rank()), self);
        self.apply(Op::ArgSort(ArgSort { dim, descending }))
    }

    /// The `k` greatest (or least) along a dimension in order, and their positions (`I64`); an error where the
    /// dimension has fewer.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[3.0, 9.0, 5.0], 3, &Device::cpu());
    /// let (values, indices) = x.topk(2, 0, true);
    /// assert_eq!(values.to_vec::<f64>()?, [9.0, 5.0]);
    /// assert_eq!(indices.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn topk(&self, k: usize, dim: impl Into<Dim>, largest: bool) -> (Tensor, Tensor) {
        let dim = attempt_both!("topk", dim.into().wrap_along(self.rank()), self);
        let indices = self.apply(Op::ArgTopK(ArgTopK { k, dim, largest }));
        (self.taken(dim, &indices), indices)
    }

    /// The elements at positions along a dimension.
    #[track_caller]
    fn taken(&self, dim: usize, indices: &Tensor) -> Tensor {
        Tensor::record(
            Op::Gather(Gather { dim }),
            &[Input::Tensor(self), Input::Tensor(indices)],
        )
    }
}
