//! Balancing: rows and columns of like norms have eigenvalues of fewer errors (Parlett and Reinsch, Balancing a matrix for
//! calculation of eigenvalues and eigenvectors, 1969).

use crate::cpu::linalg::Float;

/// Divides each row by a power of two, and multiplies the column of the same number by it, until the norms of both are alike.
/// Gives the powers, with which eigenvectors are multiplied.
pub fn balance<T: Float>(a: &mut [T], n: usize) -> Vec<T> {
    let (two, four) = (T::from_f64(2.0), T::from_f64(4.0));
    let mut factors = vec![T::ONE; n];
    let mut settled = false;
    while !settled {
        settled = true;
        for i in 0..n {
            let (mut column, mut row) = (T::ZERO, T::ZERO);
            for j in (0..n).filter(|&j| j != i) {
                column = column + a[j * n + i].abs();
                row = row + a[i * n + j].abs();
            }
            if column == T::ZERO || row == T::ZERO {
                continue;
            }
            let (sum, mut factor) = (column + row, T::ONE);
            while column * two <= row {
                factor = factor * two;
                column = column * four;
            }
            while column >= row * two {
                factor = factor / two;
                column = column / four;
            }
            // Norms that hardly fall are left.
            if (column + row) / factor >= T::from_f64(0.95) * sum {
                continue;
            }
            settled = false;
            factors[i] = factors[i] * factor;
            for j in 0..n {
                a[i * n + j] = a[i * n + j] / factor;
            }
            for j in 0..n {
                a[j * n + i] = a[j * n + i] * factor;
            }
        }
    }
    factors
}
