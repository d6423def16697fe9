//! Half precision: masters, and steps that overflow.

use super::cpu;
use ferrotrace::nn::Linear;
use ferrotrace::optim::*;
use ferrotrace::prelude::*;

fn half(dtype: DType) -> Linear {
    Linear::new(4, 4, &cpu()).map(|_, t| t.to_dtype(dtype))
}

/// Steps too small for a half-precision weight add up in its master.
#[test]
fn masters_keep_what_rounding_would_lose() {
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            for dtype in [DType::BF16, DType::F16] {
                let start = half(dtype).map(|_, t| t.ones_like());
                let gradients = start.map(|_, t| t.ones_like());
                let (mut plain, mut with) = (start.clone(), start.clone());
                let mut opt = Sgd::new(&start, 1e-4);
                let mut masters = Sgd::with_momentum(&start, 1e-4, 0.5).masters(&start);
                for _ in 0..100 {
                    opt.step(&mut plain, &gradients);
                    masters.step(&mut with, &gradients);
                    // A half-precision value that is not stored may keep more digits.
                    eval(plain.tensors().iter().chain(&with.tensors())).unwrap();
                }
                assert_eq!(with.weight.dtype(), dtype);
                let value = |t: &Tensor| t.to_dtype(DType::F64).max(..).item::<f64>().unwrap();
                assert_eq!(value(&plain.weight), 1.0);
                let master = masters.state["weight"].master.as_ref().unwrap();
                // Velocities 1, 1.5, 1.75, ..: 100 steps of 2 but for the first few.
                let want = 1.0 - 1e-4 * (200.0 - 2.0);
                assert_eq!(master.dtype(), DType::F32);
                assert!((value(master) - want).abs() < 1e-5, "{}", value(master));
                assert_eq!(value(&with.weight), value(&master.to_dtype(dtype)));
                assert_eq!(
                    masters.state["weight"].memory["momentum_buffer"].dtype(),
                    DType::F32
                );
            }
        });
    }
}

#[test]
fn an_overflowed_step_changes_nothing_but_the_scale() {
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            let step = jit(
                |(mut model, mut opt, gradients): (Linear, AdamW, &Linear)| {
                    opt.step(&mut model, gradients);
                    (model, opt)
                },
            );
            let model = half(DType::F16);
            let scale = LossScale {
                interval: 2,
                ..LossScale::new(1024.0)
            };
            let opt = AdamW::new(&model, 0.01).masters(&model).loss_scale(scale);
            let loss = Tensor::scalar(2.0, DType::F32, &cpu());
            assert_eq!(opt.scaled(&loss).item::<f32>().unwrap(), 2048.0);
            let fine = model.map(|_, t| t.full_like(1024.0));
            let mut over = fine.clone();
            over.bias = over.bias.map(|b| b.full_like(f64::INFINITY));
            let read = |(model, opt): &(Linear, AdamW)| {
                let state: Vec<Vec<f64>> = model
                    .tensors()
                    .iter()
                    .chain(&opt.state.tensors())
                    .map(|t| t.to_dtype(DType::F64).to_vec().unwrap())
                    .collect();
                let scale = opt.scale.as_ref().unwrap().scale.item::<f32>().unwrap();
                (state, opt.steps.item::<i64>().unwrap(), scale)
            };
            let mut state = (model, opt);
            let mut seen = Vec::new();
            for gradients in [&fine, &over, &over, &fine, &fine] {
                let before = read(&state);
                state = step.call((state.0, state.1, gradients));
                let after = read(&state);
                assert_eq!(before.0 == after.0, std::ptr::eq(gradients, &over));
                seen.push((after.1, after.2));
            }
            assert_eq!(
                seen,
                [(1, 1024.0), (1, 512.0), (1, 256.0), (2, 256.0), (3, 512.0)]
            );
            // Unscaled gradients were 1 (then 4): the first step moved by the learning rate.
            assert!(
                state
                    .0
                    .weight
                    .to_dtype(DType::F32)
                    .isfinite()
                    .all(..)
                    .item::<bool>()
                    .unwrap()
            );
        });
    }
}
