//! The builders that composites are run through, and what decompositions share.

use crate::op::operator::Inferred;
use crate::op::{Full, Permute, Reshape};
use crate::ops::{matmul, pointwise};
use crate::{Arg, ArgMeta, Array, Extent, Op, OpBuilder, OpBuilderExt, Operand, ValueId};
use ferrotrace_runtime::{DType, Error, ErrorKind, Result, Shape};
use smallvec::SmallVec;

/// Runs only the shape and dtype rules.
#[derive(Debug)]
pub(super) struct ShapeBuilder {
    values: SmallVec<[(Shape, DType); 8]>,
}

impl ShapeBuilder {
    /// A builder that knows `args`, and these as its operands.
    pub(super) fn new(args: &[ArgMeta<'_>]) -> (ShapeBuilder, SmallVec<[Operand; 6]>) {
        let mut values = SmallVec::new();
        let operands = args.iter().enumerate().map(|(i, arg)| match arg {
            ArgMeta::Tensor(shape, dtype) => {
                values.push(((*shape).clone(), *dtype));
                Operand::Value(ValueId(values.len() as u32 - 1))
            }
            ArgMeta::Scalar(scalar) => Operand::Slot(i as u32, *scalar),
        });
        let operands = operands.collect();
        (ShapeBuilder { values }, operands)
    }

    /// What is known of a value.
    pub(super) fn take(mut self, value: ValueId) -> Inferred {
        Ok(self.values.swap_remove(value.0 as usize))
    }
}

impl OpBuilder for ShapeBuilder {
    fn shape(&self, value: ValueId) -> &Shape {
        &self.values[value.0 as usize].0
    }

    fn dtype(&self, value: ValueId) -> DType {
        self.values[value.0 as usize].1
    }

    fn push(&mut self, op: Op, operands: &[Operand]) -> Result<ValueId> {
        let result = op.infer(&metas(self, operands))?;
        self.values.push(result);
        Ok(ValueId(self.values.len() as u32 - 1))
    }
}

/// Notes the operators, with their shapes, to run them afterwards: then the last use of each value is known, and its
/// memory free from there on.
#[derive(Debug)]
pub(super) struct Recorder {
    shapes: ShapeBuilder,
    steps: Vec<(Op, SmallVec<[Operand; 4]>)>,
    inputs: usize,
}

impl Recorder {
    /// A recorder that knows `args`, and these as its operands.
    pub(super) fn new(args: &[ArgMeta<'_>]) -> (Recorder, SmallVec<[Operand; 6]>) {
        let (shapes, operands) = ShapeBuilder::new(args);
        let inputs = shapes.values.len();
        (
            Recorder {
                shapes,
                steps: Vec::new(),
                inputs,
            },
            operands,
        )
    }

    /// The operators noted, in order.
    #[cfg(test)]
    pub(super) fn steps(&self) -> &[(Op, SmallVec<[Operand; 4]>)] {
        &self.steps
    }

    /// Runs the operators on ready-made kernels, and gives `result`. `args` are those that the recorder was told of.
    pub(super) fn run(self, args: &[Arg], result: ValueId) -> Result<Array> {
        let mut values: Vec<Option<Array>> = Vec::with_capacity(self.shapes.values.len());
        values.extend(args.iter().filter_map(|arg| match arg {
            Arg::Array(array) => Some(Some(array.clone())),
            Arg::Scalar(_) => None,
        }));
        let mut last = vec![usize::MAX; self.shapes.values.len()];
        for (step, (_, operands)) in self.steps.iter().enumerate() {
            for value in operands.iter().filter_map(as_value) {
                last[value.0 as usize] = step;
            }
        }
        last[result.0 as usize] = usize::MAX;
        for (step, (op, operands)) in self.steps.iter().enumerate() {
            let mut held: SmallVec<[Arg; 4]> = SmallVec::new();
            for operand in operands {
                held.push(match operand {
                    Operand::Value(value) => Arg::Array(held_value(&values, *value)?.clone()),
                    Operand::Slot(_, scalar) | Operand::Const(scalar) => Arg::Scalar(*scalar),
                });
            }
            let (shape, dtype) = &self.shapes.values[self.inputs + step];
            let array = op.run(&held, shape, *dtype)?;
            values.push(Some(array));
            for value in operands.iter().filter_map(as_value) {
                if last[value.0 as usize] == step {
                    values[value.0 as usize] = None;
                }
            }
        }
        held_value(&values, result).cloned()
    }

    /// The most bytes that [`run`](Self::run) holds at once beyond those of the operands: each result has memory of its
    /// own up to its last use, a view has none, and what an operator needs for itself alone is not counted, but for the
    /// copies that a product makes of its operands.
    pub(super) fn held(&self, result: ValueId, by_tiles: bool) -> u64 {
        let count = self.shapes.values.len();
        // The value whose memory each lies in, and the step that reads it last.
        let mut root: Vec<usize> = (0..count).collect();
        let mut last = vec![0usize; count];
        for (step, (op, operands)) in self.steps.iter().enumerate() {
            for value in operands.iter().filter_map(as_value) {
                last[root[value.0 as usize]] = step;
            }
            let made = self.inputs + step;
            last[made] = step;
            if let Some(Operand::Value(x)) = operands.first()
                && op.is_view()
            {
                root[made] = root[x.0 as usize];
            }
        }
        last[root[result.0 as usize]] = usize::MAX;
        let bytes = |value: usize| {
            let (shape, dtype) = &self.shapes.values[value];
            (shape.numel() * dtype.size()) as u64
        };
        let (mut live, mut peak) = (0u64, 0u64);
        for (step, (op, operands)) in self.steps.iter().enumerate() {
            let made = self.inputs + step;
            if root[made] == made {
                let own = match op {
                    Op::Composite(op) => {
                        super::held(op, &metas(self, operands), by_tiles).unwrap_or(0)
                    }
                    _ if op.rounded().is_matmul() => {
                        matmul::held(&metas(self, operands), by_tiles).unwrap_or(0)
                    }
                    _ => 0,
                };
                peak = peak.max(live + own.max(bytes(made)));
                live += bytes(made);
            }
            let mut read: SmallVec<[usize; 4]> = operands
                .iter()
                .filter_map(as_value)
                .map(|v| root[v.0 as usize])
                .collect();
            read.push(root[made]);
            read.sort_unstable();
            read.dedup();
            let gone = |value: &usize| last[*value] == step && *value >= self.inputs;
            live -= read.into_iter().filter(gone).map(bytes).sum::<u64>();
        }
        peak
    }
}

fn as_value(operand: &Operand) -> Option<ValueId> {
    if let Operand::Value(value) = operand {
        Some(*value)
    } else {
        None
    }
}

fn held_value(values: &[Option<Array>], value: ValueId) -> Result<&Array> {
    let slot = values.get(value.0 as usize).and_then(Option::as_ref);
    slot.ok_or_else(|| {
        Error::internal("a value is used before it is computed or after its last use")
    })
}

impl OpBuilder for Recorder {
    fn shape(&self, value: ValueId) -> &Shape {
        self.shapes.shape(value)
    }

    fn dtype(&self, value: ValueId) -> DType {
        self.shapes.dtype(value)
    }

    fn push(&mut self, op: Op, operands: &[Operand]) -> Result<ValueId> {
        let value = self.shapes.push(op.clone(), operands)?;
        self.steps.push((op, SmallVec::from_slice(operands)));
        Ok(value)
    }
}

/// What the rules know of operands.
pub(super) fn metas<'a>(b: &'a dyn OpBuilder, operands: &[Operand]) -> SmallVec<[ArgMeta<'a>; 6]> {
    let meta = |operand: &Operand| match operand {
        Operand::Value(value) => ArgMeta::Tensor(b.shape(*value), b.dtype(*value)),
        Operand::Slot(_, scalar) | Operand::Const(scalar) => ArgMeta::Scalar(*scalar),
    };
    operands.iter().map(meta).collect()
}

/// The dtype operands promote to.
pub(super) fn promoted(b: &dyn OpBuilder, operands: &[Operand]) -> DType {
    pointwise::promote(&metas(b, operands))
}

/// `dtype`, or F32 for integers and truth values.
pub(super) fn float(dtype: DType) -> DType {
    if dtype.is_float() { dtype } else { DType::F32 }
}

/// The operand at `i`.
pub(super) fn operand(args: &[Operand], i: usize) -> Result<Operand> {
    args.get(i)
        .copied()
        .ok_or_else(|| Error::argument(format!("operand {i} is missing")))
}

/// The tensor operand at `i`.
pub(super) fn value(args: &[Operand], i: usize) -> Result<ValueId> {
    match operand(args, i)? {
        Operand::Value(value) => Ok(value),
        _ => Err(Error::argument(format!("operand {i} must be a tensor"))),
    }
}

/// An operand as a tensor of `dtype`: a number becomes a 0-d one, so that arithmetic on it is not of F32.
pub(super) fn tensor_of(b: &mut dyn OpBuilder, operand: Operand, dtype: DType) -> Result<ValueId> {
    match operand {
        Operand::Value(value) => b.cast(value, dtype),
        number => b.push(
            Op::Full(Full {
                shape: Shape::scalar(),
                dtype,
            }),
            &[number],
        ),
    }
}

/// `f` of `x` in the dtype of its arithmetic, rounded to `x`'s dtype (F32 for integers and truth values).
pub(super) fn in_float(
    b: &mut dyn OpBuilder,
    x: ValueId,
    f: impl FnOnce(&mut dyn OpBuilder, ValueId) -> Result<ValueId>,
) -> Result<ValueId> {
    let dtype = float(b.dtype(x));
    let wide = b.cast(x, dtype.compute())?;
    let y = f(b, wide)?;
    b.cast(y, dtype)
}

/// Bits of every dimension.
pub(super) fn all_dims(rank: usize) -> u64 {
    if rank >= 64 {
        u64::MAX
    } else {
        (1 << rank) - 1
    }
}

/// Bits of the last `n` of `rank` dimensions.
pub(super) fn last_dims(rank: usize, n: usize) -> u64 {
    all_dims(rank) & !all_dims(rank - n)
}

/// How many elements of `shape` a reduction over `mask` takes to one.
pub(super) fn reduced_count(shape: &Shape, mask: u64) -> usize {
    (0..shape.rank())
        .filter(|d| mask >> d & 1 == 1)
        .map(|d| shape[d])
        .product()
}

/// `dim` exists; dimension 0 of a 0-d tensor does.
pub(super) fn check_dim(dim: usize, shape: &Shape) -> Result<()> {
    if dim < shape.rank().max(1) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Dim {
        dim: dim as isize,
        rank: shape.rank(),
    }))
}

/// `x` under the shape `dims`; `x` itself if it has that shape.
pub(super) fn reshape(b: &mut dyn OpBuilder, x: ValueId, dims: &[usize]) -> Result<ValueId> {
    if b.shape(x).dims() == dims {
        return Ok(x);
    }
    let extents = dims.iter().map(|&n| Extent::Size(n)).collect();
    b.push(Op::Reshape(Reshape(extents)), &[x.into()])
}

/// The dimensions of `x` in the order given; `x` itself if that is theirs.
pub(super) fn permute(b: &mut dyn OpBuilder, x: ValueId, order: &[usize]) -> Result<ValueId> {
    if order.iter().enumerate().all(|(i, &d)| i == d) {
        return Ok(x);
    }
    b.push(
        Op::Permute(Permute(order.iter().map(|&d| d as u8).collect())),
        &[x.into()],
    )
}

/// The last two dimensions of `x` exchanged.
pub(super) fn transpose(b: &mut dyn OpBuilder, x: ValueId) -> Result<ValueId> {
    let rank = b.shape(x).rank();
    let mut order: SmallVec<[usize; 6]> = (0..rank).collect();
    order.swap(rank - 1, rank - 2);
    permute(b, x, &order)
}
