//! Transposed operands whose tiles end anywhere, small rows that meet small rows, windows that slide, and stencils of gathers.

use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

/// Rows and columns of one tile and of several, whole and with edges of one element and more.
const SIZES: [[usize; 2]; 7] = [
    [16, 16],
    [17, 40],
    [40, 17],
    [66, 130],
    [130, 65],
    [257, 31],
    [64, 63],
];

/// Of a matrix, the element at a row and a column of the transposed one.
fn turned<'a>(values: &'a [f64], [rows, columns]: [usize; 2]) -> impl Iterator<Item = f64> + 'a {
    (0..rows * columns).map(move |at| values[at % rows * columns + at / rows])
}

#[test]
fn transposed_tiles() {
    each(&ALL, true, |dtype| {
        for size @ [rows, columns] in SIZES {
            let x = whole(rows * columns, if dtype == Bool { 2 } else { 97 });
            let (of, dims) = (dense(&[rows, columns], dtype, &x), [columns, rows]);
            of.eval().unwrap();
            let want: Vec<f64> = turned(&x, size).collect();
            equal(&of.t().contiguous(), &dims, &want);
            let small = of.narrow(0, 1, rows - 1).narrow(1, 1, columns - 1).t();
            let inside = |at: &usize| at / rows > 0 && !at.is_multiple_of(rows);
            let part = (0..want.len()).filter(inside).map(|at| want[at]);
            let part: Vec<f64> = part.collect();
            equal(&small.contiguous(), &[columns - 1, rows - 1], &part);
            if dtype != Bool {
                let lies = dense(&dims, dtype, &x);
                lies.eval().unwrap();
                let sum = of.t() + &lies;
                let want: Vec<f64> = want.iter().zip(&x).map(|(a, b)| a + b).collect();
                let fits = |v: &f64| dtype != I8 || *v < 128.0;
                if want.iter().all(fits) {
                    equal(&sum.contiguous(), &dims, &want);
                }
            }
        }
    });
}

#[test]
fn products_of_short_rows() {
    each(&NUMBERS, false, |dtype| {
        for [n, k, m] in [
            [67, 5, 5],
            [64, 8, 8],
            [129, 8, 7],
            [65, 6, 9],
            [3, 7, 7],
            [200, 7, 2],
        ] {
            let (x, w) = (whole(n * k, 4), whole(m * k, 3));
            let want: Vec<f64> = (0..n * m)
                .map(|at| {
                    let (i, j) = (at / m, at % m);
                    (0..k).map(|l| x[i * k + l] * w[j * k + l]).sum()
                })
                .collect();
            for x in forms(&[n, k], dtype, &x) {
                let w = dense(&[m, k], dtype, &w);
                equal(&x.matmul(&w.t()), &[n, m], &want);
                let relu: Vec<f64> = want.iter().map(|v| (v - 9.0).max(0.0)).collect();
                if dtype != U8 {
                    equal(&(x.matmul(&w.t()) - 9.0).relu(), &[n, m], &relu);
                }
            }
        }
    });
}

#[test]
fn sums_over_short_rows_of_pairs() {
    each(&FLOATS, false, |dtype| {
        for [n, k] in [[70, 5], [64, 6], [131, 8], [5, 7], [66, 9]] {
            let (b, a) = (eighths(n * k), eighths(k * k));
            let tolerance = match dtype {
                F64 => 1e-12,
                F32 => 1e-5,
                F16 => 4e-3,
                _ => 3e-2,
            };
            let scores = |i: usize, j: usize| (0..k).map(move |l| (i * k + l, j * k + l));
            let each: Vec<Vec<f64>> = (0..n * k)
                .map(|at| scores(at / k, at % k).map(|(i, j)| b[i] + a[j]).collect())
                .collect();
            let total = |row: &Vec<f64>| row.iter().map(|v| v.exp()).sum::<f64>();
            let log: Vec<f64> = each.iter().map(|row| total(row).ln()).collect();
            let share = |row: &Vec<f64>| {
                let total = total(row);
                row.iter()
                    .map(move |v| v.exp() / total)
                    .collect::<Vec<f64>>()
            };
            let shares: Vec<f64> = each.iter().flat_map(share).collect();
            let largest = |row: &Vec<f64>| row.iter().fold(f64::MIN, |m, &v| m.max(v));
            let largest: Vec<f64> = each.iter().map(largest).collect();
            for b in forms(&[n, k], dtype, &b) {
                let pairs = b.unsqueeze(1) + dense(&[k, k], dtype, &a);
                near(&pairs.logsumexp(-1), &[n, k], &log, tolerance);
                near(&pairs.softmax(-1), &[n, k, k], &shares, tolerance);
                near(&pairs.max(-1), &[n, k], &largest, tolerance);
            }
        }
    });
}

/// Of a position, which may lie outside of so many elements, that of the element that stands there.
type Place = fn(isize, isize) -> isize;

#[test]
fn edges_around_edges() {
    each(&ALL, false, |dtype| {
        for [rows, columns] in [[5, 6], [33, 35], [7, 140]] {
            let x = whole(rows * columns, if dtype == Bool { 2 } else { 50 });
            let modes: [(PadMode, Place); 3] = [
                (PadMode::Replicate, |at, n| at.clamp(0, n - 1)),
                (PadMode::Reflect, |at, n| {
                    let at = at.abs();
                    if at < n { at } else { 2 * (n - 1) - at }
                }),
                (PadMode::Circular, |at, n| at.rem_euclid(n)),
            ];
            for (mode, place) in modes {
                let pads = [(2isize, 1isize), (1, 3)];
                let (height, width) = (rows + 3, columns + 4);
                let at = |i: usize, before: isize, n: usize| {
                    place(i as isize - before, n as isize) as usize
                };
                let want: Vec<f64> = (0..height * width)
                    .map(|p| {
                        let (i, j) = (at(p / width, 2, rows), at(p % width, 1, columns));
                        x[i * columns + j]
                    })
                    .collect();
                for x in forms(&[rows, columns], dtype, &x) {
                    let padded = x.pad_with(&pads, mode);
                    equal(&padded, &[height, width], &want);
                    let tests: Vec<f64> = want.iter().map(|&v| f64::from(v == 1.0)).collect();
                    equal(&x.pad_with(&pads, mode).eq(1.0), &[height, width], &tests);
                }
            }
        }
    });
}

/// Elements of rows whose ends lie in vectors of another tensor's rows: forwards, backwards, and under conditions.
#[test]
fn parts_of_reshaped_rows() {
    each(&NUMBERS, false, |dtype| {
        for [rows, columns, start] in [[30, 255, 3], [6, 37, 1], [10, 64, 5], [4, 1000, 999]] {
            let x = whole(rows * columns, 60);
            let n = 2 * columns - start;
            let flat = |i: usize, at: usize| x[i * 2 * columns + at];
            for x in forms(&[rows, columns], dtype, &x) {
                let half = rows / 2;
                let wide = (&x + 1.0).reshape(&[half, 2 * columns]);
                let part = wide.narrow(1, start as isize, n) * 2.0;
                let of = |f: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
                    (0..half * n).map(|p| f(p / n, p % n)).collect()
                };
                let value = |i: usize, j: usize| 2.0 * (flat(i, start + j) + 1.0);
                equal(&part, &[half, n], &of(&value));
                let back = part.flip(1) + 1.0;
                equal(&back, &[half, n], &of(&|i, j| value(i, n - 1 - j) + 1.0));
                let rolled = part.roll(2, 1) + 1.0;
                let around = |i: usize, j: usize| value(i, (j + n - 2) % n) + 1.0;
                equal(&rolled, &[half, n], &of(&around));
                let padded = part.pad(&[(0, 0), (1, 2)], 7.0) - 1.0;
                let inside = |i: usize, j: usize| match (1..=n).contains(&j) {
                    true => value(i, j - 1) - 1.0,
                    false => 6.0,
                };
                let all = (0..half * (n + 3)).map(|p| inside(p / (n + 3), p % (n + 3)));
                equal(&padded, &[half, n + 3], &all.collect::<Vec<f64>>());
            }
        }
    });
}

/// Of a matrix, the elements of each window, in row-major order.
fn windows(x: &[f64], [rows, columns]: [usize; 2], [high, wide]: [usize; 2]) -> Vec<Vec<f64>> {
    let (down, across) = (rows - high + 1, columns - wide + 1);
    let window = |at: usize| {
        let of = move |k: usize| (at / across + k / wide) * columns + at % across + k % wide;
        (0..high * wide).map(|k| x[of(k)]).collect()
    };
    (0..down * across).map(window).collect()
}

#[test]
fn sliding_windows() {
    const SIZE: [usize; 2] = [19, 41];
    each(&NUMBERS, false, |dtype| {
        // Few numbers, so that windows have several greatest ones.
        let x = whole(SIZE[0] * SIZE[1], 11);
        let of = dense(&SIZE, dtype, &x);
        let padded: Vec<f64> = (0..(SIZE[0] + 4) * (SIZE[1] + 4))
            .map(|at| (at / (SIZE[1] + 4), at % (SIZE[1] + 4)))
            .map(|(i, j)| match (i.checked_sub(2), j.checked_sub(2)) {
                (Some(i), Some(j)) if i < SIZE[0] && j < SIZE[1] => x[i * SIZE[1] + j],
                _ => 0.0,
            })
            .collect();
        let around = of.pad(&[(2, 2), (2, 2)], 0);
        let wide = [SIZE[0] + 4, SIZE[1] + 4];
        for [high, across] in [[5, 5], [3, 9], [7, 2], [1, 17]] {
            for (of, x, size) in [(&of, &x, SIZE), (&around, &padded, wide)] {
                let all = windows(x, size, [high, across]);
                let view = of.unfold(0, high, 1).unfold(1, across, 1).flatten(2, 3);
                let dims = [size[0] - high + 1, size[1] - across + 1];
                let greatest = |w: &Vec<f64>| w.iter().copied().fold(f64::MIN, f64::max);
                let want: Vec<f64> = all.iter().map(greatest).collect();
                equal(&view.max(2), &dims, &want);
                let first = |w: &Vec<f64>| w.iter().position(|v| *v == greatest(w)).unwrap() as f64;
                let want: Vec<f64> = all.iter().map(first).collect();
                equal(&view.argmax(2), &dims, &want);
                let want: Vec<f64> = all.iter().map(|w| w.iter().sum()).collect();
                let tolerance = if dtype.is_half() { 0.01 } else { 0.0 };
                near(&view.sum(2), &dims, &want, tolerance);
            }
        }
    });
}

#[test]
fn stencils_of_gathers() {
    const SIZE: [usize; 2] = [23, 37];
    let n = SIZE[0] * SIZE[1];
    let places: Vec<i64> = whole(n, 18).iter().map(|&v| v as i64).collect();
    let k = ints(&places).reshape(SIZE);
    each(&NUMBERS, false, |dtype| {
        let table = whole(18, 5);
        let of = dense(&[18], dtype, &table);
        let at = |i: isize, j: isize| {
            let [rows, columns] = SIZE.map(|n| n as isize);
            let place = i.rem_euclid(rows) * columns + j.rem_euclid(columns);
            table[places[place as usize] as usize]
        };
        let around = |by: &[(isize, isize)]| -> Vec<f64> {
            let place = |p: usize| ((p / SIZE[1]) as isize, (p % SIZE[1]) as isize);
            let sum = |(i, j)| by.iter().map(|(a, b)| at(i - a, j - b)).sum();
            (0..n).map(|p| sum(place(p))).collect()
        };
        let nine: Vec<(isize, isize)> = (0..9).map(|k| (k / 3 - 1, k % 3 - 1)).collect();
        for gathered in [of.take(&k), of.unsqueeze(1).embedding(&k).squeeze(2)] {
            let shifted = |&(i, j): &(isize, isize)| gathered.roll((i, j), (0, 1));
            let sum = |by: &[(isize, isize)]| by.iter().map(shifted).reduce(|a, b| a + b).unwrap();
            equal(&sum(&nine), &SIZE, &around(&nine));
            // One shift, and one of each direction with a sum of rows.
            equal(&sum(&nine[..1]), &SIZE, &around(&nine[..1]));
            let four = [(1, 0), (-1, 0), (0, 1), (0, -1)];
            let want: Vec<f64> = around(&four)
                .chunks(SIZE[1])
                .map(|row| row.iter().sum())
                .collect();
            let tolerance = if dtype.is_half() { 0.01 } else { 0.0 };
            near(&sum(&four).sum(1), &[SIZE[0]], &want, tolerance);
        }
    });
}
