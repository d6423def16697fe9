//! A half-precision product as one kernel with its epilogue and with prologues, which compute operands.
//!
//! The templates are CUDA C++. `warps.cu` (Ampere and later) and `groups.cu` (Hopper: groups of warps, fed by the copy
//! engine) multiply panels in shared memory (`panels.cu`). `lines.cu` and `streams.cu` multiply few rows from memory into
//! registers; `streams.cu` calls prologues, too. An epilogue is a function that is called with 8 sums of a row, in binary32
//! or rounded; a prologue gives 8 elements of a line (`function.rs`). Kernels write the copy engine's tensor maps themselves,
//! into memory of the launch: a recorded graph of launches then holds no address of an operand in a map.

mod entry;
mod function;

use super::super::Emitted;
use super::arguments::structure;
use super::text;
use super::{ENGINE, FEW_ROWS, PANELS};
use crate::emit::Pointer;
use crate::emit::label::label;
use crate::graph::Graph;
use crate::lower::{Lowered, Lowering};
use crate::policy::Policy;
use crate::schedule::{FusedNode, Prologue, Sides, Tiles, Units, merge_loops};
use entry::{Entry, Operand};
use ferrotrace_kernels::ValueId;
use ferrotrace_kernels::cuda::tiles::{self, GROUP, HALF, TILES};
use ferrotrace_kernels::support::{self, SCALAR};
use ferrotrace_runtime::{DType, Grid, KernelSource};
use function::{Arguments, Function};
use rustc_hash::FxHashSet;

const WARPS: &str = include_str!("warps.cu");
const GROUPS: &str = include_str!("groups.cu");
const ADD_UP: &str = include_str!("add_up.cu");
const STREAMS: &str = include_str!("streams.cu");
const LINES: &str = include_str!("lines.cu");

/// A load of a chunk that is known to be whole and aligned where `W`.
const LOAD: &str = include_str!("load.cu");

/// Columns of a row that an epilogue is called with.
const LANES: usize = 8;
/// Bytes of registers that hold what a thread reads before it is needed.
const PREFETCHED: usize = 64;

/// Writes the kernel of a fused node with its product and prologues.
pub fn emit(
    graph: &Graph,
    lowering: &Lowering,
    fused: &FusedNode,
    prologues: &[Prologue],
    stored: &FxHashSet<ValueId>,
    policy: &Policy,
) -> Emitted {
    let product = fused
        .product
        .expect("a product template joins a node with a product");
    let tiles = product.tiles.expect("a generated product has tiles");
    let Lowered::Call(call) = &lowering.steps[product.step] else {
        unreachable!("a product is a call")
    };
    let sides = Sides::of(graph, call).expect("fusion has found the sides of these operands");
    let node = merge_loops(fused.clone());
    let needed: Vec<usize> = (0..node.stores.len())
        .filter(|&s| stored.contains(&node.stores[s].node))
        .collect();
    let [m, n, k] = sides.sizes;
    let dtype = sides.dtype;
    let (rows, columns) = (m.div_ceil(tiles.rows), n.div_ceil(tiles.columns));
    let count = rows * columns * sides.count();
    let mut arguments = arguments(&sides, [rows, columns, count]);
    let mut operands = operands(&sides, prologues, dtype, &mut arguments);
    let after = Function::after(&node, product.node, &needed, &mut arguments);
    let before = functions_before(prologues, &mut operands, &mut arguments);
    let functions = after.text + &before;
    arguments.keep_operands(&sides, prologues);
    let blocks = blocks_of(tiles, count, policy);
    let mut parts = support::parts(&arguments.needs);
    parts.extend(tiles::parts(template(tiles)));
    // Chunks that a thread works on at once: as many as it has registers for the epilogue's loads.
    let ahead = PREFETCHED.checked_div(after.bytes[0]).unwrap_or(2);
    let ahead = ahead.clamp(1, 4);
    let entry = Entry {
        sides: &sides,
        prologues,
        tiles,
        dtype,
        operands,
        ahead,
    };
    let body = body(&arguments, !prologues.is_empty(), &functions, &entry.text());
    Emitted {
        source: KernelSource {
            parts,
            body: body.into(),
            finish: false,
            name: label("matmul", &node.body),
        },
        pointers: arguments.pointers,
        params: arguments.params,
        streams: Vec::new(),
        in_place: arguments.in_place,
        updates: Vec::new(),
        numbers: arguments.numbers,
        chunks: blocks,
        scratch: match tiles.by {
            Units::Groups => blocks * Tiles::MAPS,
            _ => 0,
        },
        local: 0,
        products: 2 * (sides.count() * m * n) as u64 * k as u64,
        grid: Grid {
            threads: tiles.stages().1,
            shared: tiles.shared_bytes() as u32,
            reports: arguments.reports,
            waits: true,
            ..Grid::default()
        },
        loops: 1,
        panels: None,
        walks: Vec::new(),
        before: prologues.iter().map(|p| p.kernel.clone()).collect(),
        node,
    }
}

impl Arguments {
    /// Operands are read until the last tile: no result may take the place of one.
    fn keep_operands(&mut self, sides: &Sides, prologues: &[Prologue]) {
        let fed = prologues.iter().flat_map(|p| p.kernel.loads());
        let mut read: Vec<_> = sides.sides.iter().map(|side| side.source).collect();
        read.extend(fed.map(|load| load.0));
        self.in_place.retain(|(_, source)| !read.contains(source));
    }
}

/// The arguments that every product has: operands, sizes, tiles (rows of them, columns, all), the batch.
fn arguments(sides: &Sides, tiles: [usize; 3]) -> Arguments {
    let mut arguments = Arguments {
        narrow: true,
        ..Arguments::default()
    };
    arguments.needs.extend(tiles::needs());
    arguments.needs.insert(support::need("types", SCALAR));
    for side in &sides.sides {
        arguments.params.extend([side.offset, side.line]);
    }
    let sizes = sides.sizes.into_iter().chain(tiles);
    arguments.params.extend(sizes.map(|n| n as i64));
    for (d, &n) in sides.batch.iter().enumerate() {
        let steps = [sides.sides[0].steps[d], sides.sides[1].steps[d]];
        arguments.params.extend([n as i64, steps[0], steps[1]]);
    }
    arguments
}

/// The functions of the prologues, whose operands take the bytes that they read.
fn functions_before(
    prologues: &[Prologue],
    operands: &mut [Operand; 2],
    arguments: &mut Arguments,
) -> String {
    let mut text = String::new();
    for prologue in in_order(prologues) {
        let i = prologue.operand;
        let function = Function::before(&prologue.kernel, i, arguments);
        operands[i].bytes = function.bytes;
        text.push_str(&function.text);
    }
    text
}

/// The prologues, the left operand's first.
fn in_order(prologues: &[Prologue]) -> impl Iterator<Item = &Prologue> {
    (0..2).filter_map(|i| prologues.iter().find(|p| p.operand == i))
}

/// The operands; each that no prologue computes becomes a pointer argument.
fn operands(
    sides: &Sides,
    prologues: &[Prologue],
    dtype: DType,
    arguments: &mut Arguments,
) -> [Operand; 2] {
    let mut operands = [Operand::default(); 2];
    for (i, side) in sides.sides.iter().enumerate() {
        if !prologues.iter().any(|p| p.operand == i) {
            operands[i] = Operand {
                pointer: Some(arguments.pointers.len()),
                bytes: [LANES * dtype.size(), 0],
            };
            arguments.pointers.push(Pointer::Read(side.source));
            arguments.types.push(dtype);
        }
    }
    operands
}

/// Blocks of threads for `count` tiles. Blocks of groups are persistent: as many as run at once, each with several tiles.
fn blocks_of(tiles: Tiles, count: usize, policy: &Policy) -> usize {
    match tiles.by {
        Units::Groups => count.min(policy.target.multiprocessors.max(1)),
        Units::Warps | Units::Lines { .. } => count,
        Units::Streams { blocks } => count * blocks,
    }
}

/// The texts of which a product's template is made.
fn template(tiles: Tiles) -> &'static [&'static str] {
    match tiles.by {
        Units::Groups => &[TILES, HALF, GROUP, ENGINE, PANELS, GROUPS],
        Units::Warps => &[TILES, HALF, PANELS, WARPS],
        Units::Streams { .. } => &[TILES, HALF, PANELS, FEW_ROWS, ADD_UP, STREAMS],
        Units::Lines { .. } => &[TILES, HALF, PANELS, FEW_ROWS, ADD_UP, LINES],
    }
}

/// The kernel's own text: helpers, the structure of its arguments, the functions that the template calls, the kernel.
fn body(arguments: &Arguments, computes: bool, functions: &str, entry: &str) -> String {
    let mut body = text::helpers(arguments.narrow);
    body += &structure(
        arguments.pointers.len(),
        arguments.params.len(),
        arguments.numbers.len(),
    );
    if computes {
        body += LOAD;
    }
    body += functions;
    body += entry;
    body
}
