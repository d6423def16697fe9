//! Spectra of overlapping frames of a signal.

use super::super::attempt;
use crate::Tensor;
use crate::methods::PadMode;
use ferrotrace_runtime::{DType, Error, Result};

impl Tensor {
    /// The short-time Fourier transform of signals of real numbers: [`rfft`](Tensor::rfft) of frames of `n_fft` samples that
    /// begin `hop` samples apart, each multiplied by `window` `[n_fft]`. `[.., n]` gives pairs `[.., n_fft/2 + 1, frames, 2]`.
    /// With `center` the signal is extended by its reflection, `n_fft`/2 at both ends, so that frames stand around their
    /// samples. A signal shorter than a frame and a hop of 0 are errors.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let cpu = Device::cpu();
    /// let x = Tensor::randn([2, 100], DType::F32, &cpu);
    /// let window = Tensor::hann_window(16, true, DType::F32, &cpu);
    /// assert_eq!(x.stft(16, 4, &window, true).dims(), [2, 9, 26, 2]);
    /// ```
    #[track_caller]
    pub fn stft(&self, n_fft: usize, hop: usize, window: &Tensor, center: bool) -> Tensor {
        let frames = Frames::new(n_fft, hop, window, center);
        let spectra = frames.and_then(|frames| frames.spectra(self));
        attempt!("stft", spectra, self, window).called("stft", &[self, window])
    }

    /// The signals of `n` samples whose frames have given spectra, the inverse of [`stft`](Tensor::stft) with the same numbers:
    /// pairs `[.., n_fft/2 + 1, frames, 2]` give `[.., n]`, frames added and divided by the sum of the windows' squares. Samples
    /// that no window covers are infinite or NaN; more samples than the frames have are an error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let cpu = Device::cpu();
    /// let x = Tensor::randn([2, 100], DType::F64, &cpu);
    /// let window = Tensor::hann_window(16, true, DType::F64, &cpu);
    /// let back = x.stft(16, 4, &window, true).istft(100, 16, 4, &window, true);
    /// assert!(back.allclose(&x, 1e-12, 1e-12)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn istft(
        &self,
        n: usize,
        n_fft: usize,
        hop: usize,
        window: &Tensor,
        center: bool,
    ) -> Tensor {
        let frames = Frames::new(n_fft, hop, window, center);
        let signal = frames.and_then(|frames| frames.signal(self, n));
        attempt!("istft", signal, self, window).called("istft", &[self, window])
    }
}

/// Frames of a signal: so many samples each, so many apart, multiplied by a window.
struct Frames<'a> {
    size: usize,
    hop: usize,
    window: &'a Tensor,
    /// The samples of a frame in front of the one that it stands at.
    front: usize,
}

impl Frames<'_> {
    /// # Errors
    /// The window is not of so many numbers as a frame, or frames do not move on.
    fn new(size: usize, hop: usize, window: &Tensor, center: bool) -> Result<Frames<'_>> {
        window.check()?;
        if hop == 0 || size == 0 {
            let why = format!("frames of {size} samples, {hop} apart");
            return Err(Error::argument(why));
        }
        if window.shape()[..] != [size] {
            let why = format!("a window of {}, not [{size}]", window.shape());
            return Err(Error::shape(why));
        }
        let front = if center { size / 2 } else { 0 };
        Ok(Frames {
            size,
            hop,
            window,
            front,
        })
    }

    #[track_caller]
    fn spectra(&self, x: &Tensor) -> Result<Tensor> {
        x.check()?;
        let Some(&n) = x.shape().last() else {
            return Err(Error::shape("a signal of no dimension"));
        };
        let (size, front) = (self.size, self.front);
        if n <= front || n + 2 * front < size {
            let why = format!("a signal of {n} samples, too short for frames of {size}");
            return Err(Error::shape(why));
        }
        let mut pads = vec![(0, 0); x.rank()];
        pads[x.rank() - 1] = (front as isize, front as isize);
        let x = match front {
            0 => x.clone(),
            _ => x.pad_with(&pads, PadMode::Reflect),
        };
        let frames = x.unfold(-1, size, self.hop) * self.window;
        Ok(frames.rfft(-1).transpose(-3, -2))
    }

    #[track_caller]
    fn signal(&self, spectra: &Tensor, n: usize) -> Result<Tensor> {
        spectra.check()?;
        let size = self.size;
        let [.., bins, count, 2] = spectra.shape()[..] else {
            let why = format!("{} is not [.., n_fft/2 + 1, frames, 2]", spectra.shape());
            return Err(Error::shape(why));
        };
        if bins != size / 2 + 1 || count == 0 {
            let has = size / 2 + 1;
            let why =
                format!("{count} frames of {bins} frequencies, where frames of {size} have {has}");
            return Err(Error::shape(why));
        }
        let whole = self.hop.saturating_mul(count - 1).saturating_add(size);
        if self.front.saturating_add(n) > whole {
            let has = whole - self.front;
            return Err(Error::shape(format!(
                "{count} frames have {has} samples, not {n}"
            )));
        }
        let frames = spectra.transpose(-3, -2).irfft(size, -1) * self.window;
        let (dtype, device) = (frames.dtype(), frames.device());
        let places = Tensor::arange(0, count, 1, DType::I64, &device) * self.hop as i64;
        let places = places.unsqueeze(1) + Tensor::arange(0, size, 1, DType::I64, &device);
        let places = places.reshape([-1]);
        let added = |frames: &Tensor| {
            let batch = &frames.shape()[..frames.rank() - 2];
            let sum = Tensor::zeros([batch, &[whole]].concat(), dtype, &device);
            let frames = frames.reshape([batch, &[count * size]].concat());
            let sum = sum.index_add(-1, &places, &frames);
            sum.narrow(-1, self.front as isize, n)
        };
        let squares = (self.window * self.window).expand([count, size]);
        Ok(added(&frames) / added(&squares.to_dtype(dtype)))
    }
}
