//! Tables of vectors.

use super::{Init, Module};
use crate::{DType, Device, Tensor, TensorStruct};

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
