//! Whole programs, each as a `jit` function, recorded anew by every call (lazy) and in eager mode. `peers/programs.py`
//! computes them by PyTorch, from the same inputs.
//!
//! ```text
//! cargo bench --bench programs [-- cuda | cpu] [-- --rounds N] [-- --smoke] [-- --profile] [-- names]
//! ```
//!
//! Microseconds of a call are medians over rounds in which the three forms take turns; the calls of a sample are queued, and
//! the device is waited for after the last. The first call compiles what `FERROTRACE_CACHE_DIR` does not hold. The last
//! column says how far the mean magnitudes of the first results lie apart; where that is too far, the benchmark fails.
//! `--profile` adds the time of each step, of the function and of eager mode.

mod arrays;
#[path = "../measure/mod.rs"]
mod measure;
mod networks;
mod sequences;
mod simulations;
mod training;

use ferrotrace::prelude::*;
use ferrotrace::{profile, stats_scope};
use measure::table::Table;
use measure::{Contender, Options, Outcome, interleaved, median};
use std::time::Instant;

/// A program: what it computes from which inputs.
#[derive(Clone, Copy)]
struct Program {
    name: &'static str,
    inputs: fn(&Device) -> Vec<Tensor>,
    compute: fn(&[&Tensor]) -> Vec<Tensor>,
    /// How far mean magnitudes may lie apart, as a part of them; nothing is compared where numbers are drawn at random.
    tolerance: Option<f64>,
}

impl Program {
    /// A program in f32.
    const fn f32(
        name: &'static str,
        inputs: fn(&Device) -> Vec<Tensor>,
        compute: fn(&[&Tensor]) -> Vec<Tensor>,
    ) -> Program {
        Program {
            name,
            inputs,
            compute,
            tolerance: Some(1e-5),
        }
    }

    /// A program in bf16, whose intermediate values are rounded where its kernels end.
    const fn bf16(
        name: &'static str,
        inputs: fn(&Device) -> Vec<Tensor>,
        compute: fn(&[&Tensor]) -> Vec<Tensor>,
    ) -> Program {
        Program {
            tolerance: Some(2e-3),
            ..Program::f32(name, inputs, compute)
        }
    }

    /// A program that draws random numbers.
    const fn random(
        name: &'static str,
        inputs: fn(&Device) -> Vec<Tensor>,
        compute: fn(&[&Tensor]) -> Vec<Tensor>,
    ) -> Program {
        Program {
            tolerance: None,
            ..Program::f32(name, inputs, compute)
        }
    }
}

/// An input of f32: a sine of the position, whose phase is the seed's.
fn wave(device: &Device, shape: impl Into<Shape>, seed: usize, scale: f64) -> Tensor {
    let shape = shape.into();
    let value = |k| (scale * (k as f64 * 1.2345 + seed as f64 * 7.7).sin()) as f32;
    let values: Vec<f32> = (0..shape.numel()).map(value).collect();
    Tensor::from_vec(values, shape, device)
}

/// An input of f32 whose rows and columns are independent: about normal, of deviation `scale`.
fn normal(device: &Device, shape: impl Into<Shape>, seed: u64, scale: f32) -> Tensor {
    let shape = shape.into();
    Tensor::from_vec(
        measure::input::normal(shape.numel(), seed, scale),
        shape,
        device,
    )
}

/// An input of i64 below a bound.
fn ids(device: &Device, shape: impl Into<Shape>, seed: usize, bound: usize) -> Tensor {
    let shape = shape.into();
    let value = |k| ((k * 7919 + seed * 104_729 + k / 13 * 31) % bound) as i64;
    let values: Vec<i64> = (0..shape.numel()).map(value).collect();
    Tensor::from_vec(values, shape, device)
}

/// The inputs in bf16.
fn halved(inputs: Vec<Tensor>) -> Vec<Tensor> {
    inputs.iter().map(|x| x.to_dtype(DType::BF16)).collect()
}

/// The mean magnitude of a tensor, in f64.
fn magnitude(tensor: &Tensor) -> Result<f64> {
    tensor.to_dtype(DType::F64).abs().mean(..).to_scalar()
}

/// A contender whose calls are queued on the device.
fn queued<'a>(device: &'a Device, call: impl Fn() -> Vec<Tensor> + 'a) -> Contender<'a> {
    Box::new(move |n| {
        let start = Instant::now();
        for _ in 0..n {
            eval(&call()).expect("a call that succeeded before");
        }
        device.synchronize().expect("a device that works");
        start.elapsed()
    })
}

/// Measures a program: its row, and whether its forms agree.
fn measured(program: Program, device: &Device, options: &Options) -> Result<(Vec<String>, bool)> {
    let inputs = (program.inputs)(device);
    let x: Vec<&Tensor> = inputs.iter().collect();
    eval(&inputs)?;
    device.synchronize()?;
    let function = jit(move |x: Vec<&Tensor>| (program.compute)(&x));
    let compiled = || function.call(x.clone());
    let lazy = || (program.compute)(&x);
    let eager = || with_mode(Mode::Eager, || (program.compute)(&x));
    let computed = |results: Vec<Tensor>| -> Result<Vec<Tensor>> {
        eval(&results)?;
        device.synchronize()?;
        Ok(results)
    };

    let start = Instant::now();
    let results = computed(compiled())?;
    let first = start.elapsed().as_secs_f64() * 1e3;
    let expected = magnitude(&results[0])?;
    drop(results);
    let (ran, counts) = stats_scope(|| computed(compiled()));
    ran?;
    let mut apart = 0.0f64;
    for results in [
        computed(lazy())?,
        with_mode(Mode::Eager, || computed(eager()))?,
    ] {
        let difference = (magnitude(&results[0])? - expected).abs() / expected.abs();
        // A maximum would drop NaN.
        apart = if difference > apart || difference.is_nan() {
            difference
        } else {
            apart
        };
    }
    let agrees = program.tolerance.is_none_or(|most| apart <= most);

    let times = interleaved(
        &mut [
            queued(device, compiled),
            queued(device, lazy),
            queued(device, eager),
        ],
        options,
    );
    if std::env::args().any(|arg| arg == "--profile") {
        let (ran, steps) = profile(|| computed(compiled()));
        ran?;
        println!("{}\n{steps}", program.name);
        let (ran, steps) = profile(|| computed(eager()));
        ran?;
        println!("{}, in eager mode\n{steps}", program.name);
    }
    let mut row = vec![program.name.to_owned()];
    row.extend(times.iter().map(|t| format!("{:.0}", median(t) / 1e3)));
    row.push(format!("{first:.0}"));
    row.push(counts.kernels_launched.to_string());
    row.push(counts.library_calls.to_string());
    row.push(match (program.tolerance, agrees) {
        (None, _) => "random".to_owned(),
        (_, true) => format!("{apart:.0e}"),
        (_, false) => format!("**{apart:.0e}**"),
    });
    Ok((row, agrees))
}

fn main() -> Outcome {
    let mut options = Options::from_args();
    let given = |name: &str| std::env::args().any(|arg| arg == name);
    options.names.retain(|name| name != "cuda" && name != "cpu");
    let device = match (given("cuda"), given("cpu")) {
        (true, _) => Device::cuda(0)?,
        (_, true) => Device::cpu(),
        _ => Device::best(),
    };
    let heads = [
        "program",
        "jit, µs",
        "lazy, µs",
        "eager, µs",
        "first call, ms",
        "kernels",
        "library calls",
        "apart",
    ];
    let mut table = Table::new("Programs", &heads);
    let mut wrong = Vec::new();
    let groups = [
        training::PROGRAMS,
        networks::PROGRAMS,
        sequences::PROGRAMS,
        simulations::PROGRAMS,
        arrays::PROGRAMS,
    ];
    for &program in groups
        .into_iter()
        .flatten()
        .filter(|p| options.wants(p.name))
    {
        match measured(program, &device, &options) {
            Ok((row, agrees)) => {
                table.row(row);
                if !agrees {
                    wrong.push(format!("{}: its forms disagree", program.name));
                }
            }
            Err(error) => wrong.push(format!("{}: {error}", program.name)),
        }
    }
    table.print();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(wrong.join("\n").into())
}
