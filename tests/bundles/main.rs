//! Bundles: programs and functions with their kernels, run where no compiler is.

#[path = "../common/archives.rs"]
mod archives;
mod bad_input;
mod control;
mod cuda;
mod dlpack;
mod functions;
mod programs;

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by a test that draws from the process's generator: others would take numbers between its own.
static DRAWS: Mutex<()> = Mutex::new(());

fn drawing() -> MutexGuard<'static, ()> {
    DRAWS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The folder of a program of `torch.export` and of what PyTorch computed with it.
fn fixture(name: &str) -> PathBuf {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/exported/data");
    data.join(name)
}

/// The tool, where it finds neither a compiler nor a library that is not its own nor a kernel of an earlier run.
fn bare_tool(cache: &std::path::Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrotrace"));
    command
        .env_clear()
        .env("PATH", "/nonexistent")
        .env("LD_LIBRARY_PATH", "/nonexistent")
        .env("CC", "/nonexistent/cc")
        .env("FERROTRACE_CACHE_DIR", cache)
        .env("FERROTRACE_STRICT", "1");
    command
}

/// What a command printed, which must have ended well.
fn said(mut command: Command) -> String {
    let output = command.output().expect("the program runs");
    let text = text(&output);
    assert!(output.status.success(), "{command:?}\n{text}");
    text
}

fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&all).into_owned()
}
