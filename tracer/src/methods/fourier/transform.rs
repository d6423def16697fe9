//! A transform along a dimension, as products with matrices of transforms of at most 64 numbers.
//!
//! A length n = n₁·n₂ is split as Cooley and Tukey do: transforms of n₁, factors between, and transforms of n₂. A length without
//! a small divisor becomes a convolution, whose transforms have a power of two (Bluestein's algorithm).

use super::tables::{Direction, Table};
use crate::Tensor;
use std::ops::RangeInclusive;

/// The lengths of transforms that are one product.
const WHOLE: RangeInclusive<usize> = 1..=64;

/// How a transform of a length is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Split {
    /// One product.
    Whole,
    /// Transforms of the first length, which is a [whole](Split::Whole) one, and then of the second.
    Parts(usize, usize),
    /// A convolution by transforms of this length.
    Convolution(usize),
}

/// The way to transform `n` numbers: the fewest parts, of lengths as equal as divisors are.
pub(super) fn split(n: usize) -> Split {
    if WHOLE.contains(&n) {
        return Split::Whole;
    }
    let (size, most) = ((n as f64).ln(), (*WHOLE.end() as f64).ln());
    let target = size / (size / most).ceil();
    let distance = |divisor: usize| ((divisor as f64).ln() - target).abs();
    let divisors = (2..=*WHOLE.end()).filter(|divisor| n.is_multiple_of(*divisor));
    match divisors.min_by(|&a, &b| distance(a).total_cmp(&distance(b))) {
        Some(first) => Split::Parts(first, n / first),
        None => Split::Convolution((2 * n - 1).next_power_of_two()),
    }
}

/// Whether the transform of `n` real numbers has no imaginary part at the frequencies 0 and n/2, not one of rounding either.
pub(super) fn has_real_ends(n: usize) -> bool {
    match split(n) {
        Split::Whole => true,
        // The number n/2 is one of the second transform's, of numbers that are real, where that has an even length.
        Split::Parts(_, second) => (n % 2 == 1 || second % 2 == 0) && has_real_ends(second),
        Split::Convolution(_) => false,
    }
}

/// The parts of complex numbers along a dimension of size 2.
#[track_caller]
fn both(x: &Tensor, dim: isize) -> [Tensor; 2] {
    [x.select(dim, 0), x.select(dim, 1)]
}

/// Real and imaginary parts of products of complex numbers.
#[track_caller]
pub(super) fn multiplied([a, b]: &[Tensor; 2], [c, d]: &[Tensor; 2]) -> [Tensor; 2] {
    [a * c - b * d, a * d + b * c]
}

/// What of a transform is computed: the first numbers, and the real parts alone or both.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub parts: usize,
    pub count: usize,
}

/// The transform along n, without a factor, of `[batch, parts, n, columns]`, whose parts are the real ones and, where there are
/// two, the imaginary ones: as many parts and numbers of each as are wanted, `[batch, parts, count, columns]`.
#[track_caller]
pub(super) fn transform(x: &Tensor, direction: Direction, wanted: Wanted) -> Tensor {
    let [batch, given, n, columns] = [0, 1, 2, 3].map(|dim| x.shape()[dim]);
    let Wanted { parts, count } = wanted;
    match split(n) {
        Split::Whole => {
            let matrix = Table::Matrix { n, parts, count };
            let matrix = matrix.tensor(direction, x.dtype(), &x.device());
            let matrix = matrix.narrow(0, 0, given * n);
            let y = match columns {
                1 => x.reshape([batch, given * n]).matmul(&matrix),
                _ => matrix.t().matmul(&x.reshape([batch, given * n, columns])),
            };
            y.reshape([batch, parts, count, columns])
        }
        Split::Parts(first, second) => {
            let all = Wanted {
                parts: 2,
                count: first,
            };
            // Numbers of one transform lie next to each other where columns do not.
            let x = match columns {
                1 => {
                    let x = x
                        .reshape([batch, given, first, second])
                        .permute([0, 3, 1, 2]);
                    let x = x.reshape([batch * second, given, first, 1]);
                    let x = transform(&x, direction, all);
                    x.reshape([batch, second, 2, first, 1])
                        .permute([0, 2, 3, 1, 4])
                }
                _ => {
                    let x = x.reshape([batch, given, first, second * columns]);
                    transform(&x, direction, all).reshape([batch, 2, first, second, columns])
                }
            };
            let twiddles = Table::Twiddles {
                rows: second,
                columns: first,
            };
            let twiddles = twiddles.tensor(direction, x.dtype(), &x.device());
            let x = both(&x, 1).map(|part| part.transpose(1, 2));
            let x = multiplied(&x, &both(&twiddles.unsqueeze(-1), 0));
            let x = Tensor::stack(&x, 1).reshape([batch, 2, second, first * columns]);
            // Number k of the first transforms gives the numbers k, k + first, k + 2·first, ..
            let each = count.div_ceil(first);
            let y = transform(&x, direction, Wanted { parts, count: each });
            let y = y.reshape([batch, parts, each * first, columns]);
            y.narrow(2, 0, count)
        }
        Split::Convolution(length) => convolved(x, direction, wanted, length),
    }
}

/// The transform as a convolution with a chirp, by transforms of a longer length: jk = (j² + k² − (k − j)²) / 2.
#[track_caller]
fn convolved(x: &Tensor, direction: Direction, wanted: Wanted, length: usize) -> Tensor {
    let (given, n, dtype, device) = (x.shape()[1], x.shape()[2], x.dtype(), x.device());
    let chirp = Table::Chirp { n }.tensor(direction, dtype, &device);
    let chirp = both(&chirp.unsqueeze(-1), 0);
    let x = match given {
        1 => chirp.clone().map(|part| x.select(1, 0) * part),
        _ => multiplied(&both(x, 1), &chirp),
    };
    let pads = [(0, 0), (0, (length - n) as isize)];
    let x = Tensor::stack(&x.map(|part| part.pad(&pads, 0.0)), 1);
    // What is convolved with: the inverse chirp, at negative places too.
    let kernel = [chirp[0].clone(), -&chirp[1]].map(|part| {
        let back = part.narrow(0, 1, n - 1).flip(0);
        let between = Tensor::zeros([length - 2 * n + 1, 1], dtype, &device);
        Tensor::cat(&[&part, &between, &back], 0)
    });
    let kernel = Tensor::stack(&kernel, 0).unsqueeze(0);
    let all = Wanted {
        parts: 2,
        count: length,
    };
    let kernel = transform(&kernel, Direction::Forward, all);
    let x = transform(&x, Direction::Forward, all);
    let x = multiplied(&both(&x, 1), &both(&kernel, 1));
    let Wanted { parts, count } = wanted;
    let first = Wanted { parts: 2, count };
    let x = transform(&Tensor::stack(&x, 1), Direction::Inverse, first) * (1.0 / length as f64);
    let y = multiplied(&both(&x, 1), &chirp.map(|part| part.narrow(0, 0, count)));
    Tensor::stack(&y[..parts], 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_split_evenly() {
        assert_eq!(split(64), Split::Whole);
        assert_eq!(split(128), Split::Parts(8, 16));
        assert_eq!(split(4096), Split::Parts(64, 64));
        assert_eq!(split(1 << 18), Split::Parts(64, 4096));
        assert_eq!(split(1000), Split::Parts(25, 40));
        assert_eq!(split(2 * 101), Split::Parts(2, 101));
        assert_eq!(split(101), Split::Convolution(256));
    }

    #[test]
    fn some_lengths_have_real_ends() {
        assert!([1, 2, 64, 128, 400, 1000, 1 << 18, 81].map(has_real_ends) == [true; 8]);
        // 130 is 10 by 13, 202 is 2 by 101.
        assert!([130, 101, 202].map(has_real_ends) == [false; 3]);
    }
}
