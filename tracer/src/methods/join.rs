//! Joining tensors, and cutting one into several.

mod stacks;
mod tuples;

use crate::args::{Dim, TensorLike, borrowed};
use crate::{Input, Tensor};
use ferrotrace_kernels::Op;
use ferrotrace_kernels::op::{Cat, Narrow, Select, Unsqueeze};
use ferrotrace_runtime::{Error, Result};

impl Tensor {
    /// Tensors joined along a dimension; their other sizes are equal, and their dtypes promote. An array, slice or vector
    /// of tensors or of references to them.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2], [2, 1], &Device::cpu());
    /// assert_eq!(Tensor::cat(&[&x, &x], 1).to_vec::<i32>()?, [1, 1, 2, 2]);
    /// assert_eq!(Tensor::cat(x.split(&[1, 1], 0), 1).to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn cat<T: TensorLike>(tensors: impl AsRef<[T]>, dim: impl Into<Dim>) -> Tensor {
        let tensors = &borrowed(tensors.as_ref())[..];
        let Some(first) = tensors.first() else {
            return Tensor::failed("cat", Error::argument("no tensors are given"), tensors);
        };
        match dim.into().wrap(first.rank()) {
            Ok(dim) => joined("cat", tensors, dim),
            Err(error) => Tensor::failed("cat", error, tensors),
        }
    }

    /// Tensors of one shape joined along a new dimension; lists as those of [`cat`](Tensor::cat).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2], 2, &Device::cpu());
    /// assert_eq!(Tensor::stack(&[&x, &x], 0).dims(), [2, 2]);
    /// assert_eq!(Tensor::stack(&[&x, &x], -1).to_vec::<i32>()?, [1, 1, 2, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn stack<T: TensorLike>(tensors: impl AsRef<[T]>, dim: impl Into<Dim>) -> Tensor {
        let tensors = &borrowed(tensors.as_ref())[..];
        let Some(first) = tensors.first() else {
            return Tensor::failed("stack", Error::argument("no tensors are given"), tensors);
        };
        let dim = match dim.into().wrap_new(first.rank()) {
            Ok(dim) => dim,
            Err(error) => return Tensor::failed("stack", error, tensors),
        };
        if let Some(other) = tensors.iter().find(|t| t.sizes() != first.sizes()) {
            let why = format!("shapes {} and {} differ", first.sizes(), other.sizes());
            return Tensor::failed("stack", Error::shape(why), tensors);
        }
        let mut rows = Vec::with_capacity(tensors.len());
        for tensor in tensors {
            rows.push(tensor.apply(Op::Unsqueeze(Unsqueeze { dim })));
        }
        joined("stack", &rows.iter().collect::<Vec<_>>(), dim)
    }

    /// Vectors (or numbers, as vectors of one) as the axes of a grid: one tensor for each, of as many dimensions as there
    /// are vectors, that varies along its own alone. Nothing is copied. All have one dtype.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let (a, b) = (Tensor::from_slice(&[1, 2], 2, &Device::cpu()), Tensor::from_slice(&[5, 6, 7], 3, &Device::cpu()));
    /// let grid = Tensor::meshgrid(&[&a, &b]);
    /// assert_eq!(grid[0].to_vec::<i32>()?, [1, 1, 1, 2, 2, 2]);
    /// assert_eq!(grid[1].to_vec::<i32>()?, [5, 6, 7, 5, 6, 7]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn meshgrid<T: TensorLike>(tensors: impl AsRef<[T]>) -> Vec<Tensor> {
        grid(&borrowed(tensors.as_ref()), false)
    }

    /// [`meshgrid`](Tensor::meshgrid) with the first two dimensions exchanged: rows for the second vector, columns for
    /// the first, as NumPy has it (PyTorch's `indexing="xy"`).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let (a, b) = (Tensor::from_slice(&[1, 2], 2, &Device::cpu()), Tensor::from_slice(&[5, 6, 7], 3, &Device::cpu()));
    /// let grid = Tensor::meshgrid_xy(&[&a, &b]);
    /// assert_eq!(grid[0].to_vec::<i32>()?, [1, 2, 1, 2, 1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn meshgrid_xy<T: TensorLike>(tensors: impl AsRef<[T]>) -> Vec<Tensor> {
        grid(&borrowed(tensors.as_ref()), true)
    }

    /// A dimension cut into parts of the sizes given, which sum to its size; if they do not, each carries the error.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let parts = Tensor::arange(0, 3, 1, DType::I64, &Device::cpu()).split(&[1, 2], 0);
    /// assert_eq!(parts[1].to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn split(&self, sizes: &[usize], dim: impl Into<Dim>) -> Vec<Tensor> {
        match self.cuts(sizes, dim.into()) {
            Ok(dim) => self.cut(sizes, dim),
            Err(error) => {
                let failed = Tensor::failed("split", error, &[self]);
                vec![failed; sizes.len()]
            }
        }
    }

    /// A dimension cut into `n` parts of equal size, the last one smaller; fewer parts where the size, rounded up,
    /// gives fewer. An error comes as one tensor that carries it.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let parts = Tensor::arange(0, 3, 1, DType::I64, &Device::cpu()).chunk(2, 0);
    /// assert_eq!(parts[0].to_vec::<i64>()?, [0, 1]);
    /// assert_eq!(parts[1].to_vec::<i64>()?, [2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn chunk(&self, n: usize, dim: impl Into<Dim>) -> Vec<Tensor> {
        match self.chunks(n, dim.into()) {
            Ok((sizes, dim)) => self.cut(&sizes, dim),
            Err(error) => vec![Tensor::failed("chunk", error, &[self])],
        }
    }

    /// The slices of a dimension, which goes away: one tensor for each index. Nothing is copied. An error comes as one
    /// tensor that carries it.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let rows = Tensor::arange(0, 4, 1, DType::I64, &Device::cpu()).reshape([2, 2]).unbind(0);
    /// assert_eq!(rows.len(), 2);
    /// assert_eq!(rows[1].to_vec::<i64>()?, [2, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn unbind(&self, dim: impl Into<Dim>) -> Vec<Tensor> {
        let dim = dim.into();
        let dim = match self.check().and_then(|()| dim.wrap(self.rank())) {
            Ok(dim) => dim,
            Err(error) => return vec![Tensor::failed("unbind", error, &[self])],
        };
        let mut slices = Vec::new();
        for index in 0..self.shape()[dim] as isize {
            slices.push(self.apply_as("unbind", Op::Select(Select { dim, index })));
        }
        slices
    }

    fn cuts(&self, sizes: &[usize], dim: Dim) -> Result<usize> {
        self.check()?;
        let dim = dim.wrap(self.rank())?;
        let size = self.shape()[dim];
        let total = sizes
            .iter()
            .try_fold(0usize, |sum, &part| sum.checked_add(part));
        if total != Some(size) {
            let why = format!("the sizes {sizes:?} do not sum to {size}, that of dimension {dim}");
            return Err(Error::argument(why));
        }
        Ok(dim)
    }

    fn chunks(&self, n: usize, dim: Dim) -> Result<(Vec<usize>, usize)> {
        self.check()?;
        let dim = dim.wrap(self.rank())?;
        if n == 0 {
            return Err(Error::argument("0 chunks are asked for"));
        }
        let mut left = self.shape()[dim];
        let part = left.div_ceil(n);
        let mut sizes = Vec::new();
        while left > 0 {
            sizes.push(part.min(left));
            left -= part.min(left);
        }
        if sizes.is_empty() {
            sizes = vec![0; n];
        }
        Ok((sizes, dim))
    }

    #[track_caller]
    fn cut(&self, sizes: &[usize], dim: usize) -> Vec<Tensor> {
        let mut start = 0isize;
        let mut parts = Vec::with_capacity(sizes.len());
        for &len in sizes {
            parts.push(self.apply(Op::Narrow(Narrow { dim, start, len })));
            start += len as isize;
        }
        parts
    }
}

#[track_caller]
fn grid(tensors: &[&Tensor], exchanged: bool) -> Vec<Tensor> {
    let name = "meshgrid";
    let error = match tensors {
        [] => Some(Error::argument("no tensors are given")),
        [first, ..] => tensors.iter().find_map(|t| {
            let (rank, ty, other) = (t.rank(), t.dtype(), first.dtype());
            if rank > 1 {
                let why = format!("{} has {rank} dimensions, an axis 1", t.sizes());
                Some(Error::shape(why))
            } else if ty != other {
                let why = format!("axes of {other} and {ty}: to_dtype(DType::{other:?}) first");
                Some(Error::dtype(why))
            } else {
                None
            }
        }),
    };
    if let Some(error) = error {
        return vec![Tensor::failed(name, error, tensors)];
    }
    let sizes: Vec<usize> = tensors.iter().map(|t| t.numel()).collect();
    let mut grid = Vec::with_capacity(tensors.len());
    for (axis, tensor) in tensors.iter().enumerate() {
        let mut line = vec![1; sizes.len()];
        line[axis] = sizes[axis];
        let mut spread = tensor.reshape(line).expand(&sizes[..]);
        if exchanged && sizes.len() > 1 {
            spread = spread.transpose(0, 1);
        }
        grid.push(spread.called(name, tensors));
    }
    grid
}

#[track_caller]
fn joined(name: &'static str, tensors: &[&Tensor], dim: usize) -> Tensor {
    let inputs: Vec<Input<'_>> = tensors
        .iter()
        .map(|&tensor| Input::Tensor(tensor))
        .collect();
    Tensor::record_as(name, Op::Cat(Cat { dim }), &inputs)
}
