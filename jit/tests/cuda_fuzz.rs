//! Random graphs on a CUDA device against operator-by-operator execution on the CPU. Without a device the tests say so
//! and pass.
#![allow(missing_docs)]

mod common;

use common::difference;
use common::generate::{Limits, Program, program};
use ferrotrace_jit::{Explanation, Graph, PlanInput, Precision, compile, run_eagerly};
use ferrotrace_kernels::{Array, ValueId};
use ferrotrace_runtime::{DType, Device, Result, stats_scope};

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

fn on_device(p: &Program, donated: bool, device: &Device) -> Result<Vec<Array>> {
    let plan = compile(moved(&p.graph, device)?)?;
    let mut inputs = Vec::new();
    for array in &p.arrays {
        let array = array.to_device(device)?;
        inputs.push(PlanInput { array, donated });
    }
    let outputs = plan.run(&mut inputs, &p.scalars)?;
    outputs
        .iter()
        .map(|x| x.to_device(&Device::cpu()))
        .collect()
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
            let plan = moved(&q.graph, device).and_then(compile);
            let text = plan.map_or_else(
                |e| e.to_string(),
                |p| Explanation::of(p.draft()).to_string(),
            );
            return format!("seed {seed}: {why}\n{}\n{text}", q.graph);
        }
    }
    format!("seed {seed}: {why}\n{}", p.graph)
}

fn check(limits: &Limits, donated: bool, default: u64) {
    let Some(device) = device() else { return };
    let number = |name: &str| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    let start = number("FERROTRACE_FUZZ_SEED").unwrap_or(0);
    let count = number("FERROTRACE_FUZZ_COUNT").unwrap_or(default);
    let next = std::sync::atomic::AtomicU64::new(start);
    let bad = std::sync::Mutex::new(Vec::new());
    // NVRTC takes most of the time, and compiles on several threads at once.
    let work = || loop {
        let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if seed >= start + count || bad.lock().expect("no panic").len() >= 5 {
            return;
        }
        let p = program(seed, limits);
        let (why, stats) = stats_scope(|| mismatch(&p, donated, &device));
        let why = why.or((stats.fallbacks > 0).then(|| "ran on ready-made kernels".to_owned()));
        if let Some(why) = why {
            let report = report(seed, &p, &why, donated, &device);
            bad.lock().expect("no panic").push(report);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        (0..threads.min(16)).for_each(|_| drop(scope.spawn(work)));
    });
    let bad = bad.into_inner().expect("no panic");
    println!("{count} graphs from seed {start}, {} differ", bad.len());
    assert!(bad.is_empty(), "{}", bad.join("\n\n"));
}

const MIDDLE: Limits = Limits {
    ops: 16,
    numel: 3000,
    sizes: &[0, 1, 2, 3, 4, 7, 16, 17, 33, 70],
    dtypes: &DType::ALL,
    pointwise: false,
    precision: Precision::Fast,
    approximate: true,
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
        ..MIDDLE
    };
    check(&limits, false, 40);
}
