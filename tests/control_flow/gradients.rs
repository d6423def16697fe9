//! Gradients, against those of the same steps without control flow, and against derivatives by hand.

use super::{MODES, check, cpu, near, of, scalar};
use ferrotrace::prelude::*;
use ferrotrace::{
    bounded_while_loop, checkpoint, cond, custom_grad, grad, jit, jvp, map, no_grad, scan,
    scan_reversed, value_and_grad, vjp, while_loop,
};

/// A matrix of numbers between -0.5 and 0.5, another for each `seed`.
fn matrix(rows: usize, columns: usize, seed: usize) -> Tensor {
    let value = |i: usize| ((i * 37 + seed * 101 + 11) % 97) as f64 / 97.0 - 0.5;
    let values: Vec<f64> = (0..rows * columns).map(value).collect();
    Tensor::from_slice(&values, [rows, columns], &cpu())
}

/// What `f` gives and its gradients by `x` are those of `plain`, in both modes, as they are and within `jit`.
#[track_caller]
fn same_gradients<const N: usize>(
    x: [Tensor; N],
    f: impl Fn(&[Tensor; N]) -> Tensor + Send + Sync + Copy + 'static,
    plain: impl Fn(&[Tensor; N]) -> Tensor + Copy,
) {
    let read = |(loss, gradients): (Tensor, [Tensor; N])| {
        let mut all = loss.to_vec::<f64>().expect("a loss");
        for gradient in gradients {
            all.extend(gradient.to_vec::<f64>().expect("a gradient"));
        }
        all
    };
    let want = read(value_and_grad(&x, plain));
    let compiled = jit(move |x: &[Tensor; N]| value_and_grad(x, f));
    let within = jit(f);
    for mode in MODES {
        let runs = || {
            let outside = |x: &[Tensor; N]| within.call(x);
            [
                read(value_and_grad(&x, f)),
                read(compiled.call(&x)),
                read(value_and_grad(&x, outside)),
                read(compiled.call(&x)),
                read(value_and_grad(&x, outside)),
            ]
        };
        for found in with_mode(mode, runs) {
            near(&found, &want, mode);
        }
    }
}

fn rnn([w, u, h, xs]: &[Tensor; 4]) -> Tensor {
    let step = |h: &Tensor, x: &Tensor| {
        let h = (h.matmul(w) + x.matmul(u)).tanh();
        (h.clone(), h.square())
    };
    let (last, all) = scan(step, h, xs);
    last.sum(..) + all.mean(..)
}

fn unrolled_rnn([w, u, h, xs]: &[Tensor; 4]) -> Tensor {
    let (mut h, mut all) = (h.clone(), Vec::new());
    for t in 0..xs.dims()[0] {
        h = (h.matmul(w) + xs.select(0, t as isize).matmul(u)).tanh();
        all.push(h.square());
    }
    h.sum(..) + Tensor::stack(&all, 0).mean(..)
}

fn rnn_values() -> [Tensor; 4] {
    let xs = matrix(5, 6, 4).reshape([5, 2, 3]);
    [matrix(4, 4, 1), matrix(3, 4, 2), matrix(2, 4, 3), xs]
}

#[test]
fn a_scan_has_the_gradients_of_the_unrolled_loop() {
    same_gradients(rnn_values(), rnn, unrolled_rnn);
}

#[test]
fn a_scan_in_reverse_without_some_results() {
    let f = |[w, xs]: &[Tensor; 2]| {
        let step = |c: &Tensor, x: &Tensor| (c * w + x, (c * x, x.argmax(0)));
        scan_reversed(step, &of(&[1.0, 2.0]), xs).1.0.sum(..)
    };
    let plain = |[w, xs]: &[Tensor; 2]| {
        let (mut c, mut sum) = (of(&[1.0, 2.0]), scalar(0.0));
        for t in [2, 1, 0] {
            let x = xs.select(0, t);
            sum += (&c * &x).sum(..);
            c = &c * w + &x;
        }
        sum
    };
    same_gradients([of(&[0.5, 3.0]), matrix(3, 2, 5)], f, plain);
}

#[test]
fn a_map_has_the_gradients_of_its_rows() {
    let f = |[w, xs]: &[Tensor; 2]| map(|x: &Tensor| (x * w).sin().sum(..) * x, xs).sum(..);
    let plain = |[w, xs]: &[Tensor; 2]| ((xs * w).sin().sum_keepdim(1) * xs).sum(..);
    same_gradients([of(&[0.5, 3.0]), matrix(3, 2, 5)], f, plain);
}

#[test]
fn a_cond_has_the_gradients_of_the_branch_that_was_taken() {
    for sign in [1.0, -1.0] {
        let values = || [of(&[sign, 2.0 * sign]), of(&[3.0, 4.0])];
        let f = |[x, w]: &[Tensor; 2]| {
            cond(
                &x.sum(..).gt(0.0),
                |x| (x * w).sum(..),
                |x| x.exp().sum(..),
                x,
            )
        };
        match sign > 0.0 {
            true => same_gradients(values(), f, |[x, w]| (x * w).sum(..)),
            false => same_gradients(values(), f, |[x, _]| x.exp().sum(..)),
        }
    }
}

#[test]
fn a_bounded_loop_has_the_gradients_of_its_steps() {
    // Newton's method for the square root of a: the derivative is 1 / (2 √a).
    let root = |[a]: &[Tensor; 1]| {
        let error = |x: &Tensor| (x * x - a).abs().gt(1e-13);
        bounded_while_loop(30, error, |x| (x + a / x) * 0.5, &scalar(1.0))
    };
    for a in [2.0, 9.0, 1.0] {
        for mode in MODES {
            let (value, [slope]) = with_mode(mode, || value_and_grad(&[scalar(a)], root));
            let found = [value, slope].map(|x| x.item::<f64>().expect("a number"));
            let want = match a {
                // No step is made.
                1.0 => [1.0, 0.0],
                _ => [a.sqrt(), 0.5 / a.sqrt()],
            };
            near(&found, &want, mode);
        }
    }
    // The bound ends it.
    let stopped = || bounded_while_loop(3, |x: &Tensor| x.lt(1000.0), |x| x * 2.0, &scalar(1.0));
    check(stopped, &[8.0]);
    check(
        || bounded_while_loop(0, |x: &Tensor| x.lt(1000.0), |x| x * 2.0, &scalar(1.0)),
        &[1.0],
    );
}

#[test]
fn nested_loops() {
    let f = |[w, xs]: &[Tensor; 2]| {
        let inner = |c: &Tensor, x: &Tensor| {
            let next = cond(&x.gt(0.0), |c| c * w + x, |c| (c - x).sin(), c);
            (next.clone(), next)
        };
        let outer = |c: &Tensor, row: &Tensor| {
            let (c, all) = scan(inner, c, row);
            (c * 0.5, all.sum(..))
        };
        let (last, rows) = scan(outer, &scalar(0.3), xs);
        last + rows.sum(..)
    };
    let plain = |[w, xs]: &[Tensor; 2]| {
        let (mut c, mut sum) = (scalar(0.3), scalar(0.0));
        for i in 0..3 {
            for j in 0..4 {
                let x = xs.select(0, i).select(0, j);
                c = match x.item::<f64>().expect("a number") > 0.0 {
                    true => &c * w + &x,
                    false => (&c - &x).sin(),
                };
                sum += &c;
            }
            c *= 0.5;
        }
        c + sum
    };
    same_gradients([scalar(0.7), matrix(3, 4, 8)], f, plain);
}

/// A loop within a checkpoint, at its end and before others.
#[test]
fn checkpoints_of_loops() {
    let f = |x: &Tensor| {
        let step = |c: &Tensor, x: &Tensor| (c * x + x.sin(), c.exp());
        let (last, rows) = scan(step, &x.sum(..), x);
        (last, (rows * x).sum(..))
    };
    let x = of(&[0.3, -0.7, 0.5]).requires_grad();
    for mode in MODES {
        with_mode(mode, || {
            let slope = |y: Tensor| grad(&y, &[&x]).remove(0).to_vec::<f64>().expect("computed");
            let behind = |(a, b): (Tensor, Tensor)| (a.cos() * b).exp();
            near(
                &slope(checkpoint(|| behind(f(&x)))),
                &slope(behind(f(&x))),
                mode,
            );
            near(&slope(checkpoint(|| f(&x).0)), &slope(f(&x).0), mode);
            assert!(slope(checkpoint(|| f(&x).0)).iter().all(|s| s.abs() > 1e-3));
        });
    }
}

#[test]
fn rules_of_the_program_count_in_bodies() {
    // The gradient of the first is 100 times too large by its own rule, of the second none flows through `detach`, and a
    // checkpoint is computed again.
    let f = |[a, b]: &[Tensor; 2]| {
        let step = |c: &Tensor, x: &Tensor| {
            let triple = custom_grad(|x: &[&Tensor]| x[0] * 3.0, |_, _, g| vec![g * 300.0]);
            let triple = triple(&[a]);
            let rest = checkpoint(|| (c * b).sin());
            let frozen = no_grad(|| b * 2.0) + b.detach();
            (triple * x + rest + frozen, ())
        };
        scan(step, &scalar(0.5), &of(&[2.0, 5.0])).0
    };
    let (a, b) = (0.25f64, 0.5f64);
    let first = a * 3.0 * 2.0 + (0.5 * b).sin() + 3.0 * b;
    let value = a * 3.0 * 5.0 + (first * b).sin() + 3.0 * b;
    let carried = (first * b).cos() * b;
    let by_a = 300.0 * 5.0 + carried * 300.0 * 2.0;
    let by_b = (first * b).cos() * first + carried * (0.5 * b).cos() * 0.5;
    for mode in MODES {
        let run = || value_and_grad(&[scalar(a), scalar(b)], f);
        let (found, [da, db]) = with_mode(mode, run);
        let found = [found, da, db].map(|x| x.item::<f64>().expect("a number"));
        near(&found, &[value, by_a, by_b], mode);
    }
}

/// The powers of 1.5, and their first four derivatives.
#[track_caller]
fn derivatives(power: i32, f: impl Fn(&Tensor) -> Tensor) {
    let (mut want, mut factor) = (vec![1.5f64.powi(power)], 1.0);
    for order in 0..4 {
        factor *= f64::from(power - order);
        let rest = power - order - 1;
        want.push(if rest < 0 {
            0.0
        } else {
            factor * 1.5f64.powi(rest)
        });
    }
    for mode in MODES {
        with_mode(mode, || {
            let x = scalar(1.5).requires_grad();
            let mut found = vec![f(&x)];
            for order in 0..4 {
                let next = grad(&found[order], &[&x]).remove(0);
                found.push(next);
            }
            let found: Vec<f64> = found.iter().flat_map(|x| x.item::<f64>()).collect();
            near(&found, &want, mode);
        });
    }
}

#[test]
fn gradients_of_gradients() {
    let rows = |n: usize| Tensor::zeros(n, DType::F64, &cpu());
    derivatives(3, |x| {
        scan(|c, _: &Tensor| (c * x, ()), &scalar(1.0), &rows(3)).0
    });
    derivatives(4, |x| scan(|c, _: &Tensor| (c * x, ()), x, &rows(3)).0);
    derivatives(4, |x| scan(|c, _: &Tensor| (c * c, ()), x, &rows(2)).0);
    derivatives(5, |x| {
        let step = |c: &Tensor, x: &Tensor| (c * x, c * x);
        scan_reversed(step, x, &x.expand([4])).1.select(0, 0)
    });
    derivatives(3, |x| cond(&x.gt(0.0), |y| x * y * y, |y| y * 2.0, x));
    derivatives(3, |x| map(|y: &Tensor| y * x * x, &x.reshape([1])).sum(..));
    derivatives(4, |x| bounded_while_loop(9, |y| y.lt(5.0), |y| y * x, x));
    // Through calls of compiled functions.
    let cube = jit(|x: &Tensor| scan(|c, x| (c * x, ()), x, &x.expand([2])).0);
    derivatives(3, |x| cube.call(x));
}

#[test]
fn products_from_both_sides() {
    let f = |[w, u, h, xs]: &[Tensor; 4]| {
        let step = |h: &Tensor, x: &Tensor| {
            let h = (h.matmul(w) + x.matmul(u)).tanh();
            (h.clone(), h)
        };
        scan(step, h, xs).1
    };
    let x = rnn_values();
    let direction = [
        matrix(4, 4, 6),
        matrix(3, 4, 7),
        matrix(2, 4, 8),
        matrix(5, 6, 9).reshape([5, 2, 3]),
    ];
    let vector = matrix(5, 8, 10).reshape([5, 2, 4]);
    for mode in MODES {
        let both = || {
            let (_, along) = jvp(f, &x, &direction);
            let (_, back) = vjp(f, &x, &vector);
            let from_right = (along * &vector).sum(..);
            let from_left = back.iter().zip(&direction).map(|(a, b)| (a * b).sum(..));
            let from_left = from_left.reduce(|a, b| a + b).expect("four");
            [from_right, from_left].map(|x| x.item::<f64>().expect("a number"))
        };
        let [right, left] = with_mode(mode, both);
        near(&[right], &[left], mode);
        assert!(right.abs() > 1e-3, "{right}");
    }
}

#[test]
fn an_open_loop_has_no_gradient_in_reverse() {
    let x = scalar(1.5).requires_grad();
    let y = while_loop(|y| y.lt(10.0), |y| y * &x, &x);
    assert_eq!(y.item::<f64>().ok(), Some(1.5f64.powi(6)));
    let error = grad(&y, &[&x])
        .remove(0)
        .item::<f64>()
        .expect_err("no bound");
    assert!(error.to_string().contains("bounded_while_loop"), "{error}");
}

#[test]
fn integers_have_none() {
    let x = scalar(1.5).requires_grad();
    let (n, y) = scan(
        |(n, y): &(Tensor, Tensor), _: &Tensor| ((n + 1, y * &x), ()),
        &(Tensor::scalar(0i64, DType::I64, &cpu()), scalar(1.0)),
        &of(&[0.0; 3]),
    )
    .0;
    assert_eq!(
        grad(&y, &[&x]).remove(0).item::<f64>().ok(),
        Some(3.0 * 2.25)
    );
    assert_eq!(n.item::<i64>().ok(), Some(3));
}
