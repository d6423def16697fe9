//! Loops of the kernel IR.

use super::block::Block;
use super::expr::Expr;
use super::name::Name;
use super::stmt::Stmt;
use super::types::ValueType;

/// A loop over a range of integers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Loop {
    /// What takes the values.
    pub variable: Name,
    /// Its type.
    pub ty: ValueType,
    /// The first value; without one it goes on from where the variable, declared before, is.
    pub from: Option<Expr>,
    /// The value after the last.
    pub to: Expr,
    /// How it goes on.
    pub step: Step,
    /// Whether it stops where less than a step is left.
    pub whole: bool,
    /// What it goes along.
    pub axis: Axis,
    /// How many turns of it are written out.
    pub unroll: Unroll,
    /// What it does with each.
    pub body: Block,
}

/// How a loop goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// It grows by so much, as long as it is less than the value after the last.
    Up(i64),
    /// It falls by so much, to the last value at least.
    Down(i64),
    /// It is halved, as long as it is greater than the value after the last.
    Halves,
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
    /// Chunks of a row that a thread takes by turns.
    Chunk,
    /// Distances between lanes of a warp that exchange values.
    Distance,
    /// Steps that a program repeats.
    Step,
}

/// How many turns of a loop are written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unroll {
    /// As the compiler likes.
    AsIs,
    /// All.
    Whole,
    /// So many.
    Times(u32),
}

impl Loop {
    /// A loop over the integers from one value to before another, of `Type::INDEX`.
    pub fn over(variable: impl Into<Name>, from: impl Into<Expr>, to: impl Into<Expr>) -> Loop {
        Loop {
            variable: variable.into(),
            ty: ValueType::Index,
            from: Some(from.into()),
            to: to.into(),
            step: Step::Up(1),
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
        self.step = Step::Up(step as i64);
        self
    }

    /// By steps of this length down to the last value.
    pub fn down_by(mut self, step: usize) -> Loop {
        self.step = Step::Down(step as i64);
        self
    }

    /// By halves.
    pub fn halving(mut self) -> Loop {
        self.step = Step::Halves;
        self
    }

    /// With some turns written out, so that several accesses are under way at once.
    pub fn unrolled_by(mut self, turns: u32) -> Loop {
        self.unroll = Unroll::Times(turns);
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
