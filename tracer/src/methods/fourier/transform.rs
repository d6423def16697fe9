//! A transform along the last dimension, as products with matrices of transforms of at most 64 numbers.
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

/// The parts of complex numbers along a dimension of size 2.
#[track_caller]
fn parts(x: &Tensor, dim: isize) -> [Tensor; 2] {
    [x.select(dim, 0), x.select(dim, 1)]
}

/// Real and imaginary parts of products of complex numbers.
#[track_caller]
pub(super) fn multiplied([a, b]: &[Tensor; 2], [c, d]: &[Tensor; 2]) -> [Tensor; 2] {
    [a * c - b * d, a * d + b * c]
}

/// The transform, without a factor, of `[batch, parts, n]`, whose parts are the real ones and, where there are two, the imaginary
/// ones: `[batch, 2, n]`.
#[track_caller]
pub(super) fn transform(x: &Tensor, direction: Direction) -> Tensor {
    let (batch, given, n) = (x.shape()[0], x.shape()[1], x.shape()[2]);
    let (dtype, device) = (x.dtype(), x.device());
    let table = |table: Table| table.tensor(direction, dtype, &device);
    match split(n) {
        Split::Whole => {
            let matrix = table(Table::Matrix { n }).narrow(0, 0, given * n);
            let rows = x.reshape([batch, given * n]);
            rows.matmul(&matrix).reshape([batch, 2, n])
        }
        Split::Parts(first, second) => {
            let x = x.reshape([batch, given, first, second]);
            let x = x
                .permute([0, 3, 1, 2])
                .reshape([batch * second, given, first]);
            let x = transform(&x, direction).reshape([batch, second, 2, first]);
            let twiddles = Table::Twiddles {
                rows: second,
                columns: first,
            };
            let x = multiplied(&parts(&x, 2), &parts(&table(twiddles), 0));
            let x = x.map(|part| part.transpose(1, 2));
            let x = Tensor::stack(&x, 2).reshape([batch * first, 2, second]);
            let x = transform(&x, direction).reshape([batch, first, 2, second]);
            x.permute([0, 2, 3, 1]).reshape([batch, 2, n])
        }
        Split::Convolution(length) => {
            let chirp = parts(&table(Table::Chirp { n }), 0);
            let x = match given {
                1 => chirp.clone().map(|part| x.select(1, 0) * part),
                _ => multiplied(&parts(x, 1), &chirp),
            };
            let padded = |x: &Tensor| x.pad(&[(0, 0), (0, (length - n) as isize)], 0.0);
            let x = Tensor::stack(&x.map(|part| padded(&part)), 1);
            // What is convolved with: the inverse chirp, at negative places too.
            let kernel = [chirp[0].clone(), -&chirp[1]].map(|part| {
                let back = part.narrow(0, 1, n - 1).flip(0);
                let between = Tensor::zeros(length - 2 * n + 1, dtype, &device);
                Tensor::cat(&[&part, &between, &back], 0)
            });
            let kernel = Tensor::stack(&kernel, 0).unsqueeze(0);
            let kernel = transform(&kernel, Direction::Forward);
            let x = transform(&x, Direction::Forward);
            let x = multiplied(&parts(&x, 1), &parts(&kernel, 1));
            let x = transform(&Tensor::stack(&x, 1), Direction::Inverse) * (1.0 / length as f64);
            let x = multiplied(&parts(&x.narrow(2, 0, n), 1), &chirp);
            Tensor::stack(&x, 1)
        }
    }
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
}
