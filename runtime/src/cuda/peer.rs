//! Copies from one device to another.

use super::Context;
use super::context::failed;
use super::record::{self, Uncaptured};
use crate::Result;
use crate::observe::counters::{Counter, count};
use cudarc::driver::{DriverError, sys};
use parking_lot::Mutex;
use std::ptr;

/// Pairs of devices, to and from, for which direct access was asked for.
static ASKED: Mutex<Vec<(u32, u32)>> = Mutex::new(Vec::new());

/// A point on a device's stream.
struct Mark(sys::CUevent);

impl Mark {
    /// After what is on the device's stream now.
    fn on(context: &Context) -> Result<Mark> {
        context.bind()?;
        let mut event = ptr::null_mut();
        let flags = sys::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
        let error = failed(context.index(), "marking a copy");
        // SAFETY: the pointer is to a live variable.
        unsafe { sys::cuEventCreate(&mut event, flags).result() }.map_err(&error)?;
        let mark = Mark(event);
        // SAFETY: event and stream are of the context that was just entered.
        unsafe { sys::cuEventRecord(mark.0, context.stream()).result() }.map_err(&error)?;
        Ok(mark)
    }

    /// What is put on a device's stream from now on waits for the mark.
    fn holds(&self, context: &Context) -> Result<()> {
        context.bind()?;
        // SAFETY: event and stream are alive; they may be of different devices.
        unsafe { sys::cuStreamWaitEvent(context.stream(), self.0, 0) }
            .result()
            .map_err(failed(context.index(), "waiting for another device"))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: the event is ours; who waits for it still does. A failure means that the context is lost.
        let _ = unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}

/// Lets a device read another's memory, where the hardware can: otherwise the driver copies by way of the host. Asked
/// once a pair.
fn allow(to: &Context, from: &Context) {
    let pair = (to.index(), from.index());
    let mut asked = ASKED.lock();
    if asked.contains(&pair) {
        return;
    }
    asked.push(pair);
    let Some(pool) = from.pool else { return };
    let (reader, owner) = (to.index() as i32, from.index() as i32);
    let mut can = 0;
    // SAFETY: the pointer is to a live variable; both devices are there.
    let answer = unsafe { sys::cuDeviceCanAccessPeer(&mut can, reader, owner) };
    if answer.result().is_err() || can == 0 || from.bind().is_err() {
        return;
    }
    // SAFETY: plain data, for which zero is a value.
    let mut access: sys::CUmemAccessDesc = unsafe { std::mem::zeroed() };
    access.location.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = reader;
    access.flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    // SAFETY: the pool is the owner's, and one description is given. A failure leaves the way by the host.
    let _ = unsafe { sys::cuMemPoolSetAccess(pool, &access, 1) };
}

/// Copies from a device to another, after what is on both streams; what comes later on either waits for the copy, so that
/// memory may be handed on there. The host waits for nothing.
///
/// # Safety
/// `source` is memory of `from`, and `target` of `to`, of at least `bytes` bytes.
pub(crate) unsafe fn device_to_peer(
    (to, target): (&Context, u64),
    (from, source): (&Context, u64),
    bytes: usize,
) -> Result<()> {
    record::refuse(Uncaptured::PeerCopy)?;
    count(Counter::DeviceCopies, 1);
    allow(to, from);
    Mark::on(from)?.holds(to)?;
    let done: Result<(), DriverError> = {
        to.bind()?;
        // SAFETY: the caller answers for both ranges; the contexts are theirs, and the stream is the target's.
        unsafe {
            sys::cuMemcpyPeerAsync(target, to.raw(), source, from.raw(), bytes, to.stream())
                .result()
        }
    };
    done.map_err(failed(to.index(), "a copy from another device"))?;
    Mark::on(to)?.holds(from)
}
