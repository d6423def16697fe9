//! How a kernel's work is divided: chunks, threads, blocks, pieces; by sizes alone, never by the device, so that the
//! same program gives the same bits on every one.

mod access;
mod bounds;
mod rows;
mod saved;
mod scans;

use super::stage::Stages;
use super::tile::Tile;
use crate::body::Value;
use crate::schedule::FusedNode;

/// How threads are laid over rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A thread a chunk; nothing is reduced.
    Pointwise,
    /// A block a tile of rows and columns; nothing is reduced.
    Tiled,
    /// This many threads a row: a part of a warp, a warp, or a block.
    Inner { threads: u32 },
    /// Blocks of this many rows and groups of threads.
    Outer { width: u32, groups: u32 },
}

/// The division of a kernel's work.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub form: Form,
    /// Elements of a chunk.
    pub lanes: usize,
    /// Whether a chunk is of rows side by side at one column, each with sums of its own.
    pub across: bool,
    /// Chunks along the last column variable.
    pub line: usize,
    /// Chunks of a row.
    pub chunks: usize,
    rows: usize,
    /// Chunks of a piece, and pieces of a row, where rows are split.
    pub split: Option<(usize, usize)>,
    /// Whether the pieces are tiles of a single-pass scan, each of which looks back at those before it.
    pub looks_back: bool,
    /// Loads that a thread keeps in registers: those that more than one loop of a row needs.
    pub kept: Vec<Value>,
    /// Chunks of a row that a thread keeps; 0 where rows are too long for that.
    pub turns: usize,
    /// Of rows that are not kept: chunks that a thread loads before it works on them, 0 for one.
    pub batch: usize,
    /// Values that more than one loop needs, kept in registers.
    pub saved: Vec<Value>,
    /// A load at whose accesses of 16 bytes chunks begin, up to a chunk before their row, where rows start anywhere.
    pub shifted: Option<Value>,
    /// What is read through shared memory.
    pub tile: Option<Tile>,
    pub threads: u32,
    pub blocks: usize,
    /// Threads that combine the pieces of a row.
    pub finish_per_row: u32,
    pub finish_threads: u32,
    pub finish_blocks: usize,
}

impl Shape {
    /// Rows of `chunks` chunks, in so many blocks of threads.
    fn new((rows, line, chunks): (usize, usize, usize), lanes: usize, layout: Layout) -> Shape {
        let Layout {
            form,
            threads,
            blocks,
        } = layout;
        Shape {
            form,
            lanes,
            across: false,
            line,
            chunks,
            rows,
            split: None,
            looks_back: false,
            kept: Vec::new(),
            turns: 0,
            batch: 0,
            saved: Vec::new(),
            shifted: None,
            tile: None,
            threads,
            blocks: if rows * chunks == 0 { 0 } else { blocks },
            finish_per_row: 32,
            finish_threads: 32,
            finish_blocks: 0,
        }
    }

    pub fn pieces(&self) -> usize {
        self.split.map_or(1, |s| s.1)
    }

    pub fn per_piece(&self) -> usize {
        self.split.map_or(self.chunks, |s| s.0)
    }

    /// Whether some threads of the last block may have no row, though their warp has one.
    pub fn has_idle_threads(&self) -> bool {
        match self.form {
            Form::Inner { threads } if threads < 32 => {
                !self.rows.is_multiple_of((self.threads / threads) as usize)
            }
            _ => false,
        }
    }

    /// The greatest number that counts work: chunks of all rows.
    pub fn units(&self) -> usize {
        let units = self.rows.saturating_mul(self.chunks.max(self.pieces()));
        units.saturating_mul(self.lanes)
    }
}

/// Threads and blocks over rows that are not split.
#[derive(Clone, Copy, Debug)]
struct Layout {
    form: Form,
    threads: u32,
    blocks: usize,
}

impl Layout {
    /// A warp a row, several of them a block where there are rows enough.
    fn of_warps(rows: usize) -> Layout {
        Layout::of_lanes(rows, 32)
    }

    /// Some lanes of a warp a row, several warps a block where there are rows enough.
    fn of_lanes(rows: usize, lanes: u32) -> Layout {
        let few = rows.saturating_mul(lanes as usize) < 4 * bounds::FULL * 32;
        let threads = if few { 32 } else { 128 };
        Layout {
            form: Form::Inner { threads: lanes },
            threads,
            blocks: rows.div_ceil((threads / lanes) as usize),
        }
    }

    /// A block a row.
    fn of_blocks(rows: usize, threads: u32) -> Layout {
        Layout {
            form: Form::Inner { threads },
            threads,
            blocks: rows,
        }
    }

    /// Blocks of rows side by side, whose columns groups of threads share.
    fn of_columns(rows: usize, (width, groups): (u32, u32)) -> Layout {
        Layout {
            form: Form::Outer { width, groups },
            threads: width * groups,
            blocks: rows.div_ceil(width as usize),
        }
    }
}

/// Divides the work of a fused node; chunks may begin before rows that start anywhere, or be of rows side by side, where
/// `shifted`.
pub(super) fn of(node: &FusedNode, stages: &Stages, needed: &[usize], shifted: bool) -> Shape {
    match stages.scans(node).is_empty() {
        true => rows::of(node, stages, needed, shifted),
        false => scans::of(node, stages, needed),
    }
}

/// Whether a node has too few rows to have each reduced by one block, and columns enough to cut.
pub(super) fn is_split(node: &FusedNode, stages: &Stages, needed: &[usize]) -> bool {
    let mut joined = stages.clone();
    joined.join();
    of(node, &joined, needed, false).split.is_some()
}
