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

/// An element of the image for each position of the grid.
struct Tap {
    /// Its place, a whole number inside the image.
    at: Tensor,
    /// Whether the grid asks for this place; it asks for one outside where not. `None` where all are inside.
    inside: Option<Tensor>,
    /// Its weight; `None` where no other element is read.
    weight: Option<Tensor>,
}

impl Tap {
    /// The element at a place along a dimension of size `n`, which may lie outside.
    fn new(place: &Tensor, n: usize, weight: Option<Tensor>) -> Tap {
        let inside = place.ge(0.0).logical_and(&place.lt(n as f64));
        Tap {
            at: inside.where_cond(place, 0.0).to_dtype(DType::I64),
            inside: Some(inside),
            weight,
        }
    }

    /// The element at a place inside a dimension of size `n`. The last place may be rounded up to `n`.
    fn inside(place: &Tensor, n: usize, weight: Option<Tensor>) -> Tap {
        Tap {
            at: place.to_dtype(DType::I64).clamp_max(n as i64 - 1),
            inside: None,
            weight,
        }
    }

    /// The element that this one, of the dimensions before, and one along the next dimension name together. `rows` is this
    /// one's place times the size of the next dimension.
    fn joined(&self, rows: &Tensor, other: &Tap) -> Tap {
        let both = |a: &Option<Tensor>, b: &Option<Tensor>, f: fn(&Tensor, &Tensor) -> Tensor| {
            match (a, b) {
                (Some(a), Some(b)) => Some(f(a, b)),
                (a, b) => a.as_ref().or(b.as_ref()).cloned(),
            }
        };
        Tap {
            at: rows + &other.at,
            inside: both(&self.inside, &other.inside, |a, b| a.logical_and(b)),
            weight: both(&self.weight, &other.weight, |a, b| a * b),
        }
    }
}

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

    /// Elements along a dimension of size `n`, by which a place between them is computed.
    fn taps(self, at: &Tensor, n: usize) -> Vec<Tap> {
        let at = self.places(at, n);
        let tap = |place: &Tensor, weight| match self.padding {
            GridPadding::Zeros => Tap::new(place, n, weight),
            GridPadding::Border | GridPadding::Reflection => Tap::inside(place, n, weight),
        };
        match self.kind {
            Interpolation::Nearest => vec![tap(&self.within(at, n).round(), None)],
            Interpolation::Bicubic => {
                let low = at.floor();
                let weights = cubic_weights(&(&at - &low)).into_iter();
                let tap = |(j, weight)| tap(&self.within(&low + (j as f64 - 1.0), n), Some(weight));
                weights.enumerate().map(tap).collect()
            }
            _ => {
                let at = self.within(at, n);
                let low = at.floor();
                let part = &at - &low;
                // Behind the last element there is one of weight 0.
                let next = Tap::new(&(&low + 1.0), n, Some(part.clone()));
                vec![tap(&low, Some(1.0 - part)), next]
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

/// Elements of images, `[N, C, sizes..]`, at places of their flat planes.
fn elements(x: &Tensor, at: &Tensor) -> Tensor {
    let (batch, channels) = (x.shape()[0], x.shape()[1]);
    let plane = x.shape()[2..].iter().product::<usize>();
    let asked = at.shape()[1..].iter().product::<usize>();
    let flat = at.reshape([batch, 1, asked]);
    let found = x
        .reshape([batch, channels, plane])
        .gather(2, &flat.expand([batch, channels, asked]));
    found.reshape([&[batch, channels], &at.shape()[1..]].concat())
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
        let mut all: Vec<Tap> = Vec::new();
        for (d, &n) in own[2..].iter().enumerate() {
            // A grid's last dimension counts from the last dimension of images.
            let taps = positions.taps(&grid.select(-1, (rank - 1 - d) as isize), n);
            if d == 0 {
                all = taps;
                continue;
            }
            let mut joint = Vec::with_capacity(all.len() * taps.len());
            for before in &all {
                let rows = &before.at * n as i64;
                joint.extend(taps.iter().map(|tap| before.joined(&rows, tap)));
            }
            all = joint;
        }
        let mut sum: Option<Tensor> = None;
        for tap in all {
            let found = elements(&x, &tap.at);
            let inside = tap.inside.map(|inside| inside.unsqueeze(1));
            let seen = |x: Tensor| match &inside {
                None => x,
                Some(inside) => inside.where_cond(&x, 0.0),
            };
            let value = match tap.weight.map(|weight| weight.unsqueeze(1)) {
                None => seen(found),
                // Zeros beyond a volume are not weighted: a position that is no number has no weights.
                Some(weight) if rank == 3 => seen(found * seen(weight)),
                Some(weight) => seen(found) * weight,
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
