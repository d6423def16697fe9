//! Calls of ready-made kernels: where their results may lie, and which of their operands lie there already.

use super::Draft;
use crate::body::Source;
use crate::graph::{Graph, NodeOp};
use crate::lower::{Call, CallArg, Piece, Pieces};
use crate::target::Target;
use ferrotrace_kernels::eager;
use ferrotrace_kernels::op::Pad;
use ferrotrace_kernels::op::operator::OnDevice;
use ferrotrace_runtime::Layout;

/// A part that is copied into a concatenation: where it starts there, and where it lies.
type Copied<'a> = (usize, Source, &'a Layout);

/// The first operand of a call whose kernel may write its result there, if the operand dies with it (scheduler B-22):
/// all of a buffer, which the call reads nowhere else.
pub(super) fn overwritten(
    graph: &Graph,
    target: &Target,
    pieces: &Pieces,
    call: &Call,
) -> Option<Source> {
    let node = graph.node(call.node);
    let NodeOp::Op(op) = &node.op else {
        return None;
    };
    let Some(CallArg::Window(over, layout)) = call.args.first() else {
        return None;
    };
    let alone = |arg: &CallArg| !matches!(arg, CallArg::Window(source, _) if source == over);
    let elements = match over {
        Source::Input(n) => graph.inputs()[*n as usize].layout.span().len(),
        Source::Node(v) if pieces.contains_key(v) => return None,
        Source::Node(v) => graph.node(*v).shape.numel(),
    };
    let writes_over = match target.library.is_complete() {
        true => eager::writes_over(op, node.dtype),
        false => op.entry().as_library().is_some_and(OnDevice::writes_over),
    };
    let fits = writes_over
        && !pieces.contains_key(&call.node)
        && call.args[1..].iter().all(alone)
        && layout.is_contiguous()
        && layout.offset() == 0
        && layout.numel() == elements
        && elements == node.shape.numel();
    fits.then_some(*over)
}

impl Draft {
    /// The first operand of a call whose kernel may write its result there, if it may.
    pub(crate) fn overwritten(&self, call: &Call) -> Option<Source> {
        overwritten(&self.graph, &self.policy.target, &self.pieces, call)
    }

    /// Of a concatenation whose parts were written in place: its dimension, and those that were not, each with where it
    /// starts. `None` for other calls. A part that comes twice is written once.
    pub(crate) fn joined<'a>(&self, call: &'a Call) -> Option<(usize, Vec<Copied<'a>>)> {
        let dim = self.graph.node(call.node).operator()?.as_cat()?.dim;
        let stride = self.graph.node(call.node).shape.strides()[dim] as usize;
        let (mut start, mut any, mut copied) = (0, false, Vec::new());
        for arg in &call.args {
            let CallArg::Window(source, layout) = arg else {
                return None;
            };
            let there =
                |piece: &Piece| piece.whole == call.node && piece.window.offset() == start * stride;
            let placed = match source {
                Source::Node(node) => self.pieces.get(node).is_some_and(there),
                Source::Input(_) => false,
            };
            any |= placed;
            if !placed && layout.numel() > 0 {
                copied.push((start, *source, layout));
            }
            start += layout.shape()[dim];
        }
        any.then_some((dim, copied))
    }

    /// Of a padding whose operand was written in place: how much it adds in each dimension.
    pub(crate) fn padded<'a>(&'a self, call: &Call) -> Option<&'a [(isize, isize)]> {
        let Pad(pads) = self.graph.node(call.node).operator()?.as_pad()?;
        let Some(CallArg::Window(Source::Node(part), _)) = call.args.first() else {
            return None;
        };
        let piece = self.pieces.get(part)?;
        (piece.whole == call.node).then_some(pads)
    }
}
