//! Order statistics, integrals and differences.

use crate::io::exported::call::{Call, Results, Value, all, one};
use crate::io::exported::ops::Table;
use crate::io::exported::ops::pointwise::floats;
use crate::io::exported::ops::view::wrapped;
use crate::{DType, Error, Operand, Result, Tensor};

/// A row of all elements, or the tensor, and the dimension that is reduced.
fn along(c: &Call<'_>, x: &Tensor) -> Result<(Tensor, usize)> {
    match c.int("dim")? {
        None => Ok((x.reshape([-1]), 0)),
        Some(_) if x.rank() == 0 => Ok((x.reshape([1]), 0)),
        Some(dim) => Ok((x.clone(), wrapped(dim as isize, x.rank())?)),
    }
}

/// A result whose reduced dimension is the last, of size 1, in the shape that the call asks for.
fn placed(c: &Call<'_>, y: &Tensor, rank: usize, dim: usize) -> Result<Tensor> {
    let keep = c.bool_or("keepdim", false)?;
    Ok(match (c.has("dim") && rank > 0, keep) {
        (true, true) => y.transpose(-1, dim as isize),
        (true, false) => y.squeeze(-1),
        (false, true) => y.reshape(vec![1; rank]),
        (false, false) => y.reshape(()),
    })
}

/// Quantiles: sorted elements at a part of the way, between which the call says what to take.
fn quantiles(c: &Call<'_>, skips_nan: bool) -> Results {
    let x = c.tensor("self")?;
    let q = c.tensor_of_either("q")?.to_dtype(x.dtype());
    let (line, dim) = along(c, x)?;
    let line = line.transpose(dim as isize, -1);
    let n = line.dim(-1)?;
    // NaN sorts behind all numbers.
    let sorted = line.sort(-1, false).0;
    let count = match skips_nan {
        true => line.isnan().logical_not().sum_keepdim(-1),
        false => Tensor::full([1], n, DType::I64, c.device),
    };
    let has_nan = line.isnan().any_keepdim(-1);
    let mut parts = Vec::new();
    for i in 0..q.numel() {
        let q = q.reshape([-1]).select(0, i as isize);
        let at = (&count - 1).clamp_min(0).to_dtype(x.dtype()) * q;
        let pick = |at: &Tensor| {
            let dims = [&line.dims()[..line.rank() - 1], &[1]].concat();
            let at = at.to_dtype(DType::I64).broadcast_to(dims);
            sorted.gather(-1, &at)
        };
        let (low, high) = (pick(&at.floor()), pick(&at.ceil()));
        let y = match c.text("interpolation")? {
            Some("lower") => low,
            Some("higher") => high,
            Some("nearest") => pick(&at.round()),
            Some("midpoint") => low.lerp(&high, 0.5),
            _ => low.lerp(&high, &(&at - at.floor())),
        };
        parts.push(match skips_nan {
            true => y,
            false => has_nan.where_cond(f64::NAN, &y),
        });
    }
    let rank = x.rank();
    let placed: Result<Vec<Tensor>> = parts.iter().map(|y| placed(c, y, rank, dim)).collect();
    let placed = placed?;
    one(match q.rank() {
        0 => placed[0].clone(),
        _ => Tensor::stack(&placed, 0),
    })
}

/// The lower middle of the numbers, and where it is.
fn middle(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let (line, dim) = along(c, x)?;
    let line = line.transpose(dim as isize, -1);
    let (sorted, order) = line.sort(-1, false);
    let count = match x.dtype().is_float() {
        true => line.isnan().logical_not().sum_keepdim(-1),
        false => line.ones_like().to_dtype(DType::I64).sum_keepdim(-1),
    };
    let at = ((count - 1).clamp_min(0)).divide(2, crate::Rounding::Floor);
    let value = placed(c, &sorted.gather(-1, &at), x.rank(), dim)?;
    match c.has("dim") {
        true => all([value, placed(c, &order.gather(-1, &at), x.rank(), dim)?]),
        false => one(value),
    }
}

/// The element that occurs most often, the least of several, and its last place.
fn most_frequent(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let whole = match x.rank() {
        0 => x.reshape([1]),
        _ => x.clone(),
    };
    let dim = wrapped(c.dim_or("dim", -1)?, whole.rank())?;
    let line = whole.transpose(dim as isize, -1);
    let (sorted, order) = line.sort(-1, false);
    let same = sorted.unsqueeze(-1).eq(sorted.unsqueeze(-2));
    let counts = same.sum(-1);
    // Among equals the place behind the others, of the least element whose count is greatest.
    let first = counts.argmax_keepdim(-1);
    let most = counts.max_keepdim(-1);
    let at = first + most - 1;
    let place = |y: &Tensor| -> Result<Tensor> {
        let y = match c.bool_or("keepdim", false)? {
            true => y.transpose(-1, dim as isize),
            false => y.squeeze(-1),
        };
        Ok(if x.rank() == 0 { y.reshape(()) } else { y })
    };
    all([
        place(&sorted.gather(-1, &at))?,
        place(&order.gather(-1, &at))?,
    ])
}

/// An integral over a dimension of places, or by a distance of them.
fn integral(c: &Call<'_>, f: impl Fn(&Tensor, Operand<'_>, isize) -> Tensor) -> Results {
    let x = match c.tensor_opt("x")? {
        Some(x) => Operand::Tensor(x),
        None => Operand::Scalar(c.scalar_or("dx", 1)?),
    };
    one(f(c.tensor("y")?, x, c.dim_or("dim", -1)?))
}

/// Differences along a dimension over distances; at its ends of one or two orders.
fn slope(x: &Tensor, dim: usize, steps: &Steps, order: i64) -> Result<Tensor> {
    let n = x.dim(dim)?;
    if n < order as usize + 1 {
        return Err(Error::shape(format!("a gradient of {n} elements")));
    }
    let part = |from: usize, count: usize| x.narrow(dim, from as isize, count);
    let mut shape = vec![1; x.rank()];
    let (inner, first, last) = match steps {
        Steps::Even(h) => {
            let inner = (part(2, n - 2) - part(0, n - 2)) / (2.0 * h);
            let ends = |y: [Tensor; 3]| match order {
                1 => (&y[1] - &y[0]) / *h,
                _ => (&y[0] * -1.5 + &y[1] * 2.0 + &y[2] * -0.5) / *h,
            };
            let at = |i: usize| part(i.min(n - 1), 1);
            let first = ends([at(0), at(1), at(2)]);
            let last = -ends([at(n - 1), at(n - 2), at(n.saturating_sub(3))]);
            (inner, first, last)
        }
        Steps::At(places) => {
            let gaps = places.narrow(0, 1, n - 1) - places.narrow(0, 0, n - 1);
            let mut line = |gaps: Tensor| {
                shape[dim] = gaps.numel();
                gaps.reshape(&shape[..]).to_dtype(x.dtype())
            };
            let (a, b) = (
                line(gaps.narrow(0, 0, n - 2)),
                line(gaps.narrow(0, 1, n - 2)),
            );
            let near = -&b / (&a * (&a + &b));
            let middle = (&b - &a) / (&a * &b);
            let far = &a / (&b * (&a + &b));
            let inner = near * part(0, n - 2) + middle * part(1, n - 2) + far * part(2, n - 2);
            let (head, tail) = (line(gaps.narrow(0, 0, 1)), line(gaps.narrow(0, -1, 1)));
            if order == 1 {
                let first = (part(1, 1) - part(0, 1)) / head;
                (inner, first, (part(n - 1, 1) - part(n - 2, 1)) / tail)
            } else {
                let next = line(gaps.narrow(0, 1, 1));
                let before = line(gaps.narrow(0, n as isize - 3, 1));
                let end = |a: &Tensor, b: &Tensor, y: [Tensor; 3]| {
                    let sum = a + b;
                    -((a * 2.0 + b) / (a * &sum)) * &y[0] + (&sum / (a * b)) * &y[1]
                        - (a / (b * &sum)) * &y[2]
                };
                let first = end(&head, &next, [part(0, 1), part(1, 1), part(2, 1)]);
                let at = [part(n - 1, 1), part(n - 2, 1), part(n - 3, 1)];
                (inner, first, -end(&tail, &before, at))
            }
        }
    };
    Ok(Tensor::cat(&[&first, &inner, &last], dim))
}

/// The distances of a dimension's elements.
enum Steps {
    Even(f64),
    At(Tensor),
}

fn gradients(c: &Call<'_>) -> Results {
    let x = floats(c.tensor("self")?);
    let dtype = x.dtype();
    let x = x.to_dtype(dtype.compute());
    let dims: Vec<usize> = match c.has("dim") {
        true => c
            .dims("dim")?
            .into_iter()
            .map(|dim| wrapped(dim, x.rank()))
            .collect::<Result<_>>()?,
        false => (0..x.rank()).collect(),
    };
    let order = c.int_or("edge_order", 1)?;
    let steps: Vec<Steps> = if let Ok(places) = c.tensors("spacing") {
        places.into_iter().map(|x| Steps::At(x.clone())).collect()
    } else if let Ok(Some(steps)) = c.floats("spacing") {
        steps.into_iter().map(Steps::Even).collect()
    } else {
        let step = c.float_or("spacing", 1.0)?;
        dims.iter().map(|_| Steps::Even(step)).collect()
    };
    if steps.len() < dims.len() {
        return Err(Error::argument("fewer distances than dimensions"));
    }
    let slopes: Result<Vec<Tensor>> = dims
        .iter()
        .zip(&steps)
        .map(|(&dim, steps)| Ok(slope(&x, dim, steps, order)?.to_dtype(dtype)))
        .collect();
    all(slopes?)
}

/// How many elements lie in each of equal parts of a range; that of all elements where none is given.
fn histogram(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let (low, high) = (c.float_or("min", 0.0)?, c.float_or("max", 0.0)?);
    let range = (low != high).then_some((low, high));
    let line = x.reshape([-1]).to_dtype(x.dtype().compute());
    let (counts, _) = line.histogram(c.size_or("bins", 100)?, range);
    one(counts.to_dtype(x.dtype()))
}

/// The positions of elements that are not 0, as many as are asked for, then rows of a filling.
fn counted_places(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let (size, fill) = (c.size_or("size", 0)?, c.int_or("fill_value", -1)?);
    // The n-th of them is where their count first reaches n.
    let line = x.reshape([-1]);
    let counts = line.ne(0).to_dtype(DType::I64).cumsum(0);
    let wanted = Tensor::arange(1, size + 1, 1, DType::I64, c.device);
    if line.numel() == 0 {
        return one(Tensor::full([size, x.rank()], fill, DType::I64, c.device));
    }
    let flat = counts.searchsorted(&wanted, false);
    let found = flat.lt(line.numel() as i64).unsqueeze(1);
    let mut step = line.numel() as i64;
    let mut columns = Vec::new();
    for &n in x.dims() {
        step /= n as i64;
        columns.push(
            flat.divide(step, crate::Rounding::Floor)
                .remainder(n as i64),
        );
    }
    if columns.is_empty() {
        return one(Tensor::zeros([size, 0], DType::I64, c.device));
    }
    one(found.where_cond(&Tensor::stack(&columns, 1), fill))
}

/// Whether all elements are within tolerances of another tensor's: a number of the graph, so it is read.
fn all_close(c: &Call<'_>) -> Results {
    let (rtol, atol) = (c.float_or("rtol", 1e-5)?, c.float_or("atol", 1e-8)?);
    let (a, b) = (c.tensor("self")?, c.tensor("other")?);
    let close = a.isclose(b, rtol, atol, c.bool_or("equal_nan", false)?);
    Ok(vec![Value::Bool(close.all(..).to_scalar()?)])
}

pub(in crate::io::exported::ops) const TABLE: Table = &[
    ("quantile", "default scalar", |c| quantiles(c, false)),
    ("nanquantile", "default scalar", |c| quantiles(c, true)),
    ("nanmedian", "default dim", middle),
    ("mode", "default", most_frequent),
    ("trapezoid", "x dx", |c| {
        integral(c, |y, x, dim| y.trapezoid(x, dim))
    }),
    ("trapz", "x dx", |c| {
        integral(c, |y, x, dim| y.trapezoid(x, dim))
    }),
    ("cumulative_trapezoid", "x dx", |c| {
        integral(c, |y, x, dim| y.cumulative_trapezoid(x, dim))
    }),
    (
        "gradient",
        "scalarint scalararray array scalarrayint scalarrayarray tensorarrayint tensorarray",
        gradients,
    ),
    ("histc", "default", histogram),
    ("histogram", "bin_ct", |c| {
        let x = c.tensor("self")?;
        if c.has("weight") || c.bool_or("density", false)? {
            return Err(Error::unsupported("a histogram of weights or densities"));
        }
        let range = match c.floats("range")?.as_deref() {
            Some(&[low, high]) => Some((low, high)),
            _ => None,
        };
        let line = x.reshape([-1]);
        let (counts, edges) = line.histogram(c.size_or("bins", 100)?, range);
        Ok([counts.to_dtype(x.dtype()), edges]
            .map(Value::Tensor)
            .into())
    }),
    ("nonzero_static", "default", counted_places),
    ("allclose", "default", all_close),
];
