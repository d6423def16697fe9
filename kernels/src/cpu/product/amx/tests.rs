//! Products by tiles beside sums in binary64.

use super::*;
use crate::cpu::dense::Shared;
use crate::cpu::panels::tiles_into;
use ferrotrace_runtime::with_threads;

/// A factor at random.
type Factor<'a> = &'a dyn Fn(&mut Random) -> f32;

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

    fn elements(&mut self, n: usize, of: Factor<'_>) -> Vec<bf16> {
        (0..n).map(|_| bf16::from_f32(of(self))).collect()
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
fn view(data: &[bf16], (rows, columns): (usize, usize), order: usize) -> (View<'_, bf16>, usize) {
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
    a: View<'_, bf16>,
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
fn terms(
    s: Sizes,
    a: View<'_, bf16>,
    b: View<'_, bf16>,
    (i, j): (usize, usize),
) -> impl Iterator<Item = f64> {
    (0..s.k).map(move |l| {
        let (a, b) = (a.from(i, l), b.from(l, j));
        a.data[a.start].to_f64() * b.data[b.start].to_f64()
    })
}

/// Compares products of `count` matrices with sums in binary64 of every element, with 1 and 3 threads, of packed matrices and of
/// matrices as they lie.
fn check(
    random: &mut Random,
    s: Sizes,
    count: usize,
    orders: (usize, usize),
    of: [Factor<'_>; 2],
    close: impl Fn(f32, &[f64]) -> bool,
) {
    if !has_amx() {
        return;
    }
    let room = |rows: usize, columns: usize| {
        count * rows * (2 * columns + 8) + count * columns * (rows + 8) + 8
    };
    let left = random.elements(room(s.m, s.k), of[0]);
    let right = random.elements(room(s.k, s.n), of[1]);
    let (a, a_size) = view(&left, (s.m, s.k), orders.0);
    let (b, b_size) = view(&right, (s.k, s.n), orders.1);
    let starts: Vec<_> = (0..count)
        .map(|i| (7 + i * a_size, 7 + i * b_size))
        .collect();
    let plain = Right {
        view: b,
        tiles: None,
    };
    let got = product(s, a, plain, &starts, 1);
    assert_eq!(bits(&got), bits(&product(s, a, plain, &starts, 3)), "{s:?}");
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
    let mut tiles = vec![bf16::NAN; elements(s.n, s.k)];
    let small = packed::pack_lines(b.transpose(), &[b.start], (s.n, s.k), true, &mut tiles);
    if !small.expect("room")[0].is_empty() {
        return;
    }
    let kept = Right {
        view: b,
        tiles: Some(&tiles),
    };
    let first = product(s, a, kept, &starts[..1], 2);
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
        check(&mut random, s, count, orders, [&whole, &whole], is_exact);
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
            check(&mut random, s, count, orders, [&whole, &whole], is_exact);
            check(
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
        check(
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
            check(&mut random, s, 1, (0, 0), [&of, &of], ieee);
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
            check(&mut random, s, 2, (0, 1), [&few, &large], close);
            check(&mut random, s, 1, (1, 0), [&large, &few], close);
        }
    }
}
