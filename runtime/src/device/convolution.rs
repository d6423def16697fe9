//! Convolutions of a device's library.

use super::Buffer;
use crate::cuda::{self, Convolution};
use crate::{Error, Result};

/// Puts a convolution on the device's stream: of two operands in the order that
/// [`ConvolutionPart`](crate::ConvolutionPart) names them in, each from a byte of a buffer on, at a multiple of 16, and
/// so the bias that the form asks for; the result starts its buffer.
///
/// # Errors
/// `Internal` for a form that [`convolves`](crate::convolves) refuses or memory that does not fit it; `OutOfMemory` for
/// what the algorithm needs besides; `Device` for what the library answers.
pub fn convolve(
    form: &Convolution,
    operands: [(&Buffer, usize); 2],
    bias: Option<(&Buffer, usize)>,
    out: &Buffer,
) -> Result<()> {
    let device = out.device();
    let index = device.cuda_index();
    let Some(index) = index.filter(|_| cuda::has_convolutions() && form.is_sound()) else {
        return Err(Error::internal("a convolution that no library computes"));
    };
    if bias.is_some() != form.bias {
        return Err(Error::internal("a convolution without its bias"));
    }
    let sizes = form.order().map(|tensor| form.bytes(tensor));
    let channels = form.sizes[2][1] as usize * form.dtype.size();
    let tensors = [operands[0], operands[1], (out, 0)].into_iter().chain(bias);
    let mut words = Vec::with_capacity(5);
    for ((buffer, first), bytes) in tensors.zip(sizes.into_iter().chain([channels])) {
        let address = buffer.as_ptr() as u64 + first as u64;
        let fits = first + bytes <= buffer.bytes() && address.is_multiple_of(16);
        if !fits || buffer.device() != device {
            return Err(Error::internal(
                "a convolution's tensor is not where it should be",
            ));
        }
        words.push(address);
    }
    let bytes = cuda::workspace_bytes(index, form)?;
    let bytes = bytes.ok_or_else(|| Error::internal("a convolution without an algorithm"))?;
    // Handed on in the stream's order when it is dropped.
    let workspace = Buffer::allocate(device, bytes)?;
    let address = match bytes {
        0 => 0,
        _ => workspace.as_ptr() as u64,
    };
    words.insert(3, address);
    cuda::run_convolution(index, form, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::cuda::convolution_form;

    #[test]
    fn the_host_computes_no_convolution() {
        let buffer = Buffer::allocate(&Device::cpu(), 4096).expect("memory");
        let both = [(&buffer, 0), (&buffer, 0)];
        assert!(convolve(&convolution_form(), both, None, &buffer).is_err());
    }
}
