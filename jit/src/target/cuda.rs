//! CUDA devices: a grid of blocks, memory that a block shares, a library with few operators.

use super::{Language, Library, Target};
use ferrotrace_runtime::{Device, convolves};

/// Bytes that every device lets the threads of a block share.
pub(crate) const STATIC_SHARED: usize = 48 << 10;

impl Target {
    /// What the driver says of a device; nothing is generated for its matrix units where it does not answer.
    pub(super) fn of_cuda(device: &Device) -> Target {
        let (capability, multiprocessors) = device.capability().unwrap_or_default();
        Target {
            table_bytes: device.argument_bytes(),
            ..Target::cuda(
                capability,
                multiprocessors,
                device.shared_memory().unwrap_or(0),
            )
        }
    }

    /// The device that kernels are compiled for ahead of a compute capability, where its multiprocessors are not known: of
    /// the largest of that capability.
    pub(super) fn of_capability(capability: u32) -> Target {
        let (multiprocessors, shared_memory) = match capability {
            80..90 => (108, 163 << 10),
            90..100 => (132, 227 << 10),
            _ => (148, 227 << 10),
        };
        Target::cuda(capability, multiprocessors, shared_memory)
    }

    /// Any device: nothing is generated for matrix units, and blocks share what every device lets them.
    pub(super) fn of_any_capability() -> Target {
        Target::cuda(0, 0, 0)
    }

    /// A CUDA device of a compute capability, as 90 for 9.0, so many multiprocessors, and so many bytes that a block's
    /// threads share.
    pub fn cuda(capability: u32, multiprocessors: usize, shared_memory: usize) -> Target {
        Target {
            language: Language::Cuda,
            library: Library::Partial(convolves),
            vector: 16,
            registers: 0,
            l2: 0,
            stream: usize::MAX,
            crowd: usize::MAX,
            capability,
            multiprocessors,
            shared_memory,
            static_shared: STATIC_SHARED,
            table_bytes: 4096,
            shares_windows: false,
            scalar_rows: false,
            byte_lanes: false,
            pitched_results: true,
            window_part: 4,
            scatters: false,
            ordered_scans: true,
            cuts_scans: true,
            splits_reductions: false,
            merges_moments: true,
            panels: false,
            tiles: false,
            spreads_launches: false,
            records_launches: true,
            reports_late: true,
        }
    }
}
