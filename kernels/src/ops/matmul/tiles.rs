//! Products of bf16 by the processor's tiles of matrices.

use super::super::tensor;
use super::{Arranged, Matrices, Parts, batched, places};
use crate::cpu::dense::in_the_making;
use crate::cpu::matmul::{Sizes, Starts, View};
use crate::cpu::panels::{scratch_elements_of_tiles, tiles_into};
use crate::cpu::product::amx;
use crate::{ArgMeta, Array};
use ferrotrace_runtime::{DType, Result, Shape};
use half::bf16;

/// Whether tiles multiply operands of bf16 of these shapes here. One matrix on the right multiplies all rows of the batch.
pub(super) fn are_tiles(parts: &Parts, right: &Shape) -> bool {
    let batch = if right.rank() == 2 {
        parts.batch.numel()
    } else {
        1
    };
    let s = parts.sizes;
    amx::takes(Sizes {
        m: s.m.saturating_mul(batch),
        ..s
    })
}

/// Whether a product multiplies its operands, which are of bf16, by the processor's tiles: it copies none to another type.
///
/// # Errors
/// The operands are not those of a product.
pub fn is_by_tiles(args: &[ArgMeta<'_>]) -> Result<bool> {
    let ((a, a_dtype), (b, b_dtype)) = (tensor(args, 0)?, tensor(args, 1)?);
    let halves = a_dtype == DType::BF16 && b_dtype == DType::BF16;
    Ok(halves && are_tiles(&Parts::of(a, b)?, b))
}

/// The starts of both operands' matrices of bf16, views of all memory with their strides, and the right one's tiles.
#[allow(clippy::type_complexity)]
pub(super) fn halves(
    m: &Matrices,
) -> Result<(Vec<(usize, usize)>, View<'_, bf16>, amx::Right<'_>)> {
    let s = m.parts.sizes;
    let (a_starts, row, col) = batched(&m.left, &m.parts.batch, s.m, s.k)?;
    let a = View {
        data: m.a.buffer.as_slice::<bf16>(),
        start: 0,
        row,
        col,
    };
    let (b_starts, row, col) = batched(&m.right, &m.parts.batch, s.k, s.n)?;
    let b = View {
        data: m.b.buffer.as_slice::<bf16>(),
        start: 0,
        row,
        col,
    };
    let one = b_starts.first().copied();
    let one = one.filter(|first| b_starts.iter().all(|start| start == first));
    let tiles = one.and_then(|start| amx::tiles(&m.b.buffer, View { start, ..b }, s));
    let starts = a_starts.into_iter().zip(b_starts).collect();
    Ok((starts, a, amx::Right { view: b, tiles }))
}

pub(super) fn by_tiles(m: Matrices, out: &Array) -> Result<()> {
    let (to, row) = places(&m, out)?;
    let (starts, a, b) = halves(&m)?;
    let starts = starts.into_iter().zip(to);
    let starts: Vec<Starts> = starts.map(|((a, b), to)| [a, b, to]).collect();
    tiles_into(m.parts.sizes, a, b, &starts, &in_the_making(out)?, row)
}

/// Bytes that products take while they run: tiles of their operands, and panels, if these pass to a kernel.
pub(super) fn scratch(of: Arranged, passes: bool) -> Result<usize> {
    let (s, batch) = (of.parts.sizes, &of.parts.batch);
    let distinct = |mut starts: Vec<usize>| {
        starts.sort_unstable();
        starts.dedup();
        starts.len()
    };
    let counts = [
        distinct(batched(&of.left, batch, s.m, s.k)?.0),
        distinct(batched(&of.right, batch, s.k, s.n)?.0),
    ];
    let size = size_of::<f32>();
    let panels = scratch_elements_of_tiles(s, batch.numel(), size, passes) * size;
    Ok(amx::packed_bytes(s, counts) + panels)
}
