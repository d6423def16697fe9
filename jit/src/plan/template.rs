//! Products with kernels around them: panel by panel on the CPU, by a library with its epilogue on a device.

use super::launch::{Arguments, Outputs};
use super::run::Run;
use crate::body::Source;
use crate::draft::{self, Draft, Template};
use crate::emit::{Emitted, Panels};
use crate::schedule::Epilogue;
use ferrotrace_kernels::Array;
use ferrotrace_kernels::cpu::panels;
use ferrotrace_kernels::ops::{conv, correlation, matmul};
use ferrotrace_runtime::{Counter, Error, Kernel, Layout, Result, count};

/// How a kernel walks the panels of a product.
fn by_panels(emitted: &Emitted) -> Result<Panels> {
    let panels = emitted.panels;
    panels.ok_or_else(|| Error::internal("a kernel without panels"))
}

impl Run<'_> {
    /// A matrix product and the kernels before and behind it. The product gets memory of its own only if others need it,
    /// else that of a result, or none where it lies in scratch memory.
    pub(super) fn template(
        &mut self,
        t: &Template,
        kernels: [Option<&Kernel>; 2],
        frees: &[Source],
    ) -> Result<()> {
        if let Some(epilogue) = t.epilogue {
            return self.by_library(t, epilogue, kernels[1], frees);
        }
        let id = t.call.node;
        let mut outputs = Outputs::default();
        if let Some(emitted) = &t.kernel {
            outputs = self.outputs_of(emitted, frees)?;
        }
        if t.stored {
            let product = self.given(id)?;
            self.store(id, product);
        } else if t.kernel.is_some() {
            let Draft {
                graph,
                policy,
                pieces,
                ..
            } = self.draft;
            let mut fresh = outputs.fresh.iter().map(|f| f.0);
            let host = fresh.find(|node| t.may_lie_in(*node, graph, policy, pieces));
            outputs.passing = Some((id, host));
        }
        let dtype = self.draft.graph.node(id).dtype;
        let args = self.operands_but(&t.call, t.before.as_ref().map(|b| b.operand))?;
        let fed = Outputs {
            passing: t.before.as_ref().map(|b| (b.node, None)),
            ..Outputs::default()
        };
        let mut arguments = Arguments::default();
        let mut added = 0;
        let mut bound = |kernel: Option<&'_ Emitted>, outputs| match kernel {
            Some(kernel) => self
                .bind(kernel, outputs, &mut arguments)
                .map(|()| added += 1),
            None => Ok(()),
        };
        bound(t.before.as_ref().map(|b| &b.kernel), &fed)?;
        bound(t.kernel.as_ref(), &outputs)?;
        count(Counter::LibraryCalls, 1);
        let prologue = match (&t.before, kernels[0]) {
            (Some(before), Some(kernel)) => {
                let at = by_panels(&before.kernel)?;
                Some(panels::Prologue {
                    launch: arguments.launch(0, &before.kernel, kernel),
                    pointer: at.pointer,
                    pitch: at.pitch,
                    piece: at.piece,
                    pieces: at.pieces,
                    size: dtype.size(),
                    right: before.operand == 1,
                    by_rows: before.by_rows,
                })
            }
            _ => None,
        };
        let epilogue = match (&t.kernel, kernels[1]) {
            (Some(emitted), Some(kernel)) => {
                let at = by_panels(emitted)?;
                Some(panels::Epilogue {
                    launch: arguments.launch(added - 1, emitted, kernel),
                    pointer: at.pointer,
                    whole: outputs.passing.is_none_or(|p| p.1.is_some()),
                    pitch: at.pitch,
                    piece: at.piece,
                    pieces: at.pieces,
                })
            }
            _ => None,
        };
        let out = self
            .array(Source::Node(id))
            .ok()
            .filter(|_| t.kernel.is_none());
        let placed = |e: Error| match t.kernel.as_ref() {
            Some(emitted) => self.draft.placed_kernel(e, emitted),
            None => self.draft.placed(e, id),
        };
        let faults = match (draft::convolution(&self.draft.graph, id), &epilogue) {
            (Some(spec), Some(epilogue)) => conv::run_then(spec, &args, dtype, epilogue),
            _ => matmul::run_around(&args, dtype, prologue.as_ref(), epilogue.as_ref(), out),
        };
        let faults = faults.map_err(placed)?;
        drop(arguments);
        let before = t.before.as_ref().map(|before| &before.kernel);
        self.note(&faults, before.into_iter().chain(&t.kernel));
        self.settle(outputs)
    }

    /// A matrix product of a device, or a convolution, and its kernel as one call of the library; as two steps where it takes no such
    /// operands.
    fn by_library(
        &mut self,
        t: &Template,
        epilogue: Epilogue,
        kernel: Option<&Kernel>,
        frees: &[Source],
    ) -> Result<()> {
        let (Some(emitted), Some(kernel)) = (&t.kernel, kernel) else {
            return Err(Error::internal("an epilogue without its kernel"));
        };
        let draft = self.draft;
        let id = t.call.node;
        let placed = |e: Error| draft.placed(e, id);
        let [store] = &emitted.node.stores[..] else {
            return Err(Error::internal("an epilogue of several results"));
        };
        let node = draft.graph.node(store.node);
        let (op, args) = self.operands(&t.call)?;
        let bias = epilogue.bias.map(|bias| self.array(bias)).transpose()?;
        let after = matmul::After {
            bias,
            activation: epilogue.activation,
        };
        let device = draft.graph.device();
        let done = match op.as_correlation() {
            Some(op) => correlation::run_by_library(op, &args, &after, &self.dense).map(|array| {
                let lies = |array: Array| array.with_layout(Layout::contiguous(node.shape.clone()));
                array.map(lies)
            }),
            None => {
                let (shape, dtype) = (&node.shape, node.dtype);
                matmul::run_by_library(&device, &args, shape, dtype, &after, &self.dense)
            }
        };
        if let Some(array) = done.map_err(placed)? {
            count(Counter::LibraryCalls, 1);
            self.store(store.node, array);
            return Ok(());
        }
        drop(args);
        let product = self.call(&t.call, &[])?;
        self.store(id, product);
        let launched = self.launch(emitted, kernel, frees);
        self.forget(Source::Node(id));
        launched
    }
}
