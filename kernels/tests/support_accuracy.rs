//! The documented errors of the mathematical functions: binary32 against binary64, binary64 against results of 200 bits.

#![allow(missing_docs, clippy::unwrap_used)]

use ferrotrace_kernels::support::math;

/// Units in the last place of binary32 between `y` and the exact `r`.
fn ulps(y: f32, r: f64) -> f64 {
    let rounded = r as f32;
    if y.is_nan() || rounded.is_nan() || y.is_infinite() || rounded.is_infinite() {
        let same = y == rounded || (y.is_nan() && rounded.is_nan());
        let edge =
            (y.abs() == f32::MAX) != (rounded.abs() == f32::MAX) && y.signum() == rounded.signum();
        return if same {
            0.0
        } else if edge {
            1.0
        } else {
            f64::INFINITY
        };
    }
    let a = rounded.abs().max(f32::MIN_POSITIVE);
    let ulp = (f32::from_bits(a.to_bits() + 1) - a) as f64;
    (y as f64 - r).abs() / ulp
}

fn check(name: &str, bound: f64, f: fn(f32) -> f32, exact: fn(f64) -> f64) {
    for i in (0..=u32::MAX).step_by(8191) {
        let x = f32::from_bits(i);
        let (y, r) = (f(x), exact(x as f64));
        assert!(ulps(y, r) <= bound, "{name}({x:e}) = {y:e}, not {r:e}");
        if r == 0.0 {
            assert_eq!(y.is_sign_negative(), r.is_sign_negative(), "{name}({x:e})");
        }
    }
    for x in [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE,
        f32::MAX,
        1e-45,
    ] {
        let (y, r) = (f(x), exact(x as f64));
        assert!(ulps(y, r) <= bound, "{name}({x:e}) = {y:e}, not {r:e}");
    }
}

/// A reference for what the standard library lacks: the binary64 function, which `binary64` below checks.
fn trusted(f: fn(f64) -> f64) -> fn(f64) -> f64 {
    f
}

#[test]
fn binary32() {
    check("exp", 1.0, math::exp, f64::exp);
    check("exp2", 1.0, math::exp2, f64::exp2);
    check("expm1", 2.0, math::expm1, f64::exp_m1);
    check("log", 1.0, math::log, f64::ln);
    check("log2", 1.0, math::log2, f64::log2);
    check("log10", 1.0, math::log10, f64::log10);
    check("log1p", 2.0, math::log1p, f64::ln_1p);
    check("sqrt", 0.5, math::sqrt, f64::sqrt);
    check("rsqrt", 1.5, math::rsqrt, |x| 1.0 / x.sqrt());
    check("recip", 0.5, math::recip, |x| 1.0 / x);
    check("sin", 2.0, math::sin, f64::sin);
    check("cos", 2.5, math::cos, f64::cos);
    check("tan", 4.0, math::tan, f64::tan);
    check("asin", 3.0, math::asin, f64::asin);
    check("acos", 2.0, math::acos, f64::acos);
    check("atan", 2.5, math::atan, f64::atan);
    check("sinh", 2.5, math::sinh, f64::sinh);
    check("cosh", 2.0, math::cosh, f64::cosh);
    check("tanh", 3.0, math::tanh, f64::tanh);
    check("asinh", 2.0, math::asinh, trusted(math::asinh));
    check("acosh", 2.0, math::acosh, trusted(math::acosh));
    check("atanh", 2.5, math::atanh, trusted(math::atanh));
    check("erf", 1.5, math::erf, trusted(math::erf));
    check("erfc", 1.0, math::erfc, trusted(math::erfc));
    check("sigmoid", 2.5, math::sigmoid, |x| {
        if x < 0.0 {
            x.exp() / (1.0 + x.exp())
        } else {
            1.0 / (1.0 + (-x).exp())
        }
    });
    check("floor", 0.0, math::floor, f64::floor);
    check("round", 0.0, math::round, f64::round_ties_even);
}

#[test]
fn binary32_of_two() {
    let special = [
        0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 7.5, -7.5, 1e30, 1e-30, 1e-45,
    ];
    let edges = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX];
    let values: Vec<f32> = special
        .into_iter()
        .chain(edges)
        .chain((0..400u32).map(|i| f32::from_bits(i.wrapping_mul(10737418))))
        .collect();
    let python = |a: f64, b: f64| {
        let m = a % b;
        if m != 0.0 && (m < 0.0) != (b < 0.0) {
            m + b
        } else {
            m
        }
    };
    for &x in &values {
        for &y in &values {
            let (a, b) = (x as f64, y as f64);
            assert!(
                ulps(math::pow(x, y), a.powf(b)) <= 1.0,
                "pow({x:e}, {y:e}) = {:e}",
                math::pow(x, y)
            );
            assert!(
                ulps(math::atan2(x, y), a.atan2(b)) <= 3.0,
                "atan2({x:e}, {y:e}) = {:e}",
                math::atan2(x, y)
            );
            let fmod = math::fmod(x, y);
            assert!(
                fmod == x % y || fmod.is_nan() && (x % y).is_nan(),
                "fmod({x:e}, {y:e}) = {fmod:e}"
            );
            let mod_ = math::remainder(x, y);
            assert!(
                ulps(mod_, python(a, b)) <= 0.5,
                "remainder({x:e}, {y:e}) = {mod_:e}"
            );
            assert!(math::fmod(a, b) == a % b || (a % b).is_nan());
        }
    }
    assert_eq!(math::floor_divide(7.0f32, -2.0), -4.0);
    assert_eq!(math::floor_divide(-7.0f64, 2.0), -4.0);
    assert_eq!(math::floor_divide(1.0f64, 0.1), 9.0);
    assert_eq!(math::floor_divide(1.0f32, 0.0), f32::INFINITY);
    assert!(math::maximum(f32::NAN, 1.0).is_nan() && math::minimum(1.0, f32::NAN).is_nan());
}

#[test]
fn binary64() {
    for line in include_str!("golden_f64.txt")
        .lines()
        .filter(|l| !l.starts_with('#'))
    {
        let mut words = line.split(' ');
        let name = words.next().unwrap();
        let v: Vec<f64> = words
            .map(|w| f64::from_bits(u64::from_str_radix(w, 16).unwrap()))
            .collect();
        let (x, y, high, low) = (v[0], v[1], v[2], v[3] * 2f64.powi(-60));
        let (result, bound) = match name {
            "exp" => (math::exp(x), 1.0),
            "exp2" => (math::exp2(x), 1.0),
            "expm1" => (math::expm1(x), 2.0),
            "sigmoid" => (math::sigmoid(x), 2.5),
            "log" => (math::log(x), 1.0),
            "log2" => (math::log2(x), 1.0),
            "log10" => (math::log10(x), 1.0),
            "log1p" => (math::log1p(x), 2.0),
            "sin" => (math::sin(x), 2.0),
            "cos" => (math::cos(x), 2.5),
            "tan" => (math::tan(x), 4.0),
            "asin" => (math::asin(x), 3.0),
            "acos" => (math::acos(x), 2.0),
            "atan" => (math::atan(x), 2.5),
            "sinh" => (math::sinh(x), 2.5),
            "cosh" => (math::cosh(x), 2.0),
            "tanh" => (math::tanh(x), 3.0),
            "asinh" => (math::asinh(x), 2.0),
            "acosh" => (math::acosh(x), 2.0),
            "atanh" => (math::atanh(x), 2.5),
            "erf" => (math::erf(x), 1.5),
            "erfc" => (math::erfc(x), 3.0),
            "pow" => (math::pow(x, y), 1.0),
            _ => (math::atan2(x, y), 3.0),
        };
        let a = high.abs().max(f64::MIN_POSITIVE);
        let ulp = f64::from_bits(a.to_bits() + 1) - a;
        let error = ((result - high) - low).abs() / ulp;
        assert!(
            error <= bound,
            "{name}({x:e}, {y:e}) = {result:e}, not {high:e}: {error:.2} ulp"
        );
    }
}

#[test]
fn special_values_of_binary64() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let same = |name: &str, y: f64, want: f64| {
        assert!(
            y.to_bits() == want.to_bits() || (y.is_nan() && want.is_nan()),
            "{name}: {y:e}, not {want:e}"
        );
    };
    for x in [0.0, -0.0, inf, -inf, nan] {
        same("exp", math::exp(x), x.exp());
        same("log", math::log(x), x.ln());
        same("log1p", math::log1p(x), x.ln_1p());
        same("sin", math::sin(x), x.sin());
        same("cos", math::cos(x), x.cos());
        same("tan", math::tan(x), x.tan());
        same("asin", math::asin(x), x.asin());
        same("expm1", math::expm1(x), x.exp_m1());
        same("tanh", math::tanh(x), x.tanh());
        same("sinh", math::sinh(x), x.sinh());
        same("cosh", math::cosh(x), x.cosh());
        same("asinh", math::asinh(x), x.asinh());
        same("acosh", math::acosh(x), x.acosh());
        same("atanh", math::atanh(x), x.atanh());
    }
    for x in [1.0f64, -1.0, 2.0, -2.0] {
        same("log", math::log(x.min(1.0)), x.min(1.0).ln());
        same("log1p", math::log1p(x.min(-1.0)), x.min(-1.0).ln_1p());
        same("atanh", math::atanh(x), x.atanh());
        same("acosh", math::acosh(x.min(1.0)), x.min(1.0).acosh());
        same("asin", math::asin(2.0 * x), nan);
        same("acos", math::acos(2.0 * x), nan);
    }
    for x in [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, inf, -inf, nan, -0.5] {
        for y in [
            0.0, -0.0, 1.0, -1.0, 2.0, 3.0, -3.0, inf, -inf, nan, 0.5, 1e300, -1e300,
        ] {
            let (got, want) = (math::pow(x, y), x.powf(y));
            assert!(
                got == want && got.is_sign_negative() == want.is_sign_negative()
                    || got.is_nan() && want.is_nan()
                    || (got / want - 1.0).abs() < 1e-15,
                "pow({x}, {y}) = {got}, not {want}"
            );
            if x != 2.0 && y != 2.0 {
                let (got, want) = (math::atan2(x, y), x.atan2(y));
                assert!(
                    (got - want).abs() < 1e-15 && got.is_sign_negative() == want.is_sign_negative()
                        || got.is_nan() && want.is_nan(),
                    "atan2({x}, {y}) = {got}, not {want}"
                );
            }
        }
    }
    assert_eq!(math::sin(1e22), -0.8522008497671888);
    assert_eq!(math::exp(709.782712893384), 1.7976931348622732e308);
    assert_eq!(math::exp(-745.0), 5e-324);
    assert_eq!(math::fmod(1e308, 3e-308), 1e308 % 3e-308);
}

#[test]
fn near_angles() {
    use math::Angle;
    for i in 0..200_000u32 {
        let x = f32::from_bits(i.wrapping_mul(21474));
        if x.abs() as f64 <= f32::NEAR {
            assert_eq!(math::sin_near(x).to_bits(), math::sin(x).to_bits());
            assert_eq!(math::cos_near(x).to_bits(), math::cos(x).to_bits());
            assert_eq!(math::tan_near(x).to_bits(), math::tan(x).to_bits());
        }
    }
}
