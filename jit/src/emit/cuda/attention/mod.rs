//! Attention as one kernel, by blocks of queries and keys: the scores of a block lie in registers, and no
//! more of them exist.
//!
//! The template is CUDA C++ of its own (tiles and their products are [`ferrotrace_kernels::cuda::tiles`]; `attend.cu`: the
//! loop over keys). What a program does to a score between product and softmax becomes a function that
//! the loop calls with each (`score.rs`), but for the causal mask, whose blocks are left out, and a scale, which costs
//! nothing. Few queries with many keys are split over the keys, and a second kernel combines the pieces. On Hopper, many
//! queries of half precision are the work of groups of warps that take turns, fed by the copy engine (`specialized.rs`);
//! the keys of a few queries are shared by the warps of a cluster of blocks (`few.rs`).

mod few;
mod score;
mod specialized;

use super::Emitted;
use crate::body::{BodyOp, Source};
use crate::emit::label::label;
use crate::lower::Attention;
use crate::policy::Policy;
use crate::schedule::{FusedNode, Store};
use crate::template::attention::Tiling;
use ferrotrace_kernels::cuda::tiles::{self, GROUP, HALF, SINGLE, TILES};
use ferrotrace_kernels::support::{self, Need};
use ferrotrace_runtime::{DType, Grid, KernelSource, Part};
use few::Few;
use score::Score;
use specialized::Specialized;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Threads of a block: four warps, each with queries of its own.
const THREADS: u32 = 128;
/// Blocks that fill a device: fewer are split over keys.
const FULL: usize = 264;
/// Least keys of a piece, of queries that are one tile and of more, whose partial results are large.
const PIECE: [usize; 2] = [64, 256];

const ATTEND: &str = include_str!("attend.cu");

/// Integer arguments by their positions.
mod argument {
    /// Queries: the first element, from row to row, from column to column. Keys and values follow.
    pub const OPERANDS: usize = 0;
    /// Queries, keys, their width, that of values.
    pub const SIZES: usize = 9;
    /// Blocks of queries.
    pub const BLOCKS: usize = 13;
    /// Pieces of the keys, and keys of each; of how many matrices tiles are mixed.
    pub const PIECES: usize = 14;
    /// How far the causal mask lets a query see.
    pub const DIAGONAL: usize = 16;
    /// For each dimension of the batch its size, and the distances of queries, keys and values.
    pub const BATCH: usize = 17;
}

/// Writes the kernel of attention, a step of this number.
pub fn emit(attention: &Attention, step: usize, policy: &Policy) -> Emitted {
    let node = fused(attention, step);
    let dtype = attention.nest.dtype;
    let [rows, keys, width, values] = attention.sizes;
    let tiling = Tiling::of(dtype, attention.sizes);
    let batch: usize = attention.nest.rows() / rows;
    let score = Score::of(
        &node.body,
        node.stores[0].value,
        Source::Node(attention.product),
        node.extents().len(),
        rows > 1,
    );
    if let Some(specialized) = Specialized::of(attention, policy) {
        return specialized::emit(attention, node, score, &specialized);
    }
    if let Some(few) = Few::of(attention, policy) {
        return few::emit(attention, node, score, few);
    }
    let blocks = rows.div_ceil(tiling.rows());
    let pieces = pieces(batch, blocks, keys);
    let piece = keys.div_ceil(pieces).next_multiple_of(tiling.keys);
    let pieces = keys.div_ceil(piece);
    let params = arguments(attention, &score, [blocks, pieces, piece]);
    let written = score::write(attention, &node, &score, params);
    let kernel = Kernel {
        attention,
        node: &node,
        tiling,
        score,
        split: pieces > 1,
        result: written.pointers.len() - 1,
    };
    let template: &[&'static str] = match (dtype, tiling.groups) {
        (DType::F32, _) => &[TILES, SINGLE, ATTEND],
        (_, true) => &[TILES, HALF, GROUP, ATTEND],
        (_, false) => &[TILES, HALF, ATTEND],
    };
    Emitted {
        source: KernelSource {
            parts: parts(written.needs, dtype, template),
            body: (written.text + &kernel.text()).into(),
            finish: kernel.split,
            name: label("attention", &node.body),
        },
        pointers: written.pointers,
        params: written.params,
        streams: Vec::new(),
        in_place: Vec::new(),
        updates: Vec::new(),
        numbers: node.body.numbers().to_vec(),
        chunks: batch * blocks * pieces,
        scratch: match pieces {
            1 => 0,
            n => batch * rows * n * (values + 2) * size_of::<f32>(),
        },
        local: 0,
        products: 2 * (batch * rows * keys) as u64 * (width + values) as u64,
        grid: Grid {
            threads: THREADS,
            finish_blocks: batch * rows,
            finish_threads: THREADS,
            shared: tiling.bytes(dtype.size()) as u32,
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

/// The support text that a kernel uses, and the texts of its template.
fn parts(mut needs: BTreeSet<Need>, dtype: DType, template: &[&'static str]) -> Vec<Part> {
    if dtype.is_half() {
        needs.extend(tiles::needs());
    }
    let mut parts = support::parts(&needs);
    parts.extend(tiles::parts(template));
    parts
}

/// Pieces into which keys are cut where there are few blocks in all: `blocks` for the queries of each matrix.
fn pieces(matrices: usize, blocks: usize, keys: usize) -> usize {
    let (all, least) = (matrices * blocks, PIECE[usize::from(blocks > 1)]);
    match all < FULL / 2 {
        true => FULL.div_ceil(all.max(1)).min(keys / least).max(1),
        false => 1,
    }
}

/// The loops over scores, for explanations and for what writes their change.
fn fused(attention: &Attention, step: usize) -> FusedNode {
    let nest = &attention.nest;
    FusedNode {
        steps: vec![step],
        iter: nest.iter.clone(),
        red: nest.red.clone(),
        body: nest.body.clone(),
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

fn arguments(
    attention: &Attention,
    score: &Score,
    [blocks, pieces, piece]: [usize; 3],
) -> Vec<i64> {
    let [q, k, v] = &attention.operands;
    let mut all = Vec::new();
    // Keys are rows of their tiles.
    for (m, row, column) in [
        (q, q.row, q.column),
        (k, k.column, k.row),
        (v, v.row, v.column),
    ] {
        all.extend([m.offset as i64, row as i64, column as i64]);
    }
    all.extend(attention.sizes.map(|n| n as i64));
    all.extend([blocks, pieces, piece].map(|n| n as i64));
    // Far beyond any key is as far as any.
    let far = 1 << 30;
    all.push(
        score
            .causal
            .map_or(0, |(diagonal, _)| diagonal.clamp(-far, far)),
    );
    for (d, &n) in attention.nest.iter.iter().take(q.batch.len()).enumerate() {
        let strides = [q, k, v].map(|m| m.batch[d] as i64);
        all.push(n as i64);
        all.extend(strides);
    }
    all
}

/// What the text of a kernel says.
struct Kernel<'a> {
    attention: &'a Attention,
    node: &'a FusedNode,
    tiling: Tiling,
    score: Score,
    split: bool,
    /// The position of the result's pointer.
    result: usize,
}

impl Kernel<'_> {
    /// What the text is called with.
    fn text(&self) -> String {
        let products = match (self.attention.nest.dtype, self.tiling.groups) {
            (DType::F32, _) => "ft_single",
            (DType::F16, false) => "ft_half<false>",
            (DType::F16, true) => "ft_group<false>",
            (_, false) => "ft_half<true>",
            (_, true) => "ft_group<true>",
        };
        let mut out = String::new();
        let change = change(self.attention, &self.score, &mut out);
        let Tiling {
            queries,
            keys,
            widths: [d, e],
            resident,
            ..
        } = self.tiling;
        let flags = [
            self.score.causal.is_some(),
            self.score.limit.is_some(),
            self.score.changed,
            self.attention.zeros,
            self.split,
        ];
        let flags: String = flags.iter().map(|flag| format!("{flag}, ")).collect();
        let place = place(
            self.attention,
            self.node,
            &self.score,
            (self.result, self.tiling.rows()),
        );
        let _ = write!(
            out,
            "extern \"C\" __global__ void __launch_bounds__({THREADS}, {resident}) FT_SYMBOL(const __grid_constant__ \
             FT_SYMBOL_args a) {{\n  FT_AFTER;\n  typedef {products} P;\n  typedef P::type T;\n{place}  ft_attend<P, {queries}, {keys}, \
             {d}, {e}, {flags}FT_SYMBOL_change>(t, {change});\n}}\n"
        );
        if self.split {
            out += &finish(self.attention, products, self.result);
        }
        out
    }
}

/// The kernel that combines pieces, of the type `products`. `result` is the position of the result's pointer.
fn finish(attention: &Attention, products: &str, result: usize) -> String {
    let (pieces, values, zeros) = (argument::PIECES, argument::SIZES + 3, attention.zeros);
    format!(
        "extern \"C\" __global__ void __launch_bounds__({THREADS}) FT_SYMBOL_finish(const __grid_constant__ FT_SYMBOL_args \
         a) {{\n  FT_AFTER;\n  typedef {products} P;\n  const long long row = blockIdx.x, values = a.P{values};\n  \
         ft_combine<P, {zeros}>((const float *)a.scratch + row * a.P{pieces} * (values + 2), (int)a.P{pieces}, \
         (int)values, (P::type *)a.p{result} + row * values);\n}}\n"
    )
}

/// What a block works on, whose tiles have so many queries.
fn place(
    attention: &Attention,
    node: &FusedNode,
    score: &Score,
    (result, tile): (usize, usize),
) -> String {
    let mut out = String::new();
    let (blocks, pieces, batch) = (argument::BLOCKS, argument::PIECES, argument::BATCH);
    let dims = dimensions(attention);
    let _ = write!(
        out,
        "  unsigned b = blockIdx.x;\n  const unsigned pieces = a.P{pieces}, blocks = a.P{blocks};\n  \
         const int piece = b % pieces;\n  b /= pieces;\n  const int block = blocks - 1 - b % blocks;\n  b /= blocks;\n  \
         const long long matrix = b;\n"
    );
    out.push_str(&indices(dims, "long long"));
    out.push_str("  ft_attention<T> t;\n");
    for (i, name) in ["q", "k", "v"].into_iter().enumerate() {
        let at = argument::OPERANDS + 3 * i;
        let moved: String = (0..dims)
            .map(|d| format!(" + i{d} * a.P{}", batch + 4 * d + 1 + i))
            .collect();
        let _ = writeln!(
            out,
            "  t.{name} = {{(const T *)a.p{i} + a.P{at}{moved}, a.P{}, a.P{}}};",
            at + 1,
            at + 2
        );
    }
    for (i, name) in ["rows", "keys", "width", "values"].into_iter().enumerate() {
        let _ = writeln!(out, "  t.{name} = (int)a.P{};", argument::SIZES + i);
    }
    let [scale, fill] = factors(node, score);
    let (rows, piece, diagonal) = (tile, pieces + 1, argument::DIAGONAL);
    let _ = write!(
        out,
        "  t.out = (T *)a.p{} + matrix * t.rows * t.values;\n  t.out_row = t.values;\n  \
             t.part = (float *)a.scratch + (matrix * t.rows * a.P{pieces} + piece) * (t.values + 2);\n  \
             t.part_row = a.P{pieces} * (t.values + 2);\n  t.first = block * {rows};\n  t.begin = piece * (int)a.P{piece};\n  \
             t.end = min(t.keys, t.begin + (int)a.P{piece});\n  t.ahead = (int)a.P{diagonal};\n  t.fill = {fill};\n  \
             t.scale = {scale};\n",
        result
    );
    out
}
/// The dimensions of the batch.
fn dimensions(attention: &Attention) -> usize {
    attention.operands[0].batch.len()
}

/// The indices of a matrix by its number `b`, which is unsigned.
fn indices(dims: usize, ty: &str) -> String {
    let mut out = String::new();
    for d in (0..dims).rev() {
        let n = argument::BATCH + 4 * d;
        let _ = match d {
            0 => writeln!(out, "  const {ty} i0 = ({ty})b;"),
            _ => writeln!(
                out,
                "  const {ty} i{d} = ({ty})(b % (unsigned)a.P{n});\n  b /= (unsigned)a.P{n};"
            ),
        };
    }
    out
}

/// What products are multiplied by, and the score of hidden keys.
fn factors(node: &FusedNode, score: &Score) -> [String; 2] {
    let number = |value| match node.body.value(value).op {
        BodyOp::Number(n) => format!("__int_as_float((int)a.s{n})"),
        _ => "0.0f".to_owned(),
    };
    let scale = match score.scale {
        None => "1.0f".to_owned(),
        Some((value, false)) => number(value),
        Some((value, true)) => format!("__fdiv_rn(1.0f, {})", number(value)),
    };
    let causal = score.causal.map(|(_, fill)| fill);
    let fill = causal.or(score.limit.map(|limit| limit.fill));
    let fill = fill.map_or("0.0f".to_owned(), number);
    [scale, fill]
}

/// Writes the type of what changes a score; gives the expression of one, for the matrix whose indices are known.
fn change(attention: &Attention, score: &Score, out: &mut String) -> String {
    let dims = dimensions(attention);
    let named = |before: &str| -> String { (0..dims).map(|d| format!("{before}i{d}, ")).collect() };
    if score.is_known() {
        out.push_str(
            "struct FT_SYMBOL_change { __device__ float operator()(int, int, float s) const { return s; } };\n",
        );
        return "FT_SYMBOL_change()".to_owned();
    }
    let row = if attention.sizes[0] > 1 { "i, " } else { "" };
    let members: String = (0..dims).map(|d| format!(" ft_int i{d};")).collect();
    let one = match score.changed {
        true => format!("FT_SYMBOL_score(a, {}{row}j, s)", named("")),
        false => "s".to_owned(),
    };
    let last = match score.limit {
        Some(_) => format!(
            "\n  __device__ __forceinline__ int last(int i) const {{ return FT_SYMBOL_last(a, {}{row}0); }}",
            named("")
        ),
        None => String::new(),
    };
    let _ = writeln!(
        out,
        "struct FT_SYMBOL_change {{\n  const FT_SYMBOL_args &a;{members}\n  __device__ __forceinline__ float \
         operator()(int i, int j, float s) const {{ return {one}; }}{last}\n}};"
    );
    format!("FT_SYMBOL_change{{a, {}}}", named("(ft_int)"))
}
