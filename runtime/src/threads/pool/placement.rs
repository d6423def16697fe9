//! Where woken workers run.
//!
//! On a small machine Linux often wakes a thread on the waker's processor, though the waker keeps that one busy and
//! another is idle; the worker then waits for the end of the waker's time slice, milliseconds. So a waker takes its own
//! processor from the worker's set for as long as the waking takes.

use parking_lot::Mutex;

/// The processors that a worker may run on.
#[derive(Default)]
pub(super) struct Placement(Mutex<State>);

#[cfg(target_os = "linux")]
#[derive(Default)]
struct State {
    thread: libc::pid_t,
    /// Its set before a waker narrowed it.
    narrowed: Option<libc::cpu_set_t>,
}

#[cfg(target_os = "linux")]
fn processor() -> Option<usize> {
    // SAFETY: sched_getcpu has no preconditions.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

#[cfg(target_os = "linux")]
impl Placement {
    /// Called by the worker when it starts.
    pub(super) fn start(&self) {
        // SAFETY: gettid has no preconditions.
        self.0.lock().thread = unsafe { libc::gettid() };
    }

    /// Called by who is about to wake the worker.
    pub(super) fn wake(&self) {
        let mut state = self.0.lock();
        let Some(here) = processor() else { return };
        if state.thread == 0 || state.narrowed.is_some() {
            return;
        }
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: a set of zeroes is a valid, empty set; the calls read or write just the set, whose size they are
        // given; `here` is checked against that size.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            if here >= 8 * size || libc::sched_getaffinity(state.thread, size, &mut set) != 0 {
                return;
            }
            let mut others = set;
            libc::CPU_CLR(here, &mut others);
            let narrower = libc::CPU_COUNT(&others) > 0 && libc::CPU_ISSET(here, &set);
            if narrower && libc::sched_setaffinity(state.thread, size, &others) == 0 {
                state.narrowed = Some(set);
            }
        }
    }

    /// Called by the worker when it is awake.
    pub(super) fn awake(&self) {
        let narrowed = self.0.lock().narrowed.take();
        if let Some(set) = narrowed {
            // SAFETY: the call reads just the set, whose size it is given; thread 0 is the calling one.
            unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
        }
    }
}

#[cfg(not(target_os = "linux"))]
#[derive(Default)]
struct State;

#[cfg(not(target_os = "linux"))]
impl Placement {
    pub(super) fn start(&self) {}
    pub(super) fn wake(&self) {
        drop(self.0.lock());
    }
    pub(super) fn awake(&self) {}
}
