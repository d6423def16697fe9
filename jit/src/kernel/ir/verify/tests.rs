//! A broken kernel for each rule, which it rejects, and a kernel that breaks none.

use super::super::kernel::{Arguments, Body, Launch};
use super::super::loops::Axis;
use super::super::name::Part;
use super::*;
use crate::kernel::ir::Function;
use ferrotrace_runtime::DType;

const F32X8: ValueType = ValueType::Vector(DType::F32, 8);

/// A kernel that reads pointer 0 and writes pointer 1, and does its work by these statements.
fn kernel(work: impl Into<Block>) -> Kernel {
    let f32 = ValueType::Memory(DType::F32);
    Kernel {
        arguments: Arguments {
            params: 2,
            pointers: vec![
                PointerType::global(f32, Access::Read),
                PointerType::global(f32, Access::Write),
            ],
            numbers: vec![DType::F32],
        },
        lanes: 8,
        functions: vec![function(Role::Work, work)],
        launch: Launch::default(),
    }
}

fn function(role: Role, block: impl Into<Block>) -> Body {
    let block = block.into();
    Body { role, block }
}

fn rejects(rule: Rule, work: impl Into<Block>) {
    let found = verify(&kernel(work)).map_err(|fault| fault.rule);
    assert_eq!(found, Err(rule));
}

fn name(name: impl Into<Name>) -> Expr {
    Expr::from(name.into())
}

fn load() -> Expr {
    let place = name(Name::Pointer(0)) + Local::Column;
    Expr::call(Function::Support("load", DType::F32, 8), [place])
}

fn declare_value() -> Stmt {
    Stmt::constant(Name::value(3), F32X8, load())
}

/// A loop along the vector axis.
fn along(body: impl Into<Block>) -> Stmt {
    let range = Loop::over(Local::Column, Local::Begin, Local::End);
    range.by_whole(8).along(Axis::Vector).each(body)
}

#[test]
fn a_sound_kernel_is_accepted() {
    let exp = Function::Support("exp", DType::F32, 8);
    let store = Function::Support("store", DType::F32, 8);
    let there = name(Name::Pointer(1)) + Local::Column;
    let accumulator = Name::copy(Part::Accumulator, 7, 0);
    let sum = name(accumulator) + name(Name::value(4)) * Name::Number(0);
    let work = [
        Stmt::variable(accumulator, F32X8, Expr::Zeros),
        along([
            declare_value(),
            Stmt::constant(
                Name::value(4),
                F32X8,
                Expr::call(exp, [name(Name::value(3))]),
            ),
            Stmt::assign(accumulator, sum),
            Stmt::when(
                name(Local::Column).less(Name::Param(1)),
                Stmt::Call(Expr::call(store, [there, name(Name::value(4))])),
            ),
        ]),
    ];
    assert_eq!(verify(&kernel(work)), Ok(()));
}

#[test]
fn names_are_declared_before_their_use() {
    rejects(
        Rule::Declared,
        Stmt::constant(Name::value(1), F32X8, Name::value(0)),
    );
    // Not by a block that has ended.
    let inner = Stmt::Scope(Stmt::constant(Local::Sum, Type::INDEX, 1).into());
    let after = Stmt::constant(Local::Row, Type::INDEX, Local::Sum);
    rejects(Rule::Declared, [inner, after]);
    // Not by its own value.
    rejects(
        Rule::Declared,
        Stmt::constant(Local::Sum, Type::INDEX, name(Local::Sum) + 1),
    );
}

#[test]
fn a_block_declares_a_name_once() {
    let one = || Stmt::constant(Local::Row, Type::INDEX, 1);
    rejects(Rule::Once, [one(), one()]);
    assert_eq!(verify(&kernel([one(), Stmt::Scope(one().into())])), Ok(()));
}

#[test]
fn arguments_are_those_that_the_kernel_has() {
    for missing in [Name::Param(2), Name::Pointer(2), Name::Number(1)] {
        rejects(Rule::Argument, Stmt::Unused(missing));
    }
}

#[test]
fn constants_and_arrays_are_not_assigned() {
    let constant = Stmt::constant(Local::Row, Type::INDEX, 1);
    rejects(Rule::Assignable, [constant, Stmt::assign(Local::Row, 2)]);
    rejects(Rule::Assignable, Stmt::assign(Name::Param(0), 2));
    let array = Stmt::array(Local::Elements, Type::LONG, Extent::Array(8.into()));
    rejects(Rule::Assignable, [array, Stmt::assign(Local::Elements, 2)]);
    rejects(Rule::Assignable, Stmt::assign(name(Name::Param(0)) + 1, 2));
}

#[test]
fn memory_that_is_read_alone_is_not_written() {
    let element = |pointer| name(Name::Pointer(pointer)).element(Local::Begin);
    rejects(Rule::Writable, Stmt::assign(element(0), 1));
    let through = name(Name::Pointer(0)).dereference();
    rejects(Rule::Writable, Stmt::assign(through, 1));
    assert_eq!(verify(&kernel(Stmt::assign(element(1), 1))), Ok(()));
}

#[test]
fn types_of_sides_and_operands_agree() {
    let narrow = Stmt::constant(Name::value(1), Type::vector(DType::F32, 4), load());
    rejects(Rule::Agree, along(narrow));
    let other = Stmt::constant(Name::value(1), Type::vector(DType::F64, 8), load());
    rejects(Rule::Agree, along(other));
    let scalar = Stmt::constant(Name::value(1), Type::INDEX, load());
    rejects(Rule::Agree, along(scalar));
    let pointers = name(Name::Pointer(0)) * Name::Pointer(1);
    rejects(
        Rule::Agree,
        Stmt::constant(Local::Sum, Type::INDEX, pointers),
    );
    let sum = Stmt::variable(Local::Sum, Type::INDEX, 0);
    let compared = Stmt::update(Local::Sum, Infix::Less, 1);
    rejects(Rule::Agree, [sum, compared]);
    // Reading is no writing.
    let place = Stmt::variable(
        Local::Place,
        Type::write(ValueType::Memory(DType::F32)),
        Name::Pointer(0),
    );
    rejects(Rule::Agree, place);
}

#[test]
fn conditions_are_integers_without_lanes() {
    let vectors = along([
        declare_value(),
        Stmt::when(name(Name::value(3)), Block::new()),
    ]);
    rejects(Rule::Condition, vectors);
    rejects(
        Rule::Condition,
        Stmt::While(Expr::float(DType::F32, 1.0), Block::new()),
    );
    rejects(
        Rule::Condition,
        Stmt::when(!name(Name::Pointer(0)), Block::new()),
    );
}

#[test]
fn elements_are_those_of_memory_arrays_and_vectors() {
    let wrong = name(Local::Begin).element(0);
    rejects(
        Rule::Element,
        Stmt::constant(Local::Sum, Type::INDEX, wrong),
    );
    let by_number = name(Name::Pointer(0)).element(Expr::float(DType::F32, 1.0));
    let element = Type::scalar(DType::F32);
    rejects(
        Rule::Element,
        Stmt::constant(Local::Sum, element, by_number),
    );
    let through = name(Local::Begin).dereference();
    rejects(Rule::Element, Stmt::constant(Local::Sum, element, through));
}

#[test]
fn calls_have_their_arguments_and_lanes() {
    let one = Expr::call(Function::Least, [Expr::Integer(1)]);
    rejects(Rule::Call, Stmt::constant(Local::Sum, Type::INDEX, one));
    let wider = Expr::call(
        Function::Support("exp", DType::F32, 16),
        [name(Name::value(3))],
    );
    let ty = Type::vector(DType::F32, 16);
    rejects(
        Rule::Call,
        along([declare_value(), Stmt::constant(Name::value(4), ty, wider)]),
    );
    rejects(Rule::Call, Stmt::Call(name(Local::Begin)));
}

#[test]
fn no_position_is_left_open() {
    let place = name(Name::Pointer(0)).element(Expr::Position);
    let element = Type::scalar(DType::F32);
    rejects(Rule::Position, Stmt::constant(Local::Sum, element, place));
}

#[test]
fn loops_by_halves_end() {
    let halves = |to: i64| {
        let halves = Loop::over(OnDevice::Distance, 16, to).halving();
        halves.each(Block::new())
    };
    assert_eq!(verify(&kernel(halves(0))), Ok(()));
    rejects(Rule::Loop, halves(-1));
    let down = |step| {
        Loop::over(Local::Column, 8, 0)
            .down_by(step)
            .each(Block::new())
    };
    assert_eq!(verify(&kernel(down(2))), Ok(()));
    rejects(Rule::Loop, down(0));
}

#[test]
fn loops_go_up_over_integers() {
    let empty = Loop::over(Local::Column, 0, 8).by(0).each(Block::new());
    rejects(Rule::Loop, empty);
    let vectors = Loop::over(Local::Column, 0, 8).of_type(F32X8);
    rejects(Rule::Loop, vectors.each(Block::new()));
    let far = Loop::over(Local::Column, 0, Expr::float(DType::F32, 8.0));
    rejects(Rule::Loop, far.each(Block::new()));
    let undeclared = Loop::over(Local::Column, 0, 8).from_here();
    rejects(Rule::Declared, undeclared.each(Block::new()));
}

#[test]
fn arrays_have_elements_and_no_single_value() {
    let empty = Stmt::array(Local::Elements, Type::LONG, Extent::Array(0.into()));
    rejects(Rule::Array, empty);
    let variable = Variable {
        extent: Extent::Array(8.into()),
        value: Some(Expr::Integer(1)),
        ..Variable::new(Local::Elements.into(), Type::LONG)
    };
    rejects(Rule::Array, Stmt::Declare(Box::new(variable)));
}

#[test]
fn a_kernel_has_one_work_function_and_knows_what_it_calls() {
    let faults = |functions: Vec<Body>| {
        let kernel = Kernel {
            functions,
            ..kernel(Block::new())
        };
        verify(&kernel).map_err(|fault| fault.rule)
    };
    let work = || function(Role::Work, Block::new());
    let finish = || function(Role::Finish, Block::new());
    assert_eq!(faults(vec![finish()]), Err(Rule::Functions));
    assert_eq!(faults(vec![work(), work()]), Err(Rule::Functions));
    assert_eq!(
        faults(vec![work(), finish(), finish()]),
        Err(Rule::Functions)
    );
    let role = || Role::Own(0, vec![F32X8], F32X8);
    let own = || function(role(), Stmt::Return(name(Name::Argument(0))));
    let call = || {
        let value = Expr::call(Function::Own(0, F32X8), [load()]);
        let value = Stmt::constant(Name::value(0), F32X8, value);
        function(Role::Work, along(value))
    };
    assert_eq!(faults(vec![own(), call()]), Ok(()));
    assert_eq!(faults(vec![call(), own()]), Err(Rule::Functions));
    let other = function(role(), Stmt::Return(name(Name::Pointer(0))));
    assert_eq!(faults(vec![other, call()]), Err(Rule::Functions));
    let returns = function(Role::Work, Stmt::Return(Expr::Integer(0)));
    assert_eq!(faults(vec![returns]), Err(Rule::Functions));
}

#[test]
fn text_that_is_not_taken_apart_may_declare_anything() {
    let work = [
        Stmt::Verbatim("long x = 1;\n".to_owned()),
        Stmt::constant(Local::Sum, Type::LONG, Local::Element),
    ];
    assert_eq!(verify(&kernel(work)), Ok(()));
}

#[test]
fn divisors_divide_integers() {
    let kernel = |value: Expr| {
        let mut kernel = kernel(Stmt::constant(Local::Sum, Type::INDEX, value));
        kernel.arguments.params = 3;
        verify(&kernel).map_err(|fault| fault.rule)
    };
    let begin = || name(Local::Begin);
    assert_eq!(kernel(begin() / Name::Divisor(0)), Ok(()));
    assert_eq!(kernel(begin() % Name::Divisor(0)), Ok(()));
    assert_eq!(kernel(begin() * Name::Divisor(0)), Err(Rule::Divisor));
    let number = Expr::float(DType::F32, 1.0);
    assert_eq!(kernel(number / Name::Divisor(0)), Err(Rule::Divisor));
    // How to divide by an argument is said by the two after it.
    assert_eq!(kernel(begin() / Name::Divisor(1)), Err(Rule::Argument));
}

#[test]
fn a_function_that_gives_something_is_not_left() {
    let own = function(Role::Own(0, vec![F32X8], F32X8), Stmt::Leave);
    let early = Stmt::when(name(Local::Begin).less(1), Stmt::Leave);
    assert_eq!(verify(&kernel(early)), Ok(()));
    let kernel = Kernel {
        functions: vec![own, function(Role::Work, Block::new())],
        ..kernel(Block::new())
    };
    assert_eq!(verify(&kernel).map_err(|f| f.rule), Err(Rule::Functions));
}
