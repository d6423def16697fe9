//! Hashes of operations and forms.

use crate::backend::Precision;
use ferrotrace_kernels::{ArgMeta, Op};
use ferrotrace_runtime::{DType, Shape};
use std::hash::{Hash, Hasher};

/// A fast hash of small integers: multiply and fold. Not for adversaries; equality is checked beside it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mix(u64);

impl Mix {
    /// Mixes one word into the hash.
    #[inline]
    pub fn word(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = (product as u64) ^ ((product >> 64) as u64).rotate_left(17);
    }
}

impl Hasher for Mix {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u8(&mut self, n: u8) {
        self.word(n as u64);
    }

    #[inline]
    fn write_u32(&mut self, n: u32) {
        self.word(n as u64);
    }

    #[inline]
    fn write_u64(&mut self, n: u64) {
        self.word(n);
    }

    #[inline]
    fn write_usize(&mut self, n: usize) {
        self.word(n as u64);
    }

    #[inline]
    fn write_isize(&mut self, n: isize) {
        self.word(n as u64);
    }
}

/// The kinds of operands as one number: category of a number, or a tensor.
pub(crate) fn operand_kinds(args: &[ArgMeta<'_>]) -> u64 {
    args.iter().fold(1, |code: u64, arg| {
        let kind = match arg {
            ArgMeta::Tensor(..) => 4,
            ArgMeta::Scalar(scalar) => scalar.category() as u64,
        };
        code.wrapping_mul(5) + kind
    })
}

/// The part of a node's hash that does not depend on what its operands are: known when it is recorded.
#[inline]
pub(crate) fn node_hash(
    op: &Op,
    precision: Precision,
    dtype: DType,
    shape: &Shape,
    kinds: u64,
) -> u64 {
    let mut mix = Mix::default();
    op.hash(&mut mix);
    mix.word(kinds << 16 | (dtype as u64) << 8 | precision as u64);
    for &size in shape.iter() {
        mix.word(size as u64);
    }
    mix.finish()
}
