//! Whole networks on the CPU, in compiled mode: milliseconds of a call, the least of some rounds, one line each.
//!
//! ```text
//! cargo bench --bench models [-- --rounds N] [-- --smoke] [-- --profile] [names]
//! ```
//!
//! `--profile` adds the time of each step, the least of the rounds, and the last round summed up. With `--serve compiled` or
//! `--serve eager` it answers `peers/cpu_models.py`, which compares it with other libraries.

mod measure;
mod network;
mod workload;

use ferrotrace::prelude::*;
use ferrotrace::{profile, stats_scope};
use measure::serve::{Run, serve};
use measure::table::mebibytes;
use measure::{Options, Outcome};
use std::time::Instant;
use workload::{Workload, magnitude};

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--serve") {
        let eager = args.get(at + 1).is_some_and(|mode| mode == "eager");
        let mode = if eager { Mode::Eager } else { Mode::Compiled };
        return Ok(with_mode(mode, || serve(opened))?);
    }
    let options = Options::from_args();
    for name in network::NAMES.iter().filter(|name| options.wants(name)) {
        let mut network = network::open(name).ok_or("a network of the list")?;
        let mut call = || computed(&mut network).map(drop);
        let start = Instant::now();
        call()?;
        let first = start.elapsed().as_secs_f64() * 1e3;
        let (ran, stats) = stats_scope(&mut call);
        ran?;
        let times = (0..options.rounds).map(|_| {
            let start = Instant::now();
            call().map(|()| start.elapsed().as_secs_f64() * 1e3)
        });
        let times = times.collect::<Result<Vec<f64>>>()?;
        let least = times.iter().copied().fold(f64::INFINITY, f64::min);
        println!(
            "{name}: {least:.2} ms, first call {first:.0} ms, {} at most",
            mebibytes(stats.peak_bytes)
        );
        if args.iter().any(|arg| arg == "--profile") {
            let mut least: Vec<(f64, String)> = vec![];
            let mut whole = None;
            for _ in 0..options.rounds {
                let (ran, profile) = profile(&mut call);
                ran?;
                for (i, span) in profile.spans().iter().enumerate() {
                    let micros = span.time.as_secs_f64() * 1e6;
                    match least.get_mut(i) {
                        Some(step) => step.0 = step.0.min(micros),
                        None => {
                            least.push((micros, format!("{:>10} bytes  {}", span.bytes, span.name)))
                        }
                    }
                }
                whole = Some(profile);
            }
            for (micros, what) in &least {
                println!("{micros:>10.1} µs {what}");
            }
            println!(
                "{:.1} µs, the sum of each step's least",
                least.iter().map(|step| step.0).sum::<f64>()
            );
            let Some(profile) = whole else { continue };
            println!("{profile}");
        }
    }
    Ok(())
}

fn computed(network: &mut Workload) -> Result<Vec<Tensor>> {
    let outputs = network();
    eval(&outputs)?;
    Ok(outputs)
}

/// A network for the peers' driver, and the mean magnitude of its output.
fn opened(name: &str) -> std::result::Result<(f64, Run), String> {
    let mut network = network::open(name).ok_or("no such network")?;
    let outputs = computed(&mut network).map_err(|e| e.to_string())?;
    let value = magnitude(&outputs[0]).map_err(|e| e.to_string())?;
    drop(outputs);
    let run = move || computed(&mut network).map(drop).map_err(|e| e.to_string());
    Ok((value, Box::new(run)))
}
