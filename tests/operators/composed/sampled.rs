//! Convolutions of vectors, interpolation, polynomials, and counts of pairs. Values are NumPy's.

use super::{apart, differentiable, refused};
use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// Σ x[j + k]·v[j] for each k at which both overlap.
fn correlation(x: &[f64], v: &[f64]) -> Vec<f64> {
    let (n, m) = (x.len() as isize, v.len() as isize);
    let at = |k: isize| -> f64 {
        let pairs = (0..m).filter(|j| (0..n).contains(&(j + k)));
        pairs.map(|j| x[(j + k) as usize] * v[j as usize]).sum()
    };
    (1 - m..n).map(at).collect()
}

fn backwards(x: &[f64]) -> Vec<f64> {
    x.iter().rev().copied().collect()
}

#[test]
fn vectors_slid_along_each_other() {
    let lengths = [(5, 3), (3, 5), (5, 2), (2, 5), (5, 1), (4, 4), (9, 4)];
    each(&NUMBERS, false, |dtype| {
        for (n, m) in lengths {
            let (a, b) = (whole(n, 4), whole(n + m, 4)[n..].to_vec());
            let v = dense(&[m], dtype, &b);
            let full = correlation(&a, &backwards(&b));
            for x in forms(&[n], dtype, &a) {
                equal(&x.convolve(&v, "full"), &[n + m - 1], &full);
                let (most, least) = (n.max(m), n.min(m));
                let same = &full[(least - 1) / 2..][..most];
                equal(&x.convolve(&v, "same"), &[most], same);
                let valid = &full[least - 1..][..most - least + 1];
                equal(&x.convolve(&v, "valid"), &[most - least + 1], valid);
                let full = correlation(&a, &b);
                equal(&x.correlate(&v, "full"), &[n + m - 1], &full);
                let valid = &full[least - 1..][..most - least + 1];
                equal(&x.correlate(&v, "valid"), &[most - least + 1], valid);
                assert_eq!(x.correlate(&v, "same").dtype(), dtype);
            }
        }
    });
    both(|| {
        let x = dense(&[5], F64, &[1.0, 2.0, 3.0, 4.0, 5.0]);
        let v = dense(&[3], F64, &[0.5, -1.0, 2.0]);
        let same = |a: &Tensor, b: &Tensor, want: &[f64]| {
            equal(&a.correlate(b, "same"), &[want.len()], want);
        };
        same(&x, &v, &[3.0, 4.5, 6.0, 7.5, -3.0]);
        same(&v, &x, &[-3.0, 7.5, 6.0, 4.5, 3.0]);
        same(&x, &v.at(..2), &[-1.0, -1.5, -2.0, -2.5, -3.0]);
        same(&v.at(..2), &x, &[-3.0, -2.5, -2.0, -1.5, -1.0]);
        same(&v, &v, &[-2.5, 5.25, -2.5]);
        assert_eq!(ints(&[1]).convolve(&v, "full").dtype(), F64);
    });
    both(|| {
        let x = dense(&[3], F32, &[1.0, 2.0, 3.0]);
        refused(&x.convolve(&x, "all"), "convolve", &["\"all\"", "valid"]);
        refused(
            &x.convolve(&x.unsqueeze(0), "full"),
            "convolve",
            &["[1, 3]"],
        );
        refused(
            &x.correlate(&x.at(..0), "full"),
            "correlate",
            &["no elements"],
        );
        refused(&x.gt(0).convolve(&x.gt(0), "full"), "convolve", &["bool"]);
    });
    let inputs = [
        dense(&[5], F64, &apart(5)),
        dense(&[3], F64, &apart(9)[6..]),
    ];
    differentiable(&inputs, &|v| v[0].convolve(&v[1], "same"));
    differentiable(&inputs, &|v| v[1].correlate(&v[0], "full"));
}

#[test]
fn values_between_places() {
    let at = [0.0, 1.0, 1.5, 2.5, 4.0, 5.0];
    let want = [3.0, 3.0, 2.5, 1.5, 0.0, 0.0];
    each(&FLOATS, true, |dtype| {
        let (xp, fp) = (
            dense(&[3], dtype, &[1.0, 2.0, 4.0]),
            dense(&[3], dtype, &[3.0, 2.0, 0.0]),
        );
        for x in forms(&[2, 3], dtype, &at) {
            near(&x.interp(&xp, &fp), &[2, 3], &want, unit(dtype));
            assert_eq!(x.interp(&xp, &fp).dtype(), dtype);
        }
        let beyond = dense(&[3], dtype, &[NAN, INF, -INF]);
        equal(&beyond.interp(&xp, &fp), &[3], &[NAN, 0.0, 3.0]);
    });
    both(|| {
        let of = |x: &[f64]| dense(&[x.len()], F64, x);
        let y = of(&[0.0, 1.0, 2.0]).interp(&of(&[1.0]), &of(&[7.0]));
        equal(&y, &[3], &[7.0; 3]);
        let y = of(&[1.0, 1.5, 2.5, 3.5])
            .interp(&of(&[1.0, 2.0, 3.0, 4.0]), &of(&[0.0, INF, INF, 1.0]));
        equal(&y, &[4], &[0.0, INF, INF, INF]);
        let y = of(&[2.0, 2.5]).interp(&of(&[1.0, 2.0, 3.0]), &of(&[NAN, 1.0, 3.0]));
        equal(&y, &[2], &[1.0, 2.0]);
        let y = Tensor::scalar(3, I64, &cpu()).interp(&ints(&[2, 4]), &ints(&[1, 4]));
        equal(&y, &[], &[2.5]);
        assert_eq!(y.dtype(), F32);
        equal(
            &of(&[]).interp(&of(&[1.0, 2.0]), &of(&[0.0, 1.0])),
            &[0],
            &[],
        );
        let (two, none) = (of(&[1.0, 2.0]), of(&[]));
        refused(&two.interp(&two, &of(&[1.0])), "interp", &["1 values", "2"]);
        refused(&two.interp(&none, &none), "interp", &["0"]);
        refused(&two.interp(&two.unsqueeze(0), &two), "interp", &["[1, 2]"]);
    });
    let inputs = [
        dense(&[3], F64, &[-0.4, 0.3, 1.9]),
        dense(&[3], F64, &[-1.0, 0.1, 1.2]),
        dense(&[3], F64, &apart(3)),
    ];
    differentiable(&inputs, &|v| v[0].interp(&v[1], &v[2]));
}

#[test]
fn polynomials() {
    each(&FLOATS, true, |dtype| {
        let p = dense(&[3], dtype, &[2.0, -1.0, 0.5]);
        for x in forms(&[2, 2], dtype, &[0.0, 1.0, -2.0, 3.0]) {
            let y = p.polyval(&x);
            equal(&y, &[2, 2], &[0.5, 1.5, 10.5, 15.5]);
            assert_eq!(y.dtype(), dtype);
        }
    });
    both(|| {
        let p = ints(&[3, 0, 1]);
        equal(&p.polyval(&ints(&[5, -1])), &[2], &[76.0, 4.0]);
        assert_eq!(p.polyval(&ints(&[5])).dtype(), I64);
        equal(&ints(&[]).polyval(&ints(&[5, 1])), &[2], &[0.0; 2]);
        equal(
            &ints(&[7]).polyval(&dense(&[2], F32, &[NAN, 1.0])),
            &[2],
            &[7.0; 2],
        );
        equal(&p.polyval(&Tensor::scalar(2.0, F32, &cpu())), &[], &[13.0]);
        refused(&p.unsqueeze(0).polyval(&p), "polyval", &["[1, 3]"]);
    });
    differentiable(
        &[
            dense(&[3], F64, &apart(3)),
            dense(&[2], F64, &apart(5)[3..]),
        ],
        &|v| v[0].polyval(&v[1]),
    );
}

#[test]
fn fitted_polynomials() {
    let y = [0.0, 0.8, 0.9, 0.1, -0.8, -1.0];
    let cubic = [
        0.08703703703703655,
        -0.8134920634920602,
        1.6931216931216868,
        -0.0396825396825359,
    ];
    both(|| {
        for (dtype, tolerance) in [(F64, 1e-12), (F32, 1e-4)] {
            let x = Tensor::arange(0, 6, 1, dtype, &cpu());
            for y in forms(&[6], dtype, &y) {
                near(&x.polyfit(&y, 3), &[4], &cubic, tolerance);
                near(&x.polyfit(&y, 0), &[1], &[0.0], tolerance);
            }
            let two = Tensor::stack(&[&dense(&[6], dtype, &y), &(&x * 2 + 1)], 1);
            let want = [-0.3028571428571428, 2.0, 0.7571428571428571, 1.0];
            near(&x.polyfit(&two, 1), &[2, 2], &want, tolerance);
        }
        let x = Tensor::arange(0, 6, 1, F64, &cpu());
        refused(&x.polyfit(&x, 6), "polyfit", &["6 places", "degree 6"]);
        refused(&x.polyfit(&x.at(..5), 1), "polyfit", &["[5]"]);
        let whole = x.to_dtype(I64);
        near(&whole.polyfit(&(&whole * 3), 1), &[2], &[3.0, 0.0], 1e-5);
        assert_eq!(whole.polyfit(&whole, 1).dtype(), F32);
        let half = x.to_dtype(F16);
        refused(&half.polyfit(&half, 1), "polyfit", &["f16"]);
    });
    differentiable_in_double(&y);
}

/// Coefficients are linear in the values: those of values one by one add up.
fn differentiable_in_double(y: &[f64]) {
    both(|| {
        let x = Tensor::arange(0, 6, 1, F64, &cpu());
        let leaf = dense(&[6], F64, y).requires_grad();
        let slope = grad(&x.polyfit(&leaf, 2).at(1), &[&leaf]).remove(0);
        let want = x.polyfit(&Tensor::eye(6, F64, &cpu()), 2).at(1);
        near(&slope, &[6], &values(&want), 1e-11);
    });
}

#[test]
fn counted_pairs() {
    let (a, b) = (
        [0.0, 1.0, 2.0, 3.0, 3.0, 0.5, -1.0, NAN],
        [0.0, 2.0, 2.0, 4.0, 1.0, 4.5, 0.0, 1.0],
    );
    each(&FLOATS, true, |dtype| {
        let y = dense(&[8], dtype, &b);
        for x in forms(&[8], dtype, &a) {
            let ranges = [(0.0, 3.0), (0.0, 4.0)];
            let (counts, rows, columns) = x.histogram2d(&y, [3, 2], Some(ranges));
            equal(&counts, &[3, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 2.0]);
            equal(&rows, &[4], &[0.0, 1.0, 2.0, 3.0]);
            equal(&columns, &[3], &[0.0, 2.0, 4.0]);
            assert_eq!(counts.dtype(), dtype);
        }
    });
    both(|| {
        let x = dense(&[5], F64, &[0.0, 1.0, 2.0, 3.0, 3.0]);
        let (counts, _, columns) = x.histogram2d(&x.full_like(5), [3, 2], None);
        equal(&counts, &[3, 2], &[0.0, 1.0, 0.0, 1.0, 0.0, 3.0]);
        equal(&columns, &[3], &[4.5, 5.0, 5.5]);
        let none = x.at(..0);
        let (counts, rows, _) = none.histogram2d(&none, [1, 2], None);
        equal(&counts, &[1, 2], &[0.0; 2]);
        equal(&rows, &[2], &[-0.5, 0.5]);
        let bad = x.histogram2d(&x.at(1..), [1, 1], None);
        refused(&bad.0, "histogram2d", &["[5]", "[4]"]);
        refused(
            &x.histogram2d(&x, [1, 0], None).1,
            "histogram2d",
            &["0 bins"],
        );
        let whole = ints(&[1]);
        refused(
            &whole.histogram2d(&whole, [1, 1], None).2,
            "histogram2d",
            &["i64"],
        );
    });
}
