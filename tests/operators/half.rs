//! Half precision: all uses of a value read one number, and a sum with its bias is rounded once. On the CPU in every mode, and
//! on a CUDA device where there is one.

use crate::common::{device, numbers};
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

/// Runs `f` on the CPU and on a device, compiled at once, in the background, and eagerly.
fn everywhere(f: impl Fn(&Device)) {
    for device in [Some(Device::cpu()), device()].iter().flatten() {
        for mode in [Mode::Compiled, Mode::Tiered, Mode::Eager] {
            with_mode(mode, || f(device));
        }
    }
}

fn half(data: &[f64], shape: &[usize], dtype: DType, device: &Device) -> Tensor {
    let x = Tensor::from_slice(data, data.len(), device);
    let x = x.to_dtype(dtype).reshape(shape.to_vec());
    x.eval().expect("it runs");
    x
}

/// 256 and 255.4, of which bfloat16 holds 256 and 255; and for each the number that eager mode has.
fn sums(device: &Device) -> Tensor {
    half(&[256.0, 255.0], &[2], BF16, device)
}

/// `f` of `x + 0.4`, evaluated together with the sum, gives these numbers.
#[track_caller]
fn together(name: &str, want: &[f64], f: impl Fn(&Tensor) -> Tensor) {
    everywhere(|device| {
        let y = &sums(device) + 0.4;
        let decision = f(&y);
        eval([&y, &decision]).expect("they run");
        assert_eq!(numbers(&y), [256.0, 255.0], "{name}: the sum");
        assert_eq!(numbers(&decision), want, "{name} on {device}");
    });
}

/// Checks `f` of the sum twice: evaluated together with the sum, and alone, in the kernel that computes the sum.
#[track_caller]
fn decided(name: &str, want: &[f64], f: impl Fn(&Tensor) -> Tensor) {
    together(name, want, &f);
    everywhere(|device| {
        let alone = f(&(&sums(device) + 0.4));
        assert_eq!(numbers(&alone), want, "{name} alone on {device}");
    });
}

#[test]
fn comparisons_read_the_rounded_number() {
    decided("eq", &[1.0, 0.0], |y| y.eq(256.0));
    decided("ne", &[0.0, 1.0], |y| y.ne(256.0));
    decided("gt", &[0.0, 0.0], |y| y.gt(256.0));
    decided("ge", &[1.0, 0.0], |y| y.ge(256.0));
    decided("lt", &[0.0, 1.0], |y| y.lt(256.0));
    decided("le", &[1.0, 1.0], |y| y.le(256.0));
    decided("eq of a view", &[1.0, 0.0], |y| {
        y.reshape(vec![1, 2]).eq(256.0)
    });
}

#[test]
fn truth_and_logic_read_the_rounded_number() {
    // 256.4 - 256 is 0.4 before it is rounded, 0 after.
    let zero = |y: &Tensor| y - 256.0;
    together("logical_not", &[1.0, 0.0], |y| zero(y).logical_not());
    together("logical_and", &[0.0, 1.0], |y| {
        zero(y).logical_and(&zero(y))
    });
    together("any", &[0.0], |y| zero(&y.narrow(0, 0, 1)).any(0));
    together("all", &[0.0], |y| zero(y).all(0));
    together("to bool", &[0.0, 1.0], |y| zero(y).to_dtype(Bool));
    together("count", &[1.0], |y| zero(y).count_nonzero(0));
}

#[test]
fn functions_that_jump_read_the_rounded_number() {
    decided("floor", &[256.0, 255.0], Tensor::floor);
    decided("ceil", &[256.0, 255.0], Tensor::ceil);
    decided("round", &[256.0, 255.0], Tensor::round);
    decided("trunc", &[256.0, 255.0], Tensor::trunc);
    decided("frac", &[0.0, 0.0], Tensor::frac);
    together("sign", &[0.0, -1.0], |y| (y - 256.0).sign());
    decided("remainder", &[0.0, 1.0], |y| y.remainder(2.0));
    decided("%", &[0.0, 3.0], |y| y % 4.0);
    decided("fmod", &[0.0, 1.0], |y| y.fmod(2.0));
    decided("floor_divide", &[1.0, 0.0], |y| y.floor_divide(256.0));
    decided("isinf", &[0.0, 0.0], Tensor::isinf);
    decided("isfinite", &[1.0, 1.0], Tensor::isfinite);
    decided("nan_to_num", &[256.0, 255.0], |y| {
        y.nan_to_num(0.0, 1.0, 2.0)
    });
}

#[test]
fn an_overflow_is_infinite_to_all_that_read_it() {
    everywhere(|device| {
        let y = &half(&[60000.0, 1.0], &[2], F16, device) * 2.0;
        let (infinite, finite) = (y.isinf(), y.isfinite());
        let replaced = y.nan_to_num(0.0, 7.0, -7.0);
        eval([&y, &infinite, &finite, &replaced]).expect("they run");
        assert_eq!(numbers(&y), [f64::INFINITY, 2.0]);
        assert_eq!(numbers(&infinite), [1.0, 0.0]);
        assert_eq!(numbers(&finite), [0.0, 1.0]);
        assert_eq!(numbers(&replaced), [7.0, 2.0]);
    });
}

#[test]
fn casts_read_the_rounded_number() {
    decided("f32", &[256.0, 255.0], |y| y.to_dtype(F32));
    decided("f64", &[256.0, 255.0], |y| y.to_dtype(F64));
    decided("f16", &[256.0, 255.0], |y| y.to_dtype(F16));
    decided("i64", &[256.0, 255.0], |y| y.to_dtype(I64));
    decided("a sum", &[512.0], |y| y.sum(0).to_dtype(I64));
    let wide = |y: &Tensor| y + &Tensor::zeros(2, F32, &y.device());
    together("promotion", &[256.0, 255.0], wide);
}

/// A row of numbers that only differ before they are rounded: the first is the greatest after.
fn tied(device: &Device) -> Tensor {
    let x = half(&[256.0, 256.0, 256.0], &[3], BF16, device);
    let small = half(&[0.0, 0.25, 0.5], &[3], BF16, device);
    &x + &small
}

#[test]
fn orders_and_positions_read_the_rounded_number() {
    everywhere(|device| {
        let of = |f: &dyn Fn(&Tensor) -> Tensor| {
            let y = tied(device);
            let z = f(&y);
            eval([&y, &z]).expect("they run");
            assert_eq!(numbers(&y), [256.0; 3]);
            (numbers(&z), numbers(&f(&tied(device))))
        };
        let check = |name: &str, want: &[f64], f: &dyn Fn(&Tensor) -> Tensor| {
            let (together, alone) = of(f);
            assert_eq!(together, want, "{name} on {device}");
            assert_eq!(alone, want, "{name} alone on {device}");
        };
        check("argmax", &[0.0], &|y| y.argmax(0));
        check("argmin of -y", &[0.0], &|y| (-y).argmin(0));
        check("max_with_index", &[0.0], &|y| y.max_with_index(0).1);
        check("cummax", &[0.0, 1.0, 2.0], &|y| y.cummax(0).1);
        check("cummin", &[0.0, 1.0, 2.0], &|y| y.cummin(0).1);
        check("argsort", &[0.0, 1.0, 2.0], &|y| y.argsort(0, true));
        check("sort", &[256.0; 3], &|y| y.sort(0, true).0);
        check("topk", &[0.0], &|y| y.topk(1, 0, true).1);
    });
}

/// A row's maximum, rounded, is one of the row's own elements.
#[test]
fn a_row_holds_its_maximum() {
    everywhere(|device| {
        for dtype in [BF16, F16] {
            let data: Vec<f64> = (0..1000 * 9).map(|i| (i * 37 % 251) as f64 * 8.5).collect();
            let y = &half(&data, &[1000, 9], dtype, device) + 0.4;
            let found = y.eq(&y.max_keepdim(1)).any(1);
            eval([&y, &found]).expect("they run");
            assert_eq!(numbers(&found), [1.0; 1000], "{dtype} on {device}");
            let y = &half(&data, &[1000, 9], dtype, device) * 0.3;
            let found = y.eq(&y.max_keepdim(1)).any(1);
            assert_eq!(numbers(&found), [1.0; 1000], "{dtype} alone on {device}");
        }
    });
}

#[test]
fn a_value_used_twice_is_one_number() {
    everywhere(|device| {
        let x = half(
            &[1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0],
            &[8, 1],
            BF16,
            device,
        );
        let y = &x * 1.3;
        assert_eq!(numbers(&(&y - &y.mean_keepdim(1))), [0.0; 8], "{device}");
        assert_eq!(numbers(&(&x - &x.mean_keepdim(1))), [0.0; 8], "{device}");
        let z = (&y - &y.max_keepdim(1)).abs().sum(0);
        assert_eq!(numbers(&z), [0.0; 1], "{device}");
        // Of a product, whose sums are exact in binary32 alone.
        let w = half(&[1.3], &[1, 1], BF16, device);
        let p = x.matmul(&w);
        assert_eq!(numbers(&(&p - &p.mean_keepdim(1))), [0.0; 8], "{device}");
    });
}

#[test]
fn a_bias_is_added_before_rounding() {
    everywhere(|device| {
        for (dtype, whole, unit) in [(BF16, 16.0, 0.5), (F16, 64.0, 0.5)] {
            let (x, w) = ([whole, 1.0], [whole, unit]);
            let bias = half(&[-whole * whole], &[1], dtype, device);
            let of = |data: &[f64], shape: &[usize]| half(data, shape, dtype, device);
            let check = |name: &str, y: Tensor| {
                assert_eq!(y.dtype(), dtype, "{name}");
                assert_eq!(numbers(&y), [unit], "{name} of {dtype} on {device}");
            };
            let linear = of(&x, &[1, 2]).linear(&of(&w, &[1, 2]), Some(&bias));
            check("linear", linear.clone());
            check("abs", linear.abs());
            let y = of(&x, &[1, 2, 1]).conv1d(&of(&w, &[1, 2, 1]), Some(&bias), 1, 0, 1, 1);
            check("conv1d", y);
            let (image, taps) = (of(&x, &[1, 1, 1, 2]), of(&w, &[1, 1, 1, 2]));
            check("conv2d", image.conv2d(&taps, Some(&bias), 1, 0, 1, 1));
            let (volume, taps) = (of(&x, &[1, 2, 1, 1, 1]), of(&w, &[1, 2, 1, 1, 1]));
            check("conv3d", volume.conv3d(&taps, Some(&bias), 1, 0, 1, 1));
            let (image, taps) = (of(&x, &[1, 2, 1, 1]), of(&w, &[2, 1, 1, 1]));
            let y = image.conv_transpose2d(&taps, Some(&bias), 1, 0, 0, 1, 1);
            check("conv_transpose2d", y);
        }
    });
}

/// Rows and columns enough for every kind of product, with what follows in one flush.
#[test]
fn products_with_a_bias_are_rounded_once() {
    everywhere(|device| {
        for (m, n, k) in [
            (1, 7, 64),
            (5, 1, 64),
            (3, 5, 17),
            (64, 96, 64),
            (130, 200, 128),
        ] {
            let small = |i: usize| (i * 29 % 17) as f64 - 8.0;
            let x: Vec<f64> = (0..m * k).map(small).collect();
            let w: Vec<f64> = (0..n * k).map(|i| small(i + 3) / 2.0).collect();
            let bias: Vec<f64> = (0..n).map(|j| j as f64 / 8.0 - 4.0).collect();
            let of = |data: &[f64], shape: &[usize]| half(data, shape, BF16, device);
            let y = of(&x, &[m, k]).linear(&of(&w, &[n, k]), Some(&of(&bias, &[n])));
            let (doubled, greater) = (&y * 2.0, y.gt(16.0));
            eval([&y, &doubled, &greater]).expect("they run");
            // Sums of small halves are exact in binary32.
            let sum = |i: usize, j: usize| {
                let terms = (0..k).map(|l| x[i * k + l] * w[j * k + l]);
                half::bf16::from_f32(terms.sum::<f64>() as f32 + bias[j] as f32).to_f64()
            };
            let want: Vec<f64> = (0..m * n).map(|at| sum(at / n, at % n)).collect();
            let twice: Vec<f64> = want.iter().map(|y| y * 2.0).collect();
            let above: Vec<f64> = want.iter().map(|y| f64::from(*y > 16.0)).collect();
            assert_eq!(numbers(&y), want, "{m}x{n}x{k} on {device}");
            assert_eq!(numbers(&doubled), twice, "{m}x{n}x{k} on {device}");
            assert_eq!(numbers(&greater), above, "{m}x{n}x{k} on {device}");
        }
    });
}
