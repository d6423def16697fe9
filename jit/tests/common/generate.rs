//! Random graphs with their inputs, and how far results may differ.

mod movement;
mod product;
mod scan;
mod scatter;

use super::rng::Rng;
use super::track::{self, Track};
use super::window;
use ferrotrace_jit::{Graph, Precision};
use ferrotrace_kernels::op::{
    Arange, ArgSort, Cast, Full, Iota, LayerNorm, LogSoftmax, Random, Reduce, RmsNorm, Softmax,
    Triangle, Var,
};
use ferrotrace_kernels::ops::pointwise;
use ferrotrace_kernels::{
    Array, BinaryOp, Composite, Distribution, Op, OpBuilder, Operand, PoolKind, PoolSpec,
    ReduceKind, UnaryOp, ValueId,
};
use ferrotrace_runtime::{DType, Device, Scalar, Shape};

/// What to draw.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most operators.
    pub ops: usize,
    /// Most elements of a value.
    pub numel: usize,
    /// Sizes of dimensions.
    pub sizes: &'static [usize],
    /// Dtypes of inputs and casts.
    pub dtypes: &'static [DType],
    /// Pointwise operators alone.
    pub pointwise: bool,
    /// How arithmetic rounds.
    pub precision: Precision,
    /// Whether a device's approximations of functions are allowed for.
    pub approximate: bool,
    /// Whether every other step writes slices of one tensor.
    pub slices: bool,
    /// Whether every fourth step adds up thousands of terms in each element of its result.
    pub long: bool,
}

/// A graph, arrays for its inputs, numbers for its slots, and what is known of every node.
#[derive(Clone, Debug)]
pub struct Program {
    pub graph: Graph,
    pub arrays: Vec<Array>,
    pub scalars: Vec<Scalar>,
    pub tracks: Vec<Track>,
}

/// Draws a program.
pub fn program(seed: u64, limits: &Limits) -> Program {
    let mut g = Generator {
        rng: Rng::new(seed),
        limits,
        program: Program {
            graph: Graph::new(),
            arrays: Vec::new(),
            scalars: Vec::new(),
            tracks: Vec::new(),
        },
        size: 0,
    };
    g.size = g.rng.pick(limits.sizes);
    g.program.graph.set_origin(None, limits.precision);
    for _ in 0..1 + g.rng.below(3) {
        let shape = g.shape();
        let dtype = g.rng.pick(limits.dtypes);
        g.input(&shape, dtype);
    }
    let wanted = 2 + g.rng.below(limits.ops - 1);
    for _ in 0..wanted * 3 {
        let ops = g.program.graph.nodes().len() - g.program.arrays.len();
        if ops >= wanted {
            break;
        }
        g.step();
    }
    let n = g.program.graph.nodes().len();
    let mut outputs = vec![ValueId(n as u32 - 1)];
    let share = g.rng.pick(&[3, 10, 25]);
    for v in 0..n as u32 {
        if g.rng.chance(share) {
            outputs.push(ValueId(v));
        }
    }
    g.program.graph.set_outputs(outputs);
    g.program
}

struct Generator<'a> {
    rng: Rng,
    limits: &'a Limits,
    program: Program,
    /// A size that many shapes share.
    size: usize,
}

/// Operators that take rounded operands too.
const TAME: [UnaryOp; 10] = [
    UnaryOp::Abs,
    UnaryOp::Neg,
    UnaryOp::Relu,
    UnaryOp::Tanh,
    UnaryOp::Sigmoid,
    UnaryOp::Sin,
    UnaryOp::Cos,
    UnaryOp::Square,
    UnaryOp::Exp,
    UnaryOp::Erf,
];

impl Generator<'_> {
    fn dim(&mut self) -> usize {
        if self.rng.chance(40) {
            self.size
        } else {
            self.rng.pick(self.limits.sizes)
        }
    }

    fn shape(&mut self) -> Vec<usize> {
        loop {
            let rank = self.rng.pick(&[0, 1, 1, 2, 2, 2, 3, 3, 4]);
            let shape: Vec<usize> = (0..rank).map(|_| self.dim()).collect();
            let numel = shape.iter().fold(1usize, |n, &d| n.saturating_mul(d));
            if numel <= self.limits.numel {
                return shape;
            }
        }
    }

    fn is_too_large(&self, shape: &[usize]) -> bool {
        shape.iter().fold(1usize, |n, &d| n.saturating_mul(d)) > self.limits.numel
    }

    fn any(&mut self) -> ValueId {
        let n = self.program.graph.nodes().len();
        // Recent values are more interesting.
        let back = if self.rng.chance(70) {
            self.rng.below(n.min(6))
        } else {
            self.rng.below(n)
        };
        ValueId((n - 1 - back) as u32)
    }

    fn shape_of(&self, v: ValueId) -> Shape {
        self.program.graph.node(v).shape.clone()
    }

    fn dtype_of(&self, v: ValueId) -> DType {
        self.program.graph.node(v).dtype
    }

    fn track(&self, v: ValueId) -> Track {
        self.program.tracks[v.0 as usize]
    }

    fn input(&mut self, shape: &[usize], dtype: DType) -> ValueId {
        let wild = dtype.is_float() && self.rng.chance(10);
        self.input_of(shape, dtype, wild)
    }

    /// An input without NaN, infinities and numbers far from 1.
    fn numbers(&mut self, shape: &[usize], dtype: DType) -> ValueId {
        self.input_of(shape, dtype, false)
    }

    fn input_of(&mut self, shape: &[usize], dtype: DType, wild: bool) -> ValueId {
        let (low, high): (f64, f64) = match dtype {
            DType::Bool => (0.0, 1.0),
            DType::U8 => (0.0, 9.0),
            _ if dtype.is_int() => (-6.0, 6.0),
            _ => (-2.0, 2.0),
        };
        let mut value = |r: &mut Rng| {
            if !dtype.is_float() {
                return r.between(low as i64, high as i64) as f64;
            }
            if wild && r.chance(10) {
                return r.pick(&[
                    f64::NAN,
                    f64::INFINITY,
                    f64::NEG_INFINITY,
                    0.0,
                    -0.0,
                    1e-40,
                    3e38,
                ]);
            }
            r.uniform(low, high)
        };
        let strided = self.rng.chance(40);
        let array = window(&mut self.rng, shape, dtype, strided, &mut value);
        let bound = if wild { f64::INFINITY } else { high.max(-low) };
        self.append_input(array, Track::exact(bound))
    }

    /// Indices valid in a dimension of `size`, some counted from the end.
    fn indices(&mut self, shape: &[usize], size: usize) -> ValueId {
        let dtype = self
            .rng
            .pick(&[DType::I64, DType::I64, DType::I32, DType::I16]);
        let mut value = |r: &mut Rng| r.between(-(size as i64), size as i64 - 1) as f64;
        let strided = self.rng.chance(30);
        let array = window(&mut self.rng, shape, dtype, strided, &mut value);
        self.append_input(array, Track::exact(size as f64))
    }

    fn append_input(&mut self, array: Array, track: Track) -> ValueId {
        let id = self
            .program
            .graph
            .input(&array.layout, array.dtype, &Device::cpu());
        self.program.arrays.push(array);
        self.program.tracks.push(track);
        id
    }

    /// Appends an operator if its rules take the operands and its result is not too large.
    fn push(&mut self, op: Op, args: &[Operand], track: Option<Track>) {
        let Some(track) = track else { return };
        let Ok((shape, _)) = op.infer(&self.program.graph.metas(args)) else {
            return;
        };
        if shape.numel() > self.limits.numel || shape.rank() > 6 {
            return;
        }
        if self.program.graph.push(op, args).is_ok() {
            self.program.tracks.push(track);
        }
    }

    fn number(&mut self, number: Scalar) -> Operand {
        if self.rng.chance(60) {
            self.program.scalars.push(number);
            return Operand::Slot(self.program.scalars.len() as u32 - 1, number);
        }
        Operand::Const(number)
    }

    fn step(&mut self) {
        if self.limits.pointwise {
            return match self.rng.below(12) {
                0..=3 => self.unary(),
                4..=8 => self.binary(),
                9 => self.select(),
                10 => self.cast(),
                _ => self.create(),
            };
        }
        if self.limits.slices && self.rng.chance(50) {
            return self.writes();
        }
        if self.limits.long && self.rng.chance(25) {
            return self.long();
        }
        match self.rng.below(50) {
            0..=6 => self.unary(),
            7..=14 => self.binary(),
            15 => self.select(),
            16 => self.cast(),
            17 => self.create(),
            18..=22 => self.reduce(),
            23..=30 => self.view(),
            31 => self.pad(),
            32 => self.cat(),
            33 => self.repeat(),
            34 => self.gather(),
            35 => self.index(),
            36 => self.slice_assign(),
            37 => self.composite(),
            38 => self.normalise(),
            39..=41 => self.scan(),
            42..=44 => self.product(),
            45 | 46 => self.scatter(),
            47 | 48 => self.index_put(),
            _ => self.library(),
        }
    }

    fn unary(&mut self) {
        let x = self.any();
        let tame = !self.track(x).is_exact() || self.rng.chance(50);
        let op = if tame {
            self.rng.pick(&TAME)
        } else {
            self.rng.pick(&UnaryOp::ALL)
        };
        let args = [Operand::Value(x)];
        let Ok(compute) = pointwise::unary_compute(op, &self.program.graph.metas(&args)) else {
            return;
        };
        let track = track::cast(self.track(x), self.dtype_of(x), compute).and_then(|x| {
            track::unary(
                op,
                x,
                compute,
                self.limits.precision,
                self.limits.approximate,
            )
        });
        self.push(Op::Unary(op), &args, track);
    }

    /// A value that broadcasts with `x`, or a number.
    fn partner(&mut self, x: ValueId) -> Operand {
        if self.rng.chance(20) {
            let number = match self.rng.below(4) {
                0 => Scalar::Int(self.rng.between(-3, 5)),
                _ => Scalar::Float((self.rng.between(-16, 16) as f64) / 8.0),
            };
            return self.number(number);
        }
        let shape = self.shape_of(x);
        for _ in 0..6 {
            let y = self.any();
            let fits = self
                .shape_of(y)
                .broadcast(&shape)
                .is_some_and(|s| s.numel() <= self.limits.numel);
            if fits {
                return Operand::Value(y);
            }
        }
        let keep = self.rng.below(shape.rank() + 1);
        let own: Vec<usize> = shape[shape.rank() - keep..]
            .iter()
            .map(|&n| if self.rng.chance(20) { 1 } else { n })
            .collect();
        let dtype = self.rng.pick(self.limits.dtypes);
        Operand::Value(self.input(&own, dtype))
    }

    fn operand_track(&self, operand: Operand) -> (Track, DType) {
        match operand {
            Operand::Value(v) => (self.track(v), self.dtype_of(v)),
            Operand::Slot(_, s) | Operand::Const(s) => {
                (Track::exact(s.to_f64().abs()), s.default_dtype())
            }
        }
    }

    fn binary(&mut self) {
        let x = self.any();
        let y = self.partner(x);
        let args = if self.rng.chance(70) {
            [x.into(), y]
        } else {
            [y, x.into()]
        };
        let exact =
            self.operand_track(args[0]).0.is_exact() && self.operand_track(args[1]).0.is_exact();
        let op = if !exact || self.rng.chance(50) {
            self.rng.pick(&[
                BinaryOp::Add,
                BinaryOp::Sub,
                BinaryOp::Mul,
                BinaryOp::Maximum,
                BinaryOp::Minimum,
            ])
        } else {
            self.rng.pick(&BinaryOp::ALL)
        };
        let Ok(compute) = pointwise::binary_compute(op, &self.program.graph.metas(&args)) else {
            return;
        };
        let of = |operand| {
            let (t, dtype) = self.operand_track(operand);
            if matches!(operand, Operand::Value(_)) {
                track::cast(t, dtype, compute)
            } else {
                Some(t)
            }
        };
        let track = match (of(args[0]), of(args[1])) {
            (Some(a), Some(b)) => track::binary(op, a, b, compute, self.limits.precision),
            _ => None,
        };
        self.push(Op::Binary(op), &args, track);
    }

    /// An exact truth value that broadcasts with `x`, if there is one.
    fn condition(&mut self, x: ValueId) -> Option<ValueId> {
        let shape = self.shape_of(x);
        let n = self.program.graph.nodes().len();
        let fits = |v: &ValueId| {
            self.dtype_of(*v) == DType::Bool
                && self
                    .shape_of(*v)
                    .broadcast(&shape)
                    .is_some_and(|s| s.numel() <= self.limits.numel)
        };
        let all: Vec<ValueId> = (0..n as u32).map(ValueId).filter(fits).collect();
        if all.is_empty() || self.rng.chance(20) {
            return Some(self.input(&shape, DType::Bool));
        }
        Some(self.rng.pick(&all))
    }

    fn select(&mut self) {
        let x = self.any();
        let y = self.partner(x);
        let Some(m) = self.condition(x) else { return };
        let pair: [Operand; 2] = if self.rng.chance(50) {
            [x.into(), y]
        } else {
            [y, x.into()]
        };
        let args = [m.into(), pair[0], pair[1]];
        let Ok((_, dtype)) = Op::Where.infer(&self.program.graph.metas(&args)) else {
            return;
        };
        let of = |operand| {
            let (t, from) = self.operand_track(operand);
            track::cast(t, from, dtype)
        };
        let track = of(pair[0]).and_then(|a| Some(a.join(of(pair[1])?)));
        self.push(Op::Where, &args, track);
    }

    fn cast(&mut self) {
        let x = self.any();
        let to = self.rng.pick(self.limits.dtypes);
        let track = track::cast(self.track(x), self.dtype_of(x), to);
        self.push(Op::Cast(Cast(to)), &[x.into()], track);
    }

    fn create(&mut self) {
        let shape = self.shape();
        let dtype = self.rng.pick(self.limits.dtypes);
        match self.rng.below(5) {
            0 => {
                let number = Scalar::Float(self.rng.between(-8, 8) as f64 / 4.0);
                let operand = self.number(number);
                self.push(
                    Op::Full(Full {
                        shape: Shape::new(&shape),
                        dtype,
                    }),
                    &[operand],
                    Some(Track::exact(2.0)),
                );
            }
            1 => {
                let len = self.dim();
                let whole = self.rng.chance(50);
                let number = |r: &mut Rng| {
                    let i = r.between(-3, 3);
                    if whole {
                        Scalar::Int(i)
                    } else {
                        Scalar::Float(i as f64 / 2.0)
                    }
                };
                let (start, step) = (number(&mut self.rng), number(&mut self.rng));
                let args = [self.number(start), self.number(step)];
                // What is below zero, or too large, wraps to anything.
                let (span, limit) = (3.0 + 3.0 * len as f64, track::limit(dtype));
                let wraps = dtype.is_int() && (dtype == DType::U8 || span > limit);
                let bound = if wraps { limit } else { span.min(limit) };
                self.push(
                    Op::Arange(Arange { len, dtype }),
                    &args,
                    Some(Track::exact(bound)),
                );
            }
            2 | 3 if !shape.is_empty() => {
                let dim = self.rng.below(shape.len());
                let bound = shape[dim] as f64;
                self.push(
                    Op::Iota(Iota {
                        shape: Shape::new(&shape),
                        dim,
                    }),
                    &[],
                    Some(Track::exact(bound)),
                );
            }
            _ => {
                let dist = self.rng.pick(&[
                    Distribution::Uniform,
                    Distribution::Normal,
                    Distribution::Bernoulli,
                ]);
                let dtype = if dtype.is_float() { dtype } else { DType::F32 };
                let (key, offset) = (self.rng.between(0, 1 << 40), self.rng.between(0, 1 << 30));
                let mut args = vec![
                    self.number(Scalar::Int(key)),
                    self.number(Scalar::Int(offset)),
                ];
                if dist == Distribution::Bernoulli {
                    args.push(self.number(Scalar::Float(0.4)));
                }
                self.push(
                    Op::Random(Random {
                        dist,
                        shape: Shape::new(&shape),
                        dtype,
                    }),
                    &args,
                    Some(Track::exact(8.0)),
                );
            }
        }
    }

    fn reduce(&mut self) {
        use ReduceKind::*;
        let x = self.any();
        let x = self.spread(x);
        let (shape, from) = (self.shape_of(x), self.dtype_of(x));
        let exact = self.track(x).is_exact();
        let kind = if exact {
            self.rng.pick(&[
                Sum, Prod, Mean, Max, Min, Any, All, ArgMax, ArgMin, Sum, Max,
            ])
        } else {
            self.rng.pick(&[Sum, Sum, Mean, Max, Min])
        };
        let mask = self.rng.next() & ((1 << shape.rank()) - 1);
        let mask = if mask == 0 && self.rng.chance(90) && shape.rank() > 0 {
            1 << (shape.rank() - 1)
        } else {
            mask
        };
        let keepdim = self.rng.chance(50);
        let n: usize = (0..shape.rank())
            .filter(|d| mask >> d & 1 == 1)
            .map(|d| shape[d])
            .product();
        let op = Op::Reduce(Reduce {
            kind,
            mask,
            keepdim,
        });
        let Ok((_, to)) = op.infer(&self.program.graph.metas(&[x.into()])) else {
            return;
        };
        let mut track = track::reduce(kind, self.track(x), n, from, to, self.limits.precision);
        if n == 0 && kind == Mean {
            track = track.map(|_| Track::exact(f64::INFINITY));
        }
        self.push(op, &[x.into()], track);
    }

    fn float(&mut self) -> Option<ValueId> {
        let some: Vec<ValueId> = (0..8).map(|_| self.any()).collect();
        some.into_iter()
            .find(|&v| self.dtype_of(v).is_float() && self.track(v).bound.is_finite())
    }

    fn composite(&mut self) {
        let Some(x) = self.float() else { return };
        let x = self.spread(x);
        let (shape, dtype, t) = (self.shape_of(x), self.dtype_of(x), self.track(x));
        let precision = self.limits.precision;
        let rank = shape.rank();
        let b = t.bound.max(1.0);
        let of = |bound, slope| track::composite(t, bound, slope, dtype, precision);
        let dim = self.rng.below(rank);
        let (op, track) = match self.rng.below(7) {
            0 | 1 if rank > 0 && shape[dim] > 0 => {
                (Composite::Softmax(Softmax { dim }), of(1.0, 8.0))
            }
            2 if rank > 0 && shape[dim] > 0 => (
                Composite::LogSoftmax(LogSoftmax { dim }),
                of(2.0 * b + 10.0, 8.0),
            ),
            3 => (Composite::Gelu, of(b, 4.0)),
            4 => (Composite::Silu, of(b, 4.0)),
            5 if rank > 0 && shape[dim] > 1 => {
                let n = shape[dim] as f64;
                let op = Composite::Var(Var {
                    mask: 1 << dim,
                    keepdim: self.rng.chance(50),
                    correction: 1,
                    root: false,
                });
                (op, of(2.0 * b * b, 8.0 * b * n))
            }
            6 if rank > 1 => (
                Composite::Triangle(Triangle {
                    k: self.rng.between(-1, 1) as isize,
                    upper: self.rng.chance(50),
                }),
                Some(t),
            ),
            _ => (Composite::Softsign, of(1.0, 4.0)),
        };
        self.push(Op::Composite(op), &[x.into()], track);
    }

    fn normalise(&mut self) {
        let Some(x) = self.float() else { return };
        let x = self.spread(x);
        let (shape, dtype, t) = (self.shape_of(x), self.dtype_of(x), self.track(x));
        let rank = shape.rank();
        if rank == 0 || shape[rank - 1] == 0 {
            return;
        }
        let b = t.bound.max(1.0);
        let track = track::composite(t, 8.0 * b, 64.0 * b * b, dtype, self.limits.precision);
        let eps = self.number(Scalar::Float(0.25));
        let op = match self.rng.below(2) {
            0 => Composite::LayerNorm(LayerNorm {
                n: 1,
                weight: false,
                bias: false,
            }),
            _ => Composite::RmsNorm(RmsNorm {
                n: 1,
                weight: false,
            }),
        };
        self.push(Op::Composite(op), &[x.into(), eps], track);
    }

    fn library(&mut self) {
        let x = self.any();
        let (shape, t) = (self.shape_of(x), self.track(x));
        let rank = shape.rank();
        if rank == 0 {
            return;
        }
        let dim = self.rng.below(rank);
        match self.rng.below(4) {
            0 | 1 => self.pool(x),
            2 if t.is_exact() && t.bound.is_finite() => {
                let descending = self.rng.chance(50);
                self.push(
                    Op::ArgSort(ArgSort { dim, descending }),
                    &[x.into()],
                    Some(Track::exact(64.0)),
                );
            }
            _ => self.scan(),
        }
    }

    /// A pool of the last one or two dimensions.
    fn pool(&mut self, x: ValueId) {
        let (shape, from) = (self.shape_of(x), self.dtype_of(x));
        let spatial = 1 + self.rng.below(2);
        let kind = match from.is_float() && self.rng.chance(50) {
            true => (PoolKind::Avg, ReduceKind::Mean),
            false => (PoolKind::Max, ReduceKind::Max),
        };
        let mut spec = PoolSpec {
            kind: kind.0,
            kernel: Default::default(),
            stride: Default::default(),
            padding: Default::default(),
        };
        for _ in 0..spatial {
            let kernel = self.rng.between(1, 4) as usize;
            spec.kernel.push(kernel);
            spec.stride.push(self.rng.between(1, 3) as usize);
            spec.padding.push(self.rng.below(kernel / 2 + 1));
        }
        let taps = spec.kernel.iter().product();
        let op = Op::Pool(Box::new(spec));
        let Ok((_, to)) = op.infer(&self.program.graph.metas(&[x.into()])) else {
            return;
        };
        if shape.numel() == 0 {
            return;
        }
        let precision = self.limits.precision;
        let track = track::reduce(kind.1, self.track(x), taps, from, to, precision);
        self.push(op, &[x.into()], track);
    }
}
