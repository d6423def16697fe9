//! What operators are to passes that do not look at their attributes.

use ferrotrace_runtime::Shape;

/// The class of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Looks at its operand through another index map.
    View,
    /// Made of numbers alone.
    Create,
    /// Drawn.
    Random,
    /// Each element is computed of those at the same place.
    Pointwise,
    /// Elements of the operands at other places: repeated, joined, padded, assigned to a slice.
    Arrange,
    /// Elements at places that an operand names.
    Gather,
    /// Values written to places that an operand names.
    Scatter,
    /// Fewer elements, each computed of many: reductions, and what is normalised by them.
    Reduce,
    /// Each element is computed of those before it.
    Scan,
    /// Each element is computed of a window of the operand.
    Window,
    /// Computed into memory of its own by a call: products, convolutions, sorts, attention.
    Library,
}

impl Class {
    /// Whether computing the operator again costs far more than reading its result. A flush stores such a value if a
    /// tensor holds it.
    pub fn is_costly(self) -> bool {
        match self {
            Class::Random
            | Class::Scatter
            | Class::Reduce
            | Class::Scan
            | Class::Window
            | Class::Library => true,
            Class::View | Class::Create | Class::Pointwise | Class::Arrange | Class::Gather => {
                false
            }
        }
    }

    /// Whether the operator reads its operands from memory, so that what computes them is a pass of its own.
    pub fn reads_memory(self) -> bool {
        match self {
            Class::Window | Class::Library => true,
            Class::View
            | Class::Create
            | Class::Random
            | Class::Pointwise
            | Class::Arrange
            | Class::Gather
            | Class::Scatter
            | Class::Reduce
            | Class::Scan => false,
        }
    }
}

/// How many additions a costlier operation counts as.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    /// A division or root.
    pub division: u64,
    /// A function such as `exp`, and a random number.
    pub function: u64,
}

/// The text of `exp` has some 16 instructions; the throughput of vector divisions is a quarter to an eighth of additions'.
pub const WEIGHTS: Weights = Weights {
    division: 4,
    function: 16,
};

/// The sizes that the work of an operator is counted of.
#[derive(Clone, Copy, Debug)]
pub struct Sizes<'a> {
    /// The shapes of the tensor operands.
    pub operands: &'a [&'a Shape],
    /// The shape of the result.
    pub result: &'a Shape,
}

impl Sizes<'_> {
    /// Elements of the result.
    pub fn result(&self) -> u64 {
        self.result.numel() as u64
    }

    /// Elements of a tensor operand; 0 where there is none.
    pub fn numel(&self, operand: usize) -> u64 {
        self.operands
            .get(operand)
            .map_or(0, |shape| shape.numel() as u64)
    }

    /// A size of a tensor operand; 1 where there is none.
    pub fn size(&self, operand: usize, dim: usize) -> u64 {
        let shape = self.operands.get(operand);
        shape.and_then(|s| s.get(dim)).map_or(1, |&n| n as u64)
    }

    /// A size of a tensor operand counted from the last dimension, which is 1.
    pub fn last(&self, operand: usize, back: usize) -> u64 {
        let rank = self.operands.get(operand).map_or(0, |shape| shape.rank());
        rank.checked_sub(back)
            .map_or(1, |dim| self.size(operand, dim))
    }

    /// One operation for each element of the result, or of the first operand if it has more.
    pub fn elements(&self) -> u64 {
        self.result().max(self.numel(0))
    }

    /// Comparisons that sort dimension `dim` of the first operand.
    pub fn sort(&self, dim: usize) -> u64 {
        let n = self.size(0, dim).max(2);
        self.numel(0) * u64::from(n.next_power_of_two().ilog2())
    }
}
