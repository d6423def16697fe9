//! What a kernel reads by positions that steps tell.

use crate::kernel::ir::{Axis, Block, Expr, Infix, Kernel, Local, Name, Part, Stmt};
use std::ops::Range;

/// What is read by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Table {
    Pointers,
    Numbers,
    Params,
    /// What a loop keeps of its steps.
    History,
}

impl Table {
    const ALL: [Table; 4] = [
        Table::Pointers,
        Table::Numbers,
        Table::Params,
        Table::History,
    ];
}

/// A read by position, and the position.
pub(super) fn element(e: &Expr) -> Option<(Table, &Expr)> {
    let Expr::Element(both) = e else { return None };
    let Expr::Name(name) = both.0 else {
        return None;
    };
    let table = match name {
        Name::Local(Local::Pointers) => Table::Pointers,
        Name::Local(Local::Numbers) => Table::Numbers,
        Name::Local(Local::Params) => Table::Params,
        Name::Of(Part::History, ..) => Table::History,
        _ => return None,
    };
    Some((table, &both.1))
}

/// By how much a position grows with the step, and where it begins.
pub(super) fn affine(position: &Expr) -> Option<(i64, i64)> {
    match position {
        Expr::Integer(begin) => Some((0, *begin)),
        Expr::Name(Name::Local(Local::Step)) => Some((1, 0)),
        Expr::Infix(Infix::Add, both) => match (affine(&both.0)?, &both.1) {
            ((by, 0), Expr::Integer(begin)) => Some((by, *begin)),
            _ => None,
        },
        Expr::Infix(Infix::Multiply, both) => match (&both.0, &both.1) {
            (Expr::Name(Name::Local(Local::Step)), Expr::Integer(by)) => Some((*by, 0)),
            _ => None,
        },
        _ => None,
    }
}

/// The position that [`affine`] takes apart.
pub(super) fn position_of(by: i64, begin: Expr) -> Expr {
    let steps = match by {
        0 => return begin,
        1 => Expr::from(Local::Step),
        _ => Expr::from(Local::Step) * by,
    };
    match begin {
        Expr::Integer(0) => steps,
        begin => steps + begin,
    }
}

/// A read by position in every step: the position grows so much with the step, from where it begins.
struct Read {
    table: Table,
    by: i64,
    begin: i64,
    steps: i64,
}

impl Read {
    /// The positions.
    fn range(&self) -> Range<i64> {
        let last = self.begin + self.by * (self.steps - 1).max(0);
        self.begin.min(last)..self.begin.max(last) + 1
    }
}

/// The tables of a kernel.
#[derive(Default)]
pub(super) struct Tables(Vec<Read>);

impl Tables {
    /// The tables of a kernel whose integer arguments have these values; `None` where one is read at positions that steps do not
    /// tell.
    pub fn of(kernel: &Kernel, params: &[i64]) -> Option<Tables> {
        let mut tables = Tables::default();
        for function in &kernel.functions {
            tables.note(&function.block, 0, params)?;
        }
        Some(tables)
    }

    /// Notes what a block reads by position, within a loop of so many steps.
    fn note(&mut self, block: &Block, steps: i64, params: &[i64]) -> Option<()> {
        for stmt in block {
            for e in stmt.expressions() {
                self.note_reads(e, steps)?;
            }
            let steps = match stmt {
                Stmt::For(l) if l.axis == Axis::Step => match l.to {
                    Expr::Name(Name::Param(i)) => *params.get(i as usize)?,
                    _ => return None,
                },
                _ => steps,
            };
            for block in stmt.blocks() {
                self.note(block, steps, params)?;
            }
        }
        Some(())
    }

    fn note_reads(&mut self, e: &Expr, steps: i64) -> Option<()> {
        for part in e.parts() {
            self.note_reads(part, steps)?;
        }
        if let Some((table, position)) = element(e) {
            let (by, begin) = affine(position)?;
            self.0.push(Read {
                table,
                by,
                begin,
                steps,
            });
        }
        Some(())
    }

    /// The positions from the first to the last that is read.
    pub fn span(&self, table: Table) -> Range<i64> {
        let of = self.0.iter().filter(|read| read.table == table);
        let join = |a: Range<i64>, b: Range<i64>| a.start.min(b.start)..a.end.max(b.end);
        of.map(Read::range).reduce(join).unwrap_or_default()
    }

    /// Where reads begin that an argument tells, in their order: not those of the first table, whose parts may take turns, nor
    /// those of the steps before a loop's first.
    pub fn told(&self) -> Vec<(Table, i64)> {
        let mut told = Vec::new();
        let spans = Table::ALL.map(|table| self.span(table).start);
        for read in &self.0 {
            let first = match read.table {
                Table::History => 0..3,
                table => spans[table as usize]..spans[table as usize] + read.by.max(1),
            };
            let begin = (read.table, read.begin);
            if !first.contains(&read.begin) && !told.contains(&begin) {
                told.push(begin);
            }
        }
        told
    }
}
