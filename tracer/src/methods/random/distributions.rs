//! Distributions that others give by a formula.

use super::super::attempt;
use crate::Tensor;
use crate::generator::{Generator, process};
use ferrotrace_runtime::{DType, Device, Error, Result, Shape};

/// The dtype in which numbers of a dtype of floats are drawn, to be rounded once.
fn drawn_as(dtype: DType) -> DType {
    if dtype.is_float() {
        dtype.compute()
    } else {
        dtype
    }
}

/// # Errors
/// A number is not finite.
fn check_finite(what: &str, number: f64) -> Result<()> {
    match number.is_finite() {
        true => Ok(()),
        false => Err(Error::argument(format!("{what} of {number}"))),
    }
}

impl Generator {
    /// Normal numbers of a mean and a standard deviation: [`Tensor::normal`].
    #[track_caller]
    pub fn normal(
        &self,
        mean: f64,
        std: f64,
        shape: impl Into<Shape>,
        dtype: DType,
        device: &Device,
    ) -> Tensor {
        attempt!("normal", check_finite("a mean", mean));
        attempt!("normal", check_finite("a standard deviation", std));
        if std < 0.0 {
            let why = format!("a standard deviation of {std}: it must not be negative");
            return Tensor::failed("normal", Error::argument(why), &[]);
        }
        let drawn = self
            .randn(shape, drawn_as(dtype), device)
            .called("normal", &[]);
        (drawn * std + mean).to_dtype(dtype).called("normal", &[])
    }

    /// Exponentially distributed numbers of a rate: [`Tensor::exponential`].
    #[track_caller]
    pub fn exponential(
        &self,
        rate: f64,
        shape: impl Into<Shape>,
        dtype: DType,
        device: &Device,
    ) -> Tensor {
        if !(rate > 0.0 && rate.is_finite()) {
            let why = format!("a rate of {rate}: it must be positive");
            return Tensor::failed("exponential", Error::argument(why), &[]);
        }
        // 1 less a number below 1 is above 0, and has a logarithm.
        let drawn = self
            .rand(shape, drawn_as(dtype), device)
            .called("exponential", &[]);
        let times = (-drawn).log1p() / -rate;
        times.to_dtype(dtype).called("exponential", &[])
    }
}

impl Tensor {
    /// Normal numbers of a mean and a standard deviation, which must not be negative, of a floating-point dtype.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::normal(10.0, 0.5, 1000, DType::F32, &Device::cpu());
    /// assert!((x.mean(..).item::<f64>()? - 10.0).abs() < 0.2);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn normal(
        mean: f64,
        std: f64,
        shape: impl Into<Shape>,
        dtype: DType,
        device: &Device,
    ) -> Tensor {
        process().normal(mean, std, shape, dtype, device)
    }

    /// Times between events that come at a rate, which is positive: numbers from 0 on with density rate·exp(−rate·x), of a
    /// floating-point dtype.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::exponential(2.0, 1000, DType::F32, &Device::cpu());
    /// assert!((x.mean(..).item::<f64>()? - 0.5).abs() < 0.2);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn exponential(
        rate: f64,
        shape: impl Into<Shape>,
        dtype: DType,
        device: &Device,
    ) -> Tensor {
        process().exponential(rate, shape, dtype, device)
    }
}
