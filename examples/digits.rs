//! Handwritten digits: a network of two layers learns to read them, compiled and then eagerly, side by side.
//!
//! ```text
//! cargo run --release --example digits [-- --json]
//! ```
//!
//! The gradient of this one network is written out with tensor operations. Every fifth image is held back to measure
//! the accuracy, which must be at least 96 %. With `--json` the last line of the output is one JSON object.

use ferrotrace::prelude::*;
use ferrotrace::{Stats, manual_seed, stats_scope};
use indicatif::{ProgressBar, ProgressStyle};
use std::process::ExitCode;
use std::time::Instant;

const HIDDEN: usize = 128;
const BATCH: usize = 32;
const EPOCHS: usize = 20;
const RATE: f64 = 0.1;
const MOMENTUM: f64 = 0.9;
const WANTED: f64 = 0.96;

/// Weights and biases of both layers: `[64, HIDDEN]`, `[HIDDEN]`, `[HIDDEN, 10]`, `[10]`.
type Parameters = [Tensor; 4];

/// Images as rows of 64 numbers from 0 to 1 (f32), and the digits they show (i64).
struct Digits {
    images: Tensor,
    labels: Tensor,
}

/// What a training run came to.
struct Run {
    parameters: Parameters,
    accuracy: f64,
    epochs: Vec<f64>,
    stats: Stats,
}

fn main() -> Result<ExitCode> {
    let device = Device::best();
    let (train, held_back) = load(&device);
    eval([&train.images, &held_back.images])?;
    println!(
        "{} images to learn from, {} held back, on {device}",
        train.images.dim(0)?,
        held_back.images.dim(0)?
    );

    let compiled = run(Mode::Compiled, &train, &held_back)?;
    let eager = run(Mode::Eager, &train, &held_back)?;

    show(&compiled.parameters, &held_back, 4)?;
    println!(
        "accuracy on the images held back: {:.2} %\n",
        100.0 * compiled.accuracy
    );
    compare(&compiled, &eager);
    if std::env::args().any(|argument| argument == "--json") {
        println!("{}", json(&compiled, &eager));
    }
    if compiled.accuracy < WANTED {
        eprintln!("the accuracy is below {:.0} %", 100.0 * WANTED);
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// The images to learn from, and every fifth one, held back.
fn load(device: &Device) -> (Digits, Digits) {
    let parse = |number: &str| number.parse().expect("the file holds numbers");
    let lines = include_str!("data/digits.csv").lines();
    let rows: Vec<Vec<f32>> = lines
        .map(|line| line.split(',').map(parse).collect())
        .collect();
    let part = |held_back: bool| {
        let rows = || (rows.iter().enumerate()).filter(move |(i, _)| (i % 5 == 4) == held_back);
        let labels: Vec<i64> = rows().map(|(_, row)| row[64] as i64).collect();
        let pixels: Vec<f32> = rows().flat_map(|(_, row)| row[..64].to_vec()).collect();
        let count = labels.len();
        Digits {
            images: Tensor::from_vec(pixels, [count, 64], device) / 16.0,
            labels: Tensor::from_vec(labels, count, device),
        }
    };
    (part(false), part(true))
}

/// The scores of the ten digits, and the hidden layer.
fn forward([w1, b1, w2, b2]: &Parameters, images: &Tensor) -> (Tensor, Tensor) {
    let hidden = (images.matmul(w1) + b1).relu();
    (hidden.matmul(w2) + b2, hidden)
}

/// One step of gradient descent with momentum: new parameters, new velocities, and the mean loss before the step.
fn step(
    parameters: Parameters,
    velocities: Parameters,
    batch: &Digits,
) -> (Parameters, Parameters, Tensor) {
    let (scores, hidden) = forward(&parameters, &batch.images);
    let log_probabilities = scores.log_softmax(-1);
    let truth = batch.labels.one_hot(10).to_dtype(DType::F32);
    let loss = -(&log_probabilities * &truth).sum(-1).mean(0);

    // The chain rule, from the loss back to every parameter.
    let d_scores = (log_probabilities.exp() - truth) / BATCH as f64;
    let d_hidden = d_scores.matmul(&parameters[2].t()) * hidden.gt(0.0);
    let gradients = [
        batch.images.t().matmul(&d_hidden),
        d_hidden.sum(0),
        hidden.t().matmul(&d_scores),
        d_scores.sum(0),
    ];

    let velocities: Parameters = std::array::from_fn(|i| &velocities[i] * MOMENTUM + &gradients[i]);
    let parameters = std::array::from_fn(|i| &parameters[i] - &velocities[i] * RATE);
    (parameters, velocities, loss)
}

/// Trains from the same random start in `mode`, and measures the accuracy.
fn run(mode: Mode, train: &Digits, held_back: &Digits) -> Result<Run> {
    let bar = ProgressBar::new(EPOCHS as u64)
        .with_style(
            ProgressStyle::with_template("{prefix:8} {bar:40} {pos}/{len} {msg}")
                .expect("a valid template"),
        )
        .with_prefix(format!("{mode:?}").to_lowercase());
    let (result, stats) = stats_scope(|| {
        with_mode(mode, || {
            manual_seed(0);
            let (parameters, epochs) = train_epochs(train, &bar)?;
            let right = predict(&parameters, &held_back.images).eq(&held_back.labels);
            let accuracy = right.to_dtype(DType::F64).mean(0).to_scalar::<f64>()?;
            Ok((parameters, accuracy, epochs))
        })
    });
    bar.finish();
    let (parameters, accuracy, epochs) = result?;
    Ok(Run {
        parameters,
        accuracy,
        epochs,
        stats,
    })
}

/// The trained parameters, and the seconds that each epoch took.
fn train_epochs(train: &Digits, bar: &ProgressBar) -> Result<(Parameters, Vec<f64>)> {
    let device = train.images.device();
    let randn = |shape: [usize; 2], scale: f64| Tensor::randn(shape, DType::F32, &device) * scale;
    let mut parameters: Parameters = [
        randn([64, HIDDEN], (2.0f64 / 64.0).sqrt()),
        Tensor::zeros(HIDDEN, DType::F32, &device),
        randn([HIDDEN, 10], (2.0 / HIDDEN as f64).sqrt()),
        Tensor::zeros(10, DType::F32, &device),
    ];
    let mut velocities: Parameters = std::array::from_fn(|i| parameters[i].zeros_like());
    eval(parameters.iter().chain(&velocities))?;

    // Traced at the first call, replayed afterwards. What is passed by value may be overwritten in place.
    let step = jit(
        |(parameters, velocities, all, labels, rows): (
            Parameters,
            Parameters,
            &Tensor,
            &Tensor,
            &Tensor,
        )| {
            let batch = Digits {
                images: all.index_select(0, rows),
                labels: labels.index_select(0, rows),
            };
            step(parameters, velocities, &batch)
        },
    );

    let mut seconds = Vec::new();
    for _ in 0..EPOCHS {
        let start = Instant::now();
        let count = train.images.dim(0)?;
        let order = Tensor::randperm(count, &device);
        order.eval()?;
        let mut loss = Tensor::zeros((), DType::F32, &device);
        let batches = count / BATCH;
        for i in 0..batches {
            let rows = order.narrow(0, (i * BATCH) as isize, BATCH);
            let batch_loss;
            (parameters, velocities, batch_loss) =
                step.call((parameters, velocities, &train.images, &train.labels, &rows));
            loss += batch_loss;
        }
        let loss = loss.to_scalar::<f32>()? / batches as f32;
        seconds.push(start.elapsed().as_secs_f64());
        bar.set_message(format!("loss {loss:.4}"));
        bar.inc(1);
    }
    Ok((parameters, seconds))
}

/// The most likely digit of each image.
fn predict(parameters: &Parameters, images: &Tensor) -> Tensor {
    forward(parameters, images).0.argmax(-1)
}

/// Prints a few images as text, side by side, with what they are taken for.
fn show(parameters: &Parameters, digits: &Digits, count: usize) -> Result<()> {
    let images = digits.images.narrow(0, 0, count);
    let predictions = predict(parameters, &images).to_vec::<i64>()?;
    let labels = digits.labels.narrow(0, 0, count).to_vec::<i64>()?;
    let pixels = images.to_vec::<f32>()?;
    println!();
    for row in 0..8 {
        let line = |image: usize| -> String {
            let start = image * 64 + row * 8;
            let shade = |&pixel: &f32| [' ', '.', 'o', '#'][(pixel * 3.999) as usize];
            let row = &pixels[start..start + 8];
            row.iter().flat_map(|pixel| [shade(pixel); 2]).collect()
        };
        println!("{}", (0..count).map(line).collect::<Vec<_>>().join("    "));
    }
    let caption = |i: usize| {
        format!(
            "{:20}",
            format!("read {}, is {}", predictions[i], labels[i])
        )
    };
    println!("{}\n", (0..count).map(caption).collect::<String>());
    Ok(())
}

/// The median of the epochs' seconds: the first one traces and compiles.
fn seconds_per_epoch(run: &Run) -> f64 {
    let mut seconds = run.epochs.clone();
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

fn compare(compiled: &Run, eager: &Run) {
    let row = |name: &str, value: &dyn Fn(&Run) -> String| {
        println!("{name:28}{:>14}{:>14}", value(compiled), value(eager));
    };
    println!("{:28}{:>14}{:>14}", "", "compiled", "eager");
    row("accuracy", &|run| format!("{:.2} %", 100.0 * run.accuracy));
    row("first epoch", &|run| {
        format!("{:.2} ms", 1e3 * run.epochs[0])
    });
    row("median", &|run| {
        format!("{:.2} ms", 1e3 * seconds_per_epoch(run))
    });
    row("fused kernels run", &|run| {
        run.stats.kernels_launched.to_string()
    });
    row("calls between them", &|run| {
        run.stats.library_calls.to_string()
    });
    row("kernels compiled", &|run| {
        run.stats.kernels_compiled.to_string()
    });
    row("found on disk", &|run| {
        run.stats.disk_cache_hits.to_string()
    });
    row("found in memory", &|run| {
        run.stats.kernel_cache_hits.to_string()
    });
    row("functions traced", &|run| run.stats.traces.to_string());
    row("plans reused", &|run| run.stats.plan_cache_hits.to_string());
    row("written in place", &|run| {
        run.stats.in_place_writes.to_string()
    });
    row("peak memory", &|run| {
        format!("{} KiB", run.stats.peak_bytes / 1024)
    });
}

fn json(compiled: &Run, eager: &Run) -> serde_json::Value {
    let mode = |run: &Run| {
        serde_json::json!({
            "seconds_per_epoch": seconds_per_epoch(run),
            "kernels_compiled": run.stats.kernels_compiled,
            "disk_cache_hits": run.stats.disk_cache_hits,
            "kernels_launched": run.stats.kernels_launched,
            "peak_bytes": run.stats.peak_bytes,
        })
    };
    serde_json::json!({ "accuracy": compiled.accuracy, "compiled": mode(compiled), "eager": mode(eager) })
}
