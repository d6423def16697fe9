//! Resampling.

pub(super) mod grid;

use super::Table;
use crate::io::exported::call::{Call, Results, one};
use crate::{Error, Interpolation, Result, Sizes, Tensor};

/// Sizes by sizes or by factors.
fn target(c: &Call<'_>, n: usize) -> Result<Vec<usize>> {
    if let Some(size) = c.ints("output_size")? {
        return size
            .into_iter()
            .map(|n| usize::try_from(n).map_err(|_| Error::argument("a size below 0")))
            .collect();
    }
    let x = c.tensor(if c.has("input") { "input" } else { "self" })?;
    let factors = c.floats("scale_factors")?;
    let factors = factors.ok_or_else(|| Error::argument("neither sizes nor factors are given"))?;
    let from = &x.dims()[x.rank() - n..];
    Ok(from
        .iter()
        .zip(&factors)
        .map(|(&n, f)| (n as f64 * f).floor() as usize)
        .collect())
}

/// The factor of each dimension, where factors are given.
fn factors(c: &Call<'_>, n: usize) -> Result<Option<Vec<f64>>> {
    if let Some(factors) = c.floats("scale_factors")? {
        return Ok(Some(factors));
    }
    let names: &[&str] = match n {
        1 => &["scales"],
        2 => &["scales_h", "scales_w"],
        _ => &["scales_d", "scales_h", "scales_w"],
    };
    if !names.iter().all(|name| c.has(name)) {
        return Ok(None);
    }
    let all: Result<Vec<f64>> = names.iter().map(|name| c.float_or(name, 1.0)).collect();
    all.map(Some)
}

fn resampled(c: &Call<'_>, n: usize, kind: Interpolation) -> Results {
    let x = c.tensor(if c.has("input") { "input" } else { "self" })?;
    let align = c.bool_or("align_corners", false)?;
    let size = target(c, n)?;
    let from = &x.dims()[x.rank() - n..];
    // Where sizes are no multiples, results lie at distances of the factor, not of the quotient of sizes.
    if let (Some(factors), false) = (factors(c, n)?, align)
        && factors
            .iter()
            .zip(from.iter().zip(&size))
            .any(|(f, (&n, &m))| n as f64 * f != m as f64)
    {
        let mut y = x.clone();
        for (d, (&m, f)) in size.iter().zip(&factors).enumerate() {
            let places = Places {
                n: from[d],
                m,
                step: 1.0 / f,
            };
            y = places.along(&y, x.rank() - n + d, kind);
        }
        return one(y);
    }
    one(x.interpolate(Sizes::from(&size[..]), kind, align))
}

/// Results of one dimension at distances that its sizes do not say.
struct Places {
    n: usize,
    m: usize,
    step: f64,
}

impl Places {
    fn along(&self, x: &Tensor, dim: usize, kind: Interpolation) -> Tensor {
        let &Places { n, m, step } = self;
        let device = x.device();
        let half = match kind {
            Interpolation::Nearest => Some(0.0),
            Interpolation::NearestExact => Some(0.5),
            _ => None,
        };
        if let Some(half) = half {
            let at = |i: usize| ((i as f64 + half) * step).floor().min(n as f64 - 1.0) as i64;
            let at = Tensor::from_vec((0..m).map(at).collect(), m, &device);
            return x.index_select(dim, &at);
        }
        let mut weights = vec![0.0; m * n];
        for i in 0..m {
            let place = (i as f64 + 0.5) * step - 0.5;
            let mut add = |j: f64, weight: f64| {
                weights[i * n + j.clamp(0.0, n as f64 - 1.0) as usize] += weight;
            };
            if kind == Interpolation::Bicubic {
                let low = place.floor();
                for j in -1..=2 {
                    add(low + j as f64, cubic(place - low - j as f64, -0.75));
                }
            } else {
                let place = place.max(0.0);
                let low = place.floor();
                add(low, 1.0 - (place - low));
                add(low + 1.0, place - low);
            }
        }
        let weights = Tensor::from_vec(weights, [m, n], &device);
        let weights = weights.to_dtype(x.dtype()).t();
        x.transpose(dim, -1).matmul(&weights).transpose(dim, -1)
    }
}

/// What each of `m` results takes of `n` elements, as a matrix: a kernel of a width, wider where the result is smaller.
fn smooth_weights(
    n: usize,
    m: usize,
    scale: f64,
    width: f64,
    kernel: impl Fn(f64) -> f64,
) -> Vec<f64> {
    let mut weights = vec![0.0; m * n];
    let wide = scale.max(1.0);
    for i in 0..m {
        let (center, reach) = (scale * (i as f64 + 0.5), width * wide);
        let first = (center - reach + 0.5).max(0.0) as usize;
        let end = ((center + reach + 0.5).max(0.0) as usize).min(n);
        let row = &mut weights[i * n..(i + 1) * n];
        for (j, weight) in row.iter_mut().enumerate().take(end).skip(first) {
            *weight = kernel((j as f64 - center + 0.5) / wide);
        }
        let total: f64 = row.iter().sum();
        if total != 0.0 {
            row.iter_mut().for_each(|weight| *weight /= total);
        }
    }
    weights
}

/// Resampling whose kernel widens with the step between results, so that nothing is left out.
fn smoothed(c: &Call<'_>, width: f64, kernel: fn(f64) -> f64) -> Results {
    let name = if c.has("input") { "input" } else { "self" };
    let x = c.tensor(name)?;
    let size = target(c, 2)?;
    let align = c.bool_or("align_corners", false)?;
    let factors = factors(c, 2)?;
    let mut y = x.clone();
    for (d, &m) in size.iter().enumerate() {
        let n = x.dims()[x.rank() - 2 + d];
        let scale = match (align, &factors) {
            (true, _) if m > 1 => (n as f64 - 1.0) / (m as f64 - 1.0),
            (true, _) => 0.0,
            (false, Some(factors)) => 1.0 / factors[d],
            (false, None) => n as f64 / m as f64,
        };
        let weights = smooth_weights(n, m, scale, width, kernel);
        let weights = Tensor::from_vec(weights, [m, n], c.device).to_dtype(x.dtype());
        y = match d {
            0 => weights.matmul(&y),
            _ => y.matmul(&weights.t()),
        };
    }
    one(y)
}

fn triangle(x: f64) -> f64 {
    (1.0 - x.abs()).max(0.0)
}

/// Cubic convolution (Keys 1981).
fn cubic(x: f64, a: f64) -> f64 {
    match x.abs() {
        x if x < 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
        x if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * a,
        _ => 0.0,
    }
}

pub(super) const TABLE: Table = &[
    ("upsample_nearest1d", "default vec", |c| {
        resampled(c, 1, Interpolation::Nearest)
    }),
    ("upsample_nearest2d", "default vec", |c| {
        resampled(c, 2, Interpolation::Nearest)
    }),
    ("upsample_nearest3d", "default vec", |c| {
        resampled(c, 3, Interpolation::Nearest)
    }),
    ("_upsample_nearest_exact1d", "default vec", |c| {
        resampled(c, 1, Interpolation::NearestExact)
    }),
    ("_upsample_nearest_exact2d", "default vec", |c| {
        resampled(c, 2, Interpolation::NearestExact)
    }),
    ("_upsample_nearest_exact3d", "default vec", |c| {
        resampled(c, 3, Interpolation::NearestExact)
    }),
    ("upsample_linear1d", "default vec", |c| {
        resampled(c, 1, Interpolation::Linear)
    }),
    ("upsample_bilinear2d", "default vec", |c| {
        resampled(c, 2, Interpolation::Bilinear)
    }),
    ("upsample_trilinear3d", "default vec", |c| {
        resampled(c, 3, Interpolation::Trilinear)
    }),
    ("upsample_bicubic2d", "default vec", |c| {
        resampled(c, 2, Interpolation::Bicubic)
    }),
    ("_upsample_bilinear2d_aa", "default vec", |c| {
        smoothed(c, 1.0, triangle)
    }),
    ("_upsample_bicubic2d_aa", "default vec", |c| {
        smoothed(c, 2.0, |x| cubic(x, -0.5))
    }),
];
