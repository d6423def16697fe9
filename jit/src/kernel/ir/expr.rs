//! Expressions of the kernel IR.

use super::function::Function;
use super::name::{Local, Name, OnDevice};
use super::types::Type;
use ferrotrace_runtime::DType;
use smallvec::SmallVec;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Rem, Shr, Sub};

/// What a statement computes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A variable's value.
    Name(Name),
    /// An integer.
    Integer(i64),
    /// The number of a floating-point dtype with these bits of binary64.
    Float(DType, Box<u64>),
    /// Zero in all lanes or elements.
    Zeros,
    /// This in all elements of an array.
    Each(Box<Expr>),
    /// The position along the vector axis, which [`Expr::at`] puts in its place.
    Position,
    /// An operator of one operand.
    Prefix(Prefix, Box<Expr>),
    /// An operator of two operands.
    Infix(Infix, Box<(Expr, Expr)>),
    /// The second where the first holds, else the third.
    Conditional(Box<(Expr, Expr, Expr)>),
    /// A call.
    Call(Box<Call>),
    /// An element of an array, of memory, or of a vector.
    Element(Box<(Expr, Expr)>),
    /// The same bits or number as another type.
    Cast(Box<(Type, Expr)>),
    /// Text that is not taken apart yet.
    Text(Box<String>),
}

/// The call of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    /// What is called.
    pub function: Function,
    /// Its arguments.
    pub arguments: SmallVec<[Expr; 3]>,
}

/// Operators of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Prefix {
    /// The number with the other sign.
    Negative,
    /// Every bit turned.
    Complement,
    /// Whether it is zero.
    Not,
    /// The address of a variable or element.
    Address,
    /// What lies at an address.
    Dereference,
}

/// Operators of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Infix {
    Multiply,
    Divide,
    Remainder,
    Add,
    Subtract,
    ShiftRight,
    Less,
    AtMost,
    Greater,
    AtLeast,
    Equal,
    Unequal,
    BitAnd,
    BitXor,
    BitOr,
    And,
    Or,
}

impl Infix {
    /// Whether it compares numbers.
    pub fn compares(self) -> bool {
        use Infix::{AtLeast, AtMost, Equal, Greater, Less, Unequal};
        matches!(self, Less | AtMost | Greater | AtLeast | Equal | Unequal)
    }

    /// Whether it joins conditions.
    pub fn joins(self) -> bool {
        matches!(self, Infix::And | Infix::Or)
    }
}

impl Expr {
    /// A number of a floating-point dtype.
    pub fn float(dtype: DType, number: f64) -> Expr {
        Expr::Float(dtype, Box::new(number.to_bits()))
    }

    /// Text that is not taken apart yet.
    pub fn text(text: impl Into<String>) -> Expr {
        Expr::Text(Box::new(text.into()))
    }

    /// A call.
    pub fn call(function: Function, arguments: impl IntoIterator<Item = Expr>) -> Expr {
        Expr::Call(Box::new(Call {
            function,
            arguments: arguments.into_iter().collect(),
        }))
    }

    /// An operator of two operands.
    pub fn infix(op: Infix, left: impl Into<Expr>, right: impl Into<Expr>) -> Expr {
        Expr::Infix(op, Box::new((left.into(), right.into())))
    }

    /// The element at an index.
    pub fn element(self, index: impl Into<Expr>) -> Expr {
        Expr::Element(Box::new((self, index.into())))
    }

    /// The value converted to another type.
    pub fn cast(self, ty: impl Into<Type>) -> Expr {
        Expr::Cast(Box::new((ty.into(), self)))
    }

    /// The address of a variable or element.
    pub fn address(self) -> Expr {
        Expr::Prefix(Prefix::Address, Box::new(self))
    }

    /// What lies at an address.
    pub fn dereference(self) -> Expr {
        Expr::Prefix(Prefix::Dereference, Box::new(self))
    }

    /// Whether it is less.
    pub fn less(self, other: impl Into<Expr>) -> Expr {
        Expr::infix(Infix::Less, self, other)
    }

    /// Whether it is less or equal.
    pub fn at_most(self, other: impl Into<Expr>) -> Expr {
        Expr::infix(Infix::AtMost, self, other)
    }

    /// Whether it is greater.
    pub fn greater(self, other: impl Into<Expr>) -> Expr {
        Expr::infix(Infix::Greater, self, other)
    }

    /// Whether it is greater or equal.
    pub fn at_least(self, other: impl Into<Expr>) -> Expr {
        Expr::infix(Infix::AtLeast, self, other)
    }

    /// Whether both are equal.
    pub fn equals(self, other: impl Into<Expr>) -> Expr {
        Expr::infix(Infix::Equal, self, other)
    }

    /// Whether they differ.
    pub fn differs(self, other: impl Into<Expr>) -> Expr {
        Expr::infix(Infix::Unequal, self, other)
    }

    /// Whether both hold.
    pub fn and(self, other: impl Into<Expr>) -> Expr {
        Expr::infix(Infix::And, self, other)
    }

    /// Whether one holds.
    pub fn or(self, other: impl Into<Expr>) -> Expr {
        Expr::infix(Infix::Or, self, other)
    }

    /// One of two, as a condition says.
    pub fn choose(self, then: impl Into<Expr>, otherwise: impl Into<Expr>) -> Expr {
        Expr::Conditional(Box::new((self, then.into(), otherwise.into())))
    }

    /// Whether all of some conditions hold, of at least one.
    pub fn all(conditions: impl IntoIterator<Item = Expr>) -> Option<Expr> {
        conditions.into_iter().reduce(Expr::and)
    }

    /// The sum of some terms, of at least one.
    pub fn sum(terms: impl IntoIterator<Item = Expr>) -> Option<Expr> {
        terms.into_iter().reduce(|a, b| a + b)
    }

    /// The lesser of two integers.
    pub fn least(self, other: impl Into<Expr>) -> Expr {
        Expr::call(Function::Least, [self, other.into()])
    }

    /// The greater of two integers.
    pub fn greatest(self, other: impl Into<Expr>) -> Expr {
        Expr::call(Function::Greatest, [self, other.into()])
    }

    /// This at a position along the vector axis.
    pub fn at(&self, position: &Expr) -> Expr {
        self.map(&|e| matches!(e, Expr::Position).then(|| position.clone()))
    }

    /// This with every part replaced for which `replace` has something else.
    pub fn map(&self, replace: &impl Fn(&Expr) -> Option<Expr>) -> Expr {
        if let Some(other) = replace(self) {
            return other;
        }
        let of = |e: &Expr| e.map(replace);
        match self {
            Expr::Prefix(op, a) => Expr::Prefix(*op, Box::new(of(a))),
            Expr::Infix(op, both) => Expr::infix(*op, of(&both.0), of(&both.1)),
            Expr::Conditional(all) => of(&all.0).choose(of(&all.1), of(&all.2)),
            Expr::Call(call) => Expr::call(call.function, call.arguments.iter().map(of)),
            Expr::Element(both) => of(&both.0).element(of(&both.1)),
            Expr::Cast(cast) => of(&cast.1).cast(cast.0),
            Expr::Each(a) => Expr::Each(Box::new(of(a))),
            leaf => leaf.clone(),
        }
    }

    /// The parts of which it is made.
    pub fn parts(&self) -> SmallVec<[&Expr; 3]> {
        let mut parts = SmallVec::new();
        self.any_part(&mut |part| {
            parts.push(part);
            false
        });
        parts
    }

    /// Shows the expressions that it is made of, until one fits; whether one does.
    fn any_part<'a>(&'a self, fits: &mut impl FnMut(&'a Expr) -> bool) -> bool {
        match self {
            Expr::Prefix(_, a) | Expr::Each(a) => fits(a),
            Expr::Infix(_, both) | Expr::Element(both) => fits(&both.0) || fits(&both.1),
            Expr::Conditional(all) => fits(&all.0) || fits(&all.1) || fits(&all.2),
            Expr::Call(call) => call.arguments.iter().any(fits),
            Expr::Cast(cast) => fits(&cast.1),
            _ => false,
        }
    }

    /// Of how many parts it is made, itself included.
    pub fn part_count(&self) -> usize {
        let mut count = 0;
        self.visit(&mut |_| count += 1);
        count
    }

    /// Shows it, and then every part of it.
    pub fn visit(&self, see: &mut impl FnMut(&Expr)) {
        see(self);
        self.any_part(&mut |part| {
            part.visit(see);
            false
        });
    }

    /// Changes every part, innermost first, then itself.
    pub fn rewrite(&mut self, change: &mut impl FnMut(&mut Expr)) {
        match self {
            Expr::Prefix(_, a) | Expr::Each(a) => a.rewrite(change),
            Expr::Infix(_, both) | Expr::Element(both) => {
                both.0.rewrite(change);
                both.1.rewrite(change);
            }
            Expr::Conditional(all) => {
                all.0.rewrite(change);
                all.1.rewrite(change);
                all.2.rewrite(change);
            }
            Expr::Call(call) => call.arguments.iter_mut().for_each(|a| a.rewrite(change)),
            Expr::Cast(cast) => cast.1.rewrite(change),
            _ => {}
        }
        change(self);
    }

    /// Whether any part of it, or it, fits.
    pub fn any(&self, fits: &impl Fn(&Expr) -> bool) -> bool {
        fits(self) || self.any_part(&mut |part| part.any(fits))
    }
}

impl From<Name> for Expr {
    fn from(name: Name) -> Expr {
        Expr::Name(name)
    }
}

impl From<Local> for Expr {
    fn from(local: Local) -> Expr {
        Expr::Name(Name::Local(local))
    }
}

impl From<OnDevice> for Expr {
    fn from(local: OnDevice) -> Expr {
        Expr::Name(Name::OnDevice(local))
    }
}

impl From<i64> for Expr {
    fn from(integer: i64) -> Expr {
        Expr::Integer(integer)
    }
}

macro_rules! infix {
    ($($operation:ident $method:ident $op:ident),*) => {$(
        impl<T: Into<Expr>> $operation<T> for Expr {
            type Output = Expr;
            fn $method(self, other: T) -> Expr {
                Expr::infix(Infix::$op, self, other)
            }
        }
    )*};
}

infix!(
    Add add Add, Sub sub Subtract, Mul mul Multiply, Div div Divide, Rem rem Remainder, BitAnd bitand BitAnd,
    BitOr bitor BitOr, Shr shr ShiftRight
);

impl Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        Expr::Prefix(Prefix::Negative, Box::new(self))
    }
}

impl Not for Expr {
    type Output = Expr;
    fn not(self) -> Expr {
        Expr::Prefix(Prefix::Not, Box::new(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_takes_16_bytes() {
        assert_eq!(std::mem::size_of::<Expr>(), 16);
    }

    #[test]
    fn a_position_is_put_where_the_leaf_is() {
        let index = Expr::from(Name::Base(2)) + Expr::Position * Name::Param(1);
        let moved = index.at(&(Expr::from(Local::Column) + 4));
        let column = Expr::from(Local::Column) + 4;
        assert_eq!(moved, Expr::from(Name::Base(2)) + column * Name::Param(1));
        assert!(index.any(&|e| *e == Expr::Position));
        assert!(!moved.any(&|e| *e == Expr::Position));
    }
}
