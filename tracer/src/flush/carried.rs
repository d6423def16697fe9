//! What a loop carries from step to step: parameters, and the state of an optimiser.
//!
//! The first flush that computes it stores it. A loop that reads nothing would record on and on, and the flush that the
//! length of its trace calls for would fall somewhere else each time, with another plan: it is computed step by step.

use super::collect::Stores;
use super::cut;
use super::{flush_nodes, flush_pending, flush_tensors};
use crate::node::{NodeArc, Status};
use crate::{Tensor, trace};
use ferrotrace_kernels::Class;
use std::cell::Cell;

/// Operations of a step that a carried value goes through at most.
const MOST_OPERATIONS: usize = 8;

/// Pending steps after which a loop is taken to read nothing. One that reads its loss has two behind its update.
const MOST_STEPS: usize = 3;

/// What a flush adds to the sum of new plans if it makes one; a flush that finds its plan takes one away. Where the sum reaches
/// `MOST_NEW`, the sizes of a loop are taken to change from step to step, until as many flushes as `LASTS` have found plans.
const NEW_PLAN: u32 = 2;
const MOST_NEW: u32 = 20;
const LASTS: u32 = 1 << 16;

thread_local! {
    /// Flushes that this thread's program asked for, and how many there were when the steps of a loop were computed last.
    static ASKED: Cell<u64> = const { Cell::new(0) };
    static SEEN: Cell<u64> = const { Cell::new(u64::MAX) };
    /// The sum of new plans.
    static NEW: Cell<u32> = const { Cell::new(0) };
}

/// Notes a flush that the program asks for.
pub(super) fn note_asked() {
    ASKED.set(ASKED.get() + 1);
}

/// Notes whether a flush found its plan. Where each step of a loop has other sizes, a flush that computes one step's update
/// with the next one's loss has a plan for each pair of sizes: steps are then computed apart.
pub(super) fn note_plan(known: bool) {
    let sum = match known {
        true => NEW.get().saturating_sub(1),
        false => NEW.get() + NEW_PLAN,
    };
    NEW.set(match known || sum < MOST_NEW {
        true => sum,
        false => LASTS,
    });
}

/// Whether the steps of a loop are to be computed apart, at the end of one.
fn computes_apart() -> bool {
    NEW.get() >= MOST_NEW
}

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
            flush_pending([self].into_iter(), Stores::AtOnce);
        }
    }

    /// Notes that a loop may carry this tensor, of which a gradient is to be taken, and computes it where sizes change.
    pub(crate) fn carry_leaf(&self) {
        self.carry();
        if trace::current() == 0 && self.is_pending() && computes_apart() {
            // Other leaves follow, whose updates share most of the work.
            flush_pending([self].into_iter(), Stores::Reachable);
        }
    }

    /// Computes tensors that a loop carries from step to step, except in a function that is traced.
    #[doc(hidden)]
    pub fn carry_computed<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) {
        if trace::current() == 0 {
            flush_tensors(tensors.into_iter());
        }
    }

    /// Notes that a step of a loop ends, of which this tensor is the number, and computes the steps so far if the loop
    /// reads nothing. `carried` gives the parameters, and the other tensors that the loop carries; it is asked only where steps
    /// are pending.
    #[doc(hidden)]
    pub fn end_step(&self, carried: impl FnOnce() -> (Vec<Tensor>, Vec<Tensor>)) {
        if trace::current() != 0 {
            return;
        }
        let most = match computes_apart() || SEEN.get() == ASKED.get() {
            true => 1,
            false => MOST_STEPS,
        };
        let is_behind = |tensor: &Tensor| tensor.pending_steps(most).len() == most;
        if !is_behind(self) {
            return;
        }
        let (parameters, state) = carried();
        if !parameters.iter().any(is_behind) {
            // What the loop reads needs the parameters, not the number.
            flush_pending([self].into_iter(), Stores::AtOnce);
            return;
        }
        let mut steps: Vec<Vec<NodeArc>> = Vec::new();
        for tensor in parameters.iter().chain(&state).chain([self]) {
            for (back, node) in tensor.pending_steps(usize::MAX).into_iter().enumerate() {
                if steps.len() <= back {
                    steps.push(Vec::new());
                }
                steps[back].push(node);
            }
        }
        // A number that the program holds of a step, such as its loss, would keep what it is computed from.
        if let Some(newest) = steps.first_mut() {
            cut::add_summaries(newest, 1);
        }
        // Each step is a flush of its own, whose data die with the next.
        while let Some(step) = steps.pop() {
            flush_nodes(step, Stores::Rule);
        }
        SEEN.set(ASKED.get());
    }

    /// The values of pending steps, `most` at most, the last first. A step computes one from the value before in few
    /// operations.
    fn pending_steps(&self, most: usize) -> Vec<NodeArc> {
        let (mut steps, mut between) = (Vec::new(), 0);
        let mut last = Some(self.node().clone());
        while let Some(node) = last
            && steps.len() < most
            && between < MOST_OPERATIONS
            && node.status() == Status::Pending
        {
            between += 1;
            last = node.carried_operand();
            if node.is_carried() {
                between = 0;
                steps.push(node);
            }
        }
        steps
    }
}
