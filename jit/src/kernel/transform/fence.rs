//! Stores that bypass the cache are made visible before the function that makes them ends.

use crate::kernel::ir::{Expr, Function, Kernel, Role, Stmt};

/// Ends each function that has stores that bypass the cache with a fence.
pub fn fence(kernel: &mut Kernel) {
    let bypasses = |e: &Expr| match e {
        Expr::Call(call) => matches!(call.function, Function::Support("stream", ..)),
        _ => false,
    };
    let lanes = kernel.lanes;
    for function in &mut kernel.functions {
        let any = function.block.iter().any(|stmt| stmt.any(&bypasses));
        if any && !matches!(function.role, Role::Own(..)) {
            let fence = Expr::call(Function::Fence(lanes), []);
            function.block.push(Stmt::Call(fence));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::ir::{Block, Body, Local, Name, Part};
    use ferrotrace_runtime::DType;

    #[test]
    fn a_function_with_such_stores_ends_with_a_fence() {
        let store = |stem| {
            let value = Expr::from(Name::of(Part::Value, 0));
            let place = Expr::from(Name::Pointer(0)) + Local::Column;
            Stmt::Call(Expr::call(
                Function::Support(stem, DType::F32, 8),
                [place, value],
            ))
        };
        let kernel = |stem| {
            let test = Expr::from(Name::Streams(0));
            let block = Block::from(Stmt::either(test, store(stem), store("store")));
            Kernel {
                lanes: 8,
                functions: vec![Body {
                    role: Role::Work,
                    block,
                }],
                ..Kernel::default()
            }
        };
        let statements = |stem| {
            let mut kernel = kernel(stem);
            fence(&mut kernel);
            kernel.functions[0].block.0.len()
        };
        assert_eq!([statements("store"), statements("stream")], [1, 2]);
    }
}
