//! Images sampled at the positions of a grid.

use super::{Table, cubic_weights};
use crate::io::exported::call::{Call, Results, one};
use crate::{DType, Error, Tensor};

/// What lies beyond an image.
#[derive(Clone, Copy, PartialEq)]
enum Border {
    Zeros,
    Edge,
    Mirror,
}

/// How positions between −1 and 1 are meant.
#[derive(Clone, Copy)]
struct Positions {
    border: Border,
    /// −1 and 1 are the middles of the outermost elements, not their outer ends.
    align: bool,
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

    /// Places brought into the image, where its border is not of zeros.
    fn within(self, at: Tensor, n: usize) -> Tensor {
        let n = n as f64;
        match self.border {
            Border::Zeros => at,
            Border::Edge => at.clamp(0.0, n - 1.0),
            Border::Mirror => {
                let (low, span) = if self.align {
                    (0.0, n - 1.0)
                } else {
                    (-0.5, n)
                };
                let from = (at - low).abs();
                if span <= 0.0 {
                    return from * 0.0;
                }
                let turns = (&from / span).floor();
                let rest = from - &turns * span;
                let odd = turns.remainder(2.0).ne(0.0);
                let at = odd.where_cond(&(span - &rest), &rest) + low;
                at.clamp(0.0, n - 1.0)
            }
        }
    }

    /// Elements along a dimension of size `n` and their weights, by which a place between them is computed.
    fn taps(self, at: &Tensor, n: usize, mode: i64) -> Vec<(Tensor, Option<Tensor>)> {
        let at = self.places(at, n);
        match mode {
            1 => vec![(self.within(at, n).round(), None)],
            2 => {
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

/// Elements of images, `[N, C, sizes..]`, at whole places along each dimension; 0 outside.
fn elements(x: &Tensor, places: &[&Tensor]) -> Tensor {
    let sizes = &x.dims()[2..];
    let (mut at, mut inside) = (None, None);
    for (&place, &n) in places.iter().zip(sizes) {
        let is = place.ge(0.0).logical_and(&place.lt(n as f64));
        inside = Some(match inside {
            None => is,
            Some(before) => is.logical_and(&before),
        });
        let place = place.clamp(0.0, n as f64 - 1.0).to_dtype(DType::I64);
        at = Some(match at {
            None => place,
            Some(before) => before * n as i64 + place,
        });
    }
    let (Some(at), Some(inside)) = (at, inside) else {
        return x.clone();
    };
    let (batch, channels) = (x.dims()[0], x.dims()[1]);
    let (all, asked) = (
        sizes.iter().product::<usize>(),
        at.dims()[1..].iter().product::<usize>(),
    );
    let flat = at.reshape([batch, 1, asked]);
    let found = x
        .reshape([batch, channels, all])
        .gather(2, &flat.expand([batch, channels, asked]));
    let shape = [&[batch, channels], &at.dims()[1..]].concat();
    inside.unsqueeze(1).where_cond(&found.reshape(shape), 0.0)
}

fn sampled(c: &Call<'_>) -> Results {
    let (x, grid) = (c.tensor("input")?, c.tensor("grid")?);
    let rank = x.rank().saturating_sub(2);
    if !(2..=3).contains(&rank) || grid.rank() != x.rank() || grid.dim(-1)? != rank {
        return Err(Error::shape(format!(
            "a grid of {} for images of {}",
            grid.shape(),
            x.shape()
        )));
    }
    let dtype = x.dtype();
    let (x, grid) = (x.to_dtype(dtype.compute()), grid.to_dtype(dtype.compute()));
    let mode = c.int_or("interpolation_mode", 0)?;
    let border = match c.int_or("padding_mode", 0)? {
        0 => Border::Zeros,
        1 => Border::Edge,
        _ => Border::Mirror,
    };
    let align = c.bool_or("align_corners", false)?;
    let positions = Positions { border, align };
    // A grid's last dimension counts from the last dimension of images.
    let taps: Vec<_> = (0..rank)
        .map(|d| {
            let at = grid.select(-1, (rank - 1 - d) as isize);
            positions.taps(&at, x.dims()[2 + d], mode)
        })
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
        let mut value = elements(&x, &places);
        let weights = chosen.iter().filter_map(|(_, weight)| weight.as_ref());
        if let Some(weight) = weights.cloned().reduce(|a, b| a * b) {
            value *= weight.unsqueeze(1);
        }
        sum = Some(match sum {
            None => value,
            Some(sum) => sum + value,
        });
    }
    let y = sum.ok_or_else(|| Error::argument("a grid of no dimensions"))?;
    one(y.to_dtype(dtype))
}

/// The positions that affine maps give to the elements of images.
fn affine_grid(c: &Call<'_>) -> Results {
    let theta = c.tensor("theta")?;
    let size = c.sizes("size")?;
    let [n, _, sizes @ ..] = &size[..] else {
        return Err(Error::shape("a grid of no images"));
    };
    let rank = sizes.len();
    if !(2..=3).contains(&rank) {
        return Err(Error::unsupported(format!("a grid of {rank} dimensions")));
    }
    let align = c.bool_or("align_corners", false)?;
    let line = |n: usize| {
        let end = match n {
            0 | 1 => 0.0,
            _ if align => 1.0,
            n => 1.0 - 1.0 / n as f64,
        };
        Tensor::linspace(-end, end, n, theta.dtype(), c.device)
    };
    let mut columns: Vec<Tensor> = Vec::new();
    for d in (0..rank).rev() {
        let mut shape = vec![1; rank];
        shape[d] = sizes[d];
        columns.push(line(sizes[d]).reshape(shape).broadcast_to(sizes));
    }
    columns.push(columns[0].ones_like());
    let count: usize = sizes.iter().product();
    let base = Tensor::stack(&columns, -1).reshape([1, count, rank + 1]);
    let y = base
        .expand([*n, count, rank + 1])
        .matmul(&theta.transpose(1, 2));
    one(y.reshape([&[*n], sizes, &[rank]].concat()))
}

pub(in crate::io::exported::ops) const TABLE: Table = &[
    ("grid_sampler", "default", sampled),
    ("grid_sampler_2d", "default", sampled),
    ("grid_sampler_3d", "default", sampled),
    ("affine_grid_generator", "default", affine_grid),
];
