//! Elements read by positions.

use super::Table;
use super::pointwise::{mask, places};
use crate::io::exported::call::{Call, Results, all, one};
use crate::{Bag, BagMode, DType, Error, Result, Tensor};

/// Positions as PyTorch means them: a tensor of bytes is a mask.
pub(super) fn entries(c: &Call<'_>) -> Result<Vec<Option<Tensor>>> {
    let entries = c.optional_tensors("indices")?.into_iter();
    let entry = |x: &Tensor| match x.dtype() {
        DType::U8 => mask(x),
        DType::Bool | DType::I64 => x.clone(),
        _ => x.to_dtype(DType::I64),
    };
    Ok(entries.map(|x| x.map(entry)).collect())
}

/// References to entries.
pub(super) fn borrowed(entries: &[Option<Tensor>]) -> Vec<Option<&Tensor>> {
    entries.iter().map(Option::as_ref).collect()
}

/// Rows of a table for bags of positions, reduced bag by bag; then the bag of each position, how many positions of each bag
/// count, and the offsets.
fn bags(c: &Call<'_>, padding: Option<i64>) -> Results {
    let (weight, at, offsets) = (
        c.tensor("weight")?,
        c.tensor("indices")?,
        c.tensor("offsets")?,
    );
    let last = c.bool_or("include_last_offset", false)?;
    let mut options = Bag::new(match c.int_or("mode", 0)? {
        0 => BagMode::Sum,
        1 => BagMode::Mean,
        _ => BagMode::Max,
    });
    options = options.include_last_offset(last);
    if let Some(weights) = c.tensor_opt("per_sample_weights")? {
        options = options.per_sample_weights(weights);
    }
    let padding = padding.and_then(|row| usize::try_from(row).ok());
    if let Some(row) = padding {
        options = options.padding_idx(row);
    }
    let y = weight.embedding_bag(at, Some(offsets), options);
    let count = offsets.numel().saturating_sub(usize::from(last));
    let starts = offsets.narrow(0, 0, count).to_dtype(DType::I64);
    let line = Tensor::arange(0, at.numel(), 1, DType::I64, c.device);
    let bag = starts.searchsorted(&line, true) - 1;
    let kept = match padding {
        Some(row) => at.ne(row).to_dtype(DType::I64),
        None => Tensor::ones(at.dims(), DType::I64, c.device),
    };
    let counts = Tensor::zeros(count, DType::I64, c.device).index_add(0, &bag, &kept);
    all([y, bag, counts, offsets.clone()])
}

fn is_in(c: &Call<'_>) -> Results {
    let (x, set) = (
        c.tensor_of_either("elements")?,
        c.tensor_of_either("test_elements")?,
    );
    let row = set.reshape([-1]);
    let found = x.unsqueeze(-1).eq(&row).any(-1);
    one(match c.bool_or("invert", false)? {
        true => found.logical_not(),
        false => found,
    })
}

fn one_hot(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let n = match c.int_or("num_classes", -1)? {
        -1 => x.max(..).to_scalar::<i64>()? + 1,
        n => n,
    };
    let n = usize::try_from(n).map_err(|_| Error::argument("a number of classes below 0"))?;
    one(x.one_hot(n))
}

/// Elements at positions along a dimension. A tensor or index of no dimensions is one of one element.
fn gathered(c: &Call<'_>) -> Results {
    let (x, at) = (c.tensor("self")?, c.tensor("index")?);
    if at.numel() == 0 {
        return one(Tensor::zeros(at.dims(), x.dtype(), c.device));
    }
    let line = |x: &Tensor| match x.rank() {
        0 => x.reshape([1]),
        _ => x.clone(),
    };
    let found = line(x).gather(c.dim_or("dim", 0)?, &line(at));
    one(found.reshape(at.dims()))
}

/// Elements of the row of all, at positions that may count from its end.
fn taken(c: &Call<'_>) -> Results {
    let (x, at) = (c.tensor("self")?, c.tensor("index")?);
    let found = x.reshape([-1]).index_select(0, &at.reshape([-1]));
    one(found.reshape(at.dims()))
}

/// Elements at positions, of which those of a mask that is false are a number.
fn masked_index(c: &Call<'_>) -> Results {
    let (x, mask) = (c.tensor("self")?, mask(c.tensor("mask")?));
    let entries = within(&entries(c)?, x, &mask);
    let found = x.index(&borrowed(&entries));
    let mut dims = mask.dims().to_vec();
    dims.resize(found.rank().max(dims.len()), 1);
    one(mask
        .reshape(dims)
        .where_cond(&found, c.scalar_or("fill", 0)?)
        .to_dtype(x.dtype()))
}

/// Positions that lie in a tensor, also where a mask leaves them out.
pub(super) fn within(entries: &[Option<Tensor>], x: &Tensor, mask: &Tensor) -> Vec<Option<Tensor>> {
    let entry = |(at, &n): (&Option<Tensor>, &usize)| {
        let at = at.as_ref()?;
        let inside = at.clamp(-(n as i64), n.max(1) as i64 - 1);
        Some(mask.where_cond(&inside, 0))
    };
    entries.iter().zip(x.dims()).map(entry).collect()
}

/// A table whose rows at indices are no longer than a bound.
fn bounded_rows(c: &Call<'_>) -> Results {
    let (x, at) = (c.tensor("self")?, c.tensor("indices")?);
    let most = c.float_or("max_norm", 0.0)?;
    let norms = x.norm(c.float_or("norm_type", 2.0)?, 1).unsqueeze(1);
    let used = Tensor::zeros(x.dim(0)?, DType::F32, c.device);
    let used = used
        .index_fill(0, &at.reshape([-1]), 1.0)
        .ne(0)
        .unsqueeze(1);
    let long = used.logical_and(&norms.gt(most));
    // What PyTorch adds to a length.
    let factor = most / (&norms + 1e-7);
    one(long.where_cond(&(x * factor), x))
}

pub(super) const TABLE: Table = &[
    ("_unsafe_masked_index", "default", masked_index),
    ("index", "Tensor", |c| {
        one(c.tensor("self")?.index(&borrowed(&entries(c)?)))
    }),
    ("_unsafe_index", "Tensor", |c| {
        one(c.tensor("self")?.index(&borrowed(&entries(c)?)))
    }),
    ("index_select", "default", |c| {
        one(c
            .tensor("self")?
            .index_select(c.dim_or("dim", 0)?, c.tensor("index")?))
    }),
    ("gather", "default", |c| gathered(c)),
    ("select", "Tensor", |c| {
        let (x, dim) = (c.tensor("self")?, c.dim_or("dim", 0)?);
        one(x.index_select(dim, c.tensor("index")?).squeeze(dim))
    }),
    ("take", "default", taken),
    ("take_along_dim", "default", |c| {
        let (x, at) = (c.tensor("self")?, c.tensor("indices")?);
        match c.int("dim")? {
            Some(dim) => one(x.take_along_dim(at, dim as isize)),
            None => one(x.reshape([-1]).gather(0, &at.reshape([-1]))),
        }
    }),
    ("masked_select", "default", |c| {
        let (x, test) = (c.tensor("self")?, mask(c.tensor("mask")?));
        one(x.masked_select(&test))
    }),
    ("nonzero", "default", |c| one(c.tensor("self")?.nonzero())),
    ("nonzero_numpy", "default", |c| {
        all(places(c.tensor("self")?))
    }),
    ("argwhere", "default", |c| one(c.tensor("self")?.nonzero())),
    ("embedding", "default", |c| {
        one(c.tensor("weight")?.embedding(c.tensor("indices")?))
    }),
    ("embedding_renorm", "default", bounded_rows),
    ("embedding_bag", "default", |c| bags(c, None)),
    ("embedding_bag", "padding_idx", |c| {
        let rows = c.tensor("weight")?.dim(0)?;
        let row = c.int("padding_idx")?;
        bags(
            c,
            row.map(|row| if row < 0 { row + rows as i64 } else { row }),
        )
    }),
    ("_embedding_bag", "default", |c| {
        bags(c, c.int("padding_idx")?)
    }),
    ("_embedding_bag_forward_only", "default", |c| {
        bags(c, c.int("padding_idx")?)
    }),
    ("one_hot", "default", one_hot),
    ("isin", "Tensor_Tensor Tensor_Scalar Scalar_Tensor", is_in),
];
