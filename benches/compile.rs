//! What compiling costs: passes by the length of a graph, and first calls of whole programs.
//!
//! ```text
//! cargo bench --bench compile [-- --rounds N] [-- --smoke] [names]
//! ```
//!
//! Programs run in child processes, this program again: with an empty cache, then with what the first left on disk. A
//! child prints the time of the first call and, from its profile, that of planning and of the compiler.

mod measure;
mod workload;

use ferrotrace::{Activity, DType, Device, Shape, profile, stats};
use ferrotrace_jit::{Draft, Graph, policy::Policy};
use ferrotrace_kernels::{BinaryOp, OpBuilderExt, ReduceKind, UnaryOp, ValueId};
use ferrotrace_runtime::Layout;
use measure::table::{Table, verdict};
use measure::{Contender, Options, Outcome};
use measure::{child, interleaved, median, time, whole, with_interval};
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

/// Programs, and the nanoseconds that a first call may take with an empty cache, and that planning and loading may take
/// with what an earlier process left on disk.
const PROGRAMS: &[(&str, f64, f64)] = &[
    ("adamw100", 1e9, f64::INFINITY),
    ("tblock", 0.6e9, 10e6),
    ("mlp_step", f64::INFINITY, f64::INFINITY),
];

fn main() -> Outcome {
    if let Some(name) = child::name() {
        return call(&name);
    }
    let options = Options::from_args();
    passes(&options)?;
    programs(&options)
}

/// A kind of graph, of about so many operations.
type Kind = fn(usize) -> Outcome<Graph>;

fn input(graph: &mut Graph, sizes: &[usize]) -> ValueId {
    let layout = Layout::contiguous(Shape::new(sizes));
    graph.input(&layout, DType::F32, &Device::cpu())
}

/// One pointwise chain of two inputs.
fn chain(operations: usize) -> Outcome<Graph> {
    let mut graph = Graph::new();
    let (x, y) = (input(&mut graph, &[64, 1000]), input(&mut graph, &[1000]));
    let mut value = x;
    for i in 0..operations {
        value = match i % 3 {
            0 => graph.add(value, y)?,
            1 => graph.mul(value, 0.5)?,
            _ => graph.unary(UnaryOp::Tanh, value)?,
        };
    }
    graph.set_outputs(vec![value]);
    Ok(graph)
}

/// Layers of a normalisation, a product and a residual sum.
fn network(operations: usize) -> Outcome<Graph> {
    let mut graph = Graph::new();
    let (mut x, w) = (
        input(&mut graph, &[64, 256]),
        input(&mut graph, &[256, 256]),
    );
    for _ in 0..operations / 8 {
        let mean = graph.reduce(ReduceKind::Mean, x, 0b10, true)?;
        let centred = graph.sub(x, mean)?;
        let squares = graph.unary(UnaryOp::Square, centred)?;
        let variance = graph.reduce(ReduceKind::Mean, squares, 0b10, true)?;
        let root = graph.unary(UnaryOp::Rsqrt, variance)?;
        let normal = graph.mul(centred, root)?;
        let product = ferrotrace_kernels::OpBuilder::push(
            &mut graph,
            ferrotrace_kernels::Op::Matmul,
            &[normal.into(), w.into()],
        )?;
        x = graph.add(x, product)?;
    }
    graph.set_outputs(vec![x]);
    Ok(graph)
}

/// Updates of many tensors that have nothing in common.
fn updates(operations: usize) -> Outcome<Graph> {
    let mut graph = Graph::new();
    let mut outputs = Vec::new();
    for i in 0..operations / 5 {
        let sizes = [8 + i % 7, 128];
        let (p, g) = (input(&mut graph, &sizes), input(&mut graph, &sizes));
        let scaled = graph.mul(g, 0.1)?;
        let square = graph.mul(scaled, scaled)?;
        let root = graph.unary(UnaryOp::Sqrt, square)?;
        let ratio = graph.div(scaled, root)?;
        outputs.push(graph.binary(BinaryOp::Sub, p, ratio)?);
    }
    graph.set_outputs(outputs);
    Ok(graph)
}

/// Time of all passes, without the compiler.
fn passes(options: &Options) -> Outcome {
    let heads = [
        "graph",
        "operations",
        "time",
        "an operation",
        "≤ 20 µs",
        "/ half as many",
        "≤ 2.2",
    ];
    let mut table = Table::new("Passes from a graph to C, without the compiler", &heads);
    let kinds: [(&str, Kind); 3] = [("chain", chain), ("network", network), ("updates", updates)];
    for (name, kind) in kinds.iter().filter(|(name, _)| options.wants(name)) {
        let lengths = [250, 500, 1000, 2000];
        let graphs = lengths
            .iter()
            .map(|&n| kind(n))
            .collect::<Outcome<Vec<_>>>()?;
        let mut contenders: Vec<Contender<'_>> = graphs
            .iter()
            .map(|graph| whole(|| drop(black_box(Draft::of(graph.clone(), &Policy::default())))))
            .collect();
        let samples = interleaved(&mut contenders, options);
        for (i, &length) in lengths.iter().enumerate() {
            let middle = median(&samples[i]);
            let (growth, linear) = match i {
                0 => (String::new(), String::new()),
                _ => {
                    let ratios: Vec<f64> = samples[i]
                        .iter()
                        .zip(&samples[i - 1])
                        .map(|(b, a)| b / a)
                        .collect();
                    let (ratio, low, high) = with_interval(&ratios);
                    (
                        format!("{ratio:.2} [{low:.2}, {high:.2}]"),
                        verdict(ratio <= 2.2),
                    )
                }
            };
            let each = middle / length as f64;
            table.row([
                (*name).to_owned(),
                length.to_string(),
                time(middle),
                time(each),
                verdict(each <= 20e3),
                growth,
                linear,
            ]);
        }
    }
    table.print();
    Ok(())
}

/// Runs a workload once and prints nanoseconds of its first call, planning and compiling, and kernels compiled.
fn call(name: &str) -> Outcome {
    let mut workload = workload::open(name).ok_or("no such workload")?;
    // What the inputs are computed with is not the program's.
    let before = stats().kernels_compiled;
    let start = Instant::now();
    let (outputs, profile) = profile(|| {
        let outputs = workload();
        ferrotrace::eval(&outputs).map(|()| outputs)
    });
    let call = start.elapsed();
    drop(outputs?);
    let of = |activity| -> Duration {
        // The passes of a plan are spans within it.
        let passes = ["simplify", "lower", "fuse", "emit", "order"];
        let spans = profile
            .spans()
            .iter()
            .filter(|span| span.activity == activity && !passes.contains(&&*span.name));
        spans.map(|span| span.time).sum()
    };
    println!(
        "{} {} {} {}",
        call.as_nanos(),
        of(Activity::Planning).as_nanos(),
        of(Activity::Compiling).as_nanos(),
        stats().kernels_compiled - before
    );
    Ok(())
}

/// Runs a program in a process of its own.
fn spawned(name: &str, cache: &Path) -> Outcome<[f64; 4]> {
    child::run(child::command()?, name, cache)
}

fn programs(options: &Options) -> Outcome {
    let heads = [
        "program",
        "cache",
        "first call",
        "planning",
        "compiling",
        "kernels compiled",
        "call, or planning and compiling",
        "",
    ];
    let mut table = Table::new("First call of whole programs", &heads);
    for &(name, cold, warm) in PROGRAMS.iter().filter(|(name, ..)| options.wants(name)) {
        let (mut empty, mut filled) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            let cache = tempfile::tempdir()?;
            empty.push(spawned(name, cache.path())?);
            filled.push(spawned(name, cache.path())?);
        }
        for (what, reports, target) in [("empty", empty, cold), ("from disk", filled, warm)] {
            let middle = |i: usize| {
                median(
                    &reports
                        .iter()
                        .map(|report: &[f64; 4]| report[i])
                        .collect::<Vec<_>>(),
                )
            };
            let judged = match what {
                "empty" => middle(0),
                _ => middle(1) + middle(2),
            };
            let (bound, met) = match target.is_finite() {
                true => (format!("≤ {}", time(target)), verdict(judged <= target)),
                false => (String::new(), String::new()),
            };
            table.row([
                name.to_owned(),
                what.to_owned(),
                time(middle(0)),
                time(middle(1)),
                time(middle(2)),
                middle(3).to_string(),
                bound,
                met,
            ]);
        }
    }
    table.print();
    Ok(())
}
