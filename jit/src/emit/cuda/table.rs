//! Many launches of one kernel as one: its arguments become a table, and a block looks up whose it is. The text depends on
//! how much a table holds, not on what is in one.

use super::kernel::{self, NAME, Setting};
use crate::emit::Emitted;
use ferrotrace_runtime::KernelSource;
use std::fmt::Write as _;

/// Bytes of a table: of few launches, which any device takes as an argument, and the most that new ones take.
const FEW: usize = 4096;
/// A launch of a table of one is an entry that is never used.
const FEWEST: usize = 2;

/// A table as a kernel takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// Launches that fit.
    members: usize,
    /// Their first blocks: a power of two of them.
    firsts: usize,
}

/// The kernel over a table for `count` launches, where a table may have `most` bytes: its source and how many a launch
/// of it takes. None: it cannot be launched so, or no two fit.
pub fn table(kernel: &Emitted, count: usize, most: usize) -> Option<(KernelSource, usize)> {
    let apart = kernel.source.finish || kernel.grid.reports || kernel.scratch > 0;
    // Templates have entries of their own.
    if apart || kernel.products > 0 || !kernel.updates.is_empty() {
        return None;
    }
    // The scratch memory's address and the fault's are arguments too.
    let words = kernel.pointers.len() + kernel.params.len() + kernel.numbers.len() + 2;
    let held = |bytes: usize| (1..).take_while(|&n| bytes_of(n, words) <= bytes).count();
    let size = match held(FEW.min(most)) {
        few if few >= count => FEW.min(most),
        _ => most,
    };
    let (members, firsts) = (held(size), held(size).next_power_of_two());
    if members < FEWEST {
        return None;
    }
    let setting = Setting {
        // A kernel with indices to check that reports none has them checked before.
        checked: true,
        table: Some(Table { members, firsts }),
    };
    Some((kernel::again(kernel, setting).source, members))
}

impl Table {
    /// Writes the table's type.
    pub fn structure(&self, out: &mut String) {
        let Table { members, firsts } = self;
        let _ = writeln!(
            out,
            "struct {NAME}_table {{\n  unsigned first[{firsts}];\n  {NAME}_args members[{members}];\n}};"
        );
    }

    /// What a kernel over the table begins with: the member that its block is of.
    pub fn entry(&self) -> String {
        format!(
            "const __grid_constant__ {NAME}_table table) {{\n  int member = 0;\n  #pragma unroll\n  \
             for (int step = {}; step > 0; step >>= 1) if (blockIdx.x >= table.first[member + step]) member += step;\n  \
             const {NAME}_args &a = table.members[member];\n  const unsigned ft_block = blockIdx.x - table.first[member];\n",
            self.firsts / 2
        )
    }
}

/// Bytes of a table of `n` launches of this many arguments of 8 bytes: their first blocks, then the arguments.
fn bytes_of(n: usize, words: usize) -> usize {
    4 * n.next_power_of_two().max(2) + 8 * words * n
}
