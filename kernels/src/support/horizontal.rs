//! Combining the lanes of a vector into one, in a fixed order: halves, then halves of the result.

use super::{Definition, Entry, need};
use std::fmt::Write;

/// Combines the values as the C functions `ft_hsum_…`, `ft_hprod_…`, `ft_hmax_…` and `ft_hmin_…` combine lanes: element i
/// with element i + W/2, and so on down to one. W is a power of two.
#[inline(always)]
pub fn tree<T: Copy, const W: usize>(mut v: [T; W], f: impl Fn(T, T) -> T) -> T {
    let mut half = W / 2;
    while half > 0 {
        let mut i = 0;
        while i < half {
            v[i] = f(v[i], v[i + half]);
            i += 1;
        }
        half /= 2;
    }
    v[0]
}

/// The larger, NaN if either is NaN (the first, if both); of two zeros, `b`.
#[inline(always)]
pub fn maximum<T: PartialOrd + Copy>(a: T, b: T) -> T {
    #[allow(clippy::eq_op)]
    if a > b || a != a { a } else { b }
}

/// The smaller, NaN if either is NaN (the first, if both); of two zeros, `b`.
#[inline(always)]
pub fn minimum<T: PartialOrd + Copy>(a: T, b: T) -> T {
    #[allow(clippy::eq_op)]
    if a < b || a != a { a } else { b }
}

fn scalar(ty: &str) -> &'static str {
    match ty {
        "f32" => "float",
        "f64" => "double",
        "i64" => "long",
        "i32" => "int",
        "i16" => "short",
        "i8" => "signed char",
        _ => "unsigned char",
    }
}

/// Halving down to four lanes in vectors, the rest in scalars.
fn horizontal(name: &str, kind: &str, ty: &str, lanes: usize) -> Definition {
    let of_numbers = kind.ends_with("_of");
    let kind = kind.trim_end_matches("_of");
    let c = scalar(ty);
    let int = match ty {
        "f32" => "i32",
        "f64" => "i64",
        "u8" => "i8",
        other => other,
    };
    // Extremes of floats: NaN is looked for in all lanes at once, off the chain of comparisons.
    let of_floats = ty.starts_with('f') && matches!(kind, "max" | "min") && lanes >= 4;
    let mut deps = vec![need("types", lanes)];
    let mut body = String::new();
    let vector = |a: &str, b: &str, w: usize| -> String {
        match kind {
            "sum" => format!("{a} + {b}"),
            "prod" => format!("{a} * {b}"),
            _ if of_floats => format!("ft_{kind}_of_{ty}x{w}({a}, {b})"),
            _ => {
                let op = if kind == "max" { ">" } else { "<" };
                let m = format!("({int}x{w})({a} {op} {b})");
                format!("({ty}x{w})(({m} & ({int}x{w}){a}) | (~{m} & ({int}x{w}){b}))")
            }
        }
    };
    let single = |a: &str, b: &str| -> String {
        match kind {
            "sum" => format!("({c})({a} + {b})"),
            "prod" => format!("({c})({a} * {b})"),
            "max" => format!("({a} > {b} || {a} != {a}) ? {a} : {b}"),
            _ => format!("({a} < {b} || {a} != {a}) ? {a} : {b}"),
        }
    };
    let mut width = lanes;
    while width > 4 {
        let half = width / 2;
        deps.push(need("types", half));
        if of_floats {
            deps.push(need(&format!("ft_{kind}_of_{ty}"), half));
        }
        let _ = writeln!(
            body,
            "  union {{ {ty}x{width} v; {ty}x{half} h[2]; }} u{width} = {{v{width}}};"
        );
        let _ = writeln!(
            body,
            "  {ty}x{half} a{half} = u{width}.h[0], b{half} = u{width}.h[1];"
        );
        let _ = writeln!(
            body,
            "  {ty}x{half} v{half} = {};",
            vector(&format!("a{half}"), &format!("b{half}"), half)
        );
        width = half;
    }
    // Extremes of floats stay in vectors: as scalars they are branches that nothing predicts.
    if of_floats {
        for (name, order) in [("b", "2,3,0,1"), ("c", "1,0,3,2")] {
            let _ = writeln!(
                body,
                "  {ty}x4 {name}w4 = FT_SHUFFLE({int}x4, v4, v4, {order});\n  v4 = {};",
                vector("v4", &format!("{name}w4"), 4)
            );
        }
        let nan = if ty == "f32" {
            "__builtin_nanf"
        } else {
            "__builtin_nan"
        };
        deps.push(need(&format!("ft_{kind}_of_{ty}"), 4));
        if of_numbers {
            let text = format!(
                "FT_INLINE {c} {name}x{lanes}({ty}x{lanes} v{lanes}) {{\n{body}  return v4[0];\n}}\n"
            );
            return Definition { deps, text };
        }
        deps.push(need(&format!("ft_any_{int}"), lanes));
        let text = format!(
            "FT_INLINE {c} {name}x{lanes}({ty}x{lanes} v{lanes}) {{\n  \
             const int nan = ft_any_{int}x{lanes}(({int}x{lanes})(v{lanes} != v{lanes}));\n{body}  \
             return nan ? {nan}(\"\") : v4[0];\n}}\n"
        );
        return Definition { deps, text };
    }
    let mut names: Vec<String> = (0..width).map(|i| format!("s{i}")).collect();
    for (i, name) in names.iter().enumerate() {
        let _ = writeln!(body, "  {c} {name} = v{width}[{i}];");
    }
    while names.len() > 1 {
        let half = names.len() / 2;
        for i in 0..half {
            let _ = writeln!(
                body,
                "  {} = {};",
                names[i],
                single(&names[i], &names[i + half])
            );
        }
        names.truncate(half);
    }
    let text =
        format!("FT_INLINE {c} {name}x{lanes}({ty}x{lanes} v{lanes}) {{\n{body}  return s0;\n}}\n");
    Definition { deps, text }
}

pub(super) fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    for ty in ["f32", "f64", "i64", "i32", "i16", "i8", "u8"] {
        for kind in ["sum", "prod", "max", "min"] {
            entries.push(Entry::new(
                format!("ft_h{kind}_{ty}"),
                move |name, lanes| horizontal(name, kind, ty, lanes),
            ));
        }
    }
    // The extremes of lanes without NaN.
    for ty in ["f32", "f64"] {
        for kind in ["max_of", "min_of"] {
            entries.push(Entry::new(
                format!("ft_h{kind}_{ty}"),
                move |name, lanes| horizontal(name, kind, ty, lanes),
            ));
        }
    }
    for (kind, op) in [("any", "|"), ("all", "&")] {
        // A mask as one truth value, 0 or 1.
        entries.push(Entry::new(format!("ft_h{kind}_bool"), move |name, lanes| {
            let (test, invert) = if op == "|" { ("m", "") } else { ("~m", "!") };
            let mask = super::mask_type(lanes);
            let text = format!(
                "FT_INLINE int {name}x{lanes}({mask}x{lanes} m) {{ return {invert}ft_any_{mask}x{lanes}({test}); }}\n"
            );
            Definition {
                deps: vec![need("types", lanes), need(&format!("ft_any_{mask}"), lanes)],
                text,
            }
        }));
    }
    entries
}
