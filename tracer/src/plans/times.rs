//! Estimates of what a plan saves a form, and of what making the plan takes.
//!
//! Fusion saves passes over memory, and the passes and the handling of short rows that ready-made kernels of composite
//! operators take. It saves no function of an element and no library call: these take as long in a plan.

use crate::form::{Edge, Form, FormNode};
use ferrotrace_kernels::{Class, Op};
use ferrotrace_runtime::{DType, Pool, Shape};
use smallvec::SmallVec;

/// Rates and times of a kind of device; times in nanoseconds.
pub(super) struct Times {
    /// An operation by itself.
    operation: u64,
    /// An operation of sizes that were not met, which a device has a plan for.
    pub unmet: u64,
    /// Bytes that an operation reads or writes in a nanosecond.
    bytes: u64,
    /// Bytes of an operation that stay in caches; those beyond count twice.
    cached: u64,
    /// Elements in a nanosecond that a composite operator takes beside its bytes, and that one of rows does.
    composite: u64,
    composite_rows: u64,
    /// A row of a reduction along rows, and of a composite operator.
    row: u64,
    composite_row: u64,
    /// A plan, and what each of its operations adds to that, each reduction too, and each that is defined by others, of
    /// elements and of rows.
    plan: u64,
    planned: u64,
    reduction: u64,
    definition: u64,
    definition_rows: u64,
    /// A kernel that the process has not met: an estimate.
    pub kernel: u64,
    /// Whether several threads share an operation of many elements.
    threads: bool,
}

/// Two threads of x86-64 processors of 2021 and 2024: programs of 1 to 13 operations over 20,000 to 10⁶ elements, in rows of
/// 8, 64 and 1000.
const CPU: Times = Times {
    operation: 300,
    unmet: 0,
    bytes: 64,
    cached: 1 << 20,
    composite: 4,
    composite_rows: 3,
    row: 5,
    composite_row: 12,
    plan: 100_000,
    planned: 20_000,
    reduction: 80_000,
    definition: 50_000,
    definition_rows: 250_000,
    kernel: 15_000_000,
    threads: true,
};

/// An H100; programs of 2 to 100 operations.
const DEVICE: Times = Times {
    operation: 20_000,
    unmet: 100_000,
    bytes: 1_000,
    cached: u64::MAX,
    composite: 250,
    composite_rows: 250,
    row: 0,
    composite_row: 0,
    plan: 100_000,
    planned: 40_000,
    reduction: 0,
    definition: 0,
    definition_rows: 0,
    kernel: 50_000_000,
    threads: false,
};

/// Elements of an operation from which on another thread shares it.
const SHARED: u64 = 1 << 16;

/// By how much more threads than two speed an operation up at most: memory is shared.
const MOST_SPEED: f64 = 4.0;

/// An operand or a result.
type Value<'a> = (&'a Shape, DType);

type Operands<'a> = SmallVec<[Value<'a>; 4]>;

fn bytes((shape, dtype): Value<'_>) -> u64 {
    (shape.numel() as u64).saturating_mul(dtype.size() as u64)
}

/// The operand or result of an edge; none of a number.
fn value(form: &Form, edge: Edge) -> Option<Value<'_>> {
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

/// Rows along which an operand is reduced; none where it is reduced along others than its last dimension.
fn reduced_rows(of: &Shape, to: &Shape) -> u64 {
    let last = of.dims().last().copied().unwrap_or(1);
    let along_rows = match of.rank() == to.rank() {
        true => last != 1 && to.dims().last() == Some(&1),
        false => of.dims().starts_with(to.dims()),
    };
    if along_rows { to.numel() as u64 } else { 0 }
}

impl Times {
    pub fn of(form: &Form) -> &'static Times {
        match form.device.is_cpu() {
            true => &CPU,
            false => &DEVICE,
        }
    }

    /// Nanoseconds that passing over so many bytes takes.
    fn pass(&self, bytes: u64) -> u64 {
        bytes.saturating_add(bytes.saturating_sub(self.cached)) / self.bytes
    }

    /// How much faster than two threads an operation over so many elements is.
    fn speed(&self, elements: u64) -> f64 {
        if !self.threads {
            return 1.0;
        }
        let threads = (1 + elements / SHARED).min(Pool::global().threads() as u64);
        (threads as f64 / 2.0).clamp(1.0, MOST_SPEED)
    }

    /// Nanoseconds of an operation that a plan of several may save.
    fn operation(&self, op: &Op, operands: &[Value<'_>], result: Value<'_>) -> u64 {
        if op.is_view() {
            return 0;
        }
        if matches!(op.class(), Class::Library | Class::Window) {
            return self.operation;
        }
        let all = operands.iter().copied().chain([result]);
        let passed = self.pass(all.clone().map(bytes).fold(0, u64::saturating_add));
        let elements = all
            .map(|(shape, _)| shape.numel() as u64)
            .max()
            .unwrap_or(0);
        let is_composite = op.as_composite().is_some();
        let own = match (op.class(), is_composite, operands.first()) {
            (Class::Reduce, false, Some((of, _))) => {
                self.row.saturating_mul(reduced_rows(of, result.0))
            }
            (Class::Reduce, true, Some((of, _))) => {
                let rows = of.numel() / of.dims().last().copied().unwrap_or(1).max(1);
                elements / self.composite_rows + self.composite_row.saturating_mul(rows as u64)
            }
            (_, true, _) => elements / self.composite,
            _ => 0,
        };
        let shared = passed.saturating_add(own) as f64 / self.speed(elements);
        self.operation.saturating_add(shared as u64)
    }

    /// Nanoseconds that a form takes longer operator by operator than by a plan, which passes over what the form reads and
    /// stores alone.
    pub fn gain(&self, form: &Form) -> u64 {
        let operation = |(node, edges): (&FormNode, &[Edge])| {
            let operands: Operands<'_> = edges.iter().filter_map(|&e| value(form, e)).collect();
            let result = (&node.kind.shape, node.kind.dtype);
            self.operation(node.kind.op(), &operands, result)
        };
        let all = form.operands().map(operation).fold(0, u64::saturating_add);
        let leaves = form.leaves.iter().map(|of| (of.layout.shape(), of.dtype));
        let stored = form.outputs.iter().map(|&n| &form.nodes[n as usize].kind);
        let stored = stored.map(|kind| (&kind.shape, kind.dtype));
        let (moved, most) = leaves.chain(stored).fold((0u64, 0), |(all, most), of| {
            (all.saturating_add(bytes(of)), of.0.numel().max(most))
        });
        let pass = self.pass(moved) as f64 / self.speed(most as u64);
        all.saturating_sub(pass as u64)
    }

    /// Nanoseconds that a form's plan takes to make.
    pub fn plan(&self, form: &Form) -> u64 {
        let operation = |node: &FormNode| {
            let op = node.kind.op();
            let is_composite = op.as_composite().is_some();
            match op.class() {
                Class::View => 0,
                Class::Reduce if is_composite => {
                    self.planned + self.reduction + self.definition_rows
                }
                Class::Reduce => self.planned + self.reduction,
                _ if is_composite => self.planned + self.definition,
                _ => self.planned,
            }
        };
        self.plan + form.nodes.iter().map(operation).sum::<u64>()
    }
}
