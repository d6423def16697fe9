//! Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) and the distributions drawn
//! from it.
//!
//! A block is the four words of one counter. Element i of a draw that starts at `offset` takes word i mod 4 of block
//! `offset + i / 4` as its 32 bits ([`bits32`]), or words 2(i mod 2) and 2(i mod 2) + 1 (the high half) of block
//! `offset + i / 2` as its 64 bits ([`bits64`]); [`blocks`] says by how much a draw advances the counter.

mod ahead;
mod run;

use super::lane::Int;
use super::math::{Real, log_scaled};
use super::trace::{F32, F64, I32, I64, Sym};
use super::{Definition, Entry, halved, need, trace};
use std::borrow::Cow;
use std::num::Wrapping;

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// The block of four words at `counter` (the low half of the 128-bit counter; the high half is zero).
#[inline(always)]
pub fn philox(key: u64, counter: u64) -> [u32; 4] {
    let mut c = [counter as u32, (counter >> 32) as u32, 0, 0];
    let mut k = [key as u32, (key >> 32) as u32];
    for _ in 0..10 {
        let p = MULTIPLIERS[0] as u64 * c[0] as u64;
        let q = MULTIPLIERS[1] as u64 * c[2] as u64;
        c = [
            (q >> 32) as u32 ^ c[1] ^ k[0],
            q as u32,
            (p >> 32) as u32 ^ c[3] ^ k[1],
            p as u32,
        ];
        k = [k[0].wrapping_add(WEYL[0]), k[1].wrapping_add(WEYL[1])];
    }
    c
}

/// The counters that a draw of `n` elements takes, whatever its distribution and dtype.
pub const fn blocks(n: u64) -> u64 {
    n.div_ceil(2)
}

/// 32 random bits of element `i`.
#[inline(always)]
pub fn bits32(key: u64, offset: u64, i: u64) -> u32 {
    philox(key, offset.wrapping_add(i >> 2))[(i & 3) as usize]
}

/// 64 random bits of element `i`.
#[inline(always)]
pub fn bits64(key: u64, offset: u64, i: u64) -> u64 {
    let c = philox(key, offset.wrapping_add(i >> 1));
    let half = 2 * (i & 1) as usize;
    c[half] as u64 | (c[half + 1] as u64) << 32
}

/// Uniform in [0, 1): multiples of 2⁻²⁴.
#[inline(always)]
pub fn uniform_f32(key: u64, offset: u64, i: u64) -> f32 {
    (bits32(key, offset, i) >> 8) as i32 as f32 * 5.9604644775390625e-08
}

/// Uniform in [0, 1): multiples of 2⁻⁵³.
#[inline(always)]
pub fn uniform_f64(key: u64, offset: u64, i: u64) -> f64 {
    (bits64(key, offset, i) >> 11) as i64 as f64 * 1.1102230246251565e-16
}

/// Uniform in [0, 1): multiples of 2⁻¹¹, exact in binary16.
#[inline(always)]
pub fn uniform_f16(key: u64, offset: u64, i: u64) -> f32 {
    (bits32(key, offset, i) >> 21) as i32 as f32 * 0.00048828125
}

/// Uniform in [0, 1): multiples of 2⁻⁸, exact in bfloat16.
#[inline(always)]
pub fn uniform_bf16(key: u64, offset: u64, i: u64) -> f32 {
    (bits32(key, offset, i) >> 24) as i32 as f32 * 0.00390625
}

/// A float whose uniform numbers are the multiples of 2⁻ⁿ for these n.
trait Unit: Real {
    const BITS: u32;
}

macro_rules! units {
    ($($t:ty: $bits:literal),*) => {$(
        impl Unit for $t {
            const BITS: u32 = $bits;
        }
    )*};
}

units!(f32: 24, Sym<F32>: 24, f64: 53, Sym<F64>: 53);

/// √(−2 ln u) for u in (0, 1] from a random word: the distance from the origin that two normal numbers share.
#[inline(always)]
fn radius<F: Unit>(word: F::Int) -> F {
    let u = (word + F::Int::lit(1)).to_float();
    (F::lit(-2.0) * log_scaled(u, F::BITS)).sqrt()
}

/// 2πv in quarter turns, for v in [0, 1) from a random word.
#[inline(always)]
fn quarters<F: Unit>(word: F::Int) -> F {
    word.to_float() * F::lit(4.0 / (1u64 << F::BITS) as f64)
}

/// The whole number of quarter turns that is nearest to 2πv.
#[inline(always)]
fn nearest_turns<F: Unit>(word: F::Int) -> F::Int {
    let magic = F::lit(F::MAGIC);
    (quarters::<F>(word) + magic).bits() - magic.bits()
}

/// What 2πv is beyond that many quarter turns.
#[inline(always)]
fn angle<F: Unit>(word: F::Int) -> F {
    let (t, magic) = (quarters::<F>(word), F::lit(F::MAGIC));
    (t - ((t + magic) - magic)) * F::lit(F::FRAC_PI_2[0])
}

/// sin r for |r| ≤ π/4.
#[inline(always)]
fn sine<F: Real>(r: F) -> F {
    let z = r * r;
    (r * z).fma(F::sin_reduced(z), r)
}

/// cos r for |r| ≤ π/4.
#[inline(always)]
fn cosine<F: Real>(r: F) -> F {
    let z = r * r;
    (z * z).fma(F::cos_reduced(z), z.fma(F::lit(-0.5), F::lit(1.0)))
}

/// cos(r + k·π/2), by the bits of the sine and the cosine of r.
#[inline(always)]
fn turned<F: Real>(k: F::Int, sin: F::Int, cos: F::Int) -> F {
    let one = F::Int::lit(1);
    let swap = (k & one).eq(one);
    // The sign is the sign of cos in the quadrant: negative for k = 1 (−sin) and 2 (−cos).
    let sign = ((k + one) & F::Int::lit(2)).shl(F::SIGN_SHIFT - 1);
    F::sel(swap, sin.float_bits(), cos.float_bits()).xor_sign(sign)
}

/// The cosine (of elements of even number) or sine (odd) of 2πv.
#[inline(always)]
fn wave<F: Unit>(word: F::Int, odd: F::Int) -> F {
    let r = angle::<F>(word);
    turned(
        nearest_turns::<F>(word) - odd,
        sine(r).bits(),
        cosine(r).bits(),
    )
}

/// Standard normal by Box and Muller, from the two words that the elements of a pair share and the parity of the element.
#[inline(always)]
fn box_muller<F: Unit>(u: F::Int, v: F::Int, odd: F::Int) -> F {
    radius::<F>(u) * wave::<F>(v, odd)
}

/// Standard normal.
#[inline(always)]
pub fn normal_f32(key: u64, offset: u64, i: u64) -> f32 {
    let c = philox(key, offset.wrapping_add(i >> 2));
    let pair = (i & 2) as usize;
    let word = |w: u32| Wrapping((w >> 8) as i32);
    box_muller(word(c[pair]), word(c[pair + 1]), Wrapping((i & 1) as i32))
}

/// Standard normal.
#[inline(always)]
pub fn normal_f64(key: u64, offset: u64, i: u64) -> f64 {
    let c = philox(key, offset.wrapping_add(i >> 1));
    let word = |low: u32, high: u32| Wrapping(((low as u64 | (high as u64) << 32) >> 11) as i64);
    box_muller(word(c[0], c[1]), word(c[2], c[3]), Wrapping((i & 1) as i64))
}

/// An integer in [low, low + range), for range ≥ 1; the modulus where the range exceeds 2³².
#[inline(always)]
pub fn randint(key: u64, offset: u64, i: u64, low: i64, range: u64) -> i64 {
    let bits = bits64(key, offset, i);
    let step = if range <= 1 << 32 {
        ((bits >> 32) * range) >> 32
    } else {
        bits % range
    };
    low.wrapping_add(step as i64)
}

/// Whether an event of probability `p` happened.
#[inline(always)]
pub fn bernoulli(key: u64, offset: u64, i: u64, p: f64) -> bool {
    (bits32(key, offset, i) as f64) < p * 4294967296.0
}

/// 63 random bits.
#[inline(always)]
pub fn bits63(key: u64, offset: u64, i: u64) -> i64 {
    (bits64(key, offset, i) >> 1) as i64
}

/// `ft_philoxxW`: the blocks of W counters, word by word in the low halves of `c[0]`…`c[3]`.
const ROUNDS: &str = "FT_INLINE void ft_philoxx@(unsigned long key, u64x@ counter, u64x@ *c) {
  u64x@ c0 = counter, c1 = counter >> 32, c2 = {}, c3 = {};
  u64x@ k0 = (key & 0xffffffffUL) - (u64x@){}, k1 = (key >> 32) - (u64x@){};
  for (int i = 0; i < 10; i++) {
    u64x@ p = ft_mul32_u64x@(c0, 0xD2511F53UL - (u64x@){}), q = ft_mul32_u64x@(c2, 0xCD9E8D57UL - (u64x@){});
    c0 = (q >> 32) ^ c1 ^ k0;
    c2 = (p >> 32) ^ c3 ^ k1;
    c1 = q; c3 = p;
    k0 += 0x9E3779B9UL; k1 += 0xBB67AE85UL;
  }
  c[0] = c0; c[1] = c1; c[2] = c2; c[3] = c3;
}
";

const RAND32: &str =
    "FT_INLINE u32x@ ft_rand_u32x@(unsigned long key, unsigned long offset, i64x@ index) {
  u64x@ c[4];
  ft_philoxx@(key, (u64x@)(index >> 2) + offset, c);
  u64x@ odd = (u64x@)-(index & 1), high = (u64x@)((index & 2) == 2);
  u64x@ low = (c[0] & ~odd) | (c[1] & odd), top = (c[2] & ~odd) | (c[3] & odd);
  return __builtin_convertvector((low & ~high) | (top & high), u32x@);
}
";

const RAND64: &str =
    "FT_INLINE u64x@ ft_rand_u64x@(unsigned long key, unsigned long offset, i64x@ index) {
  u64x@ c[4];
  ft_philoxx@(key, (u64x@)(index >> 1) + offset, c);
  u64x@ odd = (u64x@)-(index & 1);
  u64x@ low = (c[0] & ~odd) | (c[2] & odd), top = (c[1] & ~odd) | (c[3] & odd);
  return (low & 0xffffffffUL) | (top << 32);
}
";

const NORMAL_F32: &str = "FT_INLINE f32x@ ft_normal_f32x@(unsigned long key, unsigned long offset, i64x@ index) {
  u64x@ c[4];
  ft_philoxx@(key, (u64x@)(index >> 2) + offset, c);
  u64x@ high = (u64x@)((index & 2) == 2);
  u64x@ u = (((c[0] & ~high) | (c[2] & high)) & 0xffffffffUL) >> 8, v = (((c[1] & ~high) | (c[3] & high)) & 0xffffffffUL) >> 8;
  return ft_box_muller_f32x@(__builtin_convertvector(u, i32x@), __builtin_convertvector(v, i32x@),
    __builtin_convertvector(index & 1, i32x@));
}
";

const NORMAL_F64: &str = "FT_INLINE f64x@ ft_normal_f64x@(unsigned long key, unsigned long offset, i64x@ index) {
  u64x@ c[4];
  ft_philoxx@(key, (u64x@)(index >> 1) + offset, c);
  u64x@ u = ((c[0] & 0xffffffffUL) | (c[1] << 32)) >> 11, v = ((c[2] & 0xffffffffUL) | (c[3] << 32)) >> 11;
  return ft_box_muller_f64x@((i64x@)u, (i64x@)v, index & 1);
}
";

const RANDINT: &str =
    "FT_INLINE i64x@ ft_randint_i64x@(unsigned long key, unsigned long offset, i64x@ index, long low, unsigned long range) {
  u64x@ bits = ft_rand_u64x@(key, offset, index);
  if (range <= 1UL << 32) bits = ((bits >> 32) * range) >> 32;
  else bits %= range;
  return (i64x@)bits + low;
}
";

/// A word is below a bound if it is below the least integer that is not.
const BERNOULLI: &str =
    "FT_INLINE i32x@ ft_bernoulli_boolx@(unsigned long key, unsigned long offset, i64x@ index, double p) {
  const double t = p * 4294967296.0;
  const unsigned long whole = t >= 4294967296.0 ? 1UL << 32 : t > 0 ? (unsigned long)t : 0;
  const unsigned long bound = whole + ((double)whole < t && whole >> 32 == 0);
  const int all = -(int)(bound >> 32);
  return (i32x@)(ft_rand_u32x@(key, offset, index) < (unsigned)bound) | all;
}
";

const BITS63: &str =
    "FT_INLINE i64x@ ft_bits63_i64x@(unsigned long key, unsigned long offset, i64x@ index) {
  return (i64x@)(ft_rand_u64x@(key, offset, index) >> 1);
}
";

/// 64-bit products of the low halves.
fn mul32() -> Entry {
    super::primitive::product(
        "mul32",
        "u64",
        "  return (a & 0xffffffffUL) * (b & 0xffffffffUL);\n",
    )
}

fn uniform(ty: &str, shift: u32, unit: f64) -> String {
    let (bits, int, value) = if ty == "f64" {
        ("u64", "i64", "f64")
    } else {
        ("u32", "i32", "f32")
    };
    let unit = trace::literal(unit, ty != "f64");
    format!(
        "FT_INLINE {value}x@ ft_uniform_{ty}x@(unsigned long key, unsigned long offset, i64x@ index) {{\n  \
         return __builtin_convertvector(({int}x@)(ft_rand_{bits}x@(key, offset, index) >> {shift}), {value}x@) * {unit};\n}}\n"
    )
}

/// A draw: a function of the key, the offset, the indices and more scalars, from text with `@` for the lanes.
fn draw(
    name: impl Into<Cow<'static, str>>,
    deps: &[&'static str],
    result: &'static str,
    more: &'static [(&str, &str)],
    text: impl Into<String>,
) -> Entry {
    let (deps, text) = (deps.to_vec(), text.into());
    Entry::new(name, move |name, lanes| {
        let mut needs = vec![need("types", lanes)];
        needs.extend(deps.iter().map(|d| need(d, lanes)));
        let whole = Definition {
            deps: needs,
            text: text.replace('@', &lanes.to_string()),
        };
        let mut args = vec![
            ("unsigned long", "key"),
            ("unsigned long", "offset"),
            ("i64", "index"),
        ];
        args.extend(more);
        halved(name, lanes, result, &args, whole)
    })
}

/// The parts of Box and Muller's transform, recorded.
macro_rules! parts {
    ($entries:ident: $($suffix:literal $float:ident $int:ident),*) => {$(
        $entries.extend([
            Entry::new(concat!("ft_radius_", $suffix), |n, w| trace::unary(n, w, radius::<Sym<$float>>)),
            Entry::new(concat!("ft_nearest_turns_", $suffix), |n, w| {
                trace::unary::<$int, $int>(n, w, nearest_turns::<Sym<$float>>)
            }),
            Entry::new(concat!("ft_angle_", $suffix), |n, w| trace::unary(n, w, angle::<Sym<$float>>)),
            Entry::new(concat!("ft_sine_", $suffix), |n, w| trace::unary(n, w, sine::<Sym<$float>>)),
            Entry::new(concat!("ft_cosine_", $suffix), |n, w| trace::unary(n, w, cosine::<Sym<$float>>)),
            Entry::new(concat!("ft_turned_", $suffix), |n, w| trace::ternary(n, w, turned::<Sym<$float>>)),
            Entry::new(concat!("ft_wave_", $suffix), |n, w| trace::binary(n, w, wave::<Sym<$float>>)),
            Entry::new(concat!("ft_box_muller_", $suffix), |n, w| {
                trace::ternary(n, w, box_muller::<Sym<$float>>)
            }),
        ]);
    )*};
}

pub(super) fn entries() -> Vec<Entry> {
    let mut entries = vec![mul32()];
    parts!(entries: "f32" F32 I32, "f64" F64 I64);
    entries.extend([
        Entry::text("ft_philox", &["ft_mul32_u64"], ROUNDS),
        draw("ft_rand_u32", &["ft_philox"], "u32", &[], RAND32),
        draw("ft_rand_u64", &["ft_philox"], "u64", &[], RAND64),
        draw(
            "ft_normal_f32",
            &["ft_philox", "ft_box_muller_f32"],
            "f32",
            &[],
            NORMAL_F32,
        ),
        draw(
            "ft_normal_f64",
            &["ft_philox", "ft_box_muller_f64"],
            "f64",
            &[],
            NORMAL_F64,
        ),
    ]);
    // A part stands before those that use it.
    entries.extend(run::entries());
    entries.extend(ahead::entries());
    entries.extend([
        draw(
            "ft_randint_i64",
            &["ft_rand_u64"],
            "i64",
            &[("long", "low"), ("unsigned long", "range")],
            RANDINT,
        ),
        draw("ft_bits63_i64", &["ft_rand_u64"], "i64", &[], BITS63),
    ]);
    entries.extend(run::along("ft_randint_i64", &["ft_rand_u64"], RANDINT));
    entries.extend(run::along("ft_bits63_i64", &["ft_rand_u64"], BITS63));
    let mut both = |name: &str, deps: &[&str], text: &str| {
        entries.push(Entry::text(name.to_owned(), deps, text));
        entries.extend(run::along(name, deps, text));
    };
    both("ft_bernoulli_bool", &["ft_rand_u32"], BERNOULLI);
    for (ty, bits, shift, unit) in [
        ("f32", "ft_rand_u32", 8, 5.9604644775390625e-08),
        ("f16", "ft_rand_u32", 21, 0.00048828125),
        ("bf16", "ft_rand_u32", 24, 0.00390625),
        ("f64", "ft_rand_u64", 11, 1.1102230246251565e-16),
    ] {
        both(
            &format!("ft_uniform_{ty}"),
            &[bits],
            &uniform(ty, shift, unit),
        );
    }
    for half in ["f16", "bf16"] {
        let text = format!(
            "FT_INLINE f32x@ ft_normal_{half}x@(unsigned long key, unsigned long offset, i64x@ index) {{ return \
             ft_round_{half}x@(ft_normal_f32x@(key, offset, index)); }}\n"
        );
        let round = format!("ft_round_{half}");
        both(
            &format!("ft_normal_{half}"),
            &["ft_normal_f32", &round],
            &text,
        );
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of the authors' distribution (Random123).
    #[test]
    fn known_answers() {
        assert_eq!(
            philox(0, 0),
            [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]
        );
    }

    #[test]
    fn moments() {
        let n = 1 << 16;
        let mean = |f: &dyn Fn(u64) -> f64| (0..n).map(f).sum::<f64>() / n as f64;
        assert!((mean(&|i| uniform_f32(7, 3, i) as f64) - 0.5).abs() < 0.01);
        assert!((mean(&|i| uniform_f64(7, 3, i)) - 0.5).abs() < 0.01);
        for normal in [
            &|i| normal_f32(7, 3, i) as f64,
            &(|i| normal_f64(7, 3, i)) as &dyn Fn(u64) -> f64,
        ] {
            assert!(mean(normal).abs() < 0.02);
            assert!((mean(&|i| normal(i).powi(2)) - 1.0).abs() < 0.03);
            assert!((mean(&|i| normal(i).powi(4)) - 3.0).abs() < 0.2);
        }
        assert!((mean(&|i| bernoulli(7, 3, i, 0.3) as u8 as f64) - 0.3).abs() < 0.01);
        assert_eq!((0..n).map(|i| randint(7, 3, i, -5, 10)).min(), Some(-5));
        assert_eq!((0..n).map(|i| randint(7, 3, i, -5, 10)).max(), Some(4));
    }
}
