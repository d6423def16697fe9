//! Random tensors from a generator of one's own.

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
