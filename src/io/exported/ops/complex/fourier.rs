//! Discrete Fourier transforms, as products by matrices of cosines and sines: of up to 64 numbers at once, of more by their
//! factors (Cooley and Tukey, 1965), of long prime lengths as convolutions (Bluestein, 1970).

use super::super::Table;
use super::{joined, operand};
use crate::io::exported::call::{Call, Results, one};
use crate::{DType, Device, Error, Result, Tensor};
use std::f64::consts::PI;

/// Most numbers that one product transforms.
const DIRECT: usize = 64;
/// Most numbers of prime length that one product transforms.
const PRIME: usize = 512;

/// Real and imaginary parts; real numbers have none of these.
type Parts = (Tensor, Option<Tensor>);

/// cos and sin of `angle` of each of `rows` by `columns` numbers.
fn waves(
    [rows, columns]: [usize; 2],
    angle: impl Fn(usize, usize) -> f64,
    like: &Tensor,
) -> (Tensor, Tensor) {
    let each = || (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
    let of = |f: fn(f64) -> f64| {
        let data: Vec<f64> = each().map(|(i, j)| f(angle(i, j))).collect();
        let table = Tensor::from_vec(data, [rows, columns], &Device::cpu());
        table.to_dtype(like.dtype()).to_device(&like.device())
    };
    (of(f64::cos), of(f64::sin))
}

/// (a + ib)(x + iy).
fn product((a, b): &Parts, (x, y): &(Tensor, Tensor)) -> Parts {
    match b {
        Some(b) => (a * x - b * y, Some(a * y + b * x)),
        None => (a * x, Some(a * y)),
    }
}

/// The transform along the last dimension, of this length; `sign` is that of the exponent.
fn along_last(x: &Parts, n: usize, sign: f64) -> Parts {
    let step = sign * 2.0 * PI / n as f64;
    let factor = (2..=DIRECT).rev().find(|&p| n.is_multiple_of(p));
    let (re, im) = x;
    match factor {
        // One product: (a + ib)(C + iS).
        _ if n <= DIRECT || factor.is_none() && n <= PRIME => {
            let (cos, sin) = waves([n, n], |j, k| step * (j * k % n) as f64, re);
            let by = |x: &Tensor| (x.matmul(&cos), x.matmul(&sin));
            let (ac, as_) = by(re);
            match im.as_ref().map(by) {
                Some((bc, bs)) => (ac - bs, Some(as_ + bc)),
                None => (ac, Some(as_)),
            }
        }
        Some(p) => by_factors(x, (p, n / p), sign),
        None => by_convolution(x, n, sign),
    }
}

fn each(x: &Parts, f: impl Fn(&Tensor) -> Tensor) -> Parts {
    (f(&x.0), x.1.as_ref().map(f))
}

/// The transform of p·q numbers: number q·i + j is row i and column j, result k + p·l row l and column k.
fn by_factors(x: &Parts, (p, q): (usize, usize), sign: f64) -> Parts {
    let front = x.0.dims()[..x.0.rank() - 1].to_vec();
    let matrix = |sizes: [usize; 2]| [&front[..], &sizes].concat();
    let columns = each(x, |x| x.reshape(matrix([p, q])).transpose(-2, -1));
    let columns = along_last(&columns, p, sign);
    let step = sign * 2.0 * PI / (p * q) as f64;
    let twiddles = waves([q, p], |j, k| step * (j * k) as f64, &x.0);
    let rows = each(&product(&columns, &twiddles), |x| x.transpose(-2, -1));
    let rows = along_last(&rows, q, sign);
    each(&rows, |x| {
        x.transpose(-2, -1).reshape([&front[..], &[p * q]].concat())
    })
}

/// The transform of any length by those of a power of two: jk = (j² + k² − (k − j)²) / 2.
fn by_convolution(x: &Parts, n: usize, sign: f64) -> Parts {
    let long = (2 * n - 1).next_power_of_two();
    let angle = |j: usize| sign * PI * (j * j % (2 * n)) as f64 / n as f64;
    let chirp = waves([1, n], |_, j| angle(j), &x.0);
    let last = |x: &Tensor, more: usize| {
        let mut pads = vec![(0, 0); x.rank()];
        pads[x.rank() - 1].1 = more as isize;
        x.pad(&pads, 0.0)
    };
    let one_row = |x: &Tensor| x.squeeze(0);
    let chirp = (one_row(&chirp.0), one_row(&chirp.1));
    let a = each(&product(x, &chirp), |x| last(x, long - n));
    // The other factor, whose places count from the end too.
    let back = waves([1, long], |_, j| -angle(j.min(long - j).min(n - 1)), &x.0);
    let seen = (0..long)
        .map(|j| j.min(long - j) < n)
        .collect::<Vec<bool>>();
    let seen = Tensor::from_vec(seen, [long], &Device::cpu()).to_device(&x.0.device());
    let masked = |x: &Tensor| seen.where_cond(&one_row(x), 0.0);
    let b = along_last(&(masked(&back.0), Some(masked(&back.1))), long, -1.0);
    let a = along_last(&a, long, -1.0);
    let b = (b.0.clone(), b.1.unwrap_or_else(|| b.0.zeros_like()));
    let c = along_last(&product(&a, &b), long, 1.0);
    let c = each(&c, |x| x.narrow(-1, 0, n) / long as f64);
    product(&c, &chirp)
}

/// The transform along a dimension.
fn along(x: &Parts, dim: isize, sign: f64) -> Result<Parts> {
    let n = x.0.dim(dim)?;
    if n == 0 {
        return Err(Error::argument("a transform of no numbers"));
    }
    let turned = each(x, |x| x.transpose(dim, -1));
    Ok(each(&along_last(&turned, n, sign), |x| {
        x.transpose(dim, -1)
    }))
}

/// The last dimension of a real signal's transform, of `n` numbers, of which the first half is given.
fn whole(x: &Parts, dim: isize, n: usize) -> Result<Parts> {
    let x = sized(x, dim, n / 2 + 1)?;
    let rest = |x: &Tensor| x.narrow(dim, 1, n - n / 2 - 1).flip(dim);
    let re = Tensor::cat(&[&x.0, &rest(&x.0)], dim);
    let im = x.1.map(|im| Tensor::cat(&[&im, &-rest(&im)], dim));
    Ok((re, im))
}

/// So many numbers along a dimension: zeros behind them, or the first ones.
fn sized(x: &Parts, dim: isize, n: usize) -> Result<Parts> {
    let (at, is) = (dim.rem_euclid(x.0.rank() as isize) as usize, x.0.dim(dim)?);
    let mut pads = vec![(0, 0); x.0.rank()];
    pads[at].1 = n as isize - is as isize;
    Ok(match is == n {
        true => x.clone(),
        false => each(x, |x| x.pad(&pads, 0.0)),
    })
}

/// A transform: dimensions, the last one of which is halved where the signal is real, and the sign of the exponent.
struct Transform {
    dims: Vec<isize>,
    sign: f64,
    /// Of a real signal: to the half of its transform, or from that to so many numbers.
    to_half: bool,
    from_half: Option<usize>,
    /// What results are multiplied by, of so many numbers.
    scale: fn(f64) -> f64,
}

impl Transform {
    fn run(&self, mut x: Parts) -> Results {
        let Some((&last, others)) = self.dims.split_last() else {
            return Err(Error::argument("a transform of no dimensions"));
        };
        let mut count = 1.0;
        for &dim in others {
            count *= x.0.dim(dim)? as f64;
        }
        count *= match self.from_half {
            Some(n) => n as f64,
            None => x.0.dim(last)? as f64,
        };
        // Of a real signal the last dimension is transformed first, as long as the signal is real, and back last.
        if self.from_half.is_none() {
            x = along(&x, last, self.sign)?;
        }
        if self.to_half {
            let n = x.0.dim(last)? / 2 + 1;
            x = each(&x, |x| x.narrow(last, 0, n));
        }
        for &dim in others.iter().rev() {
            x = along(&x, dim, self.sign)?;
        }
        if let Some(n) = self.from_half {
            x = along(&whole(&x, last, n)?, last, self.sign)?;
        }
        let by = (self.scale)(count);
        let (re, im) = if by == 1.0 { x } else { each(&x, |x| x * by) };
        match (self.from_half, im) {
            (None, Some(im)) => joined(&re, &im),
            _ => one(re),
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
fn plain(c: &Call<'_>, sign: f64, to_half: bool, from_half: Option<usize>) -> Results {
    let scale = match c.int_or("normalization", 0)? {
        0 => unchanged,
        1 => by_root,
        _ => by_count,
    };
    let dims = c.dims("dim")?;
    Transform {
        dims,
        sign,
        to_half,
        from_half,
        scale,
    }
    .run(numbers(c)?)
}

/// The operand; whole numbers as floating-point ones.
fn numbers(c: &Call<'_>) -> Result<Parts> {
    let (re, im) = operand(c, "self")?;
    let float = re.dtype().is_float();
    Ok((if float { re } else { re.to_dtype(DType::F32) }, im))
}

/// A function of `torch.fft` of the last `n` dimensions, of all where it is 0, where the call names none.
fn named(c: &Call<'_>, n: usize, inverse: bool, half: bool) -> Results {
    let mut x = numbers(c)?;
    let rank = x.0.rank() as isize;
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
        let is = x.0.dim(dim)?;
        let asked = usize::try_from(size).ok();
        match (halved, asked) {
            (true, asked) => length = Some(asked.unwrap_or(2 * is.saturating_sub(1))),
            (false, Some(n)) => x = sized(&x, dim, n)?,
            (false, None) => {}
        }
    }
    let scale = match (c.text("norm")?, inverse) {
        (Some("ortho"), _) => by_root,
        (Some("forward"), inverse) if !inverse => by_count,
        (Some("forward"), _) | (_, false) => unchanged,
        (_, true) => by_count,
    };
    let sign = if inverse { 1.0 } else { -1.0 };
    let to_half = half && !inverse;
    Transform {
        dims,
        sign,
        to_half,
        from_half: length,
        scale,
    }
    .run(x)
}

pub(super) const TABLE: Table = &[
    ("_fft_r2c", "default", |c| {
        plain(c, -1.0, c.bool_or("onesided", true)?, None)
    }),
    ("_fft_c2c", "default", |c| {
        let sign = if c.bool_or("forward", true)? {
            -1.0
        } else {
            1.0
        };
        plain(c, sign, false, None)
    }),
    ("_fft_c2r", "default", |c| {
        plain(c, 1.0, false, Some(c.size_or("last_dim_size", 1)?))
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
];
