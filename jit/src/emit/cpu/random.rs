//! Random values: Philox by (key, offset, element), the same numbers as the ready-made kernels draw.

use crate::body::{BodyOp, Value};
use crate::emit::cpu::kernel::Writer;
use crate::kernel::ir::{Expr, Function, Local, Name, Type, ValueType};
use ferrotrace_kernels::Distribution;
use ferrotrace_runtime::DType;

/// The row-major positions of a vector's elements.
pub(super) enum Positions {
    /// Any, a vector of them.
    Any(Expr),
    /// One after the other, by the first.
    Run(Expr),
}

/// A vector of random values.
pub(super) fn expression(
    w: &Writer<'_>,
    dist: Distribution,
    dtype: DType,
    args: &[Value],
    positions: Positions,
) -> Expr {
    let number = |v: Value| match w.node.body.value(v).op {
        BodyOp::Number(n) => scalar(n),
        _ => Expr::from(Name::value(v)).element(0),
    };
    let word = |e: Expr| e.cast(ValueType::LongWord);
    let (positions, run) = match positions {
        Positions::Any(all) => (all, false),
        Positions::Run(first) => (first, true),
    };
    let common = [word(number(args[0])), word(number(args[1])), positions];
    let stem = |any, of_run| if run { of_run } else { any };
    match dist {
        Distribution::Uniform => w.support(stem("uniform", "run_uniform"), dtype, common),
        Distribution::Normal => w.support(stem("normal", "run_normal"), dtype, common),
        Distribution::Int => {
            let (low, high) = (number(args[2]), number(args[3]));
            let range = word(high - low.clone());
            let given = common.into_iter().chain([low.cast(Type::LONG), range]);
            let draw = w.support(stem("randint", "run_randint"), DType::I64, given);
            cast(w, DType::I64, dtype, draw)
        }
        Distribution::Bernoulli => {
            let probability = match w.node.body.value(args[2]).op {
                BodyOp::Number(n) => scalar(n),
                _ => Expr::from(Name::value(args[2])).element(0),
            };
            let double = Type::read(ValueType::Scalar(DType::F64));
            let probability = probability.address().cast(double).dereference();
            let lanes = w.lanes as u16;
            let draw = match run {
                true => Function::BernoulliRun(lanes),
                false => Function::Bernoulli(lanes),
            };
            let draw = Expr::call(draw, common.into_iter().chain([probability]));
            cast(w, DType::Bool, dtype, draw)
        }
        Distribution::Bits => {
            let draw = w.support(stem("bits63", "run_bits63"), DType::I64, common);
            cast(w, DType::I64, dtype, draw)
        }
    }
}

/// A number that the run fills in, as the 64 bits it is given in.
fn scalar(number: u32) -> Expr {
    Expr::from(Local::Numbers).element(i64::from(number))
}

fn cast(w: &Writer<'_>, from: DType, to: DType, expr: Expr) -> Expr {
    if from == to.compute() {
        return expr;
    }
    let function = Function::Cast(from, to.compute(), w.lanes as u16);
    let value = Expr::call(function, [expr]);
    match to.is_half() {
        true => w.support("round", to, [value]),
        false => value,
    }
}
