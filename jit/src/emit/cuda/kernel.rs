//! A fused node as one CUDA kernel.
//!
//! Columns are counted in chunks: as many consecutive elements along the last column variable as a thread works on at
//! once, which is what one 16-byte access holds. Three forms. **Pointwise**: a thread a chunk. **Inner**: a warp or a
//! block a row; its threads take chunks by turns, stage by stage, and combine what they reduced. **Outer**, for strided
//! columns of contiguous rows: a block works on rows side by side, its groups of threads take columns by turns.
//! Reductions of few rows are split into pieces of their columns, whose results a second kernel combines.

use super::Emitted;
use super::index::Index;
use super::linked;
use super::online::{self, Online};
use super::reduce::{Reduction, SLOT};
use super::scan::{self, Pass};
use super::shape::{self, Shape};
use super::stage::{Loop, Stages, stages};
use super::text;
use super::value::{self, At};
use crate::body::{MaskId, Source, Value};
use crate::emit::Pointer;
use crate::emit::merge::merge_loops;
use crate::emit::reciprocal::use_reciprocals;
use crate::expr::Var;
use crate::schedule::{FusedNode, Moment};
use ferrotrace_kernels::ValueId;
use ferrotrace_kernels::support::{self, Need, SCALAR};
use ferrotrace_runtime::{DType, Grid, KernelSource, Part};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A kernel's name before it has one.
pub(super) const NAME: &str = "FT_SYMBOL";
/// What a kernel of one set of arguments begins with.
pub(super) const ENTRY: &str =
    "const __grid_constant__ FT_SYMBOL_args a) {\n  const unsigned ft_block = blockIdx.x;\n";
/// Loops of up to this many values are bound by memory alone.
const LIGHT: usize = 12;
/// Rows of more chunks a thread that are only reduced are not worth the registers that hold them.
const FEW_TURNS: usize = 4;

/// What divides 32-bit numbers from 0 to 2³¹ − 1 by `d`: `n / d = n · magic >> shift` (Granlund and Montgomery, 1994).
fn magic(d: i64) -> (i64, i64) {
    let d = d.clamp(1, i64::from(i32::MAX)) as u64;
    let shift = 31 + (64 - (d - 1).leading_zeros());
    (((1u64 << shift) / d + 1) as i64, i64::from(shift))
}

/// How threads are laid over rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A thread a chunk; nothing is reduced.
    Pointwise,
    /// A block a tile of rows and columns; nothing is reduced.
    Tiled,
    /// This many threads a row: a warp, or a block.
    Inner { threads: u32 },
    /// Blocks of this many rows and groups of threads.
    Outer { width: u32, groups: u32 },
}

/// The state of writing one kernel.
pub(super) struct Writer<'a> {
    pub node: &'a FusedNode,
    pub extents: Vec<usize>,
    pub stages: Stages,
    pub shape: Shape,
    /// Reductions about a mean that share the pass of the mean itself.
    pub moments: Vec<Moment>,
    /// Maxima and sums about them that share a pass.
    pub online: Vec<Online>,
    /// Whether anything is scanned.
    pub scans: bool,
    /// Chunks are written that are whole, of rows whose first and last are not.
    pub middle: bool,
    /// By value, whether an error far below that of a half type does not matter.
    pub coarse: Vec<bool>,
    /// By value, whether it varies within a row.
    pub inner: Vec<bool>,
    pub needs: BTreeSet<Need>,
    /// Printed indices of loads, index values and random values.
    pub indices: FxHashMap<Value, Index>,
    pub masks: FxHashMap<MaskId, Vec<Index>>,
    pub store_indices: FxHashMap<usize, Index>,
    /// Loads of a whole chunk by one access.
    pub whole: FxHashSet<Value>,
    /// A buffer whose elements of a chunk are at hand, as `given`, not yet rounded to their type.
    pub given: Option<Source>,
    /// Whether each element of its one store is given to a template instead, as `out`.
    pub gives: bool,
    /// How many numbers of other functions come before its own among the kernel's arguments.
    pub first_number: usize,
    /// Whether an index is checked.
    pub reports: bool,
    /// Whether the kernel that combines pieces is written.
    pub finishing: bool,
    /// Whether the folds of a scan's pieces are written, which are reductions.
    pub folding: bool,
    /// Whether nothing is stored: only indices are checked.
    pub silent: bool,
    pub params: Vec<i64>,
    /// Arguments by which something is divided: their positions in `params`.
    pub divisors: Vec<usize>,
    pub pointers: Vec<Pointer>,
    pub pointer_types: Vec<DType>,
    /// What is computed of a row's indices.
    pub preamble: String,
    pub bases: usize,
}

/// Writes the kernel of a fused node. `stored` are the nodes whose values must be written.
pub fn emit(fused: &FusedNode, stored: &FxHashSet<ValueId>) -> Emitted {
    let mut node = merge_loops(fused.clone());
    if node.red.is_empty() {
        // Without columns the last row variable is walked by chunks.
        node.red = vec![node.iter.pop().unwrap_or(1)];
    }
    let node = use_reciprocals(node);
    let needed: Vec<usize> = (0..node.stores.len())
        .filter(|&s| stored.contains(&node.stores[s].node))
        .collect();
    let mut stages = stages(&node, &needed);
    let mut shape = shape::of(&node, &stages, &needed, true);
    let mut moments = Vec::new();
    let scans = !stages.scans(&node).is_empty();
    // Rows in registers can be looked at again.
    if !scans
        && shape.turns == 0
        && let Some(found) = movable(&node, &stages, &needed)
    {
        stages.join();
        shape = shape::of(&node, &stages, &needed, false);
        moments = found;
    }
    let mut online = Vec::new();
    if !scans
        && (shape.turns == 0 || shape.turns > FEW_TURNS && stages.stores_nothing())
        && matches!(shape.form, Form::Inner { .. })
        && let Some(found) = online::find(&node, &stages)
    {
        stages.join_sums();
        shape = shape::of(&node, &stages, &needed, true);
        online = found;
    }
    let mut writer = Writer::new(&node, stages, shape);
    (writer.moments, writer.online, writer.scans) = (moments, online, scans);
    writer.coarse = value::coarse(&node);
    writer.kernel(&needed)
}

/// The sums about a mean of a node whose later loops compute nothing else, if all that moving them needs is computed.
fn movable(node: &FusedNode, stages: &Stages, needed: &[usize]) -> Option<Vec<Moment>> {
    let all = stages.reductions();
    let mut found = node.moments()?;
    found.retain(|m| all.contains(&m.reduce));
    let complete = |m: &Moment| all.contains(&m.sum) && all.contains(&m.plain);
    let may = !found.is_empty() && found.iter().all(complete);
    (may && (!node.exact || shape::is_split(node, stages, needed))).then_some(found)
}

impl<'a> Writer<'a> {
    /// A writer that has written nothing.
    pub(super) fn new(node: &'a FusedNode, stages: Stages, shape: Shape) -> Writer<'a> {
        Writer {
            node,
            extents: node.extents(),
            stages,
            shape,
            moments: Vec::new(),
            online: Vec::new(),
            scans: false,
            middle: false,
            coarse: vec![false; node.body.values().len()],
            inner: node.dependence().iter().map(|d| d.inner).collect(),
            needs: BTreeSet::from([support::need("types", SCALAR)]),
            indices: FxHashMap::default(),
            masks: FxHashMap::default(),
            store_indices: FxHashMap::default(),
            whole: FxHashSet::default(),
            given: None,
            gives: false,
            first_number: 0,
            reports: false,
            finishing: false,
            folding: false,
            silent: false,
            params: Vec::new(),
            divisors: Vec::new(),
            pointers: Vec::new(),
            pointer_types: Vec::new(),
            preamble: String::new(),
            bases: 0,
        }
    }
}

impl Writer<'_> {
    /// The variable along which a chunk's elements follow each other.
    pub(super) fn vector_var(&self) -> Var {
        Var(self.extents.len() as u32 - 1)
    }

    /// An integer argument with this value.
    pub(super) fn param(&mut self, value: i64) -> String {
        self.params.push(value);
        format!("P{}", self.params.len() - 1)
    }

    /// An integer argument to divide non-negative numbers by, and what 32-bit division by it takes.
    pub(super) fn divisor(&mut self, value: i64) -> String {
        let at = self.params.len();
        self.divisors.push(at);
        let (magic, shift) = magic(value);
        self.params.extend([value, magic, shift]);
        format!("D{at}")
    }

    /// The name of the pointer to a buffer.
    pub(super) fn pointer(&self, source: Source) -> String {
        let read = Pointer::Read(source);
        let at = self.pointers.iter().position(|p| *p == read);
        format!("p{}", at.unwrap_or_default())
    }

    pub(super) fn kernel(mut self, needed: &[usize]) -> Emitted {
        self.collect_pointers(needed);
        self.print_indices(needed);
        let Shape { form, split, .. } = self.shape.clone();
        let reductions: Vec<Reduction> = self
            .stages
            .reductions()
            .iter()
            .map(|&r| self.reduction(r))
            .collect();
        let (main, finish) = match (self.scans, split) {
            (true, None) => (self.scan_text(form, Pass::Whole), None),
            (true, Some(_)) if self.shape.linked => {
                let finish = self.scan_text(form, Pass::Linked);
                (self.clear_text(), Some(finish))
            }
            (true, Some(_)) => {
                let main = self.scan_text(form, Pass::Folds);
                (main, Some(self.scan_text(form, Pass::Pieces)))
            }
            (false, _) => {
                let main = self.main_text(form, split.is_some());
                (main, split.map(|_| self.finish_text(&reductions)))
            }
        };
        let in_place = self.in_place(needed);
        let head = self.head(&in_place);
        let mut body = String::new();
        self.structure(&mut body);
        let kernel = |out: &mut String, suffix: &str, bounds: String, text: &str| {
            let _ = writeln!(
                out,
                "extern \"C\" __global__ void __launch_bounds__({bounds}) {NAME}{suffix}({ENTRY}{head}  FT_AFTER;\n{text}}}"
            );
        };
        let threads = self.shape.threads;
        kernel(&mut body, "", threads.to_string(), &main);
        if let Some(finish) = &finish {
            let threads = self.shape.finish_threads.to_string();
            kernel(&mut body, "_finish", threads, finish);
        }
        let mut parts = support::parts(&self.needs);
        parts.push(Part {
            order: Part::BASE,
            text: text::helpers(self.narrow_indices()).into(),
        });
        let scans = [
            (self.scans, scan::HELPERS),
            (self.shape.linked, linked::HELPERS),
        ];
        parts.extend(scans.into_iter().filter(|s| s.0).map(|(_, text)| Part {
            order: Part::LAST,
            text: text.into(),
        }));
        let pieces = self.shape.pieces();
        let scratch = match split {
            Some(_) if self.shape.linked => self.linked_bytes(),
            Some(_) => self.node.rows() * pieces * self.put_in_slots().len() * SLOT,
            None => 0,
        };
        let working = |l: &&Loop| !l.compute.is_empty() || !l.stores.is_empty();
        Emitted {
            products: 0,
            source: KernelSource {
                parts,
                body: body.into(),
                finish: finish.is_some(),
            },
            updates: Vec::new(),
            in_place,
            pointers: self.pointers,
            params: self.params,
            streams: Vec::new(),
            numbers: self.node.body.numbers().to_vec(),
            chunks: self.shape.blocks,
            scratch,
            local: 0,
            grid: Grid {
                threads: self.shape.threads,
                finish_blocks: self.shape.finish_blocks,
                finish_threads: self.shape.finish_threads,
                reports: self.reports,
                ..Grid::default()
            },
            loops: self.stages.loops.iter().filter(working).count(),
            panels: None,
            walks: Vec::new(),
            before: Vec::new(),
            node: self.node.clone(),
        }
    }

    /// The kernel: its place, then every stage.
    fn main_text(&mut self, form: Form, split: bool) -> String {
        let mut out = String::new();
        let tile = self.shape.tile.clone();
        if let Some(tile) = &tile {
            self.place_tile(&mut out, tile);
            self.fill_tile(&mut out, tile);
        } else {
            self.place(&mut out, form, split);
            self.decode_row(&mut out);
        }
        let mut body = String::new();
        let writes = match form {
            Form::Pointwise => "c == 0",
            Form::Tiled => "c0 + tc == 0",
            Form::Inner { .. } => "t == 0",
            Form::Outer { .. } => "live && ty == 0",
        };
        for s in 0..self.stages.loops.len() {
            if split && s > 0 {
                break;
            }
            self.row_stage(&mut body, s, (!split).then_some(writes));
            if let (0, Form::Inner { threads }, 1..) = (s, form, self.shape.turns) {
                let loads = self.shape.kept.clone();
                self.keep(&mut body, threads, &loads);
            }
            let l = self.stages.loops[s].clone();
            if s == 1 && !self.moments.is_empty() {
                let moments: Vec<Reduction> = self
                    .moments
                    .iter()
                    .map(|m| self.reduction(m.reduce))
                    .collect();
                self.move_sums(&mut body, &moments, "v");
                self.gather(&mut body, &moments, 1, &form);
                for r in &moments {
                    self.finished(&mut body, r);
                }
                continue;
            }
            if l.reduces.is_empty() && l.stores.is_empty() {
                continue;
            }
            let reductions: Vec<Reduction> = l.reduces.iter().map(|&r| self.reduction(r)).collect();
            self.declare_shifts(&mut body);
            let alone = match s {
                0 => self.single(&reductions),
                _ => reductions.clone(),
            };
            for r in &alone {
                self.declare_accumulators(&mut body, r, self.shape.lanes);
            }
            let mut long = self.long(&alone);
            if s == 0 {
                self.declare_pairs(&mut body);
                long.extend(self.long(&self.paired(&reductions)));
            }
            let chunk = match self.shape.shifted.is_some() && self.shape.turns == 0 {
                true => String::new(),
                false => self.chunk(s, &alone),
            };
            match form {
                Form::Pointwise | Form::Tiled => body.push_str(&chunk),
                Form::Inner { threads } if self.shape.turns > 0 => {
                    body.push_str(&self.turns(threads, &chunk));
                }
                Form::Inner { threads } if self.shape.shifted.is_some() => {
                    let of = |w: &mut Self, chunk: &str| w.walk(s, threads, chunk, &long);
                    let text = self.with_edges(s, &alone, of);
                    body.push_str(&text);
                }
                Form::Inner { threads } => {
                    let text = self.walk(s, threads, &chunk, &long);
                    body.push_str(&text);
                }
                Form::Outer { groups, .. } => {
                    let parts = ("  #pragma unroll 8\n", &*chunk);
                    let text = self.in_runs(&long, ("lo + ty", groups as usize), parts);
                    body.push_str(&text);
                }
            }
            let (moments, plain) = self.parted(&alone);
            self.gather(&mut body, &plain, self.shape.lanes, &form);
            if s == 0 {
                self.gather_pairs(&mut body, &form);
            }
            if split {
                if !moments.is_empty() {
                    self.piece_means(&mut body);
                    self.move_sums(&mut body, &moments, "e");
                    self.gather(&mut body, &moments, 1, &form);
                }
                for r in &reductions {
                    self.put(&mut body, r, writes);
                }
            } else {
                for r in reductions
                    .iter()
                    .filter(|r| !moments.iter().any(|m| m.id == r.id))
                {
                    self.finished(&mut body, r);
                }
            }
        }
        if let Some(tile) = &tile {
            self.tile_text(&mut out, tile, &body);
            return out;
        }
        out.push_str(&self.preamble);
        out.push_str(&body);
        out
    }

    /// A loop over the chunks of a row that a thread does not keep.
    fn walk(&mut self, s: usize, threads: u32, chunk: &str, long: &[(Reduction, usize)]) -> String {
        let l = self.stages.loops[s].clone();
        let mut out = String::new();
        if self.shape.batch == 0 {
            // Several loads in flight where nothing but memory takes time.
            let unroll = match l.stores.is_empty() && l.compute.len() <= LIGHT {
                true => "  #pragma unroll 4\n",
                false => "",
            };
            return self.in_runs(long, ("lo + t", threads as usize), (unroll, chunk));
        }
        let step = self.shape.batch * threads as usize;
        out.push_str(if long.is_empty() {
            "  {\n"
        } else {
            "  {\n  int taken = 0;\n"
        });
        let _ = match s {
            0 => writeln!(
                out,
                "  for (ft_int base = lo + t; base < hi; base += {step}) {{"
            ),
            // What was read last is still near.
            _ => writeln!(
                out,
                "  for (ft_int base = lo + t + (hi - lo - 1) / {step} * {step}; base >= lo + t; base -= {step}) {{"
            ),
        };
        self.keep(&mut out, threads, &l.compute);
        out.push_str(&self.turns(threads, chunk));
        out.push_str(&self.after_chunks(long, self.shape.batch));
        out.push_str("  }\n  }\n");
        out
    }

    /// Which row and which chunks are this thread's.
    pub(super) fn place(&mut self, out: &mut String, form: Form, split: bool) {
        let (row_count, chunk_count) = (self.node.rows() as i64, self.shape.chunks as i64);
        let threads = self.shape.threads;
        if form == Form::Pointwise {
            let units = self.param(row_count.saturating_mul(chunk_count));
            let _ = writeln!(
                out,
                "  const ft_int u = (ft_int)ft_block * {threads} + (ft_int)threadIdx.x;\n  if (u >= {units}) return;"
            );
            if row_count == 1 {
                out.push_str("  const ft_int c = u;\n");
            } else {
                let chunks = self.divisor(chunk_count);
                let _ = writeln!(out, "  const ft_int row = u / {chunks}, c = u % {chunks};");
            }
            return;
        }
        let rows = self.param(row_count);
        let chunks = self.param(chunk_count);
        let block = match self.shape.linked {
            true => {
                out.push_str("  const unsigned drawn = ft_draw(a.scratch);\n");
                "drawn"
            }
            false => "ft_block",
        };
        let pieces = match split {
            true => {
                let pieces = self.divisor(self.shape.pieces() as i64);
                let per = self.param(self.shape.per_piece() as i64);
                let _ = writeln!(
                    out,
                    "  const ft_int pieces = {pieces}.n, piece = (ft_int){block} % {pieces}, block = (ft_int){block} / {pieces};\n  \
                     const ft_int lo = piece * {per}, end = ft_least(lo + {per}, {chunks});"
                );
                true
            }
            false => {
                let _ = writeln!(
                    out,
                    "  const ft_int block = (ft_int)ft_block, lo = 0, end = {chunks};"
                );
                false
            }
        };
        let _ = match form {
            Form::Pointwise | Form::Tiled => Ok(()),
            Form::Inner { threads: 32 } if !pieces => writeln!(
                out,
                "  const ft_int row = block * {} + ((int)threadIdx.x >> 5), hi = end;\n  if (row >= {rows}) return;\n  \
                 const int t = threadIdx.x & 31;",
                threads / 32
            ),
            Form::Inner { .. } => writeln!(
                out,
                "  const ft_int row = block, hi = end; const int t = threadIdx.x;"
            ),
            Form::Outer { width, .. } => writeln!(
                out,
                "  const int tx = threadIdx.x % {width}, ty = threadIdx.x / {width};\n  \
                 const bool live = block * {width} + tx < {rows};\n  \
                 const ft_int row = live ? block * {width} + tx : {rows} - 1, hi = {};",
                // All threads of a block meet at the barriers of a scan.
                if self.scans { "end" } else { "live ? end : lo" }
            ),
        };
    }

    pub(super) fn decode_row(&mut self, out: &mut String) {
        let rows = self.node.iter.len();
        if rows == 0 {
            return;
        }
        if self.node.rows() == 1 {
            for v in 0..rows {
                let _ = writeln!(out, "  const ft_int i{v} = 0;");
            }
            return;
        }
        out.push_str("  ft_int rest = row;\n");
        for v in (1..rows).rev() {
            let n = self.divisor(self.extents[v] as i64);
            let _ = writeln!(out, "  const ft_int i{v} = rest % {n}; rest = rest / {n};");
        }
        out.push_str("  const ft_int i0 = rest;\n");
    }

    /// A row's values of one stage, and its stores of such where `writes` holds.
    pub(super) fn row_stage(&mut self, out: &mut String, s: usize, writes: Option<&str>) {
        let at = At {
            position: "0",
            guard: None,
            pad: "  ",
        };
        for v in self.stages.row[s].clone() {
            let text = self.statement(v, at);
            out.push_str(&text);
        }
        let Some(writes) = writes.filter(|_| !self.silent) else {
            return;
        };
        for store in self.stages.row_stores[s].clone() {
            let (value, dtype) = (self.node.stores[store].value, self.node.stores[store].dtype);
            let element = self.narrow(dtype, &format!("v{value}"));
            let place = self.stored_at(store, "0");
            let _ = writeln!(out, "  if ({writes}) {place} = {element};");
        }
    }

    /// The second kernel of a split reduction: each row's partial results in order, then what follows for it.
    fn finish_text(&mut self, reductions: &[Reduction]) -> String {
        self.finishing = true;
        let (rows, pieces) = (self.node.rows(), self.shape.pieces());
        let (rows, pieces) = (self.param(rows as i64), self.param(pieces as i64));
        let (per_row, threads) = (self.shape.finish_per_row, self.shape.finish_threads);
        let mut out = String::new();
        let _ = writeln!(
            out,
            "  const ft_int pieces = {pieces}, row = (ft_int)ft_block * {} + (ft_int)threadIdx.x / {per_row};\n  \
             if (row >= {rows}) return;\n  const int t = threadIdx.x % {per_row};",
            threads / per_row
        );
        self.decode_row(&mut out);
        let mut body = String::new();
        self.row_stage(&mut body, 0, Some("t == 0"));
        for r in reductions {
            self.declare_accumulators(&mut body, r, 1);
        }
        let _ = writeln!(body, "  for (ft_int c = t; c < pieces; c += {per_row}) {{");
        let (moments, plain) = self.parted(reductions);
        for r in &plain {
            self.take(&mut body, r);
        }
        body.push_str("  }\n");
        let form = Form::Inner { threads: per_row };
        self.gather(&mut body, &plain, 1, &form);
        for r in &plain {
            self.finished(&mut body, r);
        }
        let mut next = 1;
        if !moments.is_empty() {
            self.row_stage(&mut body, 1, Some("t == 0"));
            let _ = writeln!(body, "  for (ft_int c = t; c < pieces; c += {per_row}) {{");
            self.take_moments(&mut body);
            body.push_str("  }\n");
            self.gather(&mut body, &moments, 1, &form);
            for r in &moments {
                self.finished(&mut body, r);
            }
            next = 2;
        }
        for s in next..self.stages.row.len() {
            self.row_stage(&mut body, s, Some("t == 0"));
        }
        out.push_str(&self.preamble);
        out.push_str(&body);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::magic;

    #[test]
    fn divides_by_a_product() {
        let ends = |d: u64| [0, 1, d - 1, d, d + 1, 2 * d - 1, 2 * d];
        let most = (1u64 << 31) - 1;
        let powers = (0..31).flat_map(|k| [(1u64 << k) - 1, 1 << k, (1 << k) + 1]);
        for d in powers.chain([3, 7, 641, 65_537, 1_000_003, most - 1, most]) {
            let d = d.clamp(1, most);
            let (m, s) = magic(d as i64);
            assert!(m < 1 << 32 && s < 63, "{d}");
            let tops = [most - most % d, (most - most % d).saturating_sub(1), most];
            for n in ends(d).into_iter().chain(tops).filter(|&n| n <= most) {
                assert_eq!((n * m as u64) >> s, n / d, "{n} / {d}");
            }
        }
    }
}
