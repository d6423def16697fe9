//! `ferrotrace bundle`.

use crate::model::Model;
use crate::{run, size};
use clap::Args;
use ferrotrace::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

/// What `bundle` is asked for.
#[derive(Debug, Args)]
pub struct Options {
    /// An archive of torch.export.save.
    model: PathBuf,
    /// The bundle to be written; its name should end in .ftb.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// What kernels are compiled for: x86-64-v2, x86-64-v3, x86-64-v4, aarch64, sm_80, sm_90a, sm_100 [default: this machine].
    #[arg(long = "target", value_name = "NAME", value_delimiter = ',')]
    targets: Vec<String>,
    /// Sizes that kernels are made for, as SYMBOL=SIZE,SYMBOL=SIZE; may be repeated.
    #[arg(long = "sizes", value_name = "SIZES")]
    sizes: Vec<String>,
    /// A folder of in_NAME.npy, as of `run`, that kernels are made for; may be repeated.
    #[arg(long = "call", value_name = "FOLDER")]
    calls: Vec<PathBuf>,
    /// Leaves the weights in a file of the bundle's folder: a safetensors file, or the model itself.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
}

/// Values of every symbol for which kernels are made where none are given: what sizes of 1, short loops and others need.
const SIZES: [usize; 5] = [1, 2, 3, 8, 64];

/// Writes a bundle.
pub fn bundle(options: &Options) -> Result<()> {
    let start = Instant::now();
    let program = io::ExportedProgram::load(&options.model)?;
    let examples = options.examples(&program)?;
    let mut to = io::BundleOptions::new();
    for target in &options.targets {
        to = to.target(target)?;
    }
    if let Some(weights) = &options.weights {
        to = to.weights_in(weights);
    }
    let lists: Vec<Vec<&Tensor>> = examples.iter().map(|list| list.iter().collect()).collect();
    let lists: Vec<&[&Tensor]> = lists.iter().map(Vec::as_slice).collect();
    let bar = run::waiting("compiling");
    let saved = program.save_bundle(&options.output, &lists, &to);
    bar.finish_and_clear();
    saved?;
    let bundle = io::Bundle::open(&options.output)?;
    let bytes = std::fs::metadata(&options.output).map_or(0, |about| about.len());
    say!(
        "{}: {}, kernels for {}, in {}",
        options.output.display(),
        size(bytes as usize),
        bundle.targets().join(", "),
        run::shown(start.elapsed())
    );
    for call in bundle.made_for() {
        let shapes: Vec<String> = call.iter().map(|dims| format!("{dims:?}")).collect();
        say!("  made for {}", shapes.join(", "));
    }
    Ok(())
}

impl Options {
    /// The inputs that the program is run on.
    fn examples(&self, program: &io::ExportedProgram) -> Result<Vec<Vec<Tensor>>> {
        let mut examples = Vec::new();
        let model = Model::Program(Box::new(program.clone()));
        for folder in &self.calls {
            let call = run::of_folder(folder)?;
            examples.push(run::ordered(&model, &call, &Device::cpu())?);
        }
        for sizes in &self.sizes {
            examples.push(plain_inputs(program, &read(sizes)?));
        }
        if !examples.is_empty() {
            return Ok(examples);
        }
        let ports = program.inputs();
        let symbols = ports.iter().flat_map(|port| &port.sizes);
        let symbols: Vec<&String> = symbols
            .filter(|size| size.parse::<usize>().is_err())
            .collect();
        if symbols.is_empty() {
            return Ok(vec![plain_inputs(program, &BTreeMap::new())]);
        }
        let mut refused = None;
        for value in SIZES {
            let of = |symbol: &String| {
                let (min, max) = program.range(symbol).unwrap_or((0, usize::MAX));
                (symbol.clone(), value.clamp(min, max.max(min)))
            };
            let example = plain_inputs(program, &symbols.iter().map(|symbol| of(symbol)).collect());
            let shapes =
                |list: &[Tensor]| list.iter().map(|x| x.dims().to_vec()).collect::<Vec<_>>();
            if examples
                .iter()
                .any(|known: &Vec<Tensor>| shapes(known) == shapes(&example))
            {
                continue;
            }
            // Sizes that the program's guards refuse are none that it serves.
            match program.clone().run(&example.iter().collect::<Vec<_>>()) {
                Ok(_) => examples.push(example),
                Err(error) => refused = Some(error),
            }
        }
        match (examples.is_empty(), refused) {
            (true, Some(error)) => Err(Error::argument(format!(
                "the program refuses sizes chosen for it (give --call or --sizes): {error}"
            ))),
            _ => Ok(examples),
        }
    }
}

/// `SYMBOL=SIZE,SYMBOL=SIZE`.
fn read(sizes: &str) -> Result<BTreeMap<String, usize>> {
    let pair = |part: &str| {
        let wrong = || {
            Error::argument(format!(
                "--sizes {sizes}: SYMBOL=SIZE,SYMBOL=SIZE is expected"
            ))
        };
        let (name, size) = part.split_once('=').ok_or_else(wrong)?;
        Ok((name.to_owned(), size.parse().map_err(|_| wrong())?))
    };
    sizes.split(',').map(pair).collect()
}

/// Inputs of zeros, of these sizes for symbols. Matrices of floats have ones on their diagonals, so that they have inverses.
pub fn plain_inputs(program: &io::ExportedProgram, sizes: &BTreeMap<String, usize>) -> Vec<Tensor> {
    let of = |symbol: &String| -> usize {
        let known = symbol.parse().ok().or_else(|| sizes.get(symbol).copied());
        known.unwrap_or_else(|| {
            program
                .range(symbol)
                .map_or(8, |(min, max)| 8.clamp(min, max.max(min)))
        })
    };
    let input = |port: &io::Port| match port.dtype {
        Some(dtype) => {
            let dims: Vec<usize> = port.sizes.iter().map(of).collect();
            match dims.len() > 1 && dtype.is_float() {
                true => Tensor::ones(dims, dtype, &Device::cpu()).tril(0).triu(0),
                false => Tensor::zeros(dims, dtype, &Device::cpu()),
            }
        }
        None => Tensor::scalar(1, DType::I64, &Device::cpu()),
    };
    program.inputs().iter().map(input).collect()
}
