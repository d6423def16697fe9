//! Options of windows that slide over spatial dimensions.

use ferrotrace_runtime::{Error, Result};
use smallvec::SmallVec;

/// One number for each spatial dimension; a single number stands for all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sizes(SmallVec<[usize; 3]>);

impl Sizes {
    /// The numbers of `n` dimensions.
    ///
    /// # Errors
    /// There are others than one or `n`.
    pub(crate) fn of(&self, n: usize, what: &str) -> Result<SmallVec<[usize; 3]>> {
        match self.0.len() {
            len if len == n => Ok(self.0.clone()),
            1 => Ok(SmallVec::from_elem(self.0[0], n)),
            _ => Err(Error::argument(format!(
                "{what} {:?} for {n} spatial dimensions",
                self.0
            ))),
        }
    }

    /// How many numbers are given.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

impl From<usize> for Sizes {
    fn from(size: usize) -> Sizes {
        Sizes(SmallVec::from_slice(&[size]))
    }
}

impl From<&[usize]> for Sizes {
    fn from(sizes: &[usize]) -> Sizes {
        Sizes(SmallVec::from_slice(sizes))
    }
}

impl<const N: usize> From<[usize; N]> for Sizes {
    fn from(sizes: [usize; N]) -> Sizes {
        Sizes(SmallVec::from_slice(&sizes))
    }
}

impl From<(usize, usize)> for Sizes {
    fn from((a, b): (usize, usize)) -> Sizes {
        Sizes::from([a, b])
    }
}

impl From<(usize, usize, usize)> for Sizes {
    fn from((a, b, c): (usize, usize, usize)) -> Sizes {
        Sizes::from([a, b, c])
    }
}

/// How far a convolution's window leaves its input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Padding {
    /// So many zeros on both sides of each dimension.
    By(Sizes),
    /// As many zeros as give the result the input's sizes, at a stride of 1; where the number of zeros is odd, the last
    /// stands at the end. Converts from `"same"`.
    Same,
    /// No padding. Converts from `"valid"`.
    Valid,
    /// A word that means nothing: an error where it is used.
    Unknown(String),
}

impl<T: Into<Sizes>> From<T> for Padding {
    fn from(sizes: T) -> Padding {
        Padding::By(sizes.into())
    }
}

impl From<&str> for Padding {
    fn from(word: &str) -> Padding {
        match word {
            "same" => Padding::Same,
            "valid" => Padding::Valid,
            word => Padding::Unknown(word.to_owned()),
        }
    }
}

/// Options of a convolution. Without any: stride 1, no padding, dilation 1, one group.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// let x = Tensor::ones([1, 2, 8, 8], DType::F32, &Device::cpu());
/// let w = Tensor::ones([4, 2, 3, 3], DType::F32, &Device::cpu());
/// assert_eq!(x.conv2d_with(&w, None, Conv::new().stride(2).padding(1)).dims(), [1, 4, 4, 4]);
/// assert_eq!(x.conv2d_with(&w, None, Conv::new().padding("same")).dims(), [1, 4, 8, 8]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conv {
    pub(crate) stride: Sizes,
    pub(crate) padding: Padding,
    pub(crate) dilation: Sizes,
    pub(crate) output_padding: Sizes,
    /// Groups of channels that do not meet.
    pub groups: usize,
}

impl Default for Conv {
    fn default() -> Conv {
        Conv {
            stride: Sizes::from(1),
            padding: Padding::Valid,
            dilation: Sizes::from(1),
            output_padding: Sizes::from(0),
            groups: 1,
        }
    }
}

impl Conv {
    /// The options that say nothing.
    pub fn new() -> Conv {
        Conv::default()
    }

    /// The step of the window; of a transposed convolution, the distance of the input's elements.
    pub fn stride(mut self, stride: impl Into<Sizes>) -> Conv {
        self.stride = stride.into();
        self
    }

    /// Zeros on both sides, or `"same"` or `"valid"`; of a transposed convolution, what is taken off both sides.
    pub fn padding(mut self, padding: impl Into<Padding>) -> Conv {
        self.padding = padding.into();
        self
    }

    /// The distance of the weight's taps.
    pub fn dilation(mut self, dilation: impl Into<Sizes>) -> Conv {
        self.dilation = dilation.into();
        self
    }

    /// What a transposed convolution adds at the end; a convolution takes 0 alone.
    pub fn output_padding(mut self, size: impl Into<Sizes>) -> Conv {
        self.output_padding = size.into();
        self
    }

    /// Groups of channels that do not meet.
    pub fn groups(mut self, groups: usize) -> Conv {
        self.groups = groups;
        self
    }
}

/// Options of a pooling. Without any but the window: the stride is the window, no padding, dilation 1, windows that
/// leave the input at its end are left out, and padding counts in means.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// let x = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0, 5.0], [1, 1, 5], &Device::cpu());
/// let pool = Pool::new(2).ceil_mode(true);
/// assert_eq!(x.max_pool1d_with(&pool).to_vec::<f64>()?, [2.0, 4.0, 5.0]);
/// assert_eq!(x.avg_pool1d_with(&pool).to_vec::<f64>()?, [1.5, 3.5, 5.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    pub(crate) kernel: Sizes,
    pub(crate) stride: Option<Sizes>,
    pub(crate) padding: Sizes,
    pub(crate) dilation: Sizes,
    pub(crate) ceil_mode: bool,
    pub(crate) count_include_pad: bool,
}

impl Pool {
    /// Windows of this size, side by side.
    pub fn new(kernel: impl Into<Sizes>) -> Pool {
        Pool {
            kernel: kernel.into(),
            stride: None,
            padding: Sizes::from(0),
            dilation: Sizes::from(1),
            ceil_mode: false,
            count_include_pad: true,
        }
    }

    /// The distance from a window to the next.
    pub fn stride(mut self, stride: impl Into<Sizes>) -> Pool {
        self.stride = Some(stride.into());
        self
    }

    /// Places added on both sides, at most half the window.
    pub fn padding(mut self, padding: impl Into<Sizes>) -> Pool {
        self.padding = padding.into();
        self
    }

    /// The distance of a window's elements; means take 1 alone.
    pub fn dilation(mut self, dilation: impl Into<Sizes>) -> Pool {
        self.dilation = dilation.into();
        self
    }

    /// Whether a last window that begins in the input or in the padding before it may leave both at the end.
    pub fn ceil_mode(mut self, ceil_mode: bool) -> Pool {
        self.ceil_mode = ceil_mode;
        self
    }

    /// Whether means count padding.
    pub fn count_include_pad(mut self, count: bool) -> Pool {
        self.count_include_pad = count;
        self
    }
}

impl From<&Pool> for Pool {
    fn from(pool: &Pool) -> Pool {
        pool.clone()
    }
}

impl<T: Into<Sizes>> From<T> for Pool {
    fn from(kernel: T) -> Pool {
        Pool::new(kernel)
    }
}
