//! Library kernels of CUDA devices, for what no loop nest says: the positions that sort rows or are first then, scatters,
//! running log Σ exp, the gradients of attention, and factorisations of matrices. Their texts hold no size; they are compiled as generated ones are,
//! once for each type.

pub(crate) mod attention;
mod library;
pub(crate) mod linalg;
pub(crate) mod scan;
pub(crate) mod scatter;
pub(crate) mod sort;
pub mod tiles;

pub use scatter::Form as ScatterForm;
pub use sort::selects;

use ferrotrace_runtime::KernelSource;

/// Every source of the library, for tests that compile them.
pub fn sources() -> Vec<KernelSource> {
    [
        sort::sources(),
        scatter::sources(),
        scan::sources(),
        linalg::sources(),
        attention::sources(),
    ]
    .concat()
}
