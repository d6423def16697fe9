//! Bags of embeddings, values and gradients.

use super::cpu;
use crate::reference::{case, each};
use ferrotrace::nn::{EmbeddingBag, Module};
use ferrotrace::prelude::*;

const MODES: [(&str, BagMode); 4] = [
    ("sum", BagMode::Sum),
    ("mean", BagMode::Mean),
    ("max", BagMode::Max),
    ("weighted", BagMode::Sum),
];

#[test]
fn bags_of_rows() {
    let case = case("bags");
    each(|dtype, tolerance| {
        let of = |name| case.input(name, dtype);
        let table = of("table").requires_grad();
        let line_weights = of("line_weights").requires_grad();
        let weights = of("weights").requires_grad();
        let (rows, line, offsets) = (of("rows"), of("line"), of("offsets"));
        let ends = Tensor::cat(&[&offsets, &offsets.full_like(7).narrow(0, 0, 1)], 0);
        for (name, mode) in MODES {
            for padding in [false, true] {
                for (form, last) in [("rows", false), ("line", false), ("line", true)] {
                    let mut bag = Bag::new(mode).include_last_offset(last);
                    let (at, offsets, by) = match form {
                        "rows" => (&rows, None, &weights),
                        _ if last => (&line, Some(&ends), &line_weights),
                        _ => (&line, Some(&offsets), &line_weights),
                    };
                    if name == "weighted" {
                        bag = bag.per_sample_weights(by);
                    }
                    if padding {
                        bag = bag.padding_idx(1);
                    }
                    let y = table.embedding_bag(at, offsets, bag);
                    assert_eq!(y.dtype(), dtype);
                    let padded = if padding { "_padded" } else { "" };
                    let name = format!("{form}_{name}{padded}{}", if last { "_last" } else { "" });
                    case.near(&name, &y, tolerance);
                    let by = grad(&y.square().sum(..), &[&table, by]);
                    case.near(&format!("{name}_dtable"), &by[0], tolerance);
                    if name.contains("weighted") {
                        case.near(&format!("{name}_dweights"), &by[1], tolerance);
                    }
                }
            }
        }
    });
}

#[test]
fn a_layer_of_bags() {
    let case = case("bags");
    each(|dtype, tolerance| {
        let mut layer = EmbeddingBag::new(6, 3, BagMode::Mean, &cpu());
        layer.weight = case.input("table", dtype);
        let (rows, line) = (case.input("rows", dtype), case.input("line", dtype));
        let offsets = case.input("offsets", dtype);
        case.near("rows_mean", &layer.forward(&rows), tolerance);
        let y = layer.bags(&line, &offsets, None);
        case.near("line_mean", &y, tolerance);
    });
    let layer = EmbeddingBag::new(6, 3, BagMode::Max, &cpu()).padding(2);
    let none = Tensor::from_slice(&[2i64, 2], [1, 2], &cpu());
    assert_eq!(layer.forward(&none).to_vec::<f32>().unwrap(), [0.0; 3]);
}

#[test]
fn positions_of_other_kinds_and_of_none() {
    let table = Tensor::arange(0, 6, 1, DType::F32, &cpu()).reshape([3, 2]);
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            for kind in [BagMode::Sum, BagMode::Mean, BagMode::Max] {
                let none = Tensor::zeros(0, DType::I64, &cpu());
                let starts = Tensor::zeros(2, DType::I32, &cpu());
                let y = table.embedding_bag(&none, Some(&starts), kind);
                assert_eq!(y.to_vec::<f32>().unwrap(), [0.0; 4]);
                let y = table.embedding_bag(&none.reshape([2, 0]), None, kind);
                assert_eq!(y.to_vec::<f32>().unwrap(), [0.0; 4]);
                let y = table.embedding_bag(&none, Some(&none), kind);
                assert_eq!(y.dims(), [0, 2]);
                // Every second position of memory, of I32.
                let all = Tensor::from_slice(&[2i32, 9, 0, 9, 2, 9, 2, 9], 8, &cpu());
                let at = all.slice(0, 0, isize::MAX, 2);
                let y = table
                    .t()
                    .contiguous()
                    .t()
                    .embedding_bag(&at, Some(&starts), kind);
                let want = match kind {
                    BagMode::Sum => [0.0, 0.0, 12.0, 16.0],
                    BagMode::Mean => [0.0, 0.0, 3.0, 4.0],
                    BagMode::Max => [0.0, 0.0, 4.0, 5.0],
                };
                assert_eq!(y.to_vec::<f32>().unwrap(), want);
            }
        });
    }
}

#[test]
fn bags_that_do_not_fit_are_errors() {
    let table = Tensor::ones([3, 2], DType::F32, &cpu());
    let at = Tensor::zeros(4, DType::I64, &cpu());
    let offsets = Tensor::zeros(2, DType::I64, &cpu());
    let rows = at.reshape([2, 2]);
    let weights = Tensor::ones(4, DType::F32, &cpu());
    let sum = || Bag::new(BagMode::Sum);
    let failed = [
        table.embedding_bag(&at, None, BagMode::Sum),
        table.embedding_bag(&rows, Some(&offsets), BagMode::Sum),
        table.embedding_bag(&at, Some(&offsets.to_dtype(DType::F32)), BagMode::Sum),
        table.embedding_bag(&at, Some(&rows), BagMode::Sum),
        table.embedding_bag(&at, Some(&offsets.narrow(0, 0, 0)), BagMode::Sum),
        table.embedding_bag(&rows, None, sum().include_last_offset(true)),
        table.embedding_bag(&at, Some(&offsets), sum().padding_idx(3)),
        table.embedding_bag(&rows, None, sum().per_sample_weights(&weights)),
        table.embedding_bag(
            &at,
            Some(&offsets),
            Bag::new(BagMode::Mean).per_sample_weights(&weights),
        ),
        table.embedding_bag(
            &at,
            Some(&offsets),
            sum().per_sample_weights(&weights.to_dtype(DType::F64)),
        ),
        table
            .select(0, 0)
            .embedding_bag(&at, Some(&offsets), BagMode::Sum),
        table
            .to_dtype(DType::I64)
            .embedding_bag(&rows, None, BagMode::Sum),
    ];
    for y in &failed {
        let error = y.error().unwrap_or_else(|| panic!("no error but {y:?}"));
        assert!(error.to_string().starts_with("embedding_bag: "), "{error}");
    }
    let beyond = Tensor::from_slice(&[0i64, 3], [1, 2], &cpu());
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            for kind in [BagMode::Sum, BagMode::Mean, BagMode::Max] {
                let y = table.embedding_bag(&beyond, None, kind);
                assert!(y.eval().is_err());
                let line = beyond.reshape(-1);
                let y = table.embedding_bag(&line, Some(&offsets), Bag::new(kind).padding_idx(1));
                assert!(y.eval().is_err());
            }
        });
    }
}
