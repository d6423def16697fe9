//! The language support functions are written in: arithmetic on one lane.
//!
//! A function generic over [`Float`] is one algorithm with two texts. Run on `f32` or `f64` it is the Rust twin that
//! ready-made kernels inline; run on [`Sym`](super::trace::Sym) it records itself, and the recording is printed as
//! vector C. Every method is one IEEE operation (or an exact one on bits), so the two agree bit for bit; the payload and
//! sign of a NaN are unspecified.

use std::num::Wrapping;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

/// A truth value per lane.
pub trait Mask:
    Copy + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> + Not<Output = Self>
{
}

/// A signed integer as wide as the float it goes with; arithmetic wraps.
pub trait Int:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
{
    /// The float of the same width.
    type Float: Float<Int = Self, Mask = Self::Mask>;
    /// The result of comparisons.
    type Mask: Mask;
    /// A constant.
    fn lit(v: i64) -> Self;
    /// Shifted left.
    fn shl(self, n: u32) -> Self;
    /// Shifted right, filling with the sign.
    fn sar(self, n: u32) -> Self;
    /// Shifted right, filling with zeros.
    fn shr(self, n: u32) -> Self;
    /// Equality.
    fn eq(self, o: Self) -> Self::Mask;
    /// Signed order.
    fn lt(self, o: Self) -> Self::Mask;
    /// Signed order.
    fn gt(self, o: Self) -> Self::Mask;
    /// The bits as a float.
    fn float_bits(self) -> Self::Float;
    /// The value as a float, rounded to nearest.
    fn to_float(self) -> Self::Float;
    /// `a` where the mask is set, else `b`.
    fn sel(m: Self::Mask, a: Self, b: Self) -> Self;
    /// All bits set where the mask is.
    fn from_mask(m: Self::Mask) -> Self;
}

/// A binary32 or binary64 number.
pub trait Float:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// The integer of the same width.
    type Int: Int<Float = Self, Mask = Self::Mask>;
    /// The result of comparisons.
    type Mask: Mask;
    /// A constant, rounded to the type.
    fn lit(v: f64) -> Self;
    /// self · b + c, rounded once.
    fn fma(self, b: Self, c: Self) -> Self;
    /// The square root.
    fn sqrt(self) -> Self;
    /// The nearest integer, ties to even.
    fn rint(self) -> Self;
    /// The largest integer not above.
    fn floor(self) -> Self;
    /// The smallest integer not below.
    fn ceil(self) -> Self;
    /// The integer part.
    fn trunc(self) -> Self;
    /// `self` if self > o, else `o` (so `o` where either is NaN).
    fn max_of(self, o: Self) -> Self;
    /// `self` if self < o, else `o` (so `o` where either is NaN).
    fn min_of(self, o: Self) -> Self;
    /// self · 2ⁿ, rounded once, for integral |n| below twice the exponent range and 2⁻² < |self| < 2² or NaN.
    fn scale(self, n: Self) -> Self;
    /// Order and equality, false where either is NaN (`ne`: true).
    fn lt(self, o: Self) -> Self::Mask;
    /// See [`lt`](Self::lt).
    fn le(self, o: Self) -> Self::Mask;
    /// See [`lt`](Self::lt).
    fn gt(self, o: Self) -> Self::Mask;
    /// See [`lt`](Self::lt).
    fn ge(self, o: Self) -> Self::Mask;
    /// See [`lt`](Self::lt).
    fn eq(self, o: Self) -> Self::Mask;
    /// See [`lt`](Self::lt).
    fn ne(self, o: Self) -> Self::Mask;
    /// The bits.
    fn bits(self) -> Self::Int;
    /// `a` where the mask is set, else `b`.
    fn sel(m: Self::Mask, a: Self, b: Self) -> Self;
    /// `self` where the mask is set, else +0.
    fn where_set(self, m: Self::Mask) -> Self;
    /// The value of `f` where the mask is set, else the default; vector code skips `f` where no lane needs it.
    fn rare(
        m: Self::Mask,
        default: (Self, Self::Int),
        f: impl FnOnce() -> (Self, Self::Int),
    ) -> (Self, Self::Int);

    /// The sign bit alone.
    #[inline(always)]
    fn sign_bit(self) -> Self::Int {
        self.bits() & (-Self::lit(0.0)).bits()
    }
    /// The magnitude.
    #[inline(always)]
    fn abs(self) -> Self {
        (self.bits() & !(-Self::lit(0.0)).bits()).float_bits()
    }
    /// The magnitude of self (which has no sign) with this sign bit.
    #[inline(always)]
    fn or_sign(self, sign: Self::Int) -> Self {
        (self.bits() | sign).float_bits()
    }
    /// The sign flipped by this sign bit.
    #[inline(always)]
    fn xor_sign(self, sign: Self::Int) -> Self {
        (self.bits() ^ sign).float_bits()
    }
    /// Whether the value is NaN.
    #[inline(always)]
    fn is_nan(self) -> Self::Mask {
        self.ne(self)
    }
}

/// What binary32 has besides: conversions to binary64 and a table of them.
pub trait Float32: Float {
    /// Binary64.
    type Wide: Float;
    /// The same value in binary64.
    fn widen(self) -> Self::Wide;
    /// The value rounded to binary32.
    fn narrow(w: Self::Wide) -> Self;
    /// The low half of an integer of 64 bits.
    fn narrow_int(w: <Self::Wide as Float>::Int) -> Self::Int;
    /// The entries of the table at `index`, which lies within it.
    fn table(name: &'static str, values: &'static [f64; 128], index: Self::Int) -> Self::Wide;
}

/// `Σ c[i]·xⁱ` by Horner's rule, lowest power first.
#[inline(always)]
pub fn horner<F: Float, const N: usize>(x: F, c: [f64; N]) -> F {
    let mut p = F::lit(c[N - 1]);
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        p = p.fma(x, F::lit(c[i]));
    }
    p
}

/// Horner's rule carried on from the value `p` of the higher terms.
#[inline(always)]
pub fn horner_from<F: Float, const N: usize>(mut p: F, x: F, c: [f64; N]) -> F {
    let mut i = N;
    while i > 0 {
        i -= 1;
        p = p.fma(x, F::lit(c[i]));
    }
    p
}

impl Mask for bool {}

macro_rules! lane {
    ($f:ident, $i:ident, $u:ident, $magic:expr, $mantissa:expr, $bias:expr, |$m:ident, $d:ident, $g:ident| $rare:expr) => {
        impl Int for Wrapping<$i> {
            type Float = $f;
            type Mask = bool;
            #[inline(always)]
            fn lit(v: i64) -> Self {
                Wrapping(v as $i)
            }
            #[inline(always)]
            fn shl(self, n: u32) -> Self {
                Wrapping(self.0.wrapping_shl(n))
            }
            #[inline(always)]
            fn sar(self, n: u32) -> Self {
                Wrapping(self.0.wrapping_shr(n))
            }
            #[inline(always)]
            fn shr(self, n: u32) -> Self {
                Wrapping((self.0 as $u).wrapping_shr(n) as $i)
            }
            #[inline(always)]
            fn eq(self, o: Self) -> bool {
                self.0 == o.0
            }
            #[inline(always)]
            fn lt(self, o: Self) -> bool {
                self.0 < o.0
            }
            #[inline(always)]
            fn gt(self, o: Self) -> bool {
                self.0 > o.0
            }
            #[inline(always)]
            fn float_bits(self) -> $f {
                $f::from_bits(self.0 as $u)
            }
            #[inline(always)]
            fn to_float(self) -> $f {
                self.0 as $f
            }
            #[inline(always)]
            fn sel(m: bool, a: Self, b: Self) -> Self {
                if m { a } else { b }
            }
            #[inline(always)]
            fn from_mask(m: bool) -> Self {
                Wrapping(-(m as $i))
            }
        }

        impl Float for $f {
            type Int = Wrapping<$i>;
            type Mask = bool;
            #[inline(always)]
            fn lit(v: f64) -> Self {
                v as $f
            }
            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $f::sqrt(self)
            }
            #[inline(always)]
            fn rint(self) -> Self {
                self.round_ties_even()
            }
            #[inline(always)]
            fn floor(self) -> Self {
                $f::floor(self)
            }
            #[inline(always)]
            fn ceil(self) -> Self {
                $f::ceil(self)
            }
            #[inline(always)]
            fn trunc(self) -> Self {
                $f::trunc(self)
            }
            #[inline(always)]
            fn max_of(self, o: Self) -> Self {
                if self > o { self } else { o }
            }
            #[inline(always)]
            fn min_of(self, o: Self) -> Self {
                if self < o { self } else { o }
            }
            #[inline(always)]
            fn scale(self, n: Self) -> Self {
                // Two factors, so that the last product alone rounds and neither factor leaves the normal range.
                let magic: $f = $magic;
                let n = Wrapping((n + magic).to_bits() as $i) - Wrapping(magic.to_bits() as $i);
                let low = n.sar(1);
                let power = |k: Wrapping<$i>| (k + Wrapping($bias)).shl($mantissa).float_bits();
                self * power(low) * power(n - low)
            }
            #[inline(always)]
            fn lt(self, o: Self) -> bool {
                self < o
            }
            #[inline(always)]
            fn le(self, o: Self) -> bool {
                self <= o
            }
            #[inline(always)]
            fn gt(self, o: Self) -> bool {
                self > o
            }
            #[inline(always)]
            fn ge(self, o: Self) -> bool {
                self >= o
            }
            #[inline(always)]
            fn eq(self, o: Self) -> bool {
                self == o
            }
            #[inline(always)]
            fn ne(self, o: Self) -> bool {
                self != o
            }
            #[inline(always)]
            fn bits(self) -> Wrapping<$i> {
                Wrapping(self.to_bits() as $i)
            }
            #[inline(always)]
            fn sel(m: bool, a: Self, b: Self) -> Self {
                if m { a } else { b }
            }
            #[inline(always)]
            fn where_set(self, m: bool) -> Self {
                if m { self } else { 0.0 }
            }
            #[inline(always)]
            fn rare(
                $m: bool,
                $d: (Self, Wrapping<$i>),
                $g: impl FnOnce() -> (Self, Wrapping<$i>),
            ) -> (Self, Wrapping<$i>) {
                $rare
            }
        }
    };
}

// In binary32 the rare case is computed always, so that loops have no branch; in binary64 that would cost too much.
lane!(f32, i32, u32, 12582912.0, 23, 127, |m, default, f| {
    let value = f();
    if m { value } else { default }
});
lane!(
    f64,
    i64,
    u64,
    6755399441055744.0,
    52,
    1023,
    |m, default, f| if m { f() } else { default }
);

impl Float32 for f32 {
    type Wide = f64;
    #[inline(always)]
    fn widen(self) -> f64 {
        self as f64
    }
    #[inline(always)]
    fn narrow(w: f64) -> f32 {
        w as f32
    }
    #[inline(always)]
    fn narrow_int(w: Wrapping<i64>) -> Wrapping<i32> {
        Wrapping(w.0 as i32)
    }
    #[inline(always)]
    fn table(_: &'static str, values: &'static [f64; 128], index: Wrapping<i32>) -> f64 {
        values[(index.0 & 127) as usize]
    }
}
