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
