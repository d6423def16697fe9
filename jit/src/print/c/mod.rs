//! The kernel IR as C of GCC and Clang, with their vector extensions.

mod expr;
mod kernel;
mod name;
mod stmt;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use kernel::{INTEGERS, REPORT};
pub use kernel::{Printed, print};
pub(crate) use types::{lane_type, memory_type};

use crate::kernel::ir::{Block, Expr, Name, Type};
use ferrotrace_kernels::support::Need;
use std::collections::BTreeSet;

/// Text that is being written, and what it calls for.
#[derive(Debug, Default)]
struct Printer<'a> {
    out: String,
    needs: Needs<'a>,
    /// Whether an index is checked.
    reports: bool,
    /// Indentation of the next line.
    indent: usize,
}

/// Support functions that were met.
#[derive(Debug)]
enum Needs<'a> {
    Own(BTreeSet<Need>),
    Of(&'a mut BTreeSet<Need>),
}

impl Default for Needs<'_> {
    fn default() -> Self {
        Needs::Own(BTreeSet::new())
    }
}

impl Needs<'_> {
    fn set(&mut self) -> &mut BTreeSet<Need> {
        match self {
            Needs::Own(needs) => needs,
            Needs::Of(needs) => needs,
        }
    }
}

impl<'a> Printer<'a> {
    fn within(needs: &'a mut BTreeSet<Need>, indent: usize) -> Printer<'a> {
        Printer {
            needs: Needs::Of(needs),
            indent,
            ..Printer::default()
        }
    }
}

/// An expression as text, for text that is not taken apart yet.
pub fn expr(e: &Expr, needs: &mut BTreeSet<Need>) -> String {
    let mut printer = Printer::within(needs, 0);
    printer.expr(e);
    printer.out
}

/// Statements as lines with an indentation, for text that is not taken apart yet; and whether an index is checked.
pub fn lines(block: &Block, indent: usize, needs: &mut BTreeSet<Need>) -> String {
    let mut printer = Printer::within(needs, indent);
    printer.block(block);
    printer.out
}

/// A name as text, for text that is not taken apart yet.
pub fn name(name: Name) -> String {
    let mut printer = Printer::default();
    printer.name(name);
    printer.out
}

/// A type as text, for text that is not taken apart yet.
pub fn ty(ty: Type) -> String {
    let mut printer = Printer::default();
    printer.ty(ty);
    printer.out
}
