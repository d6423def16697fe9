//! Dropout.

use super::Module;
use crate::{Tensor, TensorStruct};

/// Layers that drop something in training: what they make of a tensor then.
macro_rules! dropped {
    ($($(#[doc = $doc:literal])* $name:ident $make:expr;)*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug, TensorStruct)]
        pub struct $name {
            /// The probability of a drop; outside [0, 1] the result is an error.
            pub p: f64,
            /// Whether anything is dropped.
            pub training: bool,
        }

        impl $name {
            /// A layer in training.
            pub fn new(p: f64) -> $name {
                $name { p, training: true }
            }
        }

        impl Module for $name {
            fn forward(&self, x: &Tensor) -> Tensor {
                let make: fn(&Tensor, f64) -> Tensor = $make;
                match self.training {
                    true => make(x, self.p),
                    false => x.clone(),
                }
            }
        }
    )*};
}

/// Whole channels dropped: of `[N, C, ..]`, or, of rank `unbatched`, of `[C, ..]`.
#[track_caller]
fn channels_dropped(x: &Tensor, p: f64, unbatched: usize) -> Tensor {
    x * channels(x, unbatched).dropout(p)
}

/// A one for each channel, which broadcasts to `x`.
#[track_caller]
fn channels(x: &Tensor, unbatched: usize) -> Tensor {
    let kept = if x.rank() == unbatched { 1 } else { 2 };
    let mut shape = x.dims().to_vec();
    shape.iter_mut().skip(kept).for_each(|size| *size = 1);
    Tensor::ones(shape, x.dtype(), &x.device())
}

dropped! {
    /// In training, each element zeroed with probability `p` and the others scaled by 1 / (1 − p); else nothing
    /// ([Srivastava et al. 2014](https://jmlr.org/papers/v15/srivastava14a.html)). A replay of a `jit` function draws anew.
    ///
    /// ```
    /// use ferrotrace::nn::{Dropout, Module};
    /// use ferrotrace::prelude::*;
    ///
    /// let mut layer = Dropout::new(0.5);
    /// let x = Tensor::ones(100, DType::F32, &Device::cpu());
    /// assert!(layer.forward(&x).to_vec::<f32>()?.contains(&0.0));
    /// layer.training = false;
    /// assert_eq!(layer.forward(&x).to_vec::<f32>()?, [1.0; 100]);
    /// # Ok::<(), Error>(())
    /// ```
    Dropout |x, p| x.dropout(p);

    /// [`Dropout`] of whole channels of `[N, C, L]` or `[C, L]`.
    Dropout1d |x, p| channels_dropped(x, p, 2);

    /// [`Dropout`] of whole channels of `[N, C, H, W]`; `[N, C, L]` is taken as PyTorch does.
    ///
    /// ```
    /// use ferrotrace::nn::{Dropout2d, Module};
    /// use ferrotrace::prelude::*;
    ///
    /// let x = Tensor::ones([1, 50, 2, 2], DType::F32, &Device::cpu());
    /// let y = Dropout2d::new(0.5).forward(&x).to_vec::<f32>()?;
    /// assert!(y.chunks(4).all(|channel| channel == [0.0; 4] || channel == [2.0; 4]));
    /// # Ok::<(), Error>(())
    /// ```
    Dropout2d |x, p| channels_dropped(x, p, 0);

    /// [`Dropout`] of whole channels of `[N, C, D, H, W]` or `[C, D, H, W]`.
    Dropout3d |x, p| channels_dropped(x, p, 4);
}

/// Elements of `x` where `kept` is not 0; the others become the least value of a selu, and all are scaled and shifted so
/// that mean and variance stay.
#[track_caller]
fn towards_least(x: &Tensor, p: f64, kept: &Tensor) -> Tensor {
    // −λα of the selu.
    const LEAST: f64 = -1.758_099_340_847_376_6;
    // No scale keeps the variance of what is all dropped: PyTorch gives zeros.
    if p == 1.0 {
        return x * 0.0;
    }
    let scale = ((1.0 - p) * (1.0 + p * LEAST * LEAST)).sqrt().recip();
    let y = kept.ne(0.0).where_cond(x * scale, LEAST * scale) - LEAST * scale * p;
    y.to_dtype(x.dtype())
}

dropped! {
    /// In training, each element brought to the least value of a [`Selu`](super::Selu) with probability `p`, and all
    /// scaled and shifted so that mean and variance stay ([Klambauer et al. 2017](https://arxiv.org/abs/1706.02515)); else
    /// nothing.
    ///
    /// ```
    /// use ferrotrace::nn::{AlphaDropout, Module};
    /// use ferrotrace::prelude::*;
    ///
    /// let x = Tensor::zeros(1000, DType::F32, &Device::cpu());
    /// let y = AlphaDropout::new(0.5).forward(&x);
    /// assert!(y.unique().numel() == 2 && y.mean(..).item::<f32>()?.abs() < 0.2);
    /// # Ok::<(), Error>(())
    /// ```
    AlphaDropout |x, p| towards_least(x, p, &x.ones_like().dropout(p));

    /// [`AlphaDropout`] of whole channels of `[N, C, ..]`.
    ///
    /// ```
    /// use ferrotrace::nn::{FeatureAlphaDropout, Module};
    /// use ferrotrace::prelude::*;
    ///
    /// let x = Tensor::zeros([1, 50, 4], DType::F32, &Device::cpu());
    /// let y = FeatureAlphaDropout::new(0.5).forward(&x).to_vec::<f32>()?;
    /// assert!(y.chunks(4).all(|channel| channel.iter().all(|v| *v == channel[0])));
    /// # Ok::<(), Error>(())
    /// ```
    FeatureAlphaDropout |x, p| towards_least(x, p, &channels(x, 0).dropout(p));
}
