//! Prefetching of what the processor cannot foresee: the next row of a kernel that looks at each row more than once,
//! the next piece of a split one, and the rows of a table that indices point to.

use crate::body::{BodyOp, Source, Value};
use crate::emit::cpu::index::Step;
use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::pieces::Pieces;
use crate::emit::cpu::stage::Loop;
use crate::emit::cpu::value::At;
use crate::expr::{Term, Var};
use crate::kernel::ir::{
    self, Block, Expr, Extent, Function, Infix, Local, Name, Stmt, Type, ValueType,
};
use ferrotrace_runtime::DType;

/// Bytes of gathered rows that are on their way at a time: a part of the first cache.
const AHEAD: usize = 1 << 13;

impl Writer<'_> {
    /// Addresses of the next row that the first loop will read, asked for while the second one computes: rows are read
    /// from memory then while arithmetic goes on. Templates over the vector position.
    pub(in crate::emit::cpu) fn prefetch_loads(&mut self) {
        let rows = self.row_vars();
        let (&[row], true) = (rows.as_slice(), self.walked_vars().is_empty()) else {
            return;
        };
        self.prefetch_along(Var(row as u32), 1);
    }

    /// The loop that asks for the next row: the second, which finds its own in the cache and leaves memory idle; but the
    /// first where the second does nothing costly and writes, since reads then get in the way of stores past the cache.
    pub(in crate::emit::cpu) fn prefetching_loop(&self) -> usize {
        match self.stages.loops.get(1) {
            None => 1,
            Some(l) if l.stores.is_empty() => 1,
            Some(l) => usize::from(l.compute.iter().any(|&v| self.is_heavy(v))),
        }
    }

    /// The prefetches of a vector position.
    pub(in crate::emit::cpu) fn prefetches(&self, out: &mut Block, at: At<'_>) {
        let ask = |place: &Expr| prefetch(2, place.at(at.position));
        out.extend(self.ahead.iter().map(ask));
    }

    /// Asks for what the contiguous loads of the first loop read `steps` further along a variable.
    pub(in crate::emit::cpu) fn prefetch_along(&mut self, along: Var, steps: i64) {
        let node = self.node;
        for v in self.stages.loops[0].compute.clone() {
            let BodyOp::Load {
                source,
                index,
                mask: None,
                ..
            } = &node.body.value(v).op
            else {
                continue;
            };
            let ahead = index.coefficient(along) * steps;
            let taken_up = node
                .product
                .is_some_and(|p| Source::Node(p.node) == *source);
            let is_run =
                !taken_up && self.indices[&v].step == Step::Unit && !self.staged.contains_key(&v);
            if is_run && ahead != 0 {
                let place = Expr::from(self.pointer(*source)) + self.indices[&v].expr.clone();
                let ahead = self.param(ahead);
                self.ahead.push(place + ahead);
            }
        }
    }

    /// Outer kernels whose loop gathers rows of a table by an index of each column: asks for the row of a later
    /// column, or of the next row's first ones, before this one is read. `start` is the first position of the vectors at
    /// hand, and `width` how many there are, if not all that are left of the block: the others follow for all columns.
    pub(in crate::emit::cpu) fn prefetch_gathered(
        &mut self,
        l: &Loop,
        shared: &[Value],
        cut: &Pieces,
        (start, width): (Name, Option<usize>),
        out: &mut Block,
    ) {
        let Some(&walked) = self.walked_vars().last() else {
            return;
        };
        let column = Var(walked as u32);
        let row = match self.row_vars().as_slice() {
            &[row] if !self.is_chunked() => Some(Var(row as u32)),
            _ => None,
        };
        for v in l.compute.clone() {
            let node = self.node;
            let BodyOp::Load {
                source,
                index,
                mask: None,
                dtype,
            } = &node.body.value(v).op
            else {
                continue;
            };
            let known = self.index_of(index, shared, column);
            let (Some((check, load)), Step::Unit) = (known, self.indices[&v].step) else {
                continue;
            };
            let BodyOp::Load {
                source: table,
                index: at,
                dtype: position,
                ..
            } = &node.body.value(load).op
            else {
                continue;
            };
            let BodyOp::Check { size, .. } = node.body.value(check).op else {
                continue;
            };
            let row_of_table = index.terms().iter().find_map(|(term, by)| {
                (*term == Term::Value(check)).then_some(by.unsigned_abs() as usize)
            });
            let table_bytes = row_of_table
                .unwrap_or(0)
                .saturating_mul(size.unsigned_abs() as usize)
                .saturating_mul(dtype.size());
            if table_bytes < self.prefetched_table {
                continue;
            }
            let distance = (AHEAD / (self.block * dtype.size()).max(1)).max(1);
            let n = self.param(self.extents[walked] as i64);
            let (distance, size) = (self.param(distance as i64), self.param(size));
            let (pointer, table) = (self.pointer(*source), self.pointer(*table));
            let next = |w: &mut Self, e: &crate::expr::Expr| match row {
                Some(row) if e.coefficient(row) != 0 => Some(w.param(e.coefficient(row))),
                _ => None,
            };
            let (from, by) = (next(self, at), next(self, index));
            let gather = Gather {
                column: Self::loop_name(walked),
                columns: n,
                distance,
                size,
                check,
                position: *position,
                place: later(Expr::from(pointer) + self.indices[&v].expr.clone(), by),
                table: Expr::from(table)
                    .element(later(self.indices[&load].at(&Local::Low.into()), from)),
                pieces: row.map(|_| cut.pieces),
                line: (64 / dtype.size()).max(1),
            };
            out.push(gather.ask(start, width));
        }
    }

    /// The check that a gathering index rests on and the load it checks, if that load moves with the column and lies in
    /// memory as it is.
    fn index_of(
        &self,
        index: &crate::expr::Expr,
        shared: &[Value],
        column: Var,
    ) -> Option<(Value, Value)> {
        let body = &self.node.body;
        let check = index.terms().iter().find_map(|(term, _)| match term {
            Term::Value(v) if shared.contains(v) => Some(*v),
            _ => None,
        })?;
        // Other values that the index rests on are not at hand before the loop.
        if index.any(&mut |term| matches!(term, Term::Value(v) if *v != check)) {
            return None;
        }
        let BodyOp::Check { index, .. } = body.value(check).op else {
            return None;
        };
        let load = match body.value(index).op {
            BodyOp::Cast(from) => from,
            _ => index,
        };
        match &body.value(load).op {
            BodyOp::Load {
                index, mask: None, ..
            } if index.is_affine() && index.coefficient(column) != 0 && shared.contains(&load) => {
                Some((check, load))
            }
            _ => None,
        }
    }
}

/// What asking for a later row of a table takes.
struct Gather {
    /// The variable of the columns, and how many there are.
    column: Name,
    columns: Name,
    /// How many columns later.
    distance: Name,
    /// The rows of the table.
    size: Name,
    /// The checked index of a row.
    check: Value,
    /// The type of an index in memory.
    position: DType,
    /// An element of a table's row, and the index that says which row that is.
    place: Expr,
    table: Expr,
    /// The pieces of a row, where the next row's columns follow.
    pieces: Option<Name>,
    /// Elements of a cache line.
    line: usize,
}

impl Gather {
    /// Asks for the row of a later column, or of the next row's first ones.
    fn ask(self, start: Name, width: Option<usize>) -> Stmt {
        let (n, r, from) = (Local::Length, Local::Later, Local::From);
        let mut block = Block::from([
            Stmt::variable(n, Type::INDEX, Expr::from(self.column) + self.distance),
            Stmt::variable(r, Type::INDEX, 0),
            Stmt::variable(from, Type::INDEX, start),
            Stmt::Unused(r.into()),
        ]);
        let left = |test: Expr, more: &[Stmt]| {
            let mut block = Block::from(Stmt::update(n, Infix::Subtract, self.columns));
            block.extend(more.iter().cloned());
            Stmt::when(test, block)
        };
        let past = Expr::from(n).at_least(self.columns);
        let mut within = Expr::from(n).less(self.columns);
        if let Some(pieces) = self.pieces {
            let next_row = Stmt::assign(r, 1);
            block.push(match width {
                None => left(past, &[next_row]),
                Some(w) => {
                    let more = (Expr::from(start) + w as i64).less(Local::High);
                    let on = Stmt::update(from, Infix::Add, w as i64);
                    let anew = Stmt::assign(from, Local::Low);
                    let this = left(past.clone().and(more.clone()), &[on]);
                    let next = left(past, &[next_row, anew]);
                    either_of(this, next)
                }
            });
            let unit = Expr::from(Local::Unit) + Expr::from(r) * pieces;
            within = within.and(unit.less(Local::End));
        }
        let x = || Expr::from(Local::Element);
        let wrapped = x().less(0).choose(x() + self.size, x());
        let check = Name::value(self.check);
        let mut ask = Block::from([
            Stmt::constant(self.column, Type::INDEX, n),
            Stmt::constant(Local::Element, ValueType::Memory(self.position), self.table),
            Stmt::array(check, Type::LONG, Extent::Array(1.into())),
            Stmt::assign(Expr::from(check).element(0), wrapped),
        ]);
        match width {
            // Past the end of a row it asks in vain, which does no harm.
            Some(w) => {
                let first = self.place.at(&from.into());
                let lines = (0..w).step_by(self.line);
                ask.extend(lines.map(|c| prefetch(3, first.clone() + c as i64)));
            }
            None => {
                let each = prefetch(3, self.place.at(&Local::Column.into()));
                let columns = ir::Loop::over(Local::Column, from, Local::High);
                ask.push(columns.by(self.line).each(each));
            }
        }
        block.push(Stmt::when(within, ask));
        Stmt::Scope(block)
    }
}

/// The first statement, which is conditional, or else the second.
fn either_of(first: Stmt, second: Stmt) -> Stmt {
    match first {
        Stmt::If(test, then, _) => Stmt::If(test, then, second.into()),
        other => Stmt::Scope(Block::from([other, second])),
    }
}

/// A place of this row in a later one.
fn later(place: Expr, by: Option<Name>) -> Expr {
    match by {
        Some(by) => place + Expr::from(Local::Later) * by,
        None => place,
    }
}

fn prefetch(level: u8, place: Expr) -> Stmt {
    Stmt::Call(Expr::call(Function::Prefetch(level), [place]))
}
