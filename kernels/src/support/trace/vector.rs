//! A recording as vector C, in which a value that is used once stands where it is used.

use super::super::{Definition, Need, halved, need};
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

/// The statements of a recording, each once for every suffix of names in `copies`, and what they call.
pub(super) fn statements(
    lanes: usize,
    arena: &Arena,
    result: u32,
    copies: &[&str],
) -> (String, Vec<Need>) {
    let mut used = vec![0u32; arena.nodes.len()];
    count_uses(arena, result, &mut used);
    let inner = |id: u32| -> bool {
        matches!(
            arena.nodes[id as usize].1,
            Node::Float(_) | Node::Int(_) | Node::Arg(_)
        )
    };
    let mut body = String::new();
    let mut calls = Vec::new();
    for (id, (kind, node)) in arena.nodes.iter().enumerate() {
        if inner(id as u32) || used[id] == 0 {
            continue;
        }
        for copy in copies {
            let value = |id: u32| name_of(arena, id, copy);
            let constant = |id: u32| is_constant(arena, id);
            let vector = |id: u32| operand(lanes, arena, id, copy);
            let ty = format!("{}x{lanes}", kind.name());
            let int = format!("{}x{lanes}", kind.int().name());
            let text = match *node {
                Node::Arg(_) | Node::Float(_) | Node::Int(_) => continue,
                Node::Prefix(op, a) => format!("{op}{}", vector(a)),
                Node::Infix(op, a, b) => {
                    let a = if constant(b) { vector(a) } else { value(a) };
                    format!("{a} {op} {}", value(b))
                }
                Node::Compare(op, a, b) => {
                    let a = if constant(b) { vector(a) } else { value(a) };
                    format!("({ty})({a} {op} {})", value(b))
                }
                Node::Shift(op, logical, a, n) => {
                    if logical {
                        format!(
                            "({ty})((u{}x{lanes}){} {op} {n})",
                            &kind.name()[1..],
                            vector(a)
                        )
                    } else {
                        format!("{} {op} {n}", vector(a))
                    }
                }
                Node::Bitcast(a) => format!("({ty}){}", vector(a)),
                Node::Convert(a) => format!("__builtin_convertvector({}, {ty})", vector(a)),
                Node::Call(f, args, n) => {
                    calls.push(f);
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
                Node::Table(table, index) => {
                    let index = value(index);
                    let _ = writeln!(body, "  {ty} t{id}{copy};");
                    let _ = writeln!(
                        body,
                        "  for (int i = 0; i < {lanes}; i++) t{id}{copy}[i] = {table}[{index}[i] & 127];"
                    );
                    continue;
                }
                Node::Variable(a) => vector(a),
                Node::Open(m) => {
                    calls.push(if *kind == Kind::I32 {
                        "ft_any_i32"
                    } else {
                        "ft_any_i64"
                    });
                    let any = if *kind == Kind::I32 {
                        "ft_any_i32"
                    } else {
                        "ft_any_i64"
                    };
                    let _ = writeln!(body, "  if ({any}x{lanes}({})) {{", value(m));
                    continue;
                }
                Node::Merge {
                    mask,
                    variable,
                    value: v,
                } => {
                    let (m, t) = (value(mask), value(variable));
                    let _ = writeln!(
                        body,
                        "  {t} = ({ty})(({m} & ({int}){}) | (~{m} & ({int}){t}));",
                        vector(v)
                    );
                    continue;
                }
                Node::Close => {
                    body.push_str("  }\n");
                    continue;
                }
            };
            let _ = writeln!(body, "  {ty} t{id}{copy} = {text};");
        }
    }
    calls.sort_unstable();
    calls.dedup();
    (body, calls.into_iter().map(|c| need(c, lanes)).collect())
}

pub(super) fn print(name: &str, lanes: usize, arena: &Arena, result: u32) -> Definition {
    let (body, mut deps) = statements(lanes, arena, result, &[""]);
    let vector = |id: u32| operand(lanes, arena, id, "");
    let mut text = String::new();
    for (table, values) in &arena.tables {
        let list: Vec<String> = values.iter().map(|v| literal(*v, false)).collect();
        let _ = writeln!(
            text,
            "#ifndef {table}_\n#define {table}_\nstatic const double {table}[128] = {{"
        );
        let _ = writeln!(text, "{}}};\n#endif", list.join(","));
    }
    deps.insert(0, need("types", lanes));
    let args: Vec<String> = arena
        .nodes
        .iter()
        .filter_map(|(k, n)| match n {
            Node::Arg(i) => Some(format!("{}x{lanes} a{i}", k.name())),
            _ => None,
        })
        .collect();
    let returned = arena.nodes[result as usize].0.name();
    let _ = writeln!(
        text,
        "FT_INLINE {returned}x{lanes} {name}x{lanes}({}) {{",
        args.join(", ")
    );
    let _ = writeln!(text, "{body}  return {};\n}}", vector(result));
    let whole = Definition { deps, text };
    // What is rare does not count.
    let mut rare = false;
    let wide = arena.nodes.iter().any(|(kind, node)| {
        rare = match node {
            Node::Open(_) => true,
            Node::Close => false,
            _ => rare,
        };
        !rare && matches!(kind, Kind::F64 | Kind::I64)
    });
    if !wide {
        return whole;
    }
    let names: Vec<(&str, String)> = arena
        .nodes
        .iter()
        .filter_map(|(k, n)| {
            if let Node::Arg(i) = n {
                Some((k.name(), format!("a{i}")))
            } else {
                None
            }
        })
        .collect();
    let args: Vec<(&str, &str)> = names
        .iter()
        .map(|(ty, name)| (*ty, name.as_str()))
        .collect();
    halved(name, lanes, returned, &args, whole)
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
