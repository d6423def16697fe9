//! Scatters as C: stores at positions that depend on values, joined to what is there. Lanes whose places follow each other
//! are written at once; all others one by one, in order, since two of them may have one place.

use super::Pointer;
use super::index::Step;
use super::kernel::Writer;
use super::value::{At, memory_type};
use crate::body::{Source, Value};
use crate::nest::Update;
use ferrotrace_kernels::{BinaryOp, ValueId};
use ferrotrace_runtime::{DType, Layout};
use smallvec::SmallVec;

impl Writer<'_> {
    /// The nodes written over other data, and that data.
    pub(super) fn updates(&self, needed: &[usize]) -> Vec<(ValueId, Source, Layout)> {
        let of = |&s: &usize| {
            let store = &self.node.stores[s];
            let update = store.update.as_ref()?;
            Some((store.node, update.base.0, update.base.1.clone()))
        };
        needed.iter().filter_map(of).collect()
    }

    /// The data before and the node may share memory if that is all of the data's, and nothing else reads it
    /// (scheduler L-26).
    pub(super) fn in_place_update(
        &self,
        node: ValueId,
        update: &Update,
    ) -> Option<(ValueId, Source)> {
        let (source, layout) = &update.base;
        let whole = layout.is_contiguous() && layout.offset() == 0;
        let is_read = self.pointers.contains(&Pointer::Read(*source));
        (whole && !is_read).then_some((node, *source))
    }

    /// The values that the place of a scatter's store depends on.
    pub(super) fn place_operands(&self, s: usize) -> SmallVec<[Value; 4]> {
        match &self.node.stores[s].update {
            Some(update) => self.node.body.operands(update.at),
            None => SmallVec::new(),
        }
    }

    /// The store of a scatter at a position.
    pub(super) fn update_store(
        &mut self,
        s: usize,
        combine: Option<BinaryOp>,
        pointer: usize,
        at: At<'_>,
    ) -> String {
        let store = &self.node.stores[s];
        let (dtype, v) = (store.dtype, format!("v{}", store.value));
        let pad = " ".repeat(at.indent);
        let index = self.store_indices[&s].clone();
        if index.step == Step::Unit {
            let place = format!("p{pointer} + {}", index.at(at.position));
            let (load, store, count) = match at.lanes {
                None => ("load", "store", vec![]),
                Some(m) => ("loadn", "storen", vec![m]),
            };
            let value = match combine {
                None => v,
                Some(op) => {
                    let args: Vec<&str> =
                        [place.as_str()].into_iter().chain(count.clone()).collect();
                    let old = self.call(load, dtype, &args);
                    op.c_expr(dtype.compute(), self.lanes, &[&old, &v], &mut self.needs)
                }
            };
            let args: Vec<&str> = [place.as_str(), &value].into_iter().chain(count).collect();
            return format!("{pad}{};\n", self.call(store, dtype, &args));
        }
        let count = at
            .lanes
            .map_or_else(|| self.lanes.to_string(), str::to_owned);
        let (c, w) = (memory_type(dtype), self.lanes);
        let lanes = self.call("store", dtype, &["g", &v]);
        let place = index.at(&format!("({} + l)", at.position));
        let joined = match combine {
            None => "g[l]".to_owned(),
            Some(BinaryOp::Maximum) => "*q > g[l] || *q != *q ? *q : g[l]".to_owned(),
            Some(BinaryOp::Minimum) => "*q < g[l] || *q != *q ? *q : g[l]".to_owned(),
            Some(op) => {
                let sign = match (op, dtype == DType::Bool) {
                    (BinaryOp::Mul, true) => "&",
                    (BinaryOp::Mul, false) => "*",
                    (_, true) => "|",
                    (_, false) => "+",
                };
                format!("*q {sign} g[l]")
            }
        };
        format!(
            "{pad}{{ {c} g[{w}]; {lanes}; for (long l = 0; l < {count}; l++) {{ {c} *q = p{pointer} + {place}; *q = {joined}; }} }}\n"
        )
    }
}
