//! Gradients of a tensor that is looked at window by window, as by `chunk` and `narrow`.

use super::builder::Recorder;
use super::pull::{added, pulled};
use crate::Tensor;
use crate::history::{History, Operand as Kept, Operation, Rule};
use ferrotrace_kernels::op::gradient::{self, full, reshaped};
use ferrotrace_kernels::op::{Cat, Slice};
use ferrotrace_kernels::{Op, OpBuilder, Operand};
use ferrotrace_runtime::{Result, Shape};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// Most windows of a tensor that wait for each other: their gradients are held until the last is known.
const MOST: usize = 8;

/// A window and its gradient.
struct Window {
    history: Arc<History>,
    operation: Arc<Operation>,
    gradient: Tensor,
}

/// Windows of one tensor whose gradients are not part of its gradient yet.
#[derive(Default)]
pub(super) struct Windows(SmallVec<[Window; 4]>);

/// The tensor that an operation looks at a window of, if that is what it does.
pub(super) fn looked_at(operation: &Operation) -> Option<&Arc<History>> {
    slice(operation)?;
    operation.operands.first()?.live()
}

/// The window of an operation, and the shape of what it looks at.
fn slice(operation: &Operation) -> Option<(Slice, &Shape)> {
    let (Rule::Operator, [Kept::Tensor { kind, .. }]) = (&operation.rule, &operation.operands[..])
    else {
        return None;
    };
    let window = operation.kind.op().as_view()?.window(&kind.shape)?;
    Some((window, &kind.shape))
}

impl Windows {
    /// One more; whether no more may wait.
    pub fn push(
        &mut self,
        history: &Arc<History>,
        operation: &Arc<Operation>,
        gradient: &Tensor,
    ) -> bool {
        self.0.push(Window {
            history: history.clone(),
            operation: operation.clone(),
            gradient: gradient.clone(),
        });
        self.0.len() == MOST
    }

    /// When the first was recorded.
    pub fn order(&self) -> u64 {
        self.0.first().map_or(0, |window| window.history.order)
    }

    /// The gradient of the tensor: that of its other uses, and those of the windows, which are joined where they leave little
    /// out. Else each is added in place: that of a tensor looked at piece by piece costs what the pieces cost, not as many
    /// whole tensors.
    ///
    /// # Errors
    /// An operation that cannot be recorded.
    pub fn added_to(self, before: Option<Tensor>) -> Result<Option<Tensor>> {
        if let Some(all) = self.joined()? {
            let location = self.0[0].operation.location;
            return Ok(Some(match before {
                Some(before) => added(&before, &all, location),
                None => all,
            }));
        }
        let mut sum = before;
        for window in self.0 {
            sum = match sum {
                Some(before) => Some(window.added_to(before)?),
                None => pulled(&window.history, &window.operation, &window.gradient)?,
            };
        }
        Ok(sum)
    }

    /// The gradients of several windows of one dimension that do not overlap, next to each other with zeros between them.
    fn joined(&self) -> Result<Option<Tensor>> {
        let mut parts: SmallVec<[(Range<usize>, usize); 8]> = SmallVec::new();
        let (mut dim, mut covered) = (None, 0);
        let Some((_, shape)) = self.0.first().and_then(|first| slice(&first.operation)) else {
            return Ok(None);
        };
        for (i, window) in self.0.iter().enumerate() {
            let Some((at, _)) = slice(&window.operation) else {
                return Ok(None);
            };
            if at.step != 1 || *dim.get_or_insert(at.dim) != at.dim {
                return Ok(None);
            }
            let (start, len) = at.span(shape);
            covered += len;
            parts.push((start..start + len, i));
        }
        parts.sort_by_key(|(range, _)| range.start);
        let apart = parts
            .windows(2)
            .all(|pair| pair[0].0.end <= pair[1].0.start);
        let Some(dim) = dim.filter(|&dim| apart && parts.len() > 1 && 2 * covered >= shape[dim])
        else {
            return Ok(None);
        };
        let first = &self.0[0];
        let (mut b, ..) = Recorder::new(&first.operation, None, &first.gradient);
        let sized = |len: usize| {
            let mut sizes = shape.clone();
            sizes.dims_mut()[dim] = len;
            sizes
        };
        let dtype = first.gradient.dtype();
        let (mut all, mut done): (SmallVec<[Operand; 8]>, _) = (SmallVec::new(), 0);
        for (range, i) in parts {
            if range.start > done {
                all.push(full(&mut b, &sized(range.start - done), 0.0, dtype)?.into());
            }
            let gradient = b.add(self.0[i].gradient.clone());
            all.push(reshaped(&mut b, gradient, &sized(range.len()))?.into());
            done = range.end;
        }
        if shape[dim] > done {
            all.push(full(&mut b, &sized(shape[dim] - done), 0.0, dtype)?.into());
        }
        let joined = b.push(Op::from(Cat { dim }), &all)?;
        b.tensor(joined).cloned().map(Some)
    }
}

impl Window {
    /// A gradient with this window's added in place.
    fn added_to(&self, before: Tensor) -> Result<Tensor> {
        let (mut recorder, _, _, gradient) = Recorder::new(&self.operation, None, &self.gradient);
        let before = recorder.add(before);
        let op = self.operation.kind.op();
        let sum = gradient::add_window(&mut recorder, op, before, gradient)?;
        recorder.tensor(sum).cloned()
    }
}
