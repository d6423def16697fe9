//! Pooling of trailing spatial dimensions.

use crate::PoolKind;
use crate::cpu::conv::Axis;
use crate::cpu::dense::rows;
use crate::cpu::isa::{Loop, dispatch};
use crate::cpu::long::join;
use crate::cpu::number::{Number, Wide};

/// Pools each plane of `x`; axes are the spatial dimensions, outermost first.
pub fn pool<T: Number>(kind: PoolKind, axes: [Axis; 3], x: &[T], out: &mut [T]) {
    let row = axes[2];
    let taps = axes.iter().map(|a| a.kernel).product::<usize>();
    let cost = row.output * taps;
    rows(out, row.output, cost, |first, out| {
        dispatch(Windows {
            kind,
            axes,
            x,
            first,
            out,
        });
    });
}

/// Taps of a large window that are summed before they join its total.
const TAPS: usize = 32;

/// Windows, large ones of means with totals: what was summed of some taps joins them.
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
        let large = kind == PoolKind::Avg && taps > 2 * TAPS;
        let start = match kind {
            PoolKind::Max => T::Wide::LOWEST,
            PoolKind::Avg => T::Wide::ZERO,
        };
        let mut all = vec![start; row.output];
        let mut totals =
            vec![<T::Wide as Wide>::Total::default(); if large { row.output } else { 0 }];
        let columns: Vec<_> = (0..row.kernel)
            .filter_map(|tw| {
                let inside = row.inside(tw, 0..row.output);
                Some((row.source(inside.start, tw)?, inside)).filter(|c| !c.1.is_empty())
            })
            .collect();
        for (i, out) in out.chunks_exact_mut(row.output).enumerate() {
            let (plane, line) = ((first + i) / lines, (first + i) % lines);
            let plane = &x[plane * size..][..size];
            all.fill(start);
            totals.fill(Default::default());
            let mut taken = 0;
            for td in 0..depth.kernel {
                for th in 0..height.kernel {
                    let source = depth
                        .source(line / height.output, td)
                        .zip(height.source(line % height.output, th));
                    let Some((d, h)) = source else { continue };
                    let source = &plane[(d * height.input + h) * row.input..][..row.input];
                    for (from, inside) in &columns {
                        let values = &mut all[inside.clone()];
                        match kind {
                            PoolKind::Max => {
                                meet(T::Wide::greater, values, &source[*from..], row.stride);
                            }
                            PoolKind::Avg => {
                                meet(T::Wide::plus, values, &source[*from..], row.stride);
                            }
                        }
                        taken += 1;
                        if large && taken == TAPS {
                            taken = 0;
                            join(&mut all, &mut totals);
                        }
                    }
                }
            }
            if large {
                join(&mut all, &mut totals);
                for (value, &total) in all.iter_mut().zip(&totals) {
                    *value = T::Wide::of_total(total);
                }
            }
            for (out, &value) in out.iter_mut().zip(&all) {
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

/// Elements that are summed in the type of arithmetic, lane by lane, before they join the total.
const RUN: usize = 256;
/// Lanes of a run.
const LANES: usize = 16;

/// The sum of some elements.
#[inline]
fn total<T: Number>(x: &[T]) -> <T::Wide as Wide>::Total {
    let mut total = <T::Wide as Wide>::Total::default();
    for run in x.chunks(RUN) {
        let (blocks, rest) = run.as_chunks::<LANES>();
        let mut lanes = [T::Wide::ZERO; LANES];
        for block in blocks {
            for (lane, x) in lanes.iter_mut().zip(block) {
                *lane = lane.plus(x.wide());
            }
        }
        for (lane, x) in lanes.iter_mut().zip(rest) {
            *lane = lane.plus(x.wide());
        }
        for lane in &lanes[..run.len().min(LANES)] {
            total = T::Wide::both(total, lane.total());
        }
    }
    total
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
                let mut sum = <T::Wide as Wide>::Total::default();
                for l in lines.clone() {
                    let line = &x[(plane * h + l) * w..][columns.clone()];
                    sum = T::Wide::both(sum, total(line));
                }
                *out = T::narrow(T::Wide::of_total(sum).over((lines.len() * columns.len()) as i64));
            }
        }
    });
}
