//! Arrays made from numbers.

use super::cast::convert;
use super::isa::{Loop, dispatch};
use super::par::{Shared, ranges};
use crate::Array;
use ferrotrace_runtime::{DType, Device, Result, Scalar, Shape};

/// Elements made at a time.
const BLOCK: usize = 1024;
/// Elements of a chunk of work.
const CHUNK: usize = 1 << 14;

/// Makes a dense array of type `dtype` from blocks that `f` writes: `f(first, block)` writes the elements from `first`
/// on as values of type `T`, whose dtype is `made`.
pub(super) fn generate<T: Copy + Default>(
    device: &Device,
    shape: &Shape,
    made: DType,
    dtype: DType,
    f: impl Fn(usize, &mut [T]) + Sync,
) -> Result<Array> {
    let out = Array::empty(device, shape.clone(), dtype)?;
    let n = out.numel();
    let to = Shared::new(out.buffer.as_mut_ptr());
    ranges(n.div_ceil(CHUNK), n, &|range| {
        let mut block = [T::default(); BLOCK];
        let end = (range.end * CHUNK).min(n);
        for first in (range.start * CHUNK..end).step_by(BLOCK) {
            let len = BLOCK.min(end - first);
            f(first, &mut block[..len]);
            let to = to.get().wrapping_add(first * dtype.size());
            // SAFETY: blocks are disjoint parts of the new array.
            unsafe { convert(made, dtype, len, block.as_ptr().cast(), to) };
        }
    });
    Ok(out)
}

/// An array with one number at every element.
///
/// # Errors
/// Out of memory.
pub fn full(device: &Device, shape: &Shape, number: Scalar, dtype: DType) -> Result<Array> {
    let value = number.cast(dtype);
    match value {
        Scalar::Bool(b) => constant(device, shape, DType::U8, dtype, b as u8),
        Scalar::Int(i) => constant(device, shape, DType::I64, dtype, i),
        Scalar::Float(f) => constant(device, shape, DType::F64, dtype, f),
    }
}

fn constant<T>(device: &Device, shape: &Shape, made: DType, dtype: DType, value: T) -> Result<Array>
where
    T: Copy + Default + Sync,
{
    let mut bytes = [0u8; 8];
    // SAFETY: the value is one element of `made`, the bytes hold one of any type.
    unsafe {
        convert(
            made,
            dtype,
            1,
            (&raw const value).cast(),
            bytes.as_mut_ptr(),
        )
    };
    let out = Array::empty(device, shape.clone(), dtype)?;
    let (n, size) = (out.numel(), dtype.size());
    let to = Shared::new(out.buffer.as_mut_ptr());
    ranges(n.div_ceil(CHUNK), n, &|range| {
        let (begin, end) = (range.start * CHUNK, (range.end * CHUNK).min(n));
        let at = to.get().wrapping_add(begin * size);
        // SAFETY: ranges are disjoint parts of the new array.
        unsafe {
            match size {
                1 => at.write_bytes(bytes[0], end - begin),
                2 => fill(at, end - begin, u16::from_ne_bytes([bytes[0], bytes[1]])),
                4 => fill(
                    at,
                    end - begin,
                    u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
                ),
                _ => fill(at, end - begin, u64::from_ne_bytes(bytes)),
            }
        }
    });
    Ok(out)
}

/// # Safety
/// `n` elements may be written at `to`, which is aligned for them.
unsafe fn fill<T: Copy>(to: *mut u8, n: usize, value: T) {
    for i in 0..n {
        // SAFETY: as the caller promises.
        unsafe { to.cast::<T>().add(i).write(value) };
    }
}

/// start + i·step for `len` elements: in `I64` if `dtype` is an integer and both numbers are, else in `F64`.
///
/// # Errors
/// Out of memory.
pub fn arange(
    device: &Device,
    len: usize,
    start: Scalar,
    step: Scalar,
    dtype: DType,
) -> Result<Array> {
    let shape = Shape::from(len);
    match (start, step) {
        (Scalar::Int(start), Scalar::Int(step)) if dtype.is_int() => generate(
            device,
            &shape,
            DType::I64,
            dtype,
            |first, block: &mut [i64]| {
                dispatch(Whole {
                    first,
                    start,
                    step,
                    block,
                });
            },
        ),
        _ => {
            let (start, step) = (start.to_f64(), step.to_f64());
            generate(
                device,
                &shape,
                DType::F64,
                dtype,
                |first, block: &mut [f64]| {
                    dispatch(Real {
                        first,
                        start,
                        step,
                        block,
                    });
                },
            )
        }
    }
}

struct Whole<'a> {
    first: usize,
    start: i64,
    step: i64,
    block: &'a mut [i64],
}

impl Loop for Whole<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (i, x) in self.block.iter_mut().enumerate() {
            *x = self
                .start
                .wrapping_add(self.step.wrapping_mul((self.first + i) as i64));
        }
    }
}

struct Real<'a> {
    first: usize,
    start: f64,
    step: f64,
    block: &'a mut [f64],
}

impl Loop for Real<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (i, x) in self.block.iter_mut().enumerate() {
            *x = self.start + (self.first + i) as i64 as f64 * self.step;
        }
    }
}

/// The position along dimension `dim`.
///
/// # Errors
/// Out of memory.
pub fn iota(device: &Device, shape: &Shape, dim: usize) -> Result<Array> {
    let size = shape.get(dim).copied().unwrap_or(1).max(1);
    let inner = shape.iter().skip(dim + 1).product::<usize>().max(1);
    generate(
        device,
        shape,
        DType::I64,
        DType::I64,
        |first, block: &mut [i64]| {
            let (mut within, mut at) = (first % inner, first / inner % size);
            for x in block {
                *x = at as i64;
                within += 1;
                if within == inner {
                    (within, at) = (0, if at + 1 == size { 0 } else { at + 1 });
                }
            }
        },
    )
}
