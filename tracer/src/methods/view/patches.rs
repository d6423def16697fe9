//! Windows of images as columns of a matrix, and back.

use super::super::attempt;
use crate::Tensor;
use crate::args::Window;
use ferrotrace_runtime::{DType, Error, Result};

/// How windows of a number of rows and columns lie.
struct Patches {
    kernel: [usize; 2],
    dilation: [usize; 2],
    padding: [usize; 2],
    stride: [usize; 2],
}

impl Patches {
    /// Of windows' sizes, the distances of their elements, zeros around the image, and the distances of windows.
    ///
    /// # Errors
    /// Windows have no elements or are nowhere.
    fn of(sizes: [Window<2>; 4]) -> Result<Patches> {
        let [kernel, dilation, padding, stride] = sizes.map(|sizes| sizes.dims());
        if [kernel, dilation, stride].concat().contains(&0) {
            let why = "windows without size, or that are at one place";
            return Err(Error::argument(why));
        }
        Ok(Patches {
            kernel,
            dilation,
            padding,
            stride,
        })
    }

    /// From a window's first place to just past its last, along a dimension.
    fn span(&self, d: usize) -> Option<usize> {
        let reach = (self.kernel[d] - 1).checked_mul(self.dilation[d])?;
        reach.checked_add(1)
    }

    /// How many windows there are along a dimension of size `n`.
    fn count(&self, d: usize, n: usize) -> Result<usize> {
        let padded = self.padding[d]
            .checked_mul(2)
            .and_then(|p| p.checked_add(n));
        let left = match (padded, self.span(d)) {
            (Some(padded), Some(span)) => padded.checked_sub(span),
            _ => None,
        };
        let left = left.ok_or_else(|| {
            let (kernel, padding) = (self.kernel[d], self.padding[d]);
            let why = format!("windows of {kernel} in a dimension of {n} padded by {padding}");
            Error::shape(why)
        })?;
        Ok(left / self.stride[d] + 1)
    }

    /// The places, in a padded dimension, of the elements of each window: `[kernel, windows]`.
    #[track_caller]
    fn places(&self, d: usize, windows: usize, like: &Tensor) -> Tensor {
        let line = |n: usize, step: usize| {
            Tensor::arange(0, n, 1, DType::I64, &like.device()) * step as i64
        };
        let within = line(self.kernel[d], self.dilation[d]);
        within.unsqueeze(1) + line(windows, self.stride[d])
    }

    /// Whether windows lie beside one another and cover an image of this size.
    fn tiles(&self, size: [usize; 2]) -> bool {
        let side = |d: usize| size[d].is_multiple_of(self.kernel[d]);
        self.stride == self.kernel
            && self.padding == [0, 0]
            && side(0)
            && side(1)
            && (0..2).all(|d| self.dilation[d] == 1 || self.kernel[d] == 1)
    }
}

impl Tensor {
    /// The windows of images `[N, C, H, W]` as columns, zeros around the image: `[N, C·kernel elements, windows]`. It is PyTorch's
    /// `functional.unfold`, of which [`unfold`](Tensor::unfold) is the method of tensors. An image without `N` is one of a batch
    /// that has no dimension.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::arange(0, 6, 1, DType::F32, &Device::cpu()).reshape([1, 1, 2, 3]);
    /// let y = x.im2col(2, 1, 0, 1);
    /// assert_eq!(y.dims(), [1, 4, 2]);
    /// assert_eq!(y.select(2, 0).to_vec::<f32>()?, [0.0, 1.0, 3.0, 4.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn im2col(
        &self,
        kernel: impl Into<Window<2>>,
        dilation: impl Into<Window<2>>,
        padding: impl Into<Window<2>>,
        stride: impl Into<Window<2>>,
    ) -> Tensor {
        let patches = Patches::of([
            kernel.into(),
            dilation.into(),
            padding.into(),
            stride.into(),
        ]);
        let y = patches.and_then(|patches| self.columns(&patches));
        attempt!("im2col", y, self).called("im2col", &[self])
    }

    #[track_caller]
    fn columns(&self, patches: &Patches) -> Result<Tensor> {
        self.check()?;
        let x = match self.rank() {
            3 => self.unsqueeze(0),
            _ => self.clone(),
        };
        let &[n, channels, h, w] = &x.shape()[..] else {
            let why = format!("an image [N, C, H, W] or [C, H, W], not {}", self.shape());
            return Err(Error::shape(why));
        };
        let (rows, columns) = (patches.count(0, h)?, patches.count(1, w)?);
        let pad = |d: usize| (patches.padding[d] as isize, patches.padding[d] as isize);
        let mut y = match patches.padding {
            [0, 0] => x,
            _ => x.pad(&[(0, 0), (0, 0), pad(0), pad(1)], 0),
        };
        for d in 0..2 {
            let span = patches.span(d).unwrap_or(usize::MAX);
            y = y.unfold(2 + d, span, patches.stride[d]);
            y = y.slice(-1, 0, isize::MAX, patches.dilation[d]);
        }
        // Samples, channels, rows, columns, then the window's rows and columns.
        let y = y.permute([0, 1, 4, 5, 2, 3]);
        let size = channels * patches.kernel.iter().product::<usize>();
        let y = y.reshape([n, size, rows * columns]);
        Ok(if self.rank() == 3 { y.squeeze(0) } else { y })
    }

    /// Columns that are windows of images put back where [`im2col`](Tensor::im2col) would take them, and added where they meet:
    /// `[N, C·kernel elements, windows]` gives `[N, C, H, W]` of `output_size`. It is PyTorch's `functional.fold`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones([1, 4, 2], DType::F32, &Device::cpu());
    /// let y = x.col2im([2, 3], 2, 1, 0, 1);
    /// assert_eq!(y.to_vec::<f32>()?, [1.0, 2.0, 1.0, 1.0, 2.0, 1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn col2im(
        &self,
        output_size: impl Into<Window<2>>,
        kernel: impl Into<Window<2>>,
        dilation: impl Into<Window<2>>,
        padding: impl Into<Window<2>>,
        stride: impl Into<Window<2>>,
    ) -> Tensor {
        let size = output_size.into().dims();
        let patches = Patches::of([
            kernel.into(),
            dilation.into(),
            padding.into(),
            stride.into(),
        ]);
        let y = patches.and_then(|patches| self.image_of(size, &patches));
        attempt!("col2im", y, self).called("col2im", &[self])
    }

    #[track_caller]
    fn image_of(&self, size: [usize; 2], patches: &Patches) -> Result<Tensor> {
        self.check()?;
        let x = match self.rank() {
            2 => self.unsqueeze(0),
            _ => self.clone(),
        };
        let counts = [patches.count(0, size[0])?, patches.count(1, size[1])?];
        let each: usize = patches.kernel.iter().product();
        let (n, channels) = match x.shape()[..] {
            [n, all, windows] if all.is_multiple_of(each) && windows == counts[0] * counts[1] => {
                (n, all / each)
            }
            _ => {
                let (own, [rows, columns]) = (self.shape(), counts);
                let why =
                    format!("columns {own} of {each} elements for {rows} by {columns} windows");
                return Err(Error::shape(why));
            }
        };
        let [kh, kw] = patches.kernel;
        let parts = x.reshape([n, channels, kh, kw, counts[0], counts[1]]);
        let y = if patches.tiles(size) {
            let tiles = parts.permute([0, 1, 4, 2, 5, 3]);
            tiles.reshape([n, channels, size[0], size[1]])
        } else {
            let padded = [0, 1].map(|d| size[d] + 2 * patches.padding[d]);
            let row = patches.places(0, counts[0], &x) * padded[1] as i64;
            let column = patches.places(1, counts[1], &x);
            let at = row.reshape([kh, 1, counts[0], 1]) + column.reshape([1, kw, 1, counts[1]]);
            let count = at.numel();
            let zeros = Tensor::zeros([n, channels, padded[0] * padded[1]], x.dtype(), &x.device());
            let y = zeros.index_add(
                2,
                &at.reshape([count]),
                &parts.reshape([n, channels, count]),
            );
            let y = y.reshape([n, channels, padded[0], padded[1]]);
            y.narrow(2, patches.padding[0] as isize, size[0]).narrow(
                3,
                patches.padding[1] as isize,
                size[1],
            )
        };
        Ok(if self.rank() == 2 { y.squeeze(0) } else { y })
    }
}
