//! Products by the processor's tiles of matrices.

use super::super::tensor;
use super::{Arranged, Matrices, Parts, Placed, batched, placed, places};
use crate::cpu::dense::in_the_making;
use crate::cpu::matmul::Starts;
use crate::cpu::panels::{scratch_elements_of_tiles, tiles_into};
use crate::cpu::product::tiles::{self, Format, Source};
use crate::cpu::view::{Sizes, View};
use crate::{ArgMeta, Array};
use ferrotrace_runtime::{DType, Element, Result, Shape};

/// By which tiles operands of these shapes and types are multiplied here, if by any. One matrix on the right multiplies all rows of
/// the batch.
pub(super) fn tiles_of(parts: &Parts, right: &Shape, dtypes: [DType; 2]) -> Option<Format> {
    let format = match dtypes {
        [DType::BF16, DType::BF16] => Format::Half,
        [DType::F32, DType::F32] => Format::Single,
        _ => return None,
    };
    let batch = if right.rank() == 2 {
        parts.batch.numel()
    } else {
        1
    };
    let s = parts.sizes;
    let s = Sizes {
        m: s.m.saturating_mul(batch),
        ..s
    };
    tiles::takes(s, format).then_some(format)
}

/// [`tiles_of`] the operands of a product.
pub(super) fn tiles(args: &[ArgMeta<'_>]) -> Result<Option<Format>> {
    let ((a, a_dtype), (b, b_dtype)) = (tensor(args, 0)?, tensor(args, 1)?);
    Ok(tiles_of(&Parts::of(a, b)?, b, [a_dtype, b_dtype]))
}

/// Whether a product multiplies its operands by the processor's tiles: it copies none to another type, and no kernel computes one as
/// it is read.
///
/// # Errors
/// The operands are not those of a product.
pub fn is_by_tiles(args: &[ArgMeta<'_>]) -> Result<bool> {
    Ok(tiles(args)?.is_some())
}

/// The starts of both operands' matrices, all memory with their strides, and what is kept of the right one.
type Operands<'a> = (Vec<(usize, usize)>, Source<'a>, tiles::Right<'a>);

pub(super) fn operands(m: &Matrices, format: Format) -> Result<Operands<'_>> {
    match format {
        Format::Half => operands_of(m, Source::Half),
        Format::Single => operands_of(m, Source::Single),
    }
}

fn operands_of<'a, T: Element>(
    m: &'a Matrices,
    source: impl Fn(View<'a, T>) -> Source<'a>,
) -> Result<Operands<'a>> {
    let Placed { starts, a, b, one } = placed::<T>(m)?;
    let kept = one.and_then(|one| tiles::kept(&m.b.buffer, source(one), m.parts.sizes));
    let right = tiles::Right {
        source: source(b),
        kept,
    };
    Ok((starts, source(a), right))
}

pub(super) fn by_tiles(m: Matrices, format: Format, out: &Array) -> Result<()> {
    let (to, row) = places(&m, out)?;
    let (starts, a, b) = operands(&m, format)?;
    let starts = starts.into_iter().zip(to);
    let starts: Vec<Starts> = starts.map(|((a, b), to)| [a, b, to]).collect();
    tiles_into(m.parts.sizes, a, b, &starts, &in_the_making(out)?, row)
}

/// Bytes that products take while they run: tiles of their operands, and panels, if these pass to a kernel.
pub(super) fn scratch(of: Arranged, format: Format, passes: bool) -> Result<usize> {
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
    let panels = scratch_elements_of_tiles(s, format, batch.numel(), passes) * size_of::<f32>();
    Ok(tiles::packed_bytes(s, format, counts) + panels)
}
