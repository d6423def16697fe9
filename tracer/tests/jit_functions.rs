//! Function compilation: when a function runs, what is replayed, what is frozen.

use ferrotrace_runtime::{Stats, stats_scope};
use ferrotrace_tracer::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn v(data: &[f32]) -> Tensor {
    Tensor::from_slice(data, data.len(), &Device::cpu())
}

fn ones(shape: &[usize]) -> Tensor {
    Tensor::from_vec(vec![1.0f32; shape.iter().product()], shape, &Device::cpu())
}

fn read(x: &Tensor) -> Vec<f32> {
    x.to_vec().expect("readable")
}

fn compiled<R>(f: impl FnOnce() -> R) -> (R, Stats) {
    with_mode(Mode::Compiled, || stats_scope(f))
}

fn double(x: &Tensor) -> Tensor {
    x + x
}

#[test]
fn argument_and_result_forms() {
    for mode in [Mode::Compiled, Mode::Eager, Mode::Tiered] {
        with_mode(mode, || {
            let (x, y) = (v(&[1.0, 2.0]), v(&[10.0, 20.0]));
            for _ in 0..2 {
                assert_eq!(read(&jit(double).call(&x)), [2.0, 4.0]);
                let f = jit(|(x, w): (&Tensor, &Tensor)| x * w);
                assert_eq!(read(&f.call((&x, &y))), [10.0, 40.0]);
                let f = jit(|xs: [&Tensor; 3]| xs[0] + xs[1] * xs[2]);
                assert_eq!(read(&f.call([&x, &x, &y])), [11.0, 42.0]);
                let f = jit(|xs: Vec<&Tensor>| xs[0] - xs[1]);
                assert_eq!(read(&f.call(vec![&y, &x])), [9.0, 18.0]);
                let f = jit(|(x, lr): (&Tensor, f32)| x * lr);
                assert_eq!(read(&f.call((&x, 0.5))), [0.5, 1.0]);
                let f = jit(
                    |(x, dim, negate): (&Tensor, usize, bool)| {
                        if negate { -x.sum(dim) } else { x.sum(dim) }
                    },
                );
                assert_eq!(
                    f.call((&x, 0, true)).to_scalar::<f32>().expect("a number"),
                    -3.0
                );
                let f = jit(|(w, g): (Tensor, &Tensor)| w - g * 0.5);
                assert_eq!(read(&f.call((x.clone(), &y))), [-4.0, -8.0]);
                let f = jit(|x: &Tensor| (x + 1.0, [x * 2.0, -x], vec![x - 1.0]));
                let (a, [b, c], d) = f.call(&x);
                assert_eq!((read(&a), read(&b)), (vec![2.0, 3.0], vec![2.0, 4.0]));
                assert_eq!((read(&c), read(&d[0])), (vec![-1.0, -2.0], vec![0.0, 1.0]));
            }
        });
    }
}

#[test]
fn results_may_fail() {
    let x = v(&[1.0, 2.0]);
    for mode in [Mode::Compiled, Mode::Eager] {
        let ((), s) = with_mode(mode, || {
            stats_scope(|| {
                let pair = jit(|x: &Tensor| Ok((x.sum(0), x * x.dim(-1)?)));
                assert_eq!(read(&pair.call(&x).expect("two dimensions").1), [2.0, 4.0]);
                let failing = jit(|x: &Tensor| x.dims2().map(|_| x.clone()));
                assert!(failing.call(&x).is_err() && failing.call(&x).is_err());
                assert_eq!(
                    read(&failing.call(&x.unsqueeze(0)).expect("two dimensions")),
                    [1.0, 2.0]
                );
                let poisoned = jit(|x: &Tensor| x.reshape(7) + 1.0);
                assert!(poisoned.call(&x).error().is_some());
                assert_eq!(read(&poisoned.call(&ones(&[7]))), [2.0; 7]);
                let bad = jit(double).call(&x.reshape(7));
                assert!(bad.error().is_some());
            })
        });
        assert_eq!(s.traces, if mode == Mode::Eager { 0 } else { 6 });
    }
}

#[test]
fn sizes_that_are_not_asked_for_do_not_run_the_function_again() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = runs.clone();
    let step = jit(move |x: &Tensor| {
        counter.fetch_add(1, Relaxed);
        (x * 2.0 + 1.0).sum(-1)
    });
    let ((), s) = compiled(|| {
        for rows in 2..8 {
            for _ in 0..2 {
                assert_eq!(read(&step.call(&ones(&[rows, 2]))), vec![6.0; rows]);
            }
        }
        assert_eq!(read(&step.call(&ones(&[2, 0]))), [0.0, 0.0]);
    });
    assert_eq!((s.traces, runs.load(Relaxed)), (1, 1));
    // A size of 1 may broadcast, and another rank is another signature.
    let (y, s) = compiled(|| step.call(&ones(&[1, 2])));
    assert_eq!((read(&y), s.traces), (vec![6.0], 1));
    let (y, s) = compiled(|| step.call(&ones(&[5])));
    assert_eq!(
        (y.to_scalar::<f32>().expect("a number"), s.traces),
        (15.0, 1)
    );
}

#[test]
fn sizes_that_are_asked_for_do() {
    let mean = jit(|x: &Tensor| Ok(x.sum(0) / x.dim(0)?));
    let ((), s) = compiled(|| {
        for n in [2, 3, 2, 4, 3] {
            let y = mean.call(&ones(&[n])).expect("one dimension");
            assert_eq!(y.to_scalar::<f32>().expect("a number"), 1.0);
        }
    });
    assert_eq!(s.traces, 3);
    let like = jit(|x: &Tensor| x.ones_like() * 3.0 + x);
    let ((), s) = compiled(|| {
        for n in [2, 3] {
            assert_eq!(read(&like.call(&ones(&[n]))), vec![4.0; n]);
        }
    });
    assert_eq!(s.traces, 2);
    // A refused operation is a branch on sizes.
    let either = jit(|x: &Tensor| {
        let square = x.reshape([2, 2]);
        if square.error().is_some() {
            x * 10.0
        } else {
            square
        }
    });
    let ((), _) = compiled(|| {
        assert_eq!(read(&either.call(&ones(&[3]))), [10.0; 3]);
        assert_eq!(either.call(&ones(&[4])).dims(), [2, 2]);
        assert_eq!(read(&either.call(&ones(&[5]))), [10.0; 5]);
    });
}

#[test]
fn numbers_replay_when_equal_and_build_no_plan_when_not() {
    let computed = jit(|(x, lr): (&Tensor, f64)| if lr > 0.25 { x * (1.0 - lr) } else { -x });
    let ((), s) = compiled(|| {
        for lr in [0.5, 0.75, 0.5, 0.125, 0.75] {
            let want = if lr > 0.25 {
                4.0 * (1.0 - lr as f32)
            } else {
                -4.0
            };
            assert_eq!(read(&computed.call((&v(&[4.0]), lr))), [want]);
        }
    });
    assert_eq!(s.traces, 3);
    assert!(s.plans_built <= 2);
}

#[test]
fn captured_tensors_are_constants_and_captured_state_is_frozen() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let pending = with_mode(Mode::Compiled, || v(&[1.0, 2.0]) * 10.0);
    let bias = pending.clone();
    let f = jit(move |x: &Tensor| x + &bias + counter.fetch_add(1, Relaxed) as f64);
    let ((), s) = compiled(|| {
        assert_eq!(read(&f.call(&v(&[0.0, 0.0]))), [10.0, 20.0]);
        assert_eq!(read(&pending), [10.0, 20.0]);
        assert_eq!(read(&f.call(&v(&[1.0, 1.0]))), [11.0, 21.0]);
        assert_eq!(read(&f.call(&v(&[1.0, 1.0]))), [11.0, 21.0]);
    });
    assert_eq!((s.traces, calls.load(Relaxed)), (1, 1));
}

#[test]
fn values_passed_through_are_the_arguments() {
    let constant = v(&[7.0]);
    let f =
        jit(move |(x, y): (&Tensor, Tensor)| (x.clone(), y, constant.clone(), x.rank() as f64 * x));
    compiled(|| {
        for _ in 0..2 {
            let (x, y) = (v(&[1.0]), v(&[2.0]));
            let (a, b, c, d) = f.call((&x, y.clone()));
            assert_eq!(
                (read(&a), read(&b), read(&c)),
                (vec![1.0], vec![2.0], vec![7.0])
            );
            assert_eq!(read(&d), [1.0]);
        }
    });
}

#[test]
fn reading_an_argument_runs_the_function_each_call() {
    let f = jit(|x: &Tensor| {
        let first = (x * 1.0).to_vec::<f32>().map_or(0.0, |x| x[0]);
        if first > 2.0 { -x } else { x + 1.0 }
    });
    let ((), s) = compiled(|| {
        assert_eq!(read(&f.call(&v(&[1.0]))), [2.0]);
        assert_eq!(read(&f.call(&v(&[3.0]))), [-3.0]);
        assert_eq!(read(&f.call(&v(&[2.0]))), [3.0]);
    });
    assert_eq!(s.traces, 3);
    let eager_inside = jit(|x: &Tensor| with_mode(Mode::Eager, || x * 2.0) + 1.0);
    let ((), s) = compiled(|| {
        assert_eq!(read(&eager_inside.call(&v(&[1.0]))), [3.0]);
        assert_eq!(read(&eager_inside.call(&v(&[2.0]))), [5.0]);
    });
    assert_eq!(s.traces, 2);
}

#[test]
fn given_tensors_are_overwritten() {
    let step = jit(|(w, g): (Tensor, &Tensor)| w - g * 0.5);
    let g = v(&[2.0, 4.0]);
    let ((), s) = compiled(|| {
        let mut w = v(&[1.0, 1.0]);
        for _ in 0..3 {
            w = step.call((w, &g));
        }
        assert_eq!(read(&w), [-2.0, -5.0]);
    });
    assert_eq!((s.in_place_writes, s.traces), (3, 1));
    let ((), s) = compiled(|| {
        let held = v(&[1.0, 1.0]);
        assert_eq!(read(&step.call((held.clone(), &g))), [0.0, -1.0]);
        assert_eq!(read(&held), [1.0, 1.0]);
    });
    assert_eq!(s.in_place_writes, 0);
}

#[test]
fn each_replay_draws_anew_as_eager_mode_does() {
    let cpu = Device::cpu();
    let make = || {
        let g = Generator::new(3);
        let inner = g.clone();
        let cpu = cpu.clone();
        let f = jit(move |x: &Tensor| x + inner.rand(x.dims(), DType::F32, &cpu));
        (g, f)
    };
    let draw = |mode| {
        let (g, f) = make();
        with_mode(mode, || {
            let mut all: Vec<Vec<f32>> = (0..3).map(|_| read(&f.call(&ones(&[5])))).collect();
            all.push(read(&f.call(&ones(&[3]))));
            all.push(read(&g.rand(2, DType::F32, &cpu)));
            all
        })
    };
    let compiled = draw(Mode::Compiled);
    assert_ne!(compiled[0], compiled[1]);
    assert_ne!(compiled[1], compiled[2]);
    assert_eq!(compiled, draw(Mode::Eager));
}

#[test]
fn functions_call_functions_and_threads_share_them() {
    let inner = jit(|x: &Tensor| x * 2.0);
    let outer = jit(move |x: &Tensor| inner.call(&(x + 1.0)) - 1.0);
    let ((), s) = compiled(|| {
        assert_eq!(read(&outer.call(&v(&[1.0]))), [3.0]);
        assert_eq!(read(&outer.call(&v(&[2.0]))), [5.0]);
    });
    assert_eq!((s.traces, s.flushes), (1, 2));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let outer = &outer;
            scope.spawn(move || {
                set_mode_here();
                for n in 1..20 {
                    let x = Tensor::from_vec(vec![thread as f32; n], n, &Device::cpu());
                    assert_eq!(read(&outer.call(&x)), vec![2.0 * thread as f32 + 1.0; n]);
                }
            });
        }
    });
}

fn set_mode_here() {
    ferrotrace_tracer::set_thread_mode(Some(Mode::Compiled));
}

#[test]
fn a_panic_in_the_function_leaves_the_thread_usable() {
    let f = jit(|x: &Tensor| {
        assert!(x.rank() != 2, "no matrices");
        x + 1.0
    });
    compiled(|| {
        let caught =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f.call(&ones(&[1, 1]))));
        assert!(caught.is_err());
        assert_eq!(read(&f.call(&v(&[1.0]))), [2.0]);
        assert_eq!(read(&(v(&[1.0]) + 1.0)), [2.0]);
    });
}
