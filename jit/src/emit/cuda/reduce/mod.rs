//! Reductions: a thread's accumulators. Their combination over the threads of a row (`gather.rs`), and over
//! the pieces of one (`slots.rs`), has an order that depends on sizes alone, so that a program gives the same bits on
//! every device.

mod across;
mod compensated;
mod gather;
mod slots;

use super::kernel::Writer;
use crate::body::{BodyOp, Value};
use crate::kernel::ir::{Block, Expr, Function, Local, Name, Part, Stmt, Type};
use ferrotrace_kernels::{BinaryOp, ReduceKind};
use ferrotrace_runtime::DType;

pub(super) use compensated::RUN;
pub(super) use slots::SLOT;

/// A reduction of a fused node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reduction {
    /// Its value number.
    pub id: Value,
    /// What is reduced.
    pub value: Value,
    /// What is computed.
    pub kind: ReduceKind,
    /// The accumulator's type: that of the values.
    pub dtype: DType,
    /// Whether it is the fold of a scan.
    pub scan: bool,
}

impl Reduction {
    /// Whether a position is kept beside the value.
    pub fn has_position(&self) -> bool {
        matches!(self.kind, ReduceKind::ArgMax | ReduceKind::ArgMin)
    }

    /// The value that no element changes.
    pub fn identity(&self) -> Expr {
        let value = match self.kind {
            // The first element of a scan stays −0.
            ReduceKind::Sum if self.scan && self.dtype.is_float() => Expr::float(DType::F64, -0.0),
            ReduceKind::Sum | ReduceKind::Mean | ReduceKind::Any => Expr::Integer(0),
            ReduceKind::Prod | ReduceKind::All => Expr::Integer(1),
            ReduceKind::Max | ReduceKind::ArgMax => self.least(),
            ReduceKind::Min | ReduceKind::ArgMin => self.greatest(),
        };
        value.cast(self.ty())
    }

    /// The least value of its type.
    fn least(&self) -> Expr {
        match self.dtype {
            DType::F32 | DType::F64 => Expr::float(self.dtype, f64::NEG_INFINITY),
            DType::I64 => Expr::Integer(i64::MIN),
            DType::I32 => Expr::Integer(i32::MIN.into()),
            DType::I16 => Expr::Integer(i16::MIN.into()),
            DType::I8 => Expr::Integer(i8::MIN.into()),
            DType::U8 | DType::Bool | DType::F16 | DType::BF16 => Expr::Integer(0),
        }
    }

    /// The greatest value of its type.
    fn greatest(&self) -> Expr {
        match self.dtype {
            DType::F32 | DType::F64 => Expr::float(self.dtype, f64::INFINITY),
            DType::I64 => Expr::Integer(i64::MAX),
            DType::I32 => Expr::Integer(i32::MAX.into()),
            DType::I16 => Expr::Integer(i16::MAX.into()),
            DType::I8 => Expr::Integer(i8::MAX.into()),
            DType::U8 => Expr::Integer(u8::MAX.into()),
            DType::Bool | DType::F16 | DType::BF16 => Expr::Integer(1),
        }
    }

    /// Something that is kept of it.
    pub fn part(&self, part: Part) -> Name {
        Name::of(part, self.id)
    }

    /// The accumulator of lane 0, which is the only one of a reduction with positions.
    pub fn accumulator(&self) -> Expr {
        match self.has_position() {
            true => self.part(Part::Accumulator).into(),
            false => self.lane(0),
        }
    }

    /// The accumulator of a lane.
    pub fn lane(&self, lane: impl Into<Expr>) -> Expr {
        Expr::from(self.part(Part::Accumulator)).element(lane)
    }

    /// The position beside the accumulator.
    pub fn place(&self) -> Expr {
        self.part(Part::Places).into()
    }

    fn operator(&self) -> BinaryOp {
        match self.kind {
            ReduceKind::Sum | ReduceKind::Mean => BinaryOp::Add,
            ReduceKind::Prod => BinaryOp::Mul,
            ReduceKind::Any => BinaryOp::LogicalOr,
            ReduceKind::All => BinaryOp::LogicalAnd,
            ReduceKind::Max | ReduceKind::ArgMax => BinaryOp::Maximum,
            ReduceKind::Min | ReduceKind::ArgMin => BinaryOp::Minimum,
        }
    }

    /// The type of its values.
    pub fn ty(&self) -> Type {
        Type::scalar(self.dtype)
    }

    /// Whether (x, i) is to replace (best, place): a greater value wins, NaN over all, the first of equals stays; no
    /// place is negative but that of nothing.
    fn better(&self, x: &Expr, i: &Expr, best: &Expr, place: &Expr) -> Expr {
        let (x, i, best, place) = (
            || x.clone(),
            || i.clone(),
            || best.clone(),
            || place.clone(),
        );
        let wins = match self.kind {
            ReduceKind::ArgMax => x().greater(best()),
            _ => x().less(best()),
        };
        let (is_nan, best_is_nan) = (x().differs(x()), best().differs(best()));
        let over = is_nan.clone().and(best().equals(best()));
        let equal = x().equals(best()).or(is_nan.and(best_is_nan));
        let first = equal.and(i().less(place()));
        let better = place().less(0).or(wins).or(over).or(first);
        i().at_least(0).and(better)
    }
}

impl Writer<'_> {
    /// The reduction, or scan, of a value number.
    pub(super) fn reduction(&self, id: Value) -> Reduction {
        let op = &self.node.body.value(id).op;
        match *op {
            BodyOp::Reduce { kind, value, .. } | BodyOp::Scan { kind, value } => Reduction {
                id,
                value,
                kind,
                dtype: self.node.body.value(value).dtype,
                scan: matches!(op, BodyOp::Scan { .. }),
            },
            _ => unreachable!("only reductions are asked for"),
        }
    }

    pub(super) fn combine(&self, r: &Reduction, a: Expr, b: Expr) -> Expr {
        // One instruction, which differs in the sign of zeros alone.
        if r.dtype == DType::F32 && !self.node.exact && !r.has_position() {
            match r.kind {
                ReduceKind::Max => return Expr::call(Function::Maximum, [a, b]),
                ReduceKind::Min => return Expr::call(Function::Minimum, [a, b]),
                _ => {}
            }
        }
        Expr::call(Function::Binary(r.operator(), r.dtype, 0), [a, b])
    }

    /// Declares a thread's accumulators: one a lane, or one with its place.
    pub(super) fn declare_accumulators(&self, out: &mut Block, r: &Reduction, lanes: usize) {
        let accumulator = r.part(Part::Accumulator);
        if r.has_position() {
            out.push(Stmt::variable(accumulator, r.ty(), r.identity()));
            out.push(Stmt::variable(r.part(Part::Places), Type::LONG, -1));
        } else {
            out.push(Stmt::filled(accumulator, r.ty(), lanes, r.identity()));
        }
        if self.is_long(r) {
            self.declare_total(out, r);
        }
    }

    /// Takes lane `l`'s value into the accumulators, if it counts.
    pub(super) fn accumulate(&self, out: &mut Block, r: &Reduction, position: Option<Expr>) {
        let value = || Expr::from(Name::value(r.value));
        if let Some(position) = position.filter(|_| r.has_position()) {
            let merge = match self.merge(r, value(), Local::Position.into()) {
                Stmt::If(better, then, _) => Stmt::when(self.counts().and(better), then),
                other => other,
            };
            let position = Stmt::constant(Local::Position, Type::LONG, position);
            out.push(Stmt::Scope(Block::from([position, merge])));
        } else {
            let lane = || r.lane(Local::Lane);
            let next = self.combine(r, lane(), value());
            out.push(Stmt::when(self.counts(), Stmt::assign(lane(), next)));
        }
    }

    /// The lanes of a thread's accumulators as one, the first, by halves.
    pub(super) fn fold_lanes(&self, out: &mut Block, r: &Reduction, lanes: usize) {
        self.settle(out, r, lanes);
        let mut width = lanes;
        while width > 1 && !r.has_position() {
            width /= 2;
            for l in 0..width {
                let [a, b] = [l, l + width].map(|l| r.lane(l as i64));
                let sum = self.combine(r, a.clone(), b);
                out.push(Stmt::assign(a, sum));
            }
        }
    }

    /// Declares the finished value.
    pub(super) fn finished(&self, out: &mut Block, r: &Reduction) {
        let result = r.part(Part::Result);
        out.push(match r.has_position() {
            true => Stmt::constant(result, Type::LONG, r.place()),
            false => Stmt::constant(result, r.ty(), r.lane(0)),
        });
    }
}

/// The sum of elements `from` to `to` of an array, by halves.
pub(super) fn tree(array: Name, from: usize, to: usize) -> Expr {
    match to - from {
        1 => Expr::from(array).element(from as i64),
        n => {
            let middle = from + n / 2;
            tree(array, from, middle) + tree(array, middle, to)
        }
    }
}
