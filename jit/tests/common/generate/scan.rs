//! Scans.

use super::Generator;
use crate::common::track::{self, Track};
use ferrotrace_jit::Precision;
use ferrotrace_kernels::op::Scan;
use ferrotrace_kernels::{Op, ReduceKind, ScanKind};

impl Generator<'_> {
    /// A scan along a dimension, of scalars too. In eager mode's order (`EagerExact`) sums are bit for bit equal.
    pub(super) fn scan(&mut self) {
        use ScanKind::*;
        let x = self.any();
        let (shape, from, t) = (self.shape_of(x), self.dtype_of(x), self.track(x));
        let kind = if t.is_exact() {
            self.rng
                .pick(&[Sum, Sum, Sum, Prod, Max, Min, ArgMax, ArgMin, LogSumExp])
        } else {
            self.rng.pick(&[Sum, Sum, Max, Min])
        };
        let dim = self.rng.below(shape.rank().max(1));
        let n = if shape.rank() == 0 { 1 } else { shape[dim] };
        let op = Op::Scan(Scan { kind, dim });
        let Ok((_, to)) = op.infer(&self.program.graph.metas(&[x.into()])) else {
            return;
        };
        let precision = self.limits.precision;
        let reduce = |kind| track::reduce(kind, t, n, from, to, precision);
        let track = match kind {
            ArgMax | ArgMin => Some(Track::exact(n as f64)),
            // Of half precision it stays in binary32 where one continuous operator reads it.
            LogSumExp => {
                let bound = t.bound + (n.max(1) as f64).ln();
                // A device's exponentials and logarithms are not the host's.
                track::rounded(
                    bound,
                    t.error,
                    t.any_zero,
                    to,
                    precision,
                    self.limits.approximate,
                )
            }
            // On a device parts of a row are joined by instructions that take the zero of either sign.
            Max | Min => Some(Track {
                any_zero: t.any_zero || self.limits.approximate,
                ..t
            }),
            Sum if t.is_exact() && precision == Precision::EagerExact => {
                let bound = t.bound * n.max(1) as f64;
                Some(Track { bound, ..t })
            }
            Sum => reduce(ReduceKind::Sum),
            Prod => reduce(ReduceKind::Prod),
        };
        self.push(op, &[x.into()], track);
    }
}
