//! What every printer relies on. A kernel that breaks one of the rules is a fault of what built it.
//!
//! Text that is not taken apart yet may declare anything: after it, and inside of it, nothing is known of names.

mod device;
mod expressions;
mod rule;
mod uniform;

use super::block::Block;
use super::expr::{Expr, Infix, Prefix};
use super::kernel::{Kernel, Role};
use super::loops::{Loop, Step};
use super::name::{Local, Name, OnDevice};
use super::stmt::{Extent, Operation, Stmt, Variable};
use super::types::{Access, PointerType, Space, Type, ValueType};
use expressions::agree;
use rule::fault;
pub use rule::{Fault, Rule};
use rustc_hash::FxHashMap;

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
        if kernel.lanes == 0 {
            device::verify(kernel, function)?;
        }
        if let Role::Own(number, ..) = function.role {
            known.push(number);
        }
    }
    Ok(())
}

/// What is known of a name.
#[derive(Clone, Copy, Debug)]
struct Known {
    ty: Type,
    constant: bool,
    array: bool,
}

impl Known {
    /// A variable of one value.
    fn of(ty: Type) -> Known {
        Known {
            ty,
            constant: false,
            array: false,
        }
    }
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
            nested: 0,
        });
        let of = |local: Local, ty| (Name::Local(local), ty);
        let shared = [
            of(Local::Memory, memory),
            of(Local::Scratch, Type::write(ValueType::Byte)),
            of(Local::Numbers, Type::read(ValueType::LongWord)),
            of(Local::Params, Type::read(ValueType::Index)),
            of(Local::Pointers, Type::read(ValueType::LongWord)),
        ];
        let units = [of(Local::Begin, Type::INDEX), of(Local::End, Type::INDEX)];
        let given: Vec<(Name, Type)> = match role {
            // Threads of a device know themselves by their numbers.
            Role::Work | Role::Finish if self.kernel.lanes == 0 => vec![
                of(Local::Thread, Type::Value(ValueType::Word)),
                of(Local::Block, Type::Value(ValueType::Word)),
                of(Local::Scratch, Type::write(ValueType::Byte)),
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
            self.scopes[0].0.insert(name, Known::of(ty));
        }
    }

    fn block(&mut self, block: &Block) -> Result<(), Fault> {
        block.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    /// A block with names of its own, before which `first` is declared.
    fn scope(&mut self, block: &Block, first: Option<(Name, Type)>) -> Result<(), Fault> {
        let mut names = Scope::default();
        names
            .0
            .extend(first.map(|(name, ty)| (name, Known::of(ty))));
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
            Stmt::Leave | Stmt::Barrier(_) | Stmt::Wait => Ok(()),
            Stmt::Define(operation) => self.define(operation, stmt),
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
                let each = |v: &Expr| matches!(v, Expr::Zeros | Expr::Each(_));
                if n.iter().any(|n| n == 0) || variable.value.as_ref().is_some_and(|v| !each(v)) {
                    return fault(Rule::Array, &here());
                }
                true
            }
        };
        let shared = variable.space == Space::Shared;
        if shared && (variable.value.is_some() || self.kernel.lanes > 0) {
            return fault(Rule::Shared, &here());
        }
        if let Some(value) = &variable.value {
            let given = self.expr(value)?;
            if given.is_some_and(|ty| !agree(ty, variable.ty)) {
                return fault(Rule::Agree, &here());
            }
        }
        let ty = match (variable.extent, variable.ty) {
            (Extent::Array(sizes) | Extent::Aligned(sizes), Type::Value(to)) => {
                Type::Pointer(PointerType::array(to, variable.space, sizes.dimensions()))
            }
            (_, ty) => ty,
        };
        let known = Known {
            ty,
            constant: variable.constant,
            array,
        };
        let names = self.scopes.last_mut().map(|scope| &mut scope.0);
        match names.and_then(|names| names.insert(variable.name, known)) {
            Some(_) => fault(Rule::Once, &here()),
            None => Ok(()),
        }
    }

    /// Declares an operation, which no value is of the type of.
    fn define(&mut self, operation: &Operation, stmt: &Stmt) -> Result<(), Fault> {
        let mut operands = Scope::default();
        let (left, right) = operation.operands;
        for (local, ty) in [(OnDevice::Left, left), (OnDevice::Right, right)] {
            operands.0.insert(Name::OnDevice(local), Known::of(ty));
        }
        self.scopes.push(operands);
        let value = self.expr(&operation.value);
        self.scopes.pop();
        if value?.is_some_and(|ty| !agree(ty, left)) {
            return fault(Rule::Operation, &Block::from(stmt.clone()));
        }
        let names = self.scopes.last_mut().map(|scope| &mut scope.0);
        let known = Known::of(Type::Void);
        match names.and_then(|names| names.insert(operation.name, known)) {
            Some(_) => fault(Rule::Once, &Block::from(stmt.clone())),
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
        let goes_on = match l.step {
            Step::Up(step) | Step::Down(step) => step > 0,
            Step::Halves => matches!(l.to, Expr::Integer(0..)),
        };
        if !ty.is_integer() || !goes_on {
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
mod device_tests;
#[cfg(test)]
mod tests;
