//! Norms and ranks of matrices. Values are PyTorch's.

use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

const INF: f64 = f64::INFINITY;

#[test]
fn norms_of_matrices() {
    let a = [1.0, -2.0, 3.0, 4.0, 0.5, -6.0];
    let cases = [
        (INF, 10.5),
        (-INF, 6.0),
        (1.0, 9.0),
        (-1.0, 2.5),
        (2.0, 7.578302622266295),
        (-2.0, 2.9697355716211162),
    ];
    each(&FLOATS, true, |dtype| {
        for x in forms(&[2, 3], dtype, &a) {
            for (ord, want) in cases {
                near(&x.matrix_norm(ord, (0, 1)), &[], &[want], unit(dtype));
            }
            near(
                &x.matrix_norm("fro", (0, 1)),
                &[],
                &[8.139410298049853],
                unit(dtype),
            );
            near(
                &x.matrix_norm("nuc", (0, 1)),
                &[],
                &[10.548038193887411],
                unit(dtype),
            );
            near(&x.matrix_norm(1, (1, 0)), &[], &[10.5], unit(dtype));
            near(&x.vector_norm(1.0, 1), &[2], &[6.0, 10.5], unit(dtype));
            near(
                &x.vector_norm_keepdim(INF, 0),
                &[1, 3],
                &[4.0, 2.0, 6.0],
                0.0,
            );
            assert_eq!(x.matrix_norm("nuc", (0, 1)).dtype(), dtype);
        }
    });
}

#[test]
fn norms_of_batches_over_any_two_dimensions() {
    let cases = [
        (
            "fro".into(),
            [3.276335605520289, 3.132491021535417, 2.947456530637899],
        ),
        (
            "nuc".into(),
            [4.590788549268773, 4.175539518075189, 3.760792030624241],
        ),
        (1.into(), [3.875, 4.25, 4.25]),
        (
            2.into(),
            [2.6090064937453112, 2.8276801814862216, 2.779206799403133],
        ),
        (
            (-2.0).into(),
            [1.9817820555234613, 1.347859336588967, 0.981585231221108],
        ),
        (INF.into(), [2.25, 2.25, 2.25]),
    ];
    let cases: [(ferrotrace::MatrixNorm, [f64; 3]); 6] = cases;
    both(|| {
        for (dtype, tolerance) in [(F64, 1e-13), (F32, 1e-6)] {
            for x in forms(&[2, 3, 4], dtype, &eighths(24)) {
                for (ord, want) in &cases {
                    let ord = || ord.clone();
                    near(&x.matrix_norm(ord(), (2, 0)), &[3], want, tolerance);
                    let kept = x.matrix_norm_keepdim(ord(), (2, 0));
                    near(&kept, &[1, 3, 1], want, tolerance);
                }
            }
        }
    });
}

#[test]
fn norms_of_nothing_and_refusals() {
    both(|| {
        for shape in [[2, 0], [0, 2]] {
            let x = Tensor::ones(shape, F64, &cpu());
            for ord in [1.0, 2.0, INF] {
                equal(&x.matrix_norm(ord, (0, 1)), &[], &[0.0]);
            }
            equal(&x.matrix_norm("fro", (0, 1)), &[], &[0.0]);
            equal(&x.matrix_norm("nuc", (0, 1)), &[], &[0.0]);
            fails(&x.matrix_norm(-2, (0, 1)), &["matrix_norm"]);
        }
        let x = Tensor::ones([2, 2], F32, &cpu());
        fails(&x.matrix_norm(3, (0, 1)), &["matrix_norm: 3 is no norm"]);
        fails(
            &x.matrix_norm("max", (0, 1)),
            &["matrix_norm: max is no norm"],
        );
        fails(&x.matrix_norm(1, 0), &["matrix_norm: 1 dimensions"]);
        fails(&x.matrix_norm(1, (0, 0)), &["matrix_norm", "twice"]);
        fails(
            &ints(&[1, 2]).unsqueeze(0).matrix_norm("fro", (0, 1)),
            &["matrix_norm", "i64"],
        );
        equal(&ints(&[3, 4]).vector_norm(2.0, 0), &[], &[5.0]);
        let x = x.requires_grad();
        let slope = grad(&x.matrix_norm("nuc", (0, 1)), &[&x]).remove(0);
        assert_eq!(slope.dims(), [2, 2]);
        let x = dense(&[2, 2], F64, &[1.0, 2.0, 3.0, 5.0]).requires_grad();
        let slope = grad(&x.matrix_norm(1, (0, 1)), &[&x]).remove(0);
        equal(&slope, &[2, 2], &[0.0, 1.0, 0.0, 1.0]);
    });
}

#[test]
fn ranks() {
    let a = [1.0, 2.0, 3.0, 2.0, 4.0, 6.0, 1.0, 0.0, 1.0];
    both(|| {
        for dtype in [F64, F32] {
            for x in forms(&[3, 3], dtype, &a) {
                let rank = |atol, rtol| x.matrix_rank(atol, rtol, false);
                equal(&rank(None, None), &[], &[2.0]);
                equal(&rank(Some(2.0), None), &[], &[1.0]);
                equal(&rank(None, Some(0.5)), &[], &[1.0]);
                equal(&rank(Some(0.0), None), &[], &[2.0]);
                equal(&rank(Some(0.1), Some(0.5)), &[], &[1.0]);
                assert_eq!(rank(None, None).dtype(), I64);
            }
            let x = dense(&[2, 2], dtype, &[2.0, 9.0, 0.0, -1e-3]);
            equal(&x.matrix_rank(None, None, true), &[], &[2.0]);
            equal(&x.matrix_rank(Some(0.01), None, true), &[], &[1.0]);
            let many = Tensor::stack(&[&x, &x.zeros_like()], 0).at((.., .., ..1));
            equal(&many.matrix_rank(None, None, false), &[2], &[1.0, 0.0]);
        }
        let none = Tensor::ones([3, 2, 0], F32, &cpu());
        equal(&none.matrix_rank(None, None, false), &[3], &[0.0; 3]);
        fails(
            &ints(&[1, 2]).matrix_rank(None, None, false),
            &["matrix_rank"],
        );
        fails(
            &none.at((0, 0)).matrix_rank(None, None, false),
            &["matrix_rank: [0]"],
        );
        fails(&none.matrix_rank(None, None, true), &["matrix_rank"]);
    });
}
