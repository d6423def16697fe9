//! Products over several dimensions, of powers, and with a sum.

use super::super::attempt;
use crate::Tensor;
use crate::args::Dims;
use ferrotrace_kernels::Composite;
use ferrotrace_kernels::op::AddMatmul;
use ferrotrace_runtime::{DType, Error, Result, Scalar};

impl Tensor {
    /// The sums of products over pairs of dimensions, `dims` of this tensor and as many of `b`: other dimensions stay, this
    /// tensor's before those of `b`. A dimension of size 1 is paired with one of any size.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::ones([3, 4, 5], DType::F32, &Device::cpu());
    /// let b = Tensor::ones([4, 3, 2], DType::F32, &Device::cpu());
    /// let y = a.tensordot(&b, [1, 0], [0, 1]);
    /// assert_eq!(y.dims(), [5, 2]);
    /// assert_eq!(y.to_vec::<f32>()?[0], 12.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn tensordot(&self, b: &Tensor, dims: impl Into<Dims>, dims_b: impl Into<Dims>) -> Tensor {
        let y = self.contracted(b, &dims.into(), &dims_b.into());
        attempt!("tensordot", y, self, b).called("tensordot", &[self, b])
    }

    #[track_caller]
    fn contracted(&self, b: &Tensor, dims: &Dims, dims_b: &Dims) -> Result<Tensor> {
        self.check()?;
        b.check()?;
        let (at, at_b) = (dims.list(self.rank())?, dims_b.list(b.rank())?);
        if at.len() != at_b.len() {
            let why = format!("{} dimensions paired with {}", at.len(), at_b.len());
            return Err(Error::argument(why));
        }
        let (mut x, mut y) = (self.clone(), b.clone());
        for (&i, &j) in at.iter().zip(&at_b) {
            match (self.shape()[i], b.shape()[j]) {
                (n, m) if n == m => {}
                (1, _) => y = y.sum_keepdim(j).to_dtype(b.dtype()),
                (_, 1) => x = x.sum_keepdim(i).to_dtype(self.dtype()),
                (n, m) => {
                    let (own, other) = (self.shape(), b.shape());
                    let why = format!("{n} of {own} and {m} of {other} are no pair");
                    return Err(Error::shape(why));
                }
            }
        }
        let rest = |x: &Tensor, at: &[usize]| -> Vec<usize> {
            (0..x.rank()).filter(|d| !at.contains(d)).collect()
        };
        let (own, other) = (rest(&x, &at), rest(&y, &at_b));
        let sizes = |x: &Tensor, dims: &[usize]| -> Vec<usize> {
            dims.iter().map(|&d| x.shape()[d]).collect()
        };
        let (rows, columns) = (sizes(&x, &own), sizes(&y, &other));
        let inner: usize = sizes(&x, &at).iter().product();
        let x = x.permute([&own[..], &at].concat());
        let y = y.permute([&at_b[..], &other].concat());
        let x = x.reshape([rows.iter().product(), inner]);
        let y = y.reshape([inner, columns.iter().product()]);
        Ok(x.matmul(&y).reshape([rows, columns].concat()))
    }

    /// The powers of a vector's elements, a row each: `n` columns from x⁰ to xⁿ⁻¹, or, unless `increasing`, in reverse order. Integers
    /// give `I64`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1i64, 2, 3], 3, &Device::cpu());
    /// assert_eq!(x.vander(2, false).to_vec::<i64>()?, [1, 1, 2, 1, 3, 1]);
    /// assert_eq!(x.vander(3, true).select(0, 2).to_vec::<i64>()?, [1, 3, 9]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn vander(&self, n: usize, increasing: bool) -> Tensor {
        if let Err(error) = self.check() {
            return Tensor::failed("vander", error, &[self]);
        }
        if self.rank() != 1 {
            let why = format!("powers of a vector, not of {}", self.shape());
            return Tensor::failed("vander", Error::shape(why), &[self]);
        }
        let dtype = match self.dtype().is_float() {
            true => self.dtype(),
            false => DType::I64,
        };
        let x = self.to_dtype(dtype).unsqueeze(1);
        let one = x.ones_like();
        let y = match n {
            0 => one.narrow(1, 0, 0),
            1 => one,
            n => {
                let powers = x.expand([self.numel(), n - 1]).cumprod(1);
                Tensor::cat(&[&one, &powers], 1)
            }
        };
        let y = if increasing { y } else { y.flip(1) };
        y.called("vander", &[self])
    }

    /// The product of `n` times this square matrix, or of each of a batch; the identity of none. Of a negative `n`, the inverse
    /// as many times, of `F32` or `F64`: a singular matrix is an error then. At most twice as many products are computed as `n`
    /// has binary digits.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 1.0, 0.0, 1.0], [2, 2], &Device::cpu());
    /// assert_eq!(x.matrix_power(5).to_vec::<f64>()?, [1.0, 5.0, 0.0, 1.0]);
    /// assert_eq!(x.matrix_power(-3).to_vec::<f64>()?, [1.0, -3.0, 0.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn matrix_power(&self, n: i64) -> Tensor {
        attempt!("matrix_power", self.signed_power(n), self).called("matrix_power", &[self])
    }

    #[track_caller]
    fn signed_power(&self, n: i64) -> Result<Tensor> {
        match n < 0 {
            true => self.inverted("matrix_power")?.power(n.unsigned_abs()),
            false => self.power(n.unsigned_abs()),
        }
    }

    #[track_caller]
    fn power(&self, n: u64) -> Result<Tensor> {
        self.check()?;
        let &[.., rows, columns] = &self.shape()[..] else {
            return Err(Error::shape(format!("{} is no matrix", self.shape())));
        };
        if rows != columns {
            return Err(Error::shape(format!("a power of {rows} by {columns}")));
        }
        let one = Tensor::eye(rows, self.dtype(), &self.device());
        let (mut left, mut square, mut power) = (n, self.clone(), None);
        while left > 0 {
            if left % 2 == 1 {
                power = Some(match power {
                    None => square.clone(),
                    Some(power) => square.matmul(&power),
                });
            }
            left /= 2;
            if left > 0 {
                square = square.matmul(&square);
            }
        }
        Ok(power.unwrap_or_else(|| one.broadcast_to(self.shape())))
    }

    /// `beta`·x + `alpha`·(a·b), rounded once: x broadcasts with the product of two matrices. Where `beta` is 0, x is not read.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// let a = Tensor::from_slice(&[1.0, 2.0], [1, 2], &Device::cpu());
    /// let b = Tensor::eye(2, DType::F64, &Device::cpu());
    /// assert_eq!(x.addmm(&a, &b, 2.0, 10.0).to_vec::<f64>()?, [12.0, 24.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn addmm(
        &self,
        a: &Tensor,
        b: &Tensor,
        beta: impl Into<Scalar>,
        alpha: impl Into<Scalar>,
    ) -> Tensor {
        let y = self.plus_product([a, b], 2, beta.into(), alpha.into());
        attempt!("addmm", y, self, a, b).called("addmm", &[self, a, b])
    }

    /// As [`addmm`](Tensor::addmm), of two batches `[batch, .., ..]` of matrices.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([2, 1, 1], DType::F32, &Device::cpu());
    /// let a = Tensor::ones([2, 1, 3], DType::F32, &Device::cpu());
    /// let b = Tensor::ones([2, 3, 1], DType::F32, &Device::cpu());
    /// assert_eq!(x.baddbmm(&a, &b, 1.0, 1.0).to_vec::<f32>()?, [4.0, 4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn baddbmm(
        &self,
        a: &Tensor,
        b: &Tensor,
        beta: impl Into<Scalar>,
        alpha: impl Into<Scalar>,
    ) -> Tensor {
        let y = self.plus_product([a, b], 3, beta.into(), alpha.into());
        attempt!("baddbmm", y, self, a, b).called("baddbmm", &[self, a, b])
    }

    #[track_caller]
    fn plus_product(
        &self,
        [a, b]: [&Tensor; 2],
        rank: usize,
        beta: Scalar,
        alpha: Scalar,
    ) -> Result<Tensor> {
        self.check()?;
        for x in [a, b] {
            x.check()?;
            if x.rank() != rank {
                let why = format!("a product of {} and {}", a.shape(), b.shape());
                return Err(Error::shape(why));
            }
            if x.dtype() != self.dtype() {
                let (own, other) = (self.dtype(), x.dtype());
                return Err(Error::dtype(format!("{own} plus a product of {other}")));
            }
        }
        let product = a.matmul(b);
        product.recorded()?;
        let x = self.expand(product.shape());
        x.recorded()?;
        let [added, scaled] = [
            beta.to_f64() != 0.0,
            alpha.to_f64() != 1.0 || beta.to_f64() != 1.0,
        ];
        let tensors = [Some(b), added.then_some(&x)];
        let numbers: &[Scalar] = match (scaled, added) {
            (false, _) => &[],
            (true, false) => &[alpha],
            (true, true) => &[alpha, beta],
        };
        let op = Composite::AddMatmul(AddMatmul { added, scaled });
        Ok(a.with_tensors(op, &tensors, numbers))
    }
}
