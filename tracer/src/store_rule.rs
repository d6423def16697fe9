//! Which nodes a flush stores beside the requested ones.

use crate::collected::{Collected, Held};
use crate::signature::Edge;
use ferrotrace_kernels::{Composite, Op};

/// Whether computing the operator again costs far more than reading its result: reductions, random numbers, library
/// calls and scatters.
fn is_costly(op: &Op) -> bool {
    match op {
        Op::Reduce { .. }
        | Op::Random { .. }
        | Op::Scan { .. }
        | Op::Sort { .. }
        | Op::ArgSort { .. }
        | Op::ArgTopK { .. }
        | Op::IndexPut { .. }
        | Op::Scatter { .. }
        | Op::Matmul
        | Op::Conv(_)
        | Op::Pool(_)
        | Op::AdaptiveAvgPool { .. }
        | Op::Interpolate { .. } => true,
        Op::Composite(op) => matches!(
            op,
            Composite::Dropout { .. }
                | Composite::Softmax { .. }
                | Composite::LogSoftmax { .. }
                | Composite::LogSumExp { .. }
                | Composite::Var { .. }
                | Composite::Norm { .. }
                | Composite::CountNonzero { .. }
                | Composite::LayerNorm { .. }
                | Composite::RmsNorm { .. }
                | Composite::GroupNorm { .. }
                | Composite::Linear { .. }
                | Composite::ConvBias(_)
                | Composite::Einsum { .. }
                | Composite::Attention { .. }
                | Composite::MseLoss
                | Composite::SmoothL1Loss
                | Composite::KlDiv
                | Composite::NllLoss
                | Composite::CrossEntropy
                | Composite::BceWithLogits
        ),
        _ => false,
    }
}

/// Marks the nodes that are stored as well. With `all`, those that anything outside the collection reaches; else, of
/// those with a live handle, the costly ones and those that would keep more bytes alive than they have if they stayed
/// recorded.
///
/// What a node would keep alive is the data that no handle reaches and no earlier such node keeps alive already. The
/// search is linear in the collection: beyond a budget, nodes are stored.
///
/// `shared` are the operations that more than one edge holds, in ascending order: the others are out of reach.
pub(crate) fn add(collected: &Collected, shared: &[u32], all: bool, is_output: &mut [bool]) {
    let holds = |&number: &usize| collected.entries[number].held != Held::Nothing;
    let held: Vec<usize> = shared.iter().map(|&n| n as usize).filter(holds).collect();
    if held.is_empty() {
        return;
    }
    let mut search = Search {
        collected,
        seen: vec![false; if all { 0 } else { collected.entries.len() }],
        charged: vec![false; if all { 0 } else { collected.leaves.len() }],
        budget: 4 * collected.entries.len() + 64,
    };
    for number in held {
        let entry = collected.entries[number];
        if is_output[number] {
            continue;
        }
        if all {
            is_output[number] = true;
            continue;
        }
        if entry.held == Held::Operations {
            continue;
        }
        let facts = &collected.node(entry.place).facts;
        let costly = facts.op.as_ref().is_some_and(is_costly);
        let bytes = facts.shape.numel().saturating_mul(facts.dtype.size());
        is_output[number] = costly || search.keeps_more_than(number, bytes, is_output);
    }
}

struct Search<'a> {
    collected: &'a Collected,
    /// Operations that a node which stays recorded needs.
    seen: Vec<bool>,
    /// Leaves that such a node keeps alive.
    charged: Vec<bool>,
    budget: usize,
}

impl Search<'_> {
    /// Whether the node would keep more than `bytes` alive; if not, what it keeps is marked.
    fn keeps_more_than(&mut self, number: usize, bytes: usize, is_output: &[bool]) -> bool {
        let mut stack = vec![number];
        let (mut nodes, mut leaves) = (vec![number], Vec::new());
        let mut kept = 0usize;
        self.seen[number] = true;
        while let Some(next) = stack.pop() {
            for edge in self.collected.entry_edges(next) {
                match *edge {
                    Edge::Node(n) => {
                        let n = n as usize;
                        if !self.seen[n] && !is_output[n] {
                            self.seen[n] = true;
                            nodes.push(n);
                            stack.push(n);
                        }
                    }
                    Edge::Leaf(n) if !self.charged[n as usize] => {
                        self.charged[n as usize] = true;
                        leaves.push(n as usize);
                        kept = kept.saturating_add(self.unreachable_bytes(n as usize));
                    }
                    _ => {}
                }
            }
            self.budget = self.budget.saturating_sub(1);
            if kept > bytes || self.budget == 0 {
                nodes.iter().for_each(|&n| self.seen[n] = false);
                leaves.iter().for_each(|&n| self.charged[n] = false);
                return true;
            }
        }
        false
    }

    /// Bytes of a leaf that no handle reaches.
    fn unreachable_bytes(&self, leaf: usize) -> usize {
        let node = self.collected.node(self.collected.leaves[leaf].place);
        if node.handles() > 0 {
            0
        } else {
            node.buffer_bytes()
        }
    }
}
