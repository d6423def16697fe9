//! Tables of vectors.

use super::{Init, Module};
use crate::{Bag, BagMode, DType, Device, Tensor, TensorStruct};

/// The rows of a table at integer positions: `[..]` to `[.., size]`. A position outside the table is an error when the
/// result is computed.
///
/// ```
/// use ferrotrace::nn::{Embedding, Module};
/// use ferrotrace::prelude::*;
///
/// let table = Embedding::new(10, 4, &Device::cpu());
/// let tokens = Tensor::from_slice(&[3i64, 0, 9], 3, &Device::cpu());
/// assert_eq!(table.forward(&tokens).dims(), [3, 4]);
/// ```
#[derive(Clone, Debug, TensorStruct)]
pub struct Embedding {
    /// `[count, size]`.
    pub weight: Tensor,
    /// The position of a row that is not learnt, for padding.
    pub padding: Option<usize>,
}

impl Embedding {
    /// `count` vectors of `size` numbers, standard normal, in F32.
    #[track_caller]
    pub fn new(count: usize, size: usize, device: &Device) -> Embedding {
        let normal = Init::Normal {
            mean: 0.0,
            std: 1.0,
        };
        Embedding {
            weight: normal.tensor([count, size], DType::F32, device),
            padding: None,
        }
    }

    /// The table with zeros at `position`, which get no gradient.
    #[track_caller]
    pub fn padding(mut self, position: usize) -> Embedding {
        let at = isize::try_from(position).unwrap_or(isize::MAX);
        let row = self.weight.narrow(0, at, 1).zeros_like();
        let end = at.saturating_add(1);
        self.weight = self.weight.slice_assign(0, at, end, 1, &row);
        self.padding = Some(position);
        self
    }
}

impl Module for Embedding {
    fn forward(&self, positions: &Tensor) -> Tensor {
        let rows = self.weight.embedding(positions);
        match self.padding {
            // The same numbers, without a path to the table where the padding stands.
            Some(padding) => {
                let padded = positions.eq(padding as i64).unsqueeze(-1);
                padded.where_cond(rows.detach(), &rows)
            }
            None => rows,
        }
    }
}

/// Rows of a table, reduced bag by bag: [`Tensor::embedding_bag`], as PyTorch's `nn.EmbeddingBag`.
///
/// ```
/// use ferrotrace::nn::{EmbeddingBag, Module};
/// use ferrotrace::prelude::*;
///
/// let device = Device::cpu();
/// let table = EmbeddingBag::new(10, 4, BagMode::Mean, &device);
/// let tokens = Tensor::from_slice(&[3i64, 0, 9, 1], 4, &device);
/// assert_eq!(table.forward(&tokens.reshape([2, 2])).dims(), [2, 4]);
/// let offsets = Tensor::from_slice(&[0i64, 1, 3], 3, &device);
/// assert_eq!(table.bags(&tokens, &offsets, None).dims(), [3, 4]);
/// ```
#[derive(Clone, Debug, TensorStruct)]
pub struct EmbeddingBag {
    /// `[count, size]`.
    pub weight: Tensor,
    /// What becomes of a bag's rows.
    #[tensor_struct(value)]
    pub mode: BagMode,
    /// The position of a row that counts for nothing and is not learnt.
    pub padding: Option<usize>,
    /// Whether the last offset is the end of the last bag.
    pub include_last_offset: bool,
}

impl EmbeddingBag {
    /// `count` vectors of `size` numbers, standard normal, in F32.
    #[track_caller]
    pub fn new(count: usize, size: usize, mode: BagMode, device: &Device) -> EmbeddingBag {
        EmbeddingBag {
            weight: Embedding::new(count, size, device).weight,
            mode,
            padding: None,
            include_last_offset: false,
        }
    }

    /// The table with zeros at `position`, which count for nothing.
    #[track_caller]
    pub fn padding(mut self, position: usize) -> EmbeddingBag {
        let table = Embedding {
            weight: self.weight,
            padding: None,
        };
        let Embedding { weight, padding } = table.padding(position);
        (self.weight, self.padding) = (weight, padding);
        self
    }

    /// The layer whose last offset is, or is not, the end of the last bag.
    pub fn include_last_offset(mut self, include: bool) -> EmbeddingBag {
        self.include_last_offset = include;
        self
    }

    fn options(&self) -> Bag {
        let bag = Bag::new(self.mode);
        match self.padding {
            Some(row) => bag.padding_idx(row),
            None => bag,
        }
    }

    /// The bags `[bags, size]` of positions of one dimension that begin at `offsets`; sums may weigh each position's row.
    #[track_caller]
    pub fn bags(
        &self,
        positions: &Tensor,
        offsets: &Tensor,
        per_sample_weights: Option<&Tensor>,
    ) -> Tensor {
        let bag = self.options().include_last_offset(self.include_last_offset);
        let bag = match per_sample_weights {
            Some(weights) => bag.per_sample_weights(weights),
            None => bag,
        };
        self.weight.embedding_bag(positions, Some(offsets), bag)
    }
}

impl Module for EmbeddingBag {
    /// The bags of rows of positions, `[bags, length]` to `[bags, size]`.
    fn forward(&self, positions: &Tensor) -> Tensor {
        self.weight.embedding_bag(positions, None, self.options())
    }
}
