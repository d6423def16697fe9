//! Operators that move elements: views, padding, joining, indexed reads and writes.

use super::super::track::{self, Track};
use super::Generator;
use ferrotrace_kernels::op::{
    Cat, Diagonal, Expand, Flatten, Flip, Gather, Index, Narrow, Pad, Permute, Repeat, Reshape,
    Select, Slice, SliceAssign, Squeeze, Unfold, Unsqueeze,
};
use ferrotrace_kernels::{Extent, Op, Operand, UnaryOp, ValueId};
use ferrotrace_runtime::{Scalar, Shape};
use smallvec::SmallVec;

impl Generator<'_> {
    pub(super) fn view(&mut self) {
        let x = self.any();
        let shape = self.shape_of(x);
        let rank = shape.rank();
        let dim = self.rng.below(rank);
        let size = if rank > 0 { shape[dim] } else { 0 };
        let op = match self.rng.below(13) {
            0 | 1 => {
                let mut order: SmallVec<[u8; 6]> = (0..rank as u8).collect();
                self.rng.shuffle(&mut order);
                Op::Permute(Permute(order))
            }
            2 => self.expansion(&shape),
            3 | 4 if rank > 0 => {
                let start = self.rng.between(-(size as i64) - 1, size as i64) as isize;
                let end = if self.rng.chance(40) {
                    isize::MAX
                } else {
                    self.rng.between(-2, size as i64 + 2) as isize
                };
                Op::Slice(Slice {
                    dim,
                    start,
                    end,
                    step: self.rng.pick(&[1, 1, 1, 2, 3]),
                })
            }
            5 if rank > 0 => Op::Flip(Flip {
                mask: self.rng.next() & ((1 << rank) - 1),
            }),
            6..=8 => self.reshape(&shape),
            9 if rank > 0 => Op::Squeeze(Squeeze {
                mask: self.rng.next() & ((1 << rank) - 1),
            }),
            10 => Op::Unsqueeze(Unsqueeze {
                dim: self.rng.below(rank + 1),
            }),
            11 if size > 0 => match self.rng.below(3) {
                0 => Op::Select(Select {
                    dim,
                    index: self.rng.between(-(size as i64), size as i64 - 1) as isize,
                }),
                1 => {
                    let start = self.rng.below(size);
                    Op::Narrow(Narrow {
                        dim,
                        start: start as isize,
                        len: self.rng.below(size - start + 1),
                    })
                }
                _ => {
                    let window = 1 + self.rng.below(size);
                    Op::Unfold(Unfold {
                        dim,
                        size: window,
                        step: 1 + self.rng.below(3),
                    })
                }
            },
            12 if rank > 1 => {
                let b = (dim + 1 + self.rng.below(rank - 1)) % rank;
                Op::Diagonal(Diagonal {
                    offset: self.rng.between(-2, 2) as isize,
                    a: dim,
                    b,
                })
            }
            _ if rank > 0 => {
                let end = dim + self.rng.below(rank - dim);
                Op::Flatten(Flatten { start: dim, end })
            }
            _ => return,
        };
        self.push(op, &[x.into()], Some(self.track(x)));
    }

    /// A reshape to another factorisation.
    pub(super) fn reshape(&mut self, shape: &Shape) -> Op {
        let total = shape.numel();
        if total == 0 {
            return Op::Reshape(Reshape(shape.iter().map(|&n| Extent::Size(n)).collect()));
        }
        let mut factors = Vec::new();
        let mut rest = total;
        let mut p = 2;
        while rest > 1 {
            while rest.is_multiple_of(p) {
                factors.push(p);
                rest /= p;
            }
            p += 1;
        }
        if self.rng.chance(50) {
            self.rng.shuffle(&mut factors);
        }
        let groups = 1 + self.rng.below(3);
        let mut dims = vec![1usize; groups];
        for f in factors {
            let at = self.rng.below(groups);
            dims[at] *= f;
        }
        if self.rng.chance(20) {
            let at = self.rng.below(groups + 1);
            dims.insert(at, 1);
        }
        let auto = self.rng.chance(30).then(|| self.rng.below(dims.len()));
        let extent = |(i, n): (usize, usize)| {
            if Some(i) == auto {
                Extent::Auto
            } else {
                Extent::Size(n)
            }
        };
        Op::Reshape(Reshape(dims.into_iter().enumerate().map(extent).collect()))
    }

    pub(super) fn pad(&mut self) {
        let x = self.any();
        let shape = self.shape_of(x);
        let pads: SmallVec<[(isize, isize); 4]> = shape
            .iter()
            .map(|_| {
                (
                    self.rng.between(-1, 3) as isize,
                    self.rng.between(-1, 3) as isize,
                )
            })
            .collect();
        let fill = Scalar::Float(self.rng.between(-4, 4) as f64 / 2.0);
        let operand = self.number(fill);
        let track = self
            .track(x)
            .join(Track::exact(2.0f64.min(track::limit(self.dtype_of(x)))));
        self.push(Op::Pad(Pad(pads)), &[x.into(), operand], Some(track));
    }

    pub(super) fn cat(&mut self) {
        let x = self.any();
        let shape = self.shape_of(x);
        if shape.rank() == 0 {
            return;
        }
        let dim = self.rng.below(shape.rank());
        let count = 2 + self.rng.below(3);
        let mut parts = vec![x];
        for _ in 1..count {
            let y = self.any();
            let theirs = self.shape_of(y);
            let fits = theirs.rank() == shape.rank()
                && (0..shape.rank()).all(|d| d == dim || theirs[d] == shape[d]);
            parts.push(if fits {
                y
            } else {
                let mut own = shape.to_vec();
                own[dim] = self.dim();
                if self.is_too_large(&own) {
                    return;
                }
                let dtype = if self.rng.chance(70) {
                    self.dtype_of(x)
                } else {
                    self.rng.pick(self.limits.dtypes)
                };
                self.input(&own, dtype)
            });
        }
        let args: Vec<Operand> = parts.iter().map(|&v| v.into()).collect();
        let op = Op::Cat(Cat { dim });
        let Ok((_, dtype)) = op.infer(&self.program.graph.metas(&args)) else {
            return;
        };
        let track = parts.iter().try_fold(Track::exact(0.0), |t, &v| {
            Some(t.join(track::cast(self.track(v), self.dtype_of(v), dtype)?))
        });
        self.push(op, &args, track);
    }

    /// At times the value expanded: what is then reduced may be the same at every column.
    pub(super) fn spread(&mut self, x: ValueId) -> ValueId {
        if self.rng.chance(85) {
            return x;
        }
        let op = self.expansion(&self.shape_of(x));
        let nodes = self.program.graph.nodes().len();
        self.push(op, &[x.into()], Some(self.track(x)));
        match self.program.graph.nodes().len() > nodes {
            true => ValueId(nodes as u32),
            false => x,
        }
    }

    /// An expansion of a shape's dimensions of one element, at times behind a new one.
    fn expansion(&mut self, shape: &[usize]) -> Op {
        let lead = (0..self.rng.below(2)).map(|_| 0);
        let all: Vec<usize> = lead.chain(shape.iter().copied()).collect();
        let added = all.len() - shape.len();
        let extents = all
            .iter()
            .enumerate()
            .map(|(d, &n)| match d < added || n == 1 {
                true => Extent::Size(self.dim()),
                false => Extent::Auto,
            });
        Op::Expand(Expand(extents.collect()))
    }

    pub(super) fn repeat(&mut self) {
        let x = self.any();
        let rank = self.shape_of(x).rank();
        let lead = self.rng.below(2);
        let counts = (0..rank + lead)
            .map(|_| self.rng.pick(&[1, 1, 2, 3]))
            .collect();
        self.push(Op::Repeat(Repeat(counts)), &[x.into()], Some(self.track(x)));
    }

    pub(super) fn gather(&mut self) {
        let x = self.any();
        let shape = self.shape_of(x);
        if shape.rank() == 0 {
            return;
        }
        let dim = self.rng.below(shape.rank());
        if shape[dim] == 0 {
            return;
        }
        let mut own = shape.to_vec();
        own[dim] = self.dim();
        if self.is_too_large(&own) {
            return;
        }
        for (d, n) in own.iter_mut().enumerate() {
            if d != dim && self.rng.chance(20) {
                *n = self.rng.below(*n + 1);
            }
        }
        if own.iter().product::<usize>() > self.limits.numel {
            return;
        }
        let index = self.indices(&own, shape[dim]);
        self.push(
            Op::Gather(Gather { dim }),
            &[x.into(), index.into()],
            Some(self.track(x)),
        );
    }

    pub(super) fn index(&mut self) {
        let x = self.any();
        let shape = self.shape_of(x);
        let rank = shape.rank();
        let axes: SmallVec<[u8; 4]> = (0..rank)
            .filter(|&d| shape[d] > 0 && self.rng.chance(50))
            .map(|d| d as u8)
            .collect();
        if axes.is_empty() || shape.numel() == 0 {
            return;
        }
        let block = [self.rng.pick(&[1, 2, 3, 5]), self.rng.pick(&[1, 4])];
        let mut args: Vec<Operand> = vec![x.into()];
        for &axis in &axes {
            let own: Vec<usize> = match self.rng.below(3) {
                0 => block.to_vec(),
                1 => vec![block[1]],
                _ => vec![block[0], 1],
            };
            args.push(self.indices(&own, shape[axis as usize]).into());
        }
        let at = self.rng.below(rank - axes.len() + 1);
        self.push(Op::Index(Index { axes, at }), &args, Some(self.track(x)));
    }

    /// Appends an operator and gives its value, if it was.
    fn pushed(&mut self, op: Op, args: &[Operand], track: Option<Track>) -> Option<ValueId> {
        let before = self.program.graph.nodes().len();
        self.push(op, args, track);
        let after = self.program.graph.nodes().len();
        (after > before).then_some(ValueId(before as u32))
    }

    /// Writes to slices of one tensor, one after another, of one or two dimensions: of what is read of it elsewhere,
    /// perhaps changed; what is read between may be used later.
    pub(super) fn writes(&mut self) {
        let mut x = self.any();
        for _ in 0..=self.rng.below(4) {
            match self.write(x) {
                Some(written) => x = written,
                None => return,
            }
        }
    }

    fn write(&mut self, x: ValueId) -> Option<ValueId> {
        let shape = self.shape_of(x);
        if shape.rank() == 0 || shape.numel() == 0 {
            return None;
        }
        let dim = self.rng.below(shape.rank());
        let step = self.rng.pick(&[1, 1, 1, 2]);
        let len = 1 + self.rng.below(shape[dim].div_ceil(step));
        let span = (len - 1) * step + 1;
        let mut first = || self.rng.below(shape[dim] - span + 1) as isize;
        let (from, to) = (first(), first());
        let slice = |start: isize| {
            Op::Slice(Slice {
                dim,
                start,
                end: start + span as isize,
                step,
            })
        };
        let track = Some(self.track(x));
        let mut source = self.pushed(slice(from), &[x.into()], track)?;
        if self.rng.chance(60) {
            let track = self.track(source);
            let op = match self.dtype_of(source).is_float() {
                true => UnaryOp::Neg,
                false => UnaryOp::Abs,
            };
            source = self.pushed(Op::Unary(op), &[source.into()], Some(track))?;
        }
        if self.rng.chance(40) {
            // The whole of a slice, of which a part is written in another dimension.
            let part = self.pushed(slice(to), &[x.into()], track)?;
            let dim = self.rng.below(shape.rank());
            let size = self.shape_of(part)[dim];
            let len = 1 + self.rng.below(size);
            let start = self.rng.below(size - len + 1) as isize;
            let from = self.rng.below(size - len + 1) as isize;
            let narrow = Op::Narrow(Narrow {
                dim,
                start: from,
                len,
            });
            let cut = self.pushed(narrow, &[source.into()], Some(self.track(source)))?;
            let op = Op::SliceAssign(SliceAssign {
                dim,
                start,
                end: start + len as isize,
                step: 1,
            });
            let track = self.track(part).join(self.track(cut));
            source = self.pushed(op, &[part.into(), cut.into()], Some(track))?;
        }
        let op = Op::SliceAssign(SliceAssign {
            dim,
            start: to,
            end: to + span as isize,
            step,
        });
        let track = self.track(x).join(self.track(source));
        self.pushed(op, &[x.into(), source.into()], Some(track))
    }

    pub(super) fn slice_assign(&mut self) {
        let x = self.any();
        let shape = self.shape_of(x);
        if shape.rank() == 0 {
            return;
        }
        let dim = self.rng.below(shape.rank());
        let start = self.rng.between(-3, shape[dim] as i64) as isize;
        let end = if self.rng.chance(50) {
            isize::MAX
        } else {
            self.rng.between(-2, shape[dim] as i64 + 1) as isize
        };
        let step = self.rng.pick(&[1, 1, 2, 3]);
        let len = ferrotrace_kernels::ops::view::clamp_slice(shape[dim], start, end, step).1;
        let mut own = shape.to_vec();
        own[dim] = if self.rng.chance(30) { 1 } else { len };
        let n = self.program.graph.nodes().len();
        let fits = |v: &ValueId| {
            self.shape_of(*v).dims() == own.as_slice() && self.dtype_of(*v) == self.dtype_of(x)
        };
        let found: Vec<ValueId> = (0..n as u32).map(ValueId).filter(fits).collect();
        let source = if found.is_empty() || self.rng.chance(50) {
            let dtype = self.dtype_of(x);
            self.input(&own, dtype)
        } else {
            self.rng.pick(&found)
        };
        let track = self.track(x).join(self.track(source));
        self.push(
            Op::SliceAssign(SliceAssign {
                dim,
                start,
                end,
                step,
            }),
            &[x.into(), source.into()],
            Some(track),
        );
    }
}
