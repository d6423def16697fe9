//! Results of convolutions that a generated kernel takes up piece by piece, as they are completed (ir X3 to X6:
//! pointwise kernels join convolutions).
//!
//! The rows of the kernel are planes, one a channel of an image, and its columns their positions.

use super::{Epilogue, PIECE, with_params};
use crate::cpu::conv::{Done, Pieces};
use crate::cpu::par;
use ferrotrace_runtime::{Buffer, Device, Element, Error, Faults, Launch, Pool, Result, prepare};

/// Has `compute` fill `rows · columns` elements, and runs the kernel over each piece of them once it is complete, or over
/// all of them at the end where there are no `pieces`.
///
/// # Errors
/// Out of memory; those of `compute`; `Internal`: the launch is not the result's.
pub(crate) fn planes_then<T: Element>(
    epilogue: &Epilogue<'_>,
    [rows, columns]: [usize; 2],
    pieces: Option<Pieces>,
    compute: impl FnOnce(&mut [T], Option<&Done<'_>>) -> Result<()>,
) -> Result<Faults> {
    let (numel, threads) = (rows * columns, Pool::global().threads());
    if numel == 0 {
        return Ok(Faults::new());
    }
    let bytes = numel * size_of::<T>();
    let Pieces { piece, count } = pieces.unwrap_or(Pieces {
        piece: PIECE.min(columns),
        count: columns.div_ceil(PIECE),
    });
    let params = with_params(
        &epilogue.launch,
        [
            (epilogue.pitch, columns),
            (epilogue.piece, piece),
            (epilogue.pieces, count),
        ],
    )?;
    let launch = Launch {
        params: &params,
        chunks: rows * count,
        ..epilogue.launch
    };
    let buffer = launch.buffers.get(epilogue.pointer);
    if buffer.is_none_or(|b| epilogue.whole && b.span < bytes) {
        return Err(Error::internal("an epilogue without its convolution"));
    }
    let memory = Buffer::allocate(&Device::cpu(), if epilogue.whole { 0 } else { bytes })?;
    let prepared = prepare(&launch, threads)?;
    let base = match epilogue.whole {
        true => prepared.pointer(epilogue.pointer),
        false => memory.as_mut_ptr(),
    };
    // SAFETY: the memory is as large, which was checked, is aligned for every element type, and nobody else uses it yet.
    let out = unsafe { std::slice::from_raw_parts_mut(base.cast::<T>(), numel) };
    let place = par::Shared::new(base);
    if pieces.is_none() {
        compute(out, None)?;
        Pool::global().run(rows * count, &|begin, end, thread| {
            // SAFETY: the pool gives out each chunk once; the result is complete.
            unsafe { prepared.run(begin, end, thread, Some((epilogue.pointer, place.get()))) }
        });
        return Ok(prepared.finish());
    }
    let done = |part: std::ops::Range<usize>, i: usize, thread: usize| {
        let moved = Some((epilogue.pointer, place.get()));
        let first = i * rows;
        // SAFETY: each piece of a row is completed once, by one thread at a time under its number, and the convolution
        // does not touch it again.
        unsafe { prepared.run(first + part.start, first + part.end, thread, moved) }
    };
    compute(out, Some(&done))?;
    Ok(prepared.finish())
}
