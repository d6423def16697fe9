//! Sorting and selection.

use super::scan::check_dim;
use super::tensor;
use crate::arg::{Arg, array};
use crate::copy::{Dense, contiguous};
use crate::cpu::dense::{elements, elements_mut};
use crate::cpu::number::with_type;
use crate::cpu::sort::{argsort, argtopk, sort, topk};
use crate::cuda;
use crate::op::gradient::{Adjoint, Gradients, wide};
use crate::op::operator::{Inferred, OnDevice, Operator, facts, no_gradient, text};
use crate::op::{Reduce, Scan};
use crate::ops::index::gradient::placed_along;
use crate::{ArgMeta, Array, Class, Op, OpBuilder, ReduceKind, ScanKind};
use ferrotrace_runtime::{DType, Device, Error, Result, Shape};

/// A dimension in order, equal elements as they stood; NaN is the greatest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sort {
    /// The dimension.
    pub dim: usize,
    /// Greatest first.
    pub descending: bool,
}

impl Operator for Sort {
    text!("sort" { dim, descending });
    facts! { class: Class::Library, light: false, jumps: true, work: |op, of| of.sort(op.dim) }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer_sort(self.dim, args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let &Sort { dim, descending } = self;
        taken(b, of, dim, Op::ArgSort(ArgSort { dim, descending }))
    }

    fn run(&self, args: &[Arg], shape: &Shape, _: DType) -> Result<Array> {
        run_sort(self.dim, self.descending, args, shape)
    }
}

/// Positions (`I64`) that sort a dimension, stable; NaN sorts as the greatest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArgSort {
    /// The dimension.
    pub dim: usize,
    /// Greatest first.
    pub descending: bool,
}

impl Operator for ArgSort {
    text!("argsort" { dim, descending });
    facts! { class: Class::Library, light: false, jumps: true, work: |op, of| of.sort(op.dim) }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer_argsort(self.dim, args)
    }

    no_gradient!();

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        run_argsort(self.dim, self.descending, args, shape, dtype)
    }

    fn as_library(&self) -> Option<&dyn OnDevice> {
        Some(self)
    }
}

impl OnDevice for ArgSort {
    /// Along the last dimension.
    fn run_on(
        &self,
        _: &Device,
        args: &[Arg],
        shape: &Shape,
        _: DType,
        dense: Dense<'_>,
    ) -> Result<Option<Array>> {
        if self.dim + 1 < shape.rank() {
            return Ok(None);
        }
        let x = dense(array(args, 0)?)?;
        let n = shape.last().copied().unwrap_or(1);
        let order = cuda::sort::Order::positions(x.dtype, self.descending);
        Ok(Some(cuda::sort::argsort(&x, n, order)?.positions))
    }
}

/// The k greatest (or least) of a dimension, in order, ties by position; NaN is the greatest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopK {
    /// How many.
    pub k: usize,
    /// The dimension.
    pub dim: usize,
    /// Greatest instead of least.
    pub largest: bool,
}

impl Operator for TopK {
    text!("topk_values" { k, dim, largest });
    facts! { class: Class::Library, light: false, jumps: true, work: |op, of| of.sort(op.dim) }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer_topk(self.k, self.dim, args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let &TopK { k, dim, largest } = self;
        taken(b, of, dim, Op::ArgTopK(ArgTopK { k, dim, largest }))
    }

    fn run(&self, args: &[Arg], shape: &Shape, _: DType) -> Result<Array> {
        run_topk(self.k, self.dim, self.largest, args, shape)
    }
}

/// Positions (`I64`) of the k greatest (or least) of a dimension, in order, ties by position.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArgTopK {
    /// How many.
    pub k: usize,
    /// The dimension.
    pub dim: usize,
    /// Greatest instead of least.
    pub largest: bool,
}

impl Operator for ArgTopK {
    text!("topk" { k, dim, largest });
    facts! { class: Class::Library, light: false, jumps: true, work: |op, of| of.sort(op.dim) }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer_argtopk(self.k, self.dim, args)
    }

    no_gradient!();

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        run_argtopk(self.k, self.dim, self.largest, args, shape, dtype)
    }

    fn as_library(&self) -> Option<&dyn OnDevice> {
        Some(self)
    }
}

impl OnDevice for ArgTopK {
    /// Of few elements along the last dimension.
    fn run_on(
        &self,
        _: &Device,
        args: &[Arg],
        shape: &Shape,
        _: DType,
        dense: Dense<'_>,
    ) -> Result<Option<Array>> {
        if self.dim + 1 < shape.rank() || !cuda::selects(self.k) {
            return Ok(None);
        }
        let x = dense(array(args, 0)?)?;
        let n = x.shape().last().copied().unwrap_or(1);
        cuda::sort::top(&x, (n, self.k), self.largest, shape).map(Some)
    }
}

impl Op {
    /// The operator that gives the sorted values, where this gives the positions that sort them.
    pub fn of_values(&self) -> Option<Op> {
        match *self {
            Op::ArgSort(ArgSort { dim, descending }) => Some(Op::Sort(Sort { dim, descending })),
            Op::ArgTopK(ArgTopK { k, dim, largest }) => Some(Op::TopK(TopK { k, dim, largest })),
            _ => None,
        }
    }

    /// The dimensions of the first operand in which the result is positions, a bit each: one that there is.
    pub fn positions_in(&self) -> Option<u64> {
        match *self {
            Op::ArgSort(ArgSort { dim, .. }) | Op::ArgTopK(ArgTopK { dim, .. }) => Some(1 << dim),
            Op::Scan(Scan {
                kind: ScanKind::ArgMax | ScanKind::ArgMin,
                dim,
            }) => Some(1 << dim),
            Op::Reduce(Reduce {
                kind: ReduceKind::ArgMax | ReduceKind::ArgMin,
                mask,
                ..
            }) => Some(mask),
            _ => None,
        }
    }
}

/// The gradient of what takes elements along a dimension from the positions that `order` gives: there it goes.
fn taken(b: &mut dyn OpBuilder, of: &Adjoint<'_>, dim: usize, order: Op) -> Result<Gradients> {
    let x = of.value(0)?;
    let shape = b.shape(x).clone();
    if shape.rank() == 0 {
        return Ok(of.first(of.gradient));
    }
    let index = b.push(order, &[x.into()])?;
    let g = wide(b, of.gradient)?;
    placed_along(b, g, index, &shape, dim).map(|gradient| of.first(gradient))
}

pub(super) fn infer_sort(dim: usize, args: &[ArgMeta<'_>]) -> Inferred {
    let (shape, dtype) = tensor(args, 0)?;
    check_dim(dim, shape)?;
    Ok((shape.clone(), dtype))
}

pub(super) fn infer_argsort(dim: usize, args: &[ArgMeta<'_>]) -> Inferred {
    infer_sort(dim, args).map(|(shape, _)| (shape, DType::I64))
}

pub(super) fn infer_argtopk(k: usize, dim: usize, args: &[ArgMeta<'_>]) -> Inferred {
    infer_topk(k, dim, args).map(|(shape, _)| (shape, DType::I64))
}

pub(super) fn infer_topk(k: usize, dim: usize, args: &[ArgMeta<'_>]) -> Inferred {
    let (shape, dtype) = tensor(args, 0)?;
    check_dim(dim, shape)?;
    let size = shape.get(dim).copied().unwrap_or(1);
    if k > size {
        return Err(Error::argument(format!(
            "the {k} greatest of dimension {dim} of size {size}"
        )));
    }
    let mut dims = shape.clone();
    match dims.dims_mut().get_mut(dim) {
        Some(size) => *size = k,
        // A 0-d tensor holds one element and can give no fewer.
        None if k == 0 => return Err(Error::argument("the 0 greatest of a 0-d tensor")),
        None => {}
    }
    Ok((dims, dtype))
}

/// `dim` in order: stable in both directions; NaN is the greatest, and −0 equals 0.
///
/// # Errors
/// Out of memory; a dimension of 2³² elements or more.
pub fn run_sort(dim: usize, descending: bool, args: &[Arg], shape: &Shape) -> Result<Array> {
    let x = array(args, 0)?;
    let len = shape.get(dim).copied().unwrap_or(1);
    lanes(dim, x, shape, len, x.dtype, |x, out| {
        with_type!(x.dtype, T => sort::<T>(elements(x)?, elements_mut(out)?, len, descending));
        Ok(())
    })
}

/// The positions that sort `dim`: stable in both directions; NaN is the greatest, and −0 equals 0.
///
/// # Errors
/// Out of memory; a dimension of 2³² elements or more.
pub fn run_argsort(
    dim: usize,
    descending: bool,
    args: &[Arg],
    shape: &Shape,
    _dtype: DType,
) -> Result<Array> {
    let len = shape.get(dim).copied().unwrap_or(1);
    lanes(dim, array(args, 0)?, shape, len, DType::I64, |x, out| {
        with_type!(x.dtype, T => argsort::<T>(elements(x)?, elements_mut(out)?, len, descending));
        Ok(())
    })
}

/// The `k` greatest (or least) elements of `dim`, in order; equal ones by position.
///
/// # Errors
/// Out of memory; a dimension of 2³² elements or more.
pub fn run_topk(k: usize, dim: usize, largest: bool, args: &[Arg], shape: &Shape) -> Result<Array> {
    let x = array(args, 0)?;
    let len = x.shape().get(dim).copied().unwrap_or(1);
    lanes(dim, x, shape, len, x.dtype, |x, out| {
        with_type!(x.dtype, T => topk::<T>(elements(x)?, elements_mut(out)?, len, k, largest));
        Ok(())
    })
}

/// The positions of the `k` greatest (or least) elements of `dim`, in order; equal ones by position.
///
/// # Errors
/// Out of memory; a dimension of 2³² elements or more.
pub fn run_argtopk(
    k: usize,
    dim: usize,
    largest: bool,
    args: &[Arg],
    shape: &Shape,
    _dtype: DType,
) -> Result<Array> {
    let x = array(args, 0)?;
    let len = x.shape().get(dim).copied().unwrap_or(1);
    lanes(dim, x, shape, len, DType::I64, |x, out| {
        with_type!(x.dtype, T => argtopk::<T>(elements(x)?, elements_mut(out)?, len, k, largest));
        Ok(())
    })
}

/// Runs `f(input, output)` on lanes of `dim` laid out as rows, and gives the result of `shape` and `dtype`.
fn lanes(
    dim: usize,
    x: &Array,
    shape: &Shape,
    len: usize,
    dtype: DType,
    f: impl Fn(&Array, &mut Array) -> Result<()>,
) -> Result<Array> {
    if u32::try_from(len).is_err() {
        return Err(Error::unsupported(format!(
            "sorting a dimension of {len} elements"
        )));
    }
    let rank = shape.rank();
    let mut order: Vec<usize> = (0..rank).filter(|&d| d != dim).collect();
    if rank > 0 {
        order.push(dim);
    }
    let last = dim + 1 >= rank;
    let x = if last {
        contiguous(x)?
    } else {
        contiguous(&x.with_layout(x.layout.permute(&order)))?
    };
    let rows: Shape = order.iter().map(|&d| shape[d]).collect();
    let mut out = Array::empty(x.buffer.device(), rows, dtype)?;
    f(&x, &mut out)?;
    if last {
        return Ok(out);
    }
    let mut back = vec![0; rank];
    for (i, &d) in order.iter().enumerate() {
        back[d] = i;
    }
    contiguous(&out.with_layout(out.layout.permute(&back)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::fixture::{flat, index_of, integers, metas, of, read, strided};
    use ferrotrace_runtime::ErrorKind;

    fn sorted(dim: usize, descending: bool, x: &Array) -> Result<Vec<f64>> {
        let args = [Arg::Array(x.clone())];
        let (shape, dtype) = infer_argsort(dim, &metas(&args))?;
        let out = run_argsort(dim, descending, &args, &shape, dtype)?;
        assert_eq!((out.shape(), out.dtype), (&shape, DType::I64));
        Ok(read(&out))
    }

    /// The elements at positions along `dim`.
    fn taken(x: &Array, dim: usize, at: &Array) -> Vec<f64> {
        let (elements, positions) = (read(x), read(at));
        let (of, to) = (x.shape().to_vec(), at.shape().to_vec());
        let element = |(i, &at): (usize, &f64)| {
            let mut index = index_of(i, &to);
            index
                .get_mut(dim)
                .into_iter()
                .for_each(|d| *d = at as usize);
            elements[flat(&index, &of)]
        };
        positions.iter().enumerate().map(element).collect()
    }

    fn best(k: usize, dim: usize, largest: bool, x: &Array) -> Result<Vec<f64>> {
        let args = [Arg::Array(x.clone())];
        let (shape, dtype) = infer_argtopk(k, dim, &metas(&args))?;
        let out = run_argtopk(k, dim, largest, &args, &shape, dtype)?;
        assert_eq!(out.shape(), &shape);
        let (of_values, _) = infer_topk(k, dim, &metas(&args))?;
        let values = run_topk(k, dim, largest, &args, &of_values)?;
        assert_eq!((values.shape(), values.dtype), (&shape, x.dtype));
        assert_eq!(read(&values), taken(x, dim, &out));
        Ok(read(&out))
    }

    #[test]
    fn every_dtype_along_every_dim() {
        let dims = [3, 7, 4];
        for dtype in DType::ALL {
            let high = if dtype == DType::Bool { 1 } else { 9 };
            let x = integers(84, 3, 0, high);
            for (dim, &size) in dims.iter().enumerate() {
                for descending in [false, true] {
                    let mut want = vec![0.0; 84];
                    for at in 0..84 {
                        let mut index = index_of(at, &dims);
                        if index[dim] > 0 {
                            continue;
                        }
                        let mut value = |i: usize| {
                            index[dim] = i;
                            x[flat(&index, &dims)]
                        };
                        let lane: Vec<f64> = (0..size).map(&mut value).collect();
                        let mut order: Vec<usize> = (0..size).collect();
                        order.sort_by(|&a, &b| {
                            let order = lane[a].total_cmp(&lane[b]);
                            if descending { order.reverse() } else { order }
                        });
                        for (i, o) in order.into_iter().enumerate() {
                            index[dim] = i;
                            want[flat(&index, &dims)] = o as f64;
                        }
                    }
                    for x in [of(dtype, &dims, &x), strided(dtype, &dims, &x)] {
                        assert_eq!(
                            sorted(dim, descending, &x).expect("sorted"),
                            want,
                            "{dtype}"
                        );
                        let mut part = dims;
                        part[dim] = 2;
                        let take = |at: usize| want[flat(&index_of(at, &part), &dims)];
                        let want: Vec<f64> = (0..part.iter().product()).map(take).collect();
                        assert_eq!(best(2, dim, descending, &x).expect("best"), want, "{dtype}");
                    }
                }
            }
        }
    }

    #[test]
    fn scalars_empties_and_errors() {
        let scalar = of(DType::F32, &[], &[3.0]);
        assert_eq!(sorted(0, true, &scalar).expect("0-d"), [0.0]);
        assert_eq!(best(1, 0, true, &scalar).expect("0-d"), [0.0]);
        assert!(best(0, 0, true, &scalar).is_err());
        let empty = of(DType::F32, &[2, 0], &[]);
        assert!(sorted(1, false, &empty).expect("empty").is_empty());
        assert!(sorted(0, false, &empty).expect("empty").is_empty());
        assert!(
            best(0, 0, true, &of(DType::I8, &[2], &[1.0, 2.0]))
                .expect("none")
                .is_empty()
        );
        let error = best(3, 0, true, &of(DType::I8, &[2], &[1.0, 2.0])).expect_err("too many");
        assert!(matches!(error.kind(), ErrorKind::Argument(_)));
    }
}
