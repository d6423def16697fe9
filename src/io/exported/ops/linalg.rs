//! Factorisations of matrices, equations and determinants. Factors of eliminations and their pivots, which operators of
//! kernels give besides, and counts of failures are no results here: what fails is an error.

use super::Table;
use super::norm::epsilon;
use crate::io::exported::call::{Call, Results, Value, one};
use crate::{DType, Error, Result, Tensor};

/// Results, the last of which is PyTorch's number of the first minor that is singular: 0.
fn checked(c: &Call<'_>, results: Vec<Value>) -> Results {
    let x = matrix(c)?;
    let batch = &x.dims()[..x.rank().saturating_sub(2)];
    let info = Tensor::zeros(batch, DType::I32, c.device);
    Ok([results, vec![Value::Tensor(info)]].concat())
}

/// The matrices that an operator factorises, under the names that schemas have for them.
fn matrix<'a>(c: &Call<'a>) -> Result<&'a Tensor> {
    let names = ["A", "input"];
    let name = names.into_iter().find(|name| c.has(name));
    c.tensor(name.unwrap_or("self"))
}

fn turned(x: &Tensor) -> Tensor {
    x.transpose(-2, -1)
}

fn inverse(c: &Call<'_>) -> Results {
    one(matrix(c)?.inverse())
}

/// The solution of equations, with the unknowns on the right of the matrix or on its left.
fn solution(c: &Call<'_>) -> Result<Tensor> {
    let (a, b) = (matrix(c)?, c.tensor("B")?);
    Ok(match c.bool_or("left", true)? {
        true => a.solve(b),
        false => turned(&turned(a).solve(&turned(b))),
    })
}

/// The lower factor, or the upper one.
fn cholesky(c: &Call<'_>) -> Result<Tensor> {
    let x = matrix(c)?;
    Ok(match c.bool_or("upper", false)? {
        // The upper triangle is the one that is given then.
        true => turned(&turned(x).cholesky()),
        false => x.cholesky(),
    })
}

/// The lower factor of a definite matrix that an operator is given as the lower or the upper one.
fn lower(c: &Call<'_>, factor: &Tensor) -> Result<Tensor> {
    Ok(match c.bool_or("upper", false)? {
        true => turned(factor),
        false => factor.clone(),
    })
}

/// Solutions of triangular equations, of which the matrix may be transposed first.
fn triangular(c: &Call<'_>) -> Results {
    let (b, a) = (c.tensor("self")?, c.tensor("A")?);
    let (upper, unit) = (
        c.bool_or("upper", true)?,
        c.bool_or("unitriangular", false)?,
    );
    let x = match c.bool_or("transpose", false)? {
        true => turned(a).solve_triangular(b, !upper, true, unit),
        false => a.solve_triangular(b, upper, true, unit),
    };
    Ok(vec![Value::Tensor(x), Value::Tensor(a.clone())])
}

fn qr(c: &Call<'_>) -> Results {
    let x = matrix(c)?;
    let (m, n) = (x.dim(-2)?, x.dim(-1)?);
    match c.text("mode")?.unwrap_or("reduced") {
        "complete" if m > n => Err(Error::unsupported("a complete QR factorisation")),
        _ => {
            let (q, r) = x.qr();
            Ok(vec![Value::Tensor(q), Value::Tensor(r)])
        }
    }
}

/// The symmetric matrix whose lower triangle is read.
fn symmetric(c: &Call<'_>) -> Result<Tensor> {
    let x = matrix(c)?;
    Ok(match c.text("UPLO")?.unwrap_or("L") {
        "U" | "u" => turned(x),
        _ => x.clone(),
    })
}

fn eigh(c: &Call<'_>) -> Results {
    let x = symmetric(c)?;
    if !c.bool_or("compute_v", true)? {
        return Ok(vec![Value::Tensor(x.eigvalsh()), Value::None]);
    }
    let (values, vectors) = x.eigh();
    Ok(vec![Value::Tensor(values), Value::Tensor(vectors)])
}

/// The singular values and their vectors; `full` asks for vectors beyond the values, which there are where the matrix is square
/// alone.
fn svd(c: &Call<'_>, full: bool) -> Result<[Tensor; 3]> {
    let x = matrix(c)?;
    if full && x.dim(-2)? != x.dim(-1)? {
        return Err(Error::unsupported(
            "singular vectors beyond the singular values",
        ));
    }
    let (u, s, vh) = x.svd();
    Ok([u, s, vh])
}

fn factors(c: &Call<'_>, full: bool) -> Results {
    if !c.bool_or("compute_uv", true)? {
        return Ok(vec![
            Value::None,
            Value::Tensor(matrix(c)?.svdvals()),
            Value::None,
        ]);
    }
    Ok(svd(c, c.bool_or("full_matrices", full)?)?
        .map(Value::Tensor)
        .into())
}

/// The greatest singular value of each matrix that counts as 0: a number, or a part of the greatest value.
fn negligible(c: &Call<'_>, x: &Tensor, values: &Tensor) -> Result<Tensor> {
    // A bound of each matrix stands beside its singular values.
    let bound = |name| -> Result<Option<Tensor>> {
        let bound = match c.has(name) {
            true => c.tensor_of_either(name)?.to_dtype(x.dtype()),
            false => return Ok(None),
        };
        Ok(Some(match bound.rank() {
            0 => bound,
            _ => bound.unsqueeze(-1),
        }))
    };
    if let Some(bound) = bound("tol")? {
        return Ok(bound);
    }
    let step = epsilon(x) * x.dim(-2)?.max(x.dim(-1)?) as f64;
    let least = bound("atol")?;
    let part = match (bound("rtol")?.or(bound("rcond")?), &least) {
        (Some(part), _) => part,
        // A number alone is all that counts.
        (None, Some(least)) => least.gt(0).where_cond(0.0, &least.full_like(step)),
        (None, None) => Tensor::scalar(step, x.dtype(), c.device),
    };
    let part = values.narrow(-1, 0, 1) * part;
    Ok(match least {
        Some(least) => part.maximum(&least),
        None => part,
    })
}

/// The matrix; where it is told to be symmetric, what its lower triangle says.
fn told(c: &Call<'_>) -> Result<Tensor> {
    let x = matrix(c)?;
    Ok(match c.bool_or("hermitian", false)? {
        true => x.tril(0) + turned(&x.tril(-1)),
        false => x.clone(),
    })
}

fn pseudoinverse(c: &Call<'_>) -> Results {
    let x = told(c)?;
    if !["rcond", "rtol", "atol"].iter().any(|name| c.has(name)) || x.dims().contains(&0) {
        return one(x.pinv());
    }
    let (u, s, vh) = x.svd();
    let counts = s.gt(&negligible(c, &x, &s)?);
    let inverse = counts.where_cond(&s.recip(), 0.0);
    one((turned(&vh) * inverse.unsqueeze(-2)).matmul(&turned(&u)))
}

/// The number of singular values that count.
fn rank(c: &Call<'_>) -> Results {
    let x = told(c)?;
    let values = x.svdvals();
    one(match values.dim(-1)? {
        0 => values.to_dtype(DType::I64).sum(-1),
        _ => values.gt(&negligible(c, &x, &values)?).sum(-1),
    })
}

/// Equations of tensors as those of matrices: the unknowns have the sizes of the last dimensions, of those named last.
fn tensor_solution(c: &Call<'_>) -> Results {
    let (a, b, dims) = (c.tensor("self")?, c.tensor("other")?, c.dims("dims")?);
    let last: Vec<isize> = (-(dims.len() as isize)..0).collect();
    let a = match dims.is_empty() {
        true => a.clone(),
        false => a.movedim(dims, last),
    };
    let unknowns = a.dims()[b.rank().min(a.rank())..].to_vec();
    let n: usize = unknowns.iter().product();
    one(a
        .reshape([b.numel(), n])
        .solve(&b.reshape([-1]))
        .reshape(unknowns))
}

fn tensor_inverse(c: &Call<'_>) -> Results {
    let (x, at) = (c.tensor("self")?, c.size_or("ind", 2)?);
    let (front, back) = x.dims().split_at(at.min(x.rank()));
    let n: usize = front.iter().product();
    let inverse = x.reshape([n, back.iter().product()]).inverse();
    one(inverse.reshape([back, front].concat()))
}

/// What an elimination takes: rows exchanged, as there is no other here.
fn eliminated<'a>(c: &Call<'a>) -> Result<&'a Tensor> {
    match c.bool_or("pivot", true)? {
        true => matrix(c),
        false => Err(Error::unsupported("an elimination without exchanges")),
    }
}

fn packed(c: &Call<'_>) -> Results {
    let (factors, pivots) = eliminated(c)?.lu_factor();
    Ok(vec![Value::Tensor(factors), Value::Tensor(pivots)])
}

/// Solutions by the factors and the pivots of an elimination: of A·x = b, of Aᵀ·x = b, or of x·A = b.
fn by_elimination(c: &Call<'_>, [factors, pivots, b]: [&str; 3]) -> Results {
    let (factors, pivots, b) = (c.tensor(factors)?, c.tensor(pivots)?, c.tensor(b)?);
    let left = c.bool_or("left", true)?;
    let b = if left { b.clone() } else { turned(b) };
    let x = match c.bool_or("adjoint", false)? == left {
        false => factors.lu_solve(pivots, &b),
        true => {
            let (p, _, _) = factors.lu_unpack(pivots);
            let factors = turned(factors);
            let inner = factors.solve_triangular(&b, false, true, false);
            p.matmul(&factors.solve_triangular(&inner, true, true, true))
        }
    };
    one(if left { x } else { turned(&x) })
}

/// The permutation and both triangles of factors and pivots, as far as they are asked for.
fn unpacked(c: &Call<'_>) -> Results {
    let (p, l, u) = c.tensor("LU_data")?.lu_unpack(c.tensor("LU_pivots")?);
    let given = |asked: bool, x: Tensor| if asked { Value::Tensor(x) } else { Value::None };
    let data = c.bool_or("unpack_data", true)?;
    Ok(vec![
        given(c.bool_or("unpack_pivots", true)?, p),
        given(data, l),
        given(data, u),
    ])
}

fn logarithm(c: &Call<'_>) -> Result<[Tensor; 2]> {
    let (sign, log) = matrix(c)?.slogdet();
    Ok([sign, log])
}

pub(super) const TABLE: Table = &[
    ("inverse", "default", inverse),
    ("linalg_inv", "default", inverse),
    ("linalg_inv_ex", "default", |c| checked(c, inverse(c)?)),
    ("linalg_solve", "default", |c| one(solution(c)?)),
    ("linalg_solve_ex", "default", |c| {
        checked(c, vec![Value::Tensor(solution(c)?)])
    }),
    ("_linalg_solve_ex", "default", |c| {
        let solution = Value::Tensor(solution(c)?);
        checked(c, vec![solution, Value::None, Value::None])
    }),
    ("cholesky", "default", |c| one(cholesky(c)?)),
    ("linalg_cholesky", "default", |c| one(cholesky(c)?)),
    ("linalg_cholesky_ex", "default", |c| {
        checked(c, vec![Value::Tensor(cholesky(c)?)])
    }),
    ("cholesky_solve", "default", |c| {
        let factor = lower(c, c.tensor("input2")?)?;
        one(factor.cholesky_solve(c.tensor("self")?))
    }),
    ("cholesky_inverse", "default", |c| {
        let factor = lower(c, c.tensor("self")?)?;
        let eye = Tensor::eye(factor.dim(-1)?, factor.dtype(), c.device);
        one(factor.cholesky_solve(&eye))
    }),
    ("linalg_solve_triangular", "default", |c| {
        let (upper, left) = (c.bool_or("upper", false)?, c.bool_or("left", true)?);
        let unit = c.bool_or("unitriangular", false)?;
        one(c
            .tensor("self")?
            .solve_triangular(c.tensor("B")?, upper, left, unit))
    }),
    ("triangular_solve", "default", triangular),
    ("linalg_qr", "default", qr),
    ("linalg_eigh", "default", eigh),
    ("_linalg_eigh", "default", eigh),
    ("linalg_eigvalsh", "default", |c| {
        one(symmetric(c)?.eigvalsh())
    }),
    ("linalg_svd", "default", |c| factors(c, true)),
    ("_linalg_svd", "default", |c| factors(c, false)),
    ("linalg_svdvals", "default", |c| one(matrix(c)?.svdvals())),
    ("svd", "default", |c| {
        let [u, s, vh] = svd(c, !c.bool_or("some", true)?)?;
        Ok([u, s, turned(&vh)].map(Value::Tensor).into())
    }),
    ("pinverse", "default", pseudoinverse),
    (
        "linalg_matrix_rank",
        "default tol_tensor atol_rtol_float atol_rtol_tensor",
        rank,
    ),
    ("linalg_tensorsolve", "default", tensor_solution),
    ("linalg_tensorinv", "default", tensor_inverse),
    (
        "linalg_pinv",
        "default rcond_tensor atol_rtol_float atol_rtol_tensor",
        pseudoinverse,
    ),
    ("linalg_det", "default", |c| one(matrix(c)?.det())),
    ("det", "default", |c| one(matrix(c)?.det())),
    ("_linalg_det", "default", |c| {
        Ok(vec![
            Value::Tensor(matrix(c)?.det()),
            Value::None,
            Value::None,
        ])
    }),
    ("linalg_slogdet", "default", |c| {
        Ok(logarithm(c)?.map(Value::Tensor).into())
    }),
    ("slogdet", "default", |c| {
        Ok(logarithm(c)?.map(Value::Tensor).into())
    }),
    ("_linalg_slogdet", "default", |c| {
        let parts = logarithm(c)?.map(Value::Tensor);
        Ok([parts.into(), vec![Value::None, Value::None]].concat())
    }),
    ("linalg_lu", "default", |c| {
        let (p, l, u) = eliminated(c)?.lu();
        Ok([p, l, u].map(Value::Tensor).into())
    }),
    ("linalg_lu_factor", "default", packed),
    ("linalg_lu_factor_ex", "default", |c| checked(c, packed(c)?)),
    ("_lu_with_info", "default", |c| checked(c, packed(c)?)),
    ("lu_unpack", "default", unpacked),
    ("linalg_lu_solve", "default", |c| {
        by_elimination(c, ["LU", "pivots", "B"])
    }),
    ("lu_solve", "default", |c| {
        by_elimination(c, ["LU_data", "LU_pivots", "self"])
    }),
    ("linalg_eig", "default", |c| {
        let (values, vectors) = matrix(c)?.eig();
        Ok([values, vectors].map(Value::Complex).into())
    }),
    ("linalg_eigvals", "default", |c| {
        Ok(vec![Value::Complex(matrix(c)?.eigvals())])
    }),
    ("matrix_exp", "default", |c| one(matrix(c)?.matrix_exp())),
    ("linalg_matrix_exp", "default", |c| {
        one(matrix(c)?.matrix_exp())
    }),
    ("linalg_householder_product", "default", |c| {
        one(c.tensor("input")?.householder_product(c.tensor("tau")?))
    }),
    ("orgqr", "default", |c| {
        one(c.tensor("self")?.householder_product(c.tensor("input2")?))
    }),
    ("logdet", "default", |c| {
        let [sign, log] = logarithm(c)?;
        one(sign.lt(0).where_cond(f64::NAN, &log))
    }),
];
