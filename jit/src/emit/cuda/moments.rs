//! Sums about a mean in the pass that computes the mean (see [`crate::schedule::Moment`]).
//!
//! Each thread sums about the first value it meets, which is as good as any: a value far from the others makes the sum
//! of squares itself large. Once the mean is known, that of a piece where rows are split, the threads' sums are moved to
//! it and combined; the second kernel moves those of the pieces to the row's.

use super::kernel::Writer;
use super::reduce::Reduction;
use crate::body::{BodyOp, Value};
use crate::kernel::ir::{Block, Expr, Infix, Local, Name, OnDevice, Part, Stmt, Type};
use crate::schedule::Moment;
use ferrotrace_runtime::DType;

impl Writer<'_> {
    /// The reductions of a loop in two parts: those about a mean, and the others.
    pub(super) fn parted(&self, all: &[Reduction]) -> (Vec<Reduction>, Vec<Reduction>) {
        all.iter()
            .partition(|r| self.moments.iter().any(|m| m.reduce == r.id))
    }

    /// The means that sums are about, each after the value that it is the mean of, in order of these values.
    fn means(&self) -> Vec<(Value, Value)> {
        let body = &self.node.body;
        let of = |m: &Moment| match body.value(m.plain).op {
            BodyOp::Reduce { value, .. } => match body.value(value).op {
                BodyOp::Binary(_, x, _) => Some((x, m.mean)),
                _ => None,
            },
            _ => None,
        };
        let mut all: Vec<_> = self.moments.iter().filter_map(of).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The type of a value.
    pub(super) fn type_of(&self, value: Value) -> Type {
        Type::scalar(self.node.body.value(value).dtype)
    }

    /// Declares what a thread sums about, and the number of its elements.
    pub(super) fn declare_shifts(&self, out: &mut Block) {
        for (_, mean) in self.means() {
            let about = Name::of(Part::About, mean);
            out.push(Stmt::variable(about, self.type_of(mean), 0));
        }
        if !self.moments.is_empty() {
            out.push(Stmt::variable(OnDevice::Counted, Type::INDEX, 0));
        }
    }

    /// After `value` of an element: makes the first one of a thread, in chunk `first`, the number that is summed about, in
    /// the place of the mean.
    pub(super) fn take_shift(&self, out: &mut Block, value: Value, first: &Expr) {
        for (x, mean) in self.means() {
            if x == value {
                let about = Name::of(Part::About, mean);
                let is_first = Expr::from(Local::Lane).equals(0);
                let is_first = is_first.and(Expr::from(Local::Index).equals(first.clone()));
                out.push(Stmt::when(is_first, Stmt::assign(about, Name::value(x))));
                out.push(Stmt::constant(Name::value(mean), self.type_of(mean), about));
            }
        }
    }

    /// How many elements of a row come before a chunk.
    fn elements_before(&mut self, chunk: Local) -> Expr {
        let last = self.extents.len() - 1;
        let n = self.param(self.extents[last] as i64);
        let lanes = self.shape.lanes as i64;
        let chunk = || Expr::from(chunk);
        if self.node.iter.len() == last {
            return (chunk() * lanes).least(n);
        }
        let line = self.divisor(self.shape.line as i64);
        chunk() / line * n + (chunk() % line * lanes).least(n)
    }

    /// The means of a piece, from its sums.
    pub(super) fn piece_means(&mut self, out: &mut Block) {
        let end = self.elements_before(Local::End);
        let count = end - self.elements_before(Local::Low);
        let mut seen = Vec::new();
        for m in &self.moments {
            if !seen.contains(&m.mean) {
                seen.push(m.mean);
                let ty = self.type_of(m.mean);
                let mean = first_of(m.sum) / count.clone().cast(ty);
                out.push(Stmt::constant(Name::of(Part::PieceMean, m.mean), ty, mean));
            }
        }
    }

    /// Moves a thread's sums from its own number to the mean that `part` of a mean's value is, lanes folded.
    pub(super) fn move_sums(&mut self, out: &mut Block, moments: &[Reduction], part: Part) {
        for r in moments {
            self.fold_lanes(out, r, self.shape.lanes);
        }
        // The squares need the plain sums as they are.
        let mut ordered = self.moments.clone();
        ordered.sort_by_key(|m| !m.square);
        let counted = || Expr::from(OnDevice::Counted);
        let d = || Expr::from(Local::Difference);
        let moved = ordered.into_iter().map(|m| {
            let ty = self.type_of(m.reduce);
            let all = counted().cast(ty) * d();
            let far = Expr::from(Name::of(Part::About, m.mean)) - Name::of(part, m.mean);
            let moved = match m.square {
                true => d() * (Expr::Integer(2) * first_of(m.plain) + all),
                false => all,
            };
            Stmt::Scope(Block::from([
                Stmt::constant(Local::Difference, ty, far),
                Stmt::update(first_of(m.reduce), Infix::Add, moved),
            ]))
        });
        out.push(Stmt::when(counted().greater(0), moved.collect::<Block>()));
    }

    /// Takes the moments of piece `c` of a row whose means are known: moved to them, in binary64.
    pub(super) fn take_moments(&mut self, out: &mut Block) {
        let (per, chunks) = (self.shape.per_piece(), self.shape.chunks);
        let (per, chunks) = (self.param(per as i64), self.param(chunks as i64));
        let low = Expr::from(Local::Index) * per;
        out.push(Stmt::constant(Local::Low, Type::INDEX, low));
        let end = (Expr::from(Local::Low) + per).least(chunks);
        out.push(Stmt::constant(Local::End, Type::INDEX, end));
        let after = self.elements_before(Local::End);
        let count = after - self.elements_before(Local::Low);
        out.push(Stmt::constant(Local::Length, Type::INDEX, count));
        for m in &self.moments {
            out.push(Stmt::Scope(self.take_moment(m)));
        }
    }

    fn take_moment(&self, m: &Moment) -> Block {
        let (ty, wide) = (self.type_of(m.reduce), Type::scalar(DType::F64));
        let read = |id: Value| self.in_slot(&self.reduction(id));
        let mean = read(m.sum) / Expr::from(Local::Length).cast(ty);
        let far = mean.cast(wide) - Expr::from(Name::value(m.mean)).cast(wide);
        let d = || Expr::from(Local::Difference);
        let all = Expr::from(Local::Length) * d();
        // Where the means are infinite or NaN, so are all differences.
        let (far_off, near) = match m.square {
            true => {
                let plain = Expr::Integer(2) * read(m.plain).cast(wide);
                (d() * d(), read(m.reduce) + d() * (plain + all))
            }
            false => (d(), read(m.reduce) + all),
        };
        let moved = (d() - d()).equals(0).choose(near, far_off).cast(ty);
        Block::from([
            Stmt::constant(Local::Difference, wide, far),
            Stmt::update(first_of(m.reduce), Infix::Add, moved),
        ])
    }
}

/// The first accumulator of a sum.
fn first_of(sum: Value) -> Expr {
    Expr::from(Name::of(Part::Accumulator, sum)).element(0)
}
