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

/// What a thread computes as it ends: composites, reductions, scans, sorts, gradients and random numbers; `n` gives it kernels
/// of its own. No product: the library of products keeps memory of the thread, which is gone.
fn last_words(n: usize) -> Vec<f32> {
    let cpu = Device::cpu();
    let x = Tensor::linspace(-1.0, 1.0, 32 * 48, DType::F32, &cpu).reshape([32, 48]);
    let y = (0..n).fold(x, |y, _| (y.sin() * 0.5).exp().tanh().softmax(-1));
    let f = jit(|y: &Tensor| (y - y.mean_keepdim(-1)).square().sum(-1).cumsum(0));
    let sorted = f.call(&y).sort(0, true).0;
    let variable = y.clone().requires_grad();
    let slope = grad(&variable.square().sum(..), &[&variable]).remove(0);
    let noise = ferrotrace::Generator::new(3).rand(4, DType::F32, &cpu);
    let all = [sorted, slope.sum(0), noise];
    let numbers = all.iter().map(|x| x.to_vec::<f32>());
    numbers.collect::<Result<Vec<_>>>().unwrap().concat()
}

/// A thread drops its local values one after another, those that it used first at the end: what computes in such a drop finds
/// none of the library's own left.
#[test]
fn a_thread_computes_while_it_ends() {
    use std::cell::RefCell;
    use std::sync::mpsc::{Sender, channel};
    struct Last(Sender<[Vec<f32>; 2]>);
    impl Drop for Last {
        fn drop(&mut self) {
            let compute = |mode| with_mode(mode, || last_words(2));
            self.0
                .send([Mode::Eager, Mode::Compiled].map(compute))
                .unwrap();
        }
    }
    thread_local! {
        static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
    }
    let (sender, receiver) = channel();
    let thread = std::thread::spawn(move || {
        LAST.set(Some(Last(sender)));
        for mode in [Mode::Eager, Mode::Compiled] {
            assert!(!with_mode(mode, || last_words(1)).is_empty());
        }
    });
    thread.join().unwrap();
    let want = with_mode(Mode::Eager, || last_words(2));
    for got in receiver.recv().unwrap() {
        assert_eq!(got.len(), want.len());
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs().max(1.0);
        assert!(got.iter().zip(&want).all(near), "{got:?} against {want:?}");
    }
}
