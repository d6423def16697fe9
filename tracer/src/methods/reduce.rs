//! Reductions over dimensions. Dimensions go away; under the `_keepdim` names they stay with size 1.

mod extremes;
mod moments;
mod nan;

use super::{attempt, attempt_both};
use crate::args::{Dim, Dims};
use crate::{Input, Tensor};
use ferrotrace_kernels::op::{CountNonzero, Gather, LogSumExp, Norm, Reduce, Var};
use ferrotrace_kernels::{Composite, Op, ReduceKind};
use ferrotrace_runtime::Result;

/// What each method and its twin say of the twin.
macro_rules! twin {
    ($name:literal) => {
        concat!(
            "As [`",
            $name,
            "`](Tensor::",
            $name,
            "), the dimensions staying with size 1."
        )
    };
}

/// The dimensions of a reduction. An empty list is all of them, as in PyTorch, but none of `any` and `all`.
///
/// # Errors
/// As [`Dims::list`].
fn reduced(name: &str, dims: Dims, rank: usize) -> Result<u64> {
    match name {
        "any" | "all" => dims.mask(rank),
        _ => dims.reduced(rank),
    }
}

/// `name` and `name_keepdim` over any dimensions, from an expression of the set of dimensions and `keepdim`.
macro_rules! reductions {
    ($($(#[doc = $doc:literal])* $name:ident $twin:ident $text:literal
       ($($arg:ident: $ty:ty),*) => |$mask:ident, $keepdim:ident| $op:expr;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            #[track_caller]
            pub fn $name(&self, $($arg: $ty,)* dims: impl Into<Dims>) -> Tensor {
                let ($mask, $keepdim) = (attempt!($text, reduced($text, dims.into(), self.rank()), self), false);
                self.apply($op)
            }

            #[doc = twin!($text)]
            #[track_caller]
            pub fn $twin(&self, $($arg: $ty,)* dims: impl Into<Dims>) -> Tensor {
                let ($mask, $keepdim) = (attempt!($text, reduced($text, dims.into(), self.rank()), self), true);
                self.apply($op)
            }
        )*}
    };
}

reductions! {
    /// The sum over dimensions; 0 of none. Integers and bools give `I64`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([2, 3, 4], DType::F32, &Device::cpu());
    /// assert_eq!(x.sum(..).to_scalar::<f32>()?, 24.0);
    /// assert_eq!(x.sum([0, -1]).dims(), [3]);
    /// # Ok::<(), Error>(())
    /// ```
    sum sum_keepdim "sum" () => |mask, keepdim| Op::Reduce(Reduce { kind: ReduceKind::Sum, mask, keepdim });

    /// The arithmetic mean of floats over dimensions; NaN of none.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [2, 2], &Device::cpu());
    /// assert_eq!(x.mean(-1).to_vec::<f64>()?, [1.5, 3.5]);
    /// # Ok::<(), Error>(())
    /// ```
    mean mean_keepdim "mean" () => |mask, keepdim| Op::Reduce(Reduce { kind: ReduceKind::Mean, mask, keepdim });

    /// The product over dimensions; 1 of none. Integers and bools give `I64`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [2, 2], &Device::cpu());
    /// assert_eq!(x.prod(0).to_vec::<f64>()?, [3.0, 8.0]);
    /// # Ok::<(), Error>(())
    /// ```
    prod prod_keepdim "prod" () => |mask, keepdim| Op::Reduce(Reduce { kind: ReduceKind::Prod, mask, keepdim });

    /// The greatest over dimensions, of the same dtype; NaN if any is NaN; an error of none.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 4.0, 3.0, 2.0], [2, 2], &Device::cpu());
    /// assert_eq!(x.max(1).to_vec::<f64>()?, [4.0, 3.0]);
    /// # Ok::<(), Error>(())
    /// ```
    max max_keepdim "max" () => |mask, keepdim| Op::Reduce(Reduce { kind: ReduceKind::Max, mask, keepdim });

    /// The least over dimensions, of the same dtype; NaN if any is NaN; an error of none.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 4.0, 3.0, 2.0], [2, 2], &Device::cpu());
    /// assert_eq!(x.min(1).to_vec::<f64>()?, [1.0, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    min min_keepdim "min" () => |mask, keepdim| Op::Reduce(Reduce { kind: ReduceKind::Min, mask, keepdim });

    /// Whether any element is not zero (NaN is not), as `Bool`; false of none.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 4.0, 3.0, 2.0], [2, 2], &Device::cpu());
    /// assert_eq!(x.gt(3).any(1).to_vec::<bool>()?, [true, false]);
    /// # Ok::<(), Error>(())
    /// ```
    any any_keepdim "any" () => |mask, keepdim| Op::Reduce(Reduce { kind: ReduceKind::Any, mask, keepdim });

    /// Whether no element is zero, as `Bool`; true of none.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 4.0, 3.0, 2.0], [2, 2], &Device::cpu());
    /// assert_eq!(x.ge(2).all(1).to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), Error>(())
    /// ```
    all all_keepdim "all" () => |mask, keepdim| Op::Reduce(Reduce { kind: ReduceKind::All, mask, keepdim });

    /// log Σ eˣ over dimensions, without overflow.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1000.0, f64::NEG_INFINITY], 2, &Device::cpu());
    /// assert_eq!(x.logsumexp(0).to_scalar::<f64>()?, 1000.0);
    /// # Ok::<(), Error>(())
    /// ```
    logsumexp logsumexp_keepdim "logsumexp" () => |mask, keepdim| {
        Op::Composite(Composite::LogSumExp(LogSumExp { mask, keepdim }))
    };

    /// How many elements are not zero, as `I64`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0, 4, 3, 2], [2, 2], &Device::cpu());
    /// assert_eq!(x.count_nonzero(1).to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    count_nonzero count_nonzero_keepdim "count_nonzero" () => |mask, keepdim| {
        Op::Composite(Composite::CountNonzero(CountNonzero { mask, keepdim }))
    };

    /// The norm (Σ |x|ᵖ)^(1/p) over dimensions: p = 0 counts what is not zero, ±∞ gives the greatest or least |x|.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[3.0, -4.0], 2, &Device::cpu());
    /// assert_eq!(x.norm(2.0, ..).to_scalar::<f64>()?, 5.0);
    /// # Ok::<(), Error>(())
    /// ```
    norm norm_keepdim "norm" (p: f64) => |mask, keepdim| {
        Op::Composite(Composite::Norm(Norm { p: p.to_bits(), mask, keepdim }))
    };
}

/// `name` and `name_keepdim` along one dimension.
macro_rules! positions {
    ($($(#[doc = $doc:literal])* $name:ident $twin:ident $text:literal => $kind:ident;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            #[track_caller]
            pub fn $name(&self, dim: impl Into<Dim>) -> Tensor {
                let mask = attempt!($text, Dims::from(dim.into()).mask(self.rank()), self);
                self.apply(Op::Reduce(Reduce { kind: ReduceKind::$kind, mask, keepdim: false }))
            }

            #[doc = twin!($text)]
            #[track_caller]
            pub fn $twin(&self, dim: impl Into<Dim>) -> Tensor {
                let mask = attempt!($text, Dims::from(dim.into()).mask(self.rank()), self);
                self.apply(Op::Reduce(Reduce { kind: ReduceKind::$kind, mask, keepdim: true }))
            }
        )*}
    };
}

positions! {
    /// The position (`I64`) of the greatest along a dimension: the first of equals, the first NaN if there is one.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 4.0, 4.0], 3, &Device::cpu());
    /// assert_eq!(x.argmax(0).to_scalar::<i64>()?, 1);
    /// # Ok::<(), Error>(())
    /// ```
    argmax argmax_keepdim "argmax" => ArgMax;

    /// The position (`I64`) of the least along a dimension: the first of equals, the first NaN if there is one.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[4.0, 1.0, 1.0], 3, &Device::cpu());
    /// assert_eq!(x.argmin(0).to_scalar::<i64>()?, 1);
    /// # Ok::<(), Error>(())
    /// ```
    argmin argmin_keepdim "argmin" => ArgMin;
}

/// `name` and `name_keepdim` along one dimension: values and positions.
macro_rules! with_index {
    ($($(#[doc = $doc:literal])* $name:ident $twin:ident $text:literal => $value:ident, $index:ident;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            #[track_caller]
            pub fn $name(&self, dim: impl Into<Dim>) -> (Tensor, Tensor) {
                let mask = attempt_both!($text, Dims::from(dim.into()).mask(self.rank()), self);
                let reduce = |kind| Op::Reduce(Reduce { kind, mask, keepdim: false });
                self.with_index($text, (mask, false), reduce(ReduceKind::$value), reduce(ReduceKind::$index))
            }

            #[doc = twin!($text)]
            #[track_caller]
            pub fn $twin(&self, dim: impl Into<Dim>) -> (Tensor, Tensor) {
                let mask = attempt_both!($text, Dims::from(dim.into()).mask(self.rank()), self);
                let reduce = |kind| Op::Reduce(Reduce { kind, mask, keepdim: true });
                self.with_index($text, (mask, true), reduce(ReduceKind::$value), reduce(ReduceKind::$index))
            }
        )*}
    };
}

with_index! {
    /// The greatest along a dimension and its position (`I64`): [`max`](Tensor::max) and [`argmax`](Tensor::argmax).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 4.0, 3.0], 3, &Device::cpu());
    /// let (values, indices) = x.max_with_index(0);
    /// assert_eq!((values.to_scalar::<f64>()?, indices.to_scalar::<i64>()?), (4.0, 1));
    /// # Ok::<(), Error>(())
    /// ```
    max_with_index max_with_index_keepdim "max_with_index" => Max, ArgMax;

    /// The least along a dimension and its position (`I64`): [`min`](Tensor::min) and [`argmin`](Tensor::argmin).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[4.0, 1.0, 3.0], 3, &Device::cpu());
    /// let (values, indices) = x.min_with_index(0);
    /// assert_eq!((values.to_scalar::<f64>()?, indices.to_scalar::<i64>()?), (1.0, 1));
    /// # Ok::<(), Error>(())
    /// ```
    min_with_index min_with_index_keepdim "min_with_index" => Min, ArgMin;
}

impl Tensor {
    /// What `values` gives along the dimension of `mask`, and the positions that `positions` gives. Where a gradient is asked
    /// of the values, they are read there: then it goes to these elements alone, and not to others that are equal.
    #[track_caller]
    fn with_index(
        &self,
        text: &'static str,
        (mask, keepdim): (u64, bool),
        values: Op,
        positions: Op,
    ) -> (Tensor, Tensor) {
        if mask == 0 || !self.has_grad() {
            let values = self.apply_as(text, values);
            return (values, self.apply_as(text, positions));
        }
        let index = self.apply_as(text, positions);
        let dim = mask.trailing_zeros() as usize;
        let along = match keepdim {
            true => index.clone(),
            false => index.unsqueeze(dim as isize),
        };
        let inputs = [Input::Tensor(self), Input::Tensor(&along)];
        let values = Tensor::record_as(text, Op::Gather(Gather { dim }), &inputs);
        match keepdim {
            true => (values, index),
            false => (values.squeeze(dim as isize), index),
        }
    }
}

/// Moments over dimensions and their twins.
macro_rules! moments {
    ($($(#[doc = $doc:literal])* $name:ident $twin:ident $text:literal => $root:literal;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            #[track_caller]
            pub fn $name(&self, dims: impl Into<Dims>, correction: usize) -> Tensor {
                let mask = attempt!($text, reduced($text, dims.into(), self.rank()), self);
                self.apply(Op::Composite(Composite::Var(Var { mask, keepdim: false, correction, root: $root })))
            }

            #[doc = twin!($text)]
            #[track_caller]
            pub fn $twin(&self, dims: impl Into<Dims>, correction: usize) -> Tensor {
                let mask = attempt!($text, reduced($text, dims.into(), self.rank()), self);
                self.apply(Op::Composite(Composite::Var(Var { mask, keepdim: true, correction, root: $root })))
            }
        )*}
    };
}

moments! {
    /// The variance of floats over dimensions, Σ (x − mean)² / max(0, n − correction): 1 for a sample, 0 for all.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 3.0], 2, &Device::cpu());
    /// assert_eq!(x.var(0, 1).to_scalar::<f64>()?, 2.0);
    /// # Ok::<(), Error>(())
    /// ```
    var var_keepdim "var" => false;

    /// The standard deviation: the square root of [`var`](Tensor::var).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 3.0], 2, &Device::cpu());
    /// assert_eq!(x.std(0, 0).to_scalar::<f64>()?, 1.0);
    /// # Ok::<(), Error>(())
    /// ```
    std std_keepdim "std" => true;
}
