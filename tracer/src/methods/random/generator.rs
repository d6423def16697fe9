//! Random tensors from a generator of one's own.

use super::super::attempt;
use crate::generator::Generator;
use crate::node::Draw;
use crate::{Input, Tensor, trace};
use ferrotrace_kernels::op::{ArgSort, Random};
use ferrotrace_kernels::{Distribution, Op};
use ferrotrace_runtime::{DType, Device, Error, Result, Scalar, Shape};
use smallvec::SmallVec;

impl Generator {
    /// Key and offset for an operation that makes `numel` random numbers, as its operands. `numel` is the size of the
    /// operation's result: a replayed `jit` function takes as many for each operation.
    pub(crate) fn take(&self, numel: usize) -> [Input<'static>; 2] {
        let (key, offset) = self.advance(numel);
        let index = trace::record_draw(self, numel, (key, offset));
        [
            Input::Draw(Draw {
                value: key,
                index,
                offset: false,
            }),
            Input::Draw(Draw {
                value: offset,
                index,
                offset: true,
            }),
        ]
    }

    #[track_caller]
    fn draw(
        &self,
        dist: Distribution,
        shape: Shape,
        dtype: DType,
        device: &Device,
        arguments: &[Scalar],
    ) -> Tensor {
        let mut inputs: SmallVec<[Input<'_>; 4]> = self.take(shape.numel()).into_iter().collect();
        inputs.extend(arguments.iter().copied().map(Input::Scalar));
        Tensor::record_on(device, Op::Random(Random { dist, shape, dtype }), &inputs)
    }

    /// Numbers uniform in [0, 1), of a floating-point dtype.
    #[track_caller]
    pub fn rand(&self, shape: impl Into<Shape>, dtype: DType, device: &Device) -> Tensor {
        match check_float(dtype) {
            Ok(()) => self.draw(Distribution::Uniform, shape.into(), dtype, device, &[]),
            Err(error) => Tensor::failed("rand", error, &[]),
        }
    }

    /// Standard normal numbers, of a floating-point dtype.
    #[track_caller]
    pub fn randn(&self, shape: impl Into<Shape>, dtype: DType, device: &Device) -> Tensor {
        match check_float(dtype) {
            Ok(()) => self.draw(Distribution::Normal, shape.into(), dtype, device, &[]),
            Err(error) => Tensor::failed("randn", error, &[]),
        }
    }

    /// Integers uniform in `lo..hi`, which `dtype` has to hold.
    #[track_caller]
    pub fn randint(
        &self,
        lo: i64,
        hi: i64,
        shape: impl Into<Shape>,
        dtype: DType,
        device: &Device,
    ) -> Tensor {
        if lo >= hi {
            let error = Error::argument(format!("there is no integer in {lo}..{hi}"));
            return Tensor::failed("randint", error, &[]);
        }
        let fits = |number: i64| match dtype.int_range() {
            Some((low, high)) => (low..=high).contains(&number),
            None if dtype == DType::Bool => (0..=1).contains(&number),
            None => Scalar::Int(number).fits(dtype),
        };
        if let Some(number) = [lo, hi - 1].into_iter().find(|&number| !fits(number)) {
            let error = Error::argument(format!("{number} does not fit {dtype}"));
            return Tensor::failed("randint", error, &[]);
        }
        let range = [Scalar::Int(lo), Scalar::Int(hi)];
        self.draw(Distribution::Int, shape.into(), dtype, device, &range)
    }

    /// 1 with probability `p`, else 0.
    #[track_caller]
    pub fn bernoulli(
        &self,
        p: f64,
        shape: impl Into<Shape>,
        dtype: DType,
        device: &Device,
    ) -> Tensor {
        if !(0.0..=1.0).contains(&p) {
            let error = Error::argument(format!("{p} is no probability"));
            return Tensor::failed("bernoulli", error, &[]);
        }
        self.draw(
            Distribution::Bernoulli,
            shape.into(),
            dtype,
            device,
            &[Scalar::Float(p)],
        )
    }

    /// The integers `0..n` in random order, as `I64`.
    #[track_caller]
    pub fn randperm(&self, n: usize, device: &Device) -> Tensor {
        let keys = self.draw(Distribution::Bits, Shape::from(n), DType::I64, device, &[]);
        Tensor::record(
            Op::ArgSort(ArgSort {
                dim: 0,
                descending: false,
            }),
            &[Input::Tensor(&keys)],
        )
    }

    /// Positions drawn in proportion to weights: [`Tensor::multinomial`].
    #[track_caller]
    pub fn multinomial(&self, weights: &Tensor, n: usize, replacement: bool) -> Tensor {
        let drawn = self.positions(weights, n, replacement);
        attempt!("multinomial", drawn, weights).called("multinomial", &[weights])
    }

    #[track_caller]
    fn positions(&self, weights: &Tensor, n: usize, replacement: bool) -> Result<Tensor> {
        weights.check()?;
        let (mut shape, device) = (weights.shape().clone(), weights.device());
        if !weights.dtype().is_float() {
            return Err(Error::untaken("multinomial", weights.dtype(), DType::F32));
        }
        if !(1..=2).contains(&shape.rank()) {
            let why = format!("weights are a vector or a matrix, not {shape}");
            return Err(Error::shape(why));
        }
        let m = shape[shape.rank() - 1];
        if n == 0 || m == 0 || n > m && !replacement {
            let how = if replacement {
                ""
            } else {
                " without replacement"
            };
            return Err(Error::argument(format!("{n} of {m} positions{how}")));
        }
        let _trace = trace::follow(weights.node());
        let weights = weights.detach().to_dtype(DType::F64);
        if replacement {
            // The inverse of the distribution function. A number below 1 times the total is below the total.
            let sums = weights.cumsum(-1);
            let total = sums.narrow(-1, m as isize - 1, 1);
            let last = shape.rank() - 1;
            shape.dims_mut()[last] = n;
            let drawn = self.rand(shape, DType::F64, &device) * total;
            return Ok(sums.searchsorted(&drawn, true).minimum(m as i64 - 1));
        }
        // The first of exponential clocks that run at these rates. What has no weight comes last.
        let clock = (-self.rand(shape, DType::F64, &device)).log1p().neg();
        let rate = weights.gt(0).where_cond(&(&weights / clock), -1.0);
        Ok(rate.topk(n, -1, true).1)
    }
}

fn check_float(dtype: DType) -> Result<()> {
    if dtype.is_float() {
        return Ok(());
    }
    Err(Error::dtype(format!(
        "random floating-point numbers have no form as {dtype}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_checked() {
        let (g, cpu) = (Generator::new(7), Device::cpu());
        for bad in [
            g.rand(3, DType::I64, &cpu),
            g.randn(3, DType::Bool, &cpu),
            g.randint(3, 3, 2, DType::I64, &cpu),
            g.bernoulli(f64::NAN, 2, DType::F32, &cpu),
        ] {
            assert!(
                bad.error()
                    .is_some_and(|e| e.to_string().contains("generator.rs"))
            );
        }
    }
}
