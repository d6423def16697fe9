//! Searching what is sorted, and finding what is equal.

use super::super::attempt;
use crate::args::Operand;
use crate::{Input, Tensor};
use ferrotrace_kernels::{BinaryOp, Op, ScanKind, ScatterMode};
use ferrotrace_runtime::{DType, Error, Result};

/// Equal neighbours of a sorted vector as groups.
struct Groups {
    /// The first of each.
    values: Tensor,
    /// The number of the group that each element of the sorted vector belongs to.
    number: Tensor,
    /// Positions that sort the vector.
    order: Tensor,
}

/// `src` written or added into a vector at positions.
#[track_caller]
fn scattered(mode: ScatterMode, into: &Tensor, at: &Tensor, src: &Tensor) -> Tensor {
    let op = Op::Scatter {
        dim: 0,
        mode,
        include_self: true,
    };
    Tensor::record(op, &[into, at, src].map(Input::Tensor))
}

impl Tensor {
    /// Where each value would stand in this sorted sequence, as `I64`: the number of elements below it, or, if `right`,
    /// not above it. Both have one dtype; this tensor has one dimension, or the values' sizes but in the last. Elements
    /// that are not sorted give positions without meaning. A number gives a 0-d tensor (and needs a sequence of one
    /// dimension).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 3.0, 3.0, 5.0], 4, &Device::cpu());
    /// let v = Tensor::from_slice(&[0.0, 3.0, 9.0], 3, &Device::cpu());
    /// assert_eq!(x.searchsorted(&v, false).to_vec::<i64>()?, [0, 1, 4]);
    /// assert_eq!(x.searchsorted(&v, true).to_vec::<i64>()?, [0, 3, 4]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn searchsorted<'a>(&self, values: impl Into<Operand<'a>>, right: bool) -> Tensor {
        let values = match values.into() {
            Operand::Tensor(values) => values.clone(),
            Operand::Owned(values) => values,
            number => attempt!("searchsorted", self.source(number), self),
        };
        let found = self.places(&values, right);
        attempt!("searchsorted", found, self, &values).called("searchsorted", &[self, &values])
    }

    /// The search, in as many steps as the length has bits: of 2ᵏ positions ahead, those are taken that are all below.
    #[track_caller]
    fn places(&self, values: &Tensor, right: bool) -> Result<Tensor> {
        self.check()?;
        values.check()?;
        let (rank, dtype) = (self.rank(), self.dtype());
        if dtype != values.dtype() {
            let why = format!(
                "a sequence of {dtype} and values of {}: to_dtype(DType::{dtype:?}) first",
                values.dtype()
            );
            return Err(Error::dtype(why));
        }
        let (x, v) = (self.shape(), values.shape());
        let Some((&len, lead)) = x.split_last() else {
            return Err(Error::shape("a sequence needs a dimension"));
        };
        if rank > 1 && v.split_last().map(|(_, lead)| lead) != Some(lead) {
            let why = format!("a sequence of shape {x} and values of shape {v}");
            return Err(Error::shape(why));
        }
        let place = values.full_like(0).to_dtype(DType::I64);
        if len == 0 || v.numel() == 0 {
            return Ok(place);
        }
        let passed = if right { BinaryOp::Gt } else { BinaryOp::Ge };
        let mut place = place;
        for k in (0..=len.ilog2()).rev() {
            let next = place.binary(BinaryOp::Add, 1i64 << k);
            let last = next.binary(BinaryOp::Sub, 1);
            let inside = next.binary(BinaryOp::Le, len as i64);
            let at = last.binary(BinaryOp::Minimum, len as i64 - 1);
            let there = match rank {
                1 => self.index(&[Some(&at)]),
                _ => self.gather(-1, &at),
            };
            // Not above rather than below: a value that is NaN stands at the end.
            let below = there.binary(passed, values).logical_not();
            place = inside.logical_and(&below).where_cond(&next, &place);
        }
        Ok(place)
    }

    /// The elements without repetition, in ascending order, as a vector; NaN equals nothing, and each stays. Their
    /// number is read at the call: it flushes.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[3, 1, 3, 2], [2, 2], &Device::cpu());
    /// assert_eq!(x.unique().to_vec::<i32>()?, [1, 2, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn unique(&self) -> Tensor {
        attempt!("unique", self.groups(), self).values
    }

    /// [`unique`](Tensor::unique), then for each element the position of its value among these, in this tensor's shape,
    /// and how often each value occurs, both as `I64`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[3, 1, 3, 2], 4, &Device::cpu());
    /// let (values, inverse, counts) = x.unique_with_counts();
    /// assert_eq!(values.to_vec::<i32>()?, [1, 2, 3]);
    /// assert_eq!(inverse.to_vec::<i64>()?, [2, 0, 2, 1]);
    /// assert_eq!(counts.to_vec::<i64>()?, [1, 1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn unique_with_counts(&self) -> (Tensor, Tensor, Tensor) {
        match self.groups() {
            Ok(groups) => {
                let (inverse, counts) = self.members(&groups);
                (groups.values, inverse, counts)
            }
            Err(error) => {
                let failed = Tensor::failed("unique_with_counts", error, &[self]);
                (failed.clone(), failed.clone(), failed)
            }
        }
    }

    #[track_caller]
    fn groups(&self) -> Result<Groups> {
        self.check()?;
        let flat = self.flatten(0, -1);
        let n = flat.numel();
        let order = flat.argsort(0, false);
        let sorted = flat.index_select(0, &order);
        let first = Tensor::ones(n.min(1), DType::Bool, &self.device());
        let rest = n.saturating_sub(1);
        let later = sorted.narrow(0, n as isize - rest as isize, rest);
        let differs = later.ne(&sorted.narrow(0, 0, rest));
        let starts = Tensor::cat(&[&first, &differs], 0);
        let scan = Op::Scan {
            kind: ScanKind::Sum,
            dim: 0,
        };
        let number = starts.apply(scan).binary(BinaryOp::Sub, 1);
        let values = sorted.masked_select(&starts);
        values.recorded()?;
        Ok(Groups {
            values,
            number,
            order,
        })
    }

    /// Where each element's value stands among those of the groups, and how large these are.
    #[track_caller]
    fn members(&self, groups: &Groups) -> (Tensor, Tensor) {
        let (device, number) = (self.device(), &groups.number);
        let start = Tensor::zeros(number.shape(), DType::I64, &device);
        let inverse = scattered(ScatterMode::Assign, &start, &groups.order, number);
        let none = Tensor::zeros(groups.values.shape(), DType::I64, &device);
        let ones = Tensor::ones(number.shape(), DType::I64, &device);
        let counts = scattered(ScatterMode::Sum, &none, number, &ones);
        (inverse.reshape(self.shape()), counts)
    }
}
