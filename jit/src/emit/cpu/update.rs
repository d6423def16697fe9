//! Scatters: stores at positions that depend on values, joined to what is there. Lanes whose places follow each other
//! are written at once; all others one by one, in order, since two of them may have one place.

use crate::body::Value;
use crate::emit::cpu::index::Step;
use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::value::{At, element_array};
use crate::emit::update::joined;
use crate::kernel::ir::{self, Block, Local, Name, Stmt, Type, ValueType};
use crate::nest::Update;
use ferrotrace_kernels::BinaryOp;
use smallvec::SmallVec;

impl Writer<'_> {
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
