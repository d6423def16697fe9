//! Programs apart from their archive: text and state, of which a program is made again.

use super::call::Value;
use super::schema::{self, InputSpec, Model};
use super::{ExportedProgram, link, open};
use crate::io::file::broken;
use crate::{DType, Device, Result, Tensor};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// What a program was linked from.
#[derive(Debug)]
pub(in crate::io) struct Document {
    /// The JSON text of `torch.export`.
    pub text: String,
    /// The dtype that took the place of `F32`.
    pub narrowed: Option<DType>,
}

/// A program and its state, as they are kept.
#[derive(Debug)]
pub(in crate::io) struct Parts {
    pub document: Arc<Document>,
    pub state: BTreeMap<String, Tensor>,
    /// The names of tensors that are pairs of real and imaginary parts.
    pub complex: BTreeSet<String>,
}

impl ExportedProgram {
    /// Links a program, or says of the file that it is broken.
    pub(super) fn linked(
        path: &Path,
        document: Document,
        mut tensors: HashMap<String, Value>,
    ) -> Result<ExportedProgram> {
        let said = |message| broken(path, format!("its program {message}"));
        let model = Model::read(&document.text).map_err(said)?;
        let mut narrow = BTreeMap::new();
        if document.narrowed.is_some() {
            narrow = widened(&model, &mut tensors);
        }
        let (mut program, mut state) = link::link(model, tensors).map_err(said)?;
        state.extend(narrow);
        if let Some(dtype) = document.narrowed {
            program = program.narrowed(dtype);
        }
        Ok(ExportedProgram {
            program: Arc::new(program),
            state,
            lost: BTreeMap::new(),
            device: Device::cpu(),
            known: HashSet::new(),
            own: Arc::default(),
            pure: Arc::default(),
            document: Arc::new(document),
        })
    }

    /// What the program is made of, as it is now.
    pub(in crate::io) fn parts(&self) -> Parts {
        let complex = self.program.state.iter().filter(|state| state.is_complex);
        Parts {
            document: self.document.clone(),
            state: self.state.clone(),
            complex: complex.map(|state| state.name.clone()).collect(),
        }
    }

    /// The program of these parts, whose tensors lie on the CPU; errors name the file.
    pub(in crate::io) fn of_parts(path: &Path, parts: Parts) -> Result<ExportedProgram> {
        let value = |(name, tensor): (String, Tensor)| {
            let value = Value::of(&tensor, parts.complex.contains(&name));
            (name, value)
        };
        let document = Document {
            text: parts.document.text.clone(),
            narrowed: parts.document.narrowed,
        };
        ExportedProgram::linked(path, document, parts.state.into_iter().map(value).collect())
    }

    /// The tensors of an archive by name.
    pub(in crate::io) fn tensors_of(path: &Path) -> Result<BTreeMap<String, Tensor>> {
        let (_, tensors) = open::open(path)?;
        let tensor = |(name, value)| match value {
            Value::Tensor(tensor) | Value::Complex(tensor) => Some((name, tensor)),
            _ => None,
        };
        Ok(tensors.into_iter().filter_map(tensor).collect())
    }
}

/// Puts `F32` tensors, which are not computed, in the place of those that a program has in `F32` and that are narrow now;
/// and gives the narrow ones.
fn widened(model: &Model, tensors: &mut HashMap<String, Value>) -> BTreeMap<String, Tensor> {
    let mut narrow = BTreeMap::new();
    for spec in &model.inputs {
        let (InputSpec::Parameter(name, key)
        | InputSpec::Buffer(name, key)
        | InputSpec::TensorConstant(name, key)) = spec
        else {
            continue;
        };
        let meta = model.graph.metas.get(name);
        let dtype =
            meta.and_then(|meta| schema::dtype_of(meta.dtype).or(schema::part_of(meta.dtype)));
        let (Some(DType::F32), Some(value)) = (dtype, tensors.get_mut(key)) else {
            continue;
        };
        if let Value::Tensor(tensor) | Value::Complex(tensor) = value
            && tensor.dtype() != DType::F32
        {
            narrow.insert(key.clone(), tensor.clone());
            *tensor = tensor.to_dtype(DType::F32);
        }
    }
    narrow
}
