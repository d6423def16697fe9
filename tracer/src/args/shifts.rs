//! Distances that dimensions are moved by.

use smallvec::SmallVec;

/// By how much dimensions are moved: a number, or a tuple, array, slice or vector of them, one for each dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shifts(SmallVec<[isize; 4]>);

impl Shifts {
    /// The numbers.
    pub fn numbers(&self) -> &[isize] {
        &self.0
    }
}

macro_rules! shifts_from {
    ($($t:ty),*) => {$(
        impl From<$t> for Shifts {
            fn from(shift: $t) -> Shifts {
                Shifts::from(&[shift][..])
            }
        }

        impl From<&[$t]> for Shifts {
            fn from(shifts: &[$t]) -> Shifts {
                Shifts(shifts.iter().map(|&shift| shift as isize).collect())
            }
        }

        impl<const N: usize> From<[$t; N]> for Shifts {
            fn from(shifts: [$t; N]) -> Shifts {
                Shifts::from(&shifts[..])
            }
        }

        impl<const N: usize> From<&[$t; N]> for Shifts {
            fn from(shifts: &[$t; N]) -> Shifts {
                Shifts::from(&shifts[..])
            }
        }

        impl From<Vec<$t>> for Shifts {
            fn from(shifts: Vec<$t>) -> Shifts {
                Shifts::from(&shifts[..])
            }
        }

        impl From<($t, $t)> for Shifts {
            fn from((a, b): ($t, $t)) -> Shifts {
                Shifts::from([a, b])
            }
        }

        impl From<($t, $t, $t)> for Shifts {
            fn from((a, b, c): ($t, $t, $t)) -> Shifts {
                Shifts::from([a, b, c])
            }
        }
    )*};
}

shifts_from!(isize, i32, i64);
