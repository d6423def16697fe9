//! Norms of vectors and of matrices.

use super::{cast, keeps};
use crate::io::exported::call::{Arg, Call, Results, one, wide};
use crate::io::exported::ops::Table;
use crate::{Error, Result, Tensor};

/// Which norm.
enum Order {
    Frobenius,
    /// The sum of the singular values.
    Nuclear,
    Power(f64),
}

fn order(c: &Call<'_>, name: &str) -> Result<Option<Order>> {
    Ok(Some(match c.arg(name) {
        None => return Ok(None),
        Some(Arg::Text(order)) if &**order == "fro" => Order::Frobenius,
        Some(Arg::Text(order)) if &**order == "nuc" => Order::Nuclear,
        Some(Arg::Text(order)) => return Err(unknown(&format!("{order:?}"))),
        Some(_) => Order::Power(c.float_or(name, 2.0)?),
    }))
}

fn unknown(order: &str) -> Error {
    Error::argument(format!("a norm of order {order}"))
}

fn of_vectors(c: &Call<'_>, x: &Tensor, p: f64) -> Results {
    let dims = c.dims("dim")?;
    one(match keeps(c)? {
        true => x.norm_keepdim(p, &dims[..]),
        false => x.norm(p, &dims[..]),
    })
}

/// The norm of the matrices in two dimensions.
fn of_matrices(x: &Tensor, order: &Order, dims: &[isize], keepdim: bool) -> Result<Tensor> {
    let &[rows, columns] = dims else {
        let message = format!("a matrix has two dimensions, not {}", dims.len());
        return Err(Error::argument(message));
    };
    let extreme = |sum: isize, of: isize, p: f64| {
        wide(x, |x| {
            let sums = x.abs().sum_keepdim(sum);
            match p > 0.0 {
                // The greatest of no sums is 0.
                true if matches!(x.dim(of), Ok(0)) => sums.sum_keepdim(of),
                true => sums.max_keepdim(of),
                false => sums.min_keepdim(of),
            }
        })
    };
    let singular = || x.movedim(dims, [-2, -1]).svdvals();
    let placed = |y: Tensor| y.unsqueeze(-1).movedim([-2, -1], dims);
    let y = match *order {
        Order::Frobenius => x.norm_keepdim(2.0, dims),
        Order::Nuclear => placed(singular().sum_keepdim(-1)),
        Order::Power(2.0) if x.dims().contains(&0) => placed(singular().sum_keepdim(-1)),
        Order::Power(2.0) => placed(singular().max_keepdim(-1)),
        Order::Power(-2.0) => placed(singular().min_keepdim(-1)),
        Order::Power(p) if p.abs() == 1.0 => extreme(rows, columns, p),
        Order::Power(p) if p.is_infinite() => extreme(columns, rows, p),
        Order::Power(p) => return Err(unknown(&p.to_string())),
    };
    if keepdim {
        return Ok(y);
    }
    let last = |dim: isize| {
        if dim < 0 {
            dim + x.rank() as isize
        } else {
            dim
        }
    };
    let (first, last) = (last(rows).min(last(columns)), last(rows).max(last(columns)));
    Ok(y.squeeze(last).squeeze(first))
}

/// `norm` and `linalg.vector_norm`, which take matrices as vectors.
fn norm(c: &Call<'_>) -> Results {
    let x = cast(c)?;
    let p = match c.has("p") {
        true => c.float_or("p", 2.0)?,
        false => c.float_or("ord", 2.0)?,
    };
    of_vectors(c, &x, p)
}

/// `linalg.norm`: of matrices where an order is given and two dimensions, or none of a matrix.
fn linalg_norm(c: &Call<'_>) -> Results {
    let x = cast(c)?;
    let (given, mut dims) = (c.has("dim"), c.dims("dim")?);
    if !given && x.rank() == 2 {
        dims = vec![-2, -1];
    }
    match order(c, "ord")? {
        None => of_vectors(c, &x, 2.0),
        Some(order) if dims.len() == 2 => one(of_matrices(&x, &order, &dims, keeps(c)?)?),
        Some(Order::Power(p)) => of_vectors(c, &x, p),
        Some(order) => one(of_matrices(&x, &order, &dims, keeps(c)?)?),
    }
}

/// The norm of an order of the matrices in the dimensions that are named, or in the last two.
fn in_dims(c: &Call<'_>, order: &Order) -> Results {
    let dims = match c.has("dim") {
        true => c.dims("dim")?,
        false => vec![-2, -1],
    };
    one(of_matrices(&cast(c)?, order, &dims, keeps(c)?)?)
}

fn matrix_norm(c: &Call<'_>) -> Results {
    in_dims(c, &order(c, "ord")?.unwrap_or(Order::Frobenius))
}

/// How much a matrix enlarges errors: its norm times that of its inverse.
fn condition(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let norm = |x: &Tensor, order: &Order| of_matrices(x, order, &[-2, -1], false);
    one(match order(c, "p")?.unwrap_or(Order::Power(2.0)) {
        Order::Power(p) if p.abs() == 2.0 => {
            norm(x, &Order::Power(p))? / norm(x, &Order::Power(-p))?
        }
        order => norm(x, &order)? * norm(&x.inverse(), &order)?,
    })
}

/// The norms of the slices of one dimension, or of all numbers.
fn except_one(c: &Call<'_>) -> Results {
    let (x, p) = (c.tensor("v")?, c.float_or("pow", 2.0)?);
    let kept = c.dim_or("dim", 0)?;
    if kept == -1 {
        return one(x.norm(p, ..));
    }
    let others: Vec<isize> = (0..x.rank() as isize).filter(|d| *d != kept).collect();
    one(match others.is_empty() {
        true => x.abs(),
        false => x.norm_keepdim(p, &others[..]),
    })
}

pub(in crate::io::exported::ops) const TABLE: Table = &[
    (
        "norm",
        "Scalar ScalarOpt_dim ScalarOpt_dtype ScalarOpt_dim_dtype",
        norm,
    ),
    ("linalg_vector_norm", "default", norm),
    ("norm_except_dim", "default", except_one),
    ("frobenius_norm", "dim", norm),
    ("linalg_norm", "default ord_str", linalg_norm),
    ("linalg_matrix_norm", "default str_ord", matrix_norm),
    ("nuclear_norm", "default dim", |c| {
        in_dims(c, &Order::Nuclear)
    }),
    ("linalg_cond", "default p_str", condition),
];
