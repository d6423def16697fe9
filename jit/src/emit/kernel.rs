//! A fused node as one C function: rows in parallel, and for each row its stages.
//!
//! Two shapes. **Inner**: the vector axis is the last column variable; a row's reductions keep vector accumulators,
//! combined at the end of the row. **Outer**: the vector axis is the last row variable, a block of which is worked on
//! at once while the columns (there a strided reduction) are walked; accumulators and row values are arrays of vectors.

use super::index::{Index, Step};
use super::merge::merge_loops;
use super::reduce::{Reduction, better};
use super::stage::{Loop, Stages, stages};
use super::value::{At, lane_type, memory_type};
use super::{Emitted, Machine, Pointer};
use crate::body::{BodyOp, MaskId, Source, Value};
use crate::expr::Var;
use crate::lower::Limits;
use crate::schedule::FusedNode;
use ferrotrace_kernels::support::{self, Need};
use ferrotrace_kernels::{Distribution, ValueId};
use ferrotrace_runtime::{DType, KernelSource, Part};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

/// Elements of a piece of a long row of a kernel without reductions.
const PIECE: usize = 1 << 14;
/// Elements of a chunk of a split reduction.
const CHUNK: usize = 1 << 16;
/// Accumulators of a light reduction loop.
const UNROLL: usize = 4;
/// Most columns of a block of an outer reduction.
const BLOCK: usize = 512;

/// The state of writing one kernel.
pub(super) struct Writer<'a> {
    pub node: &'a FusedNode,
    pub lanes: usize,
    pub needs: BTreeSet<Need>,
    /// Printed indices of loads, index values and random values.
    pub indices: HashMap<Value, Index>,
    pub masks: HashMap<MaskId, Vec<Index>>,
    /// Whether an index is checked.
    pub reports: bool,
    stages: Stages,
    extents: Vec<usize>,
    outer: bool,
    split: bool,
    store_indices: HashMap<usize, Index>,
    params: Vec<i64>,
    pointers: Vec<Pointer>,
    pointer_types: Vec<DType>,
    preamble: String,
    bases: usize,
    streams: Vec<(usize, ValueId, bool)>,
    scratch_rows: Vec<(Value, usize)>,
    block: usize,
}

/// Writes the kernel of a fused node. `stored` are the nodes whose values must be written.
pub fn emit(fused: &FusedNode, stored: &HashSet<ValueId>, limits: &Limits, machine: &Machine) -> Emitted {
    let mut node = merge_loops(fused.clone());
    if node.red.is_empty() {
        // Without columns the last row variable is the vector axis.
        node.red = vec![node.iter.pop().unwrap_or(1)];
    }
    let split = node.is_split(limits);
    let outer = !split && prefers_outer(&node);
    let needed: Vec<usize> = (0..node.stores.len()).filter(|&s| stored.contains(&node.stores[s].node)).collect();
    let stages = stages(&node, &needed);
    let lanes = lanes(&node, &stages, machine);
    let extents = node.extents();
    let writer = Writer {
        node: &node,
        lanes,
        needs: BTreeSet::new(),
        indices: HashMap::new(),
        masks: HashMap::new(),
        reports: false,
        stages,
        extents,
        outer,
        split,
        store_indices: HashMap::new(),
        params: Vec::new(),
        pointers: Vec::new(),
        pointer_types: Vec::new(),
        preamble: String::new(),
        bases: 0,
        streams: Vec::new(),
        scratch_rows: Vec::new(),
        block: 1,
    };
    writer.kernel(&needed, machine)
}

/// Whether the columns are strided and the last row variable contiguous for most loads (codegen A3.12).
fn prefers_outer(node: &FusedNode) -> bool {
    let (Some(row), true) = (node.iter.len().checked_sub(1), node.reduces()) else { return false };
    let (row, column) = (Var(row as u32), Var(node.extents().len() as u32 - 1));
    let (mut for_inner, mut for_outer) = (0usize, 0usize);
    for (_, _, index) in node.loads() {
        for_inner += usize::from(index.coefficient(column).abs() == 1);
        for_outer += usize::from(index.coefficient(row).abs() == 1 && index.coefficient(column) != 0);
    }
    for_outer > for_inner
}

/// Lanes of every vector: as many of the widest type as a register holds.
fn lanes(node: &FusedNode, stages: &Stages, machine: &Machine) -> usize {
    let computed: BTreeSet<Value> =
        stages.row.iter().flatten().chain(stages.loops.iter().flat_map(|l| &l.compute)).copied().collect();
    let size = |v: &Value| {
        let value = node.body.value(*v);
        match (&value.op, value.dtype) {
            (BodyOp::Random { dist, dtype, .. }, _) if *dist != Distribution::Uniform || dtype.size() == 8 => 8,
            (BodyOp::Random { .. } | BodyOp::Check { .. }, _) => 8,
            (_, DType::Bool) => 4,
            (_, dtype) => dtype.compute().size().max(4),
        }
    };
    machine.vector / computed.iter().map(size).max().unwrap_or(4)
}

impl Writer<'_> {
    pub(super) fn extents(&self) -> &[usize] {
        &self.extents
    }

    /// The variable along the vector axis.
    pub(super) fn vector_var(&self) -> Option<Var> {
        let v = if self.outer { self.node.iter.len() - 1 } else { self.extents.len() - 1 };
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
        let at = self.pointers.iter().position(|p| *p == Pointer::Read(source));
        format!("p{}", at.unwrap_or_default())
    }

    fn row_vars(&self) -> Vec<usize> {
        let n = self.node.iter.len();
        (0..if self.outer { n - 1 } else { n }).collect()
    }

    /// Column variables walked one by one, outermost first.
    fn walked_vars(&self) -> Vec<usize> {
        let (first, n) = (self.node.iter.len(), self.extents.len());
        (first..if self.outer { n } else { n - 1 }).collect()
    }

    fn kernel(mut self, needed: &[usize], machine: &Machine) -> Emitted {
        let node = self.node;
        self.collect_pointers(needed);
        self.print_indices(needed);
        let vector = self.vector_var().map_or(1, |v| self.extents[v.0 as usize]);
        let rows: usize = self.row_vars().iter().map(|&v| self.extents[v]).product();
        let cols = node.cols();
        let pure = !node.reduces() && self.stages.row_stores.iter().all(Vec::is_empty);
        // Pieces of a row, by sizes alone.
        let walked: usize = self.walked_vars().iter().map(|&v| self.extents[v]).product();
        let split_extent = if self.walked_vars().is_empty() { vector } else { self.extents[self.walked_vars()[0]] };
        let (piece, pieces) = if self.split {
            let per = cols / split_extent.max(1);
            let piece = (CHUNK / per.max(1)).max(1).next_multiple_of(if self.walked_vars().is_empty() { 64 } else { 1 });
            (piece, split_extent.div_ceil(piece))
        } else if self.outer {
            let saved = self.stages.saved.len() * cols * 4;
            let fit = if saved == 0 { BLOCK } else { (machine.l2 / 4 / saved.max(1)).clamp(self.lanes, BLOCK) };
            let spread = vector.div_ceil(8).max(self.lanes);
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
        self.stage_text(&mut body, needed);
        let reductions: Vec<Reduction> = self.all_reductions();
        let (mut main, mut finish) = (String::new(), String::new());
        let piece_param = self.param(piece as i64);
        let pieces_param = self.param(pieces as i64);
        let split_param = self.param(if self.outer { vector } else { split_extent } as i64);
        self.row_loop(&mut main, &body, (&piece_param, &pieces_param, &split_param));
        if self.split {
            let rows_param = self.param(rows as i64);
            self.finish_text(&mut finish, &reductions, (&rows_param, &pieces_param));
        }
        let head = self.head();
        let mut text = String::new();
        text.push_str(INTEGERS);
        if self.reports {
            text.push_str(REPORT);
        }
        let _ = write!(text, "void FT_SYMBOL(const ft_args *a, long long begin, long long end, char *local) {{\n{head}{main}");
        if !self.streams.is_empty() {
            self.needs.insert(support::need("ft_fence", self.lanes));
            let _ = writeln!(text, "  ft_fencex{}();", self.lanes);
        }
        text.push_str("}\n");
        if self.split {
            let _ = write!(text, "void FT_SYMBOL_finish(const ft_args *a, char *local) {{\n{head}{finish}}}\n");
        }
        let part = |p: support::Part| Part { order: p.order, text: p.text };
        let parts = support::parts(&self.needs).into_iter().map(part).collect();
        let out = |s: &usize| node.stores[*s].dtype.size() * rows * vector;
        for (_, id, wanted) in &mut self.streams {
            let bytes = needed.iter().filter(|&&s| node.stores[s].node == *id).map(out).max().unwrap_or(0);
            *wanted = bytes * walked.max(1) > machine.stream;
        }
        let in_place = self.in_place(needed);
        Emitted {
            in_place,
            source: KernelSource { parts, body: text, finish: self.split },
            pointers: self.pointers,
            params: self.params,
            streams: self.streams,
            numbers: node.body.numbers().to_vec(),
            chunks: if rows * vector * walked == 0 { 0 } else { rows * pieces },
            scratch: if self.split { rows * pieces * reductions.len() * 16 } else { 0 },
            local,
            loops: self.stages.loops.iter().filter(|l| !l.compute.is_empty() || !l.stores.is_empty()).count(),
            node: node.clone(),
        }
    }

    /// Pairs (node written, buffer read) that may share memory: every load of the buffer is of the very element that
    /// is stored, and none comes in a later loop (scheduler B-08, B-10, B-11).
    fn in_place(&self, needed: &[usize]) -> Vec<(ValueId, Source)> {
        let mut pairs = Vec::new();
        for &s in needed {
            let store = &self.node.stores[s];
            let Some(at) = self.stages.loops.iter().position(|l| l.stores.contains(&s)) else { continue };
            for pointer in &self.pointers {
                let Pointer::Read(source) = *pointer else { continue };
                let fits = self.computed().iter().all(|&v| match &self.node.body.value(v).op {
                    BodyOp::Load { source: from, dtype, index, mask } if *from == source => {
                        let late = self.stages.loops[at + 1..].iter().any(|l| l.compute.contains(&v));
                        let in_row = self.stages.row.iter().flatten().any(|&x| x == v);
                        *index == store.index && mask.is_none() && dtype.size() == store.dtype.size() && !late && !in_row
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

    fn computed(&self) -> Vec<Value> {
        let mut all: Vec<Value> = self.stages.row.iter().flatten().copied().collect();
        all.extend(self.stages.loops.iter().flat_map(|l| &l.compute));
        all.sort_unstable();
        all.dedup();
        all
    }

    fn collect_pointers(&mut self, needed: &[usize]) {
        for v in self.computed() {
            if let BodyOp::Load { source, dtype, .. } = self.node.body.value(v).op {
                if !self.pointers.contains(&Pointer::Read(source)) {
                    self.pointers.push(Pointer::Read(source));
                    self.pointer_types.push(dtype);
                }
            }
        }
        for &s in needed {
            self.pointers.push(Pointer::Write(self.node.stores[s].node));
            self.pointer_types.push(self.node.stores[s].dtype);
        }
    }

    fn print_indices(&mut self, needed: &[usize]) {
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
            if let Some(m) = mask {
                if !self.masks.contains_key(&m) {
                    let printed = node.body.mask(m).iter().map(|e| self.index(e)).collect();
                    self.masks.insert(m, printed);
                }
            }
        }
        for &s in needed {
            let printed = self.index(&self.node.stores[s].index.clone());
            self.store_indices.insert(s, printed);
        }
    }

    fn all_reductions(&self) -> Vec<Reduction> {
        self.stages.loops.iter().flat_map(|l| &l.reduces).map(|&r| self.reduction(r)).collect()
    }

    /// Places of scratch rows (and, outer, of accumulators and row values) in a thread's memory; its size.
    fn local_layout(&mut self, cols: usize, width: usize) -> usize {
        let mut at = 0usize;
        let lane = |d: DType| if d == DType::Bool { 4 } else { d.compute().size() };
        for v in self.stages.saved.clone() {
            let elements = (cols * width).next_multiple_of(self.lanes) + self.lanes;
            self.scratch_rows.push((v, at));
            at += (elements * lane(self.node.body.value(v).dtype)).next_multiple_of(64);
        }
        at
    }

    fn scratch_row(&mut self, v: Value) -> String {
        let at = self.scratch_rows.iter().find(|r| r.0 == v).map_or(0, |r| r.1);
        self.param(at as i64)
    }

    /// Constants at the start of a function: arguments by name.
    fn head(&mut self) -> String {
        let mut text = String::new();
        for i in 0..self.params.len() {
            let _ = writeln!(text, "  const long long P{i} = a->param[{i}];");
        }
        for (i, (pointer, dtype)) in self.pointers.iter().zip(&self.pointer_types).enumerate() {
            let qualifier = if matches!(pointer, Pointer::Read(_)) { "const " } else { "" };
            let ty = memory_type(*dtype);
            let _ = writeln!(text, "  {qualifier}{ty} *p{i} = ({qualifier}{ty} *)a->ptr[{i}];");
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
    fn row_loop(&mut self, out: &mut String, body: &str, (piece, pieces, extent): (&str, &str, &str)) {
        let _ = writeln!(out, "  for (long long u = begin; u < end; u++) {{");
        let _ = writeln!(out, "    long long row = u / {pieces}; const long long lo = u % {pieces} * {piece};");
        let _ = writeln!(out, "    const long long hi = ft_min(lo + {piece}, {extent}); (void)hi;");
        self.decode_row(out);
        out.push_str(&self.preamble);
        out.push_str(body);
        out.push_str("  }\n");
    }

    fn decode_row(&mut self, out: &mut String) {
        let vars = self.row_vars();
        for (k, &v) in vars.iter().enumerate().rev() {
            if k == 0 {
                let _ = writeln!(out, "    const long long i{v} = row;");
            } else {
                let n = self.param(self.extents[v] as i64);
                let _ = writeln!(out, "    const long long i{v} = row % {n}; row /= {n};");
            }
        }
    }

    /// All stages of a row.
    fn stage_text(&mut self, out: &mut String, _needed: &[usize]) {
        if self.outer {
            self.outer_stages(out);
            return;
        }
        for s in 0..self.stages.loops.len() {
            if self.split && s > 0 {
                break;
            }
            self.row_stage(out, s, !self.split);
            let l = self.stages.loops[s].clone();
            if !l.reduces.is_empty() || !l.stores.is_empty() {
                self.inner_loop(out, &l);
            }
        }
    }

    /// A row's values of one stage, uniform over the lanes, and the stores of such.
    fn row_stage(&mut self, out: &mut String, s: usize, stores: bool) {
        let at = At { position: "0", lanes: None, indent: 4 };
        for v in self.stages.row[s].clone() {
            let text = self.statement(v, at);
            out.push_str(&text);
        }
        if stores {
            for store in self.stages.row_stores[s].clone() {
                let text = self.store(store, At { lanes: Some("1"), ..at });
                out.push_str(&text);
            }
        }
    }

    /// The store of a value at a position.
    fn store(&mut self, s: usize, at: At<'_>) -> String {
        let store = &self.node.stores[s];
        let (dtype, value, id) = (store.dtype, store.value, store.node);
        let pad = " ".repeat(at.indent);
        let pointer = self.pointers.iter().position(|p| *p == Pointer::Write(id)).unwrap_or_default();
        let index = self.store_indices[&s].clone();
        let place = format!("p{pointer} + {}", index.at(at.position));
        let v = format!("v{value}");
        match (index.step, at.lanes) {
            (Step::Unit, None) => {
                let plain = self.call("store", dtype, &[&place, &v]);
                if !matches!(dtype, DType::F32 | DType::F64) {
                    return format!("{pad}{plain};\n");
                }
                let flag = self.stream_flag(pointer, id, &index);
                let stream = self.call("stream", dtype, &[&place, &v]);
                format!("{pad}if ({flag}) {stream}; else {plain};\n")
            }
            (Step::Unit, Some(m)) | (Step::Uniform, Some(m)) => {
                let call = self.call("storen", dtype, &[&place, &v, m]);
                format!("{pad}{call};\n")
            }
            (Step::Uniform, None) => {
                let call = self.call("storen", dtype, &[&place, &v, "1"]);
                format!("{pad}{call};\n")
            }
            _ => {
                let position = format!("({} + l)", at.position);
                let count = at.lanes.map_or_else(|| self.lanes.to_string(), str::to_owned);
                let (c, w) = (memory_type(dtype), self.lanes);
                let call = self.call("store", dtype, &["g", &v]);
                format!(
                    "{pad}{{ {c} g[{w}]; {call}; for (long l = 0; l < {count}; l++) p{pointer}[{}] = g[l]; }}\n",
                    index.at(&position)
                )
            }
        }
    }

    /// The name of a row's flag that a store bypasses the cache: asked for by the run, and its address aligned.
    fn stream_flag(&mut self, pointer: usize, id: ValueId, index: &Index) -> String {
        let name = format!("t{pointer}");
        if self.streams.iter().all(|s| s.1 != id) {
            let wanted = self.param(0);
            self.streams.push((self.params.len() - 1, id, false));
            let line = if self.walked_vars().is_empty() && !self.outer {
                let bytes = self.lanes * self.pointer_types[pointer].size();
                let start = index.at("lo");
                format!("{wanted} && ((unsigned long)(p{pointer} + {start}) & {}) == 0", bytes - 1)
            } else {
                // Only a row that is one run keeps its alignment.
                "0".to_owned()
            };
            self.row_line(&format!("const int {name} = {line};"));
        }
        name
    }

    /// Nested loops over the walked columns, `body` inside; `first` bounds the outermost by the unit's piece.
    fn walk(&mut self, out: &mut String, piece: bool, body: &str) {
        let vars = self.walked_vars();
        for (k, &v) in vars.iter().enumerate() {
            if k == 0 && piece {
                let _ = writeln!(out, "    for (long long i{v} = lo; i{v} < hi; i{v}++)");
            } else {
                let n = self.param(self.extents[v] as i64);
                let _ = writeln!(out, "    for (long long i{v} = 0; i{v} < {n}; i{v}++)");
            }
        }
        out.push_str("    {\n");
        out.push_str(body);
        out.push_str("    }\n");
    }

    /// The flat column at vector position `position`.
    fn flat_column(&mut self, position: &str) -> String {
        let mut parts = vec![position.to_owned()];
        let mut stride = if self.outer { 1 } else { self.extents[self.extents.len() - 1] as i64 };
        for v in self.walked_vars().into_iter().rev() {
            let by = self.param(stride);
            parts.push(format!("i{v}*{by}"));
            stride *= self.extents[v] as i64;
        }
        parts.join(" + ")
    }

    fn declare_accumulators(&mut self, out: &mut String, l: &Loop, copies: usize) {
        for &id in &l.reduces {
            let r = self.reduction(id);
            let (ty, identity) = (self.vector(r.dtype), self.identity(&r));
            for c in 0..copies {
                let _ = writeln!(out, "    {ty} a{id}_{c} = {identity};");
            }
            if r.has_position() {
                let set = self.call("set", DType::I64, &["-1"]);
                let _ = writeln!(out, "    {} q{id} = {set};", self.vector(DType::I64));
            }
        }
    }

    /// One iteration of an inner loop at a vector position.
    fn inner_step(&mut self, l: &Loop, at: At<'_>, copy: usize) -> String {
        let mut text = String::new();
        let pad = " ".repeat(at.indent);
        for &v in &l.restore {
            let row = self.scratch_row(v);
            let column = self.flat_column(at.position);
            let dtype = self.node.body.value(v).dtype;
            let c = lane_type(dtype);
            let memory = if dtype == DType::Bool { DType::I32 } else { dtype };
            let load = self.call("load", memory, &[&format!("({c} *)(local + {row}) + {column}")]);
            let _ = writeln!(text, "{pad}const {} v{v} = {load};", self.vector(dtype));
        }
        for &v in &l.compute {
            text.push_str(&self.statement(v, at));
            if l.save.contains(&v) {
                let row = self.scratch_row(v);
                let column = self.flat_column(at.position);
                let dtype = self.node.body.value(v).dtype;
                let c = lane_type(dtype);
                let memory = if dtype == DType::Bool { DType::I32 } else { dtype };
                let place = format!("({c} *)(local + {row}) + {column}");
                let store = self.call("store", memory, &[&place, &format!("v{v}")]);
                let _ = writeln!(text, "{pad}{store};");
            }
        }
        for &id in &l.reduces {
            let r = self.reduction(id);
            let position = if r.has_position() { self.position(id, at) } else { String::new() };
            let update = self.update(&r, &format!("a{id}_{copy}"), &format!("q{id}"), &position, at.lanes);
            let _ = writeln!(text, "{pad}{update}");
        }
        for &s in &l.stores {
            text.push_str(&self.store(s, at));
        }
        text
    }

    /// The vector of row-major positions in the reduced dimensions.
    fn position(&mut self, id: Value, at: At<'_>) -> String {
        let BodyOp::Reduce { position: Some(e), .. } = &self.node.body.value(id).op else { return String::new() };
        let printed = self.index(&e.clone());
        let set = self.call("set", DType::I64, &[&printed.at(at.position)]);
        match printed.step {
            Step::Unit => format!("({set} + {})", self.call("iota", DType::I64, &[])),
            _ => format!("({set})"),
        }
    }

    /// The loop of one stage: full vectors, several at once where the body is light, then the rest.
    fn inner_loop(&mut self, out: &mut String, l: &Loop) {
        let counted = l.compute.iter().filter(|&&v| {
            !matches!(self.node.body.value(v).op, BodyOp::Load { .. } | BodyOp::Number(_))
        });
        let irregular = l.compute.iter().any(|v| self.indices.get(v).is_some_and(|i| i.step != Step::Unit));
        let position = l.reduces.iter().any(|&r| self.reduction(r).has_position());
        let light = counted.count() <= 6 && !irregular && l.stores.is_empty() && l.save.is_empty() && !position;
        let copies = if light { UNROLL } else { 1 };
        self.declare_accumulators(out, l, copies);
        let (w, walked) = (self.lanes, !self.walked_vars().is_empty());
        let mut body = String::new();
        let (start, end) = if walked || !(self.split || !self.node.reduces()) {
            let n = self.param(*self.extents.last().unwrap_or(&1) as i64);
            ("0".to_owned(), n)
        } else {
            ("lo".to_owned(), "hi".to_owned())
        };
        let _ = writeln!(body, "      long long j = {start};");
        if copies > 1 {
            let _ = writeln!(body, "      for (; j + {} <= {end}; j += {}) {{", copies * w, copies * w);
            for c in 0..copies {
                let position = format!("(j + {})", c * w);
                let step = self.inner_step(l, At { position: &position, lanes: None, indent: 10 }, c);
                let _ = writeln!(body, "        {{\n{step}        }}");
            }
            body.push_str("      }\n");
        }
        let step = self.inner_step(l, At { position: "j", lanes: None, indent: 8 }, 0);
        let _ = writeln!(body, "      for (; j + {w} <= {end}; j += {w}) {{\n{step}      }}");
        let step = self.inner_step(l, At { position: "j", lanes: Some("m"), indent: 8 }, 0);
        let _ = writeln!(body, "      if (j < {end}) {{ const long m = {end} - j;\n{step}      }}");
        self.walk(out, self.split && walked, &body);
        for &id in &l.reduces {
            self.end_reduction(out, id, copies);
        }
    }

    /// The accumulators of a finished loop as one uniform vector `r{id}`, or as a partial result in the scratch.
    fn end_reduction(&mut self, out: &mut String, id: Value, copies: usize) {
        let r = self.reduction(id);
        let mut width = copies;
        while width > 1 {
            width /= 2;
            for c in 0..width {
                let sum = self.combine(&r, &format!("a{id}_{c}"), &format!("a{id}_{}", c + width));
                let _ = writeln!(out, "    a{id}_{c} = {sum};");
            }
        }
        let slot = |i: usize| format!("(a->scratch + (u * {} + {i}) * 16)", self.slots());
        let at = self.all_reductions().iter().position(|x| x.id == id).unwrap_or_default();
        let slot = slot(at);
        if r.has_position() {
            let (best, place) = (format!("w{id}"), format!("y{id}"));
            let _ = writeln!(out, "    {}", self.declare_best(&r, &best, &place));
            let _ = writeln!(out, "    {}", self.best_lane(&r, &format!("a{id}_0"), &format!("q{id}"), &best, &place));
            if self.split {
                let c = lane_type(r.dtype);
                let _ = writeln!(out, "    *({c} *){slot} = {best}; ((long *){slot})[1] = {place};");
            } else {
                let set = self.call("set", DType::I64, &[&place]);
                let _ = writeln!(out, "    const {} r{id} = {set};", self.vector(DType::I64));
            }
            return;
        }
        let lane = self.horizontal(&r, &format!("a{id}_0"));
        if self.split {
            let _ = writeln!(out, "    *({} *){slot} = {lane};", lane_type(r.dtype));
        } else {
            let set = self.call("set", r.dtype, &[&lane]);
            let _ = writeln!(out, "    const {} r{id} = {set};", self.vector(r.dtype));
        }
    }

    fn slots(&self) -> usize {
        self.all_reductions().len()
    }

    /// Split reductions: the chunks' partial results in order, then what follows for each row.
    fn finish_text(&mut self, out: &mut String, reductions: &[Reduction], (rows, pieces): (&str, &str)) {
        let _ = writeln!(out, "  for (long long first = 0; first < {rows}; first++) {{\n    long long row = first;");
        self.decode_row(out);
        let _ = writeln!(out, "    const long long lo = 0; (void)lo; (void)row;");
        out.push_str(&self.preamble);
        for (i, r) in reductions.iter().enumerate() {
            let id = r.id;
            let slot = format!("(a->scratch + ((first * {pieces} + c) * {} + {i}) * 16)", reductions.len());
            let (c, ty) = (lane_type(r.dtype), self.vector(r.dtype));
            if r.has_position() {
                let (best, place) = (format!("w{id}"), format!("y{id}"));
                let _ = writeln!(out, "    {}", self.declare_best(r, &best, &place));
                let wins = better(r, "x", "i", &best, &place);
                let _ = writeln!(
                    out,
                    "    for (long long c = 0; c < {pieces}; c++) {{ {c} x = *({c} *){slot}; long i = ((long *){slot})[1]; if (i >= 0 && {wins}) {{ {best} = x; {place} = i; }} }}"
                );
                let set = self.call("set", DType::I64, &[&place]);
                let _ = writeln!(out, "    const {} r{id} = {set};", self.vector(DType::I64));
                continue;
            }
            let identity = self.identity(r);
            let set = self.call("set", r.dtype, &[&format!("*({c} *){slot}")]);
            let sum = self.combine(r, &format!("r{id}"), &format!("({set})"));
            let _ = writeln!(out, "    {ty} r{id} = {identity};");
            let _ = writeln!(out, "    for (long long c = 0; c < {pieces}; c++) r{id} = {sum};");
        }
        for s in 0..self.stages.row.len() {
            self.row_stage(out, s, true);
        }
        out.push_str("  }\n");
    }

    /// The stages of a block of columns of an outer reduction.
    fn outer_stages(&mut self, out: &mut String) {
        let last = self.stages.loops.len();
        // Row values that a loop or a later stage reads are arrays over the block.
        let kept: Vec<Value> = self.stages.row.iter().flatten().copied().collect();
        let is_constant = |w: &Self, v: Value| matches!(w.node.body.value(v).op, BodyOp::Number(_));
        let kept: Vec<Value> = kept.into_iter().filter(|&v| !is_constant(self, v)).collect();
        let most = BLOCK / self.lanes.min(BLOCK);
        for &v in &kept {
            let _ = writeln!(out, "    {} k{v}[{most}];", self.vector(self.node.body.value(v).dtype));
        }
        for s in 0..last {
            let row = self.stages.row[s].clone();
            let row_stores = self.stages.row_stores[s].clone();
            let earlier: Vec<Value> = self.stages.row[..s].iter().flatten().copied().collect();
            if row.iter().any(|&v| !is_constant(self, v)) || !row_stores.is_empty() {
                let mut step = |w: &mut Self, at: At<'_>| {
                    let mut text = String::new();
                    let pad = " ".repeat(at.indent);
                    let wanted: BTreeSet<Value> = row
                        .iter()
                        .flat_map(|&v| w.node.body.operands(v))
                        .chain(row_stores.iter().map(|&s| w.node.stores[s].value))
                        .collect();
                    for &v in earlier.iter().filter(|v| wanted.contains(v)) {
                        text.push_str(&w.recall(v, &pad));
                    }
                    for &v in &row {
                        if matches!(w.node.body.value(v).op, BodyOp::Reduce { .. }) {
                            let ty = w.vector(w.node.body.value(v).dtype);
                            let array = if w.reduction(v).has_position() { "q" } else { "a" };
                            let _ = writeln!(text, "{pad}const {ty} r{v} = {array}{v}[(j - lo) / {}];", w.lanes);
                        }
                        text.push_str(&w.statement(v, at));
                        if !is_constant(w, v) {
                            let _ = writeln!(text, "{pad}k{v}[(j - lo) / {}] = v{v};", w.lanes);
                        }
                    }
                    for &s in &row_stores {
                        text.push_str(&w.store(s, at));
                    }
                    text
                };
                self.block_loop(out, &mut step, 4);
            }
            let l = self.stages.loops[s].clone();
            if l.reduces.is_empty() && l.stores.is_empty() {
                continue;
            }
            for &id in &l.reduces {
                let r = self.reduction(id);
                let (ty, identity) = (self.vector(r.dtype), self.identity(&r));
                let _ = writeln!(out, "    {ty} a{id}[{most}]; for (int c = 0; c < {most}; c++) a{id}[c] = {identity};");
                if r.has_position() {
                    let (ty, set) = (self.vector(DType::I64), self.call("set", DType::I64, &["-1"]));
                    let _ = writeln!(out, "    {ty} q{id}[{most}]; for (int c = 0; c < {most}; c++) q{id}[c] = {set};");
                }
            }
            let available: Vec<Value> = self.stages.row[..=s].iter().flatten().copied().collect();
            let mut step = |w: &mut Self, at: At<'_>| w.outer_step(&l, &available, at);
            let mut body = String::new();
            self.block_loop(&mut body, &mut step, 6);
            self.walk(out, false, &body);
        }
    }

    /// A row value read back from its array.
    fn recall(&self, v: Value, pad: &str) -> String {
        if let BodyOp::Number(n) = self.node.body.value(v).op {
            return format!("{pad}const {} v{v} = s{n};\n", self.vector(self.node.body.value(v).dtype));
        }
        format!("{pad}const {} v{v} = k{v}[(j - lo) / {}];\n", self.vector(self.node.body.value(v).dtype), self.lanes)
    }

    fn outer_step(&mut self, l: &Loop, available: &[Value], at: At<'_>) -> String {
        let mut text = String::new();
        let pad = " ".repeat(at.indent);
        let reduced = l.reduces.iter().map(|&r| self.reduction(r).value);
        let stored = l.stores.iter().map(|&s| self.node.stores[s].value);
        let wanted: BTreeSet<Value> =
            l.compute.iter().flat_map(|&v| self.node.body.operands(v)).chain(reduced).chain(stored).collect();
        for &v in available.iter().filter(|v| wanted.contains(v)) {
            text.push_str(&self.recall(v, &pad));
        }
        let place = |w: &mut Self, v: Value| {
            let row = w.scratch_row(v);
            let column = w.flat_column("0");
            let block = w.param_block();
            let dtype = w.node.body.value(v).dtype;
            (format!("({} *)(local + {row}) + ({column}) * {block} + (j - lo)", lane_type(dtype)), dtype)
        };
        for &v in &l.restore {
            let (place, dtype) = place(self, v);
            let memory = if dtype == DType::Bool { DType::I32 } else { dtype };
            let load = self.call("load", memory, &[&place]);
            let _ = writeln!(text, "{pad}const {} v{v} = {load};", self.vector(dtype));
        }
        for &v in &l.compute {
            text.push_str(&self.statement(v, at));
            if l.save.contains(&v) {
                let (place, dtype) = place(self, v);
                let memory = if dtype == DType::Bool { DType::I32 } else { dtype };
                let store = self.call("store", memory, &[&place, &format!("v{v}")]);
                let _ = writeln!(text, "{pad}{store};");
            }
        }
        for &id in &l.reduces {
            let r = self.reduction(id);
            let position = if r.has_position() { self.position(id, at) } else { String::new() };
            let lane = format!("[(j - lo) / {}]", self.lanes);
            let update = self.update(&r, &format!("a{id}{lane}"), &format!("q{id}{lane}"), &position, None);
            let _ = writeln!(text, "{pad}{update}");
        }
        for &s in &l.stores {
            text.push_str(&self.store(s, at));
        }
        text
    }

    /// The width of a scratch row's element in an outer kernel: the block, a multiple of the lanes.
    fn param_block(&mut self) -> String {
        self.param(self.block as i64)
    }

    /// A loop over the vectors of a block, full ones and the last.
    fn block_loop(&mut self, out: &mut String, step: &mut dyn FnMut(&mut Self, At<'_>) -> String, indent: usize) {
        let (w, pad) = (self.lanes, " ".repeat(indent));
        let full = step(self, At { position: "j", lanes: None, indent: indent + 4 });
        let tail = step(self, At { position: "j", lanes: Some("m"), indent: indent + 4 });
        let _ = writeln!(out, "{pad}{{ long long j = lo;");
        let _ = writeln!(out, "{pad}  for (; j + {w} <= hi; j += {w}) {{\n{full}{pad}  }}");
        let _ = writeln!(out, "{pad}  if (j < hi) {{ const long m = hi - j;\n{tail}{pad}  }}\n{pad}}}");
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

