//! New tensors, and tensors of other dtypes.

use super::Table;
use crate::io::exported::call::{Call, Results, Value, one};
use crate::io::exported::schema;
use crate::{DType, Device, Error, Result, Scalar, Tensor};

/// Real numbers as complex ones.
fn complex(real: &Tensor) -> Results {
    let pairs = Tensor::stack([real, &real.zeros_like()], -1);
    Ok(vec![Value::Complex(pairs)])
}

/// Zeros and ones, as real or complex numbers, of a shape.
fn filled(c: &Call<'_>, shape: Vec<usize>, value: Scalar, default: DType) -> Results {
    if let Some(part) = c.dtype_number("dtype").and_then(schema::part_of) {
        return complex(&Tensor::full(shape, value, part, c.device));
    }
    let dtype = c.dtype("dtype")?.unwrap_or(default);
    one(Tensor::full(shape, value, dtype, c.device))
}

fn of_shape(c: &Call<'_>, value: f64) -> Results {
    filled(c, c.sizes("size")?, Scalar::Float(value), DType::F32)
}

/// A tensor of the shape, and unless told otherwise the dtype, of another.
fn like(c: &Call<'_>, value: Scalar) -> Results {
    let x = c.tensor("self")?;
    filled(c, x.dims().to_vec(), value, x.dtype())
}

/// A tensor of the dtype of another.
fn fresh(c: &Call<'_>, value: Scalar) -> Results {
    filled(c, c.sizes("size")?, value, c.tensor("self")?.dtype())
}

fn range(c: &Call<'_>) -> Results {
    let (start, step) = (c.scalar_or("start", 0)?, c.scalar_or("step", 1)?);
    let end = c.scalar_or("end", 0)?;
    let float = [start, end, step]
        .iter()
        .any(|n| matches!(n, Scalar::Float(_)));
    let default = if float { DType::F32 } else { DType::I64 };
    let dtype = c.dtype("dtype")?.unwrap_or(default);
    if dtype.is_float() || !float {
        return one(Tensor::arange(start, end, step, dtype, c.device));
    }
    let whole = |number: Scalar| number.to_i64();
    let step = whole(step);
    // There are as many elements as for the numbers as they are given.
    let (from, by) = (start.to_f64(), c.scalar_or("step", 1)?.to_f64());
    let n = ((end.to_f64() - from) / by).ceil().max(0.0) as usize;
    one((Tensor::arange(0, n, 1, DType::I64, c.device) * step + whole(start)).to_dtype(dtype))
}

/// The frequencies of a transform.
fn frequencies(c: &Call<'_>, of: fn(usize, f64, DType, &Device) -> Tensor) -> Results {
    let (n, d) = (c.size_or("n", 0)?, c.float_or("d", 1.0)?);
    let dtype = c.dtype("dtype")?.unwrap_or(DType::F32);
    one(of(n, d, dtype, c.device))
}

/// A tensor in the dtype that is asked for; without one, as it is.
pub(super) fn converted(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    if let Some(part) = c.dtype_number("dtype").and_then(schema::part_of) {
        return complex(&x.to_dtype(part));
    }
    one(match c.dtype("dtype")? {
        Some(dtype) => x.to_dtype(dtype),
        None => x.clone(),
    })
}

fn cast(c: &Call<'_>, dtype: DType) -> Results {
    one(c.tensor("self")?.to_dtype(dtype))
}

/// Points at equal distances on a scale of powers.
fn powers(c: &Call<'_>) -> Results {
    let dtype = c.dtype("dtype")?.unwrap_or(DType::F32);
    let (start, end) = (c.scalar_or("start", 0)?, c.scalar_or("end", 0)?);
    let (n, base) = (c.size_or("steps", 1)?, c.scalar_or("base", 10)?);
    one(Tensor::logspace(start, end, n, base, dtype, c.device))
}

/// The rows and columns of one triangle of a matrix.
fn triangle(c: &Call<'_>, lower: bool) -> Results {
    let (rows, columns) = (c.size_or("row", 0)?, c.size_or("col", 0)?);
    let offset = c.int_or("offset", 0)? as isize;
    let places = match lower {
        true => Tensor::tril_indices(rows, columns, offset, c.device),
        false => Tensor::triu_indices(rows, columns, offset, c.device),
    };
    one(places.to_dtype(c.dtype("dtype")?.unwrap_or(DType::I64)))
}

/// A window of signal processing, as its method makes it.
fn window(c: &Call<'_>, made: fn(usize, bool, DType, &Device) -> Tensor) -> Results {
    let dtype = c.dtype("dtype")?.unwrap_or(DType::F32);
    let (n, periodic) = (c.size_or("window_length", 0)?, c.bool_or("periodic", true)?);
    one(made(n, periodic, dtype, c.device))
}

fn identity(c: &Call<'_>) -> Results {
    let n = c.size_or("n", 0)?;
    let m = c.size_or("m", n)?;
    if let Some(part) = c.dtype_number("dtype").and_then(schema::part_of) {
        return complex(&Tensor::eye([n, m], part, c.device));
    }
    let dtype = c.dtype("dtype")?.unwrap_or(DType::F32);
    one(Tensor::eye([n, m], dtype, c.device))
}

/// The dtype a number makes by itself.
fn of_number(number: Scalar) -> DType {
    number.default_dtype()
}

fn full(c: &Call<'_>) -> Results {
    let value = c.scalar_or("fill_value", 0)?;
    filled(c, c.sizes("size")?, value, of_number(value))
}

fn same_memory(c: &Call<'_>) -> Results {
    one(c.tensor("self")?.clone())
}

fn copied(c: &Call<'_>) -> Results {
    let (x, src) = (c.tensor("self")?, c.tensor_of_either("src")?);
    one(src.to_dtype(x.dtype()).broadcast_to(x.dims()))
}

fn fill(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let value = match c.operand("value")? {
        crate::Operand::Scalar(number) => return one(x.full_like(number)),
        _ => c.tensor("value")?,
    };
    one(value.to_dtype(x.dtype()).reshape(()).broadcast_to(x.dims()))
}

fn bits(c: &Call<'_>) -> Result<Tensor> {
    let x = c.tensor("self")?;
    let dtype = c.dtype("dtype")?.unwrap_or(x.dtype());
    if dtype == x.dtype() {
        return Ok(x.clone());
    }
    let (from, to) = (x.dtype().size(), dtype.size());
    let mut dims = x.dims().to_vec();
    if from != to {
        let last = dims.last_mut();
        let last = last.ok_or_else(|| Error::shape("a view of another dtype of no dimensions"))?;
        if *last * from % to != 0 {
            return Err(Error::shape(format!(
                "a view of {last} elements as {dtype}"
            )));
        }
        *last = *last * from / to;
    }
    Ok(Tensor::from_bytes(x.to_bytes()?, dtype, dims, c.device))
}

pub(super) const TABLE: Table = &[
    ("fft_fftfreq", "default", |c| {
        frequencies(c, Tensor::fftfreq)
    }),
    ("fft_rfftfreq", "default", |c| {
        frequencies(c, Tensor::rfftfreq)
    }),
    ("full", "default", full),
    ("zeros", "default", |c| of_shape(c, 0.0)),
    ("ones", "default", |c| of_shape(c, 1.0)),
    ("empty", "memory_format", |c| of_shape(c, 0.0)),
    ("empty_strided", "default", |c| of_shape(c, 0.0)),
    ("empty_permuted", "default", |c| of_shape(c, 0.0)),
    ("full_like", "default", |c| {
        like(c, c.scalar_or("fill_value", 0)?)
    }),
    ("zeros_like", "default", |c| like(c, Scalar::Int(0))),
    ("ones_like", "default", |c| like(c, Scalar::Int(1))),
    ("empty_like", "default", |c| like(c, Scalar::Int(0))),
    ("new_full", "default", |c| {
        fresh(c, c.scalar_or("fill_value", 0)?)
    }),
    ("new_zeros", "default", |c| fresh(c, Scalar::Int(0))),
    ("new_ones", "default", |c| fresh(c, Scalar::Int(1))),
    ("new_empty", "default", |c| fresh(c, Scalar::Int(0))),
    ("new_empty_strided", "default", |c| fresh(c, Scalar::Int(0))),
    ("scalar_tensor", "default", |c| {
        let value = c.scalar_or("s", 0)?;
        filled(c, Vec::new(), value, DType::F32)
    }),
    ("arange", "default start start_step", range),
    ("range", "default step", |c| {
        let (start, step) = (
            c.scalar_or("start", 0)?.to_f64(),
            c.scalar_or("step", 1)?.to_f64(),
        );
        let end = c.scalar_or("end", 0)?.to_f64();
        let dtype = c.dtype("dtype")?.unwrap_or(DType::F32);
        let n = ((end - start) / step).floor() as usize + 1;
        one((Tensor::arange(0, n, 1, DType::F64, c.device) * step + start).to_dtype(dtype))
    }),
    ("prims.iota.default", "", |c| {
        let (start, step) = (c.int_or("start", 0)?, c.int_or("step", 1)?);
        let n = c.int_or("length", 0)?;
        let dtype = c.dtype("dtype")?.unwrap_or(DType::I64);
        one((Tensor::arange(0, n, 1, DType::I64, c.device) * step + start).to_dtype(dtype))
    }),
    (
        "linspace",
        "default Tensor_Tensor Tensor_Scalar Scalar_Tensor",
        |c| {
            let (start, end) = (c.scalar_or("start", 0)?, c.scalar_or("end", 0)?);
            let dtype = c.dtype("dtype")?.unwrap_or(DType::F32);
            one(Tensor::linspace(
                start,
                end,
                c.size_or("steps", 1)?,
                dtype,
                c.device,
            ))
        },
    ),
    (
        "logspace",
        "default Tensor_Tensor Tensor_Scalar Scalar_Tensor",
        powers,
    ),
    ("eye", "default m", identity),
    ("tril_indices", "default", |c| triangle(c, true)),
    ("triu_indices", "default", |c| triangle(c, false)),
    ("kaiser_window", "default periodic beta", |c| {
        let beta = c.float_or("beta", 12.0)?;
        let dtype = c.dtype("dtype")?.unwrap_or(DType::F32);
        let (n, periodic) = (c.size_or("window_length", 0)?, c.bool_or("periodic", true)?);
        one(Tensor::kaiser_window(n, periodic, beta, dtype, c.device))
    }),
    ("vander", "default", |c| {
        let x = c.tensor("x")?;
        let n = c.size_or("N", x.numel())?;
        one(x.vander(n, c.bool_or("increasing", false)?))
    }),
    ("hann_window", "default periodic", |c| {
        window(c, Tensor::hann_window)
    }),
    ("hamming_window", "default periodic", |c| {
        window(c, Tensor::hamming_window)
    }),
    ("to", "dtype device other dtype_layout", |c| {
        match c.has("other") {
            true => cast(c, c.tensor("other")?.dtype()),
            false => converted(c),
        }
    }),
    ("to", "prim_Device prim_dtype prim_other", converted),
    ("_to_copy", "default", converted),
    ("type_as", "default", |c| {
        cast(c, c.tensor("other")?.dtype())
    }),
    ("prims.convert_element_type.default", "", |c| {
        let dtype = c.dtype("dtype")?;
        let x = c.tensor("a")?;
        one(dtype.map_or(x.clone(), |dtype| x.to_dtype(dtype)))
    }),
    ("prims.device_put.default", "", |c| {
        one(c.tensor("a")?.clone())
    }),
    ("float", "default", |c| cast(c, DType::F32)),
    ("double", "default", |c| cast(c, DType::F64)),
    ("half", "default", |c| cast(c, DType::F16)),
    ("clone", "default", same_memory),
    ("contiguous", "default", same_memory),
    ("alias", "default", same_memory),
    ("detach", "default", |c| one(c.tensor("self")?.detach())),
    ("lift", "default", same_memory),
    ("lift_fresh", "default", same_memory),
    ("lift_fresh_copy", "default", same_memory),
    ("positive", "default", same_memory),
    ("cpu", "default", same_memory),
    ("requires_grad", "default", same_memory),
    ("copy", "default", copied),
    ("fill", "Scalar Tensor", fill),
    ("zero", "default", |c| one(c.tensor("self")?.zeros_like())),
    ("view", "dtype", |c| one(bits(c)?)),
];
