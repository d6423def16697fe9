//! Numbers on a scale of powers, the places of triangles, and windows of signal processing.

use super::super::attempt;
use crate::{Input, Tensor};
use ferrotrace_kernels::op::check_size;
use ferrotrace_kernels::{BinaryOp, Op};
use ferrotrace_runtime::{DType, Device, Error, Result, Scalar, Shape};
use std::f64::consts::PI;

/// The rows and columns of the places of a triangle, row by row.
///
/// # Errors
/// There are more than any memory holds.
fn triangle(rows: usize, columns: usize, offset: isize, upper: bool) -> Result<[Vec<i64>; 2]> {
    check_size(&Shape::from([2, rows, columns]), DType::I64)?;
    let mut places: [Vec<i64>; 2] = Default::default();
    for row in 0..rows as i64 {
        // The first column above the diagonal, or the last one's successor below it.
        let edge = (row.saturating_add(offset as i64)).saturating_add(i64::from(!upper));
        let edge = edge.clamp(0, columns as i64);
        let taken = match upper {
            true => edge..columns as i64,
            false => 0..edge,
        };
        places[0].extend(taken.clone().map(|_| row));
        places[1].extend(taken);
    }
    Ok(places)
}

#[track_caller]
fn places(places: [Vec<i64>; 2], device: &Device) -> Tensor {
    let n = places[0].len();
    Tensor::from_vec(places.concat(), [2, n], device)
}

/// A position in a window of a length, in the parts of a whole turn: of a periodic window, the length counts for the
/// whole, else one less.
///
/// # Errors
/// The dtype is not of floats, or no memory holds so many.
#[track_caller]
fn turns(n: usize, periodic: bool, dtype: DType, device: &Device) -> Result<Tensor> {
    if !dtype.is_float() {
        return Err(Error::dtype(format!("a window of {dtype}, not of floats")));
    }
    check_size(&Shape::from(n), DType::F64)?;
    let over = match periodic {
        true => n,
        false => n.saturating_sub(1),
    };
    Ok(Tensor::arange(0, n, 1, DType::F64, device) / over.max(1) as f64)
}

/// Windows as functions of turns. One number is 1, whatever the window.
macro_rules! windows {
    ($($(#[doc = $doc:literal])* $name:ident $text:literal $example:literal => |$turns:ident| $window:expr;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            ///
            /// A periodic window is that of one number more without the last, as spectra want it; else the window is
            /// symmetric. One number is 1. A dtype that is not of floats is an error.
            ///
            /// ```
            /// # use ferrotrace_tracer::prelude::*;
            #[doc = $example]
            /// # Ok::<(), Error>(())
            /// ```
            #[track_caller]
            pub fn $name(n: usize, periodic: bool, dtype: DType, device: &Device) -> Tensor {
                let $turns = attempt!($text, turns(n, periodic, dtype, device));
                if n == 1 {
                    return Tensor::ones(1, dtype, device).called($text, &[]);
                }
                let window = $window;
                window.to_dtype(dtype).called($text, &[])
            }
        )*}
    };
}

windows! {
    /// Hann's window of `n` numbers, ½ − ½·cos(2πi/n): 0 at its ends, 1 in the middle.
    hann_window "hann_window" "let w = Tensor::hann_window(4, true, DType::F32, &Device::cpu());
assert!(w.allclose(&Tensor::from_slice(&[0.0f32, 0.5, 1.0, 0.5], 4, &Device::cpu()), 1e-6, 1e-6)?);"
        => |turns| 0.5 - (turns * (2.0 * PI)).cos() * 0.5;

    /// Hamming's window of `n` numbers, 0.54 − 0.46·cos(2πi/n).
    hamming_window "hamming_window" "let w = Tensor::hamming_window(3, false, DType::F32, &Device::cpu());
assert!(w.allclose(&Tensor::from_slice(&[0.08f32, 1.0, 0.08], 3, &Device::cpu()), 1e-6, 1e-6)?);"
        => |turns| 0.54 - (turns * (2.0 * PI)).cos() * 0.46;

    /// Blackman's window of `n` numbers, 0.42 − 0.5·cos(2πi/n) + 0.08·cos(4πi/n).
    blackman_window "blackman_window" "let w = Tensor::blackman_window(3, false, DType::F32, &Device::cpu());
assert!(w.allclose(&Tensor::from_slice(&[0.0f32, 1.0, 0.0], 3, &Device::cpu()), 1e-6, 1e-6)?);"
        => |turns| {
            let wide = (&turns * (2.0 * PI)).cos() * 0.5;
            0.42 - wide + (turns * (4.0 * PI)).cos() * 0.08
        };

    /// Bartlett's window of `n` numbers, a triangle: 1 − |2i/n − 1|.
    bartlett_window "bartlett_window" "let w = Tensor::bartlett_window(4, true, DType::F32, &Device::cpu());
assert_eq!(w.to_vec::<f32>()?, [0.0, 0.5, 1.0, 0.5]);"
        => |turns| 1.0 - (turns * 2.0 - 1.0).abs();
}

impl Tensor {
    /// Kaiser's window of `n` numbers, I₀(β·√(1 − (2i/n − 1)²)) / I₀(β): the greater β, the wider its spectrum and the lower
    /// what leaks beyond. `periodic`, one number and dtypes are as in [`hann_window`](Tensor::hann_window).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let w = Tensor::kaiser_window(3, false, 12.0, DType::F64, &Device::cpu()).to_vec::<f64>()?;
    /// assert!(w[1] == 1.0 && w[0] < 1e-4 && w[0] == w[2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn kaiser_window(
        n: usize,
        periodic: bool,
        beta: f64,
        dtype: DType,
        device: &Device,
    ) -> Tensor {
        let turns = attempt!("kaiser_window", turns(n, periodic, dtype, device));
        if n == 1 {
            return Tensor::ones(1, dtype, device).called("kaiser_window", &[]);
        }
        let height = (1.0 - (turns * 2.0 - 1.0).square()).clamp_min(0.0).sqrt() * beta;
        // Both functions scaled, so that they do not overflow.
        let whole = Tensor::scalar(beta, DType::F64, device).i0e();
        let window = height.i0e() / whole * (height.abs() - beta.abs()).exp();
        window.to_dtype(dtype).called("kaiser_window", &[])
    }

    /// `n` powers of `base`, whose exponents go in equal steps from `a` to `b`, both included; in binary64, then converted
    /// to the dtype. `a` and `b` have to [fit](Scalar::fits) it; an integer dtype takes their whole parts.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::logspace(0, 3, 4, 10, DType::F32, &Device::cpu());
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 10.0, 100.0, 1000.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn logspace(
        a: impl Into<Scalar>,
        b: impl Into<Scalar>,
        n: usize,
        base: impl Into<Scalar>,
        dtype: DType,
        device: &Device,
    ) -> Tensor {
        let (mut a, mut b) = (a.into(), b.into());
        for number in [&mut a, &mut b] {
            let taken = attempt!("logspace", super::element(*number, dtype));
            if dtype.is_int() {
                *number = taken;
            }
        }
        let exponents = Tensor::linspace(a, b, n, DType::F64, device);
        let base = Scalar::Float(base.into().to_f64());
        let inputs = [Input::Scalar(base), Input::Tensor(&exponents)];
        let powers = Tensor::record_as("logspace", Op::Binary(BinaryOp::Pow), &inputs);
        powers.to_dtype(dtype).called("logspace", &[])
    }

    /// `n` numbers from `a` to `b`, both included, each the same multiple of the one before: in binary64, then converted to
    /// the dtype, integers by leaving out the fraction. `a` and `b` are both positive or both negative.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::geomspace(1, 8, 4, DType::F64, &Device::cpu());
    /// let y = Tensor::from_slice(&[1.0, 2.0, 4.0, 8.0], 4, &Device::cpu());
    /// assert!(x.allclose(&y, 1e-12, 0.0)?);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn geomspace(
        a: impl Into<Scalar>,
        b: impl Into<Scalar>,
        n: usize,
        dtype: DType,
        device: &Device,
    ) -> Tensor {
        let (a, b) = (a.into(), b.into());
        for number in [a, b] {
            attempt!("geomspace", super::element(number, dtype));
        }
        let (a, b) = (a.to_f64(), b.to_f64());
        if !(a * b > 0.0 && a.is_finite() && b.is_finite()) {
            let why = format!("no multiples lead from {a} to {b}");
            return Tensor::failed("geomspace", Error::argument(why), &[]);
        }
        let ends = [a.abs().log10(), b.abs().log10()];
        let powers = Tensor::logspace(ends[0], ends[1], n, 10, DType::F64, device) * a.signum();
        // The ends are what is asked for, not powers of rounded exponents.
        let at = Tensor::arange(0, n, 1, DType::I64, device);
        let inner = at.eq(n as i64 - 1).where_cond(b, &powers);
        let numbers = at.eq(0).where_cond(a, &inner);
        numbers.to_dtype(dtype).called("geomspace", &[])
    }

    /// The places of the lower triangle of a matrix of `rows` by `columns`, up to diagonal `offset` (0 the main one,
    /// positive above it): rows and columns of places, row by row, as `I64` of `[2, n]`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let places = Tensor::tril_indices(2, 2, 0, &Device::cpu());
    /// assert_eq!(places.to_vec::<i64>()?, [0, 1, 1, 0, 0, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn tril_indices(rows: usize, columns: usize, offset: isize, device: &Device) -> Tensor {
        let lower = attempt!("tril_indices", triangle(rows, columns, offset, false));
        places(lower, device)
    }

    /// The places of the upper triangle of a matrix of `rows` by `columns`, from diagonal `offset` on: rows and columns of
    /// places, row by row, as `I64` of `[2, n]`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let places = Tensor::triu_indices(2, 2, 0, &Device::cpu());
    /// assert_eq!(places.to_vec::<i64>()?, [0, 0, 1, 0, 1, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn triu_indices(rows: usize, columns: usize, offset: isize, device: &Device) -> Tensor {
        let upper = attempt!("triu_indices", triangle(rows, columns, offset, true));
        places(upper, device)
    }
}
