//! Products by tiles beside sums in binary64.

use super::*;
use crate::cpu::dense::Shared;
use crate::cpu::panels::tiles_into;
use crate::cpu::view::View;
use ferrotrace_runtime::with_threads;
use half::bf16;
use packed::pack_kept;

/// A factor at random.
type Factor<'a> = &'a dyn Fn(&mut Random) -> f32;

/// A type of factors.
trait Number: Copy {
    const FORMAT: Format;
    fn of(x: f32) -> Self;
    fn wide(self) -> f64;
    fn source(of: View<'_, Self>) -> Source<'_>;
}

impl Number for bf16 {
    const FORMAT: Format = Format::Half;
    fn of(x: f32) -> bf16 {
        bf16::from_f32(x)
    }
    fn wide(self) -> f64 {
        self.to_f64()
    }
    fn source(of: View<'_, bf16>) -> Source<'_> {
        Source::Half(of)
    }
}

impl Number for f32 {
    const FORMAT: Format = Format::Single;
    fn of(x: f32) -> f32 {
        x
    }
    fn wide(self) -> f64 {
        self.into()
    }
    fn source(of: View<'_, f32>) -> Source<'_> {
        Source::Single(of)
    }
}

/// Numbers that follow each other at random, the same from one seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }

    fn elements<T: Number>(&mut self, n: usize, of: Factor<'_>) -> Vec<T> {
        (0..n).map(|_| T::of(of(self))).collect()
    }
}

/// Numbers of which every product and sum is exact, in [-8, 8].
fn whole(random: &mut Random) -> f32 {
    random.below(17) as f32 - 8.0
}

fn uniform(random: &mut Random) -> f32 {
    random.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0
}

/// A matrix of a batch in memory with gaps: its rows are dense, or its columns, or neither.
fn view<T>(data: &[T], (rows, columns): (usize, usize), order: usize) -> (View<'_, T>, usize) {
    let (row, col, size) = match order {
        0 => (columns + 3, 1, rows * (columns + 3)),
        1 => (1, rows + 5, columns * (rows + 5)),
        _ => (2 * columns + 1, 2, rows * (2 * columns + 1)),
    };
    let view = View {
        data,
        start: 7,
        row: row as isize,
        col: col as isize,
    };
    (view, size)
}

/// A product of a batch on so many threads, in rows with a gap.
fn product(
    s: Sizes,
    a: Source<'_>,
    b: Right<'_>,
    starts: &[(usize, usize)],
    threads: usize,
) -> Vec<f32> {
    let (row, gap) = (s.n + 2, -77.0);
    let mut out = vec![gap; starts.len() * s.m * row];
    let places = starts.iter().enumerate();
    let places: Vec<_> = places.map(|(i, of)| [of.0, of.1, i * s.m * row]).collect();
    with_threads(threads, || {
        tiles_into(s, a, b, &places, &Shared::new(&mut out), row)
    })
    .expect("inside");
    let rows = out.chunks_exact(row);
    assert!(rows.clone().all(|row| row[s.n..] == [gap; 2]));
    rows.flat_map(|row| row[..s.n].to_vec()).collect()
}

/// The terms of an element.
fn terms<T: Number>(
    s: Sizes,
    a: View<'_, T>,
    b: View<'_, T>,
    (i, j): (usize, usize),
) -> impl Iterator<Item = f64> {
    (0..s.k).map(move |l| {
        let (a, b) = (a.from(i, l), b.from(l, j));
        a.data[a.start].wide() * b.data[b.start].wide()
    })
}

/// Compares products of `count` matrices with sums in binary64 of every element, with 1 and 3 threads, of packed matrices and of
/// matrices as they lie.
fn check<T: Number>(
    random: &mut Random,
    s: Sizes,
    count: usize,
    orders: (usize, usize),
    of: [Factor<'_>; 2],
    close: impl Fn(f32, &[f64]) -> bool,
) {
    if !has_tiles(T::FORMAT) {
        return;
    }
    let room = |rows: usize, columns: usize| {
        count * rows * (2 * columns + 8) + count * columns * (rows + 8) + 8
    };
    let left: Vec<T> = random.elements(room(s.m, s.k), of[0]);
    let right: Vec<T> = random.elements(room(s.k, s.n), of[1]);
    let (a, a_size) = view(&left, (s.m, s.k), orders.0);
    let (b, b_size) = view(&right, (s.k, s.n), orders.1);
    let starts: Vec<_> = (0..count)
        .map(|i| (7 + i * a_size, 7 + i * b_size))
        .collect();
    let (left, right) = (T::source(a), T::source(b));
    let plain = Right {
        source: right,
        kept: None,
    };
    let got = product(s, left, plain, &starts, 1);
    assert_eq!(
        bits(&got),
        bits(&product(s, left, plain, &starts, 3)),
        "{s:?}"
    );
    for (at, &got) in got.iter().enumerate() {
        let (batch, i, j) = (at / (s.m * s.n), at / s.n % s.m, at % s.n);
        let (a, b) = (
            View {
                start: starts[batch].0,
                ..a
            },
            View {
                start: starts[batch].1,
                ..b
            },
        );
        let terms: Vec<f64> = terms(s, a, b, (i, j)).collect();
        assert!(
            close(got, &terms),
            "{s:?} {orders:?}: {got} at {batch} {i} {j}"
        );
    }
    let mut tiles = vec![bf16::NAN; kept_elements(s.n, s.k, right.format())];
    if pack_kept(right.at(b.start), s, &mut tiles).is_err() {
        return;
    }
    let kept = Right {
        source: right,
        kept: Some(Kept(&tiles)),
    };
    let first = product(s, left, kept, &starts[..1], 2);
    assert_eq!(bits(&first), bits(&got[..s.m * s.n]), "{s:?}");
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

fn is_exact(got: f32, terms: &[f64]) -> bool {
    f64::from(got) == terms.iter().sum::<f64>()
}

/// Within 16 units of 2⁻²⁴ of the sum of magnitudes.
fn is_close(got: f32, terms: &[f64]) -> bool {
    let sum: f64 = terms.iter().sum();
    let all: f64 = terms.iter().map(|term| term.abs()).sum();
    (f64::from(got) - sum).abs() <= all * 16.0 / f64::from(1 << 24)
}

#[test]
fn products_of_every_edge() {
    let mut random = Random(1);
    for _ in 0..150 {
        let s = Sizes {
            m: 1 + random.below(70),
            n: 1 + random.below(70),
            k: 1 + random.below(70),
        };
        let orders = (random.below(3), random.below(3));
        let count = 1 + random.below(3);
        check::<bf16>(&mut random, s, count, orders, [&whole, &whole], is_exact);
        check::<f32>(&mut random, s, count, orders, [&whole, &whole], is_exact);
    }
}

// Several blocks of rows, panels of columns, chains.
#[test]
fn products_of_several_blocks() {
    let mut random = Random(2);
    for (m, n, k, count) in [
        (257, 33, 100, 1),
        (300, 530, 64, 1),
        (40, 1100, 48, 2),
        (520, 48, 1025, 1),
        (130, 70, 2100, 1),
        (3, 65, 5000, 1),
        (600, 5, 33, 2),
    ] {
        for orders in [(0, 0), (1, 1), (0, 1), (2, 2)] {
            let s = Sizes { m, n, k };
            check::<bf16>(&mut random, s, count, orders, [&whole, &whole], is_exact);
            check::<f32>(&mut random, s, count, orders, [&whole, &whole], is_exact);
            check::<bf16>(
                &mut random,
                s,
                count,
                orders,
                [&uniform, &uniform],
                is_close,
            );
            check::<f32>(
                &mut random,
                s,
                count,
                orders,
                [&uniform, &uniform],
                is_close,
            );
        }
    }
}

#[test]
fn long_sums_of_equal_terms_are_close() {
    let mut random = Random(3);
    for k in [1024, 1500, 4096, 20_000] {
        let s = Sizes { m: 20, n: 40, k };
        check::<bf16>(
            &mut random,
            s,
            1,
            (0, 1),
            [&|_: &mut Random| 0.3; 2],
            is_close,
        );
        check::<f32>(
            &mut random,
            s,
            1,
            (0, 1),
            [&|_: &mut Random| 0.3; 2],
            is_close,
        );
    }
}

// Infinities, NaNs, zeros of either sign, and sums beyond the largest number.
#[test]
fn sums_of_what_is_not_finite() {
    let mut random = Random(4);
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        3e38,
    ];
    let ieee = |got: f32, terms: &[f64]| {
        let sum: f64 = terms.iter().sum();
        let finite = terms.iter().filter(|term| term.is_finite());
        match finite.map(|term| term.abs()).sum::<f64>() > f64::from(f32::MAX) {
            // Sums beyond the largest number may come about or not, by the order of terms.
            true => true,
            false if sum.is_nan() => got.is_nan(),
            false if sum.is_infinite() => f64::from(got) == sum,
            false => is_close(got, terms),
        }
    };
    for rarely in [3, 200] {
        for _ in 0..20 {
            let s = Sizes {
                m: 1 + random.below(40),
                n: 1 + random.below(40),
                k: 1 + random.below(80),
            };
            let of = |random: &mut Random| match random.below(rarely) {
                0 => special[random.below(special.len())],
                _ => whole(random),
            };
            check::<bf16>(&mut random, s, 1, (0, 0), [&of, &of], ieee);
            check::<f32>(&mut random, s, 1, (0, 0), [&of, &of], ieee);
        }
    }
}

// Factors of less than 2⁻¹²⁶, alone in a row or column or many of them, beside large ones and infinities.
#[test]
fn small_factors_count() {
    let mut random = Random(5);
    let small = |random: &mut Random| {
        let bits = 1 + random.below(0x7f) as u16 + (random.below(2) as u16) * 0x8000;
        bf16::from_bits(bits).to_f32()
    };
    let close = |got: f32, terms: &[f64]| match terms.iter().all(|term| term.is_finite()) {
        true => {
            let all: f64 = terms.iter().map(|term| term.abs()).sum();
            let least = terms.len() as f64 * f64::from(f32::MIN_POSITIVE);
            let error = (f64::from(got) - terms.iter().sum::<f64>()).abs();
            error <= all * 16.0 / f64::from(1 << 24) + least
        }
        false => {
            let sum: f64 = terms.iter().sum();
            f64::from(got) == sum || got.is_nan() && sum.is_nan()
        }
    };
    for (rarely, infinite) in [(2, false), (40, false), (30, true)] {
        // What small factors add is seen beside the rest.
        let few = |random: &mut Random| match random.below(rarely) {
            0 => small(random),
            _ => uniform(random) * 1e-37,
        };
        let large = |random: &mut Random| match random.below(30) {
            0 if infinite => f32::INFINITY,
            1 => small(random),
            _ => uniform(random) * 1e18,
        };
        for (m, n, k) in [(40, 50, 70), (300, 60, 90), (17, 1050, 40), (140, 33, 1100)] {
            let s = Sizes { m, n, k };
            check::<bf16>(&mut random, s, 2, (0, 1), [&few, &large], close);
            check::<bf16>(&mut random, s, 1, (1, 0), [&large, &few], close);
        }
    }
}

// Numbers of `f32` of all exponents in some rows and columns, beside ones that tiles take.
#[test]
fn factors_of_every_magnitude() {
    let mut random = Random(6);
    let close = |got: f32, terms: &[f64]| {
        let all: f64 = terms.iter().map(|term| term.abs()).sum();
        let least = terms.len() as f64 * f64::from(f32::from_bits(1));
        let error = (f64::from(got) - terms.iter().sum::<f64>()).abs();
        // AVX-512 adds chains of 256 terms, each rounded.
        let roundings = 16.0 + terms.len().min(256) as f64 / 2.0;
        all > f64::from(f32::MAX) || error <= all * roundings / f64::from(1 << 24) + least
    };
    for (spread, centre) in [(250, 0), (60, 0), (40, -70), (20, 60), (300, -60)] {
        for rarely in [1, 100, 5000] {
            let any = |random: &mut Random| {
                let exponent = match random.below(rarely) {
                    0 => random.below(spread) as i32 - spread as i32 / 2 + centre,
                    _ => 0,
                };
                (f64::from(uniform(random)) * f64::from(exponent).exp2()) as f32
            };
            for (m, n, k) in [(70, 50, 90), (33, 130, 40), (20, 40, 1100)] {
                let s = Sizes { m, n, k };
                check::<f32>(&mut random, s, 1, (0, 1), [&any, &uniform], close);
                check::<f32>(&mut random, s, 2, (1, 0), [&uniform, &any], close);
                check::<f32>(&mut random, s, 1, (0, 0), [&any, &any], close);
            }
        }
    }
}

// Six products of parts lose no more than a chain of fused multiply-adds: the worst of many sums of few terms.
#[test]
fn few_terms_are_as_exact_as_in_binary32() {
    let mut random = Random(7);
    let exact = |got: f32, terms: &[f64]| {
        let sum: f64 = terms.iter().sum();
        let all: f64 = terms.iter().map(|term| term.abs()).sum();
        (f64::from(got) - sum).abs() <= all * 2.5 / f64::from(1 << 24)
    };
    for k in [1, 2, 3, 32] {
        let s = Sizes { m: 64, n: 64, k };
        check::<f32>(&mut random, s, 1, (0, 0), [&uniform, &uniform], exact);
    }
}

// A processor with registers of tiles multiplies by these; its dot products are tested here alone.
#[cfg(target_arch = "x86_64")]
#[test]
fn dot_products_of_every_edge() {
    use tile::{Factors, TERMS};
    if !has_bf16_dots() {
        return;
    }
    let mut random = Random(5);
    let steps = 5;
    // Two tiles of lines, each of five tiles of terms.
    let size = SIDE * TERMS;
    let [left, right] = [(); 2].map(|()| random.elements::<bf16>(2 * steps * size, &whole));
    let factors = [&left, &right].map(|of| Factors {
        first: of.as_ptr().cast(),
        next: steps * size,
    });
    let tile = |line: usize, step: usize| (line / SIDE * steps + step) * size;
    let sum = |i: usize, j: usize| -> f64 {
        let terms = (0..steps * TERMS).map(|t| {
            let (step, t) = (t / TERMS, t % TERMS);
            let a = left[tile(i, step) + i % SIDE * TERMS + t];
            let b = right[tile(j, step) + t / 2 * TERMS + j % SIDE * 2 + t % 2];
            a.wide() * b.wide()
        });
        terms.sum()
    };
    for (rows, columns) in [
        (1, 1),
        (4, 17),
        (5, 16),
        (8, 32),
        (13, 3),
        (16, 16),
        (17, 31),
        (29, 20),
        (32, 32),
    ] {
        let mut to = vec![f32::NAN; 32 * 32];
        let place = (to.as_mut_ptr(), 32);
        // SAFETY: the process has these instructions, and there is room for two tiles of each side.
        unsafe { dots::sums((rows, columns), steps, factors, left.as_ptr().cast(), place) };
        for (i, j) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
            assert_eq!(
                f64::from(to[i * 32 + j]),
                sum(i, j),
                "{rows} {columns}: {i} {j}"
            );
        }
    }
}
