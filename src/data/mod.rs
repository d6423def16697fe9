//! Batches of data: shuffled, prepared on another thread, and continued where a program stopped.
//!
//! ```
//! use ferrotrace::data::{Loader, Tensors};
//! use ferrotrace::prelude::*;
//!
//! let x = Tensor::arange(0, 10, 1, DType::F32, &Device::cpu());
//! let y = &x * 2.0;
//! let mut loader = Loader::new(Tensors::new([x, y]), 4).shuffle(7);
//! for batch in loader.epoch() {
//!     let [x, y] = &batch[..] else { unreachable!() };
//!     assert!((x * 2.0).allclose(y, 0.0, 0.0)?);
//! }
//! # Ok::<(), Error>(())
//! ```

mod loader;
mod shuffle;

pub use loader::{Epoch, Loader, Position};

use crate::{Device, Tensor};

/// Samples that are taken a batch at a time.
pub trait Dataset: Send + Sync {
    /// Samples of one batch.
    type Batch: Send;

    /// How many samples there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The samples at these positions, each below [`len`](Dataset::len), in this order.
    fn batch(&self, positions: &[usize]) -> Self::Batch;

    /// Does what is left of a batch's work: called on the thread that prefetches.
    fn prepare(&self, _: &Self::Batch) {}
}

/// Samples in tensors: position i is row i (dimension 0) of each. A batch has the rows of each tensor.
#[derive(Clone, Debug)]
pub struct Tensors {
    tensors: Vec<Tensor>,
}

impl Tensors {
    /// Samples in these tensors; there are as many as the shortest has rows, and none in a 0-d one.
    pub fn new(tensors: impl Into<Vec<Tensor>>) -> Tensors {
        Tensors {
            tensors: tensors.into(),
        }
    }
}

impl Dataset for Tensors {
    type Batch = Vec<Tensor>;

    fn len(&self) -> usize {
        let rows = |t: &Tensor| t.dims().first().copied().unwrap_or(0);
        self.tensors.iter().map(rows).min().unwrap_or(0)
    }

    #[track_caller]
    fn batch(&self, positions: &[usize]) -> Vec<Tensor> {
        let first = positions.first().copied().unwrap_or(0);
        let in_a_row = positions.iter().zip(first..).all(|(&p, next)| p == next);
        let device = self.tensors.first().map_or(Device::cpu(), Tensor::device);
        let rows: Vec<i64> = positions.iter().map(|&p| p as i64).collect();
        let rows = Tensor::from_vec(rows, positions.len(), &device);
        let take = |t: &Tensor| match in_a_row {
            true => t.narrow(0, first as isize, positions.len()),
            false => t.index_select(0, &rows),
        };
        self.tensors.iter().map(take).collect()
    }

    fn prepare(&self, batch: &Vec<Tensor>) {
        // A tensor that fails carries its error to whoever reads it.
        let _ = crate::eval(batch);
    }
}

/// Samples by a function that reads the one at a position, and a function that makes a batch of samples.
///
/// ```
/// use ferrotrace::data::{Loader, Samples};
/// use ferrotrace::prelude::*;
///
/// let to_tensor = |squares: Vec<f32>| Tensor::from_slice(&squares, squares.len(), &Device::cpu());
/// let squares = Samples::new(10, |i| (i * i) as f32, to_tensor);
/// let sizes: Vec<usize> = Loader::new(squares, 4).epoch().map(|batch| batch.numel()).collect();
/// assert_eq!(sizes, [4, 4, 2]);
/// ```
pub struct Samples<T, B> {
    len: usize,
    sample: Box<dyn Fn(usize) -> T + Send + Sync>,
    batch: Box<dyn Fn(Vec<T>) -> B + Send + Sync>,
}

impl<T, B> std::fmt::Debug for Samples<T, B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} samples", self.len)
    }
}

impl<T, B> Samples<T, B> {
    /// `len` samples.
    pub fn new(
        len: usize,
        sample: impl Fn(usize) -> T + Send + Sync + 'static,
        batch: impl Fn(Vec<T>) -> B + Send + Sync + 'static,
    ) -> Samples<T, B> {
        Samples {
            len,
            sample: Box::new(sample),
            batch: Box::new(batch),
        }
    }
}

impl<T, B: Send> Dataset for Samples<T, B> {
    type Batch = B;

    fn len(&self) -> usize {
        self.len
    }

    fn batch(&self, positions: &[usize]) -> B {
        (self.batch)(positions.iter().map(|&at| (self.sample)(at)).collect())
    }
}
