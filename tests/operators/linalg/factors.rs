//! Factors, which multiply back.

use super::*;

#[test]
fn lower_factors_multiply_back() {
    each(&WIDE, true, |dtype| {
        for n in [0, 1, 2, 3, 7, 16, 17, 47, 48, 49, 150, 190] {
            let a = definite(n, n as u64);
            // Only the lower triangle is read.
            let given: Vec<f64> = (0..n * n)
                .map(|at| if at % n > at / n { f64::NAN } else { a[at] })
                .collect();
            for x in [dense(&[n, n], dtype, &a), dense(&[n, n], dtype, &given)] {
                let factor = x.cholesky();
                assert_eq!((factor.dims(), factor.dtype()), (&[n, n][..], dtype));
                let l = values(&factor);
                for (at, of) in l.iter().enumerate() {
                    assert!(at % n <= at / n || *of == 0.0, "{at}");
                }
                let back = product(&l, &turned(&l, [n, n]), [n, n, n]);
                agree(&back, &a, slack(dtype));
            }
        }
    });
}

#[test]
fn batches_have_the_bits_of_their_matrices() {
    each(&WIDE, true, |dtype| {
        let n = 5;
        let a = batch(6, |seed| definite(n, seed));
        for x in forms(&[2, 3, n, n], dtype, &a) {
            let all = x.cholesky();
            assert_eq!(all.dims(), [2, 3, n, n]);
            let (vectors, singular) = (x.eigh().1, x.svd().0);
            for i in 0..6 {
                let own = dense(&[n, n], dtype, &a[i * n * n..(i + 1) * n * n]);
                let of = |x: &Tensor| x.reshape([6, n, n]).select(0, i as isize);
                equal(&of(&all), &[n, n], &values(&own.cholesky()));
                equal(&of(&vectors), &[n, n], &values(&own.eigh().1));
                equal(&of(&singular), &[n, n], &values(&own.svd().0));
            }
        }
        for dims in [[0, 3, 3], [2, 0, 0]] {
            let x = dense(&dims, dtype, &[]);
            assert_eq!(values(&x.cholesky()).len(), 0);
            assert_eq!(x.eigh().1.dims(), dims);
            assert_eq!(x.qr().0.dims(), dims);
            assert_eq!(x.svd().2.dims(), dims);
            assert_eq!(values(&x.svdvals()).len(), 0);
        }
    });
}

/// Several small matrices are factorised side by side: each has its own bits, and the first that has no factor is told.
#[test]
fn long_batches_of_small_matrices() {
    each(&WIDE, true, |dtype| {
        for n in [1, 3, 4, 5, 8, 9, 16, 17] {
            let mut a = batch(53, |seed| definite(n, seed));
            let found = dense(&[53, n, n], dtype, &a).cholesky();
            for i in [0, 1, 15, 16, 31, 47, 48, 52] {
                let own = &a[i * n * n..(i + 1) * n * n];
                let alone = values(&dense(&[n, n], dtype, own).cholesky());
                equal(&found.select(0, i as isize), &[n, n], &alone);
                let back = product(&alone, &turned(&alone, [n, n]), [n, n, n]);
                agree(&back, own, slack(dtype));
            }
            for at in [52, 37, 16, 5] {
                a[(at + 1) * n * n - 1] = -1.0;
                let factor = dense(&[53, n, n], dtype, &a).cholesky();
                let error = factor.eval().expect_err("no factor").to_string();
                let why = format!("matrix {at} of the batch is not positive definite");
                assert!(error.contains(&why), "{error}");
                assert!(error.contains(&format!("order {n}")), "{error}");
            }
        }
    });
}

/// A large matrix alone is the work of all threads, one of a batch of one thread.
#[test]
fn bits_do_not_depend_on_threads() {
    let n = 260;
    let a = batch(2, |seed| definite(n, seed));
    with_mode(Mode::Eager, || {
        for dtype in WIDE {
            let x = dense(&[2, n, n], dtype, &a);
            let b = dense(&[n, 70], dtype, &noise(n * 70, 1));
            let found = |x: &Tensor| {
                let (u, _, vh) = x.svd();
                let factors = [x.cholesky(), x.solve(&b), x.qr().0, x.eigh().1, u, vh];
                let [w, s] = [x.eigvalsh(), x.svdvals()];
                factors.into_iter().chain([w, s]).collect::<Vec<Tensor>>()
            };
            let all = found(&x);
            for i in 0..2 {
                let own = x.select(0, i).contiguous();
                let alone = found(&own);
                for (all, alone) in all.iter().zip(&alone) {
                    equal(&all.select(0, i), alone.dims(), &values(alone));
                }
            }
        }
    });
}

/// Sizes of matrices: square, tall, wide, empty.
const SIZES: [[usize; 2]; 13] = [
    [1, 1],
    [2, 2],
    [3, 3],
    [5, 2],
    [2, 5],
    [1, 6],
    [6, 1],
    [49, 49],
    [70, 33],
    [33, 70],
    [0, 3],
    [3, 0],
    [0, 0],
];

#[test]
fn orthonormal_columns_and_a_triangle() {
    each(&WIDE, true, |dtype| {
        for [m, n] in SIZES {
            let k = m.min(n);
            let a = noise(m * n, 3);
            for x in forms(&[m, n], dtype, &a) {
                let (q, r) = x.qr();
                assert_eq!((q.dims(), r.dims()), (&[m, k][..], &[k, n][..]));
                let (q, r) = (values(&q), values(&r));
                agree(&product(&q, &r, [m, k, n]), &a, slack(dtype));
                agree(
                    &product(&turned(&q, [m, k]), &q, [k, m, k]),
                    &one(k),
                    slack(dtype),
                );
                for (at, of) in r.iter().enumerate() {
                    assert!(at % n >= at / n || *of == 0.0, "{at}");
                }
            }
        }
        // Columns of zeros.
        let (q, r) = dense(&[3, 2], dtype, &[0.0; 6]).qr();
        equal(&q, &[3, 2], &[1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
        equal(&r, &[2, 2], &[0.0; 4]);
    });
}

/// Checks values and vectors of a symmetric matrix.
#[track_caller]
fn eigen(x: &Tensor, a: &[f64], n: usize) {
    let (w, v) = x.eigh();
    assert_eq!((w.dims(), v.dims()), (&[n][..], &[n, n][..]));
    let (w, v) = (values(&w), values(&v));
    agree(&values(&x.eigvalsh()), &w, slack(x.dtype()));
    assert!(w.windows(2).all(|w| w[0] <= w[1]), "{w:?}");
    let scaled: Vec<f64> = (0..n * n).map(|at| v[at] * w[at % n]).collect();
    let back = product(&scaled, &turned(&v, [n, n]), [n, n, n]);
    agree(&back, a, slack(x.dtype()));
    agree(
        &product(&turned(&v, [n, n]), &v, [n, n, n]),
        &one(n),
        slack(x.dtype()),
    );
}

#[test]
fn eigenvectors_of_symmetric_matrices() {
    each(&WIDE, true, |dtype| {
        for n in [0, 1, 2, 3, 4, 9, 50, 101] {
            let a = noise(n * n, 5);
            let a: Vec<f64> = (0..n * n)
                .map(|at| a[(at % n).min(at / n) * n + (at % n).max(at / n)])
                .collect();
            let given: Vec<f64> = (0..n * n)
                .map(|at| if at % n > at / n { 100.0 } else { a[at] })
                .collect();
            eigen(&dense(&[n, n], dtype, &a), &a, n);
            eigen(&dense(&[n, n], dtype, &given), &a, n);
            eigen(&dense(&[n, n], dtype, &one(n)), &one(n), n);
            eigen(
                &dense(&[n, n], dtype, &vec![1.0; n * n]),
                &vec![1.0; n * n],
                n,
            );
            eigen(
                &dense(&[n, n], dtype, &vec![0.0; n * n]),
                &vec![0.0; n * n],
                n,
            );
            for scale in [1e-30, 1e30] {
                let a: Vec<f64> = a.iter().map(|x| x * scale).collect();
                eigen(&dense(&[n, n], dtype, &a), &a, n);
            }
        }
        let w = dense(&[2, 2], dtype, &[2.0, 1.0, 1.0, 2.0]).eigvalsh();
        near(&w, &[2], &[1.0, 3.0], unit(dtype));
    });
}

/// Checks the factors of a matrix.
#[track_caller]
fn singular(x: &Tensor, a: &[f64], [m, n]: [usize; 2]) {
    let k = m.min(n);
    let (u, s, vh) = x.svd();
    assert_eq!(
        (u.dims(), s.dims(), vh.dims()),
        (&[m, k][..], &[k][..], &[k, n][..])
    );
    let (u, s, vh) = (values(&u), values(&s), values(&vh));
    agree(&values(&x.svdvals()), &s, slack(x.dtype()));
    assert!(
        s.windows(2).all(|s| s[0] >= s[1]) && s.iter().all(|&s| s >= 0.0),
        "{s:?}"
    );
    let scaled: Vec<f64> = (0..m * k).map(|at| u[at] * s[at % k]).collect();
    agree(&product(&scaled, &vh, [m, k, n]), a, slack(x.dtype()));
    agree(
        &product(&turned(&u, [m, k]), &u, [k, m, k]),
        &one(k),
        slack(x.dtype()),
    );
    agree(
        &product(&vh, &turned(&vh, [k, n]), [k, n, k]),
        &one(k),
        slack(x.dtype()),
    );
}

#[test]
fn singular_values_and_vectors() {
    each(&WIDE, true, |dtype| {
        for [m, n] in SIZES.into_iter().chain([[130, 40], [97, 97]]) {
            let of = |a: &[f64]| singular(&dense(&[m, n], dtype, a), a, [m, n]);
            let a = noise(m * n, 8);
            of(&a);
            of(&vec![0.0; m * n]);
            of(&vec![1.0; m * n]);
            for scale in [1e-30, 1e30] {
                of(&a.iter().map(|x| x * scale).collect::<Vec<f64>>());
            }
            // Of rank 2, and of columns of very different sizes.
            let left = noise(m * 2, 1);
            let low = product(&left, &noise(2 * n, 2), [m, 2, n]);
            of(&values(&dense(&[m, n], dtype, &low)));
            let graded = (0..m * n).map(|at| a[at] * 0.1f64.powi((at % n) as i32));
            of(&values(&dense(
                &[m, n],
                dtype,
                &graded.collect::<Vec<f64>>(),
            )));
        }
        let x = dense(&[2, 2], dtype, &[0.0, 3.0, 4.0, 0.0]);
        near(&x.svdvals(), &[2], &[4.0, 3.0], unit(dtype));
    });
}

/// NumPy's.
#[test]
fn numbers_of_numpy() {
    let a = [-1.25, 0.5, -1.625, 0.125, 1.875, -0.25, 1.5, -0.625, 1.125];
    let b = |seed: usize, n: usize| -> Vec<f64> {
        (seed..seed + n)
            .map(|i| (i * 7919 + 5) as f64 % 31.0 / 8.0 - 1.875)
            .collect()
    };
    both(|| {
        let (x, y) = (dense(&[3, 3], F64, &a), dense(&[4, 3], F64, &b(6, 12)));
        near(&x.det(), &[], &[1.9980468750000002], 1e-14);
        let (sign, log) = x.slogdet();
        equal(&sign, &[], &[1.0]);
        near(&log, &[], &[0.6921701409121188], 1e-14);
        let inverse = [
            0.97751711,
            0.22678397,
            1.46236559,
            -0.25806452,
            0.51612903,
            -0.25806452,
            -1.44672532,
            -0.01564027,
            -1.20430108,
        ];
        near(&x.inverse(), &[3, 3], &inverse, 1e-8);
        let square = x.matmul(&x.t()) + Tensor::eye(3, F64, &cpu());
        let factor = [
            2.33519271,
            0.0,
            0.0,
            0.50852334,
            2.08210327,
            0.0,
            -1.71961182,
            -0.1878688,
            1.38343431,
        ];
        near(&square.cholesky(), &[3, 3], &factor, 1e-8);
        near(
            &square.eigvalsh(),
            &[3],
            &[1.15051924, 4.01988334, 9.78272241],
            1e-8,
        );
        let upper = [
            -2.540300179,
            1.180962795,
            -2.152796762,
            0.0,
            -1.661799289,
            -0.175937542,
            0.0,
            0.0,
            0.617565449,
        ];
        near(&y.qr().1, &[3, 3], &upper, 1e-8);
        near(
            &y.svdvals(),
            &[3],
            &[3.587366325, 1.607032436, 0.452216316],
            1e-8,
        );
        let found = y.lstsq(&dense(&[4], F64, &b(9, 4)));
        near(
            &found,
            &[3],
            &[0.359223301, 0.927184466, -0.300970874],
            1e-8,
        );
    });
}
