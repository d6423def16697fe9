//! Random programs, timed in both modes. Those that compiled mode runs longer than eager mode are told, with what they do, and
//! so are those whose numbers differ.
//!
//! ```text
//! cargo bench --bench elements -- random [--cuda] [--lengths | --loops] FIRST COUNT
//! ```
//!
//! `FIRST` and `COUNT` choose the seeds. With `--lengths` inputs have another length at every step, as sequences of a text do; with
//! `--loops` a program computes the next state of a loop, of which a number is read every tenth step. One program alone is
//! explained.

mod draw;
#[path = "../../../tests/common/rng.rs"]
#[allow(dead_code, missing_docs)]
mod rng;

use super::measure::{Outcome, median};
use draw::{Kind, inputs, next, results};
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

/// How programs are run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// Again and again on the same inputs.
    Again,
    /// On inputs of other lengths.
    Lengths,
    /// As the step of a loop.
    Loops,
}

/// What is timed.
#[derive(Debug)]
pub struct Options {
    device: Device,
    way: Way,
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
        let way = match (has("--lengths"), has("--loops")) {
            (true, _) => Way::Lengths,
            (_, true) => Way::Loops,
            _ => Way::Again,
        };
        let mut numbers = arguments
            .iter()
            .filter_map(|argument| argument.parse().ok());
        let (first, count) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(100));
        Some(device.map(|device| Options {
            device,
            way,
            seeds: first..first + count,
        }))
    }
}

/// Steps of a loop that count, behind as many that do not, and steps from one read to the next.
const TURNS: usize = 100;
const READ: usize = 10;

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

/// A program and its inputs.
struct Program {
    seed: u64,
    kind: Kind,
    inputs: Vec<Tensor>,
}

impl Program {
    fn new(seed: u64, device: &Device) -> Result<Program> {
        let kind = match seed % 3 {
            0 => Kind::Images,
            _ => Kind::Matrices,
        };
        let inputs = inputs(seed, kind, device);
        eval(&inputs)?;
        Ok(Program { seed, kind, inputs })
    }

    fn results(&self, inputs: &[Tensor]) -> (Vec<Tensor>, Vec<String>) {
        results(self.seed, self.kind, inputs)
    }

    /// What it computes in a mode.
    fn numbers(&self, mode: Mode) -> Result<Vec<Vec<f64>>> {
        let results = with_mode(mode, || self.results(&self.inputs).0);
        let numbers = results.iter().map(|x| x.to_dtype(DType::F64).to_vec());
        numbers.collect()
    }

    /// How far both modes' numbers lie apart, none where both give the same error.
    fn apart(&self) -> Result<Option<f64>> {
        match (self.numbers(Mode::Eager), self.numbers(Mode::Compiled)) {
            (Ok(eager), Ok(compiled)) => Ok(Some(distance(&eager, &compiled))),
            (Err(eager), Err(compiled)) if eager.to_string() == compiled.to_string() => Ok(None),
            (eager, compiled) => Err(eager.and(compiled).expect_err("one of both")),
        }
    }

    /// Inputs of other lengths, none twice and in no order.
    fn shorter(&self, step: usize) -> Result<Vec<Tensor>> {
        let dim = match self.kind {
            Kind::Matrices => 0,
            Kind::Images => 2,
        };
        let shorter = |x: &Tensor| {
            let n = x.dims()[dim];
            let taken = (step * 7 + 3) % (2 * STEPS + 1);
            x.narrow(dim, 0, n - taken * n / (4 * STEPS)).contiguous()
        };
        let inputs: Vec<Tensor> = self.inputs.iter().map(shorter).collect();
        eval(&inputs)?;
        Ok(inputs)
    }

    /// Nanoseconds of a run on these inputs.
    fn time(&self, mode: Mode, inputs: &[Tensor]) -> Result<f64> {
        let start = Instant::now();
        with_mode(mode, || eval(&self.results(inputs).0))?;
        inputs[0].device().synchronize()?;
        Ok(start.elapsed().as_nanos() as f64)
    }

    /// Nanoseconds of each step of a loop, on average between two reads.
    fn times_of_steps(&self) -> Result<Vec<f64>> {
        let (mut inputs, mut times) = (self.inputs.clone(), Vec::new());
        for _ in 0..2 * TURNS / READ {
            let start = Instant::now();
            for _ in 0..READ {
                inputs[0] = next(self.seed, self.kind, &inputs);
            }
            let number = inputs[0].to_dtype(DType::F64).mean(..);
            number.to_scalar::<f64>()?;
            times.push(start.elapsed().as_nanos() as f64 / READ as f64);
        }
        Ok(times)
    }

    /// Nanoseconds of a run, in a mode, after a warm-up.
    fn sample(&self, mode: Mode, way: Way) -> Result<f64> {
        let mut times = Vec::new();
        match way {
            Way::Again => {
                for _ in 0..=TIMES {
                    times.push(self.time(mode, &self.inputs)?);
                }
                Ok(median(&times[1..]))
            }
            Way::Lengths => {
                for step in 0..2 * STEPS {
                    times.push(self.time(mode, &self.shorter(step)?)?);
                }
                Ok(median(&times[STEPS..]))
            }
            Way::Loops => {
                let times = with_mode(mode, || self.times_of_steps())?;
                Ok(median(&times[TURNS / READ..]))
            }
        }
    }

    /// What it does.
    fn tell(&self) -> String {
        let shapes: Vec<&[usize]> = self.inputs.iter().map(|x| x.dims()).collect();
        let text = self.results(&self.inputs).1.join("\n  ");
        format!("  {shapes:?} of {}\n  {text}", self.inputs[0].dtype())
    }

    /// How compiled mode runs it.
    fn explain(&self) -> String {
        let made = with_mode(Mode::Compiled, || self.results(&self.inputs).0);
        let told = explain(&made).to_string();
        told.split("source:").next().unwrap_or("").to_owned()
    }
}

/// Times programs of some seeds.
pub fn run(options: &Options) -> Outcome {
    let mut ratios = Vec::new();
    for seed in options.seeds.clone() {
        let program = Program::new(seed, &options.device)?;
        let apart = match program.apart() {
            Ok(Some(apart)) => apart,
            Ok(None) => continue,
            Err(error) => {
                println!("seed {seed}: an error in one mode alone: {error}");
                continue;
            }
        };
        let plans = stats().plans_built;
        let compiled = program.sample(Mode::Compiled, options.way);
        let plans = stats().plans_built - plans;
        // Some operations are errors at other lengths.
        let (Ok(compiled), Ok(eager)) = (compiled, program.sample(Mode::Eager, options.way)) else {
            continue;
        };
        let ratio = compiled / eager;
        ratios.push(ratio.ln());
        if ratio > SLOW || apart > APART {
            let (compiled, eager) = (compiled / 1e3, eager / 1e3);
            println!(
                "seed {seed}: compiled {compiled:.0} us, eager {eager:.0}, {ratio:.2}; {plans} plans, apart {apart:.0e}"
            );
            println!("{}", program.tell());
        }
        if options.seeds.end - options.seeds.start == 1 {
            println!("{}", program.explain());
        }
    }
    let (count, sum) = (ratios.len(), ratios.iter().sum::<f64>());
    let mean = (sum / count.max(1) as f64).exp();
    println!("{count} programs: geometric mean of compiled / eager {mean:.2}");
    Ok(())
}
