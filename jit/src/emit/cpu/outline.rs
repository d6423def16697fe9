//! Which costly functions a kernel calls often enough that they become functions of its own.

use crate::body::{BodyOp, Value};
use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::random::{self, Along};
use crate::emit::cpu::stage::Stages;
use crate::kernel::ir::{Expr, Function, Local, Type, ValueType};
use crate::schedule::FusedNode;
use ferrotrace_kernels::{BinaryOp, ReduceKind, UnaryOp};
use ferrotrace_runtime::DType;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// How many calls of another costly function a draw of random numbers counts as: it is several times as long.
const DRAW: usize = 4;

/// The costly functions that a kernel's stages call at least `least` times, with the types of their arguments.
pub(super) fn outlined(
    node: &FusedNode,
    stages: &Stages,
    least: usize,
    lanes: usize,
) -> FxHashMap<Function, Vec<ValueType>> {
    let mut calls: FxHashMap<Function, (usize, Vec<ValueType>)> = FxHashMap::default();
    let mut count = |function, weight, arguments: Vec<ValueType>| {
        calls.entry(function).or_insert((0, arguments)).0 += weight;
    };
    let columns = stages.loops.iter().flat_map(|l| &l.compute);
    for &v in stages.row.iter().flatten().chain(columns) {
        let operands = match &node.body.value(v).op {
            BodyOp::Unary(op, _) if op.heavy() => 1,
            BodyOp::Binary(op, ..) if op.heavy() => 2,
            BodyOp::Random { dist, dtype, .. } => {
                for along in [Along::Any, Along::Run] {
                    let function = random::function(*dist, *dtype, lanes, along);
                    count(function, DRAW, random::arguments(*dist, lanes, along));
                }
                continue;
            }
            _ => continue,
        };
        let function = function(node, v, lanes);
        let (Function::Unary(_, dtype, lanes)
        | Function::Binary(_, dtype, lanes)
        | Function::Support(_, dtype, lanes)) = function
        else {
            continue;
        };
        count(function, 1, vec![ValueType::Vector(dtype, lanes); operands]);
    }
    calls.retain(|_, (n, _)| *n >= least);
    let types = calls.into_iter().map(|(of, (_, types))| (of, types));
    types.collect()
}

/// The function that computes a unary or binary value.
fn function(node: &FusedNode, v: Value, lanes: usize) -> Function {
    // Lanes are those of one vector register: at most 64.
    let lanes = lanes as u16;
    let dtype = |v: &Value| node.body.value(*v).dtype;
    match &node.body.value(v).op {
        BodyOp::Unary(op, a) if support_function(node, *op, *a) != op.name() => {
            let stem = support_function(node, *op, *a);
            Function::Support(stem, dtype(a).compute(), lanes)
        }
        BodyOp::Unary(op, a) => Function::Unary(*op, dtype(a), lanes),
        BodyOp::Binary(op, a, _) => Function::Binary(*op, dtype(a), lanes),
        _ => unreachable!("only operators are asked for"),
    }
}

impl Writer<'_> {
    /// A whole number that all lanes share.
    fn shared(&self, v: Value) -> Expr {
        match self.node.body.value(v).op {
            BodyOp::Number(n) => Expr::from(Local::Numbers)
                .element(i64::from(n))
                .cast(Type::LONG),
            _ => Expr::from(self.name(v)).element(0),
        }
    }

    /// The operation of a unary or binary value.
    pub(super) fn operation(&self, value: Value) -> Expr {
        let operands = self.node.body.operands(value);
        // Of a vector of numbers that all lanes share a number is any lane.
        let operand = |&o: &Value| match (self.scalars[value as usize], self.scalars[o as usize]) {
            (true, false) => self.set(DType::I64, self.shared(o)),
            _ => self.name(o).into(),
        };
        let names = operands.iter().map(operand);
        let names: SmallVec<[Expr; 2]> = names.collect();
        Expr::call(function(self.node, value, self.lanes), names)
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
