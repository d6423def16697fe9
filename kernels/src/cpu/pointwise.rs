//! The driver of pointwise kernels: any strides, any dtypes, any number of threads.
//!
//! Kernels know dense runs of one compute type alone. The driver cuts the index space into tiles that fit the
//! first-level cache; an operand that is no dense run of the compute type there is gathered and converted into scratch
//! first, and a result of another type, or one too large for the last cache, is written from scratch.

use super::cast::convert;
use super::par::{GRAIN, Shared, ranges};
use super::strided::{Window, fence, gather, stream};
use super::tiles::{ARRAYS, Tile, Tiles};
use crate::Array;
use ferrotrace_runtime::{DType, Device, Layout, Result, Scalar, Shape, Strides, host};
use std::mem::MaybeUninit;

/// A pointwise loop: reads `n` elements from each of its operands, writes `n` results.
pub type Kernel = unsafe fn(n: usize, operands: [*const u8; 3], result: *mut u8);

/// A kernel, and the type of what it writes.
#[derive(Clone, Copy, Debug)]
pub struct Pointwise {
    /// The loop; none copies the one operand.
    pub kernel: Option<Kernel>,
    /// What it writes.
    pub produced: DType,
}

/// An operand of a kernel.
#[derive(Debug)]
pub struct Input {
    /// The first element; null for a number.
    base: *const u8,
    bits: u64,
    strides: Strides,
    dtype: DType,
    compute: DType,
    dense: bool,
}

impl Input {
    /// An array broadcast to `shape`, converted to `compute`.
    pub fn array(x: &Array, shape: &Shape, compute: DType) -> Input {
        let lead = shape.rank().saturating_sub(x.shape().rank());
        let mut strides = Strides::from_elem(0, shape.rank());
        for (d, (&size, &stride)) in x.shape().iter().zip(x.layout.strides()).enumerate() {
            if size != 1 {
                strides[lead + d] = stride;
            }
        }
        let base = x.buffer.as_ptr().wrapping_add(x.layout.offset() * x.dtype.size());
        let dense = x.layout.is_contiguous() && x.numel() == shape.numel();
        Input { base, bits: 0, strides, dtype: x.dtype, compute, dense }
    }

    /// A number everywhere, rounded to `dtype`, given to the kernel in its compute type.
    pub fn scalar(number: Scalar, shape: &Shape, dtype: DType) -> Input {
        let strides = Strides::from_elem(0, shape.rank());
        let compute = dtype.compute();
        Input { base: std::ptr::null(), bits: number.to_bits(dtype), strides, dtype: compute, compute, dense: false }
    }

    /// The first element. Little-endian bits of a number lie where a value of its type is read.
    fn ptr(&self) -> *const u8 {
        if self.base.is_null() { (&raw const self.bits).cast() } else { self.base }
    }

    /// Whether the elements have the compute type.
    pub(super) fn is_native(&self) -> bool {
        self.dtype == self.compute
    }

    /// The element `offset` elements after the first.
    pub(super) fn at(&self, offset: isize) -> *const u8 {
        self.ptr().wrapping_offset(offset * self.dtype.size() as isize)
    }

    fn is_direct(&self) -> bool {
        self.dense && self.dtype == self.compute
    }
}

/// Elements of a tile that passes through scratch.
pub(super) const TILE: usize = 2048;
/// The same for small results, which cannot pay for touching more stack.
const SMALL: usize = 128;
/// Elements of a tile that does not.
const DIRECT: usize = 1 << 14;

/// Scratch for one tile of any type, on a cache line.
#[repr(align(64))]
pub(super) struct Scratch<const N: usize>([MaybeUninit<u64>; N]);

impl<const N: usize> Scratch<N> {
    pub(super) const fn new() -> Scratch<N> {
        Scratch([const { MaybeUninit::uninit() }; N])
    }

    pub(super) fn ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// Runs a kernel over `shape`: the result is a new dense array of type `dtype`.
///
/// # Errors
/// Out of memory.
pub fn map(op: Pointwise, inputs: &[Input], device: &Device, shape: &Shape, dtype: DType) -> Result<Array> {
    let out = Array::empty(device, shape.clone(), dtype)?;
    let n = out.numel();
    if n == 0 {
        return Ok(out);
    }
    let to = out.buffer.as_mut_ptr();
    if let Some(kernel) = op.kernel.filter(|_| n < GRAIN && op.produced == dtype) {
        if inputs.iter().all(Input::is_direct) {
            let mut operands = [std::ptr::null(); 3];
            inputs.iter().zip(&mut operands).for_each(|(input, ptr)| *ptr = input.ptr());
            // SAFETY: each operand is a dense run of `n` elements of its compute type, the result a new buffer of `n`.
            unsafe { kernel(n, operands, to) };
            return Ok(out);
        }
    }
    // SAFETY: the inputs' strides are those of arrays broadcast to `shape`, `out` is new and dense.
    unsafe { write(op, inputs, shape, &out.layout, dtype, to) };
    Ok(out)
}

/// Runs a kernel over `shape`, and writes the result as `dtype` in the window `layout` of the memory at `to`. The last
/// dimension of the window is dense.
///
/// # Safety
/// The inputs' strides reach elements of their buffers for every index of `shape`; `layout` has that shape and stays
/// inside the memory at `to`, which nobody else uses.
pub unsafe fn write(op: Pointwise, inputs: &[Input], shape: &Shape, layout: &Layout, dtype: DType, to: *mut u8) {
    let n = shape.numel();
    if n == 0 {
        return;
    }
    let mut strides: [&[isize]; ARRAYS] = [&[]; ARRAYS];
    strides[0] = layout.strides();
    inputs.iter().zip(&mut strides[1..]).for_each(|(input, s)| *s = &input.strides);
    let strides = &strides[..=inputs.len()];
    let size = inputs.iter().map(|i| i.dtype.size()).max().unwrap_or(1);
    let streamed = n * dtype.size() > host::last_cache_bytes().max(1 << 20);
    let direct = !streamed && op.produced == dtype && inputs.iter().all(Input::is_direct);
    let limit = if direct { DIRECT } else if n <= SMALL { SMALL } else { TILE };
    let tiles = Tiles::new(shape, strides, size, limit);
    let to = to.wrapping_add(layout.offset() * dtype.size());
    let job = Job { op, inputs, tiles, dtype, streamed, to: Shared::new(to) };
    // SAFETY: as the caller promises; tiles of different chunks are disjoint in the result.
    if n <= SMALL {
        unsafe { job.run::<SMALL>(0..job.tiles.count) };
    } else {
        let job = &job;
        ranges(job.tiles.count, n, &|range| unsafe { job.run::<TILE>(range) });
    }
}

struct Job<'a> {
    op: Pointwise,
    inputs: &'a [Input],
    tiles: Tiles,
    dtype: DType,
    streamed: bool,
    to: Shared,
}

// SAFETY: the pointers among the inputs are read only, and `to` is written in disjoint tiles.
unsafe impl Sync for Job<'_> {}

/// Where a tile of an array is: its first element and the distance of its rows in elements.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) ptr: *mut u8,
    pub(super) pitch: usize,
}

impl Job<'_> {
    /// # Safety
    /// As [`write`]; no other thread runs the same tiles.
    unsafe fn run<const N: usize>(&self, range: std::ops::Range<usize>) {
        let mut native = Scratch::<N>::new();
        let mut loaded = [const { Scratch::<N>::new() }; 3];
        let mut result = Scratch::<N>::new();
        let mut held = [None; 3];
        for index in range {
            let tile = self.tiles.tile(index);
            let to = self.tiles.window(&tile, 0);
            let out = Rows {
                ptr: self.to.get().wrapping_offset(tile.offsets[0] * self.dtype.size() as isize),
                pitch: if tile.rows == 1 { tile.cols } else { to.row as usize },
            };
            // SAFETY: windows of tiles are parts of the arrays, as the caller promises; scratch holds a whole tile, since
            // tiles larger than `N` are direct.
            unsafe {
                let through = self.streamed || self.op.produced != self.dtype;
                let target = if through { Rows { ptr: result.ptr(), pitch: tile.cols } } else { out };
                match self.op.kernel {
                    None => load(&self.inputs[0], self.tiles.window(&tile, 1), tile.offsets[1], native.ptr(), target),
                    Some(kernel) => {
                        let mut from = [Rows { ptr: std::ptr::null_mut(), pitch: tile.cols }; 3];
                        for (k, input) in self.inputs.iter().enumerate() {
                            let window = self.tiles.window(&tile, k + 1);
                            let at = tile.offsets[k + 1];
                            from[k] = fetch(input, window, at, native.ptr(), loaded[k].ptr(), &mut held[k]);
                        }
                        apply(kernel, &tile, self, &from, target);
                    }
                }
                if through {
                    self.store(&tile, target.ptr, out);
                }
            }
        }
        if self.streamed {
            fence();
        }
    }

    /// Writes a tile from scratch to the result.
    unsafe fn store(&self, tile: &Tile, from: *const u8, out: Rows) {
        let (produced, size) = (self.op.produced, self.dtype.size());
        let (rows, cols) =
            if out.pitch == tile.cols { (1, tile.rows * tile.cols) } else { (tile.rows, tile.cols) };
        for r in 0..rows {
            let from = from.wrapping_add(r * cols * produced.size());
            let to = out.ptr.wrapping_add(r * out.pitch * size);
            // SAFETY: the row is inside the scratch tile, and inside the result's window.
            unsafe {
                match (produced == self.dtype, self.streamed) {
                    (true, true) => stream(from, to, cols * size),
                    (true, false) => to.copy_from_nonoverlapping(from, cols * size),
                    (false, _) => convert(produced, self.dtype, cols, from, to),
                }
            }
        }
    }
}

/// Runs the kernel on a tile, at once where every array's rows adjoin.
unsafe fn apply(kernel: Kernel, tile: &Tile, job: &Job<'_>, from: &[Rows; 3], to: Rows) {
    let flat = tile.rows == 1 || (to.pitch == tile.cols && from.iter().all(|r| r.pitch == tile.cols));
    let (rows, cols) = if flat { (1, tile.rows * tile.cols) } else { (tile.rows, tile.cols) };
    for r in 0..rows {
        let mut operands = [std::ptr::null(); 3];
        for ((ptr, rows), input) in operands.iter_mut().zip(from).zip(job.inputs) {
            *ptr = rows.ptr.wrapping_add(r * rows.pitch * input.compute.size()).cast_const();
        }
        // SAFETY: the caller gives tiles of `rows` rows of `cols` elements of the kernel's types.
        unsafe { kernel(cols, operands, to.ptr.wrapping_add(r * to.pitch * job.op.produced.size())) };
    }
}

/// The tile of an operand in its compute type: where it lies, if its rows are dense there, else in scratch.
///
/// # Safety
/// The window at `at` is inside the operand's buffer; each scratch holds as many elements as the window, unless it is
/// dense and of the compute type. The result is read only.
pub(super) unsafe fn fetch(
    input: &Input,
    window: Window,
    at: isize,
    native: *mut u8,
    loaded: *mut u8,
    held: &mut Option<(isize, usize, usize)>,
) -> Rows {
    let Window { rows, cols, row, col } = window;
    let dense = window.is_dense();
    let long = col == 1 && row >= cols as isize && cols >= 64;
    if input.dtype == input.compute && (dense || long) {
        let ptr = input.ptr().wrapping_offset(at * input.dtype.size() as isize).cast_mut();
        return Rows { ptr, pitch: if rows == 1 { cols } else { row as usize } };
    }
    let target = Rows { ptr: loaded, pitch: cols };
    // What does not move between tiles is still there.
    if held.replace((at, rows, cols)) != Some((at, rows, cols)) {
        // SAFETY: as the caller promises.
        unsafe { load(input, window, at, native, target) };
    }
    target
}

/// Copies a window of an operand to rows of its compute type.
unsafe fn load(input: &Input, window: Window, at: isize, native: *mut u8, to: Rows) {
    let size = input.dtype.size();
    let from = input.ptr().wrapping_offset(at * size as isize);
    // SAFETY: the window is inside the operand's buffer, `native` and `to` hold a tile.
    unsafe {
        if input.dtype == input.compute {
            return gather(size, window, from, to.ptr, to.pitch);
        }
        let Window { rows, cols, row, col } = window;
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
