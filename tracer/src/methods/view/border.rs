//! Padding with what the tensor holds.

use super::super::attempt;
use crate::Tensor;
use ferrotrace_kernels::Op;
use ferrotrace_kernels::op::Narrow;
use ferrotrace_runtime::{Error, Result};

/// What [`pad_with`](Tensor::pad_with) puts around a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PadMode {
    /// The dimension mirrored at its first and last elements, which are not repeated: less than its size on each side.
    Reflect,
    /// The first and the last element.
    Replicate,
    /// The dimension's other end: at most its size on each side.
    Circular,
}

impl Tensor {
    /// So many elements put before and after each dimension, from the first dimension on, taken from the tensor itself;
    /// negative counts crop. Dimensions go one after another, so corners are what each mode gives of the other's edges.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2, 3], 3, &Device::cpu());
    /// assert_eq!(x.pad_with(&[(2, 1)], PadMode::Reflect).to_vec::<i32>()?, [3, 2, 1, 2, 3, 2]);
    /// assert_eq!(x.pad_with(&[(2, 1)], PadMode::Replicate).to_vec::<i32>()?, [1, 1, 1, 2, 3, 3]);
    /// assert_eq!(x.pad_with(&[(2, 1)], PadMode::Circular).to_vec::<i32>()?, [2, 3, 1, 2, 3, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn pad_with(&self, pads: &[(isize, isize)], mode: PadMode) -> Tensor {
        attempt!("pad_with", self.check(), self);
        if pads.len() > self.rank() {
            let (n, rank) = (pads.len(), self.rank());
            let why = Error::argument(format!("{n} paddings for a tensor of rank {rank}"));
            return Tensor::failed("pad_with", why, &[self]);
        }
        let mut padded = self.clone();
        for (dim, &pad) in pads.iter().enumerate() {
            padded = attempt!("pad_with", padded.bordered(dim, pad, mode), self);
        }
        padded.called("pad_with", &[self])
    }

    #[track_caller]
    fn bordered(&self, dim: usize, pad: (isize, isize), mode: PadMode) -> Result<Tensor> {
        let size = self.shape()[dim];
        let crop = |n: isize| n.min(0).unsigned_abs();
        let (front, back) = (crop(pad.0), crop(pad.1));
        let kept = front.checked_add(back).and_then(|n| size.checked_sub(n));
        let (before, after) = (pad.0.max(0) as usize, pad.1.max(0) as usize);
        let Some(kept) = kept else {
            let why = format!("padding {pad:?} crops more than dimension {dim} of size {size}");
            return Err(Error::argument(why));
        };
        let most = match mode {
            PadMode::Reflect => kept.saturating_sub(1),
            PadMode::Replicate if kept == 0 => 0,
            PadMode::Replicate => usize::MAX,
            PadMode::Circular => kept,
        };
        if before.max(after) > most {
            let why = format!("{mode:?} padding {pad:?} of dimension {dim} of size {size}");
            return Err(Error::argument(why));
        }
        let core = match kept == size {
            true => self.clone(),
            false => self.part(dim, front, kept),
        };
        if before == 0 && after == 0 {
            return Ok(core);
        }
        let last = front + kept;
        let mut parts = Vec::with_capacity(3);
        if before > 0 {
            parts.push(match mode {
                PadMode::Reflect => self.part(dim, front + 1, before).flip(dim),
                PadMode::Replicate => self.part(dim, front, 1).wide(dim, before),
                PadMode::Circular => self.part(dim, last - before, before),
            });
        }
        parts.push(core);
        if after > 0 {
            parts.push(match mode {
                PadMode::Reflect => self.part(dim, last - 1 - after, after).flip(dim),
                PadMode::Replicate => self.part(dim, last - 1, 1).wide(dim, after),
                PadMode::Circular => self.part(dim, front, after),
            });
        }
        Ok(Tensor::cat(&parts, dim))
    }

    #[track_caller]
    fn part(&self, dim: usize, start: usize, len: usize) -> Tensor {
        let start = start as isize;
        self.apply(Op::Narrow(Narrow { dim, start, len }))
    }

    /// A dimension of 1 stretched to `n`.
    #[track_caller]
    fn wide(&self, dim: usize, n: usize) -> Tensor {
        let mut sizes = self.shape().clone();
        sizes.dims_mut()[dim] = n;
        self.expand(sizes)
    }
}
