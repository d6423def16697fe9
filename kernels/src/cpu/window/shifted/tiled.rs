//! Convolutions by the processor's tiles of matrices: positions by output channels, summed over input channels and taps.
//!
//! A band's rows are packed with zeros around them, 32 channels of a position next to each other in three parts of bf16, so that
//! what a tap reads of 16 positions is a tile wherever it begins. Rows are packed by their number modulo the step of rows; a step
//! of columns is the distance of a tile's rows. Images whose numbers are too large or too small for parts are summed by AVX-512.

use super::band::Band;
use super::{Copied, Cut, Part, TASKS, Weight, tile};
use crate::Array;
use crate::cpu::conv::{Axis, Done, Geometry};
use crate::cpu::dense::{Shared, elements, ranges, ranges_on, scratch};
use crate::cpu::product::tiles::has_parts;
use crate::cpu::product::tiles::windows::{
    Configured, Extent, POSITION, SIDE, STEP, Sums, TERMS, pack_positions, pack_weight,
};
use crate::cpu::view::View;
use ferrotrace_runtime::{Error, Order, Result};
use half::bf16;
use std::sync::{Mutex, PoisonError};

/// Bytes of a packed band: it stays in the second-level cache beside a weight for 32 output channels.
const BAND: usize = 640 << 10;
/// Positions of a band that are wanted: each reads all of the weight from a farther cache.
const POSITIONS: usize = 256;
/// Fewest positions of all images, for which the weight is packed: 14 by 14 of one image gain nothing.
const FEWEST: usize = 384;
/// Fewest output channels, and taps by these: to pack a number takes as long as some hundred multiplications of it. Of one tap, 64 to
/// 1,024 channels take 0.7 to 1.1 of the time that AVX-512 takes.
const CHANNELS: (usize, usize) = (48, 192);
/// Positions, and output channels, that are multiplied at once.
const PAIR: usize = 2 * SIDE;
/// Elements of `f32` of a line of the cache.
const LINE: usize = 16;

/// Whether rows are of one element: positions are along the height.
fn is_line(row: &Axis) -> bool {
    row.input == 1 && row.padding == 0
}

/// The distance of output rows: those of input rows, padded, are a multiple.
fn pitch(row: &Axis) -> usize {
    (row.input + 2 * row.padding).div_ceil(row.stride)
}

/// Input rows beyond those of the output, in steps.
fn reach(height: &Axis) -> usize {
    (height.kernel - 1) * height.dilation / height.stride
}

/// The numbers, modulo the step, of input rows that taps read.
fn phases(height: &Axis) -> Vec<usize> {
    let mut phases: Vec<usize> = (0..height.kernel)
        .map(|t| t * height.dilation % height.stride)
        .collect();
    phases.sort_unstable();
    phases.dedup();
    phases
}

/// Whether tiles compute the convolution, for which `suits` holds.
pub(super) fn takes(g: &Geometry) -> bool {
    let [_, height, row] = g.axes;
    let padded = g.cin.next_multiple_of(TERMS);
    // At least three quarters of what is multiplied is there.
    let full = g.cin * 4 >= padded * 3 && row.output * 4 >= pitch(&row) * 3;
    let lies = !is_line(&row) || height.stride == 1;
    full && lies
        && g.cin * g.taps() >= 2 * TERMS
        && g.taps() > 1
        && g.cout >= CHANNELS.0
        && g.cout * g.taps() >= CHANNELS.1
        && g.batch * g.outputs() >= FEWEST
        && has_parts()
}

/// How the work is cut.
pub(super) fn cut(g: &Geometry) -> Cut {
    let [_, height, row] = g.axes;
    let pitch = pitch(&row);
    let line = phases(&height).len() * pitch * row.stride * g.cin.div_ceil(TERMS) * 2 * POSITION;
    let most = (BAND / line).saturating_sub(reach(&height)).max(1);
    let mut rows = POSITIONS.div_ceil(pitch).min(most).min(height.output);
    if pitch == 1 && rows < height.output {
        rows = rows.next_multiple_of(PAIR).min(height.output);
    }
    let bands = height.output.div_ceil(rows);
    // Bands of about one size.
    if pitch > 1 {
        rows = height.output.div_ceil(bands);
    }
    let images = match bands == 1 {
        true => (most / (rows + reach(&height)))
            .min(POSITIONS.div_ceil(rows * pitch))
            .clamp(1, g.batch.max(1)),
        false => 1,
    };
    let blocks = g.batch.div_ceil(images) * g.groups * bands;
    let most = 1 << (g.cout / PAIR).max(1).ilog2();
    Cut {
        images,
        rows,
        bands: height.output.div_ceil(rows),
        parts: TASKS.div_ceil(blocks.max(1)).next_power_of_two().min(most),
    }
}

/// The tiles of a weight: of each group, 16 output channels after another. The extent of the weight is behind them.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'a>(&'a [bf16]);

/// Elements of the tiles of a weight, with its extent.
fn tile_elements(g: &Geometry) -> usize {
    g.groups * g.cout.div_ceil(SIDE) * channel_elements(g) + 2
}

/// Elements of the tiles of 16 output channels: tap after tap, of each 32 input channels after another.
fn channel_elements(g: &Geometry) -> usize {
    g.taps() * g.cin.div_ceil(TERMS) * STEP
}

/// The tiles that a constant weight keeps; `None` where it has no room for them, or the convolution is not by tiles.
pub fn weights<'a>(g: &Geometry, w: &'a Array) -> Option<Weights<'a>> {
    let g = &super::lined(g);
    if !w.buffer.has_copies() || !takes(g) {
        return None;
    }
    let order = Order {
        name: "tiles of output channels by taps",
        of: &w.layout,
    };
    let all = tile_elements(g);
    let copy = w.buffer.copy_in(order, all * size_of::<bf16>(), |to| {
        let shared = || Error::internal("a copy's memory is shared");
        let to: &mut [bf16] = to.get_mut().ok_or_else(shared)?;
        pack(g, elements(w)?, to.get_mut(..all).ok_or_else(shared)?)
    });
    copy?.as_slice().get(..all).map(Weights)
}

/// Writes the tiles of a weight, and its extent.
///
/// # Errors
/// `Internal`: the weight is smaller.
fn pack(g: &Geometry, w: &[f32], to: &mut [bf16]) -> Result<()> {
    let terms = g.cin * g.taps();
    if w.len() < g.groups * g.cout * terms {
        return Err(Error::internal("a weight without its elements"));
    }
    let (blocks, size) = (g.cout.div_ceil(SIDE), channel_elements(g));
    let (to, extent) = to.split_at_mut(g.groups * blocks * size);
    let (to, all) = (Shared::new(to), Mutex::new(Extent::NONE));
    ranges(g.groups * blocks, size, |range| {
        let mut found = Extent::NONE;
        for i in range {
            let (group, first) = (i / blocks, i % blocks * SIDE);
            // SAFETY: blocks of channels have no tile in common.
            let to = unsafe { to.part(i * size..(i + 1) * size) };
            for (tap, to) in to.chunks_exact_mut(size / g.taps()).enumerate() {
                let view = View {
                    data: w,
                    start: (group * g.cout + first) * terms + tap,
                    row: terms as isize,
                    col: g.taps() as isize,
                };
                let channels = SIDE.min(g.cout - first);
                // SAFETY: the weight has as many elements, and the tap's tiles have room.
                unsafe {
                    let to: *mut bf16 = to.as_mut_ptr();
                    found = found.and(pack_weight(view, (channels, g.cin), to.cast(), size));
                }
            }
        }
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        *all = all.and(found);
    });
    let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    extent.copy_from_slice(&all.to_elements());
    Ok(())
}

/// A convolution by tiles.
pub(super) struct Tiled<'a> {
    g: &'a Geometry,
    cut: Cut,
    tiles: &'a [bf16],
    phases: Vec<usize>,
    /// The distance of output rows.
    pitch: usize,
    /// Rows of an image that follow each other.
    lines: usize,
    /// Positions of 32 channels of a band.
    positions: usize,
    /// Bytes from an output position to what each step reads of it: tap after tap, of each 32 input channels after another.
    offsets: Vec<usize>,
}

impl<'a> Tiled<'a> {
    /// Calls `f` with the convolution, whose weight is packed if it is not yet.
    pub fn with(g: &'a Geometry, weight: Weight<'_>, f: impl FnOnce(&Tiled<'_>)) {
        if let Some(Weights(tiles)) = weight.tiles {
            return f(&Tiled::new(g, tiles));
        }
        let all = tile_elements(g);
        scratch(all + 2 * LINE, |memory: &mut [bf16]| {
            let skip = memory.as_ptr().align_offset(64).min(2 * LINE);
            let tiles = &mut memory[skip..][..all];
            if pack(g, weight.all, tiles).is_ok() {
                f(&Tiled::new(g, tiles));
            }
        });
    }

    fn new(g: &'a Geometry, tiles: &'a [bf16]) -> Tiled<'a> {
        let [_, height, row] = g.axes;
        let (cut, phases, pitch) = (cut(g), phases(&height), pitch(&row));
        let lines = cut.rows + reach(&height);
        let width = pitch * row.stride;
        // Tiles end behind the last position; what they read there is not used.
        let behind = PAIR * row.stride + row.kernel * row.dilation;
        let positions = phases.len() * cut.images * lines * width + behind;
        let chunks = g.cin.div_ceil(TERMS);
        let offset = |tap: usize, chunk: usize| {
            let (down, along) = (tap / row.kernel * height.dilation, tap % row.kernel);
            let phase = phases.partition_point(|&p| p < down % height.stride);
            let line = phase * cut.images * lines + down / height.stride;
            let at = line * width + along * row.dilation;
            (chunk * positions + at) * POSITION * size_of::<u16>()
        };
        let steps = (0..g.taps()).flat_map(|tap| (0..chunks).map(move |chunk| (tap, chunk)));
        let offsets = steps.map(|(tap, chunk)| offset(tap, chunk)).collect();
        Tiled {
            g,
            cut,
            tiles,
            pitch,
            lines,
            positions,
            offsets,
            phases,
        }
    }

    /// Elements of `f32` that a packed band takes.
    fn size(&self) -> usize {
        self.g.cin.div_ceil(TERMS) * self.positions * POSITION / 2 + LINE
    }

    pub fn convolve(&self, x: &[f32], w: &[f32], out: &mut [f32], done: Option<&Done<'_>>) {
        let (g, cut) = (self.g, &self.cut);
        let outside = self.outside(x);
        let Some(form) = tile::form() else { return };
        let band = Band::new(g, form, 1, cut.rows);
        let out = Shared::new(out);
        let positions = cut.images * cut.rows * self.pitch;
        let cost = g.cout / cut.parts * g.cin * g.taps() * positions / 32;
        let tasks = g.batch.div_ceil(cut.images) * g.groups * cut.bands * cut.parts;
        let call = super::CALLS.fetch_add(1, super::Relaxed);
        ranges_on(tasks, cost, |tasks, thread| {
            Copied::with(self.size(), |copied| {
                for task in tasks {
                    let (at, part) = (task / cut.parts, task % cut.parts);
                    let of = Part::of(g, cut, at, (part, PAIR));
                    let memory = &mut copied.memory[..];
                    let skip = memory.as_ptr().align_offset(64).min(LINE);
                    let memory: *mut u16 = memory[skip..].as_mut_ptr().cast();
                    let is_outside = |&image: &usize| outside[image * g.groups + of.group];
                    if !of.images.clone().all(|image| is_outside(&image)) {
                        if copied.band != Some((call, at)) {
                            self.fill(x, memory, &of);
                            copied.band = Some((call, at));
                        }
                        self.run(memory, &of, &out);
                    }
                    for image in of.images.clone().filter(is_outside) {
                        self.by_vectors((x, w), &band, &of, image, &out);
                    }
                    if let Some(done) = done {
                        for image in of.images.clone() {
                            let first = (image * g.groups + of.group) * g.cout;
                            let rows = first + of.channels.start..first + of.channels.end;
                            done(rows, of.piece, thread);
                        }
                    }
                }
            });
        });
    }

    /// Of which groups of images the sums are not exact by tiles.
    fn outside(&self, x: &[f32]) -> Vec<bool> {
        let g = self.g;
        let size = g.cin * g.inputs();
        let k = g.cin * g.taps();
        let [.., least, most] = *self.tiles else {
            return vec![true; g.batch * g.groups];
        };
        let weight = Extent::from_elements([least, most]);
        let mut outside = vec![false; g.batch * g.groups];
        let all = Shared::new(&mut outside);
        ranges(g.batch * g.groups, size / 8, |range| {
            for i in range {
                let x = Extent::of(&x[i * size..(i + 1) * size]);
                // SAFETY: ranges are disjoint.
                unsafe { all.part(i..i + 1)[0] = !x.suits(weight, k) };
            }
        });
        outside
    }

    /// Packs the rows that a part reads, with zeros around them.
    fn fill(&self, x: &[f32], memory: *mut u16, part: &Part) {
        let (g, [_, height, row]) = (self.g, self.g.axes);
        let (plane, width) = (g.inputs(), self.pitch * row.stride);
        for chunk in 0..g.cin.div_ceil(TERMS) {
            let channels = TERMS.min(g.cin - chunk * TERMS);
            for (i, phase) in self.phases.iter().enumerate() {
                for (n, image) in part.images.clone().enumerate() {
                    let first = (image * g.groups + part.group) * g.cin + chunk * TERMS;
                    let x = &x[first * plane..(first + channels) * plane];
                    let line = (i * self.cut.images + n) * self.lines;
                    let at = chunk * self.positions + line * width;
                    let to = memory.wrapping_add(at * POSITION);
                    let rows = part.lines.len() + reach(&height);
                    if is_line(&row) {
                        // Positions are along the height.
                        let size = (channels, rows);
                        // SAFETY: positions of the band, which has room for them.
                        unsafe { self.fill_row(x, (0, &height), part.lines.start, size, to) };
                        continue;
                    }
                    for q in 0..rows {
                        let to = to.wrapping_add(q * width * POSITION);
                        let from = ((part.lines.start + q) * height.stride + phase)
                            .wrapping_sub(height.padding);
                        // SAFETY: a row of the band, which has room for it.
                        unsafe {
                            match from < height.input {
                                true => {
                                    let from = from * row.input;
                                    self.fill_row(x, (from, &row), 0, (channels, width), to);
                                }
                                false => to.write_bytes(0, width * POSITION),
                            }
                        }
                    }
                }
            }
        }
    }

    /// Packs positions of a padded row from one on: the row begins at a place of each channel.
    ///
    /// # Safety
    /// There is room for as many positions.
    unsafe fn fill_row(
        &self,
        x: &[f32],
        (from, row): (usize, &Axis),
        first: usize,
        (channels, positions): (usize, usize),
        to: *mut u16,
    ) {
        let place = |at: usize| to.wrapping_add(at * POSITION);
        // Positions before the row, and where it ends.
        let before = row.padding.saturating_sub(first).min(positions);
        let skipped = first.saturating_sub(row.padding).min(row.input);
        let inside = (row.input - skipped).min(positions - before);
        // SAFETY: positions that the caller gives room for; those of the row are inside it, of as many channels.
        unsafe {
            to.write_bytes(0, before * POSITION);
            for i in (0..inside).step_by(SIDE) {
                let some = SIDE.min(inside - i);
                let x = x[from + skipped + i..].as_ptr();
                pack_positions(x, (some, channels), self.g.inputs(), place(before + i));
            }
            let behind = positions - before - inside;
            place(before + inside).write_bytes(0, behind * POSITION);
        }
    }

    /// Computes a part of the result.
    fn run(&self, memory: *const u16, part: &Part, out: &Shared<'_, f32>) {
        let (g, pitch, row) = (self.g, self.pitch, self.g.axes[2]);
        let lines = (part.images.len() - 1) * self.lines + part.lines.len();
        let positions = lines * pitch;
        let size = channel_elements(g);
        let step = row.stride * POSITION;
        let mut sums = Sums::new();
        // SAFETY: the process may use tiles, or there would be no convolution by them.
        let registers = unsafe { Configured::new() };
        for first in part.channels.clone().step_by(PAIR) {
            let channels = PAIR.min(part.channels.end - first);
            let block = part.group * g.cout.div_ceil(SIDE) + first / SIDE;
            let tiles: *const bf16 = self.tiles[block * size..].as_ptr();
            let next = if channels > SIDE { size } else { 0 };
            for at in (0..positions).step_by(PAIR) {
                let rows = (memory.wrapping_add(at * step), 2 * step);
                // SAFETY: the band is packed, with room behind it, and so are tiles for as many steps.
                let sums =
                    unsafe { sums.of(&registers, rows, &self.offsets, (tiles.cast(), next)) };
                self.store(sums, (at, positions), (first, channels), part, out);
            }
        }
    }

    /// Writes those of the sums of 32 positions from one on that the result has.
    fn store(
        &self,
        sums: &[f32; PAIR * PAIR],
        (first, positions): (usize, usize),
        (channel, channels): (usize, usize),
        part: &Part,
        out: &Shared<'_, f32>,
    ) {
        let (g, pitch, width) = (self.g, self.pitch, self.g.axes[2].output);
        let end = positions.min(first + PAIR);
        let mut at = first;
        while at < end {
            let (line, column) = (at / pitch, at % pitch);
            let (n, line) = (line / self.lines, line % self.lines);
            let left = part.lines.len().saturating_sub(line);
            // Rows without anything between them follow each other.
            let rows = if pitch == width { left.max(1) } else { 1 };
            let run = (rows * pitch - column).min(end - at);
            if left > 0 && column < width {
                let run = run.min(rows * width - column);
                let image = part.images.start + n;
                let plane = (image * g.groups + part.group) * g.cout + channel;
                let place = (part.lines.start + line) * width + column;
                for c in 0..channels {
                    let to = (plane + c) * g.outputs() + place;
                    // SAFETY: parts have no element in common.
                    let to = unsafe { out.part(to..to + run) };
                    to.copy_from_slice(&sums[c * PAIR + at - first..][..run]);
                }
            }
            at += run;
        }
    }

    /// Computes a part of one image by AVX-512.
    #[cold]
    fn by_vectors(
        &self,
        (x, w): (&[f32], &[f32]),
        band: &Band<'_>,
        part: &Part,
        image: usize,
        out: &Shared<'_, f32>,
    ) {
        let part = Part {
            images: image..image + 1,
            group: part.group,
            lines: part.lines.clone(),
            piece: part.piece,
            channels: part.channels.clone(),
        };
        let mut memory = vec![0.0; band.size()];
        let padded = band.aligned(&mut memory);
        band.fill(x, padded, &part);
        band.run(padded, w, &part, out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{geometry, stepped};
    use super::super::{convolve, suits};
    use super::*;
    use crate::cpu::conv::direct;
    use ferrotrace_runtime::with_threads;

    /// Whole numbers of at most 5, whose sums are exact in any order, some of them others.
    fn numbers(n: usize, seed: usize, others: &[(usize, f32)]) -> Vec<f32> {
        let number = |i: usize| ((i * 7 + i / 13 + seed) % 11) as f32 - 5.0;
        let mut all: Vec<f32> = (0..n).map(number).collect();
        for &(at, x) in others {
            all[at * 7919 % n] = x;
        }
        all
    }

    /// Compares with the definition, also where some inputs are others.
    fn check(batch: usize, groups: usize, [cin, cout]: [usize; 2], [height, row]: [Axis; 2]) {
        let g = geometry(batch, groups, cin, cout, [Axis::UNIT, height, row]);
        if !has_parts() {
            return;
        }
        assert!(suits(&g) && takes(&super::super::lined(&g)), "{g:?}");
        let w = numbers(groups * cout * cin * g.taps(), 2, &[]);
        let mut tiles = vec![bf16::NAN; tile_elements(&super::super::lined(&g))];
        pack(&super::super::lined(&g), &w, &mut tiles).expect("a weight");
        for others in [&[][..], &[(3, 1e38), (5, -1e-38), (8, f32::INFINITY)]] {
            let x = numbers(batch * groups * cin * g.inputs(), 1, others);
            let mut want = vec![0.0; batch * groups * cout * g.outputs()];
            direct(&g, &x, &w, &mut want);
            for (threads, tiles) in [(1, None), (3, Some(Weights(&tiles)))] {
                let weight = Weight {
                    tiles,
                    ..w[..].into()
                };
                let mut got = vec![f32::NAN; want.len()];
                with_threads(threads, || convolve(&g, &x, weight, &mut got, None));
                for (at, (got, want)) in got.iter().zip(&want).enumerate() {
                    // Sums with huge terms round by the order in which they are added.
                    let close = (got - want).abs() <= want.abs() * 1e-5;
                    let same = got == want || got.is_nan() && want.is_nan();
                    assert!(
                        same || close && want.abs() > 1e30,
                        "{g:?}: {at} {got} {want}"
                    );
                }
            }
        }
    }

    #[test]
    fn as_by_definition() {
        let same = |n: usize| stepped(n, 3, 1, 1, 1);
        check(1, 1, [64, 64], [same(20), same(31)]);
        check(4, 1, [32, 48], [same(9), same(14)]);
        check(8, 2, [28, 50], [same(7), same(7)]);
        check(1, 1, [96, 49], [same(90), same(16)]);
        check(3, 1, [300, 64], [same(11), same(12)]);
        check(
            2,
            1,
            [64, 70],
            [stepped(17, 5, 1, 2, 1), stepped(20, 1, 1, 0, 1)],
        );
        check(
            1,
            1,
            [64, 48],
            [stepped(30, 3, 1, 2, 2), stepped(31, 3, 1, 2, 2)],
        );
    }

    #[test]
    fn steps() {
        for kernel in [2, 3, 5] {
            for (stride, padding) in [(2, 0), (2, kernel - 1), (3, kernel / 2)] {
                let axis = |n| stepped(n, kernel, stride, padding, 1);
                check(4, 1, [64, 64], [axis(41), axis(50)]);
                check(2, 1, [64, 64], [axis(60), stepped(37, kernel, 1, 0, 1)]);
            }
        }
    }

    #[test]
    fn lines() {
        check(2, 1, [64, 64], [Axis::UNIT, stepped(1000, 3, 1, 1, 1)]);
        check(1, 2, [64, 48], [stepped(401, 4, 1, 3, 2), Axis::UNIT]);
    }
}
