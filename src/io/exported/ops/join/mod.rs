//! Tensors joined, repeated, padded and rearranged.

pub(super) mod stack;

use super::Table;
use super::view::wrapped;
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
fn paddings(pads: &[i64], rank: usize) -> Result<Vec<(isize, isize)>> {
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
    one(match c.int_or("k", 1)?.rem_euclid(4) {
        0 => x.clone(),
        1 => x.transpose(a, b).flip(a),
        2 => x.flip([a, b]),
        _ => x.transpose(a, b).flip(b),
    })
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

/// Channels of groups interleaved.
fn mixed(c: &Call<'_>) -> Results {
    let (x, groups) = (c.tensor("self")?, c.size_or("groups", 1)?.max(1));
    let (n, channels) = (x.dim(0)?, x.dim(1)?);
    let y = x.reshape([n as i64, groups as i64, (channels / groups) as i64, -1]);
    one(y.transpose(1, 2).reshape(x.dims()))
}

/// A matrix with a diagonal.
fn with_diagonal(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let offset = c.dim_or("offset", 0)?;
    let rank = x.rank() + 1;
    let (a, b) = (
        wrapped(c.dim_or("dim1", -2)?, rank)?,
        wrapped(c.dim_or("dim2", -1)?, rank)?,
    );
    let n = x.dim(-1)?;
    let side = n + offset.unsigned_abs();
    let (row, column) = (offset.min(0).unsigned_abs(), offset.max(0).unsigned_abs());
    let mask = Tensor::eye(n, DType::Bool, c.device);
    let square = mask.where_cond(&x.unsqueeze(-1), &x.unsqueeze(-1).zeros_like());
    let mut pads = vec![(0, 0); rank];
    pads[rank - 2] = (row as isize, (side - n - row) as isize);
    pads[rank - 1] = (column as isize, (side - n - column) as isize);
    let y = square.pad(&pads, 0).to_dtype(x.dtype());
    // The last two dimensions at their places; those counted across the diagonal change sides with it.
    let mut order: Vec<usize> = (0..rank - 2).collect();
    let (first, second) = if a < b { (a, b) } else { (b, a) };
    let (at_first, at_second) = if a < b {
        (rank - 2, rank - 1)
    } else {
        (rank - 1, rank - 2)
    };
    order.insert(first, at_first);
    order.insert(second, at_second);
    one(y.permute(order))
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

/// Patches as columns.
fn columns(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let [kernel, dilation, padding, stride] = patches(c)?;
    let batch = x.rank() == 4;
    let x = if batch { x.clone() } else { x.unsqueeze(0) };
    let pad = |d: usize| (padding[d] as isize, padding[d] as isize);
    let x = x.pad(&[(0, 0), (0, 0), pad(0), pad(1)], 0);
    let window = |x: Tensor, dim: usize, d: usize| {
        let span = (kernel[d] - 1) * dilation[d] + 1;
        let y = x.unfold(dim, span, stride[d]);
        y.slice(-1, 0, isize::MAX, dilation[d])
    };
    let y = window(window(x, 2, 0), 3, 1);
    y.error().map_or(Ok(()), Err)?;
    // Samples, channels, rows, columns, then the window's rows and columns.
    let &[n, channels, rows, columns, ..] = y.dims() else {
        return Err(Error::shape("patches of other than images"));
    };
    let y = y.permute([0, 1, 4, 5, 2, 3]);
    let y = y.reshape([n, channels * kernel[0] * kernel[1], rows * columns]);
    one(if batch { y } else { y.squeeze(0) })
}

fn patches(c: &Call<'_>) -> Result<[Vec<usize>; 4]> {
    let of = |name, default| -> Result<Vec<usize>> {
        let mut sizes = c.sizes_or(name, &[default, default])?;
        if sizes.len() == 1 {
            sizes.push(sizes[0]);
        }
        Ok(sizes)
    };
    let all = [
        of("kernel_size", 1)?,
        of("dilation", 1)?,
        of("padding", 0)?,
        of("stride", 1)?,
    ];
    match all.iter().all(|sizes| sizes.len() == 2) && all[0].iter().chain(&all[3]).all(|&n| n > 0) {
        true => Ok(all),
        false => Err(Error::argument("patches are of two sizes")),
    }
}

/// Patches put back, summed where they meet.
fn from_columns(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let [kernel, dilation, padding, stride] = patches(c)?;
    let size = c.sizes("output_size")?;
    let batch = x.rank() == 3;
    let x = if batch { x.clone() } else { x.unsqueeze(0) };
    let spans = |d: usize| {
        (size[d] + 2 * padding[d]).saturating_sub(dilation[d] * (kernel[d] - 1) + 1) / stride[d] + 1
    };
    let (rows, columns) = (spans(0), spans(1));
    let (n, channels) = (x.dim(0)?, x.dim(1)? / (kernel[0] * kernel[1]));
    let (h, w) = (size[0] + 2 * padding[0], size[1] + 2 * padding[1]);
    let mut places = Vec::new();
    for i in 0..kernel[0] {
        for j in 0..kernel[1] {
            for r in 0..rows {
                for k in 0..columns {
                    let (y, x) = (
                        r * stride[0] + i * dilation[0],
                        k * stride[1] + j * dilation[1],
                    );
                    places.push((y * w + x) as i64);
                }
            }
        }
    }
    let count = places.len();
    let at = Tensor::from_vec(places, count, c.device);
    let zeros = Tensor::zeros([n, channels, h * w], x.dtype(), c.device);
    let y = zeros.index_add(2, &at, &x.reshape([n, channels, count]));
    let y = y.reshape([n, channels, h, w]);
    let y = y
        .narrow(2, padding[0] as isize, size[0])
        .narrow(3, padding[1] as isize, size[1]);
    one(if batch { y } else { y.squeeze(0) })
}

pub(super) const TABLE: Table = &[
    ("cat", "default", joined),
    ("concat", "default", joined),
    ("concatenate", "default", joined),
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
    ("diag_embed", "default", with_diagonal),
    ("meshgrid", "default indexing", grid),
    ("broadcast_tensors", "default", |c| {
        all(broadcasted(&c.tensors("tensors")?))
    }),
    ("pixel_shuffle", "default", shuffled),
    ("pixel_unshuffle", "default", unshuffled),
    ("channel_shuffle", "default", mixed),
    ("native_channel_shuffle", "default", mixed),
    ("im2col", "default", columns),
    ("col2im", "default", from_columns),
];
