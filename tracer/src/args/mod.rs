//! Conversions of what a caller writes (one dimension or several, sizes, windows, numbers) into what operators take.

mod list;
mod quantiles;
mod shifts;
mod sizes;
mod slices;

pub use list::TensorLike;
pub(crate) use list::borrowed;
pub use quantiles::Quantiles;
pub use shifts::Shifts;
pub use sizes::{Conv, Padding, Pool, Sizes};
pub(crate) use slices::forward;
pub use slices::{Slice, SliceBy, Slices};

use crate::{Input, Tensor};
use ferrotrace_kernels::ops::view::wrap_dim;
use ferrotrace_kernels::{ArgMeta, Extent};
use ferrotrace_runtime::{Error, Result, Scalar, Shape};
use half::{bf16, f16};
use smallvec::SmallVec;
use std::ops::RangeFull;

/// A dimension: negative numbers count from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim(isize);

impl Dim {
    /// The dimension counted from the front.
    ///
    /// # Errors
    /// A tensor of this rank has no such dimension.
    pub fn wrap(self, rank: usize) -> Result<usize> {
        wrap_dim(self.0, rank)
    }

    /// The dimension counted from the front, for work along it: a 0-d tensor counts as one of size 1, as in PyTorch.
    ///
    /// # Errors
    /// A tensor of this rank has no such dimension.
    pub fn wrap_along(self, rank: usize) -> Result<usize> {
        wrap_dim(self.0, rank.max(1))
    }

    /// The dimension counted from the front, for one that is about to be added to a tensor of this rank.
    ///
    /// # Errors
    /// It would not stand in the result.
    pub fn wrap_new(self, rank: usize) -> Result<usize> {
        wrap_dim(self.0, rank + 1)
    }
}

impl From<isize> for Dim {
    fn from(dim: isize) -> Dim {
        Dim(dim)
    }
}

impl From<i32> for Dim {
    fn from(dim: i32) -> Dim {
        Dim(dim as isize)
    }
}

impl From<usize> for Dim {
    fn from(dim: usize) -> Dim {
        Dim(isize::try_from(dim).unwrap_or(isize::MAX))
    }
}

/// Dimensions: one, a tuple, array or slice of them, or `..` for all. An empty list is none, but all of a reduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dims(Option<SmallVec<[Dim; 4]>>);

/// The most dimensions that a set of them can name.
const MAX_RANK: usize = 64;

impl Dims {
    /// Whether all dimensions are meant, whatever the rank: `..`.
    pub(crate) fn is_all(&self) -> bool {
        self.0.is_none()
    }

    /// The dimensions in the order given, counted from the front.
    ///
    /// # Errors
    /// One is not a dimension of a tensor of this rank, or is given twice.
    pub fn list(&self, rank: usize) -> Result<SmallVec<[usize; 4]>> {
        if rank > MAX_RANK {
            return Err(Error::argument(format!(
                "{rank} dimensions are more than {MAX_RANK}"
            )));
        }
        let Some(dims) = &self.0 else {
            return Ok((0..rank).collect());
        };
        let mut seen = 0u64;
        let mut list = SmallVec::new();
        for dim in dims {
            let at = dim.wrap(rank)?;
            if seen >> at & 1 == 1 {
                return Err(Error::argument(format!("dimension {at} is given twice")));
            }
            seen |= 1 << at;
            list.push(at);
        }
        Ok(list)
    }

    /// The dimensions of a reduction as a mask. An empty list means all dimensions, as in PyTorch.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn reduced(&self, rank: usize) -> Result<u64> {
        match self.0.as_deref() {
            Some([]) => Dims(None).mask(rank),
            _ => self.mask(rank),
        }
    }

    /// The dimensions as a set, one bit each. A 0-d tensor takes dimension 0 or −1 for none, as PyTorch does.
    ///
    /// # Errors
    /// As [`list`](Self::list).
    pub fn mask(&self, rank: usize) -> Result<u64> {
        if rank == 0 {
            return self.list(1).map(|_| 0);
        }
        if let Some([dim]) = self.0.as_deref()
            && rank <= MAX_RANK
        {
            return Ok(1 << dim.wrap(rank)?);
        }
        Ok(self
            .list(rank)?
            .iter()
            .fold(0, |mask, &dim| mask | 1 << dim))
    }
}

impl From<RangeFull> for Dims {
    fn from(_: RangeFull) -> Dims {
        Dims(None)
    }
}

impl From<Dim> for Dims {
    fn from(dim: Dim) -> Dims {
        Dims(Some(SmallVec::from_slice(&[dim])))
    }
}

macro_rules! dims_from {
    ($($t:ty),*) => {$(
        impl From<$t> for Dims {
            #[inline]
            fn from(dim: $t) -> Dims {
                let mut dims = SmallVec::new();
                dims.push(Dim::from(dim));
                Dims(Some(dims))
            }
        }

        impl<const N: usize> From<[$t; N]> for Dims {
            fn from(dims: [$t; N]) -> Dims {
                Dims::from(&dims[..])
            }
        }

        impl<const N: usize> From<&[$t; N]> for Dims {
            fn from(dims: &[$t; N]) -> Dims {
                Dims::from(&dims[..])
            }
        }

        impl From<Vec<$t>> for Dims {
            fn from(dims: Vec<$t>) -> Dims {
                Dims::from(&dims[..])
            }
        }

        impl From<&[$t]> for Dims {
            fn from(dims: &[$t]) -> Dims {
                Dims(Some(dims.iter().map(|&dim| Dim::from(dim)).collect()))
            }
        }
    )*};
}

dims_from!(isize, i32, usize);

macro_rules! from_tuples {
    ($(($($name:ident $index:tt),+);)*) => {$(
        impl<$($name: Into<Dim>),+> From<($($name,)+)> for Dims {
            fn from(dims: ($($name,)+)) -> Dims {
                Dims(Some(SmallVec::from_slice(&[$(dims.$index.into()),+])))
            }
        }

        impl<$($name: Size),+> From<($($name,)+)> for Extents {
            fn from(sizes: ($($name,)+)) -> Extents {
                Extents(SmallVec::from_slice(&[$(sizes.$index.signed()),+]))
            }
        }
    )*};
}

from_tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
}

impl From<()> for Dims {
    fn from(_: ()) -> Dims {
        Dims(Some(SmallVec::new()))
    }
}

/// Target sizes of `reshape`, `expand` and `broadcast_to`, where −1 stands for a size that is inferred (or kept).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extents(SmallVec<[i64; 4]>);

impl Extents {
    /// The sizes.
    ///
    /// # Errors
    /// One is negative and not −1.
    pub fn resolve(&self) -> Result<SmallVec<[Extent; 4]>> {
        let extent = |&size: &i64| match size {
            -1 => Ok(Extent::Auto),
            size => usize::try_from(size)
                .map(Extent::Size)
                .map_err(|_| Error::argument(format!("{size} is no size"))),
        };
        self.0.iter().map(extent).collect()
    }
}

/// A size as a signed number; those too great for any memory saturate.
trait Size: Copy {
    fn signed(self) -> i64;
}

macro_rules! extents_from {
    ($($t:ty),*) => {$(
        impl Size for $t {
            fn signed(self) -> i64 {
                i64::try_from(self).unwrap_or(i64::MAX)
            }
        }

        impl From<$t> for Extents {
            fn from(size: $t) -> Extents {
                Extents(SmallVec::from_slice(&[size.signed()]))
            }
        }

        impl<const N: usize> From<[$t; N]> for Extents {
            fn from(sizes: [$t; N]) -> Extents {
                Extents::from(&sizes[..])
            }
        }

        impl<const N: usize> From<&[$t; N]> for Extents {
            fn from(sizes: &[$t; N]) -> Extents {
                Extents::from(&sizes[..])
            }
        }

        impl From<Vec<$t>> for Extents {
            fn from(sizes: Vec<$t>) -> Extents {
                Extents::from(&sizes[..])
            }
        }

        impl From<&[$t]> for Extents {
            fn from(sizes: &[$t]) -> Extents {
                Extents(sizes.iter().map(|&size| size.signed()).collect())
            }
        }
    )*};
}

extents_from!(isize, i32, i64, usize);

impl From<()> for Extents {
    fn from(_: ()) -> Extents {
        Extents(SmallVec::new())
    }
}

impl From<Shape> for Extents {
    fn from(shape: Shape) -> Extents {
        Extents::from(shape.dims())
    }
}

impl From<&Shape> for Extents {
    fn from(shape: &Shape) -> Extents {
        Extents::from(shape.dims())
    }
}

/// One number for each of `N` spatial dimensions; a single number stands for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window<const N: usize>([usize; N]);

impl<const N: usize> Window<N> {
    /// The numbers.
    pub fn dims(self) -> [usize; N] {
        self.0
    }

    pub(crate) fn sizes(self) -> SmallVec<[usize; 3]> {
        SmallVec::from_slice(&self.0)
    }
}

impl<const N: usize> From<usize> for Window<N> {
    fn from(size: usize) -> Window<N> {
        Window([size; N])
    }
}

impl<const N: usize> From<[usize; N]> for Window<N> {
    fn from(sizes: [usize; N]) -> Window<N> {
        Window(sizes)
    }
}

impl<const N: usize> From<&[usize; N]> for Window<N> {
    fn from(sizes: &[usize; N]) -> Window<N> {
        Window(*sizes)
    }
}

/// The other side of an operation: a tensor or a number.
#[derive(Clone, Debug)]
pub enum Operand<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A tensor given by value.
    Owned(Tensor),
    /// A number, which takes part in promotion by its category alone.
    Scalar(Scalar),
}

impl Operand<'_> {
    /// What shape and dtype inference reads of the operand.
    pub(crate) fn meta(&self) -> ArgMeta<'_> {
        match self {
            Operand::Tensor(tensor) => ArgMeta::Tensor(tensor.sizes(), tensor.dtype()),
            Operand::Owned(tensor) => ArgMeta::Tensor(tensor.sizes(), tensor.dtype()),
            Operand::Scalar(number) => ArgMeta::Scalar(*number),
        }
    }

    pub(crate) fn input(&self) -> Input<'_> {
        match self {
            Operand::Tensor(tensor) => Input::Tensor(tensor),
            Operand::Owned(tensor) => Input::Tensor(tensor),
            Operand::Scalar(scalar) => Input::Scalar(*scalar),
        }
    }
}

impl<'a> From<&'a Tensor> for Operand<'a> {
    fn from(tensor: &'a Tensor) -> Operand<'a> {
        Operand::Tensor(tensor)
    }
}

impl<'a> From<&'a mut Tensor> for Operand<'a> {
    fn from(tensor: &'a mut Tensor) -> Operand<'a> {
        Operand::Tensor(tensor)
    }
}

impl From<Tensor> for Operand<'_> {
    fn from(tensor: Tensor) -> Self {
        Operand::Owned(tensor)
    }
}

macro_rules! operand_from {
    ($($t:ty),*) => {$(
        impl From<$t> for Operand<'_> {
            fn from(number: $t) -> Self {
                Operand::Scalar(Scalar::from(number))
            }
        }
    )*};
}

operand_from!(
    Scalar, bool, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, f16, bf16, f32, f64
);

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(dims: impl Into<Dims>, rank: usize) -> Result<u64> {
        dims.into().mask(rank)
    }

    #[test]
    fn dims_take_every_form() -> Result<()> {
        let list: &[usize] = &[0, 2];
        assert_eq!(mask(.., 3)?, 0b111);
        assert_eq!(mask(0, 3)?, 0b001);
        assert_eq!(mask(-1, 3)?, 0b100);
        assert_eq!(mask(1usize, 3)?, 0b010);
        assert_eq!(mask([0, -1], 3)?, 0b101);
        assert_eq!(mask(&[0isize, 1], 3)?, 0b011);
        assert_eq!(mask(list, 3)?, 0b101);
        assert_eq!((mask(.., 0)?, mask(-1, 0)?, mask(0, 0)?), (0, 0, 0));
        Ok(())
    }

    #[test]
    fn dims_out_of_range_or_twice_are_refused() {
        assert!(mask(3, 3).is_err() && mask(-4, 3).is_err() && mask(usize::MAX, 3).is_err());
        assert!(mask([1, -2], 3).is_err());
        assert!(mask(1, 0).is_err());
        assert!(mask(.., 65).is_err());
    }

    #[test]
    fn extents_take_every_form() -> Result<()> {
        let sizes: &[isize] = &[-1, 2];
        let expected = [Extent::Auto, Extent::Size(2)];
        let resolve = |e: Extents| e.resolve();
        assert_eq!(resolve(sizes.into())?.as_slice(), expected);
        assert_eq!(resolve([-1, 2].into())?.as_slice(), expected);
        assert_eq!(resolve(vec![-1i64, 2].into())?.as_slice(), expected);
        assert_eq!(resolve(().into())?.as_slice(), []);
        assert_eq!(
            resolve(Shape::from([2]).into())?.as_slice(),
            [Extent::Size(2)]
        );
        assert!(resolve([-2].into()).is_err());
        Ok(())
    }

    #[test]
    fn windows_repeat_one_number() {
        assert_eq!(Window::<3>::from(2), Window::from([2, 2, 2]));
    }
}
