//! Operators' attributes by name.

use ferrotrace_kernels::{
    BinaryOp, Composite, ConvSpec, Correlation, Distribution, Extent, Op, PoolKind, PoolSpec,
    ReduceKind, ScanKind, ScatterMode, UnaryOp,
};
use ferrotrace_runtime::{ConvolutionPart, DType, Error, Result, Shape};
use smallvec::SmallVec;
use std::fmt;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Attribute {
    Bool(bool),
    Int(i64),
    Float(f64),
    Word(String),
    List(Vec<Attribute>),
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attribute::Bool(b) => write!(f, "{b}"),
            Attribute::Int(i) => write!(f, "{i}"),
            Attribute::Float(x) => write!(f, "{x:?}"),
            Attribute::Word(w) => write!(f, "{w:?}"),
            Attribute::List(list) => {
                let each: Vec<String> = list.iter().map(Attribute::to_string).collect();
                write!(f, "[{}]", each.join(", "))
            }
        }
    }
}

fn int<T: TryInto<i64>>(n: T) -> Attribute {
    // Attributes come from shapes and slices, which fit 64 bits.
    Attribute::Int(n.try_into().unwrap_or(i64::MAX))
}

fn ints<T: Copy + TryInto<i64>>(list: &[T]) -> Attribute {
    Attribute::List(list.iter().map(|&n| int(n)).collect())
}

fn bits(mask: u64) -> Attribute {
    Attribute::List((0..64u8).filter(|d| mask >> d & 1 == 1).map(int).collect())
}

fn extents(list: &[Extent]) -> Attribute {
    let each = |e: &Extent| {
        if let Extent::Size(n) = e {
            int(*n)
        } else {
            int(-1)
        }
    };
    Attribute::List(list.iter().map(each).collect())
}

fn word(name: &str) -> Attribute {
    Attribute::Word(name.to_owned())
}

const SCATTERS: [(&str, ScatterMode); 6] = [
    ("assign", ScatterMode::Assign),
    ("sum", ScatterMode::Sum),
    ("prod", ScatterMode::Prod),
    ("amax", ScatterMode::Amax),
    ("amin", ScatterMode::Amin),
    ("mean", ScatterMode::Mean),
];

/// What an operator's name, operands and result do not say.
pub(super) fn of(op: &Op) -> Vec<(&'static str, Attribute)> {
    use Attribute::Bool;
    match op {
        Op::Iota { dim, .. } | Op::Unsqueeze { dim } | Op::Cat { dim } | Op::Gather { dim } => {
            vec![("dim", int(*dim))]
        }
        Op::Reshape(to) | Op::Expand(to) => vec![("to", extents(to))],
        Op::Permute(order) => vec![("order", ints(order))],
        Op::Squeeze { mask } | Op::Flip { mask } => vec![("dims", bits(*mask))],
        Op::Flatten { start, end } => vec![("start", int(*start)), ("end", int(*end))],
        Op::Slice {
            dim,
            start,
            end,
            step,
        }
        | Op::SliceAssign {
            dim,
            start,
            end,
            step,
        } => {
            vec![
                ("dim", int(*dim)),
                ("start", int(*start)),
                ("end", int(*end)),
                ("step", int(*step)),
            ]
        }
        Op::Narrow { dim, start, len } => vec![
            ("dim", int(*dim)),
            ("start", int(*start)),
            ("len", int(*len)),
        ],
        Op::Select { dim, index } => vec![("dim", int(*dim)), ("index", int(*index))],
        Op::Diagonal { offset, a, b } => {
            vec![("offset", int(*offset)), ("a", int(*a)), ("b", int(*b))]
        }
        Op::Unfold { dim, size, step } => vec![
            ("dim", int(*dim)),
            ("size", int(*size)),
            ("step", int(*step)),
        ],
        Op::Repeat(counts) => vec![("counts", ints(counts))],
        Op::Pad(pads) => {
            let each = |&(a, b): &(isize, isize)| Attribute::List(vec![int(a), int(b)]);
            vec![("pads", Attribute::List(pads.iter().map(each).collect()))]
        }
        Op::Reduce { mask, keepdim, .. } => {
            vec![("dims", bits(*mask)), ("keepdim", Bool(*keepdim))]
        }
        Op::Scan { kind, dim } => {
            let indices = matches!(kind, ScanKind::ArgMax | ScanKind::ArgMin);
            let mut list = vec![("dim", int(*dim))];
            list.extend(indices.then_some(("indices", Bool(true))));
            list
        }
        Op::Sort { dim, descending } | Op::ArgSort { dim, descending } => {
            vec![("dim", int(*dim)), ("descending", Bool(*descending))]
        }
        Op::ArgTopK { k, dim, largest } => vec![
            ("k", int(*k)),
            ("dim", int(*dim)),
            ("largest", Bool(*largest)),
        ],
        Op::Index { axes, at } => vec![("axes", ints(axes)), ("at", int(*at))],
        Op::IndexPut {
            axes,
            at,
            accumulate,
        } => {
            vec![
                ("axes", ints(axes)),
                ("at", int(*at)),
                ("accumulate", Bool(*accumulate)),
            ]
        }
        Op::Scatter {
            dim,
            mode,
            include_self,
        } => {
            let name = SCATTERS.iter().find(|s| s.1 == *mode).map_or("", |s| s.0);
            vec![
                ("dim", int(*dim)),
                ("mode", word(name)),
                ("include_self", Bool(*include_self)),
            ]
        }
        Op::Conv(spec) => conv(spec),
        Op::Correlate(op) => vec![
            ("part", word(part_name(op.part))),
            ("channels_last", Bool(op.channels_last)),
            ("stride", ints(&op.stride)),
            ("padding", ints(&op.padding)),
            ("dilation", ints(&op.dilation)),
        ],
        Op::Pool(spec) => {
            vec![
                ("kernel", ints(&spec.kernel)),
                ("stride", ints(&spec.stride)),
                ("padding", ints(&spec.padding)),
            ]
        }
        Op::AdaptiveAvgPool { size } => vec![("size", ints(size))],
        Op::Interpolate {
            size,
            order,
            align_corners,
        } => {
            vec![
                ("size", ints(size)),
                ("order", int(*order)),
                ("align_corners", Bool(*align_corners)),
            ]
        }
        Op::Composite(composite) => of_composite(composite),
        Op::Full { .. } | Op::Arange { .. } | Op::Random { .. } | Op::Unary(_) | Op::Binary(_) => {
            Vec::new()
        }
        Op::Where | Op::Cast(_) | Op::Barrier | Op::Matmul => Vec::new(),
    }
}

const PARTS: [(&str, ConvolutionPart); 3] = [
    ("result", ConvolutionPart::Result),
    ("input", ConvolutionPart::Input),
    ("weight", ConvolutionPart::Weight),
];

fn part_name(part: ConvolutionPart) -> &'static str {
    let of = PARTS.iter().find(|(_, known)| *known == part);
    of.map_or("", |(name, _)| name)
}

fn conv(spec: &ConvSpec) -> Vec<(&'static str, Attribute)> {
    vec![
        ("stride", ints(&spec.stride)),
        ("padding", ints(&spec.padding)),
        ("dilation", ints(&spec.dilation)),
        ("output_padding", ints(&spec.output_padding)),
        ("groups", int(spec.groups)),
    ]
}

fn of_composite(op: &Composite) -> Vec<(&'static str, Attribute)> {
    use Attribute::{Bool, Float};
    let over = |mask: u64, keepdim: bool| vec![("dims", bits(mask)), ("keepdim", Bool(keepdim))];
    match op {
        Composite::Dropout { p } => vec![("p", Float(f64::from_bits(*p)))],
        Composite::Softmax { dim } | Composite::LogSoftmax { dim } => vec![("dim", int(*dim))],
        Composite::LogSumExp { mask, keepdim } | Composite::CountNonzero { mask, keepdim } => {
            over(*mask, *keepdim)
        }
        Composite::Var {
            mask,
            keepdim,
            correction,
            ..
        } => {
            let mut list = over(*mask, *keepdim);
            list.push(("correction", int(*correction)));
            list
        }
        Composite::Norm { p, mask, keepdim } => {
            let mut list = over(*mask, *keepdim);
            list.push(("p", Float(f64::from_bits(*p))));
            list
        }
        Composite::LayerNorm { n, weight, bias } => {
            vec![
                ("n", int(*n)),
                ("weight", Bool(*weight)),
                ("bias", Bool(*bias)),
            ]
        }
        Composite::RmsNorm { n, weight } => vec![("n", int(*n)), ("weight", Bool(*weight))],
        Composite::GroupNorm {
            groups,
            weight,
            bias,
        } => {
            vec![
                ("groups", int(*groups)),
                ("weight", Bool(*weight)),
                ("bias", Bool(*bias)),
            ]
        }
        Composite::BatchNorm { weight, bias } => {
            vec![("weight", Bool(*weight)), ("bias", Bool(*bias))]
        }
        Composite::Linear { bias } => vec![("bias", Bool(*bias))],
        Composite::ConvBias(spec) => {
            let mut list = conv(spec);
            list.push(("bias", Bool(true)));
            list
        }
        Composite::Einsum { equation } => vec![("equation", word(equation))],
        Composite::Attention {
            mask,
            causal,
            scale,
        } => {
            vec![
                ("mask", Bool(*mask)),
                ("causal", Bool(*causal)),
                ("scale", Float(f64::from_bits(*scale))),
            ]
        }
        Composite::Triangle { k, .. } => vec![("k", int(*k))],
        Composite::Roll { shift, dim } => vec![("shift", int(*shift)), ("dim", int(*dim))],
        Composite::OneHot { n } => vec![("n", int(*n))],
        _ => Vec::new(),
    }
}

/// The attributes read from a line, and the result it declares.
pub(super) struct Attributes<'a> {
    list: Vec<(String, Attribute)>,
    shape: &'a Shape,
    dtype: DType,
}

impl<'a> Attributes<'a> {
    pub fn new(list: Vec<(String, Attribute)>, shape: &'a Shape, dtype: DType) -> Attributes<'a> {
        Attributes { list, shape, dtype }
    }

    fn get(&self, name: &str) -> Result<&Attribute> {
        let found = self.list.iter().find(|(n, _)| n == name).map(|(_, a)| a);
        found.ok_or_else(|| Error::argument(format!("the attribute {name} is missing")))
    }

    fn int<T: TryFrom<i64>>(&self, name: &str) -> Result<T> {
        one(self.get(name)?)
            .ok_or_else(|| Error::argument(format!("{name} must be an integer of its range")))
    }

    fn list<T, C: FromIterator<T>>(
        &self,
        name: &str,
        each: impl Fn(&Attribute) -> Option<T>,
    ) -> Result<C> {
        let bad = || Error::argument(format!("{name} must be a list of integers"));
        match self.get(name)? {
            Attribute::List(list) => list.iter().map(each).collect::<Option<C>>().ok_or_else(bad),
            _ => Err(bad()),
        }
    }

    fn mask(&self, name: &str) -> Result<u64> {
        let dims: Vec<u32> = self.list(name, one)?;
        dims.iter()
            .try_fold(0, |mask, &d| match 1u64.checked_shl(d) {
                Some(bit) => Ok(mask | bit),
                None => Err(Error::argument(format!("{d} is no dimension"))),
            })
    }

    fn flag(&self, name: &str) -> Result<bool> {
        match self.get(name)? {
            Attribute::Bool(b) => Ok(*b),
            _ => Err(Error::argument(format!("{name} must be true or false"))),
        }
    }

    fn float(&self, name: &str) -> Result<u64> {
        match self.get(name)? {
            Attribute::Float(x) => Ok(x.to_bits()),
            Attribute::Int(i) => Ok((*i as f64).to_bits()),
            Attribute::Word(w) if w == "NaN" => Ok(f64::NAN.to_bits()),
            _ => Err(Error::argument(format!("{name} must be a number"))),
        }
    }

    fn text(&self, name: &str) -> Result<&str> {
        match self.get(name)? {
            Attribute::Word(w) => Ok(w),
            _ => Err(Error::argument(format!("{name} must be a word"))),
        }
    }

    fn extents(&self) -> Result<SmallVec<[Extent; 4]>> {
        self.list("to", |a| match one::<i64>(a)? {
            -1 => Some(Extent::Auto),
            n => usize::try_from(n).ok().map(Extent::Size),
        })
    }

    fn conv(&self, transposed: bool) -> Result<Box<ConvSpec>> {
        Ok(Box::new(ConvSpec {
            stride: self.list("stride", one)?,
            padding: self.list("padding", one)?,
            dilation: self.list("dilation", one)?,
            output_padding: self.list("output_padding", one)?,
            groups: self.int("groups")?,
            transposed,
        }))
    }

    /// The operator of a name.
    ///
    /// # Errors
    /// There is none, or an attribute is missing or of the wrong kind.
    pub fn operator(&self, name: &str) -> Result<Op> {
        if let Some(op) = UnaryOp::from_name(name) {
            return Ok(Op::Unary(op));
        }
        if let Some(op) = BinaryOp::from_name(name) {
            return Ok(Op::Binary(op));
        }
        let (shape, dtype) = (self.shape.clone(), self.dtype);
        let reduce = |kind| {
            Ok(Op::Reduce {
                kind,
                mask: self.mask("dims")?,
                keepdim: self.flag("keepdim")?,
            })
        };
        let scan = |kind| {
            Ok(Op::Scan {
                kind,
                dim: self.int("dim")?,
            })
        };
        let random = |dist| {
            Ok(Op::Random {
                dist,
                shape: shape.clone(),
                dtype,
            })
        };
        let pool = |kind| -> Result<Op> {
            let (kernel, stride) = (self.list("kernel", one)?, self.list("stride", one)?);
            Ok(Op::Pool(Box::new(PoolSpec {
                kind,
                kernel,
                stride,
                padding: self.list("padding", one)?,
            })))
        };
        let has = |name: &str| self.list.iter().any(|(n, _)| n == name);
        Ok(match name {
            "full" => Op::Full { shape, dtype },
            "arange" => Op::Arange {
                len: shape.numel(),
                dtype,
            },
            "iota" => Op::Iota {
                shape,
                dim: self.int("dim")?,
            },
            "rand" => return random(Distribution::Uniform),
            "randn" => return random(Distribution::Normal),
            "randint" => return random(Distribution::Int),
            "bernoulli" => return random(Distribution::Bernoulli),
            "random_bits" => return random(Distribution::Bits),
            "where_cond" => Op::Where,
            "to_dtype" => Op::Cast(dtype),
            "reshape" => Op::Reshape(self.extents()?),
            "expand" => Op::Expand(self.extents()?),
            "permute" => Op::Permute(self.list("order", one)?),
            "squeeze" => Op::Squeeze {
                mask: self.mask("dims")?,
            },
            "unsqueeze" => Op::Unsqueeze {
                dim: self.int("dim")?,
            },
            "flatten" => Op::Flatten {
                start: self.int("start")?,
                end: self.int("end")?,
            },
            "slice" | "slice_assign" => {
                let (dim, start, end) = (self.int("dim")?, self.int("start")?, self.int("end")?);
                let step = self.int("step")?;
                if name == "slice" {
                    Op::Slice {
                        dim,
                        start,
                        end,
                        step,
                    }
                } else {
                    Op::SliceAssign {
                        dim,
                        start,
                        end,
                        step,
                    }
                }
            }
            "narrow" => Op::Narrow {
                dim: self.int("dim")?,
                start: self.int("start")?,
                len: self.int("len")?,
            },
            "select" => Op::Select {
                dim: self.int("dim")?,
                index: self.int("index")?,
            },
            "barrier" => Op::Barrier,
            "flip" => Op::Flip {
                mask: self.mask("dims")?,
            },
            "diagonal" => Op::Diagonal {
                offset: self.int("offset")?,
                a: self.int("a")?,
                b: self.int("b")?,
            },
            "unfold" => Op::Unfold {
                dim: self.int("dim")?,
                size: self.int("size")?,
                step: self.int("step")?,
            },
            "repeat" => Op::Repeat(self.list("counts", one)?),
            "pad" => Op::Pad(self.list("pads", |a| match a {
                Attribute::List(pair) => match pair.as_slice() {
                    [a, b] => Some((one(a)?, one(b)?)),
                    _ => None,
                },
                _ => None,
            })?),
            "cat" => Op::Cat {
                dim: self.int("dim")?,
            },
            "sum" => return reduce(ReduceKind::Sum),
            "prod" => return reduce(ReduceKind::Prod),
            "mean" => return reduce(ReduceKind::Mean),
            "max" => return reduce(ReduceKind::Max),
            "min" => return reduce(ReduceKind::Min),
            "any" => return reduce(ReduceKind::Any),
            "all" => return reduce(ReduceKind::All),
            "argmax" => return reduce(ReduceKind::ArgMax),
            "argmin" => return reduce(ReduceKind::ArgMin),
            "cumsum" => return scan(ScanKind::Sum),
            "cumprod" => return scan(ScanKind::Prod),
            "logcumsumexp" => return scan(ScanKind::LogSumExp),
            "cummax" => {
                return scan(if has("indices") {
                    ScanKind::ArgMax
                } else {
                    ScanKind::Max
                });
            }
            "cummin" => {
                return scan(if has("indices") {
                    ScanKind::ArgMin
                } else {
                    ScanKind::Min
                });
            }
            "sort" => Op::Sort {
                dim: self.int("dim")?,
                descending: self.flag("descending")?,
            },
            "argsort" => Op::ArgSort {
                dim: self.int("dim")?,
                descending: self.flag("descending")?,
            },
            "topk" => Op::ArgTopK {
                k: self.int("k")?,
                dim: self.int("dim")?,
                largest: self.flag("largest")?,
            },
            "gather" => Op::Gather {
                dim: self.int("dim")?,
            },
            "index" => Op::Index {
                axes: self.list("axes", one)?,
                at: self.int("at")?,
            },
            "index_put" => {
                let (axes, at) = (self.list("axes", one)?, self.int("at")?);
                Op::IndexPut {
                    axes,
                    at,
                    accumulate: self.flag("accumulate")?,
                }
            }
            "scatter" => {
                let mode = self.text("mode")?;
                let mode = SCATTERS.iter().find(|s| s.0 == mode).map(|s| s.1);
                let mode = mode.ok_or_else(|| Error::argument("there is no such mode"))?;
                Op::Scatter {
                    dim: self.int("dim")?,
                    mode,
                    include_self: self.flag("include_self")?,
                }
            }
            "matmul" => Op::Matmul,
            "conv1d" | "conv2d" | "conv3d" | "conv_transpose1d" | "conv_transpose2d"
            | "conv_transpose3d" => {
                let spec = self.conv(name.starts_with("conv_t"))?;
                if has("bias") {
                    Op::Composite(Composite::ConvBias(spec))
                } else {
                    Op::Conv(spec)
                }
            }
            "correlate" => {
                let part = self.text("part")?;
                let part = PARTS.iter().find(|p| p.0 == part).map(|p| p.1);
                Op::Correlate(Box::new(Correlation {
                    part: part.ok_or_else(|| Error::argument("there is no such part"))?,
                    channels_last: self.flag("channels_last")?,
                    stride: self.list("stride", one)?,
                    padding: self.list("padding", one)?,
                    dilation: self.list("dilation", one)?,
                    shape,
                }))
            }
            "max_pool1d" | "max_pool2d" | "max_pool3d" => return pool(PoolKind::Max),
            "avg_pool1d" | "avg_pool2d" | "avg_pool3d" => return pool(PoolKind::Avg),
            "adaptive_avg_pool2d" => Op::AdaptiveAvgPool { size: self.size()? },
            "interpolate" => {
                let (size, order) = (self.size()?, self.int("order")?);
                Op::Interpolate {
                    size,
                    order,
                    align_corners: self.flag("align_corners")?,
                }
            }
            other => Op::Composite(self.composite(other)?),
        })
    }

    fn size(&self) -> Result<[usize; 2]> {
        let list: Vec<usize> = self.list("size", one)?;
        list.try_into()
            .map_err(|_| Error::argument("size must be two numbers"))
    }

    fn composite(&self, name: &str) -> Result<Composite> {
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

fn one<T: TryFrom<i64>>(a: &Attribute) -> Option<T> {
    match a {
        Attribute::Int(i) => T::try_from(*i).ok(),
        _ => None,
    }
}
