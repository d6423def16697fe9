//! Where kernels of the host report indices out of range.

use crate::error::{FAULT_SLOTS, Faults, faults};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Memory for reports: a site, not 0, and an index for each slot.
#[derive(Debug)]
pub(super) struct Reports([AtomicI64; 2 * FAULT_SLOTS]);

impl Default for Reports {
    fn default() -> Reports {
        Reports([const { AtomicI64::new(0) }; 2 * FAULT_SLOTS])
    }
}

impl Reports {
    /// The address for kernels of the host.
    pub fn address(&self) -> *mut i64 {
        self.0.as_ptr().cast_mut().cast()
    }

    /// What was reported.
    pub fn faults(&self) -> Faults {
        faults(|at| self.0[at].load(Relaxed))
    }
}
