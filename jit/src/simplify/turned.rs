//! Scans and reductions along dimensions in the order in which they lie in memory.

use super::Simplifier;
use super::shaping::{inverse, permute};
use crate::graph::{Graph, NodeOp};
use ferrotrace_kernels::op::{Reduce, Scan};
use ferrotrace_kernels::ops::order::{self, Order};
use ferrotrace_kernels::{Op, OpBuilder, Operand, ReduceKind, ValueId};
use ferrotrace_runtime::{Layout, Result};
use smallvec::SmallVec;

/// Operators that are looked through, from a scan to the data that it reads.
const LOOKED_THROUGH: usize = 64;

/// For each value whether a reader stores what it computes of it in an order of its own: a copy, or an elementwise operator that
/// reads another value of its shape too. Joined with such a reader, a scan stores in that order.
pub(super) fn read_in_order(graph: &Graph) -> Vec<bool> {
    let nodes = graph.nodes();
    let mut fixed = vec![false; nodes.len()];
    for i in (0..nodes.len()).rev() {
        let NodeOp::Op(op) = &nodes[i].op else {
            continue;
        };
        if !op.is_elementwise() && !op.is_view() {
            continue;
        }
        let operands: SmallVec<[ValueId; 3]> = graph.operands(ValueId(i as u32)).collect();
        let like = |&&x: &&ValueId| *graph.shape(x) == nodes[i].shape;
        let copies = operands
            .first()
            .is_some_and(|&x| op.is_copy(graph.dtype(x)));
        let several = op.is_elementwise() && operands.iter().filter(like).count() > 1;
        for x in operands {
            fixed[x.0 as usize] |= fixed[i] || copies || several;
        }
    }
    fixed
}

impl Simplifier<'_> {
    /// The scan of an operand that does not lie row-major, as that of the operand's dimensions in the order of memory; none of
    /// an operand that does. A scan stores its results row-major: along a dimension whose elements are adjacent, those of a
    /// turned operand would be stored a row apart.
    pub(super) fn scan_in_order(
        &mut self,
        scan: &Scan,
        operands: &[Operand],
    ) -> Result<Option<ValueId>> {
        let &[Operand::Value(x)] = operands else {
            return Ok(None);
        };
        let Some(order) = self.other_order(x) else {
            return Ok(None);
        };
        let Some(dim) = order.iter().position(|&d| d == scan.dim) else {
            return Ok(None);
        };
        let turned = permute(self, x, &order)?;
        let op = Op::from(Scan {
            dim,
            ..scan.clone()
        });
        let scanned = self.keep(op, &[turned.into()])?;
        permute(self, scanned, &inverse(&order)).map(Some)
    }

    /// The reduction of many elements of an operand that does not lie row-major, with the dimensions that are reduced in the
    /// order of memory, where the result names none of their positions: loops over columns then walk along memory. None where
    /// they do already.
    pub(super) fn reduction_in_order(
        &mut self,
        reduce: &Reduce,
        operands: &[Operand],
    ) -> Result<Option<ValueId>> {
        let &[Operand::Value(x)] = operands else {
            return Ok(None);
        };
        let is_reduced = |d: &usize| reduce.mask >> d & 1 == 1;
        let shape = self.graph.shape(x);
        let sizes = (0..shape.rank()).filter(is_reduced).map(|d| shape[d]);
        let is_place = matches!(reduce.kind, ReduceKind::ArgMax | ReduceKind::ArgMin);
        if is_place || sizes.product::<usize>() < self.policy.thresholds.turned_columns {
            return Ok(None);
        }
        let Some(order) = self.other_order(x) else {
            return Ok(None);
        };
        let mut reduced = order.iter().copied().filter(is_reduced);
        let next = |d: usize| match is_reduced(&d) {
            true => reduced.next(),
            false => Some(d),
        };
        let turn: Option<Vec<usize>> = (0..order.len()).map(next).collect();
        let Some(turn) = turn.filter(|turn| !turn.is_sorted()) else {
            return Ok(None);
        };
        let turned = permute(self, x, &turn)?;
        let op = Op::from(reduce.clone());
        self.keep(op, &[turned.into()]).map(Some)
    }

    /// The order of a value's dimensions in memory, as far as views and elementwise operators keep that of data; none where
    /// it is row-major, or where elements repeat.
    fn other_order(&self, x: ValueId) -> Option<Order> {
        let (mut at, mut above) = (x, Vec::new());
        let mut layout = loop {
            let node = self.graph.node(at);
            let first = match node.args.first() {
                Some(Operand::Value(from)) => Some(*from),
                _ => None,
            };
            match (&node.op, first) {
                (NodeOp::Input(n), _) => break self.graph.inputs()[*n as usize].layout.clone(),
                (NodeOp::Op(op), Some(from))
                    if above.len() < LOOKED_THROUGH
                        && (op.is_view() || op.keeps_order(self.graph.dtype(from))) =>
                {
                    above.push(at);
                    at = from;
                }
                _ => break Layout::contiguous(node.shape.clone()),
            }
        };
        for id in above.into_iter().rev() {
            let node = self.graph.node(id);
            let kept = match &node.op {
                NodeOp::Op(op) if op.is_view() => op
                    .as_view()
                    .and_then(|view| view.layout(&layout, &node.shape)),
                _ => Some(layout).filter(|layout| {
                    *layout.shape() == node.shape && order::of_layout(layout).is_some()
                }),
            };
            layout = kept.unwrap_or_else(|| Layout::contiguous(node.shape.clone()));
        }
        order::of_layout(&layout).filter(|order| !order::is_row_major(order))
    }
}
