//! What the C compiler is: asked of it once, kept on disk beside the artifacts.

use super::process::{self, Silence};
use super::{CCompiler, Family, Stages};
use crate::error::warn;
use crate::store::RECORD;
use crate::store::digest;
use crate::store::folder::Folder;
use crate::{Error, ErrorKind, Result};
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32};

/// The answer to a probe.
pub(super) struct Probe {
    pub(super) compiler: Result<CCompiler>,
    /// The identity; it may come from the record of a compiler that is no longer installed.
    pub(super) identity: Option<String>,
    /// Whether a compiler is missing only because the system could not run it now.
    pub(super) for_now: bool,
}

fn no_compiler(message: String) -> Error {
    Error::new(ErrorKind::NoCompiler(message))
}

/// A command's words: a program and arguments, in the shell's quotes where they hold blanks.
fn words(command: &OsStr) -> Option<Vec<OsString>> {
    let words = shlex::bytes::split(command.as_bytes())?;
    Some(words.into_iter().map(OsString::from_vec).collect())
}

/// Finds and identifies the compiler that `command` names, by the record in `folder` where that is still true of the
/// program found, else by running it. Where there is none, what was compiled before still serves: the identity is that
/// of the command's record, else of the newest.
pub(super) fn probe(command: &OsStr, folder: Option<&Folder>) -> Probe {
    let none = |message, identity| Probe {
        compiler: Err(no_compiler(message)),
        identity,
        for_now: false,
    };
    let name = format!("{RECORD}{}", digest::hex(digest::of(command.as_bytes())));
    let kept = folder.and_then(|folder| Record::read(folder, &name));
    let known = || {
        let of = |record: Record| identity(&record.compiler);
        kept.as_ref()
            .map(|kept| identity(&kept.compiler))
            .or_else(|| newest(folder?).map(of))
    };
    let Some(mut words) = words(command) else {
        let message = format!("CC={command:?} has a quote that is not closed");
        return none(message, known());
    };
    let args = words.split_off(1.min(words.len()));
    let program = words.pop().unwrap_or("cc".into());
    let Some((program, metadata)) = find(&program) else {
        let message = format!("{program:?} is not on PATH; install gcc or clang, or set CC");
        return none(message, known());
    };
    let stamp = stamp(&program, &metadata);
    if let Some(kept) = kept
        && kept.stamp == stamp
        && kept.compiler.args == args
    {
        return Probe {
            identity: Some(identity(&kept.compiler)),
            compiler: Ok(kept.compiler),
            for_now: false,
        };
    }
    let (compiler, for_now) = match ask(program, args) {
        Ok(compiler) => (Ok(compiler), false),
        Err((error, for_now)) => (Err(error), for_now),
    };
    if let (Ok(compiler), Some(folder)) = (&compiler, folder) {
        // A record that cannot be kept costs a run of the compiler next time, no more.
        let _ = folder.write(&name, &record_text(&stamp, compiler));
    }
    let identity = compiler.as_ref().ok().map(identity);
    Probe {
        compiler,
        identity,
        for_now,
    }
}

/// The record written last.
fn newest(folder: &Folder) -> Option<Record> {
    let mut all = folder.entries_named(RECORD);
    all.sort_by_key(|entry| std::cmp::Reverse(entry.modified));
    let names = all.iter().filter_map(|entry| entry.name.to_str());
    names
        .into_iter()
        .find_map(|name| Record::read(folder, name))
}

fn identity(compiler: &CCompiler) -> String {
    let (program, flags) = (&compiler.program, compiler.flags().join(" "));
    format!(
        "{program:?}\n{:?}\n{}\n{flags}",
        compiler.args, compiler.version
    )
}

fn executable(path: PathBuf) -> Option<(PathBuf, Metadata)> {
    let metadata = std::fs::metadata(&path).ok()?;
    (metadata.is_file() && metadata.mode() & 0o111 != 0).then_some((path, metadata))
}

/// The program of this name: a path as it is, a bare name on `PATH`.
fn find(name: &OsStr) -> Option<(PathBuf, Metadata)> {
    if name.as_bytes().contains(&b'/') {
        return executable(PathBuf::from(name));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find_map(|dir| executable(dir.join(name)))
}

/// A stamp of the program's file, which changes when the program does.
fn stamp(program: &Path, m: &Metadata) -> String {
    format!(
        "{program:?} {} {} {}.{}",
        m.ino(),
        m.size(),
        m.mtime(),
        m.mtime_nsec()
    )
}

/// Asks the program what it is and what it would run, in one call that runs nothing else: the start of a process is a
/// good part of the first kernel's time. An error says whether it may pass.
fn ask(program: PathBuf, args: Vec<OsString>) -> Result<CCompiler, (Error, bool)> {
    let shown = program.display();
    let never = |message: String| (no_compiler(message), false);
    let question = ["-###", "-x", "c", "-c", "-o", "/dev/null", "-"];
    let text = process::ask(&program, &args, &question).map_err(|silence| match silence {
        Silence::Refused => never(format!("`{shown}` does not answer as gcc or clang would")),
        Silence::NotRun { why, for_now } => (no_compiler(why), for_now),
    })?;
    let Some((family, major, version)) = identify(&text) else {
        return Err(never(format!("`{shown}` is neither gcc nor clang")));
    };
    let least = match family {
        Family::Gcc => 9,
        Family::Clang => 12,
    };
    if major < least {
        return Err(never(format!(
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
        late: AtomicU32::new(0),
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
        listed
            .or_else(|| find(OsStr::new(name)))
            .map(|(path, _)| path)
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

const RECORD_HEADER: &[u8] = b"ferrotrace compiler 2";

fn record_text(stamp: &str, c: &CCompiler) -> Vec<u8> {
    let stages = c.stages.as_ref();
    let stages = stages.map(|s| [&s.compiler, &s.assembler, &s.linker].map(bytes));
    let args: Vec<&[u8]> = c.args.iter().map(bytes).collect();
    let family = format!("{:?}", c.family);
    let lines = [
        RECORD_HEADER,
        stamp.as_bytes(),
        bytes(&c.program),
        &args.join(&b'\t'),
        family.as_bytes(),
        c.version.as_bytes(),
        &stages.map(|s| s.join(&b'\t')).unwrap_or_default(),
        b"",
    ];
    let mut text = lines.join(&b'\n');
    let checksum = digest::hex(digest::of(&text));
    text.extend_from_slice(checksum.as_bytes());
    text
}

fn bytes(text: &(impl AsRef<OsStr> + ?Sized)) -> &[u8] {
    text.as_ref().as_bytes()
}

fn text(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

impl Record {
    /// The record of this name. One that is damaged is deleted; one that is not trusted does not count.
    fn read(folder: &Folder, name: &str) -> Option<Record> {
        let content = folder.read(name).unwrap_or_else(|why| {
            warn(&format!("not read: {why}"));
            None
        })?;
        let record = Record::parse(&content.bytes);
        if record.is_none() {
            folder.remove(name);
        }
        record
    }

    fn parse(all: &[u8]) -> Option<Record> {
        let end = all.iter().rposition(|&byte| byte == b'\n')? + 1;
        let (body, checksum) = all.split_at(end);
        if digest::hex(digest::of(body)).as_bytes() != checksum {
            return None;
        }
        let lines: Vec<&[u8]> = body.split(|&byte| byte == b'\n').collect();
        let &[
            RECORD_HEADER,
            stamp,
            program,
            args,
            family,
            version,
            stages,
            b"",
        ] = &lines[..]
        else {
            return None;
        };
        let family = match family {
            b"Gcc" => Family::Gcc,
            b"Clang" => Family::Clang,
            _ => return None,
        };
        let fields = |line: &[u8]| -> Vec<OsString> {
            let fields = line.split(|&byte| byte == b'\t');
            fields.filter(|field| !field.is_empty()).map(text).collect()
        };
        let stages = match &fields(stages)[..] {
            [compiler, assembler, linker] => Some(Stages {
                compiler: compiler.into(),
                assembler: assembler.into(),
                linker: linker.into(),
            }),
            _ => None,
        };
        let utf8 = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
        let compiler = CCompiler {
            program: text(program).into(),
            args: fields(args),
            family,
            version: utf8(version)?,
            stages,
            direct_failed: AtomicBool::new(false),
            late: AtomicU32::new(0),
        };
        Some(Record {
            stamp: utf8(stamp)?,
            compiler,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::folder::Sharing;

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
        let folder = Folder::open(dir.path(), Sharing::Private).expect("opened");
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
        let first = probe(OsStr::new(&command), Some(&folder));
        let after = runs();
        assert_eq!(after, 1);
        let second = probe(OsStr::new(&command), Some(&folder));
        assert_eq!(runs(), after);
        let described = |p: Probe| p.compiler.expect("found").describe();
        let identity = first.identity.clone();
        assert_eq!(described(first), described(second));
        std::fs::remove_file(&script).expect("removed");
        let third = probe(OsStr::new(&command), Some(&folder));
        assert!(matches!(
            third.compiler.map_err(|e| e.kind().clone()),
            Err(ErrorKind::NoCompiler(_))
        ));
        assert_eq!(third.identity, identity);
        // What another command compiled serves too, where there is no compiler at all.
        let other = probe(OsStr::new("/no/such/compiler"), Some(&folder));
        assert!(other.compiler.is_err());
        assert_eq!(other.identity, identity);
    }

    #[test]
    fn damaged_records_are_deleted() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(dir.path(), Sharing::Private).expect("opened");
        let first = probe(OsStr::new("cc"), Some(&folder));
        if first.compiler.is_err() {
            return;
        }
        let path = std::fs::read_dir(dir.path())
            .expect("a folder")
            .flatten()
            .next()
            .expect("a record")
            .path();
        let name = path.file_name().expect("a name").to_string_lossy();
        let mut bytes = std::fs::read(&path).expect("a record");
        bytes[40] ^= 1;
        std::fs::write(&path, bytes).expect("written");
        assert!(Record::read(&folder, &name).is_none() && !path.exists());
        assert_eq!(
            probe(OsStr::new("cc"), Some(&folder)).identity,
            first.identity
        );
    }

    #[test]
    fn missing_and_unknown_programs() {
        for command in ["/no/such/compiler", "no-such-compiler-at-all", "true"] {
            let error = probe(OsStr::new(command), None)
                .compiler
                .expect_err("no compiler");
            assert!(matches!(error.kind(), ErrorKind::NoCompiler(_)), "{error}");
        }
    }

    #[test]
    fn commands_have_quotes_and_any_bytes() {
        let of = |command: &[u8]| words(&text(command));
        let list = |words: &[&[u8]]| Some(words.iter().map(|w| text(w)).collect::<Vec<_>>());
        assert_eq!(of(b" gcc  -m64 "), list(&[b"gcc", b"-m64"]));
        assert_eq!(
            of(b"'/opt/my cc/gcc' \"-DX=a b\" a\\ b"),
            list(&[b"/opt/my cc/gcc", b"-DX=a b", b"a b"])
        );
        assert_eq!(of(b"/\xff/cc"), list(&[b"/\xff/cc"]));
        let error = probe(OsStr::new("'gcc"), None).compiler;
        let error = error.expect_err("an open quote").to_string();
        assert!(error.contains("quote"), "{error}");
    }

    #[test]
    fn a_record_keeps_bytes_and_blanks() {
        let args = [text(b"-D\xff"), text(b"a b")];
        let compiler = CCompiler {
            program: text(b"/\xfe dir/cc").into(),
            args: args.to_vec(),
            family: Family::Clang,
            version: "clang version 15".to_owned(),
            stages: None,
            direct_failed: AtomicBool::new(false),
            late: AtomicU32::new(0),
        };
        let record = Record::parse(&record_text("stamp", &compiler)).expect("whole");
        assert_eq!(record.stamp, "stamp");
        assert_eq!(record.compiler.program, compiler.program);
        assert_eq!(record.compiler.args, args);
        assert!(record.compiler.stages.is_none());
    }
}
