//! Unsigned keys in the order of values, alone and packed with positions, and their digits.

use ferrotrace_runtime::Element;
use half::{bf16, f16};

/// A type with an order in which NaN is the greatest.
pub trait Sortable: Element {
    /// Bits of a key.
    const BITS: u32;
    /// An unsigned integer of `BITS` bits of the same order; equal values have equal keys.
    fn key(self) -> u64;
    /// The value of a key; of those that share one, [`is_plain`](Sortable::is_plain) holds for it alone.
    fn of_key(key: u64) -> Self;
    /// Whether no other value has the same key: not of zeros below 0, nor of NaN.
    fn is_plain(self) -> bool;
}

macro_rules! integers {
    ($($t:ty as $u:ty),*) => {$(
        impl Sortable for $t {
            const BITS: u32 = <$t>::BITS;
            #[inline(always)]
            fn key(self) -> u64 {
                (self as $u ^ <$t>::MIN as $u) as u64
            }
            #[inline(always)]
            fn of_key(key: u64) -> $t {
                (key as $u ^ <$t>::MIN as $u) as $t
            }
            #[inline(always)]
            fn is_plain(self) -> bool {
                true
            }
        }
    )*};
}
integers!(u8 as u8, i8 as u8, i16 as u16, i32 as u32, i64 as u64);

macro_rules! floats {
    ($($t:ty as $u:ty),*) => {$(
        impl Sortable for $t {
            const BITS: u32 = <$u>::BITS;
            #[inline(always)]
            fn key(self) -> u64 {
                const SIGN: $u = 1 << (<$u>::BITS - 1);
                let bits = self.to_bits();
                let magnitude = bits & !SIGN;
                let negative = bits != magnitude;
                // −0 has the key of 0. Only NaNs have all ones: no number's magnitude does.
                let key = if negative && magnitude != 0 { !bits } else { magnitude | SIGN };
                if self != self { <$u>::MAX as u64 } else { key as u64 }
            }
            #[inline(always)]
            fn of_key(key: u64) -> $t {
                const SIGN: $u = 1 << (<$u>::BITS - 1);
                let key = key as $u;
                <$t>::from_bits(if key & SIGN != 0 { key ^ SIGN } else { !key })
            }
            #[inline(always)]
            fn is_plain(self) -> bool {
                const SIGN: $u = 1 << (<$u>::BITS - 1);
                self == self && self.to_bits() != SIGN
            }
        }
    )*};
}
floats!(f16 as u16, bf16 as u16, f32 as u32, f64 as u64);

/// What is sorted by the digits of a key.
pub(super) trait Digit: Copy + Ord + Send {
    /// The bits of the key from bit `from` on, under `mask`.
    fn digit(self, from: u32, mask: usize) -> usize;
}

impl Digit for u32 {
    #[inline(always)]
    fn digit(self, from: u32, mask: usize) -> usize {
        (self >> from) as usize & mask
    }
}

/// A key of 64 bits with nothing below it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bare(u64);

impl Digit for Bare {
    #[inline(always)]
    fn digit(self, from: u32, mask: usize) -> usize {
        (self.0 >> from) as usize & mask
    }
}

/// A key alone.
pub(super) trait Key: Digit {
    fn of(key: u64) -> Self;
    fn back(self) -> u64;
}

impl Key for u32 {
    #[inline(always)]
    fn of(key: u64) -> u32 {
        key as u32
    }
    #[inline(always)]
    fn back(self) -> u64 {
        u64::from(self)
    }
}

impl Key for Bare {
    #[inline(always)]
    fn of(key: u64) -> Bare {
        Bare(key)
    }
    #[inline(always)]
    fn back(self) -> u64 {
        self.0
    }
}

/// A key with its position below it.
pub(super) trait Pack: Digit {
    const ZERO: Self;
    fn pack(key: u64, at: u32) -> Self;
    fn at(self) -> i64;
}

impl Pack for u64 {
    const ZERO: u64 = 0;
    #[inline(always)]
    fn pack(key: u64, at: u32) -> u64 {
        key << 32 | at as u64
    }
    #[inline(always)]
    fn at(self) -> i64 {
        self as u32 as i64
    }
}

impl Digit for u64 {
    #[inline(always)]
    fn digit(self, from: u32, mask: usize) -> usize {
        (self >> (32 + from)) as usize & mask
    }
}

impl Pack for u128 {
    const ZERO: u128 = 0;
    #[inline(always)]
    fn pack(key: u64, at: u32) -> u128 {
        (key as u128) << 64 | at as u128
    }
    #[inline(always)]
    fn at(self) -> i64 {
        self as u32 as i64
    }
}

impl Digit for u128 {
    #[inline(always)]
    fn digit(self, from: u32, mask: usize) -> usize {
        ((self >> 64) as u64 >> from) as usize & mask
    }
}
