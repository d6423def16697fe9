//! The node pool: memory of dead nodes is used again for new ones, and nodes are released without recursion.

use crate::node::{Node, NodeArc, NodeInput};
use std::cell::RefCell;

/// Memory of dead nodes kept for new ones, in each thread.
const RECYCLED: usize = 4096;

thread_local! {
    static DEAD: RefCell<Vec<NodeArc>> = const { RefCell::new(Vec::new()) };
}

/// Shares a new node, in the memory of a dead one if there is any. Inlined, for nodes are long to copy.
#[inline(always)]
pub(crate) fn share(node: Node) -> NodeArc {
    if let Some(mut dead) = dead()
        && let Some(place) = NodeArc::get_mut(&mut dead)
    {
        *place = node;
        return dead;
    }
    NodeArc::new(node)
}

#[inline]
fn dead() -> Option<NodeArc> {
    let pop = |dead: &RefCell<Vec<NodeArc>>| dead.try_borrow_mut().ok()?.pop();
    DEAD.try_with(pop).ok()?
}

/// Releases operands that a collection took: nodes that nothing else holds any more go to [`share`].
pub(crate) fn retire(operands: Vec<NodeInput>) {
    let mut dead = DEAD.try_with(RefCell::take).unwrap_or_default();
    for operand in operands {
        if let NodeInput::Tensor(node) = operand
            && NodeArc::strong_count(&node) == 1
            && node.is_collected()
            && dead.len() < RECYCLED
        {
            dead.push(node);
        }
    }
    // The place is still empty: nothing above records, and collected nodes hold no operands, which stand in this list
    // themselves.
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
            let address = NodeArc::as_ptr(&node);
            retire(vec![NodeInput::Tensor(node)]);
            dead().is_some_and(|dead| NodeArc::as_ptr(&dead) == address)
        };
        assert!(kept(true));
        assert!(!kept(false));
    }
}
