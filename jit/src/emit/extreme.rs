//! Positions of extremes along contiguous columns: ir R3 with little work for each vector.
//!
//! An accumulator keeps for each lane the best value and the number of the vector it came from, in 32 bits; positions
//! are made of them at the end. NaN is only noticed: where one was, the first is searched for afterwards.

use super::index::Step;
use super::kernel::Writer;
use super::reduce::Reduction;
use super::stage::Loop;
use super::value::At;
use crate::body::{BodyOp, Value};
use ferrotrace_kernels::support::need;
use ferrotrace_kernels::{BinaryOp, ReduceKind, UnaryOp};
use ferrotrace_runtime::DType;
use std::fmt::Write as _;

impl Writer<'_> {
    /// Whether the positions of all the loop's extremes follow from the number of the vector.
    pub(super) fn counts_vectors(&mut self, l: &Loop) -> bool {
        let simple = self.walked_vars().is_empty() && l.restore.is_empty() && l.save.is_empty();
        simple
            && l.reduces
                .iter()
                .all(|&id| match &self.node.body.value(id).op {
                    BodyOp::Reduce {
                        position: Some(e), ..
                    } => {
                        let e = e.clone();
                        self.index(&e).step == Step::Unit
                    }
                    _ => true,
                })
    }

    /// The position of the element at vector position `at`.
    fn position_at(&mut self, id: Value, at: &str) -> String {
        match &self.node.body.value(id).op {
            BodyOp::Reduce {
                position: Some(e), ..
            } => {
                let e = e.clone();
                self.index(&e).at(at)
            }
            _ => at.to_owned(),
        }
    }

    pub(super) fn declare_extreme(&mut self, out: &mut String, r: &Reduction, copies: usize) {
        let (id, ty) = (r.id, self.vector(DType::I32));
        let zero = self.call("set", DType::I32, &["0"]);
        for c in 0..copies {
            let _ = writeln!(out, "    {ty} q{id}_{c} = {zero};");
        }
        if r.dtype.is_float() {
            let _ = writeln!(out, "    {ty} n{id} = {zero};");
        }
    }

    fn beats(&mut self, r: &Reduction, a: &str, b: &str) -> String {
        let op = match r.kind {
            ReduceKind::ArgMax => BinaryOp::Gt,
            _ => BinaryOp::Lt,
        };
        op.c_expr(r.dtype, self.lanes, &[a, b], &mut self.needs)
    }

    fn is_nan(&mut self, r: &Reduction, v: &str) -> String {
        UnaryOp::IsNan.c_expr(r.dtype, self.lanes, &[v], &mut self.needs)
    }

    /// Takes the reduced value of vector `z`, or its first lanes, into accumulator `copy`.
    pub(super) fn update_extreme(
        &mut self,
        r: &Reduction,
        copy: usize,
        lanes: Option<&str>,
    ) -> String {
        let (id, w) = (r.id, self.lanes);
        let mut value = format!("v{}", r.value);
        let mut text = "{ ".to_owned();
        if let Some(m) = lanes {
            let (live, identity) = (self.live_lanes(m), self.identity(r));
            let kept = self.call("sel", r.dtype, &[&live, &value, &identity]);
            let _ = write!(text, "const {} x{id} = {kept}; ", self.vector(r.dtype));
            value = format!("x{id}");
        }
        let (acc, place, mask) = (
            format!("a{id}_{copy}"),
            format!("q{id}_{copy}"),
            format!("t{id}"),
        );
        let better = self.beats(r, &value, &acc);
        let best = self.call("sel", r.dtype, &[&mask, &value, &acc]);
        let at = self.call("sel", DType::I32, &[&mask, "z", &place]);
        let _ = write!(
            text,
            "const i32x{w} {mask} = {better}; {acc} = {best}; {place} = {at};"
        );
        if r.dtype.is_float() {
            let nan = self.is_nan(r, &value);
            let _ = write!(text, " n{id} |= {nan};");
        }
        text.push_str(" }");
        text
    }

    /// Leaves in `w{id}` and `y{id}` the best value and its position.
    pub(super) fn end_extreme(
        &mut self,
        out: &mut String,
        l: &Loop,
        r: &Reduction,
        copies: usize,
        (start, end): (&str, &str),
    ) {
        let (id, w) = (r.id, self.lanes);
        for c in 1..copies {
            let (acc, other) = (format!("a{id}_0"), format!("a{id}_{c}"));
            let better = self.beats(r, &other, &acc);
            let worse = self.beats(r, &acc, &other);
            let best = self.call("sel", r.dtype, &["t", &other, &acc]);
            let at = self.call(
                "sel",
                DType::I32,
                &["t", &format!("(q{id}_{c} + {c})"), &format!("q{id}_0")],
            );
            let _ = writeln!(
                out,
                "    {{ const i32x{w} t = ({better}) | (~({worse}) & (i32x{w})(q{id}_{c} + {c} < q{id}_0)); {acc} = {best}; q{id}_0 = {at}; }}"
            );
        }
        let best = self.horizontal(r, &format!("a{id}_0"));
        let all = self.call("set", r.dtype, &[&format!("w{id}")]);
        let equal = BinaryOp::Eq.c_expr(
            r.dtype,
            w,
            &[&format!("a{id}_0"), &format!("({all})")],
            &mut self.needs,
        );
        let none = self.call("set", DType::I32, &["0x7fffffff"]);
        let vectors = self.call("sel", DType::I32, &["t", &format!("q{id}_0"), &none]);
        let first = self.call("hmin", DType::I32, &["f"]);
        let iota = self.call("iota", DType::I32, &[]);
        let lanes = self.call("sel", DType::I32, &["t", &iota, &none]);
        let lane = self.call("hmin", DType::I32, &[&lanes]);
        let from = self.position_at(id, start);
        let c = super::value::lane_type(r.dtype);
        let _ = write!(
            out,
            "    {c} w{id} = {best}; long y{id};\n    \
             {{ i32x{w} t = {equal}; const i32x{w} f = {vectors}; const int k = {first}; \
             t = (i32x{w})(f == k);\n      y{id} = {from} + (long)k * {w} + {lane}; }}\n"
        );
        if r.dtype.is_float() {
            self.first_nan(out, l, r, (start, end));
        }
    }

    /// Where a NaN was seen, it and its position take the place of the best.
    fn first_nan(&mut self, out: &mut String, l: &Loop, r: &Reduction, (start, end): (&str, &str)) {
        let (id, w) = (r.id, self.lanes);
        let name = format!("ft_any_i32x{w}");
        self.needs.insert(need("ft_any_i32", w));
        let nan = self.is_nan(r, &format!("v{}", r.value));
        let none = self.call("set", DType::I32, &["0x7fffffff"]);
        let iota = self.call("iota", DType::I32, &[]);
        let lanes = self.call("sel", DType::I32, &["t", &iota, &none]);
        let lane = self.call("hmin", DType::I32, &[&lanes]);
        let from = self.position_at(id, "j");
        let take =
            format!("if ({name}(t)) {{ y{id} = {from} + {lane}; w{id} = __builtin_nanf(\"\"); }}");
        let step = |w: &mut Self, lanes: Option<&str>| {
            let at = At {
                position: "j",
                lanes,
                indent: 8,
            };
            l.compute
                .iter()
                .map(|&v| w.statement(v, at))
                .collect::<String>()
        };
        let (full, tail) = (step(self, None), step(self, Some("m")));
        let live = self.live_lanes("m");
        let _ = write!(
            out,
            "    if ({name}(n{id})) {{ y{id} = -1; long long j = {start};\n      \
             for (; y{id} < 0 && j + {w} <= {end}; j += {w}) {{\n{full}        const i32x{w} t = {nan}; {take}\n      }}\n      \
             if (y{id} < 0) {{ const long m = {end} - j;\n{tail}        const i32x{w} t = {nan} & {live}; {take}\n      }}\n    }}\n"
        );
    }
}
