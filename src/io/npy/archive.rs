//! Archives of NumPy's arrays (`.npz`): ZIP archives with an entry `name.npy` for each.

use super::{read, write};
use crate::io::archive::Archive;
use crate::io::file::{broken, write_atomically};
use crate::io::tensor_map::TensorMap;
use crate::{Device, Error, Result, Tensor, eval};
use std::collections::BTreeSet;
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// What the name of an entry ends in.
const SUFFIX: &str = ".npy";

/// Writes tensors by name as an archive that `numpy.load` reads, uncompressed, as `numpy.savez` does. Of `BF16`
/// [`save_npy`](super::save_npy) tells.
///
/// ```
/// use ferrotrace::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("x.npz");
/// let x = Tensor::arange(0, 3, 1, DType::F32, &Device::cpu());
/// io::save_npz(&path, &[("x", &x), ("twice", &(&x * 2.0))])?;
/// assert_eq!(io::load_npz(&path, &Device::cpu())?["twice"].to_vec::<f32>()?, [0.0, 2.0, 4.0]);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// As [`save_npy`](super::save_npy); `Argument` for two tensors of one name.
pub fn save_npz(path: impl AsRef<Path>, tensors: &[(&str, &Tensor)]) -> Result<()> {
    save(path.as_ref(), tensors, CompressionMethod::Stored)
}

/// As [`save_npz`], compressed, as `numpy.savez_compressed` does.
///
/// ```
/// # use ferrotrace::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("x.npz");
/// let x = Tensor::zeros([100, 100], DType::F32, &Device::cpu());
/// io::save_npz_compressed(&path, &[("x", &x)])?;
/// assert!(std::fs::metadata(&path).unwrap().len() < 1000);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// As [`save_npz`].
pub fn save_npz_compressed(path: impl AsRef<Path>, tensors: &[(&str, &Tensor)]) -> Result<()> {
    save(path.as_ref(), tensors, CompressionMethod::Deflated)
}

fn save(path: &Path, tensors: &[(&str, &Tensor)], method: CompressionMethod) -> Result<()> {
    let mut names = BTreeSet::new();
    if let Some((name, _)) = tensors.iter().find(|(name, _)| !names.insert(name)) {
        return Err(Error::argument(format!("two tensors are named {name:?}")));
    }
    eval(tensors.iter().map(|(_, tensor)| *tensor))?;
    let failed = |error: zip::result::ZipError| broken(path, error.to_string());
    write_atomically(path, |file| {
        let mut archive = ZipWriter::new(file);
        for (name, tensor) in tensors {
            let bytes = tensor.numel() * tensor.dtype().size();
            let options = SimpleFileOptions::default()
                .compression_method(method)
                .large_file(bytes >= 1 << 31);
            let entry = format!("{name}{SUFFIX}");
            archive.start_file(entry, options).map_err(failed)?;
            write(&mut archive, tensor)?.map_err(|error| Error::io(path, &error))?;
        }
        archive.finish().map(drop).map_err(failed)
    })
}

/// Reads the arrays of an archive that NumPy wrote, compressed or not.
///
/// # Errors
/// `Io`: the file cannot be read, is no archive, is truncated or damaged (checksums are compared), or has an entry that
/// [`load_npy`](super::load_npy) refuses.
///
/// ```
/// use ferrotrace::prelude::*;
/// assert!(io::load_npz("no such file", &Device::cpu()).is_err());
/// ```
pub fn load_npz(path: impl AsRef<Path>, device: &Device) -> Result<TensorMap> {
    load_npz_in_order(path, device).map(TensorMap::from_iter)
}

/// As [`load_npz`], in the order of the archive, which is that of the arguments of `numpy.savez`.
///
/// ```
/// use ferrotrace::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("x.npz");
/// let x = Tensor::ones(3, DType::F32, &Device::cpu());
/// io::save_npz(&path, &[("b", &x), ("a", &x)])?;
/// let names: Vec<String> = io::load_npz_in_order(&path, &Device::cpu())?.into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["b", "a"]);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// As [`load_npz`].
pub fn load_npz_in_order(path: impl AsRef<Path>, device: &Device) -> Result<Vec<(String, Tensor)>> {
    let path = path.as_ref();
    let mut archive = Archive::open(path)?;
    let mut tensors = Vec::new();
    for entry in archive.names() {
        let Some(name) = entry.strip_suffix(SUFFIX) else {
            return Err(broken(
                path,
                format!("has an entry {entry:?}, which is no array"),
            ));
        };
        let tensor = archive.read(&entry, |stream, known| {
            read(path, stream, known, device).map_err(|error| of_entry(path, &entry, error))
        })?;
        tensors.push((name.to_owned(), tensor));
    }
    Ok(tensors)
}

/// The error, with the entry that it was met in.
fn of_entry(path: &Path, entry: &str, error: Error) -> Error {
    match error.kind() {
        crate::ErrorKind::Io { message, .. } => broken(path, format!("entry {entry:?}: {message}")),
        _ => error,
    }
}
