//! Polynomials by their coefficients, that of the highest power first.

use super::attempt;
use crate::Tensor;
use ferrotrace_kernels::ArgMeta;
use ferrotrace_kernels::ops::pointwise::promote;
use ferrotrace_runtime::{DType, Error, Result};

impl Tensor {
    /// The values at `x`, of any shape, of the polynomial whose coefficients this vector is, that of the highest power first.
    /// Both promote. Horner's rule takes a product and a sum for each coefficient; no coefficients give 0.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let p = Tensor::from_slice(&[3i64, 0, 1], 3, &Device::cpu());
    /// let x = Tensor::from_slice(&[5i64, -1], 2, &Device::cpu());
    /// assert_eq!(p.polyval(&x).to_vec::<i64>()?, [76, 4]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn polyval(&self, x: &Tensor) -> Tensor {
        attempt!("polyval", self.polynomial(x), self, x).called("polyval", &[self, x])
    }

    #[track_caller]
    fn polynomial(&self, x: &Tensor) -> Result<Tensor> {
        self.check_rank(1, "a list of coefficients")?;
        x.check()?;
        let dtype = promote(&[self, x].map(|x| ArgMeta::Tensor(x.sizes(), x.dtype())));
        let [p, wide] = [self, x].map(|x| x.to_dtype(dtype.compute()));
        let n = p.numel() as isize;
        if n == 0 {
            return Ok(x.zeros_like().to_dtype(dtype));
        }
        let mut y = p.at(0).expand(x.shape());
        for k in 1..n {
            y = y * &wide + p.at(k);
        }
        Ok(y.to_dtype(dtype))
    }

    /// The coefficients, that of the highest power first, of the polynomial of degree `deg` whose values at these places, a
    /// vector `[m]`, differ from `y` by the least squares: `[m]` gives `[deg + 1]`, and `[m, k]`, a column for each of k
    /// functions, `[deg + 1, k]`. Dtypes promote to `F32` or `F64`; integers count as `F32`. At most `deg` places are an error;
    /// where no more than that differ, coefficients have no meaning.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.0, 1.0, 2.0, 3.0], 4, &Device::cpu());
    /// let y = x.square() * 2.0 - 1.0;
    /// let expected = Tensor::from_slice(&[2.0, 0.0, -1.0], 3, &Device::cpu());
    /// assert!(x.polyfit(&y, 2).allclose(&expected, 1e-9, 1e-9)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn polyfit(&self, y: &Tensor, deg: usize) -> Tensor {
        attempt!("polyfit", self.fitted_powers(y, deg), self, y).called("polyfit", &[self, y])
    }

    #[track_caller]
    fn fitted_powers(&self, y: &Tensor, deg: usize) -> Result<Tensor> {
        self.check_rank(1, "a list of places")?;
        y.check()?;
        let m = self.numel();
        if !matches!(y.rank(), 1 | 2) || y.shape()[0] != m {
            let shape = y.shape();
            return Err(Error::shape(format!("values {shape} at {m} places")));
        }
        if m <= deg {
            let why = format!("{m} places for a polynomial of degree {deg}");
            return Err(Error::argument(why));
        }
        let dtype = promote(&[self, y].map(|x| ArgMeta::Tensor(x.sizes(), x.dtype())));
        let dtype = if dtype.is_float() { dtype } else { DType::F32 };
        let [x, y] = [self, y].map(|x| x.to_dtype(dtype));
        // Columns of one size keep large powers from hiding small ones.
        let powers = x.vander(deg + 1, false);
        let size = powers.square().sum(0).sqrt();
        let found = (powers / &size).lstsq(&y);
        found.recorded()?;
        let size = if y.rank() == 2 {
            size.unsqueeze(1)
        } else {
            size
        };
        Ok(found / size)
    }
}
