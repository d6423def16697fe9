//! Names of the kernel IR.

use crate::body::Value;
use crate::expr::Var;

/// What a variable is for. How that looks is known to printers alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Name {
    /// An integer argument.
    Param(u32),
    /// A pointer argument.
    Pointer(u32),
    /// The integer argument with this position, to divide numbers by that are not negative; the two after it say how.
    Divisor(u32),
    /// A number that every run fills in.
    Number(u32),
    /// The 64 bits of the number with this position among a launch's.
    Bits(u32),
    /// The part of an index that a row fixes.
    Base(u32),
    /// The part of an index that the row before fixes, whose last loop this row takes along.
    PipelinedBase(u32),
    /// A variable of the loop nest.
    Loop(Var),
    /// Something of one value of the body.
    Of(Part, Value, Copy),
    /// A flag of the pointer with this number: stores through it bypass the cache.
    Streams(u32),
    /// Where the rest of a block begins that the stage with this number leaves to arrays of accumulators.
    Left(u32),
    /// The first or second argument of a function of the kernel's own.
    Argument(u32),
    /// A variable that a kernel has one of.
    Local(Local),
    /// A variable that a kernel of a device has one of.
    OnDevice(OnDevice),
}

/// What is kept of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// The value.
    Value,
    /// A reduction's accumulator.
    Accumulator,
    /// The positions of the elements that an accumulator of extremes holds.
    Places,
    /// A finished reduction.
    Result,
    /// The sum of what a short accumulator was moved from.
    Total,
    /// What the additions to a total rounded away.
    Low,
    /// How many terms the accumulators took in since they were moved to their totals.
    Turn,
    /// The best of an accumulator's lanes.
    Best,
    /// The position of the best.
    Place,
    /// A sum in binary64.
    Wide,
    /// Where NaN were seen.
    Nans,
    /// Which lanes take a better element.
    Better,
    /// What a scan carries from column to column.
    Carry,
    /// What the additions to a carry rounded away.
    Owed,
    /// The scan of one vector alone.
    Prefix,
    /// Another unit's accumulator.
    Partial,
    /// The positions beside that.
    PartialPlaces,
    /// A row's value, for all vectors of a block.
    Row,
    /// An array that a load is staged in.
    Staged,
    /// A pointer to the row that a load reads.
    Run,
    /// Whether a divisor and its reciprocal are normal numbers.
    Normal,
    /// The elements of a chunk that a thread loaded.
    Loaded,
    /// The elements of a row that a thread keeps, chunk by chunk.
    Kept,
    /// The elements of a chunk that a store, by its number, writes.
    Stored,
    /// The elements of a chunk that a store writes, two half values a word.
    Packed,
    /// The value of the row before, whose last loop this row takes along.
    Pipelined,
    /// The positions that random values are drawn for.
    Positions,
    /// Random values that are drawn ahead.
    Drawn,
    /// The value in the lanes that count, and what changes nothing in the others.
    Live,
    /// A sum about a mean, moved to another mean.
    Moved,
    /// What the threads of a block share of their accumulators.
    Shared,
    /// The positions beside that.
    SharedPlaces,
    /// A mean, of a thread's first element, that sums are about until the row's is known.
    About,
    /// The mean of a piece of a row.
    PieceMean,
    /// The elements of a chunk, until their maximum is known.
    Chunk,
    /// Their maximum.
    Greatest,
    /// The maximum that a thread sums exponentials about.
    Exponent,
    /// A thread's maximum, before that of its row is known.
    Own,
    /// The elements of a tile, turned.
    Turned,
    /// The folds of a warp's chunks.
    WarpFolds,
    /// The folds of a block's warps.
    BlockFolds,
    /// What lies before a tile.
    Before,
    /// The operation of a fold.
    Fold,
    /// That operation on what is carried.
    CarryFold,
    /// The value of the step before, of those that a program repeats.
    Carried,
    /// The values of all steps.
    History,
    /// An argument that differs from step to step.
    Stepped,
}

/// Which of several variables for one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Copy {
    /// The only one.
    Only,
    /// One of several, which are numbered.
    Number(u8),
    /// The one that is in a register while several columns are walked.
    Register,
}

/// Variables that a kernel has one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Local {
    /// The structure of the arguments.
    Arguments,
    /// The numbers among the arguments, each in 64 bits.
    Numbers,
    /// The pointers among the arguments.
    Pointers,
    /// The integers among the arguments.
    Params,
    /// The memory that units share.
    Scratch,
    /// The memory of one thread.
    Memory,
    /// The first unit of work.
    Begin,
    /// The unit after the last.
    End,
    /// The unit of work.
    Unit,
    /// The first row of those that are combined.
    First,
    /// What is left of a row number while it is taken apart.
    Row,
    /// The piece of a row's columns.
    Piece,
    /// Where the piece begins.
    Low,
    /// Where it ends.
    High,
    /// Where a chunk of columns begins.
    ChunkLow,
    /// Where it ends.
    ChunkHigh,
    /// The position along the vector axis.
    Column,
    /// Where a run of columns ends.
    Stop,
    /// The first of several columns that are walked at once.
    Walked,
    /// The number of a vector in its row.
    Vector,
    /// A lane.
    Lane,
    /// How many lanes count.
    Count,
    /// The first lane that a mask lets through.
    From,
    /// The lane after the last.
    To,
    /// An array of one vector's elements, or one element.
    Elements,
    /// A place in memory.
    Place,
    /// The number of an accumulator, of a chunk, or of a piece.
    Index,
    /// The number of an accumulator where another number is in use.
    Other,
    /// A scalar or vector that is read.
    Element,
    /// Its position.
    Position,
    /// How many elements there are.
    Length,
    /// How many elements there are, in every lane of a vector.
    LengthVector,
    /// A difference.
    Difference,
    /// A sum.
    Sum,
    /// A mask of lanes.
    Mask,
    /// The first row of a tile.
    TileRow,
    /// The row after its last.
    TileRowEnd,
    /// Its rows.
    TileRows,
    /// The first column of a tile.
    TileColumn,
    /// The column after its last.
    TileColumnEnd,
    /// The number of a thread in its block.
    Thread,
    /// The number of a block among those of a launch.
    Block,
    /// A chunk among those of all rows.
    Chunk,
    /// The number of a row.
    RowNumber,
    /// What is left of the number of a chunk while it is taken apart.
    Chunks,
    /// What is left of the number of a row while it is taken apart.
    Rows,
    /// By how many elements the chunks of a row begin before it.
    Shift,
    /// The first element of a chunk that counts, where it may begin before its row.
    Head,
    /// Whether a chunk of a tile is one of the row.
    OnRow,
    /// The turn of a loop over the chunks that a thread holds.
    Held,
    /// How many rows later something is.
    Later,
    /// Whether the last loop of the row before is left to this one.
    Pipelined,
    /// The turn of a loop over steps that a program repeats.
    Step,
}

/// Variables that a kernel of a device has one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OnDevice {
    /// The number of a thread among those of its row.
    InRow,
    /// The number of a thread's row among those that a block has side by side.
    Across,
    /// The number of a thread's group among those that share a block's rows.
    Group,
    /// Whether a thread's row is one.
    Live,
    /// The number that a block draws, in memory that its threads share.
    Counter,
    /// That number.
    Drawn,
    /// The number of a block among those of the rows.
    RowBlock,
    /// How many pieces a row has.
    Pieces,
    /// The distance between lanes that exchange values.
    Distance,
    /// How many chunks were taken since accumulators were moved to totals.
    Taken,
    /// The first chunk of a run, after which accumulators are moved to totals.
    Run,
    /// The first chunk of some that a thread loads at once.
    FirstHeld,
    /// The first chunk of a tile.
    FirstOfTile,
    /// How many elements a thread has summed.
    Counted,
    /// The first chunk of a row with edges.
    FirstEdge,
    /// Its last chunk.
    LastEdge,
    /// Which of two copies of shared memory a tile uses.
    Copy,
    /// The fold of all groups of a block.
    All,
    /// By what a sum is scaled.
    Scale,
    /// The greatest of a maximum and a chunk's.
    Most,
    /// What is summed about: the greatest, or 0.
    Around,
    /// Where a partial result lies.
    Slot,
    /// Where the folds of a row's tiles lie.
    Folds,
    /// The number of an access to a tile among those of all threads.
    Cell,
    /// A row within a tile.
    InTileRow,
    /// A column within a tile.
    InTileColumn,
    /// A row of a tensor that a tile is read from.
    ReadRow,
    /// The left operand of an operation.
    Left,
    /// The right operand of an operation.
    Right,
}

impl Name {
    /// A value of the body.
    pub fn value(value: Value) -> Name {
        Name::Of(Part::Value, value, Copy::Only)
    }

    /// Something of a value that there is one of.
    pub fn of(part: Part, value: Value) -> Name {
        Name::Of(part, value, Copy::Only)
    }

    /// A copy of something of a value, of several.
    pub fn copy(part: Part, value: Value, copy: usize) -> Name {
        // Copies are the unrolled bodies of one loop: far fewer than 256.
        Name::Of(part, value, Copy::Number(copy as u8))
    }
}

impl From<Local> for Name {
    fn from(local: Local) -> Name {
        Name::Local(local)
    }
}

impl From<OnDevice> for Name {
    fn from(local: OnDevice) -> Name {
        Name::OnDevice(local)
    }
}
