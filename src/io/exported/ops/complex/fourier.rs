//! Discrete Fourier transforms as `torch.fft` and its kernels name them.

use super::super::Table;
use super::super::view::wrapped;
use super::pairs;
use crate::io::exported::call::{Call, Results, Value, one};
use crate::{DType, Error, Result, Tensor};

/// What is transformed.
enum Numbers {
    Real(Tensor),
    Pairs(Tensor),
}

impl Numbers {
    /// The operand; whole numbers as floating-point ones.
    fn of(c: &Call<'_>) -> Result<Numbers> {
        if let Some(pairs) = c.complex("self") {
            return Ok(Numbers::Pairs(pairs.clone()));
        }
        let x = c.tensor_of_either("self")?;
        Ok(Numbers::Real(match x.dtype().is_float() {
            true => x,
            false => x.to_dtype(DType::F32),
        }))
    }

    /// The sizes of the numbers.
    fn sizes(&self) -> &[usize] {
        match self {
            Numbers::Real(x) => x.dims(),
            Numbers::Pairs(x) => &x.dims()[..x.rank() - 1],
        }
    }

    /// A dimension of the numbers, counted from the front, and its size.
    fn dim(&self, dim: isize) -> Result<(usize, usize)> {
        let at = wrapped(dim, self.sizes().len())?;
        let size = self.sizes().get(at).copied();
        let size = size.ok_or_else(|| Error::shape("a transform of one number"))?;
        Ok((at, size))
    }

    /// So many numbers along a dimension: zeros behind them, or the first ones.
    fn sized(self, dim: isize, n: usize) -> Result<Numbers> {
        let (at, is) = self.dim(dim)?;
        let padded = |x: Tensor| {
            let mut pads = vec![(0, 0); x.rank()];
            pads[at].1 = n as isize - is as isize;
            x.pad(&pads, 0.0)
        };
        Ok(match self {
            _ if is == n => self,
            Numbers::Real(x) => Numbers::Real(padded(x)),
            Numbers::Pairs(x) => Numbers::Pairs(padded(x)),
        })
    }

    fn as_pairs(&self) -> Tensor {
        match self {
            Numbers::Real(x) => Tensor::complex(x, &x.zeros_like()),
            Numbers::Pairs(x) => x.clone(),
        }
    }
}

/// A transform.
struct Transform {
    /// The last one is halved where the signal is real.
    dims: Vec<isize>,
    inverse: bool,
    /// Of a real signal to the half of its transform, or from that to so many numbers.
    to_half: bool,
    from_half: Option<usize>,
    /// What sums of so many numbers are multiplied by.
    scale: fn(f64) -> f64,
}

impl Transform {
    fn run(&self, x: &Numbers) -> Results {
        let mut count = 1.0;
        for (at, &dim) in self.dims.iter().enumerate() {
            let is_last = at + 1 == self.dims.len();
            let length = self.from_half.filter(|_| is_last);
            count *= match length {
                Some(n) => n as f64,
                None => x.dim(dim)?.1 as f64,
            };
        }
        // Inverse transforms are divided by the count already.
        let by = match self.inverse {
            true => count * (self.scale)(count),
            false => (self.scale)(count),
        };
        let scaled = |y: Tensor| if by == 1.0 { y } else { y * by };
        let dims = &self.dims[..];
        match (self.from_half, x) {
            (Some(n), x) => one(scaled(x.as_pairs().irfft(n, dims))),
            (None, Numbers::Real(x)) if self.to_half => pairs(scaled(x.rfft(dims))),
            _ if self.to_half => Err(Error::dtype("complex numbers where real ones are expected")),
            (None, x) if self.inverse => pairs(scaled(x.as_pairs().ifft(dims))),
            (None, x) => pairs(scaled(x.as_pairs().fft(dims))),
        }
    }
}

fn unchanged(_: f64) -> f64 {
    1.0
}

fn by_root(count: f64) -> f64 {
    1.0 / count.sqrt()
}

fn by_count(count: f64) -> f64 {
    1.0 / count
}

/// A transform as the operators of its kernels ask for it.
fn plain(c: &Call<'_>, inverse: bool, to_half: bool, from_half: Option<usize>) -> Results {
    let scale = match c.int_or("normalization", 0)? {
        0 => unchanged,
        1 => by_root,
        _ => by_count,
    };
    let dims = c.dims("dim")?;
    Transform {
        dims,
        inverse,
        to_half,
        from_half,
        scale,
    }
    .run(&Numbers::of(c)?)
}

/// A function of `torch.fft` of the last `n` dimensions, of all where it is 0, where the call names none.
fn named(c: &Call<'_>, n: usize, inverse: bool, half: bool) -> Results {
    let (x, transform) = asked(c, n, inverse, half)?;
    transform.run(&x)
}

/// A transform between a signal's half, whose other half are conjugates, and its real spectrum: the one between a real signal
/// and its spectrum's half, of conjugates and with the factor of the other direction.
fn hermitian(c: &Call<'_>, n: usize, inverse: bool) -> Results {
    let (x, mut transform) = asked(c, n, !inverse, true)?;
    transform.scale = scale(c, inverse)?;
    match inverse {
        true => match &transform.run(&x)?[..] {
            [Value::Complex(spectrum)] => pairs(spectrum.complex_conj()),
            _ => Err(Error::internal("a spectrum that is not complex")),
        },
        false => transform.run(&Numbers::Pairs(x.as_pairs().complex_conj())),
    }
}

/// What a function of `torch.fft` multiplies sums by.
fn scale(c: &Call<'_>, inverse: bool) -> Result<fn(f64) -> f64> {
    Ok(match (c.text("norm")?, inverse) {
        (Some("ortho"), _) => by_root,
        (Some("forward"), false) => by_count,
        (Some("forward"), _) | (_, false) => unchanged,
        (_, true) => by_count,
    })
}

/// What is transformed, and how.
fn asked(c: &Call<'_>, n: usize, inverse: bool, half: bool) -> Result<(Numbers, Transform)> {
    let mut x = Numbers::of(c)?;
    let rank = x.sizes().len() as isize;
    let sizes = match n {
        1 => c.int("n")?.map(|n| vec![n]),
        _ => c.ints("s")?,
    };
    let all = if n == 0 { rank } else { n as isize };
    let dims = match (n, c.has("dim")) {
        (1, _) => vec![c.dim_or("dim", -1)?],
        (_, true) => c.dims("dim")?,
        (_, false) => (-sizes.as_ref().map_or(all, |s| s.len() as isize)..0).collect(),
    };
    let last = dims.last().copied();
    let sizes = sizes.unwrap_or_else(|| vec![-1; dims.len()]);
    let from_half = half && inverse;
    let mut length = None;
    for (&dim, &size) in dims.iter().zip(&sizes) {
        let halved = from_half && Some(dim) == last;
        let (_, is) = x.dim(dim)?;
        let asked = usize::try_from(size).ok();
        match (halved, asked) {
            (true, asked) => length = Some(asked.unwrap_or(2 * is.saturating_sub(1))),
            (false, Some(n)) => x = x.sized(dim, n)?,
            (false, None) => {}
        }
    }
    let to_half = half && !inverse;
    let transform = Transform {
        dims,
        inverse,
        to_half,
        from_half: length,
        scale: scale(c, inverse)?,
    };
    Ok((x, transform))
}

/// Frames of a signal: how long they are, how far apart, and what they are multiplied by.
fn framing(c: &Call<'_>, dtype: DType) -> Result<(usize, usize, Tensor)> {
    let n = c.size_or("n_fft", 0)?;
    let (hop, length) = (c.size_or("hop_length", n / 4)?, c.size_or("win_length", n)?);
    if !c.bool_or("onesided", true)? {
        return Err(Error::unsupported("spectra of frames with both halves"));
    }
    if length > n {
        return Err(Error::argument(format!(
            "a window of {length} for frames of {n}"
        )));
    }
    let window = match c.tensor_opt("window")? {
        Some(window) => window.clone(),
        None => Tensor::ones(length, dtype, c.device),
    };
    // A short window stands in the middle of its frame.
    let front = (n - length) / 2;
    let pads = [(front as isize, (n - length - front) as isize)];
    Ok((n, hop, window.pad(&pads, 0.0)))
}

fn root_of_frame(c: &Call<'_>, n: usize) -> Result<f64> {
    Ok(match c.bool_or("normalized", false)? {
        true => (n as f64).sqrt(),
        false => 1.0,
    })
}

fn stft(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let (n, hop, window) = framing(c, x.dtype())?;
    let spectra = x.stft(n, hop, &window, false) / root_of_frame(c, n)?;
    match c.bool_or("return_complex", false)? {
        true => pairs(spectra),
        false => one(spectra),
    }
}

fn istft(c: &Call<'_>) -> Results {
    let x = c.complex("self");
    let x = x.ok_or_else(|| Error::dtype("real numbers where spectra are expected"))?;
    let (n, hop, window) = framing(c, x.dtype())?;
    let center = c.bool_or("center", true)?;
    let frames = x.dim(-2)?.saturating_sub(1);
    let whole = hop.saturating_mul(frames).saturating_add(n);
    let ends = if center { n / 2 * 2 } else { 0 };
    let length = c.size_or("length", whole.saturating_sub(ends))?;
    let x = x * root_of_frame(c, n)?;
    one(x.istft(length, n, hop, &window, center))
}

pub(super) const TABLE: Table = &[
    ("_fft_r2c", "default", |c| {
        plain(c, false, c.bool_or("onesided", true)?, None)
    }),
    ("_fft_c2c", "default", |c| {
        plain(c, !c.bool_or("forward", true)?, false, None)
    }),
    ("_fft_c2r", "default", |c| {
        plain(c, true, false, Some(c.size_or("last_dim_size", 1)?))
    }),
    ("fft_fft", "default", |c| named(c, 1, false, false)),
    ("fft_ifft", "default", |c| named(c, 1, true, false)),
    ("fft_rfft", "default", |c| named(c, 1, false, true)),
    ("fft_irfft", "default", |c| named(c, 1, true, true)),
    ("fft_fft2", "default", |c| named(c, 2, false, false)),
    ("fft_ifft2", "default", |c| named(c, 2, true, false)),
    ("fft_rfft2", "default", |c| named(c, 2, false, true)),
    ("fft_irfft2", "default", |c| named(c, 2, true, true)),
    ("fft_fftn", "default", |c| named(c, 0, false, false)),
    ("fft_ifftn", "default", |c| named(c, 0, true, false)),
    ("fft_rfftn", "default", |c| named(c, 0, false, true)),
    ("fft_irfftn", "default", |c| named(c, 0, true, true)),
    ("stft", "default", stft),
    ("istft", "default", istft),
    ("fft_hfft", "default", |c| hermitian(c, 1, false)),
    ("fft_ihfft", "default", |c| hermitian(c, 1, true)),
    ("fft_hfft2", "default", |c| hermitian(c, 2, false)),
    ("fft_ihfft2", "default", |c| hermitian(c, 2, true)),
    ("fft_hfftn", "default", |c| hermitian(c, 0, false)),
    ("fft_ihfftn", "default", |c| hermitian(c, 0, true)),
];
