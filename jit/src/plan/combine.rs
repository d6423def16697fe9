//! Combined launches: which steps share one hand-off to the threads.
//!
//! The kernels of a list of tensors (an optimiser's step, say) are already one text; what remains is a hand-off to the
//! pool for each, or, where a tensor is small, one thread's work while the others wait. Consecutive kernels that
//! depend on none of each other become one launch, whose tasks cover all of them (scheduler C-05, codegen A10.4). Each
//! keeps its own chunks and arguments, so nothing is compiled for it and results keep their bits.

use super::Step;
use crate::body::Source;
use crate::emit::{Emitted, Pointer};
use crate::lower::{Limits, Pieces};
use rustc_hash::FxHashSet;
use std::ops::Range;

/// How the steps of a plan are launched.
#[derive(Clone, Debug, Default)]
pub struct Launches {
    /// All steps in order: a lone step, or several kernels that are launched at once.
    pub groups: Vec<Range<usize>>,
    /// By step, what a kernel costs, about, in bytes moved; 0 for a call.
    pub work: Vec<u64>,
    /// Most bytes that a combined launch may keep which its members, one by one, would have released by then.
    pub held: usize,
}

/// What the kernels of a group under construction touch; a part of a buffer stands for all of it.
struct Touched<'a> {
    pieces: &'a Pieces,
    members: usize,
    read: FxHashSet<Source>,
    written: FxHashSet<Source>,
}

impl Touched<'_> {
    fn new(pieces: &Pieces) -> Touched<'_> {
        Touched {
            pieces,
            members: 0,
            read: FxHashSet::default(),
            written: FxHashSet::default(),
        }
    }

    /// The buffer that a value lies in.
    fn whole(&self, source: Source) -> Source {
        match source {
            Source::Node(node) => {
                let piece = self.pieces.get(&node);
                piece.map_or(source, |piece| Source::Node(piece.whole))
            }
            Source::Input(_) => source,
        }
    }

    /// Whether a kernel, after which `frees` are released, is independent of all members: it reads nothing that one
    /// writes, and what it may be written over is read by none.
    fn admits(&self, kernel: &Emitted, frees: &[Source]) -> bool {
        let dies =
            |source: &Source| frees.contains(source) && self.read.contains(&self.whole(*source));
        !reads(kernel).any(|source| self.written.contains(&self.whole(source)))
            && !kernel.in_place.iter().any(|(_, source)| dies(source))
    }

    fn add(&mut self, kernel: &Emitted) {
        self.members += 1;
        for pointer in &kernel.pointers {
            match *pointer {
                Pointer::Read(source) => self.read.insert(self.whole(source)),
                Pointer::Write(node) => self.written.insert(self.whole(Source::Node(node))),
            };
        }
    }
}

fn reads(kernel: &Emitted) -> impl Iterator<Item = Source> {
    kernel.pointers.iter().filter_map(|p| match *p {
        Pointer::Read(source) => Some(source),
        Pointer::Write(_) => None,
    })
}

impl Launches {
    /// Groups of consecutive kernels that are independent of each other (scheduler C-06, C-07, C-17); with
    /// `combined_members` 1 every step is alone.
    pub(super) fn of(
        steps: &[Step],
        frees: &[Vec<Source>],
        pieces: &Pieces,
        limits: &Limits,
    ) -> Launches {
        let work: Vec<u64> = steps.iter().map(work).collect();
        let mut groups: Vec<Range<usize>> = Vec::new();
        // None after a step that nothing may join.
        let mut open: Option<Touched<'_>> = None;
        for (i, step) in steps.iter().enumerate() {
            let kernel = match step {
                // What a kernel updates is there before all of them are launched.
                Step::Launch(kernel)
                    if work[i] <= limits.combined_work && kernel.updates.is_empty() =>
                {
                    kernel
                }
                _ => {
                    groups.push(i..i + 1);
                    open = None;
                    continue;
                }
            };
            let joins = |group: &Touched<'_>| {
                group.members < limits.combined_members && group.admits(kernel, &frees[i])
            };
            match (groups.last_mut(), &mut open) {
                (Some(group), Some(touched)) if joins(touched) => {
                    group.end = i + 1;
                    touched.add(kernel);
                }
                _ => {
                    groups.push(i..i + 1);
                    open.insert(Touched::new(pieces)).add(kernel);
                }
            }
        }
        let worth = |group: &Range<usize>| {
            let total: u64 = work[group.clone()].iter().sum();
            total >= limits.combined_least.saturating_mul(group.len() as u64)
        };
        let groups = groups.into_iter().flat_map(|group| {
            let step = if worth(&group) { group.len() } else { 1 };
            group.clone().step_by(step).map(move |i| i..i + step)
        });
        Launches {
            groups: groups.collect(),
            work,
            held: limits.combined_held,
        }
    }
}

/// What a kernel costs, about, in bytes moved: an operation on a lane takes about as long as moving a byte.
fn work(step: &Step) -> u64 {
    let Step::Launch(kernel) = step else { return 0 };
    let node = &kernel.node;
    let lanes: usize = node.iter.iter().chain(&node.red).product();
    let lane = node.body.values().len().max(4);
    (lanes * lane) as u64
}
