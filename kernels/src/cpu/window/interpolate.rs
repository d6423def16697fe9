//! Resampling of the last two dimensions.

use crate::cpu::dense::rows;
use crate::cpu::number::{Number, Wide};
use ferrotrace_runtime::Element;

/// The taps of one output position along a dimension: input positions and weights.
type Taps<const N: usize> = [(usize, f64); N];

/// Output position `i` reads the input position below it.
pub fn nearest<T: Element>(input: [usize; 2], size: [usize; 2], x: &[T], out: &mut [T]) {
    let [h, w] = input;
    let columns: Vec<usize> = (0..size[1]).map(|j| j * w / size[1]).collect();
    rows(out, size[1], size[1] * 2, |first, out| {
        for (i, out) in out.chunks_exact_mut(size[1]).enumerate() {
            let (plane, line) = ((first + i) / size[0], (first + i) % size[0]);
            let source = &x[(plane * h + line * h / size[0]) * w..][..w];
            for (out, &column) in out.iter_mut().zip(&columns) {
                *out = source[column];
            }
        }
    });
}

/// The position in the input of output position `i`: centres of pixels are half a pixel from their edges, unless
/// corners are aligned.
fn position(i: usize, input: usize, output: usize, align_corners: bool) -> f64 {
    if !align_corners {
        return (i as f64 + 0.5) * (input as f64 / output as f64) - 0.5;
    }
    if output <= 1 {
        return 0.0;
    }
    i as f64 * ((input as f64 - 1.0) / (output as f64 - 1.0))
}

fn linear_taps(input: usize, output: usize, align_corners: bool) -> Vec<Taps<2>> {
    let taps = |i| {
        let at = position(i, input, output, align_corners).max(0.0);
        let low = (at as usize).min(input - 1);
        let t = (at - low as f64).min(1.0);
        [(low, 1.0 - t), ((low + 1).min(input - 1), t)]
    };
    (0..output).map(taps).collect()
}

/// Keys' cubic convolution with A = −0.75; positions outside repeat the border.
fn cubic_taps(input: usize, output: usize, align_corners: bool) -> Vec<Taps<4>> {
    const A: f64 = -0.75;
    let near = |t: f64| ((A + 2.0) * t - (A + 3.0)) * t * t + 1.0;
    let far = |t: f64| ((A * t - 5.0 * A) * t + 8.0 * A) * t - 4.0 * A;
    let taps = |i| {
        let at = position(i, input, output, align_corners);
        let low = at.floor();
        let t = at - low;
        let place = |d: f64| (low + d).clamp(0.0, input as f64 - 1.0) as usize;
        [
            (place(-1.0), far(t + 1.0)),
            (place(0.0), near(t)),
            (place(1.0), near(1.0 - t)),
            (place(2.0), far(2.0 - t)),
        ]
    };
    (0..output).map(taps).collect()
}

/// Linear in each of the two dimensions.
pub fn bilinear<T: Number>(
    input: [usize; 2],
    size: [usize; 2],
    align_corners: bool,
    x: &[T],
    out: &mut [T],
) {
    let taps = |d: usize| linear_taps(input[d], size[d], align_corners);
    combine(input, size, &taps(0), &taps(1), x, out);
}

/// Cubic in each of the two dimensions.
pub fn bicubic<T: Number>(
    input: [usize; 2],
    size: [usize; 2],
    align_corners: bool,
    x: &[T],
    out: &mut [T],
) {
    let taps = |d: usize| cubic_taps(input[d], size[d], align_corners);
    combine(input, size, &taps(0), &taps(1), x, out);
}

fn combine<T: Number, const N: usize>(
    input: [usize; 2],
    size: [usize; 2],
    vertical: &[Taps<N>],
    horizontal: &[Taps<N>],
    x: &[T],
    out: &mut [T],
) {
    let [h, w] = input;
    let horizontal: Vec<[(usize, T::Wide); N]> = horizontal
        .iter()
        .map(|taps| taps.map(|(at, weight)| (at, T::Wide::from_f64(weight))))
        .collect();
    rows(out, size[1], size[1] * N * N, |first, out| {
        for (i, out) in out.chunks_exact_mut(size[1]).enumerate() {
            let (plane, line) = ((first + i) / size[0], (first + i) % size[0]);
            let lines = vertical[line]
                .map(|(at, weight)| (&x[(plane * h + at) * w..][..w], T::Wide::from_f64(weight)));
            for (out, taps) in out.iter_mut().zip(&horizontal) {
                let mut sum = T::Wide::ZERO;
                for (source, weight) in lines {
                    let mut row = T::Wide::ZERO;
                    for &(at, weight) in taps {
                        row = row.plus(source[at].wide().times(weight));
                    }
                    sum = sum.plus(row.times(weight));
                }
                *out = T::narrow(sum);
            }
        }
    });
}
