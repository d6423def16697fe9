//! Convolutions by windows of many taps with few results, as programs write the gradient of a weight.
//!
//! Images are the channels of another convolution, of windows with a tap for each result: the gradient of its weight is what
//! is computed. Columns of that one's windows are long. Those of a tile of positions are gathered, and their products with
//! the gradient of its result are added up, tile by tile.

use super::conv::{Axis, Geometry, gather_columns};
use crate::cpu::dense::{Plain, Shared, ranges, scratch};
use crate::cpu::matmul::multiply;
use crate::cpu::vector::Real;
use crate::cpu::view::{Sizes, View};
use ferrotrace_runtime::Result;
use std::ops::Range;
use std::sync::Mutex;

/// Bytes of a tile of columns.
const TILE: usize = 448 << 10;
/// Positions of a tile.
const POSITIONS: usize = 512;
/// Taps of a window from which its columns are worth being gathered the other way.
const TAPS: usize = 64;
/// Tasks that are wanted at least.
const TASKS: usize = 16;

/// Planes of an operand, each dense, by image and channel.
#[derive(Clone, Copy, Debug)]
pub struct Planes<'a, T> {
    /// From the first element on.
    pub data: &'a [T],
    /// The distance of an image from the next.
    pub image: usize,
    /// The distance of a channel from the next.
    pub channel: usize,
}

/// Whether a convolution is better computed so.
pub fn suits(g: &Geometry) -> bool {
    let full = g.batch > 0 && g.cin > 0 && g.cout > 0;
    full && g.outputs() > 1 && g.taps() >= TAPS.max(4 * g.outputs())
}

/// The convolution of the images of `x` by `w`, whose images are channels of the result: `[batch, groups · cout, outputs]`.
///
/// # Errors
/// `Internal`: an operand is smaller than the geometry says.
pub fn convolve<T: Real + Plain>(
    g: &Geometry,
    x: Planes<'_, T>,
    w: Planes<'_, T>,
    out: &mut [T],
) -> Result<()> {
    let of = Weight::new(g, x, w);
    let (parts, blocks) = (of.parts(), of.blocks());
    let size = out.len();
    let failure: Mutex<Result<()>> = Mutex::new(Ok(()));
    // The sums of every part of the tiles.
    let mut sums = vec![T::ZERO; if parts > 1 { parts * size } else { 0 }];
    let target = Shared::new(if parts > 1 { &mut sums[..] } else { &mut *out });
    let tiles = of.tiles();
    let tasks = g.groups * blocks * parts;
    let cost = of.columns() * g.cout * of.block * g.outputs() / parts / 8;
    ranges(tasks, cost, |range| {
        for task in range {
            let (part, rest) = (task % parts, task / parts);
            let (block, group) = (rest % blocks, rest / blocks);
            let channels = block * of.block..((block + 1) * of.block).min(g.batch);
            let tiles = tiles * part / parts..tiles * (part + 1) / parts;
            let done = of.block_of(group, channels, tiles, &target, part * size);
            if let (Err(error), Ok(mut kept)) = (done, failure.lock()) {
                *kept = Err(error);
            }
        }
    });
    failure.into_inner().unwrap_or(Ok(()))?;
    if parts > 1 {
        for (i, out) in out.iter_mut().enumerate() {
            let part = |part: usize| sums[part * size + i].total();
            *out = T::of_total((0..parts).map(part).fold(T::Total::default(), T::both));
        }
    }
    Ok(())
}

struct Weight<'a, T> {
    g: &'a Geometry,
    /// The convolution that has the weight.
    of: Geometry,
    x: Planes<'a, T>,
    w: Planes<'a, T>,
    /// Channels of x, images of the convolution as written, whose columns are gathered together.
    block: usize,
}

impl<'a, T: Real + Plain> Weight<'a, T> {
    fn new(g: &'a Geometry, x: Planes<'a, T>, w: Planes<'a, T>) -> Weight<'a, T> {
        let turned = |a: &Axis| Axis {
            input: a.input,
            output: a.kernel,
            kernel: a.output,
            stride: a.dilation,
            padding: a.padding,
            dilation: a.stride,
        };
        let of = Geometry {
            batch: g.cin,
            groups: g.groups,
            cin: g.batch,
            cout: g.cout,
            axes: [0, 1, 2].map(|i| turned(&g.axes[i])),
        };
        let column = g.outputs() * POSITIONS * size_of::<T>();
        let block = (TILE / column.max(1)).clamp(1, g.batch);
        Weight { g, of, x, w, block }
    }

    fn blocks(&self) -> usize {
        self.g.batch.div_ceil(self.block)
    }

    /// Positions of all images.
    fn columns(&self) -> usize {
        self.of.batch * self.of.outputs()
    }

    fn tiles(&self) -> usize {
        self.columns().div_ceil(POSITIONS)
    }

    /// Into how many parts the tiles are cut, by sizes alone: their sums are added in order.
    fn parts(&self) -> usize {
        TASKS
            .div_ceil(self.g.groups * self.blocks())
            .clamp(1, self.tiles())
    }

    /// The sums over `tiles` for some channels of a group, written where the result has them, from `start` on.
    fn block_of(
        &self,
        group: usize,
        channels: Range<usize>,
        tiles: Range<usize>,
        out: &Shared<'_, T>,
        start: usize,
    ) -> Result<()> {
        let (g, taps) = (self.g, self.g.outputs());
        let (rows, n) = (g.cout, channels.len() * taps);
        scratch(
            n * POSITIONS + rows * POSITIONS + rows * n,
            |memory: &mut [T]| {
                let (columns, rest) = memory.split_at_mut(n * POSITIONS);
                let (gradient, sum) = rest.split_at_mut(rows * POSITIONS);
                // Tiles are as long as a sum may be in its own type.
                let mut totals = vec![T::Total::default(); rows * n];
                for tile in tiles {
                    let first = tile * POSITIONS;
                    let end = (first + POSITIONS).min(self.columns());
                    self.gather(group, channels.clone(), first..end, (columns, gradient));
                    let width = end - first;
                    let s = Sizes {
                        m: rows,
                        n,
                        k: width,
                    };
                    let a = View::dense(gradient, width);
                    let b = View::dense(columns, width).transpose();
                    multiply(s, a, b, sum, n, false)?;
                    for (total, sum) in totals.iter_mut().zip(&*sum) {
                        *total = T::both(*total, sum.total());
                    }
                }
                for (c, channel) in channels.enumerate() {
                    let to = start + (channel * g.groups + group) * rows * taps;
                    for o in 0..rows {
                        // SAFETY: tasks have channels, groups or parts of their own.
                        let out = unsafe { out.part(to + o * taps..to + (o + 1) * taps) };
                        let totals = &totals[o * n + c * taps..][..taps];
                        for (out, total) in out.iter_mut().zip(totals) {
                            *out = T::of_total(*total);
                        }
                    }
                }
                Ok(())
            },
        )
    }

    /// The columns of windows and the gradients of the result of some positions, one row a tap, one a channel.
    fn gather(
        &self,
        group: usize,
        channels: Range<usize>,
        tile: Range<usize>,
        (columns, gradient): (&mut [T], &mut [T]),
    ) {
        let (positions, width) = (self.of.outputs(), tile.len());
        let mut at = tile.start;
        while at < tile.end {
            let image = at / positions;
            let end = tile.end.min((image + 1) * positions);
            let part = at - image * positions..end - image * positions;
            let to = at - tile.start;
            let own = group * self.of.batch + image;
            let planes = channels.start * self.x.image + own * self.x.channel;
            let planes = (&self.x.data[planes..], self.x.image);
            let rows = channels.len() * self.g.outputs();
            gather_columns(
                &self.of,
                planes,
                &mut columns[..rows * width],
                width,
                to,
                part.clone(),
            );
            for o in 0..self.g.cout {
                let row = (group * self.g.cout + o) * self.w.image + image * self.w.channel;
                gradient[o * width + to..][..part.len()]
                    .copy_from_slice(&self.w.data[row..][part.clone()]);
            }
            at = end;
        }
    }
}
