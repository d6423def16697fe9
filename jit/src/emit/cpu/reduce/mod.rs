//! Reductions: accumulators, their updates, and their combination in a fixed order (DESIGN: determinism).

mod extreme;
pub(in crate::emit::cpu) mod finish;
mod gathered;
pub(in crate::emit::cpu) mod moments;
mod scan;
pub(in crate::emit::cpu) mod totals;

use crate::body::{BodyOp, Value};
use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::lanes::short_positions;
use crate::expr::{self, Term};
use crate::kernel::ir::{
    Axis, Block, Expr, Function, Infix, Local, Loop, Name, Part, Prefix, Stmt, Type, ValueType,
};
use ferrotrace_kernels::support::mask_dtype;
use ferrotrace_kernels::{BinaryOp, ReduceKind, UnaryOp};
use ferrotrace_runtime::DType;

/// A reduction of a fused node.
#[derive(Clone, Copy, Debug)]
pub(in crate::emit::cpu) struct Reduction {
    /// Its value number.
    pub id: Value,
    /// What is reduced.
    pub value: Value,
    /// What is computed.
    pub kind: ReduceKind,
    /// The accumulator's type: that of the values.
    pub dtype: DType,
}

impl Reduction {
    /// Whether a position is kept beside the value.
    pub fn has_position(&self) -> bool {
        crate::emit::cpu::stage::has_position(self.kind)
    }

    /// The value no element changes (ir R5).
    pub fn identity(&self) -> Expr {
        let (least, greatest) = match self.dtype {
            DType::F32 | DType::F64 => (
                Expr::float(self.dtype, f64::NEG_INFINITY),
                Expr::float(self.dtype, f64::INFINITY),
            ),
            DType::I64 => (Expr::Integer(i64::MIN), Expr::Integer(i64::MAX)),
            DType::I32 => (
                Expr::Integer(i32::MIN.into()),
                Expr::Integer(i32::MAX.into()),
            ),
            DType::I16 => (
                Expr::Integer(i16::MIN.into()),
                Expr::Integer(i16::MAX.into()),
            ),
            DType::I8 => (Expr::Integer(i8::MIN.into()), Expr::Integer(i8::MAX.into())),
            DType::U8 => (Expr::Integer(0), Expr::Integer(u8::MAX.into())),
            DType::Bool | DType::F16 | DType::BF16 => (Expr::Integer(0), Expr::Integer(1)),
        };
        match self.kind {
            ReduceKind::Sum | ReduceKind::Mean | ReduceKind::Any => Expr::Integer(0),
            ReduceKind::Prod | ReduceKind::All => Expr::Integer(1),
            ReduceKind::Max | ReduceKind::ArgMax => least,
            ReduceKind::Min | ReduceKind::ArgMin => greatest,
        }
    }

    /// The accumulator of one copy of a loop's body.
    pub fn accumulator(&self, copy: usize) -> Name {
        Name::copy(Part::Accumulator, self.id, copy)
    }

    /// Something of the reduction that there is one of.
    pub fn part(&self, part: Part) -> Name {
        Name::of(part, self.id)
    }

    /// Whether one number is better than another.
    fn comparison(&self) -> (BinaryOp, Infix) {
        match self.kind {
            ReduceKind::ArgMax => (BinaryOp::Gt, Infix::Greater),
            _ => (BinaryOp::Lt, Infix::Less),
        }
    }

    /// Whether one number is worse than another or equal.
    fn no_better(&self) -> BinaryOp {
        match self.kind {
            ReduceKind::ArgMax => BinaryOp::Le,
            _ => BinaryOp::Ge,
        }
    }

    /// The support function that is the greater or the lesser of two numbers.
    pub fn extreme_of(&self) -> &'static str {
        match self.kind {
            ReduceKind::Max | ReduceKind::ArgMax => "max_of",
            _ => "min_of",
        }
    }

    pub fn operator(&self) -> BinaryOp {
        match self.kind {
            ReduceKind::Sum | ReduceKind::Mean => BinaryOp::Add,
            ReduceKind::Prod => BinaryOp::Mul,
            ReduceKind::Any => BinaryOp::LogicalOr,
            ReduceKind::All => BinaryOp::LogicalAnd,
            ReduceKind::Max | ReduceKind::ArgMax => BinaryOp::Maximum,
            ReduceKind::Min | ReduceKind::ArgMin => BinaryOp::Minimum,
        }
    }
}

impl Writer<'_> {
    /// The reduction of a value number.
    pub(in crate::emit::cpu) fn reduction(&self, id: Value) -> Reduction {
        match self.node.body.value(id).op {
            BodyOp::Reduce { kind, value, .. } => Reduction {
                id,
                value,
                kind,
                dtype: self.node.body.value(value).dtype,
            },
            _ => unreachable!("only reductions are asked for"),
        }
    }

    /// The dtype of the positions beside accumulators.
    pub(in crate::emit::cpu) fn place_dtype(&self, r: &Reduction) -> DType {
        match r.dtype.size() < 8 && short_positions(self.node, r.id) {
            true => DType::I32,
            false => DType::I64,
        }
    }

    /// Whether the first element that an accumulator takes is at position 0, which then stands for all before a better one.
    /// A lane of columns need not take any.
    pub(in crate::emit::cpu) fn begins_at_first(&self, r: &Reduction) -> bool {
        let rows = self.node.iter.len();
        let BodyOp::Reduce { position, .. } = &self.node.body.value(r.id).op else {
            return false;
        };
        let first = |e: &expr::Expr| {
            let is_column =
                |(term, _): &(Term, i64)| matches!(term, Term::Var(v) if v.0 as usize >= rows);
            e.constant() == 0 && e.terms().iter().all(is_column)
        };
        self.outer && position.as_ref().is_some_and(first)
    }

    /// A vector of the reduction's identity.
    pub(in crate::emit::cpu) fn identity(&self, r: &Reduction) -> Expr {
        self.set(r.dtype, r.identity())
    }

    /// An operator of two vectors of one dtype.
    pub(in crate::emit::cpu) fn binary(
        &self,
        op: BinaryOp,
        dtype: DType,
        a: Expr,
        b: Expr,
    ) -> Expr {
        Expr::call(Function::Binary(op, dtype, self.lanes as u16), [a, b])
    }

    /// An operator of a vector.
    pub(in crate::emit::cpu) fn unary(&self, op: UnaryOp, dtype: DType, a: Expr) -> Expr {
        Expr::call(Function::Unary(op, dtype, self.lanes as u16), [a])
    }

    /// The combination of two accumulators of a reduction without position.
    pub(in crate::emit::cpu) fn combine(
        &self,
        r: &Reduction,
        a: impl Into<Expr>,
        b: impl Into<Expr>,
    ) -> Expr {
        self.binary(r.operator(), r.dtype, a.into(), b.into())
    }

    /// Takes the reduced value (of lanes `lanes`, or all) into accumulator `acc` (and its position `at` into `places`).
    /// ir R3: a greater value wins, NaN over all, the first of equals stays.
    pub(in crate::emit::cpu) fn update(
        &self,
        r: &Reduction,
        (acc, places): (Expr, Expr),
        at: Option<Expr>,
        lanes: Option<&Expr>,
    ) -> Stmt {
        let v = Expr::from(self.name(r.value));
        let Some(at) = at else {
            let value = match lanes {
                Some(m) => {
                    let live = self.live_lanes(m);
                    self.support("sel", r.dtype, [live, v, self.identity(r)])
                }
                None => v,
            };
            // NaN is looked for in the value, which no earlier update delays; one that is held stays.
            let extreme = matches!(r.kind, ReduceKind::Max | ReduceKind::Min);
            let next = match extreme && r.dtype.is_float() {
                true => self.combine(r, value, acc.clone()),
                false => self.combine(r, acc.clone(), value),
            };
            return Stmt::assign(acc, next);
        };
        if r.dtype.size() == 8 && lanes.is_none() {
            return self.update_wide(r, (acc, places), (v, at));
        }
        let compare = |op| self.binary(op, r.dtype, v.clone(), acc.clone());
        let mut take = match r.dtype.is_float() {
            false => compare(r.comparison().0),
            true => {
                // NaN is no worse than what is held.
                let held = self.unary(UnaryOp::IsNan, r.dtype, acc.clone());
                complement(compare(r.no_better())) & complement(held)
            }
        };
        let dtype = self.place_dtype(r);
        if !self.begins_at_first(r) {
            let zeros = Expr::Zeros.cast(self.vector_type(dtype));
            take = take | self.binary(BinaryOp::Lt, dtype, places.clone(), zeros);
        }
        if let Some(m) = lanes {
            take = take & self.live_lanes(m);
        }
        let mask = r.part(Part::Better);
        let value = self.support("sel", r.dtype, [mask.into(), v, acc.clone()]);
        let place = self.support("sel", dtype, [mask.into(), at, places.clone()]);
        Stmt::Scope(Block::from([
            Stmt::constant(mask, self.vector_type(DType::Bool), take),
            Stmt::assign(acc, value),
            Stmt::assign(places, place),
        ]))
    }

    /// [`update`](Self::update) of elements of eight bytes, by masks as wide as these.
    fn update_wide(
        &self,
        r: &Reduction,
        (acc, places): (Expr, Expr),
        (v, at): (Expr, Expr),
    ) -> Stmt {
        let better = match r.kind {
            ReduceKind::ArgMax => "above",
            _ => "below",
        };
        let mut take = self.support(better, r.dtype, [v.clone(), acc.clone()]);
        if !self.begins_at_first(r) {
            let zeros = Expr::Zeros.cast(self.vector_type(DType::I64));
            take = take | self.support("below", DType::I64, [places.clone(), zeros]);
        }
        let mask = r.part(Part::Better);
        let value = self.support("pick", r.dtype, [mask.into(), v, acc.clone()]);
        let place = self.support("pick", DType::I64, [mask.into(), at, places.clone()]);
        Stmt::Scope(Block::from([
            Stmt::constant(mask, self.vector_type(DType::I64), take),
            Stmt::assign(acc, value),
            Stmt::assign(places, place),
        ]))
    }

    /// The mask of the first `m` lanes.
    pub(in crate::emit::cpu) fn live_lanes(&self, m: &Expr) -> Expr {
        let mask = mask_dtype(self.lanes);
        let count = m.clone().cast(Type::Value(ValueType::Scalar(mask)));
        let live = self.iota(mask).less(count);
        live.cast(self.vector_type(DType::Bool))
    }

    /// A scalar expression of the accumulator's lanes combined, in a fixed tree.
    pub(in crate::emit::cpu) fn horizontal(&self, r: &Reduction, acc: impl Into<Expr>) -> Expr {
        let stem = match r.kind {
            ReduceKind::Sum | ReduceKind::Mean => "hsum",
            ReduceKind::Prod => "hprod",
            ReduceKind::Any => "hany",
            ReduceKind::All => "hall",
            ReduceKind::Max | ReduceKind::ArgMax => "hmax",
            ReduceKind::Min | ReduceKind::ArgMin => "hmin",
        };
        self.support(stem, r.dtype, [acc.into()])
    }

    /// Leaves in the best and its place the best of the lanes of `acc` and `places`.
    pub(in crate::emit::cpu) fn best_lane(&self, r: &Reduction, acc: Name, places: Name) -> Stmt {
        let (best, place) = (r.part(Part::Best), r.part(Part::Place));
        let lane = |name: Name| Expr::from(name).element(Local::Lane);
        let taken = lane(places).at_least(0);
        let better = better(r, &lane(acc), &lane(places));
        let take = Block::from([
            Stmt::assign(best, lane(acc)),
            Stmt::assign(place, lane(places)),
        ]);
        Loop::over(Local::Lane, 0, self.lanes as i64)
            .of_type(ValueType::Scalar(DType::I32))
            .along(Axis::Lane)
            .each(Stmt::when(taken.and(better), take))
    }

    /// Declares a scalar best and its place, unset.
    pub(in crate::emit::cpu) fn declare_best(&self, out: &mut Block, r: &Reduction) {
        let ty = Type::scalar(r.dtype);
        out.push(Stmt::variable(r.part(Part::Best), ty, 0));
        out.push(Stmt::variable(r.part(Part::Place), Type::LONG, -1));
    }
}

/// Every bit of a mask turned.
pub(in crate::emit::cpu) fn complement(mask: Expr) -> Expr {
    Expr::Prefix(Prefix::Complement, Box::new(mask))
}

/// Whether number `x` at position `i` is to replace the best and its place.
pub(in crate::emit::cpu) fn better(r: &Reduction, x: &Expr, i: &Expr) -> Expr {
    let best = || Expr::from(r.part(Part::Best));
    let place = || Expr::from(r.part(Part::Place));
    let (x, i) = (|| x.clone(), || i.clone());
    let differs = |a: Expr, b: Expr| Expr::infix(Infix::Unequal, a, b);
    let greater = Expr::infix(r.comparison().1, x(), best());
    let first_nan = differs(x(), x()).and(best().equals(best()));
    let both_nan = differs(x(), x()).and(differs(best(), best()));
    let earlier = x().equals(best()).or(both_nan).and(i().less(place()));
    place().less(0).or(greater).or(first_nan).or(earlier)
}
