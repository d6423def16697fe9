//! Eigenvalues of general matrices, exponentials and products of reflections.

use super::*;

/// Pairs of numbers as real and imaginary parts.
fn parts(x: &Tensor) -> [Vec<f64>; 2] {
    [0, 1].map(|part| values(&x.select(-1, part)))
}

/// A·V = V·diag(λ), vectors of norm 1 whose greatest element is real, and conjugate values side by side.
#[track_caller]
fn proper(a: &[f64], n: usize, (of, vectors): &(Tensor, Tensor), tolerance: f64) {
    assert_eq!((of.dims(), vectors.dims()), (&[n, 2][..], &[n, n, 2][..]));
    let ([re, im], [x, y]) = (parts(of), parts(vectors));
    let size = a.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let (left, turning) = (product(a, &x, [n; 3]), product(a, &y, [n; 3]));
    for j in 0..n {
        let mut norm = 0.0;
        for i in 0..n {
            let (x, y) = (x[i * n + j], y[i * n + j]);
            let off = [
                left[i * n + j] - (re[j] * x - im[j] * y),
                turning[i * n + j] - (re[j] * y + im[j] * x),
            ];
            let most = off[0].abs().max(off[1].abs());
            assert!(
                most <= tolerance * size,
                "{n}: row {i} of vector {j}: {off:?}"
            );
            norm += x * x + y * y;
        }
        assert!((norm - 1.0).abs() < tolerance, "{norm}");
        // Several elements may be the greatest but for rounding.
        let column = || (0..n).map(|i| [x[i * n + j], y[i * n + j]]);
        let greatest = column().fold(0.0, |most: f64, [x, y]| most.max(x.hypot(y)));
        let real = |[x, y]: [f64; 2]| y.abs() < tolerance && x.abs() > greatest * (1.0 - tolerance);
        assert!(column().any(real), "{n}: vector {j}");
        if im[j] > 0.0 {
            assert_eq!((re[j], im[j]), (re[j + 1], -im[j + 1]));
        }
    }
}

#[test]
fn eigenvalues_of_general_matrices() {
    each(&WIDE, true, |dtype| {
        for n in [0, 1, 2, 3, 4, 5, 9, 20, 61, 130] {
            for seed in 0..if n < 10 { 20 } else { 2 } {
                let a = noise(n * n, 100 * n as u64 + seed);
                let x = dense(&[n, n], dtype, &a);
                let found = x.eig();
                proper(&a, n, &found, slack(dtype));
                // The sum and the sum of squares of the eigenvalues are traces.
                let [re, im] = parts(&x.eigvals());
                let square = product(&a, &a, [n; 3]);
                let trace = |a: &[f64]| (0..n).map(|i| a[i * n + i]).sum::<f64>();
                let squares = re.iter().zip(&im).map(|(x, y)| x * x - y * y);
                let bound = slack(dtype) * n.max(1) as f64;
                assert!((re.iter().sum::<f64>() - trace(&a)).abs() < bound);
                assert!((squares.sum::<f64>() - trace(&square)).abs() < 4.0 * bound);
                assert!(im.iter().sum::<f64>().abs() < bound);
            }
        }
    });
}

/// Matrices whose eigenvalues are known, among them those that plain shifts do not move, or that balancing is for.
#[test]
fn known_eigenvalues() {
    let cycle = |n: usize| -> Vec<f64> {
        (0..n * n)
            .map(|at| f64::from(u8::from((at / n + n - 1) % n == at % n)))
            .collect()
    };
    let roots = |n: usize| -> Vec<[f64; 2]> {
        (0..n)
            .map(|k| {
                let (s, c) = (std::f64::consts::TAU * k as f64 / n as f64).sin_cos();
                [c, s]
            })
            .collect()
    };
    let real = |values: &[f64]| values.iter().map(|&x| [x, 0.0]).collect::<Vec<_>>();
    let unlike = vec![1.0, 1e7, 0.0, 1e-7, 2.0, 1e5, 0.0, 1e-5, 3.0];
    // numpy.linalg.eigvals of the last two.
    let of_unlike = real(&[0.26794919243112186, 2.0, 3.732050807568877]);
    let companion = vec![6.0, -11.0, 6.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0];
    let cases: Vec<(usize, Vec<f64>, Vec<[f64; 2]>)> = vec![
        (3, one(3), real(&[1.0; 3])),
        (3, vec![0.0; 9], real(&[0.0; 3])),
        (2, vec![3.0, 5.0, 0.0, -1.0], real(&[3.0, -1.0])),
        (2, vec![0.0, 1.0, 0.0, 0.0], real(&[0.0, 0.0])),
        (
            2,
            vec![1e30, -1e30, 1e30, 1e30],
            vec![[1e30, 1e30], [1e30, -1e30]],
        ),
        (2, vec![0.0, 4.0, 1.0, 0.0], real(&[2.0, -2.0])),
        (3, cycle(3), roots(3)),
        (4, cycle(4), roots(4)),
        (16, cycle(16), roots(16)),
        (3, companion, real(&[1.0, 2.0, 3.0])),
        (3, unlike, of_unlike),
    ];
    each(&WIDE, true, |dtype| {
        for (n, a, expected) in &cases {
            let x = dense(&[*n, *n], dtype, a);
            proper(a, *n, &x.eig(), slack(dtype));
            let [re, im] = parts(&x.eigvals());
            let size = expected
                .iter()
                .fold(1e-300, |most: f64, z| most.max(z[0].hypot(z[1])));
            for [x, y] in expected {
                let near = |(re, im): (&f64, &f64)| (re - x).hypot(im - y) <= slack(dtype) * size;
                assert!(re.iter().zip(&im).any(near), "{x} + {y}i: {re:?} {im:?}");
            }
        }
    });
}

/// Σ Aᵏ / k! of a matrix divided by a power of two, squared as often.
fn exponential(a: &[f64], n: usize) -> Vec<f64> {
    const HALVES: i32 = 12;
    let a: Vec<f64> = a.iter().map(|x| x / f64::from(1 << HALVES)).collect();
    let (mut sum, mut term) = (one(n), one(n));
    for k in 1..20 {
        term = product(&term, &a, [n; 3])
            .iter()
            .map(|x| x / f64::from(k))
            .collect();
        sum.iter_mut().zip(&term).for_each(|(sum, x)| *sum += x);
    }
    (0..HALVES).fold(sum, |x, _| product(&x, &x, [n; 3]))
}

#[test]
fn exponentials_of_matrices() {
    each(&WIDE, true, |dtype| {
        let tolerance = match dtype {
            F64 => 1e-10,
            _ => 1e-4,
        };
        for n in [0, 1, 2, 3, 5, 17, 50] {
            for size in [0.0, 1e-3, 0.02, 0.2, 1.0, 3.0, 20.0] {
                let a: Vec<f64> = noise(n * n, n as u64)
                    .iter()
                    .map(|x| f64::from((x * size / n as f64) as f32))
                    .collect();
                let expected = exponential(&a, n);
                for x in forms(&[n, n], dtype, &a) {
                    let found = x.matrix_exp();
                    assert_eq!((found.dims(), found.dtype()), (&[n, n][..], dtype));
                    agree(&values(&found), &expected, tolerance);
                }
            }
        }
        let of = |numbers: &[f64]| values(&dense(&[2, 2], dtype, numbers).matrix_exp());
        agree(
            &of(&[-80.0, 0.0, 0.0, 1.0]),
            &[(-80f64).exp(), 0.0, 0.0, 1f64.exp()],
            1e-5,
        );
        agree(&of(&[0.0, 3.0, 0.0, 0.0]), &[1.0, 3.0, 0.0, 1.0], 1e-6);
        assert!(of(&[1.0, f64::NAN, 0.0, 0.0]).iter().all(|x| x.is_nan()));
        assert!(
            of(&[f64::INFINITY, 0.0, 0.0, 0.0])
                .iter()
                .all(|x| x.is_nan())
        );
    });
}

#[test]
fn batches_of_general_matrices() {
    each(&WIDE, true, |dtype| {
        let n = 5;
        let a = batch(6, |seed| noise(n * n, seed));
        for x in forms(&[2, 3, n, n], dtype, &a) {
            let all = [x.eig().1, x.eigvals(), x.matrix_exp(), x.lu().1];
            for i in 0..6 {
                let own = dense(&[n, n], dtype, &a[i * n * n..(i + 1) * n * n]);
                let own = [own.eig().1, own.eigvals(), own.matrix_exp(), own.lu().1];
                for (all, own) in all.iter().zip(&own) {
                    let shape = [&[6], own.dims()].concat();
                    let found = all.reshape(shape).select(0, i as isize);
                    equal(&found, own.dims(), &values(own));
                }
            }
        }
        for dims in [[0, 3, 3], [2, 0, 0]] {
            let x = dense(&dims, dtype, &[]);
            assert_eq!(x.eig().0.dims(), [dims[0], dims[1], 2]);
            assert_eq!(x.eig().1.dims(), [dims[0], dims[1], dims[2], 2]);
            assert_eq!(values(&x.eigvals()).len(), 0);
            assert_eq!(values(&x.matrix_exp()).len(), 0);
        }
    });
}

#[test]
fn reflections_multiply() {
    each(&WIDE, true, |dtype| {
        for [m, n, k] in [
            [4, 4, 4],
            [7, 3, 3],
            [6, 5, 2],
            [3, 3, 0],
            [50, 20, 20],
            [1, 1, 1],
        ] {
            let (a, tau) = (noise(m * n, 3), noise(k, 4));
            // The product of 1 − τ·v·vᵀ, one after another, and its first n columns.
            let mut q = one(m);
            for (j, tau) in tau.iter().enumerate() {
                let v = |i: usize| match i.cmp(&j) {
                    std::cmp::Ordering::Less => 0.0,
                    std::cmp::Ordering::Equal => 1.0,
                    std::cmp::Ordering::Greater => a[i * n + j],
                };
                for row in q.chunks_exact_mut(m) {
                    let along: f64 = (0..m).map(|i| row[i] * v(i)).sum();
                    (0..m).for_each(|i| row[i] -= tau * along * v(i));
                }
            }
            let expected: Vec<f64> = q
                .chunks_exact(m)
                .flat_map(|row| &row[..n])
                .copied()
                .collect();
            let x = dense(&[m, n], dtype, &a);
            let found = x.householder_product(&dense(&[k], dtype, &tau));
            assert_eq!(found.dims(), [m, n]);
            agree(&values(&found), &expected, slack(dtype));
        }
    });
}
