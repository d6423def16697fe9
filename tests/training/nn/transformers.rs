//! Encoders with decoders, and layers that draw.

use super::cpu;
use crate::reference::{case, each};
use ferrotrace::nn::*;
use ferrotrace::prelude::*;

fn options(norm_first: bool) -> TransformerOptions {
    let options = TransformerOptions::new(8, 2).inner(12).dropout(0.0);
    let options = options.activation(Activation::Gelu);
    if norm_first {
        options.norm_first()
    } else {
        options
    }
}

#[test]
fn encoder_and_decoder() {
    for (first, name) in [(false, "False"), (true, "True")] {
        let case = case(&format!("transformer_{name}"));
        each(|dtype, tolerance| {
            let input = |name: &str| case.input(name, dtype);
            let (x, target, added) = (input("x"), input("target"), input("added"));
            let seen = |name: &str| case.input(name, dtype).ne(0);
            let plain = case.load(Transformer::new(2, 1, options(first), &cpu()), dtype);
            let causal = plain.clone().causal();
            let tolerance = 2.0 * tolerance;
            case.near("plain", &plain.forward(&x, &target), tolerance);
            case.near("causal", &causal.forward(&x, &target), tolerance);
            let masks = [None, Some(&added), Some(&seen("seen"))];
            let masked = causal.forward_masked(&x, &target, masks);
            case.near("masked", &masked, tolerance);
            let padding = seen("padding").reshape([2, 1, 1, 5]);
            let masks = [Some(&padding), None, Some(&padding)];
            let padded = plain.forward_masked(&x, &target, masks);
            case.near("padded", &padded, tolerance);
            // One sequence without its batch.
            let one = plain.forward(&x.select(0, 1), &target.select(0, 1));
            let all = plain.forward(&x, &target).select(0, 1);
            let close =
                one.to_dtype(DType::F64)
                    .allclose(&all.to_dtype(DType::F64), tolerance, tolerance);
            assert!(close.unwrap());
        });
    }
    let case = case("decoder");
    each(|dtype, tolerance| {
        let options = TransformerOptions::new(8, 2).inner(12).dropout(0.0);
        let decoder = TransformerDecoder::new(2, options, &cpu()).causal();
        let decoder = case.load(decoder, dtype);
        let (x, memory) = (case.input("x", dtype), case.input("memory", dtype));
        let y = decoder.forward(&x, &memory, None, None);
        case.near("y", &y, 2.0 * tolerance);
    });
}

#[test]
fn a_causal_encoder_equals_a_mask() {
    each(|dtype, tolerance| {
        let encoder = TransformerEncoder::new(2, options(true), &cpu());
        let encoder = encoder.map(|_, t| t.to_dtype(dtype));
        let x = Tensor::randn([2, 4, 8], DType::F32, &cpu()).to_dtype(dtype);
        let seen = Tensor::ones([4, 4], DType::Bool, &cpu()).tril(0);
        let want = encoder.forward_masked(&x, Some(&seen));
        let found = encoder.clone().causal().forward(&x);
        let (found, want) = (found.to_dtype(DType::F64), want.to_dtype(DType::F64));
        assert!(found.allclose(&want, tolerance, tolerance).unwrap());
    });
}

/// Matrices are drawn within Xavier's bounds, and gradients come to all parameters.
#[test]
fn first_values_and_gradients_of_a_transformer() {
    let model = Transformer::new(1, 2, options(false), &cpu()).causal();
    model.for_each(|name, tensor| {
        if let &[rows, columns] = tensor.dims() {
            let bound = (6.0 / (rows + columns) as f32).sqrt();
            let most = tensor.abs().max(..).item::<f32>().unwrap();
            assert!(most <= bound && most > 0.7 * bound, "{name}");
        }
    });
    let x = Tensor::randn([2, 3, 8], DType::F32, &cpu());
    let (_, gradients) = ferrotrace::value_and_grad(&model, |model| {
        (model.forward(&x, &x) * Tensor::arange(0, 8, 1, DType::F32, &cpu()))
            .square()
            .sum(..)
    });
    gradients.for_each(|name, tensor| {
        assert!(tensor.abs().sum(..).item::<f32>().unwrap() > 0.0, "{name}");
    });
}

/// Every element is what PyTorch's formula makes of a kept or of a dropped one.
#[test]
fn alpha_dropout() {
    // 1 / √((1 − p)(1 + pα'²)) and −aα'p for p = 0.25, by `torch.nn.functional.alpha_dropout`.
    let (a, b, least) = (0.8672579238579332, 0.3811813960698242, -1.1435441882094726);
    each(|dtype, tolerance| {
        let x = Tensor::randn([40, 30, 2], DType::F32, &cpu()).to_dtype(dtype);
        let found = |layer: &dyn Module| {
            let y = layer
                .forward(&x)
                .to_dtype(DType::F64)
                .to_vec::<f64>()
                .unwrap();
            let x = x.to_dtype(DType::F64).to_vec::<f64>().unwrap();
            let near = |a: f64, b: f64| (a - b).abs() <= tolerance * 4.0;
            let dropped: Vec<bool> = x
                .iter()
                .zip(&y)
                .map(|(x, y)| {
                    let kept = near(*y, a * x + b);
                    assert!(kept || near(*y, least), "{y} of {x}");
                    !kept
                })
                .collect();
            dropped
        };
        let dropped = found(&AlphaDropout::new(0.25));
        let count = dropped.iter().filter(|d| **d).count();
        assert!((480..720).contains(&count), "{count}");
        let channels = found(&FeatureAlphaDropout::new(0.25));
        // A kept element may equal a dropped one in half precision.
        let even = channels.chunks(2).filter(|pair| pair[0] == pair[1]).count();
        let least = if dtype == DType::BF16 { 1100 } else { 1200 };
        assert!(even >= least, "{even}");
        let all = AlphaDropout::new(1.0).forward(&x).to_dtype(DType::F32);
        assert_eq!(all.abs().max(..).item::<f32>().unwrap(), 0.0);
        let none = AlphaDropout::new(0.0).forward(&x).to_dtype(DType::F64);
        assert!(none.allclose(&x.to_dtype(DType::F64), 1e-6, 1e-6).unwrap());
        assert!(AlphaDropout::new(1.5).forward(&x).error().is_some());
        assert_eq!(
            AlphaDropout::new(0.5).forward(&x.narrow(0, 0, 0)).dims(),
            [0, 30, 2]
        );
    });
}

#[test]
fn drawn_slopes() {
    each(|dtype, tolerance| {
        let x = Tensor::randn([500], DType::F32, &cpu()).to_dtype(dtype);
        let mut layer = RRelu::new(0.25, 0.5);
        let of = |t: &Tensor| t.to_dtype(DType::F64).to_vec::<f64>().unwrap();
        let (before, after) = (of(&x), of(&layer.forward(&x)));
        let slopes: Vec<f64> = before.iter().zip(&after).map(|(x, y)| y / x).collect();
        for (x, slope) in before.iter().zip(&slopes) {
            match *x > 0.0 {
                true => assert_eq!(*slope, 1.0),
                false => assert!(
                    (0.25 - tolerance..=0.5 + tolerance).contains(slope),
                    "{slope}"
                ),
            }
        }
        let drawn: Vec<f64> = slopes.into_iter().filter(|s| *s < 1.0).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!((mean - 0.375).abs() < 0.03, "{mean}");
        layer.training = false;
        let want = x.to_dtype(DType::F64).leaky_relu(0.375);
        let close = layer
            .forward(&x)
            .to_dtype(DType::F64)
            .allclose(&want, tolerance, tolerance);
        assert!(close.unwrap());
        let one = layer.forward(&Tensor::full((), -2.0, dtype, &cpu()));
        assert_eq!((one.rank(), of(&one)[0]), (0, -0.75));
        assert_eq!(RRelu::default().forward(&x.narrow(0, 0, 0)).dims(), [0]);
    });
}
