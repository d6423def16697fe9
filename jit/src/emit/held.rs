//! Outer reductions of gathered rows whose accumulators stay in vector registers while all columns are walked.
//!
//! Several vectors of a block of rows are reduced at once, each by statements of its own: their accumulators are plain
//! variables. What is left of a block, fewer vectors than that, is reduced by arrays of accumulators. Each lane's order
//! of summation is that of the columns either way. Rows that are not gathered are read in longer runs instead.

use super::index::{Index, Step};
use super::kernel::Writer;
use super::pieces::Pieces;
use super::reduce::Reduction;
use super::stage::Loop;
use super::totals::{RUN, declare_turn, turn_of};
use super::value::{At, memory_type};
use crate::body::{BodyOp, Value};
use ferrotrace_runtime::DType;
use std::fmt::Write as _;

/// Most statements of all vectors together.
const STATEMENTS: usize = 64;

impl Writer<'_> {
    /// Vectors of a block that are reduced at once, in half of the registers, if a loop is fit for that: it only reduces,
    /// and little else.
    fn held_vectors(&self, l: &Loop, shared: &[Value]) -> Option<usize> {
        let accumulators: usize = l
            .reduces
            .iter()
            .map(|&r| 1 + usize::from(self.reduction(r).has_position()))
            .sum();
        let only_reduces = l.stores.is_empty() && l.save.is_empty() && l.restore.is_empty();
        if self.is_chunked() || !only_reduces || accumulators == 0 || shared.is_empty() {
            return None;
        }
        let statements = l.compute.iter().filter(|v| !shared.contains(v)).count() + accumulators;
        let vectors = (self.registers / 2 / accumulators).min(STATEMENTS / statements);
        (vectors > 1).then_some(vectors)
    }

    /// The loop over vectors of a block that are reduced in registers, all columns for each; the variable `left` is then
    /// the first position that is left. Whether there is such a loop.
    pub(super) fn held_loop(
        &mut self,
        out: &mut String,
        l: &Loop,
        (available, shared): (&[Value], &[Value]),
        cut: &Pieces,
        (left, sums): (&str, &[Reduction]),
    ) -> bool {
        let Some(vectors) = self.held_vectors(l, shared) else {
            return false;
        };
        let (w, width) = (self.lanes, vectors * self.lanes);
        let mut accumulators = Vec::new();
        for &id in &l.reduces {
            let r = self.reduction(id);
            accumulators.push((format!("a{id}"), self.vector(r.dtype), self.identity(&r)));
            if r.has_position() {
                let unset = self.call("set", DType::I64, &["-1"]);
                accumulators.push((format!("q{id}"), self.vector(DType::I64), unset));
            }
        }
        let _ = writeln!(
            out,
            "    long long {left} = lo;\n    for (; {left} + {width} <= hi; {left} += {width}) {{"
        );
        for (name, ty, start) in &accumulators {
            for c in 0..vectors {
                let _ = writeln!(out, "    {ty} {name}_{c} = {start};");
            }
        }
        let mut body = String::new();
        self.shared_statements(shared, available, &mut body);
        self.gather_ahead(l, shared, cut, (left, Some(width)), &mut body);
        let mut own = l.clone();
        own.compute.retain(|v| !shared.contains(v));
        let at = At {
            position: "j",
            lanes: None,
            indent: 8,
        };
        let before = self.point_at_rows(&own, available, shared, left, &mut body);
        for c in 0..vectors {
            let recalled = self.recalled(&own, available, at);
            let column = self.outer_column(&own, at, &format!("_{c}"));
            let _ = writeln!(
                body,
                "      {{ const long long j = {left} + {};\n{recalled}{column}      }}",
                c * w
            );
        }
        for (v, index) in before {
            self.staged.remove(&v);
            self.indices.insert(v, index);
        }
        if !sums.is_empty() {
            let (moved, turn) = (self.move_held(sums, vectors, left), turn_of(sums));
            let _ = writeln!(
                body,
                "      if (++{turn} >= {RUN}) {{\n      {turn} = 0;\n{moved}      }}"
            );
            out.push_str(&declare_turn(sums));
        }
        self.walk(out, None, &body);
        for (name, ..) in &accumulators {
            for c in 0..vectors {
                let _ = writeln!(out, "    {name}[({left} - lo) / {w} + {c}] = {name}_{c};");
            }
        }
        out.push_str("    }\n");
        true
    }

    /// Has the loads that are runs from one place a column read through a pointer to it, which the compiler cannot take
    /// apart: it would keep the address of every vector's first lane instead, in more registers than there are, and so
    /// many instructions a column leave the processor few columns to read at a time. The indices from before.
    fn point_at_rows(
        &mut self,
        l: &Loop,
        available: &[Value],
        shared: &[Value],
        left: &str,
        out: &mut String,
    ) -> Vec<(Value, Index)> {
        let mut before = Vec::new();
        for &v in &l.compute {
            let BodyOp::Load {
                source,
                mask: None,
                dtype,
                ..
            } = &self.node.body.value(v).op
            else {
                continue;
            };
            let known = |o: &Value| shared.contains(o) || available.contains(o);
            let index = self.indices[&v].clone();
            let is_run = index.step == Step::Unit && !self.staged.contains_key(&v);
            if !is_run || !self.node.body.operands(v).iter().all(known) {
                continue;
            }
            let (pointer, ty) = (self.pointer(*source), memory_type(*dtype));
            let _ = writeln!(
                out,
                "      const {ty} *h{v} = {pointer} + {}; __asm__(\"\" : \"+r\"(h{v}));",
                index.at(left)
            );
            self.staged.insert(v, format!("h{v}"));
            let text = format!("(@ - {left})");
            let step = Step::Unit;
            before.push((v, index));
            self.indices.insert(v, Index { text, step });
        }
        before
    }
}
