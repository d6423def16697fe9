//! The memory of a file's tensors, read once, whichever tensors share it.

use super::value::{StorageRef, TensorRef};
use crate::io::file::shape_of;
use crate::{DType, Device, Tensor};
use ferrotrace_runtime::FileMap;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The bytes of a storage.
pub(super) enum Elements {
    Read(Vec<u8>),
    /// So many bytes of a mapped file from a place on.
    Mapped(FileMap, usize, usize),
}

/// Finds the bytes of a storage.
pub(super) type ReadStorage<'a> = &'a mut dyn FnMut(&StorageRef) -> Result<Elements, String>;

/// Storages and tensors that were made of them.
pub(super) struct Storages<'a> {
    path: &'a Path,
    device: &'a Device,
    read: ReadStorage<'a>,
    /// Whether elements are stored with the highest byte first.
    is_big_endian: bool,
    /// Storages, as tensors of one dimension, by key and dtype.
    known: BTreeMap<(Arc<str>, DType), Tensor>,
    /// Tensors under several names are one.
    made: BTreeMap<TensorRef, Tensor>,
}

impl<'a> Storages<'a> {
    pub fn new(path: &'a Path, device: &'a Device, read: ReadStorage<'a>) -> Storages<'a> {
        Storages {
            path,
            device,
            read,
            is_big_endian: false,
            known: BTreeMap::new(),
            made: BTreeMap::new(),
        }
    }

    /// Storages whose elements have the highest byte first.
    pub fn big_endian(self, is_big_endian: bool) -> Storages<'a> {
        Storages {
            is_big_endian,
            ..self
        }
    }

    /// The elements of a storage.
    pub fn whole(&mut self, storage: &StorageRef) -> Result<Tensor, String> {
        let known = (storage.key.clone(), storage.dtype);
        let all = match self.known.get(&known) {
            Some(all) => all.clone(),
            None => {
                let all = self.elements(storage)?;
                self.known.insert(known, all.clone());
                all
            }
        };
        let (have, want) = (all.numel(), storage.numel);
        match want.cmp(&have) {
            std::cmp::Ordering::Equal => Ok(all),
            std::cmp::Ordering::Less => Ok(all.narrow(0, 0, want)),
            std::cmp::Ordering::Greater => {
                let key = &storage.key;
                Err(format!("storage {key:?} has {have} elements, not {want}"))
            }
        }
    }

    /// All elements that a storage has.
    fn elements(&mut self, storage: &StorageRef) -> Result<Tensor, String> {
        let (dtype, size) = (storage.dtype, storage.dtype.size());
        let mut bytes = match (self.read)(storage)? {
            Elements::Read(bytes) => bytes,
            Elements::Mapped(map, start, len) if !self.is_big_endian => {
                let len = len / size;
                return sound(Tensor::from_map(&map, start, dtype, len, self.device));
            }
            Elements::Mapped(map, start, len) => {
                let bytes = map.bytes().map_err(|error| error.kind().to_string())?;
                let bytes = bytes.get(start..start + len);
                bytes.ok_or("a storage lies beyond the file")?.to_vec()
            }
        };
        bytes.truncate(bytes.len() / size * size);
        if self.is_big_endian {
            bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
        let len = bytes.len() / size;
        sound(Tensor::from_bytes(bytes, dtype, len, self.device))
    }

    /// A window on a storage.
    pub fn tensor(&mut self, tensor: &TensorRef) -> Result<Tensor, String> {
        if let Some(made) = self.made.get(tensor) {
            return Ok(made.clone());
        }
        let (dims, dtype) = (&tensor.dims, tensor.storage.dtype);
        let shape = shape_of(self.path, dims, dtype).map_err(|error| error.kind().to_string())?;
        let all = self.whole(&tensor.storage)?;
        let made = sound(all.strided(shape, &tensor.strides, tensor.offset))?;
        self.made.insert(tensor.clone(), made.clone());
        Ok(made)
    }
}

fn sound(tensor: Tensor) -> Result<Tensor, String> {
    match tensor.error() {
        Some(error) => Err(error.kind().to_string()),
        None => Ok(tensor),
    }
}
