//! The least and the greatest, quantiles of what is not NaN, counts in ranges, and runs.

use super::{apart, differentiable, refused, slopes};
use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

#[test]
fn the_least_and_the_greatest() {
    let a = whole(24, 23);
    each(&NUMBERS, false, |dtype| {
        for x in forms(&[2, 3, 4], dtype, &a) {
            let alike = |y: &Tensor, want: &Tensor| {
                assert_eq!(y.dtype(), dtype);
                equal(y, want.dims(), &values(want));
            };
            alike(&x.amax([0, -1]), &x.max([0, -1]));
            alike(&x.amin(1), &x.min(1));
            alike(&x.amax_keepdim(..), &x.max_keepdim(..));
            alike(&x.amin_keepdim([1]), &x.min_keepdim([1]));
            let (least, greatest) = x.aminmax(-1);
            alike(&least, &x.min(2));
            alike(&greatest, &x.max(2));
            let (least, greatest) = x.aminmax_keepdim(0);
            alike(&least, &x.min_keepdim(0));
            alike(&greatest, &x.max_keepdim(0));
        }
    });
    both(|| {
        let (least, greatest) = dense(&[2], F32, &[1.0, NAN]).aminmax(..);
        equal(&least, &[], &[NAN]);
        equal(&greatest, &[], &[NAN]);
        equal(&Tensor::scalar(3, I64, &cpu()).amax(-1), &[], &[3.0]);
        let x = Tensor::zeros([0, 2], F32, &cpu());
        equal(&x.amax(1), &[0], &[]);
        refused(&x.amax(0), "amax", &[]);
        refused(&x.amin(..), "amin", &[]);
        refused(&x.aminmax(0).0, "aminmax", &[]);
        refused(&x.aminmax(0).1, "aminmax", &[]);
        refused(&x.amax(2), "amax", &["2"]);
        refused(&x.amin_keepdim([0, 0]), "amin", &["twice"]);
        refused(&x.aminmax_keepdim(-3).1, "aminmax", &["-3"]);
    });
    // Equals share the slope, as PyTorch's. Factors are 0.625 and 0.375.
    slopes(
        &[dense(&[2, 3], F64, &[4.0, 1.0, 4.0, 2.0, 2.0, 5.0])],
        |v: &[Tensor]| v[0].amax(1),
        &[&[0.3125, 0.0, 0.3125, 0.0, 0.0, 0.375]],
    );
    slopes(
        &[dense(&[2, 3], F64, &[4.0, 1.0, 4.0, 2.0, 2.0, 5.0])],
        |v: &[Tensor]| {
            let (least, greatest) = v[0].aminmax(-1);
            least - greatest
        },
        &[&[-0.3125, 0.625, -0.3125, 0.1875, 0.1875, -0.375]],
    );
}

/// The quantile of the numbers of a row that are not NaN.
fn quantile(row: &[f64], q: f64) -> f64 {
    let mut row: Vec<f64> = row.iter().copied().filter(|x| !x.is_nan()).collect();
    row.sort_by(f64::total_cmp);
    let Some(last) = row.len().checked_sub(1) else {
        return NAN;
    };
    let place = q * last as f64;
    let (low, high) = (row[place.floor() as usize], row[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

#[test]
fn quantiles_of_numbers() {
    // Rows of four, three, one and no numbers, and columns of others.
    let mut a = eighths(16);
    for at in [6, 8, 9, 11, 12, 13, 14, 15] {
        a[at] = NAN;
    }
    let q = [0.0, 0.3, 0.5, 1.0];
    let row = |i: usize| &a[4 * i..4 * i + 4];
    let column = |j: usize| [a[j], a[j + 4], a[j + 8], a[j + 12]];
    each(&FLOATS, true, |dtype| {
        for x in forms(&[4, 4], dtype, &a) {
            let of = |f: &dyn Fn(usize) -> f64| -> Vec<f64> { (0..4).map(f).collect() };
            let y = x.nanquantile(0.3, -1);
            assert_eq!(y.dtype(), dtype);
            near(&y, &[4], &of(&|i| quantile(row(i), 0.3)), unit(dtype));
            let want = of(&|j| quantile(&column(j), 0.5));
            near(&x.nanquantile_keepdim(0.5, 0), &[1, 4], &want, unit(dtype));
            let want: Vec<f64> = (0..16)
                .map(|k| quantile(&column(k % 4), q[k / 4]))
                .collect();
            near(&x.nanquantile(q, 0), &[4, 4], &want, unit(dtype));
            let want: Vec<f64> = (0..16).map(|k| quantile(row(k % 4), q[k / 4])).collect();
            near(&x.nanquantile_keepdim(q, 1), &[4, 4, 1], &want, unit(dtype));
        }
        // Without NaN there is no difference.
        let x = dense(&[3, 5], dtype, &eighths(15));
        near(
            &x.nanquantile(q, 1),
            &[4, 3],
            &values(&x.quantile(q, 1)),
            unit(dtype),
        );
    });
    both(|| {
        let one = Tensor::scalar(2.5, F32, &cpu());
        equal(&one.nanquantile(0.7, 0), &[], &[2.5]);
        equal(
            &dense(&[2], F32, &[NAN, NAN]).nanquantile(0.5, 0),
            &[],
            &[NAN],
        );
        let x = dense(&[3], F64, &[INF, NAN, 1.0]);
        // PyTorch's: the difference of two infinities is NaN.
        equal(&x.nanquantile([0.0, 1.0], 0), &[2], &[1.0, NAN]);
        refused(
            &ints(&[1]).nanquantile(0.5, 0),
            "nanquantile",
            &["nanquantile does not"],
        );
        refused(&x.nanquantile(1.5, 0), "nanquantile", &["1.5"]);
        refused(&x.nanquantile_keepdim(0.5, 1), "nanquantile", &["1"]);
        refused(
            &x.narrow(0, 0, 0).nanquantile(0.5, 0),
            "nanquantile",
            &["[0]"],
        );
    });
    differentiable(&[dense(&[3, 4], F64, &apart(12))], &|v| {
        v[0].nanquantile([0.3, 0.8], 1)
    });
    // PyTorch's: a row of numbers 1, 2, 4 and one of none.
    slopes(
        &[dense(
            &[2, 4],
            F64,
            &[4.0, NAN, 1.0, 2.0, NAN, NAN, NAN, NAN],
        )],
        |v: &[Tensor]| v[0].nanquantile(0.75, 1).nan_to_num(0.0, 0.0, 0.0),
        &[&[0.3125, 0.0, 0.0, 0.3125, 0.0, 0.0, 0.0, 0.0]],
    );
}

#[test]
fn sorted_rows() {
    let a = whole(12, 7);
    let mut columns: Vec<Vec<f64>> = (0..4).map(|j| vec![a[j], a[j + 4], a[j + 8]]).collect();
    columns.iter_mut().for_each(|c| c.sort_by(f64::total_cmp));
    let want: Vec<f64> = (0..12).map(|k| columns[k % 4][k / 4]).collect();
    each(&NUMBERS, true, |dtype| {
        for x in forms(&[3, 4], dtype, &a) {
            assert_eq!(x.msort().dtype(), dtype);
            equal(&x.msort(), &[3, 4], &want);
        }
    });
    both(|| {
        equal(&Tensor::scalar(3, I64, &cpu()).msort(), &[], &[3.0]);
        equal(&Tensor::zeros([0, 2], F32, &cpu()).msort(), &[0, 2], &[]);
        equal(
            &dense(&[3], F32, &[NAN, 2.0, -INF]).msort(),
            &[3],
            &[-INF, 2.0, NAN],
        );
        let x = Tensor::ones([2, 3], F32, &cpu());
        refused(&x.matmul(&x).msort(), "matmul", &[]);
    });
    differentiable(&[dense(&[3, 4], F64, &apart(12))], &|v| {
        v[0].msort().square()
    });
}

#[test]
fn counts_in_equal_parts() {
    let a = eighths(60);
    let count = |low: f64, high: f64, bins: usize| {
        let mut counts = vec![0.0; bins];
        for x in a.iter().filter(|x| (low..=high).contains(*x)) {
            let part = ((x - low) / (high - low) * bins as f64) as usize;
            counts[part.min(bins - 1)] += 1.0;
        }
        counts
    };
    each(&FLOATS, true, |dtype| {
        for x in forms(&[3, 4, 5], dtype, &a) {
            for (bins, low, high) in [(4, -1.0, 1.0), (7, -1.75, 1.75), (1, 0.0, 0.5)] {
                let counts = x.histc(bins, low, high);
                assert_eq!(counts.dtype(), dtype);
                equal(&counts, &[bins], &count(low, high, bins));
            }
            let (low, high) = a.iter().fold((INF, -INF), |(l, h), x| (x.min(l), x.max(h)));
            equal(&x.histc(5, 0, 0), &[5], &count(low, high, 5));
        }
    });
    // PyTorch's.
    both(|| {
        let x = dense(&[5], F32, &[0.1, 0.2, 0.3, 0.7, 0.9]);
        let counts = [0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0];
        equal(&x.histc(10, 0, 1), &[10], &counts);
        let x = dense(&[8], F32, &[0.0, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, NAN]);
        equal(&x.histc(4, 0, 4), &[4], &[1.0, 2.0, 1.0, 2.0]);
        equal(&x.histc(3, 1, 2), &[3], &[1.0, 1.0, 1.0]);
        let of = |x: &[f64]| dense(&[x.len()], F32, x);
        equal(&of(&[2.0, 2.0]).histc(3, 0, 0), &[3], &[0.0, 2.0, 0.0]);
        equal(&of(&[]).histc(3, 0, 0), &[3], &[0.0, 0.0, 0.0]);
        equal(&of(&[1.0, 2.0]).histc(3, 1, 1), &[3], &[0.0, 1.0, 1.0]);
        equal(&of(&[0.0, 3.0]).histc(3, 3, 3), &[3], &[0.0, 1.0, 0.0]);
        equal(&of(&[INF, -INF, 1.0]).histc(2, 0, 1), &[2], &[0.0, 1.0]);
        equal(
            &Tensor::scalar(1.0, F32, &cpu()).histc(3, 0, 2),
            &[3],
            &[0.0, 1.0, 0.0],
        );
        refused(&x.histc(3, 2, 1), "histc", &["2 to 1"]);
        refused(&x.histc(3, 0, INF), "histc", &["inf"]);
        refused(&x.histc(3, 0, 0), "histc", &["NaN"]);
        refused(&of(&[1.0, INF]).histc(3, 0, 0), "histc", &["inf"]);
        refused(&x.histc(0, 0, 1), "histc", &["0 bins"]);
        refused(&ints(&[1]).histc(3, 0, 1), "histc", &["i64"]);
    });
}

#[test]
fn buckets() {
    let (a, edges) = (whole(12, 9), [1.0, 3.0, 3.0, 6.0]);
    let place = |x: f64, right: bool| {
        let before = |edge: &&f64| if right { **edge <= x } else { **edge < x };
        edges.iter().filter(before).count() as f64
    };
    each(&NUMBERS, true, |dtype| {
        for edges in [dense(&[4], dtype, &edges), dense(&[4], F64, &edges)] {
            for x in forms(&[3, 4], dtype, &a) {
                for right in [false, true] {
                    let want: Vec<f64> = a.iter().map(|x| place(*x, right)).collect();
                    let found = x.bucketize(&edges, right);
                    assert_eq!(found.dtype(), I64);
                    equal(&found, &[3, 4], &want);
                }
            }
        }
    });
    both(|| {
        // Between whole numbers, an integer stays where it is.
        let halves = dense(&[2], F32, &[0.5, 1.5]);
        equal(
            &ints(&[0, 1, 2]).bucketize(&halves, false),
            &[3],
            &[0.0, 1.0, 2.0],
        );
        let one = Tensor::scalar(1.0, F32, &cpu());
        equal(&one.bucketize(&halves, true), &[], &[1.0]);
        let x = dense(&[3], F32, &[NAN, INF, -INF]);
        equal(&x.bucketize(&halves, false), &[3], &[2.0, 2.0, 0.0]);
        let none = Tensor::zeros(0, F32, &cpu());
        equal(&x.bucketize(&none, false), &[3], &[0.0, 0.0, 0.0]);
        equal(&none.bucketize(&halves, false), &[0], &[]);
        refused(
            &x.bucketize(&halves.unsqueeze(0), false),
            "bucketize",
            &["[1, 2]"],
        );
        refused(&x.bucketize(&one, false), "bucketize", &["[]"]);
        refused(&x.matmul(&halves).bucketize(&halves, false), "matmul", &[]);
    });
}

#[test]
fn runs_of_equals() {
    let a = [2.0, 2.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 2.0, 2.0, 2.0, 2.0];
    each(&NUMBERS, true, |dtype| {
        for x in forms(&[3, 4], dtype, &a) {
            let (found, inverse, counts) = x.unique_consecutive_with_counts();
            assert_eq!(
                (found.dtype(), inverse.dtype(), counts.dtype()),
                (dtype, I64, I64)
            );
            equal(&found, &[5], &[2.0, 0.0, 1.0, 0.0, 2.0]);
            let at = [0.0, 0.0, 1.0, 2.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 4.0, 4.0];
            equal(&inverse, &[3, 4], &at);
            equal(&counts, &[5], &[2.0, 1.0, 3.0, 2.0, 4.0]);
            equal(&x.unique_consecutive(), &[5], &[2.0, 0.0, 1.0, 0.0, 2.0]);
        }
    });
    both(|| {
        let truths = ints(&[1, 1, 0]).ne(0);
        equal(&truths.unique_consecutive(), &[2], &[1.0, 0.0]);
        let x = dense(&[4], F32, &[NAN, NAN, 1.0, 1.0]);
        equal(&x.unique_consecutive(), &[3], &[NAN, NAN, 1.0]);
        let (found, at, counts) = Tensor::scalar(3, I64, &cpu()).unique_consecutive_with_counts();
        equal(&found, &[1], &[3.0]);
        equal(&at, &[], &[0.0]);
        equal(&counts, &[1], &[1.0]);
        let none = Tensor::zeros([0, 2], F32, &cpu());
        let (found, at, counts) = none.unique_consecutive_with_counts();
        equal(&found, &[0], &[]);
        equal(&at, &[0, 2], &[]);
        equal(&counts, &[0], &[]);
        let lost = none.matmul(&none);
        refused(&lost.unique_consecutive(), "matmul", &[]);
        refused(&lost.unique_consecutive_with_counts().2, "matmul", &[]);
    });
}
