//! Sums about a mean in split kernels: each piece sums about its own mean, `finish` moves the sums to the row's mean
//! (see [`crate::schedule::Moment`]).

use super::kernel::Writer;
use super::pieces::Pieces;
use super::value::lane_type;
use crate::body::Value;
use crate::expr::Var;
use crate::schedule::Moment;
use std::fmt::Write as _;

/// Bytes of one operand in a piece: it is looked at twice, the second time in the first cache.
pub(super) const BYTES: usize = 1 << 15;

impl Writer<'_> {
    /// Whether a reduction's partial result is the sum of a mean.
    pub(super) fn is_mean_sum(&self, id: Value) -> bool {
        self.moments.iter().any(|m| m.sum == id)
    }

    /// Columns of each value of the variable along which a row is split.
    fn columns_per_step(&self) -> usize {
        let split = self.walked_vars().first().map_or(1, |&v| self.extents[v]);
        if self.walked_vars().is_empty() {
            1
        } else {
            self.node.cols() / split.max(1)
        }
    }

    /// The means of a piece, under the names of the row's: `h{sum}` is the piece's sum.
    pub(super) fn piece_means(&mut self, out: &mut String) {
        let per = self.columns_per_step() as i64;
        let per = self.param(per);
        let mut seen = Vec::new();
        for m in self.moments.clone() {
            if seen.contains(&m.mean) {
                continue;
            }
            seen.push(m.mean);
            let dtype = self.node.body.value(m.mean).dtype;
            let mean = format!("h{} / ({})((hi - lo) * {per})", m.sum, lane_type(dtype));
            let set = self.call("set", dtype, &[&mean]);
            let _ = writeln!(out, "    const {} v{} = {set};", self.vector(dtype), m.mean);
        }
    }

    /// The next piece of what the first loop reads, asked for while the second one computes.
    pub(super) fn next_piece(&mut self, piece: usize) {
        let split = match self.walked_vars().first() {
            Some(&v) => Var(v as u32),
            None => Var(self.extents.len() as u32 - 1),
        };
        self.look_ahead_along(split, piece as i64);
    }

    /// The row's value of a moment, from the pieces' in order.
    pub(super) fn merge_moment(&mut self, out: &mut String, m: &Moment, p: &Pieces) {
        let per = self.columns_per_step() as i64;
        let per = self.param(per);
        let dtype = self.node.body.value(m.reduce).dtype;
        let c = lane_type(dtype);
        let slot = |w: &Self, id: Value| {
            format!(
                "*({c} *){}",
                w.slot_of(id, &format!("(first * {} + c)", p.pieces))
            )
        };
        let (sum, plain, this) = (slot(self, m.sum), slot(self, m.plain), slot(self, m.reduce));
        let Pieces {
            piece,
            pieces,
            extent,
        } = p;
        let (id, mean) = (m.reduce, m.mean);
        // Where the means are infinite or NaN, so are all differences.
        let (far, near) = if m.square {
            (
                "d * d".to_owned(),
                format!("{this} + d * (2 * (double){plain} + n * d)"),
            )
        } else {
            ("d".to_owned(), format!("{this} + n * d"))
        };
        let set = self.call("set", dtype, &[&format!("({c})t{id}")]);
        let _ = write!(
            out,
            "    double t{id} = 0;\n    \
             for (long long c = 0; c < {pieces}; c++) {{\n      \
             const long long n = (ft_min(c * {piece} + {piece}, {extent}) - c * {piece}) * {per};\n      \
             const double d = (double)({sum} / ({c})n) - (double)v{mean}[0];\n      \
             t{id} += d - d == 0 ? {near} : {far};\n    }}\n    \
             const {ty} r{id} = {set};\n",
            ty = self.vector(dtype),
        );
    }
}
