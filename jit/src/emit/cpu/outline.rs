//! Costly functions that a kernel calls often become functions of its own, which the compiler does not inline: its time
//! then grows with the calls, and no longer with the calls times the length of the function.

use crate::body::{BodyOp, Value};
use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::stage::Stages;
use crate::kernel::ir::{self, Expr, Name, Role, Stmt, ValueType};
use crate::schedule::FusedNode;
use ferrotrace_kernels::{BinaryOp, ReduceKind, UnaryOp};
use ferrotrace_runtime::DType;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

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
) -> FxHashMap<Function, Option<u32>> {
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
    pub(super) fn operation(&mut self, value: Value) -> Expr {
        let node = self.node;
        let operands = node.body.operands(value);
        let names = operands.iter().map(|&o| Expr::from(self.name(o)));
        let names: SmallVec<[Expr; 2]> = names.collect();
        let function = function(node, value);
        let Some(known) = function.and_then(|f| self.outlined.get(&f).copied()) else {
            return self.inlined(value, names);
        };
        let lanes = self.lanes;
        let typed = |v: Value| ValueType::vector(node.body.value(v).dtype, lanes);
        let result = typed(value);
        let number = known.unwrap_or_else(|| {
            // A kernel has as many such functions as there are costly operators.
            let number = self.outlines.len() as u32;
            let arguments = operands.iter().map(|&o| typed(o)).collect();
            let given = (0..operands.len() as u32).map(|i| Name::Argument(i).into());
            let computed = self.inlined(value, given.collect());
            self.outlines.push(ir::Body {
                role: Role::Own(number, arguments, result),
                block: Stmt::Return(computed).into(),
            });
            self.outlined.extend(function.map(|f| (f, Some(number))));
            number
        });
        Expr::call(ir::Function::Own(number, result), names)
    }

    /// The expression that computes a unary or binary value of these arguments.
    fn inlined(&self, value: Value, args: SmallVec<[Expr; 2]>) -> Expr {
        let (node, lanes) = (self.node, self.lanes as u16);
        let dtype = |v: &Value| node.body.value(*v).dtype;
        let function = match &node.body.value(value).op {
            BodyOp::Unary(op, a) if support_function(node, *op, *a) != op.name() => {
                let stem = support_function(node, *op, *a);
                ir::Function::Support(stem, dtype(a).compute(), lanes)
            }
            BodyOp::Unary(op, a) => ir::Function::Unary(*op, dtype(a), lanes),
            BodyOp::Binary(op, a, _) => ir::Function::Binary(*op, dtype(a), lanes),
            _ => unreachable!("only operators are asked for"),
        };
        Expr::call(function, args)
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
