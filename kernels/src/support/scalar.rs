//! The scalar dialect of the support functions: CUDA C++ for one element, asked for by [`SCALAR`] lanes.
//!
//! Mathematical functions are printed from the recording that the vector text is printed from; what the vector text
//! takes from the vector extension or from instructions of a processor is written here. Values are represented by the
//! C++ type of their dtype, half types by `float`, truth values by `bool`. Bits agree with the other texts and the Rust
//! twins, the sign and payload of a NaN excepted.

use super::{Definition, SCALAR, fast, math, need};
use ferrotrace_runtime::DType;

/// What every kernel begins with.
const TYPES: &str = "#define FT_INLINE static __device__ __forceinline__\n";

/// The C++ type that represents a dtype.
pub fn scalar_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::U8 => "unsigned char",
        DType::I8 => "signed char",
        DType::I16 => "short",
        DType::I32 => "int",
        DType::I64 => "long long",
        DType::F16 | DType::BF16 | DType::F32 => "float",
        DType::F64 => "double",
    }
}

/// A function's text and what it calls.
pub(super) fn function(text: String, calls: &[&str]) -> Option<Definition> {
    let types = std::iter::once(need("types", SCALAR));
    let deps = types.chain(calls.iter().map(|c| need(c, SCALAR))).collect();
    Some(Definition { deps, text })
}

fn simple(result: &str, name: &str, args: &str, value: &str) -> Option<Definition> {
    function(
        format!("FT_INLINE {result} {name}({args}) {{ return {value}; }}\n"),
        &[],
    )
}

/// The scalar text of a part that is not recorded; `None` for those that are.
pub(super) fn definition(name: &str) -> Option<Definition> {
    if name == "types" {
        return Some(Definition {
            deps: Vec::new(),
            text: TYPES.to_owned(),
        });
    }
    let rest = name.strip_prefix("ft_")?;
    fast::definition(rest)
        .or_else(|| random(name, rest))
        .or_else(|| half(name, rest))
        .or_else(|| conversion(name, rest))
        .or_else(|| math::scalar_long(name))
        .or_else(|| {
            let (stem, ty) = rest.rsplit_once('_')?;
            match DType::from_name(ty)? {
                DType::F32 => float(name, stem, true),
                DType::F64 => float(name, stem, false),
                dtype if dtype.is_int() => integer(name, stem, dtype),
                _ => None,
            }
        })
}

/// Functions that are one instruction.
fn float(name: &str, stem: &str, single: bool) -> Option<Definition> {
    let (c, int, f) = if single {
        ("float", "int", "f")
    } else {
        ("double", "long long", "")
    };
    let pick = |s: &'static str, d: &'static str| if single { s } else { d };
    let one = |value: &str| simple(c, name, &format!("{c} a"), value);
    let two = |value: &str| simple(c, name, &format!("{c} a, {c} b"), value);
    let test = |value: &str| simple("bool", name, &format!("{c} a"), value);
    let infinity = super::trace::scalar_literal(f64::INFINITY, single);
    match stem {
        "fma" => simple(
            c,
            name,
            &format!("{c} a, {c} b, {c} c"),
            &format!("{}(a, b, c)", pick("__fmaf_rn", "__fma_rn")),
        ),
        "sqrt" => one(&format!("{}(a)", pick("__fsqrt_rn", "__dsqrt_rn"))),
        "round" => one(&format!("rint{f}(a)")),
        "floor" | "ceil" | "trunc" => one(&format!("{stem}{f}(a)")),
        "max_of" => two("a > b ? a : b"),
        "min_of" => two("a < b ? a : b"),
        "isnan" => test("a != a"),
        "isinf" => test(&format!("fabs{f}(a) == {infinity}")),
        "isfinite" => test(&format!("fabs{f}(a) < {infinity}")),
        "scale" => {
            let (magic, mantissa, bias) = if single {
                ("12582912.0f", 23, 127)
            } else {
                ("6755399441055744.0", 52, 1023)
            };
            let (of, to) = (
                pick("__float_as_int", "__double_as_longlong"),
                pick("__int_as_float", "__longlong_as_double"),
            );
            function(
                format!(
                    "FT_INLINE {c} {name}({c} a, {c} b) {{\n  {int} n = {of}(b + {magic}) - {of}({magic}), h = n >> 1;\n  \
                     return a * {to}((h + {bias}) << {mantissa}) * {to}(((n - h) + {bias}) << {mantissa});\n}}\n"
                ),
                &[],
            )
        }
        _ => None,
    }
}

/// Integer operators, defined for every operand (see [`super::integer`]).
fn integer(name: &str, stem: &str, dtype: DType) -> Option<Definition> {
    let c = scalar_type(dtype);
    let signed = dtype != DType::U8;
    let u = if dtype == DType::I64 {
        "unsigned long long"
    } else {
        "unsigned"
    };
    let bits = dtype.size() * 8;
    let minus = if signed { "b == -1" } else { "false" };
    let other = if signed {
        "(m != 0 && (m < 0) != (b < 0))"
    } else {
        "false"
    };
    let one = |value: String| simple(c, name, &format!("{c} a"), &format!("({c})({value})"));
    let two = |value: String| {
        simple(
            c,
            name,
            &format!("{c} a, {c} b"),
            &format!("({c})({value})"),
        )
    };
    let body = |text: String| {
        function(
            format!("FT_INLINE {c} {name}({c} a, {c} b) {{\n{text}}}\n"),
            &[],
        )
    };
    // NVRTC 13.0 makes one instruction of two signed maxima, and drops the sign of a negated operand in it: unsigned ones
    // of moved operands are not joined so. Of shorter types it takes the bits alone: ptxas extends no negated number again.
    let extreme = |sign: char| match dtype {
        DType::I8 | DType::I16 | DType::I32 => {
            let (bits, low) = (
                format!("unsigned {}", c.trim_start_matches("signed ")),
                format!("{:#x}u", 1u32 << (8 * dtype.size() - 1)),
            );
            body(format!(
                "  const unsigned x = ({bits})a ^ {low}, y = ({bits})b ^ {low};\n  \
                 return ({c})((x {sign} y ? x : y) ^ {low});\n"
            ))
        }
        _ => two(format!("a {sign} b ? a : b")),
    };
    match stem {
        "abs" => one(format!("a < 0 ? ({u})0 - ({u})a : ({u})a")),
        "sign" => one("(a > 0) - (a < 0)".into()),
        "square" => one(format!("({u})a * ({u})a")),
        "relu" => one("a > 0 ? a : 0".into()),
        "maximum" => extreme('>'),
        "minimum" => extreme('<'),
        "floor_divide" => body(format!(
            "  if (b == 0) return 0;\n  if ({minus}) return ({c})(({u})0 - ({u})a);\n  {c} m = ({c})(a % b);\n  \
             return ({c})(a / b - {other});\n"
        )),
        "remainder" => body(format!(
            "  if (b == 0) return a;\n  if ({minus}) return 0;\n  {c} m = ({c})(a % b);\n  \
             return ({c})({other} ? m + b : m);\n"
        )),
        "fmod" => body(format!(
            "  if (b == 0) return a;\n  if ({minus}) return 0;\n  return ({c})(a % b);\n"
        )),
        "pow" => body(format!(
            "  if (b < 0) return ({c})(a == 1 ? 1 : {signed} && a == ({c})-1 ? (b & 1 ? a : 1) : 0);\n  {u} r = 1, x = ({u})a;\n  \
             for (; b > 0; b >>= 1) {{\n    if (b & 1) r *= x;\n    x *= x;\n  }}\n  return ({c})r;\n"
        )),
        "gcd" => body(format!(
            "  unsigned long long p = a < 0 ? 0ull - (unsigned long long)a : (unsigned long long)a;\n  \
             unsigned long long q = b < 0 ? 0ull - (unsigned long long)b : (unsigned long long)b;\n  \
             if (p == 0 || q == 0) return ({c})(p | q);\n  const int twos = __ffsll(p | q) - 1;\n  p >>= __ffsll(p) - 1;\n  \
             while (q) {{\n    q >>= __ffsll(q) - 1;\n    const unsigned long long least = p < q ? p : q;\n    \
             q = p < q ? q - p : p - q;\n    p = least;\n  }}\n  return ({c})(p << twos);\n"
        )),
        "shl" => two(format!("b >= 0 && b < {bits} ? ({u})a << b : ({u})0")),
        "shr" => two(format!("b >= 0 && b < {bits} ? a >> b : -(a < 0)")),
        _ => None,
    }
}

/// The half types' conversions.
fn half(name: &str, rest: &str) -> Option<Definition> {
    let text = match rest {
        "to_f16" => {
            "FT_INLINE unsigned short ft_to_f16(float a) { unsigned short r; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(r) : \
             \"f\"(a)); return r; }\n"
        }
        "from_f16" => {
            "FT_INLINE float ft_from_f16(unsigned short a) { float r; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(r) : \"h\"(a)); \
             return r; }\n"
        }
        "to_bf16" => {
            "FT_INLINE unsigned short ft_to_bf16(float a) {\n#if __CUDA_ARCH__ >= 800\n  unsigned short r; \
             asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(a)); return r;\n#else\n  unsigned b = __float_as_uint(a);\n  \
             if (a != a) return (unsigned short)((b | 0x400000u) >> 16);\n  \
             return (unsigned short)((b + (b >> 16 & 1u) + 0x7fffu) >> 16);\n#endif\n}\n"
        }
        "from_bf16" => {
            "FT_INLINE float ft_from_bf16(unsigned short a) { return __uint_as_float((unsigned)a << 16); }\n"
        }
        "round_f16" | "round_bf16" => {
            let half = &rest["round_".len()..];
            let (to, from) = (format!("ft_to_{half}"), format!("ft_from_{half}"));
            return function(
                format!("FT_INLINE float {name}(float a) {{ return {from}({to}(a)); }}\n"),
                &[&to, &from],
            );
        }
        _ => return None,
    };
    function(text.to_owned(), &[])
}

/// `ft_cast_{from}_{to}`, with the semantics of [`super::cast`].
fn conversion(name: &str, rest: &str) -> Option<Definition> {
    let (from, to) = rest.strip_prefix("cast_")?.split_once('_')?;
    let (from, to) = (DType::from_name(from)?, DType::from_name(to)?);
    let (a, r) = (scalar_type(from), scalar_type(to));
    let whole = |value: String, calls: &[&str]| {
        function(
            format!("FT_INLINE {r} {name}({a} a) {{ return {value}; }}\n"),
            calls,
        )
    };
    if to.is_half() {
        let round = format!("ft_round_{to}");
        return if from == to {
            whole("a".into(), &[])
        } else {
            whole(format!("{round}((float)a)"), &[&round])
        };
    }
    if to == DType::Bool {
        return whole("a != 0".into(), &[]);
    }
    if !from.compute().is_float() || !to.is_int() {
        return whole(format!("({r})a"), &[]);
    }
    // The first numbers of the float type below and above those of the integer type.
    let suffix = if from == DType::F64 { "" } else { "f" };
    let (low, high) = match to {
        DType::U8 => ("0", "255"),
        DType::I8 => ("-128", "127"),
        DType::I16 => ("-32768", "32767"),
        DType::I32 => ("(-2147483647 - 1)", "2147483647"),
        _ => ("(-9223372036854775807LL - 1)", "9223372036854775807LL"),
    };
    let (least, next) = match to {
        DType::U8 => ("0.0", "256.0"),
        DType::I8 => ("-128.0", "128.0"),
        DType::I16 => ("-32768.0", "32768.0"),
        DType::I32 => ("-2147483648.0", "2147483648.0"),
        _ => ("-9223372036854775808.0", "9223372036854775808.0"),
    };
    whole(
        format!(
            "a != a ? ({r})0 : a <= {least}{suffix} ? ({r}){low} : a >= {next}{suffix} ? ({r}){high} : ({r})a"
        ),
        &[],
    )
}

/// Philox and what is drawn from it (see [`super::philox`]).
fn random(name: &str, rest: &str) -> Option<Definition> {
    const ARGS: &str = "unsigned long long key, unsigned long long offset, long long i";
    let draw = |result: &str, more: &str, body: String, calls: &[&str]| {
        function(
            format!("FT_INLINE {result} {name}({ARGS}{more}) {{\n{body}}}\n"),
            calls,
        )
    };
    let uniform = |result: &str, bits: u32, shift: u32, unit: &str| {
        let int = if bits == 32 { "int" } else { "long long" };
        let word = format!("ft_rand_u{bits}");
        draw(
            result,
            "",
            format!("  return ({result})({int})({word}(key, offset, i) >> {shift}) * {unit};\n"),
            &[&word],
        )
    };
    match rest {
        "philox" => function(PHILOX.to_owned(), &[]),
        "rand_u32" => draw("unsigned", "", RAND32.to_owned(), &["ft_philox"]),
        "rand_u64" => draw("unsigned long long", "", RAND64.to_owned(), &["ft_philox"]),
        "uniform_f32" => uniform("float", 32, 8, "5.9604644775390625e-08f"),
        "uniform_f16" => uniform("float", 32, 21, "0.00048828125f"),
        "uniform_bf16" => uniform("float", 32, 24, "0.00390625f"),
        "uniform_f64" => uniform("double", 64, 11, "1.1102230246251565e-16"),
        "normal_f32" => draw(
            "float",
            "",
            "  unsigned c[4]; ft_philox(key, offset + ((unsigned long long)i >> 2), c);\n  \
             unsigned u = i & 2 ? c[2] : c[0], v = i & 2 ? c[3] : c[1];\n  \
             return ft_box_muller_f32((int)(u >> 8), (int)(v >> 8), (int)(i & 1));\n"
                .to_owned(),
            &["ft_philox", "ft_box_muller_f32"],
        ),
        "normal_f64" => draw(
            "double",
            "",
            "  unsigned c[4]; ft_philox(key, offset + ((unsigned long long)i >> 1), c);\n  \
             unsigned long long u = c[0] | (unsigned long long)c[1] << 32, v = c[2] | (unsigned long long)c[3] << 32;\n  \
             return ft_box_muller_f64((long long)(u >> 11), (long long)(v >> 11), i & 1);\n"
                .to_owned(),
            &["ft_philox", "ft_box_muller_f64"],
        ),
        "normal_f16" | "normal_bf16" => {
            let round = rest.replace("normal", "ft_round");
            draw(
                "float",
                "",
                format!("  return {round}(ft_normal_f32(key, offset, i));\n"),
                &["ft_normal_f32", &round],
            )
        }
        "randint_i64" => draw(
            "long long",
            ", long long low, unsigned long long range",
            "  unsigned long long bits = ft_rand_u64(key, offset, i);\n  \
             bits = range <= 1ULL << 32 ? (bits >> 32) * range >> 32 : bits % range;\n  \
             return (long long)(bits + (unsigned long long)low);\n"
                .to_owned(),
            &["ft_rand_u64"],
        ),
        "bernoulli_bool" => draw(
            "bool",
            ", double p",
            "  return (double)ft_rand_u32(key, offset, i) < p * 4294967296.0;\n".to_owned(),
            &["ft_rand_u32"],
        ),
        "bits63_i64" => draw(
            "long long",
            "",
            "  return (long long)(ft_rand_u64(key, offset, i) >> 1);\n".to_owned(),
            &["ft_rand_u64"],
        ),
        _ => None,
    }
}

const PHILOX: &str =
    "FT_INLINE void ft_philox(unsigned long long key, unsigned long long counter, unsigned *c) {
  unsigned c0 = (unsigned)counter, c1 = (unsigned)(counter >> 32), c2 = 0, c3 = 0;
  unsigned k0 = (unsigned)key, k1 = (unsigned)(key >> 32);
  #pragma unroll
  for (int i = 0; i < 10; i++) {
    unsigned p = __umulhi(0xD2511F53u, c0), q = __umulhi(0xCD9E8D57u, c2);
    unsigned r = 0xD2511F53u * c0, s = 0xCD9E8D57u * c2;
    c0 = q ^ c1 ^ k0; c1 = s; c2 = p ^ c3 ^ k1; c3 = r;
    k0 += 0x9E3779B9u; k1 += 0xBB67AE85u;
  }
  c[0] = c0; c[1] = c1; c[2] = c2; c[3] = c3;
}
";

const RAND32: &str = "  unsigned c[4]; ft_philox(key, offset + ((unsigned long long)i >> 2), c);
  unsigned low = i & 1 ? c[1] : c[0], high = i & 1 ? c[3] : c[2];
  return i & 2 ? high : low;
";

const RAND64: &str = "  unsigned c[4]; ft_philox(key, offset + ((unsigned long long)i >> 1), c);
  return i & 1 ? c[2] | (unsigned long long)c[3] << 32 : c[0] | (unsigned long long)c[1] << 32;
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::{EVERY, INTERLEAVE, ROWS};
    use crate::support::{REGISTRY, printed};

    /// Parts that only the vector text has.
    const VECTOR_ONLY: [&str; 35] = [
        "behind",
        "carry",
        "both",
        "two",
        "load",
        "loadn",
        "loadr",
        "evensr",
        "between",
        "reversed",
        "store",
        "storen",
        "stream",
        "fence",
        "set",
        "iota",
        "hsum",
        "sel",
        "saturate",
        "mul32",
        "transpose",
        "prefix",
        "last",
        "nans",
        "four",
        "run",
        "ahead",
        "lanes",
        "distant",
        "distantn",
        "wrapped",
        "outside",
        "above",
        "below",
        "pick",
    ];

    #[test]
    fn every_function_of_one_element_has_a_scalar_text() {
        for (name, _) in &REGISTRY.entries {
            let stem = name.trim_start_matches("ft_");
            let stem = stem.split('_').next().unwrap_or(stem);
            if [&VECTOR_ONLY[..], &EVERY, &INTERLEAVE, &ROWS]
                .concat()
                .contains(&stem)
                || matches!(stem, "hprod" | "hmax" | "hmin" | "hany" | "hall" | "any")
            {
                continue;
            }
            let (_, definition) = printed(need(name, SCALAR)).expect("a part");
            let text = &definition.text;
            for vector in ["x0(", "x0 ", "__builtin", "convertvector", "static inline"] {
                assert!(!text.contains(vector), "{name}: {text}");
            }
        }
    }
}
