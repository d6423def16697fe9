//! Random graphs: interpreted and compiled drafts against operator-by-operator execution.
#![allow(missing_docs)]

mod common;

use common::campaign::{batches, each, few, seeds};
use common::generate::{Limits, Program, program};
use common::rounding::oracle::{Rule, compared};
use common::rounding::{self, Sizes};
use common::{copied, difference, kept};
use ferrotrace_jit::interp::interpret;
use ferrotrace_jit::policy::{Policy, Thresholds};
use ferrotrace_jit::tune::{Choice, changes};
use ferrotrace_jit::{Draft, Graph, NodeOp, Plan, PlanInput, Precision, Step, run_eagerly};
use ferrotrace_kernels::{Array, Op, ValueId};
use ferrotrace_runtime::{
    DType, Error, KernelSource, Result, Scalar, compile_kernels, stats_scope,
};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const SMALL: Limits = Limits {
    ops: 64,
    numel: 400,
    sizes: &[0, 1, 1, 2, 3, 4, 5, 6, 8],
    dtypes: &DType::ALL,
    pointwise: false,
    precision: Precision::Fast,
    approximate: false,
    slices: false,
    long: false,
};

type Runner = fn(Graph, &[Array], &[Scalar]) -> Result<Vec<Array>>;

fn interpreted(graph: Graph, arrays: &[Array], scalars: &[Scalar]) -> Result<Vec<Array>> {
    // Small values may lie in any order too.
    let limits = Policy::from(Thresholds {
        order_elements: 0,
        again_bytes: 0,
        ..Thresholds::default()
    });
    interpret(&Draft::of(graph, &limits)?, arrays, scalars)
}

/// Thresholds under which every stored concatenation has its parts written in place, small operands of products are
/// computed as they are read, costly functions of small values again, gathered rows of small tables are asked for ahead,
/// statements that repeat are loops, and short rows under conditions are split.
fn placing() -> Policy {
    Policy::from(Thresholds {
        cat_bytes: 0,
        prefetched_table: 0,
        prologue_long: 2,
        again_bytes: 0,
        rerolled: 20,
        index_set_vectors: 1,
        ..Thresholds::default()
    })
}

fn interpreted_in_place(graph: Graph, arrays: &[Array], scalars: &[Scalar]) -> Result<Vec<Array>> {
    interpret(&Draft::of(graph, &placing())?, arrays, scalars)
}

fn compiled_in_place(graph: Graph, arrays: &[Array], scalars: &[Scalar]) -> Result<Vec<Array>> {
    let plan = Plan::by(graph, &placing())?;
    measured(&plan, &mut kept(arrays), scalars)
}

fn compiled(graph: Graph, arrays: &[Array], scalars: &[Scalar]) -> Result<Vec<Array>> {
    let plan = Plan::of(graph)?;
    measured(&plan, &mut kept(arrays), scalars)
}

/// Runs a plan and compares the memory it held with what was estimated: at least that much, and no more where no
/// ready-made kernel makes temporaries of its own.
fn measured(plan: &Plan, inputs: &mut Vec<PlanInput>, scalars: &[Scalar]) -> Result<Vec<Array>> {
    let given: Vec<bool> = inputs.iter().map(|input| input.donated).collect();
    let estimate = plan.draft().peak(&|input| given[input as usize]);
    let (results, stats) = stats_scope(|| plan.run(inputs, scalars));
    let calls = plan.draft().steps.iter().any(|s| match s {
        Step::Call(_) => true,
        // A convolution makes its operands dense.
        Step::Template(t) => {
            let op = &plan.draft().graph.node(t.call.node).op;
            matches!(op, NodeOp::Op(Op::Conv(_)))
        }
        _ => false,
    });
    if results.is_ok() && (stats.peak_bytes < estimate || !calls && stats.peak_bytes > estimate) {
        let peak = stats.peak_bytes;
        return Err(Error::internal(format!(
            "{estimate} bytes expected, {peak} held"
        )));
    }
    results
}

/// Compiled, with inputs that may be overwritten: each dense in memory that nothing else holds.
fn donated(graph: Graph, arrays: &[Array], scalars: &[Scalar]) -> Result<Vec<Array>> {
    let copies: Vec<Array> = arrays.iter().map(copied).collect();
    // The copies are row-major, so the graph's inputs must be.
    let text: Vec<String> = graph.to_string().lines().map(row_major).collect();
    let same: Graph = text.join("\n").parse()?;
    let mut inputs = copies
        .into_iter()
        .map(|array| PlanInput {
            array,
            donated: true,
        })
        .collect();
    let plan = Plan::by(same, &placing())?;
    measured(&plan, &mut inputs, scalars)
}

/// The line of a graph's text with an input's strides replaced by row-major ones.
fn row_major(line: &str) -> String {
    let Some((head, tail)) = line.split_once(" = input ") else {
        return line.to_owned();
    };
    let open = head.find('[').unwrap_or_default();
    let dims = head[open..]
        .trim_matches(['[', ']'])
        .split(',')
        .filter_map(|n| n.trim().parse().ok());
    let shape: ferrotrace_runtime::Shape = dims.collect();
    let number = tail.split_whitespace().next().unwrap_or_default();
    let exact = if line.ends_with("exact") {
        " exact"
    } else {
        ""
    };
    format!(
        "{head} = input {number} {:?}{exact}",
        shape.strides().as_slice()
    )
}

/// What differs between a runner's results and those of ready-made kernels.
fn mismatch(p: &Program, run: Runner) -> Option<String> {
    let want = match run_eagerly(&p.graph, &p.arrays, &p.scalars) {
        Ok(want) => want,
        Err(e) => return Some(format!("eager: {e}")),
    };
    let got = match run(p.graph.clone(), &p.arrays, &p.scalars) {
        Ok(got) => got,
        Err(e) => return Some(format!("{e}")),
    };
    p.graph
        .outputs()
        .iter()
        .zip(got.iter().zip(&want))
        .find_map(|(v, (g, w))| {
            let t = p.tracks[v.0 as usize];
            difference(g, w, 4.0 * t.error, t.any_zero).map(|d| format!("output %{}: {d}", v.0))
        })
}

/// The same failure with one output, the earliest that shows it.
fn shrunk(p: &Program, run: Runner) -> (Program, String) {
    for v in 0..p.graph.nodes().len() {
        let mut q = p.clone();
        q.graph.set_outputs(vec![ValueId(v as u32)]);
        if let Some(why) = mismatch(&q, run) {
            return (q, why);
        }
    }
    (p.clone(), mismatch(p, run).unwrap_or_default())
}

fn check(seed: u64, limits: &Limits, run: Runner) {
    let p = program(seed, limits);
    if let Some(why) = mismatch(&p, run) {
        let (q, small) = shrunk(&p, run);
        let draft = Draft::of(q.graph.clone(), &Policy::default());
        let text = draft.map_or_else(
            |e| e.to_string(),
            |d| ferrotrace_jit::Explanation::of(&d).summary(),
        );
        panic!(
            "seed {seed}: {why}\nwith one output: {small}\n{}\n{text}",
            q.graph
        );
    }
}

/// Thresholds under which one of the changes that measuring would try is made, or some of them together.
fn changed(graph: &Graph) -> Policy {
    let standard = Policy::default();
    let Ok(planned) = Draft::of(graph.clone(), &standard) else {
        return standard;
    };
    let mut all = changes(&planned, &standard, 100);
    let which = graph.to_string().len();
    if which.is_multiple_of(4) {
        all.truncate(1 + which / 4 % 5);
    } else if !all.is_empty() {
        all = vec![all.swap_remove(which % all.len())];
    }
    Choice::of(all).applied(&standard)
}

fn interpreted_changed(graph: Graph, arrays: &[Array], scalars: &[Scalar]) -> Result<Vec<Array>> {
    let limits = changed(&graph);
    interpret(&Draft::of(graph, &limits)?, arrays, scalars)
}

fn compiled_changed(graph: Graph, arrays: &[Array], scalars: &[Scalar]) -> Result<Vec<Array>> {
    let limits = changed(&graph);
    let plan = Plan::by(graph, &limits)?;
    measured(&plan, &mut kept(arrays), scalars)
}

/// Whatever measuring chooses.
#[test]
fn changed_drafts_give_the_results_of_eager_mode() {
    each(seeds(2500), |seed| check(seed, &SMALL, interpreted_changed));
}

#[test]
fn changed_plans_give_the_results_of_eager_mode() {
    check_compiled(few(60), &MIDDLE, changed, compiled_changed);
}

#[test]
fn changed_exact_pointwise_programs_are_bit_for_bit_eager() {
    let limits = Limits {
        precision: Precision::EagerExact,
        pointwise: true,
        ..MIDDLE
    };
    check_compiled(few(30), &limits, changed, compiled_changed);
}

#[test]
fn interpreted_drafts_give_the_results_of_eager_mode() {
    each(seeds(7000), |seed| check(seed, &SMALL, interpreted));
}

#[test]
fn interpreted_exact_drafts_give_the_results_of_eager_mode() {
    let limits = Limits {
        precision: Precision::EagerExact,
        ..SMALL
    };
    each(seeds(3500), |seed| {
        check(seed, &limits, interpreted_in_place)
    });
}

/// Compiles the kernels of many programs at once, so that the compiler runs once for many.
fn prepare<'a>(graphs: impl Iterator<Item = &'a Graph>, thresholds: fn(&Graph) -> Policy) {
    let mut sources: Vec<KernelSource> = Vec::new();
    for graph in graphs {
        let Ok(draft) = Draft::of(graph.clone(), &thresholds(graph)) else {
            continue;
        };
        for step in draft.steps {
            if let Some(emitted) = step.kernel() {
                sources.push(emitted.source.clone());
            }
        }
    }
    for batch in sources.chunks(64) {
        compile_kernels(batch);
    }
}

fn check_compiled(
    seeds: std::ops::Range<u64>,
    limits: &Limits,
    thresholds: fn(&Graph) -> Policy,
    run: Runner,
) {
    batches(seeds, 32, |batch| {
        let programs: Vec<Program> = batch.clone().map(|s| program(s, limits)).collect();
        prepare(programs.iter().map(|p| &p.graph), thresholds);
        for seed in batch {
            let ((), stats) = stats_scope(|| check(seed, limits, run));
            assert_eq!(stats.fallbacks, 0, "seed {seed} ran on ready-made kernels");
        }
    });
}

/// Parts are written in place wherever they can be.
#[test]
fn parts_written_in_place_give_the_results_of_eager_mode() {
    check_compiled(seeds(150), &MIDDLE, |_| placing(), compiled_in_place);
}

/// The memory contract: at most a sixteenth, or a page, above what eager mode holds.
fn check_held(seed: u64, limits: &Limits) {
    let p = program(seed, limits);
    // Eager mode shares what has the type already.
    let shared = |i: usize| {
        let (node, x) = (
            &p.graph.nodes()[i],
            p.graph.operands(ValueId(i as u32)).next(),
        );
        matches!(node.op, NodeOp::Op(Op::Cast(_)))
            && x.is_some_and(|x| p.graph.node(x).dtype == node.dtype)
    };
    let limits = Thresholds::default();
    let (results, eager) = stats_scope(|| run_eagerly(&p.graph, &p.arrays, &p.scalars));
    if results.is_err() || (0..p.graph.nodes().len()).any(shared) {
        return;
    }
    let plan = Draft::of(p.graph.clone(), &Policy::default()).expect("a draft");
    let (held, eager) = (plan.peaks()[0], eager.peak_bytes);
    assert!(
        held <= eager + (eager / limits.held_share).max(limits.held_least),
        "seed {seed}: {held} bytes for {eager}\n{}\n{}",
        p.graph,
        ferrotrace_jit::Explanation::of(&plan).summary()
    );
}

#[test]
fn plans_hold_hardly_more_than_eager_mode() {
    each(seeds(2500), |seed| check_held(seed, &SMALL));
    each(few(400), |seed| check_held(seed, &MIDDLE));
}

const MIDDLE: Limits = Limits {
    ops: 16,
    numel: 3000,
    sizes: &[0, 1, 2, 3, 4, 7, 16, 17, 33, 70],
    ..SMALL
};

#[test]
fn compiled_plans_give_the_results_of_eager_mode() {
    check_compiled(seeds(500), &MIDDLE, |_| Policy::default(), compiled);
}

#[test]
fn compiled_exact_plans_give_the_results_of_eager_mode() {
    check_compiled(
        seeds(260),
        &Limits {
            precision: Precision::EagerExact,
            ..MIDDLE
        },
        |_| Policy::default(),
        compiled,
    );
}

/// DESIGN: with `EagerExact`, compiled pointwise code is bit for bit the eager result.
#[test]
fn exact_pointwise_programs_are_bit_for_bit_eager() {
    let limits = Limits {
        precision: Precision::EagerExact,
        pointwise: true,
        ops: 10,
        ..MIDDLE
    };
    check_compiled(seeds(150), &limits, |_| Policy::default(), compiled);
}

const FEW: Sizes = Sizes {
    rows: &[1, 2, 3, 5, 8],
    columns: &[1, 2, 4, 7, 8, 16],
    ops: 14,
};

/// Rows past vectors, blocks and chunks.
const MANY: Sizes = Sizes {
    rows: &[1, 2, 8, 33, 300],
    columns: &[1, 4, 16, 33, 64, 128],
    ops: 12,
};

/// What counts of the oracle's results must be bit for bit what the runner gives, zeros' signs apart. The number of
/// results compared.
fn against_oracle(seed: u64, p: &rounding::Program, rule: Rule, run: Runner) -> usize {
    let got = run(p.graph.clone(), &p.arrays, &p.scalars);
    let got = got.unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", p.graph));
    compared(p, rule, &got).unwrap_or_else(|why| {
        let draft = Draft::of(p.graph.clone(), &Policy::default());
        let text = draft.map(|d| ferrotrace_jit::Explanation::of(&d).to_string());
        let text = text.unwrap_or_else(|e| e.to_string());
        panic!("seed {seed}: {why}\n{}\n{text}", p.graph)
    })
}

/// The evaluation itself is right: everywhere rounded, it is eager mode.
#[test]
fn eager_mode_rounds_every_half_value() {
    let all = AtomicUsize::new(0);
    each(seeds(800), |seed| {
        let p = rounding::program(seed, FEW, Precision::Fast);
        let eager: Runner = |graph, arrays, scalars| run_eagerly(&graph, arrays, scalars);
        all.fetch_add(against_oracle(seed, &p, Rule::Everywhere, eager), Relaxed);
    });
    assert!(all.into_inner() > 0, "no result counts");
}

/// All uses of a recorded half-precision value read one number, interpreted.
#[test]
fn drafts_read_one_number_of_a_half_value() {
    let all = AtomicUsize::new(0);
    each(seeds(3000), |seed| {
        let p = rounding::program(seed, FEW, Precision::Fast);
        let fast = against_oracle(seed, &p, Rule::Recorded, interpreted)
            + against_oracle(seed, &p, Rule::Recorded, interpreted_changed);
        let p = rounding::program(seed, FEW, Precision::EagerExact);
        let exact = against_oracle(seed, &p, Rule::Everywhere, interpreted);
        all.fetch_add(fast + exact, Relaxed);
    });
    assert!(all.into_inner() > 0, "no result counts");
}

/// Compiled plans read one number of a half value.
#[test]
fn plans_read_one_number_of_a_half_value() {
    batches(seeds(60), 32, |batch| {
        let draw = |seed| rounding::program(seed, MANY, Precision::Fast);
        let programs: Vec<rounding::Program> = batch.clone().map(draw).collect();
        prepare(programs.iter().map(|p| &p.graph), |_| Policy::default());
        for (seed, p) in batch.zip(&programs) {
            against_oracle(seed, p, Rule::Recorded, compiled);
        }
    });
}

/// Long rows, blocks and chunks: sizes past every threshold of the emitter.
const LARGE: Limits = Limits {
    ops: 8,
    numel: 300_000,
    sizes: &[1, 2, 3, 5, 40, 130, 600, 1100, 70_000],
    long: true,
    ..SMALL
};

#[test]
fn compiled_plans_of_large_arrays_give_the_results_of_eager_mode() {
    check_compiled(seeds(30), &LARGE, |_| Policy::default(), compiled);
}

/// Short axes beside longer ones, which are written out.
const SHORT: Limits = Limits {
    ops: 12,
    sizes: &[1, 2, 3, 4, 5, 6, 7, 8, 33, 40, 70],
    numel: 6000,
    ..SMALL
};

#[test]
fn compiled_plans_of_short_axes_give_the_results_of_eager_mode() {
    check_compiled(seeds(60), &SHORT, |_| Policy::default(), compiled);
    check_compiled(seeds(60), &SHORT, |_| placing(), donated);
}

/// DESIGN: a donated buffer is written in place where every element is read before it is written, and only there.
#[test]
fn plans_that_overwrite_their_inputs_give_the_results_of_eager_mode() {
    check_compiled(seeds(120), &MIDDLE, |_| placing(), donated);
}

/// Chains of writes to slices, with reads between.
const SLICES: Limits = Limits {
    slices: true,
    ops: 24,
    ..SMALL
};

#[test]
fn interpreted_slice_writes_give_the_results_of_eager_mode() {
    each(seeds(2500), |seed| check(seed, &SLICES, interpreted));
}

#[test]
fn compiled_slice_writes_give_the_results_of_eager_mode() {
    let limits = Limits {
        ops: 12,
        slices: true,
        ..MIDDLE
    };
    check_compiled(seeds(120), &limits, |_| Policy::default(), compiled);
}

/// In the memory of inputs.
#[test]
fn slice_writes_over_inputs_give_the_results_of_eager_mode() {
    let limits = Limits {
        ops: 12,
        slices: true,
        ..MIDDLE
    };
    check_compiled(seeds(120), &limits, |_| placing(), donated);
}
