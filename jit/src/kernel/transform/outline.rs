//! Costly functions become functions of the kernel's own, which the compiler does not inline: its time then grows with
//! the calls, and no longer with the calls times the length of the function.

use crate::kernel::ir::{Body, Expr, Function, Kernel, Name, Role, Stmt, Type, ValueType};
use rustc_hash::FxHashMap;

/// Makes calls of these functions, given with the types of their arguments, call functions of the kernel's own, which are
/// numbered in the order of their first calls.
pub fn outline(kernel: &mut Kernel, costly: &FxHashMap<Function, Vec<ValueType>>) {
    if costly.is_empty() {
        return;
    }
    let mut known: Vec<Function> = Vec::new();
    let mut own: Vec<Body> = Vec::new();
    for function in &mut kernel.functions {
        function.block.rewrite(&mut |e| {
            let Expr::Call(call) = e else { return };
            let (Some(arguments), Type::Value(result)) =
                (costly.get(&call.function), call.function.result())
            else {
                return;
            };
            let at = known.iter().position(|f| *f == call.function);
            let number = at.unwrap_or_else(|| {
                known.push(call.function);
                let given = (0..arguments.len() as u32).map(|i| Name::Argument(i).into());
                own.push(Body {
                    role: Role::Own(known.len() as u32 - 1, arguments.clone(), result),
                    block: Stmt::Return(Expr::call(call.function, given)).into(),
                });
                known.len() - 1
            });
            call.function = Function::Own(number as u32, result);
        });
    }
    kernel.functions.splice(..0, own);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::ir::{Block, Part, verify};
    use ferrotrace_kernels::UnaryOp;
    use ferrotrace_runtime::DType;

    const LANES: u16 = 8;
    const VECTOR: ValueType = ValueType::Vector(DType::F32, LANES);

    /// A kernel that gives names to these values, and what `outline` makes of it.
    fn outlined(values: Vec<Expr>, costly: Function, arguments: Vec<ValueType>) -> Kernel {
        let named = (1..)
            .zip(values)
            .map(|(v, value)| Stmt::constant(Name::of(Part::Value, v), Type::Value(VECTOR), value));
        let mut kernel = Kernel {
            lanes: LANES,
            functions: vec![Body {
                role: Role::Work,
                block: named.collect(),
            }],
            ..Kernel::default()
        };
        outline(&mut kernel, &FxHashMap::from_iter([(costly, arguments)]));
        kernel
    }

    fn calls(block: &Block, wanted: Function) -> usize {
        let (mut block, mut count) = (block.clone(), 0);
        block.rewrite(&mut |e| {
            let is = matches!(e, Expr::Call(call) if call.function == wanted);
            count += usize::from(is);
        });
        count
    }

    #[test]
    fn calls_of_a_costly_function_share_one_of_the_kernels_own() {
        let of = |op| Function::Unary(op, DType::F32, LANES);
        let value = |v| Expr::from(Name::of(Part::Value, v));
        let call = |op, argument| Expr::call(of(op), [argument]);
        let twice = call(UnaryOp::Exp, call(UnaryOp::Exp, value(0)));
        let other = call(UnaryOp::Neg, value(1));
        let kernel = outlined(vec![twice, other], of(UnaryOp::Exp), vec![VECTOR]);
        let [own, work] = &kernel.functions[..] else {
            panic!("{kernel}")
        };
        assert!(matches!(own.role, Role::Own(0, ..)), "{kernel}");
        assert_eq!(calls(&work.block, Function::Own(0, VECTOR)), 2);
        assert_eq!(calls(&work.block, of(UnaryOp::Exp)), 0);
        assert_eq!(calls(&work.block, of(UnaryOp::Neg)), 1);
        assert_eq!(calls(&own.block, of(UnaryOp::Exp)), 1);
    }

    #[test]
    fn draws_keep_the_types_of_their_arguments() {
        let draw = Function::Support("run_normal", DType::F32, LANES);
        let arguments = vec![ValueType::LongWord, ValueType::LongWord, ValueType::Index];
        let given = |key| [key, 2, 0].map(Expr::from);
        let draws = [1, 3].map(|key| Expr::call(draw, given(key))).to_vec();
        let kernel = outlined(draws, draw, arguments.clone());
        let [own, work] = &kernel.functions[..] else {
            panic!("{kernel}")
        };
        assert_eq!(own.role, Role::Own(0, arguments, VECTOR), "{kernel}");
        assert_eq!(calls(&work.block, Function::Own(0, VECTOR)), 2);
        assert_eq!(verify(&kernel), Ok(()));
    }
}
