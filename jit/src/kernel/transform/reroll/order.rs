//! An order of statements in which the steps of a recurrence stand one after another.

use super::nodes::Node;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Puts nodes in the order of a walk from what nothing uses back to what it is computed of, what takes most statements one
/// after another first. A step of a recurrence then stands behind the step before it, and whatever it takes besides that
/// one stands right before its use.
pub(super) fn by_steps(nodes: Vec<Node>) -> Vec<Node> {
    let operands = operands(&nodes);
    let mut depth = vec![0usize; nodes.len()];
    let mut used = vec![false; nodes.len()];
    for (n, of) in operands.iter().enumerate() {
        depth[n] = of.iter().map(|&o| depth[o] + 1).max().unwrap_or(0);
        of.iter().for_each(|&o| used[o] = true);
    }
    let mut roots: Vec<usize> = (0..nodes.len()).filter(|&n| !used[n]).collect();
    roots.sort_by_key(|&n| depth[n]);
    let mut order: Vec<usize> = Vec::with_capacity(nodes.len());
    let mut seen = vec![false; nodes.len()];
    for root in roots {
        // A node is met twice: its operands are put in order, then it.
        let mut left = vec![(root, false)];
        while let Some((n, done)) = left.pop() {
            if done {
                order.push(n);
                continue;
            }
            if std::mem::replace(&mut seen[n], true) {
                continue;
            }
            left.push((n, true));
            let mut next: Vec<usize> = operands[n].iter().copied().filter(|&o| !seen[o]).collect();
            next.sort_by_key(|&o| Reverse(depth[o]));
            left.extend(next.into_iter().rev().map(|o| (o, false)));
        }
    }
    let mut nodes: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
    order.iter().filter_map(|&n| nodes[n].take()).collect()
}

/// The nodes that each one uses, in the order of its text.
fn operands(nodes: &[Node]) -> Vec<Vec<usize>> {
    let mut at = FxHashMap::default();
    let mut all = Vec::with_capacity(nodes.len());
    for (n, node) in nodes.iter().enumerate() {
        let mut of: Vec<usize> = Vec::new();
        let mut see = |name| {
            if let Some(&o) = at.get(&name)
                && !of.contains(&o)
            {
                of.push(o);
            }
        };
        node.stmts
            .iter()
            .for_each(|stmt| stmt.visit_names(&mut see));
        all.push(of);
        if let Some(defined) = node.defines {
            at.insert(defined.name, n);
        }
    }
    all
}
