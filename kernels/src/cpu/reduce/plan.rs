//! In which order a reduction reads its input.

use crate::Array;
use smallvec::SmallVec;

/// A dimension: its size, and its strides in the input and the result, in elements.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    pub size: usize,
    pub input: isize,
    pub output: isize,
}

pub type Axes = SmallVec<[Axis; 4]>;

const ONE: Axis = Axis {
    size: 1,
    input: 0,
    output: 0,
};

/// The kept and the reduced dimensions, each with at least one, outermost first.
#[derive(Debug)]
pub struct Plan {
    pub kept: Axes,
    pub reduced: Axes,
    /// Offset of the first element read, relative to the input's own.
    pub start: isize,
}

impl Plan {
    /// The plan for `x` reduced over `mask`. Dimensions are read in the order of memory, except that reduced ones keep
    /// theirs where positions are wanted.
    pub fn new(x: &Array, mask: u64, positional: bool) -> Plan {
        let (mut kept, mut reduced) = (Axes::new(), Axes::new());
        let mut start = 0;
        let mut output = 1;
        for (d, (&size, &stride)) in x.shape().iter().zip(x.layout.strides()).enumerate().rev() {
            let reduce = mask >> d & 1 == 1;
            if reduce && size != 1 {
                let mut axis = Axis {
                    size,
                    input: stride,
                    output: 0,
                };
                if !positional && stride < 0 {
                    start += stride * (size as isize - 1);
                    axis.input = -stride;
                }
                reduced.insert(0, axis);
            } else if !reduce {
                if size != 1 {
                    kept.insert(
                        0,
                        Axis {
                            size,
                            input: stride,
                            output,
                        },
                    );
                }
                output *= size as isize;
            }
        }
        // Far strides outside; what does not move is read again from outside.
        let order = |a: &Axis| {
            std::cmp::Reverse(if a.input == 0 {
                usize::MAX
            } else {
                a.input.unsigned_abs()
            })
        };
        kept.sort_by_key(order);
        if !positional {
            reduced.sort_by_key(order);
        }
        Plan {
            kept: merge(kept),
            reduced: merge(reduced),
            start,
        }
    }

    /// Whether rows are folded, rather than columns joined: memory runs along a reduced dimension long enough, or
    /// nothing else is there to run along.
    pub fn along_rows(&self) -> bool {
        let (kept, reduced) = (self.last(&self.kept), self.last(&self.reduced));
        if kept.size == 1 {
            return true;
        }
        let short = reduced.size < 32 && kept.size >= 16;
        let near = |a: Axis| {
            if a.input == 0 {
                usize::MAX
            } else {
                a.input.unsigned_abs()
            }
        };
        !short && reduced.size > 1 && near(reduced) <= near(kept)
    }

    /// The innermost of some dimensions.
    pub fn last(&self, axes: &Axes) -> Axis {
        axes.last().copied().unwrap_or(ONE)
    }
}

fn merge(axes: Axes) -> Axes {
    let mut merged = Axes::new();
    for axis in axes {
        match merged.last_mut() {
            Some(last)
                if last.input == axis.input * axis.size as isize
                    && last.output == axis.output * axis.size as isize =>
            {
                *last = Axis {
                    size: last.size * axis.size,
                    ..axis
                };
            }
            _ => merged.push(axis),
        }
    }
    if merged.is_empty() {
        merged.push(ONE);
    }
    merged
}

/// How many positions some dimensions have.
pub fn count(axes: &[Axis]) -> usize {
    axes.iter().map(|a| a.size).product()
}

/// The offsets, in the input and the result, of position `i` of some dimensions.
#[inline]
pub fn offset(axes: &[Axis], mut i: usize) -> (isize, isize) {
    let (mut input, mut output) = (0, 0);
    for (d, axis) in axes.iter().enumerate().rev() {
        let at = if d == 0 { i } else { i % axis.size } as isize;
        i /= axis.size;
        input += at * axis.input;
        output += at * axis.output;
    }
    (input, output)
}
