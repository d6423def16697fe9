//! Copies between the host and a device, through pinned memory, and within a device.

use super::Context;
use super::context::failed;
use super::record::{self, Uncaptured, Work};
use crate::Result;
use crate::observe::counters::{Counter, count};
use cudarc::driver::{DriverError, sys};
use std::ptr;

/// Bytes of a staging buffer: large enough for the bus's full speed, two of them at work by turns.
const CHUNK: usize = 4 << 20;

/// Two buffers of pinned memory, each with an event that follows its last copy. Made at the first copy.
#[derive(Default)]
pub(super) struct Staging {
    slots: Vec<Slot>,
}

struct Slot {
    memory: *mut u8,
    done: sys::CUevent,
}

impl Staging {
    fn slot(&mut self, at: usize) -> Result<&Slot, DriverError> {
        while self.slots.len() < 2 {
            let (mut memory, mut done) = (ptr::null_mut(), ptr::null_mut());
            let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
            // SAFETY: the pointers are to live variables. Neither is ever released.
            unsafe {
                sys::cuMemHostAlloc(&mut memory, CHUNK, 0).result()?;
                sys::cuEventCreate(&mut done, flags).result()?;
            }
            let memory = memory.cast();
            self.slots.push(Slot { memory, done });
        }
        Ok(&self.slots[at % 2])
    }
}

/// Copies host memory to a device's, in its stream's order. The source is free for reuse on return.
///
/// # Safety
/// `source` is readable for `bytes` bytes; `to` is memory of the device with room for them.
pub(crate) unsafe fn host_to_device(
    context: &Context,
    to: u64,
    source: *const u8,
    bytes: usize,
) -> Result<()> {
    record::refuse(Uncaptured::HostCopy)?;
    context.bind()?;
    count(Counter::DeviceCopies, 1);
    let mut staging = context.staging.lock();
    let mut copy = || -> Result<(), DriverError> {
        for (i, start) in (0..bytes).step_by(CHUNK).enumerate() {
            let slot = staging.slot(i)?;
            let n = CHUNK.min(bytes - start);
            // SAFETY: the event says that the slot's last copy is over; the slot holds CHUNK bytes, and the caller
            // answers for both ends.
            unsafe {
                sys::cuEventSynchronize(slot.done).result()?;
                slot.memory.copy_from_nonoverlapping(source.add(start), n);
                let place = slot.memory.cast_const().cast();
                sys::cuMemcpyHtoDAsync_v2(to + start as u64, place, n, context.stream())
                    .result()?;
                sys::cuEventRecord(slot.done, context.stream()).result()?;
            }
        }
        Ok(())
    };
    copy().map_err(failed(context.index(), "a copy to the device"))
}

/// Copies a device's memory to the host's, after everything on its stream. The bytes are there on return.
///
/// # Safety
/// `from` is memory of the device of at least `bytes` bytes; `target` is writable for as many.
pub(crate) unsafe fn device_to_host(
    context: &Context,
    target: *mut u8,
    from: u64,
    bytes: usize,
) -> Result<()> {
    record::refuse(Uncaptured::HostCopy)?;
    context.bind()?;
    count(Counter::DeviceCopies, 1);
    let mut staging = context.staging.lock();
    let chunks = bytes.div_ceil(CHUNK);
    let length = |i: usize| CHUNK.min(bytes - i * CHUNK);
    let mut copy = || -> Result<(), DriverError> {
        for i in 0..=chunks {
            if i < chunks {
                let slot = staging.slot(i)?;
                // SAFETY: the slot's last use is over: of this call two chunks ago, of others when they returned or by
                // the wait below.
                unsafe {
                    sys::cuEventSynchronize(slot.done).result()?;
                    let start = from + (i * CHUNK) as u64;
                    let place = slot.memory.cast();
                    sys::cuMemcpyDtoHAsync_v2(place, start, length(i), context.stream())
                        .result()?;
                    sys::cuEventRecord(slot.done, context.stream()).result()?;
                }
            }
            if let Some(done) = i.checked_sub(1) {
                let slot = staging.slot(done)?;
                // SAFETY: the event says that the copy is over; the caller answers for the target.
                unsafe {
                    sys::cuEventSynchronize(slot.done).result()?;
                    let place = target.add(done * CHUNK);
                    place.copy_from_nonoverlapping(slot.memory, length(done));
                }
            }
        }
        Ok(())
    };
    copy().map_err(failed(context.index(), "a copy to the host"))
}

/// Copies within a device, in its stream's order.
///
/// # Safety
/// Both ranges of `bytes` bytes are memory of the device and do not overlap.
pub(crate) unsafe fn device_to_device(
    context: &Context,
    to: u64,
    from: u64,
    bytes: usize,
) -> Result<()> {
    if bytes == 0 || record::noted(Work::Copy(bytes), &[to, from]) {
        return Ok(());
    }
    context.bind()?;
    // SAFETY: the caller answers for both ranges.
    unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, context.stream()) }
        .result()
        .map_err(failed(context.index(), "a copy within the device"))
}
