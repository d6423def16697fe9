//! Launches of CUDA graphs on buffers.

use super::Buffer;
use crate::cuda::Capture;
use crate::{Device, Result};

impl Capture {
    /// Puts the commands on the device's stream, working on these buffers, each from a byte of it on.
    ///
    /// # Errors
    /// `Internal` for buffers of another device, or too small; `OutOfMemory` for the graph's own memory; `Device` for
    /// what the driver answers. Nothing has run then.
    pub fn launch<'a>(&mut self, buffers: impl Iterator<Item = (&'a Buffer, usize)>) -> Result<()> {
        let index = self.device();
        // Handed on in the stream's order when it is dropped.
        let own = Buffer::allocate(&Device::of_cuda(index), self.own_bytes())?;
        let memory = buffers.map(|(buffer, first)| {
            let room = buffer.bytes().checked_sub(first)?;
            let here = buffer.device().cuda_index() == Some(index);
            here.then(|| (buffer.as_ptr() as u64 + first as u64, room))
        });
        self.launch_on(memory, own.as_ptr() as u64)
    }
}
