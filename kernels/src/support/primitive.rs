//! Types, and the operations that the vector extension lacks: one instruction where the instruction set has it, else
//! arithmetic with the same result.

use super::{Definition, Entry, mask_type, need};
use std::fmt::Write;

const SCALARS: [(&str, &str, usize); 10] = [
    ("f32", "float", 4),
    ("f64", "double", 8),
    ("i8", "signed char", 1),
    ("i16", "short", 2),
    ("i32", "int", 4),
    ("i64", "long", 8),
    ("u8", "unsigned char", 1),
    ("u16", "unsigned short", 2),
    ("u32", "unsigned", 4),
    ("u64", "unsigned long", 8),
];

/// The vector types of W lanes, and their forms for unaligned memory of any type; shuffles of two vectors by constants.
fn types(lanes: usize) -> Definition {
    let mut text = String::from(
        "#ifndef FT_INLINE\n#define FT_INLINE static inline __attribute__((always_inline, unused))\n\
         #if defined(__AVX512F__) && defined(__AVX512VL__) && defined(__AVX512BW__) && defined(__AVX512DQ__)\n\
         #define FT_AVX512 1\n#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)\n\
         #define FT_AVX2 1\n#elif defined(__SSE2__)\n#define FT_SSE2 1\n#elif defined(__aarch64__)\n\
         #define FT_NEON 1\n#endif\n\
         #if defined(__clang__)\n\
         #define FT_SHUFFLE(mask, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)\n#else\n\
         #define FT_SHUFFLE(mask, a, b, ...) __builtin_shuffle(a, b, (mask){__VA_ARGS__})\n#endif\n#endif\n",
    );
    for (name, c, size) in SCALARS {
        let bytes = size * lanes;
        let _ = writeln!(
            text,
            "typedef {c} {name}x{lanes} __attribute__((vector_size({bytes})));\n\
             typedef {c} {name}x{lanes}u __attribute__((vector_size({bytes}), aligned({size}), may_alias));"
        );
    }
    Definition {
        deps: Vec::new(),
        text,
    }
}

/// One operation as an instruction per instruction set, in AT&T order: `%0` is the result, `%1`… the arguments, `p?` the
/// suffix `ps` or `pd`, `v?` the NEON arrangement.
#[derive(Clone, Copy, Default)]
struct Instruction {
    avx512: &'static str,
    avx2: Option<&'static str>,
    /// The first of two arguments is also the result.
    sse2: Option<&'static str>,
    neon: Option<&'static str>,
    /// Whether the first argument is also the result in every set.
    accumulates: bool,
}

/// A function on `args` vectors of `ty` that is one instruction, applied to as many registers as the vector takes; the
/// `fallback` body (text with `@`) is used where no instruction does it.
fn instruction(
    stem: &str,
    ty: &'static str,
    args: usize,
    op: Instruction,
    fallback: String,
) -> Entry {
    let (size, suffix, arrangement) = if ty == "f32" {
        (4, "ps", "4s")
    } else {
        (8, "pd", "2d")
    };
    let calls_round = fallback.contains("ft_round");
    Entry::new(format!("ft_{stem}_{ty}"), move |name, lanes| {
        let mut deps = vec![need("types", lanes)];
        if calls_round {
            deps.push(need(&format!("ft_round_{ty}"), lanes));
        }
        let letters = &["a", "b", "c"][..args];
        let list: Vec<String> = letters
            .iter()
            .map(|l| format!("{ty}x{lanes} {l}"))
            .collect();
        let head = format!(
            "FT_INLINE {ty}x{lanes} {name}x{lanes}({}) {{",
            list.join(", ")
        );
        let mut text = String::new();
        let forms = [
            ("FT_AVX512", 64, Some(op.avx512), "v", op.accumulates),
            ("FT_AVX2", 32, op.avx2, "x", op.accumulates),
            ("FT_SSE2", 16, op.sse2, "x", args == 2 || op.accumulates),
            ("FT_NEON", 16, op.neon, "w", op.accumulates),
        ];
        let mut word = "#if";
        for (set, register, asm, reg, accumulates) in forms {
            let bytes = (lanes * size).min(register);
            let Some(asm) = asm.filter(|_| bytes >= 16) else {
                continue;
            };
            let asm = asm.replace("p?", suffix).replace("v?", arrangement);
            let (pieces, one) = (lanes * size / bytes, bytes / size);
            let _ = writeln!(text, "{word} defined({set})\n{head}");
            word = "#elif";
            let split = pieces > 1;
            if split {
                deps.push(need("types", one));
                let vars: Vec<String> = letters.iter().map(|l| format!("u{l} = {{{l}}}")).collect();
                let result = if accumulates { "" } else { ", ur" };
                let _ = writeln!(
                    text,
                    "  union {{ {ty}x{lanes} v; {ty}x{one} h[{pieces}]; }} {}{result};",
                    vars.join(", ")
                );
            } else if !accumulates {
                let _ = writeln!(text, "  {ty}x{lanes} r;");
            }
            for piece in 0..pieces {
                let at = |l: &str| {
                    if split {
                        format!("u{l}.h[{piece}]")
                    } else {
                        l.to_string()
                    }
                };
                let (result, inputs) = if accumulates {
                    ("a", &letters[1..])
                } else {
                    ("r", letters)
                };
                let mode = if accumulates { "+" } else { "=" };
                let inputs: Vec<String> = inputs
                    .iter()
                    .map(|l| format!("\"{reg}\"({})", at(l)))
                    .collect();
                let _ = writeln!(
                    text,
                    "  __asm__(\"{asm}\" : \"{mode}{reg}\"({}) : {});",
                    at(result),
                    inputs.join(", ")
                );
            }
            let result = if accumulates { "a" } else { "r" };
            let returned = if split {
                format!("u{result}.v")
            } else {
                result.to_string()
            };
            let _ = writeln!(text, "  return {returned};\n}}");
        }
        let fallback = fallback.replace('@', &lanes.to_string());
        if word == "#if" {
            let _ = writeln!(text, "{head}\n{fallback}}}");
        } else {
            let _ = writeln!(text, "#else\n{head}\n{fallback}}}\n#endif");
        }
        Definition { deps, text }
    })
}

/// a·b + c in binary64, where a·b is exact, rounded to odd so that the rounding to binary32 is the only one.
const FMA_F32: &str = "#if defined(__FMA__)
  for (int i = 0; i < @; i++) a[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return a;
#else
  f64x@ p = __builtin_convertvector(a, f64x@) * __builtin_convertvector(b, f64x@);
  f64x@ q = __builtin_convertvector(c, f64x@), s = p + q, t = s - p;
  f64x@ e = (p - (s - t)) + (q - t);
  i64x@ n = (i64x@)s, up = (i64x@)(e > 0.0) ^ (i64x@)(s < 0.0);
  n += ((i64x@)(e > 0.0) | (i64x@)(e < 0.0)) & ((n & 1) - 1) & ((up & 2) - 1);
  return __builtin_convertvector((f64x@)n, f32x@);
#endif
";

const FMA_F64: &str = "  for (int i = 0; i < @; i++) a[i] = __builtin_fma(a[i], b[i], c[i]);
  return a;
";

fn select(ty: &str, int: &str, compare: &str) -> String {
    format!(
        "  {int}x@ m = ({int}x@)(a {compare} b);\n  return ({ty}x@)((m & ({int}x@)a) | (~m & ({int}x@)b));\n"
    )
}

/// The nearest integer by adding 2ᵖ⁻¹ to the magnitude; larger magnitudes are integers.
fn rint(ty: &str, int: &str, sign: &str, limit: &str) -> String {
    format!(
        "  {int}x@ s = ({int}x@)a & {sign};\n  {ty}x@ x = ({ty}x@)(({int}x@)a ^ s), r = (x + {limit}) - {limit};\n  \
         {int}x@ m = ({int}x@)(x < {limit});\n  return ({ty}x@)(((m & ({int}x@)r) | (~m & ({int}x@)x)) | s);\n"
    )
}

fn rounding(name: &str, ty: &str, int: &str, sign: &str, one: &str) -> String {
    let copy = |r: &str| {
        format!("({ty}x@)((({int}x@){r} & ~({sign} - ({int}x@){{}})) | (({int}x@)a & {sign}))")
    };
    match name {
        "floor" => format!(
            "  {ty}x@ r = ft_round_{ty}x@(a);\n  r -= ({ty}x@)(({int}x@)(r > a) & ({int}x@)({one} - ({ty}x@){{}}));\n  \
             return {};\n",
            copy("r")
        ),
        "ceil" => format!(
            "  {ty}x@ r = ft_round_{ty}x@(a);\n  r += ({ty}x@)(({int}x@)(r < a) & ({int}x@)({one} - ({ty}x@){{}}));\n  \
             return {};\n",
            copy("r")
        ),
        _ => format!(
            "  {ty}x@ x = ({ty}x@)(({int}x@)a & ~({sign} - ({int}x@){{}})), r = ft_round_{ty}x@(x);\n  \
             r -= ({ty}x@)(({int}x@)(r > x) & ({int}x@)({one} - ({ty}x@){{}}));\n  return {};\n",
            copy("r")
        ),
    }
}

/// a · 2ᵇ by two factors: see [`Float::scale`](super::lane::Float::scale).
fn scale(ty: &str, int: &str, magic: &str, mantissa: u32, bias: u32) -> String {
    format!(
        "  {int}x@ n = ({int}x@)(b + {magic}) - ({int}x@)({magic} - ({ty}x@){{}}), h = n >> 1;\n  \
         return a * ({ty}x@)((h + {bias}) << {mantissa}) * ({ty}x@)(((n - h) + {bias}) << {mantissa});\n"
    )
}

/// A number that is not 0 if `m` is not or a lane of `a` or `b` is NaN.
fn nans(name: &str, ty: &str, int: &str, lanes: usize) -> Definition {
    let size = if ty == "f32" { 4 } else { 8 };
    let head =
        format!("FT_INLINE unsigned {name}x{lanes}(unsigned m, {ty}x{lanes} a, {ty}x{lanes} b) {{");
    let general = format!(
        "{head}\n  return m | ft_any_{int}x{lanes}(({int}x{lanes})(a != a) | ({int}x{lanes})(b != b));\n}}\n"
    );
    let text = if size * lanes == 64 {
        let suffix = if ty == "f32" { "ps" } else { "pd" };
        format!(
            "#if defined(FT_AVX512)\n{head}\n  unsigned short k;\n  \
             __asm__(\"vcmpunord{suffix} %2, %1, %0\" : \"=k\"(k) : \"v\"(a), \"v\"(b));\n  \
             return m | k;\n}}\n#else\n{general}#endif\n"
        )
    } else {
        general
    };
    Definition {
        deps: vec![need("types", lanes), need(&format!("ft_any_{int}"), lanes)],
        text,
    }
}

/// Whether any lane of a mask is set. Of a vector of one or two registers the flags of a test answer, without a move to
/// another register.
fn any(name: &str, lanes: usize, ty: &str) -> Definition {
    let bytes = lanes * super::memory::size(ty);
    let mut deps = vec![need("types", lanes)];
    let head = format!("FT_INLINE int {name}x{lanes}({ty}x{lanes} m) {{");
    let mut text = String::new();
    let mut guard = "#if defined(FT_AVX512) || defined(FT_AVX2)";
    if bytes == 64 {
        let (test, or) = match ty {
            "i64" => ("vptestmq", "kortestb"),
            "i32" => ("vptestmd", "kortestw"),
            _ => ("vptestmb", "kortestq"),
        };
        let _ = writeln!(
            text,
            "#if defined(FT_AVX512)\n{head}\n  int r;\n  unsigned long k;\n  \
             __asm__(\"{test} %2, %2, %1\\n\\t{or} %1, %1\" : \"=@ccnz\"(r), \"=&k\"(k) : \"v\"(m));\n  return r;\n}}"
        );
        guard = "#elif defined(FT_AVX2)";
    }
    if matches!(bytes, 32 | 64) {
        deps.push(need("types", 4));
        let whole = format!("  union {{ {ty}x{lanes} v; i64x4 w[2]; }} u = {{m}};\n");
        let (union, vector) = match bytes {
            32 => ("", "m"),
            _ => (whole.as_str(), "u.w[0] | u.w[1]"),
        };
        let _ = writeln!(
            text,
            "{guard}\n{head}\n{union}  int r;\n  \
             __asm__(\"vptest %1, %1\" : \"=@ccnz\"(r) : \"x\"({vector}));\n  return r;\n}}\n#else"
        );
    }
    let _ = writeln!(text, "{head}");
    if bytes >= 16 {
        let words = bytes / 8;
        deps.push(need("types", 2));
        let _ = writeln!(
            text,
            "  union {{ {ty}x{lanes} v; i64x2 w[{}]; }} u = {{m}};",
            bytes / 16
        );
        let _ = write!(text, "  i64x2 r = u.w[0]");
        for i in 1..words / 2 {
            let _ = write!(text, " | u.w[{i}]");
        }
        text.push_str(";\n  return (r[0] | r[1]) != 0;\n}\n");
    } else {
        let _ = writeln!(
            text,
            "  int r = 0;\n  for (int i = 0; i < {lanes}; i++) r |= m[i] != 0;\n  return r;\n}}"
        );
    }
    if matches!(bytes, 32 | 64) {
        text.push_str("#endif\n");
    }
    Definition { deps, text }
}

/// 64-bit products of the low halves of lanes of 64 bits.
pub(super) fn product(stem: &str, ty: &'static str, fallback: &str) -> Entry {
    let op = Instruction {
        avx512: "vpmuludq %2, %1, %0",
        avx2: Some("vpmuludq %2, %1, %0"),
        sse2: Some("pmuludq %1, %0"),
        ..Default::default()
    };
    instruction(stem, ty, 2, op, fallback.into())
}

pub(super) fn entries() -> Vec<Entry> {
    let mut entries = vec![
        Entry::new("types", |_, lanes| types(lanes)),
        Entry::new("ft_any_i8", |name, lanes| any(name, lanes, "i8")),
        Entry::new("ft_any_i32", |name, lanes| any(name, lanes, "i32")),
        Entry::new("ft_any_i64", |name, lanes| any(name, lanes, "i64")),
        Entry::text(
            "ft_wrapped_i64",
            &[],
            "FT_INLINE i64x@ ft_wrapped_i64x@(i64x@ v, long size) { return v + ((v >> 63) & size); }\n",
        ),
        Entry::text(
            "ft_outside_i64",
            &["ft_any_i64"],
            "FT_INLINE int ft_outside_i64x@(i64x@ v, long size) { return ft_any_i64x@((v | (i64x@)((size - 1) - (u64x@)v)) >> 63); }\n",
        ),
        Entry::new("ft_nans_f32", |name, lanes| nans(name, "f32", "i32", lanes)),
        Entry::new("ft_nans_f64", |name, lanes| nans(name, "f64", "i64", lanes)),
    ];
    for (name, c, _) in SCALARS
        .into_iter()
        .filter(|s| !s.0.starts_with('u') || s.0 == "u8")
    {
        let text =
            format!("FT_INLINE {name}x@ ft_set_{name}x@({c} s) {{ return s - ({name}x@){{}}; }}\n");
        entries.push(Entry::text(format!("ft_set_{name}"), &[], text));
    }
    entries.push(Entry::new("ft_set_bool", |name, lanes| {
        let (ty, c) = match mask_type(lanes) {
            "i8" => ("i8", "signed char"),
            _ => ("i32", "int"),
        };
        let text = format!(
            "FT_INLINE {ty}x{lanes} {name}x{lanes}(int s) {{ return -(({c})(s != 0) - ({ty}x{lanes}){{}}); }}\n"
        );
        Definition {
            deps: vec![need("types", lanes)],
            text,
        }
    }));
    for (name, c, _) in SCALARS
        .into_iter()
        .filter(|s| !s.0.starts_with('u') || s.0 == "u8")
    {
        // The lane numbers as values, as many as the type holds.
        entries.push(Entry::new(format!("ft_iota_{name}"), move |f, lanes| {
            let list: Vec<String> = (0..lanes).map(|i| format!("({c}){i}")).collect();
            let text = format!(
                "FT_INLINE {name}x{lanes} {f}x{lanes}(void) {{ return ({name}x{lanes}){{{}}}; }}\n",
                list.join(",")
            );
            Definition {
                deps: vec![need("types", lanes)],
                text,
            }
        }));
    }
    for (ty, int, sign, limit, suffix) in [
        ("f32", "i32", "(-2147483647 - 1)", "8388608.0f", "f"),
        (
            "f64",
            "i64",
            "(-9223372036854775807L - 1)",
            "4503599627370496.0",
            "",
        ),
    ] {
        let one = format!("1.0{suffix}");
        let fma = if ty == "f32" { FMA_F32 } else { FMA_F64 };
        let fmadd = "vfmadd213p? %2, %1, %0";
        let accumulate = Instruction {
            avx512: fmadd,
            avx2: Some(fmadd),
            accumulates: true,
            ..Default::default()
        };
        entries.push(instruction("fma", ty, 3, accumulate, fma.into()));
        let sqrt = Instruction {
            avx512: "vsqrtp? %1, %0",
            avx2: Some("vsqrtp? %1, %0"),
            sse2: Some("sqrtp? %1, %0"),
            neon: Some("fsqrt %0.v?, %1.v?"),
            accumulates: false,
        };
        let each = format!(
            "  for (int i = 0; i < @; i++) a[i] = __builtin_sqrt{suffix}(a[i]);\n  return a;\n"
        );
        entries.push(instruction("sqrt", ty, 1, sqrt, each));
        let max = "vmaxp? %2, %1, %0";
        let max = Instruction {
            avx512: max,
            avx2: Some(max),
            sse2: Some("maxp? %1, %0"),
            ..Default::default()
        };
        entries.push(instruction("max_of", ty, 2, max, select(ty, int, ">")));
        let min = "vminp? %2, %1, %0";
        let min = Instruction {
            avx512: min,
            avx2: Some(min),
            sse2: Some("minp? %1, %0"),
            ..Default::default()
        };
        entries.push(instruction("min_of", ty, 2, min, select(ty, int, "<")));
        let round = Instruction {
            avx512: "vrndscalep? $8, %1, %0",
            avx2: Some("vroundp? $8, %1, %0"),
            neon: Some("frintn %0.v?, %1.v?"),
            ..Default::default()
        };
        entries.push(instruction(
            "round",
            ty,
            1,
            round,
            rint(ty, int, sign, limit),
        ));
        for (stem, avx512, avx2, neon) in [
            (
                "floor",
                "vrndscalep? $9, %1, %0",
                "vroundp? $9, %1, %0",
                "frintm %0.v?, %1.v?",
            ),
            (
                "ceil",
                "vrndscalep? $10, %1, %0",
                "vroundp? $10, %1, %0",
                "frintp %0.v?, %1.v?",
            ),
            (
                "trunc",
                "vrndscalep? $11, %1, %0",
                "vroundp? $11, %1, %0",
                "frintz %0.v?, %1.v?",
            ),
        ] {
            let op = Instruction {
                avx512,
                avx2: Some(avx2),
                neon: Some(neon),
                ..Default::default()
            };
            entries.push(instruction(
                stem,
                ty,
                1,
                op,
                rounding(stem, ty, int, sign, &one),
            ));
        }
        let scalef = Instruction {
            avx512: "vscalefp? %2, %1, %0",
            ..Default::default()
        };
        let (magic, mantissa, bias) = if ty == "f32" {
            ("12582912.0f", 23, 127)
        } else {
            ("6755399441055744.0", 52, 1023)
        };
        entries.push(instruction(
            "scale",
            ty,
            2,
            scalef,
            scale(ty, int, magic, mantissa, bias),
        ));
    }
    entries
}
