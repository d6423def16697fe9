//! Trigonometric functions and their inverses. An angle is reduced to a number k of quarter turns and a rest
//! |r| ≤ π/4.

use super::long::{Long, TURNS, TURNS_REST};
use super::real::Real;
use crate::support::lane::{Float, Float32, Int};

/// A float whose angles of any size can be reduced.
pub trait Angle: Real {
    /// The largest angle that [`sin_near`], [`cos_near`] and [`tan_near`] take.
    const NEAR: f64;
    /// (r, k) with x = k·π/2 + r, for x without sign; k modulo 4 at least.
    fn reduce_angle(x: Self) -> (Self, Self::Int);
    /// Reduces x ≤ [`NEAR`](Self::NEAR) to a quarter turn, and counts the turns.
    fn reduce_near(x: Self) -> (Self, Self::Int);
}

/// Cody and Waite's reduction: each product with a part of π/2 is exact but for the last.
#[inline(always)]
fn subtract_turns<F: Real>(x: F, parts: [f64; 3]) -> (F, F::Int) {
    let magic = F::lit(F::MAGIC);
    let t = x.fma(F::lit(std::f64::consts::FRAC_2_PI), magic);
    let n = t - magic;
    let r = n.fma(F::lit(-parts[0]), x);
    let r = n.fma(F::lit(-parts[1]), r);
    (n.fma(F::lit(-parts[2]), r), t.bits() - magic.bits())
}

/// Whether x, which has no sign, is above a limit or NaN: bits of such numbers are in their order.
#[inline(always)]
fn beyond<F: Real>(x: F, limit: f64) -> F::Mask {
    x.bits().gt(F::lit(limit).bits())
}

#[inline(always)]
fn reduce_f32<F: Float32 + Real>(x: F) -> (F, F::Int)
where
    F::Wide: Real,
{
    F::rare(beyond(x, NEAR_F32), near_f32(x), || {
        // x = m·2^e with an integer m: m times what 2^e·2/π is modulo 4.
        let exponent = x.bits().shr(23);
        let m = ((x.bits() & F::Int::lit(0x7fffff)) | F::Int::lit(0x800000))
            .to_float()
            .widen();
        let index = exponent - F::Int::lit(142);
        let product = m * F::table("ft_turns", &TURNS, index);
        let n = product.rint();
        let rest = m.fma(F::table("ft_turns_rest", &TURNS_REST, index), product - n);
        let magic = F::Wide::lit(<F::Wide as Real>::MAGIC);
        let k = F::narrow_int((n + magic).bits() - magic.bits());
        (
            F::narrow(rest * F::Wide::lit(std::f64::consts::FRAC_PI_2)),
            k,
        )
    })
}

#[inline(always)]
fn reduce_f64<F: Real + Long>(x: F) -> (F, F::Int) {
    F::rare(beyond(x, NEAR_F64), near_f64(x), || {
        (
            x.turns_rest() * F::lit(std::f64::consts::FRAC_PI_2),
            x.turns(),
        )
    })
}

const NEAR_F32: f64 = 32768.0;
const NEAR_F64: f64 = 134217728.0;

#[inline(always)]
fn near_f32<F: Real>(x: F) -> (F, F::Int) {
    subtract_turns(
        x,
        [
            1.5707963705062866,
            -4.371138828673793e-08,
            -1.7151245100058819e-15,
        ],
    )
}

#[inline(always)]
fn near_f64<F: Real>(x: F) -> (F, F::Int) {
    subtract_turns(
        x,
        [
            std::f64::consts::FRAC_PI_2,
            6.123233995736766e-17,
            -1.4973849048591698e-33,
        ],
    )
}

macro_rules! angles {
    ($($t:ty: $reduce:ident $near:ident $limit:ident),* $(,)?) => {$(
        impl Angle for $t {
            const NEAR: f64 = $limit;
            #[inline(always)]
            fn reduce_near(x: Self) -> (Self, Self::Int) {
                $near(x)
            }
            #[inline(always)]
            fn reduce_angle(x: Self) -> (Self, Self::Int) {
                $reduce(x)
            }
        }
    )*};
}

use crate::support::trace::{F32, F64, Sym};
angles! {
    f32: reduce_f32 near_f32 NEAR_F32,
    Sym<F32>: reduce_f32 near_f32 NEAR_F32,
    f64: reduce_f64 near_f64 NEAR_F64,
    Sym<F64>: reduce_f64 near_f64 NEAR_F64,
}

/// sin r and cos r for |r| ≤ π/4.
#[inline(always)]
fn sin_cos<F: Real>(r: F) -> (F, F) {
    let z = r * r;
    let sin = (r * z).fma(F::sin_reduced(z), r);
    let cos = (z * z).fma(F::cos_reduced(z), z.fma(F::lit(-0.5), F::lit(1.0)));
    (sin, cos)
}

/// sin(r + k·π/2).
#[inline(always)]
fn wave<F: Real>(r: F, k: F::Int, sign: F::Int) -> F {
    let (sin, cos) = sin_cos(r);
    let odd = (k & F::Int::lit(1)).eq(F::Int::lit(1));
    let flip = (k & F::Int::lit(2)).shl(F::SIGN_SHIFT - 1);
    F::sel(odd, cos, sin).xor_sign(flip ^ sign)
}

/// The sine of an angle of any size. At most 2 ulp.
#[inline(always)]
pub fn sin<F: Angle>(x: F) -> F {
    let (r, k) = F::reduce_angle(x.abs());
    wave(r, k, x.sign_bit())
}

/// The cosine of an angle of any size. At most 2.5 ulp.
#[inline(always)]
pub fn cos<F: Angle>(x: F) -> F {
    let (r, k) = F::reduce_angle(x.abs());
    wave(r, k + F::Int::lit(1), F::Int::lit(0))
}

/// sin r / cos r, or −cos r / sin r for odd k.
#[inline(always)]
fn slope<F: Real>(r: F, k: F::Int, sign: F::Int) -> F {
    let (sin, cos) = sin_cos(r);
    let odd = (k & F::Int::lit(1)).eq(F::Int::lit(1));
    let t = F::sel(odd, -cos, sin) / F::sel(odd, sin, cos);
    t.xor_sign(sign)
}

/// The tangent of an angle of any size. At most 4 ulp.
#[inline(always)]
pub fn tan<F: Angle>(x: F) -> F {
    let (r, k) = F::reduce_angle(x.abs());
    slope(r, k, x.sign_bit())
}

/// [`sin`] for |x| ≤ [`Angle::NEAR`], bit for bit: a loop over angles known to be small is several times faster.
#[inline(always)]
pub fn sin_near<F: Angle>(x: F) -> F {
    let (r, k) = F::reduce_near(x.abs());
    wave(r, k, x.sign_bit())
}

/// [`cos`] for |x| ≤ [`Angle::NEAR`], bit for bit.
#[inline(always)]
pub fn cos_near<F: Angle>(x: F) -> F {
    let (r, k) = F::reduce_near(x.abs());
    wave(r, k + F::Int::lit(1), F::Int::lit(0))
}

/// [`tan`] for |x| ≤ [`Angle::NEAR`], bit for bit.
#[inline(always)]
pub fn tan_near<F: Angle>(x: F) -> F {
    let (r, k) = F::reduce_near(x.abs());
    slope(r, k, x.sign_bit())
}

/// π/2 in two parts, added to `y`.
#[inline(always)]
fn plus_quarter<F: Real>(y: F) -> F {
    F::lit(F::FRAC_PI_2[0]) + (F::lit(F::FRAC_PI_2[1]) + y)
}

/// a ≤ ½: z = a², a. Above: z = (1 − a)/2, √z, since asin a = π/2 − 2·asin √((1 − a)/2).
#[inline(always)]
fn half_angle<F: Real>(a: F) -> (F::Mask, F, F) {
    let half = F::lit(0.5);
    let large = a.gt(half);
    let z = F::sel(large, half - half * a, a * a);
    (large, z, F::sel(large, z.sqrt(), a))
}

/// The inverse sine; NaN beyond ±1. At most 3 ulp.
#[inline(always)]
pub fn asin<F: Real>(x: F) -> F {
    let a = x.abs();
    let (large, z, s) = half_angle(a);
    let y = (s * z).fma(F::asin_reduced(z), s);
    let far = plus_quarter(-(y + y));
    F::sel(large, far, y).or_sign(x.sign_bit())
}

/// The inverse cosine; NaN beyond ±1. At most 3 ulp.
#[inline(always)]
pub fn acos<F: Real>(x: F) -> F {
    let a = x.abs();
    let (large, z, s) = half_angle(a);
    let y = (s * z).fma(F::asin_reduced(z), s);
    let negative = x.lt(F::lit(0.0));
    let twice = y + y;
    let quarter = F::lit(F::FRAC_PI_2[0]);
    let rest = F::lit(F::FRAC_PI_2[1]);
    // π − 2y and π/2 − (±y), the low part of π taken along.
    let left = (quarter + quarter) + ((rest + rest) - twice);
    let far = F::sel(negative, left, twice);
    let near = quarter + (rest - y.xor_sign(x.sign_bit()));
    F::sel(large, far, near)
}

/// An angle below π/4·1.5 of its tangent: (offset, its low part, arctangent of the rest). `n`/`d` ≥ 0 is the tangent.
#[inline(always)]
fn arc<F: Real>(n: F, d: F) -> F {
    let near = n.lt(F::lit(std::f64::consts::SQRT_2 - 1.0) * d);
    let far = n.gt(F::lit(std::f64::consts::SQRT_2 + 1.0) * d);
    let p = F::sel(near, n, F::sel(far, -d, n - d));
    let q = F::sel(near, d, F::sel(far, n, n + d));
    let t = p / q;
    let z = t * t;
    let y = (t * z).fma(F::atan_reduced(z), t);
    let [high, low] = F::FRAC_PI_2;
    let zero = F::lit(0.0);
    let high = F::sel(near, zero, F::sel(far, F::lit(high), F::lit(0.5 * high)));
    let low = F::sel(near, zero, F::sel(far, F::lit(low), F::lit(0.5 * low)));
    high + (low + y)
}

/// The inverse tangent. At most 2.5 ulp.
#[inline(always)]
pub fn atan<F: Real>(x: F) -> F {
    arc(F::lit(F::EXP_RANGE[1].exp2()).min_of(x.abs()), F::lit(1.0)).or_sign(x.sign_bit())
}

/// The angle of the point (x, y), with the signs of zeros as in C. At most 3 ulp.
#[inline(always)]
pub fn atan2<F: Real>(y: F, x: F) -> F {
    let (zero, one) = (F::lit(0.0), F::lit(1.0));
    let infinity = F::lit(f64::INFINITY);
    let (n, d) = (y.abs(), x.abs());
    let both = n.eq(infinity) & d.eq(infinity);
    // A zero over anything, and two infinities, whose quotient the division does not give; sums must not
    // overflow, nor products with the bounds of the reduction lose places.
    let origin = n.eq(zero) & d.eq(zero);
    let huge = F::lit(F::SUBNORMAL.0.recip() * 0.25);
    let (up, down) = (F::SUBNORMAL.1, F::SUBNORMAL.1.recip());
    let small = n.lt(F::lit(down)) & d.lt(F::lit(down));
    let scale = F::sel(
        n.gt(huge) | d.gt(huge),
        F::lit(0.25),
        F::sel(small, F::lit(up), one),
    );
    let n = F::sel(both, one, n * scale);
    let d = F::sel(both | origin, one, d * scale);
    let r = arc(n, d);
    let negative = x.bits().lt(F::Int::lit(0));
    let [high, low] = F::FRAC_PI_2;
    let left = F::lit(2.0 * high) - (r - F::lit(2.0 * low));
    F::sel(negative, left, r).or_sign(y.sign_bit())
}
