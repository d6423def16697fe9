//! The artifact store: compiled kernels on disk, shared by the processes of one user.
//!
//! One file an artifact: the ELF image, the keys of its kernels by symbol position, and a trailer with magic, format
//! version, lengths and checksum. The name of a kernel's key is a symbolic link to the artifact that holds it. Files
//! are written under a temporary name and renamed, so a reader sees a whole one or none; what is damaged, cut or of
//! another format is deleted and counts as missing. Since it holds code, the store is used only in a folder that its
//! user owns and nobody else may write.

use crate::{Config, Error, Result, digest, host};
use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

const MAGIC: [u8; 8] = *b"FTKERNEL";
/// The version of the file format and of the conventions between kernels and this crate. Part of every kernel's key.
pub(crate) const FORMAT: u32 = 1;
/// Magic, version, number of keys, length of the ELF image, checksum of all before it.
const TRAILER: usize = 8 + 4 + 4 + 8 + 16;
/// Bytes of artifacts kept.
const LIMIT: u64 = 1 << 30;
/// A temporary file this old is left over from a process that died.
const STALE: Duration = Duration::from_secs(3600);
/// An artifact's time of use is noted this exactly.
const USE_RESOLUTION: Duration = Duration::from_secs(60);

/// Compiled kernels: a shared object, and the keys of its kernels by symbol position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Artifact {
    pub(crate) keys: Vec<u128>,
    pub(crate) elf: Vec<u8>,
}

impl Artifact {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.elf.len() + 16 * self.keys.len() + TRAILER);
        bytes.extend_from_slice(&self.elf);
        self.keys
            .iter()
            .for_each(|key| bytes.extend_from_slice(&key.to_le_bytes()));
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&(self.keys.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(self.elf.len() as u64).to_le_bytes());
        let checksum = digest::of(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The artifact of a file's bytes, `None` if they are not exactly one of this format.
    fn from_bytes(mut bytes: Vec<u8>) -> Option<Artifact> {
        let (body, checksum) = bytes.split_last_chunk::<16>()?;
        if digest::of(body).to_le_bytes() != *checksum {
            return None;
        }
        let (rest, elf_len) = body.split_last_chunk::<8>()?;
        let (rest, count) = rest.split_last_chunk::<4>()?;
        let (rest, format) = rest.split_last_chunk::<4>()?;
        let (rest, magic) = rest.split_last_chunk::<8>()?;
        if *magic != MAGIC || *format != FORMAT.to_le_bytes() {
            return None;
        }
        let elf_len = usize::try_from(u64::from_le_bytes(*elf_len)).ok()?;
        let keys = rest.get(elf_len..)?;
        let (chunks, []) = keys.as_chunks::<16>() else {
            return None;
        };
        if chunks.len() != u32::from_le_bytes(*count) as usize {
            return None;
        }
        let keys = chunks.iter().map(|key| u128::from_le_bytes(*key)).collect();
        bytes.truncate(elf_len);
        Some(Artifact { keys, elf: bytes })
    }

    /// The file's name: of what it holds, not of how it came to hold it.
    fn name(&self) -> String {
        let mut fields = digest::Fields::default();
        self.keys
            .iter()
            .for_each(|key| fields.add(&key.to_le_bytes()));
        format!("a-{}.ftk", digest::hex(fields.finish()))
    }
}

/// A folder of artifacts.
#[derive(Debug)]
pub(crate) struct Store {
    root: PathBuf,
    dir: PathBuf,
    limit: u64,
    /// Bytes of artifacts when last counted, and what this process added since; `None` before the first count.
    used: Mutex<Option<u64>>,
    warned: AtomicBool,
}

static GLOBAL: OnceCell<Option<Store>> = OnceCell::new();

impl Store {
    /// The store of this process's settings; `None` where it is switched off or its folder will not do.
    pub(crate) fn global() -> Option<&'static Store> {
        let open = || {
            let config = Config::get();
            // Unit tests of this crate keep out of the user's folder.
            if !config.disk_cache || cfg!(test) {
                return None;
            }
            Store::at(&config.cache_dir, LIMIT)
                .map_err(|why| host::warn(&why))
                .ok()
        };
        GLOBAL.get_or_init(open).as_ref()
    }

    /// The store in the folder `root`, made if need be, keeping up to `limit` bytes.
    ///
    /// # Errors
    /// The reason, as a warning, why the folder cannot hold code.
    pub(crate) fn at(root: &Path, limit: u64) -> Result<Store, String> {
        let dir = root.join(format!("kernels-{FORMAT}"));
        let refuse = |path: &Path, why: &str| {
            Err(format!(
                "no kernels are kept on disk: {} {why}",
                path.display()
            ))
        };
        for path in [root, &dir] {
            if let Err(e) = DirBuilder::new().recursive(true).mode(0o700).create(path) {
                return refuse(path, &format!("cannot be made: {e}"));
            }
            let metadata = match fs::metadata(path) {
                Ok(metadata) => metadata,
                Err(e) => return refuse(path, &e.to_string()),
            };
            // SAFETY: geteuid has no preconditions and cannot fail.
            if metadata.uid() != unsafe { libc::geteuid() } {
                return refuse(path, "belongs to another user");
            }
            if metadata.mode() & 0o022 != 0 {
                return refuse(path, "may be written by others (chmod go-w)");
            }
            if !writable(path) {
                return refuse(path, "may not be written");
            }
        }
        let (used, warned) = (Mutex::new(None), AtomicBool::new(false));
        Ok(Store {
            root: root.to_owned(),
            dir,
            limit,
            used,
            warned,
        })
    }

    /// The folder the store was opened in, where other things may be kept beside the artifacts.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    fn link(&self, key: u128) -> PathBuf {
        self.dir.join(format!("k-{}", digest::hex(key)))
    }

    /// The artifact that holds the kernel of this key.
    pub(crate) fn load(&self, key: u128) -> Option<Artifact> {
        let link = self.link(key);
        let target = fs::read_link(&link).ok()?;
        let path = self.dir.join(target.file_name()?);
        let artifact = self.read(&path);
        if artifact.is_none() {
            let _ = fs::remove_file(&path);
        }
        let artifact = artifact.filter(|artifact| artifact.keys.contains(&key));
        if artifact.is_none() {
            let _ = fs::remove_file(&link);
        }
        artifact
    }

    fn read(&self, path: &Path) -> Option<Artifact> {
        let mut file = File::open(path).ok()?;
        let metadata = file.metadata().ok()?;
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).ok()?);
        file.read_to_end(&mut bytes).ok()?;
        let artifact = Artifact::from_bytes(bytes)?;
        if let Ok(Ok(age)) = metadata.modified().map(|at| at.elapsed())
            && age > USE_RESOLUTION
        {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(artifact)
    }

    /// Deletes the artifact that holds the kernel of this key, which turned out to be unusable.
    pub(crate) fn discard(&self, key: u128) {
        let link = self.link(key);
        if let Ok(target) = fs::read_link(&link)
            && let Some(name) = target.file_name()
        {
            let _ = fs::remove_file(self.dir.join(name));
        }
        let _ = fs::remove_file(link);
    }

    /// Keeps an artifact. A failure is warned of once, and the program goes on without.
    pub(crate) fn save(&self, artifact: &Artifact) {
        let result = self.try_save(artifact);
        if let Err(e) = result
            && !self.warned.swap(true, Relaxed)
        {
            host::warn(&format!(
                "a kernel could not be kept in {}: {e}",
                self.dir.display()
            ));
        }
    }

    fn note(&self, key: u128) -> PathBuf {
        self.dir.join(format!("n-{}", digest::hex(key)))
    }

    /// The text kept under a key. One that is damaged is deleted, and counts as missing.
    pub(crate) fn read_note(&self, key: u128) -> Option<String> {
        let path = self.note(key);
        let bytes = fs::read(&path).ok()?;
        let text = bytes.split_last_chunk::<16>().and_then(|(text, checksum)| {
            let whole = digest::of(text).to_le_bytes() == *checksum;
            String::from_utf8(text.to_vec()).ok().filter(|_| whole)
        });
        if text.is_none() {
            let _ = fs::remove_file(&path);
        }
        text
    }

    /// Keeps a text under a key. One that cannot be kept is found out again.
    pub(crate) fn write_note(&self, key: u128, text: &str) {
        let mut bytes = text.as_bytes().to_vec();
        bytes.extend_from_slice(&digest::of(text.as_bytes()).to_le_bytes());
        self.make_room(bytes.len() as u64);
        let _ = write_atomically(&self.note(key), &bytes);
    }

    fn try_save(&self, artifact: &Artifact) -> io::Result<()> {
        let bytes = artifact.to_bytes();
        self.make_room(bytes.len() as u64);
        let name = artifact.name();
        write_atomically(&self.dir.join(&name), &bytes)?;
        for &key in &artifact.keys {
            let temporary = temporary(&self.dir);
            std::os::unix::fs::symlink(&name, &temporary)?;
            fs::rename(&temporary, self.link(key)).inspect_err(|_| {
                let _ = fs::remove_file(&temporary);
            })?;
        }
        Ok(())
    }

    /// Deletes the artifacts used longest ago, down to three quarters of the limit, if `more` bytes would exceed it.
    fn make_room(&self, more: u64) {
        let mut used = self.used.lock();
        let known = match *used {
            Some(bytes) => bytes + more,
            None => u64::MAX,
        };
        if known <= self.limit {
            *used = Some(known);
            return;
        }
        let mut artifacts = Vec::new();
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let (Ok(metadata), name) = (entry.metadata(), entry.file_name()) else {
                continue;
            };
            let at = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let name = name.to_string_lossy();
            if name.starts_with("a-") || name.starts_with("n-") {
                artifacts.push((at, metadata.len(), entry.path()));
            } else if name.starts_with("tmp-") && at.elapsed().is_ok_and(|age| age > STALE) {
                let _ = fs::remove_file(entry.path());
            }
        }
        let mut total: u64 = artifacts.iter().map(|(_, bytes, _)| bytes).sum();
        if total + more > self.limit {
            artifacts.sort();
            for (_, bytes, path) in artifacts {
                if total + more <= self.limit / 4 * 3 {
                    break;
                }
                if fs::remove_file(path).is_ok() {
                    total -= bytes;
                }
            }
            self.remove_dangling_links();
        }
        *used = Some(total + more);
    }

    fn remove_dangling_links(&self) {
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_symlink() && !path.exists() {
                let _ = fs::remove_file(path);
            }
        }
    }

    /// Deletes what this library keeps in the folder, and nothing else.
    ///
    /// # Errors
    /// `Io` for the first file that could not be deleted.
    pub(crate) fn clear(&self) -> Result<()> {
        let ours = |name: &str, prefixes: &[&str]| prefixes.iter().any(|p| name.starts_with(p));
        let folders: [(PathBuf, &[&str]); 3] = [
            (self.dir.clone(), &["a-", "k-", "n-", "tmp-"]),
            (self.root.clone(), &["probe-", "tmp-"]),
            (self.root.join("failed"), &["failed-"]),
        ];
        for (folder, prefixes) in folders {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                if !ours(&entry.file_name().to_string_lossy(), prefixes) {
                    continue;
                }
                match fs::remove_file(entry.path()) {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => {
                        return Err(Error::io(entry.path(), &e));
                    }
                    _ => {}
                }
            }
        }
        *self.used.lock() = Some(0);
        Ok(())
    }
}

fn writable(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: the pointer is to a string that ends in zero and lives through the call.
    unsafe { libc::access(path.as_ptr(), libc::R_OK | libc::W_OK | libc::X_OK) == 0 }
}

/// A name in `dir` that no other thread or process uses.
fn temporary(dir: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    dir.join(format!(
        "tmp-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Relaxed)
    ))
}

/// Writes a file, readable by its owner alone, that others see whole or not at all.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary(path.parent().unwrap_or(Path::new(".")));
    let write = || {
        // A name left over from a dead process of the same number is taken over.
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&temporary)?.write_all(bytes)?;
        fs::rename(&temporary, path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(first: u128, kernels: u128, bytes: usize) -> Artifact {
        Artifact {
            keys: (first..first + kernels).collect(),
            elf: (0..bytes).map(|i| (i * 7 + first as usize) as u8).collect(),
        }
    }

    fn files(store: &Store) -> Vec<PathBuf> {
        fs::read_dir(&store.dir)
            .expect("a folder")
            .flatten()
            .map(|e| e.path())
            .collect()
    }

    fn only_artifact(store: &Store) -> PathBuf {
        let is_artifact = |p: &PathBuf| p.extension().is_some_and(|x| x == "ftk");
        files(store)
            .into_iter()
            .find(is_artifact)
            .expect("an artifact")
    }

    #[test]
    fn notes_are_found_again_whole_or_not_at_all() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = Store::at(dir.path(), 1 << 20).expect("a store");
        assert_eq!(store.read_note(7), None);
        store.write_note(7, "a choice");
        assert_eq!(store.read_note(7).as_deref(), Some("a choice"));
        let path = store.note(7);
        let mut bytes = fs::read(&path).expect("the note");
        bytes[0] ^= 1;
        fs::write(&path, bytes).expect("written");
        assert_eq!(store.read_note(7), None);
        assert!(!path.exists());
        store.write_note(7, "another");
        store.clear().expect("cleared");
        assert_eq!(store.read_note(7), None);
    }

    #[test]
    fn every_kernel_of_an_artifact_is_found() {
        let root = tempfile::tempdir().expect("a folder");
        let store = Store::at(root.path(), LIMIT).expect("usable");
        let kept = artifact(5, 3, 1000);
        store.save(&kept);
        for key in 5..8 {
            assert_eq!(store.load(key).as_ref(), Some(&kept));
        }
        assert_eq!(store.load(8), None);
        let again = Store::at(root.path(), LIMIT).expect("usable");
        assert_eq!(again.load(6).as_ref(), Some(&kept));
        again.clear().expect("cleared");
        assert!(store.load(6).is_none() && files(&store).is_empty());
    }

    #[test]
    fn damage_is_a_miss_and_is_deleted() {
        let root = tempfile::tempdir().expect("a folder");
        let store = Store::at(root.path(), LIMIT).expect("usable");
        let whole = artifact(1, 2, 300).to_bytes();
        let mut versions: Vec<Vec<u8>> = (0..whole.len())
            .step_by(13)
            .map(|n| whole[..n].to_vec())
            .collect();
        for at in (0..whole.len()).step_by(11) {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x40;
            versions.push(flipped);
        }
        let mut longer = whole.clone();
        longer.push(0);
        versions.push(longer);
        // Another format version, with a right checksum.
        let mut foreign = whole[..whole.len() - 16].to_vec();
        let version_at = foreign.len() - 16;
        foreign[version_at] += 1;
        let checksum = digest::of(&foreign);
        foreign.extend_from_slice(&checksum.to_le_bytes());
        versions.push(foreign);
        for bytes in versions {
            store.save(&artifact(1, 2, 300));
            let path = only_artifact(&store);
            fs::write(&path, &bytes).expect("written");
            assert_eq!(store.load(1), None);
            assert!(!path.exists());
        }
        store.save(&artifact(1, 2, 300));
        assert!(store.load(2).is_some());
    }

    #[test]
    fn a_link_to_an_artifact_without_the_kernel_is_a_miss() {
        let root = tempfile::tempdir().expect("a folder");
        let store = Store::at(root.path(), LIMIT).expect("usable");
        store.save(&artifact(1, 1, 10));
        std::os::unix::fs::symlink(artifact(1, 1, 10).name(), store.link(9)).expect("linked");
        assert_eq!(store.load(9), None);
        assert!(store.load(1).is_some());
    }

    #[test]
    fn unfit_folders_are_refused() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().expect("a folder");
        let file = root.path().join("file");
        fs::write(&file, "").expect("written");
        assert!(Store::at(&file, LIMIT).is_err());
        assert!(Store::at(&file.join("below"), LIMIT).is_err());
        let shared = root.path().join("shared");
        fs::create_dir(&shared).expect("made");
        fs::set_permissions(&shared, PermissionsExt::from_mode(0o777)).expect("allowed");
        let why = Store::at(&shared, LIMIT).expect_err("others may write it");
        assert!(why.contains("others"), "{why}");
        let foreign = root.path().join("foreign");
        fs::create_dir(&foreign).expect("made");
        if std::os::unix::fs::chown(&foreign, Some(65534), None).is_ok() {
            let why = Store::at(&foreign, LIMIT).expect_err("another's");
            assert!(why.contains("another user"), "{why}");
        }
        let fresh = root.path().join("a/b");
        let store = Store::at(&fresh, LIMIT).expect("usable");
        let mode = fs::metadata(&fresh).expect("made").mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::remove_dir_all(&fresh).expect("removed");
        store.save(&artifact(1, 1, 10));
        assert_eq!(store.load(1), None);
    }

    #[test]
    fn the_oldest_go_first() {
        let root = tempfile::tempdir().expect("a folder");
        let store = Store::at(root.path(), 10_000).expect("usable");
        let age = |path: &Path, seconds| {
            let at = SystemTime::now() - Duration::from_secs(seconds);
            File::options()
                .write(true)
                .open(path)
                .and_then(|f| f.set_modified(at))
                .expect("aged");
        };
        for key in 0..8u128 {
            let kept = artifact(key, 1, 1000);
            store.save(&kept);
            age(&store.dir.join(kept.name()), 1000 - key as u64);
        }
        assert!(store.load(0).is_some(), "and used now");
        store.save(&artifact(100, 1, 3000));
        assert!(store.load(0).is_some() && store.load(100).is_some() && store.load(7).is_some());
        assert!(store.load(1).is_none() && store.load(2).is_none());
        let dangling = files(&store).into_iter().filter(|p| !p.exists()).count();
        assert_eq!(dangling, 0);
    }

    #[test]
    fn threads_race_on_one_folder() {
        let root = tempfile::tempdir().expect("a folder");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let store = Store::at(root.path(), 50_000).expect("usable");
                    for round in 0..60u128 {
                        let kept = artifact(round % 7 * 10, 1 + round % 3, 2000);
                        store.save(&kept);
                        for key in [0, 10, 20, 61] {
                            if let Some(found) = store.load(key) {
                                let first = found.keys[0];
                                assert_eq!(found, artifact(first, found.keys.len() as u128, 2000));
                            }
                        }
                    }
                });
            }
        });
        let left = files(&Store::at(root.path(), 50_000).expect("usable"));
        assert!(left.iter().all(|p| {
            !p.file_name()
                .expect("a name")
                .to_string_lossy()
                .starts_with("tmp-")
        }));
    }
}
