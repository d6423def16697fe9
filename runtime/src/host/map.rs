//! Files whose bytes are read where the system's file cache has them.

use crate::{Error, ErrorKind, Result};
use memmap2::Mmap;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file mapped to memory, read-only. Clones share the map; the last one, or the last [buffer](crate::Buffer::of_map)
/// of its bytes, releases it.
///
/// Pages are read from the file when first touched. A file that is renamed, replaced or deleted meanwhile stays as it
/// was. One that another program writes *in place* changes under the map; where it is cut short, touching what was cut
/// off ends the process with `SIGBUS`, as for every program that maps files. [`bytes`](FileMap::bytes) compares lengths
/// first, so that a file which was cut before the call gives an error.
#[derive(Clone)]
pub struct FileMap(Arc<Mapped>);

struct Mapped {
    map: Mmap,
    file: File,
    path: PathBuf,
}

impl FileMap {
    /// Maps the whole file.
    ///
    /// # Errors
    /// `Io`: there is no such file, it is no regular file, or it cannot be read or mapped.
    pub fn open(path: impl AsRef<Path>) -> Result<FileMap> {
        let path = path.as_ref();
        let failed = |error| Error::io(path, &error);
        // A pipe without a writer would block the call that opens it.
        if !std::fs::metadata(path).map_err(failed)?.is_file() {
            return Err(Error::io(
                path,
                &std::io::Error::other("is no regular file"),
            ));
        }
        let file = File::open(path).map_err(failed)?;
        // SAFETY: the map is read-only, and nothing relies on what its bytes are but on how many there are, which was
        // the file's length when it was mapped. Other programs are asked, above, not to write the file in place.
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        let path = path.to_owned();
        Ok(FileMap(Arc::new(Mapped { map, file, path })))
    }

    /// The file's path, as it was opened.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// How many bytes are mapped.
    pub fn len(&self) -> usize {
        self.0.map.len()
    }

    /// Whether no bytes are mapped.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes.
    ///
    /// # Errors
    /// `Io`: the file is shorter than it was when it was opened.
    pub fn bytes(&self) -> Result<&[u8]> {
        let Mapped { map, file, path } = &*self.0;
        let now = file.metadata().map_err(|e| Error::io(path, &e))?.len();
        if now < map.len() as u64 {
            let message = format!(
                "was cut from {} to {now} bytes while it was open",
                map.len()
            );
            let path = path.clone();
            return Err(Error::new(ErrorKind::Io { path, message }));
        }
        Ok(map)
    }

    /// Copies the bytes from `start` on to `to`. The file is read, not the map: pages of a map that were touched count as the
    /// process's memory.
    ///
    /// # Errors
    /// `Io`: the file ends before, or cannot be read.
    pub fn copy_to(&self, start: usize, to: &mut [u8]) -> Result<()> {
        let Mapped { file, path, .. } = &*self.0;
        let read = file.read_exact_at(to, start as u64);
        read.map_err(|error| Error::io(path, &error))
    }
}

impl fmt::Debug for FileMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileMap({} bytes of {:?})", self.len(), self.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, Device, stats_scope};
    use std::fs;

    fn map_of(bytes: &[u8]) -> (tempfile::TempDir, FileMap) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        fs::write(&path, bytes).expect("written");
        let map = FileMap::open(&path).expect("mapped");
        (folder, map)
    }

    #[test]
    fn buffers_are_windows_that_nobody_may_write() {
        let (_folder, map) = map_of(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        let (mut buffer, stats) = stats_scope(|| {
            Buffer::of_map(&map, 8..12)
                .expect("within")
                .expect("aligned")
        });
        assert_eq!((stats.live_bytes, stats.bytes_allocated), (0, 0));
        drop(map);
        assert_eq!(buffer.as_slice::<u8>(), [8, 9, 10, 11]);
        assert!(!buffer.is_unique() && buffer.handles() == 2 && buffer.get_mut::<u8>().is_none());
        let twin = buffer.twin();
        assert!(twin.same(&buffer) && !twin.is_unique());
        let copy = buffer.copy_to(1..3, &Device::cpu()).expect("memory");
        assert!(copy.is_unique() && copy.as_slice::<u8>() == [9, 10]);
    }

    #[test]
    fn windows_that_are_not_aligned_or_not_within() {
        let (_folder, map) = map_of(&[0; 32]);
        assert!(Buffer::of_map(&map, 4..8).expect("within").is_none());
        assert!(Buffer::of_map(&map, 24..33).is_err());
        let (from, to) = (16, 8);
        assert!(Buffer::of_map(&map, from..to).is_err());
        let none = Buffer::of_map(&map, 32..32).expect("within");
        assert_eq!(none.expect("aligned").bytes(), 0);
    }

    #[test]
    fn copies_are_of_the_file() {
        let (_folder, map) = map_of(&[0, 1, 2, 3, 4]);
        let mut copy = [0; 3];
        map.copy_to(1, &mut copy).expect("within");
        assert_eq!(copy, [1, 2, 3]);
        map.copy_to(5, &mut []).expect("nothing");
        for start in [3, usize::MAX] {
            assert!(map.copy_to(start, &mut copy).is_err());
        }
    }

    #[test]
    fn what_is_no_file_and_what_became_shorter() {
        assert!(FileMap::open("/nowhere/at/all").is_err());
        assert!(FileMap::open(std::env::temp_dir()).is_err());
        let (_empty, map) = map_of(&[]);
        assert!(map.is_empty() && map.bytes().is_ok_and(<[u8]>::is_empty));
        let (_folder, map) = map_of(&[7; 100]);
        assert_eq!(map.bytes().expect("whole").len(), 100);
        let file = File::options().write(true).open(map.path()).expect("open");
        file.set_len(99).expect("cut");
        let error = map.bytes().expect_err("cut").to_string();
        assert!(error.contains("from 100 to 99 bytes"), "{error}");
    }
}
