//! Random numbers of elements that follow one another are drawn several vectors at a time, which takes half as long a number.

use crate::kernel::ir::{Expr, Extent, Function, Kernel, Local, Name, Part, Role, Stmt, Type};
use ferrotrace_runtime::DType;

/// The vectors of an array that draws are made into, and the one behind them that notes which they are.
const VECTORS: usize = 5;

/// Bytes that a round of the generator draws.
const BLOCK: usize = 16;

/// Gives the draws of a function by one key and offset an array, out of which they come as long as they follow one another.
pub fn draw_ahead(kernel: &mut Kernel) {
    for function in &mut kernel.functions {
        if matches!(function.role, Role::Own(..)) {
            continue;
        }
        // Draws by the function and what it is given before the position.
        let mut known: Vec<(Function, [Expr; 2])> = Vec::new();
        let mut arrays: Vec<Stmt> = Vec::new();
        function.block.rewrite(&mut |e| {
            let Expr::Call(call) = e else { return };
            let Some((ahead, vector)) = ahead(call.function) else {
                return;
            };
            let [key, offset, ..] = &call.arguments[..] else {
                return;
            };
            if varies(key) || varies(offset) {
                return;
            }
            let draw = (call.function, [key.clone(), offset.clone()]);
            let at = known.iter().position(|other| *other == draw);
            let at = at.unwrap_or_else(|| {
                let name = Name::of(Part::Drawn, known.len() as u32);
                arrays.push(Stmt::zeros(name, vector, Extent::Array(VECTORS.into())));
                known.push(draw);
                known.len() - 1
            });
            call.function = ahead;
            let array = Name::of(Part::Drawn, at as u32);
            call.arguments.insert(0, array.into());
        });
        function.block.0.splice(..0, arrays);
    }
}

/// The function that draws as this one does, but ahead, and the vectors of its array: of as many bytes as it draws of each
/// element.
fn ahead(function: Function) -> Option<(Function, Type)> {
    let Function::Support(stem, dtype, lanes) = function else {
        return None;
    };
    let (stem, element) = match (stem, dtype) {
        ("run_uniform", DType::F64) => ("ahead_uniform", DType::I64),
        ("run_uniform", _) => ("ahead_uniform", DType::I32),
        ("run_normal", DType::F64) => ("ahead_normal", DType::I64),
        ("run_normal", _) => ("ahead_normal", DType::I32),
        ("run_bernoulli", _) => ("ahead_bernoulli", DType::I32),
        ("run_randint", _) => ("ahead_randint", DType::I64),
        ("run_bits63", _) => ("ahead_bits63", DType::I64),
        _ => return None,
    };
    // Less than a block is drawn where it is needed, by a function that may be outlined.
    if usize::from(lanes) * element.size() < BLOCK {
        return None;
    }
    let ahead = Function::Support(stem, dtype, lanes);
    Some((ahead, Type::vector(element, lanes.into())))
}

/// Whether a number may differ from call to call within a function: it is not one of those that the run fills in.
fn varies(number: &Expr) -> bool {
    number.any(&|e| match e {
        Expr::Name(name) => *name != Name::Local(Local::Numbers),
        Expr::Call(_) | Expr::Position => true,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::ir::{Block, Body, verify};

    #[test]
    fn draws_by_one_key_share_an_array() {
        let draw = |value, key: Expr| {
            let given = [key, 2.into(), Local::Column.into()];
            let draw = Expr::call(Function::Support("run_normal", DType::F32, 8), given);
            let name = Name::of(Part::Value, value);
            Stmt::constant(name, Type::vector(DType::F32, 8), draw)
        };
        let number = |n: i64| Expr::from(Local::Numbers).element(n);
        let column = Stmt::constant(Local::Column, Type::INDEX, 0);
        let other = Stmt::constant(Name::Base(0), Type::INDEX, 0);
        let mut kernel = Kernel {
            lanes: 8,
            functions: vec![Body {
                role: Role::Work,
                block: Block::from([
                    column,
                    other,
                    draw(1, number(0)),
                    draw(2, number(1)),
                    draw(3, number(0)),
                    draw(4, Name::Base(0).into()),
                ]),
            }],
            ..Kernel::default()
        };
        draw_ahead(&mut kernel);
        assert_eq!(verify(&kernel), Ok(()), "{kernel}");
        let text = kernel.to_string();
        let uses = |name: &str| text.matches(&format!("ahead_normal.f32x8({name}")).count();
        let names = [0, 1].map(|n| Name::of(Part::Drawn, n).to_string());
        assert_eq!(names.map(|name| uses(&name)), [2, 1], "{text}");
        assert_eq!(text.matches("run_normal").count(), 1, "{text}");
    }

    #[test]
    fn less_than_a_block_is_not_drawn_ahead() {
        let lanes = |n| ahead(Function::Support("run_normal", DType::F32, n));
        assert!(lanes(2).is_none() && lanes(4).is_some());
        let lanes = |n| ahead(Function::Support("run_uniform", DType::F64, n));
        assert!(lanes(1).is_none() && lanes(2).is_some());
    }
}
