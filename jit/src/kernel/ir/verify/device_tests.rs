//! A broken kernel for each rule of devices.

use super::super::kernel::{Arguments, Body, Launch};
use super::super::name::Part;
use super::super::stmt::Meeting;
use super::*;
use crate::kernel::ir::{Function, OnDevice, Shuffle};
use ferrotrace_runtime::DType;

const F32: ValueType = ValueType::Scalar(DType::F32);

/// A kernel of blocks of 128 threads that reads pointer 0 and writes pointer 1.
fn kernel(statements: impl Into<Block>) -> Kernel {
    let mut block = Block::from(Stmt::Wait);
    block.append(statements.into());
    without_wait(block)
}

fn without_wait(block: impl Into<Block>) -> Kernel {
    let f32 = ValueType::Memory(DType::F32);
    Kernel {
        arguments: Arguments {
            params: 3,
            pointers: vec![
                PointerType::global(f32, Access::Read),
                PointerType::global(f32, Access::Write),
            ],
            numbers: Vec::new(),
        },
        lanes: 0,
        functions: vec![Body {
            role: Role::Work,
            block: block.into(),
        }],
        launch: Launch {
            threads: 128,
            finish_threads: 0,
        },
    }
}

fn faults(kernel: &Kernel) -> Result<(), Rule> {
    verify(kernel).map_err(|fault| fault.rule)
}

fn accepts(statements: impl Into<Block>) {
    assert_eq!(faults(&kernel(statements)), Ok(()));
}

fn rejects(rule: Rule, statements: impl Into<Block>) {
    assert_eq!(faults(&kernel(statements)), Err(rule));
}

fn thread() -> Expr {
    Expr::from(Local::Thread)
}

fn barrier() -> Stmt {
    Stmt::Barrier(Meeting::Block)
}

/// A row whose number is this.
fn row(number: Expr) -> Stmt {
    Stmt::constant(Local::RowNumber, Type::INDEX, number)
}

/// The end of threads whose row is none.
fn leave() -> Stmt {
    let none = Expr::from(Local::RowNumber).at_least(Name::Param(0));
    Stmt::when(none, Stmt::Leave)
}

fn exchange() -> Stmt {
    let function = Function::Shuffle(Shuffle::Xor, DType::I32);
    let value = Expr::call(function, [thread().cast(Type::INT), 1.into()]);
    Stmt::constant(Local::Sum, Type::INT, value)
}

#[test]
fn threads_of_a_device_alone_have_numbers() {
    let sum = thread() + Local::Block;
    let work = Stmt::constant(Local::Sum, Type::INDEX, sum);
    accepts(work.clone());
    let host = Kernel {
        lanes: 8,
        ..without_wait(work)
    };
    assert_eq!(faults(&host), Err(Rule::Declared));
}

#[test]
fn what_threads_share_is_a_devices_and_begins_without_values() {
    let shared = Stmt::shared(Local::Elements, F32, Extent::array([4, 32]));
    let element = Expr::from(Local::Elements)
        .element(0)
        .element(thread() & 31);
    accepts([shared.clone(), Stmt::assign(element, 1)]);
    // One index leads to an array.
    let row = Expr::from(Local::Elements).element(0);
    rejects(Rule::Agree, [shared.clone(), Stmt::assign(row, 1)]);
    let Stmt::Declare(mut filled) = shared.clone() else {
        return;
    };
    filled.value = Some(Expr::Zeros);
    rejects(Rule::Shared, Stmt::Declare(filled));
    let host = Kernel {
        lanes: 8,
        ..without_wait(shared)
    };
    assert_eq!(faults(&host), Err(Rule::Shared));
}

#[test]
fn all_threads_of_a_block_come_to_its_barriers() {
    accepts(barrier());
    accepts([
        row(Expr::from(Local::Block).cast(Type::INDEX)),
        leave(),
        barrier(),
    ]);
    rejects(Rule::Uniform, Stmt::when(thread().equals(0), barrier()));
    // Warps may have ended.
    rejects(Rule::Uniform, [row(thread() >> 5), leave(), barrier()]);
    // A loop that some threads leave before others.
    let until = |to: Expr, body: Stmt| {
        Loop::over(Local::Index, 0, to)
            .of_type(ValueType::Index)
            .each(body)
    };
    accepts(until(Name::Param(0).into(), barrier()));
    rejects(Rule::Uniform, until(thread(), barrier()));
    // A condition on a variable that some threads change, later in the loop.
    let changed = [
        Stmt::variable(Local::Sum, Type::INT, 0),
        until(
            Name::Param(0).into(),
            Stmt::Scope(Block::from([
                Stmt::when(Expr::from(Local::Sum).equals(0), barrier()),
                Stmt::when(thread().less(7), Stmt::assign(Local::Sum, 1)),
            ])),
        ),
    ];
    rejects(Rule::Uniform, changed);
    // What all of them read from memory that they share is one value.
    let shared = Stmt::shared(OnDevice::Counter, Type::INT, Extent::One);
    let by_one = Stmt::when(thread().equals(0), Stmt::assign(OnDevice::Counter, 1));
    let test = Expr::from(OnDevice::Counter).equals(1);
    accepts([shared, by_one, barrier(), Stmt::when(test, barrier())]);
}

#[test]
fn all_threads_of_a_warp_exchange_values() {
    accepts(exchange());
    accepts([row(thread() >> 5), leave(), exchange()]);
    accepts(Stmt::when((thread() >> 5).equals(0), exchange()));
    accepts(Stmt::when(thread().less(64), exchange()));
    rejects(Rule::Uniform, Stmt::when(thread().less(48), exchange()));
    rejects(
        Rule::Uniform,
        Stmt::when((thread() >> 4).equals(0), exchange()),
    );
    rejects(
        Rule::Uniform,
        [row(thread().cast(Type::INDEX)), leave(), exchange()],
    );
    // Of a choice, one side alone is computed.
    let Stmt::Declare(exchanged) = exchange() else {
        return;
    };
    let value = exchanged.value.unwrap_or(Expr::Zeros);
    let chosen = thread().equals(0).choose(value, 0);
    rejects(Rule::Uniform, Stmt::constant(Local::Sum, Type::INT, chosen));
    // All threads of a block have one row where a row has as many threads.
    accepts([row(thread() / 128), leave(), barrier()]);
}

#[test]
fn memory_is_touched_after_waiting() {
    let element = || Expr::from(Name::Pointer(1)).element(thread());
    let store = || Stmt::assign(element(), 1);
    assert_eq!(faults(&without_wait([Stmt::Wait, store()])), Ok(()));
    assert_eq!(faults(&without_wait(store())), Err(Rule::Waits));
    assert_eq!(
        faults(&without_wait([store(), Stmt::Wait])),
        Err(Rule::Waits)
    );
    assert_eq!(faults(&kernel(Stmt::Wait)), Err(Rule::Waits));
    let some = Stmt::when(thread().equals(0), Stmt::Wait);
    assert_eq!(faults(&without_wait([some, store()])), Err(Rule::Waits));
    let posted = Expr::call(Function::Post, [Local::Scratch.into(), 1.into()]);
    assert_eq!(faults(&without_wait(Stmt::Call(posted))), Err(Rule::Waits));
}

#[test]
fn atomic_additions_are_to_shared_integers() {
    let add = |place: Expr| {
        let one = Expr::Integer(1).cast(ValueType::Word);
        let added = Expr::call(Function::AtomicAdd, [place, one]);
        Stmt::constant(OnDevice::Drawn, ValueType::Word, added)
    };
    let words = Type::write(ValueType::Word);
    accepts(add(Expr::from(Local::Scratch).cast(words)));
    rejects(Rule::Atomic, add(Name::Pointer(1).into()));
    let read = Type::read(ValueType::Word);
    rejects(Rule::Atomic, add(Expr::from(Local::Scratch).cast(read)));
    let private = Stmt::array(Local::Elements, ValueType::Word, Extent::array(4));
    rejects(Rule::Atomic, [private, add(Local::Elements.into())]);
}

#[test]
fn operations_join_two_values_and_are_given_to_functions() {
    let fold = Name::of(Part::Fold, 0);
    let define = |value: Expr| {
        Stmt::Define(Box::new(Operation {
            name: fold,
            operands: (F32.into(), F32.into()),
            value,
        }))
    };
    let sum = || define(Expr::from(OnDevice::Left) + OnDevice::Right);
    let arrays = |third: Expr| {
        let elements = Stmt::array(Local::Elements, F32, Extent::array([2, 4]));
        let folds = Stmt::array(OnDevice::Folds, F32, Extent::array(2));
        let arguments = [Local::Elements.into(), OnDevice::Folds.into(), third];
        let call = Stmt::Call(Expr::call(Function::Prefix, arguments));
        [sum(), elements, folds, call]
    };
    accepts(arrays(fold.into()));
    rejects(Rule::Operation, arrays(Expr::Integer(0)));
    rejects(Rule::Operation, define(Name::Pointer(0).into()));
    let used = Stmt::constant(Local::Sum, Type::INT, Expr::from(fold) + 1);
    rejects(Rule::Agree, [sum(), used]);
    // Its operands are its own.
    rejects(Rule::Declared, [sum(), Stmt::assign(OnDevice::Left, 0)]);
}

#[test]
fn blocks_have_from_1_to_1024_threads_and_whole_warps() {
    let of = |threads: u32, statements: Stmt| {
        let mut kernel = kernel(statements);
        kernel.launch.threads = threads;
        faults(&kernel)
    };
    let nothing = || Stmt::Scope(Block::new());
    assert_eq!(of(1, nothing()), Ok(()));
    assert_eq!(of(0, nothing()), Err(Rule::Launch));
    assert_eq!(of(1025, nothing()), Err(Rule::Launch));
    assert_eq!(of(48, nothing()), Ok(()));
    assert_eq!(of(48, barrier()), Err(Rule::Launch));
}
