//! Combined launches: which steps share one hand-off to the threads.
//!
//! The kernels of a list of tensors (an optimiser's step, say) are already one text; what remains is a hand-off to the
//! pool for each, or, where a tensor is small, one thread's work while the others wait. Consecutive kernels that
//! depend on none of each other become one launch, whose tasks cover all of them (scheduler C-05, codegen A10.4). Each
//! keeps its own chunks and arguments, so nothing is compiled for it and results keep their bits.
//!
//! Kernels that go through one large tensor in the order of their chunks, such as sums over its rows and over its columns,
//! do so **abreast**: a task is a slice of the tensor, on which each runs in turn, so that the first reads it from memory
//! and the others from the cache (scheduler X2-01 to X2-08, R-19). Each keeps its own direction, form and partial results;
//! nothing is fused, so nothing is asked of the kernels but the order in which they read.
//!
//! On a CUDA device only kernels of one text share a launch, whatever their sizes: their arguments travel in a table.

use super::Step;
use crate::body::Source;
use crate::emit::{Emitted, Pointer, cuda};
use crate::estimate::of_call;
use crate::graph::Graph;
use crate::lower::Pieces;
use crate::policy::{Policy, Thresholds};
use crate::schedule::FusedNode;
use ferrotrace_kernels::Op;
use ferrotrace_runtime::KernelSource;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// How the steps of a plan are launched.
#[derive(Clone, Debug, Default)]
pub struct Launches {
    /// All steps in order: a lone step, or several kernels that are launched at once.
    pub groups: Vec<Range<usize>>,
    /// By group, into how many slices its kernels are cut that run abreast; 0, and none at the end: they do not.
    pub slices: Vec<usize>,
    /// By step, what a kernel costs, about, in bytes moved; 0 for a call.
    pub work: Vec<u64>,
    /// By step, whether its launch is so little work that one thread does it; empty where no step is.
    pub solo: Vec<bool>,
    /// Most bytes that a combined launch may keep which its members, one by one, would have released by then.
    pub held: usize,
}

/// Which kernels may share a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    /// Most kernels; 1 launches each alone.
    members: usize,
    /// Kernels of less work each, on average, share none, unless there are `many`.
    least: u64,
    many: usize,
    /// A kernel of more work is launched alone.
    work: u64,
    /// Most bytes kept longer than alone.
    held: usize,
}

impl Sharing {
    /// By a policy; none is shared where that is switched off.
    pub(super) fn of(policy: &Policy, combine: bool) -> Sharing {
        let thresholds = &policy.thresholds;
        let sharing = match policy.target.spreads_launches {
            true => Sharing {
                members: thresholds.combined_members,
                least: thresholds.combined_least,
                many: thresholds.combined_many,
                work: thresholds.combined_work,
                held: thresholds.combined_held,
            },
            // Every launch costs the same, and each fills the device as it can.
            false => Sharing {
                members: thresholds
                    .combined_members
                    .saturating_mul(thresholds.table_members),
                least: 0,
                many: 0,
                work: u64::MAX,
                held: thresholds.combined_held.max(thresholds.table_held),
            },
        };
        match combine {
            true => sharing,
            false => Sharing {
                members: 1,
                ..sharing
            },
        }
    }
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
    /// Into how many slices the kernels of a group are cut, 0 if they do not run abreast.
    pub(crate) fn slices_of(&self, group: usize) -> usize {
        self.slices.get(group).copied().unwrap_or(0)
    }

    /// Groups of consecutive kernels that are independent of each other (scheduler C-06, C-07, C-17); with
    /// one member at most every step is alone.
    pub(super) fn of(
        steps: &[Step],
        frees: &[Vec<Source>],
        pieces: &Pieces,
        sharing: &Sharing,
        thresholds: &Thresholds,
    ) -> Launches {
        let work: Vec<u64> = steps.iter().map(work).collect();
        let passes = passes(steps, frees, pieces, (sharing, thresholds));
        let mut groups: Vec<Range<usize>> = Vec::new();
        // None after a step that nothing may join.
        let mut open: Option<Touched<'_>> = None;
        for (i, step) in steps.iter().enumerate() {
            if let Some((pass, _)) = passes.iter().find(|(pass, _)| pass.contains(&i)) {
                if pass.start == i {
                    groups.push(pass.clone());
                }
                open = None;
                continue;
            }
            let kernel = match step {
                // What a kernel updates is there before all of them are launched.
                Step::Launch(kernel) if work[i] <= sharing.work && kernel.updates.is_empty() => {
                    kernel
                }
                _ => {
                    groups.push(i..i + 1);
                    open = None;
                    continue;
                }
            };
            let joins = |group: &Touched<'_>| {
                group.members < sharing.members && group.admits(kernel, &frees[i])
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
            group.len() >= sharing.many || total >= sharing.least.saturating_mul(group.len() as u64)
        };
        let slices_of = |group: &Range<usize>| {
            let pass = passes.iter().find(|(pass, _)| pass == group);
            pass.map_or(0, |(_, slices)| *slices)
        };
        let groups = groups.into_iter().flat_map(|group| {
            let whole = slices_of(&group) > 0 || worth(&group);
            let step = if whole { group.len() } else { 1 };
            group.clone().step_by(step).map(move |i| i..i + step)
        });
        let groups: Vec<Range<usize>> = groups.collect();
        Launches {
            slices: groups.iter().map(slices_of).collect(),
            groups,
            work,
            solo: Vec::new(),
            held: sharing.held,
        }
    }

    /// Whether one thread does a step.
    pub(crate) fn is_solo(&self, step: usize) -> bool {
        self.solo.get(step).copied().unwrap_or(false)
    }

    /// Has one thread do each launch or call of less work than `solo_work`: other threads would take longer to fetch
    /// their part of the operands from this thread's cache than they save.
    pub(super) fn leave_small_steps_to_one_thread(
        &mut self,
        graph: &Graph,
        steps: &[Step],
        thresholds: &Thresholds,
    ) {
        let call = |step: &Step| {
            let Some(call) = step.call() else { return 0 };
            let operations = of_call(graph, call);
            match graph.node(call.node).is(Op::is_product) {
                true => operations / thresholds.solo_product,
                false => operations.saturating_mul(thresholds.solo_element),
            }
        };
        let before = |step: &Step| {
            step.before()
                .map_or(0, |before| of_node(&before.kernel.node))
        };
        let kernel = |step: &Step| step.kernel().map_or(0, |kernel| of_node(&kernel.node));
        let total = |step: &Step| {
            kernel(step)
                .saturating_add(before(step))
                .saturating_add(call(step))
        };
        let solo = self.groups.iter().flat_map(|group| {
            let members = steps[group.clone()].iter();
            let all = members.map(total).fold(0, u64::saturating_add);
            std::iter::repeat_n(all < thresholds.solo_work, group.len())
        });
        self.solo = solo.collect();
    }
}

/// Runs of consecutive independent kernels that go through one large tensor, and into how many slices they are cut.
fn passes(
    steps: &[Step],
    frees: &[Vec<Source>],
    pieces: &Pieces,
    (sharing, thresholds): (&Sharing, &Thresholds),
) -> Vec<(Range<usize>, usize)> {
    let mut found = Vec::new();
    let walks = |i: usize| -> Vec<(Source, usize)> {
        match &steps[i] {
            Step::Launch(kernel) if kernel.updates.is_empty() => {
                let large = |walk: &&(Source, usize)| walk.1 >= thresholds.abreast_bytes;
                kernel.walks.iter().filter(large).copied().collect()
            }
            _ => Vec::new(),
        }
    };
    let mut at = 0;
    while at < steps.len() {
        let (start, mut common) = (at, walks(at));
        let mut touched = Touched::new(pieces);
        while let Some(Step::Launch(kernel)) = steps.get(at) {
            let mut shared = walks(at);
            shared.retain(|walk| common.contains(walk));
            let joins = touched.members < sharing.members
                && !shared.is_empty()
                && touched.admits(kernel, &frees[at]);
            if !joins {
                break;
            }
            common = shared;
            touched.add(kernel);
            at += 1;
        }
        if at > start + 1 {
            let chunks = steps[start..at].iter().filter_map(|step| match step {
                Step::Launch(kernel) => Some(kernel.chunks),
                _ => None,
            });
            let bytes = common.iter().map(|walk| walk.1).max().unwrap_or(0);
            let slices = chunks
                .min()
                .unwrap_or(1)
                .min(bytes / thresholds.abreast_slice.max(1));
            if slices > 1 {
                found.push((start..at, slices));
            }
        }
        at = at.max(start + 1);
    }
    found
}

impl Launches {
    /// Makes the kernels of one text in a group kernels that take a table of at most `most` bytes; groups end where
    /// there is none left (scheduler C-14).
    pub(super) fn take_tables(&mut self, steps: &mut [Step], most: usize) {
        let mut groups = Vec::with_capacity(self.groups.len());
        for group in std::mem::take(&mut self.groups) {
            let mut classes: FxHashMap<&KernelSource, Vec<usize>> = FxHashMap::default();
            for i in group.clone().filter(|_| group.len() > 1) {
                if let Step::Launch(kernel) = &steps[i] {
                    classes.entry(&kernel.source).or_default().push(i);
                }
            }
            let mut tables = Vec::new();
            for class in classes.into_values().filter(|class| class.len() > 1) {
                let Step::Launch(kernel) = &steps[class[0]] else {
                    continue;
                };
                if let Some(table) = cuda::table(kernel, class.len(), most) {
                    tables.push((class, table));
                }
            }
            let all = || tables.iter().flat_map(|(class, _)| class.iter().copied());
            let together = match (all().min(), all().max()) {
                (Some(first), Some(last)) => first..last + 1,
                _ => group.end..group.end,
            };
            groups.extend((group.start..together.start).map(|i| i..i + 1));
            if !together.is_empty() {
                groups.push(together.clone());
            }
            groups.extend((together.end..group.end).map(|i| i..i + 1));
            for (class, (source, members)) in tables {
                for i in class {
                    if let Step::Launch(kernel) = &mut steps[i] {
                        kernel.source = source.clone();
                        kernel.grid.table = u32::try_from(members).unwrap_or(u32::MAX);
                    }
                }
            }
        }
        self.groups = groups;
    }
}

/// What a kernel costs, about, in bytes moved: an operation on a lane takes about as long as moving a byte.
pub(super) fn work(step: &Step) -> u64 {
    match step {
        Step::Launch(kernel) => of_node(&kernel.node),
        _ => 0,
    }
}

fn of_node(node: &FusedNode) -> u64 {
    let lanes: usize = node.iter.iter().chain(&node.red).product();
    let lane = node.body.values().len().max(4);
    (lanes * lane) as u64
}
