//! The loops of a row whose columns are the vector axis.

use super::index::Step;
use super::kernel::{UNROLL, Writer};
use super::pieces::Pieces;
use super::reduce::{Reduction, better};
use super::stage::Loop;
use super::totals::{RUN, declare_turn, turn_of};
use super::value::{At, lane_type};
use crate::body::{BodyOp, Value};
use ferrotrace_runtime::DType;
use std::fmt::Write as _;

impl Writer<'_> {
    /// Nested loops over the walked columns, `body` inside; the outermost within `bounds`.
    pub(super) fn walk(&mut self, out: &mut String, bounds: Option<(&str, &str)>, body: &str) {
        for (k, v) in self.walked_vars().into_iter().enumerate() {
            let (low, high) = self.bounds(k, v, bounds);
            let _ = writeln!(
                out,
                "    for (long long i{v} = {low}; i{v} < {high}; i{v}++)"
            );
        }
        let _ = writeln!(out, "    {{\n{body}    }}");
    }

    /// The same, with the innermost taken several at a time by a body for `w`, `w + 1`, .. as long as it can.
    pub(super) fn walk_several(
        &mut self,
        out: &mut String,
        bounds: Option<(&str, &str)>,
        (several, bodies): (usize, &str),
        body: &str,
    ) {
        let vars = self.walked_vars();
        for (k, &v) in vars.iter().enumerate() {
            let (low, high) = self.bounds(k, v, bounds);
            if k + 1 < vars.len() {
                let _ = writeln!(
                    out,
                    "    for (long long i{v} = {low}; i{v} < {high}; i{v}++)"
                );
            } else {
                let _ = writeln!(
                    out,
                    "    {{ long long w = {low};\n    for (; w + {several} <= {high}; w += {several}) {{\n{bodies}    }}\n    \
                     for (; w < {high}; w++) {{ const long long i{v} = w;\n{body}    }} }}"
                );
            }
        }
    }

    pub(super) fn is_heavy(&self, v: Value) -> bool {
        match self.node.body.value(v).op {
            BodyOp::Unary(op, _) => op.heavy(),
            BodyOp::Binary(op, ..) => op.heavy(),
            _ => false,
        }
    }

    /// The bounds of the `k`th walked variable.
    fn bounds(&mut self, k: usize, v: usize, bounds: Option<(&str, &str)>) -> (String, String) {
        match bounds {
            Some((low, high)) if k == 0 => (low.to_owned(), high.to_owned()),
            _ => ("0".to_owned(), self.param(self.extents[v] as i64)),
        }
    }

    /// The flat column at vector position `position`.
    pub(super) fn flat_column(&mut self, position: &str) -> String {
        let mut parts = vec![position.to_owned()];
        let mut stride = if self.outer {
            1
        } else {
            self.extents[self.extents.len() - 1] as i64
        };
        for v in self.walked_vars().into_iter().rev() {
            let by = self.param(stride);
            parts.push(format!("i{v}*{by}"));
            stride *= self.extents[v] as i64;
        }
        parts.join(" + ")
    }

    pub(super) fn declare_accumulators(&mut self, out: &mut String, l: &Loop, copies: usize) {
        for &id in &l.reduces {
            let r = self.reduction(id);
            let (ty, identity) = (self.vector(r.dtype), self.identity(&r));
            for c in 0..copies {
                let _ = writeln!(out, "    {ty} a{id}_{c} = {identity};");
            }
            if r.has_position() && self.counting {
                self.declare_extreme(out, &r, copies);
            } else if r.has_position() {
                let set = self.call("set", DType::I64, &["-1"]);
                let _ = writeln!(out, "    {} q{id} = {set};", self.vector(DType::I64));
            }
        }
    }

    /// The place of a value in its scratch row, and the dtype it has there.
    fn scratch_place(&mut self, v: Value, at: At<'_>) -> (String, DType) {
        let row = self.scratch_row(v);
        let column = self.flat_column(at.position);
        let dtype = self.node.body.value(v).dtype;
        let memory = match dtype {
            DType::Bool => DType::I32,
            other => other,
        };
        (
            format!("({} *)(local + {row}) + {column}", lane_type(dtype)),
            memory,
        )
    }

    /// The statement that reads a value back from its scratch row.
    pub(super) fn restore(&mut self, v: Value, at: At<'_>) -> String {
        let (place, memory) = self.scratch_place(v, at);
        let load = self.call("load", memory, &[&place]);
        let (pad, ty) = (
            " ".repeat(at.indent),
            self.vector(self.node.body.value(v).dtype),
        );
        format!("{pad}const {ty} {} = {load};\n", self.name(v))
    }

    /// The statement that puts a value into its scratch row.
    pub(super) fn save(&mut self, v: Value, at: At<'_>) -> String {
        let (place, memory) = self.scratch_place(v, at);
        let name = self.name(v);
        let store = self.call("store", memory, &[&place, &name]);
        format!("{}{store};\n", " ".repeat(at.indent))
    }

    /// One iteration of an inner loop at a vector position.
    pub(super) fn inner_step(&mut self, l: &Loop, at: At<'_>, copy: usize) -> String {
        let mut text = String::new();
        let pad = " ".repeat(at.indent);
        if at.lanes.is_none() {
            text.push_str(&self.prefetches(at));
        }
        for &v in &l.restore {
            text.push_str(&self.restore(v, at));
        }
        for &v in &l.compute {
            text.push_str(&self.statement(v, at));
            if l.save.contains(&v) {
                text.push_str(&self.save(v, at));
            }
        }
        for &id in &l.reduces {
            let r = self.reduction(id);
            if r.has_position() && self.counting {
                let update = self.update_extreme(&r, copy, at.lanes);
                let _ = writeln!(text, "{pad}{update}");
                continue;
            }
            let position = if r.has_position() {
                self.position(id, at)
            } else {
                String::new()
            };
            let update = self.update(
                &r,
                &format!("a{id}_{copy}"),
                &format!("q{id}"),
                &position,
                at.lanes,
            );
            let _ = writeln!(text, "{pad}{update}");
        }
        for &s in &l.stores {
            text.push_str(&self.store(s, at));
        }
        text
    }

    /// The vector of row-major positions in the reduced dimensions.
    pub(super) fn position(&mut self, id: Value, at: At<'_>) -> String {
        let BodyOp::Reduce {
            position: Some(e), ..
        } = &self.node.body.value(id).op
        else {
            return String::new();
        };
        let printed = self.index(&e.clone());
        let set = self.call("set", DType::I64, &[&printed.at(at.position)]);
        match printed.step {
            Step::Unit => format!("({set} + {})", self.call("iota", DType::I64, &[])),
            _ => format!("({set})"),
        }
    }

    /// Declares the totals of a loop's long sums; of columns walked in runs too short for that, the number of runs after
    /// which accumulators move to them.
    fn declare_runs(
        &mut self,
        out: &mut String,
        l: &Loop,
        copies: usize,
    ) -> (Vec<Reduction>, Option<usize>) {
        let extent = self.extents.last().map_or(1, |&n| n);
        let width = copies * self.lanes;
        let (steps, rest) = (extent / width, (extent % width).div_ceil(self.lanes));
        let sums = self.long_sums(l, (steps + rest).saturating_mul(self.walked()));
        self.declare_totals(out, &sums);
        let walked = !self.walked_vars().is_empty();
        if walked && !sums.is_empty() {
            out.push_str(&declare_turn(&sums));
        }
        let short = walked && steps <= RUN;
        let several = short.then(|| RUN / (steps + rest).clamp(1, RUN));
        (sums, several)
    }

    /// The loop of one stage: full vectors, several at once where the body is light, then the rest.
    pub(super) fn inner_loop(&mut self, out: &mut String, l: &Loop) {
        let position = l.reduces.iter().any(|&r| self.reduction(r).has_position());
        self.counting = position && self.counts_vectors(l);
        let light = self.is_light(l);
        let copies = if light && self.lanes > 1 { UNROLL } else { 1 };
        for &v in &l.compute {
            if let BodyOp::Divide(_, b, r) = self.node.body.value(v).op {
                let normal = format!("__builtin_isnormal(v{b}[0]) && __builtin_isnormal(v{r}[0])");
                let _ = writeln!(out, "    const int d{v} = {normal};");
            }
        }
        self.declare_accumulators(out, l, copies);
        let lockstep = copies > 1 && self.in_lockstep(l);
        let (sums, several) = self.declare_runs(out, l, copies);
        let reductions = l.reduces.iter().map(|&r| self.reduction(r));
        let flagged: Vec<Value> = reductions
            .filter(|r| lockstep && self.pairs(r))
            .map(|r| r.id)
            .collect();
        for id in &flagged {
            let _ = writeln!(out, "    unsigned n{id} = 0;");
        }
        self.declare_carries(out, l);
        self.decide_late(out, l);
        let (w, walked) = (self.lanes, !self.walked_vars().is_empty());
        let mut body = String::new();
        let whole_rows = (self.node.reduces() || self.ordered) && !self.split;
        let (start, end) = if walked || whole_rows {
            let n = self.param(*self.extents.last().unwrap_or(&1) as i64);
            ("0".to_owned(), n)
        } else {
            ("lo".to_owned(), "hi".to_owned())
        };
        let _ = writeln!(body, "      long long j = {start};");
        let next = |n: usize| match self.counting {
            true => format!("        z += {n};\n"),
            false => String::new(),
        };
        let (next, next_several) = (next(1), next(copies));
        if self.counting {
            let zero = self.call("set", DType::I32, &["0"]);
            let _ = writeln!(body, "      i32x{w} z = {zero};");
        }
        // Whole runs, then the accumulators' move to the totals.
        let width = copies * w;
        let runs = !sums.is_empty() && several.is_none();
        let stop = match runs {
            true => {
                let _ = writeln!(
                    body,
                    "      while (j + {width} <= {end}) {{\n      const long long stop = ft_min({end}, j + {});",
                    RUN * width
                );
                "stop".to_owned()
            }
            false => end.clone(),
        };
        let moved = self.move_copies(&sums, copies, "      ");
        let run_end = match runs {
            true => format!("{moved}      }}\n"),
            false => String::new(),
        };
        if lockstep {
            body.push_str(&self.lockstep_loop(l, &stop));
            body.push_str(&run_end);
        } else if copies > 1 {
            let _ = writeln!(
                body,
                "      for (; j + {} <= {stop}; j += {}) {{",
                copies * w,
                copies * w
            );
            for c in 0..copies {
                let position = format!("(j + {})", c * w);
                let step = self.inner_step(
                    l,
                    At {
                        position: &position,
                        lanes: None,
                        indent: 10,
                    },
                    c,
                );
                let _ = writeln!(body, "        {{\n{step}        }}");
            }
            let _ = writeln!(body, "{next_several}      }}");
            body.push_str(&run_end);
        } else if self.has_usual_case(l) {
            body.push_str(&self.usual_loop(l, &end));
        }
        let at = At {
            position: "j",
            lanes: None,
            indent: 8,
        };
        let (late, step) = (self.late_steps(l, &[at]), self.inner_step(l, at, 0));
        let (stop, run_end) = match copies {
            1 => (&stop, &*run_end),
            _ => (&end, ""),
        };
        let _ = write!(
            body,
            "      for (; j + {w} <= {stop}; j += {w}) {{\n{late}{step}{next}      }}\n{run_end}"
        );
        if w > 1 {
            let at = At {
                lanes: Some("m"),
                ..at
            };
            let (late, step) = (self.late_steps(l, &[at]), self.inner_step(l, at, 0));
            let _ = writeln!(
                body,
                "      if (j < {end}) {{ const long m = {end} - j;\n{late}{step}      }}"
            );
        }
        if walked && !sums.is_empty() {
            let times = several.unwrap_or(1);
            let (times, turn) = (self.param(times as i64), turn_of(&sums));
            let _ = writeln!(
                body,
                "      if (++{turn} >= {times}) {{\n      {turn} = 0;\n{moved}      }}"
            );
        }
        let bounds = (self.split && walked).then_some(("lo", "hi"));
        self.walk(out, bounds, &body);
        out.push_str(&self.move_copies(&sums, copies, "    "));
        for &id in &l.reduces {
            let r = self.reduction(id);
            if r.has_position() && self.counting {
                self.end_extreme(out, l, &r, copies, (&start, &end));
            } else if r.has_position() {
                let (best, place) = (format!("w{id}"), format!("y{id}"));
                let (acc, at) = (format!("a{id}_0"), format!("q{id}"));
                let choice = self.best_lane(&r, &acc, &at, &best, &place);
                let declared = self.declare_best(&r, &best, &place);
                let _ = writeln!(out, "    {declared}\n    {choice}");
            }
            let long = sums.iter().any(|s| s.id == id);
            self.end_reduction(out, &r, copies, (flagged.contains(&id), long));
        }
        self.counting = false;
    }

    /// The accumulators of a finished loop as one uniform vector `r{id}`, or as a partial result in the scratch.
    /// Of an extreme whose NaN are `flagged`, only the first accumulator may hold one; a `long` sum is in its total.
    fn end_reduction(
        &mut self,
        out: &mut String,
        r: &Reduction,
        copies: usize,
        (flagged, long): (bool, bool),
    ) {
        let id = r.id;
        let slot = self.slot_of(id, "u");
        if r.has_position() {
            let (best, place) = (format!("w{id}"), format!("y{id}"));
            if self.split {
                let c = lane_type(r.dtype);
                let _ = writeln!(
                    out,
                    "    *({c} *){slot} = {best}; ((long *){slot})[1] = {place};"
                );
            } else {
                let set = self.call("set", DType::I64, &[&place]);
                let _ = writeln!(out, "    const {} r{id} = {set};", self.vector(DType::I64));
            }
            return;
        }
        let mut width = if long { 1 } else { copies };
        while width > 1 {
            width /= 2;
            for c in 0..width {
                let (a, b) = (format!("a{id}_{c}"), format!("a{id}_{}", c + width));
                let sum = match flagged {
                    // The second operand stays where one is NaN.
                    true => self.call(r.extreme_of(), r.dtype, &[&b, &a]),
                    false => self.combine(r, &a, &b),
                };
                let _ = writeln!(out, "    a{id}_{c} = {sum};");
            }
        }
        let first = format!("a{id}_0");
        if self.split && r.is_rounded_sum() {
            let (total, low) = match long {
                true => (format!("sum{id}"), Some(format!("low{id}"))),
                false => (first, None),
            };
            let sum = self.wide_sum(r, &total, low.as_deref());
            let _ = writeln!(out, "    {sum}\n    *(double *){slot} = h{id};");
            return;
        }
        if long {
            let both = self.both_parts(r, &format!("sum{id}"), &format!("low{id}"));
            let _ = writeln!(out, "    {first} = {both};");
        }
        let lane = if flagged {
            let stem = format!("h{}", r.extreme_of());
            let (seen, best) = (format!("n{id}"), self.call(&stem, r.dtype, &[&first]));
            let seen = self.call("nans", r.dtype, &[&seen, &first, &first]);
            format!("({seen} ? __builtin_nanf(\"\") : {best})")
        } else {
            self.horizontal(r, &first)
        };
        if self.split {
            let c = lane_type(r.dtype);
            let _ = writeln!(out, "    *({c} *){slot} = {lane};");
        } else {
            let set = self.call("set", r.dtype, &[&lane]);
            let _ = writeln!(out, "    const {} r{id} = {set};", self.vector(r.dtype));
        }
    }

    /// The place of a reduction's partial result, in the scratch of a unit.
    pub(super) fn slot_of(&self, id: Value, unit: &str) -> String {
        let all = self.all_reductions();
        let at = all.iter().position(|r| r.id == id).unwrap_or_default();
        format!("(a->scratch + ({unit} * {} + {at}) * 16)", all.len())
    }

    /// Split reductions: the chunks' partial results in order, then what follows for each row.
    pub(super) fn finish_text(&mut self, out: &mut String, rows: &str, cut: &Pieces) {
        let _ = writeln!(
            out,
            "  for (long long first = 0; first < {rows}; first++) {{\n    long long row = first;"
        );
        self.decode_row(out);
        let _ = writeln!(out, "    const long long lo = 0; (void)lo; (void)row;");
        out.push_str(&self.preamble);
        for s in 0..self.stages.row.len() {
            if s > 0 {
                self.row_stage(out, s, true);
            }
            for id in self.stages.loops[s].reduces.clone() {
                match self.moments.iter().find(|m| m.reduce == id).copied() {
                    Some(m) => self.merge_moment(out, &m, cut),
                    None => self.merge(out, id, cut),
                }
            }
            if s == 0 {
                self.row_stage(out, s, true);
            }
        }
        out.push_str("  }\n");
    }

    /// The row's value of a reduction, from the pieces' in order.
    fn merge(&mut self, out: &mut String, id: Value, cut: &Pieces) {
        let pieces = &cut.pieces;
        let r = self.reduction(id);
        let slot = self.slot_of(id, &format!("(first * {pieces} + c)"));
        let (c, ty) = (lane_type(r.dtype), self.vector(r.dtype));
        if r.has_position() {
            let (best, place) = (format!("w{id}"), format!("y{id}"));
            let _ = writeln!(out, "    {}", self.declare_best(&r, &best, &place));
            let wins = better(&r, "x", "i", &best, &place);
            let _ = writeln!(
                out,
                "    for (long long c = 0; c < {pieces}; c++) {{ {c} x = *({c} *){slot}; long i = ((long *){slot})[1]; if (i >= 0 && {wins}) {{ {best} = x; {place} = i; }} }}"
            );
            let set = self.call("set", DType::I64, &[&place]);
            let _ = writeln!(out, "    const {} r{id} = {set};", self.vector(DType::I64));
            return;
        }
        if r.is_rounded_sum() {
            let set = self.call("set", r.dtype, &[&format!("({c})h{id}")]);
            let _ = writeln!(
                out,
                "    double h{id} = 0;\n    for (long long c = 0; c < {pieces}; c++) h{id} += *(double *){slot};\n    const {ty} r{id} = {set};"
            );
            return;
        }
        let identity = self.identity(&r);
        let set = self.call("set", r.dtype, &[&format!("*({c} *){slot}")]);
        let sum = self.combine(&r, &format!("r{id}"), &format!("({set})"));
        let _ = writeln!(out, "    {ty} r{id} = {identity};");
        let _ = writeln!(
            out,
            "    for (long long c = 0; c < {pieces}; c++) r{id} = {sum};"
        );
    }
}
