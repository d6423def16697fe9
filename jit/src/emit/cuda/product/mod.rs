//! A product of half precision and all that follows it as one kernel (scheduler T-01, codegen A10.1).
//!
//! The template is CUDA C++ of its own (`panels.cu`: tiles in shared memory; `warps.cu`: products by warps, since Ampere;
//! `groups.cu`: by groups of warps fed by the copy engine, on Hopper). What follows the product is a function of 8 columns of a
//! row, which the template calls with sums, in binary32 or rounded: the loop of a pointwise kernel over one chunk. The copy
//! engine's descriptions of the operands are written by the kernel itself, into memory of the launch, so that nothing of
//! them depends on what the host knows when a graph is made.

mod sides;

use super::super::Emitted;
use super::attention::{GROUP, HALF, TILES};
use super::kernel::{Form, Writer};
use super::shape;
use super::stage::stages;
use super::text;
use super::value;
use super::{ENGINE, PANELS};
use crate::body::{BodyOp, Source};
use crate::emit::Pointer;
use crate::emit::merge::merge_loops;
use crate::graph::Graph;
use crate::lower::{Limits, Lowered, Lowering};
use crate::schedule::{FusedNode, Tiles};
use ferrotrace_kernels::ValueId;
use ferrotrace_kernels::support::{self, SCALAR};
use ferrotrace_runtime::{DType, Grid, KernelSource, Part};
use rustc_hash::FxHashSet;
use std::fmt::Write as _;

pub use sides::{Side, Sides};

const WARPS: &str = include_str!("warps.cu");
const GROUPS: &str = include_str!("groups.cu");

/// Columns that what follows is given at once.
const LANES: usize = 8;
/// Rows of a tile, and what is summed over at once.
const ROWS: usize = 128;
const STEP: usize = 64;
/// Bytes of registers that hold what a thread reads ahead.
const AHEAD: usize = 64;
/// Bytes of a block's two descriptions for the copy engine.
const MAPS: usize = 256;

/// Integer arguments by their positions.
mod argument {
    /// The first element and the distance of lines, of each operand.
    pub const OPERANDS: usize = 0;
    /// m, n, k.
    pub const SIZES: usize = 4;
    /// Rows and columns of tiles, tiles in all.
    pub const TILES: usize = 7;
    /// For each dimension of the batch its size, and the distances of both.
    pub const BATCH: usize = 10;
}

/// How many tiles' panels are in shared memory at once, and threads of a block.
fn stages_of(tiles: Tiles) -> (usize, u32) {
    match (tiles.groups, tiles.columns) {
        (true, 256) => (3, 384),
        (true, _) => (6, 384),
        (false, _) => (3, 256),
    }
}

/// Writes the kernel of a fused node with its product.
pub fn emit(
    graph: &Graph,
    lowering: &Lowering,
    fused: &FusedNode,
    stored: &FxHashSet<ValueId>,
    limits: &Limits,
) -> Emitted {
    let product = fused.product.expect("a node with a product");
    let tiles = product.tiles.expect("a product that is generated");
    let Lowered::Call(call) = &lowering.steps[product.step] else {
        unreachable!("a product is a call")
    };
    let sides = Sides::of(graph, call).expect("operands that were looked at before");
    let node = merge_loops(fused.clone());
    let needed: Vec<usize> = (0..node.stores.len())
        .filter(|&s| stored.contains(&node.stores[s].node))
        .collect();
    let [m, n, k] = sides.sizes;
    let dtype = graph.node(product.node).dtype;
    let (rows, columns) = (m.div_ceil(ROWS), n.div_ceil(tiles.columns));
    let count = rows * columns * sides.count();
    let mut params = Vec::new();
    for side in &sides.sides {
        params.extend([side.offset, side.line]);
    }
    params.extend([m, n, k, rows, columns, count].map(|n| n as i64));
    for (d, &n) in sides.batch.iter().enumerate() {
        params.extend([n as i64, sides.sides[0].steps[d], sides.sides[1].steps[d]]);
    }
    let after = After::write(&node, product.node, &needed, &sides, dtype, params);
    let blocks = match tiles.groups {
        true => count.min(limits.multiprocessors.max(1)),
        false => count,
    };
    let (stages, threads) = stages_of(tiles);
    let panels = stages * (ROWS + tiles.columns) * STEP * dtype.size();
    // Behind the panels: a finished tile, a description, and the barriers.
    let behind = match tiles.groups {
        true => ROWS * tiles.columns * dtype.size() + MAPS,
        false => 0,
    };
    let template: &[&'static str] = match tiles.groups {
        true => &[TILES, HALF, GROUP, ENGINE, PANELS, GROUPS],
        false => &[TILES, HALF, PANELS, WARPS],
    };
    let mut parts = after.parts;
    parts.extend(text::template(template));
    Emitted {
        source: KernelSource {
            parts,
            body: after.text + &entry(&sides, tiles, dtype, after.ahead),
            finish: false,
        },
        pointers: after.pointers,
        params: after.params,
        streams: Vec::new(),
        in_place: after.in_place,
        updates: Vec::new(),
        numbers: node.body.numbers().to_vec(),
        chunks: blocks,
        scratch: if tiles.groups { blocks * MAPS } else { 0 },
        local: 0,
        products: 2 * (sides.count() * m * n) as u64 * k as u64,
        grid: Grid {
            threads,
            shared: (panels + behind) as u32,
            reports: after.reports,
            ..Grid::default()
        },
        loops: 1,
        panels: None,
        walks: Vec::new(),
        node,
    }
}

/// The function of what follows the product.
struct After {
    text: String,
    /// Chunks that a thread works on at once: as many as registers hold what is read for them.
    ahead: usize,
    parts: Vec<Part>,
    pointers: Vec<Pointer>,
    params: Vec<i64>,
    in_place: Vec<(ValueId, Source)>,
    reports: bool,
}

impl After {
    fn write(
        node: &FusedNode,
        product: ValueId,
        needed: &[usize],
        sides: &Sides,
        dtype: DType,
        params: Vec<i64>,
    ) -> After {
        let stages = stages(node, needed);
        let mut shape = shape::of(node, &stages, needed, false);
        (shape.form, shape.lanes, shape.tile) = (Form::Pointwise, LANES, None);
        shape.line = node.cols().div_ceil(LANES);
        shape.chunks = shape.line;
        let mut writer = Writer::new(node, stages, shape);
        writer.given = Some(Source::Node(product));
        writer.coarse = value::coarse(node);
        writer.params = params;
        for side in &sides.sides {
            writer.pointers.push(Pointer::Read(side.source));
            writer.pointer_types.push(dtype);
        }
        writer.collect_pointers(needed);
        writer.print_indices(needed);
        let mut body = String::new();
        writer.row_stage(&mut body, 0, None);
        let compute = writer.stages.loops[0].clone();
        let mut loads = String::new();
        writer.decode_chunk(&mut loads);
        let (mut members, mut names, mut bytes) = (String::new(), String::new(), 0);
        for &v in compute.compute.iter().filter(|v| writer.whole.contains(*v)) {
            if let BodyOp::Load { source, dtype, .. } = node.body.value(v).op {
                let ty = value::memory_type(dtype);
                let (pointer, index) = (writer.pointer(source), writer.indices[&v].at("j"));
                let _ = writeln!(members, "    __align__(16) {ty} g{v}[{LANES}];");
                let _ = writeln!(loads, "    ft_load(x.g{v}, {pointer} + {index}, m);");
                let _ = writeln!(names, "    const {ty} (&g{v})[{LANES}] = x.g{v};");
                bytes += LANES * dtype.size();
            }
        }
        let chunk = writer.chunk(0, &[]);
        let mut row = String::new();
        writer.decode_row(&mut row);
        let mut in_place = writer.in_place(needed);
        // Operands are read until the last tile.
        in_place.retain(|(_, source)| sides.sides.iter().all(|side| side.source != *source));
        let head = writer.head(&in_place);
        let mut text = text::helpers(writer.narrow_indices());
        writer.structure(&mut text);
        let start = format!("{head}{row}{}{body}", writer.preamble);
        let _ = write!(
            text,
            "struct FT_SYMBOL_after {{\n  const FT_SYMBOL_args &a;\n  struct ahead {{\n{members}  }};\n  __device__ \
             __forceinline__ void load(const ft_int row, const ft_int c, ahead &x) const {{\n{start}{loads}  }}\n  __device__ \
             __forceinline__ void operator()(const ft_int row, const ft_int c, const float (&given)[{LANES}], const ahead \
             &x) const {{\n{start}{names}{chunk}  }}\n}};\n"
        );
        for name in ["ft_from_f16", "ft_from_bf16", "ft_to_f16", "ft_to_bf16"] {
            writer.needs.insert(support::need(name, SCALAR));
        }
        After {
            text,
            ahead: AHEAD.checked_div(bytes).unwrap_or(2).clamp(1, 4),
            parts: support::parts(&writer.needs),
            pointers: writer.pointers,
            params: writer.params,
            in_place,
            reports: writer.reports,
        }
    }
}

/// The kernel, which gives the template its arguments.
fn entry(sides: &Sides, tiles: Tiles, dtype: DType, ahead: usize) -> String {
    let (stages, threads) = stages_of(tiles);
    let mut out = String::new();
    let batch = sides.batch.len();
    let _ = write!(
        out,
        "extern \"C\" __global__ void __launch_bounds__({threads}, 1) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) \
         {{\n  FT_AFTER;\n  ft_product<{batch}> t;\n"
    );
    for (i, name) in ["a", "b"].into_iter().enumerate() {
        let at = argument::OPERANDS + 2 * i;
        let _ = writeln!(
            out,
            "  t.{name} = (const unsigned short *)a.p{i} + a.P{at};\n  t.{name}_line = a.P{};",
            at + 1
        );
    }
    let sizes = ["m", "n", "k"].into_iter().zip(argument::SIZES..);
    for (name, at) in sizes.chain(["rows", "columns"].into_iter().zip(argument::TILES..)) {
        let _ = writeln!(out, "  t.{name} = (int)a.P{at};");
    }
    for d in 0..batch {
        let at = argument::BATCH + 3 * d;
        let _ = writeln!(
            out,
            "  t.batch[{d}] = (int)a.P{at};\n  t.a_step[{d}] = a.P{};\n  t.b_step[{d}] = a.P{};",
            at + 1,
            at + 2
        );
    }
    let half = dtype == DType::BF16;
    let [left, right] = sides.sides.each_ref().map(|side| side.inner);
    let count = argument::TILES + 2;
    let _ = match tiles.groups {
        true => writeln!(
            out,
            "  ft_by_groups<{half}, {left}, {right}, {}, {stages}, {ahead}, {batch}>(t, (int)a.P{count}, a.scratch, \
             FT_SYMBOL_after{{a}});\n}}",
            tiles.columns
        ),
        false => writeln!(
            out,
            "  ft_by_warps<{half}, {left}, {right}, {batch}>(t, FT_SYMBOL_after{{a}});\n}}"
        ),
    };
    out
}
