//! Checks of indices ahead of a plan's kernels (codegen A6.6). A kernel whose indices are inputs reports nothing where
//! small kernels have checked them all before: the host waits for these at the end of a run, while the kernel itself, and
//! what follows it, still runs.

use super::Step;
use super::combine::work;
use crate::body::{BodyOp, BodyValue, Value};
use crate::emit::{Emitted, cuda};
use crate::lower::PROVED;
use crate::policy::Policy;
use crate::schedule::FusedNode;

/// Bytes of an index, about.
const INDEX: u64 = 8;

/// Kernels that check indices before the steps do; the steps whose indices they check report no more.
/// Also pairs of sites with the same indices, of which the first alone is checked.
pub(super) fn ahead(steps: &mut [Step], policy: &Policy) -> (Vec<Emitted>, Vec<[u32; 2]>) {
    let mut left: u64 = steps.iter().map(work).sum();
    let (mut all, mut alike): (Vec<Emitted>, Vec<[u32; 2]>) = Default::default();
    if left < policy.thresholds.checked_ahead {
        return (all, alike);
    }
    left /= policy.thresholds.checked_share;
    for step in steps {
        let Step::Launch(kernel) = step else { continue };
        if !kernel.grid.reports || kernel.products > 0 {
            continue;
        }
        let Some((checks, count)) = cuda::checks_of(kernel) else {
            continue;
        };
        let bytes = count as u64 * INDEX;
        if checks.is_empty() || bytes > left {
            continue;
        }
        left -= bytes;
        cuda::trust(kernel);
        for check in checks {
            // The first operation that an index is wrong for is the one that an error names.
            match all.iter().find(|other| is_same(&other.node, &check.node)) {
                Some(other) => {
                    let pairs = sites(&other.node).zip(sites(&check.node));
                    alike.extend(pairs.map(|(first, other)| [first, other]));
                }
                None => all.push(check),
            }
        }
    }
    (all, alike)
}

/// Whether two nodes check the same indices against the same sizes, whichever operations these are of.
fn is_same(a: &FusedNode, b: &FusedNode) -> bool {
    let op = |value: &BodyValue| match value.op.clone() {
        BodyOp::Check {
            index, size, mask, ..
        } => BodyOp::Check {
            index,
            size,
            mask,
            site: 0,
        },
        op => op,
    };
    let (of_a, of_b) = (a.body.values(), b.body.values());
    let checked = |node: &FusedNode| node.stores.iter().map(|store| store.value).collect();
    let checked: [Vec<Value>; 2] = [checked(a), checked(b)];
    a.extents() == b.extents()
        && checked[0] == checked[1]
        && of_a.len() == of_b.len()
        && of_a.iter().zip(of_b).all(|(x, y)| op(x) == op(y))
        && a.body.numbers().is_empty()
        && b.body.numbers().is_empty()
        && a.body.masks() == b.body.masks()
}

/// The sites of a kernel's checks that may fail, in the order of its body.
pub(crate) fn sites(node: &FusedNode) -> impl Iterator<Item = u32> {
    node.body
        .values()
        .iter()
        .filter_map(|value| match value.op {
            BodyOp::Check { site, .. } if site != PROVED => Some(site),
            _ => None,
        })
}
