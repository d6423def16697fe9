//! The tensors of a struct by their names, to be saved and loaded.

use super::tensor_map::TensorMap;
use crate::{Error, Result, Tensor, TensorStruct};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The names that differ between a struct and what was loaded into it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Tensors of the struct that were not among those loaded; they stayed as they were.
    pub missing: Vec<String>,
    /// Names among those loaded that the struct has not.
    pub unexpected: Vec<String>,
}

/// The tensors of a struct by their names, which are paths: `layers.0.weight`. A tensor in several places (tied weights)
/// is there once, under its first name.
///
/// ```
/// use ferrotrace::prelude::*;
/// #[derive(TensorStruct)]
/// struct Model { weight: Tensor, bias: Option<Tensor> }
///
/// let model = Model { weight: Tensor::ones([2, 2], DType::F32, &Device::cpu()), bias: None };
/// assert_eq!(io::state_dict(&model).names().collect::<Vec<_>>(), ["weight"]);
/// ```
pub fn state_dict<M: TensorStruct>(model: &M) -> TensorMap {
    let mut tensors = TensorMap::new();
    model.for_each(|name, tensor| {
        tensors.insert(name, tensor.clone());
    });
    tensors
}

/// Puts loaded tensors into a struct, by their names, in the place of those that are there. Initial weights that were
/// not read are never computed. Every tensor of the struct has to be among those loaded, and no other.
///
/// Tensors are converted to the dtype, and moved to the device, of those whose place they take. One that the struct has
/// in several places (tied weights) may have any of its names, and stays tied.
///
/// ```
/// use ferrotrace::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("model.safetensors");
/// #[derive(TensorStruct)]
/// struct Model { weight: Tensor }
///
/// let model = Model { weight: Tensor::ones([2, 2], DType::F32, &Device::cpu()) };
/// io::save_safetensors(&path, &io::state_dict(&model).as_pairs())?;
///
/// let mut other = Model { weight: Tensor::randn([2, 2], DType::F32, &Device::cpu()) };
/// io::load_state_dict(&mut other, &io::load_safetensors(&path, &Device::cpu())?)?;
/// assert_eq!(other.weight.to_vec::<f32>()?, [1.0; 4]);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// `Argument`: tensors are missing, unexpected, or of another shape; the error lists all of them, and the struct is as it
/// was.
pub fn load_state_dict<M: TensorStruct>(model: &mut M, tensors: &TensorMap) -> Result<()> {
    let matched = matched(model, tensors)?;
    let Differences {
        missing,
        unexpected,
    } = &matched.differences;
    if missing.is_empty() && unexpected.is_empty() {
        matched.put(model);
        return Ok(());
    }
    let mut message = "what was loaded is not what the struct holds".to_owned();
    for (what, names) in [("missing", missing), ("unexpected", unexpected)] {
        list(&mut message, what, names);
    }
    Err(Error::argument(message))
}

/// As [`load_state_dict`], for what is there: tensors that are missing stay as they are, and those that the struct has not
/// are left out. The result lists both.
///
/// ```
/// use ferrotrace::prelude::*;
/// #[derive(TensorStruct)]
/// struct Model { weight: Tensor, bias: Tensor }
///
/// let ones = Tensor::ones(2, DType::F32, &Device::cpu());
/// let mut model = Model { weight: &ones + 0.0, bias: &ones + 1.0 };
/// let loaded = io::TensorMap::from_iter([("weight", &ones * 3.0), ("head", ones)]);
/// let differences = io::load_state_dict_partly(&mut model, &loaded)?;
/// assert_eq!((&*differences.missing, &*differences.unexpected), (&["bias".into()][..], &["head".into()][..]));
/// assert_eq!(model.weight.to_vec::<f32>()?, [3.0; 2]);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// `Argument`: tensors are of another shape; the error lists all of them, and the struct is as it was.
pub fn load_state_dict_partly<M: TensorStruct>(
    model: &mut M,
    tensors: &TensorMap,
) -> Result<Differences> {
    let matched = matched(model, tensors)?;
    matched.put(model);
    Ok(matched.differences)
}

/// What each tensor of a struct becomes, by its first name.
struct Matched {
    tensors: BTreeMap<String, Tensor>,
    differences: Differences,
}

impl Matched {
    fn put<M: TensorStruct>(&self, model: &mut M) {
        model.for_each_mut(|name, tensor| {
            if let Some(loaded) = self.tensors.get(name) {
                *tensor = loaded.clone();
            }
        });
    }
}

fn matched<M: TensorStruct>(model: &M, tensors: &TensorMap) -> Result<Matched> {
    let (mut known, mut misshapen) = (BTreeSet::new(), Vec::new());
    let mut matched = Matched {
        tensors: BTreeMap::new(),
        differences: Differences::default(),
    };
    for leaf in model.leaves() {
        let name = leaf.names[0].clone();
        let loaded = leaf.names.iter().find_map(|name| tensors.get(name));
        known.extend(leaf.names);
        let Some(loaded) = loaded else {
            matched.differences.missing.push(name);
            continue;
        };
        for tensor in [&leaf.tensor, loaded] {
            tensor.error().map_or(Ok(()), Err)?;
        }
        if leaf.tensor.shape() != loaded.shape() {
            let (is, should) = (loaded.shape(), leaf.tensor.shape());
            misshapen.push(format!("{name}: {is} for {should}"));
            continue;
        }
        let (dtype, device) = (leaf.tensor.dtype(), leaf.tensor.device());
        let loaded = loaded.to_device(&device).to_dtype(dtype);
        let loaded = match leaf.tensor.has_grad() {
            true => loaded.detach().requires_grad(),
            false => loaded,
        };
        matched.tensors.insert(name, loaded);
    }
    if !misshapen.is_empty() {
        let mut message = "what was loaded has other shapes than the struct".to_owned();
        list(&mut message, "misshapen", &misshapen);
        return Err(Error::argument(message));
    }
    let unexpected = tensors.names().filter(|name| !known.contains(*name));
    matched.differences.unexpected = unexpected.map(str::to_owned).collect();
    Ok(matched)
}

/// Adds names to a message, the first of them where they are many.
fn list(message: &mut String, what: &str, names: &[String]) {
    const SHOWN: usize = 20;
    if names.is_empty() {
        return;
    }
    let shown = names.len().min(SHOWN);
    let mut text = names[..shown].join(", ");
    if names.len() > shown {
        let more = names.len() - shown;
        // Writing to a text does not fail.
        let _ = write!(text, " and {more} more");
    }
    message.push_str(&format!("; {what}: {text}"));
}
