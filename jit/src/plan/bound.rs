//! A plan holds no more memory at once than the recorded operations one by one would.

use super::Draft;
use crate::graph::{Graph, NodeOp};
use crate::lower::Limits;
use ferrotrace_kernels::ValueId;
use ferrotrace_runtime::Result;

/// A pass from a recorded and a simplified graph to a draft.
type Pass = fn(Graph, Graph, &Limits) -> Result<Draft>;

/// The draft itself if it holds no more than the operations one by one. Else it is made again, of less and less fusion,
/// until one does not, and that of least memory is kept.
pub(super) fn bounded(draft: Draft, limits: &Limits, pass: Pass) -> Result<Draft> {
    let most = one_by_one(&draft.recorded).map(|held| held.saturating_add(limits.held_over));
    let over = |draft: &Draft| {
        let beyond = draft.peaks().into_iter().zip(most);
        beyond.map(|(held, most)| held.saturating_sub(most)).max()
    };
    let mut best = (over(&draft), draft);
    if best.0 == Some(0) {
        return Ok(best.1);
    }
    for limits in narrower(limits) {
        let next = pass(best.1.recorded.clone(), best.1.graph.clone(), &limits)?;
        let held = over(&next);
        if held < best.0 {
            best = (held, next);
        }
        if best.0 == Some(0) {
            break;
        }
    }
    Ok(best.1)
}

/// Thresholds under which plans hold less: values that are smaller than what they are computed of are stored, so that
/// this can go; then, too, kernels are fused only where that holds no more; then every operation is a kernel.
fn narrower(limits: &Limits) -> [Limits; 3] {
    let small = Limits {
        shrink: true,
        ..limits.clone()
    };
    let apart = Limits {
        veto_factor: 0,
        veto_bytes: 0,
        ..small.clone()
    };
    let single = Limits {
        ops: 1,
        unroll: 0,
        rounds: 0,
        ..apart.clone()
    };
    [small, apart, single]
}

/// The most bytes held at once, beyond the inputs, when every operation runs by itself, in the order of recording: a
/// result has memory of its own, a view has none, and what nothing reads again is released. What an operation needs for
/// itself alone is not counted. First where inputs are kept, then where they are released too.
pub(super) fn one_by_one(graph: &Graph) -> [u64; 2] {
    let nodes = graph.nodes();
    // The node whose memory each lies in, and the last that reads that memory.
    let mut root: Vec<usize> = (0..nodes.len()).collect();
    let mut last: Vec<usize> = root.clone();
    for (i, node) in nodes.iter().enumerate() {
        for operand in graph.operands(ValueId(i as u32)) {
            last[root[operand.0 as usize]] = i;
        }
        if let (NodeOp::Op(op), Some(x)) = (&node.op, graph.operands(ValueId(i as u32)).next())
            && op.is_view()
        {
            root[i] = root[x.0 as usize];
        }
    }
    for output in graph.outputs() {
        last[root[output.0 as usize]] = usize::MAX;
    }
    let bytes = |i: usize| match &nodes[i].op {
        NodeOp::Input(n) => {
            let input = &graph.inputs()[*n as usize];
            input.layout.span().len() * input.dtype.size()
        }
        NodeOp::Op(_) => nodes[i].shape.numel() * nodes[i].dtype.size(),
    };
    let (mut live, mut peak) = ([0i64; 2], [0i64; 2]);
    for (i, node) in nodes.iter().enumerate() {
        let computed = matches!(node.op, NodeOp::Op(_)) && root[i] == i;
        if computed {
            for (live, peak) in live.iter_mut().zip(&mut peak) {
                *live += bytes(i) as i64;
                *peak = (*peak).max(*live);
            }
        }
        let mut read: smallvec::SmallVec<[usize; 4]> = graph
            .operands(ValueId(i as u32))
            .map(|operand| root[operand.0 as usize])
            .chain(computed.then_some(i))
            .collect();
        read.sort_unstable();
        read.dedup();
        for buffer in read.into_iter().filter(|&buffer| last[buffer] == i) {
            let freed = bytes(buffer) as i64;
            live[1] -= freed;
            if matches!(nodes[buffer].op, NodeOp::Op(_)) {
                live[0] -= freed;
            }
        }
    }
    peak.map(|bytes| bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(text: &str) -> [u64; 2] {
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
        one_by_one(&graph)
    }

    #[test]
    fn operations_one_by_one_hold_their_operands_and_results() {
        let chain = "%0: f32[100] = input 0 [1]
            %1: f32[100] = exp(%0)
            %2: f32[100] = neg(%1)
            %3: f32[100] = sin(%2)
            return %3";
        // Two of three results; the input's memory goes after the first.
        assert_eq!(held(chain), [800, 400]);
        let views = "%0: f32[10, 10] = input 0 [10, 1]
            %1: f32[10, 10] = exp(%0)
            %2: f32[10] = select(%1) {dim: 0, index: 3}
            %3: f32[10] = neg(%2)
            %4: f32[10] = add(%3, %2)
            return %4";
        // The row keeps its matrix alive.
        assert_eq!(held(views), [480, 400]);
        let kept = "%0: f32[100] = input 0 [1]
            %1: f32[100] = exp(%0)
            %2: f32[1] = sum(%1) {dims: [0], keepdim: true}
            %3: f32[100] = neg(%1)
            return %1 %2";
        assert_eq!(held(kept), [804, 404]);
    }
}
