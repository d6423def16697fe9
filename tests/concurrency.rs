//! Many threads on one compiled function, many processes on one empty cache: the same results.

use ferrotrace::prelude::*;
use std::process::{Command, Stdio};

/// A program of several kernels, and what it gives.
fn program(scale: f32) -> Result<Vec<f32>> {
    let x = Tensor::from_slice(&[scale, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3], &Device::cpu());
    let y = (&x * 2.0 + 1.0).softmax(-1).matmul(&x.t());
    (y - x.mean(..)).to_vec::<f32>()
}

#[test]
fn thirty_two_threads_share_one_compiled_function() {
    let step = jit(|x: &Tensor| (x - x.mean_keepdim(-1)).square().sum(-1));
    with_mode(Mode::Eager, || {
        assert_eq!(
            step.call(&Tensor::ones([2, 3], DType::F32, &Device::cpu()))
                .numel(),
            2
        )
    });
    std::thread::scope(|scope| {
        for thread in 0..32usize {
            let step = &step;
            scope.spawn(move || {
                for round in 0..20 {
                    let rows = 1 + (thread + round) % 5;
                    let data: Vec<f32> = (0..rows * 4).map(|i| (i * (thread + 1)) as f32).collect();
                    let got = step
                        .call(&Tensor::from_slice(&data, [rows, 4], &Device::cpu()))
                        .to_vec::<f32>()
                        .unwrap();
                    // Four numbers with steps of t have squares of deviations 5 t².
                    let want = 5.0 * ((thread + 1) * (thread + 1)) as f32;
                    assert!(
                        got.iter().all(|v| (v - want).abs() <= 1e-4 * want),
                        "{got:?} against {want}"
                    );
                    assert_eq!(got.len(), rows);
                }
            });
        }
    });
}

/// What the children of the next test run; alone it only runs the program.
#[test]
fn child() {
    let sum: f32 = program(1.0).unwrap().iter().sum();
    println!("result {:08x}", sum.to_bits());
}

#[test]
fn sixteen_processes_race_on_one_empty_cache() {
    let cache = tempfile::tempdir().unwrap();
    let start = |_| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env("FERROTRACE_CACHE_DIR", cache.path())
            .env("FERROTRACE_MODE", "compiled")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..16).map(start).collect();
    let results: Vec<String> = children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success());
            let text = String::from_utf8(output.stdout).unwrap();
            let at = text.find("result ").unwrap();
            text[at..at + 15].to_owned()
        })
        .collect();
    assert!(results.iter().all(|r| *r == results[0]), "{results:?}");
}
