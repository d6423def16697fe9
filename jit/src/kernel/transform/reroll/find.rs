//! Repetitions in a sequence of statements.

use super::merge::{Rule, statement};
use super::nodes::Node;
use super::{Around, TURNS};
use crate::kernel::ir::{Expr, Local, Name, Stmt};
use rustc_hash::FxHashMap;

/// Most repetitions of forms that are looked at closely.
const CANDIDATES: usize = 16;

/// Nodes that repeat: `period` of them, `turns` times, from the first on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub first: usize,
    pub period: usize,
    pub turns: usize,
}

/// Where each variable of a sequence is defined.
pub(super) fn places(nodes: &[Node]) -> FxHashMap<Name, usize> {
    let defined = |(n, node): (usize, &Node)| node.defines.map(|d| (d.name, n));
    nodes.iter().enumerate().filter_map(defined).collect()
}

/// Repetitions of at least `weight` parts that turns save, those first whose forms repeat longest. Each is checked when it
/// is asked for: most are multiples of the first.
pub(super) struct Runs {
    at: FxHashMap<Name, usize>,
    left: std::vec::IntoIter<(usize, usize, usize)>,
    weight: usize,
}

impl Runs {
    pub fn of(nodes: &[Node], weight: usize) -> Runs {
        let left = candidates(nodes, weight).into_iter();
        let at = places(nodes);
        Runs { at, left, weight }
    }

    /// The next repetition.
    pub fn next(&mut self, nodes: &[Node], around: &Around<'_>) -> Option<Run> {
        let Runs { at, left, weight } = self;
        left.by_ref().find_map(|(first, period, pairs)| {
            let mut rule = Pair { at, around, period };
            let alike = |n: &usize| similar(&nodes[*n], &nodes[n + period], &mut rule);
            let (first, pairs) = longest(first..first + pairs, alike)?;
            let run = Run {
                first,
                period,
                turns: (pairs + period) / period,
            };
            (run.turns >= TURNS && saved(nodes, &run) >= *weight).then_some(run)
        })
    }
}

/// The parts that turns save.
fn saved(nodes: &[Node], run: &Run) -> usize {
    let rest = run.first + run.period..run.first + run.period * run.turns;
    nodes[rest].iter().map(|n| n.weight).sum()
}

/// For the distances at which forms repeat longest: the first node, the distance, and how many nodes in a row have the form
/// of the one so far behind.
fn candidates(nodes: &[Node], weight: usize) -> Vec<(usize, usize, usize)> {
    let mut found: Vec<(usize, (usize, usize, usize))> = Vec::new();
    for period in 1..=nodes.len() / TURNS {
        let alike = |n: &usize| nodes[*n].form == nodes[n + period].form;
        let Some((first, pairs)) = longest(0..nodes.len() - period, alike) else {
            continue;
        };
        let saved: usize = nodes[first..first + pairs].iter().map(|n| n.weight).sum();
        if pairs >= period * (TURNS - 1) && saved >= weight {
            found.push((saved, (first, period, pairs)));
        }
    }
    found.sort_by_key(|&(saved, (_, period, _))| (std::cmp::Reverse(saved), period));
    found.truncate(CANDIDATES);
    found.into_iter().map(|(_, candidate)| candidate).collect()
}

/// The longest run of numbers that fit: the first, and how many.
fn longest(
    range: std::ops::Range<usize>,
    mut fits: impl FnMut(&usize) -> bool,
) -> Option<(usize, usize)> {
    let (mut best, mut begin) = (None, range.start);
    let end = range.end;
    for n in range.chain([end]) {
        if n < end && fits(&n) {
            continue;
        }
        if n > begin && best.is_none_or(|(_, length)| n - begin > length) {
            best = Some((begin, n - begin));
        }
        begin = n + 1;
    }
    best
}

/// Whether two nodes may be the same statement of two turns that follow one another.
fn similar(a: &Node, b: &Node, rule: &mut Pair<'_>) -> bool {
    let form = |n: &Node| (n.form, n.stmts.len(), n.defines.map(|d| (d.ty, d.extent)));
    let both = |(x, y): (&Stmt, &Stmt)| statement(&[x, y], rule).is_some();
    form(a) == form(b) && a.stmts.iter().zip(&b.stmts).all(both)
}

/// What may differ between two turns that follow one another.
struct Pair<'a> {
    at: &'a FxHashMap<Name, usize>,
    around: &'a Around<'a>,
    period: usize,
}

impl Rule for Pair<'_> {
    fn names(&mut self, names: &[Name]) -> Option<Expr> {
        let &[a, b] = names else { return None };
        let fits = match (self.at.get(&a), self.at.get(&b)) {
            (Some(x), Some(y)) => a == b || x + self.period == *y,
            (None, None) if a == b || self.around.in_one_table(names) => true,
            (None, None) => {
                let both = [self.around.definition(a)?, self.around.definition(b)?];
                super::merge::expression(&both, self).is_some()
            }
            _ => false,
        };
        fits.then(|| a.into())
    }

    fn positions(&mut self, _: &[i64]) -> Option<Expr> {
        Some(Local::Step.into())
    }
}
