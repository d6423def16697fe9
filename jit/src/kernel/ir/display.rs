//! The text form of the kernel IR, for people and tests. It spells every name and type in full.

use super::block::Block;
use super::expr::{Expr, Infix, Prefix};
use super::function::{Cached, Function};
use super::kernel::{Kernel, Role};
use super::loops::{Loop, Step, Unroll};
use super::name::{Copy, Name};
use super::stmt::{Extent, Sizes, Stmt, Variable};
use super::types::{Access, Space, Type, ValueType};
use std::fmt::{self, Display, Formatter, Write};

impl Display for ValueType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ValueType::Index => f.write_str("index"),
            ValueType::Divisor => f.write_str("divisor"),
            ValueType::Word => f.write_str("word"),
            ValueType::LongWord => f.write_str("longword"),
            ValueType::Words => f.write_str("words"),
            ValueType::Byte => f.write_str("byte"),
            ValueType::Memory(dtype) => write!(f, "memory.{}", dtype.name()),
            ValueType::Scalar(dtype) => f.write_str(dtype.name()),
            ValueType::Vector(dtype, lanes) => write!(f, "{}x{lanes}", dtype.name()),
        }
    }
}

impl Display for Type {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let pointer = match self {
            Type::Void => return f.write_str("void"),
            Type::Value(value) => return value.fmt(f),
            Type::Pointer(pointer) => pointer,
        };
        f.write_str(match pointer.access {
            Access::Read => "read ",
            Access::Write => "write ",
        })?;
        f.write_str(match pointer.space {
            Space::Global => "",
            Space::Shared => "shared ",
            Space::Private => "private ",
        })?;
        f.write_str(if pointer.unaligned { "unaligned " } else { "" })?;
        pointer.to.fmt(f)
    }
}

impl Display for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Name::Param(i) => write!(f, "param{i}"),
            Name::Pointer(i) => write!(f, "pointer{i}"),
            Name::Divisor(i) => write!(f, "divisor{i}"),
            Name::Number(i) => write!(f, "number{i}"),
            Name::Bits(i) => write!(f, "bits{i}"),
            Name::Base(i) => write!(f, "base{i}"),
            Name::PipelinedBase(i) => write!(f, "pipelined.base{i}"),
            Name::Loop(v) => write!(f, "loop{}", v.0),
            Name::Streams(i) => write!(f, "streams{i}"),
            Name::Left(i) => write!(f, "left{i}"),
            Name::Argument(i) => write!(f, "argument{i}"),
            Name::Of(part, value, copy) => {
                lower(f, part)?;
                write!(f, "{value}")?;
                match copy {
                    Copy::Only => Ok(()),
                    Copy::Number(c) => write!(f, ".{c}"),
                    Copy::Register => f.write_str(".register"),
                }
            }
            Name::Local(local) => lower(f, local),
            Name::OnDevice(local) => lower(f, local),
        }
    }
}

/// A variant's name in small letters.
fn lower(f: &mut Formatter<'_>, variant: &impl fmt::Debug) -> fmt::Result {
    f.write_str(&format!("{variant:?}").to_lowercase())
}

impl Prefix {
    fn symbol(self) -> &'static str {
        match self {
            Prefix::Negative => "-",
            Prefix::Complement => "~",
            Prefix::Not => "!",
            Prefix::Address => "&",
            Prefix::Dereference => "*",
        }
    }
}

impl Infix {
    /// How most languages write it.
    pub fn symbol(self) -> &'static str {
        match self {
            Infix::Multiply => "*",
            Infix::Divide => "/",
            Infix::Remainder => "%",
            Infix::Add => "+",
            Infix::Subtract => "-",
            Infix::ShiftRight => ">>",
            Infix::Less => "<",
            Infix::AtMost => "<=",
            Infix::Greater => ">",
            Infix::AtLeast => ">=",
            Infix::Equal => "==",
            Infix::Unequal => "!=",
            Infix::BitAnd => "&",
            Infix::BitXor => "^",
            Infix::BitOr => "|",
            Infix::And => "&&",
            Infix::Or => "||",
        }
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let typed = |f: &mut Formatter<'_>, name: &str, dtype: &str, lanes: u16| match lanes {
            0 => write!(f, "{name}.{dtype}"),
            _ => write!(f, "{name}.{dtype}x{lanes}"),
        };
        match *self {
            Function::Unary(op, dtype, lanes) => typed(f, op.name(), dtype.name(), lanes),
            Function::Binary(op, dtype, lanes) => typed(f, op.name(), dtype.name(), lanes),
            Function::Support(stem, dtype, lanes) => typed(f, stem, dtype.name(), lanes),
            Function::Cast(from, to, lanes) => {
                typed(f, &format!("cast.{}", from.name()), to.name(), lanes)
            }
            Function::Convert(to, lanes) => typed(f, "convert", to.name(), lanes),
            Function::Transpose(bytes, lanes) => write!(f, "transpose.{bytes}x{lanes}"),
            Function::TransposeEdge(bytes, lanes) => write!(f, "transposeedge.{bytes}x{lanes}"),
            Function::Any(lanes) => write!(f, "any.x{lanes}"),
            Function::Fence(lanes) => write!(f, "fence.x{lanes}"),
            Function::Prefetch(level) => write!(f, "prefetch.{level}"),
            Function::LoadChunk(cached) | Function::StoreChunk(cached) => {
                let name = match self {
                    Function::LoadChunk(_) => "loadchunk",
                    _ => "storechunk",
                };
                f.write_str(name)?;
                f.write_str(if cached == Cached::Leaves {
                    ".last"
                } else {
                    ""
                })
            }
            Function::Pack(dtype) => write!(f, "pack.{}", dtype.name()),
            Function::OfBits(dtype) => write!(f, "ofbits.{}", dtype.name()),
            Function::Own(number, _) => write!(f, "own{number}"),
            Function::Shuffle(which, dtype) => {
                f.write_str("shuffle.")?;
                lower(f, &which)?;
                write!(f, ".{}", dtype.name())
            }
            Function::Apply(dtype) => write!(f, "apply.{}", dtype.name()),
            Function::Behind(warps) => write!(f, "behind.{warps}"),
            Function::Before(bytes, _) => write!(f, "before.{bytes}"),
            ref other => lower(f, other),
        }
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Name(name) => name.fmt(f),
            Expr::Integer(n) => n.fmt(f),
            Expr::Float(dtype, bits) => {
                write!(f, "{:?}.{}", f64::from_bits(**bits), dtype.name())
            }
            Expr::Zeros => f.write_str("zeros"),
            Expr::Each(a) => write!(f, "each {a}"),
            Expr::Position => f.write_str("@"),
            Expr::Prefix(op, a) => write!(f, "{}{a}", op.symbol()),
            Expr::Infix(op, both) => write!(f, "({} {} {})", both.0, op.symbol(), both.1),
            Expr::Conditional(all) => write!(f, "({} ? {} : {})", all.0, all.1, all.2),
            Expr::Call(call) => {
                write!(f, "{}(", call.function)?;
                for (i, argument) in call.arguments.iter().enumerate() {
                    write!(f, "{}{argument}", if i == 0 { "" } else { ", " })?;
                }
                f.write_char(')')
            }
            Expr::Element(both) => write!(f, "{}[{}]", both.0, both.1),
            Expr::Cast(cast) => write!(f, "({} as {})", cast.1, cast.0),
            Expr::Text(text) => write!(f, "text {text:?}"),
        }
    }
}

impl Display for Block {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        block(f, self, 0)
    }
}

impl Display for Kernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (arguments, lanes) = (&self.arguments, self.lanes);
        writeln!(f, "kernel of {lanes} lanes, {} params", arguments.params)?;
        for (i, pointer) in arguments.pointers.iter().enumerate() {
            writeln!(f, "  pointer{i}: {}", Type::Pointer(*pointer))?;
        }
        for (i, number) in arguments.numbers.iter().enumerate() {
            writeln!(f, "  number{i}: {}", number.name())?;
        }
        for function in &self.functions {
            match &function.role {
                Role::Work => f.write_str("work {\n")?,
                Role::Finish => f.write_str("finish {\n")?,
                Role::Own(number, arguments, result) => {
                    write!(f, "own{number}(")?;
                    for (i, ty) in arguments.iter().enumerate() {
                        write!(f, "{}argument{i}: {ty}", if i == 0 { "" } else { ", " })?;
                    }
                    writeln!(f, "): {result} {{")?;
                }
            }
            block(f, &function.block, 1)?;
            f.write_str("}\n")?;
        }
        Ok(())
    }
}

/// The sizes of an array.
fn sizes(f: &mut Formatter<'_>, sizes: Sizes) -> fmt::Result {
    sizes.iter().try_for_each(|size| write!(f, "[{size}]"))
}

fn block(f: &mut Formatter<'_>, block: &Block, depth: usize) -> fmt::Result {
    block.iter().try_for_each(|stmt| statement(f, stmt, depth))
}

fn statement(f: &mut Formatter<'_>, stmt: &Stmt, depth: usize) -> fmt::Result {
    let inner = |f: &mut Formatter<'_>, b: &Block, end: &str| {
        f.write_str(" {\n")?;
        block(f, b, depth + 1)?;
        write!(f, "{:1$}}}{end}", "", 2 * depth)
    };
    write!(f, "{:1$}", "", 2 * depth)?;
    match stmt {
        Stmt::Declare(v) => variable(f, v),
        Stmt::Assign(to, op, value) => {
            writeln!(f, "{to} {}= {value}", op.map_or("", Infix::symbol))
        }
        Stmt::Call(call) => writeln!(f, "{call}"),
        Stmt::If(test, then, otherwise) => {
            write!(f, "if {test}")?;
            match otherwise.is_empty() {
                true => inner(f, then, "\n"),
                false => {
                    inner(f, then, " else")?;
                    inner(f, otherwise, "\n")
                }
            }
        }
        Stmt::For(l) => {
            range(f, l)?;
            inner(f, &l.body, "\n")
        }
        Stmt::While(test, body) => {
            write!(f, "while {test}")?;
            inner(f, body, "\n")
        }
        Stmt::Scope(body) => {
            f.write_str("scope")?;
            inner(f, body, "\n")
        }
        Stmt::Unused(name) => writeln!(f, "unused {name}"),
        Stmt::Opaque(name) => writeln!(f, "opaque {name}"),
        Stmt::Return(value) => writeln!(f, "return {value}"),
        Stmt::Leave => f.write_str("leave\n"),
        Stmt::Barrier(meeting) => {
            f.write_str("barrier of a ")?;
            lower(f, meeting)?;
            f.write_char('\n')
        }
        Stmt::Wait => f.write_str("wait\n"),
        Stmt::Define(o) => {
            let (left, right) = o.operands;
            writeln!(
                f,
                "define {}(left: {left}, right: {right}) = {}",
                o.name, o.value
            )
        }
        Stmt::Verbatim(text) => writeln!(f, "verbatim {text:?}"),
    }
}

/// The declaration of a variable.
fn variable(f: &mut Formatter<'_>, v: &Variable) -> fmt::Result {
    f.write_str(if v.constant { "let " } else { "var " })?;
    let shared = if v.space == Space::Shared {
        "shared "
    } else {
        ""
    };
    write!(f, "{}: {shared}{}", v.name, v.ty)?;
    match v.extent {
        Extent::One => {}
        Extent::Array(n) => sizes(f, n)?,
        Extent::Aligned(n) => {
            sizes(f, n)?;
            f.write_str(" aligned")?;
        }
    }
    match &v.value {
        Some(value) => writeln!(f, " = {value}"),
        None => f.write_char('\n'),
    }
}

/// What a loop goes over.
fn range(f: &mut Formatter<'_>, l: &Loop) -> fmt::Result {
    write!(f, "for {}: {}", l.variable, l.ty)?;
    if let Some(from) = &l.from {
        write!(f, " from {from}")?;
    }
    match l.step {
        Step::Up(step) => write!(f, " to {} by {step}", l.to)?,
        Step::Down(step) => write!(f, " down to {} by {step}", l.to)?,
        Step::Halves => write!(f, " by halves to {}", l.to)?,
    }
    f.write_str(if l.whole { " whole along " } else { " along " })?;
    lower(f, &l.axis)?;
    match l.unroll {
        Unroll::AsIs => {}
        Unroll::Whole => f.write_str(" unrolled")?,
        Unroll::Times(turns) => write!(f, " unrolled by {turns}")?,
    }
    Ok(())
}
