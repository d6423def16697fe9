//! Records what gradient rules build.

use crate::form::Kind;
use crate::history::Operand as Kept;
use crate::history::Operation;
use crate::node::NodeInput;
use crate::record::record;
use crate::{Input, Tensor, trace};
use ferrotrace_kernels::{Op, OpBuilder, Operand, ValueId};
use ferrotrace_runtime::{DType, Device, Error, Result, Shape};
use smallvec::SmallVec;
use std::panic::Location;
use std::sync::Arc;

/// A value that a rule sees: of those that it does not read, the kind alone is there.
struct Known {
    kind: Arc<Kind>,
    tensor: Option<Tensor>,
}

/// Records operations for the rule of one operation.
pub(super) struct Recorder {
    values: SmallVec<[Known; 8]>,
    numbers: SmallVec<[NodeInput; 2]>,
    device: Device,
    /// What errors name: the operation that is differentiated, and its line.
    called: &'static str,
    location: &'static Location<'static>,
}

impl Recorder {
    /// A recorder for the gradient of an operation; its operands, its result, and `gradient`.
    pub fn new(
        operation: &Operation,
        result: Option<Tensor>,
        gradient: &Tensor,
    ) -> (Recorder, SmallVec<[Operand; 4]>, ValueId, ValueId) {
        let mut recorder = Recorder {
            values: SmallVec::new(),
            numbers: SmallVec::new(),
            device: operation.kind.device.clone(),
            called: operation.kind.called(),
            location: operation.location,
        };
        let operand = |operand: &Kept| match operand {
            Kept::Tensor { kind, .. } => {
                let tensor = operand.value().map(Tensor::of_value);
                Operand::Value(recorder.know(kind.clone(), tensor))
            }
            Kept::Number(number) => {
                recorder.numbers.push(number.clone());
                let scalar = number
                    .scalar()
                    .unwrap_or(ferrotrace_runtime::Scalar::Int(0));
                Operand::Slot(recorder.numbers.len() as u32 - 1, scalar)
            }
        };
        let operands = operation.operands.iter().map(operand).collect();
        let result = recorder.know(operation.kind.clone(), result);
        let gradient = recorder.add(gradient.clone());
        (recorder, operands, result, gradient)
    }

    /// What depends on integers alone is a constant: a gradient that a mask or an index chose has the gradient 0 by them.
    fn know(&mut self, kind: Arc<Kind>, tensor: Option<Tensor>) -> ValueId {
        let tensor = tensor.map(|tensor| match tensor.has_grad() {
            true => tensor,
            false => tensor.detach(),
        });
        self.values.push(Known { kind, tensor });
        ValueId(self.values.len() as u32 - 1)
    }

    /// A tensor as a value.
    pub fn add(&mut self, tensor: Tensor) -> ValueId {
        let kind = tensor.node().facts.kind.clone();
        self.know(kind, Some(tensor))
    }

    /// The tensor of a value.
    pub fn tensor(&self, value: ValueId) -> Result<&Tensor> {
        let tensor = self.values[value.0 as usize].tensor.as_ref();
        tensor.ok_or_else(|| Error::internal("a gradient rule reads what it did not say it reads"))
    }
}

impl OpBuilder for Recorder {
    fn shape(&self, value: ValueId) -> &Shape {
        let known = &self.values[value.0 as usize];
        if let Some(tensor) = &known.tensor {
            trace::observe_sizes(tensor.node());
        }
        &known.kind.shape
    }

    fn dtype(&self, value: ValueId) -> DType {
        self.values[value.0 as usize].kind.dtype
    }

    fn push(&mut self, op: Op, operands: &[Operand]) -> Result<ValueId> {
        let mut inputs: SmallVec<[Input<'_>; 4]> = SmallVec::new();
        for operand in operands {
            inputs.push(match *operand {
                Operand::Value(value) => Input::Tensor(self.tensor(value)?),
                Operand::Const(number) => Input::Scalar(number),
                Operand::Slot(slot, number) => match self.numbers.get(slot as usize) {
                    Some(NodeInput::Draw(draw)) => Input::Draw(*draw),
                    _ => Input::Scalar(number),
                },
            });
        }
        let tensor = record(
            Some(&self.device),
            op,
            Some(self.called),
            &inputs,
            self.location,
        );
        drop(inputs);
        match tensor.node().error() {
            Some(error) => Err(error),
            None => Ok(self.add(tensor)),
        }
    }
}
