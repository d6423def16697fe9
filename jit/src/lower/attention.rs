//! Attention in a graph: a product, pointwise changes of it, a softmax over its columns, and the product with the values
//! (scheduler T-09). One kernel computes all of it and never stores the scores.

use super::{Expansion, Realized, Site, loops};
use crate::body::{Body, BodyOp, Source, Value};
use crate::graph::{Graph, Node, NodeOp, Precision};
use crate::nest::{LoopNest, flat_index};
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::template::attention as template;
use ferrotrace_kernels::op::Reduce;
use ferrotrace_kernels::{BinaryOp, Class, Op, Operand, ReduceKind, UnaryOp, ValueId, ops::view};
use ferrotrace_runtime::{DType, Error, Layout, Result, Scalar, Shape};

/// Where attention stands in a graph.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The product of queries and keys.
    pub product: ValueId,
    /// What the softmax is taken of.
    pub scores: ValueId,
    /// The product with the values: the result.
    pub result: ValueId,
    /// Whether queries that see nothing give zeros, not NaN.
    pub zeros: bool,
    /// Queries, keys and values, before a conversion to binary32 that the kernel does.
    pub operands: [ValueId; 3],
}

/// A batch of matrices in memory; distances in elements.
#[derive(Clone, Debug)]
pub struct Matrices {
    /// The memory.
    pub source: Source,
    /// The first element.
    pub offset: usize,
    /// From a matrix to the next, along each dimension of the batch that has a loop.
    pub batch: Vec<isize>,
    /// From a row to the next.
    pub row: isize,
    /// From a column to the next.
    pub column: isize,
}

/// Attention as one step.
#[derive(Clone, Debug)]
pub struct Attention {
    /// The product of queries and keys: what the body of `nest` loads of it is at hand.
    pub product: ValueId,
    /// The change of a score over the loops of the batch and the queries, and one over the keys. Its node is the result.
    pub nest: LoopNest,
    /// Queries, keys, values: `[queries, width]`, `[width, keys]`, `[keys, values]`.
    pub operands: [Matrices; 3],
    /// Queries, keys, the width of both, that of values.
    pub sizes: [usize; 4],
    /// Whether queries that see nothing give zeros, not NaN.
    pub zeros: bool,
}

impl Attention {
    /// Matrices of the batch.
    pub fn matrices(&self) -> usize {
        self.nest.rows() / self.sizes[0]
    }
}

/// All attention in a simplified graph; and pairs of a product and what reads a softmax of it that are none, with the
/// reason.
pub fn find(graph: &Graph, policy: &Policy) -> (Vec<Found>, Vec<(ValueId, ValueId, Refusal)>) {
    let (mut found, mut refusals) = (Vec::new(), Vec::new());
    if policy.target.shared_memory == 0 {
        return (found, refusals);
    }
    for i in 0..graph.nodes().len() {
        let result = ValueId(i as u32);
        let Some(softmax) = Softmax::before(graph, result) else {
            continue;
        };
        let Some(product) = product_below(graph, softmax.scores) else {
            continue;
        };
        match attention(graph, policy, result, product, &softmax) {
            Ok(attention) => found.push(attention),
            Err(why) => refusals.push((product, result, why)),
        }
    }
    (found, refusals)
}

fn op_of(graph: &Graph, id: ValueId) -> Option<(&Op, &Node)> {
    let node = graph.node(id);
    match &node.op {
        NodeOp::Op(op) => Some((op, node)),
        NodeOp::Input(_) => None,
    }
}

fn value(operand: &Operand) -> Option<ValueId> {
    match operand {
        Operand::Value(v) => Some(*v),
        _ => None,
    }
}

/// The operand of a conversion.
fn cast_of(graph: &Graph, id: ValueId) -> Option<ValueId> {
    let (op, node) = op_of(graph, id)?;
    op.as_cast().and_then(|_| value(&node.args[0]))
}

/// Both operands of a function of two values.
fn binary_of(graph: &Graph, id: ValueId, wanted: BinaryOp) -> Option<[ValueId; 2]> {
    let (op, node) = op_of(graph, id)?;
    match op.as_binary() == Some(wanted) {
        true => Some([value(&node.args[0])?, value(&node.args[1])?]),
        false => None,
    }
}

/// The operand of a reduction over the last dimension that keeps it.
fn row_reduction(graph: &Graph, id: ValueId, wanted: ReduceKind) -> Option<ValueId> {
    let (op, node) = op_of(graph, id)?;
    let Reduce { kind, mask, .. } = op.as_reduce().filter(|of| of.keepdim)?;
    let x = value(&node.args[0])?;
    let rank = graph.node(x).shape.rank();
    (*kind == wanted && rank > 0 && *mask == 1 << (rank - 1)).then_some(x)
}

/// `number` where `hidden` says that the greatest score is −∞, else a value: that value.
fn unless_hidden(graph: &Graph, id: ValueId, greatest: ValueId, number: f64) -> Option<ValueId> {
    let (_, node) = op_of(graph, id).filter(|(op, _)| op.is_where())?;
    let is =
        |operand: &Operand, x: f64| matches!(operand, Operand::Const(Scalar::Float(y)) if *y == x);
    let (equals, hidden) = op_of(graph, value(&node.args[0])?)?;
    if equals.as_binary() != Some(BinaryOp::Eq) {
        return None;
    }
    let compares = value(&hidden.args[0])? == greatest && is(&hidden.args[1], f64::NEG_INFINITY);
    (compares && is(&node.args[1], number)).then(|| value(&node.args[2]))?
}

/// A softmax over rows, as composites and programs write it.
struct Softmax {
    scores: ValueId,
    zeros: bool,
    /// The weights, as the product with the values reads them.
    weights: ValueId,
}

impl Softmax {
    /// The softmax that is the left operand of a product.
    fn before(graph: &Graph, result: ValueId) -> Option<Softmax> {
        let (_, node) = op_of(graph, result).filter(|(op, _)| op.is_matmul())?;
        let weights = value(&node.args[0])?;
        let divided = cast_of(graph, weights).unwrap_or(weights);
        let [e, divisor] = binary_of(graph, divided, BinaryOp::Div)?;
        let (function, exp) = op_of(graph, e)?;
        if function.as_unary() != Some(UnaryOp::Exp) {
            return None;
        }
        let [scores, origin] = binary_of(graph, value(&exp.args[0])?, BinaryOp::Sub)?;
        let (greatest, sum, zeros) = match row_reduction(graph, origin, ReduceKind::Max) {
            Some(_) => (origin, divisor, false),
            None => {
                let (_, node) = op_of(graph, origin)?;
                let greatest = value(node.args.get(2)?)?;
                unless_hidden(graph, origin, greatest, 0.0)?;
                (
                    greatest,
                    unless_hidden(graph, divisor, greatest, 1.0)?,
                    true,
                )
            }
        };
        let same = row_reduction(graph, greatest, ReduceKind::Max)? == scores
            && row_reduction(graph, sum, ReduceKind::Sum)? == e;
        same.then_some(Softmax {
            scores,
            zeros,
            weights,
        })
    }
}

/// The product of which scores are made by pointwise operations: the first that is met.
fn product_below(graph: &Graph, scores: ValueId) -> Option<ValueId> {
    let mut pending = vec![scores];
    let mut seen = rustc_hash::FxHashSet::default();
    while let Some(id) = pending.pop() {
        let Some((op, node)) = op_of(graph, id) else {
            continue;
        };
        if node.shape != graph.node(scores).shape || !seen.insert(id) {
            continue;
        }
        if op.is_matmul() {
            return Some(id);
        }
        if op.is_elementwise() {
            pending.extend(node.args.iter().filter_map(value));
        }
    }
    None
}

/// An operand before its conversion to binary32, where views with strides alone follow that.
fn before_cast(graph: &Graph, id: ValueId, dtype: DType) -> Option<ValueId> {
    let mut at = id;
    loop {
        let (op, node) = op_of(graph, at)?;
        let x = value(node.args.first()?)?;
        if op.as_cast() == Some(DType::F32) && graph.node(x).dtype == dtype {
            return Some(x);
        }
        view::view_map(op, &graph.node(x).shape, &node.shape)?;
        at = x;
    }
}

fn attention(
    graph: &Graph,
    policy: &Policy,
    result: ValueId,
    product: ValueId,
    softmax: &Softmax,
) -> std::result::Result<Found, Refusal> {
    let of = |id: ValueId| graph.node(id);
    let dtype = of(result).dtype;
    let (first, second) = (&of(product).args, &of(result).args);
    let operands = [value(&first[0]), value(&first[1]), value(&second[1])];
    let [Some(q), Some(k), Some(v)] = operands else {
        return Err(Refusal::NoTemplate);
    };
    let shape = &of(product).shape;
    let ranks = [q, k, v, result].map(|x| of(x).shape.rank());
    if ranks.iter().any(|&rank| rank < 2) || shape.rank() != ranks[3] {
        return Err(Refusal::NoTemplate);
    }
    let (lead, last) = (shape.rank() - 2, |x: ValueId| {
        of(x).shape[of(x).shape.rank() - 1]
    });
    let sizes = [shape[lead], shape[lead + 1], last(q), last(v)];
    let alike = of(softmax.weights).shape == *shape && of(result).shape[..lead] == shape[..lead];
    let narrow = |x: ValueId| before_cast(graph, x, dtype);
    let typed = match dtype {
        DType::F32 => [q, k, v]
            .iter()
            .all(|&x| of(x).dtype == dtype)
            .then_some([q, k, v]),
        DType::BF16 | DType::F16 if of(product).dtype == dtype => Some([q, k, v]),
        // Scores in binary32 of operands that were converted for that.
        DType::BF16 | DType::F16 => narrow(q).zip(narrow(k)).map(|(q, k)| [q, k, v]),
        _ => None,
    };
    let (Some(operands), true) = (typed, alike) else {
        return Err(Refusal::NoTemplate);
    };
    let fits = sizes.iter().all(|&n| n > 0 && n < 1 << 30) && sizes[1] > 1;
    let narrow = sizes[2].max(sizes[3]) <= template::WIDEST;
    if !fits || !narrow || template::shared_bytes(dtype, sizes) > policy.target.shared_memory {
        return Err(Refusal::TooWide);
    }
    // What lies between the products, the first of them included.
    let between = inside(graph, product, result);
    let depends = |x: ValueId| between[x.0 as usize];
    let reaches = graph.outputs().iter().any(|&x| depends(x));
    let elsewhere = (product.0..graph.nodes().len() as u32).any(|i| {
        let reads = graph.operands(ValueId(i)).any(depends);
        reads && !depends(ValueId(i)) && i != result.0
    });
    if reaches || elsewhere {
        return Err(Refusal::ScoresNeeded);
    }
    let rows = (product.0..result.0).map(ValueId).filter(|&id| depends(id));
    let mut rows = rows.filter_map(|id| Some((id, op_of(graph, id)?)));
    let fits = |(id, (op, node)): (ValueId, (&Op, &Node))| {
        // What a score is made of may round. What follows it stays in binary32, and so do weights, which eager mode rounds.
        let exact = dtype.is_half() && node.precision == Precision::EagerExact;
        let rounds = node.rounds() && id > softmax.scores && id != softmax.weights;
        let of_scores = op.is_elementwise() || op.class() == Class::Reduce;
        let seen = node.shape == *shape || last(id) == 1;
        !exact && !rounds && (id == product || of_scores && seen)
    };
    // The softmax alone reduces.
    if !rows.all(fits)
        || rows_below(graph, softmax.scores, product, &between)
        || depends(v)
        || of(softmax.scores).dtype != DType::F32
    {
        return Err(Refusal::NoTemplate);
    }
    Ok(Found {
        product,
        scores: softmax.scores,
        result,
        zeros: softmax.zeros,
        operands,
    })
}

/// Which nodes before `result` depend on `product`, it included.
pub(super) fn inside(graph: &Graph, product: ValueId, result: ValueId) -> Vec<bool> {
    let mut inside = vec![false; graph.nodes().len()];
    inside[product.0 as usize] = true;
    for i in product.0 + 1..result.0 {
        inside[i as usize] = graph.operands(ValueId(i)).any(|x| inside[x.0 as usize]);
    }
    inside
}

/// Whether a reduction lies between the product and the scores.
fn rows_below(graph: &Graph, scores: ValueId, product: ValueId, between: &[bool]) -> bool {
    let mut pending = vec![scores];
    let mut seen = rustc_hash::FxHashSet::default();
    while let Some(id) = pending.pop() {
        if id == product || !between[id.0 as usize] || !seen.insert(id) {
            continue;
        }
        if graph.node(id).is_of(Class::Reduce) {
            return true;
        }
        pending.extend(graph.operands(id));
    }
    false
}

/// Whether a value that changes scores is computed with each of them: the causal mask is, what costs more or may fail is
/// not, nor are more than so many operations.
pub(super) fn is_light(graph: &Graph, realized: &Realized, id: ValueId, most: usize) -> bool {
    let (mut pending, mut count) = (vec![id], 0);
    while let Some(id) = pending.pop() {
        if realized.is_stored(id) {
            continue;
        }
        let Some((op, node)) = op_of(graph, id) else {
            continue;
        };
        count += 1;
        let light = match op.class() {
            Class::Pointwise | Class::Create | Class::View => op.entry().is_light(),
            _ => false,
        };
        if !light || count > most {
            return false;
        }
        pending.extend(node.args.iter().filter_map(value));
    }
    true
}

/// The step of found attention, whose operands have memory.
pub(super) fn lower_attention(
    graph: &Graph,
    realized: &Realized,
    found: &Found,
    sites: &mut Vec<Site>,
) -> Result<Attention> {
    let shape = graph.node(found.product).shape.clone();
    let lead = shape.rank() - 2;
    let node = graph.node(found.result);
    let (iter, index) = loops(shape.iter().copied(), None);
    let mut expansion = Expansion::new(graph, realized, iter.clone(), sites);
    let result = expansion.value(found.scores, &index, None)?;
    let (body, result) = products(graph, found, expansion.into_body(), result, &iter);
    let own = |op: &BodyOp| matches!(op, BodyOp::Load { source, .. } if *source == Source::Node(found.product));
    let place = flat_index(&iter, 0);
    for value in body.values() {
        if let BodyOp::Load { index, .. } = &value.op
            && own(&value.op)
            && *index != place
        {
            return Err(Error::internal("attention reads a score of another place"));
        }
    }
    let batch = &shape[..lead];
    let [q, k, v] = [0, 1, 2].map(|i| {
        let which = [found.product, found.product, found.result][i];
        let operand = &graph.node(which).args[[0, 1, 1][i]];
        let id = value(operand).unwrap_or(found.operands[i]);
        matrices(graph, realized, id, found.operands[i], batch)
    });
    let (q, k, v) = (q?, k?, v?);
    let last = |id: ValueId| graph.node(id).shape.last().copied().unwrap_or(1);
    let width = value(&graph.node(found.product).args[0]).map_or(1, last);
    let sizes = [shape[lead], shape[lead + 1], width, last(found.result)];
    let mut operands = [q, k, v];
    let mut sizes = sizes;
    share_keys(&mut operands, &mut sizes, &iter);
    let mut iter = iter;
    let red = iter.pop().into_iter().collect();
    Ok(Attention {
        product: found.product,
        nest: LoopNest {
            node: found.result,
            dtype: node.dtype,
            iter,
            red,
            body: body.into(),
            result,
            place,
            update: None,
            exact: false,
        },
        operands,
        sizes,
        zeros: found.zeros,
    })
}

/// The body of a score, which reads products as the kernel has them: in binary32, and rounded to their half type by the
/// body itself where that is what was recorded.
fn products(
    graph: &Graph,
    found: &Found,
    from: Body,
    result: Value,
    extents: &[usize],
) -> (Body, Value) {
    let half = graph.node(found.product).dtype;
    if !half.is_half() {
        return (from, result);
    }
    let rounds = product_rounds(graph, found);
    let replace = |body: &mut Body, _, op| match op {
        BodyOp::Load {
            source,
            index,
            mask,
            ..
        } if source == Source::Node(found.product) => {
            let load = BodyOp::Load {
                source,
                dtype: DType::F32,
                index,
                mask,
            };
            match rounds {
                true => BodyOp::Round(body.push(load, DType::F32), half),
                false => load,
            }
        }
        other => other,
    };
    let mut body = Body::default();
    let copies = body.rewrite(&from, &[result], &replace, extents);
    (body, copies[0])
}

/// Whether products are read rounded: they round themselves, or what follows them does and commutes with rounding, so
/// that lowering, for which products lie in memory, left its rounding out.
fn product_rounds(graph: &Graph, found: &Found) -> bool {
    let mut at = found.product;
    loop {
        if graph.node(at).rounds() {
            return true;
        }
        // What does not round has one user.
        let user = (at.0 + 1..=found.scores.0)
            .map(ValueId)
            .find(|&id| graph.operands(id).any(|x| x == at));
        let commutes = |op: &Op| {
            use {BinaryOp as B, UnaryOp as U};
            op.is_where()
                || matches!(op.as_unary(), Some(U::Neg | U::Abs | U::Relu))
                || matches!(op.as_binary(), Some(B::Maximum | B::Minimum))
        };
        match user.filter(|&id| op_of(graph, id).is_some_and(|(op, _)| commutes(op))) {
            Some(id) => at = id,
            None => return false,
        }
    }
}

/// Single queries with the same keys and values become the queries of one matrix: those of heads that share a key's.
fn share_keys([q, k, v]: &mut [Matrices; 3], sizes: &mut [usize; 4], loops: &[usize]) {
    if sizes[0] != 1 || k.batch.last() != Some(&0) || v.batch.last() != Some(&0) {
        return;
    }
    sizes[0] = loops[loops.len() - 2];
    q.row = q.batch.pop().unwrap_or_default();
    k.batch.pop();
    v.batch.pop();
}

/// An operand as matrices of a batch: `id` as it is read, `base` as it lies in memory.
fn matrices(
    graph: &Graph,
    realized: &Realized,
    id: ValueId,
    base: ValueId,
    batch: &[usize],
) -> Result<Matrices> {
    let none = || Error::internal("an operand of attention has no memory");
    let (source, mut layout) = realized.window(graph, base).ok_or_else(none)?;
    let mut views = Vec::new();
    let mut at = id;
    while at != base {
        let node = graph.node(at);
        views.push(at);
        at = node.args.first().and_then(value).ok_or_else(none)?;
    }
    for &at in views.iter().rev() {
        let Some((op, node)) = op_of(graph, at) else {
            return Err(none());
        };
        if op.is_view() {
            let map = view::view_map(op, layout.shape(), &node.shape).ok_or_else(none)?;
            layout = map.apply(&layout, &node.shape);
        }
    }
    let rank = layout.shape().rank();
    let sizes: Vec<usize> = batch
        .iter()
        .chain(&layout.shape()[rank - 2..])
        .copied()
        .collect();
    let wide: Layout = layout.broadcast_to(&Shape::new(&sizes)).ok_or_else(none)?;
    let strides = wide.strides();
    let long = batch.iter().zip(strides).filter(|(n, _)| **n != 1);
    Ok(Matrices {
        source,
        offset: wide.offset(),
        batch: long.map(|(_, stride)| *stride).collect(),
        row: strides[batch.len()],
        column: strides[batch.len() + 1],
    })
}
