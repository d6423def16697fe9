//! Transforms: from a kernel to one with the same results.
//!
//! What builds a kernel decides its form, and which functions of the list run on it; a transform finds what it works on in
//! the kernel alone.

mod arrange;
mod draw_ahead;
mod fence;
mod outline;
mod reroll;

pub use arrange::{Arranged, arrange};
pub use draw_ahead::draw_ahead;
pub use fence::fence;
pub use outline::outline;
pub use reroll::{Rerolled, reroll};

use super::ir::{Kernel, verify};

/// A transform and its name.
pub type Pass<'a> = (&'static str, &'a dyn Fn(&mut Kernel));

/// Runs transforms in order. Under debug assertions the kernel is verified as it was built, and after each.
///
/// ```
/// use ferrotrace_jit::kernel::ir::{Block, Body, Kernel, Role};
/// use ferrotrace_jit::kernel::transform::{apply, fence};
///
/// let work = Body { role: Role::Work, block: Block::new() };
/// let kernel = Kernel { functions: vec![work], lanes: 8, ..Kernel::default() };
/// // Nothing in it bypasses the cache.
/// assert_eq!(apply(kernel.clone(), &[("fence", &fence)]), kernel);
/// ```
pub fn apply(mut kernel: Kernel, passes: &[Pass<'_>]) -> Kernel {
    debug_assert_eq!(verify(&kernel), Ok(()), "as it was built:\n{kernel}");
    for (name, pass) in passes {
        pass(&mut kernel);
        debug_assert_eq!(verify(&kernel), Ok(()), "after {name}:\n{kernel}");
    }
    kernel
}
