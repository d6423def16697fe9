//! The format of PyTorch before 1.6: five pickles (a magic number, a version, facts of the machine, the value, the keys of
//! the storages), then each storage as its number of elements and these.

use super::longest_pickle;
use super::machine::{Unpickled, unpickle};
use super::storages::{Elements, Storages};
use super::tree::{PtTree, tree};
use super::value::{StorageRef, Value};
use crate::io::file::{broken, read_exactly};
use crate::{DType, Device, Result};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// What the first pickle holds.
const MAGIC: i128 = 0x1950_a86a_20f9_469c_fc6c;

/// What the second pickle holds.
const VERSION: i128 = 1001;

pub(super) fn load(path: &Path, file: &mut impl Read, len: u64, device: &Device) -> Result<PtTree> {
    let whole = |file: &mut dyn Read| -> Option<i128> {
        let Unpickled { values, root } = unpickle(file, 64).ok()?;
        match values.get(root as usize)? {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    };
    if whole(file) != Some(MAGIC) || whole(file) != Some(VERSION) {
        return Err(broken(path, "is no file that torch.save wrote"));
    }
    read(file, path, len, device).map_err(|message| broken(path, message))
}

fn read(file: &mut impl Read, path: &Path, len: u64, device: &Device) -> Result<PtTree, String> {
    let facts = unpickle(file, longest_pickle(len))?;
    let value = unpickle(file, longest_pickle(len))?;
    let keys = unpickle(file, longest_pickle(len))?;
    let mut of_key: BTreeMap<Arc<str>, DType> = BTreeMap::new();
    for value in &value.values {
        if let Value::Storage(storage) = value
            && of_key
                .insert(storage.key.clone(), storage.dtype)
                .is_some_and(|dtype| dtype != storage.dtype)
        {
            return Err(format!("storage {:?} is of two dtypes", storage.key));
        }
    }
    let mut bytes = BTreeMap::new();
    for key in texts(&keys)? {
        let dtype = of_key
            .get(&key)
            .ok_or("it has a storage that no tensor uses")?;
        let mut numel = [0; 8];
        let read = file.read_exact(&mut numel);
        read.map_err(|_| "it ends before its last storage")?;
        let most = || format!("storage {key:?} is greater than the file");
        let numel = usize::try_from(i64::from_le_bytes(numel)).map_err(|_| most())?;
        let size = numel.checked_mul(dtype.size()).ok_or_else(most)?;
        if size as u64 > len {
            return Err(most());
        }
        let elements = read_exactly(file, size, len).map_err(|error| error.to_string())?;
        bytes.insert(key, elements);
    }
    let mut read = |storage: &StorageRef| {
        let found = bytes.remove(&storage.key);
        let found = found.map(Elements::Read);
        found.ok_or_else(|| format!("storage {:?} is not in the file", storage.key))
    };
    let mut storages = Storages::new(path, device, &mut read).big_endian(!is_little(&facts));
    tree(&value, &mut storages)
}

fn texts(pickle: &Unpickled) -> Result<Vec<Arc<str>>, String> {
    let text = |id: &u32| match &pickle.values[*id as usize] {
        Value::Text(text) => Ok(text.clone()),
        _ => Err("a storage has no name".to_owned()),
    };
    match &pickle.values[pickle.root as usize] {
        Value::List(keys) | Value::Tuple(keys) => keys.iter().map(text).collect(),
        _ => Err("it has no list of storages".to_owned()),
    }
}

/// Whether the machine that wrote the file had the lowest byte first, as nearly all.
fn is_little(facts: &Unpickled) -> bool {
    let Value::Dict(entries) = &facts.values[facts.root as usize] else {
        return true;
    };
    !entries.iter().any(|&(key, value)| {
        let is = |id: u32| &facts.values[id as usize];
        matches!(is(key), Value::Text(key) if &**key == "little_endian")
            && matches!(is(value), Value::Bool(false))
    })
}
