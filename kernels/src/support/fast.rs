//! Functions of binary32 in fewer instructions than the exact ones, where precision allows, by the approximations of the
//! hardware: `exp`, `log`, `log1p` and `erf` within 2 ulp (subnormal results of `exp` within 2⁻¹⁴⁹), `tanh` within 3 and
//! `sigmoid` within 5. Special values are those of the exact functions, but that results of `sigmoid` below 2⁻¹²⁶ may be
//! 0. No instruction here needs a slow path: arguments of `ex2` and `rcp` whose results would be subnormal are kept away
//! from them, or may be 0.

use super::Definition;
use super::scalar::function;

/// By name behind `ft_`: the text, and what it calls.
const FUNCTIONS: &[(&str, &str, &[&str])] = &[
        // The power of two is split into 2ᵏ with k in -126..=127 and a remainder: `sat` and the constant that rounds
        // down confine k, so that overflow and underflow happen in the last product.
        (
            "fast_exp_f32",
            "FT_INLINE float ft_fast_exp_f32(float a) {
  const float k = __fmaf_rd(__saturatef(__fmaf_rn(a, 0x1.77313cp-8f, 0.5f)), 252.0f, 12582913.0f);
  const float n = k - 12583039.0f;
  float y; asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(__fmaf_rn(a, 0x1.4ae0cp-26f, __fmaf_rn(a, 0x1.715476p0f, -n))));
  return y * __int_as_float(__float_as_int(k) << 23);
}
",
            &[],
        ),
        // exp of numbers up to 0. The result's relative error is |a| · 2⁻²⁴ and 2 ulp; results below 2⁻¹²⁶ are 0.
        (
            "term_exp_f32",
            "FT_INLINE float ft_term_exp_f32(float a) { float y; asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(a * 0x1.715476p0f)); \
             return y; }\n",
            &[],
        ),
        (
            "fast_recip_f32",
            "FT_INLINE float ft_fast_recip_f32(float a) { float y; asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(a)); \
             return y; }\n",
            &[],
        ),
        (
            "fast_sigmoid_f32",
            "FT_INLINE float ft_fast_sigmoid_f32(float a) {
  const float t = a * -0x1.715476p0f;
  float y; asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(t));
  const float e = __fmaf_rn(t, 0x1.05c610p-29f, __fmaf_rn(t, -0x1.62e430p-1f, -a));
  if (fabsf(t) < 126.0f) y = __fmaf_rn(y, e, y);
  return ft_fast_recip_f32(1.0f + y);
}
",
            &["ft_fast_recip_f32"],
        ),
        // A polynomial below 0.55, where the quotient would cancel; without a branch.
        (
            "fast_tanh_f32",
            "FT_INLINE float ft_fast_tanh_f32(float a) {
  const float s = a * a;
  float y; asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(fabsf(a) * 0x1.715476p1f));
  const float far = __fmaf_rn(-2.0f, ft_fast_recip_f32(y + 1.0f), 1.0f);
  float p = __fmaf_rn(s, 0x1.0da90ep-6f, -0x1.af96aap-5f);
  p = __fmaf_rn(s, p, 0x1.10d01ap-3f);
  p = __fmaf_rn(s, p, -0x1.55545ap-2f);
  const float close = __fmaf_rn(a * s, p, a), away = copysignf(far, a);
  float r; asm(\"{ .reg .pred q; setp.lt.f32 q, %1, 0f3F0CCCCD; selp.f32 %0, %2, %3, q; }\" : \"=f\"(r) : \"f\"(fabsf(a)), \"f\"(close), \"f\"(away));
  return r;
}
",
            &["ft_fast_recip_f32"],
        ),
        // x = 2ᵏ·(1 + f) with 2/3 ≤ 1 + f < 4/3: k·ln 2 + (f + f²·P(f)). `lg2` gives the infinities and NaN.
        (
            "fast_log_f32",
            "FT_INLINE float ft_fast_log_f32(float a) {
  const bool small = a < 0x1p-126f;
  const int bits = __float_as_int(small ? a * 0x1p23f : a), i = (bits - 0x3f2aaaab) & (int)0xff800000;
  const float f = __int_as_float(bits - i) - 1.0f, s = f * f;
  const float k = __fmaf_rn((float)i, 0x1p-23f, small ? -23.0f : 0.0f);
  float p = __fmaf_rn(f, 0x1.1f427ap-3f, -0x1.3b2846p-3f);
  p = __fmaf_rn(f, p, 0x1.1ea258p-3f);
  p = __fmaf_rn(f, p, -0x1.5032eap-3f);
  p = __fmaf_rn(f, p, 0x1.99d428p-3f);
  p = __fmaf_rn(f, p, -0x1.001480p-2f);
  p = __fmaf_rn(f, p, 0x1.5554fap-2f);
  p = __fmaf_rn(f, p, -0x1.ffffd6p-2f);
  const float y = __fmaf_rn(k, 0x1.62e430p-1f, __fmaf_rn(s, p, f));
  float special; asm(\"lg2.approx.f32 %0, %1;\" : \"=f\"(special) : \"f\"(a));
  return (unsigned)__float_as_int(a) - 1u < 0x7f7fffffu ? y : special;
}
",
            &[],
        ),
        // 1 + x = 2ᵏ·(1 + f) with 3/4 ≤ 1 + f < 3/2, where f = 2⁻ᵏ·x + (2⁻ᵏ − 1) is not rounded for small x.
        (
            "fast_log1p_f32",
            "FT_INLINE float ft_fast_log1p_f32(float a) {
  const float u = 1.0f + a;
  const int i = (__float_as_int(u) - 0x3f400000) & (int)0xff800000;
  const float down = __fmaf_rn(0.25f, __int_as_float(0x40800000 - i), -1.0f);
  const float f = __int_as_float(__float_as_int(a) - i) + down, s = f * f;
  float p = __fmaf_rn(f, 0x1.bb73f4p-5f, -0x1.ee477cp-4f);
  p = __fmaf_rn(f, p, 0x1.32dee0p-3f);
  p = __fmaf_rn(f, p, -0x1.5887fcp-3f);
  p = __fmaf_rn(f, p, 0x1.99216cp-3f);
  p = __fmaf_rn(f, p, -0x1.ffdd9ep-3f);
  p = __fmaf_rn(f, p, 0x1.5555e6p-2f);
  p = __fmaf_rn(f, p, -0x1.000014p-1f);
  const float y = __fmaf_rn((float)i, 0x1.62e430p-24f, __fmaf_rn(s, p, f));
  float special; asm(\"lg2.approx.f32 %0, %1;\" : \"=f\"(special) : \"f\"(u));
  return a > -1.0f && a < __int_as_float(0x7f800000) ? copysignf(y, a) : special;
}
",
            &[],
        ),
        // The exact function's polynomials: an odd one below 1, and 1 − 2^Q(a) above, where `ex2` is precise enough.
        (
            "fast_erf_f32",
            "FT_INLINE float ft_fast_erf_f32(float x) {
  const float a = fabsf(x), s = a * a, b = 4.0f < a ? 4.0f : a;
  float p = __fmaf_rn(s, 0x1.47722ep-14f, -0x1.a35168p-11f);
  p = __fmaf_rn(s, p, 0x1.53f224p-8f);
  p = __fmaf_rn(s, p, -0x1.b7f71ap-6f);
  p = __fmaf_rn(s, p, 0x1.ce2ce6p-4f);
  p = __fmaf_rn(s, p, -0x1.81273ep-2f);
  p = __fmaf_rn(s, p, 0x1.06eba8p-3f);
  float q = __fmaf_rn(b, 0x1.18ba0ap-12f, -0x1.15eeb0p-8f);
  q = __fmaf_rn(b, q, 0x1.01b4bcp-5f);
  q = __fmaf_rn(b, q, -0x1.307004p-3f);
  q = __fmaf_rn(b, q, -0x1.d76e92p-1f);
  q = __fmaf_rn(b, q, -0x1.a03fe4p+0f);
  q = __fmaf_rn(b, q, -0x1.0b93dap-11f);
  float y; asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(q));
  const float close = __fmaf_rn(p, a, a), far = 1.0f - y;
  float r; asm(\"{ .reg .pred t; setp.lt.f32 t, %1, 0f3F800000; selp.f32 %0, %2, %3, t; }\" : \"=f\"(r) : \"f\"(a), \"f\"(close), \"f\"(far));
  return copysignf(r, x);
}
",
            &[],
        ),
        // tanh within 2⁻¹⁵ of the result, for results that are rounded to a half type: below 2⁻⁷ tanh a is a, and above
        // it the quotient's error of 2⁻²³ is that small.
        (
            "half_tanh_f32",
            "FT_INLINE float ft_half_tanh_f32(float a) {
  float y; asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(fabsf(a) * 0x1.715476p1f));
  const float away = copysignf(__fmaf_rn(-2.0f, ft_fast_recip_f32(y + 1.0f), 1.0f), a);
  float r; asm(\"{ .reg .pred q; setp.lt.f32 q, %1, 0f3C000000; selp.f32 %0, %2, %3, q; }\" : \"=f\"(r) : \"f\"(fabsf(a)), \"f\"(a), \"f\"(away));
  return r;
}
",
            &["ft_fast_recip_f32"],
        ),
];

/// The text of a function of that name behind `ft_`.
pub(super) fn definition(rest: &str) -> Option<Definition> {
    let (_, text, calls) = FUNCTIONS.iter().find(|(name, ..)| *name == rest)?;
    function((*text).to_owned(), calls)
}
