//! Generated CUDA sources compile under NVRTC: typical graphs, random graphs, every operator. Needs no device; without
//! NVRTC the tests say so and pass.
#![allow(missing_docs)]

mod common;

use common::generate::{Limits, program};
use ferrotrace_jit::emit::cuda::emit;
use ferrotrace_jit::lower::{Limits as Thresholds, lower};
use ferrotrace_jit::schedule::{Scheduled, fuse};
use ferrotrace_jit::simplify::simplify;
use ferrotrace_jit::{Graph, Precision};
use ferrotrace_kernels::{BinaryOp, UnaryOp};
use ferrotrace_runtime::{DType, compile_for};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Mutex;

const ARCH: &str = "sm_90";

/// The CUDA sources of a graph's kernels.
fn sources(graph: &Graph) -> Vec<String> {
    let graph = simplify(graph).expect("the graph simplifies");
    let limits = Thresholds {
        moments: false,
        ..Thresholds::default()
    };
    let lowering = lower(&graph, &limits).expect("the graph lowers");
    let schedule = fuse(&graph, &lowering, &limits);
    let steps = schedule.steps.iter();
    steps
        .filter_map(|step| match step {
            Scheduled::Fused(fused) => Some(emit(fused, &schedule.stored).source.text()),
            Scheduled::Call(_) => None,
        })
        .collect()
}

/// Whether NVRTC is here; says so if not.
fn available() -> bool {
    match compile_for(ARCH, "extern \"C\" __global__ void ft_0() {}") {
        Ok(_) => true,
        Err(error) => {
            eprintln!("skipped: {error}");
            false
        }
    }
}

/// Compiles each distinct source, on two threads.
fn compile_all(sources: BTreeSet<String>) {
    let queue = Mutex::new(sources.into_iter());
    let work = || {
        loop {
            let next = queue.lock().expect("no panic").next();
            let Some(text) = next else { return };
            if let Err(error) = compile_for(ARCH, &text) {
                panic!("{error}\n{text}");
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
}

fn parsed(text: &str) -> Graph {
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

const TYPICAL: &[&str] = &[
    "%0: f32[1000] = input 0 [1]
     %1: f32[1000] = mul(%0, $0=0.5)
     %2: f32[1000] = tanh(%1)
     return %2",
    "%0: bf16[512, 3000] = input 0 [3000, 1]
     %1: bf16[512, 3000] = gelu(%0)
     return %1",
    "%0: f32[4096, 8192] = input 0 [8192, 1]
     %1: f32[4096, 8192] = softmax(%0) {dim: 1}
     return %1",
    "%0: f32[64, 100] = input 0 [100, 1]
     %1: f32[100] = input 1 [1]
     %2: f32[64, 100] = layer_norm(%0, %1, %1, $0=1e-5) {n: 1, weight: true, bias: true}
     return %2",
    "%0: f32[64, 1000] = input 0 [1000, 1]
     %1: f32[64] = sum(%0) {dims: [1], keepdim: false}
     return %1",
    "%0: f32[64, 1000] = input 0 [1000, 1]
     %1: f32[1000] = sum(%0) {dims: [0], keepdim: false}
     return %1",
    "%0: f32[16384, 8192] = input 0 [8192, 1]
     %1: f32[8192] = sum(%0) {dims: [0], keepdim: false}
     return %1",
    "%0: f64[3000, 1000] = input 0 [1000, 1]
     %1: f64[] = sum(%0) {dims: [0, 1], keepdim: false}
     %2: f64[] = sqrt(%1)
     return %2",
    "%0: f16[640, 1000] = input 0 [1000, 1]
     %1: i64[640] = argmax(%0) {dims: [1], keepdim: false}
     return %1",
    "%0: f32[2, 1000000] = input 0 [1000000, 1]
     %1: i64[2] = argmin(%0) {dims: [1], keepdim: false}
     return %1",
    "%0: f32[3, 40] = input 0 [40, 1]
     %1: f32[3, 50] = input 1 [50, 1]
     %2: f32[3, 40] = neg(%0)
     %3: f32[3, 90] = cat(%2, %1) {dim: 1}
     return %3",
    "%0: i32[3, 40] = input 0 [40, 1]
     %1: i32[6, 42] = pad(%0, $0=7) {pads: [[1, 2], [3, -1]]}
     return %1",
    "%0: f32[50, 60] = input 0 [60, 1]
     %1: i64[50, 30] = input 1 [30, 1]
     %2: f32[50, 30] = gather(%0, %1) {dim: 1}
     return %2",
    "%0: f32[33, 65] = input 0 [65, 1]
     %1: f32[65, 33] = input 1 [33, 1]
     %2: f32[33, 65] = permute(%1) {order: [1, 0]}
     %3: f32[33, 65] = add(%0, %2)
     return %3",
    "%0: f32[500] = randn($0=1, $1=2)
     %1: f32[500] = input 0 [1]
     %2: f32[500] = add(%1, %0)
     return %2",
    "%0: f32[70000, 40000] = input 0 [40000, 1]
     %1: f32[70000, 40000] = abs(%0)
     return %1",
    "%0: f32[10, 20] = input 0 [-40, 2]
     %1: f32[10, 20] = abs(%0)
     return %1",
];

#[test]
fn typical_graphs() {
    if available() {
        compile_all(
            TYPICAL
                .iter()
                .flat_map(|text| sources(&parsed(text)))
                .collect(),
        );
    }
}

/// A kernel for each dtype with every operator that takes it.
#[test]
fn every_operator() {
    if !available() {
        return;
    }
    let mut all = BTreeSet::new();
    for dtype in DType::ALL {
        let mut text = format!("%0: {dtype}[100] = input 0 [1]\n%1: {dtype}[100] = input 1 [1]\n");
        let mut outputs = Vec::new();
        let mut line = |dtype: DType, call: String| {
            let id = outputs.len() + 2;
            let _ = writeln!(text, "%{id}: {dtype}[100] = {call}");
            outputs.push(format!("%{id}"));
        };
        for op in UnaryOp::ALL {
            if let Some(compute) = op.compute_dtype(dtype) {
                line(op.result_dtype(compute), format!("{}(%0)", op.name()));
            }
        }
        for op in BinaryOp::ALL {
            if let Some(compute) = op.compute_dtype(dtype) {
                line(op.result_dtype(compute), format!("{}(%0, %1)", op.name()));
            }
        }
        let _ = writeln!(text, "return {}", outputs.join(" "));
        all.extend(sources(&parsed(&text)));
    }
    assert!(all.len() >= DType::ALL.len());
    compile_all(all);
}

#[test]
fn random_graphs() {
    if !available() {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    let start = number("FERROTRACE_FUZZ_SEED").unwrap_or(0);
    let mut all = BTreeSet::new();
    for seed in start..start + number("FERROTRACE_FUZZ_COUNT").unwrap_or(12) {
        let (precision, large) = match seed % 3 {
            0 => (Precision::Fast, false),
            1 => (Precision::EagerExact, false),
            _ => (Precision::Fast, true),
        };
        let sizes: &[usize] = match large {
            true => &[1, 2, 3, 5, 40, 130, 600, 1100, 70_000],
            false => &[0, 1, 2, 3, 4, 7, 16, 17, 33, 70],
        };
        let limits = Limits {
            ops: 12,
            numel: if large { 300_000 } else { 3000 },
            sizes,
            dtypes: &DType::ALL,
            pointwise: false,
            precision,
            approximate: false,
        };
        all.extend(sources(&program(seed, &limits).graph));
    }
    compile_all(all);
}

/// The emitter does not merge moments: a sum about the mean of everything is a pass of its own, each split over blocks.
#[test]
fn a_variance_of_everything_is_two_passes() {
    let graph = parsed(
        "%0: f32[4096, 4096] = input 0 [4096, 1]
         %1: f32[] = var(%0) {dims: [0, 1], keepdim: false, correction: 1}
         return %1",
    );
    // The mean; both sums about it.
    assert_eq!(sources(&graph).len(), 2);
}
