//! This program again, in a process of its own that computes one thing and prints numbers.

use super::Outcome;
use std::path::Path;
use std::process::{Command, Stdio};

/// What this process is to compute if it is such a child.
pub fn name() -> Option<String> {
    let mut args = std::env::args();
    args.find(|arg| arg == "--child")?;
    Some(args.next().unwrap_or_default())
}

/// This program, to be [`run`] without the mode that this process was started in.
///
/// # Errors
/// What the system says about the program's path.
pub fn command() -> Outcome<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env_remove("FERROTRACE_MODE");
    Ok(command)
}

/// The numbers that a child prints when it computes `name` with this folder as its cache.
///
/// # Errors
/// It does not start, or prints other than `N` numbers.
pub fn run<const N: usize>(mut command: Command, name: &str, cache: &Path) -> Outcome<[f64; N]> {
    let output = command
        .args(["--child", name])
        .env("FERROTRACE_CACHE_DIR", cache)
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let numbers: Vec<f64> = text
        .split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect();
    let numbers = <[f64; N]>::try_from(numbers);
    numbers.map_err(|_| format!("the child computing {name} said {text:?}").into())
}
