//! A slow, obvious interpreter of loop nests and fused nodes: the oracle of lowering, fusion and emission.
//!
//! Contract. A fused node means: for every row, in any order, every reduction over all columns in row-major order, one
//! reduction or scan (which has a result at every column) after the other in the order of the body; then every store, at every column if it varies within the row,
//! else once. A value is computed anew at every point, by the scalar twins of the support functions, in its compute
//! type. Differences to generated code: sums are left folds (generated code adds in a fixed tree, so floating-point
//! sums and products differ by rounding), and no memory is reused in place.
//!
//! The interpreter trusts nothing: a load or store outside its buffer, a value of another type than the body says, an
//! element that no store reaches and a buffer read before it is written are internal errors.

mod datum;
mod frame;
mod launch;
mod threads;

use crate::body::Source;
use crate::draft::{Draft, Step};
use crate::emit::{Emitted, Pointer};
use crate::graph::{Graph, NodeOp};
use crate::lower::{Call, CallArg, Pieces, Site};
use crate::nest::LoopNest;
use crate::schedule::FusedNode;
use datum::Datum;
use ferrotrace_kernels::{Arg, Array, Operand, ValueId, copy, eager};
use ferrotrace_runtime::{DType, Error, ErrorKind, Layout, Result, Scalar};
use frame::Frame;
pub use launch::interpret_threads;
use std::collections::HashMap;

/// Runs a draft step by step: generated kernels by interpretation, calls on ready-made kernels. Buffers are released
/// where the draft says so.
///
/// # Errors
/// An index out of range, as a plan reports it; a ready-made kernel's error; an internal error where the draft breaks
/// the interpreter's contract.
pub fn interpret(draft: &Draft, inputs: &[Array], scalars: &[Scalar]) -> Result<Vec<Array>> {
    let mut memory = Memory::of(draft, inputs, scalars);
    for (step, frees) in draft.steps.iter().zip(&draft.frees) {
        memory.interpret(step)?;
        memory.release(frees);
    }
    memory.outputs(draft)
}

/// The nodes that a kernel stores.
fn stored(kernel: &Emitted) -> Vec<ValueId> {
    let writes = |p: &Pointer| match p {
        Pointer::Write(v) => Some(*v),
        Pointer::Read(_) => None,
    };
    kernel.pointers.iter().filter_map(writes).collect()
}

/// What a program has computed so far.
#[derive(Debug)]
pub struct Memory<'a> {
    graph: &'a Graph,
    inputs: &'a [Array],
    scalars: &'a [Scalar],
    sites: &'a [Site],
    pieces: Option<&'a Pieces>,
    /// Whether inputs may be written over after their last use.
    donated: bool,
    nodes: HashMap<ValueId, Array>,
}

impl<'a> Memory<'a> {
    /// The inputs of a graph and the numbers of its slots; `sites` says what index faults mean.
    pub fn new(
        graph: &'a Graph,
        inputs: &'a [Array],
        scalars: &'a [Scalar],
        sites: &'a [Site],
    ) -> Memory<'a> {
        Memory {
            graph,
            inputs,
            scalars,
            sites,
            pieces: None,
            donated: false,
            nodes: HashMap::new(),
        }
    }

    /// What a draft needs: its inputs and the numbers of its slots.
    fn of(draft: &'a Draft, inputs: &'a [Array], scalars: &'a [Scalar]) -> Memory<'a> {
        Memory {
            pieces: Some(&draft.pieces),
            ..Memory::new(&draft.graph, inputs, scalars, &draft.sites)
        }
    }

    /// The stored value of a node, row-major.
    pub fn array(&self, node: ValueId) -> Option<&Array> {
        self.nodes.get(&node)
    }

    /// Runs a loop nest and stores its node.
    ///
    /// # Errors
    /// The errors of [`interpret`].
    pub fn run_nest(&mut self, nest: &LoopNest) -> Result<()> {
        self.run(&FusedNode::of(0, nest), &[nest.node])
    }

    /// Runs a fused node and stores those of its nodes that are in `stored`.
    ///
    /// # Errors
    /// The errors of [`interpret`].
    pub fn run(&mut self, node: &FusedNode, stored: &[ValueId]) -> Result<()> {
        let written = Frame::new(self, node).run(stored)?;
        let mut all = written.into_iter();
        all.try_for_each(|(id, array)| self.store(id, array))
    }

    /// Runs a step of a draft.
    fn interpret(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Launch(emitted) => self.run(&emitted.node, &stored(emitted)),
            Step::Call(call) => self.call(call),
            Step::Template(template) => {
                if let Some(before) = &template.before {
                    self.run(&before.kernel.node, &stored(&before.kernel))?;
                }
                self.call(&template.call)?;
                if let Some(kernel) = &template.kernel {
                    self.run(&kernel.node, &stored(kernel))?;
                }
                if let Some(before) = &template.before {
                    self.nodes.remove(&before.node);
                }
                if !template.stored {
                    self.nodes.remove(&template.call.node);
                }
                Ok(())
            }
        }
    }

    /// Drops nodes after their last use.
    fn release(&mut self, frees: &[Source]) {
        for source in frees {
            if let Source::Node(v) = source {
                self.nodes.remove(v);
            }
        }
    }

    fn outputs(&self, draft: &Draft) -> Result<Vec<Array>> {
        let outputs = draft.outputs.iter();
        outputs
            .map(|(source, layout)| self.window(*source, layout))
            .collect()
    }

    fn call(&mut self, call: &Call) -> Result<()> {
        let node = self.graph.node(call.node);
        let NodeOp::Op(op) = &node.op else {
            return Err(Error::internal("an input is called"));
        };
        let arg = |a: &CallArg| match a {
            CallArg::Window(source, layout) => self.window(*source, layout).map(Arg::Array),
            CallArg::Number(operand) => self.number(operand).map(Arg::Scalar),
        };
        let args: Vec<Arg> = call.args.iter().map(arg).collect::<Result<_>>()?;
        let placed = |e: Error| e.at(self.graph.context(call.node));
        let layout = self.layout(call.node);
        if !layout.is_contiguous() {
            let span = ferrotrace_runtime::Shape::from([layout.span().len()]);
            let out = Array::empty(&self.graph.device(), span, node.dtype)?.with_layout(layout);
            eager::run_into(op, &args, &out).map_err(placed)?;
            self.nodes.insert(call.node, out);
            return Ok(());
        }
        let array = op.run(&args, &node.shape, node.dtype).map_err(placed)?;
        let array = if array.layout.is_contiguous() && array.layout.offset() == 0 {
            array
        } else {
            copy::contiguous(&array)?
        };
        self.nodes.insert(call.node, array);
        Ok(())
    }

    fn number(&self, operand: &Operand) -> Result<Scalar> {
        match operand {
            Operand::Slot(s, _) => {
                let missing = || Error::internal("a number is missing");
                self.scalars.get(*s as usize).copied().ok_or_else(missing)
            }
            Operand::Const(scalar) => Ok(*scalar),
            Operand::Value(_) => Err(Error::internal("a tensor stands for a number")),
        }
    }

    fn source(&self, source: Source) -> Option<&Array> {
        match source {
            Source::Input(n) => self.inputs.get(n as usize),
            Source::Node(v) => self.nodes.get(&v),
        }
    }

    fn window(&self, source: Source, layout: &Layout) -> Result<Array> {
        let array = match (self.source(source), source) {
            (Some(array), _) => array.clone(),
            // A node without elements is never computed.
            (None, Source::Node(v)) if self.graph.node(v).shape.numel() == 0 => {
                let node = self.graph.node(v);
                Array::empty(&self.graph.device(), node.shape.clone(), node.dtype)?
            }
            _ => return Err(Error::internal(format!("{source:?} has no value"))),
        };
        let offset = array.layout.offset() as isize + layout.offset() as isize;
        let strides = layout.strides().iter().copied().collect();
        Ok(array.with_layout(Layout::new(
            layout.shape().clone(),
            strides,
            offset as usize,
        )))
    }

    /// A node of these elements, of which those that its layout has must be there, and no others.
    fn written(&self, id: ValueId, dtype: DType, elements: Vec<Option<Datum>>) -> Result<Array> {
        let layout = self.layout(id);
        let mut expected = vec![false; elements.len()];
        layout.offsets().for_each(|at| expected[at] = true);
        let stored = elements.iter().map(Option::is_some);
        if !stored.eq(expected) {
            let hole = format!("%{} is not stored at its elements", id.0);
            return Err(Error::internal(hole));
        }
        let any = elements.iter().flatten().next().copied();
        let elements = elements.into_iter().filter_map(|element| element.or(any));
        let elements: Vec<Datum> = elements.collect();
        Ok(Array {
            buffer: Datum::write(&elements, dtype, &self.graph.device())?,
            layout,
            dtype,
        })
    }

    /// The error of an index that is out of range.
    fn fault(&self, site: u32, index: i64) -> Error {
        match self.sites.get((site as usize).wrapping_sub(1)) {
            Some(site) => Error::new(ErrorKind::Index {
                index,
                dim: site.dim,
                size: site.size,
            })
            .at(self.graph.context(site.node)),
            None => Error::internal("a fault of no known site"),
        }
    }

    /// The elements of a window, in order.
    fn data(
        &self,
        (source, layout): &(Source, Layout),
        dtype: DType,
    ) -> Result<Vec<Option<Datum>>> {
        let array = self.window(*source, layout)?;
        let outside = || Error::internal(format!("{source:?} is read outside"));
        let offsets = array.layout.offsets();
        offsets
            .map(|at| {
                Some(Datum::read(&array.buffer, dtype, at as i64).ok_or_else(outside)).transpose()
            })
            .collect()
    }

    /// The element at a position counted from the window's first.
    fn element(&self, source: Source, dtype: DType, at: i64) -> Result<Datum> {
        let none = || Error::internal(format!("{source:?} is read before it is written"));
        let array = self.source(source).ok_or_else(none)?;
        if array.dtype != dtype {
            return Err(Error::internal(format!(
                "{source:?} of {} is read as {dtype}",
                array.dtype
            )));
        }
        Datum::read(&array.buffer, dtype, array.layout.offset() as i64 + at)
            .ok_or_else(|| Error::internal(format!("{source:?} is read outside, at {at}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::Draft;
    use crate::lower::{Lowered, lower};
    use crate::policy::Policy;
    use ferrotrace_runtime::{Buffer, Device};

    fn array(shape: &[usize], data: &[f32]) -> Array {
        let buffer = Buffer::from_slice(&Device::cpu(), data).expect("memory");
        Array {
            buffer,
            layout: Layout::contiguous(shape.into()),
            dtype: DType::F32,
        }
    }

    const PROGRAM: &str = "
        %0: f32[2, 9] = input 0 [9, 1]
        %1: f32[2] = sum(%0) {dims: [1], keepdim: false}
        %2: f32[2] = mul(%1, $0=2.0)
        %3: i64[2] = argmax(%0) {dims: [1], keepdim: false}
        return %2 %3";

    #[test]
    fn rows_reductions_and_numbers() {
        let graph: Graph = PROGRAM.parse().expect("a graph");
        let x = array(
            &[2, 9],
            &[
                1.,
                2.,
                3.,
                4.,
                5.,
                9.,
                7.,
                9.,
                0.,
                0.,
                -1.,
                0.,
                0.,
                0.,
                0.,
                0.,
                0.,
                f32::NAN,
            ],
        );
        let draft = Draft::of(graph, &Policy::default()).expect("a draft");
        let y = interpret(&draft, &[x], &[Scalar::Float(0.5)]).expect("it runs");
        assert_eq!(y[0].buffer.as_slice::<f32>()[0], 20.0);
        assert!(y[0].buffer.as_slice::<f32>()[1].is_nan());
        assert_eq!(y[1].buffer.as_slice::<i64>(), [5, 8]);
    }

    #[test]
    fn nests_run_one_by_one() {
        let graph: Graph = PROGRAM.parse().expect("a graph");
        let lowering = lower(&graph, &Policy::default()).expect("it lowers");
        let inputs = [array(&[2, 9], &[1.0; 18])];
        let mut memory = Memory::new(&graph, &inputs, &[Scalar::Float(1.0)], &lowering.sites);
        for step in &lowering.steps {
            let Lowered::Nest(nest) = step else {
                panic!("no calls")
            };
            memory.run_nest(nest).expect("it runs");
        }
        let sum = memory.array(ValueId(2)).expect("stored");
        assert_eq!(sum.buffer.as_slice::<f32>(), [9.0, 9.0]);
        let Lowered::Nest(nest) = &lowering.steps[0] else {
            panic!("no calls")
        };
        assert!(memory.run_nest(nest).is_err(), "a node is stored once");
    }

    #[test]
    fn reads_outside_and_holes_are_errors() {
        let graph: Graph = PROGRAM.parse().expect("a graph");
        let lowering = lower(&graph, &Policy::default()).expect("it lowers");
        let Lowered::Nest(nest) = &lowering.steps[0] else {
            panic!("no calls")
        };
        let run = |nest: &LoopNest, input: Array| {
            let inputs = [input];
            Memory::new(&graph, &inputs, &[Scalar::Float(1.0)], &[]).run_nest(nest)
        };
        assert!(run(nest, array(&[2, 9], &[1.0; 18])).is_ok());
        let short = run(nest, array(&[17], &[1.0; 17])).expect_err("a read outside");
        assert!(short.to_string().contains("outside"), "{short}");
        let mut fewer = nest.clone();
        fewer.iter[0] = 1;
        let hole = run(&fewer, array(&[2, 9], &[1.0; 18])).expect_err("an element is missing");
        assert!(hole.to_string().contains("not stored"), "{hole}");
    }
}
