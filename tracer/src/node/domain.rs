//! Domains: what can be collected at the same time.
//!
//! A pending node is of its pending operands' domain, or, where it has none, of that of the thread which records it. So
//! all that is pending below a node is of its domain, and collections of two domains meet no pending node both: each
//! domain has a lock of its own. A node whose pending operands are of several domains is of all, and so is what depends
//! on it: collecting it takes every lock.
//!
//! Data is of the domain in which it was made, and read by all.

use ferrotrace_runtime::{Apart, STRIPES, stripe};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

/// A set of pending nodes that are collected one collection at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Domain(u8);

const _: () = assert!(STRIPES < u8::MAX as usize);

/// The number of the last collection in each domain.
static EPOCHS: [Apart<Mutex<u64>>; STRIPES] = [const { Apart(Mutex::new(0)) }; STRIPES];

/// A collection's hold of its domain.
pub(crate) struct Hold {
    domain: Domain,
    /// A number that no other collection gave the nodes of the domain.
    pub epoch: u64,
    _locks: SmallVec<[MutexGuard<'static, u64>; 1]>,
}

impl Domain {
    /// The domain of nodes that depend on several: collecting one takes every lock.
    const ALL: Domain = Domain(u8::MAX);

    /// The domain of what this thread records from stored data alone.
    #[inline]
    pub fn own() -> Domain {
        Domain(stripe() as u8)
    }

    /// The domain of a node with pending operands of both.
    #[inline]
    pub fn with(self, other: Domain) -> Domain {
        if self == other { self } else { Domain::ALL }
    }

    /// Its place among `STRIPES + 1` domains, of which the last depends on several.
    #[inline]
    pub fn index(self) -> usize {
        (self.0 as usize).min(STRIPES)
    }

    /// Begins a collection. Its thread holds no other.
    pub fn hold(self) -> Hold {
        let epochs = match EPOCHS.get(self.0 as usize) {
            Some(own) => std::slice::from_ref(own),
            // Every thread takes the locks in this order, so that none waits for another in a circle.
            None => &EPOCHS[..],
        };
        let mut locks: SmallVec<[MutexGuard<'static, u64>; 1]> = SmallVec::new();
        locks.extend(epochs.iter().map(|epoch| epoch.lock()));
        let epoch = 1 + locks.iter().map(|epoch| **epoch).max().unwrap_or(0);
        locks.iter_mut().for_each(|last| **last = epoch);
        Hold {
            domain: self,
            epoch,
            _locks: locks,
        }
    }
}

impl Hold {
    /// Whether nodes of a domain are this collection's alone.
    #[inline]
    pub fn covers(&self, domain: Domain) -> bool {
        self.domain == domain || self.domain == Domain::ALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_collection_that_meets_a_node_has_a_number_of_its_own() {
        let (one, other) = (Domain(60), Domain(61));
        assert_eq!((one.with(one), one.with(other)), (one, Domain::ALL));
        let first = one.hold().epoch;
        let all = one.with(other).hold().epoch;
        assert!(all > first && one.hold().epoch > all && other.hold().epoch > all);
    }

    #[test]
    fn domains_are_held_apart_and_all_together() {
        let (one, other) = (Domain(62), Domain(63));
        let held = one.hold();
        // Would wait for ever if the two shared a lock.
        let beside = other.hold();
        assert!(held.covers(one) && !held.covers(other) && !held.covers(Domain::ALL));
        drop((held, beside));
        let all = Domain::ALL.hold();
        assert!(all.covers(one) && all.covers(Domain::ALL));
    }
}
