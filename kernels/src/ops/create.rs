//! Arrays made from numbers.

use crate::cpu::create::{arange, full, iota};
use crate::eager::{Arg, scalar};
use crate::{Array, Op};
use ferrotrace_runtime::{Device, Error, Result};

/// Runs `Op::Full`, `Op::Arange` or `Op::Iota` on the CPU.
///
/// # Errors
/// Out of memory; a tensor where a number is needed.
pub fn run(op: &Op, args: &[Arg]) -> Result<Array> {
    let device = Device::cpu();
    match op {
        Op::Full { shape, dtype } => full(&device, shape, scalar(args, 0)?, *dtype),
        Op::Arange { len, dtype } => {
            arange(&device, *len, scalar(args, 0)?, scalar(args, 1)?, *dtype)
        }
        Op::Iota { shape, dim } => iota(&device, shape, *dim),
        other => Err(Error::internal(format!("{} makes no array", other.name()))),
    }
}
