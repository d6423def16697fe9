//! Counting: of numbers, and of what lies in ranges.

use super::super::attempt;
use crate::Tensor;
use ferrotrace_kernels::BinaryOp;
use ferrotrace_runtime::{DType, Error, Result, Scalar};

fn integers(what: &str, x: &Tensor) -> Result<()> {
    match x.dtype().is_int() {
        true => Ok(()),
        false => Err(Error::dtype(format!(
            "{what} of {}: to_dtype(DType::I64) first",
            x.dtype()
        ))),
    }
}

/// A range cut into parts.
pub(super) struct Parts {
    /// The part that each element of a flat tensor falls into, 0 where it falls into none.
    pub number: Tensor,
    /// 1 for each element that falls into a part, 0 for others.
    pub counts: Tensor,
    pub edges: Tensor,
}

impl Tensor {
    /// How often each of 0, 1, .. occurs in a vector of integers that are not negative, as `I64`; with `weights` of its
    /// shape, the sums of these, `F32` of `F32` and else `F64`. There are as many results as the greatest element asks
    /// for, `minlength` at least: it is read at the call, which flushes.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1i64, 3, 1], 3, &Device::cpu());
    /// assert_eq!(x.bincount(None, 0).to_vec::<i64>()?, [0, 2, 0, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn bincount(&self, weights: Option<&Tensor>, minlength: usize) -> Tensor {
        let counts = self.counts(weights, minlength);
        let operands: Vec<&Tensor> = std::iter::once(self).chain(weights).collect();
        match counts {
            Ok(counts) => counts.called("bincount", &operands),
            Err(error) => Tensor::failed("bincount", error, &operands),
        }
    }

    #[track_caller]
    fn counts(&self, weights: Option<&Tensor>, minlength: usize) -> Result<Tensor> {
        self.check()?;
        weights.map_or(Ok(()), Tensor::check)?;
        integers("positions", self)?;
        if self.rank() != 1 || weights.is_some_and(|w| w.shape() != self.shape()) {
            let weights = weights.map_or(String::new(), |w| format!(" with weights {}", w.sizes()));
            let why = format!("counts of shape {}{weights}, no vector", self.sizes());
            return Err(Error::shape(why));
        }
        let mut len = minlength;
        if self.numel() > 0 {
            let wide = self.to_dtype(DType::I64);
            let (least, most) = (wide.min(0), wide.max(0));
            crate::eval([&least, &most])?;
            if least.to_scalar::<i64>()? < 0 {
                let why = format!("{} is no position to count", least.to_scalar::<i64>()?);
                return Err(Error::argument(why));
            }
            len = len.max((most.to_scalar::<i64>()? as usize).saturating_add(1));
        }
        let dtype = match weights.map(Tensor::dtype) {
            None => DType::I64,
            Some(DType::F32) => DType::F32,
            Some(_) => DType::F64,
        };
        let start = Tensor::zeros(len, dtype, &self.device());
        let weights = match weights {
            Some(weights) => weights.to_dtype(dtype),
            None => Tensor::ones(self.shape(), dtype, &self.device()),
        };
        Ok(start.scatter_add(0, self, &weights))
    }

    /// How many elements fall into each of `bins` equal parts of `range`, or of what lies between the least and the
    /// greatest element: the counts, in this tensor's floating-point dtype, and the `bins + 1` edges. A part holds its
    /// lower edge, the last one its upper edge too; what lies outside, and NaN, is not counted. A range without width
    /// is taken half a unit wider on both sides.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.0, 1.0, 1.5, 4.0], 4, &Device::cpu());
    /// let (counts, edges) = x.histogram(4, Some((0.0, 4.0)));
    /// assert_eq!(counts.to_vec::<f64>()?, [1.0, 2.0, 0.0, 1.0]);
    /// assert_eq!(edges.to_vec::<f64>()?, [0.0, 1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn histogram(&self, bins: usize, range: Option<(f64, f64)>) -> (Tensor, Tensor) {
        match self.bins(bins, range) {
            Ok((counts, edges)) => (
                counts.called("histogram", &[self]),
                edges.called("histogram", &[self]),
            ),
            Err(error) => {
                let failed = Tensor::failed("histogram", error, &[self]);
                (failed.clone(), failed)
            }
        }
    }

    /// How many elements of floats fall into each of `bins` equal parts from `min` to `max`, both included, in this
    /// tensor's dtype; what lies outside, and NaN, is not counted. Where `min` equals `max`, the range is 1 wider on both
    /// sides; where both are 0, it is that from the least to the greatest element, which are read at the call: it flushes.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.0, 1.0, 1.5, 4.0, 9.0], 5, &Device::cpu());
    /// assert_eq!(x.histc(4, 0, 4).to_vec::<f64>()?, [1.0, 2.0, 0.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn histc(&self, bins: usize, min: impl Into<Scalar>, max: impl Into<Scalar>) -> Tensor {
        let range = (min.into().to_f64(), max.into().to_f64());
        attempt!("histc", self.fallen(bins, range), self).called("histc", &[self])
    }

    /// How many elements fall into each part, by one multiplication for each.
    #[track_caller]
    fn fallen(&self, bins: usize, range: (f64, f64)) -> Result<Tensor> {
        self.check()?;
        let dtype = self.dtype();
        if !dtype.is_float() {
            return Err(Error::untaken("histc", dtype, DType::F32));
        }
        if bins == 0 {
            return Err(Error::argument("0 bins are asked for"));
        }
        let x = self.flatten(0, -1).detach();
        let (low, high) = match range {
            (0.0, 0.0) if x.numel() > 0 => x.ends()?,
            range => range,
        };
        if !(low <= high && low.is_finite() && high.is_finite()) {
            return Err(Error::argument(format!("{low} to {high} is no range")));
        }
        let (low, high) = match low == high {
            true => (low - 1.0, high + 1.0),
            false => (low, high),
        };
        let wide = x.to_dtype(dtype.compute());
        let inside = wide.ge(low).logical_and(&wide.le(high));
        let part = ((wide - low) * bins as f64 / (high - low)).to_dtype(DType::I64);
        // The upper end belongs to the last part; what is not counted adds 0 to the first.
        let part = part.binary(BinaryOp::Minimum, bins as i64 - 1);
        let part = inside.where_cond(&part, 0);
        let start = Tensor::zeros(bins, DType::I64, &self.device());
        let counts = start.scatter_add(0, &part, &inside.to_dtype(DType::I64));
        Ok(counts.to_dtype(dtype))
    }

    /// The least and the greatest element, which are read.
    #[track_caller]
    fn ends(&self) -> Result<(f64, f64)> {
        let (low, high) = (
            self.min(0).to_dtype(DType::F64),
            self.max(0).to_dtype(DType::F64),
        );
        crate::eval([&low, &high])?;
        Ok((low.to_scalar::<f64>()?, high.to_scalar::<f64>()?))
    }

    #[track_caller]
    fn bins(&self, bins: usize, range: Option<(f64, f64)>) -> Result<(Tensor, Tensor)> {
        let parts = self.binned("histogram", bins, range)?;
        let start = Tensor::zeros(bins, DType::I64, &self.device());
        let counts = start.scatter_add(0, &parts.number, &parts.counts);
        Ok((counts.to_dtype(self.dtype()), parts.edges))
    }

    /// The parts of equal width of a range, or of what lies between the extremes, and where each element falls, for the
    /// method of this name.
    #[track_caller]
    pub(super) fn binned(
        &self,
        name: &str,
        bins: usize,
        range: Option<(f64, f64)>,
    ) -> Result<Parts> {
        self.check()?;
        let dtype = self.dtype();
        if !dtype.is_float() {
            return Err(Error::untaken(name, dtype, DType::F32));
        }
        if bins == 0 {
            return Err(Error::argument("0 bins are asked for"));
        }
        if let Some((low, high)) = range
            && !(low <= high && low.is_finite() && high.is_finite())
        {
            return Err(Error::argument(format!("{low} to {high} is no range")));
        }
        let x = self.flatten(0, -1);
        let device = self.device();
        let ends = match range {
            Some(ends) => ends,
            None if x.numel() == 0 => (0.0, 0.0),
            None => {
                let ends = x.ends()?;
                if !(ends.0.is_finite() && ends.1.is_finite()) {
                    let why = format!("{} to {} is no range", ends.0, ends.1);
                    return Err(Error::argument(why));
                }
                ends
            }
        };
        let (low, high) = match ends {
            (low, high) if low == high => (low - 0.5, high + 0.5),
            ends => ends,
        };
        let edges = Tensor::linspace(low, high, bins.saturating_add(1), dtype, &device);
        let above = edges.searchsorted(&x, true);
        // The last edge belongs to the last part.
        let top = x.eq(&edges.at(-1));
        let part = top.where_cond(bins as i64, &above).binary(BinaryOp::Sub, 1);
        let inside = part.ge(0).logical_and(&part.lt(bins as i64));
        let inside = inside.logical_and(&x.isnan().logical_not());
        // What is not counted adds 0 to the first part. Counts are whole numbers beyond 2²⁴ too.
        Ok(Parts {
            number: inside.where_cond(&part, 0),
            counts: inside.to_dtype(DType::I64),
            edges,
        })
    }
}
