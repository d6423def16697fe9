//! Runs of the compiler as child processes.

use super::Stages;
use crate::workdir::WorkDir;
use crate::{Channel, log};
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A run that gave no shared object.
pub(super) struct Failure {
    pub(super) log: String,
    /// Whether the compiler refused the source, so that running it another way would not help.
    pub(super) of_source: bool,
}

impl Failure {
    fn of_system(what: impl std::fmt::Display) -> Failure {
        Failure {
            log: format!("{what}\n"),
            of_source: false,
        }
    }
}

/// A command with messages in English, its standard streams piped.
fn command(program: &Path, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(program);
    command
        .args(args)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command.stderr(Stdio::piped());
    command
}

fn spawn(command: &mut Command) -> Result<Child, Failure> {
    log(Channel::Commands, || format!("{command:?}"));
    command
        .spawn()
        .map_err(|e| Failure::of_system(format_args!("{command:?}: {e}")))
}

/// Writes the source and closes the pipe. A child that stopped reading shows it by its status.
fn feed(child: &mut Child, source: &str) {
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(source.as_bytes());
    }
}

/// Waits for the child; its error output, and whether it succeeded.
fn finish(mut child: Child) -> (String, bool) {
    let mut log = Vec::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_end(&mut log);
    }
    let success = child.wait().is_ok_and(|status| status.success());
    (String::from_utf8_lossy(&log).into_owned(), success)
}

fn output(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|e| Failure::of_system(format_args!("{}: {e}", path.display())))
}

/// Runs the compiler's driver on the source.
pub(super) fn run_driver(
    program: &Path,
    args: &[String],
    flags: &[&str],
    source: &str,
    work: &WorkDir,
) -> Result<Vec<u8>, Failure> {
    let out = work.file("kernel.so");
    let mut command = command(program, args);
    command
        .args(["-shared", "-nostdlib", "-pipe"])
        .args(flags)
        .args(["-x", "c", "-", "-o"]);
    let mut child = spawn(command.arg(&out).stdout(Stdio::null()))?;
    feed(&mut child, source);
    match finish(child) {
        (_, true) => output(&out),
        (log, false) => Err(Failure {
            log,
            of_source: true,
        }),
    }
}

/// Runs compiler proper, assembler and linker on the source, the first two side by side.
pub(super) fn run_stages(
    stages: &Stages,
    flags: &[&str],
    source: &str,
    work: &WorkDir,
) -> Result<Vec<u8>, Failure> {
    let (object, out) = (work.file("kernel.o"), work.file("kernel.so"));
    let mut compile = command(&stages.compiler, ["-quiet"]);
    let mut compiler = spawn(compile.args(flags).args(["-", "-o", "-"]))?;
    feed(&mut compiler, source);
    let mut assemble = command(&stages.assembler, ["-o"]);
    assemble.arg(&object).arg("-").stdout(Stdio::null());
    if let Some(assembly) = compiler.stdout.take() {
        assemble.stdin(assembly);
    }
    let assembler = spawn(&mut assemble);
    // The command holds the reading end of the pipe; a compiler whose assembler is gone must not wait for a reader.
    drop(assemble);
    let (log, compiled) = finish(compiler);
    let (as_log, assembled) = finish(assembler?);
    if !compiled {
        // An error without a diagnostic is the system's: killed, or a library missing.
        return Err(Failure {
            of_source: log.contains("error:"),
            log,
        });
    }
    if !assembled {
        return Err(Failure::of_system(as_log));
    }
    let mut link = command(&stages.linker, ["-shared", "--hash-style=gnu", "-o"]);
    link.arg(&out)
        .arg(&object)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    match finish(spawn(&mut link)?) {
        (_, true) => output(&out),
        (log, false) => Err(Failure::of_system(log)),
    }
}

/// What a program that succeeds prints to either stream.
pub(super) fn ask(program: &Path, args: &[String], question: &[&str]) -> Option<String> {
    let mut command = command(program, args);
    command.args(question).stdin(Stdio::null());
    log(Channel::Commands, || format!("{command:?}"));
    let output = command.output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&text).into_owned())
}
