//! Forms that differ in sizes alone.
//!
//! A sequence that grows has another form at every step, and text of any length another one each time. A plan is made for
//! sizes that are known, which takes far longer than running a few operations on little data. After [`MOST`] plans for
//! such forms, a new one runs operator by operator, until that has taken as long as making its plan would: sizes that come
//! back get a plan, and sizes of much work get theirs at once. A form that is met [`IN_A_ROW`] times in a row, as in a loop
//! of its own, waits no longer.

use super::{FAMILIES, MOST};
use crate::form::{Edge, Form, FormNode, Mix};
use ferrotrace_kernels::{Class, Op};
use ferrotrace_runtime::{DType, Shape};
use lru::LruCache;
use once_cell::sync::Lazy;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;
use std::hash::{Hash, Hasher};

/// How often a form is met in a row until its plan is made. A step of a loop may meet it for each of a few tensors.
const IN_A_ROW: u32 = 8;

/// What running operator by operator takes, and what making a plan takes, in nanoseconds. Kernels are known: those of a
/// family are compiled for its first plans.
struct Times {
    /// An operation by itself.
    operation: u64,
    /// An operation of sizes that were not met, which a device has a plan for.
    unmet: u64,
    /// Bytes that an operation reads or writes in a nanosecond that moves elements, is light, or is a reduction, and elements
    /// that another does. Fusion saves that; products, windows and sorts take as long in a plan.
    bytes: u64,
    elements: u64,
    /// A plan, and what each of its operations adds to that, each reduction too, and each that is defined by others.
    plan: u64,
    planned: u64,
    reduction: u64,
    definition: u64,
}

/// Two threads of an x86-64 processor of 2024, data in its caches: programs of 1 to 6 operations over 100 to 10⁶ elements.
const CPU: Times = Times {
    operation: 300,
    unmet: 0,
    bytes: 64,
    elements: 4,
    plan: 20_000,
    planned: 5_000,
    reduction: 30_000,
    definition: 70_000,
};

/// An H100; programs of 2 to 100 operations.
const DEVICE: Times = Times {
    operation: 20_000,
    unmet: 100_000,
    bytes: 1_000,
    elements: 250,
    plan: 100_000,
    planned: 40_000,
    reduction: 0,
    definition: 0,
};

impl Times {
    fn of(form: &Form) -> &'static Times {
        match form.device.is_cpu() {
            true => &CPU,
            false => &DEVICE,
        }
    }

    /// Nanoseconds that an operation takes that reads and writes values of these numbers of elements and dtypes.
    fn operation(&self, op: &Op, values: impl Iterator<Item = (usize, DType)>) -> u64 {
        let work = |rate: u64, size: fn(DType) -> usize| {
            let sizes = values.map(|(count, dtype)| count.saturating_mul(size(dtype)));
            self.operation + sizes.fold(0, usize::saturating_add) as u64 / rate
        };
        match op.class() {
            Class::View => 0,
            Class::Library | Class::Window => self.operation,
            Class::Create | Class::Arrange => work(self.bytes, DType::size),
            Class::Pointwise if op.entry().is_light() => work(self.bytes, DType::size),
            Class::Reduce if op.as_composite().is_none() => work(self.bytes, DType::size),
            _ => work(self.elements, |_| 1),
        }
    }

    /// Nanoseconds that a form's plan takes to make.
    fn plan(&self, form: &Form) -> u64 {
        let operation = |node: &FormNode| {
            let op = node.kind.op();
            match (op.class(), op.as_composite()) {
                (Class::View, _) => 0,
                (Class::Reduce, None) => self.planned + self.reduction,
                (Class::Reduce, Some(_)) => self.planned + self.reduction + self.definition,
                _ => self.planned,
            }
        };
        self.plan + form.nodes.iter().map(operation).sum::<u64>()
    }
}

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

/// The shape and dtype of an operand; none of a number.
fn operand(form: &Form, edge: Edge) -> Option<(&Shape, DType)> {
    match edge {
        Edge::Node(n) => {
            let kind = &form.nodes[n as usize].kind;
            Some((&kind.shape, kind.dtype))
        }
        Edge::Leaf(n) => {
            let leaf = &form.leaves[n as usize];
            Some((leaf.layout.shape(), leaf.dtype))
        }
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
            operand(form, edge).map(|of| of.0).hash(&mut own);
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
    let times = Times::of(form);
    let time = |(node, edges): (&FormNode, &[Edge])| {
        let operands = edges.iter().filter_map(|&edge| operand(form, edge));
        let all = operands.chain([(&node.kind.shape, node.kind.dtype)]);
        let values = all.map(|(shape, dtype)| (shape.numel(), dtype));
        times.operation(node.kind.op(), values)
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
    let plan = Times::of(form).plan(form);
    let runs = plan / operator_by_operator(form, &unmet).max(1);
    u32::try_from(runs).unwrap_or(u32::MAX)
}
