//! The partial inverse of pooling by maxima.

use super::super::attempt;
use crate::Tensor;
use ferrotrace_runtime::{DType, Error, Result};

macro_rules! unpools {
    ($($(#[doc = $doc:literal])* $name:ident $text:literal $n:literal;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            #[track_caller]
            pub fn $name(&self, indices: &Tensor, size: [usize; $n]) -> Tensor {
                let y = self.unpooled(indices, &size);
                attempt!($text, y, self, indices).called($text, &[self, indices])
            }
        )*}
    };
}

unpools! {
    /// Zeros of `size` in the last dimension, with each element at the position that [`max_pool1d_with_indices`](
    /// Tensor::max_pool1d_with_indices) gives: `[N, C, L]` or `[C, L]`. Where several meet, the last in order stays; a position
    /// beyond the size is an error when the result is computed.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 5.0, 3.0, 2.0], [1, 1, 4], &Device::cpu());
    /// let (y, at) = x.max_pool1d_with_indices(2);
    /// assert_eq!(y.max_unpool1d(&at, [4]).to_vec::<f64>()?, [0.0, 5.0, 3.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    max_unpool1d "max_unpool1d" 1;

    /// As [`max_unpool1d`](Tensor::max_unpool1d), of the last two dimensions.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 5.0, 3.0, 2.0], [1, 1, 2, 2], &Device::cpu());
    /// let (y, at) = x.max_pool2d_with_indices(2);
    /// assert_eq!(y.max_unpool2d(&at, [2, 2]).to_vec::<f64>()?, [0.0, 5.0, 0.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    max_unpool2d "max_unpool2d" 2;

    /// As [`max_unpool1d`](Tensor::max_unpool1d), of the last three dimensions.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 5.0], [1, 1, 2, 1, 1], &Device::cpu());
    /// let (y, at) = x.max_pool3d_with_indices([2, 1, 1]);
    /// assert_eq!(y.max_unpool3d(&at, [2, 1, 1]).to_vec::<f64>()?, [0.0, 5.0]);
    /// # Ok::<(), Error>(())
    /// ```
    max_unpool3d "max_unpool3d" 3;
}

impl Tensor {
    #[track_caller]
    fn unpooled(&self, indices: &Tensor, size: &[usize]) -> Result<Tensor> {
        self.check()?;
        indices.check()?;
        let Some(lead) = self
            .rank()
            .checked_sub(size.len())
            .filter(|n| (1..=2).contains(n))
        else {
            let why = format!("{} for windows of {} dimensions", self.sizes(), size.len());
            return Err(Error::shape(why));
        };
        if self.sizes() != indices.sizes() {
            let why = format!("elements {} and indices {}", self.sizes(), indices.sizes());
            return Err(Error::shape(why));
        }
        if indices.dtype() != DType::I64 {
            return Err(Error::dtype(format!("indices of {}", indices.dtype())));
        }
        let whole = |sizes: &[usize]| {
            let product = sizes
                .iter()
                .try_fold(1usize, |n, &size| n.checked_mul(size));
            product.ok_or_else(|| Error::shape(format!("{sizes:?} elements exceed memory")))
        };
        let (own, shape) = (whole(&self.sizes()[lead..])?, self.sizes()[..lead].to_vec());
        let along = |n: usize| [&shape[..], &[n]].concat();
        let (from, to) = (along(own), along(whole(size)?));
        let zeros = Tensor::zeros(to, self.dtype(), &self.device());
        let placed = zeros.scatter(-1, &indices.reshape(&from[..]), &self.reshape(&from[..]));
        Ok(placed.reshape([&shape[..], size].concat()))
    }
}
