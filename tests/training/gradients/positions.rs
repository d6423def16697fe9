//! Scans, sorts, and reads and writes at positions.

use super::check::*;
use ferrotrace::prelude::*;
use ferrotrace::{ReduceOp, Shape};

#[test]
fn scans() {
    let x = sample(&[3, 5]);
    let mut cases = Vec::new();
    for dim in [0, 1] {
        cases.extend([
            case("cumsum", &[&x], move |t| t[0].cumsum(dim)),
            case("cumprod", &[&x], move |t| t[0].cumprod(dim)),
            case("logcumsumexp", &[&x], move |t| t[0].logcumsumexp(dim)),
            case("cummax", &[&x], move |t| t[0].cummax(dim).0),
            case("cummin", &[&x], move |t| t[0].cummin(dim).0),
        ]);
    }
    // Of negative gradients, too.
    cases.push(case("−logcumsumexp", &[&x], |t| -t[0].logcumsumexp(1)));
    agree(&cases);
}

#[test]
fn scans_of_one_number_and_of_none() {
    let mut cases = Vec::new();
    for x in [
        of(&[], &[0.75]),
        of(&[1], &[0.75]),
        of(&[0, 3], &[]),
        of(&[3, 0], &[]),
    ] {
        cases.extend([
            case("cumsum", &[&x], |t| t[0].cumsum(0)),
            case("cumprod", &[&x], |t| t[0].cumprod(0)),
            case("logcumsumexp", &[&x], |t| t[0].logcumsumexp(0)),
            case("cummax", &[&x], |t| t[0].cummax(0).0),
            case("cummin", &[&x], |t| t[0].cummin(0).0),
            case("sort", &[&x], |t| t[0].sort(0, false).0),
        ]);
    }
    agree(&cases);
}

#[test]
fn running_products_of_zeros() {
    let mut cases = Vec::new();
    for row in [
        [0.0, 1.5, -2.0, 0.5],
        [1.5, 0.0, -2.0, 0.5],
        [1.5, 0.0, 0.5, 0.0],
        [0.0; 4],
    ] {
        cases.push(case("cumprod", &[&of(&[4], &row)], |t| t[0].cumprod(0)));
        cases.push(case("prod", &[&of(&[4], &row)], |t| t[0].prod(0)));
    }
    agree(&cases);
}

#[test]
fn sorted_values() {
    let x = sample(&[4, 3, 5]);
    agree(&[
        case("sort", &[&x], |t| t[0].sort(1, false).0),
        case("sort last", &[&x], |t| t[0].sort(-1, true).0.square()),
        case("topk", &[&x], |t| t[0].topk(2, 2, true).0.square()),
        case("topk least", &[&x], |t| t[0].topk(3, 0, false).0),
        case("max_with_index", &[&x], |t| {
            t[0].max_with_index(1).0.square()
        }),
        case("min_with_index", &[&x], |t| {
            t[0].min_with_index_keepdim(2).0
        }),
    ]);
}

#[test]
fn reads_at_positions() {
    let x = sample(&[4, 3]);
    let along = ints(&[0, 3, -1, 1, 1, 2]).reshape([2, 3]);
    let (rows, columns) = (ints(&[3, 0, 3, -2]), ints(&[1, 2, 1, 0]));
    let mask = x.gt(0.25);
    let (r, c) = (rows.clone(), columns.clone());
    agree(&[
        case("gather", &[&x], move |t| t[0].gather(0, &along).square()),
        case("index", &[&x], move |t| {
            t[0].index(&[Some(&r), Some(&c)]).square()
        }),
        case("index of a column", &[&x], move |t| {
            t[0].index(&[None, Some(&columns)])
        }),
        case("index_select", &[&x], move |t| {
            t[0].index_select(0, &rows).square()
        }),
        case("embedding", &[&x], |t| {
            t[0].embedding(&ints(&[1, 1, 0, 2]).reshape([2, 2]))
        }),
        case("masked_select", &[&x], move |t| t[0].masked_select(&mask)),
        case("take_along_dim", &[&x], |t| {
            t[0].take_along_dim(&ints(&[2, 0]).reshape([1, 2]), 1)
        }),
    ]);
}

#[test]
fn writes_at_positions() {
    let (x, one, rows) = (
        sample(&[4, 3]),
        of(&[1, 3], &[0.5, -1.5, 0.75]),
        sample(&[3, 3]),
    );
    let mut cases = Vec::new();
    for accumulate in [false, true] {
        // Position 2 is written twice.
        let (at, again) = (ints(&[2, 0, -2]), ints(&[2, 0, -2]));
        cases.push(case("index_put", &[&x, &rows], move |t| {
            t[0].index_put(&[Some(&at)], &t[1].square(), accumulate)
        }));
        cases.push(case("index_put broadcast", &[&x, &one], move |t| {
            t[0].index_put(&[Some(&again)], &t[1].square(), accumulate)
        }));
    }
    cases.push(case("index_add", &[&x, &rows], |t| {
        t[0].index_add(0, &ints(&[1, 1, 3]), &t[1].square())
    }));
    cases.push(case("slice_assign", &[&x, &one], |t| {
        t[0].slice_assign(0, 1, 4, 2, &t[1].square())
    }));
    agree(&cases);
}

/// Index, destination and a source that is larger than the index; destination and source differ everywhere, and so do the
/// elements that meet.
fn scattering() -> [Tensor; 3] {
    let index = ints(&[0, 2, 2, 1, 0, 0]).reshape([2, 3]);
    let (x, src) = (sample(&[3, 3]), sample(&[24]));
    [index, x, src.narrow(0, 9, 12).reshape([3, 4])]
}

#[test]
fn scatters() {
    let [index, x, src] = scattering();
    let mut cases = Vec::new();
    for dim in [0, 1] {
        let [i, j] = [index.clone(), index.clone()];
        cases.push(case("scatter", &[&x, &src], move |t| {
            t[0].scatter(dim, &i, &t[1].square())
        }));
        cases.push(case("scatter_add", &[&x, &src], move |t| {
            t[0].scatter_add(dim, &j, &t[1].square())
        }));
    }
    agree(&cases);
}

#[test]
fn scatters_that_reduce() {
    let [index, x, src] = scattering();
    for include in [true, false] {
        let mut cases = Vec::new();
        for (name, op) in [
            ("sum", ReduceOp::Sum),
            ("prod", ReduceOp::Prod),
            ("mean", ReduceOp::Mean),
            ("amax", ReduceOp::Amax),
            ("amin", ReduceOp::Amin),
        ] {
            let index = index.clone();
            cases.push(case(name, &[&x, &src], move |t| {
                t[0].scatter_reduce(1, &index, &t[1], op, include)
            }));
        }
        agree(&cases);
    }
}

#[test]
fn products_that_meet_zeros() {
    let index = ints(&[0, 0, 1, 1, 2, 2]);
    let x = of(&[4], &[1.5, 0.0, -0.5, 2.0]);
    let src = of(&[6], &[0.0, 2.0, 0.5, -1.5, 0.0, 0.0]);
    let mut cases = Vec::new();
    for include in [true, false] {
        let index = index.clone();
        // The derivatives of derivatives at zeros are those of PyTorch: they leave out products of two zeros.
        cases.push(
            case("prod", &[&x, &src], move |t| {
                t[0].scatter_reduce(0, &index, &t[1], ReduceOp::Prod, include)
            })
            .once(),
        );
    }
    agree(&cases);
}

#[test]
fn of_one_number_and_of_none() {
    let (number, none) = (of(&[], &[0.75]), of(&[0, 3], &[]));
    let at = || Tensor::zeros(Shape::scalar(), DType::I64, &Device::cpu());
    let nowhere = || Tensor::zeros([0, 3], DType::I64, &Device::cpu());
    agree(&[
        case("gather", &[&number], move |t| t[0].gather(0, &at())),
        case("scatter", &[&number, &of(&[], &[2.0])], move |t| {
            t[0].scatter(0, &at(), &t[1])
        }),
        case("max_with_index", &[&number], |t| t[0].max_with_index(0).0),
        case("topk", &[&number], |t| t[0].topk(1, 0, true).0),
        case("gather of none", &[&none], move |t| {
            t[0].gather(0, &nowhere())
        }),
        case("scatter of none", &[&sample(&[2, 3]), &none], move |t| {
            t[0].scatter_add(0, &nowhere(), &t[1])
        }),
        case("embedding of none", &[&sample(&[2, 3])], |t| {
            t[0].embedding(&ints(&[]))
        }),
        case("topk of none", &[&sample(&[2, 3])], |t| {
            t[0].topk(0, 1, true).0
        }),
    ]);
}
