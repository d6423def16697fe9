//! Middle and most frequent values, limits that are tensors, tuples, and the inverse of pooling. Values are PyTorch's.

use super::{apart, differentiable, refused, slopes};
use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::manual_seed;
use ferrotrace::prelude::*;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

#[test]
fn middles_of_numbers() {
    let a = [
        [1.0, NAN, 3.0, 3.0, -2.0, 7.0],
        [NAN; 6],
        [2.0, 2.0, 5.0, 5.0, 1.0, NAN],
    ];
    each(&FLOATS, true, |dtype| {
        for x in forms(&[3, 6], dtype, a.as_flattened()) {
            let (middle, at) = x.nanmedian(1);
            equal(&middle, &[3], &[3.0, NAN, 2.0]);
            equal(&at, &[3], &[2.0, 0.0, 1.0]);
            assert_eq!((middle.dtype(), at.dtype()), (dtype, I64));
            let (middle, at) = x.nanmedian_keepdim(0);
            let want = [1.0, 2.0, 3.0, 3.0, -2.0, 7.0];
            equal(&middle, &[1, 6], &want);
            equal(&at, &[1, 6], &[0.0, 2.0, 0.0, 0.0, 0.0, 0.0]);
        }
    });
    both(|| {
        equal(&ints(&[4, 1, 3, 2]).nanmedian(0).0, &[], &[2.0]);
        equal(
            &Tensor::scalar(3.5, F32, &cpu()).nanmedian(0).0,
            &[],
            &[3.5],
        );
        refused(
            &Tensor::zeros([2, 0], F32, &cpu()).nanmedian(1).0,
            "nanmedian",
            &["no elements"],
        );
        refused(&ints(&[1]).ne(0).nanmedian(0).1, "nanmedian", &["bool"]);
        refused(&ints(&[1]).nanmedian(2).0, "nanmedian", &["2"]);
    });
    slopes(
        &[dense(&[4], F64, &[NAN, 1.0, 9.0, 2.0])],
        |v: &[Tensor]| v[0].nanmedian(0).0,
        &[&[0.0, 0.0, 0.0, 0.625]],
    );
}

#[test]
fn most_frequent_values() {
    let a: Vec<f64> = [[3, 1, 3, 1, 2, 9], [4, 4, 4, 1, 1, 1], [5, 4, 3, 2, 1, 0]]
        .as_flattened()
        .iter()
        .map(|&x| x.into())
        .collect();
    each(&NUMBERS, false, |dtype| {
        for x in forms(&[3, 6], dtype, &a) {
            let (value, at) = x.mode(1);
            equal(&value, &[3], &[1.0, 1.0, 0.0]);
            equal(&at, &[3], &[3.0, 5.0, 5.0]);
            assert_eq!((value.dtype(), at.dtype()), (dtype, I64));
            let (value, at) = x.mode_keepdim(0);
            equal(&value, &[1, 6], &[3.0, 4.0, 3.0, 1.0, 1.0, 0.0]);
            equal(&at, &[1, 6], &[0.0, 2.0, 2.0, 1.0, 2.0, 2.0]);
        }
    });
    both(|| {
        let x = dense(&[5], F64, &[NAN, 7.0, NAN, 7.0, 1.0]);
        equal(&x.mode(0).0, &[], &[7.0]);
        equal(&Tensor::scalar(3, I64, &cpu()).mode(-1).0, &[], &[3.0]);
        refused(
            &Tensor::zeros([0], F32, &cpu()).mode(0).0,
            "mode",
            &["no elements"],
        );
        refused(&ints(&[1]).ne(0).mode(0).0, "mode", &["bool"]);
    });
    slopes(
        &[dense(&[5], F64, &[3.0, 1.0, 3.0, 1.0, 2.0])],
        |v: &[Tensor]| v[0].mode(0).0,
        &[&[0.0, 0.0, 0.0, 0.625, 0.0]],
    );
}

#[test]
fn limits_that_are_tensors() {
    let a = [-2.0, 0.5, 3.0, NAN, 1.0, 1.0];
    let (low, high) = (
        [-1.0, 0.0, 0.0, 0.0, NAN, 1.0],
        [1.0, 1.0, 1.0, 1.0, 1.0, -1.0],
    );
    each(&FLOATS, true, |dtype| {
        let (low, high) = (dense(&[6], dtype, &low), dense(&[6], dtype, &high));
        for x in forms(&[6], dtype, &a) {
            equal(
                &x.clamp(&low, &high),
                &[6],
                &[-1.0, 0.5, 1.0, NAN, NAN, -1.0],
            );
            equal(
                &x.clamp(&low, 0.25),
                &[6],
                &[-1.0, 0.25, 0.25, NAN, NAN, 0.25],
            );
            equal(&x.clamp(-1, &high), &[6], &[-1.0, 0.5, 1.0, NAN, 1.0, -1.0]);
        }
    });
    both(|| {
        let x = ints(&[-5, 5]).unsqueeze(1);
        let most = ints(&[0, 7, 3]);
        equal(
            &x.clamp(-2, &most),
            &[2, 3],
            &[-2.0, -2.0, -2.0, 0.0, 5.0, 3.0],
        );
        assert_eq!(x.clamp(dense(&[1], F32, &[0.5]), 1).dtype(), F32);
        refused(
            &x.clamp(0, ints(&[1, 2, 3, 4]).reshape([4, 1])),
            "clamp",
            &["4"],
        );
    });
    // Equals share the slope. Factors are 0.625, 0.375, 0.3125 and 0.1875 here.
    differentiable(
        &[
            dense(&[4], F64, &apart(4)),
            dense(&[4], F64, &[-0.3; 4]),
            dense(&[4], F64, &[0.4; 4]),
        ],
        &|v: &[Tensor]| v[0].clamp(&v[1], &v[2]),
    );
}

#[test]
fn tuples() {
    both(|| {
        let (x, y) = (ints(&[1, 2]), ints(&[5, 6, 7]));
        let rows = [1.0, 5.0, 1.0, 6.0, 1.0, 7.0, 2.0, 5.0, 2.0, 6.0, 2.0, 7.0];
        equal(&Tensor::cartesian_prod(&[&x, &y]), &[6, 2], &rows);
        equal(&Tensor::cartesian_prod(&[&x]), &[2], &[1.0, 2.0]);
        let x = ints(&[1, 2, 3]);
        let twice = [1.0, 1.0, 1.0, 2.0, 1.0, 3.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0];
        equal(&x.combinations(2, true), &[6, 2], &twice);
        let x = dense(&[4], F32, &[1.0, 2.0, 3.0, 4.0]);
        let threes = [1.0, 2.0, 3.0, 1.0, 2.0, 4.0, 1.0, 3.0, 4.0, 2.0, 3.0, 4.0];
        equal(&x.combinations(3, false), &[4, 3], &threes);
        equal(&x.combinations(5, false), &[0, 5], &[]);
        equal(&x.combinations(0, false), &[0, 0], &[]);
        equal(&x.narrow(0, 0, 0).combinations(2, true), &[0, 2], &[]);
        refused(
            &x.unsqueeze(0).combinations(2, false),
            "combinations",
            &["no vector"],
        );
    });
    both(|| {
        let at = ints(&[0, 5, 23, 17]).unravel_index([2, 3, 4]);
        equal(&at[0], &[4], &[0.0, 0.0, 1.0, 1.0]);
        equal(&at[1], &[4], &[0.0, 1.0, 2.0, 1.0]);
        equal(&at[2], &[4], &[0.0, 1.0, 3.0, 1.0]);
        refused(
            &dense(&[1], F32, &[1.0]).unravel_index([2])[0],
            "unravel_index",
            &["f32"],
        );
    });
}

#[test]
fn pooled_maxima_put_back() {
    let a: Vec<f64> = (0..32).map(|i| f64::from(i * 7 % 13)).collect();
    let mut want = vec![0.0; 32];
    for (at, value) in [
        (5, 9.0),
        (7, 10.0),
        (9, 11.0),
        (11, 12.0),
        (20, 10.0),
        (22, 11.0),
    ] {
        want[at] = value;
    }
    (want[24], want[31]) = (12.0, 9.0);
    each(&FLOATS, true, |dtype| {
        for x in forms(&[1, 2, 4, 4], dtype, &a) {
            let (y, at) = x.max_pool2d_with_indices(2);
            let back = y.max_unpool2d(&at, [4, 4]);
            equal(&back, &[1, 2, 4, 4], &want);
            assert_eq!(back.dtype(), dtype);
        }
    });
    both(|| {
        let y = dense(&[2, 2], F32, &[1.0, 2.0, 3.0, 4.0]);
        let at = ints(&[1, 3, 0, 0]).reshape([2, 2]);
        equal(
            &y.max_unpool1d(&at, [4]),
            &[2, 4],
            &[0.0, 1.0, 0.0, 2.0, 4.0, 0.0, 0.0, 0.0],
        );
        let empty = Tensor::zeros([0, 1, 2], F32, &cpu());
        let none = empty.max_unpool1d(&empty.to_dtype(I64), [5]);
        equal(&none, &[0, 1, 5], &[]);
        refused(
            &y.max_unpool2d(&at, [2, 2]),
            "max_unpool2d",
            &["2 dimensions"],
        );
        refused(
            &y.max_unpool1d(&at.to_dtype(I32), [4]),
            "max_unpool1d",
            &["i32"],
        );
        refused(
            &y.max_unpool1d(&at.t().narrow(0, 0, 1), [4]),
            "max_unpool1d",
            &["indices"],
        );
        assert!(y.max_unpool1d(&(&at + 9), [4]).eval().is_err());
    });
    slopes(
        &[dense(&[1, 4], F64, &[1.0, 2.0, 3.0, 4.0])],
        |v: &[Tensor]| {
            let (y, at) = v[0].max_pool1d_with_indices(2);
            y.max_unpool1d(&at, [4]).narrow(1, 1, 1)
        },
        &[&[0.0, 0.625, 0.0, 0.0]],
    );
}

#[test]
fn losses_of_classes() {
    const NONE: Reduction = Reduction::None;
    let scores = [0.1, 0.2, 0.4, 0.8, 0.3, -1.0, 2.0, 0.5];
    both(|| {
        let x = dense(&[2, 4], F64, &scores);
        let classes = ints(&[3, 1]);
        for (p, margin, want) in [
            (1, 1.0, [0.325, 2.2]),
            (1, 0.5, [0.025, 1.825]),
            (2, 1.0, [0.1525, 6.885]),
            (2, 0.5, [0.0025, 4.8725]),
        ] {
            let of = |r| x.multi_margin_loss_reduced(&classes, p, margin, r);
            near(&of(NONE), &[2], &want, 1e-14);
            near(&of(Reduction::Sum), &[], &[want[0] + want[1]], 1e-14);
            let mean = x.multi_margin_loss(&classes, p, margin);
            near(&mean, &[], &[(want[0] + want[1]) / 2.0], 1e-14);
        }
        near(
            &x.select(0, 0)
                .multi_margin_loss(&classes.select(0, 0), 1, 1.0),
            &[],
            &[0.325],
            1e-14,
        );
        let y = dense(&[2, 4], F64, &[1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
        let want = [0.7816628619507233, 0.4421554818024573];
        near(
            &x.multilabel_soft_margin_loss_reduced(&y, NONE),
            &[2],
            &want,
            1e-15,
        );
        near(
            &x.multilabel_soft_margin_loss(&y),
            &[],
            &[0.6119091718765903],
            1e-15,
        );
        let far = dense(&[1, 2], F32, &[1000.0, -1000.0]);
        near(
            &far.multilabel_soft_margin_loss(&(&far * 0.0)),
            &[],
            &[500.0],
            1e-6,
        );
        assert_eq!(
            x.to_dtype(BF16).multi_margin_loss(&classes, 1, 1.0).dtype(),
            BF16
        );
        assert_eq!(
            ints(&[1, 2])
                .multi_margin_loss(&ints(&[1]).squeeze(0), 1, 1.0)
                .dtype(),
            F32
        );
        let name = "multi_margin_loss";
        refused(&x.multi_margin_loss(&classes, 3, 1.0), name, &["3"]);
        refused(
            &x.multi_margin_loss(&ints(&[1]), 1, 1.0),
            name,
            &["classes"],
        );
        refused(
            &x.multi_margin_loss(&classes.to_dtype(F32), 1, 1.0),
            name,
            &["f32"],
        );
        let beyond = x.multi_margin_loss(&ints(&[1, 4]), 1, 1.0);
        assert!(beyond.eval().is_err());
    });
    let x = dense(&[2, 4], F64, &scores);
    differentiable(std::slice::from_ref(&x), &|v: &[Tensor]| {
        v[0].multi_margin_loss(&ints(&[3, 1]), 2, 0.75)
    });
    differentiable(&[x.clone(), x.sigmoid()], &|v: &[Tensor]| {
        v[0].multilabel_soft_margin_loss(&v[1])
    });
}

#[test]
fn samples_of_gumbel_softmax() {
    each(&FLOATS, true, |dtype| {
        manual_seed(11);
        let logits = dense(&[3], dtype, &[2.0, 1.0, 0.0]).expand([20_000, 3]);
        let soft = logits.gumbel_softmax(1.0, false, 1);
        assert_eq!((soft.dtype(), soft.dims()), (dtype, &[20_000, 3][..]));
        near(&soft.to_dtype(F32).sum(1).max(..), &[], &[1.0], 0.02);
        let hard = logits.gumbel_softmax(0.5, true, -1).to_dtype(F64);
        assert_eq!(values(&hard.max(1)), vec![1.0; 20_000]);
        assert_eq!(values(&hard.sum(1)), vec![1.0; 20_000]);
        let e = std::f64::consts::E;
        let all = e * e + e + 1.0;
        near(
            &hard.mean(0),
            &[3],
            &[e * e / all, e / all, 1.0 / all],
            0.02,
        );
    });
    both(|| {
        let x = Tensor::zeros([2, 3], F32, &cpu());
        refused(
            &x.gumbel_softmax(0.0, false, 1),
            "gumbel_softmax",
            &["positive"],
        );
        refused(&x.gumbel_softmax(1.0, false, 2), "gumbel_softmax", &["2"]);
        refused(
            &ints(&[1]).gumbel_softmax(1.0, false, 0),
            "gumbel_softmax",
            &["i64"],
        );
        let x = x.requires_grad();
        let loss = (x.gumbel_softmax(1.0, true, 1) * dense(&[3], F32, &[1.0, 2.0, 4.0])).sum(..);
        let slope = values(&grad(&loss, &[&x])[0]);
        assert!(slope.iter().any(|x| *x != 0.0));
    });
}

#[test]
fn determinants_and_inverses_by_factors() {
    both(|| {
        let a = [4.0, 2.0, 2.0, 5.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 2.0, 4.0];
        near(
            &dense(&[3, 2, 2], F64, &a).logdet(),
            &[3],
            &[16f64.ln(), NAN, -INF],
            1e-14,
        );
        equal(&Tensor::zeros([0, 0], F64, &cpu()).logdet(), &[], &[0.0]);
        let factor = dense(
            &[3, 3],
            F64,
            &[2.0, 0.0, 0.0, 1.0, 2.0, 0.0, 0.5, -1.0, 3.0],
        );
        let want = [49.0, -22.0, -8.0, -22.0, 40.0, 8.0, -8.0, 8.0, 16.0].map(|x| x / 144.0);
        near(&factor.cholesky_inverse(), &[3, 3], &want, 1e-14);
        refused(&ints(&[1]).logdet(), "logdet", &["i64"]);
        refused(
            &dense(&[2], F32, &[1.0, 2.0]).cholesky_inverse(),
            "cholesky_inverse",
            &["matrix"],
        );
    });
    // The transposed inverse, times the factor 0.625.
    let slope = [2.0, -0.25, -0.5, 3.0].map(|x| x * 0.625 / 5.875);
    slopes(
        &[dense(&[2, 2], F64, &[3.0, 0.5, 0.25, 2.0])],
        |v: &[Tensor]| v[0].logdet(),
        &[&slope],
    );
}
