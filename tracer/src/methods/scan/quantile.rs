//! Medians and quantiles.

use super::super::{attempt, attempt_both};
use crate::Tensor;
use crate::args::{Dim, Dims, Quantiles};
use ferrotrace_runtime::{DType, Error, FloatEnvironment, Result};

/// Between which elements of `n` sorted ones each quantile lies, and how far it is from the first to the second.
fn places(quantiles: &[f64], n: usize) -> ([Vec<i64>; 2], Vec<f64>) {
    let _environment = FloatEnvironment::standard();
    let (mut ends, mut parts) = ([Vec::new(), Vec::new()], Vec::new());
    for q in quantiles {
        let place = q * (n - 1) as f64;
        ends[0].push(place.floor() as i64);
        ends[1].push(place.ceil() as i64);
        parts.push(place - place.floor());
    }
    (ends, parts)
}

impl Tensor {
    /// The median along a dimension and its position (`I64`), of any dtype but bools: the lower of two elements in the
    /// middle; of equals, where a stable sort leaves the one in the middle. NaN if there is one, the first. A dimension of
    /// size 0 is an error. The gradient goes to the element at the position.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[3, 1, 9, 2], 4, &Device::cpu());
    /// let (values, indices) = x.median(0);
    /// assert_eq!((values.to_scalar::<i32>()?, indices.to_scalar::<i64>()?), (2, 3));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn median(&self, dim: impl Into<Dim>) -> (Tensor, Tensor) {
        self.picked("median", dim.into(), false, Tensor::middle)
    }

    /// As [`median`](Tensor::median), the dimension staying with size 1.
    #[track_caller]
    pub fn median_keepdim(&self, dim: impl Into<Dim>) -> (Tensor, Tensor) {
        self.picked("median", dim.into(), true, Tensor::middle)
    }

    /// The [`median`](Tensor::median) of the elements that are not NaN; of none, NaN.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[f64::NAN, 1.0, 9.0, 2.0], 4, &Device::cpu());
    /// let (values, indices) = x.nanmedian(0);
    /// assert_eq!((values.to_scalar::<f64>()?, indices.to_scalar::<i64>()?), (2.0, 3));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn nanmedian(&self, dim: impl Into<Dim>) -> (Tensor, Tensor) {
        self.picked("nanmedian", dim.into(), false, Tensor::middle_of_numbers)
    }

    /// As [`nanmedian`](Tensor::nanmedian), the dimension staying with size 1.
    #[track_caller]
    pub fn nanmedian_keepdim(&self, dim: impl Into<Dim>) -> (Tensor, Tensor) {
        self.picked("nanmedian", dim.into(), true, Tensor::middle_of_numbers)
    }

    /// The value along a dimension that is there most often, the least of several, and where it is for the last time (`I64`). NaN
    /// equals nothing. Bools and a dimension of size 0 are errors. The gradient goes to the element at the position.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[3, 1, 3, 1, 2], 5, &Device::cpu());
    /// let (values, indices) = x.mode(0);
    /// assert_eq!((values.to_scalar::<i32>()?, indices.to_scalar::<i64>()?), (1, 3));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn mode(&self, dim: impl Into<Dim>) -> (Tensor, Tensor) {
        self.picked("mode", dim.into(), false, Tensor::most_frequent)
    }

    /// As [`mode`](Tensor::mode), the dimension staying with size 1.
    #[track_caller]
    pub fn mode_keepdim(&self, dim: impl Into<Dim>) -> (Tensor, Tensor) {
        self.picked("mode", dim.into(), true, Tensor::most_frequent)
    }

    /// What is at the position that `place` gives along a dimension, and the position.
    #[track_caller]
    fn picked(
        &self,
        name: &'static str,
        dim: Dim,
        keepdim: bool,
        place: impl Fn(&Tensor, usize) -> Tensor,
    ) -> (Tensor, Tensor) {
        let (values, at) = attempt_both!(name, self.pick(name, dim, keepdim, place), self);
        (values.called(name, &[self]), at.called(name, &[self]))
    }

    /// The position of the lower middle one of the numbers along a dimension.
    #[track_caller]
    fn middle_of_numbers(&self, dim: usize) -> Tensor {
        // NaN sorts behind all numbers.
        let order = self.argsort(dim, false);
        if !self.dtype().is_float() {
            return order.narrow(dim, (self.shape()[dim] as isize - 1) / 2, 1);
        }
        let counts = self.isnan().logical_not().sum_keepdim(dim);
        order.gather(dim, &(counts - 1).clamp_min(0).floor_divide(2))
    }

    /// The position of the last of the most frequent values along a dimension.
    #[track_caller]
    fn most_frequent(&self, dim: usize) -> Tensor {
        let (sorted, order) = self.sort(dim, false);
        let n = self.shape()[dim];
        let place = Tensor::arange(0, n, 1, DType::I64, &self.device());
        let place = place.reshape(self.line(dim, n)).expand(self.shape());
        let differs = sorted
            .narrow(dim, 1, n - 1)
            .ne(sorted.narrow(dim, 0, n - 1));
        let begins = Tensor::cat([place.narrow(dim, 0, 1).eq(0), differs], dim);
        let begin = begins.where_cond(&place, 0).cummax(dim).0;
        let longest = (place - begin).argmax_keepdim(dim);
        order.gather(dim, &longest)
    }

    #[track_caller]
    fn pick(
        &self,
        name: &str,
        dim: Dim,
        keepdim: bool,
        place: impl Fn(&Tensor, usize) -> Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let (x, dim) = self.row_along(dim)?;
        let dtype = x.dtype();
        if dtype == DType::Bool {
            return Err(Error::untaken(name, dtype, DType::U8));
        }
        if x.shape()[dim] == 0 {
            let why = format!("dimension {dim} of {} has no elements", x.shape());
            return Err(Error::shape(why));
        }
        let at = place(&x, dim);
        let values = x.gather(dim, &at);
        match keepdim && self.rank() > 0 {
            true => Ok((values, at)),
            false => Ok((values.squeeze(dim), at.squeeze(dim))),
        }
    }

    /// The position of the lower middle one of the elements along a dimension, or of the first NaN.
    #[track_caller]
    fn middle(&self, dim: usize) -> Tensor {
        let n = self.shape()[dim] as isize;
        let at = self.argsort(dim, false).narrow(dim, (n - 1) / 2, 1);
        if !self.dtype().is_float() {
            return at;
        }
        let is_nan = self.isnan();
        let first = is_nan.to_dtype(DType::I64).argmax_keepdim(dim);
        is_nan.any_keepdim(dim).where_cond(&first, &at)
    }

    /// The tensor, a number as a row of one, and the dimension.
    #[track_caller]
    fn row_along(&self, dim: Dim) -> Result<(Tensor, usize)> {
        self.check()?;
        let dim = dim.wrap_along(self.rank())?;
        match self.rank() {
            0 => Ok((self.unsqueeze(0), dim)),
            _ => Ok((self.clone(), dim)),
        }
    }

    /// Quantiles of floats over dimensions, which go away: the sorted elements at q·(n − 1), with linear interpolation
    /// between neighbours; NaN where an element is. One number `q`, or several, which give a new first dimension. A `q`
    /// outside [0, 1] and a tensor of no elements are errors.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[4.0, 1.0, 2.0, 8.0], 4, &Device::cpu());
    /// assert_eq!(x.quantile(0.5, 0).to_scalar::<f64>()?, 3.0);
    /// assert_eq!(x.quantile([0.0, 0.25, 1.0], 0).to_vec::<f64>()?, [1.0, 1.75, 8.0]);
    /// assert_eq!(x.reshape([2, 2]).quantile(0.5, ..).to_scalar::<f64>()?, 3.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn quantile(&self, q: impl Into<Quantiles>, dims: impl Into<Dims>) -> Tensor {
        let quantiles = self.quantiles(&q.into(), &dims.into(), false, true);
        attempt!("quantile", quantiles, self).called("quantile", &[self])
    }

    /// As [`quantile`](Tensor::quantile), the dimensions staying with size 1.
    #[track_caller]
    pub fn quantile_keepdim(&self, q: impl Into<Quantiles>, dims: impl Into<Dims>) -> Tensor {
        let quantiles = self.quantiles(&q.into(), &dims.into(), true, true);
        attempt!("quantile", quantiles, self).called("quantile", &[self])
    }

    /// [`quantile`](Tensor::quantile) of the elements that are not NaN; NaN of none.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[4.0, f64::NAN, 2.0, 8.0], 4, &Device::cpu());
    /// assert_eq!(x.nanquantile(0.5, 0).to_scalar::<f64>()?, 4.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn nanquantile(&self, q: impl Into<Quantiles>, dims: impl Into<Dims>) -> Tensor {
        let quantiles = self.quantiles(&q.into(), &dims.into(), false, false);
        attempt!("nanquantile", quantiles, self).called("nanquantile", &[self])
    }

    /// As [`nanquantile`](Tensor::nanquantile), the dimensions staying with size 1.
    #[track_caller]
    pub fn nanquantile_keepdim(&self, q: impl Into<Quantiles>, dims: impl Into<Dims>) -> Tensor {
        let quantiles = self.quantiles(&q.into(), &dims.into(), true, false);
        attempt!("nanquantile", quantiles, self).called("nanquantile", &[self])
    }

    /// Quantiles over dimensions: of all elements, NaN where one is NaN, or of those that are not.
    #[track_caller]
    fn quantiles(&self, q: &Quantiles, dims: &Dims, keepdim: bool, of_all: bool) -> Result<Tensor> {
        self.check()?;
        let dtype = self.dtype();
        if !dtype.is_float() {
            let name = if of_all { "quantile" } else { "nanquantile" };
            return Err(Error::untaken(name, dtype, DType::F32));
        }
        // A number is a row of one.
        let joined = dims.list(self.rank().max(1))?;
        let numbers = q.numbers()?;
        if self.numel() == 0 {
            return Err(Error::shape(format!("no elements in {}", self.shape())));
        }
        let kept: Vec<usize> = (0..self.rank())
            .filter(|dim| !joined.contains(dim))
            .collect();
        let sizes = |dims: &[usize]| {
            dims.iter()
                .map(|&dim| self.shape()[dim])
                .collect::<Vec<_>>()
        };
        let (x, along) = match (self.rank(), &joined[..]) {
            (0, _) => (self.unsqueeze(0), 0),
            (_, [dim]) => (self.clone(), *dim),
            _ => {
                let count: usize = sizes(&joined).iter().product();
                let order: Vec<usize> = kept.iter().chain(&joined).copied().collect();
                let rows = [sizes(&kept), vec![count]].concat();
                (self.permute(&order[..]).reshape(rows), kept.len())
            }
        };
        let found = match of_all {
            true => x.between_all(numbers, along),
            false => x.between_numbers(numbers, along),
        };
        let found = found.to_dtype(dtype).movedim(along, 0);
        let found = match keepdim && self.rank() > 0 {
            true => {
                let left = (0..self.rank()).map(|dim| {
                    if joined.contains(&dim) {
                        1
                    } else {
                        self.shape()[dim]
                    }
                });
                found.reshape(
                    [numbers.len()]
                        .into_iter()
                        .chain(left)
                        .collect::<Vec<usize>>(),
                )
            }
            false => found,
        };
        Ok(if q.is_one() { found.squeeze(0) } else { found })
    }

    /// The quantiles of all elements, NaN where one is NaN, in the dtype of arithmetic.
    #[track_caller]
    fn between_all(&self, quantiles: &[f64], dim: usize) -> Tensor {
        let (compute, device) = (self.dtype().compute(), self.device());
        let k = quantiles.len();
        let ([low, high], parts) = places(quantiles, self.shape()[dim]);
        let parts = Tensor::from_vec(parts, self.line(dim, k), &device).to_dtype(compute);
        // NaN sorts behind all numbers.
        let sorted = self.sort(dim, false).0.to_dtype(compute);
        let low = sorted.index_select(dim, &Tensor::from_vec(low, k, &device));
        let high = sorted.index_select(dim, &Tensor::from_vec(high, k, &device));
        let between = low.lerp(&high, &parts);
        let is_nan = self.isnan().any_keepdim(dim);
        is_nan.where_cond(f64::NAN, &between)
    }

    /// The quantiles of the elements that are not NaN, in the dtype of arithmetic.
    #[track_caller]
    fn between_numbers(&self, quantiles: &[f64], dim: usize) -> Tensor {
        let (compute, device) = (self.dtype().compute(), self.device());
        let q = Tensor::from_slice(quantiles, self.line(dim, quantiles.len()), &device);
        let counts = self.isnan().logical_not().sum_keepdim(dim);
        // A row of none takes its first element, which is NaN.
        let last = (counts - 1).clamp_min(0).to_dtype(DType::F64);
        let place = last * q;
        let sorted = self.sort(dim, false).0.to_dtype(compute);
        let low = sorted.gather(dim, &place.floor().to_dtype(DType::I64));
        let high = sorted.gather(dim, &place.ceil().to_dtype(DType::I64));
        low.lerp(&high, &place.frac().to_dtype(compute))
    }

    /// A shape of 1 but in a dimension.
    fn line(&self, dim: usize, size: usize) -> Vec<usize> {
        let mut line = vec![1; self.rank()];
        line[dim] = size;
        line
    }
}
