//! Schedules chosen by measuring, with a clock that the test sets.

use crate::common::{bits, difference, kept, noise};
use crate::{plan, read, scalars};
use ferrotrace_jit::policy::{Policy, Thresholds};
use ferrotrace_jit::tune::{
    Change, Choice, Clock, DeviceClock, Effort, Outcome, Threshold, Trial, plan_measured,
    remembered,
};
use ferrotrace_jit::{Draft, Graph, Plan, PlanInput, Precision, run_eagerly};
use ferrotrace_kernels::op::Reduce;
use ferrotrace_kernels::{Array, ValueId};
use ferrotrace_runtime::{Error, Result, stats_scope};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// Rows divided by their sums: one kernel of two nests.
const ROWS: &str = "
    %0: f32[40, 300] = input 0 [300, 1]
    %1: f32[40, 1] = sum(%0) {dims: [1], keepdim: true}
    %2: f32[40, 300] = div(%0, %1)
    return %2";

/// Thresholds that no other test has, nor another run of this one: choices are remembered.
fn fresh() -> Policy {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_nanos() as u64) % (1 << 40);
    let standard = Thresholds::default();
    Policy::from(Thresholds {
        product_follow: standard.product_follow + (now << 6) + NEXT.fetch_add(1, Relaxed),
        ..standard
    })
}

/// A clock by which a launch takes what a function says of the numbers of nests in its kernels.
struct ByNests<F>(F, AtomicU64);

impl<F> std::fmt::Debug for ByNests<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ByNests")
    }
}

impl<F: Fn(usize) -> Result<u64> + Sync> Clock for ByNests<F> {
    fn time(
        &self,
        draft: &Draft,
        group: usize,
        run: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Duration> {
        run()?;
        self.1.fetch_add(1, Relaxed);
        let steps = &draft.steps[draft.launches.groups[group].clone()];
        let nests = |step: &ferrotrace_jit::Step| step.kernel().map_or(1, |k| k.node.stores.len());
        let times: Result<Vec<u64>> = steps.iter().map(|step| (self.0)(nests(step))).collect();
        Ok(Duration::from_micros(times?.iter().sum()))
    }
}

fn by_nests<F: Fn(usize) -> Result<u64> + Sync>(time: F) -> ByNests<F> {
    ByNests(time, AtomicU64::new(0))
}

fn measured(graph: Graph, limits: &Policy, arrays: &[Array], clock: &dyn Clock) -> Arc<Plan> {
    let numbers = scalars(&graph);
    let inputs = kept(arrays);
    let trial = Trial {
        inputs: &inputs,
        scalars: &numbers,
        clock,
        effort: Effort::default(),
    };
    plan_measured(graph, limits, Some(&trial)).unwrap_or_else(|e| panic!("{e}"))
}

#[track_caller]
fn right(plan: &Plan, text: &str, arrays: &[Array], error: f64) {
    let graph = read(text);
    let numbers = scalars(&graph);
    let want = run_eagerly(&graph, arrays, &numbers).expect("runs");
    let got = plan.run(&mut kept(arrays), &numbers).expect("runs");
    for (g, w) in got.iter().zip(&want) {
        assert_eq!(difference(g, w, error, true), None, "{}", plan.explain());
    }
}

fn choice(plan: &Plan) -> Choice {
    plan.explain()
        .tuning()
        .map(|m| m.choice.clone())
        .unwrap_or_default()
}

// scheduler Q-04
#[test]
fn a_fusion_is_kept_where_it_is_strictly_faster() {
    let x = [noise(&[40, 300], 1)];
    for (alone, kernels) in [(4, 2), (5, 2), (6, 1)] {
        let clock = by_nests(|nests| Ok(if nests > 1 { 10 } else { alone }));
        let plan = measured(read(ROWS), &fresh(), &x, &clock);
        assert_eq!(
            plan.explain().fused_nodes().len(),
            kernels,
            "{}",
            plan.explain()
        );
        right(&plan, ROWS, &x, 1e-3);
        let undone = matches!(choice(&plan).changes(), [Change::Apart(_)]);
        assert_eq!(undone, kernels == 2);
    }
}

// scheduler Q-09
#[test]
fn an_explanation_shows_what_was_measured() {
    let clock = by_nests(|nests| Ok(if nests > 1 { 10 } else { 4 }));
    let plan = measured(read(ROWS), &fresh(), &[noise(&[40, 300], 1)], &clock);
    let explanation = plan.explain();
    let of = explanation.tuning().expect("measured");
    assert_eq!(of.times, [10, 8].map(Duration::from_micros));
    assert!(of.took.is_some());
    let text = explanation.summary();
    for part in [
        "apart %1 | %2, 8.0 µs; as planned 10.0 µs",
        "4.0 µs + 4.0 µs = 8.0 µs; as planned 10.0 µs; 1.25 times as fast",
        "not fused: %1 %2: apart they were measured to be no slower",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

// codegen B11.5
#[test]
fn a_choice_is_remembered() {
    let (limits, x) = (fresh(), [noise(&[40, 300], 1)]);
    let clock = by_nests(|nests| Ok(if nests > 1 { 10 } else { 4 }));
    let first = measured(read(ROWS), &limits, &x, &clock);
    let never = by_nests(|_| Err(Error::internal("measured again")));
    // Another number in the text is another trial of the same plan.
    let (second, stats) = stats_scope(|| measured(read(ROWS), &limits, &x, &never));
    assert_eq!((never.1.load(Relaxed), stats.candidates_measured), (0, 0));
    assert_eq!(choice(&second), choice(&first));
    assert!(!choice(&second).changes().is_empty());
    assert_eq!(second.explain().fused_nodes().len(), 2);
    assert!(
        second
            .explain()
            .summary()
            .contains("measured before: apart")
    );
    let known = remembered(&read(ROWS), &limits);
    assert_eq!(known.choice, choice(&first));
    // Another size is another graph.
    let wider = ROWS.replace("300", "301");
    assert_eq!(remembered(&read(&wider), &limits).choice, Choice::default());
    // And so is another dtype (scheduler §20.21).
    let longer = ROWS.replace("f32", "f64");
    assert_eq!(
        remembered(&read(&longer), &limits).choice,
        Choice::default()
    );
}

// scheduler Q-06
#[test]
fn a_candidate_that_fails_is_refused() {
    let x = [noise(&[40, 300], 1)];
    let clock = by_nests(|nests| match nests {
        1 => Err(Error::internal("a kernel that does not run")),
        _ => Ok(10),
    });
    let plan = measured(read(ROWS), &fresh(), &x, &clock);
    let explanation = plan.explain();
    let of = explanation.tuning().expect("measured");
    assert_eq!(of.choice, Choice::default());
    let refused = |row: &ferrotrace_jit::tune::Row| match &row.outcome {
        Outcome::Refused(why) => why.contains("a kernel that does not run"),
        Outcome::Timed { .. } => false,
    };
    assert!(
        of.rows.iter().all(refused) && !of.rows.is_empty(),
        "{explanation}"
    );
    right(&plan, ROWS, &x, 1e-3);
}

#[test]
fn a_plan_that_cannot_run_is_not_measured() {
    let x = [noise(&[40, 300], 1)];
    let clock = by_nests(|_| Err(Error::internal("nothing runs")));
    let plan = measured(read(ROWS), &fresh(), &x, &clock);
    assert!(plan.explain().tuning().is_none());
    right(&plan, ROWS, &x, 1e-3);
}

// codegen B11.3
#[test]
fn data_counts_and_results_are_left_alone() {
    let text = "
        %0: f32[64, 256] = input 0 [256, 1]
        %1: f32[64, 256] = input 1 [256, 1]
        %2: f32[64, 256] = mul(%1, $0=0.5)
        %3: f32[64, 256] = sub(%0, %2)
        %4: f32[64, 1] = sum(%3) {dims: [1], keepdim: true}
        %5: f32[64, 256] = add(%3, %4)
        return %3 %5";
    let arrays = [noise(&[64, 256], 1), noise(&[64, 256], 2)];
    let before: Vec<Vec<u64>> = arrays.iter().map(bits).collect();
    let graph = read(text);
    let numbers = scalars(&graph);
    let given = |array: &Array| PlanInput {
        array: array.clone(),
        donated: true,
    };
    let inputs: Vec<PlanInput> = arrays.iter().map(given).collect();
    let trial = Trial {
        inputs: &inputs,
        scalars: &numbers,
        clock: &DeviceClock,
        effort: Effort::default(),
    };
    let (plan, stats) = stats_scope(|| plan_measured(graph, &fresh(), Some(&trial)));
    let plan = plan.expect("compiles");
    assert_eq!(arrays.iter().map(bits).collect::<Vec<_>>(), before);
    assert!(stats.candidates_measured > 1, "{stats:?}");
    let ran = stats.kernels_launched + stats.library_calls + stats.in_place_writes;
    assert_eq!((ran, stats.bytes_allocated, stats.live_bytes), (0, 0, 0));
    assert_eq!(stats.plans_built, 1);
    let made = plan.explain().sources().len() as u64;
    let found = stats.kernels_compiled + stats.kernel_cache_hits + stats.disk_cache_hits;
    assert_eq!(found, made);
    right(&plan, text, &arrays, 1e-4);
}

// codegen B11.7
#[test]
fn an_index_out_of_range_is_the_programs_error() {
    let text = "
        %0: f32[100, 30] = input 0 [30, 1]
        %1: i64[20] = input 1 [1]
        %2: f32[20, 30] = index(%0, %1) {axes: [0], at: 0}
        %3: f32[20, 1] = sum(%2) {dims: [1], keepdim: true}
        %4: f32[20, 30] = div(%2, %3)
        return %4";
    let table = noise(&[100, 30], 1);
    let index = |last: i64| {
        let numbers: Vec<i64> = (0..20)
            .map(|i| if i == 19 { last } else { i * 5 })
            .collect();
        crate::common::dense(&[20], &numbers)
    };
    let wrong = [table.clone(), index(100)];
    let limits = fresh();
    let plan = measured(read(text), &limits, &wrong, &DeviceClock);
    assert!(plan.explain().tuning().is_none());
    let error = plan.run(&mut kept(&wrong), &[]).expect_err("out of range");
    assert!(error.to_string().contains("100"), "{error}");
    let good = [table, index(99)];
    let plan = measured(read(text), &limits, &good, &DeviceClock);
    assert!(plan.explain().tuning().is_some());
    right(&plan, text, &good, 1e-5);
}

#[test]
fn exact_sums_are_left_as_they_are() {
    let mut graph = Graph::new();
    let x = noise(&[40, 300], 1);
    use ferrotrace_kernels::{BinaryOp, OpBuilder, OpBuilderExt, UnaryOp};
    graph.set_origin(None, Precision::EagerExact);
    let input = crate::common::inputs_of(&mut graph, std::slice::from_ref(&x))[0];
    let e = graph.unary(UnaryOp::Exp, input).expect("fits");
    let two = graph.binary(BinaryOp::Mul, e, e).expect("fits");
    let pointwise = graph.clone();
    let sum = ferrotrace_kernels::Op::Reduce(Reduce {
        kind: ferrotrace_kernels::ReduceKind::Sum,
        mask: 2,
        keepdim: true,
    });
    let sum = graph.push(sum, &[two.into()]).expect("fits");
    let y = graph.binary(BinaryOp::Div, two, sum).expect("fits");
    graph.set_outputs(vec![y]);
    let clock = by_nests(|nests| Ok(if nests > 1 { 10 } else { 1 }));
    let plan = measured(graph, &fresh(), std::slice::from_ref(&x), &clock);
    assert_eq!(
        (clock.1.load(Relaxed), plan.explain().fused_nodes().len()),
        (0, 1)
    );
    // Elementwise programs round at every operation, in whatever kernel it is.
    let mut graph = pointwise;
    let a = graph.unary(UnaryOp::Sin, two).expect("fits");
    let b = graph.unary(UnaryOp::Tanh, two).expect("fits");
    graph.set_outputs(vec![a, b]);
    let want = run_eagerly(&graph, std::slice::from_ref(&x), &[]).expect("runs");
    let plan = measured(graph, &fresh(), std::slice::from_ref(&x), &clock);
    assert!(clock.1.load(Relaxed) > 0);
    assert!(!choice(&plan).changes().is_empty(), "{}", plan.explain());
    let got = plan
        .run(&mut kept(std::slice::from_ref(&x)), &[])
        .expect("runs");
    for (g, w) in got.iter().zip(&want) {
        assert_eq!(difference(g, w, 0.0, false), None);
    }
}

/// A plan of exactly these changes.
fn changed(text: &str, changes: Vec<Change>) -> Arc<Plan> {
    let limits = Choice::of(changes).applied(&Policy::default());
    ferrotrace_jit::Plan::by(read(text), &limits).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn changes_change_what_they_say() {
    let x = noise(&[40, 300], 3);
    // A value of two kernels is computed in both.
    let text = "
        %0: f32[40, 300] = input 0 [300, 1]
        %1: f32[40, 300] = add(%0, $0=1.5)
        %2: f32[40] = sum(%1) {dims: [1], keepdim: false}
        %3: f32[300] = sum(%1) {dims: [0], keepdim: false}
        return %2 %3";
    let stores = |plan: &Plan| -> usize {
        plan.explain()
            .fused_nodes()
            .iter()
            .map(|f| f.traffic.written as usize)
            .sum()
    };
    let planned = plan(text);
    let stored = changed(text, vec![Change::Stored(ValueId(1))]);
    assert_eq!(stores(&stored), stores(&planned) + 40 * 300 * 4);
    right(&stored, text, std::slice::from_ref(&x), 1e-3);
    // A costly one is stored, since two kernels need it.
    let costly = text.replace("add(%0, $0=1.5)", "tanh(%0)");
    let planned = plan(&costly);
    let again = changed(&costly, vec![Change::Again(ValueId(1))]);
    assert_eq!(stores(&again) + 40 * 300 * 4, stores(&planned));
    right(&again, &costly, std::slice::from_ref(&x), 1e-3);
    // A product and what follows it.
    let product = "
        %0: f32[40, 300] = input 0 [300, 1]
        %1: f32[300, 40] = permute(%0) {order: [1, 0]}
        %2: f32[40, 40] = matmul(%0, %1)
        %3: f32[40, 40] = tanh(%2)
        return %3";
    let of = |plan: &Plan| plan.explain().fused_nodes()[0].product;
    assert_eq!(of(&plan(product)), Some(ValueId(2)));
    let apart = vec![vec![ValueId(2)], vec![ValueId(3)]];
    let apart = changed(product, vec![Change::Apart(apart)]);
    assert_eq!(of(&apart), None);
    right(&apart, product, std::slice::from_ref(&x), 1e-3);
    // Independent kernels share a launch.
    let two = "
        %0: f32[40, 300] = input 0 [300, 1]
        %1: f32[40, 300] = input 1 [300, 1]
        %2: f32[40, 300] = exp(%0)
        %3: f32[40, 300] = exp(%1)
        return %2 %3";
    assert_eq!(plan(two).explain().combined().len(), 1);
    let alone = changed(two, vec![Change::Threshold(Threshold::Alone)]);
    assert_eq!(alone.explain().combined().len(), 0);
    right(&alone, two, &[x.clone(), x], 1e-5);
}

#[test]
fn changes_that_win_alone_are_made_together() {
    let text = "
        %0: f32[40, 300] = input 0 [300, 1]
        %1: f32[40, 1] = max(%0) {dims: [1], keepdim: true}
        %2: f32[40, 300] = div(%0, %1)
        %3: f32[30, 400] = input 1 [400, 1]
        %4: f32[30, 1] = max(%3) {dims: [1], keepdim: true}
        %5: f32[30, 400] = div(%3, %4)
        return %2 %5";
    let arrays = [noise(&[40, 300], 1), noise(&[30, 400], 2)];
    let clock = by_nests(|nests| Ok(if nests > 1 { 10 } else { 4 }));
    let plan = measured(read(text), &fresh(), &arrays, &clock);
    let nodes: Vec<usize> = plan
        .explain()
        .fused_nodes()
        .iter()
        .map(|f| f.nodes.len())
        .collect();
    assert_eq!(nodes, [1; 4], "{}", plan.explain());
    assert_eq!(choice(&plan).changes().len(), 2);
    right(&plan, text, &arrays, 1e-5);
}
