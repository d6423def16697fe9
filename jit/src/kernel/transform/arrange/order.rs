//! The order of arguments.

use std::ops::Range;

/// Arguments with those that are named first, then those that are added, the tables, and those that nothing reads.
pub(super) struct Order {
    /// The old position of each.
    pub old: Vec<Option<usize>>,
    /// The new position of each old one.
    new: Vec<usize>,
    /// Where those that are added stand.
    pub added: usize,
}

impl Order {
    /// The order of `count` arguments, of which those at `table` are in tables and those that `named` names are read by name,
    /// and of so many that are `added`.
    pub fn new(
        count: usize,
        table: Range<i64>,
        named: impl Fn(u32) -> bool,
        added: usize,
    ) -> Order {
        // A kernel has far fewer arguments than 2³².
        let rank = |i: &usize| match table.contains(&(*i as i64)) {
            true => 2,
            false if named(*i as u32) => 0,
            false => 3,
        };
        let mut old: Vec<usize> = (0..count).collect();
        old.sort_by_key(rank);
        let first = old.iter().filter(|i| rank(i) == 0).count();
        let mut new = vec![0; count];
        for (at, &i) in old.iter().enumerate() {
            new[i] = if at < first { at } else { at + added };
        }
        let mut old: Vec<Option<usize>> = old.into_iter().map(Some).collect();
        old.splice(first..first, (0..added).map(|_| None));
        Order {
            old,
            new,
            added: first,
        }
    }

    /// The new position of an argument.
    pub fn new_of(&self, old: i64) -> i64 {
        self.new[old as usize] as i64
    }
}
