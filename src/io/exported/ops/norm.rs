//! Norms. Those whose operators give statistics too give them in the shapes that PyTorch does.

use super::Table;
use crate::io::exported::call::{Call, Results, Value, all, one};
use crate::{Result, Tensor};

fn layer_norm(c: &Call<'_>) -> Results {
    let (x, n) = (c.tensor("input")?, c.sizes("normalized_shape")?.len());
    let (weight, bias) = (c.tensor_opt("weight")?, c.tensor_opt("bias")?);
    one(x.layer_norm(n, weight, bias, c.float_or("eps", 1e-5)?))
}

/// Mean and 1/√(variance + eps) over the last dimensions, which stay as ones.
fn moments(x: &Tensor, dims: &[isize], eps: f64) -> (Tensor, Tensor) {
    let (var, mean) = x.to_dtype(x.dtype().compute()).var_mean_keepdim(dims, 0);
    (mean, (var + eps).rsqrt())
}

fn native_layer_norm(c: &Call<'_>) -> Results {
    let x = c.tensor("input")?;
    let dims: Vec<isize> = (1..=c.sizes("normalized_shape")?.len() as isize)
        .map(|d| -d)
        .collect();
    let (mean, rate) = moments(x, &dims, c.float_or("eps", 1e-5)?);
    let y = layer_norm(c)?;
    Ok(y.into_iter()
        .chain([Value::Tensor(mean), Value::Tensor(rate)])
        .collect())
}

fn group_norm(c: &Call<'_>, groups: &str) -> Result<Tensor> {
    let x = c.tensor("input")?;
    let (weight, bias) = (c.tensor_opt("weight")?, c.tensor_opt("bias")?);
    Ok(x.group_norm(
        c.size_or(groups, 1)?,
        weight,
        bias,
        c.float_or("eps", 1e-5)?,
    ))
}

fn native_group_norm(c: &Call<'_>) -> Results {
    let (x, groups) = (c.tensor("input")?, c.size_or("group", 1)?);
    let n = x.dim(0)?;
    let (mean, rate) = moments(
        &x.reshape([n, groups, x.numel() / (n * groups).max(1)]),
        &[-1],
        c.float_or("eps", 1e-5)?,
    );
    all([
        group_norm(c, "group")?,
        mean.reshape([n, groups]),
        rate.reshape([n, groups]),
    ])
}

fn rms_norm(c: &Call<'_>) -> Result<Tensor> {
    let (x, n) = (c.tensor("input")?, c.sizes("normalized_shape")?.len());
    let eps = c.float_or("eps", epsilon(x))?;
    Ok(x.rms_norm(n, c.tensor_opt("weight")?, eps))
}

/// The distance from 1 to the next number of a dtype.
pub(super) fn epsilon(x: &Tensor) -> f64 {
    match x.dtype().compute() {
        crate::DType::F64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    }
}

/// What a batch norm gives: the result, the mean and 1/√(variance + eps) that it was computed with, and the running
/// statistics that come of it.
struct Normed {
    y: Tensor,
    mean: Tensor,
    rate: Tensor,
    running: Option<[Tensor; 2]>,
}

fn batch_normed(c: &Call<'_>, training: bool) -> Result<Normed> {
    let x = c.tensor("input")?;
    let (weight, bias) = (c.tensor_opt("weight")?, c.tensor_opt("bias")?);
    let eps = c.float_or("eps", 1e-5)?;
    let running = match (c.tensor_opt("running_mean")?, c.tensor_opt("running_var")?) {
        (Some(mean), Some(var)) => Some([mean.clone(), var.clone()]),
        _ => None,
    };
    if x.dims() == [0] {
        let nothing = Tensor::zeros(0, x.dtype(), c.device);
        let (mean, rate) = (nothing.clone(), nothing);
        return Ok(Normed {
            y: x.clone(),
            mean,
            rate,
            running,
        });
    }
    if let (false, Some([mean, var])) = (training, &running) {
        let y = x.batch_norm(mean, var, weight, bias, eps);
        let (mean, rate) = (mean.clone(), (var + eps).rsqrt());
        return Ok(Normed {
            y,
            mean,
            rate,
            running,
        });
    }
    let (y, mean, var) = x.batch_norm_training(weight, bias, eps);
    let momentum = c.float_or("momentum", 0.1)?;
    let count = x.numel() as f64 / x.dim(1)?.max(1) as f64;
    let whole = &var * (count / (count - 1.0).max(1.0));
    let moved = |old: &Tensor, new: &Tensor| {
        (old * (1.0 - momentum) + new * momentum).to_dtype(old.dtype())
    };
    let running = running.map(|[m, v]| [moved(&m, &mean), moved(&v, &whole)]);
    let rate = (var + eps).rsqrt();
    Ok(Normed {
        y,
        mean,
        rate,
        running,
    })
}

fn and_running(results: Vec<Tensor>, running: Option<[Tensor; 2]>) -> Results {
    all(results.into_iter().chain(running.into_iter().flatten()))
}

/// As undecomposed programs have it; in training the new statistics are behind the result.
fn batch_norm(c: &Call<'_>) -> Results {
    let training = c.bool_or("training", false)?;
    let Normed { y, running, .. } = batch_normed(c, training)?;
    and_running(vec![y], running.filter(|_| training))
}

fn native_batch_norm(c: &Call<'_>, name: &str, training: bool) -> Results {
    let training = c.bool_or(name, training)?;
    let Normed {
        y,
        mean,
        rate,
        running,
    } = batch_normed(c, training)?;
    // Nothing is saved for a backward pass of fixed statistics.
    let nothing = || Tensor::zeros(0, mean.dtype(), c.device);
    let saved = if training {
        [mean.clone(), rate]
    } else {
        [nothing(), nothing()]
    };
    let [mean, rate] = saved;
    and_running(vec![y, mean, rate], running.filter(|_| training))
}

fn functional_batch_norm(c: &Call<'_>) -> Results {
    let training = c.bool_or("training", true)?;
    let Normed {
        y,
        mean,
        rate,
        running,
    } = batch_normed(c, training)?;
    and_running(vec![y, mean, rate], running)
}

fn instance_norm(c: &Call<'_>) -> Results {
    let x = c.tensor("input")?;
    let (weight, bias) = (c.tensor_opt("weight")?, c.tensor_opt("bias")?);
    let eps = c.float_or("eps", 1e-5)?;
    if !c.bool_or("use_input_stats", true)?
        && let (Some(mean), Some(var)) =
            (c.tensor_opt("running_mean")?, c.tensor_opt("running_var")?)
    {
        return one(x.batch_norm(mean, var, weight, bias, eps));
    }
    let y = x.instance_norm(weight, bias, eps);
    let (Some(mean), Some(var)) = (c.tensor_opt("running_mean")?, c.tensor_opt("running_var")?)
    else {
        return one(y);
    };
    // Statistics move by the mean of the samples' own.
    let momentum = c.float_or("momentum", 0.1)?;
    let dims: Vec<isize> = (2..x.rank() as isize).collect();
    let (own_var, own_mean) = x.to_dtype(x.dtype().compute()).var_mean(&dims[..], 1);
    let moved = |old: &Tensor, own: Tensor| {
        (old * (1.0 - momentum) + own.mean(0) * momentum).to_dtype(old.dtype())
    };
    all([y, moved(mean, own_mean), moved(var, own_var)])
}

/// Directions times lengths: rows of `v` along a dimension brought to the lengths `g`.
fn weight_norm(c: &Call<'_>) -> Result<(Tensor, Tensor)> {
    let (v, g) = (c.tensor("v")?, c.tensor("g")?);
    let dim = c.dim_or("dim", 0)?;
    let norms = match dim {
        -1 => v.norm(2.0, ..),
        dim => {
            let at = super::view::wrapped(dim, v.rank())?;
            let others: Vec<usize> = (0..v.rank()).filter(|&d| d != at).collect();
            v.norm_keepdim(2.0, &others[..])
        }
    };
    Ok((v * (g / &norms), norms))
}

fn renormed(c: &Call<'_>) -> Results {
    let (p, most) = (c.float_or("p", 2.0)?, c.float_or("maxnorm", 1.0)?);
    one(c.tensor("self")?.renorm(p, c.dim_or("dim", 0)?, most))
}

/// Batch norm in training; an empty tensor stands for what PyTorch reserves for its gradient.
fn batch_norm_with_update(c: &Call<'_>) -> Results {
    let Normed {
        y,
        mean,
        rate,
        running,
    } = batch_normed(c, true)?;
    let reserve = Tensor::zeros(0, crate::DType::U8, c.device);
    and_running(vec![y, mean, rate, reserve], running)
}

pub(super) const TABLE: Table = &[
    ("layer_norm", "default", layer_norm),
    ("native_layer_norm", "default", native_layer_norm),
    ("group_norm", "default", |c| {
        one(group_norm(c, "num_groups")?)
    }),
    ("native_group_norm", "default", native_group_norm),
    ("rms_norm", "default", |c| one(rms_norm(c)?)),
    ("_fused_rms_norm", "default", |c| {
        let x = c.tensor("input")?;
        let dims: Vec<isize> = (1..=c.sizes("normalized_shape")?.len() as isize)
            .map(|d| -d)
            .collect();
        let square = x
            .to_dtype(x.dtype().compute())
            .square()
            .mean_keepdim(&dims[..]);
        let rate = (square + c.float_or("eps", epsilon(x))?).rsqrt();
        all([rms_norm(c)?, rate])
    }),
    ("batch_norm", "default", batch_norm),
    ("native_batch_norm", "default", |c| {
        native_batch_norm(c, "training", false)
    }),
    ("_native_batch_norm_legit", "default no_stats", |c| {
        let training = !c.has("running_mean");
        native_batch_norm(c, "training", training)
    }),
    (
        "_native_batch_norm_legit_functional",
        "default",
        functional_batch_norm,
    ),
    ("_native_batch_norm_legit_no_training", "default", |c| {
        native_batch_norm(c, "", false)
    }),
    ("_batch_norm_with_update", "default", batch_norm_with_update),
    (
        "_batch_norm_with_update_functional",
        "default",
        batch_norm_with_update,
    ),
    ("_batch_norm_no_update", "default", |c| {
        let reserve = Tensor::zeros(0, crate::DType::U8, c.device);
        let y = native_batch_norm(c, "", false)?;
        Ok(y.into_iter().chain([Value::Tensor(reserve)]).collect())
    }),
    ("cudnn_batch_norm", "default", |c| {
        native_batch_norm(c, "training", false)
    }),
    ("instance_norm", "default", instance_norm),
    ("_weight_norm", "default", |c| one(weight_norm(c)?.0)),
    ("_weight_norm_interface", "default", |c| {
        let (w, norms) = weight_norm(c)?;
        all([w, norms])
    }),
    ("renorm", "default", renormed),
];
