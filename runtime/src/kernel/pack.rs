//! Kernels that come with a program: compiled ahead for named architectures, found without a compiler.

use super::compile::parallel;
use super::toolchain::{Image, Place, Toolchain};
use super::{KernelSource, source};
use crate::compiler::CCompiler;
use crate::cuda::{compile_for, compile_ptx};
use crate::store::Artifact;
use crate::{Config, Error, Isa, Result};
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// What kernels are compiled for: a level of a processor's instruction set, or a kind of CUDA device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// A processor with such instructions.
    Cpu(Isa),
    /// CUDA devices of this compute capability, as 90 for 9.0: a cubin.
    Cuda(u32),
    /// CUDA devices of at least this compute capability: PTX, which the driver translates, of the forms of kernels that every
    /// such device has.
    Ptx(u32),
}

impl Architecture {
    /// Every architecture that kernels can be compiled for ahead.
    pub const ALL: [Architecture; 8] = [
        Architecture::Cpu(Isa::Sse2),
        Architecture::Cpu(Isa::Avx2),
        Architecture::Cpu(Isa::Avx512),
        Architecture::Cpu(Isa::Neon),
        Architecture::Cuda(80),
        Architecture::Cuda(90),
        Architecture::Cuda(100),
        Architecture::Ptx(80),
    ];

    /// The name: a level of the x86-64 ABI whose processors have the instructions, `aarch64`, `generic`, or what NVRTC calls
    /// the device's architecture.
    pub fn name(self) -> String {
        let name = match self {
            Architecture::Cpu(Isa::Sse2) => "x86-64-v2",
            Architecture::Cpu(Isa::Avx2) => "x86-64-v3",
            Architecture::Cpu(Isa::Avx512) => "x86-64-v4",
            Architecture::Cpu(Isa::Neon) => "aarch64",
            Architecture::Cpu(Isa::Generic) => "generic",
            Architecture::Cuda(90) => "sm_90a",
            Architecture::Cuda(capability) => return format!("sm_{capability}"),
            Architecture::Ptx(capability) => return format!("compute_{capability}"),
        };
        name.to_owned()
    }

    /// The architecture of a name.
    pub fn of_name(name: &str) -> Option<Architecture> {
        Architecture::ALL
            .into_iter()
            .find(|known| known.name() == name)
    }

    /// This machine's processor.
    pub fn host() -> Architecture {
        Architecture::Cpu(Isa::host())
    }

    /// Whether this machine's processor runs code for it: its own level and lower ones of x86-64.
    pub fn runs_here(self) -> bool {
        let host = Isa::host();
        matches!(self, Architecture::Cpu(isa) if isa == host || isa < host && is_like_host(isa))
    }

    /// Whether a CUDA device of a compute capability runs code for it.
    pub fn runs_on(self, device: u32) -> bool {
        match self {
            Architecture::Cpu(_) => false,
            // Devices of one generation differ in the memory that their blocks share.
            Architecture::Cuda(capability) => capability == device,
            Architecture::Ptx(capability) => capability <= device,
        }
    }

    /// What identifies a kernel of this architecture apart from its text: no compiler, so that none is needed to find it.
    fn identity(self) -> String {
        format!("pack {}", self.name())
    }

    fn compile(self, text: &str) -> Result<Vec<u8>> {
        match self {
            Architecture::Cpu(isa) if is_like_host(isa) => {
                CCompiler::get()?.compile_with(text, isa)
            }
            Architecture::Cpu(_) => Err(Error::argument(format!(
                "this machine's compiler makes no code for {}",
                self.name()
            ))),
            Architecture::Cuda(_) => compile_for(&self.name(), text),
            Architecture::Ptx(_) => compile_ptx(&self.name(), text),
        }
    }
}

/// Whether the host's compiler makes code for an instruction set: one of the host's family.
fn is_like_host(isa: Isa) -> bool {
    let levels = [Isa::Sse2, Isa::Avx2, Isa::Avx512];
    isa == Isa::host() || levels.contains(&isa) && levels.contains(&Isa::host())
}

/// Compiles kernels for an architecture, which need not be this machine's, each once, to files of several kernels:
/// [`Pack::new`] takes their bytes.
///
/// # Errors
/// `NoCompiler`, `Compile`.
pub fn compile_pack(architecture: Architecture, sources: &[KernelSource]) -> Result<Vec<Vec<u8>>> {
    let identity = architecture.identity();
    let mut known = HashMap::new();
    for source in sources {
        known.entry(source.key(&identity)).or_insert(source);
    }
    let mut sources: Vec<(u128, &KernelSource)> = known.into_iter().collect();
    sources.sort_by_key(|(key, source)| (std::cmp::Reverse(source.body.len()), *key));
    let jobs = Config::get().threads.clamp(1, sources.len().max(1));
    let mut files: Vec<Vec<(u128, &KernelSource)>> = vec![Vec::new(); jobs];
    for (at, source) in sources.into_iter().enumerate() {
        files[at % jobs].push(source);
    }
    if !matches!(architecture, Architecture::Cpu(_)) {
        // Kernels of two bases do not share a file.
        let all = files.into_iter().flatten();
        files = all.map(|source| vec![source]).collect();
    }
    files.retain(|file| !file.is_empty());
    let compile = |file: &Vec<(u128, &KernelSource)>| {
        let sources: Vec<&KernelSource> = file.iter().map(|(_, source)| *source).collect();
        let elf = architecture.compile(&source::file(&sources))?;
        let keys = file.iter().map(|(key, _)| *key).collect();
        Ok(Artifact { keys, elf }.to_bytes())
    };
    let made = parallel(files, jobs, compile);
    made.into_iter().map(|(_, bytes)| bytes).collect()
}

/// What becomes of a kernel that a [`Pack`] lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It is found on disk or compiled, as without a pack.
    Compile,
    /// It is an error, `NoKernel`, whether it is on disk or not.
    Refuse,
}

/// Kernels for one architecture that were compiled ahead.
#[derive(Clone)]
pub struct Pack(Arc<Contents>);

struct Contents {
    architecture: Architecture,
    identity: String,
    artifacts: Vec<Artifact>,
    /// Which artifact has the kernel of a key.
    places: HashMap<u128, usize>,
    /// Artifacts that are loaded.
    images: Mutex<HashMap<(Place, usize), Image>>,
}

impl fmt::Debug for Pack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, kernels) = (self.0.architecture.name(), self.0.places.len());
        write!(f, "Pack({kernels} kernels for {name})")
    }
}

thread_local! {
    /// Empty outside of scopes. It is never dropped, so that threads can compile while they end.
    static SCOPE: ManuallyDrop<RefCell<Option<(Pack, Missing)>>> = const { ManuallyDrop::new(RefCell::new(None)) };
    static PLANNED: Cell<Option<Architecture>> = const { Cell::new(None) };
}

/// The architecture that plans of this thread are made for, where that is not what its device is: that of the pack in whose
/// scope it is.
#[inline]
pub fn planned_for() -> Option<Architecture> {
    PLANNED.get()
}

impl Pack {
    /// The kernels in these files, which [`compile_pack`] made.
    ///
    /// Their machine code runs in this process: the files' checksums guard against damage, not against who wrote them.
    ///
    /// # Errors
    /// `Load`: a file is damaged, or of another version of the format.
    pub fn new(architecture: Architecture, files: Vec<Vec<u8>>) -> Result<Pack> {
        let (mut artifacts, mut places) = (Vec::new(), HashMap::new());
        for file in files {
            let artifact = Artifact::from_bytes(file).ok_or_else(|| {
                Error::load("a file of kernels is damaged, or of another version")
            })?;
            places.extend(artifact.keys.iter().map(|&key| (key, artifacts.len())));
            artifacts.push(artifact);
        }
        Ok(Pack(Arc::new(Contents {
            architecture,
            identity: architecture.identity(),
            artifacts,
            places,
            images: Mutex::default(),
        })))
    }

    /// What the kernels are for.
    pub fn architecture(&self) -> Architecture {
        self.0.architecture
    }

    /// How many kernels there are.
    pub fn len(&self) -> usize {
        self.0.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs `f` with these kernels on this thread: plans are made for their architecture, and find them before those on
    /// disk. Threads that `f` starts have no part in it.
    pub fn with<R>(&self, missing: Missing, f: impl FnOnce() -> R) -> R {
        struct Restore(Option<(Pack, Missing)>, Option<Architecture>);
        impl Drop for Restore {
            fn drop(&mut self) {
                let before = self.0.take();
                SCOPE.with(|scope| *scope.borrow_mut() = before);
                PLANNED.set(self.1);
            }
        }
        let scope = Some((self.clone(), missing));
        let before = SCOPE.with(|now| now.replace(scope));
        let _restore = Restore(before, PLANNED.replace(Some(self.0.architecture)));
        f()
    }

    /// The pack whose scope this thread is in, and what becomes of kernels it lacks.
    pub(super) fn current() -> Option<(Pack, Missing)> {
        SCOPE.with(|scope| scope.borrow().clone())
    }

    /// The key under which the kernel of a source is here, if it is.
    pub(super) fn key(&self, toolchain: &Toolchain, source: &KernelSource) -> Option<u128> {
        let key = source.key(&self.0.identity);
        (toolchain.runs(self.0.architecture) && self.0.places.contains_key(&key)).then_some(key)
    }

    /// The loaded artifact that has the kernel of this key, and the artifact; `None` if there is none.
    pub(super) fn image(
        &self,
        toolchain: &Toolchain,
        key: u128,
    ) -> Option<(Result<Image>, &Artifact)> {
        let at = *self.0.places.get(&key)?;
        let artifact = &self.0.artifacts[at];
        let mut images = self.0.images.lock();
        if let Some(image) = images.get(&(toolchain.place(), at)) {
            return Some((Ok(image.clone()), artifact));
        }
        let image = toolchain.load(&artifact.elf);
        if let Ok(image) = &image {
            images.insert((toolchain.place(), at), image.clone());
        }
        Some((image, artifact))
    }

    /// The error of a kernel that is nowhere, where none is compiled.
    pub(super) fn lacks(&self, source: &KernelSource) -> Error {
        let (name, of) = (self.0.architecture.name(), &source.name);
        Error::new(crate::ErrorKind::NoKernel(format!(
            "there is no kernel {of:?} among the {} for {name}: it was made for other sizes or by another version",
            self.len()
        )))
    }
}
