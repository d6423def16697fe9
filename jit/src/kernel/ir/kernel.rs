//! The functions of one kernel, and what they share.

use super::block::Block;
use super::name::Name;
use super::types::{PointerType, Type, ValueType};
use ferrotrace_runtime::DType;

/// The functions of one kernel. They share arguments, scratch memory and launch configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// What they are given.
    pub arguments: Arguments,
    /// Lanes of the vectors that the numbers among the arguments become; 0 where they stay numbers.
    pub lanes: u16,
    /// The functions: those of the kernel's own first, each after those that it calls.
    pub functions: Vec<Body>,
    /// How a device starts it.
    pub launch: Launch,
}

/// How a device starts a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Launch {
    /// Threads of a block that does work, at most and exactly.
    pub threads: u32,
    /// Threads of a block of the function that finishes.
    pub finish_threads: u32,
}

/// What the functions of a kernel are given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Arguments {
    /// How many integers.
    pub params: u32,
    /// The memory.
    pub pointers: Vec<PointerType>,
    /// The numbers that every run fills in.
    pub numbers: Vec<DType>,
}

/// A function of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Body {
    /// What it is for.
    pub role: Role,
    /// What it does.
    pub block: Block,
}

/// What a function of a kernel is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It is called by the others and not inlined: its number, the types of its arguments, and that of its result.
    Own(u32, Vec<ValueType>, ValueType),
    /// It does units of work from one to before another, with memory of its thread.
    Work,
    /// It runs once after all units, and combines what they left in the scratch memory.
    Finish,
}

impl Arguments {
    /// The type of an argument, if there is such a one; `lanes` are the kernel's.
    pub fn type_of(&self, name: Name, lanes: u16) -> Option<Type> {
        match name {
            Name::Param(i) => (i < self.params).then_some(Type::INDEX),
            Name::Divisor(i) => (i + 2 < self.params).then_some(Type::Value(ValueType::Divisor)),
            Name::Pointer(i) => self.pointers.get(i as usize).map(|p| Type::Pointer(*p)),
            Name::Number(i) => {
                let dtype = self.numbers.get(i as usize)?.compute();
                Some(Type::Value(match lanes {
                    0 => ValueType::Scalar(dtype),
                    _ => ValueType::Vector(dtype, lanes),
                }))
            }
            Name::Bits(_) => Some(Type::Value(ValueType::LongWord)),
            _ => None,
        }
    }
}
