//! A fused node as one C function: rows in parallel, and for each row its stages.
//!
//! Two shapes. **Inner**: the vector axis is the last column variable; a row's reductions keep vector accumulators,
//! combined at the end of the row. **Outer**: the vector axis is the last row variable, a block of which is worked on
//! at once while the columns (there a strided reduction) are walked; accumulators and row values are arrays of vectors.

use super::chunks::{Chunks, PANEL};
use super::index::Index;
use super::lanes::{differ, lanes, prefers_outer};
use super::merge::merge_loops;
use super::reciprocal::use_reciprocals;
use super::reduce::Reduction;
use super::stage::{Stages, stages};
use super::tile::{self, Tile};
use super::value::{At, lane_type, memory_type};
use super::{Emitted, Machine, Pointer, moments};
use crate::body::{BodyOp, MaskId, Source, Value};
use crate::expr::Var;
use crate::lower::Limits;
use crate::schedule::{FusedNode, Moment};
use ferrotrace_kernels::ValueId;
use ferrotrace_kernels::support::{self, Need};
use ferrotrace_runtime::{DType, KernelSource, Part};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Elements of a piece of a long row of a kernel without reductions.
const PIECE: usize = 1 << 14;
/// Elements of a chunk of a split reduction.
const CHUNK: usize = 1 << 16;
/// Accumulators of a light reduction loop.
pub(super) const UNROLL: usize = 4;
/// Most columns of a block of an outer reduction.
pub(super) const BLOCK: usize = 512;

/// How the rows are cut into units of work: names of arguments.
pub(super) struct Pieces {
    /// Length of a piece.
    pub piece: String,
    /// Pieces of a row.
    pub pieces: String,
    /// Length of the row along what is cut.
    pub extent: String,
}

/// The state of writing one kernel.
pub(super) struct Writer<'a> {
    pub node: &'a FusedNode,
    pub lanes: usize,
    /// Which values differ between the lanes.
    pub differ: Vec<bool>,
    pub needs: BTreeSet<Need>,
    /// Printed indices of loads, index values and random values.
    pub indices: FxHashMap<Value, Index>,
    pub masks: FxHashMap<MaskId, Vec<Index>>,
    /// Whether an index is checked.
    pub reports: bool,
    pub stages: Stages,
    pub extents: Vec<usize>,
    pub outer: bool,
    pub split: bool,
    /// The chunks of an outer kernel's columns.
    pub chunks: Option<Chunks>,
    /// Reductions about a mean of a split row.
    pub moments: Vec<Moment>,
    pub store_indices: FxHashMap<usize, Index>,
    pub params: Vec<i64>,
    pub pointers: Vec<Pointer>,
    pub pointer_types: Vec<DType>,
    pub preamble: String,
    pub bases: usize,
    pub streams: Vec<(usize, ValueId, bool)>,
    pub scratch_rows: Vec<(Value, usize)>,
    pub block: usize,
    /// Whether positions in the loop being written are kept as numbers of vectors.
    pub counting: bool,
    /// Addresses to prefetch in the loop being written.
    pub ahead: Vec<String>,
    /// Loads that read a staging array, and its name.
    pub staged: FxHashMap<Value, String>,
    /// The tile the rows are walked in.
    pub tile: Option<Tile>,
}

/// Writes the kernel of a fused node. `stored` are the nodes whose values must be written.
pub fn emit(
    fused: &FusedNode,
    stored: &FxHashSet<ValueId>,
    limits: &Limits,
    machine: &Machine,
) -> Emitted {
    let mut node = merge_loops(fused.clone());
    if node.red.is_empty() {
        // Without columns the last row variable is the vector axis.
        node.red = vec![node.iter.pop().unwrap_or(1)];
    }
    let split = node.is_split(limits);
    let outer = !split && prefers_outer(&node);
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
    let lanes = lanes(&node, &stages, &differ, machine);
    let moments = if split {
        node.moments().unwrap_or_default()
    } else {
        Vec::new()
    };
    let extents = node.extents();
    let writer = Writer {
        node: &node,
        lanes,
        differ,
        needs: BTreeSet::new(),
        indices: FxHashMap::default(),
        masks: FxHashMap::default(),
        reports: false,
        stages,
        extents,
        outer,
        split,
        chunks: None,
        moments,
        store_indices: FxHashMap::default(),
        params: Vec::new(),
        pointers: Vec::new(),
        pointer_types: Vec::new(),
        preamble: String::new(),
        bases: 0,
        streams: Vec::new(),
        scratch_rows: Vec::new(),
        block: 1,
        counting: false,
        ahead: Vec::new(),
        staged: FxHashMap::default(),
        tile: None,
    };
    writer.kernel(&needed, machine)
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
    pub(super) fn param(&mut self, value: i64) -> String {
        self.params.push(value);
        format!("P{}", self.params.len() - 1)
    }

    pub(super) fn next_base(&mut self) -> usize {
        self.bases += 1;
        self.bases - 1
    }

    /// Adds a line to what is computed at the start of a row.
    pub(super) fn row_line(&mut self, line: &str) {
        let _ = writeln!(self.preamble, "    {line}");
    }

    /// The name of the pointer to a buffer.
    pub(super) fn pointer(&mut self, source: Source) -> String {
        let at = self
            .pointers
            .iter()
            .position(|p| *p == Pointer::Read(source));
        format!("p{}", at.unwrap_or_default())
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

    pub(super) fn kernel(mut self, needed: &[usize], machine: &Machine) -> Emitted {
        let node = self.node;
        self.collect_pointers(needed);
        self.print_indices(needed);
        self.tile = self.find_tile();
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
        let chunk_count = self.chunks.map_or(1, |c| c.count);
        let pure = !node.reduces() && self.stages.row_stores.iter().all(Vec::is_empty);
        // Pieces of a row, by sizes alone.
        let walked: usize = self
            .walked_vars()
            .iter()
            .map(|&v| self.extents[v])
            .product();
        let split_extent = if self.walked_vars().is_empty() {
            vector
        } else {
            self.extents[self.walked_vars()[0]]
        };
        let (piece, pieces) = if self.tile.is_some() {
            (tile::PIECE, vector.div_ceil(tile::PIECE))
        } else if self.split {
            let per = cols / split_extent.max(1);
            let elements = if self.moments.is_empty() {
                CHUNK
            } else {
                moments::BYTES / 4
            };
            let piece = (elements / per.max(1))
                .max(1)
                .next_multiple_of(if self.walked_vars().is_empty() { 64 } else { 1 });
            (piece, split_extent.div_ceil(piece))
        } else if self.chunks.is_some() {
            let piece = vector.min(PANEL).next_multiple_of(self.lanes);
            (piece, vector.div_ceil(piece))
        } else if self.outer {
            let saved = self.stages.saved.len() * cols * 4;
            let fit = if saved == 0 {
                BLOCK
            } else {
                (machine.l2 / 4 / saved.max(1)).clamp(self.lanes, BLOCK)
            };
            // Enough units for the threads, by other rows or by pieces of this one.
            let spread = vector
                .div_ceil(8usize.div_ceil(rows.max(1)))
                .max(self.lanes);
            let piece = fit.min(spread).next_multiple_of(self.lanes);
            (piece, vector.div_ceil(piece))
        } else if pure && walked == 1 && vector > 2 * PIECE {
            (PIECE, vector.div_ceil(PIECE))
        } else {
            (vector.max(1), 1)
        };
        let width = if self.outer { piece } else { 1 };
        self.block = width;
        let local = self.local_layout(cols, width);
        let mut body = String::new();
        let cut = Pieces {
            piece: self.param(piece as i64),
            pieces: self.param(pieces as i64),
            extent: self.param(if self.outer { vector } else { split_extent } as i64),
        };
        self.stage_text(&mut body, piece, &cut);
        let reductions: Vec<Reduction> = self.all_reductions();
        let (mut main, mut finish) = (String::new(), String::new());
        let two_phases = self.split || self.is_chunked();
        if self.is_chunked() {
            self.chunk_loop(&mut main, &body, &cut);
        } else {
            self.row_loop(&mut main, &body, &cut);
        }
        if two_phases {
            let rows_param = self.param(rows as i64);
            if self.split {
                self.finish_text(&mut finish, &rows_param, &cut);
            } else {
                self.chunk_finish(&mut finish, &rows_param, &cut);
            }
        }
        let head = self.head();
        let mut text = String::new();
        text.push_str(INTEGERS);
        if self.reports {
            text.push_str(REPORT);
        }
        let _ = write!(
            text,
            "void FT_SYMBOL(const ft_args *a, long long begin, long long end, char *local) {{\n{head}{main}"
        );
        if !self.streams.is_empty() {
            self.needs.insert(support::need("ft_fence", self.lanes));
            let _ = writeln!(text, "  ft_fencex{}();", self.lanes);
        }
        text.push_str("}\n");
        if two_phases {
            let _ = write!(
                text,
                "void FT_SYMBOL_finish(const ft_args *a, char *local) {{\n{head}{finish}}}\n"
            );
        }
        let part = |p: support::Part| Part {
            order: p.order,
            text: p.text,
        };
        let parts = support::parts(&self.needs).into_iter().map(part).collect();
        let out = |s: &usize| node.stores[*s].dtype.size() * rows * vector;
        for (_, id, wanted) in &mut self.streams {
            let bytes = needed
                .iter()
                .filter(|&&s| node.stores[s].node == *id)
                .map(out)
                .max()
                .unwrap_or(0);
            *wanted = bytes * walked.max(1) > machine.stream;
        }
        let in_place = self.in_place(needed);
        Emitted {
            in_place,
            source: KernelSource {
                parts,
                body: text,
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

    /// Pairs (node written, buffer read) that may share memory: every load of the buffer is of the very element that
    /// is stored, and none comes in a later loop (scheduler B-08, B-10, B-11).
    pub(super) fn in_place(&self, needed: &[usize]) -> Vec<(ValueId, Source)> {
        let mut pairs = Vec::new();
        for &s in needed {
            let store = &self.node.stores[s];
            let Some(at) = self.stages.loops.iter().position(|l| l.stores.contains(&s)) else {
                continue;
            };
            for pointer in &self.pointers {
                let Pointer::Read(source) = *pointer else {
                    continue;
                };
                let fits = self
                    .computed()
                    .iter()
                    .all(|&v| match &self.node.body.value(v).op {
                        BodyOp::Load {
                            source: from,
                            dtype,
                            index,
                            mask,
                        } if *from == source => {
                            let late = self.stages.loops[at + 1..]
                                .iter()
                                .any(|l| l.compute.contains(&v));
                            let in_row = self.stages.row.iter().flatten().any(|&x| x == v);
                            *index == store.index
                                && mask.is_none()
                                && dtype.size() == store.dtype.size()
                                && !late
                                && !in_row
                        }
                        _ => true,
                    });
                if fits {
                    pairs.push((store.node, source));
                }
            }
        }
        pairs
    }

    pub(super) fn computed(&self) -> Vec<Value> {
        let mut all: Vec<Value> = self.stages.row.iter().flatten().copied().collect();
        all.extend(self.stages.loops.iter().flat_map(|l| &l.compute));
        all.sort_unstable();
        all.dedup();
        all
    }

    pub(super) fn collect_pointers(&mut self, needed: &[usize]) {
        for v in self.computed() {
            if let BodyOp::Load { source, dtype, .. } = self.node.body.value(v).op
                && !self.pointers.contains(&Pointer::Read(source))
            {
                self.pointers.push(Pointer::Read(source));
                self.pointer_types.push(dtype);
            }
        }
        for &s in needed {
            self.pointers.push(Pointer::Write(self.node.stores[s].node));
            self.pointer_types.push(self.node.stores[s].dtype);
        }
    }

    pub(super) fn print_indices(&mut self, needed: &[usize]) {
        for v in self.computed() {
            let node = self.node;
            let (index, mask) = match &node.body.value(v).op {
                BodyOp::Load { index, mask, .. } => (Some(index), *mask),
                BodyOp::Index(e) => (Some(e), None),
                BodyOp::Random { index, .. } => (Some(index), None),
                BodyOp::Mask(m) => (None, Some(*m)),
                BodyOp::Check { mask, .. } => (None, *mask),
                _ => (None, None),
            };
            if let Some(e) = index {
                let printed = self.index(e);
                self.indices.insert(v, printed);
            }
            if let Some(m) = mask
                && !self.masks.contains_key(&m)
            {
                let printed = node.body.mask(m).iter().map(|e| self.index(e)).collect();
                self.masks.insert(m, printed);
            }
        }
        for &s in needed {
            let printed = self.index(&self.node.stores[s].index.clone());
            self.store_indices.insert(s, printed);
        }
    }

    pub(super) fn all_reductions(&self) -> Vec<Reduction> {
        self.stages
            .loops
            .iter()
            .flat_map(|l| &l.reduces)
            .map(|&r| self.reduction(r))
            .collect()
    }

    /// Places of scratch rows (and, outer, of accumulators and row values) in a thread's memory; its size.
    pub(super) fn local_layout(&mut self, cols: usize, width: usize) -> usize {
        let mut at = 0usize;
        let lane = |d: DType| {
            if d == DType::Bool {
                4
            } else {
                d.compute().size()
            }
        };
        for v in self.stages.saved.clone() {
            let elements = (cols * width).next_multiple_of(self.lanes) + self.lanes;
            self.scratch_rows.push((v, at));
            at += (elements * lane(self.node.body.value(v).dtype)).next_multiple_of(64);
        }
        at
    }

    pub(super) fn scratch_row(&mut self, v: Value) -> String {
        let at = self
            .scratch_rows
            .iter()
            .find(|r| r.0 == v)
            .map_or(0, |r| r.1);
        self.param(at as i64)
    }

    /// Constants at the start of a function: arguments by name.
    pub(super) fn head(&mut self) -> String {
        let mut text = String::new();
        for i in 0..self.params.len() {
            let _ = writeln!(text, "  const long long P{i} = a->param[{i}];");
        }
        for (i, (pointer, dtype)) in self.pointers.iter().zip(&self.pointer_types).enumerate() {
            let qualifier = if matches!(pointer, Pointer::Read(_)) {
                "const "
            } else {
                ""
            };
            let ty = memory_type(*dtype);
            let _ = writeln!(
                text,
                "  {qualifier}{ty} *p{i} = ({qualifier}{ty} *)a->ptr[{i}];"
            );
        }
        for (i, number) in self.node.body.numbers().to_vec().iter().enumerate() {
            let dtype = number.dtype.compute();
            let value = format!("*(const {} *)&a->scalar[{i}]", lane_type(dtype));
            let set = self.call("set", dtype, &[&value]);
            let _ = writeln!(text, "  const {} s{i} = {set};", self.vector(dtype));
        }
        text
    }

    /// The loop over units of work: (row, piece of it).
    pub(super) fn row_loop(&mut self, out: &mut String, body: &str, cut: &Pieces) {
        let Pieces {
            piece,
            pieces,
            extent,
        } = cut;
        let _ = writeln!(out, "  for (long long u = begin; u < end; u++) {{");
        let _ = writeln!(
            out,
            "    long long row = u / {pieces}; const long long lo = u % {pieces} * {piece};"
        );
        let _ = writeln!(
            out,
            "    const long long hi = ft_min(lo + {piece}, {extent}); (void)hi;"
        );
        self.decode_row(out);
        match self.tile.clone() {
            Some(tile) => self.tile_text(out, &tile, body),
            None => {
                out.push_str(&self.preamble);
                out.push_str(body);
            }
        }
        out.push_str("  }\n");
    }

    pub(super) fn decode_row(&mut self, out: &mut String) {
        let vars = self.row_vars();
        for (k, &v) in vars.iter().enumerate().rev() {
            if let Some(tile) = self.tile.clone().filter(|t| t.row == v) {
                self.decode_tile(out, &tile, k == 0);
            } else if k == 0 {
                let _ = writeln!(out, "    const long long i{v} = row;");
            } else {
                let n = self.param(self.extents[v] as i64);
                let _ = writeln!(out, "    const long long i{v} = row % {n}; row /= {n};");
            }
        }
    }

    /// All stages of a row, or of a piece of `piece` columns of it.
    fn stage_text(&mut self, out: &mut String, piece: usize, cut: &Pieces) {
        if self.outer {
            self.outer_stages(out, cut);
            return;
        }
        for s in 0..self.stages.loops.len() {
            if !self.split || s == 0 {
                self.row_stage(out, s, !self.split);
            } else if s == 1 && !self.moments.is_empty() {
                self.piece_means(out);
            } else {
                break;
            }
            let l = self.stages.loops[s].clone();
            if !l.reduces.is_empty() || !l.stores.is_empty() {
                match (s, self.split) {
                    (1, true) => self.next_piece(piece),
                    (1, false) => self.look_ahead(),
                    (0, false) => self.next_tile(),
                    _ => {}
                }
                self.inner_loop(out, &l);
                self.ahead.clear();
            }
        }
    }

    /// A row's values of one stage, uniform over the lanes, and the stores of such.
    pub(super) fn row_stage(&mut self, out: &mut String, s: usize, stores: bool) {
        let at = At {
            position: "0",
            lanes: None,
            indent: 4,
        };
        for v in self.stages.row[s].clone() {
            let text = self.statement(v, at);
            out.push_str(&text);
        }
        if stores {
            for store in self.stages.row_stores[s].clone() {
                let text = self.store(
                    store,
                    At {
                        lanes: Some("1"),
                        ..at
                    },
                );
                out.push_str(&text);
            }
        }
    }
}

/// Integer helpers of every kernel.
const INTEGERS: &str = "\
#ifndef FT_INTEGERS
#define FT_INTEGERS
FT_INLINE long long ft_min(long long a, long long b) { return a < b ? a : b; }
FT_INLINE long long ft_max(long long a, long long b) { return a > b ? a : b; }
FT_INLINE long long ft_floor_div(long long a, long long b) { return a / b - (a % b < 0); }
FT_INLINE long long ft_floor_mod(long long a, long long b) { long long r = a % b; return r < 0 ? r + b : r; }
#endif
";

/// The check of an index: wraps it once, reports it if it is out of range, and gives one that is in range.
const REPORT: &str = "\
#ifndef FT_REPORT
#define FT_REPORT
static long ft_index(const ft_args *a, long i, long long size, long long site) {
  long at = i < 0 ? i + size : i;
  if (at >= 0 && at < size) return at;
  long long none = 0;
  __atomic_store_n(&a->fault[1], (long long)i, __ATOMIC_RELAXED);
  __atomic_compare_exchange_n(&a->fault[0], &none, site, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
  return 0;
}
#endif
";
