//! The flush of a trace that keeps too much memory alive. Alone in its process, since the limit is the process's.

use ferrotrace_runtime::stats_scope;
use ferrotrace_tracer::prelude::*;
use ferrotrace_tracer::set_retained_limit;

const NUMBERS: usize = 1 << 18;

#[test]
fn a_trace_that_keeps_much_data_alive_is_flushed_by_itself() {
    set_retained_limit(4 << 20);
    with_mode(Mode::Compiled, || {
        // Each term keeps 1 MiB that no handle reaches.
        let term = |i: usize| Tensor::from_vec(vec![i as f32; NUMBERS], NUMBERS, &Device::cpu());
        let add = |sum: Tensor, i: usize| sum + term(i);
        let (few, stats) = stats_scope(|| (1..3).fold(term(0), add));
        assert_eq!(stats.flushes, 0);
        let (sum, stats) = stats_scope(|| (3..16).fold(few, add));
        assert!((2..=5).contains(&stats.flushes), "{}", stats.flushes);
        assert!(stats.peak_bytes < 8 << 20, "{}", stats.peak_bytes);
        let sum = sum.to_vec::<f32>().expect("readable");
        assert!(sum.iter().all(|&x| x == 120.0));

        // Data that a handle reaches is not the trace's doing.
        let held: Vec<Tensor> = (0..16).map(term).collect();
        let (_, stats) = stats_scope(|| held.iter().fold(term(0), |sum, x| sum + x));
        assert_eq!(stats.flushes, 0);

        // A loop that reads one of two states keeps what it stored for the other, which nobody reads, until that is too
        // much.
        let ((), stats) = stats_scope(|| {
            let (mut a, mut b) = (term(1), term(0));
            for _ in 0..400 {
                a = &a * 0.5 + 1.0;
                b = &b * 0.25 + &a;
                let most = a.max(..).to_scalar::<f32>().expect("readable");
                assert!((1.5..=2.0).contains(&most), "{most}");
            }
            drop(b);
        });
        assert!(stats.peak_bytes < 24 << 20, "{}", stats.peak_bytes);
    });
    with_mode(Mode::Compiled, held_means);
}

/// A mean that a program holds of each state, of which it reads a sum, keeps no state: states of 1 MiB beyond the limit are
/// released once their means are computed, by one plan.
fn held_means() {
    const STATES: usize = 64;
    let run = || {
        let mut x = Tensor::ones(1 << 18, DType::F32, &Device::cpu());
        let mut means = Vec::new();
        let mut read = Vec::new();
        for _ in 0..STATES {
            x = &x * 0.5 + 1.0;
            read.push(x.sum(..).to_scalar::<f32>().unwrap());
            means.push(x.square().mean(..));
        }
        (read, means)
    };
    let ((read, means), stats) = stats_scope(run);
    assert!(stats.peak_bytes < 10 << 20, "{}", stats.peak_bytes);
    assert!(stats.plans_built <= 4, "{}", stats.plans_built);
    let (one_by_one, eager) = with_mode(Mode::Eager, run);
    assert_eq!(read.len(), one_by_one.len());
    for (got, want) in means.iter().zip(&eager) {
        assert!(got.allclose(want, 1e-6, 0.0).unwrap());
    }
}
