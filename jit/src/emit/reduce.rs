//! Reductions as C: accumulators, their updates, and their combination in a fixed order (DESIGN: determinism).

use super::kernel::Writer;
use super::value::lane_type;
use crate::body::{BodyOp, Value};
use ferrotrace_kernels::{BinaryOp, ReduceKind, UnaryOp};
use ferrotrace_runtime::DType;

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
}

impl Reduction {
    /// Whether a position is kept beside the value.
    pub fn has_position(&self) -> bool {
        super::stage::has_position(self.kind)
    }

    /// The value no element changes (ir R5).
    pub fn identity(&self) -> &'static str {
        let (least, greatest) = match self.dtype {
            DType::F32 => ("-__builtin_inff()", "__builtin_inff()"),
            DType::F64 => ("-__builtin_inf()", "__builtin_inf()"),
            DType::I64 => ("(-0x7fffffffffffffffL - 1)", "0x7fffffffffffffffL"),
            DType::I32 => ("(-0x7fffffff - 1)", "0x7fffffff"),
            DType::I16 => ("-32768", "32767"),
            DType::I8 => ("-128", "127"),
            DType::U8 => ("0", "255"),
            DType::Bool | DType::F16 | DType::BF16 => ("0", "1"),
        };
        match self.kind {
            ReduceKind::Sum | ReduceKind::Mean | ReduceKind::Any => "0",
            ReduceKind::Prod | ReduceKind::All => "1",
            ReduceKind::Max | ReduceKind::ArgMax => least,
            ReduceKind::Min | ReduceKind::ArgMin => greatest,
        }
    }

    /// The support function that is the greater or the lesser of two numbers.
    pub fn extreme_of(&self) -> &'static str {
        match self.kind {
            ReduceKind::Max | ReduceKind::ArgMax => "max_of",
            _ => "min_of",
        }
    }

    pub fn operator(&self) -> BinaryOp {
        match self.kind {
            ReduceKind::Sum | ReduceKind::Mean => BinaryOp::Add,
            ReduceKind::Prod => BinaryOp::Mul,
            ReduceKind::Any => BinaryOp::LogicalOr,
            ReduceKind::All => BinaryOp::LogicalAnd,
            ReduceKind::Max | ReduceKind::ArgMax => BinaryOp::Maximum,
            ReduceKind::Min | ReduceKind::ArgMin => BinaryOp::Minimum,
        }
    }
}

impl Writer<'_> {
    /// The reduction of a value number.
    pub(super) fn reduction(&self, id: Value) -> Reduction {
        match self.node.body.value(id).op {
            BodyOp::Reduce { kind, value, .. } => Reduction {
                id,
                value,
                kind,
                dtype: self.node.body.value(value).dtype,
            },
            _ => unreachable!("only reductions are asked for"),
        }
    }

    /// A vector of the reduction's identity.
    pub(super) fn identity(&mut self, r: &Reduction) -> String {
        self.call("set", r.dtype, &[r.identity()])
    }

    /// The combination of two accumulators of a reduction without position.
    pub(super) fn combine(&mut self, r: &Reduction, a: &str, b: &str) -> String {
        r.operator()
            .c_expr(r.dtype, self.lanes, &[a, b], &mut self.needs)
    }

    /// Statements that take value `v` (of lanes `lanes`, or all) into accumulator `acc` (and `acc`'s position `pos`).
    /// ir R3: a greater value wins, NaN over all, the first of equals stays.
    pub(super) fn update(
        &mut self,
        r: &Reduction,
        acc: &str,
        pos: &str,
        at: &str,
        lanes: Option<&str>,
    ) -> String {
        let v = self.name(r.value);
        if !r.has_position() {
            let mut value = v;
            if let Some(m) = lanes {
                let identity = self.identity(r);
                let live = self.live_lanes(m);
                value = self.call("sel", r.dtype, &[&live, &value, &identity]);
            }
            // NaN is looked for in the value, which no earlier update delays; one that is held stays.
            let extreme = matches!(r.kind, ReduceKind::Max | ReduceKind::Min);
            let next = if extreme && r.dtype.is_float() {
                self.combine(r, &value, acc)
            } else {
                self.combine(r, acc, &value)
            };
            return format!("{acc} = {next};");
        }
        let greater = if r.kind == ReduceKind::ArgMax {
            BinaryOp::Gt
        } else {
            BinaryOp::Lt
        };
        let mut better = greater.c_expr(r.dtype, self.lanes, &[&v, acc], &mut self.needs);
        if r.dtype.is_float() {
            let nan = UnaryOp::IsNan.c_expr(r.dtype, self.lanes, &[&v], &mut self.needs);
            let held = UnaryOp::IsNan.c_expr(r.dtype, self.lanes, &[acc], &mut self.needs);
            better = format!("({better} | ({nan} & ~{held}))");
        }
        let unset = BinaryOp::Lt.c_expr(
            DType::I64,
            self.lanes,
            &[pos, &format!("(i64x{}){{0}}", self.lanes)],
            &mut self.needs,
        );
        let mut take = format!("({better} | {unset})");
        if let Some(m) = lanes {
            take = format!("({take} & {})", self.live_lanes(m));
        }
        let mask = format!("t{}", r.id);
        let value = self.call("sel", r.dtype, &[&mask, &v, acc]);
        let place = self.call("sel", DType::I64, &[&mask, at, pos]);
        format!(
            "{{ const i32x{} {mask} = {take}; {acc} = {value}; {pos} = {place}; }}",
            self.lanes
        )
    }

    /// The mask of the first `m` lanes.
    pub(super) fn live_lanes(&mut self, m: &str) -> String {
        let iota = self.call("iota", DType::I32, &[]);
        format!("((i32x{})({iota} < (int)({m})))", self.lanes)
    }

    /// A scalar expression of the accumulator's lanes combined, in a fixed tree.
    pub(super) fn horizontal(&mut self, r: &Reduction, acc: &str) -> String {
        let stem = match r.kind {
            ReduceKind::Sum | ReduceKind::Mean => "hsum",
            ReduceKind::Prod => "hprod",
            ReduceKind::Any => "hany",
            ReduceKind::All => "hall",
            ReduceKind::Max | ReduceKind::ArgMax => "hmax",
            ReduceKind::Min | ReduceKind::ArgMin => "hmin",
        };
        self.call(stem, r.dtype, &[acc])
    }

    /// Statements that leave in `best` and `place` the best of the lanes of `acc` and `pos`.
    pub(super) fn best_lane(
        &self,
        r: &Reduction,
        acc: &str,
        pos: &str,
        best: &str,
        place: &str,
    ) -> String {
        let better = better(r, &format!("{acc}[l]"), &format!("{pos}[l]"), best, place);
        format!(
            "for (int l = 0; l < {}; l++) if ({pos}[l] >= 0 && {better}) {{ {best} = {acc}[l]; {place} = {pos}[l]; }}",
            self.lanes
        )
    }

    /// The declaration of a scalar best and its place, unset.
    pub(super) fn declare_best(&self, r: &Reduction, best: &str, place: &str) -> String {
        format!("{} {best} = 0; long {place} = -1;", lane_type(r.dtype))
    }
}

/// Whether (x, i) is to replace (best, place), for C scalars.
pub(super) fn better(r: &Reduction, x: &str, i: &str, best: &str, place: &str) -> String {
    let greater = if r.kind == ReduceKind::ArgMax {
        ">"
    } else {
        "<"
    };
    format!(
        "({place} < 0 || {x} {greater} {best} || ({x} != {x} && {best} == {best}) || \
         (({x} == {best} || ({x} != {x} && {best} != {best})) && {i} < {place}))"
    )
}
