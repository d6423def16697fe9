//! Expressions in languages that have C's operators, with no more parentheses than precedence asks for.

use super::{Language, Printer};
use crate::kernel::ir::{Call, Expr, Infix, Prefix};
use ferrotrace_kernels::support::{self, need};
use ferrotrace_runtime::DType;

/// How tightly operators bind, from the loosest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Conditional,
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Equality,
    Order,
    Shift,
    Sum,
    Product,
    Prefix,
    Postfix,
}

impl Binding {
    fn of(e: &Expr) -> Binding {
        match e {
            Expr::Integer(n) if *n < 0 => Binding::Prefix,
            Expr::Float(_, bits) if f64::from_bits(**bits).is_sign_negative() => Binding::Prefix,
            Expr::Prefix(..) | Expr::Cast(_) => Binding::Prefix,
            Expr::Conditional(_) => Binding::Conditional,
            Expr::Infix(op, _) => Binding::of_infix(*op),
            _ => Binding::Postfix,
        }
    }

    fn of_infix(op: Infix) -> Binding {
        match op {
            Infix::Multiply | Infix::Divide | Infix::Remainder => Binding::Product,
            Infix::Add | Infix::Subtract => Binding::Sum,
            Infix::ShiftRight => Binding::Shift,
            Infix::Less | Infix::AtMost | Infix::Greater | Infix::AtLeast => Binding::Order,
            Infix::Equal | Infix::Unequal => Binding::Equality,
            Infix::BitAnd => Binding::BitAnd,
            Infix::BitXor => Binding::BitXor,
            Infix::BitOr => Binding::BitOr,
            Infix::And => Binding::And,
            Infix::Or => Binding::Or,
        }
    }
}

impl Printer<'_> {
    pub(super) fn expr(&mut self, e: &Expr) {
        match e {
            Expr::Name(name) => self.name(*name),
            Expr::Integer(n) => self.integer(*n),
            Expr::Float(dtype, bits) => self.float(*dtype, f64::from_bits(**bits)),
            Expr::Zeros => self.out.push_str("{0}"),
            // Declarations alone have it.
            Expr::Each(a) => self.expr(a),
            // The verifier rejects it.
            Expr::Position => self.out.push('@'),
            Expr::Prefix(op, a) => self.prefix(*op, a),
            Expr::Infix(op, both) => {
                // All of them are taken together from the left.
                let binding = Binding::of_infix(*op);
                self.operand(&both.0, |b| b >= binding);
                self.out.push(' ');
                self.out.push_str(op.symbol());
                self.out.push(' ');
                self.operand(&both.1, |b| b > binding);
            }
            Expr::Conditional(all) => {
                self.operand(&all.0, |b| b > Binding::Conditional);
                self.out.push_str(" ? ");
                self.operand(&all.1, |b| b > Binding::Conditional);
                self.out.push_str(" : ");
                self.operand(&all.2, |b| b > Binding::Conditional);
            }
            Expr::Call(call) => self.call(call),
            Expr::Element(both) => {
                self.operand(&both.0, |b| b >= Binding::Postfix);
                self.out.push('[');
                self.expr(&both.1);
                self.out.push(']');
            }
            Expr::Cast(cast) => {
                self.out.push('(');
                self.ty(cast.0);
                self.out.push(')');
                self.operand(&cast.1, |b| b >= Binding::Prefix);
            }
            Expr::Text(text) => self.out.push_str(text),
        }
    }

    /// An operand, in parentheses unless it binds tightly enough.
    fn operand(&mut self, e: &Expr, fits: impl Fn(Binding) -> bool) {
        if fits(Binding::of(e)) {
            return self.expr(e);
        }
        self.out.push('(');
        self.expr(e);
        self.out.push(')');
    }

    fn prefix(&mut self, op: Prefix, a: &Expr) {
        self.out.push(match op {
            Prefix::Negative => '-',
            Prefix::Complement => '~',
            Prefix::Not => '!',
            Prefix::Address => '&',
            Prefix::Dereference => '*',
        });
        // `--` is another operator.
        let twice = op == Prefix::Negative
            && !matches!(a, Expr::Cast(_))
            && Binding::of(a) == Binding::Prefix;
        self.operand(a, |b| b >= Binding::Prefix && !twice);
    }

    pub(super) fn integer(&mut self, n: i64) {
        match n {
            // The greatest magnitude has no literal.
            i64::MIN => return self.out.push_str("(-0x7fffffffffffffffL - 1)"),
            _ if n < 0 => self.out.push('-'),
            _ => {}
        }
        self.number(n.unsigned_abs());
    }

    fn float(&mut self, dtype: DType, number: f64) {
        match self.language {
            Language::C => self.c_float(dtype, number),
            Language::Cuda => self.cuda_float(dtype, number),
        }
    }

    fn call(&mut self, call: &Call) {
        match self.language {
            Language::C => self.c_call(call),
            Language::Cuda => self.cuda_call(call),
        }
    }

    /// Arguments of a call, one after another.
    pub(super) fn list(&mut self, arguments: &[Expr]) {
        for (i, argument) in arguments.iter().enumerate() {
            self.out.push_str(if i == 0 { "" } else { ", " });
            self.expr(argument);
        }
    }

    /// The name of a support function, which is noted.
    pub(super) fn support(&mut self, name: &str, lanes: u16) {
        self.needs.set().insert(need(name, lanes.into()));
        self.out.push_str(name);
        if usize::from(lanes) != support::SCALAR {
            self.out.push('x');
            self.number(lanes.into());
        }
    }

    /// An operand's text, in parentheses unless nothing binds more tightly than it.
    pub(super) fn apart(&mut self, e: &Expr) -> String {
        let before = self.out.len();
        self.operand(e, |b| b >= Binding::Postfix);
        self.out.split_off(before)
    }
}
