//! The threads of a device, without one: runs kernels of the kernel IR block by block, all threads of a block statement
//! by statement, and trusts nothing.
//!
//! Reported are:
//! - a race: two threads touch one element of memory that they share, one of them writes it, and no barrier lies between,
//!   but for threads that write the same value, as kernels do whose loops have more variables than a result;
//! - divergence: a barrier, or an exchange within a warp, to which not all threads come that must;
//! - an access outside of an array or a tensor, and an element read as another type than it was written as;
//! - a value that decides something and was never written. As in MemorySanitizer, such a value may be moved and computed
//!   with, which gives another such value. A condition, an index, an atomic addition and a store to a tensor need one
//!   that is known.
//!
//! The lanes of a warp run together here, but no report depends on that: what one thread wrote, another may read behind a
//! barrier alone. Blocks run in the order of their numbers, one after another; what one wrote, another may not touch in
//! the same launch, except by atomic additions and by posting folds.
//!
//! Approximate functions of the hardware are exact here, and the folds of a row's tiles are joined from left to right:
//! results are those of a device but for rounding.

mod call;
mod collective;
mod expr;
mod memory;
mod stmt;
#[cfg(test)]
mod tests;
mod value;

use super::datum::Datum;
use crate::kernel::ir::{self, Expr, Kernel, Name, Role, ValueType};
use memory::Access;
pub(super) use memory::Shared;
use rustc_hash::FxHashMap;
use std::fmt;
use value::{Dims, Element, Held, Home, Place, stored};

/// What a kernel does that none may.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fault {
    /// Two threads touch this element of this memory, and nothing says in which order.
    Race(String, i64),
    /// The memory has no such element.
    Outside(String, i64),
    /// The element of this memory, or the variable, decides something and was never written.
    Unwritten(String, i64),
    /// Threads do this together, and some of them are missing.
    Divergent(&'static str),
    /// An index of a tensor is out of range: the index, and the number of the place that checks it.
    Index(i64, u32),
    /// It has no meaning.
    Wrong(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Race(name, at) => write!(f, "two threads race for element {at} of {name}"),
            Fault::Outside(name, at) => write!(f, "{name} has no element {at}"),
            Fault::Unwritten(name, at) => {
                write!(f, "element {at} of {name} is used and was never written")
            }
            Fault::Divergent(what) => write!(f, "not all threads come to {what}"),
            Fault::Index(index, _) => write!(f, "index {index} is out of range"),
            Fault::Wrong(what) => write!(f, "{what} has no meaning"),
        }
    }
}

/// A fault and the statement that it is in.
#[derive(Debug)]
pub(super) struct Report {
    pub fault: Fault,
    /// The text of the statement.
    pub at: String,
}

/// One kernel of a launch, with its arguments.
#[derive(Debug)]
pub(super) struct Member<'k> {
    pub kernel: &'k Kernel,
    pub params: Vec<i64>,
    /// The numbers that a run fills in, in their compute types.
    pub numbers: Vec<Datum>,
    /// The numbers as 64 bits.
    pub bits: Vec<i64>,
    /// For each pointer, which memory of the launch it leads to, and the position of the element there.
    pub pointers: Vec<(usize, i64)>,
    /// Which memory of the launch is its scratch memory.
    pub scratch: usize,
    /// Blocks of the function that works, and of the one that finishes.
    pub blocks: [usize; 2],
}

/// Runs the kernels of one launch, whose blocks may run at the same time; then the functions of theirs that finish.
///
/// # Errors
/// The first fault.
pub(super) fn run(members: &[Member<'_>], memory: &mut [Shared]) -> Result<(), Report> {
    for role in [Role::Work, Role::Finish] {
        memory.iter_mut().for_each(Shared::settle);
        let mut before = 0;
        for member in members {
            let launch = &member.kernel.launch;
            let (threads, blocks) = match role {
                Role::Finish => (launch.finish_threads, member.blocks[1]),
                _ => (launch.threads, member.blocks[0]),
            };
            let mut functions = member.kernel.functions.iter();
            let Some(function) = functions.find(|function| function.role == role) else {
                continue;
            };
            for block in 0..blocks {
                let mut block = Threads::new(member, memory, threads as usize, [before, block]);
                let result = block.run(&function.block);
                result.map_err(|fault| Report {
                    fault,
                    at: block.at.unwrap_or_default(),
                })?;
            }
            before += blocks;
        }
    }
    Ok(())
}

/// A variable.
#[derive(Clone, Copy, Debug)]
struct Variable {
    home: Home,
    to: ValueType,
    dims: Dims,
}

/// The memory of a variable that each thread has: its elements, thread after thread.
#[derive(Debug, Default)]
struct Private {
    length: usize,
    elements: Vec<Held>,
}

/// The threads of one block.
struct Threads<'g, 'k> {
    member: &'k Member<'k>,
    memory: &'g mut [Shared],
    /// The number of the block among those of its kernel.
    block: u32,
    /// Its number among those of the launch.
    unique: u32,
    /// Barriers of the block that its threads have passed, and by warp, those of the warp.
    barriers: u32,
    warp_barriers: Vec<u32>,
    /// Which threads run the current statement.
    active: Vec<bool>,
    /// Whether a thread has left while the current statement ran.
    left: bool,
    /// Which threads have not left.
    alive: Vec<bool>,
    variables: FxHashMap<Name, Variable>,
    /// Names that were declared, in order, with what each hid.
    declared: Vec<(Name, Option<Variable>)>,
    /// Operations by name: the value of their two operands.
    operations: FxHashMap<Name, &'k Expr>,
    /// The operands of operations that are being applied.
    operands: Vec<[Held; 2]>,
    /// Memory of the block, by slots, and the slots of names.
    shared: Vec<Shared>,
    shared_names: FxHashMap<Name, usize>,
    /// Memory of each thread, by slots; slots past `privates` are free.
    private: Vec<Private>,
    privates: usize,
    /// The innermost statement that failed.
    at: Option<String>,
}

impl<'g, 'k> Threads<'g, 'k> {
    /// `before` are the blocks of the launch before the first of this kernel.
    fn new(
        member: &'k Member<'k>,
        memory: &'g mut [Shared],
        threads: usize,
        [before, block]: [usize; 2],
    ) -> Self {
        Threads {
            member,
            memory,
            block: block as u32,
            unique: (before + block) as u32,
            barriers: 0,
            warp_barriers: vec![0; threads.div_ceil(WARP)],
            active: vec![true; threads],
            left: false,
            alive: vec![true; threads],
            variables: FxHashMap::default(),
            declared: Vec::new(),
            operations: FxHashMap::default(),
            operands: Vec::new(),
            shared: Vec::new(),
            shared_names: FxHashMap::default(),
            private: Vec::new(),
            privates: 0,
            at: None,
        }
    }

    fn run(&mut self, block: &'k ir::Block) -> Result<(), Fault> {
        let all: Vec<usize> = (0..self.active.len()).collect();
        self.block(block, &all)
    }

    fn who(&self, thread: usize) -> Access {
        Access {
            block: self.unique,
            thread: thread as u32,
            barriers: self.barriers,
            warp_barriers: self.warp_barriers[thread / WARP],
        }
    }

    /// Reads an element.
    fn read(&mut self, thread: usize, place: &Place) -> Result<Held, Fault> {
        let who = self.who(thread);
        let found = match place.home {
            Home::Global(n) => self.memory[n].read(place.at, who, false)?,
            Home::Block(n) => self.shared[n].read(place.at, who, true)?,
            Home::Thread(n, name) => {
                let element = self.private_element(n, name, thread, place.at)?;
                return Ok(*element);
            }
        };
        let element = Element {
            home: place.home,
            at: place.at,
        };
        match (found, place.to.compute()) {
            (None, _) => Ok(Held::Unwritten(element)),
            (Some(number), Some(dtype)) if number.dtype() != dtype => Err(Fault::Wrong(format!(
                "a {} read as {dtype}",
                number.dtype()
            ))),
            (Some(number), _) => Ok(Held::Number(number)),
        }
    }

    /// Writes an element, as the type of what lies there.
    fn write(&mut self, thread: usize, place: &Place, held: Held) -> Result<(), Fault> {
        let held = match held {
            Held::Pair(halves) => {
                for (at, half) in (place.at..).zip(halves) {
                    let (to, held) = match half {
                        Ok(half) => (ValueType::Scalar(half.dtype()), Held::Number(half)),
                        Err(element) => (place.to, Held::Unwritten(element)),
                    };
                    self.write(thread, &Place { at, to, ..*place }, held)?;
                }
                return Ok(());
            }
            Held::Number(number) => Held::Number(stored(number, place.to)),
            other => other,
        };
        let who = self.who(thread);
        match place.home {
            Home::Thread(n, name) => {
                *self.private_element(n, name, thread, place.at)? = held;
                Ok(())
            }
            Home::Block(n) => {
                let value = match held {
                    Held::Number(number) => Some(number),
                    Held::Unwritten(_) => None,
                    other => return Err(Fault::Wrong(format!("{other:?} in memory"))),
                };
                self.shared[n].write(place.at, value, who, true)
            }
            // Words that are cleared hold nothing that was posted, and the number 0.
            Home::Global(n) if held == Held::Cleared => {
                self.memory[n].write(place.at, Some(Datum::I64(0)), who, false)
            }
            Home::Global(n) => {
                let number = self.known(held)?;
                self.memory[n].write(place.at, Some(number), who, false)
            }
        }
    }

    fn private_element(
        &mut self,
        slot: usize,
        name: Name,
        thread: usize,
        at: i64,
    ) -> Result<&mut Held, Fault> {
        let Private { length, elements } = &mut self.private[slot];
        let own = &mut elements[thread * *length..(thread + 1) * *length];
        let found = usize::try_from(at).ok().and_then(|at| own.get_mut(at));
        found.ok_or_else(|| Fault::Outside(name.to_string(), at))
    }

    /// A number that must be known.
    fn known(&self, held: Held) -> Result<Datum, Fault> {
        match held {
            Held::Number(number) => Ok(number),
            Held::Unwritten(element) => {
                let memory = match element.home {
                    Home::Global(n) => self.memory[n].name().to_owned(),
                    Home::Block(n) => self.shared[n].name().to_owned(),
                    Home::Thread(_, name) => name.to_string(),
                };
                Err(Fault::Unwritten(memory, element.at))
            }
            other => Err(Fault::Wrong(format!("{other:?} as a number"))),
        }
    }
}

/// Lanes of a warp.
const WARP: usize = 32;
