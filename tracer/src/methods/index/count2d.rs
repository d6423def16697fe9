//! Counting pairs.

use crate::Tensor;
use ferrotrace_runtime::{DType, Error, Result};

impl Tensor {
    /// How many pairs of an element and the one of `y` beside it fall into each of `bins[0]` by `bins[1]` rectangles of equal
    /// size: the counts, `bins`, in this tensor's floating-point dtype, and the edges of both. Both tensors have one size and
    /// dtype. Ranges and edges are those of [`histogram`](Tensor::histogram): without a range, extremes are read at the call,
    /// which flushes.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[0.0, 1.0, 2.0, 2.0], 4, &Device::cpu());
    /// let y = Tensor::from_slice(&[0.0, 3.0, 4.0, 1.0], 4, &Device::cpu());
    /// let (counts, edges, _) = x.histogram2d(&y, [2, 2], None);
    /// assert_eq!(counts.to_vec::<f64>()?, [1.0, 0.0, 1.0, 2.0]);
    /// assert_eq!(edges.to_vec::<f64>()?, [0.0, 1.0, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn histogram2d(
        &self,
        y: &Tensor,
        bins: [usize; 2],
        ranges: Option<[(f64, f64); 2]>,
    ) -> (Tensor, Tensor, Tensor) {
        const NAME: &str = "histogram2d";
        match self.rectangles(NAME, y, bins, ranges) {
            Ok(found) => {
                let [counts, x, y] = found.map(|of| of.called(NAME, &[self, y]));
                (counts, x, y)
            }
            Err(error) => {
                let failed = Tensor::failed(NAME, error, &[self, y]);
                (failed.clone(), failed.clone(), failed)
            }
        }
    }

    #[track_caller]
    fn rectangles(
        &self,
        name: &str,
        y: &Tensor,
        bins: [usize; 2],
        ranges: Option<[(f64, f64); 2]>,
    ) -> Result<[Tensor; 3]> {
        self.check()?;
        y.check()?;
        if self.shape() != y.shape() || self.dtype() != y.dtype() {
            let (own, other) = (self.shape(), y.shape());
            let (dtype, of) = (self.dtype(), y.dtype());
            let why = format!("pairs of {dtype} {own} and {of} {other}");
            return Err(Error::shape(why));
        }
        let rows = self.binned(name, bins[0], ranges.map(|ranges| ranges[0]))?;
        let columns = y.binned(name, bins[1], ranges.map(|ranges| ranges[1]))?;
        let start = Tensor::zeros(bins, DType::I64, &self.device()).flatten(0, -1);
        start.recorded()?;
        let number = rows.number * bins[1] as i64 + columns.number;
        let counts = start.scatter_add(0, &number, &(rows.counts * columns.counts));
        let counts = counts.reshape(bins).to_dtype(self.dtype());
        Ok([counts, rows.edges, columns.edges])
    }
}
