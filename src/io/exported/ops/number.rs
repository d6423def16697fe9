//! Symbolic numbers and what is asserted of them.

use super::Table;
use crate::io::exported::call::{Call, Results, Value, read};
use crate::io::exported::symbols;
use crate::{Error, Scalar};

/// A function of numbers by its name.
fn applied(c: &Call<'_>, name: &str) -> Results {
    let numbers: Result<Vec<Scalar>, Error> = (0..c.args.len())
        .map(|i| match c.at(i)? {
            Value::Tensor(tensor) => read(&tensor),
            value => value
                .scalar()
                .ok_or_else(|| Error::argument(format!("argument {i} is no number"))),
        })
        .collect();
    let numbers = numbers?;
    let value = symbols::apply(name, &numbers);
    let value =
        value.ok_or_else(|| Error::argument(format!("{name} has no value for {numbers:?}")))?;
    Ok(vec![Value::from(value)])
}

macro_rules! functions {
    ($($path:literal $name:literal),* $(,)?) => {
        &[$(($path, "", |c: &Call<'_>| applied(c, $name))),*]
    };
}

/// Python's operators and functions on numbers.
pub(super) const FUNCTIONS: Table = functions![
    "_operator.add" "+", "_operator.sub" "-", "_operator.mul" "*", "_operator.truediv" "/",
    "_operator.floordiv" "//", "_operator.mod" "%", "_operator.pow" "**", "_operator.neg" "neg",
    "_operator.pos" "pos", "_operator.eq" "==", "_operator.ne" "!=", "_operator.lt" "<", "_operator.le" "<=",
    "_operator.gt" ">", "_operator.ge" ">=", "_operator.and_" "and", "_operator.or_" "or", "_operator.abs" "abs",
    "torch.sym_max" "max", "torch.sym_min" "min", "torch.sym_not" "not", "torch.sym_int" "sym_int",
    "torch.sym_float" "sym_float", "torch.sym_ite" "ite", "torch._sym_sqrt" "sqrt", "torch._sym_log2" "log2",
    "math.floor" "floor", "math.ceil" "ceil", "math.trunc" "trunc", "math.sqrt" "sqrt", "builtins.max" "max",
    "builtins.min" "min", "builtins.abs" "abs", "builtins.round" "round", "builtins.int" "sym_int",
    "builtins.float" "sym_float", "_operator.not_" "not", "builtins.pow" "**",
];

fn item(c: &Call<'_>) -> Results {
    let number = read(c.tensor("self")?)?;
    Ok(vec![Value::from(number)])
}

fn asserted(c: &Call<'_>) -> Results {
    let holds = match c.at(0)? {
        Value::Tensor(tensor) => read(&tensor.all(..))?.to_bool(),
        value => value.scalar().is_none_or(Scalar::to_bool),
    };
    let said = c
        .text("assert_msg")?
        .unwrap_or("an assertion of the program does not hold");
    match holds {
        true => Ok(Vec::new()),
        false => Err(Error::argument(said)),
    }
}

fn within(c: &Call<'_>) -> Results {
    let number = c.scalar_or("size", c.scalar_or("self", 0)?)?.to_i64();
    let (min, max) = (c.int("min")?, c.int("max")?);
    if min.is_some_and(|min| number < min) || max.is_some_and(|max| number > max) {
        return Err(Error::argument(format!(
            "{number} is not within {min:?} to {max:?}"
        )));
    }
    Ok(Vec::new())
}

/// What was true of a tensor when the program was exported: its dtype may since have been changed on purpose.
fn of_metadata(_: &Call<'_>) -> Results {
    Ok(Vec::new())
}

pub(super) const TABLE: Table = &[
    ("item", "default", item),
    ("_local_scalar_dense", "default", item),
    ("_assert_scalar", "default", asserted),
    ("_assert_async", "default msg", asserted),
    ("_functional_assert_scalar", "default", asserted),
    ("_functional_assert_async", "msg", asserted),
    ("sym_constrain_range", "default", within),
    ("sym_constrain_range_for_size", "default", within),
    ("_assert_tensor_metadata", "default", of_metadata),
];
