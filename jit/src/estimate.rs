//! How long steps must take: bytes and operations, and the roofline over them (scheduler N-01 to N-05, N-14).
//!
//! Nothing here looks at a clock: a [`Machine`] is a value, so that tests and tools give their own.

use crate::body::BodyOp;
use crate::graph::{Graph, NodeOp};
use crate::lower::Call;
use crate::plan::{Draft, Step};
use crate::schedule::FusedNode;
use ferrotrace_kernels::{BinaryOp, Composite, Op, UnaryOp};
use ferrotrace_runtime::{ConvolutionPart, Device};

/// What a machine does at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Bytes a second, read and written.
    pub bandwidth: f64,
    /// Additions and multiplications of binary32 a second.
    pub peak: f64,
}

impl Machine {
    /// What was measured of a device; `None` where nothing was (scheduler N-04).
    pub fn of(device: &Device) -> Option<Machine> {
        let peak = device.peak()?;
        Machine::measured(device.bandwidth().ok()?, Some(peak))
    }

    /// A machine of these figures; `None` if one is missing or 0.
    pub fn measured(bandwidth: u64, peak: Option<u64>) -> Option<Machine> {
        let peak = peak.filter(|&peak| peak > 0 && bandwidth > 0)?;
        Some(Machine {
            bandwidth: bandwidth as f64,
            peak: peak as f64,
        })
    }
}

/// A time, in nanoseconds (scheduler N-03).
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Nanoseconds(pub f64);

/// What a step waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Memory.
    Memory,
    /// Arithmetic.
    Arithmetic,
}

/// What a step must at least do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Bytes read and written.
    pub bytes: u64,
    /// Additions and multiplications, or what counts as so many (see [`Weights`]).
    pub operations: u64,
}

impl Work {
    /// The time that neither memory nor arithmetic lets it fall below, and which of the two.
    ///
    /// ```
    /// use ferrotrace_jit::{Bound, Machine, Nanoseconds, Work};
    /// let machine = Machine { bandwidth: 1e9, peak: 4e9 };
    /// let work = Work { bytes: 1000, operations: 2000 };
    /// assert_eq!(work.time(&machine), (Nanoseconds(1000.0), Bound::Memory));
    /// ```
    pub fn time(self, machine: &Machine) -> (Nanoseconds, Bound) {
        let memory = 1e9 * self.bytes as f64 / machine.bandwidth;
        let arithmetic = 1e9 * self.operations as f64 / machine.peak;
        match memory >= arithmetic {
            true => (Nanoseconds(memory), Bound::Memory),
            false => (Nanoseconds(arithmetic), Bound::Arithmetic),
        }
    }

    /// Of two steps.
    pub fn and(self, other: Work) -> Work {
        Work {
            bytes: self.bytes.saturating_add(other.bytes),
            operations: self.operations.saturating_add(other.operations),
        }
    }
}

/// How many additions a costlier operation counts as.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    /// A division or root.
    pub division: u64,
    /// A function such as `exp`, and a random number.
    pub function: u64,
}

/// The text of `exp` has some 16 instructions; the throughput of vector divisions is a quarter to an eighth of additions'.
pub const WEIGHTS: Weights = Weights {
    division: 4,
    function: 16,
};

fn of_unary(op: UnaryOp) -> u64 {
    match op {
        UnaryOp::Sqrt | UnaryOp::Rsqrt | UnaryOp::Recip => WEIGHTS.division,
        op if op.heavy() => WEIGHTS.function,
        _ => 1,
    }
}

fn of_binary(op: BinaryOp) -> u64 {
    match op {
        BinaryOp::Div => WEIGHTS.division,
        op if op.heavy() => WEIGHTS.function,
        _ => 1,
    }
}

/// Operations of a kernel, each value computed once: what differs within a row counts at every column, what does not
/// once a row.
pub fn of_kernel(kernel: &FusedNode) -> u64 {
    let (rows, columns) = (kernel.rows() as u64, kernel.cols() as u64);
    let dependence = kernel.dependence();
    let values = kernel.body.values().iter().zip(dependence);
    let operations = values.map(|(value, of)| {
        let weight = match &value.op {
            BodyOp::Unary(op, _) => of_unary(*op),
            BodyOp::Binary(op, ..) => of_binary(*op),
            BodyOp::Divide(..) => 1,
            BodyOp::Random { .. } => WEIGHTS.function,
            BodyOp::Select(..)
            | BodyOp::Cast(_)
            | BodyOp::Round(..)
            | BodyOp::Check { .. }
            | BodyOp::Reduce { .. }
            | BodyOp::Scan { .. } => 1,
            BodyOp::Load { .. } | BodyOp::Number(_) | BodyOp::Index(_) | BodyOp::Mask(_) => 0,
        };
        let reduces = matches!(value.op, BodyOp::Reduce { .. });
        let times = if of.inner || reduces { columns } else { 1 };
        weight.saturating_mul(rows).saturating_mul(times)
    });
    operations.fold(0, u64::saturating_add)
}

/// Operations of a node that a ready-made kernel computes (scheduler N-02, codegen B14.2).
pub fn of_call(graph: &Graph, call: &Call) -> u64 {
    let node = graph.node(call.node);
    let NodeOp::Op(op) = &node.op else { return 0 };
    let operands: Vec<_> = graph
        .operands(call.node)
        .map(|v| &graph.node(v).shape)
        .collect();
    let result = node.shape.numel() as u64;
    let numel = |i: usize| operands.get(i).map_or(0, |shape| shape.numel() as u64);
    let size = |i: usize, d: usize| {
        operands
            .get(i)
            .and_then(|s| s.get(d))
            .map_or(1, |&n| n as u64)
    };
    let last = |i: usize, back: usize| {
        let rank = operands.get(i).map_or(0, |shape| shape.rank());
        rank.checked_sub(back).map_or(1, |d| size(i, d))
    };
    match op {
        // 2 m n k for each product.
        Op::Matmul => 2 * result * last(0, 1),
        // A weight is [out, in / groups, ..]; transposed [in, out / groups, ..], and every input meets its row.
        Op::Conv(spec) if spec.transposed => 2 * numel(0) * (numel(1) / size(1, 0).max(1)),
        Op::Conv(_) => 2 * result * (numel(1) / size(1, 0).max(1)),
        Op::Correlate(op) => {
            let (y, w) = match op.part {
                ConvolutionPart::Result => (result, numel(1) / size(1, 0).max(1)),
                ConvolutionPart::Input => (numel(0), numel(1) / size(1, 0).max(1)),
                ConvolutionPart::Weight => (numel(1), result / node.shape[0].max(1) as u64),
            };
            2 * y * w
        }
        Op::Pool(spec) => result * spec.kernel.iter().product::<usize>() as u64,
        Op::Sort { dim, .. }
        | Op::ArgSort { dim, .. }
        | Op::TopK { dim, .. }
        | Op::ArgTopK { dim, .. } => {
            let n = size(0, *dim).max(2);
            numel(0) * u64::from(n.next_power_of_two().ilog2())
        }
        // Scores, their softmax, and the weighted sum of the values.
        Op::Composite(Composite::Attention { .. }) => {
            let (queries, keys) = (numel(0) / last(0, 1).max(1), last(1, 2));
            let of_a_score = 2 * last(0, 1) + WEIGHTS.function + 3 + 2 * last(2, 1);
            queries * keys * of_a_score
        }
        Op::Cat { .. } => 0,
        _ => result.max(numel(0)),
    }
}

/// Operations of a step.
pub fn of_step(draft: &Draft, step: &Step) -> u64 {
    let call = step.call().map_or(0, |call| of_call(&draft.graph, call));
    let kernel = step.kernel().map_or(0, |kernel| {
        let before = kernel.before.iter().map(of_kernel).sum::<u64>();
        of_kernel(&kernel.node)
            .saturating_add(kernel.products)
            .saturating_add(before)
    });
    let before = step.before().map_or(0, |b| of_kernel(&b.kernel.node));
    call.saturating_add(kernel).saturating_add(before)
}
