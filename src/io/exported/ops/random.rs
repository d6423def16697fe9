//! Random numbers. Their sequence is this library's own: it is not PyTorch's.

use super::Table;
use crate::io::exported::call::{Call, Results, all, one};
use crate::{DType, Error, Result, Tensor};
use std::f64::consts::PI;

fn dtype(c: &Call<'_>) -> Result<DType> {
    Ok(c.dtype("dtype")?.unwrap_or(DType::F32))
}

/// Whole numbers from `low` to before `high`.
fn integers(c: &Call<'_>, shape: Vec<usize>, default: DType) -> Results {
    let (low, high) = (c.int_or("low", 0)?, c.int_or("high", 1)?);
    let dtype = c.dtype("dtype")?.unwrap_or(default);
    one(Tensor::randint(low, high, shape, DType::I64, c.device).to_dtype(dtype))
}

/// Uniform numbers of a shape, in a dtype that has them.
fn uniform(x: &Tensor) -> Tensor {
    x.to_dtype(if x.dtype().is_float() {
        x.dtype()
    } else {
        DType::F32
    })
    .rand_like()
}

fn drawn(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    one(match c.operand("p") {
        Ok(p) => uniform(x).lt(p).to_dtype(x.dtype()),
        Err(_) => x.rand_like().lt(x).to_dtype(x.dtype()),
    })
}

/// What is dropped from: operators that write it call it otherwise.
fn dropped_from<'a>(c: &Call<'a>) -> Result<&'a Tensor> {
    c.tensor(if c.has("input") { "input" } else { "self" })
}

fn dropped(c: &Call<'_>) -> Results {
    let x = dropped_from(c)?;
    one(match c.bool_or("train", false)? {
        true => x.dropout(c.float_or("p", 0.5)?),
        false => x.clone(),
    })
}

/// A one for each channel.
fn channels(x: &Tensor) -> Tensor {
    let shape = (0..x.rank()).map(|d| if d < 2 { x.dims()[d] } else { 1 });
    Tensor::ones(shape.collect::<Vec<_>>(), x.dtype(), &x.device())
}

/// Whole channels dropped.
fn channels_dropped(c: &Call<'_>) -> Results {
    let x = dropped_from(c)?;
    if !c.bool_or("train", false)? {
        return one(x.clone());
    }
    one(x * channels(x).dropout(c.float_or("p", 0.5)?))
}

/// What is dropped gets selu's least value; both moments are kept (Klambauer et al. 2017).
fn dropped_to_least(c: &Call<'_>, by_channel: bool) -> Results {
    let (x, p) = (dropped_from(c)?, c.float_or("p", 0.5)?);
    if !c.bool_or("train", false)? {
        return one(x.clone());
    }
    if p == 1.0 {
        return one(x * 0.0);
    }
    let low = -1.758_099_340_847_376_6;
    let a = ((1.0 - p) * (1.0 + p * low * low)).powf(-0.5);
    let drawn = if by_channel { channels(x) } else { x.clone() };
    one(drawn.rand_like().ge(p).where_cond(x, low) * a - a * low * p)
}

/// Numbers of a distribution in the shape of a tensor, computed from uniform ones in binary64.
fn of_uniform(c: &Call<'_>, f: impl FnOnce(Tensor) -> Tensor) -> Results {
    let x = c.tensor("self")?;
    let uniform = x.to_dtype(DType::F64).rand_like();
    one(f(uniform).to_dtype(x.dtype()))
}

fn kept(c: &Call<'_>) -> Results {
    let (x, p) = (c.tensor("input")?, c.float_or("p", 0.5)?);
    if !c.bool_or("train", true)? {
        return all([x.clone(), x.eq(x)]);
    }
    let kept = x.rand_like().ge(p);
    let rate = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
    all([kept.where_cond(&(x * rate), 0.0).to_dtype(x.dtype()), kept])
}

fn normal(c: &Call<'_>) -> Results {
    let of = |name, default: f64| match c.has(name) {
        true => c.tensor_of_either(name),
        false => Ok(Tensor::scalar(default, DType::F32, c.device)),
    };
    let (mean, std) = (of("mean", 0.0)?, of("std", 1.0)?);
    let x = match c.has("size") {
        true => Tensor::randn(c.sizes("size")?, dtype(c)?, c.device),
        false => (&mean + &std).randn_like(),
    };
    let dtype = x.dtype();
    one((x * std + mean).to_dtype(dtype))
}

/// Positions drawn by weights: the greatest of weights to random powers, which is drawing without replacement, or one after
/// another.
fn positions(c: &Call<'_>) -> Results {
    let (x, n) = (c.tensor("self")?, c.size_or("num_samples", 1)?);
    let weights = x.to_dtype(x.dtype().compute());
    if !c.bool_or("replacement", false)? {
        let keys = weights.rand_like().log() / &weights;
        let keys = weights.gt(0.0).where_cond(&keys, f64::NEG_INFINITY);
        return one(keys.topk(n, -1, true).1);
    }
    let sums = weights.cumsum(-1);
    let total = sums.narrow(-1, x.dim(-1)?.saturating_sub(1) as isize, 1);
    let mut shape = x.dims().to_vec();
    let last = shape
        .last_mut()
        .ok_or_else(|| Error::shape("weights of no dimensions"))?;
    *last = n;
    let at = Tensor::rand(shape, weights.dtype(), c.device) * total;
    one(sums.searchsorted(&at, true))
}

pub(super) const TABLE: Table = &[
    ("rand", "default", |c| {
        one(Tensor::rand(c.sizes("size")?, dtype(c)?, c.device))
    }),
    ("randn", "default", |c| {
        one(Tensor::randn(c.sizes("size")?, dtype(c)?, c.device))
    }),
    ("rand_like", "default", |c| {
        let x = c.tensor("self")?;
        one(c
            .dtype("dtype")?
            .map_or(x.clone(), |dtype| x.to_dtype(dtype))
            .rand_like())
    }),
    ("randn_like", "default", |c| {
        let x = c.tensor("self")?;
        one(c
            .dtype("dtype")?
            .map_or(x.clone(), |dtype| x.to_dtype(dtype))
            .randn_like())
    }),
    ("randint", "default low", |c| {
        integers(c, c.sizes("size")?, DType::I64)
    }),
    ("randint_like", "default low_dtype", |c| {
        let x = c.tensor("self")?;
        integers(c, x.dims().to_vec(), x.dtype())
    }),
    ("randperm", "default", |c| {
        let dtype = c.dtype("dtype")?.unwrap_or(DType::I64);
        one(Tensor::randperm(c.size_or("n", 0)?, c.device).to_dtype(dtype))
    }),
    ("bernoulli", "default p Tensor float", drawn),
    ("dropout", "default", dropped),
    ("native_dropout", "default", kept),
    ("feature_dropout", "default", channels_dropped),
    ("alpha_dropout", "default", |c| dropped_to_least(c, false)),
    ("feature_alpha_dropout", "default", |c| {
        dropped_to_least(c, true)
    }),
    ("poisson", "default", |c| one(c.tensor("self")?.poisson())),
    ("binomial", "default", |c| {
        one(c.tensor("count")?.binomial(c.tensor("prob")?))
    }),
    ("_standard_gamma", "default", |c| {
        one(c.tensor("self")?.standard_gamma())
    }),
    ("log_normal", "default", |c| {
        let x = c.tensor("self")?;
        let drawn = x.randn_like() * c.float_or("std", 2.0)? + c.float_or("mean", 1.0)?;
        one(drawn.exp())
    }),
    ("cauchy", "default", |c| {
        let (median, sigma) = (c.float_or("median", 0.0)?, c.float_or("sigma", 1.0)?);
        of_uniform(c, |u| ((u - 0.5) * PI).tan() * sigma + median)
    }),
    ("geometric", "default", |c| {
        let rate = (-c.float_or("p", 0.5)?).ln_1p();
        // 1 less a number below 1 is above 0, and has a logarithm.
        of_uniform(c, |u| ((-u).log1p() / rate).ceil().clamp_min(1.0))
    }),
    (
        "normal",
        "Tensor_float float_Tensor Tensor_Tensor float_float",
        normal,
    ),
    ("normal_functional", "default", |c| {
        let x = c.tensor("self")?;
        one(x.randn_like() * c.float_or("std", 1.0)? + c.float_or("mean", 0.0)?)
    }),
    ("normal", "default", |c| {
        let x = c.tensor("self")?;
        one(x.randn_like() * c.float_or("std", 1.0)? + c.float_or("mean", 0.0)?)
    }),
    ("uniform", "default", |c| {
        let (low, high) = (c.float_or("from", 0.0)?, c.float_or("to", 1.0)?);
        one(uniform(c.tensor("self")?) * (high - low) + low)
    }),
    ("exponential", "default", |c| {
        let x = uniform(c.tensor("self")?);
        one(-(1.0 - x).log() / c.float_or("lambd", 1.0)?)
    }),
    ("multinomial", "default", positions),
];
