//! Attention of few queries, as a step of a generated text has them: the warps of a block and the blocks of a cluster share
//! the keys (Hopper and later).

use super::score::{self, Score};
use super::{FULL, arguments, change, finish, parts, place};
use crate::emit::cuda::{CLUSTERS, Emitted};
use crate::emit::label::label;
use crate::lower::Attention;
use crate::policy::Policy;
use crate::schedule::FusedNode;
use ferrotrace_kernels::cuda::tiles::{HALF, TILES};
use ferrotrace_runtime::{DType, Grid, KernelSource};
use std::fmt::Write as _;

const ATTEND: &str = include_str!("attend.cu");
const FEW: &str = include_str!("few.cu");

/// Queries of a warp's products.
const ROWS: usize = 16;
/// Warps of a block.
const WARPS: usize = 8;
/// Keys that a warp takes at once, and a block.
const KEYS: usize = 16;
const TURN: usize = WARPS * KEYS;
/// Most blocks of a cluster on any device that has them.
const CLUSTER: usize = 8;
/// Most turns of a warp of a cluster that leaves multiprocessors without work: more are shared by pieces instead.
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
    /// `None` where another form is to be taken: chunks of rows are read, by widths that the text knows.
    pub fn of(attention: &Attention, policy: &Policy) -> Option<Few> {
        let [rows, keys, width, values] = attention.sizes;
        let [q, k, v] = &attention.operands;
        let dense = q.column == 1 && k.row == 1 && v.column == 1;
        let known = width % 32 == 0 && width <= 128 && matches!(values, 64 | 128);
        let half = attention.nest.dtype.is_half();
        if policy.target.capability < 90 || rows > ROWS || !dense || !known || !half {
            return None;
        }
        let matrices = attention.nest.rows() / rows;
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

    /// Bytes that a block shares: what each warp found of every query, and the block.
    fn shared(values: usize) -> usize {
        (WARPS + 1) * ROWS * (values + 4) * size_of::<f32>()
    }
}

/// Writes the kernel.
pub(super) fn emit(attention: &Attention, node: FusedNode, score: Score, few: Few) -> Emitted {
    let dtype = attention.nest.dtype;
    let [rows, keys, width, values] = attention.sizes;
    let batch = attention.nest.rows() / rows;
    // A piece is a multiple of what a block takes at once.
    let piece = keys.div_ceil(few.pieces).next_multiple_of(TURN);
    let pieces = keys.div_ceil(piece);
    let split = pieces > 1;
    let parts_of_keys = if split { pieces } else { few.blocks };
    let params = arguments(attention, &score, [1, parts_of_keys, piece]);
    let written = score::write(attention, &node, &score, params);
    let result = written.pointers.len() - 1;
    let text = text(attention, &node, &score, (few, split), result);
    Emitted {
        source: KernelSource {
            parts: parts(written.needs, dtype, &[TILES, HALF, CLUSTERS, ATTEND, FEW]),
            body: (written.text + &text).into(),
            finish: split,
            name: label("attention", &node.body),
        },
        pointers: written.pointers,
        params: written.params,
        streams: Vec::new(),
        in_place: Vec::new(),
        updates: Vec::new(),
        numbers: node.body.numbers().to_vec(),
        chunks: batch * parts_of_keys,
        scratch: match split {
            true => batch * rows * pieces * (values + 2) * size_of::<f32>(),
            false => 0,
        },
        local: 0,
        products: 2 * (batch * rows * keys) as u64 * (width + values) as u64,
        grid: Grid {
            threads: 32 * WARPS as u32,
            finish_blocks: batch * rows,
            finish_threads: super::THREADS,
            shared: Few::shared(values) as u32,
            waits: true,
            ..Grid::default()
        },
        loops: 1,
        panels: None,
        walks: Vec::new(),
        before: Vec::new(),
        node,
    }
}

/// The functions of scores and the kernel. `result` is the position of the result's pointer.
fn text(
    attention: &Attention,
    node: &FusedNode,
    score: &Score,
    (few, split): (Few, bool),
    result: usize,
) -> String {
    let mut out = String::new();
    let change = change(attention, score, &mut out);
    let place = place(attention, node, score, (result, ROWS));
    let [_, _, width, values] = attention.sizes;
    let blocks = few.blocks;
    // Registers for two blocks of a multiprocessor.
    let resident = if width + values > 128 { 1 } else { 2 };
    let bf16 = attention.nest.dtype == DType::BF16;
    let flags = [
        score.causal.is_some(),
        score.limit.is_some(),
        score.changed,
        attention.zeros,
        split,
    ];
    let flags: String = flags.iter().map(|flag| format!(", {flag}")).collect();
    let cluster = match blocks {
        1 => String::new(),
        _ => format!(" __cluster_dims__({blocks}, 1, 1)"),
    };
    // The blocks of a cluster take turns, so that all end where limits end.
    let all = match split {
        true => "",
        false => "  t.begin = 0;\n  t.end = t.keys;\n",
    };
    let rank = if split { "0" } else { "piece" };
    let _ = write!(
        out,
        "extern \"C\" __global__ void __launch_bounds__({}, {resident}){cluster} FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) \
         {{\n  FT_AFTER;\n  typedef unsigned short T;\n{place}{all}  ft_attend_few<{bf16}, {KEYS}, {width}, {values}, \
         {blocks}{flags}>(t, {rank}, {change});\n}}\n",
        32 * WARPS
    );
    if split {
        out += &finish(attention, &format!("ft_half<{bf16}>"), result);
    }
    out
}
