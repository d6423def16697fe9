//! A flush that is running, for those who wait for what it computes.

use parking_lot::{Condvar, Mutex};

/// A running flush.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    landed: Mutex<bool>,
    wake: Condvar,
}

impl Flight {
    /// Blocks until the flush has stored (or failed) all that it computes.
    pub fn wait(&self) {
        let mut landed = self.landed.lock();
        while !*landed {
            self.wake.wait(&mut landed);
        }
    }

    /// Marks the flush as done, and wakes those who wait for it.
    pub fn land(&self) {
        *self.landed.lock() = true;
        self.wake.notify_all();
    }
}
