//! Medians, quantiles, moments in pairs, and membership.

use super::{apart, differentiable, refused, slopes};
use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::Quantiles;
use ferrotrace::prelude::*;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// The lower of two elements in the middle, and where it is.
fn middle(row: &[f64]) -> (f64, f64) {
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|&i, &j| row[i].total_cmp(&row[j]));
    let at = order[(row.len() - 1) / 2];
    (row[at], at as f64)
}

#[test]
fn medians() {
    // Values repeat.
    let a = whole(20, 7);
    let rows: Vec<(f64, f64)> = (0..4).map(|i| middle(&a[5 * i..][..5])).collect();
    let columns = (0..5).map(|j| middle(&[a[j], a[j + 5], a[j + 10], a[j + 15]]));
    let columns: Vec<(f64, f64)> = columns.collect();
    let parts = |of: &[(f64, f64)]| -> (Vec<f64>, Vec<f64>) { of.iter().copied().unzip() };
    let ((rows, row_at), (columns, column_at)) = (parts(&rows), parts(&columns));
    each(&NUMBERS, true, |dtype| {
        for x in forms(&[4, 5], dtype, &a) {
            let (values, at) = x.median(-1);
            assert_eq!((values.dtype(), at.dtype()), (dtype, I64));
            equal(&values, &[4], &rows);
            equal(&at, &[4], &row_at);
            let (values, at) = x.median_keepdim(0);
            equal(&values, &[1, 5], &columns);
            equal(&at, &[1, 5], &column_at);
        }
    });
    both(|| {
        // PyTorch's positions of equals.
        for (row, value, at) in [
            (&[3, 1, 2, 2][..], 2.0, 2.0),
            (&[2, 2, 2, 2, 1], 2.0, 1.0),
            (&[2, 1, 2, 1, 2, 1], 1.0, 5.0),
            (&[7, 7, 7, 1, 9], 7.0, 1.0),
        ] {
            let (values, found) = ints(row).median(0);
            equal(&values, &[], &[value]);
            equal(&found, &[], &[at]);
        }
        let x = dense(&[2, 4], F32, &[3.0, NAN, 2.0, NAN, INF, -INF, 0.0, INF]);
        let (values, at) = x.median(1);
        equal(&values, &[2], &[NAN, 0.0]);
        equal(&at, &[2], &[1.0, 2.0]);
        let number = Tensor::scalar(3.0, F32, &cpu());
        for (values, at) in [number.median(0), number.median_keepdim(-1)] {
            equal(&values, &[], &[3.0]);
            equal(&at, &[], &[0.0]);
        }
        let none = Tensor::zeros((0, 2), F32, &cpu());
        equal(&none.median(1).0, &[0], &[]);
        for failed in [none.median(0), none.median_keepdim(0)] {
            refused(&failed.0, "median", &["dimension 0 of [0, 2]"]);
            refused(&failed.1, "median", &["dimension 0 of [0, 2]"]);
        }
        refused(&none.median(2).1, "median", &["dimension 2"]);
        refused(&x.gt(0).median(1).0, "median", &["bool"]);
        refused(&x.matmul(&none).median(7).1, "matmul", &[]);
    });
}

/// The gradient goes to the element at the position, NaN or not, as PyTorch's.
#[test]
fn gradients_of_medians() {
    differentiable(&[dense(&[3, 4], F64, &apart(12))], &|v| {
        v[0].median(1).0.square()
    });
    let x = [dense(&[5], F64, &[5.0, 1.0, NAN, 2.0, NAN])];
    slopes(
        &x,
        move |v: &[Tensor]| v[0].median(0).0,
        &[&[0.0, 0.0, 0.625, 0.0, 0.0]],
    );
    let x = [dense(&[1, 4], F64, &[3.0, 1.0, 2.0, 2.0])];
    slopes(
        &x,
        move |v: &[Tensor]| v[0].median_keepdim(1).0,
        &[&[0.0, 0.0, 0.625, 0.0]],
    );
    let x = [Tensor::scalar(2.0, F64, &cpu())];
    slopes(&x, move |v: &[Tensor]| v[0].median(0).0, &[&[0.625]]);
}

fn quantile(row: &[f64], q: f64) -> f64 {
    let mut row = row.to_vec();
    row.sort_by(f64::total_cmp);
    let place = q * (row.len() - 1) as f64;
    let (low, high) = (row[place.floor() as usize], row[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

const QS: [f64; 6] = [0.0, 0.1, 0.5, 2.0 / 3.0, 0.95, 1.0];

#[test]
fn quantiles() {
    let a = eighths(20);
    let of_row = |i: usize, q: f64| quantile(&a[5 * i..][..5], q);
    let of_column = |j: usize, q: f64| quantile(&[a[j], a[j + 5], a[j + 10], a[j + 15]], q);
    let all: Vec<f64> = QS
        .iter()
        .flat_map(|&q| (0..4).map(move |i| of_row(i, q)))
        .collect();
    let down: Vec<f64> = QS
        .iter()
        .flat_map(|&q| (0..5).map(move |j| of_column(j, q)))
        .collect();
    each(&FLOATS, true, |dtype| {
        for x in forms(&[4, 5], dtype, &a) {
            let near = |x: &Tensor, dims: &[usize], want: &[f64]| {
                assert_eq!(x.dtype(), dtype);
                near(x, dims, want, unit(dtype));
            };
            near(&x.quantile(QS, -1), &[6, 4], &all);
            near(&x.quantile_keepdim(&QS[..], 1), &[6, 4, 1], &all);
            near(&x.quantile(QS.to_vec(), 0), &[6, 5], &down);
            near(&x.quantile_keepdim(&QS, 0), &[6, 1, 5], &down);
            near(&x.quantile(QS[3], 0), &[5], &down[15..20]);
            near(&x.quantile_keepdim(0.1, 1), &[4, 1], &all[4..8]);
            near(&x.quantile(0.5f32, 1), &[4], &all[8..12]);
            // Over several dimensions: over their elements in one row.
            let whole: Vec<f64> = QS.iter().map(|&q| quantile(&a, q)).collect();
            near(&x.quantile(QS, ..), &[6], &whole);
            near(
                &x.reshape([2, 2, 5])
                    .transpose(0, 2)
                    .quantile_keepdim(QS, [2, 0, 1]),
                &[6, 1, 1, 1],
                &whole,
            );
            let pairs = x.reshape([2, 2, 5]);
            near(
                &pairs.quantile(QS[3], [0, 2]),
                &[2],
                &[
                    quantile(&[&a[..5], &a[10..15]].concat(), QS[3]),
                    quantile(&[&a[5..10], &a[15..]].concat(), QS[3]),
                ],
            );
        }
    });
    both(|| {
        // PyTorch's, where elements are infinite or NaN.
        let of = |row: &[f64], q: f64| dense(&[row.len()], F32, row).quantile(q, 0);
        equal(&of(&[1.0, NAN, 2.0], 0.0), &[], &[NAN]);
        equal(&of(&[1.0, INF], 0.0), &[], &[1.0]);
        equal(&of(&[1.0, INF], 0.25), &[], &[INF]);
        equal(&of(&[-INF, 1.0, INF], 0.5), &[], &[1.0]);
        equal(&of(&[-INF, 1.0, INF], 0.25), &[], &[-INF]);
        let rows = dense(&[2, 2], F64, &[1.0, NAN, 2.0, 4.0]);
        equal(&rows.quantile(0.5, 1), &[2], &[NAN, 3.0]);
        equal(
            &rows.quantile([0.5, 1.0], 1),
            &[2, 2],
            &[NAN, 3.0, NAN, 4.0],
        );
        let number = Tensor::scalar(3.0, F32, &cpu());
        equal(&number.quantile(0.3, 0), &[], &[3.0]);
        equal(&number.quantile_keepdim(0.3, -1), &[], &[3.0]);
        equal(&number.quantile([0.3, 0.4], 0), &[2], &[3.0, 3.0]);
        equal(&rows.quantile(Vec::<f64>::new(), 1), &[0, 2], &[]);
        let none = Tensor::zeros((0, 2), F32, &cpu());
        refused(&none.quantile(0.5, 0), "quantile", &["[0, 2]"]);
        refused(&none.quantile_keepdim([0.5], 1), "quantile", &["[0, 2]"]);
        for q in [-0.1, 1.5, NAN] {
            refused(&rows.quantile(q, 0), "quantile", &["[0, 1]"]);
            refused(&rows.quantile([0.5, q], 0), "quantile", &["[0, 1]"]);
        }
        refused(&rows.quantile(0.5, 2), "quantile", &["dimension 2"]);
        refused(&ints(&[1]).quantile(0.5, 0), "quantile", &["i64"]);
        refused(&rows.gt(0).quantile(0.5, 0), "quantile", &["bool"]);
        refused(&none.matmul(&none).quantile(2.0, 0), "matmul", &[]);
    });
    assert_eq!(Quantiles::from(0.5f32), Quantiles::from(0.5f64));
}

#[test]
fn gradients_of_quantiles() {
    let x = dense(&[3, 4], F64, &apart(12));
    differentiable(std::slice::from_ref(&x), &|v| {
        v[0].quantile(0.4, 1).square()
    });
    differentiable(&[x], &|v| v[0].quantile_keepdim([0.0, 0.7, 1.0], 0));
    // PyTorch's, also among equals: 0.2 of the second of them.
    let times = |w: [f64; 4]| w.map(|w| w * 0.625);
    let x = [dense(&[4], F64, &[5.0, 1.0, 4.0, 2.0])];
    slopes(
        &x,
        move |v: &[Tensor]| v[0].quantile(0.4, 0),
        &[&times([0.0, 0.0, 0.2, 0.8])],
    );
}

#[test]
fn deviations_with_means() {
    let a = eighths(12);
    let moments = |row: &[f64], correction: f64| {
        let n = row.len() as f64;
        let mean = row.iter().sum::<f64>() / n;
        let sum: f64 = row.iter().map(|x| (x - mean).powi(2)).sum();
        ((sum / (n - correction)).sqrt(), mean)
    };
    each(&FLOATS, false, |dtype| {
        for x in forms(&[3, 4], dtype, &a) {
            for correction in [0, 1] {
                let of_row = |i: usize| moments(&a[4 * i..][..4], correction as f64);
                let (stds, means): (Vec<f64>, Vec<f64>) = (0..3).map(of_row).unzip();
                let (std, mean) = x.std_mean(-1, correction);
                assert_eq!((std.dtype(), mean.dtype()), (dtype, dtype));
                near(&std, &[3], &stds, unit(dtype));
                near(&mean, &[3], &means, unit(dtype));
                let (std, mean) = x.std_mean_keepdim(1, correction);
                near(&std, &[3, 1], &stds, unit(dtype));
                near(&mean, &[3, 1], &means, unit(dtype));
                let (std, mean) = x.std_mean(.., correction);
                let (all, middle) = moments(&a, correction as f64);
                near(&std, &[], &[all], unit(dtype));
                near(&mean, &[], &[middle], unit(dtype));
            }
        }
    });
    both(|| {
        let number = Tensor::scalar(3.0, F32, &cpu());
        equal(&number.std_mean(0, 0).0, &[], &[0.0]);
        equal(&number.std_mean(0, 1).0, &[], &[NAN]);
        let none = Tensor::zeros((2, 0), F32, &cpu());
        equal(&none.std_mean(1, 0).1, &[2], &[NAN, NAN]);
        for (failed, name) in [
            (ints(&[1]).std_mean(0, 1), "std_mean"),
            (ints(&[1]).std_mean_keepdim(0, 1), "std_mean"),
            (ints(&[1]).var_mean(0, 1), "var_mean"),
            (ints(&[1]).var_mean_keepdim(0, 1), "var_mean"),
        ] {
            for failed in [failed.0, failed.1] {
                refused(&failed, name, &["i64"]);
            }
        }
        refused(&none.std_mean(2, 1).0, "std_mean", &["dimension 2"]);
        refused(&none.std_mean_keepdim(2, 1).1, "std_mean", &["dimension 2"]);
        refused(&none.matmul(&none).std_mean(5, 1).1, "matmul", &[]);
    });
    differentiable(&[dense(&[2, 3], F64, &apart(6))], &|v| {
        let (std, mean) = v[0].std_mean(1, 1);
        std * mean
    });
}

#[test]
fn members() {
    let a = whole(12, 20);
    // Few are compared one by one, many are searched.
    for m in [1, 3, 32, 33, 100] {
        let tests: Vec<f64> = whole(m, 41).iter().map(|v| v + 5.0).collect();
        let want: Vec<f64> = a
            .iter()
            .map(|v| f64::from(u8::from(tests.contains(v))))
            .collect();
        each(&NUMBERS, false, |dtype| {
            let set = dense(&[m], dtype, &tests);
            for x in forms(&[3, 4], dtype, &a) {
                let found = x.isin(&set);
                assert_eq!(found.dtype(), Bool);
                equal(&found, &[3, 4], &want);
            }
        });
    }
    both(|| {
        for m in [2, 40] {
            let set = |first: &[f64], dtype| {
                let mut all = vec![first[0]; m];
                all[..first.len()].copy_from_slice(first);
                dense(&[m / 2, 2], dtype, &all)
            };
            let x = dense(&[4], F32, &[1.0, NAN, INF, -0.0]);
            equal(&x.isin(&set(&[NAN, 1.0], F32)), &[4], &[1.0, 0.0, 0.0, 0.0]);
            equal(&x.isin(&set(&[INF, 0.0], F32)), &[4], &[0.0, 0.0, 1.0, 1.0]);
            equal(
                &ints(&[1, 2]).isin(&set(&[1.5, 1.0], F32)),
                &[2],
                &[1.0, 0.0],
            );
            // Both become F32, which does not hold 2²⁴ + 1.
            equal(
                &ints(&[16777217]).isin(&set(&[16777216.0], F32)),
                &[1],
                &[1.0],
            );
            equal(
                &ints(&[16777217]).isin(&set(&[16777216.0], I64)),
                &[1],
                &[0.0],
            );
            let truth = dense(&[2], Bool, &[0.0, 1.0]);
            equal(&truth.isin(&set(&[1.0, 1.0], Bool)), &[2], &[0.0, 1.0]);
            equal(
                &Tensor::scalar(3, I64, &cpu()).isin(&set(&[2.0, 3.0], I64)),
                &[],
                &[1.0],
            );
            equal(
                &Tensor::zeros((0, 2), F32, &cpu()).isin(&set(&[0.0], F32)),
                &[0, 2],
                &[],
            );
        }
        let none = Tensor::zeros(0, I64, &cpu());
        equal(&ints(&[0, 1]).isin(&none), &[2], &[0.0, 0.0]);
        equal(
            &ints(&[5, 1]).isin(&Tensor::scalar(5, I64, &cpu())),
            &[2],
            &[1.0, 0.0],
        );
        let x = Tensor::ones((2, 3), F32, &cpu());
        refused(&x.isin(&x.matmul(&x)), "matmul", &[]);
        refused(&x.matmul(&x).isin(&x), "matmul", &[]);
    });
}
