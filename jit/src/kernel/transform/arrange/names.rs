//! Names that do not tell how many steps a program takes.

use super::order::Order;
use crate::kernel::ir::{Block, Expr, Extent, Name, Stmt};
use rustc_hash::{FxHashMap, FxHashSet};

/// New names for old ones.
pub(super) struct Names<'a> {
    pointers: &'a Order,
    numbers: &'a Order,
    params: &'a Order,
    /// The numbers of values, in the order in which they are met.
    values: FxHashMap<u32, u32>,
}

impl<'a> Names<'a> {
    pub fn new(pointers: &'a Order, numbers: &'a Order, params: &'a Order) -> Names<'a> {
        Names {
            pointers,
            numbers,
            params,
            values: FxHashMap::default(),
        }
    }

    fn of(&mut self, name: Name) -> Name {
        // Positions of arguments are far below 2³².
        let moved = |order: &Order, i: u32| order.new_of(i.into()) as u32;
        match name {
            Name::Param(i) => Name::Param(moved(self.params, i)),
            Name::Pointer(i) => Name::Pointer(moved(self.pointers, i)),
            Name::Streams(i) => Name::Streams(moved(self.pointers, i)),
            Name::Number(i) => Name::Number(moved(self.numbers, i)),
            Name::Of(part, value, copy) => {
                let next = self.values.len() as u32;
                Name::Of(part, *self.values.entry(value).or_insert(next), copy)
            }
            other => other,
        }
    }

    pub fn rename(&mut self, block: &mut Block) {
        block.rewrite(&mut |e| {
            if let Expr::Name(name) = e {
                *name = self.of(*name);
            }
        });
        self.rename_declared(block);
    }

    fn rename_declared(&mut self, block: &mut Block) {
        for stmt in &mut block.0 {
            match stmt {
                Stmt::Declare(v) => v.name = self.of(v.name),
                Stmt::For(l) => l.variable = self.of(l.variable),
                Stmt::Unused(name) | Stmt::Opaque(name) => *name = self.of(*name),
                _ => {}
            }
            for block in stmt.blocks_mut() {
                self.rename_declared(block);
            }
        }
    }
}

/// Removes constants that nothing reads, of those that are other names or numbers.
pub(super) fn remove_unused(block: &mut Block) {
    let mut read = FxHashSet::default();
    block.visit_names(&mut |name| _ = read.insert(name));
    remove(block, &read);
}

fn remove(block: &mut Block, read: &FxHashSet<Name>) {
    let plain = |e: &Expr| matches!(e, Expr::Name(_) | Expr::Integer(_) | Expr::Float(..));
    block.0.retain(|stmt| match stmt {
        Stmt::Declare(v) => {
            let unread = v.constant && v.extent == Extent::One && !read.contains(&v.name);
            !(unread && v.value.as_ref().is_some_and(plain))
        }
        _ => true,
    });
    for stmt in &mut block.0 {
        stmt.blocks_mut().into_iter().for_each(|b| remove(b, read));
    }
}
