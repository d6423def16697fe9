//! What a function of a device keeps to: its threads meet where all of them come, and it waits before it touches memory.

use super::super::block::Block;
use super::super::expr::{Expr, Prefix};
use super::super::function::Function;
use super::super::kernel::{Body, Kernel, Role};
use super::super::name::{Local, Name};
use super::super::stmt::Stmt;
use super::{Fault, Rule, fault, uniform};

/// Checks a function.
pub(super) fn verify(kernel: &Kernel, function: &Body) -> Result<(), Fault> {
    let threads = match function.role {
        Role::Work => kernel.launch.threads,
        Role::Finish => kernel.launch.finish_threads,
        Role::Own(..) => return Ok(()),
    };
    let meets = uniform::verify(&function.block, threads)?;
    if !(1..=1024).contains(&threads) || meets && !threads.is_multiple_of(32) {
        return fault(Rule::Launch, &threads);
    }
    waits(&function.block)
}

/// Checks that memory is touched after the one statement that waits.
fn waits(block: &Block) -> Result<(), Fault> {
    let at = block.iter().position(|stmt| *stmt == Stmt::Wait);
    let (before, after) = block.0.split_at(at.map_or(block.0.len(), |at| at + 1));
    let early = before.iter().find(|stmt| stmt.any(&touches));
    let again = |stmt: &&Stmt| stmt.some(&|inner| *inner == Stmt::Wait);
    let early = early.or_else(|| before.iter().filter(|s| **s != Stmt::Wait).find(again));
    match early.or_else(|| after.iter().find(again)) {
        Some(stmt) => fault(Rule::Waits, &Block::from(stmt.clone())),
        None => Ok(()),
    }
}

/// Whether an expression reads or writes memory of the device, if all that it is made of is not looked at.
fn touches(e: &Expr) -> bool {
    let in_memory = |e: &Expr| {
        let global = |e: &Expr| {
            matches!(
                e,
                Expr::Name(Name::Pointer(_) | Name::Local(Local::Scratch))
            )
        };
        e.any(&global)
    };
    match e {
        Expr::Element(both) => in_memory(&both.0),
        Expr::Prefix(Prefix::Dereference, at) => in_memory(at),
        Expr::Call(call) => matches!(
            call.function,
            Function::LoadChunk(_)
                | Function::StoreChunk(_)
                | Function::AtomicAdd
                | Function::Check
                | Function::Post
                | Function::Before(..)
        ),
        _ => false,
    }
}
