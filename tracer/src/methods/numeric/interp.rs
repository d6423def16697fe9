//! Functions between the places that they are known at.

use super::attempt;
use crate::Tensor;
use ferrotrace_kernels::ArgMeta;
use ferrotrace_kernels::ops::pointwise::promote;
use ferrotrace_runtime::{DType, Error, Result};

impl Tensor {
    /// The values at these places, of any shape, of the function that is `fp` at the places `xp` and runs straight between
    /// them. Before the first place and behind the last it stays. `xp` and `fp` are vectors of one size, not empty, and `xp`
    /// ascends, else values have no meaning. All promote to floats; integers give `F32`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let of = |x: &[f64]| Tensor::from_slice(x, x.len(), &Device::cpu());
    /// let y = of(&[0.0, 1.5, 2.0, 9.0]).interp(&of(&[1.0, 2.0, 4.0]), &of(&[3.0, 2.0, 0.0]));
    /// assert_eq!(y.to_vec::<f64>()?, [3.0, 2.5, 2.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn interp(&self, xp: &Tensor, fp: &Tensor) -> Tensor {
        let y = self.between(xp, fp);
        attempt!("interp", y, self, xp, fp).called("interp", &[self, xp, fp])
    }

    #[track_caller]
    fn between(&self, xp: &Tensor, fp: &Tensor) -> Result<Tensor> {
        self.check()?;
        for of in [xp, fp] {
            of.check_rank(1, "a vector")?;
        }
        let n = xp.numel();
        if n == 0 || fp.numel() != n {
            let values = fp.numel();
            return Err(Error::shape(format!("{values} values at {n} places")));
        }
        let dtype = promote(&[self, xp, fp].map(|x| ArgMeta::Tensor(x.sizes(), x.dtype())));
        let dtype = if dtype.is_float() { dtype } else { DType::F32 };
        let [x, xp, fp] = [self, xp, fp].map(|x| x.to_dtype(dtype.compute()));
        if n == 1 {
            return Ok(fp.at(0).expand(self.shape()).to_dtype(dtype));
        }
        let above = xp.detach().searchsorted(&x.detach(), true);
        let left = (above - 1).clamp(0, n as i64 - 2);
        let right = &left + 1;
        let at = |of: &Tensor, i: &Tensor| of.index(&[Some(i)]);
        let (x0, x1, y0, y1) = (
            at(&xp, &left),
            at(&xp, &right),
            at(&fp, &left),
            at(&fp, &right),
        );
        let slope = (&y1 - &y0) / (&x1 - &x0);
        let rising = &slope * (&x - &x0) + &y0;
        // From an infinite value, the way is told from the other end.
        let falling = slope * (&x - &x1) + &y1;
        let between = rising.isnan().where_cond(&falling, &rising);
        let level = x
            .eq(&x0)
            .logical_or(&y0.eq(&y1).logical_and(&x.isnan().logical_not()));
        let inside = level.where_cond(&y0, &between);
        let y = x.ge(&xp.at(-1)).where_cond(&fp.at(-1), &inside);
        let y = x.lt(&xp.at(0)).where_cond(&fp.at(0), &y);
        Ok(y.to_dtype(dtype))
    }
}
