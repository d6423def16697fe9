//! Kernels as source text, a folder for each language.
//!
//! A printer decides nothing: it knows how names, types, functions and operators are spelled, where parentheses are
//! needed, and how lines are laid out. It lists the support functions that it met, since the text that defines them is put
//! before the kernel.
//!
//! Both languages are written as C is: operators, statements and names here, and in the folders what differs: types, calls,
//! and how a kernel begins.

pub mod c;
pub mod cuda;
mod expr;
mod name;
mod stmt;
mod types;

use ferrotrace_kernels::support::Need;
use std::collections::BTreeSet;

/// What is written. Names, statements and operators are those of C in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    C,
    Cuda,
}

/// Text that is being written, and what it calls for.
#[derive(Debug)]
struct Printer<'a> {
    language: Language,
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
    fn new(language: Language) -> Printer<'a> {
        Printer {
            language,
            out: String::new(),
            needs: Needs::default(),
            reports: false,
            indent: 0,
        }
    }

    fn within(language: Language, needs: &'a mut BTreeSet<Need>, indent: usize) -> Printer<'a> {
        Printer {
            needs: Needs::Of(needs),
            indent,
            ..Printer::new(language)
        }
    }
}
