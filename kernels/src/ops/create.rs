//! Arrays made from numbers.

use crate::arg::{Arg, scalar};
use crate::cpu::create::{arange, full, iota};
use crate::op::operator::{Inferred, Operator, attributes, facts, no_gradient, question};
use crate::text::{Line, Named};
use crate::{ArgMeta, Array, Class};
use ferrotrace_runtime::{DType, Device, Result, Shape};

/// One number everywhere: a number operand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Full {
    /// The shape.
    pub shape: Shape,
    /// The dtype.
    pub dtype: DType,
}

question! {
    /// The number everywhere that it is.
    as_full: Full(Full)
}

impl Operator for Full {
    fn name(&self) -> &'static str {
        "full"
    }

    fn attributes(&self) -> Vec<Named> {
        Vec::new()
    }

    fn read(name: &str, line: &Line<'_>) -> Result<Option<Full>> {
        let (shape, dtype) = (line.shape.clone(), line.dtype);
        Ok((name == "full").then_some(Full { shape, dtype }))
    }

    facts! { class: Class::Create, light: true, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, _: &[ArgMeta<'_>]) -> Inferred {
        Ok((self.shape.clone(), self.dtype))
    }

    no_gradient!();

    fn run(&self, args: &[Arg], _: &Shape, _: DType) -> Result<Array> {
        full(&Device::cpu(), &self.shape, scalar(args, 0)?, self.dtype)
    }
}

/// start + i·step, computed in `I64` or `F64`: number operands start, step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Arange {
    /// How many.
    pub len: usize,
    /// The dtype.
    pub dtype: DType,
}

impl Operator for Arange {
    fn name(&self) -> &'static str {
        "arange"
    }

    fn attributes(&self) -> Vec<Named> {
        Vec::new()
    }

    fn read(name: &str, line: &Line<'_>) -> Result<Option<Arange>> {
        let (len, dtype) = (line.shape.numel(), line.dtype);
        Ok((name == "arange").then_some(Arange { len, dtype }))
    }

    facts! { class: Class::Create, light: true, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, _: &[ArgMeta<'_>]) -> Inferred {
        Ok((Shape::from(self.len), self.dtype))
    }

    no_gradient!();

    fn run(&self, args: &[Arg], _: &Shape, _: DType) -> Result<Array> {
        let (start, step) = (scalar(args, 0)?, scalar(args, 1)?);
        arange(&Device::cpu(), self.len, start, step, self.dtype)
    }
}

/// The position along a dimension, as `I64`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Iota {
    /// The shape.
    pub shape: Shape,
    /// The dimension counted.
    pub dim: usize,
}

impl Operator for Iota {
    fn name(&self) -> &'static str {
        "iota"
    }

    attributes!(dim = dim);

    fn read(name: &str, line: &Line<'_>) -> Result<Option<Iota>> {
        if name != "iota" {
            return Ok(None);
        }
        let (shape, dim) = (line.shape.clone(), line.value("dim")?);
        Ok(Some(Iota { shape, dim }))
    }

    facts! { class: Class::Create, light: true, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, _: &[ArgMeta<'_>]) -> Inferred {
        Ok((self.shape.clone(), DType::I64))
    }

    no_gradient!();

    fn run(&self, _: &[Arg], _: &Shape, _: DType) -> Result<Array> {
        iota(&Device::cpu(), &self.shape, self.dim)
    }
}
