//! Blocks of statements that repeat, and what becomes of them.

use super::*;
use crate::kernel::ir::{
    Access, Axis, Body, Function, Infix, Local, Loop, Part, PointerType, Type, ValueType, verify,
};
use ferrotrace_runtime::DType;

const LANES: usize = 8;

fn vector() -> Type {
    Type::vector(DType::F32, LANES)
}

fn value(v: u32) -> Expr {
    Name::value(v).into()
}

fn constant(v: u32, is: Expr) -> Stmt {
    Stmt::constant(Name::value(v), vector(), is)
}

/// What a pointer leads to at the column.
fn load(pointer: u32) -> Expr {
    let place = Expr::from(Name::Pointer(pointer)) + Local::Column;
    Expr::call(Function::Support("load", DType::F32, LANES as u16), [place])
}

fn store(pointer: u32, v: Expr) -> Stmt {
    let place = Expr::from(Name::Pointer(pointer)) + Local::Column;
    let store = Function::Support("store", DType::F32, LANES as u16);
    Stmt::Call(Expr::call(store, [place, v]))
}

/// A kernel that does this at each vector: it reads so many pointers, and writes so many behind them.
fn kernel(read: usize, written: usize, body: impl Into<Block>) -> Kernel {
    let f32 = ValueType::Memory(DType::F32);
    let pointer = |i: usize| {
        let access = if i < read {
            Access::Read
        } else {
            Access::Write
        };
        PointerType::global(f32, access)
    };
    let along = Loop::over(Local::Column, Local::Begin, Local::End);
    let along = along.by_whole(LANES).along(Axis::Vector).each(body);
    Kernel {
        arguments: Arguments {
            params: 2,
            pointers: (0..read + written).map(pointer).collect(),
            numbers: Vec::new(),
        },
        lanes: LANES as u16,
        functions: vec![Body {
            role: Role::Work,
            block: along.into(),
        }],
        ..Kernel::default()
    }
}

/// What becomes of a kernel: its text, what was done, and its integer arguments.
fn rolled(mut kernel: Kernel) -> (String, Rerolled, Vec<i64>) {
    assert_eq!(verify(&kernel), Ok(()), "{kernel}");
    let mut params = vec![7, 8];
    let done = reroll(&mut kernel, &mut params, &[], 20);
    assert_eq!(verify(&kernel), Ok(()), "{kernel}");
    (kernel.to_string(), done, params)
}

/// Six steps of `state = state * input + state`, each from a pointer of its own, and a store of the last one.
fn recurrence() -> Vec<Stmt> {
    let mut body = vec![constant(0, load(0))];
    for step in 0..6 {
        let (v, last) = (1 + 3 * step, 3 * step);
        body.extend([
            constant(v, load(1 + step)),
            constant(v + 1, value(last) * value(v)),
            constant(v + 2, value(v + 1) + value(last)),
        ]);
    }
    body
}

#[test]
fn a_recurrence_carries_its_state() {
    let mut body = recurrence();
    body.push(store(7, value(18)));
    let (text, done, params) = rolled(kernel(7, 1, Block(body)));
    assert_eq!((done.loops, done.stores), (1, false), "{text}");
    assert!(matches!(params[..], [7, 8, 5 | 6]), "{params:?}\n{text}");
    // The first state, one in the loop, and those of steps before it.
    assert_eq!(
        text.matches("load.f32x8").count(),
        8 - params[2] as usize,
        "{text}"
    );
    assert!(text.contains("carried"), "{text}");
}

#[test]
fn states_of_all_steps_are_kept_for_a_walk_backwards() {
    let mut body = recurrence();
    let mut sum = 18;
    for step in (0..6).rev() {
        let v = 19 + 2 * (5 - step);
        body.push(constant(v, value(3 * step + 3) * value(sum)));
        body.push(constant(v + 1, value(v) - value(3 * step + 1)));
        sum = v + 1;
    }
    body.push(store(7, value(sum)));
    let (text, done, _) = rolled(kernel(7, 1, Block(body)));
    assert_eq!((done.loops, done.stores), (2, false), "{text}");
    assert!(text.contains("history"), "{text}");
}

#[test]
fn pointers_in_no_order_are_found_by_a_table() {
    let order = [3, 1, 4, 5, 2, 6];
    let mut body = vec![constant(0, load(0))];
    for (step, pointer) in (0..).zip(order) {
        let (v, last) = (1 + 2 * step, 2 * step);
        body.push(constant(v, load(pointer)));
        body.push(constant(v + 1, value(last) - value(v)));
    }
    body.push(store(7, value(12)));
    let (text, done, params) = rolled(kernel(7, 1, Block(body)));
    assert_eq!(done.loops, 1, "{text}");
    let turns = params[params.len() - 1] as usize;
    let table: Vec<i64> = order.iter().map(|p| i64::from(*p)).collect();
    assert_eq!(params[2..2 + turns], table[6 - turns..], "{text}");
}

#[test]
fn stores_of_each_step_are_within_the_loop() {
    let mut body = recurrence();
    for step in 0..6 {
        body.push(store(7 + step, value(3 + 3 * step)));
    }
    let (text, done, _) = rolled(kernel(7, 6, Block(body)));
    assert_eq!((done.loops, done.stores), (1, true), "{text}");
}

#[test]
fn what_is_joined_to_a_variable_outside_stays_behind() {
    let sum = Name::of(Part::Accumulator, 99);
    let mut body = recurrence();
    body.push(Stmt::update(sum, Infix::Add, value(18)));
    let mut made = kernel(7, 0, Block(body));
    let zero = Stmt::zeros(sum, vector(), crate::kernel::ir::Extent::One);
    made.functions[0].block.0.insert(0, zero);
    let (text, done, _) = rolled(made);
    assert_eq!(done.loops, 1, "{text}");
    let end = text.rfind("carried").unwrap_or_default();
    assert!(
        text.find("accumulator99 +").is_some_and(|at| at < end),
        "{text}"
    );
}

/// What must stay as it is.
fn untouched(body: Vec<Stmt>) {
    let (text, done, params) = rolled(kernel(7, 1, Block(body)));
    assert_eq!((done.loops, params.len()), (0, 2), "{text}");
}

#[test]
fn an_array_that_is_filled_keeps_its_order() {
    let array = Name::of(Part::Staged, 50);
    let mut body = vec![Stmt::array(
        array,
        vector(),
        crate::kernel::ir::Extent::array(4),
    )];
    body.extend(recurrence());
    let fill = Function::Support("load", DType::F32, LANES as u16);
    body.push(Stmt::Call(Expr::call(fill, [array.into()])));
    body.push(store(7, value(18)));
    untouched(body);
}

#[test]
fn memory_that_is_written_and_read_keeps_its_order() {
    let mut body = recurrence();
    body.push(store(7, value(18)));
    body.push(constant(40, load(7)));
    untouched(body);
}

// Each of the bases is the row times something when it is declared, and the row is counted up before the steps read them.
#[test]
fn what_is_computed_of_a_variable_that_changed_is_not_computed_again() {
    let base = |step: u32| Name::Base(step);
    let mut body = vec![Stmt::variable(Local::Row, Type::INDEX, 3)];
    for step in 0..6 {
        let value = Expr::from(Local::Row) * Name::Param(step);
        body.push(Stmt::constant(base(step), Type::INDEX, value));
    }
    body.push(Stmt::update(Local::Row, Infix::Add, 1));
    let mut steps = vec![constant(0, load(0))];
    for step in 0..6 {
        let place = Expr::from(Name::Pointer(1)) + base(step);
        let row = Function::Support("load", DType::F32, LANES as u16);
        steps.push(constant(1 + 2 * step, Expr::call(row, [place])));
        steps.push(constant(
            2 + 2 * step,
            value(2 * step) - value(1 + 2 * step),
        ));
    }
    steps.push(store(2, value(12)));
    let along = Loop::over(Local::Column, 0, 64).along(Axis::Vector);
    body.push(along.each(Block(steps)));
    let mut made = kernel(2, 1, Block(Vec::new()));
    made.arguments.params = 6;
    made.functions[0].block = Block(body);
    let of = |mut kernel: Kernel| {
        assert_eq!(verify(&kernel), Ok(()), "{kernel}");
        let mut params = (0..6).collect();
        reroll(&mut kernel, &mut params, &[], 20).loops
    };
    assert_eq!(of(made.clone()), 0);
    // With the row as it was, they may be.
    made.functions[0].block.0.remove(7);
    assert_eq!(of(made), 1);
}

#[test]
fn few_or_unlike_steps_are_left_alone() {
    let two: Vec<Stmt> = recurrence().into_iter().take(7).collect();
    untouched(two);
    let mut unlike = vec![constant(0, load(0))];
    for v in 1..14 {
        let (a, b) = (value(v - 1), value(v / 2));
        unlike.push(constant(
            v,
            if v.count_ones() % 2 == 0 {
                a * b
            } else {
                a - b
            },
        ));
    }
    untouched(unlike);
}
