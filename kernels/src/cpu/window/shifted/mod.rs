//! Convolutions in binary32 as sums of shifted planes: no columns are gathered, and no weight need be packed.
//!
//! A band of output rows is computed from a padded copy of the input rows it reads, cut into planes of every step-th row
//! and column. In such a plane a tap is a distance, the same for every output position, so that a vector of positions is
//! read from where it lies. A tile of output channels by vectors of positions is kept in registers over some input
//! channels and taps: each result is a chain of fused multiply-adds in the order of the weight, or the sum of several,
//! whatever the band. Where vectors of positions would leave places empty, vectors go over the channels of a constant weight, which
//! keeps a copy that is packed so (`blocked.rs`).
//!
//! Where the processor multiplies tiles of matrices, channels that fill them are multiplied by these, of numbers cut into three parts
//! of bf16 (`tiled.rs`).

mod band;
mod blocked;
mod chain;
mod tile;
mod tiled;

use crate::cpu::conv::{Axis, Done, Geometry, Pieces};
use crate::cpu::dense::{Shared, ranges_on};
use band::{Band, Layout};
use blocked::Blocked;
pub use blocked::{Channels, channels};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tiled::Tiled;
pub use tiled::{Weights, weights};

/// Bytes of a band: it stays in the second-level cache beside a block's weights.
const BAND: usize = 384 << 10;
/// The largest step, of rows and of columns.
const STEP: usize = 16;
/// Tasks that are wanted at least: a power of two, as the parts of the channels are, so that threads have as much to do.
const TASKS: usize = 16;
/// The fewest output channels of a task: each thread copies its band.
const CHANNELS: usize = 32;
/// Bands that are wanted at least, and the fewest positions of one of them.
const BANDS: (usize, usize) = (4, 192);
/// Channels that parts begin with multiples of: those of a tile, or of a packed weight's panel.
const BLOCKS: [usize; 2] = [tile::CHANNELS, tile::LANES];

/// Whether [`convolve`] takes the convolution: of at most two dimensions or of one tap, with small steps, no more zeros
/// than taps reach over, and channels and rows that fill tiles.
pub fn suits(g: &Geometry) -> bool {
    let g = &lined(g);
    let [depth, height, row] = g.axes;
    let padded = |a: &Axis| a.stride <= STEP && a.padding <= (a.kernel - 1) * a.dilation;
    // A line of positions lies along the rows.
    let positions = if row == Axis::UNIT { height } else { row };
    let wide = g.cout >= 8 && g.cin * g.taps() >= 8 && positions.output >= 6;
    depth == Axis::UNIT && padded(&height) && padded(&row) && wide && tile::form().is_some()
}

/// Whether vectors of positions leave at least one in sixteen of their places empty.
fn leaves_gaps(g: &Geometry) -> bool {
    let g = &lined(g);
    let (cut, layout, row) = (Cut::of(g), Layout::of(g), g.axes[2].output);
    let places = |rows: usize| {
        let lines = (cut.images - 1) * (rows + layout.reach) + rows;
        ((lines - 1) * layout.pitch + row).next_multiple_of(tile::LANES)
    };
    let last = g.axes[1].output - (cut.bands - 1) * cut.rows;
    let all = (cut.bands - 1) * places(cut.rows) + places(last);
    cut.images * g.outputs() * 16 <= all * 15
}

/// A convolution along one dimension as one whose rows are of one element: a line is cut as rows are. So is one of one
/// tap, whose positions are a line.
fn lined(g: &Geometry) -> Geometry {
    let mut g = *g;
    let alone = |a: &Axis| a.kernel == 1 && a.stride == 1 && a.padding == 0;
    let [depth, height, row] = g.axes;
    if g.axes.iter().all(alone) {
        let positions = g.outputs();
        let line = Axis {
            input: positions,
            output: positions,
            ..Axis::UNIT
        };
        g.axes = [Axis::UNIT, line, Axis::UNIT];
    } else if depth == Axis::UNIT && alone(&height) && height.input == 1 {
        g.axes = [Axis::UNIT, row, Axis::UNIT];
    }
    g
}

/// How the work is cut, by sizes alone.
#[derive(Clone, Copy)]
struct Cut {
    /// Images of a band; more than one only where they are whole.
    images: usize,
    /// Output rows of a band.
    rows: usize,
    /// Bands of an image.
    bands: usize,
    /// Parts of the output channels of a group.
    parts: usize,
}

impl Cut {
    fn of(g: &Geometry) -> Cut {
        if tiled::takes(g) {
            return tiled::cut(g);
        }
        let (layout, height) = (Layout::of(g), g.axes[1]);
        let line = 4 * g.cin * layout.phases.len() * layout.pitch;
        let most = (BAND / line.max(1)).saturating_sub(layout.reach);
        let image_groups = (g.batch * g.groups).max(1);
        let fewest = (height.output * layout.pitch / BANDS.1).min(BANDS.0.div_ceil(image_groups));
        let bands = height.output.div_ceil(most.clamp(1, height.output));
        let mut rows = height.output.div_ceil(bands.max(fewest));
        if layout.pitch == 1 {
            // Whole vectors.
            rows = rows.next_multiple_of(16).min(height.output);
        }
        let bands = height.output.div_ceil(rows);
        let images = match bands == 1 && layout.is_dense(g) {
            true => (most / rows).clamp(1, g.batch.max(1)),
            false => 1,
        };
        let blocks = g.batch.div_ceil(images) * g.groups * bands;
        let most = 1 << (g.cout / CHANNELS).max(1).ilog2();
        Cut {
            images,
            rows,
            bands,
            parts: TASKS.div_ceil(blocks.max(1)).next_power_of_two().min(most),
        }
    }

    /// The output channels of a part, which begin with a multiple of `block`.
    fn channels(&self, g: &Geometry, part: usize, block: usize) -> Range<usize> {
        let start = |part: usize| (g.cout.div_ceil(block) * part / self.parts * block).min(g.cout);
        start(part)..start(part + 1)
    }
}

/// The pieces in which [`convolve`] completes planes.
pub fn pieces(g: &Geometry) -> Pieces {
    let g = &lined(g);
    let cut = Cut::of(g);
    Pieces {
        piece: cut.rows * g.axes[2].output,
        count: cut.bands,
    }
}

/// A weight that may be packed.
#[derive(Clone, Copy, Debug)]
pub struct Weight<'a> {
    /// Its elements.
    pub all: &'a [f32],
    /// In panels of output channels.
    pub panels: Option<Channels<'a>>,
    /// In tiles.
    pub tiles: Option<Weights<'a>>,
}

impl<'a> From<&'a [f32]> for Weight<'a> {
    fn from(all: &'a [f32]) -> Weight<'a> {
        Weight {
            all,
            panels: None,
            tiles: None,
        }
    }
}

/// The convolution, where [`suits`] holds. `done` runs over what is complete.
pub fn convolve(
    g: &Geometry,
    x: &[f32],
    weight: Weight<'_>,
    out: &mut [f32],
    done: Option<&Done<'_>>,
) {
    let g = &lined(g);
    if tiled::takes(g) && !out.is_empty() {
        return Tiled::with(g, weight, |tiled| tiled.convolve(x, weight.all, out, done));
    }
    let (w, packed) = (weight.all, weight.panels);
    let Some(form) = tile::form().filter(|_| !out.is_empty()) else {
        return;
    };
    let cut = Cut::of(g);
    let band = Band::new(g, form, cut.images, cut.rows);
    let blocked = packed.map(|packed| Blocked::new(g, packed, &band, cut.images));
    let copies = !blocked.as_ref().is_some_and(Blocked::is_direct);
    let block = BLOCKS[usize::from(blocked.is_some())];
    let out = Shared::new(out);
    let cost =
        g.cout / cut.parts * g.cin * g.taps() * cut.rows * cut.images * g.axes[2].output / 16;
    let tasks = g.batch.div_ceil(cut.images) * g.groups * cut.bands * cut.parts;
    let call = CALLS.fetch_add(1, Relaxed);
    ranges_on(tasks, cost, |tasks, thread| {
        Copied::with(if copies { band.size() } else { 0 }, |copied| {
            for task in tasks {
                let (at, part) = (task / cut.parts, task % cut.parts);
                let of = Part::of(g, &cut, at, (part, block));
                if copies && copied.band != Some((call, at)) {
                    band.fill(x, band.aligned(&mut copied.memory), &of);
                    copied.band = Some((call, at));
                }
                match &blocked {
                    Some(blocked) if !copies => blocked.run(blocked.input(x, &of), &of, &out),
                    Some(blocked) => blocked.run(band.aligned(&mut copied.memory), &of, &out),
                    None => band.run(band.aligned(&mut copied.memory), w, &of, &out),
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

/// Calls of [`convolve`] so far: they number copies of bands.
static CALLS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static COPIED: Cell<Copied> = const { Cell::new(Copied { memory: Vec::new(), band: None }) };
}

/// The copy of a band that a thread made last: parts of the channels share it.
#[derive(Default)]
struct Copied {
    memory: Vec<f32>,
    /// The call, and the number of its band.
    band: Option<(usize, usize)>,
}

impl Copied {
    /// Calls `f` with at least `size` elements of memory.
    fn with(size: usize, f: impl FnOnce(&mut Copied)) {
        // A thread that ends may have dropped its copy already.
        let mut copied = COPIED.try_with(Cell::take).unwrap_or_default();
        if copied.memory.len() < size {
            copied = Copied {
                memory: vec![0.0; size],
                band: None,
            };
        }
        f(&mut copied);
        let _ = COPIED.try_with(|place| place.set(copied));
    }
}

/// What a task computes.
struct Part {
    images: Range<usize>,
    group: usize,
    /// Output rows, and which piece of a plane they are.
    lines: Range<usize>,
    piece: usize,
    /// Output channels of the group.
    channels: Range<usize>,
}

impl Part {
    fn of(g: &Geometry, cut: &Cut, at: usize, (part, block): (usize, usize)) -> Part {
        let (rest, piece) = (at / cut.bands, at % cut.bands);
        let (images, group) = (rest / g.groups, rest % g.groups);
        Part {
            images: images * cut.images..((images + 1) * cut.images).min(g.batch),
            group,
            lines: piece * cut.rows..((piece + 1) * cut.rows).min(g.axes[1].output),
            piece,
            channels: cut.channels(g, part, block),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn axis(input: usize, kernel: usize, padding: usize, dilation: usize) -> Axis {
        stepped(input, kernel, 1, padding, dilation)
    }

    pub(super) fn stepped(
        input: usize,
        kernel: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
    ) -> Axis {
        Axis {
            input,
            output: (input + 2 * padding - (kernel - 1) * dilation - 1) / stride + 1,
            kernel,
            stride,
            padding,
            dilation,
        }
    }

    /// Small whole numbers, whose sums are exact in any order.
    fn numbers(n: usize, seed: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 7 + seed) % 11) as f32 - 5.0).collect()
    }

    pub(super) fn geometry(
        batch: usize,
        groups: usize,
        cin: usize,
        cout: usize,
        axes: [Axis; 3],
    ) -> Geometry {
        Geometry {
            batch,
            groups,
            cin,
            cout,
            axes,
        }
    }

    fn check(batch: usize, groups: usize, cin: usize, cout: usize, axes: [Axis; 3]) {
        let g = geometry(batch, groups, cin, cout, axes);
        if tile::form().is_none() {
            return;
        }
        assert!(suits(&g), "{g:?}");
        let x = numbers(batch * groups * cin * g.inputs(), 1);
        let w = numbers(groups * cout * cin * g.taps(), 2);
        let mut got = vec![0.0; batch * groups * cout * g.outputs()];
        let mut want = vec![0.0; got.len()];
        convolve(&g, &x, w[..].into(), &mut got, None);
        crate::cpu::conv::direct(&g, &x, &w, &mut want);
        assert!(got == want, "{g:?}");
    }

    /// What vectors read of a copy was written by it: what lay there before may be denormal numbers, which take long.
    #[test]
    fn copies_leave_nothing_of_what_lay_there() {
        let Some(form) = tile::form() else { return };
        let one = |n: usize, stride: usize| stepped(n, 1, stride, 0, 1);
        for (batch, axes) in [
            (1, [Axis::UNIT, one(56, 2), one(56, 2)]),
            (1, [Axis::UNIT, axis(100, 3, 1, 1), axis(57, 3, 1, 1)]),
            (
                1,
                [Axis::UNIT, stepped(41, 3, 2, 1, 2), stepped(60, 5, 3, 2, 1)],
            ),
            (5, [Axis::UNIT, axis(7, 1, 0, 1), axis(7, 1, 0, 1)]),
        ] {
            let g = lined(&geometry(batch, 1, 6, 16, axes));
            let cut = Cut::of(&g);
            let band = Band::new(&g, form, cut.images, cut.rows);
            let x = numbers(batch * g.cin * g.inputs(), 1);
            let mut memory = vec![f32::from_bits(1); band.size()];
            for at in 0..g.batch.div_ceil(cut.images) * cut.bands {
                let copy = band.aligned(&mut memory);
                copy.fill(f32::from_bits(1));
                band.fill(&x, copy, &Part::of(&g, &cut, at, (0, tile::CHANNELS)));
                assert!(copy.iter().all(|x| !x.is_subnormal()), "{g:?}, band {at}");
            }
        }
    }

    #[test]
    fn as_by_definition() {
        let (unit, three) = (Axis::UNIT, axis(9, 3, 1, 1));
        check(2, 1, 4, 8, [unit, three, three]);
        check(0, 1, 4, 8, [unit, three, three]);
        assert!(pieces(&geometry(0, 1, 4, 8, [unit, three, three])).count > 0);
        check(1, 2, 5, 11, [unit, axis(7, 3, 0, 2), axis(40, 5, 3, 2)]);
        check(2, 1, 4, 9, [unit, unit, axis(100, 3, 1, 1)]);
        check(1, 1, 6, 8, [unit, axis(5, 1, 0, 1), axis(6, 3, 1, 1)]);
        check(1, 1, 4, 17, [unit, axis(8, 2, 1, 1), axis(17, 1, 0, 1)]);
        // Several bands.
        check(1, 1, 32, 8, [unit, axis(37, 3, 1, 1), axis(80, 3, 1, 1)]);
        // Chains of long sums, and of these more than one run.
        check(1, 1, 60, 8, [unit, three, three]);
        check(1, 1, 520, 16, [unit, axis(7, 3, 1, 1), axis(7, 3, 1, 1)]);
        check(1, 1, 5, 8, [unit, axis(20, 20, 3, 1), axis(20, 15, 2, 1)]);
    }

    #[test]
    fn steps() {
        let unit = Axis::UNIT;
        let image = |kernel, stride, padding, dilation| {
            [64, 65].map(|n| stepped(n, kernel, stride, padding, dilation))
        };
        for (cin, cout, [height, row]) in [
            (3, 64, image(7, 2, 3, 1)),
            (16, 24, image(3, 2, 1, 1)),
            (40, 8, image(3, 3, 0, 2)),
            (9, 16, image(5, 4, 4, 1)),
            (5, 16, image(8, 8, 0, 1)),
            (3, 8, image(9, 11, 8, 1)),
            (64, 9, image(1, 2, 0, 1)),
            (64, 9, image(1, 4, 0, 1)),
        ] {
            check(2, 1, cin, cout, [unit, height, row]);
            check(1, 2, cin, cout, [unit, stepped(15, 3, 1, 1, 2), row]);
            check(1, 2, cin, cout, [unit, height, stepped(18, 2, 3, 1, 1)]);
        }
    }

    #[test]
    fn lines() {
        for (batch, cin, cout, line) in [
            (2, 4, 9, axis(100, 3, 1, 1)),
            (1, 6, 8, axis(30000, 3, 2, 2)),
            (2, 3, 16, stepped(20011, 10, 5, 4, 1)),
            (3, 40, 24, stepped(64, 2, 2, 0, 1)),
            (2, 5, 8, stepped(8, 4, 1, 3, 1)),
        ] {
            check(batch, 1, cin, cout, [Axis::UNIT, Axis::UNIT, line]);
            check(batch, 2, cin, cout, [Axis::UNIT, line, Axis::UNIT]);
        }
    }

    #[test]
    fn one_tap() {
        let plane = |h, w| [h, w].map(|n| axis(n, 1, 0, 1));
        for (batch, groups, cin, cout, h, w) in [
            (3, 1, 32, 24, 14, 14),
            (9, 2, 200, 40, 7, 7),
            (5, 1, 1024, 20, 7, 7),
            (2, 1, 64, 20, 56, 56),
            (2, 1, 600, 8, 28, 33),
            (70, 1, 40, 24, 2, 3),
            (1, 3, 8, 100, 1, 130),
        ] {
            let [height, row] = plane(h, w);
            check(batch, groups, cin, cout, [Axis::UNIT, height, row]);
        }
        check(
            2,
            1,
            16,
            16,
            [axis(3, 1, 0, 1), axis(4, 1, 0, 1), axis(5, 1, 0, 1)],
        );
    }

    #[test]
    fn others_are_left_alone() {
        let three = axis(9, 3, 1, 1);
        let suits = |axes, cout| suits(&geometry(1, 1, 4, cout, axes));
        assert!(!suits([Axis::UNIT, three, stepped(160, 3, 17, 1, 1)], 8));
        assert!(!suits([three; 3], 8));
        assert!(!suits([Axis::UNIT, three, three], 7));
        assert!(!suits([Axis::UNIT, three, axis(9, 3, 3, 1)], 8));
    }
}
