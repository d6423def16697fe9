//! Integer operators, with a result for every operand: x / 0 = 0, x mod 0 = x, MIN / −1 wraps, shifts by the width or
//! more give the fill.

use super::{Definition, Entry, need};
use ferrotrace_runtime::DType;

/// An integer element: the Rust twins of `ft_{operator}_{dtype}xW`.
pub trait Integer: Copy + PartialOrd {
    /// The magnitude; the least integer wraps to itself.
    fn abs(self) -> Self;
    /// −x, wrapping.
    fn neg(self) -> Self;
    /// −1, 0 or 1.
    fn sign(self) -> Self;
    /// x · x, wrapping.
    fn square(self) -> Self;
    /// The larger of x and 0.
    fn relu(self) -> Self;
    /// ⌊a / b⌋.
    fn floor_divide(self, b: Self) -> Self;
    /// a − b·⌊a / b⌋.
    fn remainder(self, b: Self) -> Self;
    /// The remainder of the truncated quotient.
    fn fmod(self, b: Self) -> Self;
    /// aᵇ, wrapping; 0 for a negative exponent but of the bases 1 and −1.
    fn pow(self, b: Self) -> Self;
    /// a shifted left; 0 where b is negative or not below the width.
    fn shl(self, b: Self) -> Self;
    /// a shifted right; the sign where b is negative or not below the width.
    fn shr(self, b: Self) -> Self;
    /// The greatest common divisor of magnitudes, which wraps.
    fn gcd(self, b: Self) -> Self;
}

/// The greatest common divisor: the difference of two odd numbers is even, and its factors of 2 are none of it.
#[inline(always)]
fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    if a == 0 || b == 0 {
        return a | b;
    }
    let twos = (a | b).trailing_zeros();
    a >>= a.trailing_zeros();
    while b != 0 {
        b >>= b.trailing_zeros();
        (a, b) = (a.min(b), a.abs_diff(b));
    }
    a << twos
}

macro_rules! integer {
    ($($t:ident $signed:literal)*) => {$(
        #[allow(unused_comparisons)]
        impl Integer for $t {
            #[inline(always)]
            fn abs(self) -> $t {
                if self < 0 { (0 as $t).wrapping_sub(self) } else { self }
            }
            #[inline(always)]
            fn neg(self) -> $t {
                (0 as $t).wrapping_sub(self)
            }
            #[inline(always)]
            fn sign(self) -> $t {
                ((self > 0) as $t).wrapping_sub((self < 0) as $t)
            }
            #[inline(always)]
            fn square(self) -> $t {
                self.wrapping_mul(self)
            }
            #[inline(always)]
            fn relu(self) -> $t {
                if self > 0 { self } else { 0 }
            }
            #[inline(always)]
            fn floor_divide(self, b: $t) -> $t {
                if b == 0 {
                    return 0;
                }
                let (q, r) = (self.wrapping_div(b), self.wrapping_rem(b));
                q.wrapping_sub((r != 0 && (r < 0) != (b < 0)) as $t)
            }
            #[inline(always)]
            fn remainder(self, b: $t) -> $t {
                if b == 0 {
                    return self;
                }
                let r = self.wrapping_rem(b);
                if r != 0 && (r < 0) != (b < 0) { r.wrapping_add(b) } else { r }
            }
            #[inline(always)]
            fn fmod(self, b: $t) -> $t {
                if b == 0 { self } else { self.wrapping_rem(b) }
            }
            #[inline(always)]
            fn pow(self, b: $t) -> $t {
                if b < 0 {
                    let odd = b & 1 != 0;
                    return if self == 1 {
                        1
                    } else if $signed && self == (0 as $t).wrapping_sub(1) {
                        if odd { self } else { 1 }
                    } else {
                        0
                    };
                }
                let (mut result, mut base, mut e): ($t, $t, $t) = (1, self, b);
                while e > 0 {
                    if e & 1 != 0 {
                        result = result.wrapping_mul(base);
                    }
                    base = base.wrapping_mul(base);
                    e >>= 1;
                }
                result
            }
            #[inline(always)]
            fn shl(self, b: $t) -> $t {
                if b >= 0 && (b as u64) < $t::BITS as u64 { self.wrapping_shl(b as u32) } else { 0 }
            }
            #[inline(always)]
            fn shr(self, b: $t) -> $t {
                let fill = if self < 0 { (0 as $t).wrapping_sub(1) } else { 0 };
                if b >= 0 && (b as u64) < $t::BITS as u64 { self.wrapping_shr(b as u32) } else { fill }
            }
            #[inline(always)]
            fn gcd(self, b: $t) -> $t {
                let [a, b] = [self, b].map(|x| (x as i64).unsigned_abs());
                common_divisor(a, b) as $t
            }
        }
    )*};
}

integer!(u8 false i8 true i16 true i32 true i64 true);

/// A function computed lane by lane, `r` from `x` and `y` of the scalar type.
fn lanewise(name: &str, dtype: DType, lanes: usize, body: &str) -> Definition {
    let (ty, c) = (dtype.name(), c_scalar(dtype));
    let text = format!(
        "FT_INLINE {ty}x{lanes} {name}x{lanes}({ty}x{lanes} a, {ty}x{lanes} b) {{\n  {ty}x{lanes} v;\n  \
         for (int i = 0; i < {lanes}; i++) {{\n    {c} x = a[i], y = b[i], r;\n{body}    v[i] = r;\n  }}\n  return v;\n}}\n"
    );
    Definition {
        deps: vec![need("types", lanes)],
        text,
    }
}

fn c_scalar(dtype: DType) -> &'static str {
    match dtype {
        DType::U8 => "unsigned char",
        DType::I8 => "signed char",
        DType::I16 => "short",
        DType::I32 => "int",
        _ => "long",
    }
}

/// [`common_divisor`] of the magnitudes of `x` and `y`.
const GCD: &str = "    unsigned long p = x < 0 ? 0ul - (unsigned long)x : (unsigned long)x, q = y < 0 ? 0ul - (unsigned long)y : (unsigned long)y;
    if (p == 0 || q == 0) r = p | q;
    else {
      int twos = __builtin_ctzl(p | q);
      p >>= __builtin_ctzl(p);
      while (q) {
        q >>= __builtin_ctzl(q);
        unsigned long by = q - p, less = 0ul - (unsigned long)(q < p);
        p += by & less;
        q = (by ^ less) - less;
      }
      r = p << twos;
    }
";

/// A function of a quotient, of vectors: floats divide integers below 2¹⁶ and doubles those below 2⁵³, for the rounded
/// quotient of such is an integer only where the exact one is. `result` is an expression of the truncated quotient `q`, 0
/// for a divisor of 0, the rest `m`, and `down`, −1 where the floor lies below `q`. Other integers and few lanes take `body`,
/// lane by lane.
fn divided(name: &str, dtype: DType, lanes: usize, body: &str, result: &str) -> Definition {
    let mut definition = lanewise(name, dtype, lanes, body);
    if lanes < 4 {
        return definition;
    }
    let (within, float) = match dtype {
        DType::I64 => (DType::I64, "f64"),
        DType::I32 => (DType::I32, "f64"),
        _ => (DType::I32, "f32"),
    };
    let ty = format!("{}x{lanes}", within.name());
    let quotient = format!(
        "T none = (T)(b == 0), minus = (T)(b == -1), y = (b | none | minus) & ~((none | minus) & -2);\n  \
         T q = __builtin_convertvector(__builtin_convertvector(a, {float}x{lanes}) / __builtin_convertvector(y, {float}x{lanes}), T);\n  \
         q = ((q ^ minus) - minus) & ~none;\n  \
         T m = a - q * b, down = (T)(m != 0) & ~none & ((a ^ b) >> {});\n",
        within.size() * 8 - 1
    );
    let (head, rest) = definition.text.split_once('\n').unwrap_or_default();
    let text = match dtype {
        DType::I64 => {
            definition.deps.push(need("ft_any_i64", lanes));
            let far = |x: &str| format!("(T)((u64x{lanes})({x} + (1L << 53)) > (1UL << 54))");
            format!(
                "{head}\n#if defined(FT_AVX512)\n  if (!ft_any_i64x{lanes}({} | {})) {{\n  {quotient}  return {result};\n  \
                 }}\n#endif\n{rest}",
                far("a"),
                far("b")
            )
        }
        DType::I32 => format!("{head}\n  {quotient}  return {result};\n}}\n"),
        narrow => {
            let (wider, back) = (
                format!("ft_cast_{narrow}_i32"),
                format!("ft_cast_i32_{narrow}"),
            );
            let head = head.replace(" a,", " given,").replace(" b)", " by)");
            let text = format!(
                "{head}\n  T a = {wider}x{lanes}(given), b = {wider}x{lanes}(by);\n  {quotient}  \
                 return {back}x{lanes}({result});\n}}\n"
            );
            definition
                .deps
                .extend([need(&wider, lanes), need(&back, lanes)]);
            text
        }
    };
    definition.text = text
        .replace("T ", &format!("{ty} "))
        .replace("(T)", &format!("({ty})"))
        .replace(", T)", &format!(", {ty})"));
    definition
}

/// An expression of the vectors `a` and `b` (text with `@` for the lanes, `T` for the type, `M` for its mask type).
fn vector(name: &str, dtype: DType, lanes: usize, args: &str, expression: &str) -> Definition {
    let ty = format!("{}x{lanes}", dtype.name());
    let mask = if dtype == DType::U8 {
        format!("i8x{lanes}")
    } else {
        ty.clone()
    };
    let list: Vec<String> = args.split(',').map(|a| format!("{ty} {a}")).collect();
    let value = expression.replace('T', &ty).replace('M', &mask);
    let text = format!(
        "FT_INLINE {ty} {name}x{lanes}({}) {{ return {value}; }}\n",
        list.join(", ")
    );
    Definition {
        deps: vec![need("types", lanes)],
        text,
    }
}

pub(super) fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    for dtype in [DType::U8, DType::I8, DType::I16, DType::I32, DType::I64] {
        let signed = dtype != DType::U8;
        let bits = dtype.size() * 8;
        // −1 mod the width is no divisor that traps: the quotient by it is 0 − x, the remainder 0.
        let minus = if signed { "y == -1" } else { "0" };
        let floor = if signed {
            "(m != 0 && (m < 0) != (y < 0))"
        } else {
            "0"
        };
        let quotient = format!(
            "    if (y == 0) r = 0;\n    else if ({minus}) r = 0 - x;\n    else {{ \
             __typeof__(x) m = x % y; r = x / y - {floor}; }}\n"
        );
        let remainder = format!(
            "    if (y == 0) r = x;\n    else if ({minus}) r = 0;\n    else {{ __typeof__(x) m = x % y; r = {floor} ? m + y : \
             m; }}\n"
        );
        let fmod =
            format!("    if (y == 0) r = x;\n    else if ({minus}) r = 0;\n    else r = x % y;\n");
        let negative = if signed {
            "x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0"
        } else {
            "0"
        };
        let pow = format!(
            "    if (y < 0) r = {negative};\n    else for (r = 1; y > 0; y >>= 1) {{\n      \
             if (y & 1) r = r * x;\n      x = x * x;\n    }}\n"
        );
        for (stem, body, result) in [
            ("floor_divide", quotient, "q + down"),
            ("remainder", remainder, "m + (b & down)"),
            ("fmod", fmod, "m"),
        ] {
            entries.push(Entry::new(format!("ft_{stem}_{dtype}"), move |n, w| {
                divided(n, dtype, w, &body, result)
            }));
        }
        entries.push(Entry::new(format!("ft_pow_{dtype}"), move |n, w| {
            lanewise(n, dtype, w, &pow)
        }));
        entries.push(Entry::new(format!("ft_gcd_{dtype}"), move |n, w| {
            lanewise(n, dtype, w, GCD)
        }));
        let inside = if signed {
            format!("((M)(b >= 0) & (M)(b < {bits}))")
        } else {
            format!("(M)(b < {bits})")
        };
        let last = bits - 1;
        let expressions: [(&str, &str, String); 8] = [
            (
                "abs",
                "a",
                if signed {
                    "(a ^ (a >> L)) - (a >> L)".replace('L', &last.to_string())
                } else {
                    "a".into()
                },
            ),
            (
                "sign",
                "a",
                if signed {
                    "(T)(a < 0) - (T)(a > 0)".into()
                } else {
                    "(T)((M)(a != 0) & 1)".into()
                },
            ),
            ("square", "a", "a * a".into()),
            (
                "relu",
                "a",
                if signed {
                    "a & (T)(a > 0)".into()
                } else {
                    "a".into()
                },
            ),
            (
                "maximum",
                "a,b",
                "(T)(((T)(a > b) & a) | (~(T)(a > b) & b))".into(),
            ),
            (
                "minimum",
                "a,b",
                "(T)(((T)(a < b) & a) | (~(T)(a < b) & b))".into(),
            ),
            ("shl", "a,b", format!("(a << (b & {last})) & (T){inside}")),
            (
                "shr",
                "a,b",
                if signed {
                    format!("((a >> (b & {last})) & {inside}) | ((a >> {last}) & ~{inside})")
                } else {
                    format!("(a >> (b & {last})) & (T){inside}")
                },
            ),
        ];
        for (stem, args, expression) in expressions {
            entries.push(Entry::new(format!("ft_{stem}_{dtype}"), move |n, w| {
                vector(n, dtype, w, args, &expression)
            }));
        }
    }
    entries
}
