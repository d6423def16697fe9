//! Gradients of calls of traced functions: the forward pass replays one plan, the backward pass another.
//!
//! The function's trace is differentiated once, with stand-ins for the gradients of its results (`joint.rs`). That one form
//! is cut in two: `cut.rs` says what the forward pass saves, `part.rs` makes traces of the parts. The backward pass
//! (`backward.rs`) is made when it is first asked for, of the gradients that a loss has (`absent.rs`), for those that are
//! asked for. A gradient that is differentiated again is recorded from the function's operations (`again.rs`, `steps.rs`).

mod absent;
mod again;
mod backward;
mod call;
mod constants;
mod cut;
mod joint;
mod part;
mod steps;

pub(super) use call::Call;
pub(super) use joint::Joint;
