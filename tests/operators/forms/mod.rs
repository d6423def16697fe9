//! Operands in every form that memory gives them, and comparison with references in binary64.
#![allow(dead_code)]

use ferrotrace::DType::*;
use ferrotrace::prelude::*;

pub const ALL: [DType; 10] = [F64, F32, F16, BF16, I64, I32, I16, I8, U8, Bool];
pub const NUMBERS: [DType; 9] = [F64, F32, F16, BF16, I64, I32, I16, I8, U8];
pub const FLOATS: [DType; 4] = [F64, F32, F16, BF16];
pub const INTS: [DType; 5] = [I64, I32, I16, I8, U8];

pub fn cpu() -> Device {
    Device::cpu()
}

pub fn both(body: impl Fn()) {
    with_mode(Mode::Compiled, &body);
    with_mode(Mode::Eager, &body);
}

/// Both modes for each dtype; compiled, three stand for the others unless `all`, since every dtype has kernels of its own.
pub fn each(dtypes: &[DType], all: bool, body: impl Fn(DType)) {
    let stands = |dtype: &&DType| all || [F32, BF16, I64].contains(*dtype);
    with_mode(Mode::Eager, || dtypes.iter().for_each(|&dtype| body(dtype)));
    with_mode(Mode::Compiled, || {
        dtypes.iter().filter(stands).for_each(|&dtype| body(dtype));
    });
}

/// A dense tensor of these values.
pub fn dense(dims: &[usize], dtype: DType, values: &[f64]) -> Tensor {
    Tensor::from_slice(values, dims, &cpu()).to_dtype(dtype)
}

pub fn ints(values: &[i64]) -> Tensor {
    Tensor::from_slice(values, values.len(), &cpu())
}

/// The same values dense and pending; of F32, which stands for all where strides are concerned, also as every second
/// element of memory, and with dimensions in reverse order.
pub fn forms(dims: &[usize], dtype: DType, values: &[f64]) -> Vec<Tensor> {
    let x = dense(dims, dtype, values);
    x.eval().unwrap();
    let mut forms = vec![x.clone()];
    if !dims.is_empty() && dtype == F32 {
        let last = dims.len() - 1;
        let wide = x.repeat_interleave(2, last).contiguous();
        wide.eval().unwrap();
        forms.push(wide.slice(last, 0, isize::MAX, 2));
        let order: Vec<usize> = (0..dims.len()).rev().collect();
        let turned = x.permute(&order[..]).contiguous();
        turned.eval().unwrap();
        forms.push(turned.permute(&order[..]));
    }
    forms.push(x.logical_not().where_cond(&x, &x));
    forms
}

/// Small whole numbers without order; all dtypes hold them.
pub fn whole(n: usize, below: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 7919 + 13) % below) as f64).collect()
}

/// Numbers in (−2, 2) that every floating-point dtype holds.
pub fn eighths(n: usize) -> Vec<f64> {
    (0..n)
        .map(|i| ((i * 7919 + 5) % 31) as f64 / 8.0 - 1.875)
        .collect()
}

pub fn values(x: &Tensor) -> Vec<f64> {
    x.to_dtype(F64).to_vec::<f64>().unwrap()
}

#[track_caller]
pub fn equal(x: &Tensor, dims: &[usize], expected: &[f64]) {
    near(x, dims, expected, 0.0);
}

/// Compares elements, `tolerance` being relative to 1 or the greater expected number.
#[track_caller]
pub fn near(x: &Tensor, dims: &[usize], expected: &[f64], tolerance: f64) {
    assert_eq!(x.dims(), dims, "{x}");
    let got = values(x);
    assert_eq!(got.len(), expected.len());
    for (i, (a, b)) in got.iter().zip(expected).enumerate() {
        let close =
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * b.abs().max(1.0);
        assert!(
            close,
            "element {i}: {a} for {b}, of {got:?} for {expected:?}"
        );
    }
}

/// The relative error of one rounding to the dtype.
pub fn unit(dtype: DType) -> f64 {
    match dtype {
        F64 => 1e-14,
        F32 => 1e-6,
        F16 => 1e-3,
        _ => 8e-3,
    }
}

/// The tensor carries an error whose text has these parts, at the caller's line or the next few, which a long call has.
#[track_caller]
pub fn fails(x: &Tensor, parts: &[&str]) {
    let caller = std::panic::Location::caller();
    let line = caller.line();
    let error = x
        .error()
        .unwrap_or_else(|| panic!("no error but {x:?}"))
        .to_string();
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in {error}");
    }
    let at = |line| error.contains(&format!("{}:{line}:", caller.file()));
    assert!(
        (line..line + 9).any(at),
        "no line from {line} on is in {error}"
    );
}

/// The row-major offset's indices.
pub fn index_of(mut at: usize, dims: &[usize]) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    for d in (0..dims.len()).rev() {
        index[d] = at % dims[d];
        at /= dims[d];
    }
    index
}

pub fn offset(index: &[usize], dims: &[usize]) -> usize {
    index.iter().zip(dims).fold(0, |at, (i, n)| at * n + i)
}
