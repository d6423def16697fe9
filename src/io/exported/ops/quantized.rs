//! Numbers as integers: x is about (q − zero)·scale. Operators of quantised programs, and those of training for them, which
//! round floats as the integers would and pass gradients on where nothing is clamped.

use super::Table;
use crate::io::exported::call::{Call, Results, Value, all, one};
use crate::{DType, Error, Operand, Result, Tensor};

/// The least and the greatest integer.
fn ends(c: &Call<'_>) -> Result<[f64; 2]> {
    Ok([
        c.float_or("quant_min", -128.0)?,
        c.float_or("quant_max", 127.0)?,
    ])
}

/// The dtype of an argument, or `F32`.
fn dtype(c: &Call<'_>, name: &str) -> Result<DType> {
    Ok(c.dtype(name)?.unwrap_or(DType::F32))
}

/// A number for a whole tensor, without dimensions; a tensor of it may have one element.
fn single(c: &Call<'_>, name: &str) -> Result<Tensor> {
    Ok(match c.operand(name)? {
        Operand::Scalar(number) => Tensor::scalar(number, DType::F64, c.device),
        _ => c.tensor(name)?.to_dtype(DType::F64).reshape(()),
    })
}

/// Numbers for each place along a dimension of `x`, as that dimension.
fn each(c: &Call<'_>, name: &str, x: &Tensor) -> Result<Tensor> {
    let numbers = c.tensor(name)?;
    let mut shape = vec![1; x.rank()];
    let axis = c.dim_or("axis", 0)?;
    let at = if axis < 0 {
        axis + x.rank() as isize
    } else {
        axis
    };
    *shape
        .get_mut(at as usize)
        .ok_or_else(|| Error::argument(format!("its axis {axis} is none of {}", x.shape())))? =
        numbers.numel();
    Ok(numbers.reshape(shape))
}

/// Half-precision numbers as binary32, in which integers are found.
fn wide(x: &Tensor) -> Tensor {
    x.to_dtype(x.dtype().compute())
}

/// round(x / scale) + zero, between the ends.
fn rounded(c: &Call<'_>, x: &Tensor, inverse: &Tensor, zero: &Tensor) -> Result<Tensor> {
    let [low, high] = ends(c)?;
    Ok(((x * inverse).round() + zero).clamp(low, high))
}

fn whole_quantized(c: &Call<'_>) -> Results {
    let x = wide(c.tensor("input")?);
    let inverse = single(c, "scale")?.recip().to_dtype(x.dtype());
    let zero = single(c, "zero_point")?.to_dtype(x.dtype());
    one(rounded(c, &x, &inverse, &zero)?.to_dtype(dtype(c, "dtype")?))
}

fn whole_restored(c: &Call<'_>) -> Results {
    let out = dtype(c, "out_dtype")?;
    let [scale, zero] = [single(c, "scale")?, single(c, "zero_point")?].map(|x| x.to_dtype(out));
    one((c.tensor("input")?.to_dtype(out) - zero) * scale)
}

fn channels_quantized(c: &Call<'_>) -> Results {
    let x = wide(c.tensor("input")?);
    let inverse = each(c, "scales", &x)?.recip();
    let zero = each(c, "zero_points", &x)?;
    one(rounded(c, &x, &inverse, &zero)?.to_dtype(dtype(c, "dtype")?))
}

fn channels_restored(c: &Call<'_>) -> Results {
    let x = c.tensor("input")?;
    let scale = each(c, "scales", x)?;
    // Differences of bytes need more than a byte.
    let x = x.to_dtype(DType::I32);
    let y = match c.has("zero_points") {
        true => (&x - each(c, "zero_points", &x)?) * scale,
        false => x * scale,
    };
    one(y.to_dtype(dtype(c, "out_dtype")?))
}

/// round(x / scale + zero), between the ends, of rows that have numbers of their own.
fn rows_quantized(c: &Call<'_>, x: &Tensor, scale: &Tensor, zero: &Tensor) -> Result<Tensor> {
    let [low, high] = ends(c)?;
    let y = (x * scale.recip() + zero).round().clamp(low, high);
    Ok(y.to_dtype(dtype(c, "dtype")?))
}

/// (x − zero)·scale of rows that have numbers of their own.
fn rows_restored(c: &Call<'_>, x: &Tensor, scale: &Tensor, zero: &Tensor) -> Result<Tensor> {
    let x = x.to_dtype(DType::I32);
    Ok(((x - zero) * scale).to_dtype(dtype(c, "output_dtype")?))
}

/// A matrix as rows of a group each, with the groups' scales and zeros as columns.
fn groups(c: &Call<'_>, name: &str) -> Result<[Tensor; 3]> {
    let (x, scales) = (c.tensor(name)?, c.tensor("scales")?);
    let mut size = c.size_or("group_size", 128)?;
    let row = x.dim(-1)?;
    if size > row && scales.dim(-1)? == 1 {
        size = row;
    }
    if size == 0 || row % size != 0 {
        let why = format!("rows of {row} numbers are not of groups of {size}");
        return Err(Error::argument(why));
    }
    let column = |x: &Tensor| x.reshape([-1, 1]);
    let zero = match c.has("zero_points") {
        true => column(c.tensor("zero_points")?),
        false => Tensor::zeros((), DType::I32, c.device),
    };
    Ok([x.reshape([-1, size as i64]), column(scales), zero])
}

/// The scale and the zero, as vectors of one number, for numbers between the least and the greatest of a tensor.
fn chosen(c: &Call<'_>, symmetric: bool) -> Results {
    let x = wide(c.tensor("input")?).reshape([-1]);
    let [low, high] = ends(c)?;
    let (least, most) = (x.amin(0).clamp_max(0.0), x.amax(0).clamp_min(0.0));
    let eps = c.float_or("eps", f64::from(f32::EPSILON))?;
    let (scale, zero) = match symmetric {
        true => {
            let scale = least.neg().maximum(&most) / ((high - low) / 2.0);
            let zero = if c.dtype("dtype")? == Some(DType::U8) {
                128.0
            } else {
                0.0
            };
            (scale.clamp_min(eps), least.full_like(zero))
        }
        false => {
            let scale = ((most - &least) / (high - low)).clamp_min(eps);
            let zero = (low - (least / &scale).round()).clamp(low, high);
            (scale, zero)
        }
    };
    all([
        scale.to_dtype(DType::F64).reshape(1),
        zero.to_dtype(DType::I64).reshape(1),
    ])
}

/// The scale and the zero of each row, for integers between −128 and 127.
fn rows_chosen(c: &Call<'_>) -> Results {
    let x = c.tensor("input")?;
    let (least, most) = (
        x.amin_keepdim(-1).clamp_max(0.0),
        x.amax_keepdim(-1).clamp_min(0.0),
    );
    let scale = ((&most - &least) / 255.0).clamp_min(f64::from(f32::EPSILON));
    let (low, high) = (least / &scale, most / &scale);
    let by_least = (&low + &high - 1.0).gt(0);
    let zero = by_least.where_cond(&(-128.0 - low), &(127.0 - high));
    let zero = zero.clamp(-128.0, 127.0).round();
    all([scale.to_dtype(DType::F64), zero.to_dtype(DType::I64)])
}

fn rows_chosen_around_zero(c: &Call<'_>) -> Results {
    let x = c.tensor("input")?;
    let most = x.abs().amax_keepdim(-1);
    let most = if most.dtype() == DType::F16 {
        most.to_dtype(DType::F32)
    } else {
        most
    };
    let scale = most.clamp_min(1e-5) / 127.0;
    let zero = scale.zeros_like();
    all([scale, zero])
}

/// Floats rounded as integers would, and whether nothing is clamped.
fn imitated(c: &Call<'_>, channels: bool) -> Result<[Tensor; 2]> {
    let name = if c.has("input") { "input" } else { "self" };
    let given = c.tensor(name)?;
    let x = wide(given);
    let of = |names: [&str; 2]| -> Result<Tensor> {
        let name = if c.has(names[0]) { names[0] } else { names[1] };
        let found = match channels {
            true => each(c, name, &x)?,
            false => single(c, name)?,
        };
        Ok(found.to_dtype(x.dtype()))
    };
    let (scale, zero) = (of(["scale", "scales"])?, of(["zero_point", "zero_points"])?);
    let [low, high] = ends(c)?;
    let found = (&x * scale.recip()).round() + &zero;
    let inside = found.ge(low).logical_and(&found.le(high));
    let y = ((found.clamp(low, high) - zero) * scale).detach();
    // Rounding has no slope of its own: that of the number itself stands for it.
    let y = inside.where_cond(&(&y + (&x - x.detach())), &y);
    Ok([y.to_dtype(given.dtype()), inside])
}

fn imitation(c: &Call<'_>, channels: bool) -> Results {
    let [y, _] = imitated(c, channels)?;
    one(y)
}

fn imitation_with_mask(c: &Call<'_>, channels: bool) -> Results {
    let parts = imitated(c, channels)?;
    Ok(parts.map(Value::Tensor).into())
}

pub(super) const TABLE: Table = &[
    (
        "quantized_decomposed.quantize_per_tensor",
        "default tensor tensor2",
        whole_quantized,
    ),
    (
        "quantized_decomposed.dequantize_per_tensor",
        "default tensor tensor2",
        whole_restored,
    ),
    (
        "quantized_decomposed.quantize_per_channel",
        "default",
        channels_quantized,
    ),
    (
        "quantized_decomposed.dequantize_per_channel",
        "default",
        channels_restored,
    ),
    ("quantized_decomposed.quantize_per_token", "default", |c| {
        let (scale, zero) = (c.tensor("scales")?, c.tensor("zero_points")?);
        one(rows_quantized(c, c.tensor("input")?, scale, zero)?)
    }),
    (
        "quantized_decomposed.dequantize_per_token",
        "default",
        |c| {
            let (scale, zero) = (c.tensor("scales")?, c.tensor("zero_points")?);
            one(rows_restored(c, c.tensor("input")?, scale, zero)?)
        },
    ),
    (
        "quantized_decomposed.quantize_per_channel_group",
        "default",
        |c| {
            let [x, scale, zero] = groups(c, "input")?;
            one(rows_quantized(c, &x, &scale, &zero)?.reshape(c.tensor("input")?.dims()))
        },
    ),
    (
        "quantized_decomposed.dequantize_per_channel_group",
        "default",
        |c| {
            let name = if c.has("w_int8") { "w_int8" } else { "input" };
            let [x, scale, zero] = groups(c, name)?;
            one(rows_restored(c, &x, &scale, &zero)?.reshape(c.tensor(name)?.dims()))
        },
    ),
    ("quantized_decomposed.choose_qparams", "tensor", |c| {
        chosen(c, false)
    }),
    (
        "quantized_decomposed.choose_qparams_symmetric",
        "tensor",
        |c| chosen(c, true),
    ),
    (
        "quantized_decomposed.choose_qparams_per_token",
        "default",
        rows_chosen_around_zero,
    ),
    (
        "quantized_decomposed.choose_qparams_per_token_asymmetric",
        "default",
        rows_chosen,
    ),
    (
        "quantized_decomposed._choose_qparams_per_token_asymmetric_impl",
        "default",
        rows_chosen,
    ),
    (
        "quantized_decomposed.fake_quant_per_channel",
        "default",
        |c| imitation(c, true),
    ),
    (
        "quantized_decomposed.convert_element_type",
        "no_fuse",
        |c| one(c.tensor("input")?.to_dtype(dtype(c, "dtype")?)),
    ),
    (
        "fake_quantize_per_tensor_affine",
        "default tensor_qparams",
        |c| imitation(c, false),
    ),
    ("fake_quantize_per_channel_affine", "default", |c| {
        imitation(c, true)
    }),
    (
        "fake_quantize_per_tensor_affine_cachemask",
        "default",
        |c| imitation_with_mask(c, false),
    ),
    (
        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
        "default",
        |c| {
            let on = c.tensor("fake_quant_enabled")?.reshape(()).ne(0);
            let [y, inside] = imitated(c, false)?;
            all([
                on.where_cond(&y, c.tensor("self")?),
                inside.logical_or(&on.logical_not()),
            ])
        },
    ),
    (
        "fake_quantize_per_channel_affine_cachemask",
        "default",
        |c| imitation_with_mask(c, true),
    ),
    ("_weight_int8pack_mm", "default", |c| {
        let x = c.tensor("self")?;
        let weight = c.tensor("mat2")?.to_dtype(x.dtype());
        one(x.matmul(&weight.t()) * c.tensor("scales")?)
    }),
];
