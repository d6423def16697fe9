//! Functions of one element, some with a number beside it.

use super::build::{float, in_float, operand, value};
use super::slope::{self, Pull};
use super::{Definition, infer_by_definition, run_definition};
use crate::op::gradient::{Adjoint, Gradients, by_definition};
use crate::op::operator::{Inferred, Operator};
use crate::text::{Line, Named};
use crate::{
    Arg, ArgMeta, Array, BinaryOp, Class, OpBuilder, OpBuilderExt, Operand, Sizes, UnaryOp, ValueId,
};
use ferrotrace_runtime::{DType, Result, Scalar, Shape};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

/// α and λ of selu (Klambauer et al., Self-Normalizing Neural Networks, 2017).
pub(super) const SELU_ALPHA: f64 = 1.6732632423543772;
pub(super) const SELU_SCALE: f64 = 1.0507009873554805;

/// Beyond it softplus is the identity.
pub(super) const SOFTPLUS_THRESHOLD: f64 = 20.0;

/// A function of elements at the same place, without attributes: operands x, then tensors or numbers.
#[derive(Debug)]
pub struct Function {
    name: &'static str,
    /// See [`Operator::is_light`].
    light: bool,
    /// The operand where the result jumps.
    jumps: Option<usize>,
    rule: Rule,
    define: fn(&mut dyn OpBuilder, &[Operand]) -> Result<ValueId>,
    /// The gradient in closed form, if it has one.
    pull: Option<Pull>,
}

/// The shape and dtype of a [`Function`]'s result.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// The shape of x, and its dtype or F32, where so many numbers follow it.
    Float(usize),
    /// The shape and dtype that the definition gives.
    Defined,
}

impl Function {
    /// A function of x and so many numbers, which is defined on floats.
    const fn of_float(
        name: &'static str,
        numbers: usize,
        define: fn(&mut dyn OpBuilder, &[Operand]) -> Result<ValueId>,
    ) -> Function {
        Function {
            name,
            light: false,
            jumps: None,
            rule: Rule::Float(numbers),
            define,
            pull: None,
        }
    }

    /// A function that is light, with the rule of its definition.
    pub(super) const fn light(
        name: &'static str,
        define: fn(&mut dyn OpBuilder, &[Operand]) -> Result<ValueId>,
    ) -> Function {
        Function {
            name,
            light: true,
            jumps: None,
            rule: Rule::Defined,
            define,
            pull: None,
        }
    }

    /// This function, said to be light.
    const fn made_light(self) -> Function {
        Function {
            light: true,
            ..self
        }
    }

    /// This function, with a gradient in closed form.
    pub(super) const fn pulled(self, pull: Pull) -> Function {
        Function {
            pull: Some(pull),
            ..self
        }
    }

    /// This function, said to jump where x passes some number.
    pub(super) const fn jumping(self) -> Function {
        Function {
            jumps: Some(0),
            ..self
        }
    }
}

impl Operator for Function {
    fn name(&self) -> &'static str {
        self.name
    }

    fn attributes(&self) -> Vec<Named> {
        Vec::new()
    }

    /// The list of composites finds functions by their names.
    fn read(_: &str, _: &Line<'_>) -> Result<Option<Function>> {
        Ok(None)
    }

    fn class(&self) -> Class {
        Class::Pointwise
    }

    fn is_light(&self) -> bool {
        self.light
    }

    fn jumps(&self, operand: usize) -> bool {
        self.jumps == Some(operand)
    }

    fn work(&self, of: &Sizes<'_>) -> u64 {
        of.elements()
    }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let is_number = |arg: &ArgMeta<'_>| matches!(arg, ArgMeta::Scalar(_));
        let direct = match self.rule {
            Rule::Float(numbers) => args.get(1..=numbers).filter(|of| of.iter().all(is_number)),
            Rule::Defined => None,
        };
        match (direct, args.first().and_then(ArgMeta::tensor)) {
            (Some(_), Some((shape, dtype))) => Ok((shape.clone(), float(dtype))),
            _ => infer_by_definition(self, args),
        }
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        match self.pull {
            Some(pull) => match pull(b, of)? {
                Some(gradients) => Ok(gradients),
                None => by_definition(b, of, self.define),
            },
            None => by_definition(b, of, self.define),
        }
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        run_definition(self, args, shape, dtype)
    }
}

impl Definition for Function {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        (self.define)(b, args)
    }
}

/// x·Φ(x).
pub(super) const GELU: Function = Function::of_float("gelu", 0, |b, args| {
    in_float(b, value(args, 0)?, |b, x| {
        let z = b.mul(x, FRAC_1_SQRT_2)?;
        let t = b.unary(UnaryOp::Erf, z)?;
        half_of(b, x, t)
    })
})
.pulled(slope::gelu);

/// The tanh form of gelu.
pub(super) const GELU_TANH: Function = Function::of_float("gelu_tanh", 0, |b, args| {
    in_float(b, value(args, 0)?, |b, x| {
        let square = b.unary(UnaryOp::Square, x)?;
        let cube = b.mul(square, x)?;
        let bend = b.mul(cube, 0.044715)?;
        let sum = b.add(x, bend)?;
        let z = b.mul(sum, FRAC_2_PI.sqrt())?;
        let t = b.unary(UnaryOp::Tanh, z)?;
        half_of(b, x, t)
    })
})
.pulled(slope::gelu_tanh);

/// x·σ(x).
pub(super) const SILU: Function = Function::of_float("silu", 0, |b, args| {
    in_float(b, value(args, 0)?, |b, x| {
        let gate = b.unary(UnaryOp::Sigmoid, x)?;
        b.mul(x, gate)
    })
})
.pulled(slope::silu);

/// x·tanh(softplus(x)), where tanh(log(1 + w)) = n / (n + 2) with n = w·(w + 2); `x` beyond 20.
pub(super) const MISH: Function = Function::of_float("mish", 0, |b, args| {
    in_float(b, value(args, 0)?, |b, x| {
        above_or(b, x, SOFTPLUS_THRESHOLD, |b, x| {
            let w = b.unary(UnaryOp::Exp, x)?;
            let more = b.add(w, 2.0)?;
            let n = b.mul(w, more)?;
            let whole = b.add(n, 2.0)?;
            let gate = b.div(n, whole)?;
            b.mul(x, gate)
        })
    })
});

/// log(1 + eˣ), linear beyond 20.
pub(super) const SOFTPLUS: Function = Function::of_float("softplus", 0, |b, args| {
    in_float(b, value(args, 0)?, softplus)
})
.pulled(slope::softplus);

/// x / (1 + |x|).
pub(super) const SOFTSIGN: Function = Function::of_float("softsign", 0, |b, args| {
    in_float(b, value(args, 0)?, |b, x| {
        let abs = b.unary(UnaryOp::Abs, x)?;
        let below = b.add(abs, 1.0)?;
        b.div(x, below)
    })
})
.made_light()
.pulled(slope::softsign);

/// x·clamp(x + 3, 0, 6) / 6.
pub(super) const HARDSWISH: Function = Function::of_float("hardswish", 0, |b, args| {
    in_float(b, value(args, 0)?, |b, x| {
        let gate = hard_gate(b, x)?;
        b.mul(x, gate)
    })
})
.made_light()
.pulled(slope::hardswish);

/// clamp(x + 3, 0, 6) / 6.
pub(super) const HARDSIGMOID: Function = Function::of_float("hardsigmoid", 0, |b, args| {
    in_float(b, value(args, 0)?, hard_gate)
})
.made_light()
.pulled(slope::hardsigmoid);

/// log σ(x).
pub(super) const LOG_SIGMOID: Function = Function::of_float("logsigmoid", 0, |b, args| {
    in_float(b, value(args, 0)?, |b, x| {
        let least = b.binary(BinaryOp::Minimum, x, 0.0)?;
        let tail = log1p_exp_neg_abs(b, x)?;
        b.sub(least, tail)
    })
})
.pulled(slope::log_sigmoid);

/// The self-normalising elu.
pub(super) const SELU: Function = Function::of_float("selu", 0, |b, args| {
    in_float(b, value(args, 0)?, |b, x| {
        let greater = b.binary(BinaryOp::Gt, x, 0.0)?;
        let rest = b.select(greater, 0.0, x)?;
        let e = b.unary(UnaryOp::Expm1, rest)?;
        let below = b.mul(e, SELU_ALPHA * SELU_SCALE)?;
        let above = b.mul(x, SELU_SCALE)?;
        b.select(greater, above, below)
    })
})
.pulled(slope::selu);

/// x or a·x: operands x, a.
pub(super) const LEAKY_RELU: Function = Function::of_float("leaky_relu", 1, |b, args| {
    let (x, a) = (value(args, 0)?, operand(args, 1)?);
    in_float(b, x, |b, x| {
        let greater = b.binary(BinaryOp::Gt, x, Operand::Const(Scalar::Int(0)))?;
        let below = b.mul(x, a)?;
        b.select(greater, x, below)
    })
})
.made_light()
.pulled(slope::leaky_relu);

/// x or a(eˣ − 1): operands x, a.
pub(super) const ELU: Function = Function::of_float("elu", 1, |b, args| {
    let (x, a) = (value(args, 0)?, operand(args, 1)?);
    in_float(b, x, |b, x| {
        above_or(b, x, 0.0, |b, x| {
            let e = b.unary(UnaryOp::Expm1, x)?;
            b.mul(e, a)
        })
    })
})
.pulled(slope::elu);

/// max(0, x) + min(0, a(e^(x/a) − 1)): operands x, a.
pub(super) const CELU: Function = Function::of_float("celu", 1, |b, args| {
    let (x, a) = (value(args, 0)?, operand(args, 1)?);
    in_float(b, x, |b, x| {
        above_or(b, x, 0.0, |b, x| {
            let ratio = b.div(x, a)?;
            let e = b.unary(UnaryOp::Expm1, ratio)?;
            b.mul(e, a)
        })
    })
})
.pulled(slope::celu);

/// clamp(x, −1, 1), exact in every dtype, integers included.
pub(super) const HARDTANH: Function =
    Function::light("hardtanh", |b, args| clip(b, value(args, 0)?, -1, 1)).pulled(slope::hardtanh);

/// min(max(x, 0), 6), exact in every dtype, integers included.
pub(super) const RELU6: Function =
    Function::light("relu6", |b, args| clip(b, value(args, 0)?, 0, 6)).pulled(slope::relu6);

/// x − trunc(x), of x's sign.
pub(super) const FRAC: Function = Function::light("frac", |b, args| {
    let x = value(args, 0)?;
    let whole = b.unary(UnaryOp::Trunc, x)?;
    b.sub(x, whole)
})
.jumping();

/// min(max(x, lo), hi), which passes NaN on.
fn clip(b: &mut dyn OpBuilder, x: ValueId, lo: i64, hi: i64) -> Result<ValueId> {
    let above = b.binary(BinaryOp::Maximum, x, lo)?;
    b.binary(BinaryOp::Minimum, above, hi)
}

/// `x` where it is greater than `bound`; elsewhere `f` of it. `f` gets 0 in place of the greater ones, so that it
/// overflows nowhere (an infinity in the branch not taken would be a NaN in a gradient).
fn above_or(
    b: &mut dyn OpBuilder,
    x: ValueId,
    bound: f64,
    f: impl FnOnce(&mut dyn OpBuilder, ValueId) -> Result<ValueId>,
) -> Result<ValueId> {
    let greater = b.binary(BinaryOp::Gt, x, bound)?;
    let rest = b.select(greater, 0.0, x)?;
    let other = f(b, rest)?;
    b.select(greater, x, other)
}

/// log(1 + eˣ), `x` beyond 20.
fn softplus(b: &mut dyn OpBuilder, x: ValueId) -> Result<ValueId> {
    above_or(b, x, SOFTPLUS_THRESHOLD, |b, x| {
        let e = b.unary(UnaryOp::Exp, x)?;
        b.unary(UnaryOp::Log1p, e)
    })
}

/// log(1 + e^−|x|), which overflows nowhere.
pub(super) fn log1p_exp_neg_abs(b: &mut dyn OpBuilder, x: ValueId) -> Result<ValueId> {
    let abs = b.unary(UnaryOp::Abs, x)?;
    let neg = b.unary(UnaryOp::Neg, abs)?;
    let e = b.unary(UnaryOp::Exp, neg)?;
    b.unary(UnaryOp::Log1p, e)
}

/// x·(1 + t) / 2.
fn half_of(b: &mut dyn OpBuilder, x: ValueId, t: ValueId) -> Result<ValueId> {
    let half = b.mul(x, 0.5)?;
    let gate = b.add(t, 1.0)?;
    b.mul(half, gate)
}

/// clamp(x + 3, 0, 6) / 6 as a product by the number nearest to a sixth: a vector division takes as long as the rest of a layer's
/// pointwise functions. It is 1 from 3 on, and differs from the quotient by an ulp at most.
fn hard_gate(b: &mut dyn OpBuilder, x: ValueId) -> Result<ValueId> {
    let shifted = b.add(x, 3.0)?;
    let clipped = clip(b, shifted, 0, 6)?;
    b.mul(clipped, 1.0 / 6.0)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::Composite::{self, *};
    use DType::{Bool, F16, F32, I32, I64};

    /// The error function by its series, for |x| < 3.
    fn erf(x: f64) -> f64 {
        let mut term = x;
        let mut sum = x;
        for k in 1..100 {
            term *= -x * x / k as f64;
            sum += term / (2 * k + 1) as f64;
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    }

    fn softplus(x: f64) -> f64 {
        if x > 20.0 { x } else { x.exp().ln_1p() }
    }

    fn sigmoid(x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }

    type Reference = fn(f64) -> f64;

    /// Values taken from the definition of each function, at numbers with and without a fraction.
    fn table() -> Vec<(Composite, Reference)> {
        vec![
            (Gelu, |x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt()))),
            (GeluTanh, |x| {
                0.5 * x
                    * (1.0
                        + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
            }),
            (Silu, |x| x * sigmoid(x)),
            (Mish, |x| x * softplus(x).tanh()),
            (Softplus, softplus),
            (Softsign, |x| x / (1.0 + x.abs())),
            (Hardswish, |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0),
            (Hardsigmoid, |x| (x + 3.0).clamp(0.0, 6.0) / 6.0),
            (LogSigmoid, |x| x.min(0.0) - (-x.abs()).exp().ln_1p()),
            (Selu, |x| {
                if x > 0.0 {
                    SELU_SCALE * x
                } else {
                    SELU_SCALE * SELU_ALPHA * x.exp_m1()
                }
            }),
            (Hardtanh, |x| x.clamp(-1.0, 1.0)),
            (Relu6, |x| x.clamp(0.0, 6.0)),
            (Frac, |x| x - x.trunc()),
        ]
    }

    #[test]
    fn values_in_every_float() {
        let mut x = sample(30, 1);
        x.extend([0.0, -0.0, 3.5, -3.5, 3.0, -3.0]);
        for dtype in FLOATS {
            for (op, f) in table() {
                let want: Vec<f64> = x.iter().map(|&x| f(x)).collect();
                check(op, &[t(&[4, 9], dtype, &x)], &[4, 9], dtype, &want);
            }
        }
    }

    #[test]
    fn values_with_a_number() {
        let x = sample(24, 2);
        for dtype in FLOATS {
            for a in [0.25, 2.0] {
                for (op, f) in [
                    (
                        LeakyRelu,
                        (|x, a| if x > 0.0 { x } else { a * x }) as fn(f64, f64) -> f64,
                    ),
                    (Elu, |x, a| if x > 0.0 { x } else { a * x.exp_m1() }),
                    (Celu, |x, a| x.max(0.0) + (a * (x / a).exp_m1()).min(0.0)),
                ] {
                    let want: Vec<f64> = x.iter().map(|&x| f(x, a)).collect();
                    check(
                        op,
                        &[t(&[2, 3, 4], dtype, &x), n(a)],
                        &[2, 3, 4],
                        dtype,
                        &want,
                    );
                }
            }
            check(
                LeakyRelu,
                &[t(&[2], dtype, &[-1.5, 2.0]), n(2)],
                &[2],
                dtype,
                &[-3.0, 2.0],
            );
        }
    }

    #[test]
    fn far_from_zero() {
        const INF: f64 = f64::INFINITY;
        let x = [INF, -INF, f64::NAN, 1000.0, -1000.0, 60.0, -60.0];
        let f = |op, want: [f64; 7]| check(op, &[t(&[7], F32, &x)], &[7], F32, &want);
        let tiny = (-60f64).exp();
        f(Softplus, [INF, 0.0, f64::NAN, 1000.0, 0.0, 60.0, tiny]);
        f(
            LogSigmoid,
            [0.0, -INF, f64::NAN, 0.0, -1000.0, -tiny, -60.0],
        );
        f(Relu6, [6.0, 0.0, f64::NAN, 6.0, 0.0, 6.0, 0.0]);
        f(Hardtanh, [1.0, -1.0, f64::NAN, 1.0, -1.0, 1.0, -1.0]);
        f(Hardsigmoid, [1.0, 0.0, f64::NAN, 1.0, 0.0, 1.0, 0.0]);
        f(
            Selu,
            [
                INF,
                -SELU_ALPHA * SELU_SCALE,
                f64::NAN,
                1050.7009874,
                -1.7580993,
                63.042059,
                -1.7580993,
            ],
        );
        let elu = [INF, -0.5, f64::NAN, 1000.0, -0.5, 60.0, -0.5];
        check(Elu, &[t(&[7], F32, &x), n(0.5)], &[7], F32, &elu);
        check(Celu, &[t(&[7], F32, &x), n(0.5)], &[7], F32, &elu);
        check(
            Frac,
            &[t(&[2], F32, &[INF, f64::NAN])],
            &[2],
            F32,
            &[f64::NAN, f64::NAN],
        );
    }

    #[test]
    fn integers_empties_and_scalars() {
        let x = [-7.0, 0.0, 7.0];
        check(Relu6, &[t(&[3], I32, &x)], &[3], I32, &[0.0, 0.0, 6.0]);
        check(Hardtanh, &[t(&[3], I64, &x)], &[3], I64, &[-1.0, 0.0, 1.0]);
        check(Frac, &[t(&[3], I64, &x)], &[3], I64, &[0.0; 3]);
        check(
            Softsign,
            &[t(&[3], I64, &x)],
            &[3],
            F32,
            &[-0.875, 0.0, 0.875],
        );
        check(
            Silu,
            &[t(&[2], Bool, &[0.0, 1.0])],
            &[2],
            F32,
            &[0.0, sigmoid(1.0)],
        );
        check(
            LeakyRelu,
            &[t(&[2], I32, &[-4.0, 4.0]), n(0.25)],
            &[2],
            F32,
            &[-1.0, 4.0],
        );
        for (op, f) in table() {
            check(op.clone(), &[t(&[2, 0], F16, &[])], &[2, 0], F16, &[]);
            check(op, &[t(&[], F32, &[0.5])], &[], F32, &[f(0.5)]);
        }
        refused(&Gelu, &[n(1.0)]);
        refused(&Elu, &[n(1.0), n(1.0)]);
    }
}
