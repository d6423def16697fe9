//! P, L and U, their packed form with LAPACK's pivots, and equations by them.

use super::*;

const SIZES: [[usize; 2]; 11] = [
    [1, 1],
    [2, 2],
    [5, 2],
    [2, 5],
    [1, 6],
    [6, 1],
    [17, 17],
    [60, 33],
    [33, 60],
    [0, 3],
    [3, 0],
];

#[test]
fn permuted_triangles_multiply_back() {
    each(&WIDE, true, |dtype| {
        for [m, n] in SIZES {
            let (k, a) = (m.min(n), noise(m * n, 7));
            for x in forms(&[m, n], dtype, &a) {
                let (p, l, u) = x.lu();
                assert_eq!((p.dims(), p.dtype()), (&[m, m][..], dtype));
                assert_eq!((l.dims(), u.dims()), (&[m, k][..], &[k, n][..]));
                let (p, l, u) = (values(&p), values(&l), values(&u));
                for (at, x) in l.iter().enumerate() {
                    let (i, j) = (at / k, at % k);
                    let fits = match i.cmp(&j) {
                        std::cmp::Ordering::Less => *x == 0.0,
                        std::cmp::Ordering::Equal => *x == 1.0,
                        // The pivot is the greatest.
                        std::cmp::Ordering::Greater => x.abs() <= 1.0,
                    };
                    assert!(fits, "{at}: {x}");
                }
                assert!((0..k * n).all(|at| at / n <= at % n || u[at] == 0.0));
                let back = product(&product(&p, &l, [m, m, k]), &u, [m, k, n]);
                agree(&back, &a, slack(dtype));
                // The packed factors are the same numbers, and pivots tell the same permutation.
                let (factors, pivots) = x.lu_factor();
                assert_eq!((pivots.dims(), pivots.dtype()), (&[k][..], I32));
                let again = factors.lu_unpack(&pivots);
                equal(&again.0, &[m, m], &p);
                equal(&again.1, &[m, k], &l);
                equal(&again.2, &[k, n], &u);
            }
        }
    });
}

/// What scipy.linalg.lu_factor gives, with pivots counted from 1.
#[test]
fn pivots_are_those_of_lapack() {
    both(|| {
        let a = [
            2.0, 5.0, 8.0, 7.0, 5.0, 2.0, 2.0, 8.0, 7.0, 5.0, 6.0, 6.0, 5.0, 4.0, 4.0, 8.0,
        ];
        let (factors, pivots) = dense(&[4, 4], F64, &a).lu_factor();
        assert_eq!(values(&pivots), [3.0, 3.0, 4.0, 4.0]);
        let expected = [
            [7.0, 5.0, 6.0, 6.0],
            [
                0.2857142857142857,
                3.571428571428571,
                6.285714285714286,
                5.285714285714286,
            ],
            [0.7142857142857143, 0.12, -1.04, 3.0799999999999996],
            [
                0.7142857142857143,
                -0.44000000000000006,
                -0.46153846153846156,
                7.461538461538462,
            ],
        ];
        near(&factors, &[4, 4], &expected.concat(), 1e-14);
        // A column of zeros is left as it is.
        let (factors, pivots) = dense(&[2, 2], F64, &[0.0, 1.0, 0.0, 3.0]).lu_factor();
        equal(&factors, &[2, 2], &[0.0, 1.0, 0.0, 3.0]);
        assert_eq!(values(&pivots), [1.0, 2.0]);
        assert_eq!(values(&dense(&[2, 2], F64, &[0.0; 4]).slogdet().0), [0.0]);
    });
}

#[test]
fn equations_by_packed_factors() {
    each(&WIDE, true, |dtype| {
        for (n, k) in [(0, 2), (1, 1), (4, 3), (16, 1), (50, 7)] {
            let (a, b) = (batch(3, |seed| noise(n * n, seed)), noise(n * k, 9));
            let x = dense(&[3, n, n], dtype, &a);
            let (factors, pivots) = x.lu_factor();
            // One right-hand side of three matrices.
            let found = factors.lu_solve(&pivots, &dense(&[n, k], dtype, &b));
            assert_eq!(found.dims(), [3, n, k]);
            for i in 0..3 {
                let own = values(&found.select(0, i as isize));
                let back = product(&a[i * n * n..(i + 1) * n * n], &own, [n, n, k]);
                agree(&back, &b, slack(dtype) * 100.0);
            }
        }
    });
    both(|| {
        let (x, b) = (
            dense(&[2, 2], F64, &one(2)),
            dense(&[2, 1], F64, &[1.0, 2.0]),
        );
        for wrong in [[0, 2], [1, 3]] {
            let pivots = Tensor::from_slice(&wrong, 2, &cpu());
            for (name, found) in [
                ("lu_solve", x.lu_solve(&pivots, &b)),
                ("lu_unpack", x.lu_unpack(&pivots).0),
            ] {
                let error = found.to_vec::<f64>().expect_err(name).to_string();
                assert!(error.starts_with(name), "{error}");
                assert!(error.contains("is none of 2 rows"), "{error}");
            }
        }
        let pivots = Tensor::from_slice(&[2i32, 2], 2, &cpu());
        equal(&x.lu_solve(&pivots, &b), &[2, 1], &[2.0, 1.0]);
        equal(&x.lu_solve(&pivots.to_dtype(I64), &b), &[2, 1], &[2.0, 1.0]);
        fails(&x.lu_solve(&pivots.to_dtype(F32), &b), &["lu_solve", "f32"]);
        fails(
            &x.lu_solve(&pivots, &b.t()),
            &["lu_solve", "none of equations"],
        );
    });
}
