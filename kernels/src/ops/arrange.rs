//! Elements at other places in new memory: repeated, padded, joined, assigned to a slice.

use super::tensor;
use super::view::{Narrow, Slice, View, check_dim};
use crate::arg::{Arg, array};
use crate::copy::{fill_borders, join, window};
use crate::cpu::copy;
use crate::op::gradient::{Adjoint, Gradients, full, reshaped};
use crate::op::operator::{Inferred, Operator, Update, facts, question, text};
use crate::{ArgMeta, Array, Class, Op, OpBuilder, OpBuilderExt, ReduceKind};
use ferrotrace_runtime::{DType, Error, Layout, Result, Shape, Strides};
use smallvec::SmallVec;

/// The whole repeated per dimension; extra counts add leading dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Repeat(pub SmallVec<[usize; 4]>);

impl Operator for Repeat {
    text!("repeat" { counts = 0 });
    facts! { class: Class::Arrange, light: false, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let (shape, dtype) = tensor(args, 0)?;
        let counts = &self.0;
        let lead = counts.len().checked_sub(shape.rank()).ok_or_else(|| {
            Error::argument(format!(
                "{} repeat counts for a tensor of rank {}",
                counts.len(),
                shape.rank()
            ))
        })?;
        let size = |d: usize| d.checked_sub(lead).map_or(1, |d| shape[d]);
        let sizes = (0..counts.len()).map(|d| counts[d].checked_mul(size(d)));
        let large = || Error::argument("no size is as great as a repeated dimension");
        let result = sizes.collect::<Option<_>>().ok_or_else(large)?;
        Ok((result, dtype))
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        // Each repeated dimension is two: how often, and the operand's.
        let from = b.shape(of.value(0)?).clone();
        let lead = self.0.len() - from.rank();
        let (mut split, mut mask) = (Shape::scalar(), 0u64);
        for (d, &times) in self.0.iter().enumerate() {
            mask |= 1 << split.rank();
            split.dims_mut().push(times);
            if d >= lead {
                split.dims_mut().push(from[d - lead]);
            }
        }
        let parts = reshaped(b, of.gradient, &split)?;
        let sum = b.reduce(ReduceKind::Sum, parts, mask, false)?;
        Ok(of.first(sum))
    }

    fn run(&self, args: &[Arg], shape: &Shape, _: DType) -> Result<Array> {
        repeat(array(args, 0)?, shape)
    }
}

fn repeat(x: &Array, shape: &Shape) -> Result<Array> {
    let lead = shape.rank() - x.shape().rank();
    // Each dimension as (copies, its size): the copies do not move in the operand.
    let (mut dims, mut strides) = (Shape::scalar(), Strides::new());
    for (d, &size) in shape.iter().enumerate() {
        let (own, stride) = match d.checked_sub(lead) {
            Some(k) => (x.shape()[k], x.layout.strides()[k]),
            None => (1, 0),
        };
        dims.dims_mut()
            .extend_from_slice(&[size.checked_div(own).unwrap_or(0), own]);
        strides.extend_from_slice(&[0, stride]);
    }
    let spread = x.with_layout(Layout::new(dims.clone(), strides, x.layout.offset()));
    let out = copy::copy(&spread, &dims, x.dtype)?;
    Ok(out.with_layout(Layout::contiguous(shape.clone())))
}

/// Elements added (or, negative, cropped) before and after each dimension: operands x, the value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pad(pub SmallVec<[(isize, isize); 4]>);

question! {
    /// The padding that it is.
    as_pad: Pad(Pad)
}

impl Operator for Pad {
    text!("pad" { pads = 0 });
    facts! { class: Class::Arrange, light: true, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let (shape, dtype) = tensor(args, 0)?;
        if self.0.len() > shape.rank() {
            return Err(Error::argument(format!(
                "{} paddings for a tensor of rank {}",
                self.0.len(),
                shape.rank()
            )));
        }
        let mut result = shape.clone();
        for (d, (before, after)) in self.0.iter().enumerate() {
            let size = shape[d] as i128 + *before as i128 + *after as i128;
            result.dims_mut()[d] = usize::try_from(size).map_err(|_| {
                let what = if size < 0 {
                    "crops more than"
                } else {
                    "adds more than fits"
                };
                Error::argument(format!(
                    "padding ({before}, {after}) {what} dimension {d} of size {}",
                    shape[d]
                ))
            })?;
        }
        Ok((result, dtype))
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let (mut gradients, x) = (of.none(), of.value(0)?);
        if of.wants(0) {
            let back = self
                .0
                .iter()
                .map(|&(before, after)| (-before, -after))
                .collect();
            let crop = Op::Pad(Pad(back));
            gradients[0] = Some(b.push(crop, &[of.gradient.into(), 0.0.into()])?);
        }
        if of.wants(1) {
            // The value stands wherever no element of x does.
            let (from, dtype) = (b.shape(x).clone(), b.dtype(of.gradient));
            let ones = full(b, &from, 1.0, dtype)?;
            let inside = b.push(Op::Pad(self.clone()), &[ones.into(), 0.0.into()])?;
            let outside = b.sub(1.0, inside)?;
            gradients[1] = Some(b.mul(of.gradient, outside)?);
        }
        Ok(gradients)
    }

    fn run(&self, args: &[Arg], shape: &Shape, _: DType) -> Result<Array> {
        let x = array(args, 0)?;
        let out = Array::empty(x.buffer.device(), shape.clone(), x.dtype)?;
        let to = fill_borders(&self.0, args, &out)?;
        let mut from = x.layout.clone();
        for (d, &(before, _)) in self.0.iter().enumerate() {
            from = window(&from, d, (-before).max(0) as usize, to.shape()[d], 1);
        }
        copy::assign(&out, &to, &x.with_layout(from))?;
        Ok(out)
    }
}

/// Operands joined along a dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cat {
    /// The dimension.
    pub dim: usize,
}

question! {
    /// The concatenation that it is.
    as_cat: Cat(Cat)
}

impl Operator for Cat {
    text!("cat" { dim });
    facts! { class: Class::Arrange, light: false, jumps: false, work: |_, _| 0 }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let dim = self.dim;
        let (first, _) = tensor(args, 0)?;
        check_dim(dim, first)?;
        let mut dims = first.clone();
        let mut dtype = None;
        dims.dims_mut()[dim] = 0;
        for i in 0..args.len() {
            let (shape, d) = tensor(args, i)?;
            let fits = shape.rank() == first.rank()
                && (0..shape.rank()).all(|k| k == dim || shape[k] == first[k]);
            if !fits {
                return Err(Error::shape(format!(
                    "shapes {first} and {shape} do not join along dimension {dim}"
                )));
            }
            dims.dims_mut()[dim] = dims[dim].saturating_add(shape[dim]);
            dtype = Some(dtype.map_or(d, |t: DType| t.promote(d)));
        }
        let dtype = dtype.ok_or_else(|| Error::argument("cat of no tensors"))?;
        Ok((dims, dtype))
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let (mut gradients, mut start) = (of.none(), 0);
        for i in 0..of.args.len() {
            let len = b.shape(of.value(i)?)[self.dim];
            if of.wants(i) {
                let part = Narrow {
                    dim: self.dim,
                    start,
                    len,
                };
                gradients[i] = Some(b.push(Op::Narrow(part), &[of.gradient.into()])?);
            }
            start += len as isize;
        }
        Ok(gradients)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let out = Array::empty(array(args, 0)?.buffer.device(), shape.clone(), dtype)?;
        let (mut first, mut parts) = (0, SmallVec::<[_; 8]>::new());
        for i in 0..args.len() {
            let x = array(args, i)?;
            parts.push((first, x));
            first += x.shape()[self.dim];
        }
        join(&out, self.dim, &parts)?;
        Ok(out)
    }
}

/// `x` with a slice of one dimension replaced: operands x, src (broadcast to the slice).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SliceAssign {
    /// The dimension.
    pub dim: usize,
    /// As in [`Slice`].
    pub start: isize,
    /// As in [`Slice`].
    pub end: isize,
    /// As in [`Slice`].
    pub step: usize,
}

impl SliceAssign {
    /// The slice that is replaced.
    pub fn slice(&self) -> Slice {
        let SliceAssign {
            dim,
            start,
            end,
            step,
        } = *self;
        Slice {
            dim,
            start,
            end,
            step,
        }
    }
}

question! {
    /// The assignment to a slice that it is.
    as_slice_assign: SliceAssign(SliceAssign)
}

impl Operator for SliceAssign {
    text!("slice_assign" { dim, start, end, step });
    facts! { class: Class::Arrange, light: false, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let (shape, dtype) = tensor(args, 0)?;
        let window = self.slice().shape(shape)?;
        let (src, src_dtype) = tensor(args, 1)?;
        if src.broadcast(&window).as_ref() != Some(&window) {
            return Err(Error::shape(format!(
                "a source of shape {src} does not fit the slice {window}"
            )));
        }
        if dtype.promote(src_dtype).category() != dtype.category() {
            return Err(Error::dtype(format!(
                "{src_dtype} cannot be written into {dtype}"
            )));
        }
        Ok((shape.clone(), dtype))
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let mut gradients = of.none();
        if of.wants(0) {
            let keep = Op::SliceAssign(self.clone());
            let dtype = b.dtype(of.gradient);
            let zero = full(b, &Shape::scalar(), 0.0, dtype)?;
            gradients[0] = Some(b.push(keep, &[of.gradient.into(), zero.into()])?);
        }
        if of.wants(1) {
            gradients[1] = Some(b.push(Op::Slice(self.slice()), &[of.gradient.into()])?);
        }
        Ok(gradients)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let mut out = copy::copy(array(args, 0)?, shape, dtype)?;
        self.run_over(&mut out, args)?;
        Ok(out)
    }

    fn as_update(&self) -> Option<&dyn Update> {
        Some(self)
    }
}

impl Update for SliceAssign {
    fn writes_over(&self, _: DType) -> bool {
        true
    }

    fn run_over(&self, x: &mut Array, args: &[Arg]) -> Result<()> {
        let (first, len) = self.slice().span(x.shape());
        let part = window(&x.layout, self.dim, first, len, self.step);
        copy::assign(x, &part, array(args, 1)?)
    }
}

impl Op {}
