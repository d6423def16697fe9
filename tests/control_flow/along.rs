//! Derivatives of open loops along a direction, against central differences.

use super::{MODES, cpu, near, of, scalar};
use ferrotrace::prelude::*;
use ferrotrace::{checkpoint, cond, grad, jit, jvp, map, scan, vjp, while_loop};

/// A value and its derivative, of `x` and a direction.
type Along<'a> = dyn Fn(&Tensor, &Tensor) -> (Tensor, Tensor) + 'a;

/// The derivative of `f` at `x` along `direction` is that of central differences, to 7 digits, in both modes, and by `jit`.
#[track_caller]
fn differences<F>(f: F, x: &[f64], direction: &[f64])
where
    F: Fn(&Tensor) -> Tensor + Clone + Send + Sync + 'static,
{
    let numbers = |y: &Tensor| y.to_dtype(DType::F64).to_vec::<f64>();
    let moved = |by: f64| {
        let x: Vec<f64> = x.iter().zip(direction).map(|(x, d)| x + by * d).collect();
        numbers(&f(&of(&x))).expect("computed")
    };
    // Of the fourth order.
    let h = 1e-4;
    let [near_up, near_down, up, down] = [h, -h, 2.0 * h, -2.0 * h].map(moved);
    let slope = |i: usize| {
        let (near, far) = (near_up[i] - near_down[i], up[i] - down[i]);
        (8.0 * near - far) / (12.0 * h)
    };
    let want: Vec<f64> = (0..up.len()).map(slope).collect();
    assert!(want.iter().any(|w| w.abs() > 1e-3), "{want:?}");
    let (x, direction) = (of(x), of(direction));
    let inner = f.clone();
    let compiled = jit(move |(x, d): (&Tensor, &Tensor)| jvp(&inner, x, d));
    let by_jit = |x: &Tensor, d: &Tensor| compiled.call((x, d));
    let of_jit = {
        let f = jit(f.clone());
        move |x: &Tensor, d: &Tensor| jvp(|x: &Tensor| f.call(x), x, d)
    };
    let plain = |x: &Tensor, d: &Tensor| jvp(&f, x, d);
    let ways: [(&str, &Along<'_>); 3] =
        [("plain", &plain), ("in jit", &by_jit), ("of jit", &of_jit)];
    for mode in MODES {
        for (way, along) in ways {
            let (value, slope) = with_mode(mode, || along(&x, &direction));
            let read = |y: &Tensor| {
                with_mode(mode, || numbers(y)).unwrap_or_else(|e| panic!("{way} {mode:?}: {e}"))
            };
            near(&read(&value), &numbers(&f(&x)).expect("computed"), mode);
            for (found, want) in read(&slope).iter().zip(&want) {
                let same = (found - want).abs() <= 1e-7 * want.abs().max(1.0);
                assert!(same, "{way} {mode:?}: {found}, not {want}");
            }
        }
    }
}

/// Newton's method for a root of `x`.
fn root(x: &Tensor) -> Tensor {
    let error = |y: &Tensor| (y * y - x).abs().max(()).gt(1e-13);
    while_loop(error, |y| (y + x / y) * 0.5, &x.ones_like())
}

#[test]
fn a_captured_value() {
    differences(root, &[2.0, 5.0, 0.7], &[1.0, -2.0, 0.5]);
}

#[test]
fn carried_values_and_several_steps() {
    let f = |x: &Tensor| while_loop(|y| y.sum(..).lt(40.0), |y| y * 1.5 + y.sin(), x);
    differences(f, &[1.0, 0.3], &[0.2, 1.0]);
    // No step: the value itself.
    differences(f, &[30.0, 20.0], &[0.2, 1.0]);
}

#[test]
fn integers_and_values_that_do_not_depend_on_the_input() {
    let f = |x: &Tensor| {
        let start = (
            Tensor::scalar(0i64, DType::I64, &cpu()),
            x.clone(),
            scalar(1.0),
            x.sum(..).gt(0.0),
        );
        let step = |(n, y, k, flag): &(Tensor, Tensor, Tensor, Tensor)| {
            let y = y * k + n.to_dtype(DType::F64) * y.cos();
            (n + 1, y, k * 0.5, flag.logical_not())
        };
        let (n, y, k, flag) = while_loop(|(n, ..)| n.lt(6), step, &start);
        let rest = [n, flag].map(|x| x.to_dtype(DType::F64));
        Tensor::cat(&[y, Tensor::stack(&[&k, &rest[0], &rest[1]], 0)], 0)
    };
    differences(f, &[0.4, 1.7, -0.2], &[1.0, 0.5, -1.0]);
}

#[test]
fn within_other_control_flow() {
    let power = |x: &Tensor| {
        while_loop(
            |y| y.lt(20.0),
            |y| y * (x.sin() * 0.5 + 1.5) + 0.25,
            &(x * 0.5),
        )
    };
    differences(move |x| map(power, x), &[1.2, 0.7, 0.4], &[1.0, -0.5, 2.0]);
    let rows = move |x: &Tensor| {
        let step = |h: &Tensor, x: &Tensor| {
            let y = power(&(x + h.sin() * 0.1));
            (y.clone(), y * h)
        };
        let (last, all) = scan(step, &x.select(0, 0), x);
        Tensor::cat(&[last.reshape([1]), all], 0)
    };
    differences(rows, &[1.2, 0.7, 0.4], &[1.0, -0.5, 2.0]);
    let chosen = move |x: &Tensor| {
        let sum = x.sum(..);
        cond(&sum.gt(0.0), power, |x| x.cos(), &sum)
    };
    differences(chosen, &[1.2, 0.2], &[1.0, -0.5]);
    differences(chosen, &[-1.2, 0.2], &[1.0, -0.5]);
    // A loop within a loop, and within a checkpoint.
    let nested = |x: &Tensor| {
        let inner = |y: &Tensor| while_loop(|z| z.abs().sum(..).lt(3.0), |z| z * 1.7 + x, y);
        while_loop(|y| y.abs().sum(..).lt(30.0), |y| inner(y) * 1.3 + x * y, x)
    };
    differences(nested, &[0.3, 0.8], &[1.0, -0.4]);
    differences(move |x| checkpoint(|| nested(x)), &[0.3, 0.8], &[1.0, -0.4]);
}

#[test]
fn second_derivatives_along() {
    let slope = |x: &Tensor| jvp(root, x, &x.ones_like()).1;
    differences(slope, &[2.0, 5.0], &[1.0, 1.0]);
    let f = |x: &Tensor| while_loop(|y| y.sum(..).lt(40.0), |y| y * (x.sin() * 0.2 + 1.4) + x, x);
    differences(
        move |x| jvp(f, x, &of(&[1.0, 2.0])).1,
        &[1.0, 0.3],
        &[0.2, 1.0],
    );
}

/// Steps draw the same numbers beside their tangents as without.
#[test]
fn random_numbers_of_steps() {
    let generator = ferrotrace::Generator::new(9);
    let state = generator.state();
    let f = |x: &Tensor| {
        generator.set_state(state);
        while_loop(
            |y| y.lt(50.0),
            |y| y * (generator.rand((), DType::F64, &cpu()) + 1.1) + x,
            x,
        )
    };
    for mode in MODES {
        with_mode(mode, || {
            let at = |x: f64| f(&scalar(x)).item::<f64>().expect("computed");
            let want = (at(1.0 + 1e-6) - at(1.0 - 1e-6)) / 2e-6;
            let slope = jvp(f, &scalar(1.0), &scalar(1.0))
                .1
                .item::<f64>()
                .expect("computed");
            assert!((slope - want).abs() < 1e-6 * want, "{slope}, not {want}");
        });
    }
}

/// In reverse it is an error, wherever it stands, and what does not need it is computed.
#[test]
fn the_gradient_in_reverse_is_an_error() {
    let x = of(&[0.5, 1.5]).requires_grad();
    for mode in MODES {
        with_mode(mode, || {
            let rows = map(|x: &Tensor| while_loop(|y| y.lt(9.0), |y| y * 2.0, x), &x);
            let error = grad(&rows.sum(..), &[&x]).remove(0).to_vec::<f64>();
            let error = error.expect_err("no bound").to_string();
            assert!(error.contains("bounded_while_loop"), "{error}");
            let (value, product) = vjp(root, &of(&[4.0]), &of(&[1.0]));
            assert!((value.to_vec::<f64>().expect("computed")[0] - 2.0).abs() < 1e-12);
            let error = product.to_vec::<f64>().expect_err("no bound").to_string();
            assert!(error.contains("bounded_while_loop"), "{error}");
        });
    }
}
