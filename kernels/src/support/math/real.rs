//! The constants of the functions, for each precision.

use crate::support::lane::Float;
use crate::support::trace::{F32, F64, Sym};

/// A float with the constants of its precision. Polynomials are minimax fits, lowest power first, relative error below
/// a quarter of a unit in the last place over the reduced range.
pub trait Real: Float {
    /// 1.5 · 2ᵖ⁻¹, the sum with which is rounded to an integer.
    const MAGIC: f64;
    /// log₂ e, in one or two parts.
    const LOG2_E: [f64; 2];
    /// ln 2 in two parts.
    const LN_2: [f64; 2];
    /// log₁₀ e in two parts.
    const LOG10_E: [f64; 2];
    /// log₁₀ 2 in two parts.
    const LOG10_2: [f64; 2];
    /// π/2 in two parts.
    const FRAC_PI_2: [f64; 2];
    /// Below, eˣ rounds to 0; above, it overflows.
    const EXP_RANGE: [f64; 2];
    /// Below, 2ˣ rounds to 0; above, it overflows.
    const EXP2_RANGE: [f64; 2];
    /// Below, eˣ − 1 rounds to −1.
    const EXPM1_LOW: f64;
    /// Above, tanh x rounds to 1 and e²ˣ is far from overflow.
    const TANH_ONE: f64;
    /// Above, eˣ/2 overflows; eˣ/4 does not up to here.
    const COSH_HIGH: f64;
    /// Below, sinh x rounds to x within half a unit in the last place.
    const TINY: f64;
    /// Above, x + 1 rounds to x.
    const HUGE: f64;
    /// The least normal number, and the power of two (and its exponent) that makes every number normal.
    const SUBNORMAL: (f64, f64, i64);
    /// Bits of the mantissa, and the bias of the exponent.
    const FORMAT: (u32, i64);
    /// The place of the sign bit.
    const SIGN_SHIFT: u32;
    /// The bits of √½, and those of the mantissa.
    const SQRT_HALF: (i64, i64);

    /// eʳ for |r| ≤ ½ ln 2.
    fn exp_reduced(r: Self) -> Self;
    /// (eʳ − 1 − r) / r² for |r| ≤ ½ ln 2.
    fn expm1_reduced(r: Self) -> Self;
    /// 2ʳ for |r| ≤ ½.
    fn exp2_reduced(r: Self) -> Self;
    /// ln(1 + f) − f for √½ ≤ 1 + f ≤ √2.
    fn log_reduced(f: Self) -> Self;
    /// (sin r − r) / r³ of z = r², |r| ≤ π/4.
    fn sin_reduced(z: Self) -> Self;
    /// (cos r − 1 + r²/2) / r⁴ of z = r², |r| ≤ π/4.
    fn cos_reduced(z: Self) -> Self;
    /// (arcsin s − s) / s³ of z = s² ≤ ¼.
    fn asin_reduced(z: Self) -> Self;
    /// (arctan t − t) / t³ of z = t², |t| ≤ √2 − 1.
    fn atan_reduced(z: Self) -> Self;
}

macro_rules! binary32 {
    ($t:ty) => {
        impl Real for $t {
            const MAGIC: f64 = 12582912.0;
            const LOG2_E: [f64; 2] = [1.4426950216293335, 1.925963033500011e-08];
            const LN_2: [f64; 2] = [0.6931471824645996, -1.9046542121259336e-09];
            const LOG10_E: [f64; 2] = [0.4342944920063019, -1.0103049952192578e-08];
            const LOG10_2: [f64; 2] = [0.3010300099849701, -1.432098883924482e-08];
            const FRAC_PI_2: [f64; 2] = [1.5707963705062866, -4.371138828673793e-08];
            const EXP_RANGE: [f64; 2] = [-104.0, 89.0];
            const EXP2_RANGE: [f64; 2] = [-151.0, 129.0];
            const EXPM1_LOW: f64 = -18.0;
            const TANH_ONE: f64 = 10.0;
            const COSH_HIGH: f64 = 89.5;
            const TINY: f64 = 1.52587890625e-05;
            const HUGE: f64 = 16777216.0;
            const SUBNORMAL: (f64, f64, i64) = (1.1754943508222875e-38, 8388608.0, -23);
            const FORMAT: (u32, i64) = (23, 127);
            const SIGN_SHIFT: u32 = 31;
            const SQRT_HALF: (i64, i64) = (0x3f3504f3, 0x7fffff);

            #[inline(always)]
            fn exp_reduced(r: Self) -> Self {
                horner(
                    r,
                    [
                        1.0,
                        1.0,
                        0.4999999403953552,
                        0.16666516661643982,
                        0.041668087244033813,
                        0.008369207382202148,
                        0.0013840504689142108,
                    ],
                )
            }
            #[inline(always)]
            fn expm1_reduced(r: Self) -> Self {
                horner(
                    r,
                    [
                        0.5,
                        0.16666635870933533,
                        0.041666511446237564,
                        0.00834160391241312,
                        0.0013930511195212603,
                        0.00014933459169697016,
                    ],
                )
            }
            #[inline(always)]
            fn exp2_reduced(r: Self) -> Self {
                horner(
                    r,
                    [
                        1.0,
                        0.6931472420692444,
                        0.24022655189037323,
                        0.05550272762775421,
                        0.009617065079510212,
                        0.0013417721493169665,
                        0.0001582477561896667,
                    ],
                )
            }
            #[inline(always)]
            fn log_reduced(f: Self) -> Self {
                let h = horner(
                    f,
                    [
                        -0.5,
                        0.3333333134651184,
                        -0.250008225440979,
                        0.20001259446144104,
                        -0.166233092546463,
                        0.14201033115386963,
                        -0.1316005289554596,
                        0.1276610642671585,
                        -0.07639727741479874,
                    ],
                );
                f * f * h
            }
            #[inline(always)]
            fn sin_reduced(z: Self) -> Self {
                horner(
                    z,
                    [
                        -0.16666655242443085,
                        0.00833216868340969,
                        -0.0001951601152541116,
                    ],
                )
            }
            #[inline(always)]
            fn cos_reduced(z: Self) -> Self {
                horner(
                    z,
                    [
                        0.04166664555668831,
                        -0.001388735487125814,
                        2.443700941512361e-05,
                    ],
                )
            }
            #[inline(always)]
            fn asin_reduced(z: Self) -> Self {
                horner(
                    z,
                    [
                        0.16666659712791443,
                        0.0750051736831665,
                        0.04451476410031319,
                        0.0318242609500885,
                        0.01438058726489544,
                        0.03759324178099632,
                    ],
                )
            }
            #[inline(always)]
            fn atan_reduced(z: Self) -> Self {
                horner(
                    z,
                    [
                        -0.33333316445350647,
                        0.1999852955341339,
                        -0.14244426786899567,
                        0.10599416494369507,
                        -0.06090574339032173,
                    ],
                )
            }
        }
    };
}

macro_rules! binary64 {
    ($t:ty) => {
        impl Real for $t {
            const MAGIC: f64 = 6755399441055744.0;
            const LOG2_E: [f64; 2] = [std::f64::consts::LOG2_E, 2.0355273740931033e-17];
            const LN_2: [f64; 2] = [std::f64::consts::LN_2, 2.3190468138462996e-17];
            const LOG10_E: [f64; 2] = [std::f64::consts::LOG10_E, 1.098319650216765e-17];
            const LOG10_2: [f64; 2] = [std::f64::consts::LOG10_2, -2.8037281277851704e-18];
            const FRAC_PI_2: [f64; 2] = [std::f64::consts::FRAC_PI_2, 6.123233995736766e-17];
            const EXP_RANGE: [f64; 2] = [-746.0, 710.0];
            const EXP2_RANGE: [f64; 2] = [-1076.0, 1025.0];
            const EXPM1_LOW: f64 = -38.0;
            const TANH_ONE: f64 = 22.0;
            const COSH_HIGH: f64 = 710.625;
            const TINY: f64 = 1.4901161193847656e-08;
            const HUGE: f64 = 9007199254740992.0;
            const SUBNORMAL: (f64, f64, i64) = (f64::MIN_POSITIVE, 4503599627370496.0, -52);
            const FORMAT: (u32, i64) = (52, 1023);
            const SIGN_SHIFT: u32 = 63;
            const SQRT_HALF: (i64, i64) = (0x3fe6a09e667f3bcd, 0xfffffffffffff);

            #[inline(always)]
            fn exp_reduced(r: Self) -> Self {
                horner(
                    r,
                    [
                        1.0,
                        1.0,
                        0.5,
                        0.16666666666666688,
                        0.041666666666666824,
                        0.008333333333313883,
                        0.0013888888888777707,
                        0.0001984126990341572,
                        2.4801587560183584e-05,
                        2.755722861597839e-06,
                        2.7557066526676006e-07,
                        2.5113961214216442e-08,
                        2.097820019893064e-09,
                    ],
                )
            }
            #[inline(always)]
            fn expm1_reduced(r: Self) -> Self {
                horner(
                    r,
                    [
                        0.5,
                        0.16666666666666677,
                        0.04166666666666669,
                        0.00833333333332173,
                        0.0013888888888884112,
                        0.00019841269885466532,
                        2.4801587302474677e-05,
                        2.755724510195684e-06,
                        2.755730863646711e-07,
                        2.5108680032284006e-08,
                        2.0900218582050104e-09,
                    ],
                )
            }
            #[inline(always)]
            fn exp2_reduced(r: Self) -> Self {
                horner(
                    r,
                    [
                        1.0,
                        0.6931471805599453,
                        0.24022650695910172,
                        0.055504108664824574,
                        0.009618129107577074,
                        0.0013333558145567786,
                        0.00015403530478845802,
                        1.5252734737147104e-05,
                        1.3215424491182347e-06,
                        1.0177656741079662e-07,
                        7.0756146875017985e-09,
                        4.5191638556807947e-10,
                    ],
                )
            }
            #[inline(always)]
            fn log_reduced(f: Self) -> Self {
                // With s = f/(2 + f): ln(1 + f) = 2 artanh s = f − (f²/2 − s·(f²/2 + R(s²))).
                let s = f / (Self::lit(2.0) + f);
                let z = s * s;
                let half = Self::lit(0.5) * f * f;
                let r = z * horner(
                    z,
                    [
                        0.6666666666666734,
                        0.3999999999941654,
                        0.2857142874206623,
                        0.22222198599864654,
                        0.18183563177580078,
                        0.15314075215747078,
                        0.14795741248897862,
                    ],
                );
                s * (half + r) - half
            }
            #[inline(always)]
            fn sin_reduced(z: Self) -> Self {
                horner(
                    z,
                    [
                        -0.16666666666666666,
                        0.008333333333333038,
                        -0.0001984126984095588,
                        2.7557319069586707e-06,
                        -2.5052069589206475e-08,
                        1.6054123405337962e-10,
                        -7.379433281407991e-13,
                    ],
                )
            }
            #[inline(always)]
            fn cos_reduced(z: Self) -> Self {
                horner(
                    z,
                    [
                        0.0416666666666666,
                        -0.0013888888888874567,
                        2.480158728975437e-05,
                        -2.755731442626756e-07,
                        2.0875732457613035e-09,
                        -1.1360074244780598e-11,
                    ],
                )
            }
            #[inline(always)]
            fn asin_reduced(z: Self) -> Self {
                horner(
                    z,
                    [
                        0.16666666666666763,
                        0.07499999999970122,
                        0.04464285717526992,
                        0.030381942675761806,
                        0.02237221589950376,
                        0.017351595504105168,
                        0.013981019637889159,
                        0.01139727578198207,
                        0.010789459018537107,
                        0.0036715245372765234,
                        0.021792564119649502,
                        -0.02111983531534982,
                        0.03270434451399321,
                    ],
                )
            }
            #[inline(always)]
            fn atan_reduced(z: Self) -> Self {
                horner(
                    z,
                    [
                        -0.33333333333333326,
                        0.19999999999997095,
                        -0.14285714285316398,
                        0.11111111083745735,
                        -0.0909090798586999,
                        0.07692279201233011,
                        -0.06666174681970455,
                        0.05876516380485782,
                        -0.05215179922879554,
                        0.04490554506521638,
                        -0.03317458249457758,
                        0.01489323750671653,
                    ],
                )
            }
        }
    };
}

use crate::support::lane::horner;

binary32!(f32);
binary32!(Sym<F32>);
binary64!(f64);
binary64!(Sym<F64>);
