//! Attention and the blocks made of it.

use super::{cpu, like_torch};
use crate::reference::{case, each};
use ferrotrace::nn::*;
use ferrotrace::prelude::*;
use ferrotrace::stats_scope;

#[test]
fn attention_with_every_mask() {
    like_torch("attention_self", || MultiHeadAttention::new(8, 2, &cpu()));
    let case = case("attention");
    each(|dtype, tolerance| {
        let layer = case.load(MultiHeadAttention::new(8, 2, &cpu()), dtype);
        let input = |name| case.input(name, dtype);
        let (x, memory, added) = (input("x"), input("memory"), input("added"));
        let causal = layer.clone().causal();
        case.near("causal", &causal.forward(&x), tolerance);
        let near = |name, mask| case.near(name, &layer.forward_masked(&x, Some(mask)), tolerance);
        let seen = Tensor::ones([3, 3], DType::Bool, &cpu()).tril(0);
        near("causal", &seen);
        near("added", &added);
        let both = causal.forward_masked(&x, Some(&added));
        case.near("both", &both, tolerance);
        case.near(
            "cross",
            &layer.attend(&x, &memory, &memory, None),
            tolerance,
        );
        // One sample without its batch.
        let one = layer.forward(&x.select(0, 1));
        let want = layer.forward(&x).select(0, 1);
        assert!(one.allclose(&want, tolerance, tolerance).unwrap());
    });
}

/// A layer whose keys serve groups of queries equals one with each group's keys repeated.
#[test]
fn grouped_heads() {
    each(|dtype, tolerance| {
        let grouped = MultiHeadAttention::grouped(8, 4, 2, &cpu());
        let grouped = grouped.map(|_, t| t.to_dtype(dtype));
        let (q, k, v) = {
            let parts = grouped.in_proj_weight.split(&[8, 4, 4], 0);
            let each = |x: &Tensor| {
                x.reshape([2, 1, 2, 8])
                    .repeat(&[1, 2, 1, 1])
                    .reshape([8, 8])
            };
            (parts[0].clone(), each(&parts[1]), each(&parts[2]))
        };
        let mut all = MultiHeadAttention::new(8, 4, &cpu());
        all.in_proj_weight = Tensor::cat([&q, &k, &v], 0);
        all.in_proj_bias = None;
        all.out_proj = grouped.out_proj.clone();
        let mut grouped = grouped;
        grouped.in_proj_bias = None;
        let x = Tensor::randn([2, 5, 8], dtype, &cpu());
        let same = |a: Tensor, b: Tensor| {
            let (a, b) = (a.to_dtype(DType::F64), b.to_dtype(DType::F64));
            assert!(a.allclose(&b, tolerance, tolerance).unwrap(), "{a} {b}");
        };
        same(grouped.forward(&x), all.forward(&x));
        let mask = Tensor::randn([2, 4, 5, 5], DType::F32, &cpu()).to_dtype(dtype);
        let (masked, want) = (grouped.clone().causal(), all.clone().causal());
        same(masked.forward(&x), want.forward(&x));
        same(
            masked.forward_masked(&x, Some(&mask)),
            want.forward_masked(&x, Some(&mask)),
        );
        let row = Tensor::ones([2, 1, 1, 5], DType::Bool, &cpu());
        same(grouped.forward_masked(&x, Some(&row)), all.forward(&x));
    });
}

/// Each pair of numbers is a complex number that is turned by its position.
#[test]
fn rotary_positions() {
    let (length, size, base) = (5, 6, 100.0);
    let data: Vec<f64> = (0..length * size)
        .map(|i| ((i * 37 % 17) as f64 - 8.0) / 8.0)
        .collect();
    for interleaved in [false, true] {
        let mut want = vec![0.0; length * size];
        for p in 0..length {
            for i in 0..size / 2 {
                let (a, b) = match interleaved {
                    true => (p * size + 2 * i, p * size + 2 * i + 1),
                    false => (p * size + i, p * size + size / 2 + i),
                };
                let angle = (p + 3) as f64 * f64::powf(base, -2.0 * i as f64 / size as f64);
                let (sin, cos) = angle.sin_cos();
                want[a] = data[a] * cos - data[b] * sin;
                want[b] = data[b] * cos + data[a] * sin;
            }
        }
        each(|dtype, tolerance| {
            let x = Tensor::from_slice(&data, [length, size], &cpu()).to_dtype(dtype);
            let start = Tensor::scalar(3, DType::I64, &cpu());
            let rotary = Rotary { base, interleaved };
            let y = rotary.turn(&x, Some(&start));
            let want = Tensor::from_slice(&want, [length, size], &cpu());
            assert_eq!(y.dtype(), dtype);
            let y = y.to_dtype(DType::F64);
            assert!(
                y.allclose(&want, tolerance, tolerance).unwrap(),
                "{y} {want}"
            );
        });
    }
    let odd = Tensor::ones([2, 3], DType::F32, &cpu());
    assert!(Rotary::new().turn(&odd, None).error().is_some());
}

/// Tokens one by one through a cache give what the whole sequence gives, and are not recorded one by one.
#[test]
fn a_cache_continues_a_sequence() {
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            let layer = MultiHeadAttention::grouped(8, 4, 2, &cpu());
            let layer = layer.causal().rotary(Rotary::new());
            let x = Tensor::randn([2, 7, 8], DType::F32, &cpu());
            let step = jit(
                |(layer, x, mut cache): (&MultiHeadAttention, &Tensor, KvCache)| {
                    let y = layer.forward_cached(x, &mut cache);
                    (y, cache)
                },
            );
            let mut cache = KvCache::of(&layer, 2, 9, DType::F32, &cpu());
            let (steps, stats) = stats_scope(|| {
                let mut steps = Vec::new();
                for i in 0..7 {
                    let (y, next) = step.call((&layer, &x.narrow(1, i, 1), cache.clone()));
                    cache = next;
                    steps.push(y);
                }
                steps
            });
            assert_eq!(cache.length.item::<i64>().unwrap(), 7);
            let y = Tensor::cat(&steps, 1);
            assert!(y.allclose(&layer.forward(&x), 1e-5, 1e-5).unwrap());
            assert!(stats.traces <= 2, "{stats:?}");
            // Two more positions fit, a third does not.
            let more = layer.forward_cached(&x.narrow(1, 0, 3), &mut cache);
            assert!(more.to_vec::<f32>().is_err());
        });
    }
}

#[test]
fn heads_that_do_not_divide_the_width_are_an_error() {
    let x = Tensor::ones([1, 2, 8], DType::F32, &cpu());
    for (heads, kv_heads) in [(3, 3), (0, 0), (4, 3)] {
        let layer = MultiHeadAttention::grouped(8, heads, kv_heads, &cpu());
        assert!(layer.forward(&x).error().is_some(), "{heads} {kv_heads}");
    }
}

#[test]
fn dropped_weights_keep_their_mean() {
    let layer = MultiHeadAttention::new(8, 2, &cpu()).causal().dropout(0.5);
    let x = Tensor::randn([1, 4, 8], DType::F64, &cpu());
    let layer = layer.map(|_, t| t.to_dtype(DType::F64));
    let mut mean = Tensor::zeros([1, 4, 8], DType::F64, &cpu());
    for _ in 0..4000 {
        mean = (mean + layer.forward(&x) / 4000.0).detach();
        mean.eval().unwrap();
    }
    let mut still = layer.clone();
    still.training = false;
    assert!(mean.allclose(&still.forward(&x), 0.0, 0.15).unwrap());
    let (a, b) = (still.forward(&x), still.forward(&x));
    assert_eq!(a.to_vec::<f64>().unwrap(), b.to_vec::<f64>().unwrap());
}

#[test]
fn transformer_blocks() {
    for first in [false, true] {
        let options = TransformerOptions::new(8, 2).inner(12).dropout(0.0);
        let options = if first { options.norm_first() } else { options };
        let name = if first { "True" } else { "False" };
        like_torch(&format!("encoder_layer_{name}"), || {
            TransformerEncoderLayer::new(options.activation(Activation::Gelu), &cpu())
        });
        let case = case(&format!("decoder_layer_{name}"));
        each(|dtype, tolerance| {
            let layer = TransformerDecoderLayer::new(options, &cpu()).causal();
            let layer = case.load(layer, dtype);
            let (x, memory) = (case.input("x", dtype), case.input("memory", dtype));
            let y = layer.forward(&x, &memory, None, None);
            case.near("y", &y, 2.0 * tolerance);
        });
    }
    like_torch("encoder", || {
        let options = TransformerOptions::new(8, 2).inner(12).dropout(0.0);
        TransformerEncoder::new(2, options.norm_first(), &cpu())
    });
    let options = TransformerOptions::new(8, 2).norm_first();
    let decoder = TransformerDecoder::new(2, options, &cpu());
    let x = Tensor::randn([1, 4, 8], DType::F32, &cpu());
    assert_eq!(decoder.forward(&x, &x, None, None).dims(), [1, 4, 8]);
}
