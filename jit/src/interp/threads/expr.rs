//! Expressions, one thread at a time.

use super::super::datum::Datum;
use super::value::{Held, Home, Place, holds, stored, whole};
use super::{Fault, Threads, Variable};
use crate::kernel::ir::{Expr, Infix, Local, Name, OnDevice, Prefix, Type, ValueType};
use ferrotrace_kernels::BinaryOp;
use ferrotrace_runtime::DType;

/// A number of an expression.
fn integer(n: i64) -> Result<Held, Fault> {
    Ok(Held::Number(Datum::I64(n)))
}

impl<'k> Threads<'_, 'k> {
    /// What an expression gives to a thread.
    pub(super) fn eval(&mut self, e: &'k Expr, thread: usize) -> Result<Held, Fault> {
        match e {
            Expr::Name(name) => self.name(*name, thread),
            Expr::Integer(n) => integer(*n),
            Expr::Float(dtype, bits) => {
                let number = Datum::F64(f64::from_bits(**bits));
                Ok(Held::Number(number.cast(dtype.compute())))
            }
            Expr::Prefix(Prefix::Address, a) => Ok(Held::Place(self.place(a, thread)?)),
            Expr::Prefix(Prefix::Dereference, _) | Expr::Element(_) => {
                let place = self.place(e, thread)?;
                match place.dims.is_empty() {
                    true => self.read(thread, &place),
                    false => Ok(Held::Place(place)),
                }
            }
            Expr::Prefix(op, a) => match self.eval(a, thread)? {
                Held::Number(a) => Ok(Held::Number(prefixed(*op, a))),
                other => self.operand(other),
            },
            Expr::Infix(op, both) => self.infix(*op, &both.0, &both.1, thread),
            Expr::Conditional(all) => match self.eval(&all.0, thread)? {
                Held::Number(test) if holds(test) => self.eval(&all.1, thread),
                Held::Number(_) => self.eval(&all.2, thread),
                other => self.operand(other),
            },
            Expr::Call(call) => self.call(call, thread),
            Expr::Cast(cast) => self.cast(cast.0, &cast.1, thread),
            Expr::Zeros | Expr::Each(_) | Expr::Position | Expr::Text(_) => {
                Err(Fault::Wrong(e.to_string()))
            }
        }
    }

    /// The number that an expression gives, which must be known.
    pub(super) fn number(&mut self, e: &'k Expr, thread: usize) -> Result<Datum, Fault> {
        let held = self.eval(e, thread)?;
        self.known(held)
    }

    /// The integer that an expression gives, which must be known.
    pub(super) fn integer(&mut self, e: &'k Expr, thread: usize) -> Result<i64, Fault> {
        self.number(e, thread).map(whole)
    }

    /// What an operation gives of an operand that is not known.
    pub(super) fn operand(&self, held: Held) -> Result<Held, Fault> {
        match held {
            Held::Unwritten(_) => Ok(held),
            other => Err(Fault::Wrong(format!("{other:?} as an operand"))),
        }
    }

    fn name(&mut self, name: Name, thread: usize) -> Result<Held, Fault> {
        let member = self.member;
        let of = |all: &[i64], at: u32| match all.get(at as usize) {
            Some(n) => integer(*n),
            None => Err(Fault::Wrong(name.to_string())),
        };
        match name {
            Name::Param(i) | Name::Divisor(i) => of(&member.params, i),
            Name::Bits(i) => of(&member.bits, i),
            Name::Number(i) => match member.numbers.get(i as usize) {
                Some(number) => Ok(Held::Number(*number)),
                None => Err(Fault::Wrong(name.to_string())),
            },
            Name::Pointer(i) => {
                let (memory, at) = member.pointers[i as usize];
                let to = member.kernel.arguments.pointers[i as usize].to;
                let place = Place::element(Home::Global(memory), at, to);
                Ok(Held::Place(place))
            }
            Name::Local(Local::Scratch) => {
                let first = Place::element(Home::Global(member.scratch), 0, ValueType::Byte);
                Ok(Held::Place(Place {
                    bytes: true,
                    ..first
                }))
            }
            Name::Local(Local::Thread) => integer(thread as i64),
            Name::Local(Local::Block) => integer(i64::from(self.block)),
            Name::OnDevice(side @ (OnDevice::Left | OnDevice::Right)) => {
                let both = self.operands.last();
                let [left, right] = both.ok_or_else(|| Fault::Wrong(name.to_string()))?;
                Ok(if side == OnDevice::Left {
                    *left
                } else {
                    *right
                })
            }
            _ => {
                let place = self.variable(name)?;
                match place.dims.is_empty() {
                    true => self.read(thread, &place),
                    false => Ok(Held::Place(place)),
                }
            }
        }
    }

    /// Where a variable lies.
    pub(super) fn variable(&self, name: Name) -> Result<Place, Fault> {
        let found = self.variables.get(&name);
        let Variable { home, to, dims } = *found.ok_or_else(|| Fault::Wrong(name.to_string()))?;
        Ok(Place {
            dims,
            ..Place::element(home, 0, to)
        })
    }

    /// Where what an expression names lies.
    pub(super) fn place(&mut self, e: &'k Expr, thread: usize) -> Result<Place, Fault> {
        match e {
            Expr::Name(name) => self.variable(*name),
            Expr::Prefix(Prefix::Dereference, at) => self.pointed(at, thread),
            Expr::Element(both) => {
                let array = self.pointed(&both.0, thread)?;
                let index = self.integer(&both.1, thread)?;
                self.element(array, index)
            }
            _ => Err(Fault::Wrong(format!("the place of {e}"))),
        }
    }

    /// An element of an array, of an array of arrays, or of memory.
    pub(super) fn element(&self, array: Place, index: i64) -> Result<Place, Fault> {
        if let Some(&size) = array.dims.all().first()
            && !(0..size).contains(&index)
        {
            let name = match array.home {
                Home::Global(n) => self.memory[n].name().to_owned(),
                Home::Block(n) => self.shared[n].name().to_owned(),
                Home::Thread(_, name) => name.to_string(),
            };
            return Err(Fault::Outside(name, index));
        }
        let dims = array.dims.inner();
        let place = array.moved(index);
        Ok(Place { dims, ..place })
    }

    /// The place that an expression gives.
    pub(super) fn pointed(&mut self, e: &'k Expr, thread: usize) -> Result<Place, Fault> {
        match self.eval(e, thread)? {
            Held::Place(place) => Ok(place),
            other => Err(Fault::Wrong(format!("{other:?} as a place"))),
        }
    }

    fn cast(&mut self, ty: Type, e: &'k Expr, thread: usize) -> Result<Held, Fault> {
        match (ty, self.eval(e, thread)?) {
            (Type::Pointer(pointer), Held::Place(place)) => Ok(Held::Place(Place {
                to: pointer.to,
                ..place.first()
            })),
            (Type::Value(to), Held::Number(number)) => Ok(Held::Number(stored(number, to))),
            (Type::Value(_), held @ Held::Unwritten(_)) => Ok(held),
            (ty, held) => Err(Fault::Wrong(format!("{held:?} as {ty}"))),
        }
    }

    pub(super) fn infix(
        &mut self,
        op: Infix,
        a: &'k Expr,
        b: &'k Expr,
        thread: usize,
    ) -> Result<Held, Fault> {
        match (op, self.eval(a, thread)?) {
            (Infix::And | Infix::Or, Held::Number(left)) => {
                let left = holds(left);
                if left == (op == Infix::Or) {
                    return Ok(Held::Number(Datum::Bool(left)));
                }
                match self.eval(b, thread)? {
                    Held::Number(right) => Ok(Held::Number(Datum::Bool(holds(right)))),
                    other => self.operand(other),
                }
            }
            (Infix::Add, Held::Place(place)) => {
                Ok(Held::Place(place.moved(self.integer(b, thread)?)))
            }
            (Infix::Subtract, Held::Place(place)) => {
                Ok(Held::Place(place.moved(-self.integer(b, thread)?)))
            }
            (_, Held::Number(left)) => match self.eval(b, thread)? {
                Held::Number(right) => joined(op, left, right).map(Held::Number),
                other => self.operand(other),
            },
            (_, other) => self.operand(other),
        }
    }
}

/// A number under an operator of one operand.
fn prefixed(op: Prefix, a: Datum) -> Datum {
    match (op, a) {
        (Prefix::Not, a) => Datum::Bool(!holds(a)),
        (Prefix::Negative, Datum::F32(x)) => Datum::F32(-x),
        (Prefix::Negative, Datum::F64(x)) => Datum::F64(-x),
        (Prefix::Negative, a) => Datum::I64(whole(a).wrapping_neg()),
        (_, a) => Datum::I64(!whole(a)),
    }
}

/// Two numbers under an operator: of the wider floating-point type of both, or integers of 64 bits.
fn joined(op: Infix, a: Datum, b: Datum) -> Result<Datum, Fault> {
    let dtype = match [a.dtype(), b.dtype()] {
        [DType::F64, _] | [_, DType::F64] => DType::F64,
        [DType::F32, _] | [_, DType::F32] => DType::F32,
        _ => return joined_integers(op, whole(a), whole(b)),
    };
    let binary = match op {
        Infix::Multiply => BinaryOp::Mul,
        Infix::Divide => BinaryOp::Div,
        Infix::Add => BinaryOp::Add,
        Infix::Subtract => BinaryOp::Sub,
        Infix::Less => BinaryOp::Lt,
        Infix::AtMost => BinaryOp::Le,
        Infix::Greater => BinaryOp::Gt,
        Infix::AtLeast => BinaryOp::Ge,
        Infix::Equal => BinaryOp::Eq,
        Infix::Unequal => BinaryOp::Ne,
        _ => return Err(Fault::Wrong(format!("{op:?} of {a:?} and {b:?}"))),
    };
    let result = Datum::binary(binary, a.cast(dtype), b.cast(dtype));
    result.map_err(|error| Fault::Wrong(error.to_string()))
}

fn joined_integers(op: Infix, x: i64, y: i64) -> Result<Datum, Fault> {
    let quotient = |of: Option<i64>| {
        let by_zero = || Fault::Wrong(format!("{op:?} of {x} by {y}"));
        of.map(Datum::I64).ok_or_else(by_zero)
    };
    Ok(match op {
        Infix::Multiply => Datum::I64(x.wrapping_mul(y)),
        Infix::Add => Datum::I64(x.wrapping_add(y)),
        Infix::Subtract => Datum::I64(x.wrapping_sub(y)),
        Infix::BitAnd => Datum::I64(x & y),
        Infix::BitOr => Datum::I64(x | y),
        Infix::BitXor => Datum::I64(x ^ y),
        Infix::ShiftRight => Datum::I64(x >> y.clamp(0, 63)),
        Infix::Divide => return quotient(x.checked_div(y)),
        Infix::Remainder => return quotient(x.checked_rem(y)),
        Infix::Less => Datum::Bool(x < y),
        Infix::AtMost => Datum::Bool(x <= y),
        Infix::Greater => Datum::Bool(x > y),
        Infix::AtLeast => Datum::Bool(x >= y),
        Infix::Equal => Datum::Bool(x == y),
        Infix::Unequal => Datum::Bool(x != y),
        Infix::And | Infix::Or => return Err(Fault::Wrong("a condition of numbers".to_owned())),
    })
}
