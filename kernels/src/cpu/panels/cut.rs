//! How products are cut into panels, and the scratch memory that panels lie in.

use crate::cpu::matmul::{COLUMNS, ROWS, TASK, part};
use crate::cpu::product::tiles::{Format, panel_rows};
use crate::cpu::view::Sizes;
use ferrotrace_runtime::Pool;
use std::ops::Range;

/// Bytes of a panel: half of a core's second cache, the other half is for the operands.
const PANEL: usize = 1 << 19;
/// Most bytes of an operand's panel that a kernel computes: all of a core's second cache.
const OPERAND: usize = 1 << 20;
/// Fewest columns of the last panel: past the library's special cases.
const LAST: usize = 72;

/// The widest panel of a product by tiles: its packed columns stay in a core's second cache.
const TILES: usize = 512;
/// Multiplications by tiles below which a panel is not worth a task of its own.
const TILES_TASK: usize = 1 << 22;
/// Rows and columns that tiles multiply at once.
const TILE: usize = 32;

/// How the products of a batch are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub sizes: Sizes,
    pub count: usize,
    /// Matrices of a panel; more than one only where none is cut.
    group: usize,
    /// Panels of rows of a matrix.
    rows: usize,
    /// Columns of a panel; the last of a row of panels may have more or fewer.
    pub piece: usize,
    /// Panels of columns of a matrix.
    pub columns: usize,
}

/// A panel: the matrices, the rows and the columns of each.
pub(super) type Panel = (Range<usize>, Range<usize>, Range<usize>);

impl Cut {
    /// The cut of `count` products for so many threads, of elements of `size` bytes.
    fn of(sizes: Sizes, count: usize, threads: usize, size: usize) -> Cut {
        let Sizes { m, n, .. } = sizes;
        let one = m * n * size;
        let mut cut = Cut {
            sizes,
            count,
            group: 1,
            rows: 1,
            piece: n,
            columns: 1,
        };
        if one <= PANEL && count > 1 {
            // Small products together, as many as a panel holds and every thread a few times.
            let shared = count.div_ceil(threads * 4).max(TASK / sizes.work().max(1));
            cut.group = shared.clamp(1, (PANEL / one.max(1)).max(1));
            return cut;
        }
        let tasks = threads.min(sizes.work() / TASK).max(1);
        // As many panels as the cache asks for, and the same number for each thread.
        let wanted = one.div_ceil(PANEL).next_multiple_of(tasks);
        let columns = (n / COLUMNS).clamp(1, wanted);
        cut.rows = (m / ROWS).clamp(1, wanted.div_ceil(columns));
        cut.in_columns(columns)
    }

    /// The cut of `count` products by tiles for so many threads.
    fn of_tiles(sizes: Sizes, format: Format, count: usize, threads: usize) -> Cut {
        let Sizes { m, n, .. } = sizes;
        let mut cut = Cut {
            sizes,
            count,
            group: 1,
            rows: 1,
            piece: n,
            columns: 1,
        };
        let one = m * n * size_of::<f32>();
        if one <= PANEL && count > 1 {
            let shared = count
                .div_ceil(threads * 4)
                .max(TILES_TASK / sizes.work().max(1));
            cut.group = shared.clamp(1, (PANEL / one.max(1)).max(1));
            return cut;
        }
        let tasks = threads.min(sizes.work() / TILES_TASK).max(1);
        let (high, wide) = (m.div_ceil(panel_rows(sizes.k, format)), n.div_ceil(TILES));
        // As many panels for each thread; columns are cut where there are enough, as rows are packed faster.
        let (rows, columns) = match (high * wide * count).is_multiple_of(tasks) {
            true => (high, wide),
            false if n >= 2 * TILE * tasks => (high, wide.next_multiple_of(tasks)),
            false => (high.next_multiple_of(tasks), wide),
        };
        cut.rows = rows.min(m.div_ceil(TILE)).max(1);
        cut.piece = n.div_ceil(columns).next_multiple_of(TILE);
        cut.columns = n.div_ceil(cut.piece);
        cut
    }

    /// The cut of a product one of whose operands is computed panel by panel, each element once.
    fn fed(sizes: Sizes, right: bool, threads: usize, size: usize) -> Cut {
        let Sizes { m, n, k } = sizes;
        let (across, lowest) = if right { (n, COLUMNS) } else { (m, ROWS) };
        let tasks = threads.min(sizes.work() / TASK).max(1);
        let wanted = (m * n * size).div_ceil(PANEL);
        let wanted = wanted.max((across * k * size).div_ceil(OPERAND));
        let panels = (across / lowest).clamp(1, wanted.next_multiple_of(tasks));
        let cut = Cut {
            sizes,
            count: 1,
            group: 1,
            rows: if right { 1 } else { panels },
            piece: n,
            columns: 1,
        };
        cut.in_columns(if right { panels } else { 1 })
    }

    /// This cut with about so many panels of columns.
    fn in_columns(mut self, columns: usize) -> Cut {
        let (n, cut) = (self.sizes.n, &mut self);
        if columns > 1 {
            let even = n.div_ceil(columns).next_multiple_of(16);
            let last = (n - 1) % even + 1;
            cut.piece = if last >= LAST {
                even
            } else {
                n / columns / 16 * 16
            };
            // The last panel takes the columns that are left.
            cut.columns = if last >= LAST {
                n.div_ceil(even)
            } else {
                columns
            };
        }
        self
    }

    pub fn panels(&self) -> usize {
        self.count.div_ceil(self.group) * self.rows * self.columns
    }

    /// Panels of rows run through first, then those of columns.
    pub fn panel(&self, i: usize) -> Panel {
        let (r, rest) = (i % self.rows, i / self.rows);
        let (c, g) = (rest % self.columns, rest / self.columns);
        let rows = part(self.sizes.m, self.rows, r)..part(self.sizes.m, self.rows, r + 1);
        let end = if c + 1 == self.columns {
            self.sizes.n
        } else {
            (c + 1) * self.piece
        };
        let matrices = g * self.group..((g + 1) * self.group).min(self.count);
        (matrices, rows, c * self.piece..end)
    }

    /// The most rows and columns of a panel.
    pub fn largest(&self) -> (usize, usize) {
        let last = self.sizes.n - (self.columns - 1) * self.piece;
        let rows = (0..self.rows)
            .map(|r| part(self.sizes.m, self.rows, r + 1) - part(self.sizes.m, self.rows, r));
        (rows.max().unwrap_or(0), last.max(self.piece))
    }
}

/// What a batch of products is cut into, and the scratch memory that the panels lie in.
pub(super) struct Scratch {
    pub cut: Cut,
    /// Whether the products are computed whole before the kernel runs.
    pub at_once: bool,
    /// Elements of a part.
    pub panel: usize,
    /// Columns, or rows, of a part of a computed operand.
    pub across: usize,
    /// Parts: one for each thread that computes panels.
    pub workers: usize,
}

impl Scratch {
    /// `right` says which operand is computed, if one is.
    pub fn of(s: Sizes, count: usize, threads: usize, size: usize, right: Option<bool>) -> Scratch {
        let cut = match right {
            Some(right) if count == 1 => Cut::fed(s, right, threads, size),
            _ => Cut::of(s, count, threads, size),
        };
        // Panels gain nothing for one matrix on one thread; `products` handles vectors; and an operand that a kernel
        // computes belongs to the whole batch.
        let small = cut.panels() == 1 || s.k == 0 || s.m == 1 || s.n == 1;
        let at_once = small || (right.is_some() && count > 1);
        Scratch::with(cut, threads, right, at_once)
    }

    /// The cut of products by tiles, and the memory of their panels.
    pub fn of_tiles(s: Sizes, format: Format, count: usize, threads: usize) -> Scratch {
        Scratch::with(
            Cut::of_tiles(s, format, count, threads),
            threads,
            None,
            false,
        )
    }

    fn with(cut: Cut, threads: usize, right: Option<bool>, at_once: bool) -> Scratch {
        let (s, count) = (cut.sizes, cut.count);
        let (highest, widest) = cut.largest();
        let (panel, workers) = match at_once {
            true => (s.m * s.n * count, 1),
            false => (highest * widest * cut.group, threads.min(cut.panels())),
        };
        let across = match (at_once, right) {
            (true, Some(true)) => s.n,
            (true, _) => s.m,
            (false, Some(true)) => widest,
            (false, _) => highest,
        };
        Scratch {
            cut,
            at_once,
            panel,
            across,
            workers,
        }
    }
}

/// Elements, each of `size` bytes, of the scratch memory that [`products_then`] takes for a product that passes from panel
/// to panel without memory of its own, and for an operand that is computed: the right one or the left.
pub(crate) fn scratch_elements(
    s: Sizes,
    count: usize,
    size: usize,
    passes: bool,
    right: Option<bool>,
) -> usize {
    if s.m * s.n * count == 0 {
        return 0;
    }
    let scratch = Scratch::of(s, count, Pool::global().threads(), size, right);
    let product = if passes { scratch.panel } else { 0 };
    let operand = if right.is_some() {
        scratch.across * s.k
    } else {
        0
    };
    (product + operand) * scratch.workers
}

/// [`scratch_elements`] of products by tiles.
pub(crate) fn scratch_elements_of_tiles(
    s: Sizes,
    format: Format,
    count: usize,
    passes: bool,
) -> usize {
    if !passes || s.m * s.n * count == 0 {
        return 0;
    }
    let scratch = Scratch::of_tiles(s, format, count, Pool::global().threads());
    scratch.panel * scratch.workers
}
