//! Generated CUDA sources compile under NVRTC: typical graphs, random graphs, every operator. Needs no device; without
//! NVRTC the tests say so and pass.
#![allow(missing_docs)]

#[path = "../common/mod.rs"]
mod common;

mod attentions;
mod axes;
mod order;
mod parts;
mod products;
mod saved;
mod shared;
mod threads;
mod updates;

use common::device_forms::TYPICAL;
use common::device_kernels::{capable, device, kernels as kernels_with};
use common::generate::{Limits, program};
use common::ready_made::{KINDS, draw};
use ferrotrace_jit::body::Source;
use ferrotrace_jit::emit::Emitted;
use ferrotrace_jit::emit::Pointer;
use ferrotrace_jit::emit::cuda::{attention, checks_of, table};
use ferrotrace_jit::lower::{Lowered, lower};
use ferrotrace_jit::policy::Policy;
use ferrotrace_jit::schedule::{Refusal, fuse};
use ferrotrace_jit::simplify::simplify_for;
use ferrotrace_jit::{Graph, Precision};
use ferrotrace_kernels::{
    BinaryOp, Composite, Extent, Op, OpBuilder, OpBuilderExt, Operand, UnaryOp, ValueId,
};
use ferrotrace_runtime::{DType, Device, KernelSource, Layout, Part, Scalar, Shape, compile_for};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Mutex;

const ARCH: &str = "sm_90";
/// With the instructions of groups of warps.
const HOPPER: &str = "sm_90a";

/// Loads of whole chunks that a source names, less the definitions of the two functions.
fn loads(text: &str) -> usize {
    let named = |name: &str| text.matches(name).count();
    named("ft_load(") + named("ft_load_last(") - 2
}

/// The CUDA sources of a graph's kernels, and of those that check their indices ahead.
fn sources(graph: &Graph) -> Vec<String> {
    let all = kernels(graph);
    let reporting = all.iter().filter(|kernel| kernel.grid.reports);
    let checks = reporting
        .filter_map(checks_of)
        .flat_map(|(checks, _)| checks);
    let checks: Vec<Emitted> = checks.collect();
    let texts = all.iter().chain(&checks);
    texts.map(|kernel| kernel.source.text()).collect()
}

/// A graph's kernels, as for a device.
fn kernels(graph: &Graph) -> Vec<Emitted> {
    let all = kernels_with(graph, &device());
    for kernel in &all {
        // A graph may start a kernel early only if its text waits.
        let waits = kernel.source.body.contains("  FT_AFTER;\n");
        assert_eq!(kernel.grid.waits, waits, "{}", kernel.source.body);
    }
    all
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
    compile_all_for(ARCH, sources);
}

fn compile_all_for(arch: &str, sources: BTreeSet<String>) {
    let queue = Mutex::new(sources.into_iter());
    let work = || {
        loop {
            let next = queue.lock().expect("no panic").next();
            let Some(text) = next else { return };
            if let Err(error) = compile_for(arch, &text) {
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

/// What devices have library kernels for.
#[test]
fn library_kernels() {
    if !available() {
        return;
    }
    let all: BTreeSet<String> = ferrotrace_kernels::cuda::sources()
        .iter()
        .map(KernelSource::text)
        .collect();
    assert!(all.len() > 50);
    compile_all(all);
}

/// Operators that the CPU has ready-made kernels for, by generated ones.
#[test]
fn definitions_of_ready_made_kernels() {
    if !available() {
        return;
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    let start = number("FERROTRACE_FUZZ_SEED").unwrap_or(0);
    let count = number("FERROTRACE_FUZZ_COUNT").unwrap_or(3 * KINDS);
    let graphs = (start..start + count).map(|seed| draw(seed, &Device::cpu()).graph);
    compile_all(graphs.flat_map(|graph| sources(&graph)).collect());
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
            slices: false,
            long: large,
        };
        all.extend(sources(&program(seed, &limits).graph));
    }
    compile_all(all);
}

/// Sums about a mean take one pass over memory, in a kernel that is split over blocks and in one that is not.
#[test]
fn a_variance_is_one_pass() {
    let graph = parsed(
        "%0: f32[4096, 4096] = input 0 [4096, 1]
         %1: f32[] = var(%0) {dims: [0, 1], keepdim: false, correction: 1}
         %2: f32[] = mean(%0) {dims: [0, 1], keepdim: false}
         return %1 %2",
    );
    let all = sources(&graph);
    assert_eq!(all.len(), 1);
    assert_eq!(loads(&all[0]), 1);
    let graph = parsed(
        "%0: f32[64, 1048576] = input 0 [1048576, 1]
         %1: f32[64] = var(%0) {dims: [1], keepdim: false, correction: 1}
         return %1",
    );
    let all = sources(&graph);
    assert_eq!(all.len(), 1);
    assert_eq!(loads(&all[0]), 1);
}

/// A window of 3x3 elements is straight-line code, a thread a result, with its bounds checked.
#[test]
fn pooling_is_straight_line() {
    let graph = parsed(
        "%0: f16[64, 256, 56, 56] = input 0 [802816, 3136, 56, 1]
         %1: f16[64, 256, 28, 28] = max_pool2d(%0) {kernel: [3, 3], stride: [2, 2], padding: [1, 1]}
         return %1",
    );
    let all = sources(&graph);
    assert_eq!(all.len(), 1);
    assert!(!all[0].contains("__shfl"), "{}", all[0]);
    assert_eq!(all[0].matches("p0[").count(), 9, "{}", all[0]);
}

/// Softmax of rows that fit in no registers reads them twice: the sum of exponentials shares the pass of the maximum.
#[test]
fn softmax_of_long_rows_is_two_passes() {
    let graph = parsed(
        "%0: f32[2048, 65536] = input 0 [65536, 1]
         %1: f32[2048, 65536] = softmax(%0) {dim: 1}
         return %1",
    );
    let all = sources(&graph);
    assert_eq!(all.len(), 1);
    let reads = |name: &str| all[0].matches(&format!("{name}(h0[k], ")).count();
    assert_eq!((reads("ft_load"), reads("ft_load_last")), (1, 1));
}

/// Transposed operands go through shared memory, any number that fits, others are read as they lie.
#[test]
fn transposed_operands_are_turned_in_shared_memory() {
    let graph = parsed(
        "%0: f32[1000, 300] = input 0 [300, 1]
         %1: f32[1000, 300] = input 1 [1, 1000]
         %2: f32[1000, 300] = input 2 [1, 1000]
         %3: f32[1000, 300] = add(%0, %1)
         %4: f32[1000, 300] = mul(%3, %2)
         return %4",
    );
    let all = sources(&graph);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].matches("__shared__ float").count(), 2);
    assert_eq!(all[0].matches("__syncthreads()").count(), 1);
}

/// A scan of rows that fit in registers reads and writes each element once, behind one barrier; longer rows are walked by
/// tiles; few long ones have a block a tile, which leaves its fold for those behind it.
#[test]
fn scans_hold_rows_in_registers() {
    let of = |shape: [usize; 2]| {
        let [rows, columns] = shape;
        let all = sources(&parsed(&format!(
            "%0: f32[{rows}, {columns}] = input 0 [{columns}, 1]
             %1: f32[{rows}, {columns}] = cumsum(%0) {{dim: 1}}
             return %1"
        )));
        assert_eq!(all.len(), 1);
        all.into_iter().next().unwrap_or_default()
    };
    let counts = |text: &str| {
        let reads = text.matches("ft_load(h").count() + text.matches("ft_load_last(h").count();
        let tiles = text.matches("first < hi").count();
        (reads, tiles, text.matches("__syncthreads()").count())
    };
    assert_eq!(counts(&of([16384, 100])), (1, 0, 0));
    assert_eq!(counts(&of([16384, 8192])), (1, 0, 1));
    assert_eq!(counts(&of([16384, 100_000])), (1, 1, 1));
    let split = of([2, 10_000_000]);
    assert!(split.contains("_finish("));
    assert!(split.contains("= ft_before<"));
    // Of a tile's fold, and of the fold before it; the first is the drawn tile's.
    assert_eq!(counts(&split), (1, 0, 3));
}

/// Kernels over tables compile, one text for any number of launches that a table of its size holds; kernels of two
/// functions, and such as check indices, have none.
#[test]
fn kernels_of_one_text_take_a_table() {
    let of = |lines: &str| kernels(&parsed(lines)).remove(0);
    let pointwise = of("%0: f32[1000] = input 0 [1]
         %1: f32[1000] = mul(%0, $0=0.5)
         return %1");
    let rows = of("%0: bf16[64, 1001] = input 0 [1001, 1]
         %1: bf16[64, 1001] = softmax(%0) {dim: 1}
         return %1");
    let turned = of("%0: f32[100, 300] = input 0 [1, 100]
         %1: f32[100, 300] = neg(%0)
         return %1");
    let mut texts = BTreeSet::new();
    for kernel in [&pointwise, &rows, &turned] {
        let tables = [2, 10, 100, 148, 100_000].map(|n| table(kernel, n, 32_764));
        let [two, ten, hundred, more, most] = tables.map(|t| t.expect("a table"));
        assert_eq!((&two, &hundred), (&ten, &more));
        assert_eq!(hundred, most);
        let words = kernel.pointers.len() + kernel.params.len() + kernel.numbers.len() + 2;
        for (count, bytes) in [(two.1, 4096), (most.1, 32_764)] {
            assert!(count * 8 * words < bytes && (count + 1) * (8 * words + 8) + 8 > bytes / 2);
        }
        assert!(two.0.body.contains(&format!("members[{}]", two.1)));
        texts.extend([two.0.text(), most.0.text()]);
        // A device of the old limit takes no larger table.
        assert_eq!(table(kernel, 148, 4096).map(|t| t.1), Some(two.1));
    }
    let split = of("%0: f32[3000000] = input 0 [1]
         %1: f32[] = sum(%0) {dims: [0], keepdim: false}
         return %1");
    let checked = of("%0: f32[50, 60] = input 0 [60, 1]
         %1: i64[50, 30] = input 1 [30, 1]
         %2: f32[50, 30] = gather(%0, %1) {dim: 1}
         return %2");
    assert!(split.source.finish && table(&split, 10, 32_764).is_none());
    assert!(checked.grid.reports && table(&checked, 10, 32_764).is_none());
    if available() {
        compile_all(texts);
    }
}

/// Updates of dense tensors are two texts, and so two launches with tables, whatever their sizes and ranks are: of whole
/// chunks of 16 bytes, and of others. Those of one element are a third.
#[test]
fn updates_of_many_shapes_share_a_text() {
    let texts = |shapes: &[(&str, &str)]| {
        let (mut text, mut outputs) = (String::new(), String::new());
        for (i, (sizes, strides)) in shapes.iter().cycle().take(2 * shapes.len()).enumerate() {
            text += &format!("%{i}: f32[{sizes}] = input {i} [{strides}]\n");
        }
        let n = shapes.len();
        for (i, (sizes, _)) in shapes.iter().enumerate() {
            let at = 2 * (n + i);
            text += &format!("%{at}: f32[{sizes}] = mul(%{}, $0=0.1)\n", n + i);
            text += &format!("%{}: f32[{sizes}] = sub(%{i}, %{at})\n", at + 1);
            outputs += &format!(" %{}", at + 1);
        }
        let graph = parsed(&format!("{text}return{outputs}"));
        let all = kernels(&graph)
            .into_iter()
            .map(|kernel| kernel.source.text());
        all.collect::<BTreeSet<String>>().len()
    };
    let dense = [
        ("4096", "1"),
        ("17", "1"),
        ("1001", "1"),
        ("64, 33", "33, 1"),
        ("5, 3, 7", "21, 7, 1"),
        ("2, 3, 4, 5", "60, 20, 5, 1"),
    ];
    assert_eq!(texts(&dense), 2);
    assert_eq!(texts(&[dense[0], dense[1], ("1", "1")]), 3);
    // Operands that lie in another order than row-major, all in the same one, are as dense.
    assert_eq!(texts(&[dense[0], ("64, 33", "1, 64")]), 1);
}

/// A softmax of what is the same along its rows is no sum about a maximum so far: the rows' loop loads nothing.
#[test]
fn rows_of_one_value_are_no_running_softmax() {
    let of = |shape: &str, lead: &str| {
        sources(&parsed(&format!(
            "%0: f32[{shape}] = input 0 {lead}
             %1: f32[300, 40000] = expand(%0) {{to: [300, 40000]}}
             %2: f32[300, 40000] = softmax(%1) {{dim: 1}}
             return %2"
        )))
    };
    let (same, varying) = (of("300, 1", "[1, 1]"), of("300, 40000", "[40000, 1]"));
    let runs = |all: &[String]| all.iter().any(|text| text.contains("= ft_term_exp"));
    assert!(!runs(&same) && runs(&varying));
    // What a chunk keeps of its elements is written before it is read.
    let few = sources(&parsed(
        "%0: f32[33] = input 0 [1]
         %1: f32[33] = flip(%0) {dims: [0]}
         %2: f32[2, 33] = repeat(%1) {counts: [2, 1]}
         %3: f32[2, 33] = softmax(%2) {dim: 0}
         return %3",
    ));
    assert!(!runs(&few));
}

/// Threads that add many chunks keep totals, in the rows' loops and in those of strided columns; others do not.
#[test]
fn long_sums_keep_totals() {
    let of = |op: &str, shape: [usize; 2], dim: usize| {
        let [rows, columns] = shape;
        let text = sources(&parsed(&format!(
            "%0: f32[{rows}, {columns}] = input 0 [{columns}, 1]
             %1: f32[{}] = {op}(%0) {{dims: [{dim}], keepdim: false}}
             return %1",
            shape[1 - dim]
        )))
        .remove(0);
        (text.matches("ft_two_sum(").count() > 1, text)
    };
    let cases = [
        of("sum", [4096, 8192], 1),
        of("sum", [300, 1_000_000], 1),
        of("sum", [300, 1_000_001], 1),
        of("max", [300, 1_000_000], 1),
        of("sum", [16, 8192], 0),
        of("sum", [32_768, 8192], 0),
        of("logsumexp", [300, 1_000_000], 1),
    ];
    let long: Vec<bool> = cases.iter().map(|case| case.0).collect();
    assert_eq!(long, [false, true, true, false, false, true, true]);
    if available() {
        compile_all(cases.into_iter().map(|case| case.1).collect());
    }
}

/// Strided columns that are cut into pieces are read by whole chunks, of rows side by side, and what all rows share does not
/// make them contiguous. Rows that fill no chunks are read one by one.
#[test]
fn strided_columns_are_read_by_whole_chunks() {
    let of = |rows: usize| {
        let text = sources(&parsed(&format!(
            "%0: bf16[8192, {rows}] = input 0 [{rows}, 1]
             %1: f32[8192, 1] = input 1 [1, 1]
             %2: f32[8192, 1] = input 2 [1, 1]
             %3: f32[8192, {rows}] = to_dtype(%0)
             %4: f32[8192, {rows}] = sub(%3, %1)
             %5: f32[8192, {rows}] = mul(%4, %2)
             %6: f32[{rows}] = sum(%5) {{dims: [0], keepdim: false}}
             return %6"
        )));
        assert_eq!(text.len(), 1);
        text.concat()
    };
    let (whole, apart) = (of(768), of(770));
    assert_eq!([loads(&whole), loads(&apart)], [1, 0]);
    if available() {
        compile_all(BTreeSet::from([whole, apart]));
    }
}

/// A table is gathered by whole chunks: the row's index is computed once, before they are loaded.
#[test]
fn rows_of_a_table_are_read_by_whole_chunks() {
    let text = sources(&parsed(
        "%0: bf16[5000, 1024] = input 0 [1024, 1]
         %1: i64[3000] = input 1 [1]
         %2: bf16[3000, 1024] = index(%0, %1) {axes: [0], at: 0}
         return %2",
    ))
    .remove(0);
    let index = text.find("= ft_index(").expect("an index");
    let load = text.find("ft_load(h").expect("a load of a chunk");
    // A warp has a row, a thread four chunks of it.
    assert!(index < load && text.contains("k < 4") && text.contains("ft_store_last("));
}

/// Indices that are inputs are checked by a kernel that reads each once and writes nothing; those that a plan computes
/// cannot be.
#[test]
fn indices_of_inputs_are_checked_once() {
    let of = |lines: &str| {
        let all = kernels(&parsed(lines));
        let reporting = all.into_iter().find(|kernel| kernel.grid.reports);
        checks_of(&reporting.expect("a kernel that checks"))
    };
    let picked = of("%0: bf16[5000, 1024] = input 0 [1024, 1]
         %1: i32[30, 100] = input 1 [100, 1]
         %2: bf16[30, 100, 1024] = index(%0, %1) {axes: [0], at: 0}
         %3: bf16[30, 100, 1024] = mul(%2, $0=2.0)
         return %3");
    let (checks, count) = picked.expect("an input");
    assert_eq!((checks.len(), count), (1, 3000));
    let check = &checks[0];
    assert!(check.grid.reports && check.chunks == 3);
    assert_eq!(check.pointers, [Pointer::Read(Source::Input(1))]);
    assert_eq!(check.source.body.matches("ft_index(a.fault").count(), 1);
    // Two indices over the same loop are one kernel, an index of an index is checked with it.
    let two = of("%0: f32[50, 60, 1000] = input 0 [60000, 1000, 1]
         %1: i64[300] = input 1 [1]
         %2: i64[300] = input 2 [1]
         %3: f32[300, 1000] = index(%0, %1, %2) {axes: [0, 1], at: 0}
         return %3");
    assert!(two.is_some_and(|(checks, count)| (checks.len(), count) == (1, 600)));
    let through = of("%0: f32[50, 1000] = input 0 [1000, 1]
         %1: i64[90] = input 1 [1]
         %2: i64[300] = input 2 [1]
         %3: i64[300] = index(%1, %2) {axes: [0], at: 0}
         %4: f32[300, 1000] = index(%0, %3) {axes: [0], at: 0}
         return %4");
    if let Some((checks, _)) = through {
        let found = |check: &Emitted| check.source.body.matches("ft_index(a.fault").count();
        assert_eq!(checks.iter().map(found).max(), Some(2));
    }
    let computed = of("%0: f32[50, 60] = input 0 [60, 1]
         %1: i64[50] = argmax(%0) {dims: [1], keepdim: false}
         %2: f32[40, 10] = input 1 [10, 1]
         %3: f32[50, 10] = index(%2, %1) {axes: [0], at: 0}
         return %3");
    assert!(computed.is_none());
}

/// Kernels of one base compile in one file, as many are when they are first needed.
#[test]
fn kernels_share_a_file() {
    let graphs = TYPICAL.iter().map(|text| parsed(text));
    let all: Vec<Emitted> = graphs.flat_map(|graph| kernels(&graph)).collect();
    let base = |kernel: &Emitted| {
        let mut parts = kernel.source.parts.iter();
        parts.find(|p| p.order == Part::BASE).cloned()
    };
    let first = all.iter().find_map(base).expect("a base");
    let with: Vec<&Emitted> = all
        .iter()
        .filter(|k| base(k).as_ref() == Some(&first))
        .collect();
    assert!(with.len() > 10 && with.iter().any(|k| k.source.finish));
    let mut parts: Vec<&Part> = Vec::new();
    for part in with.iter().flat_map(|kernel| &kernel.source.parts) {
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.sort_by_key(|part| part.order);
    let mut text = String::new();
    for part in parts {
        let _ = writeln!(text, "{}", part.text);
    }
    for (i, kernel) in with.iter().enumerate() {
        text.push_str(&kernel.source.body.replace("FT_SYMBOL", &format!("ft_{i}")));
    }
    if available() {
        compile_all(BTreeSet::from([text]));
    }
}

/// Rows that start at any element are walked by aligned chunks, of which the first and the last alone may not be whole.
#[test]
fn unaligned_rows_have_edges() {
    let of = |columns: usize, op: &str| {
        sources(&parsed(&format!(
            "%0: bf16[8192, {columns}] = input 0 [{columns}, 1]
             %1: bf16[8192] = {op}(%0) {{dims: [1], keepdim: false}}
             return %1"
        )))
        .remove(0)
    };
    let edges = |text: &str| text.matches("if (t < 2)").count();
    let odd = of(50257, "max");
    assert_eq!(
        (edges(&odd), odd.matches("__syncthreads()").count()),
        (1, 1)
    );
    assert!(odd.contains(" - shift;"));
    let even = of(50256, "max");
    assert!(edges(&even) == 0 && !even.contains("shift"));
    // Rows in registers test every element.
    let held = of(1001, "sum");
    assert!(edges(&held) == 0 && held.contains("l >= h && l < m"));
}
