//! Averages of parameters against PyTorch's.

use super::{cpu, given};
use crate::reference::case;
use ferrotrace::nn::{BatchNorm1d, Linear};
use ferrotrace::optim::*;
use ferrotrace::prelude::*;
use ferrotrace::stats_scope;

type Model = (Linear, BatchNorm1d);

fn model() -> Model {
    (Linear::new(2, 3, &cpu()), BatchNorm1d::new(3, &cpu()))
}

/// The model of a step, in this dtype.
fn of_step(step: usize, dtype: DType) -> Model {
    let case = case("averages");
    let of = |name: &str| case.input(&format!("{step}_{name}"), dtype);
    model().map(|name, _| of(name))
}

#[test]
fn averages_are_those_of_pytorch() {
    let case = case("averages");
    let update = jit(|(mut average, model): (Average<Model>, &Model)| {
        average.update(model);
        average
    });
    for (dtype, tolerance) in [(DType::F64, 1e-8), (DType::F32, 1e-5)] {
        for mode in [Mode::Eager, Mode::Compiled] {
            with_mode(mode, || {
                for (name, decay) in [("mean", None), ("ema", Some(0.8))] {
                    let start = model().map(|_, t| match t.dtype().is_float() {
                        true => t.to_dtype(dtype),
                        false => t.clone(),
                    });
                    let mut average = match decay {
                        None => Average::new(&start),
                        Some(decay) => Average::ema(&start, decay),
                    };
                    let mut again = average.clone();
                    for step in 0..6 {
                        let model = of_step(step, dtype);
                        average.update(&model);
                        again = update.call((again, &model));
                        for average in [&average, &again] {
                            average.model.for_each(|entry, tensor| {
                                if tensor.dtype().is_float() {
                                    let entry = format!("{name}{step}_{entry}");
                                    case.near(&entry, tensor, tolerance);
                                }
                            });
                            assert_eq!(average.count.item::<i64>().unwrap(), step as i64 + 1);
                        }
                    }
                }
            });
        }
    }
}

/// Averages of half precision are kept in binary32 where the first model is.
#[test]
fn averages_may_be_wider_than_models() {
    let of = |v: f64, dtype| [Tensor::full((), v, dtype, &cpu()).requires_grad()];
    let mut average = Average::ema(&of(1.0, DType::F32), 0.999);
    for _ in 0..3 {
        average.update(&of(1.0, DType::BF16));
    }
    average.update(&of(2.0, DType::BF16));
    assert_eq!(average.model[0].dtype(), DType::F32);
    assert!(!average.model[0].has_grad());
    let found = average.model[0].item::<f32>().unwrap();
    assert!((found - 1.001).abs() < 1e-6, "{found}");
    let empty = [Tensor::zeros([0, 3], DType::F32, &cpu())];
    let mut average = Average::new(&empty);
    average.update(&empty);
    assert_eq!(average.model[0].dims(), [0, 3]);
}

#[test]
fn a_loop_of_updates_is_one_plan() {
    let (model, gradients) = given(DType::F32);
    let step = jit(
        |(mut model, mut opt, mut average, gradients): (Linear, Sgd, Average<Linear>, &Linear)| {
            opt.step(&mut model, gradients);
            average.update(&model);
            (model, opt, average)
        },
    );
    let (opt, average) = (Sgd::new(&model, 0.1), Average::ema(&model, 0.9));
    let mut state = step.call((model, opt, average, &gradients[0]));
    state = step.call((state.0, state.1, state.2, &gradients[1]));
    let (_, stats) = stats_scope(|| {
        for gradients in &gradients[2..] {
            let (model, opt, average) = state.clone();
            state = step.call((model, opt, average, gradients));
        }
    });
    assert_eq!((stats.traces, stats.plans_built), (0, 0), "{stats:?}");
}

#[test]
fn models_that_do_not_fit_are_errors() {
    let of = |size: usize| Linear::new(2, size, &cpu());
    let mut average = Average::new(&of(3));
    average.update(&of(4));
    assert!(average.model.weight.to_vec::<f32>().is_err());
    let mut average = Average::new(&of(3));
    average.update(&of(3).without_bias());
    assert!(average.model.weight.to_vec::<f32>().is_err());
}

#[test]
fn the_average_of_asgd() {
    let case = case("asgd_average");
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            let (mut model, steps) = given(DType::F64);
            let mut opt = Asgd::new(&model, 0.2).lambda(0.01).alpha(0.5).begin(3.0);
            for gradients in &steps {
                opt.step(&mut model, gradients);
            }
            let mean = opt.averaged(&model);
            case.near("w", &mean.weight, 1e-8);
            case.near("b", mean.bias.as_ref().unwrap(), 1e-8);
        });
    }
}
