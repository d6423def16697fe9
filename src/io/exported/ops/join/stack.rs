//! Tensors stacked, combined and shifted in the ways of NumPy's names.

use super::at_least;
use crate::io::exported::call::{Call, Results, all, one};
use crate::io::exported::ops::Table;
use crate::io::exported::ops::view::wrapped;
use crate::{Error, Result, Tensor};

/// At least three dimensions: a new one in front of and behind a row, behind a matrix.
fn deep(x: &Tensor) -> Tensor {
    match *x.dims() {
        [] => x.reshape([1, 1, 1]),
        [n] => x.reshape([1, n, 1]),
        [n, m] => x.reshape([n, m, 1]),
        _ => x.clone(),
    }
}

fn each(c: &Call<'_>, f: impl Fn(&Tensor) -> Tensor) -> Results {
    all(c.tensors("tensors")?.into_iter().map(f))
}

fn joined(c: &Call<'_>, dim: isize, f: impl Fn(&Tensor) -> Tensor) -> Results {
    let tensors: Vec<Tensor> = c.tensors("tensors")?.into_iter().map(f).collect();
    one(Tensor::cat(&tensors, dim))
}

/// All tuples of one element of each tensor.
fn product(c: &Call<'_>) -> Results {
    let tensors = c.tensors("tensors")?;
    if let [x] = tensors[..] {
        return one(x.clone());
    }
    let grids = Tensor::meshgrid(tensors);
    let rows: Vec<Tensor> = grids.iter().map(|x| x.reshape([-1])).collect();
    one(Tensor::stack(&rows, 1))
}

/// Ascending tuples of `r` places among `n`, with repetition or without.
fn tuples(n: usize, r: usize, repeats: bool) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for _ in 0..r {
        let mut longer = Vec::new();
        for tuple in all {
            let from = match tuple.last() {
                None => 0,
                Some(&last) if repeats => last,
                Some(&last) => last + 1,
            };
            for i in from..n as i64 {
                longer.push([&tuple[..], &[i]].concat());
            }
        }
        all = longer;
    }
    all
}

fn combinations(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let r = c.size_or("r", 2)?;
    let places = tuples(x.numel(), r, c.bool_or("with_replacement", false)?);
    let shape = [places.len(), r];
    let at = places.concat();
    let n = at.len();
    let at = Tensor::from_vec(at, n, c.device);
    one(x.index_select(0, &at).reshape(match r {
        0 => vec![0],
        _ => shape.to_vec(),
    }))
}

/// Each tensor in so many parts along a dimension, the last filled with zeros, flat and side by side.
fn chunks(c: &Call<'_>) -> Results {
    let n = c.size_or("num_chunks", 1)?.max(1);
    let tensors = c.tensors("tensors")?;
    let rank = tensors.first().map_or(0, |x| x.rank());
    let dim = wrapped(c.dim_or("dim", 0)?, rank)?;
    let mut flat = Vec::new();
    for x in tensors {
        let size = x.dim(dim)?;
        let room = (size.div_ceil(n) * n - size) as isize;
        let mut pads = vec![(0, 0); x.rank()];
        pads[dim].1 = room;
        let front = &x.dims()[..dim];
        flat.push(
            x.pad(&pads, 0)
                .reshape([front, &[n], &[row(x, dim, n)]].concat()),
        );
    }
    one(Tensor::cat(&flat, dim + 1))
}

/// The elements of one of `n` parts of a tensor along a dimension, for each place before it.
fn row(x: &Tensor, dim: usize, n: usize) -> usize {
    let behind: usize = x.dims()[dim + 1..].iter().product();
    x.dims()[dim].div_ceil(n) * behind
}

/// Places turned by half of each dimension.
fn half_turned(c: &Call<'_>, back: bool) -> Results {
    let x = c.tensor("self")?;
    let dims: Vec<usize> = match c.has("dim") {
        true => c
            .dims("dim")?
            .into_iter()
            .map(|dim| wrapped(dim, x.rank()))
            .collect::<Result<_>>()?,
        false => (0..x.rank()).collect(),
    };
    let turn = |x: Tensor, dim: usize| {
        let n = x.dims()[dim];
        let by = if back { n.div_ceil(2) } else { n / 2 };
        x.roll(by as isize, dim)
    };
    one(dims.into_iter().fold(x.clone(), turn))
}

/// A row as the diagonal of a matrix.
fn flat_diagonal(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?.reshape([-1]);
    one(x.diag(c.dim_or("offset", 0)?))
}

/// The sum over what a smaller shape broadcasts along.
fn summed_to(c: &Call<'_>) -> Results {
    let (x, size) = (c.tensor("self")?, c.sizes("size")?);
    if size.is_empty() {
        return one(x.sum(..));
    }
    if size.len() > x.rank() {
        return Err(Error::shape(format!("{} summed to {size:?}", x.shape())));
    }
    let front = x.rank() - size.len();
    let dims: Vec<usize> = (0..x.rank())
        .filter(|&d| d < front || (size[d - front] == 1 && x.dims()[d] != 1))
        .collect();
    if dims.is_empty() {
        return one(x.clone());
    }
    one(x.sum_keepdim(&dims[..]).reshape(size))
}

pub(in crate::io::exported::ops) const TABLE: Table = &[
    ("atleast_1d", "Sequence", |c| each(c, |x| at_least(x, 1))),
    ("atleast_2d", "Sequence", |c| each(c, |x| at_least(x, 2))),
    ("atleast_3d", "Sequence", |c| each(c, deep)),
    ("atleast_3d", "default", |c| one(deep(c.tensor("self")?))),
    ("dstack", "default", |c| joined(c, 2, deep)),
    ("column_stack", "default", |c| {
        joined(c, 1, |x| match x.rank() {
            0 | 1 => x.reshape([x.numel(), 1]),
            _ => x.clone(),
        })
    }),
    ("block_diag", "default", |c| {
        one(Tensor::block_diag(c.tensors("tensors")?))
    }),
    ("cartesian_prod", "default", product),
    ("combinations", "default", combinations),
    ("_chunk_cat", "default", chunks),
    ("fft_fftshift", "default", |c| half_turned(c, false)),
    ("fft_ifftshift", "default", |c| half_turned(c, true)),
    ("diagflat", "default", flat_diagonal),
    ("sum_to_size", "default", summed_to),
];
