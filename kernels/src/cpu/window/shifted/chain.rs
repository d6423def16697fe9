//! Long sums of a convolution in chains: each is added up in binary32, and so many of them join a total in binary64.

use crate::cpu::isa::dispatch;
use crate::cpu::long::{Join, parts};
use std::ops::Range;

/// Terms of a chain, of results of so many terms at least ([`crate::cpu::long`]). Ending a chain takes as long as three of
/// its terms.
const TERMS: [(usize, usize); 2] = [(4096, 64), (512, 256)];
/// Chains that are added up in binary32 before they join a total in binary64.
const RUN: usize = 16;

/// What one chain of a result adds: input channels, and taps of each.
pub(super) type Chain = (Range<usize>, Range<usize>);

/// The chains of a result, in order.
pub(super) fn chains(cin: usize, taps: usize) -> Vec<Chain> {
    let long = TERMS.iter().find(|(least, _)| cin * taps >= *least);
    let Some(&(_, most)) = long else {
        return vec![(0..cin, 0..taps)];
    };
    let channels = parts(0..cin, (most / taps).max(1));
    let all = channels.flat_map(|c| parts(0..taps, most).map(move |t| (c.clone(), t)));
    all.collect()
}

/// Computes sums by their chains. `add` writes the sums of a chain, or adds them if there are `more` before it.
///
/// `totals` has as many elements as `sums`.
#[inline(always)]
pub(super) fn add_chains(
    chains: &[Chain],
    (sums, totals): (&mut [f32], &mut [f64]),
    mut add: impl FnMut(&Chain, &mut [f32], bool),
) {
    for (i, chain) in chains.iter().enumerate() {
        add(chain, sums, i % RUN != 0);
        if chains.len() > RUN && (i + 1 == chains.len() || (i + 1) % RUN == 0) {
            let begin = i < RUN;
            dispatch(Join {
                totals: &mut *totals,
                sums: &*sums,
                begin,
            });
        }
    }
    if chains.len() > RUN {
        for (sum, &total) in sums.iter_mut().zip(&*totals) {
            *sum = total as f32;
        }
    }
}
