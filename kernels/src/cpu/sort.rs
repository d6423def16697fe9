//! Positions that sort rows.
//!
//! An element becomes an unsigned key of the same order, packed with its position below it: sorting the packs is
//! stable by construction, for any algorithm. Long rows are sorted by radix, least digit first, without the digits
//! all keys share.

use super::dense::rows;
use ferrotrace_runtime::Element;
use half::{bf16, f16};

/// Rows shorter than this are sorted by comparison.
const RADIX: usize = 192;
/// From this length on, 11-bit digits cost less than 8-bit ones.
const WIDE_DIGITS: usize = 1 << 14;

/// A type with an order in which NaN is the greatest.
pub trait Sortable: Element {
    /// Bits of a key.
    const BITS: u32;
    /// An unsigned integer of `BITS` bits of the same order; equal values have equal keys.
    fn key(self) -> u64;
}

macro_rules! integers {
    ($($t:ty as $u:ty),*) => {$(
        impl Sortable for $t {
            const BITS: u32 = <$t>::BITS;
            #[inline(always)]
            fn key(self) -> u64 {
                (self as $u ^ <$t>::MIN as $u) as u64
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
        }
    )*};
}
floats!(f16 as u16, bf16 as u16, f32 as u32, f64 as u64);

/// A key with its position below it.
trait Pack: Copy + Ord + Send {
    const ZERO: Self;
    const KEY: u32;
    fn pack(key: u64, at: u32) -> Self;
    fn at(self) -> i64;
    fn digit(self, from: u32, mask: usize) -> usize;
}

impl Pack for u64 {
    const ZERO: u64 = 0;
    const KEY: u32 = 32;
    #[inline(always)]
    fn pack(key: u64, at: u32) -> u64 {
        key << 32 | at as u64
    }
    #[inline(always)]
    fn at(self) -> i64 {
        self as u32 as i64
    }
    #[inline(always)]
    fn digit(self, from: u32, mask: usize) -> usize {
        (self >> (32 + from)) as usize & mask
    }
}

impl Pack for u128 {
    const ZERO: u128 = 0;
    const KEY: u32 = 64;
    #[inline(always)]
    fn pack(key: u64, at: u32) -> u128 {
        (key as u128) << 64 | at as u128
    }
    #[inline(always)]
    fn at(self) -> i64 {
        self as u32 as i64
    }
    #[inline(always)]
    fn digit(self, from: u32, mask: usize) -> usize {
        ((self >> 64) as u64 >> from) as usize & mask
    }
}

fn flip<T: Sortable>(descending: bool) -> u64 {
    if descending { u64::MAX >> (64 - T::BITS) } else { 0 }
}

/// Writes the positions that sort each row of `len` elements.
pub fn argsort<T: Sortable>(x: &[T], out: &mut [i64], len: usize, descending: bool) {
    if T::BITS <= 32 {
        argsort_packed::<T, u64>(x, out, len, descending);
    } else {
        argsort_packed::<T, u128>(x, out, len, descending);
    }
}

fn argsort_packed<T: Sortable, P: Pack>(x: &[T], out: &mut [i64], len: usize, descending: bool) {
    let flip = flip::<T>(descending);
    rows(out, len, len * 16, |first, out| {
        let mut packs = vec![P::ZERO; len];
        let mut spare = vec![P::ZERO; if len < RADIX { 0 } else { len }];
        let mut counts = Vec::new();
        for (r, out) in out.chunks_exact_mut(len).enumerate() {
            let x = &x[(first + r) * len..][..len];
            for (i, (pack, x)) in packs.iter_mut().zip(x).enumerate() {
                *pack = P::pack(x.key() ^ flip, i as u32);
            }
            if len < RADIX {
                packs.sort_unstable();
            } else if len < WIDE_DIGITS {
                radix::<P, 8>(&mut packs, &mut spare, &mut counts, T::BITS);
            } else {
                radix::<P, 11>(&mut packs, &mut spare, &mut counts, T::BITS);
            }
            for (out, pack) in out.iter_mut().zip(&packs) {
                *out = pack.at();
            }
        }
    });
}

/// Sorts `packs` by the lowest `bits` bits of their keys, in digits of `D` bits.
fn radix<P: Pack, const D: u32>(
    packs: &mut Vec<P>,
    spare: &mut Vec<P>,
    counts: &mut Vec<u32>,
    bits: u32,
) {
    let (size, mask) = (1usize << D, (1usize << D) - 1);
    let digits = bits.min(P::KEY).div_ceil(D);
    counts.clear();
    counts.resize(size * digits as usize, 0);
    for pack in packs.iter() {
        for d in 0..digits {
            counts[d as usize * size + pack.digit(d * D, mask)] += 1;
        }
    }
    for (d, counts) in counts.chunks_exact_mut(size).enumerate() {
        let from = d as u32 * D;
        let shared = counts[packs[0].digit(from, mask)] as usize == packs.len();
        if shared {
            continue;
        }
        let mut start = 0;
        for count in counts.iter_mut() {
            start += std::mem::replace(count, start);
        }
        for pack in packs.iter() {
            let at = &mut counts[pack.digit(from, mask)];
            spare[*at as usize] = *pack;
            *at += 1;
        }
        std::mem::swap(packs, spare);
    }
}

/// Writes the positions of the `k` greatest (or least) elements of each row of `len`, in order.
pub fn topk<T: Sortable>(x: &[T], out: &mut [i64], len: usize, k: usize, largest: bool) {
    if k == len {
        argsort::<T>(x, out, len, largest);
    } else if T::BITS <= 32 {
        topk_packed::<T, u64>(x, out, len, k, largest);
    } else {
        topk_packed::<T, u128>(x, out, len, k, largest);
    }
}

fn topk_packed<T: Sortable, P: Pack>(x: &[T], out: &mut [i64], len: usize, k: usize, largest: bool) {
    let flip = flip::<T>(largest);
    rows(out, k, len * 4, |first, out| {
        let mut packs = vec![P::ZERO; len];
        for (r, out) in out.chunks_exact_mut(k).enumerate() {
            let x = &x[(first + r) * len..][..len];
            for (i, (pack, x)) in packs.iter_mut().zip(x).enumerate() {
                *pack = P::pack(x.key() ^ flip, i as u32);
            }
            packs.select_nth_unstable(k - 1);
            packs[..k].sort_unstable();
            for (out, pack) in out.iter_mut().zip(&packs) {
                *out = pack.at();
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering;

    fn noise(n: usize) -> Vec<u64> {
        let mut state = 0x9e3779b97f4a7c15u64;
        (0..n)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state
            })
            .collect()
    }

    fn order(a: f64, b: f64) -> Ordering {
        a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
    }

    fn check<T: Sortable>(x: &[T], value: impl Fn(T) -> f64, len: usize) {
        for descending in [false, true] {
            let mut out = vec![0; x.len()];
            argsort(x, &mut out, len, descending);
            for (x, got) in x.chunks(len).zip(out.chunks(len)) {
                let mut want: Vec<i64> = (0..len as i64).collect();
                want.sort_by(|&a, &b| {
                    let order = order(value(x[a as usize]), value(x[b as usize]));
                    if descending { order.reverse() } else { order }
                });
                assert_eq!(got, want);
                let k = len / 3 + 1;
                let mut best = vec![0; k];
                topk(x, &mut best, len, k, descending);
                assert_eq!(best, want[..k]);
            }
        }
    }

    #[test]
    fn every_type_and_algorithm() {
        for len in [1, 7, RADIX, 1000, WIDE_DIGITS + 3] {
            let bits = noise(2 * len);
            let few = |b: u64| (b % 100) as f64 - 50.0;
            let floats: Vec<f32> = bits.iter().map(|&b| f32::from_bits(b as u32)).collect();
            check(&floats, |v| v as f64, len);
            let ties: Vec<f64> = bits.iter().map(|&b| few(b) * 1e200).collect();
            check(&ties, |v| v, len);
            let halves: Vec<f16> = bits.iter().map(|&b| f16::from_bits(b as u16)).collect();
            check(&halves, |v| v.to_f64(), len);
            let bfloats: Vec<bf16> = bits.iter().map(|&b| bf16::from_bits(b as u16)).collect();
            check(&bfloats, |v| v.to_f64(), len);
            let ints: Vec<i32> = bits.iter().map(|&b| b as i32).collect();
            check(&ints, |v| v as f64, len);
            let small: Vec<i64> = bits.iter().map(|&b| few(b) as i64).collect();
            check(&small, |v| v as f64, len);
            check(&bits.iter().map(|&b| b as i16).collect::<Vec<_>>(), |v| v as f64, len);
            check(&bits.iter().map(|&b| b as i8).collect::<Vec<_>>(), |v| v as f64, len);
            check(&bits.iter().map(|&b| b as u8 & 1).collect::<Vec<_>>(), |v| v as f64, len);
        }
    }

    #[test]
    fn extremes_keep_their_order() {
        let x = [f64::NAN, 1.0, f64::INFINITY, -0.0, 0.0, f64::NEG_INFINITY, -f64::NAN, f64::MAX];
        let mut out = [0; 8];
        argsort(&x, &mut out, 8, false);
        assert_eq!(out, [5, 3, 4, 1, 7, 2, 0, 6]);
        argsort(&x, &mut out, 8, true);
        assert_eq!(out, [0, 6, 2, 7, 1, 3, 4, 5]);
        let x = [i64::MIN, i64::MAX, 0, i64::MAX - 1];
        let mut out = [0; 4];
        argsort(&x, &mut out, 4, false);
        assert_eq!(out, [0, 2, 3, 1]);
    }
}
