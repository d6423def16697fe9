//! Views, padding and concatenation: shape rules, and the index map that each view is.

use super::{Inferred, tensor};
use crate::{ArgMeta, Extent, Op};
use ferrotrace_runtime::{Error, ErrorKind, Layout, Result, Shape, Strides};
use smallvec::SmallVec;

/// An affine index: the constant, and (output dimension, coefficient) terms.
pub type AffineIndex = (isize, SmallVec<[(usize, isize); 2]>);

/// The affine index map of a view: input index `d` is `base[d] + Σ coefficient · output index`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewMap {
    /// The index of each input dimension.
    pub dims: Vec<AffineIndex>,
}

impl ViewMap {
    /// The window that the view of shape `shape` is on `layout`'s memory.
    pub fn apply(&self, layout: &Layout, shape: &Shape) -> Layout {
        let mut strides = Strides::from_elem(0, shape.rank());
        let mut offset = layout.offset() as isize;
        for ((base, terms), &stride) in self.dims.iter().zip(layout.strides()) {
            // Products leave the address space only where nothing follows them: dimensions of one element, empty windows.
            offset = offset.wrapping_add(base.wrapping_mul(stride));
            for &(out, coefficient) in terms {
                strides[out] = strides[out].wrapping_add(coefficient.wrapping_mul(stride));
            }
        }
        // A window without elements has no position.
        let offset = if shape.numel() == 0 {
            0
        } else {
            offset as usize
        };
        Layout::new(shape.clone(), strides, offset)
    }
}

/// Python's clamping of `start:end` to a dimension of `size` (ir V8), as (start, length after `step`).
pub fn clamp_slice(size: usize, start: isize, end: isize, step: usize) -> (usize, usize) {
    let wrap = |i: isize| if i < 0 { i.saturating_add(size as isize).max(0) } else { i.min(size as isize) } as usize;
    let (start, end) = (wrap(start), wrap(end));
    (start, end.saturating_sub(start).div_ceil(step.max(1)))
}

/// `dim` counted from the front.
///
/// # Errors
/// It is not a dimension of a tensor of this rank.
pub fn wrap_dim(dim: isize, rank: usize) -> Result<usize> {
    let wrapped = if dim < 0 { dim + rank as isize } else { dim };
    if wrapped < 0 || wrapped >= rank as isize {
        return Err(Error::new(ErrorKind::Dim { dim, rank }));
    }
    Ok(wrapped as usize)
}

fn wrap_index(index: isize, dim: usize, size: usize) -> Result<usize> {
    let wrapped = if index < 0 {
        index + size as isize
    } else {
        index
    };
    if wrapped < 0 || wrapped >= size as isize {
        return Err(Error::new(ErrorKind::Index {
            index: index as i64,
            dim,
            size,
        }));
    }
    Ok(wrapped as usize)
}

fn check_dim(dim: usize, shape: &Shape) -> Result<()> {
    if dim >= shape.rank() {
        return Err(Error::new(ErrorKind::Dim {
            dim: dim as isize,
            rank: shape.rank(),
        }));
    }
    Ok(())
}

/// Target sizes as they were given: −1 for what is inferred.
fn given(extents: &[Extent]) -> Vec<i128> {
    let size = |extent: &Extent| match extent {
        Extent::Size(n) => *n as i128,
        Extent::Auto => -1,
    };
    extents.iter().map(size).collect()
}

fn reshape(from: &Shape, extents: &[Extent]) -> Result<Shape> {
    let bad = |why: &str| {
        let to = given(extents);
        Error::shape(format!("{from} has no reshape to {to:?}: {why}"))
    };
    let mut known = 1usize;
    let mut auto = None;
    for (i, extent) in extents.iter().enumerate() {
        match extent {
            Extent::Size(n) => {
                known = known
                    .checked_mul(*n)
                    .ok_or_else(|| bad("too many elements"))?
            }
            Extent::Auto if auto.is_none() => auto = Some(i),
            Extent::Auto => return Err(bad("two sizes are -1")),
        }
    }
    let total = from.numel();
    let inferred = match auto {
        Some(_) if known == 0 => return Err(bad("-1 is ambiguous beside a size of 0")),
        Some(_) if !total.is_multiple_of(known) => {
            return Err(bad("the sizes do not divide the element count"));
        }
        Some(_) => total / known,
        None if known != total => return Err(bad("element counts differ")),
        None => 0,
    };
    Ok(extents
        .iter()
        .map(|e| {
            if let Extent::Size(n) = e {
                *n
            } else {
                inferred
            }
        })
        .collect())
}

fn expand(from: &Shape, extents: &[Extent]) -> Result<Shape> {
    let bad = || Error::shape(format!("{from} does not expand to {:?}", given(extents)));
    let lead = extents.len().checked_sub(from.rank()).ok_or_else(bad)?;
    let mut dims = Shape::scalar();
    for (i, extent) in extents.iter().enumerate() {
        let old = i.checked_sub(lead).map(|d| from[d]);
        dims.dims_mut().push(match (extent, old) {
            (Extent::Size(n), None | Some(1)) => *n,
            (Extent::Size(n), Some(o)) if *n == o => o,
            (Extent::Auto, Some(o)) => o,
            _ => return Err(bad()),
        });
    }
    Ok(dims)
}

pub(super) fn infer(op: &Op, args: &[ArgMeta<'_>]) -> Inferred {
    let (shape, dtype) = tensor(args, 0)?;
    let mut dims = shape.clone();
    match op {
        Op::Reshape(extents) => dims = reshape(shape, extents)?,
        Op::Expand(extents) => dims = expand(shape, extents)?,
        Op::Permute(order) => {
            let mut seen = 0u64;
            for &d in order {
                check_dim(d as usize, shape)?;
                seen |= 1 << d;
            }
            if order.len() != shape.rank() || seen.count_ones() as usize != shape.rank() {
                return Err(Error::argument(format!(
                    "{order:?} is not a permutation of {} dimensions",
                    shape.rank()
                )));
            }
            dims = order.iter().map(|&d| shape[d as usize]).collect();
        }
        Op::Squeeze { mask } => {
            let kept = |i: &usize| mask >> i & 1 == 0 || shape[*i] != 1;
            dims = (0..shape.rank()).filter(kept).map(|i| shape[i]).collect();
        }
        Op::Unsqueeze { dim } => {
            if *dim > shape.rank() {
                return Err(Error::new(ErrorKind::Dim {
                    dim: *dim as isize,
                    rank: shape.rank() + 1,
                }));
            }
            dims.dims_mut().insert(*dim, 1);
        }
        Op::Flatten { .. } if shape.rank() == 0 => dims = Shape::from(1),
        Op::Flatten { start, end } => {
            check_dim(*end, shape)?;
            if start > end {
                return Err(Error::argument(format!(
                    "flatten from dimension {start} to {end}"
                )));
            }
            let merged = Shape::new(&shape[*start..=*end]).numel();
            let mut flat = SmallVec::from_slice(&shape[..*start]);
            flat.push(merged);
            flat.extend_from_slice(&shape[end + 1..]);
            *dims.dims_mut() = flat;
        }
        Op::Slice {
            dim,
            start,
            end,
            step,
        } => {
            check_dim(*dim, shape)?;
            if *step == 0 {
                return Err(Error::argument("a slice's step must be at least 1"));
            }
            dims.dims_mut()[*dim] = clamp_slice(shape[*dim], *start, *end, *step).1;
        }
        Op::Narrow { dim, start, len } => {
            check_dim(*dim, shape)?;
            let size = shape[*dim];
            let from = if *start < 0 {
                start + size as isize
            } else {
                *start
            };
            if from < 0
                || (from as usize)
                    .checked_add(*len)
                    .is_none_or(|end| end > size)
            {
                return Err(Error::argument(format!(
                    "narrow of {len} from {start} leaves dimension {dim} of size {size}"
                )));
            }
            dims.dims_mut()[*dim] = *len;
        }
        Op::Select { dim, index } => {
            check_dim(*dim, shape)?;
            wrap_index(*index, *dim, shape[*dim])?;
            dims.dims_mut().remove(*dim);
        }
        Op::Flip { .. } | Op::Barrier => {}
        Op::Diagonal { offset, a, b } => {
            check_dim(*a, shape)?;
            check_dim(*b, shape)?;
            if a == b {
                return Err(Error::argument("a diagonal needs two different dimensions"));
            }
            let len = diagonal_len(shape[*a], shape[*b], *offset);
            dims = (0..shape.rank())
                .filter(|d| d != a && d != b)
                .map(|d| shape[d])
                .collect();
            dims.dims_mut().push(len);
        }
        Op::Unfold { dim, size, step } => {
            check_dim(*dim, shape)?;
            if *step == 0 || *size > shape[*dim] {
                return Err(Error::argument(format!(
                    "windows of {size} by {step} in a dimension of {}",
                    shape[*dim]
                )));
            }
            dims.dims_mut()[*dim] = (shape[*dim] - size) / step + 1;
            dims.dims_mut().push(*size);
        }
        Op::Repeat(counts) => {
            let lead = counts.len().checked_sub(shape.rank()).ok_or_else(|| {
                Error::argument(format!(
                    "{} repeat counts for a tensor of rank {}",
                    counts.len(),
                    shape.rank()
                ))
            })?;
            dims = (0..counts.len())
                .map(|i| counts[i].checked_mul(i.checked_sub(lead).map_or(1, |d| shape[d])))
                .collect::<Option<_>>()
                .ok_or_else(|| Error::argument("no size is as great as a repeated dimension"))?;
        }
        Op::Pad(pads) => {
            if pads.len() > shape.rank() {
                return Err(Error::argument(format!(
                    "{} paddings for a tensor of rank {}",
                    pads.len(),
                    shape.rank()
                )));
            }
            for (d, (before, after)) in pads.iter().enumerate() {
                let size = shape[d] as i128 + *before as i128 + *after as i128;
                dims.dims_mut()[d] = usize::try_from(size).map_err(|_| {
                    let what = if size < 0 {
                        "crops more than"
                    } else {
                        "adds more than fits"
                    };
                    Error::argument(format!(
                        "padding ({before}, {after}) {what} dimension {d} of size {}",
                        shape[d]
                    ))
                })?;
            }
        }
        Op::Cat { dim } => return infer_cat(*dim, args),
        Op::SliceAssign {
            dim,
            start,
            end,
            step,
        } => {
            check_dim(*dim, shape)?;
            if *step == 0 {
                return Err(Error::argument("a slice's step must be at least 1"));
            }
            let mut window = shape.clone();
            window.dims_mut()[*dim] = clamp_slice(shape[*dim], *start, *end, *step).1;
            let (src, src_dtype) = tensor(args, 1)?;
            if src.broadcast(&window).as_ref() != Some(&window) {
                return Err(Error::shape(format!(
                    "a source of shape {src} does not fit the slice {window}"
                )));
            }
            if dtype.promote(src_dtype).category() != dtype.category() {
                return Err(Error::dtype(format!(
                    "{src_dtype} cannot be written into {dtype}"
                )));
            }
        }
        other => {
            return Err(Error::internal(format!(
                "{} has no shape rule",
                other.name()
            )));
        }
    }
    Ok((dims, dtype))
}

fn infer_cat(dim: usize, args: &[ArgMeta<'_>]) -> Inferred {
    let (first, _) = tensor(args, 0)?;
    check_dim(dim, first)?;
    let mut dims = first.clone();
    let mut dtype = None;
    dims.dims_mut()[dim] = 0;
    for i in 0..args.len() {
        let (shape, d) = tensor(args, i)?;
        let fits = shape.rank() == first.rank()
            && (0..shape.rank()).all(|k| k == dim || shape[k] == first[k]);
        if !fits {
            return Err(Error::shape(format!(
                "shapes {first} and {shape} do not join along dimension {dim}"
            )));
        }
        dims.dims_mut()[dim] = dims[dim].saturating_add(shape[dim]);
        dtype = Some(dtype.map_or(d, |t: ferrotrace_runtime::DType| t.promote(d)));
    }
    let dtype = dtype.ok_or_else(|| Error::argument("cat of no tensors"))?;
    Ok((dims, dtype))
}

fn diagonal_len(rows: usize, cols: usize, offset: isize) -> usize {
    let (rows, cols) = (rows as isize, cols as isize);
    let len = if offset >= 0 {
        rows.min(cols - offset)
    } else {
        (rows + offset).min(cols)
    };
    len.max(0) as usize
}

/// The index map of an affine view from a tensor of shape `from` to its result of shape `to`; `None` for operators
/// that are no affine view (`reshape`, `flatten`, `repeat`, `pad`, `cat` among them).
pub fn view_map(op: &Op, from: &Shape, to: &Shape) -> Option<ViewMap> {
    let rank = from.rank();
    let identity = |d: usize| (0isize, SmallVec::from_slice(&[(d, 1isize)]));
    let mut dims: Vec<AffineIndex> = (0..rank).map(identity).collect();
    match op {
        Op::Expand(_) => {
            let lead = to.rank() - rank;
            for (d, entry) in dims.iter_mut().enumerate() {
                *entry = if from[d] == 1 {
                    (0, SmallVec::new())
                } else {
                    identity(d + lead)
                };
            }
        }
        Op::Permute(order) => {
            for (out, &d) in order.iter().enumerate() {
                dims[d as usize] = identity(out);
            }
        }
        Op::Squeeze { mask } => {
            let mut out = 0;
            for (d, entry) in dims.iter_mut().enumerate() {
                if mask >> d & 1 == 1 && from[d] == 1 {
                    *entry = (0, SmallVec::new());
                } else {
                    *entry = identity(out);
                    out += 1;
                }
            }
        }
        Op::Unsqueeze { dim } => {
            for (d, entry) in dims.iter_mut().enumerate().skip(*dim) {
                *entry = identity(d + 1);
            }
        }
        Op::Slice {
            dim,
            start,
            end,
            step,
        } => {
            let first = clamp_slice(from[*dim], *start, *end, *step).0;
            dims[*dim] = (
                first as isize,
                SmallVec::from_slice(&[(*dim, *step as isize)]),
            );
        }
        Op::Narrow { dim, start, .. } => {
            let first = if *start < 0 {
                start + from[*dim] as isize
            } else {
                *start
            };
            dims[*dim] = (first, SmallVec::from_slice(&[(*dim, 1)]));
        }
        Op::Select { dim, index } => {
            let at = if *index < 0 {
                index + from[*dim] as isize
            } else {
                *index
            };
            dims[*dim] = (at, SmallVec::new());
            for (d, entry) in dims.iter_mut().enumerate().skip(dim + 1) {
                *entry = identity(d - 1);
            }
        }
        Op::Flip { mask } => {
            for (d, entry) in dims
                .iter_mut()
                .enumerate()
                .filter(|(d, _)| mask >> d & 1 == 1)
            {
                *entry = (from[d] as isize - 1, SmallVec::from_slice(&[(d, -1)]));
            }
        }
        Op::Barrier => {}
        Op::Diagonal { offset, a, b } => {
            let last = to.rank() - 1;
            let mut out = 0;
            for (d, entry) in dims.iter_mut().enumerate() {
                if d == *a {
                    *entry = (
                        offset.saturating_neg().max(0),
                        SmallVec::from_slice(&[(last, 1)]),
                    );
                } else if d == *b {
                    *entry = ((*offset).max(0), SmallVec::from_slice(&[(last, 1)]));
                } else {
                    *entry = identity(out);
                    out += 1;
                }
            }
        }
        Op::Unfold { dim, step, .. } => {
            dims[*dim] = (
                0,
                SmallVec::from_slice(&[(*dim, *step as isize), (rank, 1)]),
            );
        }
        _ => return None,
    }
    Some(ViewMap { dims })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrotrace_runtime::DType;

    fn shape_of(op: &Op, from: &Shape) -> Result<Shape> {
        infer(op, &[ArgMeta::Tensor(from, DType::F32)]).map(|r| r.0)
    }

    fn offsets(op: &Op, from: &Shape) -> Vec<usize> {
        let to = shape_of(op, from).expect("valid view");
        let map = view_map(op, from, &to).expect("affine view");
        map.apply(&Layout::contiguous(from.clone()), &to)
            .offsets()
            .collect()
    }

    #[test]
    fn slices_clamp_like_python() {
        assert_eq!(clamp_slice(5, -3, isize::MAX, 1), (2, 3));
        assert_eq!(clamp_slice(5, isize::MIN, -3, 1), (0, 2));
        assert_eq!(clamp_slice(5, 3, 1, 1), (3, 0));
        assert_eq!(clamp_slice(5, 1, 100, 2), (1, 2));
    }

    #[test]
    fn affine_views_read_the_right_elements() {
        let s = Shape::from([2, 3]);
        let permute = Op::Permute(SmallVec::from_slice(&[1, 0]));
        assert_eq!(offsets(&permute, &s), [0, 3, 1, 4, 2, 5]);
        assert_eq!(offsets(&Op::Flip { mask: 0b10 }, &s), [2, 1, 0, 5, 4, 3]);
        assert_eq!(offsets(&Op::Select { dim: 1, index: -1 }, &s), [2, 5]);
        assert_eq!(
            offsets(
                &Op::Diagonal {
                    offset: 1,
                    a: 0,
                    b: 1
                },
                &s
            ),
            [1, 5]
        );
        assert_eq!(
            offsets(
                &Op::Diagonal {
                    offset: -1,
                    a: 0,
                    b: 1
                },
                &s
            ),
            [3]
        );
        let unfold = Op::Unfold {
            dim: 0,
            size: 2,
            step: 2,
        };
        assert_eq!(offsets(&unfold, &Shape::from([5])), [0, 1, 2, 3]);
    }

    #[test]
    fn reshape_infers_and_refuses() {
        let s = Shape::from([2, 3]);
        let to = |e: &[Extent]| shape_of(&Op::Reshape(SmallVec::from_slice(e)), &s);
        assert_eq!(
            to(&[Extent::Auto, Extent::Size(2)]).ok(),
            Some(Shape::from([3, 2]))
        );
        assert!(to(&[Extent::Auto, Extent::Auto]).is_err());
        assert!(to(&[Extent::Size(4), Extent::Auto]).is_err());
        assert!(to(&[Extent::Size(usize::MAX), Extent::Size(2)]).is_err());
    }
}
