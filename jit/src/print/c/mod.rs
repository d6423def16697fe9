//! The kernel IR as C of GCC and Clang, with their vector extensions.

mod call;
mod kernel;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use kernel::{INTEGERS, REPORT};
pub use kernel::{Printed, print};
pub(crate) use types::{lane_type, memory_type};

use super::{Language, Printer};
use crate::kernel::ir::{Block, Expr, Name, Type};
use ferrotrace_kernels::support::Need;
use std::collections::BTreeSet;

/// An expression as text, for text that is not taken apart yet.
pub fn expr(e: &Expr, needs: &mut BTreeSet<Need>) -> String {
    let mut printer = Printer::within(Language::C, needs, 0);
    printer.expr(e);
    printer.out
}

/// Statements as lines with an indentation, for text that is not taken apart yet; and whether an index is checked.
pub fn lines(block: &Block, indent: usize, needs: &mut BTreeSet<Need>) -> String {
    let mut printer = Printer::within(Language::C, needs, indent);
    printer.block(block);
    printer.out
}

/// A name as text, for text that is not taken apart yet.
pub fn name(name: Name) -> String {
    let mut printer = Printer::new(Language::C);
    printer.name(name);
    printer.out
}

/// A type as text, for text that is not taken apart yet.
pub fn ty(ty: Type) -> String {
    let mut printer = Printer::new(Language::C);
    printer.ty(ty);
    printer.out
}
