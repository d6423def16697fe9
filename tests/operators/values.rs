//! What programs may rely on whatever is fused, on the CPU in both modes, and on a CUDA device where there is one.

use crate::common::{device, numbers};
use ferrotrace::DType::*;
use ferrotrace::prelude::*;
use ferrotrace::stats_scope;

/// Runs `f` on the CPU and on a device, compiled and eagerly.
fn everywhere(f: impl Fn(&Device)) {
    for device in [Some(Device::cpu()), device()].iter().flatten() {
        for mode in [Mode::Compiled, Mode::Eager] {
            with_mode(mode, || f(device));
        }
    }
}

// ir T28: no vector of a window need be aligned.
#[test]
fn windows_may_begin_at_any_element() {
    const N: usize = 331;
    everywhere(|device| {
        for dtype in DType::ALL {
            let value = |i: usize| match dtype {
                Bool => (i * 7 % 13 % 2) as f64,
                _ => (i * 7 % 13) as f64,
            };
            let data: Vec<f64> = (0..N + 8).map(value).collect();
            let x = Tensor::from_slice(&data, N + 8, device).to_dtype(dtype);
            x.eval().expect("it runs");
            for offset in 0..8 {
                let window = x.narrow(0, offset as isize, N);
                let next = match dtype {
                    Bool => window.logical_not(),
                    _ => &window + 1,
                };
                let sum = window.to_dtype(F64).sum(0);
                let want = |i: usize| match dtype {
                    Bool => 1.0 - value(i),
                    _ => value(i) + 1.0,
                };
                let want: Vec<f64> = (offset..offset + N).map(want).collect();
                assert_eq!(numbers(&next), want, "{dtype} from {offset}");
                let want: f64 = data[offset..offset + N].iter().sum();
                assert_eq!(numbers(&sum), [want], "{dtype} from {offset}");
            }
        }
    });
}

/// Ten operations that give back what they are given.
fn hidden(x: &Tensor) -> Tensor {
    (0..5).fold(x.clone(), |y, _| (y + 1.0) - 1.0)
}

// ir T33: readers before a write see what was there.
#[test]
fn readers_before_a_write_see_what_was_there() {
    everywhere(|device| {
        let mut x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, device);
        let before = [hidden(&x), &x * 2.0, hidden(&x).sum(0)];
        x += 10.0;
        let after = [hidden(&x), hidden(&(&x * 2.0))];
        x *= 0.0;
        let want: [&[f64]; 5] = [
            &[1.0, 2.0, 3.0],
            &[2.0, 4.0, 6.0],
            &[6.0],
            &[11.0, 12.0, 13.0],
            &[22.0, 24.0, 26.0],
        ];
        for (reader, want) in before.iter().chain(&after).zip(want) {
            assert_eq!(numbers(reader), want);
        }
        assert_eq!(numbers(&x), [0.0; 3]);
    });
}

// ir T36: a constant that is written to is another value.
#[test]
fn a_constant_that_is_written_to_is_another() {
    everywhere(|device| {
        let make = || Tensor::full([4], 2.5, F32, device);
        let mut c = make();
        let early = &c * 2.0;
        c += 1.0;
        let late = &c * 2.0;
        assert_eq!(numbers(&early), [5.0; 4]);
        assert_eq!(numbers(&late), [7.0; 4]);
        assert_eq!(
            (numbers(&c), numbers(&make())),
            (vec![3.5; 4], vec![2.5; 4])
        );
    });
}

// ir T40: a write is a value like any other.
#[test]
fn what_nobody_reads_is_never_computed() {
    with_mode(Mode::Compiled, || {
        let device = Device::cpu();
        let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &device);
        x.eval().expect("it runs");
        let (mut kept, stats) = stats_scope(|| {
            let mut unread = x.clone();
            unread += 1.0;
            drop(unread.exp());
            let mut kept = x.clone();
            kept *= 3.0;
            kept
        });
        assert_eq!((stats.flushes, stats.kernels_launched), (0, 0));
        kept += 1.0;
        assert_eq!(
            (numbers(&kept), numbers(&x)),
            (vec![4.0, 7.0], vec![1.0, 2.0])
        );
    });
}

// ir T73: random numbers are drawn once for all readers.
#[test]
fn random_numbers_are_drawn_once_for_all_their_readers() {
    everywhere(|device| {
        let n = 3000;
        let draw = Tensor::rand([n], F32, device);
        // A kernel of its own, a sort, and a reduction: none is part of another.
        let copy = (&draw + 0.0).barrier();
        let (sorted, _) = draw.sort(0, false);
        let most = draw.max(0);
        drop(draw);
        eval([&copy, &sorted, &most]).expect("they run");
        let mut copy = numbers(&copy);
        copy.sort_by(f64::total_cmp);
        assert_eq!(numbers(&sorted), copy);
        assert_eq!(numbers(&most), [copy[n - 1]]);
        assert!(copy[0] < copy[n - 1]);
    });
}

// ir T76: integers wrap.
#[test]
fn integers_wrap() {
    everywhere(|device| {
        let ints = |values: &[i64], dtype| {
            let x = Tensor::from_slice(values, values.len(), device).to_dtype(dtype);
            x.eval().expect("it runs");
            x
        };
        let read = |x: Tensor| x.to_dtype(I64).to_vec::<i64>().expect("it runs");
        for (dtype, bits) in [(I8, 8), (I16, 16), (I32, 32), (I64, 64)] {
            let least = i64::MIN >> (64 - bits);
            let most = !least;
            let x = ints(&[most, least, -1], dtype);
            assert_eq!(read(&x + 1), [least, least + 1, 0], "{dtype}");
            assert_eq!(read(x.abs()), [most, least, 1], "{dtype}");
            assert_eq!(read(-&x), [-most, least, 1], "{dtype}");
        }
        let bytes = ints(&[255, 0, 1], U8);
        assert_eq!(read(&bytes + 1), [0, 1, 2]);
        assert_eq!(read(-&bytes), [1, 0, 255]);
        let sum = ints(&[i64::MAX, i64::MAX, 5], I64).sum(0);
        assert_eq!(read(sum), [3]);
    });
}

/// Views that are longer than what is copied at a time, along the first dimension and along others.
#[test]
fn views_are_read_in_row_major_order() {
    everywhere(|device| {
        let [rows, columns] = [1030, 1100];
        let data: Vec<i32> = (0..(rows * columns) as i32).collect();
        let x = Tensor::from_slice(&data, [rows, columns], device);
        let at = |i: usize, j: usize| data[i * columns + j];
        let of = |view: &Tensor, [m, n]: [usize; 2], at: &dyn Fn(usize, usize) -> i32| {
            let want: Vec<i32> = (0..m * n).map(|k| at(k / n, k % n)).collect();
            assert_eq!(view.dims(), [m, n]);
            assert!(view.to_vec::<i32>().expect("elements") == want);
            let array = view.to_ndarray::<i32>().expect("elements");
            assert!(array.iter().eq(&want));
        };
        of(&x.t(), [columns, rows], &|i, j| at(j, i));
        of(&x.narrow(1, 3, 1097), [rows, 1097], &|i, j| at(i, j + 3));
        of(&x.narrow(0, 5, 2), [2, columns], &|i, j| at(i + 5, j));
        of(&x.flip(0), [rows, columns], &|i, j| at(rows - 1 - i, j));
        let row = x.narrow(0, 7, 1).expand([1200, columns]);
        of(&row, [1200, columns], &|_, j| at(7, j));
        let one = x.narrow(1, 9, 1).t().narrow(0, 0, 1);
        of(&one, [1, rows], &|_, j| at(j, 9));
        let empty = x.narrow(1, 2, 0).t();
        assert!(empty.to_vec::<i32>().expect("no elements").is_empty());
    });
}

#[test]
fn more_elements_than_memory_holds_are_an_error() {
    everywhere(|device| {
        let one = Tensor::ones(1, F32, device);
        one.eval().expect("a number");
        let many = one.expand([1usize << 40]);
        let read = [many.to_vec::<f32>().err(), many.to_ndarray::<f32>().err()];
        for error in read {
            let error = error.expect("more than the machine has").to_string();
            assert!(error.contains("out of memory"), "{error}");
        }
    });
}
