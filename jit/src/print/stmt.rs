//! Statements in languages that have C's, a line each.

use super::{Language, Printer};
use crate::kernel::ir::{
    Block, Expr, Extent, Loop, Meeting, Operation, Space, Step, Stmt, Type, Unroll, Variable,
};

impl Printer<'_> {
    pub(super) fn block(&mut self, block: &Block) {
        block.iter().for_each(|stmt| self.stmt(stmt));
    }

    fn line(&mut self) {
        self.out.extend(std::iter::repeat_n(' ', self.indent));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        if let Stmt::Verbatim(text) = stmt {
            return self.out.push_str(text);
        }
        self.line();
        match stmt {
            Stmt::If(test, then, otherwise) => self.branch(test, then, otherwise),
            Stmt::For(l) => self.range(l),
            Stmt::While(test, body) => {
                self.out.push_str("while (");
                self.expr(test);
                self.out.push_str(") ");
                self.braces(body);
                self.out.push('\n');
            }
            Stmt::Scope(body) => {
                self.braces(body);
                self.out.push('\n');
            }
            simple => {
                self.simple(simple);
                self.out.push('\n');
            }
        }
    }

    /// A statement without blocks.
    fn simple(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Declare(variable) => self.declare(variable),
            Stmt::Assign(to, op, value) => {
                self.expr(to);
                self.out.push(' ');
                self.out.push_str(op.map_or("", |op| op.symbol()));
                self.out.push_str("= ");
                self.expr(value);
            }
            Stmt::Call(call) => self.expr(call),
            Stmt::Unused(name) => {
                self.out.push_str("(void)");
                self.name(*name);
            }
            Stmt::Opaque(name) => {
                self.out.push_str("__asm__(\"\" : \"+r\"(");
                self.name(*name);
                self.out.push_str("))");
            }
            Stmt::Leave => self.out.push_str("return"),
            Stmt::Barrier(Meeting::Block) => self.out.push_str("__syncthreads()"),
            Stmt::Barrier(Meeting::Warp) => self.out.push_str("__syncwarp()"),
            Stmt::Wait => self.out.push_str("FT_AFTER"),
            Stmt::Define(operation) => self.define(operation),
            Stmt::Return(value) => {
                self.out.push_str("return ");
                self.expr(value);
            }
            Stmt::If(..) | Stmt::For(_) | Stmt::While(..) | Stmt::Scope(_) | Stmt::Verbatim(_) => {}
        }
        self.out.push(';');
    }

    fn declare(&mut self, variable: &Variable) {
        let aligned = matches!(variable.extent, Extent::Aligned(_));
        if aligned && self.language == Language::Cuda {
            self.out.push_str("__align__(16) ");
        }
        if variable.space == Space::Shared {
            self.out.push_str("__shared__ ");
        }
        if variable.constant && !matches!(variable.ty, Type::Pointer(_)) {
            self.out.push_str("const ");
        }
        self.ty(variable.ty);
        if !matches!(variable.ty, Type::Pointer(_)) {
            self.out.push(' ');
        }
        self.name(variable.name);
        if let Extent::Array(sizes) | Extent::Aligned(sizes) = variable.extent {
            for size in sizes.iter() {
                self.out.push('[');
                self.number(size.into());
                self.out.push(']');
            }
        }
        if aligned && self.language == Language::C {
            self.out.push_str(" __attribute__((aligned(64)))");
        }
        match (&variable.value, variable.extent) {
            (Some(Expr::Each(value)), Extent::Array(sizes) | Extent::Aligned(sizes)) => {
                let count: u32 = sizes.iter().product();
                let all = vec![Expr::clone(value); count as usize];
                self.out.push_str(" = {");
                self.list(&all);
                self.out.push('}');
            }
            (Some(value), _) => {
                self.out.push_str(" = ");
                self.expr(value);
            }
            (None, _) => {}
        }
    }

    /// An operation as an object that functions are given.
    fn define(&mut self, operation: &Operation) {
        self.out.push_str("const auto ");
        self.name(operation.name);
        self.out.push_str(" = [](");
        self.ty(operation.operands.0);
        self.out.push_str(" x, ");
        self.ty(operation.operands.1);
        self.out.push_str(" y) { return ");
        self.expr(&operation.value);
        self.out.push_str("; }");
    }

    fn branch(&mut self, test: &Expr, then: &Block, otherwise: &Block) {
        self.out.push_str("if (");
        self.expr(test);
        self.out.push_str(") ");
        self.body(then);
        if !otherwise.is_empty() {
            self.out.push('\n');
            self.line();
            self.out.push_str("else ");
            self.body(otherwise);
        }
        self.out.push('\n');
    }

    fn range(&mut self, l: &Loop) {
        match l.unroll {
            Unroll::AsIs => {}
            Unroll::Whole => self.out.push_str("#pragma unroll\n"),
            Unroll::Times(turns) => {
                self.out.push_str("#pragma unroll ");
                self.number(turns.into());
                self.out.push('\n');
            }
        }
        if l.unroll != Unroll::AsIs {
            self.line();
        }
        self.out.push_str("for (");
        if let Some(from) = &l.from {
            self.value_type(l.ty);
            self.out.push(' ');
            self.name(l.variable);
            self.out.push_str(" = ");
            self.expr(from);
        }
        self.out.push_str("; ");
        self.name(l.variable);
        match l.step {
            Step::Up(step) if l.whole => {
                self.out.push_str(" + ");
                self.integer(step);
                self.out.push_str(" <= ");
            }
            Step::Up(_) => self.out.push_str(" < "),
            Step::Down(_) => self.out.push_str(" >= "),
            Step::Halves => self.out.push_str(" > "),
        }
        // A comparison binds less tightly than any bound but another comparison, which no bound is.
        self.expr(&l.to);
        self.out.push_str("; ");
        self.name(l.variable);
        match l.step {
            Step::Up(1) => self.out.push_str("++"),
            Step::Up(step) | Step::Down(step) => {
                let sign = if l.step == Step::Up(step) {
                    " += "
                } else {
                    " -= "
                };
                self.out.push_str(sign);
                self.integer(step);
            }
            Step::Halves => {
                self.out.push_str(" >>= 1");
            }
        }
        self.out.push_str(") ");
        self.body(&l.body);
        self.out.push('\n');
    }

    /// What a condition or loop is of: one plain statement without braces, or a block.
    fn body(&mut self, block: &Block) {
        match &block.0[..] {
            [one @ (Stmt::Assign(..) | Stmt::Call(_) | Stmt::Return(_) | Stmt::Leave)] => {
                self.simple(one)
            }
            _ => self.braces(block),
        }
    }

    fn braces(&mut self, block: &Block) {
        self.out.push_str("{\n");
        self.indent += 2;
        self.block(block);
        self.indent -= 2;
        self.line();
        self.out.push('}');
    }
}
