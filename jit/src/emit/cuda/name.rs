//! A kernel's arguments and what it computes of them, as names of the kernel IR; for text that is not taken apart yet, also
//! as they are spelled.

use crate::kernel::ir::{Expr, Name};
use std::fmt::{self, Display, Formatter};

/// An integer argument, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Param(pub usize);

/// An integer argument that non-negative numbers are divided by, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Divisor(pub usize);

/// A pointer among the arguments, by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(pub usize);

/// The part of an index that depends on the row alone, numbered in the order of computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Base(pub usize);

impl Display for Param {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "P{}", self.0)
    }
}

impl Display for Divisor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "D{}", self.0)
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

impl Display for Base {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "b{}", self.0)
    }
}

impl From<Param> for Expr {
    fn from(name: Param) -> Expr {
        // A kernel has far fewer than 2³² of anything.
        Name::Param(name.0 as u32).into()
    }
}

impl From<Divisor> for Expr {
    fn from(name: Divisor) -> Expr {
        // A kernel has far fewer than 2³² of anything.
        Name::Divisor(name.0 as u32).into()
    }
}

impl From<Place> for Expr {
    fn from(name: Place) -> Expr {
        // A kernel has far fewer than 2³² of anything.
        Name::Pointer(name.0 as u32).into()
    }
}

impl From<Base> for Expr {
    fn from(name: Base) -> Expr {
        // A kernel has far fewer than 2³² of anything.
        Name::Base(name.0 as u32).into()
    }
}

/// What divides 32-bit numbers from 0 to 2³¹ − 1 by `d`: `n / d = n · magic >> shift` (Granlund and Montgomery, 1994).
pub(super) fn magic(d: i64) -> (i64, i64) {
    let d = d.clamp(1, i64::from(i32::MAX)) as u64;
    let shift = 31 + (64 - (d - 1).leading_zeros());
    (((1u64 << shift) / d + 1) as i64, i64::from(shift))
}

#[cfg(test)]
mod tests {
    use super::magic;

    #[test]
    fn divides_by_a_product() {
        let ends = |d: u64| [0, 1, d - 1, d, d + 1, 2 * d - 1, 2 * d];
        let most = (1u64 << 31) - 1;
        let powers = (0..31).flat_map(|k| [(1u64 << k) - 1, 1 << k, (1 << k) + 1]);
        for d in powers.chain([3, 7, 641, 65_537, 1_000_003, most - 1, most]) {
            let d = d.clamp(1, most);
            let (m, s) = magic(d as i64);
            assert!(m < 1 << 32 && s < 63, "{d}");
            let tops = [most - most % d, (most - most % d).saturating_sub(1), most];
            for n in ends(d).into_iter().chain(tops).filter(|&n| n <= most) {
                assert_eq!((n * m as u64) >> s, n / d, "{n} / {d}");
            }
        }
    }
}
