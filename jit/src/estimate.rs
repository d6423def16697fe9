//! How long steps must take: bytes and operations, and the roofline over them (scheduler N-01 to N-05, N-14).
//!
//! Nothing here looks at a clock: a [`Machine`] is a value, so that tests and tools give their own.

use crate::body::BodyOp;
use crate::graph::{Graph, NodeOp};
use crate::lower::Call;
use crate::schedule::FusedNode;
use ferrotrace_kernels::Sizes;
pub use ferrotrace_kernels::{WEIGHTS, Weights};
use ferrotrace_runtime::Device;

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

/// Operations of a kernel, each value computed once: what differs within a row counts at every column, what does not
/// once a row.
pub fn of_kernel(kernel: &FusedNode) -> u64 {
    let (rows, columns) = (kernel.rows() as u64, kernel.cols() as u64);
    let dependence = kernel.dependence();
    let values = kernel.body.values().iter().zip(dependence);
    let operations = values.map(|(value, of)| {
        let weight = match &value.op {
            BodyOp::Unary(op, _) => op.work(),
            BodyOp::Binary(op, ..) => op.work(),
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
    op.entry().work(&Sizes {
        operands: &operands,
        result: &node.shape,
    })
}
