//! Sums of many terms: short sums in the accumulators, which are moved to a total that keeps what its own additions round
//! away (compensated summation by two-sum, Knuth).

use super::super::kernel::Writer;
use super::super::shape::Form;
use super::{Reduction, tree};
use crate::kernel::ir::{
    Axis, Block, Expr, Function, Infix, Local, Loop, OnDevice, Part, Stmt, Type, Unroll,
};
use ferrotrace_kernels::ReduceKind;
use ferrotrace_runtime::DType;

/// Chunks of which a thread's accumulators take in the elements before they are moved to a total, where a thread has more:
/// an accumulator that is large beside its terms rounds all of them alike.
pub(in crate::emit::cuda) const RUN: usize = 32;

impl Writer<'_> {
    /// Whether a sum's accumulators are moved to a total, which keeps what its own additions round away (two-sum, Knuth).
    pub(in crate::emit::cuda) fn is_long(&self, r: &Reduction) -> bool {
        let at_once = match self.shape.form {
            Form::Inner { threads } => threads as usize,
            Form::Outer { groups, .. } => groups as usize,
            Form::Pointwise | Form::Tiled => return false,
        };
        let is_sum = matches!(r.kind, ReduceKind::Sum | ReduceKind::Mean);
        let walked = !self.finishing && (self.folding || !(r.scan || self.scans));
        walked && is_sum && r.dtype == DType::F32 && self.shape.per_piece().div_ceil(at_once) > RUN
    }

    /// The sums among some reductions whose accumulators are moved to a total, each with its number of accumulators.
    pub(in crate::emit::cuda) fn long(&self, reductions: &[Reduction]) -> Vec<(Reduction, usize)> {
        let lanes = |r: &Reduction| match self.online.iter().any(|o| o.sum == r.id) {
            true => 1,
            false => self.shape.lanes,
        };
        let long = reductions.iter().filter(|r| self.is_long(r));
        long.map(|r| (*r, lanes(r))).collect()
    }

    /// Declares the total of a long sum.
    pub(in crate::emit::cuda) fn declare_total(&self, out: &mut Block, r: &Reduction) {
        for part in [Part::Total, Part::Low] {
            out.push(Stmt::variable(r.part(part), r.ty(), 0));
        }
    }

    /// A loop over the chunks from `start` to the row's end, of which every [`RUN`] the accumulators of long sums are moved.
    pub(in crate::emit::cuda) fn in_runs(
        &self,
        long: &[(Reduction, usize)],
        (start, step): (Expr, usize),
        (unroll, chunk): (Unroll, Block),
    ) -> Stmt {
        let loops = |from: Expr, to: Local, chunk: Block| {
            let mut all = Loop::over(Local::Index, from, to)
                .along(Axis::Chunk)
                .by(step);
            all.unroll = unroll;
            all.each(chunk)
        };
        if long.is_empty() {
            return loops(start, Local::High, chunk);
        }
        let run = || Expr::from(OnDevice::Run);
        let length = (step * RUN) as i64;
        let stop = (run() + length).least(Local::High);
        let mut each = Block::from([
            Stmt::constant(Local::Stop, Type::INDEX, stop),
            loops(run(), Local::Stop, chunk),
        ]);
        Self::moves(&mut each, long);
        let runs = Loop::over(OnDevice::Run, start, Local::High);
        runs.along(Axis::Chunk).by(step * RUN).each(each)
    }

    /// Declares how many chunks were taken since accumulators were moved.
    pub(in crate::emit::cuda) fn declare_taken(out: &mut Block, long: &[(Reduction, usize)]) {
        if !long.is_empty() {
            out.push(Stmt::variable(OnDevice::Taken, Type::INT, 0));
        }
    }

    /// After some chunks of a loop that counts them: moves the accumulators of long sums, if it is time.
    pub(in crate::emit::cuda) fn after_chunks(
        &self,
        out: &mut Block,
        long: &[(Reduction, usize)],
        chunks: usize,
    ) {
        if long.is_empty() {
            return;
        }
        let mut moves = Block::from(Stmt::assign(OnDevice::Taken, 0));
        Self::moves(&mut moves, long);
        let due = Expr::from(OnDevice::Taken).at_least(RUN as i64);
        out.push(Stmt::update(OnDevice::Taken, Infix::Add, chunks as i64));
        out.push(Stmt::when(due, moves));
    }

    fn moves(out: &mut Block, long: &[(Reduction, usize)]) {
        for (r, lanes) in long {
            Self::moved(out, r, *lanes);
        }
    }

    /// Leaves the total of a long sum in its first accumulator.
    pub(in crate::emit::cuda) fn settle(&self, out: &mut Block, r: &Reduction, lanes: usize) {
        if self.is_long(r) {
            Self::moved(out, r, lanes);
            let parts = [Part::Total, Part::Low].map(|part| Expr::from(r.part(part)));
            let both = Expr::call(Function::BothParts, parts.clone());
            out.push(Stmt::assign(r.lane(0), both));
            out.extend(parts.map(|part| Stmt::assign(part, 0)));
        }
    }

    /// Adds the lanes of a long sum's accumulators to its total, and begins them anew.
    fn moved(out: &mut Block, r: &Reduction, lanes: usize) {
        let lanes_of = tree(r.part(Part::Accumulator), 0, lanes);
        let total = [Part::Total, Part::Low].map(|part| Expr::from(r.part(part)));
        let added = total.into_iter().chain([lanes_of]);
        out.push(Stmt::Call(Expr::call(Function::TwoSum, added)));
        out.extend((0..lanes).map(|l| Stmt::assign(r.lane(l as i64), 0)));
    }
}
