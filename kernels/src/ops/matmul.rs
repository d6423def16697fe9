//! Matrix products.

mod gradient;
mod library;
mod sum;
mod tiles;

use super::tensor;
use crate::arg::{Arg, array};
use crate::copy::{Dense, cast, contiguous};
use crate::cpu::dense::{elements, elements_mut, in_the_making};
use crate::cpu::matmul::{Right, Starts, integer_products, products_into};
use crate::cpu::number::Number;
use crate::cpu::panels::{Epilogue, Factors, Prologue, Then, products_then, scratch_elements};
use crate::cpu::product::packed;
use crate::cpu::product::tiles::{Format, packed_bytes};
use crate::cpu::vector::{Real, Weight, vector_matrix};
use crate::cpu::view::{Sizes, View};
use crate::op::gradient::{Adjoint, Gradients};
use crate::op::operator::{Inferred, OnDevice, Operator, facts, text};
use crate::{ArgMeta, Array, Class, Op, OpBuilder};
use ferrotrace_runtime::{
    Category, DType, Device, Element, Error, Faults, Layout, Result, Shape, Strides,
};
pub(crate) use gradient::folded;
pub use library::{After, run_by_library};
pub use sum::SumOfProducts;
pub use tiles::is_by_tiles;
use tiles::{by_tiles, operands, tiles, tiles_of};

/// Matrix product, batched with broadcasting, 1-d operands as vectors (PyTorch's `matmul`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Matmul;

impl Operator for Matmul {
    text!("matmul");
    facts! {
        class: Class::Library,
        light: false,
        jumps: false,
        // 2 m n k for each product.
        work: |_, of| 2 * of.result() * of.last(0, 1)
    }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer(args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        gradient::vjp(b, of)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        run(args, shape, dtype)
    }

    fn as_library(&self) -> Option<&dyn OnDevice> {
        Some(self)
    }
}

impl OnDevice for Matmul {
    /// Of equal floats.
    fn run_on(
        &self,
        device: &Device,
        args: &[Arg],
        shape: &Shape,
        dtype: DType,
        dense: Dense<'_>,
    ) -> Result<Option<Array>> {
        run_by_library(device, args, shape, dtype, &After::default(), dense)
    }
}

impl Op {
    /// Whether it is a matrix product, rounded or [not](super::unrounded::Unrounded).
    pub fn is_matmul(&self) -> bool {
        matches!(self.rounded(), Op::Matmul)
    }

    /// Whether its time is that of multiplications: matrix products, their sums, and convolutions.
    pub fn is_product(&self) -> bool {
        let sums = matches!(self, Op::SumOfProducts(_));
        self.is_matmul() || sums || self.as_conv().is_some() || self.as_correlation().is_some()
    }
}

/// The parts of a product's shape.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    batch: Shape,
    sizes: Sizes,
}

impl Parts {
    /// The parts for operands of these shapes; a vector is a row on the left and a column on the right.
    fn of(a: &Shape, b: &Shape) -> Result<Parts> {
        if a.rank() == 0 || b.rank() == 0 {
            return Err(Error::shape(format!(
                "a matrix product of {a} and {b}: a 0-d operand"
            )));
        }
        let (m, k) = (
            if a.rank() == 1 { 1 } else { a[a.rank() - 2] },
            a[a.rank() - 1],
        );
        let (inner, n) = match b.rank() {
            1 => (b[0], 1),
            rank => (b[rank - 2], b[rank - 1]),
        };
        if k != inner {
            return Err(Error::shape(format!("inner sizes {k} and {inner} differ")));
        }
        let lead = |s: &Shape| Shape::new(&s[..s.rank().saturating_sub(2)]);
        let batch = lead(a).broadcast(&lead(b)).ok_or_else(|| {
            Error::shape(format!(
                "batch sizes {} and {} do not broadcast",
                lead(a),
                lead(b)
            ))
        })?;
        Ok(Parts {
            batch,
            sizes: Sizes { m, n, k },
        })
    }
}

pub(super) fn infer(args: &[ArgMeta<'_>]) -> Inferred {
    let ((a, a_dtype), (b, b_dtype)) = (tensor(args, 0)?, tensor(args, 1)?);
    let parts = Parts::of(a, b)?;
    let dtype = a_dtype.promote(b_dtype);
    if dtype.category() == Category::Bool {
        return Err(Error::untaken("matmul", dtype, DType::I64));
    }
    let mut dims = parts.batch;
    if a.rank() > 1 {
        dims.dims_mut().push(parts.sizes.m);
    }
    if b.rank() > 1 {
        dims.dims_mut().push(parts.sizes.n);
    }
    Ok((dims, dtype))
}

/// `layout` with a dimension of size 1 added at `at`.
fn with_unit(layout: &Layout, at: usize) -> Layout {
    let mut shape = layout.shape().clone();
    shape.dims_mut().insert(at, 1);
    let mut strides: Strides = layout.strides().into();
    strides.insert(at, 0);
    Layout::new(shape, strides, layout.offset())
}

/// Operands of one compute type, with the layouts of their matrices.
struct Matrices {
    parts: Parts,
    compute: DType,
    /// By which tiles the operands are multiplied, if by any.
    tiles: Option<Format>,
    a: Array,
    left: Layout,
    b: Array,
    right: Layout,
    /// The layout of the result, if it was given one.
    to: Option<Layout>,
}

/// How the matrices of a product lie.
struct Arranged {
    parts: Parts,
    left: Layout,
    right: Layout,
    to: Option<Layout>,
}

/// The matrices of operands of these layouts, whose product is written to the window `out`, if there is one.
fn arranged(a: &Layout, b: &Layout, out: Option<&Layout>) -> Result<Arranged> {
    let mut parts = Parts::of(a.shape(), b.shape())?;
    let matrix = |x: &Layout, vector: usize| match x.shape().rank() {
        1 => with_unit(x, vector),
        _ => x.clone(),
    };
    let (mut left, right) = (matrix(a, 0), matrix(b, 1));
    let mut to = out.cloned();
    for (vector, at) in [(a, 0), (b, 1)] {
        if vector.shape().rank() == 1 {
            to = to.map(|to| with_unit(&to, parts.batch.rank() + at));
        }
    }
    // One matrix on the right: the batch is part of the rows on the left, if strides allow.
    let s = parts.sizes;
    if right.shape().rank() == 2 && left.shape().rank() > 2 {
        let rows = parts.batch.numel() * s.m;
        let merged = left.reshape(&Shape::from([rows, s.k]));
        let merged_to = to.as_ref().map(|to| to.reshape(&Shape::from([rows, s.n])));
        if let (Some(merged), None | Some(Some(_))) = (merged, &merged_to) {
            left = merged;
            to = merged_to.flatten();
            parts = Parts {
                batch: Shape::scalar(),
                sizes: Sizes { m: rows, ..s },
            };
        }
    }
    Ok(Arranged {
        parts,
        left,
        right,
        to,
    })
}

/// The matrices of a product of type `dtype` that is written to the window `out`, if there is one.
fn matrices(args: &[Arg], dtype: DType, out: Option<&Layout>) -> Result<Matrices> {
    let (a, b) = (array(args, 0)?, array(args, 1)?);
    let compute = dtype.compute();
    let parts = Parts::of(a.shape(), b.shape())?;
    let tiles = tiles_of(&parts, b.shape(), [a.dtype, b.dtype]).filter(|_| compute == DType::F32);
    let (a, mut b) = match tiles.is_some() {
        // Rows of the batch that do not follow each other are copied.
        true if b.shape().rank() == 2
            && arranged(&a.layout, &b.layout, out)?.parts.batch.rank() > 0 =>
        {
            (contiguous(a)?, b.clone())
        }
        true => (a.clone(), b.clone()),
        false => (cast(a, compute)?, cast(b, compute)?),
    };
    if dtype.is_int() {
        b = contiguous(&b)?;
    }
    let Arranged {
        parts,
        left,
        right,
        to,
    } = arranged(&a.layout, &b.layout, out)?;
    Ok(Matrices {
        parts,
        compute,
        tiles,
        a,
        left,
        b,
        right,
        to,
    })
}

/// The product: binary32 sums for the half types, rounded once; integers wrap.
///
/// # Errors
/// Out of memory.
pub fn run(args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    if let Some(out) = half_matrix(args, shape, dtype)? {
        return Ok(out);
    }
    let device = array(args, 0)?.buffer.device();
    let mut out = Array::empty(device, shape.clone(), dtype.compute())?;
    run_into(args, &mut out)?;
    cast(&out, dtype)
}

/// The type to which a product copies those operands that have another, before it multiplies them, unless it does so [by
/// tiles](is_by_tiles): the one that it computes in. `None`: it reads its operands as they are, or is one of a vector and a matrix of half precision.
///
/// # Errors
/// The operands are not those of a product.
pub fn copied_to(args: &[ArgMeta<'_>]) -> Result<Option<DType>> {
    let ((a, a_dtype), (b, b_dtype)) = (tensor(args, 0)?, tensor(args, 1)?);
    let parts = Parts::of(a, b)?;
    let compute = a_dtype.promote(b_dtype).compute();
    let as_it_is = compute == a_dtype && compute == b_dtype;
    let matrix = half_operand(&parts, compute).map(|right| if right { b_dtype } else { a_dtype });
    Ok((!as_it_is && !matrix.is_some_and(DType::is_half)).then_some(compute))
}

/// The most bytes that a product holds at once while it runs by itself, its result included; `by_tiles` where it multiplies by the
/// processor's tiles if that pays, else as it does where there are none.
///
/// # Errors
/// The operands are not those of a product.
pub fn held(args: &[ArgMeta<'_>], by_tiles: bool) -> Result<u64> {
    let (shape, dtype) = infer(args)?;
    let compute = dtype.compute();
    let mut copies = 0;
    if let Some(format) = tiles(args)?.filter(|_| by_tiles) {
        let dense = |i| Ok(Layout::contiguous(tensor(args, i)?.0.clone()));
        let parts = arranged(&dense(0)?, &dense(1)?, None)?.parts;
        copies = packed_bytes(parts.sizes, format, [parts.batch.numel(); 2]);
    } else if copied_to(args)?.is_some() {
        for (shape, dtype) in [tensor(args, 0)?, tensor(args, 1)?] {
            let other = dtype != compute;
            copies += if other {
                shape.numel() * compute.size()
            } else {
                0
            };
        }
    }
    let rounded = if dtype == compute { 0 } else { dtype.size() };
    let results = shape.numel() * compute.size();
    Ok((results + copies.max(shape.numel() * rounded)) as u64)
}

/// Whether the matrix of a product of a vector and a matrix is the right operand, if its elements are converted where they
/// are multiplied where it is of half precision.
fn half_operand(parts: &Parts, compute: DType) -> Option<bool> {
    let Sizes { m, n, .. } = parts.sizes;
    let vector = compute == DType::F32 && parts.batch.numel() == 1 && m.min(n) == 1;
    // A column on the right is a row on the left of the transposes.
    vector.then_some(m == 1)
}

/// The product of a vector and a matrix of half precision, whose elements are converted where they are multiplied
/// (scheduler T-02): a converted copy would take three times the matrix's memory traffic. `None`: it is another product.
fn half_matrix(args: &[Arg], shape: &Shape, dtype: DType) -> Result<Option<Array>> {
    let (a, b) = (array(args, 0)?, array(args, 1)?);
    let parts = Parts::of(a.shape(), b.shape())?;
    let Sizes { m, n, .. } = parts.sizes;
    let (x, matrix, columns) = match half_operand(&parts, dtype.compute()) {
        Some(true) => (a, b, n),
        Some(false) => (b, a, m),
        None => return Ok(None),
    };
    match matrix.dtype {
        DType::BF16 => half_matrix_of::<half::bf16>(&parts, x, matrix, columns, shape, dtype),
        DType::F16 => half_matrix_of::<half::f16>(&parts, x, matrix, columns, shape, dtype),
        _ => Ok(None),
    }
}

fn half_matrix_of<W: Weight<f32> + Element>(
    parts: &Parts,
    x: &Array,
    matrix: &Array,
    columns: usize,
    shape: &Shape,
    dtype: DType,
) -> Result<Option<Array>> {
    let Sizes { m, k, .. } = parts.sizes;
    // The last dimensions of the matrix, columns across the result.
    let of = |layout: &Layout| {
        let (sizes, strides) = (layout.shape(), layout.strides());
        let rank = sizes.rank();
        match (rank, m) {
            (0 | 1, _) => None,
            (_, 1) => Some((strides[rank - 2], strides[rank - 1])),
            _ => Some((strides[rank - 1], strides[rank - 2])),
        }
    };
    let Some((row, col)) = of(&matrix.layout) else {
        return Ok(None);
    };
    let x = contiguous(&cast(x, DType::F32)?)?;
    let x = View::dense(elements::<f32>(&x)?, k);
    let b = View {
        data: matrix.buffer.as_slice::<W>(),
        start: matrix.layout.offset(),
        row,
        col,
    };
    let mut out = Array::empty(matrix.buffer.device(), shape.clone(), DType::F32)?;
    if !vector_matrix(k, columns, x, b, elements_mut(&mut out)?) {
        return Ok(None);
    }
    cast(&out, dtype).map(Some)
}

/// The product, written to the window `out` of a type in which products are computed. It may be a part of memory that
/// others share if [`takes_window`] says so; else it is an array that was just made.
///
/// # Errors
/// Out of memory.
pub(crate) fn run_into(args: &[Arg], out: &mut Array) -> Result<()> {
    let m = matrices(args, out.dtype, Some(&out.layout))?;
    if let Some(format) = m.tiles {
        return by_tiles(m, format, out);
    }
    match m.compute {
        DType::F64 => float::<f64>(m, out),
        DType::F32 => float::<f32>(m, out),
        DType::I64 => integer::<i64>(m, out),
        DType::I32 => integer::<i32>(m, out),
        DType::I16 => integer::<i16>(m, out),
        DType::I8 => integer::<i8>(m, out),
        DType::U8 => integer::<u8>(m, out),
        other => Err(Error::internal(format!("a matrix product of {other}"))),
    }
}

/// Whether a product of this type can be written to a window as it is: rows, or the elements of a vector, are dense.
pub(crate) fn takes_window(dtype: DType, window: &Layout) -> bool {
    let dims = window.shape().iter().zip(window.strides());
    let last = dims.rev().find(|(size, _)| **size != 1);
    let forwards = window.strides().iter().all(|&stride| stride >= 0);
    matches!(dtype, DType::F32 | DType::F64)
        && forwards
        && last.is_none_or(|(_, &stride)| stride == 1)
}

/// The product of type `dtype`, a floating-point type, one of whose operands the kernel of `prologue` computes (scheduler
/// T-02), and whose result the kernel of `epilogue` takes up (scheduler T-01) or, without one, `out`. An operand that is
/// computed has a layout, and no memory. In binary32 for the half types, not rounded to them. Without faults: all is done.
///
/// # Errors
/// Out of memory; an internal error where a kernel is not made for the product.
pub fn run_around(
    args: &[Arg],
    dtype: DType,
    prologue: Option<&Prologue<'_>>,
    epilogue: Option<&Epilogue<'_>>,
    out: Option<&Array>,
) -> Result<Faults> {
    let m = matrices(args, dtype, None)?;
    if let Some(format) = m.tiles.filter(|_| prologue.is_none()) {
        let (starts, a, b) = operands(&m, format)?;
        let (s, factors) = (m.parts.sizes, Factors::Tiles(a, b));
        return around::<f32>(s, factors, &starts, prologue, epilogue, out);
    }
    match m.compute {
        DType::F64 => wide_around::<f64>(m, prologue, epilogue, out),
        DType::F32 => wide_around::<f32>(m, prologue, epilogue, out),
        other => Err(Error::internal(format!(
            "kernels around a product of {other}"
        ))),
    }
}

fn wide_around<T: Element + Real>(
    m: Matrices,
    prologue: Option<&Prologue<'_>>,
    epilogue: Option<&Epilogue<'_>>,
    out: Option<&Array>,
) -> Result<Faults> {
    let (starts, a, b) = views::<T>(&m)?;
    let (s, factors) = (m.parts.sizes, Factors::Wide(a, b));
    around(s, factors, &starts, prologue, epilogue, out)
}

fn around<T: Element + Real>(
    s: Sizes,
    factors: Factors<'_, T>,
    starts: &[(usize, usize)],
    prologue: Option<&Prologue<'_>>,
    epilogue: Option<&Epilogue<'_>>,
    out: Option<&Array>,
) -> Result<Faults> {
    let then = match (epilogue, out) {
        (Some(epilogue), _) => Then::Kernel(epilogue),
        (None, Some(out)) if out.numel() == s.m * s.n * starts.len() => {
            Then::Store(in_the_making(out)?)
        }
        _ => return Err(Error::internal("a product that goes nowhere")),
    };
    products_then(s, factors, starts, prologue, then)
}

/// Bytes of scratch memory that [`run_around`] takes for a product of type `dtype`, of operands with these layouts and
/// dtypes, on this thread's number of threads: for the product, if it `passes` from panel to panel without memory of its
/// own, and for the operand that is `computed`; `by_tiles` as for [`held`].
///
/// # Errors
/// The shapes are not those of a product.
pub fn scratch(
    operands: [(&Layout, DType); 2],
    dtype: DType,
    passes: bool,
    computed: Option<usize>,
    by_tiles: bool,
) -> Result<usize> {
    let compute = dtype.compute();
    let metas = operands.map(|(layout, of)| ArgMeta::Tensor(layout.shape(), of));
    if let Some(format) = tiles(&metas)?.filter(|_| by_tiles && computed.is_none()) {
        let [(a, _), (b, _)] = operands;
        return tiles::scratch(arranged(a, b, None)?, format, passes);
    }
    let [a, b] = operands.map(|(layout, of)| match of == compute {
        true => layout.clone(),
        false => Layout::contiguous(layout.shape().clone()),
    });
    let parts = arranged(&a, &b, None)?.parts;
    let (size, count) = (compute.size(), parts.batch.numel());
    let right = computed.map(|operand| operand == 1);
    Ok(scratch_elements(parts.sizes, count, size, passes, right) * size)
}

/// Where the matrices of a batch start, and the distances of rows and columns.
pub(super) fn batched(
    layout: &Layout,
    batch: &Shape,
    rows: usize,
    columns: usize,
) -> Result<(Vec<usize>, isize, isize)> {
    let full: Shape = batch.iter().copied().chain([rows, columns]).collect();
    let spread = layout
        .broadcast_to(&full)
        .ok_or_else(|| Error::internal("batch sizes"))?;
    let strides = spread.strides();
    let rank = batch.rank();
    let lead = Layout::new(batch.clone(), strides[..rank].into(), spread.offset());
    Ok((lead.offsets().collect(), strides[rank], strides[rank + 1]))
}

/// The operands' matrices in memory.
struct Placed<'a, T> {
    /// Where both operands' matrices start in each batch.
    starts: Vec<(usize, usize)>,
    /// All of the left operand's memory with its strides.
    a: View<'a, T>,
    /// All of the right operand's.
    b: View<'a, T>,
    /// The right matrix, where there is one alone.
    one: Option<View<'a, T>>,
}

fn placed<T: Element>(m: &Matrices) -> Result<Placed<'_, T>> {
    let s = m.parts.sizes;
    let (a_starts, row, col) = batched(&m.left, &m.parts.batch, s.m, s.k)?;
    let a = View {
        data: m.a.buffer.as_slice::<T>(),
        start: 0,
        row,
        col,
    };
    let (b_starts, row, col) = batched(&m.right, &m.parts.batch, s.k, s.n)?;
    let b = View {
        data: m.b.buffer.as_slice::<T>(),
        start: 0,
        row,
        col,
    };
    let one = b_starts.first().copied();
    let one = one.filter(|first| b_starts.iter().all(|start| start == first));
    Ok(Placed {
        starts: a_starts.into_iter().zip(b_starts).collect(),
        a,
        b,
        one: one.map(|start| View { start, ..b }),
    })
}

/// The starts of both operands' matrices in each batch, and their views.
type Operands<'a, T> = (Vec<(usize, usize)>, View<'a, T>, Right<'a, T>);

/// The operands, with the panels that a constant keeps of the right one.
fn views<T: Element>(m: &Matrices) -> Result<Operands<'_, T>> {
    let Placed { starts, a, b, one } = placed::<T>(m)?;
    let Sizes { n, k, .. } = m.parts.sizes;
    let panels = one.and_then(|one| packed::panels(&m.b.buffer, one, (k, n)));
    Ok((starts, a, Right { view: b, panels }))
}

fn float<T: Element + Real>(m: Matrices, out: &Array) -> Result<()> {
    let s = m.parts.sizes;
    let (to, row) = places(&m, out)?;
    let (starts, a, b) = views::<T>(&m)?;
    let starts: Vec<Starts> = starts
        .into_iter()
        .zip(to)
        .map(|((a, b), to)| [a, b, to])
        .collect();
    products_into(s, a, b, &starts, &in_the_making(out)?, row)
}

/// Where the matrices of a result start, and the distance of their rows.
fn places(m: &Matrices, out: &Array) -> Result<(Vec<usize>, usize)> {
    let s = m.parts.sizes;
    let to = m.to.as_ref().unwrap_or(&out.layout);
    let (to, row, _) = batched(to, &m.parts.batch, s.m, s.n)?;
    // One row is at a distance from none.
    Ok((to, if s.m == 1 { s.n } else { row as usize }))
}

fn integer<T: Number<Wide = T> + crate::cpu::number::Wide>(
    m: Matrices,
    out: &mut Array,
) -> Result<()> {
    // The right layout describes a dense array, whose matrices start at multiples of their size from its offset.
    let from = m.right.offset();
    let (mut starts, a, _) = views::<T>(&m)?;
    starts.iter_mut().for_each(|start| start.1 -= from);
    integer_products(
        m.parts.sizes,
        a,
        elements::<T>(&m.b)?,
        &starts,
        elements_mut(out)?,
    )
}

#[cfg(test)]
mod tests;
