//! Convolutions of step 1 in binary32 as sums of shifted planes: no columns are gathered.
//!
//! A band of output rows is computed from a padded copy of the input rows it reads, whose rows share the zeros between
//! them. In such a plane a tap is a distance, the same for every output position, so that a vector of positions is read
//! from where it lies. A tile of output channels by vectors of positions is kept in registers over some input channels
//! and taps: each result is a chain of fused multiply-adds in the order of the weight, or the sum of several, whatever
//! the band.

use crate::cpu::conv::{Axis, Done, Geometry, Pieces};
use crate::cpu::dense::{Shared, ranges_on, scratch};
use crate::cpu::isa::{Loop, dispatch};
use crate::cpu::long::{Join, parts};
use crate::cpu::strided::prefetch;
use ferrotrace_runtime::Isa;
use std::ops::Range;

/// Bytes of a band: it stays in the second-level cache beside a block's weights.
const BAND: usize = 256 << 10;
/// Vectors of positions in a tile.
const VECTORS: usize = 3;
/// Planes between the one that is copied and the one that is asked for.
const AHEAD: usize = 3;
/// The most elements of a tile, of all its channels.
const TILE: usize = 8 * 16 * VECTORS;
/// Terms of a chain of additions, of results of so many terms at least ([`crate::cpu::long`]). Ending a chain takes as long as
/// three of its terms.
const CHAINS: [(usize, usize); 2] = [(4096, 64), (512, 256)];
/// Chains that are added up in binary32 before they join a total in binary64.
const RUN: usize = 16;

/// The tiles of an instruction set.
#[derive(Clone, Copy)]
struct Form {
    /// Output channels.
    channels: usize,
    /// Positions of a vector.
    lanes: usize,
    /// The loops for 1, 2 and 3 vectors.
    loops: [unsafe fn(&Tile<'_>, *mut f32, bool); VECTORS],
}

#[cfg(target_arch = "x86_64")]
fn form() -> Option<Form> {
    match Isa::host() {
        Isa::Avx512 => Some(Form {
            channels: 8,
            lanes: 16,
            loops: [avx512::tile::<1>, avx512::tile::<2>, avx512::tile::<3>],
        }),
        Isa::Avx2 => Some(Form {
            channels: 4,
            lanes: 8,
            loops: [avx2::tile::<1>, avx2::tile::<2>, avx2::tile::<3>],
        }),
        _ => None,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn form() -> Option<Form> {
    let _ = Isa::host();
    None
}

/// Whether [`convolve`] takes the convolution: of at most two dimensions, with step 1, more than one tap, no more zeros
/// than taps reach over, and channels and rows that fill tiles.
pub fn suits(g: &Geometry) -> bool {
    let [depth, height, row] = g.axes;
    let padded = |a: &Axis| a.stride == 1 && a.padding <= (a.kernel - 1) * a.dilation;
    let wide = g.cout >= 8 && g.cin >= 4 && row.output >= 6;
    depth == Axis::UNIT
        && g.taps() > 1
        && padded(&height)
        && padded(&row)
        && wide
        && form().is_some()
}

/// Output rows of a band, and how many bands an image has.
fn bands(g: &Geometry) -> (usize, usize) {
    let [_, height, row] = g.axes;
    let halo = (height.kernel - 1) * height.dilation;
    let pitch = row.input + row.padding;
    let rows = (BAND / (4 * g.cin * pitch).max(1))
        .saturating_sub(halo)
        .clamp(1, height.output);
    let rows = height.output.div_ceil(height.output.div_ceil(rows));
    (rows, height.output.div_ceil(rows))
}

/// The pieces in which [`convolve`] completes planes.
pub fn pieces(g: &Geometry) -> Pieces {
    let (rows, count) = bands(g);
    Pieces {
        piece: rows * g.axes[2].output,
        count,
    }
}

/// The convolution, where [`suits`] holds. `done` runs over what is complete.
pub fn convolve(g: &Geometry, x: &[f32], w: &[f32], out: &mut [f32], done: Option<&Done<'_>>) {
    let Some(form) = form() else { return };
    let weights = pack(g, w, form.channels);
    let [_, height, row] = g.axes;
    let halo = (height.kernel - 1) * height.dilation;
    let pitch = row.input + row.padding;
    let (rows, bands) = bands(g);
    let band = Band {
        g,
        form,
        weights: &weights,
        pitch,
        // Tiles end behind the last position; what they read there is not used.
        plane: (rows + halo) * pitch + row.padding + row.kernel * row.dilation + VECTORS * 16,
        shifts: (0..g.taps())
            .map(|t| t / row.kernel * height.dilation * pitch + t % row.kernel * row.dilation)
            .collect(),
        chains: chains(g.cin, g.taps()),
    };
    let out = Shared::new(out);
    let cost = g.cout * g.cin * g.taps() * rows * row.output / 16;
    ranges_on(g.batch * g.groups * bands, cost, |tasks, thread| {
        for task in tasks {
            let (image_group, i) = (task / bands, task % bands);
            let lines = i * rows..((i + 1) * rows).min(height.output);
            let from = image_group * g.cin * g.inputs();
            let planes = &x[from..from + g.cin * g.inputs()];
            scratch(g.cin * band.plane, |padded| {
                band.fill(planes, padded, &lines);
                band.run(padded, image_group, &lines, &out);
            });
            if let Some(done) = done {
                done(image_group * g.cout..(image_group + 1) * g.cout, i, thread);
            }
        }
    });
}

/// The chains of a result: input channels, and taps of each.
fn chains(cin: usize, taps: usize) -> Vec<(Range<usize>, Range<usize>)> {
    let long = CHAINS.iter().find(|(least, _)| cin * taps >= *least);
    let Some(&(_, most)) = long else {
        return vec![(0..cin, 0..taps)];
    };
    let channels = parts(0..cin, (most / taps).max(1));
    let all = channels.flat_map(|c| parts(0..taps, most).map(move |t| (c.clone(), t)));
    all.collect()
}

/// The weight as blocks of `channels` output channels, within them by input channel and tap.
fn pack(g: &Geometry, w: &[f32], channels: usize) -> Vec<f32> {
    let k = g.cin * g.taps();
    let blocks = g.cout.div_ceil(channels);
    let mut packed = vec![0.0; g.groups * blocks * k * channels];
    for (row, w) in w.chunks_exact(k).enumerate() {
        let (group, channel) = (row / g.cout, row % g.cout);
        let block = group * blocks + channel / channels;
        let to = &mut packed[block * k * channels + channel % channels..];
        for (to, &w) in to.iter_mut().step_by(channels).zip(w) {
            *to = w;
        }
    }
    packed
}

/// What all bands share.
struct Band<'a> {
    g: &'a Geometry,
    form: Form,
    weights: &'a [f32],
    /// Distance of rows in a padded plane.
    pitch: usize,
    /// Elements from a plane to the next.
    plane: usize,
    /// Distance of what each tap reads from the output position.
    shifts: Vec<usize>,
    /// What each chain of a result adds: input channels, and taps of each.
    chains: Vec<(Range<usize>, Range<usize>)>,
}

/// A tile: what its loop reads. Only x86-64 has loops.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
struct Tile<'a> {
    /// The first position, of the first input channel of a chain.
    x: *const f32,
    plane: usize,
    cin: usize,
    shifts: &'a [usize],
    /// Weights of the chain, in the order in which [`pack`] lays out a block.
    weights: *const f32,
}

impl Band<'_> {
    /// Copies the rows that output rows `lines` read, with zeros around them.
    fn fill(&self, planes: &[f32], padded: &mut [f32], lines: &Range<usize>) {
        let [_, height, row] = self.g.axes;
        let count = lines.len() + (height.kernel - 1) * height.dilation;
        dispatch(Fill {
            planes: planes.chunks_exact(self.g.inputs()),
            padded: padded.chunks_exact_mut(self.plane),
            row,
            pitch: self.pitch,
            sources: (0..count).map(|r| {
                let at = (lines.start + r).wrapping_sub(height.padding);
                (at < height.input).then_some(at)
            }),
        });
    }

    fn run(&self, padded: &[f32], image_group: usize, lines: &Range<usize>, out: &Shared<'_, f32>) {
        let (
            g,
            Form {
                channels,
                lanes,
                loops,
            },
        ) = (self.g, self.form);
        let [_, height, row] = g.axes;
        let k = g.cin * g.taps();
        let blocks = g.cout.div_ceil(channels);
        let positions = (lines.len() - 1) * self.pitch + row.output;
        let mut sums = [0.0f32; TILE];
        let mut totals = [0.0f64; TILE];
        for block in 0..blocks {
            let weights = &self.weights[(image_group % g.groups * blocks + block) * k * channels..];
            let rows = channels.min(g.cout - block * channels);
            let plane = height.output * row.output;
            let to = (image_group * g.cout + block * channels) * plane + lines.start * row.output;
            let mut at = 0;
            while at < positions {
                let vectors = (positions - at).div_ceil(lanes).min(VECTORS);
                let width = vectors * lanes;
                for (i, (inputs, taps)) in self.chains.iter().enumerate() {
                    let first = (inputs.start * g.taps() + taps.start) * channels;
                    let tile = Tile {
                        x: padded[inputs.start * self.plane + at..].as_ptr(),
                        plane: self.plane,
                        cin: inputs.len(),
                        shifts: &self.shifts[taps.clone()],
                        weights: weights[first..k * channels].as_ptr(),
                    };
                    // SAFETY: `form` gave loops of this machine; the planes reach past the last tile's last shift, the
                    // block holds a weight for each channel and tap, those of a chain one after another, and `sums` the
                    // largest tile.
                    unsafe { loops[vectors - 1](&tile, sums.as_mut_ptr(), i % RUN != 0) };
                    if self.chains.len() > RUN && (i + 1 == self.chains.len() || (i + 1) % RUN == 0)
                    {
                        dispatch(Join {
                            totals: &mut totals[..width * channels],
                            sums: &sums[..width * channels],
                            begin: i < RUN,
                        });
                    }
                }
                if self.chains.len() > RUN {
                    for (sum, &total) in sums.iter_mut().zip(&totals[..width * channels]) {
                        *sum = total as f32;
                    }
                }
                let end = (at + width).min(positions);
                let mut position = at;
                while position < end {
                    let (line, column) = (position / self.pitch, position % self.pitch);
                    let next = ((line + 1) * self.pitch).min(end);
                    if column < row.output {
                        let n = (next - position).min(row.output - column);
                        let start = to + line * row.output + column;
                        dispatch(Store {
                            sums: &sums[position - at..],
                            width,
                            rows,
                            n,
                            start,
                            plane,
                            out: *out,
                        });
                    }
                    position = next;
                }
                at += width;
            }
        }
    }
}

struct Fill<'a, S> {
    planes: std::slice::ChunksExact<'a, f32>,
    padded: std::slice::ChunksExactMut<'a, f32>,
    row: Axis,
    pitch: usize,
    /// The input row of each row of a padded plane, if there is one.
    sources: S,
}

impl<S: Iterator<Item = Option<usize>> + Clone> Loop for Fill<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Axis { input, padding, .. } = self.row;
        for (plane, padded) in self.planes.zip(self.padded) {
            let mut to = 0;
            for source in self.sources.clone() {
                let out = &mut padded[to..to + self.pitch];
                match source {
                    None => out.fill(0.0),
                    Some(h) => {
                        out[..padding].fill(0.0);
                        let source = &plane[h * input..][..input];
                        // The hardware starts anew at each plane.
                        let ahead = source.as_ptr().wrapping_add(AHEAD * plane.len());
                        for line in (0..input + 15).step_by(16) {
                            prefetch(ahead.wrapping_add(line).cast());
                        }
                        for (out, x) in out[padding..].iter_mut().zip(source) {
                            *out = *x;
                        }
                    }
                }
                to += self.pitch;
            }
            padded[to..to + padding].fill(0.0);
        }
    }
}

/// Writes a stretch of a tile that lies in one output row, for each of its channels.
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
            // SAFETY: a stretch of an output row belongs to one tile of one band.
            let out = unsafe { self.out.part(start..start + self.n) };
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = *sum;
            }
        }
    }
}

/// The loop over input channels and taps, for an instruction set.
macro_rules! tiles {
    ($name:ident, $features:literal, $channels:literal, $lanes:literal, $zero:ident $load:ident $splat:ident $fma:ident $add:ident $store:ident) => {
        #[cfg(target_arch = "x86_64")]
        mod $name {
            use super::Tile;
            use std::arch::x86_64::*;

            /// Writes the sums of `N` vectors of positions, channel by channel, or adds them if there are `more` than these.
            ///
            /// # Safety
            /// The machine has the instruction set; what the tile describes may be read, and the tile written at `sums`.
            #[target_feature(enable = $features)]
            pub(in crate::cpu) unsafe fn tile<const N: usize>(
                t: &Tile<'_>,
                sums: *mut f32,
                more: bool,
            ) {
                // SAFETY: as the caller promises.
                unsafe {
                    let mut acc = [[$zero(); N]; $channels];
                    let mut w = t.weights;
                    for c in 0..t.cin {
                        let plane = t.x.add(c * t.plane);
                        for &shift in t.shifts {
                            let from = plane.add(shift);
                            let mut x = [$zero(); N];
                            for (v, x) in x.iter_mut().enumerate() {
                                *x = $load(from.add(v * $lanes));
                            }
                            for (r, acc) in acc.iter_mut().enumerate() {
                                let factor = $splat(*w.add(r));
                                for (acc, x) in acc.iter_mut().zip(x) {
                                    *acc = $fma(factor, x, *acc);
                                }
                            }
                            w = w.add($channels);
                        }
                    }
                    for (r, acc) in acc.iter().enumerate() {
                        for (v, acc) in acc.iter().enumerate() {
                            let to = sums.add((r * N + v) * $lanes);
                            $store(to, if more { $add($load(to), *acc) } else { *acc });
                        }
                    }
                }
            }
        }
    };
}

tiles!(avx512, "avx512f", 8, 16, _mm512_setzero_ps _mm512_loadu_ps _mm512_set1_ps _mm512_fmadd_ps _mm512_add_ps _mm512_storeu_ps);
tiles!(avx2, "avx2,fma", 4, 8, _mm256_setzero_ps _mm256_loadu_ps _mm256_set1_ps _mm256_fmadd_ps _mm256_add_ps _mm256_storeu_ps);

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(input: usize, kernel: usize, padding: usize, dilation: usize) -> Axis {
        Axis {
            input,
            output: input + 2 * padding - (kernel - 1) * dilation,
            kernel,
            stride: 1,
            padding,
            dilation,
        }
    }

    /// Small whole numbers, whose sums are exact in any order.
    fn numbers(n: usize, seed: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 7 + seed) % 11) as f32 - 5.0).collect()
    }

    fn check(batch: usize, groups: usize, cin: usize, cout: usize, axes: [Axis; 3]) {
        let g = Geometry {
            batch,
            groups,
            cin,
            cout,
            axes,
        };
        if form().is_none() {
            return;
        }
        assert!(suits(&g), "{g:?}");
        let x = numbers(batch * groups * cin * g.inputs(), 1);
        let w = numbers(groups * cout * cin * g.taps(), 2);
        let mut got = vec![0.0; batch * groups * cout * g.outputs()];
        let mut want = vec![0.0; got.len()];
        convolve(&g, &x, &w, &mut got, None);
        crate::cpu::conv::direct(&g, &x, &w, &mut want);
        assert!(got == want, "{g:?}");
    }

    #[test]
    fn as_by_definition() {
        let (unit, three) = (Axis::UNIT, axis(9, 3, 1, 1));
        check(2, 1, 4, 8, [unit, three, three]);
        check(1, 2, 5, 11, [unit, axis(7, 3, 0, 2), axis(40, 5, 3, 2)]);
        check(2, 1, 4, 9, [unit, unit, axis(100, 3, 1, 1)]);
        check(1, 1, 6, 8, [unit, axis(5, 1, 0, 1), axis(6, 3, 1, 1)]);
        check(1, 1, 4, 17, [unit, axis(8, 2, 1, 1), axis(17, 1, 0, 1)]);
        // Several bands.
        check(1, 1, 32, 8, [unit, axis(37, 3, 1, 1), axis(80, 3, 1, 1)]);
    }

    #[test]
    fn others_are_left_alone() {
        let three = axis(9, 3, 1, 1);
        let suits = |axes, cout| {
            suits(&Geometry {
                batch: 1,
                groups: 1,
                cin: 4,
                cout,
                axes,
            })
        };
        let strided = Axis {
            stride: 2,
            output: 5,
            ..three
        };
        assert!(!suits([Axis::UNIT, three, strided], 8));
        assert!(!suits([three; 3], 8));
        assert!(!suits([Axis::UNIT, three, three], 7));
        assert!(!suits([Axis::UNIT, three, axis(9, 3, 3, 1)], 8));
    }
}
