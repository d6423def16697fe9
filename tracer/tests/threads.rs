//! Many threads record, flush and drop shared traces at once.

use ferrotrace_tracer::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Barrier, Mutex, OnceLock};

fn v(data: &[f32]) -> Tensor {
    Tensor::from_slice(data, data.len(), &Device::cpu())
}

#[test]
fn threads_flush_one_node() {
    for round in 0..50 {
        let barrier = Barrier::new(4);
        // Its leaf has no handle: whoever comes first may write over it.
        let y = with_mode(Mode::Compiled, || v(&[round as f32, 1.0]) * 2.0 + 1.0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (y, barrier) = (&y, &barrier);
                scope.spawn(move || {
                    with_mode(Mode::Compiled, || {
                        barrier.wait();
                        let z = y + thread as f64;
                        let add = thread as f32;
                        let want = vec![2.0 * round as f32 + 1.0 + add, 3.0 + add];
                        assert_eq!(z.to_vec::<f32>().expect("readable"), want);
                        assert_eq!(y.to_vec::<f32>().expect("readable")[1], 3.0);
                    });
                });
            }
        });
    }
}

#[test]
fn threads_drop_one_chain() {
    for _ in 0..20 {
        let mut x = with_mode(Mode::Compiled, || v(&[1.0]) + 1.0);
        let mut handles = Vec::new();
        for i in 0..400 {
            x = with_mode(Mode::Compiled, || &x + 1.0);
            if i % 50 == 0 {
                handles.push(x.clone());
            }
        }
        handles.push(x);
        std::thread::scope(|scope| {
            for handle in handles {
                scope.spawn(move || drop(handle));
            }
        });
    }
}

/// Eighths from −1.25 to 1.5, others for each salt.
fn numbers(n: usize, salt: usize) -> Vec<f32> {
    let number = |i: usize| ((i * 31 + salt * 17) % 23) as f32 * 0.125 - 1.25;
    (0..n).map(number).collect()
}

/// `Σ relu(x · w)` of square matrices.
fn product_relu_sum(x: &[f32], w: &[f32], n: usize) -> f64 {
    let element = |i: usize, j: usize| -> f64 {
        let terms = (0..n).map(|k| x[i * n + k] as f64 * w[k * n + j] as f64);
        terms.sum::<f64>().max(0.0)
    };
    (0..n * n).map(|at| element(at / n, at % n)).sum()
}

#[test]
fn callers_share_functions_weights_and_plans() {
    const N: usize = 12;
    let weights = numbers(N * N, 99);
    let w = Tensor::from_slice(&weights, [N, N], &Device::cpu());
    let compute = {
        let w = w.clone();
        move |x: &Tensor| x.matmul(&w).relu().sum(..)
    };
    let f = jit(compute.clone());
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (f, compute, weights) = (&f, &compute, &weights);
            scope.spawn(move || {
                with_mode(Mode::Compiled, || {
                    for round in 0..60 {
                        let data = numbers(N * N, thread * 60 + round);
                        let x = Tensor::from_slice(&data, [N, N], &Device::cpu());
                        let want = product_relu_sum(&data, weights, N);
                        for got in [f.call(&x), compute(&x)] {
                            let got = got.to_scalar::<f32>().expect("readable") as f64;
                            assert!((got - want).abs() < 1e-3 * (1.0 + want), "{got} {want}");
                        }
                    }
                });
            });
        }
    });
    assert_eq!(w.to_vec::<f32>().expect("readable"), weights);
}

#[test]
fn nodes_of_several_threads_are_joined_and_flushed_at_once() {
    const THREADS: usize = 6;
    for round in 0..40 {
        let (recorded, flushed) = (Barrier::new(THREADS), Barrier::new(THREADS));
        let parts: Vec<_> = (0..THREADS).map(|_| OnceLock::<Tensor>::new()).collect();
        let common = with_mode(Mode::Compiled, || v(&[1.0, round as f32]) + 1.0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (parts, common) = (&parts, &common);
                let (recorded, flushed) = (&recorded, &flushed);
                scope.spawn(move || {
                    with_mode(Mode::Compiled, || {
                        // Pending on this thread, and below it what another recorded.
                        let part = common * thread as f64 + v(&[thread as f32, 0.0]).exp();
                        parts[thread].set(part).expect("set once");
                        recorded.wait();
                        let of = |t: usize| parts[t].get().expect("all are set");
                        let read = |x: &Tensor| x.to_vec::<f32>().expect("readable");
                        let near = |got: Vec<f32>, want: [f64; 2]| {
                            let differs =
                                |(a, b): (&f32, f64)| (*a as f64 - b).abs() > 1e-3 * (1.0 + b);
                            assert!(!got.iter().zip(want).any(differs), "{got:?} {want:?}");
                        };
                        let value = |t: usize| {
                            [
                                2.0 * t as f64 + (t as f64).exp(),
                                (round + 1) as f64 * t as f64 + 1.0,
                            ]
                        };
                        // Some flush all parts, some their neighbour's, some make them die.
                        match thread % 3 {
                            0 => {
                                let all = (1..THREADS).fold(of(0).clone(), |sum, t| sum + of(t));
                                let want = (0..THREADS).map(value);
                                let want = want.fold([0.0; 2], |a, b| [a[0] + b[0], a[1] + b[1]]);
                                near(read(&all), want);
                            }
                            1 => {
                                let next = (thread + 1) % THREADS;
                                let [a, b] = value(next);
                                near(read(&(of(next) * 2.0)), [2.0 * a, 2.0 * b]);
                            }
                            _ => drop((of(0) + of(1)).clone() * of(thread)),
                        }
                        near(read(of(thread)), value(thread));
                        flushed.wait();
                        near(read(common), [2.0, round as f64 + 1.0]);
                    });
                });
            }
        });
    }
}

#[test]
fn a_state_is_overwritten_while_others_read_what_it_was() {
    let last: Mutex<Option<(Tensor, f32)>> = Mutex::default();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (done, last) = (&done, &last);
        for _ in 0..3 {
            scope.spawn(move || {
                while !done.load(Relaxed) {
                    let Some((state, want)) = last.lock().expect("no panic").clone() else {
                        continue;
                    };
                    let doubled = with_mode(Mode::Compiled, || (&state * 2.0).to_vec::<f32>());
                    let doubled = doubled.expect("readable");
                    drop(state);
                    assert!(doubled.iter().all(|x| *x == 2.0 * want), "{want}");
                }
            });
        }
        with_mode(Mode::Compiled, || {
            let mut state = Tensor::zeros(5000, DType::F32, &Device::cpu());
            for step in 0..300 {
                state += 1.0;
                if step % 3 == 0 {
                    let published = (state.clone(), step as f32 + 1.0);
                    drop(last.lock().expect("no panic").replace(published));
                }
                if step % 2 == 0 {
                    state.eval().expect("computed");
                }
            }
            let all = state.to_vec::<f32>().expect("readable");
            assert!(all.iter().all(|x| *x == 300.0));
        });
        done.store(true, Relaxed);
    });
}

#[test]
fn a_fault_fails_what_needs_it_on_every_thread() {
    for _ in 0..20 {
        let barrier = Barrier::new(4);
        let good = with_mode(Mode::Compiled, || v(&[1.0, 2.0]) + 1.0);
        let bad = with_mode(Mode::Compiled, || {
            let at = Tensor::from_slice(&[7i64], 1, &Device::cpu());
            (&good * 3.0).index_select(0, &at)
        });
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (good, bad, barrier) = (&good, &bad, &barrier);
                scope.spawn(move || {
                    with_mode(Mode::Compiled, || {
                        barrier.wait();
                        let (worse, fine) = (bad + thread as f64, good - thread as f64);
                        let error = worse.to_vec::<f32>().expect_err("7 is out of range");
                        assert!(error.to_string().contains('7'), "{error}");
                        let want = [2.0 - thread as f32, 3.0 - thread as f32];
                        assert_eq!(fine.to_vec::<f32>().expect("readable"), want);
                    });
                });
            }
        });
    }
}

#[test]
fn what_a_function_returns_of_its_constants_is_not_written_over() {
    let constant = v(&[1.0, 2.0, 3.0, 4.0]);
    let f = {
        let constant = constant.clone();
        jit(move |x: &Tensor| (x + &constant, constant.reshape([2, 2]).t()))
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (f, constant) = (&f, &constant);
            scope.spawn(move || {
                with_mode(Mode::Compiled, || {
                    for _ in 0..50 {
                        let (sum, part) = f.call(&v(&[thread as f32; 4]));
                        // Nobody else holds this view: its sum may go where it lies, but for the constant.
                        let negated = (part * -1.0).to_vec::<f32>().expect("readable");
                        assert_eq!(negated, [-1.0, -3.0, -2.0, -4.0]);
                        let sum = (sum - thread as f64).to_vec::<f32>().expect("readable");
                        assert_eq!(sum, [1.0, 2.0, 3.0, 4.0]);
                    }
                    assert_eq!(constant.to_vec::<f32>().expect("readable")[1], 2.0);
                });
            });
        }
    });
}
