//! Private folders for the files of one task.

use crate::{Error, Result};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A folder of the temporary directory that only its owner may enter, deleted with what is in it.
#[derive(Debug)]
pub(crate) struct WorkDir(PathBuf);

const PREFIX: &str = "ferrotrace-work-";
/// A folder this old is left over from a process that died.
const STALE: Duration = Duration::from_secs(3600);

impl WorkDir {
    /// A new, empty folder. The first of a process also deletes those that dead processes of this user left.
    ///
    /// # Errors
    /// `Io` where the temporary directory cannot be written.
    pub(crate) fn new() -> Result<WorkDir> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        static SWEEP: Once = Once::new();
        let base = std::env::temp_dir();
        SWEEP.call_once(|| sweep(&base, STALE));
        for _ in 0..1000 {
            let n = NEXT.fetch_add(1, Relaxed);
            let dir = base.join(format!("{PREFIX}{}-{n}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&dir) {
                Ok(()) => return Ok(WorkDir(dir)),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(Error::io(dir, &e)),
            }
        }
        Err(Error::io(
            base,
            &io::Error::other("no free name for a work folder"),
        ))
    }

    /// The path of a file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn sweep(base: &Path, stale: Duration) {
    // SAFETY: geteuid has no preconditions and cannot fail.
    let user = unsafe { libc::geteuid() };
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        let age = metadata.modified().ok().and_then(|at| at.elapsed().ok());
        if metadata.is_dir() && metadata.uid() == user && age.is_some_and(|age| age > stale) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_private_and_go_with_their_files() {
        let dir = WorkDir::new().expect("a folder");
        assert_eq!(fs::metadata(&dir.0).expect("there").mode() & 0o777, 0o700);
        fs::write(dir.file("x"), "x").expect("written");
        let path = dir.0.clone();
        drop(dir);
        assert!(!path.exists());
    }

    #[test]
    fn only_stale_folders_of_ours_are_swept() {
        let base = tempfile::tempdir().expect("a folder");
        for name in ["ferrotrace-work-1-1", "other"] {
            fs::create_dir(base.path().join(name)).expect("made");
        }
        sweep(base.path(), STALE);
        assert_eq!(fs::read_dir(base.path()).expect("there").count(), 2);
        std::thread::sleep(Duration::from_millis(2));
        sweep(base.path(), Duration::ZERO);
        assert!(base.path().join("other").exists());
        assert!(!base.path().join("ferrotrace-work-1-1").exists());
    }
}
