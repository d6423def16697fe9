//! Products of vectors, of many matrices, and products that are added. Values are PyTorch's.

use super::{apart, differentiable, refused};
use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

const A: [f64; 6] = [1.0, -2.0, 3.0, 4.0, 0.5, -6.0];

#[test]
fn products_of_vectors_along_a_dimension() {
    let a = eighths(24);
    let across = [
        6.34375, 1.3125, 5.453125, 2.296875, -2.4375, -1.84375, -2.25, -0.75,
    ];
    let along = [
        4.46875, -4.984375, -3.296875, 6.265625, -0.796875, -1.078125,
    ];
    each(&FLOATS, true, |dtype| {
        for x in forms(&[2, 3, 4], dtype, &a) {
            near(&x.vecdot(&x.at(0), 1), &[2, 4], &across, unit(dtype));
            let rows = x.at((.., ..1));
            near(&x.vecdot(&rows, -1), &[2, 3], &along, unit(dtype));
            assert_eq!(x.vecdot(&rows, -1).dtype(), dtype);
        }
    });
    both(|| {
        let x = dense(&[2, 3], F32, &A);
        assert_eq!(x.vecdot(&ints(&[1, 2, 3]), 1).dtype(), F32);
        equal(&x.vecdot(&ints(&[1, 2, 3]), 1), &[2], &[6.0, -13.0]);
        equal(
            &x.at((.., ..0)).vecdot(&x.at((.., ..0)), 1),
            &[2],
            &[0.0; 2],
        );
        refused(&ints(&[1]).vecdot(&ints(&[1]), 0), "vecdot", &["i64"]);
        refused(&x.vecdot(&x.at((.., ..2)), 0), "vecdot", &["[2, 2]"]);
        refused(&x.vecdot(&x, 2), "vecdot", &["2"]);
        // The sum is a half, though its terms' is none.
        let far = dense(&[2], F16, &[300.0, 300.0]);
        equal(
            &far.vecdot(&dense(&[2], F16, &[300.0, -300.0]), 0),
            &[],
            &[0.0],
        );
    });
    let inputs = [
        dense(&[2, 3], F64, &apart(6)),
        dense(&[3], F64, &apart(9)[6..]),
    ];
    differentiable(&inputs, &|v| v[0].vecdot(&v[1], -1));
}

#[test]
fn products_that_are_added() {
    each(&FLOATS, true, |dtype| {
        let of = |x: &[f64]| dense(&[x.len()], dtype, x);
        let v = of(&[1.0, 0.0, 2.0]);
        for a in forms(&[2, 3], dtype, &A) {
            let y = of(&[1.0, 2.0]).addmv(&a, &v, 2, 3);
            near(&y, &[2], &[23.0, -20.0], unit(dtype));
            let y = of(&[f64::NAN]).addmv(&a, &v, 0, 1);
            near(&y, &[2], &[7.0, -8.0], unit(dtype));
            let one = Tensor::scalar(1, dtype, &cpu());
            near(&one.addmv(&a, &v, 1, 1), &[2], &[8.0, -7.0], unit(dtype));
            assert_eq!(y.dtype(), dtype);
        }
        for b in forms(&[3], dtype, &[4.0, 5.0, 6.0]) {
            let y = of(&[1.0, 2.0, 3.0]).addr(&of(&[1.0, -1.0]), &b, 0.5, 2);
            near(
                &y,
                &[2, 3],
                &[8.5, 11.0, 13.5, -7.5, -9.0, -10.5],
                unit(dtype),
            );
        }
    });
    both(|| {
        let y = ints(&[1, 2]).addr(&ints(&[3, 4]), &ints(&[5, 6]), 2, 3);
        equal(&y, &[2, 2], &[47.0, 58.0, 62.0, 76.0]);
        let a = ints(&[3, 4, 1, 1]).reshape([2, 2]);
        equal(
            &ints(&[1]).addmv(&a, &ints(&[5, 6]), 2, 3),
            &[2],
            &[119.0, 35.0],
        );
        let (x, m) = (dense(&[2], F32, &[1.0, 2.0]), dense(&[2, 3], F32, &A));
        refused(&x.addmv(&m, &x, 1, 1), "addmv", &["[2, 3]"]);
        refused(&x.addmv(&x, &x, 1, 1), "addmv", &["a matrix"]);
        refused(&m.addmv(&m, &m.at(0), 1, 1), "addmv", &["[2, 3]"]);
        refused(&x.addr(&m, &x, 1, 1), "addr", &["a vector"]);
        refused(&x.addr(&m.at(0), &m.at(0), 1, 1), "addr", &["[2]"]);
        refused(&x.addr(&ints(&[1]), &x, 1, 1), "addr", &["i64"]);
    });
    let inputs = [
        dense(&[2], F64, &apart(2)),
        dense(&[2, 3], F64, &apart(8)[2..]),
        dense(&[3], F64, &apart(11)[8..]),
    ];
    differentiable(&inputs, &|v| v[0].addmv(&v[1], &v[2], 0.5, 2.0));
    differentiable(&inputs, &|v| v[2].addr(&v[0], &v[2], 0.5, 2.0));
}

#[test]
fn products_of_many_matrices() {
    let want = [-46.0, -35.5, 132.0, 194.0, 56.125, -358.5];
    each(&[F64, F32], true, |dtype| {
        for a in forms(&[2, 3], dtype, &A) {
            let y = Tensor::multi_dot([&a, &a.t(), &a]);
            near(&y, &[2, 3], &want, unit(dtype));
            let (u, v) = (a.at((.., 0)), a.at(1));
            let y = Tensor::multi_dot([&u, &a, &v]);
            let pair = u.matmul(&a).matmul(&v);
            near(&y, &[], &values(&pair), unit(dtype));
            assert_eq!(Tensor::multi_dot([&u, &a]).dims(), [3]);
            assert_eq!(Tensor::multi_dot([&a, &v]).dims(), [2]);
        }
    });
    both(|| {
        // The best order of the textbook: ((A1 (A2 A3)) ((A4 A5) A6)).
        let sizes = [30, 35, 15, 5, 10, 20, 25];
        let all: Vec<Tensor> = (0..6)
            .map(|i| {
                let (n, m) = (sizes[i], sizes[i + 1]);
                dense(&[n, m], F64, &eighths(n * m))
            })
            .collect();
        let in_order = all[1..].iter().fold(all[0].clone(), |x, y| x.matmul(y));
        let size = in_order.abs().max(..).item::<f64>().unwrap();
        let apart = (Tensor::multi_dot(&all) - in_order).abs().max(..);
        assert!(apart.item::<f64>().unwrap() < 1e-13 * size);
        let a = dense(&[2, 3], F32, &A);
        refused(&Tensor::multi_dot([&a]), "multi_dot", &["1 matrices"]);
        refused(
            &Tensor::multi_dot([&a, &a]),
            "multi_dot",
            &["[2, 3], [2, 3]"],
        );
        let b = a.unsqueeze(0);
        refused(&Tensor::multi_dot([&a, &b]), "multi_dot", &["[1, 2, 3]"]);
        let none = a.at((.., ..0));
        equal(
            &Tensor::multi_dot([&none, &none.t(), &a]),
            &[2, 3],
            &[0.0; 6],
        );
    });
    let inputs = [
        dense(&[2, 3], F64, &apart(6)),
        dense(&[3, 2], F64, &apart(12)[6..]),
    ];
    differentiable(&inputs, &|v| Tensor::multi_dot([&v[0], &v[1], &v[0]]));
}
