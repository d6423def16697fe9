//! Writing files at once or not at all, and what reading them shares.

use crate::{DType, Error, ErrorKind, Result, Shape};
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Dimensions that a tensor of a file may have: as many as NumPy and PyTorch allow.
const MOST_DIMS: usize = 64;

/// The error of a file that cannot be what it should be.
pub(super) fn broken(path: &Path, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Io {
        path: path.to_owned(),
        message: message.into(),
    })
}

/// A regular file, opened to be read, and its length.
pub(super) fn open(path: &Path) -> Result<(File, u64)> {
    let failed = |error| Error::io(path, &error);
    // A pipe without a writer would block the call that opens it.
    let about = fs::metadata(path).map_err(failed)?;
    if !about.is_file() {
        return Err(broken(path, "is no regular file"));
    }
    let file = File::open(path).map_err(failed)?;
    let len = file.metadata().map_err(failed)?.len();
    Ok((file, len))
}

/// The shape that a file claims for elements of a dtype.
///
/// # Errors
/// More than 64 dimensions, or more elements than memory has addresses for, sizes of 0 counted as 1.
pub(super) fn shape_of(path: &Path, dims: &[usize], dtype: DType) -> Result<Shape> {
    if dims.len() > MOST_DIMS {
        let rank = dims.len();
        return Err(broken(path, format!("has a tensor of {rank} dimensions")));
    }
    let mut bytes = dtype.size();
    for &dim in dims {
        bytes = bytes
            .checked_mul(dim.max(1))
            .filter(|&bytes| bytes <= isize::MAX as usize)
            .ok_or_else(|| {
                broken(
                    path,
                    format!("has a tensor of {dims:?}: more than any memory"),
                )
            })?;
    }
    Ok(Shape::new(dims))
}

/// Exactly `len` bytes of a stream. Memory is taken as they come, so a stream that claims more than it has costs what it
/// has; `known` says how many bytes are there for certain.
pub(super) fn read_exactly(
    stream: &mut (impl Read + ?Sized),
    len: usize,
    known: u64,
) -> std::io::Result<Vec<u8>> {
    /// Taken at the start for what may not be there.
    const FIRST: usize = 1 << 16;
    let known = usize::try_from(known).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len.min(known.max(FIRST)))?;
    let read = stream.take(len as u64).read_to_end(&mut bytes)?;
    if read < len {
        let message = format!("{len} bytes are expected where {read} are left");
        return Err(std::io::Error::new(
            std::io::ErrorKind::UnexpectedEof,
            message,
        ));
    }
    Ok(bytes)
}

/// Writes a file at once or not at all: `write` writes one beside it, of another name, which is flushed to the disk and
/// then renamed. A process killed meanwhile may leave the other file, whose name begins with a dot and ends in `.tmp`.
///
/// A symbolic link keeps leading to the file, and a file that is there keeps its permissions.
pub(super) fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut File>) -> Result<()>,
) -> Result<()> {
    let failed = |error: std::io::Error| Error::io(path, &error);
    let about = fs::metadata(path).ok();
    if about.as_ref().is_some_and(|about| !about.is_file()) {
        return Err(broken(path, "is no regular file"));
    }
    let target = match &about {
        Some(_) => fs::canonicalize(path).map_err(failed)?,
        None => path.to_owned(),
    };
    let Some(name) = target.file_name() else {
        return Err(broken(path, "names no file"));
    };
    let folder = match target.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    let mut draft = tempfile::Builder::new();
    draft.prefix(&prefix).suffix(".tmp");
    #[cfg(unix)]
    draft.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut draft = draft.tempfile_in(&folder).map_err(failed)?;
    let mut to = BufWriter::with_capacity(1 << 18, draft.as_file_mut());
    write(&mut to)?;
    to.flush().map_err(failed)?;
    drop(to);
    if let Some(about) = about {
        let kept = about.permissions();
        draft.as_file().set_permissions(kept).map_err(failed)?;
    }
    draft.as_file().sync_all().map_err(failed)?;
    draft
        .persist(&target)
        .map_err(|error| failed(error.error))?;
    // The rename itself is on the disk when the folder is.
    File::open(&folder)
        .and_then(|folder| folder.sync_all())
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_no_memory_holds() {
        let of = |dims: &[usize]| shape_of(Path::new("x"), dims, DType::F64);
        assert_eq!(of(&[2, 0, 3]).map(|s| s.numel()).ok(), Some(0));
        assert!(of(&[1; 64]).is_ok() && of(&[1; 65]).is_err());
        assert!(of(&[1 << 60]).is_err() && of(&[0, 1 << 60]).is_err());
        assert!(of(&[usize::MAX, usize::MAX]).is_err());
    }

    #[test]
    fn claims_take_no_memory() {
        let mut few: &[u8] = &[1, 2, 3];
        let error = read_exactly(&mut few, isize::MAX as usize, 3).expect_err("few");
        assert!(error.to_string().contains("where 3 are left"), "{error}");
        let mut more: &[u8] = &[1, 2, 3];
        assert_eq!(read_exactly(&mut more, 2, 3).ok(), Some(vec![1, 2]));
    }
}
