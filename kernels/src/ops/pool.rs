//! Pooling and resampling of trailing spatial dimensions.

pub mod definition;

use super::tensor;
use crate::arg::{Arg, array};
use crate::copy::contiguous;
use crate::cpu::conv::Axis;
use crate::cpu::dense::{elements, elements_mut};
use crate::cpu::interpolate::{bicubic, bilinear, nearest};
use crate::cpu::number::{with_floating, with_type};
use crate::cpu::pool::{adaptive, pool};
use crate::op::gradient::{Adjoint, Gradients, by_definition, wide};
use crate::op::operator::{Inferred, Operator, attributes, facts, question, text};
use crate::op::{AdaptiveAvgPoolGradient, PoolGradient};
use crate::text::Line;
use crate::{ArgMeta, Array, Class, Composite, Op, OpBuilder, PoolKind};
use ferrotrace_runtime::{Category, DType, Error, Result, Shape};
use smallvec::SmallVec;

/// A pooling over the trailing spatial dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolSpec {
    /// What a window computes.
    pub kind: PoolKind,
    /// Window sizes, one a spatial dimension.
    pub kernel: SmallVec<[usize; 3]>,
    /// Steps.
    pub stride: SmallVec<[usize; 3]>,
    /// Padding on both sides, at most half the window.
    pub padding: SmallVec<[usize; 3]>,
}

question! {
    /// The pooling that it is.
    as_pool: Pool(PoolSpec)
}

impl Operator for PoolSpec {
    fn name(&self) -> &'static str {
        name(self)
    }

    attributes!(kernel = kernel, stride = stride, padding = padding);

    fn read(name: &str, line: &Line<'_>) -> Result<Option<PoolSpec>> {
        let kind = match name {
            "max_pool1d" | "max_pool2d" | "max_pool3d" => PoolKind::Max,
            "avg_pool1d" | "avg_pool2d" | "avg_pool3d" => PoolKind::Avg,
            _ => return Ok(None),
        };
        Ok(Some(PoolSpec {
            kind,
            kernel: line.value("kernel")?,
            stride: line.value("stride")?,
            padding: line.value("padding")?,
        }))
    }

    facts! {
        class: Class::Window,
        light: false,
        jumps: false,
        work: |op, of| of.result() * op.kernel.iter().product::<usize>() as u64
    }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer(self, args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let x = of.value(0)?;
        let shape = b.shape(x);
        let lead = shape.rank() - self.kernel.len();
        let gradient = PoolGradient {
            spec: self.clone(),
            input: SmallVec::from_slice(&shape[lead..]),
        };
        let g = wide(b, of.gradient)?;
        let dx = match self.kind {
            PoolKind::Max => b.push(Op::from(Composite::from(gradient)), &[g.into(), x.into()])?,
            PoolKind::Avg => b.push(Op::from(Composite::from(gradient)), &[g.into()])?,
        };
        Ok(of.first(dx))
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        run(self, args, shape, dtype)
    }
}

/// Mean over adaptive windows of the last two dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AdaptiveAvgPool {
    /// Result sizes.
    pub size: [usize; 2],
}

question! {
    /// The pooling of adaptive windows that it is.
    as_adaptive_avg_pool: AdaptiveAvgPool(AdaptiveAvgPool)
}

impl Operator for AdaptiveAvgPool {
    text!("adaptive_avg_pool2d" { size });
    facts! { class: Class::Window, light: false, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer_adaptive(self.size, args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let shape = b.shape(of.value(0)?).clone();
        let lead = shape.rank() - 2;
        let input = [shape[lead], shape[lead + 1]];
        let g = wide(b, of.gradient)?;
        // Windows of one size, which do not overlap.
        let is_even = (0..2).all(|d| self.size[d] > 0 && input[d].is_multiple_of(self.size[d]));
        let op = if is_even {
            let kernel: SmallVec<_> = (0..2).map(|d| input[d] / self.size[d]).collect();
            Composite::from(PoolGradient {
                spec: PoolSpec {
                    kind: PoolKind::Avg,
                    stride: kernel.clone(),
                    kernel,
                    padding: SmallVec::from_slice(&[0, 0]),
                },
                input: SmallVec::from_slice(&input),
            })
        } else {
            Composite::from(AdaptiveAvgPoolGradient { input })
        };
        b.push(Op::from(op), &[g.into()]).map(|dx| of.first(dx))
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        run_adaptive(self.size, args, shape, dtype)
    }
}

/// Resampling of the last two dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Interpolate {
    /// Result sizes.
    pub size: [usize; 2],
    /// 0 nearest, 1 bilinear, 2 bicubic.
    pub order: u8,
    /// Whether corners map to corners.
    pub align_corners: bool,
}

impl Operator for Interpolate {
    text!("interpolate" { size, order, align_corners });
    facts! { class: Class::Window, light: false, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer_interpolate(self.size, self.order, args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        by_definition(b, of, |b, args| definition::interpolate(self, b, args))
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let Interpolate {
            size,
            order,
            align_corners,
        } = *self;
        run_interpolate(size, order, align_corners, args, shape, dtype)
    }
}

/// The name, by kind and spatial rank.
pub(super) fn name(spec: &PoolSpec) -> &'static str {
    match (spec.kind, spec.kernel.len()) {
        (PoolKind::Max, 1) => "max_pool1d",
        (PoolKind::Max, 2) => "max_pool2d",
        (PoolKind::Max, _) => "max_pool3d",
        (PoolKind::Avg, 1) => "avg_pool1d",
        (PoolKind::Avg, 2) => "avg_pool2d",
        (PoolKind::Avg, _) => "avg_pool3d",
    }
}

/// The axes of a pooling of a shape, the innermost last, behind as many of one element as are left of three.
pub(in crate::ops) fn axes(spec: &PoolSpec, x: &Shape) -> Result<[Axis; 3]> {
    let spatial = spec.kernel.len();
    if !(1..=3).contains(&spatial) || spec.stride.len() != spatial || spec.padding.len() != spatial
    {
        return Err(Error::argument(format!(
            "kernel, stride and padding need one number for each of 1 to 3 spatial dimensions, not \
             {:?}, {:?} and {:?}",
            spec.kernel, spec.stride, spec.padding
        )));
    }
    if x.rank() != spatial + 1 && x.rank() != spatial + 2 {
        return Err(Error::shape(format!(
            "{} takes an input of rank {} or {}, not {x}",
            name(spec),
            spatial + 2,
            spatial + 1
        )));
    }
    let mut axes = [Axis::UNIT; 3];
    for i in 0..spatial {
        let (kernel, stride, padding) = (spec.kernel[i], spec.stride[i], spec.padding[i]);
        let input = x[x.rank() - spatial + i];
        if kernel == 0 || stride == 0 {
            return Err(Error::argument("kernel and stride must be at least 1"));
        }
        if padding > kernel / 2 {
            return Err(Error::argument(format!(
                "a padding of {padding} is more than half the kernel of {kernel}"
            )));
        }
        let padded = input + 2 * padding;
        if kernel > padded {
            return Err(Error::shape(format!(
                "a window of {kernel} is larger than the padded input of {padded}"
            )));
        }
        let output = (padded - kernel) / stride + 1;
        axes[3 - spatial + i] = Axis {
            input,
            output,
            kernel,
            stride,
            padding,
            dilation: 1,
        };
    }
    Ok(axes)
}

pub(super) fn infer(spec: &PoolSpec, args: &[ArgMeta<'_>]) -> Inferred {
    let (x, dtype) = tensor(args, 0)?;
    let axes = axes(spec, x)?;
    if dtype.category() == Category::Bool || (spec.kind == PoolKind::Avg && !dtype.is_float()) {
        let cast = match spec.kind {
            PoolKind::Max => DType::U8,
            PoolKind::Avg => DType::F32,
        };
        return Err(Error::untaken(name(spec), dtype, cast));
    }
    let spatial = spec.kernel.len();
    let lead = x.rank() - spatial;
    let sizes = axes[3 - spatial..].iter().map(|a| a.output);
    Ok((x[..lead].iter().copied().chain(sizes).collect(), dtype))
}

fn last_two(x: &Shape, size: [usize; 2], what: &str) -> Result<Shape> {
    let rank = x.rank();
    if rank != 3 && rank != 4 {
        return Err(Error::shape(format!(
            "{what} takes an input of rank 4 or 3, not {x}"
        )));
    }
    if x[rank - 2..].contains(&0) && !size.contains(&0) {
        return Err(Error::shape(format!(
            "{what} of an input without elements, {x}"
        )));
    }
    let mut dims = x.clone();
    dims.dims_mut()[rank - 2..].copy_from_slice(&size);
    Ok(dims)
}

pub(super) fn infer_adaptive(size: [usize; 2], args: &[ArgMeta<'_>]) -> Inferred {
    let (x, dtype) = tensor(args, 0)?;
    if !dtype.is_float() {
        return Err(Error::untaken("adaptive_avg_pool2d", dtype, DType::F32));
    }
    Ok((last_two(x, size, "adaptive_avg_pool2d")?, dtype))
}

pub(super) fn infer_interpolate(size: [usize; 2], order: u8, args: &[ArgMeta<'_>]) -> Inferred {
    let (x, dtype) = tensor(args, 0)?;
    if order > 2 {
        return Err(Error::argument(format!("interpolation of order {order}")));
    }
    if order > 0 && !dtype.is_float() {
        return Err(Error::dtype(format!(
            "bilinear and bicubic interpolation do not take {dtype}: to_dtype(DType::F32) first"
        )));
    }
    if size.contains(&0) {
        return Err(Error::argument(format!("interpolate to {size:?}")));
    }
    Ok((last_two(x, size, "interpolate")?, dtype))
}

/// The last two sizes.
fn plane(x: &Array) -> [usize; 2] {
    let shape = x.shape();
    [shape[shape.rank() - 2], shape[shape.rank() - 1]]
}

/// The pooling: padding never wins a maximum and counts in a mean; NaN propagates.
///
/// # Errors
/// Out of memory.
pub fn run(spec: &PoolSpec, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    let x = contiguous(array(args, 0)?)?;
    let axes = axes(spec, x.shape())?;
    let mut out = Array::empty(x.buffer.device(), shape.clone(), dtype)?;
    with_type!(dtype, T => pool::<T>(spec.kind, axes, elements(&x)?, elements_mut(&mut out)?));
    Ok(out)
}

/// Means over adaptive windows of the last two dimensions.
///
/// # Errors
/// Out of memory.
pub fn run_adaptive(size: [usize; 2], args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    let x = contiguous(array(args, 0)?)?;
    let mut out = Array::empty(x.buffer.device(), shape.clone(), dtype)?;
    with_floating!("adaptive_avg_pool2d", dtype, T => {
        adaptive::<T>(plane(&x), size, elements(&x)?, elements_mut(&mut out)?)
    });
    Ok(out)
}

/// Resamples the last two dimensions: order 0 is nearest (any dtype), 1 bilinear and 2 bicubic (floats).
///
/// # Errors
/// `DType`: order 1 or 2 of integers. `Argument`: another order. Out of memory.
pub fn run_interpolate(
    size: [usize; 2],
    order: u8,
    align_corners: bool,
    args: &[Arg],
    shape: &Shape,
    dtype: DType,
) -> Result<Array> {
    let x = contiguous(array(args, 0)?)?;
    let input = plane(&x);
    let mut out = Array::empty(x.buffer.device(), shape.clone(), dtype)?;
    if shape.numel() == 0 {
        return Ok(out);
    }
    match order {
        0 => with_type!(dtype, T => {
            nearest::<T>(input, size, elements(&x)?, elements_mut(&mut out)?)
        }),
        1 => with_floating!("bilinear interpolation", dtype, T => {
            bilinear::<T>(input, size, align_corners, elements(&x)?, elements_mut(&mut out)?)
        }),
        2 => with_floating!("bicubic interpolation", dtype, T => {
            bicubic::<T>(input, size, align_corners, elements(&x)?, elements_mut(&mut out)?)
        }),
        _ => return Err(Error::argument(format!("interpolation of order {order}"))),
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::fixture::{flat, index_of, integers, metas, of, read, strided};
    use smallvec::SmallVec;

    fn spec(kind: PoolKind, kernel: &[usize], stride: &[usize], padding: &[usize]) -> PoolSpec {
        PoolSpec {
            kind,
            kernel: SmallVec::from_slice(kernel),
            stride: SmallVec::from_slice(stride),
            padding: SmallVec::from_slice(padding),
        }
    }

    fn apply(spec: &PoolSpec, x: &Array) -> Result<Array> {
        let args = [Arg::Array(x.clone())];
        let (shape, dtype) = infer(spec, &metas(&args))?;
        let out = run(spec, &args, &shape, dtype)?;
        assert_eq!((out.shape(), out.dtype), (&shape, dtype));
        Ok(out)
    }

    fn reference(spec: &PoolSpec, dims: &[usize], x: &[f64], out: &[usize]) -> Vec<f64> {
        let (spatial, lead) = (spec.kernel.len(), dims.len() - spec.kernel.len());
        let taps: usize = spec.kernel.iter().product();
        (0..out.iter().product())
            .map(|at| {
                let index = index_of(at, out);
                let mut values = Vec::new();
                for t in 0..taps {
                    let tap = index_of(t, &spec.kernel);
                    let mut from = index[..lead].to_vec();
                    for d in 0..spatial {
                        let p = index[lead + d] * spec.stride[d] + tap[d];
                        if p >= spec.padding[d] && p - spec.padding[d] < dims[lead + d] {
                            from.push(p - spec.padding[d]);
                        }
                    }
                    if from.len() == dims.len() {
                        values.push(x[flat(&from, dims)]);
                    }
                }
                match spec.kind {
                    PoolKind::Max => values.into_iter().fold(f64::NEG_INFINITY, f64::max),
                    PoolKind::Avg => values.iter().sum::<f64>() / taps as f64,
                }
            })
            .collect()
    }

    #[test]
    fn windows_of_every_dtype() {
        for dtype in DType::ALL.into_iter().filter(|&d| d != DType::Bool) {
            let low = if dtype == DType::U8 { 0 } else { -8 };
            for kind in [PoolKind::Max, PoolKind::Avg] {
                for (dims, spec) in [
                    (vec![2, 3, 7, 9], spec(kind, &[3, 2], &[2, 1], &[1, 1])),
                    (vec![2, 7, 9], spec(kind, &[2, 4], &[3, 2], &[0, 2])),
                    (vec![2, 3, 11], spec(kind, &[4], &[4], &[2])),
                    (
                        vec![1, 2, 4, 5, 6],
                        spec(kind, &[2, 2, 2], &[1, 2, 2], &[1, 0, 1]),
                    ),
                ] {
                    let x = integers(dims.iter().product(), 1, low, 8);
                    let got = apply(&spec, &strided(dtype, &dims, &x));
                    if kind == PoolKind::Avg && !dtype.is_float() {
                        assert!(got.is_err());
                        continue;
                    }
                    let got = got.expect("pooled");
                    let want = reference(&spec, &dims, &x, got.shape());
                    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 4e-3 * b.abs();
                    assert!(read(&got).iter().zip(&want).all(near), "{spec:?} {dtype}");
                }
            }
        }
    }

    #[test]
    fn nan_wins_and_padding_does_not() {
        let x = of(DType::F32, &[1, 4], &[-5.0, f64::NAN, -7.0, -8.0]);
        let got = read(&apply(&spec(PoolKind::Max, &[2], &[1], &[1]), &x).expect("pooled"));
        assert!(got[0] == -5.0 && got[1].is_nan() && got[2].is_nan());
        assert_eq!(got[3..], [-7.0, -8.0]);
        let empty = of(DType::F32, &[0, 2, 4], &[]);
        let shape = apply(&spec(PoolKind::Avg, &[2], &[2], &[0]), &empty)
            .expect("pooled")
            .shape()
            .clone();
        assert_eq!(shape, Shape::from([0, 2, 2]));
    }

    #[test]
    fn adaptive_windows_overlap() {
        let x = integers(2 * 5 * 7, 1, 0, 9);
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            for size in [[1, 1], [3, 4], [5, 7], [8, 2]] {
                let args = [Arg::Array(strided(dtype, &[2, 5, 7], &x))];
                let (shape, dtype) = infer_adaptive(size, &metas(&args)).expect("a shape");
                let got = run_adaptive(size, &args, &shape, dtype).expect("pooled");
                for (at, got) in read(&got).into_iter().enumerate() {
                    let i = index_of(at, &[2, size[0], size[1]]);
                    let window =
                        |i: usize, n: usize, m: usize| i * n / m..((i + 1) * n).div_ceil(m);
                    let (rows, columns) = (window(i[1], 5, size[0]), window(i[2], 7, size[1]));
                    let n = rows.len() * columns.len();
                    let columns = &columns;
                    let sum: f64 = rows
                        .flat_map(|r| columns.clone().map(move |c| (r, c)))
                        .map(|(r, c)| x[(i[0] * 5 + r) * 7 + c])
                        .sum();
                    assert!((got - sum / n as f64).abs() < 4e-2, "{dtype} {size:?}");
                }
            }
        }
        assert!(
            infer_adaptive(
                [1, 1],
                &[ArgMeta::Tensor(&Shape::from([1, 1, 1]), DType::I32)]
            )
            .is_err()
        );
        assert!(infer_adaptive([1, 1], &[ArgMeta::Tensor(&Shape::from([1]), DType::F32)]).is_err());
    }

    fn resampled(size: [usize; 2], order: u8, align: bool, x: &Array) -> Result<Vec<f64>> {
        let args = [Arg::Array(x.clone())];
        let (shape, dtype) = infer_interpolate(size, order, &metas(&args))?;
        Ok(read(&run_interpolate(
            size, order, align, &args, &shape, dtype,
        )?))
    }

    #[test]
    fn resampling_by_hand() {
        let x = of(DType::F32, &[1, 1, 1, 2], &[0.0, 1.0]);
        let row = |order, align, n| resampled([1, n], order, align, &x).expect("resampled");
        assert_eq!(row(0, false, 4), [0.0, 0.0, 1.0, 1.0]);
        assert_eq!(row(0, false, 3), [0.0, 0.0, 1.0]);
        assert_eq!(row(1, false, 4), [0.0, 0.25, 0.75, 1.0]);
        assert_eq!(row(1, true, 3), [0.0, 0.5, 1.0]);
        assert_eq!(row(1, true, 1), [0.0]);
        // PyTorch: the border repeats, and A is −0.75.
        let cubic = row(2, false, 4);
        let want = [-0.10546875, 0.2265625, 0.7734375, 1.10546875];
        assert!(
            cubic.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-6),
            "{cubic:?}"
        );
        assert_eq!(row(2, true, 3)[1], 0.5);
    }

    #[test]
    fn resampling_reproduces_what_it_should() {
        let plane: Vec<f64> = (0..5 * 6)
            .map(|i| (i / 6) as f64 * 3.0 + (i % 6) as f64)
            .collect();
        for dtype in [DType::F32, DType::F64, DType::F16, DType::BF16] {
            let x = strided(dtype, &[1, 5, 6], &plane);
            for order in 0..3 {
                assert_eq!(
                    resampled([5, 6], order, false, &x).expect("the same"),
                    plane
                );
                assert_eq!(resampled([5, 6], order, true, &x).expect("the same"), plane);
            }
            // A linear function stays linear between aligned corners.
            let got = resampled([9, 11], 1, true, &x).expect("resampled");
            for (at, got) in got.iter().enumerate() {
                let want = (at / 11) as f64 * 1.5 + (at % 11) as f64 * 0.5;
                assert!((got - want).abs() < 0.1, "{dtype}");
            }
        }
        let ints = of(DType::I16, &[1, 1, 2], &[7.0, -9.0]);
        assert_eq!(
            resampled([2, 2], 0, false, &ints).expect("nearest"),
            [7.0, -9.0, 7.0, -9.0]
        );
        assert!(resampled([2, 2], 1, false, &ints).is_err());
        assert!(resampled([2, 0], 0, false, &ints).is_err());
        assert!(resampled([2, 2], 3, false, &of(DType::F32, &[1, 1, 1], &[1.0])).is_err());
    }

    #[test]
    fn misfits_are_errors() {
        let x = of(DType::F32, &[1, 4], &[0.0; 4]);
        let refused = |kernel, stride, padding| {
            apply(&spec(PoolKind::Max, &[kernel], &[stride], &[padding]), &x).is_err()
        };
        assert!(refused(3, 1, 2));
        assert!(refused(5, 1, 0));
        assert!(refused(2, 0, 0));
        assert!(refused(0, 1, 0));
        assert!(!refused(4, 1, 2));
        assert!(apply(&spec(PoolKind::Max, &[2, 2], &[1, 1], &[0, 0]), &x).is_err());
        let bools = of(DType::Bool, &[1, 4], &[0.0; 4]);
        assert!(apply(&spec(PoolKind::Max, &[2], &[1], &[0]), &bools).is_err());
    }
}
