//! From operators to loop nests: which values are stored, and the body that computes each.

mod alike;
pub(crate) mod attention;
mod biased;
mod cost;
mod expand;
mod expanded;
mod layout;
mod lifetime;
mod live;
mod narrow;
mod pieces;
mod realigned;
mod realize;
mod scan;
mod scatter;
mod split;
mod update;
mod verify;
mod windowed;

use crate::body::{Body, BodyOp, Source, Value};
use crate::expr::Expr;
use crate::graph::{Graph, NodeOp};
use crate::nest::{LoopNest, flat_index};
use crate::policy::Policy;
use crate::refusal::Refusal;
use alike::{Cone, Nests, Ordered, Turns};
use expand::Expansion;
pub(crate) use expand::PROVED;
use ferrotrace_kernels::op::{Reduce, Scan};
use ferrotrace_kernels::{Class, Operand, ReduceKind, ValueId};
use ferrotrace_runtime::{Config, DType, Error, Layout, Result};
use layout::Order;
use rustc_hash::FxHashSet;

pub use attention::{Attention, Matrices};
pub(crate) use biased::takes_bias;

pub use pieces::{Piece, Pieces};
pub use realize::{Realized, realize};
pub(crate) use split::split_of;
use std::sync::Arc;

/// Values that are looked at most for what one is computed of.
const MOST_READ: usize = 32;

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
    Nest(Box<LoopNest>),
    /// A ready-made kernel.
    Call(Call),
    /// A kernel that takes a score change.
    Attention(Box<Attention>),
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
    /// Values that lie in the memory of others.
    pub pieces: Pieces,
    /// Values that kernels of their own compute (scheduler L-08).
    pub apart: FxHashSet<ValueId>,
    /// Products with their biases that a device's library computes: no kernel does so again.
    pub biased: FxHashSet<ValueId>,
    /// Products with softmaxes of them that are no attention, with the reason.
    pub refusals: Vec<(ValueId, ValueId, Refusal)>,
}

/// Lowers a simplified graph (codegen B1, B2): values stored by the rules of [`realize`] become loop nests or library
/// calls, all others are expanded into the bodies of those that use them.
///
/// # Errors
/// An internal error where an operator has no lowering.
pub fn lower(graph: &Graph, policy: &Policy) -> Result<Lowering> {
    let mut realized = realize(graph, policy);
    let kept = layout::kept(graph);
    let flexible = layout::flexible(graph, &realized, &kept);
    let mut output = vec![false; graph.nodes().len()];
    for v in graph.outputs() {
        output[v.0 as usize] = true;
    }
    let mut sites = Vec::new();
    let mut steps = Vec::new();
    let mut nests = Nests::default();
    for (i, node) in graph.nodes().iter().enumerate() {
        let id = ValueId(i as u32);
        if !realized.is_stored(id) || matches!(node.op, NodeOp::Input(_)) || node.shape.numel() == 0
        {
            continue;
        }
        if realized.is_inside_attention(id) {
            continue;
        }
        if let Some(found) = realized.attention(id) {
            let step = attention::lower_attention(graph, &realized, found, &mut sites)?;
            steps.push(Lowered::Attention(Box::new(step)));
        } else if realized.is_call(id) {
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
            let turns = match (flexible[i], output[i]) {
                (false, _) => (false, None),
                (true, true) => (true, Some(kept[i].clone())),
                (true, false) => (true, None),
            };
            let nest = match realized.write(id).is_some() {
                true => lower_write(graph, &mut realized, id, policy, &mut sites, &mut steps)?,
                false => {
                    let at = (id, turns);
                    lower_generated(graph, &mut realized, at, policy, &mut nests, &mut sites)?
                }
            };
            steps.push(Lowered::Nest(Box::new(nest)));
        }
    }
    let window = |v: &ValueId| realized.window(graph, *v).expect("an output is stored");
    let outputs: Vec<_> = graph.outputs().iter().map(window).collect();
    Ok(Lowering {
        apart: realized.apart,
        biased: realized.biased,
        steps: live::live(steps, &outputs),
        outputs,
        sites,
        refusals: realized.refusals,
        pieces: realized.pieces,
    })
}

/// The loops of a generated node, those of a like one if they are known.
fn lower_generated(
    graph: &Graph,
    realized: &mut Realized,
    (id, turns): (ValueId, Turns),
    policy: &Policy,
    nests: &mut Nests,
    sites: &mut Vec<Site>,
) -> Result<LoopNest> {
    let cone = Cone::of(graph, realized, id, turns.clone());
    let known = cone
        .as_ref()
        .and_then(|cone| nests.find(graph, realized, cone));
    let is_known = known.is_some();
    let (nest, order) = match known {
        Some(known) => {
            let differs = |of: Ordered| {
                let text = |of: &Ordered| format!("{} {} {:?}", of.0, of.0.place, of.1);
                text(&of) != text(&known)
            };
            if Config::get().verify
                && differs(lower_ordered(graph, realized, (id, &turns), policy, sites)?)
            {
                let text = format!("node {} has the loops of another form's", id.0);
                return Err(Error::internal(text));
            }
            known
        }
        None => lower_ordered(graph, realized, (id, &turns), policy, sites)?,
    };
    if let Some(order) = &order {
        realized.set_order(id, order.clone());
    }
    if let Some(cone) = cone.filter(|_| !is_known) {
        nests.insert(cone, (nest.clone(), order));
    }
    Ok(nest)
}

/// The loops of a generated node, in the order in which its result lies.
fn lower_ordered(
    graph: &Graph,
    realized: &Realized,
    (id, turns): (ValueId, &Turns),
    policy: &Policy,
    sites: &mut Vec<Site>,
) -> Result<Ordered> {
    let known = sites.len();
    let mut nest = lower_node(graph, realized, id, None, sites)?;
    let order = match turns {
        (false, _) => None,
        (true, Some(kept)) => kept.clone(),
        (true, None) => layout::vote(&nest.body, &nest.iter, policy),
    };
    if order.is_some() {
        sites.truncate(known);
        nest = lower_node(graph, realized, id, order.as_ref(), sites)?;
    }
    Ok((split::regroup_loops(nest, policy.thresholds.splits), order))
}

/// The loops of an assignment that is written over what it is assigned to; what is better computed apart is a step before.
fn lower_write(
    graph: &Graph,
    realized: &mut Realized,
    id: ValueId,
    policy: &Policy,
    sites: &mut Vec<Site>,
    steps: &mut Vec<Lowered>,
) -> Result<LoopNest> {
    let splits = policy.thresholds.splits;
    let known = sites.len();
    let mut nest = lower_node(graph, realized, id, None, sites)?;
    if let Some(write) = realized.write(id)
        && let Some(&Operand::Value(source)) = graph.node(write.holder).args.get(1)
        && !realized.is_stored(source)
        && update::reads_across(&nest, graph.node(id).shape.numel())
    {
        sites.truncate(known);
        realized.set_stored(source);
        let apart = lower_node(graph, realized, source, None, sites)?;
        steps.push(Lowered::Nest(Box::new(split::regroup_loops(apart, splits))));
        nest = lower_node(graph, realized, id, None, sites)?;
    }
    Ok(split::regroup_loops(nest, splits))
}

/// The loop nest of one stored node, whose result lies in memory in this order.
fn lower_node(
    graph: &Graph,
    realized: &Realized,
    id: ValueId,
    order: Option<&Order>,
    sites: &mut Vec<Site>,
) -> Result<LoopNest> {
    let node = graph.node(id);
    let NodeOp::Op(op) = &node.op else {
        unreachable!("inputs have no nest")
    };
    if let Some(&Scan { kind, dim }) = op.as_scan()
        && scan::length(&node.shape, dim) > 1
    {
        return scan::lower_scan(graph, realized, id, (kind, dim), sites);
    }
    if let Some(write) = realized.write(id) {
        return update::lower_write(graph, realized, (id, write), sites);
    }
    if op.class() == Class::Scatter {
        return scatter::lower_scatter(graph, realized, id, sites);
    }
    match op.as_reduce() {
        Some(reduce) if !realized.is_inline_reduction(id) => {
            lower_reduction(graph, realized, (id, reduce), order, sites)
        }
        _ => {
            let (iter, index) = loops(node.shape.iter().copied(), order);
            let mut expansion = Expansion::new(graph, realized, iter.clone(), sites);
            let result = expansion.node(id, &index, None)?;
            let values = (expansion.into_body(), result);
            Ok(nest(graph, realized, id, (iter, Vec::new()), values))
        }
    }
}

/// Lowers a reduction whose terms are walked by a loop.
fn lower_reduction(
    graph: &Graph,
    realized: &Realized,
    (id, reduce): (ValueId, &Reduce),
    order: Option<&Order>,
    sites: &mut Vec<Site>,
) -> Result<LoopNest> {
    let node = graph.node(id);
    let Operand::Value(x) = node.args[0] else {
        unreachable!("a reduction's operand is a tensor")
    };
    let shape = graph.node(x).shape.clone();
    let kept = |d: &usize| reduce.mask >> d & 1 == 0;
    let (iter, vars) = loops((0..shape.rank()).filter(kept).map(|d| shape[d]), order);
    let (mut red, mut vars) = (Vec::new(), vars.into_iter());
    let mut index = Vec::with_capacity(shape.rank());
    for d in 0..shape.rank() {
        if kept(&d) {
            index.extend(vars.next());
        } else if shape[d] == 1 {
            index.push(Expr::default());
        } else {
            index.push(Expr::var(iter.len() + red.len()));
            red.push(shape[d]);
        }
    }
    let extents: Vec<usize> = iter.iter().chain(&red).copied().collect();
    let mut expansion = Expansion::new(graph, realized, extents, sites);
    let value = expansion.value(x, &index, None)?;
    let body = expansion.into_body();
    let values = reduction(body, reduce.kind, value, node.dtype, iter.len(), &red);
    Ok(nest(graph, realized, id, (iter, red), values))
}

/// The nest of a node over these rows and columns, whose result goes to memory of its own or to a part of another's.
fn nest(
    graph: &Graph,
    realized: &Realized,
    id: ValueId,
    (iter, red): (Vec<usize>, Vec<usize>),
    (body, result): (Body, Value),
) -> LoopNest {
    let node = graph.node(id);
    let place = match realized.pieces.get(&id) {
        Some(piece) => {
            let strides = piece.window.strides().iter();
            let long = node.shape.iter().zip(strides).filter(|(n, _)| **n != 1);
            let terms = long.enumerate();
            terms.fold(Expr::default(), |place, (var, (_, &stride))| {
                place.add(&Expr::var(var).scale(stride as i64))
            })
        }
        None => flat_index(&iter, 0),
    };
    LoopNest {
        node: id,
        place,
        dtype: node.dtype,
        update: None,
        iter,
        red,
        body: Arc::new(body),
        result,
        exact: node.precision == crate::Precision::EagerExact,
    }
}

/// The loops over a result's sizes, in this order, and the index of each of its dimensions: sizes of 1 have no loop.
fn loops(sizes: impl Iterator<Item = usize>, order: Option<&Order>) -> (Vec<usize>, Vec<Expr>) {
    let (mut extents, mut index) = (Vec::new(), Vec::new());
    for n in sizes {
        if n == 1 {
            index.push(Expr::default());
        } else {
            let at = extents.len() as u8;
            let var = order.and_then(|order| order.iter().position(|&d| d == at));
            index.push(Expr::var(var.unwrap_or(extents.len())));
            extents.push(n);
        }
    }
    match order {
        Some(order) => (order.iter().map(|&d| extents[d as usize]).collect(), index),
        None => (extents, index),
    }
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
    let position = arg.then(|| flat_index(red, iter));
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
