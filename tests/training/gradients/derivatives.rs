//! Matrices of first and of second derivatives, in both modes and in compiled functions.

use ferrotrace::prelude::*;
use ferrotrace::{hessian, jacobian};

fn both(body: impl Fn()) {
    with_mode(Mode::Compiled, &body);
    with_mode(Mode::Eager, &body);
}

fn of(values: &[f64], shape: impl Into<Shape>) -> Tensor {
    Tensor::from_slice(values, shape, &Device::cpu())
}

#[track_caller]
fn near(got: &Tensor, dims: &[usize], want: &[f64]) {
    assert_eq!(got.dims(), dims, "{got}");
    let got = got.to_dtype(DType::F64).to_vec::<f64>().unwrap();
    for (a, b) in got.iter().zip(want) {
        assert!(
            (a - b).abs() <= 1e-5 * b.abs().max(1.0),
            "{got:?} for {want:?}"
        );
    }
}

/// The derivative of X·X by X: element (i, j) by (k, l) is δ(i, k)·x(l, j) + x(i, k)·δ(l, j).
fn of_square(x: &[f64; 4]) -> Vec<f64> {
    let at = |p: usize, q: usize| x[2 * p + q];
    let one = |p: usize, q: usize| f64::from(p == q);
    let mut all = Vec::new();
    for n in 0..16 {
        let (i, j, k, l) = (n / 8, n / 4 % 2, n / 2 % 2, n % 2);
        all.push(one(i, k) * at(l, j) + at(i, k) * one(l, j));
    }
    all
}

#[test]
fn first_derivatives() {
    let a = [1.0, 2.0, -3.0, 0.5];
    let compiled = jit(|x: &Tensor| jacobian(|x| x.matmul(x), x));
    both(|| {
        for dtype in [DType::F64, DType::F32] {
            let x = of(&a, [2, 2]).to_dtype(dtype);
            let slopes = jacobian(|x| x.matmul(x), &x);
            near(&slopes, &[2, 2, 2, 2], &of_square(&a));
            assert_eq!(slopes.dtype(), dtype);
            assert!(!slopes.has_grad());
            near(&compiled.call(&x), &[2, 2, 2, 2], &of_square(&a));
            // A view, and another of other numbers: the replay reads what it is given.
            let turned = [a[0], a[2], a[1], a[3]];
            near(&compiled.call(&x.t()), &[2, 2, 2, 2], &of_square(&turned));
        }
        let x = of(&a, 4);
        near(&jacobian(|x| x.sum(..), &x), &[4], &[1.0; 4]);
        let squares: Vec<f64> = (0..16)
            .map(|n| if n % 5 == 0 { 2.0 * a[n / 5] } else { 0.0 })
            .collect();
        near(&jacobian(|x| x.square(), &x), &[4, 4], &squares);
        let number = of(&[3.0], ());
        near(&jacobian(|x| x * x, &number), &[], &[6.0]);
        near(&jacobian(|x| x * of(&a, 4), &number), &[4], &a);
    });
}

#[test]
fn first_derivatives_of_nothing_and_of_constants() {
    both(|| {
        let x = of(&[1.0, 2.0], 2);
        assert_eq!(jacobian(|x| x.at(..0), &x).dims(), [0, 2]);
        assert_eq!(jacobian(|x| x.sum(..), &x.at(..0)).dims(), [0]);
        near(
            &jacobian(|_| of(&[5.0, 6.0, 7.0], 3), &x),
            &[3, 2],
            &[0.0; 6],
        );
        // What is captured does not count, though it is the same tensor.
        near(&jacobian(|y| y * &x, &x), &[2, 2], &[1.0, 0.0, 0.0, 2.0]);
        let cut = jacobian(|x| x.detach() * x, &x);
        near(&cut, &[2, 2], &[1.0, 0.0, 0.0, 2.0]);
    });
}

#[test]
fn second_derivatives() {
    // Rosenbrock's function, whose second derivatives are known.
    let f = |x: &Tensor| {
        let (a, b) = (x.at(0), x.at(1));
        (1.0 - &a).square() + (b - a.square()).square() * 100.0
    };
    let compiled = jit(move |x: &Tensor| hessian(f, x));
    both(|| {
        for dtype in [DType::F64, DType::F32] {
            let x = of(&[0.5, -1.5], 2).to_dtype(dtype);
            let want = [2.0 + 1200.0 * 0.25 + 600.0, -200.0, -200.0, 200.0];
            near(&hessian(f, &x), &[2, 2], &want);
            near(&compiled.call(&x), &[2, 2], &want);
            let want = [2.0 + 1200.0 * 2.25 - 200.0, 600.0, 600.0, 200.0];
            near(&compiled.call(&x.flip(0)), &[2, 2], &want);
        }
        let x = of(&[1.0, 2.0, 3.0, 4.0], [2, 2]);
        let curvature = hessian(|x| x.square().sum(..), &x);
        let want: Vec<f64> = (0..16)
            .map(|n| if n % 5 == 0 { 2.0 } else { 0.0 })
            .collect();
        near(&curvature, &[2, 2, 2, 2], &want);
        near(&hessian(|x| x.sum(..), &x), &[2, 2, 2, 2], &[0.0; 16]);
        near(&hessian(|_| of(&[1.0], 1), &x), &[2, 2, 2, 2], &[0.0; 16]);
        near(&hessian(|x| x * x * x, &of(&[2.0], ())), &[], &[12.0]);
    });
}

#[test]
fn derivatives_that_are_differentiated() {
    both(|| {
        let w = of(&[3.0, -2.0], 2).requires_grad();
        let x = of(&[1.0, 2.0], 2);
        // The Jacobian of x²·w is 2·x·w on the diagonal.
        let slopes = jacobian(|x| x.square() * &w, &x);
        near(&slopes, &[2, 2], &[6.0, 0.0, 0.0, -8.0]);
        let by = grad(&slopes.square().sum(..), &[&w]).remove(0);
        near(&by, &[2], &[2.0 * 4.0 * 3.0, 2.0 * 16.0 * -2.0]);
        let curvature = hessian(|x| (x.square() * &w).sum(..), &x);
        let by = grad(&curvature.sum(..), &[&w]).remove(0);
        near(&by, &[2], &[2.0, 2.0]);
    });
}

#[test]
fn derivatives_that_do_not_exist() {
    let told = |x: &Tensor, parts: &[&str]| {
        let error = x.error().expect("an error").to_string();
        for part in parts {
            assert!(error.contains(part), "{part:?} is not in {error}");
        }
        assert!(error.contains("derivatives.rs"), "{error}");
    };
    both(|| {
        let x = of(&[1.0, 2.0], 2);
        let whole = x.to_dtype(DType::I64);
        told(&jacobian(|x| x.clone(), &whole), &["jacobian: ", "i64"]);
        told(&jacobian(|x| x.gt(1.0), &x), &["jacobian: ", "bool"]);
        told(&jacobian(|x| x.reshape(3), &x), &["jacobian: ", "reshape"]);
        told(&jacobian(|x| x.exp(), &x.reshape(3)), &["jacobian: "]);
        told(&hessian(|x| x.exp(), &x), &["hessian: ", "[2]"]);
        told(&hessian(|x| x.sum(..), &whole), &["hessian: ", "i64"]);
    });
}
