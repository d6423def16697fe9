//! A chunk of a row: where it lies, its loads, its elements, its stores.

use super::kernel::Writer;
use super::reduce::Reduction;
use super::value::{At, memory_type};
use crate::body::{BodyOp, Value};
use crate::emit::Pointer;
use std::fmt::Write as _;

impl Writer<'_> {
    /// A loop over the chunks that a thread keeps, unrolled, so that they stay in registers.
    pub(super) fn turns(&self, threads: u32, chunk: &str) -> String {
        format!(
            "  #pragma unroll\n  for (int k = 0; k < {}; k++) {{\n    const ft_int c = lo + t + k * {threads};\n    \
             if (c >= hi) break;\n{chunk}  }}\n",
            self.shape.turns
        )
    }

    /// Loads what more than one loop of a row needs.
    pub(super) fn keep(&mut self, out: &mut String, threads: u32) {
        let (lanes, turns) = (self.shape.lanes, self.shape.turns);
        let mut chunk = String::new();
        self.decode_chunk(&mut chunk);
        for v in self.shape.kept.clone() {
            let BodyOp::Load { source, dtype, .. } = self.node.body.value(v).op else {
                continue;
            };
            let (ty, pointer) = (memory_type(dtype), self.pointer(source));
            let index = self.indices[&v].at("j");
            let _ = writeln!(out, "  __align__(16) {ty} h{v}[{turns}][{lanes}];");
            let _ = writeln!(chunk, "    ft_load(h{v}[k], {pointer} + {index}, m);");
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
        if first == last {
            let _ = writeln!(out, "    const ft_int j = c * {lanes};");
        } else {
            let line = self.param(self.shape.line as i64);
            let _ = writeln!(
                out,
                "    const ft_int j = c % {line} * {lanes}; ft_int walked = c / {line};"
            );
            for v in (first + 1..last).rev() {
                let n = self.param(self.extents[v] as i64);
                let _ = writeln!(out, "    const ft_int i{v} = walked % {n}; walked /= {n};");
            }
            let _ = writeln!(out, "    const ft_int i{first} = walked;");
        }
        if self.extents[last].is_multiple_of(lanes) {
            let _ = writeln!(out, "    const int m = {lanes};");
        } else {
            let n = self.param(self.extents[last] as i64);
            let _ = writeln!(out, "    const int m = (int)ft_least({n} - j, {lanes});");
        }
    }

    /// Chunk `c` of a row: its whole loads, each element, its stores.
    pub(super) fn chunk(&mut self, s: usize, reductions: &[Reduction]) -> String {
        let (mut out, lanes) = (String::new(), self.shape.lanes);
        let l = self.stages.loops[s].clone();
        self.decode_chunk(&mut out);
        for &v in &l.compute {
            if let BodyOp::Load { source, dtype, .. } = self.node.body.value(v).op
                && self.whole.contains(&v)
                && !self.shape.kept.contains(&v)
            {
                let (ty, pointer) = (memory_type(dtype), self.pointer(source));
                let index = self.indices[&v].at("j");
                let _ = writeln!(
                    out,
                    "    __align__(16) {ty} g{v}[{lanes}]; ft_load(g{v}, {pointer} + {index}, m);"
                );
            }
        }
        for &s in &l.stores {
            let ty = memory_type(self.node.stores[s].dtype);
            let _ = writeln!(out, "    __align__(16) {ty} o{s}[{lanes}];");
        }
        let _ = writeln!(
            out,
            "    #pragma unroll\n    for (int l = 0; l < {lanes}; l++) {{"
        );
        let at = At {
            position: "(j + l)",
            guard: Some("l < m"),
            pad: "      ",
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
            if saved {
                let _ = writeln!(out, "      k{v}[k][l] = v{v};");
            }
        }
        for r in reductions {
            let position = self.position(r.id, at.position);
            self.accumulate(&mut out, r, &position, at.pad);
        }
        for &s in &l.stores {
            let (value, dtype) = (self.node.stores[s].value, self.node.stores[s].dtype);
            let element = self.narrow(dtype, &format!("v{value}"));
            let _ = writeln!(out, "      o{s}[l] = {element};");
        }
        out.push_str("    }\n");
        for &s in &l.stores {
            if self.store_indices[&s].unit && lanes > 1 {
                let place = self.stored_at(s, "j");
                let _ = writeln!(out, "    ft_store(&{place}, o{s}, m);");
            } else {
                let place = self.stored_at(s, at.position);
                let _ = writeln!(
                    out,
                    "    #pragma unroll\n    for (int l = 0; l < {lanes}; l++) if (l < m) {place} = o{s}[l];"
                );
            }
        }
        out
    }

    /// The element a store writes.
    pub(super) fn stored_at(&self, store: usize, position: &str) -> String {
        let write = Pointer::Write(self.node.stores[store].node);
        let pointer = self.pointers.iter().position(|p| *p == write);
        let index = self.store_indices[&store].at(position);
        format!("p{}[{index}]", pointer.unwrap_or_default())
    }

    /// The row-major position in the reduced dimensions, of a reduction that keeps it.
    pub(super) fn position(&mut self, id: Value, at: &str) -> String {
        match &self.node.body.value(id).op {
            BodyOp::Reduce {
                position: Some(e), ..
            } => {
                let e = e.clone();
                self.index(&e).at(at)
            }
            _ => String::new(),
        }
    }
}
