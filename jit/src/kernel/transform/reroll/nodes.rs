//! The statements of a block as a graph: which of them compute what others use.

use crate::kernel::ir::{
    Access, Arguments, Axis, Block, Expr, Extent, Local, Name, Part, Prefix, Stmt, Type,
};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};
use std::mem::discriminant;

/// To how many parts of an expression a statement comes.
const STATEMENT: usize = 8;

/// Statements that belong together.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub stmts: Vec<Stmt>,
    /// The variable that they give a value, if they do not write memory.
    pub defines: Option<Defined>,
    /// Their place in the block.
    pub place: usize,
    /// A hash of their form, without names and numbers.
    pub form: u64,
    /// Of how many parts of expressions they are made, each statement counted for some.
    pub weight: usize,
}

/// A variable of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Defined {
    pub name: Name,
    pub ty: Type,
    pub extent: Extent,
}

impl Node {
    /// Notes its form and weight, of its statements as they are.
    pub fn measure(&mut self) {
        let mut form = Form::default();
        self.stmts.iter().for_each(|stmt| form.stmt(stmt));
        (self.form, self.weight) = (form.hash.finish(), form.parts);
    }
}

/// The statements of a block.
pub(super) struct Nodes {
    /// What may be put in another order.
    pub nodes: Vec<Node>,
    /// What stays behind all of it: it changes variables of blocks around this one.
    pub tail: Vec<Stmt>,
}

impl Nodes {
    /// Takes a block apart; `None` where an order is kept that it does not say.
    pub fn of(block: &Block, arguments: &Arguments) -> Option<Nodes> {
        let mut nodes: Vec<Node> = Vec::new();
        let mut tail = Vec::new();
        let mut open: FxHashMap<Name, usize> = FxHashMap::default();
        let mut values = FxHashSet::default();
        for stmt in block {
            if stmt.some(&|s| !is_plain(s)) || stmt.any(&|e| matches!(e, Expr::Text(_))) {
                return None;
            }
            if let Stmt::Declare(variable) = stmt {
                open.insert(variable.name, nodes.len());
                if variable.extent == Extent::One {
                    values.insert(variable.name);
                }
                nodes.push(Node {
                    stmts: vec![stmt.clone()],
                    defines: Some(Defined {
                        name: variable.name,
                        ty: variable.ty,
                        extent: variable.extent,
                    }),
                    place: nodes.len(),
                    form: 0,
                    weight: 0,
                });
                continue;
            }
            let mut changed = changes(stmt, &values).into_iter();
            match (changed.next(), changed.next()) {
                (None, _) if matches!(stmt, Stmt::For(_)) => return None,
                (None, _) => nodes.push(Node {
                    stmts: vec![stmt.clone()],
                    defines: None,
                    place: nodes.len(),
                    form: 0,
                    weight: 0,
                }),
                (Some(name), None) => match open.get(&name) {
                    // A value is finished before another begins.
                    Some(&at) if at + 1 == nodes.len() => nodes[at].stmts.push(stmt.clone()),
                    Some(_) => return None,
                    None => tail.push(stmt.clone()),
                },
                (Some(_), Some(_)) => tail.push(stmt.clone()),
            }
        }
        // What the tail changes is of other blocks, and nothing before it reads that.
        let all = tail.iter().flat_map(|stmt| changes(stmt, &values));
        let changed: FxHashSet<Name> = all.collect();
        if changed.iter().any(|name| open.contains_key(name)) {
            return None;
        }
        // Memory that the kernel writes is read by nobody else, and its own memory not here.
        let reads = |e: &Expr| match e {
            Expr::Name(Name::Local(Local::Memory | Local::Scratch)) => true,
            Expr::Name(name) => changed.contains(name),
            _ => false,
        };
        let written = |e: &Expr| match e {
            Expr::Name(Name::Pointer(i)) => {
                let pointer = arguments.pointers.get(*i as usize);
                pointer.is_none_or(|p| p.access == Access::Write)
            }
            _ => false,
        };
        let values = nodes.iter().filter(|n| n.defines.is_some());
        if values.flat_map(|n| &n.stmts).any(|s| s.any(&written)) {
            return None;
        }
        if nodes.iter().any(|n| n.stmts.iter().any(|s| s.any(&reads))) {
            return None;
        }
        nodes.iter_mut().for_each(Node::measure);
        Some(Nodes { nodes, tail })
    }
}

/// Whether a statement may be put in another place. A loop over steps is left where it is: another around it would hide the
/// number of its turn.
fn is_plain(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::For(l) => l.axis != Axis::Step,
        Stmt::Declare(_) | Stmt::Assign(..) | Stmt::Call(_) | Stmt::If(..) | Stmt::Scope(_) => true,
        _ => false,
    }
}

/// Whether a block is made of more parts of expressions than these, each statement counted for some.
pub(super) fn exceeds(block: &Block, most: usize) -> bool {
    let mut left = most;
    !takes(block, &mut left)
}

/// Takes what a block is made of away from what is left; false where that is less.
fn takes(block: &Block, left: &mut usize) -> bool {
    block.iter().all(|stmt| {
        let parts = stmt.expressions().into_iter().map(Expr::part_count);
        match left.checked_sub(STATEMENT + parts.sum::<usize>()) {
            None => false,
            Some(rest) => {
                *left = rest;
                stmt.blocks().into_iter().all(|block| takes(block, left))
            }
        }
    })
}

/// The variables of blocks around it that a statement changes. `values` are those of its block that are no arrays.
pub(super) fn changes(stmt: &Stmt, values: &FxHashSet<Name>) -> FxHashSet<Name> {
    let mut found = Changes {
        values,
        own: FxHashSet::default(),
        changed: FxHashSet::default(),
    };
    found.stmt(stmt);
    found.changed
}

struct Changes<'a> {
    values: &'a FxHashSet<Name>,
    /// What is declared within the statement.
    own: FxHashSet<Name>,
    changed: FxHashSet<Name>,
}

impl Changes<'_> {
    fn note(&mut self, place: &Expr) {
        if let Some(name) = variable_of(place).filter(|name| !self.own.contains(name)) {
            self.changed.insert(name);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Declare(variable) => {
                self.own.insert(variable.name);
            }
            Stmt::Assign(to, ..) => self.note(to),
            Stmt::For(l) if l.from.is_some() => {
                self.own.insert(l.variable);
            }
            Stmt::For(l) => self.note(&l.variable.into()),
            // A function that gives nothing may fill an array that it is given.
            Stmt::Call(Expr::Call(call)) => {
                let is_value = |e: &Expr| match e {
                    Expr::Name(Name::Of(Part::Value, ..) | Name::Param(_) | Name::Number(_)) => {
                        true
                    }
                    Expr::Name(name) => self.values.contains(name),
                    _ => false,
                };
                let given: Vec<&Expr> = call.arguments.iter().filter(|e| !is_value(e)).collect();
                given.into_iter().for_each(|e| self.note(e));
            }
            _ => {}
        }
        for e in stmt.expressions() {
            e.visit(&mut |part| {
                if let Expr::Prefix(Prefix::Address, of) = part {
                    self.note(of);
                }
            });
        }
        for block in stmt.blocks() {
            block.iter().for_each(|stmt| self.stmt(stmt));
        }
    }
}

/// The variable or array that a place is in, if it is in one and not in memory.
fn variable_of(place: &Expr) -> Option<Name> {
    match place {
        Expr::Name(Name::Pointer(_)) => None,
        Expr::Name(name) => Some(*name),
        Expr::Element(both) => variable_of(&both.0),
        _ => None,
    }
}

/// A hash of what statements are but for names and numbers.
#[derive(Default)]
struct Form {
    hash: FxHasher,
    parts: usize,
}

impl Form {
    fn stmt(&mut self, stmt: &Stmt) {
        self.parts += STATEMENT;
        discriminant(stmt).hash(&mut self.hash);
        if let Stmt::Declare(variable) = stmt {
            variable.ty.hash(&mut self.hash);
        }
        stmt.expressions().into_iter().for_each(|e| self.expr(e));
        for block in stmt.blocks() {
            block.0.len().hash(&mut self.hash);
            block.iter().for_each(|stmt| self.stmt(stmt));
        }
    }

    fn expr(&mut self, e: &Expr) {
        self.parts += 1;
        discriminant(e).hash(&mut self.hash);
        match e {
            Expr::Name(name) => discriminant(name).hash(&mut self.hash),
            Expr::Infix(op, _) => op.hash(&mut self.hash),
            Expr::Prefix(op, _) => op.hash(&mut self.hash),
            Expr::Call(call) => call.function.hash(&mut self.hash),
            _ => {}
        }
        e.parts().into_iter().for_each(|part| self.expr(part));
    }
}
