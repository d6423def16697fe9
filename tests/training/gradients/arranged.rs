//! Elements at other places, and what has no gradient.

use super::check::*;
use ferrotrace::prelude::*;

#[test]
fn parts() {
    let x = sample(&[4, 6]);
    agree(&[
        case("narrow", &[&x], |t| t[0].narrow(1, 1, 3).square()),
        case("slice", &[&x], |t| t[0].slice(1, 1, -1, 2).square()),
        case("select", &[&x], |t| t[0].select(0, -1).square()),
        case("diagonal", &[&x], |t| t[0].diagonal(0, 0, 1).square()),
        case("unfold", &[&x], |t| t[0].unfold(1, 3, 2).square()),
        case("tril", &[&x], |t| t[0].tril(-1).square()),
        case("triu", &[&x], |t| t[0].triu(1).square()),
        case("trace", &[&x], |t| t[0].square().trace()),
        case("split", &[&x], |t| {
            t[0].split(&[4, 2], 1).remove(1).square()
        }),
        case("narrow of none", &[&x], |t| t[0].narrow(0, 2, 0)),
    ]);
}

// The gradients of windows that cover a tensor are joined, others are added one by one.
#[test]
fn windows_of_one_tensor() {
    let (x, wide) = (sample(&[4, 6]), sample(&[10, 2]));
    agree(&[
        case("chunks", &[&x], |t| {
            let c = t[0].chunk(3, 1);
            c[0].sigmoid() * &c[1] + c[2].tanh()
        }),
        case("positions out of order", &[&x], |t| {
            t[0].select(0, 3).square() * t[0].select(0, -4) + t[0].select(0, 1) * t[0].select(0, 2)
        }),
        case("windows with gaps", &[&x], |t| {
            t[0].narrow(1, 1, 2).square() * t[0].narrow(1, 4, 2)
        }),
        case("windows that overlap", &[&x], |t| {
            t[0].narrow(1, 0, 4).square() * t[0].narrow(1, 2, 4)
        }),
        case("windows of two dimensions", &[&x], |t| {
            t[0].narrow(0, 0, 2).square().sum(..) + t[0].narrow(1, 3, 3).square()
        }),
        case("windows by steps", &[&x], |t| {
            t[0].slice(1, 0, 6, 2).square() * t[0].slice(1, 1, 6, 2)
        }),
        case("windows and the whole", &[&x], |t| {
            let c = t[0].chunk(2, 0);
            t[0].square().sum(..) + &c[0] * c[1].exp()
        }),
        case("a window twice", &[&x], |t| {
            t[0].narrow(1, 0, 3).square() * t[0].narrow(1, 0, 3).exp()
        }),
        case("many positions", &[&wide], |t| {
            let all = (0..10).map(|i| t[0].select(0, i).square());
            all.reduce(|a, b| a * 0.5 + b).expect("ten")
        }),
    ]);
}

#[test]
fn moved() {
    let (x, number) = (sample(&[2, 1, 3]), of(&[], &[0.75]));
    agree(&[
        case("reshape", &[&x], |t| t[0].reshape([3, 2]).square()),
        case("permute", &[&x], |t| t[0].permute(&[2, 0, 1][..]).square()),
        case("expand", &[&x], |t| t[0].expand([4, 2, 5, 3]).square()),
        case("expand a number", &[&number], |t| {
            t[0].expand([2, 3]).square()
        }),
        case("squeeze", &[&x], |t| t[0].squeeze(1).square()),
        case("unsqueeze", &[&x], |t| t[0].unsqueeze(-1).square()),
        case("flip", &[&x], |t| t[0].flip(&[0, 2][..]).square()),
        case("roll", &[&x], |t| t[0].roll(1, 2).square()),
        case("pad", &[&x], |t| {
            t[0].pad(&[(1, 0), (0, 2), (-1, 1)], 0.5).square()
        }),
        case("at", &[&x], |t| {
            t[0].at([Slice::from(..), (..).into(), (1..).into()])
                .square()
        }),
        case("to F64 and back", &[&x], |t| {
            t[0].to_dtype(DType::F64).square().to_dtype(t[0].dtype())
        }),
    ]);
}

#[test]
fn joined_and_repeated() {
    let (x, y) = (
        sample(&[2, 3]),
        sample(&[12]).narrow(0, 6, 6).reshape([2, 3]),
    );
    agree(&[
        case("cat", &[&x, &y], |t| {
            Tensor::cat(&[&t[0], &t[1].square(), &t[0]], 1).square()
        }),
        case("stack", &[&x, &y], |t| {
            Tensor::stack(&[&t[0], &t[1]], 1).square()
        }),
        case("repeat", &[&x], |t| t[0].repeat(&[2, 1, 3][..]).square()),
        case("repeat_interleave", &[&x], |t| {
            t[0].repeat_interleave(2, 1).square()
        }),
        case("diag", &[&x.select(0, 0)], |t| t[0].diag(1).square()),
    ]);
}

#[test]
fn selections_that_are_read() {
    let x = of(&[5], &[0.5, -1.0, 0.5, 2.0, -1.0]);
    let leaf = x.requires_grad();
    let values = leaf.unique().square().sum(..);
    // To the first of equals.
    assert_eq!(
        numbers(&grad(&values, &[&leaf])[0]),
        [1.0, -2.0, 0.0, 4.0, 0.0]
    );
    let counted = ints(&[0, 2, 0, 1, 2]);
    let sums = counted.bincount(Some(&leaf.square()), 4).square().sum(..);
    let want = [1.0, -8.0, 1.0, 32.0, -8.0];
    assert_eq!(numbers(&grad(&sums, &[&leaf])[0]), want);
}

#[test]
fn what_has_no_gradient() {
    let leaf = sample(&[3, 2]).requires_grad();
    let results = [
        leaf.argmax(0),
        leaf.argsort(1, false),
        leaf.count_nonzero(0),
        leaf.gt(0.5),
        leaf.to_dtype(DType::I64),
        leaf.histogram(3, None).0,
    ];
    for result in results {
        let loss = result.to_dtype(DType::F64).sum(..);
        let error = grad(&loss, &[&leaf]).remove(0).to_vec::<f64>().unwrap_err();
        assert!(
            error.to_string().contains("through the integers"),
            "{error}"
        );
    }
    let constants = [
        leaf.sign(),
        leaf.round(),
        leaf.norm(0.0, 1),
        leaf.floor_divide(0.5),
        leaf.nonzero().to_dtype(DType::F64),
    ];
    for result in constants {
        let zeros = numbers(&grad(&result.sum(..), &[&leaf])[0]);
        assert_eq!(zeros, [0.0; 6]);
    }
}
