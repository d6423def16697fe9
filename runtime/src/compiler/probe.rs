//! What the C compiler is: asked of it once, kept on disk beside the artifacts.

use super::{CCompiler, Family, Stages, process};
use crate::{Error, ErrorKind, Result, digest, store};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// The answer to a probe.
pub(super) struct Probe {
    pub(super) compiler: Result<CCompiler>,
    /// Known also from the record of a compiler that has gone.
    pub(super) identity: Option<String>,
}

fn no_compiler(message: String) -> Error {
    Error::new(ErrorKind::NoCompiler(message))
}

/// Finds and identifies the compiler that `command` names, by the record in `dir` where that is still true of the
/// program found, else by running it.
pub(super) fn probe(command: &str, dir: Option<&Path>) -> Probe {
    let mut words = command.split_whitespace();
    let name = words.next().unwrap_or("cc");
    let args: Vec<String> = words.map(str::to_owned).collect();
    let record = dir.map(|dir| {
        dir.join(format!(
            "probe-{}",
            digest::hex(digest::of(command.as_bytes()))
        ))
    });
    let kept = record.as_deref().and_then(Record::read);
    let Some((program, metadata)) = find(name) else {
        let identity = kept.map(|kept| identity(&kept.compiler));
        let message = format!("`{name}` is not on PATH; install gcc or clang, or set CC");
        return Probe {
            compiler: Err(no_compiler(message)),
            identity,
        };
    };
    let stamp = stamp(&program, &metadata);
    if let Some(kept) = kept
        && kept.stamp == stamp
        && kept.compiler.args == args
    {
        let identity = Some(identity(&kept.compiler));
        return Probe {
            compiler: Ok(kept.compiler),
            identity,
        };
    }
    let compiler = ask(program, args);
    if let (Ok(compiler), Some(path)) = (&compiler, &record) {
        let text = record_text(&stamp, compiler);
        // A record that cannot be kept costs a run of the compiler next time, no more.
        let _ = store::write_atomically(path, text.as_bytes());
    }
    let identity = compiler.as_ref().ok().map(identity);
    Probe { compiler, identity }
}

fn identity(compiler: &CCompiler) -> String {
    let (program, flags) = (compiler.program.display(), compiler.flags().join(" "));
    format!(
        "{program}\n{:?}\n{}\n{flags}",
        compiler.args, compiler.version
    )
}

fn executable(path: PathBuf) -> Option<(PathBuf, Metadata)> {
    let metadata = std::fs::metadata(&path).ok()?;
    (metadata.is_file() && metadata.mode() & 0o111 != 0).then_some((path, metadata))
}

/// The program of this name: a path as it is, a bare name on `PATH`.
fn find(name: &str) -> Option<(PathBuf, Metadata)> {
    if name.contains('/') {
        return executable(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find_map(|dir| executable(dir.join(name)))
}

/// Changes when the program does.
fn stamp(program: &Path, m: &Metadata) -> String {
    format!(
        "{} {} {} {}.{}",
        program.display(),
        m.ino(),
        m.size(),
        m.mtime(),
        m.mtime_nsec()
    )
}

/// Asks the program what it is and what it would run, in one call that runs nothing else: the start of a process is a
/// good part of the first kernel's time.
fn ask(program: PathBuf, args: Vec<String>) -> Result<CCompiler> {
    let shown = program.display();
    let question = ["-###", "-x", "c", "-c", "-o", "/dev/null", "-"];
    let Some(text) = process::ask(&program, &args, &question) else {
        return Err(no_compiler(format!(
            "`{shown}` does not answer as gcc or clang would"
        )));
    };
    let Some((family, major, version)) = identify(&text) else {
        return Err(no_compiler(format!("`{shown}` is neither gcc nor clang")));
    };
    let least = match family {
        Family::Gcc => 9,
        Family::Clang => 12,
    };
    if major < least {
        return Err(no_compiler(format!(
            "`{shown}` is {version}; at least {least} is needed"
        )));
    }
    // Arguments given with the command are the driver's, so with any the driver stays.
    let direct = family == Family::Gcc && args.is_empty() && cfg!(target_os = "linux");
    let stages = if direct { stages(&text) } else { None };
    let version = version.to_owned();
    Ok(CCompiler {
        program,
        args,
        family,
        version,
        stages,
        direct_failed: AtomicBool::new(false),
    })
}

/// The family, the major version and the line that tells them in the answer to `-###`.
fn identify(text: &str) -> Option<(Family, u32, &str)> {
    let major = |s: &str| s.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    text.lines().find_map(|line| {
        if let Some(rest) = line.strip_prefix("gcc version ") {
            return Some((Family::Gcc, major(rest)?, line.trim()));
        }
        let (_, rest) = line.split_once("clang version ")?;
        Some((Family::Clang, major(rest)?, line.trim()))
    })
}

/// gcc's stages as the answer to `-###` names them: `cc1` by its path, the others where the driver looks, in the folders
/// it lists and then on `PATH`.
fn stages(text: &str) -> Option<Stages> {
    let folders = text
        .lines()
        .find_map(|line| line.strip_prefix("COMPILER_PATH="))?;
    let program = |name: &str| {
        let listed = folders
            .split(':')
            .find_map(|dir| executable(Path::new(dir).join(name)));
        listed.or_else(|| find(name)).map(|(path, _)| path)
    };
    let words = text
        .lines()
        .filter(|line| line.starts_with(' '))
        .flat_map(str::split_whitespace);
    let compiler = words
        .map(|word| word.trim_matches('"'))
        .find(|word| word.ends_with("/cc1"))?;
    let (compiler, _) = executable(PathBuf::from(compiler))?;
    Some(Stages {
        compiler,
        assembler: program("as")?,
        linker: program("ld")?,
    })
}

/// A probe's answer as a file: lines, the last a checksum of those before it.
struct Record {
    stamp: String,
    compiler: CCompiler,
}

const RECORD_HEADER: &str = "ferrotrace compiler 1";

fn record_text(stamp: &str, c: &CCompiler) -> String {
    let stages = c
        .stages
        .as_ref()
        .map(|s| [&s.compiler, &s.assembler, &s.linker]);
    let stages = stages
        .map(|s| s.map(|p| p.display().to_string()).join("\t"))
        .unwrap_or_default();
    let (program, args) = (c.program.display(), c.args.join("\t"));
    let (family, version) = (c.family, &c.version);
    let text =
        format!("{RECORD_HEADER}\n{stamp}\n{program}\n{args}\n{family:?}\n{version}\n{stages}\n");
    let checksum = digest::hex(digest::of(text.as_bytes()));
    text + &checksum
}

impl Record {
    fn read(path: &Path) -> Option<Record> {
        let text = std::fs::read_to_string(path).ok()?;
        let record = Record::parse(&text);
        if record.is_none() {
            let _ = std::fs::remove_file(path);
        }
        record
    }

    fn parse(text: &str) -> Option<Record> {
        let (body, checksum) = text.split_at(text.rfind('\n')? + 1);
        if digest::hex(digest::of(body.as_bytes())) != checksum {
            return None;
        }
        let lines: Vec<&str> = body.lines().collect();
        let &[RECORD_HEADER, stamp, program, args, family, version, stages] = &lines[..] else {
            return None;
        };
        let family = match family {
            "Gcc" => Family::Gcc,
            "Clang" => Family::Clang,
            _ => return None,
        };
        let stages = match stages.split('\t').collect::<Vec<_>>()[..] {
            [compiler, assembler, linker] => Some(Stages {
                compiler: compiler.into(),
                assembler: assembler.into(),
                linker: linker.into(),
            }),
            _ => None,
        };
        let args = args
            .split('\t')
            .filter(|a| !a.is_empty())
            .map(str::to_owned)
            .collect();
        let (program, version) = (program.into(), version.to_owned());
        let direct_failed = AtomicBool::new(false);
        let compiler = CCompiler {
            program,
            args,
            family,
            version,
            stages,
            direct_failed,
        };
        Some(Record {
            stamp: stamp.to_owned(),
            compiler,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let of = |text: &str| identify(text).map(|(family, major, _)| (family, major));
        let gcc = "Thread model: posix\ngcc version 12.2.0 (Debian 12.2.0-14+deb12u1) \n";
        assert_eq!(of(gcc), Some((Family::Gcc, 12)));
        assert_eq!(
            of("Debian clang version 14.0.6\nTarget: x"),
            Some((Family::Clang, 14))
        );
        let apple = "Apple clang version 15.0.0 (clang-1500.3.9.4)";
        assert_eq!(of(apple), Some((Family::Clang, 15)));
        assert_eq!(of("tcc version 0.9.27"), None);
    }

    #[test]
    fn a_record_serves_without_running_anything_and_after_the_compiler_has_gone() {
        let dir = tempfile::tempdir().expect("a folder");
        let script = dir.path().join("mycc");
        let log = dir.path().join("runs");
        let gcc = "gcc version 12.1.0 (Test)";
        let text = format!(
            "#!/bin/sh\necho run >> {}\necho '{gcc}' >&2\n",
            log.display()
        );
        std::fs::write(&script, text).expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, mode).expect("allowed");
        let runs = || std::fs::read_to_string(&log).map_or(0, |t| t.lines().count());
        let command = script.display().to_string();
        let first = probe(&command, Some(dir.path()));
        let after = runs();
        assert_eq!(after, 1);
        let second = probe(&command, Some(dir.path()));
        assert_eq!(runs(), after);
        let described = |p: Probe| p.compiler.expect("found").describe();
        let identity = first.identity.clone();
        assert_eq!(described(first), described(second));
        std::fs::remove_file(&script).expect("removed");
        let third = probe(&command, Some(dir.path()));
        assert!(matches!(
            third.compiler.map_err(|e| e.kind().clone()),
            Err(ErrorKind::NoCompiler(_))
        ));
        assert_eq!(third.identity, identity);
    }

    #[test]
    fn damaged_records_are_deleted() {
        let dir = tempfile::tempdir().expect("a folder");
        let first = probe("cc", Some(dir.path()));
        if first.compiler.is_err() {
            return;
        }
        let path = std::fs::read_dir(dir.path())
            .expect("a folder")
            .flatten()
            .next()
            .expect("a record")
            .path();
        let mut bytes = std::fs::read(&path).expect("a record");
        bytes[40] ^= 1;
        std::fs::write(&path, bytes).expect("written");
        assert!(Record::read(&path).is_none() && !path.exists());
        assert_eq!(probe("cc", Some(dir.path())).identity, first.identity);
    }

    #[test]
    fn missing_and_unknown_programs() {
        for command in ["/no/such/compiler", "no-such-compiler-at-all", "true"] {
            let error = probe(command, None).compiler.expect_err("no compiler");
            assert!(matches!(error.kind(), ErrorKind::NoCompiler(_)), "{error}");
        }
    }
}
