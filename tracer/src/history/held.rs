//! Which histories a gradient can still go through.
//!
//! A gradient goes from a loss to tensors that the program holds. A history is of use while a tensor of it is held, or one
//! that it was computed from. References go from results to operands, and keep what a held result was computed from; the
//! links here go from operands to results, and release what no gradient can be asked through. So a loop that computes its
//! parameters from gradients, `w = &w - &grad(&loss, &[&w])[0] * 0.1`, keeps the history of one step, not of all.

use super::{History, Operation, Past, release};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// A history that a tensor holds: gradients by that tensor can be asked.
#[derive(Debug)]
pub(crate) struct Held(Arc<History>);

impl Held {
    pub fn new(history: Arc<History>) -> Held {
        history.links.held.fetch_add(1, Ordering::Relaxed);
        Held(history)
    }
}

impl Deref for Held {
    type Target = Arc<History>;

    fn deref(&self) -> &Arc<History> {
        &self.0
    }
}

impl Clone for Held {
    fn clone(&self) -> Held {
        Held::new(self.0.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.0.links.held.fetch_sub(1, Ordering::AcqRel) == 1 {
            lose(self.0.links.abandoned());
        }
    }
}

type Results = SmallVec<[Weak<History>; 2]>;

/// What decides whether a history is of use.
#[derive(Debug)]
pub(super) struct Links {
    /// The tensors that hold it.
    held: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The operands whose histories are of use.
    operands: usize,
    /// The histories computed from this one, while it is of use. Some may be gone.
    results: Results,
}

impl Links {
    /// Of a history that no tensor holds yet, with so many operands of use.
    pub fn new(operands: usize) -> Links {
        let results = Results::new();
        Links {
            held: AtomicUsize::new(0),
            state: Mutex::new(State { operands, results }),
        }
    }

    /// Links a result, if this history is of use.
    pub fn link(&self, result: &Arc<History>) -> bool {
        let mut state = self.state.lock();
        if state.operands == 0 && self.held.load(Ordering::Acquire) == 0 {
            return false;
        }
        let results = &mut state.results;
        if results.len() == results.capacity() {
            results.retain(|result| result.strong_count() > 0);
            if results.len() > results.capacity() / 2 {
                results.reserve(results.capacity());
            }
        }
        results.push(Arc::downgrade(result));
        true
    }

    /// The results that this history was of use to, if it no longer is.
    fn abandoned(&self) -> Results {
        let mut state = self.state.lock();
        match state.operands == 0 && self.held.load(Ordering::Acquire) == 0 {
            true => std::mem::take(&mut state.results),
            false => Results::new(),
        }
    }

    /// Notes that an operand is of no use any more; whether it was the last.
    pub fn lose_operand(&self) -> bool {
        let mut state = self.state.lock();
        state.operands -= 1;
        state.operands == 0
    }
}

/// Notes that an operand of these histories is of no use any more, and so on to theirs.
fn lose(mut results: Results) {
    while let Some(result) = results.pop() {
        if let Some(result) = result.upgrade()
            && result.links.lose_operand()
        {
            result.release();
            results.extend(result.links.abandoned());
        }
    }
}

/// Most operations that wait for a flush of their thread, which another thread may do instead.
const POSTPONED: usize = 1 << 12;

thread_local! {
    /// Operations of histories that are of no use, whose values are not computed yet. The flush that computes these stores
    /// what operations to come share with them, as it would if the history were kept.
    static WAITING: RefCell<Vec<Arc<Operation>>> = const { RefCell::new(Vec::new()) };
}

/// Releases what waited for a flush of this thread.
pub(crate) fn release_postponed() {
    let waiting = WAITING.try_with(|waiting| waiting.take());
    waiting.into_iter().flatten().for_each(release);
}

/// Releases an operation behind the next flush of this thread.
fn postpone(operation: Arc<Operation>) {
    let push = |waiting: &RefCell<Vec<Arc<Operation>>>| {
        let mut waiting = waiting.borrow_mut();
        waiting.push(operation);
        waiting.len()
    };
    if WAITING.try_with(push).is_ok_and(|count| count >= POSTPONED) {
        release_postponed();
    }
}

impl History {
    /// Releases what an operation keeps, if no gradient can be asked through it.
    pub(super) fn release(&self) {
        match self.replace_operation(Past::Released) {
            Some(operation) if operation.is_pending() => postpone(operation),
            Some(operation) => release(operation),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;
    use crate::with_mode;

    fn waiting() -> usize {
        WAITING.with(|waiting| waiting.borrow().len())
    }

    #[test]
    fn what_waits_goes_with_the_next_flush_or_when_there_is_much() {
        with_mode(Mode::Compiled, || {
            let x = Tensor::ones(2, DType::F32, &Device::cpu());
            // The rule of exp reads its result, which nothing computes.
            let dropped = || {
                let leaf = x.requires_grad();
                let result = leaf.exp();
                drop(leaf);
                drop(result);
            };
            dropped();
            assert_eq!(waiting(), 1);
            (&x + 1.0).eval().unwrap();
            assert_eq!(waiting(), 0);
            for _ in 0..2 * POSTPONED + 10 {
                dropped();
                assert!(waiting() < POSTPONED);
            }
            assert_eq!(waiting(), 10);
        });
    }
}
