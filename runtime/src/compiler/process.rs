//! Runs of the compiler as child processes.
//!
//! What a program reads from us and tells us goes through files, not pipes: a program that does not read, or leaves
//! another behind that keeps its streams open, holds nobody up. Each program leads a process group, which is ended as a
//! whole when its time is over.

use super::Stages;
use crate::store::workdir::WorkDir;
use crate::{Channel, Config, log};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Why a run gave no shared object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The compiler refused the source, so that running it another way would not help.
    Source,
    /// The system: no more processes, no memory, a killed program.
    System,
    /// The time limit passed.
    Late,
}

/// A run that gave no shared object.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) log: String,
    pub(super) cause: Cause,
}

impl Failure {
    fn of_system(what: impl std::fmt::Display) -> Failure {
        Failure {
            log: format!("{what}\n"),
            cause: Cause::System,
        }
    }
}

/// Bytes of a program's output that are looked at.
const LONGEST_LOG: u64 = 1 << 20;
/// How long a program that is asked what it is may take, where compiling may take longer.
const ANSWER: Duration = Duration::from_secs(10);

/// When a run that starts now is over, if ever.
fn deadline() -> Option<Instant> {
    let limit = Config::get().compile_timeout?;
    Instant::now().checked_add(limit)
}

/// A command with messages in English and its temporary files in the folder `work`, in a process group of its own.
fn command(
    program: &Path,
    args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    work: &WorkDir,
) -> Command {
    let mut command = Command::new(program);
    command
        .args(args)
        .env("LC_ALL", "C")
        .env("TMPDIR", work.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command.process_group(0);
    command
}

/// A program that runs, and the file that it complains to.
struct Running {
    child: Child,
    shown: String,
    said: File,
}

/// How a program ended.
struct Ended {
    said: String,
    success: bool,
}

impl Running {
    /// Starts a program whose complaints go to the file `said` of a folder.
    fn start(command: &mut Command, work: &WorkDir, said: &str) -> Result<Running, Failure> {
        let said = work.create(said).map_err(Failure::of_system)?;
        Running::telling(command, said).map_err(Failure::of_system)
    }

    fn telling(command: &mut Command, said: File) -> io::Result<Running> {
        command.stderr(said.try_clone()?);
        let shown = format!("{command:?}");
        log(Channel::Commands, || shown.clone());
        match command.spawn() {
            Ok(child) => Ok(Running { child, shown, said }),
            Err(e) => Err(io::Error::new(e.kind(), NotStarted { shown, why: e })),
        }
    }

    /// Waits for the program, and ends it and its group when its time is over.
    fn finish(mut self, deadline: Option<Instant>) -> Result<Ended, Failure> {
        let status = wait(&mut self.child, deadline);
        let said = read(&mut self.said);
        match status {
            Ok(Some(status)) => {
                let mut said = said;
                if !status.success() && said.trim().is_empty() {
                    said = format!("{}: {status}\n", self.shown);
                }
                let success = status.success();
                Ok(Ended { said, success })
            }
            Ok(None) => Err(Failure {
                log: format!(
                    "{} did not end in time and was ended (FERROTRACE_COMPILE_TIMEOUT)\n{said}",
                    self.shown
                ),
                cause: Cause::Late,
            }),
            Err(e) => Err(Failure::of_system(format_args!(
                "{}: its end was not learnt: {}\n{said}",
                self.shown,
                reason(&e)
            ))),
        }
    }
}

/// A program that the system did not start.
#[derive(Debug)]
struct NotStarted {
    shown: String,
    why: io::Error,
}

impl std::fmt::Display for NotStarted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} could not be started: {}", self.shown, self.why)
    }
}

impl std::error::Error for NotStarted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.why)
    }
}

/// What an error of waiting means.
fn reason(e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::ECHILD) => format!("{e}; this process ignores SIGCHLD"),
        _ => e.to_string(),
    }
}

/// The status of a program that ends before its time is over; one that does not is killed with its process group.
fn wait(child: &mut Child, deadline: Option<Instant>) -> io::Result<Option<ExitStatus>> {
    let Some(deadline) = deadline else {
        return child.wait().map(Some);
    };
    let bell = Bell::of(child);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            // Not waited for yet, so the number is still that of its group.
            let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
            return child.wait().map(|_| None);
        }
        bell.wait(left);
    }
}

/// A descriptor that becomes readable when a program ends.
struct Bell(#[cfg(target_os = "linux")] Option<rustix::fd::OwnedFd>);

impl Bell {
    #[cfg(target_os = "linux")]
    fn of(child: &Child) -> Bell {
        use rustix::process::{PidfdFlags, pidfd_open};
        Bell(pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok())
    }

    #[cfg(not(target_os = "linux"))]
    fn of(_: &Child) -> Bell {
        Bell()
    }

    /// Waits until it rings, or so long. It may come back early.
    fn wait(&self, most: Duration) {
        #[cfg(target_os = "linux")]
        if let Some(fd) = &self.0 {
            use rustix::event::{PollFd, PollFlags, Timespec, poll};
            let limit = Timespec::try_from(most).ok();
            let mut of = [PollFd::new(fd, PollFlags::IN)];
            let _ = poll(&mut of, limit.as_ref());
            return;
        }
        std::thread::sleep(most.min(Duration::from_millis(1)));
    }
}

/// What a program wrote to a file, as far as anybody looks.
fn read(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = file
        .rewind()
        .and_then(|()| file.take(LONGEST_LOG).read_to_end(&mut bytes));
    match read {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(e) => format!("its output was not read: {e}\n"),
    }
}

/// A source as what a program reads.
fn source_file(source: &str, work: &WorkDir) -> Result<Stdio, Failure> {
    let write = || {
        let mut file = work.create("kernel.c")?;
        file.write_all(source.as_bytes())?;
        file.rewind()?;
        Ok(file)
    };
    let file: io::Result<File> = write();
    let path = work.file("kernel.c");
    file.map(Stdio::from)
        .map_err(|e| Failure::of_system(format_args!("{}: {e}", path.display())))
}

const OUTPUT: &str = "kernel.so";

fn output(work: &WorkDir) -> Result<Vec<u8>, Failure> {
    work.read(OUTPUT).map_err(Failure::of_system)
}

/// Runs the compiler's driver on the source.
pub(super) fn run_driver(
    program: &Path,
    args: &[OsString],
    flags: &[&str],
    source: &str,
    work: &WorkDir,
) -> Result<Vec<u8>, Failure> {
    let mut command = command(program, args, work);
    command
        .args(["-shared", "-nostdlib", "-pipe"])
        .args(flags)
        .args(["-x", "c", "-", "-o"])
        .arg(work.file(OUTPUT))
        .stdin(source_file(source, work)?);
    let ended = Running::start(&mut command, work, "driver.log")?.finish(deadline())?;
    match ended.success {
        true => output(work),
        false => Err(Failure {
            log: ended.said,
            cause: Cause::Source,
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
    let deadline = deadline();
    let object = work.file("kernel.o");
    let mut compile = command(&stages.compiler, ["-quiet"], work);
    compile
        .args(flags)
        .args(["-", "-o", "-"])
        .stdin(source_file(source, work)?)
        .stdout(Stdio::piped());
    let mut compiler = Running::start(&mut compile, work, "compiler.log")?;
    let mut assemble = command(&stages.assembler, ["-o"], work);
    assemble.arg(&object).arg("-");
    if let Some(assembly) = compiler.child.stdout.take() {
        assemble.stdin(assembly);
    }
    let assembler = Running::start(&mut assemble, work, "assembler.log");
    // The command holds the reading end of the pipe; a compiler whose assembler is gone must not wait for a reader.
    drop(assemble);
    let compiled = compiler.finish(deadline);
    let assembled = assembler.and_then(|assembler| assembler.finish(deadline));
    let compiled = compiled?;
    if !compiled.success {
        // An error without a diagnostic is the system's: killed, or a library missing.
        let of_source = compiled.said.contains("error:");
        let assembler = assembled.err().map(|failure| failure.log);
        return Err(Failure {
            cause: match of_source {
                true => Cause::Source,
                false => Cause::System,
            },
            log: compiled.said + &assembler.unwrap_or_default(),
        });
    }
    let assembled = assembled?;
    if !assembled.success {
        return Err(Failure::of_system(assembled.said));
    }
    let mut link = command(&stages.linker, ["-shared", "--hash-style=gnu", "-o"], work);
    link.arg(work.file(OUTPUT)).arg(&object);
    let linked = Running::start(&mut link, work, "linker.log")?.finish(deadline)?;
    match linked.success {
        true => output(work),
        false => Err(Failure::of_system(linked.said)),
    }
}

/// Why a program did not answer.
pub(super) enum Silence {
    /// The program ended with an error.
    Refused,
    /// It did not run, or not to its end, for this reason; perhaps it would another time.
    NotRun { why: String, for_now: bool },
}

/// What a program that succeeds prints to either stream.
pub(super) fn ask(program: &Path, args: &[OsString], question: &[&str]) -> Result<String, Silence> {
    let not_run = |e: io::Error| {
        let cause = e.get_ref().and_then(|inner| inner.source());
        let cause = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
        let code = cause.unwrap_or(&e).raw_os_error();
        let passing = [libc::EAGAIN, libc::ENOMEM, libc::EMFILE, libc::ENFILE];
        Silence::NotRun {
            why: e.to_string(),
            for_now: code.is_some_and(|code| passing.contains(&code)),
        }
    };
    let work = WorkDir::new().map_err(|e| not_run(io::Error::other(e.to_string())))?;
    let said = work.create("answer").map_err(not_run)?;
    let mut command = command(program, args, &work);
    // Two descriptors of one file, which therefore share a position.
    command
        .args(question)
        .stdout(said.try_clone().map_err(not_run)?);
    let running = Running::telling(&mut command, said).map_err(not_run)?;
    let limit = Config::get().compile_timeout.map(|most| most.min(ANSWER));
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    match running.finish(deadline) {
        Ok(ended) if ended.success => Ok(ended.said),
        Ok(_) => Err(Silence::Refused),
        Err(failure) => Err(Silence::NotRun {
            why: failure.log.trim_end().to_owned(),
            for_now: false,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, work: &WorkDir) -> Running {
        let mut command = command(Path::new("/bin/sh"), ["-c", script], work);
        Running::start(&mut command, work, "log").expect("a shell")
    }

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_millis(200))
    }

    fn later() -> Option<Instant> {
        Some(Instant::now() + Duration::from_secs(60))
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_its_group() {
        let work = WorkDir::new().expect("a folder");
        let pids = work.file("pids");
        let script = format!(
            "sleep 600 & echo $! > {0}; echo said >&2; sleep 600",
            pids.display()
        );
        let running = shell(&script, &work);
        while !std::fs::read_to_string(&pids).is_ok_and(|t| t.ends_with('\n')) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let failure = running.finish(soon()).err().expect("it hangs");
        assert_eq!(failure.cause, Cause::Late);
        assert!(
            failure.log.contains("FERROTRACE_COMPILE_TIMEOUT"),
            "{failure:?}"
        );
        assert!(failure.log.contains("said"), "{failure:?}");
        let pid = std::fs::read_to_string(&pids).expect("a number");
        let stat = format!("/proc/{}/stat", pid.trim());
        // Whoever inherits it may take a moment to reap it; until then it is a zombie.
        let gone = || std::fs::read_to_string(&stat).map_or(true, |s| s.contains(") Z "));
        for _ in 0..1000 {
            if gone() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the child of the child lives");
    }

    #[test]
    fn what_a_program_leaves_behind_holds_nobody_up() {
        let work = WorkDir::new().expect("a folder");
        let begun = Instant::now();
        let running = shell("sleep 30 & echo done >&2", &work);
        let ended = running.finish(later()).expect("it ends");
        assert!(ended.success && ended.said == "done\n", "{}", ended.said);
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn deaths_and_programs_that_do_not_start_are_told() {
        let work = WorkDir::new().expect("a folder");
        let ended = shell("kill -9 $$", &work).finish(later()).expect("it ends");
        assert!(
            !ended.success && ended.said.contains("signal: 9"),
            "{}",
            ended.said
        );
        let other = WorkDir::new().expect("a folder");
        let mut missing = command(Path::new("/no/such/program"), ["x"], &other);
        let failure = Running::start(&mut missing, &other, "log").err();
        let failure = failure.expect("there is none");
        assert_eq!(failure.cause, Cause::System);
        assert!(failure.log.contains("os error 2"), "{failure:?}");
    }
}
