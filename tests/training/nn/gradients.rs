//! Models are learnt: gradients through layers, buffers and ties.

use super::cpu;
use ferrotrace::nn::*;
use ferrotrace::optim::*;
use ferrotrace::prelude::*;

type Net = (Linear, BatchNorm1d, Relu, Linear);

fn both(body: impl Fn()) {
    with_mode(Mode::Eager, &body);
    with_mode(Mode::Compiled, &body);
}

/// Gradients of every parameter against differences of the loss, in F64.
fn like_differences<M: TensorStruct + Clone>(model: &M, loss: impl Fn(&M) -> Tensor) {
    let (_, gradients) = value_and_grad(model, &loss);
    let found = gradients.parameters();
    for (at, (name, parameter)) in model.parameters().into_iter().enumerate() {
        let values = parameter.to_vec::<f64>().unwrap();
        let got = found[at].1.to_vec::<f64>().unwrap();
        for i in (0..values.len()).step_by(values.len().div_ceil(4)) {
            let moved = |by: f64| {
                let mut values = values.clone();
                values[i] += by;
                let moved = Tensor::from_vec(values, parameter.dims(), &cpu());
                let model = model.map(|n, t| if n == name { moved.clone() } else { t.clone() });
                loss(&model).item::<f64>().unwrap()
            };
            let want = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            let close = (got[i] - want).abs() < 1e-6 * want.abs().max(1.0);
            assert!(close, "{name} {i}: {} for {want}", got[i]);
        }
    }
}

#[test]
fn of_layers() {
    let wide = |_: &str, t: &Tensor| t.to_dtype(DType::F64);
    let x = Tensor::randn([3, 4], DType::F64, &cpu());
    let model = (
        Linear::new(4, 5, &cpu()),
        Tanh,
        LayerNorm::new(5, &cpu()),
        Linear::new(5, 2, &cpu()),
    );
    like_differences(&model.map(wide), |m| m.forward(&x).square().sum(..));
    let model = (Linear::new(4, 6, &cpu()), Gelu, RmsNorm::new(6, &cpu()));
    like_differences(&model.map(wide), |m| m.forward(&x).exp().mean(..));
}

/// The running statistics move once a step, and the optimiser leaves them alone.
#[test]
fn a_model_with_buffers_is_trained() {
    both(|| {
        let step = jit(
            |(mut model, mut opt, x, t): (Net, AdamW, &Tensor, &Tensor)| {
                let (loss, gradients) = value_and_grad(&model, |m| m.forward(x).mse_loss(t));
                opt.step(&mut model, &gradients);
                (model, opt, loss)
            },
        );
        let model: Net = (
            Linear::new(2, 16, &cpu()),
            BatchNorm1d::new(16, &cpu()),
            Relu,
            Linear::new(16, 1, &cpu()),
        );
        let opt = AdamW::new(&model, 0.02);
        assert!(opt.state.keys().all(|name| !name.contains("running")));
        let x = Tensor::randn([64, 2], DType::F32, &cpu());
        let t = (x.narrow(1, 0, 1) * x.narrow(1, 1, 1)).abs();
        let mut state = step.call((model, opt, &x, &t));
        let first = state.2.item::<f32>().unwrap();
        for _ in 1..100 {
            state = step.call((state.0, state.1, &x, &t));
        }
        let last = state.2.item::<f32>().unwrap();
        assert!(last < 0.2 * first, "{last} of {first}");
        let tracked = state.0.1.num_batches_tracked.get();
        assert_eq!(tracked.item::<i64>().unwrap(), 100);
        assert!(!state.0.1.running_mean.get().has_grad());
    });
}

#[test]
fn a_buffer_that_was_captured_is_not_written_by_a_gradient() {
    let model = std::sync::Arc::new(BatchNorm1d::new(1, &cpu()));
    let shared = model.clone();
    with_mode(Mode::Compiled, || {
        let f = jit(move |x: &Tensor| value_and_grad(&*shared, |m| m.forward(x).sum(..)).0);
        let x = Tensor::ones([3, 1], DType::F32, &cpu());
        assert!(f.call(&x).item::<f32>().is_err());
        assert_eq!(model.running_mean.get().item::<f32>().unwrap(), 0.0);
    });
}

/// A weight in two places has the sum of both gradients.
#[test]
fn tied_weights_have_one_gradient() {
    both(|| {
        let shared = Linear::new(2, 2, &cpu()).without_bias();
        let model = (shared.clone(), shared);
        let x = Tensor::ones([1, 2], DType::F32, &cpu());
        let loss = |(a, b): &(Linear, Linear)| (a.forward(&x) + b.forward(&x)).sum(..);
        let (_, gradients) = value_and_grad(&model, loss);
        assert_eq!(gradients.1.weight.to_vec::<f32>().unwrap(), [2.0; 4]);
        assert_eq!(gradients.leaves().len(), 1);
    });
}

/// Both biases of a sum have its gradient, each for itself.
#[test]
fn parameters_with_one_gradient_are_not_tied() {
    both(|| {
        let model = [1.0, 2.0].map(|b| Tensor::full(3, b, DType::F32, &cpu()));
        let loss = |[a, b]: &[Tensor; 2]| (a + b).sum(..);
        let required = require_gradients(&model);
        loss(&required).backward();
        let found = [value_and_grad(&model, loss).1, gradients_of(&required)];
        for gradients in found {
            assert_eq!(gradients.parameters().len(), 2);
            let norm = global_norm(&gradients).item::<f32>().unwrap();
            assert!((norm - 6f32.sqrt()).abs() < 1e-6, "{norm}");
            let shared = [gradients[0].clone(), gradients[0].clone()];
            for gradients in [gradients, shared] {
                let mut moved = model.clone();
                Sgd::new(&moved, 1.0).step(&mut moved, &gradients);
                let moved = moved.map(|b| b.to_vec::<f32>().unwrap());
                assert_eq!(moved, [[0.0; 3], [1.0; 3]]);
            }
        }
    });
}

#[test]
fn what_is_not_learnt_has_a_gradient_of_zeros() {
    let ones = |dtype| Tensor::ones(2, dtype, &cpu());
    let model = (ones(DType::F32), ones(DType::I64), ones(DType::F32));
    let (loss, gradients) = value_and_grad(&model, |(a, n, _)| (a * n).sum(..));
    assert_eq!(loss.item::<f32>().unwrap(), 2.0);
    assert!(!loss.has_grad() && !gradients.0.has_grad());
    assert_eq!(gradients.0.to_vec::<f32>().unwrap(), [1.0; 2]);
    assert_eq!(gradients.1.to_vec::<i64>().unwrap(), [0; 2]);
    assert_eq!(gradients.2.to_vec::<f32>().unwrap(), [0.0; 2]);
    let (_, wrong) = value_and_grad(&model, |(a, ..)| a * 2.0);
    assert!(wrong.0.to_vec::<f32>().is_err());
}

#[test]
fn gradients_of_gradients() {
    let model = [Tensor::scalar(3.0, DType::F64, &cpu())];
    let (_, second) = value_and_grad(&model, |m| {
        let (_, first) = value_and_grad(m, |[w]| w * w * w);
        first[0].clone()
    });
    assert_eq!(second[0].item::<f64>().unwrap(), 18.0);
}
