//! Sums about a mean in split kernels, and in those whose columns are cut into chunks: each piece or chunk sums about its
//! own mean, `finish` moves the sums to the row's mean (see [`crate::schedule::Moment`]).

use super::kernel::Writer;
use super::pieces::Pieces;
use super::value::lane_type;
use crate::body::Value;
use crate::expr::Var;
use crate::schedule::Moment;
use ferrotrace_kernels::BinaryOp;
use std::fmt::Write as _;

/// Bytes of one operand in a piece: it is looked at twice, the second time in the first cache.
pub(super) const BYTES: usize = 1 << 15;

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

    /// The means of a piece, under the names of the row's: `h{sum}` is the piece's sum.
    pub(super) fn piece_means(&mut self, out: &mut String) {
        let per = self.columns_per_step() as i64;
        let per = self.param(per);
        for m in self.means() {
            let dtype = self.node.body.value(m.mean).dtype;
            let mean = format!("h{} / ({})((hi - lo) * {per})", m.sum, lane_type(dtype));
            let set = self.call("set", dtype, &[&mean]);
            let _ = writeln!(out, "    const {} v{} = {set};", self.vector(dtype), m.mean);
        }
    }

    /// The means of a chunk, as the rows' of its panel.
    pub(super) fn chunk_means(&mut self, out: &mut String) {
        let per = self.columns_per_step() as i64;
        let (per, w) = (self.param(per), self.lanes);
        for m in self.means() {
            let dtype = self.node.body.value(m.mean).dtype;
            let number = format!("({})((c1 - c0) * {per})", lane_type(dtype));
            let number = self.call("set", dtype, &[&number]);
            let _ = writeln!(
                out,
                "    for (int c = 0; c < (hi - lo + {w} - 1) / {w}; c++) k{}[c] = a{}[c] / {number};",
                m.mean, m.sum
            );
        }
    }

    /// The rows' values of moments, from the chunks' in order; the rows' means are known.
    pub(super) fn merge_chunk_moments(&mut self, out: &mut String, count: &str, vectors: &str) {
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
            self.array_accumulators(out, &r, vectors);
            self.declare_low(out, &r, vectors);
        }
        let _ = writeln!(out, "    for (long long c = 0; c < {count}; c++) {{");
        self.chunk_accumulators(out, ("e", "f"), &format!("first * {count} + c"));
        let _ = writeln!(
            out,
            "    const long long n = (ft_min(c * {length} + {length}, {extent}) - c * {length}) * {per};\n    \
             for (long long k = 0; k < {vectors}; k++) {{"
        );
        for m in self.moments.clone() {
            let dtype = self.node.body.value(m.reduce).dtype;
            let (id, ty, w) = (m.reduce, self.vector(dtype), self.lanes);
            let number = self.call("set", dtype, &[&format!("({})n", lane_type(dtype))]);
            let zero = self.call("set", dtype, &["0"]);
            let finite = BinaryOp::Eq.c_expr(dtype, w, &["(d - d)", &zero], &mut self.needs);
            // Where the means are infinite or NaN, so are all differences.
            let (far, near) = if m.square {
                let plain = format!("e{}[k]", m.plain);
                (
                    "(d * d)",
                    format!("(e{id}[k] + d * ({plain} + {plain} + n_ * d))"),
                )
            } else {
                ("d", format!("(e{id}[k] + n_ * d)"))
            };
            let merged = self.call("sel", dtype, &["t", &near, far]);
            let r = self.reduction(id);
            let both = self.two_sum(&r, "x", &format!("a{id}[k]"), &format!("low{id}[k]"));
            let _ = writeln!(
                out,
                "      {{ const {ty} n_ = {number}, d = e{}[k] / n_ - k{}[k]; const i32x{w} t = {finite}; const {ty} x = {merged}; {both} }}",
                m.sum, m.mean
            );
        }
        out.push_str("    } }\n");
        for m in self.moments.clone() {
            let r = self.reduction(m.reduce);
            self.add_low(out, &r, vectors);
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
                "*(double *){}",
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
