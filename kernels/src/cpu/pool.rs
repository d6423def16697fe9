//! Pooling of trailing spatial dimensions.

use super::conv::Axis;
use super::dense::rows;
use super::number::{Number, Wide};
use crate::PoolKind;

/// Pools each plane of `x`; axes are the spatial dimensions, outermost first.
pub fn pool<T: Number>(kind: PoolKind, axes: [Axis; 3], x: &[T], out: &mut [T]) {
    let [depth, height, row] = axes;
    let lines = depth.output * height.output;
    let size = depth.input * height.input * row.input;
    let taps = depth.kernel * height.kernel * row.kernel;
    let start = match kind {
        PoolKind::Max => T::Wide::LOWEST,
        PoolKind::Avg => T::Wide::ZERO,
    };
    rows(out, row.output, row.output * taps, |first, out| {
        let mut values = vec![start; row.output];
        for (i, out) in out.chunks_exact_mut(row.output).enumerate() {
            let (plane, line) = ((first + i) / lines, (first + i) % lines);
            let plane = &x[plane * size..][..size];
            values.fill(start);
            for td in 0..depth.kernel {
                for th in 0..height.kernel {
                    let source = depth
                        .source(line / height.output, td)
                        .zip(height.source(line % height.output, th));
                    let Some((d, h)) = source else { continue };
                    let source = &plane[(d * height.input + h) * row.input..][..row.input];
                    for tw in 0..row.kernel {
                        let inside = row.inside(tw, 0..row.output);
                        let from = row.source(inside.start, tw).filter(|_| !inside.is_empty());
                        let Some(from) = from else { continue };
                        let values = &mut values[inside];
                        meet(kind, values, &source[from..], row.stride);
                    }
                }
            }
            for (out, &value) in out.iter_mut().zip(&values) {
                *out = T::narrow(match kind {
                    PoolKind::Max => value,
                    // Windows never reach past the padding, so the divisor is the whole window.
                    PoolKind::Avg => value.over(taps as i64),
                });
            }
        }
    });
}

#[inline(always)]
fn meet<T: Number>(kind: PoolKind, values: &mut [T::Wide], x: &[T], stride: usize) {
    let each = |f: fn(T::Wide, T::Wide) -> T::Wide, values: &mut [T::Wide]| {
        if stride == 1 {
            values.iter_mut().zip(x).for_each(|(v, x)| *v = f(*v, x.wide()));
        } else {
            values.iter_mut().zip(x.iter().step_by(stride)).for_each(|(v, x)| *v = f(*v, x.wide()));
        }
    };
    match kind {
        PoolKind::Max => each(T::Wide::greater, values),
        PoolKind::Avg => each(T::Wide::plus, values),
    }
}

/// Means of the windows `floor(i · in / out) .. ceil((i + 1) · in / out)` of the last two dimensions.
pub fn adaptive<T: Number>(input: [usize; 2], size: [usize; 2], x: &[T], out: &mut [T]) {
    let [h, w] = input;
    let window = |i: usize, input: usize, output: usize| {
        i * input / output..((i + 1) * input).div_ceil(output)
    };
    let cost = h.div_ceil(size[0].max(1)) * w;
    rows(out, size[1], cost, |first, out| {
        for (i, out) in out.chunks_exact_mut(size[1]).enumerate() {
            let (plane, line) = ((first + i) / size[0], (first + i) % size[0]);
            let lines = window(line, h, size[0]);
            for (j, out) in out.iter_mut().enumerate() {
                let columns = window(j, w, size[1]);
                let mut sum = T::Wide::ZERO;
                for l in lines.clone() {
                    for x in &x[(plane * h + l) * w..][columns.clone()] {
                        sum = sum.plus(x.wide());
                    }
                }
                *out = T::narrow(sum.over((lines.len() * columns.len()) as i64));
            }
        }
    });
}
