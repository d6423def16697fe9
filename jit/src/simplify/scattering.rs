//! Scatters as one form: rows of a source that meet rows of a matrix, at one place for each row.
//!
//! The matrix is `[places, width]`, the source `[rows, width]` of the type in which values meet. A device runs it by the
//! stable order of the places: what meets at one place meets in row-major order of the source, as on the CPU, whatever
//! runs when. The order is an operator of its own, which scatters with equal places share. Where another form is faster (by
//! atomic operations, or values sorted with their places, once), it is a scatter along dimension 0 with an index whose
//! rows hold one number each (a view of stride 0). Places are in range. Rows that are assigned at indices are stored by generated loops instead, once the last row of each place is
//! known.

use super::Simplifier;
use super::shaping::{dims, expand, inverse, iota, permute, reshape, slice, value, with_int};
use crate::graph::Graph;
use ferrotrace_kernels::cuda::ScatterForm;
use ferrotrace_kernels::op::{Full, Gather, Index, IndexPut, PlaceOrder, PlaceRows, Scatter};
use ferrotrace_kernels::{BinaryOp, Op, OpBuilder, OpBuilderExt, Operand, ScatterMode, ValueId};
use ferrotrace_runtime::{DType, Error, Result, Scalar, Shape};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The type in which values meet: half types are rounded once, after all of them; truth values add as `or` and
/// multiply as `and`.
fn meeting(dtype: DType, mode: ScatterMode) -> DType {
    match (mode, dtype) {
        (ScatterMode::Assign, dtype) => dtype,
        (ScatterMode::Amax | ScatterMode::Amin, DType::Bool) => DType::U8,
        (_, DType::Bool) => DType::I64,
        (_, dtype) => dtype.compute(),
    }
}

/// The source operand at `i` in this type: a number becomes a tensor.
fn source(b: &mut dyn OpBuilder, args: &[Operand], i: usize, dtype: DType) -> Result<ValueId> {
    match args.get(i) {
        Some(Operand::Value(v)) => b.cast(*v, dtype),
        Some(number) => {
            let shape = Shape::scalar();
            b.push(Op::from(Full { shape, dtype }), &[*number])
        }
        None => Err(Error::argument("a scatter needs a source")),
    }
}

/// Indices of a dimension of `size` among `rank`, counted from the front and checked, as one dimension.
fn checked(b: &mut dyn OpBuilder, index: ValueId, (dim, size): (usize, usize)) -> Result<ValueId> {
    let mut shape = vec![1; dim + 1];
    shape[dim] = size;
    let all = iota(b, &shape, dim)?;
    let n = b.shape(index).numel();
    let op = Op::from(Index {
        axes: SmallVec::from_slice(&[dim as u8]),
        at: dim,
    });
    let taken = b.push(op, &[all.into(), index.into()])?;
    reshape(b, taken, &[n])
}

/// Places times what lies between two of them.
fn times(b: &mut dyn OpBuilder, places: ValueId, stride: i64) -> Result<ValueId> {
    match stride {
        1 => Ok(places),
        stride => with_int(b, BinaryOp::Mul, places, stride),
    }
}

/// Rows of `src` meet those of `x`, `[places, width]`, at `places`, one number for each.
fn rows(
    b: &mut Simplifier<'_>,
    x: ValueId,
    src: ValueId,
    places: ValueId,
    (mode, include_self): (ScatterMode, bool),
) -> Result<ValueId> {
    let shape = dims(b, src);
    let table = b.shape(x)[0];
    // Shorter numbers are sorted in half the time.
    let places = match table.max(shape[0]) <= i32::MAX as usize {
        true => b.cast(places, DType::I32)?,
        false => places,
    };
    let form = ScatterForm {
        dtype: b.dtype(x),
        mode,
        rows: shape[0],
        width: shape[1],
        places: table,
    };
    if form.takes_order(b.dtype(places), b.shares_index) {
        let order = b.keep(Op::from(PlaceOrder { places: table }), &[places.into()])?;
        let op = Op::from(PlaceRows { mode, include_self });
        return b.keep(op, &[x.into(), order.into(), src.into()]);
    }
    let column = reshape(b, places, &[shape[0], 1])?;
    let index = expand(b, column, &shape)?;
    let op = Op::from(Scatter {
        dim: 0,
        mode,
        include_self,
    });
    b.keep(op, &[x.into(), index.into(), src.into()])
}

/// `x` with elements of a source met along a dimension.
pub(super) fn scatter(
    b: &mut Simplifier<'_>,
    (dim, mode, include_self): (usize, ScatterMode, bool),
    args: &[Operand],
) -> Result<ValueId> {
    let (x, index) = (value(args, 0)?, value(args, 1)?);
    let dtype = b.dtype(x);
    if dtype == DType::Bool && mode == ScatterMode::Mean {
        return Err(Error::dtype("the mean of bool is not defined"));
    }
    if b.shape(index).numel() == 0 || b.shape(x).numel() == 0 {
        return Ok(x);
    }
    let whole = dims(b, x);
    let (of, sizes) = match whole.is_empty() {
        true => (vec![1], vec![1]),
        false => (whole.clone(), dims(b, index)),
    };
    let how = meeting(dtype, mode);
    let mut src = source(b, args, 2, how)?;
    if b.shape(src).rank() < sizes.len() {
        src = match b.shape(src).rank() {
            0 => expand(b, src, &sizes)?,
            _ => reshape(b, src, &sizes)?,
        };
    }
    for (d, &n) in sizes.iter().enumerate() {
        src = slice(b, src, d, (0, n), 1)?;
    }
    let wide = b.cast(x, how)?;
    let width: usize = of[1..].iter().product();
    let column = match width {
        1 => Some(index),
        _ => stretched(b, index),
    };
    let of_rows = dim == 0 && sizes[1..] == of[1..];
    let result = if let Some(column) = column.filter(|_| of_rows) {
        // The vector that was stretched, as other scatters by it have it.
        let column = flat(b, column)?;
        let places = checked(b, column, (0, of[0]))?;
        let wide = reshape(b, wide, &[of[0], width])?;
        let src = reshape(b, src, &[sizes[0], width])?;
        rows(b, wide, src, places, (mode, include_self))?
    } else {
        let index = reshape(b, index, &sizes)?;
        let all = iota(b, &of, dim)?;
        let along = b.push(Op::from(Gather { dim }), &[all.into(), index.into()])?;
        let mut place = None;
        let strides = Shape::new(&of).strides();
        for (d, &stride) in strides.iter().enumerate() {
            let i = match d == dim {
                true => along,
                false if sizes[d] == 1 => continue,
                false => iota(b, &sizes, d)?,
            };
            let part = times(b, i, stride as i64)?;
            place = Some(match place {
                None => part,
                Some(sum) => b.add(sum, part)?,
            });
        }
        let place = place.ok_or_else(|| Error::internal("a place of no dimensions"))?;
        let n = sizes.iter().product();
        let places = reshape(b, place, &[n])?;
        let wide = reshape(b, wide, &[of.iter().product(), 1])?;
        let src = reshape(b, src, &[n, 1])?;
        rows(b, wide, src, places, (mode, include_self))?
    };
    let result = reshape(b, result, &whole)?;
    b.cast(result, dtype)
}

/// For each place that is written the last row of a source that is written there: rows that meet are equal then, and are
/// stored in any order.
fn last_at(b: &mut Simplifier<'_>, places: ValueId, table: usize) -> Result<ValueId> {
    let n = b.shape(places).numel();
    let shape = Shape::from([table, 1]);
    let full = Op::from(Full {
        shape,
        dtype: DType::I32,
    });
    let none = b.push(full, &[Operand::Const(Scalar::Int(-1))])?;
    let number = iota(b, &[n, 1], 0)?;
    let number = b.cast(number, DType::I32)?;
    let last = rows(b, none, number, places, (ScatterMode::Amax, true))?;
    let last = reshape(b, last, &[table])?;
    let op = Op::from(Index {
        axes: SmallVec::from_slice(&[0]),
        at: 0,
    });
    b.push(op, &[last.into(), places.into()])
}

/// Whether no two elements of a scatter's source have one place, as sizes tell, and they need no more than to be joined to
/// what is there, in its own type: each is stored in place then, by loops over the source.
pub(super) fn is_apart(b: &dyn OpBuilder, op: &Op, args: &[Operand]) -> bool {
    let numel = |i: usize| match args.get(i) {
        Some(Operand::Value(v)) => b.shape(*v).numel(),
        _ => 1,
    };
    let dtype = match args.first() {
        Some(Operand::Value(x)) => b.dtype(*x),
        _ => return false,
    };
    let (single, mode, include_self) = match (op.as_scatter(), op.as_index_put()) {
        (Some(of), _) => {
            let index = value(args, 1).map(|v| dims(b, v)).unwrap_or_default();
            let along = index.get(of.dim).is_none_or(|&n| n == 1);
            (along && numel(1) > 0, of.mode, of.include_self)
        }
        (_, Some(of)) => {
            let single = (2..args.len()).all(|i| numel(i) == 1);
            let mode = match of.accumulate {
                true => ScatterMode::Sum,
                false => ScatterMode::Assign,
            };
            (single, mode, true)
        }
        _ => return false,
    };
    let joins = match mode {
        ScatterMode::Assign => true,
        ScatterMode::Mean => false,
        _ => include_self && !dtype.is_half() && dtype != DType::Bool,
    };
    single && joins && numel(0) > 0 && numel(1) > 0
}

/// What is stretched over the rows, of an index that is one number a row.
fn stretched(b: &Simplifier<'_>, index: ValueId) -> Option<ValueId> {
    let node = b.graph.node(index);
    let expanded = node.is(|op| op.as_expand().is_some());
    let Some(Operand::Value(x)) = node.args.first().filter(|_| expanded) else {
        return None;
    };
    let (from, to) = (b.shape(*x), &node.shape);
    let is_column =
        from.rank() == to.rank() && from[0] == to[0] && from[1..].iter().all(|&n| n == 1);
    is_column.then_some(*x)
}

/// The vector that a column was made of by views that keep the order of elements, or the column.
fn flat(b: &mut Simplifier<'_>, column: ValueId) -> Result<ValueId> {
    let n = b.shape(column).numel();
    let mut x = column;
    loop {
        let node = b.graph.node(x);
        let keeps_order = |op: &Op| match op.as_view() {
            Some(view) => view.is_reshape() || op.as_expand().is_some(),
            None => false,
        };
        let reshapes = node.is(keeps_order) && node.shape.numel() == n;
        match node.args.first() {
            Some(Operand::Value(from)) if reshapes && b.shape(*from).numel() == n => x = *from,
            _ => break,
        }
        if b.shape(x).rank() == 1 {
            return Ok(x);
        }
    }
    reshape(b, column, &[n])
}

/// The value that an index is a view of, of those that only stretch it or insert dimensions.
fn root(graph: &Graph, mut index: ValueId) -> ValueId {
    loop {
        let node = graph.node(index);
        let views = node.is(|op| op.as_expand().is_some() || op.as_unsqueeze().is_some());
        match node.args.first() {
            Some(Operand::Value(x)) if views => index = *x,
            _ => return index,
        }
    }
}

/// Of each node whether it is a scatter by an index that others scatter by too.
pub(super) fn share_indices(graph: &Graph, live: &[bool]) -> Vec<bool> {
    let index_of = |v: usize| {
        let node = graph.node(ValueId(v as u32));
        let op = node.operator()?;
        let which = match (op.as_scatter(), op.as_index_put()) {
            (Some(_), _) => 1,
            // Several indices are seldom the same.
            (_, Some(_)) if node.args.len() == 3 => 2,
            _ => return None,
        };
        match node.args.get(which) {
            Some(Operand::Value(index)) if live[v] => Some(root(graph, *index)),
            _ => None,
        }
    };
    let mut times = FxHashMap::<ValueId, usize>::default();
    let indices: Vec<_> = (0..live.len()).map(index_of).collect();
    for index in indices.iter().flatten() {
        *times.entry(*index).or_default() += 1;
    }
    let is_shared = |index: Option<ValueId>| index.is_some_and(|index| times[&index] > 1);
    indices.into_iter().map(is_shared).collect()
}

/// The place of each element of a block of indices among all positions of the indexed dimensions.
fn places(
    b: &mut Simplifier<'_>,
    indexed: &[usize],
    (whole, block): (&[usize], &Shape),
    args: &[Operand],
) -> Result<ValueId> {
    let (mut places, mut stride) = (None, 1i64);
    for (which, &axis) in indexed.iter().enumerate().rev() {
        let index = value(args, 2 + which)?;
        let shape = dims(b, index);
        let index = checked(b, index, (axis, whole[axis]))?;
        let index = reshape(b, index, &shape)?;
        let part = times(b, index, stride)?;
        stride *= whole[axis] as i64;
        places = Some(match places {
            None => part,
            Some(sum) => b.add(sum, part)?,
        });
    }
    let places = places.ok_or_else(|| Error::internal("no axis is indexed"))?;
    let places = expand(b, places, block)?;
    reshape(b, places, &[block.numel()])
}

/// `x` with a source written or added at advanced indices.
pub(super) fn index_put(
    b: &mut Simplifier<'_>,
    (axes, at, accumulate): (&[u8], usize, bool),
    args: &[Operand],
) -> Result<ValueId> {
    let x = value(args, 0)?;
    let (dtype, whole) = (b.dtype(x), dims(b, x));
    let mode = match accumulate {
        true => ScatterMode::Sum,
        false => ScatterMode::Assign,
    };
    let how = meeting(dtype, mode);
    let rank = whole.len();
    let indexed: Vec<usize> = axes.iter().map(|&a| a as usize).collect();
    let kept: Vec<usize> = (0..rank).filter(|d| !indexed.contains(d)).collect();
    let mut block = Shape::scalar();
    for i in 2..args.len() {
        let index = value(args, i)?;
        let joined = block.broadcast(b.shape(index));
        block = joined.ok_or_else(|| Error::internal("index shapes"))?;
    }
    let n = block.numel();
    let width: usize = kept.iter().map(|&d| whole[d]).product();
    if n * width == 0 || b.shape(x).numel() == 0 {
        return Ok(x);
    }
    let places = places(b, &indexed, (&whole, &block), args)?;
    let table: usize = indexed.iter().map(|&d| whole[d]).product();
    let few = table <= b.policy.thresholds.last_places.saturating_mul(n);
    let last = match mode == ScatterMode::Assign && few && n <= i32::MAX as usize {
        true => Some(last_at(b, places, table)?),
        false => None,
    };
    // The source as [block, kept..].
    let size = |d: &usize| whole[*d];
    let mut region: Vec<usize> = kept[..at].iter().map(size).collect();
    region.extend_from_slice(&block);
    region.extend(kept[at..].iter().map(size));
    let src = source(b, args, 1, how)?;
    let src = expand(b, src, &region)?;
    let mut order: Vec<usize> = (at..at + block.rank()).collect();
    order.extend((0..region.len()).filter(|d| !(at..at + block.rank()).contains(d)));
    let src = permute(b, src, &order)?;
    let spread = dims(b, src);
    let src = reshape(b, src, &[n, width])?;
    if let Some(last) = last {
        let op = Op::from(Index {
            axes: SmallVec::from_slice(&[0]),
            at: 0,
        });
        let src = b.push(op, &[src.into(), last.into()])?;
        let src = reshape(b, src, &spread)?;
        let src = permute(b, src, &inverse(&order))?;
        let op = Op::from(IndexPut {
            axes: SmallVec::from_slice(axes),
            at,
            accumulate,
        });
        let mut all: SmallVec<[Operand; 6]> = SmallVec::from_slice(&[x.into(), src.into()]);
        all.extend(args[2..].iter().copied());
        let put = b.keep(op, &all)?;
        b.graph.set_commutes(put);
        return Ok(put);
    }
    // The destination as [indexed.., kept..].
    let order: Vec<usize> = indexed.iter().chain(&kept).copied().collect();
    let wide = b.cast(x, how)?;
    let wide = permute(b, wide, &order)?;
    let spread = dims(b, wide);
    let wide = reshape(b, wide, &[table, width])?;
    let result = rows(b, wide, src, places, (mode, true))?;
    let result = reshape(b, result, &spread)?;
    let result = permute(b, result, &inverse(&order))?;
    b.cast(result, dtype)
}
