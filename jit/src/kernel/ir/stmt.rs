//! Statements of the kernel IR.

use super::block::Block;
use super::expr::{Expr, Infix};
use super::name::Name;
use super::types::{Type, ValueType};

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// Declares a variable.
    Declare(Box<Variable>),
    /// Puts a value into a variable, an element, or memory; with an operator, joined to what is there.
    Assign(Expr, Option<Infix>, Expr),
    /// Calls a function for what it does.
    Call(Expr),
    /// One of two blocks, as a condition says.
    If(Expr, Block, Block),
    /// A loop over a range.
    For(Box<Loop>),
    /// A loop as long as a condition holds.
    While(Expr, Block),
    /// A block with names of its own.
    Scope(Block),
    /// Tells the compiler that a variable may go unused.
    Unused(Name),
    /// Keeps the compiler from knowing what a pointer is made of, so that it stays one register.
    Opaque(Name),
    /// Gives a function's result.
    Return(Expr),
    /// Ends the work of this thread.
    Leave,
    /// Text that is not taken apart yet.
    Verbatim(String),
}

/// The declaration of a variable or an array.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Its name.
    pub name: Name,
    /// Its type, or that of an array's elements.
    pub ty: Type,
    /// Whether it keeps its first value.
    pub constant: bool,
    /// One element, or how many.
    pub extent: Extent,
    /// Its first value.
    pub value: Option<Expr>,
}

/// How many elements a variable has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// One, without an index.
    One,
    /// An array's.
    Array(u32),
    /// An array's that begins where the widest access may.
    Aligned(u32),
}

/// A loop over a range of integers.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// What takes the values.
    pub variable: Name,
    /// Its type.
    pub ty: ValueType,
    /// The first value; without one it goes on from where the variable, declared before, is.
    pub from: Option<Expr>,
    /// The value after the last.
    pub to: Expr,
    /// By how much it grows.
    pub step: i64,
    /// Whether it stops where less than a step is left.
    pub whole: bool,
    /// What it goes along.
    pub axis: Axis,
    /// How many turns of it are written out.
    pub unroll: Unroll,
    /// What it does with each.
    pub body: Block,
}

/// What a loop goes along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// Units of work, which other threads may do.
    Parallel,
    /// Rows that one thread takes one after another.
    Row,
    /// Columns, one at a time.
    Column,
    /// The vector axis, by whole vectors.
    Vector,
    /// The lanes of a vector.
    Lane,
    /// Accumulators, or partial results.
    Accumulator,
}

/// How many turns of a loop are written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unroll {
    /// As the compiler likes.
    AsIs,
    /// All.
    Whole,
}

impl Stmt {
    /// Declares a variable that keeps its value.
    pub fn constant(name: impl Into<Name>, ty: impl Into<Type>, value: impl Into<Expr>) -> Stmt {
        Stmt::declare(name.into(), ty.into(), true, Some(value.into()))
    }

    /// Declares a variable with a first value.
    pub fn variable(name: impl Into<Name>, ty: impl Into<Type>, value: impl Into<Expr>) -> Stmt {
        Stmt::declare(name.into(), ty.into(), false, Some(value.into()))
    }

    /// Declares a variable without a first value.
    pub fn unset(name: impl Into<Name>, ty: impl Into<Type>) -> Stmt {
        Stmt::declare(name.into(), ty.into(), false, None)
    }

    /// Declares an array without first values.
    pub fn array(name: impl Into<Name>, ty: impl Into<Type>, extent: Extent) -> Stmt {
        Stmt::Declare(Box::new(Variable {
            name: name.into(),
            ty: ty.into(),
            constant: false,
            extent,
            value: None,
        }))
    }

    /// Declares a variable or an array whose lanes or elements are zero.
    pub fn zeros(name: impl Into<Name>, ty: impl Into<Type>, extent: Extent) -> Stmt {
        Stmt::Declare(Box::new(Variable {
            name: name.into(),
            ty: ty.into(),
            constant: false,
            extent,
            value: Some(Expr::Zeros),
        }))
    }

    fn declare(name: Name, ty: Type, constant: bool, value: Option<Expr>) -> Stmt {
        Stmt::Declare(Box::new(Variable {
            name,
            ty,
            constant,
            extent: Extent::One,
            value,
        }))
    }

    /// Puts a value into a variable, an element, or memory.
    pub fn assign(to: impl Into<Expr>, value: impl Into<Expr>) -> Stmt {
        Stmt::Assign(to.into(), None, value.into())
    }

    /// Joins a value to what is there.
    pub fn update(to: impl Into<Expr>, op: Infix, value: impl Into<Expr>) -> Stmt {
        Stmt::Assign(to.into(), Some(op), value.into())
    }

    /// A statement that runs where a condition holds.
    pub fn when(test: Expr, then: impl Into<Block>) -> Stmt {
        Stmt::If(test, then.into(), Block::new())
    }

    /// One of two blocks, as a condition says.
    pub fn either(test: Expr, then: impl Into<Block>, otherwise: impl Into<Block>) -> Stmt {
        Stmt::If(test, then.into(), otherwise.into())
    }
}

impl Loop {
    /// A loop over the integers from one value to before another, of [`Type::INDEX`].
    pub fn over(variable: impl Into<Name>, from: impl Into<Expr>, to: impl Into<Expr>) -> Loop {
        Loop {
            variable: variable.into(),
            ty: ValueType::Index,
            from: Some(from.into()),
            to: to.into(),
            step: 1,
            whole: false,
            axis: Axis::Column,
            unroll: Unroll::AsIs,
            body: Block::new(),
        }
    }

    /// Of another integer type.
    pub fn of_type(mut self, ty: ValueType) -> Loop {
        self.ty = ty;
        self
    }

    /// Along another axis.
    pub fn along(mut self, axis: Axis) -> Loop {
        self.axis = axis;
        self
    }

    /// With all turns written out, so that arrays that it indexes stay in registers.
    pub fn unrolled(mut self) -> Loop {
        self.unroll = Unroll::Whole;
        self
    }

    /// By steps of this length, as long as there is anything left.
    pub fn by(mut self, step: usize) -> Loop {
        self.step = step as i64;
        self
    }

    /// By whole steps of this length alone.
    pub fn by_whole(mut self, step: usize) -> Loop {
        self.whole = true;
        self.by(step)
    }

    /// From where the variable is.
    pub fn from_here(mut self) -> Loop {
        self.from = None;
        self
    }

    /// The statement that does this with each value.
    pub fn each(mut self, body: impl Into<Block>) -> Stmt {
        self.body = body.into();
        Stmt::For(Box::new(self))
    }
}
