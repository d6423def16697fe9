//! The loops of a block of rows whose columns are strided: rows are the vector axis.

use super::kernel::{BLOCK, Pieces, Writer};
use super::stage::Loop;
use super::value::{At, lane_type};
use crate::body::{BodyOp, Value};
use ferrotrace_runtime::DType;
use std::collections::BTreeSet;
use std::fmt::Write as _;

impl Writer<'_> {
    /// The stages of a block of columns of an outer reduction.
    pub(super) fn outer_stages(&mut self, out: &mut String, cut: &Pieces) {
        let last = self.stages.loops.len();
        // Row values that a loop or a later stage reads are arrays over the block.
        let kept: Vec<Value> = self.stages.row.iter().flatten().copied().collect();
        let is_constant = |w: &Self, v: Value| matches!(w.node.body.value(v).op, BodyOp::Number(_));
        let kept: Vec<Value> = kept
            .into_iter()
            .filter(|&v| !is_constant(self, v))
            .collect();
        let most = BLOCK / self.lanes.min(BLOCK);
        for &v in &kept {
            let _ = writeln!(
                out,
                "    {} k{v}[{most}];",
                self.vector(self.node.body.value(v).dtype)
            );
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
                            let array = if w.reduction(v).has_position() {
                                "q"
                            } else {
                                "a"
                            };
                            let _ = writeln!(
                                text,
                                "{pad}const {ty} r{v} = {array}{v}[(j - lo) / {}];",
                                w.lanes
                            );
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
                let _ = writeln!(
                    out,
                    "    {ty} a{id}[{most}]; for (int c = 0; c < {most}; c++) a{id}[c] = {identity};"
                );
                if r.has_position() {
                    let (ty, set) = (
                        self.vector(DType::I64),
                        self.call("set", DType::I64, &["-1"]),
                    );
                    let _ = writeln!(
                        out,
                        "    {ty} q{id}[{most}]; for (int c = 0; c < {most}; c++) q{id}[c] = {set};"
                    );
                }
            }
            let available: Vec<Value> = self.stages.row[..=s].iter().flatten().copied().collect();
            let mut body = String::new();
            let shared = self.shared_values(&l, &available, &mut body);
            self.gather_ahead(&l, &shared, cut, &mut body);
            let mut l = l;
            l.compute.retain(|v| !shared.contains(v));
            let mut step = |w: &mut Self, at: At<'_>| w.outer_step(&l, &available, at);
            self.block_loop(&mut body, &mut step, 6);
            self.walk(out, false, &body);
        }
    }

    /// Computes once for a column what all lanes share; the values.
    fn shared_values(&mut self, l: &Loop, available: &[Value], out: &mut String) -> Vec<Value> {
        let (pad, at) = (
            " ".repeat(6),
            At {
                position: "lo",
                lanes: None,
                indent: 6,
            },
        );
        let mut shared: Vec<Value> = Vec::new();
        for &v in &l.compute {
            let operands = self.node.body.operands(v);
            let known = |o: &Value| shared.contains(o) || available.contains(o);
            if !self.differ[v as usize] && !l.save.contains(&v) && operands.iter().all(known) {
                shared.push(v);
            }
        }
        if shared.is_empty() {
            return shared;
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
        for &v in &shared {
            out.push_str(&self.statement(v, at));
        }
        shared
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
            "{pad}const {} v{v} = k{v}[(j - lo) / {}];\n",
            self.vector(self.node.body.value(v).dtype),
            self.lanes
        )
    }

    pub(super) fn outer_step(&mut self, l: &Loop, available: &[Value], at: At<'_>) -> String {
        let mut text = String::new();
        let pad = " ".repeat(at.indent);
        let reduced = l.reduces.iter().map(|&r| self.reduction(r).value);
        let stored = l.stores.iter().map(|&s| self.node.stores[s].value);
        let wanted: BTreeSet<Value> = l
            .compute
            .iter()
            .flat_map(|&v| self.node.body.operands(v))
            .chain(reduced)
            .chain(stored)
            .collect();
        for &v in available.iter().filter(|v| wanted.contains(v)) {
            text.push_str(&self.recall(v, &pad));
        }
        let place = |w: &mut Self, v: Value| {
            let row = w.scratch_row(v);
            let column = w.flat_column("0");
            let block = w.param_block();
            let dtype = w.node.body.value(v).dtype;
            (
                format!(
                    "({} *)(local + {row}) + ({column}) * {block} + (j - lo)",
                    lane_type(dtype)
                ),
                dtype,
            )
        };
        for &v in &l.restore {
            let (place, dtype) = place(self, v);
            let memory = if dtype == DType::Bool {
                DType::I32
            } else {
                dtype
            };
            let load = self.call("load", memory, &[&place]);
            let _ = writeln!(text, "{pad}const {} v{v} = {load};", self.vector(dtype));
        }
        for &v in &l.compute {
            text.push_str(&self.statement(v, at));
            if l.save.contains(&v) {
                let (place, dtype) = place(self, v);
                let memory = if dtype == DType::Bool {
                    DType::I32
                } else {
                    dtype
                };
                let store = self.call("store", memory, &[&place, &format!("v{v}")]);
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
            let lane = format!("[(j - lo) / {}]", self.lanes);
            let update = self.update(
                &r,
                &format!("a{id}{lane}"),
                &format!("q{id}{lane}"),
                &position,
                None,
            );
            let _ = writeln!(text, "{pad}{update}");
        }
        for &s in &l.stores {
            text.push_str(&self.store(s, at));
        }
        text
    }

    /// The width of a scratch row's element in an outer kernel: the block, a multiple of the lanes.
    pub(super) fn param_block(&mut self) -> String {
        self.param(self.block as i64)
    }

    /// A loop over the vectors of a block, full ones and the last.
    pub(super) fn block_loop(
        &mut self,
        out: &mut String,
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
        let _ = writeln!(out, "{pad}{{ long long j = lo;");
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
