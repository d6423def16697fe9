//! Reflections to a Hessenberg matrix, which is zero below the diagonal below its own.

use crate::cpu::linalg::Float;
use crate::cpu::linalg::qr::reflector;
use crate::cpu::linalg::row::{add, dot};

/// Takes a matrix A to H = Qᵀ·A·Q in its place, and gives Qᵀ if it is wanted, else nothing.
pub fn reduce<T: Float>(a: &mut [T], n: usize, wanted: bool) -> Vec<T> {
    let mut turned = vec![T::ZERO; if wanted { n * n } else { 0 }];
    for (i, row) in turned.chunks_exact_mut(n.max(1)).enumerate() {
        row[i] = T::ONE;
    }
    let (mut v, mut sums) = (vec![T::ZERO; n], vec![T::ZERO; n]);
    for k in 0..n.saturating_sub(2) {
        let first = k + 1;
        let v = &mut v[first..n];
        for (i, v) in v.iter_mut().enumerate() {
            *v = a[(first + i) * n + k];
        }
        let factor = reflector(v);
        a[first * n + k] = v[0];
        (first + 1..n).for_each(|i| a[i * n + k] = T::ZERO);
        v[0] = T::ONE;
        if factor == T::ZERO {
            continue;
        }
        left(&mut a[first * n..], n, first, v, factor, &mut sums);
        for row in a.chunks_exact_mut(n) {
            let along = factor * dot(&row[first..], v);
            add(&mut row[first..], -along, v);
        }
        if wanted {
            left(&mut turned[first * n..], n, 0, v, factor, &mut sums);
        }
    }
    turned
}

/// Reflects rows, in the columns from `from` on, by 1 − factor·v·vᵀ.
fn left<T: Float>(rows: &mut [T], n: usize, from: usize, v: &[T], factor: T, sums: &mut [T]) {
    let sums = &mut sums[from..n];
    sums.fill(T::ZERO);
    for (row, &v) in rows.chunks_exact(n).zip(v) {
        add(sums, v, &row[from..]);
    }
    for (row, &v) in rows.chunks_exact_mut(n).zip(v) {
        add(&mut row[from..], -factor * v, sums);
    }
}
