//! Statements of the kernel IR.

use super::block::Block;
use super::expr::{Expr, Infix};
use super::loops::Loop;
use super::name::Name;
use super::types::{Space, Type};
use smallvec::SmallVec;

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    /// Waits until all threads of a warp or a block are here; what they wrote to memory that they share is there then.
    Barrier(Meeting),
    /// Waits until the kernel before has ended, of a graph that starts this one earlier, and lets the next one start.
    Wait,
    /// Defines an operation that others are given.
    Define(Box<Operation>),
    /// Text that is not taken apart yet.
    Verbatim(String),
}

/// Threads that do something together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Meeting {
    /// The 32 threads of a warp.
    Warp,
    /// All threads of a block.
    Block,
}

/// An operation that joins two values, [`Left`](super::OnDevice::Left) and [`Right`](super::OnDevice::Right).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    /// Its name.
    pub name: Name,
    /// The types of the two.
    pub operands: (Type, Type),
    /// What it gives.
    pub value: Expr,
}

/// The declaration of a variable or an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Variable {
    /// Its name.
    pub name: Name,
    /// Its type, or that of an array's elements.
    pub ty: Type,
    /// Whether it keeps its first value.
    pub constant: bool,
    /// One element, or how many.
    pub extent: Extent,
    /// Whether each thread has one, or the threads of a block share it.
    pub space: Space,
    /// Its first value.
    pub value: Option<Expr>,
}

/// How many elements a variable has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// One, without an index.
    One,
    /// An array's.
    Array(Sizes),
    /// An array's that begins where the widest access may.
    Aligned(Sizes),
}

/// The sizes of an array's dimensions, at most three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sizes {
    sizes: [u32; 3],
    dimensions: usize,
}

impl Sizes {
    /// Each of them, from the outermost.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.sizes[..self.dimensions].iter().copied()
    }

    /// How many dimensions there are.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }
}

impl From<usize> for Sizes {
    fn from(size: usize) -> Sizes {
        Sizes::from([size])
    }
}

impl From<[usize; 1]> for Sizes {
    fn from([a]: [usize; 1]) -> Sizes {
        Sizes::new([a, 0, 0], 1)
    }
}

impl From<[usize; 2]> for Sizes {
    fn from([a, b]: [usize; 2]) -> Sizes {
        Sizes::new([a, b, 0], 2)
    }
}

impl From<[usize; 3]> for Sizes {
    fn from(sizes: [usize; 3]) -> Sizes {
        Sizes::new(sizes, 3)
    }
}

impl Sizes {
    fn new(sizes: [usize; 3], dimensions: usize) -> Sizes {
        // Arrays lie in registers, or in memory of at most 256 KiB.
        let sizes = sizes.map(|size| size as u32);
        Sizes { sizes, dimensions }
    }
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
        let mut variable = Variable::new(name.into(), ty.into());
        variable.extent = extent;
        Stmt::Declare(Box::new(variable))
    }

    /// Declares a variable or an array that the threads of a block share.
    pub fn shared(name: impl Into<Name>, ty: impl Into<Type>, extent: Extent) -> Stmt {
        let mut variable = Variable::new(name.into(), ty.into());
        (variable.extent, variable.space) = (extent, Space::Shared);
        Stmt::Declare(Box::new(variable))
    }

    /// Declares an array, each of whose elements is at first this.
    pub fn filled(
        name: impl Into<Name>,
        ty: impl Into<Type>,
        sizes: impl Into<Sizes>,
        value: Expr,
    ) -> Stmt {
        let mut variable = Variable::new(name.into(), ty.into());
        variable.extent = Extent::Array(sizes.into());
        variable.value = Some(Expr::Each(Box::new(value)));
        Stmt::Declare(Box::new(variable))
    }

    /// Declares a variable or an array whose lanes or elements are zero.
    pub fn zeros(name: impl Into<Name>, ty: impl Into<Type>, extent: Extent) -> Stmt {
        let mut variable = Variable::new(name.into(), ty.into());
        (variable.extent, variable.value) = (extent, Some(Expr::Zeros));
        Stmt::Declare(Box::new(variable))
    }

    fn declare(name: Name, ty: Type, constant: bool, value: Option<Expr>) -> Stmt {
        let mut variable = Variable::new(name, ty);
        (variable.constant, variable.value) = (constant, value);
        Stmt::Declare(Box::new(variable))
    }

    /// The expressions that it is made of, without those of the blocks within it.
    pub fn expressions(&self) -> SmallVec<[&Expr; 2]> {
        match self {
            Stmt::Declare(v) => v.value.iter().collect(),
            Stmt::Assign(to, _, value) => SmallVec::from_slice(&[to, value]),
            Stmt::Call(e) | Stmt::If(e, ..) | Stmt::While(e, _) | Stmt::Return(e) => {
                SmallVec::from_slice(&[e])
            }
            Stmt::For(l) => l.from.iter().chain([&l.to]).collect(),
            Stmt::Define(operation) => SmallVec::from_slice(&[&operation.value]),
            _ => SmallVec::new(),
        }
    }

    /// The blocks within it.
    pub fn blocks(&self) -> SmallVec<[&Block; 2]> {
        match self {
            Stmt::If(_, then, otherwise) => SmallVec::from_slice(&[then, otherwise]),
            Stmt::For(l) => SmallVec::from_slice(&[&l.body]),
            Stmt::While(_, body) | Stmt::Scope(body) => SmallVec::from_slice(&[body]),
            _ => SmallVec::new(),
        }
    }

    /// The blocks within it, to change them.
    pub fn blocks_mut(&mut self) -> SmallVec<[&mut Block; 2]> {
        match self {
            Stmt::If(_, then, otherwise) => SmallVec::from_iter([then, otherwise]),
            Stmt::For(l) => SmallVec::from_iter([&mut l.body]),
            Stmt::While(_, body) | Stmt::Scope(body) => SmallVec::from_iter([body]),
            _ => SmallVec::new(),
        }
    }

    /// Changes every expression of it, and of the blocks within it, in order, the parts of each first.
    pub fn rewrite(&mut self, change: &mut impl FnMut(&mut Expr)) {
        match self {
            Stmt::Declare(v) => v.value.iter_mut().for_each(|e| e.rewrite(change)),
            Stmt::Assign(to, _, value) => {
                to.rewrite(change);
                value.rewrite(change);
            }
            Stmt::Call(e) | Stmt::Return(e) => e.rewrite(change),
            Stmt::If(test, then, otherwise) => {
                test.rewrite(change);
                then.rewrite(change);
                otherwise.rewrite(change);
            }
            Stmt::For(l) => {
                l.from.iter_mut().for_each(|e| e.rewrite(change));
                l.to.rewrite(change);
                l.body.rewrite(change);
            }
            Stmt::While(test, body) => {
                test.rewrite(change);
                body.rewrite(change);
            }
            Stmt::Scope(body) => body.rewrite(change),
            Stmt::Define(operation) => operation.value.rewrite(change),
            Stmt::Unused(_)
            | Stmt::Opaque(_)
            | Stmt::Leave
            | Stmt::Barrier(_)
            | Stmt::Wait
            | Stmt::Verbatim(_) => {}
        }
    }

    /// Shows every name that it and the statements within it mention, but for those of declarations.
    pub fn visit_names(&self, see: &mut impl FnMut(Name)) {
        if let Stmt::Unused(name) | Stmt::Opaque(name) = self {
            see(*name);
        }
        for e in self.expressions() {
            e.visit(&mut |part| {
                if let Expr::Name(name) = part {
                    see(*name);
                }
            });
        }
        self.blocks().into_iter().for_each(|b| b.visit_names(see));
    }

    /// Whether it, or a statement within it, fits.
    pub fn some(&self, fits: &impl Fn(&Stmt) -> bool) -> bool {
        let within = |block: &&Block| block.iter().any(|stmt| stmt.some(fits));
        fits(self) || self.blocks().iter().any(within)
    }

    /// Whether any part of its expressions, and of those within it, fits.
    pub fn any(&self, fits: &impl Fn(&Expr) -> bool) -> bool {
        self.some(&|stmt| stmt.expressions().into_iter().any(|e| e.any(fits)))
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

impl Extent {
    /// An array of these sizes.
    pub fn array(sizes: impl Into<Sizes>) -> Extent {
        Extent::Array(sizes.into())
    }
}

impl Variable {
    /// One that each thread has, of one element, without a first value.
    pub fn new(name: Name, ty: Type) -> Variable {
        Variable {
            name,
            ty,
            constant: false,
            extent: Extent::One,
            space: Space::Private,
            value: None,
        }
    }
}
