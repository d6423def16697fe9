//! Strided windows on a buffer.

use crate::Shape;
use smallvec::SmallVec;

/// Strides in elements; may be zero (broadcast) or negative (flipped).
pub type Strides = SmallVec<[isize; 4]>;

/// Where the elements of a tensor lie in its buffer: element `i` is at `offset + Σ i[d]·strides[d]`, in elements.
///
/// ```
/// use ferrotrace_runtime::{Layout, Shape};
/// let layout = Layout::contiguous(Shape::from([2, 3]));
/// assert_eq!(layout.strides(), [3, 1]);
/// assert!(layout.is_contiguous());
/// ```
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Shape,
    strides: Strides,
    offset: usize,
}

impl Clone for Layout {
    // `SmallVec::clone` goes element by element: these are copied as memory.
    #[inline]
    fn clone(&self) -> Layout {
        Layout {
            shape: self.shape.clone(),
            strides: Strides::from_slice(&self.strides),
            offset: self.offset,
        }
    }
}

impl Layout {
    /// Row-major from offset 0.
    #[inline]
    pub fn contiguous(shape: Shape) -> Layout {
        let strides = shape.strides();
        Layout {
            shape,
            strides,
            offset: 0,
        }
    }

    /// A window with these strides; `strides` and `shape` have equal rank.
    pub fn new(shape: Shape, strides: Strides, offset: usize) -> Layout {
        debug_assert_eq!(shape.rank(), strides.len());
        Layout {
            shape,
            strides,
            offset,
        }
    }

    /// The shape of the window.
    #[inline]
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Strides in elements, one a dimension.
    #[inline]
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// The position of the element at index 0, in elements.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The number of elements of the window.
    #[inline]
    pub fn numel(&self) -> usize {
        self.shape.numel()
    }

    /// Whether the window is row-major and dense; dimensions of size 1 are ignored (ir L3: dimensions of size 1 do not
    /// count), empty ones are contiguous.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1isize;
        for (&dim, &stride) in self.shape.iter().zip(&self.strides).rev() {
            if dim == 0 {
                return true;
            }
            if dim != 1 {
                if stride != step {
                    return self.shape.contains(&0);
                }
                step = step.wrapping_mul(dim as isize);
            }
        }
        true
    }

    /// Element positions touched, as a half-open range of buffer offsets; empty for no elements (ir L2: a layout knows
    /// what it spans).
    pub fn span(&self) -> std::ops::Range<usize> {
        if self.numel() == 0 {
            return 0..0;
        }
        let (mut low, mut high) = (self.offset as isize, self.offset as isize);
        for (&dim, &stride) in self.shape.iter().zip(&self.strides) {
            let reach = (dim as isize - 1) * stride;
            if reach < 0 {
                low += reach
            } else {
                high += reach
            }
        }
        low as usize..high as usize + 1
    }

    /// The window with its dimensions in another order: dimension `i` of the result is dimension `order[i]`.
    pub fn permute(&self, order: &[usize]) -> Layout {
        Layout {
            shape: order.iter().map(|&d| self.shape[d]).collect(),
            strides: order.iter().map(|&d| self.strides[d]).collect(),
            offset: self.offset,
        }
    }

    /// The window broadcast to `shape` (right-aligned; new and stretched dimensions have stride 0).
    /// `None` if a size is neither equal nor 1.
    pub fn broadcast_to(&self, shape: &Shape) -> Option<Layout> {
        let lead = shape.rank().checked_sub(self.shape.rank())?;
        let mut strides = Strides::from_elem(0, shape.rank());
        for d in 0..self.shape.rank() {
            match (self.shape[d], shape[lead + d]) {
                (1, _) => {}
                (a, b) if a == b => strides[lead + d] = self.strides[d],
                _ => return None,
            }
        }
        Some(Layout {
            shape: shape.clone(),
            strides,
            offset: self.offset,
        })
    }

    /// The window under another shape of equal size if strides can express it, without a copy.
    pub fn reshape(&self, shape: &Shape) -> Option<Layout> {
        if shape.numel() != self.numel() {
            return None;
        }
        if self.numel() == 0 {
            return Some(Layout {
                shape: shape.clone(),
                strides: shape.strides(),
                offset: self.offset,
            });
        }
        // Merge the old dimensions into runs of uniform stride, then cut each run by the new sizes.
        let mut runs: SmallVec<[(usize, isize); 4]> = SmallVec::new();
        for (&dim, &stride) in self
            .shape
            .iter()
            .zip(&self.strides)
            .filter(|(d, _)| **d != 1)
        {
            match runs.last_mut() {
                Some((size, step)) if *step == stride * dim as isize => {
                    *size *= dim;
                    *step = stride;
                }
                _ => runs.push((dim, stride)),
            }
        }
        let mut strides = shape.strides();
        let mut run = runs.iter().rev();
        let (mut left, mut step) = (1usize, 1isize);
        for d in (0..shape.rank()).rev() {
            if shape[d] == 1 {
                continue;
            }
            if left == 1 {
                (left, step) = run.next().copied()?;
            }
            if left % shape[d] != 0 {
                return None;
            }
            strides[d] = step;
            step *= shape[d] as isize;
            left /= shape[d];
        }
        Some(Layout {
            shape: shape.clone(),
            strides,
            offset: self.offset,
        })
    }

    /// The buffer offset of each element, in row-major order of the window.
    pub fn offsets(&self) -> Offsets<'_> {
        Offsets {
            layout: self,
            index: SmallVec::from_elem(0, self.shape.rank()),
            next: self.offset as isize,
            left: self.numel(),
        }
    }
}

/// Iterator of [`Layout::offsets`].
#[derive(Debug)]
pub struct Offsets<'a> {
    layout: &'a Layout,
    index: SmallVec<[usize; 4]>,
    next: isize,
    left: usize,
}

impl Iterator for Offsets<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let at = self.next as usize;
        for d in (0..self.index.len()).rev() {
            let (dim, stride) = (self.layout.shape[d], self.layout.strides[d]);
            self.index[d] += 1;
            self.next += stride;
            if self.index[d] < dim {
                break;
            }
            self.next -= stride * dim as isize;
            self.index[d] = 0;
        }
        Some(at)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Offsets<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguity_ignores_unit_dims() {
        let l = Layout::new(Shape::from([2, 1, 3]), SmallVec::from_slice(&[3, 77, 1]), 0);
        assert!(l.is_contiguous());
        assert!(!l.permute(&[2, 1, 0]).is_contiguous());
    }

    #[test]
    fn reshape_keeps_or_refuses() {
        let t = Layout::contiguous(Shape::from([4, 6])).permute(&[1, 0]);
        assert!(t.reshape(&Shape::from([24])).is_none());
        let split = t
            .reshape(&Shape::from([2, 3, 4]))
            .expect("6 splits into 2x3");
        assert_eq!(split.strides(), [3, 1, 6]);
        assert_eq!(
            split.offsets().collect::<Vec<_>>(),
            t.offsets().collect::<Vec<_>>()
        );
        let one = Layout::contiguous(Shape::from([6])).reshape(&Shape::from([1, 6, 1]));
        assert_eq!(
            one.map(|l| l.offsets().collect::<Vec<_>>()),
            Some((0..6).collect())
        );
    }

    #[test]
    fn span_of_flipped_and_empty() {
        let l = Layout::new(Shape::from([3]), SmallVec::from_slice(&[-2]), 4);
        assert_eq!(l.span(), 0..5);
        assert_eq!(Layout::contiguous(Shape::from([0, 3])).span(), 0..0);
    }

    #[test]
    fn sizes_and_strides_past_2_to_the_32() {
        let l = Layout::contiguous(Shape::from([3, (1 << 31) + 1, 2]));
        let row = 2 * ((1isize << 31) + 1);
        assert_eq!(l.strides(), [row, 2, 1]);
        assert_eq!(
            (l.numel(), l.span()),
            (3 * row as usize, 0..3 * row as usize)
        );
        let flat = l.reshape(&Shape::from([3 * row as usize])).expect("dense");
        assert!(flat.is_contiguous());
        let turned = l.permute(&[2, 0, 1]);
        assert_eq!(turned.strides(), [1, row, 2]);
        assert!(turned.reshape(&Shape::from([3 * row as usize])).is_none());
        let split = flat
            .reshape(&Shape::from([6, (1 << 31) + 1]))
            .expect("dense");
        assert_eq!(split.strides(), [(1 << 31) + 1, 1]);
        let last = Layout::new(
            Shape::from([2]),
            SmallVec::from_slice(&[-(row - 1)]),
            3 * row as usize - 1,
        );
        let offsets: Vec<usize> = last.offsets().collect();
        assert_eq!(offsets, [3 * row as usize - 1, 2 * row as usize]);
        assert_eq!(last.span(), 2 * row as usize..3 * row as usize);
    }
}
