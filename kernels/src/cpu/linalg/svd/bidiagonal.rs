//! Reflections from both sides to a bidiagonal matrix.

use super::super::qr::reflector;
use super::super::row::{add, dot, step};
use crate::cpu::dense::{Shared, ranges, rows};
use crate::cpu::linalg::Float;

/// Columns that one thread changes at least: as many elements of a row as make the call of its loop small.
const COLUMNS: usize = 128;

/// An upper bidiagonal matrix.
pub(super) struct Bidiagonal<T> {
    /// The diagonal.
    pub d: Vec<T>,
    /// The elements above it; the last is 0.
    pub e: Vec<T>,
    /// The factors of the reflections from the left.
    pub left: Vec<T>,
    /// The factors of the reflections from the right.
    pub right: Vec<T>,
}

impl<T: Float> Bidiagonal<T> {
    /// Reduces a square matrix, which is overwritten. The vectors of the reflections go to rows of two matrices, if these are
    /// given, which hold zeros: row k of the first from element k on, of the second from element k + 1 on.
    ///
    /// A step's change of the rows behind it, u·yᵀ + x·vᵀ, is made by the step after it, which reads them anyway (Howell et
    /// al., Cache efficient bidiagonalization using BLAS 2.5 operators, 2008).
    pub fn new(a: &mut [T], n: usize, mut vectors: Option<(&mut [T], &mut [T])>) -> Bidiagonal<T> {
        let zeros = || vec![T::ZERO; n];
        let mut found = Bidiagonal {
            d: zeros(),
            e: zeros(),
            left: zeros(),
            right: vec![T::ZERO; n.saturating_sub(1)],
        };
        let (mut u, mut y, mut x, mut v) = (zeros(), zeros(), zeros(), zeros());
        let (mut column, mut sums) = (zeros(), zeros());
        for k in 0..n {
            let first = k + 1;
            for (i, to) in column.iter_mut().enumerate().skip(k) {
                *to = a[i * n + k] - u[i] * y[k] - x[i] * v[k];
            }
            let factor = reflector(&mut column[k..]);
            found.left[k] = factor;
            found.d[k] = std::mem::replace(&mut column[k], T::ONE);
            if let Some((left, _)) = &mut vectors {
                left[k * n + k..(k + 1) * n].copy_from_slice(&column[k..]);
            }
            if first == n {
                break;
            }
            let before = Change {
                u: &u,
                y: &y,
                x: &x,
                v: &v,
            };
            before.make(a, n, (k, first), &column, &mut sums);
            y[first..]
                .iter_mut()
                .zip(&sums[first..])
                .for_each(|(y, &sum)| *y = factor * sum);
            u[k..].copy_from_slice(&column[k..]);
            let row = &mut a[k * n + first..(k + 1) * n];
            add(row, -T::ONE, &y[first..]);
            let factor = reflector(row);
            found.right[k] = factor;
            found.e[k] = std::mem::replace(&mut row[0], T::ONE);
            v[first..].copy_from_slice(row);
            if let Some((_, right)) = &mut vectors {
                right[k * n + first..(k + 1) * n].copy_from_slice(row);
            }
            let along = dot(&y[first..], &v[first..]);
            let (rest, v, u) = (&a[first * n..], &v[first..], &u[first..]);
            rows(&mut x[first..], 1, (n - first) / 4, |from, x| {
                for (i, x) in x.iter_mut().enumerate() {
                    let row = &rest[(from + i) * n..(from + i + 1) * n];
                    *x = factor * (dot(&row[first..], v) - u[from + i] * along);
                }
            });
        }
        found
    }
}

/// What a step left to be taken from the rows behind it: u·yᵀ + x·vᵀ.
struct Change<'a, T> {
    u: &'a [T],
    y: &'a [T],
    x: &'a [T],
    v: &'a [T],
}

impl<T: Float> Change<'_, T> {
    /// Takes it from the rows and columns from these on, and adds up the rows, each times its element of `with`.
    fn make(
        &self,
        a: &mut [T],
        n: usize,
        (first_row, first_column): (usize, usize),
        with: &[T],
        sums: &mut [T],
    ) {
        let (all, sums) = (Shared::new(a), Shared::new(sums));
        let blocks = (n - first_column).div_ceil(COLUMNS);
        // Vectors make an element cheaper than an elementary operation.
        ranges(blocks, COLUMNS * (n - first_row) / 2, |range| {
            let at = |block: usize| n.min(first_column + block * COLUMNS);
            let columns = at(range.start)..at(range.end);
            // SAFETY: ranges of columns are disjoint.
            let sums = unsafe { sums.part(columns.clone()) };
            sums.fill(T::ZERO);
            for (i, &with) in with.iter().enumerate().skip(first_row) {
                // SAFETY: as above, in every row.
                let row = unsafe { all.part(i * n + columns.start..i * n + columns.end) };
                let (y, v) = (&self.y[columns.clone()], &self.v[columns.clone()]);
                step(row, (self.u[i], y), (self.x[i], v), None);
                add(sums, with, row);
            }
        });
    }
}
