//! Batch norm: running statistics through compiled functions.

use super::cpu;
use crate::reference::{case, each};
use ferrotrace::nn::*;
use ferrotrace::prelude::*;
use ferrotrace::stats_scope;

#[test]
fn training_and_evaluation() {
    let case = case("batch_norm");
    each(|dtype, tolerance| {
        let mut layer = case.load(BatchNorm2d::new(3, &cpu()), dtype);
        for i in 0..3 {
            let y = layer.forward(&case.input(&format!("x{i}"), dtype));
            assert_eq!(y.dtype(), dtype);
            case.near(&format!("y{i}"), &y, tolerance);
        }
        case.near("running_mean", &layer.running_mean.get(), tolerance);
        case.near("running_var", &layer.running_var.get(), tolerance);
        assert_eq!(layer.num_batches_tracked.get().item::<i64>().unwrap(), 3);
        layer.training = false;
        let y = layer.forward(&case.input("x0", dtype));
        case.near("evaluated", &y, 2.0 * tolerance);
    });
}

/// Statistics of 100 batches, computed here in binary64.
#[test]
fn a_hundred_replays_by_value() {
    let step = jit(|(layer, x): (BatchNorm1d, &Tensor)| {
        let y = layer.forward(x);
        (layer, y)
    });
    let mut layer = BatchNorm1d::new(2, &cpu());
    let (mut mean, mut var) = ([0.0f64; 2], [1.0f64; 2]);
    let (layer, stats) = stats_scope(|| {
        for i in 0..100 {
            let x = Tensor::randn([5, 2], DType::F32, &cpu()) * (1.0 + i as f64 / 50.0) + 0.5;
            let data = x.to_vec::<f32>().unwrap();
            for c in 0..2 {
                let of: Vec<f64> = (0..5).map(|r| f64::from(data[2 * r + c])).collect();
                let m = of.iter().sum::<f64>() / 5.0;
                let v = of.iter().map(|x| (x - m).powi(2)).sum::<f64>() / 4.0;
                mean[c] += 0.1 * (m - mean[c]);
                var[c] += 0.1 * (v - var[c]);
            }
            let (next, y) = step.call((layer, &x));
            layer = next;
            assert!(y.mean(0).abs().max(..).item::<f32>().unwrap() < 1e-5);
        }
        layer
    });
    assert_eq!(stats.traces, 1);
    let near = |buffer: &ferrotrace::Buffer, want: [f64; 2]| {
        let got = buffer.get().to_vec::<f32>().unwrap();
        let close = |(a, b): (&f32, &f64)| (f64::from(*a) - b).abs() < 1e-4 * b.abs().max(1.0);
        assert!(got.iter().zip(&want).all(close), "{got:?} {want:?}");
    };
    near(&layer.running_mean, mean);
    near(&layer.running_var, var);
    assert_eq!(layer.num_batches_tracked.get().item::<i64>().unwrap(), 100);
}

#[test]
fn means_over_all_batches() {
    let layer = BatchNorm1d::new(1, &cpu()).momentum(None);
    for v in [1.0, 4.0, 7.0] {
        let x = Tensor::full([3, 1], v, DType::F32, &cpu());
        layer.forward(&x);
    }
    assert_eq!(layer.running_mean.get().item::<f32>().unwrap(), 4.0);
}

#[test]
fn writes_that_a_replay_would_lose_are_errors() {
    let x = Tensor::ones([3, 1], DType::F32, &cpu());
    let captured = BatchNorm1d::new(1, &cpu());
    with_mode(Mode::Compiled, || {
        let layer = std::sync::Arc::new(captured);
        let shared = layer.clone();
        let f = jit(move |x: &Tensor| shared.forward(x));
        let error = f.call(&x).to_vec::<f32>().unwrap_err().to_string();
        assert!(error.contains("buffer"), "{error}");
        assert_eq!(layer.running_mean.get().item::<f32>().unwrap(), 0.0);
    });
}

#[test]
fn copies_have_buffers_of_their_own() {
    let layer = BatchNorm1d::new(1, &cpu());
    let copy = layer.clone();
    layer.forward(&Tensor::full([2, 1], 5.0, DType::F32, &cpu()));
    assert_eq!(layer.running_mean.get().item::<f32>().unwrap(), 0.5);
    assert_eq!(copy.running_mean.get().item::<f32>().unwrap(), 0.0);
}

/// What is lent is written by every call, as it is without a compiled function.
#[test]
fn a_hundred_replays_by_reference() {
    let batch = |i: usize| {
        let x = Tensor::arange(0, 12, 1, DType::F32, &cpu()) * (1.0 + i as f64 * 0.01);
        x.reshape([4, 3])
    };
    let step = |(layer, x): (&(BatchNorm1d, Dropout), &Tensor)| layer.forward(x);
    let model = || (BatchNorm1d::new(3, &cpu()), Dropout::new(0.5));
    let (plain, lent, mut still) = (model(), model(), model());
    let compiled = jit(step);
    let (_, stats) = stats_scope(|| {
        for i in 0..100 {
            with_mode(Mode::Eager, || step((&plain, &batch(i))).eval()).unwrap();
            with_mode(Mode::Compiled, || {
                let before = lent.0.running_mean.get();
                let y = compiled.call((&lent, &batch(i)));
                assert!(
                    !before
                        .allclose(&lent.0.running_mean.get(), 1e-6, 0.0)
                        .unwrap()
                        || i > 90
                );
                y.eval().unwrap();
            });
        }
    });
    assert_eq!(stats.traces, 1);
    let same = |a: &ferrotrace::Buffer, b: &ferrotrace::Buffer| {
        let (a, b) = (a.get().to_dtype(DType::F64), b.get().to_dtype(DType::F64));
        assert!(a.allclose(&b, 1e-6, 1e-6).unwrap(), "{a} {b}");
    };
    same(&plain.0.running_mean, &lent.0.running_mean);
    same(&plain.0.running_var, &lent.0.running_var);
    same(&plain.0.num_batches_tracked, &lent.0.num_batches_tracked);
    assert_eq!(lent.0.num_batches_tracked.get().item::<i64>().unwrap(), 100);
    // In evaluation nothing is written.
    (still.0.training, still.1.training) = (false, false);
    with_mode(Mode::Compiled, || compiled.call((&still, &batch(0))).eval()).unwrap();
    assert_eq!(still.0.num_batches_tracked.get().item::<i64>().unwrap(), 0);
}

/// The gradient's copy of a lent model writes through to it; a second model is written by the same trace; and a function that
/// is not replayed, as it reads a value or fails, writes too.
#[test]
fn writes_of_what_is_lent_reach_it() {
    let x = Tensor::from_slice(&[1.0f32, 3.0, 5.0, 7.0], [4, 1], &cpu());
    let mean = |layer: &BatchNorm1d| layer.running_mean.get().item::<f32>().unwrap();
    with_mode(Mode::Compiled, || {
        let f = jit(|(layer, x): (&BatchNorm1d, &Tensor)| {
            value_and_grad(layer, |layer| layer.forward(x).square().sum(..))
                .1
                .weight
        });
        let (a, b) = (BatchNorm1d::new(1, &cpu()), BatchNorm1d::new(1, &cpu()));
        for (layer, times) in [(&a, 1), (&b, 1), (&a, 2)] {
            f.call((layer, &x)).eval().unwrap();
            let want = 4.0 * (1.0 - 0.9f32.powi(times));
            assert!((mean(layer) - want).abs() < 1e-5, "{} {want}", mean(layer));
        }
        let reads = jit(|(layer, x): (&BatchNorm1d, &Tensor)| {
            let y = layer.forward(x);
            let positive = y.sum(..).item::<f32>()? > 1e9;
            Ok(if positive { y } else { -y })
        });
        for times in 1..4 {
            let layer = BatchNorm1d::new(1, &cpu());
            let y: Result<Tensor> = reads.call((&layer, &x));
            y.unwrap().eval().unwrap();
            assert!(
                (mean(&layer) - 0.4).abs() < 1e-5,
                "{times}: {}",
                mean(&layer)
            );
        }
        let fails = jit(|(layer, x): (&BatchNorm1d, &Tensor)| {
            layer.forward(x);
            Err::<Tensor, Error>(Error::argument("no result"))
        });
        let layer = BatchNorm1d::new(1, &cpu());
        assert!(fails.call((&layer, &x)).is_err());
        assert!((mean(&layer) - 0.4).abs() < 1e-5, "{}", mean(&layer));
        // A leaf of outside has its gradient through what is simply called, which writes too.
        let required = x.requires_grad();
        let layer = BatchNorm1d::new(1, &cpu());
        let f = jit(|(layer, x): (&BatchNorm1d, &Tensor)| layer.forward(x));
        for times in 1..3 {
            let y = f.call((&layer, &required));
            grad(&y.square().sum(..), &[&required])[0].eval().unwrap();
            let want = 4.0 * (1.0 - 0.9f32.powi(times));
            assert!(
                (mean(&layer) - want).abs() < 1e-5,
                "{} {want}",
                mean(&layer)
            );
        }
    });
}
