//! Factors of matrices.

use super::super::attempt;
use super::super::attempt_both;
use super::factor;
use crate::{Input, Tensor};
use ferrotrace_kernels::op::{Cholesky, Eigh, Eigvalsh, Qr, Svd, Svdvals};
use ferrotrace_runtime::{DType, Result};

impl Tensor {
    /// The lower triangular L with L·Lᵀ equal to this symmetric positive definite matrix, or to each of a batch: `[.., n, n]`
    /// of `F32` or `F64`, of which the lower triangle is read. The gradient is symmetric. Reading the result where a matrix is
    /// not positive definite is an error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[4.0, 2.0, 2.0, 5.0], [2, 2], &Device::cpu());
    /// assert_eq!(a.cholesky().to_vec::<f64>()?, [2.0, 0.0, 1.0, 2.0]);
    /// assert!((-a).cholesky().to_vec::<f64>().is_err());
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn cholesky(&self) -> Tensor {
        let of = attempt!("cholesky", self.matrices("cholesky"), self);
        of.apply(factor(Cholesky {}))
    }

    /// Q, of orthonormal columns, and R, upper triangular, whose product is this matrix: `[.., m, n]` of `F32` or `F64` gives
    /// `[.., m, k]` and `[.., k, n]`, where k is the lesser number. The signs are LAPACK's. The gradient needs the first k
    /// columns to be independent.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[3.0, 1.0, 4.0, 2.0], [2, 2], &Device::cpu());
    /// let (q, r) = a.qr();
    /// assert!(q.matmul(&r).allclose(&a, 1e-12, 1e-12)?);
    /// assert!((r.to_vec::<f64>()?[0] + 5.0).abs() < 1e-12);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn qr(&self) -> (Tensor, Tensor) {
        let (q, r) = attempt_both!("qr", self.orthogonal(), self);
        (q.called("qr", &[self]), r.called("qr", &[self]))
    }

    #[track_caller]
    fn orthogonal(&self) -> Result<(Tensor, Tensor)> {
        let [m, n] = self.matrices("qr")?.extents();
        if m < n {
            let (q, r) = self.narrow(-1, 0, m).orthogonal()?;
            let behind = self.narrow(-1, m as isize, n - m);
            let behind = q.turned().matmul(&behind);
            return Ok((q, Tensor::cat([r, behind], -1)));
        }
        let factors = self.apply(factor(Qr {}));
        Ok((factors.narrow(-2, 0, m), factors.narrow(-2, m as isize, n)))
    }

    /// The eigenvalues in ascending order and the eigenvectors, columns of norm 1, of symmetric matrices: `[.., n, n]` of `F32` or
    /// `F64`, of which the lower triangle is read, gives `[.., n]` and `[.., n, n]`. A vector's sign is arbitrary: only what does
    /// not depend on it has a gradient, and gradients by vectors of equal values are not defined. Reading the results where an
    /// element is not finite is an error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[2.0, 1.0, 1.0, 2.0], [2, 2], &Device::cpu());
    /// let (values, vectors) = a.eigh();
    /// let expected = Tensor::from_slice(&[1.0, 3.0], 2, &Device::cpu());
    /// assert!(values.allclose(&expected, 1e-12, 1e-12)?);
    /// assert!(a.matmul(&vectors).allclose(&(&vectors * values), 1e-12, 1e-12)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn eigh(&self) -> (Tensor, Tensor) {
        let of = attempt_both!("eigh", self.matrices("eigh"), self);
        let factors = of.apply(factor(Eigh {}));
        let values = factors.select(-2, 0).called("eigh", &[self]);
        let vectors = factors.slice(-2, 1, isize::MAX, 1).called("eigh", &[self]);
        (values, vectors)
    }

    /// The eigenvalues that [`eigh`](Tensor::eigh) gives: `[.., n, n]` gives `[.., n]`. Their gradient exists where some are equal,
    /// too.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[0.0, 2.0, 2.0, 0.0], [2, 2], &Device::cpu());
    /// let expected = Tensor::from_slice(&[-2.0, 2.0], 2, &Device::cpu());
    /// assert!(a.eigvalsh().allclose(&expected, 1e-12, 1e-12)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn eigvalsh(&self) -> Tensor {
        let of = attempt!("eigvalsh", self.matrices("eigvalsh"), self);
        of.apply(factor(Eigvalsh {}))
    }

    /// U, of orthonormal columns, the singular values in descending order, and Vᵀ, of orthonormal rows, with U·diag(S)·Vᵀ equal
    /// to this matrix: `[.., m, n]` of `F32` or `F64` gives `[.., m, k]`, `[.., k]` and `[.., k, n]`, where k is the lesser number.
    /// The sign of a column of U and its row of Vᵀ is arbitrary: only what does not depend on it has a gradient, and gradients by
    /// vectors of equal values are not defined. Reading the results where an element is not finite is an error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[3.0, 0.0, 4.0, 5.0], [2, 2], &Device::cpu());
    /// let (u, s, vh) = a.svd();
    /// assert!((&u * &s).matmul(&vh).allclose(&a, 1e-12, 1e-12)?);
    /// assert!((s.to_vec::<f64>()?[0] - 45f64.sqrt()).abs() < 1e-12);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn svd(&self) -> (Tensor, Tensor, Tensor) {
        let [u, s, vh] = match self.singular("svd") {
            Ok(found) => found,
            Err(error) => {
                let failed = Tensor::failed("svd", error, &[self]);
                return (failed.clone(), failed.clone(), failed);
            }
        };
        let vh = vh.called("svd", &[self]);
        (u.called("svd", &[self]), s.called("svd", &[self]), vh)
    }

    #[track_caller]
    fn singular(&self, name: &'static str) -> Result<[Tensor; 3]> {
        let [m, n] = self.matrices(name)?.extents();
        let (rows, k) = (m as isize, m.min(n));
        let op = factor(Svd { rows: m });
        let factors = Tensor::record_as(name, op, &[Input::Tensor(self)]);
        factors.recorded()?;
        let u = factors.narrow(-2, 0, m).narrow(-1, 0, k);
        let s = factors.select(-2, rows).narrow(-1, 0, k);
        Ok([u, s, factors.narrow(-2, rows + 1, k)])
    }

    /// The singular values that [`svd`](Tensor::svd) gives: `[.., m, n]` gives `[.., k]`, where k is the lesser number. Their
    /// gradient exists where some are equal, too.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[0.0, 3.0, 4.0, 0.0], [2, 2], &Device::cpu());
    /// let expected = Tensor::from_slice(&[4.0, 3.0], 2, &Device::cpu());
    /// assert!(a.svdvals().allclose(&expected, 1e-12, 1e-12)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn svdvals(&self) -> Tensor {
        let of = attempt!("svdvals", self.matrices("svdvals"), self);
        of.apply(factor(Svdvals {}))
    }

    /// The pseudoinverse (Moore and Penrose): `[.., m, n]` of `F32` or `F64` gives `[.., n, m]`. Singular values below the greatest
    /// times the greater size and the step of the dtype's numbers count as 0. The gradient is that of [`svd`](Tensor::svd).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[3.0, 4.0], [2, 1], &Device::cpu());
    /// let expected = Tensor::from_slice(&[0.12, 0.16], [1, 2], &Device::cpu());
    /// assert!(a.pinv().allclose(&expected, 1e-12, 1e-12)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn pinv(&self) -> Tensor {
        attempt!("pinv", self.pseudoinverse(), self).called("pinv", &[self])
    }

    #[track_caller]
    fn pseudoinverse(&self) -> Result<Tensor> {
        let [u, s, vh] = self.singular("pinv")?;
        let [m, n] = self.extents();
        if m.min(n) == 0 {
            return Ok(self.turned());
        }
        let step = match self.dtype() {
            DType::F32 => f64::from(f32::EPSILON),
            _ => f64::EPSILON,
        };
        let least = s.narrow(-1, 0, 1) * (step * m.max(n) as f64);
        let kept = s.gt(&least);
        let safe = kept.where_cond(&s, 1.0);
        let factors = kept.where_cond(&safe.recip(), 0.0).unsqueeze(-2);
        Ok((vh.turned() * factors).matmul(&u.turned()))
    }
}
