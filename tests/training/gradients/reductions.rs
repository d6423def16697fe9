//! Reductions, norms and pointwise functions, against central differences.

use super::check::*;
use ferrotrace::prelude::*;

#[test]
fn over_dimensions() {
    let x = sample(&[2, 3, 4]);
    let mut cases = Vec::new();
    for dims in [vec![1], vec![0, 2], vec![0, 1, 2]] {
        let d = move || dims.clone();
        let [a, b, c, e, f, g, h] = std::array::from_fn(|_| d.clone());
        cases.extend([
            case("sum", &[&x], move |t| t[0].square().sum(&a()[..])),
            case("mean", &[&x], move |t| t[0].square().mean_keepdim(&b()[..])),
            case("prod", &[&x.narrow(2, 0, 2)], move |t| t[0].prod(&c()[..])),
            case("max", &[&x], move |t| t[0].max(&e()[..]).square()),
            case("min", &[&x], move |t| t[0].min_keepdim(&f()[..]).square()),
            case("logsumexp", &[&x], move |t| t[0].logsumexp(&g()[..])),
            case("var", &[&x], move |t| t[0].var(&h()[..], 1)),
        ]);
    }
    agree(&cases);
}

#[test]
fn moments() {
    let (x, number) = (sample(&[3, 4]), of(&[], &[0.75]));
    agree(&[
        case("std", &[&x], |t| t[0].std(1, 1)),
        case("std of all", &[&x], |t| t[0].std_keepdim(.., 0)),
        case("var_mean", &[&x], |t| {
            let (var, mean) = t[0].var_mean(0, 0);
            var * mean
        }),
        case("var of a number", &[&number], |t| t[0].var(.., 0)),
        case("logsumexp of a number", &[&number], |t| t[0].logsumexp(..)),
        case("logsumexp of none", &[&sample(&[2, 0])], |t| {
            t[0].logsumexp(1)
        }),
        case("norm of none", &[&sample(&[2, 0])], |t| t[0].norm(2.0, 1)),
    ]);
}

#[test]
fn norms() {
    let x = sample(&[3, 4]);
    let mut cases = Vec::new();
    for p in [
        1.0,
        2.0,
        3.0,
        1.5,
        0.5,
        -1.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ] {
        cases.push(case("norm", &[&x], move |t| t[0].norm(p, 1)));
    }
    cases.push(case("norm of all", &[&x], |t| t[0].norm_keepdim(2.0, ..)));
    agree(&cases);
}

#[test]
fn exponentials() {
    let x = sample(&[3, 4]);
    agree(&[
        case("softmax", &[&x], |t| t[0].softmax(1)),
        case("log_softmax", &[&x], |t| t[0].log_softmax(0)),
        case("logsumexp", &[&x], |t| t[0].logsumexp(0).square()),
    ]);
}

#[test]
fn activations() {
    // No kink is nearer than 1/128.
    let x = sample(&[4, 6]) * 2.0 + 1.0 / 128.0;
    x.eval().unwrap();
    type Unary = fn(&Tensor) -> Tensor;
    let functions: [(&'static str, Unary); 17] = [
        ("relu", |x| x.relu()),
        ("gelu", |x| x.gelu()),
        ("gelu_tanh", |x| x.gelu_tanh()),
        ("silu", |x| x.silu()),
        ("mish", |x| x.mish()),
        ("softplus", |x| x.softplus()),
        ("softsign", |x| x.softsign()),
        ("hardtanh", |x| x.hardtanh()),
        ("hardswish", |x| x.hardswish()),
        ("hardsigmoid", |x| x.hardsigmoid()),
        ("logsigmoid", |x| x.logsigmoid()),
        ("relu6", |x| x.relu6()),
        ("leaky_relu", |x| x.leaky_relu(0.25)),
        ("elu", |x| x.elu(0.75)),
        ("selu", |x| x.selu()),
        ("celu", |x| x.celu(0.75)),
        ("clamp", |x| x.clamp(-1.0, 1.5).square()),
    ];
    let of = |(name, f): (&'static str, Unary)| case(name, &[&x], move |t| f(&t[0])).wide();
    let cases: Vec<Case> = functions.into_iter().map(of).collect();
    agree(&cases);
}

#[test]
fn of_one_number() {
    // Inside the domain of all of them.
    let x = (sample(&[12]) + 2.1) / 4.5;
    x.eval().unwrap();
    type Unary = fn(&Tensor) -> Tensor;
    let functions: [(&'static str, Unary); 28] = [
        ("neg", |x| x.neg().square()),
        ("abs", |x| x.abs().square()),
        ("exp", |x| x.exp()),
        ("exp2", |x| x.exp2()),
        ("expm1", |x| x.expm1()),
        ("log", |x| x.log()),
        ("log2", |x| x.log2()),
        ("log10", |x| x.log10()),
        ("log1p", |x| x.log1p()),
        ("sqrt", |x| x.sqrt()),
        ("rsqrt", |x| x.rsqrt()),
        ("recip", |x| x.recip()),
        ("square", |x| x.square()),
        ("sin", |x| x.sin()),
        ("cos", |x| x.cos()),
        ("tan", |x| x.tan()),
        ("asin", |x| x.asin()),
        ("acos", |x| x.acos()),
        ("atan", |x| x.atan()),
        ("sinh", |x| x.sinh()),
        ("cosh", |x| x.cosh()),
        ("tanh", |x| x.tanh()),
        ("asinh", |x| x.asinh()),
        ("acosh", |x| (x + 1.5).acosh()),
        ("atanh", |x| x.atanh()),
        ("erf", |x| x.erf()),
        ("erfc", |x| x.erfc()),
        ("sigmoid", |x| x.sigmoid()),
    ];
    let of = |(name, f): (&'static str, Unary)| case(name, &[&x], move |t| f(&t[0])).wide();
    let cases: Vec<Case> = functions.into_iter().map(of).collect();
    agree(&cases);
}

#[test]
fn of_several_that_broadcast() {
    let (a, b) = (sample(&[2, 3]), sample(&[6]).narrow(0, 3, 3) + 4.03);
    let (c, number) = (
        sample(&[9]).narrow(0, 7, 2).reshape([2, 1]),
        of(&[], &[0.8]),
    );
    b.eval().unwrap();
    agree(&[
        case("add", &[&a, &b], |t| (&t[0] + &t[1]).square()),
        case("sub", &[&b, &a], |t| (&t[0] - &t[1]).square()),
        case("mul", &[&a, &c], |t| &t[0] * &t[1]),
        case("div", &[&a, &b], |t| &t[0] / &t[1]),
        case("pow", &[&b, &c], |t| t[0].pow(&t[1])),
        case("maximum", &[&a, &c], |t| t[0].maximum(&t[1]).square()),
        case("minimum", &[&a, &number], |t| t[0].minimum(&t[1]).square()),
        case("atan2", &[&a, &b], |t| t[0].atan2(&t[1])),
        case("fmod", &[&a, &number], |t| t[0].fmod(&t[1])).wide(),
        case("remainder", &[&a, &number], |t| t[0].remainder(&t[1])).wide(),
        case("where", &[&a, &c], |t| {
            t[0].gt(0.1).where_cond(&t[0].square(), &t[1])
        }),
        case("lerp", &[&a, &b, &c], |t| t[0].lerp(&t[1], &t[2])),
        case("lerp by a number", &[&a, &b], |t| {
            t[0].lerp(&t[1].square(), 0.7)
        }),
        case("addcmul", &[&number, &a, &c], |t| {
            t[0].addcmul(&t[1], &t[2], 0.5)
        }),
        case("addcdiv", &[&number, &a, &b], |t| {
            t[0].addcdiv(&t[1], &t[2], 2.0)
        }),
    ]);
}
