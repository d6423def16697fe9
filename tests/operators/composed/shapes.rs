//! Moved, repeated, cut and regrouped dimensions, and differences of neighbours.

use super::{apart, differentiable, refused};
use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

fn dims(x: &Tensor) -> Vec<usize> {
    x.eval().unwrap_or_else(|e| panic!("{e}"));
    x.dims().to_vec()
}

#[test]
fn channels_as_pixels() {
    let (r, c, h, w) = (2, 3, 2, 3);
    let a = whole(2 * c * r * r * h * w, 251);
    let places = (0..a.len()).map(|at| {
        let i = index_of(at, &[2, c, h * r, w * r]);
        let channel = (i[1] * r + i[2] % r) * r + i[3] % r;
        offset(&[i[0], channel, i[2] / r, i[3] / r], &[2, c * r * r, h, w])
    });
    let shuffled: Vec<f64> = places.map(|at| a[at] % 2.0).collect();
    let plain: Vec<f64> = a.iter().map(|v| v % 2.0).collect();
    each(&ALL, false, |dtype| {
        for x in forms(&[2, c * r * r, h, w], dtype, &plain) {
            equal(&x.pixel_shuffle(r), &[2, c, h * r, w * r], &shuffled);
            equal(
                &x.pixel_shuffle(r).pixel_unshuffle(r),
                &[2, c * r * r, h, w],
                &plain,
            );
            assert_eq!(x.pixel_shuffle(r).dtype(), dtype);
        }
    });
    both(|| {
        // PyTorch: pixel_shuffle(arange(9), 3) of one pixel, and 1 changes nothing.
        let x = Tensor::arange(0, 9, 1, I64, &cpu());
        let nine: Vec<f64> = (0..9).map(f64::from).collect();
        equal(&x.reshape((9, 1, 1)).pixel_shuffle(3), &[1, 3, 3], &nine);
        equal(&x.reshape((1, 3, 3)).pixel_unshuffle(3), &[9, 1, 1], &nine);
        equal(&x.reshape((1, 3, 3)).pixel_shuffle(1), &[1, 3, 3], &nine);
        assert_eq!(
            dims(&Tensor::ones((5, 2, 4, 3, 2), F32, &cpu()).pixel_shuffle(2)),
            [5, 2, 1, 6, 4]
        );
        assert_eq!(
            dims(&Tensor::zeros((0, 4, 2, 2), F32, &cpu()).pixel_shuffle(2)),
            [0, 1, 4, 4]
        );
        assert_eq!(
            dims(&Tensor::zeros((0, 2, 2), F32, &cpu()).pixel_shuffle(2)),
            [0, 4, 4]
        );
        assert_eq!(
            dims(&Tensor::zeros((1, 0, 2), F32, &cpu()).pixel_unshuffle(2)),
            [4, 0, 1]
        );
        let x = Tensor::ones((3, 2, 3), F32, &cpu());
        refused(
            &x.select(0, 0).pixel_shuffle(2),
            "pixel_shuffle",
            &["3 dimensions", "[2, 3]"],
        );
        refused(
            &x.select(0, 0).pixel_unshuffle(2),
            "pixel_unshuffle",
            &["3 dimensions"],
        );
        refused(&x.pixel_shuffle(2), "pixel_shuffle", &["3 channels"]);
        refused(
            &x.pixel_shuffle(usize::MAX),
            "pixel_shuffle",
            &["3 channels"],
        );
        refused(&x.pixel_shuffle(0), "pixel_shuffle", &["0 pixels"]);
        refused(&x.pixel_unshuffle(0), "pixel_unshuffle", &["0 pixels"]);
        refused(&x.pixel_unshuffle(2), "pixel_unshuffle", &["3 columns"]);
        refused(&x.pixel_unshuffle(3), "pixel_unshuffle", &["2 rows"]);
        refused(&x.matmul(&x).pixel_shuffle(0), "matmul", &[]);
        refused(&x.matmul(&x).pixel_unshuffle(0), "matmul", &[]);
    });
    let x = [dense(&[4, 2, 1], F64, &apart(8))];
    differentiable(&x, &|v| v[0].pixel_shuffle(2).square());
    differentiable(&[x[0].pixel_shuffle(2)], &|v| {
        v[0].pixel_unshuffle(2).square()
    });
}

#[test]
fn slices_of_a_dimension() {
    let a = whole(24, 2);
    each(&ALL, false, |dtype| {
        for x in forms(&[2, 3, 4], dtype, &a) {
            for (dim, others) in [(0isize, [3, 4]), (1, [2, 4]), (-1, [2, 3])] {
                let slices = x.unbind(dim);
                let d = dim.rem_euclid(3) as usize;
                assert_eq!(slices.len(), [2, 3, 4][d]);
                for (i, slice) in slices.iter().enumerate() {
                    let at = |k: usize| {
                        let mut index = index_of(k, &others);
                        index.insert(d, i);
                        a[offset(&index, &[2, 3, 4])]
                    };
                    let want: Vec<f64> = (0..others[0] * others[1]).map(at).collect();
                    equal(slice, &others, &want);
                }
            }
        }
    });
    both(|| {
        assert!(Tensor::zeros((0, 2), F32, &cpu()).unbind(0).is_empty());
        let pairs = Tensor::zeros((0, 2), F32, &cpu()).unbind(1);
        assert_eq!(pairs.iter().map(dims).collect::<Vec<_>>(), [[0], [0]]);
        equal(&ints(&[7]).unbind(0)[0], &[], &[7.0]);
        let bad = ints(&[7]).unbind(1);
        refused(&bad[0], "unbind", &["dimension 1"]);
        assert_eq!(bad.len(), 1);
        refused(
            &Tensor::scalar(1, I64, &cpu()).unbind(0)[0],
            "unbind",
            &["dimension 0"],
        );
        refused(
            &ints(&[1]).matmul(&ints(&[1, 2])).unbind(5)[0],
            "matmul",
            &[],
        );
    });
    differentiable(&[dense(&[2, 3], F64, &apart(6))], &|v| {
        let columns = v[0].unbind(1);
        &columns[0] * &columns[2] + &columns[1]
    });
}

#[test]
fn moved_dimensions() {
    let a = whole(120, 2);
    let x = dense(&[2, 3, 4, 5], F32, &a);
    // PyTorch's shapes.
    both(|| {
        assert_eq!(dims(&x.movedim(1, -1)), [2, 4, 5, 3]);
        assert_eq!(dims(&x.movedim(-1, 0)), [5, 2, 3, 4]);
        assert_eq!(dims(&x.movedim((0, 1), (-1, 0))), [3, 4, 5, 2]);
        assert_eq!(dims(&x.movedim([3, 0], [1, 2])), [3, 5, 2, 4]);
        assert_eq!(dims(&x.movedim(.., ..)), [2, 3, 4, 5]);
        assert_eq!(dims(&x.movedim((), ())), [2, 3, 4, 5]);
        assert_eq!(dims(&x.movedim([0, 1, 2, 3], [3, 2, 1, 0])), [5, 4, 3, 2]);
        assert_eq!(
            dims(&Tensor::zeros((0, 2), I64, &cpu()).movedim(0, 1)),
            [2, 0]
        );
    });
    each(&ALL, false, |dtype| {
        for x in forms(&[2, 3, 4, 5], dtype, &a) {
            let y = x.movedim((0, 1), (-1, 0));
            let at = |k: usize| {
                let i = index_of(k, &[3, 4, 5, 2]);
                a[offset(&[i[3], i[0], i[1], i[2]], &[2, 3, 4, 5])]
            };
            equal(&y, &[3, 4, 5, 2], &(0..120).map(at).collect::<Vec<_>>());
        }
    });
    both(|| {
        let number = Tensor::scalar(3.0, F32, &cpu());
        equal(&number.movedim(0, -1), &[], &[3.0]);
        equal(&number.movedim((), ()), &[], &[3.0]);
        refused(&number.movedim(1, 0), "movedim", &["dimension 1"]);
        refused(&number.movedim((0, -1), (0, -1)), "movedim", &["twice"]);
        refused(&x.movedim((0, 1), 0), "movedim", &["2 dimensions for 1"]);
        refused(&x.movedim((0, -4), (0, 1)), "movedim", &["twice"]);
        refused(&x.movedim((0, 1), (2, -2)), "movedim", &["twice"]);
        refused(&x.movedim(4, 0), "movedim", &["dimension 4"]);
        refused(&x.movedim(0, -5), "movedim", &["dimension -5"]);
        refused(&x.matmul(&ints(&[1])).movedim(9, 9), "matmul", &[]);
    });
    differentiable(&[dense(&[2, 1, 3], F64, &apart(6))], &|v| {
        v[0].movedim(2, 0).square()
    });
}

#[test]
fn repeated_wholes() {
    let a = whole(6, 2);
    each(&ALL, false, |dtype| {
        for x in forms(&[2, 3], dtype, &a) {
            let at = |k: usize| a[k / 6 % 2 * 3 + k % 3];
            equal(&x.tile(&[2]), &[2, 6], &(0..12).map(at).collect::<Vec<_>>());
            equal(&x.tile(&[2, 1]), &[4, 3], &a.repeat(2));
            equal(&x.tile(&[2, 1, 1]), &[2, 2, 3], &a.repeat(2));
            equal(&x.tile(&[]), &[2, 3], &a);
            assert_eq!(x.tile(&[2]).dtype(), dtype);
        }
    });
    both(|| {
        equal(
            &Tensor::scalar(3.0, F32, &cpu()).tile(&[2, 2]),
            &[2, 2],
            &[3.0; 4],
        );
        equal(&Tensor::scalar(3.0, F32, &cpu()).tile(&[]), &[], &[3.0]);
        assert_eq!(
            dims(&Tensor::ones((2, 3), F32, &cpu()).tile(&[0, 1])),
            [0, 3]
        );
        assert_eq!(dims(&Tensor::ones((0, 3), F32, &cpu()).tile(&[2])), [0, 6]);
        let x = Tensor::ones((2, 3), F32, &cpu());
        refused(&x.tile(&[usize::MAX]), "tile", &["[2, 3]"]);
        refused(&x.matmul(&x).tile(&[usize::MAX]), "matmul", &[]);
    });
    differentiable(&[dense(&[2, 1], F64, &apart(2))], &|v| v[0].tile(&[3]));
}

#[test]
fn differences_of_neighbours() {
    let a = whole(12, 50);
    each(&NUMBERS, false, |dtype| {
        let wraps = |v: f64| if dtype == U8 { v.rem_euclid(256.0) } else { v };
        let rows: Vec<f64> = (0..9)
            .map(|k| a[k / 3 * 4 + k % 3 + 1] - a[k / 3 * 4 + k % 3])
            .collect();
        let twice = |k: usize| rows[k / 2 * 3 + k % 2 + 1] - rows[k / 2 * 3 + k % 2];
        let twice: Vec<f64> = (0..6).map(twice).collect();
        let columns: Vec<f64> = (0..8).map(|k| a[k + 4] - a[k]).collect();
        let wrapped = |v: &[f64]| v.iter().map(|v| wraps(*v)).collect::<Vec<_>>();
        for x in forms(&[3, 4], dtype, &a) {
            equal(&x.diff(1, -1), &[3, 3], &wrapped(&rows));
            equal(&x.diff(2, 1), &[3, 2], &wrapped(&twice));
            equal(&x.diff(1, 0), &[2, 4], &wrapped(&columns));
            equal(&x.diff(0, 0), &[3, 4], &a);
            assert_eq!(x.diff(1, 0).dtype(), dtype);
        }
    });
    both(|| {
        let truth = dense(&[3], Bool, &[1.0, 0.0, 0.0]);
        equal(&truth.diff(1, 0), &[2], &[1.0, 0.0]);
        assert_eq!(truth.diff(2, 0).dtype(), Bool);
        assert_eq!(dims(&ints(&[1, 2]).diff(2, 0)), [0]);
        assert_eq!(dims(&ints(&[1, 2]).diff(usize::MAX, 0)), [0]);
        assert_eq!(dims(&Tensor::zeros(0, F32, &cpu()).diff(1, 0)), [0]);
        assert_eq!(dims(&Tensor::zeros((2, 1), F32, &cpu()).diff(1, 1)), [2, 0]);
        assert_eq!(dims(&Tensor::zeros((0, 3), F32, &cpu()).diff(1, 1)), [0, 2]);
        refused(
            &Tensor::scalar(1, I64, &cpu()).diff(1, 0),
            "diff",
            &["neighbours"],
        );
        refused(&ints(&[1]).diff(1, 1), "diff", &["dimension 1"]);
        refused(&ints(&[1]).diff(0, -2), "diff", &["dimension -2"]);
        refused(&ints(&[1]).matmul(&ints(&[1, 2])).diff(1, 5), "matmul", &[]);
    });
    differentiable(&[dense(&[2, 4], F64, &apart(8))], &|v| {
        v[0].diff(2, 1).square()
    });
}
