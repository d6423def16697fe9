//! Images sampled at the positions of a grid.

use super::super::attempt;
use super::resample::Interpolation;
use crate::Tensor;
use crate::args::Sizes;
use ferrotrace_runtime::{DType, Error, Result};

/// What [`grid_sample`](Tensor::grid_sample) reads beyond an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GridPadding {
    /// Zeros.
    Zeros,
    /// The nearest element of the border.
    Border,
    /// The image reflected at its border, as often as needed.
    Reflection,
}

/// How positions between −1 and 1 are meant.
#[derive(Clone, Copy)]
struct Positions {
    kind: Interpolation,
    padding: GridPadding,
    /// −1 and 1 are the middles of the outermost elements, not their outer ends.
    align: bool,
    /// Three dimensions, not two.
    volume: bool,
}

/// Whole places along a dimension, and the weights of the elements there.
type Tap = (Tensor, Option<Tensor>);

impl Positions {
    /// Places among `n` elements.
    fn places(self, at: &Tensor, n: usize) -> Tensor {
        let n = n as f64;
        match self.align {
            true => (at + 1.0) * ((n - 1.0) / 2.0),
            false => ((at + 1.0) * n - 1.0) * 0.5,
        }
    }

    /// Places brought into the image, where its border is not of zeros. NaN is at an end, as PyTorch has it.
    fn within(self, at: Tensor, n: usize) -> Tensor {
        let at = match self.padding {
            GridPadding::Zeros => return at,
            GridPadding::Border => at,
            GridPadding::Reflection => self.reflected(&at, n),
        };
        let at = at.clamp(0.0, n as f64 - 1.0);
        let end = if self.volume { n - 1 } else { 0 };
        at.isnan().where_cond(end, &at)
    }

    /// Places reflected at the ends of an image, as often as needed.
    fn reflected(self, at: &Tensor, n: usize) -> Tensor {
        let n = n as f64;
        let (low, span) = match self.align {
            true => (0.0, n - 1.0),
            false => (-0.5, n),
        };
        let from = (at - low).abs();
        if span <= 0.0 {
            return from * 0.0;
        }
        let turns = (&from / span).floor();
        let rest = from - &turns * span;
        let odd = turns.remainder(2.0).ne(0.0);
        odd.where_cond(&(span - &rest), &rest) + low
    }

    /// Elements along a dimension of size `n` and their weights, by which a place between them is computed.
    fn taps(self, at: &Tensor, n: usize) -> Vec<Tap> {
        let at = self.places(at, n);
        match self.kind {
            Interpolation::Nearest => vec![(self.within(at, n).round(), None)],
            Interpolation::Bicubic => {
                let low = at.floor();
                let weights = cubic_weights(&(&at - &low)).into_iter();
                let tap = |(j, weight)| (self.within(&low + (j as f64 - 1.0), n), Some(weight));
                weights.enumerate().map(tap).collect()
            }
            _ => {
                let at = self.within(at, n);
                let low = at.floor();
                let part = &at - &low;
                vec![(low.clone(), Some(1.0 - &part)), (low + 1.0, Some(part))]
            }
        }
    }
}

/// The weights of four elements around a place, which lies a part behind the second, by cubic convolution (Keys 1981).
fn cubic_weights(part: &Tensor) -> [Tensor; 4] {
    let a = -0.75;
    let near = |x: &Tensor| ((x * (a + 2.0) - (a + 3.0)) * x) * x + 1.0;
    let far = |x: &Tensor| ((x * a - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
    let rest = 1.0 - part;
    [
        far(&(part + 1.0)),
        near(part),
        near(&rest),
        far(&(rest + 1.0)),
    ]
}

/// Elements of images, `[N, C, sizes..]`, at whole places along each dimension, and whether they lie inside.
fn elements(x: &Tensor, places: &[&Tensor]) -> Option<(Tensor, Tensor)> {
    let sizes = &x.shape()[2..];
    let (mut at, mut inside): (Option<Tensor>, Option<Tensor>) = (None, None);
    for (&place, &n) in places.iter().zip(sizes) {
        let is = place.ge(0.0).logical_and(&place.lt(n as f64));
        let place = is.where_cond(place, 0.0).to_dtype(DType::I64);
        inside = Some(match inside {
            None => is,
            Some(before) => is.logical_and(&before),
        });
        at = Some(match at {
            None => place,
            Some(before) => before * n as i64 + place,
        });
    }
    let at = at?;
    let (batch, channels) = (x.shape()[0], x.shape()[1]);
    let (all, asked) = (
        sizes.iter().product::<usize>(),
        at.shape()[1..].iter().product::<usize>(),
    );
    let flat = at.reshape([batch, 1, asked]);
    let found = x
        .reshape([batch, channels, all])
        .gather(2, &flat.expand([batch, channels, asked]));
    let shape = [&[batch, channels], &at.shape()[1..]].concat();
    Some((found.reshape(shape), inside?.unsqueeze(1)))
}

impl Tensor {
    /// These images `[N, C, H, W]` sampled at a grid `[N, h, w, 2]` of positions (x, y), which run from −1 to 1 across an
    /// image: `[N, C, h, w]`, of this dtype. Volumes `[N, C, D, H, W]` are sampled at `[N, d, h, w, 3]`. Where
    /// `align_corners`, −1 and 1 are the centres of the outermost elements, else their outer edges. The kind is `Nearest`,
    /// `Bilinear` (of volumes also called `Trilinear`), or, of images alone, `Bicubic`. Both are of floats.
    ///
    /// Infinite and NaN positions are as PyTorch's CPU has them. By `Bicubic` they give NaN. Among zeros they give 0 in volumes and
    /// by `Nearest`, else NaN. With another border an infinite one is a far one to `Border`; the others are at an image's first
    /// or a volume's last element.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// # use ferrotrace_tracer::GridPadding;
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [1, 1, 2, 2], &Device::cpu());
    /// let grid = Tensor::from_slice(&[0.0, 0.0, 1.0, -1.0], [1, 1, 2, 2], &Device::cpu());
    /// let y = x.grid_sample(&grid, Interpolation::Bilinear, GridPadding::Zeros, true);
    /// assert_eq!(y.to_vec::<f64>()?, [2.5, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn grid_sample(
        &self,
        grid: &Tensor,
        kind: Interpolation,
        padding: GridPadding,
        align_corners: bool,
    ) -> Tensor {
        let positions = Positions {
            kind,
            padding,
            align: align_corners,
            volume: self.rank() == 5,
        };
        attempt!("grid_sample", self.sampled(grid, positions), self, grid)
            .called("grid_sample", &[self, grid])
    }

    #[track_caller]
    fn sampled(&self, grid: &Tensor, positions: Positions) -> Result<Tensor> {
        self.check()?;
        grid.check()?;
        let rank = self.rank().saturating_sub(2);
        let (own, asked) = (self.shape(), grid.shape());
        let fits = (2..=3).contains(&rank)
            && asked.rank() == rank + 2
            && asked[rank + 1] == rank
            && asked[0] == own[0];
        if !fits || own[2..].contains(&0) {
            let why = format!("a grid of {asked} for images of {own}");
            return Err(Error::shape(why));
        }
        let takes = match positions.kind {
            Interpolation::Nearest | Interpolation::Bilinear => true,
            Interpolation::Bicubic => rank == 2,
            Interpolation::Trilinear => rank == 3,
            _ => false,
        };
        if !takes {
            let why = format!("{:?} sampling of {rank} dimensions", positions.kind);
            return Err(Error::argument(why));
        }
        let dtype = self.dtype();
        for dtype in [dtype, grid.dtype()] {
            if !dtype.is_float() {
                return Err(Error::untaken("grid_sample", dtype, DType::F32));
            }
        }
        let compute = dtype.compute();
        let (x, grid) = (self.to_dtype(compute), grid.to_dtype(compute));
        // A grid's last dimension counts from the last dimension of images.
        let taps: Vec<Vec<Tap>> = (0..rank)
            .map(|d| positions.taps(&grid.select(-1, (rank - 1 - d) as isize), own[2 + d]))
            .collect();
        let count: usize = taps.iter().map(Vec::len).product();
        let mut sum: Option<Tensor> = None;
        for mut i in 0..count {
            let mut chosen = Vec::new();
            for taps in taps.iter().rev() {
                chosen.push(&taps[i % taps.len()]);
                i /= taps.len();
            }
            chosen.reverse();
            let places: Vec<&Tensor> = chosen.iter().map(|(place, _)| place).collect();
            let weights = chosen.iter().filter_map(|(_, weight)| weight.as_ref());
            let weight = weights.cloned().reduce(|a, b| a * b);
            let Some((found, inside)) = elements(&x, &places) else {
                continue;
            };
            let value = match weight.map(|weight| weight.unsqueeze(1)) {
                None => inside.where_cond(&found, 0.0),
                // Zeros beyond a volume are not weighted: a position that is no number has no weights.
                Some(weight) if rank == 3 => {
                    let weight = inside.where_cond(&weight, 0.0);
                    inside.where_cond(&(found * weight), 0.0)
                }
                Some(weight) => inside.where_cond(&found, 0.0) * weight,
            };
            sum = Some(match sum {
                None => value,
                Some(sum) => sum + value,
            });
        }
        let y = sum.ok_or_else(|| Error::argument("a grid of no dimensions"))?;
        Ok(y.to_dtype(dtype))
    }

    /// The grid for [`grid_sample`](Tensor::grid_sample) of images of `size`, `[N, C, H, W]`, by affine maps `[N, 2, 3]`, from
    /// positions in the result to positions in the image: `[N, H, W, 2]`. For volumes `[N, C, D, H, W]`, maps are
    /// `[N, 3, 4]` and the grid is `[N, D, H, W, 3]`. It has the maps' dtype, which is of floats.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let turned = Tensor::from_slice(&[0.0, 1.0, 0.0, -1.0, 0.0, 0.0], [1, 2, 3], &Device::cpu());
    /// let grid = turned.affine_grid([1, 1, 1, 2], true);
    /// assert_eq!(grid.to_vec::<f64>()?, [0.0, 1.0, 0.0, -1.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn affine_grid(&self, size: impl Into<Sizes>, align_corners: bool) -> Tensor {
        let size = size.into();
        let grid = size
            .of(size.count(), "sizes")
            .and_then(|size| self.affine(&size, align_corners));
        attempt!("affine_grid", grid, self).called("affine_grid", &[self])
    }

    #[track_caller]
    fn affine(&self, size: &[usize], align: bool) -> Result<Tensor> {
        self.check()?;
        let &[n, _, ref sizes @ ..] = size else {
            return Err(Error::shape("a grid of no images"));
        };
        let rank = sizes.len();
        if !(2..=3).contains(&rank) {
            return Err(Error::unsupported(format!("a grid of {rank} dimensions")));
        }
        if self.shape()[..] != [n, rank, rank + 1] {
            let why = format!("maps of {} for images of {size:?}", self.shape());
            return Err(Error::shape(why));
        }
        if !self.dtype().is_float() {
            return Err(Error::untaken("affine_grid", self.dtype(), DType::F32));
        }
        let line = |n: usize| {
            let end = match n {
                0 | 1 => 0.0,
                _ if align => 1.0,
                n => 1.0 - 1.0 / n as f64,
            };
            Tensor::linspace(-end, end, n, self.dtype(), &self.device())
        };
        let mut columns: Vec<Tensor> = Vec::new();
        for d in (0..rank).rev() {
            let mut shape = vec![1; rank];
            shape[d] = sizes[d];
            columns.push(line(sizes[d]).reshape(shape).broadcast_to(sizes));
        }
        columns.push(columns[0].ones_like());
        let columns: Vec<&Tensor> = columns.iter().collect();
        let count: usize = sizes.iter().product();
        let base = Tensor::stack(&columns, -1).reshape([1, count, rank + 1]);
        let y = base
            .expand([n, count, rank + 1])
            .matmul(&self.transpose(1, 2));
        Ok(y.reshape([&[n], sizes, &[rank]].concat()))
    }
}
