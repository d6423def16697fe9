//! Thresholds of how a kernel's work is divided. All are of sizes alone, so that a program gives the same bits on every
//! device; they were measured on an H200.

use std::ops::RangeInclusive;

/// Threads of a block of a pointwise kernel: 2 to 4 KiB of a stream a block.
pub(super) const POINTWISE_THREADS: u32 = 256;
/// Threads of a block of a pointwise kernel whose functions take time: fewer blocks wait for the slowest of their threads.
pub(super) const COSTLY_THREADS: u32 = 128;
/// Most elements that a chunk's loads and stores have together: that many accesses of different buffers keep memory busy
/// however short each is, and NVRTC takes 0.8 s for 200 of them, each with its tail.
pub(super) const CHUNK_ACCESSES: usize = 96;
/// Most chunks of a row that a warp reduces.
pub(super) const WARP_CHUNKS: usize = 128;
/// Elements of a short row that each of its threads has, of rows that are read alone, and of rows that are stored, too:
/// then neighbours are to store what lies together.
pub(super) const SHORT_ELEMENTS: [usize; 2] = [16, 4];
/// Fewest chunks of such a thread.
pub(super) const SHORT_CHUNKS: [usize; 2] = [4, 2];
/// Fewest threads of all rows together for rows to have fewer than a warp each.
pub(super) const SHORT_THREADS: usize = 1 << 17;
/// Chunks of a longer row that each of its threads has, and where there are [`BATCH_ROWS`] that are read alone: blocks of
/// fewer threads then wait for memory apart, each with more of it asked for.
pub(super) const ROW_CHUNKS: [usize; 2] = [2, 4];
/// Fewest threads of a block that reduces a row.
pub(super) const FEWEST_THREADS: u32 = 64;
/// Most threads of a row.
pub(super) const BLOCK_THREADS: u32 = 512;
/// Most threads of a row of more than [`LONG_ROW`] chunks.
pub(super) const LONG_ROW_THREADS: u32 = 1024;
/// Chunks of a row beyond which it takes more threads.
pub(super) const LONG_ROW: usize = 4096;
/// Most rows that take a block each: a grid has at most 2³¹ − 1.
pub(super) const MOST_ROWS: usize = 1 << 28;
/// Most chunks of a row that a thread keeps in registers.
pub(super) const KEPT_CHUNKS: usize = 8;
/// Most bytes of a row that a thread keeps in registers, of what more than one loop reads.
pub(super) const KEPT_BYTES: usize = 128;
/// The work, in additions an element, from which a thread keeps all that later loops over a row would compute again: less
/// takes no longer than the registers cost.
pub(super) const SAVED_WORK: usize = 32;
/// Most bytes of what it keeps so.
pub(super) const SAVED_BYTES: usize = 256;
/// Most bytes that a thread loads, of a row that is read once, before it works on them.
pub(super) const BATCH_BYTES: usize = 64;
/// Most threads of a row that is loaded so, where there are [`BATCH_ROWS`]: the ends of some rows are then beside the
/// middles of others.
pub(super) const BATCH_THREADS: u32 = 256;
/// Fewest rows for that.
pub(super) const BATCH_ROWS: usize = 2048;
/// Most chunks of a scanned row that a thread holds.
pub(super) const SCAN_CHUNKS: usize = 4;
/// Most bytes that a thread holds of a scanned row and of what is folded.
pub(super) const SCAN_BYTES: usize = 160;
/// Columns that a thread holds of a scanned row where lanes are rows.
pub(super) const SCAN_COLUMNS: usize = 8;
/// Most groups of threads that share the columns of a scanned row where lanes are rows.
pub(super) const SCAN_GROUPS: usize = 8;
/// Threads of a tile of a single-pass scan.
pub(super) const LOOK_BACK_THREADS: u32 = 256;
/// Most chunks of a tile of a single-pass scan that a thread holds. Fewer tiles in flight cost more than what else their
/// threads could do: 301 microseconds for 2²⁷ numbers, 324 with five blocks of spilling threads in place of four, 343 with
/// tiles of half the size.
pub(super) const LOOK_BACK_CHUNKS: usize = 8;
/// Most bytes of either kind, loaded and folded, that a thread of such a tile holds.
pub(super) const LOOK_BACK_BYTES: usize = 128;
/// Chunks of gathered rows that take a warp: each thread has two, and none has too many to hold.
pub(super) const GATHERED_CHUNKS: RangeInclusive<usize> = 64..=128;
/// Rows and groups of threads of a block that reduces strided columns of fewer than [`MANY_ROWS`] rows.
pub(super) const FEW_ROWS_BLOCK: (u32, u32) = (32, 8);
/// Rows and groups of threads of a block that reduces strided columns of many rows.
pub(super) const MANY_ROWS_BLOCK: (u32, u32) = (128, 4);
/// Most chunks of rows side by side of a block that reduces strided columns.
pub(super) const ACROSS_WIDTH: usize = 32;
/// Threads of such a block, and most groups of them.
pub(super) const ACROSS_THREADS: u32 = 256;
pub(super) const ACROSS_GROUPS: u32 = 32;
/// Fewest chunks of rows side by side for that.
pub(super) const FEWEST_ACROSS: usize = 8;
/// Rows of strided columns from which blocks are wide.
pub(super) const MANY_ROWS: usize = 1024;
/// Blocks that fill a large device: rows are split where there are fewer.
pub(super) const FULL: usize = 256;
/// Blocks that a split aims at.
pub(super) const SPLIT_BLOCKS: usize = 1024;
/// Fewest elements of a piece of a split row.
pub(super) const PIECE: usize = 4096;
/// Fewest columns of a piece for each of its threads, where columns are strided.
pub(super) const PIECE_COLUMNS: usize = 8;
/// Most pieces of a row that a warp combines, where rows are few and where warps of [`FULL`] rows or more work at once.
pub(super) const WARP_PIECES: [usize; 2] = [64, 256];
/// Threads of a block that combines pieces.
pub(super) const FINISH_THREADS: u32 = 256;
