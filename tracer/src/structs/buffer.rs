//! Tensors that are written through a shared reference: running statistics.

use super::TensorStruct;
use super::arg::{JitArg, Owned};
use super::result::JitResult;
use super::visit::Visit;
use crate::{Tensor, trace};
use ferrotrace_runtime::{Error, Result};
use parking_lot::Mutex;
use std::cell::Cell;

thread_local! {
    /// Whether the struct that is being rebuilt is lent to a compiled function.
    static LENT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`, which rebuilds a struct that is lent to a compiled function: buffers in it take no writes.
pub(super) fn lent<R>(f: impl FnOnce() -> R) -> R {
    /// Restores what was so before, also when the function unwinds.
    struct Restore(bool);

    impl Drop for Restore {
        fn drop(&mut self) {
            LENT.set(self.0);
        }
    }

    let _restore = Restore(LENT.replace(true));
    f()
}

/// A tensor of a struct that is no parameter and that `&self` may write: the running statistics of batch norm.
///
/// It is visited as other tensors are, under its field's name; [`parameters`](TensorStruct::parameters) leave it out. A
/// clone has a buffer of its own.
///
/// A compiled function writes the buffers of what it was given by value, and gives them back. A write that a replay would
/// lose is an error: to a buffer that the function captured, or of a struct that it was lent.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// # use ferrotrace_tracer::Buffer;
/// let count = |n| Buffer::new(Tensor::scalar(n, DType::I64, &Device::cpu()));
/// let step = jit(|count: Buffer| {
///     let next = count.set(count.get() + 1);
///     next.map(|()| count)
/// });
/// let count = step.call(step.call(count(3))?)?;
/// assert_eq!(count.get().item::<i64>()?, 5);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Buffer {
    tensor: Mutex<Tensor>,
    /// The trace that it was made in; 0 for none.
    trace: u64,
    /// Whether it belongs to a struct that is lent to the function which is being traced.
    lent: bool,
}

impl Clone for Buffer {
    fn clone(&self) -> Buffer {
        Buffer::new(self.get())
    }
}

impl Buffer {
    /// A buffer with a first value.
    pub fn new(tensor: Tensor) -> Buffer {
        Buffer {
            tensor: Mutex::new(tensor),
            trace: trace::current(),
            lent: LENT.get(),
        }
    }

    /// The value.
    pub fn get(&self) -> Tensor {
        self.tensor.lock().clone()
    }

    /// Another value.
    ///
    /// # Errors
    /// Within a compiled function, a replay would not write it: the function captured the buffer, or was lent its struct.
    pub fn set(&self, tensor: Tensor) -> Result<()> {
        let current = trace::current();
        if current != 0 && current != self.trace {
            return Err(Error::argument(
                "a write to a buffer that a compiled function captured: pass its struct by value, and return it",
            ));
        }
        if current != 0 && self.lent {
            return Err(Error::argument(
                "a write to a buffer of a struct that is lent to a compiled function: pass it by value, and return it",
            ));
        }
        let before = std::mem::replace(&mut *self.tensor.lock(), tensor);
        drop(before);
        Ok(())
    }
}

impl JitArg for Buffer {
    type Kind = Owned<Buffer>;

    fn visit<'v>(&'v self, visit: &mut Visit<'v>) {
        visit.buffer(self);
    }
}

impl TensorStruct for Buffer {
    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Tensor)) {
        visit(self.tensor.get_mut());
    }

    fn rebuild(&self, tensor: &mut dyn FnMut(&Tensor) -> Tensor) -> Buffer {
        Buffer::new(tensor(&self.get()))
    }
}

impl JitResult for Buffer {
    type Form = ();

    fn flatten(&self, tensors: &mut Vec<Tensor>) -> Option<()> {
        tensors.push(self.get());
        Some(())
    }

    fn unflatten(_: &(), tensors: &mut dyn Iterator<Item = Tensor>) -> Buffer {
        Buffer::new(Tensor::unflatten(&(), tensors))
    }
}
