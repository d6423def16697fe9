//! Structs of tensors, saved and loaded by names.

use crate::common::*;
use ferrotrace::io::{
    Checkpoint, Differences, TensorMap, load_pt, load_safetensors, load_state_dict,
    load_state_dict_partly, save_safetensors, state_dict,
};
use ferrotrace::prelude::*;
use ferrotrace::stats_scope;

#[derive(TensorStruct)]
struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

#[derive(TensorStruct)]
struct Model {
    embedding: Tensor,
    layers: Vec<Linear>,
    head: Tensor,
    scale: f64,
}

fn linear(n: usize) -> Linear {
    Linear {
        weight: Tensor::randn([n, n], DType::F32, &cpu()),
        bias: Some(Tensor::randn(n, DType::F32, &cpu())),
    }
}

/// A model whose first and last tensors are tied.
fn model() -> Model {
    let embedding = Tensor::randn([3, 4], DType::F32, &cpu());
    Model {
        head: embedding.clone(),
        embedding,
        layers: vec![linear(4), linear(5)],
        scale: 0.5,
    }
}

const NAMES: [&str; 5] = [
    "embedding",
    "layers.0.bias",
    "layers.0.weight",
    "layers.1.bias",
    "layers.1.weight",
];

#[test]
fn models_come_back_and_stay_tied() {
    both(|| {
        let folder = folder();
        let path = folder.path().join("x.safetensors");
        let first = model();
        let state = state_dict(&first);
        assert_eq!(state.names().collect::<Vec<_>>(), NAMES);
        save_safetensors(&path, &state.as_pairs()).unwrap();
        let mut second = model();
        load_state_dict(&mut second, &load_safetensors(&path, &cpu()).unwrap()).unwrap();
        for (name, x) in &state_dict(&second) {
            same(x, &state[name.as_str()]);
        }
        assert_eq!(second.leaves().len(), 5);
        assert_eq!(second.leaves()[0].names, ["embedding", "head"]);
        same(&second.head, &first.head);
    });
}

#[test]
fn initial_weights_are_never_computed() {
    let state = state_dict(&model());
    ferrotrace::eval(state.iter().map(|(_, x)| x)).unwrap();
    let (loaded, stats) = stats_scope(|| {
        let mut model = model();
        load_state_dict(&mut model, &state).unwrap();
        model.eval().unwrap();
        model
    });
    assert_eq!(
        (stats.flushes, stats.kernels_launched, stats.bytes_allocated),
        (0, 0, 0)
    );
    assert_eq!(loaded.scale, 0.5);
}

#[test]
fn what_is_missing_unexpected_or_misshapen_is_listed() {
    let mut target = model();
    let before = state_dict(&target);
    let mut state = state_dict(&model());
    let bias = state.remove("layers.0.bias").unwrap();
    state.insert("layers.0.bais", bias.clone());
    state.insert("other", bias);
    let error = load_state_dict(&mut target, &state)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("missing: layers.0.bias; unexpected: layers.0.bais, other"),
        "{error}"
    );
    for (name, x) in &state_dict(&target) {
        same(x, &before[name.as_str()]);
    }
    let differences = load_state_dict_partly(&mut target, &state).unwrap();
    let want = Differences {
        missing: vec!["layers.0.bias".to_owned()],
        unexpected: vec!["layers.0.bais".to_owned(), "other".to_owned()],
    };
    assert_eq!(differences, want);
    same(&target.layers[1].weight, &state["layers.1.weight"]);
    same(
        target.layers[0].bias.as_ref().unwrap(),
        &before["layers.0.bias"],
    );

    state.insert("layers.1.weight", Tensor::zeros([5, 4], DType::F32, &cpu()));
    state.insert("embedding", Tensor::zeros([3], DType::F32, &cpu()));
    let error = load_state_dict_partly(&mut target, &state)
        .unwrap_err()
        .to_string();
    let list = "misshapen: embedding: [3] for [3, 4], layers.1.weight: [5, 4] for [5, 5]";
    assert!(error.contains(list), "{error}");
    refused(load_state_dict(&mut target, &state), list);
}

#[test]
fn any_name_of_a_tied_tensor_will_do() {
    for name in ["embedding", "head"] {
        let mut state = state_dict(&model());
        let embedding = state.remove("embedding").unwrap();
        state.insert(name, embedding.clone());
        let mut target = model();
        load_state_dict(&mut target, &state).unwrap();
        same(&target.embedding, &embedding);
        same(&target.head, &embedding);
        assert_eq!(target.leaves().len(), 5);
    }
}

#[test]
fn dtypes_and_gradients_are_the_structs() {
    let mut pair = [
        Tensor::zeros(2, DType::BF16, &cpu()),
        Tensor::zeros(2, DType::F32, &cpu()).requires_grad(),
    ];
    let one = Tensor::ones(2, DType::F64, &cpu());
    let state = TensorMap::from_iter([("0", one.clone()), ("1", &one * 2.0)]);
    load_state_dict(&mut pair, &state).unwrap();
    assert_eq!(
        (pair[0].dtype(), pair[1].dtype()),
        (DType::BF16, DType::F32)
    );
    assert!(!pair[0].has_grad() && pair[1].has_grad());
    let loss = (&pair[1] * &pair[1]).sum(..);
    assert_eq!(
        grad(&loss, &[&pair[1]])[0].to_vec::<f32>().unwrap(),
        [4.0, 4.0]
    );
}

#[test]
fn a_tensor_that_carries_an_error_is_not_loaded() {
    let mut one = [Tensor::zeros(2, DType::F32, &cpu())];
    let bad = sample(DType::F32).matmul(&sample(DType::I64));
    let state = TensorMap::from_iter([("0", bad)]);
    assert!(load_state_dict(&mut one, &state).is_err());
    assert_eq!(one[0].to_vec::<f32>().unwrap(), [0.0; 2]);
}

#[test]
fn structs_in_a_checkpoint() {
    let folder = folder();
    let path = folder.path().join("x.safetensors");
    let (first, zeros) = (model(), vec![Tensor::zeros(3, DType::F64, &cpu())]);
    let mut checkpoint = Checkpoint::new();
    checkpoint.set_struct("model", &first);
    checkpoint.set_struct("optimiser", &zeros);
    checkpoint.save(&path).unwrap();
    let loaded = Checkpoint::load(&path, &cpu()).unwrap();
    let (mut second, mut ones) = (model(), vec![Tensor::ones(3, DType::F64, &cpu())]);
    loaded.load_struct("model", &mut second).unwrap();
    loaded.load_struct("optimiser", &mut ones).unwrap();
    same(&second.layers[1].weight, &first.layers[1].weight);
    same(&ones[0], &zeros[0]);
    refused(
        loaded.load_struct("modell", &mut second),
        "missing: embedding",
    );
}

#[test]
fn a_model_of_pytorchs() {
    #[derive(TensorStruct)]
    struct Norm {
        weight: Tensor,
        bias: Tensor,
        running_mean: Tensor,
        running_var: Tensor,
        num_batches_tracked: Tensor,
    }
    let zeros = |n: usize| Tensor::zeros(n, DType::F32, &cpu());
    let layer = Linear {
        weight: Tensor::randn([3, 2], DType::F32, &cpu()),
        bias: Some(zeros(3)),
    };
    let norm = Norm {
        weight: zeros(3),
        bias: zeros(3),
        running_mean: zeros(3),
        running_var: zeros(3),
        num_batches_tracked: Tensor::scalar(0, DType::I64, &cpu()),
    };
    let mut model = (layer, norm);
    let all = load_pt(data("pytorch/checkpoint.pt"), &cpu()).unwrap();
    let state: TensorMap = all
        .iter()
        .filter_map(|(name, x)| Some((name.strip_prefix("model.")?, x.clone())))
        .collect();
    load_state_dict(&mut model, &state).unwrap();
    assert_eq!(model.1.num_batches_tracked.to_scalar::<i64>().unwrap(), 1);
    same(&model.0.weight, &state["0.weight"]);
}
