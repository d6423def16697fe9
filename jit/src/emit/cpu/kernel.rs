//! A fused node as one C function: rows in parallel, and for each row its stages.
//!
//! Two shapes. **Inner**: the vector axis is the last column variable; a row's reductions keep vector accumulators,
//! combined at the end of the row. **Outer**: the vector axis is the last row variable, a block of which is worked on
//! at once while the columns (there a strided reduction) are walked; accumulators and row values are arrays of vectors.

use crate::body::{MaskId, Source, Value};
use crate::emit::cpu::chunks::Chunks;
use crate::emit::cpu::index::Index;
use crate::emit::cpu::lanes::{differ, lanes, prefers_outer};
use crate::emit::cpu::outline::{Function, outlined};
use crate::emit::cpu::pieces::{Cut, Pieces};
use crate::emit::cpu::reduce::Reduction;
use crate::emit::cpu::stage::{Stages, stages};
use crate::emit::cpu::transform::pipelined::Pipelined;
use crate::emit::cpu::transform::tile::Tile;
use crate::emit::reciprocal::use_reciprocals;
use crate::emit::{Emitted, Panels, Pointer, update};
use crate::expr::Var;
use crate::kernel::ir::{self, Block, Expr, Kernel, Launch, Name, Role, Stmt};
use crate::policy::Policy;
use crate::print::c::{Printed, print};
use crate::schedule::merge_loops;
use crate::schedule::{FusedNode, Moment};
use crate::target::Target;
use ferrotrace_kernels::ValueId;
use ferrotrace_kernels::support;
use ferrotrace_runtime::{DType, KernelSource};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// Accumulators of a light reduction loop.
pub(super) const UNROLL: usize = 4;
/// The state of writing one kernel.
pub(super) struct Writer<'a> {
    pub node: &'a FusedNode,
    pub lanes: usize,
    /// Vector registers of the machine.
    pub registers: usize,
    /// Bytes of a table whose gathered rows are asked for ahead, at least.
    pub prefetched_table: usize,
    /// Which values differ between the lanes.
    pub differ: Vec<bool>,
    /// Functions that are not inlined, each with the number of its definition once that is written.
    pub outlined: FxHashMap<Function, Option<u32>>,
    /// Their definitions.
    pub outlines: Vec<ir::Body>,
    /// Indices of loads, index values and random values.
    pub indices: FxHashMap<Value, Index>,
    pub masks: FxHashMap<MaskId, Vec<Index>>,
    pub stages: Stages,
    pub extents: Vec<usize>,
    pub outer: bool,
    pub split: bool,
    /// Whether the columns of a row are walked in order by one thread.
    pub ordered: bool,
    /// The chunks of an outer kernel's columns.
    pub chunks: Option<Chunks>,
    /// Reductions about a mean of a split row, or of rows whose columns are cut into chunks.
    pub moments: Vec<Moment>,
    pub store_indices: FxHashMap<usize, Index>,
    pub params: Vec<i64>,
    pub pointers: Vec<Pointer>,
    pub pointer_types: Vec<DType>,
    /// What is computed of a row's indices.
    pub preamble: Block,
    pub bases: u32,
    pub streams: Vec<(usize, ValueId, bool)>,
    pub scratch_rows: Vec<(Value, Name)>,
    pub block: usize,
    /// Whether positions in the loop being written are kept as numbers of vectors.
    pub counting: bool,
    /// The copy of the loop's body that is being written, of several written in turns.
    pub copy: Option<usize>,
    /// The values of which every copy has its own.
    pub stepped: FxHashSet<Value>,
    /// While a loop's usual case is written: the flags that it depends on.
    pub usual: Option<BTreeSet<Name>>,
    /// The loop that the next row takes along.
    pub pipelined: Option<Pipelined>,
    /// Scans whose carry is declared: a later loop that computes one again starts it anew.
    pub carried: FxHashSet<Value>,
    /// Divisions of which it is declared whether they may be multiplications.
    pub normals: FxHashSet<Value>,
    /// Addresses to prefetch in the loop being written.
    pub ahead: Vec<Expr>,
    /// Loads that read a staging array, and its name.
    pub staged: FxHashMap<Value, Name>,
    /// The tile the rows are walked in.
    pub tile: Option<Tile>,
    /// The argument that is the distance of the rows of the product that is taken up, or of the operand computed.
    pub pitch: Option<Name>,
}

/// Writes the kernel of a fused node. `stored` are the nodes whose values must be written.
pub fn emit(fused: &FusedNode, stored: &FxHashSet<ValueId>, policy: &Policy) -> Emitted {
    let mut node = merge_loops(fused.clone());
    let ordered = node.is_ordered();
    if node.red.is_empty() {
        // Without columns the last row variable is the vector axis.
        node.red = vec![node.iter.pop().unwrap_or(1)];
    }
    let split = node.is_split(policy);
    let outer = !split && !node.feeds && prefers_outer(&node);
    if !outer {
        node = use_reciprocals(node);
    }
    let needed: Vec<usize> = (0..node.stores.len())
        .filter(|&s| stored.contains(&node.stores[s].node))
        .collect();
    let stages = stages(&node, &needed);
    let vector = if outer {
        node.iter.len()
    } else {
        node.iter.len() + node.red.len()
    };
    let differ = differ(&node, Var(vector as u32 - 1));
    let lanes = lanes(&node, &stages, &differ, policy.target.vector);
    let moments = if split || outer {
        node.moments().unwrap_or_default()
    } else {
        Vec::new()
    };
    let extents = node.extents();
    let writer = Writer {
        node: &node,
        lanes,
        registers: policy.target.registers,
        prefetched_table: policy.thresholds.prefetched_table,
        differ,
        outlined: outlined(&node, &stages, policy.thresholds.outlined_calls),
        outlines: Vec::new(),
        indices: FxHashMap::default(),
        masks: FxHashMap::default(),
        stages,
        extents,
        outer,
        split,
        ordered,
        chunks: None,
        moments,
        store_indices: FxHashMap::default(),
        params: Vec::new(),
        pointers: Vec::new(),
        pointer_types: Vec::new(),
        preamble: Block::new(),
        bases: 0,
        streams: Vec::new(),
        scratch_rows: Vec::new(),
        block: 1,
        counting: false,
        copy: None,
        stepped: FxHashSet::default(),
        usual: None,
        pipelined: None,
        carried: FxHashSet::default(),
        normals: FxHashSet::default(),
        ahead: Vec::new(),
        staged: FxHashMap::default(),
        tile: None,
        pitch: None,
    };
    writer.kernel(&needed, &policy.target)
}

impl Writer<'_> {
    pub(super) fn extents(&self) -> &[usize] {
        &self.extents
    }

    /// The variable along the vector axis.
    pub(super) fn vector_var(&self) -> Option<Var> {
        let v = if self.outer {
            self.node.iter.len() - 1
        } else {
            self.extents.len() - 1
        };
        Some(Var(v as u32))
    }

    /// Whether a variable changes within a row.
    pub(super) fn is_inner_var(&self, v: Var) -> bool {
        v.0 as usize >= self.node.iter.len() || Some(v) == self.vector_var()
    }

    /// An integer argument with this value.
    pub(super) fn param(&mut self, value: i64) -> Name {
        self.params.push(value);
        // A kernel has far fewer arguments than 2³².
        Name::Param(self.params.len() as u32 - 1)
    }

    pub(super) fn next_base(&mut self) -> u32 {
        self.bases += 1;
        self.bases - 1
    }

    /// The pointer to a buffer.
    pub(super) fn pointer(&self, source: Source) -> Name {
        let read = Pointer::Read(source);
        let at = self.pointers.iter().position(|p| *p == read);
        Name::Pointer(at.unwrap_or_default() as u32)
    }

    /// Whether an outer kernel's columns are cut into chunks.
    pub(super) fn is_chunked(&self) -> bool {
        self.chunks.is_some()
    }

    pub(super) fn row_vars(&self) -> Vec<usize> {
        let n = self.node.iter.len();
        (0..if self.outer { n - 1 } else { n }).collect()
    }

    /// Column variables walked one by one, outermost first.
    pub(super) fn walked_vars(&self) -> Vec<usize> {
        let (first, n) = (self.node.iter.len(), self.extents.len());
        (first..if self.outer { n } else { n - 1 }).collect()
    }

    pub(super) fn kernel(mut self, needed: &[usize], target: &Target) -> Emitted {
        let node = self.node;
        self.collect_pointers(needed);
        self.print_indices(needed);
        let by_panels = node.product.is_some() || node.feeds;
        self.tile = match by_panels {
            false => self.find_tile(),
            true => None,
        };
        if let Some(tile) = self.tile.clone() {
            self.stage_loads(&tile);
        }
        let vector = self.vector_var().map_or(1, |v| self.extents[v.0 as usize]);
        let rows: usize = self.row_vars().iter().map(|&v| self.extents[v]).product();
        let units = match &self.tile {
            Some(tile) => rows / self.extents[tile.row].max(1) * self.tiles(tile),
            None => rows,
        };
        let cols = node.cols();
        self.chunks = self.find_chunks(rows, vector);
        if !self.split && self.chunks.is_none() {
            self.moments.clear();
        }
        let chunk_count = self.chunks.map_or(1, |c| c.count);
        let walked = self.walked();
        let cut = self.cut(rows, vector, target.l2);
        let walks = self.walks(&cut);
        let Cut {
            piece,
            pieces,
            extent,
        } = cut;
        let width = if self.outer { piece } else { 1 };
        self.block = width;
        let local = self.local_layout(cols, width);
        self.pipelined = self.find_pipelined();
        let mut body = Block::new();
        let cut = Pieces {
            piece: self.param(piece as i64),
            pieces: self.param(pieces as i64),
            extent: self.param(extent as i64),
        };
        self.stages_of_row(&mut body, piece, &cut);
        let reductions: Vec<Reduction> = self.all_reductions();
        let two_phases = self.split || self.is_chunked();
        let rows_of_piece = by_panels.then(|| self.param(rows as i64));
        let main = if self.is_chunked() {
            self.chunk_loop(body, &cut)
        } else if let Some(rows) = rows_of_piece {
            self.panel_loop(body, &cut, rows)
        } else {
            self.row_loop(body, &cut)
        };
        let finish = two_phases.then(|| {
            let rows = self.param(rows as i64);
            match self.split {
                true => self.finish_rows(rows, &cut),
                false => self.chunk_finish(rows, &cut),
            }
        });
        let Printed { text, needs } = print(&self.functions(main, finish));
        let parts = support::parts(&needs);
        let out = |s: &usize| node.stores[*s].dtype.size() * rows * vector;
        // Where all that the kernel reads and writes is far more than the cache, little of a result is left of it there.
        let written: usize = needed.iter().map(out).sum();
        let crowded = self.read_bytes() + written * walked.max(1) > target.crowd;
        let least = if crowded {
            target.stream / 4
        } else {
            target.stream
        };
        for (_, id, wanted) in &mut self.streams {
            let bytes = needed
                .iter()
                .filter(|&&s| node.stores[s].node == *id)
                .map(out)
                .max()
                .unwrap_or(0);
            *wanted = bytes * walked.max(1) > least && !node.feeds;
        }
        let in_place = self.in_place(needed);
        let position = |name: Name| match name {
            Name::Param(i) => Some(i as usize),
            _ => None,
        };
        let passing = match node.product {
            Some(product) => Some(Pointer::Read(Source::Node(product.node))),
            None => (node.feeds).then(|| Pointer::Write(node.stores[0].node)),
        };
        let panels = passing.and_then(|pointer| {
            Some(Panels {
                pointer: self.pointers.iter().position(|p| *p == pointer)?,
                pitch: position(self.pitch?)?,
                piece: position(cut.piece)?,
                pieces: position(cut.pieces)?,
            })
        });
        Emitted {
            products: 0,
            panels,
            before: Vec::new(),
            walks,
            in_place,
            updates: update::overwrites(self.node, needed),
            source: KernelSource {
                parts,
                body: text.into(),
                finish: two_phases,
            },
            pointers: self.pointers,
            params: self.params,
            streams: self.streams,
            numbers: node.body.numbers().to_vec(),
            chunks: if rows * vector * walked == 0 {
                0
            } else {
                units * pieces * chunk_count
            },
            scratch: match self.chunks {
                Some(chunks) => units * pieces * chunks.count * chunks.bytes,
                None if self.split => rows * pieces * reductions.len() * 16,
                None => 0,
            },
            local,
            grid: ferrotrace_runtime::Grid::default(),
            loops: self
                .stages
                .loops
                .iter()
                .filter(|l| !l.compute.is_empty() || !l.stores.is_empty())
                .count(),
            node: node.clone(),
        }
    }

    /// The functions of the kernel.
    fn functions(&mut self, mut main: Block, finish: Option<Block>) -> Kernel {
        let lanes = self.lanes as u16;
        if !self.streams.is_empty() {
            main.push(Stmt::Call(Expr::call(ir::Function::Fence(lanes), [])));
        }
        let mut functions = std::mem::take(&mut self.outlines);
        let work = (Role::Work, main);
        let all = [work].into_iter().chain(finish.map(|f| (Role::Finish, f)));
        functions.extend(all.map(|(role, block)| ir::Body { role, block }));
        let kernel = Kernel {
            launch: Launch::default(),
            arguments: self.arguments(),
            lanes,
            functions,
        };
        debug_assert_eq!(ir::verify(&kernel), Ok(()), "{kernel}");
        kernel
    }

    pub(super) fn all_reductions(&self) -> Vec<Reduction> {
        self.stages
            .loops
            .iter()
            .flat_map(|l| &l.reduces)
            .map(|&r| self.reduction(r))
            .collect()
    }
}
