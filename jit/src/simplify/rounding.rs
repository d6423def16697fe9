//! Which half-precision values round: all uses of a recorded value read one number.
//!
//! A value of a half type is computed in binary32. It is rounded to its type where it lies in memory; and, wherever it is
//! read, if it is used more than once, is a result, or is the operand of an operator that [decides](ferrotrace_kernels::Op::decides) by it. So is what is
//! scattered: that lies in memory, but where a device has several kernels for it. What else a single continuous operator
//! reads stays as it was computed. Values within the definition of a composite operator are not
//! recorded: a composite is one use of its operands.

use crate::graph::{Graph, NodeOp};
use ferrotrace_kernels::{Class, Operand};

/// By node of a recorded graph, whether it rounds, of those that are `live`.
pub(super) fn rounding(graph: &Graph, live: &[bool]) -> Vec<bool> {
    let nodes = graph.nodes();
    let mut uses = vec![0usize; nodes.len()];
    let mut rounds = vec![false; nodes.len()];
    for output in graph.outputs() {
        rounds[output.0 as usize] = true;
    }
    for (v, node) in nodes.iter().enumerate() {
        let NodeOp::Op(op) = &node.op else { continue };
        if !live[v] {
            continue;
        }
        // A cast to a half type is for its rounding.
        rounds[v] |= op.as_cast().is_some() || op.class() == Class::Scatter;
        for (operand, arg) in node.args.iter().enumerate() {
            if let Operand::Value(x) = arg {
                let (at, from) = (x.0 as usize, graph.node(*x).dtype);
                uses[at] += 1;
                rounds[at] |= uses[at] > 1 || op.decides(operand, from, node.dtype);
            }
        }
    }
    for (rounds, node) in rounds.iter_mut().zip(nodes) {
        *rounds &= node.dtype.is_half();
    }
    rounds
}

#[cfg(test)]
mod tests {
    use crate::simplify::simplify;
    use crate::{Graph, NodeOp};

    /// The operators of the nodes that round, of the simplified graph.
    fn rounded(text: &str) -> Vec<&'static str> {
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
        let graph = simplify(&graph).unwrap_or_else(|e| panic!("{e}"));
        let rounds = graph.nodes().iter().filter(|node| node.rounds());
        let name = |op: &NodeOp| match op {
            NodeOp::Op(op) => op.name(),
            NodeOp::Input(_) => "input",
        };
        rounds.map(|node| name(&node.op)).collect()
    }

    #[test]
    fn a_chain_of_continuous_operators_rounds_at_its_end() {
        let text = "%0: bf16[8] = input 0 [1]
            %1: bf16[8] = exp(%0)
            %2: bf16[8] = mul(%1, 2.0)
            %3: bf16[8] = sin(%2)
            return %3";
        assert_eq!(rounded(text), ["sin"]);
        assert_eq!(rounded(&text.replace("bf16", "f32")), [] as [&str; 0]);
        let exact: Vec<String> = text.lines().map(|l| format!("{l} exact")).collect();
        let exact = exact.join("\n").replace("return %3 exact", "return %3");
        assert_eq!(rounded(&exact), ["exp", "mul", "sin"]);
    }

    #[test]
    fn what_is_used_twice_or_decides_rounds() {
        let text = "%0: bf16[8] = input 0 [1]
            %1: bf16[8] = exp(%0)
            %2: bf16[8] = cos(%1)
            %3: bf16[8] = sin(%1)
            %4: bf16[8] = add(%2, %3)
            %5: bool[8] = gt(%4, 1.0)
            return %5";
        assert_eq!(rounded(text), ["exp", "add"]);
    }

    #[test]
    fn what_is_scattered_rounds() {
        let text = "%0: bf16[8] = input 0 [1]
            %1: i64[3] = input 1 [1]
            %2: bf16[3] = input 2 [1]
            %3: bf16[8] = scatter(%0, %1, %2) {dim: 0, mode: \"mean\", include_self: true}
            %4: f32[8] = input 3 [1]
            %5: f32[8] = add(%4, %3)
            return %5";
        assert_eq!(rounded(text), ["scatter"]);
    }

    #[test]
    fn a_composite_is_one_use() {
        let text = "%0: bf16[4, 8] = input 0 [8, 1]
            %1: bf16[4, 8] = exp(%0)
            %2: bf16[4, 8] = softmax(%1) {dim: 1}
            return %2";
        assert_eq!(rounded(text), ["to_dtype"]);
        let chain = text.replace("return %2", "%3: bf16[4, 8] = sin(%2)\n return %3");
        assert_eq!(rounded(&chain), ["sin"]);
    }
}
