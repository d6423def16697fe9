//! Products: of matrices, vectors, Einstein sums; and attention.

mod chain;
mod contract;
mod distance;
mod moments;
mod pairs;
mod ranked;

use super::attempt;
use crate::args::Dim;
use crate::{Input, Tensor};
use ferrotrace_kernels::op::{Attention, Einsum, Linear};
use ferrotrace_kernels::{BinaryOp, Composite, Op};
use ferrotrace_runtime::{Error, Result, Shape};

/// Whether both are vectors.
///
/// # Errors
/// One has another number of dimensions.
fn vectors(a: &Tensor, b: &Tensor) -> Result<()> {
    if a.rank() == 1 && b.rank() == 1 {
        return Ok(());
    }
    let why = format!(
        "both must have one dimension, not {} and {}",
        a.rank(),
        b.rank()
    );
    Err(Error::shape(why))
}

impl Tensor {
    /// The matrix product over the last two dimensions; earlier ones broadcast. An operand of one dimension is a
    /// row on the left, a column on the right, and its dimension goes away.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [2, 2], &Device::cpu());
    /// assert_eq!(x.matmul(&x).to_vec::<f64>()?, [7.0, 10.0, 15.0, 22.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn matmul(&self, b: &Tensor) -> Tensor {
        Tensor::record(Op::Matmul, &[Input::Tensor(self), Input::Tensor(b)])
    }

    /// Σ a·b of two vectors of one size, a 0-d tensor.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// assert_eq!(x.dot(&x).to_scalar::<f64>()?, 5.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn dot(&self, b: &Tensor) -> Tensor {
        attempt!("dot", vectors(self, b), self, b);
        Tensor::record_as("dot", Op::Matmul, &[Input::Tensor(self), Input::Tensor(b)])
    }

    /// All products of the elements of two vectors, `[n]` and `[m]`, as `[n, m]`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// assert_eq!(x.outer(&x).to_vec::<f64>()?, [1.0, 2.0, 2.0, 4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn outer(&self, b: &Tensor) -> Tensor {
        attempt!("outer", vectors(self, b), self, b);
        let column = self.unsqueeze(1);
        let inputs = [Input::Tensor(&column), Input::Tensor(b)];
        Tensor::record_as("outer", Op::Binary(BinaryOp::Mul), &inputs)
    }

    /// The Kronecker product: each element times all of `b`, block by block. The lesser rank is filled with leading
    /// dimensions of size 1, sizes are multiplied, and dtypes promote.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2], 2, &Device::cpu());
    /// let y = Tensor::from_slice(&[1, 10, 100], 3, &Device::cpu());
    /// assert_eq!(x.kron(&y).to_vec::<i32>()?, [1, 10, 100, 2, 20, 200]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn kron(&self, b: &Tensor) -> Tensor {
        attempt!("kron", self.kronecker(b), self, b).called("kron", &[self, b])
    }

    #[track_caller]
    fn kronecker(&self, b: &Tensor) -> Result<Tensor> {
        self.check()?;
        b.check()?;
        let rank = self.rank().max(b.rank());
        let size = |of: &Shape, d: usize| match (d + of.rank()).checked_sub(rank) {
            Some(d) => of[d],
            None => 1,
        };
        let (mut left, mut right, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
        for d in 0..rank {
            let (m, n) = (size(self.shape(), d), size(b.shape(), d));
            left.extend([m, 1]);
            right.extend([1, n]);
            sizes.push(m.saturating_mul(n));
        }
        Ok((self.reshape(left) * b.reshape(right)).reshape(sizes))
    }

    /// The cross product of vectors of three elements along a dimension; other dimensions broadcast, and dtypes promote.
    /// Both have the same rank.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 0, 0], 3, &Device::cpu());
    /// let y = Tensor::from_slice(&[0, 1, 0], 3, &Device::cpu());
    /// assert_eq!(x.cross(&y, -1).to_vec::<i32>()?, [0, 0, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn cross(&self, b: &Tensor, dim: impl Into<Dim>) -> Tensor {
        let dim = attempt!("cross", self.spatial(b, dim.into()), self, b);
        let before = self.roll(-1, dim) * b.roll(-2, dim);
        let behind = self.roll(-2, dim) * b.roll(-1, dim);
        (before - behind).called("cross", &[self, b])
    }

    /// The dimension along which both hold vectors of three elements.
    fn spatial(&self, b: &Tensor, dim: Dim) -> Result<usize> {
        self.check()?;
        b.check()?;
        let (x, y) = (self.shape(), b.shape());
        if x.rank() != y.rank() {
            return Err(Error::shape(format!("ranks {} and {}", x.rank(), y.rank())));
        }
        let dim = dim.wrap(x.rank())?;
        match [x, y].into_iter().find(|shape| shape[dim] != 3) {
            None => Ok(dim),
            Some(shape) => Err(Error::shape(format!(
                "dimension {dim} of {shape} does not have the size 3"
            ))),
        }
    }

    /// x·wᵀ plus the bias: `[.., in]` with a weight `[out, in]` and a bias `[out]` gives `[.., out]`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [2, 2], &Device::cpu());
    /// assert_eq!(x.linear(&x, None).to_vec::<f64>()?, [5.0, 11.0, 11.0, 25.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn linear(&self, w: &Tensor, bias: Option<&Tensor>) -> Tensor {
        self.with_tensors(
            Composite::Linear(Linear {
                bias: bias.is_some(),
            }),
            &[Some(w), bias],
            &[],
        )
    }

    /// An Einstein sum: labels that the output lacks are summed over, repeated ones walk a diagonal; without `->` the
    /// output has the labels met once, in alphabetical order. `...` stands for dimensions that broadcast.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [2, 2], &Device::cpu());
    /// assert_eq!(Tensor::einsum("ij,jk->ik", &[&x, &x]).to_vec::<f64>()?, [7.0, 10.0, 15.0, 22.0]);
    /// assert_eq!(Tensor::einsum("ii->", &[&x]).to_scalar::<f64>()?, 5.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn einsum(equation: &str, operands: &[&Tensor]) -> Tensor {
        if operands.is_empty() {
            return Tensor::failed("einsum", Error::argument("no operands are given"), &[]);
        }
        let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
        let op = Composite::Einsum(Einsum {
            equation: equation.into(),
        });
        let inputs: Vec<Input<'_>> = operands.iter().map(|&x| Input::Tensor(x)).collect();
        Tensor::record(Op::Composite(op), &inputs)
    }

    /// softmax(q·kᵀ·scale)·v over `[.., length, d]`, the scale 1/√d unless given. A `Bool` mask keeps what is true, a
    /// float mask is added to the scores; `is_causal` hides keys that come after the query
    /// ([Vaswani et al. 2017](https://arxiv.org/abs/1706.03762)).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let v = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [1, 1, 2, 2], &Device::cpu());
    /// let q = v.zeros_like();
    /// let y = Tensor::scaled_dot_product_attention(&q, &q, &v, None, true, None);
    /// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0, 2.0, 3.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn scaled_dot_product_attention(
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        mask: Option<&Tensor>,
        is_causal: bool,
        scale: Option<f64>,
    ) -> Tensor {
        let op = Composite::Attention(Attention {
            mask: mask.is_some(),
            causal: is_causal,
            scale: scale.unwrap_or(f64::NAN).to_bits(),
        });
        q.with_tensors(op, &[Some(k), Some(v), mask], &[])
    }
}
