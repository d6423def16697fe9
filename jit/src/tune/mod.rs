//! Choices that are measured (scheduler, codegen A11.3, B11).
//!
//! A plan is made by rules, some of which are guesses: that a fusion pays, that a value is cheaper computed again than
//! stored, that a reduction is worth splitting. Where that is asked for, [`plan_measured`] makes drafts of the same
//! graph with one decision changed each, compiles and runs them on the program's own data, and keeps the changes that
//! made the launches they concern faster. What was chosen is remembered, so that it is measured once a machine.
//!
//! It is off unless asked for. Nothing is measured while fusions are counted for bisecting, and nothing of a graph
//! whose numbers [`Precision::EagerExact`](crate::Precision) fixes but another schedule might change.

mod candidates;
mod key;
mod measure;

use crate::draft::Draft;
use crate::graph::Graph;
use crate::plan::Plan;
use crate::policy::Policy;
use ferrotrace_runtime::{Activity, Config, Counter, Result, Timer, count, notes, uncounted};
use measure::Timed;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use crate::policy::{Change, Choice, Measured, NoChange, Outcome, Row, Threshold};
pub use measure::{Clock, DeviceClock, Effort, Trial};

/// What is not undone must be faster by this part of what it replaces: more than the medians of equal kernels differ.
const MARGIN: f64 = 0.02;

/// Plans a graph as [`Plan::by`] does, with the schedule that is fastest: as it was measured before, else as it is
/// measured now with `trial`. Without one nothing is run.
///
/// Every number is what the planner's own schedule gives, but for the rounding of [`Precision::Fast`](crate::Precision).
///
/// # Errors
/// The errors of [`Plan::by`]. A candidate that fails to compile or to run is no error: it is not chosen.
pub fn plan_measured(
    graph: Graph,
    policy: &Policy,
    trial: Option<&Trial<'_>>,
) -> Result<Arc<Plan>> {
    if Config::get().fuse_limit.is_some() || candidates::may_change_numbers(&graph) {
        return Plan::by(graph, policy);
    }
    let key = key::of(&graph, policy);
    let known = key.as_deref().and_then(recall);
    let measured = known.or_else(|| {
        let measured = measured(&graph, policy, trial?)?;
        if let Some(key) = &key {
            notes::remember(&[key], &measured.to_note());
        }
        Some(measured)
    });
    let Some(measured) = measured else {
        return Plan::by(graph, policy);
    };
    let chosen = measured.choice.applied(policy);
    let again = (!measured.choice.changes().is_empty()).then(|| graph.clone());
    match (
        Plan::measured(graph, &chosen, Some(Arc::new(measured))),
        again,
    ) {
        // A note that does not fit.
        (Err(_), Some(graph)) => Plan::by(graph, policy),
        (made, _) => made,
    }
}

/// The changes that measuring would try on a draft, most bytes first, at most so many.
pub fn changes(draft: &Draft, policy: &Policy, most: usize) -> Vec<Change> {
    candidates::changes(draft, policy, most)
}

/// The policy of the schedule that was measured fastest for a graph, if that is remembered; else `policy`.
pub fn remembered(graph: &Graph, policy: &Policy) -> Policy {
    let key = key::of(graph, policy);
    let known = key.as_deref().and_then(recall);
    known.map_or_else(|| policy.clone(), |known| known.choice.applied(policy))
}

fn recall(key: &str) -> Option<Measured> {
    Measured::of_note(&notes::recall(&[key])?)
}

/// Measures, without a trace in anybody's counts but those of measuring. `None` where there is nothing to choose, or where
/// the plan cannot be run: whoever runs it next is told why.
fn measured(graph: &Graph, policy: &Policy, trial: &Trial<'_>) -> Option<Measured> {
    let (start, timer) = (Instant::now(), Timer::start());
    let (measured, tried) = uncounted(|| {
        let mut session = Session::begin(graph, policy, trial).ok()??;
        let measured = session.verdict();
        Some((measured, session.timed.len()))
    })?;
    let took = start.elapsed();
    count(Counter::CandidatesMeasured, tried as u64);
    count(Counter::MeasuringMicroseconds, took.as_micros() as u64);
    timer.stop(Activity::Planning, || {
        (format!("measuring {tried} schedules"), 0)
    });
    Some(Measured {
        took: Some(took),
        ..measured
    })
}

/// What is measured for one graph: the plan as planned, and every change alone; then the best of them, and all that won
/// together.
struct Session<'a> {
    graph: &'a Graph,
    policy: &'a Policy,
    trial: &'a Trial<'a>,
    /// By candidate; the first changes nothing.
    choices: Vec<Choice>,
    timed: Vec<Timed>,
    /// The candidates that could not be planned.
    refused: Vec<Row>,
}

impl<'a> Session<'a> {
    /// Makes the candidates, compiles them, and runs each some times.
    fn begin(
        graph: &'a Graph,
        policy: &'a Policy,
        trial: &'a Trial<'a>,
    ) -> Result<Option<Session<'a>>> {
        let planned = Draft::of(graph.clone(), policy)?;
        let changes = candidates::changes(&planned, policy, trial.effort.changes);
        let mut session = Session {
            graph,
            policy,
            trial,
            choices: vec![Choice::default()],
            timed: Vec::new(),
            refused: Vec::new(),
        };
        let mut seen = vec![measure::launches(&planned)];
        let mut drafts = vec![planned];
        for change in changes {
            let choice = Choice::of(vec![change]);
            let Some(made) = session.draft(&choice) else {
                continue;
            };
            let launches = measure::launches(&made);
            if !seen.contains(&launches) {
                seen.push(launches);
                drafts.push(made);
                session.choices.push(choice);
            }
        }
        if drafts.len() == 1 {
            return Ok(None);
        }
        session.timed = measure::compile(drafts, true);
        let all: Vec<usize> = (0..session.timed.len()).collect();
        measure::time(&mut session.timed, &all, trial);
        Ok(session.timed[0].failure().is_none().then_some(session))
    }

    fn draft(&mut self, choice: &Choice) -> Option<Draft> {
        match Draft::of(self.graph.clone(), &choice.applied(self.policy)) {
            Ok(draft) => Some(draft),
            Err(why) => {
                self.refused.push(Row {
                    choice: choice.clone(),
                    outcome: Outcome::Refused(why.to_string()),
                });
                None
            }
        }
    }

    /// By how much candidate `at` is faster than what was planned, in the launches that differ, if it is to be preferred.
    fn gain(&self, at: usize) -> Option<f64> {
        let [planned, changed] = self
            .row(at)
            .outcome
            .totals()?
            .map(|time| time.as_secs_f64());
        let undone = self.choices[at].changes().iter().all(Change::undoes_fusion);
        // a tie is not worth the larger kernel.
        let wins = match undone {
            true => changed <= planned,
            false => changed < planned * (1.0 - MARGIN),
        };
        wins.then_some(planned - changed)
    }

    fn row(&self, at: usize) -> Row {
        let (timed, planned) = (&self.timed[at], &self.timed[0]);
        let outcome = match timed.failure() {
            Some(why) => Outcome::Refused(why.to_string()),
            None => Outcome::Timed {
                planned: planned.without(timed),
                changed: timed.without(planned),
            },
        };
        Row {
            choice: self.choices[at].clone(),
            outcome,
        }
    }

    /// What won alone, most gained first.
    fn winners(&self) -> Vec<usize> {
        let all = 1..self.timed.len();
        let mut won: Vec<(f64, usize)> = all.filter_map(|at| Some((self.gain(at)?, at))).collect();
        won.sort_by(|a, b| b.0.total_cmp(&a.0));
        won.into_iter().map(|(_, at)| at).collect()
    }

    /// Changes of which each won alone and no two concern the same nodes.
    fn together(&self, winners: &[usize]) -> Choice {
        let mut changes: Vec<Change> = Vec::new();
        for &at in winners {
            for change in self.choices[at].changes() {
                let nodes = change.nodes();
                let met = |other: &Change| other.nodes().iter().any(|v| nodes.contains(v));
                if !changes.iter().any(met) {
                    changes.push(change.clone());
                }
            }
        }
        Choice::of(changes)
    }

    /// Runs what won once more, beside what was planned: what is faster then, too, is chosen.
    fn verdict(&mut self) -> Measured {
        let winners = self.winners();
        let mut finals = vec![0];
        finals.extend(winners.first());
        let all = self.together(&winners);
        if all.changes().len() > 1
            && let Some(draft) = self.draft(&all)
        {
            self.choices.push(all);
            self.timed.extend(measure::compile(vec![draft], false));
            finals.push(self.timed.len() - 1);
        }
        let mut rows: Vec<Row> = (1..self.timed.len()).map(|at| self.row(at)).collect();
        let mut chosen = 0;
        if finals.len() > 1 {
            finals.iter().for_each(|&at| self.timed[at].reset());
            measure::time(&mut self.timed, &finals, self.trial);
            let gains = finals[1..]
                .iter()
                .filter_map(|&at| Some((self.gain(at)?, at)));
            let best = gains.max_by(|a, b| a.0.total_cmp(&b.0));
            if self.timed[0].failure().is_none() {
                chosen = best.map_or(0, |(_, at)| at);
                // The finalists have been timed again, beside each other: their rows show these times.
                finals[1..]
                    .iter()
                    .for_each(|&at| rows[at - 1] = self.row(at));
            }
        }
        rows.append(&mut self.refused);
        let total = |at: usize| -> Duration { self.timed[at].total() };
        Measured {
            choice: self.choices[chosen].clone(),
            times: [total(0), total(chosen)],
            took: None,
            rows,
        }
    }
}
