//! Kernels that do what none may, and what is reported of them.

use super::*;
use crate::kernel::ir::{
    self, Arguments, Block, Body, Extent, Function, Launch, Local, Loop, Meeting, OnDevice, Part,
    PointerType, Shuffle, Stmt, Type,
};
use ferrotrace_runtime::DType;

const F32: ValueType = ValueType::Scalar(DType::F32);

/// A kernel of blocks of 64 threads that reads one tensor of binary32 and writes another.
fn kernel(statements: impl Into<Block>) -> Kernel {
    let memory = ValueType::Memory(DType::F32);
    Kernel {
        arguments: Arguments {
            params: 0,
            pointers: vec![
                PointerType::global(memory, ir::Access::Read),
                PointerType::global(memory, ir::Access::Write),
            ],
            numbers: Vec::new(),
        },
        lanes: 0,
        functions: vec![Body {
            role: Role::Work,
            block: statements.into(),
        }],
        launch: Launch {
            threads: 64,
            finish_threads: 0,
        },
    }
}

/// Two blocks of a kernel, with the memory of its pointers.
fn member(kernel: &Kernel, pointers: [usize; 2]) -> Member<'_> {
    Member {
        kernel,
        params: Vec::new(),
        numbers: Vec::new(),
        bits: Vec::new(),
        pointers: pointers.map(|memory| (memory, 0)).into(),
        scratch: 2,
        blocks: [2, 0],
    }
}

/// Memory of 8 elements, of 128 that were not written, and scratch memory.
fn memory() -> Vec<Shared> {
    let elements = (0..8).map(|i| (i, Datum::F32(i as f32)));
    vec![
        Shared::filled("input".to_owned(), 8, elements),
        Shared::new("output".to_owned(), 128),
        Shared::new("scratch".to_owned(), 256),
    ]
}

/// Runs two blocks of 64 threads over 8 elements that are read and 128 that are written.
fn outcome(statements: impl Into<Block>) -> Result<Vec<Option<Datum>>, Fault> {
    let kernel = kernel(statements);
    let mut memory = memory();
    run(&[member(&kernel, [0, 1])], &mut memory).map_err(|report| report.fault)?;
    Ok((0..128).map(|at| memory[1].value(at)).collect())
}

fn thread() -> Expr {
    Expr::from(Local::Thread)
}

/// The number of a thread among those of all blocks.
fn number() -> Expr {
    Expr::from(Local::Block) * 64 + thread()
}

/// Writes an element of the output.
fn write(at: Expr, value: Expr) -> Stmt {
    Stmt::assign(Expr::from(Name::Pointer(1)).element(at), value)
}

fn shared() -> Stmt {
    Stmt::shared(Local::Elements, F32, Extent::array(64))
}

fn element(at: Expr) -> Expr {
    Expr::from(Local::Elements).element(at)
}

fn barrier() -> Stmt {
    Stmt::Barrier(Meeting::Block)
}

#[test]
fn threads_share_what_they_wrote_before_a_barrier() {
    let turned = || Expr::Integer(63) - thread();
    let work = [
        shared(),
        Stmt::assign(element(thread()), thread() * 2),
        barrier(),
        write(number(), element(turned())),
    ];
    let elements = outcome(work).expect("it runs");
    assert_eq!(elements[1], Some(Datum::F32(124.0)));
    assert_eq!(elements[127], Some(Datum::F32(0.0)));
    let race = [
        shared(),
        Stmt::assign(element(thread()), thread()),
        write(number(), element(turned())),
    ];
    assert!(matches!(outcome(race), Err(Fault::Race(..))));
    // Written again before all have read.
    let early = [
        shared(),
        Stmt::assign(element(thread()), 1),
        barrier(),
        Stmt::constant(Local::Sum, F32, element(turned())),
        Stmt::assign(element(thread()), 2),
    ];
    assert!(matches!(outcome(early), Err(Fault::Race(..))));
}

#[test]
fn blocks_write_elements_of_their_own() {
    assert!(outcome(write(number(), number())).is_ok());
    let both = outcome(write(thread(), number()));
    assert!(matches!(both, Err(Fault::Race(..))), "{both:?}");
    // Threads of one block, in one statement.
    let one = outcome(write(Expr::from(Local::Block) * 64, number()));
    assert!(matches!(one, Err(Fault::Race(..))), "{one:?}");
    // All write the same.
    assert!(outcome(write(thread(), 1.into())).is_ok());
    // What one of them wrote so, another may not read.
    let read = Expr::from(Name::Pointer(1)).element(0);
    let read = outcome([write(0.into(), 1.into()), write(number() + 1, read)]);
    assert!(matches!(read, Err(Fault::Race(..))), "{read:?}");
}

#[test]
fn all_threads_come_where_they_meet() {
    let some = Stmt::when(thread().less(32), barrier());
    assert!(matches!(outcome(some), Err(Fault::Divergent(_))));
    let ended = [Stmt::when(thread().less(32), Stmt::Leave), barrier()];
    assert!(outcome(ended).is_ok());
    let function = Function::Shuffle(Shuffle::Xor, DType::I32);
    let exchange = |when: Expr| {
        let value = Expr::call(function, [thread(), 1.into()]);
        let value = Stmt::constant(Local::Sum, Type::INT, value);
        Stmt::when(when, [value, write(number(), Local::Sum.into())])
    };
    let elements = outcome(exchange(thread().less(32))).expect("a warp");
    assert_eq!(elements[4], Some(Datum::F32(5.0)));
    let part = outcome(exchange(thread().less(31)));
    assert!(matches!(part, Err(Fault::Divergent(_))));
}

#[test]
fn accesses_are_of_elements_that_are_there() {
    let read = |at: Expr| {
        let value = Expr::from(Name::Pointer(0)).element(at);
        outcome(write(number(), value))
    };
    assert!(read(thread() & 7).is_ok());
    assert!(matches!(read(thread() & 15), Err(Fault::Outside(_, 8))));
    let far = outcome(write(number() + 1, 1.into()));
    assert_eq!(far, Err(Fault::Outside("output".to_owned(), 128)));
    let array = Stmt::filled(Local::Elements, F32, [2, 4], Expr::Integer(0));
    let at = |k: i64, l: i64| {
        let element = Expr::from(Local::Elements).element(k).element(l);
        outcome([array.clone(), Stmt::assign(element, 1)])
    };
    assert!(at(1, 3).is_ok());
    // It is in the array, but not in its row.
    assert!(matches!(at(0, 4), Err(Fault::Outside(_, 4))));
}

#[test]
fn what_decides_was_written() {
    let decides = |statements: Block| {
        let unset = Block::from([
            Stmt::unset(Local::Sum, F32),
            Stmt::when(thread().less(63), Stmt::assign(Local::Sum, 1)),
        ]);
        outcome([unset, statements].into_iter().flatten().collect::<Block>())
    };
    let is_reported = |statements: Block| {
        let found = decides(statements);
        let name = Name::from(Local::Sum).to_string();
        assert_eq!(found, Err(Fault::Unwritten(name, 0)));
    };
    let sum = || Expr::from(Local::Sum);
    let index = || sum().cast(Type::INT);
    // A store to a tensor; what was computed; a condition; an index that is checked, and one that is not.
    is_reported(write(number(), sum()).into());
    is_reported(write(number(), (sum() + 1) * 2).into());
    is_reported(Stmt::when(sum().less(2), write(number(), 1.into())).into());
    let checked = Expr::call(Function::Check, [index(), 8.into(), 1.into()]);
    is_reported(Stmt::constant(Local::Index, Type::LONG, checked).into());
    is_reported(write(index(), 1.into()).into());
    // It may be moved, through memory of the block too, and to where it changes nothing.
    let moved = [
        shared(),
        Stmt::assign(element(thread()), sum() * 2),
        barrier(),
        Stmt::constant(Local::Element, F32, element(Expr::Integer(63) - thread())),
        Stmt::when(thread().greater(0), write(number(), Local::Element.into())),
    ];
    let elements = decides(moved.into()).expect("nobody uses it");
    assert_eq!(elements[1], Some(Datum::F32(2.0)));
    let unwritten = [shared(), write(number(), element(thread()))];
    assert!(matches!(outcome(unwritten), Err(Fault::Unwritten(..))));
    let output = Expr::from(Name::Pointer(1)).element(number());
    let read = write(number(), output);
    assert!(matches!(outcome(read), Err(Fault::Unwritten(..))));
}

#[test]
fn an_element_is_read_as_it_was_written() {
    let double = ValueType::Memory(DType::F64);
    let input = Expr::from(Name::Pointer(0)).cast(Type::read(double));
    let found = outcome(write(number(), input.element(0)));
    assert!(matches!(found, Err(Fault::Wrong(_))), "{found:?}");
}

#[test]
fn a_warp_meets_at_a_barrier_of_its_own() {
    let exchange = |across: i64, meeting: Option<Meeting>| {
        let other = Expr::infix(ir::Infix::BitXor, thread(), Expr::Integer(across));
        let meets = meeting.map(Stmt::Barrier);
        let work = [
            Some(shared()),
            Some(Stmt::assign(element(thread()), 1)),
            meets,
            Some(write(number(), element(other))),
        ];
        outcome(work.into_iter().flatten().collect::<Block>())
    };
    assert!(exchange(1, Some(Meeting::Warp)).is_ok());
    assert!(matches!(exchange(1, None), Err(Fault::Race(..))));
    // The other warp of the block was not there.
    let far = exchange(32, Some(Meeting::Warp));
    assert!(matches!(far, Err(Fault::Race(..))));
    assert!(exchange(32, Some(Meeting::Block)).is_ok());
}

#[test]
fn kernels_of_one_launch_do_not_wait_for_each_other() {
    let read = Expr::from(Name::Pointer(0)).element(thread() & 7);
    let work = [write(number(), number()), write(number(), read)];
    let kernel = kernel(work);
    let launched = |pointers: [[usize; 2]; 2]| {
        let members = pointers.map(|pointers| member(&kernel, pointers));
        let mut memory = memory();
        memory.push(Shared::new("other".to_owned(), 128));
        run(&members, &mut memory).map_err(|report| report.fault)
    };
    assert!(launched([[0, 1], [0, 3]]).is_ok());
    // Both write one tensor; one reads what the other writes.
    assert!(matches!(launched([[0, 1], [0, 1]]), Err(Fault::Race(..))));
    assert!(matches!(launched([[0, 1], [1, 3]]), Err(Fault::Race(..))));
}

#[test]
fn an_element_with_several_readers_is_written_by_none_of_them() {
    let read = Expr::from(Name::Pointer(1)).element(0);
    let held = Stmt::constant(Local::Sum, F32, read);
    // All threads of both blocks read it; a barrier later one of the second block writes.
    let later = Stmt::when(number().equals(127), write(0.into(), 1.into()));
    let kernel = kernel([held, barrier(), later]);
    let mut memory = memory();
    memory[1] = Shared::filled("output".to_owned(), 128, [(0, Datum::F32(1.0))]);
    let found = run(&[member(&kernel, [0, 1])], &mut memory);
    assert!(matches!(found, Err(report) if matches!(report.fault, Fault::Race(..))));
    let one = Member {
        blocks: [1, 0],
        ..member(&kernel, [0, 1])
    };
    let mut memory = vec![memory.remove(0), memory.remove(0), memory.remove(0)];
    assert!(run(&[one], &mut memory).is_ok());
}

#[test]
fn a_block_waits_for_those_before_it_alone() {
    let fold = Name::of(Part::Fold, 0);
    let add = Stmt::Define(Box::new(ir::Operation {
        name: fold,
        operands: (F32.into(), F32.into()),
        value: Expr::from(OnDevice::Left) + OnDevice::Right,
    }));
    let place = Expr::from(Local::Scratch) + Expr::from(Local::Block) * 16;
    let post = Expr::call(Function::Post, [place, Expr::from(Local::Block) + 5]);
    let post = Stmt::when(thread().equals(0), Stmt::Call(post));
    let before = |tile: Expr| {
        let one = Expr::float(DType::F32, 0.0);
        let own = one.clone();
        let arguments = [Local::Scratch.into(), tile, 2.into(), own, one, fold.into()];
        let before = Expr::call(Function::Before(16, DType::F32), arguments);
        outcome([
            add.clone(),
            post.clone(),
            Stmt::constant(Local::Sum, F32, before),
            write(number(), Local::Sum.into()),
        ])
    };
    let elements = before(Local::Block.into()).expect("it runs");
    assert_eq!(elements[64], Some(Datum::F32(5.0)));
    let later = before(Expr::from(Local::Block) + 2);
    assert!(matches!(later, Err(Fault::Unwritten(..))));
}

#[test]
fn loops_end_thread_by_thread() {
    let by_halves = Loop::over(OnDevice::Distance, thread(), 0);
    let work = [
        Stmt::variable(Local::Sum, Type::INT, 0),
        by_halves
            .halving()
            .each(Stmt::update(Local::Sum, ir::Infix::Add, 1)),
        write(number(), Local::Sum.into()),
    ];
    let elements = outcome(work).expect("it runs");
    let of = |at: usize| elements[at];
    assert_eq!(
        [0, 1, 31, 32].map(of),
        [0.0, 1.0, 5.0, 6.0].map(|n| Some(Datum::F32(n)))
    );
}
