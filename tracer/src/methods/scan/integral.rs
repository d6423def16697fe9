//! Integrals by the trapezoidal rule, and slopes.

use super::super::attempt;
use crate::Tensor;
use crate::args::{Dim, Operand};
use ferrotrace_runtime::{DType, Error, Result};

impl Tensor {
    /// The integral of values along a dimension by the trapezoidal rule: the sum of means of neighbours times their distance.
    /// `x` is that distance, or a tensor of the places: a vector, or one that broadcasts with the values. Integers give
    /// `F32`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let y = Tensor::from_slice(&[1.0, 5.0, 10.0], 3, &Device::cpu());
    /// assert_eq!(y.trapezoid(1.0, -1).item::<f64>()?, 10.5);
    /// let x = Tensor::from_slice(&[1.0, 3.0, 6.0], 3, &Device::cpu());
    /// assert_eq!(y.trapezoid(&x, -1).item::<f64>()?, 28.5);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn trapezoid<'a>(&self, x: impl Into<Operand<'a>>, dim: impl Into<Dim>) -> Tensor {
        let (areas, dim, dtype) = attempt!("trapezoid", self.areas(x.into(), dim.into()), self);
        areas.sum(dim).to_dtype(dtype).called("trapezoid", &[self])
    }

    /// The integrals up to each element but the first, as [`trapezoid`](Tensor::trapezoid) computes them.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let y = Tensor::from_slice(&[1.0, 5.0, 10.0], 3, &Device::cpu());
    /// assert_eq!(y.cumulative_trapezoid(1.0, 0).to_vec::<f64>()?, [3.0, 10.5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn cumulative_trapezoid<'a>(
        &self,
        x: impl Into<Operand<'a>>,
        dim: impl Into<Dim>,
    ) -> Tensor {
        let (areas, dim, dtype) = attempt!(
            "cumulative_trapezoid",
            self.areas(x.into(), dim.into()),
            self
        );
        let sums = areas.cumsum(dim).to_dtype(dtype);
        sums.called("cumulative_trapezoid", &[self])
    }

    /// Slopes along a dimension, one for each element, as NumPy's `gradient` has them: the slope of the parabola through an element
    /// and its neighbours (central differences where places are evenly spaced), and at both ends that to the only neighbour. `x`
    /// is the distance of neighbours, or a tensor of the places, as [`trapezoid`](Tensor::trapezoid) takes it. Integers give
    /// `F32`; fewer than two elements are an error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let y = Tensor::from_slice(&[1.0, 2.0, 4.0, 7.0], 4, &Device::cpu());
    /// assert_eq!(y.gradient(1.0, 0).to_vec::<f64>()?, [1.0, 1.5, 2.5, 3.0]);
    /// let x = Tensor::from_slice(&[0.0, 1.0, 3.0, 4.0], 4, &Device::cpu());
    /// assert_eq!(y.gradient(&x, 0).to_vec::<f64>()?, [1.0, 1.0, 7.0 / 3.0, 3.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn gradient<'a>(&self, x: impl Into<Operand<'a>>, dim: impl Into<Dim>) -> Tensor {
        let slopes = attempt!("gradient", self.finite_slopes(x.into(), dim.into()), self);
        slopes.called("gradient", &[self])
    }

    #[track_caller]
    fn finite_slopes(&self, x: Operand<'_>, dim: Dim) -> Result<Tensor> {
        self.check()?;
        let dim = dim.wrap(self.rank())?;
        let size = self.shape()[dim];
        if size < 2 {
            let why = format!(
                "slopes of {} along dimension {dim}: fewer than two elements",
                self.shape()
            );
            return Err(Error::shape(why));
        }
        let (places, dtype) = self.integral_places(&x);
        let wide = dtype.compute();
        let differences = neighbours(&self.to_dtype(wide), dim, |a, b| b - a);
        let (slopes, inner) = match (x, places) {
            (Operand::Scalar(step), _) => {
                let slopes = differences / step;
                let inner = neighbours(&slopes, dim, |a, b| (a + b) / 2.0);
                (slopes, inner)
            }
            (_, Some(x)) => {
                let steps = self.steps(&x.to_dtype(wide), dim)?;
                let slopes = differences / &steps;
                // Each slope counts as the other one's distance.
                let along = steps.rank() + dim - self.rank();
                let inner = neighbours(&slopes, dim, |a, b| {
                    neighbours(&steps, along, |h, k| (&a * &k + &b * &h) / (h + k))
                });
                (slopes, inner)
            }
            _ => return Err(Error::argument("no places")),
        };
        let last = size as isize - 2;
        let ends = [slopes.narrow(dim, 0, 1), slopes.narrow(dim, last, 1)];
        let all = Tensor::cat([&ends[0], &inner, &ends[1]], dim);
        Ok(all.to_dtype(dtype))
    }

    /// The tensor of places, and the dtype of what values and these give.
    fn integral_places(&self, x: &Operand<'_>) -> (Option<Tensor>, DType) {
        let own = match self.dtype().is_float() {
            true => self.dtype(),
            false => DType::F32,
        };
        let places = match x {
            Operand::Scalar(_) => None,
            Operand::Tensor(x) => Some((*x).clone()),
            Operand::Owned(x) => Some(x.clone()),
        };
        let dtype = match &places {
            Some(x) if x.dtype().is_float() => own.promote(x.dtype()),
            _ => own,
        };
        (places, dtype)
    }

    /// The areas between neighbours along a dimension, in the dtype of arithmetic, the dimension, and the result's dtype.
    #[track_caller]
    fn areas(&self, x: Operand<'_>, dim: Dim) -> Result<(Tensor, usize, DType)> {
        self.check()?;
        let dim = dim.wrap(self.rank())?;
        let (places, dtype) = self.integral_places(&x);
        let wide = dtype.compute();
        let sum = neighbours(&self.to_dtype(wide), dim, |a, b| a + b);
        let areas = match (x, places) {
            (Operand::Scalar(step), _) => sum * step,
            (_, Some(x)) => sum * self.steps(&x.to_dtype(wide), dim)?,
            _ => return Err(Error::argument("no places")),
        };
        Ok((areas / 2.0, dim, dtype))
    }

    /// The distances of places, in a shape that broadcasts with the areas.
    #[track_caller]
    fn steps(&self, x: &Tensor, dim: usize) -> Result<Tensor> {
        x.check()?;
        if x.rank() != 1 {
            let at = (dim + x.rank()).checked_sub(self.rank());
            let at = at.ok_or_else(|| {
                let why = format!("places {} of values {}", x.shape(), self.shape());
                Error::shape(why)
            })?;
            return Ok(neighbours(x, at, |a, b| b - a));
        }
        if x.numel() != self.shape()[dim] {
            let why = format!("{} places of {} values", x.numel(), self.shape()[dim]);
            return Err(Error::shape(why));
        }
        let steps = neighbours(x, 0, |a, b| b - a);
        let mut shape = vec![1; self.rank()];
        shape[dim] = steps.numel();
        Ok(steps.reshape(shape))
    }
}

/// A function of each element but the last of a dimension and the one behind it.
#[track_caller]
fn neighbours(x: &Tensor, dim: usize, f: impl Fn(Tensor, Tensor) -> Tensor) -> Tensor {
    let n = x.shape()[dim];
    let rest = n.saturating_sub(1);
    f(
        x.narrow(dim, 0, rest),
        x.narrow(dim, (n - rest) as isize, rest),
    )
}
