//! Lines with many factors of less than 2⁻¹²⁶ in magnitude: what products by them lack ([`small`](super::small)) is a product by tiles
//! too. What such a factor is less than ±2⁻¹²⁶ is an integer times 2⁻¹³³, and tiles take the integer.

use super::pack::pack;
use super::packed::{Found, elements};
use super::pair::{PAIR, SUMS};
use super::panel::RUN;
use super::small::{LEAST, Place};
use super::source::{Format, Lines};
use super::tile::{Configured, ELEMENTS, Factors, TERMS};
use half::bf16;

/// A line has many such factors where these are more than one in so many terms: tiles are faster then than one after another.
const MANY: usize = 32;
/// The other factors are multiplied by 2 to the power of minus this number, so that no sum overflows. Those that become zero add
/// less than the least number of binary32.
const DOWN: u16 = 32;

/// Whether a line of `k` terms has many small factors among so many.
pub(super) fn is_many(small: usize, k: usize) -> bool {
    small > k / MANY
}

/// What a small factor is less than ±2⁻¹²⁶, in units of 2⁻¹³³.
fn lack(x: u16) -> u16 {
    let less = f32::from(x & 0x7f) - f32::from(LEAST);
    bf16::from_f32(less).to_bits() ^ x & 0x8000
}

/// A factor times 2⁻³²; zero where that is not a normal number, or the factor is none.
fn lowered(x: u16) -> u16 {
    match x >> 7 & 0xff {
        0..=DOWN | 0xff => 0,
        _ => x - (DOWN << 7),
    }
}

/// The tiles of some lines, each written by `line`.
fn tiles(count: usize, k: usize, pairs: bool, line: impl Fn(usize, &mut [u16])) -> Vec<u16> {
    let mut tiles = vec![0; elements(count.next_multiple_of(PAIR), k, Format::Half)];
    let mut rows = vec![0u16; count * k];
    rows.chunks_exact_mut(k)
        .enumerate()
        .for_each(|(i, row)| line(i, row));
    let lines = Lines {
        first: rows.as_ptr().cast(),
        line: k as isize,
        term: 1,
        format: Format::Half,
    };
    let found = &mut Found::new(0, Format::Half);
    let pitch = k.div_ceil(TERMS) * ELEMENTS;
    // SAFETY: the rows are as many; the tiles have room for them. None of their numbers is small.
    unsafe {
        pack(
            lines,
            (count, k),
            pairs,
            tiles.as_mut_ptr(),
            pitch,
            &mut found.at(0, 0),
        )
    };
    tiles
}

/// Adds what products by replaced factors lack to sums: of the factors at `places` of `lines`, in order, whose lines have many, by
/// all of the other matrix's `count` lines. A sum of two lines is as far from `to` as their numbers by its distances.
///
/// # Safety
/// The factors may be read; the sums are this thread's alone; registers are configured.
#[cold]
pub(super) unsafe fn correct_many(
    registers: &Configured,
    (lines, k): (Lines, usize),
    places: &[Place],
    (others, count): (Lines, usize),
    to: *mut f32,
    (by_line, by_other): (usize, usize),
) {
    // SAFETY: as the caller promises.
    let factor = |of: Lines, line, term| unsafe { *of.from(line, term).first.cast::<u16>() };
    if places.is_empty() {
        return;
    }
    let of_lines: Vec<&[Place]> = places.chunk_by(|a, b| a.0 == b.0).collect();
    let left = tiles(of_lines.len(), k, false, |i, row| {
        for &(line, term) in of_lines[i] {
            row[term] = lack(factor(lines, line, term));
        }
    });
    let next = k.div_ceil(TERMS) * ELEMENTS;
    let unit = 2f64.powi(i32::from(DOWN) - 133);
    for first in (0..count).step_by(PAIR) {
        let right = tiles(PAIR.min(count - first), k, true, |i, row| {
            let terms = row.iter_mut().enumerate();
            terms.for_each(|(term, x)| *x = lowered(factor(others, first + i, term)));
        });
        for (group, of_lines) in of_lines.chunks(PAIR).enumerate() {
            let mut totals = [0.0; SUMS];
            for run in (0..k).step_by(RUN) {
                let mut sums = [0.0f32; SUMS];
                let at = run / TERMS * ELEMENTS;
                let factors = [&left[group * 2 * next + at..], &right[at..]];
                let factors = factors.map(|of| Factors {
                    first: of.as_ptr(),
                    next,
                });
                let steps = RUN.min(k - run).div_ceil(TERMS);
                let to = (sums.as_mut_ptr(), PAIR);
                // SAFETY: two tiles of lines each were packed, of all terms; there is room for their sums.
                unsafe { registers.sums((PAIR, PAIR), steps, factors, left.as_ptr(), to) };
                let sums = totals.iter_mut().zip(&sums);
                sums.for_each(|(total, &sum)| *total += f64::from(sum));
            }
            for (places, totals) in of_lines.iter().zip(totals.chunks_exact(PAIR)) {
                let to = to.wrapping_add(places[0].0 * by_line + first * by_other);
                for (i, total) in totals.iter().enumerate().take(count - first) {
                    let to = to.wrapping_add(i * by_other);
                    // SAFETY: as the caller promises.
                    unsafe { *to = (f64::from(*to) + total * unit) as f32 };
                }
            }
        }
    }
}
