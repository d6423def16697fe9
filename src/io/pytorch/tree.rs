//! What a file of PyTorch's holds, as it was saved.

use super::machine::Unpickled;
use super::storages::Storages;
use super::value::{Id, Value};
use crate::Tensor;
use crate::io::tensor_map::TensorMap;
use std::collections::HashMap;
use std::sync::Arc;

/// Dictionaries in dictionaries that are followed.
const DEEPEST: usize = 128;

/// Bytes of a tensor's name.
const LONGEST_NAME: usize = 4096;

/// A value that `torch.save` wrote.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PtTree {
    /// `None`.
    None,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Integer(i128),
    /// A number.
    Float(f64),
    /// A text, or a dtype by its name.
    Text(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A tensor, or a parameter's.
    Tensor(Tensor),
    /// A list, tuple or set.
    List(Vec<PtTree>),
    /// A dictionary, in its order. Keys that are numbers are their digits.
    Dict(Vec<(Arc<str>, PtTree)>),
}

impl PtTree {
    /// The value of a key, if this is a dictionary that has it.
    pub fn get(&self, key: &str) -> Option<&PtTree> {
        match self {
            PtTree::Dict(entries) => {
                let found = entries.iter().find(|(name, _)| &**name == key);
                found.map(|(_, value)| value)
            }
            _ => None,
        }
    }

    /// The tensor, if this is one.
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            PtTree::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// The number, if this is an integer.
    pub fn as_integer(&self) -> Option<i128> {
        match self {
            PtTree::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The number, if this is one.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            PtTree::Integer(number) => Some(*number as f64),
            PtTree::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// The text, if this is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            PtTree::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The tensors within, named by the keys and positions that lead to them, joined by dots. What is no tensor is left
    /// out.
    ///
    /// # Errors
    /// The message: two tensors get one name, or one gets a name of more than 4096 bytes.
    pub fn flatten(&self) -> Result<TensorMap, String> {
        let mut tensors = TensorMap::new();
        self.collect(&mut String::new(), &mut tensors)?;
        Ok(tensors)
    }

    /// Recursion is bounded: trees of files are not deeper than [`DEEPEST`].
    fn collect(&self, name: &mut String, tensors: &mut TensorMap) -> Result<(), String> {
        match self {
            PtTree::Tensor(_) if name.len() > LONGEST_NAME => {
                Err("a tensor's name is longer than 4096 bytes".to_owned())
            }
            PtTree::Tensor(tensor) => match tensors.insert(&**name, tensor.clone()) {
                None => Ok(()),
                Some(_) => Err(format!("two tensors are named {name:?}")),
            },
            PtTree::List(items) => items
                .iter()
                .enumerate()
                .try_for_each(|(n, item)| item.collect_under(&n.to_string(), name, tensors)),
            PtTree::Dict(entries) => entries
                .iter()
                .try_for_each(|(key, value)| value.collect_under(key, name, tensors)),
            _ => Ok(()),
        }
    }

    /// As [`collect`](PtTree::collect), with a key behind the name.
    fn collect_under(
        &self,
        key: &str,
        name: &mut String,
        tensors: &mut TensorMap,
    ) -> Result<(), String> {
        let len = name.len();
        if len > 0 {
            name.push('.');
        }
        name.push_str(key);
        let result = self.collect(name, tensors);
        name.truncate(len);
        result
    }
}

/// Makes the tree of a pickle, whose tensors are windows on storages.
pub(super) fn tree(pickle: &Unpickled, storages: &mut Storages<'_>) -> Result<PtTree, String> {
    // A value that is shared is met more than once, and a tower of shared ones more often than any file is long.
    let mut left = pickle.values.len().saturating_mul(4).saturating_add(1024);
    node(pickle, pickle.root, 0, &mut left, storages)
}

fn node(
    pickle: &Unpickled,
    id: Id,
    depth: usize,
    left: &mut usize,
    storages: &mut Storages<'_>,
) -> Result<PtTree, String> {
    if depth > DEEPEST {
        return Err(format!(
            "its containers are nested deeper than {DEEPEST}, or hold themselves"
        ));
    }
    *left = left
        .checked_sub(1)
        .ok_or("its containers hold each other too many times")?;
    let mut within = |id: Id| node(pickle, id, depth + 1, left, storages);
    Ok(match &pickle.values[id as usize] {
        Value::None => PtTree::None,
        Value::Bool(value) => PtTree::Bool(*value),
        Value::Int(value) => PtTree::Integer(*value),
        Value::Float(value) => PtTree::Float(*value),
        Value::Text(text) => PtTree::Text(text.clone()),
        Value::Bytes(bytes) => PtTree::Bytes(bytes.clone()),
        Value::List(items) | Value::Tuple(items) => PtTree::List(
            items
                .iter()
                .map(|&id| within(id))
                .collect::<Result<_, _>>()?,
        ),
        Value::Dict(entries) => {
            let (mut all, mut place) = (Vec::new(), HashMap::new());
            for &(key, value) in entries {
                let (key, value) = (key_text(pickle, key)?, within(value)?);
                match place.get(&key) {
                    // A key that is set twice has the later value.
                    Some(&at) => all[at] = (key, value),
                    None => {
                        place.insert(key.clone(), all.len());
                        all.push((key, value));
                    }
                }
            }
            PtTree::Dict(all)
        }
        Value::Tensor(tensor) => PtTree::Tensor(storages.tensor(tensor)?),
        // A storage by itself is its elements in a row.
        Value::Storage(storage) => PtTree::Tensor(storages.whole(storage)?),
        Value::Named(named) => return Err(format!("it holds {named:?} itself")),
    })
}

fn key_text(pickle: &Unpickled, key: Id) -> Result<Arc<str>, String> {
    match &pickle.values[key as usize] {
        Value::Text(text) => Ok(text.clone()),
        Value::Int(number) => Ok(number.to_string().into()),
        _ => Err("a dictionary has a key that is neither a text nor a number".to_owned()),
    }
}
