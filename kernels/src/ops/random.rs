//! Random numbers by counter.

use crate::arg::{Arg, scalar};
use crate::op::operator::{Inferred, Operator, facts, no_gradient};
use crate::text::{Line, Named};
use crate::{ArgMeta, Array, Class};
use ferrotrace_runtime::{DType, Device, Result, Shape};

/// A random distribution, drawn from Philox-4x32-10 by (key, offset + element index).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// Uniform in [0, 1).
    Uniform,
    /// Standard normal.
    Normal,
    /// Uniform integers in [lo, hi): operands lo, hi.
    Int,
    /// 1 with probability p, else 0: operand p.
    Bernoulli,
    /// Uniform 63-bit integers: sort keys of a permutation.
    Bits,
}

const DISTRIBUTIONS: [Distribution; 5] = [
    Distribution::Uniform,
    Distribution::Normal,
    Distribution::Int,
    Distribution::Bernoulli,
    Distribution::Bits,
];

/// Random numbers: number operands key, offset, then the distribution's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Random {
    /// The distribution.
    pub dist: Distribution,
    /// The shape.
    pub shape: Shape,
    /// The dtype.
    pub dtype: DType,
}

impl Operator for Random {
    fn name(&self) -> &'static str {
        name(self.dist)
    }

    fn attributes(&self) -> Vec<Named> {
        Vec::new()
    }

    fn read(name: &str, line: &Line<'_>) -> Result<Option<Random>> {
        let mut named = DISTRIBUTIONS.into_iter();
        let dist = named.find(|&dist| self::name(dist) == name);
        Ok(dist.map(|dist| Random {
            dist,
            shape: line.shape.clone(),
            dtype: line.dtype,
        }))
    }

    facts! { class: Class::Random, light: false, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, _: &[ArgMeta<'_>]) -> Inferred {
        Ok((self.shape.clone(), self.dtype))
    }

    no_gradient!();

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        run(self.dist, args, shape, dtype)
    }
}

/// The distribution's name.
pub fn name(dist: Distribution) -> &'static str {
    match dist {
        Distribution::Uniform => "rand",
        Distribution::Normal => "randn",
        Distribution::Int => "randint",
        Distribution::Bernoulli => "bernoulli",
        Distribution::Bits => "random_bits",
    }
}

/// Draws random numbers on the CPU: operands key, offset, then low and high (`Int`) or p (`Bernoulli`).
///
/// # Errors
/// Out of memory; a tensor where a number is needed.
pub fn run(dist: Distribution, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    use crate::cpu::random::{Draw, bernoulli, bits, integers, normal, uniform};
    let (key, offset) = (
        scalar(args, 0)?.to_i64() as u64,
        scalar(args, 1)?.to_i64() as u64,
    );
    let draw = Draw {
        key,
        offset,
        device: &Device::cpu(),
        shape,
        dtype,
    };
    match dist {
        Distribution::Uniform => uniform(&draw),
        Distribution::Normal => normal(&draw),
        Distribution::Int => integers(&draw, scalar(args, 2)?.to_i64(), scalar(args, 3)?.to_i64()),
        Distribution::Bernoulli => bernoulli(&draw, scalar(args, 2)?.to_f64()),
        Distribution::Bits => bits(&draw),
    }
}
