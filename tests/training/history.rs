//! What tensors remember for their gradients: when it is kept, when it ends, and what is wrong to ask.

use ferrotrace::prelude::*;
use ferrotrace::{checkpoint, custom_grad, detect_anomaly, stats_scope, value_and_grad};

fn v(data: &[f64]) -> Tensor {
    Tensor::from_slice(data, data.len(), &Device::cpu())
}

fn both(body: impl Fn()) {
    with_mode(Mode::Compiled, &body);
    with_mode(Mode::Eager, &body);
}

#[track_caller]
fn close(a: &Tensor, expected: &[f64]) {
    let got = a.to_vec::<f64>().unwrap();
    let same = |(x, y): (&f64, &f64)| (x - y).abs() <= 1e-9 * (1.0 + y.abs());
    assert!(
        got.len() == expected.len() && got.iter().zip(expected).all(same),
        "got {got:?}, expected {expected:?}"
    );
}

#[track_caller]
fn fails(a: &Tensor, part: &str) {
    let error = a.error().expect("an error").to_string();
    assert!(error.contains(part), "{error}");
}

#[test]
fn one_of_several_gradients_at_a_time() {
    both(|| {
        let (x, y) = (
            v(&[2.0, 3.0]).requires_grad(),
            v(&[5.0, 7.0]).requires_grad(),
        );
        let loss = (&x * &y).sum(..);
        close(&grad(&loss, &[&x])[0], &[5.0, 7.0]);
        assert_eq!(loss.to_scalar::<f64>().unwrap(), 31.0);
        close(&grad(&loss, &[&y])[0], &[2.0, 3.0]);
    });
}

#[test]
fn what_the_loss_does_not_depend_on_has_zeros() {
    both(|| {
        let x = v(&[2.0, 3.0]).requires_grad();
        let others = [v(&[1.0, 2.0]).requires_grad(), x.detach(), v(&[1.0])];
        for other in others {
            let zeros = vec![0.0; other.numel()];
            close(&grad(&x.square().sum(..), &[&other])[0], &zeros);
            close(&other.grad(), &zeros);
        }
        // Functions that are flat but where they jump.
        close(&grad(&x.floor().sum(..), &[&x])[0], &[0.0, 0.0]);
    });
}

#[test]
fn a_models_gradient_within_no_grad() {
    both(|| {
        let model = vec![v(&[2.0]), v(&[3.0])];
        let loss = |m: &Vec<Tensor>| (&m[0] * &m[0] * &m[1]).sum(..);
        let (value, found) = no_grad(|| value_and_grad(&model, loss));
        close(&value.reshape(1), &[12.0]);
        close(&found[0], &[12.0]);
        close(&found[1], &[4.0]);
        assert!(!value.has_grad() && !found[0].has_grad());
        // Of parameters that require a gradient themselves, it is differentiated again.
        let outer = vec![v(&[2.0]).requires_grad(), v(&[3.0])];
        let (_, found) = value_and_grad(&outer, loss);
        close(&grad(&found[0].sum(..), &[&outer[0]])[0], &[6.0]);
    });
}

#[test]
fn an_intermediate_value_has_a_gradient() {
    both(|| {
        let x = v(&[2.0, 3.0]).requires_grad();
        let y = x.square();
        let loss = (&y * &x).sum(..);
        let found = grad(&loss, &[&y, &x]);
        close(&found[0], &[2.0, 3.0]);
        close(&found[1], &[12.0, 27.0]);
        fails(&y.grad(), "leaf");
    });
}

#[test]
fn what_cannot_be_differentiated_says_so() {
    both(|| {
        let x = v(&[2.0, 3.0]).requires_grad();
        fails(&grad(&x.square(), &[&x])[0], "one element");
        fails(&grad(&x.to_dtype(DType::I64).sum(..), &[&x])[0], "integers");
        let through = x.to_dtype(DType::I64).to_dtype(DType::F64).sum(..);
        fails(&grad(&through, &[&x])[0], "to_dtype");
        fails(&grad(&x.argmax(0).to_dtype(DType::F32), &[&x])[0], "argmax");
        fails(&v(&[1.0]).to_dtype(DType::I32).requires_grad(), "floats");
        let index = v(&[1.0]).to_dtype(DType::I64);
        fails(&grad(&x.sum(..), &[&index])[0], "floats");
        fails(
            &grad(&x.matmul(&v(&[1.0, 2.0, 3.0])).sum(..), &[&x])[0],
            "inner sizes",
        );
        assert!(v(&[1.0]).try_backward().is_err());
        x.square().backward();
        fails(&x.grad(), "one element");
        x.zero_grad();
        close(&x.grad(), &[0.0, 0.0]);
        // A mask is no way for a gradient, and no error beside one.
        let masked = (&x * x.gt(2.5).to_dtype(DType::F64)).sum(..);
        close(&grad(&masked, &[&x])[0], &[0.0, 1.0]);
    });
}

#[test]
fn a_backward_pass_ends_the_history() {
    both(|| {
        let x = v(&[2.0]).requires_grad();
        let loss = x.exp().square().sum(..);
        loss.backward();
        let error = loss
            .try_backward()
            .expect_err("the history has ended")
            .to_string();
        assert!(error.contains("earlier backward pass"), "{error}");
    });
}

#[test]
fn a_leaf_outside_of_a_traced_function() {
    let w = v(&[3.0]).requires_grad();
    let captured = w.clone();
    let step = jit(move |x: &Tensor| {
        let loss = (&captured * x).sum(..);
        loss.backward();
        loss
    });
    let loss = step.call(&v(&[2.0]));
    assert_eq!(loss.to_scalar::<f64>().unwrap(), 6.0);
    fails(&w.grad(), "outside");
}

#[test]
fn calls_of_traced_functions_are_differentiable() {
    let w = v(&[3.0]).requires_grad();
    let captured = w.clone();
    let f = jit(move |x: &Tensor| (&captured * x).square());
    for _ in 0..3 {
        let x = v(&[2.0]).requires_grad();
        let found = grad(&f.call(&x).sum(..), &[&x, &w]);
        close(&found[0], &[36.0]);
        close(&found[1], &[24.0]);
    }
    // Arguments that require none, and a step that makes leaves of its own, are replayed.
    let own = jit(|(x, w): (&Tensor, Tensor)| {
        let w = w.requires_grad();
        grad(&(x * &w).square().sum(..), &[&w]).remove(0)
    });
    let x = v(&[2.0]);
    let (_, stats) = stats_scope(|| {
        for _ in 0..5 {
            close(&own.call((&x, w.clone())), &[24.0]);
        }
    });
    assert!(stats.traces <= 1, "{} traces", stats.traces);
}

#[test]
fn long_chains_on_a_small_stack() {
    let run = || {
        both(|| {
            let x = v(&[1.0]).requires_grad();
            let mut y = x.clone();
            for _ in 0..30_000 {
                y = &y * 1.0001;
            }
            let loss = y.sum(..);
            let expected = 1.0001f64.powi(30_000);
            close(&grad(&loss, &[&x])[0], &[expected]);
        });
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(run);
    thread.expect("a thread").join().expect("passes");
}

#[test]
fn checkpoints_give_the_same_gradients_and_more() {
    both(|| {
        let (x, w) = (
            v(&[0.3, -0.7]).requires_grad(),
            v(&[1.5, 0.5]).requires_grad(),
        );
        let block = |x: &Tensor| (x * &w).tanh() * x.exp();
        let plain = |x: &Tensor| block(&block(&block(x))).square().sum(..);
        let kept = |x: &Tensor| {
            let y = checkpoint(|| block(x));
            let y = checkpoint(|| block(&checkpoint(|| block(&y))));
            y.square().sum(..)
        };
        let (a, b) = (grad(&plain(&x), &[&x, &w]), grad(&kept(&x), &[&x, &w]));
        for (a, b) in a.iter().zip(&b) {
            close(b, &a.to_vec::<f64>().unwrap());
        }
        let second = |first: &[Tensor]| grad(&(&first[0] * &first[1]).sum(..), &[&x, &w]);
        for (a, b) in second(&a).iter().zip(&second(&b)) {
            close(b, &a.to_vec::<f64>().unwrap());
        }
        // The same numbers are drawn again.
        let y = checkpoint(|| x.dropout(0.5) * &x);
        let slope = grad(&y.sum(..), &[&x]).remove(0).to_vec::<f64>().unwrap();
        let drawn = y.to_vec::<f64>().unwrap();
        let x = x.to_vec::<f64>().unwrap();
        for i in 0..2 {
            assert!((slope[i] * x[i] - 2.0 * drawn[i]).abs() < 1e-12);
        }
    });
}

#[test]
fn checkpoints_keep_less() {
    with_mode(Mode::Eager, || {
        let x = Tensor::ones([1 << 16], DType::F32, &Device::cpu()).requires_grad();
        let block = |x: &Tensor| x.sin().exp().cos().exp().sin().exp();
        let held = |f: &dyn Fn(&Tensor) -> Tensor| {
            let (y, stats) = stats_scope(|| f(&x));
            drop(y);
            stats.live_bytes
        };
        let (whole, less) = (held(&block), held(&|x| checkpoint(|| block(x))));
        assert!(less * 3 <= whole, "{less} of {whole} bytes");
    });
}

#[test]
fn gradients_of_the_programs_own() {
    both(|| {
        let double = custom_grad(
            |x: &[&Tensor]| x[0] * 2.0 + x[1],
            |x, y, g| vec![g * x[0], g * y],
        );
        let (a, b) = (v(&[3.0]).requires_grad(), v(&[4.0]).requires_grad());
        let y = double(&[&a, &b]);
        close(&y, &[10.0]);
        let found = grad(&y.sum(..), &[&a, &b]);
        close(&found[0], &[3.0]);
        close(&found[1], &[10.0]);
        close(&grad(&found[0].sum(..), &[&a])[0], &[1.0]);
        let wrong = custom_grad(
            |x: &[&Tensor]| x[0] * 2.0,
            |_, _, g| vec![g.sum_keepdim(..).repeat(&[3])],
        );
        fails(&grad(&wrong(&[&a]).sum(..), &[&a])[0], "custom_grad");
        let few = custom_grad(|x: &[&Tensor]| x[0] * 2.0, |_, _, _| Vec::new());
        fails(&grad(&few(&[&a]).sum(..), &[&a])[0], "0 gradients");
    });
}

#[test]
fn the_first_number_that_is_none_is_named() {
    let x = v(&[0.0, 4.0]).requires_grad();
    let fine = detect_anomaly(|| grad(&x.square().sum(..), &[&x]).remove(0));
    close(&fine, &[0.0, 8.0]);
    let found = detect_anomaly(|| grad(&x.sqrt().sum(..), &[&x]).remove(0));
    fails(&found, "sqrt");
    fails(&found, "history.rs");
    fails(&detect_anomaly(|| x.log().sum(..)), "log");
}

#[test]
fn windows_of_one_tensor() {
    both(|| {
        let x = v(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).requires_grad();
        let table = x.reshape([3, 2]);
        let parts =
            table.select(0, 0) * 2.0 + table.select(0, -1) * table.narrow(0, 1, 1).select(0, 0);
        let every = table.slice(0, 0, isize::MAX, 2);
        close(
            &grad(&(parts.sum(..) + every.square().sum(..)), &[&x])[0],
            &[4.0, 6.0, 5.0, 6.0, 13.0, 16.0],
        );
    });
}

#[test]
fn a_recurrence_over_rows_costs_its_rows() {
    let work = |steps: usize| {
        let x = Tensor::ones([steps, 64, 64], DType::F32, &Device::cpu()).requires_grad();
        let run = || {
            let mut h = Tensor::zeros([64, 64], DType::F32, &Device::cpu());
            for t in 0..steps as isize {
                h = (h * 0.5 + x.select(0, t)).tanh();
            }
            grad(&h.sum(..), &[&x]).remove(0).eval().unwrap();
        };
        run();
        stats_scope(run).1.bytes_allocated
    };
    let (short, long) = (work(20), work(80));
    assert!(long <= short * 6, "{short} bytes of 20 steps, {long} of 80");
}
