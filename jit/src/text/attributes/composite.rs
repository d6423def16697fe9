//! Composite operators read from their names and attributes.

use super::Attributes;
use ferrotrace_kernels::{Composite, Op};
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
                let found = PLAIN
                    .iter()
                    .find(|c| Op::Composite((*c).clone()).name() == name);
                found
                    .cloned()
                    .ok_or_else(|| Error::argument(format!("there is no operator {name:?}")))?
            }
        })
    }
}

/// Composites without attributes.
const PLAIN: [Composite; 27] = {
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
        MseLoss,
        SmoothL1Loss,
        KlDiv,
        NllLoss,
        CrossEntropy,
        BceWithLogits,
    ]
};
