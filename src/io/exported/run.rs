//! Inputs checked, and steps run.

use super::call::{Arg, Call, Value};
use super::ops;
use super::program::{Action, Dim, Input, Kind, Program, Step};
use super::symbols::Known;
use super::write_back::{as_written, write_back};
use crate::{Context, Device, Error, Result, Scalar, Tensor};
use std::collections::HashMap;

/// What a caller gave, sorted by kind.
#[derive(Debug, Default)]
pub(super) struct Given<'a> {
    pub tensors: Vec<&'a Tensor>,
    pub ints: Vec<i64>,
    pub floats: Vec<f64>,
}

/// Symbols and sizes of one call.
struct Bound<'a> {
    symbols: HashMap<&'a str, i64>,
    inputs: HashMap<&'a str, &'a Tensor>,
    numbers: HashMap<&'a str, Scalar>,
}

impl Known for Bound<'_> {
    fn symbol(&self, name: &str) -> Option<Scalar> {
        self.symbols.get(name).copied().map(Scalar::Int)
    }

    fn input(&self, path: &[String]) -> Option<Scalar> {
        self.numbers.get(&*path.join("_")).copied()
    }

    fn size(&self, path: &[String], dim: usize) -> Option<usize> {
        self.inputs.get(&*path.join("_"))?.dims().get(dim).copied()
    }
}

impl Program {
    /// Checks what a caller gives against what the program was exported for.
    pub fn bind<'a>(&'a self, inputs: &[&'a Tensor], device: &Device) -> Result<Given<'a>> {
        if inputs.len() != self.inputs.len() {
            let names: Vec<&str> = self.inputs.iter().map(|input| &*input.name).collect();
            let (n, has) = (self.inputs.len(), inputs.len());
            let names = names.join(", ");
            return Err(Error::argument(format!(
                "the program takes {n} inputs ({names}), not {has}"
            )));
        }
        let mut given = Given::default();
        let mut bound = Bound {
            symbols: HashMap::new(),
            inputs: HashMap::new(),
            numbers: HashMap::new(),
        };
        for (input, &tensor) in self.inputs.iter().zip(inputs) {
            if let Some(error) = tensor.error() {
                return Err(error);
            }
            bound.inputs.insert(&input.name, tensor);
            match &input.kind {
                Kind::Tensor { dtype, sizes, .. } => {
                    fits(input, tensor, *dtype, sizes)?;
                    if tensor.device() != *device {
                        let (name, is) = (&input.name, tensor.device());
                        return Err(Error::argument(format!(
                            "input {name:?} is on {is:?} where the program is on {device:?}"
                        )));
                    }
                    given.tensors.push(tensor);
                    bound.bind_sizes(sizes, tensor);
                }
                kind => {
                    let number = number(input, tensor)?;
                    bound.numbers.insert(&input.name, number);
                    match kind {
                        Kind::Int(symbol) => {
                            given.ints.push(number.to_i64());
                            if let Some(symbol) = symbol {
                                bound.symbols.insert(symbol, number.to_i64());
                            }
                        }
                        _ => given.floats.push(number.to_f64()),
                    }
                }
            }
        }
        self.check(&bound)?;
        Ok(given)
    }

    /// Sizes that are expressions, ranges of symbols, and guards.
    fn check(&self, bound: &Bound<'_>) -> Result<()> {
        for input in &self.inputs {
            let (Kind::Tensor { sizes, .. }, Some(tensor)) =
                (&input.kind, bound.inputs.get(&*input.name))
            else {
                continue;
            };
            for (d, (size, &is)) in sizes.iter().zip(tensor.dims()).enumerate() {
                if let Dim::Expr(text, Some(expr)) = size
                    && let Some(expected) = expr.value(bound)
                    && expected.to_i64() != is as i64
                {
                    let (name, expected) = (&input.name, expected.to_i64());
                    return Err(Error::shape(format!(
                        "dimension {d} of input {name:?} is {is}, where {text} = {expected}"
                    )));
                }
            }
        }
        for range in &self.ranges {
            let Some(&value) = bound.symbols.get(&*range.symbol) else {
                continue;
            };
            // Sizes of 0 and 1 are let through, as PyTorch does: 2 is the least that exporting assumes.
            let low = range.min.is_some_and(|min| min > 2 && value < min);
            if low || range.max.is_some_and(|max| value > max) {
                let end = |end: Option<i64>| end.map_or("∞".to_owned(), |end| end.to_string());
                let (min, max) = (range.min.unwrap_or(0), end(range.max));
                let from = self
                    .inputs
                    .iter()
                    .find_map(|input| input.dim_of(&range.symbol));
                let from = from.unwrap_or_else(|| range.symbol.clone());
                return Err(Error::shape(format!(
                    "{from} is {value}, where the program takes {min} to {max}"
                )));
            }
        }
        for guard in &self.guards {
            if let Some(holds) = guard.expr.value(bound)
                && !holds.to_bool()
            {
                let text = &guard.text;
                return Err(Error::shape(format!(
                    "the program was exported for inputs with {text}"
                )));
            }
        }
        Ok(())
    }

    /// Runs the steps on values that inputs and state were put into, and gives outputs, changed inputs and changed state.
    pub fn steps(&self, mut values: Vec<Value>, device: &Device) -> Result<Vec<Tensor>> {
        for step in &self.steps {
            let results = step.place.within(|| step.results(&values, device));
            let results = results.map_err(|error| named(error, step))?;
            for (slot, value) in step.results.iter().zip(results) {
                if let Value::Tensor(tensor) | Value::Complex(tensor) = &value
                    && let Some(error) = tensor.error()
                {
                    return Err(named(error, step));
                }
                if let Some(slot) = slot {
                    values[*slot] = value;
                }
            }
            for &slot in &step.drops {
                values[slot] = Value::None;
            }
        }
        let mut all = Vec::new();
        for output in &self.outputs {
            all.extend(tensor_of(&output.value, &values, device));
        }
        let changed = self.inputs.iter().filter_map(|input| input.changed);
        let state = self.state.iter().filter_map(|state| state.changed);
        for slot in changed.chain(state) {
            let tensor = tensor_of(&Arg::Slot(slot), &values, device);
            all.push(tensor.ok_or_else(|| Error::internal("a changed value is missing"))?);
        }
        Ok(all)
    }
}

impl<'a> Bound<'a> {
    fn bind_sizes(&mut self, sizes: &'a [Dim], tensor: &Tensor) {
        use super::symbols::Expr;
        for (size, &is) in sizes.iter().zip(tensor.dims()) {
            if let Dim::Expr(_, Some(Expr::Symbol(name))) = size {
                self.symbols.entry(name).or_insert(is as i64);
            }
        }
    }
}

impl Input {
    /// Where a symbol stands for a size of this input.
    fn dim_of(&self, symbol: &str) -> Option<String> {
        let Kind::Tensor { sizes, .. } = &self.kind else {
            return None;
        };
        let is = |size: &Dim| matches!(size, Dim::Expr(name, _) if name == symbol);
        let d = sizes.iter().position(is)?;
        Some(format!("dimension {d} of input {:?} ({symbol})", self.name))
    }
}

impl Step {
    fn results(&self, values: &[Value], device: &Device) -> Result<Vec<Value>> {
        let call = Call {
            args: &self.args,
            values,
            device,
        };
        match &self.action {
            Action::Run(run) => ops::run(&self.target, *run, &call),
            Action::Write => as_written(&call),
            Action::Control(control) => control.run(&call),
            Action::WriteBack { view, which } => write_back(&self.target, *view, *which, &call),
        }
    }
}

/// An error with the operator of the program that it was met in, and where that stands.
fn named(error: Error, step: &Step) -> Error {
    let Step { target, origin, .. } = step;
    if error.to_string().contains(&**target) {
        return error;
    }
    let at = match origin.is_empty() {
        true => String::new(),
        false => format!(" ({origin})"),
    };
    let said = Error::argument(format!("{target}{at}: {}", error.kind()));
    match error.context() {
        // The line that recorded the operation is this library's: the program's stands in the message.
        Some(context) => said.at(Context {
            location: None,
            ..context.clone()
        }),
        None => said,
    }
}

/// A value as a caller gets it: numbers as tensors of no dimensions, nothing for `None`.
fn tensor_of(arg: &Arg, values: &[Value], device: &Device) -> Option<Tensor> {
    let number = match arg {
        Arg::Slot(slot) => match &values[*slot] {
            Value::Tensor(tensor) | Value::Complex(tensor) => return Some(tensor.clone()),
            value => value.scalar()?,
        },
        Arg::Int(number) => Scalar::Int(*number),
        Arg::Float(number) => Scalar::Float(*number),
        Arg::Bool(value) => Scalar::Bool(*value),
        _ => return None,
    };
    let dtype = match number {
        Scalar::Float(_) => crate::DType::F64,
        number => number.default_dtype(),
    };
    Some(Tensor::scalar(number, dtype, device))
}

fn fits(input: &Input, tensor: &Tensor, dtype: crate::DType, sizes: &[Dim]) -> Result<()> {
    let name = &input.name;
    if tensor.dtype() != dtype {
        let is = tensor.dtype();
        return Err(Error::dtype(format!(
            "input {name:?} is {is} where the program takes {dtype}"
        )));
    }
    let same = |(size, is): (&Dim, &usize)| match size {
        Dim::Is(size) => size == is,
        Dim::Expr(..) => true,
    };
    if tensor.rank() != sizes.len() || !sizes.iter().zip(tensor.dims()).all(same) {
        let shown: Vec<String> = sizes.iter().map(ToString::to_string).collect();
        let (is, takes) = (tensor.shape(), shown.join(", "));
        return Err(Error::shape(format!(
            "input {name:?} has the shape {is} where the program takes [{takes}]"
        )));
    }
    Ok(())
}

fn number(input: &Input, tensor: &Tensor) -> Result<Scalar> {
    if tensor.numel() != 1 {
        let (name, is) = (&input.name, tensor.shape());
        return Err(Error::shape(format!(
            "input {name:?} is a number: a tensor of one element, not of {is}"
        )));
    }
    super::call::read(tensor)
}

impl std::fmt::Display for Dim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Dim::Is(size) => write!(f, "{size}"),
            Dim::Expr(text, _) => write!(f, "{text}"),
        }
    }
}
