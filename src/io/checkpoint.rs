//! What a training run needs to go on from: tensors, numbers and texts by name, in one file.

use super::file::broken;
use super::safetensors::{SafeTensors, save_safetensors_with};
use super::state::{load_state_dict, state_dict};
use super::tensor_map::{TensorMap, absent};
use crate::{Device, Error, Generator, GeneratorState, Result, Tensor, TensorStruct};
use std::collections::BTreeMap;
use std::path::Path;

/// The text under which a file says that it is a checkpoint, and of which version.
const KIND: (&str, &str) = ("ferrotrace.checkpoint", "1");

/// A value of a [`Checkpoint`] that is no tensor.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// An integer.
    Integer(i64),
    /// A number, of which every bit is kept, those of NaNs too.
    Float(f64),
    /// A text.
    Text(String),
    /// Where a generator stands.
    Generator(GeneratorState),
}

impl Value {
    /// The value as a text that begins with its kind.
    fn write(&self) -> String {
        match self {
            Value::Integer(number) => format!("integer {number}"),
            Value::Float(number) => format!("float {:016x} {number:?}", number.to_bits()),
            Value::Text(text) => format!("text {text}"),
            Value::Generator(state) => format!("generator {} {}", state.key, state.offset),
        }
    }

    fn read(text: &str) -> Option<Value> {
        let (kind, rest) = text.split_once(' ')?;
        Some(match kind {
            "integer" => Value::Integer(rest.parse().ok()?),
            "float" => {
                let bits = u64::from_str_radix(rest.split(' ').next()?, 16).ok()?;
                Value::Float(f64::from_bits(bits))
            }
            "text" => Value::Text(rest.to_owned()),
            "generator" => {
                let (key, offset) = rest.split_once(' ')?;
                Value::Generator(GeneratorState {
                    key: key.parse().ok()?,
                    offset: offset.parse().ok()?,
                })
            }
            _ => return None,
        })
    }

    fn kind(&self) -> &'static str {
        match self {
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Text(_) => "a text",
            Value::Generator(_) => "a generator's state",
        }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Integer(number)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Value {
        Value::Integer(number.into())
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Float(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<GeneratorState> for Value {
    fn from(state: GeneratorState) -> Value {
        Value::Generator(state)
    }
}

impl From<&Generator> for Value {
    fn from(generator: &Generator) -> Value {
        Value::Generator(generator.state())
    }
}

/// What a training run needs to go on from: tensors (parameters, the optimiser's state), and numbers and texts (the
/// step, the position in the data, generators) by name.
///
/// It is a safetensors file, so other programs can read the tensors. [`save`](Checkpoint::save) writes it at once or not
/// at all: a run killed meanwhile goes on from the checkpoint before.
///
/// ```
/// use ferrotrace::prelude::*;
/// use ferrotrace::Generator;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("run.safetensors");
/// let generator = Generator::new(7);
/// let w = generator.randn([3, 2], DType::F32, &Device::cpu());
///
/// let mut checkpoint = io::Checkpoint::new();
/// checkpoint.set_tensor("w", &w);
/// checkpoint.set("step", 100);
/// checkpoint.set("generator", &generator);
/// checkpoint.save(&path)?;
///
/// let loaded = io::Checkpoint::load(&path, &Device::cpu())?;
/// assert_eq!(loaded.integer("step")?, 100);
/// assert!(loaded.tensor("w")?.allclose(&w, 0.0, 0.0)?);
/// let resumed = Generator::new(0);
/// resumed.set_state(loaded.generator("generator")?);
/// # let next = |g: &Generator| g.randn(3, DType::F32, &Device::cpu()).to_vec::<f32>();
/// assert_eq!(next(&resumed)?, next(&generator)?);
/// # Ok::<(), Error>(())
/// ```
///
/// A model and the state of its optimiser, which are [structs of tensors](crate::TensorStruct), are saved and loaded under a
/// prefix each:
///
/// ```
/// use ferrotrace::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("run.safetensors");
/// # let mut model = vec![Tensor::ones(2, DType::F32, &Device::cpu())];
/// # let mut optimiser = vec![Tensor::zeros(2, DType::F32, &Device::cpu())];
/// let mut checkpoint = io::Checkpoint::new();
/// checkpoint.set_struct("model", &model);
/// checkpoint.set_struct("optimiser", &optimiser);
/// checkpoint.save(&path)?;
///
/// let loaded = io::Checkpoint::load(&path, &Device::cpu())?;
/// loaded.load_struct("model", &mut model)?;
/// loaded.load_struct("optimiser", &mut optimiser)?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Checkpoint {
    tensors: TensorMap,
    values: BTreeMap<String, Value>,
}

impl Checkpoint {
    /// One that holds nothing.
    pub fn new() -> Checkpoint {
        Checkpoint::default()
    }

    /// Puts a number, a text or a generator's state under a name, in the place of what was there.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.values.insert(name.into(), value.into());
    }

    /// Puts a tensor under a name, in the place of what was there. Tensors and values do not share names.
    pub fn set_tensor(&mut self, name: impl Into<String>, tensor: &Tensor) {
        self.tensors.insert(name, tensor.clone());
    }

    /// Puts tensors under a prefix and their own names, joined by a dot.
    pub fn set_tensors(&mut self, prefix: &str, tensors: &TensorMap) {
        for (name, tensor) in tensors {
            self.set_tensor(format!("{prefix}.{name}"), tensor);
        }
    }

    /// Puts the tensors of a struct under a prefix and their paths: see [`state_dict`]. Numbers in it are not kept.
    pub fn set_struct<M: TensorStruct>(&mut self, prefix: &str, model: &M) {
        self.set_tensors(prefix, &state_dict(model));
    }

    /// Puts the tensors under a prefix into a struct: see [`load_state_dict`].
    ///
    /// # Errors
    /// As [`load_state_dict`].
    pub fn load_struct<M: TensorStruct>(&self, prefix: &str, model: &mut M) -> Result<()> {
        load_state_dict(model, &self.tensors_under(prefix))
    }

    /// A tensor.
    ///
    /// # Errors
    /// There is none of the name; the error lists the names nearest to it.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        self.tensors.tensor(name)
    }

    /// Every tensor.
    pub fn tensors(&self) -> &TensorMap {
        &self.tensors
    }

    /// The tensors under a prefix, which their names are without.
    ///
    /// ```
    /// # use ferrotrace::prelude::*;
    /// let mut checkpoint = io::Checkpoint::new();
    /// checkpoint.set_tensor("model.w", &Tensor::ones(2, DType::F32, &Device::cpu()));
    /// checkpoint.set_tensor("optimiser.w", &Tensor::zeros(2, DType::F32, &Device::cpu()));
    /// assert_eq!(checkpoint.tensors_under("model").names().collect::<Vec<_>>(), ["w"]);
    /// ```
    pub fn tensors_under(&self, prefix: &str) -> TensorMap {
        let under = |name: &'_ str| {
            let rest = name.strip_prefix(prefix)?.strip_prefix('.')?;
            Some(rest.to_owned())
        };
        let all = self.tensors.iter();
        all.filter_map(|(name, tensor)| Some((under(name)?, tensor.clone())))
            .collect()
    }

    /// The value of a name, if there is one.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Names and values, by sorted names.
    pub fn values(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values
            .iter()
            .map(|(name, value)| (name.as_str(), value))
    }

    fn of_kind<'a, T>(
        &'a self,
        name: &str,
        kind: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<T> {
        let names = self.values.keys().map(String::as_str);
        let value = self
            .get(name)
            .ok_or_else(|| Error::argument(absent("value", name, names)))?;
        read(value).ok_or_else(|| {
            let is = value.kind();
            Error::argument(format!("the value {name:?} is {is}, not {kind}"))
        })
    }

    /// An integer.
    ///
    /// # Errors
    /// There is no value of the name, or it is something else.
    pub fn integer(&self, name: &str) -> Result<i64> {
        self.of_kind(name, "an integer", |value| match value {
            Value::Integer(number) => Some(*number),
            _ => None,
        })
    }

    /// A number.
    ///
    /// # Errors
    /// As [`integer`](Checkpoint::integer).
    pub fn float(&self, name: &str) -> Result<f64> {
        self.of_kind(name, "a float", |value| match value {
            Value::Float(number) => Some(*number),
            _ => None,
        })
    }

    /// A text.
    ///
    /// # Errors
    /// As [`integer`](Checkpoint::integer).
    pub fn text(&self, name: &str) -> Result<&str> {
        self.of_kind(name, "a text", |value| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// Where a generator stood, for [`Generator::set_state`].
    ///
    /// # Errors
    /// As [`integer`](Checkpoint::integer).
    pub fn generator(&self, name: &str) -> Result<GeneratorState> {
        self.of_kind(name, "a generator's state", |value| match value {
            Value::Generator(state) => Some(*state),
            _ => None,
        })
    }

    /// Writes the checkpoint as one file, at once or not at all.
    ///
    /// # Errors
    /// As [`save_safetensors`](super::save_safetensors).
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let values = self.values.iter();
        let values: Vec<(String, String)> = values
            .map(|(name, value)| (format!("value.{name}"), value.write()))
            .collect();
        let values = values.iter().map(|(name, text)| (&**name, &**text));
        let texts: Vec<(&str, &str)> = values.chain([KIND]).collect();
        save_safetensors_with(path, &self.tensors.as_pairs(), &texts)
    }

    /// Reads a checkpoint that [`save`](Checkpoint::save) wrote; its tensors as
    /// [`load_safetensors`](super::load_safetensors) does.
    ///
    /// # Errors
    /// As [`load_safetensors`](super::load_safetensors); `Io` where the file is no checkpoint.
    pub fn load(path: impl AsRef<Path>, device: &Device) -> Result<Checkpoint> {
        let path = path.as_ref();
        let file = SafeTensors::open(path)?;
        let texts = file.metadata();
        if texts.get(KIND.0).map(String::as_str) != Some(KIND.1) {
            return Err(broken(path, "is no checkpoint of this version"));
        }
        let mut values = BTreeMap::new();
        for (name, text) in texts {
            let Some(name) = name.strip_prefix("value.") else {
                continue;
            };
            let value = Value::read(text).ok_or_else(|| {
                broken(path, format!("has a value {name:?} that is none: {text:?}"))
            })?;
            values.insert(name.to_owned(), value);
        }
        let tensors = file.load(device)?;
        Ok(Checkpoint { tensors, values })
    }
}
