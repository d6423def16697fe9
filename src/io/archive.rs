//! ZIP archives that nobody vouches for.

use super::file::{broken, open};
use crate::{Error, Result};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

/// An archive, opened.
pub(super) struct Archive {
    path: PathBuf,
    zip: ZipArchive<BufReader<File>>,
}

/// The most bytes that a deflated byte can stand for.
const MOST_INFLATED: u64 = 1032;

impl Archive {
    /// Reads the directory of an archive.
    ///
    /// Its entries must not share bytes of the file (by their sizes), nor claim more than deflating can give: what it
    /// takes to read all of them is bounded by the file's length.
    pub fn open(path: &Path) -> Result<Archive> {
        let (file, len) = open(path)?;
        let failed = |error| refused(path, error);
        let mut zip = ZipArchive::new(BufReader::new(file)).map_err(failed)?;
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

    /// The names of the entries, folders apart, in the order of the archive.
    pub fn names(&self) -> Vec<String> {
        let all = self.zip.file_names().filter(|name| !name.ends_with('/'));
        all.map(str::to_owned).collect()
    }

    /// Reads an entry by a function, which is given the stream and how many bytes are there for certain, and checks that
    /// it read all, and the checksum.
    pub fn read<R>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut dyn Read, u64) -> Result<R>,
    ) -> Result<R> {
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
