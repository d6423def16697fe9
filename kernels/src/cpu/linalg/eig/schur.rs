//! Francis' iteration with double shifts: a Hessenberg matrix becomes quasi-triangular, with blocks of one row for real
//! eigenvalues and of two for conjugate pairs.

use crate::cpu::linalg::row::{pair, turn};
use crate::cpu::linalg::{Fault, Float};

/// Steps for each eigenvalue; two or three are usual.
const STEPS: usize = 60;
/// Steps after which shifts by the corner are taken not to converge.
const PATIENCE: usize = 10;

/// The matrix, and the rows of the basis that turn with it.
struct Iteration<'a, T> {
    h: &'a mut [T],
    n: usize,
    basis: &'a mut [T],
}

/// Takes a Hessenberg matrix to a quasi-triangular one, turns the rows of `basis`, which may be none, with it, and writes the
/// real and imaginary parts of the eigenvalues.
///
/// # Errors
/// The iteration does not end.
pub fn iterate<T: Float>(
    h: &mut [T],
    n: usize,
    basis: &mut [T],
    (re, im): (&mut [T], &mut [T]),
) -> Result<(), Fault> {
    let magnitude = h.iter().fold(T::ZERO, |sum, x| sum + x.abs());
    let mut of = Iteration { h, n, basis };
    let (mut rows, mut steps) = (n, 0);
    while rows > 0 {
        let last = rows - 1;
        let first = of.start(last, magnitude);
        match last - first {
            0 => {
                (re[last], im[last]) = (of.at(last, last), T::ZERO);
                (rows, steps) = (rows - 1, 0);
            }
            1 => {
                of.part(first, re, im);
                (rows, steps) = (rows - 2, 0);
            }
            _ if steps == STEPS => return Err(Fault::Diverged),
            _ => {
                steps += 1;
                of.step(first, last, steps);
            }
        }
    }
    Ok(())
}

impl<T: Float> Iteration<'_, T> {
    fn at(&self, i: usize, j: usize) -> T {
        self.h[i * self.n + j]
    }

    /// The first row of the block that ends with row `last`; what is negligible in front of it becomes 0.
    fn start(&mut self, last: usize, magnitude: T) -> usize {
        for l in (1..=last).rev() {
            let near = self.at(l - 1, l - 1).abs() + self.at(l, l).abs();
            let near = if near == T::ZERO { magnitude } else { near };
            if self.at(l, l - 1).abs() <= T::EPSILON * near {
                self.h[l * self.n + l - 1] = T::ZERO;
                return l;
            }
        }
        0
    }

    /// The eigenvalues of the block of two rows from `i` on, which falls apart where they are real.
    fn part(&mut self, i: usize, re: &mut [T], im: &mut [T]) {
        let j = i + 1;
        let (a, b, c, d) = (self.at(i, i), self.at(i, j), self.at(j, i), self.at(j, j));
        let p = (a - d) * T::from_f64(0.5);
        let (q, w) = (p * p + b * c, b * c);
        let root = q.abs().sqrt();
        if q < T::ZERO {
            (re[i], re[j]) = (d + p, d + p);
            (im[i], im[j]) = (root, -root);
            return;
        }
        let z = p + root.signed(p);
        let one = d + z;
        let other = if z == T::ZERO { one } else { d - w / z };
        // A rotation of the vector (z, c), the eigenvector of `one`, to the first axis.
        let r = z.hypot(c);
        if r > T::ZERO {
            self.rotate(i, (z / r, c / r));
        }
        self.h[j * self.n + i] = T::ZERO;
        (self.h[i * self.n + i], self.h[j * self.n + j]) = (one, other);
        (re[i], re[j]) = (one, other);
        (im[i], im[j]) = (T::ZERO, T::ZERO);
    }

    /// Rotates rows, columns and basis at `i` and the next by an angle of this cosine and sine.
    fn rotate(&mut self, i: usize, (c, s): (T, T)) {
        let n = self.n;
        let (x, y) = pair(self.h, n, i, i + 1);
        turn(&mut x[i..], &mut y[i..], (c, -s));
        for row in self.h.chunks_exact_mut(n).take(i + 2) {
            let (x, y) = (row[i], row[i + 1]);
            (row[i], row[i + 1]) = (c * x + s * y, c * y - s * x);
        }
        if !self.basis.is_empty() {
            let (x, y) = pair(self.basis, n, i, i + 1);
            turn(x, y, (c, -s));
        }
    }

    /// The diagonal and the product of the other two elements of a matrix of two rows whose eigenvalues are the shifts: the last
    /// two rows, others where these do not converge.
    fn shifts(&self, first: usize, last: usize, step: usize) -> [T; 3] {
        let corner = |edge: T, i: usize| {
            let size = self.at(i, i - 1).abs() + self.at(i + 1, i).abs();
            let x = T::from_f64(0.75) * size + edge;
            [x, x, -T::from_f64(0.4375) * size * size]
        };
        match step % (2 * PATIENCE) {
            0 => corner(self.at(first, first), first + 1),
            PATIENCE => corner(self.at(last, last), last - 1),
            _ => [
                self.at(last, last),
                self.at(last - 1, last - 1),
                self.at(last, last - 1) * self.at(last - 1, last),
            ],
        }
    }

    /// One step on rows `first` to `last`, of which there are three at least.
    fn step(&mut self, first: usize, last: usize, step: usize) {
        let shifts = self.shifts(first, last, step);
        let (start, mut v) = self.column(first, last, shifts);
        for k in start..last {
            let count = if k + 2 > last { 2 } else { 3 };
            if k > start {
                for (i, v) in v.iter_mut().enumerate().take(count) {
                    *v = self.at(k + i, k - 1);
                }
            }
            let v = &mut v[..count];
            let size = v.iter().fold(T::ZERO, |size, x| size + x.abs());
            if size == T::ZERO {
                continue;
            }
            v.iter_mut().for_each(|x| *x = *x / size);
            let square = v.iter().fold(T::ZERO, |sum, &x| sum + x * x);
            let norm = square.sqrt().signed(v[0]);
            if k > start {
                self.h[k * self.n + k - 1] = -norm * size;
                (1..count).for_each(|i| self.h[(k + i) * self.n + k - 1] = T::ZERO);
            } else if start > first {
                self.h[k * self.n + k - 1] = -self.at(k, k - 1);
            }
            // The reflection 1 − f·v·vᵀ with v's first element 1.
            let lead = v[0] + norm;
            let factor = lead / norm;
            v[0] = T::ONE;
            v[1..].iter_mut().for_each(|x| *x = *x / lead);
            self.reflect(k, last, v, factor);
        }
    }

    /// The row that a step starts with, where two elements below the diagonal in a row are small, and the first column of the
    /// shifted matrix's square there.
    fn column(&self, first: usize, last: usize, [x, y, w]: [T; 3]) -> (usize, [T; 3]) {
        let mut m = last - 2;
        loop {
            let (z, below) = (self.at(m, m), self.at(m + 1, m));
            let (from_x, from_y) = (x - z, y - z);
            let p = (from_x * from_y - w) / below + self.at(m, m + 1);
            let q = self.at(m + 1, m + 1) - z - from_x - from_y;
            let r = self.at(m + 2, m + 1);
            let size = p.abs() + q.abs() + r.abs();
            let v = match size > T::ZERO {
                true => [p / size, q / size, r / size],
                false => [p, q, r],
            };
            if m == first {
                return (m, v);
            }
            let near = self.at(m - 1, m - 1).abs() + z.abs() + self.at(m + 1, m + 1).abs();
            let small = self.at(m, m - 1).abs() * (v[1].abs() + v[2].abs());
            if small <= T::EPSILON * v[0].abs() * near {
                return (m, v);
            }
            m -= 1;
        }
    }

    /// Reflects the rows from `k` on, as many as `v` has elements, the columns and the basis.
    fn reflect(&mut self, k: usize, last: usize, v: &[T], factor: T) {
        let n = self.n;
        across(&mut self.h[k * n..], n, k, v, factor);
        let end = (k + 4).min(last + 1);
        for row in self.h.chunks_exact_mut(n).take(end) {
            let row = &mut row[k..k + v.len()];
            let along = row.iter().zip(v).fold(T::ZERO, |sum, (&x, &v)| sum + x * v);
            for (x, &v) in row.iter_mut().zip(v) {
                *x = *x - factor * along * v;
            }
        }
        if !self.basis.is_empty() {
            across(&mut self.basis[k * n..], n, 0, v, factor);
        }
    }
}

/// Reflects two or three rows in the columns from `from` on.
fn across<T: Float>(rows: &mut [T], n: usize, from: usize, v: &[T], factor: T) {
    let (x, rest) = rows.split_at_mut(n);
    let (y, rest) = rest.split_at_mut(n);
    let (x, y) = (&mut x[from..], &mut y[from..]);
    match *v {
        [_, b, c] => {
            for ((x, y), z) in x.iter_mut().zip(y).zip(&mut rest[from..n]) {
                let along = factor * (*x + b * *y + c * *z);
                (*x, *y, *z) = (*x - along, *y - b * along, *z - c * along);
            }
        }
        [_, b] => {
            for (x, y) in x.iter_mut().zip(y) {
                let along = factor * (*x + b * *y);
                (*x, *y) = (*x - along, *y - b * along);
            }
        }
        _ => {}
    }
}
