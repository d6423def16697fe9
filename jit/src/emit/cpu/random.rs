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
    let (positions, along) = match positions {
        Positions::Any(all) => (all, Along::Any),
        Positions::Run(first) => (first, Along::Run),
    };
    let mut given = vec![word(number(args[0])), word(number(args[1])), positions];
    match dist {
        Distribution::Uniform | Distribution::Normal | Distribution::Bits => {}
        Distribution::Int => {
            let (low, high) = (number(args[2]), number(args[3]));
            let range = word(high - low.clone());
            given.extend([low.cast(Type::LONG), range]);
        }
        Distribution::Bernoulli => {
            let probability = match w.node.body.value(args[2]).op {
                BodyOp::Number(n) => scalar(n),
                _ => Expr::from(Name::value(args[2])).element(0),
            };
            let double = Type::read(ValueType::Scalar(DType::F64));
            given.push(probability.address().cast(double).dereference());
        }
    }
    let draw = Expr::call(function(dist, dtype, w.lanes, along), given);
    cast(w, drawn(dist, dtype), dtype, draw)
}

/// Which elements a vector has.
#[derive(Clone, Copy)]
pub(super) enum Along {
    /// Any.
    Any,
    /// A run: each follows the one before it.
    Run,
}

/// The function that draws a vector.
pub(super) fn function(dist: Distribution, dtype: DType, lanes: usize, along: Along) -> Function {
    // Lanes are those of one vector register: at most 64.
    let lanes = lanes as u16;
    let stem = match (dist, along) {
        (Distribution::Uniform, Along::Any) => "uniform",
        (Distribution::Uniform, Along::Run) => "run_uniform",
        (Distribution::Normal, Along::Any) => "normal",
        (Distribution::Normal, Along::Run) => "run_normal",
        (Distribution::Int, Along::Any) => "randint",
        (Distribution::Int, Along::Run) => "run_randint",
        (Distribution::Bits, Along::Any) => "bits63",
        (Distribution::Bits, Along::Run) => "run_bits63",
        (Distribution::Bernoulli, Along::Any) => "bernoulli",
        (Distribution::Bernoulli, Along::Run) => "run_bernoulli",
    };
    Function::Support(stem, drawn(dist, dtype), lanes)
}

/// The types of that function's arguments.
pub(super) fn arguments(dist: Distribution, lanes: usize, along: Along) -> Vec<ValueType> {
    let positions = match along {
        Along::Any => ValueType::Vector(DType::I64, lanes as u16),
        Along::Run => ValueType::Index,
    };
    let mut types = vec![ValueType::LongWord, ValueType::LongWord, positions];
    match dist {
        Distribution::Uniform | Distribution::Normal | Distribution::Bits => {}
        Distribution::Int => types.extend([ValueType::Scalar(DType::I64), ValueType::LongWord]),
        Distribution::Bernoulli => types.push(ValueType::Scalar(DType::F64)),
    }
    types
}

/// The dtype of what that function gives.
fn drawn(dist: Distribution, dtype: DType) -> DType {
    match dist {
        Distribution::Uniform | Distribution::Normal => dtype,
        Distribution::Int | Distribution::Bits => DType::I64,
        Distribution::Bernoulli => DType::Bool,
    }
}

/// A number that the run fills in, as the 64 bits it is given in.
fn scalar(number: u32) -> Expr {
    Expr::from(Local::Numbers).element(i64::from(number))
}

fn cast(w: &Writer<'_>, from: DType, to: DType, expr: Expr) -> Expr {
    if from == to || from == to.compute() {
        return expr;
    }
    let function = Function::Cast(from, to.compute(), w.lanes as u16);
    let value = Expr::call(function, [expr]);
    match to.is_half() {
        true => w.support("round", to, [value]),
        false => value,
    }
}
