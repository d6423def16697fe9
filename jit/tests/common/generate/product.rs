//! Matrix products and what surrounds them.

use super::Generator;
use crate::common::track::{self, Track, epsilon};
use ferrotrace_kernels::op::{Expand, Permute, Reduce};
use ferrotrace_kernels::{Extent, Op, ReduceKind, ValueId};
use ferrotrace_runtime::DType;

/// Additions of a product whose errors add up, whatever its length: chains of 512 terms err 128 units at most, and what
/// adds them 32.
const CHAIN: usize = 160;

/// A sum of `k` products of an element of `x`, whose error is known, and one of `y`, a new operand.
fn sum_of_products(x: Track, y: Track, k: usize, dtype: DType) -> Track {
    let terms = k.max(1) as f64;
    let bound = x.bound * y.bound * terms;
    let chain = match dtype {
        DType::F32 => k.clamp(1, CHAIN) as f64,
        _ => terms,
    };
    Track {
        bound,
        error: terms * y.bound * x.error + 4.0 * chain * epsilon(dtype) * bound,
        any_zero: true,
    }
}

impl Generator<'_> {
    /// A product of a known value, on either side, and a new operand: batches that broadcast, vectors, transposed and
    /// strided operands, sums of nothing; then pointwise operations, most of which take it up.
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
            self.push(Op::Permute(Permute(order.into())), &[x.into()], Some(t));
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
        // A vector, by a matrix or by each of a batch.
        if self.rng.chance(20) {
            dims = vec![k];
        }
        // A window may keep distances of a dimension without elements.
        if dims.iter().fold(1usize, |n, &d| n.saturating_mul(d.max(1))) > self.limits.numel {
            return;
        }
        let y = self.input(&dims, dtype);
        let bound = t.bound * 2.0 * k.max(1) as f64;
        if !self.track(y).bound.is_finite() || bound > 1e5 {
            return;
        }
        let track = sum_of_products(t, self.track(y), k, dtype);
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

    /// A product, or a sum or mean, of rows that are as long as the limit allows, of one number each or of several.
    pub(super) fn long(&mut self) {
        let [m, n] = [(); 2].map(|()| self.rng.pick(&[1, 2, 3, 9]));
        let k = self.rng.pick(&[1000, 4097, 9001, 70_001]);
        let k = k.min(self.limits.numel / m.max(n));
        let x = self.rows(m, k);
        if self.rng.chance(40) {
            let kind = self.rng.pick(&[ReduceKind::Sum, ReduceKind::Mean]);
            let (dtype, precision) = (DType::F32, self.limits.precision);
            let track = track::reduce(kind, self.track(x), k, dtype, dtype, precision);
            let (mask, keepdim) = (2, self.rng.chance(50));
            let op = Op::Reduce(Reduce {
                kind,
                mask,
                keepdim,
            });
            return self.push(op, &[x.into()], track);
        }
        let y = self.rows(n, k);
        self.push(
            Op::Permute(Permute([1, 0].into_iter().collect())),
            &[y.into()],
            Some(self.track(y)),
        );
        let y = self.last();
        let track = sum_of_products(self.track(x), self.track(y), k, DType::F32);
        self.push(Op::Matmul, &[x.into(), y.into()], Some(track));
    }

    /// `m` rows of `k` elements of binary32.
    fn rows(&mut self, m: usize, k: usize) -> ValueId {
        if self.rng.chance(50) {
            return self.numbers(&[m, k], DType::F32);
        }
        let x = self.numbers(&[m, 1], DType::F32);
        let op = Op::Expand(Expand([m, k].map(Extent::Size).into_iter().collect()));
        self.push(op, &[x.into()], Some(self.track(x)));
        self.last()
    }

    fn last(&self) -> ValueId {
        ValueId(self.program.graph.nodes().len() as u32 - 1)
    }
}
