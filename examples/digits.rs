//! Handwritten digits: a network of linear layers and a small convolutional one learn to read them, compiled and eagerly.
//!
//! ```text
//! cargo run --release --example digits [-- --cpu] [--mode compiled|eager] [--seeds N] [--json]
//! ```
//!
//! Each network is trained from several random starts; a fifth of the images, drawn anew each time, is held back to measure
//! the accuracy, whose mean must be at least 98 %. It runs on the first CUDA device if there is one. With `--json` the last
//! line of the output is one JSON object.

use ferrotrace::metrics::accuracy;
use ferrotrace::nn::{
    Apply, Conv2d, CrossEntropyLoss, Dropout, Flatten, Linear, Module, Relu, Sequential,
};
use ferrotrace::optim::{AdamW, Schedule};
use ferrotrace::prelude::*;
use ferrotrace::{Conv, Generator, Stats, manual_seed, stats_scope};
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Instant;

const BATCH: usize = 32;
const WANTED: f64 = 0.98;

/// Images as rows of 64 numbers from 0 to 1 (f32), and the digits they show (i64).
struct Digits {
    images: Tensor,
    labels: Tensor,
}

/// A network, and for how long it learns.
struct Network {
    name: &'static str,
    epochs: usize,
    build: fn(&Device) -> Sequential,
}

const NETWORKS: [Network; 2] = [
    Network {
        name: "mlp",
        epochs: 30,
        build: mlp,
    },
    Network {
        name: "cnn",
        epochs: 12,
        build: cnn,
    },
];

fn mlp(device: &Device) -> Sequential {
    Sequential::new()
        .then(Linear::new(64, 256, device))
        .then(Relu)
        .then(Dropout::new(0.2))
        .then(Linear::new(256, 256, device))
        .then(Relu)
        .then(Dropout::new(0.2))
        .then(Linear::new(256, 10, device))
}

fn cnn(device: &Device) -> Sequential {
    let conv = |from, to| Conv2d::with(from, to, 3, Conv::new().padding(1), device);
    Sequential::new()
        .then(Apply(|x| x.reshape([-1, 1, 8, 8])))
        .then(conv(1, 16))
        .then(Relu)
        .then(conv(16, 32))
        .then(Relu)
        .then(Apply(|x| x.max_pool2d(2, 2, 0)))
        .then(Flatten::default())
        .then(Dropout::new(0.3))
        .then(Linear::new(32 * 4 * 4, 10, device))
}

/// Dropout drops in training alone.
fn set_training(model: &mut Sequential, training: bool) {
    for layer in 0..model.len() {
        if let Some(dropout) = model.get_mut::<Dropout>(layer) {
            dropout.training = training;
        }
    }
}

/// What training a network in a mode came to.
struct Run {
    network: &'static str,
    mode: Mode,
    accuracies: Vec<f64>,
    /// Of all seeds, one after the other.
    epochs: Vec<f64>,
    stats: Stats,
    /// The last seed's network and what was held back from it.
    model: Sequential,
    held_back: Digits,
}

struct Options {
    device: Device,
    modes: Vec<Mode>,
    seeds: u64,
    json: bool,
}

fn options() -> Result<Options> {
    let mut options = Options {
        device: Device::best(),
        modes: vec![Mode::Compiled, Mode::Eager],
        seeds: 5,
        json: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let wrong = || Error::argument(format!("{arg} is no option of this example, or lacks one"));
        match arg.as_str() {
            "--cpu" => options.device = Device::cpu(),
            "--json" => options.json = true,
            "--mode" => match args.next().as_deref() {
                Some("compiled") => options.modes = vec![Mode::Compiled],
                Some("eager") => options.modes = vec![Mode::Eager],
                _ => return Err(wrong()),
            },
            "--seeds" => {
                let seeds = args.next().and_then(|seeds| seeds.parse().ok());
                options.seeds = seeds.filter(|&seeds| seeds > 0).ok_or_else(wrong)?;
            }
            _ => return Err(wrong()),
        }
    }
    Ok(options)
}

fn main() -> Result<()> {
    let options = options()?;
    let digits = load(&options.device);
    eval([&digits.images, &digits.labels])?;
    let count = digits.images.dim(0)?;
    println!(
        "{count} images, {} held back, on {}",
        count / 5,
        options.device
    );

    let mut runs = Vec::new();
    for network in &NETWORKS {
        for &mode in &options.modes {
            runs.push(run(network, mode, &digits, options.seeds)?);
        }
    }
    if let Some(last) = runs.last() {
        show(last, 4)?;
    }
    runs.iter().for_each(report);
    if options.json {
        println!("{}", json(&runs));
    }
    if let Some(bad) = runs.iter().find(|run| mean(&run.accuracies) < WANTED) {
        let percent = 100.0 * WANTED;
        eprintln!(
            "{} {:?}: the accuracy is below {percent:.0} %",
            bad.network, bad.mode
        );
        std::process::exit(1);
    }
    Ok(())
}

fn load(device: &Device) -> Digits {
    let parse = |number: &str| number.parse().expect("the file holds numbers");
    let lines = include_str!("data/digits.csv").lines();
    let numbers = |line: &str| line.split(',').map(parse).collect();
    let rows: Vec<Vec<f32>> = lines.map(numbers).collect();
    let labels: Vec<i64> = rows.iter().map(|row| row[64] as i64).collect();
    let pixels: Vec<f32> = rows.iter().flat_map(|row| row[..64].to_vec()).collect();
    Digits {
        images: Tensor::from_vec(pixels, [rows.len(), 64], device) / 16.0,
        labels: Tensor::from_vec(labels, rows.len(), device),
    }
}

/// A random fifth of the images, and the others.
fn split(all: &Digits, seed: u64) -> Result<(Digits, Digits)> {
    let count = all.images.dim(0)?;
    let order = Generator::new(seed).randperm(count, &all.images.device());
    let part = |from: usize, len: usize| {
        let rows = order.narrow(0, from as isize, len);
        Digits {
            images: all.images.index_select(0, &rows),
            labels: all.labels.index_select(0, &rows),
        }
    };
    let (held_back, train) = (part(0, count / 5), part(count / 5, count - count / 5));
    eval([
        &held_back.images,
        &held_back.labels,
        &train.images,
        &train.labels,
    ])?;
    Ok((held_back, train))
}

/// Trains a network from each of several starts in `mode`.
fn run(network: &'static Network, mode: Mode, digits: &Digits, seeds: u64) -> Result<Run> {
    let style = ProgressStyle::with_template("{prefix:14} {bar:40} {pos}/{len} {msg}");
    let bar = ProgressBar::new(seeds * network.epochs as u64)
        .with_style(style.expect("a valid template"))
        .with_prefix(format!("{} {mode:?}", network.name).to_lowercase());
    let (mut accuracies, mut epochs, mut last) = (Vec::new(), Vec::new(), None);
    let (result, stats) = stats_scope(|| {
        with_mode(mode, || {
            for seed in 0..seeds {
                let (held_back, train) = split(digits, seed)?;
                let model = learnt(network, seed, &train, &mut epochs, &bar)?;
                let scores = model.forward(&held_back.images);
                accuracies.push(accuracy(&scores, &held_back.labels).item()?);
                last = Some((model, held_back));
            }
            Ok(())
        })
    });
    bar.finish();
    result?;
    let (model, held_back) = last.ok_or_else(|| Error::argument("no seeds"))?;
    Ok(Run {
        network: network.name,
        mode,
        accuracies,
        epochs,
        stats,
        model,
        held_back,
    })
}

/// A trained network, for evaluation; the seconds that each epoch took go to `seconds`.
fn learnt(
    network: &Network,
    seed: u64,
    train: &Digits,
    seconds: &mut Vec<f64>,
    bar: &ProgressBar,
) -> Result<Sequential> {
    manual_seed(seed);
    let device = train.images.device();
    let count = train.images.dim(0)?;
    let batches = count / BATCH;
    let mut model = (network.build)(&device);
    let mut opt = AdamW::new(&model, 3e-3)
        .schedule(Schedule::cosine(network.epochs * batches).warmup(batches))
        .weight_decay(0.01);

    // Traced at the first call, replayed afterwards. What is passed by value may be overwritten.
    type State = (Sequential, AdamW);
    let step = jit(
        |((mut model, mut opt), all, rows): (State, [&Tensor; 2], &Tensor)| {
            let [images, labels] = all.map(|part| part.index_select(0, rows));
            let criterion = CrossEntropyLoss::new().label_smoothing(0.1);
            let loss = |model: &Sequential| criterion.forward(&model.forward(&images), &labels);
            let (loss, gradients) = value_and_grad(&model, loss);
            opt.step(&mut model, &gradients);
            ((model, opt), loss)
        },
    );
    let all = [&train.images, &train.labels];
    for _ in 0..network.epochs {
        let start = Instant::now();
        let order = Tensor::randperm(count, &device);
        order.eval()?;
        let mut total = Tensor::zeros((), DType::F32, &device);
        for i in 0..batches {
            let rows = order.narrow(0, (i * BATCH) as isize, BATCH);
            let loss;
            ((model, opt), loss) = step.call(((model, opt), all, &rows));
            total += loss;
        }
        let loss = total.to_scalar::<f32>()? / batches as f32;
        seconds.push(start.elapsed().as_secs_f64());
        bar.set_message(format!("loss {loss:.4}"));
        bar.inc(1);
    }
    set_training(&mut model, false);
    Ok(model)
}

/// Prints a few images as text, side by side, with what they are taken for.
fn show(run: &Run, count: usize) -> Result<()> {
    let images = run.held_back.images.narrow(0, 0, count);
    let predictions = run.model.forward(&images).argmax(-1).to_vec::<i64>()?;
    let labels = run.held_back.labels.narrow(0, 0, count).to_vec::<i64>()?;
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

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// The median of the epochs' seconds: the first one traces and compiles.
fn seconds_per_epoch(run: &Run) -> f64 {
    let mut seconds = run.epochs.clone();
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

fn report(run: &Run) {
    let least = run.accuracies.iter().fold(1.0, |a: f64, &b| a.min(b));
    let (percent, least) = (100.0 * mean(&run.accuracies), 100.0 * least);
    println!("{} {:?}", run.network, run.mode);
    println!("  accuracy (mean, least) {percent:9.2} % {least:9.2} %");
    let (first, median) = (1e3 * run.epochs[0], 1e3 * seconds_per_epoch(run));
    println!("  epoch (first, median)  {first:9.2} ms{median:9.2} ms");
    let stats = &run.stats;
    let counts = [
        ("fused kernels run", stats.kernels_launched),
        ("calls between them", stats.library_calls),
        ("kernels compiled", stats.kernels_compiled),
        ("found on disk", stats.disk_cache_hits),
        ("functions traced", stats.traces),
        ("plans reused", stats.plan_cache_hits),
        ("written in place", stats.in_place_writes),
        ("peak bytes", stats.peak_bytes),
    ];
    for (name, count) in counts {
        println!("  {name:22} {count:11}");
    }
}

fn json(runs: &[Run]) -> serde_json::Value {
    let of = |run: &Run| {
        serde_json::json!({
            "network": run.network,
            "mode": format!("{:?}", run.mode).to_lowercase(),
            "accuracy": mean(&run.accuracies),
            "accuracies": run.accuracies,
            "seconds_per_epoch": seconds_per_epoch(run),
            "kernels_compiled": run.stats.kernels_compiled,
            "disk_cache_hits": run.stats.disk_cache_hits,
            "kernels_launched": run.stats.kernels_launched,
            "peak_bytes": run.stats.peak_bytes,
        })
    };
    serde_json::Value::Array(runs.iter().map(of).collect())
}
