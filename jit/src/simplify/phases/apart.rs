//! Each phase as a convolution of its own.

use super::super::Simplifier;
use super::super::shaping::{dims, permute, reshape, slice};
use super::{Sizes, convolve, zero};
use ferrotrace_kernels::op::{Cat, Flip, Full};
use ferrotrace_kernels::{ConvSpec, Op, OpBuilder, Operand, ValueId};
use ferrotrace_runtime::{Result, Shape};
use smallvec::SmallVec;

/// A transposed convolution along one dimension.
#[derive(Clone, Copy, Debug)]
struct Axis {
    /// Elements of the input.
    size: usize,
    /// Taps of the kernel.
    kernel: usize,
    /// Results of a phase.
    count: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
}

/// A phase along one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Phase {
    /// The taps, of the weight turned round: the first, their distance and their number.
    taps: (usize, usize, usize),
    /// Distance of the elements of the input that they meet.
    dilation: usize,
    /// Zeros before and after the input; fewer than none where elements meet no tap.
    pads: (isize, isize),
}

impl Phase {
    /// The phase of the results at `at`, `at + stride`, ..; `None` where no tap meets an element of the input.
    fn of(at: usize, axis: &Axis) -> Option<Phase> {
        let Axis {
            size,
            kernel,
            count,
            stride,
            padding,
            dilation,
        } = *axis;
        // The result at o is the sum over taps k of the input at (o + padding − k·dilation) / stride, where that divides.
        let remainder = (at + padding) % stride;
        let first = (0..kernel.min(stride)).find(|k| k * dilation % stride == remainder)?;
        let common = greatest_divisor(stride, dilation);
        let (step, dilation_of) = (stride / common, dilation / common);
        let number = (kernel - first).div_ceil(step);
        // The input that the last of the taps meets for the first result.
        let last = ((at + padding) / stride) as isize - (first * dilation / stride) as isize;
        let start = last - ((number - 1) * dilation_of) as isize;
        let end = last + count as isize;
        if start >= size as isize || end <= 0 {
            return None;
        }
        Some(Phase {
            taps: (kernel - 1 - (first + (number - 1) * step), step, number),
            dilation: dilation_of,
            pads: (-start, end - size as isize),
        })
    }
}

fn greatest_divisor(a: usize, b: usize) -> usize {
    if b == 0 {
        a
    } else {
        greatest_divisor(b, a % b)
    }
}

/// Each phase as a convolution, put beside each other.
pub(super) fn apart(
    spec: &ConvSpec,
    b: &mut Simplifier<'_>,
    (x, w): (ValueId, ValueId),
    of: &Sizes,
) -> Result<ValueId> {
    let (sizes, weights, spatial) = (dims(b, x), dims(b, w), spec.stride.len());
    let counts = of.output.iter().zip(&spec.stride);
    let counts: Vec<usize> = counts.map(|(n, s)| n.div_ceil(*s)).collect();
    let w = plain_weight(spec, b, w)?;
    let mut shape = vec![1, sizes[0], spec.groups * weights[1]];
    shape.extend_from_slice(&counts);
    let mut parts: Vec<Operand> = Vec::new();
    for number in 0..spec.stride.iter().product() {
        let phases: Option<SmallVec<[Phase; 3]>> = (0..spatial)
            .map(|i| {
                let inner: usize = spec.stride[i + 1..].iter().product();
                let at = number / inner % spec.stride[i];
                let axis = Axis {
                    size: of.input[i],
                    kernel: of.taps[i],
                    count: counts[i],
                    stride: spec.stride[i],
                    padding: spec.padding[i],
                    dilation: spec.dilation[i],
                };
                Phase::of(at, &axis)
            })
            .collect();
        let y = match phases {
            Some(phases) => {
                let y = phase(spec, b, (x, w), &phases)?;
                reshape(b, y, &shape)?
            }
            None => {
                let (shape, dtype) = (Shape::new(&shape), b.dtype(x));
                let zeros = Op::from(Full { shape, dtype });
                b.push(zeros, &[Operand::Const(zero(dtype))])?
            }
        };
        parts.push(y.into());
    }
    let y = match parts[..] {
        [Operand::Value(y)] => y,
        _ => b.push(Op::from(Cat { dim: 0 }), &parts)?,
    };
    interleave(spec, b, y, (&counts, &of.output))
}

/// The weight of a plain convolution, `[out, channels / groups, ..]`, with its taps turned round.
fn plain_weight(spec: &ConvSpec, b: &mut Simplifier<'_>, w: ValueId) -> Result<ValueId> {
    let (weights, spatial, groups) = (dims(b, w), spec.stride.len(), spec.groups);
    let mask = (0..spatial).fold(0, |mask, i| mask | 1u64 << (2 + i));
    let w = b.push(Op::from(Flip { mask }), &[w.into()])?;
    let each = weights[0] / groups;
    let mut split = vec![groups, each, weights[1]];
    split.extend_from_slice(&weights[2..]);
    let w = reshape(b, w, &split)?;
    let mut order = vec![0, 2, 1];
    order.extend(3..3 + spatial);
    let w = permute(b, w, &order)?;
    let mut joined = vec![groups * weights[1], each];
    joined.extend_from_slice(&weights[2..]);
    reshape(b, w, &joined)
}

/// The results of one phase.
fn phase(
    spec: &ConvSpec,
    b: &mut Simplifier<'_>,
    (x, mut w): (ValueId, ValueId),
    phases: &[Phase],
) -> Result<ValueId> {
    for (i, phase) in phases.iter().enumerate() {
        let (first, step, number) = phase.taps;
        w = slice(b, w, 2 + i, (first, first + (number - 1) * step + 1), step)?;
    }
    let pads: Vec<(isize, isize)> = phases.iter().map(|phase| phase.pads).collect();
    let dilation: Vec<usize> = phases.iter().map(|phase| phase.dilation).collect();
    convolve(b, (x, w), &pads, (spec.groups, &dilation))
}

/// From `[phases, n, channels, counts..]` to `[n, channels, results..]`.
fn interleave(
    spec: &ConvSpec,
    b: &mut Simplifier<'_>,
    y: ValueId,
    (counts, results): (&[usize], &[usize]),
) -> Result<ValueId> {
    let (sizes, spatial) = (dims(b, y), spec.stride.len());
    let mut split = spec.stride.to_vec();
    split.extend_from_slice(&sizes[1..]);
    let y = reshape(b, y, &split)?;
    let mut order = vec![spatial, spatial + 1];
    order.extend((0..spatial).flat_map(|i| [spatial + 2 + i, i]));
    let y = permute(b, y, &order)?;
    let mut joined = sizes[1..3].to_vec();
    joined.extend(counts.iter().zip(&spec.stride).map(|(n, s)| n * s));
    let mut y = reshape(b, y, &joined)?;
    for (i, &n) in results.iter().enumerate() {
        y = slice(b, y, 2 + i, (0, n), 1)?;
    }
    Ok(y)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every result of a transposed convolution along one dimension is the sum of its phase's taps.
    #[test]
    fn phases_meet_the_taps_that_the_definition_does() {
        let mut met = 0;
        for (stride, dilation) in [(1, 1), (2, 1), (3, 2), (2, 4), (5, 2), (6, 4)] {
            for (size, kernel, padding) in [(1, 4, 1), (3, 1, 0), (4, 3, 2), (5, 6, 7), (2, 2, 3)] {
                let full: usize = (size - 1) * stride + (kernel - 1) * dilation + 1;
                let results = full.saturating_sub(2 * padding);
                let wanted = |o: usize| -> Vec<(usize, usize)> {
                    let pairs = (0..size).flat_map(|i| (0..kernel).map(move |k| (i, k)));
                    let met = |&(i, k): &(usize, usize)| i * stride + k * dilation == o + padding;
                    pairs.filter(met).collect()
                };
                let count = results.div_ceil(stride);
                let axis = Axis {
                    size,
                    kernel,
                    count,
                    stride,
                    padding,
                    dilation,
                };
                for o in 0..results {
                    let phase = Phase::of(o % stride, &axis);
                    let mut got = Vec::new();
                    if let Some(Phase {
                        taps: (first, step, number),
                        dilation,
                        pads,
                    }) = phase
                    {
                        for m in 0..number {
                            let at = (o / stride + m * dilation) as isize - pads.0;
                            if (0..size as isize).contains(&at) {
                                got.push((at as usize, kernel - 1 - (first + m * step)));
                            }
                        }
                        assert_eq!(
                            size as isize + pads.0 + pads.1,
                            (count + (number - 1) * dilation) as isize
                        );
                    }
                    got.sort_unstable();
                    met += got.len();
                    assert_eq!(
                        got,
                        wanted(o),
                        "{stride} {dilation} {size} {kernel} {padding} {o}"
                    );
                }
            }
        }
        assert!(met > 100, "{met}");
    }
}
