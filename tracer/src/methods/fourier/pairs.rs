//! Arithmetic of complex numbers that are pairs.

use super::super::attempt;
use super::transform::multiplied;
use crate::Tensor;
use ferrotrace_runtime::{Error, Result};

impl Tensor {
    /// Complex numbers of real and imaginary parts, which broadcast: pairs with a last dimension of 2.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// let z = Tensor::complex(&x, &(&x * 10.0));
    /// assert_eq!(z.to_vec::<f64>()?, [1.0, 10.0, 2.0, 20.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn complex(real: &Tensor, imaginary: &Tensor) -> Tensor {
        let sizes = real.sizes().broadcast(imaginary.sizes()).ok_or_else(|| {
            let (a, b) = (real.sizes(), imaginary.sizes());
            Error::shape(format!("{a} and {b} do not broadcast"))
        });
        let sizes = attempt!("complex", sizes, real, imaginary);
        let parts = [real, imaginary].map(|part| part.broadcast_to(&*sizes));
        Tensor::stack(&parts, -1).called("complex", &[real, imaginary])
    }

    /// Products of complex numbers, which broadcast: pairs with a last dimension of 2.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let i = Tensor::from_slice(&[0.0, 1.0], 2, &Device::cpu());
    /// let z = Tensor::from_slice(&[3.0, 4.0, 1.0, 0.0], [2, 2], &Device::cpu());
    /// assert_eq!(z.complex_mul(&i).to_vec::<f64>()?, [-4.0, 3.0, 0.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn complex_mul(&self, b: &Tensor) -> Tensor {
        let parts = attempt!("complex_mul", self.parts(), self, b);
        let others = attempt!("complex_mul", b.parts(), self, b);
        let product = multiplied(&parts, &others);
        Tensor::stack(&product, -1).called("complex_mul", &[self, b])
    }

    /// The conjugates of complex numbers, pairs with a last dimension of 2.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let z = Tensor::from_slice(&[3.0, 4.0], 2, &Device::cpu());
    /// assert_eq!(z.complex_conj().to_vec::<f64>()?, [3.0, -4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn complex_conj(&self) -> Tensor {
        attempt!("complex_conj", self.parts(), self);
        let signs = 1 - Tensor::arange(0, 2, 1, self.dtype(), &self.device()) * 2;
        (self * signs).called("complex_conj", &[self])
    }

    /// The magnitudes of complex numbers: pairs `[.., 2]` give `[..]`. Magnitudes whose squares leave the dtype's range are found
    /// too. The gradient at 0 is 0.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let z = Tensor::from_slice(&[3.0, 4.0, 0.0, -2.0], [2, 2], &Device::cpu());
    /// assert_eq!(z.complex_abs().to_vec::<f64>()?, [5.0, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn complex_abs(&self) -> Tensor {
        let [real, imaginary] = attempt!("complex_abs", self.parts(), self);
        real.hypot(&imaginary).called("complex_abs", &[self])
    }

    /// The angles of complex numbers, between −π and π: pairs `[.., 2]` give `[..]`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let z = Tensor::from_slice(&[0.0, 2.0], 2, &Device::cpu());
    /// assert_eq!(z.complex_angle().to_scalar::<f64>()?, std::f64::consts::FRAC_PI_2);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn complex_angle(&self) -> Tensor {
        let [real, imaginary] = attempt!("complex_angle", self.parts(), self);
        imaginary.atan2(&real).called("complex_angle", &[self])
    }

    /// Real and imaginary parts.
    #[track_caller]
    fn parts(&self) -> Result<[Tensor; 2]> {
        self.check()?;
        match self.sizes().last() {
            Some(2) => Ok([self.select(-1, 0), self.select(-1, 1)]),
            _ => Err(Error::shape(format!(
                "complex numbers are pairs, a last dimension of 2, which {} has not",
                self.sizes()
            ))),
        }
    }
}
