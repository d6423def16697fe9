//! Functions of complex numbers, matrices of them, and tensors like others.

use super::{input, joined, operand, pairs, parts};
use crate::io::exported::call::{Arg, Call, Results, Value, one};
use crate::io::exported::ops::Table;
use crate::io::exported::schema;
use crate::{DType, Error, Result, Scalar, Tensor};
use std::f64::consts::{LN_2, LN_10};

/// A complex number of tensors: its real and imaginary parts.
type Number = (Tensor, Tensor);

fn product((a, b): &Number, (x, y): &Number) -> Number {
    (a * x - b * y, a * y + b * x)
}

fn quotient((a, b): &Number, (x, y): &Number) -> Number {
    let norm = x.square() + y.square();
    ((a * x + b * y) / &norm, (b * x - a * y) / &norm)
}

fn reciprocal(z: &Number) -> Number {
    quotient(&(z.0.ones_like(), z.0.zeros_like()), z)
}

fn exponential((x, y): &Number) -> Number {
    let size = x.exp();
    (&size * y.cos(), size * y.sin())
}

fn logarithm((x, y): &Number) -> Number {
    (x.hypot(y).log(), y.atan2(x))
}

/// The root of positive real part, of which no digits cancel.
fn root((x, y): &Number) -> Number {
    let long = ((x.hypot(y) + x.abs()) * 0.5).sqrt();
    let zero = long.eq(0);
    let short = y.abs() / (zero.where_cond(1.0, &long) * 2.0);
    let right = x.ge(0);
    let re = right.where_cond(&long, &short);
    let im = right.where_cond(&short, &long);
    (re, im.copysign(y))
}

/// z to a whole power by products, else by the logarithm; 0 to a power is 0.
fn power(z: &Number, exponent: &Number, whole: Option<i64>) -> Number {
    if let Some(n) = whole {
        let mut result = (z.0.ones_like(), z.0.zeros_like());
        let (mut square, mut left) = (z.clone(), n.unsigned_abs());
        while left > 0 {
            if left & 1 == 1 {
                result = product(&result, &square);
            }
            left >>= 1;
            if left > 0 {
                square = product(&square, &square);
            }
        }
        return if n < 0 { reciprocal(&result) } else { result };
    }
    let zero = z.0.eq(0).logical_and(&z.1.eq(0));
    let (re, im) = exponential(&product(&logarithm(z), exponent));
    (zero.where_cond(0.0, &re), zero.where_cond(0.0, &im))
}

fn powers(c: &Call<'_>) -> Results {
    let complex =
        c.complex("exponent").is_some() || matches!(c.arg("exponent"), Some(Arg::Complex(..)));
    let whole = match complex {
        true => None,
        false => match c.operand("exponent")? {
            crate::Operand::Scalar(number) => {
                let number = number.to_f64();
                (number.fract() == 0.0 && number.abs() <= 64.0).then_some(number as i64)
            }
            _ => None,
        },
    };
    let (re, im) = power(&number(c, "self")?, &number(c, "exponent")?, whole);
    joined(&re, &im)
}

/// tanh by the tangents of both parts, which do not overflow.
fn hyperbolic_tangent((x, y): &Number) -> Number {
    let (t, s) = (x.tanh(), y.tan());
    quotient(&(t.clone(), s.clone()), &(t.ones_like(), t * s))
}

/// i·z and −i·z.
fn turned((x, y): &Number, back: bool) -> Number {
    match back {
        false => (-y, x.clone()),
        true => (y.clone(), -x),
    }
}

fn sigmoid((x, y): &Number) -> Number {
    let (re, im) = exponential(&(-x, -y));
    reciprocal(&(re + 1.0, im))
}

fn scaled((x, y): &Number, by: f64) -> Number {
    (x * by, y * by)
}

fn sign((x, y): &Number) -> Number {
    let size = x.hypot(y);
    let size = size.eq(0).where_cond(1.0, &size);
    (x / &size, y / size)
}

fn of(c: &Call<'_>, f: impl FnOnce(&Number) -> Number) -> Results {
    let (re, im) = f(&parts(input(c)?));
    joined(&re, &im)
}

fn equal(c: &Call<'_>) -> Result<Tensor> {
    let ((a, b), (x, y)) = (operand(c, "self")?, operand(c, "other")?);
    let [b, y] = [(b, &a), (y, &x)].map(|(im, re)| im.unwrap_or_else(|| re.zeros_like()));
    Ok(a.eq(&x).logical_and(&b.eq(&y)))
}

/// A matrix as the real one of twice as many rows that has its products and its inverse.
fn whole(x: &Tensor) -> Tensor {
    let (re, im) = parts(x);
    let row = |a: &Tensor, b: &Tensor| Tensor::cat([a, b], -1);
    Tensor::cat([row(&re, &-&im), row(&im, &re)], -2)
}

/// The matrix whose parts stand one below the other.
fn halves(x: &Tensor) -> Result<Tensor> {
    let n = x.dim(-2)? / 2;
    let (re, im) = (x.narrow(-2, 0, n), x.narrow(-2, n as isize, n));
    Ok(Tensor::stack([re, im], -1))
}

fn given<'a>(c: &Call<'a>, name: &str) -> Result<&'a Tensor> {
    c.complex(name)
        .ok_or_else(|| Error::unsupported("real numbers where complex ones are expected"))
}

/// A function of square matrices, of the real matrices that stand for complex ones.
fn halved(c: &Call<'_>, name: &str, f: impl FnOnce(&Tensor) -> Tensor) -> Results {
    let x = given(c, name)?;
    let n = x.dim(-2)?;
    pairs(halves(&f(&whole(x)).narrow(-1, 0, n))?)
}

/// The Hermitian matrix of which the lower triangle is read, or the upper one.
fn hermitian(c: &Call<'_>, x: &Tensor) -> Result<Tensor> {
    let (re, im) = parts(x);
    let turned = |x: &Tensor| x.transpose(-2, -1);
    let (re, im) = match c.text("UPLO")?.unwrap_or("L") {
        "U" | "u" => (turned(&re), -turned(&im)),
        _ => (re, im),
    };
    let im = im.tril(-1);
    Ok(Tensor::stack(
        [re.tril(0) + turned(&re.tril(-1)), &im - turned(&im)],
        -1,
    ))
}

/// The eigenvalues of Hermitian matrices, each of which the real matrix has twice.
fn real_eigenvalues(c: &Call<'_>, name: &str) -> Result<Tensor> {
    let values = whole(&hermitian(c, given(c, name)?)?).eigvalsh();
    Ok(values.slice(-1, 0, isize::MAX, 2))
}

fn inverse(c: &Call<'_>) -> Results {
    let name = if c.has("A") { "A" } else { "self" };
    halved(c, name, Tensor::inverse)
}

/// self + value·f(a, b).
fn ternary(c: &Call<'_>, f: fn(&Number, &Number) -> Number) -> Results {
    let (re, im) = number(c, "self")?;
    let by = f(&number(c, "tensor1")?, &number(c, "tensor2")?);
    let by = match c.has("value") {
        true => product(&by, &number(c, "value")?),
        false => by,
    };
    joined(&(re + by.0), &(im + by.1))
}

/// Σ conj(x)·y.
fn along(c: &Call<'_>, x: &str, y: &str, dim: isize) -> Results {
    let (a, b) = number(c, x)?;
    let (re, im) = product(&(a, -b), &number(c, y)?);
    joined(&re.sum(dim), &im.sum(dim))
}

/// Results, the last of which is PyTorch's number of the first minor that is singular: 0.
fn checked(c: &Call<'_>, results: Vec<Value>) -> Results {
    let (x, _) = operand(c, "A")?;
    let batch = x.rank().saturating_sub(2);
    let info = Tensor::zeros(&x.dims()[..batch], DType::I32, c.device);
    Ok([results, vec![Value::Tensor(info)]].concat())
}

fn solution(c: &Call<'_>) -> Results {
    let pair = |name: &str| -> Result<Tensor> {
        let (re, im) = number(c, name)?;
        Ok(Tensor::stack([re, im], -1))
    };
    let (a, b) = (pair("A")?, pair("B")?);
    if !c.bool_or("left", true)? {
        return Err(Error::unsupported(
            "complex unknowns on the left of a matrix",
        ));
    }
    let (rank, of) = (b.rank(), a.rank());
    let vectors = rank == 2 || rank + 1 == of && b.dims()[..rank - 1] == a.dims()[..of - 2];
    let b = if vectors { b.unsqueeze(-2) } else { b };
    let (re, im) = parts(&b);
    let found = halves(&whole(&a).solve(&Tensor::cat([re, im], -2)))?;
    pairs(if vectors { found.squeeze(-2) } else { found })
}

fn number(c: &Call<'_>, name: &str) -> Result<Number> {
    let (re, im) = operand(c, name)?;
    let im = im.unwrap_or_else(|| re.zeros_like());
    Ok((re, im))
}

fn matrix_product((a, b): &Number, (x, y): &Number) -> Number {
    (a.matmul(x) - b.matmul(y), a.matmul(y) + b.matmul(x))
}

fn linear(c: &Call<'_>) -> Results {
    let (x, y) = number(c, "weight")?;
    let turned = (x.transpose(-2, -1), y.transpose(-2, -1));
    let (mut re, mut im) = matrix_product(&number(c, "input")?, &turned);
    if c.has("bias") {
        let (x, y) = number(c, "bias")?;
        (re, im) = (re + x, im + y);
    }
    joined(&re, &im)
}

/// beta·self + alpha·(a·b), by real factors.
fn added(c: &Call<'_>, a: &str, b: &str) -> Results {
    let (x, y) = number(c, "self")?;
    let (re, im) = matrix_product(&number(c, a)?, &number(c, b)?);
    let (alpha, beta) = (c.float_or("alpha", 1.0)?, c.float_or("beta", 1.0)?);
    joined(&(x * beta + re * alpha), &(y * beta + im * alpha))
}

/// A complex number everywhere.
fn filled(c: &Call<'_>, name: &str, shape: Vec<usize>) -> Results {
    let (re, im) = number(c, name)?;
    joined(&re.broadcast_to(&shape[..]), &im.broadcast_to(&shape[..]))
}

/// One number everywhere, as complex numbers of another's shape unless another dtype is asked for.
fn like(c: &Call<'_>, value: Scalar, shape: Vec<usize>) -> Results {
    let x = input(c)?;
    let part = match c.dtype_number("dtype") {
        Some(number) => match schema::part_of(number) {
            Some(part) => part,
            None => {
                let dtype = c.dtype("dtype")?.unwrap_or(x.dtype());
                return one(Tensor::full(shape, value, dtype, c.device));
            }
        },
        None => x.dtype(),
    };
    let re = Tensor::full(shape, value, part, c.device);
    joined(&re, &re.zeros_like())
}

fn shape(c: &Call<'_>) -> Result<Vec<usize>> {
    let dims = input(c)?.dims();
    Ok(dims[..dims.len() - 1].to_vec())
}

pub(super) const TABLE: Table = &[
    ("log", "default", |c| of(c, logarithm)),
    ("sqrt", "default", |c| of(c, root)),
    ("log2", "default", |c| {
        of(c, |z| scaled(&logarithm(z), LN_2.recip()))
    }),
    ("log10", "default", |c| {
        of(c, |z| scaled(&logarithm(z), LN_10.recip()))
    }),
    ("log1p", "default", |c| {
        of(c, |(x, y)| logarithm(&(x + 1.0, y.clone())))
    }),
    ("exp2", "default", |c| {
        of(c, |z| exponential(&scaled(z, LN_2)))
    }),
    ("expm1", "default", |c| {
        of(c, |z| {
            let (re, im) = exponential(z);
            (re - 1.0, im)
        })
    }),
    ("silu", "default", |c| of(c, |z| product(z, &sigmoid(z)))),
    ("addcmul", "default", |c| ternary(c, product)),
    ("addcdiv", "default", |c| ternary(c, quotient)),
    ("vdot", "default", |c| along(c, "self", "other", 0)),
    ("linalg_vecdot", "default", |c| {
        along(c, "x", "y", c.dim_or("dim", -1)?)
    }),
    ("matrix_exp", "default", |c| {
        halved(c, "self", |x| x.matrix_exp())
    }),
    ("linalg_matrix_exp", "default", |c| {
        halved(c, "self", |x| x.matrix_exp())
    }),
    ("linalg_matrix_power", "default", |c| {
        let n = c.int_or("n", 1)?;
        halved(c, "self", |x| x.matrix_power(n))
    }),
    ("linalg_eigvalsh", "default", |c| {
        one(real_eigenvalues(c, "self")?)
    }),
    ("_linalg_eigh", "default", |c| {
        match c.bool_or("compute_v", true)? {
            true => Err(Error::unsupported("eigenvectors of complex matrices")),
            false => Ok(vec![Value::Tensor(real_eigenvalues(c, "A")?), Value::None]),
        }
    }),
    ("linalg_svdvals", "default", |c| {
        let values = whole(given(c, "A")?).svdvals();
        one(values.slice(-1, 0, isize::MAX, 2))
    }),
    ("rsqrt", "default", |c| of(c, |z| reciprocal(&root(z)))),
    ("reciprocal", "default", |c| of(c, reciprocal)),
    ("square", "default", |c| of(c, |z| product(z, z))),
    ("pow", "Tensor_Scalar Tensor_Tensor", powers),
    ("sinh", "default", |c| {
        of(c, |(x, y)| (x.sinh() * y.cos(), x.cosh() * y.sin()))
    }),
    ("cosh", "default", |c| {
        of(c, |(x, y)| (x.cosh() * y.cos(), x.sinh() * y.sin()))
    }),
    ("sin", "default", |c| {
        of(c, |(x, y)| (x.sin() * y.cosh(), x.cos() * y.sinh()))
    }),
    ("cos", "default", |c| {
        of(c, |(x, y)| (x.cos() * y.cosh(), -(x.sin() * y.sinh())))
    }),
    ("tanh", "default", |c| of(c, hyperbolic_tangent)),
    ("tan", "default", |c| {
        of(c, |z| turned(&hyperbolic_tangent(&turned(z, false)), true))
    }),
    ("sigmoid", "default", |c| of(c, sigmoid)),
    ("sgn", "default", |c| of(c, sign)),
    ("eq", "Tensor Scalar", |c| one(equal(c)?)),
    ("ne", "Tensor Scalar", |c| one(equal(c)?.logical_not())),
    ("isnan", "default", |c| {
        let (re, im) = parts(input(c)?);
        one(re.isnan().logical_or(&im.isnan()))
    }),
    ("isinf", "default", |c| {
        let (re, im) = parts(input(c)?);
        one(re.isinf().logical_or(&im.isinf()))
    }),
    ("isfinite", "default", |c| {
        let (re, im) = parts(input(c)?);
        one(re.isfinite().logical_and(&im.isfinite()))
    }),
    ("linear", "default", linear),
    ("addmm", "default", |c| added(c, "mat1", "mat2")),
    ("baddbmm", "default", |c| added(c, "batch1", "batch2")),
    ("full", "default", |c| {
        filled(c, "fill_value", c.sizes("size")?)
    }),
    ("scalar_tensor", "default", |c| filled(c, "s", Vec::new())),
    ("inverse", "default", inverse),
    ("linalg_inv", "default", inverse),
    ("linalg_inv_ex", "default", |c| checked(c, inverse(c)?)),
    ("linalg_solve", "default", solution),
    ("linalg_solve_ex", "default", |c| checked(c, solution(c)?)),
    ("_linalg_solve_ex", "default", |c| {
        let found = checked(c, solution(c)?)?;
        let [x, info] = &found[..] else {
            return Err(Error::internal("a solution is one tensor"));
        };
        // The factors and their pivots are no results here.
        Ok(vec![x.clone(), Value::None, Value::None, info.clone()])
    }),
    ("mH", "default", |c| {
        of(c, |(x, y)| (x.transpose(-2, -1), -y.transpose(-2, -1)))
    }),
    ("adjoint", "default", |c| {
        of(c, |(x, y)| (x.transpose(-2, -1), -y.transpose(-2, -1)))
    }),
    ("zeros_like", "default", |c| {
        like(c, Scalar::Int(0), shape(c)?)
    }),
    ("empty_like", "default", |c| {
        like(c, Scalar::Int(0), shape(c)?)
    }),
    ("ones_like", "default", |c| {
        like(c, Scalar::Int(1), shape(c)?)
    }),
    ("full_like", "default", |c| {
        like(c, c.scalar_or("fill_value", 0)?, shape(c)?)
    }),
    ("new_zeros", "default", |c| {
        like(c, Scalar::Int(0), c.sizes("size")?)
    }),
    ("new_empty", "default", |c| {
        like(c, Scalar::Int(0), c.sizes("size")?)
    }),
    ("new_ones", "default", |c| {
        like(c, Scalar::Int(1), c.sizes("size")?)
    }),
    ("new_full", "default", |c| {
        like(c, c.scalar_or("fill_value", 0)?, c.sizes("size")?)
    }),
    ("is_complex", "default", |_| Ok(vec![Value::Bool(true)])),
];
