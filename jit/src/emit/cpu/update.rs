//! Scatters: stores at positions that depend on values, joined to what is there. Lanes whose places follow each other
//! are written at once; all others one by one, in order, since two of them may have one place.

use crate::body::{BodyOp, Source, Value};
use crate::emit::cpu::index::Step;
use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::value::{At, element_array};
use crate::emit::{Overwrite, Pointer};
use crate::expr::are_apart;
use crate::kernel::ir::{self, Block, Infix, Local, Name, Stmt, Type, ValueType};
use crate::nest::{Destination, Update};
use crate::schedule::Store;
use ferrotrace_kernels::{BinaryOp, ValueId};
use ferrotrace_runtime::{DType, Layout};
use smallvec::SmallVec;

impl Writer<'_> {
    /// The nodes written over other data, and that data.
    pub(super) fn updates(&self, needed: &[usize]) -> Vec<Overwrite> {
        let of = |&s: &usize| {
            let store = &self.node.stores[s];
            let update = store.update.as_ref()?;
            Some(Overwrite {
                node: store.node,
                base: update.base.clone(),
                window: update.window().cloned(),
            })
        };
        needed.iter().filter_map(of).collect()
    }

    /// The data before and the node may share memory if that is all of the data's, and nothing else reads it
    /// (scheduler L-26), but for elements of a window that are not written, and each written one where it is.
    pub(super) fn in_place_update(
        &self,
        store: &Store,
        update: &Update,
    ) -> Option<(ValueId, Source)> {
        let (source, layout) = &update.base;
        let whole = layout.is_contiguous() && layout.offset() == 0;
        let is_read = self.pointers.contains(&Pointer::Read(*source));
        let fits = match update.target {
            Destination::At(_) => !is_read,
            Destination::Window(_) => !is_read || self.reads_around(*source, layout, store),
        };
        (whole && fits).then_some((store.node, *source))
    }

    /// Whether what the kernel reads of a buffer is not what it writes there, or each element where it is written.
    fn reads_around(&self, source: Source, layout: &Layout, store: &Store) -> bool {
        self.node.body.values().iter().all(|value| match &value.op {
            BodyOp::Load {
                source: from,
                dtype,
                index,
                ..
            } if *from == source => {
                // Read before it is written: in the same iteration, of the only loop.
                let same = *index == store.index && self.stages.loops.len() == 1;
                dtype.size() == store.dtype.size()
                    && (same || are_apart(index, &store.index, layout, &self.extents))
            }
            _ => true,
        })
    }

    /// The values that the place of a scatter's store depends on.
    pub(super) fn place_operands(&self, s: usize) -> SmallVec<[Value; 4]> {
        let at = self.node.stores[s].update.as_ref().and_then(Update::at);
        at.map_or_else(SmallVec::new, |at| self.node.body.operands(at))
    }

    /// The store of a scatter at a position.
    pub(super) fn update_store(
        &mut self,
        out: &mut Block,
        s: usize,
        combine: Option<BinaryOp>,
        pointer: Name,
        at: At<'_>,
    ) {
        let store = &self.node.stores[s];
        let (dtype, v) = (store.dtype, ir::Expr::from(Name::value(store.value)));
        let index = self.store_indices[&s].clone();
        if index.step == Step::Unit {
            let place = || ir::Expr::from(pointer) + index.at(at.position);
            let (load, store) = match at.lanes {
                None => ("load", "store"),
                Some(_) => ("loadn", "storen"),
            };
            let count = || at.lanes.cloned();
            let value = match combine {
                None => v,
                Some(op) => {
                    let old = self.support(load, dtype, [place()].into_iter().chain(count()));
                    self.binary(op, dtype.compute(), old, v)
                }
            };
            let args = [place(), value].into_iter().chain(count());
            return out.push(Stmt::Call(self.support(store, dtype, args)));
        }
        let memory = ValueType::Memory(dtype);
        let all = self.support("store", dtype, [Local::Elements.into(), v]);
        let place = ir::Expr::from(pointer) + index.at(&at.lane());
        let there = || ir::Expr::from(Local::Place).dereference();
        let each = Block::from([
            Stmt::variable(Local::Place, Type::write(memory), place),
            Stmt::assign(there(), joined(combine, dtype, there(), Self::element())),
        ]);
        out.push(Stmt::Scope(Block::from([
            element_array(memory, self.lanes, false),
            Stmt::Call(all),
            self.each_lane(at, each),
        ])));
    }
}

/// An element in memory joined with another.
fn joined(combine: Option<BinaryOp>, dtype: DType, there: ir::Expr, element: ir::Expr) -> ir::Expr {
    let op = match (combine, dtype == DType::Bool) {
        (None, _) => return element,
        (Some(BinaryOp::Maximum | BinaryOp::Minimum), _) => {
            let op = match combine {
                Some(BinaryOp::Maximum) => Infix::Greater,
                _ => Infix::Less,
            };
            let nan = ir::Expr::infix(Infix::Unequal, there.clone(), there.clone());
            let stays = ir::Expr::infix(op, there.clone(), element.clone()).or(nan);
            return stays.choose(there, element);
        }
        (Some(BinaryOp::Mul), true) => Infix::BitAnd,
        (Some(BinaryOp::Mul), false) => Infix::Multiply,
        (_, true) => Infix::BitOr,
        (_, false) => Infix::Add,
    };
    ir::Expr::infix(op, there, element)
}
