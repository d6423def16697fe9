//! What every printer relies on. A kernel that breaks one of the rules is a fault of what built it.
//!
//! Text that is not taken apart yet may declare anything: after it, and inside of it, nothing is known of names.

mod expressions;

use super::block::Block;
use super::expr::{Expr, Infix, Prefix};
use super::kernel::{Kernel, Role};
use super::name::{Local, Name};
use super::stmt::{Extent, Loop, Stmt, Variable};
use super::types::{Access, PointerType, Space, Type, ValueType};
use expressions::agree;
use rustc_hash::FxHashMap;
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
    /// A loop's variable is an integer, and its step positive.
    Loop,
    /// An array has elements, and a first value none of its own.
    Array,
    /// A divisor divides an integer, and does nothing else.
    Divisor,
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

/// Checks a kernel.
///
/// # Errors
/// The first fault.
pub fn verify(kernel: &Kernel) -> Result<(), Fault> {
    let count = |wanted: Role| kernel.functions.iter().filter(|f| f.role == wanted).count();
    if count(Role::Work) != 1 || count(Role::Finish) > 1 {
        return fault(Rule::Functions, &"the kernel");
    }
    let mut known = Vec::new();
    for function in &kernel.functions {
        let mut checker = Checker {
            kernel,
            scopes: vec![Scope::default()],
            own: &known,
            gives: None,
            opaque: false,
        };
        checker.begin(&function.role);
        checker.block(&function.block)?;
        if let Role::Own(number, ..) = function.role {
            known.push(number);
        }
    }
    Ok(())
}

fn fault<T>(rule: Rule, place: &dyn fmt::Display) -> Result<T, Fault> {
    let place = place.to_string().trim_end().to_owned();
    Err(Fault { rule, place })
}

/// What is known of a name.
#[derive(Clone, Copy, Debug)]
struct Known {
    ty: Type,
    constant: bool,
    array: bool,
}

/// The names of a block.
#[derive(Default, Debug)]
struct Scope(FxHashMap<Name, Known>);

struct Checker<'a> {
    kernel: &'a Kernel,
    scopes: Vec<Scope>,
    /// The functions of the kernel's own that stand before this one.
    own: &'a [u32],
    /// What this function gives.
    gives: Option<Type>,
    /// Whether text that is not taken apart came before.
    opaque: bool,
}

/// The type of an expression, if it is known: that of text is not.
type Typed = Result<Option<Type>, Fault>;

impl Checker<'_> {
    fn begin(&mut self, role: &Role) {
        let memory = Type::Pointer(PointerType {
            to: ValueType::Byte,
            space: Space::Private,
            access: Access::Write,
            unaligned: false,
        });
        let of = |local: Local, ty| (Name::Local(local), ty);
        let shared = [
            of(Local::Memory, memory),
            of(Local::Scratch, Type::write(ValueType::Byte)),
            of(Local::Numbers, Type::read(ValueType::LongWord)),
        ];
        let units = [of(Local::Begin, Type::INDEX), of(Local::End, Type::INDEX)];
        let given: Vec<(Name, Type)> = match role {
            // Threads of a device know themselves by their numbers.
            Role::Work if self.kernel.lanes == 0 => vec![
                of(Local::Thread, Type::INDEX),
                of(Local::Block, Type::INDEX),
            ],
            Role::Work => [&shared[..], &units[..]].concat(),
            Role::Finish => shared.to_vec(),
            Role::Own(_, arguments, result) => {
                self.gives = Some(Type::Value(*result));
                let all = (0u32..).zip(arguments);
                all.map(|(i, ty)| (Name::Argument(i), Type::Value(*ty)))
                    .collect()
            }
        };
        for (name, ty) in given {
            let known = Known {
                ty,
                constant: false,
                array: false,
            };
            self.scopes[0].0.insert(name, known);
        }
    }

    fn block(&mut self, block: &Block) -> Result<(), Fault> {
        block.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    /// A block with names of its own, before which `first` is declared.
    fn scope(&mut self, block: &Block, first: Option<(Name, Type)>) -> Result<(), Fault> {
        let mut names = Scope::default();
        names.0.extend(first.map(|(name, ty)| {
            let (constant, array) = (false, false);
            let known = Known {
                ty,
                constant,
                array,
            };
            (name, known)
        }));
        self.scopes.push(names);
        let result = self.block(block);
        self.scopes.pop();
        result
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), Fault> {
        match stmt {
            Stmt::Declare(variable) => self.declare(variable, stmt),
            Stmt::Assign(to, op, value) => self.assign(to, *op, value, stmt),
            Stmt::Call(call) => match call {
                Expr::Call(_) | Expr::Text(_) => self.expr(call).map(|_| ()),
                _ => fault(Rule::Call, &Block::from(stmt.clone())),
            },
            Stmt::If(test, then, otherwise) => {
                self.condition(test)?;
                self.scope(then, None)?;
                self.scope(otherwise, None)
            }
            Stmt::For(l) => self.range(l),
            Stmt::While(test, body) => {
                self.condition(test)?;
                self.scope(body, None)
            }
            Stmt::Scope(body) => self.scope(body, None),
            Stmt::Unused(name) | Stmt::Opaque(name) => self.name(*name).map(|_| ()),
            Stmt::Return(value) => match (self.expr(value)?, self.gives) {
                (_, None) => fault(Rule::Functions, &Block::from(stmt.clone())),
                (Some(ty), Some(gives)) if !agree(ty, gives) => {
                    fault(Rule::Functions, &Block::from(stmt.clone()))
                }
                _ => Ok(()),
            },
            Stmt::Leave if self.gives.is_some() => {
                fault(Rule::Functions, &Block::from(stmt.clone()))
            }
            Stmt::Leave => Ok(()),
            Stmt::Verbatim(_) => {
                self.opaque = true;
                Ok(())
            }
        }
    }

    fn declare(&mut self, variable: &Variable, stmt: &Stmt) -> Result<(), Fault> {
        let here = || Block::from(stmt.clone());
        let array = match variable.extent {
            Extent::One => false,
            Extent::Array(n) | Extent::Aligned(n) => {
                if n == 0 || variable.value.as_ref().is_some_and(|v| *v != Expr::Zeros) {
                    return fault(Rule::Array, &here());
                }
                true
            }
        };
        if let Some(value) = &variable.value {
            let given = self.expr(value)?;
            if given.is_some_and(|ty| !agree(ty, variable.ty)) {
                return fault(Rule::Agree, &here());
            }
        }
        let known = Known {
            ty: variable.ty,
            constant: variable.constant,
            array,
        };
        let names = self.scopes.last_mut().map(|scope| &mut scope.0);
        match names.and_then(|names| names.insert(variable.name, known)) {
            Some(_) => fault(Rule::Once, &here()),
            None => Ok(()),
        }
    }

    fn assign(
        &mut self,
        to: &Expr,
        op: Option<Infix>,
        value: &Expr,
        stmt: &Stmt,
    ) -> Result<(), Fault> {
        let here = || Block::from(stmt.clone());
        match to {
            Expr::Name(name) => {
                let known = self.name(*name)?;
                if known.is_some_and(|known| known.constant || known.array) {
                    return fault(Rule::Assignable, &here());
                }
            }
            Expr::Element(both) => {
                let memory = self.expr(&both.0)?;
                self.writable(memory, stmt)?;
            }
            Expr::Prefix(Prefix::Dereference, at) => {
                let memory = self.expr(at)?;
                self.writable(memory, stmt)?;
            }
            Expr::Text(_) => {}
            _ => return fault(Rule::Assignable, &here()),
        }
        let types = (self.expr(to)?, self.expr(value)?);
        let joined = op.is_some_and(|op| op.compares() || op.joins());
        let (Some(to), Some(value)) = types else {
            return Ok(());
        };
        // A number is one of every lane.
        let spread = op.is_some() && to.lanes().is_some() && value.is_scalar();
        match !joined && (spread || agree(value, to)) {
            true => Ok(()),
            false => fault(Rule::Agree, &here()),
        }
    }

    fn writable(&self, memory: Option<Type>, stmt: &Stmt) -> Result<(), Fault> {
        match memory {
            Some(Type::Pointer(pointer)) if pointer.access == Access::Read => {
                fault(Rule::Writable, &Block::from(stmt.clone()))
            }
            _ => Ok(()),
        }
    }

    fn condition(&mut self, test: &Expr) -> Result<(), Fault> {
        match self.expr(test)? {
            Some(ty) if !ty.is_integer() => fault(Rule::Condition, test),
            _ => Ok(()),
        }
    }

    fn range(&mut self, l: &Loop) -> Result<(), Fault> {
        let ty = Type::Value(l.ty);
        if !ty.is_integer() || l.step <= 0 {
            return fault(Rule::Loop, &l.variable);
        }
        if l.from.is_none() {
            self.name(l.variable)?;
        }
        for bound in l.from.iter().chain([&l.to]) {
            if self.expr(bound)?.is_some_and(|ty| !ty.is_integer()) {
                return fault(Rule::Loop, &l.variable);
            }
        }
        let declared = l.from.is_some().then_some((l.variable, ty));
        self.scope(&l.body, declared)
    }

    /// What is known of a name.
    fn name(&self, name: Name) -> Result<Option<Known>, Fault> {
        if let Some(known) = self.scopes.iter().rev().find_map(|s| s.0.get(&name)) {
            return Ok(Some(*known));
        }
        let argument = matches!(
            name,
            Name::Param(_) | Name::Divisor(_) | Name::Pointer(_) | Name::Number(_)
        );
        match self.kernel.arguments.type_of(name, self.kernel.lanes) {
            Some(ty) => Ok(Some(Known {
                ty,
                constant: true,
                array: false,
            })),
            None if argument => fault(Rule::Argument, &name),
            None if self.opaque || name == Name::Local(Local::Arguments) => Ok(None),
            None => fault(Rule::Declared, &name),
        }
    }
}

#[cfg(test)]
mod tests;
