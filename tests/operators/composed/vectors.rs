//! Losses of pairs, and products, angles and distances of vectors.

use super::{apart, differentiable, refused, slopes};
use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

fn huber(d: f64, delta: f64) -> f64 {
    match d.abs() <= delta {
        true => 0.5 * d * d,
        false => delta * (d.abs() - 0.5 * delta),
    }
}

#[test]
fn losses_of_pairs_by_absolute_difference() {
    let (a, b) = (eighths(12), eighths(4));
    let apart: Vec<f64> = (0..12).map(|i| a[i] - b[i % 4]).collect();
    each(&FLOATS, true, |dtype| {
        let t = dense(&[4], dtype, &b);
        for x in forms(&[3, 4], dtype, &a) {
            let check = |f: &dyn Fn(Reduction) -> Tensor, want: &[f64]| {
                let (sum, bits) = (want.iter().sum::<f64>(), unit(dtype));
                near(&f(Reduction::None), &[3, 4], want, bits);
                near(&f(Reduction::Sum), &[], &[sum], bits);
                near(&f(Reduction::Mean), &[], &[sum / 12.0], bits);
                assert_eq!(f(Reduction::None).dtype(), dtype);
            };
            let sizes: Vec<f64> = apart.iter().map(|d| d.abs()).collect();
            check(&|r| x.l1_loss_reduced(&t, r), &sizes);
            near(
                &x.l1_loss(&t),
                &[],
                &[sizes.iter().sum::<f64>() / 12.0],
                unit(dtype),
            );
            for delta in [0.5, 1.0, 100.0] {
                let losses: Vec<f64> = apart.iter().map(|d| huber(*d, delta)).collect();
                check(&|r| x.huber_loss_reduced(&t, delta, r), &losses);
                let mean = losses.iter().sum::<f64>() / 12.0;
                near(&x.huber_loss(&t, delta), &[], &[mean], unit(dtype));
            }
        }
    });
    both(|| {
        assert_eq!(ints(&[1, 2]).l1_loss(&ints(&[3, 5])).dtype(), F32);
        equal(&ints(&[1, 2]).l1_loss(&ints(&[3, 5])), &[], &[2.5]);
        equal(&ints(&[1, 2]).huber_loss(&ints(&[3, 2]), 1), &[], &[0.75]);
        let none = Tensor::zeros(0, F32, &cpu());
        equal(&none.l1_loss(&none), &[], &[NAN]);
        equal(
            &none.huber_loss_reduced(&none, 1.0, Reduction::Sum),
            &[],
            &[0.0],
        );
        let (x, t) = (
            Tensor::scalar(3, F32, &cpu()),
            Tensor::scalar(1.0, F64, &cpu()),
        );
        equal(&x.l1_loss(&t), &[], &[2.0]);
        assert_eq!(x.l1_loss(&t).dtype(), F64);
        // The mean of large losses is a binary16 number, though their sum is none.
        let far = Tensor::full(64, 3000.0, F16, &cpu());
        equal(&far.l1_loss(&far.zeros_like()), &[], &[3000.0]);
        let x = dense(&[3], F32, &[INF, NAN, 1.0]);
        equal(
            &x.huber_loss_reduced(&t, 1.0, Reduction::None),
            &[3],
            &[INF, NAN, 0.0],
        );
    });
}

#[test]
fn gradients_of_losses_of_pairs() {
    let (x, t) = (
        dense(&[3, 2], F64, &apart(6)),
        dense(&[2], F64, &[0.3, -0.7]),
    );
    let none = Reduction::None;
    differentiable(&[x.clone(), t.clone()], &|v| {
        v[0].l1_loss_reduced(&v[1], none)
    });
    differentiable(&[x.clone(), t.clone()], &|v| {
        v[0].huber_loss_reduced(&v[1], 0.6, none)
    });
    differentiable(&[x, t], &|v| {
        v[0].huber_loss(&v[1], 0.6) + v[0].l1_loss(&v[1])
    });
    // At no difference, and where the parabola ends. Factors are 0.625, 0.375, 1.75, 1.5 and 1.25.
    let x = dense(&[5], F64, &[0.0, 1.0, -1.0, 3.0, -3.0]);
    let t = x.zeros_like();
    slopes(
        &[x.clone(), t.clone()],
        move |v: &[Tensor]| v[0].l1_loss_reduced(&v[1], none),
        &[
            &[0.0, 0.375, -1.75, 1.5, -1.25],
            &[0.0, -0.375, 1.75, -1.5, 1.25],
        ],
    );
    slopes(
        &[x.clone(), t.clone()],
        move |v: &[Tensor]| v[0].huber_loss_reduced(&v[1], 1.0, none),
        &[
            &[0.0, 0.375, -1.75, 1.5, -1.25],
            &[0.0, -0.375, 1.75, -1.5, 1.25],
        ],
    );
    // The second derivative of a parabola is 1 at its vertex too.
    both(|| {
        let leaf = x.requires_grad();
        let first = grad(&leaf.huber_loss_reduced(&t, 2.0, Reduction::Sum), &[&leaf]).remove(0);
        let second = grad(&first.sum(..), &[&leaf]).remove(0);
        equal(&second, &[5], &[1.0, 1.0, 1.0, 0.0, 0.0]);
    });
}

#[test]
fn losses_refuse() {
    both(|| {
        let (a, b) = (Tensor::ones(2, F32, &cpu()), Tensor::ones(3, F32, &cpu()));
        refused(&a.l1_loss(&b), "l1_loss", &["[2]", "[3]"]);
        refused(&a.l1_loss_reduced(&b, Reduction::Sum), "l1_loss", &["[2]"]);
        refused(&a.huber_loss(&b, 1.0), "huber_loss", &["[2]", "[3]"]);
        for delta in [0.0, -1.0, NAN] {
            refused(&a.huber_loss(&a, delta), "huber_loss", &["positive"]);
            let parted = a.huber_loss_reduced(&a, delta, Reduction::None);
            refused(&parted, "huber_loss", &["positive"]);
        }
        // An operand's own error goes on.
        refused(&a.matmul(&b).l1_loss(&a), "matmul", &["[2]"]);
        refused(&a.huber_loss(&a.matmul(&b), 0.0), "matmul", &["[3]"]);
    });
}

fn cosine(a: &[f64], b: &[f64], eps: f64) -> f64 {
    let size = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt().max(eps);
    let dot: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
    dot / (size(a) * size(b))
}

#[test]
fn cosines_of_angles() {
    let (a, b) = (eighths(12), &eighths(40)[28..]);
    let rows: Vec<f64> = (0..3)
        .map(|i| cosine(&a[4 * i..][..4], &b[4 * i..][..4], 1e-8))
        .collect();
    let column = |x: &[f64], j: usize| [x[j], x[j + 4], x[j + 8]];
    let columns: Vec<f64> = (0..4)
        .map(|j| cosine(&column(&a, j), &column(b, j), 1e-8))
        .collect();
    each(&FLOATS, true, |dtype| {
        for x in forms(&[3, 4], dtype, &a) {
            for y in forms(&[3, 4], dtype, b) {
                near(&x.cosine_similarity(&y, -1, 1e-8), &[3], &rows, unit(dtype));
                near(
                    &x.cosine_similarity(&y, 0, 1e-8),
                    &[4],
                    &columns,
                    unit(dtype),
                );
            }
        }
        assert_eq!(
            dense(&[2], dtype, &[1.0, 2.0])
                .cosine_similarity(&ints(&[3, 5]), 0, 0)
                .dtype(),
            dtype
        );
    });
    both(|| {
        // Sizes broadcast before norms are taken: PyTorch gives 0.9701425 for both.
        let x = dense(&[2, 1], F32, &[1.0, 2.0]);
        let y = dense(&[2], F32, &[3.0, 5.0]);
        near(
            &x.cosine_similarity(&y, 1, 1e-8),
            &[2],
            &[0.97014250, 0.97014250],
            1e-6,
        );
        let none = Tensor::zeros((2, 0), F32, &cpu());
        equal(&none.cosine_similarity(&none, 1, 1e-8), &[2], &[0.0, 0.0]);
        equal(&none.cosine_similarity(&none, 0, 1e-8), &[0], &[]);
        let number = Tensor::scalar(-2.0, F64, &cpu());
        near(
            &number.cosine_similarity(&(&number * -3), 0, 1e-8),
            &[],
            &[-1.0],
            1e-15,
        );
        let zero = Tensor::zeros(2, F64, &cpu());
        equal(&zero.cosine_similarity(&y, 0, 1e-8), &[], &[0.0]);
        near(
            &dense(&[2], F64, &[0.3, 0.4]).cosine_similarity(&y, 0, 1.0),
            &[],
            &[2.9 / 34f64.sqrt()],
            1e-6,
        );
        refused(
            &ints(&[1]).cosine_similarity(&ints(&[1]), 0, 1e-8),
            "cosine_similarity",
            &["i64"],
        );
        refused(
            &y.cosine_similarity(&dense(&[3], F32, &[1.0; 3]), 0, 1e-8),
            "cosine_similarity",
            &["[2]", "[3]"],
        );
        refused(
            &y.cosine_similarity(&y, 1, 1e-8),
            "cosine_similarity",
            &["dimension 1"],
        );
        refused(
            &none.matmul(&none).cosine_similarity(&y, 9, 1e-8),
            "matmul",
            &[],
        );
    });
}

/// Where a norm is below eps, PyTorch holds it there and keeps its gradient.
#[test]
fn gradients_of_cosines() {
    let inputs = [
        dense(&[3, 2], F64, &apart(6)),
        dense(&[2], F64, &[0.3, -0.7]),
    ];
    differentiable(&inputs, &|v| v[0].cosine_similarity(&v[1], -1, 1e-8));
    differentiable(&inputs, &|v| v[0].cosine_similarity(&v[1], 0, 1e-8));
    let y = dense(&[2], F64, &[1.0, 2.0]);
    let cases: [([f64; 2], [f64; 2], [f64; 2]); 4] = [
        (
            [0.0, 0.0],
            [44721359.549995795, 89442719.09999159],
            [0.0, 0.0],
        ),
        (
            [1e-9, 2e-9],
            [34721359.549995795, 69442719.09999159],
            [0.0, 0.0],
        ),
        (
            [1e-8, 0.0],
            [0.0, 89442719.09999159],
            [0.35777087639996635, -0.17888543819998315],
        ),
        (
            [3e-8, 4e-8],
            [-2862167.0111997332, 2146625.258399794],
            [0.07155417527999322, -0.03577708763999665],
        ),
    ];
    // The factor of a single result is 0.625.
    let times = |w: [f64; 2]| w.map(|w| w * 0.625);
    for (x, of_x, of_y) in cases {
        let inputs = [dense(&[2], F64, &x), y.clone()];
        slopes(
            &inputs,
            move |v: &[Tensor]| v[0].cosine_similarity(&v[1], 0, 1e-8),
            &[&times(of_x), &times(of_y)],
        );
    }
}

fn norm(x: &[f64], p: f64) -> f64 {
    let sizes = x.iter().map(|x| x.abs());
    match p {
        0.0 => x.iter().filter(|x| **x != 0.0).count() as f64,
        INF => sizes.fold(0.0, f64::max),
        _ => sizes.map(|x| x.powf(p)).sum::<f64>().powf(1.0 / p),
    }
}

#[test]
fn vectors_of_norm_one() {
    let a = eighths(12);
    each(&FLOATS, false, |dtype| {
        for x in forms(&[3, 4], dtype, &a) {
            for p in [2.0, 1.0, 3.0, INF] {
                let of_row = |i: usize| norm(&a[i / 4 * 4..][..4], p);
                let rows: Vec<f64> = (0..12).map(|i| a[i] / of_row(i)).collect();
                let y = x.normalize(p, -1, 1e-12);
                assert_eq!(y.dtype(), dtype);
                near(&y, &[3, 4], &rows, unit(dtype));
            }
            let all: Vec<f64> = a.iter().map(|v| v / norm(&a, 2.0)).collect();
            near(&x.normalize(2.0, (0, 1), 1e-12), &[3, 4], &all, unit(dtype));
            let held: Vec<f64> = a.iter().map(|v| v / 100.0).collect();
            near(&x.normalize(2.0, 0, 100), &[3, 4], &held, unit(dtype));
        }
    });
    both(|| {
        equal(
            &Tensor::scalar(-2.0, F64, &cpu()).normalize(2.0, 0, 1e-12),
            &[],
            &[-1.0],
        );
        equal(
            &Tensor::zeros((2, 2), F32, &cpu()).normalize(2.0, 1, 1e-12),
            &[2, 2],
            &[0.0; 4],
        );
        let none = Tensor::zeros((2, 0), F32, &cpu());
        equal(&none.normalize(2.0, 1, 1e-12), &[2, 0], &[]);
        refused(
            &ints(&[1]).normalize(2.0, 0, 1e-12),
            "normalize",
            &["i64", "to_dtype(DType::F32)"],
        );
        refused(
            &none.normalize(2.0, 2, 1e-12),
            "normalize",
            &["dimension 2"],
        );
        refused(&none.normalize(2.0, (0, 0), 1e-12), "normalize", &["twice"]);
        refused(&none.normalize(INF, 1, 1e-12), "normalize", &["[2, 0]"]);
        refused(&none.matmul(&none).normalize(2.0, 7, 1e-12), "matmul", &[]);
    });
    let x = dense(&[3, 2], F64, &apart(6));
    for p in [2.0, 1.0, 3.0] {
        differentiable(std::slice::from_ref(&x), &move |v| {
            v[0].normalize(p, 1, 1e-12)
        });
    }
    // PyTorch: the divisor is a constant up to eps. Factors are 0.625 and 0.375.
    let at = |x: [f64; 2], p: f64, want: [f64; 2]| {
        let inputs = [dense(&[2], F64, &x)];
        slopes(
            &inputs,
            move |v: &[Tensor]| v[0].normalize(p, 0, 0.25),
            &[&want],
        );
    };
    for p in [2.0, 1.0, INF] {
        at([0.0, 0.0], p, [2.5, 1.5]);
        at([0.125, 0.0], p, [2.5, 1.5]);
        at([0.25, 0.0], p, [2.5, 1.5]);
    }
    // PyTorch gives 0.35355339 and 0.5 for factors of 1 and 2, whose sum is three times as large.
    at([3.0, -3.0], 2.0, [0.11785113, 0.11785113]);
    at([3.0, -3.0], INF, [0.16666667, 0.16666667]);
}

/// Three points of a plane and three others, two of them equal.
const POINTS: [[f64; 6]; 2] = [
    [1.0, 2.0, 0.0, 0.0, 4.0, 5.0],
    [1.0, 2.0, 3.0, 4.0, 3.0, 0.0],
];

#[test]
fn distances_between_points() {
    let row = |x: &[f64], i: usize| [x[2 * i], x[2 * i + 1]];
    let apart = |i: usize, j: usize| {
        let (a, b) = (row(&POINTS[0], i), row(&POINTS[1], j));
        [a[0] - b[0], a[1] - b[1]]
    };
    each(&FLOATS, false, |dtype| {
        let y = dense(&[3, 2], dtype, &POINTS[1]);
        for x in forms(&[3, 2], dtype, &POINTS[0]) {
            for p in [2.0, 1.0, 3.0, 0.5, 0.0, INF] {
                let want: Vec<f64> = (0..9).map(|k| norm(&apart(k / 3, k % 3), p)).collect();
                let found = x.cdist(&y, p);
                assert_eq!(found.dtype(), dtype);
                near(&found, &[3, 3], &want, 4.0 * unit(dtype));
                let many = x.expand([5, 1, 3, 2]).cdist(&y.expand([4, 3, 2]), p);
                near(&many, &[5, 4, 3, 3], &want.repeat(20), 4.0 * unit(dtype));
            }
        }
    });
    both(|| {
        // Products would cancel: both points are far from 0 and near each other.
        let far = dense(&[1, 2], F32, &[4096.0, 4096.0]);
        equal(&far.cdist(&(&far + 0.25), INF), &[1, 1], &[0.25]);
        near(
            &far.cdist(&(&far + 0.25), 2.0),
            &[1, 1],
            &[0.125f64.sqrt()],
            1e-6,
        );
        let none = Tensor::zeros((2, 0), F32, &cpu());
        for p in [0.0, 2.0, INF] {
            equal(
                &none.cdist(&Tensor::zeros((3, 0), F32, &cpu()), p),
                &[2, 3],
                &[0.0; 6],
            );
        }
        let points = Tensor::ones((2, 3), F32, &cpu());
        equal(
            &points.cdist(&Tensor::ones((0, 3), F32, &cpu()), 2.0),
            &[2, 0],
            &[],
        );
        assert_eq!(points.cdist(&points.to_dtype(F64), 2.0).dtype(), F64);
        refused(
            &ints(&[1, 2])
                .reshape((1, 2))
                .cdist(&ints(&[1, 2]).reshape((1, 2)), 2.0),
            "cdist",
            &["i64"],
        );
        refused(
            &points.cdist(&Tensor::ones(3, F32, &cpu()), 2.0),
            "cdist",
            &["rows", "[3]"],
        );
        refused(&points.cdist(&none, 2.0), "cdist", &["3", "0 coordinates"]);
        refused(&points.cdist(&points, -1.0), "cdist", &["-1"]);
        refused(&points.cdist(&points, NAN), "cdist", &["NaN"]);
        let groups = [2, 3].map(|n| Tensor::ones((n, 2, 3), F32, &cpu()));
        refused(
            &groups[0].cdist(&groups[1], 2.0),
            "cdist",
            &["[2, 2, 3]", "[3, 2, 3]"],
        );
        refused(&points.matmul(&points).cdist(&points, -1.0), "matmul", &[]);
    });
}

/// Orders of distances between [`POINTS`], and PyTorch's gradients by both sides where the distances have factors from 1 to 9. The
/// first points are equal: their distance has no gradient.
const SLOPES: [(f64, [f64; 6], [f64; 6]); 5] = [
    (
        2.0,
        [
            -3.5355339059,
            std::f64::consts::FRAC_1_SQRT_2,
            -10.7888543820,
            -7.5777087640,
            12.3716469340,
            19.4318277990,
        ],
        [
            -3.1608930863,
            -1.3720387043,
            -1.2426406871,
            -0.2426406871,
            6.3562751273,
            -10.9465464248,
        ],
    ),
    (
        1.0,
        [-5.0, 1.0, -15.0, -9.0, 24.0, 24.0],
        [-3.0, -3.0, -1.0, -1.0, 0.0, -12.0],
    ),
    (0.0, [0.0; 6], [0.0; 6]),
    (
        3.0,
        [
            -3.1498026247,
            0.6299605249,
            -9.1487384578,
            -7.6521610341,
            9.8075005839,
            18.4017256152,
        ],
        [
            -3.4852419755,
            -0.7117968781,
            -1.5555063910,
            0.1744710879,
            7.5317888652,
            -10.8421993158,
        ],
    ),
    (
        0.5,
        [
            -10.0,
            2.0,
            -26.4303569414,
            -16.1585541437,
            59.1246117975,
            43.0249223596,
        ],
        [
            -4.3431457505,
            -7.1715728753,
            -1.2264973081,
            -2.6698729811,
            -17.1246117975,
            -19.0249223596,
        ],
    ),
];

#[test]
fn gradients_of_distances() {
    let inputs = [
        dense(&[3, 2], F64, &apart(6)),
        dense(&[2, 2], F64, &[0.3, -0.7, 1.1, 0.6]),
    ];
    for p in [2.0, 1.0, 3.0, 1.5] {
        differentiable(&inputs, &move |v| v[0].cdist(&v[1], p));
    }
    let inputs = [0, 1].map(|i| dense(&[3, 2], F64, &POINTS[i]));
    let nine: Vec<f64> = (1..=9).map(f64::from).collect();
    for (p, of_x, of_y) in SLOPES {
        both(|| {
            let leaves = [0, 1].map(|i| inputs[i].requires_grad());
            let loss = (leaves[0].cdist(&leaves[1], p) * dense(&[3, 3], F64, &nine)).sum(..);
            let found = grad(&loss, &leaves);
            near(&found[0], &[3, 2], &of_x, 1e-8);
            near(&found[1], &[3, 2], &of_y, 1e-8);
        });
    }
    // Of order ∞ equal coordinates share the gradient.
    slopes(
        &[
            dense(&[1, 3], F64, &[3.0, -3.0, 1.0]),
            dense(&[1, 3], F64, &[0.0; 3]),
        ],
        move |v: &[Tensor]| v[0].cdist(&v[1], INF),
        &[&[0.3125, -0.3125, 0.0], &[-0.3125, 0.3125, 0.0]],
    );
}

#[test]
fn kronecker_products() {
    let (a, b) = (whole(6, 5), whole(8, 7));
    each(&NUMBERS, false, |dtype| {
        let y = dense(&[2, 4], dtype, &b);
        let want = |i: usize, j: usize| a[i / 2 * 3 + j / 4] * b[i % 2 * 4 + j % 4];
        let want: Vec<f64> = (0..48).map(|k| want(k / 12, k % 12)).collect();
        for x in forms(&[2, 3], dtype, &a) {
            let z = x.kron(&y);
            assert_eq!(z.dtype(), dtype);
            equal(&z, &[4, 12], &want);
        }
    });
    both(|| {
        let row = ints(&[1, 2]);
        equal(
            &row.kron(&dense(&[1, 2], F32, &[1.0, 2.0])),
            &[1, 4],
            &[1.0, 2.0, 2.0, 4.0],
        );
        assert_eq!(row.kron(&dense(&[1, 2], F32, &[1.0, 2.0])).dtype(), F32);
        equal(
            &Tensor::scalar(2, I64, &cpu()).kron(&row),
            &[2],
            &[2.0, 4.0],
        );
        equal(
            &Tensor::scalar(2, I64, &cpu()).kron(&Tensor::scalar(3, I64, &cpu())),
            &[],
            &[6.0],
        );
        equal(&Tensor::zeros((0, 2), F32, &cpu()).kron(&row), &[0, 4], &[]);
        let truth = dense(&[2], Bool, &[0.0, 1.0]);
        equal(&truth.kron(&truth), &[4], &[0.0, 0.0, 0.0, 1.0]);
        assert_eq!(truth.kron(&truth).dtype(), Bool);
        let endless = Tensor::ones(1, F32, &cpu()).expand(1usize << 40);
        refused(&endless.kron(&endless), "kron", &[]);
        refused(&row.matmul(&ints(&[1])).kron(&row), "matmul", &[]);
    });
    let inputs = [
        dense(&[2, 2], F64, &apart(4)),
        dense(&[3], F64, &[0.3, -0.7, 2.0]),
    ];
    differentiable(&inputs, &|v| v[0].kron(&v[1]));
}

#[test]
fn cross_products() {
    let (a, b) = (whole(12, 5), whole(24, 7)[12..].to_vec());
    let want = |i: usize, k: usize| {
        let (x, y) = (&a[3 * i..], &b[3 * i..]);
        let (j, l) = ((k + 1) % 3, (k + 2) % 3);
        x[j] * y[l] - x[l] * y[j]
    };
    let signed = [F64, F32, F16, BF16, I64, I32, I16, I8];
    let want: Vec<f64> = (0..12).map(|k| want(k / 3, k % 3)).collect();
    each(&signed, false, |dtype| {
        let y = dense(&[4, 3], dtype, &b);
        for x in forms(&[4, 3], dtype, &a) {
            let z = x.cross(&y, -1);
            assert_eq!(z.dtype(), dtype);
            equal(&z, &[4, 3], &want);
            equal(&x.t().cross(&y.t(), 0).t(), &[4, 3], &want);
        }
    });
    both(|| {
        let (x, y) = (
            dense(&[1, 3], F32, &[1.0, 2.0, 3.0]),
            dense(&[2, 3], F32, &[4.0, 5.0, 6.0, 1.0, 2.0, 3.0]),
        );
        equal(&x.cross(&y, 1), &[2, 3], &[-3.0, 6.0, -3.0, 0.0, 0.0, 0.0]);
        let bytes = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]].map(|v| dense(&[3], U8, &v));
        equal(&bytes[0].cross(&bytes[1], 0), &[3], &[253.0, 6.0, 253.0]);
        assert_eq!(ints(&[1, 2, 3]).cross(&x.squeeze(0), 0).dtype(), F32);
        let none = Tensor::zeros((0, 3), F32, &cpu());
        equal(&none.cross(&none, 1), &[0, 3], &[]);
        refused(&y.cross(&x.squeeze(0), -1), "cross", &["ranks 2 and 1"]);
        refused(&y.cross(&y, 0), "cross", &["dimension 0 of [2, 3]"]);
        refused(
            &y.cross(&y.narrow(1, 0, 1), 1),
            "cross",
            &["dimension 1 of [2, 1]"],
        );
        refused(&y.cross(&y, 2), "cross", &["dimension 2"]);
        let number = Tensor::scalar(1.0, F32, &cpu());
        refused(&number.cross(&number, 0), "cross", &["dimension 0"]);
        let truth = y.gt(0);
        refused(&truth.cross(&truth, 1), "cross", &["bool"]);
        refused(
            &y.cross(&Tensor::ones((3, 3), F32, &cpu()), 1),
            "cross",
            &["[2, 3]", "[3, 3]"],
        );
        refused(&y.matmul(&y).cross(&y, 9), "matmul", &[]);
    });
    differentiable(
        &[
            dense(&[2, 3], F64, &apart(6)),
            dense(&[1, 3], F64, &[0.3, -0.7, 2.0]),
        ],
        &|v| v[0].cross(&v[1], 1),
    );
}
