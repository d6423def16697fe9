//! Visiting, mapping and comparing structs, and tied tensors.

use super::{Linear, Model, both, holds, names, v};
use ferrotrace::prelude::*;

/// A model whose first and last weights are one.
fn tied() -> Model {
    let mut model = Model::of(3);
    model.layers[2].weight = model.layers[0].weight.clone();
    model
}

#[test]
fn a_tied_tensor_is_one_leaf() {
    let model = tied();
    let leaves = model.leaves();
    let all: Vec<&[String]> = leaves.iter().map(|leaf| &leaf.names[..]).collect();
    let expected: [&[&str]; 4] = [
        &["layers.0.weight", "layers.2.weight"],
        &["layers.1.weight"],
        &["layers.1.bias"],
        &["layers.2.bias"],
    ];
    assert_eq!(all, expected);
    // Equal values are not one value.
    let same = [v(&[1.0]), v(&[1.0])];
    assert_eq!(same.leaves().len(), 2);
    assert_eq!([same[0].clone(), same[0].clone()].leaves().len(), 1);
    // A handle outside makes no tie.
    let _outside = same[0].clone();
    assert_eq!(same.leaves().len(), 2);
    assert_eq!(names(&model).len(), 5);
}

#[test]
fn every_leaf_is_met_once() {
    both(|| {
        let mut model = tied();
        let mut met = Vec::new();
        model.for_each(|name, _| met.push(name.to_owned()));
        let expected = [
            "layers.0.weight",
            "layers.1.weight",
            "layers.1.bias",
            "layers.2.bias",
        ];
        assert_eq!(met, expected);

        let mapped = model.map(|_, tensor| tensor + 1.0);
        holds(&mapped.layers[2].weight, &[2.0, 3.0]);
        assert_eq!(mapped.leaves().len(), 4);

        met.clear();
        model.for_each_mut(|name, tensor| {
            met.push(name.to_owned());
            *tensor *= 2.0;
        });
        assert_eq!(met, expected);
        holds(&model.layers[0].weight, &[2.0, 4.0]);
        holds(&model.layers[2].weight, &[2.0, 4.0]);
        assert_eq!(model.leaves().len(), 4);

        let steps = model.map(|name, tensor| match name {
            "layers.1.bias" => tensor.zeros_like(),
            _ => tensor * 0.5,
        });
        model
            .zip_mut(&steps, |_, tensor, step| *tensor -= step)
            .unwrap();
        holds(&model.layers[0].weight, &[1.0, 2.0]);
        holds(&model.layers[2].weight, &[1.0, 2.0]);
        holds(&model.layers[1].bias.clone().unwrap(), &[1.0, 3.0]);
        assert_eq!(model.leaves().len(), 4);
    });
}

#[test]
fn structures_are_compared_by_names() {
    let mut model = Model::of(2);
    let mut other = Model::of(2);
    other.scale = 3.0;
    other.layers[0].weight = v(&[1.0, 2.0, 3.0]);
    assert!(model.same_structure(&other));
    other.layers[0].bias = Some(v(&[1.0]));
    assert!(!model.same_structure(&other));
    let error = model
        .zip_mut(&other, |_, _, _| unreachable!("nothing is visited"))
        .unwrap_err();
    assert!(error.to_string().contains("layers.1.weight"), "{error}");
    other.layers.clear();
    let error = model
        .zip_mut(&other, |_, _, _| unreachable!("nothing is visited"))
        .unwrap_err();
    assert!(error.to_string().contains("layers.0.weight"), "{error}");
}

#[test]
fn all_tensors_are_computed_at_once() {
    let model = Model::of(2).map(|_, tensor| tensor + 1.0);
    let (result, stats) = ferrotrace::stats_scope(|| with_mode(Mode::Compiled, || model.eval()));
    result.unwrap();
    assert_eq!(stats.flushes, 1);
    holds(&model.layers[1].weight, &[3.0, 3.0]);
    let bad = Linear {
        weight: v(&[1.0]).reshape(7),
        bias: None,
    };
    assert!(bad.eval().is_err());
    assert!(explain(&model.tensors()).to_string().len() > 10);
}
