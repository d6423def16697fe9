//! NumPy's arrays: files of one (`.npy`) and archives of several (`.npz`).

pub(super) mod archive;
mod header;

use super::file::{broken, open, read_exactly, shape_of, write_atomically};
use crate::{DType, Device, Error, Result, Tensor};
use header::{Header, Order};
use std::io::{BufReader, Read, Write};
use std::path::Path;

/// Writes a tensor as a file that `numpy.load` reads, in row-major order.
///
/// NumPy has no bfloat16: `BF16` is written as the package `ml_dtypes` writes it, as elements of two bytes without a
/// meaning (`<V2`), and read back as `BF16`. In Python, `numpy.load(path).view(ml_dtypes.bfloat16)` gives its numbers.
///
/// ```
/// use ferrotrace::prelude::*;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("x.npy");
/// let x = Tensor::arange(0, 6, 1, DType::I16, &Device::cpu()).reshape([2, 3]);
/// io::save_npy(&path, &x.t())?;
/// assert_eq!(io::load_npy(&path, &Device::cpu())?.to_vec::<i16>()?, [0, 3, 1, 4, 2, 5]);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// What the tensor carries, or what computing it meets; `Io` where the file cannot be written. Then there is no file, or
/// the one that was there before.
pub fn save_npy(path: impl AsRef<Path>, tensor: &Tensor) -> Result<()> {
    let path = path.as_ref();
    tensor.eval()?;
    write_atomically(path, |file| {
        write(file, tensor)?.map_err(|error| Error::io(path, &error))
    })
}

/// Reads a file that NumPy wrote: versions 1 to 3 of the format, row-major or column-major, in either byte order, of
/// every dtype that tensors have. A column-major array is a tensor of as many dimensions over the same memory. Complex
/// numbers are read as pairs, a last dimension of 2, as [`Tensor::fft`] gives them: `complex64` as `F32`, `complex128` as `F64`.
///
/// Bytes behind the array are left alone, as NumPy does.
///
/// # Errors
/// `Io`: the file cannot be read, is no array of NumPy's, or is shorter than it claims; or it holds what no tensor does:
/// unsigned integers wider than 8 bits, strings, objects, dates, records.
///
/// ```
/// use ferrotrace::prelude::*;
/// assert!(io::load_npy("no such file", &Device::cpu()).is_err());
/// ```
pub fn load_npy(path: impl AsRef<Path>, device: &Device) -> Result<Tensor> {
    let path = path.as_ref();
    let (file, len) = open(path)?;
    read(path, &mut BufReader::new(file), len, device)
}

/// Writes an array. Errors of the tensor are outside, errors of the stream inside.
fn write(to: &mut impl Write, tensor: &Tensor) -> Result<std::io::Result<()>> {
    let bytes = tensor.to_bytes()?;
    let header = header::write(tensor.dtype(), tensor.dims());
    Ok(to.write_all(&header).and_then(|()| to.write_all(&bytes)))
}

/// Reads an array from a stream that has `known` bytes, at least where a file's length is known.
fn read(
    path: &Path,
    stream: &mut (impl Read + ?Sized),
    known: u64,
    device: &Device,
) -> Result<Tensor> {
    let mut header = header::read(stream).map_err(|message| broken(path, message))?;
    if header.is_complex {
        header.dims.push(2);
    }
    let shape = shape_of(path, &header.dims, header.dtype)?;
    let len = shape.numel() * header.dtype.size();
    let bytes = read_exactly(stream, len, known).map_err(|error| Error::io(path, &error))?;
    let tensor = tensor_of(bytes, header, device);
    match tensor.error() {
        Some(error) => Err(broken(path, error.kind().to_string())),
        None => Ok(tensor),
    }
}

fn tensor_of(mut bytes: Vec<u8>, header: Header, device: &Device) -> Tensor {
    let Header {
        dtype,
        is_complex,
        order,
        is_fortran,
        mut dims,
    } = header;
    if order == Order::Big {
        bytes
            .chunks_exact_mut(dtype.size())
            .for_each(<[u8]>::reverse);
    }
    if dtype == DType::Bool {
        // To NumPy every byte but 0 is true.
        bytes.iter_mut().for_each(|byte| *byte = (*byte != 0) as u8);
    }
    // The parts of a complex number lie beside each other in both orders.
    let rank = dims.len() - usize::from(is_complex);
    if !is_fortran || rank < 2 {
        return Tensor::from_bytes(bytes, dtype, dims, device);
    }
    dims[..rank].reverse();
    let turned: Vec<usize> = (0..rank).rev().chain(rank..dims.len()).collect();
    Tensor::from_bytes(bytes, dtype, dims, device).permute(turned)
}
