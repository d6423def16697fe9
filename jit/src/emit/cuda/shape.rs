//! How a kernel's work is divided: chunks, threads, blocks, pieces; by sizes alone, never by the device, so that the
//! same program gives the same bits on every one.

use super::kernel::Form;
use super::scan;
use super::stage::Stages;
use super::tile::{self, SIDE, Tile};
use crate::body::{BodyOp, Value};
use crate::expr::{Expr, Term, Var};
use crate::schedule::FusedNode;
use ferrotrace_kernels::ReduceKind;
use ferrotrace_runtime::DType;
use std::collections::BTreeSet;

/// Threads of a block of a pointwise kernel, and of one whose functions take time: 2 to 4 KiB of a stream a block.
const THREADS: u32 = 256;
const HEAVY_THREADS: u32 = 128;
/// Rows of up to this many chunks are a warp's.
const WARP_CHUNKS: usize = 128;
/// Most threads of a row, and of one with many chunks.
const MOST_THREADS: u32 = 512;
const MANY_THREADS: u32 = 1024;
const MANY_CHUNKS: usize = 4096;
/// Most chunks of a row that a thread keeps in registers, and most bytes of them.
const MOST_TURNS: usize = 8;
const KEPT_BYTES: usize = 128;
/// Most bytes that a thread loads of a row that is read once before it works on them.
const ONCE_BYTES: usize = 64;
/// Threads of such a row where there are rows enough, so that the ends of some are beside the middles of others.
const ONCE_THREADS: u32 = 256;
const MANY_BLOCKS: usize = 2048;
/// Of a scan: most chunks of a row that a thread holds, most bytes of them and of what is folded, and columns that a
/// thread holds where lanes are rows.
const SCANNED_TURNS: usize = 4;
const SCANNED_BYTES: usize = 160;
const SCANNED_COLUMNS: usize = 8;
/// Of a scan by tiles that wait for each other: threads of one, most chunks and bytes of a kind that a thread holds. Fewer
/// tiles in flight cost more than what else their threads could do (301 microseconds for 2²⁷ numbers of an H200, 324 with five
/// blocks of spilling threads in place of four, 343 with tiles of half the size).
const LINKED_THREADS: u32 = 256;
const LINKED_TURNS: usize = 8;
const LINKED_BYTES: usize = 128;
/// Chunks of gathered rows that are a warp's: so many that each thread has two, and that none has too many to hold.
const WARP_TURNS: usize = 64;
const MOST_GATHERED: usize = 128;
/// Rows and groups of threads of a block of an outer reduction: of few rows, and of many.
const FEW_ROWS: (u32, u32) = (32, 8);
const MANY_ROWS: (u32, u32) = (128, 4);
/// Blocks that fill a large device: fewer are worth splitting rows for.
const ENOUGH: usize = 256;
/// Blocks that a split aims at.
const TARGET: usize = 1024;
/// Elements of a piece of a split row, at least.
const PIECE: usize = 4096;

/// The division of a kernel's work.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub form: Form,
    /// Elements of a chunk.
    pub lanes: usize,
    /// Chunks along the last column variable.
    pub line: usize,
    /// Chunks of a row.
    pub chunks: usize,
    rows: usize,
    /// Chunks of a piece, and pieces of a row, where rows are split.
    pub split: Option<(usize, usize)>,
    /// Whether the pieces are tiles of a scan, each of which waits for those before it.
    pub linked: bool,
    /// Loads that more than one loop of a row needs, kept in registers; how many chunks of them a thread keeps.
    pub kept: Vec<Value>,
    pub turns: usize,
    /// Where rows are too long for that: chunks that a thread loads before it works on them, 0 for one.
    pub batch: usize,
    /// Costly values that more than one loop needs, kept likewise.
    pub saved: Vec<Value>,
    /// A load at whose accesses of 16 bytes chunks begin, up to a chunk before their row, where rows start anywhere.
    pub shifted: Option<Value>,
    /// What is read through shared memory.
    pub tile: Option<Tile>,
    pub threads: u32,
    pub blocks: usize,
    pub finish_per_row: u32,
    pub finish_threads: u32,
    pub finish_blocks: usize,
}

impl Shape {
    pub fn pieces(&self) -> usize {
        self.split.map_or(1, |s| s.1)
    }

    pub fn per_piece(&self) -> usize {
        self.split.map_or(self.chunks, |s| s.0)
    }

    /// The greatest number that counts work: chunks of all rows.
    pub fn units(&self) -> usize {
        let units = self.rows.saturating_mul(self.chunks.max(self.pieces()));
        units.saturating_mul(self.lanes)
    }
}

/// Whether the columns are strided and the last row variable contiguous for most loads (codegen A3.12).
fn prefers_outer(node: &FusedNode) -> bool {
    let Some(row) = node.iter.len().checked_sub(1) else {
        return false;
    };
    let (row, column) = (Var(row as u32), Var(node.extents().len() as u32 - 1));
    let (mut inner, mut outer) = (0usize, 0usize);
    for (_, _, index) in node.loads() {
        let strided = index.coefficient(column);
        inner += usize::from(strided.abs() == 1);
        outer += usize::from(index.coefficient(row).abs() == 1 && strided != 0);
    }
    outer > inner
}

/// Whether an index moves by one with the variable and is nothing else of it; `may` says which values may be part of it.
fn is_unit(e: &Expr, v: Var, may: &dyn Fn(Value) -> bool) -> bool {
    let elsewhere = e.terms().iter().any(|(term, _)| match term {
        Term::Var(_) => false,
        other => Expr::from(other.clone()).any(&mut |t| match *t {
            Term::Value(value) => !may(value),
            ref t => *t == Term::Var(v),
        }),
    });
    e.coefficient(v) == 1 && !elsewhere
}

/// No value: before a row's values are computed.
const NONE: fn(Value) -> bool = |_| false;

/// Elements of a chunk: what 16 bytes hold of the narrowest contiguous stream, at most 32 bytes of the widest.
fn lanes(node: &FusedNode, stages: &Stages, needed: &[usize]) -> usize {
    let vector = Var(node.extents().len() as u32 - 1);
    let dependence = node.dependence();
    let of_row = |v: Value| !dependence[v as usize].inner;
    let in_loop: BTreeSet<Value> = stages
        .loops
        .iter()
        .flat_map(|l| &l.compute)
        .copied()
        .collect();
    let loads = in_loop
        .iter()
        .filter_map(|&v| match &node.body.value(v).op {
            BodyOp::Load {
                dtype,
                index,
                mask: None,
                ..
            } if is_unit(index, vector, &of_row) => Some(dtype.size()),
            _ => None,
        });
    let stores = needed.iter().filter_map(|&s| {
        let store = &node.stores[s];
        is_unit(&store.index, vector, &of_row).then(|| store.dtype.size())
    });
    let sizes: Vec<usize> = loads.chain(stores).collect();
    let (Some(&least), Some(&most)) = (sizes.iter().min(), sizes.iter().max()) else {
        return 1;
    };
    let wide = |v: &Value| match &node.body.value(*v).op {
        BodyOp::Random { .. } | BodyOp::Check { .. } => true,
        _ => node.body.value(*v).dtype.size() == 8,
    };
    let limit = if in_loop.iter().any(wide) { 4 } else { 8 };
    let lanes = (16 / least).min(32 / most).min(limit);
    let n = node.extents()[vector.0 as usize];
    // Short lines must not leave lanes idle.
    if n < 4 * lanes && !n.is_multiple_of(lanes) {
        1
    } else {
        lanes
    }
}

/// Whether a node has too few rows to have each reduced by one block, and columns enough to cut.
pub(super) fn is_split(node: &FusedNode, stages: &Stages, needed: &[usize]) -> bool {
    let mut joined = stages.clone();
    joined.join();
    of(node, &joined, needed, false).split.is_some()
}

/// The load at which the chunks of rows are to begin where these start at any element: the first whose rows do.
fn unaligned_load(node: &FusedNode, stages: &Stages, lanes: usize) -> Option<Value> {
    let vector = Var(node.extents().len() as u32 - 1);
    let rows = 0..node.iter.len() as u32;
    let starts_anywhere = |index: &Expr| {
        let odd = |c: i64| c % lanes as i64 != 0;
        index.is_affine() && rows.clone().any(|v| odd(index.coefficient(Var(v))))
    };
    let is_long = node.red.len() == 1 && node.red[0] >= 4 * lanes;
    let fits = |v: &Value| match &node.body.value(*v).op {
        BodyOp::Load {
            index, mask: None, ..
        } => is_unit(index, vector, &NONE) && starts_anywhere(index),
        _ => false,
    };
    let may = lanes > 1 && is_long && node.rows() > 1;
    may.then(|| stages.computed().into_iter().find(fits))
        .flatten()
}

/// Whether a kernel of one loop reads whole chunks where a row's values say.
fn gathers_rows(node: &FusedNode, stages: &Stages, lanes: usize) -> bool {
    let vector = Var(node.extents().len() as u32 - 1);
    let dependence = node.dependence();
    let of_row = |v: Value| !dependence[v as usize].inner;
    let mut all = stages.computed().into_iter();
    lanes > 1
        && all.any(|v| match &node.body.value(v).op {
            BodyOp::Load {
                index, mask: None, ..
            } => is_unit(index, vector, &of_row) && !is_unit(index, vector, &NONE),
            _ => false,
        })
}

/// Divides the work of a fused node; rows may be `shifted`.
pub(super) fn of(node: &FusedNode, stages: &Stages, needed: &[usize], shifted: bool) -> Shape {
    if !stages.scans(node).is_empty() {
        return of_scans(node, stages, needed);
    }
    let rows = node.rows();
    let reduces = !stages.reductions().is_empty();
    let outer = reduces && prefers_outer(node);
    let lanes = if outer {
        1
    } else {
        lanes(node, stages, needed)
    };
    let (&last, walked) = node.red.split_last().unwrap_or((&1, &[]));
    let shift = match reduces && shifted && !outer {
        true => unaligned_load(node, stages, lanes),
        false => None,
    };
    let line = match shift {
        Some(_) => (last + lanes - 1).div_ceil(lanes),
        None => last.div_ceil(lanes),
    };
    let chunks = walked.iter().product::<usize>() * line;
    let gathered = !reduces && gathers_rows(node, stages, lanes);
    let (form, threads, tiles) = if gathered && (WARP_TURNS..=MOST_GATHERED).contains(&chunks) {
        // A warp a row, whose index it reads once; several accesses of a thread wait for memory together.
        let form = Form::Inner { threads: 32 };
        (form, THREADS, rows.div_ceil(THREADS as usize / 32))
    } else if !reduces {
        let units = rows.saturating_mul(chunks);
        let heavy =
            |v: &Value| matches!(&node.body.value(*v).op, BodyOp::Unary(op, _) if op.heavy());
        let threads = match stages.loops[0].compute.iter().any(heavy) {
            true => HEAVY_THREADS,
            false => THREADS,
        };
        (Form::Pointwise, threads, units.div_ceil(threads as usize))
    } else if outer {
        let (width, groups) = if rows < 1024 { FEW_ROWS } else { MANY_ROWS };
        let form = Form::Outer { width, groups };
        (form, width * groups, rows.div_ceil(width as usize))
    } else if chunks <= WARP_CHUNKS || rows > 1 << 28 {
        let per_block = if rows < 4 * ENOUGH { 1 } else { 4 };
        let form = Form::Inner { threads: 32 };
        (form, 32 * per_block, rows.div_ceil(per_block as usize))
    } else {
        // About two chunks a thread.
        let wanted = match shift {
            // A row's first and last chunk are two parts of one.
            Some(_) => chunks.div_ceil(2).next_multiple_of(32) as u32,
            None => (chunks / 2).next_power_of_two() as u32,
        };
        let most = if chunks > MANY_CHUNKS {
            MANY_THREADS
        } else {
            MOST_THREADS
        };
        let threads = wanted.clamp(64, most);
        (Form::Inner { threads }, threads, rows)
    };
    let mut shape = Shape {
        form,
        lanes,
        line,
        chunks,
        rows,
        split: None,
        linked: false,
        kept: Vec::new(),
        turns: 0,
        batch: 0,
        saved: Vec::new(),
        shifted: None,
        tile: None,
        threads,
        blocks: if rows * chunks == 0 { 0 } else { tiles },
        finish_per_row: 32,
        finish_threads: 32,
        finish_blocks: 0,
    };
    if !reduces
        && shape.blocks > 0
        && let Some(tile) = tile::find(node, stages)
    {
        let side = |n: usize| n.div_ceil(SIDE);
        let others = rows / node.iter[tile.row];
        shape.form = Form::Tiled;
        shape.threads = THREADS;
        shape.blocks = others * side(node.iter[tile.row]) * side(last);
        shape.tile = Some(tile);
    }
    let at_once = match form {
        Form::Outer { groups, .. } => groups as usize,
        _ => threads as usize,
    };
    let least = match form {
        // Each thread of a block has a few columns.
        Form::Outer { .. } => 8 * at_once,
        _ => PIECE.div_ceil(lanes).max(at_once),
    };
    shape.shifted = shift;
    // A block or so does as much in the time of another launch.
    let few = if outer { 2 * least } else { 4 * least };
    if reduces && stages.can_split() && tiles < ENOUGH && chunks >= few && shape.blocks > 0 {
        if shift.is_some() {
            return of(node, stages, needed, false);
        }
        if !outer {
            shape.form = Form::Inner {
                threads: MOST_THREADS,
            };
            shape.threads = MOST_THREADS;
            shape.blocks = rows;
        }
        let most = chunks / least;
        let pieces = TARGET.div_ceil(shape.blocks).clamp(2, most);
        let per = chunks.div_ceil(pieces);
        let pieces = chunks.div_ceil(per);
        shape.split = Some((per, pieces));
        shape.blocks *= pieces;
        shape.finish_per_row = if pieces <= 64 { 32 } else { 256 };
        shape.finish_threads = 256;
        shape.finish_blocks = rows.div_ceil((256 / shape.finish_per_row) as usize);
    }
    if let (Form::Inner { .. }, Some(_)) = (shape.form, shape.split) {
        let kept = repeated_loads(node, stages, lanes, 1);
        let chunk: usize = kept.iter().map(|k| k.1 * lanes).sum();
        if !kept.is_empty() && 2 * chunk <= ONCE_BYTES {
            shape.kept = kept.iter().map(|k| k.0).collect();
            shape.batch = 1 << (ONCE_BYTES / chunk).min(MOST_TURNS).ilog2();
        }
    }
    if let (Form::Inner { threads }, None) = (shape.form, shape.split) {
        let mut kept = repeated_loads(node, stages, lanes, 2);
        let mut room = KEPT_BYTES;
        let turns = chunks.div_ceil(threads as usize);
        if kept.is_empty() && turns > 1 {
            // A row that is read once is loaded some chunks at a time, before any of them is worked on.
            (kept, room) = (repeated_loads(node, stages, lanes, 1), ONCE_BYTES);
        }
        let bytes: usize = kept.iter().map(|k| k.1 * lanes * turns).sum();
        if turns <= MOST_TURNS && bytes <= room && !kept.is_empty() {
            shape.kept = kept.iter().map(|k| k.0).collect();
            shape.turns = turns;
            // One is worth its registers: those of the loads are free when it is computed.
            shape.saved = costly_value(node, stages).into_iter().collect();
        } else if (turns > MOST_TURNS || room < KEPT_BYTES) && !kept.is_empty() {
            let chunk: usize = kept.iter().map(|k| k.1 * lanes).sum();
            let most = (room / chunk).min(MOST_TURNS);
            if most > 1 {
                shape.kept = kept.iter().map(|k| k.0).collect();
                shape.batch = 1 << most.ilog2();
                if room < KEPT_BYTES && threads > ONCE_THREADS && rows >= MANY_BLOCKS {
                    shape.form = Form::Inner {
                        threads: ONCE_THREADS,
                    };
                    shape.threads = ONCE_THREADS;
                }
            }
        }
    }
    shape
}

/// Divides the work of a fused node with scans: rows in registers where they fit, tiles of them otherwise.
fn of_scans(node: &FusedNode, stages: &Stages, needed: &[usize]) -> Shape {
    let rows = node.rows();
    let scans = stages.scans(node);
    let is_rounded = |v: &&Value| {
        let value = node.body.value(**v);
        let adds = matches!(
            value.op,
            BodyOp::Scan {
                kind: ReduceKind::Sum | ReduceKind::Prod,
                ..
            }
        );
        adds && value.dtype.is_float()
    };
    // Eager mode's order is one element after the other.
    let in_order = node.exact && scans.iter().any(|v| is_rounded(&v));
    let outer = in_order || prefers_outer(node);
    let lanes = if outer {
        1
    } else {
        lanes(node, stages, needed)
    };
    let (&last, walked) = node.red.split_last().unwrap_or((&1, &[]));
    let line = last.div_ceil(lanes);
    let chunks = walked.iter().product::<usize>() * line;
    let kept = match outer {
        true => Vec::new(),
        false => scanned_loads(node, stages, lanes),
    };
    let loaded: usize = kept.iter().map(|k| k.1).sum();
    let folded: usize = scans.iter().map(|&v| node.body.value(v).dtype.size()).sum();
    let most = SCANNED_BYTES / ((loaded + folded) * lanes).max(1);
    let most = most.clamp(1, SCANNED_TURNS);
    let (form, threads, blocks, turns) = if outer {
        let groups = match in_order {
            true => 1,
            false => (chunks / SCANNED_COLUMNS).next_power_of_two().min(8),
        };
        let width = (256 / groups).min(128) as u32;
        let form = Form::Outer {
            width,
            groups: groups as u32,
        };
        let blocks = rows.div_ceil(width as usize);
        (form, width * groups as u32, blocks, 0)
    } else if chunks <= 32 * most || rows > 1 << 28 {
        let per_block = if rows < 4 * ENOUGH { 1 } else { 4 };
        let turns = chunks.div_ceil(32);
        let turns = if turns <= most { turns } else { 0 };
        let form = Form::Inner { threads: 32 };
        (
            form,
            32 * per_block,
            rows.div_ceil(per_block as usize),
            turns,
        )
    } else {
        let wanted = (chunks / 2).next_power_of_two() as u32;
        let threads = wanted.clamp(64, MANY_THREADS);
        let turns = chunks.div_ceil(threads as usize);
        match turns <= most {
            true => (Form::Inner { threads }, threads, rows, turns),
            false => {
                let threads = threads.min(MOST_THREADS);
                (Form::Inner { threads }, threads, rows, 0)
            }
        }
    };
    let mut shape = Shape {
        form,
        lanes,
        line,
        chunks,
        rows,
        split: None,
        linked: false,
        kept: kept.iter().map(|k| k.0).collect(),
        turns,
        batch: match outer {
            true => SCANNED_COLUMNS,
            false if turns == 0 => most,
            false => 0,
        },
        saved: Vec::new(),
        shifted: None,
        tile: None,
        threads,
        blocks: if rows * chunks == 0 { 0 } else { blocks },
        finish_per_row: 32,
        finish_threads: threads,
        finish_blocks: 0,
    };
    // A second scan of a row would wait for the pieces of the first.
    let phases = scan::phases(node);
    let once = scans.iter().all(|&v| phases[v as usize] == 1);
    let may = once && !in_order && stages.reductions().is_empty();
    let few = may && blocks < ENOUGH && shape.blocks > 0;
    if let Form::Outer { groups, .. } = form {
        let tile = groups as usize * SCANNED_COLUMNS;
        let least = PIECE.max(tile);
        if few && chunks >= 2 * least {
            let pieces = TARGET.div_ceil(shape.blocks).clamp(2, chunks / least);
            let per = chunks.div_ceil(pieces).next_multiple_of(tile);
            let pieces = chunks.div_ceil(per);
            shape.split = Some((per, pieces));
            shape.blocks *= pieces;
            shape.finish_blocks = shape.blocks;
        }
        return shape;
    }
    let beside = beside_scans(node, stages);
    let kept_beside = kept.iter().filter(|k| beside[k.0 as usize]);
    let waiting = folded + kept_beside.map(|k| k.1).sum::<usize>();
    let turns = LINKED_BYTES / (waiting.max(loaded) * lanes).max(1);
    let turns = turns.clamp(1, LINKED_TURNS);
    let tile = LINKED_THREADS as usize * turns;
    if few && chunks >= 2 * tile.max(PIECE / lanes) {
        let pieces = chunks.div_ceil(tile);
        shape.form = Form::Inner {
            threads: LINKED_THREADS,
        };
        (shape.turns, shape.batch, shape.linked) = (turns, 0, true);
        shape.split = Some((tile, pieces));
        shape.finish_threads = LINKED_THREADS;
        shape.finish_blocks = rows * pieces;
    }
    shape
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

/// Loads of whole chunks in loops that scan, and the bytes of their elements.
fn scanned_loads(node: &FusedNode, stages: &Stages, lanes: usize) -> Vec<(Value, usize)> {
    let vector = Var(node.extents().len() as u32 - 1);
    let all = stages.computed().into_iter();
    all.filter_map(|v| match &node.body.value(v).op {
        BodyOp::Load {
            dtype,
            index,
            mask: None,
            ..
        } if lanes > 1 && is_unit(index, vector, &NONE) => Some((v, dtype.size())),
        _ => None,
    })
    .collect()
}

/// The last costly function of binary32 that more than one loop computes.
fn costly_value(node: &FusedNode, stages: &Stages) -> Option<Value> {
    let loops = |v: Value| {
        stages
            .loops
            .iter()
            .filter(|l| l.compute.contains(&v))
            .count()
    };
    let costly = |v: &Value| {
        let value = node.body.value(*v);
        let heavy = matches!(&value.op, BodyOp::Unary(op, _) if op.heavy());
        heavy && value.dtype == DType::F32 && loops(*v) > 1
    };
    stages.computed().into_iter().rfind(costly)
}

/// Loads of whole chunks that at least `often` loops need, and the bytes of their elements.
fn repeated_loads(
    node: &FusedNode,
    stages: &Stages,
    lanes: usize,
    often: usize,
) -> Vec<(Value, usize)> {
    let vector = Var(node.extents().len() as u32 - 1);
    // A row's values are known before its one loop, not before those of several.
    let dependence = node.dependence();
    let known = |v: Value| stages.loops.len() == 1 && !dependence[v as usize].inner;
    let loops = |v: Value| {
        stages
            .loops
            .iter()
            .filter(|l| l.compute.contains(&v))
            .count()
    };
    let all = stages.computed();
    let load = |v: Value| match &node.body.value(v).op {
        BodyOp::Load {
            dtype,
            index,
            mask: None,
            ..
        } if lanes > 1 && is_unit(index, vector, &known) && loops(v) >= often => {
            Some((v, dtype.size()))
        }
        _ => None,
    };
    all.into_iter().filter_map(load).collect()
}
