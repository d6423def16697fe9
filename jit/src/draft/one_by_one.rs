//! What the operations of a graph hold when each runs by itself, in the order of recording: a result has memory of its
//! own, a view has none, and what nothing reads again is released. What a ready-made kernel needs for itself alone is not
//! counted, but for the copies that a product makes of its operands.

use crate::graph::{Graph, NodeOp};
use ferrotrace_kernels::ops::{composite, matmul};
use ferrotrace_kernels::{ArgMeta, Op, Operand, ValueId};
use smallvec::SmallVec;

/// When each value has memory.
pub(super) struct OneByOne<'a> {
    graph: &'a Graph,
    /// Whether products multiply by the processor's tiles (`Target::tiles`).
    tiles: bool,
    /// The node whose memory each lies in.
    root: Vec<usize>,
    /// The last node that reads that memory, by that node; none reads what is held to the end last.
    last: Vec<usize>,
}

impl<'a> OneByOne<'a> {
    pub fn of(graph: &'a Graph, tiles: bool) -> OneByOne<'a> {
        let nodes = graph.nodes();
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
        OneByOne {
            graph,
            tiles,
            root,
            last,
        }
    }

    /// The most bytes held at once beyond the inputs: first where inputs are kept, then where they are released after
    /// their last use. `within` says whether what composite operators and products hold while they run is counted: the
    /// former run operator by operator too.
    pub fn peaks(&self, within: bool) -> [u64; 2] {
        let mut peaks = [0i64; 2];
        let mut live = [0i64; 2];
        for i in 0..self.root.len() {
            if self.is_computed(i) {
                let bytes = self.bytes(i);
                let most = if within {
                    self.within(i).max(bytes)
                } else {
                    bytes
                };
                for (live, peak) in live.iter_mut().zip(&mut peaks) {
                    *peak = (*peak).max(*live + most as i64);
                    *live += bytes as i64;
                }
            }
            for freed in self.freed(i) {
                let bytes = self.bytes(freed) as i64;
                live[1] -= bytes;
                if !self.is_input(freed) {
                    live[0] -= bytes;
                }
            }
        }
        peaks.map(|bytes| bytes as u64)
    }

    /// The bytes of all inputs.
    pub fn inputs(&self) -> u64 {
        let inputs = (0..self.root.len()).filter(|&i| self.is_input(i));
        inputs.map(|i| self.bytes(i)).sum()
    }

    /// The bytes held after each node.
    pub fn held(&self, donated: bool) -> Vec<i64> {
        let mut live = 0;
        let after = |i| {
            if self.is_computed(i) {
                live += self.bytes(i) as i64;
            }
            for freed in self.freed(i) {
                if donated || !self.is_input(freed) {
                    live -= self.bytes(freed) as i64;
                }
            }
            live
        };
        (0..self.root.len()).map(after).collect()
    }

    /// For each node, how many bytes fewer than `most` are held while it runs, the fewer of where inputs are kept and where
    /// they are released.
    pub fn room(&self, most: [u64; 2]) -> Vec<i64> {
        let mut before = [0; 2];
        let [kept, released] = [false, true].map(|donated| self.held(donated));
        let after = kept.into_iter().zip(released).enumerate();
        after
            .map(|(i, (kept, released))| {
                let made = if self.is_computed(i) {
                    self.bytes(i)
                } else {
                    0
                };
                let after = [kept, released];
                let room = |of: usize| most[of] as i64 - after[of].max(before[of] + made as i64);
                let least = room(0).min(room(1));
                before = after;
                least
            })
            .collect()
    }

    /// Whether a value has memory after a node.
    pub fn is_held(&self, value: ValueId, after: usize) -> bool {
        let root = self.root[value.0 as usize];
        (root <= after || self.is_input(root)) && self.last[root] > after
    }

    fn is_input(&self, i: usize) -> bool {
        matches!(self.graph.nodes()[i].op, NodeOp::Input(_))
    }

    /// Whether a node makes a result with memory.
    fn is_computed(&self, i: usize) -> bool {
        self.root[i] == i && !self.is_input(i)
    }

    /// What a composite operator or a product holds at most, its result included.
    fn within(&self, i: usize) -> u64 {
        let node = &self.graph.nodes()[i];
        let composite = node.operator().and_then(Op::as_composite);
        if composite.is_none() && !node.is(Op::is_matmul) {
            return 0;
        }
        let meta = |arg: &Operand| match arg {
            Operand::Value(v) => {
                let node = self.graph.node(*v);
                ArgMeta::Tensor(&node.shape, node.dtype)
            }
            Operand::Slot(_, number) | Operand::Const(number) => ArgMeta::Scalar(*number),
        };
        let args: SmallVec<[ArgMeta<'_>; 6]> = node.args.iter().map(meta).collect();
        let held = match composite {
            Some(op) => composite::held(op, &args, self.tiles),
            None => matmul::held(&args, self.tiles),
        };
        held.unwrap_or(0)
    }

    /// The buffers that nothing reads after a node.
    fn freed(&self, i: usize) -> impl Iterator<Item = usize> {
        let operands = self.graph.operands(ValueId(i as u32));
        let mut read: SmallVec<[usize; 4]> = operands
            .map(|operand| self.root[operand.0 as usize])
            .chain(self.is_computed(i).then_some(i))
            .collect();
        read.sort_unstable();
        read.dedup();
        read.retain(|buffer| self.last[*buffer] == i);
        read.into_iter()
    }

    fn bytes(&self, i: usize) -> u64 {
        let node = &self.graph.nodes()[i];
        let bytes = match &node.op {
            NodeOp::Input(n) => {
                let input = &self.graph.inputs()[*n as usize];
                input.layout.span().len() * input.dtype.size()
            }
            NodeOp::Op(_) => node.shape.numel() * node.dtype.size(),
        };
        bytes as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(text: &str) -> [u64; 2] {
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
        OneByOne::of(&graph, false).peaks(true)
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

    // The distances from the mean and their squares, beside both means; then the distances, their scale and the result.
    #[test]
    fn composites_hold_what_their_operators_do() {
        let norm = "%0: f32[10, 100] = input 0 [100, 1]
            %1: f32[10, 100] = exp(%0)
            %2: f32[10, 100] = layer_norm(%1, 1e-5) {n: 1, weight: false, bias: false}
            return %2";
        let graph: Graph = norm.parse().unwrap_or_else(|e| panic!("{e}"));
        let [without, with] =
            [false, true].map(|within| OneByOne::of(&graph, false).peaks(within)[0]);
        assert_eq!(without, 8000);
        assert!((12000..13000).contains(&with), "{with}");
    }
}
