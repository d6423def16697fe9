//! Bounds of expressions and of what they are made of.

use super::Var;

/// Inclusive bounds of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Least value.
    pub low: i64,
    /// Greatest value.
    pub high: i64,
}

impl Range {
    /// Bounds that say nothing.
    pub const ANY: Range = Range {
        low: i64::MIN,
        high: i64::MAX,
    };

    /// `low..=high`.
    pub const fn new(low: i64, high: i64) -> Range {
        Range { low, high }
    }

    pub(super) fn add(self, other: Range) -> Range {
        Range::new(
            self.low.saturating_add(other.low),
            self.high.saturating_add(other.high),
        )
    }

    pub(super) fn scale(self, by: i64) -> Range {
        let (a, b) = (self.low.saturating_mul(by), self.high.saturating_mul(by));
        Range::new(a.min(b), a.max(b))
    }

    pub(super) fn mul(self, other: Range) -> Range {
        let all = [
            self.low.saturating_mul(other.low),
            self.low.saturating_mul(other.high),
            self.high.saturating_mul(other.low),
            self.high.saturating_mul(other.high),
        ];
        Range::new(
            all.into_iter().min().unwrap_or(i64::MIN),
            all.into_iter().max().unwrap_or(i64::MAX),
        )
    }
}

/// What is known of variables and run-time values.
pub trait Ranges {
    /// Bounds of a variable.
    fn var(&self, var: Var) -> Range;

    /// Bounds of a run-time index value.
    fn value(&self, value: u32) -> Range;
}

/// Variable `v` runs over `0..extents[v]`; run-time values are only known not to be negative.
impl Ranges for [usize] {
    fn var(&self, var: Var) -> Range {
        self.get(var.0 as usize)
            .map_or(Range::ANY, |&n| Range::new(0, (n as i64 - 1).max(0)))
    }

    fn value(&self, _: u32) -> Range {
        Range::new(0, i64::MAX)
    }
}
