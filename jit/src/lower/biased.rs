//! Sums of a product and a bias in half precision, which a device's library computes before it rounds.
//!
//! The library reads the bias from memory and stores the sum. Kernels would read the product in binary32, twice as many bytes,
//! each of them anew.

use crate::graph::{Graph, Node, NodeOp, Rounding};
use ferrotrace_kernels::{BinaryOp, Op, Operand, ValueId};
use ferrotrace_runtime::adds_bias;

/// Whether a library adds a bias for each column to a product or convolution before it rounds. Where it does not, a kernel reads
/// the sums as they were computed.
pub(crate) fn takes_bias(node: &Node) -> bool {
    let columns = node.shape.last().copied().unwrap_or(0);
    !node.is(Op::is_matmul) || adds_bias(node.dtype, columns)
}

/// The bias of a value that is a product and a bias for each of its columns, rounded to half precision once, where nothing else
/// reads the product or what lies between.
pub(super) fn bias_of(graph: &Graph, users: &[u32], id: ValueId) -> Option<ValueId> {
    let node = graph.node(id);
    let [sum] = operands(node, |op| op.as_cast() == Some(node.dtype))?;
    let [a, b] = operands(graph.node(sum), |op| op.as_binary() == Some(BinaryOp::Add))?;
    let alone = |v: ValueId| users[v.0 as usize] == 1;
    let columns = *node.shape.last()?;
    let of = |product: ValueId, bias: ValueId| {
        let (product, bias) = (seen(graph, product, alone)?, seen(graph, bias, |_| true)?);
        let (sums, added) = (graph.node(product), graph.node(bias));
        let is_product = sums.is(Op::is_matmul)
            && sums.dtype == node.dtype
            && sums.rounding == Rounding::Never
            && sums.shape.rank() >= 2
            && sums.shape.last() == Some(&columns)
            && sums.shape.numel() == node.shape.numel();
        let is_bias = added.dtype == node.dtype
            && added.shape.numel() == columns
            && added.shape.last() == Some(&columns);
        (is_product && is_bias && takes_bias(sums)).then_some(bias)
    };
    let found = of(a, b).or_else(|| of(b, a));
    found.filter(|_| node.dtype.is_half() && alone(sum))
}

/// The operands of a node of such an operator.
fn operands<const N: usize>(node: &Node, is_it: impl Fn(&Op) -> bool) -> Option<[ValueId; N]> {
    let NodeOp::Op(op) = &node.op else {
        return None;
    };
    let value = |operand: &Operand| match operand {
        Operand::Value(v) => Some(*v),
        _ => None,
    };
    let all: Option<Vec<ValueId>> = node.args.iter().map(value).collect();
    is_it(op).then_some(all?.try_into().ok()?)
}

/// The value of half precision that a node is a view of, or a cast with views, if all nodes from it on are accepted.
fn seen(graph: &Graph, mut id: ValueId, accepts: impl Fn(ValueId) -> bool) -> Option<ValueId> {
    while accepts(id) {
        let node = graph.node(id);
        if node.dtype.is_half() {
            return Some(id);
        }
        let op = node.operator()?;
        match node.args.first() {
            Some(Operand::Value(from)) if op.is_view() || op.as_cast().is_some() => id = *from,
            _ => return None,
        }
    }
    None
}
