//! Many launches of one kernel as one: its arguments become a table, and a block looks up whose it is (scheduler C-12 to
//! C-14). The text depends on how much a table holds, not on what is in one.

use super::kernel::{ENTRY, NAME};
use crate::emit::Emitted;
use ferrotrace_runtime::KernelSource;

/// Bytes of a table: of few launches, which any device takes as an argument, and the most that new ones take.
const FEW: usize = 4096;
/// A launch of a table of one is an entry that is never used.
const FEWEST: usize = 2;

/// The kernel over a table for `count` launches, where a table may have `most` bytes: its source and how many a launch
/// of it takes. None: it cannot be launched so, or no two fit.
pub fn table(kernel: &Emitted, count: usize, most: usize) -> Option<(KernelSource, usize)> {
    let apart = kernel.source.finish || kernel.grid.reports || kernel.scratch > 0;
    if apart || !kernel.updates.is_empty() || !kernel.source.body.contains(ENTRY) {
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
    let half = firsts / 2;
    let structure = format!(
        "struct {NAME}_table {{\n  unsigned first[{firsts}];\n  {NAME}_args members[{members}];\n}};\nextern \"C\" __global__"
    );
    let entry = format!(
        "const __grid_constant__ {NAME}_table table) {{\n  int member = 0;\n  #pragma unroll\n  \
         for (int step = {half}; step > 0; step >>= 1) if (blockIdx.x >= table.first[member + step]) member += step;\n  \
         const {NAME}_args &a = table.members[member];\n  const unsigned ft_block = blockIdx.x - table.first[member];\n"
    );
    let body = kernel.source.body.replace(ENTRY, &entry);
    let source = KernelSource {
        body: body
            .replacen("extern \"C\" __global__", &structure, 1)
            .into(),
        ..kernel.source.clone()
    };
    Some((source, members))
}

/// Bytes of a table of `n` launches of this many arguments of 8 bytes: their first blocks, then the arguments.
fn bytes_of(n: usize, words: usize) -> usize {
    4 * n.next_power_of_two().max(2) + 8 * words * n
}
