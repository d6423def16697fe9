//! Bundles: programs with their kernels, which run where no compiler is.

mod container;
mod content;
mod manifest;
mod write;

pub use write::{BundleOptions, save_bundle};

use super::exported::Port;
use super::file::broken;
use super::tensor_map::TensorMap;
use crate::{Device, Error, ErrorKind, Mode, Result, Tensor, with_mode, with_tuning};
use container::Container;
use content::Runnable;
use ferrotrace_runtime::{Architecture, Missing, Pack};
use ferrotrace_tracer::current_mode;
use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a [`Bundle`] does on a machine, or for sizes, that it has no kernels for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Fallback {
    /// They are compiled, as for every program; where no compiler is, ready-made kernels stand in for them.
    #[default]
    Compile,
    /// Such calls run operation by operation on ready-made kernels, as in [`Mode::Eager`](crate::Mode): nothing is compiled.
    ReadyMade,
    /// It is an error: of opening the bundle, or, for sizes, of the call (`NoKernel`).
    Error,
}

/// A program with its kernels in one file: it runs in a process that has neither a compiler nor NVRTC.
///
/// A bundle is made of a program of PyTorch's ([`ExportedProgram::save_bundle`](super::ExportedProgram::save_bundle), or
/// `ferrotrace bundle model.pt2 -o model.ftb` in a shell) or of a compiled function ([`save_bundle`]). It holds the program,
/// its weights (or the name of a file beside it), and kernels for named targets. Plans are made again at the first call of
/// each sizes, and find their kernels in the bundle.
///
/// A kernel in a bundle is found by its text and its target. A bundle is for the version of this library that made it:
/// another one may generate other texts. [`Fallback`] says what happens where kernels are missing.
///
/// **Opening a bundle loads machine code into the process.** Open bundles of those alone whose programs you would run.
///
/// ```
/// use ferrotrace::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("f.ftb");
/// let f = jit(|x: &Tensor| (x - x.mean_keepdim(-1)).exp());
/// let x = Tensor::randn([8, 100], DType::F32, &Device::cpu());
/// io::save_bundle(&path, &f, [&x], &io::BundleOptions::new())?;
///
/// let mut bundle = io::Bundle::open_with(&path, io::Fallback::Error)?;
/// let y = &bundle.run(&[&x])?[0];
/// assert!(y.allclose(&f.call(&x), 0.0, 0.0)?);
/// # Ok::<(), Error>(())
/// ```
pub struct Bundle {
    path: PathBuf,
    container: Arc<Container>,
    runnable: Runnable,
    /// The kernels for the device, if there are any.
    pack: Option<Pack>,
    fallback: Fallback,
    /// The sizes of calls that lack kernels and run on ready-made ones.
    ready_made: HashSet<Vec<Vec<usize>>>,
}

impl Bundle {
    /// Opens a bundle onto the CPU, with [`Fallback::Compile`].
    ///
    /// # Errors
    /// `Io`: the file cannot be read, is no bundle, is of another version of the format, is truncated or damaged (every part
    /// has a checksum), or lacks its weights; what it holds is wrong, as [`ExportedProgram::load`](super::ExportedProgram::load)
    /// says.
    ///
    /// ```
    /// use ferrotrace::prelude::*;
    /// assert!(io::Bundle::open("no such file").is_err());
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Bundle> {
        Bundle::open_with(path, Fallback::default())
    }

    /// Opens a bundle onto the CPU.
    ///
    /// # Errors
    /// As [`open`](Bundle::open); under [`Fallback::Error`], a bundle without kernels for this machine.
    pub fn open_with(path: impl AsRef<Path>, fallback: Fallback) -> Result<Bundle> {
        Bundle::open_on(path, fallback, &Device::cpu())
    }

    /// Opens a bundle onto a device: for one of CUDA's on a machine without NVRTC,
    /// [`Device::cuda_without_compiler`](crate::Device::cuda_without_compiler).
    ///
    /// # Errors
    /// As [`open`](Bundle::open); under [`Fallback::Error`], a bundle without kernels for the device.
    pub fn open_on(path: impl AsRef<Path>, fallback: Fallback, device: &Device) -> Result<Bundle> {
        let path = path.as_ref();
        let container = Arc::new(Container::open(path)?);
        let pack = kernels(path, &container, device, fallback)?;
        Ok(Bundle {
            path: path.to_owned(),
            runnable: container.content()?.runnable(path, device)?,
            container,
            pack,
            fallback,
            ready_made: HashSet::new(),
        })
    }

    /// The bundle on a device, with its kernels for that.
    ///
    /// # Errors
    /// The state cannot be moved; under [`Fallback::Error`], a bundle without kernels for the device.
    pub fn to(&self, device: &Device) -> Result<Bundle> {
        Ok(Bundle {
            path: self.path.clone(),
            pack: kernels(&self.path, &self.container, device, self.fallback)?,
            runnable: self.runnable.to(device)?,
            container: self.container.clone(),
            fallback: self.fallback,
            ready_made: HashSet::new(),
        })
    }

    /// What a call takes, in order. The tensors of a function are called `input_0`, ..; sizes that it was not asked for have
    /// names.
    pub fn inputs(&self) -> Vec<Port> {
        self.runnable.inputs()
    }

    /// What a call gives, in order.
    pub fn outputs(&self) -> Vec<Port> {
        self.runnable.outputs()
    }

    /// Parameters, buffers and constants of a program of PyTorch's, as they are now.
    pub fn state_dict(&self) -> TensorMap {
        self.runnable.state()
    }

    /// The names of the targets that it has kernels for.
    pub fn targets(&self) -> Vec<String> {
        let targets = self.container.manifest.targets.iter();
        targets.map(|target| target.name()).collect()
    }

    /// The target whose kernels are used here, if there are any.
    pub fn target(&self) -> Option<String> {
        let pack = self.pack.as_ref();
        pack.map(|pack| pack.architecture().name())
    }

    /// The shapes of the inputs of each call that kernels were made for. Other sizes of the same form (none of them 0 or 1
    /// where these are not) mostly need the same kernels.
    pub fn made_for(&self) -> &[Vec<Vec<usize>>] {
        &self.container.manifest.made_for
    }

    /// Runs the program: its outputs, then the inputs that it changes. What it changes of its state is the bundle's own from
    /// then on, and not written to the file.
    ///
    /// # Errors
    /// Inputs that the program does not take, and what computing meets; under [`Fallback::Error`], `NoKernel` where the
    /// bundle has no kernels for these sizes.
    pub fn run(&mut self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        // What computes the inputs is the caller's program, whose kernels are no bundle's.
        crate::eval(inputs.iter().copied())?;
        let sizes: Vec<Vec<usize>> = inputs.iter().map(|x| x.dims().to_vec()).collect();
        if self.ready_made.contains(&sizes) {
            return with_mode(Mode::Eager, || self.runnable.run(inputs));
        }
        let result = match &self.pack {
            None if self.fallback == Fallback::Compile => return self.runnable.run(inputs),
            None => return with_mode(Mode::Eager, || self.runnable.run(inputs)),
            Some(pack) => {
                let missing = match self.fallback {
                    Fallback::Compile => Missing::Compile,
                    Fallback::ReadyMade | Fallback::Error => Missing::Refuse,
                };
                let mode = match current_mode() {
                    Mode::Eager => Mode::Eager,
                    _ => Mode::Compiled,
                };
                let run = || with_mode(mode, || self.runnable.run(inputs));
                pack.with(missing, || with_tuning(false, run))
            }
        };
        match result {
            Err(error)
                if self.fallback == Fallback::ReadyMade
                    && matches!(error.kind(), ErrorKind::NoKernel(_)) =>
            {
                self.ready_made.insert(sizes);
                with_mode(Mode::Eager, || self.runnable.run(inputs))
            }
            Err(error) => Err(self.told(error)),
            result => result,
        }
    }
}

impl Bundle {
    /// A missing kernel as an error of the bundle, not of the operation that needs it.
    fn told(&self, error: Error) -> Error {
        let ErrorKind::NoKernel(message) = error.kind() else {
            return error;
        };
        let path = self.path.display();
        let (by, here) = (&self.container.manifest.library, env!("CARGO_PKG_VERSION"));
        let versions = match by == here {
            true => String::new(),
            false => format!(" (it is of version {by}, and this is {here})"),
        };
        Error::new(ErrorKind::NoKernel(format!("{path}: {message}{versions}")))
    }
}

/// The kernels for a device: of several levels of its processor the highest.
fn kernels(
    path: &Path,
    container: &Container,
    device: &Device,
    fallback: Fallback,
) -> Result<Option<Pack>> {
    let targets = &container.manifest.targets;
    let (found, here) = match device.is_cpu() {
        true => {
            let mut fit: Vec<Architecture> = targets.clone();
            fit.retain(|target| target.runs_here());
            let level = |target: &Architecture| match target {
                Architecture::Cpu(isa) => Some(*isa),
                Architecture::Cuda(_) | Architecture::Ptx(_) => None,
            };
            fit.sort_by_key(level);
            (fit.pop(), Architecture::host())
        }
        false => {
            let (capability, _) = device.capability()?;
            let mut fit = targets.clone();
            fit.retain(|target| target.runs_on(capability));
            // A cubin before PTX.
            fit.sort_by_key(|target| matches!(target, Architecture::Cuda(_)));
            (fit.pop(), Architecture::Cuda(capability))
        }
    };
    match found {
        Some(target) => Pack::new(target, container.kernels(target))
            .map(Some)
            .map_err(|error| broken(path, error.to_string())),
        None if fallback == Fallback::Error => {
            let names: Vec<String> = targets.iter().map(|target| target.name()).collect();
            let (has, here) = (names.join(", "), here.name());
            Err(broken(
                path,
                format!("has kernels for {has}, where {here} is needed"),
            ))
        }
        None => Ok(None),
    }
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bundle")
            .field("path", &self.path)
            .field("targets", &self.targets())
            .field("pack", &self.pack)
            .field("fallback", &self.fallback)
            .finish_non_exhaustive()
    }
}
