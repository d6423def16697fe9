//! Operators read from their names and attributes.

use super::{Attribute, PARTS, SCATTERS};
use ferrotrace_kernels::{
    BinaryOp, Composite, ConvSpec, Correlation, Distribution, Extent, Op, PoolKind, PoolSpec,
    ReduceKind, ScanKind, UnaryOp,
};
use ferrotrace_runtime::{DType, Error, Result, Shape};
use smallvec::SmallVec;

/// The attributes read from a line, and the result it declares.
pub struct Attributes<'a> {
    list: Vec<(String, Attribute)>,
    shape: &'a Shape,
    dtype: DType,
}

impl<'a> Attributes<'a> {
    pub fn new(list: Vec<(String, Attribute)>, shape: &'a Shape, dtype: DType) -> Attributes<'a> {
        Attributes { list, shape, dtype }
    }

    pub(super) fn get(&self, name: &str) -> Result<&Attribute> {
        let found = self.list.iter().find(|(n, _)| n == name).map(|(_, a)| a);
        found.ok_or_else(|| Error::argument(format!("the attribute {name} is missing")))
    }

    pub(super) fn int<T: TryFrom<i64>>(&self, name: &str) -> Result<T> {
        one(self.get(name)?)
            .ok_or_else(|| Error::argument(format!("{name} must be an integer of its range")))
    }

    pub(super) fn list<T, C: FromIterator<T>>(
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

    pub(super) fn mask(&self, name: &str) -> Result<u64> {
        let dims: Vec<u32> = self.list(name, one)?;
        dims.iter()
            .try_fold(0, |mask, &d| match 1u64.checked_shl(d) {
                Some(bit) => Ok(mask | bit),
                None => Err(Error::argument(format!("{d} is no dimension"))),
            })
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool> {
        match self.get(name)? {
            Attribute::Bool(b) => Ok(*b),
            _ => Err(Error::argument(format!("{name} must be true or false"))),
        }
    }

    pub(super) fn float(&self, name: &str) -> Result<u64> {
        match self.get(name)? {
            Attribute::Float(x) => Ok(x.to_bits()),
            Attribute::Int(i) => Ok((*i as f64).to_bits()),
            Attribute::Word(w) if w == "NaN" => Ok(f64::NAN.to_bits()),
            _ => Err(Error::argument(format!("{name} must be a number"))),
        }
    }

    pub(super) fn text(&self, name: &str) -> Result<&str> {
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
            "topk_values" => Op::TopK {
                k: self.int("k")?,
                dim: self.int("dim")?,
                largest: self.flag("largest")?,
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
                    wide: self.flag("wide")?,
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
}

fn one<T: TryFrom<i64>>(a: &Attribute) -> Option<T> {
    match a {
        Attribute::Int(i) => T::try_from(*i).ok(),
        _ => None,
    }
}
