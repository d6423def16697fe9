//! Transforms beside sums by the definition in binary64.

use super::*;
use std::f64::consts::PI;

/// Numbers in [-1, 1) without order.
fn noise<T: Number>(n: usize) -> Vec<T> {
    let number = |i: usize| ((i * i * 37 + i * 101 + 17) % 255) as f64 / 128.0 - 1.0;
    (0..n).map(|i| T::of(number(i))).collect()
}

/// The transform of a line by its definition; `sign` is that of the exponent. Sums are compensated.
fn defined(x: &[Pair<f64>], sign: f64) -> Vec<Pair<f64>> {
    let n = x.len();
    let angle = |at: usize| sign * 2.0 * PI * at as f64 / n as f64;
    let roots: Vec<_> = (0..n).map(|at| angle(at).sin_cos()).collect();
    let number = |k: usize| {
        let (mut sums, mut lost) = ([0.0; 2], [0.0; 2]);
        for (j, [a, b]) in x.iter().enumerate() {
            let (sin, cos) = roots[j * k % n];
            for (part, term) in [a * cos - b * sin, a * sin + b * cos]
                .into_iter()
                .enumerate()
            {
                let term = term - lost[part];
                let sum = sums[part] + term;
                (lost[part], sums[part]) = (sum - sums[part] - term, sum);
            }
        }
        sums
    };
    (0..n).map(number).collect()
}

/// Whether transforms are those by the definition: what single numbers are off grows with the root of how many there are, and with
/// the greatest.
fn near(found: &[Pair<f64>], wanted: &[Pair<f64>], unit: f64, what: &str) {
    assert_eq!(found.len(), wanted.len());
    let n = wanted.len() as f64;
    let greatest = wanted
        .as_flattened()
        .iter()
        .fold(0.0f64, |max, x| max.max(x.abs()));
    // Angles of the definition are rounded.
    let slack = unit * (8.0 * n.sqrt() + 2.0 * greatest) + f64::EPSILON * n;
    for (k, (a, b)) in found.iter().zip(wanted).enumerate() {
        let off = (a[0] - b[0]).abs().max((a[1] - b[1]).abs());
        assert!(off <= slack, "{what}: {a:?} for {b:?} at {k}, {slack}");
    }
}

/// Lengths of every kind: of passes, split once and twice, of primes that passes take, and convolutions.
const LENGTHS: [usize; 22] = [
    1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 61, 67, 100, 128, 134, 256, 257, 360, 1000, 1024, 3721, 5040,
];

fn widened<T: Number + Into<f64>>(x: &[Pair<T>]) -> Vec<Pair<f64>> {
    x.iter().map(|x| x.map(Into::into)).collect()
}

fn lengths<T: Planned + Into<f64>>(unit: f64) {
    for n in LENGTHS {
        for [outer, inner] in [[1, 1], [3, 1], [18, 1], [1, 5], [2, 16], [1, 37]] {
            if n > 1024 && outer * inner > 3 {
                continue;
            }
            let numbers: Vec<T> = noise(2 * n * outer * inner);
            let x = numbers.as_chunks::<2>().0;
            for inverse in [false, true] {
                let mut out = vec![[T::of(0.0); 2]; x.len()];
                let scale = if inverse { 0.5 } else { 1.0 };
                complex(x, &mut out, [n, inner], inverse, scale);
                for (o, i) in [(0, 0), (outer - 1, inner - 1)] {
                    let line = |x: &[Pair<T>]| {
                        let line = x[o * n * inner + i..].iter().step_by(inner).take(n);
                        widened(&line.copied().collect::<Vec<_>>())
                    };
                    let sign = if inverse { 1.0 } else { -1.0 };
                    let wanted = defined(&line(x), sign);
                    let wanted: Vec<_> = wanted.iter().map(|x| x.map(|x| x * scale)).collect();
                    near(
                        &line(&out),
                        &wanted,
                        unit,
                        &format!("{n}, {outer}, {inner}"),
                    );
                }
            }
        }
    }
}

#[test]
fn complex_numbers_of_every_kind_of_length() {
    lengths::<f64>(f64::EPSILON);
    lengths::<f32>(f32::EPSILON as f64);
}

fn real<T: Planned + Into<f64>>(unit: f64) {
    for n in LENGTHS {
        for lines in [1, 2, 70] {
            let x: Vec<T> = noise(n * lines);
            let half = n / 2 + 1;
            let mut out = vec![[T::of(7.0); 2]; half * lines];
            real_to_half(&x, &mut out, n);
            let last = &x[n * (lines - 1)..];
            let pairs: Vec<_> = last.iter().map(|&x| [x.into(), 0.0]).collect();
            let wanted = &defined(&pairs, -1.0)[..half];
            near(
                &widened(&out[half * (lines - 1)..]),
                wanted,
                unit,
                &format!("{n}"),
            );
            assert_eq!(out[0][1].into(), 0.0);
            let mut back = vec![T::of(7.0); n * lines];
            half_to_real(&out, &mut back, n);
            for (a, b) in back.iter().zip(&x) {
                let (a, b): (f64, f64) = ((*a).into(), (*b).into());
                assert!((a - b).abs() <= 16.0 * unit, "{n}: {a} for {b}");
            }
        }
    }
}

#[test]
fn real_numbers_of_every_kind_of_length() {
    real::<f64>(f64::EPSILON);
    real::<f32>(f32::EPSILON as f64);
}

/// A line's bits depend neither on the lines beside it nor on the threads.
#[test]
fn bits_do_not_depend_on_neighbours() {
    for n in [60, 134, 1000, 4096] {
        let numbers: Vec<f32> = noise(2 * n * 40);
        let x = numbers.as_chunks::<2>().0;
        let mut all = vec![[0.0; 2]; x.len()];
        complex(x, &mut all, [n, 1], false, 1.0);
        let mut one = vec![[0.0; 2]; n];
        complex(&x[n * 33..n * 34], &mut one, [n, 1], false, 1.0);
        assert_eq!(one, all[n * 33..n * 34]);
    }
}
