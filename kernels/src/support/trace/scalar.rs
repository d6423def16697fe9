//! A recording as scalar CUDA C++: the same operations on one element.
//!
//! Truth values are integers, 0 or −1, as in the vector text. Integer arithmetic goes through unsigned types, since it
//! wraps here and overflow of signed types is undefined there. No product and sum may be contracted: the compiler is
//! told so.

use super::super::{Definition, SCALAR, need};
use super::vector::count_uses;
use super::{Arena, Kind, Node};
use std::fmt::Write;

impl Kind {
    /// The C++ type.
    fn c(self) -> &'static str {
        match self {
            Kind::F32 => "float",
            Kind::F64 => "double",
            Kind::I32 => "int",
            Kind::I64 => "long long",
        }
    }

    fn unsigned(self) -> &'static str {
        match self {
            Kind::F32 | Kind::I32 => "unsigned",
            Kind::F64 | Kind::I64 => "unsigned long long",
        }
    }

    fn is_int(self) -> bool {
        matches!(self, Kind::I32 | Kind::I64)
    }
}

/// A constant as CUDA C++ text: hexadecimal, so exact.
pub(in crate::support) fn literal(v: f64, single: bool) -> String {
    if !v.is_nan() && !v.is_infinite() {
        return super::literal(v, single);
    }
    if single {
        format!("__int_as_float({:#x})", (v as f32).to_bits())
    } else {
        format!("__longlong_as_double({:#x}ULL)", v.to_bits())
    }
}

fn value(arena: &Arena, id: u32) -> String {
    let (kind, node) = arena.nodes[id as usize];
    match node {
        Node::Arg(i) => format!("a{i}"),
        Node::Float(v) => literal(v, kind == Kind::F32),
        Node::Int(v) if kind == Kind::I32 => format!("(int){:#x}u", v as u32),
        Node::Int(v) => format!("(long long){:#x}ULL", v as u64),
        _ => format!("t{id}"),
    }
}

/// The reinterpretation of bits between kinds of one width.
fn bitcast(from: Kind, to: Kind, a: &str) -> String {
    match (from, to) {
        (Kind::F32, Kind::I32) => format!("__float_as_int({a})"),
        (Kind::I32, Kind::F32) => format!("__int_as_float({a})"),
        (Kind::F64, Kind::I64) => format!("__double_as_longlong({a})"),
        (Kind::I64, Kind::F64) => format!("__longlong_as_double({a})"),
        _ => a.to_owned(),
    }
}

/// The expression of a value that is no operand in itself.
fn expression(arena: &Arena, kind: Kind, node: Node, calls: &mut Vec<&'static str>) -> String {
    let of = |id: u32| value(arena, id);
    let kind_of = |id: u32| arena.nodes[id as usize].0;
    let (c, u) = (kind.c(), kind.unsigned());
    match node {
        Node::Prefix("-", a) if kind.is_int() => format!("({c})(0u - ({u}){})", of(a)),
        Node::Prefix(op, a) => format!("{op}{}", of(a)),
        Node::Infix(op @ ("+" | "-" | "*"), a, b) if kind.is_int() => {
            format!("({c})(({u}){} {op} ({u}){})", of(a), of(b))
        }
        Node::Infix("/", a, b) if kind == Kind::F32 => format!("__fdiv_rn({}, {})", of(a), of(b)),
        Node::Infix(op, a, b) => format!("{} {op} {}", of(a), of(b)),
        Node::Compare(op, a, b) => format!("-({c})({} {op} {})", of(a), of(b)),
        Node::Shift(op, logical, a, n) if logical || op == "<<" => {
            format!("({c})(({u}){} {op} {n})", of(a))
        }
        Node::Shift(op, _, a, n) => format!("{} {op} {n}", of(a)),
        Node::Bitcast(a) => bitcast(kind_of(a), kind, &of(a)),
        Node::Convert(a) => format!("({c}){}", of(a)),
        Node::Call(f, args, n) => {
            calls.push(f);
            let list: Vec<String> = args[..n].iter().map(|a| of(*a)).collect();
            format!("{f}({})", list.join(", "))
        }
        Node::Select(m, a, b) => {
            let (a, b) = (
                bitcast(kind_of(a), kind, &of(a)),
                bitcast(kind_of(b), kind, &of(b)),
            );
            format!("{} ? {a} : {b}", of(m))
        }
        Node::Table(table, index) => {
            format!(
                "__longlong_as_double((long long){table}[{} & 127])",
                of(index)
            )
        }
        Node::Variable(a) => of(a),
        Node::Arg(_)
        | Node::Float(_)
        | Node::Int(_)
        | Node::Open(_)
        | Node::Merge { .. }
        | Node::Close => String::new(),
    }
}

/// Prints a recorded function.
pub(super) fn print(name: &str, arena: &Arena, result: u32) -> Definition {
    let mut used = vec![0u32; arena.nodes.len()];
    count_uses(arena, result, &mut used);
    let (mut body, mut calls) = (String::new(), Vec::new());
    let mut args = Vec::new();
    for (id, &(kind, node)) in arena.nodes.iter().enumerate() {
        match node {
            Node::Arg(i) => args.push(format!("{} a{i}", kind.c())),
            Node::Float(_) | Node::Int(_) => {}
            _ if used[id] == 0 => {}
            Node::Open(m) => {
                let _ = writeln!(body, "  if ({}) {{", value(arena, m));
            }
            Node::Merge {
                mask,
                variable,
                value: v,
            } => {
                let (m, t, v) = (value(arena, mask), value(arena, variable), value(arena, v));
                let _ = writeln!(body, "  {t} = {m} ? {v} : {t};");
            }
            Node::Close => body.push_str("  }\n"),
            _ => {
                let text = expression(arena, kind, node, &mut calls);
                let _ = writeln!(body, "  {} t{id} = {text};", kind.c());
            }
        }
    }
    let mut text = String::new();
    for (table, values) in &arena.tables {
        // Their bits: a table may hold NaN, for which no constant expression stands.
        let list: Vec<String> = values
            .iter()
            .map(|v| format!("{:#x}", v.to_bits()))
            .collect();
        let _ = writeln!(
            text,
            "#ifndef {table}_\n#define {table}_\nstatic __device__ const unsigned long long {table}[128] = {{"
        );
        let _ = writeln!(text, "{}}};\n#endif", list.join(","));
    }
    let returned = arena.nodes[result as usize].0.c();
    let _ = writeln!(
        text,
        "FT_INLINE {returned} {name}({}) {{\n{body}  return {};\n}}",
        args.join(", "),
        value(arena, result)
    );
    calls.sort_unstable();
    calls.dedup();
    let types = std::iter::once(need("types", SCALAR));
    let deps = types.chain(calls.iter().map(|c| need(c, SCALAR))).collect();
    Definition { deps, text }
}
