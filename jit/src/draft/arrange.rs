//! The last pass: steps in the order of least memory, what is released after each, and how they are launched.

use super::checks;
use super::combine::Sharing;
use super::order::least_memory;
use super::peak::Footprints;
use super::{Draft, Launches, Step, accesses};
use crate::body::Source;
use crate::graph::Graph;
use crate::lower::Lowering;
use crate::policy::Policy;
use crate::schedule::Schedule;
use ferrotrace_runtime::Config;
use rustc_hash::FxHashMap;

/// The draft of these steps.
pub(super) fn draft(
    recorded: Graph,
    graph: Graph,
    lowering: Lowering,
    schedule: Schedule,
    steps: Vec<Step>,
    policy: &Policy,
) -> Draft {
    let footprints = Footprints::of(
        &graph,
        policy,
        &steps,
        &lowering.outputs,
        &lowering.pieces,
        &|_| false,
    );
    let mut steps: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
    let mut steps: Vec<Step> = least_memory(&footprints, policy.thresholds.ready)
        .into_iter()
        .filter_map(|at| steps[at].take())
        .collect();
    let frees = last_uses(
        &steps,
        &lowering.outputs.iter().map(|o| o.0).collect::<Vec<_>>(),
    );
    let sharing = Sharing::of(policy, Config::get().combine);
    let mut launches = Launches::of(
        &steps,
        &frees,
        &lowering.pieces,
        &sharing,
        &policy.thresholds,
    );
    match policy.target.spreads_launches {
        true => launches.leave_small_steps_to_one_thread(&graph, &steps, &policy.thresholds),
        false => launches.take_tables(&mut steps, policy.target.table_bytes),
    }
    let (checks, alike) = match policy.target.reports_late {
        true => checks::ahead(&mut steps, policy),
        false => Default::default(),
    };
    Draft {
        checks,
        alike,
        launches,
        policy: policy.clone(),
        recorded,
        graph,
        steps,
        frees,
        outputs: lowering.outputs,
        sites: lowering.sites,
        pieces: lowering.pieces,
        refusals: schedule.refusals,
        rounds: schedule.rounds,
        number: 0,
    }
}

/// For each step, the buffers that nothing after it uses (scheduler B-01); outputs are in none.
fn last_uses(steps: &[Step], outputs: &[Source]) -> Vec<Vec<Source>> {
    let mut last: FxHashMap<Source, usize> = FxHashMap::default();
    for (i, step) in steps.iter().enumerate() {
        let (reads, writes) = accesses(step);
        for source in reads
            .into_iter()
            .chain(writes.into_iter().map(Source::Node))
        {
            last.insert(source, i);
        }
    }
    let mut frees = vec![Vec::new(); steps.len()];
    for (source, at) in last {
        if !outputs.contains(&source) {
            frees[at].push(source);
        }
    }
    for list in &mut frees {
        list.sort_unstable();
    }
    frees
}
