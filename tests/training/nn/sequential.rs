//! Layers of any kinds in a list: named, trained, saved, and told apart by what they are.

use super::cpu;
use ferrotrace::nn::{
    Apply, BatchNorm1d, Dropout, Linear, Module, Relu, Sequential, Softsign, Tanh,
};
use ferrotrace::optim::AdamW;
use ferrotrace::prelude::*;
use ferrotrace::{manual_seed, stats_scope};

fn model() -> Sequential {
    let inner = Sequential::new().then(Linear::new(8, 8, &cpu())).then(Tanh);
    Sequential::new()
        .then(Linear::new(3, 8, &cpu()))
        .then(Apply(|x| x.relu()))
        .then(BatchNorm1d::new(8, &cpu()))
        .then(inner)
        .then(Linear::new(8, 1, &cpu()))
}

fn data() -> (Tensor, Tensor) {
    let x = Tensor::randn([32, 3], DType::F32, &cpu());
    let y = x.sum_keepdim(1).sin();
    (x, y)
}

#[test]
fn names_are_those_of_pytorch() {
    let names: Vec<String> = model()
        .leaves()
        .into_iter()
        .map(|l| l.names[0].clone())
        .collect();
    let expected = [
        "0.weight",
        "0.bias",
        "2.weight",
        "2.bias",
        "2.running_mean",
        "2.running_var",
        "2.num_batches_tracked",
        "3.0.weight",
        "3.0.bias",
        "4.weight",
        "4.bias",
    ];
    assert_eq!(names, expected);
    let parameters: Vec<String> = model().parameters().into_iter().map(|(n, _)| n).collect();
    assert!(!parameters.iter().any(|name| name.contains("running")));
}

/// The losses of ten steps, and the names and elements behind them.
fn trained(compiled: bool) -> (Vec<f32>, Vec<(String, Vec<f64>)>) {
    manual_seed(3);
    let (mut model, (x, y)) = (model(), data());
    let mut opt = AdamW::new(&model, 0.01);
    let step = |(mut model, mut opt, x, y): (Sequential, AdamW, &Tensor, &Tensor)| {
        let (loss, found) = value_and_grad(&model, |m| m.forward(x).mse_loss(y));
        opt.step(&mut model, &found);
        (model, opt, loss)
    };
    let replayed = jit(step);
    let mut losses = Vec::new();
    let (_, stats) = stats_scope(|| {
        for _ in 0..10 {
            let loss;
            (model, opt, loss) = match compiled {
                true => replayed.call((std::mem::take(&mut model), opt, &x, &y)),
                false => step((std::mem::take(&mut model), opt, &x, &y)),
            };
            losses.push(loss.item::<f32>().unwrap());
        }
    });
    assert_eq!(stats.traces, u64::from(compiled));
    let wide = |x: &Tensor| x.to_dtype(DType::F64).to_vec::<f64>().unwrap();
    let all = model.named_tensors().into_iter();
    (losses, all.map(|(name, x)| (name, wide(&x))).collect())
}

#[test]
fn trained_alike_in_each_mode() {
    let (losses, weights) = with_mode(Mode::Eager, || trained(false));
    assert!(losses[9] < losses[0]);
    for (mode, compiled) in [(Mode::Compiled, false), (Mode::Compiled, true)] {
        let (others, other_weights) = with_mode(mode, || trained(compiled));
        for (a, b) in losses.iter().zip(&others) {
            assert!((a - b).abs() <= 1e-4 * a.abs().max(1.0), "{a} {b}");
        }
        for ((name, a), (other, b)) in weights.iter().zip(&other_weights) {
            assert_eq!(name, other);
            let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-4 * a.abs().max(1.0);
            assert!(a.iter().zip(b).all(near), "{name}: {a:?} {b:?}");
        }
    }
}

#[test]
fn layers_without_tensors_are_part_of_the_signature() {
    let f = jit(|(model, x): (&Sequential, &Tensor)| model.forward(x));
    let x = Tensor::from_slice(&[-1.0f32, 0.5], 2, &cpu());
    let call = |model: Sequential| f.call((&model, &x)).to_vec::<f32>().unwrap();
    assert_eq!(call(Sequential::new().then(Relu)), [0.0, 0.5]);
    assert_eq!(call(Sequential::new().then(Softsign)), [-0.5, 1.0 / 3.0]);
    assert_eq!(
        call(Sequential::new().then(Apply(|x| x * 2.0))),
        [-2.0, 1.0]
    );
    assert_eq!(
        call(Sequential::new().then(Apply(|x| x * 3.0))),
        [-3.0, 1.5]
    );
    assert_eq!(call(Sequential::new()), [-1.0, 0.5]);
    let mut dropped = Sequential::new().then(Dropout::new(1.0));
    assert_eq!(call(dropped.clone()), [0.0, 0.0]);
    dropped.get_mut::<Dropout>(0).unwrap().training = false;
    assert_eq!(call(dropped.clone()), [-1.0, 0.5]);
    assert!(dropped.get::<Linear>(0).is_none() && dropped.get::<Dropout>(1).is_none());
    assert_eq!((dropped.len(), dropped.is_empty()), (1, false));
}

#[test]
fn saved_and_loaded_by_name() -> Result<()> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let (model, mut other) = (model(), model());
    io::save_safetensors(&path, &io::state_dict(&model).as_pairs())?;
    io::load_state_dict(&mut other, &io::load_safetensors(&path, &cpu())?)?;
    for ((name, a), (_, b)) in model.named_tensors().iter().zip(other.named_tensors()) {
        assert!(a.allclose(&b, 0.0, 0.0)?, "{name}");
    }
    let mut wrong = Sequential::new().then(Linear::new(3, 9, &cpu()));
    let error = io::load_state_dict(&mut wrong, &io::state_dict(&model)).unwrap_err();
    assert!(
        error.to_string().contains("0.weight: [8, 3] for [9, 3]"),
        "{error}"
    );
    Ok(())
}
