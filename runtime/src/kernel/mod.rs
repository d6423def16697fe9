//! Kernels: generated C, compiled, kept and loaded.

mod compile;
mod source;
#[cfg(test)]
mod tests;

pub(crate) use compile::Kernels;
pub use compile::{compile_kernels, compile_kernels_with};
pub use source::{KernelSource, Part};

use crate::launch::Args;
use crate::library::Library;
use crate::{Result, digest};
use once_cell::sync::OnceCell;
use std::ffi::CString;
use std::fmt;
use std::os::raw::c_char;
use std::sync::Arc;

pub(crate) type Entry = unsafe extern "C" fn(*const Args, i64, i64, *mut c_char);
pub(crate) type Finish = unsafe extern "C" fn(*const Args, *mut c_char);

/// A compiled and loaded kernel. It stays loaded as long as it lives.
pub struct Kernel {
    entry: Entry,
    finish: Option<Finish>,
    key: u128,
    origin: KernelSource,
    text: OnceCell<String>,
    /// Bytes of code, its share of the artifact's.
    bytes: usize,
    /// Holds the code that the addresses point into.
    _library: Arc<Library>,
}

impl Kernel {
    /// The kernel at `position` of a library with `kernels` kernels and `bytes` bytes.
    fn load(
        library: &Arc<Library>,
        position: usize,
        key: u128,
        origin: &KernelSource,
        bytes: usize,
    ) -> Result<Kernel> {
        // Symbols are made of letters, digits and underscores.
        let symbol = |suffix: &str| {
            let name = CString::new(format!("ft_{position}{suffix}")).unwrap_or_default();
            library.symbol(&name)
        };
        let entry = symbol("")?;
        let finish = if origin.finish {
            Some(symbol("_finish")?)
        } else {
            None
        };
        // SAFETY: generated sources define these symbols with these types; the key, which is of the source, says that
        // the library is of this one.
        let (entry, finish) = unsafe {
            (
                std::mem::transmute::<*const (), Entry>(entry),
                finish.map(|f| std::mem::transmute::<*const (), Finish>(f)),
            )
        };
        let (origin, text, library) = (origin.clone(), OnceCell::new(), library.clone());
        Ok(Kernel {
            entry,
            finish,
            key,
            origin,
            text,
            bytes,
            _library: library,
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

    #[inline]
    pub(crate) fn entry(&self) -> Entry {
        self.entry
    }

    #[inline]
    pub(crate) fn finish(&self) -> Option<Finish> {
        self.finish
    }

    /// Bytes that the kernel keeps in memory, about.
    fn cost(&self) -> usize {
        self.bytes + self.origin.body.len()
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({})", digest::hex(self.key))
    }
}
