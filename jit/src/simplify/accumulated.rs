//! Sums of matrix products as products of longer rows: a₁·b₁ + a₂·b₂ is [a₁ a₂]·[b₁; b₂].
//!
//! The gradient of a weight that is used again and again, at each step of a recurrence or for each part of a batch, is such a
//! sum. Each short product alone reads and writes the whole sum, and pays for its start.

use super::uses;
use crate::graph::{Graph, Node, NodeOp, Precision};
use ferrotrace_kernels::op::{Cat, Permute};
use ferrotrace_kernels::{BinaryOp, Op, OpBuilder, OpBuilderExt, Operand, ValueId};
use ferrotrace_runtime::{Error, Result};
use smallvec::{SmallVec, smallvec};

/// A sum of which some terms are products.
#[derive(Clone, Debug)]
pub(super) struct Accumulated {
    /// Terms that are none, or whose product is long enough.
    others: Vec<ValueId>,
    /// Products that are one, each as its operands.
    groups: Vec<Vec<(ValueId, ValueId)>>,
}

/// For each node that sums short products of single use, the sum with these in groups of at most `length` together; what
/// goes into it is not live any more. `rounds` says which values round.
pub(super) fn accumulated(
    graph: &Graph,
    live: &mut [bool],
    rounds: &[bool],
    length: usize,
) -> Vec<Option<Accumulated>> {
    let uses = uses(graph, live);
    let alone = |id: ValueId| uses[id.0 as usize] == 1 && !rounds[id.0 as usize];
    let mut all: Vec<Option<Accumulated>> = vec![None; live.len()];
    for v in (0..live.len()).rev() {
        let root = ValueId(v as u32);
        if !live[v] || !is_sum(graph, root) {
            continue;
        }
        // The terms in order, without recursion.
        let (mut terms, mut inner, mut stack) = (Vec::new(), Vec::new(), vec![root]);
        while let Some(id) = stack.pop() {
            if id == root || alone(id) && is_sum(graph, id) {
                inner.push(id);
                stack.extend(
                    graph
                        .operands(id)
                        .collect::<SmallVec<[ValueId; 2]>>()
                        .iter()
                        .rev(),
                );
            } else {
                terms.push(id);
            }
        }
        let Some(found) = grouped(graph, &terms, &alone, length) else {
            continue;
        };
        for id in inner.into_iter().filter(|&id| id != root) {
            live[id.0 as usize] = false;
        }
        for id in terms.into_iter().filter(|id| !found.others.contains(id)) {
            live[id.0 as usize] = false;
        }
        all[v] = Some(found);
    }
    all
}

fn is_sum(graph: &Graph, id: ValueId) -> bool {
    let node = graph.node(id);
    let add = node.operator().and_then(Op::as_binary) == Some(BinaryOp::Add);
    let shapes = || {
        graph
            .operands(id)
            .all(|x| graph.node(x).shape == node.shape)
    };
    add && node.precision == Precision::Fast
        && node.dtype.is_float()
        && graph.operands(id).count() == 2
        && shapes()
        && graph
            .operands(id)
            .all(|x| graph.node(x).dtype == node.dtype)
}

/// The operands of a product of matrices of the result's dtype.
fn product(graph: &Graph, node: &Node) -> Option<(ValueId, ValueId)> {
    let (NodeOp::Op(op), [Operand::Value(a), Operand::Value(b)]) = (&node.op, &node.args[..])
    else {
        return None;
    };
    let fits = |x: &ValueId| {
        let operand = graph.node(*x);
        operand.shape.rank() == 2 && operand.dtype == node.dtype
    };
    let one = op.is_matmul() && node.precision == Precision::Fast;
    (one && fits(a) && fits(b)).then_some((*a, *b))
}

fn grouped(
    graph: &Graph,
    terms: &[ValueId],
    alone: &impl Fn(ValueId) -> bool,
    length: usize,
) -> Option<Accumulated> {
    let mut found = Accumulated {
        others: Vec::new(),
        groups: Vec::new(),
    };
    let mut total = length;
    for &term in terms {
        let node = graph.node(term);
        let Some((a, b)) = product(graph, node).filter(|_| alone(term)) else {
            found.others.push(term);
            continue;
        };
        let inner = graph.node(a).shape[1];
        if 2 * inner > length {
            found.others.push(term);
            continue;
        }
        match found.groups.last_mut().filter(|_| total + inner <= length) {
            Some(group) => group.push((a, b)),
            None => {
                found.groups.push(vec![(a, b)]);
                total = 0;
            }
        }
        total += inner;
    }
    let pays = found.groups.iter().any(|group| group.len() > 1);
    pays.then_some(found)
}

/// Builds the sum; `of` gives what a value of the recorded graph became.
pub(super) fn define(
    sum: &Accumulated,
    graph: &Graph,
    b: &mut dyn OpBuilder,
    of: impl Fn(ValueId) -> ValueId,
) -> Result<ValueId> {
    let mut total: Option<ValueId> = None;
    for group in &sum.groups {
        let rows: Vec<ValueId> = group.iter().map(|&(a, _)| a).collect();
        let columns: Vec<ValueId> = group.iter().map(|&(_, c)| c).collect();
        let left = joined(graph, b, &of, &rows, 1)?;
        let right = joined(graph, b, &of, &columns, 0)?;
        let product = b.matmul(left, right)?;
        total = Some(match total {
            Some(total) => b.add(total, product)?,
            None => product,
        });
    }
    let mut others = sum.others.iter().map(|&other| of(other));
    let first = total.or_else(|| others.next());
    let first = first.ok_or_else(|| Error::internal("a sum of no terms"))?;
    others.try_fold(first, |total, other| b.add(total, other))
}

/// Matrices joined along a dimension; those that are transposed before they are.
fn joined(
    graph: &Graph,
    b: &mut dyn OpBuilder,
    of: &impl Fn(ValueId) -> ValueId,
    parts: &[ValueId],
    dim: usize,
) -> Result<ValueId> {
    let untransposed: Option<Vec<ValueId>> = parts.iter().map(|&x| transposed(graph, x)).collect();
    let (parts, along) = match &untransposed {
        Some(parts) => (&parts[..], 1 - dim),
        None => (parts, dim),
    };
    let operands: Vec<Operand> = parts.iter().map(|&part| of(part).into()).collect();
    let whole = match &operands[..] {
        [Operand::Value(one)] => *one,
        _ => b.push(Op::from(Cat { dim: along }), &operands)?,
    };
    match untransposed {
        Some(_) => b.push(Op::from(Permute(smallvec![1, 0])), &[whole.into()]),
        None => Ok(whole),
    }
}

/// What a transposed matrix is the transpose of.
fn transposed(graph: &Graph, x: ValueId) -> Option<ValueId> {
    let op = graph.node(x).operator()?;
    let Permute(order) = op.as_permute()?;
    (order[..] == [1, 0]).then(|| graph.operands(x).next())?
}
