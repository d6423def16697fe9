//! Snapshots of generated C: kernels' own text, without the support functions they call, for registers of 64 bytes.
#![allow(missing_docs)]

use ferrotrace_jit::Graph;
use ferrotrace_jit::emit::{Emitted, emit};
use ferrotrace_jit::lower::lower;
use ferrotrace_jit::policy::Policy;
use ferrotrace_jit::schedule::{Scheduled, fuse};
use ferrotrace_jit::simplify::simplify;
use ferrotrace_jit::target::Target;
use std::fmt::Write as _;

/// The kernels of a graph, for registers of 64 bytes.
fn kernels(text: &str) -> Vec<Emitted> {
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let graph = simplify(&graph).expect("the graph simplifies");
    let policy = Policy::from(Target::with_vectors(64));
    let lowering = lower(&graph, &policy).expect("the graph lowers");
    let schedule = fuse(&graph, &lowering, &policy);
    let fused = schedule.steps.iter().filter_map(|step| match step {
        Scheduled::Fused(fused) => Some(emit(fused, &schedule.stored, &policy)),
        _ => None,
    });
    fused.collect()
}

fn emitted(text: &str) -> String {
    let mut found = String::new();
    for kernel in kernels(text) {
        let _ = writeln!(found, "// pointers {:?}", kernel.pointers);
        let _ = writeln!(found, "// params {:?}", kernel.params);
        let (chunks, scratch, local) = (kernel.chunks, kernel.scratch, kernel.local);
        let _ = writeln!(
            found,
            "// chunks {chunks} scratch {scratch} local {local} in place {:?}",
            kernel.in_place
        );
        found.push_str(&kernel.source.body);
    }
    found
}

/// Results of less than the cache are written past it where the kernel's whole traffic is more than it holds, and where
/// they are large.
#[test]
fn results_of_crowded_kernels_pass_the_cache() {
    let wanted = |rows: usize, results: &str| {
        let all = kernels(&format!(
            "%0: f32[{rows}, 1024] = input 0 [1024, 1]
            %1: f32[{rows}, 1024] = input 1 [1024, 1]
            %2: f32[{rows}, 1024] = add(%0, %1)
            %3: f32[{rows}, 1] = sum(%2) {{dims: [1], keepdim: true}}
            %4: f32[{rows}, 1024] = mul(%2, %3)
            return {results}"
        ));
        let streams = all.iter().flat_map(|kernel| &kernel.streams);
        streams.map(|s| s.2).collect::<Vec<bool>>()
    };
    assert_eq!(wanted(4096, "%2 %4"), [true, true]);
    assert_eq!(wanted(4096, "%4"), [false]);
    assert_eq!(wanted(2048, "%2 %4"), [false, false]);
    assert_eq!(wanted(16384, "%4"), [true]);
}

macro_rules! snapshots {
    ($($name:ident: $text:literal;)*) => {$(
        #[test]
        fn $name() {
            insta::assert_snapshot!(emitted($text));
        }
    )*};
}

snapshots! {
    pointwise: "
        %0: f32[1000] = input 0 [1]
        %1: f32[1000] = input 1 [1]
        %2: f32[1000] = mul(%0, %1)
        %3: f32[1000] = add(%2, $0=0.5)
        %4: f32[1000] = relu(%3)
        return %4";
    softmax: "
        %0: f32[64, 1000] = input 0 [1000, 1]
        %1: f32[64, 1000] = softmax(%0) {dim: 1}
        return %1";
    layer_norm: "
        %0: f32[64, 100] = input 0 [100, 1]
        %1: f32[100] = input 1 [1]
        %2: f32[64, 100] = layer_norm(%0, %1, %1, $0=1e-5) {n: 1, weight: true, bias: true}
        return %2";
    sum_and_its_norm: "
        %0: f32[64, 1000] = input 0 [1000, 1]
        %1: f32[64, 1000] = input 1 [1000, 1]
        %2: f32[64, 1000] = add(%0, %1)
        %3: f32[64, 1000] = square(%2)
        %4: f32[64, 1] = sum(%3) {dims: [1], keepdim: true}
        %5: f32[64, 1] = rsqrt(%4)
        %6: f32[64, 1000] = mul(%2, %5)
        return %2 %6";
    sum_of_rows: "
        %0: f32[64, 1000] = input 0 [1000, 1]
        %1: f32[64] = sum(%0) {dims: [1], keepdim: false}
        return %1";
    sum_of_columns: "
        %0: f32[64, 1000] = input 0 [1000, 1]
        %1: f32[1000] = sum(%0) {dims: [0], keepdim: false}
        return %1";
    sum_of_many_columns: "
        %0: f32[3000, 100] = input 0 [100, 1]
        %1: f32[100] = sum(%0) {dims: [0], keepdim: false}
        return %1";
    sum_of_permuted: "
        %0: f32[1000, 30, 100] = input 0 [3000, 100, 1]
        %1: f32[1000, 100, 30] = permute(%0) {order: [0, 2, 1]}
        %2: f32[100, 30] = sum(%1) {dims: [0], keepdim: false}
        return %2";
    sum_of_all: "
        %0: f64[300, 1000] = input 0 [1000, 1]
        %1: f64[] = sum(%0) {dims: [0, 1], keepdim: false}
        %2: f64[] = sqrt(%1)
        return %2";
    variance_of_all: "
        %0: f32[300, 1000] = input 0 [1000, 1]
        %1: f32[] = var(%0) {dims: [0, 1], keepdim: false, correction: 1}
        return %1";
    variance_of_columns: "
        %0: f32[9000, 100] = input 0 [100, 1]
        %1: f32[100] = var(%0) {dims: [0], keepdim: false, correction: 1}
        return %1";
    argmax: "
        %0: f32[64, 100] = input 0 [100, 1]
        %1: i64[64] = argmax(%0) {dims: [1], keepdim: false}
        return %1";
    cat: "
        %0: f32[3, 40] = input 0 [40, 1]
        %1: f32[3, 50] = input 1 [50, 1]
        %2: f32[3, 40] = neg(%0)
        %3: f32[3, 90] = cat(%2, %1) {dim: 1}
        return %3";
    pad: "
        %0: i32[3, 40] = input 0 [40, 1]
        %1: i32[6, 42] = pad(%0, $0=7) {pads: [[1, 2], [3, -1]]}
        return %1";
    gather: "
        %0: f32[50, 60] = input 0 [60, 1]
        %1: i64[50, 30] = input 1 [30, 1]
        %2: f32[50, 30] = gather(%0, %1) {dim: 1}
        return %2";
    sum_of_gathered_rows: "
        %0: f32[200000, 60] = input 0 [60, 1]
        %1: i64[20, 30] = input 1 [30, 1]
        %2: f32[20, 30, 60] = index(%0, %1) {axes: [0], at: 0}
        %3: f32[20, 60] = sum(%2) {dims: [1], keepdim: false}
        return %3";
    transposed: "
        %0: f32[33, 65] = input 0 [65, 1]
        %1: f32[65, 33] = input 1 [33, 1]
        %2: f32[33, 65] = permute(%1) {order: [1, 0]}
        %3: f32[33, 65] = add(%0, %2)
        return %3";
    half: "
        %0: bf16[500] = input 0 [1]
        %1: bf16[500] = exp(%0)
        %2: bf16[500] = mul(%1, $0=2.0)
        %3: bool[500] = gt(%2, 1.0)
        return %2 %3";
    random: "
        %0: f32[500] = randn($0=1, $1=2)
        %1: f32[500] = input 0 [1]
        %2: f32[500] = add(%1, %0)
        return %2";
    draws: "
        %0: f32[500] = randn($0=1, $1=2)
        %1: f32[500] = randn($0=1, $2=3)
        %2: f32[500] = bernoulli($0=1, $3=4, $4=0.3)
        %3: f32[500] = mul(%0, %1)
        %4: f32[500] = mul(%3, %2)
        return %4";
    strided: "
        %0: f32[10, 20] = input 0 [-40, 2]
        %1: f32[10, 20] = abs(%0)
        return %1";
    scan_of_rows: "
        %0: f32[64, 1000] = input 0 [1000, 1]
        %1: f32[64, 1000] = mul(%0, %0)
        %2: f32[64, 1000] = cumsum(%1) {dim: 1}
        return %2";
    scan_of_columns: "
        %0: f32[64, 1000] = input 0 [1000, 1]
        %1: f32[64, 1000] = cumsum(%0) {dim: 0}
        return %1";
    embedding_gradient: "
        %0: f32[500, 60] = input 0 [60, 1]
        %1: i64[2000] = input 1 [1]
        %2: f32[2000, 60] = input 2 [60, 1]
        %3: f32[2000, 60] = mul(%2, $0=0.5)
        %4: f32[500, 60] = index_put(%0, %3, %1) {axes: [0], at: 0, accumulate: true}
        return %4";
}
