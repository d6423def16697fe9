//! `ferrotrace`: programs of PyTorch's run, checked and looked into from a shell.

/// Prints a line. Where nobody reads on, as behind `| head`, the program ends with exit code 2.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::print(format_args!($($words)*))
    };
}

mod bundle;
mod cache;
mod compare;
mod doctor;
mod inspect;
mod model;
mod run;

use clap::{Args, Parser, Subcommand};
use ferrotrace::prelude::*;
use std::fmt;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

/// Runs programs of torch.export, compiled, on the CPU or on CUDA.
#[derive(Debug, Parser)]
#[command(name = "ferrotrace", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a program. Exit code 0: done, and what was compared is equal; 1: it differs; 2: an error.
    Run(run::Options),
    /// Shows a program's inputs, outputs, state, operators, and what they are compiled to.
    Inspect(inspect::Options),
    /// Writes a program with its kernels to a bundle, which runs where no compiler is.
    Bundle(bundle::Options),
    /// The folder of compiled kernels.
    Cache {
        #[command(subcommand)]
        what: cache::What,
    },
    /// Says which compilers, devices and libraries are found, and what would be faster.
    Doctor,
}

/// Where and how a program runs.
#[derive(Debug, Args)]
struct Place {
    /// compiled, eager or tiered.
    #[arg(long, default_value = "compiled", value_parser = mode_of)]
    mode: Mode,
    /// cpu, cuda or cuda:INDEX.
    #[arg(long, default_value = "cpu")]
    device: String,
}

fn mode_of(name: &str) -> std::result::Result<Mode, String> {
    match name {
        "compiled" => Ok(Mode::Compiled),
        "eager" => Ok(Mode::Eager),
        "tiered" => Ok(Mode::Tiered),
        _ => Err("compiled, eager or tiered".to_owned()),
    }
}

impl Place {
    /// The device that is asked for.
    fn device(&self) -> Result<Device> {
        self.device_by(Device::cuda)
    }

    /// The device that is asked for, of CUDA's by its index.
    fn device_by(&self, cuda: fn(usize) -> Result<Device>) -> Result<Device> {
        let wrong = || {
            Error::argument(format!(
                "no device is called {:?}: cpu, cuda or cuda:INDEX",
                self.device
            ))
        };
        match self.device.split_once(':') {
            None if self.device == "cpu" => Ok(Device::cpu()),
            None if self.device == "cuda" => cuda(0),
            Some(("cuda", index)) => cuda(index.parse().map_err(|_| wrong())?),
            _ => Err(wrong()),
        }
    }

    /// A program, loaded to where it is to run.
    fn load(&self, path: &Path) -> Result<io::ExportedProgram> {
        set_mode(self.mode);
        let device = self.device()?;
        let program = io::ExportedProgram::load(path)?;
        if device == Device::cpu() {
            Ok(program)
        } else {
            program.to(&device)
        }
    }
}

/// Bytes as a reader takes them in.
fn size(bytes: usize) -> String {
    match bytes as f64 {
        n if n >= 1e9 => format!("{:.2} GB", n / 1e9),
        n if n >= 1e6 => format!("{:.2} MB", n / 1e6),
        n if n >= 1e3 => format!("{:.1} kB", n / 1e3),
        n => format!("{n} bytes"),
    }
}

fn print(line: fmt::Arguments<'_>) {
    if writeln!(std::io::stdout(), "{line}").is_err() {
        std::process::exit(2);
    }
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(options) => run::run(&options),
        Command::Inspect(options) => inspect::inspect(&options).map(|()| true),
        Command::Bundle(options) => bundle::bundle(&options).map(|()| true),
        Command::Cache { what } => cache::cache(&what).map(|()| true),
        Command::Doctor => doctor::doctor().map(|()| true),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
