//! Gradients of operators: vector-Jacobian products, built by operators.
//!
//! The rule of each operator is [`Operator::vjp`](crate::op::operator::Operator::vjp). It records the operators that compute
//! the gradients of its operands from that of its result; what it records has rules itself, so gradients have gradients. A
//! rule may read the shapes, dtypes and numbers of its operands. A gradient that it gives may still have the broadcast shape,
//! or the dtype of the arithmetic: [`fit`] sums and rounds it to its operand's.

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
/// An operator that the builder cannot record.
pub fn wide(b: &mut dyn OpBuilder, x: ValueId) -> Result<ValueId> {
    let dtype = b.dtype(x).compute();
    b.cast(x, dtype)
}

/// An operand in the dtype of its arithmetic: see [`wide`].
///
/// # Errors
/// An operator that the builder cannot record.
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
/// An operator that the builder cannot record.
pub fn transposed(b: &mut dyn OpBuilder, x: ValueId) -> Result<ValueId> {
    let rank = b.shape(x).rank();
    let mut order: SmallVec<[u8; 6]> = (0..rank as u8).collect();
    order.swap(rank - 1, rank - 2);
    b.push(Op::Permute(Permute(order)), &[x.into()])
}

/// One number everywhere.
///
/// # Errors
/// An operator that the builder cannot record.
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
/// An operator that the builder cannot record.
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

/// A value of a [`Tape`].
#[derive(Clone, Debug)]
enum Written {
    /// One that the builder behind has.
    There(ValueId),
    /// What an operator of the definition gives.
    Step(Box<Step>),
}

/// An operator of a definition.
#[derive(Clone, Debug)]
struct Step {
    op: Op,
    operands: SmallVec<[Operand; 4]>,
    shape: Shape,
    dtype: DType,
    /// Its result, once it was recorded.
    there: Option<ValueId>,
}

/// Notes the operators of a definition, and records with another builder those that are read afterwards.
struct Tape<'b> {
    b: &'b mut dyn OpBuilder,
    values: Vec<Written>,
    /// Whether operators belong to the definition.
    defines: bool,
}

impl Tape<'_> {
    fn written(&mut self, value: Written) -> ValueId {
        self.values.push(value);
        ValueId(self.values.len() as u32 - 1)
    }

    /// Operands of the builder behind as those of the tape.
    fn own(&mut self, operands: &[Operand]) -> SmallVec<[Operand; 4]> {
        let mut known: FxHashMap<ValueId, ValueId> = FxHashMap::default();
        let mut own = SmallVec::new();
        for operand in operands {
            own.push(match operand {
                Operand::Value(value) => {
                    let next = ValueId(self.values.len() as u32);
                    let id = *known.entry(*value).or_insert(next);
                    if id == next {
                        self.values.push(Written::There(*value));
                    }
                    Operand::Value(id)
                }
                number => *number,
            });
        }
        own
    }

    /// The value that the builder behind has of an operand, if that is recorded.
    fn there(&self, operand: &Operand) -> Option<Operand> {
        match operand {
            Operand::Value(value) => match &self.values[value.0 as usize] {
                Written::There(there) => Some((*there).into()),
                Written::Step(step) => step.there.map(Operand::from),
            },
            number => Some(*number),
        }
    }

    /// Records a value with the builder behind, and what it is computed of.
    fn record(&mut self, value: ValueId) -> Result<ValueId> {
        let mut stack: SmallVec<[ValueId; 8]> = SmallVec::from_slice(&[value]);
        while let Some(&at) = stack.last() {
            let step = match &self.values[at.0 as usize] {
                Written::Step(step) if step.there.is_none() => step,
                _ => {
                    stack.pop();
                    continue;
                }
            };
            let waits = step.operands.iter().filter(|x| self.there(x).is_none());
            let waits: SmallVec<[ValueId; 4]> = waits.filter_map(as_value).collect();
            if !waits.is_empty() {
                stack.extend(waits);
                continue;
            }
            let ready = step.operands.iter().filter_map(|x| self.there(x));
            let ready: SmallVec<[Operand; 4]> = ready.collect();
            let made = self.b.push(step.op.clone(), &ready)?;
            if let Written::Step(step) = &mut self.values[at.0 as usize] {
                step.there = Some(made);
            }
        }
        match self.there(&value.into()) {
            Some(Operand::Value(there)) => Ok(there),
            _ => Err(Error::internal("a value was not recorded")),
        }
    }
}

fn as_value(operand: &Operand) -> Option<ValueId> {
    match operand {
        Operand::Value(value) => Some(*value),
        _ => None,
    }
}

impl OpBuilder for Tape<'_> {
    fn shape(&self, value: ValueId) -> &Shape {
        match &self.values[value.0 as usize] {
            Written::There(there) => self.b.shape(*there),
            Written::Step(step) => &step.shape,
        }
    }

    fn dtype(&self, value: ValueId) -> DType {
        match &self.values[value.0 as usize] {
            Written::There(there) => self.b.dtype(*there),
            Written::Step(step) => step.dtype,
        }
    }

    fn push(&mut self, op: Op, operands: &[Operand]) -> Result<ValueId> {
        if self.defines {
            let (shape, dtype) = {
                let meta = |operand: &Operand| match operand {
                    Operand::Value(x) => ArgMeta::Tensor(self.shape(*x), self.dtype(*x)),
                    Operand::Slot(_, number) | Operand::Const(number) => ArgMeta::Scalar(*number),
                };
                let metas: SmallVec<[ArgMeta<'_>; 4]> = operands.iter().map(meta).collect();
                op.infer(&metas)?
            };
            let operands = SmallVec::from_slice(operands);
            return Ok(self.written(Written::Step(Box::new(Step {
                op,
                operands,
                shape,
                dtype,
                there: None,
            }))));
        }
        for value in operands.iter().filter_map(as_value) {
            self.record(value)?;
        }
        let ready: SmallVec<[Operand; 4]> = operands.iter().filter_map(|x| self.there(x)).collect();
        let made = self.b.push(op, &ready)?;
        Ok(self.written(Written::There(made)))
    }
}

/// The gradients of what other operators define, from theirs: the definition is gone through backwards. Of it those
/// operators are recorded again whose results the rules of others read.
///
/// # Errors
/// The definition or the rule of one of its operators fails.
pub fn by_definition(
    b: &mut dyn OpBuilder,
    of: &Adjoint<'_>,
    define: impl FnOnce(&mut dyn OpBuilder, &[Operand]) -> Result<ValueId>,
) -> Result<Gradients> {
    let mut tape = Tape {
        b,
        values: Vec::new(),
        defines: true,
    };
    let args = tape.own(of.args);
    let result = define(&mut tape, &args)?;
    tape.defines = false;
    let gradient = tape.written(Written::There(of.gradient));
    let gradient = fit_like(&mut tape, gradient, result)?;
    let wanted = |(operand, &wanted): (&Operand, &bool)| as_value(operand).filter(|_| wanted);
    let sources: FxHashSet<ValueId> = args.iter().zip(of.wanted).filter_map(wanted).collect();
    let found = backwards(&mut tape, &sources, (result, gradient))?;
    // An operand may stand at several places: its gradient is that of all of them.
    let mut given = FxHashSet::default();
    let mut once = |operand: &Operand| -> Result<Option<ValueId>> {
        let value = as_value(operand).filter(|value| given.insert(*value));
        match value.and_then(|value| found.get(&value)) {
            Some(gradient) => tape.record(*gradient).map(Some),
            None => Ok(None),
        }
    };
    args.iter().map(&mut once).collect()
}

fn fit_like(b: &mut dyn OpBuilder, gradient: ValueId, like: ValueId) -> Result<ValueId> {
    let (shape, dtype) = (b.shape(like).clone(), b.dtype(like));
    fit(b, gradient, &shape, dtype)
}

/// The gradients of `sources` through the steps of a definition, from that of one result.
fn backwards(
    tape: &mut Tape<'_>,
    sources: &FxHashSet<ValueId>,
    (result, gradient): (ValueId, ValueId),
) -> Result<FxHashMap<ValueId, ValueId>> {
    let mut depends = sources.clone();
    let reads = |operand: &Operand, depends: &FxHashSet<ValueId>, b: &dyn OpBuilder| match operand {
        Operand::Value(value) => depends.contains(value) && b.dtype(*value).is_float(),
        _ => false,
    };
    let count = tape.values.len() as u32;
    for value in (0..count).map(ValueId) {
        if let Written::Step(step) = &tape.values[value.0 as usize]
            && step.operands.iter().any(|x| reads(x, &depends, tape))
        {
            depends.insert(value);
        }
    }
    let mut gradients: FxHashMap<ValueId, ValueId> = FxHashMap::default();
    gradients.insert(result, gradient);
    for value in (0..count).rev().map(ValueId) {
        let step = match &tape.values[value.0 as usize] {
            Written::Step(step) if depends.contains(&value) => {
                let gradient = gradients.remove(&value);
                gradient.map(|g| (step.op.clone(), step.operands.clone(), g))
            }
            _ => None,
        };
        let Some((op, operands, gradient)) = step else {
            continue;
        };
        let wanted = operands.iter().map(|x| reads(x, &depends, tape));
        let wanted: SmallVec<[bool; 4]> = wanted.collect();
        let adjoint = Adjoint {
            args: &operands,
            result: value,
            gradient,
            wanted: &wanted,
        };
        let found = op.entry().vjp(tape, &adjoint)?;
        for ((operand, wanted), found) in operands.iter().zip(wanted).zip(found) {
            let (Operand::Value(value), Some(found), true) = (operand, found, wanted) else {
                continue;
            };
            let mut sum = fit_like(tape, found, *value)?;
            if let Some(before) = gradients.get(value) {
                sum = tape.add(*before, sum)?;
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
/// The operator's rule fails.
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
