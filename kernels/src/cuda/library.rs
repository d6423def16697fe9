//! Compiled library kernels, and their launches.

use crate::Array;
use ferrotrace_runtime::{
    Binding, DType, Device, Error, Grid, Kernel, KernelSource, Launch, Result, compile_kernels_on,
    launch,
};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// A kernel's name, the type that it is for, and a choice within its text.
pub(super) type Name = (&'static str, DType, u32);

type Kernels = HashMap<(Name, Device), Arc<Kernel>>;

static KERNELS: LazyLock<Mutex<Kernels>> = LazyLock::new(Mutex::default);

/// A source of these definitions and texts.
pub(super) fn source(texts: &[&str]) -> KernelSource {
    KernelSource {
        parts: Vec::new(),
        body: texts.concat().into(),
        finish: false,
        name: "".into(),
    }
}

/// A launch of a library kernel, of as many blocks and threads.
pub(super) struct Run<'a> {
    pub name: Name,
    pub device: &'a Device,
    pub arrays: &'a [&'a Array],
    pub params: &'a [i64],
    pub blocks: usize,
    pub threads: u32,
    /// Bytes that a block shares, beyond what the text declares.
    pub shared: u32,
}

impl Run<'_> {
    /// Puts the kernel on the device's stream; `text` gives its source where it is not compiled yet.
    ///
    /// # Errors
    /// What the compiler or the driver answers.
    pub fn start(&self, text: impl FnOnce() -> KernelSource) -> Result<()> {
        let key = (self.name, self.device.clone());
        let kernels = || KERNELS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kernels().get(&key).cloned();
        let kernel = match known {
            Some(kernel) => kernel,
            None => {
                let made = compile_kernels_on(self.device, &[self.named(text())]).pop();
                let made = made.ok_or_else(|| Error::internal("a kernel was not made"))??;
                kernels().insert(key, made.clone());
                made
            }
        };
        let bindings: Vec<Binding<'_>> = self.arrays.iter().map(|x| binding(x)).collect();
        launch(&Launch {
            kernel: &kernel,
            buffers: &bindings,
            params: self.params,
            scalars: &[],
            chunks: self.blocks,
            scratch: 0,
            local: 0,
            grid: Grid {
                threads: self.threads,
                shared: self.shared,
                ..Grid::default()
            },
        })
        .map(drop)
    }

    /// A source under the kernel's name.
    fn named(&self, source: KernelSource) -> KernelSource {
        KernelSource {
            name: self.name.0.into(),
            ..source
        }
    }
}

/// An array's memory, from its first element to its last.
fn binding(x: &Array) -> Binding<'_> {
    let (offset, size) = (x.layout.offset(), x.dtype.size());
    let end = x.layout.span().end.max(offset);
    Binding {
        buffer: &x.buffer,
        offset: offset * size,
        span: (end - offset) * size,
    }
}

/// The C++ type of an element's bits.
pub(super) fn bits(dtype: DType) -> &'static str {
    match dtype.size() {
        1 => "unsigned char",
        2 => "unsigned short",
        4 => "unsigned",
        _ => "unsigned long long",
    }
}
