//! Short axes as straight-line code: lanes run along the next loop instead (outer-loop vectorisation, Nuzman and Zaks, 2008).
//!
//! Points of three coordinates, pixels of three colours and softmaxes of four classes leave most lanes of a vector empty,
//! and what they share along the axis is computed in a whole vector for each point. Here the body is written once for each
//! position of the axis, what does not vary along it once for all of them, and a reduction over the axis is a chain of
//! operations.

use crate::body::{BodyOp, Value};
use crate::emit::cpu::lanes::{MANY_ROWS, TILED, prefers_outer};
use crate::emit::cpu::rows::{Strided, cost_alone, groups};
use crate::emit::unroll::{unrolled, work, work_of};
use crate::expr::{Expr, Term, Var};
use crate::policy::Policy;
use crate::schedule::{FusedNode, Store, exchanged, merge_under_conditions};
use ferrotrace_kernels::support::{INTERLEAVE, cost_by_rows};
use smallvec::SmallVec;

/// Copies of values that are looked at most, before those that are alike are one.
const MOST_COPIES: usize = 4096;

/// A fused node without the short axes that lanes would go along: its columns, or the last variables of its rows. The node
/// itself where these axes are not short, or where it computes what depends on the order of a loop.
pub(super) fn unroll_short(node: FusedNode, policy: &Policy) -> FusedNode {
    let lanes = policy.target.vector / widest(&node);
    let most = policy.thresholds.unrolled_values;
    let few = |node: &FusedNode| written(node) <= most;
    let node = merge_under_conditions(node, policy.thresholds.unrolled.min(2 * lanes));
    if let Some(axis) = interleaved_axis(&node, policy.thresholds.unrolled.min(TILED - 1)) {
        let inner = exchanged(node.clone(), axis);
        let rank = inner.extents().len();
        let made = without_short_axes(inner, policy, lanes, few);
        if made.extents().len() < rank {
            return made;
        }
    }
    let node = without_reductions(node, lanes, policy.thresholds.unrolled, few);
    let node = unswitched(node, policy, few);
    without_short_axes(node, policy, lanes, few)
}

/// A node without its short axes, if that pays.
fn without_short_axes(
    node: FusedNode,
    policy: &Policy,
    lanes: usize,
    few: impl Fn(&FusedNode) -> bool,
) -> FusedNode {
    let Some(Short { axes, next }) = short_axes(&node, lanes, policy) else {
        return node;
    };
    // Conditions on the axes are decided where these are written out.
    let turns: usize = axes.iter().map(|&axis| node.extents()[axis]).product();
    if node.body.values().len() * turns > MOST_COPIES {
        return node;
    }
    // What is behind an axis is one place nearer once that is gone.
    let along = Var((next - axes.iter().filter(|&&axis| axis < next).count()) as u32);
    let positions = node.extents()[next];
    // What is left over of whole vectors is loaded and stored element by element.
    let vectors = positions / lanes + 2 * usize::from(!positions.is_multiple_of(lanes));
    let fits = |made: &FusedNode| {
        // The reductions of a split row run at once.
        (!made.is_split(policy) || made.moments().is_some())
            && vectors * lanes * after(made, along, lanes) < positions * before(&node, &axes, lanes)
    };
    let first = unrolled(&node, axes[0]);
    let mut others = axes[1..].iter();
    let made = first.and_then(|made| others.try_fold(made, |made, &axis| unrolled(&made, axis)));
    made.filter(few).filter(fits).unwrap_or(node)
}

/// A short axis before the last one of which some load reads all elements of a row, where every store goes along the last one, as
/// of columns that become rows: written out, it is read in whole vectors.
fn interleaved_axis(node: &FusedNode, most: usize) -> Option<usize> {
    let last = Var(node.iter.len().checked_sub(1)? as u32);
    let along = node
        .stores
        .iter()
        .all(|s| s.update.is_none() && node.place(s).coefficient(last) == 1);
    if !along || !node.red.is_empty() || node.is_ordered() {
        return None;
    }
    (0..last.0 as usize).find(|&axis| {
        let extent = node.iter[axis];
        let is_row = |index: &Expr| {
            let by = index.coefficient(Var(axis as u32));
            by == 1 && index.coefficient(last) == extent as i64
        };
        (2..=most).contains(&extent) && node.loads().any(|(_, _, index)| is_row(index))
    })
}

/// A node of many short rows that are vectors, as of products of small matrices, without its short loops of columns: a block of one
/// vector that keeps its accumulators in memory takes several times as long as a chain of operations.
fn without_reductions(
    node: FusedNode,
    lanes: usize,
    most: usize,
    few: impl Fn(&FusedNode) -> bool,
) -> FusedNode {
    let rows = node.iter.len();
    let turns: usize = node.red.iter().product();
    let vector = node.iter.last().copied().unwrap_or(1);
    let blocks = node.iter.iter().product::<usize>() / vector.max(1);
    let short = vector < 2 * lanes && blocks >= MANY_ROWS;
    if node.red.is_empty() || !short || !(2..=most.min(2 * lanes)).contains(&turns) {
        return node;
    }
    if !prefers_outer(&node) || !few(&node) {
        return node;
    }
    let mut columns = rows..node.extents().len();
    let first = columns.next_back().and_then(|axis| unrolled(&node, axis));
    let without = |made: FusedNode, axis| Some(made).filter(&few).and_then(|m| unrolled(&m, axis));
    let made = first.and_then(|made| columns.rev().try_fold(made, without));
    made.filter(few).unwrap_or(node)
}

/// A node without the short loops that its conditions are about, as of parts that are interleaved (loop unswitching): each
/// position computes its own part, not all of them. Its last loop stays.
fn unswitched(mut node: FusedNode, policy: &Policy, few: impl Fn(&FusedNode) -> bool) -> FusedNode {
    let last = node.extents().len().saturating_sub(1);
    for axis in (0..last).rev() {
        let turns = node.extents()[axis];
        let short = (2..=policy.thresholds.unrolled).contains(&turns);
        let before = turns * arithmetic(&node);
        if !short || before == 0 || node.is_split(policy) || !has_conditions(&node, axis) {
            continue;
        }
        let saves = |made: &FusedNode| 4 * arithmetic(made) <= 3 * before;
        let fits = |made: &FusedNode| few(made) && saves(made) && !made.is_split(policy);
        if let Some(made) = unrolled(&node, axis).filter(fits) {
            node = made;
        }
    }
    node
}

/// Whether a condition is about the position along an axis.
fn has_conditions(node: &FusedNode, axis: usize) -> bool {
    let values = node.body.values().iter();
    let masks = values.filter_map(|value| match value.op {
        BodyOp::Mask(mask) => Some(mask),
        BodyOp::Load { mask, .. } => mask,
        _ => None,
    });
    let is_axis = |term: &Term| matches!(term, Term::Var(v) if v.0 as usize == axis);
    let mut conditions = masks.flat_map(|mask| node.body.mask(mask));
    conditions.any(|condition| condition.any(&mut |term| is_axis(term)))
}

/// What one position of all loops computes, in plain operations, but for what is loaded and chosen.
fn arithmetic(node: &FusedNode) -> usize {
    let values = node.body.values().iter();
    let computes = |op: &BodyOp| {
        use BodyOp::{Binary, Divide, Random, Unary};
        matches!(op, Unary(..) | Binary(..) | Divide(..) | Random { .. })
    };
    let computed = values.filter(|value| computes(&value.op));
    computed.map(|value| work(&value.op)).sum()
}

/// The bytes of a lane that holds any of the numbers that a node computes. Positions that all lanes share take none.
fn widest(node: &FusedNode) -> usize {
    let values = node.body.values().iter();
    let numbers = values.filter(|value| value.dtype.is_float());
    let sizes = numbers.map(|value| value.dtype.compute().size());
    sizes.max().unwrap_or(4).max(4)
}

/// What the compiler's time grows with: values, of which a load within conditions is written for all lanes and for some of
/// them.
fn written(node: &FusedNode) -> usize {
    let values = node.body.values().iter();
    let text = |op: &BodyOp| match op {
        BodyOp::Load { mask: Some(_), .. } => 8,
        _ => 1,
    };
    values.map(|value| text(&value.op)).sum()
}

/// Axes to unroll, the last first, and the variable beside them, which lanes then run along.
struct Short {
    axes: SmallVec<[usize; 4]>,
    next: usize,
}

/// The axes of a node to write out: as many short ones as there are behind a long one, as of a batch of small matrices, or
/// the last of its rows where lanes run along columns. Where no axis is long, those behind the longest, if that is twice as long.
fn short_axes(node: &FusedNode, lanes: usize, policy: &Policy) -> Option<Short> {
    let rows = node.iter.len();
    let outer = node.red.is_empty() || prefers_outer(node);
    let extents = node.extents();
    let thresholds = &policy.thresholds;
    let most = thresholds.unrolled.min(2 * lanes);
    let most_together = thresholds.unrolled_together;
    let last = extents.len().checked_sub(1)?;
    let order: SmallVec<[usize; 8]> = match (outer, &node.iter[..], &node.red[..]) {
        (true, [.., _, _], []) => (0..rows).rev().collect(),
        (true, [.., _], [.., _]) => SmallVec::from_slice(&[rows - 1, last]),
        (false, [.., _], [_]) | (false, _, [.., _, _]) => (0..=last).rev().collect(),
        _ => return None,
    };
    let candidates = (1..order.len()).map(|count| Short {
        axes: SmallVec::from_slice(&order[..count]),
        next: order[count],
    });
    let turns = |short: &Short| -> usize { short.axes.iter().map(|&axis| extents[axis]).product() };
    let length = |short: &Short| extents[short.next].min(2 * lanes);
    let fits = |short: &Short| {
        let turns = turns(short);
        let together = short.axes.len() > 1 && extents[short.next] >= MANY_ROWS;
        let most = if together { most_together } else { most };
        (2..=most).contains(&turns) && length(short) >= (2 * turns).min(2 * lanes)
    };
    // The first of equal ones.
    candidates.filter(fits).rev().max_by_key(length)
}

/// What so many positions of the loop beside the axes take where each position of the first of them is a lane, in operations.
fn before(node: &FusedNode, axes: &[usize], lanes: usize) -> usize {
    let (axis, extents) = (axes[0], node.extents());
    let rows: usize = axes[1..].iter().map(|&axis| extents[axis]).product();
    // A row of its own begins with its indices, and brings the lanes of its reductions together; within a reduction of
    // columns the axis is a vector of an inner loop.
    let around = match (axis < node.iter.len(), node.red.len()) {
        (true, 0) => 12,
        (true, _) => 2,
        (false, 2..) => 12,
        (false, _) => {
            let reductions = node.body.values().iter();
            let reductions = reductions.filter(|v| matches!(v.op, BodyOp::Reduce { .. }));
            12 + reductions.count() * 2 * lanes.ilog2() as usize
        }
    };
    let vectors = extents[axis].div_ceil(lanes);
    lanes * rows * (vectors * (work_of(node) + node.stores.len()) + around)
}

/// What a vector of positions takes in straight-line code, in which lanes run along a variable.
fn after(made: &FusedNode, along: Var, lanes: usize) -> usize {
    let step = |index: &Expr| index.coefficient(along).unsigned_abs() as usize;
    let mut loads: Vec<Strided<'_>> = Vec::new();
    let mut all = 0;
    for (v, value) in made.body.values().iter().enumerate() {
        all += match &value.op {
            BodyOp::Load { index, .. } if !index.is_affine() => 2 * lanes,
            BodyOp::Load { index, source, .. } => {
                loads.push(Strided {
                    value: v as Value,
                    source: *source,
                    index,
                    step: step(index),
                });
                cost_alone(step(index), lanes)
            }
            op => work(op),
        };
    }
    for group in groups(&loads, lanes) {
        let columns = group.len();
        all -= columns * (cost_alone(columns, lanes) - cost_by_rows(columns, lanes));
    }
    for store in &made.stores {
        let step = step(&store.index);
        let same = |other: &&Store| {
            let apart = other.index.sub(&store.index).as_const();
            let near = apart.is_some_and(|apart| apart.unsigned_abs() < step as u64);
            other.node == store.node && near
        };
        // Stores of all elements of rows are written together.
        let together = made.stores.iter().filter(same).count() == step;
        all += match (step, together && step <= INTERLEAVE.len() + 1) {
            (0 | 1, _) => 1,
            (_, true) => step.min(cost_by_rows(step, lanes)),
            (_, false) => 2 * lanes,
        };
    }
    all
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::emit::Emitted;
    use crate::emit::cpu::emit;
    use crate::graph::Graph;
    use crate::lower::lower;
    use crate::schedule::{Scheduled, fuse};
    use crate::simplify::simplify;
    use ferrotrace_kernels::ValueId;
    use rustc_hash::FxHashSet;

    /// Whether the columns are written out of a kernel that adds so many matrices, turned and padded, times an exponential
    /// of each row.
    fn is_written_out(matrices: usize) -> bool {
        let mut text = String::new();
        for i in 0..matrices {
            text += &format!("%{i}: f32[16, 64] = input {i} [64, 1]\n");
        }
        let mut next = matrices;
        let mut node = |operation: String| {
            text += &format!("%{next}: f32{operation}\n");
            next += 1;
            format!("%{}", next - 1)
        };
        let rates = node(format!("[66, 1] = input {matrices} [1, 1]"));
        let mut sum = node(format!("[66, 1] = exp({rates})"));
        for i in 0..matrices {
            let turned = node(format!("[64, 16] = permute(%{i}) {{order: [1, 0]}}"));
            let padded = node(format!(
                "[66, 16] = pad({turned}, 0.0) {{pads: [[1, 1], [0, 0]]}}"
            ));
            let op = if i == 0 { "mul" } else { "add" };
            sum = node(format!("[66, 16] = {op}({sum}, {padded})"));
        }
        let node = only_kernel(&format!("{text}return {sum}"));
        let made = unroll_short(node.clone(), &wide());
        made.extents() != node.extents()
    }

    /// Vectors of 64 bytes.
    fn wide() -> Policy {
        let mut policy = Policy::default();
        policy.target.vector = 64;
        policy
    }

    /// The only kernel of a graph.
    fn only_kernel(graph: &str) -> FusedNode {
        fused(graph, &wide()).0
    }

    /// The only kernel of a graph, and the values that it has to store.
    fn fused(graph: &str, policy: &Policy) -> (FusedNode, FxHashSet<ValueId>) {
        let graph: Graph = graph.parse().expect("a graph");
        let graph = simplify(&graph).expect("primitive operators");
        let schedule = fuse(&graph, &lower(&graph, policy).expect("nests"), policy);
        let [Scheduled::Fused(node)] = &schedule.steps[..] else {
            panic!("one kernel")
        };
        (FusedNode::clone(node), schedule.stored)
    }

    /// The only kernel of a graph, as it is emitted.
    pub(in crate::emit::cpu) fn emitted(graph: &str, policy: &Policy) -> Emitted {
        let (node, stored) = fused(graph, policy);
        emit(&node, &stored, policy)
    }

    // Rows of one vector would keep their accumulators in memory.
    #[test]
    fn products_of_small_matrices_have_no_loop() {
        let node = only_kernel(
            "%0: f32[100, 8, 8] = input 0 [64, 8, 1]
             %1: f32[100, 8, 8] = input 1 [64, 8, 1]
             %2: f32[100, 8, 8] = matmul(%0, %1)
             return %2",
        );
        assert_eq!(node.red, [8]);
        assert_eq!(unroll_short(node, &wide()).extents(), [100, 8, 8]);
    }

    // Two levels of an inverse Haar transform: the last loops of the second stand behind those of the first.
    #[test]
    fn sums_and_differences_that_are_interleaved_twice_have_no_short_loops() {
        let (mut text, mut next) = (String::new(), 0);
        let mut node = |operation: String| {
            text += &format!("%{next}: f32{operation}\n");
            next += 1;
            format!("%{}", next - 1)
        };
        let mut input =
            |n: usize, size: usize| node(format!("[{size}, {size}] = input {n} [{size}, 1]"));
        let inputs = [64, 64, 64, 64, 128, 128, 128];
        let inputs: Vec<String> = (0..).zip(inputs).map(|(n, size)| input(n, size)).collect();
        // Sums and differences of rows by columns, side by side along a dimension.
        let mut beside = |a: &str, b: &str, [rows, columns]: [usize; 2], dim: usize| {
            let (one, two, made) = match dim {
                1 => ([rows, 1, columns], [rows, 2, columns], [2 * rows, columns]),
                _ => ([rows, columns, 1], [rows, columns, 2], [rows, 2 * columns]),
            };
            let [sum, difference] = ["add", "sub"].map(|op| {
                let value = node(format!("[{rows}, {columns}] = {op}({a}, {b})"));
                node(format!("{one:?} = unsqueeze({value}) {{dim: {dim}}}"))
            });
            let both = node(format!("{two:?} = cat({sum}, {difference}) {{dim: {dim}}}"));
            node(format!("{made:?} = reshape({both}) {{to: {made:?}}}"))
        };
        let mut low = inputs[0].clone();
        for (size, [a, b, c]) in [(64, [1, 2, 3]), (128, [4, 5, 6])] {
            let left = beside(&low, &inputs[a], [size, size], 2);
            let right = beside(&inputs[b], &inputs[c], [size, size], 2);
            low = beside(&left, &right, [size, 2 * size], 1);
        }
        let kernel = only_kernel(&format!("{text}return {low}"));
        assert_eq!((kernel.iter.len(), kernel.red.len()), (4, 2));
        assert_eq!(unroll_short(kernel, &wide()).extents(), [64, 64]);
    }

    // A load within conditions is written for all lanes and for some.
    #[test]
    fn many_loads_within_conditions_are_not_written_out() {
        assert!(is_written_out(2));
        assert!(!is_written_out(6));
    }

    // Conditions on the coordinates leave no load within conditions once they are decided.
    #[test]
    fn frames_of_vectors_are_written_out() {
        let (mut text, mut next) = (String::new(), 2);
        text += "%0: f32[100, 3] = input 0 [9, 3]\n%1: f32[100, 3] = input 1 [9, 3]\n";
        let mut node = |operation: String| {
            text += &format!("%{next}: f32{operation}\n");
            next += 1;
            format!("%{}", next - 1)
        };
        let mut unit = |x: &str| {
            let square = node(format!("[100, 3] = square({x})"));
            let sum = node(format!(
                "[100, 1] = sum({square}) {{dims: [1], keepdim: true}}"
            ));
            let norm = node(format!("[100, 1] = sqrt({sum})"));
            node(format!("[100, 3] = div({x}, {norm})"))
        };
        let (a, b) = (unit("%0"), unit("%1"));
        // The coordinates from `first` on, then those before it.
        let mut turned = |x: &str, first: usize| {
            let mut part = |start: usize, len: usize| {
                node(format!(
                    "[100, {len}] = narrow({x}) {{dim: 1, start: {start}, len: {len}}}"
                ))
            };
            let (head, tail) = (part(first, 3 - first), part(0, first));
            node(format!("[100, 3] = cat({head}, {tail}) {{dim: 1}}"))
        };
        let parts = [(&a, 1), (&b, 2), (&a, 2), (&b, 1)].map(|(x, first)| turned(x, first));
        let left = node(format!("[100, 3] = mul({}, {})", parts[0], parts[1]));
        let right = node(format!("[100, 3] = mul({}, {})", parts[2], parts[3]));
        let cross = node(format!("[100, 3] = sub({left}, {right})"));
        let beside =
            [&a, &b, &cross].map(|x| node(format!("[100, 3, 1] = unsqueeze({x}) {{dim: 2}}")));
        let [a, b, c] = &beside;
        let all = node(format!("[100, 3, 3] = cat({a}, {b}, {c}) {{dim: 2}}"));
        let kernel = only_kernel(&format!("{text}return {all}"));
        assert_eq!(kernel.extents(), [100, 3, 3]);
        assert!(written(&kernel) > wide().thresholds.unrolled_values);
        assert_eq!(unroll_short(kernel, &wide()).extents(), [100]);
    }
}
