//! An explanation, gathered from a draft.

use super::{CombinedInfo, Explanation, FusedInfo, StepInfo, hints};
use crate::draft::{Draft, Step, Traffic, origins, traffic};
use crate::estimate;
use ferrotrace_kernels::ValueId;
use std::time::Duration;

/// Runs of a launch while somebody profiled, and their mean time, by the launch's number.
type Mean<'a> = dyn Fn(usize) -> Option<(u64, Duration)> + 'a;

/// Operations of a step.
fn operations(draft: &Draft, step: &Step) -> u64 {
    let call = step
        .call()
        .map_or(0, |call| estimate::of_call(&draft.graph, call));
    let kernel = step.kernel().map_or(0, |kernel| {
        let before = kernel.before.iter().map(estimate::of_kernel).sum::<u64>();
        estimate::of_kernel(&kernel.node)
            .saturating_add(kernel.products)
            .saturating_add(before)
    });
    let before = step
        .before()
        .map_or(0, |b| estimate::of_kernel(&b.kernel.node));
    call.saturating_add(kernel).saturating_add(before)
}

impl Explanation {
    /// The explanation of a draft.
    pub fn of(draft: &Draft) -> Explanation {
        Explanation::measured(draft, &|_| None)
    }

    /// The explanation of a draft that ran, with the time of each launch.
    pub(crate) fn measured(draft: &Draft, mean: &Mean<'_>) -> Explanation {
        let groups = origins::steps_of_nodes(draft);
        let of_step = origins::nodes_of_steps(&groups, draft.steps.len());
        let (mut fused, mut sources, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        let (mut steps, mut combined) = (Vec::new(), Vec::<CombinedInfo>::new());
        let launches = draft.launches.groups.iter().enumerate();
        let placed = launches.flat_map(|(at, group)| group.clone().map(move |i| (at, group, i)));
        for (at, group, i) in placed {
            let step = &draft.steps[i];
            let traffic = traffic::of_step(draft, step);
            let operations = operations(draft, step);
            let mut measured = mean(at);
            let mut member = None;
            if group.len() > 1 {
                if i == group.start {
                    combined.push(CombinedInfo {
                        kernels: fused.len()..fused.len() + group.len(),
                        traffic: Traffic::default(),
                        operations: 0,
                        measured,
                    });
                }
                if let Some(all) = combined.last_mut() {
                    all.traffic = all.traffic.and(traffic);
                    all.operations = all.operations.saturating_add(operations);
                }
                (member, measured) = (Some(combined.len() - 1), None);
            }
            let mut before = None;
            if let Some(of) = step.before() {
                before = Some(fused.len());
                fused.push(FusedInfo {
                    ops: vec![draft.graph.context(of.node).op],
                    nodes: vec![of.node],
                    rows: of.kernel.node.iter.clone(),
                    cols: of.kernel.node.red.clone(),
                    loops: of.kernel.loops,
                    traffic: Traffic::default(),
                    operations: estimate::of_kernel(&of.kernel.node),
                    measured: None,
                    combined: None,
                    product: None,
                    tiles: None,
                    feeds: step.call().map(|call| call.node),
                    text: of.kernel.node.to_string(),
                    origins: origins::lines(draft, &of_step[i]),
                });
                sources.push(of.kernel.source.text());
            }
            let mut kernel = None;
            match (step.kernel(), step.call()) {
                (Some(e), call) => {
                    // What is written out stores a node part by part.
                    let mut nodes: Vec<ValueId> = e.node.stores.iter().map(|s| s.node).collect();
                    nodes.dedup();
                    kernel = Some(fused.len());
                    fused.push(FusedInfo {
                        ops: nodes.iter().map(|v| draft.graph.context(*v).op).collect(),
                        nodes,
                        rows: e.node.iter.clone(),
                        cols: e.node.red.clone(),
                        loops: e.loops,
                        traffic,
                        operations,
                        measured,
                        combined: member,
                        product: call
                            .map(|call| call.node)
                            .or(e.node.product.map(|p| p.node)),
                        tiles: e.node.product.and_then(|p| p.tiles),
                        feeds: None,
                        text: [&e.node]
                            .into_iter()
                            .chain(&e.before)
                            .map(ToString::to_string)
                            .collect(),
                        origins: origins::lines(draft, &of_step[i]),
                    });
                    sources.push(e.source.text());
                }
                // A concatenation whose parts are all in place is no call.
                (None, Some(call)) if draft.joined(call).is_some_and(|(_, c)| c.is_empty()) => {}
                (None, Some(call)) => calls.push(draft.graph.context(call.node).op),
                (None, None) => {}
            }
            steps.push(StepInfo {
                name: origins::name(draft, &of_step[i]),
                kernel,
                before,
                traffic,
                operations,
                measured,
                combined: member,
                on_host: step
                    .call()
                    .is_some_and(|call| hints::is_on_host(draft, call.node)),
            });
        }
        Explanation {
            graph: draft.graph.clone(),
            steps,
            groups,
            fused,
            combined,
            refusals: draft.refusals.clone(),
            rounds: draft.rounds.clone(),
            hints: hints::hints(draft),
            calls,
            by_library: !draft.policy.target.panels,
            sources,
            unfused: traffic::one_by_one(&draft.graph),
            peak: draft.peak(&|_| false),
            graphs: Vec::new(),
            measured: None,
            folded: None,
            key: String::new(),
        }
    }
}
