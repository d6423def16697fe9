//! Products of vectors and of many matrices, and products that are added.

use super::super::attempt;
use super::distance::floats;
use crate::Tensor;
use crate::args::{Dim, TensorLike, borrowed};
use ferrotrace_runtime::{Error, Result, Scalar};

/// How many multiplications the products of neighbours `i..=j` take at best, and behind which the last cut is.
struct Cuts {
    best: Vec<Vec<usize>>,
    cut: Vec<Vec<usize>>,
}

impl Cuts {
    /// Of matrices whose rows, and the last one's columns, are given.
    fn of(sizes: &[usize]) -> Cuts {
        let n = sizes.len() - 1;
        let mut cuts = Cuts {
            best: vec![vec![0; n]; n],
            cut: vec![vec![0; n]; n],
        };
        for span in 1..n {
            for i in 0..n - span {
                let j = i + span;
                let work = |k: usize| {
                    let last = sizes[i].saturating_mul(sizes[k + 1]);
                    let last = last.saturating_mul(sizes[j + 1]);
                    last.saturating_add(cuts.best[i][k])
                        .saturating_add(cuts.best[k + 1][j])
                };
                let at = (i..j).min_by_key(|&k| work(k)).unwrap_or(i);
                (cuts.best[i][j], cuts.cut[i][j]) = (work(at), at);
            }
        }
        cuts
    }

    /// The product of the matrices `i..=j`.
    #[track_caller]
    fn product(&self, matrices: &[Tensor], i: usize, j: usize) -> Tensor {
        if i == j {
            return matrices[i].clone();
        }
        let k = self.cut[i][j];
        let left = self.product(matrices, i, k);
        left.matmul(&self.product(matrices, k + 1, j))
    }
}

impl Tensor {
    /// Σ x·b along a dimension, which goes away. Both broadcast and promote to floats.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [2, 2], &Device::cpu());
    /// let b = Tensor::from_slice(&[10.0, 1.0], 2, &Device::cpu());
    /// assert_eq!(x.vecdot(&b, -1).to_vec::<f64>()?, [12.0, 34.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn vecdot(&self, b: &Tensor, dim: impl Into<Dim>) -> Tensor {
        let (x, y, dtype) = attempt!("vecdot", floats("vecdot", self, b), self, b);
        let sum = (x * y).sum(dim.into()).to_dtype(dtype);
        sum.called("vecdot", &[self, b])
    }

    /// `beta`·x + `alpha`·(a·v): x broadcasts with the product of a matrix `[n, k]` and a vector `[k]`, of its dtype. Where `beta`
    /// is 0, x is not read.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// let a = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [2, 2], &Device::cpu());
    /// assert_eq!(x.addmv(&a, &x, 10.0, 1.0).to_vec::<f64>()?, [15.0, 31.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn addmv(
        &self,
        a: &Tensor,
        v: &Tensor,
        beta: impl Into<Scalar>,
        alpha: impl Into<Scalar>,
    ) -> Tensor {
        let y = self.plus_product_of_vector(a, v, beta.into(), alpha.into());
        attempt!("addmv", y, self, a, v).called("addmv", &[self, a, v])
    }

    #[track_caller]
    fn plus_product_of_vector(
        &self,
        a: &Tensor,
        v: &Tensor,
        beta: Scalar,
        alpha: Scalar,
    ) -> Result<Tensor> {
        a.check_rank(2, "a matrix")?;
        v.check_rank(1, "a vector")?;
        let x = self.expand([a.shape()[0]]);
        x.recorded()?;
        let y = x.unsqueeze(1).addmm(a, &v.unsqueeze(1), beta, alpha);
        y.recorded()?;
        Ok(y.squeeze(1))
    }

    /// `beta`·x + `alpha`·(a·bᵀ): x broadcasts with all products of the elements of two vectors, `[n]` and `[m]`, of its dtype.
    /// Where `beta` is 0, x is not read.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// assert_eq!(x.addr(&x, &x, 1.0, 10.0).to_vec::<f64>()?, [11.0, 22.0, 21.0, 42.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn addr(
        &self,
        a: &Tensor,
        b: &Tensor,
        beta: impl Into<Scalar>,
        alpha: impl Into<Scalar>,
    ) -> Tensor {
        for vector in [a, b] {
            attempt!("addr", vector.check_rank(1, "a vector"), self, a, b);
        }
        let y = self.addmm(&a.unsqueeze(1), &b.unsqueeze(0), beta, alpha);
        y.called("addr", &[self, a, b])
    }

    /// The product of two or more matrices, in the order of products that takes the fewest multiplications. The first may be a
    /// vector, which is a row, and the last one, which is a column: the result lacks that dimension.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [2, 2], &Device::cpu());
    /// let v = Tensor::ones(2, DType::F64, &Device::cpu());
    /// assert_eq!(Tensor::multi_dot([&x, &x, &v]).to_vec::<f64>()?, [17.0, 37.0]);
    /// assert_eq!(Tensor::multi_dot([&v, &x, &v]).item::<f64>()?, 10.0);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn multi_dot<T: TensorLike>(tensors: impl AsRef<[T]>) -> Tensor {
        let tensors = borrowed(tensors.as_ref());
        match chained(&tensors) {
            Ok(product) => product.called("multi_dot", &tensors),
            Err(error) => Tensor::failed("multi_dot", error, &tensors),
        }
    }
}

#[track_caller]
fn chained(tensors: &[&Tensor]) -> Result<Tensor> {
    let [first, middle @ .., last] = tensors else {
        let why = format!("{} matrices: at least 2 are asked for", tensors.len());
        return Err(Error::argument(why));
    };
    let is_vector = |x: &Tensor| x.check().map(|()| x.rank() == 1);
    let (row, column) = (is_vector(first)?, is_vector(last)?);
    let mut matrices = Vec::with_capacity(tensors.len());
    matrices.push(if row {
        first.unsqueeze(0)
    } else {
        (*first).clone()
    });
    matrices.extend(middle.iter().map(|&x| x.clone()));
    matrices.push(if column {
        last.unsqueeze(1)
    } else {
        (*last).clone()
    });
    let mut sizes = Vec::with_capacity(tensors.len() + 1);
    for matrix in &matrices {
        matrix.check_rank(2, "a matrix")?;
        let [rows, columns] = [matrix.shape()[0], matrix.shape()[1]];
        if sizes.pop().is_some_and(|before| before != rows) {
            let shapes: Vec<String> = tensors.iter().map(|x| x.shape().to_string()).collect();
            return Err(Error::shape(format!("a product of {}", shapes.join(", "))));
        }
        sizes.extend([rows, columns]);
    }
    let product = Cuts::of(&sizes).product(&matrices, 0, matrices.len() - 1);
    product.recorded()?;
    let product = if column { product.squeeze(1) } else { product };
    Ok(if row { product.squeeze(0) } else { product })
}
