//! Losses of random graphs, their gradients, and differences of the losses.

use super::generate::{Limits, Program, program};
use super::rng::Rng;
use super::track::Track;
use super::{buffer_of, dense, values};
use ferrotrace_jit::{Graph, NodeOp, run_eagerly};
use ferrotrace_kernels::op::Reduce;
use ferrotrace_kernels::op::gradient::{Adjoint, add_window, fit};
use ferrotrace_kernels::{Array, Op, OpBuilder, OpBuilderExt, Operand, ReduceKind, ValueId};
use ferrotrace_runtime::{DType, Device, Layout, Result, Scalar};
use std::collections::HashMap;

/// A graph that ends in a loss, and what it is differentiated by.
#[derive(Clone, Debug)]
pub struct Loss {
    pub graph: Graph,
    pub arrays: Vec<Array>,
    pub scalars: Vec<Scalar>,
    pub loss: ValueId,
    /// The inputs of floating-point numbers.
    pub by: Vec<ValueId>,
    /// Whether a window's gradient is added in place.
    windows: bool,
}

/// A random graph whose last values, each element times a number of its own, add up to a loss. `None` where no
/// floating-point result depends on a floating-point input.
pub fn loss(seed: u64, limits: &Limits) -> Option<Loss> {
    let Program {
        graph,
        arrays,
        scalars,
        tracks,
    } = program(seed, limits);
    let mut rng = Rng::new(seed ^ 0x5eed);
    let arrays: Vec<Array> = arrays.iter().map(|array| tamed(array, &mut rng)).collect();
    let inputs: Vec<ValueId> = (0..graph.nodes().len() as u32)
        .map(ValueId)
        .filter(|v| matches!(graph.node(*v).op, NodeOp::Input(_)))
        .collect();
    let is_float = |v: &ValueId| graph.node(*v).dtype.is_float();
    let by: Vec<ValueId> = inputs.into_iter().filter(is_float).collect();
    let mut made = Loss {
        graph: graph.clone(),
        arrays,
        scalars,
        loss: ValueId(0),
        by,
        windows: rng.chance(50),
    };
    let depends = made.dependent();
    let known = |v: &ValueId| {
        let Track { bound, .. } = tracks[v.0 as usize];
        bound.is_finite() && graph.node(*v).shape.numel() > 0
    };
    let ends: Vec<ValueId> = (0..graph.nodes().len() as u32)
        .rev()
        .map(ValueId)
        .filter(|v| depends[v.0 as usize] && known(v))
        .take(1 + rng.below(3))
        .collect();
    if ends.is_empty() {
        return None;
    }
    made.loss = made.weighed(&ends, &mut rng).ok()?;
    Some(made)
}

/// An array with ordinary numbers in place of those of its elements that are not finite, or far from 1.
fn tamed(array: &Array, rng: &mut Rng) -> Array {
    let mut array = array.clone();
    if array.dtype.is_float() {
        let tame = |x: f64| match x.abs() {
            size if size > 0.01 && size < 8.0 => x,
            _ => rng.uniform(0.1, 1.9),
        };
        let numbers: Vec<f64> = stored(&array).into_iter().map(tame).collect();
        array.buffer = buffer_of(&numbers, array.dtype);
    }
    array
}

impl Loss {
    /// For each value, whether it is one of floating-point numbers that depends on those it is differentiated by.
    fn dependent(&self) -> Vec<bool> {
        let mut depends = vec![false; self.graph.nodes().len()];
        for v in (0..depends.len() as u32).map(ValueId) {
            let through = self.graph.operands(v).any(|x| depends[x.0 as usize]);
            depends[v.0 as usize] =
                self.graph.node(v).dtype.is_float() && (through || self.by.contains(&v));
        }
        depends
    }

    /// Σ of the elements of values, each times a number, in F64.
    fn weighed(&mut self, of: &[ValueId], rng: &mut Rng) -> Result<ValueId> {
        let mut sum = None;
        for &v in of {
            let shape = self.graph.node(v).shape.clone();
            let weights: Vec<f64> = (0..shape.numel()).map(|_| rng.uniform(0.2, 1.0)).collect();
            let weights = dense(&shape, &weights);
            let w = (self.graph).input(&weights.layout, weights.dtype, &Device::cpu());
            self.arrays.push(weights);
            let wide = self.graph.cast(v, DType::F64)?;
            let product = self.graph.mul(wide, w)?;
            let all = Reduce {
                kind: ReduceKind::Sum,
                mask: (1 << shape.rank()) - 1,
                keepdim: false,
            };
            let part = self.graph.push(Op::Reduce(all), &[product.into()])?;
            sum = Some(match sum {
                None => part,
                Some(sum) => self.graph.add(sum, part)?,
            });
        }
        sum.ok_or_else(|| ferrotrace_runtime::Error::internal("a loss of nothing"))
    }

    /// The gradients of the loss by its inputs, appended to the graph; none where it does not depend on one.
    pub fn gradients(&mut self) -> Result<Vec<Option<ValueId>>> {
        let depends = self.dependent();
        let mut found: HashMap<ValueId, ValueId> = HashMap::new();
        let one = Op::Full(ferrotrace_kernels::op::Full {
            shape: self.graph.node(self.loss).shape.clone(),
            dtype: DType::F64,
        });
        let one = self.graph.push(one, &[1.0.into()])?;
        found.insert(self.loss, one);
        for v in (0..=self.loss.0).rev().map(ValueId) {
            let node = self.graph.node(v).clone();
            let (NodeOp::Op(op), true) = (&node.op, depends[v.0 as usize]) else {
                continue;
            };
            let Some(gradient) = found.remove(&v) else {
                continue;
            };
            let wants = |x: &Operand| matches!(x, Operand::Value(x) if depends[x.0 as usize]);
            let wanted: Vec<bool> = node.args.iter().map(wants).collect();
            if let [Operand::Value(x)] = node.args[..]
                && let Some(&before) = found.get(&x)
                && self.windows
                && (op.as_view())
                    .is_some_and(|view| view.window(&self.graph.node(x).shape).is_some())
            {
                let sum = add_window(&mut self.graph, op, before, gradient)?;
                found.insert(x, sum);
                continue;
            }
            let adjoint = Adjoint {
                args: &node.args,
                result: v,
                gradient,
                wanted: &wanted,
            };
            let pulled = op.entry().vjp(&mut self.graph, &adjoint)?;
            for ((operand, wanted), pulled) in node.args.iter().zip(wanted).zip(pulled) {
                let (Operand::Value(x), Some(pulled), true) = (operand, pulled, wanted) else {
                    continue;
                };
                let like = self.graph.node(*x).clone();
                let mut sum = fit(&mut self.graph, pulled, &like.shape, like.dtype)?;
                if let Some(&before) = found.get(x) {
                    sum = self.graph.add(before, sum)?;
                }
                found.insert(*x, sum);
            }
        }
        Ok(self.by.iter().map(|x| found.get(x).copied()).collect())
    }

    /// The loss that the gradients, each element times a number, add up to; `None` where the loss depends on no input.
    pub fn of_gradients(mut self, seed: u64) -> Result<Option<Loss>> {
        let found: Vec<ValueId> = self.gradients()?.into_iter().flatten().collect();
        let depends = self.dependent();
        let ends: Vec<ValueId> = found
            .into_iter()
            .filter(|v| depends[v.0 as usize] && self.graph.node(*v).shape.numel() > 0)
            .collect();
        if ends.is_empty() {
            return Ok(None);
        }
        self.loss = self.weighed(&ends, &mut Rng::new(seed ^ 0x2))?;
        Ok(Some(self))
    }

    /// The number that the loss is with other arrays.
    pub fn value(&self, arrays: &[Array]) -> Result<f64> {
        let mut graph = self.graph.clone();
        graph.set_outputs(vec![self.loss]);
        Ok(values(&run_eagerly(&graph, arrays, &self.scalars)?[0])[0])
    }

    /// Whether all floating-point numbers have the loss's type.
    pub fn is_wide(&self) -> bool {
        let wide = |dtype: DType| !dtype.is_float() || dtype == DType::F64;
        self.graph.nodes().iter().all(|node| wide(node.dtype))
    }

    /// Numbers for the elements of what the loss is differentiated by: one for elements that share memory.
    pub fn directions(&self, rng: &mut Rng) -> Vec<Vec<f64>> {
        let mut direction = |v: &ValueId| {
            let array = &self.arrays[self.number(*v)];
            let size = array.buffer.bytes() / array.dtype.size();
            let all: Vec<f64> = (0..size).map(|_| rng.uniform(-1.0, 1.0)).collect();
            array.layout.offsets().map(|at| all[at]).collect()
        };
        self.by.iter().map(&mut direction).collect()
    }

    /// Which input a value is.
    fn number(&self, v: ValueId) -> usize {
        match self.graph.node(v).op {
            NodeOp::Input(n) => n as usize,
            NodeOp::Op(_) => usize::MAX,
        }
    }

    /// The arrays with the differentiated ones moved by `step` along `directions`.
    pub fn moved(&self, directions: &[Vec<f64>], step: f64) -> Vec<Array> {
        let mut arrays = self.arrays.clone();
        for (v, direction) in self.by.iter().zip(directions) {
            let array = &mut arrays[self.number(*v)];
            let all = stored(array);
            let mut numbers = all.clone();
            for (at, by) in array.layout.offsets().zip(direction) {
                numbers[at] = all[at] + step * by;
            }
            array.buffer = buffer_of(&numbers, array.dtype);
        }
        arrays
    }
}

/// All numbers of an array's memory.
fn stored(array: &Array) -> Vec<f64> {
    let size = array.buffer.bytes() / array.dtype.size();
    values(&Array {
        layout: Layout::contiguous([size].into()),
        ..array.clone()
    })
}
