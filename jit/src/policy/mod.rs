//! What every pass is given besides its input: what the device is, bounds, and decisions that were made otherwise than the
//! passes would make them.

mod choice;
mod given_up;
mod measured;
mod thresholds;

pub use choice::{Change, Choice, NoChange, Threshold};
pub use given_up::GivenUp;
pub use measured::{Measured, Outcome, Row};
pub use thresholds::Thresholds;

use crate::target::Target;
use ferrotrace_runtime::Device;
use std::sync::Arc;

/// By what passes decide.
///
/// ```
/// use ferrotrace_jit::policy::{Policy, Thresholds};
/// // Plans for the CPU in which every kernel is launched alone.
/// let policy = Policy::from(Thresholds { combined_members: 1, ..Thresholds::default() });
/// assert!(policy.target.spreads_launches);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// What the device is.
    pub target: Target,
    /// Bounds.
    pub thresholds: Thresholds,
    /// Decisions that measuring made otherwise.
    pub choice: Choice,
    /// Fusions that are given up for memory.
    pub given_up: Arc<GivenUp>,
}

impl Policy {
    /// The policy of a device, with the standard bounds.
    pub fn of(device: &Device) -> Policy {
        Policy {
            target: Target::of(device).clone(),
            ..Policy::default()
        }
    }
}

/// The policy of the CPU, with these bounds.
impl From<Thresholds> for Policy {
    fn from(thresholds: Thresholds) -> Policy {
        Policy {
            thresholds,
            ..Policy::default()
        }
    }
}

/// The policy of a target, with the standard bounds.
impl From<Target> for Policy {
    fn from(target: Target) -> Policy {
        Policy {
            target,
            ..Policy::default()
        }
    }
}
