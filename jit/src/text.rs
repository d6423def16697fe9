//! The text form of graphs: printed by `Display`, read by `FromStr`.
//!
//! ```text
//! %0: f32[2, 3] = input 0 [3, 1]
//! %1: f32[2] = sum(%0) {dims: [1], keepdim: false}
//! %2: f32[2] = mul(%1, $0=1.5) exact
//! return %2
//! ```
//!
//! A line is a node: its number, dtype and shape, then the operator's name, its operands, its attributes, and `exact`
//! under [`Precision::EagerExact`]. Operands are nodes, `$slot=number` (a number of the category that the slot has) and
//! numbers; inputs have their number and strides, and `on` a device that is not the CPU. Lines of blanks and those that
//! start with `#` are skipped. Reading gives back an equal graph, the users' lines apart.

use crate::graph::{Graph, Node, NodeOp, Precision};
use ferrotrace_kernels::op::check_size;
use ferrotrace_kernels::text::{Attribute, Line};
use ferrotrace_kernels::{Op, OpBuilder, Operand, ValueId};
use ferrotrace_runtime::{DType, Device, Error, Layout, Result, Scalar, Shape};
use std::fmt::{self, Write as _};
use std::str::FromStr;

/// The lines of the nodes, and what is returned.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, node) in self.nodes().iter().enumerate() {
            write!(f, "%{i}: ")?;
            write_node(f, self, node)?;
            writeln!(f)?;
        }
        f.write_str("return")?;
        for v in self.outputs() {
            write!(f, " %{}", v.0)?;
        }
        writeln!(f)
    }
}

/// A node's line, without its number.
pub(crate) fn write_node(f: &mut fmt::Formatter<'_>, graph: &Graph, node: &Node) -> fmt::Result {
    write!(f, "{}{} = ", node.dtype, node.shape)?;
    match &node.op {
        NodeOp::Input(n) => {
            let spec = &graph.inputs()[*n as usize];
            write!(f, "input {n} {:?}", spec.layout.strides())?;
            if spec.device != Device::cpu() {
                write!(f, " on {}", spec.device)?;
            }
        }
        NodeOp::Op(op) => {
            write!(f, "{}(", op.name())?;
            for (k, arg) in node.args.iter().enumerate() {
                f.write_str(if k == 0 { "" } else { ", " })?;
                match arg {
                    Operand::Value(v) => write!(f, "%{}", v.0)?,
                    Operand::Slot(s, number) => write!(f, "${s}={}", Number(*number))?,
                    Operand::Const(number) => write!(f, "{}", Number(*number))?,
                }
            }
            f.write_str(")")?;
            let attributes = op.entry().attributes();
            if !attributes.is_empty() {
                let each = |(name, value): &(&str, Attribute)| format!("{name}: {value}");
                write!(
                    f,
                    " {{{}}}",
                    attributes.iter().map(each).collect::<Vec<_>>().join(", ")
                )?;
            }
        }
    }
    f.write_str(if node.precision == Precision::EagerExact {
        " exact"
    } else {
        ""
    })
}

struct Number(Scalar);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Scalar::Bool(b) => write!(f, "{b}"),
            Scalar::Int(n) => write!(f, "{n}"),
            Scalar::Float(x) => write!(f, "{x:?}"),
        }
    }
}

impl FromStr for Graph {
    type Err = Error;

    /// # Errors
    /// The line that cannot be read and why: an unknown operator or attribute, operands that its rules refuse, a
    /// declared shape or dtype that they do not give.
    fn from_str(text: &str) -> Result<Graph> {
        Graph::of_text(text, &|_| None)
    }
}

impl Graph {
    /// Reads a text whose operations may run programs, which no line holds: `programs` gives the operator for what stands
    /// for one.
    ///
    /// # Errors
    /// As for a text without programs; a program that is not there.
    pub fn of_text(text: &str, programs: &dyn Fn(&str) -> Option<Op>) -> Result<Graph> {
        let mut graph = Graph::new();
        for (i, line) in text.lines().enumerate() {
            let bad = |e: Error| Error::argument(format!("line {}: {e}", i + 1));
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut reader = Reader { rest: line };
            if reader.take("return") {
                let outputs = reader.values().map_err(bad)?;
                if let Some(v) = outputs.iter().find(|v| v.0 as usize >= graph.nodes().len()) {
                    return Err(bad(Error::argument(format!("there is no %{}", v.0))));
                }
                graph.set_outputs(outputs);
            } else {
                reader.node(&mut graph, programs).map_err(bad)?;
            }
        }
        Ok(graph)
    }
}

/// How deep lists may be nested in an attribute. Each takes a call of the reader, and texts come from files, too.
const DEEPEST: usize = 16;

/// What is left of a line.
struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.take(token) {
            return Ok(());
        }
        Err(Error::argument(format!(
            "{token:?} is expected before {:?}",
            self.rest
        )))
    }

    fn while_char(&mut self, test: impl Fn(char) -> bool) -> &'a str {
        self.skip();
        let end = self.rest.find(|c| !test(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn word(&mut self) -> &'a str {
        self.while_char(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    fn integer<T: FromStr>(&mut self) -> Result<T> {
        let word = self.while_char(|c| c.is_ascii_digit() || c == '-');
        word.parse()
            .map_err(|_| Error::argument(format!("{word:?} is no integer of its range")))
    }

    /// `[a, b]`.
    fn list<T>(&mut self, each: &mut dyn FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect("[")?;
        let mut list = Vec::new();
        while !self.take("]") {
            if !list.is_empty() {
                self.expect(",")?;
            }
            list.push(each(self)?);
        }
        Ok(list)
    }

    fn value(&mut self) -> Result<ValueId> {
        self.expect("%")?;
        self.integer().map(ValueId)
    }

    fn values(&mut self) -> Result<Vec<ValueId>> {
        let mut list = Vec::new();
        while !self.rest.trim().is_empty() {
            list.push(self.value()?);
        }
        Ok(list)
    }

    fn number(&mut self) -> Result<Scalar> {
        let word = self.while_char(|c| c.is_ascii_alphanumeric() || "+-._".contains(c));
        let bad = || Error::argument(format!("{word:?} is no number"));
        match word {
            "true" => Ok(Scalar::Bool(true)),
            "false" => Ok(Scalar::Bool(false)),
            _ => match word.parse::<i64>() {
                Ok(i) => Ok(Scalar::Int(i)),
                Err(_) => word.parse().map(Scalar::Float).map_err(|_| bad()),
            },
        }
    }

    fn operand(&mut self) -> Result<Operand> {
        self.skip();
        if self.rest.starts_with('%') {
            return self.value().map(Operand::Value);
        }
        if self.take("$") {
            let slot = self.integer()?;
            self.expect("=")?;
            return Ok(Operand::Slot(slot, self.number()?));
        }
        self.number().map(Operand::Const)
    }

    /// An attribute's value, within so many lists.
    fn attribute(&mut self, depth: usize) -> Result<Attribute> {
        self.skip();
        if self.rest.starts_with('[') {
            if depth == DEEPEST {
                let message = format!("lists are nested more than {DEEPEST} deep");
                return Err(Error::argument(message));
            }
            let list = self.list(&mut |reader| reader.attribute(depth + 1));
            return list.map(Attribute::List);
        }
        if self.take("\"") {
            let text = self.while_char(|c| c != '"').to_owned();
            self.expect("\"")?;
            return Ok(Attribute::Word(text));
        }
        let before = self.rest;
        match self.number() {
            Ok(Scalar::Bool(b)) => Ok(Attribute::Bool(b)),
            Ok(Scalar::Int(i)) => Ok(Attribute::Int(i)),
            Ok(Scalar::Float(x)) => Ok(Attribute::Float(x)),
            Err(_) => {
                self.rest = before;
                match self.word() {
                    "" => Err(Error::argument(format!(
                        "an attribute's value is expected before {before:?}"
                    ))),
                    word => Ok(Attribute::Word(word.to_owned())),
                }
            }
        }
    }

    fn attributes(&mut self) -> Result<Vec<(String, Attribute)>> {
        let mut list = Vec::new();
        if self.take("{") {
            while !self.take("}") {
                if !list.is_empty() {
                    self.expect(",")?;
                }
                let name = self.word().to_owned();
                self.expect(":")?;
                list.push((name, self.attribute(0)?));
            }
        }
        Ok(list)
    }

    fn node(&mut self, graph: &mut Graph, programs: &dyn Fn(&str) -> Option<Op>) -> Result<()> {
        let number = self.value()?;
        let count = graph.nodes().len();
        if number.0 as usize != count {
            return Err(Error::argument(format!(
                "node %{} stands at position {count}",
                number.0
            )));
        }
        self.expect(":")?;
        let name = self.word();
        let dtype = DType::from_name(name)
            .ok_or_else(|| Error::argument(format!("{name:?} is no dtype")))?;
        let shape: Shape = self.list(&mut |r| r.integer())?.into();
        check_size(&shape, dtype)?;
        self.expect("=")?;
        let name = self.word();
        if name == "input" {
            return self.input(graph, shape, dtype);
        }
        let mut args = Vec::new();
        self.expect("(")?;
        while !self.take(")") {
            if !args.is_empty() {
                self.expect(",")?;
            }
            args.push(self.operand()?);
        }
        let later = |a: &Operand| matches!(a, Operand::Value(v) if v.0 as usize >= count);
        if let Some(Operand::Value(v)) = args.iter().find(|a| later(a)) {
            return Err(Error::argument(format!(
                "%{} is not defined before its use",
                v.0
            )));
        }
        let line = Line::new(self.attributes()?, &shape, dtype);
        let unknown = || Error::argument(format!("there is no operator {name:?}"));
        let op = match line.has("digest") {
            true => programs(&line.value::<Box<str>>("digest")?),
            false => Op::read(name, &line)?,
        };
        let op = op.ok_or_else(unknown)?;
        let precision = if self.take("exact") {
            Precision::EagerExact
        } else {
            Precision::Fast
        };
        self.end()?;
        graph.set_origin(None, precision);
        let value = graph.push(op, &args)?;
        let node = graph.node(value);
        if (&node.shape, node.dtype) != (&shape, dtype) {
            let mut message = String::new();
            let _ = write!(
                message,
                "{name} gives {}{}, not {dtype}{shape}",
                node.dtype, node.shape
            );
            return Err(Error::argument(message));
        }
        Ok(())
    }

    fn input(&mut self, graph: &mut Graph, shape: Shape, dtype: DType) -> Result<()> {
        let number: usize = self.integer()?;
        let strides: Vec<isize> = self.list(&mut |r| r.integer())?;
        if number != graph.inputs().len() || strides.len() != shape.rank() {
            return Err(Error::argument(format!(
                "input {number} out of order, or its strides of another rank"
            )));
        }
        let device = if self.take("on") {
            device(self.while_char(|c| !c.is_whitespace()))?
        } else {
            Device::cpu()
        };
        let precision = if self.take("exact") {
            Precision::EagerExact
        } else {
            Precision::Fast
        };
        self.end()?;
        graph.set_origin(None, precision);
        graph.input(&Layout::new(shape, strides.into(), 0), dtype, &device);
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.skip();
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(Error::argument(format!("{:?} is left over", self.rest)))
    }
}

fn device(name: &str) -> Result<Device> {
    match name.strip_prefix("cuda:").and_then(|n| n.parse().ok()) {
        Some(index) => Device::cuda(index),
        None => Err(Error::argument(format!("{name:?} is no device"))),
    }
}
