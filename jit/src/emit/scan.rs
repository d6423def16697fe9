//! Scans as C. With lanes over columns, the lanes of each vector are folded in registers and the value carried from the
//! vectors before is joined to all of them; with lanes over rows, an accumulator is stored at every column. Only the
//! carry makes one vector wait for another: one operation.

use super::kernel::Writer;
use super::reduce::Reduction;
use super::stage::Loop;
use super::totals::RUN;
use super::value::{At, lane_type};
use crate::body::{BodyOp, Value};
use ferrotrace_kernels::ReduceKind;
use ferrotrace_runtime::DType;
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
            let first = self.carried.insert(v);
            if self.scans_in_order(&r) || self.owes_wide(&r) {
                let wide = match self.outer {
                    true => self.vector(DType::F64),
                    false => "double".to_owned(),
                };
                if first {
                    let _ = writeln!(out, "    {wide} c{v}{most};");
                }
                let zero = match self.outer {
                    true => self.call("set", DType::F64, &["-0.0"]),
                    false => "-0.0".to_owned(),
                };
                let _ = match self.outer {
                    true => writeln!(
                        out,
                        "    for (int c = 0; c < {}; c++) c{v}[c] = {zero};",
                        self.most()
                    ),
                    false => writeln!(out, "    c{v} = {zero};"),
                };
                continue;
            }
            let mut names = vec![(format!("c{v}"), identity)];
            if self.owes(&r) {
                names.push((format!("owed{v}"), self.identity(&r)));
            }
            for (name, start) in names {
                if first {
                    let _ = writeln!(out, "    {ty} {name}{most};");
                }
                let _ = match self.outer {
                    true => writeln!(
                        out,
                        "    for (int c = 0; c < {}; c++) {name}[c] = {start};",
                        self.most()
                    ),
                    false => writeln!(out, "    {name} = {start};"),
                };
            }
        }
    }

    /// Whether sums of binary32 are those of eager mode: one element after the other, kept in binary64.
    fn scans_in_order(&self, r: &Reduction) -> bool {
        self.node.exact && r.kind == ReduceKind::Sum && r.dtype == DType::F32
    }

    /// Whether a running sum takes in so much that it keeps what its additions round.
    fn owes(&self, r: &Reduction) -> bool {
        let terms = match self.outer {
            true => self.walked(),
            false => self.node.cols() / self.lanes,
        };
        !self.node.exact && r.is_rounded_sum() && terms > RUN
    }

    /// Whether what it carries from one vector of columns to the next is kept in binary64: one addition then makes one
    /// vector wait for another, as without.
    fn owes_wide(&self, r: &Reduction) -> bool {
        !self.outer && self.owes(r) && r.dtype == DType::F32
    }

    /// The statements that declare a scan's value at a position, and carry it on.
    pub(super) fn scan(&mut self, v: Value, at: At<'_>) -> String {
        let Some(r) = self.fold_of(v) else {
            return String::new();
        };
        let (pad, ty) = (" ".repeat(at.indent), self.vector(r.dtype));
        let x = format!("v{}", r.value);
        if self.outer {
            let block = self.vector_of_block();
            let carry = format!("c{v}[{block}]");
            if self.scans_in_order(&r) {
                let wide = self.vector(DType::F64);
                return format!(
                    "{pad}{carry} += __builtin_convertvector({x}, {wide}); const {ty} v{v} = __builtin_convertvector({carry}, {ty});\n"
                );
            }
            if self.owes(&r) {
                let owed = format!("owed{v}[{block}]");
                let value = self.call("behind", r.dtype, &[&carry, &owed, &x]);
                let next = [format!("&{carry}"), format!("&{owed}"), x];
                let next = self.call("carry", r.dtype, &[&next[0], &next[1], &next[2]]);
                return format!("{pad}const {ty} v{v} = {value}; {next};\n");
            }
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
        if self.scans_in_order(&r) {
            let (c, w) = (lane_type(r.dtype), self.lanes);
            return format!(
                "{pad}{ty} v{v} = {x}; for (int l = 0; l < {w}; l++) {{ c{v} += v{v}[l]; v{v}[l] = ({c})c{v}; }}\n"
            );
        }
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
        if self.owes_wide(&r) {
            let before = self.call("set", r.dtype, &[&format!("(float){carry}")]);
            let value = self.combine(&r, &before, &part);
            let last = self.lanes - 1;
            return format!(
                "{pad}const {ty} {part} = {prefix}, v{v} = {value};\n{pad}{carry} += (double){part}[{last}];\n"
            );
        }
        let last = self.call("last", r.dtype, &[&part]);
        if self.owes(&r) {
            let owed = format!("owed{v}");
            let value = self.call("behind", r.dtype, &[&carry, &owed, &part]);
            let (carry, owed) = (format!("&{carry}"), format!("&{owed}"));
            let next = self.call("carry", r.dtype, &[&carry, &owed, &last]);
            return format!("{pad}const {ty} {part} = {prefix}, v{v} = {value};\n{pad}{next};\n");
        }
        let value = self.combine(&r, &carry, &part);
        let next = self.combine(&r, &carry, &last);
        format!("{pad}const {ty} {part} = {prefix}, v{v} = {value};\n{pad}{carry} = {next};\n")
    }
}
