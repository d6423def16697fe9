//! Matrix products and what surrounds them.

use super::Generator;
use crate::common::track::{Track, epsilon};
use ferrotrace_kernels::{Op, ValueId};
use ferrotrace_runtime::DType;

impl Generator<'_> {
    /// A product of a known value, on either side, and a new operand: batches that broadcast, transposed and strided
    /// operands, sums of nothing; then pointwise operations, most of which take it up.
    pub(super) fn product(&mut self) {
        let x = self.any();
        let (mut shape, dtype) = (self.shape_of(x), self.dtype_of(x));
        let t = self.track(x);
        if shape.rank() < 2 || !matches!(dtype, DType::F32 | DType::F64) || t.bound > 100.0 {
            return;
        }
        let mut x = x;
        if self.rng.chance(25) {
            let mut order: Vec<u8> = (0..shape.rank() as u8).collect();
            order.swap(shape.rank() - 1, shape.rank() - 2);
            self.push(Op::Permute(order.into()), &[x.into()], Some(t));
            x = self.last();
            shape = self.shape_of(x);
        }
        let rank = shape.rank();
        let (left, other) = (self.rng.chance(70), self.dim());
        let k = if left {
            shape[rank - 1]
        } else {
            shape[rank - 2]
        };
        let mut dims: Vec<usize> = shape[self.rng.below(rank - 1)..rank - 2]
            .iter()
            .map(|&n| if self.rng.chance(30) { 1 } else { n })
            .collect();
        dims.extend(if left { [k, other] } else { [other, k] });
        // A window may keep distances of a dimension without elements.
        if dims.iter().fold(1usize, |n, &d| n.saturating_mul(d.max(1))) > self.limits.numel {
            return;
        }
        let y = self.input(&dims, dtype);
        let bound = t.bound * 2.0 * k.max(1) as f64;
        if !self.track(y).bound.is_finite() || bound > 1e5 {
            return;
        }
        let track = Track {
            bound,
            error: k.max(1) as f64 * (2.0 * t.error + 4.0 * epsilon(dtype) * bound),
            any_zero: true,
        };
        let args = if left {
            [x.into(), y.into()]
        } else {
            [y.into(), x.into()]
        };
        self.push(Op::Matmul, &args, Some(track));
        for _ in 0..self.rng.below(4) {
            match self.rng.below(6) {
                0..=1 => self.unary(),
                2..=4 => self.binary(),
                _ => self.cast(),
            }
        }
    }

    fn last(&self) -> ValueId {
        ValueId(self.program.graph.nodes().len() as u32 - 1)
    }
}
