//! Losses, reduced as PyTorch numbers it: not at all, to the mean, to the sum.

use super::Table;
use crate::io::exported::call::{Call, Results, all, one};
use crate::{DType, Reduction, Result, Tensor};

fn reduced(c: &Call<'_>, loss: Tensor) -> Results {
    one(match c.int_or("reduction", 1)? {
        0 => loss,
        1 => loss.mean(..),
        _ => loss.sum(..),
    })
}

/// The loss of log-probabilities, and the weight that its mean is over.
fn likelihood(c: &Call<'_>, logs: &Tensor) -> Result<(Tensor, Tensor)> {
    let target = c.tensor("target")?;
    let ignored = c.int_or("ignore_index", -100)?;
    let dim = isize::from(logs.rank() > 1);
    let kept = target.ne(ignored);
    let at = kept.where_cond(target, 0).to_dtype(DType::I64);
    let picked = logs.gather(dim, &at.unsqueeze(dim)).squeeze(dim);
    let weights = match c.tensor_opt("weight")? {
        Some(weight) => weight.index_select(0, &at.reshape([-1])).reshape(at.dims()),
        None => picked.ones_like(),
    };
    let weights = kept.where_cond(&weights, 0.0).to_dtype(logs.dtype());
    let loss = match c.int_or("reduction", 1)? {
        0 => -(picked * &weights),
        1 => -(picked * &weights).sum(..) / weights.sum(..),
        _ => -(picked * &weights).sum(..),
    };
    Ok((loss, weights.sum(..)))
}

fn cross_entropy(c: &Call<'_>) -> Results {
    let (x, target) = (c.tensor("self")?, c.tensor("target")?);
    let dim = isize::from(x.rank() > 1);
    let logs = x.log_softmax(dim);
    let smoothing = c.float_or("label_smoothing", 0.0)?;
    let classes = x.dim(dim)? as f64;
    if target.dtype().is_float() {
        let target = target * (1.0 - smoothing) + smoothing / classes;
        let mut loss = logs * target;
        if let Some(weight) = c.tensor_opt("weight")? {
            let mut shape = vec![1i64; x.rank()];
            shape[dim as usize] = -1;
            loss *= weight.reshape(shape);
        }
        let loss = -loss.sum(dim);
        let count = loss.numel().max(1) as f64;
        return one(match c.int_or("reduction", 1)? {
            0 => loss,
            1 => loss.sum(..) / count,
            _ => loss.sum(..),
        });
    }
    let (hard, _) = likelihood(c, &logs)?;
    if smoothing == 0.0 {
        return one(hard);
    }
    let ignored = c.int_or("ignore_index", -100)?;
    let kept = target.ne(ignored);
    let weighted = match c.tensor_opt("weight")? {
        Some(weight) => {
            let mut shape = vec![1i64; x.rank()];
            shape[dim as usize] = -1;
            &logs * weight.reshape(shape)
        }
        None => logs.clone(),
    };
    let smooth = kept.where_cond(&-weighted.sum(dim), 0.0);
    let smooth = match c.int_or("reduction", 1)? {
        0 => smooth,
        1 => {
            let count = match c.tensor_opt("weight")? {
                Some(weight) => {
                    let at = kept.where_cond(target, 0).to_dtype(DType::I64);
                    let weights = weight.index_select(0, &at.reshape([-1])).reshape(at.dims());
                    kept.where_cond(&weights, 0.0).sum(..)
                }
                None => kept.sum(..).to_dtype(x.dtype()),
            };
            smooth.sum(..) / count
        }
        _ => smooth.sum(..),
    };
    one(hard * (1.0 - smoothing) + smooth * (smoothing / classes))
}

fn entropy_of_logits(c: &Call<'_>) -> Results {
    let (x, target) = (c.tensor("self")?, c.tensor("target")?);
    let mut loss = match c.tensor_opt("pos_weight")? {
        Some(weight) => {
            let rate = (weight - 1.0) * target + 1.0;
            (1.0 - target) * x - rate * x.logsigmoid()
        }
        None => (1.0 - target) * x - x.logsigmoid(),
    };
    if let Some(weight) = c.tensor_opt("weight")? {
        loss *= weight;
    }
    reduced(c, loss)
}

fn entropy(c: &Call<'_>) -> Results {
    let (x, target) = (c.tensor("self")?, c.tensor("target")?);
    let mut loss = x.binary_cross_entropy_reduced(target, Reduction::None);
    if let Some(weight) = c.tensor_opt("weight")? {
        loss *= weight;
    }
    reduced(c, loss)
}

fn divergence(c: &Call<'_>) -> Results {
    let (x, target) = (c.tensor("self")?, c.tensor("target")?);
    let loss = match c.bool_or("log_target", false)? {
        true => target.exp() * (target - x),
        false => target.xlogy(target) - target * x,
    };
    reduced(c, loss.to_dtype(x.dtype()))
}

fn apart(c: &Call<'_>) -> Result<Tensor> {
    Ok(c.tensor("self")? - c.tensor("target")?)
}

pub(super) const TABLE: Table = &[
    ("mse_loss", "default", |c| reduced(c, apart(c)?.square())),
    ("l1_loss", "default", |c| reduced(c, apart(c)?.abs())),
    ("smooth_l1_loss", "default", |c| {
        let (beta, by) = (c.float_or("beta", 1.0)?, apart(c)?.abs());
        let near = by.square() * (0.5 / beta.max(f64::MIN_POSITIVE));
        let loss = by.lt(beta).where_cond(&near, &(&by - 0.5 * beta));
        reduced(c, loss)
    }),
    ("huber_loss", "default", |c| {
        let (delta, by) = (c.float_or("delta", 1.0)?, apart(c)?.abs());
        let loss = by
            .le(delta)
            .where_cond(&(by.square() * 0.5), &((&by - 0.5 * delta) * delta));
        reduced(c, loss)
    }),
    ("nll_loss", "default", |c| {
        one(likelihood(c, c.tensor("self")?)?.0)
    }),
    ("nll_loss_nd", "default", |c| {
        one(likelihood(c, c.tensor("self")?)?.0)
    }),
    ("nll_loss2d", "default", |c| {
        one(likelihood(c, c.tensor("self")?)?.0)
    }),
    ("nll_loss_forward", "default", |c| {
        let (loss, weight) = likelihood(c, c.tensor("self")?)?;
        all([loss, weight])
    }),
    ("nll_loss2d_forward", "default", |c| {
        let (loss, weight) = likelihood(c, c.tensor("self")?)?;
        all([loss, weight])
    }),
    ("cross_entropy_loss", "default", cross_entropy),
    ("binary_cross_entropy", "default", entropy),
    (
        "binary_cross_entropy_with_logits",
        "default",
        entropy_of_logits,
    ),
    ("kl_div", "default", divergence),
    ("cosine_embedding_loss", "default", |c| {
        let (a, b, target) = (
            c.tensor("input1")?,
            c.tensor("input2")?,
            c.tensor("target")?,
        );
        let margin = c.float_or("margin", 0.0)?;
        reduced(
            c,
            a.cosine_embedding_loss_reduced(b, target, margin, Reduction::None),
        )
    }),
    ("soft_margin_loss", "default", |c| {
        let (x, target) = (c.tensor("self")?, c.tensor("target")?);
        reduced(c, x.soft_margin_loss_reduced(target, Reduction::None))
    }),
    ("margin_ranking_loss", "default", |c| {
        let (a, b, target) = (
            c.tensor("input1")?,
            c.tensor("input2")?,
            c.tensor("target")?,
        );
        let margin = c.float_or("margin", 0.0)?;
        reduced(
            c,
            a.margin_ranking_loss_reduced(b, target, margin, Reduction::None),
        )
    }),
    ("triplet_margin_loss", "default", |c| {
        let (a, b, d) = (
            c.tensor("anchor")?,
            c.tensor("positive")?,
            c.tensor("negative")?,
        );
        let (p, eps) = (c.float_or("p", 2.0)?, c.float_or("eps", 1e-6)?);
        let far = |x: &Tensor, y: &Tensor| (x - y + eps).norm(p, -1);
        let mut other = far(a, d);
        if c.bool_or("swap", false)? {
            other = other.minimum(&far(b, d));
        }
        let loss = (far(a, b) - other + c.float_or("margin", 1.0)?).clamp_min(0.0);
        reduced(c, loss)
    }),
    ("hinge_embedding_loss", "default", |c| {
        let (x, target) = (c.tensor("self")?, c.tensor("target")?);
        let margin = c.float_or("margin", 1.0)?;
        reduced(
            c,
            x.hinge_embedding_loss_reduced(target, margin, Reduction::None),
        )
    }),
    ("multi_margin_loss", "default", |c| {
        let (x, target) = (c.tensor("self")?, c.tensor("target")?);
        let target = target.reshape([-1, 1]);
        let rows = x.reshape([target.numel() as i64, -1]);
        let own = rows.gather(1, &target);
        let mut loss = (c.float_or("margin", 1.0)? - own + &rows).clamp_min(0.0);
        loss = loss.pow(c.float_or("p", 1.0)?);
        if let Some(weight) = c.tensor_opt("weight")? {
            loss *= weight.index_select(0, &target.reshape([-1])).unsqueeze(1);
        }
        let classes = Tensor::arange(0, rows.dim(1)?, 1, DType::I64, c.device);
        let loss = classes.eq(&target).where_cond(0.0, &loss).mean(1);
        reduced(c, if x.rank() < 2 { loss.reshape(()) } else { loss })
    }),
    ("multilabel_margin_loss", "default", |c| {
        // One score is a row of one class.
        let row = |x: &Tensor| {
            if x.rank() == 0 {
                x.reshape(1)
            } else {
                x.clone()
            }
        };
        let (x, target) = (&row(c.tensor("self")?), &row(c.tensor("target")?));
        reduced(c, x.multilabel_margin_loss_reduced(target, Reduction::None))
    }),
    ("poisson_nll_loss", "default", |c| {
        let (x, target) = (c.tensor("input")?, c.tensor("target")?);
        let mut loss = match c.bool_or("log_input", true)? {
            true => x.poisson_nll_loss_reduced(target, Reduction::None),
            false => x - target * (x + c.float_or("eps", 1e-8)?).log(),
        };
        if c.bool_or("full", false)? {
            let log = target * target.log() - target
                + (target * (2.0 * std::f64::consts::PI)).log() * 0.5;
            loss += target.gt(1.0).where_cond(&log, 0.0);
        }
        reduced(c, loss)
    }),
];
