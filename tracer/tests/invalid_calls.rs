//! Every invalid call gives a tensor whose error names the operation, the operands' shapes and the caller's line.

use ferrotrace_tracer::prelude::*;
use ferrotrace_tracer::{Generator, ReduceOp};

fn cpu() -> Device {
    Device::cpu()
}

fn both(body: impl Fn()) {
    with_mode(Mode::Compiled, &body);
    with_mode(Mode::Eager, &body);
}

fn ones<const N: usize>(shape: [usize; N]) -> Tensor {
    Tensor::ones(shape, DType::F32, &cpu())
}

fn ints(values: &[i64]) -> Tensor {
    Tensor::from_slice(values, values.len(), &cpu())
}

fn check(bad: &Tensor, line: u32, parts: &[&str]) {
    let line = format!("{}:{line}:", file!());
    let text = bad
        .error()
        .map(|error| error.to_string())
        .unwrap_or_default();
    for part in parts.iter().copied().chain([line.as_str()]) {
        assert!(text.contains(part), "no {part:?} in {text:?}");
    }
    assert_eq!((bad.dims(), bad.numel()), (&[0][..], 0), "{text}");
    assert_eq!(bad.eval().err().map(|error| error.to_string()), Some(text));
}

/// Rows of `call => parts of the message;`.
macro_rules! invalid {
    ($($call:expr => [$($part:expr),*];)*) => {$(
        let (bad, line) = ($call, line!());
        check(&bad, line, &[$($part),*]);
    )*};
}

#[test]
fn dimensions() {
    both(|| {
        let x = ones([2, 3]);
        invalid! { x.sum(2) => ["sum", "[2, 3]", "dimension 2"]; }
        invalid! { x.max_keepdim(-3) => ["max", "[2, 3]", "dimension -3"]; }
        invalid! { x.mean([0, -2]) => ["mean", "dimension 0 is given twice"]; }
        invalid! { x.argmax(5) => ["argmax", "dimension 5"]; }
        invalid! { x.var(7, 1) => ["var", "dimension 7"]; }
        invalid! { x.var_mean(7, 1).1 => ["mean", "dimension 7"]; }
        invalid! { x.min_with_index(2).1 => ["min_with_index", "dimension 2"]; }
        invalid! { x.softmax(2) => ["softmax", "dimension 2"]; }
        invalid! { x.cumsum(-3) => ["cumsum", "dimension -3"]; }
        invalid! { x.cummax(2).0 => ["cummax", "dimension 2"]; }
        invalid! { x.sort(2, false).1 => ["sort", "dimension 2"]; }
        invalid! { x.argsort(2, false) => ["argsort", "dimension 2"]; }
        invalid! { x.topk(1, 2, true).0 => ["topk", "dimension 2"]; }
        invalid! { x.permute([0, 0]) => ["permute", "twice"]; }
        invalid! { x.permute([0]) => ["permute", "[2, 3]"]; }
        invalid! { x.transpose(0, 2) => ["transpose", "dimension 2"]; }
        invalid! { x.flatten(1, 0) => ["flatten", "[2, 3]"]; }
        invalid! { x.squeeze(2) => ["squeeze", "dimension 2"]; }
        invalid! { x.unsqueeze(4) => ["unsqueeze", "dimension 4"]; }
        invalid! { x.flip(2) => ["flip", "dimension 2"]; }
        invalid! { x.roll(1, 2) => ["roll", "dimension 2"]; }
        invalid! { x.diagonal(0, 1, -1) => ["diagonal", "[2, 3]"]; }
        invalid! { x.unfold(2, 1, 1) => ["unfold", "dimension 2"]; }
        invalid! { x.unsqueeze(0).t() => ["t:", "[1, 2, 3]"]; }
    });
}

#[test]
fn sizes_and_indices() {
    both(|| {
        let x = ones([2, 3]);
        invalid! { x.reshape([4, -1]) => ["reshape", "[2, 3]"]; }
        invalid! { x.reshape([-1, -1]) => ["reshape", "[2, 3]"]; }
        invalid! { x.reshape([-2, 3]) => ["reshape", "-2"]; }
        invalid! { x.expand([4, 3]) => ["expand", "[2, 3]"]; }
        invalid! { x.broadcast_to(3) => ["[2, 3]"]; }
        invalid! { x.narrow(1, 2, 2) => ["narrow", "[2, 3]"]; }
        invalid! { x.slice(0, 0, 1, 0) => ["slice", "step"]; }
        invalid! { x.select(1, 3) => ["select", "index 3", "[2, 3]"]; }
        invalid! { x.select(1, -4) => ["select", "index -4"]; }
        invalid! { x.pad(&[(-3, 0)], 0) => ["pad", "[2, 3]"]; }
        invalid! { x.repeat(&[2]) => ["repeat", "[2, 3]"]; }
        invalid! { x.unfold(0, 3, 1) => ["unfold", "[2, 3]"]; }
        invalid! { x.topk(4, 1, true).0 => ["topk", "[2, 3]"]; }
        invalid! { x.split(&[1, 2], 0)[0].clone() => ["split", "[1, 2]", "[2, 3]"]; }
        invalid! { x.chunk(0, 0)[0].clone() => ["chunk", "[2, 3]"]; }
        invalid! { Tensor::cat(&[] as &[&Tensor], 0) => ["cat"]; }
        invalid! { Tensor::cat(&[&x, &ones([2])], 0) => ["cat", "[2, 3]", "[2]"]; }
        invalid! { Tensor::cat(&[&x, &x], 2) => ["cat", "dimension 2"]; }
        invalid! { Tensor::stack(&[] as &[&Tensor], 0) => ["stack"]; }
        invalid! { Tensor::stack(&[&x, &ones([2, 4])], 0) => ["stack", "[2, 3]", "[2, 4]"]; }
        invalid! { Tensor::stack(&[&x, &x], 3) => ["stack", "dimension 3"]; }
    });
}

#[test]
fn operands() {
    both(|| {
        let (x, flags) = (ones([2, 3]), ones([2]).gt(0));
        invalid! { &x + &ones([2]) => ["add", "[2, 3]", "[2]"]; }
        invalid! { x.pow(&ones([2])) => ["pow", "[2, 3]", "[2]"]; }
        invalid! { ints(&[2]).pow(-1) => ["pow", "-1"]; }
        invalid! { x.bitwise_and(1) => ["bitwise_and", "f32"]; }
        invalid! { !&x => ["bitwise_not", "f32"]; }
        invalid! { x.shl(1) => ["shl", "f32"]; }
        invalid! { &flags - &flags => ["sub", "bool"]; }
        invalid! { x.where_cond(&x, 0.0) => ["where", "f32"]; }
        invalid! { x.masked_select(&x) => ["masked_select", "f32"]; }
        invalid! { x.masked_select(&flags) => ["masked_select", "[2, 3]", "[2]"]; }
        invalid! { ints(&[1]).mean(0) => ["mean", "i64"]; }
        invalid! { x.gather(2, &ints(&[0])) => ["gather", "dimension 2"]; }
        invalid! { x.gather(0, &ints(&[0])) => ["gather", "[2, 3]", "[1]"]; }
        invalid! { x.index_select(0, &ints(&[0]).reshape([1, 1])) => ["index_select", "[1, 1]"]; }
        invalid! { x.index(&[None, None, Some(&ints(&[0]))]) => ["index", "[2, 3]"]; }
        invalid! { x.index(&[None, Some(&flags)]) => ["index", "mask", "[2, 3]"]; }
        invalid! { x.index_put(&[None], &x, false) => ["index_put", "[2, 3]"]; }
        invalid! { x.scatter(2, &ints(&[0]), &x) => ["scatter", "dimension 2"]; }
        let reduce = ReduceOp::Sum;
        invalid! { x.scatter_reduce(3, &ints(&[0]), &x, reduce, true) => ["scatter_reduce"]; }
        invalid! { x.slice_assign(0, 0, 1, 1, &ones([2, 2])) => ["slice_assign", "[2, 3]", "[2, 2]"]; }
        invalid! { x.dot(&x) => ["dot", "[2, 3]"]; }
        invalid! { x.outer(&ones([2])) => ["outer", "[2, 3]", "[2]"]; }
        invalid! { x.matmul(&x) => ["matmul", "[2, 3]"]; }
        invalid! { x.linear(&ones([2, 2]), None) => ["linear", "[2, 3]", "[2, 2]"]; }
        invalid! { Tensor::einsum("ij,jk->ik", &[&x, &x]) => ["einsum", "[2, 3]"]; }
        invalid! { Tensor::einsum("i->i", &[]) => ["einsum"]; }
        invalid! { x.conv2d(&x, None, 1, 0, 1, 1) => ["conv", "[2, 3]"]; }
        invalid! { x.max_pool2d(0, 1, 0) => ["pool", "[2, 3]"]; }
        invalid! { x.dropout(1.5) => ["dropout", "1.5"]; }
    });
}

#[test]
fn creation() {
    both(|| {
        invalid! { Tensor::arange(0, 3, 0, DType::F32, &cpu()) => ["arange", "0"]; }
        invalid! { Tensor::arange(0, 3, -1, DType::F32, &cpu()) => ["arange", "-1"]; }
        invalid! { Tensor::zeros([usize::MAX, 2], DType::F32, &cpu()) => ["zeros"]; }
        invalid! { Tensor::eye(usize::MAX, DType::F32, &cpu()) => ["eye"]; }
        invalid! { Tensor::from_vec(vec![1.0f32; 3], [2, 2], &cpu()) => ["from_vec", "[2, 2]"]; }
        invalid! { Tensor::randint(3, 3, 2, DType::I64, &cpu()) => ["randint"]; }
        invalid! { Tensor::rand(2, DType::I64, &cpu()) => ["rand", "i64"]; }
        invalid! { Generator::new(1).bernoulli(2.0, 2, DType::F32, &cpu()) => ["bernoulli", "2"]; }
    });
}

#[test]
fn assignment_keeps_dtype_and_shape() {
    both(|| {
        let mut counts = ints(&[1, 2]);
        counts /= 2;
        assert!(
            counts
                .error()
                .is_some_and(|error| error.to_string().contains("div"))
        );
        let mut row = ones([3]);
        row += ones([2, 3]);
        assert!(
            row.error()
                .is_some_and(|error| error.to_string().contains("[2, 3]"))
        );
        let mut half = ones([2]).to_dtype(DType::F16);
        half += ones([2]).to_dtype(DType::F64);
        assert_eq!((half.dtype(), half.error().is_none()), (DType::F16, true));
        half %= 2;
        assert_eq!(
            half.to_dtype(DType::F32).to_vec::<f32>().ok(),
            Some(vec![0.0; 2])
        );
    });
}

#[test]
fn the_first_error_wins() {
    both(|| {
        let x = ones([2, 3]);
        let bad = x.sum(9);
        let first = bad.error().map(|error| error.to_string());
        let after = [
            bad.softmax(9),
            bad.zeros_like(),
            bad.rand_like(),
            bad.dropout(2.0),
            bad.reshape([-2]),
            bad.masked_fill(&x, 1),
            x.masked_select(&bad),
            bad.nonzero(),
            x.index(&[Some(&bad)]),
            bad.index(&[None, None, None, Some(&x)]),
            bad.split(&[1], 0)[0].clone(),
            bad.chunk(2, 4)[0].clone(),
            Tensor::cat(&[&x, &bad], 5),
            Tensor::stack(&[&x, &bad], 5),
            bad.pow(-1),
            bad.t(),
            1.0 - &bad,
            bad.sort(4, true).0,
            x.linear(&x, Some(&bad)),
        ];
        for (i, t) in after.iter().enumerate() {
            assert_eq!(t.error().map(|error| error.to_string()), first, "{i}");
        }
    });
}
