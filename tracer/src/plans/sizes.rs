//! Forms that differ in sizes alone.
//!
//! A sequence that grows has another form at every step, and text of any length another one each time. A plan is made for
//! sizes that are known, which takes far longer than running a few operations on little data. After [`MOST`] plans for
//! such forms, a new one runs operator by operator, until that has taken as long as making its plan would: sizes that come
//! back get a plan, and sizes of much work get theirs at once. A form that is met [`IN_A_ROW`] times in a row, as in a loop
//! of its own, waits no longer.

use super::{FAMILIES, MOST};
use crate::form::{Edge, Form, FormNode, Mix};
use ferrotrace_kernels::Class;
use ferrotrace_runtime::Shape;
use lru::LruCache;
use once_cell::sync::Lazy;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use std::hash::{Hash, Hasher};

/// How often a form is met in a row until its plan is made. A step of a loop may meet it for each of a few tensors.
const IN_A_ROW: u32 = 8;

/// Nanoseconds that a plan takes to make, and each of its operations adds to that: of programs of 2 to 100 operations, on
/// an x86-64 processor of 2023.
const PLAN: u64 = 100_000;
const PLAN_OPERATION: u64 = 40_000;

/// What running operator by operator takes, in nanoseconds, on that processor and on an H100.
struct Times {
    /// An operation by itself.
    operation: u64,
    /// An operation of sizes that were not met, which a device has a plan for.
    unmet: u64,
    /// Elements that are read or written in a nanosecond, at least. Fusion saves that; products, windows and sorts take as
    /// long in a plan.
    elements: u64,
}

const CPU: Times = Times {
    operation: 300,
    unmet: 0,
    elements: 1,
};
const DEVICE: Times = Times {
    operation: 20_000,
    unmet: 100_000,
    elements: 250,
};

/// Forms met that differ in sizes alone.
#[derive(Debug)]
struct Family {
    /// The sizes of each operation of the last one.
    sizes: Vec<u64>,
    /// Forms that differed from the one before.
    forms: u32,
    /// How often the last one was met in a row.
    in_a_row: u32,
}

/// Families by the hash of their forms without sizes. A collision changes how a form is run, not what it computes.
static FAMILIES_MET: Lazy<Mutex<LruCache<u64, Family>>> =
    Lazy::new(|| Mutex::new(LruCache::new(FAMILIES)));

/// The shape of an operand; none of a number.
fn shape_of(form: &Form, edge: Edge) -> Option<&Shape> {
    match edge {
        Edge::Node(n) => Some(&form.nodes[n as usize].kind.shape),
        Edge::Leaf(n) => Some(form.leaves[n as usize].layout.shape()),
        Edge::Slot(_) => None,
    }
}

/// The hash of what a form is without its sizes, and for each operation that of its result's and operands' sizes. Attributes
/// count as neither: some are sizes.
fn without_sizes(form: &Form) -> (u64, Vec<u64>) {
    let mut rest = Mix::default();
    let mut sizes = Vec::with_capacity(form.nodes.len());
    for (FormNode { kind, .. }, edges) in form.operands() {
        let op = kind.op();
        (std::mem::discriminant(op), op.salt()).hash(&mut rest);
        (kind.dtype, kind.shape.rank()).hash(&mut rest);
        let mut own = Mix::default();
        kind.shape.hash(&mut own);
        for &edge in edges {
            rest.word(edge.code());
            shape_of(form, edge).hash(&mut own);
        }
        sizes.push(own.finish());
    }
    for leaf in &form.leaves {
        (leaf.dtype, leaf.layout.shape().rank()).hash(&mut rest);
    }
    form.outputs.iter().for_each(|&n| rest.word(n as u64));
    form.device.hash(&mut rest);
    (rest.finish(), sizes)
}

/// Nanoseconds that a form takes operator by operator, without what takes as long in a plan; `unmet` operations have sizes
/// that the form before had not.
fn operator_by_operator(form: &Form, unmet: &FxHashSet<u64>) -> u64 {
    let times = if form.device.is_cpu() { CPU } else { DEVICE };
    let time = |(node, edges): (&FormNode, &[Edge])| match node.kind.op().class() {
        Class::View => 0,
        Class::Library | Class::Window => times.operation,
        _ => {
            let shapes = edges.iter().filter_map(|&edge| shape_of(form, edge));
            let shapes = shapes.chain([&node.kind.shape]);
            let touched = shapes.map(Shape::numel).fold(0, usize::saturating_add);
            times.operation + touched as u64 / times.elements
        }
    };
    let all = form.operands().map(time).fold(0, u64::saturating_add);
    all.saturating_add(times.unmet * unmet.len() as u64)
}

/// How often a form runs operator by operator before its plan is made, if more than [`MOST`] forms were met that differ
/// from it in sizes alone.
pub(super) fn runs_without_plan(form: &Form) -> u32 {
    // Attention has a kernel on a device in plans alone; by its definition the scores lie in memory.
    let by_definition = |node: &FormNode| {
        let composite = node.kind.op().as_composite();
        !form.device.is_cpu() && composite.is_some_and(|op| op.entry().has_kernel())
    };
    let is_program = |node: &FormNode| node.kind.op().as_program().is_some();
    if form
        .nodes
        .iter()
        .any(|node| is_program(node) || by_definition(node))
    {
        return 0;
    }
    let (rest, sizes) = without_sizes(form);
    let mut met = FAMILIES_MET.lock();
    let first = || Family {
        sizes: sizes.clone(),
        forms: 1,
        in_a_row: 0,
    };
    let family = met.get_or_insert_mut(rest, first);
    let kinds = form.nodes.iter().map(|node| &node.kind);
    let pairs = kinds.zip(family.sizes.iter().zip(&sizes));
    let unmet = pairs.filter(|(kind, (last, now))| last != now && !kind.op().is_view());
    let unmet: FxHashSet<u64> = unmet.map(|(kind, _)| kind.hash).collect();
    if family.sizes != sizes {
        family.forms = family.forms.saturating_add(1);
        family.sizes = sizes;
        family.in_a_row = 0;
    }
    family.in_a_row += 1;
    if family.forms <= MOST || family.in_a_row > IN_A_ROW {
        return 0;
    }
    drop(met);
    let plan = PLAN + PLAN_OPERATION.saturating_mul(form.nodes.len() as u64);
    let runs = plan / operator_by_operator(form, &unmet).max(1);
    u32::try_from(runs).unwrap_or(u32::MAX)
}
