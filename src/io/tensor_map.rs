//! Tensors by name.

use crate::{Device, Error, Result, Tensor};
use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::ops::Index;

/// Tensors by name, in the order of their names: what a file of several tensors holds.
///
/// ```
/// use ferrotrace::prelude::*;
/// use ferrotrace::io::TensorMap;
/// let mut map = TensorMap::new();
/// map.insert("b", Tensor::ones(3, DType::F32, &Device::cpu()));
/// map.insert("a", Tensor::zeros(2, DType::F32, &Device::cpu()));
/// assert_eq!(map.names().collect::<Vec<_>>(), ["a", "b"]);
/// assert_eq!(map["b"].to_vec::<f32>()?, [1.0; 3]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Default)]
pub struct TensorMap(BTreeMap<String, Tensor>);

impl TensorMap {
    /// An empty map.
    pub fn new() -> TensorMap {
        TensorMap::default()
    }

    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The tensor of a name, if there is one. Where there has to be one, [`tensor`](TensorMap::tensor) gives an error
    /// that says what is there.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.0.get(name)
    }

    /// The tensor of a name.
    ///
    /// # Errors
    /// There is none; the error lists the names nearest to it.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        self.get(name).ok_or_else(|| self.missing(name))
    }

    fn missing(&self, name: &str) -> Error {
        Error::argument(absent("tensor", name, self.names()))
    }

    /// Whether there is a tensor of a name.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Names and tensors, by sorted names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.0.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// Puts a tensor under a name, and returns the one that was there.
    pub fn insert(&mut self, name: impl Into<String>, tensor: Tensor) -> Option<Tensor> {
        self.0.insert(name.into(), tensor)
    }

    /// Takes the tensor of a name out.
    pub fn remove(&mut self, name: &str) -> Option<Tensor> {
        self.0.remove(name)
    }

    /// The same tensors on a device.
    pub fn to_device(&self, device: &Device) -> TensorMap {
        self.iter()
            .map(|(name, tensor)| (name.to_owned(), tensor.to_device(device)))
            .collect()
    }

    /// Names and tensors as the functions that save take them.
    ///
    /// ```
    /// # use ferrotrace::prelude::*;
    /// # use ferrotrace::io::TensorMap;
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("x.npz");
    /// let mut map = TensorMap::new();
    /// map.insert("a", Tensor::ones(3, DType::F32, &Device::cpu()));
    /// io::save_npz(&path, &map.as_pairs())?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn as_pairs(&self) -> Vec<(&str, &Tensor)> {
        self.iter().collect()
    }
}

/// Says that a name is not there, and which are nearest.
pub(super) fn absent<'a>(what: &str, name: &str, names: impl Iterator<Item = &'a str>) -> String {
    let last = |name: &str| name.rsplit('.').next().map(str::to_owned);
    let shared = |other: &str| {
        name.bytes()
            .zip(other.bytes())
            .take_while(|(a, b)| a == b)
            .count()
    };
    let mut near: Vec<(bool, usize, &str)> = names
        .map(|other| (last(other) == last(name), shared(other), other))
        .collect();
    if near.is_empty() {
        return format!("there is no {what} {name:?}, nor any other");
    }
    near.sort_by(|a, b| (b.0, b.1).cmp(&(a.0, a.1)).then(a.2.cmp(b.2)));
    let all = near.len();
    let near: Vec<String> = near
        .iter()
        .take(3)
        .map(|near| format!("{:?}", near.2))
        .collect();
    let near = near.join(", ");
    format!("there is no {what} {name:?}; of {all} the nearest: {near}")
}

impl Index<&str> for TensorMap {
    type Output = Tensor;

    /// The tensor of a name.
    ///
    /// # Panics
    /// There is none. [`get`](TensorMap::get) and [`tensor`](TensorMap::tensor) do not panic.
    fn index(&self, name: &str) -> &Tensor {
        &self.0[name]
    }
}

impl fmt::Debug for TensorMap {
    /// Shapes and dtypes; nothing runs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = |tensor: &Tensor| format!("{}{}", tensor.dtype(), tensor.shape());
        let all = self.iter().map(|(name, tensor)| (name, about(tensor)));
        f.debug_map().entries(all).finish()
    }
}

impl From<TensorMap> for BTreeMap<String, Tensor> {
    fn from(map: TensorMap) -> BTreeMap<String, Tensor> {
        map.0
    }
}

impl From<BTreeMap<String, Tensor>> for TensorMap {
    fn from(map: BTreeMap<String, Tensor>) -> TensorMap {
        TensorMap(map)
    }
}

impl<N: Into<String>> FromIterator<(N, Tensor)> for TensorMap {
    fn from_iter<I: IntoIterator<Item = (N, Tensor)>>(all: I) -> TensorMap {
        TensorMap(all.into_iter().map(|(n, t)| (n.into(), t)).collect())
    }
}

impl IntoIterator for TensorMap {
    type Item = (String, Tensor);
    type IntoIter = btree_map::IntoIter<String, Tensor>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a TensorMap {
    type Item = (&'a String, &'a Tensor);
    type IntoIter = btree_map::Iter<'a, String, Tensor>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
