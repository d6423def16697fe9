//! Conversions between dtypes, with the semantics of Rust's `as`: floats saturate and NaN is 0, integers wrap, anything
//! but zero is true. A half type is reached through binary32.

use super::lane::{Float, Int};
use super::{Definition, Entry, compares_by_call, mask, need, trace};
use ferrotrace_runtime::{DType, Element};
use half::{bf16, f16};
use std::fmt::Write;
use std::num::Wrapping;

/// The bits of the nearest binary16, ties to even, in the low half.
#[inline(always)]
pub fn to_f16<F: Float>(x: F) -> F::Int {
    let sign = x.sign_bit();
    let bits = x.bits() ^ sign;
    // Results below the normal range: adding ½ rounds to a multiple of 2⁻²⁴ and leaves it in the low bits.
    let small = (bits.float_bits() + F::lit(0.5)).bits() - F::lit(0.5).bits();
    let odd = bits.shr(13) & F::Int::lit(1);
    let normal = (bits + odd + F::Int::lit(0xfff - (112 << 23))).shr(13);
    let nan = F::Int::lit(0x7e00);
    let large = F::Int::sel(bits.gt(F::Int::lit(0x7f80_0000)), nan, F::Int::lit(0x7c00));
    let finite = F::Int::sel(bits.lt(F::Int::lit(0x3880_0000)), small, normal);
    F::Int::sel(bits.lt(F::Int::lit(0x477f_f000)), finite, large) | sign.shr(16)
}

/// The value of the binary16 whose bits are in the low half.
#[inline(always)]
pub fn from_f16<F: Float>(bits: F::Int) -> F {
    let sign = (bits & F::Int::lit(0x8000)).shl(16);
    let magnitude = (bits & F::Int::lit(0x7fff)).shl(13);
    // The exponents differ by 112; the product also makes subnormal numbers normal.
    let finite = magnitude.float_bits() * F::Int::lit(239 << 23).float_bits();
    let large = magnitude | F::Int::lit(0x7f80_0000);
    F::Int::sel(
        magnitude.lt(F::Int::lit(0x7c00 << 13)),
        finite.bits(),
        large,
    )
    .float_bits()
    .or_sign(sign)
}

/// The bits of the nearest bfloat16, ties to even, in the low half.
#[inline(always)]
pub fn to_bf16<F: Float>(x: F) -> F::Int {
    let bits = x.bits();
    let rounded = bits + (bits.shr(16) & F::Int::lit(1)) + F::Int::lit(0x7fff);
    F::Int::sel(x.is_nan(), bits | F::Int::lit(0x40_0000), rounded).shr(16)
}

/// The value rounded to binary16.
#[inline(always)]
pub fn round_f16<F: Float>(x: F) -> F {
    from_f16(to_f16(x))
}

/// The value rounded to bfloat16.
#[inline(always)]
pub fn round_bf16<F: Float>(x: F) -> F {
    to_bf16(x).shl(16).float_bits()
}

/// A conversion from one element type to another: the twin of `ft_cast_{from}_{to}xW`.
pub trait Cast<T>: Element {
    /// The value as `T`.
    fn cast(self) -> T;
}

/// The value as another element type.
#[inline(always)]
pub fn cast<A: Cast<B>, B>(a: A) -> B {
    a.cast()
}

/// The value of a binary16.
#[inline(always)]
pub fn f16_to_f32(h: f16) -> f32 {
    from_f16::<f32>(Wrapping(h.to_bits() as i32))
}

/// The nearest binary16.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> f16 {
    f16::from_bits(to_f16(x).0 as u16)
}

/// The value of a bfloat16.
#[inline(always)]
pub fn bf16_to_f32(h: bf16) -> f32 {
    f32::from_bits((h.to_bits() as u32) << 16)
}

/// The nearest bfloat16.
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> bf16 {
    bf16::from_bits(to_bf16(x).0 as u16)
}

macro_rules! casts {
    (@to $a:ty, |$x:ident| $v:expr) => {
        casts!(@each $a, |$x| $v => u8 i8 i16 i32 i64 f32 f64);
        impl Cast<f16> for $a {
            #[inline(always)]
            fn cast(self) -> f16 {
                let $x = self;
                f32_to_f16($v as f32)
            }
        }
        impl Cast<bf16> for $a {
            #[inline(always)]
            fn cast(self) -> bf16 {
                let $x = self;
                f32_to_bf16($v as f32)
            }
        }
        impl Cast<bool> for $a {
            #[inline(always)]
            fn cast(self) -> bool {
                let $x = self;
                $v != (0 as _)
            }
        }
    };
    (@each $a:ty, |$x:ident| $v:expr => $($b:ty)*) => {$(
        impl Cast<$b> for $a {
            #[inline(always)]
            fn cast(self) -> $b {
                let $x = self;
                $v as $b
            }
        }
    )*};
    ($($a:ty, |$x:ident| $v:expr;)*) => {$( casts!(@to $a, |$x| $v); )*};
}

casts! {
    bool, |x| (x as u8);
    u8, |x| x;
    i8, |x| x;
    i16, |x| x;
    i32, |x| x;
    i64, |x| x;
    f32, |x| x;
    f64, |x| x;
    f16, |x| f16_to_f32(x);
    bf16, |x| bf16_to_f32(x);
}

/// The C text of a conversion of `a`, and the functions it calls.
fn text(from: DType, to: DType, lanes: usize) -> (String, Vec<String>) {
    let source = from.compute();
    let convert = |a: &str, to: &str| super::convert(a, super::c_type(source, lanes), to, lanes);
    if to.is_half() {
        if from == to {
            return ("a".into(), Vec::new());
        }
        let (value, mut calls) = text(from, DType::F32, lanes);
        calls.push(format!("ft_round_{to}"));
        return (format!("ft_round_{to}x{lanes}({value})"), calls);
    }
    if source == to {
        return ("a".into(), Vec::new());
    }
    let value = match (source, to) {
        (DType::Bool, _) => convert("a & 1", to.name()),
        (_, DType::Bool) if compares_by_call(source, lanes) => {
            let (stem, zero) = (format!("ft_ne_{source}"), format!("({source}x{lanes}){{}}"));
            return (format!("{stem}x{lanes}(a, {zero})"), vec![stem]);
        }
        (_, DType::Bool) => mask("(a != 0)", source, lanes),
        (DType::F32 | DType::F64, _) if to.is_int() => {
            let stem = format!("ft_saturate_{}_{to}", source.name());
            return (format!("{stem}x{lanes}(a)"), vec![stem]);
        }
        _ => convert("a", to.name()),
    };
    (value, Vec::new())
}

/// What returns floats as integers of 64 bits by way of 32, where all fit and AVX-512 is missing.
fn through_32_bits(from: &str, int: &str, lanes: usize) -> String {
    let suffix = if from == "f32" { "f" } else { "" };
    format!(
        "#if defined(__SSE2__) && !defined(FT_AVX512)\n  \
         {int}x{lanes} s = ({int}x{lanes})(a > -2147483648.0{suffix}) & ({int}x{lanes})(a < 2147483648.0{suffix});\n  \
         if (!ft_any_{int}x{lanes}(~s)) return __builtin_convertvector(__builtin_convertvector(a, i32x{lanes}), i64x{lanes});\n\
         #endif\n"
    )
}

/// A float to an integer: clamped to the range, NaN to 0, then converted. Where the largest integer is no float, what
/// reaches the next float above it is set afterwards. Before AVX-512, x86 converts to 64 bits one by one, so that numbers
/// which all fit into 32 bits go through those.
fn saturate(name: &str, from: &str, to: DType, lanes: usize) -> Definition {
    let int = if from == "f32" { "i32" } else { "i64" };
    let ty = format!("{from}x{lanes}");
    let suffix = if from == "f32" { "f" } else { "" };
    let (low, high) = match to {
        DType::U8 => (0.0, 255.0),
        DType::I8 => (-128.0, 127.0),
        DType::I16 => (-32768.0, 32767.0),
        DType::I32 => (-2147483648.0, 2147483647.0),
        _ => (-9223372036854775808.0, 9223372036854775808.0),
    };
    let exact = !matches!((from, to), (_, DType::I64) | ("f32", DType::I32));
    let max = format!("ft_max_of_{from}");
    let min = format!("ft_min_of_{from}");
    let mut deps = vec![need("types", lanes), need(&max, lanes)];
    let mut body = String::new();
    if to == DType::I64 && lanes >= 4 {
        body += &through_32_bits(from, int, lanes);
        deps.push(need(&format!("ft_any_{int}"), lanes));
    }
    let _ = writeln!(
        body,
        "  a = ({ty})(({int}x{lanes})a & ({int}x{lanes})(a == a));"
    );
    let _ = writeln!(
        body,
        "  a = {max}x{lanes}(a, {low:.1}{suffix} - ({ty}){{}});"
    );
    let through = if to.size() < 4 { "i32" } else { to.name() };
    if exact {
        deps.push(need(&min, lanes));
        let _ = writeln!(
            body,
            "  a = {min}x{lanes}(a, {high:.1}{suffix} - ({ty}){{}});"
        );
        let _ = writeln!(
            body,
            "  {through}x{lanes} r = __builtin_convertvector(a, {through}x{lanes});"
        );
    } else {
        let limit = if to == DType::I64 {
            "9223372036854775808.0"
        } else {
            "2147483648.0"
        };
        let last = if to == DType::I64 {
            "9223372036854775807L"
        } else {
            "2147483647"
        };
        let _ = writeln!(
            body,
            "  {int}x{lanes} f = ({int}x{lanes})(a < {limit}{suffix});"
        );
        let wide = if int == through {
            "f".to_string()
        } else {
            format!("__builtin_convertvector(f, {through}x{lanes})")
        };
        let _ = writeln!(body, "  {through}x{lanes} w = {wide};");
        let _ = writeln!(
            body,
            "  {through}x{lanes} r = __builtin_convertvector(({ty})(({int}x{lanes})a & f), {through}x{lanes}) | (~w & {last});"
        );
    }
    let result = if through == to.name() {
        "r".into()
    } else {
        super::convert("r", through, to.name(), lanes)
    };
    let text =
        format!("FT_INLINE {to}x{lanes} {name}x{lanes}({ty} a) {{\n{body}  return {result};\n}}\n");
    Definition { deps, text }
}

/// `ft_from_f16` and `ft_to_f16`: instructions where F16C is, else the function above them.
fn half_text(name: &str, lanes: usize, to: bool) -> Definition {
    let (narrow, wide) = (format!("i16x{lanes}"), format!("f32x{lanes}"));
    let mut deps = vec![need("types", lanes)];
    let bits = need(
        if to {
            "ft_f16_bits_f32"
        } else {
            "ft_f16_value_f32"
        },
        lanes,
    );
    deps.push(bits);
    let (from, result) = if to {
        (&wide, &narrow)
    } else {
        (&narrow, &wide)
    };
    let asm = if to {
        "vcvtps2ph $0, %1, %0"
    } else {
        "vcvtph2ps %1, %0"
    };
    let head = format!("FT_INLINE {result} {name}x{lanes}({from} a) {{\n");
    let soft = if to {
        format!(
            "  return __builtin_convertvector({}x{lanes}(a), {narrow});\n",
            bits.name
        )
    } else {
        format!(
            "  return {}x{lanes}(__builtin_convertvector(a, i32x{lanes}));\n",
            bits.name
        )
    };
    let hard =
        format!("  {result} r;\n  __asm__(\"{asm}\" : \"=REG\"(r) : \"REG\"(a));\n  return r;\n");
    let text = match lanes {
        16 => format!(
            "{head}#if defined(FT_AVX512)\n{}#else\n{soft}#endif\n}}\n",
            hard.replace("REG", "v")
        ),
        8 => format!(
            "{head}#if defined(FT_AVX512) || defined(FT_AVX2)\n{}#else\n{soft}#endif\n}}\n",
            hard.replace("REG", "x")
        ),
        _ => format!("{head}{soft}}}\n"),
    };
    Definition { deps, text }
}

pub(super) fn entries() -> Vec<Entry> {
    use trace::{F32, I32, Sym};
    let mut entries = vec![
        Entry::new("ft_f16_bits_f32", |n, w| {
            trace::unary(n, w, to_f16::<Sym<F32>>)
        }),
        Entry::new("ft_f16_value_f32", |n, w| {
            trace::unary::<I32, F32>(n, w, from_f16::<Sym<F32>>)
        }),
        Entry::new("ft_bf16_bits_f32", |n, w| {
            trace::unary(n, w, to_bf16::<Sym<F32>>)
        }),
        Entry::new("ft_to_f16", |n, w| half_text(n, w, true)),
        Entry::new("ft_from_f16", |n, w| half_text(n, w, false)),
        Entry::text(
            "ft_to_bf16",
            &["ft_bf16_bits_f32"],
            "FT_INLINE i16x@ ft_to_bf16x@(f32x@ a) { return __builtin_convertvector(ft_bf16_bits_f32x@(a), i16x@); }\n",
        ),
        Entry::text(
            "ft_from_bf16",
            &[],
            "FT_INLINE f32x@ ft_from_bf16x@(i16x@ a) { return (f32x@)(__builtin_convertvector(a, i32x@) << 16); }\n",
        ),
        Entry::text(
            "ft_round_f16",
            &["ft_to_f16", "ft_from_f16"],
            "FT_INLINE f32x@ ft_round_f16x@(f32x@ a) { return ft_from_f16x@(ft_to_f16x@(a)); }\n",
        ),
        Entry::new("ft_round_bf16", |n, w| {
            trace::unary(n, w, round_bf16::<Sym<F32>>)
        }),
    ];
    for from in ["f32", "f64"] {
        for to in [DType::U8, DType::I8, DType::I16, DType::I32, DType::I64] {
            entries.push(Entry::new(
                format!("ft_saturate_{from}_{to}"),
                move |name, lanes| saturate(name, from, to, lanes),
            ));
        }
    }
    for from in DType::ALL {
        for to in DType::ALL {
            entries.push(Entry::new(format!("ft_cast_{from}_{to}"), move |name, lanes| {
                let (value, calls) = text(from, to, lanes);
                let (a, r) = (super::c_type(from, lanes), super::c_type(to, lanes));
                let mut deps = vec![need("types", lanes)];
                deps.extend(calls.iter().map(|c| need(c, lanes)));
                let text = format!("FT_INLINE {r}x{lanes} {name}x{lanes}({a}x{lanes} a) {{ return {value}; }}\n");
                Definition { deps, text }
            }));
        }
    }
    for dtype in DType::ALL {
        entries.push(Entry::new(format!("ft_sel_{dtype}"), move |name, lanes| {
            let (ty, mask) = (super::c_type(dtype, lanes), super::mask_type(lanes));
            let int = match ty {
                "f32" | "i32" => "i32",
                "f64" | "i64" => "i64",
                "i16" => "i16",
                _ => "i8",
            };
            let (k, converted) = match int == mask {
                true => ("m", String::new()),
                false => {
                    let k = super::convert("m", mask, int, lanes);
                    ("k", format!("  {int}x{lanes} k = {k};\n"))
                }
            };
            let text = format!(
                "FT_INLINE {ty}x{lanes} {name}x{lanes}({mask}x{lanes} m, {ty}x{lanes} a, {ty}x{lanes} b) {{\n{converted}  \
                 return ({ty}x{lanes})(({k} & ({int}x{lanes})a) | (~{k} & ({int}x{lanes})b));\n}}\n"
            );
            Definition {
                deps: vec![need("types", lanes)],
                text,
            }
        }));
    }
    entries
}
