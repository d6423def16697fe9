//! Channels interleaved, dimensions parted, matrices turned and put together.

use super::super::attempt;
use crate::Tensor;
use crate::args::{Dim, Dims, Extents, TensorLike, borrowed};
use ferrotrace_kernels::Extent;
use ferrotrace_runtime::{DType, Error, Result};

impl Tensor {
    /// The channels of `[N, C, ..]` interleaved: of `groups` groups one behind the other, the first of each come first, then the
    /// second ([Zhang et al. 2017](https://arxiv.org/abs/1707.01083)). Of any dtype; channels that `groups` does not divide are an
    /// error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::arange(0, 6, 1, DType::I64, &Device::cpu()).reshape([1, 6, 1]);
    /// assert_eq!(x.channel_shuffle(2).to_vec::<i64>()?, [0, 3, 1, 4, 2, 5]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn channel_shuffle(&self, groups: usize) -> Tensor {
        attempt!("channel_shuffle", self.check(), self);
        let &[n, channels, ref rest @ ..] = &self.shape()[..] else {
            let why = format!("{} has no channels", self.shape());
            return Tensor::failed("channel_shuffle", Error::shape(why), &[self]);
        };
        if groups == 0 || !channels.is_multiple_of(groups) {
            let why = format!("{channels} channels in {groups} groups");
            return Tensor::failed("channel_shuffle", Error::shape(why), &[self]);
        }
        let count = rest.iter().product();
        let parts = self.reshape([n, groups, channels / groups, count]);
        let y = parts.transpose(1, 2).reshape(self.shape());
        y.called("channel_shuffle", &[self])
    }

    /// A dimension parted into several of these sizes, of which one may be −1 and is inferred: the inverse of
    /// [`flatten`](Tensor::flatten).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([2, 12, 3], DType::F32, &Device::cpu());
    /// assert_eq!(x.unflatten(1, [3, -1]).dims(), [2, 3, 4, 3]);
    /// ```
    #[track_caller]
    pub fn unflatten(&self, dim: impl Into<Dim>, sizes: impl Into<Extents>) -> Tensor {
        let y = self.parted(dim.into(), &sizes.into());
        attempt!("unflatten", y, self).called("unflatten", &[self])
    }

    #[track_caller]
    fn parted(&self, dim: Dim, sizes: &Extents) -> Result<Tensor> {
        self.check()?;
        let dim = dim.wrap(self.rank())?;
        let (own, sizes) = (self.shape(), sizes.resolve()?);
        let known = sizes.iter().map(|size| match size {
            Extent::Size(size) => *size,
            Extent::Auto => 1,
        });
        let known: usize = known.product();
        let unknown = sizes.iter().filter(|&&size| size == Extent::Auto).count();
        let fits = match unknown {
            0 => known == own[dim] && !sizes.is_empty(),
            1 => known > 0 && own[dim].is_multiple_of(known),
            _ => false,
        };
        if !fits {
            let why = format!("dimension {dim} of {own} as {} sizes", sizes.len());
            return Err(Error::shape(why));
        }
        let parts = sizes.iter().map(|size| match size {
            Extent::Size(size) => *size,
            Extent::Auto => own[dim] / known,
        });
        let shape = own[..dim].iter().copied().chain(parts);
        let shape: Vec<usize> = shape.chain(own[dim + 1..].iter().copied()).collect();
        Ok(self.reshape(shape))
    }

    /// Turned `k` times by 90° in the plane of two dimensions, from the first to the second.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2, 3, 4], [2, 2], &Device::cpu());
    /// assert_eq!(x.rot90(1, [0, 1]).to_vec::<i32>()?, [2, 4, 1, 3]);
    /// assert_eq!(x.rot90(-1, [0, 1]).to_vec::<i32>()?, [3, 1, 4, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn rot90(&self, k: isize, dims: impl Into<Dims>) -> Tensor {
        attempt!("rot90", self.check(), self);
        let dims = attempt!("rot90", dims.into().list(self.rank()), self);
        let &[a, b] = &dims[..] else {
            let why = format!("a plane of {} dimensions", dims.len());
            return Tensor::failed("rot90", Error::argument(why), &[self]);
        };
        let y = match k.rem_euclid(4) {
            0 => self.clone(),
            1 => self.transpose(a, b).flip(a),
            2 => self.flip([a, b]),
            _ => self.transpose(a, b).flip(b),
        };
        y.called("rot90", &[self])
    }

    /// A dimension split into `n` parts, of which the first are longer by one where sizes differ.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::arange(0, 5, 1, DType::I64, &Device::cpu());
    /// let parts = x.tensor_split(3, 0);
    /// assert_eq!(parts[0].to_vec::<i64>()?, [0, 1]);
    /// assert_eq!(parts[2].to_vec::<i64>()?, [4]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn tensor_split(&self, n: usize, dim: impl Into<Dim>) -> Vec<Tensor> {
        let dim = dim.into();
        let size = self.check().and_then(|()| {
            let dim = dim.wrap(self.rank())?;
            match n {
                0 => Err(Error::argument("no parts")),
                _ => Ok((dim, self.shape()[dim])),
            }
        });
        let (dim, size) = match size {
            Ok(found) => found,
            Err(error) => return vec![Tensor::failed("tensor_split", error, &[self])],
        };
        let start = |i: usize| i * (size / n) + i.min(size % n);
        let part = |i| self.narrow(dim, start(i) as isize, start(i + 1) - start(i));
        (0..n).map(part).collect()
    }

    /// The last dimension as diagonals of matrices, zeros beside them: dimensions `a` and `b` of the result are those of the
    /// matrices, and `offset` says how far above the main diagonal. The inverse of [`diagonal`](Tensor::diagonal).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2], 2, &Device::cpu());
    /// assert_eq!(x.diag_embed(0, -2, -1).to_vec::<i32>()?, [1, 0, 0, 2]);
    /// assert_eq!(x.diag_embed(1, 0, 1).to_vec::<i32>()?, [0, 1, 0, 0, 0, 2, 0, 0, 0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn diag_embed(&self, offset: isize, a: impl Into<Dim>, b: impl Into<Dim>) -> Tensor {
        let y = self.diagonals(offset, a.into(), b.into());
        attempt!("diag_embed", y, self).called("diag_embed", &[self])
    }

    #[track_caller]
    fn diagonals(&self, offset: isize, a: Dim, b: Dim) -> Result<Tensor> {
        self.check()?;
        let rank = self.rank() + 1;
        let Some(&n) = self.shape().last() else {
            return Err(Error::shape("a number is no diagonal"));
        };
        let (a, b) = (a.wrap(rank)?, b.wrap(rank)?);
        if a == b {
            return Err(Error::argument(format!("dimension {a} twice")));
        }
        let side = n.saturating_add(offset.unsigned_abs());
        let place = Tensor::arange(0, side, 1, DType::I64, &self.device());
        // Row r holds its element in column r + offset.
        let on = place.unsqueeze(0).eq((&place + offset as i64).unsqueeze(1));
        let (before, after) = (offset.min(0).unsigned_abs(), offset.max(0).unsigned_abs());
        let mut pads = vec![(0, 0); self.rank()];
        pads[rank - 2] = (before as isize, after as isize);
        let rows = self.pad(&pads, 0).unsqueeze(-1);
        let square = on.where_cond(&rows, &rows.zeros_like());
        let mut order: Vec<usize> = (0..rank - 2).collect();
        let (first, second) = if a < b {
            ((a, rank - 2), (b, rank - 1))
        } else {
            ((b, rank - 1), (a, rank - 2))
        };
        order.insert(first.0, first.1);
        order.insert(second.0, second.1);
        Ok(square.permute(order))
    }

    /// Matrices along a diagonal, zeros beside them. Vectors are rows, and numbers matrices of one; dtypes promote.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[1, 2], [1, 2], &Device::cpu());
    /// let b = Tensor::from_slice(&[3], [1, 1], &Device::cpu());
    /// assert_eq!(Tensor::block_diag(&[&a, &b]).to_vec::<i32>()?, [1, 2, 0, 0, 0, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn block_diag<T: TensorLike>(blocks: impl AsRef<[T]>) -> Tensor {
        let blocks = borrowed(blocks.as_ref());
        let matrix = |x: &&Tensor| -> Result<Tensor> {
            x.check()?;
            match x.rank() {
                0 => Ok(x.reshape([1, 1])),
                1 => Ok(x.unsqueeze(0)),
                2 => Ok((*x).clone()),
                _ => Err(Error::shape(format!("{} is no matrix", x.shape()))),
            }
        };
        let matrices: Result<Vec<Tensor>> = blocks.iter().map(matrix).collect();
        let matrices = match matrices {
            Ok(matrices) => matrices,
            Err(error) => return Tensor::failed("block_diag", error, &blocks),
        };
        let width: usize = matrices.iter().map(|x| x.shape()[1]).sum();
        let mut left = 0;
        let rows: Vec<Tensor> = matrices
            .iter()
            .map(|x| {
                let own = x.shape()[1];
                let pads = (left as isize, (width - left - own) as isize);
                left += own;
                x.pad(&[(0, 0), pads], 0)
            })
            .collect();
        Tensor::cat(&rows, 0).called("block_diag", &blocks)
    }
}
