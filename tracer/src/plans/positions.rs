//! Forms that differ in the positions of slices alone.
//!
//! A step of a loop that reads or writes row `i` of an array has another form for each `i`. After [`MOST`] plans for such
//! forms no more are made: slices whose positions vary are taken and written between plans, by ready-made kernels, which
//! work at any position; what lies between them has the same form at every step.

use super::stages::Stages;
use super::{FAMILIES, MOST};
use crate::form::{Form, FormNode, Mix};
use lru::LruCache;
use once_cell::sync::Lazy;
use parking_lot::Mutex;
use std::hash::{Hash, Hasher};

/// Where a slice begins and ends, as the program wrote it.
type Position = [isize; 2];

/// Forms met that differ in positions alone.
#[derive(Debug)]
struct Family {
    /// Positions of the last one, one for each operation that has any.
    last: Vec<Position>,
    /// Whether they differed between two of them.
    vary: Vec<bool>,
    /// Forms that differed from the one before.
    forms: u32,
}

/// Families by the hash of their forms without positions. A collision changes how a form is run, not its results.
static FAMILIES_MET: Lazy<Mutex<LruCache<u64, Family>>> =
    Lazy::new(|| Mutex::new(LruCache::new(FAMILIES)));

/// Takes in a node without its position.
fn hash_node(mix: &mut Mix, node: &FormNode) {
    let op = node.kind.op();
    match op.without_position() {
        Some(rest) => (std::mem::discriminant(op), rest).hash(mix),
        None => mix.word(node.kind.hash),
    }
    (node.kind.dtype, &node.kind.shape).hash(mix);
}

/// The hash of a form without its positions, and those.
fn without_positions(form: &Form) -> (u64, Vec<Position>) {
    let mut mix = Mix::default();
    let mut positions = Vec::new();
    for (node, edges) in form.operands() {
        hash_node(&mut mix, node);
        edges.iter().for_each(|edge| mix.word(edge.code()));
        positions.extend(node.kind.op().position());
    }
    for leaf in &form.leaves {
        (leaf.dtype, leaf.layout.shape(), leaf.layout.strides()).hash(&mut mix);
    }
    form.outputs.iter().for_each(|&n| mix.word(n as u64));
    (mix.finish(), positions)
}

/// The stages to run a form in, if more than [`MOST`] forms were met that differ from it in positions alone.
pub(crate) fn stages(form: &Form) -> Option<Stages> {
    let has_any = |node: &FormNode| node.kind.op().position().is_some();
    if !form.device.is_cpu() || !form.nodes.iter().any(has_any) {
        return None;
    }
    let (hash, positions) = without_positions(form);
    let mut met = FAMILIES_MET.lock();
    let Some(family) = met
        .get_mut(&hash)
        .filter(|f| f.last.len() == positions.len())
    else {
        let vary = vec![false; positions.len()];
        let last = positions;
        met.put(
            hash,
            Family {
                last,
                vary,
                forms: 1,
            },
        );
        return None;
    };
    if family.last != positions {
        family.forms = family.forms.saturating_add(1);
        let pairs = family.last.iter().zip(&positions);
        for (vary, (last, now)) in family.vary.iter_mut().zip(pairs) {
            *vary |= last != now;
        }
        family.last = positions;
    }
    if family.forms <= MOST {
        return None;
    }
    let mut vary = family.vary.iter();
    let varies = |node: &FormNode| has_any(node) && vary.next() == Some(&true);
    Some(Stages::new(form, form.nodes.iter().map(varies)))
}
