//! The types of expressions, and which agree.

use super::super::expr::{Expr, Infix, Prefix};
use super::super::function::Function;
use super::super::types::{Access, PointerType, Space, Type, ValueType};
use super::{Checker, Rule, Typed, fault};

impl Checker<'_> {
    pub(super) fn expr(&mut self, e: &Expr) -> Typed {
        match e {
            Expr::Name(name) => Ok(self.name(*name)?.map(|known| known.ty)),
            Expr::Integer(_) => Ok(Some(Type::INDEX)),
            Expr::Float(dtype, _) => Ok(Some(Type::scalar(*dtype))),
            Expr::Zeros | Expr::Text(_) => Ok(None),
            Expr::Each(a) => self.expr(a),
            Expr::Position => fault(Rule::Position, e),
            Expr::Prefix(op, a) => self.prefix(*op, a, e),
            Expr::Infix(op, both) => self.infix(*op, both, e),
            Expr::Conditional(all) => {
                self.condition(&all.0)?;
                together(self.expr(&all.1)?, self.expr(&all.2)?, e)
            }
            Expr::Call(call) => {
                let mut lanes = None;
                for (at, argument) in call.arguments.iter().enumerate() {
                    let ty = self.expr(argument)?;
                    lanes = lanes.or(ty.and_then(|ty| ty.lanes()));
                    let operation = call.function.operations().contains(&at);
                    if ty.is_some_and(|ty| (ty == Type::Void) != operation) {
                        return fault(Rule::Operation, e);
                    }
                    if (call.function, at) == (Function::AtomicAdd, 0) && !ty.is_none_or(adds) {
                        return fault(Rule::Atomic, e);
                    }
                }
                let arity = call.function.arity();
                let differs = arity.is_some_and(|n| n != call.arguments.len());
                let result = call.function.result();
                let other = matches!((lanes, result.lanes()), (Some(a), Some(b)) if a != b);
                match call.function {
                    _ if differs || other => fault(Rule::Call, e),
                    Function::Own(n, _) if !self.own.contains(&n) => fault(Rule::Functions, e),
                    _ => Ok(Some(result)),
                }
            }
            Expr::Element(both) => {
                if self.expr(&both.1)?.is_some_and(|ty| !ty.is_integer()) {
                    return fault(Rule::Element, e);
                }
                match self.expr(&both.0)? {
                    Some(Type::Pointer(p)) => Ok(Some(inside(p))),
                    Some(Type::Value(ValueType::Vector(dtype, _))) => Ok(Some(Type::scalar(dtype))),
                    None => Ok(None),
                    Some(_) => fault(Rule::Element, e),
                }
            }
            Expr::Cast(cast) => self.expr(&cast.1).map(|_| Some(cast.0)),
        }
    }

    fn prefix(&mut self, op: Prefix, a: &Expr, e: &Expr) -> Typed {
        let Some(ty) = self.expr(a)? else {
            return Ok(None);
        };
        match (op, ty) {
            (Prefix::Address, Type::Value(to)) => Ok(Some(Type::write(to))),
            (Prefix::Dereference, Type::Pointer(p)) => Ok(Some(inside(p))),
            (Prefix::Address | Prefix::Dereference, _) => fault(Rule::Element, e),
            (Prefix::Not, _) if !ty.is_integer() => fault(Rule::Condition, e),
            (Prefix::Not, _) => Ok(Some(Type::INT)),
            (_, Type::Value(_)) => Ok(Some(ty)),
            _ => fault(Rule::Agree, e),
        }
    }

    fn infix(&mut self, op: Infix, both: &(Expr, Expr), e: &Expr) -> Typed {
        if op.joins() {
            self.condition(&both.0)?;
            self.condition(&both.1)?;
            return Ok(Some(Type::INT));
        }
        let types = (self.expr(&both.0)?, self.expr(&both.1)?);
        if types.1 == Some(Type::Value(ValueType::Divisor)) {
            let divides = matches!(op, Infix::Divide | Infix::Remainder);
            return match types.0 {
                Some(ty) if !divides || !ty.is_integer() => fault(Rule::Divisor, e),
                _ => Ok(Some(Type::INDEX)),
            };
        }
        let moves = matches!(op, Infix::Add | Infix::Subtract);
        if let (true, (Some(Type::Pointer(p)), offset)) = (moves, types) {
            return match offset {
                Some(ty) if !ty.is_integer() => fault(Rule::Agree, e),
                _ => Ok(Some(Type::Pointer(p))),
            };
        }
        let ty = together(types.0, types.1, e)?;
        match (op.compares(), ty) {
            // A comparison of vectors gives integers of their lanes' size.
            (true, Some(ty)) if ty.lanes().is_some() => Ok(None),
            (true, _) => Ok(Some(Type::INT)),
            (false, Some(Type::Value(_)) | None) => Ok(ty),
            (false, _) => fault(Rule::Agree, e),
        }
    }
}

/// What lies at a place: an element, or an array of such.
fn inside(place: PointerType) -> Type {
    match place.nested {
        0 => Type::Value(place.to),
        nested => Type::Pointer(PointerType {
            nested: nested - 1,
            ..place
        }),
    }
}

/// Whether an atomic addition may be to such a place.
fn adds(place: Type) -> bool {
    match place {
        Type::Pointer(p) => {
            Type::Value(p.to).is_integer() && p.access == Access::Write && p.space != Space::Private
        }
        _ => false,
    }
}

/// The type of two operands together.
fn together(a: Option<Type>, b: Option<Type>, e: &Expr) -> Typed {
    let (Some(of_a), Some(of_b)) = (a, b) else {
        return Ok(a.or(b));
    };
    match (of_a.lanes(), of_b.lanes()) {
        // A number is one of every lane.
        (Some(_), None) if of_b.is_scalar() => Ok(Some(of_a)),
        (None, Some(_)) if of_a.is_scalar() => Ok(Some(of_b)),
        _ if agree(of_a, of_b) => Ok(Some(of_a)),
        _ => fault(Rule::Agree, e),
    }
}

/// Whether a value of one type may stand where the other is asked for. Numbers without lanes are converted; vectors are of one
/// representation; a place to write is one to read.
pub(super) fn agree(given: Type, asked: Type) -> bool {
    match (given, asked) {
        (Type::Value(ValueType::Vector(a, n)), Type::Value(ValueType::Vector(b, m))) => {
            n == m && ValueType::representation(a, n) == ValueType::representation(b, m)
        }
        (Type::Pointer(a), Type::Pointer(b)) => {
            a.to == b.to
                && a.nested == b.nested
                && (a.access == b.access || b.access == Access::Read)
        }
        _ => given == asked || given.is_scalar() && asked.is_scalar(),
    }
}
