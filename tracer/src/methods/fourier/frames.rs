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
        let spectra = self.spectra(n_fft, hop, window, center);
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
        let signal = self.signal(n, n_fft, hop, window, center);
        attempt!("istft", signal, self, window).called("istft", &[self, window])
    }

    #[track_caller]
    fn spectra(&self, n_fft: usize, hop: usize, window: &Tensor, center: bool) -> Result<Tensor> {
        self.check()?;
        check_frames(n_fft, hop, window)?;
        let Some(&n) = self.shape().last() else {
            return Err(Error::shape("a signal of no dimension"));
        };
        let half = if center { n_fft / 2 } else { 0 };
        if n <= half || n + 2 * half < n_fft {
            let why = format!("a signal of {n} samples, too short for frames of {n_fft}");
            return Err(Error::shape(why));
        }
        let mut pads = vec![(0, 0); self.rank()];
        pads[self.rank() - 1] = (half as isize, half as isize);
        let x = match center {
            true => self.pad_with(&pads, PadMode::Reflect),
            false => self.clone(),
        };
        let frames = x.unfold(-1, n_fft, hop) * window;
        Ok(frames.rfft(-1).transpose(-3, -2))
    }

    #[track_caller]
    fn signal(
        &self,
        n: usize,
        n_fft: usize,
        hop: usize,
        window: &Tensor,
        center: bool,
    ) -> Result<Tensor> {
        self.check()?;
        check_frames(n_fft, hop, window)?;
        let [.., bins, count, 2] = self.shape()[..] else {
            let why = format!("{} is not [.., n_fft/2 + 1, frames, 2]", self.shape());
            return Err(Error::shape(why));
        };
        if bins != n_fft / 2 + 1 || count == 0 {
            let why = format!(
                "{count} frames of {bins} frequencies, where frames of {n_fft} have {}",
                n_fft / 2 + 1
            );
            return Err(Error::shape(why));
        }
        let start = if center { n_fft / 2 } else { 0 };
        let whole = hop.saturating_mul(count - 1).saturating_add(n_fft);
        if start.saturating_add(n) > whole {
            let why = format!("{count} frames have {} samples, not {n}", whole - start);
            return Err(Error::shape(why));
        }
        let frames = self.transpose(-3, -2).irfft(n_fft, -1) * window;
        let (dtype, device) = (frames.dtype(), frames.device());
        let places = Tensor::arange(0, count, 1, DType::I64, &device) * hop as i64;
        let places = places.unsqueeze(1) + Tensor::arange(0, n_fft, 1, DType::I64, &device);
        let places = places.reshape([-1]);
        let added = |frames: &Tensor| {
            let batch = &frames.shape()[..frames.rank() - 2];
            let sum = Tensor::zeros([batch, &[whole]].concat(), dtype, &device);
            let frames = frames.reshape([batch, &[count * n_fft]].concat());
            sum.index_add(-1, &places, &frames)
                .narrow(-1, start as isize, n)
        };
        let squares = (window * window).expand([count, n_fft]);
        Ok(added(&frames) / added(&squares.to_dtype(dtype)))
    }
}

/// # Errors
/// The window is not of `n_fft` numbers, or frames do not move on.
fn check_frames(n_fft: usize, hop: usize, window: &Tensor) -> Result<()> {
    window.check()?;
    if hop == 0 || n_fft == 0 {
        return Err(Error::argument(format!(
            "frames of {n_fft} samples, {hop} apart"
        )));
    }
    match window.shape()[..] == [n_fft] {
        true => Ok(()),
        false => Err(Error::shape(format!(
            "a window of {}, not [{n_fft}]",
            window.shape()
        ))),
    }
}
