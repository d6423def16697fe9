//! Emission is a function of the graph: the same graph gives the same kernels, text, arguments and launch configuration, in every
//! process. `FERROTRACE_REPLAY=folder` writes all of them there, one file a graph and target, and `FERROTRACE_REPLAY_COUNT`
//! says of how many random graphs, so that two versions of the compiler can be compared (`.ci/replay`).
#![allow(missing_docs)]

#[path = "common/mod.rs"]
mod common;

use common::device_forms::TYPICAL;
use common::device_kernels;
use common::generate::{Limits as Draw, program};
use ferrotrace_jit::emit::Emitted;
use ferrotrace_jit::lower::lower;
use ferrotrace_jit::policy::Policy;
use ferrotrace_jit::schedule::{Scheduled, fuse};
use ferrotrace_jit::simplify::simplify;
use ferrotrace_jit::target::Target;
use ferrotrace_jit::{Graph, Precision, emit};
use ferrotrace_runtime::{CCompiler, DType, Isa};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What kernels are written for: registers of so many bytes, or a CUDA device.
const TARGETS: [(&str, usize); 4] = [("16", 16), ("32", 32), ("64", 64), ("cuda", 0)];

/// The kernels of a graph.
fn kernels(graph: &Graph, vector: usize) -> Vec<Emitted> {
    match vector {
        0 => device_kernels::kernels(graph, &device_kernels::device()),
        _ => for_host(graph, vector),
    }
}

fn for_host(graph: &Graph, vector: usize) -> Vec<Emitted> {
    let graph = simplify(graph).expect("the graph simplifies");
    let policy = Policy::from(Target::with_vectors(vector));
    let lowering = lower(&graph, &policy).expect("the graph lowers");
    let schedule = fuse(&graph, &lowering, &policy);
    let fused = schedule.steps.iter().filter_map(|step| match step {
        Scheduled::Fused(fused) => Some(emit::emit(fused, &schedule.stored, &policy)),
        Scheduled::Call(_) => None,
    });
    fused.collect()
}

/// All that the run is given of a kernel.
fn text(graph: &Graph, vector: usize) -> String {
    let mut out = format!("{graph}");
    for kernel in kernels(graph, vector) {
        let Emitted {
            source,
            pointers,
            params,
            streams,
            in_place,
            updates,
            numbers,
            chunks,
            scratch,
            local,
            grid,
            ..
        } = &kernel;
        let _ = writeln!(
            out,
            "==== {pointers:?}\n{params:?} {numbers:?}\nstreams {streams:?} in place {in_place:?} updates {updates:?}\n\
             chunks {chunks} scratch {scratch} local {local} {grid:?}\n>>>>\n{}",
            source.text()
        );
    }
    out
}

/// The flags that C is compiled with for vectors of so many bytes, a line each.
fn flags() -> String {
    let Ok(compiler) = CCompiler::get() else {
        return String::new();
    };
    let host = Isa::host().flags();
    let common = compiler.flags().into_iter().filter(|f| !host.contains(f));
    let common: Vec<&str> = common.collect();
    let sets = [("16", Isa::Sse2), ("32", Isa::Avx2), ("64", Isa::Avx512)];
    let line = |(target, isa): (&str, Isa)| {
        let all = [&common[..], isa.flags()].concat();
        format!("{target}: {}\n", all.join(" "))
    };
    sets.map(line).concat()
}

/// The graphs of the file tests and random ones, by name.
fn graphs() -> Vec<(String, Graph)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files");
    let files = std::fs::read_dir(folder).expect("the folder of test files");
    let mut all: Vec<(String, Graph)> = files
        .map(|file| {
            let path = file.expect("a file").path();
            let text = std::fs::read_to_string(&path).expect("a test file");
            let graph = text.split("====").next().unwrap_or_default().parse();
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            (name.into_owned(), graph.expect("a graph"))
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let typical = TYPICAL.iter().enumerate().map(|(i, text)| {
        let graph = text.parse().expect("a graph");
        (format!("typical-{i}"), graph)
    });
    all.extend(typical);
    let count = std::env::var("FERROTRACE_REPLAY_COUNT").ok();
    let count = count.and_then(|n| n.parse().ok()).unwrap_or(60);
    let sizes: [&'static [usize]; 3] = [&[1, 3, 5, 17], &[64, 100, 257], &[1000, 4096]];
    for seed in 0..count {
        let draw = Draw {
            ops: 4 + seed as usize % 30,
            numel: 1 << 20,
            sizes: sizes[seed as usize % 3],
            dtypes: &[DType::F32, DType::BF16, DType::I64, DType::F64, DType::F16],
            pointwise: false,
            precision: match seed % 5 {
                0 => Precision::EagerExact,
                _ => Precision::Fast,
            },
            approximate: false,
            slices: seed % 7 == 0,
            long: false,
        };
        all.push((format!("random-{seed}"), program(seed, &draw).graph));
    }
    all
}

#[test]
fn the_same_graph_gives_the_same_kernels() {
    let folder = std::env::var_os("FERROTRACE_REPLAY").map(PathBuf::from);
    if let Some(folder) = &folder {
        std::fs::create_dir_all(folder).expect("a folder");
        std::fs::write(folder.join("flags"), flags()).expect("a file");
    }
    for (name, graph) in graphs() {
        for (target, vector) in TARGETS {
            let first = text(&graph, vector);
            assert_eq!(first, text(&graph, vector), "{name} for {target}");
            if let Some(folder) = &folder {
                let path = folder.join(format!("{name}.{target}.txt"));
                std::fs::write(path, first).expect("a file");
            }
        }
    }
}
