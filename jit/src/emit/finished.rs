//! What transforms and printing made of kernels that were built before.
//!
//! A kernel as it is built holds no size: sizes are values of its arguments. Programs whose sizes change build the same
//! kernels for every plan, and to transform and print one takes most of the time that its plan takes. A kernel that is
//! built a second time is kept with its text; equal ones are found by hash and compared in full.

use crate::kernel::ir::{Function, Kernel, ValueType};
use ferrotrace_runtime::Part;
use lru::LruCache;
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};

/// Kernels that are remembered; the least recently used go first.
const CAPACITY: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");

/// A kernel as it was built, and all that transforms are told of it beside the values of its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Built {
    pub kernel: Kernel,
    /// Functions that are not inlined.
    pub outlined: FxHashMap<Function, Vec<ValueType>>,
    /// Arguments whose values the run sets.
    pub set_later: Vec<usize>,
    /// What a loop in the place of repeated statements must save, if it may be made.
    pub rerolled: Option<usize>,
}

/// A kernel's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub body: Arc<str>,
    pub parts: Vec<Part>,
}

/// What is known of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Nothing: it was not built before.
    New,
    /// That it was built before, under this hash.
    Again(u64),
    /// What was kept.
    Text(Arc<(Built, Text)>),
}

/// Kernels by hash; those that were built once have no text yet.
struct Kernels(LruCache<u64, Option<Arc<(Built, Text)>>>);

static KERNELS: LazyLock<Mutex<Kernels>> =
    LazyLock::new(|| Mutex::new(Kernels(LruCache::new(CAPACITY))));

impl Kernels {
    /// Looks a kernel up, and notes that it was built. Threads that plan at the same time hash and compare at the same time.
    fn known(kernels: &Mutex<Kernels>, built: &Built) -> Known {
        let mut state = FxHasher::default();
        (&built.kernel, &built.set_later, built.rerolled).hash(&mut state);
        let hash = state.finish();
        let mut all = kernels.lock();
        let found = all.0.get(&hash).cloned();
        if found.is_none() {
            all.0.put(hash, None);
        }
        drop(all);
        match found {
            None => Known::New,
            Some(Some(kept)) if kept.0 == *built => Known::Text(kept),
            Some(_) => Known::Again(hash),
        }
    }

    fn keep(kernels: &Mutex<Kernels>, hash: u64, built: Built, text: Text) {
        let kept = Some(Arc::new((built, text)));
        // What it takes the place of is dropped after the lock.
        let _old = kernels.lock().0.put(hash, kept);
    }
}

/// Looks a kernel up, and notes that it was built.
pub(super) fn known(built: &Built) -> Known {
    Kernels::known(&KERNELS, built)
}

/// Keeps the text of a kernel that was built again. No value of an argument may have a part in it.
pub(super) fn keep(hash: u64, built: Built, text: Text) {
    Kernels::keep(&KERNELS, hash, built, text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(lanes: u16, set_later: &[usize], rerolled: Option<usize>) -> Built {
        Built {
            kernel: Kernel {
                lanes,
                ..Kernel::default()
            },
            outlined: FxHashMap::default(),
            set_later: set_later.to_vec(),
            rerolled,
        }
    }

    fn text(body: &str) -> Text {
        Text {
            body: body.into(),
            parts: Vec::new(),
        }
    }

    #[test]
    fn a_kernel_is_kept_when_it_is_built_again() {
        let kernels = Mutex::new(Kernels(LruCache::new(CAPACITY)));
        let kernel = || built(8, &[1], Some(1000));
        assert_eq!(Kernels::known(&kernels, &kernel()), Known::New);
        let Known::Again(hash) = Kernels::known(&kernels, &kernel()) else {
            panic!("a kernel that was built before");
        };
        Kernels::keep(&kernels, hash, kernel(), text("a"));
        let Known::Text(kept) = Kernels::known(&kernels, &kernel()) else {
            panic!("a kernel that was kept");
        };
        assert_eq!(kept.1, text("a"));
    }

    #[test]
    fn what_transforms_are_told_is_part_of_a_kernel() {
        let kernels = Mutex::new(Kernels(LruCache::new(CAPACITY)));
        let mut outlined = built(8, &[1], Some(1000));
        outlined.outlined.insert(Function::Fence(8), Vec::new());
        let all = [
            built(8, &[1], Some(1000)),
            built(16, &[1], Some(1000)),
            built(8, &[2], Some(1000)),
            built(8, &[1], None),
        ];
        for (at, kernel) in all.iter().enumerate() {
            assert_eq!(Kernels::known(&kernels, kernel), Known::New);
            let Known::Again(hash) = Kernels::known(&kernels, kernel) else {
                panic!("a kernel that was built before");
            };
            Kernels::keep(&kernels, hash, kernel.clone(), text(&at.to_string()));
        }
        for (at, kernel) in all.iter().enumerate() {
            let Known::Text(kept) = Kernels::known(&kernels, kernel) else {
                panic!("a kernel that was kept");
            };
            assert_eq!(kept.1, text(&at.to_string()));
        }
        // Its hash is that of another.
        assert!(matches!(
            Kernels::known(&kernels, &outlined),
            Known::Again(_)
        ));
    }
}
