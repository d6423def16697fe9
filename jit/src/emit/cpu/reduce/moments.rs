//! Sums about a mean in split kernels, and in those whose columns are cut into chunks: each piece or chunk sums about its
//! own mean, `finish` moves the sums to the row's mean (see [`crate::schedule::Moment`]).

use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::pieces::Pieces;
use crate::emit::cpu::reduce::finish::at_slot;
use crate::expr::Var;
use crate::kernel::ir::{self, Axis, Block, Expr, Infix, Local, Name, Part, Stmt, Type};
use crate::schedule::Moment;
use ferrotrace_kernels::BinaryOp;
use ferrotrace_runtime::DType;

/// Bytes of one operand in a piece: it is looked at twice, the second time in the first cache.
pub(in crate::emit::cpu) const BYTES: usize = 1 << 15;

impl Writer<'_> {
    /// Columns of each value of the variable along which a row is split.
    fn columns_per_step(&self) -> usize {
        let split = self.walked_vars().first().map_or(1, |&v| self.extents[v]);
        if self.walked_vars().is_empty() {
            1
        } else {
            self.node.cols() / split.max(1)
        }
    }

    /// A moment about each of the means.
    fn means(&self) -> Vec<Moment> {
        let mut means: Vec<Moment> = Vec::new();
        for m in &self.moments {
            if means.iter().all(|known| known.mean != m.mean) {
                means.push(*m);
            }
        }
        means
    }

    /// The means of a piece, under the names of the row's: the piece's sum is in binary64.
    pub(in crate::emit::cpu) fn piece_means(&mut self, out: &mut Block) {
        let per = self.columns_per_step() as i64;
        let per = self.param(per);
        for m in self.means() {
            let dtype = self.node.body.value(m.mean).dtype;
            let columns = (Expr::from(Local::High) - Local::Low) * per;
            let sum = Expr::from(Name::of(Part::Wide, m.sum));
            let mean = self.set(dtype, sum / columns.cast(Type::scalar(dtype)));
            let ty = self.vector_type(dtype);
            out.push(Stmt::constant(Name::value(m.mean), ty, mean));
        }
    }

    /// The means of a chunk, as the rows' of its panel.
    pub(in crate::emit::cpu) fn chunk_means(&mut self, out: &mut Block) {
        let per = self.columns_per_step() as i64;
        let per = self.param(per);
        for m in self.means() {
            let dtype = self.node.body.value(m.mean).dtype;
            let columns = (Expr::from(Local::ChunkHigh) - Local::ChunkLow) * per;
            let number = self.set(dtype, columns.cast(Type::scalar(dtype)));
            let sum = Self::of_accumulator(Name::of(Part::Accumulator, m.sum));
            let mean = Self::of_accumulator(Name::of(Part::Row, m.mean));
            let divide = Stmt::assign(mean, sum / number);
            out.push(Self::each_accumulator(self.vectors(), divide));
        }
    }

    /// Declares how many columns the chunk or piece has that a loop is at.
    fn declare_length(length: Name, extent: Name, per: Name) -> Stmt {
        let start = || Expr::from(Local::Index) * length;
        let columns = ((start() + length).least(extent) - start()) * per;
        Stmt::constant(Local::Length, Type::INDEX, columns)
    }

    /// The rows' values of moments, from the chunks' in order; the rows' means are known.
    pub(in crate::emit::cpu) fn merge_chunk_moments(&mut self, out: &mut Block, count: Name) {
        let Some(chunks) = self.chunks else { return };
        let per = self.columns_per_step() as i64;
        let extent = self.walked_vars().first().map_or(1, |&v| self.extents[v]);
        let (per, length, extent) = (
            self.param(per),
            self.param(chunks.length as i64),
            self.param(extent as i64),
        );
        for m in self.moments.clone() {
            let r = self.reduction(m.reduce);
            self.array_accumulators(out, &r, self.vectors());
            self.declare_low(out, &r);
        }
        let mut chunk = Block::new();
        let unit = Self::unit_of_chunk(count);
        self.chunk_accumulators(&mut chunk, (Part::Partial, Part::PartialPlaces), unit);
        chunk.push(Self::declare_length(length, extent, per));
        let each = self.moments.iter().map(|m| self.moved_chunk(m)).collect();
        chunk.push(self.each_vector_of_panel(each));
        out.push(
            ir::Loop::over(Local::Index, 0, count)
                .along(Axis::Accumulator)
                .each(chunk),
        );
        for m in self.moments.clone() {
            let r = self.reduction(m.reduce);
            self.add_low(out, &r);
        }
    }

    /// Adds a chunk's sum about its own mean, moved to the row's.
    fn moved_chunk(&self, m: &Moment) -> Stmt {
        let dtype = self.node.body.value(m.reduce).dtype;
        let (ty, r) = (self.vector_type(dtype), self.reduction(m.reduce));
        let of = |part, value| Self::of_panel(Name::of(part, value));
        let number = Expr::from(Local::Length).cast(Type::scalar(dtype));
        let (n, d) = (
            || Expr::from(Local::LengthVector),
            || Expr::from(Local::Difference),
        );
        let mean = of(Part::Partial, m.sum) / n();
        let finite = self.binary(BinaryOp::Eq, dtype, d() - d(), self.set(dtype, 0));
        let this = of(Part::Partial, m.reduce);
        // Where the means are infinite or NaN, so are all differences.
        let (far, near) = if m.square {
            let plain = || of(Part::Partial, m.plain);
            (d() * d(), this + d() * (plain() + plain() + n() * d()))
        } else {
            (d(), this + n() * d())
        };
        let merged = self.support("sel", dtype, [Local::Mask.into(), near, far]);
        let (total, low) = (of(Part::Accumulator, m.reduce), of(Part::Low, m.reduce));
        Stmt::Scope(Block::from([
            Stmt::constant(Local::LengthVector, ty, self.set(dtype, number)),
            Stmt::constant(Local::Difference, ty, mean - of(Part::Row, m.mean)),
            Stmt::constant(Local::Mask, self.vector_type(DType::Bool), finite),
            Stmt::constant(Local::Element, ty, merged),
            self.two_sum(&r, Local::Element.into(), total, low),
        ]))
    }

    /// The next piece of what the first loop reads, asked for while the second one computes.
    pub(in crate::emit::cpu) fn next_piece(&mut self, piece: usize) {
        let split = match self.walked_vars().first() {
            Some(&v) => Var(v as u32),
            None => Var(self.extents.len() as u32 - 1),
        };
        self.prefetch_along(split, piece as i64);
    }

    /// The row's value of a moment, from the pieces' in order.
    pub(in crate::emit::cpu) fn merge_moment(&mut self, out: &mut Block, m: &Moment, cut: &Pieces) {
        let per = self.columns_per_step() as i64;
        let per = self.param(per);
        let dtype = self.node.body.value(m.reduce).dtype;
        let (scalar, double) = (Type::scalar(dtype), Type::scalar(DType::F64));
        let unit = Self::unit_of_piece(cut);
        let slot = |id| at_slot(self.slot_of(id, unit.clone()), DType::F64);
        let (sum, plain, this) = (slot(m.sum), slot(m.plain), slot(m.reduce));
        let (n, d) = (
            || Expr::from(Local::Length),
            || Expr::from(Local::Difference),
        );
        // Where the means are infinite or NaN, so are all differences.
        let (far, near) = if m.square {
            let twice = Expr::Integer(2) * plain.cast(double);
            (d() * d(), this + d() * (twice + n() * d()))
        } else {
            (d(), this + n() * d())
        };
        let mean = Expr::from(Name::value(m.mean)).element(0).cast(double);
        let of_piece = (sum / n().cast(scalar)).cast(double);
        let total = Name::of(Part::Moved, m.reduce);
        let finite = (d() - d()).equals(0);
        let piece = Block::from([
            Self::declare_length(cut.piece, cut.extent, per),
            Stmt::constant(Local::Difference, double, of_piece - mean),
            Stmt::update(total, Infix::Add, finite.choose(near, far)),
        ]);
        out.push(Stmt::variable(total, double, 0));
        out.push(Self::each_piece(cut, piece));
        let result = self.set(dtype, Expr::from(total).cast(scalar));
        let name = Name::of(Part::Result, m.reduce);
        out.push(Stmt::constant(name, self.vector_type(dtype), result));
    }
}
