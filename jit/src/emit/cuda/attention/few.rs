//! Attention of few queries, such as each step of text generation computes: the warps of a block and the blocks of a
//! cluster share the keys (Hopper and later).

use super::kernel::{Kernel, arguments};
use super::score::{self, Score};
use super::{FULL, Form, emitted, scratch};
use crate::emit::cuda::{Emitted, FEW_ROWS};
use crate::lower::Attention;
use crate::policy::Policy;
use crate::schedule::FusedNode;
use ferrotrace_kernels::cuda::tiles::{HALF, TILES};
use ferrotrace_runtime::DType;
use std::fmt::Write as _;

const ATTEND: &str = include_str!("attend.cu");
const FEW: &str = include_str!("few.cu");

/// Queries of a warp's products.
const ROWS: usize = 16;
/// Warps of a block.
const WARPS: usize = 8;
/// Keys that a warp takes at a time.
const KEYS: usize = 16;
/// Keys that the warps of a block take at a time.
const TURN: usize = WARPS * KEYS;
/// The most blocks of a cluster that every device with clusters allows.
const CLUSTER: usize = 8;
/// The most turns of a warp where clusters leave multiprocessors idle. Where more would be needed, pieces share the keys.
const TURNS: usize = 8;

/// How the keys are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Few {
    /// Blocks of a cluster.
    blocks: usize,
    /// Pieces of the keys, which a second kernel combines.
    pieces: usize,
}

impl Few {
    /// How the keys are shared. `None` where this form does not apply: it takes at most 16 queries of half precision, in
    /// contiguous rows of the widths that the template supports.
    pub fn of(attention: &Attention, policy: &Policy) -> Option<Few> {
        let [rows, keys, width, values] = attention.sizes;
        let [q, k, v] = &attention.operands;
        let dense = q.column == 1 && k.row == 1 && v.column == 1;
        let known = width % 32 == 0 && width <= 128 && matches!(values, 64 | 128);
        let half = attention.nest.dtype.is_half();
        if policy.target.capability < 90 || rows > ROWS || !dense || !known || !half {
            return None;
        }
        let matrices = attention.matrices();
        let mut blocks = 1;
        while blocks < CLUSTER && 4 * blocks * matrices <= FULL && keys >= 2 * blocks * TURN {
            blocks *= 2;
        }
        let alone = 4 * blocks * matrices >= FULL || keys <= TURNS * blocks * TURN;
        let pieces = FULL.div_ceil(matrices.max(1)).min(keys / TURN).max(1);
        Some(Few {
            blocks: if alone { blocks } else { 1 },
            pieces: if alone { 1 } else { pieces },
        })
    }

    /// Bytes of shared memory of a block: the partial results of each warp, and of the block.
    fn shared(values: usize) -> usize {
        (WARPS + 1) * ROWS * (values + 4) * size_of::<f32>()
    }
}

/// Writes the kernel.
pub(super) fn emit(attention: &Attention, node: FusedNode, score: &Score, few: Few) -> Emitted {
    let [_, keys, _, values] = attention.sizes;
    // A piece is a multiple of what a block takes at once.
    let piece = keys.div_ceil(few.pieces).next_multiple_of(TURN);
    let pieces = keys.div_ceil(piece);
    let split = pieces > 1;
    let parts_of_keys = if split { pieces } else { few.blocks };
    let params = arguments(attention, score, [1, parts_of_keys, piece]);
    let written = score::write(attention, &node, score, params);
    let kernel = Kernel::new(attention, &node, score, &written);
    let form = Form {
        template: &[TILES, HALF, FEW_ROWS, ATTEND, FEW],
        text: kernel.few(few.blocks, split),
        split,
        blocks: attention.matrices() * parts_of_keys,
        threads: 32 * WARPS as u32,
        shared: Few::shared(values),
        scratch: scratch(attention, pieces),
    };
    emitted(attention, node, written, form)
}

impl Kernel<'_> {
    /// The kernel by clusters of so many `blocks`, and the one that combines pieces if keys are `split`.
    fn few(&self, blocks: usize, split: bool) -> String {
        let mut out = String::new();
        let change = self.change(&mut out);
        let place = self.place(ROWS);
        let [_, _, width, values] = self.attention.sizes;
        // Narrow rows leave registers for a second block on a multiprocessor.
        let resident = if width + values > 128 { 1 } else { 2 };
        let bf16 = self.attention.nest.dtype == DType::BF16;
        let flags = self.flags(split);
        let cluster = match blocks {
            1 => String::new(),
            _ => format!(" __cluster_dims__({blocks}, 1, 1)"),
        };
        // The blocks of a cluster interleave their keys, so that a mask shortens the work of all of them.
        let all = match split {
            true => "",
            false => "  t.begin = 0;\n  t.end = t.keys;\n",
        };
        let rank = if split { "0" } else { "piece" };
        let threads = 32 * WARPS;
        let _ = write!(
            out,
            "extern \"C\" __global__ void __launch_bounds__({threads}, {resident}){cluster} FT_SYMBOL(const \
             __grid_constant__ FT_SYMBOL_args a) {{\n  FT_AFTER;\n  typedef unsigned short T;\n{place}{all}  \
             ft_attend_few<{bf16}, {KEYS}, {width}, {values}, {blocks}, {flags}>(t, {rank}, {change});\n}}\n"
        );
        if split {
            out += &self.finish(&format!("ft_half<{bf16}>"));
        }
        out
    }
}
