//! Losses, against central differences, and at their kinks as PyTorch.

use super::check::*;
use ferrotrace::prelude::*;

const ALL: [Reduction; 3] = [Reduction::None, Reduction::Sum, Reduction::Mean];

#[test]
fn of_pairs() {
    let (x, t) = (sample(&[2, 3]), sample(&[9]).narrow(0, 6, 3));
    let same = sample(&[12]).narrow(0, 6, 6).reshape([2, 3]);
    for reduction in ALL {
        agree(&[
            case("mse", &[&x, &t], move |v| {
                v[0].mse_loss_reduced(&v[1], reduction)
            }),
            case("smooth_l1", &[&x, &t], move |v| {
                v[0].smooth_l1_loss_reduced(&v[1], 0.75, reduction)
            }),
            case("l1", &[&x, &t], move |v| {
                v[0].smooth_l1_loss_reduced(&v[1], 0.0, reduction)
            }),
            case("kl_div", &[&x, &t], move |v| {
                v[0].kl_div_reduced(&(v[1].square() + 0.5), reduction)
            }),
            case("bce", &[&x, &same], move |v| {
                v[0].binary_cross_entropy_with_logits_reduced(&v[1], reduction)
            }),
        ]);
    }
}

#[test]
fn of_classes() {
    let (x, deep, row) = (sample(&[4, 3]), sample(&[2, 3, 2]), sample(&[5]));
    for reduction in ALL {
        let mut cases = Vec::new();
        for (name, classes) in [
            ("all count", [0i64, 2, 1, 2]),
            ("one ignored", [0, -100, 1, 1]),
        ] {
            cases.push(case(name, &[&x], move |v| {
                v[0].cross_entropy_reduced(&ints(&classes), reduction)
            }));
            cases.push(case(name, &[&x], move |v| {
                v[0].square().nll_loss_reduced(&ints(&classes), reduction)
            }));
            cases.push(case("of images", &[&deep], move |v| {
                v[0].cross_entropy_reduced(&ints(&classes).reshape([2, 2]), reduction)
            }));
        }
        cases.push(case("of a vector", &[&row], move |v| {
            let class = ints(&[3]).squeeze(0);
            v[0].cross_entropy_reduced(&class, reduction)
        }));
        agree(&cases);
    }
}

#[test]
fn of_probabilities() {
    let (x, t) = (
        sample(&[3, 4]),
        sample(&[24]).narrow(0, 12, 12).reshape([3, 4]),
    );
    let (deep, of_deep) = (x.reshape([2, 3, 2]), t.reshape([2, 3, 2]));
    for reduction in ALL {
        agree(&[
            case("cross_entropy", &[&x, &t], move |v| {
                v[0].cross_entropy_reduced(&v[1], reduction)
            }),
            case("of images", &[&deep, &of_deep], move |v| {
                v[0].cross_entropy_reduced(&v[1], reduction)
            }),
        ]);
    }
}

#[track_caller]
fn table(f: impl Fn(&Tensor) -> Tensor, x: &[f64], dims: &[usize], want: &[f64]) {
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            let x = of(dims, x).requires_grad();
            let got = numbers(&grad(&f(&x).sum(..), &[&x])[0]);
            let same = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9;
            assert!(
                got.iter().zip(want).all(same),
                "{mode:?}: {got:?}, not {want:?}"
            );
        });
    }
}

#[test]
fn at_kinks_and_far_out() {
    let zeros = |n| Tensor::zeros(n, DType::F64, &Device::cpu());
    let l1 = |x: &Tensor| x.smooth_l1_loss_reduced(&zeros(6), 1.0, Reduction::Sum);
    let x = [-2.0, -1.0, 0.0, 1.0, 2.0, 0.5];
    table(l1, &x, &[6], &[-1.0, -1.0, 0.0, 1.0, 1.0, 0.5]);
    let l1 = |x: &Tensor| x.smooth_l1_loss_reduced(&zeros(2), 0.0, Reduction::Sum);
    table(l1, &[-2.0, 0.0], &[2], &[-1.0, 0.0]);
    let targets = of(&[5], &[0.0, 0.5, 1.0, 0.0, 1.0]);
    let bce = |x: &Tensor| x.binary_cross_entropy_with_logits_reduced(&targets, Reduction::Sum);
    let want = [0.11920292202211755, 0.0, -0.11920292202211755, 1.0, -1.0];
    table(bce, &[-2.0, 0.0, 2.0, 1000.0, -1000.0], &[5], &want);
}

#[test]
fn samples_that_do_not_count() {
    let nan = f64::NAN;
    let one = |x: &Tensor| x.cross_entropy(&ints(&[0, -100]));
    let p = 0.7310585786300049;
    table(one, &[1.0, 2.0, nan, 4.0], &[2, 2], &[-p, p, 0.0, 0.0]);
    let none = |x: &Tensor| x.cross_entropy(&ints(&[-100, -100]));
    table(none, &[1.0, 2.0, 3.0, 4.0], &[2, 2], &[0.0; 4]);
    let nll = |x: &Tensor| x.nll_loss(&ints(&[-100, 1]));
    table(nll, &[1.0, 2.0, 3.0, 4.0], &[2, 2], &[0.0, 0.0, 0.0, -1.0]);
}

#[test]
fn of_no_samples() {
    let none = sample(&[0, 3]);
    agree(&[
        case("cross_entropy", &[&none], |v| {
            v[0].cross_entropy_reduced(&ints(&[]), Reduction::Sum)
        }),
        case("mse", &[&none, &none], |v| {
            v[0].mse_loss_reduced(&v[1], Reduction::Sum)
        }),
    ]);
}
