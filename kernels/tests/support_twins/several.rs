//! Functions on several vectors, and those that know something of their operand.

use crate::harness::*;
use ferrotrace_kernels::support::{math, need};
use ferrotrace_runtime::DType;

type Twin = (&'static str, fn(f32) -> f32);

#[test]
fn four_vectors_at_once_are_four_vectors() {
    let twins: [Twin; 10] = [
        ("exp", math::exp),
        ("exp_of_nonpositive", math::exp_of_nonpositive),
        ("exp2", math::exp2),
        ("expm1", math::expm1),
        ("sigmoid", math::sigmoid),
        ("tanh", math::tanh),
        ("log", math::log),
        ("log2", math::log2),
        ("log1p", math::log1p),
        ("erf", math::erf),
    ];
    let operands: [(&str, fn(f32, f32) -> f32); 4] = [
        ("a", |a, _| a),
        ("b", |_, b| b),
        ("(-a)", |a, _| -a),
        ("(a * b)", |a, b| a * b),
    ];
    let libraries = libraries(|lanes| {
        let mut source = Source::default();
        for (name, _) in twins {
            let four = need(&format!("ft_four_{name}_f32"), lanes);
            source.needs.insert(four);
            for at in 0..4 {
                let values: Vec<String> = (0..4)
                    .map(|i| format!("v{i} = {}", operands[i].0))
                    .collect();
                let expression = format!(
                    "({{ f32x{lanes} {}; {}x{lanes}(&v0, &v1, &v2, &v3); v{at}; }})",
                    values.join(", "),
                    four.name
                );
                let f32s = [DType::F32, DType::F32];
                source.pointwise(
                    lanes,
                    &format!("{name}{at}"),
                    &f32s,
                    DType::F32,
                    &expression,
                );
            }
        }
        source
    });
    let (x, y) = (samples::<f32>(4099, 5), samples::<f32>(4099, 17));
    for library in &libraries {
        for (name, twin) in twins {
            for (at, (text, operand)) in operands.iter().enumerate() {
                // What the function is not made for may give anything.
                let fits = |v: f32| {
                    name != "exp_of_nonpositive"
                        || v.partial_cmp(&0.0) != Some(std::cmp::Ordering::Greater)
                };
                let got: Vec<f32> = library.run(&format!("{name}{at}"), &x, &y);
                for ((&a, &b), got) in x.iter().zip(&y).zip(got) {
                    let v = operand(a, b);
                    let same =
                        twin(v).to_bits() == got.to_bits() || twin(v).is_nan() && got.is_nan();
                    assert!(
                        same || !fits(v),
                        "{name} of {text} = {v:e} {:?}: {got:e}",
                        library.setup
                    );
                }
            }
        }
    }
}

#[test]
fn exp_of_what_is_not_positive_is_exp() {
    let least = (-104.5f32).to_bits();
    let numbers = ((-0.0f32).to_bits()..least).step_by(61).map(f32::from_bits);
    let special = [0.0, f32::NEG_INFINITY, f32::MIN, -1e-45];
    for x in numbers.chain(special) {
        let (a, b) = (math::exp(x), math::exp_of_nonpositive(x));
        assert_eq!(a.to_bits(), b.to_bits(), "{x:e}");
    }
    assert!(math::exp_of_nonpositive(f32::NAN).is_nan());
    assert_eq!(math::exp_of_nonpositive(-1000.0f64), 0.0);
    assert_eq!(math::exp_of_nonpositive(-1.0f64), math::exp(-1.0f64));
}

#[test]
fn nan_is_seen_in_either_of_two_vectors() {
    fn check<T: Bits>(nan: T, libraries: &[Library]) {
        let x = vec![T::default(); 64];
        for library in libraries {
            let lanes = library.setup.lanes;
            for at in (0..64).step_by(7) {
                let mut with = x.clone();
                with[at] = nan;
                let of = |a: &[T], b: &[T]| library.run::<T, i32>("seen", a, b);
                for got in [of(&with, &x), of(&x, &with)] {
                    let want = (0..64).map(|i| i32::from(i / lanes == at / lanes));
                    assert!(
                        want.eq(got.iter().copied()),
                        "{:?} {at} {got:?}",
                        library.setup
                    );
                }
                assert!(of(&x, &x).iter().all(|&seen| seen == 0));
            }
        }
    }
    let of = |d: DType| {
        libraries(|lanes| {
            let mut source = Source::default();
            let (nans, set) = (
                need(&format!("ft_nans_{d}"), lanes),
                need("ft_set_i32", lanes),
            );
            source.needs.extend([nans, set]);
            let expression = format!(
                "{}x{lanes}({}x{lanes}(0, a, b) ? 1 : {}x{lanes}(4, a, b) - 4)",
                set.name, nans.name, nans.name
            );
            source.pointwise(lanes, "seen", &[d, d], DType::I32, &expression);
            source
        })
    };
    check(f32::NAN, &of(DType::F32));
    check(f64::NAN, &of(DType::F64));
}
