//! Counted handles of nodes: what tensors hold, and what keeps values for gradients.

use super::{Node, NodeArc};
use crate::node::pool::share;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Holds a node, and is counted among its handles.
#[derive(Debug)]
pub(crate) struct Handle(NodeArc);

impl Handle {
    /// The handle that a fresh node counts already.
    #[inline(always)]
    pub fn of_fresh(node: Node) -> Handle {
        Handle(share(node))
    }

    /// One more handle of a node.
    pub fn again(node: &NodeArc) -> Handle {
        node.add_handle();
        Handle(node.clone())
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

/// A handle that keeps a value for a gradient. Until that gradient has been taken, the node counts it as expected.
#[derive(Debug)]
pub(crate) struct Kept {
    handle: Handle,
    expected: AtomicBool,
}

impl Kept {
    /// Keeps a value for a gradient that is still to be taken.
    pub fn new(handle: Handle) -> Kept {
        handle.node().keep();
        Kept {
            handle,
            expected: AtomicBool::new(true),
        }
    }

    /// The value.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Notes that the gradient has been taken.
    pub fn take(&self) {
        if self.expected.swap(false, Relaxed) {
            self.handle.node().expect_less();
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.take();
        self.handle.node().keep_less();
    }
}
