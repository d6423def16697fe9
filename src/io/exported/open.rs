//! Archives in the three layouts that PyTorch has written: the program's text, and its tensors by name.

use super::call::Value;
use super::schema::{self, Meta};
use crate::io::archive::Archive;
use crate::io::file::{broken, shape_of};
use crate::io::json::Tree;
use crate::io::pytorch;
use crate::io::pytorch::PtTree;
use crate::{DType, Device, Error, Result, Tensor};
use ferrotrace_runtime::FileMap;
use std::collections::HashMap;
use std::io::Cursor;
use std::path::Path;

/// A file, opened.
struct Files<'a> {
    path: &'a Path,
    map: &'a FileMap,
    archive: Archive<Cursor<&'a [u8]>>,
    names: Vec<String>,
}

/// Where a program lies in an archive.
enum Layout {
    /// PyTorch 2.6 and 2.7: everything at the top.
    Flat,
    /// Later: in folders, below the archive's own.
    Folders { root: String, model: String },
}

/// Reads a file: the text of its program, and its tensors by name, which stay mapped.
pub(super) fn open(path: &Path) -> Result<(String, HashMap<String, Value>)> {
    let map = FileMap::open(path)?;
    let bytes = map.bytes()?;
    is_archive(bytes).map_err(|message| broken(path, message))?;
    let archive = Archive::of(path, Cursor::new(bytes), bytes.len() as u64)?;
    archive.check_count(count(bytes))?;
    let names = archive.names();
    if let Some(name) = names.iter().find(|name| leaves(name)) {
        return Err(broken(
            path,
            format!("has an entry {name:?}, which leaves the archive"),
        ));
    }
    let mut files = Files {
        path,
        map: &map,
        archive,
        names,
    };
    let layout = files.layout()?;
    let text = match &layout {
        Layout::Flat => "serialized_exported_program.json".to_owned(),
        Layout::Folders { root, model } => format!("{root}models/{model}.json"),
    };
    let text = String::from_utf8(files.archive.read_all(&text)?);
    let text = text.map_err(|_| broken(path, "has a program that is not UTF-8"))?;
    let mut tensors = HashMap::new();
    match &layout {
        Layout::Flat => {
            files.pickled("serialized_constants.pt", &mut tensors)?;
            files.pickled("serialized_state_dict.pt", &mut tensors)?;
        }
        Layout::Folders { root, model } => {
            for folder in ["constants", "weights"] {
                let folder_path = format!("{root}data/{folder}/");
                files.pickled(&format!("{folder_path}{model}.pt"), &mut tensors)?;
                let config = format!("{folder_path}{model}_{folder}_config.json");
                if files.names.contains(&config) {
                    files.raw(&folder_path, &config, &mut tensors)?;
                }
            }
        }
    }
    Ok((text, tensors))
}

/// Whether a name leads out of the folder that it is taken in.
fn leaves(name: &str) -> bool {
    name.starts_with('/') || name.contains('\\') || name.split('/').any(|part| part == "..")
}

/// The number of entries that an archive's end claims, where it fits there.
fn count(bytes: &[u8]) -> Option<usize> {
    let end = bytes.len().checked_sub(22)?;
    let start = end.saturating_sub(1 << 16);
    let at = (start..=end)
        .rev()
        .find(|&at| bytes[at..].starts_with(b"PK\x05\x06"))?;
    let count = u16::from_le_bytes([bytes[at + 10], bytes[at + 11]]);
    (count != u16::MAX).then_some(count.into())
}

/// Whether a file is a ZIP archive by its first bytes.
fn is_archive(bytes: &[u8]) -> Result<(), String> {
    match bytes.starts_with(b"PK\x03\x04") {
        true => Ok(()),
        false => Err("is no archive of torch.export.save: it begins otherwise".to_owned()),
    }
}

impl Files<'_> {
    fn layout(&self) -> Result<Layout> {
        let has = |name: &str| self.names.iter().any(|other| other == name);
        if has("serialized_exported_program.json") {
            return Ok(Layout::Flat);
        }
        let mut found = Vec::new();
        for name in &self.names {
            let Some((folder, file)) = name.rsplit_once('/') else {
                continue;
            };
            if let (Some(root), Some(model)) =
                (folder.strip_suffix("models"), file.strip_suffix(".json"))
                && (root.is_empty() || root.ends_with('/'))
            {
                found.push((root.to_owned(), model.to_owned()));
            }
        }
        let at = match found.len() {
            0 => {
                let message = "is a ZIP archive, but none of torch.export.save: it has no program";
                return Err(broken(self.path, message));
            }
            1 => 0,
            _ => found
                .iter()
                .position(|(_, model)| model == "model")
                .ok_or_else(|| {
                    let models: Vec<&str> = found.iter().map(|(_, model)| &**model).collect();
                    broken(
                        self.path,
                        format!(
                            "has several programs ({}), none of which is \"model\"",
                            models.join(", ")
                        ),
                    )
                })?,
        };
        let (root, model) = found.swap_remove(at);
        Ok(Layout::Folders { root, model })
    }

    /// What `torch.save` wrote as an entry; mapped where the entry is stored as it is.
    fn tree(&mut self, name: &str) -> Result<PtTree> {
        let said = |error: Error| broken(self.path, format!("entry {name:?}: {}", error.kind()));
        if let Some(place) = self.archive.stored(name)? {
            let bytes = self.map.bytes()?.get(place.clone());
            let bytes = bytes
                .ok_or_else(|| broken(self.path, format!("entry {name:?} lies beyond the file")))?;
            let at = Some((self.map, place.start));
            return pytorch::read_zipped(self.path, bytes, at, &Device::cpu()).map_err(said);
        }
        let bytes = self.archive.read_all(name)?;
        pytorch::read_zipped(self.path, &bytes, None, &Device::cpu()).map_err(said)
    }

    /// The tensors of a pickled dictionary, if the entry is there.
    fn pickled(&mut self, name: &str, tensors: &mut HashMap<String, Value>) -> Result<()> {
        let name = name.to_owned();
        if !self.names.contains(&name) || self.size(&name)? == 0 {
            return Ok(());
        }
        let PtTree::Dict(entries) = self.tree(&name)? else {
            return Err(broken(
                self.path,
                format!("entry {name:?} is no dictionary of tensors"),
            ));
        };
        for (key, value) in entries {
            if let PtTree::Tensor(tensor) = value {
                tensors.insert(key.to_string(), Value::Tensor(tensor));
            }
        }
        Ok(())
    }

    fn size(&mut self, name: &str) -> Result<usize> {
        Ok(self.archive.stored(name)?.map_or(1, |place| place.len()))
    }

    /// Tensors of which each has an entry of bytes, or a window on one.
    fn raw(
        &mut self,
        folder: &str,
        config: &str,
        tensors: &mut HashMap<String, Value>,
    ) -> Result<()> {
        let said =
            |path: &Path, message: String| broken(path, format!("entry {config:?} {message}"));
        let path = self.path;
        let text = String::from_utf8(self.archive.read_all(config)?);
        let text = text.map_err(|_| said(path, "is not UTF-8".to_owned()))?;
        let tree = Tree::read(&text).map_err(|message| said(path, message))?;
        let entries = tree.field("config").and_then(Tree::entries);
        for (name, entry) in entries.map_err(|message| said(path, message))? {
            let about = (|| {
                let file = entry.field("path_name")?.text()?.to_owned();
                let pickled = entry.get("use_pickle").map_or(Ok(false), Tree::bool)?;
                let meta = entry.get("tensor_meta").map(Meta::read).transpose()?;
                Ok::<_, String>((file, pickled, meta))
            })();
            let (file, pickled, meta) = about.map_err(|message| said(path, message))?;
            if leaves(&file) || file.contains('/') {
                return Err(said(
                    path,
                    format!("has a path {file:?}, which leaves the archive"),
                ));
            }
            let file = format!("{folder}{file}");
            if !self.names.contains(&file) {
                return Err(broken(
                    path,
                    format!("lacks the entry {file:?} of {name:?}"),
                ));
            }
            // An object of a program's own, which nothing here can call.
            let Some(meta) = meta else {
                continue;
            };
            let value = match pickled {
                true => match self.tree(&file)? {
                    PtTree::Tensor(tensor) => Value::Tensor(tensor),
                    _ => return Err(broken(path, format!("entry {file:?} is no tensor"))),
                },
                false => self.window(name, &file, &meta)?,
            };
            tensors.insert(name.clone(), value);
        }
        Ok(())
    }

    /// A tensor of an entry's bytes.
    fn window(&mut self, name: &str, file: &str, meta: &Meta) -> Result<Value> {
        let of = |message: String| broken(self.path, format!("{name:?} {message}"));
        let part = schema::part_of(meta.dtype);
        let dtype = part.or(schema::dtype_of(meta.dtype));
        let dtype = dtype.ok_or_else(|| {
            of(format!(
                "has PyTorch's dtype {}, which no tensor has",
                meta.dtype
            ))
        })?;
        let sizes = |sizes: &[schema::Size]| -> Option<Vec<usize>> {
            sizes
                .iter()
                .map(|size| usize::try_from(size.hint()?).ok())
                .collect()
        };
        let known = sizes(&meta.sizes).zip(sizes(&meta.strides));
        let known = known.zip(
            meta.offset
                .hint()
                .and_then(|offset| usize::try_from(offset).ok()),
        );
        let ((mut dims, mut strides), mut offset) =
            known.ok_or_else(|| of("has sizes that are none".to_owned()))?;
        if part.is_some() {
            // Pairs of parts.
            let twice = |n: &mut usize| *n = n.saturating_mul(2);
            strides.iter_mut().for_each(twice);
            twice(&mut offset);
            dims.push(2);
            strides.push(1);
        }
        let shape = shape_of(self.path, &dims, dtype)?;
        let bytes = self.elements(file, dtype)?;
        let strides: Option<Vec<isize>> = strides
            .into_iter()
            .map(|n| isize::try_from(n).ok())
            .collect();
        let strides = strides.ok_or_else(|| of("has strides beyond any memory".to_owned()))?;
        let tensor = bytes.strided(shape, &strides, offset);
        if let Some(error) = tensor.error() {
            return Err(of(format!("is no window on its entry: {}", error.kind())));
        }
        Ok(match part {
            Some(_) => Value::Complex(tensor),
            None => Value::Tensor(tensor),
        })
    }

    /// All elements of an entry.
    fn elements(&mut self, file: &str, dtype: DType) -> Result<Tensor> {
        let cpu = Device::cpu();
        let tensor = match self.archive.stored(file)? {
            Some(place) => Tensor::from_map(
                self.map,
                place.start,
                dtype,
                place.len() / dtype.size(),
                &cpu,
            ),
            None => {
                let mut bytes = self.archive.read_all(file)?;
                bytes.truncate(bytes.len() / dtype.size() * dtype.size());
                let n = bytes.len() / dtype.size();
                Tensor::from_bytes(bytes, dtype, n, &cpu)
            }
        };
        match tensor.error() {
            None => Ok(tensor),
            Some(error) => Err(broken(
                self.path,
                format!("entry {file:?}: {}", error.kind()),
            )),
        }
    }
}
