//! The division of pointwise kernels and of reductions.

use super::super::reduce::RUN;
use super::super::stage::Stages;
use super::super::tile::{self, SIDE, Tile};
use super::access::{gathers_rows, lanes, lanes_across, repeated_loads, unaligned_load};
use super::bounds::{
    ACROSS_GROUPS, ACROSS_THREADS, ACROSS_WIDTH, BATCH_BYTES, BATCH_ROWS, BATCH_THREADS,
    BLOCK_THREADS, COSTLY_THREADS, FEW_ROWS_BLOCK, FEWEST_ACROSS, FEWEST_THREADS, FINISH_THREADS,
    FULL, GATHERED_CHUNKS, KEPT_BYTES, KEPT_CHUNKS, LONG_ROW, LONG_ROW_THREADS, MANY_ROWS,
    MANY_ROWS_BLOCK, MOST_ROWS, PIECE, PIECE_COLUMNS, POINTWISE_THREADS, ROW_CHUNKS, SHORT_CHUNKS,
    SHORT_ELEMENTS, SHORT_THREADS, SPLIT_BLOCKS, WARP_CHUNKS, WARP_PIECES,
};
use super::saved::{costly_value, crossing};
use super::{Form, Layout, Shape};
use crate::body::{BodyOp, Value};
use crate::schedule::FusedNode;
use crate::target::STATIC_SHARED;

/// What is divided.
struct Work<'a> {
    node: &'a FusedNode,
    stages: &'a Stages,
    rows: usize,
    chunks: usize,
    lanes: usize,
    /// Whether lanes are rows.
    outer: bool,
    reduces: bool,
    shift: Option<Value>,
}

/// Divides the work of a node without scans; chunks may begin before rows that start anywhere, or be of rows side by side,
/// where `shifted`.
pub(super) fn of(node: &FusedNode, stages: &Stages, needed: &[usize], shifted: bool) -> Shape {
    let rows = node.rows();
    let reduces = !stages.reductions().is_empty();
    let outer = reduces && node.has_strided_columns();
    let lanes = match outer {
        true => 1,
        false => lanes(node, stages, needed),
    };
    let shift = match reduces && shifted && !outer {
        true => unaligned_load(node, stages, lanes),
        false => None,
    };
    let (&last, walked) = node.red.split_last().unwrap_or((&1, &[]));
    let line = match shift {
        Some(_) => (last + lanes - 1).div_ceil(lanes),
        None => last.div_ceil(lanes),
    };
    let chunks = walked.iter().product::<usize>() * line;
    let work = Work {
        node,
        stages,
        rows,
        chunks,
        lanes,
        outer,
        reduces,
        shift,
    };
    if outer
        && shifted
        && let Some(shape) = work.across(needed)
    {
        return shape;
    }
    let layout = work.layout();
    let mut shape = Shape::new((rows, line, chunks), lanes, layout);
    if !reduces
        && shape.blocks > 0
        && let Some(tile) = tile::find(node, stages)
    {
        work.take_tile(&mut shape, tile);
    }
    shape.shifted = shift;
    if let Some(least) = work.least_piece(&shape, &layout) {
        if shift.is_some() {
            return of(node, stages, needed, false);
        }
        work.split(&mut shape, least);
    }
    match (shape.form, shape.split) {
        (Form::Inner { .. }, Some(_)) => work.batch_pieces(&mut shape),
        (Form::Inner { threads }, None) if !work.keep_crossing(&mut shape, threads) => {
            work.keep_row(&mut shape, threads);
        }
        _ => {}
    }
    shape
}

impl Work<'_> {
    fn layout(&self) -> Layout {
        let (rows, chunks) = (self.rows, self.chunks);
        if !self.reduces {
            return self.pointwise();
        }
        if self.outer {
            let block = if rows < MANY_ROWS {
                FEW_ROWS_BLOCK
            } else {
                MANY_ROWS_BLOCK
            };
            return Layout::of_columns(rows, block);
        }
        if chunks <= WARP_CHUNKS || rows > MOST_ROWS {
            return Layout::of_lanes(rows, self.lanes_of_row());
        }
        let read_alone = self.stages.stores_nothing() && rows >= BATCH_ROWS;
        let each = ROW_CHUNKS[usize::from(read_alone)];
        let wanted = match self.shift {
            // A row's first and last chunk are two parts of one.
            Some(_) => chunks.div_ceil(2).next_multiple_of(32) as u32,
            None => (chunks / each).next_power_of_two() as u32,
        };
        let most = if chunks > LONG_ROW {
            LONG_ROW_THREADS
        } else {
            BLOCK_THREADS
        };
        Layout::of_blocks(rows, wanted.clamp(FEWEST_THREADS, most))
    }

    /// Threads of a row that a warp reduces: as many as have some chunks each, more where rows are few.
    fn lanes_of_row(&self) -> u32 {
        let stores = usize::from(!self.stages.stores_nothing());
        let each = (SHORT_ELEMENTS[stores] / self.lanes).max(SHORT_CHUNKS[stores]);
        // The first and the last chunk of a row that starts anywhere are two threads' work.
        let least = if self.shift.is_some() { 2 } else { 1 };
        let lanes = self.chunks.div_ceil(each).next_power_of_two();
        let mut lanes = lanes.clamp(least, 32);
        while lanes < 32 && self.rows.saturating_mul(lanes) < SHORT_THREADS {
            lanes *= 2;
        }
        lanes as u32
    }

    /// Pieces of strided columns, whose threads each take several rows side by side: where rows fill chunks, and no piece is
    /// so long that its sums need totals.
    fn across(&self, needed: &[usize]) -> Option<Shape> {
        let lanes = lanes_across(self.node, self.stages, needed)?;
        let rows = self.rows / lanes;
        let width = rows.next_power_of_two().min(ACROSS_WIDTH) as u32;
        let groups = (ACROSS_THREADS / width).min(ACROSS_GROUPS);
        let layout = Layout::of_columns(rows, (width, groups));
        let bytes = |r: Value| self.node.body.value(r).dtype.size();
        let each: usize = self.stages.reductions().into_iter().map(bytes).sum();
        if each * lanes * layout.threads as usize > STATIC_SHARED {
            return None;
        }
        let mut shape = Shape::new((self.rows, self.chunks, self.chunks), lanes, layout);
        shape.across = true;
        let least = self.least_piece(&shape, &layout)?;
        self.split(&mut shape, least);
        let short = shape.per_piece() <= RUN * groups as usize;
        (short && rows >= FEWEST_ACROSS).then_some(shape)
    }

    fn pointwise(&self) -> Layout {
        let gathered = gathers_rows(self.node, self.stages, self.lanes);
        if gathered && GATHERED_CHUNKS.contains(&self.chunks) {
            // A warp a row, whose index it reads once; several accesses of a thread wait for memory together.
            return Layout {
                form: Form::Inner { threads: 32 },
                threads: POINTWISE_THREADS,
                blocks: self.rows.div_ceil(POINTWISE_THREADS as usize / 32),
            };
        }
        let units = self.rows.saturating_mul(self.chunks);
        let heavy =
            |v: &Value| matches!(&self.node.body.value(*v).op, BodyOp::Unary(op, _) if op.heavy());
        let threads = match self.stages.loops[0].compute.iter().any(heavy) {
            true => COSTLY_THREADS,
            false => POINTWISE_THREADS,
        };
        Layout {
            form: Form::Pointwise,
            threads,
            blocks: units.div_ceil(threads as usize),
        }
    }

    /// Gives each block a tile.
    fn take_tile(&self, shape: &mut Shape, tile: Tile) {
        let side = |n: usize| n.div_ceil(SIDE);
        let (tiled, last) = (
            self.node.iter[tile.row],
            self.node.red.last().copied().unwrap_or(1),
        );
        shape.form = Form::Tiled;
        shape.threads = POINTWISE_THREADS;
        shape.blocks = self.rows / tiled * side(tiled) * side(last);
        shape.tile = Some(tile);
    }

    /// The fewest chunks of a piece, if rows are to be split: there are few, and long ones.
    fn least_piece(&self, shape: &Shape, layout: &Layout) -> Option<usize> {
        let least = match layout.form {
            Form::Outer { groups, .. } => PIECE_COLUMNS * groups as usize,
            _ => PIECE.div_ceil(self.lanes).max(layout.threads as usize),
        };
        // A block or so does as much in the time of another launch.
        let few = if self.outer { 2 * least } else { 4 * least };
        let may = self.reduces && self.stages.can_split() && shape.blocks > 0;
        (may && layout.blocks < FULL && self.chunks >= few).then_some(least)
    }

    /// Splits rows into pieces of at least so many chunks.
    fn split(&self, shape: &mut Shape, least: usize) {
        if !self.outer {
            shape.form = Form::Inner {
                threads: BLOCK_THREADS,
            };
            shape.threads = BLOCK_THREADS;
            shape.blocks = self.rows;
        }
        let wanted = SPLIT_BLOCKS.div_ceil(shape.blocks);
        let per = self.chunks.div_ceil(wanted.clamp(2, self.chunks / least));
        let pieces = self.chunks.div_ceil(per);
        shape.split = Some((per, pieces));
        shape.blocks *= pieces;
        let most = WARP_PIECES[usize::from(self.rows >= FULL)];
        shape.finish_per_row = if pieces <= most { 32 } else { FINISH_THREADS };
        shape.finish_threads = FINISH_THREADS;
        let at_once = FINISH_THREADS / shape.finish_per_row;
        shape.finish_blocks = self.rows.div_ceil(at_once as usize);
    }

    /// Has threads load some chunks of a piece before they work on them.
    fn batch_pieces(&self, shape: &mut Shape) {
        let kept = repeated_loads(self.node, self.stages, self.lanes, 1);
        let chunk: usize = kept.iter().map(|k| k.1 * self.lanes).sum();
        if !kept.is_empty() && 2 * chunk <= BATCH_BYTES {
            shape.kept = kept.iter().map(|k| k.0).collect();
            shape.batch = 1 << (BATCH_BYTES / chunk).min(KEPT_CHUNKS).ilog2();
        }
    }

    /// Keeps all that later loops need of earlier ones, where that pays.
    fn keep_crossing(&self, shape: &mut Shape, threads: u32) -> bool {
        let turns = self.chunks.div_ceil(threads as usize);
        if turns > KEPT_CHUNKS {
            return false;
        }
        let saved = crossing(self.node, self.stages, self.lanes * turns);
        if saved.is_empty() {
            return false;
        }
        let mut stages = self.stages.clone();
        stages.keep(self.node, &saved);
        // All loads are asked for together, if registers hold them.
        for often in [1, 2] {
            let kept = repeated_loads(self.node, &stages, self.lanes, often);
            let bytes: usize = kept.iter().map(|k| k.1 * self.lanes * turns).sum();
            if bytes <= KEPT_BYTES {
                shape.kept = kept.iter().map(|k| k.0).collect();
                break;
            }
        }
        (shape.saved, shape.turns) = (saved, turns);
        true
    }

    /// Keeps a row in registers where it fits, or has threads load some of its chunks before they work on them.
    fn keep_row(&self, shape: &mut Shape, threads: u32) {
        let (node, stages) = (self.node, self.stages);
        let turns = self.chunks.div_ceil(threads as usize);
        let mut kept = repeated_loads(node, stages, self.lanes, 2);
        let once = kept.is_empty() && turns > 1;
        if once {
            kept = repeated_loads(node, stages, self.lanes, 1);
        }
        if kept.is_empty() {
            return;
        }
        // Few rows wait for each access: what one loop reads is asked for together with the rest.
        if !once && self.rows < FULL {
            let all = repeated_loads(node, stages, self.lanes, 1);
            let bytes: usize = all.iter().map(|load| load.1 * self.lanes * turns).sum();
            if turns <= KEPT_CHUNKS && bytes <= KEPT_BYTES {
                kept = all;
            }
        }
        let room = if once { BATCH_BYTES } else { KEPT_BYTES };
        let chunk: usize = kept.iter().map(|k| k.1 * self.lanes).sum();
        let bytes = chunk * turns;
        if turns <= KEPT_CHUNKS && bytes <= room {
            shape.kept = kept.iter().map(|k| k.0).collect();
            shape.turns = turns;
            // One is worth its registers: those of the loads are free when it is computed.
            shape.saved = costly_value(node, stages).into_iter().collect();
            return;
        }
        let batch = (room / chunk).min(KEPT_CHUNKS);
        if (turns > KEPT_CHUNKS || once) && batch > 1 {
            shape.kept = kept.iter().map(|k| k.0).collect();
            shape.batch = 1 << batch.ilog2();
            if once && threads > BATCH_THREADS && self.rows >= BATCH_ROWS {
                shape.form = Form::Inner {
                    threads: BATCH_THREADS,
                };
                shape.threads = BATCH_THREADS;
            }
        }
    }
}
