//! What a bundle runs: a program of PyTorch's, or traces of a function.

use super::manifest::Kind;
use crate::io::TensorMap;
use crate::io::exported::{Document, ExportedProgram, Parts, Port};
use crate::io::file::broken;
use crate::{Device, Error, Result, Shape, Tensor, jit};
use ferrotrace_tracer::FunctionTrace;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// What a bundle is made of, apart from kernels.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub kind: Kind,
    /// The text of a program, or of each trace.
    pub texts: Vec<String>,
    pub tensors: BTreeMap<String, Tensor>,
}

/// What can be called.
pub(super) enum Runnable {
    Program(Box<ExportedProgram>),
    Function(Vec<Traced>, Device),
}

type Call = Box<dyn Fn(Vec<&Tensor>) -> Result<Vec<Tensor>> + Send + Sync>;

/// A trace, and the function that records it, compiled.
pub(super) struct Traced {
    pub trace: Arc<FunctionTrace>,
    constants: Arc<Vec<Tensor>>,
    call: Call,
}

/// The name of a constant of a trace.
pub(super) fn constant(trace: usize, number: usize) -> String {
    format!("{trace}.{number}")
}

impl Content {
    /// The program's, as it is now, on the CPU.
    pub fn of_program(program: &ExportedProgram) -> Result<Content> {
        let Parts {
            document,
            state,
            complex,
        } = program.parts();
        Ok(Content {
            kind: Kind::Program {
                narrowed: document.narrowed,
                complex,
            },
            texts: vec![document.text.clone()],
            tensors: dense(state)?,
        })
    }

    /// Some traces', each with its constants.
    pub fn of_traces(traces: Vec<(FunctionTrace, Vec<Tensor>)>) -> Result<Content> {
        let (mut texts, mut tensors) = (Vec::new(), BTreeMap::new());
        for (at, (trace, constants)) in traces.into_iter().enumerate() {
            texts.push(trace.to_string());
            let named = constants.into_iter().enumerate();
            tensors.extend(named.map(|(number, tensor)| (constant(at, number), tensor)));
        }
        Ok(Content {
            kind: Kind::Function {
                traces: texts.len(),
            },
            texts,
            tensors: dense(tensors)?,
        })
    }

    /// What can be called of it; errors name the file.
    pub fn runnable(self, path: &Path, device: &Device) -> Result<Runnable> {
        match self.kind {
            Kind::Program { narrowed, complex } => {
                let text = self.texts.into_iter().next().unwrap_or_default();
                let parts = Parts {
                    document: Arc::new(Document { text, narrowed }),
                    state: self.tensors,
                    complex,
                };
                let program = ExportedProgram::of_parts(path, parts)?;
                Runnable::Program(Box::new(program)).to(device)
            }
            Kind::Function { .. } => {
                let mut traced = Vec::new();
                for (at, text) in self.texts.iter().enumerate() {
                    let said =
                        |error: Error| broken(path, format!("its trace {at}: {}", error.kind()));
                    let trace: FunctionTrace = text.parse().map_err(said)?;
                    let constants = (0..trace.constants()).map(|number| {
                        let tensor = self.tensors.get(&constant(at, number)).cloned();
                        tensor.ok_or_else(|| {
                            broken(path, format!("lacks constant {number} of trace {at}"))
                        })
                    });
                    let constants = Arc::new(constants.collect::<Result<Vec<Tensor>>>()?);
                    traced.push(Traced::new(Arc::new(trace), constants, &Device::cpu()));
                }
                Runnable::Function(traced, Device::cpu()).to(device)
            }
        }
    }
}

/// Tensors on the CPU without gaps, computed.
fn dense(tensors: BTreeMap<String, Tensor>) -> Result<BTreeMap<String, Tensor>> {
    let dense =
        |(name, tensor): (String, Tensor)| (name, tensor.to_device(&Device::cpu()).contiguous());
    let made: BTreeMap<String, Tensor> = tensors.into_iter().map(dense).collect();
    crate::eval(made.values())?;
    Ok(made)
}

impl Traced {
    fn new(trace: Arc<FunctionTrace>, constants: Arc<Vec<Tensor>>, device: &Device) -> Traced {
        let (of, captured, device) = (trace.clone(), constants.clone(), device.clone());
        let function = jit(move |tensors: Vec<&Tensor>| of.record(&tensors, &captured, &device));
        let call: Call = match trace.is_frozen() {
            true => {
                let frozen = function.freeze();
                Box::new(move |tensors| frozen.call(tensors))
            }
            false => Box::new(move |tensors| function.call(tensors)),
        };
        Traced {
            trace,
            constants,
            call,
        }
    }
}

impl Runnable {
    /// The same on a device.
    pub fn to(&self, device: &Device) -> Result<Runnable> {
        Ok(match self {
            Runnable::Program(program) if *device == Device::cpu() => {
                Runnable::Program(program.clone())
            }
            Runnable::Program(program) => Runnable::Program(Box::new(program.to(device)?)),
            Runnable::Function(traces, _) => {
                let moved = traces.iter().map(|traced| {
                    let constants = traced.constants.iter();
                    let constants: Vec<Tensor> =
                        constants.map(|tensor| tensor.to_device(device)).collect();
                    crate::eval(&constants)?;
                    Ok(Traced::new(
                        traced.trace.clone(),
                        Arc::new(constants),
                        device,
                    ))
                });
                Runnable::Function(moved.collect::<Result<_>>()?, device.clone())
            }
        })
    }

    /// Runs it; the results are computed, so that their kernels are found while those of the bundle are looked through.
    pub fn run(&mut self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let results = match self {
            Runnable::Program(program) => program.run(inputs)?,
            Runnable::Function(traces, device) => {
                let traced = fitting(traces, inputs, device)?;
                (traced.call)(inputs.to_vec())?
            }
        };
        crate::eval(&results)?;
        Ok(results)
    }

    pub fn inputs(&self) -> Vec<Port> {
        let Runnable::Function(traces, _) = self else {
            return match self {
                Runnable::Program(program) => program.inputs(),
                Runnable::Function(..) => Vec::new(),
            };
        };
        let Some(first) = traces.first() else {
            return Vec::new();
        };
        let (trace, alone) = (&first.trace, traces.len() == 1);
        let port = |(number, (dtype, shape)): (usize, &(crate::DType, Shape))| Port {
            name: format!("input_{number}"),
            path: String::new(),
            dtype: Some(*dtype),
            sizes: shape
                .iter()
                .enumerate()
                .map(
                    |(d, size)| match alone && !trace.has_any_sizes() || *size == 1 {
                        true => size.to_string(),
                        false => format!("s{number}_{d}"),
                    },
                )
                .collect(),
            is_changed: false,
        };
        trace.arguments().iter().enumerate().map(port).collect()
    }

    pub fn outputs(&self) -> Vec<Port> {
        match self {
            Runnable::Program(program) => program.outputs(),
            Runnable::Function(traces, _) => {
                let results = traces.first().map_or(0, |first| first.trace.results());
                let port = |number| Port {
                    name: format!("output_{number}"),
                    path: String::new(),
                    dtype: None,
                    sizes: Vec::new(),
                    is_changed: false,
                };
                (0..results).map(port).collect()
            }
        }
    }

    pub fn state(&self) -> TensorMap {
        match self {
            Runnable::Program(program) => program.state_dict(),
            Runnable::Function(..) => TensorMap::default(),
        }
    }
}

/// The trace for these inputs.
fn fitting<'a>(traces: &'a [Traced], inputs: &[&Tensor], device: &Device) -> Result<&'a Traced> {
    for input in inputs {
        if let Some(error) = input.error() {
            return Err(error);
        }
        if input.device() != *device {
            let is = input.device();
            return Err(Error::argument(format!(
                "an input is on {is} where the bundle is on {device}"
            )));
        }
    }
    let shapes: Vec<&Shape> = inputs.iter().map(|input| input.shape()).collect();
    let same_dtypes = |traced: &Traced| {
        let arguments = traced.trace.arguments().iter();
        arguments
            .zip(inputs)
            .all(|((dtype, _), input)| *dtype == input.dtype())
    };
    let exact = |traced: &&Traced| {
        let arguments = traced.trace.arguments();
        arguments.len() == shapes.len() && arguments.iter().zip(&shapes).all(|((_, a), b)| a == *b)
    };
    let holds = |traced: &&Traced| traced.trace.holds_for(&shapes);
    let mut fit = traces.iter().filter(|traced| same_dtypes(traced));
    let found = fit.clone().find(exact).or_else(|| fit.find(holds));
    found.ok_or_else(|| {
        let shown = |list: Vec<String>| list.join(", ");
        let given = inputs.iter().map(|x| format!("{}{}", x.dtype(), x.shape()));
        let takes = traces.iter().map(|traced| {
            let arguments = traced.trace.arguments().iter();
            let each = arguments.map(|(dtype, shape)| format!("{dtype}{shape}"));
            let sizes = match traced.trace.has_any_sizes() {
                true => " (or other sizes)",
                false => "",
            };
            format!("({}){sizes}", shown(each.collect()))
        });
        let (given, takes) = (shown(given.collect()), shown(takes.collect()));
        Error::shape(format!("the bundle takes {takes}, and is given ({given})"))
    })
}
