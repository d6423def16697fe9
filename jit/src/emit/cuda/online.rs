//! Σ exp(x − max x) in the pass that finds the maximum (Milakov and Gimelshein, 2018): a thread sums about the greatest
//! value so far, and scales its sum when it meets a greater one. Long rows are read once less for it.

use super::kernel::Writer;
use super::reduce::{Reduction, tree};
use super::shape::Form;
use super::stage::Stages;
use crate::body::{BodyOp, Value};
use crate::schedule::FusedNode;
use ferrotrace_kernels::{BinaryOp, ReduceKind, UnaryOp};
use ferrotrace_runtime::DType;
use std::fmt::Write as _;

/// A sum of exponentials about a maximum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Online {
    /// max x
    pub max: Value,
    /// Σ exp(x − max x)
    pub sum: Value,
    /// x
    pub of: Value,
}

/// The sums of exponentials that the second loop runs, if it does nothing else. Summed in the first pass, they round
/// otherwise.
pub(super) fn find(node: &FusedNode, stages: &Stages) -> Option<Vec<Online>> {
    let body = &node.body;
    let second = stages.loops.get(1)?;
    if node.exact || second.reduces.is_empty() || !second.stores.is_empty() {
        return None;
    }
    let dependence = node.dependence();
    let of = |&sum: &Value| {
        let BodyOp::Reduce {
            kind: ReduceKind::Sum,
            value,
            ..
        } = body.value(sum).op
        else {
            return None;
        };
        let BodyOp::Unary(UnaryOp::Exp, d) = body.value(value).op else {
            return None;
        };
        let BodyOp::Binary(BinaryOp::Sub, of, max) = body.value(d).op else {
            return None;
        };
        let is_max = matches!(
            body.value(max).op,
            BodyOp::Reduce { kind: ReduceKind::Max, value, .. } if value == of
        );
        // What is the same in every column is no element of the loop.
        let fits = is_max && dependence[of as usize].inner && body.value(sum).dtype == DType::F32;
        (fits && stages.loops[0].reduces.contains(&max)).then_some(Online { max, sum, of })
    };
    second.reduces.iter().map(of).collect()
}

impl Writer<'_> {
    /// The reductions of a loop but maxima and the sums of exponentials about them, which are computed together.
    pub(super) fn single(&self, all: &[Reduction]) -> Vec<Reduction> {
        let paired = |id: Value| self.online.iter().any(|o| o.max == id || o.sum == id);
        all.iter().filter(|r| !paired(r.id)).copied().collect()
    }

    /// The sums of exponentials about a maximum among the reductions of a loop.
    pub(super) fn paired(&self, all: &[Reduction]) -> Vec<Reduction> {
        let paired = |id: Value| self.online.iter().any(|o| o.sum == id);
        all.iter().filter(|r| paired(r.id)).copied().collect()
    }

    /// Declares a thread's maxima, what it sums about, and its sums.
    pub(super) fn declare_pairs(&self, out: &mut String) {
        for Online { max, sum, .. } in &self.online {
            let _ = writeln!(
                out,
                "  float a{max}[1] = {{__int_as_float(0xff800000)}}, z{max} = 0, a{sum}[1] = {{0}};"
            );
            if self.is_long(&self.reduction(*sum)) {
                let _ = writeln!(out, "  float sum{sum} = 0, low{sum} = 0;");
            }
        }
    }

    /// Declares the array that keeps a chunk's elements until their maximum is known.
    pub(super) fn declare_elements(&self, out: &mut String) {
        for o in &self.online {
            let _ = writeln!(out, "    float x{}[{}];", o.max, self.shape.lanes);
        }
    }

    /// Keeps element `l` of a chunk, −∞ where it does not count.
    pub(super) fn keep_element(&self, out: &mut String, value: Value) {
        for o in self.online.iter().filter(|o| o.of == value) {
            let _ = writeln!(
                out,
                "      x{}[l] = {} ? v{value} : __int_as_float(0xff800000);",
                o.max,
                self.guard()
            );
        }
    }

    /// Takes the elements of a chunk into a thread's maxima and sums. Where all are −∞, 0 is summed about instead.
    pub(super) fn take_pairs(&mut self, out: &mut String) {
        let lanes = self.shape.lanes;
        for Online { max, sum, .. } in self.online.clone() {
            let exp = |w: &mut Self, x: &str| w.call("fast_exp", DType::F32, x);
            let scale = exp(self, &format!("a{max}[0] - to"));
            // No sum of such terms, the greatest of which is 1, sees the rounding of exponents far below 0.
            let term = self.call("term_exp", DType::F32, &format!("x{max}[l] - z{max}"));
            let all = tree(&format!("x{max}"), 0, lanes);
            let scaled = match self.is_long(&self.reduction(sum)) {
                true => {
                    format!(
                        "const float s = {scale}; a{sum}[0] *= s; sum{sum} *= s; low{sum} *= s;"
                    )
                }
                false => format!("a{sum}[0] *= {scale};"),
            };
            let _ = write!(
                out,
                "    float y{max} = x{max}[0];\n    #pragma unroll\n    \
                 for (int l = 1; l < {lanes}; l++) y{max} = ft_greatest(y{max}, x{max}[l]);\n    \
                 if (!(y{max} <= a{max}[0])) {{\n      const float most = ft_greatest(a{max}[0], y{max});\n      \
                 const float to = most == __int_as_float(0xff800000) ? 0.0f : most;\n      \
                 {scaled} a{max}[0] = most; z{max} = to;\n    }}\n    \
                 #pragma unroll\n    for (int l = 0; l < {lanes}; l++) x{max}[l] = {term};\n    \
                 a{sum}[0] += {all};\n"
            );
        }
    }

    /// Combines the maxima of a row's threads, then their sums, each scaled to the row's maximum.
    pub(super) fn gather_pairs(&mut self, out: &mut String, form: &Form) {
        if self.online.is_empty() {
            return;
        }
        let all = self.online.clone();
        let (maxima, sums): (Vec<_>, Vec<_>) = all
            .iter()
            .map(|o| (self.reduction(o.max), self.reduction(o.sum)))
            .unzip();
        for o in &all {
            let _ = writeln!(out, "  const float own{} = a{}[0];", o.max, o.max);
        }
        self.gather(out, &maxima, 1, form);
        for sum in &sums {
            self.settle(out, sum, 1);
        }
        for Online { max, sum, .. } in &all {
            let scale = self.call("fast_exp", DType::F32, &format!("own{max} - a{max}[0]"));
            let _ = writeln!(out, "  a{sum}[0] *= {scale};");
        }
        self.gather(out, &sums, 1, form);
    }
}
