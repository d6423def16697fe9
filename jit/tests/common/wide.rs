//! Graphs of narrow floating-point numbers, evaluated in binary64, and how far rounding can move the results: the same graph
//! with every number that a narrow operation gives, and every number that it is given, moved at random by its rounding.

use super::differentiate::Loss;
use super::rng::Rng;
use super::{buffer_of, dense, values};
use ferrotrace_jit::{Graph, NodeOp, run_eagerly};
use ferrotrace_kernels::{Array, Op, OpBuilder, OpBuilderExt, Operand, ValueId};
use ferrotrace_runtime::{DType, Device, Result, Scalar};

/// How often results are moved.
const SAMPLES: u64 = 8;

/// A result in binary64.
#[derive(Clone, Debug)]
pub struct Known {
    pub values: Vec<f64>,
    /// How far rounding was seen to move each.
    pub spread: Vec<f64>,
}

/// The unit roundoff of a type.
pub fn roundoff(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => f64::powi(2.0, -8),
        DType::F16 => f64::powi(2.0, -11),
        DType::F32 => f64::powi(2.0, -24),
        _ => f64::powi(2.0, -53),
    }
}

/// The distance of the smallest numbers of a type.
fn smallest(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => f64::powi(2.0, -133),
        DType::F16 => f64::powi(2.0, -24),
        DType::F32 => f64::powi(2.0, -149),
        _ => 0.0,
    }
}

fn is_narrow(dtype: DType) -> bool {
    dtype.is_float() && dtype != DType::F64
}

/// The outputs of a graph in binary64; `None` where the graph draws numbers, which differ from type to type.
pub fn known(of: &Loss) -> Option<Vec<Known>> {
    let draws = |op: &NodeOp| matches!(op, NodeOp::Op(Op::Random(_)));
    if of.graph.nodes().iter().any(|node| draws(&node.op)) {
        return None;
    }
    let wide = widened(&of.graph)?;
    let arrays: Vec<Array> = of.arrays.iter().map(widened_array).collect();
    let here = run_eagerly(&wide, &arrays, &of.scalars).ok()?;
    let mut all: Vec<Known> = here
        .iter()
        .map(|array| Known {
            values: values(array),
            spread: vec![0.0; array.numel()],
        })
        .collect();
    for sample in 0..SAMPLES {
        let (graph, arrays, scalars) = moved(of, &wide, &arrays, &mut Rng::new(sample)).ok()?;
        let found = run_eagerly(&graph, &arrays, &scalars).ok()?;
        for (known, found) in all.iter_mut().zip(&found) {
            let places = known.spread.iter_mut().zip(&known.values);
            for ((spread, want), got) in places.zip(values(found)) {
                let off = (got - want).abs();
                // A number that rounding moves away altogether is not known.
                *spread = if off.is_nan() {
                    f64::INFINITY
                } else {
                    spread.max(off)
                };
            }
        }
    }
    Some(all)
}

/// The graph with binary64 in the place of narrower types.
fn widened(graph: &Graph) -> Option<Graph> {
    let text = graph.to_string();
    let text = text.replace("bf16", "f64").replace("f16", "f64");
    text.replace("f32", "f64").parse().ok()
}

fn widened_array(array: &Array) -> Array {
    if !is_narrow(array.dtype) {
        return array.clone();
    }
    let size = array.buffer.bytes() / array.dtype.size();
    let whole = array.with_layout(ferrotrace_runtime::Layout::contiguous([size].into()));
    Array {
        buffer: buffer_of(&values(&whole), DType::F64),
        layout: array.layout.clone(),
        dtype: DType::F64,
    }
}

/// The wide graph with every result of a narrow operation times 1 + ε, for an ε of its own that is at most twice the unit
/// roundoff; and its inputs and numbers.
fn moved(
    of: &Loss,
    wide: &Graph,
    arrays: &[Array],
    rng: &mut Rng,
) -> Result<(Graph, Vec<Array>, Vec<Scalar>)> {
    let mut graph = Graph::new();
    graph.set_device(&Device::cpu());
    let (mut inputs, mut ids): (Vec<Array>, Vec<ValueId>) = (Vec::new(), Vec::new());
    let number = |rng: &mut Rng, number: Scalar| match number {
        Scalar::Float(x) => Scalar::Float(x * (1.0 + rng.uniform(-1.0, 1.0) * f64::powi(2.0, -24))),
        other => other,
    };
    let scalars = of.scalars.iter().map(|x| number(rng, *x)).collect();
    for (node, narrow) in wide.nodes().iter().zip(of.graph.nodes()) {
        graph.set_origin(None, node.precision);
        let id = match &node.op {
            NodeOp::Input(n) => {
                let array = &arrays[*n as usize];
                inputs.push(array.clone());
                graph.input(&array.layout, array.dtype, &Device::cpu())
            }
            NodeOp::Op(op) => {
                let operand = |x: &Operand| match x {
                    Operand::Value(v) => Operand::Value(ids[v.0 as usize]),
                    other => *other,
                };
                let operands: Vec<Operand> = node.args.iter().map(operand).collect();
                let id = graph.push(op.clone(), &operands)?;
                match is_narrow(narrow.dtype) && !op.is_view() {
                    true => shaken(&mut graph, &mut inputs, id, narrow.dtype, rng)?,
                    false => id,
                }
            }
        };
        ids.push(id);
    }
    graph.set_outputs(wide.outputs().iter().map(|v| ids[v.0 as usize]).collect());
    Ok((graph, inputs, scalars))
}

fn shaken(
    graph: &mut Graph,
    inputs: &mut Vec<Array>,
    x: ValueId,
    dtype: DType,
    rng: &mut Rng,
) -> Result<ValueId> {
    let shape = graph.node(x).shape.clone();
    let mut noise = |around: f64, size: f64| {
        let numbers = (0..shape.numel()).map(|_| around + rng.uniform(-2.0, 2.0) * size);
        let array = dense(&shape, &numbers.collect::<Vec<f64>>());
        inputs.push(array.clone());
        graph.input(&array.layout, array.dtype, &Device::cpu())
    };
    let (factor, floor) = (noise(1.0, roundoff(dtype)), noise(0.0, smallest(dtype)));
    let product = graph.mul(x, factor)?;
    graph.add(product, floor)
}
