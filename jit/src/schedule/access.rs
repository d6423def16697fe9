//! What a node touches of each buffer, as sets of positions: what two nodes share, in bytes, and why two that share a
//! buffer do not agree on it (scheduler P-01, P-03, V-03).

use super::{FusedNode, Mismatch};
use crate::body::Source;
use crate::expr::{Expr, Term, Var};
use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

/// A loop of more than one iteration: how far a position moves in each, and how many there are.
type Loop = (i64, usize);

/// The positions of one load or store.
#[derive(Clone, Debug)]
struct Positions {
    /// Loops that move the position, outermost first.
    loops: SmallVec<[Loop; 4]>,
    offset: i64,
    /// Iterations that meet each position again.
    repeats: usize,
    /// Whether loops and offset say it all: no division, no minimum, no index that is looked up.
    exact: bool,
}

impl Positions {
    fn of(index: &Expr, extents: &[usize]) -> Positions {
        let mut found = Positions {
            loops: SmallVec::new(),
            offset: index.constant(),
            repeats: 1,
            exact: index.is_affine(),
        };
        for (v, &n) in extents.iter().enumerate().filter(|(_, n)| **n != 1) {
            match index.coefficient(Var(v as u32)) {
                0 => found.repeats = found.repeats.saturating_mul(n),
                stride => found.loops.push((stride, n)),
            }
        }
        found
    }

    fn elements(&self) -> usize {
        let extents = self.loops.iter().map(|l| l.1);
        extents.fold(1, usize::saturating_mul)
    }

    /// The loops by stride, adjacent ones merged: equal for the same set of positions however it is walked.
    fn sorted(&self) -> SmallVec<[Loop; 4]> {
        let mut loops = self.loops.clone();
        loops.sort_unstable_by_key(|l| std::cmp::Reverse(*l));
        let mut merged: SmallVec<[Loop; 4]> = SmallVec::new();
        for (stride, n) in loops {
            match merged.last_mut() {
                Some(outer) if outer.0 == stride.saturating_mul(n as i64) => {
                    *outer = (stride, outer.1 * n);
                }
                _ => merged.push((stride, n)),
            }
        }
        merged
    }
}

/// One access of a node: its buffer, the bytes it touches there, and a number that accesses to the same positions have in
/// common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Access {
    pub source: Source,
    pub key: u64,
    pub bytes: u64,
}

/// The distinct accesses of a node, by buffer. One through an index that is looked up or divided counts as the whole
/// buffer; none counts as more than that.
pub(super) fn accesses(node: &FusedNode, sizes: &FxHashMap<Source, u64>) -> Vec<Access> {
    let extents = node.extents();
    let whole = |source: Source| sizes.get(&source).copied().unwrap_or(0);
    let mut found = Vec::new();
    let mut add = |source: Source, size: usize, index: &Expr| {
        let at = Positions::of(index, &extents);
        let mut hasher = FxHasher::default();
        let bytes = if at.exact {
            (at.sorted(), at.offset).hash(&mut hasher);
            ((at.elements() * size) as u64).min(whole(source))
        } else {
            whole(source)
        };
        let key = hasher.finish();
        found.push(Access { source, key, bytes });
    };
    for (source, dtype, index) in node.loads() {
        add(source, dtype.size(), index);
    }
    for store in &node.stores {
        add(Source::Node(store.node), store.dtype.size(), &store.index);
        if let Some(update) = &store.update {
            let looked_up = update.at().map(|at| Expr::from(Term::Value(at)));
            let at = looked_up.as_ref().unwrap_or(&store.index);
            add(update.base.0, store.dtype.size(), at);
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Bytes that a node reads of a buffer, of the same positions once. Of positions that are looked up or divided as many as the loops
/// have iterations, so that of a table its rows that are read count: more than the buffer has where they meet again.
pub(crate) fn bytes_read(node: &FusedNode, source: Source) -> u64 {
    let extents = node.extents();
    let iterations = extents.iter().copied().fold(1, usize::saturating_mul);
    let mut met: Vec<(SmallVec<[Loop; 4]>, i64)> = Vec::new();
    let mut looked_up: Vec<&Expr> = Vec::new();
    let mut bytes = 0u64;
    for (_, dtype, index) in node.loads().filter(|load| load.0 == source) {
        let at = Positions::of(index, &extents);
        let positions = (at.sorted(), at.offset);
        let elements = match at.exact {
            true if !met.contains(&positions) => {
                met.push(positions);
                at.elements()
            }
            false if !looked_up.contains(&index) => {
                looked_up.push(index);
                iterations
            }
            _ => 0,
        };
        bytes = bytes.saturating_add(elements.saturating_mul(dtype.size()) as u64);
    }
    bytes
}

/// Bytes of a buffer that two nodes have in common: of accesses that both have, and, where there is none, the most that
/// different ones can share (scheduler P-07).
pub(super) fn shared(a: &[Access], b: &[Access]) -> (u64, u64) {
    let same = a.iter().filter(|access| b.contains(access));
    let same: u64 = same.map(|access| access.bytes).sum();
    let all = |list: &[Access]| list.iter().map(|access| access.bytes).sum::<u64>();
    (same, if same > 0 { 0 } else { all(a).min(all(b)) })
}

/// Why two nodes do not agree on a buffer that both touch: of the first that they disagree on, what the later reads of
/// the earlier before what both read (scheduler V-03).
pub(super) fn mismatch(earlier: &FusedNode, later: &FusedNode) -> Mismatch {
    let (of_earlier, of_later) = (earlier.extents(), later.extents());
    let pairs = later.loads().filter_map(|(source, _, index)| {
        let Source::Node(node) = source else {
            return None;
        };
        let store = earlier.store(node)?;
        // What does not vary within a row is stored once a row.
        let extents = match earlier.varies(store) {
            true => &of_earlier[..],
            false => &earlier.iter[..],
        };
        Some(((&store.index, extents), index))
    });
    let both = later.loads().flat_map(|(source, _, index)| {
        let same = earlier.loads().filter(move |l| l.0 == source);
        let extents = &of_earlier[..];
        same.map(move |l| ((l.2, extents), index))
    });
    let mut all = pairs.chain(both).take(16);
    all.find_map(|(theirs, index)| difference(theirs, (index, &of_later)))
        .unwrap_or(Mismatch::Unknown)
}

/// How two positions differ, each with the extents of its variables.
pub(super) fn difference(a: (&Expr, &[usize]), b: (&Expr, &[usize])) -> Option<Mismatch> {
    let (a, b) = (Positions::of(a.0, a.1), Positions::of(b.0, b.1));
    Some(match () {
        _ if !a.exact || !b.exact => Mismatch::Indirect,
        _ if a.elements() != b.elements() => Mismatch::Elements,
        _ if a.repeats != b.repeats => Mismatch::Broadcast,
        _ if a.offset != b.offset => Mismatch::Offset,
        _ if a.loops == b.loops => return None,
        _ if a.sorted() == b.sorted() => Mismatch::Order,
        _ => Mismatch::Strides,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(offset: i64, coefficients: &[i64]) -> Expr {
        let terms = coefficients.iter().enumerate();
        terms.fold(Expr::from(offset), |e, (v, &c)| {
            e.add(&Expr::var(v).scale(c))
        })
    }

    #[test]
    fn positions_are_sets() {
        let of = |e: &Expr, extents: &[usize]| Positions::of(e, extents);
        let rows = of(&index(0, &[7, 1]), &[5, 7]);
        let columns = of(&index(0, &[1, 7]), &[7, 5]);
        let merged = of(&index(0, &[1]), &[35]);
        assert_eq!(rows.sorted(), columns.sorted());
        assert_eq!(rows.sorted(), merged.sorted());
        assert_ne!(rows.loops, columns.loops);
        let repeated = of(&index(3, &[0, 1]), &[5, 7]);
        assert_eq!((repeated.elements(), repeated.repeats), (7, 5));
        // A window of rows does not merge.
        let window = of(&index(0, &[9, 1]), &[5, 7]);
        assert_eq!(window.sorted().len(), 2);
        assert!(!of(&Expr::from(Term::Value(1)), &[4]).exact);
    }
}
