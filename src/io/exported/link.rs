//! From a file's contents to a program and its state.

use super::build::{Builder, Names};
use super::call::{Arg, Value};
use super::ops;
use super::program::{Dim, Guard, Input, Kind, Output, Program, Range, State, StateKind};
use super::schema::{self, Graph, InputSpec, Meta, Model, OutputSpec, Size};
use super::structure;
use super::symbols::Expr;
use crate::Tensor;
use std::collections::{BTreeMap, HashMap};

type Result<T, E = String> = std::result::Result<T, E>;

/// What names stand for, and the program so far.
struct Linker {
    builder: Builder,
    names: Names,
    inputs: Vec<Input>,
    state: Vec<State>,
    /// The names of inputs and state in the graph, in their order.
    input_names: Vec<String>,
    state_names: Vec<String>,
    tensors: BTreeMap<String, Tensor>,
}

/// Makes a program, or says what is wrong.
///
/// `tensors` are parameters, buffers and constants by qualified name.
pub(super) fn link(
    model: Model,
    tensors: HashMap<String, Value>,
) -> Result<(Program, BTreeMap<String, Tensor>)> {
    let mut linker = Linker {
        builder: Builder::default(),
        names: Names::new(),
        inputs: Vec::new(),
        state: Vec::new(),
        input_names: Vec::new(),
        state_names: Vec::new(),
        tensors: BTreeMap::new(),
    };
    linker.inputs(&model, tensors)?;
    linker.builder.graph(&model.graph, &mut linker.names)?;
    if !linker.builder.unknown.is_empty() {
        let unknown: Vec<&str> = linker.builder.unknown.iter().map(String::as_str).collect();
        return Err(format!(
            "holds operators that are not known here: {}",
            unknown.join(", ")
        ));
    }
    let outputs = linker.outputs(&model)?;
    linker.changes();
    let mut program = Program {
        slots: linker.builder.slots,
        steps: linker.builder.steps,
        inputs: linker.inputs,
        state: linker.state,
        outputs,
        ranges: ranges(&model),
        guards: model.guards.iter().filter_map(|text| guard(text)).collect(),
    };
    program.find_drops(ops::is_kept);
    Ok((program, linker.tensors))
}

fn ranges(model: &Model) -> Vec<Range> {
    let range = |(symbol, min, max): &(String, Option<i64>, Option<i64>)| Range {
        symbol: symbol.clone(),
        min: *min,
        max: *max,
    };
    model.ranges.iter().map(range).collect()
}

/// A guard that says something of sizes and numbers; others speak of Python's objects.
fn guard(text: &str) -> Option<Guard> {
    let expr = Expr::parse(text)?;
    let text = text.to_owned();
    Some(Guard { text, expr })
}

fn meta<'a>(graph: &'a Graph, name: &str) -> Result<&'a Meta> {
    let meta = graph.metas.get(name);
    meta.ok_or_else(|| format!("says nothing of the tensor {name:?}"))
}

impl Linker {
    fn inputs(&mut self, model: &Model, mut tensors: HashMap<String, Value>) -> Result<()> {
        if model.inputs.len() != model.graph.inputs.len() {
            return Err("has another number of inputs than its signature".to_owned());
        }
        let paths = model.structure.as_ref().and_then(structure::inputs);
        let mut paths = paths.unwrap_or_default().into_iter();
        for spec in &model.inputs {
            match spec {
                InputSpec::User(schema::Arg::Name(name)) => {
                    let path = paths.next().unwrap_or_default();
                    self.user(&model.graph, name, path)?;
                }
                InputSpec::User(_) | InputSpec::Constant => drop(paths.next()),
                InputSpec::Parameter(name, key) => {
                    self.stored(&model.graph, name, key, StateKind::Parameter, &mut tensors)?;
                }
                InputSpec::Buffer(name, key) => {
                    self.stored(&model.graph, name, key, StateKind::Buffer, &mut tensors)?;
                }
                InputSpec::TensorConstant(name, key) => {
                    self.stored(&model.graph, name, key, StateKind::Constant, &mut tensors)?;
                }
                InputSpec::Token(name) => {
                    let id = self.builder.entity();
                    Builder::name(&mut self.names, name, id)?;
                }
                InputSpec::Other(kind) => return Err(format!("has an input {kind:?}")),
            }
        }
        Ok(())
    }

    fn user(&mut self, graph: &Graph, name: &str, path: String) -> Result<()> {
        let id = self.builder.entity();
        Builder::name(&mut self.names, name, id)?;
        let kind = match (graph.metas.get(name), graph.symbols.get(name)) {
            (Some(meta), _) => {
                let part = schema::part_of(meta.dtype);
                let dtype = schema::dtype_of(meta.dtype).or(part);
                let sizes = meta.sizes.iter().map(Dim::of);
                let sizes = sizes.chain(part.map(|_| Dim::Is(2))).collect();
                let dtype = dtype.ok_or_else(|| {
                    format!(
                        "takes {name:?} of PyTorch's dtype {}, which no tensor has",
                        meta.dtype
                    )
                })?;
                if let Some(Size::Is(size)) = meta
                    .sizes
                    .iter()
                    .find(|size| matches!(size, Size::Is(n) if *n < 0))
                {
                    return Err(format!("takes {name:?} of a size of {size}"));
                }
                Kind::Tensor {
                    dtype,
                    sizes,
                    is_complex: part.is_some(),
                }
            }
            (None, Some(Size::Expr(text, _))) => Kind::Int(match Expr::parse(text) {
                Some(Expr::Symbol(symbol)) => Some(symbol),
                _ => None,
            }),
            (None, Some(Size::Is(_))) => Kind::Int(None),
            (None, None) => Kind::Float,
        };
        self.input_names.push(name.to_owned());
        self.inputs.push(Input {
            name: name.to_owned(),
            path,
            slot: Some(self.builder.fresh(id)),
            kind,
            changed: None,
        });
        Ok(())
    }

    fn stored(
        &mut self,
        graph: &Graph,
        name: &str,
        key: &str,
        kind: StateKind,
        tensors: &mut HashMap<String, Value>,
    ) -> Result<()> {
        let meta = meta(graph, name)?;
        let (tensor, is_complex) = match tensors.get(key) {
            Some(Value::Tensor(tensor)) => (tensor.clone(), false),
            Some(Value::Complex(pairs)) => (pairs.clone(), true),
            _ => match self.tensors.get(key) {
                Some(tensor) => (tensor.clone(), schema::part_of(meta.dtype).is_some()),
                None => return Err(format!("needs {key:?}, which the file does not hold")),
            },
        };
        let dtype = schema::dtype_of(meta.dtype).or(schema::part_of(meta.dtype));
        let dims = &tensor.dims()[..tensor.rank() - usize::from(is_complex)];
        let known = meta.sizes.iter().map(Size::hint);
        let same = known.len() == dims.len()
            && known
                .zip(dims)
                .all(|(size, &is)| size.is_none_or(|size| size == is as i64));
        if dtype != Some(tensor.dtype()) || !same {
            let (is, shape) = (tensor.dtype(), tensor.shape());
            return Err(format!(
                "takes {key:?} of another dtype or shape than {is}{shape}, which the file holds"
            ));
        }
        let id = self.builder.entity();
        Builder::name(&mut self.names, name, id)?;
        self.state_names.push(name.to_owned());
        self.state.push(State {
            name: key.to_owned(),
            slot: Some(self.builder.fresh(id)),
            kind,
            changed: None,
            is_complex,
        });
        self.tensors.insert(key.to_owned(), tensor);
        Ok(())
    }

    fn outputs(&mut self, model: &Model) -> Result<Vec<Output>> {
        let paths = model.structure.as_ref().and_then(structure::outputs);
        let mut paths = paths.unwrap_or_default().into_iter();
        let mut outputs = Vec::new();
        for spec in &model.outputs {
            match spec {
                OutputSpec::User(arg) => {
                    let path = paths.next().unwrap_or_default();
                    let value = self.builder.arg(arg, &self.names)?;
                    if matches!(value, Arg::Text(_)) {
                        continue;
                    }
                    let name = match arg {
                        schema::Arg::Name(name) => name.clone(),
                        _ => format!("output_{}", outputs.len()),
                    };
                    outputs.push(Output { name, path, value });
                }
                OutputSpec::Buffer(name, key) => {
                    let slot = self.read(name)?;
                    let state = self.state.iter_mut().find(|state| state.name == *key);
                    state
                        .ok_or_else(|| format!("changes {key:?}, which it does not have"))?
                        .changed = Some(slot);
                }
                OutputSpec::Input(name, key) => {
                    let slot = self.read(name)?;
                    let input = self.inputs.iter_mut().find(|input| input.name == *key);
                    input
                        .ok_or_else(|| format!("changes {key:?}, which it does not have"))?
                        .changed = Some(slot);
                }
                OutputSpec::Token => {}
                OutputSpec::Other(kind) => return Err(format!("has an output {kind:?}")),
            }
        }
        Ok(outputs)
    }

    fn read(&mut self, name: &str) -> Result<usize> {
        match self
            .builder
            .arg(&schema::Arg::Name(name.to_owned()), &self.names)?
        {
            Arg::Slot(slot) => Ok(slot),
            _ => Err(format!("returns {name:?}, which is no tensor")),
        }
    }

    /// Inputs and state that operators wrote in place.
    fn changes(&mut self) {
        for (i, name) in self.input_names.iter().enumerate() {
            if let Some(&id) = self.names.get(name)
                && self.builder.is_written(id)
                && self.inputs[i].changed.is_none()
            {
                self.inputs[i].changed = Some(self.builder.fresh(id));
            }
        }
        for (i, name) in self.state_names.iter().enumerate() {
            if let Some(&id) = self.names.get(name)
                && self.builder.is_written(id)
                && self.state[i].changed.is_none()
            {
                self.state[i].changed = Some(self.builder.fresh(id));
            }
        }
    }
}
