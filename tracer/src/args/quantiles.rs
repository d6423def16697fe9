//! Quantiles that are asked for.

use ferrotrace_runtime::{Error, FloatEnvironment, Result};
use smallvec::SmallVec;

/// Which quantiles are asked for: a number, or an array, slice or vector of them, which gives the result a dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantiles {
    numbers: SmallVec<[f64; 4]>,
    is_one: bool,
}

impl Quantiles {
    /// The numbers.
    ///
    /// # Errors
    /// One is outside [0, 1].
    pub fn numbers(&self) -> Result<&[f64]> {
        match self.numbers.iter().find(|q| !(0.0..=1.0).contains(*q)) {
            None => Ok(&self.numbers),
            Some(q) => Err(Error::argument(format!(
                "the quantile {q}: it must lie in [0, 1]"
            ))),
        }
    }

    /// Percentages as quantiles.
    ///
    /// # Errors
    /// One is outside [0, 100].
    pub(crate) fn of_a_hundred(&self) -> Result<Quantiles> {
        if let Some(q) = self.numbers.iter().find(|q| !(0.0..=100.0).contains(*q)) {
            let why = format!("the percentile {q}: it must lie in [0, 100]");
            return Err(Error::argument(why));
        }
        let _environment = FloatEnvironment::standard();
        Ok(Quantiles {
            numbers: self.numbers.iter().map(|q| q / 100.0).collect(),
            is_one: self.is_one,
        })
    }

    /// Whether a number was given, not a list.
    pub fn is_one(&self) -> bool {
        self.is_one
    }
}

macro_rules! quantiles_from {
    ($($t:ty),*) => {$(
        impl From<$t> for Quantiles {
            fn from(q: $t) -> Quantiles {
                Quantiles {
                    numbers: SmallVec::from_slice(&[f64::from(q)]),
                    is_one: true,
                }
            }
        }

        impl From<&[$t]> for Quantiles {
            fn from(numbers: &[$t]) -> Quantiles {
                Quantiles {
                    numbers: numbers.iter().map(|&q| f64::from(q)).collect(),
                    is_one: false,
                }
            }
        }

        impl<const N: usize> From<[$t; N]> for Quantiles {
            fn from(numbers: [$t; N]) -> Quantiles {
                Quantiles::from(&numbers[..])
            }
        }

        impl<const N: usize> From<&[$t; N]> for Quantiles {
            fn from(numbers: &[$t; N]) -> Quantiles {
                Quantiles::from(&numbers[..])
            }
        }

        impl From<Vec<$t>> for Quantiles {
            fn from(numbers: Vec<$t>) -> Quantiles {
                Quantiles::from(&numbers[..])
            }
        }
    )*};
}

quantiles_from!(f64, f32);
