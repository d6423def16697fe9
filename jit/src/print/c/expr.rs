//! Expressions in C, with no more parentheses than precedence asks for.

use super::Printer;
use crate::kernel::ir::{Call, Expr, Function, Infix, Prefix, Type, ValueType};
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
        let single = dtype.compute() == DType::F32;
        if number.is_sign_negative() && !number.is_nan() {
            self.out.push('-');
        }
        let text = match (number.is_nan(), number.is_infinite()) {
            (true, _) if single => "__builtin_nanf(\"\")",
            (true, _) => "__builtin_nan(\"\")",
            (_, true) if single => "__builtin_inff()",
            (_, true) => "__builtin_inf()",
            _ => {
                let text = format!("{:?}", number.abs());
                self.out.push_str(&text);
                if single { "f" } else { "" }
            }
        };
        self.out.push_str(text);
    }

    fn call(&mut self, call: &Call) {
        let arguments = &call.arguments[..];
        match call.function {
            Function::Unary(op, dtype, lanes) => {
                let a = self.apart(&arguments[0]);
                let needs = self.needs.set();
                let text = op.c_expr(dtype, lanes.into(), &[&a], needs);
                return self.out.push_str(&text);
            }
            Function::Binary(op, dtype, lanes) => {
                let (a, b) = (self.apart(&arguments[0]), self.apart(&arguments[1]));
                let needs = self.needs.set();
                let text = op.c_expr(dtype, lanes.into(), &[&a, &b], needs);
                return self.out.push_str(&text);
            }
            Function::Support(stem, dtype, lanes) => {
                self.support(&format!("ft_{stem}_{}", dtype.name()), lanes);
            }
            Function::Cast(from, to, lanes) => {
                self.support(&format!("ft_cast_{}_{}", from.name(), to.name()), lanes);
            }
            Function::Transpose(bytes, lanes) => {
                self.support(&format!("ft_transpose_i{}", bytes * 8), lanes);
            }
            Function::Any(lanes) => self.support("ft_any_i32", lanes),
            Function::Bernoulli(lanes) => self.support("ft_bernoulli", lanes),
            Function::Fence(lanes) => self.support("ft_fence", lanes),
            Function::Least => self.out.push_str("ft_min"),
            Function::Greatest => self.out.push_str("ft_max"),
            Function::FloorDiv => self.out.push_str("ft_floor_div"),
            Function::FloorMod => self.out.push_str("ft_floor_mod"),
            Function::IsNormal => self.out.push_str("__builtin_isnormal"),
            Function::Check => {
                self.reports = true;
                self.out.push_str("ft_index");
            }
            Function::Prefetch(_) => self.out.push_str("__builtin_prefetch"),
            Function::Convert(..) => self.out.push_str("__builtin_convertvector"),
            Function::Own(number, _) => {
                self.out.push_str("FT_SYMBOL_f");
                self.number(number.into());
            }
        }
        self.out.push('(');
        if call.function == Function::Check {
            self.out.push_str("a, ");
        }
        for (i, argument) in arguments.iter().enumerate() {
            self.out.push_str(if i == 0 { "" } else { ", " });
            self.expr(argument);
        }
        match call.function {
            Function::Prefetch(level) => {
                self.out.push_str(", 0, ");
                self.number(level.into());
            }
            Function::Convert(dtype, lanes) => {
                self.out.push_str(", ");
                self.ty(Type::Value(ValueType::Vector(dtype, lanes)));
            }
            _ => {}
        }
        self.out.push(')');
    }

    /// The name of a support function, which is noted.
    fn support(&mut self, name: &str, lanes: u16) {
        self.needs.set().insert(need(name, lanes.into()));
        self.out.push_str(name);
        if usize::from(lanes) != support::SCALAR {
            self.out.push('x');
            self.number(lanes.into());
        }
    }

    /// An operand's text, in parentheses unless nothing binds more tightly than it.
    fn apart(&mut self, e: &Expr) -> String {
        let before = self.out.len();
        self.operand(e, |b| b >= Binding::Postfix);
        self.out.split_off(before)
    }
}
