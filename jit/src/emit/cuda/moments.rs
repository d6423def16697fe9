//! Sums about a mean in the pass that computes the mean (see [`crate::schedule::Moment`]).
//!
//! Each thread sums about the first value it meets, which is as good as any: a value far from the others makes the sum
//! of squares itself large. Once the mean is known, that of a piece where rows are split, the threads' sums are moved to
//! it and combined; the second kernel moves those of the pieces to the row's.

use super::kernel::Writer;
use super::reduce::Reduction;
use crate::body::{BodyOp, Value};
use crate::schedule::Moment;
use ferrotrace_kernels::support::scalar_type;
use std::fmt::Write as _;

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

    /// Declares what a thread sums about, and the number of its elements.
    pub(super) fn declare_shifts(&self, out: &mut String) {
        for (_, mean) in self.means() {
            let ty = scalar_type(self.node.body.value(mean).dtype);
            let _ = writeln!(out, "  {ty} f{mean} = 0;");
        }
        if !self.moments.is_empty() {
            out.push_str("  ft_int counted = 0;\n");
        }
    }

    /// After `value` of an element: makes the first one the number that is summed about, in the place of the mean.
    pub(super) fn take_shift(&self, out: &mut String, value: Value, first: &str) {
        for (x, mean) in self.means() {
            if x == value {
                let ty = scalar_type(self.node.body.value(mean).dtype);
                let _ = writeln!(
                    out,
                    "      if (l == 0 && c == {first}) f{mean} = v{x};\n      const {ty} v{mean} = f{mean};"
                );
            }
        }
    }

    /// How many elements of a row come before a chunk.
    fn elements_before(&mut self, chunk: &str) -> String {
        let last = self.extents.len() - 1;
        let n = self.param(self.extents[last] as i64);
        let lanes = self.shape.lanes;
        if self.node.iter.len() == last {
            return format!("ft_least({chunk} * {lanes}, {n})");
        }
        let line = self.divisor(self.shape.line as i64);
        format!("({chunk} / {line} * {n} + ft_least({chunk} % {line} * {lanes}, {n}))")
    }

    /// The means of a piece, from its sums.
    pub(super) fn piece_means(&mut self, out: &mut String) {
        let (end, lo) = (self.elements_before("end"), self.elements_before("lo"));
        let mut seen = Vec::new();
        for m in self.moments.clone() {
            if !seen.contains(&m.mean) {
                seen.push(m.mean);
                let ty = scalar_type(self.node.body.value(m.mean).dtype);
                let _ = writeln!(
                    out,
                    "  const {ty} e{} = a{}[0] / ({ty})({end} - {lo});",
                    m.mean, m.sum
                );
            }
        }
    }

    /// Moves a thread's sums from its own number to the mean `{prefix}{mean}`, lanes folded.
    pub(super) fn move_sums(&mut self, out: &mut String, moments: &[Reduction], prefix: &str) {
        for r in moments {
            self.fold_lanes(out, r, self.shape.lanes);
        }
        out.push_str("  if (counted > 0) {\n");
        // The squares need the plain sums as they are.
        let mut ordered = self.moments.clone();
        ordered.sort_by_key(|m| !m.square);
        for m in ordered {
            let (id, plain, mean) = (m.reduce, m.plain, m.mean);
            let ty = scalar_type(self.node.body.value(id).dtype);
            let moved = match m.square {
                true => format!("d * (2 * a{plain}[0] + ({ty})counted * d)"),
                false => format!("({ty})counted * d"),
            };
            let _ = writeln!(
                out,
                "    {{ const {ty} d = f{mean} - {prefix}{mean}; a{id}[0] += {moved}; }}"
            );
        }
        out.push_str("  }\n");
    }

    /// Takes the moments of piece `c` of a row whose means are known: moved to them, in binary64.
    pub(super) fn take_moments(&mut self, out: &mut String) {
        let (per, chunks) = (self.shape.per_piece(), self.shape.chunks);
        let (per, chunks) = (self.param(per as i64), self.param(chunks as i64));
        let _ = writeln!(
            out,
            "    const ft_int lo = c * {per}, end = ft_least(lo + {per}, {chunks});"
        );
        let (after, before) = (self.elements_before("end"), self.elements_before("lo"));
        let _ = writeln!(out, "    const ft_int n = {after} - {before};");
        for m in self.moments.clone() {
            let ty = scalar_type(self.node.body.value(m.reduce).dtype);
            let read = |w: &Self, id: Value| {
                format!(
                    "*(const {ty} *)({})",
                    w.slot("row * pieces + c", &w.reduction(id))
                )
            };
            let (sum, plain, this) = (read(self, m.sum), read(self, m.plain), read(self, m.reduce));
            // Where the means are infinite or NaN, so are all differences.
            let (far, near) = match m.square {
                true => (
                    "d * d",
                    format!("{this} + d * (2 * (double){plain} + n * d)"),
                ),
                false => ("d", format!("{this} + n * d")),
            };
            let _ = writeln!(
                out,
                "    {{ const double d = (double)({sum} / ({ty})n) - (double)v{};\n      \
                 a{}[0] += ({ty})(d - d == 0 ? {near} : {far}); }}",
                m.mean, m.reduce
            );
        }
    }
}
