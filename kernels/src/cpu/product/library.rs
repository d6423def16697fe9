//! The product of the `gemm` crates, and dense rows for right matrices of dense columns, which they are slow to read.

use super::vector::Real;
use super::view::{Sizes, View};
use crate::cpu::strided;
use gemm_common::Parallelism;

/// Writes (or adds, if `accumulate`) the library's product to `to`, whose rows are `row` apart.
///
/// # Safety
/// The operands are inside their memory; the result is inside one allocation, and no other thread touches it meanwhile.
pub(in crate::cpu) unsafe fn by_library<T: Real>(
    s: Sizes,
    a: View<'_, T>,
    b: View<'_, T>,
    (to, row): (*mut T, usize),
    accumulate: bool,
    parallelism: Parallelism,
) {
    let (mut a, mut b) = (a, b);
    // The library counts k upwards in its left matrix.
    if b.row < 0 && s.k > 0 {
        (a, b) = (a.from(0, s.k - 1), b.from(s.k - 1, 0));
        (a.col, b.row) = (-a.col, -b.row);
    }
    // The library's results are column-major, so the product of the transposes is asked for. SAFETY: as the caller
    // promises.
    unsafe {
        T::product()(
            s.n,
            s.m,
            s.k,
            to,
            row as isize,
            1,
            accumulate,
            b.data.as_ptr().wrapping_add(b.start),
            b.row,
            b.col,
            a.data.as_ptr().wrapping_add(a.start),
            a.row,
            a.col,
            T::ONE,
            T::ONE,
            false,
            false,
            false,
            parallelism,
        );
    }
}

/// Whether the right matrix is one of dense columns that is not as well one of dense rows.
pub(super) fn has_dense_columns<T>(s: Sizes, b: &View<'_, T>) -> bool {
    s.k > 1 && s.n > 1 && b.row == 1 && b.col >= s.k as isize
}

/// Copies the right matrix of a product to dense rows.
///
/// # Safety
/// The matrix is inside its memory, and `to` has room for it.
pub(super) unsafe fn turn<T>(s: Sizes, b: &View<'_, T>, to: *mut T) {
    let window = strided::Window {
        rows: s.k,
        cols: s.n,
        row: b.row,
        col: b.col,
    };
    // SAFETY: as the caller promises.
    unsafe {
        let from = b.data.as_ptr().add(b.start).cast();
        strided::gather(size_of::<T>(), window, from, to.cast(), s.n);
    }
}
