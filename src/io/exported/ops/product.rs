//! Products and attention.

use super::Table;
use super::join::broadcasted;
use crate::io::exported::call::{Call, Results, Value, all, of_kind, one};
use crate::{DType, Error, Result, Scalar, Tensor};

/// beta·input + alpha·product; an input times 0 is not read.
fn with_product(c: &Call<'_>, product: Tensor) -> Results {
    let input = c.tensor("self")?;
    let dtype = product.dtype();
    let by = |name| Ok::<_, Error>(of_kind(c.scalar_or(name, 1)?, dtype));
    let (alpha, beta) = (by("alpha")?, by("beta")?);
    let has_input = beta.to_f64() != 0.0;
    if dtype == DType::Bool {
        let product = product.logical_and(alpha);
        return one(match has_input {
            true => product.logical_or(input),
            false => product,
        });
    }
    if alpha.to_f64() == 1.0 && beta.to_f64() == 1.0 {
        return one(input + product);
    }
    // Rounded once.
    let wide = |x: &Tensor| x.to_dtype(x.dtype().compute());
    let product = wide(&product) * alpha;
    let sum = match has_input {
        true => wide(input) * beta + product,
        false => product,
    };
    one(sum.to_dtype(dtype))
}

/// A sum with a product of matrices: the method, but of truth values.
fn plus_product(
    c: &Call<'_>,
    [a, b]: [&str; 2],
    method: fn(&Tensor, &Tensor, &Tensor, Scalar, Scalar) -> Tensor,
) -> Results {
    let (x, a, b) = (c.tensor("self")?, c.tensor(a)?, c.tensor(b)?);
    if x.dtype() == DType::Bool {
        return with_product(c, a.matmul(b));
    }
    let by = |name| Ok::<_, Error>(of_kind(c.scalar_or(name, 1)?, x.dtype()));
    one(method(x, a, b, by("beta")?, by("alpha")?))
}

/// The sum of the products of a batch, as one product.
fn summed_products(c: &Call<'_>) -> Result<Tensor> {
    let (a, b) = (c.tensor("batch1")?, c.tensor("batch2")?);
    let (&[batch, rows, inner], &[_, _, columns]) = (a.dims(), b.dims()) else {
        return Err(Error::shape("products of other than batches of matrices"));
    };
    let a = a.transpose(0, 1).reshape([rows, batch * inner]);
    Ok(a.matmul(&b.reshape([batch * inner, columns])))
}

/// Heads of queries that share one of keys and values as a dimension of their own, `[.., heads of keys, shared, T, D]`, which
/// keys, values and a mask are broadcast along.
fn grouped(
    [q, k, v]: [&Tensor; 3],
    mask: Option<&Tensor>,
    shared: usize,
) -> Result<([Tensor; 3], Option<Tensor>)> {
    let split = |x: &Tensor| -> Result<Tensor> {
        let mut sizes = x.dims().to_vec();
        let at = sizes.len() - 3;
        sizes[at] /= shared;
        sizes.insert(at + 1, shared);
        Ok(x.reshape(sizes))
    };
    let mask = match mask {
        Some(mask) if mask.rank() >= 3 && mask.dim(-3)? == q.dim(-3)? => Some(split(mask)?),
        Some(mask) if mask.rank() >= 3 => Some(mask.unsqueeze(-3)),
        mask => mask.cloned(),
    };
    Ok(([split(q)?, k.unsqueeze(-3), v.unsqueeze(-3)], mask))
}

fn mask_of<'a>(c: &Call<'a>) -> Result<Option<&'a Tensor>> {
    match c.tensor_opt("attn_mask")? {
        None => c.tensor_opt("attn_bias"),
        mask => Ok(mask),
    }
}

/// The factor of scores where none is given.
fn scale_of(q: &Tensor) -> Result<f64> {
    Ok(1.0 / (q.dim(-1)? as f64).sqrt())
}

/// Scores of which those that are not to be seen are −∞.
fn masked(c: &Call<'_>, mut scores: Tensor, mask: Option<&Tensor>) -> Result<Tensor> {
    if c.bool_or("is_causal", false)? {
        let (n, m) = (scores.dim(-2)?, scores.dim(-1)?);
        let seen = Tensor::ones([n, m], DType::Bool, c.device).tril(0);
        scores = seen.where_cond(&scores, f64::NEG_INFINITY);
    }
    Ok(match mask {
        Some(mask) if mask.dtype() == DType::Bool => mask.where_cond(&scores, f64::NEG_INFINITY),
        Some(mask) => scores + mask,
        None => scores,
    })
}

/// Attention, whose keys and values may have fewer heads than the queries.
fn attention(c: &Call<'_>) -> Result<Tensor> {
    let (q, k, v) = (c.tensor("query")?, c.tensor("key")?, c.tensor("value")?);
    let mask = mask_of(c)?;
    let heads = |x: &Tensor| match x.rank() {
        0..3 => 1,
        rank => x.dims()[rank - 3],
    };
    let (all, keys) = (heads(q), heads(k));
    let shares = keys > 0 && all > keys && all.is_multiple_of(keys) && heads(v) == keys;
    if !c.bool_or("enable_gqa", false)? || !shares {
        return weighted(c, [q, k, v], mask);
    }
    let ([q, k, v], mask) = grouped([q, k, v], mask, all / keys)?;
    let y = weighted(c, [&q, &k, &v], mask.as_ref())?;
    y.error().map_or(Ok(()), Err)?;
    let mut sizes = y.dims().to_vec();
    let at = sizes.len() - 4;
    sizes[at] *= sizes.remove(at + 1);
    Ok(y.reshape(sizes))
}

/// Attention of queries that have keys and values of their own.
fn weighted(c: &Call<'_>, [q, k, v]: [&Tensor; 3], mask: Option<&Tensor>) -> Result<Tensor> {
    let dropout = c.float_or("dropout_p", 0.0)?;
    let causal = c.bool_or("is_causal", false)?;
    let scale = c
        .has("scale")
        .then(|| c.float_or("scale", 1.0))
        .transpose()?;
    if dropout == 0.0 {
        return Ok(Tensor::scaled_dot_product_attention(
            q, k, v, mask, causal, scale,
        ));
    }
    let scale = scale.unwrap_or(scale_of(q)?);
    let scores = masked(c, (q * scale).matmul(&k.transpose(-2, -1)), mask)?;
    Ok(scores.softmax(-1).dropout(dropout).matmul(v))
}

/// Attention as the operators of its kernels: the result, and the logarithms of the sums that its weights are over.
fn attention_with_sums(c: &Call<'_>) -> Results {
    let y = attention(c)?;
    let (q, k) = (c.tensor("query")?, c.tensor("key")?);
    let (mask, scale) = (mask_of(c)?, c.float_or("scale", scale_of(q)?)?);
    let wide = |x: &Tensor| x.to_dtype(x.dtype().compute());
    let scores = wide(q).matmul(&wide(k).transpose(-2, -1)) * scale;
    let sums = masked(c, scores, mask)?.logsumexp(-1);
    let none = Value::None;
    Ok(vec![
        Value::Tensor(y),
        Value::Tensor(sums),
        none.clone(),
        none.clone(),
        Value::Int(0),
        Value::Int(0),
        none.clone(),
        none.clone(),
        none,
    ])
}

fn einsum(c: &Call<'_>) -> Results {
    let equation = c
        .text("equation")?
        .ok_or_else(|| Error::argument("no equation is given"))?;
    one(Tensor::einsum(equation, &c.tensors("tensors")?))
}

fn distances(c: &Call<'_>) -> Results {
    let (a, b) = (c.tensor("x1")?, c.tensor("x2")?);
    let apart = a.unsqueeze(-2) - b.unsqueeze(-3);
    one(apart.norm(c.float_or("p", 2.0)?, -1))
}

fn cosine(c: &Call<'_>) -> Results {
    let (a, b) = (c.tensor("x1")?, c.tensor("x2")?);
    let (dim, eps) = (c.dim_or("dim", 1)?, c.float_or("eps", 1e-8)?);
    let dtype = a.dtype();
    // Norms are of what a dimension broadcasts to.
    let both = broadcasted(&[a, b]).into_iter();
    let both: Vec<Tensor> = both.map(|x| x.to_dtype(dtype.compute())).collect();
    let unit = |x: &Tensor| x / x.norm_keepdim(2.0, dim).clamp_min(eps);
    one((unit(&both[0]) * unit(&both[1])).sum(dim).to_dtype(dtype))
}

fn cross(c: &Call<'_>, default: isize) -> Results {
    let (a, b) = (c.tensor("self")?, c.tensor("other")?);
    let dim = c.dim_or("dim", default)?;
    let of = |x: &Tensor, i: isize| x.select(dim, i);
    let part = |i: isize, j: isize| of(a, i) * of(b, j) - of(a, j) * of(b, i);
    one(Tensor::stack(&[&part(1, 2), &part(2, 0), &part(0, 1)], dim))
}

fn linear(c: &Call<'_>) -> Results {
    let (x, w, bias) = (
        c.tensor("input")?,
        c.tensor("weight")?,
        c.tensor_opt("bias")?,
    );
    if w.rank() == 1 {
        let y = x.matmul(w);
        return one(match bias {
            Some(bias) => y + bias,
            None => y,
        });
    }
    one(x.linear(w, bias))
}

/// The product of a list of matrices, whose first and last may be vectors.
fn chained(c: &Call<'_>) -> Results {
    let name = if c.has("matrices") {
        "matrices"
    } else {
        "tensors"
    };
    let matrices = c.tensors(name)?;
    let (first, rest) = matrices
        .split_first()
        .ok_or_else(|| Error::argument("no matrices are given"))?;
    one(rest
        .iter()
        .fold((*first).clone(), |product, x| product.matmul(x)))
}

fn power(c: &Call<'_>) -> Results {
    one(c.tensor("self")?.matrix_power(c.int_or("n", 1)?))
}

fn pairs(c: &Call<'_>) -> Results {
    one(c.tensor("self")?.pdist(c.float_or("p", 2.0)?))
}

/// Rows times the matrix of their group: group `e` ends before row `offs[e]`. Rows behind all groups are zeros.
///
/// Nothing is read of the offsets: few rows take a matrix each, many are multiplied with every matrix.
fn grouped_products(c: &Call<'_>, rows: &str, matrices: &str, ends: &str) -> Results {
    let (x, w) = (c.tensor(rows)?, c.tensor(matrices)?);
    let dtype = c.dtype("out_dtype")?.unwrap_or(x.dtype());
    let Some(ends) = c.tensor_opt(ends)? else {
        return one(x.matmul(w).to_dtype(dtype));
    };
    let (2, 3) = (x.rank(), w.rank()) else {
        return Err(Error::unsupported(
            "groups of other than rows with a matrix each",
        ));
    };
    if c.has("bias") {
        return Err(Error::unsupported("a bias of grouped products"));
    }
    let (count, groups) = (x.dim(0)?, w.dim(0)?);
    let line = Tensor::arange(0, count, 1, ends.dtype(), c.device);
    let group = ends.searchsorted(&line, true);
    let known = group.lt(groups as i64).unsqueeze(1);
    if count <= groups {
        let at = group.clamp(0, groups.max(1) as i64 - 1);
        let y = x.unsqueeze(1).matmul(&w.index_select(0, &at)).squeeze(1);
        return one(known.where_cond(&y, 0.0).to_dtype(dtype));
    }
    let mut y = Tensor::zeros([count, w.dim(2)?], dtype, c.device);
    for i in 0..groups {
        let own = x.matmul(&w.select(0, i as isize)).to_dtype(dtype);
        y = group.eq(i as i64).unsqueeze(1).where_cond(&own, &y);
    }
    one(y)
}

pub(super) const TABLE: Table = &[
    ("mm", "default", |c| {
        one(c.tensor("self")?.matmul(c.tensor("mat2")?))
    }),
    ("_int_mm", "default", |c| {
        let wide = |name| Ok::<_, Error>(c.tensor(name)?.to_dtype(DType::I32));
        one(wide("self")?.matmul(&wide("mat2")?))
    }),
    ("bmm", "default", |c| {
        one(c.tensor("self")?.matmul(c.tensor("mat2")?))
    }),
    ("matmul", "default", |c| {
        one(c.tensor("self")?.matmul(c.tensor("other")?))
    }),
    ("linalg_matmul", "default", |c| {
        one(c.tensor("self")?.matmul(c.tensor("other")?))
    }),
    ("mv", "default", |c| {
        one(c.tensor("self")?.matmul(c.tensor("vec")?))
    }),
    ("dot", "default", |c| {
        one(c.tensor("self")?.dot(c.tensor("tensor")?))
    }),
    ("vdot", "default", |c| {
        one(c.tensor("self")?.dot(c.tensor("other")?))
    }),
    ("inner", "default", |c| {
        let (a, b) = (c.tensor("self")?, c.tensor("other")?);
        if a.rank() == 0 || b.rank() == 0 {
            return one(a * b);
        }
        let flat = |x: &Tensor| x.reshape([-1, x.dims().last().copied().unwrap_or(1) as i64]);
        let shape = [&a.dims()[..a.rank() - 1], &b.dims()[..b.rank() - 1]].concat();
        one(flat(a).matmul(&flat(b).t()).reshape(shape))
    }),
    ("outer", "default", |c| {
        one(c.tensor("self")?.outer(c.tensor("vec2")?))
    }),
    ("ger", "default", |c| {
        one(c.tensor("self")?.outer(c.tensor("vec2")?))
    }),
    ("addmm", "default", |c| {
        plus_product(c, ["mat1", "mat2"], Tensor::addmm)
    }),
    ("addmv", "default", |c| {
        with_product(c, c.tensor("mat")?.matmul(c.tensor("vec")?))
    }),
    ("addr", "default", |c| {
        with_product(c, c.tensor("vec1")?.outer(c.tensor("vec2")?))
    }),
    ("baddbmm", "default", |c| {
        plus_product(c, ["batch1", "batch2"], Tensor::baddbmm)
    }),
    ("addbmm", "default", |c| {
        with_product(c, summed_products(c)?)
    }),
    ("linear", "default", linear),
    ("einsum", "default", einsum),
    ("bilinear", "default", |c| {
        let (a, b) = (c.tensor("input1")?, c.tensor("input2")?);
        let y = Tensor::einsum("...i,oij,...j->...o", &[a, c.tensor("weight")?, b]);
        one(match c.tensor_opt("bias")? {
            Some(bias) => y + bias,
            None => y,
        })
    }),
    ("chain_matmul", "default", chained),
    ("_trilinear", "default", |c| {
        let mut product: Option<Tensor> = None;
        for (name, places) in [("i1", "expand1"), ("i2", "expand2"), ("i3", "expand3")] {
            let x = c.tensor(name)?.clone();
            let x = c
                .dims(places)?
                .into_iter()
                .fold(x, |x, dim| x.unsqueeze(dim));
            product = Some(match product {
                Some(product) => product * x,
                None => x,
            });
        }
        let product = product.ok_or_else(|| Error::argument("nothing is given"))?;
        one(product.sum(&c.dims("sumdim")?[..]))
    }),
    ("tensordot", "default", |c| {
        let (dims, others) = (c.dims("dims_self")?, c.dims("dims_other")?);
        one(c
            .tensor("self")?
            .tensordot(c.tensor("other")?, &dims[..], &others[..]))
    }),
    ("scaled_dot_product_attention", "default", |c| {
        one(attention(c)?)
    }),
    ("_scaled_dot_product_attention_math", "default", |c| {
        let y = attention(c)?;
        all([y.clone(), y])
    }),
    (
        "_scaled_dot_product_flash_attention_for_cpu",
        "default",
        attention_with_sums,
    ),
    (
        "_scaled_dot_product_flash_attention",
        "default",
        attention_with_sums,
    ),
    (
        "_scaled_dot_product_efficient_attention",
        "default",
        attention_with_sums,
    ),
    (
        "_scaled_dot_product_fused_attention_overrideable",
        "default",
        attention_with_sums,
    ),
    ("cdist", "default", distances),
    ("_cdist_forward", "default", distances),
    ("_pdist_forward", "default", pairs),
    ("pairwise_distance", "default", |c| {
        let (p, eps) = (c.float_or("p", 2.0)?, c.float_or("eps", 1e-6)?);
        let keepdim = c.bool_or("keepdim", false)?;
        one(c
            .tensor("x1")?
            .pairwise_distance(c.tensor("x2")?, p, eps, keepdim))
    }),
    ("cosine_similarity", "default", cosine),
    ("cross", "default", |c| {
        let dims = c.tensor("self")?.dims();
        cross(c, dims.iter().position(|&n| n == 3).unwrap_or(0) as isize)
    }),
    ("linalg_cross", "default", |c| cross(c, -1)),
    ("kron", "default", |c| {
        let (a, b) = (c.tensor("self")?, c.tensor("other")?);
        let rank = a.rank().max(b.rank());
        let spread = |x: &Tensor, back: usize| {
            let mut dims = vec![1; 2 * (rank - x.rank())];
            for &n in x.dims() {
                dims.extend(if back == 0 { [n, 1] } else { [1, n] });
            }
            x.reshape(dims)
        };
        let y = spread(a, 0) * spread(b, 1);
        let dims: Vec<usize> = y
            .dims()
            .chunks(2)
            .map(|pair| pair.iter().product())
            .collect();
        one(y.reshape(dims))
    }),
    ("linalg_vecdot", "default", |c| {
        let (a, b) = (c.tensor("x")?, c.tensor("y")?);
        one((a * b).sum(c.dim_or("dim", -1)?).to_dtype(a.dtype()))
    }),
    ("linalg_vander", "default", |c| {
        let x = c.tensor("x")?;
        let row = if x.rank() == 0 {
            x.reshape(1)
        } else {
            x.clone()
        };
        let columns = c.size_or("N", row.dims()[row.rank() - 1])?;
        let powers = Tensor::arange(0, columns, 1, x.dtype(), c.device);
        one(row.unsqueeze(-1).pow(&powers))
    }),
    ("linalg_multi_dot", "default", chained),
    ("transformers.grouped_mm_fallback.default", "", |c| {
        grouped_products(c, "input", "weight", "offs")
    }),
    ("_grouped_mm", "default", |c| {
        grouped_products(c, "self", "mat2", "offs")
    }),
    ("pdist", "default", pairs),
    ("matrix_power", "default", power),
    ("linalg_matrix_power", "default", power),
];
