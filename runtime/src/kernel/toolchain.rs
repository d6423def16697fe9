//! What makes machine code of sources, and loads it: the host's C compiler, or NVRTC and a device.

use super::{Architecture, Code, KernelSource};
use crate::compiler::CCompiler;
use crate::compiler::library::Library;
use crate::cuda::{self, Nvrtc};
use crate::{Device, Error, Isa, Result};
use std::ffi::CString;
use std::sync::Arc;

/// What compiles and loads the kernels of a device.
#[derive(Clone, Copy, Debug)]
pub(super) enum Toolchain {
    Host,
    Cuda(&'static cuda::Context),
}

/// A loaded artifact.
#[derive(Clone, Debug)]
pub(super) enum Image {
    Host(Arc<Library>),
    Cuda(Arc<cuda::Module>),
}

/// The device that code is loaded on; none for the host.
pub(super) type Place = Option<u32>;

/// What the keys of kernels for an architecture state. Devices of one architecture run the same machine code.
fn cuda_identity(compiler: &Nvrtc, arch: &str) -> String {
    format!("cuda {}", compiler.identity(arch))
}

impl Toolchain {
    pub(super) fn of(device: &Device) -> Result<Toolchain> {
        Ok(match device.cuda_index() {
            None => Toolchain::Host,
            Some(index) => Toolchain::Cuda(cuda::context(index)?),
        })
    }

    /// What kernels' keys state of the toolchain.
    pub(super) fn identity(&self) -> Result<String> {
        match self {
            Toolchain::Host => match CCompiler::identity() {
                Some(identity) => Ok(format!("{identity} {:?}", Isa::host())),
                None => Err(CCompiler::get()
                    .err()
                    .unwrap_or_else(|| Error::internal("a compiler without identity"))),
            },
            Toolchain::Cuda(context) => Ok(cuda_identity(Nvrtc::get()?, context.arch())),
        }
    }

    /// Whether it loads code for an architecture.
    pub(super) fn runs(&self, architecture: Architecture) -> bool {
        match self {
            Toolchain::Host => architecture.runs_here(),
            Toolchain::Cuda(context) => architecture.runs_on(context.capability().0),
        }
    }

    /// Where machine code is loaded: on a CUDA device into that device's context, not into another's.
    pub(super) fn place(&self) -> Place {
        match self {
            Toolchain::Host => None,
            Toolchain::Cuda(context) => Some(context.index()),
        }
    }

    /// Whether only kernels of one base share a file, and only where there are more kernels than compile at a time.
    pub(super) fn has_bases(&self) -> bool {
        matches!(self, Toolchain::Cuda(_))
    }

    /// Checks that there is a compiler, which a warm cache does without.
    pub(super) fn ready(&self) -> Result<()> {
        match self {
            Toolchain::Host => CCompiler::get().map(drop),
            Toolchain::Cuda(_) => Nvrtc::get().map(drop),
        }
    }

    pub(super) fn compile(&self, text: &str) -> Result<Vec<u8>> {
        match self {
            Toolchain::Host => CCompiler::get()?.compile(text),
            Toolchain::Cuda(context) => Nvrtc::get()?.compile(text, context.arch()),
        }
    }

    pub(super) fn load(&self, artifact: &[u8]) -> Result<Image> {
        Ok(match self {
            Toolchain::Host => Image::Host(Arc::new(Library::load(artifact)?)),
            Toolchain::Cuda(context) => {
                Image::Cuda(Arc::new(cuda::Module::load(context, artifact)?))
            }
        })
    }
}

impl Image {
    /// The code of the kernel at `position`.
    pub(super) fn code(&self, position: usize, source: &KernelSource) -> Result<Code> {
        // Symbols are made of letters, digits and underscores.
        let symbol = source.symbol(position);
        let name = |suffix: &str| format!("{symbol}{suffix}");
        Ok(match self {
            Image::Host(library) => {
                let symbol =
                    |suffix: &str| library.symbol(&CString::new(name(suffix)).unwrap_or_default());
                let entry = symbol("")?;
                let finish = source.finish.then(|| symbol("_finish")).transpose()?;
                // SAFETY: generated sources define these symbols with these types; the key, which is of the source,
                // says that the library is of this one.
                let (entry, finish) = unsafe {
                    (
                        std::mem::transmute::<*const (), super::Entry>(entry),
                        finish.map(|f| std::mem::transmute::<*const (), super::Finish>(f)),
                    )
                };
                Code::Host {
                    entry,
                    finish,
                    _library: library.clone(),
                }
            }
            Image::Cuda(module) => Code::Cuda {
                entry: module.function(&name(""))?,
                finish: source
                    .finish
                    .then(|| module.function(&name("_finish")))
                    .transpose()?,
                module: module.clone(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two devices of one model find what either compiled; another architecture has other keys.
    #[test]
    fn keys_name_the_architecture_and_no_device() {
        let Ok(nvrtc) = Nvrtc::get() else {
            eprintln!("skipped: no NVRTC");
            return;
        };
        let hopper = cuda_identity(nvrtc, "sm_90a");
        let words: Vec<&str> = hopper.split(' ').collect();
        assert_eq!(words[..2], ["cuda", "NVRTC"]);
        assert!(
            words.contains(&"sm_90a") && words[2].contains('.'),
            "{hopper}"
        );
        assert!(!hopper.contains("cuda:"), "{hopper}");
        assert_ne!(hopper, cuda_identity(nvrtc, "sm_80"));
    }
}
