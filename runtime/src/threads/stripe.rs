//! Stripes: a copy of a shared thing for each thread, so that threads that use it at once do not pass its cache line
//! around. A contended line costs each of sixteen threads as much as a microsecond's work at every count or lock.

use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How many stripes there are. Threads beyond share them.
pub const STRIPES: usize = 64;

/// A bit for each stripe that a living thread has for itself.
static TAKEN: AtomicU64 = AtomicU64::new(0);
/// Threads that found no stripe free, and share one.
static SHARING: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    /// Whether no other living thread has this thread's stripe.
    static ALONE: Cell<bool> = const { Cell::new(false) };
    static GUARD: Guard = const { Guard };
}

/// Gives the thread's stripe back when the thread ends.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(own) = OWN.get()
            && ALONE.replace(false)
        {
            TAKEN.fetch_and(!(1 << own), Relaxed);
        }
    }
}

/// The stripe of this thread, below [`STRIPES`]: always the same, and its own while no more threads than that ask.
#[inline]
pub fn stripe() -> usize {
    match OWN.get() {
        Some(own) => own,
        None => choose(),
    }
}

#[cold]
fn choose() -> usize {
    let more = |taken: u64| (taken != u64::MAX).then(|| taken | (taken + 1));
    // A thread that is ending could not give it back.
    let lives = GUARD.try_with(|_| ()).is_ok();
    let taken = match lives {
        true => TAKEN.fetch_update(Relaxed, Relaxed, more).ok(),
        false => None,
    };
    ALONE.set(taken.is_some());
    let own = match taken {
        Some(taken) => taken.trailing_ones() as usize,
        None => SHARING.fetch_add(1, Relaxed) as usize % STRIPES,
    };
    OWN.set(Some(own));
    own
}

/// A value on cache lines of its own: two, since some processors fetch lines in pairs.
#[repr(align(128))]
#[derive(Default)]
pub struct Apart<T>(pub T);

impl<T> Deref for Apart<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Apart<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One `T` for each stripe, made when a thread of the stripe first asks for it.
///
/// ```
/// use ferrotrace_runtime::Striped;
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// let calls: Striped<AtomicU64> = Striped::new();
/// std::thread::scope(|s| {
///     (0..4).for_each(|_| drop(s.spawn(|| calls.own().fetch_add(1, Relaxed))));
/// });
/// assert_eq!(calls.iter().map(|c| c.load(Relaxed)).sum::<u64>(), 4);
/// ```
pub struct Striped<T>([OnceLock<Box<Apart<T>>>; STRIPES]);

impl<T> Striped<T> {
    /// No value is made yet.
    pub const fn new() -> Striped<T> {
        Striped([const { OnceLock::new() }; STRIPES])
    }

    /// The values made so far, one for each stripe that asked.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(|own| own.get().map(|own| &own.0))
    }
}

impl<T: Default> Striped<T> {
    /// The value of this thread's stripe.
    #[inline]
    pub fn own(&self) -> &T {
        self.0[stripe()].get_or_init(Box::default)
    }
}

impl<T> Default for Striped<T> {
    fn default() -> Striped<T> {
        Striped::new()
    }
}

impl<T> fmt::Debug for Striped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Striped({} of {STRIPES})", self.iter().count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Barrier;

    /// The stripes of threads that live at the same time.
    fn of(threads: usize) -> HashSet<usize> {
        let barrier = Barrier::new(threads);
        std::thread::scope(|s| {
            let own = || {
                let own = stripe();
                barrier.wait();
                assert_eq!(stripe(), own);
                own
            };
            let threads: Vec<_> = (0..threads).map(|_| s.spawn(own)).collect();
            let joined = threads.into_iter().map(|t| t.join().expect("no panic"));
            joined.collect()
        })
    }

    // One test: threads of another would take stripes from these.
    #[test]
    fn threads_that_live_at_once_have_stripes_of_their_own_while_there_are_any() {
        assert_eq!(of(16).len(), 16);
        let shared = of(STRIPES + 20);
        assert!(shared.len() <= STRIPES && shared.iter().all(|own| *own < STRIPES));
        assert_eq!(
            of(16).len(),
            16,
            "those of threads that ended are free again"
        );
    }
}
