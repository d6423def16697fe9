//! Half-precision products of a device whose lines do not begin at multiples of 16 bytes, by longer lines (TorchInductor's
//! `pad_mm`): a library computes them several times faster, which pays for copying the operands where much is multiplied.
//!
//! Lines are lengthened by zeros, and the result is a window of the longer product's. What is padded is the value below a
//! permutation, so that its lines stay lines, and all products of it share one copy.

use super::hoisted::come_from;
use super::parts::follows_reduction;
use super::products::is_unit_stride;
use super::shaping::{inverse, pad, permute, slice};
use crate::graph::{Graph, NodeOp};
use crate::policy::Thresholds;
use ferrotrace_kernels::op::{Cat, Full, Permute};
use ferrotrace_kernels::{Op, OpBuilder, OpBuilderExt, Operand, ValueId};
use ferrotrace_runtime::{Result, Scalar, Shape};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Elements of 16 bytes.
const CHUNK: usize = 8;

/// How many elements each of m, n and k gains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Gains {
    m: usize,
    n: usize,
    k: usize,
}

/// The graph with longer lines where that pays. `kept` finds products that stay as they are: those of attention, which is
/// known by its form.
///
/// # Errors
/// An operator of the graph refuses its operands.
pub fn aligned(
    graph: Graph,
    bounds: &Thresholds,
    kept: impl FnOnce(&Graph) -> FxHashSet<ValueId>,
) -> Result<Graph> {
    let gains = |i: usize| gains_of(&graph, i, bounds);
    let mut gains: Vec<Option<Gains>> = (0..graph.nodes().len()).map(gains).collect();
    if gains.iter().all(Option::is_none) {
        return Ok(graph);
    }
    for product in kept(&graph) {
        gains[product.0 as usize] = None;
    }
    Rebuilt::of(&graph, &gains)
}

/// What a product gains; `None` where it is none of half precision, is aligned, or copying takes longer.
fn gains_of(graph: &Graph, i: usize, bounds: &Thresholds) -> Option<Gains> {
    let node = &graph.nodes()[i];
    let [Operand::Value(a), Operand::Value(b)] = node.args[..] else {
        return None;
    };
    let (left, right) = (graph.shape(a), graph.shape(b));
    let matrices = left.rank() >= 2 && right.rank() >= 2;
    if !node.is(Op::is_matmul) || !node.dtype.is_half() || !matrices {
        return None;
    }
    let (rows, terms) = (left.rank() - 2, left.rank() - 1);
    let (inner, columns) = (right.rank() - 2, right.rank() - 1);
    let lacks = |size: usize, lines: bool| match lines {
        true => size.next_multiple_of(CHUNK) - size,
        false => 0,
    };
    let along_terms = is_unit_stride(graph, a, terms) || is_unit_stride(graph, b, inner);
    let gains = Gains {
        m: lacks(left[rows], is_unit_stride(graph, a, rows)),
        // Lines of the result are its rows.
        n: lacks(right[columns], true),
        k: lacks(left[terms], along_terms),
    };
    let operations = 2 * node.shape.numel() as u128 * left[terms] as u128;
    let multiply = operations / u128::from(bounds.product_work);
    // Two bytes an element, read and written.
    let copied = |more: usize, elements: usize| match more {
        0 => 0,
        _ => 4 * elements as u128 + u128::from(bounds.product_launch),
    };
    let copies = copied(gains.m + gains.k, left.numel()) + copied(gains.n + gains.k, right.numel());
    let pays = multiply * u128::from(bounds.unaligned_cost.saturating_sub(1)) > copies;
    (gains != Gains::default() && pays).then_some(gains)
}

/// A graph in the making.
struct Rebuilt<'a> {
    old: &'a Graph,
    new: Graph,
    /// The new value of each old one.
    map: Vec<ValueId>,
    /// Padded values, by the old one below permutations and what was added behind each dimension.
    padded: FxHashMap<(ValueId, Vec<(isize, isize)>), ValueId>,
}

impl Rebuilt<'_> {
    fn of(graph: &Graph, gains: &[Option<Gains>]) -> Result<Graph> {
        let mut rebuilt = Rebuilt {
            old: graph,
            new: Graph::with_capacity(graph.nodes().len()),
            map: Vec::with_capacity(graph.nodes().len()),
            padded: FxHashMap::default(),
        };
        rebuilt.new.set_device(&graph.device());
        for (node, gains) in graph.nodes().iter().zip(gains) {
            let op = match &node.op {
                NodeOp::Input(n) => {
                    let of = &graph.inputs()[*n as usize];
                    let input = rebuilt.new.input(&of.layout, of.dtype, &of.device);
                    rebuilt.map.push(input);
                    continue;
                }
                NodeOp::Op(op) => op,
            };
            come_from(&mut rebuilt.new, node);
            let value = match (gains, &node.args[..]) {
                (Some(gains), &[Operand::Value(a), Operand::Value(b)]) => {
                    let product = rebuilt.product([a, b], *gains)?;
                    rebuilt.new.set_rounding(product, node.rounding);
                    rebuilt.window(product, node.shape.as_ref())?
                }
                _ => {
                    let map = |arg: &Operand| match arg {
                        Operand::Value(x) => Operand::Value(rebuilt.map[x.0 as usize]),
                        number => *number,
                    };
                    let args: SmallVec<[Operand; 3]> = node.args.iter().map(map).collect();
                    let value = rebuilt.new.push(op.clone(), &args)?;
                    rebuilt.new.set_rounding(value, node.rounding);
                    if node.commutes {
                        rebuilt.new.set_commutes(value);
                    }
                    value
                }
            };
            rebuilt.map.push(value);
        }
        let outputs = graph.outputs().iter();
        let outputs = outputs.map(|v| rebuilt.map[v.0 as usize]).collect();
        rebuilt.new.set_outputs(outputs);
        Ok(rebuilt.new)
    }

    /// The product of longer lines.
    fn product(&mut self, [a, b]: [ValueId; 2], Gains { m, n, k }: Gains) -> Result<ValueId> {
        let a = self.lengthened(a, [m, k])?;
        let b = self.lengthened(b, [k, n])?;
        self.new.matmul(a, b)
    }

    /// The first rows and columns of matrices, of this shape.
    fn window(&mut self, x: ValueId, shape: &[usize]) -> Result<ValueId> {
        let rank = shape.len();
        let x = slice(&mut self.new, x, rank - 2, (0, shape[rank - 2]), 1)?;
        slice(&mut self.new, x, rank - 1, (0, shape[rank - 1]), 1)
    }

    /// Matrices with so many zeros behind their rows and columns.
    fn lengthened(&mut self, x: ValueId, by: [usize; 2]) -> Result<ValueId> {
        if by == [0, 0] {
            return Ok(self.map[x.0 as usize]);
        }
        let node = self.old.node(x);
        let rank = node.shape.rank();
        let mut pads = vec![(0, 0); rank];
        pads[rank - 2].1 = by[0] as isize;
        pads[rank - 1].1 = by[1] as isize;
        let permuted = node.operator().and_then(Op::as_permute);
        let (Some(Permute(order)), Some(Operand::Value(below))) = (permuted, node.args.first())
        else {
            return self.padded(x, pads);
        };
        let order: Vec<usize> = order.iter().map(|&d| d as usize).collect();
        let pads = inverse(&order).iter().map(|&d| pads[d]).collect();
        let padded = self.padded(*below, pads)?;
        permute(&mut self.new, padded, &order)
    }

    /// A value with zeros behind it, once.
    fn padded(&mut self, x: ValueId, pads: Vec<(isize, isize)>) -> Result<ValueId> {
        if let Some(&padded) = self.padded.get(&(x, pads.clone())) {
            return Ok(padded);
        }
        let value = self.map[x.0 as usize];
        let mut longer = pads.iter().enumerate().filter(|(_, pad)| **pad != (0, 0));
        let padded = match (longer.next(), longer.next()) {
            (Some((dim, &(0, more))), None) if follows_reduction(&self.new, value) => {
                self.continued(value, dim, more as usize)?
            }
            _ => pad(&mut self.new, value, &pads, Scalar::Float(0.0))?,
        };
        self.padded.insert((x, pads), padded);
        Ok(padded)
    }

    /// A value with zeros behind it in one dimension, as parts that are written in place.
    fn continued(&mut self, x: ValueId, dim: usize, more: usize) -> Result<ValueId> {
        let (mut sizes, dtype) = (self.new.shape(x).to_vec(), self.new.dtype(x));
        sizes[dim] = more;
        let shape = Shape::new(&sizes);
        let zero = Operand::Const(Scalar::Float(0.0));
        let zeros = self.new.push(Op::from(Full { shape, dtype }), &[zero])?;
        self.new
            .push(Op::from(Cat { dim }), &[x.into(), zeros.into()])
    }
}
