//! Short axes of a device as straight-line code: coordinates of points, colours of pixels.
//!
//! Where the last variable of the rows takes few values, what does not vary along it is computed by a thread of each. A
//! thread that computes all of them computes it once.

use crate::emit::unroll::{HEAVY, unrolled, work_of};
use crate::schedule::FusedNode;

/// Most turns of an axis that is unrolled: a thread keeps so many sums.
const TURNS: usize = 4;
/// Most values of a body that is unrolled.
const VALUES: usize = 96;
/// Fewest positions of the other loops: below, the axis itself keeps threads busy.
const POSITIONS: usize = 1 << 9;

/// A fused node without the last variable of its rows, where that is short and most work is the same all along it.
pub(super) fn unroll_short(node: FusedNode) -> FusedNode {
    let (Some(axis), true) = (
        node.iter.len().checked_sub(1),
        node.body.values().len() <= VALUES,
    ) else {
        return node;
    };
    let extents = node.extents();
    let turns = extents[axis];
    let others = extents.iter().product::<usize>() / turns.max(1);
    if !(2..=TURNS).contains(&turns) || others < POSITIONS {
        return node;
    }
    let before = turns * work_of(&node);
    // Without columns, threads side by side then store that many elements apart.
    let least = if node.red.is_empty() { 3 * HEAVY } else { 0 };
    let pays = |made: &FusedNode| {
        let after = work_of(made);
        made.body.values().len() <= VALUES && 2 * after <= before && before - after >= least
    };
    unrolled(&node, axis).filter(pays).unwrap_or(node)
}
