//! `ferrotrace inspect`.

use crate::bundle::plain_inputs;
use crate::{Place, size};
use clap::Args;
use ferrotrace::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What `inspect` is asked for.
#[derive(Debug, Args)]
pub struct Options {
    /// An archive of torch.export.save.
    model: PathBuf,
    /// The value of a symbolic size.
    #[arg(long = "size", value_name = "SYMBOL=SIZE")]
    sizes: Vec<String>,
    /// Lists the parameters, buffers and constants.
    #[arg(long)]
    state: bool,
    /// Writes a report of what is compiled, for a browser.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
}

/// Shows a program.
pub fn inspect(options: &Options) -> Result<()> {
    let program = options.place.load(&options.model)?;
    say!("inputs");
    for port in program.inputs() {
        say!("  {}", shown(&port));
    }
    say!("outputs");
    for port in program.outputs() {
        let note = if port.is_changed {
            " (an input, as the call leaves it)"
        } else {
            ""
        };
        say!("  {}{note}", named(&port));
    }
    let state = program.state_dict();
    let bytes: usize = state
        .iter()
        .map(|(_, x)| x.numel() * x.dtype().size())
        .sum();
    let numbers: usize = program
        .parameters()
        .iter()
        .filter_map(|name| state.get(name))
        .map(Tensor::numel)
        .sum();
    say!(
        "{} parameters of {numbers} numbers; state of {}",
        program.parameters().len(),
        size(bytes)
    );
    if options.state {
        for (name, x) in &state {
            say!("  {name}: {}{}", x.dtype(), x.shape());
        }
    }
    let changed = program.changed();
    if !changed.is_empty() {
        say!("changed by a call: {}", changed.join(", "));
    }
    say!("operators");
    for (name, count) in program.operators() {
        say!("  {count:5} {name}");
    }
    let inputs = options.inputs(&program)?;
    let results = program.record(&inputs.iter().collect::<Vec<_>>())?;
    let explanation = explain(&results);
    say!("{}", explanation.summary());
    say!(
        "{} fused nodes, {} library calls, {} held at most",
        explanation.fused_nodes().len(),
        explanation.calls().len(),
        size(explanation.peak_bytes() as usize)
    );
    if let Some(path) = &options.html {
        std::fs::write(path, explanation.to_html()).map_err(|error| Error::io(path, &error))?;
        say!("report: {}", path.display());
    }
    Ok(())
}

fn shown(port: &io::Port) -> String {
    let changed = if port.is_changed { " (changed)" } else { "" };
    let name = named(port);
    match port.dtype {
        Some(dtype) => format!("{name}: {dtype}[{}]{changed}", port.sizes.join(", ")),
        None => format!("{name}: a number{changed}"),
    }
}

/// A name, and the place in Python's structures where that is another.
fn named(port: &io::Port) -> String {
    match port.path.is_empty() || port.path == port.name {
        true => port.name.clone(),
        false => format!("{} = {}", port.name, port.path),
    }
}

impl Options {
    /// Inputs of zeros, matrices with ones on their diagonals, of the sizes that are given for symbols.
    fn inputs(&self, program: &io::ExportedProgram) -> Result<Vec<Tensor>> {
        let device = self.place.device()?;
        let mut sizes = BTreeMap::new();
        for given in &self.sizes {
            let wrong = || Error::argument(format!("--size {given}: SYMBOL=SIZE"));
            let (name, size) = given.split_once('=').ok_or_else(wrong)?;
            sizes.insert(name.to_owned(), size.parse().map_err(|_| wrong())?);
        }
        let ports = program.inputs();
        let inputs = plain_inputs(program, &sizes).into_iter().zip(&ports);
        let moved = inputs.map(|(x, port)| match port.dtype {
            Some(_) => x.to_device(&device),
            None => x,
        });
        Ok(moved.collect())
    }
}
