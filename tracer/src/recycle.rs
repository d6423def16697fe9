//! Memory of nodes: taken again after they died, and released without recursion.

use crate::node::{Inputs, Node, NodeInput};
use std::cell::RefCell;
use std::sync::Arc;

/// Memory of dead nodes kept for new ones, in each thread.
const RECYCLED: usize = 4096;

thread_local! {
    static DEAD: RefCell<Vec<Arc<Node>>> = const { RefCell::new(Vec::new()) };
}

/// Shares a new node, in the memory of a dead one if there is any. Inlined, for nodes are long to copy.
#[inline(always)]
pub(crate) fn share(node: Node) -> Arc<Node> {
    if let Some(mut dead) = dead()
        && let Some(place) = Arc::get_mut(&mut dead)
    {
        *place = node;
        return dead;
    }
    Arc::new(node)
}

#[inline]
fn dead() -> Option<Arc<Node>> {
    let pop = |dead: &RefCell<Vec<Arc<Node>>>| dead.try_borrow_mut().ok()?.pop();
    DEAD.try_with(pop).ok()?
}

/// Releases operands that a collection took: nodes that nothing else holds any more go to [`share`].
pub(crate) fn retire(groups: Vec<Inputs>) {
    let mut dead = DEAD.try_with(RefCell::take).unwrap_or_default();
    for mut group in groups {
        while let Some(input) = group.pop() {
            if let NodeInput::Tensor(node) = input
                && Arc::strong_count(&node) == 1
                && node.is_collected()
                && dead.len() < RECYCLED
            {
                dead.push(node);
            }
        }
    }
    // Nothing above recorded: a node's operands went with its group.
    let _ = DEAD.try_with(|place| place.replace(dead));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, Tensor, with_mode};
    use ferrotrace_runtime::Device;

    #[test]
    fn nodes_that_hold_operands_are_released_and_others_kept() {
        let kept = |collected: bool| {
            let leaf = Tensor::from_slice(&[1.0f32], 1, &Device::cpu());
            let tensor = with_mode(Mode::Compiled, || leaf * 2.0);
            let node = tensor.node().clone();
            drop(tensor);
            if collected {
                drop(node.collect());
            }
            let weak = Arc::downgrade(&node);
            retire(vec![smallvec::smallvec![NodeInput::Tensor(node)]]);
            weak.upgrade().is_some()
        };
        assert!(kept(true));
        assert!(!kept(false));
    }
}
