//! The loops of a block of rows whose columns are strided: rows are the vector axis.

use super::chunks::{PANEL, TWICE};
use super::kernel::Writer;
use super::pieces::{BLOCK, Pieces};
use super::reduce::Reduction;
use super::stage::Loop;
use super::totals::{RUN, declare_turn, turn_of};
use super::value::{At, lane_type};
use crate::body::{BodyOp, Value};
use ferrotrace_runtime::DType;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Columns that a unit in chunks takes at a time: each is a run of memory of its own, and the processor fetches ahead along
/// several at once.
const COLUMNS: usize = 4;
/// The same where a column is no more than one load: 8 runs of 16 KiB rows reach what one run through memory does.
const LIGHT_COLUMNS: usize = 8;

impl Writer<'_> {
    /// The stages of a block of rows; of a chunk of its columns, the first, and what sums about the chunk's means.
    pub(super) fn outer_stages(&mut self, out: &mut String, cut: &Pieces) {
        self.row_arrays(out);
        let all = !self.is_chunked();
        if !all {
            self.chunk_accumulators(out, ("a", "q"), "u");
        }
        let loops = match (all, self.moments.is_empty()) {
            (true, _) => self.stages.loops.len(),
            (false, true) => 1,
            (false, false) => 2,
        };
        for s in 0..loops {
            if all || s == 0 {
                self.outer_row(out, s, all);
            } else {
                self.chunk_means(out);
            }
            self.outer_loop(out, s, cut);
        }
    }

    fn is_constant(&self, v: Value) -> bool {
        matches!(self.node.body.value(v).op, BodyOp::Number(_))
    }

    /// Vectors of the widest block.
    pub(super) fn most(&self) -> usize {
        let block = match (self.is_chunked(), self.moments.is_empty()) {
            (false, _) => BLOCK,
            (true, true) => PANEL,
            (true, false) => TWICE,
        };
        block / self.lanes.min(block)
    }

    /// Row values that a loop or a later stage reads are arrays over the block.
    pub(super) fn row_arrays(&mut self, out: &mut String) {
        let most = self.most();
        for &v in self.stages.row.iter().flatten() {
            if !self.is_constant(v) {
                let ty = self.vector(self.node.body.value(v).dtype);
                let _ = writeln!(out, "    {ty} k{v}[{most}];");
            }
        }
    }

    /// The row values of one stage.
    pub(super) fn outer_row(&mut self, out: &mut String, s: usize, stores: bool) {
        let row = self.stages.row[s].clone();
        let row_stores = if stores {
            self.stages.row_stores[s].clone()
        } else {
            Vec::new()
        };
        let earlier: Vec<Value> = self.stages.row[..s].iter().flatten().copied().collect();
        if row.iter().all(|&v| self.is_constant(v)) && row_stores.is_empty() {
            return;
        }
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
            let k = w.vector_of_block();
            for &v in &row {
                if matches!(w.node.body.value(v).op, BodyOp::Reduce { .. }) {
                    let ty = w.vector(w.node.body.value(v).dtype);
                    let array = if w.reduction(v).has_position() {
                        "q"
                    } else {
                        "a"
                    };
                    let _ = writeln!(text, "{pad}const {ty} r{v} = {array}{v}[{k}];");
                }
                text.push_str(&w.statement(v, at));
                if !w.is_constant(v) {
                    let _ = writeln!(text, "{pad}k{v}[{k}] = v{v};");
                }
            }
            for &s in &row_stores {
                text.push_str(&w.store(s, at));
            }
            text
        };
        self.block_loop(out, "lo", &mut step, 4);
    }

    /// The loop over the columns of one stage.
    fn outer_loop(&mut self, out: &mut String, s: usize, cut: &Pieces) {
        let mut l = self.stages.loops[s].clone();
        if l.reduces.is_empty() && l.stores.is_empty() {
            return;
        }
        let most = self.most();
        for &id in &l.reduces {
            let r = self.reduction(id);
            let unset = self.call("set", DType::I64, &["-1"]);
            let mut arrays = vec![("a", r.dtype, self.identity(&r))];
            if r.has_position() {
                arrays.push(("q", DType::I64, unset));
            }
            for (name, dtype, start) in arrays {
                let count = if self.is_chunked() {
                    format!("(hi - lo + {w} - 1) / {w}", w = self.lanes)
                } else {
                    let _ = writeln!(out, "    {} {name}{id}[{most}];", self.vector(dtype));
                    most.to_string()
                };
                let _ = writeln!(
                    out,
                    "    for (int c = 0; c < {count}; c++) {name}{id}[c] = {start};"
                );
            }
        }
        let several = self.columns_at_once(&l, s);
        let terms = self.terms_of_lane();
        // Columns that are added together first are one term of the accumulator.
        let sums = self.long_sums(&l, several - 1 + terms.div_ceil(several));
        self.declare_block_totals(out, &sums);
        self.declare_carries(out, &l);
        let available: Vec<Value> = self.stages.row[..=s].iter().flatten().copied().collect();
        let shared = self.shared_values(&l, &available);
        let left = format!("left{s}");
        let held = self.held_loop(out, &l, (&available, &shared), cut, (&left, &sums));
        if !sums.is_empty() {
            out.push_str(&declare_turn(&sums));
        }
        let start = if held { &*left } else { "lo" };
        let mut body = String::new();
        self.shared_statements(&shared, &available, &mut body);
        self.gather_ahead(&l, &shared, cut, (start, None), &mut body);
        l.compute.retain(|v| !shared.contains(v));
        let mut step = |w: &mut Self, at: At<'_>| w.outer_step(&l, &available, at, 1);
        self.block_loop(&mut body, start, &mut step, 6);
        let ended = self.end_run(&sums, several);
        body.push_str(&ended);
        let bounds = self.is_chunked().then_some(("c0", "c1"));
        if several == 1 {
            if held {
                let _ = writeln!(out, "    if ({left} < hi)");
            }
            self.walk(out, bounds, &body);
            self.end_block(out, &sums);
            return;
        }
        let mut step = |w: &mut Self, at: At<'_>| w.outer_step(&l, &available, at, several);
        let mut bodies = String::new();
        self.block_loop(&mut bodies, "lo", &mut step, 6);
        bodies.push_str(&ended);
        self.walk_several(out, bounds, (several, &bodies), &body);
        self.end_block(out, &sums);
    }

    /// Columns that a pass over the vectors of a block takes: several where accumulators are in memory.
    fn columns_at_once(&self, l: &Loop, s: usize) -> usize {
        let available: Vec<Value> = self.stages.row[..=s].iter().flatten().copied().collect();
        let plain = self.is_chunked() && self.shared_values(l, &available).is_empty();
        match (plain, l.compute.len()) {
            (false, _) => 1,
            (true, 0..=1) => LIGHT_COLUMNS,
            (true, _) => COLUMNS,
        }
    }

    /// Terms that an accumulator takes in.
    fn terms_of_lane(&self) -> usize {
        let first = self.walked_vars().first().map_or(1, |&v| self.extents[v]);
        let all = self.walked();
        match self.chunks {
            Some(chunks) => all / first.max(1) * chunks.length,
            None => all,
        }
    }

    /// After a term of the accumulators, made of at most so many columns: whether they are moved to the totals.
    fn end_run(&mut self, sums: &[Reduction], columns: usize) -> String {
        if sums.is_empty() {
            return String::new();
        }
        let (moved, turn) = (self.move_block(sums, "        "), turn_of(sums));
        format!(
            "      if (++{turn} >= {}) {{\n        {turn} = 0;\n{moved}      }}\n",
            RUN + 1 - columns
        )
    }

    /// Which vector of the block the position `j` is in.
    pub(super) fn vector_of_block(&self) -> String {
        format!("(unsigned long)(j - lo) / {}", self.lanes)
    }

    /// The values of a loop that all lanes share.
    fn shared_values(&self, l: &Loop, available: &[Value]) -> Vec<Value> {
        let mut shared: Vec<Value> = Vec::new();
        for &v in &l.compute {
            let operands = self.node.body.operands(v);
            let known = |o: &Value| shared.contains(o) || available.contains(o);
            if !self.differ[v as usize] && !l.save.contains(&v) && operands.iter().all(known) {
                shared.push(v);
            }
        }
        shared
    }

    /// Computes once for a column what all lanes share.
    pub(super) fn shared_statements(
        &mut self,
        shared: &[Value],
        available: &[Value],
        out: &mut String,
    ) {
        let (pad, at) = (
            " ".repeat(6),
            At {
                position: "lo",
                lanes: None,
                indent: 6,
            },
        );
        if shared.is_empty() {
            return;
        }
        let wanted: BTreeSet<Value> = shared
            .iter()
            .flat_map(|&v| self.node.body.operands(v))
            .collect();
        // A row value that all lanes share is the same in every vector of its array.
        let _ = writeln!(out, "{pad}const long long j = lo; (void)j;");
        for &v in available.iter().filter(|v| wanted.contains(v)) {
            out.push_str(&self.recall(v, &pad));
        }
        for &v in shared {
            out.push_str(&self.statement(v, at));
        }
    }

    /// A row value read back from its array.
    pub(super) fn recall(&self, v: Value, pad: &str) -> String {
        if let BodyOp::Number(n) = self.node.body.value(v).op {
            return format!(
                "{pad}const {} v{v} = s{n};\n",
                self.vector(self.node.body.value(v).dtype)
            );
        }
        format!(
            "{pad}const {} v{v} = k{v}[{}];\n",
            self.vector(self.node.body.value(v).dtype),
            self.vector_of_block()
        )
    }

    /// The row values that a loop uses.
    pub(super) fn recalled(&self, l: &Loop, available: &[Value], at: At<'_>) -> String {
        let pad = " ".repeat(at.indent);
        let reduced = l.reduces.iter().map(|&r| self.reduction(r).value);
        let stored = l.stores.iter().map(|&s| self.node.stores[s].value);
        let wanted: BTreeSet<Value> = l
            .compute
            .iter()
            .flat_map(|&v| self.node.body.operands(v))
            .chain(reduced)
            .chain(stored)
            .chain(l.stores.iter().flat_map(|&s| self.place_operands(s)))
            .collect();
        let used = available.iter().filter(|v| wanted.contains(v));
        used.map(|&v| self.recall(v, &pad)).collect()
    }

    /// The values and updates of one vector of rows at `columns` columns, of which the first is the loop's.
    fn outer_step(&mut self, l: &Loop, available: &[Value], at: At<'_>, columns: usize) -> String {
        let mut text = self.recalled(l, available, at);
        let pad = " ".repeat(at.indent);
        if columns == 1 {
            text.push_str(&self.outer_column(l, at, ""));
            return text;
        }
        // Accumulators stay in registers from one column to the next. Sums of the columns begin anew, and are one term of
        // the accumulator: so fewer additions are rounded one after the other.
        let k = self.vector_of_block();
        let mut ends = String::new();
        for &id in &l.reduces {
            let r = self.reduction(id);
            let (ty, kept) = (self.vector(r.dtype), format!("a{id}[{k}]"));
            let (start, end) = match r.is_rounded_sum() {
                true => (
                    self.identity(&r),
                    self.combine(&r, &kept, &format!("a{id}_")),
                ),
                false => (kept.clone(), format!("a{id}_")),
            };
            let _ = writeln!(text, "{pad}{ty} a{id}_ = {start};");
            let _ = writeln!(ends, "{pad}{kept} = {end};");
            if r.has_position() {
                let ty = self.vector(DType::I64);
                let _ = writeln!(text, "{pad}{ty} q{id}_ = q{id}[{k}];");
                let _ = writeln!(ends, "{pad}q{id}[{k}] = q{id}_;");
            }
        }
        let walked = self.walked_vars().last().copied().unwrap_or_default();
        for c in 0..columns {
            let column = self.outer_column(l, at, "_");
            let _ = writeln!(
                text,
                "{pad}{{ const long long i{walked} = w + {c};\n{column}{pad}}}"
            );
        }
        text.push_str(&ends);
        text
    }

    /// What one column adds: `kept` ends the names of accumulators that are in registers.
    pub(super) fn outer_column(&mut self, l: &Loop, at: At<'_>, kept: &str) -> String {
        let mut text = String::new();
        let pad = " ".repeat(at.indent);
        for &v in &l.restore {
            let (place, dtype) = self.outer_place(v);
            let load = self.call("load", kept_type(dtype), &[&place]);
            let _ = writeln!(text, "{pad}const {} v{v} = {load};", self.vector(dtype));
        }
        for &v in &l.compute {
            text.push_str(&self.statement(v, at));
            if l.save.contains(&v) {
                let (place, dtype) = self.outer_place(v);
                let store = self.call("store", kept_type(dtype), &[&place, &format!("v{v}")]);
                let _ = writeln!(text, "{pad}{store};");
            }
        }
        for &id in &l.reduces {
            let r = self.reduction(id);
            let position = if r.has_position() {
                self.position(id, at)
            } else {
                String::new()
            };
            let lane = if kept.is_empty() {
                format!("[{}]", self.vector_of_block())
            } else {
                kept.to_owned()
            };
            let (acc, place) = (format!("a{id}{lane}"), format!("q{id}{lane}"));
            let update = self.update(&r, &acc, &place, &position, None);
            let _ = writeln!(text, "{pad}{update}");
        }
        for &s in &l.stores {
            text.push_str(&self.store(s, at));
        }
        text
    }

    /// The place in the scratch rows of a kept value, and its type.
    fn outer_place(&mut self, v: Value) -> (String, DType) {
        let row = self.scratch_row(v);
        let column = self.flat_column("0");
        let block = self.param(self.block as i64);
        let dtype = self.node.body.value(v).dtype;
        let place = format!(
            "({} *)(local + {row}) + ({column}) * {block} + (j - lo)",
            lane_type(dtype)
        );
        (place, dtype)
    }

    /// A loop over the vectors of a block from a position on, full ones and the last.
    pub(super) fn block_loop(
        &mut self,
        out: &mut String,
        start: &str,
        step: &mut dyn FnMut(&mut Self, At<'_>) -> String,
        indent: usize,
    ) {
        let (w, pad) = (self.lanes, " ".repeat(indent));
        let full = step(
            self,
            At {
                position: "j",
                lanes: None,
                indent: indent + 4,
            },
        );
        let tail = step(
            self,
            At {
                position: "j",
                lanes: Some("m"),
                indent: indent + 4,
            },
        );
        let _ = writeln!(out, "{pad}{{ long long j = {start};");
        let _ = writeln!(
            out,
            "{pad}  for (; j + {w} <= hi; j += {w}) {{\n{full}{pad}  }}"
        );
        let _ = writeln!(
            out,
            "{pad}  if (j < hi) {{ const long m = hi - j;\n{tail}{pad}  }}\n{pad}}}"
        );
    }
}

/// How a value is kept between loops.
fn kept_type(dtype: DType) -> DType {
    if dtype == DType::Bool {
        DType::I32
    } else {
        dtype
    }
}
