//! Statements that repeat become a loop.
//!
//! A program that takes many steps in a loop of its own records each, and one kernel may compute many of them one after
//! another. Written out, a compiler's time grows with the steps. Here the statements of a block are put in an order in
//! which steps follow one another ([`order`]), the longest repetition is looked for ([`find`]), and the statements of its turns
//! become those of one ([`merge`]): what a turn takes from turns before it is carried in variables or kept in an array, and
//! arguments that differ from turn to turn are read from the tables that they are passed in ([`turns`]).

mod find;
mod merge;
mod nodes;
mod order;
mod turns;

use crate::kernel::ir::{Arguments, Block, Expr, Kernel, Name, Role, Stmt};
use nodes::{Node, Nodes, changes, exceeds};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::Cell;
use turns::Replaced;

/// Fewest turns of a loop.
const TURNS: usize = 3;
/// Most bytes of the arrays of a loop, on a thread's stack.
const MEMORY: usize = 128 << 10;

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rerolled {
    /// How many loops there are.
    pub loops: usize,
    /// Whether memory is written before all of an iteration is read.
    pub stores: bool,
    /// Whether the values of arguments had a part in it.
    pub by_values: bool,
}

/// Makes statements that repeat loops, where that saves so many parts of expressions. `params` are the values of the kernel's
/// integer arguments, to which those are added that loops need; those at `set_later` are not known yet.
pub fn reroll(
    kernel: &mut Kernel,
    params: &mut Vec<i64>,
    set_later: &[usize],
    weight: usize,
) -> Rerolled {
    let mut done = Rerolled::default();
    let mut names = 0;
    let arguments = kernel.arguments.clone();
    for function in &mut kernel.functions {
        if !matches!(function.role, Role::Own(..)) {
            let mut around = Around {
                arguments: &arguments,
                lanes: kernel.lanes,
                params,
                set_later,
                definitions: FxHashMap::default(),
                names,
                tail: Vec::new(),
                compares: Cell::new(false),
                done,
            };
            block(&mut function.block, &mut around, weight);
            (done, names) = (around.done, around.names);
            done.by_values |= done.loops > 0 || around.compares.get();
        }
    }
    // A kernel has far fewer arguments than 2³².
    kernel.arguments.params = params.len() as u32;
    done
}

/// What is known around a block.
struct Around<'a> {
    arguments: &'a Arguments,
    lanes: u16,
    params: &'a mut Vec<i64>,
    set_later: &'a [usize],
    /// What constants of blocks around it are.
    definitions: FxHashMap<Name, Expr>,
    /// Names that were given.
    names: u32,
    /// Statements at the end of the block.
    tail: Vec<Stmt>,
    /// Whether values of arguments were compared.
    compares: Cell<bool>,
    done: Rerolled,
}

impl Around<'_> {
    /// What a constant is, if that is cheap to compute again.
    fn definition(&self, name: Name) -> Option<&Expr> {
        self.definitions.get(&name)
    }

    /// Forgets what is computed of variables that change.
    fn forget(&mut self, changed: &FxHashSet<Name>) {
        let reads = |e: &Expr| matches!(e, Expr::Name(name) if changed.contains(name));
        if !changed.is_empty() {
            self.definitions.retain(|_, value| !value.any(&reads));
        }
    }

    /// Whether names are arguments of one type.
    fn in_one_table(&self, names: &[Name]) -> bool {
        let pointer = |i: u32| self.arguments.pointers.get(i as usize);
        let number = |i: u32| self.arguments.numbers.get(i as usize);
        names.iter().all(|name| match (names[0], *name) {
            (Name::Param(_), Name::Param(_)) => true,
            (Name::Pointer(a), Name::Pointer(b)) => pointer(a) == pointer(b),
            (Name::Number(a), Name::Number(b)) => number(a) == number(b),
            _ => false,
        })
    }

    /// Whether these are integer arguments of one value.
    fn of_one_value(&self, names: &[Name]) -> bool {
        self.compares.set(true);
        let value = |name: &Name| match name {
            Name::Param(i) if !self.set_later.contains(&(*i as usize)) => {
                self.params.get(*i as usize)
            }
            _ => None,
        };
        let first = names.first().and_then(value);
        first.is_some() && names.iter().all(|name| value(name) == first)
    }

    /// An integer argument with this value.
    fn param(&mut self, value: i64) -> Name {
        self.params.push(value);
        Name::Param(self.params.len() as u32 - 1)
    }

    /// Where the integer arguments with these values begin.
    fn table(&mut self, values: &[i64]) -> i64 {
        self.params.extend(values);
        (self.params.len() - values.len()) as i64
    }
}

/// Whether computing a definition again takes as long as reading a variable.
fn is_cheap(e: &Expr) -> bool {
    let leaves = |e: &Expr| {
        matches!(
            e,
            Expr::Name(_) | Expr::Integer(_) | Expr::Infix(..) | Expr::Prefix(..) | Expr::Cast(_)
        )
    };
    e.part_count() <= 24 && !e.any(&|part| !leaves(part))
}

/// Makes what repeats within a block loops.
fn block(all: &mut Block, around: &mut Around<'_>, weight: usize) {
    if !exceeds(all, weight) {
        return;
    }
    let mut declared = Vec::new();
    for stmt in &mut all.0 {
        // In a loop, what is changed at its end is changed before its next turn.
        let changed = changes(stmt, &FxHashSet::default());
        around.forget(&changed);
        match stmt {
            Stmt::Declare(v) => {
                around.definitions.remove(&v.name);
                let value = v.value.as_ref().filter(|e| v.constant && is_cheap(e));
                if let Some(value) = value {
                    around.definitions.insert(v.name, value.clone());
                    declared.push(v.name);
                }
            }
            Stmt::For(l) => block(&mut l.body, around, weight),
            Stmt::If(_, then, otherwise) => {
                block(then, around, weight);
                block(otherwise, around, weight);
            }
            Stmt::While(_, body) | Stmt::Scope(body) => block(body, around, weight),
            _ => {}
        }
    }
    for name in declared {
        around.definitions.remove(&name);
    }
    straight(all, around, weight);
}

/// Makes what repeats in the statements of one block loops.
fn straight(all: &mut Block, around: &mut Around<'_>, weight: usize) {
    if all.0.len() < 2 * TURNS {
        return;
    }
    let Some(Nodes { nodes, tail }) = Nodes::of(all, around.arguments) else {
        return;
    };
    around.tail = tail;
    let before = around.done.loops;
    let pieces = split(order::by_steps(nodes), around, weight);
    if around.done.loops == before {
        return;
    }
    let mut out = Block::new();
    let mut stores: Vec<Node> = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Loop(stmts) => out.0.extend(stmts),
            Piece::Node(node) if node.defines.is_none() => stores.push(node),
            Piece::Node(node) => out.0.extend(node.stmts),
        }
    }
    // What is not within a loop is written behind all that is read.
    stores.sort_by_key(|node| node.place);
    out.0.extend(stores.into_iter().flat_map(|node| node.stmts));
    out.0.append(&mut around.tail);
    *all = out;
}

/// Statements in order.
enum Piece {
    Node(Node),
    Loop(Vec<Stmt>),
}

/// Puts loops in the place of what repeats.
fn split(mut nodes: Vec<Node>, around: &mut Around<'_>, weight: usize) -> Vec<Piece> {
    let mut out = Vec::new();
    loop {
        let mut runs = find::Runs::of(&nodes, weight);
        let rolled = loop {
            let Some(run) = runs.next(&nodes, around) else {
                break None;
            };
            if let Some(made) = turns::rolled(&nodes, run, around) {
                break Some((run, made));
            }
        };
        let Some((run, (mut stmts, replaced))) = rolled else {
            out.extend(nodes.into_iter().map(Piece::Node));
            return out;
        };
        let mut behind = nodes.split_off(run.first + run.period * run.turns);
        let turns = nodes.split_off(run.first);
        around.done.loops += 1;
        around.done.stores |= turns.iter().any(|node| node.defines.is_none());
        behind
            .iter_mut()
            .for_each(|node| replace(&mut node.stmts, &replaced));
        replace(&mut around.tail, &replaced);
        // To the statements before the loop, it and all behind it is the end of the block.
        let counts: Vec<usize> = behind.iter().map(|node| node.stmts.len()).collect();
        let all = behind.iter_mut().flat_map(|node| node.stmts.drain(..));
        let mut end: Vec<Stmt> = stmts.drain(..).chain(all).collect();
        let (count, of_loop) = (end.len(), end.len() - counts.iter().sum::<usize>());
        end.append(&mut around.tail);
        around.tail = end;
        out.extend(split(nodes, around, weight));
        let mut end = around.tail.drain(..count);
        stmts.extend(end.by_ref().take(of_loop));
        for (node, count) in behind.iter_mut().zip(counts) {
            node.stmts.extend(end.by_ref().take(count));
        }
        drop(end);
        out.push(Piece::Loop(stmts));
        nodes = behind;
        nodes.iter_mut().for_each(Node::measure);
    }
}

/// Puts other expressions in the place of variables.
fn replace(stmts: &mut [Stmt], replaced: &Replaced) {
    for stmt in stmts {
        stmt.rewrite(&mut |e| {
            if let Expr::Name(name) = e
                && let Some(other) = replaced.get(name)
            {
                *e = other.clone();
            }
        });
    }
}

#[cfg(test)]
mod tests;
