//! The order of a fused node's values: what a row computes before each loop over its columns, and what each loop
//! computes.
//!
//! A value's stage is the number of the row's reductions, one after another, that must be finished before it. Values of
//! earlier stages that a loop needs are computed again: arithmetic costs a GPU less than memory to keep them in. Of rows
//! that threads hold in registers, costly ones are kept there.

use crate::body::{BodyOp, Value};
use crate::nest::Update;
use crate::schedule::FusedNode;
use smallvec::SmallVec;

/// One loop over the columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Loop {
    /// Values computed, in order.
    pub compute: Vec<Value>,
    /// Values that an earlier loop left in registers.
    pub restore: Vec<Value>,
    /// Values that it leaves in registers for later loops.
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
}

/// Marks what the marked values need of which `from` holds.
fn close(node: &FusedNode, marked: &mut [bool], from: &dyn Fn(Value) -> bool) {
    for v in (0..marked.len()).rev() {
        if marked[v] && from(v as Value) {
            for operand in node.body.operands(v as Value) {
                marked[operand as usize] = true;
            }
        }
    }
}

/// What the place of a store depends on.
fn place(node: &FusedNode, store: usize) -> SmallVec<[Value; 4]> {
    let at = node.stores[store].update.as_ref().and_then(Update::at);
    at.map_or_else(SmallVec::new, |at| node.body.operands(at))
}

impl Loop {
    /// The values that it reduces, stores, or stores at.
    pub fn roots(&self, node: &FusedNode) -> Vec<Value> {
        let reduced = self.reduces.iter().map(|&r| match node.body.value(r).op {
            BodyOp::Reduce { value, .. } => value,
            _ => r,
        });
        let stored = self.stores.iter().map(|&s| node.stores[s].value);
        let places = self.stores.iter().flat_map(|&s| place(node, s));
        reduced.chain(stored).chain(places).collect()
    }
}

/// Orders the values of a fused node whose needed stores are `stores`.
pub(super) fn stages(node: &FusedNode, stores: &[usize]) -> Stages {
    let body = &node.body;
    let n = body.values().len();
    let dependence = node.dependence();
    let is_inner = |v: Value| dependence[v as usize].inner;
    let mut needed = vec![false; n];
    let place = |s: usize| place(node, s);
    for &s in stores {
        needed[node.stores[s].value as usize] = true;
        place(s).iter().for_each(|&v| needed[v as usize] = true);
    }
    close(node, &mut needed, &|_| true);
    let mut stage = vec![0usize; n];
    for v in 0..n {
        let operands = body.operands(v as Value);
        let of = operands.iter().map(|&o| stage[o as usize]).max();
        let reduces = matches!(body.value(v as Value).op, BodyOp::Reduce { .. });
        stage[v] = of.unwrap_or(0) + usize::from(reduces);
    }
    let last = (0..n).filter(|&v| needed[v]).map(|v| stage[v]).max();
    let count = last.unwrap_or(0) + 1;
    let mut row = vec![Vec::new(); count];
    let mut row_stores = vec![Vec::new(); count];
    let mut loops = vec![Loop::default(); count];
    for v in (0..n).filter(|&v| needed[v]) {
        if !is_inner(v as Value) {
            row[stage[v]].push(v as Value);
        }
        if let BodyOp::Reduce { value, .. } = body.value(v as Value).op {
            loops[stage[value as usize]].reduces.push(v as Value);
        }
    }
    for &s in stores {
        let (store, value) = (&node.stores[s], node.stores[s].value);
        let after = place(s).iter().map(|&v| stage[v as usize]).max();
        let at = stage[value as usize].max(after.unwrap_or(0));
        let looked_up = store.update.as_ref().is_some_and(|u| u.at().is_some());
        if looked_up || is_inner(value) || node.varies(store) {
            loops[at].stores.push(s);
        } else {
            row_stores[at].push(s);
        }
    }
    for l in &mut loops {
        let mut in_loop = vec![false; n];
        for v in l.roots(node) {
            in_loop[v as usize] = true;
        }
        close(node, &mut in_loop, &is_inner);
        let all = 0..n as Value;
        l.compute = all
            .filter(|&v| in_loop[v as usize] && is_inner(v))
            .collect();
    }
    Stages {
        row,
        row_stores,
        loops,
    }
}

impl Stages {
    /// Every value computed.
    pub fn computed(&self) -> Vec<Value> {
        let loops = self.loops.iter().flat_map(|l| &l.compute);
        let mut all: Vec<Value> = self.row.iter().flatten().chain(loops).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// What the first loop computes where its chunks are of rows side by side: a row's values that it needs, too.
    pub fn across(&self, node: &FusedNode) -> Vec<Value> {
        let l = &self.loops[0];
        let mut in_loop = vec![false; node.body.values().len()];
        for v in l.compute.iter().copied().chain(l.roots(node)) {
            in_loop[v as usize] = true;
        }
        close(node, &mut in_loop, &|_| true);
        let all = 0..in_loop.len() as Value;
        all.filter(|&v| in_loop[v as usize]).collect()
    }

    /// Every reduction, in the order they run.
    pub fn reductions(&self) -> Vec<Value> {
        self.loops
            .iter()
            .flat_map(|l| &l.reduces)
            .copied()
            .collect()
    }

    /// Keeps values of columns in registers from the first loop that computes them to the last that needs them, which then
    /// computes nothing for them alone.
    pub fn keep(&mut self, node: &FusedNode, values: &[Value]) {
        if values.is_empty() {
            return;
        }
        for &v in values {
            let first = self.loops.iter().position(|l| l.compute.contains(&v));
            let Some(first) = first else { continue };
            let (before, after) = self.loops.split_at_mut(first + 1);
            before[first].save.push(v);
            for l in after.iter_mut().filter(|l| l.compute.contains(&v)) {
                l.restore.push(v);
            }
        }
        let dependence = node.dependence();
        for l in self.loops.iter_mut().filter(|l| !l.restore.is_empty()) {
            let mut needed = vec![false; node.body.values().len()];
            for v in l.roots(node) {
                needed[v as usize] = true;
            }
            let inner = |v: Value| dependence[v as usize].inner;
            close(node, &mut needed, &|v| inner(v) && !l.restore.contains(&v));
            l.compute
                .retain(|&v| needed[v as usize] && !l.restore.contains(&v));
            l.restore.retain(|&v| needed[v as usize]);
        }
    }

    /// Makes the second loop part of the first, for sums about a mean that need not wait for the mean.
    pub fn join(&mut self) {
        let second = std::mem::take(&mut self.loops[1]);
        let first = &mut self.loops[0];
        first.compute.extend(second.compute);
        first.compute.sort_unstable();
        first.compute.dedup();
        first.reduces.extend(second.reduces);
    }

    /// Makes the second loop's reductions part of the first, for sums of exponentials that follow a running maximum.
    pub fn join_sums(&mut self) {
        let second = std::mem::take(&mut self.loops[1]);
        self.loops[0].reduces.extend(second.reduces);
    }

    /// Whether no loop stores anything.
    pub fn stores_nothing(&self) -> bool {
        self.loops.iter().all(|l| l.stores.is_empty())
    }

    /// Whether chunks of a row's columns can be worked on apart: nothing but row values waits for a reduction.
    pub fn can_split(&self) -> bool {
        self.loops[1..]
            .iter()
            .all(|l| l.reduces.is_empty() && l.stores.is_empty())
    }
}
