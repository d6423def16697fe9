//! Statements: all threads that run one do it before any of them does the next.

use super::super::datum::Datum;
use super::memory::Shared;
use super::value::{Dims, Held, Home, Place, holds};
use super::{Fault, Private, Threads, Variable, WARP};
use crate::kernel::ir::{
    self, Block, Expr, Extent, Infix, Loop, Meeting, Name, Space, Step, Stmt, Type,
};

impl<'k> Threads<'_, 'k> {
    /// The statements of a block, by these threads.
    pub(super) fn block(&mut self, block: &'k Block, here: &[usize]) -> Result<(), Fault> {
        let mut left = None;
        for stmt in block {
            let here = left.as_deref().unwrap_or(here);
            if here.is_empty() {
                break;
            }
            if let Err(fault) = self.stmt(stmt, here) {
                let text = || Block::from(stmt.clone()).to_string();
                self.at.get_or_insert_with(text);
                return Err(fault);
            }
            if self.left {
                left = Some(self.alive(here));
            }
        }
        Ok(())
    }

    /// The threads among these that have not left.
    fn alive(&self, threads: &[usize]) -> Vec<usize> {
        let threads = threads.iter().copied();
        threads.filter(|&thread| self.alive[thread]).collect()
    }

    /// A block with names of its own, run by some of the threads that are here.
    fn scope(&mut self, block: &'k Block, inside: &[usize]) -> Result<(), Fault> {
        if inside.is_empty() {
            return Ok(());
        }
        let mut active = vec![false; self.active.len()];
        inside.iter().for_each(|&thread| active[thread] = true);
        std::mem::swap(&mut self.active, &mut active);
        let (names, privates) = (self.declared.len(), self.privates);
        self.block(block, inside)?;
        self.hide(names);
        (self.privates, self.active) = (privates, active);
        Ok(())
    }

    /// Forgets the names that were declared since.
    fn hide(&mut self, names: usize) {
        for (name, hidden) in self.declared.drain(names..).rev() {
            match hidden {
                Some(variable) => self.variables.insert(name, variable),
                None => self.variables.remove(&name),
            };
        }
    }

    fn stmt(&mut self, stmt: &'k Stmt, here: &[usize]) -> Result<(), Fault> {
        match stmt {
            Stmt::Declare(variable) => self.declare(variable, here),
            Stmt::Assign(to, op, value) => self.assign((to, *op, value), here),
            Stmt::Call(Expr::Call(call)) => self.perform(call, here),
            Stmt::If(test, then, otherwise) => {
                let (mut yes, mut no) = (Vec::new(), Vec::new());
                for &thread in here {
                    let holds = holds(self.number(test, thread)?);
                    (if holds { &mut yes } else { &mut no }).push(thread);
                }
                self.scope(then, &yes)?;
                self.scope(otherwise, &no)
            }
            Stmt::For(l) => self.range(l, here),
            Stmt::While(test, body) => {
                let mut again = here.to_vec();
                loop {
                    let mut on = Vec::new();
                    for thread in self.alive(&again) {
                        if holds(self.number(test, thread)?) {
                            on.push(thread);
                        }
                    }
                    if on.is_empty() {
                        return Ok(());
                    }
                    self.scope(body, &on)?;
                    again = on;
                }
            }
            Stmt::Scope(body) => self.scope(body, here),
            Stmt::Leave => {
                here.iter().for_each(|&thread| self.alive[thread] = false);
                self.left = true;
                Ok(())
            }
            Stmt::Barrier(meeting) => self.meet(*meeting, here),
            Stmt::Define(operation) => {
                self.operations.insert(operation.name, &operation.value);
                Ok(())
            }
            Stmt::Wait | Stmt::Unused(_) | Stmt::Opaque(_) => Ok(()),
            Stmt::Call(_) | Stmt::Return(_) | Stmt::Verbatim(_) => {
                Err(Fault::Wrong(Block::from(stmt.clone()).to_string()))
            }
        }
    }

    /// A barrier: all threads that have not left are here.
    fn meet(&mut self, meeting: Meeting, here: &[usize]) -> Result<(), Fault> {
        match meeting {
            Meeting::Block => {
                let all = self.alive.iter().filter(|alive| **alive).count();
                if here.len() != all {
                    return Err(Fault::Divergent("a barrier"));
                }
                self.barriers += 1;
            }
            Meeting::Warp => {
                for first in self.warps(here)? {
                    self.warp_barriers[first / WARP] += 1;
                }
            }
        }
        Ok(())
    }

    fn declare(&mut self, variable: &'k ir::Variable, here: &[usize]) -> Result<(), Fault> {
        let to = match variable.ty {
            Type::Value(value) => value,
            Type::Pointer(pointer) => pointer.to,
            Type::Void => return Err(Fault::Wrong("a variable of nothing".to_owned())),
        };
        let dims = match variable.extent {
            Extent::One => Dims::default(),
            Extent::Array(sizes) | Extent::Aligned(sizes) => Dims::from(sizes),
        };
        let length = dims.length() as usize;
        // The first value may name what this variable hides.
        let mut values = Vec::new();
        if let Some(value) = variable.value.as_ref().filter(|_| length > 0) {
            values.reserve(here.len());
            for &thread in here {
                values.push(match value {
                    Expr::Zeros => Held::Number(Datum::I64(0)),
                    Expr::Each(value) => self.eval(value, thread)?,
                    value => self.eval(value, thread)?,
                });
            }
        }
        let home = match variable.space {
            Space::Shared => Home::Block(self.shared_slot(variable.name, length)),
            _ => self.private_slot(variable.name, length),
        };
        self.known_as(variable.name, Variable { home, to, dims });
        for (&thread, held) in here.iter().zip(values) {
            for at in 0..length as i64 {
                self.write(thread, &Place::element(home, at, to), held)?;
            }
        }
        Ok(())
    }

    /// Declares a name until the end of the scope.
    fn known_as(&mut self, name: Name, variable: Variable) {
        let hidden = self.variables.insert(name, variable);
        self.declared.push((name, hidden));
    }

    /// Memory of a variable that the threads of the block share, which is one wherever that is declared.
    fn shared_slot(&mut self, name: Name, length: usize) -> usize {
        if let Some(slot) = self.shared_names.get(&name) {
            return *slot;
        }
        let memory = Shared::new(format!("the block's {name}"), length);
        self.shared.push(memory);
        self.shared_names.insert(name, self.shared.len() - 1);
        self.shared.len() - 1
    }

    /// Memory of a variable that each thread has, until the end of the scope.
    fn private_slot(&mut self, name: Name, length: usize) -> Home {
        let slot = self.privates;
        self.privates += 1;
        if self.private.len() <= slot {
            self.private.push(Private::default());
        }
        let home = Home::Thread(slot, name);
        let private = &mut self.private[slot];
        private.length = length;
        private.elements.clear();
        let unwritten = (0..length as i64).map(|at| Held::unwritten(home, at));
        let threads = self.active.len();
        let elements = std::iter::repeat_n(unwritten, threads).flatten();
        private.elements.extend(elements);
        home
    }

    /// All threads compute before any of them writes.
    fn assign(
        &mut self,
        (to, op, value): (&'k Expr, Option<Infix>, &'k Expr),
        here: &[usize],
    ) -> Result<(), Fault> {
        let mut values = Vec::with_capacity(here.len());
        for &thread in here {
            values.push(match op {
                None => self.eval(value, thread)?,
                Some(op) => self.infix(op, to, value, thread)?,
            });
        }
        for (&thread, held) in here.iter().zip(values) {
            let place = self.place(to, thread)?;
            self.write(thread, &place, held)?;
        }
        Ok(())
    }

    fn range(&mut self, l: &'k Loop, here: &[usize]) -> Result<(), Fault> {
        let Some(from) = &l.from else {
            return Err(Fault::Wrong("a loop from anywhere".to_owned()));
        };
        let mut values = Vec::with_capacity(here.len());
        for &thread in here {
            values.push((thread, self.integer(from, thread)?));
        }
        let names = self.declared.len();
        let privates = self.privates;
        let home = self.private_slot(l.variable, 1);
        let variable = Variable {
            home,
            to: l.ty,
            dims: Dims::default(),
        };
        loop {
            let mut turn = Vec::with_capacity(values.len());
            for (thread, value) in values {
                if !self.alive[thread] {
                    continue;
                }
                let to = self.integer(&l.to, thread)?;
                let goes_on = match l.step {
                    Step::Up(step) if l.whole => value + step <= to,
                    Step::Up(_) => value < to,
                    Step::Down(_) => value >= to,
                    Step::Halves => value > to,
                };
                if goes_on {
                    turn.push((thread, value));
                }
            }
            if turn.is_empty() {
                break;
            }
            self.known_as(l.variable, variable);
            self.turn(l, home, &turn)?;
            self.hide(names);
            for (_, value) in &mut turn {
                match l.step {
                    Step::Up(step) => *value += step,
                    Step::Down(step) => *value -= step,
                    Step::Halves => *value >>= 1,
                }
            }
            values = turn;
        }
        self.privates = privates;
        Ok(())
    }

    /// One turn of a loop, with the value that its variable has for each thread.
    fn turn(&mut self, l: &'k Loop, home: Home, turn: &[(usize, i64)]) -> Result<(), Fault> {
        for &(thread, value) in turn {
            let number = Held::Number(Datum::I64(value));
            self.write(thread, &Place::element(home, 0, l.ty), number)?;
        }
        let inside: Vec<usize> = turn.iter().map(|of| of.0).collect();
        self.scope(&l.body, &inside)
    }
}
