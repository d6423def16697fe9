//! The workloads of `peers/`, in compiled mode: their times and peaks of memory beside eager mode's (`--modes` alone), and
//! the matrix product beside the `gemm` crate alone (`--products`).
//!
//! ```text
//! cargo bench --bench workloads [-- --rounds N] [-- --smoke] [-- --modes | --products] [names]
//! ```
//!
//! With `--serve compiled` or `--serve eager` it answers `peers/run.py`, which compares it with other libraries.

mod measure;
mod workload;

use ferrotrace::prelude::*;
use ferrotrace_kernels::cpu::matmul::library_product;
use ferrotrace_kernels::cpu::view::Sizes;
use measure::input::normal;
use measure::serve::{Run, serve};
use measure::table::{Table, mebibytes, verdict};
use measure::{Contender, Options, Outcome, interleaved, median, ratio, time, whole};
use std::cell::RefCell;
use std::rc::Rc;
use workload::{Floor, Workload, magnitude};

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--serve") {
        let eager = args.get(at + 1).is_some_and(|mode| mode == "eager");
        let mode = if eager { Mode::Eager } else { Mode::Compiled };
        return Ok(with_mode(mode, || serve(|name| opened(name, mode)))?);
    }
    let options = Options::from_args();
    let only = |flag: &str| args.iter().any(|arg| arg == flag);
    if !only("--products") {
        compiled_and_eager(&options)?;
    }
    if only("--modes") {
        return Ok(());
    }
    products(&options)
}

/// Runs a workload once, and computes what it left pending.
fn computed(workload: &mut Workload) -> Result<Vec<Tensor>> {
    let outputs = workload();
    eval(&outputs)?;
    Ok(outputs)
}

/// A workload for the peers' driver.
fn opened(name: &str, mode: Mode) -> std::result::Result<(f64, Run), String> {
    if let (Some(mut operation), Mode::Eager) = (workload::operators::open(name), mode) {
        let value = magnitude(&operation()).map_err(|e| e.to_string())?;
        let run = move || operation().error().map_or(Ok(()), |e| Err(e.to_string()));
        return Ok((value, Box::new(run)));
    }
    let mut workload = workload::open(name).ok_or("no such workload")?;
    let outputs = computed(&mut workload).map_err(|e| e.to_string())?;
    let value = outputs
        .first()
        .map_or(Ok(0.0), magnitude)
        .map_err(|e| e.to_string())?;
    drop(outputs);
    let run = move || computed(&mut workload).map(drop).map_err(|e| e.to_string());
    Ok((value, Box::new(run)))
}

/// A workload that two contenders run in turn: where its inputs lie in memory then slows both alike.
type Shared = Rc<RefCell<Workload>>;

/// A contender that runs a workload; the first error is printed.
fn contender(mode: Mode, workload: Shared) -> Contender<'static> {
    let mut reported = false;
    let mut run = whole(move || {
        let outcome = computed(&mut workload.borrow_mut());
        if let (Err(error), false) = (outcome, reported) {
            eprintln!("{error}");
            reported = true;
        }
    });
    Box::new(move |n| with_mode(mode, || run(n)))
}

/// The most that compiled mode may take of eager mode's time, noise included.
const NEVER_SLOWER: f64 = 1.03;

/// How many times as many rounds decide about a workload whose interval contains that.
const DECISIVE: usize = 4;

fn compiled_and_eager(options: &Options) -> Outcome {
    let heads = [
        "workload",
        "compiled",
        "eager",
        "compiled / eager",
        "upper end under 1.03",
        "rate",
        "compiled, peak",
        "eager, peak",
        "no more memory",
    ];
    let mut table = Table::new("Workloads, compiled and eager", &heads);
    for name in workload::NAMES.iter().filter(|name| options.wants(name)) {
        let workload = workload::open(name).ok_or_else(|| format!("{name}: no such workload"))?;
        let workload = Rc::new(RefCell::new(workload));
        let mut contenders = [
            contender(Mode::Compiled, workload.clone()),
            contender(Mode::Eager, workload),
        ];
        let mut samples = interleaved(&mut contenders, options);
        let mut slower = ratio(&samples[0], &samples[1]);
        if options.rounds > 1 && (slower.low..=slower.high).contains(&NEVER_SLOWER) {
            // Measured anew and longer, whatever comes out: rounds are not added until the result pleases.
            let longer = Options {
                rounds: options.rounds * DECISIVE,
                ..options.clone()
            };
            samples = interleaved(&mut contenders, &longer);
            slower = ratio(&samples[0], &samples[1]);
        }
        drop(contenders);
        let ours = median(&samples[0]);
        let peak = |mode| Outcome::Ok(workload::counted(mode, name)?.peak_bytes);
        let (lazy, eager) = (peak(Mode::Compiled)?, peak(Mode::Eager)?);
        table.row([
            (*name).to_owned(),
            time(ours),
            time(median(&samples[1])),
            slower.to_string(),
            verdict(slower.high < NEVER_SLOWER),
            match workload::floor(name) {
                Floor::Bytes(n) => format!("{:.1} GB/s", n as f64 / ours),
                Floor::Operations(n) => format!("{:.1} GFLOP/s", n as f64 / ours),
                Floor::None => String::new(),
            },
            mebibytes(lazy),
            mebibytes(eager),
            verdict(lazy <= eager),
        ]);
    }
    table.print();
    Ok(())
}

/// Matrix products and the `gemm` crate alone, on as many threads and into memory that it has.
fn products(options: &Options) -> Outcome {
    let heads = [
        "product",
        "ours",
        "gemm crate",
        "speed, ours / gemm",
        "at least 0.9",
    ];
    let mut table = Table::new("Matrix products and the gemm crate alone", &heads);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    for n in [512, 1024, 2048] {
        let name = format!("mm_{n}");
        if !options.wants(&name) {
            continue;
        }
        let workload = workload::open(&name).ok_or("a product is a workload")?;
        let (a, b) = (normal(n * n, 0, 1.0), normal(n * n, 1, 1.0));
        let mut out = vec![0.0f32; n * n];
        let sizes = Sizes { m: n, n, k: n };
        let alone = whole(|| library_product(sizes, &a, &b, &mut out, threads).unwrap_or_default());
        let samples = interleaved(
            &mut [
                contender(Mode::Compiled, Rc::new(RefCell::new(workload))),
                alone,
            ],
            options,
        );
        let speed = ratio(&samples[1], &samples[0]);
        let (ours, theirs) = (median(&samples[0]), median(&samples[1]));
        let met = verdict(speed.median >= 0.9);
        table.row([name, time(ours), time(theirs), speed.to_string(), met]);
    }
    table.print();
    Ok(())
}
