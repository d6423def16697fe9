//! Sums of a half type that are not rounded.

use crate::op::gradient::{Adjoint, Gradients};
use crate::op::operator::{Inferred, Operator, question};
use crate::text::{Line, Named};
use crate::{Arg, ArgMeta, Array, Class, Op, OpBuilder, OpBuilderExt, Sizes};
use ferrotrace_runtime::{DType, Result, Shape};

/// A matrix product or convolution whose result of a half type is left as it was summed, in binary32: what a definition
/// adds to it is rounded once with it. Programs do not record it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unrounded(pub Box<Op>);

question! {
    /// The unrounded sum that it is.
    as_unrounded: Unrounded(Unrounded)
}

impl Operator for Unrounded {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn attributes(&self) -> Vec<Named> {
        self.0.entry().attributes()
    }

    /// No text holds it.
    fn read(_: &str, _: &Line<'_>) -> Result<Option<Unrounded>> {
        Ok(None)
    }

    fn class(&self) -> Class {
        self.0.class()
    }

    fn is_light(&self) -> bool {
        self.0.entry().is_light()
    }

    fn jumps(&self, operand: usize) -> bool {
        self.0.entry().jumps(operand)
    }

    fn work(&self, of: &Sizes<'_>) -> u64 {
        self.0.entry().work(of)
    }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let (shape, dtype) = self.0.infer(args)?;
        Ok((shape, dtype.compute()))
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let dtype = b.dtype(of.value(0)?);
        let gradient = b.cast(of.gradient, dtype)?;
        self.0.entry().vjp(b, &Adjoint { gradient, ..*of })
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        self.0.run(args, shape, dtype)
    }
}

impl Op {
    /// The operator whose result is rounded.
    pub fn rounded(&self) -> &Op {
        self.as_unrounded().map_or(self, |Unrounded(op)| op)
    }
}
