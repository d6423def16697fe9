//! What a process tells on standard error of what it decides: named channels, each switched on by itself
//! (scheduler V-04, codegen B14.7, B14.9).

use crate::{Channel, Config};
use once_cell::sync::Lazy;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Whether a channel is switched on in this process.
pub fn is_logged(channel: Channel) -> bool {
    Config::get().log.has(channel)
}

/// Tells of something on a channel, if it is switched on: one line, or several of which the first says when, of which
/// plan and on which channel.
pub fn log(channel: Channel, text: impl FnOnce() -> String) {
    if is_logged(channel) {
        eprintln!("{}{}", place(channel), text().trim_end());
    }
}

/// `ferrotrace: 1.204 s, plan 3, fusion: `.
fn place(channel: Channel) -> String {
    static START: Lazy<Instant> = Lazy::new(Instant::now);
    let (time, name) = (START.elapsed().as_secs_f64(), channel.name());
    match PLAN.get() {
        0 => format!("ferrotrace: {time:.3} s, {name}: "),
        plan => format!("ferrotrace: {time:.3} s, plan {plan}, {name}: "),
    }
}

thread_local! {
    /// The number of the plan that this thread makes; 0 while it makes none.
    static PLAN: Cell<u64> = const { Cell::new(0) };
}

/// A number that no other plan of the process has: 1, 2, ..
pub fn next_plan() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// Runs `f`; what this thread tells of meanwhile belongs to that plan.
pub fn of_plan<R>(number: u64, f: impl FnOnce() -> R) -> R {
    /// Sets the number back, also when `f` panics.
    struct Before(u64);
    impl Drop for Before {
        fn drop(&mut self) {
            PLAN.set(self.0);
        }
    }
    let _before = Before(PLAN.replace(number));
    f()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_name_the_plan_that_is_made() {
        assert!(!place(Channel::Fusion).contains("plan"));
        let inner = of_plan(7, || {
            of_plan(8, || assert!(place(Channel::Fusion).contains("plan 8")));
            place(Channel::Rounds)
        });
        assert!(inner.starts_with("ferrotrace: ") && inner.ends_with(" s, plan 7, rounds: "));
        assert!(!place(Channel::Fusion).contains("plan"));
        assert!(next_plan() < next_plan());
    }
}
