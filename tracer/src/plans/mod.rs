//! The plans of traces met before, by form.
//!
//! One table of the process has them all, behind a lock. Threads that flush at the same time seldom come there: each
//! stripe of threads has a front, with the entries that it used last, and counts their users apart.

mod times;

mod lines;
mod positions;
mod stages;
mod tiered;

pub(crate) use positions::stages as stages_of;

use crate::backend::{Graph, Plan, PlanInput, run_each};
use crate::form::{Form, Line, Lines};
use crate::mode::Mode;
use crate::tuning::{self, Example};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{Config, Counter, Result, Scalar, Striped, count, stats_scope};
use lines::Decision;
pub(crate) use lines::{LITTLE, RecordedBy};
use lru::LruCache;
use once_cell::sync::{Lazy, OnceCell};
use parking_lot::Mutex;
use smallvec::SmallVec;
use stages::Stages;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Forms kept, and operations in them all together: a plan takes about 10 KB and 1 KB for each operation. The least
/// recently used go first.
const MOST_FORMS: usize = 4096;
const MOST_OPERATIONS: usize = 1 << 17;

/// Plans made for a family: forms that differ in positions alone, or that the same lines record.
const MOST: u32 = 8;

/// Families that are remembered; the least recently used go first.
const FAMILIES: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// A form, and its plan once it is compiled.
#[derive(Debug)]
pub(crate) struct PlanEntry {
    pub form: Arc<Form>,
    plan: OnceCell<Arc<Plan>>,
    /// Runs without a plan.
    runs: AtomicU32,
    /// What it is among other forms, once it was to have a plan.
    member: OnceCell<Box<lines::Member>>,
}

/// An entry as the threads of one stripe hold it: counting them touches no line that others count on.
#[derive(Debug)]
pub(crate) struct OwnEntry(Arc<PlanEntry>);

impl Deref for OwnEntry {
    type Target = PlanEntry;
    fn deref(&self) -> &PlanEntry {
        &self.0
    }
}

impl OwnEntry {
    /// The entry for another holder, whose threads count their uses apart from this one's.
    pub fn again(&self) -> Arc<OwnEntry> {
        Arc::new(OwnEntry(self.0.clone()))
    }
}

/// Forms by their hash, and how many of them and of their operations are kept.
struct Cache<E> {
    entries: LruCache<u64, SmallVec<[E; 1]>>,
    forms: usize,
    operations: usize,
    /// The part of [`MOST_FORMS`] and [`MOST_OPERATIONS`] that it keeps at most.
    part: usize,
}

static PLANS: Lazy<Mutex<Cache<Arc<PlanEntry>>>> = Lazy::new(|| Mutex::new(Cache::new(1)));

/// What one stripe of threads used last: a sixteenth of what the table has.
struct Front(Mutex<Cache<Arc<OwnEntry>>>);

impl Default for Front {
    fn default() -> Front {
        Front(Mutex::new(Cache::new(16)))
    }
}

static FRONTS: Striped<Front> = Striped::new();

trait Entry {
    fn form(&self) -> &Form;
}

impl Entry for Arc<PlanEntry> {
    fn form(&self) -> &Form {
        &self.form
    }
}

impl Entry for Arc<OwnEntry> {
    fn form(&self) -> &Form {
        &self.form
    }
}

impl<E: Entry> Cache<E> {
    fn new(part: usize) -> Cache<E> {
        Cache {
            entries: LruCache::unbounded(),
            forms: 0,
            operations: 0,
            part,
        }
    }

    /// Keeps an entry; what is dropped for it.
    fn insert(&mut self, hash: u64, entry: E) -> Vec<E> {
        self.forms += 1;
        self.operations += entry.form().nodes.len();
        self.entries
            .get_or_insert_mut(hash, SmallVec::new)
            .push(entry);
        let mut dropped = Vec::new();
        while self.forms > MOST_FORMS / self.part || self.operations > MOST_OPERATIONS / self.part {
            // The newest stays, however long it is.
            if self.entries.len() == 1 {
                break;
            }
            let Some((_, oldest)) = self.entries.pop_lru() else {
                break;
            };
            self.forms -= oldest.len();
            for entry in &oldest {
                self.operations -= entry.form().nodes.len();
            }
            dropped.extend(oldest);
        }
        dropped
    }
}

/// Forgets every plan. Those that tensors or `jit` functions hold live on with them.
pub fn clear_plans() {
    let forgotten = std::mem::replace(&mut *PLANS.lock(), Cache::new(1));
    drop(forgotten);
    for Front(front) in FRONTS.iter() {
        let forgotten = std::mem::replace(&mut *front.lock(), Cache::new(16));
        drop(forgotten);
    }
}

/// How a collection is run.
#[derive(Debug)]
pub(crate) enum Planned {
    /// By a compiled plan.
    Plan(Arc<OwnEntry>),
    /// On ready-made kernels, while it compiles in the background.
    Eagerly(Unplanned),
    /// Operator by operator, which has nothing to gain from a plan; with how each node was recorded.
    OneByOne(Arc<Form>, Lines),
    /// In stages, each by a plan of its own or by ready-made kernels; with how each node was recorded.
    Staged(Stages, Lines),
}

/// A form that runs before its plan is compiled.
#[derive(Debug)]
pub(crate) struct Unplanned {
    entry: Arc<PlanEntry>,
    graph: Arc<Graph>,
}

impl Unplanned {
    /// Results of fewer elements than this in all are computed before the compiler starts: starting a thread and
    /// compilers costs this thread more than it gains them.
    const SOON: usize = 1 << 22;

    /// Runs it, and has it compiled in the background. As [`run_each`].
    pub fn run(self, inputs: Vec<PlanInput>, scalars: &[Scalar]) -> Vec<Result<Array>> {
        let arrays = inputs.into_iter().map(|input| Ok(input.array)).collect();
        let sizes = self.graph.nodes().iter().map(|node| node.shape.numel());
        let soon = sizes.fold(0, usize::saturating_add) < Self::SOON;
        let compile = || tiered::compile_later(&self.entry, &self.graph);
        if !soon {
            compile();
        }
        let results = run_each(&*self.graph, arrays, scalars);
        if soon {
            compile();
        }
        results
    }
}

impl PlanEntry {
    /// The plan, compiled at the first call, with `example` to choose by if it is measured; others that call meanwhile wait
    /// for it. An error is not kept.
    pub fn make_plan(
        &self,
        example: Option<Example<'_>>,
        graph: impl FnOnce() -> Result<Graph>,
    ) -> Result<&Plan> {
        if let Some(plan) = self.plan.get() {
            count(Counter::PlanCacheHits, 1);
            return Ok(plan);
        }
        let made = || tuning::plan(graph()?, example);
        self.plan.get_or_try_init(made).map(|plan| &**plan)
    }

    /// Whether it, which has no plan, runs without one once more, or gets one: see [`lines`].
    fn decide(&self, lines: &[Line], by: RecordedBy) -> Decision {
        let runs = self.runs.load(Ordering::Relaxed);
        let member = || Box::new(lines::Member::of(&self.form, lines));
        let member = self.member.get_or_init(member);
        let decision = lines::decide(&self.form, member, runs, by);
        if matches!(decision, Decision::Wait) {
            self.runs.fetch_add(1, Ordering::Relaxed);
        }
        decision
    }

    /// The plan, if it is compiled.
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.get().map(|plan| &**plan)
    }
}

impl OwnEntry {
    /// What to run in `mode`.
    pub fn planned(
        self: &Arc<OwnEntry>,
        mode: Mode,
        example: Example<'_>,
        scalars: &[Scalar],
        by: RecordedBy,
        lines: impl FnOnce() -> Lines,
    ) -> Result<Planned> {
        if self.plan().is_some() {
            count(Counter::PlanCacheHits, 1);
            return Ok(Planned::Plan(self.clone()));
        }
        let lines = lines();
        let graph = || self.form.graph(scalars, &lines);
        if mode != Mode::Tiered {
            let decision = (!Config::get().strict).then(|| self.decide(&lines, by));
            let family = match decision {
                Some(Decision::Wait) => {
                    return Ok(Planned::OneByOne(self.form.clone(), lines));
                }
                Some(Decision::Plan(family)) => Some(family),
                None => None,
            };
            let (made, stats) = stats_scope(|| self.make_plan(Some(example), graph).map(drop));
            made?;
            if let Some(family) = family {
                lines::note_plan(family, stats.kernels_compiled + stats.disk_cache_hits);
            }
            return Ok(Planned::Plan(self.clone()));
        }
        Ok(Planned::Eagerly(Unplanned {
            entry: self.0.clone(),
            graph: Arc::new(graph()?),
        }))
    }

    /// The stages to run it in, if it has no plan and should get none: see [`positions`].
    pub fn stages(&self, mode: Mode) -> Option<Stages> {
        match self.plan.get() {
            None if mode == Mode::Compiled => positions::stages(&self.form),
            _ => None,
        }
    }
}

/// The entry of this hash and form, if there is one.
pub(crate) fn find(hash: u64, same: impl Fn(&Form) -> bool) -> Option<Arc<OwnEntry>> {
    if let Some(known) = FRONTS.own().0.lock().entries.get(&hash)
        && let Some(entry) = known.iter().find(|entry| same(&entry.form))
    {
        return Some(entry.clone());
    }
    let known = PLANS.lock().entries.get(&hash).cloned()?;
    let entry = known.into_iter().find(|entry| same(&entry.form))?;
    Some(in_front(hash, entry))
}

/// The entry of this hash and form, made if there is none.
pub(crate) fn entry(
    hash: u64,
    same: impl Fn(&Form) -> bool,
    form: impl FnOnce() -> Form,
) -> Arc<OwnEntry> {
    find(hash, same).unwrap_or_else(|| insert(hash, form()))
}

/// A new entry, or the one that another thread has made meanwhile.
pub(crate) fn insert(hash: u64, form: Form) -> Arc<OwnEntry> {
    in_front(hash, insert_shared(hash, form))
}

fn insert_shared(hash: u64, form: Form) -> Arc<PlanEntry> {
    let made = Arc::new(PlanEntry {
        form: Arc::new(form),
        plan: OnceCell::new(),
        runs: AtomicU32::new(0),
        member: OnceCell::new(),
    });
    let mut plans = PLANS.lock();
    let mut there = plans.entries.get(&hash).into_iter().flatten();
    if let Some(entry) = there.find(|entry| entry.form == made.form) {
        return entry.clone();
    }
    let dropped = plans.insert(hash, made.clone());
    drop(plans);
    drop(dropped);
    made
}

/// An entry of the table, kept for the threads of this stripe.
fn in_front(hash: u64, entry: Arc<PlanEntry>) -> Arc<OwnEntry> {
    let own = Arc::new(OwnEntry(entry));
    let dropped = FRONTS.own().0.lock().insert(hash, own.clone());
    drop(dropped);
    own
}

/// The forms that are known, with or without a plan.
pub(crate) fn forms() -> Vec<Arc<PlanEntry>> {
    let plans = PLANS.lock();
    plans
        .entries
        .iter()
        .flat_map(|(_, entries)| entries.iter().cloned())
        .collect()
}

/// The entry of this hash and form, if there is one, without counting as a use of it.
pub(crate) fn peek(hash: u64, same: impl Fn(&Form) -> bool) -> Option<Arc<PlanEntry>> {
    let entries = PLANS.lock().entries.peek(&hash).cloned()?;
    entries.into_iter().find(|entry| same(&entry.form))
}
