//! First calls: of a process with an empty cache, beside the bare C compiler on the same source; of a second process.
//!
//! ```text
//! cargo bench --bench first_call [-- --rounds N] [-- --smoke]
//! ```
//!
//! Each measurement is a child process of its own, this program again, with a cache folder of its own; it times what a
//! program would wait for: from before the first operation is recorded until the value is there.

mod loops;
mod measure;

use ferrotrace::prelude::*;
use ferrotrace::stats;
use ferrotrace_runtime::CCompiler;
use measure::table::{Table, verdict};
use measure::{Options, Outcome, Ratio, child, median, ratio, time};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Programs of one kernel.
const PROGRAMS: &[&str] = &["pointwise", "softmax", "layer_norm", "sum", "var_mean"];

fn main() -> Outcome {
    if let Some(name) = child::name() {
        return call(&name);
    }
    let options = Options::from_args();
    against_the_compiler(&options)?;
    ten_kernels(&options)?;
    tiered(&options)?;
    training(&options)?;
    second_process(&options)
}

/// What a child found out.
#[derive(Clone, Copy, Debug, Default)]
struct Report {
    nanoseconds: f64,
    compiled: u64,
    from_disk: u64,
}

/// The tensors a program computes.
fn program(name: &str) -> Vec<Tensor> {
    let device = Device::cpu();
    let ones =
        |shape: [usize; 2]| Tensor::from_vec(vec![0.5f32; shape[0] * shape[1]], shape, &device);
    let x = ones([256, 1024]);
    match name {
        "pointwise" => {
            let y = (&x * 0.7 + 0.1) * &x - 0.3;
            let z = (&y * 1.1 + &x) * 0.5;
            vec![z.relu() * &y + z.abs() * 0.25 - &x]
        }
        "softmax" => vec![x.softmax(-1)],
        "layer_norm" => {
            let (w, b) = (ones([1, 1024]).reshape(1024), ones([1, 1024]).reshape(1024));
            vec![x.layer_norm(1, Some(&w), Some(&b), 1e-5)]
        }
        "sum" => vec![x.sum(..)],
        "var_mean" => {
            let (variance, mean) = x.var_mean(1, 1);
            vec![variance, mean]
        }
        // Ten functions of ten tensors of different shapes, which no two share a kernel.
        _ => {
            let functions: [fn(&Tensor) -> Tensor; 10] = [
                |x| (x * 2.0 + 1.0).abs(),
                |x| x.exp() + 1.0,
                |x| x.sum(0),
                |x| x.sigmoid() * x,
                |x| x.max(1),
                |x| x.sqrt() - x,
                |x| x.mean(..),
                |x| (x + 1.0).recip(),
                |x| x.log() * 2.0,
                |x| x.sum(1) + 1.0,
            ];
            let of = |(i, f): (usize, &fn(&Tensor) -> Tensor)| f(&ones([64 + i, 96 + 7 * i]));
            functions.iter().enumerate().map(of).collect()
        }
    }
}

/// Computes a program and prints what it took.
fn call(name: &str) -> Outcome {
    let start = Instant::now();
    match name.split_once('/') {
        Some((name, how)) => loops::run(name, how == "jit")?,
        None => eval(&program(name))?,
    }
    let nanoseconds = start.elapsed().as_nanos();
    let stats = stats();
    println!(
        "{nanoseconds} {} {}",
        stats.kernels_compiled, stats.disk_cache_hits
    );
    Ok(())
}

/// Runs a program in a process of its own.
fn spawned(name: &str, cache: &Path) -> Outcome<Report> {
    report(child::command()?, name, cache)
}

fn report(command: Command, name: &str, cache: &Path) -> Outcome<Report> {
    let [nanoseconds, compiled, from_disk] = child::run(command, name, cache)?;
    Ok(Report {
        nanoseconds,
        compiled: compiled as u64,
        from_disk: from_disk as u64,
    })
}

/// Runs a program with an empty cache.
fn fresh(name: &str) -> Outcome<Report> {
    spawned(name, tempfile::tempdir()?.path())
}

/// Nanoseconds of the compiler's driver on the sources of a program, with the flags kernels are compiled with.
fn bare_compiler(sources: &[String]) -> Outcome<f64> {
    let folder = tempfile::tempdir()?;
    let program = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let flags = CCompiler::get()?.flags();
    let mut total = 0.0;
    for source in sources {
        let start = Instant::now();
        let mut compiler = Command::new(&program)
            .args(["-shared", "-nostdlib", "-pipe"])
            .args(&flags)
            .args(["-x", "c", "-", "-o"])
            .arg(folder.path().join("kernel.so"))
            .stdin(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = compiler.stdin.take() {
            stdin.write_all(source.as_bytes())?;
        }
        if !compiler.wait()?.success() {
            return Err("the compiler refused a source".into());
        }
        total += start.elapsed().as_nanos() as f64;
    }
    Ok(total)
}

fn against_the_compiler(options: &Options) -> Outcome {
    let heads = [
        "program",
        "first call",
        "compiler alone",
        "first call / compiler",
        "≤ 1.5",
        "≤ 75 ms",
    ];
    let mut table = Table::new("First call of a process with an empty cache", &heads);
    for name in PROGRAMS.iter().filter(|name| options.wants(name)) {
        let outputs = program(name);
        let sources = explain(&outputs.iter().collect::<Vec<_>>())
            .sources()
            .to_vec();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let mut compiled = 0;
        for round in 0..options.rounds + 1 {
            let report = fresh(name)?;
            let alone = bare_compiler(&sources)?;
            compiled = report.compiled;
            // The first round brings the compiler into memory.
            if round > 0 || options.rounds == 1 {
                ours.push(report.nanoseconds);
                theirs.push(alone);
            }
        }
        let ratio: Ratio = ratio(&ours, &theirs);
        table.row([
            format!("{name} ({compiled} kernels)"),
            time(median(&ours)),
            time(median(&theirs)),
            ratio.to_string(),
            verdict(ratio.median <= 1.5),
            verdict(median(&ours) <= 75e6),
        ]);
    }
    table.print();
    Ok(())
}

fn ten_kernels(options: &Options) -> Outcome {
    if !options.wants("ten") {
        return Ok(());
    }
    let heads = ["flush", "one kernel", "ten", "ten / one", "≤ 3"];
    let mut table = Table::new("Ten kernels of one flush", &heads);
    let (mut one, mut ten, mut compiled) = (Vec::new(), Vec::new(), 0);
    for _ in 0..options.rounds {
        one.push(fresh("pointwise")?.nanoseconds);
        let report = fresh("ten")?;
        ten.push(report.nanoseconds);
        compiled = report.compiled;
    }
    let ratio = ratio(&ten, &one);
    table.row([
        format!("{compiled} kernels"),
        time(median(&one)),
        time(median(&ten)),
        ratio.to_string(),
        verdict(ratio.median <= 3.0),
    ]);
    table.print();
    Ok(())
}

/// First calls in tiered and in eager mode, kernels on one thread, so that on a machine of two cores one is spare for
/// the compiler.
fn tiered(options: &Options) -> Outcome {
    if !options.wants("tiered") {
        return Ok(());
    }
    let heads = ["program", "tiered", "eager", "tiered / eager", "≤ 1.1"];
    let mut table = Table::new(
        "First call in tiered mode, an empty cache, one thread",
        &heads,
    );
    let first = |name: &str, mode: &str| -> Outcome<f64> {
        let mut command = child::command()?;
        command
            .env("FERROTRACE_MODE", mode)
            .env("FERROTRACE_THREADS", "1");
        let cache = tempfile::tempdir()?;
        Ok(report(command, name, cache.path())?.nanoseconds)
    };
    for name in PROGRAMS.iter().chain(&["ten"]) {
        let (mut tiered, mut eager) = (Vec::new(), Vec::new());
        for _ in 0..options.rounds {
            tiered.push(first(name, "tiered")?);
            eager.push(first(name, "eager")?);
        }
        let ratio = ratio(&tiered, &eager);
        table.row([
            (*name).to_owned(),
            time(median(&tiered)),
            time(median(&eager)),
            ratio.to_string(),
            verdict(ratio.median <= 1.1),
        ]);
    }
    table.print();
    Ok(())
}

/// Training loops from their first step on, with and without `jit`.
fn training(options: &Options) -> Outcome {
    let heads = [
        "loop",
        "lazily",
        "kernels",
        "with jit",
        "kernels",
        "lazily / jit",
    ];
    let title = format!("{} steps of training, an empty cache", loops::STEPS);
    let mut table = Table::new(&title, &heads);
    for name in loops::LOOPS.iter().filter(|name| options.wants(name)) {
        let (mut lazily, mut by_jit) = (Vec::new(), Vec::new());
        let (mut kernels, mut kernels_by_jit) = (0, 0);
        for _ in 0..options.rounds {
            let report = fresh(&format!("{name}/lazily"))?;
            lazily.push(report.nanoseconds);
            kernels = report.compiled;
            let report = fresh(&format!("{name}/jit"))?;
            by_jit.push(report.nanoseconds);
            kernels_by_jit = report.compiled;
        }
        table.row([
            (*name).to_owned(),
            time(median(&lazily)),
            kernels.to_string(),
            time(median(&by_jit)),
            kernels_by_jit.to_string(),
            ratio(&lazily, &by_jit).to_string(),
        ]);
    }
    table.print();
    Ok(())
}

fn second_process(options: &Options) -> Outcome {
    if !options.wants("second") {
        return Ok(());
    }
    let heads = [
        "program",
        "first flush",
        "kernels compiled",
        "from disk",
        "0 and ≤ 5 ms",
    ];
    let mut table = Table::new("A second process", &heads);
    for name in PROGRAMS.iter().chain(&["ten"]) {
        let cache = tempfile::tempdir()?;
        spawned(name, cache.path())?;
        let mut reports = Vec::new();
        for _ in 0..options.rounds {
            reports.push(spawned(name, cache.path())?);
        }
        let middle = median(&reports.iter().map(|r| r.nanoseconds).collect::<Vec<_>>());
        let compiled: u64 = reports.iter().map(|r| r.compiled).sum();
        let from_disk = reports.last().map_or(0, |r| r.from_disk);
        let met = verdict(compiled == 0 && middle <= 5e6);
        table.row([
            (*name).to_owned(),
            time(middle),
            compiled.to_string(),
            from_disk.to_string(),
            met,
        ]);
    }
    table.print();
    Ok(())
}
