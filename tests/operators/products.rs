//! Products of vectors, matrices and batches of both, with what follows them in one kernel, against sums in the test.

use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

/// Small whole numbers, of which every dtype holds the products' sums.
fn small(dims: &[usize], from: usize) -> Vec<f64> {
    let n: usize = dims.iter().product();
    (0..n).map(|i| ((i * 7 + from) % 5) as f64 - 2.0).collect()
}

/// The shape and the elements of a product, as PyTorch defines them: a vector is a row on the left, a column on the right.
fn product((a, x): (&[usize], &[f64]), (b, y): (&[usize], &[f64])) -> (Vec<usize>, Vec<f64>) {
    let (mut left, mut right) = (a.to_vec(), b.to_vec());
    if left.len() == 1 {
        left.insert(0, 1);
    }
    if right.len() == 1 {
        right.push(1);
    }
    let k = right[right.len() - 2];
    let (m, n) = (left[left.len() - 2], right[right.len() - 1]);
    let (p, q) = (&left[..left.len() - 2], &right[..right.len() - 2]);
    let rank = p.len().max(q.len());
    let size = |of: &[usize], d: usize| (d + of.len()).checked_sub(rank).map_or(1, |d| of[d]);
    let batch: Vec<usize> = (0..rank).map(|d| size(p, d).max(size(q, d))).collect();
    let count: usize = batch.iter().product();
    let mut sums = Vec::new();
    for of in 0..count {
        let at = index_of(of, &batch);
        let matrix = |own: &[usize]| {
            let first = rank - own.len();
            (0..own.len()).fold(0, |n, d| n * own[d] + at[first + d].min(own[d] - 1))
        };
        let (l, r) = (matrix(p), matrix(q));
        for i in 0..m {
            for j in 0..n {
                let term = |t: usize| x[(l * m + i) * k + t] * y[(r * k + t) * n + j];
                sums.push((0..k).map(term).sum());
            }
        }
    }
    let rows = (a.len() > 1).then_some(m);
    let columns = (b.len() > 1).then_some(n);
    let dims = batch.into_iter().chain(rows).chain(columns).collect();
    (dims, sums)
}

const SHAPES: [(&[usize], &[usize]); 14] = [
    (&[5], &[5]),
    (&[7, 5], &[5]),
    (&[5], &[5, 7]),
    (&[4, 5], &[5, 7]),
    (&[2, 7, 5], &[5]),
    (&[5], &[2, 5, 7]),
    (&[3, 2, 7, 5], &[5]),
    (&[5], &[3, 2, 5, 7]),
    (&[2, 4, 5], &[5, 7]),
    (&[4, 5], &[2, 5, 7]),
    (&[2, 4, 5], &[2, 5, 7]),
    (&[3, 1, 4, 5], &[2, 5, 7]),
    (&[2, 1, 5], &[2, 5, 1]),
    (&[4, 60, 90], &[90]),
];

#[test]
fn products_and_what_follows() {
    for (a, b) in SHAPES {
        let (x, y) = (small(a, 0), small(b, 3));
        let (dims, sums) = product((a, &x), (b, &y));
        let last = dims.last().copied().unwrap_or(1);
        let bias = small(&[last], 1);
        let doubled: Vec<f64> = sums.iter().map(|v| v * 2.0).collect();
        let biased = sums.iter().enumerate();
        let biased: Vec<f64> = biased.map(|(i, v)| (v + bias[i % last]).max(0.0)).collect();
        each(&[F32, F64, BF16, F16], true, |dtype| {
            for x in forms(a, dtype, &x) {
                let y = dense(b, dtype, &y);
                let of = |x: &Tensor| x.matmul(&y);
                equal(&of(&x), &dims, &sums);
                equal(&(of(&x) * 2.0), &dims, &doubled);
                equal(&of(&x).to_dtype(F64), &dims, &sums);
                let z = of(&x);
                let added = (&z + dense(&[last], dtype, &bias)).relu();
                equal(&added, added.dims(), &biased);
                equal(&z, &dims, &sums);
                equal(
                    &(of(&(&x * 2.0)) + dense(&dims, dtype, &sums) * 2.0),
                    &dims,
                    &doubled.iter().map(|v| v * 2.0).collect::<Vec<_>>(),
                );
            }
        });
    }
}
