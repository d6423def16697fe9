//! Random numbers by counter: names, and the ready-made kernels.

use crate::eager::{Arg, scalar};
use crate::{Array, Distribution};
use ferrotrace_runtime::{DType, Device, Result, Shape};

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
