//! Equations, inverses and determinants.

use super::super::attempt;
use super::super::attempt_both;
use super::factor;
use crate::{Input, Tensor};
use ferrotrace_kernels::op::{Lu, Qr, SolveTriangular};
use ferrotrace_runtime::{Error, Result};

impl Tensor {
    /// The solution x of self·x = b, by elimination with partial pivoting. `[.., n, n]` and `b` `[.., n, k]` give
    /// `[.., n, k]`; batches broadcast, and dtypes promote to `F32` or `F64`. As in PyTorch, `b` is a batch of vectors if it is
    /// `[n]` or has the sizes of this tensor without its last dimension. Reading the result where a matrix is singular is an
    /// error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[0.0, 2.0, 1.0, 1.0], [2, 2], &Device::cpu());
    /// let b = Tensor::from_slice(&[4.0, 5.0], 2, &Device::cpu());
    /// assert_eq!(a.solve(&b).to_vec::<f64>()?, [3.0, 2.0]);
    /// assert!(a.zeros_like().solve(&b).to_vec::<f64>().is_err());
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn solve(&self, b: &Tensor) -> Tensor {
        attempt!("solve", self.solved(b), self, b).called("solve", &[self, b])
    }

    #[track_caller]
    fn solved(&self, b: &Tensor) -> Result<Tensor> {
        let (a, b) = self.promoted("solve", b)?;
        match a.takes_vectors(&b) {
            true => Ok(a.solution("solve", &b.unsqueeze(-1)).squeeze(-1)),
            false => Ok(a.solution("solve", &b)),
        }
    }

    /// Whether the right-hand sides of equations are vectors.
    fn takes_vectors(&self, b: &Tensor) -> bool {
        let rank = self.rank() - 1;
        match b.rank() {
            1 => true,
            n => n == rank && self.shape()[..rank] == b.shape()[..],
        }
    }

    /// The solution x of self·x = b, or with `left` false of x·self = b, where this matrix is triangular: only the lower
    /// triangle is read, with `upper` the upper one, and with `unitriangular` not its diagonal, which is taken to be 1.
    /// `[.., n, n]` and `b` `[.., n, k]` (`[.., k, n]`) give the sizes of `b`; batches broadcast, and dtypes promote to `F32` or
    /// `F64`. Zeros on the diagonal give infinities or NaN.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[2.0, 0.0, 1.0, 4.0], [2, 2], &Device::cpu());
    /// let b = Tensor::from_slice(&[2.0, 9.0], [2, 1], &Device::cpu());
    /// assert_eq!(a.solve_triangular(&b, false, true, false).to_vec::<f64>()?, [1.0, 2.0]);
    /// assert_eq!(a.solve_triangular(&b, false, true, true).to_vec::<f64>()?, [2.0, 7.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn solve_triangular(
        &self,
        b: &Tensor,
        upper: bool,
        left: bool,
        unitriangular: bool,
    ) -> Tensor {
        let op = SolveTriangular {
            upper,
            unit: unitriangular,
        };
        let solved = self.beside(op, b, left);
        attempt!("solve_triangular", solved, self, b).called("solve_triangular", &[self, b])
    }

    #[track_caller]
    fn beside(&self, op: SolveTriangular, b: &Tensor, left: bool) -> Result<Tensor> {
        let (a, b) = self.promoted("solve_triangular", b)?;
        b.matrices("solve_triangular")?;
        if left {
            return Ok(a.substituted("solve_triangular", op, &b));
        }
        let (a, b) = (a.turned(), b.turned());
        let found = a.substituted("solve_triangular", op.turned(), &b);
        found.recorded()?;
        Ok(found.turned())
    }

    #[track_caller]
    pub(super) fn substituted(
        &self,
        name: &'static str,
        op: SolveTriangular,
        b: &Tensor,
    ) -> Tensor {
        let inputs = [Input::Tensor(self), Input::Tensor(b)];
        Tensor::record_as(name, factor(op), &inputs)
    }

    /// The solution x of a·x = b, where this matrix is the lower factor L of a = L·Lᵀ that [`cholesky`](Tensor::cholesky)
    /// gives. `[.., n, n]` and `b` `[.., n, k]` give `[.., n, k]`; batches broadcast, and dtypes promote to `F32` or `F64`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[4.0, 2.0, 2.0, 5.0], [2, 2], &Device::cpu());
    /// let b = Tensor::from_slice(&[8.0, 12.0], [2, 1], &Device::cpu());
    /// assert_eq!(a.cholesky().cholesky_solve(&b).to_vec::<f64>()?, [1.0, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn cholesky_solve(&self, b: &Tensor) -> Tensor {
        let solved = self.by_factor(b);
        attempt!("cholesky_solve", solved, self, b).called("cholesky_solve", &[self, b])
    }

    #[track_caller]
    fn by_factor(&self, b: &Tensor) -> Result<Tensor> {
        let (factor, b) = self.promoted("cholesky_solve", b)?;
        let inner = factor.substituted("cholesky_solve", SolveTriangular::LOWER, &b);
        inner.recorded()?;
        let turned = factor.turned();
        Ok(turned.substituted("cholesky_solve", SolveTriangular::UPPER, &inner))
    }

    /// The inverse of square matrices, `[.., n, n]` of `F32` or `F64`. Reading it where a matrix is singular is an error.
    /// [`solve`](Tensor::solve) is faster and more exact where the inverse is multiplied.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[1.0, 2.0, 0.0, 4.0], [2, 2], &Device::cpu());
    /// assert_eq!(a.inverse().to_vec::<f64>()?, [1.0, -0.5, 0.0, 0.25]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn inverse(&self) -> Tensor {
        attempt!("inverse", self.inverted("inverse"), self).called("inverse", &[self])
    }

    /// The determinant of square matrices: `[.., n, n]` of `F32` or `F64` gives `[..]`. That of a matrix without rows is 1.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [2, 2], &Device::cpu());
    /// assert_eq!(a.det().to_scalar::<f64>()?, -2.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn det(&self) -> Tensor {
        let (signs, pivots) = attempt!("det", self.pivots("det"), self);
        (signs.prod(-1) * pivots.prod(-1)).called("det", &[self])
    }

    /// The sign of the determinant of square matrices and the logarithm of its magnitude, which do not overflow: `[.., n, n]`
    /// of `F32` or `F64` gives `[..]` twice. Of a singular matrix they are 0 and −∞.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[0.0, 1e200, 1e200, 0.0], [2, 2], &Device::cpu());
    /// let (sign, logabsdet) = a.slogdet();
    /// assert_eq!(sign.to_scalar::<f64>()?, -1.0);
    /// assert!((logabsdet.to_scalar::<f64>()? - 400.0 * 10f64.ln()).abs() < 1e-9);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn slogdet(&self) -> (Tensor, Tensor) {
        let (sign, log) = attempt_both!("slogdet", self.signed_log("slogdet"), self);
        (
            sign.called("slogdet", &[self]),
            log.called("slogdet", &[self]),
        )
    }

    /// The logarithm of the determinant of square matrices: `[.., n, n]` of `F32` or `F64` gives `[..]`; −∞ where it is 0, NaN
    /// where it is negative.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[1e200, 0.0, 0.0, 1e200], [2, 2], &Device::cpu());
    /// assert!((a.logdet().to_scalar::<f64>()? - 400.0 * 10f64.ln()).abs() < 1e-9);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn logdet(&self) -> Tensor {
        let (sign, log) = attempt!("logdet", self.signed_log("logdet"), self);
        let logdet = sign.lt(0.0).where_cond(f64::NAN, &log);
        logdet.called("logdet", &[self])
    }

    /// The inverse of each matrix whose Cholesky factor, lower triangular, this is: `[.., n, n]` of `F32` or `F64`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[4.0, 2.0, 2.0, 5.0], [2, 2], &Device::cpu());
    /// let inverse = a.cholesky().cholesky_inverse();
    /// assert!(inverse.allclose(&a.inverse(), 1e-12, 1e-12)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn cholesky_inverse(&self) -> Tensor {
        const NAME: &str = "cholesky_inverse";
        let [_, n] = attempt!(NAME, self.matrices(NAME), self).extents();
        let one = Tensor::eye(n, self.dtype(), &self.device());
        self.cholesky_solve(&one).called(NAME, &[self])
    }

    /// The sign of the determinant and the logarithm of its magnitude, for the method of this name.
    #[track_caller]
    fn signed_log(&self, name: &'static str) -> Result<(Tensor, Tensor)> {
        let (signs, pivots) = self.pivots(name)?;
        let sign = signs.prod(-1) * pivots.sign().prod(-1);
        Ok((sign, pivots.abs().log().sum(-1)))
    }

    /// −1 for each exchange of rows and 1 for other steps of the elimination, and the pivots.
    #[track_caller]
    fn pivots(&self, name: &'static str) -> Result<(Tensor, Tensor)> {
        let of = [Input::Tensor(self.matrices(name)?)];
        let factors = Tensor::record_as(name, factor(Lu {}), &of);
        factors.recorded()?;
        let pivots = factors.slice(-2, 2, isize::MAX, 1).diagonal(0, -2, -1);
        let own = Tensor::arange(0, pivots.dim(-1)?, 1, self.dtype(), &self.device());
        let signs = factors
            .select(-2, 1)
            .eq(own)
            .where_cond(1.0, &pivots.full_like(-1.0));
        Ok((signs, pivots))
    }

    /// The x for which self·x − b has the least squares, of matrices with at least as many rows as columns, whose columns are
    /// independent. `[.., m, n]` and `b` `[.., m, k]` give `[.., n, k]`; batches broadcast, dtypes promote to `F32` or `F64`, and
    /// `b` may be vectors as in [`solve`](Tensor::solve). Of fewer rows it is an error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[1.0, 0.0, 1.0, 1.0, 1.0, 2.0], [3, 2], &Device::cpu());
    /// let b = Tensor::from_slice(&[1.0, 3.0, 5.0], 3, &Device::cpu());
    /// let line = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// assert!(a.lstsq(&b).allclose(&line, 1e-12, 1e-12)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn lstsq(&self, b: &Tensor) -> Tensor {
        attempt!("lstsq", self.fitted(b), self, b).called("lstsq", &[self, b])
    }

    #[track_caller]
    fn fitted(&self, b: &Tensor) -> Result<Tensor> {
        let (a, b) = self.promoted("lstsq", b)?;
        let vectors = a.takes_vectors(&b);
        let b = if vectors { b.unsqueeze(-1) } else { b };
        let ([m, n], rows) = (a.extents(), b.matrices("lstsq")?.extents()[0]);
        if m != rows {
            return Err(Error::shape(format!("{m} equations of {rows} numbers")));
        }
        let factors = Tensor::record_as("lstsq", factor(Qr {}), &[Input::Tensor(&a)]);
        factors.recorded()?;
        let (q, r) = (factors.narrow(-2, 0, m), factors.narrow(-2, m as isize, n));
        let right = q.turned().matmul(&b);
        let found = r.substituted("lstsq", SolveTriangular::UPPER, &right);
        Ok(if vectors { found.squeeze(-1) } else { found })
    }
}
