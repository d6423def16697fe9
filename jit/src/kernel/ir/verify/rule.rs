//! The rules, and what breaks one.

use std::fmt;

/// A rule of the kernel IR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A name is declared before it is used, in a block around its use.
    Declared,
    /// A block declares a name once.
    Once,
    /// Arguments are among those that the kernel has.
    Argument,
    /// What never changes after its declaration is not assigned; what is, has a place.
    Assignable,
    /// Memory that is read alone is not written.
    Writable,
    /// The sides of an assignment or declaration, and the operands of an operator, are of types that agree.
    Agree,
    /// A condition is an integer without lanes.
    Condition,
    /// An element is one of an array, of memory, or of a vector, and its index an integer.
    Element,
    /// A function is called with as many arguments as it takes, and vectors of its lanes.
    Call,
    /// The position along the vector axis is put in its place before a kernel is whole.
    Position,
    /// A loop's variable is an integer, and its step positive; halves end at no negative number.
    Loop,
    /// An array has elements, and a first value none of its own.
    Array,
    /// A divisor divides an integer, and does nothing else.
    Divisor,
    /// What the threads of a block share is a device's, without a first value.
    Shared,
    /// An operation joins values of its operands' types, and is given to functions that ask for one, alone.
    Operation,
    /// All threads of a block, or of a warp, come where they do something together.
    Uniform,
    /// A device's function waits once for the kernel before, where all threads come, before it touches memory.
    Waits,
    /// An atomic addition is to an integer in memory that may be written and that threads share.
    Atomic,
    /// A block has from 1 to 1,024 threads, and whole warps where these do something together.
    Launch,
    /// There is one function that does the work and at most one that finishes; a function of the kernel's own is
    /// before those that call it, and gives what it says.
    Functions,
}

/// A broken rule, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The rule.
    pub rule: Rule,
    /// The statement or name that breaks it, in the IR's text form.
    pub place: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the kernel breaks rule {:?} at {}",
            self.rule, self.place
        )
    }
}

/// A broken rule at a statement or name.
pub(super) fn fault<T>(rule: Rule, place: &dyn fmt::Display) -> Result<T, Fault> {
    let place = place.to_string().trim_end().to_owned();
    Err(Fault { rule, place })
}
