//! Tensor shapes: the sizes of the dimensions, outermost first.

use smallvec::SmallVec;
use std::fmt;
use std::ops::Deref;

/// The sizes of a tensor's dimensions, outermost first. `[]` is the shape of a 0-d tensor.
///
/// ```
/// use ferrotrace_runtime::Shape;
/// let shape = Shape::from([2, 3]);
/// assert_eq!((shape.rank(), shape.numel()), (2, 6));
/// ```
// Equality is written by hand, for speed, and agrees with the derived hash.
#[allow(clippy::derived_hash_with_manual_eq)]
#[derive(Eq, Hash, Default)]
pub struct Shape(SmallVec<[usize; 4]>);

impl Clone for Shape {
    /// The sizes are copied at once: `SmallVec::clone` goes through an iterator.
    #[inline]
    fn clone(&self) -> Shape {
        Shape(SmallVec::from_slice(&self.0))
    }
}

impl PartialEq for Shape {
    /// Compared size by size: shapes are too short for a call of `memcmp`.
    #[inline]
    fn eq(&self, other: &Shape) -> bool {
        let (a, b) = (self.0.as_slice(), other.0.as_slice());
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b)
    }
}

impl Shape {
    /// The shape of a 0-d tensor.
    #[inline]
    pub fn scalar() -> Shape {
        Shape::default()
    }

    /// A shape of these sizes.
    #[inline]
    pub fn new(dims: &[usize]) -> Shape {
        Shape(SmallVec::from_slice(dims))
    }

    /// The sizes, outermost first.
    #[inline]
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// The number of dimensions.
    #[inline]
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The number of elements: the product of the sizes, 1 for a 0-d shape. Saturates at `usize::MAX`.
    #[inline]
    pub fn numel(&self) -> usize {
        if self.0.contains(&0) {
            return 0;
        }
        self.0.iter().fold(1usize, |n, &d| n.saturating_mul(d))
    }

    /// Row-major strides in elements.
    #[inline]
    pub fn strides(&self) -> SmallVec<[isize; 4]> {
        let mut strides = SmallVec::from_elem(1isize, self.rank());
        let mut step = 1isize;
        for (stride, &dim) in strides.iter_mut().zip(&self.0).rev() {
            *stride = step;
            step = step.wrapping_mul(dim.max(1) as isize);
        }
        strides
    }

    /// The shape two operands broadcast to (right-aligned, sizes equal or 1), if there is one.
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        let rank = self.rank().max(other.rank());
        let mut dims = SmallVec::from_elem(1usize, rank);
        for (i, dim) in dims.iter_mut().enumerate() {
            let a = (i + self.rank()).checked_sub(rank).map_or(1, |k| self.0[k]);
            let b = (i + other.rank())
                .checked_sub(rank)
                .map_or(1, |k| other.0[k]);
            *dim = match (a, b) {
                _ if a == b => a,
                (1, n) | (n, 1) => n,
                _ => return None,
            };
        }
        Some(Shape(dims))
    }

    /// The shape with the dimensions of `mask` removed, or kept as 1.
    pub fn reduced(&self, mask: u64, keepdim: bool) -> Shape {
        let mut dims = SmallVec::new();
        for (i, &dim) in self.0.iter().enumerate() {
            match mask >> i & 1 == 1 {
                false => dims.push(dim),
                true if keepdim => dims.push(1),
                true => {}
            }
        }
        Shape(dims)
    }

    /// A mutable view of the sizes.
    pub fn dims_mut(&mut self) -> &mut SmallVec<[usize; 4]> {
        &mut self.0
    }
}

impl Deref for Shape {
    type Target = [usize];
    #[inline]
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0[..], f)
    }
}

impl From<()> for Shape {
    fn from(_: ()) -> Shape {
        Shape::scalar()
    }
}

impl From<usize> for Shape {
    fn from(n: usize) -> Shape {
        Shape::new(&[n])
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Shape {
        Shape::new(&dims)
    }
}

macro_rules! from_tuples {
    ($($n:literal $t:ty;)*) => {$(
        impl From<$t> for Shape {
            fn from(dims: $t) -> Shape {
                Shape::new(&<[usize; $n]>::from(dims))
            }
        }
    )*};
}

from_tuples! {
    1 (usize,);
    2 (usize, usize);
    3 (usize, usize, usize);
    4 (usize, usize, usize, usize);
    5 (usize, usize, usize, usize, usize);
    6 (usize, usize, usize, usize, usize, usize);
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Shape {
        Shape::new(dims)
    }
}

impl<const N: usize> From<&[usize; N]> for Shape {
    fn from(dims: &[usize; N]) -> Shape {
        Shape::new(dims)
    }
}

impl From<Vec<usize>> for Shape {
    fn from(dims: Vec<usize>) -> Shape {
        Shape(SmallVec::from_vec(dims))
    }
}

impl From<&Vec<usize>> for Shape {
    fn from(dims: &Vec<usize>) -> Shape {
        Shape::new(dims)
    }
}

impl From<&Shape> for Shape {
    fn from(shape: &Shape) -> Shape {
        shape.clone()
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(dims: I) -> Shape {
        Shape(dims.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting() {
        let a = Shape::from([3, 1, 4]);
        assert_eq!(
            a.broadcast(&Shape::from([5, 1])),
            Some(Shape::from([3, 5, 4]))
        );
        assert_eq!(a.broadcast(&Shape::scalar()), Some(a.clone()));
        assert_eq!(a.broadcast(&Shape::from([2, 2])), None);
        assert_eq!(
            Shape::from([1]).broadcast(&Shape::from([0])),
            Some(Shape::from([0]))
        );
    }

    #[test]
    fn strides_and_reduction() {
        let s = Shape::from([2, 3, 4]);
        assert_eq!(s.strides().as_slice(), [12, 4, 1]);
        assert_eq!(s.reduced(0b101, false), Shape::from([3]));
        assert_eq!(s.reduced(0b101, true), Shape::from([1, 3, 1]));
        assert_eq!(Shape::from([usize::MAX, 0]).numel(), 0);
    }
}
