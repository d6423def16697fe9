//! A chunk of a row: where it lies, its loads, its elements.

use super::index::Position;
use super::kernel::Writer;
use super::reduce::Reduction;
use super::shape::Form;
use super::stage::Loop;
use super::value::memory_type;
use crate::body::{BodyOp, Value};
use std::fmt::Write as _;

impl Writer<'_> {
    /// A loop over the chunks that a thread keeps, unrolled, so that they stay in registers.
    pub(super) fn turns(&self, threads: u32, chunk: &str) -> String {
        if self.scans {
            return self.scan_turns(chunk);
        }
        let (turns, start) = match self.shape.turns {
            0 => (self.shape.batch, "base"),
            turns => (turns, "lo + t"),
        };
        // All threads have as many chunks, or some have fewer.
        let all = self.shape.chunks.is_multiple_of(turns * threads as usize);
        let whole = self.shape.turns > 0 || self.shape.shifted.is_none();
        let even = all && whole && self.shape.split.is_none();
        let check = if even { "" } else { " if (c < hi) {" };
        let end = if even { "" } else { "  }" };
        format!(
            "  #pragma unroll\n  for (int k = 0; k < {turns}; k++) {{\n    const ft_int c = {start} + k * {threads};{check}\n\
             {chunk}{end}  }}\n"
        )
    }

    /// Loads what more than one loop of a row needs, of the values of this one: the row, or the chunks of some turns.
    pub(super) fn keep(&mut self, out: &mut String, threads: u32, values: &[Value]) {
        let (lanes, turns) = (self.shape.lanes, self.shape.turns.max(self.shape.batch));
        let mut chunk = String::new();
        self.decode_chunk(&mut chunk);
        let (again, span) = (self.reads_again(values), self.span());
        for v in self.shape.kept.clone() {
            if !values.contains(&v) {
                continue;
            }
            let BodyOp::Load { source, dtype, .. } = self.node.body.value(v).op else {
                continue;
            };
            let (ty, pointer) = (memory_type(dtype), self.pointer(source));
            let index = self.indices[&v].at(Position::Chunk);
            let _ = writeln!(out, "  __align__(16) {ty} h{v}[{turns}][{lanes}];");
            let load = if again { "ft_load" } else { "ft_load_last" };
            let _ = writeln!(chunk, "    {load}(h{v}[k], {pointer} + {index}, {span});");
        }
        out.push_str(&self.turns(threads, &chunk));
        for v in &self.shape.saved {
            let _ = writeln!(out, "  float k{v}[{turns}][{lanes}];");
        }
    }

    /// Where chunk `c` of a row lies: the positions of its first element, and how many count.
    pub(super) fn decode_chunk(&mut self, out: &mut String) {
        let lanes = self.shape.lanes;
        let first = self.node.iter.len();
        let last = self.extents.len() - 1;
        if self.shape.tile.is_some() {
            out.push_str("    const ft_int j = c0 + tc;\n");
        } else if self.shape.shifted.is_some() {
            let _ = writeln!(out, "    const ft_int j = c * {lanes} - shift;");
        } else if first == last {
            let _ = writeln!(out, "    const ft_int j = c * {lanes};");
        } else {
            let line = self.divisor(self.shape.line as i64);
            let _ = writeln!(
                out,
                "    const ft_int j = c % {line} * {lanes}; ft_int walked = c / {line};"
            );
            for v in (first + 1..last).rev() {
                let n = self.divisor(self.extents[v] as i64);
                let _ = writeln!(
                    out,
                    "    const ft_int i{v} = walked % {n}; walked = walked / {n};"
                );
            }
            let _ = writeln!(out, "    const ft_int i{first} = walked;");
        }
        let on = match self.scans && !self.full_tiles() {
            true => "!on ? 0 : ",
            false => "",
        };
        if self.has_heads() {
            let n = self.param(self.extents[last] as i64);
            let _ = writeln!(
                out,
                "    const int m = (int)ft_least({n} - j, {lanes}), h = (int)ft_most(-j, 0);"
            );
        } else if self.middle || self.extents[last].is_multiple_of(lanes) {
            let _ = writeln!(out, "    const int m = {on}{lanes};");
        } else {
            let n = self.param(self.extents[last] as i64);
            let _ = writeln!(
                out,
                "    const int m = {on}(int)ft_least({n} - j, {lanes});"
            );
        }
    }

    /// Whether chunks may begin before their row.
    pub(super) fn has_heads(&self) -> bool {
        self.shape.shifted.is_some() && !self.middle
    }

    /// The elements of a chunk that an access is of: where they end and begin.
    pub(super) fn span(&self) -> &'static str {
        match self.has_heads() {
            true => "m, h",
            false => "m",
        }
    }

    /// A loop over a long row whose first and last chunks, alone, may not be whole: the others without a thought of
    /// that, then those two, by the first threads.
    pub(super) fn with_edges(
        &mut self,
        s: usize,
        reductions: &[Reduction],
        middle: impl FnOnce(&mut Self, &str) -> String,
    ) -> String {
        self.middle = true;
        let chunk = self.chunk(s, reductions);
        let text = middle(self, &chunk);
        self.middle = false;
        let kept = std::mem::take(&mut self.shape.kept);
        let edge = self.chunk(s, reductions);
        self.shape.kept = kept;
        let n = self.param(self.extents[self.extents.len() - 1] as i64);
        let lanes = self.shape.lanes;
        format!(
            "  {{\n  const ft_int first = lo, last = (ft_int)((unsigned)({n} + shift - 1) / {lanes});\n  {{\n  const ft_int lo = first + 1, hi = last;\n{text}  }}\n  \
             if (t < 2) {{\n    const ft_int c = t == 0 ? first : last;\n{edge}  }}\n  }}\n"
        )
    }

    /// Chunk `c` of a row.
    pub(super) fn chunk(&mut self, s: usize, reductions: &[Reduction]) -> String {
        let l = self.stages.loops[s].clone();
        self.chunk_of(s, &l, reductions)
    }

    /// The whole loads of a chunk that a thread does not keep.
    pub(super) fn load_chunk(&mut self, out: &mut String, l: &Loop) {
        let (lanes, span) = (self.shape.lanes, self.span());
        for &v in &l.compute {
            if let BodyOp::Load { source, dtype, .. } = self.node.body.value(v).op
                && self.whole.contains(&v)
                && !self.shape.kept.contains(&v)
            {
                let (ty, pointer) = (memory_type(dtype), self.pointer(source));
                let index = self.indices[&v].at(Position::Chunk);
                let _ = writeln!(
                    out,
                    "    __align__(16) {ty} g{v}[{lanes}]; ft_load(g{v}, {pointer} + {index}, {span});"
                );
            }
        }
    }

    /// The chunk of a loop of stage `s`: its whole loads, each element, its stores.
    pub(super) fn chunk_of(&mut self, s: usize, l: &Loop, reductions: &[Reduction]) -> String {
        let (mut out, lanes) = (String::new(), self.shape.lanes);
        let stores = if self.silent { &[][..] } else { &l.stores };
        self.decode_chunk(&mut out);
        // A product's template loads before it calls.
        if self.given.is_none() && !self.gives {
            self.load_chunk(&mut out, l);
        }
        self.declare_stored(&mut out, stores);
        if s == 0 {
            self.declare_elements(&mut out);
        }
        let _ = writeln!(
            out,
            "    #pragma unroll\n    for (int l = 0; l < {lanes}; l++) {{"
        );
        self.element(&mut out, s, l, reductions);
        self.element_stored(&mut out, stores);
        out.push_str("    }\n");
        if s == 0 {
            self.take_pairs(&mut out);
        }
        if s == 0 && !self.moments.is_empty() {
            out.push_str("    counted += m;\n");
        }
        self.store_chunk(&mut out, stores);
        out
    }

    /// What a loop of stage `s` computes and reduces of element `l`.
    fn element(&mut self, out: &mut String, s: usize, l: &Loop, reductions: &[Reduction]) {
        let at = self.in_chunk();
        let first = match self.shape.form {
            Form::Outer { .. } => "lo + ty",
            _ => "lo + t",
        };
        for &v in &l.compute {
            let saved = self.shape.saved.contains(&v);
            let earlier = self.stages.loops[..s]
                .iter()
                .any(|l| l.compute.contains(&v));
            if saved && earlier {
                // What it was computed from is left unused, and so not computed.
                let _ = writeln!(out, "      const float v{v} = k{v}[k][l];");
                continue;
            }
            let text = self.statement(v, at);
            out.push_str(&text);
            self.take_shift(out, v, first);
            if s == 0 {
                self.keep_element(out, v);
            }
            if saved {
                let _ = writeln!(out, "      k{v}[k][l] = v{v};");
            }
        }
        for r in reductions {
            let position = self.position(r.id, at.position);
            self.accumulate(out, r, &position, at.pad);
        }
        if self.gives {
            let _ = writeln!(out, "      out[l] = l < m ? v{} : 0.0f;", self.unrounded(0));
        }
    }

    /// Whether a loop after that of these values reads a row again.
    fn reads_again(&self, values: &[Value]) -> bool {
        let at = self.stages.loops.iter().rposition(|l| l.compute == values);
        let later = at.map_or(&[][..], |at| &self.stages.loops[at + 1..]);
        later
            .iter()
            .any(|l| self.shape.kept.iter().any(|v| l.compute.contains(v)))
            || self.shape.turns > 0
    }

    /// The row-major position in the reduced dimensions, of a reduction that keeps it.
    pub(super) fn position(&mut self, id: Value, at: Position) -> String {
        match &self.node.body.value(id).op {
            BodyOp::Reduce {
                position: Some(e), ..
            } => {
                let e = e.clone();
                self.index(&e).at(at).to_string()
            }
            _ => String::new(),
        }
    }
}
