//! Reading elements at positions, and finding positions.

mod at;
mod count;
mod count2d;
mod diagonal;
mod fill;
mod flat;
mod onto;
mod place;
mod runs;
mod search;

use super::attempt;
use crate::args::Dim;
use crate::{Input, Tensor};
use ferrotrace_kernels::op::{Gather, Index, OneHot};
use ferrotrace_kernels::{Composite, Op};
use ferrotrace_runtime::{DType, Error, ErrorKind, Result};
use smallvec::SmallVec;

/// Index tensors, the axes they stand for, and where their block of dimensions stands in the result.
pub(super) struct Indexing {
    pub axes: SmallVec<[u8; 4]>,
    pub at: usize,
    pub indices: Vec<Tensor>,
}

impl Indexing {
    /// Each entry stands for one axis of `x`, a mask for as many as it has; `None` keeps an axis. The block stands
    /// at the first indexed axis where they are neighbours, else in front, as in PyTorch.
    #[track_caller]
    pub(super) fn of(x: &Tensor, entries: &[Option<&Tensor>]) -> Result<Indexing> {
        x.check()?;
        let rank = x.rank();
        let mut axes = SmallVec::<[u8; 4]>::new();
        let mut indices = Vec::new();
        let mut axis = 0;
        for entry in entries {
            let Some(index) = entry else {
                axis += 1;
                continue;
            };
            index.check()?;
            let mask = index.dtype() == DType::Bool;
            let span = if mask { index.rank() } else { 1 };
            if axis + span > rank {
                return Err(Error::new(ErrorKind::Dim {
                    dim: (axis + span) as isize - 1,
                    rank,
                }));
            }
            axes.extend((axis..axis + span).map(|axis| axis as u8));
            if mask {
                if index.sizes()[..] != x.sizes()[axis..axis + span] {
                    let (mask, x) = (index.sizes(), x.sizes());
                    let why = format!("a mask of shape {mask} at dimension {axis} of shape {x}");
                    return Err(Error::shape(why));
                }
                let positions = index.nonzero();
                positions.check()?;
                for k in 0..span {
                    indices.push(positions.select(1, k as isize));
                }
            } else {
                indices.push((*index).clone());
            }
            axis += span;
        }
        if axis > rank {
            return Err(Error::new(ErrorKind::Dim {
                dim: axis as isize - 1,
                rank,
            }));
        }
        let neighbours = axes.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let at = axes
            .first()
            .filter(|_| neighbours)
            .map_or(0, |&first| first as usize);
        Ok(Indexing { axes, at, indices })
    }
}

/// The row-major positions of the true values.
fn positions(mask: &[bool]) -> impl Iterator<Item = usize> {
    mask.iter()
        .enumerate()
        .filter(|(_, truth)| **truth)
        .map(|(at, _)| at)
}

/// The row-major positions of the true values of a mask on a device, computed there: those that sort it, the true ones
/// first. Only their number is read.
fn positions_on_device(mask: &Tensor) -> Result<Tensor> {
    let flat = mask.flatten(0, -1);
    let count = flat.sum(0).to_scalar::<i64>()?;
    let order = flat.argsort(0, true);
    order.eval()?;
    Ok(order.narrow(0, 0, count as usize))
}

/// Whether [`positions_on_device`] is for this mask.
fn is_found_on_device(mask: &Tensor) -> bool {
    let n = mask.numel();
    !mask.device().is_cpu() && mask.rank() > 0 && (1..1 << 32).contains(&n)
}

/// Tensors of at most one dimension, each 0-d one as a row of one element, whose indices are checked. `None` if none is
/// 0-d, or one has more dimensions.
#[track_caller]
pub(super) fn rows<const N: usize>(tensors: [&Tensor; N]) -> Option<[Tensor; N]> {
    let ranks = tensors.map(Tensor::rank);
    if !ranks.contains(&0) || ranks.iter().any(|&rank| rank > 1) {
        return None;
    }
    Some(tensors.map(|t| match t.rank() {
        0 => t.unsqueeze(0),
        _ => t.clone(),
    }))
}

impl Tensor {
    /// `out[i] = self[i with i[dim] replaced by idx[i]]`: the index has the rank of this tensor and sizes that do not
    /// exceed its own outside `dim`; the result has the index's shape. Negative indices count from the end. A 0-d tensor
    /// or index is a row of one beside one of one dimension.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2, 3, 4], [2, 2], &Device::cpu());
    /// let idx = Tensor::from_slice(&[0i64, 1], [2, 1], &Device::cpu());
    /// assert_eq!(x.gather(1, &idx).to_vec::<i32>()?, [1, 4]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn gather(&self, dim: impl Into<Dim>, idx: &Tensor) -> Tensor {
        let dim = attempt!("gather", dim.into().wrap_along(self.rank()), self, idx);
        if let Some([row, at]) = rows([self, idx]) {
            let found = row.gather(0, &at);
            return if idx.rank() == 0 {
                found.squeeze(0)
            } else {
                found
            };
        }
        Tensor::record(
            Op::Gather(Gather { dim }),
            &[Input::Tensor(self), Input::Tensor(idx)],
        )
    }

    /// The slices of a dimension at the positions of an index of one dimension (or none, for a single one). A 0-d tensor
    /// is its own only slice.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2, 3, 4], [2, 2], &Device::cpu());
    /// let idx = Tensor::from_slice(&[1i64, 1], 2, &Device::cpu());
    /// assert_eq!(x.index_select(0, &idx).to_vec::<i32>()?, [3, 4, 3, 4]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn index_select(&self, dim: impl Into<Dim>, idx: &Tensor) -> Tensor {
        let dim = attempt!(
            "index_select",
            dim.into().wrap_along(self.rank()),
            self,
            idx
        );
        if self.rank() == 0 {
            // As a row of one, of which one element is selected.
            if idx.rank() > 1 || idx.sizes().numel() != 1 {
                let of = idx.sizes();
                let why = Error::shape(format!("an index of shape {of} selects of one number"));
                return Tensor::failed("index_select", why, &[self, idx]);
            }
            let (row, at) = (self.unsqueeze(0), idx.reshape(1));
            return row.index_select(0, &at).squeeze(0);
        }
        let op = Op::Index(Index {
            axes: SmallVec::from_slice(&[dim as u8]),
            at: dim,
        });
        match idx.rank() {
            0 => {
                let at = idx.unsqueeze(0);
                let inputs = [Input::Tensor(self), Input::Tensor(&at)];
                Tensor::record_as("index_select", op, &inputs)
            }
            1 => {
                let inputs = [Input::Tensor(self), Input::Tensor(idx)];
                Tensor::record_as("index_select", op, &inputs)
            }
            rank => {
                let why = Error::shape(format!("the index has {rank} dimensions, not 1"));
                Tensor::failed("index_select", why, &[self, idx])
            }
        }
    }

    /// Advanced indexing: an entry for each axis from the first on, `None` keeping it whole. The index tensors
    /// broadcast, and their dimensions stand at the first indexed axis if the indexed axes are neighbours, else in
    /// front. A `Bool` entry is a mask over as many axes as it has and stands for the positions where it is true,
    /// which are read at the call.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2, 3, 4], [2, 2], &Device::cpu());
    /// let idx = Tensor::from_slice(&[1i64], 1, &Device::cpu());
    /// assert_eq!(x.index(&[None, Some(&idx)]).to_vec::<i32>()?, [2, 4]);
    /// assert_eq!(x.index(&[Some(&idx), Some(&idx)]).to_vec::<i32>()?, [4]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn index(&self, entries: &[Option<&Tensor>]) -> Tensor {
        self.indexed("index", entries)
    }

    /// [`index`](Tensor::index) for a method of another name.
    #[track_caller]
    fn indexed(&self, name: &'static str, entries: &[Option<&Tensor>]) -> Tensor {
        let Indexing { axes, at, indices } = match Indexing::of(self, entries) {
            Ok(indexing) => indexing,
            Err(error) => return Tensor::failed(name, error, &[self]),
        };
        if axes.is_empty() {
            return self.clone();
        }
        let mut inputs = vec![Input::Tensor(self)];
        inputs.extend(indices.iter().map(Input::Tensor));
        Tensor::record_as(name, Op::Index(Index { axes, at }), &inputs)
    }

    /// The rows of this weight at the positions of an index of any shape.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let weight = Tensor::from_slice(&[1, 2, 3, 4], [2, 2], &Device::cpu());
    /// let idx = Tensor::from_slice(&[1i64, 0], 2, &Device::cpu());
    /// assert_eq!(weight.embedding(&idx).to_vec::<i32>()?, [3, 4, 1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn embedding(&self, idx: &Tensor) -> Tensor {
        attempt!("embedding", Dim::from(0).wrap(self.rank()), self, idx);
        let op = Op::Index(Index {
            axes: SmallVec::from_slice(&[0]),
            at: 0,
        });
        let inputs = [Input::Tensor(self), Input::Tensor(idx)];
        Tensor::record_as("embedding", op, &inputs)
    }

    /// A new last dimension of size `n` (`I64`), 1 at the index that the element is and 0 elsewhere. An index outside
    /// `0..n` is an error when the result is computed.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0i64, 2], 2, &Device::cpu());
    /// assert_eq!(x.one_hot(3).to_vec::<i64>()?, [1, 0, 0, 0, 0, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn one_hot(&self, n: usize) -> Tensor {
        self.apply(Op::Composite(Composite::OneHot(OneHot { n })))
    }

    /// The positions of what is not zero, as `I64` of shape `[count, rank]`, in row-major order. The values are read
    /// at the call: it flushes.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0, 1, 2, 0], [2, 2], &Device::cpu());
    /// assert_eq!(x.nonzero().to_vec::<i64>()?, [0, 1, 1, 0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn nonzero(&self) -> Tensor {
        let mask = self.to_dtype(DType::Bool);
        if is_found_on_device(&mask) {
            let mut at = attempt!("nonzero", positions_on_device(&mask), self);
            let mut indices = Vec::new();
            for &stride in &self.shape().strides() {
                let index = at.floor_divide(stride as i64);
                at = &at - &index * stride as i64;
                indices.push(index);
            }
            let indices: Vec<&Tensor> = indices.iter().collect();
            return Tensor::stack(&indices, 1);
        }
        let mask = attempt!("nonzero", mask.to_vec::<bool>(), self);
        let strides = self.shape().strides();
        let mut indices = Vec::new();
        for mut at in positions(&mask) {
            for &stride in &strides {
                indices.push((at / stride as usize) as i64);
                at %= stride as usize;
            }
        }
        let count = positions(&mask).count();
        Tensor::from_vec(indices, [count, self.rank()], &self.device())
    }

    /// The elements where the mask (of dtype `Bool`) is true, in row-major order, as one dimension; both broadcast.
    /// The mask is read at the call: it flushes.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0], 3, &Device::cpu());
    /// assert_eq!(x.masked_select(&x.gt(1.5)).to_vec::<f64>()?, [2.0, 3.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn masked_select(&self, mask: &Tensor) -> Tensor {
        if mask.dtype() != DType::Bool {
            let why = format!(
                "the mask must be bool, not {}: to_dtype(DType::Bool) first",
                mask.dtype()
            );
            return Tensor::failed("masked_select", Error::dtype(why), &[self, mask]);
        }
        let shape = match self.shape().broadcast(mask.shape()) {
            Some(shape) => shape,
            None => {
                let (x, mask_shape) = (self.sizes(), mask.sizes());
                let why = format!("shapes {x} and {mask_shape} do not broadcast");
                return Tensor::failed("masked_select", Error::shape(why), &[self, mask]);
            }
        };
        let spread = mask.expand(&shape);
        if is_found_on_device(&spread) {
            let found = positions_on_device(&spread);
            let indices = attempt!("masked_select", found, self, mask);
            return self.expand(&shape).flatten(0, -1).index_select(0, &indices);
        }
        let truths = attempt!("masked_select", spread.to_vec::<bool>(), self, mask);
        let indices: Vec<i64> = positions(&truths).map(|at| at as i64).collect();
        let count = indices.len();
        let indices = Tensor::from_vec(indices, count, &self.device());
        self.expand(&shape).flatten(0, -1).index_select(0, &indices)
    }
}
