//! Optimisers against PyTorch's on given gradients, and what is done around them.

mod averages;
mod compiled;
mod lazy;
mod lbfgs;
mod mixed;

use crate::reference::{Case, case};
use ferrotrace::nn::Linear;
use ferrotrace::optim::*;
use ferrotrace::prelude::*;

pub fn cpu() -> Device {
    Device::cpu()
}

/// A matrix and a vector, with the gradients of twelve steps.
pub fn given(dtype: DType) -> (Linear, Vec<Linear>) {
    let case = case("optim_inputs");
    let of = |end: String| Linear {
        weight: case.input(&format!("w{end}"), dtype),
        bias: Some(case.input(&format!("b{end}"), dtype)),
    };
    let steps = (0..12).map(|i| of(i.to_string())).collect();
    (of(String::new()), steps)
}

fn near(case: &Case, i: usize, model: &Linear, tolerance: f64) {
    if !case.outputs().any(|name| *name == format!("w{i}")) {
        return;
    }
    case.near(&format!("w{i}"), &model.weight, tolerance);
    let bias = model.bias.as_ref().expect("a bias");
    case.near(&format!("b{i}"), bias, tolerance);
}

/// Twelve steps come out as PyTorch's, in both modes, step by step and compiled.
fn like_torch<R: Rule + Clone>(name: &str, make: impl Fn(&Linear) -> Optimizer<R>) {
    let case = case(&format!("optim_{name}"));
    let step = jit(
        |(mut model, mut opt, gradients): (Linear, Optimizer<R>, &Linear)| {
            opt.step(&mut model, gradients);
            (model, opt)
        },
    );
    for (dtype, tolerance) in [(DType::F64, 1e-8), (DType::F32, 2e-5)] {
        for mode in [Mode::Eager, Mode::Compiled] {
            with_mode(mode, || {
                let (mut model, steps) = given(dtype);
                let mut opt = make(&model);
                let (mut again, mut opt_again) = (model.clone(), opt.clone());
                for (i, gradients) in steps.iter().enumerate() {
                    opt.step(&mut model, gradients);
                    near(&case, i, &model, tolerance);
                    (again, opt_again) = step.call((again, opt_again, gradients));
                    near(&case, i, &again, tolerance);
                }
                assert_eq!(opt.steps.item::<i64>().unwrap(), 12);
                assert_eq!(model.weight.dtype(), dtype);
            });
        }
    }
}

#[test]
fn stochastic_gradient_descent() {
    like_torch("sgd", |m| Sgd::new(m, 0.1).weight_decay(0.05));
    like_torch("sgd_momentum", |m| {
        let sgd = Sgd::with_momentum(m, 0.1, 0.9);
        sgd.dampening(0.3).weight_decay(0.05)
    });
    like_torch("sgd_nesterov", |m| {
        Sgd::with_momentum(m, 0.1, 0.9).nesterov()
    });
}

#[test]
fn adam_and_adamw() {
    like_torch("adam", |m| Adam::new(m, 0.1).weight_decay(0.05));
    like_torch("adamw", |m| {
        AdamW::new(m, 0.1).betas(0.8, 0.95).weight_decay(0.2)
    });
    like_torch("adamw_amsgrad", |m| AdamW::new(m, 0.1).amsgrad());
}

#[test]
fn the_others() {
    like_torch("rmsprop", |m| {
        RmsProp::new(m, 0.1).alpha(0.9).weight_decay(0.05)
    });
    like_torch("rmsprop_all", |m| {
        RmsProp::new(m, 0.1).alpha(0.9).momentum(0.5).centered()
    });
    like_torch("adagrad", |m| {
        let opt = Adagrad::new(m, 0.1).lr_decay(0.1).begin_with(0.1);
        opt.weight_decay(0.05)
    });
    like_torch("adadelta", |m| {
        Adadelta::new(m, 1.5).rho(0.8).weight_decay(0.05)
    });
    like_torch("lion", |m| Lion::new(m, 0.05).weight_decay(0.1));
}

#[test]
fn relatives_of_adam() {
    like_torch("nadam", |m| NAdam::new(m, 0.1).weight_decay(0.05));
    like_torch("nadam_decoupled", |m| {
        let opt = NAdam::new(m, 0.1).betas(0.8, 0.95).momentum_decay(0.1);
        opt.decoupled().weight_decay(0.2)
    });
    like_torch("radam", |m| RAdam::new(m, 0.1).weight_decay(0.05));
    like_torch("radam_decoupled", |m| {
        let opt = RAdam::new(m, 0.1).betas(0.8, 0.95);
        opt.decoupled().weight_decay(0.2)
    });
    like_torch("adamax", |m| {
        Adamax::new(m, 0.1).betas(0.8, 0.95).weight_decay(0.05)
    });
}

#[test]
fn means_of_rows_and_columns() {
    like_torch("adafactor", |m| Adafactor::new(m, 0.1));
    like_torch("adafactor_all", |m| {
        let opt = Adafactor::new(m, 0.3).beta2_decay(-0.5).eps(1e-3);
        opt.least_scale(0.7).clip(1.5).weight_decay(0.05)
    });
}

#[test]
fn signs_and_averages() {
    like_torch("rprop", |m| Rprop::new(m, 0.1));
    like_torch("rprop_all", |m| {
        Rprop::new(m, 0.1).etas(0.4, 1.5).sizes(0.05, 0.2)
    });
    like_torch("asgd", |m| Asgd::new(m, 0.1).weight_decay(0.05));
    like_torch("asgd_all", |m| {
        Asgd::new(m, 0.2).lambda(0.01).alpha(0.5).begin(3.0)
    });
}

/// What is kept of a parameter has its dtype, that of a number too, so that steps are one trace.
#[test]
fn numbers_keep_their_dtype() {
    fn steps<R: Rule>(make: impl Fn(&Tensor) -> Optimizer<R>) {
        for dtype in [DType::F32, DType::F64, DType::BF16] {
            let mut model = Tensor::scalar(2, dtype, &cpu());
            let mut opt = make(&model);
            let before = opt.state[""].memory.clone();
            for _ in 0..2 {
                let gradient = model.clone();
                opt.step(&mut model, &gradient);
            }
            assert_eq!(model.dtype(), dtype);
            assert!(model.item::<f64>().unwrap() < 2.0);
            for (name, tensor) in &opt.state[""].memory {
                assert_eq!(tensor.dtype(), before[name].dtype(), "{name}");
            }
        }
    }
    steps(|m| Adafactor::new(m, 0.1));
    steps(|m| Rprop::new(m, 0.1));
    steps(|m| Asgd::new(m, 0.1).begin(0.0));
    steps(|m| NAdam::new(m, 0.1));
    steps(|m| Adadelta::new(m, 20.0));
}

#[test]
fn muon_takes_matrices_alone() {
    like_torch("muon", |m| {
        let opt = Muon::new(m, 0.05).compute(m.weight.dtype());
        assert_eq!(opt.state.keys().collect::<Vec<_>>(), ["weight"]);
        opt
    });
}

#[test]
fn groups_clipping_and_schedules() {
    like_torch("adamw_groups", |m| {
        AdamW::new(m, 0.1).group(|name| name == "bias", 0.2, Some(0.0))
    });
    like_torch("clip_norm", |m| Sgd::new(m, 0.1).clip_norm(0.5));
    like_torch("scheduled", |m| {
        AdamW::new(m, 0.1).schedule(Schedule::cosine(8).warmup_from(0.25, 4))
    });
}

#[test]
fn rates_over_time() {
    let case = case("schedules");
    let steps = Tensor::arange(0, 20, 1, DType::I64, &cpu());
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            let near = |name, schedule: Schedule| {
                case.near(name, &schedule.factor(&steps), 1e-9);
            };
            near("steps", Schedule::steps(3, 0.5));
            near("exponential", Schedule::exponential(0.9));
            near("cosine", Schedule::cosine_to(20, 0.1));
            near("polynomial", Schedule::polynomial(10, 2.0));
            near("one_cycle", Schedule::one_cycle(20));
        });
    }
    let factors = Schedule::cosine(8).warmup_from(0.25, 4).factor(&steps);
    let factors = factors.narrow(0, 0, 13);
    let want = case.output("warm").narrow(0, 0, 13);
    assert!(factors.allclose(&want, 0.0, 1e-9).unwrap());
    assert_eq!(
        Schedule::constant()
            .factor(&steps)
            .min(..)
            .item::<f64>()
            .unwrap(),
        1.0
    );
}

#[test]
fn frozen_parameters_stay_as_they_are() {
    let layers = || vec![Linear::new(2, 2, &cpu()), Linear::new(2, 2, &cpu())];
    let mut model = layers();
    let before: Vec<Vec<f32>> = values(&model);
    let gradients = model.map(|_, t| t.ones_like());
    let mut opt = AdamW::new(&model, 0.1)
        .freeze_under("0")
        .freeze(|name| name.ends_with("bias"));
    assert_eq!(opt.state.keys().collect::<Vec<_>>(), ["1.weight"]);
    opt.step(&mut model, &gradients);
    let after = values(&model);
    assert_eq!(before[..2], after[..2]);
    assert_ne!(before[2], after[2]);
    assert_eq!(before[3], after[3]);
    let opt = Sgd::new(&layers(), 0.1).only(|name| name.starts_with("1."));
    assert_eq!(opt.state.len(), 2);
    // A path is no prefix of a longer name.
    let many: Vec<Linear> = (0..11).flat_map(|_| layers().pop()).collect();
    assert_eq!(Sgd::new(&many, 0.1).freeze_under("1").state.len(), 20);
}

fn values(model: &impl TensorStruct) -> Vec<Vec<f32>> {
    let tensors = model.tensors();
    tensors.iter().map(|t| t.to_vec::<f32>().unwrap()).collect()
}

#[test]
fn tied_parameters_stay_tied() {
    let shared = Linear::new(3, 3, &cpu());
    let mut model = (shared.clone(), shared);
    let gradients = model.map(|_, t| t.ones_like());
    let mut opt = AdamW::new(&model, 0.1);
    assert_eq!(opt.state.len(), 2);
    opt.step(&mut model, &gradients);
    assert_eq!(model.leaves().len(), 2);
    let all = values(&model);
    assert_eq!(all[0], all[2]);
}

#[test]
fn sums_and_limits_of_gradients() {
    let of = |v: f64| [Tensor::full(2, v, DType::F32, &cpu())];
    let mut total = of(0.0);
    for v in [1.0, 2.0, 6.0] {
        add_gradients(&mut total, &of(v), 1.0 / 3.0).unwrap();
    }
    assert_eq!(total[0].to_vec::<f32>().unwrap(), [3.0, 3.0]);
    clip_value(&mut total, 0.5);
    assert_eq!(total[0].to_vec::<f32>().unwrap(), [0.5, 0.5]);
    let norm = clip_norm(&mut total, 10.0).item::<f32>().unwrap();
    assert!((norm - 0.5f32.sqrt()).abs() < 1e-6);
    assert_eq!(total[0].to_vec::<f32>().unwrap(), [0.5, 0.5]);
    let mut model = of(0.0);
    let mut opt = Sgd::new(&model, 1.0).clip_value(0.25);
    opt.step(&mut model, &of(-4.0));
    assert_eq!(model[0].to_vec::<f32>().unwrap(), [0.25, 0.25]);
}

#[test]
fn gradients_that_do_not_fit_are_errors() {
    let mut model = Linear::new(2, 2, &cpu());
    let mut opt = Sgd::new(&model, 0.1);
    let mut gradients = model.map(|_, t| t.ones_like());
    gradients.weight = Tensor::ones([2, 3], DType::F32, &cpu());
    opt.step(&mut model, &gradients);
    assert!(model.weight.to_vec::<f32>().is_err());
    assert!(model.bias.as_ref().unwrap().to_vec::<f32>().is_ok());
    let mut model = Linear::new(2, 2, &cpu());
    let without = model.clone().without_bias();
    opt.step(&mut model, &without);
    assert!(model.weight.to_vec::<f32>().is_err());
}
