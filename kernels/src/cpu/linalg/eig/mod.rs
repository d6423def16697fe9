//! Eigenvalues of general matrices: balancing, reflections to a Hessenberg matrix, Francis' iteration to a quasi-triangular
//! one, whose vectors are found by substitution (Golub and Van Loan, Matrix Computations, 7.4 to 7.6).

mod balance;
mod hessenberg;
mod schur;
mod vectors;

use super::row::scale;
use super::{Fault, Float};

/// The results of a matrix: rows of `n` numbers.
#[derive(Debug)]
pub struct Eig<'a, T> {
    /// Eigenvalues: real parts, then imaginary ones. Conjugate pairs stand together, the positive imaginary part first.
    pub values: &'a mut [T],
    /// Eigenvectors as columns, or nothing where they are not wanted: real parts, then imaginary ones. A vector has norm 1, and
    /// its greatest element is real.
    pub vectors: &'a mut [T],
}

/// The eigenvalues and eigenvectors of a matrix of `n` rows, which is overwritten.
///
/// # Errors
/// An element is not finite; the iteration does not end.
pub fn eig<T: Float>(a: &mut [T], n: usize, out: Eig<'_, T>) -> Result<(), Fault> {
    let unit = scale(a).ok_or(Fault::NotFinite)?;
    a.iter_mut().for_each(|x| *x = *x / unit);
    let wanted = !out.vectors.is_empty();
    let factors = balance::balance(a, n);
    // Rows of the turned basis, empty where nobody asks for it.
    let mut basis = hessenberg::reduce(a, n, wanted);
    let (re, im) = out.values.split_at_mut(n);
    schur::iterate(a, n, &mut basis, (&mut *re, &mut *im))?;
    if wanted {
        let (of_re, of_im) = out.vectors.split_at_mut(n * n);
        vectors::vectors(a, n, (re, im), &basis, &factors, (of_re, of_im));
    }
    out.values.iter_mut().for_each(|x| *x = *x * unit);
    Ok(())
}
