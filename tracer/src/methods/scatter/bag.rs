//! Rows of a table, reduced bag by bag.

use super::super::attempt;
use super::ReduceOp;
use crate::Tensor;
use ferrotrace_runtime::{DType, Error, Result};

/// What becomes of the rows of a bag in [`embedding_bag`](Tensor::embedding_bag).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BagMode {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The greatest of each column. Rows that are equally great share the gradient.
    Max,
}

/// Options of [`embedding_bag`](Tensor::embedding_bag), which a [`BagMode`] alone is too.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// # use ferrotrace_tracer::{Bag, BagMode};
/// let table = Tensor::from_slice(&[1.0, 2.0, 4.0], [3, 1], &Device::cpu());
/// let idx = Tensor::from_slice(&[2i64, 1, 0, 0], 4, &Device::cpu());
/// let offsets = Tensor::from_slice(&[0i64, 1, 4], 3, &Device::cpu());
/// let bag = Bag::new(BagMode::Mean).padding_idx(0).include_last_offset(true);
/// let y = table.embedding_bag(&idx, Some(&offsets), bag);
/// assert_eq!(y.to_vec::<f64>()?, [4.0, 2.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Bag {
    mode: BagMode,
    per_sample_weights: Option<Tensor>,
    padding_idx: Option<usize>,
    include_last_offset: bool,
}

impl Bag {
    /// Bags without weights and padding, whose offsets are their beginnings alone.
    pub fn new(mode: BagMode) -> Bag {
        Bag {
            mode,
            per_sample_weights: None,
            padding_idx: None,
            include_last_offset: false,
        }
    }

    /// A factor for the row of each position, of the positions' shape and the table's dtype; of sums alone.
    pub fn per_sample_weights(mut self, weights: &Tensor) -> Bag {
        self.per_sample_weights = Some(weights.clone());
        self
    }

    /// The position of a row that counts for nothing and gets no gradient.
    pub fn padding_idx(mut self, row: usize) -> Bag {
        self.padding_idx = Some(row);
        self
    }

    /// Whether the last offset is the end of the last bag, not the beginning of another.
    pub fn include_last_offset(mut self, include: bool) -> Bag {
        self.include_last_offset = include;
        self
    }
}

impl From<BagMode> for Bag {
    fn from(mode: BagMode) -> Bag {
        Bag::new(mode)
    }
}

/// The rows of all positions of some bags.
struct Rows {
    /// `[positions, size]`, or `[bags, length, size]`; zeros of padding.
    rows: Tensor,
    /// Which of them count, where some may not: of their shape but in the last dimension, of size 1.
    counted: Option<Tensor>,
    /// The bag of each of the positions; none where bags are a dimension of their own.
    bags: Option<Tensor>,
    count: usize,
}

impl Rows {
    /// Sums over the bags of something that [`rows`](Rows::rows) has an element of each.
    #[track_caller]
    fn sum(&self, x: &Tensor) -> Tensor {
        let Some(bags) = &self.bags else {
            return x.sum(1);
        };
        let shape = [self.count, x.shape()[1]];
        Tensor::zeros(shape, x.dtype(), &x.device()).index_add(0, bags, x)
    }

    /// How many rows of each bag count: `[bags, 1]`.
    #[track_caller]
    fn numbers(&self) -> Tensor {
        let all = &self.rows.shape()[..self.rows.rank() - 1];
        let one = match &self.counted {
            Some(counted) => counted.to_dtype(DType::I64),
            None => Tensor::ones([all, &[1]].concat(), DType::I64, &self.rows.device()),
        };
        self.sum(&one)
    }

    #[track_caller]
    fn mean(&self) -> Tensor {
        let sum = self.sum(&self.rows);
        match (&self.bags, &self.counted) {
            (None, None) => sum / self.rows.shape()[1].max(1) as f64,
            _ => sum / self.numbers().clamp_min(1).to_dtype(self.rows.dtype()),
        }
    }

    #[track_caller]
    fn most(&self) -> Tensor {
        let low = f64::NEG_INFINITY;
        let rows = match &self.counted {
            Some(counted) => counted.where_cond(&self.rows, low),
            None => self.rows.clone(),
        };
        let most = match &self.bags {
            None if rows.shape()[1] == 0 => return rows.sum(1),
            None if self.counted.is_none() => return rows.max(1),
            None => rows.max(1),
            Some(bags) => {
                let least = Tensor::full(
                    [self.count, rows.shape()[1]],
                    low,
                    rows.dtype(),
                    &rows.device(),
                );
                let at = bags.unsqueeze(1).expand(rows.shape());
                least.scatter_reduce(0, &at, &rows, ReduceOp::Amax, true)
            }
        };
        self.numbers().eq(0).where_cond(0.0, &most)
    }
}

impl Tensor {
    /// The rows of this table, `[count, size]`, at integer positions, reduced bag by bag: `[bags, size]`. Positions
    /// `[bags, length]` are rows of bags. Else positions are of one dimension, and `offsets` say where each bag begins among
    /// them: integers that do not decrease, from 0 on. The result of an empty bag is 0. A position outside the table is an error
    /// when the result is computed.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// # use ferrotrace_tracer::BagMode;
    /// let table = Tensor::from_slice(&[1.0, 2.0, 4.0], [3, 1], &Device::cpu());
    /// let idx = Tensor::from_slice(&[2i64, 1, 0, 0], 4, &Device::cpu());
    /// let offsets = Tensor::from_slice(&[0i64, 3, 3], 3, &Device::cpu());
    /// let sums = table.embedding_bag(&idx, Some(&offsets), BagMode::Sum);
    /// assert_eq!(sums.to_vec::<f64>()?, [7.0, 0.0, 1.0]);
    /// let most = table.embedding_bag(&idx.reshape([2, 2]), None, BagMode::Max);
    /// assert_eq!(most.to_vec::<f64>()?, [4.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn embedding_bag(
        &self,
        idx: &Tensor,
        offsets: Option<&Tensor>,
        options: impl Into<Bag>,
    ) -> Tensor {
        attempt!(
            "embedding_bag",
            self.bagged(idx, offsets, &options.into()),
            self,
            idx
        )
        .called("embedding_bag", &[self, idx])
    }

    #[track_caller]
    fn bagged(&self, idx: &Tensor, offsets: Option<&Tensor>, options: &Bag) -> Result<Tensor> {
        let found = self.bag_rows(idx, offsets, options)?;
        let y = match options.mode {
            BagMode::Sum => found.sum(&found.rows),
            BagMode::Mean => found.mean(),
            BagMode::Max => found.most(),
        };
        Ok(y.to_dtype(self.dtype()))
    }

    #[track_caller]
    fn bag_rows(&self, idx: &Tensor, offsets: Option<&Tensor>, options: &Bag) -> Result<Rows> {
        self.check()?;
        idx.check()?;
        if self.rank() != 2 {
            let why = format!("a table is a matrix, not {}", self.shape());
            return Err(Error::shape(why));
        }
        if !self.dtype().is_float() {
            return Err(Error::untaken("embedding_bag", self.dtype(), DType::F32));
        }
        let (bags, count) = bags_of(idx, offsets, options.include_last_offset)?;
        let mut rows = self.embedding(idx).to_dtype(self.dtype().compute());
        rows.recorded()?;
        if let Some(weights) = &options.per_sample_weights {
            weights.check()?;
            if options.mode != BagMode::Sum {
                return Err(Error::argument("per-sample weights are of sums alone"));
            }
            if weights.shape() != idx.shape() || weights.dtype() != self.dtype() {
                let (is, dtype) = (weights.shape(), weights.dtype());
                let why = format!("weights {dtype} {is} of positions {}", idx.shape());
                return Err(Error::shape(why));
            }
            rows *= weights.to_dtype(self.dtype().compute()).unsqueeze(-1);
        }
        let counted = match options.padding_idx {
            Some(row) if row >= self.shape()[0] => {
                let why = format!("padding {row} of a table of {} rows", self.shape()[0]);
                return Err(Error::argument(why));
            }
            Some(row) => Some(idx.ne(row).unsqueeze(-1)),
            None => None,
        };
        if let Some(counted) = &counted {
            rows = counted.where_cond(&rows, 0.0);
        }
        Ok(Rows {
            rows,
            counted,
            bags,
            count,
        })
    }
}

/// The bag of each position, where bags are not a dimension, and how many there are.
#[track_caller]
fn bags_of(idx: &Tensor, offsets: Option<&Tensor>, last: bool) -> Result<(Option<Tensor>, usize)> {
    let Some(offsets) = offsets else {
        return match idx.shape()[..] {
            [count, _] if !last => Ok((None, count)),
            [_, _] => Err(Error::argument("bags that are rows have no offsets")),
            _ => Err(Error::shape(format!(
                "bags of {} without offsets: positions [bags, length], or offsets",
                idx.shape()
            ))),
        };
    };
    offsets.check()?;
    if idx.rank() != 1 || offsets.rank() != 1 {
        let why = format!(
            "positions {} and offsets {}: one dimension each",
            idx.shape(),
            offsets.shape()
        );
        return Err(Error::shape(why));
    }
    if !offsets.dtype().is_int() {
        return Err(Error::untaken("embedding_bag", offsets.dtype(), DType::I64));
    }
    let count = match (offsets.numel(), last) {
        (0, true) => return Err(Error::argument("the last offset is of none")),
        (n, last) => n - usize::from(last),
    };
    if count == 0 && idx.numel() > 0 {
        return Err(Error::argument("positions of no bags"));
    }
    // As many bags begin at a position or before it as there are up to its own.
    let line = Tensor::arange(0, idx.numel(), 1, DType::I64, &idx.device());
    let starts = offsets.narrow(0, 0, count).to_dtype(DType::I64);
    Ok((Some(starts.searchsorted(&line, true) - 1), count))
}
