//! Safetensors files, opened: names and shapes are read, elements when asked for.

use super::header::{self, Entry};
use super::index;
use crate::io::file::{broken, shape_of};
use crate::io::tensor_map::{TensorMap, absent};
use crate::{DType, Device, Error, Result, Shape, Tensor};
use ferrotrace_runtime::FileMap;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;

/// A safetensors file, or several with an index, opened. The header is read; the elements of a tensor are when it is
/// asked for.
///
/// Files are mapped to memory. On the CPU a [tensor](SafeTensors::tensor) is a view of the map: nothing is read or copied
/// before it is used, and processes that use one file share its memory. (Booleans, whose bytes are checked, and tensors
/// that do not begin at a multiple of 8 bytes are copied.) Writing to such a tensor copies it, as for every tensor whose
/// memory others share.
///
/// While a tensor of a file lives, no program may write the file *in place*: the numbers would change, and a file cut
/// short ends the process with `SIGBUS` when the missing part is touched. To delete it, or to replace it by another under
/// its name, as [`save_safetensors`](super::save_safetensors) does, is safe. A file that is cut before a tensor is asked
/// for gives an error.
///
/// ```
/// use ferrotrace::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("model.safetensors");
/// # let w = Tensor::ones([2, 3], DType::F16, &Device::cpu());
/// # io::save_safetensors(&path, &[("a.weight", &w), ("b.weight", &w)])?;
/// let file = io::SafeTensors::open(&path)?;
/// assert_eq!(file.names().collect::<Vec<_>>(), ["a.weight", "b.weight"]);
/// assert_eq!((file.shape("a.weight")?.dims(), file.dtype("a.weight")?), (&[2, 3][..], DType::F16));
/// let weight = file.tensor("b.weight", &Device::cpu())?; // the other one is never read
/// assert_eq!(weight.dims(), [2, 3]);
/// # Ok::<(), Error>(())
/// ```
pub struct SafeTensors {
    files: Vec<FileMap>,
    places: BTreeMap<String, Place>,
    metadata: BTreeMap<String, String>,
}

/// Where a tensor lies.
struct Place {
    /// Which of the files.
    file: usize,
    /// The first byte of the file's tensors.
    base: usize,
    entry: Entry,
}

impl SafeTensors {
    /// Opens a safetensors file; or, where the path ends in `.json`, the files that an index names
    /// (`model.safetensors.index.json`), which lie beside it.
    ///
    /// # Errors
    /// `Io`: a file cannot be read or mapped, is truncated or longer than its header says, or has a header that
    /// contradicts itself; an index names a file elsewhere, or a tensor that its file has not.
    pub fn open(path: impl AsRef<Path>) -> Result<SafeTensors> {
        let path = path.as_ref();
        let mut opened = SafeTensors {
            files: Vec::new(),
            places: BTreeMap::new(),
            metadata: BTreeMap::new(),
        };
        if path.extension().is_none_or(|extension| extension != "json") {
            opened.places = opened.add(path)?;
            return Ok(opened);
        }
        let mut all = BTreeMap::new();
        for (file, names) in index::read(path)? {
            let mut part = opened.add(&file)?;
            for name in names {
                let place = part.remove(&name).ok_or_else(|| {
                    let names = part.keys().map(String::as_str);
                    broken(&file, absent("tensor", &name, names))
                })?;
                all.insert(name, place);
            }
        }
        opened.places = all;
        Ok(opened)
    }

    /// Opens one file more, and returns where its tensors lie.
    fn add(&mut self, path: &Path) -> Result<BTreeMap<String, Place>> {
        let map = FileMap::open(path)?;
        let bytes = map.bytes()?;
        let header = header::read(bytes)
            .map_err(|message| broken(path, format!("is no whole safetensors file: {message}")))?;
        let (file, base) = (self.files.len(), header.end);
        self.metadata.extend(header.metadata);
        self.files.push(map);
        let places = header.entries.into_iter();
        let place = |(name, entry)| (name, Place { file, base, entry });
        Ok(places.map(place).collect())
    }

    /// The safetensors file that a part of a mapped file is.
    pub(in crate::io) fn within(map: &FileMap, part: Range<usize>) -> Result<SafeTensors> {
        let said = |message: String| broken(map.path(), message);
        let bytes = map.bytes()?.get(part.clone());
        let bytes = bytes.ok_or_else(|| said("ends within its tensors".to_owned()))?;
        let header = header::read(bytes)
            .map_err(|message| said(format!("holds no whole safetensors file: {message}")))?;
        let base = part.start + header.end;
        let place = |(name, entry)| {
            let file = 0;
            (name, Place { file, base, entry })
        };
        Ok(SafeTensors {
            files: vec![map.clone()],
            places: header.entries.into_iter().map(place).collect(),
            metadata: header.metadata,
        })
    }

    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }

    /// Whether there is a tensor of a name.
    pub fn contains(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// Texts by name that the file holds beside tensors; of several files, all.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    fn place(&self, name: &str) -> Result<(&Place, &FileMap)> {
        let place = self.places.get(name);
        let found = place.and_then(|place| Some((place, self.files.get(place.file)?)));
        found.ok_or_else(|| Error::argument(absent("tensor", name, self.names())))
    }

    /// The dtype of a tensor, which is not read.
    ///
    /// # Errors
    /// `Argument`: there is no tensor of the name. `Io`: it is of a dtype that no tensor has here.
    pub fn dtype(&self, name: &str) -> Result<DType> {
        let (place, file) = self.place(name)?;
        let dtype = &place.entry.dtype;
        place.entry.dtype().ok_or_else(|| {
            let message = format!("tensor {name:?} is of {dtype}, a dtype that no tensor has here");
            broken(file.path(), message)
        })
    }

    /// The shape of a tensor, which is not read.
    ///
    /// # Errors
    /// As [`dtype`](SafeTensors::dtype); `Io` where it has more than 64 dimensions.
    pub fn shape(&self, name: &str) -> Result<Shape> {
        let (place, file) = self.place(name)?;
        shape_of(file.path(), &place.entry.dims, self.dtype(name)?)
    }

    /// A tensor, on a device. To read a part of it, take it on the CPU, slice it, and move the slice.
    ///
    /// # Errors
    /// As [`shape`](SafeTensors::shape); `Io` where the file was cut short meanwhile or a boolean is neither 0 nor 1;
    /// `OutOfMemory`, `Device`.
    pub fn tensor(&self, name: &str, device: &Device) -> Result<Tensor> {
        let (place, file) = self.place(name)?;
        let (dtype, shape) = (self.dtype(name)?, self.shape(name)?);
        let tensor = Tensor::from_map(file, place.base + place.entry.start, dtype, shape, device);
        match tensor.error() {
            Some(error) => Err(broken(
                file.path(),
                format!("tensor {name:?}: {}", error.kind()),
            )),
            None => Ok(tensor),
        }
    }

    /// Every tensor, on a device.
    ///
    /// # Errors
    /// As [`tensor`](SafeTensors::tensor).
    pub fn load(&self, device: &Device) -> Result<TensorMap> {
        let all = self.names().map(|name| {
            let tensor = self.tensor(name, device)?;
            Ok((name, tensor))
        });
        all.collect()
    }
}

impl fmt::Debug for SafeTensors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = |place: &Place| format!("{}{:?}", place.entry.dtype, place.entry.dims);
        let all = self.places.iter().map(|(name, place)| (name, about(place)));
        f.debug_map().entries(all).finish()
    }
}
