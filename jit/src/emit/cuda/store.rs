//! The stores of a chunk: its elements are kept in registers, and written by one access where they lie together.

use super::index::Position;
use super::kernel::Writer;
use super::value::memory_type;
use crate::body::{BodyOp, Value};
use crate::emit::Pointer;
use crate::expr::Term;
use std::fmt::Write as _;

impl Writer<'_> {
    /// Declares the elements of a chunk that are stored.
    pub(super) fn declare_stored(&self, out: &mut String, stores: &[usize]) {
        let lanes = self.shape.lanes;
        for &s in stores {
            let ty = match self.packs(s) {
                true => "float",
                false => memory_type(self.node.stores[s].dtype),
            };
            let _ = writeln!(out, "    __align__(16) {ty} o{s}[{lanes}];");
        }
    }

    /// Keeps element `l` of what is stored.
    pub(super) fn element_stored(&mut self, out: &mut String, stores: &[usize]) {
        for &s in stores {
            let element = match self.packs(s) {
                true => format!("v{}", self.unrounded(s)),
                false => {
                    let (value, dtype) = (self.node.stores[s].value, self.node.stores[s].dtype);
                    self.narrow(dtype, &format!("v{value}"))
                }
            };
            let _ = writeln!(out, "      o{s}[l] = {element};");
        }
    }

    /// Writes the elements of a chunk.
    pub(super) fn store_chunk(&self, out: &mut String, stores: &[usize]) {
        let lanes = self.shape.lanes;
        for &s in stores.iter().filter(|&&s| self.packs(s)) {
            let dtype = self.node.stores[s].dtype;
            let _ = writeln!(
                out,
                "    __align__(16) unsigned short n{s}[{lanes}];\n    #pragma unroll\n    \
                 for (int l = 0; l < {lanes}; l += 2) ((unsigned *)n{s})[l >> 1] = ft_pack_{dtype}(o{s}[l], o{s}[l + 1]);"
            );
        }
        for &s in stores {
            let name = if self.packs(s) { "n" } else { "o" };
            if self.store_indices[&s].unit && lanes > 1 {
                let (place, span) = (self.stored_at(s, Position::Chunk), self.span());
                // What is read again, of a row or a table, is to stay in the cache; what is written is not.
                let store = match self.shape.batch > 0 || self.gathers() {
                    true => "ft_store_last",
                    false => "ft_store",
                };
                let _ = writeln!(out, "    {store}(&{place}, {name}{s}, {span});");
            } else {
                let (place, guard) = (self.stored_at(s, Position::Lane), self.guard());
                let _ = writeln!(
                    out,
                    "    #pragma unroll\n    for (int l = 0; l < {lanes}; l++) if ({guard}) {place} = {name}{s}[l];"
                );
            }
        }
    }

    /// Whether whole chunks are read where a row's values say.
    fn gathers(&self) -> bool {
        let valued = |v: &Value| match &self.node.body.value(*v).op {
            BodyOp::Load { index, .. } => index.any(&mut |t| matches!(t, Term::Value(_))),
            _ => false,
        };
        self.whole.iter().any(valued)
    }

    /// Whether a store narrows two elements by one instruction.
    fn packs(&self, store: usize) -> bool {
        self.node.stores[store].dtype.is_half() && self.shape.lanes.is_multiple_of(2)
    }

    /// The stored value before it was rounded to what the store rounds to.
    pub(super) fn unrounded(&self, store: usize) -> Value {
        let store = &self.node.stores[store];
        match self.node.body.value(store.value).op {
            BodyOp::Round(a, half) if half == store.dtype => a,
            _ => store.value,
        }
    }

    /// The element a store writes.
    pub(super) fn stored_at(&self, store: usize, position: Position) -> String {
        let pointer = self.place_of(Pointer::Write(self.node.stores[store].node));
        let index = self.store_indices[&store].at(position);
        format!("{pointer}[{index}]")
    }
}
