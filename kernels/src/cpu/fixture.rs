//! Arrays for tests: made from binary64 values, and read back as such.

use super::number::{Number, Wide, with_type};
use crate::{Arg, ArgMeta, Array};
use ferrotrace_runtime::{Buffer, DType, Device, Layout, Shape};

/// A dense array of these values.
pub fn of(dtype: DType, dims: &[usize], values: &[f64]) -> Array {
    let shape = Shape::new(dims);
    assert_eq!(shape.numel(), values.len());
    let buffer = with_type!(dtype, T => {
        let values: Vec<T> =
            values.iter().map(|&v| T::narrow(<T as Number>::Wide::from_f64(v))).collect();
        Buffer::from_slice(&Device::cpu(), &values).expect("memory")
    });
    Array {
        buffer,
        layout: Layout::contiguous(shape),
        dtype,
    }
}

/// An array of these values behind strides: stored with dimensions in another order, after three other elements.
pub fn strided(dtype: DType, dims: &[usize], values: &[f64]) -> Array {
    let rank = dims.len();
    let order: Vec<usize> = (0..rank).rev().collect();
    let stored: Vec<usize> = order.iter().map(|&d| dims[d]).collect();
    let layout = Layout::contiguous(Shape::new(dims)).permute(&order);
    let mut moved = vec![0.0; 3];
    moved.extend(layout.offsets().map(|at| values[at]));
    let flat = of(dtype, &[moved.len()], &moved);
    let dense = Layout::new(Shape::new(&stored), Shape::new(&stored).strides(), 3);
    flat.with_layout(dense.permute(&order))
}

/// The values in row-major order.
pub fn read(x: &Array) -> Vec<f64> {
    with_type!(x.dtype, T => {
        let all = x.buffer.as_slice::<T>();
        x.layout.offsets().map(|at| all[at].wide().to_f64()).collect()
    })
}

/// `n` integers in `low..=high`, the same for the same seed.
pub fn integers(n: usize, seed: u64, low: i64, high: i64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e3779b97f4a7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (low + (state >> 33) as i64 % (high - low + 1)) as f64
    };
    (0..n).map(|_| next()).collect()
}

/// The operands as rules see them.
pub fn metas(args: &[Arg]) -> Vec<ArgMeta<'_>> {
    args.iter()
        .map(|arg| match arg {
            Arg::Array(x) => ArgMeta::Tensor(x.shape(), x.dtype),
            Arg::Scalar(value) => ArgMeta::Scalar(*value),
        })
        .collect()
}

/// The multi-index of element `flat` of a row-major array.
pub fn index_of(mut flat: usize, dims: &[usize]) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    for d in (0..dims.len()).rev() {
        index[d] = flat % dims[d];
        flat /= dims[d];
    }
    index
}

/// The row-major position of a multi-index.
pub fn flat(index: &[usize], dims: &[usize]) -> usize {
    index.iter().zip(dims).fold(0, |at, (i, d)| at * d + i)
}
