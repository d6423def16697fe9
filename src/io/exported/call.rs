//! What an operator is given: values by the names of its schema, and where results are to be.

use super::schema;
use crate::{DType, Device, Error, Operand, Result, Scalar, Tensor};
use std::sync::Arc;

/// The number of a value of a program.
pub(super) type Slot = usize;

/// A value while a program runs.
#[derive(Clone, Debug, Default)]
pub(super) enum Value {
    #[default]
    None,
    Tensor(Tensor),
    /// Complex numbers as pairs: a last dimension of 2, the real part first.
    Complex(Tensor),
    Int(i64),
    Float(f64),
    Bool(bool),
}

impl Value {
    /// A tensor, or the pairs of complex numbers.
    pub fn of(tensor: &Tensor, is_complex: bool) -> Value {
        match is_complex {
            true => Value::Complex(tensor.clone()),
            false => Value::Tensor(tensor.clone()),
        }
    }
}

/// An argument of a step.
#[derive(Clone, Debug)]
pub(super) enum Arg {
    None,
    Slot(Slot),
    Int(i64),
    Float(f64),
    /// The real and the imaginary part of a number.
    Complex(f64, f64),
    Bool(bool),
    Text(Arc<str>),
    /// By PyTorch's number.
    DType(i64),
    /// A device, a layout or an order of dimensions in memory, which nothing depends on: a program runs on one device, and
    /// what runs it decides layouts.
    Place,
    List(Vec<Arg>),
}

/// The arguments of one operator.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub args: &'a [(Arc<str>, Arg)],
    pub values: &'a [Value],
    pub device: &'a Device,
}

/// Results of an operator.
pub(super) type Results = Result<Vec<Value>>;

/// How an operator is run.
pub(super) type Run = fn(&Call<'_>) -> Results;

/// One tensor.
pub(super) fn one(tensor: Tensor) -> Results {
    Ok(vec![Value::Tensor(tensor)])
}

/// A number as one of a dtype's kind: of integers, its whole part.
pub(super) fn of_kind(number: Scalar, dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(number.to_bool()),
        dtype if dtype.is_float() => number,
        _ => Scalar::Int(number.to_i64()),
    }
}

/// A function of a tensor computed in the dtype that keeps its sums, and rounded once to its own.
pub(super) fn wide(x: &Tensor, f: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
    let dtype = x.dtype().compute();
    match dtype == x.dtype() {
        true => f(x),
        false => f(&x.to_dtype(dtype)).to_dtype(x.dtype()),
    }
}

/// Several tensors.
pub(super) fn all(tensors: impl IntoIterator<Item = Tensor>) -> Results {
    Ok(tensors.into_iter().map(Value::Tensor).collect())
}

impl Value {
    /// The number, if this is one.
    pub fn scalar(&self) -> Option<Scalar> {
        Some(match *self {
            Value::Int(number) => Scalar::Int(number),
            Value::Float(number) => Scalar::Float(number),
            Value::Bool(value) => Scalar::Bool(value),
            _ => return None,
        })
    }
}

impl From<Scalar> for Value {
    fn from(number: Scalar) -> Value {
        match number {
            Scalar::Bool(value) => Value::Bool(value),
            Scalar::Int(number) => Value::Int(number),
            Scalar::Float(number) => Value::Float(number),
        }
    }
}

impl<'a> Call<'a> {
    /// The argument of a name, unless it is absent or `None`.
    pub fn arg(&self, name: &str) -> Option<&'a Arg> {
        let found = self.args.iter().find(|(key, _)| &**key == name);
        found.map(|(_, arg)| arg).filter(|arg| match arg {
            Arg::None => false,
            Arg::Slot(slot) => !matches!(self.values[*slot], Value::None),
            _ => true,
        })
    }

    /// Whether there is an argument of a name that is not `None`.
    pub fn has(&self, name: &str) -> bool {
        self.arg(name).is_some()
    }

    /// The argument at a position.
    pub fn at(&self, position: usize) -> Result<Value> {
        let arg = self.args.get(position).map(|(_, arg)| arg);
        arg.and_then(|arg| self.value_of(arg))
            .ok_or_else(|| Error::argument(format!("argument {position} is missing")))
    }

    /// What an argument is, if that is one value.
    pub fn value_of(&self, arg: &Arg) -> Option<Value> {
        Some(match *arg {
            Arg::Slot(slot) => self.values[slot].clone(),
            Arg::Int(number) => Value::Int(number),
            Arg::Float(number) => Value::Float(number),
            Arg::Bool(value) => Value::Bool(value),
            Arg::None => Value::None,
            _ => return None,
        })
    }

    fn wrong(name: &str, what: &str) -> Error {
        Error::argument(format!("its argument {name:?} is no {what}"))
    }

    fn needed(name: &str) -> Error {
        Error::argument(format!("its argument {name:?} is missing"))
    }

    fn tensor_of(&self, name: &str, arg: &'a Arg) -> Result<&'a Tensor> {
        match arg {
            Arg::Slot(slot) => match &self.values[*slot] {
                Value::Tensor(tensor) => Ok(tensor),
                Value::Complex(_) => Err(Error::unsupported(format!(
                    "its argument {name:?} has complex numbers, which it is not taught to take"
                ))),
                _ => Err(Self::wrong(name, "tensor")),
            },
            _ => Err(Self::wrong(name, "tensor")),
        }
    }

    /// A tensor.
    pub fn tensor(&self, name: &str) -> Result<&'a Tensor> {
        let arg = self.arg(name).ok_or_else(|| Self::needed(name))?;
        self.tensor_of(name, arg)
    }

    /// A tensor that may be absent.
    pub fn tensor_opt(&self, name: &str) -> Result<Option<&'a Tensor>> {
        self.arg(name)
            .map(|arg| self.tensor_of(name, arg))
            .transpose()
    }

    /// A tensor's pairs, if it is of complex numbers.
    pub fn complex(&self, name: &str) -> Option<&'a Tensor> {
        match self.arg(name)? {
            Arg::Slot(slot) => match &self.values[*slot] {
                Value::Complex(pairs) => Some(pairs),
                _ => None,
            },
            _ => None,
        }
    }

    /// A list of tensors.
    pub fn tensors(&self, name: &str) -> Result<Vec<&'a Tensor>> {
        let items = self.items(name)?.ok_or_else(|| Self::needed(name))?;
        items.iter().map(|arg| self.tensor_of(name, arg)).collect()
    }

    /// A list of tensors of which some may be absent.
    pub fn optional_tensors(&self, name: &str) -> Result<Vec<Option<&'a Tensor>>> {
        let items = self.items(name)?.ok_or_else(|| Self::needed(name))?;
        let tensor = |arg: &'a Arg| match arg {
            Arg::None => Ok(None),
            arg => self.tensor_of(name, arg).map(Some),
        };
        items.iter().map(tensor).collect()
    }

    fn items(&self, name: &str) -> Result<Option<&'a [Arg]>> {
        match self.arg(name) {
            None => Ok(None),
            Some(Arg::List(items)) => Ok(Some(items)),
            Some(_) => Err(Self::wrong(name, "list")),
        }
    }

    /// A number. A tensor of one element, where a number is expected, is read.
    pub fn scalar(&self, name: &str) -> Result<Option<Scalar>> {
        let Some(arg) = self.arg(name) else {
            return Ok(None);
        };
        match self.value_of(arg) {
            Some(Value::Tensor(tensor)) => read(&tensor).map(Some),
            value => match value.and_then(|value| value.scalar()) {
                Some(number) => Ok(Some(number)),
                None => Err(Self::wrong(name, "number")),
            },
        }
    }

    /// A number, or what stands for it where it is absent.
    pub fn scalar_or(&self, name: &str, default: impl Into<Scalar>) -> Result<Scalar> {
        Ok(self.scalar(name)?.unwrap_or(default.into()))
    }

    /// An integer that may be absent.
    pub fn int(&self, name: &str) -> Result<Option<i64>> {
        Ok(self.scalar(name)?.map(Scalar::to_i64))
    }

    /// An integer, or what stands for it where it is absent.
    pub fn int_or(&self, name: &str, default: i64) -> Result<i64> {
        Ok(self.int(name)?.unwrap_or(default))
    }

    /// A dimension or position, or what stands for it where it is absent.
    pub fn dim_or(&self, name: &str, default: isize) -> Result<isize> {
        Ok(self.int(name)?.map_or(default, |dim| dim as isize))
    }

    /// A size, or what stands for it where it is absent.
    pub fn size_or(&self, name: &str, default: usize) -> Result<usize> {
        match self.int(name)? {
            None => Ok(default),
            Some(size) => size_of(name, size),
        }
    }

    /// A floating-point number, or what stands for it where it is absent.
    pub fn float_or(&self, name: &str, default: f64) -> Result<f64> {
        Ok(self.scalar(name)?.map_or(default, Scalar::to_f64))
    }

    /// A truth value, or what stands for it where it is absent.
    pub fn bool_or(&self, name: &str, default: bool) -> Result<bool> {
        Ok(self.scalar(name)?.map_or(default, Scalar::to_bool))
    }

    /// A text that may be absent.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>> {
        match self.arg(name) {
            None => Ok(None),
            Some(Arg::Text(text)) => Ok(Some(text)),
            Some(_) => Err(Self::wrong(name, "text")),
        }
    }

    /// Integers that may be absent; one stands for a list of one.
    pub fn ints(&self, name: &str) -> Result<Option<Vec<i64>>> {
        let int = |arg: &Arg| match self.value_of(arg) {
            Some(Value::Tensor(tensor)) => read(&tensor).map(Scalar::to_i64),
            value => {
                let number = value.and_then(|value| value.scalar());
                number
                    .map(Scalar::to_i64)
                    .ok_or_else(|| Self::wrong(name, "list of integers"))
            }
        };
        match self.arg(name) {
            None => Ok(None),
            Some(Arg::List(items)) => items.iter().map(int).collect::<Result<_>>().map(Some),
            Some(arg) => Ok(Some(vec![int(arg)?])),
        }
    }

    /// Floating-point numbers that may be absent.
    pub fn floats(&self, name: &str) -> Result<Option<Vec<f64>>> {
        let float = |arg: &Arg| {
            let number = self.value_of(arg).and_then(|value| value.scalar());
            number
                .map(Scalar::to_f64)
                .ok_or_else(|| Self::wrong(name, "list of numbers"))
        };
        let items = self.items(name)?;
        items
            .map(|items| items.iter().map(float).collect())
            .transpose()
    }

    /// Dimensions or positions; none where they are absent.
    pub fn dims(&self, name: &str) -> Result<Vec<isize>> {
        let ints = self.ints(name)?.unwrap_or_default();
        Ok(ints.into_iter().map(|dim| dim as isize).collect())
    }

    /// Sizes.
    pub fn sizes(&self, name: &str) -> Result<Vec<usize>> {
        let ints = self.ints(name)?.ok_or_else(|| Self::needed(name))?;
        ints.into_iter().map(|size| size_of(name, size)).collect()
    }

    /// Sizes, or what stands for them where they are absent or empty.
    pub fn sizes_or(&self, name: &str, default: &[usize]) -> Result<Vec<usize>> {
        match self.ints(name)? {
            Some(ints) if !ints.is_empty() => {
                ints.into_iter().map(|size| size_of(name, size)).collect()
            }
            _ => Ok(default.to_vec()),
        }
    }

    /// PyTorch's number of a dtype that may be absent.
    pub fn dtype_number(&self, name: &str) -> Option<i64> {
        match self.arg(name)? {
            Arg::DType(number) => Some(*number),
            // Operators of Prims are given dtypes as integers now and then.
            Arg::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// A dtype that may be absent.
    pub fn dtype(&self, name: &str) -> Result<Option<DType>> {
        let Some(number) = self.dtype_number(name) else {
            return Ok(None);
        };
        schema::dtype_of(number)
            .map(Some)
            .ok_or_else(|| Error::unsupported(format!("no tensor has PyTorch's dtype {number}")))
    }

    /// A tensor or a number, as operators of two operands take it.
    pub fn operand(&self, name: &str) -> Result<Operand<'a>> {
        let arg = self.arg(name).ok_or_else(|| Self::needed(name))?;
        if let Arg::Slot(slot) = arg
            && let Value::Tensor(tensor) = &self.values[*slot]
        {
            return Ok(Operand::from(tensor));
        }
        let number = self.scalar(name)?.ok_or_else(|| Self::needed(name))?;
        Ok(Operand::Scalar(number))
    }

    /// A tensor, or a number as one of no dimensions.
    pub fn tensor_of_either(&self, name: &str) -> Result<Tensor> {
        match self.operand(name)? {
            Operand::Tensor(tensor) => Ok(tensor.clone()),
            Operand::Owned(tensor) => Ok(tensor),
            Operand::Scalar(number) => {
                Ok(Tensor::scalar(number, number.default_dtype(), self.device))
            }
        }
    }
}

fn size_of(name: &str, size: i64) -> Result<usize> {
    usize::try_from(size)
        .map_err(|_| Error::argument(format!("its argument {name:?} is {size}, which is no size")))
}

/// The only element of a tensor.
pub(super) fn read(tensor: &Tensor) -> Result<Scalar> {
    if let Some(error) = tensor.error() {
        return Err(error);
    }
    let one = tensor.reshape(());
    Ok(match tensor.dtype() {
        DType::Bool => Scalar::Bool(one.to_scalar()?),
        dtype if dtype.is_float() => Scalar::Float(one.to_dtype(DType::F64).to_scalar()?),
        _ => Scalar::Int(one.to_dtype(DType::I64).to_scalar()?),
    })
}
