//! `ferrotrace run`.

use crate::Place;
use crate::compare::{self, Found, Tolerance};
use crate::model::Model;
use clap::Args;
use ferrotrace::prelude::*;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What `run` is asked for.
#[derive(Debug, Args)]
pub struct Options {
    /// An archive of torch.export.save, or a bundle (.ftb).
    model: PathBuf,
    /// An input by its name: a .npy file, or a number.
    #[arg(long = "input", value_name = "NAME=FILE", conflicts_with = "calls")]
    inputs: Vec<String>,
    /// A folder of in_NAME.npy, expected.npz and perhaps expected_state.npz; several are called in turn.
    #[arg(long = "call", value_name = "FOLDER")]
    calls: Vec<PathBuf>,
    /// Where each output is written as NAME.npy.
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Arrays that outputs must equal, by name or in order.
    #[arg(long, value_name = "NPZ", conflicts_with = "calls")]
    check: Option<PathBuf>,
    /// How far a number may be from the one expected, as a part of it [default: 1e-4, of half precision its last digit].
    #[arg(long)]
    rtol: Option<f64>,
    /// How far a number may be from the one expected at least.
    #[arg(long, default_value_t = 1e-5)]
    atol: f64,
    /// Times so many further calls.
    #[arg(long, value_name = "CALLS")]
    bench: Option<usize>,
    /// What a bundle does that lacks kernels for this machine or these sizes: compile, ready-made or error.
    #[arg(long, default_value = "compile", value_parser = fallback_of)]
    missing: io::Fallback,
    #[command(flatten)]
    place: Place,
}

fn fallback_of(name: &str) -> std::result::Result<io::Fallback, String> {
    match name {
        "compile" => Ok(io::Fallback::Compile),
        "ready-made" => Ok(io::Fallback::ReadyMade),
        "error" => Ok(io::Fallback::Error),
        _ => Err("compile, ready-made or error".to_owned()),
    }
}

/// One call: its inputs, and the files to compare with.
pub struct Call {
    name: String,
    inputs: BTreeMap<String, Tensor>,
    expected: Option<PathBuf>,
    state: Option<PathBuf>,
}

/// Runs a program; whether all that was compared is equal.
pub fn run(options: &Options) -> Result<bool> {
    let start = Instant::now();
    let mut program = Model::load(&options.model, &options.place, options.missing)?;
    say!(
        "loaded {} in {}",
        options.model.display(),
        shown(start.elapsed())
    );
    let device = options.place.device_by(Device::cuda_without_compiler)?;
    let calls = options.calls()?;
    let tolerance = Tolerance {
        rtol: options.rtol,
        atol: options.atol,
    };
    let mut equal = true;
    for call in &calls {
        let inputs = with_mode(Mode::Eager, || ordered(&program, call, &device))?;
        let start = Instant::now();
        let bar = waiting(&format!("call {}", call.name));
        let results = program.run(&inputs.iter().collect::<Vec<_>>());
        bar.finish_and_clear();
        let results = results?;
        eval(&results)?;
        device.synchronize()?;
        let took = start.elapsed();
        // Comparing needs no kernels of its own.
        let compared = || options.compared(&program, call, &results, tolerance);
        let found = with_mode(Mode::Eager, compared)?;
        equal &= found.differences.is_empty();
        let verdict = match (found.compared, found.differences.len()) {
            (0, 0) => "done".to_owned(),
            (n, 0) => format!("{n} tensors equal (at most {:.1e} apart)", found.most),
            (_, n) => format!("{n} differences"),
        };
        say!("call {}: {verdict}, in {}", call.name, shown(took));
        for difference in &found.differences {
            say!("  {difference}");
        }
        if let Some(folder) = &options.output {
            let folder = match calls.len() {
                1 => folder.clone(),
                _ => folder.join(&call.name),
            };
            write(&folder, &program, &results)?;
        }
    }
    if let (Some(n), Some(call)) = (options.bench, calls.last()) {
        let inputs = ordered(&program, call, &device)?;
        time(&mut program, &inputs, n.max(1), &device)?;
    }
    Ok(equal)
}

impl Options {
    fn calls(&self) -> Result<Vec<Call>> {
        if !self.calls.is_empty() {
            return self.calls.iter().map(|folder| of_folder(folder)).collect();
        }
        let mut inputs = BTreeMap::new();
        for input in &self.inputs {
            let wrong = || Error::argument(format!("--input {input}: NAME=FILE is expected"));
            let (name, file) = input.split_once('=').ok_or_else(wrong)?;
            if inputs.insert(name.to_owned(), read(file)?).is_some() {
                return Err(Error::argument(format!("--input {name} is given twice")));
            }
        }
        Ok(vec![Call {
            name: "1".to_owned(),
            inputs,
            expected: self.check.clone(),
            state: None,
        }])
    }

    fn compared(
        &self,
        program: &Model,
        call: &Call,
        results: &[Tensor],
        tolerance: Tolerance,
    ) -> Result<Found> {
        let ports = program.outputs();
        let all = ports
            .iter()
            .zip(results)
            .map(|(port, x)| (port.name.clone(), x.clone()));
        let (changed, outputs): (Vec<_>, Vec<_>) =
            all.zip(&ports).partition(|(_, port)| port.is_changed);
        let outputs: Vec<(String, Tensor)> = outputs.into_iter().map(|(named, _)| named).collect();
        let mut found = Found::default();
        if let Some(expected) = &call.expected {
            found.add(compare::outputs(expected, &outputs, tolerance)?);
        }
        if let Some(expected) = &call.state {
            // Inputs as they were given stand for those that the call leaves alone.
            let mut state: BTreeMap<String, Tensor> = call.inputs.clone();
            state.extend(program.state_dict());
            state.extend(changed.into_iter().map(|(named, _)| named));
            found.add(compare::state(expected, &state, tolerance)?);
        }
        Ok(found)
    }
}

pub fn of_folder(folder: &Path) -> Result<Call> {
    let failed = |error: std::io::Error| Error::io(folder, &error);
    let mut inputs = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.and_then(|name| name.strip_prefix("in_")?.strip_suffix(".npy"));
        if let Some(name) = name {
            inputs.insert(name.to_owned(), io::load_npy(&path, &Device::cpu())?);
        }
    }
    let file = |name: &str| Some(folder.join(name)).filter(|path| path.exists());
    let expected = file("expected.npz");
    if expected.is_none() {
        return Err(Error::argument(format!(
            "{} has no expected.npz",
            folder.display()
        )));
    }
    let name = folder.file_name().unwrap_or(folder.as_os_str());
    Ok(Call {
        name: name.to_string_lossy().into_owned(),
        inputs,
        expected,
        state: file("expected_state.npz"),
    })
}

/// A file of one array, or a number.
fn read(text: &str) -> Result<Tensor> {
    let cpu = Device::cpu();
    if Path::new(text).exists() {
        return io::load_npy(text, &cpu);
    }
    if let Ok(number) = text.parse::<i64>() {
        return Ok(Tensor::scalar(number, DType::I64, &cpu));
    }
    match text.parse::<f64>() {
        Ok(number) => Ok(Tensor::scalar(number, DType::F64, &cpu)),
        Err(_) => io::load_npy(text, &cpu),
    }
}

/// The inputs in the order of the program, on its device.
pub fn ordered(program: &Model, call: &Call, device: &Device) -> Result<Vec<Tensor>> {
    let ports = program.inputs();
    if let Some(name) = call
        .inputs
        .keys()
        .find(|name| !ports.iter().any(|port| port.name == **name))
        && call.state.is_none()
        && call.expected.is_none()
    {
        let names: Vec<&str> = ports.iter().map(|port| &*port.name).collect();
        return Err(Error::argument(format!(
            "the program has no input {name:?}, but {}",
            names.join(", ")
        )));
    }
    ports
        .iter()
        .map(|port| {
            let found = call.inputs.get(&port.name);
            let x = found
                .ok_or_else(|| Error::argument(format!("input {:?} is missing", port.name)))?;
            // NumPy has no bfloat16: such inputs are kept in 32 bits.
            let x = match (port.dtype, x.dtype()) {
                (Some(DType::BF16), DType::F32) => x.to_dtype(DType::BF16),
                _ => x.clone(),
            };
            Ok(if port.dtype.is_some() {
                x.to_device(device)
            } else {
                x
            })
        })
        .collect()
}

fn write(folder: &Path, program: &Model, results: &[Tensor]) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|error| Error::io(folder, &error))?;
    let mut used: BTreeMap<String, usize> = BTreeMap::new();
    for (port, x) in program.outputs().iter().zip(results) {
        let count = used.entry(port.name.clone()).or_default();
        *count += 1;
        let name = match *count {
            1 => format!("{}.npy", port.name),
            n => format!("{}_{n}.npy", port.name),
        };
        io::save_npy(folder.join(name), &x.to_device(&Device::cpu()))?;
    }
    Ok(())
}

/// Times further calls.
fn time(program: &mut Model, inputs: &[Tensor], n: usize, device: &Device) -> Result<()> {
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len}");
    let bar = ProgressBar::new(n as u64)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut times = Vec::with_capacity(n);
    for _ in 0..n {
        let start = Instant::now();
        let results = program.run(&inputs)?;
        eval(&results)?;
        device.synchronize()?;
        times.push(start.elapsed());
        bar.inc(1);
    }
    bar.finish_and_clear();
    times.sort();
    let total: Duration = times.iter().sum();
    let (least, median, most) = (times[0], times[n / 2], times[n - 1]);
    say!(
        "{n} calls: least {}, median {}, mean {}, most {}",
        shown(least),
        shown(median),
        shown(total / n as u32),
        shown(most)
    );
    Ok(())
}

pub fn waiting(what: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

pub fn shown(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.1} µs", s * 1e6),
    }
}
