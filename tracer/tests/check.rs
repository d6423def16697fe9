//! `FERROTRACE_CHECK=1`, in a process of its own: the environment is read once.

use ferrotrace_runtime::stats_scope;
use ferrotrace_tracer::prelude::*;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const NAME: &str = "replays_are_recorded_again_and_compared";

#[test]
fn replays_are_recorded_again_and_compared() {
    if std::env::var_os("FERROTRACE_CHECK").is_some() {
        return with_mode(Mode::Compiled, checked);
    }
    let this = std::env::current_exe().expect("a test has a path");
    let child = Command::new(this)
        .args(["--exact", NAME])
        .env("FERROTRACE_CHECK", "1")
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && text.contains("1 passed"),
        "{text}"
    );
}

fn checked() {
    let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &Device::cpu());
    let double = jit(|x: &Tensor| x * 2.0);
    let (sums, stats) = stats_scope(|| {
        let call = || double.call(&x).to_vec::<f32>().expect("readable");
        [call(), call(), call()]
    });
    assert_eq!(sums, [[2.0, 4.0], [2.0, 4.0], [2.0, 4.0]]);
    assert_eq!((stats.traces, stats.plans_built), (3, 1));

    let calls = AtomicU32::new(0);
    let fickle = jit(move |x: &Tensor| {
        if calls.fetch_add(1, Relaxed) == 1 {
            x - 1.0
        } else {
            x + 1.0
        }
    });
    assert_eq!(
        fickle.call(&x).to_vec::<f32>().expect("readable"),
        [2.0, 3.0]
    );
    let error = fickle.call(&x).to_vec::<f32>().expect_err("it differs");
    assert!(
        error.to_string().contains("recorded something else"),
        "{error}"
    );
}
