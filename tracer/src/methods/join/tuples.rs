//! Tuples of elements.

use super::super::attempt;
use crate::Tensor;
use crate::args::{TensorLike, borrowed};
use ferrotrace_runtime::{Error, Result};

/// Rows of positions below `n`, ascending, in lexicographic order: `r` in each, which may repeat or not.
///
/// # Errors
/// They do not fit in memory.
fn tuples(n: usize, r: usize, repeat: bool) -> Result<Vec<i64>> {
    let mut all = Vec::new();
    let least = |first: usize, i: usize| if repeat { first } else { first + i };
    if r == 0 || n == 0 || !repeat && r > n {
        return Ok(all);
    }
    let mut row: Vec<usize> = (0..r).map(|i| least(0, i)).collect();
    loop {
        let reserved = all.try_reserve(r);
        reserved.map_err(|e| Error::argument(format!("tuples of {r} of {n}: {e}")))?;
        all.extend(row.iter().map(|&at| at as i64));
        // The last position that may still rise.
        let most = |i: usize| if repeat { n - 1 } else { n - r + i };
        let Some(i) = (0..r).rev().find(|&i| row[i] < most(i)) else {
            return Ok(all);
        };
        let first = row[i] + 1;
        (i..r).for_each(|j| row[j] = least(first, j - i));
    }
}

impl Tensor {
    /// Every tuple with an element of each vector (or number, as a vector of one), in lexicographic order of positions: `[rows,
    /// vectors]`; of one vector, that vector. All have one dtype.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let (a, b) = (Tensor::from_slice(&[1, 2], 2, &Device::cpu()), Tensor::from_slice(&[5, 6], 2, &Device::cpu()));
    /// let pairs = Tensor::cartesian_prod(&[&a, &b]);
    /// assert_eq!(pairs.to_vec::<i32>()?, [1, 5, 1, 6, 2, 5, 2, 6]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn cartesian_prod<T: TensorLike>(tensors: impl AsRef<[T]>) -> Tensor {
        let given = borrowed(tensors.as_ref());
        let columns: Vec<Tensor> = Tensor::meshgrid(&given)
            .iter()
            .map(|column| column.reshape(-1))
            .collect();
        match &columns[..] {
            [one] => one.clone(),
            _ => Tensor::stack(&columns, -1).called("cartesian_prod", &given),
        }
    }

    /// Tuples of `r` elements of a vector, `[rows, r]`, in lexicographic order of positions, which ascend; with replacement a
    /// position may repeat. Without it, of fewer elements than `r` there are none.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2, 3], 3, &Device::cpu());
    /// assert_eq!(x.combinations(2, false).to_vec::<i32>()?, [1, 2, 1, 3, 2, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn combinations(&self, r: usize, with_replacement: bool) -> Tensor {
        let tuples = self.tuples(r, with_replacement);
        attempt!("combinations", tuples, self).called("combinations", &[self])
    }

    #[track_caller]
    fn tuples(&self, r: usize, repeat: bool) -> Result<Tensor> {
        self.check()?;
        if self.rank() != 1 {
            return Err(Error::shape(format!("{} is no vector", self.sizes())));
        }
        let at = tuples(self.dim(0)?, r, repeat)?;
        let (count, rows) = (at.len(), at.len() / r.max(1));
        let at = Tensor::from_vec(at, count, &self.device());
        Ok(self.index_select(0, &at).reshape([rows, r]))
    }
}
