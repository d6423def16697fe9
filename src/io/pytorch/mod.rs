//! What `torch.save` writes: state dictionaries of tensors, in ZIP archives (PyTorch 1.6 and later) or as a row of
//! pickles (before).

mod legacy;
mod machine;
mod reader;
mod storages;
mod tree;
mod value;
mod zipped;

pub use tree::PtTree;

use super::archive::Archive;
use super::file::{broken, open};
use super::tensor_map::TensorMap;
use crate::{Device, Error, Result};
use ferrotrace_runtime::FileMap;
use std::io::{BufReader, Cursor, Read, Seek};
use std::path::Path;

/// Most bytes of a pickle in a file of so many, which holds names and sizes: elements are beside it, and PyTorch compresses
/// neither.
fn longest_pickle(file: u64) -> usize {
    usize::try_from(file).unwrap_or(usize::MAX).min(1 << 26)
}

/// Reads the tensors of a file that `torch.save` wrote: a `state_dict()` (`.pt`, `.pth`, `.bin`), or a dictionary of
/// such. Names of nested dictionaries and lists are joined by dots; what is no tensor is left out. Nothing in the file
/// is executed.
///
/// Both formats of PyTorch are read, with pickles of protocols 0 to 5, strides, tensors that share a storage (which they
/// share here too; two names of one tensor are one tensor) and parameters.
///
/// # Errors
/// `Io`: the file cannot be read, is truncated or damaged, or is none of PyTorch's; it asks for a class or function
/// other than those that make tensors and plain dictionaries, which the error names (a whole module that was saved
/// instead of its state dictionary does); a storage is of a dtype that no tensor has; or two tensors get one name.
///
/// ```
/// use ferrotrace::prelude::*;
/// assert!(io::load_pt("no such file", &Device::cpu()).is_err());
/// ```
pub fn load_pt(path: impl AsRef<Path>, device: &Device) -> Result<TensorMap> {
    let path = path.as_ref();
    let tree = load_pt_tree(path, device)?;
    tree.flatten().map_err(|message| broken(path, message))
}

/// As [`load_pt`], as it was saved: dictionaries in dictionaries, with numbers and texts.
///
/// ```
/// use ferrotrace::prelude::*;
/// # fn f() -> Result<()> {
/// let checkpoint = io::load_pt_tree("checkpoint.pt", &Device::cpu())?;
/// let epoch = checkpoint.get("epoch").and_then(|epoch| epoch.as_integer());
/// let model = checkpoint.get("model").map(|model| model.flatten());
/// # Ok(()) }
/// ```
///
/// # Errors
/// As [`load_pt`], but for names.
pub fn load_pt_tree(path: impl AsRef<Path>, device: &Device) -> Result<PtTree> {
    let path = path.as_ref();
    let (mut file, len) = open(path)?;
    let mut start = [0; 4];
    let failed = |error| Error::io(path, &error);
    let begins = file.read_exact(&mut start).is_ok();
    file.rewind().map_err(failed)?;
    match &start {
        b"PK\x03\x04" if begins => zipped::load(path, len, device),
        _ => legacy::load(path, &mut BufReader::new(file), len, device),
    }
}

/// Reads what `torch.save` wrote in its ZIP format, from bytes. Where they lie in a mapped file, `map` says which and
/// from where on: tensors are views of the map then.
pub(super) fn read_zipped(
    path: &Path,
    bytes: &[u8],
    map: Option<(&FileMap, usize)>,
    device: &Device,
) -> Result<PtTree> {
    let len = bytes.len() as u64;
    let archive = Archive::of(path, Cursor::new(bytes), len)?;
    zipped::read(archive, path, len, map, device)
}
