//! Concatenations of a device: one kernel that selects among the parts computes each element of every part for each
//! element of the whole. Where that is much more than the parts have, they are written in place instead
//! ([`place`](crate::lower::Pieces)); a part that has memory of its own is copied there. Others of many parts are joined group
//! by group.

use super::hoisted::come_from;
use super::uses;
use crate::graph::{Graph, NodeOp};
use crate::policy::Thresholds;
use ferrotrace_kernels::op::{Cast, Cat};
use ferrotrace_kernels::{Class, Op, OpBuilder, Operand, ValueId};
use ferrotrace_runtime::{DType, Result};
use smallvec::SmallVec;

/// Values looked at for what one part costs.
const VISITED: usize = 64;
/// What a function costs that takes much longer than an addition.
const HEAVY: usize = 10;

/// Whether the parts of a concatenation are better written in place: selecting would compute so many operations
/// that count for nothing, or what would be selected follows a reduction of rows as long as itself, whose kernel
/// stores it in passing.
pub(crate) fn are_better_apart(graph: &Graph, cat: ValueId, thresholds: &Thresholds) -> bool {
    let whole = graph.node(cat).shape.numel();
    let parts = || graph.operands(cat);
    let size = |part: ValueId| graph.node(part).shape.numel();
    let wasted = parts().fold(0usize, |sum, part| {
        let each = cost(graph, part).saturating_mul(whole - size(part));
        sum.saturating_add(each)
    });
    if wasted >= thresholds.cat_waste.saturating_mul(whole) {
        return whole > 0;
    }
    let constant = |part: &ValueId| graph.node(*part).is_of(Class::Create);
    let mut computed = parts().filter(|part| !constant(part));
    match (computed.next(), computed.next()) {
        (Some(part), None) => parts().count() > 1 && follows_reduction(graph, part),
        _ => false,
    }
}

/// Operations that compute an element of a value from what certainly lies in memory, reads among them.
fn cost(graph: &Graph, value: ValueId) -> usize {
    let (mut open, mut sum): (SmallVec<[ValueId; 16]>, usize) = (SmallVec::from_slice(&[value]), 0);
    for _ in 0..VISITED {
        let Some(v) = open.pop() else { break };
        let Some(op) = graph.node(v).operator() else {
            sum += 1;
            continue;
        };
        match op.class() {
            Class::View => open.extend(graph.operands(v)),
            Class::Pointwise => {
                sum += if op.entry().is_light() { 1 } else { HEAVY };
                open.extend(graph.operands(v));
            }
            Class::Random => sum += HEAVY,
            _ => sum += 1,
        }
    }
    sum
}

/// Whether a value is computed, element by element, of a reduction of as many elements.
pub(super) fn follows_reduction(graph: &Graph, value: ValueId) -> bool {
    let size = graph.node(value).shape.numel();
    if !graph.node(value).is_of(Class::Pointwise) {
        return false;
    }
    let mut open: SmallVec<[ValueId; 16]> = SmallVec::from_slice(&[value]);
    for _ in 0..VISITED {
        let Some(v) = open.pop() else { break };
        let Some(op) = graph.node(v).operator() else {
            continue;
        };
        match op.class() {
            Class::View | Class::Pointwise => open.extend(graph.operands(v)),
            Class::Reduce => {
                let mut of = graph.operands(v).map(|x| graph.node(x).shape.numel());
                if of.next() == Some(size) {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// What becomes of a concatenation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Kept,
    Grouped,
    Placed,
}

/// The graph with concatenations in the form that suits a device.
///
/// # Errors
/// An operator of the graph refuses its operands.
pub(super) fn parted(graph: Graph, thresholds: &Thresholds) -> Result<Graph> {
    let form = |i: usize| {
        let (id, node) = (ValueId(i as u32), &graph.nodes()[i]);
        match node.operator().and_then(Op::as_cat) {
            None => Form::Kept,
            Some(_) if are_better_apart(&graph, id, thresholds) => Form::Placed,
            Some(_) if node.args.len() > thresholds.cat_parts => Form::Grouped,
            Some(_) => Form::Kept,
        }
    };
    let forms: Vec<Form> = (0..graph.nodes().len()).map(form).collect();
    if forms.iter().all(|form| *form == Form::Kept) {
        return Ok(graph);
    }
    let uses = uses(&graph, &vec![true; forms.len()]);
    let mut new = Graph::with_capacity(forms.len());
    new.set_device(&graph.device());
    let mut map: Vec<ValueId> = Vec::with_capacity(forms.len());
    for (node, form) in graph.nodes().iter().zip(&forms) {
        let op = match &node.op {
            NodeOp::Input(n) => {
                let of = &graph.inputs()[*n as usize];
                map.push(new.input(&of.layout, of.dtype, &of.device));
                continue;
            }
            NodeOp::Op(op) => op,
        };
        come_from(&mut new, node);
        let operand = |arg: &Operand| match arg {
            Operand::Value(x) => Operand::Value(map[x.0 as usize]),
            number => *number,
        };
        let mut args: SmallVec<[Operand; 3]> = node.args.iter().map(operand).collect();
        let value = match (op.as_cat(), form) {
            (Some(cat), Form::Grouped) => grouped(&mut new, cat.dim, thresholds.cat_parts, &args)?,
            (_, form) => {
                if *form == Form::Placed {
                    copy_what_lies_elsewhere(
                        &graph,
                        &uses,
                        (&node.args, node.dtype),
                        &mut new,
                        &mut args,
                    )?;
                }
                new.push(op.clone(), &args)?
            }
        };
        new.set_rounding(value, node.rounding);
        if node.commutes {
            new.set_commutes(value);
        }
        map.push(value);
    }
    let outputs = graph.outputs().iter().map(|v| map[v.0 as usize]).collect();
    new.set_outputs(outputs);
    Ok(new)
}

/// Puts a copy in place of each part that no kernel can write in place: inputs and views, what others use too, and what a
/// call makes. A cast of a value to its own type is that copy.
fn copy_what_lies_elsewhere(
    graph: &Graph,
    uses: &[usize],
    (parts, dtype): (&[Operand], DType),
    new: &mut Graph,
    args: &mut [Operand],
) -> Result<()> {
    for (part, arg) in parts.iter().zip(args) {
        let Operand::Value(part) = part else { continue };
        let (base, alone) = below_reshapes(graph, uses, *part);
        let node = graph.node(base);
        let by_kernel = matches!(
            node.operator().map(Op::class),
            Some(Class::Pointwise | Class::Create | Class::Reduce)
        );
        if !(by_kernel && alone && node.dtype == dtype) {
            *arg = new.push(Op::from(Cast(dtype)), &[*arg])?.into();
        }
    }
    Ok(())
}

/// What a part is once dimensions of size 1 are left out of account, and whether nothing else uses it.
fn below_reshapes(graph: &Graph, uses: &[usize], part: ValueId) -> (ValueId, bool) {
    let (mut base, mut alone) = (part, uses[part.0 as usize] == 1);
    let long = |v: ValueId| -> SmallVec<[usize; 6]> {
        graph
            .node(v)
            .shape
            .iter()
            .copied()
            .filter(|n| *n != 1)
            .collect()
    };
    while let Some(op) = graph.node(base).operator()
        && op.as_view().is_some_and(|view| view.is_reshape())
        && let Some(from) = graph.operands(base).next()
        && long(from) == long(base)
    {
        base = from;
        alone &= uses[base.0 as usize] == 1;
    }
    (base, alone)
}

/// A concatenation in groups of at most `most` operands.
fn grouped(b: &mut Graph, dim: usize, most: usize, args: &[Operand]) -> Result<ValueId> {
    let mut parts: Vec<Operand> = Vec::new();
    let each = args.len().div_ceil(most).max(2);
    for group in args.chunks(each) {
        parts.push(match group {
            [one] => *one,
            group => b.push(Op::from(Cat { dim }), group)?.into(),
        });
    }
    b.push(Op::from(Cat { dim }), &parts)
}
