//! Random graphs, differentiated: gradients beside differences of the loss, and interpreted and compiled gradients beside
//! those of ready-made kernels. Seeds and their number are chosen as for random graphs (`fuzz.rs`).
#![allow(missing_docs)]

mod common;

use common::campaign::{batches, each, few, seeds};
use common::differentiate::{Loss, loss};
use common::generate::Limits;
use common::wide::{known, roundoff};
use common::{Rng, kept, values};
use ferrotrace_jit::interp::interpret;
use ferrotrace_jit::policy::Policy;
use ferrotrace_jit::{Draft, Graph, Plan, Precision, run_eagerly};
use ferrotrace_kernels::{Array, ValueId};
use ferrotrace_runtime::{DType, KernelSource, Result, Scalar, compile_kernels};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Mostly numbers whose gradients can be compared with differences.
const WIDE: [DType; 10] = {
    let mut dtypes = [DType::F64; 10];
    (dtypes[8], dtypes[9]) = (DType::I64, DType::Bool);
    dtypes
};

const SMALL: Limits = Limits {
    ops: 24,
    numel: 200,
    sizes: &[0, 1, 1, 2, 3, 4, 5, 6, 8],
    dtypes: &WIDE,
    pointwise: false,
    precision: Precision::Fast,
    approximate: false,
    slices: false,
    long: false,
};

/// Numbers of one narrow type, beside integers and truth values.
const fn mostly(narrow: DType) -> [DType; 10] {
    let mut dtypes = WIDE;
    let mut i = 0;
    while i < 8 {
        dtypes[i] = narrow;
        i += 1;
    }
    dtypes
}

const SINGLE: [DType; 10] = mostly(DType::F32);
const BRAIN: [DType; 10] = mostly(DType::BF16);
const HALF: [DType; 10] = mostly(DType::F16);

/// The narrow types by turns.
fn narrow(seed: u64, limits: &Limits) -> Limits {
    let dtypes: &'static [DType] = [&SINGLE, &BRAIN, &HALF][seed as usize % 3];
    Limits { dtypes, ..*limits }
}

const MIDDLE: Limits = Limits {
    ops: 12,
    numel: 2000,
    sizes: &[1, 2, 3, 4, 6, 7, 16, 17, 33],
    ..SMALL
};

type Runner = fn(Graph, &[Array], &[Scalar]) -> Result<Vec<Array>>;

fn interpreted(graph: Graph, arrays: &[Array], scalars: &[Scalar]) -> Result<Vec<Array>> {
    interpret(&Draft::of(graph, &Policy::default())?, arrays, scalars)
}

fn compiled(graph: Graph, arrays: &[Array], scalars: &[Scalar]) -> Result<Vec<Array>> {
    Plan::of(graph)?.run(&mut kept(arrays), scalars)
}

/// The loss with its gradients as the graph's outputs, by those inputs that it depends on.
fn differentiated(seed: u64, mut of: Loss) -> Option<Loss> {
    let found = of.gradients();
    let found = found.unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", of.graph));
    let pairs = of.by.iter().zip(found);
    let (by, mut ends): (Vec<ValueId>, Vec<ValueId>) =
        pairs.filter_map(|(x, g)| Some((*x, g?))).unzip();
    if ends.is_empty() {
        return None;
    }
    ends.push(of.loss);
    of.graph.set_outputs(ends);
    of.graph
        .verify()
        .unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    of.by = by;
    Some(of)
}

/// The slope of the loss along a direction, and how exactly it is known; `None` near kinks and jumps, and where numbers
/// leave the range in which differences mean something.
fn slope(of: &Loss, directions: &[Vec<f64>]) -> Option<(f64, f64)> {
    const STEP: f64 = 1e-5;
    let at = |step: f64| of.value(&of.moved(directions, step * STEP)).ok();
    let (here, above, below) = (at(0.0)?, at(1.0)?, at(-1.0)?);
    let (far_above, far_below) = (at(2.0)?, at(-2.0)?);
    let central = (above - below) / (2.0 * STEP);
    let wide = (far_above - far_below) / (4.0 * STEP);
    let (right, left) = ((above - here) / STEP, (here - below) / STEP);
    let size = here.abs().max(above.abs()).max(below.abs());
    // Rounding of the loss, and the cubic term.
    let error = 1e-13 * size.max(1.0) / STEP + 4.0 * (central - wide).abs();
    let smooth = (right - left).abs() < 1e-2 * (1.0 + central.abs());
    let known = error < 1e-4 * (1.0 + central.abs()) && size < 1e8;
    (smooth && known && central.is_finite()).then_some((central, error))
}

/// Compares the gradients with differences along two directions; how many could be compared.
fn check_slopes(seed: u64, of: Loss) -> usize {
    let Some(of) = differentiated(seed, of).filter(Loss::is_wide) else {
        return 0;
    };
    let found = run_eagerly(&of.graph, &of.arrays, &of.scalars);
    let found = found.unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", of.graph));
    let found: Vec<Vec<f64>> = found.iter().map(values).collect();
    let mut rng = Rng::new(seed ^ 0xd1f);
    let mut compared = 0;
    for _ in 0..2 {
        let directions = of.directions(&mut rng);
        let Some((slope, error)) = slope(&of, &directions) else {
            continue;
        };
        let terms = found.iter().flatten().zip(directions.iter().flatten());
        let products: Vec<f64> = terms.map(|(g, d)| g * d).collect();
        let (sum, size) = (
            products.iter().sum::<f64>(),
            products.iter().map(|p| p.abs()).sum::<f64>(),
        );
        let close = (sum - slope).abs() <= error + 1e-6 * (1.0 + size);
        assert!(
            close,
            "seed {seed}: the gradients give {sum}, differences {slope} (within {error:e})\nby {:?}\n{}",
            of.by, of.graph
        );
        compared += 1;
    }
    compared
}

/// What differs between a runner's gradients and those of ready-made kernels. Gradients that change by as much where the
/// inputs change in the last places are not compared.
fn mismatch(of: &Loss, run: Runner) -> Option<String> {
    let eager = |arrays: &[Array]| run_eagerly(&of.graph, arrays, &of.scalars);
    let want = match eager(&of.arrays) {
        Ok(want) => want,
        Err(e) => return Some(format!("eager: {e}")),
    };
    let got = match run(of.graph.clone(), &of.arrays, &of.scalars) {
        Ok(got) => got,
        Err(e) => return Some(format!("{e}")),
    };
    let moved = |seed: u64| {
        let directions = of.directions(&mut Rng::new(seed));
        eager(&of.moved(&directions, 1e-13)).unwrap_or_default()
    };
    let others: Vec<Vec<Array>> = (1..4).map(moved).collect();
    for (i, (got, want)) in got.iter().zip(&want).enumerate() {
        let (shape, numbers) = (got.shape() == want.shape(), (values(got), values(want)));
        if !shape || got.dtype != want.dtype {
            return Some(format!("output {i} of another shape or type"));
        }
        let others: Vec<Vec<f64>> = others.iter().map(|o| values(&o[i])).collect();
        let size = numbers.1.iter().fold(1.0f64, |m, x| m.max(x.abs()));
        for (k, (got, want)) in numbers.0.iter().zip(&numbers.1).enumerate() {
            let spread = |m: f64, o: &Vec<f64>| m.max((o[k] - want).abs());
            let spread = others.iter().fold(0.0, spread);
            let same = got == want || got.is_nan() && want.is_nan();
            let known = spread.is_finite() && want.is_finite();
            let close = (got - want).abs() <= 1e-10 * size + 100.0 * spread;
            if !same && known && !close {
                return Some(format!("output {i}, element {k}: {got} for {want}"));
            }
            if !same && want.is_finite() && !got.is_finite() {
                return Some(format!("output {i}, element {k}: {got} for {want}"));
            }
        }
    }
    None
}

fn check(seed: u64, of: Loss, run: Runner) -> usize {
    let Some(of) = differentiated(seed, of).filter(Loss::is_wide) else {
        return 0;
    };
    if let Some(why) = mismatch(&of, run) {
        panic!("seed {seed}: {why}\n{}", of.graph);
    }
    1
}

/// What differs between a runner's gradients of narrow numbers and those in binary64, beyond what rounding was seen to move
/// them by: each must be as near to these, or to eager mode's, which may have decided otherwise. How many were compared.
fn narrow_mismatch(of: &Loss, run: Runner) -> std::result::Result<usize, String> {
    let Some(want) = known(of) else { return Ok(0) };
    let eager = run_eagerly(&of.graph, &of.arrays, &of.scalars);
    let eager = eager.map_err(|e| format!("eager: {e}"))?;
    let got = run(of.graph.clone(), &of.arrays, &of.scalars).map_err(|e| e.to_string())?;
    let mut compared = 0;
    for (i, ((want, eager), got)) in want.iter().zip(&eager).zip(&got).enumerate() {
        if got.shape() != eager.shape() || got.dtype != eager.dtype {
            return Err(format!("output {i} of another shape or type"));
        }
        let size = want.values.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        let numbers = values(eager).into_iter().zip(values(got)).enumerate();
        for (k, (eager, got)) in numbers {
            let (x, spread) = (want.values[k], want.spread[k]);
            let bound = 8.0 * spread + 4.0 * roundoff(narrowest(of)) * size;
            // Where numbers leave the range of the type nothing is known.
            if !bound.is_finite() || !x.is_finite() || !eager.is_finite() || size > 1e4 {
                continue;
            }
            compared += 1;
            let near = |other: f64| (got - other).abs() <= bound;
            if !near(x) && !near(eager) {
                return Err(format!(
                    "output {i}, element {k}: {got} for {x} (within {bound:e}), eager {eager}"
                ));
            }
        }
    }
    Ok(compared)
}

/// The narrowest type of a graph's floating-point numbers.
fn narrowest(of: &Loss) -> DType {
    let dtypes = of.graph.nodes().iter().map(|node| node.dtype);
    let floats = dtypes.filter(|dtype| dtype.is_float());
    let wider = |a: DType, b: DType| if roundoff(a) > roundoff(b) { a } else { b };
    floats.fold(DType::F64, wider)
}

fn check_narrow(seed: u64, of: Loss, run: Runner) -> usize {
    let Some(of) = differentiated(seed, of) else {
        return 0;
    };
    let compared = narrow_mismatch(&of, run);
    let compared = compared.unwrap_or_else(|why| panic!("seed {seed}: {why}\n{}", of.graph));
    usize::from(compared > 0)
}

/// Compiles the kernels of many gradients at once, and checks each.
fn check_compiled(
    seeds: std::ops::Range<u64>,
    limits: impl Fn(u64) -> Limits + Sync,
    check: fn(u64, Loss, Runner) -> usize,
) {
    batches(seeds, 32, |batch| {
        let drawn: Vec<(u64, Loss)> = batch
            .filter_map(|seed| Some((seed, loss(seed, &limits(seed))?)))
            .collect();
        let mut sources: Vec<KernelSource> = Vec::new();
        for (seed, of) in &drawn {
            let Some(of) = differentiated(*seed, of.clone()) else {
                continue;
            };
            let draft = Draft::of(of.graph, &Policy::default());
            let steps = draft.map(|draft| draft.steps).unwrap_or_default();
            let kernels = steps.iter().filter_map(|step| step.kernel());
            sources.extend(kernels.map(|kernel| kernel.source.clone()));
        }
        for sources in sources.chunks(64) {
            compile_kernels(sources);
        }
        for (seed, of) in drawn {
            check(seed, of, compiled);
        }
    });
}

/// Most graphs have a loss, and most losses slopes.
fn enough(compared: AtomicUsize, of: std::ops::Range<u64>) {
    let (compared, count) = (compared.into_inner(), of.end - of.start);
    println!("{compared} compared");
    assert!(
        count < 50 || compared as u64 > count / 4,
        "{compared} of {count}"
    );
}

#[test]
fn gradients_are_the_slopes_of_the_loss() {
    let compared = AtomicUsize::new(0);
    each(seeds(600), |seed| {
        let of = loss(seed, &SMALL);
        let found = of.map_or(0, |of| check_slopes(seed, of));
        compared.fetch_add(found, Relaxed);
    });
    enough(compared, seeds(600));
}

#[test]
fn second_derivatives_are_the_slopes_of_gradients() {
    let limits = Limits { ops: 8, ..SMALL };
    let compared = AtomicUsize::new(0);
    each(seeds(300), |seed| {
        let Some(of) = loss(seed, &limits) else {
            return;
        };
        let of = of.of_gradients(seed);
        let of = of.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let found = of.map_or(0, |of| check_slopes(seed, of));
        compared.fetch_add(found, Relaxed);
    });
    println!("{} compared", compared.into_inner());
}

#[test]
fn interpreted_gradients_are_those_of_eager_mode() {
    let compared = AtomicUsize::new(0);
    each(seeds(600), |seed| {
        let of = loss(seed, &SMALL);
        let found = of.map_or(0, |of| check(seed, of, interpreted));
        compared.fetch_add(found, Relaxed);
    });
    enough(compared, seeds(600));
}

#[test]
fn compiled_gradients_are_those_of_eager_mode() {
    check_compiled(few(48), |_| MIDDLE, check);
}

#[test]
fn interpreted_gradients_of_narrow_numbers_are_those_of_binary64() {
    let compared = AtomicUsize::new(0);
    let limits = Limits { ops: 12, ..SMALL };
    each(seeds(600), |seed| {
        let of = loss(seed, &narrow(seed, &limits));
        let found = of.map_or(0, |of| check_narrow(seed, of, interpreted));
        compared.fetch_add(found, Relaxed);
    });
    enough(compared, seeds(600));
}

#[test]
fn compiled_gradients_of_narrow_numbers_are_those_of_binary64() {
    check_compiled(few(24), |seed| narrow(seed, &MIDDLE), check_narrow);
}

/// The bounds are narrow enough to see gradients that are a sixteenth too large.
#[test]
fn wrong_gradients_of_narrow_numbers_are_seen() {
    let wrong: Runner = |graph, arrays, scalars| {
        let mut found = run_eagerly(&graph, arrays, scalars)?;
        for array in &mut found {
            let numbers: Vec<f64> = values(array).iter().map(|x| x * 1.0625).collect();
            array.layout = ferrotrace_runtime::Layout::contiguous(array.shape().clone());
            array.buffer = common::buffer_of(&numbers, array.dtype);
        }
        Ok(found)
    };
    let (seen, compared) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let limits = Limits { ops: 12, ..SMALL };
    each(0..150, |seed| {
        let of = loss(seed, &narrow(seed, &limits));
        let Some(of) = of.and_then(|of| differentiated(seed, of)) else {
            return;
        };
        if narrow_mismatch(&of, interpreted).is_ok_and(|count| count > 0) {
            compared.fetch_add(1, Relaxed);
            seen.fetch_add(usize::from(narrow_mismatch(&of, wrong).is_err()), Relaxed);
        }
    });
    let (seen, compared) = (seen.into_inner(), compared.into_inner());
    assert!(seen * 2 > compared, "{seen} of {compared}");
}
