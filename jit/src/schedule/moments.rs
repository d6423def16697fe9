//! Sums about a mean, in the pass that computes the mean.
//!
//! A split reduction's result exists only after the kernel, so Σ (x − m) and Σ (x − m)² for m = Σ x / n would need a
//! second pass over memory. They need none: each piece of the columns sums about its own mean m', and with d = m' − m
//!
//! ```text
//! Σ (x − m)  = Σ (x − m') + n'·d
//! Σ (x − m)² = Σ (x − m')² + d·(2·Σ (x − m') + n'·d)
//! ```
//!
//! which are identities for any m' (Chan, Golub and LeVeque, 1983, merge by the same ones).

use super::FusedNode;
use super::fused::Store;
use crate::body::{BodyOp, Value};
use ferrotrace_kernels::{BinaryOp, ReduceKind, UnaryOp};

/// A reduction about a mean of its own row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Σ (x − m), or Σ (x − m)².
    pub reduce: Value,
    /// Whether it is the sum of squares.
    pub square: bool,
    /// m.
    pub mean: Value,
    /// Σ x.
    pub sum: Value,
    /// Σ (x − m), which is [`Moment::reduce`] itself for the plain sum.
    pub plain: Value,
}

impl FusedNode {
    /// The reductions that wait for others of their row, if all of them are sums about a mean and nothing else that
    /// varies within the row waits: what a split node may hold.
    pub fn moments(&self) -> Option<Vec<Moment>> {
        let body = &self.body;
        let dependence = self.dependence();
        let inner = |v: Value| dependence[v as usize].inner;
        let waits = |v: Value| dependence[v as usize].reduced;
        let sum_of = |value: Value| {
            (0..body.values().len() as Value).find(|&r| {
                matches!(body.value(r).op, BodyOp::Reduce { kind: ReduceKind::Sum, value: v, .. } if v == value)
            })
        };
        // x − m with m = Σ x / number: the mean and the sum.
        let deviation = |v: Value| match body.value(v).op {
            BodyOp::Binary(BinaryOp::Sub, x, mean) if inner(x) && !waits(x) => {
                let BodyOp::Binary(BinaryOp::Div, sum, n) = body.value(mean).op else {
                    return None;
                };
                let is_mean = sum_of(x) == Some(sum)
                    && matches!(body.value(n).op, BodyOp::Number(_))
                    && body.value(x).dtype == body.value(sum).dtype;
                is_mean.then_some((mean, sum))
            }
            _ => None,
        };
        let squared = |v: Value| match body.value(v).op {
            BodyOp::Unary(UnaryOp::Square, d) => Some(d),
            BodyOp::Binary(BinaryOp::Mul, a, b) if a == b => Some(a),
            _ => None,
        };
        // A value that is the same for the whole row may still be stored at every column of it.
        let at_columns = |s: &Store| inner(s.value) || self.varies(s);
        if self.stores.iter().any(|s| at_columns(s) && waits(s.value)) {
            return None;
        }
        let mut found = Vec::new();
        for v in 0..body.values().len() as Value {
            if let BodyOp::Reduce { kind, value, .. } = body.value(v).op {
                if !waits(value) {
                    continue;
                }
                let (square, d) = squared(value).map_or((false, value), |d| (true, d));
                let (mean, sum) = deviation(d)?;
                let plain = sum_of(d)?;
                if kind != ReduceKind::Sum || body.value(v).dtype != body.value(sum).dtype {
                    return None;
                }
                found.push(Moment {
                    reduce: v,
                    square,
                    mean,
                    sum,
                    plain,
                });
            } else if inner(v)
                && waits(v)
                && deviation(v).or_else(|| deviation(squared(v)?)).is_none()
            {
                return None;
            }
        }
        Some(found)
    }
}
