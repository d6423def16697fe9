//! Elements by their numbers, slices joined at positions, and parts replaced. Values are PyTorch's.

use super::{apart, differentiable, refused};
use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::ReduceOp;
use ferrotrace::prelude::*;

const A: [f64; 6] = [1.0, 0.0, 3.0, 0.0, 5.0, 6.0];

#[test]
fn places_that_are_not_zero() {
    each(&ALL, false, |dtype| {
        for x in forms(&[2, 3], dtype, &A) {
            equal(
                &x.argwhere(),
                &[4, 2],
                &[0.0, 0.0, 0.0, 2.0, 1.0, 1.0, 1.0, 2.0],
            );
            equal(&x.flatnonzero(), &[4], &[0.0, 2.0, 4.0, 5.0]);
            assert_eq!((x.argwhere().dtype(), x.flatnonzero().dtype()), (I64, I64));
        }
    });
    both(|| {
        let number = Tensor::scalar(2.0, F32, &cpu());
        equal(&number.argwhere(), &[1, 0], &[]);
        equal(&number.zeros_like().argwhere(), &[0, 0], &[]);
        equal(&number.flatnonzero(), &[1], &[0.0]);
        equal(&Tensor::zeros((2, 0), F32, &cpu()).flatnonzero(), &[0], &[]);
        let x = Tensor::ones((2, 3), F32, &cpu());
        refused(&x.matmul(&x).argwhere(), "matmul", &[]);
    });
}

#[test]
fn elements_by_number() {
    let at = ints(&[5, -6, 2, 0]).reshape([2, 2]);
    each(&ALL, false, |dtype| {
        let a = whole(6, 2);
        for x in forms(&[2, 3], dtype, &a) {
            equal(&x.take(&at), &[2, 2], &[a[5], a[0], a[2], a[0]]);
            assert_eq!(x.take(&at.to_dtype(I32)).dtype(), dtype);
            let src = dense(&[4], dtype, &[1.0, 0.0, 1.0, 1.0]);
            let want = [1.0, a[1], 1.0, a[3], a[4], 1.0];
            equal(&x.put(&at, &src, false), &[2, 3], &want);
        }
    });
    each(&NUMBERS, false, |dtype| {
        for x in forms(&[2, 3], dtype, &A) {
            let src = dense(&[4], dtype, &[1.0, 2.0, 3.0, 4.0]);
            let sum = x.put(&ints(&[5, 5, -1, 0]), &src, true);
            equal(&sum, &[2, 3], &[5.0, 0.0, 3.0, 0.0, 5.0, 12.0]);
        }
    });
    both(|| {
        let (x, number) = (dense(&[2, 3], F32, &A), Tensor::scalar(5.0, F32, &cpu()));
        equal(&number.take(&ints(&[0, 0, -1])), &[3], &[5.0; 3]);
        equal(&number.put(&ints(&[0]), &x.at((0, ..1)), true), &[], &[6.0]);
        let none = ints(&[]);
        equal(&x.take(&none), &[0], &[]);
        equal(&x.put(&none, &x.at((0, ..0)), false), &[2, 3], &A);
        equal(&x.take(&Tensor::scalar(4, I64, &cpu())), &[], &[5.0]);
        assert!(x.take(&ints(&[6])).to_vec::<f32>().is_err());
        refused(&x.take(&x), "take", &["f32"]);
        refused(&x.take(&x.gt(0.0)), "take", &["bool"]);
        refused(&x.put(&ints(&[1]), &x, false), "put", &["6", "1"]);
        refused(
            &x.put(&ints(&[1]), &ints(&[1]), false),
            "put",
            &["i64", "f32"],
        );
    });
    let inputs = [dense(&[2, 3], F64, &apart(6)), dense(&[2], F64, &apart(2))];
    differentiable(&inputs[..1], &|v| v[0].take(&ints(&[4, 0, 4])));
    differentiable(&inputs, &|v| v[0].put(&ints(&[4, -6]), &v[1], false));
    differentiable(&inputs, &|v| v[0].put(&ints(&[1, 1]), &v[1], true));
}

#[test]
fn slices_joined_at_positions() {
    use ReduceOp::{Amax, Amin, Mean, Prod, Sum};
    let cases = [
        (Prod, true, [3.0, 0.0, 24.0, 0.0, 5.0, 210.0]),
        (Prod, false, [3.0, 0.0, 8.0, 6.0, 5.0, 35.0]),
        (Mean, true, [2.0, 0.0, 3.0, 3.0, 5.0, 6.0]),
        (Mean, false, [3.0, 0.0, 3.0, 6.0, 5.0, 6.0]),
        (Amax, true, [3.0, 0.0, 4.0, 6.0, 5.0, 7.0]),
        (Amax, false, [3.0, 0.0, 4.0, 6.0, 5.0, 7.0]),
        (Amin, true, [1.0, 0.0, 2.0, 0.0, 5.0, 5.0]),
        (Amin, false, [3.0, 0.0, 2.0, 6.0, 5.0, 5.0]),
        (Sum, true, [4.0, 0.0, 9.0, 6.0, 5.0, 18.0]),
    ];
    let at = ints(&[2, 0, 2]);
    each(&FLOATS, false, |dtype| {
        let src = dense(&[2, 3], dtype, &[2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        for x in forms(&[2, 3], dtype, &A) {
            for (op, include_self, want) in cases {
                let y = x.index_reduce(1, &at, &src, op, include_self);
                equal(&y, &[2, 3], &want);
                assert_eq!(y.dtype(), dtype);
            }
        }
    });
    both(|| {
        let y = ints(&[4, 9]).index_reduce(0, &ints(&[0, 0]), &ints(&[3, 4]), Mean, true);
        equal(&y, &[2], &[3.0, 9.0]);
        let number = |x: f64| Tensor::scalar(x, F32, &cpu());
        let y = number(2.0).index_reduce(0, &ints(&[0]), &number(3.0), Prod, true);
        equal(&y, &[], &[6.0]);
        let x = dense(&[2, 3], F32, &A);
        let bad = x.index_reduce(1, &at, &x.at(0), Sum, true);
        refused(&bad, "index_reduce", &["[3]", "[2, 3]"]);
        let bad = x.index_reduce(1, &at, &x.to_dtype(F64), Sum, true);
        refused(&bad, "index_reduce", &["f64", "f32"]);
        refused(&x.index_copy(1, &at, &x.at(0)), "index_copy", &["[3]"]);
    });
    differentiable(
        &[
            dense(&[2, 3], F64, &apart(6)),
            dense(&[2, 3], F64, &apart(13)[7..]),
        ],
        &|v| v[0].index_reduce(1, &ints(&[2, 0, 2]), &v[1], ReduceOp::Prod, true),
    );
}

#[test]
fn main_diagonals_filled() {
    let every = |n: usize, step: usize, until: usize| -> Vec<f64> {
        let on = |i: usize| i.is_multiple_of(step) && i < until;
        (0..n).map(|i| if on(i) { 1.0 } else { 0.0 }).collect()
    };
    each(&ALL, false, |dtype| {
        let fill = |shape: &[usize], wrap: bool, step: usize, until: usize| {
            let n = shape.iter().product();
            for x in forms(shape, dtype, &vec![0.0; n]) {
                let y = x.fill_diagonal(1, wrap);
                equal(&y, shape, &every(n, step, until));
                assert_eq!(y.dtype(), dtype);
            }
        };
        fill(&[7, 3], true, 4, 21);
        fill(&[7, 3], false, 4, 9);
        fill(&[3, 5], true, 6, 15);
        fill(&[3, 5], false, 6, 15);
        fill(&[4, 3], true, 4, 12);
        fill(&[3, 3, 3], false, 13, 27);
        fill(&[0, 3], true, 4, 0);
    });
    both(|| {
        let x = dense(&[2, 2], F32, &[f64::NAN; 4]);
        equal(
            &x.fill_diagonal(0.5, false),
            &[2, 2],
            &[0.5, f64::NAN, f64::NAN, 0.5],
        );
        refused(&x.at(0).fill_diagonal(1, false), "fill_diagonal", &["[2]"]);
        let uneven = Tensor::zeros((2, 2, 3), F32, &cpu());
        refused(
            &uneven.fill_diagonal(1, false),
            "fill_diagonal",
            &["differ"],
        );
        refused(
            &uneven.to_dtype(U8).at(0).fill_diagonal(300, true),
            "fill_diagonal",
            &["300"],
        );
    });
}

#[test]
fn diagonals_and_slices_replaced() {
    let a: Vec<f64> = (0..24).map(f64::from).collect();
    let cases = [
        (0, 0, 1),
        (1, 1, 2),
        (-1, 2, 0),
        (-2, 1, 2),
        (2, -1, 0),
        (3, -1, 0),
    ];
    each(&NUMBERS, false, |dtype| {
        for x in forms(&[2, 3, 4], dtype, &a) {
            for (offset, i, j) in cases {
                let part = x.diagonal(offset, i, j);
                let src = (&part + 100).to_dtype(dtype);
                let y = x.diagonal_scatter(&src, offset, i, j);
                // What was replaced is there, and nothing else changed.
                equal(&y.diagonal(offset, i, j), part.dims(), &values(&src));
                let back = y.diagonal_scatter(&part, offset, i, j);
                equal(&back, &[2, 3, 4], &a);
                let changed = y.ne(&x).sum(..);
                equal(&changed, &[], &[part.numel() as f64]);
                assert_eq!(y.dtype(), dtype);
            }
            let y = x.at(0).select_scatter(&ints(&[9, 8, 7]), 1, -2);
            let want = [0.0, 1.0, 9.0, 3.0, 4.0, 5.0, 8.0, 7.0, 8.0, 9.0, 7.0, 11.0];
            equal(&y, &[3, 4], &want);
            assert_eq!(y.dtype(), dtype);
        }
    });
    both(|| {
        let x = dense(&[2, 3], F32, &A);
        let src = dense(&[1, 2], F32, &[7.0, 8.0]);
        refused(
            &x.diagonal_scatter(&src, 0, 0, 1),
            "diagonal_scatter",
            &["[1, 2]", "[2]"],
        );
        refused(&x.diagonal_scatter(&src, 0, 1, 1), "diagonal_scatter", &[]);
        refused(&x.select_scatter(&src, 1, 0), "select_scatter", &["[2]"]);
        refused(&x.select_scatter(&src, 1, 3), "select_scatter", &["3"]);
        let none = Tensor::zeros((0, 3), F32, &cpu());
        equal(
            &none.diagonal_scatter(&none.at((.., 0)), 0, 0, 1),
            &[0, 3],
            &[],
        );
        // What stands elsewhere in the rows is not read.
        let y = dense(&[2, 2], F32, &[f64::NAN; 4]).diagonal_scatter(&src.at(0), 0, 0, 1);
        equal(&y, &[2, 2], &[7.0, f64::NAN, f64::NAN, 8.0]);
    });
    let inputs = [dense(&[3, 2], F64, &apart(6)), dense(&[2], F64, &apart(2))];
    differentiable(&inputs, &|v| v[0].diagonal_scatter(&v[1], -1, 0, 1));
    differentiable(&inputs, &|v| v[0].select_scatter(&v[1], 0, 2));
    differentiable(&inputs[..1], &|v| v[0].fill_diagonal(3.0, true));
}
