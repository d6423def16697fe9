//! Long traces: linear time, a bounded stack, and cuts at the same phase of a loop.

use ferrotrace_runtime::stats_scope;
use ferrotrace_tracer::prelude::*;
use ferrotrace_tracer::{set_thread_mode, set_trace_limit};

fn v(data: &[f32]) -> Tensor {
    Tensor::from_slice(data, data.len(), &Device::cpu())
}

/// One test, since the limit is the process's.
#[test]
fn long_traces() {
    let run = || {
        set_thread_mode(Some(Mode::Compiled));
        dropped_unread();
        loops_are_cut_at_one_phase();
        two_states_are_cut_together();
        chain_of_100_000();
    };
    let thread = std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(run)
        .expect("a thread");
    thread.join().expect("passes");
}

fn dropped_unread() {
    set_trace_limit(usize::MAX);
    let ((), s) = stats_scope(|| {
        let mut x = v(&[0.0]);
        for _ in 0..100_000 {
            x = &x + 1.0;
        }
        let _ = format!("{x:?}");
    });
    assert_eq!((s.flushes, s.ops_recorded), (0, 100_000));
}

fn loops_are_cut_at_one_phase() {
    set_trace_limit(64);
    let ((), s) = stats_scope(|| {
        let mut x = v(&[0.0]);
        for _ in 0..1000 {
            x = &x * 0.5;
            x = &x + 1.0;
            x = &x - 0.5;
        }
        let y = x.to_vec::<f32>().expect("readable")[0];
        assert!((y - 1.0).abs() < 1e-5);
    });
    // 21 whole turns at a time, and what is left.
    assert_eq!(s.flushes, 48);
    assert!(s.plans_built <= 2, "{}", s.plans_built);
}

fn two_states_are_cut_together() {
    set_trace_limit(64);
    let ((), s) = stats_scope(|| {
        let (mut w, mut m) = (v(&[1.0, 2.0]), v(&[0.0, 0.0]));
        for _ in 0..500 {
            m = &m * 0.9 + &w * 0.1;
            w = &w - &m * 0.01;
        }
        eval([&w, &m]).expect("evaluates");
    });
    assert!(s.flushes <= 40, "{}", s.flushes);
    assert!(s.plans_built <= 4, "{}", s.plans_built);
}

fn chain_of_100_000() {
    set_trace_limit(4096);
    let ((), s) = stats_scope(|| {
        let mut x = v(&[0.0]);
        for _ in 0..100_000 {
            x = &x + 1.0;
        }
        assert_eq!(x.to_vec::<f32>().expect("readable"), [100_000.0]);
    });
    assert_eq!(s.flushes, 25);
    assert!(s.plans_built <= 2);
}
