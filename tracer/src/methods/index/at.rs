//! Reading and writing slices of several dimensions at once.

use super::super::attempt;
use crate::args::{Dim, Operand, Slice, Slices, forward};
use crate::{Input, Tensor};
use ferrotrace_kernels::Op;
use ferrotrace_kernels::op;
use ferrotrace_kernels::op::{Flip, Select, SliceAssign, Squeeze, Unsqueeze};
use ferrotrace_runtime::{Error, ErrorKind, Result, Shape};

/// One dimension's slice as operators take it: where, walking forward, and whether of the reversed dimension.
#[derive(Clone, Copy)]
struct Window {
    dim: usize,
    start: isize,
    end: isize,
    step: usize,
    reversed: bool,
    /// Whether the dimension goes away.
    single: bool,
}

impl Window {
    /// # Errors
    /// An index is out of range.
    fn of(dim: usize, slice: Slice, x: &Tensor) -> Result<Window> {
        let (start, end, step) = match slice {
            Slice::Index(index) => {
                check_index(x, dim, index)?;
                // Index −1 is the last: its range has no end, since 0 would be the first element.
                let end = index.checked_add(1).filter(|&end| end != 0);
                (Some(index), end, 1)
            }
            Slice::Range { start, end, step } => (start, end, step),
            Slice::Rest => (None, None, 1),
        };
        let (start, end, step, reversed) = forward(start, end, step);
        let single = matches!(slice, Slice::Index(_));
        Ok(Window {
            dim,
            start,
            end,
            step,
            reversed,
            single,
        })
    }

    #[track_caller]
    fn read(&self, x: &Tensor) -> Tensor {
        self.directed(x).apply(Op::Slice(op::Slice {
            dim: self.dim,
            start: self.start,
            end: self.end,
            step: self.step,
        }))
    }

    #[track_caller]
    fn write(&self, x: &Tensor, src: &Tensor) -> Tensor {
        let op = Op::SliceAssign(SliceAssign {
            dim: self.dim,
            start: self.start,
            end: self.end,
            step: self.step,
        });
        let inputs = [&self.directed(x), src];
        self.directed(&Tensor::record(op, &inputs.map(Input::Tensor)))
    }

    /// `x` in the direction that the slice walks.
    #[track_caller]
    fn directed(&self, x: &Tensor) -> Tensor {
        match self.reversed {
            false => x.clone(),
            true => x.apply(Op::Flip(Flip {
                mask: 1 << self.dim,
            })),
        }
    }
}

/// # Errors
/// The index is none of the dimension's.
fn check_index(x: &Tensor, dim: usize, index: isize) -> Result<()> {
    let size = x.shape().get(dim).copied().unwrap_or(0);
    let at = if index < 0 {
        index.saturating_add(size as isize)
    } else {
        index
    };
    if (0..size as isize).contains(&at) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Index {
        index: index as i64,
        dim,
        size,
    }))
}

/// `src`, whose dimensions are those of `x` that stay, with a dimension of 1 for each that goes away.
#[track_caller]
fn aligned(src: Tensor, windows: &[Window], rank: usize) -> Result<Tensor> {
    let single = windows.iter().filter(|w| w.single).count();
    if src.rank() > rank - single {
        let why = format!(
            "a source of shape {} for a part of {} dimensions",
            src.sizes(),
            rank - single
        );
        return Err(Error::shape(why));
    }
    let mut src = src;
    for window in windows.iter().rev().filter(|w| w.single) {
        let behind = rank - 1 - window.dim;
        if let Some(dim) = src.rank().checked_sub(behind).filter(|&before| before > 0) {
            src = src.apply(Op::Unsqueeze(Unsqueeze { dim }));
        }
    }
    Ok(src)
}

impl Tensor {
    /// What is to be written: a tensor, or a number as a tensor of this one's dtype.
    ///
    /// # Errors
    /// The number is of a category that the dtype cannot hold.
    #[track_caller]
    pub(crate) fn source(&self, src: Operand<'_>) -> Result<Tensor> {
        let number = match src {
            Operand::Tensor(src) => return Ok(src.clone()),
            Operand::Owned(src) => return Ok(src),
            Operand::Scalar(number) => number,
        };
        let dtype = self.dtype();
        if number.category() > dtype.category() {
            let ty = number.default_dtype();
            return Err(Error::dtype(format!("{ty} cannot be written into {dtype}")));
        }
        let src = Tensor::full(Shape::scalar(), number, dtype, &self.device());
        src.recorded().map(|()| src)
    }

    /// A part of the tensor: for each dimension from the first on an index, which takes the dimension away, or a range,
    /// as in Python: ends are clamped, negative numbers count from the end, `..` is a whole dimension, and
    /// [`by`](crate::SliceBy::by) gives a step. Dimensions without a slice stay whole; [`Slice::Rest`] stands for those
    /// left out before the last ones. Nothing is copied. An index that is out of range is an error, a range never is.
    ///
    /// Clippy takes `1..-1` for a mistake: allow `clippy::reversed_empty_ranges`, or write `1..n - 1`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::arange(0, 24, 1, DType::I64, &Device::cpu()).reshape([2, 3, 4]);
    /// assert_eq!(x.at((0, 1..-1, ..)).to_vec::<i64>()?, [4, 5, 6, 7]);
    /// assert_eq!(x.at((-1, .., (..).by(3))).to_vec::<i64>()?, [12, 15, 16, 19, 20, 23]);
    /// assert_eq!(x.at((Slice::Rest, 3)).dims(), [2, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn at(&self, slices: impl Into<Slices>) -> Tensor {
        let slices = attempt!("at", self.slices(&slices.into()), self);
        let (mut part, mut gone) = (self.clone(), 0);
        for (dim, slice) in slices {
            let dim = dim - gone;
            part = match slice {
                Slice::Index(index) => {
                    gone += 1;
                    part.apply(Op::Select(Select { dim, index }))
                }
                slice => match Window::of(dim, slice, self) {
                    Ok(window) => window.read(&part),
                    Err(error) => return Tensor::failed("at", error, &[self]),
                },
            };
        }
        part.called("at", &[self])
    }

    fn slices(&self, slices: &Slices) -> Result<smallvec::SmallVec<[(usize, Slice); 4]>> {
        self.check()?;
        slices.of_rank(self.rank())
    }

    /// This tensor with the part that [`at`](Tensor::at) gives for the same slices replaced by `src`: a tensor that
    /// broadcasts to that part and is converted to this tensor's dtype, or a number. A dtype of a higher category (floats
    /// into integers) is an error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros([3, 4], DType::I64, &Device::cpu());
    /// let x = x.assign((1, 1..3), 7);
    /// let row = Tensor::from_slice(&[1i64, 2, 3, 4], 4, &Device::cpu());
    /// let x = x.assign((..).by(2), &row);
    /// assert_eq!(x.to_vec::<i64>()?, [1, 2, 3, 4, 0, 7, 7, 0, 1, 2, 3, 4]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn assign<'a>(&self, slices: impl Into<Slices>, src: impl Into<Operand<'a>>) -> Tensor {
        let src = attempt!("assign", self.source(src.into()), self);
        match self.assigned(slices.into(), &src) {
            Ok(result) => result.called("assign", &[self, &src]),
            Err(error) => Tensor::failed("assign", error, &[self, &src]),
        }
    }

    #[track_caller]
    fn assigned(&self, slices: Slices, src: &Tensor) -> Result<Tensor> {
        src.check()?;
        let written = self.written_at(&slices, src.clone())?;
        match written.node().error().as_ref().map(Error::kind) {
            Some(ErrorKind::Shape(_)) => {
                let (src, part) = (src.sizes(), self.at(slices));
                let part = part.sizes();
                let why = format!("a source of shape {src} for a part of shape {part}");
                Err(Error::shape(why))
            }
            _ => Ok(written),
        }
    }

    #[track_caller]
    fn written_at(&self, slices: &Slices, src: Tensor) -> Result<Tensor> {
        let slices = self.slices(slices)?;
        if self.rank() == 0 {
            let row = self.apply(Op::Unsqueeze(Unsqueeze { dim: 0 }));
            let all = Slice::Range {
                start: None,
                end: None,
                step: 1,
            };
            let src = aligned(src, &[], 0)?;
            let whole = Window::of(0, all, &row)?.write(&row, &src);
            return Ok(whole.apply(Op::Squeeze(Squeeze { mask: 1 })));
        }
        let windows = slices
            .iter()
            .map(|&(dim, slice)| Window::of(dim, slice, self));
        let mut windows = windows.collect::<Result<Vec<_>>>()?;
        let src = aligned(src, &windows, self.rank())?;
        if windows.is_empty() {
            windows.push(Window::of(0, Slice::Rest, self)?);
        }
        // What a write copies is least where the narrowest windows come first.
        windows.sort_by_key(|window| !window.single);
        let mut parts = vec![self.clone()];
        for window in &windows[..windows.len() - 1] {
            parts.push(window.read(&parts[parts.len() - 1]));
        }
        let mut written = src;
        for (part, window) in parts.iter().zip(&windows).rev() {
            written = window.write(part, &written);
        }
        Ok(written)
    }

    /// This tensor with one index of a dimension replaced by `src`: what [`select`](Tensor::select) gives, a tensor that
    /// broadcasts to it, or a number (PyTorch's `select_scatter`).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::zeros([2, 3], DType::I64, &Device::cpu());
    /// let src = Tensor::from_slice(&[1i64, 2], 2, &Device::cpu());
    /// assert_eq!(x.select_assign(1, -1, &src).to_vec::<i64>()?, [0, 0, 1, 0, 0, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn select_assign<'a>(
        &self,
        dim: impl Into<Dim>,
        index: isize,
        src: impl Into<Operand<'a>>,
    ) -> Tensor {
        let dim = attempt!("select_assign", dim.into().wrap(self.rank()), self);
        let src = attempt!("select_assign", self.source(src.into()), self);
        let whole = Slice::Range {
            start: None,
            end: None,
            step: 1,
        };
        let mut slices = vec![whole; dim];
        slices.push(Slice::Index(index));
        match self.assigned(slices.into(), &src) {
            Ok(result) => result.called("select_assign", &[self, &src]),
            Err(error) => Tensor::failed("select_assign", error, &[self, &src]),
        }
    }
}
