//! A band of output rows: the padded copy of what it reads, and the tiles that go over it.

use super::Part;
use super::chain::{Chain, add_chains, chains};
use super::tile::{CHANNELS, Form, Tile, VECTORS, WIDTH};
use crate::cpu::conv::{Axis, Geometry, copy_every_second, copy_short};
use crate::cpu::dense::Shared;
use crate::cpu::isa::{Loop, dispatch};
use crate::cpu::strided::prefetch;
use std::ops::Range;

/// Planes between the one that is copied and the one that is asked for.
const AHEAD: usize = 3;

/// How the rows that a band reads lie in its copy.
pub(super) struct Layout {
    /// The planes of every step-th row and column that taps read: the first row and column of each.
    pub phases: Vec<[usize; 2]>,
    /// The distance of rows in such a plane: of output rows too.
    pub pitch: usize,
    /// Rows of such a plane beyond those of the output.
    pub reach: usize,
}

impl Layout {
    pub fn of(g: &Geometry) -> Layout {
        let [_, height, row] = g.axes;
        let reach = |a: &Axis| (a.kernel - 1) * a.dilation / a.stride;
        let mut phases: Vec<_> = (0..g.taps()).map(|t| offset(&height, &row, t).0).collect();
        phases.sort_unstable();
        phases.dedup();
        Layout {
            phases,
            // Rows share the zeros between them, where every column is in one plane.
            pitch: match row.stride {
                1 => row.output.max(row.input + row.padding),
                _ => row.output + reach(&row),
            },
            reach: reach(&height),
        }
    }

    /// Whether no position of a plane lies between those of the output, so that one image follows another.
    pub fn is_dense(&self, g: &Geometry) -> bool {
        self.reach == 0 && self.pitch == g.axes[2].output
    }
}

/// The plane that a tap reads, and the rows and columns to there.
fn offset(height: &Axis, row: &Axis, tap: usize) -> ([usize; 2], [usize; 2]) {
    let (down, along) = (
        tap / row.kernel * height.dilation,
        tap % row.kernel * row.dilation,
    );
    let phase = [down % height.stride, along % row.stride];
    (phase, [down / height.stride, along / row.stride])
}

/// What all bands share.
pub(super) struct Band<'a> {
    g: &'a Geometry,
    form: Form,
    layout: Layout,
    /// Images, and output rows of each, at most.
    rows: usize,
    /// Elements of a plane of every step-th row and column, of all images.
    phase: usize,
    /// Elements from a channel to the next.
    plane: usize,
    chains: Vec<Chain>,
    /// Distance from the output position of what each term of the longest chain reads.
    offsets: Vec<usize>,
}

impl<'a> Band<'a> {
    pub fn new(g: &'a Geometry, form: Form, images: usize, rows: usize) -> Band<'a> {
        let [_, height, row] = g.axes;
        let layout = Layout::of(g);
        let phase = images * (rows + layout.reach) * layout.pitch;
        let shift = |t: usize| {
            let (of, [down, along]) = offset(&height, &row, t);
            let number = layout.phases.partition_point(|p| *p < of);
            number * phase + down * layout.pitch + along
        };
        // Tiles end behind the last position; what they read there is not used.
        let behind = row.padding + row.kernel * row.dilation + WIDTH;
        // An odd number of cache lines: those of the channels at one position have different places in the caches.
        let lines = (layout.phases.len() * phase + behind).div_ceil(16) | 1;
        let (plane, chains) = (lines * 16, chains(g.cin, g.taps()));
        let longest = chains.iter().map(|(inputs, _)| inputs.len()).max();
        let shifts: Vec<usize> = (0..g.taps()).map(shift).collect();
        let offsets = (0..longest.unwrap_or(0))
            .flat_map(|c| shifts.iter().map(move |shift| c * plane + shift))
            .collect();
        Band {
            g,
            form,
            rows,
            phase,
            plane,
            chains,
            offsets,
            layout,
        }
    }

    /// Elements from a channel to the next of the copy.
    pub fn plane(&self) -> usize {
        self.plane
    }

    /// Elements of the copy from an image, an output row and an output column to the next.
    pub fn steps(&self) -> [usize; 3] {
        let pitch = self.layout.pitch;
        [(self.rows + self.layout.reach) * pitch, pitch, 1]
    }

    /// How far from an output position each tap of an input channel reads the copy.
    pub fn taps(&self) -> &[usize] {
        &self.offsets[..self.g.taps()]
    }

    /// What each chain of a result adds: input channels, and taps of each.
    pub fn chains(&self) -> &[Chain] {
        &self.chains
    }

    /// Output rows of an image, at most.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of scratch memory that a thread needs.
    pub fn size(&self) -> usize {
        self.g.cin * self.plane + 15
    }

    /// The part of scratch memory that starts with a cache line.
    pub fn aligned<'m>(&self, memory: &'m mut [f32]) -> &'m mut [f32] {
        let skipped = memory.as_ptr().align_offset(64).min(15);
        &mut memory[skipped..][..self.g.cin * self.plane]
    }

    /// Copies the rows that a part reads, with zeros around them, and behind them as far as vectors read.
    pub fn fill(&self, x: &[f32], padded: &mut [f32], part: &Part) {
        let (g, images) = (self.g, part.images.clone());
        let (inputs, all) = (g.inputs(), g.groups * g.cin);
        let first = (images.start * all + part.group * g.cin) * inputs;
        dispatch(Fill {
            band: self,
            x: &x[first..],
            image: all * inputs,
            images: images.len(),
            lines: part.lines.clone(),
            padded,
        });
    }

    /// Computes a part of the result.
    pub fn run(&self, padded: &[f32], w: &[f32], part: &Part, out: &Shared<'_, f32>) {
        let (g, pitch) = (self.g, self.layout.pitch);
        let k = g.cin * g.taps();
        let lines = (part.images.len() - 1) * (self.rows + self.layout.reach) + part.lines.len();
        let positions = (lines - 1) * pitch + g.axes[2].output;
        let lanes = self.form.lanes;
        let vectors = positions.div_ceil(lanes);
        let tiles = vectors.div_ceil(VECTORS);
        let mut sums = [0.0f32; CHANNELS * WIDTH];
        let mut totals = [0.0f64; CHANNELS * WIDTH];
        for first in part.channels.clone().step_by(self.form.channels) {
            let rows = self.form.channels.min(part.channels.end - first);
            let weights = &w[(part.group * g.cout + first) * k..][..rows * k];
            let ahead = weights.as_ptr().wrapping_add(rows * k);
            // Rows that are not there are computed as the last one is, and not stored.
            let weights: [_; CHANNELS] =
                std::array::from_fn(|r| weights[r.min(rows - 1) * k..].as_ptr());
            for i in 0..tiles {
                let (start, end) = (vectors * i / tiles, vectors * (i + 1) / tiles);
                let block = Block {
                    weights: &weights,
                    ahead,
                    rows,
                    channel: first,
                    at: start * lanes,
                    vectors: end - start,
                    positions,
                };
                self.tile(padded, &block, part, (&mut sums, &mut totals), out);
            }
        }
    }

    /// Computes a tile, and writes those of its positions that the result has.
    fn tile(
        &self,
        padded: &[f32],
        block: &Block<'_>,
        part: &Part,
        (sums, totals): (&mut [f32], &mut [f64]),
        out: &Shared<'_, f32>,
    ) {
        let (g, width) = (self.g, block.vectors * self.form.lanes);
        let row = g.axes[2].output;
        let whole = part.images.len() == 1 && self.layout.pitch == row;
        let full = block.rows == self.form.channels && block.at + width <= block.positions;
        if let ([chain], true) = (&self.chains[..], whole && full) {
            let plane = self.plane_of(part, part.images.start, block);
            let to = plane * g.outputs() + part.lines.start * row + block.at;
            // These positions of these planes belong to this tile.
            assert!(to + (block.rows - 1) * g.outputs() + width <= out.len());
            let place = (out.as_mut_ptr().wrapping_add(to), g.outputs());
            self.add_chain(padded, block, chain, place, false);
            return;
        }
        let sums = &mut sums[..width * self.form.channels];
        let totals = &mut totals[..sums.len()];
        add_chains(&self.chains, (sums, totals), |chain, sums, more| {
            self.add_chain(padded, block, chain, (sums.as_mut_ptr(), width), more);
        });
        self.store(sums, block, part, out);
    }

    /// The first plane of the result that a block of an image computes.
    fn plane_of(&self, part: &Part, image: usize, block: &Block<'_>) -> usize {
        (image * self.g.groups + part.group) * self.g.cout + block.channel
    }

    /// Writes the sums of a chain for each channel and position of a tile, channels at some distance, or adds them if there
    /// are `more`.
    #[inline(always)]
    fn add_chain(
        &self,
        padded: &[f32],
        block: &Block<'_>,
        (inputs, taps): &Chain,
        (to, apart): (*mut f32, usize),
        more: bool,
    ) {
        let tile = Tile {
            x: padded[inputs.start * self.plane + block.at..].as_ptr(),
            offsets: &self.offsets[taps.start..][..inputs.len() * taps.len()],
            weights: block.weights,
            ahead: block.ahead,
            first: inputs.start * self.g.taps() + taps.start,
        };
        // SAFETY: `form` gave loops of this machine; planes reach past the last tile's last shift; each row of the weight
        // holds the terms of the chain one after another; the caller's memory holds the tile.
        unsafe { self.form.loops[block.vectors - 1](&tile, to, apart, more) };
    }

    /// Writes those positions of a tile that the result has.
    fn store(&self, sums: &[f32], block: &Block<'_>, part: &Part, out: &Shared<'_, f32>) {
        let (pitch, row) = (self.layout.pitch, self.g.axes[2].output);
        let (stack, lines) = (self.rows + self.layout.reach, part.lines.len());
        let (width, outputs) = (block.vectors * self.form.lanes, self.g.outputs());
        let end = (block.at + width).min(block.positions);
        let mut position = block.at;
        while position < end {
            let (at, column) = (position / pitch, position % pitch);
            let (image, line) = (at / stack, at % stack);
            // Lines that follow each other without a gap are one.
            let (next, inside) = match pitch == row {
                true => (
                    image * stack + lines,
                    (lines.max(line) - line) * pitch - column,
                ),
                false => (at + 1, row.saturating_sub(column)),
            };
            let next = (next * pitch).max(position + 1).min(end);
            if inside > 0 && line < lines {
                let plane = self.plane_of(part, part.images.start + image, block);
                dispatch(Store {
                    sums: &sums[position - block.at..],
                    width,
                    rows: block.rows,
                    n: (next - position).min(inside),
                    start: plane * outputs + (part.lines.start + line) * row + column,
                    plane: outputs,
                    out: *out,
                });
            }
            position = next;
        }
    }
}

/// Output channels by vectors of positions.
struct Block<'a> {
    /// Where the rows of the weight start.
    weights: &'a [*const f32; CHANNELS],
    /// Where the rows of the next block start.
    ahead: *const f32,
    rows: usize,
    /// The first output channel, of its group.
    channel: usize,
    /// The first position.
    at: usize,
    vectors: usize,
    /// The positions of the band.
    positions: usize,
}

struct Fill<'a, 'b> {
    band: &'a Band<'b>,
    /// From the first channel of the first image on.
    x: &'a [f32],
    /// The distance of images.
    image: usize,
    images: usize,
    /// The output rows.
    lines: Range<usize>,
    padded: &'a mut [f32],
}

impl Loop for Fill<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Band {
            g,
            layout,
            phase,
            rows,
            ..
        } = self.band;
        let [_, height, row] = g.axes;
        let inputs = g.inputs();
        let count = self.lines.len() + layout.reach;
        let image = (rows + layout.reach) * layout.pitch;
        for (c, padded) in self.padded.chunks_exact_mut(self.band.plane).enumerate() {
            for i in 0..self.images {
                let plane = &self.x[i * self.image + c * inputs..][..inputs];
                let first = i * image;
                for (p, [down, along]) in layout.phases.iter().enumerate() {
                    let to = &mut padded[p * phase + first..][..image];
                    let (to, behind) = to.split_at_mut(count * layout.pitch);
                    behind.fill(0.0);
                    let top = self.lines.start * height.stride + down;
                    if layout.pitch == 1 {
                        let source = plane.get(top..).unwrap_or(&[]);
                        ask_ahead(&source[..source.len().min(count)], inputs);
                        fill_line(height.stride, (top, height.padding), plane, to);
                        continue;
                    }
                    for (r, line) in to.chunks_exact_mut(layout.pitch).enumerate() {
                        let at = (top + r * height.stride).wrapping_sub(height.padding);
                        if at >= height.input {
                            line.fill(0.0);
                            continue;
                        }
                        let source = &plane[at * row.input..][..row.input];
                        ask_ahead(source, inputs);
                        fill_line(row.stride, (*along, row.padding), source, line);
                    }
                }
            }
            // What vectors read behind the last row is not used, but with denormal numbers there each takes a hundred cycles.
            padded[layout.phases.len() * phase..].fill(0.0);
        }
    }
}

/// Asks for what a slice of a plane will be followed by: the hardware starts anew at each plane.
#[inline(always)]
fn ask_ahead(source: &[f32], plane: usize) {
    let ahead = source.as_ptr().wrapping_add(AHEAD * plane);
    for line in (0..source.len() + 15).step_by(16) {
        prefetch(ahead.wrapping_add(line).cast());
    }
}

/// Copies every `step`-th element from `at` on, of a row that begins with so many zeros and ends with as many as are asked
/// for.
#[inline(always)]
fn fill_line(step: usize, (at, zeros): (usize, usize), source: &[f32], line: &mut [f32]) {
    // The first element of the line that is inside.
    let first = zeros.saturating_sub(at).div_ceil(step);
    let (before, line) = line.split_at_mut(first.min(line.len()));
    before.fill(0.0);
    let from = (first * step + at).saturating_sub(zeros);
    let source = source.get(from..).unwrap_or(&[]);
    let inside = source.len().div_ceil(step).min(line.len());
    let (line, after) = line.split_at_mut(inside);
    match step {
        1 => {
            let source = &source[..inside];
            copy_short(source, line);
        }
        2 => copy_every_second(source, line),
        step => {
            for (line, x) in line.iter_mut().zip(source.iter().step_by(step)) {
                *line = *x;
            }
        }
    }
    after.fill(0.0);
}

/// Writes a stretch of a tile that lies together in the result, for each of its channels.
struct Store<'a> {
    sums: &'a [f32],
    width: usize,
    rows: usize,
    n: usize,
    start: usize,
    plane: usize,
    out: Shared<'a, f32>,
}

impl Loop for Store<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for r in 0..self.rows {
            let sums = &self.sums[r * self.width..][..self.n];
            let start = self.start + r * self.plane;
            // SAFETY: a stretch of an output plane belongs to one tile of one band.
            let out = unsafe { self.out.part(start..start + self.n) };
            copy_short(sums, out);
        }
    }
}
