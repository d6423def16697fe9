//! Tensors that are written through a shared reference: running statistics.

use super::TensorStruct;
use super::arg::{JitArg, Owned};
use super::result::JitResult;
use super::visit::Visit;
use crate::{Tensor, trace};
use ferrotrace_runtime::{Error, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// A tensor of a struct that is no parameter and that `&self` may write: the running statistics of batch norm.
///
/// It is visited as other tensors are, under its field's name; [`parameters`](TensorStruct::parameters) leave it out. A
/// clone has a buffer of its own.
///
/// A compiled function writes the buffers of what it is given: those of a struct by value are part of what it gives back,
/// those of a struct by reference are written by each call. A buffer that the function captured is a constant to it, and a
/// write to it an error.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// # use ferrotrace_tracer::Buffer;
/// let count = Buffer::new(Tensor::scalar(3, DType::I64, &Device::cpu()));
/// let step = jit(|count: &Buffer| {
///     let before = count.get();
///     count.set(&before + 1).map(|()| before)
/// });
/// step.call(&count)?;
/// assert_eq!(step.call(&count)?.item::<i64>()?, 4);
/// assert_eq!(count.get().item::<i64>()?, 5);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Buffer {
    cell: Cell,
    /// The trace that it was made in; 0 for none.
    trace: u64,
}

/// A value that a call writes when it is done.
#[derive(Clone, Debug)]
pub(crate) struct Cell(Arc<Mutex<Tensor>>);

impl Cell {
    /// Another value.
    pub fn set(&self, tensor: Tensor) {
        let before = std::mem::replace(&mut *self.0.lock(), tensor);
        drop(before);
    }
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
            cell: Cell(Arc::new(Mutex::new(tensor))),
            trace: trace::current(),
        }
    }

    /// The value.
    pub fn get(&self) -> Tensor {
        self.cell.0.lock().clone()
    }

    /// Where the value lies, for a call that writes it when it is done.
    pub(crate) fn cell(&self) -> Cell {
        self.cell.clone()
    }

    /// Another value.
    ///
    /// # Errors
    /// Within a compiled function that captured the buffer: a replay would not write it.
    pub fn set(&self, tensor: Tensor) -> Result<()> {
        let current = trace::current();
        if current != 0 && current != self.trace {
            return Err(Error::argument(
                "a write to a buffer that a compiled function captured: pass its struct as an argument",
            ));
        }
        self.cell.set(tensor);
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
        visit(&mut self.cell.0.lock());
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
        Buffer::new(<Tensor as JitResult>::unflatten(&(), tensors))
    }
}
