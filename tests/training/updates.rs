//! Parameters that a program computes from gradients itself: each step keeps the history of one step, not of all before it.

use ferrotrace::prelude::*;
use ferrotrace::{checkpoint, manual_seed, stats_scope, value_and_grad};
use std::sync::Mutex;

const ROWS: usize = 64;

fn noise(shape: &[usize]) -> Tensor {
    let tensor = Tensor::randn(shape, DType::F32, &Device::cpu());
    eval([&tensor]).unwrap();
    tensor
}

fn loss_of(x: &Tensor, w: &Tensor) -> Tensor {
    (x.matmul(w).tanh() - x).square().mean(..)
}

/// Runs `step` on a fresh state in both modes. What is held after 60 steps is what was held after 20, but for kept
/// losses.
#[track_caller]
fn flat<S>(start: impl Fn(Tensor) -> S, step: impl Fn(&Tensor, &mut S)) {
    for mode in [Mode::Compiled, Mode::Eager] {
        with_mode(mode, || {
            manual_seed(5);
            let x = noise(&[ROWS, 16]);
            let mut state = start(noise(&[16, 16]));
            (0..20).for_each(|_| step(&x, &mut state));
            let (_, stats) = stats_scope(|| (0..40).for_each(|_| step(&x, &mut state)));
            assert_eq!(stats.plans_built, 0, "{mode:?}: {stats:?}");
            // A kept loss is a small block.
            let more = stats.live_bytes;
            assert!(more <= 40 * 64, "{mode:?}: {more} bytes more");
        });
    }
}

#[test]
fn descent_on_required_parameters() {
    flat(
        |w| w,
        |x, w| {
            let leaf = w.requires_grad();
            let found = grad(&loss_of(x, &leaf), &[&leaf]).remove(0);
            *w = &leaf - &found * 0.1;
            w.eval().unwrap();
        },
    );
}

#[test]
fn descent_on_a_tensor_that_was_required_once() {
    flat(
        |w| w.requires_grad(),
        |x, w| {
            let found = grad(&loss_of(x, w), &[&*w]).remove(0);
            *w = &*w - &found * 0.1;
            w.eval().unwrap();
        },
    );
}

#[test]
fn momentum_and_gradients_that_outlive_their_step() {
    flat(
        |w| {
            (
                w.requires_grad(),
                Tensor::zeros([16, 16], DType::F32, &Device::cpu()),
                None,
            )
        },
        |x, (w, v, last): &mut (Tensor, Tensor, Option<Tensor>)| {
            let found = grad(&loss_of(x, w), &[&*w]).remove(0);
            *v = &*v * 0.9 + &found;
            *w = &*w - &*v * 0.1;
            *last = Some(found);
            eval([&*w, &*v]).unwrap();
        },
    );
}

#[test]
fn adam_with_kept_losses() {
    let zeros = || Tensor::zeros([16, 16], DType::F32, &Device::cpu());
    flat(
        |w| ([w.requires_grad(), zeros(), zeros()], Vec::new()),
        |x, ([w, m, v], losses): &mut ([Tensor; 3], Vec<Tensor>)| {
            let loss = loss_of(x, w);
            let found = grad(&loss, &[&*w]).remove(0);
            *m = &*m * 0.9 + &found * 0.1;
            *v = &*v * 0.99 + found.square() * 0.01;
            *w = &*w - &*m * 0.01 / (v.sqrt() + 1e-6);
            eval([&*w, &*m, &*v, &loss]).unwrap();
            losses.push(loss);
        },
    );
}

#[test]
fn a_state_that_is_carried_with_its_history() {
    flat(
        |w| (w.requires_grad(), noise(&[ROWS, 16])),
        |x, (w, h): &mut (Tensor, Tensor)| {
            let next = checkpoint(|| (h.matmul(w) + x).tanh());
            let found = grad(&next.square().mean(..), &[&*w]).remove(0);
            (*w, *h) = (&*w - &found * 0.1, next);
            eval([&*w, &*h]).unwrap();
        },
    );
}

#[test]
fn steps_by_second_derivatives() {
    flat(
        |w| w.requires_grad(),
        |x, w| {
            let first = grad(&loss_of(x, w), &[&*w]).remove(0);
            let second = grad(&(&first * &first).sum(..), &[&*w]).remove(0);
            *w = &*w - (&first + &second * 0.01) * 0.1;
            w.eval().unwrap();
        },
    );
}

#[test]
fn gradients_of_calls_of_a_traced_function() {
    let f = jit(|(x, w): (&Tensor, &Tensor)| loss_of(x, w));
    flat(
        |w| w.requires_grad(),
        |x, w| {
            let found = grad(&f.call((x, &*w)), &[&*w]).remove(0);
            *w = &*w - &found * 0.1;
            w.eval().unwrap();
        },
    );
}

#[test]
fn losses_of_models_that_are_replaced() {
    flat(
        |w| (vec![w.requires_grad()], Vec::new()),
        |x, (model, losses): &mut (Vec<Tensor>, Vec<Tensor>)| {
            let (loss, found) = value_and_grad(model, |m| loss_of(x, &m[0]));
            *model = vec![&model[0] - &found[0] * 0.1];
            eval([&model[0], &loss]).unwrap();
            losses.push(loss);
        },
    );
}

/// A gradient can be asked by any tensor that is still held, however it was come by.
#[test]
fn what_is_held_keeps_what_was_computed_of_it() {
    for mode in [Mode::Compiled, Mode::Eager] {
        with_mode(mode, || {
            let of = |v: f64| Tensor::from_slice(&[v], 1, &Device::cpu());
            let start = of(3.0).requires_grad();
            let held = {
                let double = &start * 2.0;
                let copy = double.clone();
                drop(double);
                copy
            };
            // Six steps of w - 0.1 w^2, of which no tensor between is held.
            let mut w = &held + 0.0;
            for _ in 0..6 {
                let found = grad(&(w.square() * &w / 3.0).sum(..), &[&w]).remove(0);
                w = &w - found * 0.1;
            }
            let (mut value, mut slope) = (6.0f64, 1.0f64);
            for _ in 0..6 {
                slope *= 1.0 - 0.2 * value;
                value -= 0.1 * value * value;
            }
            let found = grad(&w.sum(..), &[&held, &start]);
            let (a, b) = (found[0].to_scalar::<f64>(), found[1].to_scalar::<f64>());
            assert!((a.unwrap() - slope).abs() < 1e-12);
            assert!((b.unwrap() - 2.0 * slope).abs() < 1e-12);
            // Without the first, the second still has its gradient, and the value is a start of its own.
            drop(start);
            let a = grad(&w.sum(..), &[&held]).remove(0).to_scalar::<f64>();
            assert!((a.unwrap() - slope).abs() < 1e-12);
            drop(held);
            let a = grad(&(&w * &w).sum(..), &[&w]).remove(0).to_scalar::<f64>();
            assert!((a.unwrap() - 2.0 * value).abs() < 1e-12);
            let model = [of(2.0)];
            let (loss, found) = value_and_grad(&model, |m| (&m[0] * &w * &w).sum(..));
            let a = grad(&loss, &[&w]).remove(0).to_scalar::<f64>();
            let b = grad(&found[0].sum(..), &[&w]).remove(0).to_scalar::<f64>();
            assert!((a.unwrap() - 4.0 * value).abs() < 1e-12);
            assert!((b.unwrap() - 2.0 * value).abs() < 1e-12);
        });
    }
}

/// A long history goes without recursion, from whichever end.
#[test]
fn the_first_tensor_goes_before_the_last() {
    let run = || {
        for mode in [Mode::Compiled, Mode::Eager] {
            with_mode(mode, || {
                let x = Tensor::ones([1], DType::F64, &Device::cpu()).requires_grad();
                let mut y = x.clone();
                for _ in 0..30_000 {
                    y = &y * 1.0001;
                }
                drop(x);
                let own = grad(&y.sum(..), &[&y]).remove(0);
                assert_eq!(own.to_scalar::<f64>().unwrap(), 1.0);
                assert!(y.try_backward().is_ok());
            });
        }
    };
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(run);
    thread.expect("a thread").join().expect("passes");
}

/// Threads compute from one tensor, and take what others computed.
#[test]
fn threads_share_a_leaf() {
    let of = [0.5f64, -1.5];
    let x = Tensor::from_slice(&of, 2, &Device::cpu()).requires_grad();
    let kept = Mutex::new(Vec::new());
    let work = |thread: usize| {
        for step in 0..100 {
            let own = (thread + step) as f64 / 50.0;
            let y = (&x * own).sin() * &x;
            let (other, factor) = {
                let mut kept = kept.lock().unwrap();
                kept.push((y, own));
                let any = (thread * 31 + step * 17) % kept.len();
                kept.swap_remove(any)
            };
            let found = grad(&other.sum(..), &[&x]).remove(0);
            let found = found.to_vec::<f64>().unwrap();
            for (found, x) in found.iter().zip(of) {
                let (sin, cos) = (factor * x).sin_cos();
                assert!((found - (factor * x * cos + sin)).abs() < 1e-12);
            }
        }
    };
    let work = &work;
    std::thread::scope(|scope| {
        (0..4).for_each(|thread| drop(scope.spawn(move || work(thread))));
    });
}
