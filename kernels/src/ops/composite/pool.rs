//! The gradients of pooling, as operators.

mod definition;

use super::{Definition, derived, run_definition};
use crate::arg::{Arg, array};
use crate::copy::{cast, contiguous};
use crate::cpu::dense::{elements, elements_mut};
use crate::cpu::number::Wide;
use crate::cpu::pool_gradient::{Windows, parts, shares};
use crate::op::gradient::{full, wide};
use crate::op::operator::{Inferred, Operator, facts, form, text};
use crate::ops::composite::build::value;
use crate::ops::pool::{PoolSpec, axes};
use crate::ops::tensor;
use crate::text::{Line, Named};
use crate::{ArgMeta, Array, Class, OpBuilder, Operand, PoolKind, Sizes, ValueId};
use definition::{of_adaptive_means, of_maxima, of_means};
use ferrotrace_runtime::{DType, Element, Error, Result, Shape};
use smallvec::SmallVec;

/// The gradient of a pooling's input, in the dtype of its arithmetic: operands the result's gradient and, of maxima, the
/// input. Programs do not record it; the gradient of a pooling does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolGradient {
    /// The pooling.
    pub spec: PoolSpec,
    /// The spatial sizes of its input.
    pub input: SmallVec<[usize; 3]>,
}

impl Operator for PoolGradient {
    fn name(&self) -> &'static str {
        match (self.spec.kind, self.input.len()) {
            (PoolKind::Max, 1) => "max_pool1d_gradient",
            (PoolKind::Max, 2) => "max_pool2d_gradient",
            (PoolKind::Max, _) => "max_pool3d_gradient",
            (PoolKind::Avg, 1) => "avg_pool1d_gradient",
            (PoolKind::Avg, 2) => "avg_pool2d_gradient",
            (PoolKind::Avg, _) => "avg_pool3d_gradient",
        }
    }

    fn attributes(&self) -> Vec<Named> {
        let mut all = self.spec.attributes();
        all.push(("input", form!(write self.input)));
        all
    }

    fn read(name: &str, line: &Line<'_>) -> Result<Option<PoolGradient>> {
        let Some(pool) = name.strip_suffix("_gradient") else {
            return Ok(None);
        };
        let Some(spec) = PoolSpec::read(pool, line)? else {
            return Ok(None);
        };
        let input = line.value("input")?;
        Ok(Some(PoolGradient { spec, input }))
    }

    fn class(&self) -> Class {
        Class::Window
    }

    fn is_light(&self) -> bool {
        false
    }

    fn jumps(&self, operand: usize) -> bool {
        operand == 1
    }

    fn work(&self, of: &Sizes<'_>) -> u64 {
        of.numel(0) * self.spec.kernel.iter().product::<usize>() as u64 + of.result()
    }

    derived!();

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let (g, dtype) = tensor(args, 0)?;
        let spatial = self.spec.kernel.len();
        let (input, rank) = (&self.input[..], g.rank());
        if input.len() != spatial || rank < spatial {
            return Err(Error::shape(format!(
                "no result of pooling {input:?}: {dtype}{g}"
            )));
        }
        let (lead, output) = g.split_at(rank - spatial);
        let shape: Shape = lead.iter().chain(input).copied().collect();
        let sizes = axes(&self.spec, &shape)?.map(|axis| axis.output);
        let mut fits = sizes[3 - spatial..] == *output && dtype.is_float();
        if self.spec.kind == PoolKind::Max {
            fits &= *tensor(args, 1)?.0 == shape;
        }
        match fits {
            true => Ok((shape, dtype.compute())),
            false => Err(Error::shape(format!(
                "no result of pooling {shape}: {dtype}{g}"
            ))),
        }
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        if shape.numel() == 0 || array(args, 0)?.shape().numel() == 0 {
            return run_definition(self, args, shape, dtype);
        }
        match dtype {
            DType::F64 => self.by_windows::<f64>(args, shape),
            _ => self.by_windows::<f32>(args, shape),
        }
    }
}

impl PoolGradient {
    /// The gradient by the ready-made kernel.
    fn by_windows<T: Element + Wide<Total = f64>>(
        &self,
        args: &[Arg],
        shape: &Shape,
    ) -> Result<Array> {
        let windows = Windows::of(axes(&self.spec, shape)?);
        let g = dense(args, 0, T::DTYPE)?;
        let mut out = Array::empty(g.buffer.device(), shape.clone(), T::DTYPE)?;
        let dx = elements_mut(&mut out)?;
        match self.spec.kind {
            PoolKind::Max => {
                let x = dense(args, 1, T::DTYPE)?;
                shares::<T>(&windows, elements(&g)?, elements(&x)?, dx);
            }
            PoolKind::Avg => {
                let taps = self.spec.kernel.iter().product();
                parts::<T>(&windows, Some(taps), elements(&g)?, dx);
            }
        }
        Ok(out)
    }
}

impl Definition for PoolGradient {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        let g = value(args, 0)?;
        let g = wide(b, g)?;
        let (output, dtype) = (b.shape(g).clone(), b.dtype(g));
        let lead = output.rank() - self.input.len();
        let from: Shape = output[..lead].iter().chain(&self.input).copied().collect();
        if from.numel() == 0 || output.numel() == 0 {
            return full(b, &from, 0.0, dtype);
        }
        match self.spec.kind {
            PoolKind::Avg => of_means(&self.spec, b, g, &from),
            PoolKind::Max => of_maxima(&self.spec, b, g, value(args, 1)?),
        }
    }
}

/// The gradient of the input of means over adaptive windows, in the dtype of their arithmetic: operand the result's.
/// Programs do not record it; the gradient of the means does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AdaptiveAvgPoolGradient {
    /// The sizes of the last two dimensions of the input.
    pub input: [usize; 2],
}

impl Operator for AdaptiveAvgPoolGradient {
    text!("adaptive_avg_pool2d_gradient" { input });
    facts! { class: Class::Window, light: false, jumps: false, work: |_, of| of.elements() + of.result() }
    derived!();

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let (g, dtype) = tensor(args, 0)?;
        if !(3..=4).contains(&g.rank()) || !dtype.is_float() {
            return Err(Error::shape(format!(
                "no result of adaptive means: {dtype}{g}"
            )));
        }
        let lead = g.rank() - 2;
        Ok((
            g[..lead].iter().chain(&self.input).copied().collect(),
            dtype.compute(),
        ))
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let output = array(args, 0)?.shape();
        if shape.numel() == 0 || output.numel() == 0 {
            return run_definition(self, args, shape, dtype);
        }
        let lead = output.rank() - 2;
        let windows = Windows::adaptive(self.input, [output[lead], output[lead + 1]]);
        let g = dense(args, 0, dtype)?;
        let mut out = Array::empty(g.buffer.device(), shape.clone(), dtype)?;
        match dtype {
            DType::F64 => parts::<f64>(&windows, None, elements(&g)?, elements_mut(&mut out)?),
            _ => parts::<f32>(&windows, None, elements(&g)?, elements_mut(&mut out)?),
        }
        Ok(out)
    }
}

impl Definition for AdaptiveAvgPoolGradient {
    fn define(&self, b: &mut dyn OpBuilder, args: &[Operand]) -> Result<ValueId> {
        let g = value(args, 0)?;
        let g = wide(b, g)?;
        of_adaptive_means(self.input, b, g)
    }

    fn has_kernel(&self) -> bool {
        true
    }
}

/// Operand `i`, dense and of a dtype.
fn dense(args: &[Arg], i: usize, dtype: DType) -> Result<Array> {
    contiguous(&cast(array(args, i)?, dtype)?)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use crate::Composite;
    use ferrotrace_runtime::DType::*;
    use std::ops::Range;
    use std::slice;

    type Sizes<'a> = &'a [usize];

    /// The elements of each window along a dimension, and of the padding before them.
    fn along(input: usize, [kernel, stride, padding]: [usize; 3]) -> Vec<Vec<usize>> {
        let outputs = (input + 2 * padding - kernel) / stride + 1;
        let inside = |o: usize| {
            let taps = o * stride..o * stride + kernel;
            taps.filter(|&at| at >= padding && at < input + padding)
                .map(|at| at - padding)
                .collect()
        };
        (0..outputs).map(inside).collect()
    }

    /// The gradient by the places of each window of a plane: `share` says what each of them gets.
    fn reference(
        windows: &[Vec<Vec<usize>>; 3],
        input: [usize; 3],
        share: impl Fn(usize, &[usize]) -> Vec<(usize, f64)>,
    ) -> Vec<f64> {
        let mut dx = vec![0.0; input.iter().product()];
        let mut i = 0;
        for d in &windows[0] {
            for h in &windows[1] {
                for w in &windows[2] {
                    let mut places = Vec::new();
                    for &d in d {
                        for &h in h {
                            places.extend(w.iter().map(|&w| (d * input[1] + h) * input[2] + w));
                        }
                    }
                    for (place, part) in share(i, &places) {
                        dx[place] += part;
                    }
                    i += 1;
                }
            }
        }
        dx
    }

    /// Both ready-made forms: the kernel, and the definition operator by operator.
    fn both(op: impl Into<Composite>, args: &[Arg], dims: Sizes<'_>, dtype: DType, want: &[f64]) {
        let op = op.into();
        check(op.clone(), args, dims, dtype, want);
        let (shape, dtype) = (Shape::new(dims), dtype);
        let defined = run_definition(op.entry(), args, &shape, dtype).expect("the definition");
        assert_close(&defined, dims, dtype, want);
    }

    #[test]
    fn gradients_by_window() {
        let cases: [(Sizes<'_>, Sizes<'_>, Sizes<'_>, Sizes<'_>); 8] = [
            (&[8, 8], &[2, 2], &[2, 2], &[0, 0]),
            (&[7, 9], &[3, 2], &[2, 1], &[1, 1]),
            (&[7, 9], &[2, 4], &[3, 2], &[0, 2]),
            (&[5, 5], &[1, 1], &[2, 3], &[0, 0]),
            (&[15, 14], &[13, 13], &[1, 1], &[6, 6]),
            (&[11], &[4], &[3], &[2]),
            (&[6, 5], &[6, 5], &[6, 5], &[0, 0]),
            (&[4, 5, 6], &[2, 3, 2], &[1, 2, 2], &[1, 0, 1]),
        ];
        for (seed, (input, kernel, stride, padding)) in cases.into_iter().enumerate() {
            let three = |of: Sizes<'_>, fill: usize| {
                let mut all = [fill; 3];
                all[3 - of.len()..].copy_from_slice(of);
                all
            };
            let (sizes, kernels) = (three(input, 1), three(kernel, 1));
            let (strides, paddings) = (three(stride, 1), three(padding, 0));
            let windows = [0, 1, 2].map(|d| along(sizes[d], [kernels[d], strides[d], paddings[d]]));
            let outputs: usize = windows.iter().map(Vec::len).product();
            let g = sample(2 * outputs, seed as u64);
            let mut x = sample(2 * sizes.iter().product::<usize>(), 9 + seed as u64);
            let plane = x.len() / 2;
            x[plane] = f64::NAN;
            x[..plane / 2].fill(f64::NEG_INFINITY);
            let spatial = windows[3 - input.len()..].iter().map(Vec::len);
            let output: Vec<usize> = [2].into_iter().chain(spatial).collect();
            let dims = [&[2], input].concat();
            let taps: usize = kernel.iter().product();
            let of = |kind| PoolGradient {
                spec: PoolSpec {
                    kind,
                    kernel: SmallVec::from_slice(kernel),
                    stride: SmallVec::from_slice(stride),
                    padding: SmallVec::from_slice(padding),
                },
                input: SmallVec::from_slice(input),
            };
            let (mut means, mut maxima) = (Vec::new(), Vec::new());
            for p in 0..2 {
                let (g, x) = (&g[p * outputs..], &x[p * plane..]);
                means.extend(reference(&windows, sizes, |i, places| {
                    let part = |&place: &usize| (place, g[i] / taps as f64);
                    places.iter().map(part).collect()
                }));
                maxima.extend(reference(&windows, sizes, |i, places| {
                    let more = |a: f64, b: f64| a > b || a.is_nan() && !b.is_nan();
                    let first = places.iter().copied().reduce(|best, place| {
                        if more(x[place], x[best]) { place } else { best }
                    });
                    vec![(first.expect("an element"), g[i])]
                }));
            }
            for dtype in FLOATS {
                let wide = dtype.compute();
                let (g, x) = (t(&output, dtype, &g), t(&dims, dtype, &x));
                both(of(PoolKind::Avg), slice::from_ref(&g), &dims, wide, &means);
                both(of(PoolKind::Max), &[g, x], &dims, wide, &maxima);
            }
        }
    }

    #[test]
    fn gradients_by_adaptive_window() {
        let range =
            |i: usize, n: usize, m: usize| -> Range<usize> { i * n / m..((i + 1) * n).div_ceil(m) };
        for (input, output) in [
            ([5, 7], [3, 4]),
            ([7, 7], [1, 1]),
            ([2, 3], [5, 8]),
            ([14, 13], [7, 7]),
        ] {
            let list = |d: usize| -> Vec<Vec<usize>> {
                (0..output[d])
                    .map(|i| range(i, input[d], output[d]).collect())
                    .collect()
            };
            let windows = [vec![vec![0]], list(0), list(1)];
            let g = sample(output[0] * output[1], 3);
            let want = reference(&windows, [1, input[0], input[1]], |i, places| {
                let part = |&place: &usize| (place, g[i] / places.len() as f64);
                places.iter().map(part).collect()
            });
            for dtype in FLOATS {
                let op = AdaptiveAvgPoolGradient { input };
                let g = t(&[1, output[0], output[1]], dtype, &g);
                let dims = [1, input[0], input[1]];
                both(op, &[g], &dims, dtype.compute(), &want);
            }
        }
    }

    #[test]
    fn gradients_of_nothing_and_misfits() {
        let of = |kind, input: Sizes<'_>| {
            Composite::from(PoolGradient {
                spec: PoolSpec {
                    kind,
                    kernel: SmallVec::from_slice(&[2, 2]),
                    stride: SmallVec::from_slice(&[2, 2]),
                    padding: SmallVec::from_slice(&[0, 0]),
                },
                input: SmallVec::from_slice(input),
            })
        };
        let none = t(&[0, 2, 2], F32, &[]);
        check(
            of(PoolKind::Avg, &[4, 4]),
            slice::from_ref(&none),
            &[0, 4, 4],
            F32,
            &[],
        );
        let x = t(&[0, 4, 4], F32, &[]);
        check(
            of(PoolKind::Max, &[4, 4]),
            &[none, x.clone()],
            &[0, 4, 4],
            F32,
            &[],
        );
        let adaptive = Composite::from(AdaptiveAvgPoolGradient { input: [3, 3] });
        check(
            adaptive.clone(),
            &[t(&[1, 0, 2], F32, &[])],
            &[1, 3, 3],
            F32,
            &[0.0; 9],
        );
        let refused = |op: &Composite, args: &[Arg]| {
            let metas: Vec<_> = args.iter().map(Arg::meta).collect();
            op.entry().infer(&metas).expect_err("a misfit");
        };
        let g = t(&[1, 2, 2], F32, &[0.0; 4]);
        refused(&of(PoolKind::Avg, &[6, 4]), slice::from_ref(&g));
        refused(&of(PoolKind::Avg, &[4]), slice::from_ref(&g));
        refused(&of(PoolKind::Avg, &[4; 4]), &[t(&[1; 5], F32, &[0.0])]);
        refused(&of(PoolKind::Avg, &[4, 4]), &[t(&[4], F32, &[0.0; 4])]);
        refused(
            &of(PoolKind::Avg, &[4, 4]),
            &[t(&[1, 2, 2], I32, &[0.0; 4])],
        );
        refused(&of(PoolKind::Max, &[4, 4]), &[g.clone(), x]);
        refused(&of(PoolKind::Max, &[4, 4]), &[g]);
        refused(&adaptive, &[t(&[2, 2], F32, &[0.0; 4])]);
    }
}
