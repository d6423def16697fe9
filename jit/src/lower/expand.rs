//! Expansion: the value of a node at an index, written into a body.

mod domain;
mod indices;

pub(crate) use indices::PROVED;

use super::{Realized, Site};
use crate::body::{Body, BodyOp, MaskId, Number, Source, Value};
use crate::expr::Expr;
use crate::graph::{Graph, Node, NodeOp};
use domain::Domain;
use ferrotrace_kernels::op::{
    Arange, Cast, Cat, Gather, Index, Iota, Pad, Random, Reduce, Scan, SliceAssign,
};
use ferrotrace_kernels::{
    BinaryOp, Distribution, Op, Operand, ReduceKind, ScanKind, UnaryOp, ValueId, ops::pointwise,
    ops::view,
};
use ferrotrace_runtime::{DType, Error, Result, Scalar, Shape};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Dimensions of a tensor.
type Dims = SmallVec<[usize; 8]>;

/// Writes values of a graph into one body, over loops of these extents.
pub(super) struct Expansion<'a> {
    graph: &'a Graph,
    realized: &'a Realized,
    domain: Domain,
    sites: &'a mut Vec<Site>,
    body: Body,
    known: FxHashMap<(ValueId, Vec<Expr>, Option<MaskId>), Value>,
}

impl<'a> Expansion<'a> {
    pub fn new(
        graph: &'a Graph,
        realized: &'a Realized,
        extents: Vec<usize>,
        sites: &'a mut Vec<Site>,
    ) -> Self {
        Expansion {
            graph,
            realized,
            domain: Domain::new(extents),
            sites,
            body: Body::default(),
            known: FxHashMap::default(),
        }
    }

    pub fn into_body(self) -> Body {
        self.body
    }

    fn ranges(&self) -> &Domain {
        &self.domain
    }

    /// What `f` gives where it is told what variables are under a mask: positions are written by divisions less then.
    fn under<R>(&mut self, mask: Option<MaskId>, f: impl FnOnce(&mut Self) -> R) -> R {
        let conditions = mask.map_or(&[][..], |mask| self.body.mask(mask));
        let narrowed = self.domain.under(conditions);
        let before = std::mem::replace(&mut self.domain, narrowed);
        let result = f(self);
        self.domain = before;
        result
    }

    /// The value of a node at an index: a load if it is stored, else its expansion. Under a mask only its lanes count.
    pub fn value(&mut self, id: ValueId, index: &[Expr], mask: Option<MaskId>) -> Result<Value> {
        let key = (id, index.to_vec(), mask);
        if let Some(&value) = self.known.get(&key) {
            return Ok(value);
        }
        let value = if self.realized.is_stored(id) {
            self.load(id, index, mask)
        } else if let Some(load) = self.load_through(id, index, mask) {
            load
        } else {
            let node = self.graph.node(id);
            let value = self.node(id, index, mask)?;
            match node.rounds() {
                true => self.body.push_rounded(value, node.dtype),
                false => value,
            }
        };
        self.known.insert(key, value);
        Ok(value)
    }

    fn load(&mut self, id: ValueId, index: &[Expr], mask: Option<MaskId>) -> Value {
        let node = self.graph.node(id);
        let source = match node.op {
            NodeOp::Input(n) => Source::Input(n),
            NodeOp::Op(_) => Source::Node(id),
        };
        let layout = self.realized.layout(self.graph, id);
        self.load_at((id, source), (layout.strides(), 0), index, mask)
    }

    /// A load through views at positions that are computed: an index in a tensor says more of them than divisions of what
    /// is known only when the kernel runs.
    fn load_through(&mut self, id: ValueId, index: &[Expr], mask: Option<MaskId>) -> Option<Value> {
        let computed = |e: &Expr| e.follows_from_values();
        if !self.graph.node(id).is(Op::is_view) || !index.iter().any(computed) {
            return None;
        }
        let (source, window) = self.realized.window(self.graph, id)?;
        let start = match source {
            Source::Input(n) => self.graph.inputs()[n as usize].layout.offset(),
            Source::Node(_) => 0,
        };
        let offset = window.offset() as i64 - start as i64;
        Some(self.load_at((id, source), (window.strides(), offset), index, mask))
    }

    fn load_at(
        &mut self,
        (id, source): (ValueId, Source),
        (strides, offset): (&[isize], i64),
        index: &[Expr],
        mask: Option<MaskId>,
    ) -> Value {
        let node = self.graph.node(id);
        let mut position = Expr::from(offset);
        for ((i, &stride), &n) in index.iter().zip(strides).zip(node.shape.iter()) {
            if n != 1 {
                position = position.add(&i.scale(stride as i64));
            }
        }
        let index = position.recombine();
        self.body.push(
            BodyOp::Load {
                source,
                dtype: node.dtype,
                index,
                mask,
            },
            node.dtype.compute(),
        )
    }

    /// The expansion of an operator at an index, not rounded: this is where every operator says what its loops compute.
    pub fn node(&mut self, id: ValueId, index: &[Expr], mask: Option<MaskId>) -> Result<Value> {
        let graph = self.graph;
        let node = graph.node(id);
        let NodeOp::Op(op) = &node.op else {
            return Err(Error::internal("an input is always stored"));
        };
        let value = match op {
            Op::Full(_) => self.number(&node.args[0], node.dtype),
            Op::Arange(Arange { dtype, .. }) => self.arange(node, *dtype, &index[0]),
            Op::Iota(Iota { dim, .. }) => self
                .body
                .push(BodyOp::Index(index[*dim].clone()), DType::I64),
            Op::Random(Random { dist, .. }) => self.random(node, *dist, index),
            Op::Unary(op) => self.unary(node, *op, index, mask)?,
            Op::Binary(op) => self.binary(node, *op, index, mask)?,
            Op::Where => self.where_cond(node, index, mask)?,
            Op::Cast(Cast(dtype)) => {
                let a = self.operand(node, 0, graph.metas(&node.args)[0].dtype(), index, mask)?;
                let a = self.boundary(node, a, 0, *dtype);
                self.cast(a, dtype.compute())
            }
            Op::Reduce(Reduce { kind, .. }) => self.inline_reduction(id, *kind, index, mask)?,
            Op::Scan(Scan { kind, .. }) => self.scan_of_one(node, *kind, index, mask)?,
            Op::Pad(Pad(pads)) => self.pad(node, pads, index, mask)?,
            Op::Cat(Cat { dim }) => self.cat(node, *dim, index, mask)?,
            Op::SliceAssign(SliceAssign {
                dim,
                start,
                end,
                step,
            }) => self.slice_assign(node, (*dim, *start, *end, *step), index, mask)?,
            Op::Repeat(_) => self.repeat(node, index, mask)?,
            Op::Gather(Gather { dim }) => self.gather(id, *dim, index, mask)?,
            Op::Index(Index { axes, at }) => self.index(id, node, axes, *at, index, mask)?,
            Op::Reshape(_)
            | Op::Expand(_)
            | Op::Permute(_)
            | Op::Squeeze(_)
            | Op::Unsqueeze(_)
            | Op::Flatten(_)
            | Op::Slice(_)
            | Op::Narrow(_)
            | Op::Select(_)
            | Op::Flip(_)
            | Op::Barrier
            | Op::Diagonal(_)
            | Op::Unfold(_) => {
                let (x, shape) = self.tensor(node, 0)?;
                let inner = self.through_view(op, &shape, &node.shape, index);
                return self.value(x, &inner, mask);
            }
            // Loops of their own (`scatter.rs`), or calls: stored.
            Op::Scatter(_)
            | Op::IndexPut(_)
            | Op::Matmul
            | Op::SumOfProducts(_)
            | Op::Conv(_)
            | Op::Correlate(_)
            | Op::Pool(_)
            | Op::AdaptiveAvgPool(_)
            | Op::Interpolate(_)
            | Op::Sort(_)
            | Op::ArgSort(_)
            | Op::TopK(_)
            | Op::ArgTopK(_)
            | Op::PlaceOrder(_)
            | Op::PlaceRows(_)
            | Op::Factorisation(_)
            | Op::Fourier(_)
            | Op::Unrounded(_)
            | Op::Program(_)
            | Op::Part(_)
            | Op::Composite(_) => {
                let name = op.name();
                return Err(Error::internal(format!("{name} has no element by index")));
            }
        };
        Ok(value)
    }

    fn unary(
        &mut self,
        node: &Node,
        op: UnaryOp,
        index: &[Expr],
        mask: Option<MaskId>,
    ) -> Result<Value> {
        let compute = pointwise::unary_compute(op, &self.graph.metas(&node.args))?;
        let result = op.result_dtype(compute);
        let a = self.operand(node, 0, compute, index, mask)?;
        let a = self.boundary(node, a, 0, result);
        Ok(self.body.push(BodyOp::Unary(op, a), result.compute()))
    }

    fn binary(
        &mut self,
        node: &Node,
        op: BinaryOp,
        index: &[Expr],
        mask: Option<MaskId>,
    ) -> Result<Value> {
        let compute = pointwise::binary_compute(op, &self.graph.metas(&node.args))?;
        let result = op.result_dtype(compute);
        let a = self.operand(node, 0, compute, index, mask)?;
        let b = self.operand(node, 1, compute, index, mask)?;
        let a = self.boundary(node, a, 0, result);
        let b = self.boundary(node, b, 1, result);
        Ok(self.body.push(BodyOp::Binary(op, a, b), result.compute()))
    }

    fn where_cond(&mut self, node: &Node, index: &[Expr], mask: Option<MaskId>) -> Result<Value> {
        let m = self.operand(node, 0, DType::Bool, index, mask)?;
        let a = self.operand(node, 1, node.dtype, index, mask)?;
        let b = self.operand(node, 2, node.dtype, index, mask)?;
        let op = BodyOp::Select(m, a, b);
        Ok(self.body.push(op, node.dtype.compute()))
    }

    fn repeat(&mut self, node: &Node, index: &[Expr], mask: Option<MaskId>) -> Result<Value> {
        let (x, shape) = self.tensor(node, 0)?;
        let lead = index.len() - shape.rank();
        let along = |d: usize| index[lead + d].modulo(shape[d] as i64, self.ranges());
        let inner: Vec<Expr> = (0..shape.rank()).map(along).collect();
        self.value(x, &inner, mask)
    }

    fn gather(
        &mut self,
        id: ValueId,
        dim: usize,
        index: &[Expr],
        mask: Option<MaskId>,
    ) -> Result<Value> {
        let node = self.graph.node(id);
        let (x, shape) = self.tensor(node, 0)?;
        let (idx, _) = self.tensor(node, 1)?;
        // A 0-d tensor is indexed as one of size 1.
        let size = shape.get(dim).copied().unwrap_or(1);
        let at = self.checked(id, idx, index, (dim, size), mask)?;
        let mut inner = index.to_vec();
        if let Some(along) = inner.get_mut(dim) {
            *along = at.clone();
        }
        let value = self.value(x, &inner, mask)?;
        Ok(self.guarded(value, &[at]))
    }

    pub(super) fn tensor(&self, node: &Node, operand: usize) -> Result<(ValueId, Shape)> {
        match node.args.get(operand) {
            Some(Operand::Value(x)) => Ok((*x, self.graph.node(*x).shape.clone())),
            _ => Err(Error::internal(
                "an operand that must be a tensor is a number",
            )),
        }
    }

    fn number(&mut self, operand: &Operand, dtype: DType) -> Value {
        self.body.push_number(Number::new(*operand, dtype))
    }

    fn cast(&mut self, value: Value, to: DType) -> Value {
        if self.body.value(value).dtype == to {
            return value;
        }
        self.body.push(BodyOp::Cast(value), to)
    }

    /// An operand at the result's index (right-aligned broadcasting), cast to `dtype`.
    pub(super) fn operand(
        &mut self,
        node: &Node,
        which: usize,
        dtype: DType,
        index: &[Expr],
        mask: Option<MaskId>,
    ) -> Result<Value> {
        let Operand::Value(x) = node.args[which] else {
            return Ok(self.number(&node.args[which], dtype));
        };
        let inner = broadcast_index(&self.graph.node(x).shape, index);
        let mut value = self.value(x, &inner, mask)?;
        let from = self.graph.node(x).dtype;
        if !dtype.is_float() {
            value = self.body.push_rounded(value, from);
        }
        let value = self.cast(value, dtype.compute());
        if dtype.is_half() && from != dtype {
            return Ok(self.body.push(BodyOp::Round(value, dtype), DType::F32));
        }
        Ok(value)
    }

    /// A value at an index of its own, cast to `dtype`.
    pub(super) fn element(&mut self, x: ValueId, dtype: DType, index: &[Expr]) -> Result<Value> {
        let mut value = self.value(x, index, None)?;
        let from = self.graph.node(x).dtype;
        if !dtype.is_float() {
            value = self.body.push_rounded(value, from);
        }
        let value = self.cast(value, dtype.compute());
        if dtype.is_half() && from != dtype {
            return Ok(self.body.push(BodyOp::Round(value, dtype), DType::F32));
        }
        Ok(value)
    }

    /// Rounds a half-precision operand where precision becomes visible: comparisons and conversions to integers.
    fn boundary(&mut self, node: &Node, value: Value, which: usize, result: DType) -> Value {
        let Operand::Value(x) = node.args[which] else {
            return value;
        };
        let from = self.graph.node(x).dtype;
        if result.is_float() || self.body.value(value).dtype != DType::F32 {
            return value;
        }
        self.body.push_rounded(value, from)
    }

    /// start + i·step in `I64` where all are integers, else in `F64`.
    fn arange(&mut self, node: &Node, dtype: DType, position: &Expr) -> Value {
        let is_float = |operand: &Operand| match operand {
            Operand::Slot(_, s) | Operand::Const(s) => matches!(s, Scalar::Float(_)),
            Operand::Value(_) => true,
        };
        let wide = if dtype.is_float() || node.args.iter().any(is_float) {
            DType::F64
        } else {
            DType::I64
        };
        let start = self.number(&node.args[0], wide);
        let step = self.number(&node.args[1], wide);
        let i = self.body.push(BodyOp::Index(position.clone()), DType::I64);
        let i = self.cast(i, wide);
        let scaled = self.body.push(BodyOp::Binary(BinaryOp::Mul, i, step), wide);
        let value = self
            .body
            .push(BodyOp::Binary(BinaryOp::Add, start, scaled), wide);
        let value = self.cast(value, dtype.compute());
        if dtype.is_half() {
            self.body.push(BodyOp::Round(value, dtype), DType::F32)
        } else {
            value
        }
    }

    fn random(&mut self, node: &Node, dist: Distribution, index: &[Expr]) -> Value {
        let parameter = match dist {
            Distribution::Int => DType::I64,
            Distribution::Bernoulli => DType::F64,
            _ => node.dtype,
        };
        let mut args: SmallVec<[Value; 4]> = SmallVec::new();
        for (i, operand) in node.args.iter().enumerate() {
            let dtype = if i < 2 { DType::I64 } else { parameter };
            args.push(self.number(operand, dtype));
        }
        let index = flatten(&node.shape, index);
        let op = BodyOp::Random {
            dist,
            dtype: node.dtype,
            args,
            index,
        };
        self.body.push(op, node.dtype.compute())
    }

    /// ir C3: a scan of at most one element is that element.
    fn scan_of_one(
        &mut self,
        node: &Node,
        kind: ScanKind,
        index: &[Expr],
        mask: Option<MaskId>,
    ) -> Result<Value> {
        if matches!(kind, ScanKind::ArgMax | ScanKind::ArgMin) {
            return Ok(self.number(&Operand::Const(Scalar::Int(0)), node.dtype));
        }
        let (x, _) = self.tensor(node, 0)?;
        let value = self.value(x, index, mask)?;
        Ok(self.cast(value, node.dtype.compute()))
    }

    /// ir R6-R8: the fold, left to right over row-major reduced positions, as straight-line code.
    fn inline_reduction(
        &mut self,
        id: ValueId,
        kind: ReduceKind,
        index: &[Expr],
        mask: Option<MaskId>,
    ) -> Result<Value> {
        let graph = self.graph;
        let node = graph.node(id);
        let Some(Reduce {
            mask: dims,
            keepdim,
            ..
        }) = node.operator().and_then(Op::as_reduce)
        else {
            return Err(Error::internal("not a reduction"));
        };
        let (x, shape) = self.tensor(node, 0)?;
        let reduced = |d: usize| dims >> d & 1 == 1;
        let count = super::windowed::reduced_count(graph, id, *dims);
        let accumulate = match kind {
            ReduceKind::Any | ReduceKind::All => DType::Bool,
            ReduceKind::Sum | ReduceKind::Prod | ReduceKind::Mean => node.dtype.compute(),
            _ => graph.node(x).dtype.compute(),
        };
        if count == 0 || matches!(kind, ReduceKind::ArgMax | ReduceKind::ArgMin) {
            let identity = match kind {
                ReduceKind::Prod => Scalar::Int(1),
                ReduceKind::All => Scalar::Bool(true),
                _ => Scalar::Int(0),
            };
            return Ok(self.number(&Operand::Const(identity), node.dtype));
        }
        let mut total = None;
        for flat in 0..count {
            let mut rest = flat;
            let mut inner = vec![Expr::default(); shape.rank()];
            for d in (0..shape.rank()).rev().filter(|&d| reduced(d)) {
                inner[d] = Expr::from((rest % shape[d]) as i64);
                rest /= shape[d];
            }
            let mut next = 0;
            for (d, slot) in inner.iter_mut().enumerate() {
                if !reduced(d) {
                    *slot = index[next].clone();
                }
                next += usize::from(!reduced(d) || *keepdim);
            }
            let value = self.value(x, &inner, mask)?;
            let value = self.cast(value, accumulate);
            let op = match (kind, accumulate) {
                (ReduceKind::Sum | ReduceKind::Mean, _) => BinaryOp::Add,
                (ReduceKind::Prod, _) => BinaryOp::Mul,
                (ReduceKind::Any, _) | (ReduceKind::Max, DType::Bool) => BinaryOp::LogicalOr,
                (ReduceKind::All, _) | (ReduceKind::Min, DType::Bool) => BinaryOp::LogicalAnd,
                (ReduceKind::Max, _) => BinaryOp::Maximum,
                _ => BinaryOp::Minimum,
            };
            total = Some(match total {
                None => value,
                Some(sum) => self.body.push(BodyOp::Binary(op, sum, value), accumulate),
            });
        }
        let mut total = total.ok_or_else(|| Error::internal("an empty fold"))?;
        if matches!(kind, ReduceKind::Sum | ReduceKind::Mean) && accumulate.is_float() {
            // A sum begins with 0, so that of negative zeros it is a positive one.
            let zero = self.number(&Operand::Const(Scalar::Float(0.0)), accumulate);
            total = self
                .body
                .push(BodyOp::Binary(BinaryOp::Add, total, zero), accumulate);
        }
        Ok(self.cast(total, node.dtype.compute()))
    }

    /// Conditions `low ≤ e < high` that the ranges do not prove.
    fn within(&self, e: &Expr, low: i64, high: i64) -> Vec<Expr> {
        let bounds = [e.offset(-low), Expr::from(high - 1).sub(e)];
        bounds
            .into_iter()
            .filter(|b| !b.is_non_negative(self.ranges()))
            .collect()
    }

    fn pad(
        &mut self,
        node: &Node,
        pads: &[(isize, isize)],
        index: &[Expr],
        mask: Option<MaskId>,
    ) -> Result<Value> {
        let (x, shape) = self.tensor(node, 0)?;
        let mut inner = index.to_vec();
        let mut conditions = Vec::new();
        for (d, &(before, _)) in pads.iter().enumerate() {
            inner[d] = index[d].offset(-before as i64);
            conditions.extend(self.within(&inner[d], 0, shape[d] as i64));
        }
        let fill = self.number(&node.args[1], node.dtype);
        if shape.numel() == 0 {
            return Ok(fill);
        }
        let inside = self.body.narrow_mask(mask, &conditions);
        let value = self.under(inside, |this| this.value(x, &inner, inside))?;
        Ok(self.select(conditions, value, fill, node.dtype))
    }

    /// `a` where every condition holds, else `b`; `a` for no condition.
    fn select(&mut self, conditions: Vec<Expr>, a: Value, b: Value, dtype: DType) -> Value {
        let Some(mask) = self.body.push_mask(conditions) else {
            return a;
        };
        let m = self.body.push(BodyOp::Mask(mask), DType::Bool);
        self.body.push(BodyOp::Select(m, a, b), dtype.compute())
    }

    fn cat(
        &mut self,
        node: &Node,
        dim: usize,
        index: &[Expr],
        mask: Option<MaskId>,
    ) -> Result<Value> {
        let mut parts = Vec::new();
        let mut start = 0i64;
        for which in 0..node.args.len() {
            let (x, shape) = self.tensor(node, which)?;
            if shape[dim] > 0 {
                parts.push((x, start, start + shape[dim] as i64));
            }
            start += shape[dim] as i64;
        }
        let mut result = None;
        for &(x, low, high) in parts.iter().rev() {
            let conditions = self.within(&index[dim], low, high);
            let inside = self.body.narrow_mask(mask, &conditions);
            let mut inner = index.to_vec();
            inner[dim] = index[dim].offset(-low);
            let value = self.under(inside, |this| this.value(x, &inner, inside))?;
            let value = self.cast(value, node.dtype.compute());
            result = Some(match result {
                None => value,
                Some(after) => {
                    let before = Expr::from(high - 1).sub(&index[dim]);
                    self.select(vec![before], value, after, node.dtype)
                }
            });
        }
        result.ok_or_else(|| Error::internal("a concatenation without elements"))
    }

    fn slice_assign(
        &mut self,
        node: &Node,
        (dim, start, end, step): (usize, isize, isize, usize),
        index: &[Expr],
        mask: Option<MaskId>,
    ) -> Result<Value> {
        let (x, shape) = self.tensor(node, 0)?;
        let base = self.value(x, index, mask)?;
        let (first, len) = view::clamp_slice(shape[dim], start, end, step);
        if len == 0 {
            return Ok(base);
        }
        let offset = index[dim].offset(-(first as i64));
        let mut conditions = self.within(
            &index[dim],
            first as i64,
            (first + (len - 1) * step + 1) as i64,
        );
        if step > 1 {
            // On the grid of the slice: −(offset mod step) ≥ 0.
            conditions.push(offset.modulo(step as i64, self.ranges()).scale(-1));
        }
        let inside = self.body.narrow_mask(mask, &conditions);
        let mut inner = index.to_vec();
        inner[dim] = offset.floor_div(step as i64, self.ranges());
        let value = self.under(inside, |this| {
            this.operand(node, 1, node.dtype, &inner, inside)
        })?;
        Ok(self.select(conditions, value, base, node.dtype))
    }

    /// The index of a view's operand.
    fn through_view(&self, op: &Op, from: &Shape, to: &Shape, index: &[Expr]) -> Vec<Expr> {
        if let Some(map) = view::view_map(op, from, to) {
            let at = |(base, terms): &view::AffineIndex| {
                let start = Expr::from(*base as i64);
                terms
                    .iter()
                    .fold(start, |e, &(d, c)| e.add(&index[d].scale(c as i64)))
            };
            return map.dims.iter().map(at).collect();
        }
        // Reshapes: through the row-major position (ir V7), of as few dimensions at a time as hold the same elements: an index
        // that is in range within conditions alone has no range by which a position of all could be taken apart.
        let mut inner = vec![Expr::default(); from.rank()];
        for (source, result) in same_elements(from, to) {
            let flat = position(to, index, &result);
            let mut stride = 1i64;
            for &d in source.iter().rev() {
                let quotient = flat.floor_div(stride, self.ranges());
                // codegen A1.2: the outermost needs no modulo.
                inner[d] = match d == source[0] {
                    true => quotient,
                    false => quotient.modulo(from[d] as i64, self.ranges()),
                };
                stride *= from[d] as i64;
            }
        }
        inner
    }
}

/// The dimensions of two shapes of as many elements, but those of size 1, in runs as short as hold as many.
fn same_elements(from: &[usize], to: &[usize]) -> Vec<(Dims, Dims)> {
    let sized = |shape: &[usize]| -> Dims { (0..shape.len()).filter(|&d| shape[d] != 1).collect() };
    let (of, into) = (sized(from), sized(to));
    if from.contains(&0) {
        return vec![(of, into)];
    }
    let mut runs = Vec::new();
    let (mut of, mut into) = (of.into_iter(), into.into_iter());
    while let (Some(d), Some(e)) = (of.next(), into.next()) {
        let (mut source, mut result) = (Dims::from_slice(&[d]), Dims::from_slice(&[e]));
        let (mut a, mut b) = (from[d], to[e]);
        while a != b {
            let (shape, rest, run, product) = match a < b {
                true => (from, &mut of, &mut source, &mut a),
                false => (to, &mut into, &mut result, &mut b),
            };
            let Some(d) = rest.next() else { break };
            *product *= shape[d];
            run.push(d);
        }
        runs.push((source, result));
    }
    runs
}

/// The index of an operand of shape `shape` broadcast (right-aligned) to the index's rank.
pub(super) fn broadcast_index(shape: &Shape, index: &[Expr]) -> Vec<Expr> {
    let lead = index.len() - shape.rank();
    (0..shape.rank())
        .map(|d| {
            if shape[d] == 1 {
                Expr::default()
            } else {
                index[lead + d].clone()
            }
        })
        .collect()
}

/// The row-major position of an index.
fn flatten(shape: &Shape, index: &[Expr]) -> Expr {
    let sized = (0..shape.rank()).filter(|&d| shape[d] != 1);
    position(shape, index, &sized.collect::<Dims>())
}

/// The row-major position along some dimensions, the last of which is the innermost.
fn position(shape: &[usize], index: &[Expr], dims: &[usize]) -> Expr {
    let mut flat = Expr::default();
    let mut stride = 1i64;
    for &d in dims.iter().rev() {
        flat = flat.add(&index[d].scale(stride));
        stride *= shape[d] as i64;
    }
    flat.recombine()
}

#[cfg(test)]
mod tests {
    use super::same_elements;
    use crate::expr::Term;
    use crate::lower::{Lowered, lower};
    use crate::policy::Policy;

    #[test]
    fn runs_of_dimensions_hold_as_many_elements() {
        let of = |from: &[usize], to: &[usize]| -> Vec<(Vec<usize>, Vec<usize>)> {
            let runs = same_elements(from, to).into_iter();
            runs.map(|(a, b)| (a.to_vec(), b.to_vec())).collect()
        };
        let windows = of(&[2, 4, 7, 4, 7, 8], &[2, 28, 28, 8]);
        let want = [
            (vec![0], vec![0]),
            (vec![1, 2], vec![1]),
            (vec![3, 4], vec![2]),
            (vec![5], vec![3]),
        ];
        assert_eq!(windows, want);
        assert_eq!(of(&[6, 1, 4], &[1, 4, 6]), [(vec![0, 2], vec![1, 2])]);
        assert_eq!(of(&[], &[1, 1]), []);
        assert_eq!(of(&[0, 3], &[3, 0]), [(vec![0, 1], vec![0, 1])]);
    }

    // What is rolled is in range within conditions alone. Each part of a window is a quotient or remainder of one variable
    // all the same.
    #[test]
    fn windows_put_back_and_rolled_have_short_indices() {
        let graph = "%0: f32[2, 4, 4, 7, 7, 8] = input 0 [6272, 1568, 392, 56, 8, 1]
             %1: f32[2, 4, 7, 4, 7, 8] = permute(%0) {order: [0, 1, 3, 2, 4, 5]}
             %2: f32[2, 28, 28, 8] = reshape(%1) {to: [2, 28, 28, 8]}
             %3: f32[2, 25, 28, 8] = narrow(%2) {dim: 1, start: 3, len: 25}
             %4: f32[2, 3, 28, 8] = narrow(%2) {dim: 1, start: 0, len: 3}
             %5: f32[2, 28, 28, 8] = cat(%3, %4) {dim: 1}
             %6: f32[2, 28, 25, 8] = narrow(%5) {dim: 2, start: 3, len: 25}
             %7: f32[2, 28, 3, 8] = narrow(%5) {dim: 2, start: 0, len: 3}
             %8: f32[2, 28, 28, 8] = cat(%6, %7) {dim: 2}
             %9: f32[2, 28, 28, 8] = exp(%8)
             return %9";
        let graph = graph.parse().expect("a graph");
        let lowering = lower(&graph, &Policy::default()).expect("nests");
        let [Lowered::Nest(nest)] = &lowering.steps[..] else {
            panic!("one nest")
        };
        let body = &nest.body;
        let all = (0..body.values().len() as u32).flat_map(|v| body.exprs(v));
        let mut parts = 0;
        for (term, _) in all.flat_map(|e| e.terms()) {
            if let Term::Div(of, _) | Term::Mod(of, _) = term {
                assert_eq!(of.terms().len(), 1, "{of}");
                parts += 1;
            }
        }
        // Two of each of four windows.
        assert!(parts >= 8, "{parts}");
    }
}
