//! Folders that code may be loaded from: opened once, checked down from the root, and used through the descriptor that
//! was checked.
//!
//! A file is trusted if it and every folder above it belong to root or to this user, and nobody else may write them.
//! Where a folder above has the sticky bit, as `/tmp` has, others may make entries but not replace those of others, so
//! it will do: the entries that lead on belong to root or to this user themselves.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

/// What a folder that is only walked through is opened for: its name in the system, where there is such a thing.
#[cfg(target_os = "linux")]
const WALK: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const WALK: OFlags = OFlags::RDONLY;
/// Symbolic links followed in a path.
const LINKS: usize = 40;
/// Bytes of a file that is read.
const LONGEST: u64 = 1 << 30;

/// Who else may write a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Nobody.
    Private,
    /// Others, if they may not replace what is not theirs: the sticky bit.
    Sticky,
}

/// A folder, held open.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

/// A file's bytes, and when it was last written.
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
    pub(crate) modified: SystemTime,
    file: File,
}

/// An entry of a folder.
pub(crate) struct Entry {
    pub(crate) name: OsString,
    pub(crate) kind: FileType,
    pub(crate) bytes: u64,
    pub(crate) modified: SystemTime,
    pub(crate) owner: u32,
}

/// Why a file or folder is not used: its path and what is wrong.
fn refusal(path: &Path, why: impl std::fmt::Display) -> String {
    format!("{} {why}", path.display())
}

fn unusable(why: impl std::fmt::Display) -> String {
    format!("cannot be used: {why}")
}

/// What is wrong with the owner or the permissions, if anything is.
fn distrust(stat: &Stat, sharing: Sharing) -> Option<&'static str> {
    let (owner, mode) = (stat.st_uid, Mode::from_raw_mode(stat.st_mode));
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Some("belongs to another user");
    }
    let sticky = sharing == Sharing::Sticky && mode.contains(Mode::SVTX);
    let open = mode.intersects(Mode::WGRP | Mode::WOTH) && !sticky;
    open.then_some("may be written by others (chmod go-w)")
}

fn modified(stat: &Stat) -> SystemTime {
    let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds)
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// A path's components, the last first.
fn reversed(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|c| match c {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    names.collect()
}

impl Folder {
    /// The folder of this path. A private one is made if it is missing, with what is missing above it.
    ///
    /// # Errors
    /// The path that is not trusted, missing or not to be made, and why.
    pub(crate) fn open(path: &Path, sharing: Sharing) -> Result<Folder, String> {
        let absolute = std::path::absolute(path).map_err(|e| refusal(path, unusable(e)))?;
        let mut at = PathBuf::from("/");
        let mut fd = fs::openat(CWD, "/", WALK | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| refusal(&at, unusable(e)))?;
        let (mut names, mut links) = (reversed(&absolute), 0);
        let make = sharing == Sharing::Private;
        loop {
            let last = names.is_empty();
            let rule = if last { sharing } else { Sharing::Sticky };
            let stat = fs::fstat(&fd).map_err(|e| refusal(&at, unusable(e)))?;
            if let Some(why) = distrust(&stat, rule) {
                return Err(refusal(&at, why));
            }
            let Some(name) = names.pop() else { break };
            at.push(&name);
            match enter(&fd, &name, WALK, make) {
                Ok(next) => fd = next,
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    let target = link(&fd, &name).map_err(|why| refusal(&at, why))?;
                    links += 1;
                    if links > LINKS {
                        return Err(refusal(&at, unusable(Errno::LOOP)));
                    }
                    at.pop();
                    if target.is_absolute() {
                        at = PathBuf::from("/");
                        fd = fs::openat(CWD, "/", WALK | OFlags::CLOEXEC, Mode::empty())
                            .map_err(|e| refusal(&at, unusable(e)))?;
                    }
                    names.extend(reversed(&target));
                }
                Err(e) => return Err(refusal(&at, unusable(e))),
            }
        }
        let path = absolute;
        let fd = enter(&fd, OsStr::new("."), OFlags::RDONLY, false);
        let fd = fd.map_err(|e| refusal(&path, unusable(e)))?;
        Ok(Folder { fd, path })
    }

    /// The folder of this path, made if it is missing, whoever owns it or may write it: nothing is read from it.
    pub(crate) fn named(path: &Path) -> io::Result<Folder> {
        std::fs::create_dir_all(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = fs::openat(CWD, path, flags, Mode::empty())?;
        let path = path.to_owned();
        Ok(Folder { fd, path })
    }

    /// The folder of this name in it, made if it is missing.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn folder(&self, name: &str) -> Result<Folder, String> {
        let path = self.path.join(name);
        let fd = enter(&self.fd, OsStr::new(name), OFlags::RDONLY, true);
        let fd = fd.map_err(|e| refusal(&path, unusable(e)))?;
        let stat = fs::fstat(&fd).map_err(|e| refusal(&path, unusable(e)))?;
        match distrust(&stat, Sharing::Private) {
            Some(why) => Err(refusal(&path, why)),
            None => Ok(Folder { fd, path }),
        }
    }

    /// A folder in it that is new, whose name starts so.
    pub(crate) fn new_folder(&self, prefix: &str) -> io::Result<Folder> {
        for _ in 0..100 {
            let name = unique(prefix);
            match fs::mkdirat(&self.fd, &name, Mode::RWXU) {
                Ok(()) => return self.folder(&name).map_err(io::Error::other),
                Err(Errno::EXIST) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// The path it was opened by.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What the symbolic link of this name says; whose it is does not matter, since what it leads to is checked.
    pub(crate) fn read_link(&self, name: &str) -> Option<OsString> {
        let target = fs::readlinkat(&self.fd, name, Vec::new()).ok()?;
        Some(OsString::from_vec(target.into_bytes()))
    }

    /// A trusted file's content; `None` if there is none of this name. What is no regular file is not opened.
    ///
    /// # Errors
    /// Why it is not trusted or could not be read.
    pub(crate) fn read(&self, name: impl AsRef<OsStr>) -> Result<Option<Content>, String> {
        let name = name.as_ref();
        let wrong = |why: &dyn std::fmt::Display| Err(refusal(&self.path.join(name), why));
        match fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return wrong(&unusable(e)),
            Ok(stat) if kind(&stat) != FileType::RegularFile => return wrong(&"is no file"),
            Ok(_) => {}
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = match fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return wrong(&unusable(e)),
        };
        let stat = match fs::fstat(&file) {
            Ok(stat) => stat,
            Err(e) => return wrong(&unusable(e)),
        };
        if kind(&stat) != FileType::RegularFile {
            return wrong(&"is no file");
        }
        if let Some(why) = distrust(&stat, Sharing::Private) {
            return wrong(&why);
        }
        let length = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if length > LONGEST {
            return wrong(&"is too long");
        }
        let mut bytes = Vec::with_capacity(length as usize + 1);
        if let Err(e) = (&mut file).take(LONGEST).read_to_end(&mut bytes) {
            return wrong(&unusable(e));
        }
        let modified = modified(&stat);
        Ok(Some(Content {
            bytes,
            modified,
            file,
        }))
    }

    /// Writes a file, readable by its owner alone, that others see whole or not at all. What had the name, a symbolic
    /// link too, is replaced.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (mut file, temporary) = self.new_file()?;
        let written = file.write_all(bytes);
        let renamed = written.and_then(|()| {
            let renamed = fs::renameat(&self.fd, &temporary, &self.fd, name);
            renamed.map_err(io::Error::from)
        });
        renamed.inspect_err(|_| self.remove(&temporary))
    }

    /// Makes or replaces a symbolic link.
    pub(crate) fn write_link(&self, name: &str, target: &str) -> io::Result<()> {
        for _ in 0..100 {
            let temporary = unique(TEMPORARY);
            match fs::symlinkat(target, &self.fd, &temporary) {
                Ok(()) => {
                    let renamed = fs::renameat(&self.fd, &temporary, &self.fd, name);
                    return Ok(renamed.inspect_err(|_| self.remove(&temporary))?);
                }
                Err(Errno::EXIST) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Err(Errno::EXIST.into())
    }

    fn new_file(&self) -> io::Result<(File, String)> {
        for _ in 0..100 {
            let name = unique(TEMPORARY);
            match self.create(&name) {
                Ok(file) => return Ok((file, name)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// A file of this name, which nothing has yet, to be written and read by its owner alone.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(File::from(fd))
    }

    /// A file of this name to be locked, made if it is missing; `None` where it cannot be.
    #[cfg(target_os = "linux")]
    pub(crate) fn lock_file(&self, name: &str) -> Option<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR).ok()?;
        let stat = fs::fstat(&file).ok()?;
        let fit =
            kind(&stat) == FileType::RegularFile && distrust(&stat, Sharing::Private).is_none();
        let mut file = fit.then(|| File::from(file))?;
        if stat.st_size == 0 {
            let _ = file.write_all(b"Bytes of this file are locked while kernels are compiled.\n");
        }
        Some(file)
    }

    /// Deletes a file or link, if it is there and may be deleted.
    pub(crate) fn remove(&self, name: impl AsRef<OsStr>) {
        let _ = self.try_remove(name);
    }

    /// Deletes a file or link, if it is there.
    pub(crate) fn try_remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        match fs::unlinkat(&self.fd, name.as_ref(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Whether there is something of this name, behind links.
    pub(crate) fn has(&self, name: impl AsRef<OsStr>) -> bool {
        fs::statat(&self.fd, name.as_ref(), AtFlags::empty()).is_ok()
    }

    /// What lies in it, as far as that can be seen.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries_named("")
    }

    /// What lies in it and has a name that starts so.
    pub(crate) fn entries_named(&self, prefix: &str) -> Vec<Entry> {
        let entries = fs::Dir::read_from(&self.fd).into_iter().flatten().flatten();
        let entry = |found: fs::DirEntry| {
            let bytes = found.file_name().to_bytes();
            if matches!(bytes, b"." | b"..") || !bytes.starts_with(prefix.as_bytes()) {
                return None;
            }
            let stat = fs::statat(&self.fd, found.file_name(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some(Entry {
                name: OsStr::from_bytes(bytes).to_owned(),
                kind: kind(&stat),
                bytes: u64::try_from(stat.st_size).unwrap_or(0),
                modified: modified(&stat),
                owner: stat.st_uid,
            })
        };
        entries.filter_map(entry).collect()
    }
}

impl Content {
    /// Notes that the file was used now, where this user may.
    pub(crate) fn touch(&self) {
        let _ = self.file.set_modified(SystemTime::now());
    }
}

/// What names of files in the making start with.
pub(crate) const TEMPORARY: &str = "tmp-";

/// A name that starts so and that nobody else uses, nor can tell beforehand.
fn unique(prefix: &str) -> String {
    static TOKEN: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (id, n) = (std::process::id(), NEXT.fetch_add(1, Relaxed));
    format!("{prefix}{:016x}-{id}-{n}", *TOKEN)
}

/// Opens the folder of this name, itself and not what a link leads to; perhaps makes one that is missing.
fn enter(fd: impl AsFd, name: &OsStr, flags: OFlags, make: bool) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || fs::openat(&fd, name, flags, Mode::empty());
    let opened = open();
    if !make || opened.as_ref().err() != Some(&Errno::NOENT) {
        return opened;
    }
    match fs::mkdirat(&fd, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => open(),
        Err(e) => Err(e),
    }
}

/// Where a symbolic link of root or of this user leads.
fn link(fd: &OwnedFd, name: &OsStr) -> Result<PathBuf, String> {
    let text = |e: Errno| e.to_string();
    let stat = fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW).map_err(text)?;
    if kind(&stat) != FileType::Symlink {
        return Err("is no folder".to_owned());
    }
    if stat.st_uid != 0 && stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err("is a link of another user".to_owned());
    }
    let target = fs::readlinkat(fd, name, Vec::new()).map_err(text)?;
    Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    fn private(path: &Path) -> Result<Folder, String> {
        Folder::open(path, Sharing::Private)
    }

    #[test]
    fn paths_of_all_kinds_lead_to_one_folder() {
        let dir = tempfile::tempdir().expect("a folder");
        let at = |name: &str| dir.path().join(name);
        let made = private(&at("a/b")).expect("made");
        made.write("x", b"here").expect("written");
        for made in ["a", "a/b"] {
            let mode = std::fs::metadata(at(made)).expect("there").mode();
            assert_eq!(mode & 0o777, 0o700);
        }
        symlink("b", at("a/to")).expect("linked");
        symlink(at("a"), at("absolute")).expect("linked");
        symlink("absolute/to", at("both")).expect("linked");
        symlink("round", at("round")).expect("linked");
        for name in [
            "a/b",
            "a/./b/",
            "a/b/../b",
            "a/to",
            "absolute/b",
            "both",
            "both/../to",
        ] {
            let folder = private(&at(name)).expect(name);
            let found = folder.read("x").expect("trusted").expect("there");
            assert_eq!(found.bytes, b"here", "{name}");
        }
        assert!(private(&at("round")).is_err_and(|why| why.contains("os error 40")));
        assert!(private(&at("a/b/x")).is_err_and(|why| why.contains("is no folder")));
        assert!(private(&at("a/b/x/y")).is_err());
    }

    #[test]
    fn a_shared_folder_is_not_made_and_must_be_sticky() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("tmp");
        let open = || Folder::open(&path, Sharing::Sticky);
        assert!(open().is_err() && !path.exists());
        std::fs::create_dir(&path).expect("made");
        let allow = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode));
        for (mode, fits) in [
            (0o755, true),
            (0o1777, true),
            (0o777, false),
            (0o775, false),
        ] {
            allow(mode).expect("allowed");
            assert_eq!(open().is_ok(), fits, "{mode:o}");
            assert_eq!(private(&path).is_ok(), mode == 0o755, "{mode:o}");
            // What is private may lie below, where nobody can take its place.
            assert_eq!(private(&path.join("own")).is_ok(), fits, "{mode:o}");
        }
    }

    #[test]
    fn names_are_new_and_files_are_whole() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = private(dir.path()).expect("opened");
        let inner = folder.new_folder("in-").expect("made");
        let other = folder.new_folder("in-").expect("made");
        assert_ne!(inner.path(), other.path());
        assert!(inner.create("x").is_ok() && inner.create("x").is_err());
        folder.write_link("link", "x").expect("linked");
        folder.write_link("link", "y").expect("linked again");
        assert_eq!(folder.read_link("link"), Some("y".into()));
        assert!(folder.read("link").is_err() && !folder.has("link"));
        folder.write("link", b"a file now").expect("replaced");
        let found = folder.read("link").expect("trusted").expect("there");
        assert_eq!(found.bytes, b"a file now");
        let mut names: Vec<_> = folder
            .entries_named("li")
            .into_iter()
            .map(|e| e.name)
            .collect();
        names.extend(folder.entries_named(TEMPORARY).into_iter().map(|e| e.name));
        assert_eq!(names, ["link"]);
        assert!(folder.read("nothing").is_ok_and(|found| found.is_none()));
    }
}
