//! Loops over the columns of a row: which values each computes, and which are kept from one to the next
//! (codegen A5.5, A3.6, A3.7).
//!
//! A value's stage is the number of the row's reductions that must be finished before it, one after another. Stage `s`
//! of a kernel first computes the row's values of that stage, then runs one loop over the columns for the reductions
//! and stores of that stage. A value of an earlier stage that a later loop needs is computed again, unless it is
//! expensive: then the loop that first computes it keeps it in a scratch row.

use crate::body::{BodyOp, Value};
use crate::nest::Update;
use crate::schedule::FusedNode;
use ferrotrace_kernels::ReduceKind;
use smallvec::SmallVec;

/// One loop over the columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Loop {
    /// Values computed, in order.
    pub compute: Vec<Value>,
    /// Values read back from scratch rows.
    pub restore: Vec<Value>,
    /// Values written to scratch rows.
    pub save: Vec<Value>,
    /// Reductions that run.
    pub reduces: Vec<Value>,
    /// Stores of values that vary by column: positions among the node's stores.
    pub stores: Vec<usize>,
}

/// The whole kernel, stage by stage.
#[derive(Clone, Debug)]
pub(super) struct Stages {
    /// Values of a row computed before the loop of their stage, in order.
    pub row: Vec<Vec<Value>>,
    /// Stores of row values, by stage.
    pub row_stores: Vec<Vec<usize>>,
    /// The loops.
    pub loops: Vec<Loop>,
    /// Values with a scratch row.
    pub saved: Vec<Value>,
}

/// Orders the values of a fused node whose needed stores are `stores`.
pub(super) fn stages(node: &FusedNode, stores: &[usize]) -> Stages {
    let sorting = Sorting::of(node, stores);
    let (row, row_stores, mut loops) = sorting.placed(stores);
    // What each loop needs, everything computed again.
    let full = |l: &Loop| sorting.closed(&sorting.roots(l), &|_| false);
    let full: Vec<Vec<bool>> = loops.iter().map(full).collect();
    let first: Vec<usize> = (0..sorting.stage.len())
        .map(|v| full.iter().position(|l| l[v]).unwrap_or(usize::MAX))
        .collect();
    let saved = sorting.saved(&loops, &full, &first);
    for (s, l) in loops.iter_mut().enumerate() {
        let restored = |v: Value| saved.contains(&v) && first[v as usize] < s;
        let mut roots = sorting.roots(l);
        let kept = saved.iter().copied();
        l.save = kept.filter(|&v| first[v as usize] == s).collect();
        roots.extend(&l.save);
        let in_loop = sorting.closed(&roots, &restored);
        let values = (0..in_loop.len()).filter(|&v| in_loop[v]);
        let (restore, compute) = values.map(|v| v as Value).partition(|&v| restored(v));
        (l.restore, l.compute) = (restore, compute);
    }
    Stages {
        row,
        row_stores,
        loops,
        saved,
    }
}

/// A fused node while its values are put in order. Lists are by value.
struct Sorting<'a> {
    node: &'a FusedNode,
    /// Whether it varies within a row.
    inner: Vec<bool>,
    /// Whether a store needs it.
    needed: Vec<bool>,
    /// Its stage.
    stage: Vec<usize>,
}

impl<'a> Sorting<'a> {
    fn of(node: &'a FusedNode, stores: &[usize]) -> Sorting<'a> {
        let body = &node.body;
        let n = body.values().len();
        let mut sorting = Sorting {
            node,
            inner: node.dependence().iter().map(|d| d.inner).collect(),
            needed: vec![false; n],
            stage: vec![0; n],
        };
        for &s in stores {
            sorting.needed[node.stores[s].value as usize] = true;
            for v in sorting.places(s) {
                sorting.needed[v as usize] = true;
            }
        }
        for v in (0..n).rev() {
            if sorting.needed[v] {
                for operand in body.operands(v as Value) {
                    sorting.needed[operand as usize] = true;
                }
            }
        }
        for v in 0..n {
            let operands = body.operands(v as Value);
            let before = operands.iter().map(|&o| sorting.stage[o as usize]).max();
            let reduces = matches!(body.value(v as Value).op, BodyOp::Reduce { .. });
            sorting.stage[v] = before.unwrap_or(0) + usize::from(reduces);
        }
        sorting
    }

    /// The value that says where a store's elements go, if one does.
    fn at(&self, store: usize) -> Option<Value> {
        let update = self.node.stores[store].update.as_ref();
        update.and_then(Update::at)
    }

    /// What the place of a scatter is computed of: its index value is printed where it stores.
    fn places(&self, store: usize) -> SmallVec<[Value; 4]> {
        let operands = |at| self.node.body.operands(at);
        self.at(store).map_or_else(Default::default, operands)
    }

    /// Row values and stores of each stage, and the reductions and stores of its loop.
    fn placed(&self, stores: &[usize]) -> (Vec<Vec<Value>>, Vec<Vec<usize>>, Vec<Loop>) {
        let Sorting {
            node,
            inner,
            needed,
            stage,
        } = self;
        let of_needed = || (0..stage.len()).filter(|&v| needed[v]);
        let count = of_needed().map(|v| stage[v]).max().unwrap_or(0) + 1;
        let mut row = vec![Vec::new(); count];
        let mut row_stores = vec![Vec::new(); count];
        let mut loops = vec![Loop::default(); count];
        for v in of_needed() {
            if !inner[v] {
                row[stage[v]].push(v as Value);
            }
            if let BodyOp::Reduce { value, .. } = node.body.value(v as Value).op {
                loops[stage[value as usize]].reduces.push(v as Value);
            }
        }
        for &s in stores {
            let value = node.stores[s].value as usize;
            if self.at(s).is_some() {
                let places = self.places(s);
                let last = places.into_iter().map(|v| stage[v as usize]).max();
                let last = last.unwrap_or(0).max(stage[value]);
                loops[last].stores.push(s);
            } else if inner[value] || node.varies(&node.stores[s]) {
                loops[stage[value]].stores.push(s);
            } else {
                row_stores[stage[value]].push(s);
            }
        }
        (row, row_stores, loops)
    }

    /// The values of columns that a loop reduces, stores, or stores at.
    fn roots(&self, l: &Loop) -> Vec<Value> {
        let node = self.node;
        let reduced = l.reduces.iter().map(|&r| match node.body.value(r).op {
            BodyOp::Reduce { value, .. } => value,
            _ => r,
        });
        let stored = l.stores.iter().map(|&s| node.stores[s].value);
        let places = l.stores.iter().flat_map(|&s| self.places(s));
        let all = reduced.chain(stored).chain(places);
        all.filter(|&v| self.inner[v as usize]).collect()
    }

    /// By value, whether it is among these or something in a row that they need; what `stop` holds of needs nothing.
    fn closed(&self, roots: &[Value], stop: &dyn Fn(Value) -> bool) -> Vec<bool> {
        let mut in_loop = vec![false; self.stage.len()];
        for &r in roots {
            in_loop[r as usize] = true;
        }
        for v in (0..in_loop.len()).rev() {
            if in_loop[v] && !stop(v as Value) {
                for operand in self.node.body.operands(v as Value) {
                    in_loop[operand as usize] |= self.inner[operand as usize];
                }
            }
        }
        in_loop
    }

    /// Costly values that a loop computes and a later one uses. `full` says for each loop what it needs, and `first`
    /// of each value which loop is the first that does.
    fn saved(&self, loops: &[Loop], full: &[Vec<bool>], first: &[usize]) -> Vec<Value> {
        let body = &self.node.body;
        let n = self.stage.len();
        let mut heavy = vec![false; n];
        for v in 0..n {
            let costly = |&o: &Value| self.inner[o as usize] && heavy[o as usize];
            heavy[v] = body.value(v as Value).op.is_heavy()
                || body.operands(v as Value).iter().any(costly);
        }
        let mut saved: Vec<Value> = Vec::new();
        for (s, in_loop) in full.iter().enumerate() {
            let old = |v: usize| first[v] < s;
            let roots = self.roots(&loops[s]);
            for v in (0..n).filter(|&v| in_loop[v] && old(v) && heavy[v]) {
                let uses = |u: usize| body.operands(u as Value).contains(&(v as Value));
                let used_here = roots.contains(&(v as Value))
                    || (0..n).any(|u| in_loop[u] && !old(u) && uses(u));
                if used_here && !saved.contains(&(v as Value)) {
                    saved.push(v as Value);
                }
            }
        }
        saved
    }
}

/// Whether the reduction keeps a position beside its value.
pub(super) fn has_position(kind: ReduceKind) -> bool {
    matches!(kind, ReduceKind::ArgMax | ReduceKind::ArgMin)
}
