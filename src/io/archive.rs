//! ZIP archives that nobody vouches for.

use super::file::{broken, open};
use crate::{Error, Result};
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::ops::Range;
use std::path::{Path, PathBuf};
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

/// An archive, opened.
pub(super) struct Archive<R = BufReader<File>> {
    path: PathBuf,
    zip: ZipArchive<R>,
}

/// The most bytes that a deflated byte can stand for.
const MOST_INFLATED: u64 = 1032;

impl Archive {
    /// Reads the directory of an archive that is a file: see [`of`](Archive::of).
    pub fn open(path: &Path) -> Result<Archive> {
        let (file, len) = open(path)?;
        Archive::of(path, BufReader::new(file), len)
    }
}

impl<R: Read + Seek> Archive<R> {
    /// Reads the directory of an archive of `len` bytes.
    ///
    /// Its entries must not share bytes of the file (by their sizes), nor claim more than deflating can give: what it
    /// takes to read all of them is bounded by the file's length.
    pub fn of(path: &Path, from: R, len: u64) -> Result<Archive<R>> {
        let failed = |error| refused(path, error);
        let mut zip = ZipArchive::new(from).map_err(failed)?;
        let mut packed = 0u64;
        for index in 0..zip.len() {
            let entry = zip.by_index_raw(index).map_err(failed)?;
            let (size, taken) = (entry.size(), entry.compressed_size());
            packed = packed.saturating_add(taken);
            let most = match entry.compression() {
                CompressionMethod::Stored => taken,
                CompressionMethod::Deflated => taken.saturating_mul(MOST_INFLATED),
                other => {
                    let name = entry.name();
                    let message = format!("entry {name:?} is compressed by {other}");
                    return Err(broken(path, message));
                }
            };
            if size > most {
                let message = format!("entry {:?} claims {size} bytes of {taken}", entry.name());
                return Err(broken(path, message));
            }
        }
        if packed > len {
            let message = format!("has {len} bytes, of which entries take {packed}");
            return Err(broken(path, message));
        }
        let path = path.to_owned();
        Ok(Archive { path, zip })
    }

    /// Checks how many entries the archive's end claims to have: of two with one name only the last is found.
    pub fn check_count(&self, claimed: Option<usize>) -> Result<()> {
        match claimed {
            Some(claimed) if claimed != self.zip.len() => {
                let has = self.zip.len();
                let message = format!("claims {claimed} entries and has {has} of different names");
                Err(broken(&self.path, message))
            }
            _ => Ok(()),
        }
    }

    /// The names of the entries, folders apart, in the order of the archive.
    pub fn names(&self) -> Vec<String> {
        let all = self.zip.file_names().filter(|name| !name.ends_with('/'));
        all.map(str::to_owned).collect()
    }

    /// Where the bytes of an entry lie, if they are stored as they are.
    pub fn stored(&mut self, name: &str) -> Result<Option<Range<usize>>> {
        let path = &self.path;
        let entry = self.zip.by_name(name).map_err(|e| refused(path, e))?;
        if entry.compression() != CompressionMethod::Stored || entry.encrypted() {
            return Ok(None);
        }
        let start = usize::try_from(entry.data_start()).ok();
        let end = start.zip(usize::try_from(entry.size()).ok());
        let range = end.and_then(|(start, len)| Some(start..start.checked_add(len)?));
        let message = || format!("entry {name:?} lies beyond any memory");
        range.map(Some).ok_or_else(|| broken(path, message()))
    }

    /// Reads an entry by a function, which is given the stream and how many bytes are there for certain, and checks that
    /// it read all, and the checksum.
    pub fn read<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut dyn Read, u64) -> Result<T>,
    ) -> Result<T> {
        let path = &self.path;
        let mut entry = self.zip.by_name(name).map_err(|e| refused(path, e))?;
        let known = match entry.compression() {
            CompressionMethod::Stored => entry.size(),
            _ => 0,
        };
        let result = read(&mut entry, known)?;
        // The checksum is compared where the stream ends.
        let mut more = [0];
        match entry.read(&mut more) {
            Ok(0) => Ok(result),
            Ok(_) => Err(broken(path, format!("entry {name:?} is too long"))),
            Err(error) => Err(Error::io(path.clone(), &error)),
        }
    }

    /// The bytes of an entry.
    pub fn read_all(&mut self, name: &str) -> Result<Vec<u8>> {
        let path = self.path.clone();
        self.read(name, |stream, known| {
            let mut bytes = Vec::new();
            let reserved = bytes.try_reserve_exact(usize::try_from(known).unwrap_or(0));
            let read = reserved.map_err(std::io::Error::from);
            read.and_then(|()| stream.read_to_end(&mut bytes))
                .map_err(|error| Error::io(path, &error))?;
            Ok(bytes)
        })
    }
}

fn refused(path: &Path, error: ZipError) -> Error {
    match error {
        ZipError::Io(error) => Error::io(path, &error),
        other => broken(path, format!("is no whole ZIP archive: {other}")),
    }
}
