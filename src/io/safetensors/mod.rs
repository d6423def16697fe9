//! Files of tensors by name in the format of Hugging Face's `safetensors`: a header in JSON, then the elements.

mod header;
mod index;
mod open;
mod parts;

pub use open::SafeTensors;
pub use parts::save_safetensors_in_parts;

use super::file::write_atomically;
use super::tensor_map::TensorMap;
use crate::{Device, Error, Result, Tensor, eval};
use header::METADATA;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

/// Writes tensors by name as one safetensors file. The same tensors make the same bytes, in whichever order they are
/// given.
///
/// ```
/// use ferrotrace::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("x.safetensors");
/// let w = Tensor::ones([2, 3], DType::F16, &Device::cpu());
/// io::save_safetensors(&path, &[("w", &w)])?;
/// assert_eq!(io::load_safetensors(&path, &Device::cpu())?["w"].dims(), [2, 3]);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// What a tensor carries, or what computing it meets; `Argument` for two tensors of one name; `Io` where the file cannot
/// be written. Then there is no file, or the one that was there before.
pub fn save_safetensors(path: impl AsRef<Path>, tensors: &[(&str, &Tensor)]) -> Result<()> {
    save_safetensors_with(path, tensors, &[])
}

/// As [`save_safetensors`], with texts by name, which [`SafeTensors::metadata`] gives back. Python's `transformers` takes
/// files that say `("format", "pt")`.
///
/// ```
/// use ferrotrace::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("x.safetensors");
/// let w = Tensor::ones([2, 3], DType::F16, &Device::cpu());
/// io::save_safetensors_with(&path, &[("w", &w)], &[("format", "pt")])?;
/// assert_eq!(io::SafeTensors::open(&path)?.metadata()["format"], "pt");
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// As [`save_safetensors`]; `Argument` for two texts of one name.
pub fn save_safetensors_with(
    path: impl AsRef<Path>,
    tensors: &[(&str, &Tensor)],
    metadata: &[(&str, &str)],
) -> Result<()> {
    let path = path.as_ref();
    let tensors = in_order(tensors, metadata)?;
    write_atomically(path, |file| {
        let mut write = |bytes: &[u8]| file.write_all(bytes).map_err(|e| Error::io(path, &e));
        write_all(&tensors, metadata, &mut write)
    })
}

/// The tensors in the order in which a file holds them, computed.
///
/// # Errors
/// As [`save_safetensors_with`].
pub(super) fn in_order<'a>(
    tensors: &[(&'a str, &'a Tensor)],
    metadata: &[(&str, &str)],
) -> Result<Vec<(&'a str, &'a Tensor)>> {
    let mut names = BTreeSet::from([METADATA]);
    if let Some((name, _)) = tensors.iter().find(|(name, _)| !names.insert(name)) {
        return Err(Error::argument(format!(
            "a file has no place for two tensors, or texts and a tensor, named {name:?}"
        )));
    }
    let texts: BTreeMap<&str, &str> = metadata.iter().copied().collect();
    if texts.len() < metadata.len() {
        return Err(Error::argument("two texts have one name"));
    }
    eval(tensors.iter().map(|(_, tensor)| *tensor))?;
    let mut tensors = tensors.to_vec();
    // The widest elements first, so that each tensor begins at a multiple of its element's size.
    tensors.sort_by_key(|(name, tensor)| (std::cmp::Reverse(tensor.dtype().size()), *name));
    Ok(tensors)
}

/// Writes the bytes of a file of tensors that are [in order](in_order).
///
/// # Errors
/// What `write` answers.
pub(super) fn write_all(
    tensors: &[(&str, &Tensor)],
    metadata: &[(&str, &str)],
    write: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    write(&header::write(tensors, &metadata.iter().copied().collect()))?;
    tensors
        .iter()
        .try_for_each(|(_, tensor)| write(&tensor.to_bytes()?))
}

/// Reads every tensor of a safetensors file, or of several with an index: see [`SafeTensors::open`], which reads some.
///
/// On the CPU the tensors are views of the mapped file and read when first used: see [`SafeTensors`].
///
/// # Errors
/// As [`SafeTensors::open`] and [`SafeTensors::tensor`].
///
/// ```
/// use ferrotrace::prelude::*;
/// assert!(io::load_safetensors("no such file", &Device::cpu()).is_err());
/// ```
pub fn load_safetensors(path: impl AsRef<Path>, device: &Device) -> Result<TensorMap> {
    SafeTensors::open(path)?.load(device)
}
