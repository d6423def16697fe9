//! Eigenvalues of general matrices, the exponential, and products of reflections.

use super::super::attempt;
use super::super::attempt_both;
use super::factor;
use crate::{Input, Tensor};
use ferrotrace_kernels::op::{Eig, Exponential, SolveTriangular};
use ferrotrace_runtime::{Error, Result};

impl Tensor {
    /// The eigenvalues and the eigenvectors, columns of norm 1, of square matrices, as complex numbers, which are pairs:
    /// `[.., n, n]` of `F32` or `F64` gives `[.., n, 2]` and `[.., n, n, 2]`. Conjugate values stand side by side, the one of
    /// positive imaginary part first; the order is arbitrary else. The greatest element of a vector is real: only what does not
    /// depend on a vector's phase has a gradient, and gradients by vectors of equal values are not defined. Reading the results
    /// where an element is not finite is an error. [`eigh`](Tensor::eigh) is faster where the matrix is symmetric.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[0.0, -2.0, 2.0, 0.0], [2, 2], &Device::cpu());
    /// let (values, vectors) = a.eig();
    /// let expected = Tensor::from_slice(&[0.0, 2.0, 0.0, -2.0], [2, 2], &Device::cpu());
    /// assert!(values.allclose(&expected, 1e-12, 1e-12)?);
    /// let norms = vectors.complex_abs().square().sum(0);
    /// assert!(norms.allclose(&norms.ones_like(), 1e-12, 1e-12)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn eig(&self) -> (Tensor, Tensor) {
        let of = attempt_both!("eig", self.matrices("eig"), self);
        let n = of.extents()[0];
        let found = of.apply(factor(Eig { vectors: true }));
        let part = |start: usize, len: usize| found.narrow(-2, start as isize, len);
        let vectors = Tensor::stack([part(2, n), part(2 + n, n)], -1);
        let values = found.narrow(-2, 0, 2).turned();
        (
            values.called("eig", &[self]),
            vectors.called("eig", &[self]),
        )
    }

    /// The eigenvalues that [`eig`](Tensor::eig) gives: `[.., n, n]` gives `[.., n, 2]`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[1.0, 0.0, 5.0, 2.0], [2, 2], &Device::cpu());
    /// let real = a.eigvals().select(-1, 0).sort(0, false).0;
    /// let expected = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// assert!(real.allclose(&expected, 1e-12, 1e-12)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn eigvals(&self) -> Tensor {
        let of = attempt!("eigvals", self.matrices("eigvals"), self);
        let values = of.apply_as("eigvals", factor(Eig { vectors: false }));
        values.turned().called("eigvals", &[self])
    }

    /// The exponential Σ Aᵏ / k! of square matrices A: `[.., n, n]` of `F32` or `F64`. NaN where an element of the matrix is not
    /// finite.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let turn = Tensor::from_slice(&[0.0, -1.0, 1.0, 0.0], [2, 2], &Device::cpu());
    /// let (s, c) = 1f64.sin_cos();
    /// let expected = Tensor::from_slice(&[c, -s, s, c], [2, 2], &Device::cpu());
    /// assert!(turn.matrix_exp().allclose(&expected, 1e-12, 1e-12)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_exp(&self) -> Tensor {
        let of = attempt!("matrix_exp", self.matrices("matrix_exp"), self);
        let found = Tensor::record_as("matrix_exp", factor(Exponential {}), &[Input::Tensor(of)]);
        found.called("matrix_exp", &[self])
    }

    /// The first n columns of the product of the reflections 1 − τᵢ·vᵢ·vᵢᵀ, where vᵢ is column i of this matrix below its
    /// diagonal, 1 on it, and 0 above. `[.., m, n]` of `F32` or `F64`, m ≥ n, and `tau` `[.., k]`, k ≤ n, give `[.., m, n]`;
    /// columns behind the first k say nothing. Dtypes promote.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let v = Tensor::from_slice(&[7.0, 1.0], [2, 1], &Device::cpu());
    /// let tau = Tensor::from_slice(&[1.0], 1, &Device::cpu());
    /// assert_eq!(v.householder_product(&tau).to_vec::<f64>()?, [0.0, -1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn householder_product(&self, tau: &Tensor) -> Tensor {
        let found = attempt!("householder_product", self.reflections(tau), self, tau);
        found.called("householder_product", &[self, tau])
    }

    /// 1 − V·T·Vᵀ with T = (1 + D·S)⁻¹·D, where D is diag(τ) and S the part of Vᵀ·V above the diagonal (Schreiber and Van Loan,
    /// A storage-efficient WY representation for products of Householder transformations, 1989).
    #[track_caller]
    fn reflections(&self, tau: &Tensor) -> Result<Tensor> {
        let (a, tau) = self.promoted("householder_product", tau)?;
        let ([m, n], k) = (a.extents(), tau.dim(-1)?);
        if m < n || k > n {
            let why = format!("{k} reflections of a matrix of {m} by {n}");
            return Err(Error::shape(why));
        }
        let one = |shape: [usize; 2]| Tensor::eye(shape, a.dtype(), &a.device());
        let v = a.narrow(-1, 0, k).tril(-1) + one([m, k]);
        let tau = tau.unsqueeze(-1);
        let square = v.turned().matmul(&v).triu(1) * &tau;
        let right = v.narrow(-2, 0, n).turned() * &tau;
        let unit = SolveTriangular {
            unit: true,
            ..SolveTriangular::UPPER
        };
        let inner = square.substituted("householder_product", unit, &right);
        inner.recorded()?;
        Ok(one([m, n]) - v.matmul(&inner))
    }
}
