//! From operators to loop nests: which values are stored, and the body that computes each.

mod expand;
mod live;
mod realize;
mod split;

use crate::body::{Body, BodyOp, Source};
use crate::expr::Expr;
use crate::graph::{Graph, NodeOp};
use crate::nest::LoopNest;
use expand::Expansion;
use ferrotrace_kernels::{Op, Operand, ReduceKind, ValueId};
use ferrotrace_runtime::{DType, Layout, Result};

pub use realize::{Limits, Realized, realize};
pub(crate) use split::split_of;

/// An operand of a library call.
#[derive(Clone, Debug)]
pub enum CallArg {
    /// A window on stored memory.
    Window(Source, Layout),
    /// A number.
    Number(Operand),
}

/// A ready-made kernel's call: what no loop nest computes.
#[derive(Clone, Debug)]
pub struct Call {
    /// The node computed.
    pub node: ValueId,
    /// Its operands.
    pub args: Vec<CallArg>,
}

/// One step of a lowered graph, in topological order.
#[derive(Clone, Debug)]
pub enum Lowered {
    /// Generated loops.
    Nest(LoopNest),
    /// A ready-made kernel.
    Call(Call),
}

/// An index check inside generated code: what a fault at its site means.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// The indexing node.
    pub node: ValueId,
    /// The dimension indexed.
    pub dim: usize,
    /// Its size.
    pub size: usize,
}

/// A lowered graph.
#[derive(Clone, Debug)]
pub struct Lowering {
    /// The steps, in topological order.
    pub steps: Vec<Lowered>,
    /// Where each output of the graph lies.
    pub outputs: Vec<(Source, Layout)>,
    /// Index checks; site `i` is entry `i − 1`.
    pub sites: Vec<Site>,
}

/// Lowers a simplified graph (codegen B1, B2): values stored by the rules of [`realize`] become loop nests or library
/// calls, all others are expanded into the bodies of those that use them.
///
/// # Errors
/// An internal error where an operator has no lowering.
pub fn lower(graph: &Graph, limits: &Limits) -> Result<Lowering> {
    let realized = realize(graph, limits);
    let mut sites = Vec::new();
    let mut steps = Vec::new();
    for (i, node) in graph.nodes().iter().enumerate() {
        let id = ValueId(i as u32);
        if !realized.is_stored(id) || matches!(node.op, NodeOp::Input(_)) || node.shape.numel() == 0
        {
            continue;
        }
        if realized.is_call(id) {
            let arg = |arg: &Operand| match arg {
                Operand::Value(v) => {
                    let (source, layout) = realized
                        .window(graph, *v)
                        .expect("a call's operands are stored");
                    CallArg::Window(source, layout)
                }
                number => CallArg::Number(*number),
            };
            steps.push(Lowered::Call(Call {
                node: id,
                args: node.args.iter().map(arg).collect(),
            }));
        } else {
            steps.push(Lowered::Nest(lower_node(graph, &realized, id, &mut sites)?));
        }
    }
    let window = |v: &ValueId| realized.window(graph, *v).expect("an output is stored");
    let outputs: Vec<_> = graph.outputs().iter().map(window).collect();
    Ok(Lowering {
        steps: live::live(steps, &outputs),
        outputs,
        sites,
    })
}

/// The loop nest of one stored node.
fn lower_node(
    graph: &Graph,
    realized: &Realized,
    id: ValueId,
    sites: &mut Vec<Site>,
) -> Result<LoopNest> {
    let node = graph.node(id);
    let NodeOp::Op(op) = &node.op else {
        unreachable!("inputs have no nest")
    };
    let (mut iter, mut red) = (Vec::new(), Vec::new());
    let reduce = match op {
        Op::Reduce { kind, mask, .. } if !realized.is_inline_reduction(id) => Some((*kind, *mask)),
        _ => None,
    };
    let (body, result);
    if let Some((kind, mask)) = reduce {
        let Operand::Value(x) = node.args[0] else {
            unreachable!("a reduction's operand is a tensor")
        };
        let shape = graph.node(x).shape.clone();
        let kept = |d: &usize| mask >> d & 1 == 0;
        iter.extend(
            (0..shape.rank())
                .filter(kept)
                .map(|d| shape[d])
                .filter(|&n| n != 1),
        );
        let (mut next_iter, mut next_red) = (0, iter.len());
        let mut index = Vec::with_capacity(shape.rank());
        for d in 0..shape.rank() {
            if shape[d] == 1 {
                index.push(Expr::default());
            } else if kept(&d) {
                index.push(Expr::var(next_iter));
                next_iter += 1;
            } else {
                index.push(Expr::var(next_red));
                next_red += 1;
                red.push(shape[d]);
            }
        }
        let extents: Vec<usize> = iter.iter().chain(&red).copied().collect();
        let mut expansion = Expansion::new(graph, realized, extents, sites);
        let value = expansion.value(x, &index, None)?;
        (body, result) = reduction(
            expansion.into_body(),
            kind,
            value,
            node.dtype,
            iter.len(),
            &red,
        );
    } else {
        let mut index = Vec::with_capacity(node.shape.rank());
        for &n in node.shape.iter() {
            if n == 1 {
                index.push(Expr::default());
            } else {
                index.push(Expr::var(iter.len()));
                iter.push(n);
            }
        }
        let mut expansion = Expansion::new(graph, realized, iter.clone(), sites);
        result = expansion.node(id, &index, None)?;
        body = expansion.into_body();
    }
    let exact = node.precision == crate::Precision::EagerExact;
    let nest = LoopNest {
        node: id,
        dtype: node.dtype,
        iter,
        red,
        body,
        result,
        exact,
    };
    Ok(split::split_loops(if reduce.is_some() && exact {
        rounded(nest)
    } else {
        nest
    }))
}

/// Appends the reduction of `value`, cast to its accumulator (codegen A3.14).
fn reduction(
    mut body: Body,
    kind: ReduceKind,
    value: u32,
    dtype: DType,
    iter: usize,
    red: &[usize],
) -> (Body, u32) {
    let from = body.value(value).dtype;
    let (kind, accumulate) = match kind {
        ReduceKind::Sum | ReduceKind::Prod | ReduceKind::Mean => (kind, dtype.compute()),
        ReduceKind::Any | ReduceKind::All => (kind, DType::Bool),
        ReduceKind::Max if from == DType::Bool => (ReduceKind::Any, DType::Bool),
        ReduceKind::Min if from == DType::Bool => (ReduceKind::All, DType::Bool),
        ReduceKind::ArgMax | ReduceKind::ArgMin if from == DType::Bool => (kind, DType::U8),
        _ => (kind, from),
    };
    let value = if from == accumulate {
        value
    } else {
        body.push(BodyOp::Cast(value), accumulate)
    };
    let arg = matches!(kind, ReduceKind::ArgMax | ReduceKind::ArgMin);
    let position = arg.then(|| crate::nest::flat_index(red, iter));
    let result = if arg { DType::I64 } else { accumulate };
    let reduced = body.push(
        BodyOp::Reduce {
            kind,
            value,
            position,
        },
        result,
    );
    (body, reduced)
}

/// The nest with its half-precision result rounded.
fn rounded(mut nest: LoopNest) -> LoopNest {
    if nest.dtype.is_half() {
        nest.result = nest
            .body
            .push(BodyOp::Round(nest.result, nest.dtype), DType::F32);
    }
    nest
}
