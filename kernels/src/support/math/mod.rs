//! The mathematical functions, generic over [`Float`](super::lane::Float): each is the Rust twin and, recorded, the C
//! text.

mod elementary;
mod error_function;
mod exponential;
mod hyperbolic;
mod logarithm;
mod long;
mod power;
mod real;
mod remainder;
mod simple;
mod trigonometric;

pub use elementary::{Elementary, erf, erfc, floor_divide, fmod, pow, remainder};
pub use exponential::{exp, exp_of_nonpositive, exp2, expm1, sigmoid};
pub use hyperbolic::*;
pub(super) use logarithm::log_scaled;
pub use logarithm::{log, log1p, log2, log10};
pub use long::Long;
pub(super) use long::scalar as scalar_long;
pub use real::Real;
pub use simple::*;
pub use trigonometric::*;

use super::{Definition, Entry, mask, need, trace};
use ferrotrace_runtime::DType;
use trace::{F32, F64, Sym};

macro_rules! functions {
    ($entries:ident, $arity:ident: $($name:ident $f32:ident $f64:ident),* $(,)?) => {$(
        $entries.push(Entry::new(concat!("ft_", stringify!($name), "_f32"), |n, w| {
            trace::$arity(n, w, $f32::<Sym<F32>>)
        }));
        $entries.push(Entry::new(concat!("ft_", stringify!($name), "_f64"), |n, w| {
            trace::$arity(n, w, $f64::<Sym<F64>>)
        }));
    )*};
}

/// A predicate of a float, as the mask `i32xW`.
fn predicate(name: &str, ty: &str, test: &str, lanes: usize) -> Definition {
    let dtype = if ty == "f32" { DType::F32 } else { DType::F64 };
    let test = mask(test, dtype, lanes);
    let text =
        format!("FT_INLINE i32x{lanes} {name}x{lanes}({ty}x{lanes} a) {{ return {test}; }}\n");
    Definition {
        deps: vec![need("types", lanes)],
        text,
    }
}

pub(super) fn entries() -> Vec<Entry> {
    let mut entries = long::entries();
    functions!(entries, unary:
        exp exp exp, exp_of_nonpositive exp_of_nonpositive exp_of_nonpositive, exp2 exp2 exp2, expm1 expm1 expm1, sigmoid sigmoid sigmoid,
        log log log, log2 log2 log2, log10 log10 log10, log1p log1p log1p,
        tanh tanh tanh, sinh sinh sinh, cosh cosh cosh, asinh asinh asinh, acosh acosh acosh,
        atanh atanh atanh, erf erf erf, erfc erfc erfc,
        abs abs abs, sign sign sign, square square square, rsqrt rsqrt rsqrt, relu relu relu,
        sin sin sin, cos cos cos, tan tan tan, asin asin asin, acos acos acos, atan atan atan,
    );
    // Four vectors at once of binary32 functions without branches (of others: one after another).
    macro_rules! fours {
        ($($name:ident)*) => {$(
            entries.push(Entry::new(concat!("ft_four_", stringify!($name), "_f32"), |n, w| {
                trace::four(n, concat!("ft_", stringify!($name), "_f32"), w, $name::<Sym<F32>>)
            }));
        )*};
    }
    fours!(exp exp_of_nonpositive exp2 expm1 sigmoid tanh log log2 log1p erf);
    functions!(entries, binary:
        maximum maximum maximum, minimum minimum minimum, pow pow pow, atan2 atan2 atan2,
        fmod fmod fmod, remainder remainder remainder, floor_divide floor_divide floor_divide,
    );
    // A GPU has approximations for these (`scalar`); in vector text they are the functions themselves.
    let fast: [(&str, &str, &str, &[&str]); 9] = [
        ("fast_recip", "f32x@ a", "1.0f / a", &[]),
        ("fast_exp", "f32x@ a", "ft_exp_f32x@(a)", &["ft_exp_f32"]),
        ("term_exp", "f32x@ a", "ft_exp_f32x@(a)", &["ft_exp_f32"]),
        ("fast_log", "f32x@ a", "ft_log_f32x@(a)", &["ft_log_f32"]),
        (
            "fast_log1p",
            "f32x@ a",
            "ft_log1p_f32x@(a)",
            &["ft_log1p_f32"],
        ),
        ("fast_erf", "f32x@ a", "ft_erf_f32x@(a)", &["ft_erf_f32"]),
        ("fast_tanh", "f32x@ a", "ft_tanh_f32x@(a)", &["ft_tanh_f32"]),
        ("half_tanh", "f32x@ a", "ft_tanh_f32x@(a)", &["ft_tanh_f32"]),
        (
            "fast_sigmoid",
            "f32x@ a",
            "ft_sigmoid_f32x@(a)",
            &["ft_sigmoid_f32"],
        ),
    ];
    for (name, args, value, calls) in fast {
        let text = format!("FT_INLINE f32x@ ft_{name}_f32x@({args}) {{ return {value}; }}\n");
        entries.push(Entry::text(format!("ft_{name}_f32"), calls, text));
    }
    // What an addition rounds away (Knuth), and a sum with what was lost on the way: NaN where the sum is infinite.
    for ty in ["f32", "f64"] {
        let mask = if ty == "f32" { "i32x@" } else { "i64x@" };
        let text = format!(
            "FT_INLINE void ft_two_sum_{ty}x@({ty}x@ *s, {ty}x@ *e, {ty}x@ x) {{ \
             const {ty}x@ a = *s, t = a + x, d = t - a; *e += (a - (t - d)) + (x - d); *s = t; }}\n"
        );
        entries.push(Entry::text(format!("ft_two_sum_{ty}"), &[], text));
        let text = format!(
            "FT_INLINE {ty}x@ ft_both_parts_{ty}x@({ty}x@ s, {ty}x@ e) {{ return s + ({ty}x@)(({mask})e & ({mask})(e == e)); }}\n"
        );
        entries.push(Entry::text(format!("ft_both_parts_{ty}"), &[], text));
        // Compensated summation. Of binary32 (Kahan), `e` is what the last addition to `s` rounded up, which the next one takes
        // off: it stays small, however many additions there are. Of binary64 (Ogita and Rump) it is what all of them rounded up:
        // neither sum waits for the other, and each vector adds the time of one addition.
        let body = match ty {
            "f32" => format!(
                "y = x - ({ty}x@)(({mask})*e & ({mask})(*e == *e)), t = a + y, d = t - a; *e = ((t - d) - a) + (d - y)"
            ),
            _ => "t = a + x, d = t - a; *e += ((t - d) - a) + (d - x)".to_owned(),
        };
        let text = format!(
            "FT_INLINE void ft_carry_{ty}x@({ty}x@ *s, {ty}x@ *e, {ty}x@ x) {{ const {ty}x@ a = *s, {body}; *s = t; }}\n"
        );
        entries.push(Entry::text(format!("ft_carry_{ty}"), &[], text));
        let text = format!(
            "FT_INLINE {ty}x@ ft_behind_{ty}x@({ty}x@ s, {ty}x@ e, {ty}x@ x) {{ return s + (x - ({ty}x@)(({mask})e & ({mask})(e == e))); }}\n"
        );
        entries.push(Entry::text(format!("ft_behind_{ty}"), &[], text));
    }
    for ty in ["f32", "f64"] {
        let inf = if ty == "f32" {
            "__builtin_inff()"
        } else {
            "__builtin_inf()"
        };
        let least = if ty == "f32" {
            "-2147483647 - 1"
        } else {
            "-9223372036854775807L - 1"
        };
        let int = if ty == "f32" { "i32" } else { "i64" };
        for (name, test) in [
            ("isnan", "(a != a)".to_string()),
            (
                "isinf",
                format!("(({ty}x@)(({int}x@)a & ~({least})) == {inf})"),
            ),
            (
                "isfinite",
                format!("(({ty}x@)(({int}x@)a & ~({least})) < {inf})"),
            ),
        ] {
            entries.push(Entry::new(format!("ft_{name}_{ty}"), move |n, w| {
                predicate(n, ty, &test.replace('@', &w.to_string()), w)
            }));
        }
    }
    entries
}
