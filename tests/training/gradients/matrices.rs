//! Gradients of factorisations and equations of matrices.

use super::check::{Case, agree, case, numbers, of};
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

/// Numbers between −1.5 and 1.5 that have no pattern: matrices of them are regular.
fn sample(dims: &[usize]) -> Tensor {
    let number = |i: usize| ((i * i) as f64 * 0.7 + i as f64 + 1.0).sin() * 1.5;
    let numbers: Vec<f64> = (0..dims.iter().product()).map(number).collect();
    of(dims, &numbers)
}

/// A matrix near a multiple of the identity.
fn near_one(x: &Tensor) -> Tensor {
    let n = x.dims()[x.rank() - 1];
    x * 0.25 + Tensor::eye(n, x.dtype(), &x.device()) * 1.75
}

/// A symmetric positive definite matrix.
fn definite(x: &Tensor) -> Tensor {
    let n = x.dims()[x.rank() - 1];
    x.matmul(&x.transpose(-2, -1)) * 0.25 + Tensor::eye(n, x.dtype(), &x.device())
}

/// All elements as one vector.
fn joined(tensors: &[&Tensor]) -> Tensor {
    let flat: Vec<Tensor> = tensors.iter().map(|x| x.reshape(x.numel())).collect();
    Tensor::cat(&flat, 0)
}

fn wide(name: &'static str, inputs: &[&Tensor], f: impl Fn(&[Tensor]) -> Tensor + 'static) -> Case {
    case(name, inputs, f).wide()
}

#[test]
fn factors_of_definite_matrices() {
    let (x, b) = (sample(&[2, 3, 3]), sample(&[3, 2]));
    agree(&[
        wide("cholesky", &[&x], |t| definite(&t[0]).cholesky()),
        wide("one number", &[&sample(&[1, 1])], |t| {
            definite(&t[0]).cholesky()
        }),
        wide("cholesky_solve", &[&x, &b], |t| {
            definite(&t[0]).cholesky().cholesky_solve(&t[1])
        }),
    ]);
    // Of the symmetric matrix itself: PyTorch's gradient is symmetric.
    let a = definite(&sample(&[3, 3])).detach().requires_grad();
    let found = grad(&a.cholesky().square().sum(..), &[&a]).remove(0);
    // The squares add up to the trace.
    assert!(
        found
            .allclose(&Tensor::eye(3, F64, &Device::cpu()), 1e-12, 1e-12)
            .expect("numbers")
    );
}

#[test]
fn equations_of_triangles() {
    let (x, b) = (sample(&[2, 3, 3]), sample(&[3, 2]));
    let mut cases = Vec::new();
    for at in 0..8 {
        let [upper, left, unit] = [at & 1, at & 2, at & 4].map(|bit| bit > 0);
        cases.push(wide("solve_triangular", &[&x, &b], move |t| {
            let b = if left { t[1].clone() } else { t[1].t() };
            near_one(&t[0]).solve_triangular(&b, upper, left, unit)
        }));
    }
    agree(&cases);
}

#[test]
fn equations_of_square_matrices() {
    let (x, b) = (sample(&[2, 3, 3]), sample(&[2, 1, 3, 2]));
    agree(&[
        wide("solve", &[&x, &b], |t| near_one(&t[0]).solve(&t[1])),
        wide("a vector", &[&x, &sample(&[3])], |t| {
            near_one(&t[0]).solve(&t[1])
        }),
        wide("one matrix", &[&sample(&[3, 3]), &b], |t| {
            near_one(&t[0]).solve(&t[1])
        }),
        // Rows are exchanged.
        wide("turned", &[&x, &b], |t| {
            near_one(&t[0]).flip(-1).solve(&t[1])
        }),
        wide("inverse", &[&x], |t| near_one(&t[0]).inverse()),
        wide("matrix_power", &[&x], |t| near_one(&t[0]).matrix_power(-2)),
        wide("lstsq", &[&sample(&[4, 2]), &sample(&[4, 3])], |t| {
            t[0].lstsq(&t[1])
        }),
    ]);
}

#[test]
fn determinants() {
    let x = sample(&[2, 3, 3]);
    let singular = of(&[3, 3], &[1.0, 2.0, 3.0, 2.0, 4.0, 6.0, 1.0, 0.0, 1.0]);
    agree(&[
        wide("det", &[&x], |t| t[0].det()),
        wide("exchanged", &[&x], |t| near_one(&t[0]).flip(-2).det()),
        wide("slogdet", &[&x], |t| near_one(&t[0]).slogdet().1),
        wide("no rows", &[&sample(&[2, 0, 0])], |t| t[0].det()),
        wide("singular", &[&singular], |t| t[0].det()).once(),
    ]);
}

#[test]
fn orthonormal_columns() {
    let both = |t: &[Tensor]| {
        let (q, r) = t[0].qr();
        joined(&[&q, &r])
    };
    agree(&[
        wide("tall", &[&sample(&[2, 4, 3])], both),
        wide("square", &[&sample(&[3, 3])], both),
        wide("wide", &[&sample(&[2, 4])], both),
    ]);
}

#[test]
fn eigenvectors() {
    let symmetric = |x: &Tensor| x + x.transpose(-2, -1);
    agree(&[
        wide("values", &[&sample(&[2, 3, 3])], move |t| {
            symmetric(&t[0]).eigh().0
        }),
        wide("vectors", &[&sample(&[2, 3, 3])], move |t| {
            symmetric(&t[0]).eigh().1.square()
        }),
        wide("a function", &[&sample(&[3, 3])], move |t| {
            let (w, v) = symmetric(&t[0]).eigh();
            (&v * (w * 0.25).exp()).matmul(&v.t())
        }),
        wide("eigvalsh", &[&sample(&[3, 3])], move |t| {
            symmetric(&t[0]).eigvalsh()
        }),
    ]);
    // Sums of functions of equal values have a gradient.
    let x = Tensor::eye(3, F64, &Device::cpu()).requires_grad();
    let found = numbers(&grad(&x.eigvalsh().exp().sum(..), &[&x]).remove(0));
    for (i, x) in found.iter().enumerate() {
        let want = if i % 4 == 0 { 1f64.exp() } else { 0.0 };
        assert!((x - want).abs() < 1e-12, "{found:?}");
    }
}

/// Values and vectors as complex numbers, of which a phase does not change the results.
#[test]
fn general_eigenvectors() {
    let weights = |x: &Tensor| Tensor::arange(1, 4, 1, F64, &x.device()).unsqueeze(-1);
    // Eigenvalues that lie close have gradients of vectors that differences do not tell.
    let apart = |x: &Tensor| x + Tensor::from_slice(&[0.0, 2.0, -3.0], 3, &x.device()).diag(0);
    // Functions of all eigenvalues, in whatever order.
    let powers = |w: &Tensor| {
        let (x, y) = (w.select(-1, 0), w.select(-1, 1));
        let square = x.square() - y.square();
        (x * 0.3).exp() * (&y * 0.3).cos() + square * y.square()
    };
    agree(&[
        wide("eigvals", &[&sample(&[2, 3, 3])], move |t| {
            powers(&t[0].eigvals()).sum(-1)
        }),
        wide("values", &[&sample(&[4, 4])], move |t| {
            powers(&t[0].eig().0).sum(-1)
        }),
        wide("vectors", &[&sample(&[3, 3])], move |t| {
            let v = apart(&t[0]).eig().1.complex_abs();
            (&v * weights(&v)).square().sum(-2).sort(-1, false).0
        }),
        wide("both", &[&sample(&[2, 3, 3])], move |t| {
            let (w, v) = apart(&t[0]).eig();
            (v.complex_abs().square() * powers(&w).unsqueeze(-2)).sum(-1)
        }),
    ]);
}

#[test]
fn exponentials() {
    agree(&[
        wide("small", &[&sample(&[2, 3, 3])], |t| t[0].matrix_exp()),
        wide("squared", &[&sample(&[3, 3])], |t| {
            (&t[0] * 3.0).matrix_exp() * 0.01
        }),
        wide("no rows", &[&sample(&[2, 0, 0])], |t| t[0].matrix_exp()),
    ]);
}

#[test]
fn eliminations() {
    let all = |t: &[Tensor]| {
        let (p, l, u) = t[0].lu();
        joined(&[&p, &l, &u])
    };
    agree(&[
        wide("square", &[&sample(&[2, 3, 3])], all),
        wide("tall", &[&sample(&[4, 2])], all),
        wide("wide", &[&sample(&[2, 4])], all),
        wide("lu_factor", &[&sample(&[3, 3])], |t| t[0].lu_factor().0),
        wide("lu_solve", &[&sample(&[2, 3, 3]), &sample(&[3, 2])], |t| {
            let (factors, pivots) = near_one(&t[0]).lu_factor();
            factors.lu_solve(&pivots, &t[1])
        }),
        wide(
            "reflections",
            &[&sample(&[2, 4, 3]), &sample(&[2, 3])],
            |t| t[0].householder_product(&t[1]),
        ),
    ]);
}

#[test]
fn singular_vectors() {
    let all = |t: &[Tensor]| {
        let (u, s, vh) = t[0].svd();
        joined(&[&u.square(), &s, &vh.square(), &(&u * s.sin()).matmul(&vh)])
    };
    agree(&[
        wide("square", &[&sample(&[3, 3])], all),
        wide("tall", &[&sample(&[4, 3])], all),
        wide("wide", &[&sample(&[2, 4])], all),
        wide("svdvals", &[&sample(&[2, 3, 2])], |t| t[0].svdvals()),
        wide("pinv", &[&sample(&[4, 2])], |t| t[0].pinv()),
    ]);
    let x = (Tensor::eye(3, F64, &Device::cpu()) * 2.0).requires_grad();
    let found = grad(&x.svdvals().square().sum(..), &[&x]).remove(0);
    assert!(
        found
            .allclose(&(&x * 2.0).detach(), 1e-12, 1e-12)
            .expect("numbers")
    );
}
