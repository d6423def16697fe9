//! The division of kernels with scans: rows in registers where they fit, tiles of them otherwise.

use super::super::scan;
use super::super::stage::Stages;
use super::access::{lanes, scanned_loads};
use super::bounds::{
    BLOCK_THREADS, FEWEST_THREADS, FULL, LONG_ROW_THREADS, LOOK_BACK_BYTES, LOOK_BACK_CHUNKS,
    LOOK_BACK_THREADS, MOST_ROWS, PIECE, SCAN_BYTES, SCAN_CHUNKS, SCAN_COLUMNS, SCAN_GROUPS,
    SPLIT_BLOCKS,
};
use super::saved::crossing;
use super::{Form, Layout, Shape};
use crate::body::{BodyOp, Value};
use crate::schedule::FusedNode;
use ferrotrace_kernels::ReduceKind;

/// What is divided.
struct Work<'a> {
    node: &'a FusedNode,
    stages: &'a Stages,
    scans: Vec<Value>,
    rows: usize,
    chunks: usize,
    lanes: usize,
    /// Whether one thread walks each row: eager mode's order is one element after the other.
    in_order: bool,
    /// Whole chunks that are loaded, and the bytes of their elements.
    loads: Vec<(Value, usize)>,
    /// Bytes of an element of everything that is folded.
    folded: usize,
}

/// Divides the work of a node with scans.
pub(super) fn of(node: &FusedNode, stages: &Stages, needed: &[usize]) -> Shape {
    let scans = stages.scans(node);
    let in_order = node.exact && scans.iter().any(|&v| rounds(node, v));
    let outer = in_order || node.has_strided_columns();
    let lanes = match outer {
        true => 1,
        false => lanes(node, stages, needed),
    };
    let (&last, walked) = node.red.split_last().unwrap_or((&1, &[]));
    let line = last.div_ceil(lanes);
    let work = Work {
        node,
        stages,
        rows: node.rows(),
        chunks: walked.iter().product::<usize>() * line,
        lanes,
        in_order,
        loads: match outer {
            true => Vec::new(),
            false => scanned_loads(node, stages, lanes),
        },
        folded: scans.iter().map(|&v| node.body.value(v).dtype.size()).sum(),
        scans,
    };
    let (layout, turns, batch) = match outer {
        true => (work.columns(), 0, SCAN_COLUMNS),
        false => work.chunks(),
    };
    let mut shape = Shape::new((work.rows, line, work.chunks), lanes, layout);
    shape.kept = work.loads.iter().map(|load| load.0).collect();
    (shape.turns, shape.batch) = (turns, batch);
    if turns > 0 {
        shape.saved = crossing(node, stages, turns * lanes);
    }
    shape.finish_threads = layout.threads;
    if work.may_cut() && layout.blocks < FULL && shape.blocks > 0 {
        match shape.form {
            Form::Outer { groups, .. } => work.split(&mut shape, groups as usize),
            _ => work.look_back(&mut shape),
        }
    }
    shape
}

/// Whether the order of a scan's elements shows in its bits.
fn rounds(node: &FusedNode, scan: Value) -> bool {
    let value = node.body.value(scan);
    let adds = matches!(
        value.op,
        BodyOp::Scan {
            kind: ReduceKind::Sum | ReduceKind::Prod,
            ..
        }
    );
    adds && value.dtype.is_float()
}

impl Work<'_> {
    /// Lanes are rows; groups of threads share their columns.
    fn columns(&self) -> Layout {
        let groups = match self.in_order {
            true => 1,
            false => (self.chunks / SCAN_COLUMNS).next_power_of_two(),
        };
        let groups = groups.min(SCAN_GROUPS) as u32;
        Layout::of_columns(self.rows, ((256 / groups).min(128), groups))
    }

    /// A warp or a block a row; chunks of it that a thread holds, where it holds all, and otherwise those of a tile.
    fn chunks(&self) -> (Layout, usize, usize) {
        let loaded: usize = self.loads.iter().map(|load| load.1).sum();
        let most = SCAN_BYTES / ((loaded + self.folded) * self.lanes).max(1);
        let most = most.clamp(1, SCAN_CHUNKS);
        if self.chunks <= 32 * most || self.rows > MOST_ROWS {
            let turns = self.chunks.div_ceil(32);
            let (turns, batch) = if turns <= most { (turns, 0) } else { (0, most) };
            return (Layout::of_warps(self.rows), turns, batch);
        }
        let wanted = (self.chunks / 2).next_power_of_two() as u32;
        let threads = wanted.clamp(FEWEST_THREADS, LONG_ROW_THREADS);
        let turns = self.chunks.div_ceil(threads as usize);
        match turns <= most {
            true => (Layout::of_blocks(self.rows, threads), turns, 0),
            false => {
                let threads = threads.min(BLOCK_THREADS);
                (Layout::of_blocks(self.rows, threads), 0, most)
            }
        }
    }

    /// Whether rows may be cut: a second scan of one would wait for the pieces of the first.
    fn may_cut(&self) -> bool {
        let phases = scan::phases(self.node);
        let once = self.scans.iter().all(|&v| phases[v as usize] == 1);
        once && !self.in_order && self.stages.reductions().is_empty()
    }

    /// Splits rows of strided columns into pieces, if they are long enough.
    fn split(&self, shape: &mut Shape, groups: usize) {
        let tile = groups * SCAN_COLUMNS;
        let least = PIECE.max(tile);
        if self.chunks < 2 * least {
            return;
        }
        let pieces = SPLIT_BLOCKS.div_ceil(shape.blocks);
        let pieces = pieces.clamp(2, self.chunks / least);
        let per = self.chunks.div_ceil(pieces).next_multiple_of(tile);
        let pieces = self.chunks.div_ceil(per);
        shape.split = Some((per, pieces));
        shape.blocks *= pieces;
        shape.finish_blocks = shape.blocks;
    }

    /// Makes rows that are long enough tiles of a single-pass scan.
    fn look_back(&self, shape: &mut Shape) {
        let loaded: usize = self.loads.iter().map(|load| load.1).sum();
        let beside = beside_scans(self.node, self.stages);
        let waiting = self.loads.iter().filter(|load| beside[load.0 as usize]);
        let waiting = self.folded + waiting.map(|load| load.1).sum::<usize>();
        let turns = LOOK_BACK_BYTES / (waiting.max(loaded) * self.lanes).max(1);
        let turns = turns.clamp(1, LOOK_BACK_CHUNKS);
        let tile = LOOK_BACK_THREADS as usize * turns;
        if self.chunks < 2 * tile.max(PIECE / self.lanes) {
            return;
        }
        let pieces = self.chunks.div_ceil(tile);
        shape.form = Form::Inner {
            threads: LOOK_BACK_THREADS,
        };
        (shape.turns, shape.batch, shape.looks_back) = (turns, 0, true);
        shape.split = Some((tile, pieces));
        shape.finish_threads = LOOK_BACK_THREADS;
        shape.finish_blocks = self.rows * pieces;
    }
}

/// By value, whether a store of a scanning loop needs it besides what is scanned.
fn beside_scans(node: &FusedNode, stages: &Stages) -> Vec<bool> {
    let body = &node.body;
    let mut marked = vec![false; body.values().len()];
    for l in &stages.loops {
        for &s in &l.stores {
            marked[node.stores[s].value as usize] = true;
        }
    }
    for v in (0..marked.len()).rev() {
        let is_scan = matches!(body.values()[v].op, BodyOp::Scan { .. });
        if marked[v] && !is_scan {
            for o in body.operands(v as Value) {
                marked[o as usize] = true;
            }
        }
    }
    marked
}
