//! Costly functions that a kernel calls often become functions of its own, which the compiler does not inline: its time
//! then grows with the calls, and no longer with the calls times the length of the function.

use super::kernel::Writer;
use super::stage::Stages;
use crate::body::{BodyOp, Value};
use crate::schedule::FusedNode;
use ferrotrace_kernels::{BinaryOp, ReduceKind, UnaryOp};
use ferrotrace_runtime::DType;
use rustc_hash::FxHashMap;

/// A function of values of one dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Function {
    /// Of one argument, with the support function's name: an operator may have several.
    Unary(UnaryOp, &'static str, DType),
    /// Of two.
    Binary(BinaryOp, DType),
}

/// The functions that a kernel's stages call at least `least` times, each with the number of its definition once that is
/// written.
pub(super) fn outlined(
    node: &FusedNode,
    stages: &Stages,
    least: usize,
) -> FxHashMap<Function, Option<usize>> {
    let mut calls: FxHashMap<Function, usize> = FxHashMap::default();
    let columns = stages.loops.iter().flat_map(|l| &l.compute);
    for &v in stages.row.iter().flatten().chain(columns) {
        if let Some(function) = function(node, v) {
            *calls.entry(function).or_default() += 1;
        }
    }
    calls.retain(|_, n| *n >= least);
    calls.into_keys().map(|f| (f, None)).collect()
}

/// The costly function that computes a value, if one does.
fn function(node: &FusedNode, v: Value) -> Option<Function> {
    let dtype = |v: &Value| node.body.value(*v).dtype;
    match &node.body.value(v).op {
        BodyOp::Unary(op, a) if op.heavy() => Some(Function::Unary(
            *op,
            support_function(node, *op, *a),
            dtype(a),
        )),
        BodyOp::Binary(op, a, _) if op.heavy() => Some(Function::Binary(*op, dtype(a))),
        _ => None,
    }
}

impl Writer<'_> {
    /// The operation of a unary or binary value: an expression, or a call of an outlined function that computes it.
    pub(super) fn operation(&mut self, value: Value) -> String {
        let node = self.node;
        let operands = node.body.operands(value);
        let names: Vec<String> = operands.iter().map(|&o| self.name(o)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let function = function(node, value);
        let Some(known) = function.and_then(|f| self.outlined.get(&f).copied()) else {
            return self.inlined(value, &names);
        };
        let number = known.unwrap_or_else(|| {
            let number = self.outlines.len();
            let arguments = ["x", "y"];
            let typed: Vec<String> = operands
                .iter()
                .zip(arguments)
                .map(|(&o, x)| format!("{} {x}", self.vector(node.body.value(o).dtype)))
                .collect();
            let result = self.vector(node.body.value(value).dtype);
            let computed = self.inlined(value, &arguments[..operands.len()]);
            self.outlines.push(format!(
                "static __attribute__((noinline)) {result} FT_SYMBOL_f{number}({}) {{ return {computed}; }}\n",
                typed.join(", ")
            ));
            self.outlined.extend(function.map(|f| (f, Some(number))));
            number
        });
        format!("FT_SYMBOL_f{number}({})", names.join(", "))
    }

    /// The expression that computes a unary or binary value of these arguments.
    fn inlined(&mut self, value: Value, args: &[&str]) -> String {
        let node = self.node;
        let dtype = |v: &Value| node.body.value(*v).dtype;
        match &node.body.value(value).op {
            BodyOp::Unary(op, a) if support_function(node, *op, *a) != op.name() => {
                self.call(support_function(node, *op, *a), dtype(a).compute(), args)
            }
            BodyOp::Unary(op, a) => op.c_expr(dtype(a), self.lanes, args, &mut self.needs),
            BodyOp::Binary(op, a, _) => op.c_expr(dtype(a), self.lanes, args, &mut self.needs),
            _ => String::new(),
        }
    }
}

/// The support function of an operator of one operand.
pub(super) fn support_function(node: &FusedNode, op: UnaryOp, operand: Value) -> &'static str {
    let nonpositive = || match node.body.value(operand).op {
        BodyOp::Binary(BinaryOp::Sub, a, b) => matches!(
            node.body.value(b).op,
            BodyOp::Reduce { kind: ReduceKind::Max, value, .. } if value == a
        ),
        _ => false,
    };
    match op {
        UnaryOp::Exp if nonpositive() => "exp_of_nonpositive",
        op => op.name(),
    }
}
