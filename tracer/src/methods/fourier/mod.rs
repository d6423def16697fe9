//! Discrete Fourier transforms. Complex numbers are pairs: a last dimension of 2, the real part first, as PyTorch's
//! `view_as_real` gives them; dimensions are counted without it.

mod along;
mod frames;
mod pairs;
mod plane;
mod tables;
mod transform;

use super::attempt;
use crate::Tensor;
use crate::args::Dims;
use along::{complex, to_half, to_real};
use ferrotrace_kernels::op::check_size;
use ferrotrace_runtime::{DType, Device, Error, Result, Shape};
use smallvec::SmallVec;
use tables::Direction;

type List = SmallVec<[usize; 4]>;

impl Tensor {
    /// The discrete Fourier transform of complex numbers along one or several dimensions: Σⱼ `x[j]`·exp(−2πijk/n) at k. Pairs
    /// `[.., 2]` give pairs of the same sizes and dtype, any of floats; halves are computed in `F32`. Dimensions are counted
    /// without that of the pairs. A dimension of size 0 is an error. Lengths with large prime factors are taken too.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0], [4, 2], &Device::cpu());
    /// let y = Tensor::from_slice(&[4.0, 0.0, -2.0, 0.0, 4.0, 0.0, -2.0, 0.0], [4, 2], &Device::cpu());
    /// assert!(x.fft(0).allclose(&y, 1e-12, 1e-12)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn fft(&self, dims: impl Into<Dims>) -> Tensor {
        let done = self.complex_transformed(&dims.into(), Direction::Forward);
        attempt!("fft", done, self).called("fft", &[self])
    }

    /// The inverse of [`fft`](Tensor::fft): Σₖ `x[k]`·exp(2πijk/n)/n at j.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::randn([3, 10, 7, 2], DType::F64, &Device::cpu());
    /// assert!(x.fft([1, 2]).ifft([1, 2]).allclose(&x, 1e-12, 1e-12)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn ifft(&self, dims: impl Into<Dims>) -> Tensor {
        let done = self.complex_transformed(&dims.into(), Direction::Inverse);
        attempt!("ifft", done, self).called("ifft", &[self])
    }

    /// The discrete Fourier transform of real numbers along one or several dimensions, of which the last keeps the n/2 + 1
    /// frequencies that are not conjugates of others: `[.., n]` gives pairs `[.., n/2 + 1, 2]`. Any dtype of floats.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 0.0, -1.0, 0.0], 4, &Device::cpu());
    /// let y = Tensor::from_slice(&[0.0, 0.0, 2.0, 0.0, 0.0, 0.0], [3, 2], &Device::cpu());
    /// assert!(x.rfft(0).allclose(&y, 1e-12, 1e-12)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn rfft(&self, dims: impl Into<Dims>) -> Tensor {
        attempt!("rfft", self.real_transformed(&dims.into()), self).called("rfft", &[self])
    }

    /// The inverse of [`rfft`](Tensor::rfft) to `n` real numbers along the last of the dimensions: pairs `[.., m, 2]` give
    /// `[.., n]`. Of m ≠ n/2 + 1 frequencies those beyond are left out, or the missing ones are 0. The imaginary parts of the
    /// frequency 0, and for an even `n` of the highest, count as 0.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::randn([3, 10, 7], DType::F64, &Device::cpu());
    /// assert!(x.rfft([1, 2]).irfft(7, [1, 2]).allclose(&x, 1e-12, 1e-12)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn irfft(&self, n: usize, dims: impl Into<Dims>) -> Tensor {
        let done = self.real_transformed_back(n, &dims.into());
        attempt!("irfft", done, self).called("irfft", &[self])
    }

    /// The frequencies of [`fft`](Tensor::fft) of `n` samples that lie `d` apart: 0, 1, .., −2, −1 over n·d. The dtype is one of
    /// floats.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let f = Tensor::fftfreq(4, 0.5, DType::F32, &Device::cpu());
    /// assert_eq!(f.to_vec::<f32>()?, [0.0, 0.5, -1.0, -0.5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn fftfreq(n: usize, d: f64, dtype: DType, device: &Device) -> Tensor {
        let at = attempt!("fftfreq", places(n, n, dtype, device));
        let wrapped = at.ge(n.div_ceil(2) as f64);
        let at = wrapped.where_cond(&(&at - n as f64), &at);
        (at / (n as f64 * d)).to_dtype(dtype).called("fftfreq", &[])
    }

    /// The frequencies of [`rfft`](Tensor::rfft) of `n` samples that lie `d` apart: 0, 1, .., n/2 over n·d. The dtype is one of
    /// floats.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let f = Tensor::rfftfreq(4, 0.5, DType::F32, &Device::cpu());
    /// assert_eq!(f.to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn rfftfreq(n: usize, d: f64, dtype: DType, device: &Device) -> Tensor {
        let at = attempt!("rfftfreq", places(n / 2 + 1, n, dtype, device));
        (at / (n as f64 * d))
            .to_dtype(dtype)
            .called("rfftfreq", &[])
    }

    /// The halves of dimensions exchanged, which takes the frequency 0 to the middle. These are dimensions of the tensor as it
    /// is: of pairs, the last is that of the two parts.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let f = Tensor::fftfreq(4, 0.25, DType::F32, &Device::cpu());
    /// assert_eq!(f.fftshift(0).to_vec::<f32>()?, [-2.0, -1.0, 0.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn fftshift(&self, dims: impl Into<Dims>) -> Tensor {
        let shifted = self.halves_exchanged(&dims.into(), |n| n / 2);
        attempt!("fftshift", shifted, self).called("fftshift", &[self])
    }

    /// The inverse of [`fftshift`](Tensor::fftshift).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0, 1, 2, 3, 4], 5, &Device::cpu());
    /// assert_eq!(x.fftshift(0).ifftshift(0).to_vec::<i32>()?, [0, 1, 2, 3, 4]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn ifftshift(&self, dims: impl Into<Dims>) -> Tensor {
        let shifted = self.halves_exchanged(&dims.into(), |n| n.div_ceil(2));
        attempt!("ifftshift", shifted, self).called("ifftshift", &[self])
    }

    #[track_caller]
    fn halves_exchanged(&self, dims: &Dims, by: fn(usize) -> usize) -> Result<Tensor> {
        self.check()?;
        let dims = dims.list(self.rank())?;
        let roll = |x: Tensor, &dim: &usize| x.roll(by(self.shape()[dim]) as isize, dim);
        Ok(dims.iter().fold(self.clone(), roll))
    }

    #[track_caller]
    fn complex_transformed(&self, dims: &Dims, direction: Direction) -> Result<Tensor> {
        let name = match direction {
            Direction::Forward => "fft",
            Direction::Inverse => "ifft",
        };
        let (x, dims) = (self.as_pairs(name)?, dims.list(self.rank() - 1)?);
        Ok(x.transformed_along(&dims, direction)?
            .to_dtype(self.dtype()))
    }

    #[track_caller]
    fn real_transformed(&self, dims: &Dims) -> Result<Tensor> {
        let x = self.as_floats("rfft")?;
        let (last, others) = last_of(dims, self.rank())?;
        let x = to_half(&x, last)?.transformed_along(&others, Direction::Forward)?;
        Ok(x.to_dtype(self.dtype()))
    }

    #[track_caller]
    fn real_transformed_back(&self, n: usize, dims: &Dims) -> Result<Tensor> {
        let x = self.as_pairs("irfft")?;
        let (last, others) = last_of(dims, self.rank() - 1)?;
        if n == 0 {
            return Err(Error::argument("a transform of no numbers"));
        }
        let x = x.transformed_along(&others, Direction::Inverse)?;
        let mut sizes = x.shape().to_vec();
        sizes[last] = n;
        check_size(&Shape::from(sizes), x.dtype())?;
        let (has, needs) = (x.shape()[last], n / 2 + 1);
        let half = match needs.checked_sub(has) {
            None | Some(0) => x.narrow(last, 0, needs),
            Some(missing) => {
                let mut pads = vec![(0, 0); x.rank()];
                pads[last].1 = missing as isize;
                x.pad(&pads, 0.0)
            }
        };
        Ok(to_real(&half, last, n)?.to_dtype(self.dtype()))
    }

    /// The transforms of pairs along some dimensions.
    #[track_caller]
    fn transformed_along(&self, dims: &[usize], direction: Direction) -> Result<Tensor> {
        let along = |x: Tensor, &dim: &usize| complex(&x, dim, direction);
        dims.iter().try_fold(self.clone(), along)
    }

    /// This tensor, if it is of complex numbers, in the dtype that sums have.
    #[track_caller]
    fn as_pairs(&self, name: &str) -> Result<Tensor> {
        let x = self.as_floats(name)?;
        match self.shape().last() {
            Some(2) => Ok(x),
            _ => Err(Error::shape(format!(
                "complex numbers are pairs, a last dimension of 2, which {} has not: rfft takes real numbers",
                self.shape()
            ))),
        }
    }
}

/// The last of some dimensions, and the others.
fn last_of(dims: &Dims, rank: usize) -> Result<(usize, List)> {
    let mut dims = dims.list(rank)?;
    let last = dims.pop();
    let last = last.ok_or_else(|| Error::argument("no dimension to transform along is given"))?;
    Ok((last, dims))
}

/// The first `count` whole numbers in binary64, where `n` samples have a frequency and the dtype takes them.
#[track_caller]
fn places(count: usize, n: usize, dtype: DType, device: &Device) -> Result<Tensor> {
    if !dtype.is_float() {
        return Err(Error::dtype(format!(
            "frequencies of {dtype}, not of floats"
        )));
    }
    if n == 0 {
        return Err(Error::argument("frequencies of no samples"));
    }
    Ok(Tensor::arange(0, count, 1, DType::F64, device))
}
