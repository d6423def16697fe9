//! Kernels with tables, and in what order their arguments are left.

use super::arrange;
use crate::kernel::ir::{
    Access, Arguments, Axis, Body, Expr, Kernel, Local, Loop, Name, Part, PointerType, Role, Stmt,
    Type, ValueType, verify,
};
use ferrotrace_runtime::DType;

fn pointer(access: Access) -> PointerType {
    PointerType::global(ValueType::Memory(DType::F32), access)
}

/// A kernel that reads a first pointer, then those of so many steps, and writes to the last; and the values of its integer
/// arguments: one that nothing reads, an offset, and the number of steps.
fn kernel(steps: usize) -> (Kernel, Vec<i64>) {
    let read = Type::Pointer(pointer(Access::Read));
    let sum = Name::of(Part::Carried, 40 + steps as u32);
    let each = Name::of(Part::Stepped, 90);
    let of_step = Expr::from(Local::Pointers).element(Expr::from(Local::Step) + 1);
    let element = |place: Expr| (place + Name::Param(1)).dereference();
    let ty = Type::scalar(DType::F32);
    let body = [
        Stmt::constant(each, read, of_step.cast(read)),
        Stmt::assign(sum, element(each.into())),
    ];
    let along = Loop::over(Local::Step, 0, Name::Param(2)).along(Axis::Step);
    let last = Name::Pointer(1 + steps as u32);
    let block = [
        Stmt::constant(Name::value(7), Type::INDEX, Name::Param(0)),
        Stmt::variable(sum, ty, element(Name::Pointer(0).into())),
        along.each(body),
        Stmt::assign(element(last.into()), sum),
    ];
    let mut pointers = vec![pointer(Access::Read); 1 + steps];
    pointers.push(pointer(Access::Write));
    let kernel = Kernel {
        arguments: Arguments {
            params: 3,
            pointers,
            numbers: Vec::new(),
        },
        lanes: 8,
        functions: vec![Body {
            role: Role::Work,
            block: block.into(),
        }],
        ..Kernel::default()
    };
    (kernel, vec![11, 3, steps as i64])
}

#[test]
fn what_is_named_comes_before_tables() {
    let arranged = |steps: usize| {
        let (mut kernel, mut params) = kernel(steps);
        assert_eq!(verify(&kernel), Ok(()), "{kernel}");
        let arranged = arrange(&mut kernel, &mut params).expect("positions are told by steps");
        assert_eq!(verify(&kernel), Ok(()), "{kernel}");
        (kernel.functions, params, arranged)
    };
    let (of_four, params, arranged_four) = arranged(4);
    assert_eq!(arranged_four.pointers, [0, 5, 1, 2, 3, 4]);
    assert_eq!(arranged_four.params, [Some(1), Some(2), Some(0)]);
    assert_eq!(params, [3, 4, 11]);
    assert_eq!(arranged(9).0, of_four);
}

#[test]
fn positions_by_no_step_stay() {
    let (mut kernel, mut params) = kernel(4);
    let other = Expr::from(Local::Numbers).element(Name::Param(1));
    let name = Name::value(8);
    let stmt = Stmt::constant(name, Type::INDEX, other);
    kernel.functions[0].block.push(stmt);
    let (before, given) = (kernel.clone(), params.clone());
    assert_eq!(arrange(&mut kernel, &mut params), None);
    assert_eq!((kernel, params), (before, given));
}
