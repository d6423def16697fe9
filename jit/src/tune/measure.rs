//! Timing candidates: each launch by itself, candidates in turn, and of each launch the median (codegen A11.3).

use crate::draft::{Draft, Step};
use crate::emit::Emitted;
use crate::native::dense;
use crate::plan::{Plan, PlanInput};
use crate::target::Target;
use ferrotrace_kernels::{Array, copy};
use ferrotrace_runtime::{Error, Result, Scalar, compile_unkept};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// What says how long a launch takes.
pub trait Clock: Sync + std::fmt::Debug {
    /// Does `run`, which launches group `group` of the draft's launches once, and says how long that took.
    ///
    /// # Errors
    /// The errors of `run`.
    fn time(
        &self,
        draft: &Draft,
        group: usize,
        run: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Duration>;
}

/// The device's own time.
#[derive(Clone, Copy, Debug)]
pub struct DeviceClock;

impl Clock for DeviceClock {
    fn time(
        &self,
        draft: &Draft,
        _group: usize,
        run: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Duration> {
        let ((), time) = draft.graph.device().time(run)?;
        Ok(time)
    }
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Most changes tried.
    pub changes: usize,
    /// Fewest timed runs of each candidate.
    pub least: usize,
    /// Most of them.
    pub most: usize,
    /// A candidate that was timed so long has run often enough.
    pub time: Duration,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort {
            changes: 12,
            least: 5,
            most: 31,
            time: Duration::from_millis(60),
        }
    }
}

/// What a candidate is run with: the program's own data, which is never written to (codegen B11.3, B11.7).
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// The inputs that the plan is about to run with. In place of those given away, copies are.
    pub inputs: &'a [PlanInput],
    /// The numbers.
    pub scalars: &'a [Scalar],
    /// What times it.
    pub clock: &'a dyn Clock,
    /// How much is measured.
    pub effort: Effort,
}

impl Trial<'_> {
    /// Inputs for one run.
    fn inputs(&self) -> Result<Vec<PlanInput>> {
        let of = |input: &PlanInput| {
            let PlanInput { array, donated } = input;
            let whole = array.layout.is_contiguous()
                && array.layout.offset() == 0
                && array.buffer.bytes() == array.layout.numel() * array.dtype.size();
            // What a plan writes over, or gives back, is a copy; elsewhere it asks for memory that is there.
            let given =
                *donated && whole && Target::of(array.buffer.device()).library.is_complete();
            Ok(PlanInput {
                array: if given {
                    copy::copied(array)?
                } else {
                    Array::clone(array)
                },
                donated: given,
            })
        };
        self.inputs.iter().map(of).collect()
    }
}

/// A candidate while it is measured.
pub(super) struct Timed {
    plan: Result<Plan>,
    /// What each launch is, so that equal ones of two candidates are known.
    pub launches: Vec<u64>,
    samples: Vec<Vec<Duration>>,
    spent: Duration,
}

/// A digest of each launch of a draft: the same for launches of the same kernels on the same values.
pub(super) fn launches(draft: &Draft) -> Vec<u64> {
    let kernel = |state: &mut FxHasher, kernel: &Emitted| {
        format!("{:?}{:?}", kernel.pointers, kernel.in_place).hash(state);
        (&kernel.source.body, &kernel.params, kernel.chunks).hash(state);
    };
    let launch = |group: &std::ops::Range<usize>| {
        let mut state = FxHasher::default();
        for step in &draft.steps[group.clone()] {
            let (before, behind) = (step.before().map(|b| &b.kernel), step.kernel());
            before.into_iter().for_each(|k| kernel(&mut state, k));
            step.call().map(|call| call.node.0).hash(&mut state);
            behind.into_iter().for_each(|k| kernel(&mut state, k));
        }
        state.finish()
    };
    draft.launches.groups.iter().map(launch).collect()
}

/// Compiles candidates, all at once: what fails to compile fails alone (scheduler ). Kernels that spill
/// registers are failures, but for the first candidate if that is what was `planned`: something must run.
pub(super) fn compile(drafts: Vec<Draft>, planned: bool) -> Vec<Timed> {
    let kernels_of = |draft: &Draft| -> Vec<_> {
        let all = draft.steps.iter().flat_map(|step: &Step| {
            let before = step.before().map(|before| &before.kernel);
            before.into_iter().chain(step.kernel())
        });
        all.map(|kernel| kernel.source.clone()).collect()
    };
    let Some(device) = drafts.first().map(|draft| draft.graph.device()) else {
        return Vec::new();
    };
    let sources: Vec<_> = drafts.iter().flat_map(kernels_of).collect();
    let mut compiled = compile_unkept(&device, &sources).into_iter();
    let timed = |(at, draft): (usize, Draft)| {
        let kernels: Vec<_> = compiled.by_ref().take(kernels_of(&draft).len()).collect();
        let kernels: Result<Vec<_>> = kernels.into_iter().collect();
        let kernels = kernels.and_then(|kernels| {
            let spilled = kernels.iter().map(|kernel| kernel.spilled()).max();
            match spilled.filter(|bytes| *bytes > 0 && !(planned && at == 0)) {
                Some(bytes) => Err(Error::internal(format!("it spills {bytes} B a thread"))),
                None => Ok(kernels),
            }
        });
        Timed {
            launches: launches(&draft),
            plan: kernels.map(|kernels| Plan::candidate(draft, kernels, dense)),
            samples: Vec::new(),
            spent: Duration::ZERO,
        }
    };
    drafts.into_iter().enumerate().map(timed).collect()
}

/// One at a time: two that measure would measure each other.
static TURN: Mutex<()> = Mutex::new(());

/// Runs those of `all` at the positions `which` some times, in turn. One that fails is not run again.
pub(super) fn time(all: &mut [Timed], which: &[usize], trial: &Trial<'_>) {
    let effort = trial.effort;
    let _turn = TURN.lock();
    // The first run meets cold caches and memory that is not there yet.
    for round in 0..=effort.most {
        for &at in which {
            let timed = &mut all[at];
            let enough = round > effort.least && timed.spent >= effort.time;
            let Some(plan) = timed.plan.as_ref().ok().filter(|_| !enough) else {
                continue;
            };
            let mut clock = |group: usize, run: &mut dyn FnMut() -> Result<()>| {
                trial.clock.time(plan.draft(), group, run)
            };
            let ran = trial
                .inputs()
                .and_then(|inputs| plan.run_timed(inputs, trial.scalars, &mut clock));
            match ran {
                Ok(_) if round == 0 => {}
                Ok(times) => {
                    timed.spent += times.iter().sum::<Duration>();
                    timed.samples.push(times);
                }
                Err(error) => timed.plan = Err(error),
            }
        }
    }
}

impl Timed {
    /// Why it has no times.
    pub fn failure(&self) -> Option<&Error> {
        self.plan.as_ref().err()
    }

    /// Starts anew.
    pub fn reset(&mut self) {
        self.samples.clear();
        self.spent = Duration::ZERO;
    }

    /// Of each launch the median time.
    pub fn times(&self) -> Vec<Duration> {
        let of = |group: usize| {
            let mut times: Vec<Duration> = self.samples.iter().map(|s| s[group]).collect();
            times.sort_unstable();
            times.get(times.len() / 2).copied().unwrap_or_default()
        };
        (0..self.launches.len()).map(of).collect()
    }

    /// The time of all launches.
    pub fn total(&self) -> Duration {
        self.times().into_iter().sum()
    }

    /// The times of this one's launches that the other has not (scheduler Q-04): what both do is not compared, whose
    /// times would hide the difference.
    pub fn without(&self, other: &Timed) -> Vec<Duration> {
        let mut there: FxHashMap<u64, usize> = FxHashMap::default();
        for launch in &other.launches {
            *there.entry(*launch).or_default() += 1;
        }
        let mut times = Vec::new();
        for (launch, time) in self.launches.iter().zip(self.times()) {
            match there.get_mut(launch).filter(|left| **left > 0) {
                Some(left) => *left -= 1,
                None => times.push(time),
            }
        }
        times
    }
}
