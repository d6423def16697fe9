//! Programs that `torch.export.save` wrote.

mod build;
mod call;
mod control;
mod link;
mod open;
mod ops;
mod portable;
mod program;
mod run;
mod schema;
mod structure;
mod symbols;
mod write_back;

use super::tensor_map::TensorMap;
use crate::{DType, Device, Error, Jit, Result, Shape, Tensor, jit};
use call::{Arg, Value};
pub(super) use portable::{Document, Parts};
use program::{Kind, Program, StateKind};
use run::Given;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// A program as a function of what is given, numbers, and the state that it may write over.
type Replay = Arc<dyn Fn(&Given<'_>, Vec<Tensor>) -> Result<Vec<Tensor>> + Send + Sync>;

/// A program of PyTorch's, loaded from an archive of `torch.export.save` (`.pt2`, of PyTorch 2.6 and later).
///
/// The graph of ATen operators in the archive becomes a trace of this library's, which runs eager or compiled, on the CPU
/// or on CUDA. Nothing of Python's is run. Parameters, buffers and constants are views of the mapped file.
///
/// ```no_run
/// use ferrotrace::prelude::*;
///
/// let mut program = io::ExportedProgram::load("model.pt2")?;
/// let x = Tensor::randn([8, 3, 224, 224], DType::F32, &Device::cpu());
/// let outputs = program.run(&[&x])?;
/// println!("{}", outputs[0]);
/// # Ok::<(), Error>(())
/// ```
///
/// **Inputs** are tensors and numbers, in the order of [`inputs`](Self::inputs): nested structures are flattened, as
/// PyTorch does it, and values that were fixed when the program was exported (`None` among them) are left out. A number is
/// a tensor of one element. **Outputs** are flattened alike, numbers as tensors of no dimensions (`I64`, `F64` or `Bool`),
/// without `None`.
///
/// Operators that write (into a cache, into running statistics) write new values here. [`run`](Self::run) keeps those of
/// buffers in the program's state, in the same memory, and returns those of inputs behind the outputs.
///
/// A call replays what an earlier call of the same sizes compiled: see [`jit`](crate::jit). In [`Mode::Eager`](crate::Mode)
/// operators run one by one.
#[derive(Clone)]
pub struct ExportedProgram {
    program: Arc<Program>,
    state: BTreeMap<String, Tensor>,
    /// The part of the state that a failed call wrote over, until it is given anew.
    lost: BTreeMap<String, Spec>,
    device: Device,
    /// Calls that ran to their end with what they were given: their state may be written over.
    known: HashSet<u64>,
    own: Arc<OnceLock<Replay>>,
    pure: Arc<OnceLock<Replay>>,
    /// What the program was linked from.
    document: Arc<Document>,
}

/// What may stand for a tensor of the state.
#[derive(Clone, PartialEq)]
struct Spec {
    dtype: DType,
    shape: Shape,
}

impl Spec {
    fn of(tensor: &Tensor) -> Spec {
        Spec {
            dtype: tensor.dtype(),
            shape: tensor.shape().clone(),
        }
    }

    fn on(&self, device: &Device) -> String {
        format!("{}{} on {device:?}", self.dtype, self.shape)
    }
}

/// An input or output of a program: see [`ExportedProgram::inputs`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Port {
    /// The name in the program's graph, as the signature of PyTorch's `ExportedProgram` shows it.
    pub name: String,
    /// The place in the arguments of the Python program, `x` or `options["scale"]`, or in what it returns, `["logits"]` or
    /// `[0]`; empty for an only output, and where the archive does not say.
    pub path: String,
    /// The dtype of a tensor; `None` for a number, and for outputs that are known when they are computed.
    pub dtype: Option<DType>,
    /// The sizes of a tensor: numbers, or the names of symbols.
    pub sizes: Vec<String>,
    /// Whether the program writes it.
    pub is_changed: bool,
}

impl ExportedProgram {
    /// Loads a program onto the CPU.
    ///
    /// # Errors
    /// `Io`: the file cannot be read, is no archive of `torch.export.save`, is truncated or damaged; its schema is of
    /// another major version; a tensor is missing or does not fit; or it holds operators that are not known here, which
    /// the error lists.
    ///
    /// ```
    /// use ferrotrace::prelude::*;
    /// assert!(io::ExportedProgram::load("no such file").is_err());
    /// ```
    pub fn load(path: impl AsRef<Path>) -> Result<ExportedProgram> {
        let path = path.as_ref();
        let (text, tensors) = open::open(path)?;
        let document = Document {
            text,
            narrowed: None,
        };
        ExportedProgram::linked(path, document, tensors)
    }

    /// The operators that programs may hold, as `aten.add.Tensor`. Those that write their first argument
    /// (`aten.add_.Tensor`) and copies of views (`aten.view_copy.default`) are taken too.
    ///
    /// ```
    /// use ferrotrace::io::ExportedProgram;
    /// assert!(ExportedProgram::known_operators().contains(&"aten.convolution.default"));
    /// ```
    pub fn known_operators() -> Vec<&'static str> {
        ops::names()
    }

    /// What a call takes, in order. Complex numbers are given as pairs, a last dimension of 2.
    pub fn inputs(&self) -> Vec<Port> {
        let port = |input: &program::Input| {
            let (dtype, sizes) = match &input.kind {
                Kind::Tensor { dtype, sizes, .. } => (
                    Some(*dtype),
                    sizes.iter().map(ToString::to_string).collect(),
                ),
                _ => (None, Vec::new()),
            };
            Port {
                name: input.name.clone(),
                path: input.path.clone(),
                dtype,
                sizes,
                is_changed: input.changed.is_some(),
            }
        };
        self.program.inputs.iter().map(port).collect()
    }

    /// What a call gives, in order, `None` left out: the outputs, then the inputs that it changes.
    pub fn outputs(&self) -> Vec<Port> {
        let port = |name: &str, path: &str, is_changed| Port {
            name: name.to_owned(),
            path: path.to_owned(),
            dtype: None,
            sizes: Vec::new(),
            is_changed,
        };
        let given = self
            .program
            .outputs
            .iter()
            .filter(|output| !matches!(output.value, Arg::None));
        let changed = self
            .program
            .inputs
            .iter()
            .filter(|input| input.changed.is_some());
        given
            .map(|output| port(&output.name, &output.path, false))
            .chain(changed.map(|input| port(&input.name, &input.path, true)))
            .collect()
    }

    /// The least and the greatest value of a symbol that stands for sizes, if its name is one.
    pub fn range(&self, symbol: &str) -> Option<(usize, usize)> {
        let range = self
            .program
            .ranges
            .iter()
            .find(|range| range.symbol == symbol)?;
        let end = |end: Option<i64>| end.and_then(|end| usize::try_from(end).ok());
        Some((
            end(range.min).unwrap_or(0),
            end(range.max).unwrap_or(usize::MAX),
        ))
    }

    /// Parameters, buffers and constants by qualified name, as they are now.
    pub fn state_dict(&self) -> TensorMap {
        self.state.clone().into()
    }

    /// The names of parameters, in the order of the program: what is trained.
    pub fn parameters(&self) -> Vec<String> {
        self.of_kind(|state| state.kind == StateKind::Parameter)
    }

    /// The names of the parameters, buffers and constants that a call changes.
    pub fn changed(&self) -> Vec<String> {
        self.of_kind(|state| state.changed.is_some())
    }

    fn of_kind(&self, is: impl Fn(&program::State) -> bool) -> Vec<String> {
        let state = self.program.state.iter().filter(|state| is(state));
        state.map(|state| state.name.clone()).collect()
    }

    /// Replaces tensors of the state by name, those that a failed call lost among them.
    ///
    /// # Errors
    /// `Argument`: a name that the program does not have, or a tensor of another dtype, shape or device.
    pub fn load_state(&mut self, tensors: &TensorMap) -> Result<()> {
        for (name, tensor) in tensors {
            let old = self.state.get(name).map(Spec::of);
            let old = old.or_else(|| self.lost.get(name).cloned());
            let old = old.ok_or_else(|| {
                let names = self.state.keys().chain(self.lost.keys());
                Error::argument(super::tensor_map::absent(
                    "tensor",
                    name,
                    names.map(String::as_str),
                ))
            })?;
            let new = Spec::of(tensor);
            if old != new || self.device != tensor.device() {
                let (was, is) = (old.on(&self.device), new.on(&tensor.device()));
                return Err(Error::argument(format!(
                    "{name:?} is {is} where the program has {was}"
                )));
            }
        }
        for (name, tensor) in tensors {
            self.lost.remove(name);
            self.state.insert(name.to_owned(), tensor.clone());
        }
        // What a call does not change is compiled in.
        let changed = self.changed();
        if tensors
            .iter()
            .any(|(name, _)| !changed.iter().any(|own| own == name))
        {
            self.forget();
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.own = Arc::default();
        self.pure = Arc::default();
        self.known.clear();
    }

    /// The program on a device, where its operators make their tensors too.
    ///
    /// # Errors
    /// The state cannot be moved.
    pub fn to(&self, device: &Device) -> Result<ExportedProgram> {
        self.with_state(
            |tensor| tensor.to_device(device),
            self.program.clone(),
            device,
            self.document.clone(),
        )
    }

    /// The program in `F16`: its parameters and other `F32` tensors, its `F32` inputs, and what operators are told to make
    /// `F32`.
    ///
    /// # Errors
    /// The state cannot be computed.
    pub fn half(&self) -> Result<ExportedProgram> {
        self.narrowed(DType::F16)
    }

    /// The program in `BF16`: see [`half`](Self::half).
    ///
    /// # Errors
    /// The state cannot be computed.
    pub fn bfloat16(&self) -> Result<ExportedProgram> {
        self.narrowed(DType::BF16)
    }

    fn narrowed(&self, dtype: DType) -> Result<ExportedProgram> {
        let program = self.program.narrowed(dtype);
        let document = Document {
            text: self.document.text.clone(),
            // What was narrow before has no `F32` left.
            narrowed: self.document.narrowed.or(Some(dtype)),
        };
        let cast = |tensor: &Tensor| match tensor.dtype() {
            DType::F32 => tensor.to_dtype(dtype),
            _ => tensor.clone(),
        };
        self.with_state(cast, Arc::new(program), &self.device, Arc::new(document))
    }

    fn with_state(
        &self,
        f: impl Fn(&Tensor) -> Tensor,
        program: Arc<Program>,
        device: &Device,
        document: Arc<Document>,
    ) -> Result<ExportedProgram> {
        let mut made: BTreeMap<String, Tensor> = BTreeMap::new();
        for (name, tensor) in &self.state {
            made.insert(name.clone(), f(tensor));
        }
        crate::eval(made.values())?;
        Ok(ExportedProgram {
            program,
            state: made,
            lost: self.lost.clone(),
            device: device.clone(),
            known: HashSet::new(),
            own: Arc::default(),
            pure: Arc::default(),
            document,
        })
    }

    /// Runs the program: its outputs, then the inputs that it changes, as they are after the call. Buffers that it
    /// changes are the program's own from then on.
    ///
    /// The first call with some sizes leaves the state as it was where it fails. Later ones write over the buffers that
    /// the program changes, so that a failure while they run loses these buffers:
    /// [`load_state`](Self::load_state) gives them anew.
    ///
    /// # Errors
    /// Inputs of another number, dtype, shape or device than the program takes; sizes outside its ranges or against its
    /// guards; an assertion of the program that does not hold; a buffer that a failed call lost; what computing meets.
    pub fn run(&mut self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let given = self.program.bind(inputs, &self.device)?;
        if let Some(name) = self.lost.keys().next() {
            return Err(Error::argument(format!(
                "a call that failed wrote over {name:?}: load_state gives it anew"
            )));
        }
        let key = given.key();
        let replay = self
            .own
            .get_or_init(|| own(&self.program, &self.state, &self.device))
            .clone();
        let changed = self.changed();
        let is_known = self.known.contains(&key);
        let mut changing = Vec::new();
        for name in &changed {
            let tensor = match is_known {
                true => self.state.remove(name),
                false => self.state.get(name).cloned(),
            };
            changing.push(tensor.ok_or_else(|| Error::internal(format!("no state {name:?}")))?);
        }
        let kinds: Vec<Spec> = changing.iter().map(Spec::of).collect();
        let count = changed.len();
        let results = replay(&given, changing).and_then(|mut results| {
            let new = results.split_off(results.len() - count);
            crate::eval(new.iter())?;
            Ok((results, new))
        });
        match results {
            Ok((results, new)) => {
                self.state.extend(changed.into_iter().zip(new));
                self.known.insert(key);
                Ok(results)
            }
            Err(error) => {
                if is_known {
                    self.lost.extend(changed.into_iter().zip(kinds));
                }
                Err(error)
            }
        }
    }

    /// The results of [`run`](Self::run) as recorded operations, for [`explain`](crate::explain()): nothing runs, but what
    /// the program reads to decide by.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn record(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let given = self.program.bind(inputs, &self.device)?;
        let state = self
            .program
            .state
            .iter()
            .filter_map(|own| self.state.get(&own.name));
        recorded(
            &self.program,
            &self.device,
            &[],
            &given,
            state.cloned().collect(),
            |_| true,
        )
    }

    /// The operators of the program by name, and how many of each, most first.
    pub fn operators(&self) -> Vec<(String, usize)> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for step in &self.program.steps {
            *counts.entry(&step.target).or_default() += 1;
        }
        let mut counts: Vec<(String, usize)> = counts
            .into_iter()
            .map(|(name, n)| (name.to_owned(), n))
            .collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        counts
    }

    /// Runs the program on a state of the caller's: its outputs, then the inputs that it changes, then the tensors of the
    /// state that it changes, in the order of [`changed`](Self::changed). The program stays as it is, so that many threads
    /// may call it. Results have gradients by inputs and by the state.
    ///
    /// # Errors
    /// As [`run`](Self::run); the state lacks a tensor.
    pub fn run_pure(&self, state: &TensorMap, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let given = self.program.bind(inputs, &self.device)?;
        let all: Result<Vec<Tensor>> = self
            .program
            .state
            .iter()
            .map(|own| state.tensor(&own.name).cloned())
            .collect();
        let replay = self.pure.get_or_init(|| pure(&self.program, &self.device));
        replay(&given, all?)
    }
}

impl Given<'_> {
    /// What calls of one trace share.
    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for tensor in &self.tensors {
            tensor.dims().hash(&mut hasher);
        }
        self.ints.hash(&mut hasher);
        hasher.finish()
    }
}

/// The program compiled with its state: what it does not change is captured, as constants.
fn own(program: &Arc<Program>, state: &BTreeMap<String, Tensor>, device: &Device) -> Replay {
    let fixed = program.state.iter().filter(|own| own.changed.is_none());
    let fixed: Vec<(usize, Value)> = fixed
        .filter_map(|own| Some((own.slot?, own.value(state.get(&own.name)?))))
        .collect();
    compiled(program, device, fixed, |state| state.changed.is_some())
}

/// The program compiled as a function of its whole state.
fn pure(program: &Arc<Program>, device: &Device) -> Replay {
    compiled(program, device, Vec::new(), |_| true)
}

impl program::State {
    fn value(&self, tensor: &Tensor) -> Value {
        Value::of(tensor, self.is_complex)
    }
}

fn compiled(
    program: &Arc<Program>,
    device: &Device,
    fixed: Vec<(usize, Value)>,
    is_given: fn(&program::State) -> bool,
) -> Replay {
    let (program, device) = (program.clone(), device.clone());
    let function = jit(
        move |(tensors, ints, floats, state): (Vec<&Tensor>, Vec<i64>, Vec<f64>, Vec<Tensor>)| {
            let given = Given {
                tensors,
                ints,
                floats,
            };
            recorded(&program, &device, &fixed, &given, state, is_given)
        },
    );
    called(function)
}

/// Records the program, of which a part of the state is fixed and the rest given.
fn recorded(
    program: &Program,
    device: &Device,
    fixed: &[(usize, Value)],
    given: &Given<'_>,
    state: Vec<Tensor>,
    is_given: fn(&program::State) -> bool,
) -> Result<Vec<Tensor>> {
    let mut values = vec![Value::None; program.slots];
    for (slot, value) in fixed {
        values[*slot] = value.clone();
    }
    let mut state = state.into_iter();
    for own in program.state.iter().filter(|own| is_given(own)) {
        if let (Some(slot), Some(tensor)) = (own.slot, state.next()) {
            values[slot] = own.value(&tensor);
        }
    }
    let mut tensors = given.tensors.iter().copied();
    let (mut ints, mut floats) = (given.ints.iter(), given.floats.iter());
    for input in &program.inputs {
        let value = match input.kind {
            Kind::Tensor { is_complex, .. } => tensors.next().map(|x| Value::of(x, is_complex)),
            Kind::Float => floats.next().copied().map(Value::Float),
            Kind::Int(_) => ints.next().copied().map(Value::Int),
        };
        if let (Some(slot), Some(value)) = (input.slot, value) {
            values[slot] = value;
        }
    }
    program.steps(values, device)
}

/// A compiled function as one of what is given.
fn called<F, S>(function: Jit<F, S>) -> Replay
where
    F: crate::JitFn<S, Output = Result<Vec<Tensor>>> + Send + Sync + 'static,
    S: 'static,
    for<'a> F::Kind: crate::ArgKind<Of<'a> = (Vec<&'a Tensor>, Vec<i64>, Vec<f64>, Vec<Tensor>)>,
{
    Arc::new(move |given: &Given<'_>, state: Vec<Tensor>| {
        let Given {
            tensors,
            ints,
            floats,
        } = given;
        function.call((tensors.clone(), ints.clone(), floats.clone(), state))
    })
}

impl fmt::Debug for ExportedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExportedProgram")
            .field("inputs", &self.program.inputs.len())
            .field("steps", &self.program.steps.len())
            .field("state", &self.state.len())
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}
