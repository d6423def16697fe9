//! Calls of ready-made kernels: where their results lie.

use super::run::{Run, is_whole};
use crate::body::Source;
use crate::graph::NodeOp;
use crate::lower::{Call, CallArg};
use ferrotrace_kernels::{Arg, Array, Op, copy, eager};
use ferrotrace_runtime::{Counter, Error, Layout, Result, Scalar, count};
use smallvec::SmallVec;

impl<'a> Run<'a> {
    /// A stored window, as an array.
    pub(super) fn window(&self, source: Source, layout: &Layout) -> Result<Array> {
        match source {
            Source::Node(v) if self.node(v).is_none() => {
                Ok(self.empty(v)?.with_layout(layout.clone()))
            }
            _ => {
                let base = self.array(source)?;
                let (shape, strides) = (
                    layout.shape().clone(),
                    SmallVec::from_slice(layout.strides()),
                );
                let offset = base.layout.offset() as isize + layout.offset() as isize;
                Ok(base.with_layout(Layout::new(shape, strides, offset as usize)))
            }
        }
    }

    /// A concatenation some of whose parts were written in place: the others are copied there. Padding of what lies
    /// in place: it is written around that.
    fn join(&self, call: &Call) -> Result<Option<Array>> {
        let context = |e: Error| self.draft.placed(e, call.node);
        if let Some(pads) = self.draft.padded(call) {
            count(Counter::LibraryCalls, 1);
            let whole = self.array(Source::Node(call.node))?;
            let (_, args) = self.operands(call)?;
            copy::fill_borders(pads, &args, whole).map_err(context)?;
            return Ok(Some(whole.clone()));
        }
        let Some((dim, copied)) = self.draft.joined(call) else {
            return Ok(None);
        };
        let whole = self.array(Source::Node(call.node))?;
        count(Counter::LibraryCalls, u64::from(!copied.is_empty()));
        let part = |(start, source, layout): (usize, Source, &Layout)| {
            self.window(source, layout).map(|part| (start, part))
        };
        let parts: Vec<(usize, Array)> = copied.into_iter().map(part).collect::<Result<_>>()?;
        let parts: Vec<(usize, &Array)> = parts.iter().map(|(at, part)| (*at, part)).collect();
        copy::join(whole, dim, &parts).map_err(context)?;
        Ok(Some(whole.clone()))
    }

    /// A call's operator and operands.
    pub(super) fn operands(&self, call: &Call) -> Result<(&'a Op, Vec<Arg>)> {
        let NodeOp::Op(op) = &self.draft.graph.node(call.node).op else {
            return Err(Error::internal("an input is called"));
        };
        let arg = |a: &CallArg| match a {
            CallArg::Window(source, layout) => self.window(*source, layout).map(Arg::Array),
            CallArg::Number(operand) => self.number(operand).map(Arg::Scalar),
        };
        Ok((op, call.args.iter().map(arg).collect::<Result<_>>()?))
    }

    /// The operands of a product; one that a kernel computes has a layout, and no memory.
    pub(super) fn operands_but(&self, call: &Call, computed: Option<usize>) -> Result<Vec<Arg>> {
        let dtype = self.draft.graph.node(call.node).dtype;
        let arg = |(i, a): (usize, &CallArg)| match a {
            CallArg::Window(_, layout) if computed == Some(i) => Ok(Arg::Array(Array {
                buffer: self.nothing()?.clone(),
                layout: layout.clone(),
                dtype,
            })),
            CallArg::Window(source, layout) => self.window(*source, layout).map(Arg::Array),
            CallArg::Number(operand) => self.number(operand).map(Arg::Scalar),
        };
        call.args.iter().enumerate().map(arg).collect()
    }

    /// Runs a ready-made kernel: in its window of a concatenation, over a dying operand, or in memory of its own.
    pub(super) fn call(&mut self, call: &Call, frees: &[Source]) -> Result<Array> {
        if let Some(whole) = self.join(call)? {
            return Ok(whole);
        }
        count(Counter::LibraryCalls, 1);
        let node = self.draft.graph.node(call.node);
        let (op, mut args) = self.operands(call)?;
        let placed = |e: Error| self.draft.placed(e, call.node);
        if self.draft.pieces.contains_key(&call.node) {
            let out = self.given(call.node)?;
            eager::run_into(op, &args, &out).map_err(placed)?;
            return Ok(out);
        }
        let over = self.draft.overwritten(call);
        if let Some(over) = over.filter(|over| frees.contains(over) && self.owns(*over)) {
            self.free(over);
            let bytes = node.shape.numel() * node.dtype.size();
            let whole = |arg: &&mut Arg| matches!(&**arg, Arg::Array(x) if is_whole(x, bytes));
            let first = args.first_mut().filter(whole);
            let is_host = self.draft.policy.target.library.is_complete();
            count(Counter::InPlaceWrites, (first.is_some() && !is_host).into());
            // A device's library writes over what nothing but the operand holds.
            if let Some(first) = first.filter(|_| is_host)
                && let Arg::Array(x) = std::mem::replace(first, Arg::Scalar(Scalar::Bool(false)))
            {
                count(Counter::InPlaceWrites, 1);
                return eager::run_over(op, x, &args).map_err(placed);
            }
        }
        let device = self.draft.graph.device();
        let (shape, dtype) = (&node.shape, node.dtype);
        let array = eager::run_on(&device, op, &args, shape, dtype, &self.dense).map_err(placed)?;
        // Later kernels index the node's memory row-major from its start.
        if array.layout.is_contiguous() && array.layout.offset() == 0 {
            Ok(array)
        } else {
            copy::contiguous(&array)
        }
    }
}
