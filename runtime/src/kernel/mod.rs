//! Kernels: generated C or CUDA C++, compiled, kept and loaded.

mod compile;
mod pack;
mod source;
#[cfg(test)]
mod tests;
mod toolchain;

pub(crate) use compile::Kernels;
pub use compile::{
    compile_kernels, compile_kernels_on, compile_kernels_with, compile_unkept, identity,
};
pub use pack::{Architecture, Missing, Pack, compile_pack, planned_for};
pub use source::{KernelSource, Part};
use toolchain::Image;

use crate::compiler::library::Library;
use crate::store::digest;
use crate::{Result, cuda};
use once_cell::sync::OnceCell;
use std::fmt;
use std::os::raw::c_char;
use std::sync::Arc;

/// `ft_args` of the generated sources: what a kernel of the CPU is given.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Args {
    pub ptr: *const *mut u8,
    pub param: *const i64,
    pub scalar: *const u64,
    pub scratch: *mut c_char,
    pub fault: *mut i64,
}

// SAFETY: the threads of a launch read the arrays behind the pointers, which live through the launch; a kernel writes
// the fault by atomic operations, and buffers and scratch so that no two chunks touch what one of them writes.
unsafe impl Sync for Args {}

pub(crate) type Entry = unsafe extern "C" fn(*const Args, i64, i64, *mut c_char);
pub(crate) type Finish = unsafe extern "C" fn(*const Args, *mut c_char);

/// Loaded code, and what keeps it loaded.
pub(crate) enum Code {
    Host {
        entry: Entry,
        finish: Option<Finish>,
        _library: Arc<Library>,
    },
    Cuda {
        entry: cuda::Function,
        finish: Option<cuda::Function>,
        module: Arc<cuda::Module>,
    },
}

/// A compiled and loaded kernel. It stays loaded as long as it lives.
pub struct Kernel {
    code: Code,
    key: u128,
    origin: KernelSource,
    text: OnceCell<String>,
    /// The kernel's share of the artifact's bytes of code.
    bytes: usize,
}

impl Kernel {
    /// The kernel at `position` of a loaded artifact, whose share of it is `bytes`.
    fn load(
        image: &Image,
        position: usize,
        key: u128,
        origin: &KernelSource,
        bytes: usize,
    ) -> Result<Kernel> {
        Ok(Kernel {
            code: image.code(position, origin)?,
            key,
            origin: origin.clone(),
            text: OnceCell::new(),
            bytes,
        })
    }

    /// The kernel's key: a digest of its source, the compiler, the flags, the instruction set and the format.
    pub fn key(&self) -> u128 {
        self.key
    }

    /// The whole C source, with `FT_SYMBOL` for the kernel's name.
    pub fn source(&self) -> &str {
        self.text.get_or_init(|| self.origin.text())
    }

    /// The generated source, whose memory a caller with an equal one may share.
    pub fn origin(&self) -> &KernelSource {
        &self.origin
    }

    /// Bytes of memory that each thread of a device has for values that find no register; 0 on the CPU, and where the
    /// driver does not say.
    pub fn spilled(&self) -> usize {
        match &self.code {
            Code::Host { .. } => 0,
            Code::Cuda { entry, finish, .. } => {
                let all = std::iter::once(entry).chain(finish);
                all.map(|function| function.local_bytes())
                    .max()
                    .unwrap_or(0)
            }
        }
    }

    #[inline]
    pub(crate) fn code(&self) -> &Code {
        &self.code
    }

    /// Bytes of memory that the kernel takes, roughly.
    fn cost(&self) -> usize {
        self.bytes + self.origin.body.len()
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({})", digest::hex(self.key))
    }
}
