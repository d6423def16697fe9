//! Long rows that are joined, padded, shifted and cut off, whose vectors lie in one part or in two.

use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

/// Lengths below a vector, of whole vectors, and of one element less and more.
const LENGTHS: [[usize; 3]; 5] = [
    [127, 129, 64],
    [128, 255, 3],
    [129, 7, 200],
    [411, 1, 0],
    [1, 500, 301],
];

/// The values of three rows.
fn rows(lengths: [usize; 3], below: usize) -> [Vec<f64>; 3] {
    let all = whole(lengths.iter().sum(), below);
    let (first, rest) = all.split_at(lengths[0]);
    let (second, third) = rest.split_at(lengths[1]);
    [first, second, third].map(<[f64]>::to_vec)
}

/// A function of each value.
fn each_of(values: &[f64], f: impl Fn(f64) -> f64) -> Vec<f64> {
    values.iter().map(|&v| f(v)).collect()
}

/// The element at a signed position of a row of this many, the first behind the last.
fn around(at: isize, n: usize) -> usize {
    at.rem_euclid(n as isize) as usize
}

#[test]
fn joined_rows() {
    each(&ALL, false, |dtype| {
        for lengths in LENGTHS {
            let parts = rows(lengths, 5);
            let all = parts.concat();
            let tests: Vec<f64> = all.iter().map(|&v| f64::from(v == 1.0)).collect();
            let [a, b, c] = [0, 1, 2].map(|k| forms(&[lengths[k]], dtype, &parts[k]));
            for ((a, b), c) in a.iter().zip(&b).zip(&c) {
                let joined = Tensor::cat(&[a, b, c], 0);
                let n = joined.numel();
                if dtype != Bool {
                    equal(&joined, &[n], &all);
                    equal(&joined.eq(1.0), &[n], &tests);
                    equal(&(&joined + &joined), &[n], &each_of(&all, |v| v + v));
                } else {
                    equal(
                        &joined.logical_not(),
                        &[n],
                        &each_of(&all, |v| f64::from(v == 0.0)),
                    );
                }
            }
        }
    });
}

#[test]
fn padded_rows() {
    each(&NUMBERS, false, |dtype| {
        for (n, before, after) in [(240, 15, 5), (240, 16, 70), (240, 17, 40), (97, 200, 150)] {
            let x = whole(n, 7);
            let mut want = vec![9.0; before];
            want.extend(each_of(&x, |v| v + 2.0));
            want.extend(vec![9.0; after]);
            for x in forms(&[n], dtype, &x) {
                let y = x.pad(&[(before as isize, after as isize)], 7.0) + 2.0;
                equal(&y, &[n + before + after], &want);
            }
        }
    });
    both(|| {
        let (rows, columns) = (5, 210);
        let x = dense(&[rows, columns], F32, &whole(rows * columns, 7));
        let y = x.pad(&[(2, 1), (1, 40)], 3.0).relu() * 2.0;
        let inside = |i: usize, j: usize| (2..2 + rows).contains(&i) && (1..=columns).contains(&j);
        let flat = whole(rows * columns, 7);
        let want: Vec<f64> = (0..(rows + 3) * (columns + 41))
            .map(|at| (at / (columns + 41), at % (columns + 41)))
            .map(|(i, j)| match inside(i, j) {
                true => 2.0 * flat[(i - 2) * columns + j - 1],
                false => 6.0,
            })
            .collect();
        equal(&y, &[rows + 3, columns + 41], &want);
    });
}

#[test]
fn sums_of_shifted_rows() {
    let dims = [7, 330];
    let n = dims[0] * dims[1];
    each(&[F32, F64, BF16, I32], true, |dtype| {
        let flat = whole(n, 9);
        let want: Vec<f64> = (0..n)
            .map(|at| (at / dims[1], at % dims[1]))
            .map(|(i, j)| {
                let at = |di: isize, dj: isize| {
                    let row = around(i as isize - di, dims[0]);
                    flat[row * dims[1] + around(j as isize - dj, dims[1])]
                };
                at(1, 0) + at(-1, 0) + at(0, 1) + at(0, -1) + at(2, 130) - 4.0 * at(0, 0)
            })
            .collect();
        for x in forms(&dims, dtype, &flat) {
            let shifted = |di: isize, dj: isize| x.roll(&[di, dj], &[0, 1]);
            let sum = shifted(1, 0) + shifted(-1, 0) + shifted(0, 1) + shifted(0, -1);
            let y = sum + shifted(2, 130) - &x * 4.0;
            equal(&y, &dims, &want);
        }
    });
}

#[test]
fn triangles_of_long_rows() {
    let dims = [40, 300];
    let flat = whole(dims[0] * dims[1], 11);
    each(&[F32, F64, I64, U8], true, |dtype| {
        for x in forms(&dims, dtype, &flat) {
            for k in [-3, 0, 129] {
                let on = |below: bool| -> Vec<f64> {
                    let lies = |at: usize| {
                        let (i, j) = ((at / dims[1]) as isize, (at % dims[1]) as isize);
                        if below { j - i <= k } else { j - i >= k }
                    };
                    let value = |at: usize| if lies(at) { flat[at] + 1.0 } else { 1.0 };
                    (0..flat.len()).map(value).collect()
                };
                equal(&(x.tril(k) + 1.0), &dims, &on(true));
                equal(&(x.triu(k) + 1.0), &dims, &on(false));
            }
        }
    });
}

#[test]
fn functions_of_joined_rows() {
    for (dtype, tolerance) in [(F32, 2e-6), (F64, 1e-14), (BF16, 2e-2)] {
        for [n, m, _] in LENGTHS {
            let (a, b) = (eighths(n), eighths(n + m)[n..].to_vec());
            let all = [&a[..], &b[..]].concat();
            let want = each_of(&all, |v| (1.0 / (1.0 + (-v.sin()).exp())).tanh().exp());
            both(|| {
                for (a, b) in forms(&[n], dtype, &a).iter().zip(forms(&[m], dtype, &b)) {
                    let y = Tensor::cat(&[a, &b], 0).sin().sigmoid().tanh().exp();
                    near(&y, &[n + m], &want, tolerance);
                }
            });
        }
    }
}

#[test]
fn picked_rows_that_are_joined_and_padded() {
    let picks: Vec<i64> = (0..400).map(|i| (i * 37 + 5) % 90).collect();
    both(|| {
        for dtype in [F32, I64, F16] {
            let table = whole(90, 13);
            for x in forms(&[90], dtype, &table) {
                let picked = x.index_select(0, &ints(&picks));
                let y = Tensor::cat(&[&picked, &x], 0).pad(&[(150, 2)], 1.0) + 1.0;
                let mut want = vec![2.0; 150];
                want.extend(picks.iter().map(|&at| table[at as usize] + 1.0));
                want.extend(each_of(&table, |v| v + 1.0));
                want.extend([2.0; 2]);
                equal(&y, &[want.len()], &want);
            }
        }
        // An index out of range within one part is told.
        let x = dense(&[90], F32, &whole(90, 13));
        let wrong: Vec<i64> = (0..400).map(|i| if i == 399 { 90 } else { 0 }).collect();
        let y = Tensor::cat(&[&x.index_select(0, &ints(&wrong)), &x], 0) + 1.0;
        assert!(y.to_vec::<f32>().is_err());
    });
}
