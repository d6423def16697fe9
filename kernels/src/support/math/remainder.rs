//! Remainders and the quotients that go with them.

use super::long::Long;
use super::real::Real;
use crate::support::lane::{Float, Float32, Int};

/// a − b·trunc(a/b) in binary64, exact; NaN for b = 0 or infinite a.
#[inline(always)]
pub fn fmod_f64<F: Real + Long>(a: F, b: F) -> F {
    let zero = F::lit(0.0);
    let (x, y) = (a.abs(), b.abs());
    let quotient = x / y;
    let whole = quotient.trunc();
    // The quotient may have rounded up to an integer: then the rest is negative.
    let rest = whole.fma(-y, x);
    let rest = F::sel(rest.lt(zero), rest + y, rest);
    let limit = F::lit(4503599627370496.0);
    let infinity = F::lit(f64::INFINITY);
    let far = quotient.ge(limit) & x.lt(infinity) & y.gt(zero);
    let (rest, _) = F::rare(far, (rest, F::Int::lit(0)), || {
        (x.long_remainder(y), F::Int::lit(0))
    });
    // A dividend below the divisor is the remainder, an infinite divisor included.
    let rest = F::sel(x.lt(y), x, rest);
    rest.xor_sign(a.sign_bit())
}

/// a − b·trunc(a/b) in binary32, exact; NaN for b = 0 or infinite a.
#[inline(always)]
pub fn fmod_f32<F: Float32>(a: F, b: F) -> F
where
    F::Wide: Real + Long,
{
    F::narrow(fmod_f64(a.widen(), b.widen()))
}

/// The remainder with the sign of the divisor, from the remainder with the sign of the dividend.
#[inline(always)]
pub(super) fn floored<F: Float>(m: F, b: F) -> F {
    let zero = F::lit(0.0);
    let other = m.ne(zero) & (m.lt(zero) ^ b.lt(zero));
    F::sel(other, m + b, m)
}

/// ⌊a/b⌋ of the exact quotient, from the remainder m of truncated division (Python's `//`); a/b for b = 0.
#[inline(always)]
pub(super) fn floor_of<F: Float>(a: F, b: F, m: F) -> F {
    let (zero, one) = (F::lit(0.0), F::lit(1.0));
    let quotient = (a - m) / b;
    let other = m.ne(zero) & (m.lt(zero) ^ b.lt(zero));
    let quotient = F::sel(other, quotient - one, quotient);
    let floor = quotient.floor();
    let floor = F::sel((quotient - floor).gt(F::lit(0.5)), floor + one, floor);
    let plain = a / b;
    let signed_zero = zero.or_sign(plain.sign_bit());
    let floor = F::sel(quotient.eq(zero), signed_zero, floor);
    F::sel(b.eq(zero), plain, floor)
}
