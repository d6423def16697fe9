//! The same programs on a CUDA device as on the CPU. Where there is no device, every test says so and passes.

#[path = "../common/mod.rs"]
mod common;

use super::{MODES, near};
use common::device;
use ferrotrace::prelude::*;
use ferrotrace::{bounded_while_loop, cond, jit, map, scan, value_and_grad, while_loop};

/// What `f` gives on the CPU is what it gives on a device, in both modes, and without the host's kernels.
#[track_caller]
fn same(f: impl Fn(&Device) -> Tensor) {
    let Some(on) = device() else { return };
    let want = f(&Device::cpu()).to_vec::<f64>().expect("computed");
    for mode in MODES {
        let (found, stats) = ferrotrace::stats_scope(|| with_mode(mode, || f(&on).to_vec::<f64>()));
        near(&found.expect("computed"), &want, mode);
        assert_eq!(stats.host_runs, 0, "{mode:?}: {stats:?}");
    }
}

fn numbers(count: usize, seed: usize, device: &Device) -> Tensor {
    let value = |i: usize| ((i * 37 + seed * 101 + 11) % 97) as f64 / 97.0 - 0.5;
    let values: Vec<f64> = (0..count).map(value).collect();
    Tensor::from_slice(&values, count, &Device::cpu()).to_device(device)
}

#[test]
fn branches() {
    for limit in [-100.0, 100.0] {
        same(|d| {
            let x = numbers(300, 1, d);
            let rows = x.reshape([30, 10]);
            cond(&x.sum(..).gt(limit), |x| x * 2.0, |x| x.cumsum(1), &rows).reshape([300])
        });
    }
}

#[test]
fn loops() {
    // Newton's method, until all roots are found.
    same(|d| {
        let squares = numbers(50, 2, d) + 1.0;
        let far = |x: &Tensor| (x.square() - &squares).abs().max(..).gt(1e-13);
        while_loop(far, |x| (x + &squares / x) * 0.5, &squares)
    });
    // A call decides by its argument.
    let count = jit(|limit: &Tensor| {
        let start = Tensor::zeros([], DType::F64, &limit.device());
        while_loop(|x| x.lt(limit), |x| x + 1.0, &start).reshape([1])
    });
    for limit in [3.0, 0.0, 17.0] {
        same(|d| count.call(&Tensor::scalar(limit, DType::F64, &Device::cpu()).to_device(d)));
    }
}

#[test]
fn rows() {
    same(|d| {
        let x = numbers(120, 3, d).reshape([12, 10]);
        let (last, all) = scan(
            |h: &Tensor, x: &Tensor| {
                let h = (h * 0.5 + x).tanh();
                (h.clone(), h.cumsum(0))
            },
            &Tensor::zeros([10], DType::F64, d),
            &x,
        );
        let each = map(|x: &Tensor| x.softmax(0), &x);
        Tensor::cat(&[last.reshape([1, 10]), all, each], 0).reshape([250])
    });
}

#[test]
fn gradients() {
    same(|d| {
        let weights = [numbers(64, 4, d), numbers(64, 5, d)].map(|w| w.reshape([8, 8]));
        let xs = numbers(80, 6, d).reshape([10, 1, 8]);
        let (loss, [a, b]) = value_and_grad(&weights, |[w, u]: &[Tensor; 2]| {
            let step = |h: &Tensor, x: &Tensor| {
                let h = (h.matmul(w) + x.matmul(u)).tanh();
                (h.clone(), h.square().sum(..))
            };
            let (h, all) = scan(step, &Tensor::zeros([1, 8], DType::F64, &xs.device()), &xs);
            let grown =
                bounded_while_loop(20, |h| h.square().sum(..).lt(50.0), |h| h * 1.5 + 0.1, &h);
            all.sum(..) + grown.sum(..)
        });
        Tensor::cat(&[loss.reshape([1]), a.reshape([64]), b.reshape([64])], 0)
    });
}
