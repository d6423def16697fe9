//! What CUDA text is made of.

use super::*;
use crate::kernel::ir::{
    Axis, Cached, Extent, Function, Infix, Local, Loop, Meeting, Name, OnDevice, Operation, Part,
    Shuffle, Stmt, Type, ValueType,
};
use ferrotrace_kernels::{BinaryOp, UnaryOp};
use ferrotrace_runtime::DType;

fn text(e: Expr) -> String {
    expr(&e, &mut BTreeSet::new())
}

fn n(name: impl Into<Name>) -> Expr {
    Expr::from(name.into())
}

#[test]
fn threads_compute_one_element() {
    let (a, b) = (n(Name::value(1)), n(Name::value(2)));
    let add = Function::Binary(BinaryOp::Add, DType::I32, 0);
    assert_eq!(
        text(Expr::call(add, [a.clone(), b])),
        "((int)((unsigned)v1 + (unsigned)v2))"
    );
    let exp = Function::Unary(UnaryOp::Exp, DType::F32, 0);
    assert_eq!(text(Expr::call(exp, [a.clone()])), "ft_exp_f32(v1)");
    let fast = Function::Support("fast_exp", DType::F32, 0);
    assert_eq!(text(Expr::call(fast, [a.clone()])), "ft_fast_exp_f32(v1)");
    let check = Expr::call(Function::Check, [a, n(Name::Param(0)), n(Name::Param(1))]);
    assert_eq!(text(check), "ft_index(a.fault, v1, P0, P1)");
}

#[test]
fn divisors_are_types_of_their_own() {
    let row = n(Local::RowNumber);
    assert_eq!(text(row.clone() / Name::Divisor(3)), "row / D3");
    let sum = row + Name::Param(1);
    assert_eq!(
        text((sum % Name::Divisor(3)) * Name::Param(2)),
        "(row + P1) % D3 * P2"
    );
}

#[test]
fn every_number_has_a_literal() {
    let of = |dtype, number| text(Expr::float(dtype, number));
    assert_eq!(of(DType::F32, 1.0), "1.0f");
    assert_eq!(of(DType::F64, -0.0), "-0.0");
    assert_eq!(
        of(DType::F32, f64::NEG_INFINITY),
        "__int_as_float(0xff800000)"
    );
    assert_eq!(
        of(DType::F64, f64::INFINITY),
        "__longlong_as_double(0x7ff0000000000000LL)"
    );
}

#[test]
fn chunks_are_loaded_worked_on_and_stored() {
    let loaded = Name::of(Part::Loaded, 2);
    let element = n(loaded).element(Local::Lane);
    let load = Function::LoadChunk(Cached::Stays);
    let store = Function::StoreChunk(Cached::Leaves);
    let place = n(Name::Pointer(0)) + (n(Name::Base(1)) + Local::Column);
    let there = n(Name::Pointer(1)).element(n(Name::Base(2)) + Local::Column);
    let block = Block::from([
        Stmt::array(
            loaded,
            ValueType::Memory(DType::F32),
            Extent::Aligned(4.into()),
        ),
        Stmt::Call(Expr::call(load, [n(loaded), place, n(Local::Count)])),
        Loop::over(Local::Lane, 0, 4)
            .of_type(ValueType::Scalar(DType::I32))
            .along(Axis::Lane)
            .unrolled()
            .each([Stmt::constant(
                Name::value(2),
                Type::scalar(DType::F32),
                element,
            )]),
        Stmt::Call(Expr::call(
            store,
            [there.address(), n(loaded), n(Local::Count)],
        )),
        Stmt::when(n(Local::Chunk).at_least(Name::Param(0)), Stmt::Leave),
    ]);
    let wanted = "  __align__(16) float g2[4];
  ft_load(g2, p0 + (b1 + j), m);
  #pragma unroll
  for (int l = 0; l < 4; l++) {
    const float v2 = g2[l];
  }
  ft_store_last(&p1[b2 + j], g2, m);
  if (u >= P0) return;
";
    assert_eq!(lines(&block, 2, &mut BTreeSet::new()), wanted);
}

#[test]
fn threads_share_meet_and_exchange() {
    let shared = Name::of(Part::Shared, 3);
    let accumulator = Name::of(Part::Accumulator, 3);
    let other = Expr::call(
        Function::Shuffle(Shuffle::Xor, DType::F32),
        [n(accumulator).element(0), n(OnDevice::Distance)],
    );
    let operation = Operation {
        name: Name::of(Part::Fold, 4),
        operands: (Type::scalar(DType::F64), Type::scalar(DType::F32)),
        value: n(OnDevice::Left) + OnDevice::Right,
    };
    let first = (n(Local::Thread) & 31).equals(0);
    let place = n(shared).element(n(Local::Thread) >> 5).element(1);
    let block = Block::from([
        Stmt::Wait,
        Stmt::filled(accumulator, Type::scalar(DType::F32), 2, Expr::Integer(0)),
        Loop::over(OnDevice::Distance, 16, 0)
            .of_type(ValueType::Scalar(DType::I32))
            .halving()
            .each(Stmt::update(n(accumulator).element(0), Infix::Add, other)),
        Stmt::shared(shared, Type::scalar(DType::F32), Extent::array([4, 2])),
        Stmt::when(first, Stmt::assign(place, n(accumulator).element(0))),
        Stmt::Barrier(Meeting::Block),
        Stmt::Define(Box::new(operation)),
        Loop::over(Local::Index, 8, 0)
            .down_by(2)
            .unrolled_by(4)
            .each(Stmt::assign(n(accumulator).element(1), 0)),
    ]);
    let wanted = "FT_AFTER;
float a3[2] = {0, 0};
for (int o = 16; o > 0; o >>= 1) a3[0] += (float)__shfl_xor_sync(~0u, a3[0], o);
__shared__ float w3[4][2];
if ((threadIdx.x & 31) == 0) w3[threadIdx.x >> 5][1] = a3[0];
__syncthreads();
const auto fold4 = [](double x, float y) { return x + y; };
#pragma unroll 4
for (ft_int c = 8; c >= 0; c -= 2) a3[1] = 0;
";
    assert_eq!(lines(&block, 0, &mut BTreeSet::new()), wanted);
}
