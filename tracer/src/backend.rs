//! The parts of the compiler that the trace uses.

pub(crate) use ferrotrace_jit::lower::Limits;
pub(crate) use ferrotrace_jit::{
    Draft, Graph, Launches, Plan, PlanInput, compile, draft, run_eagerly,
};
pub use ferrotrace_jit::{Explanation, Precision};
