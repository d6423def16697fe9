//! A strided window on a buffer, with its element type: what ready-made kernels take and give.

use ferrotrace_runtime::{Buffer, DType, Device, Layout, Result, Shape};
use smallvec::SmallVec;

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

    /// The same elements on a device: the array itself if it lies there, else a copy of the part of its memory that its
    /// window spans, through the same strides.
    ///
    /// # Errors
    /// Out of memory; what a device's driver answers.
    pub fn to_device(&self, device: &Device) -> Result<Array> {
        if self.buffer.device() == device {
            return Ok(self.clone());
        }
        let (span, size) = (self.layout.span(), self.dtype.size());
        let offset = if span.is_empty() {
            0
        } else {
            self.layout.offset() - span.start
        };
        let buffer = self
            .buffer
            .copy_to(span.start * size..span.end * size, device)?;
        let strides = SmallVec::from_slice(self.layout.strides());
        Ok(Array {
            buffer,
            layout: Layout::new(self.shape().clone(), strides, offset),
            dtype: self.dtype,
        })
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
