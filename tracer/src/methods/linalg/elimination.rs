//! The factors of an elimination, as LAPACK gives them.

use super::super::attempt;
use super::super::attempt_both;
use super::factor;
use crate::{Input, Tensor};
use ferrotrace_kernels::op::{ExchangeRows, Lu, SolveTriangular};
use ferrotrace_runtime::{DType, Error, Result};

/// What an elimination gives of matrices of m rows and n columns, k being the lesser number.
struct Elimination {
    /// U, with L below it, whose diagonal is 1: `[.., m, n]`.
    factors: Tensor,
    /// Which row of the matrix each row is: `[.., m]`.
    order: Tensor,
    /// With which row each step exchanged its own: `[.., k]`.
    exchanged: Tensor,
}

impl Tensor {
    /// P, L and U with P·L·U equal to this matrix, by elimination with partial pivoting: P is a permutation, L lower triangular
    /// with a diagonal of ones, U upper triangular. `[.., m, n]` of `F32` or `F64` gives `[.., m, m]`, `[.., m, k]` and
    /// `[.., k, n]`, where k is the lesser number. P has no gradient. More rows than columns take the memory of m² numbers.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[1.0, 2.0, 4.0, 4.0], [2, 2], &Device::cpu());
    /// let (p, l, u) = a.lu();
    /// assert_eq!(p.to_vec::<f64>()?, [0.0, 1.0, 1.0, 0.0]);
    /// assert_eq!(l.to_vec::<f64>()?, [1.0, 0.0, 0.25, 1.0]);
    /// assert_eq!(u.to_vec::<f64>()?, [4.0, 4.0, 0.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn lu(&self) -> (Tensor, Tensor, Tensor) {
        let [p, l, u] = match self.permuted_factors("lu") {
            Ok(found) => found,
            Err(error) => {
                let failed = Tensor::failed("lu", error, &[self]);
                return (failed.clone(), failed.clone(), failed);
            }
        };
        let of = |x: Tensor| x.called("lu", &[self]);
        (of(p), of(l), of(u))
    }

    #[track_caller]
    fn permuted_factors(&self, name: &'static str) -> Result<[Tensor; 3]> {
        let found = self.eliminated(name)?;
        let [m, n] = self.extents();
        let k = m.min(n);
        let (lower, upper) = (
            found.factors.narrow(-1, 0, k),
            found.factors.narrow(-2, 0, k),
        );
        let one = Tensor::eye([m, k], self.dtype(), &self.device());
        let rows = Tensor::arange(0, m, 1, self.dtype(), &self.device()).unsqueeze(-1);
        let p = rows.eq(found.order.unsqueeze(-2)).to_dtype(self.dtype());
        Ok([p, lower.tril(-1) + one, upper.triu(0)])
    }

    /// The factors of [`lu`](Tensor::lu) in one matrix, U with L below it, and the pivots, as `I32`: step i exchanged row i with
    /// row `pivots[i]`, which is counted from 1, as LAPACK does. `[.., m, n]` of `F32` or `F64` gives `[.., m, n]` and `[.., k]`,
    /// where k is the lesser number. [`lu_solve`](Tensor::lu_solve) solves equations by them.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[1.0, 2.0, 4.0, 4.0], [2, 2], &Device::cpu());
    /// let (factors, pivots) = a.lu_factor();
    /// assert_eq!(factors.to_vec::<f64>()?, [4.0, 4.0, 0.25, 1.0]);
    /// assert_eq!(pivots.to_vec::<i32>()?, [2, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn lu_factor(&self) -> (Tensor, Tensor) {
        let found = attempt_both!("lu_factor", self.eliminated("lu_factor"), self);
        let pivots = (found.exchanged + 1.0).to_dtype(DType::I32);
        (
            found.factors.called("lu_factor", &[self]),
            pivots.called("lu_factor", &[self]),
        )
    }

    #[track_caller]
    fn eliminated(&self, name: &'static str) -> Result<Elimination> {
        let [m, n] = self.matrices(name)?.extents();
        if m < n {
            return self.eliminated_in_front(name);
        }
        // Columns of zeros stay behind the others.
        let square = match m > n {
            true => {
                let mut shape = self.shape().to_vec();
                shape[self.rank() - 1] = m - n;
                let zeros = Tensor::zeros(shape, self.dtype(), &self.device());
                Tensor::cat([self, &zeros], -1)
            }
            false => self.clone(),
        };
        let packed = Tensor::record_as(name, factor(Lu {}), &[Input::Tensor(&square)]);
        packed.recorded()?;
        let head = packed.narrow(-2, 0, 2).detach();
        Ok(Elimination {
            factors: packed.narrow(-2, 2, m).narrow(-1, 0, n),
            order: head.select(-2, 0),
            exchanged: head.select(-2, 1).narrow(-1, 0, n),
        })
    }

    /// The first m columns alone decide about the rows of a wide matrix: U is L⁻¹·P⁻¹·A in the columns behind.
    #[track_caller]
    fn eliminated_in_front(&self, name: &'static str) -> Result<Elimination> {
        let [m, n] = self.extents();
        let front = self.narrow(-1, 0, m).eliminated(name)?;
        let pivots = (&front.exchanged + 1.0).to_dtype(DType::I32);
        let behind = self.narrow(-1, m as isize, n - m);
        let behind = behind.exchanged(name, &pivots, false);
        let unit = SolveTriangular {
            unit: true,
            ..SolveTriangular::LOWER
        };
        let behind = front.factors.substituted(name, unit, &behind);
        behind.recorded()?;
        Ok(Elimination {
            factors: Tensor::cat([&front.factors, &behind], -1),
            ..front
        })
    }

    /// The solution x of a·x = b, where this matrix and `pivots` are what [`lu_factor`](Tensor::lu_factor) gives of a.
    /// `[.., n, n]`, `[.., n]` and `b` `[.., n, k]` give `[.., n, k]`; batches broadcast, and dtypes promote to `F32` or `F64`. A
    /// pivot that is no row is an error when the result is read; where a is singular, the result has infinities or NaN.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[1.0, 2.0, 4.0, 4.0], [2, 2], &Device::cpu());
    /// let b = Tensor::from_slice(&[5.0, 12.0], [2, 1], &Device::cpu());
    /// let (factors, pivots) = a.lu_factor();
    /// assert_eq!(factors.lu_solve(&pivots, &b).to_vec::<f64>()?, [1.0, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn lu_solve(&self, pivots: &Tensor, b: &Tensor) -> Tensor {
        let solved = self.by_elimination(pivots, b);
        attempt!("lu_solve", solved, self, pivots, b).called("lu_solve", &[self, pivots, b])
    }

    #[track_caller]
    fn by_elimination(&self, pivots: &Tensor, b: &Tensor) -> Result<Tensor> {
        let (factors, b) = self.promoted("lu_solve", b)?;
        pivots.check()?;
        let [m, n] = factors.extents();
        if m != n || b.rank() < 2 || b.extents()[0] != n || pivots.dim(-1)? != n {
            let why = format!(
                "factors {}, pivots {} and right-hand sides {} are none of equations",
                factors.sizes(),
                pivots.sizes(),
                b.sizes()
            );
            return Err(Error::shape(why));
        }
        let pivots = match pivots.dtype() {
            DType::I64 => pivots.to_dtype(DType::I32),
            _ => pivots.clone(),
        };
        let right = b.exchanged("lu_solve", &pivots, false);
        let unit = SolveTriangular {
            unit: true,
            ..SolveTriangular::LOWER
        };
        let inner = factors.substituted("lu_solve", unit, &right);
        inner.recorded()?;
        Ok(factors.substituted("lu_solve", SolveTriangular::UPPER, &inner))
    }

    /// Rows exchanged as pivots say, or with `back` in reverse.
    #[track_caller]
    fn exchanged(&self, name: &'static str, pivots: &Tensor, back: bool) -> Tensor {
        let inputs = [Input::Tensor(self), Input::Tensor(pivots)];
        Tensor::record_as(name, factor(ExchangeRows { back }), &inputs)
    }

    /// P, L and U of the factors and the pivots that [`lu_factor`](Tensor::lu_factor) gives. `[.., m, n]` and `[.., k]` give
    /// `[.., m, m]`, `[.., m, k]` and `[.., k, n]`, where k is the lesser of m and n.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[1.0, 2.0, 4.0, 4.0], [2, 2], &Device::cpu());
    /// let (factors, pivots) = a.lu_factor();
    /// let (p, l, u) = factors.lu_unpack(&pivots);
    /// assert_eq!(p.matmul(&l).matmul(&u).to_vec::<f64>()?, [1.0, 2.0, 4.0, 4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn lu_unpack(&self, pivots: &Tensor) -> (Tensor, Tensor, Tensor) {
        let of = |x: Tensor| x.called("lu_unpack", &[self, pivots]);
        match self.unpacked(pivots) {
            Ok([p, l, u]) => (of(p), of(l), of(u)),
            Err(error) => {
                let failed = Tensor::failed("lu_unpack", error, &[self, pivots]);
                (failed.clone(), failed.clone(), failed)
            }
        }
    }

    #[track_caller]
    fn unpacked(&self, pivots: &Tensor) -> Result<[Tensor; 3]> {
        let [m, n] = self.matrices("lu_unpack")?.extents();
        pivots.check()?;
        let k = m.min(n);
        if pivots.dim(-1)? != k {
            let why = format!("{} pivots of a matrix of {m} by {n}", pivots.sizes());
            return Err(Error::shape(why));
        }
        let one = |n: usize| Tensor::eye([m, n], self.dtype(), &self.device());
        let p = one(m).exchanged("lu_unpack", &pivots.to_dtype(DType::I32), true);
        let (lower, upper) = (self.narrow(-1, 0, k), self.narrow(-2, 0, k));
        Ok([p, lower.tril(-1) + one(k), upper.triu(0)])
    }
}
