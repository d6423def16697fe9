//! The gradients of pooling: what each window gives its elements, window by window.

use crate::cpu::conv::Axis;
use crate::cpu::dense::rows;
use crate::cpu::isa::{Loop, dispatch};
use crate::cpu::number::Wide;
use std::hint::select_unpredictable;
use std::iter;
use std::ops::Range;

/// Windows that cover an element, above which what they give it is summed in binary64.
const COVERING: usize = 32;

/// The windows of a pooling: of each spatial dimension, outermost first, the elements of each window that the input has.
#[derive(Debug)]
pub struct Windows {
    input: [usize; 3],
    inside: [Vec<Range<usize>>; 3],
}

impl Windows {
    /// Windows of one size.
    pub fn of(axes: [Axis; 3]) -> Windows {
        let inside = axes.map(|axis| {
            let window = |o: usize| {
                let start = o * axis.stride;
                let clip = |at: usize| at.saturating_sub(axis.padding).min(axis.input);
                clip(start)..clip(start + axis.kernel)
            };
            (0..axis.output).map(window).collect()
        });
        Windows {
            input: axes.map(|axis| axis.input),
            inside,
        }
    }

    /// The adaptive windows `⌊i · in / out⌋ .. ⌈(i + 1) · in / out⌉` of two dimensions.
    pub fn adaptive(input: [usize; 2], output: [usize; 2]) -> Windows {
        let windows = |d: usize| {
            let (n, m) = (input[d], output[d]);
            (0..m)
                .map(|i| i * n / m..((i + 1) * n).div_ceil(m))
                .collect()
        };
        Windows {
            input: [1, input[0], input[1]],
            inside: [iter::once(0..1).collect(), windows(0), windows(1)],
        }
    }

    fn outputs(&self) -> usize {
        self.inside.iter().map(Vec::len).product()
    }

    /// Windows that cover an element, on average.
    fn covering(&self) -> usize {
        let covering = |d: usize| {
            let elements: usize = self.inside[d].iter().map(ExactSizeIterator::len).sum();
            elements.div_ceil(self.input[d].max(1))
        };
        (0..3).map(covering).product()
    }

    /// Elementary operations of a plane.
    fn cost(&self) -> usize {
        let plane: usize = self.input.iter().product();
        plane * (1 + self.covering()) + self.outputs()
    }

    /// Calls `f` with each window's number and elements of the plane, line by line: the place of the first line, and the
    /// columns.
    #[inline(always)]
    fn each(&self, mut f: impl FnMut(usize, [&Range<usize>; 3])) {
        let [depth, height, width] = &self.inside;
        let mut at = 0;
        for d in depth {
            for h in height {
                for w in width {
                    f(at, [d, h, w]);
                    at += 1;
                }
            }
        }
    }
}

/// Means: each window gives each element its part, g divided by `taps`, or by how many elements it has.
pub fn parts<T: Wide<Total = f64>>(windows: &Windows, taps: Option<usize>, g: &[T], dx: &mut [T]) {
    let plane = windows.input.iter().product();
    rows(dx, plane, windows.cost(), |first, dx| {
        dispatch(Parts {
            windows,
            taps,
            g: &g[first * windows.outputs()..],
            dx,
        });
    });
}

struct Parts<'a, T> {
    windows: &'a Windows,
    taps: Option<usize>,
    g: &'a [T],
    dx: &'a mut [T],
}

impl<T: Wide<Total = f64>> Loop for Parts<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Parts {
            windows,
            taps,
            g,
            dx,
        } = self;
        let plane = windows.input.iter().product();
        let many = windows.covering() > COVERING;
        let mut totals = vec![0.0; if many { plane } else { 0 }];
        for (dx, g) in dx
            .chunks_exact_mut(plane)
            .zip(g.chunks_exact(windows.outputs()))
        {
            if many {
                totals.fill(0.0);
                spread(windows, taps, g, |at, part| {
                    totals[at].iter_mut().for_each(|x| *x += part.to_f64());
                });
                for (x, &total) in dx.iter_mut().zip(&totals) {
                    *x = T::of_total(total);
                }
            } else {
                dx.fill(T::ZERO);
                spread(windows, taps, g, |at, part| {
                    dx[at].iter_mut().for_each(|x| *x = x.plus(part));
                });
            }
        }
    }
}

/// Calls `add` with the elements of each line of each window, and the part that they are given.
#[inline(always)]
fn spread<T: Wide>(
    windows: &Windows,
    taps: Option<usize>,
    g: &[T],
    mut add: impl FnMut(Range<usize>, T),
) {
    let [_, height, width] = windows.input;
    windows.each(|i, [depths, lines, columns]| {
        let elements = || depths.len() * lines.len() * columns.len();
        let part = g[i].over(taps.unwrap_or_else(elements) as i64);
        for d in depths.clone() {
            for h in lines.clone() {
                let line = (d * height + h) * width;
                add(line + columns.start..line + columns.end, part);
            }
        }
    });
}

/// Maxima: each window gives g to its first greatest element; NaN is greater than any number.
pub fn shares<T: Wide>(windows: &Windows, g: &[T], x: &[T], dx: &mut [T]) {
    let plane: usize = windows.input.iter().product();
    rows(dx, plane, windows.cost(), |first, dx| {
        dispatch(Shares {
            windows,
            g: &g[first * windows.outputs()..],
            x: &x[first * plane..],
            dx,
        });
    });
}

struct Shares<'a, T> {
    windows: &'a Windows,
    g: &'a [T],
    x: &'a [T],
    dx: &'a mut [T],
}

impl<T: Wide> Loop for Shares<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let windows = self.windows;
        let [depth, height, width] = windows.input;
        let plane = depth * height * width;
        let planes = self.dx.chunks_exact_mut(plane);
        let operands = self
            .g
            .chunks_exact(windows.outputs())
            .zip(self.x.chunks_exact(plane));
        for (dx, (g, x)) in planes.zip(operands) {
            dx.fill(T::ZERO);
            windows.each(|i, [depths, lines, columns]| {
                let first = (depths.start * height + lines.start) * width + columns.start;
                let (mut at, mut greatest) = (first, x[first]);
                for d in depths.clone() {
                    for h in lines.clone() {
                        let line = (d * height + h) * width;
                        let line = line + columns.start..line + columns.end;
                        for (place, &value) in line.clone().zip(&x[line]) {
                            // Greater, or the first NaN.
                            let more = (value > greatest) | (value.is_nan() & !greatest.is_nan());
                            at = select_unpredictable(more, place, at);
                            greatest = select_unpredictable(more, value, greatest);
                        }
                    }
                }
                dx[at] = dx[at].plus(g[i]);
            });
        }
    }
}
