//! Models of many kinds beside PyTorch's: losses of a few steps and gradients, of numbers that a formula gives
//! (`pytorch.py`, which writes `pytorch.json`), in both modes and compiled as a function.

mod dense;
mod images;
mod routed;
mod sequences;

use ferrotrace::derived::{JitArg, JitResult, Owned};
use ferrotrace::optim::Sgd;
use ferrotrace::prelude::*;
use ferrotrace::value_and_grad;
use serde_json::Value;
use std::sync::OnceLock;

fn seed(name: &str) -> usize {
    let weighted = |(at, c): (usize, u8)| (at + 1) * c as usize;
    name.bytes().enumerate().map(weighted).sum::<usize>() % 1009
}

fn drawn(name: &str, n: usize) -> impl Iterator<Item = usize> {
    let seed = seed(name);
    (0..n).map(move |i| (i * 7919 + seed * 31 + 13) % 2003)
}

/// Numbers between −1 and 1 that depend on the name and the position.
fn numbers(name: &str, shape: &[usize], dtype: DType) -> Tensor {
    let all = drawn(name, shape.iter().product()).map(|k| k as f64 / 1001.5 - 1.0);
    Tensor::from_vec(all.collect::<Vec<f64>>(), shape, &Device::cpu()).to_dtype(dtype)
}

/// Whole numbers below `below` that depend on the name and the position.
fn whole(name: &str, below: usize, shape: &[usize]) -> Tensor {
    let all = drawn(name, shape.iter().product()).map(|k| (k % below) as i64);
    Tensor::from_vec(all.collect::<Vec<i64>>(), shape, &Device::cpu())
}

/// The parameters that a model begins with.
fn initial<M: TensorStruct>(mut model: M, dtype: DType) -> M {
    model.for_each_mut(|name, tensor| {
        let dims = tensor.dims().to_vec();
        if name.contains("running") || !tensor.dtype().is_float() {
            return;
        }
        let values = numbers(name, &dims, DType::F64);
        let fan = dims.iter().product::<usize>() as f64 / *dims.first().unwrap_or(&1) as f64;
        let values = match (
            dims.len(),
            name.contains("norm") && name.ends_with("weight"),
        ) {
            (0 | 1, true) => values * 0.3 + 1.0,
            (0 | 1, false) => values * 0.3,
            _ => values * (1.5 / fan.sqrt()),
        };
        *tensor = values.to_dtype(dtype);
    });
    model
}

fn expected(name: &str) -> &'static Value {
    static ALL: OnceLock<Value> = OnceLock::new();
    let all = ALL.get_or_init(|| serde_json::from_str(include_str!("pytorch.json")).expect("JSON"));
    let found = &all[name];
    assert!(found.is_object(), "no {name}");
    found
}

fn wide(x: &Tensor) -> Vec<f64> {
    let values = x.to_dtype(DType::F64).to_vec::<f64>();
    values.unwrap_or_else(|error| panic!("{error}"))
}

/// The norm of a gradient and three of its elements.
fn digest(gradient: &Tensor) -> [f64; 4] {
    let all = wide(gradient);
    let norm = all.iter().map(|x| x * x).sum::<f64>().sqrt();
    [norm, all[0], all[all.len() / 2], all[all.len() - 1]]
}

/// Four losses with steps of gradient descent between them, and the first gradients.
fn descend<M: TensorStruct + Clone>(
    what: &str,
    name: &str,
    tolerance: f64,
    mut model: M,
    mut pulled: impl FnMut(&M) -> (Tensor, M),
) {
    let want = expected(name);
    let number = |value: &Value| value.as_f64().expect("a number");
    let losses = want["losses"].as_array().expect("losses");
    let mut optimiser = Sgd::new(&model, 0.01);
    for (step, want_loss) in losses.iter().enumerate() {
        let (loss, gradients) = pulled(&model);
        let (got, want_loss) = (wide(&loss)[0], number(want_loss));
        let close = (got - want_loss).abs() <= tolerance * (1.0 + want_loss.abs());
        assert!(
            close,
            "{name} {what}, step {step}: the loss is {got}, not {want_loss}"
        );
        if step == 0 {
            let wanted = want["gradients"].as_object().expect("gradients");
            let found = gradients.parameters();
            assert_eq!(found.len(), wanted.len(), "{name}: {:?}", wanted.keys());
            for (path, gradient) in found {
                let wanted = wanted.get(&path).and_then(Value::as_array);
                let wanted = wanted.unwrap_or_else(|| panic!("{name}: no {path}"));
                let wanted: Vec<f64> = wanted.iter().map(number).collect();
                let got = digest(&gradient);
                let near = |(a, b): (&f64, &f64)| (a - b).abs() <= tolerance * (1.0 + wanted[0]);
                assert!(
                    got.iter().zip(&wanted).all(near),
                    "{name} {what}: the gradient by {path} is {got:?}, not {wanted:?}"
                );
            }
        }
        optimiser.step(&mut model, &gradients);
    }
}

/// Compares a model with PyTorch's of that name.
fn like_pytorch<M>(name: &'static str, model: impl Fn() -> M, loss: fn(&M, DType) -> Tensor)
where
    M: TensorStruct + Clone + JitArg<Kind = Owned<M>> + JitResult + Send + Sync,
{
    for (dtype, tolerance) in [(DType::F64, 1e-9), (DType::F32, 2e-5)] {
        let begin = initial(model(), dtype);
        let pull = move |model: &M| value_and_grad(model, |model| loss(model, dtype));
        for mode in [Mode::Eager, Mode::Compiled] {
            with_mode(mode, || {
                descend(
                    &format!("{mode:?} {dtype}"),
                    name,
                    tolerance,
                    begin.clone(),
                    pull,
                );
            });
        }
        let compiled = jit(move |model: M| pull(&model));
        let called = |model: &M| compiled.call(model.clone());
        descend(&format!("jit {dtype}"), name, tolerance, begin, called);
    }
}

fn cpu() -> Device {
    Device::cpu()
}
