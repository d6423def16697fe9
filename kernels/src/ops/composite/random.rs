//! Random composites.

use super::build::{float, in_float, operand, value};
use super::{Definition, defined};
use crate::op::operator::{Operator, facts, text};
use crate::op::{Full, Random};
use crate::{Class, Distribution, Op, OpBuilder, OpBuilderExt, Operand, ValueId};
use ferrotrace_runtime::{DType, Error, Result};

/// Zeroed with probability p, else scaled by 1/(1 − p): operands x, key, offset.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dropout {
    /// Bits of the probability (binary64).
    pub p: u64,
}

impl Operator for Dropout {
    text!("dropout" { p = p as bits });
    facts! { class: Class::Random, light: false, jumps: false, work: |_, of| of.elements() }
    defined!();
}

impl Definition for Dropout {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        dropout(b, args, f64::from_bits(self.p))
    }
}

/// Zero with probability `p`, else x / (1 − p) (Srivastava et al., Dropout, 2014). The operands key and offset place
/// the draw, one number an element; p = 0 and p = 1 draw nothing.
pub(super) fn dropout(b: &mut dyn OpBuilder, args: &[Operand], p: f64) -> Result<ValueId> {
    let x = value(args, 0)?;
    let (key, offset) = (operand(args, 1)?, operand(args, 2)?);
    if !(0.0..=1.0).contains(&p) {
        return Err(Error::argument(format!("dropout with probability {p}")));
    }
    let dtype = float(b.dtype(x));
    if p == 0.0 {
        return b.cast(x, dtype);
    }
    let shape = b.shape(x).clone();
    if p == 1.0 {
        return b.push(Op::Full(Full { shape, dtype }), &[0.0.into()]);
    }
    let keep = 1.0 - p;
    let random = Op::Random(Random {
        dist: Distribution::Bernoulli,
        shape,
        dtype: DType::Bool,
    });
    let kept = b.push(random, &[key, offset, keep.into()])?;
    in_float(b, x, |b, x| {
        let scaled = b.mul(x, 1.0 / keep)?;
        b.select(kept, scaled, 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::Dropout;
    use crate::Composite;
    use ferrotrace_runtime::DType::*;

    fn dropout(p: f64) -> Composite {
        Composite::Dropout(Dropout { p: p.to_bits() })
    }

    #[test]
    fn keeps_a_share_and_scales_it() {
        const N: usize = 4096;
        let x: Vec<f64> = sample(N, 34).iter().map(|x| x + 4.0).collect();
        for dtype in FLOATS {
            for p in [0.25, 0.5, 0.75] {
                let draw = |offset: i64| {
                    let y = apply(&dropout(p), &[t(&[N], dtype, &x), n(42i64), n(offset)]);
                    assert_eq!((y.shape().dims(), y.dtype), (&[N][..], dtype));
                    read(&y)
                };
                let y = draw(0);
                let kept = y.iter().filter(|y| **y != 0.0).count();
                let (expected, sigma) = (N as f64 * (1.0 - p), (N as f64 * p * (1.0 - p)).sqrt());
                assert!(
                    (kept as f64 - expected).abs() < 5.0 * sigma,
                    "{kept} of {N} for {p}"
                );
                for (y, x) in y.iter().zip(&x).filter(|(y, _)| **y != 0.0) {
                    let want = x / (1.0 - p);
                    assert!((y - want).abs() <= tolerance(dtype) * want, "{y} for {x}");
                }
                assert_eq!(y, draw(0));
                assert_ne!(y, draw(N as i64));
            }
        }
    }

    #[test]
    fn of_nothing_and_of_everything() {
        let x = [1.5, f64::NAN, f64::INFINITY];
        let args = |dtype| [t(&[3], dtype, &x), n(1i64), n(0i64)];
        for dtype in FLOATS {
            check(dropout(0.0), &args(dtype), &[3], dtype, &x);
            check(dropout(1.0), &args(dtype), &[3], dtype, &[0.0; 3]);
        }
        check(
            dropout(0.5),
            &[t(&[0, 2], F32, &[]), n(1i64), n(0i64)],
            &[0, 2],
            F32,
            &[],
        );
        check(
            dropout(0.0),
            &[t(&[], I32, &[2.0]), n(1i64), n(0i64)],
            &[],
            F32,
            &[2.0],
        );
        for p in [-0.5, 1.5, f64::NAN] {
            refused(&dropout(p), &args(F32));
        }
    }
}
