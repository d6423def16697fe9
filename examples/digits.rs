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
use std::time::Instant;

const HIDDEN: usize = 128;
const BATCH: usize = 32;
const EPOCHS: usize = 20;
const RATE: f64 = 0.1;
const MOMENTUM: f64 = 0.9;
const WANTED: f64 = 0.96;

/// Weights and biases of both layers: `[64, HIDDEN]`, `[HIDDEN]`, `[HIDDEN, 10]`, `[10]`.
type Parameters = [Tensor; 4];

/// Parameters and their velocities.
type State = (Parameters, Parameters);

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

fn main() -> Result<()> {
    let device = Device::best();
    let (train, held_back) = load(&device);
    eval([&train.images, &held_back.images])?;
    let (learnt, kept) = (train.images.dim(0)?, held_back.images.dim(0)?);
    println!("{learnt} images to learn from, {kept} held back, on {device}");

    let compiled = run(Mode::Compiled, &train, &held_back)?;
    let eager = run(Mode::Eager, &train, &held_back)?;

    show(&compiled.parameters, &held_back, 4)?;
    let percent = 100.0 * compiled.accuracy;
    println!("accuracy on the images held back: {percent:.2} %\n");
    compare(&compiled, &eager);
    if std::env::args().any(|argument| argument == "--json") {
        println!("{}", json(&compiled, &eager));
    }
    if compiled.accuracy < WANTED {
        eprintln!("the accuracy is below {:.0} %", 100.0 * WANTED);
        std::process::exit(1);
    }
    Ok(())
}

/// The images to learn from, and every fifth one, held back.
fn load(device: &Device) -> (Digits, Digits) {
    let parse = |number: &str| number.parse().expect("the file holds numbers");
    let lines = include_str!("data/digits.csv").lines();
    let numbers = |line: &str| line.split(',').map(parse).collect();
    let rows: Vec<Vec<f32>> = lines.map(numbers).collect();
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

/// One step of gradient descent with momentum: the new state, and the mean loss before the step.
fn step((parameters, velocities): State, batch: &Digits) -> (State, Tensor) {
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
    ((parameters, velocities), loss)
}

/// Trains from the same random start in `mode`, and measures the accuracy.
fn run(mode: Mode, train: &Digits, held_back: &Digits) -> Result<Run> {
    let style = ProgressStyle::with_template("{prefix:8} {bar:40} {pos}/{len} {msg}");
    let bar = ProgressBar::new(EPOCHS as u64)
        .with_style(style.expect("a valid template"))
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
    let parameters: Parameters = [
        randn([64, HIDDEN], (2.0f64 / 64.0).sqrt()),
        Tensor::zeros(HIDDEN, DType::F32, &device),
        randn([HIDDEN, 10], (2.0 / HIDDEN as f64).sqrt()),
        Tensor::zeros(10, DType::F32, &device),
    ];
    let velocities: Parameters = std::array::from_fn(|i| parameters[i].zeros_like());
    eval(parameters.iter().chain(&velocities))?;
    let mut state = (parameters, velocities);

    // Traced at the first call, replayed afterwards. What is passed by value may be overwritten.
    let step = jit(|(state, all, rows): (State, [&Tensor; 2], &Tensor)| {
        let [images, labels] = all.map(|part| part.index_select(0, rows));
        step(state, &Digits { images, labels })
    });
    let all = [&train.images, &train.labels];

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
            (state, batch_loss) = step.call((state, all, &rows));
            loss += batch_loss;
        }
        let loss = loss.to_scalar::<f32>()? / batches as f32;
        seconds.push(start.elapsed().as_secs_f64());
        bar.set_message(format!("loss {loss:.4}"));
        bar.inc(1);
    }
    Ok((state.0, seconds))
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
    let shade = |pixel: &f32| [' ', '.', 'o', '#'][(pixel * 3.999) as usize];
    for row in 0..8 {
        for image in pixels.chunks(64) {
            let pixels = image[8 * row..][..8].iter();
            let line: String = pixels.flat_map(|pixel| [shade(pixel); 2]).collect();
            print!("{line}    ");
        }
        println!();
    }
    for (prediction, label) in predictions.iter().zip(&labels) {
        print!("read {prediction}, is {label}        ");
    }
    println!("\n");
    Ok(())
}

/// The median of the epochs' seconds: the first one traces and compiles.
fn seconds_per_epoch(run: &Run) -> f64 {
    let mut seconds = run.epochs.clone();
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

fn compare(compiled: &Run, eager: &Run) {
    println!("{:24}{:>12}{:>12}", "", "compiled", "eager");
    let times = |name: &str, time: &dyn Fn(&Run) -> f64| {
        let (a, b) = (1e3 * time(compiled), 1e3 * time(eager));
        println!("{name:24}{a:9.2} ms{b:9.2} ms");
    };
    times("first epoch", &|run| run.epochs[0]);
    times("epoch (median)", &seconds_per_epoch);
    let counts = |name: &str, count: fn(&Stats) -> u64| {
        let (a, b) = (count(&compiled.stats), count(&eager.stats));
        println!("{name:24}{a:12}{b:12}");
    };
    counts("fused kernels run", |stats| stats.kernels_launched);
    counts("calls between them", |stats| stats.library_calls);
    counts("kernels compiled", |stats| stats.kernels_compiled);
    counts("found on disk", |stats| stats.disk_cache_hits);
    counts("functions traced", |stats| stats.traces);
    counts("plans reused", |stats| stats.plan_cache_hits);
    counts("written in place", |stats| stats.in_place_writes);
    counts("peak bytes", |stats| stats.peak_bytes);
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
