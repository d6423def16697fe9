//! Writing slices: whatever is done in place, no other handle sees it, and the numbers are those of a copy.

use ferrotrace::DType::*;
use ferrotrace::prelude::*;
use ferrotrace::stats_scope;

const END: isize = isize::MAX;

/// Runs `f` compiled, tiered and eagerly.
fn everywhere(f: impl Fn()) {
    for mode in [Mode::Compiled, Mode::Eager, Mode::Tiered] {
        with_mode(mode, &f);
    }
}

fn numbers(x: &Tensor) -> Vec<f64> {
    let x = x.to_dtype(F64).to_vec::<f64>();
    x.unwrap_or_else(|e| panic!("{e}"))
}

/// Numbers that all dtypes but `Bool` hold.
fn counting(n: usize) -> Vec<f64> {
    (0..n).map(|i| (i * 7 % 31) as f64).collect()
}

fn tensor(data: &[f64], shape: [usize; 2], dtype: DType) -> Tensor {
    Tensor::from_slice(data, shape, &Device::cpu()).to_dtype(dtype)
}

/// Rows and columns of a matrix, by start, end and step.
type Cut = [(usize, usize, usize); 2];

/// The matrix with what `f` gives for each position of the cut.
fn written(data: &[f64], columns: usize, cut: Cut, f: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let mut data = data.to_vec();
    for (i, row) in (cut[0].0..cut[0].1).step_by(cut[0].2).enumerate() {
        for (j, column) in (cut[1].0..cut[1].1).step_by(cut[1].2).enumerate() {
            data[row * columns + column] = f(i, j);
        }
    }
    data
}

/// Writes `source` to the cut of a tensor, in the way that [`written`] does to a list.
fn assign(x: &Tensor, cut: Cut, source: &Tensor) -> Tensor {
    let of = |at: (usize, usize, usize)| (at.0 as isize, at.1 as isize, at.2);
    let (rows, columns) = (of(cut[0]), of(cut[1]));
    let part = x.slice(0, rows.0, rows.1, rows.2);
    let part = part.slice_assign(1, columns.0, columns.1, columns.2, source);
    x.slice_assign(0, rows.0, rows.1, rows.2, &part)
}

const CUTS: [Cut; 6] = [
    [(3, 4, 1), (0, 90, 1)],
    [(0, 70, 1), (89, 90, 1)],
    [(1, 69, 1), (1, 89, 1)],
    [(0, 70, 3), (5, 61, 4)],
    [(10, 11, 1), (17, 18, 1)],
    [(0, 70, 1), (0, 90, 1)],
];

#[test]
fn parts_of_every_dtype_are_written() {
    everywhere(|| {
        for dtype in DType::ALL {
            let data: Vec<f64> = match dtype {
                Bool => counting(70 * 90).iter().map(|x| x % 2.0).collect(),
                _ => counting(70 * 90),
            };
            for cut in CUTS {
                let x = tensor(&data, [70, 90], dtype);
                let one = Tensor::ones([1, 1], dtype, &Device::cpu());
                let y = assign(&x, cut, &one);
                assert_eq!(
                    numbers(&y),
                    written(&data, 90, cut, |_, _| 1.0),
                    "{dtype} {cut:?}"
                );
                assert_eq!(numbers(&x), data, "{dtype} {cut:?}");
            }
        }
    });
}

// The source is of another dtype, strided, turned round, broadcast along rows or columns.
#[test]
fn sources_are_converted_and_broadcast() {
    everywhere(|| {
        let data = counting(70 * 90);
        let cut: Cut = [(4, 64, 2), (3, 63, 3)];
        let source: Vec<f64> = (0..600).map(|i| i as f64).collect();
        let whole = tensor(&source, [30, 20], I32);
        for dtype in [F64, F32, I64] {
            let x = tensor(&data, [70, 90], dtype);
            let turned = whole.flip(0).t().t();
            let want = written(&data, 90, cut, |i, j| source[(29 - i) * 20 + j]);
            assert_eq!(numbers(&assign(&x, cut, &turned)), want, "{dtype}");
            let row = whole.narrow(0, 3, 1);
            let want = written(&data, 90, cut, |_, j| source[60 + j]);
            assert_eq!(numbers(&assign(&x, cut, &row)), want, "{dtype}");
            let column = whole.slice(1, 7, 8, 1);
            let want = written(&data, 90, cut, |i, _| source[20 * i + 7]);
            assert_eq!(numbers(&assign(&x, cut, &column)), want, "{dtype}");
        }
    });
}

// What is read is what was there before, also where the places read and written overlap.
#[test]
fn overlapping_reads_see_the_old_data() {
    everywhere(|| {
        let n = 20_000;
        let data = counting(n);
        for shift in [-3isize, -1, 0, 1, 64] {
            let mut x = Tensor::from_slice(&data, n, &Device::cpu());
            x.eval().expect("it runs");
            let (start, len) = (100, 15_000);
            x = x.slice_assign(0, 100, 15_100, 1, &(x.narrow(0, start + shift, len) * 2.0));
            let mut want = data.clone();
            for i in 0..len {
                want[100 + i] = data[(start + shift) as usize + i] * 2.0;
            }
            assert_eq!(numbers(&x), want, "{shift}");
        }
        // A view, without anything computed.
        let mut x = Tensor::from_slice(&data, n, &Device::cpu());
        x = x.slice_assign(0, 0, 8_000, 1, &x.narrow(0, 5, 8_000).flip(0));
        let mut want = data.clone();
        (0..8_000).for_each(|i| want[i] = data[8_004 - i]);
        assert_eq!(numbers(&x), want);
    });
}

#[test]
fn other_handles_and_views_keep_their_data() {
    everywhere(|| {
        let data = counting(100 * 200);
        let mut x = tensor(&data, [100, 200], F64);
        let (kept, row) = (x.clone(), x.narrow(0, 7, 1));
        let mut want = data.clone();
        for i in 0..20 {
            x = x.slice_assign(0, i, i + 1, 1, &Tensor::zeros(200, F64, &Device::cpu()));
            want[200 * i as usize..200 * (i as usize + 1)].fill(0.0);
            if i == 10 {
                let middle = x.clone();
                x = x.slice_assign(1, 0, 1, 1, &Tensor::ones([100, 1], F64, &Device::cpu()));
                let there = want.clone();
                (0..100).for_each(|r| want[200 * r] = 1.0);
                assert_eq!(numbers(&middle), there);
            }
        }
        assert_eq!(numbers(&x), want);
        assert_eq!(numbers(&kept), data);
        assert_eq!(numbers(&row), data[1400..1600]);
    });
}

#[test]
fn rows_change_places() {
    everywhere(|| {
        let data = counting(50 * 400);
        let mut x = tensor(&data, [50, 400], F64);
        let (a, b) = (x.narrow(0, 3, 1), x.narrow(0, 40, 1));
        x = x.slice_assign(0, 3, 4, 1, &b);
        x = x.slice_assign(0, 40, 41, 1, &a);
        drop((a, b));
        let mut want = data.clone();
        want[1200..1600].copy_from_slice(&data[16_000..16_400]);
        want[16_000..16_400].copy_from_slice(&data[1200..1600]);
        assert_eq!(numbers(&x), want);
    });
}

#[test]
fn empty_slices_write_nothing() {
    everywhere(|| {
        let data = counting(60 * 100);
        let x = tensor(&data, [60, 100], F64);
        let nothing = Tensor::zeros([0, 100], F64, &Device::cpu());
        for (start, end) in [(5, 5), (9, 2), (60, END), (-1, -5)] {
            assert_eq!(numbers(&x.slice_assign(0, start, end, 1, &nothing)), data);
        }
        let empty = Tensor::zeros([0, 3], F64, &Device::cpu());
        let one = Tensor::ones([1, 1], F64, &Device::cpu());
        assert_eq!(numbers(&empty.slice_assign(1, 0, 2, 1, &one)), []);
    });
}

/// Steps of a wave that is written over the step before last, and its edges after each.
fn wave(mut before: Tensor, mut now: Tensor, steps: usize) -> Tensor {
    for _ in 0..steps {
        let inner = |x: &Tensor, r: isize, c: isize| x.narrow(0, 1 + r, 48).narrow(1, 1 + c, 58);
        let around =
            inner(&now, -1, 0) + inner(&now, 1, 0) + inner(&now, 0, -1) + inner(&now, 0, 1);
        let next = around * 0.5 - inner(&before, 0, 0);
        let next = assign(&before, [(1, 49, 1), (1, 59, 1)], &next);
        let next = next.slice_assign(0, 0, 1, 1, &next.slice(0, 2, 3, 1));
        let next = next.slice_assign(1, -1, END, 1, &next.slice(1, 0, 1, 1));
        (before, now) = (now, next);
    }
    now
}

#[test]
fn a_wave_moves_as_in_plain_loops() {
    let (rows, columns) = (50, 60);
    let data: Vec<f64> = counting(rows * columns).iter().map(|x| x / 8.0).collect();
    let (mut before, mut now) = (data.clone(), data.clone());
    for _ in 0..7 {
        let mut next = before.clone();
        for i in 1..rows - 1 {
            for j in 1..columns - 1 {
                let at = |r: usize, c: usize| now[r * columns + c];
                let around = at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1);
                next[i * columns + j] = around * 0.5 - before[i * columns + j];
            }
        }
        (0..columns).for_each(|j| next[j] = next[2 * columns + j]);
        (0..rows).for_each(|i| next[i * columns + columns - 1] = next[i * columns]);
        (before, now) = (now, next);
    }
    let start = || {
        let x = || tensor(&data, [50, 60], F64);
        (x(), x())
    };
    everywhere(|| {
        let (a, b) = start();
        assert_eq!(numbers(&wave(a, b, 7)), now);
    });
    let (a, b) = start();
    let step = jit(|(a, b): (Tensor, Tensor)| wave(a, b, 7));
    assert_eq!(numbers(&step.call((a, b))), now);
}

// In each mode `x = x.slice_assign(..)` leaves the data where it is, once nothing else holds it.
#[test]
fn a_loop_of_writes_copies_nothing() {
    let n = 64 << 10;
    for mode in [Mode::Compiled, Mode::Eager] {
        with_mode(mode, || {
            let mut x = Tensor::zeros(n, F64, &Device::cpu());
            let row = Tensor::ones(100, F64, &Device::cpu());
            eval([&x, &row]).expect("it runs");
            let ((), stats) = stats_scope(|| {
                for i in 0..40 {
                    x = x.slice_assign(0, 100 * i, 100 * i + 100, 1, &row);
                    x.eval().expect("it runs");
                }
            });
            assert!(
                stats.bytes_allocated < 40 * 8 * 1000,
                "{}",
                stats.bytes_allocated
            );
            let want = |i: usize| if i < 4000 { 1.0 } else { 0.0 };
            assert_eq!(numbers(&x), (0..n).map(want).collect::<Vec<_>>());
            // Only the window that is read is copied, not the whole tensor.
            let ((), stats) = stats_scope(|| {
                for i in 0..40 {
                    let row = x.narrow(0, 100 * i, 100) * 1.0;
                    x = x.slice_assign(0, 100 * i, 100 * i + 100, 1, &row);
                    drop(row);
                    x.eval().expect("it runs");
                    let next = x.narrow(0, 100 * i, 50);
                    x = x.slice_assign(0, 100 * i, 100 * i + 50, 1, &next);
                    drop(next);
                    x.eval().expect("it runs");
                }
            });
            assert!(
                stats.bytes_allocated < 80 * 8 * 1000,
                "{}",
                stats.bytes_allocated
            );
            // Another handle costs one copy.
            let kept = x.clone();
            let ((), stats) = stats_scope(|| {
                for i in 0..40 {
                    x = x.slice_assign(0, 8000 + i, 8001 + i, 1, &row.narrow(0, 0, 1));
                    x.eval().expect("it runs");
                }
            });
            assert!(
                stats.bytes_allocated < 8 * (n as u64 + 1000),
                "{}",
                stats.bytes_allocated
            );
            assert_eq!(numbers(&kept), (0..n).map(want).collect::<Vec<_>>());
        });
    }
}
