//! Where threads meet, all of them come: no condition, bound of a loop or earlier end of a thread that a barrier or an
//! exchange within a warp lies behind may differ among those who meet.
//!
//! What a value may differ among is a property of its name in all of a function, found by going through it until nothing
//! changes: values of what is assigned, and of the conditions under which that happens.

use super::super::block::Block;
use super::super::expr::{Expr, Infix};
use super::super::function::{Function, Shuffle};
use super::super::loops::Loop;
use super::super::name::{Local, Name};
use super::super::stmt::{Meeting, Stmt};
use super::super::types::Space;
use super::{Fault, Rule, fault};
use rustc_hash::{FxHashMap, FxHashSet};

/// Lanes of a warp.
const WARP: i64 = 32;

/// The threads of a block among which a value may differ, from the fewest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Differs {
    /// All threads have one value.
    #[default]
    Nowhere,
    /// Threads of different warps may differ; those of one warp agree.
    BetweenWarps,
    /// Any two threads may differ.
    Anywhere,
}

struct Walk {
    /// Threads of a block.
    threads: u32,
    names: FxHashMap<Name, Differs>,
    shared: FxHashSet<Name>,
    /// The conditions that hold here.
    here: Differs,
    /// The conditions under which threads have ended.
    ended: Differs,
    changed: bool,
    /// Whether threads do anything together.
    meets: bool,
    /// Whether nothing changes any more, and meetings are checked.
    checks: bool,
}

/// Checks a function of blocks of so many threads; whether any of them meet.
pub(super) fn verify(block: &Block, threads: u32) -> Result<bool, Fault> {
    let mut walk = Walk {
        threads,
        names: FxHashMap::default(),
        shared: FxHashSet::default(),
        here: Differs::Nowhere,
        ended: Differs::Nowhere,
        changed: true,
        meets: false,
        checks: false,
    };
    while walk.changed {
        walk.changed = false;
        walk.block(block)?;
    }
    (walk.checks, walk.ended) = (true, Differs::Nowhere);
    walk.block(block)?;
    Ok(walk.meets)
}

impl Walk {
    fn block(&mut self, block: &Block) -> Result<(), Fault> {
        block.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), Fault> {
        for e in stmt.expressions() {
            self.meetings(e, stmt)?;
        }
        match stmt {
            Stmt::Declare(v) => {
                if v.space == Space::Shared {
                    self.shared.insert(v.name);
                }
                let value = v.value.as_ref().map(|value| self.of(value));
                self.note(v.name, value.unwrap_or_default());
            }
            Stmt::Assign(to, op, value) => {
                let index = match to {
                    Expr::Element(both) => self.of(&both.1),
                    _ => Differs::Nowhere,
                };
                let before = op.map_or(Differs::Nowhere, |_| self.of(to));
                let value = self.of(value).max(index).max(before);
                if let Some(name) = root(to) {
                    self.note(name, value);
                }
            }
            Stmt::Call(Expr::Call(call)) => {
                let all = call.arguments.iter().map(|a| self.of(a)).max();
                for &at in call.function.changes() {
                    if let Some(name) = root(&call.arguments[at]) {
                        self.note(name, all.unwrap_or_default());
                    }
                }
            }
            Stmt::If(test, then, otherwise) => {
                let test = self.of(test);
                self.under(test, then)?;
                self.under(test, otherwise)?;
            }
            Stmt::For(l) => self.range(l)?,
            Stmt::While(test, body) => {
                let test = self.of(test);
                self.under(test, body)?;
            }
            Stmt::Scope(body) => self.block(body)?,
            Stmt::Leave => self.ended = self.ended.max(self.here),
            Stmt::Barrier(meeting) => self.meet(*meeting, stmt)?,
            _ => {}
        }
        Ok(())
    }

    /// A loop: what its body does is done as often as the bounds say.
    fn range(&mut self, l: &Loop) -> Result<(), Fault> {
        let from = l
            .from
            .as_ref()
            .map_or_else(|| self.of(&l.variable.into()), |from| self.of(from));
        let bounds = from.max(self.of(&l.to));
        self.note(l.variable, from);
        self.under(bounds, &l.body)
    }

    /// A block that is run where a condition holds.
    fn under(&mut self, test: Differs, block: &Block) -> Result<(), Fault> {
        let before = self.here;
        self.here = before.max(test);
        let result = self.block(block);
        self.here = before;
        result
    }

    /// A name is given a value here.
    fn note(&mut self, name: Name, value: Differs) {
        let value = value.max(self.here);
        let known = self.names.entry(name).or_default();
        if value > *known {
            *known = value;
            self.changed = true;
        }
    }

    /// Among whom an expression may differ.
    fn of(&self, e: &Expr) -> Differs {
        match e {
            Expr::Name(Name::Local(Local::Thread)) => Differs::Anywhere,
            // What threads share is one value.
            Expr::Name(name) if self.shared.contains(name) => Differs::Nowhere,
            Expr::Name(name) => self.names.get(name).copied().unwrap_or_default(),
            Expr::Element(both) if root(&both.0).is_some_and(|n| self.shared.contains(&n)) => {
                self.place(e)
            }
            Expr::Infix(op, both) => match warps(*op, both) {
                Some(threads) if threads >= i64::from(self.threads) => Differs::Nowhere,
                Some(_) => Differs::BetweenWarps,
                None => self.of(&both.0).max(self.of(&both.1)),
            },
            Expr::Call(call) => {
                let all = call.arguments.iter().map(|a| self.of(a)).max();
                match call.function {
                    Function::Shuffle(Shuffle::From, _) => {
                        self.of(&call.arguments[1]).max(Differs::BetweenWarps)
                    }
                    Function::Before(..) => Differs::BetweenWarps,
                    Function::Shuffle(..) | Function::AtomicAdd => Differs::Anywhere,
                    _ => all.unwrap_or_default(),
                }
            }
            // Text that is not taken apart may name anything.
            Expr::Text(_) => Differs::Anywhere,
            other => other
                .parts()
                .into_iter()
                .map(|part| self.of(part))
                .max()
                .unwrap_or_default(),
        }
    }

    /// Among whom the place of an element may differ.
    fn place(&self, e: &Expr) -> Differs {
        match e {
            Expr::Element(both) => self.place(&both.0).max(self.of(&both.1)),
            _ => Differs::Nowhere,
        }
    }

    /// The meetings within an expression: a part of it that is not always computed has none.
    fn meetings(&mut self, e: &Expr, stmt: &Stmt) -> Result<(), Fault> {
        if let Expr::Call(call) = e
            && let Some(meeting) = call.function.meeting()
        {
            self.meet(meeting, stmt)?;
        }
        let test = match e {
            Expr::Conditional(all) => self.of(&all.0),
            Expr::Infix(op, both) if op.joins() => self.of(&both.0),
            _ => Differs::Nowhere,
        };
        let before = self.here;
        for (at, part) in e.parts().into_iter().enumerate() {
            self.here = if at == 0 { before } else { before.max(test) };
            self.meetings(part, stmt)?;
        }
        self.here = before;
        Ok(())
    }

    fn meet(&mut self, meeting: Meeting, stmt: &Stmt) -> Result<(), Fault> {
        self.meets = true;
        let most = match meeting {
            Meeting::Warp => Differs::BetweenWarps,
            Meeting::Block => Differs::Nowhere,
        };
        match self.checks && self.here.max(self.ended) > most {
            true => fault(Rule::Uniform, &Block::from(stmt.clone())),
            false => Ok(()),
        }
    }
}

/// The threads that have one value of a quotient of a thread's number, or of whether it is less than another, if these are
/// whole warps.
fn warps(op: Infix, both: &(Expr, Expr)) -> Option<i64> {
    let of_thread = match &both.0 {
        Expr::Cast(cast) => &cast.1,
        e => e,
    };
    let threads = match (op, &both.1) {
        (Infix::ShiftRight, Expr::Integer(bits @ 0..=10)) => 1 << bits,
        (Infix::Divide | Infix::Less, Expr::Integer(threads)) => *threads,
        _ => return None,
    };
    let whole = *of_thread == Expr::from(Local::Thread) && threads > 0 && threads % WARP == 0;
    whole.then_some(threads)
}

/// The variable or array that an element is of.
fn root(e: &Expr) -> Option<Name> {
    match e {
        Expr::Name(name) => Some(*name),
        Expr::Element(both) => root(&both.0),
        _ => None,
    }
}
