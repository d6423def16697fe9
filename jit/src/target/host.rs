//! The CPU: vectors, caches, a library that has every operator.

use super::{Language, Library, Target};
use ferrotrace_runtime::{Isa, has_amx, has_bf16_dots};

impl Target {
    /// The CPU of this machine.
    pub fn host() -> Target {
        Target {
            tiles: has_amx() || has_bf16_dots(),
            ..Target::of_isa(Isa::host())
        }
    }

    /// A CPU of an instruction set.
    pub(super) fn of_isa(isa: Isa) -> Target {
        Target::with_vectors(isa.vector_bytes())
    }

    /// A CPU with vector registers of so many bytes: 16, 32 or 64.
    pub fn with_vectors(bytes: usize) -> Target {
        Target {
            language: Language::C,
            library: Library::Complete,
            vector: bytes,
            registers: if bytes == 64 { 32 } else { 16 },
            l2: 1 << 20,
            stream: 32 << 20,
            crowd: 48 << 20,
            capability: 0,
            multiprocessors: 0,
            shared_memory: 0,
            static_shared: usize::MAX,
            table_bytes: 0,
            shares_windows: true,
            scalar_rows: true,
            byte_lanes: true,
            pitched_results: true,
            window_part: 1,
            scatters: true,
            ordered_scans: false,
            cuts_scans: false,
            splits_reductions: true,
            merges_moments: true,
            panels: true,
            tiles: false,
            spreads_launches: true,
            records_launches: false,
            reports_late: false,
        }
    }
}
