//! Time on a device's stream.

use super::Context;
use crate::Device;
use cudarc::driver::{DriverError, sys};
use std::ptr;
use std::time::Duration;

/// A point on the stream from which time is taken.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    context: &'static Context,
    start: Event,
}

#[derive(Debug)]
struct Event(sys::CUevent);

// SAFETY: events may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: events may be used from any thread, and from several at once.
unsafe impl Sync for Event {}

impl Event {
    /// An event after what is on the stream now.
    fn record(context: &Context) -> Option<Event> {
        context.bind().ok()?;
        let mut event = ptr::null_mut();
        // SAFETY: the pointer is to a live variable, and the stream lives until the process ends.
        unsafe {
            sys::cuEventCreate(&mut event, 0).result().ok()?;
            let event = Event(event);
            sys::cuEventRecord(event.0, context.stream())
                .result()
                .ok()?;
            Some(event)
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is ours. A failure means that the context is lost.
        let _ = unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}

impl Stopwatch {
    /// Starts after what is on the stream now.
    pub fn start(context: &'static Context) -> Option<Stopwatch> {
        let start = Event::record(context)?;
        Some(Stopwatch { context, start })
    }

    /// The device.
    pub fn device(&self) -> Device {
        self.context.device()
    }

    /// Waits for what was put on the stream since, and says how long it took there.
    pub fn stop(self) -> Option<Duration> {
        let end = Event::record(self.context)?;
        let mut milliseconds: f32 = 0.0;
        // SAFETY: both events were recorded on the stream, and the pointer is to a live variable.
        let elapsed = unsafe {
            sys::cuEventSynchronize(end.0).result().and_then(|()| {
                sys::cuEventElapsedTime_v2(&mut milliseconds, self.start.0, end.0).result()
            })
        };
        let elapsed: Result<(), DriverError> = elapsed;
        elapsed.ok()?;
        Some(Duration::from_secs_f64(milliseconds.max(0.0) as f64 / 1e3))
    }
}
