//! Tensors from bytes, and bytes of tensors: what files hold.

use crate::Tensor;
use crate::flush::stored_array;
use crate::read::{elements, on_host};
use ferrotrace_kernels::Array;
use ferrotrace_kernels::op::check_size;
use ferrotrace_runtime::{
    Buffer, DType, Device, DlTensor, Error, FileMap, Layout, Pool, Result, Shape, Strides,
};
use parking_lot::Mutex;

impl Tensor {
    /// A tensor of elements in row-major order given as bytes, in the machine's byte order. The vector's memory becomes
    /// the tensor's where it can.
    ///
    /// The tensor carries an error if the shape takes another number of bytes, or a byte of `Bool` is neither 0 nor 1.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let bytes = [1i16, -2].map(i16::to_ne_bytes).concat();
    /// let x = Tensor::from_bytes(bytes, DType::I16, 2, &Device::cpu());
    /// assert_eq!(x.to_vec::<i16>()?, [1, -2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn from_bytes(
        bytes: Vec<u8>,
        dtype: DType,
        shape: impl Into<Shape>,
        device: &Device,
    ) -> Tensor {
        let shape = shape.into();
        let buffer = fits(&bytes, dtype, &shape).and_then(|()| Buffer::from_vec(device, bytes));
        match buffer {
            Ok(buffer) => Tensor::of_stored(buffer, Layout::contiguous(shape), dtype),
            Err(error) => Tensor::failed("from_bytes", error, &[]),
        }
    }

    /// A tensor of elements in row-major order that a mapped file holds from byte `start` on, in the machine's byte order.
    ///
    /// On the CPU it is a view of the map, and read when first used, where `start` is a multiple of 8 and the elements
    /// are no booleans, whose bytes have to be looked at. Otherwise its bytes are copied.
    ///
    /// The tensor carries an error where the file is too short, or as [`from_bytes`](Tensor::from_bytes) says.
    #[doc(hidden)]
    #[track_caller]
    pub fn from_map(
        map: &FileMap,
        start: usize,
        dtype: DType,
        shape: impl Into<Shape>,
        device: &Device,
    ) -> Tensor {
        let shape = shape.into();
        match mapped(map, start, dtype, &shape, device) {
            Ok(buffer) => Tensor::of_stored(buffer, Layout::contiguous(shape), dtype),
            Err(error) => Tensor::failed("from_map", error, &[]),
        }
    }

    /// A tensor that another library hands over by DLPack, in its memory, on the CPU or on CUDA. The memory must not be written
    /// any more, by anybody; it is given back with the last tensor that uses it. What writes it on a CUDA device must have
    /// ended.
    ///
    /// Where the memory does not begin at a multiple of 8 bytes (16 on CUDA), it is copied. The tensor carries an error where
    /// [`DlTensor::take`] gives one.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0], [2, 2], &Device::cpu());
    /// let y = Tensor::from_dlpack(x.t().to_dlpack()?);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn from_dlpack(tensor: DlTensor) -> Tensor {
        match tensor.take() {
            Ok((buffer, layout, dtype)) => Tensor::of_stored(buffer, layout, dtype),
            Err(error) => Tensor::failed("from_dlpack", error, &[]),
        }
    }

    /// The tensor for another library, by DLPack, without a copy: who takes it keeps its memory, and must not write it. On a
    /// CUDA device all that computes it has ended.
    ///
    /// # Errors
    /// The tensor carries an error, or computing it fails.
    pub fn to_dlpack(&self) -> Result<DlTensor> {
        self.check()?;
        let array = stored_array(self.node())?;
        array.buffer.device().synchronize()?;
        Ok(DlTensor::of(array.buffer, &array.layout, array.dtype))
    }

    /// A window on the elements of a one-dimensional tensor, without a copy: the element at index `i` is the one at
    /// `offset + Σ i[d]·strides[d]`. Windows may overlap, and strides may be 0.
    ///
    /// The tensor carries an error where an element lies outside.
    #[doc(hidden)]
    #[track_caller]
    pub fn strided(&self, shape: impl Into<Shape>, strides: &[isize], offset: usize) -> Tensor {
        match self.window(shape.into(), strides, offset) {
            Ok(array) => Tensor::from_array(array),
            Err(error) => Tensor::failed("strided", error, &[self]),
        }
    }

    fn window(&self, shape: Shape, strides: &[isize], offset: usize) -> Result<Array> {
        self.check()?;
        let all = stored_array(self.node())?;
        let &[step] = all.layout.strides() else {
            return Err(Error::shape("a window is one on a tensor of one dimension"));
        };
        check_size(&shape, all.dtype)?;
        let outside = || {
            let (len, strides) = (all.numel(), strides.to_vec());
            Error::argument(format!(
                "a window of shape {shape}, strides {strides:?} and offset {offset} on {len} elements"
            ))
        };
        if shape.rank() != strides.len() {
            return Err(outside());
        }
        let whole = |n: usize| i128::try_from(n).unwrap_or(i128::MAX);
        // The least and the greatest position; no sum overflows, since a product has at most 126 bits.
        let (mut low, mut high) = (whole(offset), whole(offset));
        for (&dim, &stride) in shape.iter().zip(strides) {
            let reach = (whole(dim) - 1) * stride as i128;
            *(if reach < 0 { &mut low } else { &mut high }) += reach;
        }
        if shape.numel() > 0 && (low < 0 || high >= whole(all.numel())) {
            return Err(outside());
        }
        let steps: Strides = match shape.numel() {
            0 => shape.strides(),
            _ => strides.iter().map(|stride| stride * step).collect(),
        };
        let first = match shape.numel() {
            0 => all.layout.offset(),
            _ => (all.layout.offset() as isize + offset as isize * step) as usize,
        };
        Ok(all.with_layout(Layout::new(shape, steps, first)))
    }

    /// The bytes of the elements in row-major order, in the machine's byte order.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1u8, 2, 3, 4], [2, 2], &Device::cpu());
    /// assert_eq!(x.t().to_bytes()?, [1, 3, 2, 4]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor carries an error, or computing it fails.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.check()?;
        let array = on_host(stored_array(self.node())?)?;
        let size = array.dtype.size();
        if array.layout.is_contiguous() {
            let first = array.layout.offset() * size;
            let bytes = array.buffer.as_slice::<u8>();
            let bytes = match array.numel() {
                0 => Some(&[][..]),
                n => bytes.get(first..first + n * size),
            };
            return bytes
                .map(<[u8]>::to_vec)
                .ok_or_else(|| Error::internal("an array exceeds its buffer"));
        }
        Ok(match size {
            1 => elements::<u8>(&array)?,
            2 => concat(elements::<i16>(&array)?, i16::to_ne_bytes),
            4 => concat(elements::<i32>(&array)?, i32::to_ne_bytes),
            _ => concat(elements::<i64>(&array)?, i64::to_ne_bytes),
        })
    }

    #[track_caller]
    fn of_stored(buffer: Buffer, layout: Layout, dtype: DType) -> Tensor {
        Tensor::from_array(Array {
            buffer,
            layout,
            dtype,
        })
    }
}

fn concat<T, const N: usize>(elements: Vec<T>, bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    elements.into_iter().flat_map(bytes).collect()
}

/// Checks that the bytes are those of a shape's elements.
fn fits(bytes: &[u8], dtype: DType, shape: &Shape) -> Result<()> {
    check_size(shape, dtype)?;
    if bytes.len() != shape.numel() * dtype.size() {
        let len = bytes.len();
        return Err(Error::shape(format!(
            "{len} bytes do not make up {dtype}{shape}"
        )));
    }
    if dtype != DType::Bool {
        return Ok(());
    }
    match bytes.iter().position(|&byte| byte > 1) {
        None => Ok(()),
        Some(at) => Err(Error::argument(format!(
            "byte {at} is {}, which is no boolean",
            bytes[at]
        ))),
    }
}

fn mapped(
    map: &FileMap,
    start: usize,
    dtype: DType,
    shape: &Shape,
    device: &Device,
) -> Result<Buffer> {
    check_size(shape, dtype)?;
    let end = start.saturating_add(shape.numel() * dtype.size());
    if device.is_cpu()
        && dtype != DType::Bool
        && let Some(buffer) = Buffer::of_map(map, start..end)?
    {
        return Ok(buffer);
    }
    let bytes = map.bytes()?.get(start..end).ok_or_else(|| {
        let len = map.len();
        Error::argument(format!("bytes {start} to {end} of a file of {len} bytes"))
    })?;
    if !device.is_cpu() {
        fits(bytes, dtype, shape)?;
        return Buffer::from_slice(device, bytes);
    }
    let mut buffer = Buffer::allocate(device, bytes.len())?;
    let shared = || Error::internal("fresh memory is shared");
    let to = buffer.get_mut::<u8>().ok_or_else(shared)?;
    copied(map, start, to)?;
    fits(to, dtype, shape)?;
    Ok(buffer)
}

/// Copies a file's bytes from `start` on, on the pool's threads: fresh memory is the slower the fewer threads touch it first.
fn copied(map: &FileMap, start: usize, to: &mut [u8]) -> Result<()> {
    const PIECE: usize = 1 << 20;
    if to.len() <= PIECE {
        return map.copy_to(start, to);
    }
    let pieces: Vec<Mutex<&mut [u8]>> = to.chunks_mut(PIECE).map(Mutex::new).collect();
    let result = Mutex::new(Ok(()));
    Pool::global().run(pieces.len(), &|begin, end, _| {
        for (i, piece) in pieces.iter().enumerate().take(end).skip(begin) {
            let read = map.copy_to(start + i * PIECE, &mut piece.lock());
            if read.is_err() {
                *result.lock() = read;
            }
        }
    });
    result.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(n: i32) -> Tensor {
        Tensor::from_vec((0..n).collect(), n as usize, &Device::cpu())
    }

    fn refused(x: &Tensor, part: &str) {
        let error = x.error().expect("an error").to_string();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn bytes_of_any_layout() {
        for dtype in DType::ALL {
            let x = range(6).to_dtype(DType::Bool).to_dtype(dtype);
            let x = x.reshape([2, 3]);
            let turned = x.t().contiguous().to_bytes().expect("stored");
            assert_eq!(x.t().to_bytes().expect("stored"), turned);
            let back = Tensor::from_bytes(turned, dtype, [3, 2], &Device::cpu());
            assert!(back.t().allclose(&x, 0.0, 0.0).expect("stored"));
            let last = x.narrow(0, 1, 1).narrow(1, 1, 2);
            assert_eq!(last.to_bytes().expect("stored").len(), 2 * dtype.size());
            assert!(last.narrow(1, 0, 0).to_bytes().expect("stored").is_empty());
        }
    }

    #[test]
    fn windows_by_strides() {
        let x = range(10);
        let window = |shape: &[usize], strides: &[isize], offset| {
            let y = x.strided(shape, strides, offset);
            y.to_vec::<i32>()
        };
        assert_eq!(window(&[2, 2], &[3, 1], 1).expect("within"), [1, 2, 4, 5]);
        assert_eq!(window(&[3], &[0], 9).expect("within"), [9, 9, 9]);
        assert_eq!(window(&[3], &[-2], 9).expect("within"), [9, 7, 5]);
        assert_eq!(window(&[], &[], 4).expect("within"), [4]);
        assert_eq!(window(&[0, 7], &[1, 1], 99).expect("empty"), [0i32; 0]);
        let part = x.slice(0, 1, isize::MAX, 2);
        let y = part.strided([2, 2], &[1, 1], 1);
        assert_eq!(y.to_vec::<i32>().expect("within"), [3, 5, 5, 7]);
        for (shape, strides, offset) in [
            (&[2usize][..], &[1isize][..], 9usize),
            (&[3], &[-2], 3),
            (&[1], &[1], usize::MAX),
            (&[2, 2], &[1], 0),
            (&[2; 3], &[isize::MAX; 3], 0),
        ] {
            refused(&x.strided(shape, strides, offset), "a window of shape");
        }
        refused(&x.strided([1 << 40, 1 << 40], &[0, 0], 0), "greater than");
        refused(&x.reshape([2, 5]).strided(1, &[1], 0), "one dimension");
    }

    #[test]
    fn bytes_that_do_not_fit() {
        let of = |bytes: &[u8], dtype, shape: &[usize]| {
            Tensor::from_bytes(bytes.to_vec(), dtype, shape, &Device::cpu())
        };
        refused(&of(&[0; 7], DType::F32, &[2]), "7 bytes");
        refused(&of(&[0, 1, 2], DType::Bool, &[3]), "byte 2 is 2");
        refused(&of(&[], DType::F64, &[1 << 61, 4]), "greater than");
        assert_eq!(
            of(&[1, 0], DType::Bool, &[2]).to_bytes().expect("stored"),
            [1, 0]
        );
        assert_eq!(of(&[], DType::F64, &[0, 3]).dims(), [0, 3]);
    }
}
