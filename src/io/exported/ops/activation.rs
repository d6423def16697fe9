//! Activations.

use super::Table;
use crate::Error;
use crate::io::exported::call::{all, of_kind, one, wide};

pub(super) const TABLE: Table = &[
    ("gelu", "default", |c| {
        let x = c.tensor("self")?;
        one(match c.text("approximate")? {
            Some("tanh") => x.gelu_tanh(),
            _ => x.gelu(),
        })
    }),
    ("silu", "default", |c| one(c.tensor("self")?.silu())),
    ("mish", "default", |c| one(c.tensor("self")?.mish())),
    ("relu6", "default", |c| one(c.tensor("self")?.relu6())),
    ("selu", "default", |c| one(c.tensor("self")?.selu())),
    ("hardswish", "default", |c| {
        one(c.tensor("self")?.hardswish())
    }),
    ("hardsigmoid", "default", |c| {
        one(c.tensor("self")?.hardsigmoid())
    }),
    ("log_sigmoid", "default", |c| {
        one(c.tensor("self")?.logsigmoid())
    }),
    ("log_sigmoid_forward", "default", |c| {
        let x = c.tensor("self")?;
        all([x.logsigmoid(), x.zeros_like()])
    }),
    ("leaky_relu", "default", |c| {
        let slope = c.float_or("negative_slope", 0.01)?;
        one(c.tensor("self")?.leaky_relu(slope))
    }),
    ("elu", "default", |c| {
        let (alpha, scale) = (c.float_or("alpha", 1.0)?, c.float_or("scale", 1.0)?);
        let rate = c.float_or("input_scale", 1.0)?;
        let x = c.tensor("self")?;
        if scale == 1.0 && rate == 1.0 {
            return one(x.elu(alpha));
        }
        one(wide(x, |x| {
            let below = (x * rate).expm1() * (alpha * scale);
            x.gt(0).where_cond(&(x * scale), &below)
        }))
    }),
    ("celu", "default", |c| {
        one(c.tensor("self")?.celu(c.float_or("alpha", 1.0)?))
    }),
    ("hardtanh", "default", |c| {
        let x = c.tensor("self")?;
        let end = |name, default| Ok::<_, Error>(of_kind(c.scalar_or(name, default)?, x.dtype()));
        one(x.clamp(end("min_val", -1)?, end("max_val", 1)?))
    }),
    ("softplus", "default", |c| {
        let (beta, threshold) = (c.float_or("beta", 1.0)?, c.float_or("threshold", 20.0)?);
        let x = c.tensor("self")?;
        if beta == 1.0 && threshold == 20.0 {
            return one(x.softplus());
        }
        one(wide(x, |x| {
            let scaled = x * beta;
            // Beyond the threshold the exponential may overflow, and is not read.
            let soft = scaled.clamp_max(threshold).exp().log1p() / beta;
            scaled.gt(threshold).where_cond(x, &soft)
        }))
    }),
    ("threshold", "default", |c| {
        let (threshold, value) = (c.scalar_or("threshold", 0)?, c.scalar_or("value", 0)?);
        one(c.tensor("self")?.threshold(threshold, value))
    }),
    ("softshrink", "default", |c| {
        one(c.tensor("self")?.softshrink(c.float_or("lambd", 0.5)?))
    }),
    ("hardshrink", "default", |c| {
        one(c.tensor("self")?.hardshrink(c.float_or("lambd", 0.5)?))
    }),
    ("prelu", "default", |c| {
        one(c.tensor("self")?.prelu(c.tensor("weight")?))
    }),
    ("_prelu_kernel", "default", |c| {
        let (x, weight) = (c.tensor("self")?, c.tensor("weight")?);
        one(x.gt(0).where_cond(x, &(x * weight)))
    }),
    ("rrelu", "default", |c| {
        let (low, high) = (c.float_or("lower", 0.125)?, c.float_or("upper", 1.0 / 3.0)?);
        let x = c.tensor("self")?;
        if c.bool_or("training", false)? {
            let slope = x.rand_like() * (high - low) + low;
            return one(x.ge(0).where_cond(x, &(x * slope)));
        }
        one(x.leaky_relu((low + high) / 2.0))
    }),
    ("rrelu_with_noise_functional", "default", |c| {
        let (low, high) = (c.float_or("lower", 0.125)?, c.float_or("upper", 1.0 / 3.0)?);
        let (x, noise) = (c.tensor("self")?, c.tensor("noise")?);
        if c.bool_or("training", false)? {
            let slope = x.rand_like() * (high - low) + low;
            let noise = x.ge(0).where_cond(1.0, &slope);
            return all([x * &noise, noise]);
        }
        all([x.leaky_relu((low + high) / 2.0), noise.clone()])
    }),
    ("glu", "default", |c| {
        one(c.tensor("self")?.glu(c.dim_or("dim", -1)?))
    }),
    ("softmax", "int", |c| {
        let x = c.tensor("self")?;
        let x = c
            .dtype("dtype")?
            .map_or(x.clone(), |dtype| x.to_dtype(dtype));
        one(x.softmax(c.dim_or("dim", -1)?))
    }),
    ("special_softmax", "int", |c| {
        let x = c.tensor("self")?;
        let x = c
            .dtype("dtype")?
            .map_or(x.clone(), |dtype| x.to_dtype(dtype));
        one(x.softmax(c.dim_or("dim", -1)?))
    }),
    ("_softmax", "default", |c| {
        one(c.tensor("self")?.softmax(c.dim_or("dim", -1)?))
    }),
    ("_safe_softmax", "default", |c| {
        let (x, dim) = (c.tensor("self")?, c.dim_or("dim", -1)?);
        let hidden = x.eq(f64::NEG_INFINITY).all_keepdim(dim);
        one(hidden.where_cond(0.0, &x.softmax(dim)))
    }),
    ("log_softmax", "int", |c| {
        let x = c.tensor("self")?;
        let x = c
            .dtype("dtype")?
            .map_or(x.clone(), |dtype| x.to_dtype(dtype));
        one(x.log_softmax(c.dim_or("dim", -1)?))
    }),
    ("_log_softmax", "default", |c| {
        one(c.tensor("self")?.log_softmax(c.dim_or("dim", -1)?))
    }),
];
