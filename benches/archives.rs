//! Loading archives of `torch.export`: time, and the memory that loading and calls hold.
//!
//! ```text
//! PYTHONPATH=.. python3 benches/peers/archives.py FOLDER
//! cargo bench --bench archives -- FOLDER/*.pt2
//! ```
//!
//! Each measurement is a child process of its own. `held` is the most memory that the process had at a time, less what it had
//! before: pages of the file that were read count as they do in what the system shows. `own` leaves them out: the system
//! takes them back when it needs memory. Both are parts of the file's length. The file is read before, so that it is cached.

mod measure;

use ferrotrace::prelude::*;
use measure::table::Table;
use measure::{Options, Outcome, child, median, time};
use std::path::Path;
use std::time::Instant;

/// What is done with a program after it is loaded, and the variables of the environment that say how.
const FORMS: [(&str, &str, &str); 5] = [
    ("run", "", ""),
    ("run, no packed copies", "FERROTRACE_PACK", "0"),
    ("run_pure", "", ""),
    ("eager", "FERROTRACE_MODE", "eager"),
    ("bfloat16", "", ""),
];

fn main() -> Outcome {
    if let Some(name) = child::name() {
        let (form, path) = name.split_once(':').ok_or("FORM:FILE")?;
        return measured(form, Path::new(path));
    }
    let options = Options::from_args();
    let heads = [
        "archive",
        "then",
        "load",
        "held",
        "own",
        "first call",
        "held",
        "own",
        "second call",
    ];
    let mut table = Table::new("Archives of torch.export", &heads);
    for file in options
        .names
        .iter()
        .filter(|name| Path::new(name).is_file())
    {
        for (form, variable, value) in FORMS {
            row(&mut table, &options, file, (form, variable, value))?;
        }
    }
    table.print();
    Ok(())
}

fn row(table: &mut Table, options: &Options, file: &str, form: (&str, &str, &str)) -> Outcome {
    let (form, variable, value) = form;
    let path = std::fs::canonicalize(file)?;
    std::io::copy(&mut std::fs::File::open(&path)?, &mut std::io::sink())?;
    let cache = tempfile::tempdir()?;
    let mut all: [Vec<f64>; 7] = Default::default();
    // The first round compiles.
    for round in 0..options.rounds.min(5) + 1 {
        let mut command = child::command()?;
        if !variable.is_empty() {
            command.env(variable, value);
        }
        let name = format!("{form}:{}", path.display());
        let numbers: [f64; 7] = child::run(command, &name, cache.path())?;
        if round > 0 {
            all.iter_mut().zip(numbers).for_each(|(all, n)| all.push(n));
        }
    }
    let length = std::fs::metadata(&path)?.len() as f64;
    let part = |i: usize| format!("{:.2}", median(&all[i]) / length);
    let took = |i: usize| time(median(&all[i]));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    table.row([
        format!("{name} ({:.2} GB)", length / 1e9),
        form.to_owned(),
        took(0),
        part(1),
        part(2),
        took(3),
        part(4),
        part(5),
        took(6),
    ]);
    Ok(())
}

/// Loads a program, calls it twice, and prints what both took and what the process held meanwhile.
fn measured(form: &str, path: &Path) -> Outcome {
    let before = memory("VmRSS")?;
    let own_before = memory("RssAnon")?;
    let held = || {
        Ok::<_, Box<dyn std::error::Error>>((
            memory("VmHWM")? - before,
            memory("RssAnon")? - own_before,
        ))
    };
    let start = Instant::now();
    let mut program = io::ExportedProgram::load(path)?;
    if form == "bfloat16" {
        program = program.bfloat16()?;
    }
    let load = start.elapsed().as_nanos();
    let (most, own) = held()?;
    let of = |port: &io::Port| {
        let dims: Option<Vec<usize>> = port.sizes.iter().map(|size| size.parse().ok()).collect();
        let (dims, dtype) = dims.zip(port.dtype).ok_or("an input without fixed sizes")?;
        Ok::<_, Box<dyn std::error::Error>>(Tensor::ones(dims, dtype, &Device::cpu()))
    };
    let inputs: Vec<Tensor> = program.inputs().iter().map(of).collect::<Outcome<_>>()?;
    eval(&inputs)?;
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let state = program.state_dict();
    let mut call = || -> Outcome<u128> {
        let start = Instant::now();
        let results = match form {
            "run_pure" => program.run_pure(&state, &inputs)?,
            _ => program.run(&inputs)?,
        };
        eval(&results)?;
        Ok(start.elapsed().as_nanos())
    };
    let first = call()?;
    let (most_called, own_called) = held()?;
    let second = call()?;
    println!("{load} {most} {own} {first} {most_called} {own_called} {second}");
    Ok(())
}

/// A number of bytes that the system says of this process.
fn memory(name: &str) -> Outcome<f64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(1024.0 * number.ok_or("no such number")?.parse::<f64>()?)
}
