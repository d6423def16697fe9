//! Several vectors of a row's loop computed together, statement by statement.
//!
//! A function such as exp is a chain in which each operation waits for the one before it. Written one after another,
//! the chains of several vectors overlap as far as the processor's window reaches: 6.5 cycles a vector of exp, summed.
//! Written in turns, they fill the pipelines at once: 5.6.

use super::index::Step;
use super::kernel::{UNROLL, Writer};
use super::outline::support_function;
use super::reduce::Reduction;
use super::stage::Loop;
use super::value::At;
use crate::body::{BodyOp, Value};
use ferrotrace_kernels::{ReduceKind, support};
use ferrotrace_runtime::DType;
use std::fmt::Write as _;

impl Writer<'_> {
    /// The name of a value in the copy of the loop's body that is being written.
    pub(super) fn name(&self, v: Value) -> String {
        match self.copy {
            Some(copy) if self.stepped.contains(&v) => format!("v{v}_{copy}"),
            _ => format!("v{v}"),
        }
    }

    /// The function on four vectors that computes a value, if there is one.
    fn function_of_four(&self, v: Value) -> Option<(String, Value)> {
        let BodyOp::Unary(op, a) = self.node.body.value(v).op else {
            return None;
        };
        let single = self.node.body.value(a).dtype.compute() == DType::F32;
        let stem = format!("four_{}", support_function(self.node, op, a));
        (single && support::has(&format!("ft_{stem}_f32"))).then_some((stem, a))
    }

    /// Whether NaN among the operands of a reduction is looked for in two vectors by one comparison.
    pub(super) fn pairs(&self, r: &Reduction) -> bool {
        let extreme = matches!(r.kind, ReduceKind::Max | ReduceKind::Min);
        extreme && r.dtype.is_float() && r.dtype.size() * self.lanes == 64
    }

    /// Whether `UNROLL` copies of a loop's body are written in turns: where that gains, every operation is one
    /// statement, and the registers suffice.
    pub(super) fn in_lockstep(&self, l: &Loop) -> bool {
        let body = &self.node.body;
        let simple = |v: Value| match &body.value(v).op {
            BodyOp::Load { mask, .. } => {
                let step = self.indices.get(&v).map(|i| i.step);
                mask.is_none()
                    && matches!(step, Some(Step::Unit | Step::Uniform))
                    && body.operands(v).iter().all(|o| !l.compute.contains(o))
            }
            BodyOp::Number(_)
            | BodyOp::Unary(..)
            | BodyOp::Binary(..)
            | BodyOp::Divide(..)
            | BodyOp::Select(..)
            | BodyOp::Cast(_)
            | BodyOp::Round(..) => true,
            _ => false,
        };
        let reductions = || l.reduces.iter().map(|&r| self.reduction(r));
        self.registers >= 32
            && l.stores.is_empty()
            && (l
                .compute
                .iter()
                .any(|&v| self.function_of_four(v).is_some())
                || reductions().any(|r| self.pairs(&r)))
            && l.compute.iter().all(|&v| simple(v))
            && reductions().all(|r| !r.has_position())
    }

    /// The loop over as many vectors at a time as there are copies, up to the column `end`.
    pub(super) fn lockstep_loop(&mut self, l: &Loop, end: &str) -> String {
        let w = self.lanes;
        self.stepped = l.compute.iter().chain(&l.restore).copied().collect();
        let positions: Vec<String> = (0..UNROLL).map(|c| format!("(j + {})", c * w)).collect();
        let at = |copy: usize| At {
            position: &positions[copy],
            lanes: None,
            indent: 8,
        };
        let places: Vec<At<'_>> = (0..UNROLL).map(at).collect();
        let mut step = self.late_steps(l, &places);
        for copy in 0..UNROLL {
            step.push_str(&self.prefetches(at(copy)));
        }
        for &v in &l.restore {
            self.each_copy(&mut step, |w, copy| w.restore(v, at(copy)));
        }
        for &v in &l.compute {
            match self.function_of_four(v) {
                Some((stem, a)) => {
                    let ty = self.vector(DType::F32);
                    self.each_copy(&mut step, |w, _| {
                        format!("        {ty} {} = {};\n", w.name(v), w.name(a))
                    });
                    let mut places = Vec::new();
                    self.each_copy(&mut step, |w, _| {
                        places.push(format!("&{}", w.name(v)));
                        String::new()
                    });
                    let places: Vec<&str> = places.iter().map(String::as_str).collect();
                    let call = self.call(&stem, DType::F32, &places);
                    let _ = writeln!(step, "        {call};");
                }
                None => self.each_copy(&mut step, |w, copy| w.statement(v, at(copy))),
            }
            if l.save.contains(&v) {
                self.each_copy(&mut step, |w, copy| w.save(v, at(copy)));
            }
        }
        for &id in &l.reduces {
            let r = self.reduction(id);
            let value = r.value;
            if !self.pairs(&r) {
                self.each_copy(&mut step, |w, copy| {
                    let update = w.update(&r, &format!("a{id}_{copy}"), "", "", None);
                    format!("        {update}\n")
                });
                continue;
            }
            let stem = r.extreme_of();
            let mut names = Vec::new();
            self.each_copy(&mut step, |w, copy| {
                let acc = format!("a{id}_{copy}");
                names.push(w.name(value));
                let best = w.call(stem, r.dtype, &[&names[copy], &acc]);
                format!("        {acc} = {best};\n")
            });
            for pair in names.chunks(2) {
                let seen = format!("n{id}");
                let seen = self.call("nans", r.dtype, &[&seen, &pair[0], &pair[pair.len() - 1]]);
                let _ = writeln!(step, "        n{id} = {seen};");
            }
        }
        self.stepped.clear();
        let n = UNROLL * w;
        format!("      for (; j + {n} <= {end}; j += {n}) {{\n{step}      }}\n")
    }

    fn each_copy(&mut self, out: &mut String, mut text: impl FnMut(&mut Self, usize) -> String) {
        for copy in 0..UNROLL {
            self.copy = Some(copy);
            let text = text(self, copy);
            out.push_str(&text);
        }
        self.copy = None;
    }

    /// Whether a loop that stores a row is written for the usual case first: a divisor whose reciprocal is taken, and
    /// results that stay in the cache. Tests in each step cost a short row a tenth of its time.
    pub(super) fn has_usual_case(&self, l: &Loop) -> bool {
        let divides = |v: &Value| matches!(self.node.body.value(*v).op, BodyOp::Divide(..));
        let unit = |v: &Value| self.indices.get(v).is_none_or(|i| i.step == Step::Unit);
        l.reduces.is_empty()
            && l.compute.iter().any(divides)
            && l.compute.iter().all(unit)
            && l.compute.len() <= 6
            && self.carried.is_empty()
    }

    /// The loop of the usual case, over several vectors at a time; what is left is for the general one.
    pub(super) fn usual_loop(&mut self, l: &Loop, end: &str) -> String {
        let (w, n) = (self.lanes, UNROLL * self.lanes);
        self.usual = Some(Vec::new());
        let mut steps = String::new();
        for copy in 0..UNROLL {
            let position = format!("(j + {})", copy * w);
            let at = At {
                position: &position,
                lanes: None,
                indent: 10,
            };
            let step = self.inner_step(l, at, 0);
            let _ = writeln!(steps, "        {{\n{step}        }}");
        }
        let mut tests = self.usual.take().unwrap_or_default();
        tests.sort_unstable();
        tests.dedup();
        let test = tests.join(" && ");
        format!("      if ({test}) for (; j + {n} <= {end}; j += {n}) {{\n{steps}      }}\n")
    }
}
