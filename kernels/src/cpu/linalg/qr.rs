//! Householder's reflections (Golub and Van Loan, Matrix Computations, 5.2), with the signs of LAPACK.

use super::Float;
use super::reflections::{BLOCK, Reflections, orthonormal};
use super::row::{add, dot, greatest, norm};

/// Factors a matrix of m ≥ n rows: Q in its place, of orthonormal columns, and R, upper triangular, in `r`.
pub fn qr<T: Float>(a: &mut [T], m: usize, n: usize, r: &mut [T]) {
    match n <= BLOCK {
        true => column_by_column(a, m, n, r),
        false => block_by_block(a, m, n, r),
    }
}

/// Reflections of a block of columns are applied together to the columns behind it.
fn block_by_block<T: Float>(a: &mut [T], m: usize, n: usize, r: &mut [T]) {
    let (mut vectors, mut factors) = (vec![T::ZERO; n * m], vec![T::ZERO; n]);
    r.fill(T::ZERO);
    for start in (0..n).step_by(BLOCK) {
        let end = (start + BLOCK).min(n);
        for j in start..end {
            let column = &mut vectors[j * m..(j + 1) * m];
            for (i, x) in column.iter_mut().enumerate() {
                *x = a[i * n + j];
            }
        }
        for j in start..end {
            let (head, behind) = vectors[..end * m].split_at_mut((j + 1) * m);
            let v = &mut head[j * m + j..];
            factors[j] = reflector(v);
            r[j * n + j] = std::mem::replace(&mut v[0], T::ONE);
            for column in behind.chunks_exact_mut(m) {
                let along = factors[j] * dot(v, &column[j..]);
                add(&mut column[j..], -along, v);
            }
            for i in 0..j {
                r[i * n + j] = std::mem::replace(&mut head[j * m + i], T::ZERO);
            }
        }
        let of = &vectors[start * m + start..];
        let block = Reflections::new(of, m, m - start, &factors[start..end]);
        block.apply(&mut a[start * n..], n, end..n, true);
    }
    orthonormal(&vectors, &factors, (m, n), 0, a);
}

fn column_by_column<T: Float>(a: &mut [T], m: usize, n: usize, r: &mut [T]) {
    let mut factors = vec![T::ZERO; n];
    let (mut v, mut sums) = (vec![T::ZERO; m], vec![T::ZERO; n]);
    for j in 0..n {
        for i in j..m {
            v[i] = a[i * n + j];
        }
        factors[j] = reflector(&mut v[j..m]);
        let beta = v[j];
        v[j] = T::ONE;
        reflect(a, n, j, &v, factors[j], &mut sums);
        for i in j + 1..m {
            a[i * n + j] = v[i];
        }
        a[j * n + j] = beta;
    }
    for i in 0..n {
        r[i * n..i * n + i].fill(T::ZERO);
        r[i * n + i..(i + 1) * n].copy_from_slice(&a[i * n + i..(i + 1) * n]);
        a[i * n + i + 1..(i + 1) * n].fill(T::ZERO);
    }
    for j in (0..n).rev() {
        for i in j + 1..m {
            v[i] = a[i * n + j];
            a[i * n + j] = -factors[j] * v[i];
        }
        v[j] = T::ONE;
        reflect(a, n, j, &v, factors[j], &mut sums);
        a[j * n + j] = T::ONE - factors[j];
    }
}

/// Makes a column x the vector v of 1 − f·v·vᵀ, which takes x to (β, 0, ..), and gives f. In place of v's first element, which
/// is 1, stands β.
pub(super) fn reflector<T: Float>(x: &mut [T]) -> T {
    // Numbers below the normal ones have too few digits.
    let scale = greatest(x).binade();
    x.iter_mut().for_each(|x| *x = *x / scale);
    let (alpha, below) = (x[0], norm(&x[1..]));
    if below == T::ZERO {
        x[0] = alpha * scale;
        return T::ZERO;
    }
    let beta = -alpha.hypot(below).signed(alpha);
    let factor = (beta - alpha) / beta;
    x[0] = beta * scale;
    let rest = alpha - beta;
    x[1..].iter_mut().for_each(|x| *x = *x / rest);
    factor
}

/// Reflects the rows from `j` on, in the columns behind `j`, by 1 − factor·v·vᵀ.
fn reflect<T: Float>(a: &mut [T], n: usize, j: usize, v: &[T], factor: T, sums: &mut [T]) {
    if factor == T::ZERO {
        return;
    }
    let sums = &mut sums[j + 1..n];
    sums.fill(T::ZERO);
    let rows = a[j * n..].chunks_exact(n);
    for (row, &v) in rows.zip(&v[j..]) {
        add(sums, v, &row[j + 1..]);
    }
    let rows = a[j * n..].chunks_exact_mut(n);
    for (row, &v) in rows.zip(&v[j..]) {
        add(&mut row[j + 1..], -factor * v, sums);
    }
}
