//! Reads and writes at positions given by index tensors.

pub(super) mod gradient;
pub mod placing;

use super::scan::check_dim;
use super::tensor;
use crate::arg::{Arg, array};
use crate::copy::{Dense, cast, contiguous};
use crate::cpu::copy::copy;
use crate::cpu::create::full;
use crate::cpu::dense::{elements, elements_mut};
use crate::cpu::gather::{self, Selection, add_offsets, gather, select};
use crate::cpu::number::with_type;
use crate::cpu::scatter::{Places, add_to_line, adds_to_line, put, scatter};
use crate::cuda;
use crate::op::gradient::{Adjoint, Gradients};
use crate::op::operator::{Inferred, OnDevice, Operator, Update, facts, question, text};
use crate::{ArgMeta, Array, Class, OpBuilder, ScatterMode};
use ferrotrace_runtime::{DType, Device, Error, ErrorKind, Layout, Result, Shape, Strides};
use smallvec::SmallVec;

/// `out[i] = x[i with i[dim] replaced by index[i]]`: operands x, index (same rank).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gather {
    /// The dimension.
    pub dim: usize,
}

question! {
    /// The gathering along a dimension that it is.
    as_gather: Gather(Gather)
}

impl Operator for Gather {
    text!("gather" { dim });
    facts! { class: Class::Gather, light: false, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer_gather(self.dim, args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        self.pull(b, of)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        run_gather(self.dim, args, shape, dtype)
    }
}

/// Advanced indexing: operands x, then one index tensor for each axis; they broadcast to a block of dimensions that
/// stands at `at` in the result, with the axes not indexed around it in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Index {
    /// Indexed axes, ascending.
    pub axes: SmallVec<[u8; 4]>,
    /// Position of the block of index dimensions among the kept axes.
    pub at: usize,
}

impl Operator for Index {
    text!("index" { axes, at });
    facts! { class: Class::Gather, light: false, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer_index(&self.axes, self.at, args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        self.pull(b, of)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        run_index(&self.axes, self.at, args, shape, dtype)
    }
}

/// `x` with `src` written (or added) at advanced indices: operands x, src (broadcast to the indexed shape), indices.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexPut {
    /// Indexed axes, ascending.
    pub axes: SmallVec<[u8; 4]>,
    /// As in [`Index`].
    pub at: usize,
    /// Add instead of writing.
    pub accumulate: bool,
}

question! {
    /// The writing at advanced indices that it is.
    as_index_put: IndexPut(IndexPut)
}

impl Operator for IndexPut {
    text!("index_put" { axes, at, accumulate });
    facts! { class: Class::Scatter, light: false, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer_index_put(&self.axes, self.at, args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        self.pull(b, of)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        run_index_put(&self.axes, self.at, self.accumulate, args, shape, dtype)
    }

    fn as_update(&self) -> Option<&dyn Update> {
        Some(self)
    }
}

impl Update for IndexPut {
    fn writes_over(&self, dtype: DType) -> bool {
        combining(dtype, self.accumulate) == dtype
    }

    fn run_over(&self, x: &mut Array, args: &[Arg]) -> Result<()> {
        put_over(x, &self.axes, self.at, self.accumulate, args)
    }
}

/// `x` with `src[i]` met at `i with i[dim] replaced by index[i]`: operands x, index, src.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scatter {
    /// The dimension.
    pub dim: usize,
    /// How values meet.
    pub mode: ScatterMode,
    /// Whether the value already in `x` takes part.
    pub include_self: bool,
}

question! {
    /// The scatter along a dimension that it is.
    as_scatter: Scatter(Scatter)
}

impl Operator for Scatter {
    text!("scatter" { dim, mode, include_self });
    facts! { class: Class::Scatter, light: false, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer_scatter(self.dim, self.mode, args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        self.pull(b, of)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        run_scatter(self.dim, self.mode, self.include_self, args, shape, dtype)
    }

    fn as_update(&self) -> Option<&dyn Update> {
        Some(self)
    }

    fn as_library(&self) -> Option<&dyn OnDevice> {
        Some(self)
    }
}

impl OnDevice for Scatter {
    /// Along dimension 0 of a matrix, its index one number in range for each row.
    fn run_on(
        &self,
        _: &Device,
        args: &[Arg],
        _: &Shape,
        _: DType,
        dense: Dense<'_>,
    ) -> Result<Option<Array>> {
        match self.dim {
            0 => cuda::scatter::rows(args, (self.mode, self.include_self), dense),
            _ => Ok(None),
        }
    }

    fn writes_over(&self) -> bool {
        self.dim == 0
    }
}

impl Update for Scatter {
    fn writes_over(&self, dtype: DType) -> bool {
        scatter_type(dtype, self.mode) == dtype
    }

    fn run_over(&self, x: &mut Array, args: &[Arg]) -> Result<()> {
        scatter_over(x, self.dim, self.mode, self.include_self, args)
    }
}

/// `dtype` may index: it is an integer type, not `Bool`.
fn check_index(dtype: DType) -> Result<()> {
    if dtype.is_int() {
        return Ok(());
    }
    Err(Error::dtype(format!(
        "an index must be of an integer type, not {dtype}: to_dtype(DType::I64) first"
    )))
}

/// A source of type `src` may be written into `x`.
fn check_source(x: DType, src: &ArgMeta<'_>) -> Result<()> {
    if src.category() <= x.category() {
        return Ok(());
    }
    Err(Error::dtype(format!(
        "{} cannot be written into {x}",
        src.dtype()
    )))
}

fn check_rank(x: &Shape, index: &Shape) -> Result<()> {
    if x.rank() == index.rank() {
        return Ok(());
    }
    let (a, b) = (index.rank(), x.rank());
    Err(Error::shape(format!(
        "an index of rank {a} for a tensor of rank {b}"
    )))
}

/// Indices of shape `index` have something to point at in dimension `dim`: none does in an empty one, whatever it says.
fn check_not_empty(x: &Shape, dim: usize, index: &Shape) -> Result<()> {
    if x.get(dim) == Some(&0) && index.numel() > 0 {
        return Err(Error::shape(format!(
            "an index of shape {index} into dimension {dim} of {x}, which is empty"
        )));
    }
    Ok(())
}

pub(super) fn infer_gather(dim: usize, args: &[ArgMeta<'_>]) -> Inferred {
    let (x, dtype) = tensor(args, 0)?;
    let (index, index_dtype) = tensor(args, 1)?;
    check_dim(dim, x)?;
    check_index(index_dtype)?;
    check_rank(x, index)?;
    if (0..x.rank()).any(|d| d != dim && index[d] > x[d]) {
        return Err(Error::shape(format!(
            "an index of shape {index} exceeds {x} apart from dimension {dim}"
        )));
    }
    check_not_empty(x, dim, index)?;
    Ok((index.clone(), dtype))
}

/// The shape that indices select, from the operands after `first`.
fn selected(axes: &[u8], at: usize, args: &[ArgMeta<'_>], first: usize) -> Result<Shape> {
    let (x, _) = tensor(args, 0)?;
    if axes.is_empty() || axes.len() + first != args.len() {
        let n = args.len().saturating_sub(first);
        return Err(Error::argument(format!(
            "{n} index tensors for {} dimensions",
            axes.len()
        )));
    }
    let mut last = None;
    for &axis in axes {
        check_index_axis(axis as usize, last, x)?;
        last = Some(axis as usize);
    }
    let mut block = Shape::scalar();
    for i in first..args.len() {
        let (index, dtype) = tensor(args, i)?;
        check_index(dtype)?;
        block = block.broadcast(index).ok_or_else(|| {
            Error::shape(format!("index shapes {block} and {index} do not broadcast"))
        })?;
    }
    for &axis in axes {
        check_not_empty(x, axis as usize, &block)?;
    }
    let kept: Vec<usize> = (0..x.rank())
        .filter(|&d| !axes.contains(&(d as u8)))
        .collect();
    if at > kept.len() {
        return Err(Error::argument(format!(
            "indices at {at} among {} dimensions",
            kept.len()
        )));
    }
    let size = |d: &usize| x[*d];
    let before = kept[..at].iter().map(size);
    Ok(before
        .chain(block.iter().copied())
        .chain(kept[at..].iter().map(size))
        .collect())
}

fn check_index_axis(axis: usize, before: Option<usize>, x: &Shape) -> Result<()> {
    if axis >= x.rank() {
        return Err(Error::new(ErrorKind::Dim {
            dim: axis as isize,
            rank: x.rank(),
        }));
    }
    if before.is_some_and(|before| before >= axis) {
        return Err(Error::argument("indexed dimensions must ascend"));
    }
    Ok(())
}

pub(super) fn infer_index(axes: &[u8], at: usize, args: &[ArgMeta<'_>]) -> Inferred {
    let (_, dtype) = tensor(args, 0)?;
    Ok((selected(axes, at, args, 1)?, dtype))
}

pub(super) fn infer_index_put(axes: &[u8], at: usize, args: &[ArgMeta<'_>]) -> Inferred {
    let (x, dtype) = tensor(args, 0)?;
    let region = selected(axes, at, args, 2)?;
    check_source(dtype, &args[1])?;
    let src = args[1].shape();
    if src.broadcast(&region).as_ref() != Some(&region) {
        return Err(Error::shape(format!(
            "a source of shape {src} does not fit the indexed shape {region}"
        )));
    }
    Ok((x.clone(), dtype))
}

pub(super) fn infer_scatter(dim: usize, mode: ScatterMode, args: &[ArgMeta<'_>]) -> Inferred {
    let (x, dtype) = tensor(args, 0)?;
    if dtype == DType::Bool && mode == ScatterMode::Mean {
        return Err(Error::dtype(
            "the mean of bool is not defined: to_dtype(DType::F32) first",
        ));
    }
    let (index, index_dtype) = tensor(args, 1)?;
    check_dim(dim, x)?;
    check_index(index_dtype)?;
    check_rank(x, index)?;
    let Some(source) = args.get(2) else {
        return Err(Error::argument("a scatter needs a source"));
    };
    check_source(dtype, source)?;
    if let ArgMeta::Tensor(src, _) = source {
        check_rank(x, src)?;
        if (0..x.rank()).any(|d| index[d] > src[d]) {
            return Err(Error::shape(format!(
                "an index of shape {index} exceeds its source {src}"
            )));
        }
    }
    if (0..x.rank()).any(|d| d != dim && index[d] > x[d]) {
        return Err(Error::shape(format!(
            "an index of shape {index} exceeds {x} apart from dimension {dim}"
        )));
    }
    check_not_empty(x, dim, index)?;
    Ok((x.clone(), dtype))
}

/// Expands its body with `$T` standing for a type of the same size as the dtype's elements.
macro_rules! with_bits {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype.size() {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = i16;
                $body
            }
            4 => {
                type $T = i32;
                $body
            }
            _ => {
                type $T = i64;
                $body
            }
        }
    };
}

/// The index operand as dense `I64`.
fn indices(args: &[Arg], i: usize) -> Result<Array> {
    contiguous(&cast(array(args, i)?, DType::I64)?)
}

fn shared() -> Error {
    Error::internal("a result's memory is shared")
}

/// Offsets of the elements of some dimensions of a row-major array of shape `of`, restricted to `sizes`.
fn offsets(of: &[usize], sizes: &[usize], unit: usize) -> Vec<usize> {
    let strides: Strides = Shape::new(of)
        .strides()
        .iter()
        .map(|s| s * unit as isize)
        .collect();
    Layout::new(Shape::new(sizes), strides, 0)
        .offsets()
        .collect()
}

/// `out[i] = x[i with i[dim] replaced by index[i]]`.
///
/// # Errors
/// `Index`: the first index out of range. Out of memory.
pub fn run_gather(dim: usize, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    let x = array(args, 0)?;
    let index = indices(args, 1)?;
    let mut out = Array::empty(x.buffer.device(), shape.clone(), dtype)?;
    if shape.numel() == 0 {
        return Ok(out);
    }
    let rank = shape.rank();
    let last = rank.saturating_sub(1);
    let mut strides: Strides = x.layout.strides().iter().copied().collect();
    let (stride, size) = match strides.get_mut(dim) {
        Some(stride) => (std::mem::take(stride), x.shape()[dim]),
        None => (0, 1),
    };
    let (lead, step) = (&strides[..last], strides.get(last).copied().unwrap_or(0));
    let rows = Layout::new(Shape::new(&shape[..last]), lead.into(), x.layout.offset());
    let starts: Vec<usize> = rows.offsets().collect();
    let g = gather::Gather {
        index: elements(&index)?,
        starts: &starts,
        row: shape.get(last).copied().unwrap_or(1),
        step,
        stride,
        dim: (dim, size),
    };
    with_bits!(dtype, T => {
        let out = out.buffer.get_mut::<T>().ok_or_else(shared)?;
        gather(x.buffer.as_slice::<T>(), &mut out[..g.index.len()], &g)?;
    });
    Ok(out)
}

/// The selection of indices, from the operands after `first`, on an array of this layout.
fn selection(
    axes: &[u8],
    at: usize,
    layout: &Layout,
    args: &[Arg],
    first: usize,
) -> Result<Selection> {
    let mut index = Vec::with_capacity(axes.len());
    let mut block = Shape::scalar();
    for i in first..args.len() {
        let array = array(args, i)?;
        block = block
            .broadcast(array.shape())
            .ok_or_else(|| Error::internal("index shapes"))?;
        index.push(array);
    }
    let mut places = vec![0isize; block.numel()];
    for (array, &axis) in index.into_iter().zip(axes) {
        let axis = axis as usize;
        let spread = array
            .layout
            .broadcast_to(&block)
            .ok_or_else(|| Error::internal("index shapes"))?;
        let dense = contiguous(&cast(&array.with_layout(spread), DType::I64)?)?;
        let (stride, size) = (layout.strides()[axis], layout.shape()[axis]);
        add_offsets(&mut places, elements(&dense)?, stride, axis, size)?;
    }
    let kept: Vec<(usize, isize)> = (0..layout.shape().rank())
        .filter(|&d| !axes.contains(&(d as u8)))
        .map(|d| (layout.shape()[d], layout.strides()[d]))
        .collect();
    Ok(Selection::new(
        layout.offset(),
        &kept[..at],
        places,
        &kept[at..],
    ))
}

/// Advanced indexing: the elements at the indices, which broadcast together.
///
/// # Errors
/// `Index`: the first index out of range. Out of memory.
pub fn run_index(
    axes: &[u8],
    at: usize,
    args: &[Arg],
    shape: &Shape,
    dtype: DType,
) -> Result<Array> {
    let x = array(args, 0)?;
    let mut out = Array::empty(x.buffer.device(), shape.clone(), dtype)?;
    let s = selection(axes, at, &x.layout, args, 1)?;
    with_bits!(dtype, T => {
        let out = out.buffer.get_mut::<T>().ok_or_else(shared)?;
        let n = s.len().min(out.len());
        select(x.buffer.as_slice::<T>(), &mut out[..n], &s);
    });
    Ok(out)
}

/// The source operand at `i` as an array.
fn source(args: &[Arg], i: usize, device: &Device, dtype: DType) -> Result<Array> {
    match args.get(i) {
        Some(Arg::Array(array)) => Ok(array.clone()),
        Some(Arg::Scalar(value)) => full(device, &Shape::scalar(), *value, dtype),
        None => Err(Error::internal("a source is missing")),
    }
}

/// The type in which values are combined: sums and products of half types are rounded once, at the end; those of truth
/// values are `or` and `and`.
pub(crate) fn combining(dtype: DType, combines: bool) -> DType {
    match dtype {
        DType::Bool if combines => DType::I64,
        _ if combines => dtype.compute(),
        _ => dtype,
    }
}

/// `x` with the source written (or added) at the indices; of equal indices the last one stays, and sums are in
/// row-major order of the source.
///
/// # Errors
/// `Index`: the first index out of range. Out of memory.
pub fn run_index_put(
    axes: &[u8],
    at: usize,
    accumulate: bool,
    args: &[Arg],
    _shape: &Shape,
    dtype: DType,
) -> Result<Array> {
    let x = array(args, 0)?;
    let mut out = copy(x, x.shape(), combining(dtype, accumulate))?;
    put_over(&mut out, axes, at, accumulate, args)?;
    cast(&out, dtype)
}

/// Writes (or adds) the source at the indices of `out`, a dense array of its own of the [`combining`] type; the first
/// operand is not looked at.
///
/// # Errors
/// `Index`: the first index out of range, with nothing written. Out of memory.
pub(crate) fn put_over(
    out: &mut Array,
    axes: &[u8],
    at: usize,
    accumulate: bool,
    args: &[Arg],
) -> Result<()> {
    let compute = out.dtype;
    let src = source(args, 1, out.buffer.device(), compute)?;
    let spread = region(out.shape(), axes, at, args)?;
    let spread = src
        .layout
        .broadcast_to(&spread)
        .ok_or_else(|| Error::internal("a source's shape"))?;
    let src = contiguous(&cast(&src.with_layout(spread), compute)?)?;
    if accumulate && out.shape().rank() == 1 && args.len() == 3 {
        let index = contiguous(&cast(array(args, 2)?, DType::I64)?)?;
        let (start, stride, size) = (out.layout.offset(), out.layout.strides()[0], out.shape()[0]);
        let line = with_type!(compute, T => {
            let adds = adds_to_line::<T>(src.shape().numel(), size);
            let add = |out: &mut Array| {
                let src = elements::<T>(&src)?;
                add_to_line(elements_mut(out)?, (start, stride, size), elements(&index)?, src, 0)
            };
            adds.then(|| add(out))
        });
        if let Some(done) = line {
            return done;
        }
    }
    let s = selection(axes, at, &out.layout, args, 2)?;
    with_type!(compute, T => put::<T>(elements_mut(out)?, elements(&src)?, &s, accumulate));
    Ok(())
}

/// The shape that the index operands of an `index_put` select.
fn region(x: &Shape, axes: &[u8], at: usize, args: &[Arg]) -> Result<Shape> {
    let mut metas = vec![ArgMeta::Tensor(x, DType::F32)];
    for i in 2..args.len() {
        let array = array(args, i)?;
        metas.push(ArgMeta::Tensor(array.shape(), array.dtype));
    }
    selected(axes, at, &metas, 1)
}

/// `x` with source elements met at `i with i[dim] replaced by index[i]`, those of one place in row-major order.
/// Truth values add as `or` and multiply as `and`.
///
/// # Errors
/// `Index`: the first index out of range. `DType`: the mean of truth values. Out of memory.
pub fn run_scatter(
    dim: usize,
    mode: ScatterMode,
    include_self: bool,
    args: &[Arg],
    _shape: &Shape,
    dtype: DType,
) -> Result<Array> {
    let x = array(args, 0)?;
    let mut out = copy(x, x.shape(), scatter_type(dtype, mode))?;
    scatter_over(&mut out, dim, mode, include_self, args)?;
    cast(&out, dtype)
}

/// The type in which a scatter combines.
pub(crate) fn scatter_type(dtype: DType, mode: ScatterMode) -> DType {
    let sums = matches!(
        mode,
        ScatterMode::Sum | ScatterMode::Prod | ScatterMode::Mean
    );
    combining(dtype, sums)
}

/// Lets the source meet the elements of `out`, a dense array of its own of the [`scatter_type`]; the first operand is
/// not looked at.
///
/// # Errors
/// `Index`: the first index out of range; `out` is then of no use. Out of memory.
pub(crate) fn scatter_over(
    out: &mut Array,
    dim: usize,
    mode: ScatterMode,
    include_self: bool,
    args: &[Arg],
) -> Result<()> {
    let compute = out.dtype;
    let index = indices(args, 1)?;
    let shape = index.shape();
    if shape.numel() == 0 {
        return Ok(());
    }
    let src = source(args, 2, out.buffer.device(), compute)?;
    // The part of the source that the index covers.
    let part = match src.layout.shape().rank() == shape.rank() {
        true => Layout::new(
            shape.clone(),
            src.layout.strides().into(),
            src.layout.offset(),
        ),
        false => Layout::new(shape.clone(), Strides::from_elem(0, shape.rank()), 0),
    };
    let src = contiguous(&cast(&src.with_layout(part), compute)?)?;
    let (to, rank) = (out.shape().clone(), shape.rank());
    let after = (dim + 1).min(rank);
    let stride: usize = to[after..].iter().product();
    let size = to.get(dim).copied().unwrap_or(1);
    let before = dim.min(rank);
    let places = Places {
        index: elements(&index)?,
        outer: offsets(&to[..before], &shape[..before], size * stride),
        len: shape.get(dim).copied().unwrap_or(1),
        inner: offsets(&to[after..], &shape[after..], 1),
        stride,
        dim: (dim, size),
    };
    with_type!(compute, T => {
        scatter::<T>(elements_mut(out)?, elements(&src)?, &places, mode, include_self)?
    });
    Ok(())
}

#[cfg(test)]
mod tests;
