//! Positions that sort rows.
//!
//! An element becomes an unsigned key of the same order, packed with its position below it: sorting the packs is
//! stable by construction, for any algorithm. Long rows are sorted by radix, least digit first, without the digits
//! all keys share.

mod keys;

use super::dense::rows;
use super::isa::{Loop, dispatch};
pub use keys::Sortable;
use keys::{Bare, Digit, Key, Pack};

/// Rows shorter than this are sorted by comparison.
const RADIX: usize = 256;
/// Up to this length a position and what remains of a 32-bit key after a first digit fit 32 bits.
const SHORT: usize = 1 << 14;
/// Bits of a digit.
const DIGIT: u32 = 11;

fn flip<T: Sortable>(descending: bool) -> u64 {
    if descending {
        u64::MAX >> (64 - T::BITS)
    } else {
        0
    }
}

/// Writes the positions that sort each row of `len` elements.
pub fn argsort<T: Sortable>(x: &[T], out: &mut [i64], len: usize, descending: bool) {
    if T::BITS > 32 {
        argsort_packed::<T, u128>(x, out, len, descending);
    } else if (RADIX..=SHORT).contains(&len) {
        argsort_short(x, out, len, descending);
    } else {
        argsort_packed::<T, u64>(x, out, len, descending);
    }
}

/// How keys of rows of at most [`SHORT`] elements are cut into digits, the lowest first.
#[derive(Clone, Copy)]
struct Digits {
    /// Bits of a position.
    position: u32,
    /// Bits of the first digit: at least those of a position, so that the rest of the key fits beside one.
    first: u32,
    /// Bits of a further digit, and how many there are.
    next: u32,
    count: u32,
}

impl Digits {
    fn new(bits: u32, len: usize) -> Digits {
        let position = usize::BITS - (len - 1).leading_zeros();
        let first = position.max(DIGIT).min(bits);
        let count = (bits - first).div_ceil(DIGIT);
        let next = (bits - first).div_ceil(count.max(1));
        Digits {
            position,
            first,
            next,
            count,
        }
    }
}

fn argsort_short<T: Sortable>(x: &[T], out: &mut [i64], len: usize, descending: bool) {
    let flip = flip::<T>(descending) as u32;
    let digits = Digits::new(T::BITS, len);
    rows(out, len, len * 16, |first, out| {
        let mut keys = vec![0u32; len];
        let (mut packs, mut spare) = (vec![0u32; len], vec![0u32; len]);
        let mut counts = vec![0u32; (1 << digits.first) + ((digits.count as usize) << digits.next)];
        for (r, out) in out.chunks_exact_mut(len).enumerate() {
            for (key, x) in keys.iter_mut().zip(&x[(first + r) * len..][..len]) {
                *key = x.key() as u32 ^ flip;
            }
            counts.fill(0);
            let (low, high) = counts.split_at_mut(1 << digits.first);
            count_digits(&keys, low, high, digits);
            place_first(&keys, low, &mut packs, digits);
            for (d, counts) in high.chunks_exact_mut(1 << digits.next).enumerate() {
                let from = digits.position + d as u32 * digits.next;
                place_next(&packs, counts, &mut spare, from);
                std::mem::swap(&mut packs, &mut spare);
            }
            let mask = (1u32 << digits.position) - 1;
            for (out, pack) in out.iter_mut().zip(&packs) {
                *out = (pack & mask) as i64;
            }
        }
    });
}

/// Counts each digit of each key, and turns the counts of each digit into the places where its values start.
fn count_digits(keys: &[u32], low: &mut [u32], high: &mut [u32], digits: Digits) {
    let (first, next) = ((low.len() - 1) as u32, (1u32 << digits.next) - 1);
    // A key of 32 bits has at most two digits past the first.
    match digits.count {
        0 => keys.iter().for_each(|key| low[(key & first) as usize] += 1),
        1 => {
            for key in keys {
                low[(key & first) as usize] += 1;
                high[(key >> digits.first & next) as usize] += 1;
            }
        }
        _ => {
            let (second, third) = high.split_at_mut(1 << digits.next);
            for key in keys {
                let rest = key >> digits.first;
                low[(key & first) as usize] += 1;
                second[(rest & next) as usize] += 1;
                third[(rest >> digits.next & next) as usize] += 1;
            }
        }
    }
    let starts = |counts: &mut [u32]| {
        let mut start = 0;
        for count in counts {
            start += std::mem::replace(count, start);
        }
    };
    starts(low);
    high.chunks_exact_mut(1 << digits.next).for_each(starts);
}

/// Places each position, below the rest of its key, by the first digit.
fn place_first(keys: &[u32], starts: &mut [u32], packs: &mut [u32], digits: Digits) {
    assert!(packs.len() == keys.len());
    let mask = (starts.len() - 1) as u32;
    for (i, &key) in keys.iter().enumerate() {
        let rest = if digits.count > 0 {
            key >> digits.first
        } else {
            0
        };
        let at = &mut starts[(key & mask) as usize];
        // SAFETY: starts are sums of the digits' counts, so each key's place is below their number.
        unsafe { *packs.get_unchecked_mut(*at as usize) = rest << digits.position | i as u32 };
        *at += 1;
    }
}

/// Places each pack by the digit at bit `from`.
fn place_next(packs: &[u32], starts: &mut [u32], to: &mut [u32], from: u32) {
    assert!(packs.len() == to.len());
    let mask = (starts.len() - 1) as u32;
    for &pack in packs {
        let at = &mut starts[(pack >> from & mask) as usize];
        // SAFETY: starts are sums of the digits' counts, so each pack's place is below their number.
        unsafe { *to.get_unchecked_mut(*at as usize) = pack };
        *at += 1;
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
            } else {
                radix(&mut packs, &mut spare, &mut counts, T::BITS);
            }
            for (out, pack) in out.iter_mut().zip(&packs) {
                *out = pack.at();
            }
        }
    });
}

/// Writes each row of `len` elements in order, equal ones as they stood.
pub fn sort<T: Sortable>(x: &[T], out: &mut [T], len: usize, descending: bool) {
    match T::BITS {
        64 => sort_keys::<T, Bare, 8>(x, out, len, descending),
        32 => sort_keys::<T, u32, 4>(x, out, len, descending),
        16 => sort_keys::<T, u32, 2>(x, out, len, descending),
        _ => sort_keys::<T, u32, 1>(x, out, len, descending),
    }
}

fn sort_keys<T: Sortable, K: Key, const BYTES: usize>(
    x: &[T],
    out: &mut [T],
    len: usize,
    descending: bool,
) {
    let flip = flip::<T>(descending);
    rows(out, len, len * 16, |first, out| {
        let mut keys = vec![K::of(0); len];
        let mut spare = vec![K::of(0); if len < RADIX { 0 } else { len }];
        let mut order = Vec::new();
        for (r, out) in out.chunks_exact_mut(len).enumerate() {
            let x = &x[(first + r) * len..][..len];
            let plain = dispatch(ToKeys {
                x,
                keys: &mut keys,
                flip,
            });
            if !plain {
                // Values that share a key are told apart by their positions.
                order.resize(len, 0);
                argsort(x, &mut order, len, descending);
                for (out, &at) in out.iter_mut().zip(&order) {
                    *out = x[at as usize];
                }
                continue;
            }
            if len < RADIX {
                keys.sort_unstable();
            } else {
                bytewise::<K, BYTES>(&mut keys, &mut spare);
            }
            dispatch(FromKeys {
                keys: &keys,
                out,
                flip,
            });
        }
    });
}

/// Makes keys of values; whether all values are plain.
struct ToKeys<'a, T, K> {
    x: &'a [T],
    keys: &'a mut [K],
    flip: u64,
}

impl<T: Sortable, K: Key> Loop for ToKeys<'_, T, K> {
    type Output = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let mut plain = true;
        for (key, x) in self.keys.iter_mut().zip(self.x) {
            plain &= x.is_plain();
            *key = K::of(x.key() ^ self.flip);
        }
        plain
    }
}

/// Makes values of keys.
struct FromKeys<'a, T, K> {
    keys: &'a [K],
    out: &'a mut [T],
    flip: u64,
}

impl<T: Sortable, K: Key> Loop for FromKeys<'_, T, K> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (out, key) in self.out.iter_mut().zip(self.keys) {
            *out = T::of_key(key.back() ^ self.flip);
        }
    }
}

/// Sorts keys of so many bytes by these: keys, their other places and the counts all lie in the first cache for rows of
/// a few thousand.
fn bytewise<K: Digit, const BYTES: usize>(keys: &mut Vec<K>, spare: &mut Vec<K>) {
    let mut counts = [[0u32; 256]; BYTES];
    for key in keys.iter() {
        for (d, counts) in counts.iter_mut().enumerate() {
            counts[key.digit(8 * d as u32, 255)] += 1;
        }
    }
    for (d, counts) in counts.iter_mut().enumerate() {
        let from = 8 * d as u32;
        if counts[keys[0].digit(from, 255)] as usize == keys.len() {
            continue;
        }
        let mut start = 0;
        for count in counts.iter_mut() {
            start += std::mem::replace(count, start);
        }
        assert!(spare.len() == keys.len());
        for &key in keys.iter() {
            let at = &mut counts[key.digit(from, 255)];
            // SAFETY: starts are sums of the digits' counts, so each key's place is below their number.
            unsafe { *spare.get_unchecked_mut(*at as usize) = key };
            *at += 1;
        }
        std::mem::swap(keys, spare);
    }
}

/// Sorts `packs` by the lowest `bits` bits of their keys.
fn radix<P: Digit>(packs: &mut Vec<P>, spare: &mut Vec<P>, counts: &mut Vec<u32>, bits: u32) {
    let (size, mask) = (1usize << DIGIT, (1usize << DIGIT) - 1);
    let digits = bits.div_ceil(DIGIT);
    counts.clear();
    counts.resize(size * digits as usize, 0);
    for pack in packs.iter() {
        for d in 0..digits {
            counts[d as usize * size + pack.digit(d * DIGIT, mask)] += 1;
        }
    }
    for (d, counts) in counts.chunks_exact_mut(size).enumerate() {
        let from = d as u32 * DIGIT;
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

/// Writes the `k` greatest (or least) elements of each row of `len`, in order, equal ones as they stood.
pub fn topk<T: Sortable>(x: &[T], out: &mut [T], len: usize, k: usize, largest: bool) {
    if k == len {
        sort::<T>(x, out, len, largest);
    } else if T::BITS <= 32 {
        select::<T, u64, T>(x, out, (len, k, largest), |x, at| x[at as usize]);
    } else {
        select::<T, u128, T>(x, out, (len, k, largest), |x, at| x[at as usize]);
    }
}

/// Writes the positions of the `k` greatest (or least) elements of each row of `len`, in order.
pub fn argtopk<T: Sortable>(x: &[T], out: &mut [i64], len: usize, k: usize, largest: bool) {
    if k == len {
        argsort::<T>(x, out, len, largest);
    } else if T::BITS <= 32 {
        select::<T, u64, i64>(x, out, (len, k, largest), |_, at| at);
    } else {
        select::<T, u128, i64>(x, out, (len, k, largest), |_, at| at);
    }
}

/// Writes what `of` makes of a row and each position of its `k` greatest (or least) elements, in order.
fn select<T: Sortable, P: Pack, O: Send>(
    x: &[T],
    out: &mut [O],
    (len, k, largest): (usize, usize, bool),
    of: impl Fn(&[T], i64) -> O + Sync,
) {
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
                *out = of(x, pack.at());
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};
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
        a.partial_cmp(&b)
            .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
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
                argtopk(x, &mut best, len, k, descending);
                assert_eq!(best, want[..k]);
            }
        }
    }

    /// The rows in order by positions, which other tests check.
    fn by_positions<T: Sortable>(x: &[T], len: usize, descending: bool) -> Vec<T> {
        let mut order = vec![0; x.len()];
        argsort(x, &mut order, len, descending);
        let at = |(i, &j): (usize, &i64)| x[i / len * len + j as usize];
        order.iter().enumerate().map(at).collect()
    }

    #[test]
    fn values_alone_are_those_of_the_positions() {
        fn check<T: Sortable>(x: &[T], bits: fn(T) -> u64) {
            for len in [1, 2, 7, 100, 255, 256, 300, 1200] {
                for descending in [false, true] {
                    let x = &x[..x.len() / len * len];
                    let mut out = x.to_vec();
                    sort(x, &mut out, len, descending);
                    let want = by_positions(x, len, descending);
                    let same = out.iter().zip(&want).all(|(a, b)| bits(*a) == bits(*b));
                    assert!(same, "{} bits, rows of {len}", T::BITS);
                }
            }
        }
        let n = noise(2400);
        // Few values, zeros of both signs and NaNs of several payloads among them, in some rows.
        let f = |i: usize, x: u64| match i / 600 {
            0 => f32::from_bits(x as u32),
            1 => [0.0, -0.0, 1.5, -1.5][x as usize % 4],
            _ => (x as i32) as f32 / 64.0,
        };
        let floats: Vec<f32> = n.iter().enumerate().map(|(i, &x)| f(i, x)).collect();
        check(&floats, |x| u64::from(x.to_bits()));
        let doubles: Vec<f64> = floats.iter().map(|&x| f64::from(x)).collect();
        check(&doubles, f64::to_bits);
        let halves: Vec<f16> = floats.iter().map(|&x| f16::from_f32(x)).collect();
        check(&halves, |x| u64::from(x.to_bits()));
        check(&n.iter().map(|&x| x as i64).collect::<Vec<_>>(), |x| {
            x as u64
        });
        check(&n.iter().map(|&x| x as i8).collect::<Vec<_>>(), |x| {
            x as u64
        });
    }

    #[test]
    fn every_type_and_algorithm() {
        for len in [1, 7, RADIX, 1000, SHORT + 3] {
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
            check(
                &bits.iter().map(|&b| b as i16).collect::<Vec<_>>(),
                |v| v as f64,
                len,
            );
            check(
                &bits.iter().map(|&b| b as i8).collect::<Vec<_>>(),
                |v| v as f64,
                len,
            );
            check(
                &bits.iter().map(|&b| b as u8 & 1).collect::<Vec<_>>(),
                |v| v as f64,
                len,
            );
        }
    }

    #[test]
    fn extremes_keep_their_order() {
        let x = [
            f64::NAN,
            1.0,
            f64::INFINITY,
            -0.0,
            0.0,
            f64::NEG_INFINITY,
            -f64::NAN,
            f64::MAX,
        ];
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
