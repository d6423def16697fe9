//! The data that a collection reads.

use super::{ALIKE, LEAF, Visit};
use crate::flush::collected::{Collected, LeafEntry};
use crate::form::Edge;
use crate::node::{Origin, State};
use ferrotrace_kernels::Op;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

impl Visit {
    /// Numbers data. Views that show the same of one buffer are one leaf, so that what is computed of them is, too: a
    /// program that slices or transposes its data makes a view wherever it does so.
    #[inline]
    pub(super) fn enter_leaf(&mut self, place: u32) {
        let Visit {
            collected, numbers, ..
        } = self;
        let node = collected.node(place);
        let next = collected.leaves.len() as u32;
        let is_view = node.facts.kind.op.as_ref().is_some_and(Op::is_view);
        if is_view && self.resolves && !node.facts.is_argument {
            let known = like(collected, &mut self.views, (place, next));
            if let Some(leaf) = known {
                numbers.set(node, LEAF | ALIKE | self.alike.len() as u32);
                self.alike.push(leaf);
                return;
            }
        }
        numbers.set(node, LEAF | next);
        collected.leaves.push(LeafEntry {
            place,
            uses: 0,
            alike: 0,
        });
    }

    /// Makes the operation at a place, whose one operand is a leaf or is like one, a leaf itself, if it is a view of data.
    #[inline(never)]
    pub(super) fn resolve(&mut self, place: u32, leaf: u32, by_alike: bool) -> bool {
        let collected = &mut self.collected;
        let node = collected.node(place);
        let data = collected.node(collected.leaves[leaf as usize].place);
        if !node.facts.op().is_view() || data.facts.is_argument {
            return false;
        }
        let view = data.array().and_then(|a| node.facts.kind.view(&a));
        let Some(view) = view else { return false };
        self.garbage
            .push(node.set_state(State::stored(view, Origin::default())));
        collected.edges.pop();
        let read = &mut collected.leaves[leaf as usize];
        match by_alike {
            true => read.alike -= 1,
            false => read.uses -= 1,
        }
        self.unused = true;
        self.enter_leaf(place);
        true
    }

    /// Leaves that no operation reads are none.
    #[inline(never)]
    pub(super) fn forget_unused(&mut self) {
        let Collected { leaves, edges, .. } = &mut self.collected;
        let read = |leaf: &LeafEntry| leaf.uses + leaf.alike > 0;
        let mut kept = 0;
        let number = |leaf: &LeafEntry| {
            kept += u32::from(read(leaf));
            kept.wrapping_sub(1)
        };
        let numbers: Vec<u32> = leaves.iter().map(number).collect();
        leaves.retain(read);
        for edge in edges {
            if let Edge::Leaf(leaf) = edge {
                *leaf = numbers[*leaf as usize];
            }
        }
    }
}

/// The leaf that shows what the data at a place does, if there is one among the views; that place is leaf `next` else.
fn like(
    collected: &Collected,
    views: &mut FxHashMap<(usize, u64), u32>,
    (place, next): (u32, u32),
) -> Option<u32> {
    let array = collected.node(place).array()?;
    let mut hasher = FxHasher::default();
    array.layout.hash(&mut hasher);
    let at = (array.buffer.as_ptr() as usize, hasher.finish());
    let known = *views.entry(at).or_insert(next);
    let LeafEntry { place, .. } = collected.leaves.get(known as usize)?;
    let other = collected.node(*place).array()?;
    let same = other.buffer.same(&array.buffer)
        && other.dtype == array.dtype
        && other.layout == array.layout;
    same.then_some(known)
}

#[cfg(test)]
mod tests {
    use super::super::{Outcome, Stores, collect};
    use crate::node::NodeInput;
    use crate::{Mode, Tensor, with_mode};
    use ferrotrace_runtime::Device;

    fn leaves(tensor: &Tensor) -> usize {
        let roots = smallvec::smallvec![NodeInput::Tensor(tensor.node().clone())];
        match collect(roots, Stores::Shown) {
            Outcome::Run(collected, ..) => collected.leaves.len(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn equal_views_are_one_leaf() {
        with_mode(Mode::Compiled, || {
            let data = [1.0f32, 2.0, 3.0, 4.0];
            let x = Tensor::from_slice(&data, [2, 2], &Device::cpu());
            let first = || x.narrow(0, 0, 1);
            let y = first() * 2.0 + first() * x.narrow(0, 1, 1) + x.t().narrow(0, 0, 1);
            assert_eq!(leaves(&y), 3);
            assert_eq!(y.to_vec::<f32>().expect("computes"), [6.0, 15.0]);
            // Views of what a flush finds to be data are leaves as well.
            let pending = &x + 1.0;
            let (a, b) = (pending.narrow(0, 0, 1), pending.narrow(0, 0, 1));
            pending.eval().expect("computes");
            let y = &a + &b * 2.0;
            assert_eq!(leaves(&y), 1);
            assert_eq!(y.to_vec::<f32>().expect("computes"), [6.0, 9.0]);
        });
    }

    #[test]
    fn what_another_view_shows_is_not_overwritten() {
        with_mode(Mode::Compiled, || {
            let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &Device::cpu());
            let (held, dying) = (x.narrow(0, 0, 2), x.narrow(0, 0, 2));
            drop(x);
            let y = &held * 3.0 + dying;
            assert_eq!(y.to_vec::<f32>().expect("computes"), [4.0, 8.0]);
            assert_eq!(held.to_vec::<f32>().expect("data"), [1.0, 2.0]);
        });
    }
}
