//! The parts of the compiler that the trace uses.

pub(crate) use ferrotrace_jit::is_noting;
pub(crate) use ferrotrace_jit::policy::Policy;
pub use ferrotrace_jit::tune::{Choice, Measured};
pub(crate) use ferrotrace_jit::tune::{
    Clock, DeviceClock, Effort, Trial, plan_measured, remembered,
};
pub use ferrotrace_jit::{
    Bound, Explanation, Folded, GraphDecision, Hint, Machine, Nanoseconds, Precision, Work,
};
pub(crate) use ferrotrace_jit::{
    Draft, Launches, Operations, Plan, PlanInput, Read, Recorded, run_each, run_operator,
};
pub use ferrotrace_jit::{Graph, kernels_for, noting};
