//! Running combinations of the lanes of a vector: lane i becomes the combination of lanes 0 to i, in log₂ W steps, each
//! joining to every lane the one that lies 1, 2, 4, .. before it (Hillis and Steele, 1986). Earlier lanes stand on the
//! left of every combination; lanes before the first are the fill's, which is to be the combination's identity.

use super::{Definition, Entry, need};
use std::fmt::Write;

/// The signed integer type as wide as a lane, of which shuffles take their positions.
fn integer(ty: &str) -> &str {
    match ty {
        "f32" => "i32",
        "f64" => "i64",
        "u8" => "i8",
        other => other,
    }
}

/// `name(v, fill)`.
fn prefix(name: &str, kind: &str, dtype: &str, lanes: usize) -> Definition {
    let ty = if dtype == "bool" { "i32" } else { dtype };
    let mut deps = vec![need("types", lanes)];
    let combine = match kind {
        "sum" => "u + v".to_owned(),
        "prod" => "u * v".to_owned(),
        "any" => "u | v".to_owned(),
        "all" => "u & v".to_owned(),
        extreme => {
            let function = format!("ft_{extreme}imum_{ty}");
            deps.push(need(&function, lanes));
            format!("{function}x{lanes}(u, v)")
        }
    };
    let int = integer(ty);
    let mut text = format!(
        "FT_INLINE {ty}x{lanes} {name}x{lanes}({ty}x{lanes} v, {ty}x{lanes} fill) {{\n  {ty}x{lanes} u = fill;\n"
    );
    let mut step = 1;
    while step < lanes {
        let from = |lane: usize| {
            if lane < step {
                lanes + lane
            } else {
                lane - step
            }
        };
        let list: Vec<String> = (0..lanes).map(|lane| from(lane).to_string()).collect();
        let _ = writeln!(
            text,
            "  u = FT_SHUFFLE({int}x{lanes}, v, fill, {}); v = {combine};",
            list.join(",")
        );
        step *= 2;
    }
    text.push_str("  (void)u;\n  return v;\n}\n");
    Definition { deps, text }
}

/// `name(v)`: the last lane in every lane.
fn last(name: &str, dtype: &str, lanes: usize) -> Definition {
    let ty = if dtype == "bool" { "i32" } else { dtype };
    let list = vec![lanes.saturating_sub(1).to_string(); lanes].join(",");
    let text = format!(
        "FT_INLINE {ty}x{lanes} {name}x{lanes}({ty}x{lanes} v) {{\n  return FT_SHUFFLE({}x{lanes}, v, v, {list});\n}}\n",
        integer(ty)
    );
    Definition {
        deps: vec![need("types", lanes)],
        text,
    }
}

pub(super) fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    let kinds: [&str; 4] = ["sum", "prod", "max", "min"];
    let numbers = ["f32", "f64", "i64", "i32", "i16", "i8", "u8"];
    let all = numbers
        .iter()
        .flat_map(|&ty| kinds.map(|kind| (kind, ty)))
        .chain([("any", "bool"), ("all", "bool")]);
    for (kind, ty) in all {
        entries.push(Entry::new(
            format!("ft_prefix_{kind}_{ty}"),
            move |name, lanes| prefix(name, kind, ty, lanes),
        ));
    }
    for ty in numbers.into_iter().chain(["bool"]) {
        entries.push(Entry::new(format!("ft_last_{ty}"), move |name, lanes| {
            last(name, ty, lanes)
        }));
    }
    entries
}
