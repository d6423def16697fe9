//! What the host spends: recording an operation, a cached flush, a cached call of a compiled function.
//!
//! ```text
//! cargo bench --bench host [-- --rounds N] [-- --smoke] [names]
//! ```
//!
//! Kernels here are of 16 or 1,024 numbers; what they take by themselves is measured beside, by launching the very same
//! ones through the runtime, and taken off.

mod measure;

use ferrotrace::prelude::*;
use ferrotrace::stats_scope;
use ferrotrace_jit::emit::{Emitted, Pointer};
use ferrotrace_jit::{Draft, Graph, Step, body::Source, policy::Policy};
use ferrotrace_kernels::OpBuilderExt;
use ferrotrace_runtime::{Binding, Buffer, Kernel, Launch, Layout, compile_kernels, launch};
use measure::input::normal;
use measure::table::{Table, verdict};
use measure::{Contender, Options, Outcome, interleaved, median, time, whole, with_interval};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn main() -> Outcome {
    let options = Options::from_args();
    let heads = [
        "what",
        "ours",
        "of it the kernel",
        "left [95 %]",
        "target",
        "",
    ];
    let mut table = Table::new("Host time", &heads);
    recording(&options, &mut table)?;
    for length in [1, 10, 100, 1000] {
        flushes(length, &options, &mut table)?;
    }
    calls(&options, &mut table)?;
    steps_of_lists(&options, &mut table)?;
    long_traces(&options, &mut table)?;
    table.print();
    Ok(())
}

fn vector(n: usize, seed: u64) -> Tensor {
    Tensor::from_vec(normal(n, seed, 0.001), n, &Device::cpu())
}

/// A row of what is left of a time after another is taken off in the same round.
fn row(table: &mut Table, what: String, ours: &[f64], kernel: &[f64], target: f64) {
    let left: Vec<f64> = ours.iter().zip(kernel).map(|(a, b)| a - b).collect();
    let (middle, low, high) = with_interval(&left);
    table.row([
        what,
        time(median(ours)),
        time(median(kernel)),
        format!("{} [{}, {}]", time(middle), time(low), time(high)),
        format!("≤ {}", time(target)),
        verdict(middle <= target),
    ]);
}

/// Recording one operation and dropping its result.
fn recording(options: &Options, table: &mut Table) -> Outcome {
    let (x, y) = (vector(16, 0), vector(16, 1));
    eval([&x, &y])?;
    let cases: [(&str, Contender<'_>); 4] = [
        ("record x + y, drop", whole(|| drop(black_box(&x + &y)))),
        ("record x + 1, drop", whole(|| drop(black_box(&x + 1.0)))),
        ("record exp(x), drop", whole(|| drop(black_box(x.exp())))),
        (
            "record sum(x, -1), drop",
            whole(|| drop(black_box(x.sum(-1)))),
        ),
    ];
    let (names, mut contenders): (Vec<&str>, Vec<Contender<'_>>) = cases.into_iter().unzip();
    if options.wants("record") {
        for (name, samples) in names.iter().zip(interleaved(&mut contenders, options)) {
            row(
                table,
                (*name).to_owned(),
                &samples,
                &vec![0.0; samples.len()],
                100.0,
            );
        }
    }
    Ok(())
}

/// A cached flush of a chain of operations on 16 numbers; recording it is not timed.
fn flushes(length: usize, options: &Options, table: &mut Table) -> Outcome {
    let name = format!("cached flush, {length} operations");
    if !options.wants(&name) {
        return Ok(());
    }
    let (x, y) = (vector(16, 0), vector(16, 1));
    eval([&x, &y])?;
    let chain = || (0..length).fold(x.clone(), |sum, _| sum + &y);
    chain().eval()?;
    let flush: Contender<'_> = Box::new(|n| {
        let mut total = Duration::ZERO;
        for _ in 0..n {
            let chain = chain();
            let start = Instant::now();
            // An error shows in the check below.
            let _ = chain.eval();
            total += start.elapsed();
        }
        total
    });
    let alone = Alone::of_chain(16, length)?;
    let samples = interleaved(&mut [flush, whole(|| alone.run())], options);
    let (result, stats) = stats_scope(|| chain().eval());
    result?;
    if stats.plan_cache_hits != 1 || stats.kernels_launched as usize != alone.steps.len() {
        return Err(format!("{name}: not the flush that was to be measured: {stats:?}").into());
    }
    row(
        table,
        name,
        &samples[0],
        &samples[1],
        3000.0 + 40.0 * length as f64,
    );
    Ok(())
}

/// A call of a compiled function of a known signature, with one small kernel.
fn calls(options: &Options, table: &mut Table) -> Outcome {
    if !options.wants("call") {
        return Ok(());
    }
    for n in [16, 1024] {
        let (x, y) = (vector(n, 0), vector(n, 1));
        eval([&x, &y])?;
        let f = jit(|(x, y): (&Tensor, &Tensor)| x + y);
        f.call((&x, &y)).eval()?;
        let call = whole(|| drop(black_box(f.call((&x, &y)))));
        let alone = Alone::of_chain(n, 1)?;
        let samples = interleaved(&mut [call, whole(|| alone.run())], options);
        row(
            table,
            format!("jit(x + y).call, {n} numbers"),
            &samples[0],
            &samples[1],
            3000.0,
        );
    }
    Ok(())
}

/// A step of AdamW of parameter, gradient and two means, in place.
fn adamw([p, g, m, v]: [Tensor; 4], [c1, c2]: [&Tensor; 2]) -> [Tensor; 4] {
    let m = m * 0.9 + &g * 0.1;
    let v = v * 0.999 + g.square() * 0.001;
    let p = p * (1.0 - 1e-3 * 0.01) - (&m / c1) / ((&v / c2).sqrt() + 1e-8) * 1e-3;
    [p, g, m, v]
}

/// AdamW over 148 tensors, as many as a model of the size of GPT-2 has: recorded and flushed, and replayed. Half of the
/// time that recorded operations alone would take is the target of a call.
fn steps_of_lists(options: &Options, table: &mut Table) -> Outcome {
    if !options.wants("AdamW") {
        return Ok(());
    }
    let state = || -> Outcome<Vec<[Tensor; 4]>> {
        let all: Vec<[Tensor; 4]> = (0..148)
            .map(|i| [0, 1, 2, 3].map(|k| vector(16 + i as usize % 12, 4 * i + k).abs()))
            .collect();
        eval(all.iter().flatten())?;
        Ok(all)
    };
    let factor = |c: f32| Tensor::from_vec(vec![c], [], &Device::cpu());
    let (c1, c2) = (factor(0.1), factor(0.001));
    let step = jit(|(all, c1, c2): (Vec<[Tensor; 4]>, &Tensor, &Tensor)| {
        let new = all.into_iter().map(|one| adamw(one, [c1, c2]));
        new.collect::<Vec<[Tensor; 4]>>()
    });
    let mut old = state()?;
    let recorded = whole(|| {
        let taken = std::mem::take(&mut old);
        old = taken
            .into_iter()
            .map(|one| adamw(one, [&c1, &c2]))
            .collect();
        let _ = eval(old.iter().flatten());
    });
    let mut given = state()?;
    let replayed = whole(|| given = step.call((std::mem::take(&mut given), &c1, &c2)));
    let samples = interleaved(&mut [recorded, replayed], options);
    let nothing = vec![0.0; options.rounds];
    for (what, samples, target) in [
        ("AdamW of 148 tensors, recorded", &samples[0], 1_000_000.0),
        ("AdamW of 148 tensors, replayed", &samples[1], 300_000.0),
    ] {
        row(table, what.to_owned(), samples, &nothing, target);
    }
    Ok(())
}

/// Traces of 50,000 and 100,000 operations, recorded and flushed: twice the time for twice the operations.
fn long_traces(options: &Options, table: &mut Table) -> Outcome {
    if !options.wants("trace") {
        return Ok(());
    }
    let (x, y) = (vector(16, 0), vector(16, 1));
    eval([&x, &y])?;
    let run = |length: usize| -> Contender<'_> {
        let (x, y) = (&x, &y);
        Box::new(move |n| {
            let mut total = Duration::ZERO;
            for _ in 0..n {
                let start = Instant::now();
                let sum = (0..length).fold(x.clone(), |sum, _| sum + y);
                let _ = sum.eval();
                drop(sum);
                total += start.elapsed();
            }
            total
        })
    };
    let few = Options {
        sample: Duration::from_millis(1),
        ..options.clone()
    };
    let samples = interleaved(&mut [run(50_000), run(100_000)], &few);
    let ratios: Vec<f64> = samples[1]
        .iter()
        .zip(&samples[0])
        .map(|(b, a)| b / a)
        .collect();
    let (middle, low, high) = with_interval(&ratios);
    table.row([
        "trace of 100,000 operations / of 50,000".into(),
        time(median(&samples[1])),
        String::new(),
        format!("{middle:.2} [{low:.2}, {high:.2}]"),
        "≤ 2.2".into(),
        verdict(middle <= 2.2),
    ]);
    Ok(())
}

/// The kernels of a chain of additions, launched by the runtime with nothing around.
struct Alone {
    steps: Vec<(Emitted, Arc<Kernel>)>,
    /// The chain's two inputs.
    inputs: [Buffer; 2],
    output: Buffer,
    bytes: usize,
}

impl Alone {
    fn of_chain(n: usize, length: usize) -> Outcome<Alone> {
        let device = Device::cpu();
        let mut graph = Graph::new();
        let layout = Layout::contiguous(Shape::from(n));
        let x = graph.input(&layout, DType::F32, &device);
        let y = graph.input(&layout, DType::F32, &device);
        let mut sum = x;
        for _ in 0..length {
            sum = graph.add(sum, y)?;
        }
        graph.set_outputs(vec![sum]);
        let mut steps = Vec::new();
        for step in Draft::of(graph, &Policy::default())?.steps {
            let Step::Launch(emitted) = step else {
                return Err("a chain is of kernels".into());
            };
            let kernel = compile_kernels(std::slice::from_ref(&emitted.source)).remove(0)?;
            steps.push((*emitted, kernel));
        }
        let inputs = [0, 1].map(|seed| Buffer::from_vec(&device, normal(n, seed, 0.001)));
        let [x, y] = inputs;
        let bytes = n * DType::F32.size();
        Ok(Alone {
            steps,
            inputs: [x?, y?],
            output: Buffer::allocate(&device, bytes)?,
            bytes,
        })
    }

    fn run(&self) {
        for (emitted, kernel) in &self.steps {
            let buffer = |pointer: &Pointer| match pointer {
                Pointer::Read(Source::Input(i)) => &self.inputs[*i as usize],
                Pointer::Read(Source::Node(_)) | Pointer::Write(_) => &self.output,
            };
            let binding = |pointer| Binding {
                buffer: buffer(pointer),
                offset: 0,
                span: self.bytes,
            };
            let mut buffers = [binding(&emitted.pointers[0]); 3];
            for (place, pointer) in buffers.iter_mut().zip(&emitted.pointers) {
                *place = binding(pointer);
            }
            let fault = launch(&Launch {
                kernel,
                buffers: &buffers[..emitted.pointers.len()],
                params: &emitted.params,
                scalars: &[],
                chunks: emitted.chunks,
                scratch: emitted.scratch,
                local: emitted.local,
                grid: Default::default(),
            });
            let _ = black_box(fault);
        }
    }
}
