//! Corners of the methods that the documentation promises, in both modes.

use ferrotrace::DType::*;
use ferrotrace::prelude::*;

fn cpu() -> Device {
    Device::cpu()
}

fn both(body: impl Fn()) {
    with_mode(Mode::Compiled, &body);
    with_mode(Mode::Eager, &body);
}

fn ints(values: &[i64]) -> Tensor {
    Tensor::from_slice(values, values.len(), &cpu())
}

#[track_caller]
fn equal(x: &Tensor, dims: &[usize], values: &[f64]) {
    assert_eq!(x.dims(), dims, "{x}");
    assert_eq!(x.to_dtype(F64).to_vec::<f64>().unwrap(), values);
}

#[test]
fn powers_by_numbers() {
    both(|| {
        let x = Tensor::from_slice(&[4.0f32, 0.25], 2, &cpu());
        equal(&x.pow(-1), &[2], &[0.25, 4.0]);
        equal(&x.pow(-0.5), &[2], &[0.5, 2.0]);
        equal(&x.pow(0.5), &[2], &[2.0, 0.5]);
        equal(&x.pow(1), &[2], &[4.0, 0.25]);
        equal(&x.pow(3), &[2], &[64.0, 0.015625]);
        equal(&x.pow(0), &[2], &[1.0, 1.0]);
        let i = ints(&[2, -3]);
        assert_eq!(i.pow(3).to_vec::<i64>().unwrap(), [8, -27]);
        assert_eq!(
            (i.pow(2).dtype(), i.pow(2.0).dtype(), i.pow(1.0).dtype()),
            (I64, F32, F32)
        );
        assert_eq!(
            (i.gt(0).pow(2).dtype(), x.to_dtype(F16).pow(3.0).dtype()),
            (I64, F16)
        );
    });
}

#[test]
fn zero_dimensions() {
    both(|| {
        let x = Tensor::scalar(3.0, F32, &cpu());
        equal(&x.sum(..), &[], &[3.0]);
        equal(&x.sum(0), &[], &[3.0]);
        equal(&x.max_keepdim(-1), &[], &[3.0]);
        equal(&x.flatten(0, -1), &[1], &[3.0]);
        equal(&x.reshape([1, -1]), &[1, 1], &[3.0]);
        equal(&x.expand([2]), &[2], &[3.0, 3.0]);
        equal(&x.t(), &[], &[3.0]);
        equal(&x.nonzero(), &[1, 0], &[]);
    });
}

#[test]
fn masks_as_indices() {
    both(|| {
        let x = Tensor::arange(0, 6, 1, F32, &cpu()).reshape([2, 3]);
        let odd = (&x % 2).eq(1);
        equal(&x.index(&[Some(&odd)]), &[3], &[1.0, 3.0, 5.0]);
        let columns = Tensor::from_slice(&[true, false, true], 3, &cpu());
        equal(
            &x.index(&[None, Some(&columns)]),
            &[2, 2],
            &[0.0, 2.0, 3.0, 5.0],
        );
        let written = x.index_put(&[Some(&odd)], &Tensor::scalar(-1.0, F32, &cpu()), false);
        equal(&written, &[2, 3], &[0.0, -1.0, 2.0, -1.0, 4.0, -1.0]);
        equal(&x.masked_select(&columns), &[4], &[0.0, 2.0, 3.0, 5.0]);
        equal(&x.masked_select(&x.lt(0)), &[0], &[]);
        equal(&x.lt(0).nonzero(), &[0, 2], &[]);
    });
}

#[test]
fn blocks_of_indices() {
    both(|| {
        let x = Tensor::arange(0, 24, 1, F32, &cpu()).reshape([2, 3, 4]);
        let (i, j) = (ints(&[0, 1]), ints(&[-1, 0]));
        // Neighbours: the block stands where the first of them was.
        equal(
            &x.index(&[None, Some(&i), Some(&j)]),
            &[2, 2],
            &[3.0, 4.0, 15.0, 16.0],
        );
        // Apart: in front.
        let apart = x.index(&[Some(&i), None, Some(&j)]);
        equal(&apart, &[2, 3], &[3.0, 7.0, 11.0, 12.0, 16.0, 20.0]);
        let single = x.index_select(1, &Tensor::scalar(2, I64, &cpu()));
        assert_eq!(single.dims(), [2, 1, 4]);
        assert_eq!(
            x.embedding(&ints(&[1, 1, 0]).reshape([3, 1])).dims(),
            [3, 1, 3, 4]
        );
        assert_eq!(x.index(&[None]).dims(), [2, 3, 4]);
    });
}

#[test]
fn ends_of_creation() {
    both(|| {
        equal(&Tensor::linspace(3, 9, 1, F32, &cpu()), &[1], &[3.0]);
        equal(&Tensor::linspace(3, 9, 0, F32, &cpu()), &[0], &[]);
        let line = Tensor::linspace(-0.1, 0.7, 7, F64, &cpu())
            .to_vec::<f64>()
            .unwrap();
        assert_eq!((line[0], line[6]), (-0.1, 0.7));
        equal(
            &Tensor::linspace(0, 10, 4, I64, &cpu()),
            &[4],
            &[0.0, 3.0, 6.0, 10.0],
        );
        equal(&Tensor::arange(0, 0, 1, I64, &cpu()), &[0], &[]);
        equal(&Tensor::arange(-3, 3, 4, I8, &cpu()), &[2], &[-3.0, 1.0]);
        equal(&Tensor::full(2, 2.9, I32, &cpu()), &[2], &[2.0, 2.0]);
        equal(&Tensor::eye(0, F32, &cpu()), &[0, 0], &[]);
        assert_eq!(
            Tensor::zeros([3, 0], F32, &cpu()).zeros_like().dims(),
            [3, 0]
        );
    });
}

#[test]
fn parts_of_dimensions() {
    both(|| {
        let x = Tensor::arange(0, 7, 1, F32, &cpu());
        let sizes = |parts: Vec<Tensor>| parts.iter().map(Tensor::numel).collect::<Vec<_>>();
        assert_eq!(sizes(x.chunk(3, 0)), [3, 3, 1]);
        assert_eq!(sizes(x.chunk(5, 0)), [2, 2, 2, 1]);
        assert_eq!(sizes(x.split(&[0, 7], -1)), [0, 7]);
        assert_eq!(sizes(x.narrow(0, 0, 0).chunk(2, 0)), [0, 0]);
        assert_eq!(x.unsqueeze(0).squeeze(..).dims(), [7]);
        equal(&x.narrow(0, -2, 2), &[2], &[5.0, 6.0]);
    });
}

#[test]
fn numbers_beyond_an_integer_type() {
    both(|| {
        let x = Tensor::from_slice(&[5u8, 100, 250], 3, &cpu());
        equal(&x.lt(300), &[3], &[1.0, 1.0, 1.0]);
        equal(&x.eq(261), &[3], &[0.0, 0.0, 0.0]);
        equal(&x.gt(-1), &[3], &[1.0, 1.0, 1.0]);
        equal(&x.clamp(-2, 1i64 << 31), &[3], &[5.0, 100.0, 250.0]);
        equal(&x.clamp(10, 1000), &[3], &[10.0, 100.0, 250.0]);
        equal(&x.clamp(300, 1e3), &[3], &[300.0, 300.0, 300.0]);
        equal(&x.clamp_min(-129), &[3], &[5.0, 100.0, 250.0]);
        equal(&x.clamp_max(256), &[3], &[5.0, 100.0, 250.0]);
        equal(&x.minimum(i64::MAX), &[3], &[5.0, 100.0, 250.0]);
        assert_eq!(x.minimum(i64::MAX).dtype(), U8);
        equal(&(&x + 256), &[3], &[5.0, 100.0, 250.0]);
    });
}

#[test]
fn positions_in_nothing() {
    both(|| {
        let zero = ints(&[0]);
        let matrix = Tensor::zeros([0, 3], F32, &cpu());
        let row = Tensor::zeros([1, 3], F32, &cpu());
        let index = zero.reshape([1, 1]).expand([1, 3]).contiguous();
        for x in [
            matrix.index_select(0, &zero),
            matrix.embedding(&zero),
            matrix.index(&[Some(&zero)]),
            matrix.index_put(&[Some(&zero)], &row, false),
            matrix.gather(0, &index),
            matrix.transpose(0, 1).scatter_add(1, &index.t(), &row.t()),
        ] {
            let error = x.eval().unwrap_err().to_string();
            assert!(error.contains("empty"), "{error}");
        }
        let none = Tensor::zeros([0], I64, &cpu());
        assert_eq!(matrix.index_select(0, &none).dims(), [0, 3]);
        equal(&matrix.index_select(1, &zero), &[0, 1], &[]);
    });
}

#[test]
fn positions_beyond_what_is_the_same_everywhere() {
    both(|| {
        let five = ints(&[5]);
        let row = Tensor::from_slice(&[1.0f32, 2.0, 3.0], [1, 3], &cpu());
        let table = row.expand([4, 3]);
        for x in [
            row.clone(),
            &row * 2.0,
            table.clone(),
            (&row + 1.0).expand([4, 3]),
            Tensor::ones([4, 3], F32, &cpu()),
        ] {
            for y in [
                x.index_select(0, &five),
                x.index(&[Some(&five)]).exp().sum_keepdim(..),
                x.gather(0, &five.reshape([1, 1])),
            ] {
                let error = y.to_vec::<f32>().unwrap_err().to_string();
                assert!(error.contains("index 5"), "{error}");
            }
        }
        equal(
            &table.index_select(0, &ints(&[3, -4])),
            &[2, 3],
            &[1.0, 2.0, 3.0, 1.0, 2.0, 3.0],
        );
    });
}

#[test]
fn a_number_is_sorted_and_gathered_as_a_row_of_one() {
    both(|| {
        let x = Tensor::scalar(2.5, F32, &cpu()) * 2.0;
        let (values, indices) = x.sort(-1, true);
        equal(&values, &[], &[5.0]);
        equal(&indices, &[], &[0.0]);
        equal(&x.topk(1, 0, true).0, &[], &[5.0]);
        let zero = Tensor::scalar(0, I64, &cpu());
        equal(&x.gather(0, &zero), &[], &[5.0]);
        assert!(x.gather(0, &(&zero + 1)).eval().is_err());
        equal(&x.scatter_add(0, &zero, &x), &[], &[10.0]);
        assert!(x.scatter_add(0, &(&zero - 3), &x).eval().is_err());
        equal(&x.transpose(0, -1), &[], &[5.0]);
        assert!(x.transpose(0, 1).error().is_some());
    });
}

#[test]
fn steps_and_offsets_beyond_memory() {
    both(|| {
        let x = Tensor::arange(0, 24, 1, F32, &cpu()).reshape([2, 3, 4]);
        for step in [1 << 62, usize::MAX, isize::MAX as usize] {
            let first = x.slice(1, 0, isize::MAX, step);
            equal(&first.sum(..), &[], &[60.0]);
            equal(
                &(first + 1.0).select(0, 1),
                &[1, 4],
                &[13.0, 14.0, 15.0, 16.0],
            );
        }
        for offset in [isize::MAX, isize::MIN, 4, -3] {
            assert_eq!(x.diagonal(offset, 1, 2).dims(), [2, 0], "{offset}");
            assert_eq!(
                (x.diagonal(offset, 1, 2) + 1.0)
                    .sum(..)
                    .to_scalar::<f32>()
                    .unwrap(),
                0.0
            );
        }
        let window = (&x + 1.0).unfold(1, 3, isize::MAX as usize).exp().log();
        assert_eq!(window.dims(), [2, 1, 4, 3]);
        assert_eq!(window.sum(..).to_scalar::<f32>().unwrap().round(), 300.0);
    });
}

#[test]
fn sizes_beyond_memory_are_errors() {
    both(|| {
        let x = Tensor::ones([2, 3, 4], F32, &cpu());
        let one = Tensor::ones([1], F32, &cpu());
        let half = 1usize << 32;
        let image = Tensor::ones([1, 2, 5, 5], F32, &cpu());
        let weight = Tensor::ones([2, 2, 3, 3], F32, &cpu());
        let endless = one.expand([usize::MAX / 64]);
        for y in [
            x.expand([half, half, 2, 3, 4]),
            x.repeat(&[usize::MAX, 1, 1]),
            x.repeat(&[half, half, 1]),
            x.pad(&[(isize::MAX, isize::MAX)], 0),
            x.pad(&[(isize::MIN, 0)], 0),
            x.reshape([half, half]),
            Tensor::cat(&vec![&endless; 200], 0),
            Tensor::zeros([0, usize::MAX], F32, &cpu()).sum(0),
            Tensor::rand([half, half], F32, &cpu()),
            Tensor::randperm(usize::MAX, &cpu()),
            one.expand([half, 1]).matmul(&one.expand([1, half])),
            image.conv2d(&weight, None, 1, usize::MAX, 1, 1),
            image.conv2d(&weight, None, 1, 0, 1, usize::MAX),
            image.conv_transpose2d(&weight, None, half, 0, 0, 1, 1),
            image.interpolate([half, half], ferrotrace::Interpolation::Nearest, false),
            ints(&[0]).one_hot(usize::MAX),
        ] {
            assert!(y.error().is_some(), "{y:?}");
        }
        let error = x.reshape([5, -1]).error().unwrap().to_string();
        assert!(
            error.contains("[2, 3, 4] has no reshape to [5, -1]"),
            "{error}"
        );
    });
}
