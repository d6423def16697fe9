//! Scatters.

use super::Generator;
use crate::common::track::{Track, epsilon};
use ferrotrace_kernels::op::{Index, IndexPut, Scatter};
use ferrotrace_kernels::{Op, Operand, ScatterMode, ValueId};
use ferrotrace_runtime::DType;
use smallvec::SmallVec;

impl Generator<'_> {
    /// A source of this shape: one computed before, whose every bit is known, if there is one; else an input.
    fn source(&mut self, shape: &[usize], dtype: DType) -> ValueId {
        let n = self.program.graph.nodes().len() as u32;
        let fits = |v: &ValueId| {
            let (shape_of, t) = (self.shape_of(*v), self.track(*v));
            let small = t.is_exact() && !t.any_zero && t.bound.is_finite();
            shape_of.dims() == shape && self.dtype_of(*v) == dtype && small
        };
        let found: Vec<ValueId> = (0..n).map(ValueId).filter(fits).collect();
        if found.is_empty() || self.rng.chance(30) {
            return self.input(shape, dtype);
        }
        let last = found.len().min(4);
        found[found.len() - 1 - self.rng.below(last)]
    }

    /// What is known of `x` joined by at most `count` values of `src`. The order in which values meet is eager mode's; a
    /// device adds those of binary32 in binary64.
    fn joined(&self, x: ValueId, src: ValueId, count: usize) -> Option<Track> {
        let (t, from) = (self.track(x), self.track(src));
        let bound = t.bound + from.bound * count.max(1) as f64;
        let wide = self.limits.approximate && self.dtype_of(x) == DType::F32;
        let error = epsilon(DType::F32) * bound * count as f64;
        (t.is_exact() && from.is_exact() && bound < 1e4).then_some(Track {
            any_zero: true,
            error: if wide { error } else { 0.0 },
            ..Track::exact(bound)
        })
    }

    /// A scatter along a dimension.
    pub(super) fn scatter(&mut self) {
        let x = self.any();
        let (shape, dtype) = (self.shape_of(x), self.dtype_of(x));
        let dim = self.rng.below(shape.rank().max(1));
        if shape.numel() == 0 {
            return;
        }
        let mut own = shape.to_vec();
        if let Some(n) = own.get_mut(dim)
            && self.rng.chance(60)
        {
            *n = self.dim();
        }
        for n in &mut own {
            if self.rng.chance(10) {
                *n = self.rng.below(*n + 1);
            }
        }
        if own.get(dim).is_some_and(|&n| n > 5000) || self.is_too_large(&own) {
            return;
        }
        let size = if shape.rank() == 0 { 1 } else { shape[dim] };
        let index = self.indices(&own, size);
        let src = self.source(&own, dtype);
        let modes = [
            ScatterMode::Assign,
            ScatterMode::Sum,
            ScatterMode::Sum,
            ScatterMode::Amax,
            ScatterMode::Amin,
            ScatterMode::Mean,
        ];
        let mode = self.rng.pick(&modes);
        if dtype == DType::Bool && mode == ScatterMode::Mean {
            return;
        }
        let op = Op::Scatter(Scatter {
            dim,
            mode,
            include_self: self.rng.chance(80),
        });
        let track = self.joined(x, src, own.get(dim).copied().unwrap_or(1));
        self.push(op, &[x.into(), index.into(), src.into()], track);
    }

    /// A write at positions of some axes.
    pub(super) fn index_put(&mut self) {
        let x = self.any();
        let (shape, dtype) = (self.shape_of(x), self.dtype_of(x));
        let rank = shape.rank();
        let axes: SmallVec<[u8; 4]> = (0..rank)
            .filter(|_| self.rng.chance(50))
            .map(|d| d as u8)
            .collect();
        if axes.is_empty() || shape.numel() == 0 {
            return;
        }
        let block = [self.rng.pick(&[1, 2, 3, 5]), self.rng.pick(&[1, 4])];
        let mut indices: Vec<Operand> = Vec::new();
        for &axis in &axes {
            let own: Vec<usize> = match self.rng.below(3) {
                0 => block.to_vec(),
                1 => vec![block[1]],
                _ => vec![block[0], 1],
            };
            indices.push(self.indices(&own, shape[axis as usize]).into());
        }
        let at = self.rng.below(rank - axes.len() + 1);
        let read = Op::Index(Index {
            axes: axes.clone(),
            at,
        });
        let args: Vec<Operand> = std::iter::once(x.into()).chain(indices.clone()).collect();
        let Ok((region, _)) = read.infer(&self.program.graph.metas(&args)) else {
            return;
        };
        if self.is_too_large(&region) {
            return;
        }
        let drop = if self.rng.chance(30) {
            self.rng.below(region.rank() + 1)
        } else {
            0
        };
        let src = self.source(&region[drop..], dtype);
        let track = self.joined(x, src, block[0] * block[1]);
        let op = Op::IndexPut(IndexPut {
            axes,
            at,
            accumulate: self.rng.chance(60),
        });
        let args: Vec<Operand> = [x.into(), src.into()].into_iter().chain(indices).collect();
        self.push(op, &args, track);
    }
}
