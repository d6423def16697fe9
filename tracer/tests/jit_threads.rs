//! Functions given to `jit` that compute on several threads: each call gives what eager mode gives, or an error.

use ferrotrace_runtime::{Stats, stats_scope};
use ferrotrace_tracer::prelude::*;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

fn v(data: &[f32]) -> Tensor {
    Tensor::from_slice(data, data.len(), &Device::cpu())
}

fn read(x: &Tensor) -> Vec<f32> {
    x.to_vec().expect("readable")
}

/// Runs `f` in compiled mode; what it counts of this thread's and others' work.
fn compiled<R>(f: impl FnOnce() -> R) -> (R, Stats) {
    with_mode(Mode::Compiled, || stats_scope(f))
}

/// What a thread of its own makes of `f`.
fn on_thread<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(f).join().expect("no panic"))
}

/// Calls with several values and sizes give what eager mode gives; how often the function was recorded.
fn checked<F>(f: F) -> u64
where
    F: Fn(&Tensor) -> Tensor + Send + Sync + 'static,
{
    let inputs = [
        v(&[1.0, 2.0]),
        v(&[3.0, 5.0]),
        v(&[7.0, 1.0, 4.0]),
        v(&[2.0, 2.0]),
    ];
    let want: Vec<Vec<f32>> =
        with_mode(Mode::Eager, || inputs.iter().map(|x| read(&f(x))).collect());
    let f = jit(f);
    let (got, stats) = compiled(|| inputs.iter().map(|x| read(&f.call(x))).collect::<Vec<_>>());
    assert_eq!(got, want);
    stats.traces
}

#[test]
fn scoped_threads_record_for_the_function() {
    let traces = checked(|x| {
        let (a, b) = thread::scope(|scope| {
            let a = scope.spawn(|| x * 2.0 + 1.0);
            let b = scope.spawn(|| x.sum_keepdim(0));
            (a.join().expect("no panic"), b.join().expect("no panic"))
        });
        a * b
    });
    assert_eq!(traces, 1);
}

#[test]
fn parallel_iterators_and_joins_record_for_the_function() {
    use rayon::prelude::*;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(4)
        .build()
        .expect("a pool");
    let pool = Arc::new(pool);
    let other = pool.clone();
    let traces = checked(move |x| {
        let (a, b) = other.install(|| rayon::join(|| x + 1.0, || x * x));
        a - b
    });
    assert_eq!(traces, 1);
    let traces = checked(move |x| {
        let parts: Vec<Tensor> =
            pool.install(|| (0..8).into_par_iter().map(|i| x * i as f64).collect());
        parts.iter().fold(x.clone(), |sum, part| sum + part)
    });
    assert_eq!(traces, 1);
}

#[test]
fn a_chain_goes_on_from_thread_to_thread() {
    let traces = checked(|x| {
        let mut y = x.clone();
        for step in 0..5 {
            y = on_thread(|| (&y + step as f64).sqrt());
        }
        y
    });
    assert_eq!(traces, 1);
}

#[test]
fn sizes_asked_for_on_another_thread_are_part_of_the_trace() {
    let traces = checked(|x| on_thread(|| x / x.numel() as f64));
    assert_eq!(traces, 2);
    let traces = checked(|x| {
        on_thread(|| {
            if x.reshape([2, 1]).error().is_some() {
                -x
            } else {
                x + 1.0
            }
        })
    });
    assert_eq!(traces, 2);
}

#[test]
fn values_read_on_another_thread_run_the_function_at_each_call() {
    let traces = checked(|x| x * on_thread(|| x.sum(0).to_scalar::<f32>().expect("a number")));
    assert_eq!(traces, 4);
    let traces = checked(|x| {
        let y = x * 2.0;
        x + on_thread(|| y.to_vec::<f32>().expect("readable")[0])
    });
    assert_eq!(traces, 4);
    let traces = checked(|x| on_thread(|| with_mode(Mode::Eager, || x * 3.0)) + 1.0);
    assert_eq!(traces, 4);
    let traces = checked(|x| {
        let y = x + 1.0;
        on_thread(|| y.eval()).expect("computes");
        y * 2.0
    });
    assert_eq!(traces, 4);
}

#[test]
fn threads_take_the_mode_and_precision_of_the_function() {
    let x = Tensor::from_slice(&[1.0f32, 3.0], 2, &Device::cpu()).to_dtype(DType::BF16);
    let compute = |x: &Tensor| (x / 3.0 + 0.01) * 3.0 - x;
    let f = move |x: &Tensor| on_thread(|| compute(x));
    let run = || jit(f).call(&x).to_dtype(DType::F32);
    let want = with_mode(Mode::Eager, || read(&compute(&x).to_dtype(DType::F32)));
    let (got, stats) = compiled(|| with_precision(Precision::EagerExact, || read(&run())));
    assert_eq!((got, stats.traces), (want, 1));
}

#[test]
fn functions_within_functions_on_threads() {
    let inner = jit(|x: &Tensor| x * x.sum_keepdim(0));
    let traces = checked(move |x| on_thread(|| inner.call(&(x + 1.0))) - x);
    assert_eq!(traces, 1);
    // A function that captured what is being traced, and is called with something else.
    let traces = checked(|x| {
        on_thread(|| {
            let x = x.clone();
            let scaled = jit(move |y: &Tensor| y + &x);
            let one = v(&[1.0]);
            scaled.call(&one) + scaled.call(&one)
        })
    });
    assert!(traces >= 4, "{traces}");
}

#[test]
fn random_numbers_of_other_threads_are_drawn_anew() {
    let draw = |mode: Mode, f: fn(&Tensor) -> Tensor| {
        manual_seed(5);
        let f = jit(f);
        let x = Tensor::ones(64, DType::F32, &Device::cpu());
        with_mode(mode, || {
            [read(&f.call(&x)), read(&f.call(&x)), read(&f.call(&x))]
        })
    };
    let cases: [fn(&Tensor) -> Tensor; 3] = [
        |x| on_thread(|| x.dropout(0.5)) + x,
        |x| x * on_thread(|| x.rand_like()),
        |x| x + on_thread(|| Tensor::rand(64, DType::F32, &Device::cpu())),
    ];
    for f in cases {
        let [a, b, c] = draw(Mode::Compiled, f);
        assert!(a != b && b != c);
        assert_eq!([a, b, c], draw(Mode::Eager, f));
    }
    // On the function's own thread, but eagerly.
    let f: fn(&Tensor) -> Tensor = |x| x + with_mode(Mode::Eager, || x.rand_like());
    assert_eq!(draw(Mode::Compiled, f), draw(Mode::Eager, f));
}

type Job = Box<dyn FnOnce() -> Tensor + Send>;

/// A thread that outlives every function, runs jobs, and gives what they gave.
fn long_lived() -> (Sender<Job>, Receiver<Tensor>) {
    let (jobs, inbox) = channel::<Job>();
    let (outbox, results) = channel();
    thread::spawn(move || {
        for job in inbox {
            if outbox.send(job()).is_err() {
                return;
            }
        }
    });
    (jobs, results)
}

fn refused(x: &Tensor) {
    let error = x.to_vec::<f32>().expect_err("the function has returned");
    let error = error.to_string();
    assert!(error.contains("after the function returned"), "{error}");
    assert!(error.contains("jit_threads.rs"), "{error}");
}

#[test]
fn what_outlives_the_function_carries_an_error() {
    let kept: Arc<Mutex<Vec<Tensor>>> = Arc::default();
    let keeper = kept.clone();
    let f = jit(move |x: &Tensor| {
        let y = x * 2.0;
        keeper
            .lock()
            .expect("no panic")
            .extend([x.clone(), y.clone()]);
        y + 1.0
    });
    let ((), stats) = compiled(|| {
        assert_eq!(read(&f.call(&v(&[1.0, 2.0]))), [3.0, 5.0]);
        for stale in kept.lock().expect("no panic").iter() {
            refused(stale);
            refused(&(stale + 1.0));
            refused(&on_thread(|| stale.exp()));
            assert!(
                jit(|x: &Tensor| x + 1.0)
                    .call(stale)
                    .to_vec::<f32>()
                    .is_err()
            );
        }
        assert_eq!(read(&f.call(&v(&[2.0, 2.0]))), [5.0, 5.0]);
    });
    assert_eq!(stats.traces, 1);
    // A thread that goes on after the function returned.
    let (jobs, results) = long_lived();
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let wait = Arc::new(wait);
    let jobs = Mutex::new(jobs);
    let f = jit(move |x: &Tensor| {
        let (x2, wait) = (x.clone(), wait.clone());
        let job = move || {
            wait.lock().expect("no panic").recv().expect("told to go");
            x2.sum(0) * 3.0
        };
        jobs.lock()
            .expect("no panic")
            .send(Box::new(job))
            .expect("the thread lives");
        x + 1.0
    });
    compiled(|| {
        assert_eq!(read(&f.call(&v(&[1.0, 2.0]))), [2.0, 3.0]);
        go.send(()).expect("the thread waits");
        refused(&results.recv().expect("a result"));
    });
}

#[test]
fn constants_of_a_function_outlive_it() {
    let mask: Arc<OnceLock<Tensor>> = Arc::default();
    let inner = mask.clone();
    let f = jit(move |x: &Tensor| {
        x * inner.get_or_init(|| Tensor::arange(0, 2, 1, DType::F32, &Device::cpu()))
    });
    compiled(|| {
        assert_eq!(read(&f.call(&v(&[5.0, 6.0]))), [0.0, 6.0]);
        let mask = mask.get().expect("made");
        assert_eq!(read(mask), [0.0, 1.0]);
        assert_eq!(on_thread(|| read(&(mask + 1.0))), [1.0, 2.0]);
        assert_eq!(read(&f.call(&v(&[1.0, 7.0]))), [0.0, 7.0]);
    });
}

#[test]
fn a_function_that_is_not_replayed_keeps_what_it_computed() {
    let kept: Arc<Mutex<Option<Tensor>>> = Arc::default();
    let keeper = kept.clone();
    let f = jit(move |x: &Tensor| {
        let y = x * 2.0;
        *keeper.lock().expect("no panic") = Some(y.clone());
        y + x.to_vec::<f32>().expect("readable")[0]
    });
    compiled(|| {
        let x = v(&[1.0, 2.0]);
        assert_eq!(read(&f.call(&x)), [3.0, 5.0]);
        let y = kept.lock().expect("no panic").take().expect("kept");
        assert_eq!(read(&(&y + 1.0)), [3.0, 5.0]);
        assert_eq!(on_thread(|| read(&y)), [2.0, 4.0]);
    });
}
