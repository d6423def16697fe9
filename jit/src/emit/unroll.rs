//! A loop of few turns as straight-line code: the body is written once for each position of the loop, what does not vary
//! along it once for all of them, and a reduction over it is a chain of operations. Where a node reduces over other loops too, they
//! reduce the chain.

use crate::body::{Body, BodyOp, Number, Value};
use crate::expr::{Expr, Term, Var};
use crate::schedule::{FusedNode, Store, moved, roots};
use ferrotrace_kernels::{BinaryOp, Operand, ReduceKind, UnaryOp};
use ferrotrace_runtime::{DType, Scalar};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What a costly function takes, in plain operations.
pub(super) const HEAVY: usize = 16;

/// A node without a variable of few turns. None where a reduction over it is of a kind that has no chain, or where the node
/// computes what depends on the order of a loop.
pub(super) fn unrolled(node: &FusedNode, axis: usize) -> Option<FusedNode> {
    let writes_over = node.stores.iter().any(|store| store.update.is_some());
    let taken_up = node.product.is_some() || node.feeds;
    if writes_over || taken_up || node.exact || node.scans() {
        return None;
    }
    Unrolling::of(node, axis).run()
}

/// What one position of all loops of a node takes, in plain operations, but for its stores.
pub(super) fn work_of(node: &FusedNode) -> usize {
    let values = node.body.values().iter();
    values.map(|value| work(&value.op)).sum()
}

/// What an operation takes, in plain operations.
pub(super) fn work(op: &BodyOp) -> usize {
    match op {
        BodyOp::Number(_) => 0,
        BodyOp::Unary(op, _) if op.heavy() => HEAVY,
        BodyOp::Binary(op, ..) if op.heavy() => HEAVY,
        BodyOp::Random { .. } => HEAVY,
        _ => 1,
    }
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
                let last = self.made.red.is_empty();
                let chain = match &self.node.body.value(v).op {
                    BodyOp::Reduce {
                        kind,
                        value,
                        position: Some(at),
                    } if last => self.extreme(*kind, *value, at)?,
                    BodyOp::Reduce {
                        position: Some(_), ..
                    } => return None,
                    BodyOp::Reduce { kind, value, .. } => {
                        let chain = self.chain(*kind, *value)?;
                        match last {
                            true => self.ended(*kind, chain),
                            false => self.reduced(*kind, chain, v),
                        }
                    }
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

    /// A chain that is a whole reduction: a sum has 0 among its terms, so that of negative zeros it is a positive one.
    fn ended(&mut self, kind: ReduceKind, chain: Value) -> Value {
        let dtype = self.made.body.value(chain).dtype;
        if kind != ReduceKind::Sum || !dtype.is_float() {
            return chain;
        }
        let operand = Operand::Const(Scalar::Float(0.0));
        let zero = self.body().push_number(Number::new(operand, dtype));
        let sum = BodyOp::Binary(BinaryOp::Add, chain, zero);
        self.body().push(sum, dtype)
    }

    /// The reduction of a chain over the other columns, in place of a reduction of the node.
    fn reduced(&mut self, kind: ReduceKind, chain: Value, of: Value) -> Value {
        let dtype = self.node.body.value(of).dtype;
        let op = BodyOp::Reduce {
            kind,
            value: chain,
            position: None,
        };
        self.body().push(op, dtype)
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
