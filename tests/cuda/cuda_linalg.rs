//! Factorisations of matrices on a CUDA device, and equations by them: by what is left over in binary64, and beside the CPU's
//! where a matrix is far from singular. Where there is no device, every test says so and passes.

#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code)]
#[path = "../common/rng.rs"]
mod rng;

use common::{agree, device, epsilon, numbers};
use ferrotrace::DType::*;
use ferrotrace::prelude::*;
use ferrotrace::{jit, stats_scope};
use rng::Rng;

/// Sizes around those of blocks and tiles.
const SIZES: [usize; 13] = [1, 2, 5, 31, 32, 33, 64, 65, 96, 100, 129, 300, 1000];

/// Numbers between -2 and 2, the same on every device.
fn noise(shape: &[usize], dtype: DType, d: &Device) -> Tensor {
    let n = shape.iter().product();
    let mut rng = Rng::new(n as u64);
    let data: Vec<f32> = (0..n).map(|_| rng.uniform(-2.0, 2.0) as f32).collect();
    let host = Tensor::from_vec(data, shape, &Device::cpu());
    with_mode(Mode::Eager, || host.to_dtype(dtype)).to_device(d)
}

/// Symmetric positive definite matrices.
fn positive(shape: &[usize], dtype: DType, d: &Device) -> Tensor {
    let n = shape[shape.len() - 1];
    let x = noise(shape, dtype, d);
    x.matmul(&x.transpose(-1, -2)) / n as f64 + Tensor::eye(n, dtype, d)
}

/// Matrices whose triangles are far from singular.
fn dominant(shape: &[usize], dtype: DType, d: &Device) -> Tensor {
    let n = shape[shape.len() - 1];
    noise(shape, dtype, d) / n as f64 + Tensor::eye(n, dtype, d)
}

/// On the host, in binary64.
fn wide(x: &Tensor) -> Tensor {
    x.to_device(&Device::cpu()).to_dtype(F64)
}

/// The greatest |x|.
fn greatest(x: &Tensor) -> f64 {
    numbers(x).iter().fold(0.0, |most, x| x.abs().max(most))
}

/// Runs `f` in both modes; the host computes none of it.
#[track_caller]
fn on_device(f: impl Fn() -> Vec<Tensor>) -> Vec<Vec<Tensor>> {
    let run = |mode| {
        let (found, stats) = stats_scope(|| {
            let found = with_mode(mode, &f);
            with_mode(mode, || eval(&found)).unwrap_or_else(|e| panic!("{mode:?}: {e}"));
            found
        });
        assert_eq!(stats.host_runs, 0, "{mode:?}");
        found
    };
    vec![run(Mode::Compiled), run(Mode::Eager)]
}

#[test]
fn cholesky_factors() {
    let Some(d) = device() else { return };
    for dtype in [F32, F64] {
        for n in SIZES {
            let a = positive(&[n, n], dtype, &d);
            for found in on_device(|| vec![a.cholesky()]) {
                let (a, l) = (wide(&a), wide(&found[0]));
                let rest = greatest(&(l.matmul(&l.t()) - &a)) / greatest(&a);
                assert!(
                    rest <= 4.0 * n as f64 * epsilon(dtype),
                    "{dtype} {n}: {rest}"
                );
                assert_eq!(greatest(&(l.triu(1))), 0.0);
                assert!(numbers(&l.diagonal(0, 0, 1)).iter().all(|&x| x > 0.0));
            }
        }
    }
}

#[test]
fn equations_of_triangles() {
    let Some(d) = device() else { return };
    for dtype in [F32, F64] {
        for (n, k) in SIZES
            .into_iter()
            .zip([1, 3, 64, 1, 65, 40, 1, 200, 2, 1, 70, 1, 7])
        {
            let (a, b) = (dominant(&[n, n], dtype, &d), noise(&[n, k], dtype, &d));
            for form in 0..16 {
                let [upper, left, unit, turned] = [1, 2, 4, 8].map(|bit| form & bit != 0);
                let (a, b) = (
                    if turned { a.t() } else { a.clone() },
                    if left { b.clone() } else { b.t() },
                );
                for found in on_device(|| vec![a.solve_triangular(&b, upper, left, unit)]) {
                    let (a, b, x) = (wide(&a), wide(&b), wide(&found[0]));
                    let a = if upper {
                        a.triu(isize::from(unit))
                    } else {
                        a.tril(-isize::from(unit))
                    };
                    let a = if unit {
                        a + Tensor::eye(n, F64, &Device::cpu())
                    } else {
                        a
                    };
                    let product = if left { a.matmul(&x) } else { x.matmul(&a) };
                    let rest = greatest(&(product - &b)) / greatest(&x);
                    assert!(
                        rest <= 4.0 * n as f64 * epsilon(dtype),
                        "{dtype} {n} {form}: {rest}"
                    );
                }
            }
        }
    }
}

/// Pivots are few integers, and the factors multiply back to the matrix that they are of.
#[test]
fn pivots_of_eliminations() {
    let Some(d) = device() else { return };
    for dtype in [F32, F64] {
        for n in SIZES {
            let a = noise(&[n, n], dtype, &d) + 0.01;
            for found in on_device(|| <[Tensor; 3]>::from(a.lu()).into()) {
                let [p, l, u]: [Tensor; 3] = found.try_into().expect("three factors");
                let rest = wide(&p).matmul(&wide(&l)).matmul(&wide(&u)) - wide(&a);
                let scale = greatest(&wide(&a)) * n as f64;
                assert!(
                    greatest(&rest) <= 8.0 * epsilon(dtype) * scale,
                    "{dtype} {n}"
                );
            }
            for found in on_device(|| <[Tensor; 2]>::from(a.lu_factor()).into()) {
                let (factors, pivots) = (wide(&found[0]), found[1].to_device(&Device::cpu()));
                let (p, l, u) = factors.lu_unpack(&pivots);
                let rest = p.matmul(&l).matmul(&u) - wide(&a);
                let scale = greatest(&wide(&a)) * n as f64;
                assert!(
                    greatest(&rest) <= 8.0 * epsilon(dtype) * scale,
                    "{dtype} {n}"
                );
            }
        }
    }
}

#[test]
fn equations_of_matrices() {
    let Some(d) = device() else { return };
    for dtype in [F32, F64] {
        for (n, k) in SIZES
            .into_iter()
            .zip([1, 3, 64, 1, 65, 40, 1, 200, 2, 1, 70, 1, 7])
        {
            // Rows have to be exchanged in every step.
            let (a, b) = (noise(&[n, n], dtype, &d) + 0.01, noise(&[n, k], dtype, &d));
            for found in
                on_device(|| vec![a.solve(&b), a.t().solve(&b), a.slogdet().0, a.slogdet().1])
            {
                let (a, b) = (wide(&a), wide(&b));
                for (a, x) in [(a.clone(), &found[0]), (a.t(), &found[1])] {
                    let x = wide(x);
                    let scale = greatest(&a) * greatest(&x) * n as f64;
                    let rest = greatest(&(a.matmul(&x) - &b)) / scale;
                    assert!(
                        rest <= 8.0 * (n as f64).sqrt() * epsilon(dtype),
                        "{dtype} {n}: {rest}"
                    );
                }
                let (sign, log) = a.slogdet();
                assert_eq!(numbers(&found[2]), numbers(&sign), "{dtype} {n}");
                let (got, want) = (numbers(&found[3])[0], numbers(&log)[0]);
                // The derivative by an element is one of the inverse's.
                let slope = greatest(&a.inverse().abs().sum(..));
                let bound = epsilon(dtype) * greatest(&a) * slope;
                assert!(
                    (got - want).abs() <= bound.max(1e-12),
                    "{dtype} {n}: {got} for {want}"
                );
            }
        }
    }
}

/// Matrices of so many rows that fewer columns are eliminated at a time.
#[test]
fn long_columns() {
    let Some(d) = device() else { return };
    let single = [2100, 3100, 6500].map(|n| (F32, n));
    let double = [1600, 3100, 6200].map(|n| (F64, n));
    for (dtype, n) in single.into_iter().chain(double) {
        let (a, b) = (noise(&[n, n], dtype, &d), noise(&[n, 1], dtype, &d));
        let x = a.solve(&b);
        // Products in binary64 on the device are tested elsewhere.
        let (a, b, x) = (a.to_dtype(F64), b.to_dtype(F64), x.to_dtype(F64));
        let scale = greatest(&a.abs().sum(1)) * greatest(&x);
        let rest = greatest(&(a.matmul(&x) - &b)) / scale;
        assert!(rest <= 8.0 * epsilon(dtype), "{dtype} {n}: {rest}");
    }
}

/// Many small matrices, batches that broadcast, operands in any order, and none.
#[test]
fn batches() {
    for dtype in [F32, F64] {
        agree(200.0 * epsilon(dtype), |d| {
            let a = positive(&[5000, 4, 4], dtype, d);
            let b = noise(&[5000, 4, 2], dtype, d);
            vec![
                a.cholesky(),
                a.solve(&b),
                a.inverse(),
                a.det(),
                a.cholesky().cholesky_solve(&b),
            ]
        });
        agree(500.0 * epsilon(dtype), |d| {
            let (a, b) = (
                positive(&[3, 1, 40, 40], dtype, d),
                noise(&[2, 40, 3], dtype, d),
            );
            let l = a.cholesky();
            let turned = a.permute([3, 1, 0, 2]).permute([2, 1, 3, 0]);
            vec![
                a.solve(&b),
                l.solve_triangular(&b, false, true, false),
                l.transpose(-1, -2).solve_triangular(&b, true, true, false),
                turned.cholesky(),
                turned.solve(&b),
                a.select(1, 0).solve(&b.select(0, 0)),
                a.select(1, 0).transpose(-1, -2).solve(&b.narrow(0, 0, 1)),
                positive(&[40, 40], dtype, d).solve(&b.flip(-2)),
                positive(&[40, 40], dtype, d)
                    .cholesky()
                    .solve_triangular(&b, false, true, true),
            ]
        });
        agree(0.0, |d| {
            let (none, flat) = (
                Tensor::zeros([0, 3, 3], dtype, d),
                Tensor::zeros([2, 0, 0], dtype, d),
            );
            let (wide, narrow) = (
                Tensor::zeros([2, 0, 5], dtype, d),
                Tensor::zeros([3, 0], dtype, d),
            );
            vec![
                none.cholesky(),
                none.solve(&Tensor::zeros([3, 2], dtype, d)),
                flat.cholesky(),
                flat.solve(&wide),
                flat.det(),
                Tensor::eye(3, dtype, d).solve(&narrow),
                Tensor::eye(3, dtype, d).solve_triangular(&narrow, true, true, false),
            ]
        });
    }
}

/// What a matrix lacks is told as on the CPU; infinities and NaN come out where a triangle has a diagonal of zeros.
#[test]
fn matrices_without_factors() {
    let Some(d) = device() else { return };
    let told = |f: &dyn Fn(&Device) -> Tensor| {
        // But for the operands, of which the CPU's message names one more.
        let of = |d: &Device| {
            let error = f(d).eval().expect_err("no factors").to_string();
            error.split(" (operands").next().map(str::to_owned)
        };
        let (want, got) = (of(&Device::cpu()), of(&d));
        assert_eq!(got, want);
        assert_eq!(with_mode(Mode::Eager, || of(&d)), want);
    };
    for n in [3, 32, 70] {
        for at in [0, n / 2, n - 1] {
            // The matrices from the second on of a batch have an element on the diagonal that is taken away.
            let spoiled = move |d: &Device, by: f64| {
                let place = Tensor::arange(0, n as i64, 1, I64, d).eq(at as i64);
                let place = (place.unsqueeze(0) & place.unsqueeze(1)).to_dtype(F32);
                let second = Tensor::arange(0, 4, 1, I64, d).ge(1).to_dtype(F32);
                let x = Tensor::eye(n, F32, d) * 4.0;
                x - place * second.reshape([4, 1, 1]) * by
            };
            told(&|d| spoiled(d, 5.0).cholesky());
            told(&|d| spoiled(d, f64::NAN).cholesky());
            told(&|d| spoiled(d, 4.0).solve(&Tensor::ones([n, 2], F32, d)));
            told(&|d| spoiled(d, 4.0).select(0, 2).inverse());
        }
    }
    agree(0.0, |d| {
        let x = Tensor::eye(40, F64, d) * Tensor::arange(0, 40, 1, F64, d);
        let zeros = Tensor::zeros([40, 1], F64, d);
        vec![
            x.solve_triangular(&Tensor::ones([40, 1], F64, d), true, true, false),
            x.solve_triangular(&zeros, false, true, false),
            x.det(),
        ]
    });
}

/// The negative logarithm of a normal distribution's density, but for a constant.
fn density(x: &Tensor, a: &Tensor) -> Tensor {
    let n = a.dims()[1];
    let covariance = a.matmul(&a.t()) / n as f64 + Tensor::eye(n, F64, &a.device());
    let l = covariance.cholesky();
    let z = l.solve_triangular(&x.t(), false, true, false);
    (&z * &z).sum(..) * 0.5 + l.diagonal(0, 0, 1).log().sum(..) * x.dims()[0] as f64
}

/// Functions that are called again, with other numbers, and gradients.
#[test]
fn programs() {
    let Some(d) = device() else { return };
    let near = |got: &Tensor, want: &Tensor| {
        for (got, want) in numbers(got).into_iter().zip(numbers(want)) {
            assert!(
                (got - want).abs() <= 1e-9 * want.abs().max(1.0),
                "{got} for {want}"
            );
        }
    };
    let function = jit(|(x, a): (Tensor, Tensor)| density(&x, &a));
    let substitution = jit(|(l, b): (Tensor, Tensor)| {
        let x = l.solve_triangular(&(&b * 2.0), false, true, false) + 1.0;
        let y = l.solve_triangular(&x, true, true, true).relu();
        (l.matmul(&y) - x).exp()
    });
    for round in 0..6 {
        let by = 1.0 + f64::from(round) / 8.0;
        let of = |d: &Device| (noise(&[20, 80], F64, d) * by, noise(&[80, 80], F64, d) * by);
        let ((x, a), (hx, ha)) = (of(&d), of(&Device::cpu()));
        near(
            &function.call((x.clone(), a.clone())),
            &with_mode(Mode::Eager, || density(&hx, &ha)),
        );
        let gradient = |x: &Tensor, a: &Tensor| {
            let a = a.clone().requires_grad();
            grad(&density(x, &a), &[&a]).remove(0)
        };
        near(&gradient(&x, &a), &gradient(&hx, &ha));
        let solved = |l: &Tensor, b: &Tensor| {
            let l = l / 80.0 + Tensor::eye(80, F64, &l.device());
            substitution.call((l, b.t()))
        };
        near(&solved(&a, &x), &solved(&ha, &hx));
        let loss = |x: &Tensor, a: &Tensor| {
            let a = a.clone().requires_grad();
            let m = &a / 80.0 + Tensor::eye(80, F64, &a.device());
            let y = m.solve(&x.t()).pow(2.0).sum(..) + m.slogdet().1;
            grad(&y, &[&a]).remove(0)
        };
        near(&loss(&x, &a), &loss(&hx, &ha));
    }
}
