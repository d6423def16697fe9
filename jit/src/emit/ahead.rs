//! Prefetching of what the processor cannot foresee: the next row of a kernel that looks at each row more than once,
//! the next piece of a split one, and the rows of a table that indices point to.

use super::index::Step;
use super::kernel::Writer;
use super::pieces::Pieces;
use super::stage::Loop;
use super::value::{At, memory_type};
use crate::body::{BodyOp, Source, Value};
use crate::expr::{Expr, Term, Var};
use std::fmt::Write as _;

/// Bytes of gathered rows that are on their way at a time: a part of the first cache.
const AHEAD: usize = 1 << 13;

impl Writer<'_> {
    /// Addresses of the next row that the first loop will read, asked for while the second one computes: rows are read
    /// from memory then while arithmetic goes on. Templates over the vector position.
    pub(super) fn look_ahead(&mut self) {
        let rows = self.row_vars();
        let (&[row], true) = (rows.as_slice(), self.walked_vars().is_empty()) else {
            return;
        };
        self.look_ahead_along(Var(row as u32), 1);
    }

    /// The loop that asks for the next row: the second, which finds its own in the cache and leaves memory idle; but the
    /// first where the second does nothing costly and writes, since reads then get in the way of stores past the cache.
    pub(super) fn asking_loop(&self) -> usize {
        match self.stages.loops.get(1) {
            None => 1,
            Some(l) if l.stores.is_empty() => 1,
            Some(l) => usize::from(l.compute.iter().any(|&v| self.is_heavy(v))),
        }
    }

    /// The prefetches of a vector position.
    pub(super) fn prefetches(&self, at: At<'_>) -> String {
        let pad = " ".repeat(at.indent);
        let each = self.ahead.iter().map(|place| {
            let place = place.replace('@', at.position);
            format!("{pad}__builtin_prefetch({place}, 0, 2);\n")
        });
        each.collect()
    }

    /// Asks for what the contiguous loads of the first loop read `steps` further along a variable.
    pub(super) fn look_ahead_along(&mut self, along: Var, steps: i64) {
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
                let (pointer, text) = (self.pointer(*source), self.indices[&v].text.clone());
                let ahead = self.param(ahead);
                self.ahead.push(format!("{pointer} + {text} + {ahead}"));
            }
        }
    }

    /// Outer kernels whose loop gathers rows of a table by an index of each column: asks for the row of a later
    /// column, or of the next row's first ones, before this one is read. `start` is the first position of the vectors at
    /// hand, and `width` how many there are, if not all that are left of the block: the others follow for all columns.
    pub(super) fn gather_ahead(
        &mut self,
        l: &Loop,
        shared: &[Value],
        cut: &Pieces,
        (start, width): (&str, Option<usize>),
        out: &mut String,
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
            let next = |w: &mut Self, e: &Expr| match row.map_or(0, |row| e.coefficient(row)) {
                0 => String::new(),
                c => format!(" + r * {}", w.param(c)),
            };
            let (from, by) = (next(self, at), next(self, index));
            let at = self.indices[&load].at("lo");
            let step = (64 / dtype.size()).max(1);
            let (wrap, more) = match (row, width) {
                (None, _) => (String::new(), String::new()),
                (Some(_), None) => (
                    format!("if (n >= {n}) {{ n -= {n}; r = 1; }} "),
                    format!(" && u + r * {} < end", cut.pieces),
                ),
                (Some(_), Some(w)) => (
                    format!(
                        "if (n >= {n} && {start} + {w} < hi) {{ n -= {n}; from += {w}; }} \
                         else if (n >= {n}) {{ n -= {n}; r = 1; from = lo; }} "
                    ),
                    format!(" && u + r * {} < end", cut.pieces),
                ),
            };
            let address = |position: &str| {
                let place = self.indices[&v].at(position);
                format!("{pointer} + {place}{by}")
            };
            let ask = match width {
                // Past the end of a row it asks in vain, which does no harm.
                Some(w) => {
                    let first = address("from");
                    let places = (0..w).step_by(step);
                    places
                        .map(|c| format!("__builtin_prefetch({first} + {c}, 0, 3); "))
                        .collect::<String>()
                }
                None => format!(
                    "for (long long j = from; j < hi; j += {step}) __builtin_prefetch({}, 0, 3); ",
                    address("j")
                ),
            };
            let _ = write!(
                out,
                "      {{ long long n = i{walked} + {distance}, r = 0, from = {start}; (void)r; {wrap}if (n < {n}{more}) {{\n        \
                 const long long i{walked} = n; const {ty} x = {table}[{at}{from}];\n        \
                 const long v{check}[1] = {{x < 0 ? x + {size} : x}};\n        \
                 {ask}}} }}\n",
                ty = memory_type(*position),
            );
        }
    }

    /// The check that a gathering index rests on and the load it checks, if that load moves with the column and lies in
    /// memory as it is.
    fn index_of(&self, index: &Expr, shared: &[Value], column: Var) -> Option<(Value, Value)> {
        let body = &self.node.body;
        let check = index.terms().iter().find_map(|(term, _)| match term {
            Term::Value(v) if shared.contains(v) => Some(*v),
            _ => None,
        })?;
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
