//! Composite operators read from their names and attributes.

use super::Attributes;
use ferrotrace_kernels::{Composite, Loss as Kind, Op, Reduction};
use ferrotrace_runtime::{Error, Result};

impl Attributes<'_> {
    /// The composite operator of a name.
    pub(super) fn composite(&self, name: &str) -> Result<Composite> {
        use Composite::*;
        let over = || Ok::<_, Error>((self.mask("dims")?, self.flag("keepdim")?));
        let affine = || Ok::<_, Error>((self.flag("weight")?, self.flag("bias")?));
        Ok(match name {
            "dropout" => Dropout {
                p: self.float("p")?,
            },
            "softmax" => Softmax {
                dim: self.int("dim")?,
            },
            "log_softmax" => LogSoftmax {
                dim: self.int("dim")?,
            },
            "logsumexp" => {
                let (mask, keepdim) = over()?;
                LogSumExp { mask, keepdim }
            }
            "count_nonzero" => {
                let (mask, keepdim) = over()?;
                CountNonzero { mask, keepdim }
            }
            "var" | "std" => {
                let (mask, keepdim) = over()?;
                Var {
                    mask,
                    keepdim,
                    correction: self.int("correction")?,
                    root: name == "std",
                }
            }
            "norm" => {
                let (mask, keepdim) = over()?;
                Norm {
                    p: self.float("p")?,
                    mask,
                    keepdim,
                }
            }
            "layer_norm" => {
                let (weight, bias) = affine()?;
                LayerNorm {
                    n: self.int("n")?,
                    weight,
                    bias,
                }
            }
            "rms_norm" => RmsNorm {
                n: self.int("n")?,
                weight: self.flag("weight")?,
            },
            "group_norm" => {
                let (weight, bias) = affine()?;
                GroupNorm {
                    groups: self.int("groups")?,
                    weight,
                    bias,
                }
            }
            "batch_norm" => {
                let (weight, bias) = affine()?;
                BatchNorm { weight, bias }
            }
            "linear" => Linear {
                bias: self.flag("bias")?,
            },
            "einsum" => Einsum {
                equation: self.text("equation")?.into(),
            },
            "scaled_dot_product_attention" => {
                let (mask, causal) = (self.flag("mask")?, self.flag("causal")?);
                Attention {
                    mask,
                    causal,
                    scale: self.float("scale")?,
                }
            }
            "tril" | "triu" => Triangle {
                k: self.int("k")?,
                upper: name == "triu",
            },
            "roll" => Roll {
                shift: self.int("shift")?,
                dim: self.int("dim")?,
            },
            "one_hot" => OneHot { n: self.int("n")? },
            _ => {
                let named = |c: &Composite| Op::Composite(c.clone()).name() == name;
                let losses = LOSSES.map(|loss| Loss(loss, Reduction::Mean));
                match PLAIN.iter().chain(&losses).find(|c| named(c)) {
                    Some(Loss(loss, _)) => Loss(*loss, self.reduction()?),
                    Some(plain) => plain.clone(),
                    None => {
                        let why = format!("there is no operator {name:?}");
                        return Err(Error::argument(why));
                    }
                }
            }
        })
    }

    /// What a loss is reduced to: the mean where that is not said.
    fn reduction(&self) -> Result<Reduction> {
        let Ok(word) = self.text("reduction") else {
            return Ok(Reduction::Mean);
        };
        let found = REDUCTIONS.iter().find(|(name, _)| *name == word);
        let why = || Error::argument(format!("there is no reduction {word:?}"));
        found.map(|(_, reduction)| *reduction).ok_or_else(why)
    }
}

/// Composites without attributes.
const PLAIN: [Composite; 21] = {
    use Composite::*;
    [
        Gelu,
        GeluTanh,
        Silu,
        Mish,
        Softplus,
        Softsign,
        Hardtanh,
        Hardswish,
        Hardsigmoid,
        LogSigmoid,
        Relu6,
        LeakyRelu,
        Elu,
        Selu,
        Celu,
        Frac,
        Clamp,
        Lerp,
        Addcmul,
        Addcdiv,
        NanToNum,
    ]
};

const LOSSES: [Kind; 6] = {
    use Kind::*;
    [Mse, SmoothL1, KlDiv, Nll, CrossEntropy, BceWithLogits]
};

/// What a loss is reduced to, by name.
pub(super) const REDUCTIONS: [(&str, Reduction); 3] = [
    ("mean", Reduction::Mean),
    ("sum", Reduction::Sum),
    ("none", Reduction::None),
];
