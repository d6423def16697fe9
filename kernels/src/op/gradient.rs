//! Gradients of operators: vector-Jacobian products, built by operators.
//!
//! The rule of each operator is [`Operator::vjp`]. It records the operators that compute the gradients of its operands from
//! that of its result; what it records has rules itself, so gradients have gradients. A rule may read the shapes, dtypes and
//! numbers of its operands. A gradient that it gives may still have the broadcast shape, or the dtype of the arithmetic:
//! [`fit`] sums and rounds it to its operand's.

use crate::op::{Expand, Extent, Full, Permute, Reduce, Reshape};
use crate::ops::view::View;
use crate::{ArgMeta, Op, OpBuilder, OpBuilderExt, Operand, ReduceKind, ValueId};
use ferrotrace_runtime::{DType, Error, Result, Scalar, Shape};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::{SmallVec, smallvec};

/// What a gradient rule is given.
#[derive(Clone, Copy, Debug)]
pub struct Adjoint<'a> {
    /// The operands of the operator.
    pub args: &'a [Operand],
    /// Its result.
    pub result: ValueId,
    /// The gradient of the result, of its shape and dtype.
    pub gradient: ValueId,
    /// Whether the gradient of each operand is asked for; never that of a number, or of integers.
    pub wanted: &'a [bool],
}

impl Adjoint<'_> {
    /// The tensor operand at `i`.
    ///
    /// # Errors
    /// It is a number.
    pub fn value(&self, i: usize) -> Result<ValueId> {
        match self.args.get(i) {
            Some(Operand::Value(value)) => Ok(*value),
            _ => Err(Error::internal(format!("operand {i} is no tensor"))),
        }
    }

    /// Whether the gradient of operand `i` is asked for.
    pub fn wants(&self, i: usize) -> bool {
        self.wanted.get(i).copied().unwrap_or(false)
    }

    /// Whether operand 0 is the one whose gradient is asked for.
    pub fn wants_first_alone(&self) -> bool {
        self.wanted.iter().enumerate().all(|(i, &w)| w == (i == 0))
    }

    /// The gradient of operand 0, and none of the others.
    pub fn first(&self, gradient: ValueId) -> Gradients {
        let mut gradients: Gradients = smallvec![None; self.args.len()];
        gradients[0] = Some(gradient);
        gradients
    }

    /// No gradient of any operand: the result does not change with them, but where it jumps.
    pub fn none(&self) -> Gradients {
        smallvec![None; self.args.len()]
    }
}

/// The gradient of each operand; none where it is zero or was not asked for.
pub type Gradients = SmallVec<[Option<ValueId>; 4]>;

/// The number of an operand that is none of the tensors.
pub fn number(operand: Operand) -> Option<Scalar> {
    match operand {
        Operand::Value(_) => None,
        Operand::Slot(_, number) | Operand::Const(number) => Some(number),
    }
}

/// A value in the dtype of its arithmetic: half types as F32.
///
/// # Errors
/// Those of the builder.
pub fn wide(b: &mut dyn OpBuilder, x: ValueId) -> Result<ValueId> {
    let dtype = b.dtype(x).compute();
    b.cast(x, dtype)
}

/// An operand in the dtype of its arithmetic: see [`wide`].
///
/// # Errors
/// Those of the builder.
pub fn wide_operand(b: &mut dyn OpBuilder, x: Operand) -> Result<Operand> {
    match x {
        Operand::Value(value) => wide(b, value).map(Operand::Value),
        number => Ok(number),
    }
}

/// `x` under another shape of as many elements; `x` itself if it has that shape.
///
/// # Errors
/// The number of elements differs.
pub fn reshaped(b: &mut dyn OpBuilder, x: ValueId, shape: &Shape) -> Result<ValueId> {
    if b.shape(x) == shape {
        return Ok(x);
    }
    let extents = shape.iter().map(|&n| Extent::Size(n)).collect();
    b.push(Op::Reshape(Reshape(extents)), &[x.into()])
}

/// `x` broadcast to a shape; `x` itself if it has that shape.
///
/// # Errors
/// It does not broadcast to it.
pub fn expanded(b: &mut dyn OpBuilder, x: ValueId, shape: &Shape) -> Result<ValueId> {
    if b.shape(x) == shape {
        return Ok(x);
    }
    let extents = shape.iter().map(|&n| Extent::Size(n)).collect();
    b.push(Op::Expand(Expand(extents)), &[x.into()])
}

/// The last two dimensions of `x` exchanged.
///
/// # Errors
/// Those of the builder.
pub fn transposed(b: &mut dyn OpBuilder, x: ValueId) -> Result<ValueId> {
    let rank = b.shape(x).rank();
    let mut order: SmallVec<[u8; 6]> = (0..rank as u8).collect();
    order.swap(rank - 1, rank - 2);
    b.push(Op::Permute(Permute(order)), &[x.into()])
}

/// One number everywhere.
///
/// # Errors
/// Those of the builder.
pub fn full(b: &mut dyn OpBuilder, shape: &Shape, number: f64, dtype: DType) -> Result<ValueId> {
    let shape = shape.clone();
    b.push(Op::Full(Full { shape, dtype }), &[number.into()])
}

/// The result of a reduction of `shape` over the dimensions of `mask`, which it keeps as 1 or not, with these as 1.
///
/// # Errors
/// It is no such result.
pub fn kept(b: &mut dyn OpBuilder, x: ValueId, shape: &Shape, mask: u64) -> Result<ValueId> {
    let keep = |(d, &n): (usize, &usize)| if mask >> d & 1 == 1 { 1 } else { n };
    let to: Shape = shape.iter().enumerate().map(keep).collect();
    reshaped(b, x, &to)
}

/// `gradient` summed over the dimensions that were broadcast from `shape`, as `dtype`.
///
/// # Errors
/// `shape` does not broadcast to the gradient's.
pub fn fit(
    b: &mut dyn OpBuilder,
    gradient: ValueId,
    shape: &Shape,
    dtype: DType,
) -> Result<ValueId> {
    let mut gradient = gradient;
    let from = b.shape(gradient).clone();
    if from != *shape {
        let lead = from.rank().checked_sub(shape.rank());
        let lead = lead.ok_or_else(|| misfit(&from, shape))?;
        let broadcast = |d: usize| d < lead || shape[d - lead] == 1 && from[d] != 1;
        let mask = (0..from.rank()).filter(|&d| broadcast(d));
        let mask = mask.fold(0u64, |mask, d| mask | 1 << d);
        if mask != 0 {
            let (kind, keepdim) = (ReduceKind::Sum, true);
            let reduce = Reduce {
                kind,
                mask,
                keepdim,
            };
            gradient = b.push(Op::Reduce(reduce), &[gradient.into()])?;
        }
        if b.shape(gradient).numel() != shape.numel() {
            return Err(misfit(&from, shape));
        }
        gradient = reshaped(b, gradient, shape)?;
    }
    b.cast(gradient, dtype)
}

fn misfit(from: &Shape, shape: &Shape) -> Error {
    Error::internal(format!("a gradient of shape {from} for {shape}"))
}

/// `before`, a gradient of the operand of a view, with that of the view's result added in its window; `op` has one.
///
/// # Errors
/// Those of the builder.
pub fn add_window(
    b: &mut dyn OpBuilder,
    op: &Op,
    before: ValueId,
    gradient: ValueId,
) -> Result<ValueId> {
    let from = b.shape(before).clone();
    let window = op.as_view().and_then(|view| view.window(&from));
    let window = window.ok_or_else(|| Error::internal("a gradient of no window"))?;
    let shape = window.shape(&from)?;
    let gradient = reshaped(b, gradient, &shape)?;
    let part = b.push(Op::Slice(window.clone()), &[before.into()])?;
    let sum = b.add(part, gradient)?;
    b.push(
        Op::SliceAssign(window.assigned()),
        &[before.into(), sum.into()],
    )
}

/// An operator that a definition records.
#[derive(Debug)]
struct Step {
    op: Op,
    operands: SmallVec<[Operand; 4]>,
    result: ValueId,
}

/// Records operators with another builder, and notes them.
struct Tape<'b> {
    b: &'b mut dyn OpBuilder,
    steps: Vec<Step>,
}

impl OpBuilder for Tape<'_> {
    fn shape(&self, value: ValueId) -> &Shape {
        self.b.shape(value)
    }

    fn dtype(&self, value: ValueId) -> DType {
        self.b.dtype(value)
    }

    fn push(&mut self, op: Op, operands: &[Operand]) -> Result<ValueId> {
        let result = self.b.push(op.clone(), operands)?;
        self.steps.push(Step {
            op,
            operands: SmallVec::from_slice(operands),
            result,
        });
        Ok(result)
    }
}

/// The gradients of what other operators define, from theirs: `define` is recorded again, and gone through backwards.
///
/// # Errors
/// Those of the definition, and of the rules of what it records.
pub fn by_definition(
    b: &mut dyn OpBuilder,
    of: &Adjoint<'_>,
    define: impl FnOnce(&mut dyn OpBuilder, &[Operand]) -> Result<ValueId>,
) -> Result<Gradients> {
    let mut tape = Tape {
        b,
        steps: Vec::new(),
    };
    let result = define(&mut tape, of.args)?;
    let steps = tape.steps;
    let wanted = |(operand, &wanted): (&Operand, &bool)| match operand {
        Operand::Value(value) if wanted => Some(*value),
        _ => None,
    };
    let sources: FxHashSet<ValueId> = of.args.iter().zip(of.wanted).filter_map(wanted).collect();
    let gradient = fit_like(b, of.gradient, result)?;
    let found = backwards(b, &steps, &sources, (result, gradient))?;
    let gradient = |operand: &Operand| match operand {
        Operand::Value(value) => found.get(value).copied(),
        _ => None,
    };
    // An operand may stand at several places: its gradient is that of all of them.
    let mut given = FxHashSet::default();
    let once = |operand: &Operand| match operand {
        Operand::Value(value) if !given.insert(*value) => None,
        operand => gradient(operand),
    };
    Ok(of.args.iter().map(once).collect())
}

fn fit_like(b: &mut dyn OpBuilder, gradient: ValueId, like: ValueId) -> Result<ValueId> {
    let (shape, dtype) = (b.shape(like).clone(), b.dtype(like));
    fit(b, gradient, &shape, dtype)
}

/// The gradients of `sources` through steps, from that of one result.
fn backwards(
    b: &mut dyn OpBuilder,
    steps: &[Step],
    sources: &FxHashSet<ValueId>,
    (result, gradient): (ValueId, ValueId),
) -> Result<FxHashMap<ValueId, ValueId>> {
    let mut depends = sources.clone();
    let reads = |operand: &Operand, depends: &FxHashSet<ValueId>, b: &dyn OpBuilder| match operand {
        Operand::Value(value) => depends.contains(value) && b.dtype(*value).is_float(),
        _ => false,
    };
    for step in steps {
        if step.operands.iter().any(|x| reads(x, &depends, b)) {
            depends.insert(step.result);
        }
    }
    let mut gradients: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    gradients.insert(result, gradient);
    for step in steps.iter().rev() {
        if sources.contains(&step.result) || !depends.contains(&step.result) {
            continue;
        }
        let Some(gradient) = gradients.remove(&step.result) else {
            continue;
        };
        let wanted: SmallVec<[bool; 4]> = step
            .operands
            .iter()
            .map(|x| reads(x, &depends, b))
            .collect();
        let adjoint = Adjoint {
            args: &step.operands,
            result: step.result,
            gradient,
            wanted: &wanted,
        };
        let found = step.op.entry().vjp(b, &adjoint)?;
        for ((operand, wanted), found) in step.operands.iter().zip(wanted).zip(found) {
            let (Operand::Value(value), Some(found), true) = (operand, found, wanted) else {
                continue;
            };
            let mut sum = fit_like(b, found, *value)?;
            if let Some(before) = gradients.get(value) {
                sum = b.add(*before, sum)?;
            }
            gradients.insert(*value, sum);
        }
    }
    Ok(gradients)
}

/// Which operands' elements, and whether the result's, the rule of an operator reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reads {
    /// For each operand.
    pub operands: SmallVec<[bool; 4]>,
    /// The result.
    pub result: bool,
}

/// Runs a rule on shapes alone.
struct Dry {
    values: Vec<(Shape, DType)>,
    read: Vec<bool>,
}

impl OpBuilder for Dry {
    fn shape(&self, value: ValueId) -> &Shape {
        &self.values[value.0 as usize].0
    }

    fn dtype(&self, value: ValueId) -> DType {
        self.values[value.0 as usize].1
    }

    fn push(&mut self, op: Op, operands: &[Operand]) -> Result<ValueId> {
        let meta = |operand: &Operand| match operand {
            Operand::Value(value) => {
                let (shape, dtype) = &self.values[value.0 as usize];
                ArgMeta::Tensor(shape, *dtype)
            }
            Operand::Slot(_, number) | Operand::Const(number) => ArgMeta::Scalar(*number),
        };
        let result = {
            let metas: SmallVec<[ArgMeta<'_>; 4]> = operands.iter().map(meta).collect();
            op.infer(&metas)?
        };
        for operand in operands {
            if let Operand::Value(value) = operand
                && let Some(read) = self.read.get_mut(value.0 as usize)
            {
                *read = true;
            }
        }
        self.values.push(result);
        Ok(ValueId(self.values.len() as u32 - 1))
    }
}

/// What the rule of `op` reads of operands of these shapes and dtypes, and of its result, where the gradients of the
/// `wanted` are asked for: the rest need not be kept.
///
/// # Errors
/// Those of the rule.
pub fn reads(
    op: &Op,
    args: &[ArgMeta<'_>],
    (shape, dtype): (&Shape, DType),
    wanted: &[bool],
) -> Result<Reads> {
    let mut values = Vec::new();
    let operands: SmallVec<[Operand; 4]> = args
        .iter()
        .enumerate()
        .map(|(i, arg)| match arg {
            ArgMeta::Tensor(shape, dtype) => {
                values.push(((*shape).clone(), *dtype));
                Operand::Value(ValueId(values.len() as u32 - 1))
            }
            // What is read must do for every number: NaN has no rule of its own.
            ArgMeta::Scalar(_) => Operand::Slot(i as u32, Scalar::Float(f64::NAN)),
        })
        .collect();
    let result = ValueId(values.len() as u32);
    values.extend([(shape.clone(), dtype), (shape.clone(), dtype)]);
    let mut dry = Dry {
        read: vec![false; values.len() - 1],
        values,
    };
    let adjoint = Adjoint {
        args: &operands,
        result,
        gradient: ValueId(result.0 + 1),
        wanted,
    };
    let found = op.entry().vjp(&mut dry, &adjoint)?;
    for value in found.into_iter().flatten() {
        if let Some(read) = dry.read.get_mut(value.0 as usize) {
            *read = true;
        }
    }
    let read = |operand: &Operand| match operand {
        Operand::Value(value) => dry.read[value.0 as usize],
        _ => false,
    };
    Ok(Reads {
        operands: operands.iter().map(read).collect(),
        result: dry.read[result.0 as usize],
    })
}
