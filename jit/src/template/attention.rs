//! Attention on a device: the sizes that its kernel holds, and the tiles of a block.

use ferrotrace_runtime::DType;

/// The widest keys and values that a kernel holds in registers.
pub(crate) const WIDEST: usize = 256;

/// How a block's tiles are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tiling {
    /// 16 queries of a warp, times this.
    pub queries: usize,
    /// Keys of a block.
    pub keys: usize,
    /// Padded widths of keys and values.
    pub widths: [usize; 2],
    /// Blocks that a multiprocessor is to hold at once.
    pub resident: usize,
    /// Whether groups of warps multiply together where the device has that.
    pub groups: bool,
}

impl Tiling {
    pub fn of(dtype: DType, [rows, _, width, values]: [usize; 4]) -> Tiling {
        let padded = |unit: usize| [width, values].map(|n| n.next_multiple_of(unit));
        let widest = width.max(values);
        // Panels of 64 columns, of which at most a quarter is padding.
        let panels = padded(64);
        let full = |(n, m): (usize, usize)| 4 * n >= 3 * m;
        let mostly = full((width, panels[0])) && full((values, panels[1]));
        let groups = dtype.is_half() && rows > 64 && widest <= 128 && mostly;
        let widths = match widest {
            _ if groups => panels,
            0..=128 => padded(16),
            _ => padded(32),
        };
        let (queries, keys, resident) = match (dtype, widest) {
            (DType::F32, 0..=64) => (1, 64, 2),
            (DType::F32, 65..=128) => (1, 32, 2),
            (DType::F32, _) => (1, 32, 1),
            (_, 0..=128) if rows <= 64 => (1, 64, 2),
            (_, 0..=128) => (2, 64, 2),
            _ => (1, 32, 2),
        };
        Tiling {
            queries,
            keys,
            widths,
            resident,
            groups,
        }
    }

    /// Queries of a block.
    pub fn rows(&self) -> usize {
        64 * self.queries
    }

    /// Bytes of a block's tiles: queries, and two stages of keys and values.
    pub fn bytes(&self, element: usize) -> usize {
        let [d, e] = self.widths.map(|n| n * element + 16);
        (self.rows() + 2 * self.keys) * d + 2 * self.keys * e
    }
}

/// Bytes that a block shares, for queries, keys, their width and that of values.
pub(crate) fn shared_bytes(dtype: DType, sizes: [usize; 4]) -> usize {
    Tiling::of(dtype, sizes).bytes(dtype.size())
}
