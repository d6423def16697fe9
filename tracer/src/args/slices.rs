//! What of each dimension [`Tensor::at`](crate::Tensor::at) and [`Tensor::assign`](crate::Tensor::assign) take.

use ferrotrace_runtime::{Error, Result};
use smallvec::SmallVec;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// What of one dimension is taken, in Python's meaning. A number or a range converts into it: `3`, `-1`, `1..-1`, `..5`,
/// `2..`, `..`, and [`by`](SliceBy::by) gives a range a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice {
    /// One index, negative from the end; the dimension goes away.
    Index(isize),
    /// Every `step`-th index from `start` until before `end`, both clamped and negative from the end. Without them the
    /// whole dimension, in the direction of the step, which may be negative and must not be 0.
    Range {
        /// The first index; `None` for the dimension's first.
        start: Option<isize>,
        /// The first that is not taken.
        end: Option<isize>,
        /// The step from an index to the next.
        step: isize,
    },
    /// As many whole dimensions as the others leave (Python's `...`); once at most.
    Rest,
}

/// Steps of ranges: `(1..-1).by(2)`.
pub trait SliceBy {
    /// The range with a step; a negative one walks from the end to the front, as in Python.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::arange(0, 6, 1, DType::I64, &Device::cpu());
    /// assert_eq!(x.at((1..5).by(2)).to_vec::<i64>()?, [1, 3]);
    /// assert_eq!(x.at((..).by(-2)).to_vec::<i64>()?, [5, 3, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    fn by(self, step: isize) -> Slice;
}

impl<R: Into<Slice>> SliceBy for R {
    fn by(self, step: isize) -> Slice {
        match self.into() {
            Slice::Range { start, end, .. } => Slice::Range { start, end, step },
            other => other,
        }
    }
}

/// A slice of each dimension from the first on: one, a tuple, an array or a vector of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slices(SmallVec<[Slice; 4]>);

impl Slices {
    /// The slices of a tensor of this rank, with their dimensions; whole dimensions are left out.
    ///
    /// # Errors
    /// There are more than dimensions, or [`Slice::Rest`] twice, or a step is 0.
    pub(crate) fn of_rank(&self, rank: usize) -> Result<SmallVec<[(usize, Slice); 4]>> {
        let rests = self.0.iter().filter(|s| **s == Slice::Rest).count();
        let given = self.0.len() - rests;
        if rests > 1 || given > rank {
            let why = format!("{given} slices of a tensor of rank {rank}");
            let twice = "Slice::Rest stands for all other dimensions and comes once".to_owned();
            return Err(Error::argument(if rests > 1 { twice } else { why }));
        }
        let mut dim = 0;
        let mut slices = SmallVec::new();
        for &slice in &self.0 {
            match slice {
                Slice::Rest => {
                    dim += rank - given;
                    continue;
                }
                Slice::Range { step: 0, .. } => {
                    return Err(Error::argument("a slice's step must not be 0"));
                }
                Slice::Range {
                    start: None | Some(0),
                    end: None,
                    step: 1,
                } => {}
                slice => slices.push((dim, slice)),
            }
            dim += 1;
        }
        Ok(slices)
    }
}

/// Start, end and step of a slice that walks forward: of the dimension itself, or reversed, which the flag says.
pub(crate) fn forward(
    start: Option<isize>,
    end: Option<isize>,
    step: isize,
) -> (isize, isize, usize, bool) {
    let reversed = step < 0;
    // In a reversed dimension index i counts −i − 1 from the other end, whether it was negative or not.
    let seen = |i: isize| if reversed { -1 - i } else { i };
    (
        start.map_or(0, seen),
        end.map_or(isize::MAX, seen),
        step.unsigned_abs(),
        reversed,
    )
}

/// An index as a position; those beyond any memory saturate.
trait Position: Copy {
    fn position(self) -> isize;
}

fn range(start: Option<isize>, end: Option<isize>) -> Slice {
    Slice::Range {
        start,
        end,
        step: 1,
    }
}

/// The end of a range that includes its last index: nothing follows the last one of all.
fn after(last: isize) -> Option<isize> {
    last.checked_add(1).filter(|&end| end != 0)
}

macro_rules! slice_from {
    ($($t:ty),*) => {$(
        impl Position for $t {
            fn position(self) -> isize {
                // Beyond both ends of any dimension.
                isize::try_from(self).unwrap_or(if self > 0 as $t { isize::MAX } else { isize::MIN })
            }
        }
        slice_from!(@ $t, $t, |i| Slice::Index(i.position()));
        slice_from!(@ $t, Range<$t>, |r| range(Some(r.start.position()), Some(r.end.position())));
        slice_from!(@ $t, RangeFrom<$t>, |r| range(Some(r.start.position()), None));
        slice_from!(@ $t, RangeTo<$t>, |r| range(None, Some(r.end.position())));
        slice_from!(@ $t, RangeInclusive<$t>, |r| range(Some(r.start().position()), after(r.end().position())));
        slice_from!(@ $t, RangeToInclusive<$t>, |r| range(None, after(r.end.position())));
    )*};
    (@ $t:ty, $from:ty, |$r:ident| $slice:expr) => {
        impl From<$from> for Slice {
            fn from($r: $from) -> Slice {
                $slice
            }
        }

        impl From<$from> for Slices {
            fn from(slice: $from) -> Slices {
                Slices::from(Slice::from(slice))
            }
        }
    };
}

slice_from!(isize, i32, i64, usize);

impl From<RangeFull> for Slice {
    fn from(_: RangeFull) -> Slice {
        range(None, None)
    }
}

impl From<RangeFull> for Slices {
    fn from(all: RangeFull) -> Slices {
        Slices::from(Slice::from(all))
    }
}

impl From<Slice> for Slices {
    fn from(slice: Slice) -> Slices {
        Slices(SmallVec::from_slice(&[slice]))
    }
}

impl From<()> for Slices {
    fn from(_: ()) -> Slices {
        Slices(SmallVec::new())
    }
}

impl<T: Into<Slice>, const N: usize> From<[T; N]> for Slices {
    fn from(slices: [T; N]) -> Slices {
        Slices(slices.into_iter().map(Into::into).collect())
    }
}

impl From<&[Slice]> for Slices {
    fn from(slices: &[Slice]) -> Slices {
        Slices(SmallVec::from_slice(slices))
    }
}

impl From<Vec<Slice>> for Slices {
    fn from(slices: Vec<Slice>) -> Slices {
        Slices(SmallVec::from_vec(slices))
    }
}

macro_rules! slices_from_tuples {
    ($(($($name:ident $index:tt),+);)*) => {$(
        impl<$($name: Into<Slice>),+> From<($($name,)+)> for Slices {
            fn from(slices: ($($name,)+)) -> Slices {
                Slices(SmallVec::from_slice(&[$(slices.$index.into()),+]))
            }
        }
    )*};
}

slices_from_tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
}
