//! The driver of pointwise kernels: any strides, any dtypes, any number of threads.
//!
//! Kernels know dense runs of one compute type alone. The driver cuts the index space into tiles that fit the
//! first-level cache; an operand that is no dense run of the compute type there is gathered and converted into scratch
//! first, and a result of another type, or one too large for the last cache, is written from scratch.

pub mod binary;
pub mod copy;
pub mod join;
pub mod unary;

use crate::Array;
use crate::cpu::cast::convert;
use crate::cpu::operand::{Input, Rows, Scratch, TILE, fetch, load};
use crate::cpu::par::{GRAIN, Shared, ranges};
use crate::cpu::strided::{Window, fence, gather, prefetch, stream};
use crate::cpu::tiles::{ARRAYS, Tile, Tiles};
use ferrotrace_runtime::{DType, Device, Layout, Result, Shape, host};

/// A pointwise loop: reads `n` elements from each of its operands, writes `n` results.
pub type Kernel = unsafe fn(n: usize, operands: [*const u8; 3], result: *mut u8);

/// A kernel, and the type of what it writes.
#[derive(Clone, Copy, Debug)]
pub struct Pointwise {
    /// The loop; none copies the one operand.
    pub kernel: Option<Kernel>,
    /// The dtype that the kernel writes.
    pub produced: DType,
}

/// Elements of a tile for small results, which cannot pay for touching more of the stack.
const SMALL: usize = 128;
/// Elements of a tile that does not.
const DIRECT: usize = 1 << 14;

/// Runs a kernel over `shape`: the result is a new dense array of type `dtype`.
///
/// # Errors
/// Out of memory.
pub fn map(
    op: Pointwise,
    inputs: &[Input<'_>],
    device: &Device,
    shape: &Shape,
    dtype: DType,
) -> Result<Array> {
    let out = Array::empty(device, shape.clone(), dtype)?;
    let n = out.numel();
    if n == 0 {
        return Ok(out);
    }
    let to = out.buffer.as_mut_ptr();
    if let Some(kernel) = op.kernel.filter(|_| n < GRAIN && op.produced == dtype) {
        if inputs.iter().all(Input::is_direct) {
            let mut operands = [std::ptr::null(); 3];
            inputs
                .iter()
                .zip(&mut operands)
                .for_each(|(input, ptr)| *ptr = input.ptr());
            // SAFETY: each operand is a dense run of `n` elements of its compute type, the result a new buffer of `n`.
            unsafe { kernel(n, operands, to) };
            return Ok(out);
        }
        if n <= SMALL
            && inputs
                .iter()
                .all(|input| input.is_direct() || input.is_number())
        {
            // SAFETY: each operand is a dense run of `n` elements, or a number that is repeated in scratch; the result is a new
            // buffer of `n`.
            unsafe { small(kernel, n, inputs, to) };
            return Ok(out);
        }
    }
    // SAFETY: the inputs' strides are those of arrays broadcast to `shape`, `out` is new and dense.
    unsafe { write(op, inputs, shape, &out.layout, dtype, to) };
    Ok(out)
}

/// Runs a kernel on at most `SMALL` elements of dense operands and numbers.
unsafe fn small(kernel: Kernel, n: usize, inputs: &[Input<'_>], to: *mut u8) {
    let mut repeated = [const { Scratch::<SMALL>::new() }; 3];
    let mut operands = [std::ptr::null(); 3];
    for ((input, operand), scratch) in inputs.iter().zip(&mut operands).zip(&mut repeated) {
        *operand = input.ptr();
        if input.is_number() {
            let window = Window {
                rows: 1,
                cols: n,
                row: 0,
                col: 0,
            };
            // SAFETY: the number is one element of the compute type; scratch holds `SMALL` of any.
            unsafe { gather(input.compute.size(), window, input.ptr(), scratch.ptr(), n) };
            *operand = scratch.ptr().cast_const();
        }
    }
    // SAFETY: as the caller promises.
    unsafe { kernel(n, operands, to) };
}

/// Runs a kernel over `shape`, and writes the result as `dtype` in the window `layout` of the memory at `to`. The last
/// dimension of the window is dense.
///
/// # Safety
/// The inputs' strides reach elements of their buffers for every index of `shape`; `layout` has that shape and stays
/// inside the memory at `to`, which nobody else uses.
pub unsafe fn write(
    op: Pointwise,
    inputs: &[Input<'_>],
    shape: &Shape,
    layout: &Layout,
    dtype: DType,
    to: *mut u8,
) {
    let n = shape.numel();
    if n == 0 {
        return;
    }
    let mut strides: [&[isize]; ARRAYS] = [&[]; ARRAYS];
    strides[0] = layout.strides();
    inputs
        .iter()
        .zip(&mut strides[1..])
        .for_each(|(input, s)| *s = &input.strides);
    let strides = &strides[..=inputs.len()];
    let size = inputs.iter().map(|i| i.dtype.size()).max().unwrap_or(1);
    let widest = inputs
        .iter()
        .map(|i| i.compute.size())
        .fold(size.max(op.produced.size()), usize::max);
    let streamed = host::exceeds_caches(n * dtype.size());
    let direct = !streamed && op.produced == dtype && inputs.iter().all(Input::is_direct);
    let limit = if direct {
        DIRECT
    } else if n <= SMALL {
        SMALL
    } else {
        TILE * 8 / widest
    };
    let tiles = Tiles::new(shape, strides, size, limit);
    let to = to.wrapping_add(layout.offset() * dtype.size());
    let job = Job {
        op,
        inputs,
        tiles,
        dtype,
        streamed,
        to: Shared::new(to),
    };
    if n <= SMALL {
        // SAFETY: as the caller promises.
        unsafe { job.run::<SMALL>(0..job.tiles.count) };
    } else {
        let job = &job;
        // SAFETY: as the caller promises; tiles of different ranges are disjoint in the result.
        ranges(job.tiles.count, n, &|range| unsafe {
            job.run::<TILE>(range)
        });
    }
}

struct Job<'a> {
    op: Pointwise,
    inputs: &'a [Input<'a>],
    tiles: Tiles,
    dtype: DType,
    streamed: bool,
    to: Shared,
}

// SAFETY: the pointers among the inputs are read only, and `to` is written in disjoint tiles.
unsafe impl Sync for Job<'_> {}

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
                ptr: self
                    .to
                    .get()
                    .wrapping_offset(tile.offsets[0] * self.dtype.size() as isize),
                pitch: if tile.rows == 1 {
                    tile.cols
                } else {
                    to.row as usize
                },
            };
            // SAFETY: windows of tiles are parts of the arrays, as the caller promises; scratch holds a whole tile, since
            // tiles larger than `N` are direct.
            unsafe {
                let through = self.streamed || self.op.produced != self.dtype;
                let target = if through {
                    Rows {
                        ptr: result.ptr(),
                        pitch: tile.cols,
                    }
                } else {
                    out
                };
                match self.op.kernel {
                    None => {
                        let (window, at) = (self.tiles.window(&tile, 1), tile.offsets[1]);
                        if through {
                            if window.rows > 1 && !window.is_dense() {
                                self.prefetch(&tile);
                            }
                            let from = fetch(
                                &self.inputs[0],
                                window,
                                at,
                                native.ptr(),
                                loaded[0].ptr(),
                                &mut held[0],
                            );
                            self.store(&tile, from, out);
                        } else {
                            load(&self.inputs[0], window, at, native.ptr(), out);
                        }
                        continue;
                    }
                    Some(kernel) => {
                        let mut from = [Rows {
                            ptr: std::ptr::null_mut(),
                            pitch: tile.cols,
                        }; 3];
                        if self.tiles.is_across() {
                            self.prefetch(&tile);
                        }
                        for (k, input) in self.inputs.iter().enumerate() {
                            let window = self.tiles.window(&tile, k + 1);
                            let at = tile.offsets[k + 1];
                            from[k] = fetch(
                                input,
                                window,
                                at,
                                native.ptr(),
                                loaded[k].ptr(),
                                &mut held[k],
                            );
                        }
                        apply(kernel, &tile, self, &from, target);
                    }
                }
                if through {
                    self.store(&tile, target, out);
                }
            }
        }
        if self.streamed {
            fence();
        }
    }

    /// Asks for the rows of operands that lie along rows, while another operand is gathered across.
    fn prefetch(&self, tile: &Tile) {
        for (k, input) in self.inputs.iter().enumerate() {
            let window = self.tiles.window(tile, k + 1);
            if window.col != 1 {
                continue;
            }
            let size = input.dtype.size();
            for r in 0..tile.rows as isize {
                let row = input.at(tile.offsets[k + 1] + r * window.row);
                for line in (0..tile.cols * size).step_by(64) {
                    prefetch(row.wrapping_add(line));
                }
            }
        }
    }

    /// Writes a tile that was made elsewhere to the result.
    unsafe fn store(&self, tile: &Tile, made: Rows, out: Rows) {
        let (produced, size) = (self.op.produced, self.dtype.size());
        let (rows, cols) = if out.pitch == tile.cols && made.pitch == tile.cols {
            (1, tile.rows * tile.cols)
        } else {
            (tile.rows, tile.cols)
        };
        for r in 0..rows {
            let from = made
                .ptr
                .wrapping_add(r * made.pitch * produced.size())
                .cast_const();
            let to = out.ptr.wrapping_add(r * out.pitch * size);
            // SAFETY: the row is inside the tile that was made, and inside the result's window.
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
    let flat =
        tile.rows == 1 || (to.pitch == tile.cols && from.iter().all(|r| r.pitch == tile.cols));
    let (rows, cols) = if flat {
        (1, tile.rows * tile.cols)
    } else {
        (tile.rows, tile.cols)
    };
    for r in 0..rows {
        let mut operands = [std::ptr::null(); 3];
        for ((ptr, rows), input) in operands.iter_mut().zip(from).zip(job.inputs) {
            *ptr = rows
                .ptr
                .wrapping_add(r * rows.pitch * input.compute.size())
                .cast_const();
        }
        // SAFETY: the caller gives tiles of `rows` rows of `cols` elements of the kernel's types.
        unsafe {
            kernel(
                cols,
                operands,
                to.ptr.wrapping_add(r * to.pitch * job.op.produced.size()),
            )
        };
    }
}
