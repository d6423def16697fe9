//! A record of the graphs that run, for which bundles compile kernels ahead.

use super::Plan;
use crate::draft::Draft;
use crate::graph::Graph;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;

thread_local! {
    /// The recorded graphs of the plans that ran, by the plans' numbers.
    /// `None` outside of [`noting`]. It is never dropped, so that plans can run while their thread ends.
    static NOTED: ManuallyDrop<RefCell<Option<BTreeMap<u64, Graph>>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Runs `f` and gives the recorded graphs of all plans that ran on this thread meanwhile, each once, in the order of the
/// plans' making. Calls do not nest: an inner one takes what it notes from the outer one.
pub fn noting<R>(f: impl FnOnce() -> R) -> (R, Vec<Graph>) {
    struct Restore(Option<BTreeMap<u64, Graph>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            let before = self.0.take();
            NOTED.with(|noted| *noted.borrow_mut() = before);
        }
    }
    let restore = Restore(NOTED.with(|noted| noted.replace(Some(BTreeMap::new()))));
    let result = f();
    let noted = NOTED.with(|noted| noted.take()).unwrap_or_default();
    drop(restore);
    (result, noted.into_values().collect())
}

/// Whether this thread is within [`noting`].
pub fn is_noting() -> bool {
    NOTED.with(|noted| noted.borrow().is_some())
}

impl Plan {
    /// Records the graph of a plan that runs, within [`noting`].
    #[inline]
    pub(super) fn note(&self) {
        NOTED.with(|noted| {
            if let Some(noted) = &mut *noted.borrow_mut() {
                let Draft { number, .. } = self.draft;
                noted
                    .entry(number)
                    .or_insert_with(|| self.draft.recorded.clone());
            }
        });
    }
}
