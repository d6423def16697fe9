//! What a device is to the compiler: one value that answers every question whose answer differs between devices.
//!
//! No answer says which device it is. Each says what its kernels, its library or its launches can do, and the passes that
//! ask decide by that. A new device is a back end in `runtime`, a [`Target`], and a printer.
//!
//! On a device with a grid no answer changes the order of a sum's additions: sizes alone do. On the CPU the width of its
//! vectors may.

mod cuda;
mod host;

pub(crate) use cuda::STATIC_SHARED;

use ferrotrace_kernels::{Class, Op};
use ferrotrace_runtime::{Architecture, Convolution, Device, Result, planned_for};
use parking_lot::Mutex;
use std::sync::LazyLock;

/// Facts about a device.
///
/// ```
/// use ferrotrace_jit::target::{Language, Target};
/// use ferrotrace_runtime::Device;
///
/// let host = Target::of(&Device::cpu());
/// assert_eq!(host.language, Language::C);
/// assert!(host.vector >= 16 && host.library.is_complete());
/// // A device that is not in this machine: compute capability 9.0, 132 multiprocessors, 227 KiB shared by a block.
/// let hopper = Target::cuda(90, 132, 227 << 10);
/// assert!(!hopper.panels && hopper.shared_memory > 0);
/// ```
#[derive(Clone, Debug)]
pub struct Target {
    /// What kernels are written in: the printer that is chosen.
    pub language: Language,
    /// What there are ready-made kernels for. Simplification decomposes the rest.
    pub library: Library,

    /// Bytes of a vector register, which is what one operation of a kernel works on; 16 where threads work on elements
    /// and load so many bytes at once.
    pub vector: usize,
    /// Vector registers: sums beyond them would be kept in memory, so fewer run side by side.
    pub registers: usize,
    /// Bytes of a core's second cache. A quarter of it holds what a block of rows keeps from one pass to the next.
    pub l2: usize,
    /// Outputs of more bytes are stored past the caches, which would not hold them until they are read.
    pub stream: usize,
    /// Outputs of a quarter of `stream` are, too, in kernels that read and write more bytes than this in all.
    pub crowd: usize,

    /// The compute capability, as 90 for 9.0, for which products of half precision and attention are generated; 0 where
    /// none are.
    pub capability: u32,
    /// Multiprocessors: how many blocks run at once decides how a generated product or attention is cut into tiles.
    pub multiprocessors: usize,
    /// Most bytes that the threads of a block share; 0 where there is no template that shares any, attention's among them.
    pub shared_memory: usize,
    /// Most bytes that a generated kernel may have its threads share: what every device lets a block share.
    pub static_shared: usize,
    /// Most bytes of a table in a launch's arguments through which kernels of one text share that launch; 0 where there is
    /// none.
    pub table_bytes: usize,

    /// Whether one thread computes the neighbouring results of a row, which share what they read of windows that overlap.
    /// Where each result has a thread, longer windows become straight-line code.
    pub shares_windows: bool,
    /// Whether what the columns of a row share is computed without lanes. If so, costly functions of many rows have a kernel of
    /// their own.
    pub scalar_rows: bool,
    /// Whether a kernel that computes bytes and truth values alone has a lane for each byte of a register. If so, many
    /// operations on these have a kernel of their own.
    pub byte_lanes: bool,
    /// Whether a kernel may write its result with gaps into a larger one's memory. If so, parts of a concatenation are
    /// not copied there.
    pub pitched_results: bool,
    /// An assignment to a slice is generated over the window alone where that is at most one in so many elements of the
    /// tensor, which is copied whole where it lives on. Else the whole tensor is written again.
    pub window_part: usize,
    /// Whether scatters of which several elements may meet in one place are generated, in an order of additions that sizes
    /// fix. Else those alone are of which none can meet.
    pub scatters: bool,
    /// Whether a generated scan along rows as they lie in memory may have eager mode's order of additions. Else such scans
    /// are ready-made.
    pub ordered_scans: bool,
    /// Whether generated scans cut long rows into pieces by themselves. Else the ready-made kernel does.
    pub cuts_scans: bool,
    /// Whether reductions into few results are cut as [`Thresholds::split_rows`](crate::policy::Thresholds) says. Else the
    /// emitter cuts them by sizes of its own.
    pub splits_reductions: bool,
    /// Whether kernels merge sums about a mean that pieces of a row have computed. If so, such sums may share the pass that
    /// computes the mean.
    pub merges_moments: bool,
    /// Whether products and convolutions run panel by panel, with kernels before and behind on each panel. Else the
    /// library's calls take epilogues, and products of half precision may be generated.
    pub panels: bool,
    /// Whether ready-made products multiply operands of bf16 as they are, by tiles of matrices, where there is enough to do. Else
    /// they are cast first.
    pub tiles: bool,
    /// Whether a launch is spread over the host's threads, chunk by chunk. If so, little work stays on one thread, and
    /// independent kernels of any texts share a hand-off. Else every launch costs the same, and kernels share one through a
    /// table of `table_bytes`.
    pub spreads_launches: bool,
    /// Whether a run's launches can be recorded and launched again at once, as a graph.
    pub records_launches: bool,
    /// Whether the host learns of a faulty index at the end of a run at the earliest. If so, indices are checked ahead by
    /// kernels of their own, so that it does not wait for the last one.
    pub reports_late: bool,
}

/// What kernels are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C with the compiler's vector extension.
    C,
    /// CUDA C++, without headers.
    Cuda,
}

/// What a device has ready-made kernels for.
#[derive(Clone, Copy, Debug)]
pub enum Library {
    /// Every operator.
    Complete,
    /// Products, sorts, scans, scatters and copies into place, and those convolutions for which the function says so; the
    /// rest goes through the host.
    Partial(fn(&Device, &Convolution) -> Result<bool>),
}

impl Library {
    /// Whether there is a kernel for every operator, where the data lies: eager mode is such kernels one by one, and a
    /// plan whose kernels cannot be compiled runs on them. Without, eager mode runs plans of one operator.
    pub fn is_complete(&self) -> bool {
        matches!(self, Library::Complete)
    }

    /// Whether a call of an operator runs on the device. Others are copied to the host and back.
    pub fn has(&self, op: &Op) -> bool {
        // Parts are copied into the place where their results lie.
        let partial = || op.entry().as_library().is_some() || op.class() == Class::Arrange;
        self.is_complete() || partial()
    }
}

static HOST: LazyLock<Target> = LazyLock::new(Target::host);

/// The targets that kernels are compiled for ahead.
static ARCHITECTURES: LazyLock<Vec<(Architecture, Target)>> = LazyLock::new(|| {
    let all = Architecture::ALL.into_iter();
    all.map(|of| (of, Target::of_architecture(of))).collect()
});

/// One target for each device but the CPU: a process has few, and they stay.
static DEVICES: Mutex<Vec<(Device, &'static Target)>> = Mutex::new(Vec::new());

impl Target {
    /// What kernels are planned for ahead, on any machine.
    pub fn of_architecture(architecture: Architecture) -> Target {
        match architecture {
            Architecture::Cpu(isa) => Target::of_isa(isa),
            Architecture::Cuda(capability) => Target::of_capability(capability),
            Architecture::Ptx(_) => Target::of_any_capability(),
        }
    }

    /// What is known of a device of this machine; or, where this thread's plans are to find kernels that were compiled ahead
    /// (`ferrotrace_runtime::Pack`), what they were compiled for.
    pub fn of(device: &Device) -> &'static Target {
        if let Some(planned) = planned_for()
            && matches!(planned, Architecture::Cpu(_)) == device.is_cpu()
            && let Some((_, target)) = ARCHITECTURES.iter().find(|(of, _)| *of == planned)
        {
            return target;
        }
        if *device == Device::cpu() {
            return &HOST;
        }
        let mut devices = DEVICES.lock();
        if let Some((_, target)) = devices.iter().find(|(known, _)| known == device) {
            return target;
        }
        let target: &'static Target = Box::leak(Box::new(Target::of_cuda(device)));
        devices.push((device.clone(), target));
        target
    }
}

/// The CPU of this machine.
impl Default for Target {
    fn default() -> Target {
        HOST.clone()
    }
}
