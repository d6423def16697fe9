//! Long sums. An accumulator that takes in one term after another is rounded at each; once it has become large beside
//! the terms, all of them are rounded alike, and the error grows with their number. So it takes in [`RUN`] terms, is then
//! moved to a total that keeps what its own additions round away (two-sum, Knuth), and begins anew. The error of a sum
//! stays that of a few dozen additions however long it is, in an order that depends on sizes alone.

use super::kernel::Writer;
use super::reduce::Reduction;
use super::stage::Loop;
use ferrotrace_kernels::ReduceKind;
use ferrotrace_runtime::DType;
use std::fmt::Write as _;

/// Terms that an accumulator takes in before it is moved, where it would take in more. An addition is rounded by at most
/// 2⁻²⁴ of its result: by RUN / 2 of these units of the sum, all together, where terms are alike.
pub(super) const RUN: usize = 32;

impl Reduction {
    /// Whether it is a sum that rounds.
    pub fn is_rounded_sum(&self) -> bool {
        matches!(self.kind, ReduceKind::Sum | ReduceKind::Mean)
            && matches!(self.dtype, DType::F32 | DType::F64)
    }
}

impl Writer<'_> {
    /// The sums of a loop of which an accumulator takes `terms`, if those are too many for it alone.
    pub(super) fn long_sums(&self, l: &Loop, terms: usize) -> Vec<Reduction> {
        let all = l.reduces.iter().map(|&r| self.reduction(r));
        match terms > RUN {
            true => all.filter(Reduction::is_rounded_sum).collect(),
            false => Vec::new(),
        }
    }

    /// Declares the totals of sums.
    pub(super) fn declare_totals(&mut self, out: &mut String, sums: &[Reduction]) {
        for r in sums {
            let (id, ty, zero) = (r.id, self.vector(r.dtype), self.identity(r));
            let _ = writeln!(out, "    {ty} sum{id} = {zero}, low{id} = {zero};");
        }
    }

    /// Declares those of a block of rows.
    pub(super) fn declare_block_totals(&mut self, out: &mut String, sums: &[Reduction]) {
        let (most, w) = (self.most(), self.lanes);
        for r in sums {
            let (id, ty, zero) = (r.id, self.vector(r.dtype), self.identity(r));
            let _ = writeln!(
                out,
                "    {ty} sum{id}[{most}], low{id}[{most}];\n    \
                 for (int c = 0; c < (hi - lo + {w} - 1) / {w}; c++) sum{id}[c] = low{id}[c] = {zero};"
            );
        }
    }

    /// Adds `term` to a total and what is lost to its low part.
    pub(super) fn two_sum(&mut self, r: &Reduction, term: &str, total: &str, low: &str) -> String {
        let (total, low) = (format!("&{total}"), format!("&{low}"));
        format!("{};", self.call("two_sum", r.dtype, &[&total, &low, term]))
    }

    /// A total and its low part as one.
    pub(super) fn both_parts(&mut self, r: &Reduction, total: &str, low: &str) -> String {
        self.call("both_parts", r.dtype, &[total, low])
    }

    /// Moves the copies of accumulators to the totals, and begins them anew.
    pub(super) fn move_copies(&mut self, sums: &[Reduction], copies: usize, pad: &str) -> String {
        let mut text = String::new();
        for r in sums {
            let (id, zero) = (r.id, self.identity(r));
            let term = tree(&format!("a{id}"), 0, copies);
            let both = self.two_sum(r, &term, &format!("sum{id}"), &format!("low{id}"));
            let anew: String = (0..copies).map(|c| format!("a{id}_{c} = ")).collect();
            let _ = writeln!(text, "{pad}{both} {anew}{zero};");
        }
        text
    }

    /// Moves the accumulators of a block to the totals, and begins them anew.
    pub(super) fn move_block(&mut self, sums: &[Reduction], pad: &str) -> String {
        let mut text = String::new();
        for r in sums {
            let (id, zero) = (r.id, self.identity(r));
            let names = (
                format!("a{id}[c]"),
                format!("sum{id}[c]"),
                format!("low{id}[c]"),
            );
            let both = self.two_sum(r, &names.0, &names.1, &names.2);
            let w = self.lanes;
            let _ = writeln!(
                text,
                "{pad}for (int c = 0; c < (hi - lo + {w} - 1) / {w}; c++) {{ {both} a{id}[c] = {zero}; }}"
            );
        }
        text
    }

    /// Moves accumulators that are in registers, of `vectors` from position `left` on, and begins them anew.
    pub(super) fn move_held(&mut self, sums: &[Reduction], vectors: usize, left: &str) -> String {
        let mut text = String::new();
        for r in sums {
            let (id, zero, w) = (r.id, self.identity(r), self.lanes);
            for c in 0..vectors {
                let at = format!("[({left} - lo) / {w} + {c}]");
                let acc = format!("a{id}_{c}");
                let both = self.two_sum(r, &acc, &format!("sum{id}{at}"), &format!("low{id}{at}"));
                let _ = writeln!(text, "      {both} {acc} = {zero};");
            }
        }
        text
    }

    /// Leaves the totals of a block in its accumulators.
    pub(super) fn end_block(&mut self, out: &mut String, sums: &[Reduction]) {
        out.push_str(&self.move_block(sums, "    "));
        for r in sums {
            let id = r.id;
            let sum = self.both_parts(r, &format!("sum{id}[c]"), &format!("low{id}[c]"));
            let w = self.lanes;
            let _ = writeln!(
                out,
                "    for (int c = 0; c < (hi - lo + {w} - 1) / {w}; c++) a{id}[c] = {sum};"
            );
        }
    }

    /// Declares the low parts of a block's accumulators, of which the first `vectors` are in use.
    pub(super) fn declare_low(&mut self, out: &mut String, r: &Reduction, vectors: &str) {
        let (id, ty, zero, most) = (r.id, self.vector(r.dtype), self.identity(r), self.most());
        let _ = writeln!(
            out,
            "    {ty} low{id}[{most}];\n    for (int c = 0; c < {vectors}; c++) low{id}[c] = {zero};"
        );
    }

    /// Adds the low parts of a block's accumulators to them.
    pub(super) fn add_low(&mut self, out: &mut String, r: &Reduction, vectors: &str) {
        let id = r.id;
        let sum = self.both_parts(r, &format!("a{id}[c]"), &format!("low{id}[c]"));
        let _ = writeln!(
            out,
            "    for (int c = 0; c < {vectors}; c++) a{id}[c] = {sum};"
        );
    }

    /// A scalar of type `double`: the lanes of a sum that is too long for its own type, with their low parts.
    pub(super) fn wide_sum(&mut self, r: &Reduction, total: &str, low: Option<&str>) -> String {
        let (id, w) = (r.id, self.lanes);
        let term = match low {
            Some(low) => format!("{total}[l] + ({low}[l] == {low}[l] ? (double){low}[l] : 0)"),
            None => format!("{total}[l]"),
        };
        format!("double h{id} = 0; for (int l = 0; l < {w}; l++) h{id} += (double){term};")
    }
}

/// The variable that counts the terms, or the runs of them, that accumulators took in since they were moved.
pub(super) fn turn_of(sums: &[Reduction]) -> String {
    format!("turn{}", sums.first().map_or(0, |r| r.id))
}

/// Its declaration.
pub(super) fn declare_turn(sums: &[Reduction]) -> String {
    format!("    long long {} = 0;\n", turn_of(sums))
}

/// The sum of copies `from` to `to` of an accumulator, by halves.
fn tree(name: &str, from: usize, to: usize) -> String {
    match to - from {
        1 => format!("{name}_{from}"),
        n => {
            let middle = from + n / 2;
            format!(
                "({} + {})",
                tree(name, from, middle),
                tree(name, middle, to)
            )
        }
    }
}
