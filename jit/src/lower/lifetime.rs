//! How long results are needed, in the order of recording.

use super::Realized;
use crate::graph::{Graph, NodeOp};
use ferrotrace_kernels::ValueId;
use smallvec::SmallVec;

/// The last user of every value.
pub(super) struct LastUse(Vec<u32>);

impl LastUse {
    /// The last users of a graph's values; outputs are used at the end.
    pub fn of(graph: &Graph) -> LastUse {
        let mut last = vec![0; graph.nodes().len()];
        for i in 0..last.len() {
            for operand in graph.operands(ValueId(i as u32)) {
                last[operand.0 as usize] = i as u32;
            }
        }
        for output in graph.outputs() {
            last[output.0 as usize] = u32::MAX;
        }
        LastUse(last)
    }

    /// The last node that uses a value; the greatest number there is for an output.
    pub fn after(&self, id: ValueId) -> u32 {
        self.0[id.0 as usize]
    }

    /// Whether storing a value would let more than one other result go, each at least half as large: computing it again
    /// for later users would keep them all. Inputs alone, which often cannot go, do not count. `realized` says what is
    /// stored of what comes before, of which at most so many values are looked at.
    pub fn frees_several(
        &self,
        graph: &Graph,
        realized: &Realized,
        id: ValueId,
        most: usize,
    ) -> bool {
        let bytes = |v: ValueId| graph.node(v).shape.numel() * graph.node(v).dtype.size();
        let least = bytes(id) / 2;
        let mut seen: SmallVec<[ValueId; 32]> = SmallVec::from_slice(&[id]);
        let mut freed: SmallVec<[ValueId; 4]> = SmallVec::new();
        let mut next = 0;
        while let Some(&value) = seen.get(next) {
            next += 1;
            for operand in graph.operands(value) {
                let ends = self.0[operand.0 as usize] <= id.0;
                if !ends {
                    continue;
                }
                let large = bytes(operand) > 0 && bytes(operand) >= least;
                match realized.is_stored(operand) {
                    true if large && !freed.contains(&operand) => freed.push(operand),
                    false if seen.len() < most && !seen.contains(&operand) => {
                        seen.push(operand);
                    }
                    _ => {}
                }
            }
        }
        let input = |v: &ValueId| matches!(graph.node(*v).op, NodeOp::Input(_));
        freed.len() > 1 && !freed.iter().all(input)
    }
}
