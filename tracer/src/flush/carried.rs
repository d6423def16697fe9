//! What a loop carries from step to step: parameters, and the state of an optimiser.

use super::collect::Stores;
use super::{flush_pending, flush_tensors};
use crate::node::Status;
use crate::{Tensor, trace};
use ferrotrace_kernels::Class;

/// Operations of a step that a carried value goes through at most.
const MOST_OPERATIONS: usize = 8;

impl Tensor {
    /// Notes that a loop carries this tensor from step to step: the first flush that computes it stores it, and a constant
    /// is made at once. So the second step of a loop computes what all later steps do, from data that lie alike.
    #[doc(hidden)]
    pub fn carry(&self) {
        if trace::current() != 0 || !self.is_pending() {
            return;
        }
        self.node().set_carried();
        if self.node().facts.op().class() == Class::Create {
            self.carry_at_once();
        }
    }

    /// Computes the tensor by ready-made kernels, except in a function that is traced.
    #[doc(hidden)]
    pub fn carry_at_once(&self) {
        if trace::current() == 0 {
            flush_pending([self].into_iter(), Stores::AtOnce);
        }
    }

    /// Computes tensors that a loop carries from step to step, except in a function that is traced.
    #[doc(hidden)]
    pub fn carry_computed<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) {
        if trace::current() == 0 {
            flush_tensors(tensors.into_iter());
        }
    }

    /// How many steps of the loop that carries this tensor are pending, counted up to `most`. A step computes it from the
    /// value before in few operations.
    #[doc(hidden)]
    pub fn pending_steps(&self, most: usize) -> usize {
        let (mut steps, mut between) = (0, 0);
        let mut last = Some(self.node().clone());
        while let Some(node) = last
            && steps < most
            && between < MOST_OPERATIONS
            && node.status() == Status::Pending
        {
            between += 1;
            if node.is_carried() {
                (steps, between) = (steps + 1, 0);
            }
            last = node.carried_operand();
        }
        steps
    }
}
