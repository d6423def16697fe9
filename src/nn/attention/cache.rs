//! Keys and values of positions seen before.

use super::MultiHeadAttention;
use crate::{DType, Device, Tensor, TensorStruct};

/// The keys and values of a sequence so far, in memory for a whole one: every step has the same sizes, and so the same
/// plan, whatever the length.
#[derive(Clone, Debug, TensorStruct)]
pub struct KvCache {
    /// `[batch, kv_heads, capacity, size]`.
    pub keys: Tensor,
    /// `[batch, kv_heads, capacity, size]`.
    pub values: Tensor,
    /// How many positions are filled: a 0-d `I64` tensor.
    pub length: Tensor,
}

impl KvCache {
    /// An empty cache for a layer. A position at or above `capacity` is an error when it is computed.
    #[track_caller]
    pub fn of(
        layer: &MultiHeadAttention,
        batch: usize,
        capacity: usize,
        dtype: DType,
        device: &Device,
    ) -> KvCache {
        let size = layer.width().checked_div(layer.heads).unwrap_or(0);
        let shape = [batch, layer.kv_heads, capacity, size];
        KvCache {
            keys: Tensor::zeros(shape, dtype, device),
            values: Tensor::zeros(shape, dtype, device),
            length: Tensor::zeros((), DType::I64, device),
        }
    }

    /// Appends keys and values `[batch, kv_heads, new, size]`; the mask `[new, capacity]` of what each new position sees.
    #[track_caller]
    pub(super) fn append(&mut self, keys: &Tensor, values: &Tensor) -> Tensor {
        let device = self.keys.device();
        let dim = |x: &Tensor| x.dims().get(2).copied().unwrap_or(0);
        let (new, capacity) = (dim(keys), dim(&self.keys));
        let positions = Tensor::arange(0, new, 1, DType::I64, &device) + &self.length;
        let put = |into: &Tensor, x: &Tensor| {
            let x = x.to_dtype(into.dtype());
            into.index_put(&[None, None, Some(&positions)], &x, false)
        };
        self.keys = put(&self.keys, keys);
        self.values = put(&self.values, values);
        self.length = &self.length + new;
        let all = Tensor::arange(0, capacity, 1, DType::I64, &device);
        all.le(positions.unsqueeze(-1))
    }
}
