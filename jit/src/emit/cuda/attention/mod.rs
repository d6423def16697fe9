//! Attention as one kernel over blocks of queries and keys. Only the scores of one block exist at a time, in registers.
//!
//! The kernels are templates of CUDA C++: `attend.cu` has the loop over keys, and [`ferrotrace_kernels::cuda::tiles`] the
//! products of tiles. What a program does to scores between the product and the softmax becomes a function that the loop
//! calls for each score (`score.rs`). A causal mask and a scale need no call: blocks of hidden keys are left out, and the
//! scale is part of the exponential's argument. Where there are few queries and many keys, blocks share the keys of a
//! query, and a second kernel combines their results. Hopper has two templates more, for many queries of half precision
//! (`specialized.rs`) and for few queries (`few.rs`).

mod few;
mod kernel;
mod score;
mod specialized;

use super::Emitted;
use crate::body::Source;
use crate::emit::label::label;
use crate::lower::Attention;
use crate::policy::Policy;
use crate::schedule::{FusedNode, Store};
use crate::template::attention::Tiling;
use ferrotrace_kernels::cuda::tiles::{self, GROUP, HALF, SINGLE, TILES};
use ferrotrace_kernels::support::{self, Need};
use ferrotrace_runtime::{DType, Grid, KernelSource, Part};
use few::Few;
use kernel::{Kernel, arguments};
use score::{Score, Written};
use specialized::Specialized;
use std::collections::BTreeSet;

/// Threads of a block: four warps, each with queries of its own.
const THREADS: u32 = 128;
/// Blocks that fill a device. Where queries give fewer, their keys are split.
const FULL: usize = 264;
/// The least number of keys of a piece: where the queries are one tile, and where they are several, whose partial results
/// take more memory.
const PIECE: [usize; 2] = [64, 256];

const ATTEND: &str = include_str!("attend.cu");

/// Writes the kernel of attention, the step of number `step`.
pub fn emit(attention: &Attention, step: usize, policy: &Policy) -> Emitted {
    let node = fused(attention, step);
    let score = Score::of(
        &node.body,
        node.stores[0].value,
        Source::Node(attention.product),
        node.extents().len(),
        attention.sizes[0] > 1,
    );
    if let Some(specialized) = Specialized::of(attention, policy) {
        return specialized::emit(attention, node, &score, &specialized);
    }
    match Few::of(attention, policy) {
        Some(few) => few::emit(attention, node, &score, few),
        None => tiled(attention, node, &score),
    }
}

/// Writes the kernel whose blocks take a tile of queries and go through the keys tile by tile.
fn tiled(attention: &Attention, node: FusedNode, score: &Score) -> Emitted {
    let dtype = attention.nest.dtype;
    let [rows, keys, ..] = attention.sizes;
    let tiling = Tiling::of(dtype, attention.sizes);
    let batch = attention.matrices();
    let blocks = rows.div_ceil(tiling.rows());
    let pieces = pieces(batch, blocks, keys);
    let piece = keys.div_ceil(pieces).next_multiple_of(tiling.keys);
    let pieces = keys.div_ceil(piece);
    let params = arguments(attention, score, [blocks, pieces, piece]);
    let written = score::write(attention, &node, score, params);
    let kernel = Kernel::new(attention, &node, score, &written);
    let form = Form {
        template: match (dtype, tiling.groups) {
            (DType::F32, _) => &[TILES, SINGLE, ATTEND],
            (_, true) => &[TILES, HALF, GROUP, ATTEND],
            (_, false) => &[TILES, HALF, ATTEND],
        },
        text: kernel.tiled(tiling, pieces > 1),
        split: pieces > 1,
        blocks: batch * blocks * pieces,
        threads: THREADS,
        shared: tiling.bytes(dtype.size()),
        scratch: scratch(attention, pieces),
    };
    emitted(attention, node, written, form)
}

/// What distinguishes the kernels of attention from each other: a template's text and its launch.
struct Form {
    /// The texts of the template, each of which may use those before it.
    template: &'static [&'static str],
    /// The kernel's own text behind the functions of scores.
    text: String,
    /// Whether a second kernel combines the results of pieces of the keys.
    split: bool,
    /// Blocks of threads.
    blocks: usize,
    /// Threads of a block.
    threads: u32,
    /// Bytes of shared memory of a block.
    shared: usize,
    /// Bytes of device memory that all blocks share.
    scratch: usize,
}

/// The kernel of a form, whose functions of scores and arguments are `written`.
fn emitted(attention: &Attention, node: FusedNode, written: Written, form: Form) -> Emitted {
    let [_, keys, width, values] = attention.sizes;
    let queries = attention.nest.rows();
    Emitted {
        source: KernelSource {
            parts: parts(written.needs, attention.nest.dtype, form.template),
            body: (written.text + &form.text).into(),
            finish: form.split,
            name: label("attention", &node.body),
        },
        pointers: written.pointers,
        params: written.params,
        streams: Vec::new(),
        in_place: Vec::new(),
        updates: Vec::new(),
        numbers: node.body.numbers().to_vec(),
        chunks: form.blocks,
        scratch: form.scratch,
        local: 0,
        products: 2 * (queries * keys) as u64 * (width + values) as u64,
        grid: Grid {
            threads: form.threads,
            finish_blocks: if form.split { queries } else { 0 },
            finish_threads: THREADS,
            shared: form.shared as u32,
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

/// Bytes of the partial results of `pieces` pieces of the keys: for each query of each piece its values, the greatest
/// score and the sum of weights. Keys in one piece have none.
fn scratch(attention: &Attention, pieces: usize) -> usize {
    let values = attention.sizes[3];
    match pieces {
        0 | 1 => 0,
        n => attention.nest.rows() * n * (values + 2) * size_of::<f32>(),
    }
}

/// The support text that a kernel uses, and the texts of its template.
fn parts(mut needs: BTreeSet<Need>, dtype: DType, template: &[&'static str]) -> Vec<Part> {
    if dtype.is_half() {
        needs.extend(tiles::needs());
    }
    let mut parts = support::parts(&needs);
    parts.extend(tiles::parts(template));
    parts
}

/// The number of pieces of the keys, where the queries of each of `matrices` matrices take `blocks` blocks: 1 where these
/// fill half a device.
fn pieces(matrices: usize, blocks: usize, keys: usize) -> usize {
    let (all, least) = (matrices * blocks, PIECE[usize::from(blocks > 1)]);
    match all < FULL / 2 {
        true => FULL.div_ceil(all.max(1)).min(keys / least).max(1),
        false => 1,
    }
}

/// The computation of scores as a fused node, from which `score.rs` writes functions and explanations are made.
fn fused(attention: &Attention, step: usize) -> FusedNode {
    let nest = &attention.nest;
    FusedNode {
        steps: vec![step],
        iter: nest.iter.clone(),
        red: nest.red.clone(),
        body: std::sync::Arc::clone(&nest.body),
        stores: vec![Store {
            node: nest.node,
            dtype: nest.dtype,
            value: nest.result,
            index: nest.place.clone(),
            update: None,
        }],
        exact: false,
        product: None,
        feeds: false,
    }
}
