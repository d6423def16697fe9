//! Operands of kernels: strided arrays and numbers, brought to dense rows of the compute type a tile at a time.

pub mod cast;
pub mod strided;
pub mod tiles;

use crate::Array;
use crate::cpu::cast::convert;
use crate::cpu::strided::{Window, gather};
use ferrotrace_runtime::{DType, Scalar, Shape, Strides};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// An operand of a kernel.
#[derive(Debug)]
pub struct Input<'a> {
    /// The first element; null for a number.
    base: *const u8,
    bits: u64,
    pub(in crate::cpu) strides: Strides,
    pub(in crate::cpu) dtype: DType,
    pub(in crate::cpu) compute: DType,
    dense: bool,
    owner: PhantomData<&'a Array>,
}

impl<'a> Input<'a> {
    /// An array broadcast to `shape`, converted to `compute`.
    pub fn array(x: &'a Array, shape: &Shape, compute: DType) -> Input<'a> {
        let lead = shape.rank().saturating_sub(x.shape().rank());
        let mut strides = Strides::from_elem(0, shape.rank());
        for (d, (&size, &stride)) in x.shape().iter().zip(x.layout.strides()).enumerate() {
            if size != 1 && size == shape[lead + d] {
                strides[lead + d] = stride;
            }
        }
        let base = x
            .buffer
            .as_ptr()
            .wrapping_add(x.layout.offset() * x.dtype.size());
        let dense = x.layout.is_contiguous() && x.numel() == shape.numel();
        Input {
            base,
            bits: 0,
            strides,
            dtype: x.dtype,
            compute,
            dense,
            owner: PhantomData,
        }
    }

    /// A number everywhere, rounded to `dtype`, given to the kernel in its compute type.
    pub fn scalar(number: Scalar, shape: &Shape, dtype: DType) -> Input<'static> {
        let strides = Strides::from_elem(0, shape.rank());
        let compute = dtype.compute();
        Input {
            base: std::ptr::null(),
            bits: number.to_bits(dtype),
            strides,
            dtype: compute,
            compute,
            dense: false,
            owner: PhantomData,
        }
    }

    /// The first element. Little-endian bits of a number lie where a value of its type is read.
    pub(in crate::cpu) fn ptr(&self) -> *const u8 {
        if self.base.is_null() {
            (&raw const self.bits).cast()
        } else {
            self.base
        }
    }

    /// Whether the elements have the compute type.
    pub(in crate::cpu) fn is_native(&self) -> bool {
        self.dtype == self.compute
    }

    /// The element `offset` elements after the first.
    pub(in crate::cpu) fn at(&self, offset: isize) -> *const u8 {
        self.ptr()
            .wrapping_offset(offset * self.dtype.size() as isize)
    }

    /// Whether it is a number.
    pub(in crate::cpu) fn is_number(&self) -> bool {
        self.base.is_null()
    }

    /// Whether it is a dense run of the compute type, as long as the result.
    pub(in crate::cpu) fn is_direct(&self) -> bool {
        self.dense && self.dtype == self.compute
    }
}

/// Elements of a tile that passes through scratch, of any type; of narrow types it holds more.
pub(in crate::cpu) const TILE: usize = 2048;

/// Scratch for `N` elements of 8 bytes, on a cache line.
#[repr(align(64))]
pub(in crate::cpu) struct Scratch<const N: usize>([MaybeUninit<u64>; N]);

impl<const N: usize> Scratch<N> {
    pub(in crate::cpu) const fn new() -> Scratch<N> {
        Scratch([const { MaybeUninit::uninit() }; N])
    }

    pub(in crate::cpu) fn ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// Where a tile of an array is: its first element and the distance of its rows in elements.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Rows {
    pub(in crate::cpu) ptr: *mut u8,
    pub(in crate::cpu) pitch: usize,
}

/// The tile of an operand in its compute type: where it lies, if its rows are dense there, else in scratch.
///
/// # Safety
/// The window at `at` is inside the operand's buffer; each scratch holds as many elements as the window, unless it is
/// dense and of the compute type. The result is read only.
pub(in crate::cpu) unsafe fn fetch(
    input: &Input<'_>,
    window: Window,
    at: isize,
    native: *mut u8,
    loaded: *mut u8,
    held: &mut Option<(isize, usize, usize)>,
) -> Rows {
    let Window {
        rows,
        cols,
        row,
        col,
    } = window;
    let dense = window.is_dense();
    let long = col == 1 && row >= cols as isize && cols >= 64;
    if input.dtype == input.compute && (dense || long) {
        let ptr = input
            .ptr()
            .wrapping_offset(at * input.dtype.size() as isize)
            .cast_mut();
        return Rows {
            ptr,
            pitch: if rows == 1 { cols } else { row as usize },
        };
    }
    let target = Rows {
        ptr: loaded,
        pitch: cols,
    };
    // What does not move between tiles is still there.
    if held.replace((at, rows, cols)) != Some((at, rows, cols)) {
        // SAFETY: as the caller promises.
        unsafe { load(input, window, at, native, target) };
    }
    target
}

/// Copies a window of an operand to rows of its compute type.
///
/// # Safety
/// The window at `at` is inside the operand's buffer; `native` and `to` have room for as many elements.
pub(in crate::cpu) unsafe fn load(
    input: &Input<'_>,
    window: Window,
    at: isize,
    native: *mut u8,
    to: Rows,
) {
    let size = input.dtype.size();
    let from = input.ptr().wrapping_offset(at * size as isize);
    // SAFETY: the window is inside the operand's buffer, `native` and `to` hold a tile.
    unsafe {
        if input.dtype == input.compute {
            return gather(size, window, from, to.ptr, to.pitch);
        }
        let Window {
            rows,
            cols,
            row,
            col,
        } = window;
        let (from, row) = if col == 1 || cols == 1 {
            (from, row)
        } else {
            gather(size, window, from, native, cols);
            (native.cast_const(), cols as isize)
        };
        let flat = rows == 1 || (row == cols as isize && to.pitch == cols);
        let (rows, cols) = if flat { (1, rows * cols) } else { (rows, cols) };
        for r in 0..rows {
            let source = from.wrapping_offset(r as isize * row * size as isize);
            let target = to.ptr.wrapping_add(r * to.pitch * input.compute.size());
            convert(input.dtype, input.compute, cols, source, target);
        }
    }
}
