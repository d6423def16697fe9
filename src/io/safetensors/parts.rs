//! Tensors in several safetensors files, with an index.

use super::index;
use super::save_safetensors_with;
use crate::io::file::write_atomically;
use crate::io::json::quoted;
use crate::{Error, Result, Tensor, eval};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes tensors by name to several safetensors files of at most `most` bytes of elements each, and an index of them at
/// `path`, which ends in `.json`: the form of large models at Hugging Face. [`SafeTensors::open`](super::SafeTensors::open)
/// reads it. A tensor that is larger by itself has a file of its own.
///
/// The files lie beside the index: `model-00001-of-00002.safetensors`, .. for `model.safetensors.index.json`. They are
/// written first and the index last, under names that no file has yet (`model.1-00001-of-00002.safetensors`), so that what
/// an earlier index names stays whole until the new index is in its place. Then the earlier one's files are removed.
///
/// ```
/// use ferrotrace::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("model.safetensors.index.json");
/// let (a, b) = (Tensor::ones(100, DType::F32, &Device::cpu()), Tensor::zeros(50, DType::F32, &Device::cpu()));
/// io::save_safetensors_in_parts(&path, &[("a", &a), ("b", &b)], 400)?;
/// assert!(folder.path().join("model-00002-of-00002.safetensors").exists());
/// assert_eq!(io::load_safetensors(&path, &Device::cpu())?.len(), 2);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// As [`save_safetensors`](super::save_safetensors), and `Argument` for a path that does not end in `.json`. Then the index
/// is as it was.
pub fn save_safetensors_in_parts(
    path: impl AsRef<Path>,
    tensors: &[(&str, &Tensor)],
    most: u64,
) -> Result<()> {
    let path = path.as_ref();
    let file_name = path.file_name().and_then(|name| name.to_str());
    let Some(stem) = file_name.and_then(|name| name.strip_suffix(".json")) else {
        let why = format!("the index {} does not end in .json", path.display());
        return Err(Error::argument(why));
    };
    let stem = stem.strip_suffix(".index").unwrap_or(stem);
    let stem = stem.strip_suffix(".safetensors").unwrap_or(stem);
    let mut tensors = tensors.to_vec();
    tensors.sort_by_key(|(name, _)| *name);
    if let Some(two) = tensors.windows(2).find(|two| two[0].0 == two[1].0) {
        let why = format!("an index has no place for two tensors named {:?}", two[0].0);
        return Err(Error::argument(why));
    }
    eval(tensors.iter().map(|(_, tensor)| *tensor))?;

    let parts = parts(&tensors, most);
    let earlier = files(path);
    let names = unused_names(path, stem, parts.len());
    let mut written = Vec::new();
    let whole = parts.iter().zip(&names).try_for_each(|(part, name)| {
        let file = path.with_file_name(name);
        save_safetensors_with(&file, part, &[("format", "pt")])?;
        written.push(file);
        Ok(())
    });
    let text = text(&parts, &names);
    let write = |file: &mut dyn Write| {
        let written = file.write_all(text.as_bytes());
        written.map_err(|error| Error::io(path, &error))
    };
    let whole = whole.and_then(|()| write_atomically(path, |file| write(file)));
    // What no index names is of no use; that it cannot be removed does no harm.
    let useless = if whole.is_ok() { &earlier } else { &written };
    for file in useless {
        let _ = std::fs::remove_file(file);
    }
    whole
}

type Part<'a> = Vec<(&'a str, &'a Tensor)>;

/// The tensors one after another, as many to a part as fit; at least one part.
fn parts<'a>(tensors: &[(&'a str, &'a Tensor)], most: u64) -> Vec<Part<'a>> {
    let (mut parts, mut room): (Vec<Part<'_>>, u64) = (vec![Vec::new()], most);
    for &(name, tensor) in tensors {
        let bytes = bytes(tensor);
        if bytes > room && parts.last().is_some_and(|part| !part.is_empty()) {
            parts.push(Vec::new());
            room = most;
        }
        room = room.saturating_sub(bytes);
        if let Some(part) = parts.last_mut() {
            part.push((name, tensor));
        }
    }
    parts
}

fn bytes(tensor: &Tensor) -> u64 {
    tensor.numel() as u64 * tensor.dtype().size() as u64
}

/// The files that the index at `path` names, if there is one.
fn files(path: &Path) -> Vec<PathBuf> {
    index::read(path).map_or_else(|_| Vec::new(), |files| files.into_keys().collect())
}

/// Names of so many files beside `path`, none of which is there.
fn unused_names(path: &Path, stem: &str, count: usize) -> Vec<String> {
    let names = |stem: &str| -> Vec<String> {
        let name = |part| format!("{stem}-{part:05}-of-{count:05}.safetensors");
        (1..=count).map(name).collect()
    };
    let is_free = |names: &Vec<String>| {
        let mut names = names.iter();
        names.all(|name| !path.with_file_name(name).exists())
    };
    let first = names(stem);
    if is_free(&first) {
        return first;
    }
    let mut others = (1u64..).map(|turn| names(&format!("{stem}.{turn}")));
    others.find(is_free).unwrap_or(first)
}

/// The index's text.
fn text(parts: &[Part<'_>], names: &[String]) -> String {
    let total: u64 = parts.iter().flatten().map(|(_, t)| bytes(t)).sum();
    let mut places = Vec::new();
    for (part, file) in parts.iter().zip(names) {
        let place = |(name, _): &(&str, &Tensor)| format!("{}:{}", quoted(name), quoted(file));
        places.extend(part.iter().map(place));
    }
    let places = places.join(",");
    format!("{{\"metadata\":{{\"total_size\":{total}}},\"weight_map\":{{{places}}}}}\n")
}
