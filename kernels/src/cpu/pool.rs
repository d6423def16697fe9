//! Pooling of trailing spatial dimensions.

use super::conv::Axis;
use super::dense::rows;
use super::isa::{Loop, dispatch};
use super::number::{Number, Wide};
use crate::PoolKind;

/// Pools each plane of `x`; axes are the spatial dimensions, outermost first.
pub fn pool<T: Number>(kind: PoolKind, axes: [Axis; 3], x: &[T], out: &mut [T]) {
    let row = axes[2];
    let taps = axes.iter().map(|a| a.kernel).product::<usize>();
    rows(out, row.output, row.output * taps, |first, out| {
        dispatch(Windows {
            kind,
            axes,
            x,
            first,
            out,
        });
    });
}

struct Windows<'a, T> {
    kind: PoolKind,
    axes: [Axis; 3],
    x: &'a [T],
    first: usize,
    out: &'a mut [T],
}

impl<T: Number> Loop for Windows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Windows {
            kind,
            axes,
            x,
            first,
            out,
        } = self;
        let [depth, height, row] = axes;
        let lines = depth.output * height.output;
        let size = depth.input * height.input * row.input;
        let taps = depth.kernel * height.kernel * row.kernel;
        let start = match kind {
            PoolKind::Max => T::Wide::LOWEST,
            PoolKind::Avg => T::Wide::ZERO,
        };
        let mut values = vec![start; row.output];
        let columns: Vec<_> = (0..row.kernel)
            .filter_map(|tw| {
                let inside = row.inside(tw, 0..row.output);
                Some((row.source(inside.start, tw)?, inside)).filter(|c| !c.1.is_empty())
            })
            .collect();
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
                    for (from, inside) in &columns {
                        let values = &mut values[inside.clone()];
                        match kind {
                            PoolKind::Max => {
                                meet(T::Wide::greater, values, &source[*from..], row.stride);
                            }
                            PoolKind::Avg => {
                                meet(T::Wide::plus, values, &source[*from..], row.stride);
                            }
                        }
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
    }
}

/// Combines values with the elements of `x` that are `stride` apart.
#[inline(always)]
fn meet<T: Number>(
    f: impl Fn(T::Wide, T::Wide) -> T::Wide,
    values: &mut [T::Wide],
    x: &[T],
    stride: usize,
) {
    match stride {
        1 => values
            .iter_mut()
            .zip(x)
            .for_each(|(v, x)| *v = f(*v, x.wide())),
        // A constant distance is worth its own loop: it is vectorised by shuffles.
        2 => values
            .iter_mut()
            .zip(x.iter().step_by(2))
            .for_each(|(v, x)| *v = f(*v, x.wide())),
        _ => values
            .iter_mut()
            .zip(x.iter().step_by(stride))
            .for_each(|(v, x)| *v = f(*v, x.wide())),
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
