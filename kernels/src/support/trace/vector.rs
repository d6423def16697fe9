//! A recording as vector C, in which a value that is used once stands where it is used.

use super::super::{Definition, Need, halved, need, register_guard};
use super::{Arena, Kind, Node};
use std::fmt::Write;

/// A binary64 or binary32 constant as C text: hexadecimal, so exact.
pub(in crate::support) fn literal(v: f64, single: bool) -> String {
    let v = if single { v as f32 as f64 } else { v };
    let suffix = if single { "f" } else { "" };
    if v.is_nan() {
        return format!("__builtin_nan{suffix}(\"\")");
    }
    let sign = if v.is_sign_negative() { "-" } else { "" };
    if v.is_infinite() {
        return format!("{sign}__builtin_inf{suffix}()");
    }
    let bits = v.to_bits();
    let (exponent, mantissa) = ((bits >> 52) as i64 & 0x7ff, bits & ((1 << 52) - 1));
    let (lead, exponent) = match (exponent, mantissa) {
        (0, 0) => (0, 0),
        (0, _) => (0, -1022),
        _ => (1, exponent - 1023),
    };
    let digits = format!("{mantissa:013x}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    format!("{sign}0x{lead}{point}{digits}p{exponent}{suffix}")
}

/// What stands for a recorded value: its name, or the constant.
pub(super) fn name_of(arena: &Arena, id: u32, copy: &str) -> String {
    let (kind, node) = arena.nodes[id as usize];
    match node {
        Node::Arg(i) => format!("a{i}{copy}"),
        Node::Float(v) => literal(v, kind == Kind::F32),
        Node::Int(v) if kind == Kind::I32 => {
            if v as i32 == i32::MIN {
                "(-2147483647 - 1)".into()
            } else {
                format!("{}", v as i32)
            }
        }
        Node::Int(v) => {
            if v == i64::MIN {
                "(-9223372036854775807L - 1)".into()
            } else {
                format!("{v}L")
            }
        }
        _ => format!("t{id}{copy}"),
    }
}

pub(super) fn is_constant(arena: &Arena, id: u32) -> bool {
    matches!(arena.nodes[id as usize].1, Node::Float(_) | Node::Int(_))
}

/// An operand that must be a vector: a constant is spread over the lanes (c − 0 is c, −0 included).
pub(super) fn operand(lanes: usize, arena: &Arena, id: u32, copy: &str) -> String {
    let name = name_of(arena, id, copy);
    match is_constant(arena, id) {
        true => format!(
            "({name} - ({}x{lanes}){{}})",
            arena.nodes[id as usize].0.name()
        ),
        false => name,
    }
}

/// How a recording's values lie in registers.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// The lanes of the function.
    pub(super) lanes: usize,
    /// Whether a vector of 64-bit elements is two vectors of half the lanes.
    pub(super) halves: bool,
}

/// The suffixes of names of the parts of a value.
const PARTS: [&str; 2] = ["_l", "_h"];

impl Form {
    fn splits(self, kind: Kind) -> bool {
        self.halves && kind.is_wide()
    }

    /// The lanes of each part of a value.
    fn lanes(self, kind: Kind) -> usize {
        match self.splits(kind) {
            true => self.lanes / 2,
            false => self.lanes,
        }
    }

    fn ty(self, kind: Kind) -> String {
        format!("{}x{}", kind.name(), self.lanes(kind))
    }

    /// The suffixes of the parts of a value.
    fn parts(self, kind: Kind, copy: &str) -> Vec<String> {
        match self.splits(kind) {
            true => PARTS.map(|p| format!("{copy}{p}")).into(),
            false => vec![copy.to_owned()],
        }
    }

    /// A union of a 32-bit vector and its halves.
    fn union(self, kind: Kind) -> String {
        let name = kind.name();
        let (whole, half) = (self.lanes, self.lanes / 2);
        format!("union {{ {name}x{whole} v; {name}x{half} h[2]; }}")
    }
}

/// The statements of a recording, each once for every suffix of names in `copies`, and what they call.
pub(super) fn statements(
    form: Form,
    arena: &Arena,
    result: u32,
    copies: &[&str],
) -> (String, Vec<Need>) {
    let mut used = vec![0u32; arena.nodes.len()];
    count_uses(arena, result, &mut used);
    let mut body = String::new();
    let mut calls = Vec::new();
    for (id, (kind, node)) in arena.nodes.iter().enumerate() {
        let inner = matches!(node, Node::Float(_) | Node::Int(_) | Node::Arg(_));
        if inner || used[id] == 0 {
            continue;
        }
        if let Node::Call(f, ..) = node {
            calls.push(need(f, form.lanes(*kind)));
        }
        for copy in copies {
            match *node {
                Node::Open(mask) => {
                    let any = match kind {
                        Kind::I32 => "ft_any_i32",
                        _ => "ft_any_i64",
                    };
                    calls.push(need(any, form.lanes(*kind)));
                    let masks: Vec<String> = (form.parts(*kind, copy).iter())
                        .map(|part| name_of(arena, mask, part))
                        .collect();
                    let any = format!("{any}x{}({})", form.lanes(*kind), masks.join(" | "));
                    let _ = writeln!(body, "  if (__builtin_expect({any}, 0)) {{");
                }
                Node::Close => body.push_str("  }\n"),
                Node::Convert(a)
                    if form.splits(*kind) != form.splits(arena.nodes[a as usize].0) =>
                {
                    body.push_str(&resized(form, arena, id as u32, a, copy));
                }
                _ => {
                    for (i, part) in form.parts(*kind, copy).iter().enumerate() {
                        body.push_str(&statement(form, arena, id as u32, i, part));
                    }
                }
            }
        }
    }
    calls.sort_unstable();
    calls.dedup();
    (body, calls)
}

/// A conversion between vectors of 32-bit elements and pairs of vectors of 64-bit ones.
fn resized(form: Form, arena: &Arena, id: u32, from: u32, copy: &str) -> String {
    let (kind, narrow) = (arena.nodes[id as usize].0, arena.nodes[from as usize].0);
    let ty = form.ty(kind);
    if kind.is_wide() {
        let value = operand(form.lanes, arena, from, copy);
        let mut text = format!("  {} u{id}{copy} = {{{value}}};\n", form.union(narrow));
        for (i, part) in PARTS.iter().enumerate() {
            let _ = writeln!(
                text,
                "  {ty} t{id}{copy}{part} = __builtin_convertvector(u{id}{copy}.h[{i}], {ty});"
            );
        }
        return text;
    }
    let half = form.lanes / 2;
    let [low, high] = PARTS.map(|part| {
        let value = operand(half, arena, from, &format!("{copy}{part}"));
        format!("__builtin_convertvector({value}, {}x{half})", kind.name())
    });
    format!(
        "  {} u{id}{copy} = {{.h = {{{low}, {high}}}}};\n  {ty} t{id}{copy} = u{id}{copy}.v;\n",
        form.union(kind)
    )
}

/// The statement that computes the part number `index` of a value, with this suffix of its name and of its operands'.
fn statement(form: Form, arena: &Arena, id: u32, index: usize, part: &str) -> String {
    let (kind, node) = arena.nodes[id as usize];
    let lanes = form.lanes(kind);
    let value = |id: u32| name_of(arena, id, part);
    let vector = |id: u32| operand(lanes, arena, id, part);
    // An operator takes a constant beside a vector.
    let first = |a: u32, b: u32| match is_constant(arena, b) {
        true => vector(a),
        false => value(a),
    };
    let ty = form.ty(kind);
    let int = format!("{}x{lanes}", kind.int().name());
    let text = match node {
        Node::Prefix(op, a) => format!("{op}{}", vector(a)),
        Node::Infix(op, a, b) => format!("{} {op} {}", first(a, b), value(b)),
        Node::Compare(op, a, b) => format!("({ty})({} {op} {})", first(a, b), value(b)),
        Node::Shift(op, true, a, n) => {
            let unsigned = &kind.name()[1..];
            format!("({ty})((u{unsigned}x{lanes}){} {op} {n})", vector(a))
        }
        Node::Shift(op, false, a, n) => format!("{} {op} {n}", vector(a)),
        Node::Bitcast(a) => format!("({ty}){}", vector(a)),
        Node::Convert(a) => format!("__builtin_convertvector({}, {ty})", vector(a)),
        Node::Call(f, args, n) => {
            let list: Vec<String> = args[..n].iter().map(|a| vector(*a)).collect();
            format!("{f}x{lanes}({})", list.join(", "))
        }
        Node::Select(m, a, b) => {
            let m = value(m);
            format!(
                "({ty})(({m} & ({int}){}) | (~{m} & ({int}){}))",
                vector(a),
                vector(b)
            )
        }
        Node::Table(table, of) => {
            // As a list: a vector that is written lane by lane in memory waits for all its stores when it is read.
            let of = name_of(arena, of, part.trim_end_matches(PARTS[index]));
            let lane = |i| format!("{table}[{of}[{i}] & 127]");
            let list: Vec<String> = (0..lanes).map(|i| lane(index * lanes + i)).collect();
            format!("{{{}}}", list.join(", "))
        }
        Node::Variable(a) => vector(a),
        Node::Merge {
            mask,
            variable,
            value: v,
        } => {
            let (m, t) = (value(mask), value(variable));
            return format!(
                "  {t} = ({ty})(({m} & ({int}){}) | (~{m} & ({int}){t}));\n",
                vector(v)
            );
        }
        Node::Arg(_) | Node::Float(_) | Node::Int(_) | Node::Open(_) | Node::Close => {
            return String::new();
        }
    };
    format!("  {ty} t{id}{part} = {text};\n")
}

/// Whether a recording's arguments and result have 32 bits, and some of its values 64: then these can be halves.
fn is_mixed(arena: &Arena, result: u32) -> bool {
    let narrow = |(kind, node): &(Kind, Node)| !matches!(node, Node::Arg(_)) || !kind.is_wide();
    !arena.nodes[result as usize].0.is_wide()
        && arena.nodes.iter().all(narrow)
        && arena.nodes.iter().any(|(kind, _)| kind.is_wide())
}

/// The function's text with its values in one form, and what it uses.
fn definition(name: &str, form: Form, arena: &Arena, result: u32) -> Definition {
    let (body, mut deps) = statements(form, arena, result, &[""]);
    let lanes = form.lanes;
    deps.insert(0, need("types", lanes));
    if form.halves {
        deps.push(need("types", lanes / 2));
    }
    let args: Vec<String> = arena
        .nodes
        .iter()
        .filter_map(|(k, n)| match n {
            Node::Arg(i) => Some(format!("{}x{lanes} a{i}", k.name())),
            _ => None,
        })
        .collect();
    let text = format!(
        "FT_INLINE {}x{lanes} {name}x{lanes}({}) {{\n{body}  return {};\n}}\n",
        arena.nodes[result as usize].0.name(),
        args.join(", "),
        operand(lanes, arena, result, "")
    );
    Definition { deps, text }
}

/// The tables that a recording reads, each once in a text.
fn tables(arena: &Arena) -> String {
    let mut text = String::new();
    for (table, values) in &arena.tables {
        let list: Vec<String> = values.iter().map(|v| literal(*v, false)).collect();
        let _ = writeln!(
            text,
            "#ifndef {table}_\n#define {table}_\nstatic const double {table}[128] = {{"
        );
        let _ = writeln!(text, "{}}};\n#endif", list.join(","));
    }
    text
}

/// The function's definition. Compilers keep vectors larger than a register in memory: where those of 64-bit elements are,
/// they are halves, and where all are of 64 bits, the function is halved.
pub(super) fn print(name: &str, lanes: usize, arena: &Arena, result: u32) -> Definition {
    let form = |halves| Form { lanes, halves };
    let mut whole = definition(name, form(false), arena, result);
    let guard = register_guard(lanes);
    match guard {
        Some(guard) if is_mixed(arena, result) => {
            let halves = definition(name, form(true), arena, result);
            let (whole_text, text) = (whole.text, halves.text);
            whole.text = match guard {
                "0" => text,
                _ => format!("#if {guard}\n{whole_text}#else\n{text}#endif\n"),
            };
            if guard == "0" {
                whole.deps.clear();
            }
            whole.deps.extend(halves.deps);
        }
        Some(_) if arena.nodes.iter().any(|(kind, _)| kind.is_wide()) => {
            let names: Vec<(&str, String)> = arena
                .nodes
                .iter()
                .filter_map(|(k, n)| match n {
                    Node::Arg(i) => Some((k.name(), format!("a{i}"))),
                    _ => None,
                })
                .collect();
            let args: Vec<(&str, &str)> = names.iter().map(|(ty, n)| (*ty, n.as_str())).collect();
            let returned = arena.nodes[result as usize].0.name();
            whole = halved(name, lanes, returned, &args, whole);
        }
        _ => {}
    }
    whole.text.insert_str(0, &tables(arena));
    whole
}

/// Counts the uses of each recorded value that the result needs; blocks and their merges are kept.
pub(super) fn count_uses(arena: &Arena, result: u32, used: &mut [u32]) {
    used[result as usize] += 1;
    for id in (0..arena.nodes.len()).rev() {
        let node = arena.nodes[id].1;
        let kept = matches!(node, Node::Open(_) | Node::Merge { .. } | Node::Close);
        if kept {
            used[id] += 1;
        }
        if used[id] == 0 {
            continue;
        }
        let mut mark = |a: u32| used[a as usize] += 1;
        match node {
            Node::Arg(_) | Node::Float(_) | Node::Int(_) | Node::Close => {}
            Node::Prefix(_, a)
            | Node::Shift(_, _, a, _)
            | Node::Bitcast(a)
            | Node::Convert(a)
            | Node::Table(_, a)
            | Node::Variable(a)
            | Node::Open(a) => mark(a),
            Node::Infix(_, a, b) | Node::Compare(_, a, b) => {
                mark(a);
                mark(b);
            }
            Node::Call(_, args, n) => args[..n].iter().for_each(|a| mark(*a)),
            Node::Select(m, a, b)
            | Node::Merge {
                mask: m,
                variable: a,
                value: b,
            } => {
                mark(m);
                mark(a);
                mark(b);
            }
        }
    }
}
