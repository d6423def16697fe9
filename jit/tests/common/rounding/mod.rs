//! Random graphs of half-precision values that are used several times and decided by.

pub mod oracle;

use super::rng::Rng;
use super::window;
use ferrotrace_jit::{Graph, Precision};
use ferrotrace_kernels::op::{
    ArgSort, Cast, Cat, Flatten, Flip, Linear, Permute, Reduce, Scan, Slice, Sort,
};
use ferrotrace_kernels::{
    Array, BinaryOp, Composite, Op, OpBuilder, Operand, ReduceKind, ScanKind, UnaryOp, ValueId,
};
use ferrotrace_runtime::{DType, Device, Scalar};

/// A graph, arrays for its inputs and numbers for its slots.
#[derive(Clone, Debug)]
pub struct Program {
    pub graph: Graph,
    pub arrays: Vec<Array>,
    pub scalars: Vec<Scalar>,
}

/// Sizes of dimensions.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub rows: &'static [usize],
    pub columns: &'static [usize],
    /// Most operators.
    pub ops: usize,
}

struct Generator {
    rng: Rng,
    program: Program,
    half: DType,
}

/// Draws a program.
pub fn program(seed: u64, sizes: Sizes, precision: Precision) -> Program {
    let mut rng = Rng::new(seed);
    let half = rng.pick(&[DType::BF16, DType::BF16, DType::F16]);
    let (rows, columns) = (rng.pick(sizes.rows), rng.pick(sizes.columns));
    let mut graph = Graph::new();
    graph.set_origin(None, precision);
    let mut g = Generator {
        rng,
        program: Program {
            graph,
            arrays: Vec::new(),
            scalars: Vec::new(),
        },
        half,
    };
    g.input(&[rows, columns]);
    if g.rng.chance(50) {
        let shape = g.rng.pick(&[[1, columns], [rows, 1], [rows, columns]]);
        g.input(&shape);
    }
    let wanted = 3 + g.rng.below(sizes.ops - 2);
    let inputs = g.program.arrays.len();
    for _ in 0..4 * wanted {
        if g.program.graph.nodes().len() >= inputs + wanted {
            break;
        }
        g.step();
    }
    let n = g.program.graph.nodes().len();
    let mut outputs = vec![ValueId(n as u32 - 1)];
    for _ in 0..g.rng.below(4) {
        outputs.push(ValueId(g.rng.below(n) as u32));
    }
    outputs.dedup();
    g.program.graph.set_outputs(outputs);
    g.program
}

impl Generator {
    /// Numbers about where the type holds whole numbers just so, small ones, and some with fractions.
    fn input(&mut self, shape: &[usize]) -> ValueId {
        let whole = if self.half == DType::BF16 { 128 } else { 1024 };
        let mut value = |r: &mut Rng| match r.below(4) {
            0 => r.between(-8, 8) as f64 / 4.0,
            1 => r.between(-6, 6) as f64,
            _ => r.between(whole, 2 * whole) as f64 * if r.chance(25) { -1.0 } else { 1.0 },
        };
        let strided = self.rng.chance(30);
        let array = window(&mut self.rng, shape, self.half, strided, &mut value);
        let (layout, dtype) = (array.layout.clone(), array.dtype);
        self.program.arrays.push(array);
        self.program.graph.input(&layout, dtype, &Device::cpu())
    }

    fn dtype(&self, v: ValueId) -> DType {
        self.program.graph.node(v).dtype
    }

    /// A value of such a dtype, a recent one most of the time.
    fn value(&mut self, wanted: impl Fn(DType) -> bool) -> Option<ValueId> {
        let n = self.program.graph.nodes().len() as u32;
        let all: Vec<ValueId> = (0..n)
            .map(ValueId)
            .filter(|v| wanted(self.dtype(*v)))
            .collect();
        let recent = &all[all.len().saturating_sub(4)..];
        match (recent, self.rng.chance(70)) {
            ([], _) => None,
            (recent, true) => Some(self.rng.pick(recent)),
            (_, false) => Some(self.rng.pick(&all)),
        }
    }

    fn half(&mut self) -> ValueId {
        self.value(DType::is_half).unwrap_or(ValueId(0))
    }

    fn number(&mut self) -> Operand {
        let number = Scalar::Float(self.rng.between(-24, 24) as f64 / 8.0);
        if self.rng.chance(50) {
            return Operand::Const(number);
        }
        self.program.scalars.push(number);
        Operand::Slot(self.program.scalars.len() as u32 - 1, number)
    }

    /// A value of the same dtype that broadcasts with `x`, or a number.
    fn partner(&mut self, x: ValueId) -> Operand {
        if self.rng.chance(40) {
            return self.number();
        }
        let dtype = self.dtype(x);
        let shape = self.program.graph.node(x).shape.clone();
        for _ in 0..4 {
            let y = self.value(|d| d == dtype).unwrap_or(x);
            let other = &self.program.graph.node(y).shape;
            if shape.broadcast(other).is_some_and(|s| s.numel() <= 40_000) {
                return y.into();
            }
        }
        self.number()
    }

    fn push(&mut self, op: Op, args: &[Operand]) {
        // What the rules refuse is not drawn.
        let _ = self.program.graph.push(op, args);
    }

    fn step(&mut self) {
        use BinaryOp::*;
        let x = self.half();
        let shape = self.program.graph.node(x).shape.clone();
        let rank = shape.rank();
        let dim = self.rng.below(rank);
        match self.rng.below(30) {
            0..=6 => {
                let op = self.rng.pick(&[Add, Add, Sub, Sub, Mul, Maximum, Minimum]);
                let y = self.partner(x);
                self.push(Op::Binary(op), &[x.into(), y]);
            }
            7..=9 => {
                let op = self.rng.pick(&[Eq, Ne, Lt, Le, Gt, Ge]);
                let y = self.partner(x);
                self.push(Op::Binary(op), &[x.into(), y]);
            }
            10 => {
                let op = self.rng.pick(&[FloorDiv, Mod, Fmod]);
                let by = Operand::Const(Scalar::Float(self.rng.pick(&[0.5, 2.0, 4.0])));
                self.push(Op::Binary(op), &[x.into(), by]);
            }
            11 | 12 => {
                use UnaryOp::*;
                let continuous = [Abs, Neg, Relu, Square];
                let jumps = [Floor, Ceil, Round, Trunc, Sign, LogicalNot, IsFinite, IsInf];
                let op = match self.rng.chance(40) {
                    true => self.rng.pick(&continuous),
                    false => self.rng.pick(&jumps),
                };
                self.push(Op::Unary(op), &[x.into()]);
            }
            13 => {
                let other = if self.half == DType::BF16 {
                    DType::F16
                } else {
                    DType::BF16
                };
                let all = [
                    DType::F32,
                    DType::I64,
                    DType::I32,
                    DType::Bool,
                    self.half,
                    other,
                ];
                let to = self.rng.pick(&all);
                let from = self.value(DType::is_float).unwrap_or(x);
                self.push(Op::Cast(Cast(to)), &[from.into()]);
            }
            14 | 15 => {
                if let Some(m) = self.value(|d| d == DType::Bool) {
                    let y = self.partner(x);
                    self.push(Op::Where, &[m.into(), x.into(), y]);
                }
            }
            16..=20 if rank > 0 => {
                use ReduceKind::*;
                let all = [Sum, Sum, Mean, Max, Max, Min, ArgMax, ArgMin, Any, All];
                let kind = self.rng.pick(&all);
                let keepdim = self.rng.chance(80);
                let mask = 1 << dim;
                self.push(
                    Op::Reduce(Reduce {
                        kind,
                        mask,
                        keepdim,
                    }),
                    &[x.into()],
                );
            }
            21 if rank > 0 => {
                use ScanKind::*;
                let kind = self.rng.pick(&[Sum, Max, Min, ArgMax, ArgMin]);
                self.push(Op::Scan(Scan { kind, dim }), &[x.into()]);
            }
            22 if rank > 0 => {
                let descending = self.rng.chance(50);
                let op = match self.rng.chance(50) {
                    true => Op::Sort(Sort { dim, descending }),
                    false => Op::ArgSort(ArgSort { dim, descending }),
                };
                self.push(op, &[x.into()]);
            }
            23 if rank == 2 => self.push(
                Op::Permute(Permute([1, 0].into_iter().collect())),
                &[x.into()],
            ),
            24 => self.push(
                Op::Flatten(Flatten {
                    start: 0,
                    end: rank.saturating_sub(1),
                }),
                &[x.into()],
            ),
            25 if rank > 0 => {
                let start = self.rng.below(2) as isize;
                let step = 1 + self.rng.below(2);
                let end = isize::MAX;
                self.push(
                    Op::Slice(Slice {
                        dim,
                        start,
                        end,
                        step,
                    }),
                    &[x.into()],
                );
            }
            26 if rank > 0 => self.push(Op::Flip(Flip { mask: 1 << dim }), &[x.into()]),
            27 if rank > 0 => {
                let y = self.half();
                self.push(Op::Cat(Cat { dim }), &[x.into(), y.into()]);
            }
            28 => self.push(Op::Composite(Composite::Frac), &[x.into()]),
            29 if rank == 2 && shape[1] <= 64 => {
                let (w, b) = (self.input(&[3, shape[1]]), self.input(&[3]));
                let op = Op::Composite(Composite::Linear(Linear { bias: true }));
                self.push(op, &[x.into(), w.into(), b.into()]);
            }
            _ => {}
        }
    }
}
