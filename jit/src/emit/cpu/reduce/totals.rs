//! Long sums. An accumulator that takes in one term after another is rounded at each; once it has become large beside
//! the terms, all of them are rounded alike, and the error grows with their number. So it takes in [`RUN`] terms, is then
//! moved to a total that keeps what its own additions round away (two-sum, Knuth), and begins anew. The error of a sum
//! stays that of a few dozen additions however long it is, in an order that depends on sizes alone.

use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::reduce::Reduction;
use crate::emit::cpu::stage::Loop;
use crate::kernel::ir::{
    self, Axis, Block, Expr, Extent, Infix, Local, Name, Part, Stmt, Type, ValueType,
};
use ferrotrace_kernels::ReduceKind;
use ferrotrace_runtime::DType;

/// Terms that an accumulator takes in before it is moved, where it would take in more. An addition is rounded by at most
/// 2⁻²⁴ of its result: by RUN / 2 of these units of the sum, all together, where terms are alike.
pub(in crate::emit::cpu) const RUN: usize = 32;

impl Reduction {
    /// Whether it is a sum that rounds.
    pub fn is_rounded_sum(&self) -> bool {
        matches!(self.kind, ReduceKind::Sum | ReduceKind::Mean)
            && matches!(self.dtype, DType::F32 | DType::F64)
    }
}

impl Writer<'_> {
    /// The sums of a loop of which an accumulator takes `terms`, if those are too many for it alone.
    pub(in crate::emit::cpu) fn long_sums(&self, l: &Loop, terms: usize) -> Vec<Reduction> {
        let all = l.reduces.iter().map(|&r| self.reduction(r));
        match terms > RUN {
            true => all.filter(Reduction::is_rounded_sum).collect(),
            false => Vec::new(),
        }
    }

    /// Declares the totals of sums.
    pub(in crate::emit::cpu) fn declare_totals(&mut self, out: &mut Block, sums: &[Reduction]) {
        for r in sums {
            let (ty, zero) = (self.vector_type(r.dtype), self.identity(r));
            for part in [Part::Total, Part::Low] {
                out.push(Stmt::variable(r.part(part), ty, zero.clone()));
            }
        }
    }

    /// The number of vectors of the block at hand.
    pub(in crate::emit::cpu) fn vectors(&self) -> Expr {
        let width = self.lanes as i64;
        (Expr::from(Local::High) - Local::Low + width - 1) / width
    }

    /// A loop over so many accumulators of a block.
    pub(in crate::emit::cpu) fn each_accumulator(
        count: impl Into<Expr>,
        body: impl Into<Block>,
    ) -> Stmt {
        ir::Loop::over(Local::Index, 0, count)
            .of_type(ValueType::Scalar(DType::I32))
            .along(Axis::Accumulator)
            .each(body)
    }

    /// The element of an array over a block that a loop over accumulators is at.
    pub(in crate::emit::cpu) fn of_accumulator(name: Name) -> Expr {
        Expr::from(name).element(Local::Index)
    }

    /// Declares an array over a block.
    pub(in crate::emit::cpu) fn block_array(&self, out: &mut Block, name: Name, dtype: DType) {
        let extent = Extent::Array(self.most().into());
        out.push(Stmt::array(name, self.vector_type(dtype), extent));
    }

    /// Declares the totals of a block of rows.
    pub(in crate::emit::cpu) fn declare_block_totals(
        &mut self,
        out: &mut Block,
        sums: &[Reduction],
    ) {
        for r in sums {
            let (total, low) = (r.part(Part::Total), r.part(Part::Low));
            self.block_array(out, total, r.dtype);
            self.block_array(out, low, r.dtype);
            let begin = |name| Stmt::assign(Self::of_accumulator(name), self.identity(r));
            let begin = [begin(low), begin(total)];
            out.push(Self::each_accumulator(self.vectors(), begin));
        }
    }

    /// Adds `term` to a total and what is lost to its low part.
    pub(in crate::emit::cpu) fn two_sum(
        &self,
        r: &Reduction,
        term: Expr,
        total: Expr,
        low: Expr,
    ) -> Stmt {
        let args = [total.address(), low.address(), term];
        Stmt::Call(self.support("two_sum", r.dtype, args))
    }

    /// A total and its low part as one.
    pub(in crate::emit::cpu) fn both_parts(
        &self,
        r: &Reduction,
        total: impl Into<Expr>,
        low: impl Into<Expr>,
    ) -> Expr {
        self.support("both_parts", r.dtype, [total.into(), low.into()])
    }

    /// Moves the copies of accumulators to the totals, and begins them anew.
    pub(in crate::emit::cpu) fn move_copies(&self, sums: &[Reduction], copies: usize) -> Block {
        let mut block = Block::new();
        for r in sums {
            let (total, low) = (r.part(Part::Total), r.part(Part::Low));
            let term = tree(r, 0, copies);
            block.push(self.two_sum(r, term, total.into(), low.into()));
            // From the last, as an assignment of all at once is.
            for c in (0..copies).rev() {
                let value = match c + 1 == copies {
                    true => self.identity(r),
                    false => r.accumulator(c + 1).into(),
                };
                block.push(Stmt::assign(r.accumulator(c), value));
            }
        }
        block
    }

    /// Moves the accumulators of a block to the totals, and begins them anew.
    pub(in crate::emit::cpu) fn move_block(&self, sums: &[Reduction]) -> Block {
        let moved = |r: &Reduction| {
            let of = |part| Self::of_accumulator(r.part(part));
            let (acc, total, low) = (of(Part::Accumulator), of(Part::Total), of(Part::Low));
            let both = self.two_sum(r, acc.clone(), total, low);
            let anew = Stmt::assign(acc, self.identity(r));
            Self::each_accumulator(self.vectors(), [both, anew])
        };
        sums.iter().map(moved).collect()
    }

    /// Moves accumulators that are in registers, of `vectors` from position `left` on, and begins them anew.
    pub(in crate::emit::cpu) fn move_held(
        &self,
        sums: &[Reduction],
        vectors: usize,
        left: Name,
    ) -> Block {
        let mut block = Block::new();
        for r in sums {
            for c in 0..vectors {
                let at = self.vector_at(left, c);
                let acc = r.accumulator(c);
                let of = |part| Expr::from(r.part(part)).element(at.clone());
                let both = self.two_sum(r, acc.into(), of(Part::Total), of(Part::Low));
                block.push(both);
                block.push(Stmt::assign(acc, self.identity(r)));
            }
        }
        block
    }

    /// Which vector of the block is the one so many after a position.
    pub(in crate::emit::cpu) fn vector_at(&self, position: Name, vectors: usize) -> Expr {
        (Expr::from(position) - Local::Low) / self.lanes as i64 + vectors as i64
    }

    /// Leaves the totals of a block in its accumulators.
    pub(in crate::emit::cpu) fn end_block(&self, out: &mut Block, sums: &[Reduction]) {
        out.append(self.move_block(sums));
        for r in sums {
            let of = |part| Self::of_accumulator(r.part(part));
            let sum = self.both_parts(r, of(Part::Total), of(Part::Low));
            let leave = Stmt::assign(of(Part::Accumulator), sum);
            out.push(Self::each_accumulator(self.vectors(), leave));
        }
    }

    /// Declares the low parts of a block's accumulators.
    pub(in crate::emit::cpu) fn declare_low(&self, out: &mut Block, r: &Reduction) {
        let low = r.part(Part::Low);
        self.block_array(out, low, r.dtype);
        let begin = Stmt::assign(Self::of_accumulator(low), self.identity(r));
        out.push(Self::each_accumulator(self.vectors(), begin));
    }

    /// Adds the low parts of a block's accumulators to them.
    pub(in crate::emit::cpu) fn add_low(&self, out: &mut Block, r: &Reduction) {
        let of = |part| Self::of_accumulator(r.part(part));
        let sum = self.both_parts(r, of(Part::Accumulator), of(Part::Low));
        let add = Stmt::assign(of(Part::Accumulator), sum);
        out.push(Self::each_accumulator(self.vectors(), add));
    }

    /// Declares in binary64 the sum of the lanes of a sum that is too long for its own type, with their low parts.
    pub(in crate::emit::cpu) fn wide_sum(
        &self,
        out: &mut Block,
        r: &Reduction,
        total: Name,
        low: Option<Name>,
    ) {
        let (wide, double) = (r.part(Part::Wide), Type::scalar(DType::F64));
        let lane = |name: Name| Expr::from(name).element(Local::Lane);
        let term = match low {
            Some(low) => {
                let known = lane(low).equals(lane(low));
                let lost = known.choose(lane(low).cast(double), 0);
                lane(total).cast(double) + lost
            }
            None => lane(total).cast(double),
        };
        out.push(Stmt::variable(wide, double, 0));
        out.push(
            ir::Loop::over(Local::Lane, 0, self.lanes as i64)
                .of_type(ValueType::Scalar(DType::I32))
                .along(Axis::Lane)
                .each(Stmt::update(wide, Infix::Add, term)),
        );
    }
}

/// The variable that counts the terms, or the runs of them, that accumulators took in since they were moved.
pub(in crate::emit::cpu) fn turn_of(sums: &[Reduction]) -> Name {
    Name::of(Part::Turn, sums.first().map_or(0, |r| r.id))
}

/// The sum of copies `from` to `to` of an accumulator, by halves.
fn tree(r: &Reduction, from: usize, to: usize) -> Expr {
    match to - from {
        1 => r.accumulator(from).into(),
        n => {
            let middle = from + n / 2;
            tree(r, from, middle) + tree(r, middle, to)
        }
    }
}
