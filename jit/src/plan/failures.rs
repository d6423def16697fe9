//! What is noted of a run's failures.

use ferrotrace_kernels::ValueId;
use ferrotrace_runtime::Error;

/// What went wrong in a run.
#[derive(Debug, Default)]
pub(super) struct Failures {
    /// Values that are spoiled, with the reason.
    pub(super) spoiled: Vec<(ValueId, Error)>,
    /// Spoiled values that have no memory.
    pub(super) missing: Vec<ValueId>,
}

impl Failures {
    /// Whether spoiled values have no memory, so that what reads them cannot run.
    pub fn lacks_memory(&self) -> bool {
        !self.missing.is_empty()
    }

    /// The first that was noted.
    pub fn first(&self) -> Option<&Error> {
        self.spoiled.first().map(|(_, error)| error)
    }
}
