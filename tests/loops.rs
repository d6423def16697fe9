//! Loops that read something of their state without `eval`: the work of a step does not grow with the steps before it.
//!
//! Each loop runs compiled and eagerly with the same numbers; then its steps are counted: kernels and bytes of step
//! `n` are those of step `n - period`, and plans are few. On a CUDA device too, where there is one.

mod common;

use common::noise;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;
use ferrotrace::{Stats, explain, stats_scope};

/// What a loop read at a step.
type Read = Vec<f64>;

/// A loop: given a device, what its steps do. Each returns what it reads.
type Loop = fn(&Device) -> Box<dyn FnMut(usize) -> Result<Read>>;

const N: usize = 600;

fn number(x: &Tensor) -> Result<Read> {
    Ok(vec![x.to_scalar::<f64>()?])
}

fn state(n: usize, device: &Device) -> Tensor {
    let x = noise(&[n], F64, device);
    with_mode(Mode::Eager, || (x * 0.25).contiguous())
}

fn next(x: &Tensor) -> Tensor {
    x * 0.99 + 0.01
}

fn every_step(device: &Device) -> Box<dyn FnMut(usize) -> Result<Read>> {
    let mut x = state(N, device);
    Box::new(move |_| {
        x = next(&x);
        number(&x.sum(..))
    })
}

fn every_tenth(device: &Device) -> Box<dyn FnMut(usize) -> Result<Read>> {
    let mut x = state(N, device);
    Box::new(move |step| {
        x = next(&x).sin();
        match step % 10 {
            9 => number(&x.mean(..)),
            _ => Ok(Vec::new()),
        }
    })
}

/// A state whose first value is pending too.
fn from_nothing(device: &Device) -> Box<dyn FnMut(usize) -> Result<Read>> {
    let mut x = Tensor::zeros([20, 30], F64, device);
    Box::new(move |_| {
        x = (&x + 1.0).tanh();
        number(&x.max(..))
    })
}

fn convergence(device: &Device) -> Box<dyn FnMut(usize) -> Result<Read>> {
    let mut x = state(N, device);
    let mut done = false;
    Box::new(move |_| {
        if done {
            return Ok(Vec::new());
        }
        let new = &x * 0.95 + 0.02;
        let change = (&new - &x).abs().max(..).to_scalar::<f64>()?;
        x = new;
        done = change < 1e-8;
        Ok(vec![change])
    })
}

fn two_states(device: &Device) -> Box<dyn FnMut(usize) -> Result<Read>> {
    let (mut a, mut b) = (state(N, device), state(N, device));
    Box::new(move |_| {
        (a, b) = (&a * 0.9 + &b * 0.1, &b * 0.9 - &a * 0.1);
        number(&(&a + &b).sum(..))
    })
}

fn alternating(device: &Device) -> Box<dyn FnMut(usize) -> Result<Read>> {
    let (mut a, mut b) = (state(N, device), state(N, device) + 1.0);
    Box::new(move |_| {
        let new = (&a * 0.5 + &b * 0.5).sin();
        (a, b) = (b.clone(), new);
        number(&b.sum(..))
    })
}

/// A loop of two states that are read in turn.
fn in_turn(device: &Device) -> Box<dyn FnMut(usize) -> Result<Read>> {
    let (mut a, mut b) = (state(N, device), state(N, device));
    Box::new(move |step| {
        (a, b) = (next(&a), (&b * 0.5).cos());
        number(&if step % 2 == 0 { &a } else { &b }.sum(..))
    })
}

fn regression(device: &Device) -> Box<dyn FnMut(usize) -> Result<Read>> {
    let x = noise(&[64, 8], F64, device);
    let y = noise(&[64, 1], F64, device);
    let mut w = Tensor::zeros([8, 1], F64, device);
    Box::new(move |_| {
        let error = x.matmul(&w) - &y;
        let loss = error.square().mean(..);
        w = &w - x.t().matmul(&error) * (0.1 / 64.0);
        number(&loss)
    })
}

fn simulation(device: &Device) -> Box<dyn FnMut(usize) -> Result<Read>> {
    let (mut at, mut speed) = (state(N, device), state(N, device));
    let mut stopped = false;
    Box::new(move |_| {
        if stopped {
            return Ok(Vec::new());
        }
        let force = -&at - &speed * 0.5;
        speed = &speed + &force * 0.05;
        at = &at + &speed * 0.05;
        let energy = at.square().sum(..) + speed.square().sum(..);
        let energy = energy.to_scalar::<f64>()?;
        stopped = energy < 0.05;
        Ok(vec![energy])
    })
}

fn an_older_state(device: &Device) -> Box<dyn FnMut(usize) -> Result<Read>> {
    let mut x = state(N, device);
    let mut before = x.clone();
    Box::new(move |_| {
        let older = std::mem::replace(&mut before, x.clone());
        x = next(&x).sin();
        number(&(&older * 2.0).exp().sum(..))
    })
}

fn nested(device: &Device) -> Box<dyn FnMut(usize) -> Result<Read>> {
    let mut x = state(N, device);
    Box::new(move |_| {
        let mut read = Vec::new();
        for _ in 0..5 {
            x = next(&x).cos();
            read.push(x.sum(..).to_scalar::<f64>()?);
        }
        read.push(x.max(..).to_scalar::<f64>()?);
        Ok(read)
    })
}

/// Half of the state is read, the other half grows until the end.
fn half_of_the_state(device: &Device) -> Box<dyn FnMut(usize) -> Result<Read>> {
    let (mut a, mut b) = (state(N, device), state(N, device));
    Box::new(move |step| {
        a = next(&a);
        b = &b * 0.5 + &a;
        match step + 1 {
            STEPS => number(&b.sum(..)),
            _ => number(&a.sum(..)),
        }
    })
}

fn slices(device: &Device) -> Box<dyn FnMut(usize) -> Result<Read>> {
    let mut x = state(N, device);
    let n = N as isize;
    Box::new(move |_| {
        let inner = x.slice(0, 0, n - 2, 1) * 0.25
            + x.slice(0, 1, n - 1, 1) * 0.5
            + x.slice(0, 2, n, 1) * 0.25;
        x = x.slice_assign(0, 1, n - 1, 1, &inner);
        number(&x.square().sum(..))
    })
}

/// A view of the state is what is kept.
fn turned(device: &Device) -> Box<dyn FnMut(usize) -> Result<Read>> {
    let x = noise(&[24, 24], F64, device);
    let mut x = with_mode(Mode::Eager, || x * 0.5);
    Box::new(move |_| {
        x = next(&x).t();
        number(&x.sum([0]).max(..))
    })
}

/// Several reads at a step.
fn two_reads(device: &Device) -> Box<dyn FnMut(usize) -> Result<Read>> {
    let mut x = state(N, device);
    Box::new(move |_| {
        x = next(&x).sin();
        let sum = x.sum(..).to_scalar::<f64>()?;
        Ok(vec![sum, x.max(..).to_scalar::<f64>()?])
    })
}

/// Each loop with the period at which its steps repeat.
const LOOPS: [(&str, Loop, usize); 14] = [
    ("every step", every_step, 1),
    ("every tenth", every_tenth, 10),
    ("from nothing", from_nothing, 1),
    ("convergence", convergence, 1),
    ("two states", two_states, 1),
    ("alternating", alternating, 1),
    ("in turn", in_turn, 2),
    ("regression", regression, 1),
    ("simulation", simulation, 2),
    ("an older state", an_older_state, 1),
    ("nested", nested, 1),
    ("slices", slices, 1),
    ("turned", turned, 2),
    ("two reads", two_reads, 1),
];

const STEPS: usize = 400;

fn run(what: Loop, device: &Device) -> Vec<(Read, Stats)> {
    let mut step = what(device);
    let run = |n| {
        let (read, stats) = stats_scope(|| step(n));
        (read.unwrap_or_else(|e| panic!("step {n}: {e}")), stats)
    };
    (0..STEPS).map(run).collect()
}

#[track_caller]
fn same_numbers(name: &str, got: &[(Read, Stats)], want: &[(Read, Stats)]) {
    for (step, ((got, _), (want, _))) in got.iter().zip(want).enumerate() {
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * b.abs().max(1.0);
        assert_eq!(got.len(), want.len(), "{name}, step {step}");
        assert!(
            got.iter().zip(want).all(near),
            "{name}, step {step}: {got:?} for {want:?}"
        );
    }
}

/// What a step did that can grow.
fn work(stats: &Stats) -> (u64, u64, u64) {
    let kernels = stats.kernels_launched + stats.library_calls;
    (kernels, stats.bytes_allocated, stats.plans_built)
}

fn flat_on(device: &Device) {
    for (name, what, period) in LOOPS {
        let compiled = with_mode(Mode::Compiled, || run(what, device));
        let eager = with_mode(Mode::Eager, || run(what, device));
        same_numbers(name, &compiled, &eager);
        let plans: u64 = compiled.iter().map(|(_, s)| s.plans_built).sum();
        // What is computed first, what finds that computed before, and what begins from a stored state.
        assert!(plans <= 3, "{name}: {plans} plans");
        let warm = 5 * period;
        // The last step reads what was not read before, or the loop stopped.
        let stopped = |(read, _): &(Read, Stats)| read.is_empty();
        let last = compiled.iter().rposition(|step| !stopped(step));
        let last = last.unwrap_or(0).min(STEPS - 2);
        assert!(last > 100, "{name} ends after step {last}");
        for n in warm..=last {
            let (now, before) = (work(&compiled[n].1), work(&compiled[n - period].1));
            assert_eq!(now, before, "{name}, step {n}");
            assert_eq!(now.2, 0, "{name}, step {n}");
        }
    }
}

#[test]
fn a_step_does_the_same_work_however_many_were_before() {
    flat_on(&Device::cpu());
}

/// What no step reads is computed once in many steps, by one plan: neither it nor what it keeps alive grows with the loop.
#[test]
fn what_a_loop_does_not_read_is_computed_now_and_then() {
    let device = Device::cpu();
    let compiled = with_mode(Mode::Compiled, || run(half_of_the_state, &device));
    let eager = with_mode(Mode::Eager, || run(half_of_the_state, &device));
    same_numbers("half of the state", &compiled, &eager);
    let plain = work(&compiled[10].1);
    let others: Vec<usize> = (5..STEPS - 1)
        .filter(|&n| work(&compiled[n].1) != plain)
        .collect();
    assert_eq!(others.len(), 3, "{others:?}");
    let works: Vec<_> = others.iter().map(|&n| work(&compiled[n].1)).collect();
    // The first of them begins from the initial state.
    let kernels = |n: usize| (works[n].0, works[n].1);
    assert_eq!((kernels(1), works[2].2), (kernels(2), 0), "{works:?}");
}

#[test]
fn a_step_does_the_same_work_on_a_device() {
    if let Some(device) = common::device() {
        flat_on(&device);
    }
}

#[test]
fn a_step_does_at_most_twice_what_storing_the_state_does() {
    let cpu = Device::cpu();
    let steps = |stores: bool| {
        let mut x = state(N, &cpu);
        with_mode(Mode::Compiled, || {
            let step = |_| {
                x = next(&x).exp().sin();
                if stores {
                    x.eval()?;
                }
                number(&x.sum(..))
            };
            let (read, stats) = stats_scope(|| (0..50).map(step).collect::<Result<Vec<_>>>());
            (read.expect("runs"), stats)
        })
    };
    let ((lazy, once), (stored, evaluated)) = (steps(false), steps(true));
    assert_eq!(lazy.len(), stored.len());
    let near = |(a, b): (&Read, &Read)| (a[0] - b[0]).abs() < 1e-9;
    assert!(lazy.iter().zip(&stored).all(near));
    assert!(once.kernels_launched <= 2 * evaluated.kernels_launched);
    assert!(once.bytes_allocated <= 2 * evaluated.bytes_allocated);
}

#[test]
fn a_flush_that_reads_a_number_of_a_state_stores_the_state() {
    let mut x = state(N, &Device::cpu());
    with_mode(Mode::Compiled, || {
        for _ in 0..10 {
            x = next(&x).exp().cos();
            x.sum(..).to_scalar::<f64>().expect("runs");
        }
        let (read, stats) = stats_scope(|| x.to_vec::<f64>());
        assert_eq!(read.expect("it is stored").len(), N);
        assert_eq!((stats.flushes, stats.kernels_launched), (0, 0));
    });
}

/// A search level by level: what is found and what was seen before depend on each other, and a product is part of both.
#[test]
fn a_product_in_a_state_is_computed_once_a_step() {
    let cpu = Device::cpu();
    let near = with_mode(Mode::Eager, || noise(&[200, 200], F64, &cpu).gt(0.98));
    let near = near.to_dtype(F64).contiguous();
    let ring = Tensor::eye(200, F64, &cpu).roll(1, 1);
    let (near, steps) = (near.maximum(&ring), 12);
    near.eval().expect("runs");
    let search = || {
        let mut front = Tensor::arange(0, 200, 1, F64, &cpu).eq(0).to_dtype(F64);
        let mut seen = front.clone();
        let mut level = -&front;
        let mut step = |n: usize| {
            let count = front.sum(..).to_scalar::<f64>().expect("runs");
            level = front.gt(0.0).where_cond(n as f64, &level);
            let next = front.unsqueeze(0).matmul(&near).squeeze(0).gt(0.0);
            front = next.to_dtype(F64) * (1.0 - &seen);
            seen = (&seen + &front).clamp_max(1.0);
            count
        };
        let counted = (0..steps)
            .map(|n| stats_scope(|| step(n)))
            .collect::<Vec<_>>();
        (counted, level.to_vec::<f64>().expect("runs"))
    };
    let (eager, levels) = with_mode(Mode::Eager, search);
    let (lazy, found) = with_mode(Mode::Compiled, search);
    assert_eq!(found, levels);
    for (n, ((count, stats), (want, _))) in lazy.iter().zip(&eager).enumerate() {
        assert_eq!(count, want, "step {n}");
        // The first steps find out what has to be stored.
        assert!(n < 4 || stats.library_calls == 1, "step {n}: {stats:?}");
    }
}

/// What shrinks has another size at each step; after some, its place is known all the same.
// A state that is a view of what a library computes: the view is no value to store, what it shows is.
/// What a step reads needs random numbers and sums of rows, and so does its new state, which the next flush computes.
#[test]
fn costly_values_under_a_read_and_a_state_are_computed_once() {
    let step = |x: &Tensor| {
        let noise = Tensor::randn([40, 30], F64, &Device::cpu());
        let scores = (x + &noise * 0.1).square().cos().sum(1);
        let next = x - scores.softmax(0).matmul(&noise) * 0.02;
        (next, scores.mean(..))
    };
    with_mode(Mode::Compiled, || {
        let (mut x, mut told) = (state(30, &Device::cpu()), String::new());
        for n in 0..12 {
            let (next, mean) = step(&x);
            x = next;
            if n == 11 {
                told = explain([&mean]).to_string();
            }
            mean.item::<f64>().expect("a mean");
        }
        assert_eq!(told.matches("= randn(").count(), 1, "{told}");
    });
}

#[test]
fn a_view_of_a_solution_in_a_state_is_solved_once_a_step() {
    let device = Device::cpu();
    let a = with_mode(Mode::Eager, || {
        (noise(&[24, 24], F64, &device) + Tensor::eye(24, F64, &device) * 40.0).contiguous()
    });
    let b = noise(&[24, 1], F64, &device);
    let mut x = noise(&[24], F64, &device);
    let mut calls = Vec::new();
    for _ in 0..12 {
        let (read, stats) = stats_scope(|| {
            x = (&a + &x).solve(&b).squeeze(1);
            number(&x.sum(..))
        });
        read.unwrap_or_else(|e| panic!("{e}"));
        calls.push(stats.library_calls);
    }
    // A factorisation, and equations of the factors.
    assert_eq!(calls[2..], [2; 10], "{calls:?}");
}

#[test]
fn a_state_of_another_size_at_each_step_is_computed_once() {
    // The cheapest way through four rows is cut out of them.
    let cut = |x: &Tensor, width: usize| {
        let around = |row: &Tensor| row.pad(&[(1, 1)], f64::INFINITY);
        let mut costs = vec![x.select(0, 0)];
        for row in 1..4 {
            let above = around(&costs[row - 1]);
            let side = |k: isize| above.narrow(0, k, width);
            let least = side(0).minimum(&side(1)).minimum(&side(2));
            costs.push(x.select(0, row as isize) + least);
        }
        let mut at = vec![costs[3].argmin(0)];
        for row in (0..3).rev() {
            let near = Tensor::arange(0, 3, 1, I64, &Device::cpu()) + &at[at.len() - 1];
            let step = around(&costs[row]).index_select(0, &near).argmin(0);
            at.push(&at[at.len() - 1] + step - 1);
        }
        at.reverse();
        let path = Tensor::stack(&at, 0);
        let columns = Tensor::arange(0, width as i64 - 1, 1, I64, &Device::cpu());
        let behind = columns.ge(&path.unsqueeze(1)).to_dtype(I64);
        (x.gather(1, &(columns + behind)), path)
    };
    /// Much work gets a plan at each size, after a few steps that take as long as compiling would.
    const WIDTH: usize = 1_000_000;
    let kernels = |evaluated: bool| {
        let steps = move || {
            let mut state = vec![
                noise(&[4, WIDTH], F64, &Device::cpu()),
                Tensor::zeros(4, I64, &Device::cpu()),
            ];
            let mut kernels = 0;
            for step in 0..16 {
                let (read, stats) = stats_scope(|| {
                    let (x, path) = cut(&state[0], WIDTH - step);
                    state = vec![x, path];
                    let sum = state[0].sum(..);
                    if evaluated {
                        eval([&state[0], &state[1], &sum])?;
                    }
                    number(&sum)
                });
                read.expect("runs");
                if step >= 8 {
                    kernels += stats.kernels_launched;
                }
            }
            kernels
        };
        let own = std::thread::spawn(move || with_mode(Mode::Compiled, steps));
        own.join().expect("it runs")
    };
    let (read, evaluated) = (kernels(false), kernels(true));
    assert!(
        0 < read && read <= evaluated,
        "{read} kernels for {evaluated}"
    );
}

#[test]
fn a_loop_is_flat_on_ready_made_kernels_while_it_compiles() {
    for (name, what, _) in LOOPS {
        let tiered = with_mode(Mode::Tiered, || run(what, &Device::cpu()));
        let eager = with_mode(Mode::Eager, || run(what, &Device::cpu()));
        same_numbers(name, &tiered, &eager);
        // A thread of its own finds out by itself what is computed twice.
        let compiled =
            std::thread::spawn(move || with_mode(Mode::Compiled, || run(what, &Device::cpu())));
        let compiled = compiled.join().expect("it runs");
        // The last step may read what grew.
        let most = |steps: &[(Read, Stats)]| steps[..STEPS - 1].iter().map(|s| work(&s.1).0).max();
        assert!(
            most(&tiered) <= most(&compiled),
            "{name}: {:?}",
            most(&tiered)
        );
    }
}

#[test]
fn loops_on_several_threads_do_not_disturb_each_other() {
    let eager: Vec<_> = LOOPS
        .iter()
        .map(|(_, what, _)| with_mode(Mode::Eager, || run(*what, &Device::cpu())))
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let eager = &eager;
            scope.spawn(move || {
                for i in 0..LOOPS.len() {
                    let i = (i + 4 * thread) % LOOPS.len();
                    let got = with_mode(Mode::Compiled, || run(LOOPS[i].1, &Device::cpu()));
                    same_numbers(LOOPS[i].0, &got, &eager[i]);
                }
            });
        }
    });
}

#[test]
fn threads_read_one_pending_value_and_compute_it_twice_at_most() {
    with_mode(Mode::Compiled, || {
        let y = state(N, &Device::cpu()).exp() * 2.0;
        let want: Vec<f64> = with_mode(Mode::Eager, || state(N, &Device::cpu()).exp() * 2.0)
            .to_vec()
            .expect("runs");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (y, want) = (&y, &want);
                scope.spawn(move || {
                    for i in (thread..N).step_by(4) {
                        let part = y.narrow(0, i as isize, 1);
                        let part = part.to_vec::<f64>().expect("runs");
                        assert!((part[0] - want[i]).abs() < 1e-9, "{i}");
                    }
                });
            }
        });
    });
}

#[test]
fn parts_of_a_pending_value_need_two_plans() {
    let read = |recorded_first: bool, x: Tensor, held: bool| {
        let y = x.cos() * 3.0;
        let _held = held.then_some(x);
        let part = |i: isize| y.narrow(0, 2 * i, 1).reshape([1, 1]);
        let first = |n: isize| (0..n).map(part).collect::<Vec<_>>();
        let parts = first(if recorded_first { 200 } else { 0 });
        let part = |i: usize| parts.get(i).cloned().unwrap_or_else(|| part(i as isize));
        let values = (0..200).map(|i| part(i).to_scalar::<f64>().expect("runs"));
        values.collect::<Vec<_>>()
    };
    let x = || state(N, &Device::cpu());
    let want = with_mode(Mode::Eager, || read(false, x(), true));
    // Storing the value instead of the operand that only it needs costs no memory: the first flush does. Where the operand
    // lives on, the second flush that needs the value stores it; the next time this place is known, and the first does.
    for (recorded_first, held, flushes) in [
        (false, false, 1),
        (true, false, 1),
        (false, true, 2),
        (true, true, 1),
    ] {
        let run = || stats_scope(|| read(recorded_first, x(), held));
        let (got, stats) = with_mode(Mode::Compiled, run);
        assert_eq!(stats.flushes, flushes, "{recorded_first}, {held}");
        assert!(stats.plans_built <= 2, "{}", stats.plans_built);
        assert!(stats.kernels_launched <= 4, "{}", stats.kernels_launched);
        for (a, b) in got.iter().zip(&want) {
            assert!((a - b).abs() < 1e-9);
        }
    }
}

#[test]
fn a_value_is_lazy_once_and_stored_by_the_second_flush_that_needs_it() {
    with_mode(Mode::Compiled, || {
        let x = state(N, &Device::cpu());
        let bytes = 8 * N as u64;
        let h = x.exp();
        let (_, first) = stats_scope(|| h.sum(..).to_scalar::<f64>().expect("runs"));
        assert!(first.bytes_allocated < bytes, "{}", first.bytes_allocated);
        // The second computes it again, and keeps it; the third reads it.
        let (_, second) = stats_scope(|| h.max(..).to_scalar::<f64>().expect("runs"));
        assert!(second.bytes_allocated >= bytes);
        let (_, third) = stats_scope(|| h.to_vec::<f64>().expect("runs"));
        assert_eq!((third.flushes, third.kernels_launched), (0, 0));

        // What nothing needs any more is not stored.
        let h = x.sin();
        let (sum, max) = (h.sum(..), h.max(..));
        drop(h);
        let (_, first) = stats_scope(|| sum.to_scalar::<f64>().expect("runs"));
        let (_, second) = stats_scope(|| max.to_scalar::<f64>().expect("runs"));
        assert!(first.bytes_allocated + second.bytes_allocated < bytes);

        // What reads no tensor costs less to compute than to read, and a view shows what is stored.
        let zeros = Tensor::zeros(N, F64, &Device::cpu());
        let wide = x.cos().expand([50, N]);
        for _ in 0..3 {
            let all = || (&wide + &zeros).sum(..).to_scalar::<f64>().expect("runs");
            let (_, stats) = stats_scope(all);
            assert!(
                stats.bytes_allocated < 2 * bytes,
                "{}",
                stats.bytes_allocated
            );
        }
    });
}

/// Numbers of each step that a program holds and reads at the end keep no states: they are computed with them.
#[test]
fn numbers_that_are_held_keep_no_states() {
    const HELD: usize = 2000;
    let device = Device::cpu();
    let run = || {
        let mut x = state(4096, &device);
        let (mut norms, mut least) = (Vec::new(), Vec::new());
        let mut total = Tensor::zeros((), F64, &device);
        let ((), stats) = stats_scope(|| {
            for _ in 0..HELD {
                x = next(&x);
                norms.push(x.square().mean(..).sqrt());
                least.push(x.min(..));
                total = &total + x.abs().max(..);
            }
        });
        let mut read = vec![total.item::<f64>().unwrap()];
        for (norm, least) in norms.iter().zip(&least) {
            read.push(norm.item::<f64>().unwrap());
            read.push(least.item::<f64>().unwrap());
        }
        (read, stats)
    };
    let (compiled, stats) = with_mode(Mode::Compiled, run);
    let (eager, _) = with_mode(Mode::Eager, run);
    for (n, (got, want)) in compiled.iter().zip(&eager).enumerate() {
        assert!((got - want).abs() <= 1e-9 * want.abs().max(1.0), "{n}");
    }
    // One state has 32 KiB, and all of them 64 MiB; what is computed at a time takes a few hundred.
    assert!(stats.peak_bytes < 16 << 20, "{}", stats.peak_bytes);
    assert!(stats.plans_built <= 4, "{}", stats.plans_built);
}
