//! How a generated product is cut into tiles, what that costs, and when it is faster than the library's with a kernel
//! behind it. Times are in bytes moved.

use super::{Refusal, Sides};
use crate::policy::Policy;

/// How a generated product is cut into tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// Rows of a tile.
    pub rows: usize,
    /// Columns of a tile.
    pub columns: usize,
    /// What multiplies.
    pub by: Units,
}

/// What multiplies the tiles of a generated product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Units {
    /// Warps, from panels in shared memory.
    Warps,
    /// Groups of warps together, which Hopper has.
    Groups,
    /// Warps, for few rows, straight from memory. The blocks of a cluster share the terms.
    Streams {
        /// Blocks of a cluster.
        blocks: usize,
    },
    /// Warps, for few rows by a matrix with contiguous columns, straight from memory.
    Lines {
        /// Steps of 32 terms that a warp reads at once.
        steps: usize,
        /// Whether it reads the next steps while it multiplies some.
        ahead: bool,
    },
}

impl Tiles {
    /// Bytes of a block's two tensor maps.
    pub(crate) const MAPS: usize = 256;
    /// Rows of a tile in shared memory.
    const ROWS: usize = 128;
    /// Terms of a panel.
    const STEP: usize = 64;

    /// Stages of the pipeline through shared memory, and threads of a block.
    pub(crate) fn stages(self) -> (usize, u32) {
        match (self.by, self.columns) {
            (Units::Groups, 256) => (3, 384),
            (Units::Groups, _) => (6, 384),
            (Units::Warps, _) => (3, 256),
            (Units::Streams { .. } | Units::Lines { .. }, _) => (0, 256),
        }
    }

    /// Bytes of shared memory of a block. For few rows it holds the sums of 8 warps, in padded rows; else panels, and for
    /// groups a finished tile, a tensor map and barriers besides.
    pub(crate) fn shared_bytes(self) -> usize {
        let panels = self.stages().0 * (Tiles::ROWS + self.columns) * Tiles::STEP * 2;
        match self.by {
            Units::Streams { .. } | Units::Lines { .. } => 8 * self.rows * (self.columns + 4) * 4,
            Units::Groups => panels + Tiles::ROWS * self.columns * 2 + Tiles::MAPS,
            Units::Warps => panels,
        }
    }

    /// The tiles with which a product takes least time, and that time in bytes moved; `None` where there are none.
    pub fn of(sides: &Sides, policy: &Policy) -> Option<(Tiles, u64)> {
        let widths: &[usize] = match policy.target.capability {
            80..90 => &[128],
            90 => &[256, 128],
            // Newer devices have no such groups, and other matrix units.
            91.. => &[128],
            _ => &[],
        };
        let groups = policy.target.capability == 90;
        let by = if groups { Units::Groups } else { Units::Warps };
        let deficit = policy.thresholds.product_deficit[usize::from(!groups)];
        let [m, n, k] = sides.sizes;
        let time = |columns: usize| {
            let tiles = sides.count() * m.div_ceil(128) * n.div_ceil(columns);
            let turns = tiles.div_ceil(policy.target.multiprocessors.max(1)) as u64;
            let multiply = turn(policy, columns, k) * (100 + deficit) / 100;
            // What follows a tile is done while the next is computed.
            turns * multiply.max(policy.thresholds.product_follow * columns as u64)
        };
        let all = widths.iter().map(|&columns| {
            let rows = 128;
            (Tiles { rows, columns, by }, time(columns))
        });
        all.min_by_key(|(_, time)| *time)
    }

    /// The tiles of a product of few rows of which both operands lie in memory, with dense lines of terms.
    pub fn lines(sides: &Sides, policy: &Policy) -> Option<Tiles> {
        let [m, n, k] = sides.sizes;
        let target = &policy.target;
        let few = target.capability >= 90
            && m <= policy.thresholds.stream_rows
            && sides.batch.is_empty()
            && sides.sides.iter().all(|side| side.inner);
        let rows = m.next_multiple_of(8).next_power_of_two();
        // Blocks for every multiprocessor, two where registers allow that; wide ones read few rows again seldom.
        let light = rows <= 16;
        let enough = if light { 240 } else { 64 };
        let wide = [64, 32]
            .into_iter()
            .find(|width| n.div_ceil(*width) >= enough);
        let columns = wide.unwrap_or(16);
        // Registers of a thread that hold a step of both operands, and steps of a warp.
        let step = rows / 2 + columns / 2;
        let each = k.div_ceil(32 * 8);
        let ahead = each * step > 96;
        let most = if light { 48 } else { 96 } / step;
        let steps = if ahead {
            1 << most.max(1).ilog2()
        } else {
            each
        };
        let tiles = Tiles {
            rows,
            columns,
            by: Units::Lines { steps, ahead },
        };
        let fits = tiles.shared_bytes() <= target.shared_memory && n.div_ceil(columns) < 1 << 24;
        (few && fits).then_some(tiles)
    }

    /// The tiles of a product of few rows, which is as fast as its right matrix is read.
    pub fn streams(sides: &Sides, policy: &Policy) -> Option<Tiles> {
        let [m, n, k] = sides.sizes;
        let few = policy.target.capability >= 80
            && m <= policy.thresholds.stream_rows
            && sides.batch.is_empty();
        let rows = if m > 16 { 32 } else { 16 };
        let (columns, all) = (n.div_ceil(64), m.div_ceil(rows) * n.div_ceil(64));
        // Blocks of a cluster have each other's sums: as many as run at once, two on every multiprocessor, and have 64 terms
        // for every warp.
        let mut blocks = 1;
        let most = if policy.target.capability >= 90 { 8 } else { 1 };
        while blocks < most
            && all * blocks <= policy.target.multiprocessors
            && k >= 2 * blocks * 8 * 32
        {
            blocks *= 2;
        }
        let tiles = Tiles {
            rows,
            columns: 64,
            by: Units::Streams { blocks },
        };
        let fits = tiles.shared_bytes() <= policy.target.shared_memory && columns < 1 << 24;
        // Rows of the left matrix are dense, as chunks are terms.
        (few && fits && sides.sides[0].inner).then_some(tiles)
    }
}

/// The time in which every multiprocessor multiplies a tile of so many columns, in bytes moved.
fn turn(policy: &Policy, columns: usize, k: usize) -> u64 {
    let operations = 2 * (policy.target.multiprocessors * 128 * columns) as u64 * k as u64;
    operations / policy.thresholds.product_work
}

/// The time of a product of few rows, in bytes moved, of operands of which so many bytes are read: each block reads its
/// part of the left one again, of the second cache.
pub(super) fn stream_time(sides: &Sides, read: [u64; 2], policy: &Policy) -> u64 {
    let [m, n, k] = sides.sizes;
    let again = (n.div_ceil(64) as u64).div_ceil(policy.thresholds.stream_cached);
    let bytes = read[1] + read[0] * again + 2 * (m * n) as u64;
    let compute = policy.thresholds.stream_element * (k * n) as u64;
    policy.thresholds.product_launch
        + compute.max(bytes * (100 + policy.thresholds.stream_deficit) / 100)
}

/// The time of a product of few rows by lines, in bytes moved: each block reads the left matrix again, of the second cache.
fn line_time(sides: &Sides, policy: &Policy) -> u64 {
    let [m, n, k] = sides.sizes;
    let bytes = 2 * (k * n + m * n) as u64;
    let [always, row] = policy.thresholds.line_deficit;
    policy.thresholds.product_launch + bytes * (100 + always + row * m as u64) / 100
}

/// The time of a generated product of few rows of which both operands lie in memory.
pub(super) fn few_time(sides: &Sides, tiles: Tiles, policy: &Policy) -> u64 {
    let [m, n, k] = sides.sizes;
    match tiles.by {
        Units::Lines { .. } => line_time(sides, policy),
        _ => stream_time(sides, [m * k, k * n].map(|n| 2 * n as u64), policy),
    }
}

/// The time of the library for the same: as long as it takes to read the operands, or to multiply.
pub(super) fn library_time(sides: &Sides, policy: &Policy) -> u64 {
    let [m, n, k] = sides.sizes;
    let multiply = 2 * (m * n) as u64 * k as u64 / policy.thresholds.product_work;
    let bytes = 2 * (m * k + k * n + m * n) as u64;
    let few = match m <= policy.thresholds.stream_rows {
        true => policy.thresholds.library_few,
        false => 0,
    };
    policy.thresholds.product_launch + few + bytes.max(multiply)
}

/// The tiles of a product of few rows of which both operands lie in memory, and the time.
fn few(sides: &Sides, policy: &Policy) -> Option<(Tiles, u64)> {
    let tiles = Tiles::lines(sides, policy).or_else(|| Tiles::streams(sides, policy))?;
    Some((tiles, few_time(sides, tiles, policy)))
}

/// The tiles of a product of few rows with nothing around it, if the library takes longer.
pub(super) fn few_alone(sides: &Sides, policy: &Policy) -> Option<Tiles> {
    let (tiles, time) = few(sides, policy)?;
    (time < library_time(sides, policy)).then_some(tiles)
}

/// The tiles of a product, if one kernel with what follows is faster than two.
pub(super) fn worthwhile(sides: &Sides, policy: &Policy) -> Result<Tiles, Refusal> {
    let [m, n, k] = sides.sizes;
    if let Some((tiles, time)) = few(sides, policy) {
        let behind = policy.thresholds.product_launch + 2 * (m * n) as u64;
        if time < library_time(sides, policy) + behind {
            return Ok(tiles);
        }
    }
    let (tiles, time) = Tiles::of(sides, policy).ok_or(Refusal::NoPanels)?;
    if m.min(n).min(k) < policy.thresholds.product_least {
        return Err(Refusal::NotWorthwhile);
    }
    let results = (sides.count() * m * n) as u64;
    let alone = (2 * results * k as u64 / policy.thresholds.product_work).max(turn(policy, 128, k));
    // The kernel behind it is launched, and reads the product.
    let behind = policy.thresholds.product_launch + 2 * results;
    match time < alone + behind {
        true => Ok(tiles),
        false => Err(Refusal::NotWorthwhile),
    }
}
