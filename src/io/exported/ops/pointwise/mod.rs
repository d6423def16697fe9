//! Functions of one element, and of several, broadcast.

pub(super) mod polynomials;
pub(super) mod special;

use super::Table;
use crate::io::exported::call::{Call, Results, Value, all, one};
use crate::{DType, Operand, Result, Rounding, Scalar, Tensor};

macro_rules! unary {
    ($($method:ident),*) => {
        &[$((stringify!($method), "default", |c: &Call<'_>| one(c.tensor("self")?.$method()))),*]
    };
}

/// Functions whose methods have PyTorch's names.
pub(super) const PLAIN: Table = unary![
    abs,
    neg,
    sign,
    exp,
    exp2,
    expm1,
    log,
    log2,
    log10,
    log1p,
    sqrt,
    rsqrt,
    square,
    sin,
    cos,
    tan,
    asin,
    acos,
    atan,
    sinh,
    cosh,
    tanh,
    asinh,
    acosh,
    atanh,
    erf,
    erfc,
    floor,
    ceil,
    trunc,
    frac,
    isnan,
    isinf,
    isfinite,
    logical_not,
    bitwise_not,
    sigmoid,
    relu
];

/// A function of a tensor and a tensor or number.
fn with(c: &Call<'_>, f: impl Fn(&Tensor, Operand<'_>) -> Tensor) -> Results {
    let x = c.tensor_of_either("self")?;
    one(f(&x, c.operand("other")?))
}

/// The second operand times `alpha`.
fn scaled<'a>(c: &Call<'a>, name: &str) -> Result<Operand<'a>> {
    let other = c.operand(name)?;
    let alpha = match c.scalar("alpha")? {
        None => return Ok(other),
        Some(alpha) if alpha.to_f64() == 1.0 => return Ok(other),
        Some(alpha) => alpha,
    };
    Ok(match other {
        Operand::Tensor(x) => Operand::from(x * alpha),
        Operand::Owned(x) => Operand::from(x * alpha),
        Operand::Scalar(number) => Operand::Scalar(times(number, alpha)),
    })
}

fn times(a: Scalar, b: Scalar) -> Scalar {
    match (a, b) {
        (Scalar::Float(_), _) | (_, Scalar::Float(_)) => Scalar::Float(a.to_f64() * b.to_f64()),
        _ => Scalar::Int(a.to_i64().wrapping_mul(b.to_i64())),
    }
}

/// Whether elements are read as truth values: a mask of bytes is one of booleans.
pub(super) fn mask(x: &Tensor) -> Tensor {
    match x.dtype() {
        DType::Bool => x.clone(),
        _ => x.to_dtype(DType::Bool),
    }
}

fn divided(c: &Call<'_>) -> Results {
    let rounding = match c.text("rounding_mode")? {
        None => return with(c, |x, y| x / y),
        Some("floor") => Rounding::Floor,
        Some(_) => Rounding::Trunc,
    };
    with(c, |x, y| x.divide(y, rounding))
}

fn chosen(c: &Call<'_>) -> Results {
    let test = mask(c.tensor("condition")?);
    if !c.has("self") && !c.has("other") {
        return all(places(&test));
    }
    let (a, b) = (c.operand("self")?, c.operand("other")?);
    if let (Operand::Scalar(a), Operand::Scalar(b)) = (&a, &b) {
        let float = matches!(a, Scalar::Float(_)) || matches!(b, Scalar::Float(_));
        let dtype = match float {
            true => DType::F32,
            false if matches!((a, b), (Scalar::Bool(_), Scalar::Bool(_))) => DType::Bool,
            false => DType::I64,
        };
        return one(test.where_cond(*a, *b).to_dtype(dtype));
    }
    one(test.where_cond(a, b))
}

/// The positions of elements that are not 0, one tensor a dimension.
pub(super) fn places(x: &Tensor) -> Vec<Tensor> {
    let x = match x.rank() {
        0 => &x.reshape([1]),
        _ => x,
    };
    let at = x.nonzero();
    (0..x.rank()).map(|d| at.select(1, d as isize)).collect()
}

/// A limit of `clamp`, as a tensor or number.
fn clamped(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let mut y = x.clone();
    let limit = |name| c.has(name).then(|| c.operand(name)).transpose();
    let (low, high) = (limit("min")?, limit("max")?);
    if let (Some(Operand::Scalar(low)), Some(Operand::Scalar(high))) = (&low, &high) {
        return one(x.clamp(*low, *high));
    }
    y = match low {
        Some(Operand::Scalar(low)) => y.clamp_min(low),
        Some(low) => y.maximum(low),
        None => y,
    };
    one(match high {
        Some(Operand::Scalar(high)) => y.clamp_max(high),
        Some(high) => y.minimum(high),
        None => y,
    })
}

fn finite(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    let (low, high) = match x.dtype() {
        DType::F16 => (-65504.0, 65504.0),
        DType::BF16 => (-f64::from(half_max()), f64::from(half_max())),
        DType::F64 => (f64::MIN, f64::MAX),
        _ => (f64::from(f32::MIN), f64::from(f32::MAX)),
    };
    if !x.dtype().is_float() {
        return one(x.clone());
    }
    let of = |name, default: f64| c.float_or(name, default);
    one(x.nan_to_num(of("nan", 0.0)?, of("posinf", high)?, of("neginf", low)?))
}

/// The greatest number of `BF16`.
fn half_max() -> f32 {
    f32::from_bits(0x7f7f_0000)
}

fn rounded(c: &Call<'_>) -> Results {
    let x = c.tensor("self")?;
    match c.int_or("decimals", 0)? {
        0 => one(x.round()),
        n if n > 0 => {
            let ten = 10f64.powi(n as i32);
            one((x * ten).round() / ten)
        }
        n => {
            let ten = 10f64.powi(-n as i32);
            one((x / ten).round() * ten)
        }
    }
}

/// A tensor as floating-point numbers.
pub(super) fn floats(x: &Tensor) -> Tensor {
    match x.dtype().is_float() {
        true => x.clone(),
        false => x.to_dtype(DType::F32),
    }
}

fn x_log_1p_y(c: &Call<'_>) -> Results {
    let (x, y) = (c.tensor_of_either("self")?, c.tensor_of_either("other")?);
    let product = &x * y.log1p();
    let zero = x.eq(0).logical_and(&y.isnan().logical_not());
    one(zero.where_cond(0.0, &product))
}

fn is_equal(c: &Call<'_>) -> Results {
    let (a, b) = (c.tensor("self")?, c.tensor("other")?);
    let same = a.dims() == b.dims() && a.eq(b).all(..).to_scalar::<bool>()?;
    Ok(vec![Value::Bool(same)])
}

pub(super) const TABLE: Table = &[
    ("add", "Tensor Scalar", |c| {
        let other = scaled(c, "other")?;
        let x = c.tensor_of_either("self")?;
        if x.dtype() == DType::Bool
            && matches!(&other, Operand::Tensor(y) if y.dtype() == DType::Bool)
        {
            return one(x.logical_or(other));
        }
        one(x + other)
    }),
    ("sub", "Tensor Scalar", |c| {
        let other = scaled(c, "other")?;
        one(c.tensor_of_either("self")? - other)
    }),
    ("subtract", "Tensor Scalar", |c| {
        one(c.tensor_of_either("self")? - scaled(c, "other")?)
    }),
    ("rsub", "Tensor Scalar", |c| {
        let x = match c.scalar("alpha")? {
            Some(alpha) if alpha.to_f64() != 1.0 => c.tensor("self")? * alpha,
            _ => c.tensor("self")?.clone(),
        };
        match c.operand("other")? {
            Operand::Scalar(number) => one(number - x),
            other => one(owned(other) - x),
        }
    }),
    ("mul", "Tensor Scalar", |c| with(c, |x, y| x * y)),
    ("multiply", "Tensor Scalar", |c| with(c, |x, y| x * y)),
    ("div", "Tensor Scalar Tensor_mode Scalar_mode", divided),
    ("divide", "Tensor Scalar Tensor_mode Scalar_mode", divided),
    ("true_divide", "Tensor Scalar", divided),
    ("floor_divide", "default Scalar", |c| {
        with(c, |x, y| x.divide(y, Rounding::Floor))
    }),
    ("remainder", "Tensor Scalar Scalar_Tensor", |c| {
        with(c, |x, y| x.remainder(y))
    }),
    ("fmod", "Tensor Scalar", |c| with(c, |x, y| x.fmod(y))),
    ("pow", "Tensor_Tensor Tensor_Scalar Scalar", |c| {
        let x = c.tensor_of_either("self")?;
        one(x.pow(c.operand("exponent")?))
    }),
    ("float_power", "Tensor_Tensor Tensor_Scalar Scalar", |c| {
        let x = c.tensor_of_either("self")?.to_dtype(DType::F64);
        one(x.pow(c.operand("exponent")?))
    }),
    ("maximum", "default", |c| with(c, |x, y| x.maximum(y))),
    ("minimum", "default", |c| with(c, |x, y| x.minimum(y))),
    ("fmax", "default", |c| with(c, |x, y| x.fmax(y))),
    ("fmin", "default", |c| with(c, |x, y| x.fmin(y))),
    ("atan2", "default", |c| with(c, |x, y| x.atan2(y))),
    ("atan2", "out", |c| {
        // The result, and what the argument that it is written into becomes.
        let y = with(c, |x, y| x.atan2(y))?;
        Ok(y.iter().chain(&y).cloned().collect())
    }),
    ("arctan2", "default", |c| with(c, |x, y| x.atan2(y))),
    ("hypot", "default", |c| with(c, |x, y| x.hypot(y))),
    ("logaddexp", "default", |c| with(c, |x, y| x.logaddexp(y))),
    ("eq", "Tensor Scalar", |c| with(c, |x, y| x.eq(y))),
    ("ne", "Tensor Scalar", |c| with(c, |x, y| x.ne(y))),
    ("not_equal", "Tensor Scalar", |c| with(c, |x, y| x.ne(y))),
    ("lt", "Tensor Scalar", |c| with(c, |x, y| x.lt(y))),
    ("less", "Tensor Scalar", |c| with(c, |x, y| x.lt(y))),
    ("le", "Tensor Scalar", |c| with(c, |x, y| x.le(y))),
    ("less_equal", "Tensor Scalar", |c| with(c, |x, y| x.le(y))),
    ("gt", "Tensor Scalar", |c| with(c, |x, y| x.gt(y))),
    ("greater", "Tensor Scalar", |c| with(c, |x, y| x.gt(y))),
    ("ge", "Tensor Scalar", |c| with(c, |x, y| x.ge(y))),
    ("greater_equal", "Tensor Scalar", |c| {
        with(c, |x, y| x.ge(y))
    }),
    ("logical_and", "default", |c| {
        with(c, |x, y| x.logical_and(y))
    }),
    ("logical_or", "default", |c| with(c, |x, y| x.logical_or(y))),
    ("logical_xor", "default", |c| {
        with(c, |x, y| x.logical_xor(y))
    }),
    ("bitwise_and", "Tensor Scalar Scalar_Tensor", |c| {
        with(c, |x, y| x.bitwise_and(y))
    }),
    ("bitwise_or", "Tensor Scalar Scalar_Tensor", |c| {
        with(c, |x, y| x.bitwise_or(y))
    }),
    ("bitwise_xor", "Tensor Scalar Scalar_Tensor", |c| {
        with(c, |x, y| x.bitwise_xor(y))
    }),
    ("__and__", "Tensor Scalar", |c| {
        with(c, |x, y| x.bitwise_and(y))
    }),
    ("__or__", "Tensor Scalar", |c| {
        with(c, |x, y| x.bitwise_or(y))
    }),
    ("__xor__", "Tensor Scalar", |c| {
        with(c, |x, y| x.bitwise_xor(y))
    }),
    (
        "bitwise_left_shift",
        "Tensor Tensor_Scalar Scalar_Tensor",
        |c| with(c, |x, y| x.shl(y)),
    ),
    (
        "bitwise_right_shift",
        "Tensor Tensor_Scalar Scalar_Tensor",
        |c| with(c, |x, y| x.shr(y)),
    ),
    ("__lshift__", "Tensor Scalar", |c| with(c, |x, y| x.shl(y))),
    ("__rshift__", "Tensor Scalar", |c| with(c, |x, y| x.shr(y))),
    ("xlogy", "Tensor Scalar_Self Scalar_Other", |c| {
        with(c, |x, y| x.xlogy(y))
    }),
    (
        "special_xlog1py",
        "default self_scalar other_scalar",
        x_log_1p_y,
    ),
    ("copysign", "Tensor Scalar", |c| {
        with(c, |x, y| x.copysign(y))
    }),
    ("heaviside", "default", |c| {
        one(c.tensor("self")?.heaviside(c.tensor("values")?))
    }),
    (
        "where",
        "self Scalar ScalarSelf ScalarOther default",
        chosen,
    ),
    ("masked_fill", "Scalar Tensor", |c| {
        let (x, test) = (c.tensor("self")?, mask(c.tensor("mask")?));
        match c.operand("value")? {
            Operand::Scalar(value) => one(test.where_cond(value, x).to_dtype(x.dtype())),
            value => one(test.where_cond(&owned(value).to_dtype(x.dtype()), x)),
        }
    }),
    ("clamp", "default Tensor", clamped),
    ("clip", "default Tensor", clamped),
    ("clamp_min", "default Tensor", clamped),
    ("clamp_max", "default Tensor", clamped),
    ("nan_to_num", "default", finite),
    ("lerp", "Scalar Tensor", |c| {
        one(c
            .tensor("self")?
            .lerp(c.tensor("end")?, c.operand("weight")?))
    }),
    ("addcmul", "default", |c| {
        let (x, a, b) = (
            c.tensor("self")?,
            c.tensor("tensor1")?,
            c.tensor("tensor2")?,
        );
        one(x.addcmul(a, b, c.scalar_or("value", 1)?))
    }),
    ("addcdiv", "default", |c| {
        let (x, a, b) = (
            c.tensor("self")?,
            c.tensor("tensor1")?,
            c.tensor("tensor2")?,
        );
        one(x.addcdiv(a, b, c.scalar_or("value", 1)?))
    }),
    ("round", "default decimals", rounded),
    ("reciprocal", "default", |c| one(c.tensor("self")?.recip())),
    ("sgn", "default", |c| one(c.tensor("self")?.sign())),
    ("signbit", "default", |c| one(c.tensor("self")?.signbit())),
    ("absolute", "default", |c| one(c.tensor("self")?.abs())),
    ("negative", "default", |c| one(c.tensor("self")?.neg())),
    ("fix", "default", |c| one(c.tensor("self")?.trunc())),
    ("special_expit", "default", |c| {
        one(c.tensor("self")?.sigmoid())
    }),
    ("special_erf", "default", |c| one(c.tensor("self")?.erf())),
    ("deg2rad", "default", |c| one(c.tensor("self")?.deg2rad())),
    ("rad2deg", "default", |c| one(c.tensor("self")?.rad2deg())),
    ("isposinf", "default", |c| one(c.tensor("self")?.isposinf())),
    ("isneginf", "default", |c| one(c.tensor("self")?.isneginf())),
    ("logit", "default", |c| {
        let eps = c.has("eps").then(|| c.float_or("eps", 0.0)).transpose()?;
        one(c.tensor("self")?.logit(eps))
    }),
    ("angle", "default", |c| {
        let x = floats(c.tensor("self")?);
        let angle = x.lt(0).where_cond(std::f64::consts::PI, 0.0);
        one(x.isnan().where_cond(&x, &angle.to_dtype(x.dtype())))
    }),
    ("sinc", "default", |c| one(c.tensor("self")?.sinc())),
    ("isclose", "default", |c| {
        let (rtol, atol) = (c.float_or("rtol", 1e-5)?, c.float_or("atol", 1e-8)?);
        let (a, b) = (c.tensor("self")?, c.tensor("other")?);
        one(a.isclose(b, rtol, atol, c.bool_or("equal_nan", false)?))
    }),
    ("equal", "default", is_equal),
    ("real", "default", |c| one(c.tensor("self")?.clone())),
    ("conj", "default", |c| one(c.tensor("self")?.clone())),
    ("_conj", "default", |c| one(c.tensor("self")?.clone())),
    ("resolve_conj", "default", |c| {
        one(c.tensor("self")?.clone())
    }),
    ("resolve_neg", "default", |c| one(c.tensor("self")?.clone())),
];

/// The tensor of an operand that is one.
fn owned(operand: Operand<'_>) -> Tensor {
    match operand {
        Operand::Tensor(x) => x.clone(),
        Operand::Owned(x) => x,
        Operand::Scalar(number) => {
            Tensor::scalar(number, number.default_dtype(), &crate::Device::cpu())
        }
    }
}
