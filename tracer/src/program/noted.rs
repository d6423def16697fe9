//! Runs of bodies for their plans alone: other calls of a bundle may reach what its examples do not.

use super::{Flow, Run};
use crate::backend::is_noting;
use crate::mode::set_for_scope;
use ferrotrace_kernels::Array;
use std::cell::Cell;

/// Steps after which a loop has met the layouts of its carried values: of what it was given, and of what its body makes of
/// these.
const ENOUGH: u64 = 3;

thread_local! {
    /// Whether a body runs whose results nobody needs.
    static RUNS_IDLE: Cell<bool> = const { Cell::new(false) };
}

impl Flow {
    /// Whether a loop of an unknown number of steps ends before this one: where nobody needs its results, it may have no end.
    pub(super) fn ends_idle(step: u64) -> bool {
        step >= ENOUGH && RUNS_IDLE.get()
    }

    /// Runs the branch that was not chosen, where plans are noted.
    pub(super) fn note_branch(&self, branch: usize, run: &Run<'_>) {
        if is_noting() {
            let _restore = set_for_scope(&RUNS_IDLE, true);
            let mut operands = run.operands.to_vec();
            // It was not chosen: it may refuse the operands. Its plans ran as far as it came.
            let _ = self.bodies[branch].run(run.device, &mut operands, 0..0, &run.numbers, 0);
        }
    }

    /// Runs the steps that a loop which ended early did not reach, where plans are noted.
    pub(super) fn note_steps(
        &self,
        carried: usize,
        last: &[Option<Array>],
        first: u64,
        run: &Run<'_>,
    ) {
        if !is_noting() {
            return;
        }
        let _restore = set_for_scope(&RUNS_IDLE, true);
        let mut operands = last.to_vec();
        for step in first..ENOUGH {
            // As for a branch that was not chosen.
            let body = &self.bodies[1];
            let next = body.run(run.device, &mut operands, 0..carried, &run.numbers, step);
            let Ok(next) = next else { return };
            for (to, next) in operands.iter_mut().zip(next) {
                *to = Some(next);
            }
            let _ = self.bodies[0].run(run.device, &mut operands, 0..0, &run.numbers, step);
        }
    }
}
