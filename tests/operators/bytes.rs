//! Kernels of bytes and truth values alone, whose lanes are bytes where rows are long enough, against loops over elements.

use ferrotrace::DType::*;
use ferrotrace::prelude::*;

/// Rows, and columns beside the sizes of registers.
const SIZES: [(usize, usize); 9] = [
    (1, 1),
    (3, 31),
    (5, 63),
    (4, 64),
    (3, 65),
    (2, 128),
    (7, 191),
    (3, 255),
    (2, 1003),
];

fn both(f: impl Fn()) {
    for mode in [Mode::Compiled, Mode::Eager] {
        with_mode(mode, &f);
    }
}

fn noise(n: usize, seed: u64) -> Vec<u8> {
    let mixed = |i: u64| (i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (0..n as u64).map(|i| mixed(i) as u8).collect()
}

fn tensor<T: Element>(data: &[T], m: usize, n: usize) -> Tensor {
    Tensor::from_slice(data, [m, n], &Device::cpu())
}

#[test]
fn a_step_of_life() {
    both(|| {
        for (m, n) in SIZES {
            let cells: Vec<u8> = noise(m * n, 1).iter().map(|x| x % 2).collect();
            let at = |i: usize, j: usize| cells[i % m * n + j % n];
            let want: Vec<u8> = (0..m * n)
                .map(|place| {
                    let (i, j) = (place / n + m, place % n + n);
                    let around = [
                        (1, 1),
                        (1, 0),
                        (1, 2),
                        (0, 1),
                        (2, 1),
                        (0, 0),
                        (0, 2),
                        (2, 0),
                        (2, 2),
                    ];
                    let sum: u8 = around
                        .iter()
                        .skip(1)
                        .map(|&(a, b)| at(i + a - 1, j + b - 1))
                        .sum();
                    (sum == 3 || sum == 2 && at(i, j) == 1) as u8
                })
                .collect();
            let x = tensor(&cells, m, n);
            let columns = x.roll(1, 0) + x.roll(-1, 0);
            let whole = &x + &columns;
            let around = whole.roll(1, 1) + whole.roll(-1, 1) + columns;
            let lives = around.eq(3).logical_or(&around.eq(2).logical_and(&x.eq(1)));
            assert_eq!(lives.to_dtype(U8).to_vec::<u8>().unwrap(), want, "{m} {n}");
        }
    });
}

#[test]
fn arithmetic_and_comparisons_of_bytes() {
    both(|| {
        for (m, n) in SIZES {
            let (a, b) = (noise(m * n, 2), noise(m * n, 30));
            let (x, y) = (tensor(&a, m, n), tensor(&b, m, n));
            let got = x.maximum(&y).minimum(200) * 3u8 - &y;
            let got = x.gt(&y).where_cond(&got, &x.bitwise_xor(&y));
            let want = a.iter().zip(&b).map(|(&a, &b)| match a > b {
                true => a.max(b).min(200).wrapping_mul(3).wrapping_sub(b),
                false => a ^ b,
            });
            assert_eq!(got.to_vec::<u8>().unwrap(), want.collect::<Vec<u8>>());
            let signed = |list: &[u8]| list.iter().map(|&x| x as i8).collect::<Vec<i8>>();
            let (a, b) = (signed(&a), signed(&b));
            let (x, y) = (tensor(&a, m, n), tensor(&b, m, n));
            let got = x.lt(&y).to_dtype(I8) * -7i8 + (-&x).maximum(&y.bitwise_not());
            let want = a.iter().zip(&b).map(|(&a, &b)| {
                let factor = if a < b { -7 } else { 0i8 };
                factor.wrapping_add(a.wrapping_neg().max(!b))
            });
            assert_eq!(got.to_vec::<i8>().unwrap(), want.collect::<Vec<i8>>());
        }
    });
}

#[test]
fn windows_edges_and_joins_of_masks() {
    both(|| {
        for (m, n) in SIZES.into_iter().filter(|&(_, n)| n > 2) {
            let mask: Vec<bool> = noise(m * n, 3).iter().map(|x| x % 3 > 0).collect();
            let x = tensor(&mask, m, n);
            let at = |i: usize, j: usize| mask[i * n + j];
            let part = |start: isize| x.narrow(1, start, n - 2);
            let eroded = part(0).logical_and(&part(1)).logical_and(&part(2));
            let of = |i: usize, j: usize| (0..3).all(|k| at(i, j + k));
            let want = (0..m).flat_map(|i| (0..n - 2).map(move |j| (i, j)));
            let want: Vec<bool> = want.map(|(i, j)| of(i, j)).collect();
            assert_eq!(eroded.to_vec::<bool>().unwrap(), want, "{m} {n}");
            let framed = eroded
                .pad(&[(0, 0), (1, 1)], true)
                .logical_xor(&x.logical_not());
            let is = |i: usize, j: usize| (j == 0 || j == n - 1 || of(i, j - 1)) == at(i, j);
            let want = (0..m).flat_map(|i| (0..n).map(move |j| (i, j)));
            let want: Vec<bool> = want.map(|(i, j)| is(i, j)).collect();
            assert_eq!(framed.to_vec::<bool>().unwrap(), want, "{m} {n}");
            let joined = Tensor::cat(&[&x, &framed], 1).logical_and(&x.repeat(&[1, 2]));
            let joined = joined.to_vec::<bool>().unwrap();
            for i in 0..m {
                for j in 0..n {
                    assert_eq!(joined[i * 2 * n + j], at(i, j));
                    assert_eq!(joined[i * 2 * n + n + j], is(i, j) && at(i, j));
                }
            }
        }
    });
}

#[test]
fn any_and_all_of_masks() {
    both(|| {
        for (m, n) in SIZES {
            // A row holds one of its kind alone, at the end or inside.
            for seldom in [n - 1, n / 2, n] {
                let mask: Vec<bool> = (0..m * n).map(|place| place % n == seldom).collect();
                let x = tensor(&mask, m, n);
                let is = (seldom < n) as usize;
                let any = x.logical_and(&x.logical_or(&x.logical_not())).any(1);
                assert_eq!(any.to_vec::<bool>().unwrap(), vec![is == 1; m], "{m} {n}");
                let all = x
                    .logical_not()
                    .logical_or(&x.logical_and(&x.logical_not()))
                    .all(1);
                assert_eq!(all.to_vec::<bool>().unwrap(), vec![is == 0; m], "{m} {n}");
                let whole = [
                    x.logical_xor(&x.logical_not()).all(..),
                    x.logical_and(&x).any(..),
                ];
                let whole = whole.map(|x| x.to_scalar::<bool>().unwrap());
                assert_eq!(whole, [true, is == 1], "{m} {n}");
                let rows = x.logical_and(&x).any(0).to_vec::<bool>().unwrap();
                let want = (0..n).map(|j| j == seldom).collect::<Vec<bool>>();
                assert_eq!(rows, want, "{m} {n}");
                let kept = x.any_keepdim(1).logical_and(&x.logical_not());
                let count = kept.sum(..).to_scalar::<i64>().unwrap();
                assert_eq!(count as usize, is * m * (n - 1), "{m} {n}");
            }
        }
    });
}

/// What is computed at length before and after a reduction may be kept in memory between the loops.
#[test]
fn long_chains_around_a_reduction() {
    both(|| {
        for (m, n) in SIZES {
            let mask: Vec<bool> = noise(m * n, 6).iter().map(|x| x % 3 > 0).collect();
            let (mut x, mut want) = (tensor(&mask, m, n), mask);
            let step = |row: &[bool], j: usize, k: usize| {
                row[j] ^ (row[(j + k) % n] & !row[(j + 2 * k) % n])
            };
            for k in 1..12 {
                let turned = |by: usize| x.roll(-(by as isize), 1);
                x = x.logical_xor(&turned(k).logical_and(&turned(2 * k).logical_not()));
                let rows = want.chunks(n);
                let next = rows.flat_map(|row| (0..n).map(move |j| step(row, j, k)));
                want = next.collect();
            }
            let numbers = x.to_dtype(U8) * 7u8 - 3u8;
            let several = (&numbers + &numbers.eq(4).to_dtype(U8)).bitwise_xor(&numbers.maximum(9));
            let test = several.ne(0).all_keepdim(1);
            let got = test
                .where_cond(&several, &(&several * 5u8))
                .to_vec::<u8>()
                .unwrap();
            let several = |x: bool| {
                let number = (x as u8).wrapping_mul(7).wrapping_sub(3);
                number.wrapping_add((number == 4) as u8) ^ number.max(9)
            };
            for (row, got) in want.chunks(n).zip(got.chunks(n)) {
                let is_all = row.iter().all(|&x| several(x) != 0);
                let one = |&x: &bool| several(x).wrapping_mul(if is_all { 1 } else { 5 });
                assert_eq!(got, row.iter().map(one).collect::<Vec<u8>>(), "{m} {n}");
            }
        }
    });
}

#[test]
fn strided_and_expanded_bytes() {
    both(|| {
        for (m, n) in SIZES {
            let list = noise(m * n, 4);
            let x = tensor(&list, m, n);
            let turned = (x.t() + 1u8).bitwise_and(&x.flip(1).t());
            let want = (0..n).flat_map(|j| (0..m).map(move |i| (i, j)));
            let want = want.map(|(i, j)| list[i * n + j].wrapping_add(1) & list[i * n + n - 1 - j]);
            assert_eq!(turned.to_vec::<u8>().unwrap(), want.collect::<Vec<u8>>());
            let row = x.narrow(0, 0, 1).expand([m, n]).eq(&x.narrow(1, 0, 1));
            let want = (0..m).flat_map(|i| (0..n).map(move |j| (i, j)));
            let want = want.map(|(i, j)| list[j] == list[i * n]);
            assert_eq!(row.to_vec::<bool>().unwrap(), want.collect::<Vec<bool>>());
            let every = x.slice(1, 0, isize::MAX, 2) * 3u8;
            let want = (0..m).flat_map(|i| (0..n).step_by(2).map(move |j| (i, j)));
            let want = want.map(|(i, j)| list[i * n + j].wrapping_mul(3));
            assert_eq!(every.to_vec::<u8>().unwrap(), want.collect::<Vec<u8>>());
        }
    });
}

#[test]
fn reductions_and_scans_of_bytes() {
    both(|| {
        for (m, n) in SIZES {
            let list = noise(m * n, 5);
            let x = tensor(&list, m, n);
            let rows: Vec<&[u8]> = list.chunks(n).collect();
            let of = |f: &dyn Fn(&[u8]) -> i64| rows.iter().map(|row| f(row)).collect::<Vec<i64>>();
            let place =
                |row: &[u8], value: u8| row.iter().position(|&x| x == value).unwrap() as i64;
            let greatest = of(&|row| place(row, *row.iter().max().unwrap()));
            assert_eq!(
                (&x + 0u8).argmax(1).to_vec::<i64>().unwrap(),
                greatest,
                "{m} {n}"
            );
            let least = of(&|row| place(row, *row.iter().min().unwrap()));
            assert_eq!(
                (&x + 0u8).argmin(1).to_vec::<i64>().unwrap(),
                least,
                "{m} {n}"
            );
            let sums = of(&|row| row.iter().map(|&x| i64::from(x)).sum());
            assert_eq!((&x + 0u8).sum(1).to_vec::<i64>().unwrap(), sums, "{m} {n}");
            let counts = of(&|row| row.iter().filter(|&&x| x > 100).count() as i64);
            assert_eq!(x.gt(100).sum(1).to_vec::<i64>().unwrap(), counts, "{m} {n}");
            let extremes = ((&x + 0u8).max(1) - x.min(1)).to_vec::<u8>().unwrap();
            let want = rows
                .iter()
                .map(|row| row.iter().max().unwrap() - row.iter().min().unwrap());
            assert_eq!(extremes, want.collect::<Vec<u8>>(), "{m} {n}");
            let ends = (&x + 0u8)
                .cumsum(1)
                .narrow(1, n as isize - 1, 1)
                .to_vec::<i64>()
                .unwrap();
            assert_eq!(ends, sums, "{m} {n}");
        }
    });
}

/// A half type, whose numbers go by their bits here.
struct Half<T> {
    from_bits: fn(u16) -> T,
    bits: fn(T) -> u16,
    is_nan: fn(T) -> bool,
    tenth: T,
}

impl<T: Element> Half<T> {
    /// Three rows of `n` elements, every fifth of them infinite or NaN with a payload.
    fn rows(&self, n: usize) -> Tensor {
        let some = |i: u64| match i.is_multiple_of(5) {
            true => (i.wrapping_mul(0x9e37_79b9) >> 5) as u16 | 0x7c00,
            false => (i.wrapping_mul(0x9e37_79b9) >> 5) as u16,
        };
        let all: Vec<T> = (0..n as u64 * 3)
            .map(|i| (self.from_bits)(some(i)))
            .collect();
        tensor(&all, 3, n)
    }

    fn read(&self, x: &Tensor) -> Vec<u16> {
        let all = x.to_vec::<T>().unwrap();
        all.into_iter().map(self.bits).collect()
    }

    fn is_nan(&self, bits: u16) -> bool {
        (self.is_nan)((self.from_bits)(bits))
    }

    /// One pattern for all NaN.
    fn quiet(&self, all: Vec<u16>) -> Vec<u16> {
        let one = |bits| if self.is_nan(bits) { 0x7fff } else { bits };
        all.into_iter().map(one).collect()
    }

    fn moved(&self, n: usize) {
        let (x, number) = (self.rows(n), (self.bits)(self.tenth));
        let old = self.read(&x);
        let at = |i: usize, j: usize| old[i * n + j];
        let joined = Tensor::cat(&[&x, &x.flip(0)], 1);
        let want = |i, j| if j < n { at(i, j) } else { at(2 - i, j - n) };
        assert_eq!(self.read(&joined), each(3, 2 * n, want), "{n}");
        // The number is rounded to the half type as it would be elsewhere.
        let padded = x.pad(&[(0, 1), (2, 3)], 0.1);
        let inside = |i: usize, j: usize| i < 3 && (2..n + 2).contains(&j);
        let want = |i, j| if inside(i, j) { at(i, j - 2) } else { number };
        assert_eq!(self.read(&padded), each(4, n + 5, want), "{n}");
        let turned = x.roll(2, 1).transpose(0, 1).narrow(1, 1, 2);
        let want = |j, i| at(i + 1, (j + 2 * n - 2) % n);
        assert_eq!(self.read(&turned.contiguous()), each(n, 2, want), "{n}");
        let row = x.narrow(0, 1, 1).expand([4, n]).contiguous();
        assert_eq!(self.read(&row), each(4, n, |_, j| at(1, j)), "{n}");
    }

    /// A test of what is moved, and arithmetic beside a move: NaN may become quiet then.
    fn read_otherwise_too(&self, n: usize) {
        let (x, number) = (self.rows(n), (self.bits)(self.tenth));
        let old = self.read(&x);
        let at = |i: usize, j: usize| old[i * n + j];
        let chosen = x.isnan().where_cond(&x.flip(0), &x);
        let want = each(3, n, |i, j| {
            if self.is_nan(at(i, j)) {
                at(2 - i, j)
            } else {
                at(i, j)
            }
        });
        assert_eq!(self.quiet(self.read(&chosen)), self.quiet(want), "{n}");
        let third: Vec<bool> = (0..3 * n).map(|place| place % 3 == 0).collect();
        let (filled, shifted) = (
            x.masked_fill(&tensor(&third, 3, n), 0.1),
            x.roll(1, 0) * 0.0,
        );
        eval([&filled, &shifted]).unwrap();
        let want = each(
            3,
            n,
            |i, j| if third[i * n + j] { number } else { at(i, j) },
        );
        assert_eq!(self.quiet(self.read(&filled)), self.quiet(want), "{n}");
    }
}

fn each(m: usize, n: usize, f: impl Fn(usize, usize) -> u16) -> Vec<u16> {
    (0..m * n).map(|place| f(place / n, place % n)).collect()
}

#[test]
fn kernels_alike_have_their_own_numbers() {
    both(|| {
        let x = Tensor::ones([4, 70], BF16, &Device::cpu());
        let padded: Vec<Tensor> = (2..6).map(|i| x.pad(&[(0, 0), (i, i)], i)).collect();
        let several = (2..6).map(|i| x.roll(1, 1).pad(&[(0, 0), (3, 3)], i));
        let padded: Vec<Tensor> = padded.into_iter().chain(several).collect();
        eval(&padded).unwrap();
        for (x, want) in padded.iter().zip((2..6).chain(2..6)) {
            let first = x.narrow(1, 0, 2).to_dtype(F64).to_vec::<f64>().unwrap();
            assert_eq!(first, [f64::from(want); 8]);
        }
    });
}

#[test]
fn moved_halves_keep_their_bits() {
    fn check<T: Element>(half: Half<T>) {
        for n in [1, 15, 31, 32, 33, 64, 100, 257] {
            half.moved(n);
            half.read_otherwise_too(n);
        }
    }
    both(|| {
        check(Half {
            from_bits: half::bf16::from_bits,
            bits: half::bf16::to_bits,
            is_nan: half::bf16::is_nan,
            tenth: half::bf16::from_f64(0.1),
        });
        check(Half {
            from_bits: half::f16::from_bits,
            bits: half::f16::to_bits,
            is_nan: half::f16::is_nan,
            tenth: half::f16::from_f64(0.1),
        });
    });
}

#[test]
fn reductions_of_columns() {
    both(|| {
        for (n, m) in SIZES {
            let list = noise(m * n, 6);
            let x = tensor(&list, m, n);
            let column = |j: usize| list.iter().skip(j).step_by(n).copied();
            let all = |f: &dyn Fn(usize) -> i64| (0..n).map(f).collect::<Vec<i64>>();
            let longs = |x: Tensor| x.to_dtype(I64).to_vec::<i64>().unwrap();
            let greatest = all(&|j| column(j).max().unwrap().into());
            assert_eq!(longs(x.max(0)), greatest, "{m} {n}");
            let signed = all(&|j| column(j).map(|x| x as i8).min().unwrap().into());
            assert_eq!(longs(x.to_dtype(I8).min(0)), signed, "{m} {n}");
            let short = x.to_dtype(I16) * 100;
            let want: Vec<i64> = greatest.iter().map(|x| x * 100).collect();
            assert_eq!(longs(short.max(0)), want, "{m} {n}");
            let place = |j: usize, of: u8| column(j).position(|x| x == of).unwrap() as i64;
            let places = all(&|j| place(j, column(j).max().unwrap()));
            assert_eq!(longs((&x + 0u8).argmax(0)), places, "{m} {n}");
            let places = all(&|j| place(j, column(j).min().unwrap()));
            assert_eq!(longs((&x + 0u8).argmin(0)), places, "{m} {n}");
            let any = all(&|j| column(j).any(|x| x > 250).into());
            assert_eq!(longs(x.gt(250).any(0)), any, "{m} {n}");
            let every = all(&|j| column(j).all(|x| x > 5).into());
            assert_eq!(longs(x.gt(5).all(0)), every, "{m} {n}");
            let sums = all(&|j| column(j).map(i64::from).sum());
            assert_eq!(longs((&x + 0u8).sum(0)), sums, "{m} {n}");
            let count = all(&|j| column(j).filter(|&x| x > 100).count() as i64);
            assert_eq!(longs(x.gt(100).sum(0)), count, "{m} {n}");
        }
    });
}

#[test]
fn sums_on_both_sides_of_32_bits() {
    both(|| {
        // The least sum that 32 bits hold is -2^31.
        for n in [65_535, 65_536, 65_537] {
            let x = Tensor::full([2, n], i16::MIN, I16, &Device::cpu()) + 0i16;
            let want = vec![-32_768 * n as i64; 2];
            assert_eq!(x.sum(1).to_vec::<i64>().unwrap(), want, "{n}");
            let x = Tensor::full([n, 2], i16::MIN, I16, &Device::cpu()) + 0i16;
            assert_eq!(x.sum(0).to_vec::<i64>().unwrap(), want, "{n}");
        }
        for n in [8_421_504, 8_421_505] {
            let x = Tensor::full([1, n], 255, U8, &Device::cpu()) + 0u8;
            assert_eq!(x.sum(1).to_vec::<i64>().unwrap(), [255 * n as i64]);
            assert_eq!(x.ne(0).sum(..).to_scalar::<i64>().unwrap(), n as i64);
        }
    });
}
