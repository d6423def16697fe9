//! Reductions as CUDA C++: a thread's accumulators. Their combination over the threads of a row (`gather.rs`), and over
//! the pieces of one (`slots.rs`), has an order that depends on sizes alone, so that a program gives the same bits on
//! every device.

mod compensated;
mod gather;
mod slots;

use super::kernel::Writer;
use crate::body::{BodyOp, Value};
use ferrotrace_kernels::support::scalar_type;
use ferrotrace_kernels::{BinaryOp, ReduceKind};
use ferrotrace_runtime::DType;
use std::fmt::Write as _;

pub(super) use slots::SLOT;

/// A reduction of a fused node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reduction {
    /// Its value number.
    pub id: Value,
    /// What is reduced.
    pub value: Value,
    /// What is computed.
    pub kind: ReduceKind,
    /// The accumulator's type: that of the values.
    pub dtype: DType,
    /// Whether it is the fold of a scan.
    pub scan: bool,
}

impl Reduction {
    /// Whether a position is kept beside the value.
    pub fn has_position(&self) -> bool {
        matches!(self.kind, ReduceKind::ArgMax | ReduceKind::ArgMin)
    }

    /// The value that no element changes.
    pub fn identity(&self) -> String {
        let (least, greatest) = match self.dtype {
            DType::F32 => ("__int_as_float(0xff800000)", "__int_as_float(0x7f800000)"),
            DType::F64 => (
                "__longlong_as_double(0xfff0000000000000LL)",
                "__longlong_as_double(0x7ff0000000000000LL)",
            ),
            DType::I64 => ("(-0x7fffffffffffffffLL - 1)", "0x7fffffffffffffffLL"),
            DType::I32 => ("(-0x7fffffff - 1)", "0x7fffffff"),
            DType::I16 => ("-32768", "32767"),
            DType::I8 => ("-128", "127"),
            DType::U8 => ("0", "255"),
            DType::Bool | DType::F16 | DType::BF16 => ("0", "1"),
        };
        let value = match self.kind {
            // The first element of a scan stays −0.
            ReduceKind::Sum if self.scan && self.dtype.is_float() => "-0.0",
            ReduceKind::Sum | ReduceKind::Mean | ReduceKind::Any => "0",
            ReduceKind::Prod | ReduceKind::All => "1",
            ReduceKind::Max | ReduceKind::ArgMax => least,
            ReduceKind::Min | ReduceKind::ArgMin => greatest,
        };
        format!("({})({value})", self.ty())
    }

    fn operator(&self) -> BinaryOp {
        match self.kind {
            ReduceKind::Sum | ReduceKind::Mean => BinaryOp::Add,
            ReduceKind::Prod => BinaryOp::Mul,
            ReduceKind::Any => BinaryOp::LogicalOr,
            ReduceKind::All => BinaryOp::LogicalAnd,
            ReduceKind::Max | ReduceKind::ArgMax => BinaryOp::Maximum,
            ReduceKind::Min | ReduceKind::ArgMin => BinaryOp::Minimum,
        }
    }

    /// The C++ type of its values.
    pub fn ty(&self) -> &'static str {
        scalar_type(self.dtype)
    }

    /// Whether (x, i) is to replace (best, place): a greater value wins, NaN over all, the first of equals stays; no
    /// place is negative but that of nothing.
    fn better(&self, x: &str, i: &str, best: &str, place: &str) -> String {
        let wins = match self.kind {
            ReduceKind::ArgMax => ">",
            _ => "<",
        };
        format!(
            "({i} >= 0 && ({place} < 0 || {x} {wins} {best} || ({x} != {x} && {best} == {best}) || \
             (({x} == {best} || ({x} != {x} && {best} != {best})) && {i} < {place})))"
        )
    }
}

impl Writer<'_> {
    /// The reduction, or scan, of a value number.
    pub(super) fn reduction(&self, id: Value) -> Reduction {
        let op = &self.node.body.value(id).op;
        match *op {
            BodyOp::Reduce { kind, value, .. } | BodyOp::Scan { kind, value } => Reduction {
                id,
                value,
                kind,
                dtype: self.node.body.value(value).dtype,
                scan: matches!(op, BodyOp::Scan { .. }),
            },
            _ => unreachable!("only reductions are asked for"),
        }
    }

    pub(super) fn combine(&mut self, r: &Reduction, a: &str, b: &str) -> String {
        // One instruction, which differs in the sign of zeros alone.
        if r.dtype == DType::F32 && !self.node.exact && !r.has_position() {
            match r.kind {
                ReduceKind::Max => return format!("ft_greatest({a}, {b})"),
                ReduceKind::Min => return format!("ft_smallest({a}, {b})"),
                _ => {}
            }
        }
        r.operator().scalar_expr(r.dtype, a, b, &mut self.needs)
    }

    /// Declares a thread's accumulators: one a lane, or one with its place.
    pub(super) fn declare_accumulators(&self, out: &mut String, r: &Reduction, lanes: usize) {
        let (id, ty, identity) = (r.id, r.ty(), r.identity());
        if r.has_position() {
            let _ = writeln!(out, "  {ty} a{id} = {identity}; long long q{id} = -1;");
        } else {
            let each = vec![identity; lanes].join(", ");
            let _ = writeln!(out, "  {ty} a{id}[{lanes}] = {{{each}}};");
        }
        if self.is_long(r) {
            let _ = writeln!(out, "  {ty} sum{id} = 0, low{id} = 0; int turn{id} = 0;");
        }
    }

    /// Takes lane `l`'s value into the accumulators, if it counts.
    pub(super) fn accumulate(
        &mut self,
        out: &mut String,
        r: &Reduction,
        position: &str,
        pad: &str,
    ) {
        let (id, v, guard) = (r.id, format!("v{}", r.value), self.guard());
        if r.has_position() {
            let (best, place) = (format!("a{id}"), format!("q{id}"));
            let better = r.better(&v, &format!("x{id}"), &best, &place);
            let _ = writeln!(
                out,
                "{pad}{{ const long long x{id} = {position}; if ({guard} && {better}) {{ {best} = {v}; {place} = x{id}; }} }}"
            );
        } else {
            let next = self.combine(r, &format!("a{id}[l]"), &v);
            let _ = writeln!(out, "{pad}if ({guard}) a{id}[l] = {next};");
        }
    }

    /// The lanes of a thread's accumulators as one, `a{id}[0]`, by halves.
    pub(super) fn fold_lanes(&mut self, out: &mut String, r: &Reduction, lanes: usize) {
        self.settle(out, r, lanes);
        let mut width = lanes;
        while width > 1 && !r.has_position() {
            width /= 2;
            for l in 0..width {
                let (a, b) = (
                    format!("a{}[{l}]", r.id),
                    format!("a{}[{}]", r.id, l + width),
                );
                let sum = self.combine(r, &a, &b);
                let _ = writeln!(out, "  {a} = {sum};");
            }
        }
    }

    /// Declares the finished value.
    pub(super) fn finished(&self, out: &mut String, r: &Reduction) {
        let (id, ty) = (r.id, r.ty());
        let _ = match r.has_position() {
            true => writeln!(out, "  const long long r{id} = q{id};"),
            false => writeln!(out, "  const {ty} r{id} = a{id}[0];"),
        };
    }
}

/// The sum of elements `from` to `to` of an array, by halves.
pub(super) fn tree(name: &str, from: usize, to: usize) -> String {
    match to - from {
        1 => format!("{name}[{from}]"),
        n => {
            let middle = from + n / 2;
            format!(
                "({} + {})",
                tree(name, from, middle),
                tree(name, middle, to)
            )
        }
    }
}
