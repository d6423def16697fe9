//! Reductions made of others.

use super::build::{in_float, reduced_count, value};
use super::{Definition, defined, inferred};
use crate::op::gradient::{Adjoint, Gradients, kept, wide};
use crate::op::operator::{Operator, attributes, facts, text};
use crate::text::Line;
use crate::{
    BinaryOp, Class, OpBuilder, OpBuilderExt, Operand, ReduceKind, Sizes, UnaryOp, ValueId,
};
use ferrotrace_runtime::{DType, Error, Result};

/// Variance over dimensions, divided by max(0, n − correction).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Var {
    /// Bit per reduced dimension.
    pub mask: u64,
    /// Whether they stay as 1.
    pub keepdim: bool,
    /// Taken from the count.
    pub correction: usize,
    /// Whether the square root is taken.
    pub root: bool,
}

impl Operator for Var {
    fn name(&self) -> &'static str {
        if self.root { "std" } else { "var" }
    }

    attributes!(
        dims = mask as dims,
        keepdim = keepdim,
        correction = correction
    );

    fn read(name: &str, line: &Line<'_>) -> Result<Option<Var>> {
        let root = match name {
            "var" => false,
            "std" => true,
            _ => return Ok(None),
        };
        Ok(Some(Var {
            mask: line.dims("dims")?,
            keepdim: line.value("keepdim")?,
            correction: line.value("correction")?,
            root,
        }))
    }

    facts! { class: Class::Reduce, light: false, jumps: false, work: |_, of| of.elements() }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        // 2 (x − mean) / (n − correction), of the root over twice that; 0 of equal elements.
        let x = wide(b, of.value(0)?)?;
        let shape = b.shape(x).clone();
        let count = reduced_count(&shape, self.mask).saturating_sub(self.correction);
        let g = wide(b, of.gradient)?;
        let mut part = kept(b, g, &shape, self.mask)?;
        let mut scale = 2.0 / count as f64;
        if self.root {
            let y = wide(b, of.result)?;
            let y = kept(b, y, &shape, self.mask)?;
            let flat = b.binary(BinaryOp::Eq, y, 0.0)?;
            let quotient = b.div(part, y)?;
            part = b.select(flat, 0.0, quotient)?;
            scale *= 0.5;
        }
        let part = b.mul(part, scale)?;
        let mean = b.reduce(ReduceKind::Mean, x, self.mask, true)?;
        let d = b.sub(x, mean)?;
        b.mul(d, part).map(|g| of.first(g))
    }

    inferred!();
}

impl Definition for Var {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        var(b, args, self.mask, self.keepdim, self.correction, self.root)
    }
}

/// (Σ |x|ᵖ)^(1/p) over dimensions; infinities as max and min.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Norm {
    /// Bits of the order (binary64).
    pub p: u64,
    /// Bit per reduced dimension.
    pub mask: u64,
    /// Whether they stay as 1.
    pub keepdim: bool,
}

impl Operator for Norm {
    text!("norm" { dims = mask as dims, keepdim = keepdim, p = p as bits });

    fn class(&self) -> Class {
        Class::Reduce
    }

    fn is_light(&self) -> bool {
        false
    }

    /// Of order 0 it is how many are not zero.
    fn jumps(&self, _: usize) -> bool {
        f64::from_bits(self.p) == 0.0
    }

    fn work(&self, of: &Sizes<'_>) -> u64 {
        of.elements()
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let p = f64::from_bits(self.p);
        if p == 0.0 {
            return Ok(of.none());
        }
        let x = wide(b, of.value(0)?)?;
        let shape = b.shape(x).clone();
        let mut row = |of: ValueId| {
            let wide = wide(b, of)?;
            kept(b, wide, &shape, self.mask)
        };
        let g = row(of.gradient)?;
        if p == 1.0 {
            let sign = b.unary(UnaryOp::Sign, x)?;
            return b.mul(sign, g).map(|g| of.first(g));
        }
        let y = row(of.result)?;
        pull_norm(b, (x, y), g, p, self.mask).map(|g| of.first(g))
    }

    inferred!();
}

/// The gradient of norms `y` of an order that is neither 0 nor 1: 0 where the norm or the element is 0. Infinite orders
/// share it evenly among the elements whose size is the norm.
fn pull_norm(
    b: &mut dyn OpBuilder,
    (x, y): (ValueId, ValueId),
    g: ValueId,
    p: f64,
    mask: u64,
) -> Result<ValueId> {
    let flat = b.binary(BinaryOp::Eq, y, 0.0)?;
    let divisor = b.select(flat, 1.0, y)?;
    if p == 2.0 {
        let quotient = b.div(g, divisor)?;
        let part = b.select(flat, 0.0, quotient)?;
        return b.mul(x, part);
    }
    let (size, sign) = (b.unary(UnaryOp::Abs, x)?, b.unary(UnaryOp::Sign, x)?);
    if p.is_infinite() {
        let equal = b.binary(BinaryOp::Eq, size, y)?;
        let one = b.cast(equal, b.dtype(g))?;
        let count = b.reduce(ReduceKind::Sum, one, mask, true)?;
        let part = b.div(g, count)?;
        let part = b.select(equal, part, 0.0)?;
        return b.mul(sign, part);
    }
    // sign(x) (|x| / y)ᵖ⁻¹.
    let zero = b.binary(BinaryOp::Eq, x, 0.0)?;
    let zero = b.binary(BinaryOp::LogicalOr, zero, flat)?;
    let ratio = b.div(size, divisor)?;
    let ratio = b.select(zero, 1.0, ratio)?;
    let slope = b.binary(BinaryOp::Pow, ratio, p - 1.0)?;
    let slope = b.mul(slope, sign)?;
    let slope = b.select(zero, 0.0, slope)?;
    b.mul(slope, g)
}

impl Definition for Norm {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        norm(b, args, f64::from_bits(self.p), self.mask, self.keepdim)
    }
}

/// How many are not zero, over dimensions: `I64`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CountNonzero {
    /// Bit per reduced dimension.
    pub mask: u64,
    /// Whether they stay as 1.
    pub keepdim: bool,
}

impl Operator for CountNonzero {
    text!("count_nonzero" { dims = mask as dims, keepdim = keepdim });
    facts! { class: Class::Reduce, light: false, jumps: false, work: |_, of| of.elements() }
    defined!();
}

impl Definition for CountNonzero {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        count_nonzero(b, args, self.mask, self.keepdim)
    }
}

/// Σ (x − mean)² / max(0, n − correction) over the dimensions of `mask`, in two passes; its root if `root`. NaN for no
/// elements, or for one and correction 1. What the mean lacks by its rounding is taken off again (the corrected two-pass
/// algorithm of Chan, Golub and LeVeque, 1983; ir T10).
pub(super) fn var(
    b: &mut dyn OpBuilder,
    args: &[Operand],
    mask: u64,
    keepdim: bool,
    correction: usize,
    root: bool,
) -> Result<ValueId> {
    let x = value(args, 0)?;
    if !b.dtype(x).is_float() {
        return Err(Error::dtype(format!(
            "the variance of {} tensors is not defined: to_dtype(DType::F32) first",
            b.dtype(x)
        )));
    }
    in_float(b, x, |b, x| {
        let n = reduced_count(b.shape(x), mask);
        let count = n.saturating_sub(correction);
        let mean = b.reduce(ReduceKind::Mean, x, mask, true)?;
        let d = b.sub(x, mean)?;
        let squares = b.unary(UnaryOp::Square, d)?;
        let sum = b.reduce(ReduceKind::Sum, squares, mask, keepdim)?;
        let rest = b.reduce(ReduceKind::Sum, d, mask, keepdim)?;
        let rest = b.unary(UnaryOp::Square, rest)?;
        let rest = b.div(rest, n as f64)?;
        let sum = b.sub(sum, rest)?;
        let sum = b.binary(BinaryOp::Maximum, sum, 0.0)?;
        let var = b.div(sum, count as f64)?;
        if root {
            b.unary(UnaryOp::Sqrt, var)
        } else {
            Ok(var)
        }
    })
}

/// (Σ |x|ᵖ)^(1/p) over the dimensions of `mask`; for p = 0 how many are not zero, for ±∞ the greatest and least |x|.
pub(super) fn norm(
    b: &mut dyn OpBuilder,
    args: &[Operand],
    p: f64,
    mask: u64,
    keepdim: bool,
) -> Result<ValueId> {
    let x = value(args, 0)?;
    in_float(b, x, |b, x| {
        if p == 0.0 {
            let dtype = b.dtype(x);
            let present = b.binary(BinaryOp::Ne, x, 0.0)?;
            let ones = b.cast(present, dtype)?;
            return b.reduce(ReduceKind::Sum, ones, mask, keepdim);
        }
        if p == 2.0 {
            let squares = b.unary(UnaryOp::Square, x)?;
            let sum = b.reduce(ReduceKind::Sum, squares, mask, keepdim)?;
            return b.unary(UnaryOp::Sqrt, sum);
        }
        let abs = b.unary(UnaryOp::Abs, x)?;
        if p.is_infinite() {
            let kind = if p > 0.0 {
                ReduceKind::Max
            } else {
                ReduceKind::Min
            };
            return b.reduce(kind, abs, mask, keepdim);
        }
        if p == 1.0 {
            return b.reduce(ReduceKind::Sum, abs, mask, keepdim);
        }
        let powers = b.binary(BinaryOp::Pow, abs, p)?;
        let sum = b.reduce(ReduceKind::Sum, powers, mask, keepdim)?;
        b.binary(BinaryOp::Pow, sum, 1.0 / p)
    })
}

/// How many elements are not zero (NaN is not), as `I64`.
pub(super) fn count_nonzero(
    b: &mut dyn OpBuilder,
    args: &[Operand],
    mask: u64,
    keepdim: bool,
) -> Result<ValueId> {
    let x = value(args, 0)?;
    let present = match b.dtype(x) {
        DType::Bool => x,
        _ => b.binary(BinaryOp::Ne, x, 0i64)?,
    };
    b.reduce(ReduceKind::Sum, present, mask, keepdim)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::{CountNonzero, Norm, Var};
    use crate::Composite;
    use ferrotrace_runtime::DType::*;

    const NAN: f64 = f64::NAN;
    const INF: f64 = f64::INFINITY;

    fn var(mask: u64, keepdim: bool, correction: usize, root: bool) -> Composite {
        Composite::Var(Var {
            mask,
            keepdim,
            correction,
            root,
        })
    }

    fn norm(p: f64, mask: u64, keepdim: bool) -> Composite {
        Composite::Norm(Norm {
            p: p.to_bits(),
            mask,
            keepdim,
        })
    }

    fn variance(row: &[f64], correction: f64) -> f64 {
        let mean = row.iter().sum::<f64>() / row.len() as f64;
        row.iter().map(|x| (x - mean).powi(2)).sum::<f64>()
            / (row.len() as f64 - correction).max(0.0)
    }

    #[test]
    fn variances() {
        let dims = [3, 4, 2];
        let x: Vec<f64> = sample(24, 9).iter().map(|x| x + 100.0).collect();
        for dtype in FLOATS {
            let rounded = read(&array(&dims, dtype, &x));
            for c in [0, 1, 2] {
                let want = along(&dims, 1, &rounded, |row| vec![variance(row, c as f64)]);
                check(
                    var(0b010, false, c, false),
                    &[t(&dims, dtype, &x)],
                    &[3, 2],
                    dtype,
                    &want,
                );
                let root: Vec<f64> = want.iter().map(|v| v.sqrt()).collect();
                check(
                    var(0b010, true, c, true),
                    &[t(&dims, dtype, &x)],
                    &[3, 1, 2],
                    dtype,
                    &root,
                );
            }
            let all = variance(&rounded, 1.0);
            check(
                var(0b111, false, 1, false),
                &[t(&dims, dtype, &x)],
                &[],
                dtype,
                &[all],
            );
        }
        check(
            var(1, false, 1, false),
            &[t(&[1], F32, &[5.0])],
            &[],
            F32,
            &[NAN],
        );
        check(
            var(1, false, 5, false),
            &[t(&[2], F32, &[5.0, 7.0])],
            &[],
            F32,
            &[INF],
        );
        check(
            var(1, false, 0, true),
            &[t(&[0], F32, &[])],
            &[],
            F32,
            &[NAN],
        );
        check(
            var(0, false, 0, false),
            &[t(&[], F64, &[3.0])],
            &[],
            F64,
            &[0.0],
        );
        refused(&var(1, false, 0, false), &[t(&[2], I64, &[1.0, 2.0])]);
        refused(&var(4, false, 0, false), &[t(&[2], F32, &[1.0, 2.0])]);
    }

    #[test]
    fn norms() {
        let dims = [2, 3];
        let x = [3.0, -4.0, 0.0, 0.5, 0.0, -2.0];
        for dtype in FLOATS {
            for p in [0.0, 1.0, 2.0, 3.0, 0.5, -1.0, INF, -INF] {
                let of = |row: &[f64]| {
                    let abs = row.iter().map(|x| x.abs());
                    if p == 0.0 {
                        abs.filter(|x| *x != 0.0).count() as f64
                    } else if p == INF {
                        abs.fold(0.0, f64::max)
                    } else if p == -INF {
                        abs.fold(INF, f64::min)
                    } else {
                        abs.map(|x| x.powf(p)).sum::<f64>().powf(1.0 / p)
                    }
                };
                let want = along(&dims, 0, &x, |row| vec![of(row)]);
                check(
                    norm(p, 0b01, true),
                    &[t(&dims, dtype, &x)],
                    &[1, 3],
                    dtype,
                    &want,
                );
                check(
                    norm(p, 0b11, false),
                    &[t(&dims, dtype, &x)],
                    &[],
                    dtype,
                    &[of(&x)],
                );
            }
        }
        // Squares in F32: 300² is no binary16 number.
        check(
            norm(2.0, 1, false),
            &[t(&[2], F16, &[300.0, 400.0])],
            &[],
            F16,
            &[500.0],
        );
        check(
            norm(2.0, 1, false),
            &[t(&[2], F32, &[NAN, 1.0])],
            &[],
            F32,
            &[NAN],
        );
        check(
            norm(INF, 1, false),
            &[t(&[2], F32, &[NAN, 1.0])],
            &[],
            F32,
            &[NAN],
        );
        check(norm(2.0, 1, false), &[t(&[0], F32, &[])], &[], F32, &[0.0]);
        check(
            norm(1.0, 1, false),
            &[t(&[2], I32, &[-3.0, 4.0])],
            &[],
            F32,
            &[7.0],
        );
        refused(&norm(INF, 1, false), &[t(&[0], F32, &[])]);
    }

    #[test]
    fn counts() {
        let x = [0.0, 1.0, NAN, -0.0, 2.0, 0.0];
        let count = |mask, keepdim| Composite::CountNonzero(CountNonzero { mask, keepdim });
        for dtype in FLOATS {
            check(
                count(0b10, false),
                &[t(&[2, 3], dtype, &x)],
                &[2],
                I64,
                &[2.0, 1.0],
            );
            check(
                count(0b11, true),
                &[t(&[2, 3], dtype, &x)],
                &[1, 1],
                I64,
                &[3.0],
            );
        }
        check(
            count(1, false),
            &[t(&[3], U8, &[0.0, 7.0, 255.0])],
            &[],
            I64,
            &[2.0],
        );
        check(
            count(1, false),
            &[t(&[3], Bool, &[0.0, 1.0, 1.0])],
            &[],
            I64,
            &[2.0],
        );
        check(count(1, false), &[t(&[0], F32, &[])], &[], I64, &[0.0]);
    }
}
