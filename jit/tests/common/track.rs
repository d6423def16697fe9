//! How far apart two correct evaluations of a value may be: a forward error analysis, so that comparisons need no
//! guessed tolerance and no generated graph turns a rounding difference into a jump.

use ferrotrace_jit::Precision;
use ferrotrace_kernels::{BinaryOp, ReduceKind, UnaryOp};
use ferrotrace_runtime::DType;

/// What is known of a value.
#[derive(Clone, Copy, Debug)]
pub struct Track {
    /// Greatest magnitude; infinite if unknown (the value may then be NaN).
    pub bound: f64,
    /// Greatest difference of two correct evaluations; 0: bit for bit equal.
    pub error: f64,
    /// The sign of zeros may differ.
    pub any_zero: bool,
}

impl Track {
    pub fn exact(bound: f64) -> Track {
        Track {
            bound,
            error: 0.0,
            any_zero: false,
        }
    }

    pub fn is_exact(&self) -> bool {
        self.error == 0.0
    }

    /// The greater of two, as of a choice between them.
    pub fn join(self, other: Track) -> Track {
        Track {
            bound: self.bound.max(other.bound),
            error: self.error.max(other.error),
            any_zero: self.any_zero | other.any_zero,
        }
    }
}

/// Half a unit in the last place of 1, doubled for safety.
pub fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 1.0e-3,
        DType::BF16 => 8.0e-3,
        DType::F32 => 1.2e-7,
        DType::F64 => 2.3e-16,
        _ => 0.0,
    }
}

/// The greatest magnitude of an integer type.
pub fn limit(dtype: DType) -> f64 {
    match dtype {
        DType::Bool => 1.0,
        DType::U8 => 255.0,
        DType::I8 => 128.0,
        DType::I16 => 32768.0,
        DType::I32 => 2147483648.0,
        DType::I64 => 9.3e18,
        DType::F16 => 6.0e4,
        _ => f64::INFINITY,
    }
}

/// The result of computing in `dtype` with this bound and propagated error: `None` where two correct evaluations could
/// differ by more than is known.
pub fn rounded(
    bound: f64,
    error: f64,
    any_zero: bool,
    dtype: DType,
    precision: Precision,
    loose: bool,
) -> Option<Track> {
    if !dtype.is_float() {
        return (error == 0.0).then(|| Track::exact(bound.min(limit(dtype))));
    }
    let fast_half = dtype.is_half() && precision == Precision::Fast;
    let mut error = error;
    if fast_half || error > 0.0 || loose {
        if !bound.is_finite() || bound > 1e6 || (dtype == DType::F16 && bound > 5e4) {
            return None;
        }
        error = error * 1.01
            + 2.0 * epsilon(dtype) * bound
            + if dtype == DType::F16 { 1e-7 } else { 1e-37 };
        if error > 0.05 * bound.max(1.0) {
            return None;
        }
    }
    Some(Track {
        bound,
        error,
        any_zero,
    })
}

/// `approximate`: functions for which a device has approximations are no better than those.
pub fn unary(
    op: UnaryOp,
    x: Track,
    compute: DType,
    precision: Precision,
    approximate: bool,
) -> Option<Track> {
    use UnaryOp::*;
    let b = x.bound;
    let bound = match op {
        Abs | Neg | Relu | Trunc => b,
        Floor | Ceil | Round => b + 1.0,
        Sign | Sin | Cos | Tanh | Erf | Sigmoid | LogicalNot | IsNan | IsInf | IsFinite
            if b.is_finite() =>
        {
            1.0
        }
        LogicalNot | IsNan | IsInf | IsFinite => 1.0,
        Atan if b.is_finite() => 1.6,
        Exp | Expm1 if b < 11.0 => b.exp(),
        Exp2 if b < 16.0 => b.exp2(),
        Square => b * b,
        Sinh | Cosh if b < 10.0 => b.exp(),
        Erfc if b.is_finite() => 2.0,
        _ => f64::INFINITY,
    };
    if op.result_dtype(compute) == DType::Bool {
        return x.is_exact().then(|| Track::exact(1.0));
    }
    if x.any_zero && matches!(op, Recip | Rsqrt) {
        return None;
    }
    let slope = match op {
        Abs | Neg | Relu | Tanh | Sigmoid | Sin | Cos | Atan => 1.0,
        Erf => 1.2,
        Square => 2.0 * b,
        Exp | Expm1 if b < 6.0 => b.exp(),
        _ if x.is_exact() => 0.0,
        _ => return None,
    };
    let loose = approximate
        && precision == Precision::Fast
        && matches!(op, Exp | Log | Log1p | Erf | Tanh | Sigmoid)
        && compute != DType::F64;
    rounded(
        bound,
        slope * x.error,
        x.any_zero,
        compute,
        precision,
        loose,
    )
}

pub fn binary(
    op: BinaryOp,
    x: Track,
    y: Track,
    compute: DType,
    precision: Precision,
) -> Option<Track> {
    use BinaryOp::*;
    let exact = x.is_exact() && y.is_exact();
    if op.result_dtype(compute) == DType::Bool {
        return exact.then(|| Track::exact(1.0));
    }
    let any_zero = x.any_zero | y.any_zero;
    if any_zero && matches!(op, Div | Atan2 | Pow | Mod | Fmod | FloorDiv) {
        return None;
    }
    let (bound, error) = match op {
        Add | Sub => (x.bound + y.bound, x.error + y.error),
        Mul => {
            let cross = |a: Track, b: Track| {
                if b.error == 0.0 {
                    0.0
                } else {
                    a.bound * b.error
                }
            };
            (
                if x.bound == 0.0 || y.bound == 0.0 {
                    0.0
                } else {
                    x.bound * y.bound
                },
                cross(x, y) + cross(y, x),
            )
        }
        Maximum | Minimum => (x.bound.max(y.bound), x.error.max(y.error)),
        Atan2 if exact && x.bound.is_finite() && y.bound.is_finite() => (3.2, 0.0),
        _ if exact && compute.is_int() => (limit(compute), 0.0),
        _ if exact => (f64::INFINITY, 0.0),
        _ => return None,
    };
    rounded(bound, error, any_zero, compute, precision, false)
}

/// An operand or a value converted to another type (the conversion itself rounds in both evaluations).
pub fn cast(x: Track, from: DType, to: DType) -> Option<Track> {
    if from == to {
        return Some(x);
    }
    if x.is_exact() {
        let bound = if x.bound.is_finite() {
            x.bound.min(limit(to))
        } else {
            limit(to)
        };
        return Some(Track {
            bound: if to == DType::F16 && x.bound > 6e4 {
                f64::INFINITY
            } else {
                bound
            },
            ..x
        });
    }
    if !to.is_float() || (to == DType::F16 && x.bound > 5e4) {
        return None;
    }
    Some(Track {
        error: x.error + 2.0 * epsilon(to) * x.bound + if to == DType::F16 { 1e-7 } else { 0.0 },
        ..x
    })
}

/// A reduction of `n` elements of `from` to `to`.
pub fn reduce(
    kind: ReduceKind,
    x: Track,
    n: usize,
    from: DType,
    to: DType,
    precision: Precision,
) -> Option<Track> {
    use ReduceKind::*;
    let count = n.max(1) as f64;
    match kind {
        Any | All | ArgMax | ArgMin => x
            .is_exact()
            .then(|| Track::exact(if to == DType::Bool { 1.0 } else { count })),
        Max | Min => Some(Track {
            any_zero: from.is_float(),
            ..x
        }),
        Sum | Prod if !from.is_float() => Some(Track::exact(limit(DType::I64))),
        Sum | Mean => {
            // Sums in binary32 err as much as chains of 32 additions, however long they are.
            let chain = match from.compute() {
                DType::F32 => count.min(32.0),
                _ => count,
            };
            let wide = epsilon(from.compute()) * chain * x.bound * count;
            let (bound, error) = (x.bound * count, x.error * count + wide);
            let scale = if kind == Mean { 1.0 / count } else { 1.0 };
            let bound = if kind == Mean { x.bound * 1.01 } else { bound };
            rounded(bound, error * scale, true, to, precision, true)
        }
        Prod => {
            if n > 6 || x.bound > 4.0 {
                return None;
            }
            let bound = x.bound.max(1.0).powi(n as i32);
            let error = bound * (x.error + epsilon(from.compute())) * count;
            rounded(bound, error, true, to, precision, true)
        }
    }
}

/// A composite whose slope and conditioning the caller bounds.
pub fn composite(
    x: Track,
    bound: f64,
    slope: f64,
    dtype: DType,
    precision: Precision,
) -> Option<Track> {
    if !x.bound.is_finite() || x.bound > 64.0 {
        return None;
    }
    let error = slope * (x.error + 8.0 * epsilon(dtype.compute()) * x.bound.max(1.0));
    rounded(bound, error, true, dtype, precision, true)
}
