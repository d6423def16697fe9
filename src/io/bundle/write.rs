//! Making bundles: the program is run on examples, and the kernels of its plans are compiled for each target.

use super::container::{Extras, write};
use super::content::{Content, Runnable};
use super::{Bundle, Fallback};
use crate::io::exported::ExportedProgram;
use crate::{ArgKind, Device, Error, Jit, JitFn, Mode, Result, Tensor, with_mode, with_tuning};
use ferrotrace_runtime::{Architecture, compile_pack};
use ferrotrace_tracer::{FunctionTrace, Graph, kernels_for, noting};
use std::path::{Path, PathBuf};

/// For what a bundle is made: targets by name, and where the weights lie.
///
/// The names of targets are `x86-64-v2`, `x86-64-v3`, `x86-64-v4` (levels of the x86-64 ABI: kernels of a lower one run on
/// processors of a higher one), `aarch64`, and `sm_80`, `sm_90a`, `sm_100` for CUDA devices, whose kernels are compiled
/// where NVRTC is.
///
/// ```
/// use ferrotrace::io::BundleOptions;
/// let options = BundleOptions::new().target("x86-64-v3")?.weights_in("model.safetensors");
/// assert!(BundleOptions::new().target("pdp-11").is_err());
/// # Ok::<(), ferrotrace::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct BundleOptions {
    targets: Vec<Architecture>,
    weights: Option<PathBuf>,
}

impl BundleOptions {
    /// For this machine's processor, weights inside.
    pub fn new() -> BundleOptions {
        BundleOptions::default()
    }

    /// For a target more. Without any, kernels are made for this machine's processor.
    ///
    /// # Errors
    /// `Argument`: no target is called so.
    pub fn target(mut self, name: &str) -> Result<BundleOptions> {
        let target = Architecture::of_name(name).ok_or_else(|| {
            let names = Architecture::ALL.map(Architecture::name).join(", ");
            Error::argument(format!("no target is called {name:?}: {names}"))
        })?;
        if !self.targets.contains(&target) {
            self.targets.push(target);
        }
        Ok(self)
    }

    /// Leaves the weights in a file of the bundle's folder, which must be there when the bundle is opened: a safetensors
    /// file, which is written if it is not there, or the archive of `torch.export` that the program came from.
    pub fn weights_in(mut self, file: impl AsRef<Path>) -> BundleOptions {
        self.weights = Some(file.as_ref().to_owned());
        self
    }
}

impl ExportedProgram {
    /// Writes the program, as it is now, to a bundle: see [`Bundle`](super::Bundle). It is run on examples of its inputs to
    /// learn which kernels it needs; its own state is not changed by that.
    ///
    /// # Errors
    /// As [`run`](ExportedProgram::run) of an example; `NoCompiler` and `Compile`; the file cannot be written.
    pub fn save_bundle(
        &self,
        path: impl AsRef<Path>,
        examples: &[&[&Tensor]],
        options: &BundleOptions,
    ) -> Result<()> {
        save(path.as_ref(), Content::of_program(self)?, examples, options)
    }
}

/// Writes a compiled function to a bundle: its traces for the signatures of these arguments, the tensors that it captured,
/// and its kernels. See [`Bundle`](super::Bundle).
///
/// The tensors of an argument, in order, are the bundle's inputs; one that stands in several places is one input. Numbers
/// among the arguments are as they are given here. Results are the function's tensors in order, then the values of the
/// buffers that it writes. Random numbers are drawn from the process's generator. Branches that no argument takes and steps
/// that none reaches have their kernels too.
///
/// ```
/// use ferrotrace::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("f.ftb");
/// let w = Tensor::ones([3, 2], DType::F32, &Device::cpu());
/// let f = jit(move |x: &Tensor| x.matmul(&w).relu());
/// let x = Tensor::ones([4, 3], DType::F32, &Device::cpu());
/// io::save_bundle(&path, &f, [&x], &io::BundleOptions::new())?;
///
/// let mut bundle = io::Bundle::open(&path)?;
/// assert_eq!(bundle.run(&[&x])?[0].to_vec::<f32>()?, [3.0; 8]);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// `Argument`: the function reads what it computes, gives an error, or draws from a generator of its own; `NoCompiler` and
/// `Compile`; the file cannot be written.
pub fn save_bundle<'a, F, S>(
    path: impl AsRef<Path>,
    function: &Jit<F, S>,
    arguments: impl IntoIterator<Item = <F::Kind as ArgKind>::Of<'a>>,
    options: &BundleOptions,
) -> Result<()>
where
    F: JitFn<S>,
{
    let mut traces: Vec<(FunctionTrace, Vec<Tensor>)> = Vec::new();
    let mut examples: Vec<Vec<Tensor>> = Vec::new();
    for argument in arguments {
        let (trace, constants, tensors) = function.portable(argument)?;
        let shapes: Vec<_> = tensors.iter().map(Tensor::shape).collect();
        let is_known = traces
            .iter()
            .any(|(known, _)| known.to_string() == trace.to_string() && known.holds_for(&shapes));
        if !is_known {
            traces.push((trace, constants));
        }
        examples.push(tensors);
    }
    let lists: Vec<Vec<&Tensor>> = examples.iter().map(|list| list.iter().collect()).collect();
    let lists: Vec<&[&Tensor]> = lists.iter().map(Vec::as_slice).collect();
    save(path.as_ref(), Content::of_traces(traces)?, &lists, options)
}

fn save(
    path: &Path,
    content: Content,
    examples: &[&[&Tensor]],
    options: &BundleOptions,
) -> Result<()> {
    let targets = match options.targets.is_empty() {
        true => vec![Architecture::host()],
        false => options.targets.clone(),
    };
    let on_cpu = graphs(path, &content, examples, &Device::cpu())?;
    let is_cpu = |target: &Architecture| matches!(target, Architecture::Cpu(_));
    // What a device's library has is not generated: without a device it is not known, and all is.
    let on_cuda = match targets.iter().all(is_cpu) {
        true => None,
        false => match Device::cuda(0) {
            Ok(device) => Some(graphs(path, &content, examples, &device)?),
            Err(_) => None,
        },
    };
    let mut kernels = Vec::new();
    for target in targets {
        let graphs = match (&on_cuda, is_cpu(&target)) {
            (Some(graphs), false) => graphs,
            _ => &on_cpu,
        };
        let mut sources = Vec::new();
        for graph in graphs {
            sources.extend(kernels_for(graph, target)?);
        }
        kernels.push((target, compile_pack(target, &sources)?));
    }
    let dims = |example: &&[&Tensor]| example.iter().map(|x| x.dims().to_vec()).collect();
    let extras = Extras {
        kernels,
        made_for: examples.iter().map(dims).collect(),
        weights: options.weights.as_deref(),
    };
    write(path, &content, extras)?;
    // What was written is read once, so that no bundle is left that does not open.
    Bundle::open_with(path, Fallback::Compile).map(drop)
}

/// The graphs of the plans that a program runs on a device for the examples.
fn graphs(
    path: &Path,
    content: &Content,
    examples: &[&[&Tensor]],
    device: &Device,
) -> Result<Vec<Graph>> {
    let mut runnable = content.clone().runnable(path, device)?;
    let ports = runnable.inputs();
    // Numbers stay where they are.
    let is_number = |i: usize| ports.get(i).is_some_and(|port| port.dtype.is_none());
    let moved = |(i, x): (usize, &&Tensor)| match is_number(i) {
        true => (*x).clone(),
        false => x.to_device(device),
    };
    let moved: Vec<Vec<Tensor>> = examples
        .iter()
        .map(|example| example.iter().enumerate().map(moved).collect())
        .collect();
    let lists: Vec<Vec<&Tensor>> = moved.iter().map(|list| list.iter().collect()).collect();
    let lists: Vec<&[&Tensor]> = lists.iter().map(Vec::as_slice).collect();
    // The kernels that compute the examples are none of the program's.
    crate::eval(moved.iter().flatten())?;
    let (ran, graphs) = noting(|| run_all(&mut runnable, &lists));
    ran.map(|()| graphs)
}

/// Runs each example twice: what a first call leaves behind may change what the second one does.
fn run_all(runnable: &mut Runnable, examples: &[&[&Tensor]]) -> Result<()> {
    with_tuning(false, || {
        with_mode(Mode::Compiled, || {
            for example in examples.iter().chain(examples) {
                runnable.run(example)?;
            }
            Ok(())
        })
    })
}
