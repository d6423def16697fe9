//! Random graphs on a CUDA device against operator-by-operator execution on the CPU. Without a device the tests say so
//! and pass.
#![allow(missing_docs)]

mod common;

use common::campaign::{seeds, threads};
use common::generate::{Limits, Program, program};
use common::ready_made::{KINDS, draw};
use common::rounding::oracle::{Rule, compared};
use common::rounding::{self, Sizes};
use common::{difference, kept, values};
use ferrotrace_jit::{Explanation, Graph, Plan, PlanInput, Precision, run_eagerly};
use ferrotrace_kernels::{Array, ValueId};
use ferrotrace_runtime::{DType, Device, Error, Result, Scalar, stats_scope};

fn device() -> Option<Device> {
    match Device::cuda(0) {
        Ok(device) => Some(device),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// The graph with its inputs on the device.
fn moved(graph: &Graph, device: &Device) -> Result<Graph> {
    let on_device = |line: &str| match line.split_once(" = input ") {
        Some(_) => match line.strip_suffix(" exact") {
            Some(head) => format!("{head} on {device} exact"),
            None => format!("{line} on {device}"),
        },
        None => line.to_owned(),
    };
    let text: Vec<String> = graph.to_string().lines().map(on_device).collect();
    let mut graph: Graph = text.join("\n").parse()?;
    graph.set_device(device);
    Ok(graph)
}

/// Runs of a plan: past the one that a graph is captured from, and two more with other memory.
const RUNS: usize = 5;

/// The outputs of the first run; the later ones, which replay a graph where there is one, must have the same bits.
fn on_device(p: &Program, donated: bool, device: &Device) -> Result<Vec<Array>> {
    run_on_device(&p.graph, &p.arrays, &p.scalars, donated, device)
}

fn run_on_device(
    graph: &Graph,
    inputs: &[Array],
    scalars: &[Scalar],
    donated: bool,
    device: &Device,
) -> Result<Vec<Array>> {
    let plan = Plan::of(moved(graph, device)?)?;
    let given = || -> Result<Vec<Array>> { inputs.iter().map(|a| a.to_device(device)).collect() };
    let (mut arrays, mut runs) = (given()?, Vec::new());
    for run in 0..RUNS {
        if donated || run == RUNS - 2 {
            arrays = given()?;
        }
        let mut inputs = match donated {
            true => {
                let all = std::mem::take(&mut arrays).into_iter();
                all.map(|array| PlanInput { array, donated }).collect()
            }
            false => kept(&arrays),
        };
        runs.push(plan.run(&mut inputs, scalars)?);
    }
    let read = |outputs: &Vec<Array>| -> Result<Vec<Array>> {
        let outputs = outputs.iter().map(|x| x.to_device(&Device::cpu()));
        outputs.collect()
    };
    let first = read(&runs[0])?;
    for (number, run) in runs.iter().enumerate().skip(1) {
        for (got, want) in read(run)?.iter().zip(&first) {
            if let Some(why) = difference(got, want, 0.0, false) {
                return Err(Error::internal(format!("run {number} differs: {why}")));
            }
        }
    }
    Ok(first)
}

fn mismatch(p: &Program, donated: bool, device: &Device) -> Option<String> {
    let want = match run_eagerly(&p.graph, &p.arrays, &p.scalars) {
        Ok(want) => want,
        Err(e) => return Some(format!("eager: {e}")),
    };
    let got = match on_device(p, donated, device) {
        Ok(got) => got,
        Err(e) => return Some(format!("{e}")),
    };
    let outputs = p.graph.outputs().iter();
    outputs.zip(got.iter().zip(&want)).find_map(|(v, (g, w))| {
        let t = p.tracks[v.0 as usize];
        difference(g, w, 4.0 * t.error, t.any_zero).map(|d| format!("output %{}: {d}", v.0))
    })
}

/// The failure with one output, the earliest that shows it.
fn report(seed: u64, p: &Program, why: &str, donated: bool, device: &Device) -> String {
    for v in 0..p.graph.nodes().len() {
        let mut q = p.clone();
        q.graph.set_outputs(vec![ValueId(v as u32)]);
        if let Some(why) = mismatch(&q, donated, device) {
            let plan = moved(&q.graph, device).and_then(Plan::of);
            let text = plan.map_or_else(
                |e| e.to_string(),
                |p| Explanation::of(p.draft()).to_string(),
            );
            return format!("seed {seed}: {why}\n{}\n{text}", q.graph);
        }
    }
    format!("seed {seed}: {why}\n{}", p.graph)
}

/// What differs between a use of one operator on the device, compiled and eager, and the CPU's.
fn misused(seed: u64, device: &Device) -> Option<String> {
    let (host, there) = (draw(seed, &Device::cpu()), draw(seed, device));
    let want = run_eagerly(&host.graph, &host.arrays, &[]).expect("eager mode runs it");
    let greatest = values(&want[0]).into_iter().filter(|x| x.is_finite());
    let greatest = greatest.fold(1.0, |most: f64, x| most.max(x.abs()));
    let arrays = host.arrays.iter().map(|x| x.to_device(device));
    let arrays: Vec<Array> = arrays.collect::<Result<_>>().expect("memory");
    let compiled = || Plan::of(there.graph.clone())?.run(&mut kept(&arrays), &[]);
    let eager = || run_eagerly(&there.graph, &arrays, &[]);
    let read = |result: Result<Vec<Array>>| result?[0].to_device(&Device::cpu());
    let ((first, all), stats) = stats_scope(|| {
        let first = read(compiled());
        let all = [read(compiled()), read(eager())];
        (first, all)
    });
    if stats.host_runs + stats.fallbacks > 0 {
        return Some(format!("{} runs on the host", stats.host_runs));
    }
    let first = match first {
        Ok(first) => first,
        Err(error) => return Some(error.to_string()),
    };
    let error = host.tolerance * greatest;
    if let Some(why) = difference(&first, &want[0], error, true) {
        return Some(format!("compiled: {why}"));
    }
    for (how, got) in ["again", "eager"].into_iter().zip(all) {
        let why = match got {
            Ok(got) if how == "again" => difference(&got, &first, 0.0, false),
            Ok(got) => difference(&got, &want[0], error, true),
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = why {
            return Some(format!("{how}: {why}"));
        }
    }
    None
}

/// Calls `test` for seeds, on several threads: NVRTC takes most of the time, and compiles on several at once.
fn for_seeds(default: u64, test: impl Fn(u64) -> Option<String> + Sync) {
    let seeds = seeds(default);
    let next = std::sync::atomic::AtomicU64::new(seeds.start);
    let bad = std::sync::Mutex::new(Vec::new());
    let work = || loop {
        let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if seed >= seeds.end || bad.lock().expect("no panic").len() >= 5 {
            return;
        }
        if let Some(report) = test(seed) {
            bad.lock().expect("no panic").push(report);
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        (0..threads(cores.min(16))).for_each(|_| drop(scope.spawn(work)));
    });
    let bad = bad.into_inner().expect("no panic");
    println!("seeds {seeds:?}, {} differ", bad.len());
    assert!(bad.is_empty(), "{}", bad.join("\n\n"));
}

fn check(limits: &Limits, donated: bool, default: u64) {
    let Some(device) = device() else { return };
    for_seeds(default, |seed| {
        let p = program(seed, limits);
        let (why, stats) = stats_scope(|| mismatch(&p, donated, &device));
        let why = why.or((stats.fallbacks > 0).then(|| "ran on ready-made kernels".to_owned()));
        let why = why.or((stats.host_runs > 0).then(|| "ran on the host".to_owned()));
        why.map(|why| report(seed, &p, &why, donated, &device))
    });
}

/// Convolutions, pooling, sorting, scatters and what else the CPU has ready-made kernels for, on the device alone.
#[test]
fn ready_made_operators() {
    let Some(device) = device() else { return };
    for_seeds(10 * KINDS, |seed| {
        let why = misused(seed, &device)?;
        Some(format!("seed {seed}: {why}\n{}", draw(seed, &device).graph))
    });
}

const MIDDLE: Limits = Limits {
    ops: 16,
    numel: 3000,
    sizes: &[0, 1, 2, 3, 4, 7, 16, 17, 33, 70],
    dtypes: &DType::ALL,
    pointwise: false,
    precision: Precision::Fast,
    approximate: true,
    slices: false,
    long: false,
};

#[test]
fn middle_sized_graphs() {
    check(&MIDDLE, false, 100);
}

#[test]
fn donated_inputs() {
    check(&MIDDLE, true, 50);
}

#[test]
fn exact_graphs() {
    let limits = Limits {
        precision: Precision::EagerExact,
        ..MIDDLE
    };
    check(&limits, false, 100);
}

/// DESIGN: with `EagerExact`, compiled pointwise code is bit for bit the eager result.
#[test]
fn exact_pointwise_graphs() {
    let limits = Limits {
        precision: Precision::EagerExact,
        pointwise: true,
        ops: 10,
        ..MIDDLE
    };
    check(&limits, false, 50);
}

/// Long rows, blocks and pieces: sizes past every threshold of the emitter.
#[test]
fn large_arrays() {
    let limits = Limits {
        ops: 8,
        numel: 300_000,
        sizes: &[1, 2, 3, 5, 40, 130, 600, 1100, 70_000],
        long: true,
        ..MIDDLE
    };
    check(&limits, false, 40);
}

/// All uses of a recorded half-precision value read one number, that of an evaluation in binary64; with `EagerExact` every
/// operation rounds.
#[test]
fn half_values_read_one_number() {
    let Some(device) = device() else { return };
    let sizes = Sizes {
        rows: &[1, 2, 8, 33, 300],
        columns: &[1, 4, 16, 33, 64, 128],
        ops: 12,
    };
    let rules = [
        (Precision::Fast, Rule::Recorded),
        (Precision::EagerExact, Rule::Everywhere),
    ];
    let counted = std::sync::atomic::AtomicUsize::new(0);
    for_seeds(60, |seed| {
        for (precision, rule) in rules {
            let p = rounding::program(seed, sizes, precision);
            let got = run_on_device(&p.graph, &p.arrays, &p.scalars, false, &device);
            let got = got.map_err(|error| error.to_string());
            match got.and_then(|got| compared(&p, rule, &got)) {
                Ok(n) => drop(counted.fetch_add(n, std::sync::atomic::Ordering::Relaxed)),
                Err(why) => return Some(format!("seed {seed}: {why}\n{}", p.graph)),
            }
        }
        None
    });
    assert!(counted.into_inner() > 0, "no result counts");
}
