//! Private folders for the files of one task.

use crate::error::warn;
use crate::store::folder::{Content, Folder, Sharing};
use crate::{Config, Error, Result};
use rustix::fs::FileType;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

/// A folder of the temporary directory that only its owner may enter, deleted with what is in it.
#[derive(Debug)]
pub(crate) struct WorkDir(Folder);

const PREFIX: &str = "ferrotrace-work-";
/// A folder this old is left over from a process that died.
const STALE: Duration = Duration::from_secs(3600);

/// The first folder for temporary files that nobody else can replace entries of: the temporary directory, one that
/// systems have, or that of compiled kernels.
///
/// # Errors
/// Why the temporary directory cannot be used.
pub(crate) fn base() -> io::Result<Folder> {
    static TOLD: Once = Once::new();
    let why = match Folder::open(&std::env::temp_dir(), Sharing::Sticky) {
        Ok(folder) => return Ok(folder),
        Err(why) => why,
    };
    let usual = ["/tmp", "/var/tmp"].map(PathBuf::from);
    let config = Config::get();
    let cache = config.disk_cache.then(|| config.cache_dir.clone());
    let found = usual.into_iter().chain(cache).find_map(|path| {
        let folder = Folder::open(&path, Sharing::Sticky).ok()?;
        Some(folder)
    });
    let Some(folder) = found else {
        return Err(io::Error::other(why));
    };
    TOLD.call_once(|| {
        let shown = folder.path().display();
        warn(&format!("temporary files go to {shown}: {why}"));
    });
    Ok(folder)
}

impl WorkDir {
    /// A new, empty folder. The first of a process also deletes those that dead processes of this user left.
    ///
    /// # Errors
    /// `Io` where no folder for temporary files can be used.
    pub(crate) fn new() -> Result<WorkDir> {
        static SWEEP: Once = Once::new();
        let failed = |e: &io::Error| Error::io(std::env::temp_dir(), e);
        let base = base().map_err(|e| failed(&e))?;
        SWEEP.call_once(|| sweep(&base, STALE));
        let folder = base.new_folder(PREFIX).map_err(|e| failed(&e))?;
        Ok(WorkDir(folder))
    }

    /// The path of a file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// A new file in it, to be written and read.
    pub(crate) fn create(&self, name: &str) -> io::Result<fs::File> {
        self.0.create(name)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// What a program left in a file of it.
    ///
    /// # Errors
    /// Why it could not be read, or that there is none.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>, String> {
        let content = self.0.read(name)?.map(|content: Content| content.bytes);
        content.ok_or_else(|| format!("{} was not written", self.file(name).display()))
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.path());
    }
}

fn sweep(base: &Folder, stale: Duration) {
    let user = rustix::process::geteuid().as_raw();
    for entry in base.entries_named(PREFIX) {
        let age = entry.modified.elapsed();
        let old = age.is_ok_and(|age| age > stale);
        if entry.kind == FileType::Directory && entry.owner == user && old {
            let _ = fs::remove_dir_all(base.path().join(entry.name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn folders_are_private_and_go_with_their_files() {
        let dir = WorkDir::new().expect("a folder");
        let mode = fs::metadata(dir.path()).expect("there").mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::write(dir.file("x"), "x").expect("written");
        assert_eq!(dir.read("x").as_deref(), Ok(&b"x"[..]));
        assert!(dir.read("y").is_err_and(|why| why.contains("not written")));
        let path = dir.path().to_owned();
        drop(dir);
        assert!(!path.exists());
    }

    #[test]
    fn only_stale_folders_of_ours_are_swept() {
        let base = tempfile::tempdir().expect("a folder");
        for name in ["ferrotrace-work-1-1", "other"] {
            fs::create_dir(base.path().join(name)).expect("made");
        }
        let folder = Folder::open(base.path(), Sharing::Private).expect("opened");
        sweep(&folder, STALE);
        assert_eq!(fs::read_dir(base.path()).expect("there").count(), 2);
        std::thread::sleep(Duration::from_millis(2));
        sweep(&folder, Duration::ZERO);
        assert!(base.path().join("other").exists());
        assert!(!base.path().join("ferrotrace-work-1-1").exists());
    }
}
