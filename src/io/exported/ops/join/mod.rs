//! Tensors joined, repeated, padded and rearranged.

pub(super) mod stack;

use super::Table;
use crate::io::exported::call::{Call, Results, all, one};
use crate::{DType, Error, PadMode, Result, Tensor};

/// Tensors joined; those of one empty dimension are left out, as PyTorch does.
fn joined(c: &Call<'_>) -> Results {
    let tensors = c.tensors("tensors")?;
    let is_nothing = |x: &Tensor| x.dims() == [0];
    let kept: Vec<&Tensor> = match tensors.iter().all(|x| is_nothing(x)) {
        true => tensors,
        false => tensors.into_iter().filter(|x| !is_nothing(x)).collect(),
    };
    one(Tensor::cat(kept, c.dim_or("dim", 0)?))
}

/// At least so many dimensions.
fn at_least(x: &Tensor, rank: usize) -> Tensor {
    let mut dims = x.dims().to_vec();
    while dims.len() < rank {
        dims.insert(0, 1);
    }
    x.reshape(dims)
}

/// Paddings in PyTorch's order, from the last dimension on, before and after.
pub(in crate::io::exported::ops) fn paddings(
    pads: &[i64],
    rank: usize,
) -> Result<Vec<(isize, isize)>> {
    if !pads.len().is_multiple_of(2) || pads.len() / 2 > rank {
        let n = pads.len();
        return Err(Error::argument(format!(
            "{n} paddings of a tensor of rank {rank}"
        )));
    }
    let mut all = vec![(0, 0); rank];
    for (i, pair) in pads.chunks(2).enumerate() {
        all[rank - 1 - i] = (pair[0] as isize, pair[1] as isize);
    }
    Ok(all)
}

/// Edges repeated, where some are taken away.
fn replicated(x: &Tensor, pads: &[(isize, isize)]) -> Tensor {
    let mut y = x.clone();
    for (d, &(before, after)) in pads.iter().enumerate() {
        let n = x.dims()[d] as isize;
        if (before, after) == (0, 0) || n == 0 {
            continue;
        }
        let m = (n + before + after).max(0);
        let at: Vec<i64> = (0..m)
            .map(|i| (i - before).clamp(0, n - 1) as i64)
            .collect();
        y = y.index_select(d, &Tensor::from_vec(at, m as usize, &x.device()));
    }
    y
}

fn padded(c: &Call<'_>, mode: Option<&str>) -> Results {
    let x = c.tensor("self")?;
    let name = if c.has("pad") { "pad" } else { "padding" };
    let pads = paddings(&c.ints(name)?.unwrap_or_default(), x.rank())?;
    let mode = match mode {
        None | Some("constant") => return one(x.pad(&pads, c.scalar_or("value", 0)?)),
        Some("reflect") => PadMode::Reflect,
        Some("replicate") if pads.iter().any(|&(a, b)| a < 0 || b < 0) => {
            return one(replicated(x, &pads));
        }
        Some("replicate") => PadMode::Replicate,
        Some("circular") => PadMode::Circular,
        Some(other) => return Err(Error::unsupported(format!("padding {other:?}"))),
    };
    one(x.pad_with(&pads, mode))
}

fn repeated(c: &Call<'_>, name: &str) -> Results {
    let x = c.tensor("self")?;
    let mut counts = c.sizes(name)?;
    while counts.len() < x.rank() {
        counts.insert(0, 1);
    }
    one(x.repeat(&counts))
}

fn rolled(c: &Call<'_>) -> Results {
    let (x, shifts, dims) = (c.tensor("self")?, c.dims("shifts")?, c.dims("dims")?);
    if dims.is_empty() {
        let shift = shifts.first().copied().unwrap_or(0);
        return one(x.reshape([-1]).roll(shift, 0).reshape(x.dims()));
    }
    let roll = |x: Tensor, (&shift, &dim): (&isize, &isize)| x.roll(shift, dim);
    one(shifts.iter().zip(&dims).fold(x.clone(), roll))
}

fn flipped(c: &Call<'_>) -> Results {
    one(c.tensor("self")?.flip(c.dims("dims")?))
}

fn rotated(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let (a, b) = match c.dims("dims")?[..] {
        [] => (0, 1),
        [a, b] => (a, b),
        _ => return Err(Error::argument("a rotation is in two dimensions")),
    };
    one(x.rot90(c.int_or("k", 1)? as isize, [a, b]))
}

/// Channels as blocks of pixels, and back.
fn shuffled(c: &Call<'_>) -> Results {
    let (x, r) = (c.tensor("self")?, c.size_or("upscale_factor", 1)?);
    let rank = x.rank();
    if rank < 3 || r == 0 {
        return Err(Error::shape(
            "pixels are shuffled in three dimensions at least",
        ));
    }
    let (front, tail) = x.dims().split_at(rank - 3);
    let (channels, h, w) = (tail[0] / (r * r), tail[1], tail[2]);
    let y = x.reshape([&[front.iter().product()], &[channels, r, r, h, w][..]].concat());
    let y = y.permute([0, 1, 4, 2, 5, 3]);
    one(y.reshape([front, &[channels, h * r, w * r]].concat()))
}

fn unshuffled(c: &Call<'_>) -> Results {
    let (x, r) = (c.tensor("self")?, c.size_or("downscale_factor", 1)?);
    let rank = x.rank();
    if rank < 3 || r == 0 {
        return Err(Error::shape(
            "pixels are shuffled in three dimensions at least",
        ));
    }
    let (front, tail) = x.dims().split_at(rank - 3);
    let (channels, h, w) = (tail[0], tail[1] / r, tail[2] / r);
    let y = x.reshape([&[front.iter().product()], &[channels, h, r, w, r][..]].concat());
    let y = y.permute([0, 1, 3, 5, 2, 4]);
    one(y.reshape([front, &[channels * r * r, h, w]].concat()))
}

fn grid(c: &Call<'_>) -> Results {
    let tensors = c.tensors("tensors")?;
    all(match c.text("indexing")? {
        Some("xy") => Tensor::meshgrid_xy(tensors),
        _ => Tensor::meshgrid(tensors),
    })
}

/// All tensors in the one shape that they broadcast to.
pub(super) fn broadcasted(tensors: &[&Tensor]) -> Vec<Tensor> {
    let rank = tensors.iter().map(|x| x.rank()).max().unwrap_or(0);
    let mut shape = vec![1; rank];
    for x in tensors {
        for (size, &n) in shape[rank - x.rank()..].iter_mut().zip(x.dims()) {
            if *size == 1 {
                *size = n;
            }
        }
    }
    let all = tensors.iter();
    all.map(|x| x.broadcast_to(&shape[..])).collect()
}

fn interleaved(c: &Call<'_>) -> Results {
    if !c.has("self") {
        // Positions, each as many times as is asked for.
        let repeats = c.tensor("repeats")?;
        let at = Tensor::arange(0, repeats.numel(), 1, DType::I64, c.device);
        return one(at.repeat_interleave(repeats, 0));
    }
    let x = c.tensor("self")?;
    let (x, dim) = match c.int("dim")? {
        Some(dim) => (x.clone(), dim as isize),
        None => (x.reshape([-1]), 0),
    };
    if let Ok(repeats) = c.tensor("repeats") {
        return one(x.repeat_interleave(repeats, dim));
    }
    one(x.repeat_interleave(c.size_or("repeats", 1)?, dim))
}

/// Windows, distances of their elements, zeros around an image, and distances of windows.
fn patches(c: &Call<'_>) -> Result<[[usize; 2]; 4]> {
    let of = |name, default| -> Result<[usize; 2]> {
        match c.sizes_or(name, &[default, default])?[..] {
            [n] => Ok([n; 2]),
            [rows, columns] => Ok([rows, columns]),
            _ => Err(Error::argument("patches are of two sizes")),
        }
    };
    Ok([
        of("kernel_size", 1)?,
        of("dilation", 1)?,
        of("padding", 0)?,
        of("stride", 1)?,
    ])
}

fn columns(c: &Call<'_>) -> Results {
    let [kernel, dilation, padding, stride] = patches(c)?;
    one(c.tensor("self")?.im2col(kernel, dilation, padding, stride))
}

fn from_columns(c: &Call<'_>) -> Results {
    let [kernel, dilation, padding, stride] = patches(c)?;
    let [rows, columns] = c.sizes("output_size")?[..] else {
        return Err(Error::argument("images are of two sizes"));
    };
    one(c
        .tensor("self")?
        .col2im([rows, columns], kernel, dilation, padding, stride))
}

/// Sequences of unlike lengths as one tensor: shorter ones are continued, or with `padding_side` "left" begun, by a number.
fn sequences(c: &Call<'_>) -> Results {
    let all = c.tensors("sequences")?;
    let lengths: Vec<usize> = all.iter().map(|x| x.dim(0)).collect::<Result<_>>()?;
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let left = c.text("padding_side")? == Some("left");
    let value = c.float_or("padding_value", 0.0)?;
    let filled = |(x, length): (&&Tensor, &usize)| {
        let mut shape = x.dims().to_vec();
        shape[0] = longest - length;
        let rest = Tensor::full(shape, value, x.dtype(), c.device);
        match left {
            true => Tensor::cat([&rest, *x], 0),
            false => Tensor::cat([*x, &rest], 0),
        }
    };
    let filled: Vec<Tensor> = all.iter().zip(&lengths).map(filled).collect();
    one(Tensor::stack(
        filled,
        match c.bool_or("batch_first", false)? {
            true => 0,
            false => 1,
        },
    ))
}

pub(super) const TABLE: Table = &[
    ("cat", "default", joined),
    ("concat", "default", joined),
    ("concatenate", "default", joined),
    ("pad_sequence", "default", sequences),
    ("stack", "default", |c| {
        one(Tensor::stack(c.tensors("tensors")?, c.dim_or("dim", 0)?))
    }),
    ("hstack", "default", |c| {
        let tensors: Vec<Tensor> = c
            .tensors("tensors")?
            .into_iter()
            .map(|x| at_least(x, 1))
            .collect();
        let dim = isize::from(tensors.first().is_some_and(|x| x.rank() > 1));
        one(Tensor::cat(&tensors, dim))
    }),
    ("vstack", "default", |c| {
        let tensors: Vec<Tensor> = c
            .tensors("tensors")?
            .into_iter()
            .map(|x| at_least(x, 2))
            .collect();
        one(Tensor::cat(&tensors, 0))
    }),
    ("atleast_1d", "default", |c| {
        one(at_least(c.tensor("self")?, 1))
    }),
    ("atleast_2d", "default", |c| {
        one(at_least(c.tensor("self")?, 2))
    }),
    ("repeat", "default", |c| repeated(c, "repeats")),
    ("tile", "default", |c| repeated(c, "dims")),
    (
        "repeat_interleave",
        "self_int self_Tensor Tensor",
        interleaved,
    ),
    ("flip", "default", flipped),
    ("fliplr", "default", |c| one(c.tensor("self")?.flip(1))),
    ("flipud", "default", |c| one(c.tensor("self")?.flip(0))),
    ("roll", "default", rolled),
    ("rot90", "default", rotated),
    ("pad", "default", |c| padded(c, c.text("mode")?)),
    ("constant_pad_nd", "default", |c| padded(c, None)),
    ("reflection_pad1d", "default", |c| {
        padded(c, Some("reflect"))
    }),
    ("reflection_pad2d", "default", |c| {
        padded(c, Some("reflect"))
    }),
    ("reflection_pad3d", "default", |c| {
        padded(c, Some("reflect"))
    }),
    ("replication_pad1d", "default", |c| {
        padded(c, Some("replicate"))
    }),
    ("replication_pad2d", "default", |c| {
        padded(c, Some("replicate"))
    }),
    ("replication_pad3d", "default", |c| {
        padded(c, Some("replicate"))
    }),
    ("_pad_circular", "default", |c| padded(c, Some("circular"))),
    ("tril", "default", |c| {
        one(c.tensor("self")?.tril(c.dim_or("diagonal", 0)?))
    }),
    ("triu", "default", |c| {
        one(c.tensor("self")?.triu(c.dim_or("diagonal", 0)?))
    }),
    ("diag", "default", |c| {
        one(c.tensor("self")?.diag(c.dim_or("diagonal", 0)?))
    }),
    ("diag_embed", "default", |c| {
        let (a, b) = (c.dim_or("dim1", -2)?, c.dim_or("dim2", -1)?);
        one(c.tensor("self")?.diag_embed(c.dim_or("offset", 0)?, a, b))
    }),
    ("meshgrid", "default indexing", grid),
    ("broadcast_tensors", "default", |c| {
        all(broadcasted(&c.tensors("tensors")?))
    }),
    ("pixel_shuffle", "default", shuffled),
    ("pixel_unshuffle", "default", unshuffled),
    ("channel_shuffle", "default", |c| {
        one(c.tensor("self")?.channel_shuffle(c.size_or("groups", 1)?))
    }),
    ("native_channel_shuffle", "default", |c| {
        one(c.tensor("self")?.channel_shuffle(c.size_or("groups", 1)?))
    }),
    ("im2col", "default", columns),
    ("col2im", "default", from_columns),
];
