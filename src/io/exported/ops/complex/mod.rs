//! Complex numbers, as pairs: what rotary embeddings and transforms of signals hold.

mod fourier;
mod functions;
mod parts;

use super::join::broadcasted;
use super::{Table, keyed};
use crate::io::exported::call::{Arg, Call, Results, Run, Value, one};
use crate::io::exported::schema;
use crate::{DType, Error, Result, Tensor};
use std::collections::HashMap;
use std::sync::OnceLock;

/// Operators that make complex numbers of real ones.
const MAKERS: [&str; 4] = [
    "aten.view_as_complex.default",
    "aten.polar.default",
    "aten.complex.default",
    "aten.view_as_complex_copy.default",
];

/// Whether an operator makes complex numbers of real ones.
pub(super) fn makes(target: &str) -> bool {
    MAKERS.contains(&target) || target.contains("fft_") || target == "aten.stft.default"
}

fn known() -> &'static HashMap<String, Run> {
    static KNOWN: OnceLock<HashMap<String, Run>> = OnceLock::new();
    KNOWN.get_or_init(|| keyed(&[TABLE, fourier::TABLE, functions::TABLE]))
}

/// The names of all of them.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    known().keys().map(String::as_str)
}

/// The operator of a name on complex numbers.
pub(super) fn find(target: &str) -> Option<Run> {
    known().get(target).copied()
}

/// Runs an operator on complex numbers: by its own, which one that writes its first argument shares, as `aten.mul_.Tensor` that
/// of `aten.mul.Tensor`; or else by that of real numbers, which is `run`.
pub(super) fn run(target: &str, run: Run, call: &Call<'_>) -> Results {
    let named = |mark: &str| find(&target.replacen(mark, ".", 1));
    if let Some(own) = find(target)
        .or_else(|| named("_."))
        .or_else(|| named("_copy."))
    {
        return own(call);
    }
    match parts::rule(target) {
        Some(rule) => rule.run(run, call),
        None => run(call),
    }
}

fn pairs(pairs: Tensor) -> Results {
    Ok(vec![Value::Complex(pairs)])
}

fn joined(re: &Tensor, im: &Tensor) -> Results {
    pairs(Tensor::stack(&[re, im], -1))
}

fn parts(pairs: &Tensor) -> (Tensor, Tensor) {
    (pairs.select(-1, 0), pairs.select(-1, 1))
}

fn input<'a>(c: &Call<'a>) -> Result<&'a Tensor> {
    c.complex("self")
        .ok_or_else(|| Error::unsupported("real numbers where complex ones are expected"))
}

/// The dtype of the parts of numbers: that of the first tensor of floats.
fn part(c: &Call<'_>) -> DType {
    let of = |arg: &Arg| match arg {
        Arg::Slot(slot) => match &c.values[*slot] {
            Value::Complex(x) | Value::Tensor(x) if x.dtype().is_float() => Some(x.dtype()),
            _ => None,
        },
        _ => None,
    };
    let found = c.args.iter().find_map(|(_, arg)| of(arg));
    found.unwrap_or(DType::F32)
}

/// Real and imaginary parts of an operand, which may be real.
fn operand(c: &Call<'_>, name: &str) -> Result<(Tensor, Option<Tensor>)> {
    if let Some(&Arg::Complex(re, im)) = c.arg(name) {
        let of = |x| Tensor::scalar(x, part(c), c.device);
        return Ok((of(re), Some(of(im))));
    }
    Ok(match c.complex(name) {
        Some(pairs) => {
            let (re, im) = parts(pairs);
            (re, Some(im))
        }
        None => (c.tensor_of_either(name)?, None),
    })
}

fn product(c: &Call<'_>) -> Results {
    let ((a, b), (x, y)) = (operand(c, "self")?, operand(c, "other")?);
    match (b, y) {
        (Some(b), Some(y)) => joined(&(&a * &x - &b * &y), &(&a * &y + &b * &x)),
        (Some(b), None) => joined(&(&a * &x), &(&b * &x)),
        (None, Some(y)) => joined(&(&a * &x), &(&a * &y)),
        (None, None) => one(a * x),
    }
}

fn quotient(c: &Call<'_>) -> Results {
    let ((a, b), (x, y)) = (operand(c, "self")?, operand(c, "other")?);
    let b = b.unwrap_or_else(|| a.zeros_like());
    let Some(y) = y else {
        return joined(&(&a / &x), &(&b / &x));
    };
    let norm = x.square() + y.square();
    joined(
        &((&a * &x + &b * &y) / &norm),
        &((&b * &x - &a * &y) / &norm),
    )
}

fn sum(c: &Call<'_>, sign: f64) -> Results {
    let ((a, b), (x, y)) = (operand(c, "self")?, operand(c, "other")?);
    let by = sign * c.float_or("alpha", 1.0)?;
    let re = a + x * by;
    let im = match (b, y) {
        (Some(b), Some(y)) => b + y * by,
        (Some(b), None) => b,
        (None, Some(y)) => y * by,
        (None, None) => re.zeros_like(),
    };
    joined(&re, &im.broadcast_to(re.dims()))
}

/// A view of pairs, by sizes with the pair's dimension behind them.
fn shaped(c: &Call<'_>, name: &str) -> Results {
    let mut sizes = c.ints(name)?.unwrap_or_default();
    sizes.push(2);
    pairs(input(c)?.reshape(sizes))
}

/// A dimension of the numbers as one of their pairs.
fn dim(c: &Call<'_>, name: &str, default: isize) -> Result<isize> {
    c.dim_or(name, default).map(behind)
}

fn behind(dim: isize) -> isize {
    if dim < 0 { dim - 1 } else { dim }
}

/// A function of pairs as an operator on complex numbers: `f` is given the tensor of pairs, which has one more dimension at the
/// end than the numbers.
fn through(c: &Call<'_>, f: impl Fn(&Tensor) -> Result<Tensor>) -> Results {
    pairs(f(input(c)?)?)
}

fn expanded(c: &Call<'_>) -> Results {
    let mut sizes = c.ints("size")?.unwrap_or_default();
    sizes.push(2);
    pairs(input(c)?.expand(sizes))
}

const TABLE: Table = &[
    ("view_as_complex", "default", |c| {
        pairs(c.tensor("self")?.clone())
    }),
    ("view_as_real", "default", |c| one(input(c)?.clone())),
    ("complex", "default", |c| {
        let both = broadcasted(&[c.tensor("real")?, c.tensor("imag")?]);
        joined(&both[0], &both[1])
    }),
    ("polar", "default", |c| {
        let (r, angle) = (c.tensor("abs")?, c.tensor("angle")?);
        joined(&(r * angle.cos()), &(r * angle.sin()))
    }),
    ("real", "default", |c| one(parts(input(c)?).0)),
    ("imag", "default", |c| one(parts(input(c)?).1)),
    ("abs", "default", |c| {
        let (re, im) = parts(input(c)?);
        one(re.hypot(&im))
    }),
    ("angle", "default", |c| {
        let (re, im) = parts(input(c)?);
        one(im.atan2(&re))
    }),
    ("conj", "default", |c| {
        let (re, im) = parts(input(c)?);
        joined(&re, &-&im)
    }),
    ("_conj", "default", |c| {
        let (re, im) = parts(input(c)?);
        joined(&re, &-&im)
    }),
    ("resolve_conj", "default", |c| pairs(input(c)?.clone())),
    ("conj_physical", "default", |c| {
        let (re, im) = parts(input(c)?);
        joined(&re, &-&im)
    }),
    ("_conj_physical", "default", |c| {
        let (re, im) = parts(input(c)?);
        joined(&re, &-&im)
    }),
    ("neg", "default", |c| pairs(input(c)?.neg())),
    ("exp", "default", |c| {
        let (re, im) = parts(input(c)?);
        let size = re.exp();
        joined(&(&size * im.cos()), &(&size * im.sin()))
    }),
    ("mul", "Tensor Scalar", product),
    ("div", "Tensor Scalar", quotient),
    ("true_divide", "Tensor Scalar", quotient),
    ("add", "Tensor Scalar", |c| sum(c, 1.0)),
    ("sub", "Tensor Scalar", |c| sum(c, -1.0)),
    ("view", "default", |c| shaped(c, "size")),
    ("_unsafe_view", "default", |c| shaped(c, "size")),
    ("reshape", "default", |c| shaped(c, "shape")),
    ("flatten", "using_ints", |c| {
        through(c, |x| {
            Ok(x.flatten(dim(c, "start_dim", 0)?, dim(c, "end_dim", -1)?))
        })
    }),
    ("expand", "default", expanded),
    ("unsqueeze", "default", |c| {
        through(c, |x| Ok(x.unsqueeze(dim(c, "dim", 0)?)))
    }),
    ("squeeze", "dim", |c| {
        through(c, |x| Ok(x.squeeze(dim(c, "dim", 0)?)))
    }),
    ("select", "int", |c| {
        through(
            c,
            |x| Ok(x.select(dim(c, "dim", 0)?, c.dim_or("index", 0)?)),
        )
    }),
    ("squeeze", "dims", |c| {
        let dims: Vec<isize> = c.dims("dim")?.into_iter().map(behind).collect();
        through(c, |x| Ok(x.squeeze(&*dims)))
    }),
    ("slice", "Tensor", |c| {
        through(c, |x| {
            let (start, end) = (c.dim_or("start", 0)?, c.dim_or("end", isize::MAX)?);
            Ok(x.slice(dim(c, "dim", 0)?, start, end, c.size_or("step", 1)?))
        })
    }),
    ("index", "Tensor", |c| {
        let entries = super::index::entries(c)?;
        through(c, |x| Ok(x.index(&super::index::borrowed(&entries))))
    }),
    ("transpose", "int", |c| {
        through(c, |x| {
            Ok(x.transpose(dim(c, "dim0", 0)?, dim(c, "dim1", 0)?))
        })
    }),
    ("permute", "default", |c| {
        through(c, |x| {
            let n = x.rank() as isize - 1;
            let wrap = |d: isize| if d < 0 { d + n } else { d };
            let order = c.dims("dims")?.into_iter().map(wrap).chain([n]);
            Ok(x.permute(order.collect::<Vec<_>>()))
        })
    }),
    ("_to_copy", "default", cast),
    ("to", "dtype device dtype_layout", cast),
    ("clone", "default", |c| pairs(input(c)?.clone())),
    ("contiguous", "default", |c| pairs(input(c)?.clone())),
    ("alias", "default", |c| pairs(input(c)?.clone())),
    ("detach", "default", |c| pairs(input(c)?.detach())),
    ("lift_fresh_copy", "default", |c| pairs(input(c)?.clone())),
    ("sym_size", "int", |c| {
        let x = input(c)?;
        Ok(vec![Value::Int(x.dim(dim(c, "dim", 0)?)? as i64)])
    }),
];

fn cast(c: &Call<'_>) -> Results {
    let x = input(c)?;
    match c.dtype_number("dtype") {
        None => pairs(x.clone()),
        Some(number) => match (schema::part_of(number), schema::dtype_of(number)) {
            (Some(part), _) => pairs(x.to_dtype(part)),
            (None, Some(dtype)) => one(parts(x).0.to_dtype(dtype)),
            (None, None) => Err(Error::unsupported(format!("PyTorch's dtype {number}"))),
        },
    }
}
