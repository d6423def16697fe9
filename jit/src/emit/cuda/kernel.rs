//! A fused node as one CUDA kernel.
//!
//! Columns are counted in chunks: as many consecutive elements along the last column variable as a thread works on at
//! once, which is what one 16-byte access holds. Three forms. **Pointwise**: a thread a chunk. **Inner**: a warp or a
//! block a row; its threads take chunks by turns, stage by stage, and combine what they reduced. **Outer**, for strided
//! columns of contiguous rows: a block works on rows side by side, its groups of threads take columns by turns.
//! Reductions of few rows are split into pieces of their columns, whose results a second kernel combines.

use super::Emitted;
use super::index::Index;
use super::reduce::{Reduction, SLOT};
use super::shape::{self, Shape};
use super::stage::{Loop, Stages, stages};
use super::text;
use super::value::At;
use crate::body::{MaskId, Source, Value};
use crate::emit::Pointer;
use crate::emit::merge::merge_loops;
use crate::emit::reciprocal::use_reciprocals;
use crate::expr::Var;
use crate::schedule::FusedNode;
use ferrotrace_kernels::ValueId;
use ferrotrace_kernels::support::{self, Need, SCALAR};
use ferrotrace_runtime::{DType, Grid, KernelSource, Part};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Loops of up to this many values are bound by memory alone.
const LIGHT: usize = 12;

/// How threads are laid over rows and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A thread a chunk; nothing is reduced.
    Pointwise,
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
    pub needs: BTreeSet<Need>,
    /// Printed indices of loads, index values and random values.
    pub indices: FxHashMap<Value, Index>,
    pub masks: FxHashMap<MaskId, Vec<Index>>,
    pub store_indices: FxHashMap<usize, Index>,
    /// Loads of a whole chunk by one access.
    pub whole: FxHashSet<Value>,
    /// Whether an index is checked.
    pub reports: bool,
    pub params: Vec<i64>,
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
    let stages = stages(&node, &needed);
    let extents = node.extents();
    let shape = shape::of(&node, &stages, &needed);
    let writer = Writer {
        node: &node,
        extents,
        stages,
        shape,
        needs: BTreeSet::from([support::need("types", SCALAR)]),
        indices: FxHashMap::default(),
        masks: FxHashMap::default(),
        store_indices: FxHashMap::default(),
        whole: FxHashSet::default(),
        reports: false,
        params: Vec::new(),
        pointers: Vec::new(),
        pointer_types: Vec::new(),
        preamble: String::new(),
        bases: 0,
    };
    writer.kernel(&needed)
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

    /// The name of the pointer to a buffer.
    pub(super) fn pointer(&self, source: Source) -> String {
        let read = Pointer::Read(source);
        let at = self.pointers.iter().position(|p| *p == read);
        format!("p{}", at.unwrap_or_default())
    }

    fn kernel(mut self, needed: &[usize]) -> Emitted {
        self.collect_pointers(needed);
        self.print_indices(needed);
        let Shape { form, split, .. } = self.shape.clone();
        let reductions: Vec<Reduction> = self
            .stages
            .reductions()
            .iter()
            .map(|&r| self.reduction(r))
            .collect();
        let main = self.main_text(form, split.is_some());
        let finish = split.map(|_| self.finish_text(&reductions));
        let in_place = self.in_place(needed);
        let head = self.head(&in_place);
        let name = "FT_SYMBOL";
        let mut body = text::helpers(self.narrow_indices());
        self.structure(&mut body);
        let kernel = |out: &mut String, suffix: &str, threads: u32, text: &str| {
            let _ = write!(
                out,
                "extern \"C\" __global__ void __launch_bounds__({threads}) {name}{suffix}(const __grid_constant__ \
                 {name}_args a) {{\n{head}{text}}}\n"
            );
        };
        kernel(&mut body, "", self.shape.threads, &main);
        if let Some(finish) = &finish {
            kernel(&mut body, "_finish", self.shape.finish_threads, finish);
        }
        let part = |p: support::Part| Part {
            order: p.order,
            text: p.text,
        };
        let parts = support::parts(&self.needs).into_iter().map(part).collect();
        let pieces = self.shape.pieces();
        let scratch = match split {
            Some(_) => self.node.rows() * pieces * reductions.len() * SLOT,
            None => 0,
        };
        let working = |l: &&Loop| !l.compute.is_empty() || !l.stores.is_empty();
        Emitted {
            source: KernelSource {
                parts,
                body,
                finish: finish.is_some(),
            },
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
            },
            loops: self.stages.loops.iter().filter(working).count(),
            node: self.node.clone(),
        }
    }

    /// The kernel: its place, then every stage.
    fn main_text(&mut self, form: Form, split: bool) -> String {
        let mut out = String::new();
        self.place(&mut out, form, split);
        self.decode_row(&mut out);
        let mut body = String::new();
        if let (Form::Inner { threads }, 1..) = (form, self.shape.turns) {
            self.keep(&mut body, threads);
        }
        let writes = match form {
            Form::Pointwise => "c == 0",
            Form::Inner { .. } => "t == 0",
            Form::Outer { .. } => "live && ty == 0",
        };
        for s in 0..self.stages.loops.len() {
            if split && s > 0 {
                break;
            }
            self.row_stage(&mut body, s, (!split).then_some(writes));
            let l = self.stages.loops[s].clone();
            if l.reduces.is_empty() && l.stores.is_empty() {
                continue;
            }
            let reductions: Vec<Reduction> = l.reduces.iter().map(|&r| self.reduction(r)).collect();
            for r in &reductions {
                self.declare_accumulators(&mut body, r, self.shape.lanes);
            }
            let chunk = self.chunk(s, &reductions);
            match form {
                Form::Pointwise => body.push_str(&chunk),
                Form::Inner { threads } if self.shape.turns > 0 => {
                    body.push_str(&self.turns(threads, &chunk));
                }
                Form::Inner { threads } => {
                    // Several loads in flight where nothing but memory takes time.
                    let unroll = match l.stores.is_empty() && l.compute.len() <= LIGHT {
                        true => "  #pragma unroll 4\n",
                        false => "",
                    };
                    let _ = writeln!(
                        body,
                        "{unroll}  for (ft_int c = lo + t; c < hi; c += {threads}) {{\n{chunk}  }}"
                    );
                }
                Form::Outer { groups, .. } => {
                    let _ = writeln!(
                        body,
                        "  #pragma unroll 8\n  for (ft_int c = lo + ty; c < hi; c += {groups}) {{\n{chunk}  }}"
                    );
                }
            }
            self.gather(&mut body, &reductions, self.shape.lanes, &form);
            for r in &reductions {
                match split {
                    true => self.put(&mut body, r, writes),
                    false => self.finished(&mut body, r),
                }
            }
        }
        out.push_str(&self.preamble);
        out.push_str(&body);
        out
    }

    /// Which row and which chunks are this thread's.
    fn place(&mut self, out: &mut String, form: Form, split: bool) {
        let rows = self.param(self.node.rows() as i64);
        let chunks = self.param(self.shape.chunks as i64);
        let threads = self.shape.threads;
        let pieces = match split {
            true => {
                let pieces = self.param(self.shape.pieces() as i64);
                let per = self.param(self.shape.per_piece() as i64);
                let _ = writeln!(
                    out,
                    "  const ft_int pieces = {pieces}, piece = (ft_int)blockIdx.x % pieces, block = (ft_int)blockIdx.x / pieces;\n  \
                     const ft_int lo = piece * {per}, end = ft_least(lo + {per}, {chunks});"
                );
                true
            }
            false => {
                if form != Form::Pointwise {
                    let _ = writeln!(
                        out,
                        "  const ft_int block = (ft_int)blockIdx.x, lo = 0, end = {chunks};"
                    );
                }
                false
            }
        };
        let _ = match form {
            Form::Pointwise => writeln!(
                out,
                "  const ft_int u = (ft_int)blockIdx.x * {threads} + (ft_int)threadIdx.x;\n  \
                 if (u >= {rows} * {chunks}) return;\n  const ft_int row = u / {chunks}, c = u % {chunks};"
            ),
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
                 const ft_int row = live ? block * {width} + tx : {rows} - 1, hi = live ? end : lo;"
            ),
        };
    }

    fn decode_row(&mut self, out: &mut String) {
        let rows = self.node.iter.len();
        if rows == 0 {
            return;
        }
        out.push_str("  ft_int rest = row;\n");
        for v in (1..rows).rev() {
            let n = self.param(self.extents[v] as i64);
            let _ = writeln!(out, "  const ft_int i{v} = rest % {n}; rest /= {n};");
        }
        out.push_str("  const ft_int i0 = rest;\n");
    }

    /// A row's values of one stage, and its stores of such where `writes` holds.
    fn row_stage(&mut self, out: &mut String, s: usize, writes: Option<&str>) {
        let at = At {
            position: "0",
            guard: None,
            pad: "  ",
        };
        for v in self.stages.row[s].clone() {
            let text = self.statement(v, at);
            out.push_str(&text);
        }
        let Some(writes) = writes else { return };
        for store in self.stages.row_stores[s].clone() {
            let (value, dtype) = (self.node.stores[store].value, self.node.stores[store].dtype);
            let element = self.narrow(dtype, &format!("v{value}"));
            let place = self.stored_at(store, "0");
            let _ = writeln!(out, "  if ({writes}) {place} = {element};");
        }
    }

    /// The second kernel of a split reduction: each row's partial results in order, then what follows for it.
    fn finish_text(&mut self, reductions: &[Reduction]) -> String {
        let (rows, pieces) = (self.node.rows(), self.shape.pieces());
        let (rows, pieces) = (self.param(rows as i64), self.param(pieces as i64));
        let (per_row, threads) = (self.shape.finish_per_row, self.shape.finish_threads);
        let mut out = String::new();
        let _ = writeln!(
            out,
            "  const ft_int pieces = {pieces}, row = (ft_int)blockIdx.x * {} + (ft_int)threadIdx.x / {per_row};\n  \
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
        for r in reductions {
            self.take(&mut body, r);
        }
        body.push_str("  }\n");
        let form = Form::Inner { threads: per_row };
        self.gather(&mut body, reductions, 1, &form);
        for r in reductions {
            self.finished(&mut body, r);
        }
        for s in 1..self.stages.row.len() {
            self.row_stage(&mut body, s, Some("t == 0"));
        }
        out.push_str(&self.preamble);
        out.push_str(&body);
        out
    }
}
