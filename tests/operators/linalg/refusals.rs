//! What recording refuses, and what only the numbers tell.

use super::*;

/// The error that reading a result tells, in both modes, names the method and the caller's file.
#[track_caller]
fn told(name: &str, parts: &[&str], call: impl Fn() -> Tensor) {
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            let error = call().to_vec::<f64>().expect_err(name).to_string();
            assert!(error.starts_with(&format!("{name}: ")), "{error}");
            assert!(error.contains("refusals.rs"), "{error}");
            for part in parts {
                assert!(error.contains(part), "{part:?} is not in {error}");
            }
        });
    }
}

#[test]
fn what_the_numbers_refuse() {
    let of = |numbers: &[f64]| dense(&[2, 2], F64, numbers);
    let x = of(&[1.0, 2.0, 2.0, 1.0]);
    told(
        "cholesky",
        &["the matrix is not positive definite", "order 2"],
        || x.cholesky() * 2.0,
    );
    let nan = of(&[1.0, 0.0, f64::NAN, 1.0]);
    told("cholesky", &["order 2"], || nan.cholesky());
    let singular = of(&[1.0, 2.0, 2.0, 4.0]);
    let b = dense(&[2], F64, &[1.0, 1.0]);
    told("solve", &["the matrix is singular", "pivot 2"], || {
        singular.solve(&b)
    });
    told("inverse", &["singular"], || singular.inverse());
    told("matrix_power", &["singular"], || singular.matrix_power(-1));
    told("eigh", &["not finite"], || nan.eigh().0);
    told("eigh", &["not finite"], || nan.eigh().1);
    told("eigvalsh", &["not finite"], || nan.eigvalsh());
    told("eig", &["not finite"], || nan.eig().1);
    told("eigvals", &["not finite"], || nan.eigvals());
    told("svd", &["not finite"], || nan.svd().2);
    told("svdvals", &["not finite"], || nan.svdvals());
    // The first of a batch is told; what does not depend on it is computed.
    let all = Tensor::stack([&of(&one(2)), &x, &-&x], 0);
    told("cholesky", &["matrix 1 of the batch"], || all.cholesky());
    both(|| {
        let (good, bad) = (&all * 2.0, all.cholesky() + 1.0);
        assert!(bad.to_vec::<f64>().is_err());
        assert!(good.to_vec::<f64>().is_ok());
        // Other methods pass NaN on.
        assert!(values(&nan.solve(&b)).iter().any(|x| x.is_nan()));
        assert!(values(&nan.det())[0].is_nan());
        assert!(values(&nan.qr().1).iter().any(|x| x.is_nan()));
    });
    let f = jit(|x: &Tensor| x.cholesky());
    assert!(f.call(&of(&one(2))).to_vec::<f64>().is_ok());
    assert!(f.call(&x).to_vec::<f64>().is_err());
    assert!(f.call(&of(&one(2))).to_vec::<f64>().is_ok());
}

/// The tensor carries an error of the method of this name with these words, of a line of this file.
#[track_caller]
fn refused(x: &Tensor, name: &str, words: &str) {
    let error = x.error().expect(name).to_string();
    assert!(error.starts_with(&format!("{name}: ")), "{error}");
    assert!(
        error.contains(words) && error.contains("refusals.rs"),
        "{error}"
    );
}

type Unary = fn(&Tensor) -> Tensor;

#[test]
fn what_recording_refuses() {
    both(|| {
        let calls: [(&str, Unary); 17] = [
            ("cholesky", |x| x.cholesky()),
            ("cholesky_solve", |x| x.cholesky_solve(x)),
            ("solve_triangular", |x| {
                x.solve_triangular(x, true, false, true)
            }),
            ("solve", |x| x.solve(x)),
            ("inverse", |x| x.inverse()),
            ("det", |x| x.det()),
            ("slogdet", |x| x.slogdet().1),
            ("matrix_power", |x| x.matrix_power(-2)),
            ("eigh", |x| x.eigh().1),
            ("eig", |x| x.eig().1),
            ("eigvals", |x| x.eigvals()),
            ("matrix_exp", |x| x.matrix_exp()),
            ("eigvalsh", |x| x.eigvalsh()),
            ("svd", |x| x.svd().1),
            ("pinv", |x| x.pinv()),
            ("lu", |x| x.lu().1),
            ("lu_factor", |x| x.lu_factor().1),
        ];
        for (i, (name, call)) in calls.into_iter().enumerate() {
            let remedy = format!("{name} does not take i64: to_dtype(DType::F32) first");
            refused(&call(&dense(&[2, 2], I64, &[1.0; 4])), name, &remedy);
            let words = format!("{name} does not take bf16");
            refused(&call(&dense(&[2, 2], BF16, &[1.0; 4])), name, &words);
            refused(
                &call(&dense(&[2], F32, &[1.0; 2])),
                name,
                "[2] is no matrix",
            );
            if i < 13 {
                let wide = call(&dense(&[2, 3], F32, &[1.0; 6]));
                refused(&wide, name, "is not square");
            }
        }
        let x = dense(&[2, 2], F64, &one(2));
        let b = dense(&[3, 2], F64, &[1.0; 6]);
        refused(&b.matrix_power(2), "matrix_power", "3 by 2");
        refused(&x.solve(&b), "solve", "2 equations of 3 numbers");
        let tau = dense(&[3], F64, &[1.0; 3]);
        refused(
            &b.householder_product(&tau),
            "householder_product",
            "3 reflections",
        );
        refused(&x.lstsq(&b), "lstsq", "2 equations of 3 numbers");
        refused(&b.t().lstsq(&x), "lstsq", "2 by 3 has fewer rows");
        let (many, others) = (x.expand([2, 2, 2]), b.expand([3, 3, 2]).narrow(1, 0, 2));
        refused(
            &many.solve(&others),
            "solve",
            "[2] and [3] do not broadcast",
        );
    });
}
