//! Convolutions and correlations of two vectors, as NumPy has them.

use super::attempt;
use crate::Tensor;
use ferrotrace_kernels::ArgMeta;
use ferrotrace_kernels::ops::pointwise::promote;
use ferrotrace_runtime::{DType, Error, Result};

/// How far two sequences have to overlap. NumPy's words convert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// By one element at least: n + m − 1 results. Converts from `"full"`.
    Full,
    /// As many results as the longer one has elements, from the middle. Converts from `"same"`.
    Same,
    /// The shorter one as a whole. Converts from `"valid"`.
    Valid,
    /// A word that means nothing: an error where it is used.
    Unknown(String),
}

impl From<&str> for Overlap {
    fn from(word: &str) -> Overlap {
        match word {
            "full" => Overlap::Full,
            "same" => Overlap::Same,
            "valid" => Overlap::Valid,
            word => Overlap::Unknown(word.to_owned()),
        }
    }
}

impl Overlap {
    /// How far a window of `n` elements leaves the longer sequence on both sides.
    fn beyond(&self, n: usize) -> Result<[usize; 2]> {
        match self {
            Overlap::Full => Ok([n - 1; 2]),
            Overlap::Same => Ok([n / 2, n - n / 2 - 1]),
            Overlap::Valid => Ok([0; 2]),
            Overlap::Unknown(word) => Err(Error::argument(format!(
                "the mode {word:?}: it is full, same or valid"
            ))),
        }
    }
}

impl Tensor {
    /// The convolution of two vectors, Σⱼ `x[j]`·`v[k − j]` at k, as far as `mode` says they overlap: `"full"`, `"same"` or
    /// `"valid"` ([`Overlap`](crate::Overlap)). Dtypes promote; bools are an error. Each result takes as many multiplications as
    /// the shorter vector has elements: for long ones, [`fft`](Tensor::fft) is faster.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0], 3, &Device::cpu());
    /// let v = Tensor::from_slice(&[0.0, 1.0, 0.5], 3, &Device::cpu());
    /// assert_eq!(x.convolve(&v, "full").to_vec::<f64>()?, [0.0, 1.0, 2.5, 4.0, 1.5]);
    /// assert_eq!(x.convolve(&v, "same").to_vec::<f64>()?, [1.0, 2.5, 4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn convolve(&self, v: &Tensor, mode: impl Into<Overlap>) -> Tensor {
        let slid = self.slid(v, &mode.into(), true);
        attempt!("convolve", slid, self, v).called("convolve", &[self, v])
    }

    /// The correlation of two vectors, Σⱼ `x[j + k]`·`v[j]` at k, as far as `mode` says they overlap, as
    /// [`convolve`](Tensor::convolve) takes it.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0], 3, &Device::cpu());
    /// let v = Tensor::from_slice(&[0.0, 1.0, 0.5], 3, &Device::cpu());
    /// assert_eq!(x.correlate(&v, "valid").to_vec::<f64>()?, [3.5]);
    /// assert_eq!(x.correlate(&v, "full").to_vec::<f64>()?, [0.5, 2.0, 3.5, 3.0, 0.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn correlate(&self, v: &Tensor, mode: impl Into<Overlap>) -> Tensor {
        let slid = self.slid(v, &mode.into(), false);
        attempt!("correlate", slid, self, v).called("correlate", &[self, v])
    }

    /// The shorter vector slid along the longer one, turned around or not.
    #[track_caller]
    fn slid(&self, v: &Tensor, mode: &Overlap, turned: bool) -> Result<Tensor> {
        for x in [self, v] {
            x.check_rank(1, "a vector")?;
            if x.numel() == 0 {
                return Err(Error::shape("a vector of no elements"));
            }
        }
        let dtype = promote(&[self, v].map(|x| ArgMeta::Tensor(x.sizes(), x.dtype())));
        if dtype == DType::Bool {
            return Err(Error::untaken("convolve", dtype, DType::U8));
        }
        let swapped = v.numel() > self.numel();
        let (long, short) = if swapped { (v, self) } else { (self, v) };
        let [before, behind] = mode.beyond(short.numel())?;
        let pads = [(before as isize, behind as isize)];
        let long = long.to_dtype(dtype).pad(&pads, 0);
        let short = short.to_dtype(dtype);
        let short = if turned { short.flip(0) } else { short };
        let slid = match dtype.is_float() {
            true => {
                let line = |x: &Tensor| x.unsqueeze(0).unsqueeze(0);
                line(&long)
                    .conv1d(&line(&short), None, 1, 0, 1, 1)
                    .flatten(0, -1)
            }
            false => {
                let windows = long.unfold(0, short.numel(), 1);
                (windows * short).sum(-1).to_dtype(dtype)
            }
        };
        // A correlation tells the two apart: with the first one slid, it runs backwards.
        Ok(if swapped && !turned {
            slid.flip(0)
        } else {
            slid
        })
    }
}
