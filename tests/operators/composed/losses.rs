//! Losses of likelihoods and margins.

use super::{apart, differentiable, factors, refused, slopes};
use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;
const NONE: Reduction = Reduction::None;

/// The loss is these numbers element by element, their sum and their mean, all of the dtype.
#[track_caller]
fn reduces(f: &dyn Fn(Reduction) -> Tensor, dims: &[usize], want: &[f64], dtype: DType) {
    let (sum, n) = (want.iter().sum::<f64>(), want.len() as f64);
    let tolerance = 4.0 * unit(dtype);
    near(&f(NONE), dims, want, tolerance);
    near(&f(Reduction::Sum), &[], &[sum], tolerance);
    near(&f(Reduction::Mean), &[], &[sum / n], tolerance);
    assert_eq!(f(NONE).dtype(), dtype);
    assert_eq!(f(Reduction::Mean).dtype(), dtype);
}

/// Numbers of (0, 1) that every floating-point dtype holds.
fn probabilities(n: usize) -> Vec<f64> {
    (0..n)
        .map(|i| ((i * 7 + 3) % 15 + 1) as f64 / 16.0)
        .collect()
}

fn signs(n: usize) -> Vec<f64> {
    (0..n).map(|i| [1.0, -1.0, -1.0][i % 3]).collect()
}

fn entropy(p: f64, t: f64) -> f64 {
    (t - 1.0) * (1.0 - p).ln().max(-100.0) - t * p.ln().max(-100.0)
}

#[test]
fn cross_entropies_of_probabilities() {
    let (a, b) = (probabilities(12), probabilities(24)[12..].to_vec());
    let want: Vec<f64> = a.iter().zip(&b).map(|(p, t)| entropy(*p, *t)).collect();
    each(&FLOATS, true, |dtype| {
        let t = dense(&[3, 4], dtype, &b);
        for x in forms(&[3, 4], dtype, &a) {
            let f = |r| x.binary_cross_entropy_reduced(&t, r);
            reduces(&f, &[3, 4], &want, dtype);
            assert_eq!(
                values(&x.binary_cross_entropy(&t)),
                values(&f(Reduction::Mean))
            );
        }
        // A logarithm of 0 counts as −100, and times 0 as 0. Gradients do not move the values.
        let x = dense(&[6], dtype, &[0.0, 0.0, 1.0, 1.0, NAN, 2.0]);
        let t = dense(&[6], dtype, &[0.0, 1.0, 1.0, 0.25, 0.5, 0.5]);
        for x in [x.clone(), x.requires_grad()] {
            let losses = x.binary_cross_entropy_reduced(&t, NONE);
            equal(&losses, &[6], &[0.0, 100.0, 0.0, 75.0, NAN, NAN]);
        }
    });
    both(|| {
        let none = Tensor::zeros([0, 2], F32, &cpu());
        equal(&none.binary_cross_entropy(&none), &[], &[NAN]);
        let one = Tensor::scalar(0.5, F32, &cpu());
        near(&one.binary_cross_entropy(&one), &[], &[2f64.ln()], 1e-6);
        let x = dense(&[2], F32, &[0.5, 0.25]);
        let wide = x.binary_cross_entropy(&dense(&[2], F64, &[1.0, 0.0]));
        assert_eq!(wide.dtype(), F64);
        refused(
            &x.binary_cross_entropy(&one),
            "binary_cross_entropy",
            &["[2]", "[]"],
        );
        refused(&x.matmul(&none).binary_cross_entropy(&x), "matmul", &[]);
    });
    differentiable(
        &[
            dense(&[3, 4], F64, &a),
            dense(&[3, 4], F64, &probabilities(24)[12..]),
        ],
        &|v| v[0].binary_cross_entropy_reduced(&v[1], NONE),
    );
    // PyTorch's, the products p·(1 − p) being 10⁻¹² at least.
    slopes(
        &[dense(&[6], F64, &[0.0, 0.0, 1.0, 1.0, 0.25, 0.5])],
        |v: &[Tensor]| {
            let t = dense(&[6], F64, &[0.0, 1.0, 1.0, 0.25, 0.0, 1.0]);
            v[0].binary_cross_entropy_reduced(&t, NONE)
        },
        &[&[0.0, -0.375e12, 0.0, 1.125e12, 5.0 / 3.0, -2.0]],
    );
    both(|| {
        let x = dense(&[1], F64, &[0.25]).requires_grad();
        let loss = x.binary_cross_entropy_reduced(&dense(&[1], F64, &[1.0]), Reduction::Sum);
        let first = grad(&loss, &[&x]).remove(0);
        near(&grad(&first.sum(..), &[&x])[0], &[1], &[16.0], 1e-12);
    });
}

#[test]
fn likelihoods_of_normal_distributions() {
    let (a, b, v) = (eighths(12), eighths(4), probabilities(12));
    let loss = |x: f64, t: f64, v: f64| (v.ln() + (x - t) * (x - t) / v) * 0.5;
    let of = |v: &dyn Fn(usize) -> f64| -> Vec<f64> {
        (0..12).map(|i| loss(a[i], b[i % 4], v(i))).collect()
    };
    each(&FLOATS, true, |dtype| {
        let t = dense(&[4], dtype, &b);
        let var = dense(&[3, 4], dtype, &v);
        let row = dense(&[3], dtype, &v[..3]);
        for x in forms(&[3, 4], dtype, &a) {
            let f = |r| x.gaussian_nll_loss_reduced(&t, &var, 0.25, r);
            reduces(&f, &[3, 4], &of(&|i| v[i].max(0.25)), dtype);
            // A variance for each row, of the shape without the last dimension, and one for all.
            let f = |r| x.gaussian_nll_loss_reduced(&t, &row, 1e-6, r);
            reduces(&f, &[3, 4], &of(&|i| v[i / 4]), dtype);
            let f = |r| x.gaussian_nll_loss_reduced(&t, &row.at(0), 1e-6, r);
            reduces(&f, &[3, 4], &of(&|_| v[0]), dtype);
        }
    });
    let x = dense(&[3, 2], F64, &apart(6));
    let t = dense(&[2], F64, &[0.3, -0.7]);
    let var = dense(&[3, 2], F64, &[0.5, 1e-8, 2.0, 0.0, 0.25, 1.0]);
    let inputs = [x.clone(), t.clone(), dense(&[3], F64, &[0.5, 1.0, 2.0])];
    differentiable(&inputs, &|v| {
        v[0].gaussian_nll_loss_reduced(&v[1], &v[2], 1e-6, NONE)
    });
    // PyTorch's, of variances below 10⁻³ too.
    slopes(
        &[x, t, var],
        |v: &[Tensor]| v[0].gaussian_nll_loss_reduced(&v[1], &v[2], 1e-3, NONE),
        &[
            &[
                -2.15234375,
                250.78125,
                0.926953125,
                -848.4375,
                -0.875,
                2.215625,
            ],
            &[2.100390625, 595.440625],
            &[
                -3.08106689453125,
                -83667.48046875,
                0.192002258300781,
                -239198.73046875,
                2.19375,
                -1.9544970703125,
            ],
        ],
    );
    both(|| {
        let x = dense(&[2, 3], F32, &eighths(6));
        let narrow = Tensor::ones([2, 2], F32, &cpu());
        refused(
            &x.gaussian_nll_loss(&x, &narrow, 1e-6),
            "gaussian_nll_loss",
            &["[2, 3]", "[2, 2]"],
        );
        let lost = narrow.matmul(&x.t());
        refused(&x.gaussian_nll_loss(&x, &lost, 1e-6), "matmul", &[]);
        let one = ints(&[1, 2]);
        equal(&one.gaussian_nll_loss(&one, &one.eq(&one), 1), &[], &[0.0]);
        assert_eq!(one.gaussian_nll_loss(&one, &one, 1).dtype(), F32);
    });
}

#[test]
fn likelihoods_of_poisson_distributions() {
    let (a, b) = (eighths(12), whole(4, 5));
    let want: Vec<f64> = (0..12).map(|i| a[i].exp() - b[i % 4] * a[i]).collect();
    each(&FLOATS, true, |dtype| {
        for t in [dense(&[4], dtype, &b), dense(&[4], I64, &b)] {
            for x in forms(&[3, 4], dtype, &a) {
                reduces(
                    &|r| x.poisson_nll_loss_reduced(&t, r),
                    &[3, 4],
                    &want,
                    dtype,
                );
                let mean = want.iter().sum::<f64>() / 12.0;
                near(&x.poisson_nll_loss(&t), &[], &[mean], unit(dtype));
            }
        }
    });
    let (x, t) = (dense(&[3, 4], F64, &a), dense(&[4], F64, &b));
    differentiable(&[x.clone(), t], &|v| {
        v[0].poisson_nll_loss_reduced(&v[1], NONE)
    });
    both(|| {
        let other = dense(&[3], F64, &[0.0; 3]);
        refused(&x.poisson_nll_loss(&other), "poisson_nll_loss", &["[3]"]);
    });
}

#[test]
fn hinges() {
    let (a, y) = (eighths(12), signs(4));
    let loss = |x: f64, y: f64| if y > 0.0 { x } else { (0.5 - x).max(0.0) };
    let want: Vec<f64> = (0..12).map(|i| loss(a[i], y[i % 4])).collect();
    each(&FLOATS, true, |dtype| {
        for y in [dense(&[4], dtype, &y), dense(&[4], I8, &y)] {
            for x in forms(&[3, 4], dtype, &a) {
                let f = |r| x.hinge_embedding_loss_reduced(&y, 0.5, r);
                reduces(&f, &[3, 4], &want, dtype);
            }
        }
    });
    // PyTorch's: another sign gives both parts, and where nothing is lacking there is no slope.
    const SIGNS: [i64; 6] = [1, -1, -1, 1, 0, -1];
    let x = [0.25, 0.5, 1.0, -2.0, 0.5, 3.0];
    both(|| {
        let x = dense(&[6], F64, &x);
        let y = ints(&SIGNS);
        let losses = x.hinge_embedding_loss_reduced(&y, 1.0, NONE);
        equal(&losses, &[6], &[0.25, 0.5, 0.0, -2.0, 1.0, 0.0]);
        equal(&x.hinge_embedding_loss(&y, 1), &[], &[-0.25 / 6.0]);
        equal(
            &ints(&[3]).hinge_embedding_loss(&ints(&[-1]), 5),
            &[],
            &[2.0],
        );
        let none = Tensor::zeros(0, F32, &cpu());
        equal(&none.hinge_embedding_loss(&none, 1.0), &[], &[NAN]);
        equal(
            &dense(&[2], F32, &[NAN, INF]).hinge_embedding_loss_reduced(&ints(&[-1, -1]), 1, NONE),
            &[2],
            &[NAN, 0.0],
        );
        refused(
            &x.hinge_embedding_loss(&ints(&[1, 1]), 1.0),
            "hinge_embedding_loss",
            &["[6]", "[2]"],
        );
    });
    slopes(
        &[dense(&[6], F64, &x)],
        |v: &[Tensor]| v[0].hinge_embedding_loss_reduced(&ints(&SIGNS), 1.0, NONE),
        &[&[0.625, -0.375, 0.0, 1.5, 0.0, 0.0]],
    );
}

#[test]
fn angles() {
    let (a, b, y) = (
        eighths(12),
        eighths(27)[15..].to_vec(),
        [1.0, -1.0, 0.0, -1.0],
    );
    let cos = |i: usize| {
        let (x, y) = (&a[3 * i..3 * i + 3], &b[3 * i..3 * i + 3]);
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        dot(x, y) / ((dot(x, x) + 1e-12) * (dot(y, y) + 1e-12)).sqrt()
    };
    let want: Vec<f64> = (0..4)
        .map(|i| match y[i] {
            1.0 => 1.0 - cos(i),
            0.0 => 0.0,
            _ => (cos(i) + 0.5).max(0.0),
        })
        .collect();
    each(&FLOATS, true, |dtype| {
        let (b, y) = (dense(&[4, 3], dtype, &b), dense(&[4], I64, &y));
        for x in forms(&[4, 3], dtype, &a) {
            let f = |r| x.cosine_embedding_loss_reduced(&b, &y, -0.5, r);
            reduces(&f, &[4], &want, dtype);
            let one = x.at(1).cosine_embedding_loss(&b.at(1), &y.at(1), -0.5);
            near(&one, &[], &[want[1]], 4.0 * unit(dtype));
        }
    });
}

#[test]
fn gradients_of_angles_and_what_is_refused() {
    let rows = |of: &[f64]| dense(&[4, 3], F64, of);
    // PyTorch's.
    slopes(
        &[rows(&apart(12)), rows(&apart(24)[12..])],
        |v: &[Tensor]| {
            let y = ints(&[1, -1, 0, -1]);
            v[0].cosine_embedding_loss_reduced(&v[1], &y, -0.5, NONE)
        },
        &[
            &[
                -0.0863841664945915,
                -0.089397567651432,
                -0.0924109688082726,
                -0.113345178633577,
                0.0726306608511825,
                -0.100639224290021,
                0.0,
                0.0,
                0.0,
                0.0,
                0.0,
                0.0,
            ],
            &[
                0.115248528521928,
                0.0702542399893701,
                0.0252599514568123,
                -0.137961087853568,
                0.0401417101730271,
                0.0631933890858672,
                0.0,
                0.0,
                0.0,
                0.0,
                0.0,
                0.0,
            ],
        ],
    );
    both(|| {
        const NAME: &str = "cosine_embedding_loss";
        let (x, y) = (Tensor::ones([2, 3], F32, &cpu()), ints(&[1, 1]));
        near(&x.cosine_embedding_loss(&x, &y, 0.0), &[], &[0.0], 1e-6);
        let zero = x.zeros_like();
        equal(&zero.cosine_embedding_loss(&x, &y, 0.0), &[], &[1.0]);
        refused(
            &x.cosine_embedding_loss(&x, &y.unsqueeze(1), 0.0),
            NAME,
            &["[2, 1]"],
        );
        refused(
            &x.cosine_embedding_loss(&x, &y.at(0), 0.0),
            NAME,
            &["[2, 3]"],
        );
        refused(&x.cosine_embedding_loss(&x.at(0), &y, 0.0), NAME, &["[3]"]);
        let other = Tensor::ones([2, 4], F32, &cpu());
        refused(&x.cosine_embedding_loss(&other, &y, 0.0), NAME, &["[2, 4]"]);
    });
}

#[test]
fn rankings() {
    let (a, b, y) = (eighths(12), eighths(16)[12..].to_vec(), signs(12));
    let want: Vec<f64> = (0..12)
        .map(|i| (0.5 - y[i] * (a[i] - b[i % 4])).max(0.0))
        .collect();
    each(&FLOATS, true, |dtype| {
        let b = dense(&[1, 4], dtype, &b);
        for y in [dense(&[3, 4], dtype, &y), dense(&[3, 4], I32, &y)] {
            for x in forms(&[3, 4], dtype, &a) {
                let f = |r| x.margin_ranking_loss_reduced(&b, &y, 0.5, r);
                reduces(&f, &[3, 4], &want, dtype);
            }
        }
    });
    // PyTorch's, without a slope where nothing is lacking.
    let of = |x: [f64; 4]| dense(&[4], F64, &x);
    slopes(
        &[
            of([1.0, 2.0, 0.5, 0.0]),
            of([0.5, 3.0, 0.0, 0.0]),
            of([1.0, 1.0, -1.0, -1.0]),
        ],
        |v: &[Tensor]| v[0].margin_ranking_loss_reduced(&v[1], &v[2], 0.5, NONE),
        &[
            &[0.0, -0.375, 1.75, 1.5],
            &[0.0, 0.375, -1.75, -1.5],
            &[0.0, 0.375, -0.875, 0.0],
        ],
    );
    both(|| {
        const NAME: &str = "margin_ranking_loss";
        let x = Tensor::ones([2, 1], F32, &cpu());
        refused(
            &x.margin_ranking_loss(&x, &ints(&[1, 1]), 0.0),
            NAME,
            &["[2, 2, 1]", "equal"],
        );
        refused(
            &x.margin_ranking_loss(&x, &ints(&[1, 1, 1]).unsqueeze(1), 0.0),
            NAME,
            &["[3, 1]"],
        );
        equal(
            &ints(&[1, 2]).margin_ranking_loss(&ints(&[2, 2]), &ints(&[1, 1]), 1),
            &[],
            &[1.5],
        );
    });
}

#[test]
fn triplets() {
    let (a, b, c) = (
        eighths(12),
        eighths(24)[12..].to_vec(),
        eighths(27)[15..].to_vec(),
    );
    let far = |i: usize, y: &[f64]| {
        let by = (3 * i..3 * i + 3).map(|k| a[k] - y[k] + 1e-6);
        by.map(|d| d * d).sum::<f64>().sqrt()
    };
    let want: Vec<f64> = (0..4)
        .map(|i| (far(i, &b) - far(i, &c) + 0.5).max(0.0))
        .collect();
    assert!(want.contains(&0.0) && want.iter().any(|&loss| loss > 0.0));
    each(&FLOATS, true, |dtype| {
        let (b, c) = (dense(&[4, 3], dtype, &b), dense(&[4, 3], dtype, &c));
        for x in forms(&[4, 3], dtype, &a) {
            let f = |r| x.triplet_margin_loss_reduced(&b, &c, 0.5, r);
            reduces(&f, &[4], &want, dtype);
        }
    });
    let rows = |of: &[f64]| dense(&[4, 3], F64, of);
    differentiable(
        &[
            rows(&apart(12)),
            rows(&apart(24)[12..]),
            rows(&apart(36)[24..]),
        ],
        &|v| v[0].triplet_margin_loss_reduced(&v[1], &v[2], 5.0, NONE),
    );
    both(|| {
        const NAME: &str = "triplet_margin_loss";
        let x = Tensor::ones([2, 3], F32, &cpu());
        equal(&x.triplet_margin_loss(&x, &x, 1), &[], &[1.0]);
        refused(
            &x.triplet_margin_loss(&x.at(0), &x, 1.0),
            NAME,
            &["[2, 1, 2]"],
        );
        refused(&x.triplet_margin_loss(&x, &x.t(), 1.0), NAME, &["[3, 2]"]);
        for margin in [0.0, -1.0, NAN] {
            refused(&x.triplet_margin_loss(&x, &x, margin), NAME, &["positive"]);
        }
    });
}

#[test]
fn soft_margins() {
    let (a, y) = (eighths(12), signs(4));
    let want: Vec<f64> = (0..12).map(|i| (-a[i] * y[i % 4]).exp().ln_1p()).collect();
    each(&FLOATS, true, |dtype| {
        for y in [dense(&[4], dtype, &y), dense(&[4], I64, &y)] {
            for x in forms(&[3, 4], dtype, &a) {
                reduces(
                    &|r| x.soft_margin_loss_reduced(&y, r),
                    &[3, 4],
                    &want,
                    dtype,
                );
                let mean = want.iter().sum::<f64>() / 12.0;
                near(&x.soft_margin_loss(&y), &[], &[mean], unit(dtype));
            }
        }
    });
    both(|| {
        let x = dense(&[3], F64, &[-30.0, 25.0, 1000.0]);
        let losses = x.soft_margin_loss_reduced(&ints(&[1, -1, -1]), NONE);
        let want = [30.0 + (-30f64).exp(), 25.0 + (-25f64).exp(), 1000.0];
        near(&losses, &[3], &want, 1e-15);
        refused(
            &x.soft_margin_loss(&ints(&[1, 1])),
            "soft_margin_loss",
            &["[2]"],
        );
    });
    let x = [0.5, -30.0, 25.0, 0.0, 1000.0];
    let slope = |i: usize| {
        let sign = [1.0, 1.0, -1.0, -1.0, -1.0][i];
        -sign * factors(5)[i] / (1.0 + (x[i] * sign).exp())
    };
    let want: Vec<f64> = (0..5).map(slope).collect();
    slopes(
        &[dense(&[5], F64, &x)],
        |v: &[Tensor]| v[0].soft_margin_loss_reduced(&ints(&[1, 1, -1, -1, -1]), NONE),
        &[&want],
    );
}
