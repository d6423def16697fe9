//! What a process prints on standard error about its decisions, on named channels that are switched on one by one
//! (scheduler V-04: logs have channels; codegen B14.7: lines carry times and numbers).

use crate::{Channel, Config};
use once_cell::sync::Lazy;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Whether a channel is switched on in this process.
pub fn is_logged(channel: Channel) -> bool {
    Config::get().log.has(channel)
}

/// Prints a text on a channel, if the channel is switched on. Its first line begins with the time, the plan's number
/// and the channel's name.
pub fn log(channel: Channel, text: impl FnOnce() -> String) {
    if is_logged(channel) {
        eprintln!("{}{}", place(channel), text().trim_end());
    }
}

/// What a line begins with, such as `ferrotrace: 1.204 s, plan 3, fusion: `.
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

/// Runs `f`; lines that this thread logs meanwhile carry that plan's number.
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
