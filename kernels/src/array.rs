//! A strided window on a buffer, with its element type: what ready-made kernels take and give.

use ferrotrace_runtime::{Buffer, DType, Device, Layout, Result, Shape};

/// A tensor whose elements exist: a buffer, the window on it, and the element type.
#[derive(Clone, Debug)]
pub struct Array {
    /// The memory.
    pub buffer: Buffer,
    /// The window, in elements of `dtype`.
    pub layout: Layout,
    /// The element type.
    pub dtype: DType,
}

impl Array {
    /// A dense row-major array with arbitrary contents.
    ///
    /// # Errors
    /// Out of memory.
    #[inline]
    pub fn empty(device: &Device, shape: Shape, dtype: DType) -> Result<Array> {
        let bytes = shape.numel().saturating_mul(dtype.size());
        let buffer = Buffer::allocate(device, bytes)?;
        Ok(Array {
            buffer,
            layout: Layout::contiguous(shape),
            dtype,
        })
    }

    /// The shape of the window.
    #[inline]
    pub fn shape(&self) -> &Shape {
        self.layout.shape()
    }

    /// The number of elements.
    pub fn numel(&self) -> usize {
        self.layout.numel()
    }

    /// The same memory through another window.
    pub fn with_layout(&self, layout: Layout) -> Array {
        Array {
            buffer: self.buffer.clone(),
            layout,
            dtype: self.dtype,
        }
    }
}
