//! Forms that the same lines of a program record.
//!
//! A sequence that grows has another form at every step, text of any length another one each time, and so has a loop whose
//! steps differ in how many operations wait for a read. A plan is made for operations and sizes that are known, which takes
//! far longer than running a few operations on little data. After [`MOST`] plans for forms of the same lines, a new one runs
//! operator by operator, until a plan would have saved what it takes to make, and forms of its structure what compiling
//! their kernels takes: forms that come back get a plan, and forms of much work and known kernels get theirs at once. A form that is
//! met [`IN_A_ROW`] times in a row, as in a loop of its own, waits no longer. Of a loop over little data the first form waits
//! until a plan pays, too: most such loops end before.

use super::times::Times;
use super::{FAMILIES, MOST};
use crate::form::{Form, FormNode, Line, Mix};
use lru::LruCache;
use once_cell::sync::Lazy;
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// How often a form is met in a row until its plan is made. A step of a loop may meet it for each of a few tensors.
const IN_A_ROW: u32 = 8;

/// Forms met that the same lines record.
#[derive(Debug, Default)]
struct Family {
    /// The last one.
    last: u64,
    /// The kinds of operations of the last one.
    kinds: Arc<FxHashSet<u64>>,
    /// Forms that differed from the one before.
    forms: u32,
    /// How often the last one was met in a row.
    in_a_row: u32,
    /// Nanoseconds that plans would have saved forms that ran operator by operator, together those that differ in sizes alone,
    /// whose kernels are the same.
    structures: FxHashMap<u64, u64>,
    /// A running mean, in sixteenths, of how many kernels a plan needed that the process had not met. The last plan counts half.
    new_kernels: u64,
}

/// What was met.
struct Met {
    /// Families by the hash of their lines. A collision changes how a form is run, not what it computes.
    families: LruCache<u64, Family>,
    /// What loops record that were flushed after some steps: the hash of each line with what it records.
    loops: FxHashSet<u64>,
}

static MET: Lazy<Mutex<Met>> = Lazy::new(|| {
    Mutex::new(Met {
        families: LruCache::new(FAMILIES),
        loops: FxHashSet::default(),
    })
});

/// Lines of loops that are remembered; beyond, all are forgotten.
const MOST_LINES: usize = 1 << 14;

/// Operations from which a form whose lines each record so many steps is a loop.
const LONG: u32 = 512;
const MANY_STEPS: u32 = 32;

/// Steps from which a form is the rest of a loop that was flushed after some steps.
const FEW_STEPS: u32 = 4;

/// Elements of an operation, on average, up to which a loop is one of little work.
pub(crate) const LITTLE: usize = 1 << 15;

impl Met {
    /// Whether a form is one of a loop over little data: some steps, what such steps record too, or all that many steps record.
    fn is_loop(&mut self, member: &Member, by: RecordedBy) -> bool {
        let recorded = &member.recorded;
        let operations = member.operations as u32;
        match by {
            RecordedBy::Function => false,
            RecordedBy::Steps => {
                if self.loops.len() > MOST_LINES {
                    self.loops.clear();
                }
                self.loops.extend(recorded.iter().map(|&(of, _)| of));
                true
            }
            RecordedBy::Trace => {
                let of_loops = recorded.iter().filter(|(of, _)| self.loops.contains(of));
                let of_loops: u32 = of_loops.map(|&(_, times)| times).sum();
                let steps = operations / (recorded.len() as u32).max(1);
                let is_long = operations >= LONG && steps >= MANY_STEPS;
                let is_rest = steps >= FEW_STEPS && of_loops > operations / 4 * 3;
                is_long && member.elements <= LITTLE || is_rest
            }
        }
    }
}

/// The hash of an operation without sizes. Attributes count as sizes: some are.
fn without_sizes(node: &FormNode) -> Mix {
    let (kind, mut mix) = (&node.kind, Mix::default());
    let op = kind.op();
    (std::mem::discriminant(op), op.salt()).hash(&mut mix);
    (kind.dtype, kind.shape.rank()).hash(&mut mix);
    mix
}

/// What a form is among others, which takes long to find.
#[derive(Debug)]
pub(super) struct Member {
    /// The lines that record it, each with what it records there: the family.
    family: u64,
    /// The form without its sizes: its structure.
    structure: u64,
    /// The whole form.
    whole: u64,
    /// The hash of each line with what it records, and how often it does.
    recorded: Vec<(u64, u32)>,
    operations: usize,
    /// The elements of an operation's result, on average.
    elements: usize,
    /// Whether an operation runs in a plan alone.
    needs_plan: bool,
    /// The kinds of its operations, where those of sizes that were not met take longer.
    kinds: Arc<FxHashSet<u64>>,
    /// Nanoseconds that it takes longer operator by operator than by a plan.
    gain: u64,
    /// Nanoseconds that its plan takes to make.
    plan: u64,
}

impl Member {
    pub fn of(form: &Form, told: &[Line]) -> Member {
        let mut structure = Mix::default();
        let mut recorded: Vec<u64> = Vec::with_capacity(form.nodes.len());
        let sizes = form.nodes.iter().map(|node| node.kind.shape.numel());
        let elements = sizes.fold(0, usize::saturating_add);
        for (i, (node, edges)) in form.operands().enumerate() {
            let mut own = without_sizes(node);
            structure.word(own.clone().finish());
            edges.iter().for_each(|edge| structure.word(edge.code()));
            if let Some(line) = told.get(i) {
                line.location.hash(&mut own);
            }
            recorded.push(own.finish());
        }
        for leaf in &form.leaves {
            (leaf.dtype, leaf.layout.shape().rank()).hash(&mut structure);
        }
        form.outputs.iter().for_each(|&n| structure.word(n as u64));
        // Forms of one family record each line any number of times, in any order.
        recorded.sort_unstable();
        let lines = recorded.chunk_by(PartialEq::eq);
        let recorded: Vec<(u64, u32)> = lines.map(|of| (of[0], of.len() as u32)).collect();
        let mut family = Mix::default();
        recorded.iter().for_each(|&(of, _)| family.word(of));
        form.device.hash(&mut family);
        let times = Times::of(form);
        let kinds = form.nodes.iter().map(|node| &node.kind);
        let kinds = kinds.filter(|kind| times.unmet > 0 && !kind.op().is_view());
        Member {
            family: family.finish(),
            structure: structure.finish(),
            whole: form.hash(),
            recorded,
            operations: form.nodes.len(),
            elements: elements / form.nodes.len().max(1),
            needs_plan: form.nodes.iter().any(|node| needs_plan(form, node)),
            kinds: Arc::new(kinds.map(|kind| kind.hash).collect()),
            gain: times.gain(form),
            plan: times.plan(form),
        }
    }
}

/// Whether an operation runs in a plan alone: a program, and on a device attention, whose definition would put the scores into
/// memory.
fn needs_plan(form: &Form, node: &FormNode) -> bool {
    let op = node.kind.op();
    let has_kernel = op.as_composite().is_some_and(|op| op.entry().has_kernel());
    op.as_program().is_some() || has_kernel && !form.device.is_cpu()
}

/// New kernels that a plan of a loop's steps is taken to need before there is one.
const LOOP_KERNELS: u64 = 4;

/// Structures that a family remembers; beyond, it forgets them all.
const STRUCTURES: usize = 1024;

/// What a form without a plan does.
pub(super) enum Decision {
    /// It runs operator by operator.
    Wait,
    /// It gets a plan, which this family is [told](note_plan) of.
    Plan(u64),
}

/// Notes a plan that needed so many kernels which the process had not met.
pub(super) fn note_plan(family: u64, new_kernels: u64) {
    if let Some(family) = MET.lock().families.get_mut(&family) {
        family.new_kernels = (family.new_kernels + 16 * new_kernels) / 2;
    }
}

/// What recorded a form, which says whether it is likely to run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordedBy {
    /// A function or a body that is going to run again.
    Function,
    /// A trace.
    Trace,
    /// Some steps of a loop that goes on.
    Steps,
}

/// What a form does that has no plan and ran so often operator by operator.
pub(super) fn decide(form: &Form, member: &Member, runs: u32, by: RecordedBy) -> Decision {
    let plan = Decision::Plan(member.family);
    if member.needs_plan {
        return plan;
    }
    let mut met = MET.lock();
    let is_loop = met.is_loop(member, by);
    let family = met
        .families
        .get_or_insert_mut(member.family, Family::default);
    let unmet = member.kinds.difference(&family.kinds).count() as u64;
    if family.forms == 0 || family.last != member.whole {
        family.last = member.whole;
        family.kinds = member.kinds.clone();
        family.forms = family.forms.saturating_add(1);
        family.in_a_row = 0;
    }
    family.in_a_row += 1;
    if family.structures.len() >= STRUCTURES {
        family.structures.clear();
    }
    let spent = family.structures.entry(member.structure).or_default();
    let times = Times::of(form);
    let time = member.gain.saturating_add(times.unmet * unmet).max(1);
    let new_kernels = match family.new_kernels {
        0 if is_loop => 16 * LOOP_KERNELS,
        known => known,
    };
    let kernels = new_kernels.saturating_mul(times.kernel) / 16;
    let pays = *spent >= kernels && u64::from(runs) >= member.plan / time;
    // A loop of much work does not wait.
    let pays = pays || is_loop && time >= kernels;
    let repeats = family.in_a_row > IN_A_ROW && by != RecordedBy::Steps;
    if family.forms <= MOST && !is_loop || repeats || pays {
        // Further plans of the structure find its kernels.
        *spent = u64::MAX;
        return plan;
    }
    *spent = spent.saturating_add(time);
    Decision::Wait
}
