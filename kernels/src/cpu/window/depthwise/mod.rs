//! Convolutions of one input channel a group, as those between the channels of a separable convolution
//! ([Chollet 2017](https://arxiv.org/abs/1610.02357)): each plane by windows of its own.
//!
//! A band of rows is copied with its zeros, cut into planes of every step-th row and column, so that a tap is a distance, the
//! same for every output position. Positions of a band follow each other in memory, those beside its rows among them:
//! vectors of positions are kept in registers over all taps, and rows that are shorter than vectors cost no more. Each
//! result is a chain of fused multiply-adds in the order of the weight.

#[cfg(target_arch = "x86_64")]
mod rows;

use crate::cpu::conv::{Axis, Done, Geometry, copy_every_second};
use crate::cpu::dense::{Plain, Shared, ranges_on, scratch};
use crate::cpu::isa::{Loop, dispatch};
use crate::cpu::vector::Real;
use ferrotrace_runtime::Isa;
use std::ops::Range;

/// Bytes of result planes that are completed together.
const COMPLETED: usize = 32 << 10;
/// Bytes of a band: it stays in the second-level cache, most of it in the first.
const BAND: usize = 96 << 10;
/// Positions that are kept in registers.
const POSITIONS: usize = 64;
/// The most taps: results of more are added in chains.
const TAPS: usize = 256;
/// The largest step, of rows and of columns.
const STEP: usize = 4;

/// Whether [`convolve`] takes the convolution: of one input channel a group, of at most two dimensions, with few taps.
pub fn suits(g: &Geometry) -> bool {
    let [depth, height, row] = g.axes;
    let steps = height.stride <= STEP && row.stride <= STEP;
    let fused = cfg!(not(target_arch = "x86_64")) || Isa::host() != Isa::Sse2;
    g.cin == 1 && depth == Axis::UNIT && g.taps() <= TAPS && steps && fused
}

/// The convolution, where [`suits`] holds. `done` runs over whole planes.
pub fn convolve<T: Real + Plain>(
    g: &Geometry,
    x: &[T],
    w: &[T],
    out: &mut [T],
    done: Option<&Done<'_>>,
) {
    let band = Band::of::<T>(g);
    each_group(g, x, w, out, done, |x, weights, out| {
        scratch(band.size, |memory| {
            dispatch(Planes {
                band: &band,
                from: x,
                weights,
                memory,
                out,
            });
        });
    });
}

/// The convolution in binary32 by windows that this machine has a loop for; `false`, with nothing done, of others. `done`
/// runs over whole planes.
#[cfg(target_arch = "x86_64")]
pub fn convolve_by_rows(
    g: &Geometry,
    x: &[f32],
    w: &[f32],
    out: &mut [f32],
    done: Option<&Done<'_>>,
) -> bool {
    let Some(windows) = suits(g).then(|| rows::Windows::of(g)).flatten() else {
        return false;
    };
    let (plane, taps) = (g.outputs(), g.taps());
    each_group(g, x, w, out, done, |x, weights, out| {
        let planes = out.chunks_exact_mut(plane);
        for (out, w) in planes.zip(weights.chunks_exact(taps)) {
            windows.convolve(x, w, out);
        }
    });
    true
}

/// Only x86-64 has such loops.
#[cfg(not(target_arch = "x86_64"))]
pub fn convolve_by_rows(
    _: &Geometry,
    _: &[f32],
    _: &[f32],
    _: &mut [f32],
    _: Option<&Done<'_>>,
) -> bool {
    false
}

/// Computes the planes of each group of each image, from its input plane and its windows.
fn each_group<T: Real + Plain>(
    g: &Geometry,
    x: &[T],
    w: &[T],
    out: &mut [T],
    done: Option<&Done<'_>>,
    compute: impl Fn(&[T], &[T], &mut [T]) + Sync,
) {
    let (inputs, taps, plane) = (g.inputs(), g.taps(), g.cout * g.outputs());
    let out = Shared::new(out);
    let together = (COMPLETED / (plane * size_of::<T>()).max(1)).max(1);
    ranges_on(g.batch * g.groups, plane * taps / 8, |groups, thread| {
        for first in groups.clone().step_by(together) {
            let some = first..groups.end.min(first + together);
            for i in some.clone() {
                let channel = i % g.groups * g.cout;
                let weights = &w[channel * taps..(channel + g.cout) * taps];
                // SAFETY: planes are disjoint.
                let out = unsafe { out.part(i * plane..(i + 1) * plane) };
                compute(&x[i * inputs..(i + 1) * inputs], weights, out);
            }
            if let Some(done) = done {
                done(some.start * g.cout..some.end * g.cout, 0, thread);
            }
        }
    });
}

/// How the rows that some output rows read lie in memory.
struct Band {
    height: Axis,
    row: Axis,
    /// Output rows of a band.
    rows: usize,
    /// The distance of rows in a plane of every step-th row and column: of output rows too.
    pitch: usize,
    /// Rows of such a plane.
    lines: usize,
    /// Elements of all such planes, and of what the last vector reads behind them.
    size: usize,
    /// The distance of what each tap reads from the output position.
    shifts: Vec<usize>,
}

impl Band {
    fn of<T>(g: &Geometry) -> Band {
        let [_, height, row] = g.axes;
        let reach = |a: &Axis| (a.kernel - 1) * a.dilation / a.stride;
        // Rows share the zeros between them, where every column is in one plane.
        let pitch = match row.stride {
            1 => row.output.max(row.input + row.padding),
            _ => row.output + reach(&row),
        };
        let planes = height.stride * row.stride;
        let most = BAND / (size_of::<T>() * planes * pitch).max(1);
        let rows = most
            .saturating_sub(reach(&height))
            .clamp(1, height.output.max(1));
        let rows = height.output.div_ceil(height.output.div_ceil(rows).max(1));
        let lines = rows + reach(&height);
        let plane = lines * pitch;
        let shift = |t: usize| {
            let (down, along) = (
                t / row.kernel * height.dilation,
                t % row.kernel * row.dilation,
            );
            let phase = down % height.stride * row.stride + along % row.stride;
            phase * plane + down / height.stride * pitch + along / row.stride
        };
        Band {
            height,
            row,
            rows,
            pitch,
            lines,
            size: planes * plane + reach(&row) + row.padding + POSITIONS,
            shifts: (0..g.taps()).map(shift).collect(),
        }
    }
}

/// The planes of the results of one input plane.
struct Planes<'a, T> {
    band: &'a Band,
    from: &'a [T],
    /// By result.
    weights: &'a [T],
    memory: &'a mut [T],
    out: &'a mut [T],
}

impl<T: Real + Plain> Loop for Planes<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Planes {
            band,
            from,
            weights,
            memory,
            out,
        } = self;
        let (height, row) = (band.height, band.row);
        let plane = height.output * row.output;
        let mut start = 0;
        while start < height.output {
            let lines = start..height.output.min(start + band.rows);
            fill(band, from, memory, start);
            let taps = weights.chunks_exact(band.shifts.len());
            for (weights, out) in taps.zip(out.chunks_exact_mut(plane)) {
                let out = &mut out[lines.start * row.output..lines.end * row.output];
                convolve_band(band, memory, weights, out);
            }
            start = lines.end;
        }
    }
}

/// Copies the rows that output rows from `start` on read, with zeros around them.
#[inline(always)]
fn fill<T: Real>(band: &Band, from: &[T], memory: &mut [T], start: usize) {
    let (height, row, pitch) = (band.height, band.row, band.pitch);
    let (planes, behind) = memory.split_at_mut(height.stride * row.stride * band.lines * pitch);
    behind.fill(T::ZERO);
    for (i, line) in planes.chunks_exact_mut(pitch).enumerate() {
        let (phase, at) = (i / band.lines, i % band.lines);
        let source = ((start + at) * height.stride + phase / row.stride)
            .checked_sub(height.padding)
            .filter(|&at| at < height.input);
        match source {
            None => line.fill(T::ZERO),
            Some(at) => {
                let source = &from[at * row.input..(at + 1) * row.input];
                fill_line(row, phase % row.stride, source, line);
            }
        }
    }
}

/// Copies every step-th column from `phase` on, of a row that begins with zeros.
#[inline(always)]
fn fill_line<T: Real>(row: Axis, phase: usize, source: &[T], line: &mut [T]) {
    // The first element of the row that is inside.
    let first = row.padding.saturating_sub(phase).div_ceil(row.stride);
    let before = first.min(line.len());
    let (zeros, line) = line.split_at_mut(before);
    zeros.fill(T::ZERO);
    let from = (first * row.stride + phase).saturating_sub(row.padding);
    let source = source.get(from..).unwrap_or(&[]);
    let inside = source.len().div_ceil(row.stride).min(line.len());
    let (line, zeros) = line.split_at_mut(inside);
    match row.stride {
        1 => line.copy_from_slice(&source[..inside]),
        2 => copy_every_second(source, line),
        step => {
            for (line, x) in line.iter_mut().zip(source.iter().step_by(step)) {
                *line = *x;
            }
        }
    }
    zeros.fill(T::ZERO);
}

/// The output rows of a band.
#[inline(always)]
fn convolve_band<T: Real>(band: &Band, memory: &[T], weights: &[T], out: &mut [T]) {
    let (width, pitch) = (band.row.output, band.pitch);
    let positions = (out.len() / width).saturating_sub(1) * pitch + width;
    let mut at = 0;
    while at < positions {
        let mut sums = [T::ZERO; POSITIONS];
        for (&shift, &factor) in band.shifts.iter().zip(weights) {
            if let Some(x) = memory[shift + at..].first_chunk::<POSITIONS>() {
                for (sum, x) in sums.iter_mut().zip(x) {
                    *sum = factor.fused(*x, *sum);
                }
            }
        }
        store(
            out,
            &sums,
            at..positions.min(at + POSITIONS),
            (width, pitch),
        );
        at += POSITIONS;
    }
}

/// Writes those of the positions `range` that lie in rows of `width`, at distances of `pitch`.
#[inline(always)]
fn store<T: Copy>(out: &mut [T], sums: &[T], range: Range<usize>, (width, pitch): (usize, usize)) {
    let mut position = range.start;
    while position < range.end {
        let (line, column) = (position / pitch, position % pitch);
        let next = ((line + 1) * pitch).min(range.end);
        if column < width {
            let n = (next - position).min(width - column);
            let to = &mut out[line * width + column..][..n];
            to.copy_from_slice(&sums[position - range.start..][..n]);
        }
        position = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small whole numbers, whose sums are exact in any order.
    fn numbers(n: usize, seed: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 7 + seed) % 11) as f32 - 5.0).collect()
    }

    fn axis(input: usize, kernel: usize, stride: usize, padding: usize, dilation: usize) -> Axis {
        Axis {
            input,
            output: (input + 2 * padding - (kernel - 1) * dilation - 1) / stride + 1,
            kernel,
            stride,
            padding,
            dilation,
        }
    }

    fn check(batch: usize, groups: usize, cout: usize, height: Axis, row: Axis) {
        let g = Geometry {
            batch,
            groups,
            cin: 1,
            cout,
            axes: [Axis::UNIT, height, row],
        };
        if !suits(&g) {
            return;
        }
        let x = numbers(batch * groups * g.inputs(), 1);
        let w = numbers(groups * cout * g.taps(), 2);
        let mut got = vec![0.0; batch * groups * cout * g.outputs()];
        let mut want = vec![0.0; got.len()];
        convolve(&g, &x, &w, &mut got, None);
        crate::cpu::conv::direct(&g, &x, &w, &mut want);
        assert!(got == want, "{g:?}");
        got.fill(f32::NAN);
        if convolve_by_rows(&g, &x, &w, &mut got, None) {
            assert!(got == want, "{g:?} by rows");
        }
    }

    #[test]
    fn as_by_definition() {
        for (kernel, stride, padding, dilation) in [
            (3, 1, 1, 1),
            (3, 2, 1, 1),
            (5, 1, 2, 1),
            (5, 2, 2, 1),
            (7, 1, 3, 1),
            (7, 2, 6, 1),
            (5, 2, 2, 2),
            (7, 3, 9, 1),
            (2, 4, 0, 3),
            (3, 3, 0, 2),
            (1, 2, 0, 1),
        ] {
            for input in [7, 8, 14, 33, 130] {
                let row = axis(input, kernel, stride, padding, dilation);
                check(2, 3, 1, row, row);
                check(1, 2, 2, axis(9, 3, 2, 1, 1), row);
                check(1, 2, 1, row, axis(9, 3, 1, 2, 2));
                check(3, 1, 3, Axis::UNIT, row);
            }
        }
        // Several bands.
        let long = axis(700, 3, 1, 1, 1);
        check(1, 2, 1, long, axis(200, 3, 1, 1, 1));
        check(1, 1, 2, axis(701, 3, 2, 1, 1), axis(201, 5, 2, 2, 1));
    }
}
