//! The host's C compiler: found, identified once, and run on generated sources.

pub(crate) mod elf;
pub(crate) mod library;
mod probe;
mod process;

use crate::observe::inject::{self, Site};
use crate::store::folder::Folder;
use crate::store::workdir::{self, WorkDir};
use crate::store::{self, Store, digest};
use crate::{Config, Error, ErrorKind, Isa, Result};
use once_cell::sync::OnceCell;
use process::{Cause, Failure};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// The compiler family whose command line is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Gcc,
    Clang,
}

/// The programs behind a driver, to be run without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stages {
    compiler: PathBuf,
    assembler: PathBuf,
    linker: PathBuf,
}

/// A C compiler that can build kernels: gcc 9 or later, or clang 12 or later.
#[derive(Debug)]
pub struct CCompiler {
    program: PathBuf,
    args: Vec<OsString>,
    family: Family,
    version: String,
    /// gcc's stages, to be run without the driver, which saves a tenth of the time.
    stages: Option<Stages>,
    /// Whether running the stages failed where the driver did not; they are not tried again.
    direct_failed: AtomicBool,
    /// Runs in a row that did not end in time.
    late: AtomicU32,
}

/// What [`CCompiler::get`] found: the compiler or why there is none, and the identity that kernel keys state.
struct Found {
    compiler: Result<Arc<CCompiler>>,
    identity: Option<String>,
}

static FOUND: OnceCell<Found> = OnceCell::new();

/// What was found; an error where the system could not run the compiler just now.
fn found() -> Result<&'static Found> {
    FOUND.get_or_try_init(|| {
        let config = Config::get();
        let cache = config.disk_cache.then(Store::global).flatten();
        let command = config.cc.as_deref().unwrap_or(OsStr::new("cc"));
        let found = probe::probe(command, cache.map(|store| store.root()));
        match found.compiler {
            Err(error) if found.for_now => Err(error),
            compiler => Ok(Found {
                compiler: compiler.map(Arc::new),
                identity: found.identity,
            }),
        }
    })
}

/// Flags that both families take. Nothing here lets the compiler reassociate, contract or assume away NaN; floating-point
/// state is never read, and kernels define overflow as wrapping and may view one memory as several types. Sources use
/// explicit vectors and inline by attribute, so `-O1` gives the speed of `-O2` for two thirds of its compile time.
const COMMON_FLAGS: &[&str] = &[
    "-O1",
    "-fPIC",
    "-ffp-contract=off",
    "-fwrapv",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-strict-aliasing",
    "-fno-asynchronous-unwind-tables",
    "-fno-stack-protector",
    "-w",
];

/// Flags of gcc alone: loops are not replaced by calls of `memset`, and registers are allocated over whole functions: loop by
/// loop, long kernels take up to four times as long to compile.
const GCC_FLAGS: &[&str] = &[
    "-fno-tree-loop-distribute-patterns",
    "-fira-region=one",
    "-fmax-errors=20",
];
const CLANG_FLAGS: &[&str] = &["-ferror-limit=20"];
#[cfg(target_arch = "x86_64")]
const TARGET_FLAGS: &[&str] = &["-fcf-protection=none"];
#[cfg(all(not(target_arch = "x86_64"), not(target_os = "macos")))]
const TARGET_FLAGS: &[&str] = &[];
#[cfg(all(not(target_arch = "x86_64"), target_os = "macos"))]
const TARGET_FLAGS: &[&str] = &["-Wl,-undefined,dynamic_lookup"];

impl CCompiler {
    /// The compiler that `CC` names, else `cc`, found on `PATH`; looked for once a process, or until the system could
    /// run it. What it is was asked of it
    /// once and kept on disk, so that a warm start runs no process.
    ///
    /// # Errors
    /// `NoCompiler` if there is none, or one too old.
    pub fn get() -> Result<Arc<CCompiler>> {
        found()?.compiler.clone()
    }

    /// The compiler that `command` names (a program, perhaps with arguments, in the shell's quotes), asked anew.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn named(command: &str) -> Result<CCompiler> {
        probe::probe(OsStr::new(command), None).compiler
    }

    /// What kernel keys state of the compiler: path, arguments and version. Known from an earlier run's record even
    /// where the compiler has gone since; `None` if there never was one.
    pub(crate) fn identity() -> Option<&'static str> {
        found().ok()?.identity.as_deref()
    }

    /// The path, the version and how it is run, in a line.
    pub fn describe(&self) -> String {
        let direct = if self.stages.is_some() {
            ", stages run directly"
        } else {
            ""
        };
        format!("{} ({}{direct})", self.program.display(), self.version)
    }

    /// The flags that sources are compiled with.
    pub fn flags(&self) -> Vec<&'static str> {
        self.flags_for(Isa::host())
    }

    /// The flags that sources are compiled with for an instruction set.
    fn flags_for(&self, isa: Isa) -> Vec<&'static str> {
        let family = match self.family {
            Family::Gcc => GCC_FLAGS,
            Family::Clang => CLANG_FLAGS,
        };
        [COMMON_FLAGS, family, TARGET_FLAGS, isa.flags()].concat()
    }

    /// Compiles a C source to the bytes of a shared object. Symbols it leaves undefined are looked for in the process
    /// when it is loaded.
    ///
    /// # Errors
    /// `Compile`, with the first lines of the compiler's output and the files in which source and output are saved.
    pub fn compile(&self, source: &str) -> Result<Vec<u8>> {
        self.compile_with(source, Isa::host())
    }

    /// As [`compile`](Self::compile), for another instruction set of the same family of processors.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub(crate) fn compile_with(&self, source: &str, isa: Isa) -> Result<Vec<u8>> {
        if inject::fails(Site::Compile) {
            return Err(saved_failure(source, "a failure was injected"));
        }
        if self.late.load(Relaxed) >= LATE_RUNS {
            let log = "the compiler did not end in time (FERROTRACE_COMPILE_TIMEOUT) and is not run any more";
            return Err(saved_failure(source, log));
        }
        let result = WorkDir::new().and_then(|work| {
            let direct = self.run(source, &self.flags_for(isa), &work);
            direct.map_err(|failure| {
                self.note(failure.cause == Cause::Late);
                saved_failure(source, &failure.log)
            })
        });
        if result.is_ok() {
            self.note(false);
        }
        result
    }

    fn note(&self, late: bool) {
        match late {
            true => drop(self.late.fetch_add(1, Relaxed)),
            false => self.late.store(0, Relaxed),
        }
    }

    fn run(&self, source: &str, flags: &[&str], work: &WorkDir) -> Result<Vec<u8>, Failure> {
        let direct = self.stages.as_ref();
        let direct = direct.filter(|_| !self.direct_failed.load(Relaxed));
        let Some(stages) = direct else {
            return process::run_driver(&self.program, &self.args, flags, source, work);
        };
        let failure = match process::run_stages(stages, flags, source, work) {
            Err(failure) if failure.cause == Cause::System => failure,
            done => return done,
        };
        // The driver works in a folder without the stages' files.
        let work = WorkDir::new().map_err(|e| Failure {
            log: format!("{}{e}\n", failure.log),
            cause: Cause::System,
        })?;
        let driven = process::run_driver(&self.program, &self.args, flags, source, &work);
        if driven.is_ok() {
            self.direct_failed.store(true, Relaxed);
        }
        driven.map_err(|mut driver| {
            driver.log += &failure.log;
            driver
        })
    }
}

/// After so many runs in a row that did not end in time the compiler is not run any more: a plan of many kernels would
/// wait for each.
const LATE_RUNS: u32 = 2;

/// Lines of the log shown in an error.
const LOG_LINES: usize = 20;

/// Saves the source and the log, and returns the error that tells where: in the folder that `FERROTRACE_DUMP` names,
/// in that of compiled kernels, or in a private one of the temporary directory; nowhere if nothing is to be written.
pub(crate) fn saved_failure(source: &str, log: &str) -> Error {
    let name = digest::hex(digest::of(source.as_bytes()));
    let saved = with_failures(|folder| store::keep_failure(folder, &name, source, log).ok());
    let [source_path, log_path] = saved.unwrap_or_default();
    let mut lines: Vec<&str> = log.lines().take(LOG_LINES).collect();
    if log.lines().nth(LOG_LINES).is_some() {
        lines.push("..");
    }
    Error::new(ErrorKind::Compile {
        source_path,
        log_path,
        log: lines.join("\n"),
    })
}

/// Runs `f` on the first folder for failures that can be opened.
fn with_failures<R>(f: impl Fn(&Folder) -> Option<R>) -> Option<R> {
    /// A private folder of the process, for where no folder of kernels is kept.
    static PRIVATE: OnceCell<Folder> = OnceCell::new();
    let config = Config::get();
    if let Some(dump) = &config.dump {
        // Named by the user, who answers for who may write it; what is made in it follows no links.
        return Folder::named(dump).ok().and_then(|folder| f(&folder));
    }
    let kept = Store::global().and_then(Store::failures);
    if let Some(result) = kept.and_then(|folder| f(&folder)) {
        return Some(result);
    }
    if !config.disk_cache {
        return None;
    }
    let private = PRIVATE.get_or_try_init(|| workdir::base()?.new_folder("ferrotrace-failed-"));
    private.ok().and_then(f)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed() -> Vec<CCompiler> {
        ["gcc", "clang"]
            .iter()
            .filter_map(|cc| CCompiler::named(cc).ok())
            .collect()
    }

    #[test]
    fn compiles_to_a_shared_object() {
        for cc in installed() {
            let bytes = cc
                .compile("int ft_0(int x) { return x + 1; }")
                .expect("compiles");
            assert_eq!(&bytes[..4], b"\x7fELF", "{}", cc.describe());
            let driver = CCompiler { stages: None, ..cc };
            let bytes = driver
                .compile("int ft_0(int x) { return x + 1; }")
                .expect("compiles");
            assert_eq!(&bytes[..4], b"\x7fELF");
        }
    }

    #[test]
    fn errors_say_what_and_where() {
        for cc in installed() {
            let source = "int ft_0(void) { return undeclared_thing; }\n";
            let error = cc.compile(source).expect_err("no such name");
            let ErrorKind::Compile {
                source_path,
                log_path,
                log,
            } = error.kind()
            else {
                panic!("{error}");
            };
            assert!(log.contains("undeclared_thing"), "{log}");
            assert_eq!(std::fs::read_to_string(source_path).expect("saved"), source);
            assert!(
                std::fs::read_to_string(log_path)
                    .expect("saved")
                    .contains("undeclared_thing")
            );
        }
    }

    #[test]
    fn many_errors_are_cut() {
        for cc in installed() {
            let source: String = (0..500)
                .map(|i| format!("int f{i} = missing{i};\n"))
                .collect();
            let error = cc.compile(&source).expect_err("no such names");
            let ErrorKind::Compile { log, .. } = error.kind() else {
                panic!("{error}")
            };
            assert!(log.lines().count() <= LOG_LINES + 1);
        }
    }
}
