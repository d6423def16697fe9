//! Initial values: their ranges and moments.

use super::cpu;
use ferrotrace::nn::*;
use ferrotrace::prelude::*;
use ferrotrace::{Generator, manual_seed};

fn moments(x: &Tensor) -> (f64, f64, f64) {
    let x = x.to_dtype(DType::F64);
    let of = |x: Tensor| x.item::<f64>().unwrap();
    (of(x.mean(..)), of(x.std(.., 0)), of(x.abs().max(..)))
}

#[track_caller]
fn spread(init: Init, std: f64, most: f64) {
    // 80,000 values: fan in 200·4, fan out 100·4.
    for dtype in [DType::F32, DType::BF16, DType::F64] {
        let w = init.tensor([100, 200, 2, 2], dtype, &cpu());
        assert_eq!((w.dims(), w.dtype()), (&[100, 200, 2, 2][..], dtype));
        let (mean, got, greatest) = moments(&w);
        assert!(mean.abs() < 0.02 * std, "{init:?}: mean {mean}");
        assert!((got / std - 1.0).abs() < 0.02, "{init:?}: {got} for {std}");
        assert!(greatest <= most * 1.005, "{init:?}: {greatest} for {most}");
        assert!(
            greatest >= 0.9 * most || most > 6.0 * std,
            "{init:?}: {greatest}"
        );
    }
}

#[test]
fn spreads() {
    let (fan_in, fan_out) = (800f64, 400f64);
    let uniform = |bound: f64| (bound / 3f64.sqrt(), bound);
    let (std, most) = uniform((6.0 / (fan_in + fan_out)).sqrt());
    spread(Init::xavier_uniform(), std, most);
    let (std, most) = uniform((6.0 / fan_in).sqrt());
    spread(Init::kaiming_uniform(), std, most);
    spread(
        Init::xavier_normal(),
        (2.0 / (fan_in + fan_out)).sqrt(),
        1.0,
    );
    spread(Init::kaiming_normal(), (2.0 / fan_in).sqrt(), 1.0);
    let fan = Fan::Out;
    spread(
        Init::KaimingNormal { fan, gain: 1.0 },
        (1.0 / fan_out).sqrt(),
        1.0,
    );
    let (std, most) = uniform(0.25);
    spread(Init::within(0.25), std, most);
    // Of a normal number within two standard deviations: √(1 − 4·φ(2) / (2·Φ(2) − 1)).
    spread(Init::trunc_normal(0.5), 0.5 * 0.879_625_7, 1.0);
}

#[test]
fn tails_of_truncated_numbers() {
    let init = Init::TruncNormal {
        mean: 1.0,
        std: 2.0,
        lo: 4.0,
        hi: 9.0,
    };
    let x = init.tensor(20_000, DType::F64, &cpu());
    let values = x.to_vec::<f64>().unwrap();
    assert!(values.iter().all(|x| (4.0..=9.0).contains(x)));
    // 1 + 2·(φ(1.5) − φ(4)) / (Φ(4) − Φ(1.5)).
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    assert!((mean - 4.8763).abs() < 0.02, "{mean}");
}

#[test]
fn orthogonal_rows_and_columns() {
    for shape in [[5, 5], [3, 7], [7, 3]] {
        let init = Init::Orthogonal { gain: 2.0 };
        let w = init.tensor(shape, DType::F64, &cpu());
        let gram = match shape[0] <= shape[1] {
            true => w.matmul(&w.t()),
            false => w.t().matmul(&w),
        };
        let want = Tensor::eye(shape[0].min(shape[1]), DType::F64, &cpu()) * 4.0;
        assert!(gram.allclose(&want, 0.0, 1e-12).unwrap(), "{gram}");
    }
}

#[test]
fn seeds_and_generators() {
    let draw = || {
        let layer = Linear::new(4, 4, &cpu());
        layer.weight.to_vec::<f32>().unwrap()
    };
    manual_seed(3);
    let first = draw();
    assert_ne!(first, draw());
    let by = |seed| {
        let init = Init::kaiming_normal();
        let w = init.tensor_by(&Generator::new(seed), [4, 4], DType::F32, &cpu());
        w.to_vec::<f32>().unwrap()
    };
    assert_eq!(by(5), by(5));
    assert_ne!(by(5), by(6));
    assert!(
        Init::xavier_normal()
            .tensor(4, DType::F32, &cpu())
            .error()
            .is_some()
    );
    assert_eq!(
        Init::Zeros
            .tensor(2, DType::F32, &cpu())
            .to_vec::<f32>()
            .unwrap(),
        [0.0; 2]
    );
    let none = Linear::new(0, 2, &cpu());
    assert_eq!(none.bias.unwrap().to_vec::<f32>().unwrap(), [0.0; 2]);
}

/// Bounds of what layers begin with, as PyTorch documents them.
#[test]
fn first_values_of_layers() {
    let within = |x: &Tensor, bound: f64| {
        let (_, std, most) = moments(x);
        assert!(
            most <= bound && std > 0.4 * bound,
            "{std} {most} for {bound}"
        );
    };
    let layer = Linear::new(64, 32, &cpu());
    within(&layer.weight, 0.125);
    within(layer.bias.as_ref().unwrap(), 0.125);
    let layer = Conv2d::with(8, 16, [2, 4], Conv::new().groups(2), &cpu());
    assert_eq!(layer.weight.dims(), [16, 4, 2, 4]);
    within(&layer.weight, (1.0f64 / 32.0).sqrt());
    let layer = ConvTranspose2d::with(16, 8, 2, Conv::new().groups(2), &cpu());
    assert_eq!(layer.weight.dims(), [16, 4, 2, 2]);
    within(&layer.weight, 0.25);
    let layer = Lstm::new(5, 16, &cpu());
    within(&layer.parameters["weight_ih_l0"], 0.25);
    let layer = MultiHeadAttention::new(16, 4, &cpu());
    within(&layer.in_proj_weight, (6.0f64 / 64.0).sqrt());
    assert_eq!(
        layer.in_proj_bias.unwrap().to_vec::<f32>().unwrap(),
        [0.0; 48]
    );
    let (mean, std, _) = moments(&Embedding::new(100, 50, &cpu()).weight);
    assert!(mean.abs() < 0.05 && (std - 1.0).abs() < 0.05);
}
