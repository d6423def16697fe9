//! Positions of extremes along contiguous columns: ir R3 with little work for each vector.
//!
//! An accumulator keeps for each lane the best value and the number of the vector it came from, in 32 bits; positions
//! are made of them at the end. NaN is only noticed: where one was, the first is searched for afterwards.

use crate::body::{BodyOp, Value};
use crate::emit::cpu::index::Step;
use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::reduce::{Reduction, complement};
use crate::emit::cpu::stage::Loop;
use crate::emit::cpu::value::{At, COLUMN, COUNT};
use crate::kernel::ir::{Block, Expr, Function, Infix, Local, Name, Part, Stmt, Type};
use ferrotrace_kernels::{BinaryOp, ReduceKind, UnaryOp};
use ferrotrace_runtime::DType;

impl Writer<'_> {
    /// Whether the positions of all the loop's extremes follow from the number of the vector.
    pub(in crate::emit::cpu) fn counts_vectors(&mut self, l: &Loop) -> bool {
        let simple = self.walked_vars().is_empty() && l.restore.is_empty() && l.save.is_empty();
        simple
            && l.reduces
                .iter()
                .all(|&id| match &self.node.body.value(id).op {
                    BodyOp::Reduce {
                        position: Some(e), ..
                    } => {
                        let e = e.clone();
                        self.index(&e).step == Step::Unit
                    }
                    _ => true,
                })
    }

    /// The position of the element at a vector position.
    fn position_at(&mut self, id: Value, at: &Expr) -> Expr {
        match &self.node.body.value(id).op {
            BodyOp::Reduce {
                position: Some(e), ..
            } => {
                let e = e.clone();
                self.index(&e).at(at)
            }
            _ => at.clone(),
        }
    }

    pub(in crate::emit::cpu) fn declare_extreme(
        &self,
        out: &mut Block,
        r: &Reduction,
        copies: usize,
    ) {
        let (ty, zero) = (self.vector_type(DType::I32), self.set(DType::I32, 0));
        let places = (0..copies).map(|c| Name::copy(Part::Places, r.id, c));
        let nans = r.dtype.is_float().then(|| r.part(Part::Nans));
        let all = places.chain(nans);
        out.extend(all.map(|name| Stmt::variable(name, ty, zero.clone())));
    }

    fn beats(&self, r: &Reduction, a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
        let op = match r.kind {
            ReduceKind::ArgMax => BinaryOp::Gt,
            _ => BinaryOp::Lt,
        };
        self.binary(op, r.dtype, a.into(), b.into())
    }

    fn is_nan(&self, r: &Reduction, v: Name) -> Expr {
        self.unary(UnaryOp::IsNan, r.dtype, v.into())
    }

    /// One of two vectors of 32-bit integers, lane by lane as a mask says.
    fn choose(&self, mask: Name, a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
        self.support("sel", DType::I32, [mask.into(), a.into(), b.into()])
    }

    /// Takes the reduced value of the vector that is counted, or its first lanes, into accumulator `copy`.
    pub(in crate::emit::cpu) fn update_extreme(
        &self,
        r: &Reduction,
        copy: usize,
        lanes: Option<&Expr>,
    ) -> Stmt {
        let mut value = Name::value(r.value);
        let mut block = Block::new();
        if let Some(m) = lanes {
            let kept = [self.live_lanes(m), value.into(), self.identity(r)];
            value = r.part(Part::Live);
            let kept = self.support("sel", r.dtype, kept);
            block.push(Stmt::constant(value, self.vector_type(r.dtype), kept));
        }
        let (acc, places) = (r.accumulator(copy), Name::copy(Part::Places, r.id, copy));
        let mask = r.part(Part::Better);
        let best = self.support("sel", r.dtype, [mask.into(), value.into(), acc.into()]);
        block.push(Stmt::constant(
            mask,
            self.vector_type(DType::Bool),
            self.beats(r, value, acc),
        ));
        block.push(Stmt::assign(acc, best));
        block.push(Stmt::assign(
            places,
            self.choose(mask, Local::Vector, places),
        ));
        if r.dtype.is_float() {
            let nan = self.is_nan(r, value);
            block.push(Stmt::update(r.part(Part::Nans), Infix::BitOr, nan));
        }
        Stmt::Scope(block)
    }

    /// Joins an accumulator's copy `c` to the first: the better element, the earlier of equals.
    fn join_extremes(&self, r: &Reduction, c: usize) -> Stmt {
        let (acc, other) = (r.accumulator(0), r.accumulator(c));
        let places = Name::copy(Part::Places, r.id, 0);
        let others = || Expr::from(Name::copy(Part::Places, r.id, c)) + c as i64;
        let (mask, ty) = (Name::from(Local::Mask), self.vector_type(DType::Bool));
        let earlier = others().less(places).cast(ty);
        let better = self.beats(r, other, acc);
        let equal = complement(self.beats(r, acc, other)) & earlier;
        let best = self.support("sel", r.dtype, [mask.into(), other.into(), acc.into()]);
        Stmt::Scope(Block::from([
            Stmt::constant(mask, ty, better | equal),
            Stmt::assign(acc, best),
            Stmt::assign(places, self.choose(mask, others(), places)),
        ]))
    }

    /// The first lane of a mask.
    fn first_lane(&self, mask: Name) -> Expr {
        let none = self.set(DType::I32, i64::from(i32::MAX));
        let lanes = self.choose(mask, self.iota(DType::I32), none);
        self.support("hmin", DType::I32, [lanes])
    }

    /// Leaves the best value and its position.
    pub(in crate::emit::cpu) fn end_extreme(
        &mut self,
        out: &mut Block,
        l: &Loop,
        r: &Reduction,
        copies: usize,
        (start, end): (&Expr, &Expr),
    ) {
        out.extend((1..copies).map(|c| self.join_extremes(r, c)));
        let (acc, places) = (r.accumulator(0), Name::copy(Part::Places, r.id, 0));
        let (best, place) = (r.part(Part::Best), r.part(Part::Place));
        let mask = Name::from(Local::Mask);
        let (bits, ints) = (self.vector_type(DType::Bool), self.vector_type(DType::I32));
        let all = self.set(r.dtype, best);
        let equal = self.binary(BinaryOp::Eq, r.dtype, acc.into(), all);
        let none = self.set(DType::I32, i64::from(i32::MAX));
        let vectors = self.choose(mask, places, none);
        let first = self.support("hmin", DType::I32, [Local::First.into()]);
        let same = Expr::from(Local::First).equals(Local::Other).cast(bits);
        let from = self.position_at(r.id, start);
        let vector = Expr::from(Local::Other).cast(Type::LONG) * self.lanes as i64;
        let position = from + vector + self.first_lane(mask);
        let horizontal = self.horizontal(r, acc);
        out.push(Stmt::variable(best, Type::scalar(r.dtype), horizontal));
        out.push(Stmt::unset(place, Type::LONG));
        out.push(Stmt::Scope(Block::from([
            Stmt::variable(mask, bits, equal),
            Stmt::constant(Local::First, ints, vectors),
            Stmt::constant(Local::Other, Type::INT, first),
            Stmt::assign(mask, same),
            Stmt::assign(place, position),
        ])));
        if r.dtype.is_float() {
            self.first_nan(out, l, r, (start, end));
        }
    }

    /// Where a NaN was seen, it and its position take the place of the best.
    fn first_nan(
        &mut self,
        out: &mut Block,
        l: &Loop,
        r: &Reduction,
        (start, end): (&Expr, &Expr),
    ) {
        let (best, place) = (r.part(Part::Best), r.part(Part::Place));
        let (mask, ty) = (Name::from(Local::Mask), self.vector_type(DType::Bool));
        let any = |mask: Name| Expr::call(Function::Any(self.lanes as u16), [mask.into()]);
        let found = any(mask);
        let seen = any(r.part(Part::Nans));
        let position = self.position_at(r.id, &COLUMN) + self.first_lane(mask);
        let take = Stmt::when(
            found,
            [
                Stmt::assign(place, position),
                Stmt::assign(best, Expr::float(r.dtype, f64::NAN)),
            ],
        );
        let nan = self.is_nan(r, Name::value(r.value));
        let step = |w: &mut Self, out: &mut Block, lanes: Option<&Expr>| {
            let at = At {
                position: &COLUMN,
                lanes,
            };
            for &v in &l.compute {
                w.statement(out, v, at);
            }
        };
        let (mut full, mut tail) = (Block::new(), Block::new());
        step(self, &mut full, None);
        full.push(Stmt::constant(mask, ty, nan.clone()));
        full.push(take.clone());
        full.push(Stmt::update(Local::Column, Infix::Add, self.lanes as i64));
        let left = end.clone() - Local::Column;
        tail.push(Stmt::constant(Local::Count, Type::LONG, left));
        step(self, &mut tail, Some(&COUNT));
        tail.push(Stmt::constant(mask, ty, nan & self.live_lanes(&COUNT)));
        tail.push(take);
        let searching = || Expr::from(place).less(0);
        let whole = (COLUMN + self.lanes as i64).at_most(end.clone());
        let search = Block::from([
            Stmt::assign(place, -1),
            Stmt::variable(Local::Column, Type::INDEX, start.clone()),
            Stmt::While(searching().and(whole), full),
            Stmt::when(searching(), tail),
        ]);
        out.push(Stmt::when(seen, search));
    }
}
