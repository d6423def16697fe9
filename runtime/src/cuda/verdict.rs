//! Verdicts of kernels that check indices: memory of the host that kernels report faults in, and when they have.

use super::Context;
use super::context::failed;
use crate::Result;
use crate::error::{FAULT_SLOTS, Faults, faults};
use crate::observe::counters::{Counter, count};
use cudarc::driver::{DriverError, sys};
use std::ptr;

/// Numbers that both sides see, a site and an index for each slot of faults, and an event that follows the last kernel that may write
/// them.
pub(super) struct Slot {
    host: *mut i64,
    pub device: sys::CUdeviceptr,
    done: sys::CUevent,
}

// SAFETY: events may be used from any thread, and a slot is in one verdict at a time.
unsafe impl Send for Slot {}

impl Slot {
    /// A slot, which is never released. The caller has entered the context.
    pub fn new() -> Result<Slot, DriverError> {
        let (mut host, mut device, mut done) = (ptr::null_mut(), 0, ptr::null_mut());
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        // SAFETY: all pointers are to live variables.
        unsafe {
            sys::cuMemHostAlloc(&mut host, 16 * FAULT_SLOTS, sys::CU_MEMHOSTALLOC_DEVICEMAP)
                .result()?;
            sys::cuMemHostGetDevicePointer_v2(&mut device, host, 0).result()?;
            sys::cuEventCreate(&mut done, flags).result()?;
        }
        let host = host.cast();
        Ok(Slot { host, device, done })
    }
}

/// What kernels that check indices will have found. Of several faults of one slot it is that of the first kernel on the stream; the
/// kernels after it run all the same, on an index that is in range.
pub struct Verdict {
    context: &'static Context,
    /// None: it was given back.
    slot: Option<Slot>,
}

impl Verdict {
    /// A verdict that nothing was reported to.
    pub(super) fn new(context: &'static Context) -> Result<Verdict> {
        let free = context.slots.lock().pop();
        let slot = match free {
            Some(slot) => slot,
            None => {
                context.bind()?;
                Slot::new().map_err(failed(context.index(), "memory for verdicts"))?
            }
        };
        // SAFETY: the numbers of pinned memory; kernels that were given them before are done, or the slot would not be
        // free.
        unsafe { ptr::write_bytes(slot.host, 0, 2 * FAULT_SLOTS) };
        let slot = Some(slot);
        Ok(Verdict { context, slot })
    }

    /// Where kernels report to.
    pub(super) fn address(&self) -> u64 {
        self.slot.as_ref().map_or(0, |slot| slot.device)
    }

    /// Notes that what is on the stream now may report.
    pub(super) fn record(&self) -> Result<()> {
        let Some(slot) = &self.slot else {
            return Ok(());
        };
        // SAFETY: event and stream live until the process ends.
        unsafe { sys::cuEventRecord(slot.done, self.context.stream()) }
            .result()
            .map_err(failed(self.context.index(), "noting a check"))
    }

    /// Waits for the last kernel that reports to it, not for what was launched since, and says what was reported.
    ///
    /// # Errors
    /// `Device`: what the driver answers, also of earlier launches.
    pub fn wait(mut self) -> Result<Faults> {
        count(Counter::HostSyncs, 1);
        let Some(slot) = self.slot.take() else {
            return Ok(Faults::new());
        };
        self.context.bind()?;
        // SAFETY: the event lives until the process ends.
        unsafe { sys::cuEventSynchronize(slot.done) }
            .result()
            .map_err(failed(self.context.index(), "what was launched"))?;
        // SAFETY: the kernels are done, and their writes to pinned memory are seen after the wait.
        let found = faults(|at| unsafe { slot.host.add(at).read_volatile() });
        self.context.slots.lock().push(slot);
        Ok(found)
    }
}

impl Drop for Verdict {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        // SAFETY: as in `wait`. Where that fails the context is lost, and the slot with it.
        let over = self.context.bind().is_ok()
            && unsafe { sys::cuEventSynchronize(slot.done) }
                .result()
                .is_ok();
        if over {
            self.context.slots.lock().push(slot);
        }
    }
}

impl std::fmt::Debug for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Verdict(cuda:{})", self.context.index())
    }
}
