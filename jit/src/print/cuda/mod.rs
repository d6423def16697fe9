//! The kernel IR as CUDA C++ without headers.

mod call;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use types::{memory_type, value_type};

use super::{Language, Printer};
use crate::kernel::ir::{Block, Expr};
use ferrotrace_kernels::support::Need;
use std::collections::BTreeSet;

/// An expression as text, for text that is not taken apart yet.
pub fn expr(e: &Expr, needs: &mut BTreeSet<Need>) -> String {
    let mut printer = Printer::within(Language::Cuda, needs, 0);
    printer.expr(e);
    printer.out
}

/// Statements as lines with an indentation, for text that is not taken apart yet.
pub fn lines(block: &Block, indent: usize, needs: &mut BTreeSet<Need>) -> String {
    let mut printer = Printer::within(Language::Cuda, needs, indent);
    printer.block(block);
    printer.out
}
