//! Comparisons of elements of eight bytes, as masks of 32 bits: register by register, since gcc 12 compares one element after
//! another where a vector is wider than a register.

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

pub(super) fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    for dtype in [DType::I64, DType::F64] {
        for (stem, operator) in COMPARISONS {
            entries.push(Entry::new(
                format!("ft_{stem}_{dtype}"),
                move |name, lanes| definition(name, dtype, operator, lanes),
            ));
        }
    }
    entries
}
