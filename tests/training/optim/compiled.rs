//! A step is one trace, one plan and few kernels, whatever the learning rate is.

use super::{cpu, given};
use ferrotrace::nn::{Linear, Module};
use ferrotrace::optim::*;
use ferrotrace::prelude::*;
use ferrotrace::stats_scope;
use std::collections::BTreeSet;

#[test]
fn a_thousand_steps_are_one_trace_and_one_plan() {
    let (model, gradients) = given(DType::F32);
    gradients.eval().unwrap();
    let step = jit(
        |(mut model, mut opt, gradients): (Linear, AdamW, &Linear)| {
            opt.step(&mut model, gradients);
            (model, opt)
        },
    );
    let schedule = Schedule::cosine(900).warmup(100);
    let opt = AdamW::new(&model, 0.1).schedule(schedule).clip_norm(1.0);
    let mut state = step.call((model.clone(), opt, &gradients[0]));
    state = step.call((state.0, state.1, &gradients[1]));
    state.1.set_lr(0.05);
    state.1.lr.eval().unwrap();
    let (state, stats) = stats_scope(|| {
        for i in 2..1000 {
            state = step.call((state.0, state.1, &gradients[i % 12]));
        }
        state
    });
    let built = (stats.traces, stats.plans_built, stats.kernels_compiled);
    assert_eq!((built, stats.flushes), ((0, 0, 0), 998));
    assert_eq!(state.1.steps.item::<i64>().unwrap(), 1000);
    assert!(state.0.weight.isfinite().all(..).item::<bool>().unwrap());
}

/// All parameters are updated in one flush, in place.
#[test]
fn one_flush_updates_all_parameters_in_place() {
    let layers: Vec<Linear> = (0..8).map(|_| Linear::new(16, 16, &cpu())).collect();
    let gradients = layers.map(|_, t| t.ones_like());
    gradients.eval().unwrap();
    let step = jit(
        |(mut model, mut opt, gradients): (Vec<Linear>, AdamW, &Vec<Linear>)| {
            opt.step(&mut model, gradients);
            (model, opt)
        },
    );
    let opt = AdamW::new(&layers, 0.1);
    let mut state = step.call((layers, opt, &gradients));
    state = step.call((state.0, state.1, &gradients));
    let (_, stats) = stats_scope(|| step.call((state.0, state.1, &gradients)));
    assert_eq!(stats.flushes, 1);
    // 16 parameters with two moments each, and the numbers of the step.
    assert!(stats.bytes_allocated <= 64, "{stats:?}");
    assert!(stats.in_place_writes >= 48, "{stats:?}");
    assert!(stats.kernels_launched <= 20, "{stats:?}");
}

/// y = 2·x₀ − x₁ + 1 is learnt.
#[test]
fn a_line_is_learnt() {
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            let x = Tensor::randn([64, 2], DType::F32, &cpu());
            let t = x.narrow(1, 0, 1) * 2.0 - x.narrow(1, 1, 1) + 1.0;
            let step = jit(
                |(mut model, mut opt, x, t): (Linear, AdamW, &Tensor, &Tensor)| {
                    let loss = |model: &Linear| model.forward(x).mse_loss(t);
                    let (loss, gradients) = value_and_grad(&model, loss);
                    opt.step(&mut model, &gradients);
                    (model, opt, loss)
                },
            );
            let model = Linear::new(2, 1, &cpu());
            let opt = AdamW::new(&model, 0.1).weight_decay(0.0);
            let opt = opt.schedule(Schedule::cosine(200));
            let mut state = step.call((model, opt, &x, &t));
            for _ in 1..200 {
                state = step.call((state.0, state.1, &x, &t));
            }
            assert!(state.2.item::<f32>().unwrap() < 1e-3);
            let weight = state.0.weight.to_vec::<f32>().unwrap();
            assert!((weight[0] - 2.0).abs() < 1e-2 && (weight[1] + 1.0).abs() < 1e-2);
        });
    }
}

/// The texts of the kernels that take so many steps in one plan, but for what comments say.
fn texts(steps: usize) -> BTreeSet<String> {
    let (mut model, _) = given(DType::F32);
    let mut opt = AdamW::new(&model, 0.1)
        .schedule(Schedule::cosine(900).warmup(100))
        .clip_norm(1.0);
    let x = Tensor::linspace(-1.0, 1.0, 32, DType::F32, &cpu());
    let x = x.unsqueeze(1).expand([32, model.weight.dims()[1]]);
    for _ in 0..steps {
        let (_, gradients) = value_and_grad(&model, |m| m.forward(&x).square().mean(..));
        opt.step(&mut model, &gradients);
    }
    let tensors = model.tensors();
    let explained = explain(&tensors.iter().collect::<Vec<_>>());
    let code = |text: &String| {
        text.lines()
            .filter(|line| !line.starts_with("//"))
            .collect()
    };
    explained.sources().iter().map(code).collect()
}

/// The counter of the steps is carried from one to the next as a number in memory: kernels do not count from the beginning.
#[test]
fn more_steps_in_one_plan_take_no_more_kernels() {
    let (few, many) = (texts(6), texts(12));
    assert!(
        many.len() <= few.len() + 2,
        "{} and {}",
        few.len(),
        many.len()
    );
}
