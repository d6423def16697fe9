//! What the argument of a call consists of.

use super::replay::Arrays;
use crate::Tensor;
use crate::flush::flush_tensors;
use crate::structs::{ArgValue, JitArg, Kept, Visit};
use crate::trace;
use smallvec::SmallVec;

/// What came of looking at an argument.
pub(super) enum Filled {
    /// All its tensors have data.
    Data,
    /// One carries an error.
    Failed,
    /// One was computed from an argument of a function that another thread is recording.
    Traced(Tensor),
}

/// The leaves and values of an argument. A tensor that the argument holds in several places is one leaf.
#[derive(Default)]
pub(super) struct Parts {
    pub values: SmallVec<[ArgValue; 6]>,
    /// Which leaves are given away.
    pub given: SmallVec<[bool; 6]>,
    /// The leaves' data.
    pub arrays: Arrays,
    pub places: Places,
}

/// Which leaf is in which place of an argument.
#[derive(Default)]
pub(super) struct Places {
    /// The leaf in each place; empty where each leaf has one place.
    leaf_of: Vec<u32>,
    /// How many references to owned structs there are.
    borrows: usize,
}

impl Parts {
    /// Adds the tensors of `argument`; pending ones are flushed.
    pub fn fill<A: JitArg>(&mut self, argument: &A) -> Filled {
        let mut visit = Visit::of(argument);
        let mut tensors = visit.tensors.iter().map(|found| &*found.tensor);
        if let Some(traced) = tensors.find(|tensor| trace::is_traced(tensor.node())) {
            return Filled::Traced(traced.clone());
        }
        flush_tensors(visit.tensors.iter().map(|found| &*found.tensor));
        let ties = visit.ties();
        for (place, found) in visit.tensors.iter().enumerate() {
            let leaf = self.arrays.len() as u32;
            if let Some(firsts) = &ties {
                let first = firsts[place] as usize;
                let leaf = if first == place {
                    leaf
                } else {
                    self.places.leaf_of[first]
                };
                self.places.leaf_of.push(leaf);
                if first != place {
                    self.given[leaf as usize] &= found.given;
                    continue;
                }
            }
            let Some(array) = found.tensor.node().array() else {
                return Filled::Failed;
            };
            self.arrays.push(array);
            self.given.push(found.given);
        }
        if let Some(firsts) = &ties {
            visit.note_ties(firsts);
        }
        visit.note_required();
        self.places.borrows = visit.borrows;
        self.values = visit.values;
        Filled::Data
    }
}

impl Places {
    /// A tensor for each place, of one for each leaf.
    pub fn spread(&self, leaves: Vec<Tensor>) -> Vec<Tensor> {
        if self.leaf_of.is_empty() {
            return leaves;
        }
        let leaf = |&leaf: &u32| leaves[leaf as usize].clone();
        self.leaf_of.iter().map(leaf).collect()
    }

    /// The first place of a leaf.
    pub fn first(&self, leaf: usize) -> usize {
        let place = self
            .leaf_of
            .iter()
            .position(|&other| other as usize == leaf);
        place.unwrap_or(leaf)
    }

    /// Places for the structs that the argument refers to.
    pub fn for_borrows(&self) -> Vec<Kept> {
        (0..self.borrows).map(|_| Kept::new()).collect()
    }
}
