//! Equations, inverses and determinants.

use super::*;

#[test]
fn equations_of_square_matrices() {
    each(&WIDE, true, |dtype| {
        for (n, k) in [
            (1, 1),
            (2, 3),
            (3, 1),
            (7, 2),
            (9, 1),
            (16, 4),
            (17, 3),
            (48, 5),
            (49, 1),
            (130, 20),
            (0, 2),
            (3, 0),
        ] {
            let (a, b) = (noise(n * n, 1), noise(n * k, 2));
            let want = values(&dense(&[n, k], dtype, &b));
            for x in forms(&[n, n], dtype, &a) {
                let solved = x.solve(&dense(&[n, k], dtype, &b));
                assert_eq!((solved.dims(), solved.dtype()), (&[n, k][..], dtype));
                let solved = values(&solved);
                let most = solved.iter().fold(1f64, |most, x| most.max(x.abs()));
                let back = product(&a, &solved, [n, n, k]);
                agree(&back, &want, slack(dtype) * most * n as f64);
            }
        }
    });
}

/// Several small systems are solved side by side: each has its own bits, and the first singular matrix is told.
#[test]
fn long_batches_of_small_systems() {
    each(&WIDE, true, |dtype| {
        for (n, k) in [
            (1, 1),
            (3, 2),
            (4, 1),
            (5, 3),
            (8, 1),
            (9, 2),
            (16, 1),
            (17, 1),
        ] {
            let mut a = batch(53, |seed| noise(n * n, seed + 7));
            let b = noise(53 * n * k, 3);
            let all = |a: &[f64], b: &[f64], batch: &[usize]| {
                let a = dense(&[batch, &[n, n]].concat(), dtype, a);
                let b = dense(&[batch, &[n, k]].concat(), dtype, b);
                let turned = a.transpose(-1, -2);
                vec![
                    a.solve(&b),
                    turned.solve(&b),
                    a.solve_triangular(&b, false, true, false),
                    a.solve_triangular(&b, true, true, true),
                    a.inverse(),
                    a.det(),
                    a.slogdet().1,
                ]
            };
            let found = all(&a, &b, &[53]);
            for i in [0, 1, 15, 16, 31, 47, 48, 52] {
                let (own, right) = (
                    &a[i * n * n..(i + 1) * n * n],
                    &b[i * n * k..(i + 1) * n * k],
                );
                // Products and sums of pivots have an order by the number of rows.
                for (form, alone) in all(own, right, &[]).iter().enumerate() {
                    let (found, want) = (found[form].select(0, i as isize), values(alone));
                    match form < 5 {
                        true => equal(&found, alone.dims(), &want),
                        false => agree(&values(&found), &want, slack(dtype)),
                    }
                }
                let solved = values(&found[0].select(0, i as isize));
                let most = solved.iter().fold(1f64, |most, x| most.max(x.abs()));
                let back = product(own, &solved, [n, n, k]);
                agree(&back, right, slack(dtype) * most * n as f64);
            }
            // One matrix for all.
            let one = dense(&[n, n], dtype, &a[..n * n]);
            let right = dense(&[53, n, k], dtype, &b);
            let shared = one.solve(&right);
            let alone = one.solve(&right.select(0, 40));
            equal(&shared.select(0, 40), &[n, k], &values(&alone));
            for at in [52, 37, 16, 5] {
                // A row of zeros is the last pivot's.
                a[at * n * n..at * n * n + n].fill(0.0);
                let error = all(&a, &b, &[53])[0]
                    .eval()
                    .expect_err("singular")
                    .to_string();
                let why = format!("matrix {at} of the batch is singular: pivot {n} is 0");
                assert!(error.contains(&why), "{error}");
            }
        }
    });
}

/// The matrix, what is on its right, and how batches and vectors go together.
#[test]
fn right_hand_sides_as_pytorch_takes_them() {
    both(|| {
        let a = batch(6, |seed| definite(3, seed));
        let x = dense(&[2, 3, 3, 3], F64, &a);
        let of = |b: &Tensor, dims: &[usize]| {
            let solved = x.solve(b);
            assert_eq!(solved.dims(), dims);
            solved
        };
        // A vector for all, a vector for each, matrices that broadcast.
        let vector = dense(&[3], F64, &noise(3, 1));
        let solved = of(&vector, &[2, 3, 3]);
        near(
            &x.matmul(&solved.unsqueeze(-1)).squeeze(-1),
            &[2, 3, 3],
            &values(&vector).repeat(6),
            1e-12,
        );
        let vectors = dense(&[2, 3, 3], F64, &noise(18, 2));
        let solved = of(&vectors, &[2, 3, 3]);
        near(
            &x.matmul(&solved.unsqueeze(-1)).squeeze(-1),
            &[2, 3, 3],
            &values(&vectors),
            1e-12,
        );
        let matrices = dense(&[2, 1, 3, 2], F64, &noise(12, 3));
        let solved = of(&matrices, &[2, 3, 3, 2]);
        let want = matrices.broadcast_to([2, 3, 3, 2]);
        near(&x.matmul(&solved), &[2, 3, 3, 2], &values(&want), 1e-12);
        // One matrix, and a batch on the right.
        let one = x.select(0, 0).select(0, 1);
        let solved = one.solve(&matrices);
        near(
            &one.matmul(&solved),
            &[2, 1, 3, 2],
            &values(&matrices),
            1e-12,
        );
        // Dtypes promote.
        let narrow = vector.to_dtype(F32);
        assert_eq!(x.solve(&narrow).dtype(), F64);
        // Expanded operands.
        let expanded = one.expand([4, 3, 3]);
        let solved = expanded.solve(&vector.unsqueeze(-1).expand([3, 2]));
        assert_eq!(solved.dims(), [4, 3, 2]);
        let own = values(&one.solve(&vector));
        near(&solved.select(-1, 1), &[4, 3], &own.repeat(4), 1e-12);
    });
}

#[test]
fn equations_of_triangles() {
    each(&WIDE, true, |dtype| {
        for (n, k) in [(1, 1), (3, 2), (5, 1), (47, 3), (50, 4), (120, 1), (0, 1)] {
            // What is not read is far off.
            let mut a = noise(n * n, 4);
            (0..n).for_each(|i| a[i * n + i] = 1.5 + i as f64 / n as f64);
            a.iter_mut().for_each(|x| *x /= 4.0);
            for at in 0..8 {
                let [upper, left, unit] = [at & 1, at & 2, at & 4].map(|bit| bit > 0);
                let dims = if left { [n, k] } else { [k, n] };
                let b = noise(n * k, 5);
                let x = dense(&[n, n], dtype, &a);
                let solved = x.solve_triangular(&dense(&dims, dtype, &b), upper, left, unit);
                assert_eq!(solved.dims(), dims);
                let read = values(&x);
                let triangle: Vec<f64> = (0..n * n)
                    .map(|at| match (at / n, at % n) {
                        (i, j) if i == j && unit => 1.0,
                        (i, j) if i != j && (j > i) != upper => 0.0,
                        (i, j) => read[i * n + j],
                    })
                    .collect();
                let solved = values(&solved);
                let back = match left {
                    true => product(&triangle, &solved, [n, n, k]),
                    false => product(&solved, &triangle, [k, n, n]),
                };
                let most = solved.iter().fold(1f64, |most, x| most.max(x.abs()));
                agree(&back, &b, slack(dtype) * most);
            }
        }
        let a = dense(
            &[2, 1, 2, 2],
            dtype,
            &[1.0, 0.0, 2.0, 4.0, 2.0, 0.0, 1.0, 1.0],
        );
        let b = dense(&[3, 2, 1], dtype, &[1.0, 6.0, 2.0, 4.0, 0.0, 8.0]);
        let solved = a.solve_triangular(&b, false, true, false);
        let want = [1.0, 1.0, 2.0, 0.0, 0.0, 2.0, 0.5, 5.5, 1.0, 3.0, 0.0, 8.0];
        near(&solved, &[2, 3, 2, 1], &want, unit(dtype));
        // A diagonal of zeros.
        let a = dense(&[1, 1], dtype, &[0.0]);
        let solved = a.solve_triangular(&dense(&[1, 1], dtype, &[1.0]), false, true, false);
        equal(&solved, &[1, 1], &[f64::INFINITY]);
    });
}

#[test]
fn equations_by_the_lower_factor() {
    each(&WIDE, true, |dtype| {
        let a = batch(2, |seed| definite(6, seed));
        let x = dense(&[2, 6, 6], dtype, &a);
        let b = dense(&[6, 3], dtype, &noise(18, 9));
        let solved = x.cholesky().cholesky_solve(&b);
        assert_eq!(solved.dims(), [2, 6, 3]);
        let (solved, b) = (values(&solved), values(&b));
        for i in 0..2 {
            let back = product(
                &a[i * 36..(i + 1) * 36],
                &solved[i * 18..(i + 1) * 18],
                [6, 6, 3],
            );
            agree(&back, &b, slack(dtype));
        }
    });
}

/// The determinant by Laplace's expansion.
fn laplace(a: &[f64], n: usize) -> f64 {
    if n == 0 {
        return 1.0;
    }
    let minor = |j: usize| -> Vec<f64> {
        (n..n * n)
            .filter(|at| at % n != j)
            .map(|at| a[at])
            .collect()
    };
    let term =
        |j: usize| a[j] * laplace(&minor(j), n - 1) * if j.is_multiple_of(2) { 1.0 } else { -1.0 };
    (0..n).map(term).sum()
}

#[test]
fn inverses_and_determinants() {
    each(&WIDE, true, |dtype| {
        for n in 0..7 {
            let a = batch(3, |seed| noise(n * n, seed + 3));
            let size = n * n;
            let want: Vec<f64> = (0..3)
                .map(|i| laplace(&a[i * size..(i + 1) * size], n))
                .collect();
            for x in forms(&[3, n, n], dtype, &a) {
                near(&x.det(), &[3], &want, unit(dtype) * 10.0);
                let (sign, log) = x.slogdet();
                equal(
                    &sign,
                    &[3],
                    &want.iter().map(|d| d.signum()).collect::<Vec<f64>>(),
                );
                let logs: Vec<f64> = want.iter().map(|d| d.abs().ln()).collect();
                near(&log, &[3], &logs, slack(dtype));
                let inverse = values(&x.inverse());
                for i in 0..3 {
                    let (own, other) = (
                        &a[i * size..(i + 1) * size],
                        &inverse[i * size..(i + 1) * size],
                    );
                    let most = other.iter().fold(1f64, |most, x| most.max(x.abs()));
                    agree(
                        &product(own, other, [n, n, n]),
                        &one(n),
                        slack(dtype) * most,
                    );
                }
            }
        }
        // Singular matrices, one of which meets a pivot of 0 at once.
        let a = dense(&[2, 2, 2], dtype, &[1.0, 2.0, 2.0, 4.0, 0.0, 1.0, 0.0, 3.0]);
        equal(&a.det(), &[2], &[0.0, 0.0]);
        equal(&a.slogdet().0, &[2], &[0.0, 0.0]);
        equal(&a.slogdet().1, &[2], &[f64::NEG_INFINITY; 2]);
        // Products of many pivots overflow, sums of logarithms do not.
        let large = Tensor::eye(200, dtype, &cpu()) * 100.0;
        equal(&large.to_dtype(F32).det(), &[], &[f64::INFINITY]);
        near(&large.slogdet().1, &[], &[200.0 * 100f64.ln()], unit(dtype));
        let x = dense(&[2, 2], dtype, &[1.0, 1.0, 0.0, 1.0]);
        near(
            &x.matrix_power(-3),
            &[2, 2],
            &[1.0, -3.0, 0.0, 1.0],
            unit(dtype),
        );
        equal(&x.matrix_power(0), &[2, 2], &one(2));
    });
}

#[test]
fn least_squares_and_pseudoinverses() {
    each(&WIDE, true, |dtype| {
        for [m, n] in [[4, 4], [5, 2], [60, 50], [3, 1]] {
            let (a, b) = (noise(m * n, 1), noise(m * 2, 2));
            let x = dense(&[m, n], dtype, &a);
            let found = x.lstsq(&dense(&[m, 2], dtype, &b));
            assert_eq!(found.dims(), [n, 2]);
            // What is left is orthogonal to the columns.
            let left: Vec<f64> = product(&a, &values(&found), [m, n, 2])
                .iter()
                .zip(&b)
                .map(|(x, b)| x - b)
                .collect();
            let along = product(&turned(&a, [m, n]), &left, [n, m, 2]);
            assert!(
                along.iter().all(|x| x.abs() < slack(dtype) * 10.0),
                "{along:?}"
            );
            let vector = dense(&[m], dtype, &b[..m]);
            assert_eq!(x.lstsq(&vector).dims(), [n]);
        }
        for [m, n] in [[4, 4], [5, 2], [2, 5], [0, 3], [3, 0]] {
            // Of rank 2 at most.
            let a = product(&noise(m * 2, 1), &noise(2 * n, 2), [m, 2, n]);
            let x = dense(&[m, n], dtype, &a);
            let (a, p) = (values(&x), values(&x.pinv()));
            assert_eq!(x.pinv().dims(), [n, m]);
            let (left, right) = (product(&a, &p, [m, n, m]), product(&p, &a, [n, m, n]));
            let most = p.iter().fold(1f64, |most, x| most.max(x.abs()));
            let tolerance = slack(dtype) * most;
            agree(&product(&left, &a, [m, m, n]), &a, tolerance);
            agree(&product(&right, &p, [n, n, m]), &p, tolerance);
            agree(&turned(&left, [m, m]), &left, tolerance);
            agree(&turned(&right, [n, n]), &right, tolerance);
        }
    });
    // NumPy's.
    both(|| {
        let x = dense(&[2, 3], F64, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).pinv();
        let want = [-17.0, 8.0, -2.0, 2.0, 13.0, -4.0].map(|x| x / 18.0);
        near(&x, &[3, 2], &want, 1e-12);
    });
}

/// One compiled function, at two sizes.
#[test]
fn compiled_functions_of_matrices() {
    let f = jit(|(a, b): (&Tensor, &Tensor)| {
        let (q, r) = a.qr();
        let (w, v) = a.eigh();
        let (u, s, vh) = a.svd();
        vec![
            a.cholesky().cholesky_solve(b) * 2.0,
            a.solve(b) + 1.0,
            a.det() + a.slogdet().1.exp(),
            q.matmul(&r) - a,
            (&v * w.unsqueeze(-2)).matmul(&v.t()) - a,
            (&u * s.unsqueeze(-2)).matmul(&vh) - a,
        ]
    });
    for n in [3, 5, 3] {
        let (a, b) = (definite(n, 7), noise(n * 2, 3));
        let (x, y) = (dense(&[n, n], F64, &a), dense(&[n, 2], F64, &b));
        let got = f.call((&x, &y));
        let solved = with_mode(Mode::Eager, || values(&x.solve(&y)));
        let want: Vec<f64> = solved.iter().map(|x| x * 2.0).collect();
        near(&got[0], &[n, 2], &want, 1e-12);
        let want: Vec<f64> = solved.iter().map(|x| x + 1.0).collect();
        near(&got[1], &[n, 2], &want, 1e-12);
        near(&got[2], &[], &[2.0 * laplace(&a, n)], 1e-12);
        for zero in &got[3..] {
            near(zero, &[n, n], &vec![0.0; n * n], 1e-12);
        }
    }
}
