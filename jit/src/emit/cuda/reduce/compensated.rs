//! Sums of many terms: short sums in the accumulators, which are moved to a total that keeps what its own additions round
//! away (compensated summation by two-sum, Knuth).

use super::super::kernel::Writer;
use super::super::shape::Form;
use super::{Reduction, tree};
use ferrotrace_kernels::ReduceKind;
use ferrotrace_runtime::DType;
use std::fmt::Write as _;

/// Chunks of which a thread's accumulators take in the elements before they are moved to a total, where a thread has more:
/// an accumulator that is large beside its terms rounds all of them alike.
const RUN: usize = 32;

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

    /// A loop over the chunks `c` from `start` to `hi`, of which every [`RUN`] the accumulators of long sums are moved.
    pub(in crate::emit::cuda) fn in_runs(
        &self,
        long: &[(Reduction, usize)],
        (start, step): (&str, usize),
        (unroll, chunk): (&str, &str),
    ) -> String {
        let loops = |from: &str, to: &str| {
            format!("{unroll}  for (ft_int c = {from}; c < {to}; c += {step}) {{\n{chunk}  }}\n")
        };
        if long.is_empty() {
            return loops(start, "hi");
        }
        let (each, moved) = (loops("run", "stop"), Self::moves(long));
        let run = step * RUN;
        format!(
            "  for (ft_int run = {start}; run < hi; run += {run}) {{\n  const ft_int stop = ft_least(run + {run}, hi);\n{each}{moved}  }}\n"
        )
    }

    /// After some chunks of a loop that counts them in `taken`: moves the accumulators of long sums, if it is time.
    pub(in crate::emit::cuda) fn after_chunks(
        &self,
        long: &[(Reduction, usize)],
        chunks: usize,
    ) -> String {
        match long.is_empty() {
            true => String::new(),
            false => format!(
                "  if ((taken += {chunks}) >= {RUN}) {{\n  taken = 0;\n{}  }}\n",
                Self::moves(long)
            ),
        }
    }

    fn moves(long: &[(Reduction, usize)]) -> String {
        let all = long.iter();
        all.map(|(r, lanes)| format!("  {}\n", Self::moved(r, *lanes)))
            .collect()
    }

    /// Leaves the total of a long sum in its first accumulator.
    pub(in crate::emit::cuda) fn settle(&self, out: &mut String, r: &Reduction, lanes: usize) {
        if self.is_long(r) {
            let (id, moved) = (r.id, Self::moved(r, lanes));
            let _ = writeln!(
                out,
                "  {moved}\n  a{id}[0] = ft_both_parts(sum{id}, low{id}); sum{id} = low{id} = 0;"
            );
        }
    }

    /// Adds the lanes of a long sum's accumulators to its total, and begins them anew.
    fn moved(r: &Reduction, lanes: usize) -> String {
        let id = r.id;
        let lanes_of = tree(&format!("a{id}"), 0, lanes);
        let anew: String = (0..lanes).map(|l| format!("a{id}[{l}] = ")).collect();
        format!("ft_two_sum(sum{id}, low{id}, {lanes_of}); {anew}0;")
    }
}
