//! Forms that differ in sizes alone.
//!
//! A sequence that grows has another form at every step, and text of any length another one each time. A plan is made for
//! sizes that are known, which takes far longer than running a few operations on little data. After [`MOST`] plans for
//! such forms, a new one runs operator by operator, until that has taken as long as making its plan would: sizes that come
//! back get a plan, and sizes of much work get theirs at once.

use crate::form::{Edge, Form, FormNode, Mix};
use ferrotrace_kernels::Class;
use lru::LruCache;
use once_cell::sync::Lazy;
use parking_lot::Mutex;
use std::hash::{Hash, Hasher};
use std::num::NonZeroUsize;

/// Plans made for forms that differ in sizes alone.
const MOST: u32 = 8;

/// Families of such forms that are remembered; the least recently used go first.
const FAMILIES: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// Nanoseconds that a plan takes to make, and each of its operations adds to that: of programs of 2 to 100 operations, on
/// an x86-64 processor of 2023.
const PLAN: u64 = 100_000;
const PLAN_OPERATION: u64 = 40_000;

/// Nanoseconds that an operation takes by itself, and each element that it reads or writes adds to that, at most, by what
/// fusion saves. Products, windows and sorts take as long in a plan.
const OPERATION: u64 = 300;
const ELEMENT: u64 = 1;

/// Forms met that differ in sizes alone.
#[derive(Debug)]
struct Family {
    /// The hash of the last one's sizes.
    sizes: u64,
    /// Forms that differed from the one before.
    forms: u32,
}

/// Families by the hash of their forms without sizes. A collision changes how a form is run, not what it computes.
static FAMILIES_MET: Lazy<Mutex<LruCache<u64, Family>>> =
    Lazy::new(|| Mutex::new(LruCache::new(FAMILIES)));

/// The hashes of what a form is without its sizes, and of those. Attributes count as sizes: some are.
fn without_sizes(form: &Form) -> (u64, u64) {
    let (mut rest, mut sizes) = (Mix::default(), Mix::default());
    for (FormNode { kind, .. }, edges) in form.operands() {
        let op = kind.op();
        (std::mem::discriminant(op), op.salt()).hash(&mut rest);
        (kind.dtype, kind.shape.rank()).hash(&mut rest);
        edges.iter().for_each(|edge| rest.word(edge.code()));
        kind.shape.hash(&mut sizes);
    }
    for leaf in &form.leaves {
        (leaf.dtype, leaf.layout.shape().rank()).hash(&mut rest);
        leaf.layout.shape().hash(&mut sizes);
    }
    form.outputs.iter().for_each(|&n| rest.word(n as u64));
    (rest.finish(), sizes.finish())
}

/// Nanoseconds that a form takes operator by operator, without what takes as long in a plan.
fn operator_by_operator(form: &Form) -> u64 {
    let elements = |edge: &Edge| match *edge {
        Edge::Node(n) => form.nodes[n as usize].kind.shape.numel(),
        Edge::Leaf(n) => form.leaves[n as usize].layout.shape().numel(),
        Edge::Slot(_) => 0,
    };
    let time = |(node, edges): (&FormNode, &[Edge])| match node.kind.op().class() {
        Class::View => 0,
        Class::Library | Class::Window => OPERATION,
        _ => {
            let operands = edges.iter().map(elements).fold(0, usize::saturating_add);
            let touched = operands.saturating_add(node.kind.shape.numel()) as u64;
            touched.saturating_mul(ELEMENT).saturating_add(OPERATION)
        }
    };
    form.operands().map(time).fold(0, u64::saturating_add)
}

/// How often a form runs operator by operator before its plan is made, if more than [`MOST`] forms were met that differ
/// from it in sizes alone.
pub(super) fn runs_without_plan(form: &Form) -> u32 {
    let is_program = |node: &FormNode| node.kind.op().as_program().is_some();
    if !form.device.is_cpu() || form.nodes.iter().any(is_program) {
        return 0;
    }
    let (rest, sizes) = without_sizes(form);
    let mut met = FAMILIES_MET.lock();
    let family = met.get_or_insert_mut(rest, || Family { sizes, forms: 1 });
    if family.sizes != sizes {
        family.forms = family.forms.saturating_add(1);
        family.sizes = sizes;
    }
    if family.forms <= MOST {
        return 0;
    }
    drop(met);
    let plan = PLAN + PLAN_OPERATION.saturating_mul(form.nodes.len() as u64);
    let runs = plan / operator_by_operator(form).max(1);
    u32::try_from(runs).unwrap_or(u32::MAX)
}
