//! Stores as C, past the cache where the run asks for it.

use super::Pointer;
use super::index::{Index, Step};
use super::kernel::Writer;
use super::value::{At, memory_type};
use crate::body::{BodyOp, Source};
use crate::expr::Var;
use ferrotrace_kernels::ValueId;
use ferrotrace_runtime::DType;
use std::collections::HashMap;

impl Writer<'_> {
    /// The store of a value at a position.
    pub(super) fn store(&mut self, s: usize, at: At<'_>) -> String {
        let store = &self.node.stores[s];
        let (dtype, value, id) = (store.dtype, store.value, store.node);
        let pad = " ".repeat(at.indent);
        let pointer = self
            .pointers
            .iter()
            .position(|p| *p == Pointer::Write(id))
            .unwrap_or_default();
        if let Some(update) = store.update.as_ref().filter(|u| u.at().is_some()) {
            return self.update_store(s, update.combine, pointer, at);
        }
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
                if let Some(tests) = &mut self.usual {
                    tests.push(format!("!{flag}"));
                    return format!("{pad}{plain};\n");
                }
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
                let count = at
                    .lanes
                    .map_or_else(|| self.lanes.to_string(), str::to_owned);
                let (c, w) = (memory_type(dtype), self.lanes);
                let call = self.call("store", dtype, &["g", &v]);
                format!(
                    "{pad}{{ {c} g[{w}]; {call}; for (long l = 0; l < {count}; l++) p{pointer}[{}] = g[l]; }}\n",
                    index.at(&position)
                )
            }
        }
    }

    /// The bytes that loads at places known in advance read, each buffer counted once.
    pub(super) fn read_bytes(&self) -> usize {
        let mut sources: HashMap<Source, usize> = HashMap::new();
        for value in self.node.body.values() {
            let BodyOp::Load {
                source,
                index,
                dtype,
                ..
            } = &value.op
            else {
                continue;
            };
            if !index.is_affine() {
                continue;
            }
            let walked = (0..self.extents.len()).filter(|&v| index.coefficient(Var(v as u32)) != 0);
            let elements: usize = walked.map(|v| self.extents[v]).product();
            let bytes = sources.entry(*source).or_default();
            *bytes = elements.saturating_mul(dtype.size()).max(*bytes);
        }
        sources.values().fold(0, |sum, b| sum.saturating_add(*b))
    }

    /// The name of a row's flag that a store bypasses the cache: asked for by the run, and its address aligned.
    pub(super) fn stream_flag(&mut self, pointer: usize, id: ValueId, index: &Index) -> String {
        let name = format!("t{pointer}");
        if self.streams.iter().all(|s| s.1 != id) {
            let wanted = self.param(0);
            self.streams.push((self.params.len() - 1, id, false));
            let line = if self.walked_vars().is_empty() && !self.outer {
                let bytes = self.lanes * self.pointer_types[pointer].size();
                let start = index.at("lo");
                format!(
                    "{wanted} && ((unsigned long)(p{pointer} + {start}) & {}) == 0",
                    bytes - 1
                )
            } else {
                // Only a row that is one run keeps its alignment.
                "0".to_owned()
            };
            self.row_line(&format!("const int {name} = {line};"));
        }
        name
    }
}
