//! Advisory locks of keys among the processes that share a folder, so that each kernel is compiled by one of them.
//!
//! A key is a byte of one file, locked for as long as its kernel is in the making. The system releases what a process
//! held when it ends. Where there are no such locks, a kernel may be compiled more than once, which costs time alone.

use crate::store::folder::Folder;
use std::fs::File;

/// The locks that one call holds.
#[derive(Debug)]
pub(crate) struct Locks(Option<File>);

impl Locks {
    /// Locks of the file of this name in a folder: none where the file cannot be made.
    #[cfg(target_os = "linux")]
    pub(crate) fn of(folder: &Folder, name: &str) -> Locks {
        Locks(folder.lock_file(name))
    }

    /// No locks: this system has no locks that belong to an open file.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn of(_: &Folder, _: &str) -> Locks {
        Locks(None)
    }

    /// Whether others can be held off at all.
    pub(crate) fn are_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Takes a key's lock; `false` while another holds it.
    pub(crate) fn take(&self, key: u128) -> bool {
        let Some(file) = &self.0 else { return true };
        match set(file, key, true) {
            Ok(()) => true,
            // A file system that cannot lock is no reason to wait.
            Err(e) => !matches!(e.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)),
        }
    }

    /// Gives a key's lock back, if it is held.
    pub(crate) fn release(&self, key: u128) {
        if let Some(file) = &self.0 {
            let _ = set(file, key, false);
        }
    }
}

/// The key's byte: positions in a file have 63 bits.
fn position(key: u128) -> i64 {
    (key >> 66) as i64
}

#[cfg(target_os = "linux")]
fn set(file: &File, key: u128, lock: bool) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    let kind = if lock { libc::F_WRLCK } else { libc::F_UNLCK };
    // SAFETY: the structure is of integers alone, for which zero is a value.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = kind as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    range.l_start = position(key) as libc::off_t;
    range.l_len = 1;
    // SAFETY: the descriptor is open, and the structure lives through the call, which only reads it.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn set(_: &File, key: u128, _: bool) -> std::io::Result<()> {
    let _ = position(key);
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::store::folder::Sharing;

    #[test]
    fn a_key_has_one_holder_and_others_are_free() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(dir.path(), Sharing::Private).expect("opened");
        let locks = || Locks::of(&folder, "lock");
        let (a, b) = (locks(), locks());
        let (one, other) = (u128::MAX, u128::MAX - (1 << 66));
        assert!(a.are_kept() && a.take(one) && a.take(one));
        assert!(!b.take(one) && b.take(other));
        b.release(one);
        assert!(!b.take(one) && !a.take(other));
        a.release(one);
        assert!(b.take(one));
        drop(b);
        assert!(a.take(one) && a.take(other));
        let none = Locks(None);
        assert!(none.take(one) && !none.are_kept());
    }
}
