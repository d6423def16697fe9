//! Searches a text file by meaning.
//!
//! ```text
//! cargo run --release -- [--model FOLDER] [--eager] [--cpu] [--top N] FILE QUERY
//! ```
//!
//! The README beside this package tells how to get the weights.

use ferrotrace::prelude::*;
use ferrotrace_minilm::Embedder;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::time::Instant;

struct Options {
    model: PathBuf,
    mode: Mode,
    device: Device,
    top: usize,
    file: PathBuf,
    query: String,
}

const USAGE: &str = "usage: [--model FOLDER] [--eager] [--cpu] [--top N] FILE QUERY";

fn main() -> Result<()> {
    let options = options()?;
    with_mode(options.mode, || search(&options))
}

fn options() -> Result<Options> {
    let mut options = Options {
        model: PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/weights")),
        mode: Mode::Compiled,
        device: Device::best(),
        top: 5,
        file: PathBuf::new(),
        query: String::new(),
    };
    let wrong = || Error::argument(USAGE);
    let (mut args, mut rest) = (std::env::args().skip(1), Vec::new());
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--model" => options.model = args.next().ok_or_else(wrong)?.into(),
            "--top" => {
                let number = args.next().and_then(|number| number.parse().ok());
                options.top = number.ok_or_else(wrong)?;
            }
            "--eager" => options.mode = Mode::Eager,
            "--cpu" => options.device = Device::cpu(),
            _ => rest.push(arg),
        }
    }
    let [file, query] = <[String; 2]>::try_from(rest).map_err(|_| wrong())?;
    options.file = PathBuf::from(file);
    options.query = query;
    Ok(options)
}

/// The parts of a text that stand between empty lines.
fn paragraphs(text: &str) -> Vec<String> {
    let parts = text.split("\n\n");
    let joined = parts.map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    joined.filter(|part| !part.is_empty()).collect()
}

fn search(options: &Options) -> Result<()> {
    let text = std::fs::read_to_string(&options.file);
    let text = text.map_err(|error| Error::io(&options.file, &error))?;
    let embedder = Embedder::load(&options.model, &options.device)?;
    let paragraphs = paragraphs(&text);
    let bar = ProgressBar::new(paragraphs.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {elapsed}") {
        bar.set_style(style);
    }
    let start = Instant::now();
    let vectors = embedder.embed(&paragraphs, |count| bar.inc(count))?;
    bar.finish();
    let (count, seconds) = (paragraphs.len(), start.elapsed().as_secs_f64());
    println!(
        "{count} paragraphs on {} in {seconds:.2} s\n",
        options.device
    );

    let query = embedder.embed(&[&options.query], |_| ())?;
    let likeness = vectors.matmul(&query.t()).flatten(0, -1);
    let top = options.top.min(count);
    let (likeness, places) = likeness.topk(top, 0, true);
    let (likeness, places) = (likeness.to_vec::<f32>()?, places.to_vec::<i64>()?);
    for (likeness, place) in likeness.into_iter().zip(places) {
        println!("{likeness:.3}  {}\n", paragraphs[place as usize]);
    }
    Ok(())
}
