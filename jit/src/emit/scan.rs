//! Scans as C. With lanes over columns, the lanes of each vector are folded in registers and the value carried from the
//! vectors before is joined to all of them; with lanes over rows, an accumulator is stored at every column. Only the
//! carry makes one vector wait for another: one operation.

use super::kernel::Writer;
use super::reduce::Reduction;
use super::stage::Loop;
use super::value::{At, lane_type};
use crate::body::{BodyOp, Value};
use ferrotrace_kernels::ReduceKind;
use std::fmt::Write as _;

impl Writer<'_> {
    /// A scan as the fold it is.
    fn fold_of(&self, v: Value) -> Option<Reduction> {
        match self.node.body.value(v) {
            of @ crate::body::BodyValue {
                op: BodyOp::Scan { kind, value },
                ..
            } => Some(Reduction {
                id: v,
                value: *value,
                kind: *kind,
                dtype: of.dtype,
            }),
            _ => None,
        }
    }

    /// A vector of what no element changes; −0 for sums of floats, which +0 would turn into +0.
    fn scan_identity(&mut self, r: &Reduction) -> String {
        if r.kind == ReduceKind::Sum && r.dtype.is_float() {
            return self.call("set", r.dtype, &["-0.0"]);
        }
        self.identity(r)
    }

    /// Declares what each scan of a loop carries from column to column.
    pub(super) fn declare_carries(&mut self, out: &mut String, l: &Loop) {
        for &v in &l.compute {
            let Some(r) = self.fold_of(v) else { continue };
            let (ty, identity) = (self.vector(r.dtype), self.scan_identity(&r));
            let most = if self.outer {
                format!("[{}]", self.most())
            } else {
                String::new()
            };
            if self.carried.insert(v) {
                let _ = writeln!(out, "    {ty} c{v}{most};");
            }
            let _ = match self.outer {
                true => writeln!(
                    out,
                    "    for (int c = 0; c < {}; c++) c{v}[c] = {identity};",
                    self.most()
                ),
                false => writeln!(out, "    c{v} = {identity};"),
            };
        }
    }

    /// The statements that declare a scan's value at a position, and carry it on.
    pub(super) fn scan(&mut self, v: Value, at: At<'_>) -> String {
        let Some(r) = self.fold_of(v) else {
            return String::new();
        };
        let (pad, ty) = (" ".repeat(at.indent), self.vector(r.dtype));
        let x = format!("v{}", r.value);
        if self.outer {
            let carry = format!("c{v}[{}]", self.vector_of_block());
            let next = self.combine(&r, &carry, &x);
            return format!("{pad}const {ty} v{v} = {next}; {carry} = v{v};\n");
        }
        let identity = self.scan_identity(&r);
        // Lanes past the end must not reach the next run of columns.
        let x = match at.lanes {
            Some(m) => {
                let live = self.live_lanes(m);
                self.call("sel", r.dtype, &[&live, &x, &identity])
            }
            None => x,
        };
        let is_sum = matches!(r.kind, ReduceKind::Sum | ReduceKind::Prod);
        if self.node.exact && is_sum && r.dtype.is_float() {
            let (c, w) = (lane_type(r.dtype), self.lanes);
            let op = if r.kind == ReduceKind::Sum { "+" } else { "*" };
            let set = self.call("set", r.dtype, &["s"]);
            return format!(
                "{pad}{ty} v{v} = {x}; {{ {c} s = c{v}[0]; for (int l = 0; l < {w}; l++) {{ s = s {op} v{v}[l]; v{v}[l] = s; }} c{v} = {set}; }}\n"
            );
        }
        let stem = match r.kind {
            ReduceKind::Prod => "prefix_prod",
            ReduceKind::Any => "prefix_any",
            ReduceKind::All => "prefix_all",
            ReduceKind::Max | ReduceKind::ArgMax => "prefix_max",
            ReduceKind::Min | ReduceKind::ArgMin => "prefix_min",
            ReduceKind::Sum | ReduceKind::Mean => "prefix_sum",
        };
        let prefix = self.call(stem, r.dtype, &[&x, &identity]);
        let (part, carry) = (format!("f{v}"), format!("c{v}"));
        let last = self.call("last", r.dtype, &[&part]);
        let value = self.combine(&r, &carry, &part);
        let next = self.combine(&r, &carry, &last);
        format!("{pad}const {ty} {part} = {prefix}, v{v} = {value};\n{pad}{carry} = {next};\n")
    }
}
