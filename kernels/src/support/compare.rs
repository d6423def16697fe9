//! Comparisons of elements of eight bytes, as masks of 32 bits: register by register, since gcc 12 compares one element after
//! another where a vector is wider than a register. Those of extremes are masks as wide as the elements, which choose among
//! them without conversion.

use super::{Definition, Entry, SCALAR, mask, need, scalar_type};
use ferrotrace_runtime::DType;
use std::fmt::Write;

/// Stems and operators.
const COMPARISONS: [(&str, &str); 6] = [
    ("eq", "=="),
    ("ne", "!="),
    ("lt", "<"),
    ("le", "<="),
    ("gt", ">"),
    ("ge", ">="),
];

/// Whether a comparison is a function of this module: of vectors that are wider than the smallest registers.
pub(super) fn is_call(dtype: DType, lanes: usize) -> bool {
    dtype.size() == 8 && lanes * 8 > 16
}

fn definition(name: &str, dtype: DType, operator: &str, lanes: usize) -> Definition {
    let ty = dtype.name();
    if lanes == SCALAR {
        let (value, c) = (scalar_type(DType::Bool), scalar_type(dtype));
        return Definition {
            deps: vec![need("types", SCALAR)],
            text: format!("FT_INLINE {value} {name}({c} a, {c} b) {{ return a {operator} b; }}\n"),
        };
    }
    let mut deps = vec![need("types", lanes)];
    let head = format!("FT_INLINE i32x{lanes} {name}x{lanes}({ty}x{lanes} a, {ty}x{lanes} b) {{");
    let mut text = String::new();
    for (word, register) in [
        ("#if defined(FT_AVX512)", 64),
        ("#elif defined(FT_AVX2)", 32),
        ("#else", 16),
    ] {
        let one = (register / 8).min(lanes);
        let pieces = lanes / one;
        let _ = writeln!(text, "{word}\n{head}");
        if pieces == 1 {
            let test = mask(&format!("(a {operator} b)"), dtype, lanes);
            let _ = writeln!(text, "  return {test};\n}}");
            continue;
        }
        deps.push(need("types", one));
        let _ = writeln!(
            text,
            "  union {{ {ty}x{lanes} v; {ty}x{one} h[{pieces}]; }} x = {{a}}, y = {{b}};\n  \
             union {{ i32x{lanes} v; i32x{one} h[{pieces}]; }} r;"
        );
        for piece in 0..pieces {
            let test = format!("(x.h[{piece}] {operator} y.h[{piece}])");
            let _ = writeln!(text, "  r.h[{piece}] = {};", mask(&test, dtype, one));
        }
        text.push_str("  return r.v;\n}\n");
    }
    text.push_str("#endif\n");
    Definition { deps, text }
}

/// Whether an element is to replace the extreme held: it is better, as `worse` says of it and that one, or NaN, and that
/// one is not NaN.
fn replaces(name: &str, dtype: DType, worse: &str, lanes: usize) -> Definition {
    let ty = dtype.name();
    let held = match dtype {
        DType::F64 => format!(" & (i64x{lanes})(b == b)"),
        _ => String::new(),
    };
    Definition {
        deps: vec![need("types", lanes)],
        text: format!(
            "FT_INLINE i64x{lanes} {name}x{lanes}({ty}x{lanes} a, {ty}x{lanes} b) {{\n  return ~(i64x{lanes})(a {worse} b){held};\n}}\n"
        ),
    }
}

/// The first of two vectors where the mask of 64 bits is set, else the second.
fn picked(name: &str, dtype: DType, lanes: usize) -> Definition {
    let ty = dtype.name();
    Definition {
        deps: vec![need("types", lanes)],
        text: format!(
            "FT_INLINE {ty}x{lanes} {name}x{lanes}(i64x{lanes} k, {ty}x{lanes} a, {ty}x{lanes} b) {{\n  \
             return ({ty}x{lanes})((k & (i64x{lanes})a) | (~k & (i64x{lanes})b));\n}}\n"
        ),
    }
}

pub(super) fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    for dtype in [DType::I64, DType::F64] {
        for (stem, worse) in [("above", "<="), ("below", ">=")] {
            entries.push(Entry::new(
                format!("ft_{stem}_{dtype}"),
                move |name, lanes| replaces(name, dtype, worse, lanes),
            ));
        }
        entries.push(Entry::new(
            format!("ft_pick_{dtype}"),
            move |name, lanes| picked(name, dtype, lanes),
        ));
        for (stem, operator) in COMPARISONS {
            entries.push(Entry::new(
                format!("ft_{stem}_{dtype}"),
                move |name, lanes| definition(name, dtype, operator, lanes),
            ));
        }
    }
    entries
}
