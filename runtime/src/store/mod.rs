//! The artifact store: compiled kernels on disk, shared by the processes of one user.
//!
//! One file an artifact: the ELF image, the keys of its kernels by symbol position, and a trailer with magic, format
//! version, lengths and checksum. The name of a kernel's key is a symbolic link to the artifact that holds it; an
//! artifact whose trailer does not name the key is not loaded. Files are written under a temporary name and renamed, so
//! a reader sees a whole one or none; what is damaged, cut or of another format is deleted and counts as missing. Since
//! it holds code, only trusted files of a trusted folder count (`folder.rs`, `docs/security.md`). A folder that cannot
//! be written serves as far as it goes.

pub(crate) mod digest;
pub(crate) mod folder;
pub(crate) mod locks;
pub mod notes;
pub(crate) mod workdir;

use crate::error::warn;
use crate::{Config, Error, Result};
use folder::{Content, Folder, Sharing, TEMPORARY};
use locks::Locks;
use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use rustix::fs::FileType;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const MAGIC: [u8; 8] = *b"FTKERNEL";
/// The version of the file format and of the conventions between kernels and this crate. Part of every kernel's key.
pub(crate) const FORMAT: u32 = 1;
/// Magic, version, number of keys, length of the ELF image, checksum of all before it.
const TRAILER: usize = 8 + 4 + 4 + 8 + 16;
/// Bytes of artifacts kept.
const LIMIT: u64 = 1 << 30;
/// A temporary file this old is left over from a process that died.
const STALE: Duration = Duration::from_secs(3600);
/// How exactly an artifact's time of use is kept.
const USE_RESOLUTION: Duration = Duration::from_secs(60);

/// Compiled kernels: a shared object, and the keys of its kernels by symbol position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Artifact {
    pub(crate) keys: Vec<u128>,
    pub(crate) elf: Vec<u8>,
}

impl Artifact {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
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
    pub(crate) fn from_bytes(mut bytes: Vec<u8>) -> Option<Artifact> {
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

/// What names of the store's files start with: artifacts, links of keys, notes, locks.
const ARTIFACT: &str = "a-";
const LINK: &str = "k-";
const NOTE: &str = "n-";
const LOCK: &str = "lock";
/// The folder of sources that did not compile, and what their names start with.
const FAILED: &str = "failed";
const FAILURE: &str = "failed-";
/// Failures kept in a folder, besides which older ones are deleted.
const FAILURES_KEPT: usize = 128;

/// A checksum of 128 bits (XXH3), which guards against accidents, not against adversaries.
///
/// ```
/// use ferrotrace_runtime::Checksum;
/// let mut pieces = Checksum::default();
/// pieces.update(b"ab");
/// pieces.update(b"c");
/// assert_eq!(pieces.finish(), Checksum::of(b"abc"));
/// ```
#[derive(Default)]
pub struct Checksum(digest::Stream);

impl Checksum {
    /// The checksum of some bytes.
    pub fn of(bytes: &[u8]) -> u128 {
        digest::of(bytes)
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes that were taken.
    pub fn finish(&self) -> u128 {
        self.0.digest128()
    }
}

impl std::fmt::Debug for Checksum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Checksum({})", digest::hex(self.finish()))
    }
}

/// A folder of artifacts.
#[derive(Debug)]
pub(crate) struct Store {
    root: Folder,
    dir: Folder,
    limit: u64,
    /// Bytes of artifacts when last counted, and what this process added since; `None` before the first count.
    used: Mutex<Option<u64>>,
    /// Whether it was told that something could not be kept, and that something is not trusted.
    warned: [AtomicBool; 2],
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
                .map_err(|why| warn(&why))
                .ok()
        };
        GLOBAL.get_or_init(open).as_ref()
    }

    /// The store in the folder `root`, made if need be, keeping up to `limit` bytes.
    ///
    /// # Errors
    /// The reason, as a warning, why the folder cannot hold code.
    pub(crate) fn at(root: &Path, limit: u64) -> Result<Store, String> {
        let open = || {
            let root = Folder::open(root, Sharing::Private)?;
            let dir = root.folder(&format!("kernels-{FORMAT}"))?;
            Ok((root, dir))
        };
        let (root, dir) =
            open().map_err(|why: String| format!("no kernels are kept on disk: {why}"))?;
        Ok(Store {
            root,
            dir,
            limit,
            used: Mutex::new(None),
            warned: Default::default(),
        })
    }

    /// The folder the store was opened in, where other things may be kept beside the artifacts.
    pub(crate) fn root(&self) -> &Folder {
        &self.root
    }

    /// The artifact that holds the kernel of this key.
    pub(crate) fn load(&self, key: u128) -> Option<Artifact> {
        let link = link(key);
        let target = self.dir.read_link(&link)?;
        let name = Path::new(&target).file_name()?;
        let content = self.trusted(self.dir.read(name));
        let artifact = content.and_then(|content| {
            used_now(&content);
            Artifact::from_bytes(content.bytes)
        });
        if artifact.is_none() {
            self.dir.remove(name);
        }
        let artifact = artifact.filter(|artifact| artifact.keys.contains(&key));
        if artifact.is_none() {
            self.dir.remove(&link);
        }
        artifact
    }

    /// Locks of keys whose kernels are in the making, by this call or another process.
    pub(crate) fn locks(&self) -> Locks {
        Locks::of(&self.dir, LOCK)
    }

    /// A file that was read. One that is not trusted is told of once, and counts as missing.
    fn trusted(&self, read: Result<Option<Content>, String>) -> Option<Content> {
        read.unwrap_or_else(|why| {
            if !self.warned[1].swap(true, Relaxed) {
                warn(&format!("not loaded: {why}"));
            }
            None
        })
    }

    /// Deletes the artifact that holds the kernel of this key, which turned out to be unusable.
    pub(crate) fn discard(&self, key: u128) {
        let link = link(key);
        if let Some(target) = self.dir.read_link(&link)
            && let Some(name) = Path::new(&target).file_name()
        {
            self.dir.remove(name);
        }
        self.dir.remove(link);
    }

    /// Keeps an artifact. A failure is warned of once, and the program goes on without.
    pub(crate) fn save(&self, artifact: &Artifact) {
        let result = self.try_save(artifact);
        if let Err(e) = result
            && !self.warned[0].swap(true, Relaxed)
        {
            warn(&format!(
                "a kernel could not be kept in {}: {e}",
                self.dir.path().display()
            ));
        }
    }

    /// The text kept under a key. One that is damaged is deleted, and counts as missing.
    pub(crate) fn read_note(&self, key: u128) -> Option<String> {
        let name = note(key);
        let bytes = self.trusted(self.dir.read(&name))?.bytes;
        let text = bytes.split_last_chunk::<16>().and_then(|(text, checksum)| {
            let whole = digest::of(text).to_le_bytes() == *checksum;
            String::from_utf8(text.to_vec()).ok().filter(|_| whole)
        });
        if text.is_none() {
            self.dir.remove(&name);
        }
        text
    }

    /// Keeps a text under a key. A text that cannot be written is computed again later.
    pub(crate) fn write_note(&self, key: u128, text: &str) {
        let mut bytes = text.as_bytes().to_vec();
        bytes.extend_from_slice(&digest::of(text.as_bytes()).to_le_bytes());
        self.make_room(bytes.len() as u64);
        let _ = self.dir.write(&note(key), &bytes);
    }

    fn try_save(&self, artifact: &Artifact) -> io::Result<()> {
        let bytes = artifact.to_bytes();
        self.make_room(bytes.len() as u64);
        let name = artifact.name();
        self.dir.write(&name, &bytes)?;
        let mut keys = artifact.keys.iter();
        keys.try_for_each(|&key| self.dir.write_link(&link(key), &name))
    }

    /// Where sources that did not compile are kept.
    pub(crate) fn failures(&self) -> Option<Folder> {
        self.root.folder(FAILED).ok()
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
        for entry in self.dir.entries() {
            let name = entry.name.to_string_lossy();
            if name.starts_with(ARTIFACT) || name.starts_with(NOTE) {
                artifacts.push((entry.modified, entry.bytes, entry.name));
            } else if name.starts_with(TEMPORARY)
                && entry.modified.elapsed().is_ok_and(|age| age > STALE)
            {
                self.dir.remove(&entry.name);
            }
        }
        let mut total: u64 = artifacts.iter().map(|(_, bytes, _)| bytes).sum();
        if total + more > self.limit {
            artifacts.sort();
            for (_, bytes, name) in artifacts {
                if total + more <= self.limit / 4 * 3 {
                    break;
                }
                if self.dir.try_remove(name).is_ok() {
                    total -= bytes;
                }
            }
            self.remove_dangling_links();
        }
        *used = Some(total + more);
    }

    fn remove_dangling_links(&self) {
        for entry in self.dir.entries() {
            if entry.kind == FileType::Symlink && !self.dir.has(&entry.name) {
                self.dir.remove(&entry.name);
            }
        }
    }

    /// Deletes what this library keeps in the folder, and nothing else.
    ///
    /// # Errors
    /// `Io` for the first file that could not be deleted.
    pub(crate) fn clear(&self) -> Result<()> {
        let failed = self.root.has(FAILED).then(|| self.failures()).flatten();
        let folders: [(Option<&Folder>, &[&str]); 3] = [
            (Some(&self.dir), &[ARTIFACT, LINK, NOTE, LOCK, TEMPORARY]),
            (Some(&self.root), &[RECORD, TEMPORARY]),
            (failed.as_ref(), &[FAILURE, TEMPORARY]),
        ];
        for (folder, prefixes) in folders {
            let Some(folder) = folder else { continue };
            for entry in folder.entries() {
                let name = entry.name.to_string_lossy();
                if !prefixes.iter().any(|prefix| name.starts_with(prefix)) {
                    continue;
                }
                let path = || folder.path().join(&entry.name);
                let removed = folder.try_remove(&entry.name);
                removed.map_err(|e| Error::io(path(), &e))?;
            }
        }
        *self.used.lock() = Some(0);
        Ok(())
    }
}

/// What names of the compiler's records, which lie in the root, start with.
pub(crate) const RECORD: &str = "probe-";

fn link(key: u128) -> String {
    format!("{LINK}{}", digest::hex(key))
}

fn note(key: u128) -> String {
    format!("{NOTE}{}", digest::hex(key))
}

fn used_now(content: &Content) {
    if let Ok(age) = content.modified.elapsed()
        && age > USE_RESOLUTION
    {
        content.touch();
    }
}

/// Keeps a source that did not compile and what was said of it, under names made of `name`; their paths.
pub(crate) fn keep_failure(
    folder: &Folder,
    name: &str,
    source: &str,
    log: &str,
) -> io::Result<[std::path::PathBuf; 2]> {
    let mut old: Vec<_> = folder.entries();
    old.retain(|entry| entry.name.to_string_lossy().starts_with(FAILURE));
    old.sort_by_key(|entry| std::cmp::Reverse(entry.modified));
    for entry in old.iter().skip(FAILURES_KEPT) {
        folder.remove(&entry.name);
    }
    let names = ["c", "log"].map(|suffix| format!("{FAILURE}{name}.{suffix}"));
    folder.write(&names[0], source.as_bytes())?;
    folder.write(&names[1], log.as_bytes())?;
    Ok(names.map(|name| folder.path().join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::PathBuf;
    use std::time::SystemTime;

    fn artifact(first: u128, kernels: u128, bytes: usize) -> Artifact {
        Artifact {
            keys: (first..first + kernels).collect(),
            elf: (0..bytes).map(|i| (i * 7 + first as usize) as u8).collect(),
        }
    }

    fn files(store: &Store) -> Vec<PathBuf> {
        fs::read_dir(store.dir.path())
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
        let path = store.dir.path().join(note(7));
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
        symlink(artifact(1, 1, 10).name(), store.dir.path().join(link(9))).expect("linked");
        assert_eq!(store.load(9), None);
        assert!(store.load(1).is_some());
    }

    #[test]
    fn unfit_folders_are_refused() {
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
            age(&store.dir.path().join(kept.name()), 1000 - key as u64);
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
