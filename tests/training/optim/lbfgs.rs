//! L-BFGS against PyTorch's on a loss with a curved valley.

use super::cpu;
use crate::reference::case;
use ferrotrace::nn::Linear;
use ferrotrace::optim::*;
use ferrotrace::prelude::*;
use ferrotrace::value_and_grad;

fn loss(model: &Linear) -> Tensor {
    let line = model.weight.flatten(0, -1);
    let (later, earlier) = (line.narrow(0, 1, 5), line.narrow(0, 0, 5));
    let valley = (later - earlier.square()).square().sum(..) * 5.0;
    let sums = model.weight.sum(1);
    let bias = model.bias.as_ref().expect("a bias");
    valley + (1.0 - line).square().sum(..) + (bias - sums).square().sum(..)
}

/// Five calls go as PyTorch's do, in both modes, and with a compiled loss.
fn like_torch(name: &str, opt: Lbfgs, tolerance: f64) {
    let case = case(&format!("lbfgs_{name}"));
    let compiled = jit(|model: &Linear| value_and_grad(model, loss));
    for mode in [Mode::Eager, Mode::Compiled] {
        for is_compiled in [false, true] {
            with_mode(mode, || {
                let mut opt = opt.clone();
                let mut model = Linear {
                    weight: case.output("w").clone().requires_grad(),
                    bias: Some(case.output("b").clone()),
                };
                for step in 0..5 {
                    let found = opt.step(&mut model, |model| match is_compiled {
                        true => compiled.call(model),
                        false => value_and_grad(model, loss),
                    });
                    case.near(&format!("loss{step}"), &found.unwrap(), tolerance);
                    case.near(&format!("w{step}"), &model.weight, tolerance);
                    case.near(&format!("b{step}"), model.bias.as_ref().unwrap(), tolerance);
                }
                let counts = case.output("counts").to_vec::<i64>().unwrap();
                assert_eq!(counts, [opt.taken as i64, opt.evaluated as i64], "{name}");
                assert!(model.weight.has_grad());
            });
        }
    }
}

#[test]
fn steps_of_fixed_length() {
    like_torch("fixed", Lbfgs::new(0.3).limits(4, 5), 1e-7);
    like_torch("short", Lbfgs::new(0.5).limits(3, 3).history(2), 1e-7);
}

#[test]
fn steps_that_are_searched_for() {
    let of = |lr: f64| Lbfgs::new(lr).search(Search::StrongWolfe);
    like_torch("wolfe", of(1.0).limits(3, 3), 1e-7);
    like_torch("wolfe_far", of(20.0).limits(4, 9), 1e-7);
    like_torch("wolfe_near", of(1e-3).limits(3, 30), 1e-7);
    like_torch("converged", of(1.0).tolerances(1e-3, 1e-5), 1e-6);
}

/// Parameters of binary32 and of half precision come near the least loss too.
#[test]
fn narrow_parameters() {
    for (dtype, most) in [(DType::F32, 1e-4), (DType::BF16, 0.1)] {
        for mode in [Mode::Eager, Mode::Compiled] {
            with_mode(mode, || {
                let case = case("lbfgs_wolfe");
                let mut model = Linear {
                    weight: case.output("w").to_dtype(dtype),
                    bias: Some(case.output("b").to_dtype(dtype)),
                };
                let wide = |model: &Linear| loss(&model.map(|_, t| t.to_dtype(DType::F32)));
                let mut opt = Lbfgs::new(1.0).search(Search::StrongWolfe);
                for _ in 0..3 {
                    opt.step(&mut model, |model| value_and_grad(model, wide))
                        .unwrap();
                }
                let end = wide(&model).item::<f32>().unwrap();
                assert!(end < most, "{dtype:?} {end}");
                assert_eq!(model.weight.dtype(), dtype);
            });
        }
    }
}

#[test]
fn nothing_to_learn_and_errors() {
    let mut opt = Lbfgs::new(1.0);
    let zero = || Tensor::zeros((), DType::F32, &cpu());
    let mut counts = [Tensor::zeros(2, DType::I64, &cpu())];
    let found = opt.step(&mut counts, |model| (zero(), model.clone()));
    assert_eq!(found.unwrap().item::<f32>().unwrap(), 0.0);
    let mut empty = [Tensor::zeros(0, DType::F32, &cpu())];
    let found = opt.step(&mut empty, |model| value_and_grad(model, |m| m[0].sum(..)));
    assert_eq!(found.unwrap().item::<f32>().unwrap(), 0.0);
    // The gradient at the least loss is zero: nothing moves.
    let mut model = [zero()];
    opt.step(&mut model, |m| value_and_grad(m, |m| m[0].square()))
        .unwrap();
    assert_eq!((opt.taken, model[0].item::<f32>().unwrap()), (0, 0.0));
    let failing = |m: &[Tensor; 1]| m[0].matmul(&Tensor::ones([2, 2], DType::F32, &cpu()));
    let found = opt.step(&mut model, |m| value_and_grad(m, failing));
    assert!(found.is_err());
    assert_eq!(model[0].item::<f32>().unwrap(), 0.0);
}
