//! Costly functions become functions of the kernel's own, which the compiler does not inline: its time then grows with
//! the calls, and no longer with the calls times the length of the function.

use crate::kernel::ir::{Body, Call, Expr, Function, Kernel, Name, Role, Stmt, Type, ValueType};
use rustc_hash::FxHashSet;

/// Makes calls of these functions call functions of the kernel's own, which are numbered in the order of their first calls.
pub fn outline(kernel: &mut Kernel, costly: &FxHashSet<Function>) {
    if costly.is_empty() {
        return;
    }
    let mut known: Vec<Function> = Vec::new();
    let mut own: Vec<Body> = Vec::new();
    for function in &mut kernel.functions {
        function.block.rewrite(&mut |e| {
            let Expr::Call(call) = e else { return };
            let Some((arguments, result)) = types(call).filter(|_| costly.contains(&call.function))
            else {
                return;
            };
            let at = known.iter().position(|f| *f == call.function);
            let number = at.unwrap_or_else(|| {
                known.push(call.function);
                let given = (0..arguments.len() as u32).map(|i| Name::Argument(i).into());
                own.push(Body {
                    role: Role::Own(known.len() as u32 - 1, arguments, result),
                    block: Stmt::Return(Expr::call(call.function, given)).into(),
                });
                known.len() - 1
            });
            call.function = Function::Own(number as u32, result);
        });
    }
    kernel.functions.splice(..0, own);
}

/// The types of a call's arguments, and of what it gives, if it computes vectors.
fn types(call: &Call) -> Option<(Vec<ValueType>, ValueType)> {
    let (dtype, lanes) = match call.function {
        Function::Unary(_, dtype, lanes)
        | Function::Binary(_, dtype, lanes)
        | Function::Support(_, dtype, lanes) => (dtype, lanes),
        _ => return None,
    };
    let Type::Value(result) = call.function.result() else {
        return None;
    };
    let argument = ValueType::Vector(dtype, lanes);
    Some((vec![argument; call.arguments.len()], result))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::ir::{Block, Part};
    use ferrotrace_kernels::UnaryOp;
    use ferrotrace_runtime::DType;

    #[test]
    fn calls_of_a_costly_function_share_one_of_the_kernels_own() {
        let value = |v| Expr::from(Name::of(Part::Value, v));
        let of = |op| Function::Unary(op, DType::F32, 8);
        let vector = Type::vector(DType::F32, 8);
        let call = |op, argument| Expr::call(of(op), [argument]);
        let twice = call(UnaryOp::Exp, call(UnaryOp::Exp, value(0)));
        let mut kernel = Kernel {
            lanes: 8,
            functions: vec![Body {
                role: Role::Work,
                block: Block::from([
                    Stmt::constant(Name::of(Part::Value, 1), vector, twice),
                    Stmt::constant(
                        Name::of(Part::Value, 2),
                        vector,
                        call(UnaryOp::Neg, value(1)),
                    ),
                ]),
            }],
            ..Kernel::default()
        };
        outline(&mut kernel, &FxHashSet::from_iter([of(UnaryOp::Exp)]));
        let [own, work] = &kernel.functions[..] else {
            panic!("{kernel}")
        };
        assert!(matches!(own.role, Role::Own(0, ..)), "{kernel}");
        let calls = |block: &Block, wanted: Function| {
            let (mut block, mut count) = (block.clone(), 0);
            block.rewrite(&mut |e| {
                let is = matches!(e, Expr::Call(call) if call.function == wanted);
                count += usize::from(is);
            });
            count
        };
        let result = ValueType::Vector(DType::F32, 8);
        assert_eq!(calls(&work.block, Function::Own(0, result)), 2);
        assert_eq!(calls(&work.block, of(UnaryOp::Exp)), 0);
        assert_eq!(calls(&work.block, of(UnaryOp::Neg)), 1);
        assert_eq!(calls(&own.block, of(UnaryOp::Exp)), 1);
    }
}
