//! What C text is made of.

use super::kernel::INTEGERS;
use super::print;
use crate::kernel::ir::{
    Access, Arguments, Axis, Block, Body, Expr, Extent, Function, Infix, Kernel, Local, Loop, Name,
    Part, PointerType, Role, Stmt, Type, ValueType, verify,
};
use crate::print::{Language, Printer};
use ferrotrace_kernels::support::Need;
use ferrotrace_kernels::{BinaryOp, UnaryOp};
use ferrotrace_runtime::DType;
use std::collections::BTreeSet;

/// An expression as text, and what it calls for.
fn expr(e: &Expr, needs: &mut BTreeSet<Need>) -> String {
    let mut printer = Printer::within(Language::C, needs, 0);
    printer.expr(e);
    printer.out
}

fn text(e: Expr) -> String {
    expr(&e, &mut BTreeSet::new())
}

fn n(name: impl Into<Name>) -> Expr {
    Expr::from(name.into())
}

#[test]
fn parentheses_are_those_that_precedence_asks_for() {
    let (u, row, lo) = (|| n(Local::Unit), || n(Local::Row), || n(Local::Low));
    let cases = [
        (u() + (row() + lo()), "u + (row + lo)"),
        (u() + row() + lo(), "u + row + lo"),
        (u() - (row() - lo()), "u - (row - lo)"),
        ((u() + row()) * lo(), "(u + row) * lo"),
        (u() % Name::Param(1) * Name::Param(0), "u % P1 * P0"),
        (u() * (row() % lo()), "u * (row % lo)"),
        ((u() & row()).equals(0), "(u & row) == 0"),
        (u().less(row()).and(!lo()), "u < row && !lo"),
        (!(u().less(row())), "!(u < row)"),
        (u().or(row()).and(lo()), "(u || row) && lo"),
        (-(u() + row()), "-(u + row)"),
        (-Expr::Integer(-1), "-(-1)"),
        (-(-u()), "-(-u)"),
        (u() - -1, "u - -1"),
        (
            u().less(row()).choose(u(), row() + 1),
            "u < row ? u : row + 1",
        ),
        (
            u().choose(row().choose(lo(), u()), lo()),
            "u ? (row ? lo : u) : lo",
        ),
        ((u() + row()).cast(Type::LONG), "(long)(u + row)"),
        (u().cast(Type::LONG) + row(), "(long)u + row"),
        ((u() + row()).dereference(), "*(u + row)"),
        (n(Name::value(3)).element(u() + 1).address(), "&v3[u + 1]"),
        (
            u().cast(Type::write(ValueType::Memory(DType::F32)))
                .element(0),
            "((float *)u)[0]",
        ),
        (u().least(row() + 1), "ft_min(u, row + 1)"),
    ];
    for (e, wanted) in cases {
        assert_eq!(text(e), wanted);
    }
}

#[test]
fn every_number_has_a_literal() {
    let of = |dtype, number| text(Expr::float(dtype, number));
    assert_eq!(of(DType::F32, 1.0), "1.0f");
    assert_eq!(of(DType::F64, -0.0), "-0.0");
    assert_eq!(of(DType::F64, 1e-300), "1e-300");
    assert_eq!(of(DType::F32, f64::NEG_INFINITY), "-__builtin_inff()");
    assert_eq!(of(DType::F64, f64::INFINITY), "__builtin_inf()");
    assert_eq!(of(DType::F32, -f64::NAN), "__builtin_nanf(\"\")");
    assert_eq!(text(Expr::Integer(i64::MIN)), "(-0x7fffffffffffffffL - 1)");
    assert_eq!(text(Expr::Integer(i64::MAX)), "9223372036854775807");
    assert_eq!(
        text(Expr::Zeros.cast(Type::vector(DType::Bool, 16))),
        "(i32x16){0}"
    );
}

#[test]
fn calls_note_what_they_call_for() {
    let mut needs = BTreeSet::new();
    let place = n(Name::Pointer(0)) + (n(Name::Base(3)) + Local::Column);
    let load = Expr::call(Function::Support("load", DType::BF16, 8), [place]);
    assert_eq!(expr(&load, &mut needs), "ft_load_bf16x8(p0 + (b3 + j))");
    let cast = Function::Cast(DType::F32, DType::I32, 8);
    assert_eq!(
        expr(&Expr::call(cast, [n(Name::value(1))]), &mut needs),
        "ft_cast_f32_i32x8(v1)"
    );
    let names: Vec<&str> = needs.iter().map(|need| need.name).collect();
    assert_eq!(names, ["ft_cast_f32_i32", "ft_load_bf16"]);
}

#[test]
fn operators_are_spelled_by_the_vocabulary() {
    let (a, b) = (n(Name::value(1)), n(Name::value(2)));
    let add = Function::Binary(BinaryOp::Add, DType::F32, 8);
    assert_eq!(
        text(Expr::call(add, [a.clone() * b.clone(), b.clone()])),
        "((v1 * v2) + v2)"
    );
    let negative = Function::Unary(UnaryOp::Neg, DType::F32, 8);
    assert_eq!(text(Expr::call(negative, [b])), "(-v2)");
}

#[test]
fn a_kernel_is_written_whole() {
    let f32 = ValueType::Memory(DType::F32);
    let vector = ValueType::vector(DType::F32, 8);
    let load = Function::Support("load", DType::F32, 8);
    let store = Function::Support("store", DType::F32, 8);
    let accumulator = Name::of(Part::Accumulator, 2);
    let inner = Block::from([
        Stmt::constant(
            Name::value(0),
            vector,
            Expr::call(load, [n(Name::Pointer(0)) + Local::Column]),
        ),
        Stmt::update(
            n(accumulator).element(Local::Index),
            Infix::Add,
            n(Name::value(0)) * Name::Number(0),
        ),
    ]);
    let work = Block::from([
        Stmt::array(accumulator, vector, Extent::Array(4.into())),
        Loop::over(Local::Index, 0, 4)
            .of_type(ValueType::Scalar(DType::I32))
            .along(Axis::Accumulator)
            .each(Stmt::assign(
                n(accumulator).element(Local::Index),
                Expr::Zeros.cast(vector),
            )),
        Stmt::constant(Local::Index, Type::LONG, 1),
        Stmt::variable(Local::Column, Type::INDEX, Local::Begin),
        Loop::over(Local::Column, 0, Local::End)
            .from_here()
            .by_whole(8)
            .along(Axis::Vector)
            .each(inner),
        Stmt::either(
            n(Local::Column).less(Local::End),
            Stmt::Call(Expr::call(
                store,
                [
                    n(Name::Pointer(1)) + Name::Param(0),
                    n(accumulator).element(0),
                ],
            )),
            Stmt::Unused(Local::Memory.into()),
        ),
    ]);
    let kernel = Kernel {
        launch: Default::default(),
        arguments: Arguments {
            params: 1,
            pointers: vec![
                PointerType::global(f32, Access::Read),
                PointerType::global(f32, Access::Write),
            ],
            numbers: vec![DType::F32],
        },
        lanes: 8,
        functions: vec![Body {
            role: Role::Work,
            block: work,
        }],
    };
    assert_eq!(verify(&kernel), Ok(()));
    let printed = print(&kernel);
    let body = printed.text.strip_prefix(INTEGERS).unwrap();
    let wanted = "\
void FT_SYMBOL(const ft_args *a, long long begin, long long end, char *local) {
  const long long P0 = a->param[0];
  const float *p0 = (const float *)a->ptr[0];
  float *p1 = (float *)a->ptr[1];
  const f32x8 s0 = ft_set_f32x8(*(const float *)&a->scalar[0]);
  f32x8 a2[4];
  for (int c = 0; c < 4; c++) a2[c] = (f32x8){0};
  const long c = 1;
  long long j = begin;
  for (; j + 8 <= end; j += 8) {
    const f32x8 v0 = ft_load_f32x8(p0 + j);
    a2[c] += v0 * s0;
  }
  if (j < end) ft_store_f32x8(p1 + P0, a2[0]);
  else {
    (void)local;
  }
}
";
    assert_eq!(body, wanted);
    assert_eq!(printed.needs.len(), 3);
    let ir = kernel.to_string();
    assert!(
        ir.contains("for column: index to end by 8 whole along vector {"),
        "{ir}"
    );
    assert!(
        ir.contains("let value0: f32x8 = load.f32x8((pointer0 + column))"),
        "{ir}"
    );
}
