//! Short axes as straight-line code: lanes run along the next loop instead (outer-loop vectorisation, Nuzman and Zaks, 2008).
//!
//! Points of three coordinates, pixels of three colours and softmaxes of four classes leave most lanes of a vector empty,
//! and what they share along the axis is computed in a whole vector for each point. Here the body is written once for each
//! position of the axis, what does not vary along it once for all of them, and a reduction over the axis is a chain of
//! operations.

use crate::body::{Body, BodyOp, Value};
use crate::emit::cpu::lanes::prefers_outer;
use crate::emit::cpu::rows::{Strided, cost_alone, groups};
use crate::expr::{Expr, Term, Var};
use crate::policy::Policy;
use crate::schedule::{FusedNode, Store, moved, roots};
use ferrotrace_kernels::support::{INTERLEAVE, cost_by_rows};
use ferrotrace_kernels::{BinaryOp, ReduceKind, UnaryOp};
use ferrotrace_runtime::DType;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What a costly function takes, in plain operations.
const HEAVY: usize = 16;

/// A fused node without the short axis that lanes would go along: its columns, or the last variable of its rows. The node
/// itself where that axis is not short, or where it computes what depends on the order of a loop.
pub(super) fn unroll_short(node: FusedNode, policy: &Policy) -> FusedNode {
    // Most values take four bytes, which is what a lane of the widest vectors has.
    let lanes = policy.target.vector / 4;
    let most = policy.thresholds.unrolled;
    let Some([axis, next]) = short_axis(&node, lanes, most) else {
        return node;
    };
    if node.body.values().len() > policy.thresholds.unrolled_values {
        return node;
    }
    // What is behind the axis is one place nearer once that is gone.
    let along = Var((next - usize::from(next > axis)) as u32);
    let fits = |made: &FusedNode| {
        let few = made.body.values().len() <= policy.thresholds.unrolled_values;
        // A split row's reductions run at once.
        few && (!made.is_split(policy) || made.moments().is_some())
            && after(made, along, lanes) < before(&node, axis, lanes)
    };
    Unrolling::of(&node, axis)
        .run()
        .filter(fits)
        .unwrap_or(node)
}

/// The variable to unroll, and the one beside it, which lanes then run along.
fn short_axis(node: &FusedNode, lanes: usize, most: usize) -> Option<[usize; 2]> {
    let writes_over = node.stores.iter().any(|store| store.update.is_some());
    let taken_up = node.product.is_some() || node.feeds;
    if writes_over || taken_up || node.exact || node.scans() {
        return None;
    }
    let rows = node.iter.len();
    let outer = node.red.is_empty() || prefers_outer(node);
    let (axis, next) = match (outer, &node.iter[..], &node.red[..]) {
        (true, [.., _, _], []) => (rows - 1, rows - 2),
        (true, [.., _], red @ [.., _]) => (rows - 1, rows + red.len() - 1),
        (false, [.., _], [_]) => (rows, rows - 1),
        _ => return None,
    };
    let extents = node.extents();
    let fits = (2..=most.min(2 * lanes)).contains(&extents[axis]) && extents[next] >= 2 * lanes;
    fits.then_some([axis, next])
}

/// What an operation takes, in plain operations.
fn work(op: &BodyOp) -> usize {
    match op {
        BodyOp::Number(_) => 0,
        BodyOp::Unary(op, _) if op.heavy() => HEAVY,
        BodyOp::Binary(op, ..) if op.heavy() => HEAVY,
        BodyOp::Random { .. } => HEAVY,
        _ => 1,
    }
}

/// What so many positions of the loop beside the axis take where each position of the axis is a lane, in operations.
fn before(node: &FusedNode, axis: usize, lanes: usize) -> usize {
    let values = node.body.values().iter();
    let of_values: usize = values.map(|value| work(&value.op)).sum();
    // A row of its own begins with its indices, and brings the lanes of its reductions together; within a reduction of
    // columns the axis is a vector of an inner loop.
    let around = match (axis < node.iter.len(), node.red.is_empty()) {
        (true, true) => 12,
        (true, false) => 2,
        (false, _) => {
            let reductions = node.body.values().iter();
            let reductions = reductions.filter(|v| matches!(v.op, BodyOp::Reduce { .. }));
            12 + reductions.count() * 2 * lanes.ilog2() as usize
        }
    };
    let vectors = node.extents()[axis].div_ceil(lanes);
    lanes * (vectors * (of_values + node.stores.len()) + around)
}

/// What a vector of positions takes in straight-line code, in which lanes run along a variable.
fn after(made: &FusedNode, along: Var, lanes: usize) -> usize {
    let step = |index: &Expr| index.coefficient(along).unsigned_abs() as usize;
    let mut loads: Vec<Strided<'_>> = Vec::new();
    let mut all = 0;
    for (v, value) in made.body.values().iter().enumerate() {
        all += match &value.op {
            BodyOp::Load { index, .. } if !index.is_affine() => 2 * lanes,
            BodyOp::Load { index, source, .. } => {
                loads.push(Strided {
                    value: v as Value,
                    source: *source,
                    index,
                    step: step(index),
                });
                cost_alone(step(index), lanes)
            }
            op => work(op),
        };
    }
    for group in groups(&loads, lanes) {
        let columns = group.len();
        all -= columns * (cost_alone(columns, lanes) - cost_by_rows(columns, lanes));
    }
    for store in &made.stores {
        let step = step(&store.index);
        let same = |other: &&Store| {
            let apart = other.index.sub(&store.index).as_const();
            let near = apart.is_some_and(|apart| apart.unsigned_abs() < step as u64);
            other.node == store.node && near
        };
        // Stores of all elements of rows are written together.
        let together = made.stores.iter().filter(same).count() == step;
        all += match (step, together && step <= INTERLEAVE.len() + 1) {
            (0 | 1, _) => 1,
            (_, true) => step.min(cost_by_rows(step, lanes)),
            (_, false) => 2 * lanes,
        };
    }
    all
}

/// A choice by conditions that are decided is the value chosen; a load within conditions that hold needs none.
fn decided(body: &mut Body, op: BodyOp, dtype: DType) -> BodyOp {
    match op {
        BodyOp::Select(mask, a, b) => {
            let BodyOp::Mask(conditions) = body.value(mask).op else {
                return op;
            };
            let known = |e: &Expr| e.as_const().map(|c| c >= 0);
            let conditions = body.mask(conditions);
            let chosen = match conditions.iter().any(|e| known(e) == Some(false)) {
                true => b,
                false if conditions.iter().all(|e| known(e) == Some(true)) => a,
                false => return op,
            };
            let chosen = body.value(chosen);
            if chosen.dtype == dtype {
                chosen.op.clone()
            } else {
                op
            }
        }
        BodyOp::Load {
            source,
            dtype,
            index,
            mask: Some(mask),
        } => {
            let holds = |e: &Expr| e.as_const().is_some_and(|c| c >= 0);
            let open = body.mask(mask).iter().filter(|e| !holds(e)).cloned();
            let open: Vec<Expr> = open.collect();
            BodyOp::Load {
                source,
                dtype,
                index,
                mask: body.push_mask(open),
            }
        }
        op => op,
    }
}

/// A variable of a node, and what a reduction is of whose loop it is, once that is known.
struct Unrolling<'a> {
    node: &'a FusedNode,
    axis: usize,
    extent: usize,
    /// The node without the variable, as far as it is made.
    made: FusedNode,
    /// Chains of operations, by the reductions that they take the place of.
    chains: FxHashMap<Value, Value>,
}

impl<'a> Unrolling<'a> {
    fn of(node: &'a FusedNode, axis: usize) -> Unrolling<'a> {
        let (mut iter, mut red) = (node.iter.clone(), node.red.clone());
        let extent = match axis.checked_sub(iter.len()) {
            Some(column) => red.remove(column),
            None => iter.remove(axis),
        };
        let made = FusedNode {
            iter,
            red,
            body: Arc::default(),
            stores: Vec::new(),
            ..node.clone()
        };
        Unrolling {
            node,
            axis,
            extent,
            made,
            chains: FxHashMap::default(),
        }
    }

    fn run(mut self) -> Option<FusedNode> {
        if self.axis >= self.node.iter.len() {
            for v in 0..self.node.body.values().len() as Value {
                let chain = match &self.node.body.value(v).op {
                    BodyOp::Reduce {
                        kind,
                        value,
                        position: Some(at),
                    } => self.extreme(*kind, *value, at)?,
                    BodyOp::Reduce { kind, value, .. } => self.chain(*kind, *value)?,
                    _ => continue,
                };
                self.chains.insert(v, chain);
            }
        }
        for at in 0..self.extent {
            let copies = self.copies(&roots(&self.node.stores), at);
            let extents = self.made.extents();
            let of = |term: &Term| self.placed(term, at);
            let index = |e: &Expr| e.substitute(&of, extents.as_slice());
            let stores = moved(&self.node.stores, copies, &index);
            let known = |store: &Store, all: &[Store]| {
                let same = |s: &Store| s.node == store.node && s.index == store.index;
                all.iter().any(same)
            };
            for store in stores {
                if !known(&store, &self.made.stores) {
                    self.made.stores.push(store);
                }
            }
        }
        self.sweep();
        Some(self.made)
    }

    /// Forgets the values that no store needs: branches that no position of the axis takes.
    fn sweep(&mut self) {
        let extents = self.made.extents();
        let mut body = Body::default();
        let all = roots(&self.made.stores);
        let kept = body.rewrite(&self.made.body, &all, &|_, _, op| op, extents.as_slice());
        // No store has a place that is computed.
        self.made.stores = moved(&self.made.stores, kept, &Expr::clone);
        self.made.body = Arc::new(body);
    }

    /// What takes the place of a variable at a position of the axis.
    fn placed(&self, term: &Term, at: usize) -> Option<Expr> {
        let Term::Var(Var(v)) = term else { return None };
        match (*v as usize).cmp(&self.axis) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal => Some(Expr::from(at as i64)),
            std::cmp::Ordering::Greater => Some(Expr::var(*v as usize - 1)),
        }
    }

    fn body(&mut self) -> &mut Body {
        Arc::make_mut(&mut self.made.body)
    }

    /// Copies of values at a position of the axis.
    fn copies(&mut self, values: &[Value], at: usize) -> Vec<Value> {
        let mut body = std::mem::take(Arc::make_mut(&mut self.made.body));
        let extents = self.made.extents();
        let replace = |body: &mut Body, v: Value, op: BodyOp| match self.chains.get(&v) {
            Some(&chain) => body.value(chain).op.clone(),
            None => decided(body, op, self.node.body.value(v).dtype),
        };
        let of = |term: &Term| self.placed(term, at);
        let from = &self.node.body;
        let copies = body.copy(
            from,
            values,
            &of,
            &|_, _| None,
            &replace,
            extents.as_slice(),
        );
        self.made.body = Arc::new(body);
        copies
    }

    /// A reduction of a value over the axis as a chain of operations.
    fn chain(&mut self, kind: ReduceKind, value: Value) -> Option<Value> {
        let dtype = self.node.body.value(value).dtype;
        let op = match (kind, dtype) {
            (ReduceKind::Sum, _) => BinaryOp::Add,
            (ReduceKind::Prod, _) => BinaryOp::Mul,
            (ReduceKind::Any, DType::Bool) => BinaryOp::LogicalOr,
            (ReduceKind::All, DType::Bool) => BinaryOp::LogicalAnd,
            (ReduceKind::Max, _) => BinaryOp::Maximum,
            (ReduceKind::Min, _) => BinaryOp::Minimum,
            _ => return None,
        };
        let mut chain = self.copies(&[value], 0)[0];
        for at in 1..self.extent {
            let next = self.copies(&[value], at)[0];
            chain = self.body().push(BodyOp::Binary(op, chain, next), dtype);
        }
        Some(chain)
    }

    /// The position of the first extreme of a value over the axis, of the first NaN if there is one.
    fn extreme(&mut self, kind: ReduceKind, value: Value, place: &Expr) -> Option<Value> {
        let better = match kind {
            ReduceKind::ArgMax => BinaryOp::Gt,
            ReduceKind::ArgMin => BinaryOp::Lt,
            _ => return None,
        };
        let dtype = self.node.body.value(value).dtype;
        let place_at = |at: usize| {
            let extents = self.made.extents();
            let place = place.substitute(&|term| self.placed(term, at), extents.as_slice());
            BodyOp::Index(place)
        };
        let places: Vec<BodyOp> = (0..self.extent).map(place_at).collect();
        let mut found: Option<(Value, Value)> = None;
        for (at, place) in places.into_iter().enumerate() {
            let next = self.copies(&[value], at)[0];
            let body = self.body();
            let place = body.push(place, DType::I64);
            let Some((best, position)) = found else {
                found = Some((next, place));
                continue;
            };
            let truth = |body: &mut Body, op| body.push(op, DType::Bool);
            let mut take = truth(body, BodyOp::Binary(better, next, best));
            if dtype.is_float() {
                let nan = truth(body, BodyOp::Unary(UnaryOp::IsNan, next));
                let found = truth(body, BodyOp::Unary(UnaryOp::IsNan, best));
                let number = truth(body, BodyOp::Unary(UnaryOp::LogicalNot, found));
                let first = truth(body, BodyOp::Binary(BinaryOp::LogicalAnd, nan, number));
                take = truth(body, BodyOp::Binary(BinaryOp::LogicalOr, take, first));
            }
            let best = body.push(BodyOp::Select(take, next, best), dtype);
            let position = body.push(BodyOp::Select(take, place, position), DType::I64);
            found = Some((best, position));
        }
        found.map(|(_, position)| position)
    }
}
