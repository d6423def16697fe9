//! Searching what is sorted, and finding what is equal.

use super::super::attempt;
use crate::args::{Dim, Operand};
use crate::{Input, Tensor};
use ferrotrace_kernels::op::{Scan, Scatter};
use ferrotrace_kernels::ops::pointwise::promote;
use ferrotrace_kernels::{ArgMeta, BinaryOp, Op, ScanKind, ScatterMode};
use ferrotrace_runtime::{DType, Error, Result};
use std::cmp::Ordering;

/// How many numbers each element is compared with one by one. More are sorted and searched.
const FEW: usize = 32;

/// Equal neighbours of a sorted vector as groups.
struct Groups {
    /// The first element of each group of equals.
    values: Tensor,
    /// The number of the group that each element of the sorted vector belongs to.
    number: Tensor,
    /// Positions that sort the vector.
    order: Tensor,
}

/// `src` written or added into a vector at positions.
#[track_caller]
pub(super) fn scattered(mode: ScatterMode, into: &Tensor, at: &Tensor, src: &Tensor) -> Tensor {
    let op = Op::Scatter(Scatter {
        dim: 0,
        mode,
        include_self: true,
    });
    Tensor::record(op, &[into, at, src].map(Input::Tensor))
}

/// Rows without repetition.
struct Rows {
    /// A row of each kind, in ascending order.
    first: Vec<i64>,
    /// The number of the distinct row that each row equals.
    number: Vec<i64>,
    /// How many rows equal each distinct row.
    counts: Vec<i64>,
}

/// The kinds of `n` rows of equal length.
fn grouped<T: PartialOrd>(values: &[T], n: usize) -> Rows {
    let width = values.len() / n.max(1);
    let row = |i: usize| &values[i * width..(i + 1) * width];
    // NaN stands behind all numbers.
    let is_nan = |x: &T| x.partial_cmp(x).is_none();
    let order = |a: &T, b: &T| (a.partial_cmp(b)).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)));
    let mut rows: Vec<usize> = (0..n).collect();
    rows.sort_by(|&a, &b| {
        let pairs = row(a).iter().zip(row(b));
        let mut orders = pairs.map(|(a, b)| order(a, b));
        orders
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    });
    let mut found = Rows {
        first: Vec::new(),
        number: vec![0; n],
        counts: Vec::new(),
    };
    for (at, &i) in rows.iter().enumerate() {
        if at == 0 || row(rows[at - 1]) != row(i) {
            found.first.push(i as i64);
            found.counts.push(0);
        }
        let last = found.counts.len() - 1;
        found.counts[last] += 1;
        found.number[i] = last as i64;
    }
    found
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

    /// Where each element would stand among sorted `boundaries`, a vector, as `I64`: [`searchsorted`](Tensor::searchsorted)
    /// of this tensor's elements, after promotion. An element that equals a boundary stands before it, or, if `right`,
    /// behind it.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let boundaries = Tensor::from_slice(&[1, 3, 5], 3, &Device::cpu());
    /// let x = Tensor::from_slice(&[0, 3, 9], 3, &Device::cpu());
    /// assert_eq!(x.bucketize(&boundaries, false).to_vec::<i64>()?, [0, 1, 3]);
    /// assert_eq!(x.bucketize(&boundaries, true).to_vec::<i64>()?, [0, 2, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn bucketize(&self, boundaries: &Tensor, right: bool) -> Tensor {
        let found = self.buckets(boundaries, right);
        attempt!("bucketize", found, self, boundaries).called("bucketize", &[self, boundaries])
    }

    #[track_caller]
    fn buckets(&self, boundaries: &Tensor, right: bool) -> Result<Tensor> {
        self.check()?;
        boundaries.check_rank(1, "a list of boundaries")?;
        let dtype = promote(&[self, boundaries].map(|x| ArgMeta::Tensor(x.sizes(), x.dtype())));
        let boundaries = boundaries.to_dtype(dtype);
        boundaries.places(&self.to_dtype(dtype), right)
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
            // Compared as "not above" rather than "below", so that NaN stands at the end.
            let below = there.binary(passed, values).logical_not();
            place = inside.logical_and(&below).where_cond(&next, &place);
        }
        Ok(place)
    }

    /// Whether each element is among those of `tests`, of any shape, as `Bool`: compared as [`eq`](Tensor::eq) compares,
    /// after promotion. NaN is among nothing.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[3, 1, 3, 2], [2, 2], &Device::cpu());
    /// let tests = Tensor::from_slice(&[3, 7], 2, &Device::cpu());
    /// assert_eq!(x.isin(&tests).to_vec::<bool>()?, [true, false, true, false]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn isin(&self, tests: &Tensor) -> Tensor {
        attempt!("isin", self.among(tests), self, tests).called("isin", &[self, tests])
    }

    #[track_caller]
    fn among(&self, tests: &Tensor) -> Result<Tensor> {
        self.check()?;
        tests.check()?;
        let (x, tests) = (self.detach(), tests.detach().flatten(0, -1));
        let n = tests.numel();
        if n <= FEW {
            return Ok(x.unsqueeze(-1).eq(&tests).any(-1));
        }
        let dtype = promote(&[&x, &tests].map(|x| ArgMeta::Tensor(x.sizes(), x.dtype())));
        let (x, sorted) = (x.to_dtype(dtype), tests.to_dtype(dtype).sort(0, false).0);
        let line = match dtype.is_float() {
            // NaN stands at the end, but no search knows that it is above all numbers.
            true => sorted.isnan().where_cond(f64::INFINITY, &sorted),
            false => sorted.clone(),
        };
        let place = line.places(&x, false)?;
        let at = place.binary(BinaryOp::Minimum, n as i64 - 1);
        Ok(sorted.index(&[Some(&at)]).eq(&x))
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

    /// The slices of a dimension without repetition, in ascending order of their elements one after the other; a slice
    /// with a NaN equals none. The slices are read at the call: it flushes.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[3, 1, 2, 5, 3, 1], [3, 2], &Device::cpu());
    /// assert_eq!(x.unique_dim(0).to_vec::<i32>()?, [2, 5, 3, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn unique_dim(&self, dim: impl Into<Dim>) -> Tensor {
        let dim = dim.into();
        attempt!("unique_dim", self.distinct(dim), self).0
    }

    /// [`unique_dim`](Tensor::unique_dim), then for each slice the position of its like among these, and how often each
    /// occurs, both as `I64` and of one dimension.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[3, 1, 2, 5, 3, 1], [3, 2], &Device::cpu());
    /// let (slices, inverse, counts) = x.unique_dim_with_counts(0);
    /// assert_eq!(slices.to_vec::<i32>()?, [2, 5, 3, 1]);
    /// assert_eq!(inverse.to_vec::<i64>()?, [1, 0, 1]);
    /// assert_eq!(counts.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn unique_dim_with_counts(&self, dim: impl Into<Dim>) -> (Tensor, Tensor, Tensor) {
        const NAME: &str = "unique_dim_with_counts";
        match self.distinct(dim.into()) {
            Ok(found) => found,
            Err(error) => {
                let failed = Tensor::failed(NAME, error, &[self]);
                (failed.clone(), failed.clone(), failed)
            }
        }
    }

    /// The slices of a dimension without repetition, where each slice stands among them, and how often each occurs.
    #[track_caller]
    fn distinct(&self, dim: Dim) -> Result<(Tensor, Tensor, Tensor)> {
        self.check()?;
        let dim = dim.wrap(self.rank())?;
        let n = self.shape()[dim];
        let mut order: Vec<usize> = (0..self.rank()).filter(|&d| d != dim).collect();
        order.insert(0, dim);
        let rows = self.permute(order);
        if rows.numel() == 0 && n > 0 {
            let why = format!(
                "the slices of dimension {dim} of {} have no elements",
                self.shape()
            );
            return Err(Error::shape(why));
        }
        // `F64` and `I64` hold every number of the dtypes that are converted to them.
        let grouped = match self.dtype().is_float() {
            true => grouped(&rows.to_dtype(DType::F64).to_vec::<f64>()?, n),
            false => grouped(&rows.to_dtype(DType::I64).to_vec::<i64>()?, n),
        };
        let device = self.device();
        let of = |values: Vec<i64>| {
            let n = values.len();
            Tensor::from_vec(values, n, &device)
        };
        let slices = self.index_select(dim, &of(grouped.first));
        slices.recorded()?;
        Ok((slices, of(grouped.number), of(grouped.counts)))
    }

    #[track_caller]
    fn groups(&self) -> Result<Groups> {
        self.check()?;
        let flat = self.flatten(0, -1);
        let order = flat.argsort(0, false);
        let sorted = flat.index_select(0, &order);
        let starts = sorted.starts();
        let scan = Op::Scan(Scan {
            kind: ScanKind::Sum,
            dim: 0,
        });
        let number = starts.apply(scan).binary(BinaryOp::Sub, 1);
        let values = sorted.masked_select(&starts);
        values.recorded()?;
        Ok(Groups {
            values,
            number,
            order,
        })
    }

    /// Whether each element of a vector differs from the one before it; the first does.
    #[track_caller]
    pub(super) fn starts(&self) -> Tensor {
        let n = self.numel();
        let first = Tensor::ones(n.min(1), DType::Bool, &self.device());
        let rest = n.saturating_sub(1);
        let later = self.narrow(0, n as isize - rest as isize, rest);
        let differs = later.ne(&self.narrow(0, 0, rest));
        Tensor::cat(&[&first, &differs], 0)
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
