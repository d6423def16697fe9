//! A small GPT over bytes: it learns this repository's own sources, draws its loss, saves itself, and writes more of them.
//!
//! ```text
//! cargo run --release --example gpt -- [--steps N] [--eager] [--out FOLDER] [--resume] [--prompt TEXT]
//! ```
//!
//! It trains on the first CUDA device if there is one. A run ends with a checkpoint in the folder (`target/gpt` if none is
//! given), from which `--resume` goes on to the same bits as an uninterrupted run.

use ferrotrace::nn::{Embedding, GeluTanh, LayerNorm, Linear, Module, MultiHeadAttention};
use ferrotrace::optim::{AdamW, Schedule};
use ferrotrace::prelude::*;
use ferrotrace::{Generator, TensorStruct, manual_seed, value_and_grad};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};

const LENGTH: usize = 64;
const BATCH: usize = 16;
const WIDTH: usize = 96;
const HEADS: usize = 4;
const BLOCKS: usize = 3;
/// Learning rates rise and fall over so many steps, however many are taken.
const PLANNED: usize = 2000;

#[derive(Clone, TensorStruct)]
struct Block {
    norm1: LayerNorm,
    attention: MultiHeadAttention,
    norm2: LayerNorm,
    up: Linear,
    down: Linear,
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = x + self.attention.forward(&self.norm1.forward(x));
        let hidden = GeluTanh.forward(&self.up.forward(&self.norm2.forward(&x)));
        x + self.down.forward(&hidden)
    }
}

#[derive(Clone, TensorStruct)]
struct Gpt {
    /// A vector a byte, which scores the next byte too.
    bytes: Embedding,
    positions: Tensor,
    blocks: Vec<Block>,
    norm: LayerNorm,
}

impl Gpt {
    fn new(device: &Device) -> Gpt {
        let block = |_| Block {
            norm1: LayerNorm::new(WIDTH, device),
            attention: MultiHeadAttention::new(WIDTH, HEADS, device).causal(),
            norm2: LayerNorm::new(WIDTH, device),
            up: Linear::new(WIDTH, 4 * WIDTH, device),
            down: Linear::new(4 * WIDTH, WIDTH, device),
        };
        let small = |shape: [usize; 2]| Tensor::randn(shape, DType::F32, device) * 0.02;
        Gpt {
            bytes: Embedding {
                weight: small([256, WIDTH]),
                padding: None,
            },
            positions: small([LENGTH, WIDTH]),
            blocks: (0..BLOCKS).map(block).collect(),
            norm: LayerNorm::new(WIDTH, device),
        }
    }

    /// Scores of the byte behind each of `[batch, LENGTH]` bytes: `[batch, LENGTH, 256]`.
    fn forward(&self, bytes: &Tensor) -> Tensor {
        let mut x = self.bytes.forward(bytes) + &self.positions;
        for block in &self.blocks {
            x = block.forward(&x);
        }
        self.norm.forward(&x).linear(&self.bytes.weight, None)
    }

    /// The mean cross-entropy of the bytes behind, in nats.
    fn loss(&self, bytes: &Tensor, next: &Tensor) -> Tensor {
        let scores = self.forward(bytes).reshape([-1, 256]);
        scores.cross_entropy(&next.reshape([-1]))
    }
}

struct Options {
    steps: usize,
    eager: bool,
    resume: bool,
    out: PathBuf,
    prompt: String,
}

fn main() -> Result<()> {
    let options = options();
    let mode = if options.eager {
        Mode::Eager
    } else {
        Mode::Compiled
    };
    with_mode(mode, || run(&options))
}

fn options() -> Options {
    let mut options = Options {
        steps: 600,
        eager: false,
        resume: false,
        out: PathBuf::from("target/gpt"),
        prompt: "/// The ".to_owned(),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_default();
        match arg.as_str() {
            "--steps" => options.steps = value().parse().unwrap_or(options.steps),
            "--out" => options.out = PathBuf::from(value()),
            "--prompt" => options.prompt = value(),
            "--eager" => options.eager = true,
            "--resume" => options.resume = true,
            other => eprintln!("{other} is no option of this example"),
        }
    }
    options
}

fn run(options: &Options) -> Result<()> {
    let device = Device::best();
    let text = sources();
    println!("{} bytes of sources, on {device}", text.len());
    manual_seed(1);
    let generator = Generator::new(2);
    let mut model = Gpt::new(&device);
    let mut opt = AdamW::new(&model, 2e-3)
        .schedule(Schedule::cosine(PLANNED).warmup(20))
        .no_decay(|name| name.ends_with("bias") || name.contains("norm"))
        .clip_norm(1.0);
    let file = options.out.join("checkpoint.safetensors");
    let mut losses: Vec<f32> = Vec::new();
    if options.resume {
        let saved = io::Checkpoint::load(&file, &device)?;
        saved.load_struct("model", &mut model)?;
        saved.load_struct("optimiser", &mut opt)?;
        generator.set_state(saved.generator("generator")?);
        losses = saved.tensor("losses")?.to_vec()?;
    }

    let step = jit(
        |(mut model, mut opt, bytes, next): (Gpt, AdamW, &Tensor, &Tensor)| {
            let (loss, gradients) = value_and_grad(&model, |model| model.loss(bytes, next));
            opt.step(&mut model, &gradients);
            (model, opt, loss)
        },
    );
    let bar = ProgressBar::new(options.steps as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg} {elapsed}") {
        bar.set_style(style);
    }
    let all = Tensor::from_vec(
        text.iter().map(|&b| i64::from(b)).collect(),
        text.len(),
        &device,
    );
    for _ in 0..options.steps {
        let (bytes, next) = batch(&all, &generator, &device);
        let loss;
        (model, opt, loss) = step.call((model, opt, &bytes, &next));
        losses.push(loss.to_scalar()?);
        bar.set_message(format!("loss {:.3}", smooth(&losses, losses.len() - 1)));
        bar.inc(1);
    }
    bar.finish();

    std::fs::create_dir_all(&options.out).map_err(|e| Error::io(&options.out, &e))?;
    let mut saved = io::Checkpoint::new();
    saved.set_struct("model", &model);
    saved.set_struct("optimiser", &opt);
    saved.set("generator", &generator);
    saved.set_tensor(
        "losses",
        &Tensor::from_slice(&losses, losses.len(), &Device::cpu()),
    );
    saved.save(&file)?;
    let curve = options.out.join("loss.svg");
    draw(&losses, &curve)?;
    if let Some(last) = losses.len().checked_sub(1) {
        let (first, loss) = (losses[0], smooth(&losses, last));
        println!(
            "loss {first:.3} to {loss:.3}, in {} and {}",
            file.display(),
            curve.display()
        );
    }
    println!("{}", write_on(&model, &options.prompt, 200, &device)?);
    Ok(())
}

/// The crates' sources, one after the other.
fn sources() -> Vec<u8> {
    let mut folders = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR"))];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            match path.is_dir() {
                true if name != "target" && !name.to_string_lossy().starts_with('.') => {
                    folders.push(path);
                }
                false if path.extension().is_some_and(|e| e == "rs") => files.push(path),
                _ => {}
            }
        }
    }
    files.sort();
    files
        .iter()
        .filter_map(|file| std::fs::read(file).ok())
        .flatten()
        .collect()
}

/// Pieces of the text, and the bytes behind each of theirs.
fn batch(text: &Tensor, generator: &Generator, device: &Device) -> (Tensor, Tensor) {
    let starts = text.numel() as i64 - LENGTH as i64 - 1;
    let first = generator.randint(0, starts, [BATCH, 1], DType::I64, device);
    let along = Tensor::arange(0, LENGTH as i64, 1, DType::I64, device);
    let at = first + along;
    let of = |at: &Tensor| text.index(&[Some(at)]);
    (of(&at), of(&(&at + 1)))
}

/// Writes on from a prompt, one byte at a time, drawn by their scores at a temperature of 0.7: the greatest of scores with
/// Gumbel noise.
fn write_on(model: &Gpt, prompt: &str, count: usize, device: &Device) -> Result<String> {
    let next = jit(|(model, window, at): (&Gpt, &Tensor, &Tensor)| {
        let scores = model.forward(window).select(0, 0).index_select(0, at);
        let noise = -(-scores.rand_like().log()).log();
        (scores / 0.7 + noise).argmax(-1)
    });
    let mut text = prompt.as_bytes().to_vec();
    for _ in 0..count {
        let from = text.len().saturating_sub(LENGTH);
        let mut window: Vec<i64> = text[from..].iter().map(|&b| i64::from(b)).collect();
        let last = window.len().max(1) as i64 - 1;
        window.resize(LENGTH, 0);
        let window = Tensor::from_vec(window, [1, LENGTH], device);
        let at = Tensor::from_vec(vec![last], 1, device);
        let byte = next
            .call((model, &window, &at))
            .reshape(())
            .to_scalar::<i64>()?;
        text.push(byte as u8);
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The mean of the last 20 losses up to one.
fn smooth(losses: &[f32], at: usize) -> f32 {
    let part = &losses[(at + 1).saturating_sub(20)..=at];
    part.iter().sum::<f32>() / part.len() as f32
}

/// Draws the loss over the steps.
fn draw(losses: &[f32], path: &Path) -> Result<()> {
    let most = losses.iter().fold(0.1f32, |most, &loss| most.max(loss));
    let (width, height) = (640.0, 320.0);
    let place = |(i, loss): (usize, f32)| {
        let x = 40.0 + width * i as f32 / losses.len().max(2) as f32;
        let y = 20.0 + height * (1.0 - loss / most);
        format!("{x:.1},{y:.1}")
    };
    let line = |of: &mut dyn Iterator<Item = f32>| -> String {
        of.enumerate().map(place).collect::<Vec<_>>().join(" ")
    };
    let raw = line(&mut losses.iter().copied());
    let smoothed = line(&mut (0..losses.len()).map(|i| smooth(losses, i)));
    let svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 380" font-family="sans-serif" font-size="12">
<rect width="700" height="380" fill="white"/>
<path d="M40 20V340H680" fill="none" stroke="#444"/>
<polyline points="{raw}" fill="none" stroke="#9bd" stroke-width="1"/>
<polyline points="{smoothed}" fill="none" stroke="#036" stroke-width="2"/>
<text x="8" y="24">{most:.1}</text><text x="8" y="344">0</text>
<text x="620" y="362">{} steps</text><text x="46" y="34">loss in nats a byte</text>
</svg>
"##,
        losses.len()
    );
    std::fs::write(path, svg).map_err(|e| Error::io(path, &e))
}
