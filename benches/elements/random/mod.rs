//! Random programs, timed in both modes. Those that compiled mode runs longer than eager mode are told, with what they do, and
//! so are those whose numbers differ.
//!
//! ```text
//! cargo bench --bench elements -- random [--cuda] [--lengths] FIRST COUNT
//! ```
//!
//! `FIRST` and `COUNT` choose the seeds. With `--lengths` inputs have another length at every step, as sequences of a text do. One
//! program alone is explained.

mod draw;
#[path = "../../../tests/common/rng.rs"]
#[allow(dead_code, missing_docs)]
mod rng;

use super::measure::{Outcome, median};
use draw::{Kind, inputs, results};
use ferrotrace::prelude::*;
use ferrotrace::{explain, stats};
use std::time::Instant;

/// Steps whose median counts, behind as many that do not; of programs that run once each time, one does not.
const STEPS: usize = 24;
const TIMES: usize = 9;
/// How many times eager mode's time is told.
const SLOW: f64 = 1.4;
/// How far numbers may lie apart.
const APART: f64 = 1e-3;

/// What is timed.
#[derive(Debug)]
pub struct Options {
    device: Device,
    lengths: bool,
    seeds: std::ops::Range<u64>,
}

impl Options {
    /// What the command line asks for, if that is random programs.
    pub fn from_args() -> Option<Result<Options>> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let has = |name: &str| arguments.iter().any(|argument| argument == name);
        if !has("random") {
            return None;
        }
        let device = match has("--cuda") {
            true => Device::cuda(0),
            false => Ok(Device::cpu()),
        };
        let mut numbers = arguments
            .iter()
            .filter_map(|argument| argument.parse().ok());
        let (first, count) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(100));
        Some(device.map(|device| Options {
            device,
            lengths: has("--lengths"),
            seeds: first..first + count,
        }))
    }
}

/// How far numbers lie apart, as a part of them: 98 % of them at most so far. What is rounded or compared may jump.
fn distance(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    let same_lengths = a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.len() == b.len());
    if !same_lengths {
        return f64::INFINITY;
    }
    let pairs = a.iter().flatten().zip(b.iter().flatten());
    let apart = pairs.map(|(a, b)| match a == b || a.is_nan() && b.is_nan() {
        true => 0.0,
        false => (a - b).abs() / (1.0 + a.abs()),
    });
    let mut apart: Vec<f64> = apart.collect();
    apart.sort_by(f64::total_cmp);
    apart.get(apart.len() * 49 / 50).copied().unwrap_or(0.0)
}

/// The inputs of each step.
fn steps(of: &[Tensor], kind: Kind, lengths: bool) -> Result<Vec<Vec<Tensor>>> {
    if !lengths {
        return Ok(vec![of.to_vec(); TIMES + 1]);
    }
    let dim = match kind {
        Kind::Matrices => 0,
        Kind::Images => 2,
    };
    let step = |i: usize| {
        let shorter = |x: &Tensor| {
            let n = x.dims()[dim];
            // No length twice, in no order.
            let taken = (i * 7 + 3) % (2 * STEPS + 1);
            x.narrow(dim, 0, n - taken * n / (4 * STEPS)).contiguous()
        };
        let inputs: Vec<Tensor> = of.iter().map(shorter).collect();
        eval(&inputs)?;
        Ok(inputs)
    };
    (0..2 * STEPS).map(step).collect()
}

/// Times programs of some seeds.
pub fn run(options: &Options) -> Outcome {
    let mut ratios = Vec::new();
    for seed in options.seeds.clone() {
        let kind = match seed % 3 {
            0 => Kind::Images,
            _ => Kind::Matrices,
        };
        let drawn = inputs(seed, kind, &options.device);
        eval(&drawn)?;
        let steps = steps(&drawn, kind, options.lengths)?;
        let numbers = |mode| -> Result<Vec<Vec<f64>>> {
            let results = with_mode(mode, || results(seed, kind, &drawn).0);
            let numbers = results.iter().map(|x| x.to_dtype(DType::F64).to_vec());
            numbers.collect()
        };
        let (eager, compiled) = match (numbers(Mode::Eager), numbers(Mode::Compiled)) {
            (Ok(eager), Ok(compiled)) => (eager, compiled),
            (Err(eager), Err(compiled)) if eager.to_string() == compiled.to_string() => continue,
            (eager, compiled) => {
                println!("seed {seed}: {:?} and {:?}", eager.err(), compiled.err());
                continue;
            }
        };
        let apart = distance(&eager, &compiled);
        let sample = |mode| -> Result<f64> {
            let mut times = Vec::new();
            for inputs in &steps {
                let start = Instant::now();
                with_mode(mode, || eval(&results(seed, kind, inputs).0))?;
                options.device.synchronize()?;
                times.push(start.elapsed().as_nanos() as f64);
            }
            let first = if options.lengths { STEPS } else { 1 };
            Ok(median(&times[first..]))
        };
        let plans = stats().plans_built;
        // A length at which an operation is an error ends both.
        let (Ok(compiled), Ok(eager)) = (sample(Mode::Compiled), sample(Mode::Eager)) else {
            continue;
        };
        let plans = stats().plans_built - plans;
        ratios.push((compiled / eager).ln());
        if compiled > SLOW * eager || apart > APART {
            let text = results(seed, kind, &drawn).1.join("\n  ");
            let shapes: Vec<&[usize]> = drawn.iter().map(|x| x.dims()).collect();
            let (eager, compiled) = (eager / 1e3, compiled / 1e3);
            println!(
                "seed {seed}: compiled {compiled:.0} us, eager {eager:.0}, {:.2}; {plans} plans, apart {apart:.0e}",
                compiled / eager
            );
            println!("  {shapes:?} of {}\n  {text}", drawn[0].dtype());
        }
        if options.seeds.end - options.seeds.start == 1 {
            let made = with_mode(Mode::Compiled, || results(seed, kind, &drawn).0);
            let told = explain(&made).to_string();
            println!("{}", told.split("source:").next().unwrap_or(""));
        }
    }
    let (count, sum) = (ratios.len(), ratios.iter().sum::<f64>());
    let mean = (sum / count.max(1) as f64).exp();
    println!("{count} programs: geometric mean of compiled / eager {mean:.2}");
    Ok(())
}
