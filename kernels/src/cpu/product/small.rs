//! Products of small matrices, as batches of rotations and covariances have: the right matrix and a row of sums stay in
//! registers.
//!
//! Each element is one chain of fused multiply-adds.

use super::vector::Real;
use super::view::{Sizes, View};
use crate::cpu::isa::{Loop, dispatch};

/// Most rows, columns and terms. Larger products fill the library's tiles.
const MOST: usize = 16;

/// Whether a product is of small matrices; vectors have kernels of their own.
pub(super) fn is_small(s: Sizes) -> bool {
    let fits = |n: usize| (2..=MOST).contains(&n);
    fits(s.m) && fits(s.n) && (1..=MOST).contains(&s.k)
}

/// Writes the product of small matrices to `to`, whose rows are `row` apart.
///
/// # Safety
/// The operands are inside their memory, and so is the result, which no other thread touches meanwhile.
pub(super) unsafe fn product<T: Real>(
    s: Sizes,
    a: View<'_, T>,
    b: View<'_, T>,
    (to, row): (*mut T, usize),
) {
    match s.n {
        ..=4 => dispatch(Small::<T, 4> { s, a, b, to, row }),
        5..=8 => dispatch(Small::<T, 8> { s, a, b, to, row }),
        _ => dispatch(Small::<T, MOST> { s, a, b, to, row }),
    }
}

/// A product of at most `W` columns.
struct Small<'a, T, const W: usize> {
    s: Sizes,
    a: View<'a, T>,
    b: View<'a, T>,
    to: *mut T,
    row: usize,
}

impl<T: Real, const W: usize> Loop for Small<'_, T, W> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Small { s, a, b, to, row } = self;
        let (from_a, from_b) = (
            a.data.as_ptr().wrapping_add(a.start),
            b.data.as_ptr().wrapping_add(b.start),
        );
        let mut right = [[T::ZERO; W]; MOST];
        for (l, right) in right.iter_mut().enumerate().take(s.k) {
            let from = from_b.wrapping_offset(l as isize * b.row);
            for (j, right) in right.iter_mut().enumerate().take(s.n) {
                // SAFETY: the element is inside the matrix, as callers of `product` promise.
                *right = unsafe { *from.wrapping_offset(j as isize * b.col) };
            }
        }
        for i in 0..s.m {
            let from = from_a.wrapping_offset(i as isize * a.row);
            let mut sums = [T::ZERO; W];
            for (l, right) in right.iter().enumerate().take(s.k) {
                // SAFETY: the element is inside the matrix, as callers of `product` promise.
                let factor = unsafe { *from.wrapping_offset(l as isize * a.col) };
                for (sum, &right) in sums.iter_mut().zip(right) {
                    *sum = factor.fused(right, *sum);
                }
            }
            for (j, &sum) in sums.iter().enumerate().take(s.n) {
                // SAFETY: the element is inside the result, as callers of `product` promise.
                unsafe { to.add(i * row + j).write(sum) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every size, rows and columns in either order, beside sums in binary64.
    fn check<T: Real + PartialEq + std::fmt::Debug>(of: impl Fn(f64) -> T, error: f64) {
        let number = |i: usize| ((i * 7919 % 1009) as f64 - 500.0) / 313.0;
        for m in 2..=MOST {
            for n in 2..=MOST {
                for k in 1..=MOST {
                    let (left, right): (Vec<f64>, Vec<f64>) = (
                        (0..m * k + 2).map(number).collect(),
                        (0..k * n + 5).map(|i| number(i + 333)).collect(),
                    );
                    let cast = |all: &[f64]| all.iter().map(|&x| of(x)).collect::<Vec<T>>();
                    let (a, b) = (cast(&left), cast(&right));
                    let a = [
                        View {
                            start: 2,
                            ..View::dense(&a, k)
                        },
                        View {
                            start: 2,
                            ..View::dense(&a, m).transpose()
                        },
                    ];
                    let b = [
                        View {
                            start: 5,
                            ..View::dense(&b, n)
                        },
                        View {
                            start: 5,
                            ..View::dense(&b, k).transpose()
                        },
                    ];
                    let s = Sizes { m, n, k };
                    for (a, b) in a.into_iter().flat_map(|a| b.map(|b| (a, b))) {
                        let mut got = vec![T::ZERO; m * (n + 1)];
                        // SAFETY: the matrices have as many elements.
                        unsafe {
                            product(s, a, b, (got.as_mut_ptr(), n + 1));
                        }
                        for (at, got) in got.iter().enumerate().filter(|(at, _)| at % (n + 1) < n) {
                            let (i, j) = ((at / (n + 1)) as isize, (at % (n + 1)) as isize);
                            let term = |l: isize| {
                                let left = left[(2 + i * a.row + l * a.col) as usize];
                                left * right[(5 + l * b.row + j * b.col) as usize]
                            };
                            let sum: f64 = (0..k as isize).map(term).sum();
                            let got: f64 = got.total();
                            assert!((got - sum).abs() <= error * k as f64, "{got} {sum}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn small_products_of_every_size() {
        check::<f32>(|x| x as f32, 1e-6);
        check::<f64>(|x| x, 1e-15);
    }
}
