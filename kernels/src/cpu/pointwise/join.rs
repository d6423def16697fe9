//! Concatenations: arrays written side by side in a result, block of rows by block, so that a line of the result is
//! in the first-level cache until all of it is written.

use crate::Array;
use crate::cpu::par::{GRAIN, Shared, ranges};
use crate::cpu::pointwise::copy::{assign, copy};
use ferrotrace_runtime::{Layout, Result, Strides};
use smallvec::SmallVec;

/// Bytes of the result that a block of rows has, about.
const BLOCK: usize = 1 << 14;

/// An array as rows of adjacent bytes.
struct Rows {
    from: Shared,
    /// Bytes from a row to the next.
    pitch: isize,
    /// Bytes of a row, and where they go in a row of the result.
    bytes: usize,
    to: usize,
}

/// Writes each of `parts` at its position of dimension `dim` of `out`, which is dense and a result in the making. Shapes
/// fit; the parts lie apart in it.
///
/// # Errors
/// Out of memory.
pub fn join(out: &Array, dim: usize, parts: &[(usize, &Array)]) -> Result<()> {
    let shape = out.shape();
    let size = out.dtype.size();
    let inner = shape[dim + 1..].iter().product::<usize>() * size;
    let rows: usize = shape[..dim].iter().product();
    let pitch = shape[dim] * inner;
    if rows == 0 || pitch == 0 {
        return Ok(());
    }
    if pitch > BLOCK && out.numel() >= GRAIN {
        return parts
            .iter()
            .try_for_each(|(first, part)| assign(out, &window(out, dim, *first, part), part));
    }
    // Parts that do not lie in rows are copied, and so are those of other types.
    let mut copies: SmallVec<[Array; 4]> = SmallVec::new();
    let mut found: SmallVec<[Rows; 8]> = SmallVec::new();
    for &(first, part) in parts.iter().filter(|(_, part)| part.numel() > 0) {
        let own = match part.dtype == out.dtype {
            true => pitch_of(&part.layout, dim),
            false => None,
        };
        let bytes = part.shape()[dim] * inner;
        let (array, step) = match own {
            Some(step) => (part, step * size as isize),
            None => {
                copies.push(copy(part, part.shape(), out.dtype)?);
                (&copies[copies.len() - 1], bytes as isize)
            }
        };
        let start = array.layout.offset() * size;
        let from = array.buffer.as_ptr().wrapping_add(start);
        found.push(Rows {
            from: Shared::new(from.cast_mut()),
            pitch: step,
            bytes,
            to: first * inner,
        });
    }
    let to = out.buffer.as_mut_ptr();
    let to = Shared::new(to.wrapping_add(out.layout.offset() * size));
    let block = (BLOCK / pitch).clamp(1, rows);
    ranges(rows.div_ceil(block), rows * pitch / size, &|blocks| {
        for start in blocks.map(|i| i * block) {
            let count = block.min(rows - start);
            for part in &found {
                let from = part.from.get().cast_const();
                let from = from.wrapping_offset(start as isize * part.pitch);
                let to = to.get().wrapping_add(start * pitch + part.to);
                // SAFETY: these rows lie inside the part, and where they go inside the result, whose memory nobody else
                // uses; no other block or part has them.
                unsafe { copy_rows(count, part.bytes, (from, part.pitch), (to, pitch)) };
            }
        }
    });
    Ok(())
}

/// Where a part lies in a result.
fn window(out: &Array, dim: usize, first: usize, part: &Array) -> Layout {
    let strides = Strides::from_slice(out.layout.strides());
    let offset = out.layout.offset() + first * strides[dim] as usize;
    Layout::new(part.shape().clone(), strides, offset)
}

/// Elements from a row to the next, where the dimensions from `dim` on adjoin and those before it are one.
fn pitch_of(layout: &Layout, dim: usize) -> Option<isize> {
    let all = layout.shape().iter().zip(layout.strides());
    let (mut adjoins, mut pitch) = (1, None);
    for (d, (&n, &stride)) in all.enumerate().rev() {
        if n == 1 {
            continue;
        }
        let next = match d >= dim {
            true => Some(adjoins),
            false => pitch,
        };
        if next.is_some_and(|next| next != stride) {
            return None;
        }
        match d >= dim {
            true => adjoins *= n as isize,
            false => pitch = Some(stride * n as isize),
        }
    }
    let first = |(n, stride): (&usize, &isize)| (*n != 1).then_some(*stride);
    let rows = layout.shape()[..dim].iter().zip(layout.strides());
    Some(rows.rev().find_map(first).unwrap_or(0))
}

/// Copies `count` rows of so many bytes.
///
/// # Safety
/// All rows may be read, and written; the two do not overlap.
unsafe fn copy_rows(
    count: usize,
    bytes: usize,
    (from, step): (*const u8, isize),
    (to, pitch): (*mut u8, usize),
) {
    macro_rules! each {
        ($($bytes:literal)*) => {
            match bytes {
                $($bytes => {
                    for r in 0..count {
                        // SAFETY: as the caller promises; arrays of bytes have no alignment.
                        unsafe {
                            let row = from.offset(r as isize * step).cast::<[u8; $bytes]>();
                            to.add(r * pitch).cast::<[u8; $bytes]>().write(row.read());
                        }
                    }
                })*
                _ => {
                    for r in 0..count {
                        // SAFETY: as the caller promises.
                        unsafe {
                            let row = from.offset(r as isize * step);
                            to.add(r * pitch).copy_from_nonoverlapping(row, bytes);
                        }
                    }
                }
            }
        };
    }
    each!(1 2 3 4 6 8 12 16 20 24 28 32 48 64)
}
