//! Values of a call's forward pass that are constants to gradients of gradients, recorded again.

use super::call::Kept;
use super::part::Nodes;
use super::steps::{Does, Given, Steps};
use crate::form::{Edge, Kind};
use crate::jit_fn::replay::{Recorded, Slot, Source};
use crate::mode;
use crate::node::Draw;
use crate::record::record;
use crate::{Input, Tensor};
use ferrotrace_kernels::Op;
use ferrotrace_kernels::op::Full;
use ferrotrace_runtime::{DType, Device, Error, Result, Scalar, Shape};
use std::panic::Location;
use std::sync::Arc;

/// Values of a call's forward pass, without histories.
pub(super) struct Constants {
    nodes: Vec<Option<Tensor>>,
    leaves: Vec<Option<Tensor>>,
}

impl Constants {
    /// What some operations read.
    pub fn of(recorded: &Recorded, kept: &Kept, steps: &Steps) -> Result<Constants> {
        let nodes = Nodes::of(&recorded.form);
        let all = steps.steps.iter().flat_map(|(does, operands)| {
            let own = match does {
                Does::Rule(_, value) => Some(value),
                Does::Operation(_) => None,
            };
            operands.iter().chain(own)
        });
        let read = all.filter_map(|given| match given {
            Given::Value(Edge::Node(n)) => Some(*n as usize),
            _ => None,
        });
        let needed = nodes.needed(read, &vec![false; nodes.len()]);
        let leaf = |(leaf, source): (usize, &Source)| {
            let like = &recorded.form.leaves[leaf];
            match source {
                Source::Constant(array) => Some(Tensor::from_array(array.clone())),
                Source::Argument(number) => {
                    let array = kept.arguments.get(*number)?;
                    let data = array.clone().map(Tensor::from_array);
                    let shape = like.layout.shape();
                    Some(data.unwrap_or_else(|| zeros(shape, like.dtype, &like.device)))
                }
            }
        };
        let mut made = Constants {
            nodes: vec![None; nodes.len()],
            leaves: recorded.sources.iter().enumerate().map(leaf).collect(),
        };
        mode::with_history(false, || {
            for node in (0..nodes.len()).filter(|&n| needed[n]) {
                let mut slots = recorded.slots[nodes.slots(node)].iter();
                let operands = nodes.operands(node).iter().map(|edge| match edge {
                    Edge::Slot(_) => Ok(None),
                    edge => made.tensor(*edge).map(Some),
                });
                let operands: Vec<Option<Tensor>> = operands.collect::<Result<_>>()?;
                let input = |operand: &'_ Option<Tensor>| match operand {
                    Some(_) => None,
                    None => Some(match slots.next() {
                        Some(Slot::Draw { index, offset }) => {
                            drawn_as(kept.drawn[*index as usize], *offset)
                        }
                        Some(Slot::Fixed(number)) => Input::Scalar(*number),
                        None => Input::Scalar(Scalar::Int(0)),
                    }),
                };
                let numbers: Vec<Option<Input<'static>>> = operands.iter().map(input).collect();
                let inputs = operands.iter().zip(numbers).map(|(operand, number)| {
                    let tensor = operand.as_ref().map(Input::Tensor);
                    tensor.or(number).unwrap_or(Input::Scalar(Scalar::Int(0)))
                });
                let inputs: Vec<Input<'_>> = inputs.collect();
                let (kind, line) = (&recorded.form.nodes[node].kind, recorded.lines[node]);
                let value = recorded_as(kind, &inputs, line.location);
                drop(inputs);
                made.nodes[node] = Some(value);
            }
            Ok(made)
        })
    }

    pub fn tensor(&self, edge: Edge) -> Result<Tensor> {
        let tensor = match edge {
            Edge::Node(n) => self.nodes[n as usize].clone(),
            Edge::Leaf(n) => self.leaves[n as usize].clone(),
            Edge::Slot(_) => None,
        };
        tensor.ok_or_else(|| Error::internal("a value of a call was not recorded again"))
    }
}

/// An operation, in the precision that it was recorded in.
pub(super) fn recorded_as(
    kind: &Arc<Kind>,
    inputs: &[Input<'_>],
    location: &'static Location<'static>,
) -> Tensor {
    let (op, device) = (kind.op().clone(), Some(&kind.device));
    mode::with_precision(kind.precision, || {
        record(device, op, kind.name, inputs, location)
    })
}

/// A number that a call drew.
pub(super) fn drawn_as((key, first): (u64, u64), offset: bool) -> Input<'static> {
    Input::Draw(Draw {
        value: if offset { first } else { key },
        index: Draw::NONE,
        offset,
    })
}

/// Stands for data that no gradient reads.
pub(super) fn zeros(shape: &Shape, dtype: DType, device: &Device) -> Tensor {
    let shape = shape.clone();
    let full = Op::from(Full { shape, dtype });
    let zero = Input::Scalar(Scalar::Float(0.0));
    record(Some(device), full, None, &[zero], Location::caller())
}
