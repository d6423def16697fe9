//! In which order a stored value's elements lie in memory: row-major, unless what it reads lies otherwise and whoever
//! reads it does not mind (ir L9 to L14).

use super::Realized;
use crate::body::{Body, BodyOp};
use crate::expr::{Expr, Var};
use crate::graph::{Graph, Node, NodeOp};
use crate::policy::Policy;
use ferrotrace_kernels::ops::order;
use ferrotrace_kernels::{Class, Op, Operand, ValueId};
use ferrotrace_runtime::{DType, Layout, Shape};
use smallvec::SmallVec;

/// The dimensions of a result that are not of size 1, outermost in memory first, by their numbers among themselves.
pub type Order = SmallVec<[u8; 6]>;

/// The order in which each value would lie if the operators ran one by one, where that is not row-major: elementwise
/// results as their operands do, all others row-major (codegen B4.5).
pub fn kept(graph: &Graph) -> Vec<Option<Order>> {
    let nodes = graph.nodes();
    let turned = graph
        .inputs()
        .iter()
        .any(|input| !input.layout.is_contiguous());
    let turns = |node: &Node| node.is(|op| op.as_permute().is_some());
    if !turned && !nodes.iter().any(turns) {
        return vec![None; nodes.len()];
    }
    let mut layouts: Vec<Layout> = Vec::with_capacity(nodes.len());
    let mut kept = Vec::with_capacity(nodes.len());
    for node in nodes {
        let mut order = None;
        let first = match node.args.first() {
            Some(Operand::Value(x)) => Some(*x),
            _ => None,
        };
        let dense = || Layout::contiguous(node.shape.clone());
        layouts.push(match (&node.op, first) {
            (NodeOp::Input(n), _) => graph.inputs()[*n as usize].layout.clone(),
            (NodeOp::Op(op), Some(x)) if op.is_view() => {
                let layout = &layouts[x.0 as usize];
                let seen = op
                    .as_view()
                    .and_then(|view| view.layout(layout, &node.shape));
                seen.unwrap_or_else(dense)
            }
            (NodeOp::Op(op), _) if is_elementwise(graph, op, first) => {
                order = elementwise(node, &layouts);
                layout_of(&node.shape, order.as_ref())
            }
            _ => dense(),
        });
        kept.push(order);
    }
    kept
}

/// Whether a result lies as what it reads: for a cast that depends on its operand.
fn is_elementwise(graph: &Graph, op: &Op, first: Option<ValueId>) -> bool {
    // A number has no elements to lie in an order: F32 stands for its dtype.
    let from = first.map_or(DType::F32, |x| graph.node(x).dtype);
    op.keeps_order(from)
}

/// The order of the first operand that has the result's shape and repeats no element, if it is not row-major.
fn elementwise(node: &Node, layouts: &[Layout]) -> Option<Order> {
    let of = |arg: &Operand| match arg {
        Operand::Value(x) => Some(&layouts[x.0 as usize]).filter(|x| *x.shape() == node.shape),
        _ => None,
    };
    let all = node.args.iter().filter_map(of).find_map(order::of_layout)?;
    // Dimensions by their numbers among those that are not of size 1.
    let number = |d: usize| (0..d).filter(|&k| node.shape[k] != 1).count() as u8;
    let long = all.into_iter().filter(|&d| node.shape[d] != 1);
    let found: Order = long.map(number).collect();
    (!found.is_sorted()).then_some(found)
}

/// Values that may lie in any order (ir L9): generated, and read by generated loops alone that either reduce
/// or may lie in any order themselves. What ready-made kernels read is row-major, and so are outputs, but for those that
/// lie as what they are computed of elementwise ([`kept`]), as in eager mode (codegen B4.5), and for outputs that turn the
/// dimensions of a value that nothing else needs: such an output is a view, and lies row-major itself where the value lies
/// as what it reads.
pub fn flexible(graph: &Graph, realized: &Realized, kept: &[Option<Order>]) -> Vec<bool> {
    let nodes = graph.nodes();
    let mut flexible: Vec<bool> = (0..nodes.len())
        .map(|i| {
            let id = ValueId(i as u32);
            let generated = !matches!(nodes[i].op, NodeOp::Input(_)) && !realized.is_call(id);
            // A scan stores along its rows, which are another dimension's; a scatter where it is told to.
            let fixed = nodes[i].is_of(Class::Scan) || nodes[i].is_of(Class::Scatter);
            generated && !fixed && realized.write(id).is_none()
        })
        .collect();
    let mut turned = vec![false; nodes.len()];
    let mut output = turned.clone();
    for v in graph.outputs() {
        let i = v.0 as usize;
        output[i] = true;
        flexible[i] &= kept[i].is_some() && !realized.pieces.contains_key(v);
        // What is not stored may be a reshaped value, which is no view of one that lies in another order.
        turned[i] = nodes[i].is(|op| op.as_permute().is_some())
            && graph.operands(*v).all(|from| realized.is_stored(from));
    }
    for i in (0..nodes.len()).rev() {
        let id = ValueId(i as u32);
        let reduces = nodes[i].is_of(Class::Reduce)
            && !realized.is_inline_reduction(id)
            && realized.is_stored(id);
        // A library that copies what does not lie as it wants.
        let copies = nodes[i].is(|op| op.as_correlation().is_some());
        // Generated loops read results wherever they lie.
        let first = graph.operands(id).next();
        let elementwise = nodes[i].is(|op| is_elementwise(graph, op, first));
        if !flexible[i] && !reduces && !turned[i] {
            let fixed = |v: &ValueId| {
                let result = elementwise && output[v.0 as usize] && kept[v.0 as usize].is_some();
                !result && (!copies || realized.is_stored(*v))
            };
            for v in graph.operands(id).filter(fixed) {
                flexible[v.0 as usize] = false;
                // A view of a turned result needs it as it is, too.
                turned[v.0 as usize] = false;
            }
        }
    }
    flexible
}

/// The order in which the nest that computes `body` over `extents` should run and store, innermost last, if that is not
/// the given one (ir L12, L13): dimension `a` lies within `b` if most of the elements read lie closer together along
/// `a`. The reference counts accesses, and takes a broadcast dimension for an outer one; here an access weighs as much as
/// it reads, so that one large operand outweighs several rows, and what is broadcast along either has no say, so that
/// a column times a row does not turn the matrices beside it.
pub fn vote(body: &Body, extents: &[usize], policy: &Policy) -> Option<Order> {
    let n = extents.len();
    if n < 2 || extents.iter().product::<usize>() < policy.thresholds.order_elements {
        return None;
    }
    let loads: SmallVec<[&Expr; 8]> = body
        .values()
        .iter()
        .filter_map(|v| match &v.op {
            BodyOp::Load { index, .. } if index.is_affine() => Some(index),
            _ => None,
        })
        .collect();
    let stride = |index: &Expr, d: usize| index.coefficient(Var(d as u32)).unsigned_abs();
    let weights: SmallVec<[usize; 8]> = loads
        .iter()
        .map(|index| {
            (0..n)
                .filter(|&d| stride(index, d) != 0)
                .map(|d| extents[d])
                .product()
        })
        .collect();
    // Whether `a` lies within `b`; equal votes leave row-major order.
    let within = |a: usize, b: usize| {
        let (mut yes, mut no) = (0u128, 0u128);
        for (index, &weight) in loads.iter().zip(&weights) {
            let (sa, sb) = (stride(index, a), stride(index, b));
            if sa == 0 || sb == 0 {
                continue;
            } else if sa < sb {
                yes += weight as u128;
            } else if sb < sa {
                no += weight as u128;
            }
        }
        if yes == no { a > b } else { yes > no }
    };
    // The vote is no order (it need not be transitive): an insertion sort ends with any answers.
    let mut order: Order = SmallVec::new();
    for d in 0..n {
        let at = (0..order.len())
            .find(|&k| within(order[k] as usize, d))
            .unwrap_or(order.len());
        order.insert(at, d as u8);
    }
    order
        .iter()
        .enumerate()
        .any(|(k, &d)| k != d as usize)
        .then_some(order)
}

/// The layout of a shape whose dimensions lie in this order (ir L10, L11).
pub fn layout_of(shape: &Shape, order: Option<&Order>) -> Layout {
    let Some(order) = order else {
        return Layout::contiguous(shape.clone());
    };
    let long: SmallVec<[usize; 6]> = (0..shape.rank()).filter(|&d| shape[d] != 1).collect();
    let mut strides = SmallVec::from_elem(1isize, shape.rank());
    let mut stride = 1;
    for &k in order.iter().rev() {
        let d = long[k as usize];
        strides[d] = stride;
        stride *= shape[d] as isize;
    }
    Layout::new(shape.clone(), strides, 0)
}
