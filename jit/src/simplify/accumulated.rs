//! Sums of matrix products as products of longer rows: a₁·b₁ + a₂·b₂ is [a₁ a₂]·[b₁; b₂].
//!
//! The gradient of a weight that is used again and again, at each step of a recurrence or for each part of a batch, is such a
//! sum. Each short product alone reads and writes the whole sum, and pays for its start.

use super::uses;
use crate::graph::{Graph, Node, NodeOp, Precision};
use crate::policy::Thresholds;
use ferrotrace_kernels::op::{Cat, Permute, SumOfProducts};
use ferrotrace_kernels::{BinaryOp, Op, OpBuilder, OpBuilderExt, Operand, ValueId};
use ferrotrace_runtime::{Error, Result};
use smallvec::{SmallVec, smallvec};

/// What a node of the recorded graph becomes.
#[derive(Clone, Debug)]
pub(super) enum Accumulated {
    /// The sum of several products, each given by its operands, and of the group before it: in place of the last of them.
    Products {
        /// The operands of each.
        group: Vec<(ValueId, ValueId)>,
        /// The node in whose place the group before is.
        before: Option<ValueId>,
    },
    /// A sum of these.
    Sum(Vec<ValueId>),
}

/// For each node that sums products of single use, of rows of at most half of `summed_length`, the sum with these in groups
/// of at most `summed_rows` together, and for the last product of each group the group; what goes into them otherwise is
/// not live any more. `rounds` says which values round.
pub(super) fn accumulated(
    graph: &Graph,
    live: &mut [bool],
    rounds: &[bool],
    bounds: &Thresholds,
) -> Vec<Option<Accumulated>> {
    let uses = uses(graph, live);
    let alone = |id: ValueId| uses[id.0 as usize] == 1 && !rounds[id.0 as usize];
    let mut all: Vec<Option<Accumulated>> = vec![None; live.len()];
    // A sum within another has no terms but the other's: each is walked once.
    let mut within = vec![false; live.len()];
    for v in (0..live.len()).rev() {
        let root = ValueId(v as u32);
        if !live[v] || within[v] || all[v].is_some() || !is_sum(graph, root) {
            continue;
        }
        // The terms, without recursion.
        let (mut terms, mut inner, mut stack) = (Vec::new(), Vec::new(), vec![root]);
        while let Some(id) = stack.pop() {
            if id == root || alone(id) && is_sum(graph, id) {
                within[id.0 as usize] = true;
                inner.push(id);
                let operands: SmallVec<[ValueId; 2]> = graph.operands(id).collect();
                stack.extend(operands.iter().rev());
            } else {
                terms.push(id);
            }
        }
        let short = |&id: &ValueId| {
            let (a, b) = product(graph, graph.node(id)).filter(|_| alone(id))?;
            (2 * graph.node(a).shape[1] <= bounds.summed_length).then_some((id, (a, b)))
        };
        let mut products: Vec<_> = terms.iter().filter_map(short).collect();
        if products.len() < 2 {
            continue;
        }
        products.sort_unstable();
        for id in inner.into_iter().filter(|&id| id != root) {
            live[id.0 as usize] = false;
        }
        let mut before = None;
        for group in groups(graph, &products, bounds.summed_rows) {
            for (id, _) in group {
                live[id.0 as usize] = false;
            }
            let Some(last) = group.last().map(|of| of.0) else {
                continue;
            };
            live[last.0 as usize] = true;
            let group = group.iter().map(|of| of.1).collect();
            all[last.0 as usize] = Some(Accumulated::Products { group, before });
            before = Some(last);
        }
        terms.retain(|term| products.binary_search_by_key(term, |of| of.0).is_err());
        terms.splice(0..0, before);
        all[v] = Some(Accumulated::Sum(terms));
    }
    all
}

/// A product with its operands.
type Term = (ValueId, (ValueId, ValueId));

/// Products in the order in which they are recorded, in groups: of two first, then of rows as long as all before together
/// and at most `most`. A group is held until it is complete, and gradients, which are recorded as what they are computed
/// of is read for the last time, need no more memory with groups as long as what went before.
fn groups<'a>(graph: &Graph, products: &'a [Term], most: usize) -> Vec<&'a [Term]> {
    let mut groups = Vec::new();
    let (mut start, mut rows, mut before) = (0, 0, 0);
    for (i, (_, (a, _))) in products.iter().enumerate() {
        let inner = graph.node(*a).shape[1];
        let full = rows + inner > most.min(before) && i >= start + 2;
        if full {
            groups.push(&products[start..i]);
            (start, before, rows) = (i, before + rows, 0);
        }
        rows += inner;
    }
    groups.push(&products[start..]);
    groups
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

/// Builds what a node becomes; `of` gives what a value of the recorded graph became. `ready` says whether a ready-made kernel
/// sums products: it copies the operands next to each other while it runs. Else they are joined in memory that is planned.
pub(super) fn define(
    what: &Accumulated,
    graph: &Graph,
    b: &mut dyn OpBuilder,
    ready: bool,
    of: impl Fn(ValueId) -> ValueId,
) -> Result<ValueId> {
    match what {
        Accumulated::Products { group, before } => {
            let product = match &group[..] {
                &[(left, right)] => b.matmul(of(left), of(right))?,
                _ if ready => {
                    let all = group.iter().flat_map(|&(left, right)| [left, right]);
                    let all: Vec<Operand> = all.map(|x| of(x).into()).collect();
                    b.push(Op::from(SumOfProducts), &all)?
                }
                _ => {
                    let rows: Vec<ValueId> = group.iter().map(|&(a, _)| a).collect();
                    let columns: Vec<ValueId> = group.iter().map(|&(_, c)| c).collect();
                    let left = joined(graph, b, &of, &rows, 1)?;
                    let right = joined(graph, b, &of, &columns, 0)?;
                    b.matmul(left, right)?
                }
            };
            match before {
                Some(before) => b.add(of(*before), product),
                None => Ok(product),
            }
        }
        Accumulated::Sum(terms) => {
            let mut terms = terms.iter().map(|&term| of(term));
            let first = terms
                .next()
                .ok_or_else(|| Error::internal("a sum of no terms"))?;
            terms.try_fold(first, |total, term| b.add(total, term))
        }
    }
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
