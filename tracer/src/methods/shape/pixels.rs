//! Channels as blocks of pixels, and back.

use super::super::attempt;
use crate::Tensor;
use ferrotrace_runtime::{Error, Result};

impl Tensor {
    /// Channels as blocks of `r` by `r` pixels: `[.., channels·r², h, w]` gives `[.., channels, h·r, w·r]`, of any dtype
    /// ([Shi et al. 2016](https://arxiv.org/abs/1609.05158)). Channels that r² does not divide are an error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::arange(0, 8, 1, DType::I64, &Device::cpu()).reshape([4, 1, 2]);
    /// let y = x.pixel_shuffle(2);
    /// assert_eq!(y.dims(), [1, 2, 4]);
    /// assert_eq!(y.to_vec::<i64>()?, [0, 2, 1, 3, 4, 6, 5, 7]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn pixel_shuffle(&self, r: usize) -> Tensor {
        let (front, [channels, h, w]) = attempt!("pixel_shuffle", self.image(r), self);
        let divided = match r.checked_mul(r) {
            Some(block) if channels % block == 0 => Ok(channels / block),
            _ => Err(undivided("channels", channels, r)),
        };
        let channels = attempt!("pixel_shuffle", divided, self);
        let k = front.len();
        let parts = [&front[..], &[channels, r, r, h, w]].concat();
        let order = (0..k).chain([k, k + 3, k + 1, k + 4, k + 2]);
        let blocks = self.reshape(parts).permute(order.collect::<Vec<_>>());
        let sizes = [&front[..], &[channels, h * r, w * r]].concat();
        blocks.reshape(sizes).called("pixel_shuffle", &[self])
    }

    /// Blocks of `r` by `r` pixels as channels, the inverse of [`pixel_shuffle`](Tensor::pixel_shuffle):
    /// `[.., channels, h·r, w·r]` gives `[.., channels·r², h, w]`. Sizes that `r` does not divide are an error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::arange(0, 8, 1, DType::I64, &Device::cpu()).reshape([1, 2, 4]);
    /// let y = x.pixel_unshuffle(2);
    /// assert_eq!(y.dims(), [4, 1, 2]);
    /// assert_eq!(y.to_vec::<i64>()?, [0, 2, 1, 3, 4, 6, 5, 7]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn pixel_unshuffle(&self, r: usize) -> Tensor {
        let (front, [channels, h, w]) = attempt!("pixel_unshuffle", self.image(r), self);
        let odd = [("rows", h), ("columns", w)]
            .into_iter()
            .find(|(_, size)| size % r != 0);
        let divided = odd.map_or(Ok(()), |(what, size)| Err(undivided(what, size, r)));
        attempt!("pixel_unshuffle", divided, self);
        let (k, h, w) = (front.len(), h / r, w / r);
        let parts = [&front[..], &[channels, h, r, w, r]].concat();
        let order = (0..k).chain([k, k + 2, k + 4, k + 1, k + 3]);
        let blocks = self.reshape(parts).permute(order.collect::<Vec<_>>());
        let sizes = [&front[..], &[channels.saturating_mul(r * r), h, w]].concat();
        blocks.reshape(sizes).called("pixel_unshuffle", &[self])
    }

    /// The sizes before the last three, and these.
    ///
    /// # Errors
    /// There are fewer than three, or blocks have no pixels.
    fn image(&self, r: usize) -> Result<(Vec<usize>, [usize; 3])> {
        self.check()?;
        if r == 0 {
            return Err(Error::argument("blocks of 0 pixels"));
        }
        match self.shape().dims() {
            [front @ .., channels, h, w] => Ok((front.to_vec(), [*channels, *h, *w])),
            _ => {
                let why = format!("images have 3 dimensions at least, not {}", self.sizes());
                Err(Error::shape(why))
            }
        }
    }
}

fn undivided(what: &str, size: usize, r: usize) -> Error {
    Error::shape(format!("{size} {what} do not give blocks of {r} by {r}"))
}
