//! Scales of powers, places of triangles and windows.

use super::refused;
use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;
use std::f64::consts::PI;

type Window = fn(usize, bool, DType, &Device) -> Tensor;

/// A window's numbers from the position in whole turns.
type Formula = fn(f64) -> f64;

const WINDOWS: [(Window, Formula); 4] = [
    (Tensor::hann_window, |t| 0.5 - 0.5 * (2.0 * PI * t).cos()),
    (Tensor::hamming_window, |t| {
        0.54 - 0.46 * (2.0 * PI * t).cos()
    }),
    (Tensor::blackman_window, |t| {
        0.42 - 0.5 * (2.0 * PI * t).cos() + 0.08 * (4.0 * PI * t).cos()
    }),
    (Tensor::bartlett_window, |t| 1.0 - (2.0 * t - 1.0).abs()),
];

type Function = fn(&Tensor) -> Tensor;

/// scipy.special's numbers.
#[test]
fn modified_bessel_functions() {
    let x = [0.0, 0.5, -1.0, 3.0, 7.9, 8.0, 8.1, -20.0];
    let expected: [(Function, [f64; 8]); 4] = [
        (
            Tensor::i0,
            [
                1.0,
                1.0634833707413234,
                1.2660658777520082,
                4.880792585865024,
                389.406283282158,
                427.56411572180474,
                469.5006067101214,
                43558282.559553534,
            ],
        ),
        (
            Tensor::i0e,
            [
                1.0,
                0.64503527044915,
                0.46575960759364043,
                0.24300035416182536,
                0.14436986414104191,
                0.1434317818568503,
                0.14251180948829525,
                0.089780311884826,
            ],
        ),
        (
            Tensor::i1,
            [
                0.0,
                0.25789430539089636,
                -0.5651591039924851,
                3.9533702174026093,
                363.8539440845081,
                399.8731367825599,
                439.48430891035844,
                -42454973.385127775,
            ],
        ),
        (
            Tensor::i1e,
            [
                0.0,
                0.15642080318487173,
                -0.2079104153497085,
                0.19682671329730084,
                0.13489649943989365,
                0.13414249329269812,
                0.13340068832583662,
                -0.08750622218328867,
            ],
        ),
    ];
    each(&FLOATS, true, |dtype| {
        for (f, expected) in &expected {
            // Numbers that the dtype holds are taken.
            let slack = if dtype == F64 {
                1e-14
            } else {
                8.0 * unit(dtype)
            };
            for x in forms(&[2, 4], dtype, &x) {
                let found = values(&f(&x));
                assert_eq!(f(&x).dtype(), dtype);
                for (found, expected) in found.iter().zip(expected) {
                    // 65,504 is the greatest number of F16.
                    let fits = expected.abs() < 6e4 || dtype != F16;
                    let near = (found - expected).abs() <= slack * expected.abs().max(1e-3);
                    assert!(near || !fits, "{dtype}: {found} for {expected}");
                }
            }
        }
        equal(&dense(&[0], dtype, &[]).i0(), &[0], &[]);
        near(&dense(&[], dtype, &[0.0]).i1e(), &[], &[0.0], 1e-12);
    });
}

#[test]
fn modified_bessel_functions_at_their_edges() {
    both(|| {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let x = dense(&[4], F64, &[705.0, inf, -inf, nan]);
        let relative = values(&x.i0())[0] / 2.262050552655472e304;
        assert!((relative - 1.0).abs() < 1e-12);
        equal(&x.i0().narrow(0, 1, 3), &[3], &[inf, inf, nan]);
        equal(&x.i1().narrow(0, 1, 3), &[3], &[inf, -inf, nan]);
        equal(&x.i0e().narrow(0, 1, 3), &[3], &[0.0, 0.0, nan]);
        assert_eq!(ints(&[1]).i0().dtype(), F32);
        // I₀' is I₁, and I₁' is I₀ − I₁/x, or 1/2 at 0.
        let x = dense(&[5], F64, &[0.0, 0.5, -3.0, 8.5, -20.0]).requires_grad();
        let of = |y: Tensor| grad(&y.sum(..), &[&x]).remove(0);
        let close = |a: &Tensor, b: &Tensor| a.allclose(b, 1e-11, 1e-12).expect("numbers");
        assert!(close(&of(x.i0()), &x.detach().i1()));
        let zero = x.eq(0.0);
        let ratio = zero.where_cond(0.5, &(x.detach().i1() / zero.where_cond(1.0, &x.detach())));
        assert!(close(&of(x.i1()), &(x.detach().i0() - ratio)));
    });
}

/// PyTorch's numbers.
#[test]
fn kaiser_windows() {
    both(|| {
        let kaiser = [0.014873337104763207, 0.4829556064106269, 1.0];
        let w = Tensor::kaiser_window(5, false, 6.0, F64, &cpu());
        near(&w.narrow(0, 0, 3), &[3], &kaiser, 1e-14);
        near(&w.flip(0), &[5], &values(&w), 1e-15);
        let kaiser = [
            5.2773441320097665e-05,
            0.2156727447589671,
            1.0,
            0.2156727447589671,
        ];
        near(
            &Tensor::kaiser_window(4, true, 12.0, F64, &cpu()),
            &[4],
            &kaiser,
            1e-14,
        );
        for n in [0, 1] {
            let ones = vec![1.0; n];
            equal(
                &Tensor::kaiser_window(n, true, 12.0, F32, &cpu()),
                &[n],
                &ones,
            );
        }
        let wide = values(&Tensor::kaiser_window(9, false, 2000.0, F64, &cpu()));
        assert!(wide[4] == 1.0 && wide.iter().all(|x| x.is_finite()));
        refused(
            &Tensor::kaiser_window(4, true, 12.0, I64, &cpu()),
            "kaiser_window",
            &["i64"],
        );
    });
}

#[test]
fn windows() {
    each(&FLOATS, true, |dtype| {
        for (window, formula) in WINDOWS {
            for (n, periodic) in [(2, false), (4, true), (5, false), (9, true), (64, false)] {
                let over = if periodic { n } else { n - 1 };
                let want: Vec<f64> = (0..n).map(|i| formula(i as f64 / over as f64)).collect();
                let w = window(n, periodic, dtype, &cpu());
                assert_eq!(w.dtype(), dtype);
                near(&w, &[n], &want, unit(dtype));
            }
            for periodic in [true, false] {
                equal(&window(0, periodic, dtype, &cpu()), &[0], &[]);
                equal(&window(1, periodic, dtype, &cpu()), &[1], &[1.0]);
            }
        }
    });
    // PyTorch's.
    both(|| {
        let blackman = [
            0.0,
            0.20077014326253045,
            0.8492298567374694,
            0.8492298567374696,
        ];
        let w = Tensor::blackman_window(5, true, F64, &cpu());
        near(&w.narrow(0, 0, 4), &[4], &blackman, 1e-14);
        let w = Tensor::hamming_window(4, false, F64, &cpu());
        near(&w, &[4], &[0.08, 0.77, 0.77, 0.08], 1e-14);
        let (dtypes, most) = ([I64, Bool], usize::MAX);
        for (dtype, told) in dtypes.into_iter().zip(["i64", "bool"]) {
            refused(
                &Tensor::hann_window(4, true, dtype, &cpu()),
                "hann_window",
                &[told],
            );
            refused(
                &Tensor::hamming_window(1, true, dtype, &cpu()),
                "hamming_window",
                &[told],
            );
            refused(
                &Tensor::blackman_window(0, true, dtype, &cpu()),
                "blackman_window",
                &[told],
            );
            refused(
                &Tensor::bartlett_window(4, true, dtype, &cpu()),
                "bartlett_window",
                &[told],
            );
        }
        refused(
            &Tensor::hann_window(most, true, F32, &cpu()),
            "hann_window",
            &["memory"],
        );
    });
}

#[test]
fn powers_in_equal_steps() {
    each(&FLOATS, true, |dtype| {
        let x = Tensor::logspace(-1, 2, 4, 10, dtype, &cpu());
        assert_eq!(x.dtype(), dtype);
        near(&x, &[4], &[0.1, 1.0, 10.0, 100.0], unit(dtype));
        let x = Tensor::logspace(0.5, 3.0, 6, 2.0, dtype, &cpu());
        let want: Vec<f64> = (0..6).map(|i| (0.5 + 0.5 * i as f64).exp2()).collect();
        near(&x, &[6], &want, unit(dtype));
        equal(
            &Tensor::logspace(2, 3, 1, 10, dtype, &cpu()),
            &[1],
            &[100.0],
        );
        equal(&Tensor::logspace(2, 3, 0, 10, dtype, &cpu()), &[0], &[]);
        // PyTorch's, of a negative base.
        let x = Tensor::logspace(0, 2, 3, -2, dtype, &cpu());
        equal(&x, &[3], &[1.0, -2.0, 4.0]);
        let x = Tensor::logspace(3, 0, 4, 0.5, dtype, &cpu());
        equal(&x, &[4], &[0.125, 0.25, 0.5, 1.0]);
    });
    each(&INTS, true, |dtype| {
        let x = Tensor::logspace(0, 4, 4, 2, dtype, &cpu());
        assert_eq!(x.dtype(), dtype);
        equal(&x, &[4], &[1.0, 2.0, 6.0, 16.0]);
        let x = Tensor::logspace(0.5, 3.5, 3, 2.5, dtype, &cpu());
        equal(&x, &[3], &[1.0, 3.0, 15.0]);
    });
    both(|| {
        let refuse = |x: &Tensor| refused(x, "logspace", &["1000"]);
        refuse(&Tensor::logspace(1000, 2, 3, 2, I8, &cpu()));
        refuse(&Tensor::logspace(1, -1000, 3, 2, I8, &cpu()));
        let beyond = Tensor::logspace(1, 2, usize::MAX, 2, F32, &cpu());
        refused(&beyond, "logspace", &["memory"]);
    });
}

/// Rows and columns of the places that a test takes, row by row.
fn places(rows: i64, columns: i64, is: impl Fn(i64) -> bool) -> Vec<f64> {
    let mut places = [Vec::new(), Vec::new()];
    for row in 0..rows {
        for column in (0..columns).filter(|column| is(column - row)) {
            places[0].push(row as f64);
            places[1].push(column as f64);
        }
    }
    places.concat()
}

#[test]
fn places_of_triangles() {
    both(|| {
        for (rows, columns) in [(3, 3), (2, 5), (4, 2), (0, 3), (3, 0), (1, 1)] {
            for offset in -5..=5 {
                let want = places(rows, columns, |by| by <= offset);
                let (n, m) = (rows as usize, columns as usize);
                let lower = Tensor::tril_indices(n, m, offset as isize, &cpu());
                assert_eq!(lower.dtype(), I64);
                equal(&lower, &[2, want.len() / 2], &want);
                let want = places(rows, columns, |by| by >= offset);
                let upper = Tensor::triu_indices(n, m, offset as isize, &cpu());
                equal(&upper, &[2, want.len() / 2], &want);
            }
        }
        let all = places(2, 2, |_| true);
        equal(
            &Tensor::tril_indices(2, 2, isize::MAX, &cpu()),
            &[2, 4],
            &all,
        );
        equal(
            &Tensor::triu_indices(2, 2, isize::MIN, &cpu()),
            &[2, 4],
            &all,
        );
        equal(
            &Tensor::tril_indices(2, 2, isize::MIN, &cpu()),
            &[2, 0],
            &[],
        );
        equal(
            &Tensor::triu_indices(2, 2, isize::MAX, &cpu()),
            &[2, 0],
            &[],
        );
        // They read what tril keeps.
        let x = dense(&[3, 4], F32, &whole(12, 100));
        let at = Tensor::tril_indices(3, 4, 1, &cpu());
        let kept = x.index(&[Some(&at.at(0)), Some(&at.at(1))]).sum(..);
        equal(&kept, &[], &values(&x.tril(1).sum(..)));
        let most = usize::MAX;
        refused(
            &Tensor::tril_indices(most, 2, 0, &cpu()),
            "tril_indices",
            &["memory"],
        );
        refused(
            &Tensor::triu_indices(2, most, 0, &cpu()),
            "triu_indices",
            &["memory"],
        );
    });
}
