//! Tiles whose vectors go over output channels: those of a weight that is packed so, once.
//!
//! Positions are any number then, and each is read where it lies: no vector is left half empty at the end of a row, and input that
//! needs no zeros around it is not copied. A result is the same sum in the same order as in tiles whose vectors go over positions.

use super::band::Band;
use super::chain::{Chain, add_chains};
use super::tile::{ACROSS, AHEAD, Across, LANES, PANELS};
use super::{Part, leaves_gaps, lined, suits, tiled};
use crate::Array;
use crate::cpu::conv::Geometry;
use crate::cpu::dense::{Shared, elements, ranges, scratch_of_two};
use crate::cpu::long::parts;
use crate::cpu::strided::{self, Window};
use ferrotrace_runtime::{Error, Isa, Order, Result};
use std::ops::Range;

/// Fewest terms of a result: turning sums into rows of channels takes as long as some thirty terms.
const TERMS: usize = 512;
/// Positions whose sums are kept while the terms of a chain go by: they stay in the second-level cache beside the weight.
const GROUP: usize = 96;
/// For so many channels, at most one may be missing in the last panel.
const FILLED: usize = 9;

/// The weight of a convolution with its output channels in panels: of each term the elements of all channels of a panel, panel after
/// panel.
#[derive(Clone, Copy, Debug)]
pub struct Channels<'a>(&'a [f32]);

/// The packed copy that a constant weight keeps; `None` where it has no room for one, or packing gains nothing.
pub fn channels<'a>(g: &Geometry, w: &'a Array) -> Option<Channels<'a>> {
    let (all, terms) = (g.groups * g.cout, g.cin * g.taps());
    let padded = all.next_multiple_of(LANES);
    let fits = g.groups == 1 || g.cout.is_multiple_of(LANES);
    let worth = terms >= TERMS && (padded - all) * FILLED <= all;
    let has_kernels = matches!(Isa::host(), Isa::Avx512);
    let takes = has_kernels && suits(g) && !tiled::takes(&lined(g));
    if !(w.buffer.has_copies() && fits && worth && takes && leaves_gaps(g)) {
        return None;
    }
    let order = Order {
        name: "panels of 16 output channels",
        of: &w.layout,
    };
    let copy = w
        .buffer
        .copy_in(order, padded * terms * size_of::<f32>(), |to| {
            let shared = || Error::internal("a copy's memory is shared");
            pack(elements(w)?, (all, terms), to.get_mut().ok_or_else(shared)?)
        });
    copy?.as_slice().get(..padded * terms).map(Channels)
}

/// Writes the panels of a weight of so many output channels and terms to `to`.
///
/// # Errors
/// `Internal`: the weight is smaller, or there is no room for its panels.
fn pack(w: &[f32], (all, terms): (usize, usize), to: &mut [f32]) -> Result<()> {
    let missing = || Error::internal("a weight without its elements or without room");
    let w = w.get(..all * terms).ok_or_else(missing)?;
    let size = LANES * terms;
    let to = to
        .get_mut(..all.div_ceil(LANES) * size)
        .ok_or_else(missing)?;
    let to = Shared::new(to);
    ranges(all.div_ceil(LANES), size, |range| {
        for panel in range {
            // SAFETY: panels have no element in common.
            let to = unsafe { to.part(panel * size..(panel + 1) * size) };
            let first = panel * LANES;
            let window = Window {
                rows: terms,
                cols: LANES.min(all - first),
                row: 1,
                col: terms as isize,
            };
            if window.cols < LANES {
                to.fill(0.0);
            }
            // SAFETY: the rows of the weight's channels are inside it, and the panel has room for as many.
            unsafe {
                let from = w[first * terms..].as_ptr().cast();
                strided::gather(
                    size_of::<f32>(),
                    window,
                    from,
                    to.as_mut_ptr().cast(),
                    LANES,
                );
            }
        }
    });
    Ok(())
}

/// What all bands share.
pub(super) struct Blocked<'a> {
    g: &'a Geometry,
    panels: &'a [f32],
    /// Whether taps read the input itself: it has no zeros around it.
    direct: bool,
    /// Elements from a channel to the next of what taps read.
    plane: usize,
    chains: &'a [Chain],
    /// Distance from the output position of what each term of the longest chain reads, and of as many after them as are asked for
    /// ahead.
    offsets: Vec<usize>,
    /// The furthest that a tap of the first input channel reads.
    reach: usize,
    /// Where the output positions of a band lie in what taps read.
    positions: Vec<usize>,
}

/// Some positions and panels of channels.
struct Block {
    /// Of the part.
    positions: Range<usize>,
    /// Of the weight.
    panels: Range<usize>,
}

impl<'a> Blocked<'a> {
    pub fn new(g: &'a Geometry, channels: Channels<'a>, band: &'a Band<'_>, images: usize) -> Self {
        let [_, height, row] = g.axes;
        let direct = height.padding == 0 && row.padding == 0;
        let (plane, [image, down, along]) = match direct {
            true => {
                let image = g.groups * g.cin * g.inputs();
                (g.inputs(), [image, height.stride * row.input, row.stride])
            }
            false => (band.plane(), band.steps()),
        };
        let taps: Vec<usize> = match direct {
            true => (0..g.taps())
                .map(|t| {
                    let (th, tw) = (t / row.kernel, t % row.kernel);
                    th * height.dilation * row.input + tw * row.dilation
                })
                .collect(),
            false => band.taps().to_vec(),
        };
        let longest = band.chains().iter().map(|(inputs, _)| inputs.len()).max();
        let inputs = 0..longest.unwrap_or(0) + AHEAD.div_ceil(taps.len().max(1));
        let line = |at: usize| {
            let (image_of, line) = (at / band.rows(), at % band.rows());
            let first = image_of * image + line * down;
            (0..row.output).map(move |column| first + column * along)
        };
        Blocked {
            g,
            panels: channels.0,
            direct,
            plane,
            chains: band.chains(),
            reach: taps.iter().copied().max().unwrap_or(0),
            offsets: inputs
                .flat_map(|c| taps.iter().map(move |tap| c * plane + tap))
                .collect(),
            positions: (0..images * band.rows()).flat_map(line).collect(),
        }
    }

    /// Whether it reads the input where it lies, and no copy of it.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// What a part reads of the input, if it is not copied.
    pub fn input<'x>(&self, x: &'x [f32], part: &Part) -> &'x [f32] {
        let (g, [_, height, row]) = (self.g, self.g.axes);
        let first = (part.images.start * g.groups + part.group) * g.cin * g.inputs();
        &x[first + part.lines.start * height.stride * row.input..]
    }

    /// Computes a part of the result from `x`, the part's [input](Self::input) or the copy of its band.
    pub fn run(&self, x: &[f32], part: &Part, out: &Shared<'_, f32>) {
        let count = part.images.len() * part.lines.len() * self.g.axes[2].output;
        let first = (part.group * self.g.cout + part.channels.start) / LANES;
        let panels = first..first + part.channels.len().div_ceil(LANES);
        let size = GROUP * LANES * PANELS;
        scratch_of_two(
            size,
            size + LANES,
            |totals: &mut [f64], sums: &mut [f32]| {
                let skipped = sums.as_ptr().align_offset(64).min(LANES);
                let sums = &mut sums[skipped..];
                for panels in parts(panels, PANELS) {
                    for positions in parts(0..count, GROUP) {
                        let panels = panels.clone();
                        let block = Block { positions, panels };
                        self.block(x, &block, (sums, totals));
                        self.store(sums, &block, part, out);
                    }
                }
            },
        );
    }

    /// Computes the sums of a block: rows of positions.
    fn block(&self, x: &[f32], block: &Block, (sums, totals): (&mut [f32], &mut [f64])) {
        let size = block.positions.len() * block.panels.len() * LANES;
        let (sums, totals) = (&mut sums[..size], &mut totals[..size]);
        add_chains(self.chains, (sums, totals), |chain, sums, more| {
            self.add_chain(x, block, chain, sums, more);
        });
    }

    /// Writes the sums of a chain for each position and channel of a block, or adds them if there are `more`.
    fn add_chain(
        &self,
        x: &[f32],
        block: &Block,
        (inputs, taps): &Chain,
        sums: &mut [f32],
        more: bool,
    ) {
        let (all, vectors) = (self.g.cin * self.g.taps(), block.panels.len());
        let panel = all * LANES;
        let terms = inputs.len() * taps.len();
        let offsets = &self.offsets[taps.start..][..terms + AHEAD];
        let first = inputs.start * self.g.taps() + taps.start;
        let weights = &self.panels[block.panels.start * panel..block.panels.end * panel];
        let from = inputs.start * self.plane;
        let positions = &self.positions[block.positions.clone()];
        let furthest = from + (inputs.len() - 1) * self.plane + self.reach;
        // Every element that a tile reads is inside: of the input, whose last position is furthest, and of the weight.
        assert!(
            positions
                .last()
                .is_some_and(|last| furthest + last < x.len())
        );
        assert!(first + terms <= all);
        // The terms after these, of the same panels, or the first of the panels after them.
        let next = match first + terms < all {
            true => &weights[(first + terms) * LANES..],
            false => &self.panels[block.panels.end * panel..],
        };
        let (most, forms) = ACROSS[vectors - 1];
        for (i, part) in parts(0..positions.len(), most).enumerate() {
            let tile = Across {
                x: x[from..].as_ptr(),
                positions: &positions[part.clone()],
                offsets,
                weights: weights[first * LANES..].as_ptr(),
                panel,
                // The first tiles ask for a panel each.
                next: next.as_ptr().wrapping_add(i.min(vectors) * panel),
            };
            let sums = &mut sums[part.start * vectors * LANES..part.end * vectors * LANES];
            // SAFETY: panels are made where the machine has AVX-512; what is read is inside, as just checked, and there is room for
            // the sums of as many positions and panels.
            unsafe { forms[part.len() - 1](&tile, sums.as_mut_ptr(), more) };
        }
    }

    /// Writes the sums of a block to their places: channels are planes of the result.
    fn store(&self, sums: &[f32], block: &Block, part: &Part, out: &Shared<'_, f32>) {
        let (g, row) = (self.g, self.g.axes[2].output);
        let (size, pitch) = (part.lines.len() * row, block.panels.len() * LANES);
        let channels =
            block.panels.start * LANES..(block.panels.end * LANES).min(g.groups * g.cout);
        let mut at = block.positions.start;
        while at < block.positions.end {
            let image = at / size;
            let end = block.positions.end.min((image + 1) * size);
            let planes = (part.images.start + image) * g.groups * g.cout;
            let to = (planes + channels.start) * g.outputs() + part.lines.start * row + at % size;
            let window = Window {
                rows: channels.len(),
                cols: end - at,
                row: 1,
                col: pitch as isize,
            };
            assert!(to + (channels.len() - 1) * g.outputs() + end - at <= out.len());
            // SAFETY: the sums are those of the block; these positions of these planes, which are inside the result, belong to it.
            unsafe {
                let from = sums[(at - block.positions.start) * pitch..].as_ptr().cast();
                let to = out.as_mut_ptr().add(to).cast();
                strided::gather(size_of::<f32>(), window, from, to, g.outputs());
            }
            at = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::conv::Axis;
    use crate::cpu::shifted::tests::{axis, geometry, stepped};
    use crate::cpu::shifted::{Weight, convolve};
    use ferrotrace_runtime::{Copies, DType, Device, Room, Shape, with_threads};
    use std::sync::Arc;

    /// Numbers between -1 and 1.
    fn fractions(n: usize, seed: usize) -> Vec<f32> {
        let element = |i: usize| ((i * 7919 + seed * 104729) % 2003) as f32 / 1001.0 - 1.0;
        (0..n).map(element).collect()
    }

    /// The result at one place, and the sum of the magnitudes of its terms, in binary64.
    fn exact(g: &Geometry, x: &[f32], w: &[f32], plane: usize, at: usize) -> (f64, f64) {
        let [_, height, row] = g.axes;
        let (image, channel) = (plane / (g.groups * g.cout), plane % (g.groups * g.cout));
        let group = channel / g.cout;
        let (line, column) = (at / row.output, at % row.output);
        let (mut sum, mut size) = (0.0, 0.0);
        for c in 0..g.cin {
            let from = ((image * g.groups + group) * g.cin + c) * g.inputs();
            for t in 0..g.taps() {
                let source = height
                    .source(line, t / row.kernel)
                    .zip(row.source(column, t % row.kernel));
                if let Some((i, j)) = source {
                    let factor = w[(channel * g.cin + c) * g.taps() + t] as f64;
                    let term = factor * x[from + i * row.input + j] as f64;
                    (sum, size) = (sum + term, size + term.abs());
                }
            }
        }
        (sum, size)
    }

    /// Compares a convolution by a packed weight with one by the weight itself, bit for bit, and with sums in binary64.
    fn check(batch: usize, groups: usize, [cin, cout]: [usize; 2], [height, row]: [Axis; 2]) {
        let g = geometry(batch, groups, cin, cout, [Axis::UNIT, height, row]);
        if !matches!(Isa::host(), Isa::Avx512) {
            return;
        }
        let (all, terms) = (groups * cout, cin * g.taps());
        let x = fractions(batch * groups * cin * g.inputs(), 1);
        let w = fractions(all * terms, 2);
        let mut packed = vec![f32::NAN; all.next_multiple_of(LANES) * terms];
        pack(&w, (all, terms), &mut packed).expect("room");
        let run = |channels: Option<Channels<'_>>, threads: usize| {
            let mut out = vec![f32::NAN; batch * all * g.outputs()];
            let weight = Weight {
                panels: channels,
                ..w[..].into()
            };
            with_threads(threads, || convolve(&g, &x, weight, &mut out, None));
            out
        };
        let got = run(Some(Channels(&packed)), 1);
        assert!(got == run(None, 1), "{g:?}");
        assert!(got == run(Some(Channels(&packed)), 3), "{g:?}");
        for i in (0..got.len()).step_by(1 + got.len() / 997) {
            let (want, size) = exact(&g, &x, &w, i / g.outputs(), i % g.outputs());
            // A chain of n terms errs by n units of 2^-24 of its terms' magnitudes at most; chains have 512 terms at most.
            let most = size * terms.min(512) as f64 / (1 << 24) as f64;
            assert!((got[i] as f64 - want).abs() <= most, "{g:?}: {i}");
        }
    }

    #[test]
    fn packed_weights_give_the_same_bits() {
        for (batch, groups, channels, axes) in [
            (1, 1, [64, 32], [axis(7, 3, 1, 1), axis(7, 3, 1, 1)]),
            (2, 1, [30, 80], [axis(14, 3, 1, 1), axis(13, 3, 1, 1)]),
            (1, 2, [5, 48], [axis(9, 3, 0, 2), axis(40, 5, 3, 2)]),
            (
                3,
                1,
                [9, 15],
                [stepped(15, 3, 2, 1, 1), stepped(17, 5, 3, 2, 1)],
            ),
            (
                2,
                3,
                [7, 16],
                [stepped(19, 2, 2, 0, 1), stepped(16, 1, 3, 0, 1)],
            ),
            (1, 1, [11, 200], [axis(31, 2, 1, 1), axis(7, 4, 3, 1)]),
            // Chains of long sums, taps cut among chains, and more chains than one run has.
            (1, 1, [520, 31], [axis(7, 3, 1, 1), axis(7, 3, 1, 1)]),
            (1, 1, [3, 16], [axis(24, 20, 3, 1), axis(20, 15, 2, 1)]),
            (1, 1, [13, 24], [axis(21, 20, 0, 1), axis(24, 18, 0, 1)]),
        ] {
            check(batch, groups, channels, axes);
        }
        // One tap, and one dimension.
        let plane = |h: usize, w: usize| [axis(h, 1, 0, 1), axis(w, 1, 0, 1)];
        check(3, 1, [520, 65], plane(7, 7));
        check(9, 2, [200, 32], plane(7, 7));
        check(1, 1, [64, 112], plane(13, 17));
        check(2, 1, [40, 17], [axis(1, 1, 0, 1), stepped(64, 2, 2, 0, 1)]);
        check(2, 1, [40, 17], [axis(1, 1, 0, 1), axis(50, 3, 1, 1)]);
    }

    #[test]
    fn constants_keep_packed_copies_where_these_gain() {
        let of = |[cin, cout, hw]: [usize; 3], room: u64| {
            let w = Array::empty(&Device::cpu(), Shape::from([cout, cin, 3, 3]), DType::F32);
            let w = w.expect("memory");
            let copies = Room::default();
            copies.at_least(room);
            let copies = Arc::new(Copies::new(Arc::new(copies)));
            let w = Array {
                buffer: w.buffer.with_copies(copies),
                ..w
            };
            let axes = [Axis::UNIT, axis(hw, 3, 1, 1), axis(hw, 3, 1, 1)];
            channels(&geometry(1, 1, cin, cout, axes), &w).is_some()
        };
        let has_kernels = matches!(Isa::host(), Isa::Avx512);
        assert_eq!(of([64, 64, 7], 1 << 30), has_kernels);
        assert!(!of([64, 64, 7], 64));
        assert!(!of([8, 64, 7], 1 << 30));
        assert!(!of([64, 20, 7], 1 << 30));
        assert!(!of([64, 64, 56], 1 << 30));
    }
}
