//! Numbers of the distribution of Γ.

use super::super::attempt;
use super::counts::{behind, drawn_for, first};
use crate::Tensor;
use crate::generator::{Generator, process};
use crate::grad::custom_grad;
use crate::trace;
use ferrotrace_runtime::DType;

/// Tries of a rejection; the last one counts whether it is accepted or not. A try is accepted with a probability of at
/// least 0.95, so that fewer than one element in 10⁹ has none.
const TRIES: usize = 7;

/// How the number `x` that was drawn for `a` moves with it where the distribution function stays: the derivative of that
/// function by a, over the density ([Figurnov et al. 2018](https://arxiv.org/abs/1805.08498)), from two values of the part
/// that is not near 1.
#[track_caller]
fn slope(a: &Tensor, x: &Tensor) -> Tensor {
    let (a, number) = (a.to_dtype(DType::F64), x.to_dtype(DType::F64));
    let none = number.eq(0.0);
    let x = none.where_cond(1.0, &number);
    let step = &a * 1e-4;
    let (more, less) = (&a + &step, &a - &step);
    let lower = less.gammainc(&x) - more.gammainc(&x);
    let upper = more.gammaincc(&x) - less.gammaincc(&x);
    let change = x.lt(&a).where_cond(&lower, &upper) / (step * 2.0);
    let density = ((&a - 1.0) * x.log() - &x - a.lgamma()).exp();
    none.where_cond(0.0, &(change / density))
}

impl Generator {
    /// Numbers of the distribution of Γ: [`Tensor::standard_gamma`].
    #[track_caller]
    pub fn standard_gamma(&self, shapes: &Tensor) -> Tensor {
        attempt!(
            "standard_gamma",
            drawn_for("standard_gamma", shapes),
            shapes
        );
        let own = self.clone();
        let draw = custom_grad(
            move |of: &[&Tensor]| own.numbers_of_gamma(of[0]),
            |of: &[&Tensor], x, gradient| {
                let slope = slope(of[0], x).to_dtype(x.dtype());
                vec![slope * gradient]
            },
        );
        draw(&[shapes]).called("standard_gamma", &[shapes])
    }

    /// By the method of Marsaglia and Tsang.
    #[track_caller]
    fn numbers_of_gamma(&self, shapes: &Tensor) -> Tensor {
        let _trace = trace::follow(shapes.node());
        let x = shapes.detach().to_dtype(DType::F64);
        let fits = x.gt(0.0).logical_and(&x.isfinite());
        let shape = fits.where_cond(&x, 1.0);
        // A shape below 1 is that of one more, times a uniform number to the power of its inverse.
        let is_low = shape.lt(1.0);
        let d = is_low.where_cond(&(&shape + 1.0), &shape) - 1.0 / 3.0;
        let normal = self.randn(behind(TRIES, &x), DType::F64, &x.device());
        let log = (-self.tries(TRIES, &x)).log1p();
        let root = 1.0 + &normal * (&d * 9.0).rsqrt();
        let inside = root.gt(0.0);
        let cube = inside.where_cond(&root, 1.0).pow(3.0);
        let bound = normal.square() * 0.5 + &d * (1.0 - &cube + cube.log());
        let accepted = log.lt(&bound).logical_and(&inside);
        let drawn = first(&cube, &accepted) * d;
        let uniform = (-self.rand(x.dims(), DType::F64, &x.device())).log1p();
        let power = is_low.where_cond(&(uniform / shape), 0.0).exp();
        let y = fits.where_cond(&(drawn * power), f64::NAN);
        y.to_dtype(shapes.dtype())
    }
}

impl Tensor {
    /// For each element a number from 0 on with density xᵃ⁻¹e⁻ˣ / Γ(a), by the method of
    /// [Marsaglia & Tsang 2000](https://doi.org/10.1145/358407.358414); NaN where a is not positive or not finite. Floats
    /// alone. The gradient is that of a number whose distribution function stays, as in PyTorch.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let shapes = Tensor::full(1000, 2.5, DType::F32, &Device::cpu());
    /// let x = shapes.standard_gamma();
    /// assert!((x.mean(..).item::<f64>()? - 2.5).abs() < 0.4);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn standard_gamma(&self) -> Tensor {
        process().standard_gamma(self)
    }
}
