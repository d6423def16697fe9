//! Shapes and joins under the names of NumPy and PyTorch.

use super::{apart, differentiable, refused, weighed};
use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

fn number(x: f64) -> Tensor {
    Tensor::scalar(x, F32, &cpu())
}

/// Tensors of a kind, as what is joined: numbers, vectors, matrices and blocks.
fn parts(dtype: DType, dims: &[usize]) -> [Tensor; 2] {
    let n = dims.iter().product();
    let (a, b) = (whole(n, 2), whole(2 * n, 2)[n..].to_vec());
    [dense(dims, dtype, &a), dense(dims, dtype, &b)]
}

type Join = fn(&[Tensor; 2]) -> Tensor;

/// The joins by name, and what each gives of two tensors of these sizes: the sizes that `cat` takes, along which dimension.
const JOINS: [(&str, Join); 4] = [
    ("hstack", |x| Tensor::hstack(x)),
    ("vstack", |x| Tensor::vstack(x)),
    ("dstack", |x| Tensor::dstack(x)),
    ("column_stack", |x| Tensor::column_stack(x)),
];

/// The sizes in which a join takes a part, and the dimension along which it joins, as PyTorch says.
fn taken(name: &str, dims: &[usize]) -> (Vec<usize>, usize) {
    match (name, dims) {
        ("hstack", []) => (vec![1], 0),
        ("hstack", [n]) => (vec![*n], 0),
        ("hstack" | "column_stack", [_, _, ..]) => (dims.to_vec(), 1),
        ("vstack", []) => (vec![1, 1], 0),
        ("vstack", [n]) => (vec![1, *n], 0),
        ("vstack", _) => (dims.to_vec(), 0),
        ("dstack", []) => (vec![1, 1, 1], 2),
        ("dstack", [n]) => (vec![1, *n, 1], 2),
        ("dstack", [n, m]) => (vec![*n, *m, 1], 2),
        ("dstack", _) => (dims.to_vec(), 2),
        (_, []) => (vec![1, 1], 1),
        (_, dims) => (vec![dims[0], 1], 1),
    }
}

#[test]
fn stacks() {
    let sizes: [&[usize]; 7] = [&[], &[3], &[2, 3], &[2, 1, 3], &[0], &[2, 0], &[1, 2, 2, 2]];
    each(&ALL, true, |dtype| {
        for dims in sizes {
            let x = parts(dtype, dims);
            for (name, join) in JOINS {
                let (as_taken, dim) = taken(name, dims);
                let rows = x.each_ref().map(|x| x.reshape(&as_taken[..]));
                let want = Tensor::cat(&rows, dim);
                let joined = join(&x);
                assert_eq!(joined.dtype(), dtype);
                equal(&joined, want.dims(), &values(&want));
            }
        }
    });
    // What NumPy gives of vectors, strides aside.
    both(|| {
        for x in forms(&[2], F32, &[1.0, 2.0]) {
            let y = ints(&[3, 4]);
            equal(&Tensor::hstack([&x, &y]), &[4], &[1.0, 2.0, 3.0, 4.0]);
            equal(
                &Tensor::vstack(vec![&x, &y]),
                &[2, 2],
                &[1.0, 2.0, 3.0, 4.0],
            );
            equal(&Tensor::dstack([&x, &y]), &[1, 2, 2], &[1.0, 3.0, 2.0, 4.0]);
            let columns = Tensor::column_stack([&x, &y]);
            equal(&columns, &[2, 2], &[1.0, 3.0, 2.0, 4.0]);
            assert_eq!(columns.dtype(), F32);
            let more = Tensor::column_stack([&columns, &y.unsqueeze(1)]);
            equal(&more, &[2, 3], &[1.0, 3.0, 3.0, 2.0, 4.0, 4.0]);
            let mixed = Tensor::hstack([&number(0.0), &y.to_dtype(F32)]);
            equal(&mixed, &[3], &[0.0, 3.0, 4.0]);
        }
    });
}

#[test]
fn stacks_refuse() {
    both(|| {
        let (x, y) = (
            Tensor::ones([2, 2], F32, &cpu()),
            Tensor::ones([3, 3], F32, &cpu()),
        );
        let none: [Tensor; 0] = [];
        refused(&Tensor::hstack(&none), "hstack", &["no tensors"]);
        refused(&Tensor::vstack(&none), "vstack", &["no tensors"]);
        refused(&Tensor::dstack(&none), "dstack", &["no tensors"]);
        refused(
            &Tensor::column_stack(&none),
            "column_stack",
            &["no tensors"],
        );
        refused(&Tensor::hstack([&x, &y]), "hstack", &["[2, 2]", "[3, 3]"]);
        refused(&Tensor::vstack([&x, &y]), "vstack", &["[2, 2]", "[3, 3]"]);
        refused(&Tensor::dstack([&x, &y]), "dstack", &[]);
        refused(&Tensor::column_stack([&x, &y]), "column_stack", &[]);
        refused(&Tensor::hstack([&number(1.0), &x]), "hstack", &[]);
        let lost = x.matmul(&y);
        refused(&Tensor::hstack([&x, &lost]), "matmul", &[]);
        refused(&Tensor::column_stack([&lost, &x]), "matmul", &[]);
    });
}

#[test]
fn gradients_of_stacks() {
    let x = [
        dense(&[3], F64, &apart(3)),
        dense(&[3], F64, &apart(6)[3..]),
    ];
    differentiable(&x, &|v| Tensor::hstack(v).square());
    differentiable(&x, &|v| Tensor::vstack(v).square());
    differentiable(&x, &|v| Tensor::dstack(v).square());
    differentiable(&x, &|v| Tensor::column_stack(v).square());
}

#[test]
fn other_names_of_shapes() {
    let a = whole(24, 2);
    each(&ALL, false, |dtype| {
        for x in forms(&[2, 3, 4], dtype, &a) {
            let same = |y: Tensor, want: Tensor| {
                assert_eq!(y.dtype(), dtype);
                equal(&y, want.dims(), &values(&want));
            };
            same(x.swapaxes(0, -1), x.permute([2, 1, 0]));
            same(x.ravel(), x.reshape([24]));
            same(x.swapaxes(1, 2).ravel(), x.permute([0, 2, 1]).reshape([24]));
            same(x.fliplr(), x.flip(1));
            same(x.flipud(), x.flip(0));
            let other = Tensor::zeros([4, 6], F16, &cpu());
            same(x.reshape_as(&other), x.reshape([4, 6]));
            let other = Tensor::zeros([5, 2, 3, 4], Bool, &cpu());
            same(x.expand_as(&other), x.expand([5, 2, 3, 4]));
        }
    });
    both(|| {
        let one = number(7.0);
        equal(&one.ravel(), &[1], &[7.0]);
        equal(&one.swapaxes(0, -1), &[], &[7.0]);
        equal(&one.expand_as(&ints(&[1, 2])), &[2], &[7.0, 7.0]);
        equal(
            &one.reshape_as(&Tensor::zeros([1, 1], F32, &cpu())),
            &[1, 1],
            &[7.0],
        );
        equal(&ints(&[4]).reshape_as(&one), &[], &[4.0]);
        equal(&Tensor::zeros([0, 3], F32, &cpu()).ravel(), &[0], &[]);
        equal(&ints(&[1, 2]).flipud(), &[2], &[2.0, 1.0]);
    });
}

#[test]
fn at_least_so_many_dimensions() {
    each(&ALL, false, |dtype| {
        let sizes: [(&[usize], [&[usize]; 3]); 5] = [
            (&[], [&[1], &[1, 1], &[1, 1, 1]]),
            (&[3], [&[3], &[1, 3], &[1, 3, 1]]),
            (&[2, 3], [&[2, 3], &[2, 3], &[2, 3, 1]]),
            (&[0], [&[0], &[1, 0], &[1, 0, 1]]),
            (&[2, 1, 3, 1], [&[2, 1, 3, 1], &[2, 1, 3, 1], &[2, 1, 3, 1]]),
        ];
        for (dims, want) in sizes {
            let a = whole(dims.iter().product(), 2);
            for x in forms(dims, dtype, &a) {
                equal(&x.atleast_1d(), want[0], &a);
                equal(&x.atleast_2d(), want[1], &a);
                equal(&x.atleast_3d(), want[2], &a);
                assert_eq!(x.atleast_3d().dtype(), dtype);
            }
        }
    });
}

#[test]
fn other_names_of_shapes_refuse() {
    both(|| {
        let x = Tensor::ones([2, 3], F32, &cpu());
        refused(&x.swapaxes(0, 2), "swapaxes", &["2"]);
        refused(&x.swapaxes(-3, 0), "swapaxes", &["-3"]);
        refused(&x.expand_as(&x.t()), "expand_as", &["[2, 3]", "[3, 2]"]);
        refused(&x.expand_as(&x.at(0)), "expand_as", &["[3]"]);
        refused(&x.reshape_as(&x.at(0)), "reshape_as", &["[3]"]);
        refused(&x.at(0).fliplr(), "fliplr", &["rank 1", "2"]);
        refused(&number(1.0).flipud(), "flipud", &["rank 0", "1"]);
        let lost = x.matmul(&x);
        refused(&x.expand_as(&lost), "matmul", &[]);
        refused(&x.reshape_as(&lost), "matmul", &[]);
        refused(&lost.ravel(), "matmul", &[]);
        refused(&lost.fliplr(), "matmul", &[]);
        refused(&lost.atleast_2d(), "matmul", &[]);
    });
}

#[test]
fn gradients_of_other_names() {
    let x = dense(&[2, 3], F64, &apart(6));
    differentiable(std::slice::from_ref(&x), &|v| {
        let x = v[0].swapaxes(0, 1).fliplr().flipud();
        x.ravel().square().atleast_3d()
    });
    // What is broadcast sums its slopes.
    both(|| {
        let leaf = dense(&[2], F64, &[1.0, 2.0]).requires_grad();
        let y = weighed(&leaf.expand_as(&Tensor::zeros([2, 2], F32, &cpu())));
        equal(&grad(&y, &[&leaf])[0], &[2], &[0.625 + 1.75, 0.375 + 1.5]);
        let y = weighed(&leaf.reshape_as(&Tensor::zeros([2, 1], F32, &cpu())));
        equal(&grad(&y, &[&leaf])[0], &[2], &[0.625, 0.375]);
    });
}
