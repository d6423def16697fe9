//! A counted handle of a node: what a tensor holds, and what keeps a value for its gradient.

use super::{Node, NodeArc};
use crate::node::pool::share;

/// Holds a node, and is counted among its handles.
#[derive(Debug)]
pub(crate) struct Handle(NodeArc);

impl Handle {
    /// The handle that a fresh node counts already.
    #[inline(always)]
    pub fn of_fresh(node: Node) -> Handle {
        Handle(share(node))
    }

    /// The node.
    #[inline]
    pub fn node(&self) -> &NodeArc {
        &self.0
    }
}

impl Clone for Handle {
    #[inline]
    fn clone(&self) -> Handle {
        let node = self.0.clone();
        node.add_handle();
        Handle(node)
    }
}

impl Drop for Handle {
    #[inline]
    fn drop(&mut self) {
        Node::remove_handle(&self.0);
    }
}
